"""What is shown of mixtures and of the binary latent model in symbols (acl Sec. 5.3, App. B)."""

from itertools import product
from typing import Any

import numpy as np
import sympy

from clcore.ledger import exact
from clcore.ledger import polynomials as poly

Proof = dict[str, Any]
"""What `Part.proves` takes."""

FIELDS = "two fields of two features"


def weak_energies() -> Proof:
    """Eq. 70 and the next line: s^T W1 X W1^T s under D_aug = diag(D_V). The salient feature of
    either field is its first, and of the two that of the first field is the larger."""
    d, p1 = exact.matrix("Delta", 2, 2), sympy.Symbol("p_1", real=True)
    p = p1 * (1 - p1)
    flat = sympy.Matrix(d.flat())
    blocks = [sympy.Matrix(2, 2, sympy.symbols(f"a{k} b{k} b{k} c{k}", real=True)) for k in (0, 1)]
    within = sympy.diag(*blocks)
    x = p * flat * flat.T + within - sympy.diag(*within.diagonal())
    a = d[0, 0] ** 2 + d[1, 0] ** 2
    w = sympy.Matrix([[1, 0, 0, 0], [0, 0, 1, 0]]) / sympy.sqrt(2)
    s = sympy.Matrix([d[0, 0], d[1, 0]]) / sympy.sqrt(a)
    whole = (s.T * w * x * w.T * s)[0]
    single = sympy.Matrix([1, 0, 0, 0])
    one = (single.T * x * single)[0]
    return {
        "shown": exact.equal([whole, one], [p * a / 2, p * d[0, 0] ** 2]),
        "breaks": {
            "no 1/K": exact.equal(whole, p * a),
            "all features": exact.equal(whole, p * flat.dot(flat) / 2),
            "no p0 p1": exact.equal(whole, a / 2),
        },
        "at": FIELDS,
    }


def _energies(d: sympy.Matrix, p: Any, own: Any, eta: Any = 0) -> tuple[Any, Any]:
    """(E(theta_Omega), E(theta_m*)) of X_alpha off diag(D_V), minus own diag^2(Delta) + eta I, in
    two fields of two features; the salient features are the first, that of field 1 leads."""
    flat = sympy.Matrix(d.flat())
    tie = sympy.symbols("b_1:3", real=True)  # D_V off its diagonal, inside the fields
    inside = sympy.diag(*(sympy.Matrix([[0, b], [b, 0]]) for b in tie))
    x = p * flat * flat.T + inside - own * sympy.diag(*(v**2 for v in flat)) - eta * sympy.eye(4)
    total = d[0, 0] ** 2 + d[1, 0] ** 2
    v = sympy.Matrix([d[0, 0], 0, d[1, 0], 0]) / sympy.sqrt(2 * total)
    return (v.T * x * v)[0], x[0, 0]


def _salient(**more: bool) -> tuple[sympy.Matrix, Any, Any]:
    """(Delta, t, Delta_2): salient entries Delta_2 + t and Delta_2; more: what is known of t."""
    low, t = sympy.Symbol("Delta_2", positive=True), sympy.Symbol("t", **more)
    small = sympy.symbols("delta_1:3", real=True)
    return sympy.Matrix([[low + t, small[0]], [low, small[1]]]), t, low


def weak_half() -> Proof:
    """Theorem 6, weak: E(theta_m*) - E(theta_Omega) is p0 p1 times half of the salient Delta^2's
    difference, positive where they differ."""
    d, t, low = _salient(positive=True)
    p = sympy.Symbol("p", positive=True)
    whole, one = _energies(d, p, 0)
    form = p * t * (2 * low + t) / 2
    level = d.copy()
    level[0, 0] = low
    tied = _energies(level, p, 0)
    return {
        "shown": exact.positive(one - whole, form),
        "breaks": {"equal salient features": exact.positive(tied[1] - tied[0], form)},
        "at": f"{FIELDS}, the salient ones unequal",
    }


def strong_against_top() -> Proof:
    """Theorem 6, strong as printed, against m* alone: the difference is a sum of positive terms,
    p0 p1 = 1/4 - r^2, among them (1 - p0 p1 - 1/K) Delta_m*^2."""
    d, t, low = _salient(nonnegative=True)
    r = sympy.Symbol("r", real=True)
    eta = sympy.Symbol("eta", nonnegative=True)
    p = sympy.Rational(1, 4) - r**2
    whole, one = _energies(d, p, 1, eta)
    a, b = d[0, 0] ** 2, d[1, 0] ** 2
    gap = t * (2 * low + t)  # a - b
    # With p (a + b) / 2 + (1/4 + r^2) a summed so that each term is positive.
    form = b * gap / (2 * (a + b)) + (3 * a + b) / 8 + r**2 * gap / 2 + eta / 2
    weak, top = _energies(d, p, 0)
    return {
        "shown": exact.positive(whole - one, form),
        "breaks": {"weak augmentation": exact.positive(weak - top, form)},
        "at": FIELDS,
    }


def latent_variance() -> Proof:
    """V[x] over all joint states of y and two fields, each of two states, against
    p0 p1 Delta Delta^T + D_V."""
    p, chance, value, tie = poly.arrays(p=(1,), t=(2, 2), v=(2, 2, 2), z=(1,))
    prior = [1 - p[0], p[0]]
    table = np.stack([chance, 1 - chance], -1)  # [y, field, state]

    def moments(tied: bool) -> Any:
        mean, square = 0, 0
        for y, i, j in product(range(2), repeat=3):
            weight = table[y, 0, i] * table[y, 1, j]
            if tied:  # the fields' states lean to each other, given y
                weight = weight + tie[0] * (-1) ** (i + j)
            x = np.concatenate([value[0, i], value[1, j]])
            mean = mean + x * (prior[y] * weight)
            square = square + np.outer(x, x) * (prior[y] * weight)
        return square - np.outer(mean, mean)

    mu = np.einsum("yks,ksd->ykd", table, value)
    delta = (mu[1] - mu[0]).reshape(-1)
    within = np.zeros((4, 4), dtype=object)
    for y, k, s in product(range(2), repeat=3):
        off = value[k, s] - mu[y, k]
        block = slice(2 * k, 2 * k + 2)
        within[block, block] += np.outer(off, off) * (prior[y] * table[y, k, s])
    outer = np.outer(delta, delta)
    ours = outer * (prior[0] * prior[1]) + within
    upper = np.triu_indices(4)
    spread = moments(tied=False)
    return {
        "shown": poly.equal(spread[upper], ours[upper]),
        "breaks": {
            "fields coupled": poly.unlike(moments(tied=True), ours),
            "no p0 p1": poly.unlike(spread, outer + within),
            "no D_V": poly.unlike(spread, outer * (prior[0] * prior[1])),
        },
        "at": f"{FIELDS}, two states each",
    }


def _batch() -> dict[str, Any]:
    """Three samples of two modes, of mode 1, 2 and 1: x, of size a; their second views, gamma times
    as large; the pairs; and X, which makes X_alpha of weights and samples by its definition."""
    a = sympy.symbols("a_0:3", positive=True)
    gamma = sympy.symbols("gamma_0:3", positive=True)
    x = [sympy.Matrix([v, 0] if k != 1 else [0, v]) for k, v in enumerate(a)]

    def covariance(weight: dict[tuple[int, int], Any], shown: list) -> Any:
        total = sympy.zeros(2)
        for (i, j), alpha in weight.items():
            gap, own = shown[i] - shown[j], shown[i] - gamma[i] * shown[i]
            total += alpha * (gap * gap.T - own * own.T)
        return total

    pairs = [(i, j) for i, j in product(range(3), repeat=2) if i != j]
    return {"a": a, "gamma": gamma, "x": x, "X": covariance, "pairs": pairs}


MIXTURE = "three samples of two modes"


def negative_off_diagonal(some: bool) -> Proof:
    """-X_12 is a sum of products of positive numbers; `some`: of nonnegative weights, of which one
    between the modes is positive. Its reciprocal is nonnegative, so that it is not 0."""
    b = _batch()
    signs = {pair: {"positive": True} if not some or pair == (0, 1) else {"nonnegative": True}
             for pair in b["pairs"]}  # fmt: skip
    alpha = {pair: sympy.Symbol(f"alpha_{pair[0]}{pair[1]}", **how) for pair, how in signs.items()}
    a = b["a"]
    across = [pair for pair in b["pairs"] if 1 in pair]
    form = sum(alpha[i, j] * a[i] * a[j] for i, j in across)
    apart = {pair: 0 if pair in across else v for pair, v in alpha.items()}
    low = -b["X"](alpha, b["x"])[0, 1]
    none = -b["X"](apart, b["x"])[0, 1]
    return {
        "shown": exact.nonnegative(1 / low, 1 / form),
        "breaks": {"no weight between modes": exact.nonnegative(none, form)},
        "at": MIXTURE,
    }


def augmentation_off_diagonal() -> Proof:
    """The sum over views has the diagonal alone, which is beside it; two active modes have more."""
    b = _batch()
    gaps = [v - g * v for g, v in zip(b["gamma"], b["x"], strict=True)]
    own = sum((gap * gap.T for gap in gaps), sympy.zeros(2))
    both = [sympy.Matrix([v, v]) for v in b["a"]]
    two = sum(
        ((v - g * v) * (v - g * v).T for g, v in zip(b["gamma"], both, strict=True)), sympy.zeros(2)
    )
    return {
        "shown": exact.equal(own, sympy.diag(*own.diagonal())),
        "breaks": {"two active modes": exact.equal(two, sympy.diag(*two.diagonal()))},
        "at": MIXTURE,
    }


def value_off_diagonal() -> Proof:
    """X_12 against -sum (alpha_ij + alpha_ji) x_i1 x_j2."""
    b = _batch()
    alpha = {p: sympy.Symbol(f"alpha_{p[0]}{p[1]}", nonnegative=True) for p in b["pairs"]}
    x, pairs = b["x"], b["pairs"]
    both = -sum((alpha[i, j] + alpha[j, i]) * x[i][0] * x[j][1] for i, j in pairs)
    alone = -sum(alpha[i, j] * x[i][0] * x[j][1] for i, j in pairs)
    entry = b["X"](alpha, x)[0, 1]
    return {
        "shown": exact.equal(entry, both),
        "breaks": {"alpha_ij alone": exact.equal(entry, alone)},
        "at": MIXTURE,
    }
