"""Theorem 1's setting of ncl in symbols, for exact proofs: W, ReLU, masks and losses at small d.

One-hot latents, M = I, no noise. Expectations are sums over every mask, written as the paper
defines them; no closed form stands here.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product

import sympy

from clcore.ledger import exact

Act = Callable[[sympy.Matrix], sympy.Matrix]
Mask = tuple[int, ...]

ALPHA, TAU = sympy.symbols("alpha tau", positive=True)
AT = "d = 2"
ANY = exact.matrix("w", 2, 2)
"""W of any signs."""


def nonnegative(name: str, rows: int, columns: int) -> sympy.Matrix:
    """A matrix of symbols that are at least 0."""
    return sympy.Matrix(
        rows, columns, lambda k, j: sympy.Symbol(f"{name}_{k}_{j}", nonnegative=True)
    )


POSITIVE = nonnegative("w", 2, 2)
"""W >= 0."""
SIGNED = sympy.Matrix([-POSITIVE[0, 0], *POSITIVE[1:]]).reshape(2, 2)
"""W with one entry at most 0: what proofs for W >= 0 break."""


@cache
def _rectified(x: sympy.Expr) -> sympy.Expr:
    return sympy.Max(x, 0).rewrite(sympy.Abs)


def relu(v: sympy.Matrix) -> sympy.Matrix:
    """max(x, 0) of every entry, which sympy writes as (x + |x|) / 2 where the sign is open."""
    return v.applyfunc(_rectified)


def identity(v: sympy.Matrix) -> sympy.Matrix:
    """No ReLU: what several proofs break."""
    return v


def masks(d: int) -> list[Mask]:
    """All 2^d diagonals."""
    return list(product((0, 1), repeat=d))


def chance(*diagonals: Mask, keep: sympy.Expr = ALPHA) -> sympy.Expr:
    """The probability of independent masks whose entries are i.i.d. Bernoulli(keep)."""
    return sympy.prod(keep if bit else 1 - keep for D in diagonals for bit in D)


def view(W: sympy.Matrix, D: Mask, i: int, act: Act = relu) -> sympy.Matrix:
    """act(W D e_i)."""
    return _view(sympy.ImmutableMatrix(W), D, i, act)


@cache
def _view(W: sympy.ImmutableMatrix, D: Mask, i: int, act: Act) -> sympy.Matrix:
    e = sympy.eye(W.cols)[:, i]
    return act(W * sympy.diag(*D) * e)


def similarity(W: sympy.Matrix, i: int, D1: Mask, j: int, D2: Mask, act: Act = relu) -> sympy.Expr:
    """<act(W D_1 e_i), act(W D_2 e_j)>."""
    return view(W, D1, i, act).dot(view(W, D2, j, act))


def lost(W: sympy.Matrix, j: int) -> sympy.Expr:
    """What ReLU takes from |W_j|^2: the squares of the column's negative entries."""
    return sum(x**2 for x in relu(-W[:, j]))


def square(v: sympy.Matrix) -> sympy.Expr:
    """|v|^2."""
    return sum(x**2 for x in v)


def expected(W: sympy.Matrix, j: int, act: Act = relu) -> sympy.Expr:
    """E over both masks of the similarity of the two views of e_j."""
    seen = [(D, view(W, D, j, act)) for D in masks(W.cols)]
    return sum(chance(D1, D2) * u.dot(v) for (D1, u), (D2, v) in product(seen, repeat=2))


def non_contrastive(W: sympy.Matrix, act: Act = relu, signs: Sequence[int] = (1,)) -> sympy.Expr:
    """Eq. 6 at W_o = W_t = W, x uniform on e_j, or on all s e_j with s in `signs`."""
    points = [(j, sign) for j in range(W.cols) for sign in signs]
    return 2 - 2 * sum(expected(sign * W, j, act) for j, sign in points) / len(points)


def on_unit_columns(
    value: Callable[[sympy.Matrix], sympy.Expr], V: sympy.Matrix, length: sympy.Expr = sympy.S.One
) -> sympy.Expr:
    """value(W) at W_j = V_j / |V_j|, which is every W of U; `length` times that if given.

    |V_j| is a positive symbol until ReLU has been taken.
    """
    r = exact.vector("r", V.cols, positive=True)
    W = sympy.Matrix(V.rows, V.cols, lambda k, j: length * V[k, j] / r[j])
    return value(W).subs({r[j]: sympy.sqrt(square(V[:, j])) for j in range(V.cols)})
