"""Pre-activations near a warm start in symbols (ncl Eqs. 23, 24, regions), M = I."""

from collections.abc import Sequence
from itertools import product

import sympy
from sympy import Expr, Matrix

from clcore.ledger import exact


def act(u: Expr, b: Expr) -> sympy.Symbol:
    """What the activation makes of u with bias b: one symbol for each pair, so that what is shown
    holds for Eq. 14 and for any other that acts on each coordinate."""
    return sympy.Symbol(f"S({sympy.expand(u)}, {b})", real=True)


def crosstalk(delta: Matrix, i: int, mask: Sequence, z: Sequence, eps: Matrix) -> Expr:
    """c_b of Assumption 3, the mask's index in its one meaning."""
    d = delta.rows
    others = sum(delta[i, j] * mask[j] * z[j] for j in range(d) if j != i)
    return others + sum((int(i == j) + delta[i, j]) * mask[j] * eps[j] for j in range(d))


def split(own_counted: bool = False, d: int = 2) -> exact.Shown:
    """Row 1 of (I + Delta) D (z + eps), for all latents and masks, minus (1 + Delta_11) D_11 z_1:
    that is c_b. own_counted: against c_b with the sum over every l."""
    delta, eps = exact.matrix("D", d, d), exact.vector("e", d)
    ours, printed = [], []
    for z, mask in product(product((-1, 0, 1), repeat=d), product((0, 1), repeat=d)):
        seen = ((sympy.eye(d) + delta) * sympy.diag(*mask) * (Matrix(z) + eps))[0]
        ours.append(seen - (1 + delta[0, 0]) * mask[0] * z[0])
        more = delta[0, 0] * mask[0] * z[0] if own_counted else 0
        printed.append(crosstalk(delta, 0, mask, z, eps) + more)
    return exact.equal(ours, printed)


def regions(below: bool = False, wide: bool = False) -> exact.Shown:
    """The signs of the three cases for c = k and c = -k, k >= 0: b = k + m above |c|, or `below`;
    1 + Delta = b + k + u above b + |c|, or, `wide`, 1 = b + k + u and Delta of any sign, which is
    the interval of Assumption 3 without b = o(1)."""
    k = sympy.Symbol("k", nonnegative=True)
    m, u = sympy.symbols("m u", positive=True)
    b = k - m if below else k + m
    size = b + k + u + (sympy.Symbol("D", real=True) if wide else 0)
    gaps: list[Expr] = []
    for c in (k, -k):
        # Above b where D_ii z_i is 1, below -b where it is -1, else in (-b, b).
        gaps += [(size + c) - b, -b - (-size + c), b - c, c + b]
    return exact.positive(gaps, [sympy.expand(gap) for gap in gaps])


def rows(own: int = 1, masks: int = 2, d: int = 2) -> exact.Shown:
    """2 - 2 <SReLU, SReLU> as matrices against the sum over neurons with pre-activations in Delta,
    on two samples. own 0: Delta_ii left out; masks 1: the target behind the online network's mask.
    """
    delta = [exact.matrix(f"D{k}", d, d) for k in "ot"]
    b = [exact.vector(f"b{k}", d) for k in "ot"]
    whole, summed = sympy.Integer(2), sympy.Integer(2)
    for sample in "12":
        chance = sympy.Symbol(f"p{sample}", real=True)
        x = exact.vector(f"z{sample}", d) + exact.vector(f"e{sample}", d)
        D = [exact.vector(f"m{k}{sample}", d) for k in range(2)]
        out = [(sympy.eye(d) + delta[k]) * sympy.diag(*D[k]) * x for k in range(2)]
        whole -= 2 * chance * _acted(out[0], b[0]).dot(_acted(out[1], b[1]))
        for i in range(d):
            term = -2 * chance
            for k in range(2):
                at = D[k] if masks == 2 else D[0]
                pre = (1 + own * delta[k][i, i]) * at[i] * x[i]
                pre += sum(delta[k][i, j] * at[j] * x[j] for j in range(d) if j != i)
                term *= act(pre, b[k][i])
            summed += term
    return exact.equal(whole, summed)


def _acted(out: Matrix, b: Matrix) -> Matrix:
    return Matrix([act(u, bias) for u, bias in zip(out.flat(), b.flat(), strict=True)])
