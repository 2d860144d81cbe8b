"""What is proved of power iteration beside the draws (nl Sec. 3.3, App. B.4 and G).

In the eigenbasis of A, which is positive semidefinite: d = 3, lambda_2 and lambda_3 over lambda_1
are r_3 + g and r_3; a unit vector with c > 0 is (1, p, q) over its length n, so that c = 1 / n.
"""

import sympy
from mpmath import iv
from sympy import Matrix, Rational

from clcore.ledger import Part, exact

AT = "d = 3"
P, Q = sympy.symbols("p q", real=True)
R3, G = sympy.symbols("r_3 g", nonnegative=True)
R2 = R3 + G
n = sympy.sqrt(1 + P**2 + Q**2)
C = 1 / n
W = Matrix([C, P * C, Q * C])
IMAGE = Matrix([C, R2 * P * C, R3 * Q * C])
"""A w over lambda_1."""
GROWN = P**2 * R2**2 + Q**2 * R3**2
Y = sympy.sqrt(1 + GROWN)
"""1 / d_t: the length of A w, over lambda_1 c."""
MU = (1 + C) / (2 * C**2) * R2**2
SQUARE = R2**2 * (1 / C**2 - 1)
"""The square in Eqs. 184 to 186."""
TANGENT = (Y - 1) ** 2 * (Y + 2) / (2 * Y)
"""What 1 / y is above its tangent in y^2 at 1: 1 / y - 1 + (y^2 - 1) / 2."""
REST = (2 * G * R3 + G**2) * Q**2
"""(lambda_2^2 - lambda_3^2) a_3^2, over lambda_1^2 c^2."""


def _d(factor: int = 1) -> sympy.Expr:
    """d_t = phi_1^T A w / |A w|."""
    length = sympy.sqrt(IMAGE.dot(IMAGE))
    return IMAGE[0] / length
