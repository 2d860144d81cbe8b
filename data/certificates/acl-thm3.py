# Theorem 3, Sec. 4.3: for n_1 = 1 its hypothesis lets a local maximum with W_{>1} = 0 through
from sympy import Matrix, cos, diag, pi, simplify, sin, solve, symbols

a, b, c, u, v, p, q = symbols("a b c u v p q", real=True)  # a, b, c: all unit weights of 2-1-2-1
W1, W2, W3 = Matrix([[sin(a), cos(a)]]), Matrix([cos(b), sin(b)]), Matrix([[sin(c), cos(c)]])
E = (W3 * W2 * W1 * diag(1, -1) * (W3 * W2 * W1).T)[0]  # X_alpha = diag(1, -1); lambda_max = 1
at_0 = E.subs({a: 0, b: 0, c: 0})
assert simplify(E + cos(2 * a) * sin(b + c) ** 2) == 0 and at_0 == 0
print("printed: E = -cos(2a) sin(b+c)^2 <= 0 near a=b=c=0, so a local maximum: E =", at_0, "< 1")
# With u = sin(2a), v = cos(2a), p = sin(b+c), q = cos(b+c), grad E = 0 is u p^2 = v p q = 0.
roots = solve([u * p**2, v * p * q, u**2 + v**2 - 1, p**2 + q**2 - 1], [u, v, p, q])
values = sorted({-r[1] * r[2] ** 2 for r in roots if r[2] != 0})
print("corrected: where sin(b+c)^2 > 0, critical points have E =", *values, "(-1 is no maximum)")
assert values == [-1, 1] and E.diff(a, 2).subs({a: 0, b: 0, c: pi / 2}) > 0
