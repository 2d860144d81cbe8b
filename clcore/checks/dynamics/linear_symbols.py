"""The dual linear network in symbols: its loss, gradient and steps, for small sizes (ncl App. C.1).

For the parts of `linear_step` and `linear_schedules` that can be proved, in addition to draws.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import sympy
from sympy import Matrix, Symbol

from clcore.ledger import exact

Law = Sequence[tuple[Matrix, Any]]
"""Values of a random vector with their probabilities."""

ALPHA = sympy.Symbol("alpha", real=True)
"""The chance that a mask keeps an entry."""
P_Z = sympy.Symbol("p_z", real=True)
"""The chance of 1, and of -1, in a latent."""
SIGMA = sympy.Symbol("sigma", real=True)
"""sigma_0, the standard deviation of the noise."""
ETA, DECAY = sympy.symbols("eta lambda", real=True)  # the step, and the weight decay


class Small(NamedTuple):
    """W^o, W^t (1, 2), and an M (2, 1) of norm one, for every direction but one."""

    online: Matrix
    target: Matrix
    M: Matrix


@cache
def small() -> Small:
    """One neuron, two inputs, one atom."""
    t = Symbol("t", real=True)
    M = Matrix([(1 - t**2) / (1 + t**2), 2 * t / (1 + t**2)])
    return Small(exact.matrix("o", 1, 2), exact.matrix("w", 1, 2), M)


def samples() -> Law:
    """Two samples in the plane, any two, with any probabilities."""
    q = Symbol("q", real=True)
    return [(exact.vector("x", 2), q), (exact.vector("y", 2), 1 - q)]


def latents(d: int, binary: bool = False) -> Law:
    """All z: -1, 1 with probability p_z each; binary: 1 with twice that."""
    share = {0: 1 - 2 * P_Z, 1: P_Z, -1: P_Z} if not binary else {0: 1 - 2 * P_Z, 1: 2 * P_Z}
    return [(Matrix(z), sympy.prod(share[v] for v in z)) for z in product(share, repeat=d)]


def data(M: Matrix, binary: bool = False) -> Law:
    """x = M z + noise. The noise takes the values +-sigma sqrt(p) e_k, which has its mean and its
    covariance: enough for what is quadratic in x."""
    p = M.rows
    steps = [s * SIGMA * sympy.sqrt(p) * sympy.eye(p)[:, k] for k in range(p) for s in (1, -1)]
    return [(M * z + step, q / len(steps)) for z, q in latents(M.cols, binary) for step in steps]


def loss(
    online: Matrix, target: Matrix, law: Law, act: Callable = lambda u: u, same: bool = False
) -> Any:
    """Eq. 12 over all samples and both masks, which are independent. `act` follows the linear
    layer; `same` wrongly takes one mask for both views."""
    p = online.cols
    masks = [
        (sympy.diag(*kept), ALPHA ** sum(kept) * (1 - ALPHA) ** (p - sum(kept)))
        for kept in product((0, 1), repeat=p)
    ]

    zero, overlap = sympy.zeros(online.rows, 1), 0
    for x, weight in law:
        first, second = (
            [share * (W * D * x).applyfunc(act) for D, share in masks] for W in (online, target)
        )
        if same:
            pairs = zip(first, second, masks, strict=True)
            overlap += weight * sum(u.dot(v) / share for u, v, (_, share) in pairs)
        else:
            overlap += weight * sum(first, zero).dot(sum(second, zero))
    return 2 - 2 * overlap


def gradient(value: Any, by: Matrix) -> Matrix:
    """d value / d by, of the shape of `by`."""
    return Matrix(by.rows, by.cols, [sympy.diff(value, entry) for entry in by])


@cache
def gaussian_moments() -> tuple[Any, Any]:
    """Mean and variance of a standard normal, by integration."""
    x = Symbol("x", real=True)
    density = sympy.exp(-(x**2) / 2) / sympy.sqrt(2 * sympy.pi)
    whole = (x, -sympy.oo, sympy.oo)
    return sympy.integrate(x * density, whole), sympy.integrate(x**2 * density, whole)


def second_moment(law: Law) -> Matrix:
    """E[x x^T]."""
    return sum((weight * x * x.T for x, weight in law), sympy.zeros(law[0][0].rows))


def steps(count: int) -> tuple[list[Symbol], list[Symbol]]:
    """c_t and lambda_t of `count` steps."""
    c, lam = (list(sympy.symbols(f"{name}:{count}", real=True)) for name in ("c", "lambda"))
    return c, lam


def trajectory(
    A: Any, B: Any, c: Sequence, lam: Sequence, alternating: bool = False
) -> list[tuple[Any, Any]]:
    """An entry of W^o_t M and W^t_t M by the recursion of one step (ncl/thm2-step), which acts on
    each entry by itself; alternating: the target moves after the online network."""
    path = [(A, B)]
    for step, decay in zip(c, lam, strict=True):
        moved = decay * A + step * B
        A, B = moved, decay * B + step * (moved if alternating else A)
        path.append((sympy.expand(A), sympy.expand(B)))
    return path


def shared(c: Sequence, lam: Sequence, first: int = 1) -> Any:
    """C_2: the sum over j of c_j prod_{i >= j + first} (lambda_i - c_i) prod_{i < j} (lambda_i +
    c_i); the paper prints first = 0."""
    return sum(terms(c, lam, first))


def terms(c: Sequence, lam: Sequence, first: int = 1) -> list[Any]:
    """The terms of C_2, one per step."""
    minus = [a - b for a, b in zip(lam, c, strict=True)]
    plus = [a + b for a, b in zip(lam, c, strict=True)]
    return [c[j] * sympy.prod(minus[j + first :]) * sympy.prod(plus[:j]) for j in range(len(c))]


def sum_is_product(
    A: sympy.Symbol, B: sympy.Symbol, T: int, alternating: bool = False
) -> exact.Shown:
    """Whether the sum after T steps is the product of lambda + c, times the first."""
    c_, decay = steps(T)
    end = trajectory(A, B, c_, decay, alternating)[-1]
    factors = sympy.prod(x + y for x, y in zip(decay, c_, strict=True))
    return exact.equal(sum(end), factors * (A + B))


def online_path(T: int) -> tuple[list, sympy.Expr]:
    """An entry of W^o_t M for t = 0..T by the recursion of one step, and of the starts' sum."""
    A, B = sympy.symbols("A B", real=True)
    return [pair[0] for pair in trajectory(A, B, *steps(T))], A + B


def rising(
    shows: Callable, first: int, edge: Any = None, of: Callable = lambda each: each, T: int = 3
) -> exact.Shown:
    """Whether every derivative by a lambda of what `of` makes of the terms is positive (or not
    negative, by `shows`), at lambda_i = c_i + u_i, u_i > 0; edge: at lambda_1 = (1 + edge) c_1."""
    c, lam = steps(T)
    low, above = (list(sympy.symbols(f"{name}:{T}", positive=True)) for name in "cu")
    gaps = above if edge is None else [above[0], edge * low[1], *above[2:]]
    at = {c[i]: low[i] for i in range(T)} | {lam[i]: low[i] + gaps[i] for i in range(T)}
    slopes = [sympy.diff(value, v).subs(at) for value in of(terms(c, lam, first)) for v in lam]
    return shows(slopes, [sympy.expand(slope) for slope in slopes])


def scalars(c: Sequence, lam: Sequence) -> tuple[Any, Any]:
    """C_1 and C_2 as the recursion gives them: from W^o = 1, W^t = 0 the target is C_2 and the
    difference C_1."""
    online, target = trajectory(sympy.Integer(1), sympy.Integer(0), c, lam)[-1]
    return online - target, target
