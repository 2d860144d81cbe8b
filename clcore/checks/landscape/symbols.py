"""Theorem 1's setting of ncl in symbols, for exact proofs: W, ReLU, masks and losses at small d.

One-hot latents, M = I, no noise. Expectations are sums over every mask, written as the paper
defines them; no closed form stands here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any

import sympy

from clcore.ledger import exact

Act = Callable[[sympy.MatrixBase], sympy.MatrixBase]
Mask = tuple[int, ...]

ALPHA = sympy.Symbol("alpha", positive=True)
"""The chance that a mask keeps an entry."""
TAU = sympy.Symbol("tau", positive=True)
"""What Eq. 8 multiplies similarities by."""
AT = "d = 2"
ANY = exact.matrix("w", 2, 2)
"""W of any signs."""


def nonnegative(name: str, rows: int, columns: int) -> sympy.MatrixBase:
    """A matrix of symbols that are at least 0."""
    return sympy.Matrix(
        rows, columns, lambda k, j: sympy.Symbol(f"{name}_{k}_{j}", nonnegative=True)
    )


POSITIVE = nonnegative("w", 2, 2)
"""W >= 0."""
SIGNED = sympy.Matrix([-POSITIVE[0, 0], *POSITIVE[1:]]).reshape(2, 2)
"""W with one entry at most 0: what proofs for W >= 0 break."""


_rectified = cache(lambda x: sympy.Max(x, 0).rewrite(sympy.Abs))


def relu(v: sympy.MatrixBase) -> sympy.MatrixBase:
    """max(x, 0) of every entry, which sympy writes as (x + |x|) / 2 where the sign is open."""
    return v.applyfunc(_rectified)


def identity(v: sympy.MatrixBase) -> sympy.MatrixBase:
    """No ReLU: what several proofs break."""
    return v


def masks(d: int) -> list[Mask]:
    """All 2^d diagonals."""
    return list(product((0, 1), repeat=d))


@cache
def chance(*diagonals: Mask, keep: sympy.Expr = ALPHA) -> sympy.Expr:
    """The probability of independent masks whose entries are i.i.d. Bernoulli(keep)."""
    return sympy.prod(keep if bit else 1 - keep for D in diagonals for bit in D)


def view(W: sympy.MatrixBase, D: Mask, i: int, act: Act = relu) -> sympy.MatrixBase:
    """act(W D e_i)."""
    return act(W[:, i] * D[i])


def similarity(
    W: sympy.MatrixBase, i: int, D1: Mask, j: int, D2: Mask, act: Act = relu
) -> sympy.Expr:
    """<act(W D_1 e_i), act(W D_2 e_j)>."""
    return view(W, D1, i, act).dot(view(W, D2, j, act))


def lost(W: sympy.MatrixBase, j: int) -> sympy.Expr:
    """What ReLU takes from |W_j|^2: the squares of the column's negative entries."""
    return sum(x**2 for x in relu(-W[:, j]))


def square(v: sympy.MatrixBase) -> sympy.Expr:
    """|v|^2."""
    return sum(x**2 for x in v)


def expected(W: sympy.MatrixBase, j: int, act: Act = relu) -> sympy.Expr:
    """E over both masks of the similarity of the two views of e_j."""
    seen = [(D, view(W, D, j, act)) for D in masks(W.cols)]
    return sum(chance(D1, D2) * u.dot(v) for (D1, u), (D2, v) in product(seen, repeat=2))


def non_contrastive(
    W: sympy.MatrixBase, act: Act = relu, signs: Sequence[int] = (1,)
) -> sympy.Expr:
    """Eq. 6 at W_o = W_t = W, x uniform on e_j, or on all s e_j with s in `signs`."""
    points = [(j, sign) for j in range(W.cols) for sign in signs]
    each = (expected(sign * W, j, act) for j, sign in points)
    return 2 - 2 * sum(each, sympy.S.Zero) / len(points)


def on_unit_columns(
    value: Callable[[sympy.Matrix], sympy.Expr],
    V: sympy.MatrixBase,
    length: sympy.Expr = sympy.S.One,
) -> sympy.Expr:
    """value(W) at W_j = V_j / |V_j|, which is every W of U; `length` times that if given.

    |V_j| is a positive symbol until ReLU has been taken.
    """
    r = exact.vector("r", V.cols, positive=True)
    W = sympy.Matrix(V.rows, V.cols, lambda k, j: length * V[k, j] / r[j])
    return value(W).subs({r[j]: sympy.sqrt(square(V[:, j])) for j in range(V.cols)})


# --------------------------------------------------------------------- the contrastive loss

Kernel = Callable[[int, Mask, int, Mask], sympy.Expr]
"""exp(tau <ReLU(W D e_i), ReLU(W D' e_j)>), of (i, D, j, D')."""


def kernel(W: sympy.MatrixBase, tau: sympy.Expr = TAU) -> Kernel:
    """The kernel of weights W."""
    return cache(lambda i, D1, j, D2: sympy.exp(tau * similarity(W, i, D1, j, D2)))


def rectified_powers(W: sympy.MatrixBase, base: sympy.Expr) -> sympy.MatrixBase:
    """X_ij = base^<ReLU(W_i), ReLU(W_j)>, for `powers`; base = e^tau."""
    R = relu(W)
    return (R.T * R).applyfunc(lambda x: base**x)


def powers(X: sympy.MatrixBase) -> Kernel:
    """The kernel from X_ij = exp(tau <ReLU(W_i), ReLU(W_j)>): X_ij where both masks keep their
    entries, else 1, as `similarities` proves."""
    return lambda i, D1, j, D2: X[i, j] ** (D1[i] * D2[j])


@cache
def similarities(rectified: bool = True) -> exact.Shown:
    """Whether the similarity at all i, j and masks is D_ii D'_jj <ReLU(W_i), ReLU(W_j)>, at any W;
    `rectified`: it has the ReLU, as it should."""
    cases: list[Any] = list(product(range(2), masks(2), repeat=2))
    W, act = (ANY, relu) if rectified else (SIGNED, identity)
    R = relu(W)
    wanted = [D1[i] * D2[j] * R[:, i].dot(R[:, j]) for i, D1, j, D2 in cases]
    return exact.equal([similarity(W, *case, act) for case in cases], wanted)


_factored = cache(sympy.factor)


def weighted(
    terms: Iterable[tuple[sympy.Expr, Any]], value: Callable[[Any], sympy.Expr] = lambda x: x
) -> sympy.Expr:
    """The sum of weight times value(x) over (weight, x); weights of one x are added up first."""
    total: dict[Any, sympy.Expr] = {}
    for weight, x in terms:
        total[x] = total.get(x, sympy.S.Zero) + weight
    return sum((_factored(w) * value(x) for x, w in total.items()), sympy.S.Zero)


def surrogate(k: Kernel, keep: sympy.Expr = ALPHA, d: int = 2) -> sympy.Expr:
    """Eq. 16: the sum over anchors of E -log of the softmax, every point under its own mask."""

    def terms() -> Iterator[tuple[sympy.Expr, Any]]:
        cases: list[Any] = list(product(range(d), *[masks(d)] * (d + 1)))
        for i, D1, *D2 in cases:
            yield chance(D1, *D2, keep=keep), (i, *(k(i, D1, j, D2[j]) for j in range(d)))

    return weighted(terms(), lambda x: -sympy.log(x[1 + x[0]] / sum(x[1:])))


def limit(k: Kernel, keep: sympy.Expr = ALPHA, own: bool = False, d: int = 2) -> sympy.Expr:
    """Eq. 8 for many negatives minus log B, by the display before Eq. 15. `own`: negatives are any
    point, the anchor's included."""

    def terms() -> Iterator[tuple[sympy.Expr, Any]]:
        for i, D1 in product(range(d), masks(d)):
            pool = [(j, D3) for j in range(d) if own or j != i for D3 in masks(d)]
            points = sympy.Integer(len(pool)) / 2**d
            mean = sum(chance(D3, keep=keep) * k(i, D1, j, D3) for j, D3 in pool) / points
            yield chance(D1, keep=keep) / d, sympy.expand(mean)
            for D2 in masks(d):
                yield chance(D1, D2, keep=keep) / d, 1 / k(i, D1, i, D2)

    return weighted(terms(), sympy.log)


def proof_bound(
    g: Callable[[int, Mask, Mask], sympy.Expr], keep: sympy.Expr = ALPHA, d: int = 2
) -> sympy.Expr:
    """The right side of Eq. 20 for a g of (i, D_1, D_2)."""
    pairs = product(range(d), masks(d), masks(d))
    terms = ((chance(D1, D2, keep=keep), g(i, D1, D2)) for i, D1, D2 in pairs)
    return weighted(terms, lambda x: -sympy.log(1 / (1 + (d - 1) / x)))


def traces(i: int, D1: Mask, D2: Mask) -> sympy.Expr:
    """g as it is typeset."""
    return sympy.exp(TAU * sum(D1) * sum(D2))


def entries(i: int, D1: Mask, D2: Mask) -> sympy.Expr:
    """g as Eq. 18 gives it."""
    return sympy.exp(TAU * D1[i] * D2[i])


def merged(value: sympy.Expr) -> Any:
    """A value with every logarithm of a fraction as a difference of logarithms."""
    return value.replace(sympy.log, _merged)


@cache
def _merged(x: sympy.Expr) -> sympy.Expr:
    return sympy.expand_log(sympy.log(sympy.factor(sympy.together(x))))


# Of W in U the contrastive losses see s_i = |ReLU(W_i)|^2 in [0, 1] and g = <ReLU(W_1), ReLU(W_2)>
# >= 0 alone (Eqs. 17 to 19). With T = e^tau = 1 + t the kernel's powers are e^(tau s_i) =
# T / (1 + h_i) and e^(tau g) = 1 + e, where h_i, e >= 0 are 0 at s_i = 1, g = 0, as permutations
# have it.
T = 1 + sympy.Symbol("t", positive=True)  # e^tau
E = sympy.Symbol("e", nonnegative=True)  # e^(tau g) - 1 of the overlap g
SHORT = nonnegative("h", 2, 1)  # h_i = T e^(-tau s_i) - 1 of the squared norms s_i
B = sympy.Symbol("b", nonnegative=True)
KEEP = 1 / (1 + B)
"""alpha, in (0, 1]."""
DROP = B / (1 + B)
"""1 - alpha."""
IN_U = sympy.Matrix([[T / (1 + SHORT[0]), 1 + E], [1 + E, T / (1 + SHORT[1])]])
"""e^(tau <ReLU(W_i), ReLU(W_j)>) of W in U, d = 2."""
AT_P = sympy.Matrix([[T, 1], [1, T]])
"""e^(tau <P_i, P_j>) of a permutation P, d = 2."""


@cache
def surrogate_gap() -> sympy.Expr:
    """Eq. 16 at W minus its value at permutations, d = 2."""
    return merged(surrogate(powers(IN_U), KEEP)) - merged(surrogate(powers(AT_P), KEEP))


def surrogate_excess() -> sympy.Expr:
    """What that gap is found to be: every term at least 0, and all of them 0 at h = e = 0 alone."""
    short = [sympy.log(1 + h / (1 + T)) for h in SHORT]
    both = [sympy.log(1 + (E + h + E * h) / (1 + T)) for h in SHORT]
    return sum(
        KEEP**3 * b + KEEP**2 * DROP * (s + sympy.log(1 + E / 2))
        for s, b in zip(short, both, strict=True)
    )


def nonnegative_logs(value: sympy.Expr, form: sympy.Expr) -> exact.Shown:
    """`exact.nonnegative` of a `merged` value: the form's logarithms of fractions, which show its
    sign, are merged as well for the comparison."""
    return exact.nonnegative(value + (form - merged(form)), form)


@cache
def surrogate_rises(overlaps: bool = True) -> exact.Shown:
    """Eq. 16 is least at permutations, by the excess that it has elsewhere; not shown by one that
    leaves overlaps out."""
    excess = surrogate_excess()
    return nonnegative_logs(surrogate_gap(), excess if overlaps else excess.subs(E, 0))


@cache
def limit_rises(own: bool = False) -> exact.Shown:
    """The limit of Eq. 8 is least at permutations; not shown where negatives may be the anchor's
    point."""
    at_w, at_p = (merged(limit(powers(X), KEEP, own)) for X in (IN_U, AT_P))
    excess = sum(KEEP * sympy.log(1 + KEEP * E) + KEEP**2 * sympy.log(1 + h) for h in SHORT) / 2
    return nonnegative_logs(at_w - at_p, excess)
