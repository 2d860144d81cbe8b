"""One node on points of any masses, which need not sum to one: what the library says, by loops over
pairs (nl Eqs. 3, 5, 7, Def. 3)."""

import numpy as np

from clcore.ledger import Part, Trial, pooled, typical
from clcore.reference import Array, absolute, relative, tensors
from clcore.theory.one_layer import one_layer

SLOPE = 0.2
GATES = {
    "linear": np.ones_like,
    "relu": lambda u: np.where(u > 0, 1.0, 0.0),
    "leaky_relu": lambda u: np.where(u > 0, 1.0, SLOPE),
}


def world(rng: np.random.Generator, draws: int, n: int, d: int, low: float) -> tuple[Array, ...]:
    """Points [draws, n, d], masses, weights of pairs of [low, 1], not symmetric."""
    x, p = rng.standard_normal((draws, n, d)), rng.uniform(0.2, 1, (draws, n))
    return x, p, rng.uniform(low, 1, (draws, n, n))


def pairs(p: Array, alpha: Array | None, g: Array) -> Array:
    """C_alpha of features g [draws, n, q], [draws, q, q]: half the sum over pairs."""
    out = np.zeros((*g.shape[:1], g.shape[-1], g.shape[-1]))
    for i in range(g.shape[1]):
        for j in range(g.shape[1]):
            weight = p[:, i] * p[:, j] / 2 * (1 if alpha is None else alpha[:, i, j])
            gap = g[:, i] - g[:, j]
            out += weight[:, None, None] * gap[:, :, None] * gap[:, None]
    return out


def unit(rng: np.random.Generator, *shape: int) -> Array:
    w = rng.standard_normal(shape)
    return w / np.linalg.norm(w, axis=-1, keepdims=True)


def gated(x: Array, w: Array, kind: str) -> Array:
    return x * GATES[kind](np.einsum("bnd,bd->bn", x, w))[..., None]


def project(w: Array, v: Array) -> Array:
    return v - (w * v).sum(-1, keepdims=True) * w


def moves(t: Trial) -> None:
    """A(w), the energy, the flow and steps of its ascent. Controls: masses brought to the sum one,
    weights of one."""
    rng = t.stream("masses")
    names = ("A(w), any masses", "energy, any masses", "flow, any masses")
    parts = [t.defines(name, 1e-11, controls=typical) for name in names]
    steps = t.defines("steps of the ascent", 1e-11, controls=typical)
    for kind in GATES:
        x, p, alpha = world(rng, t.share(3), 5, 3, 0.2)
        w = unit(rng, len(x), 3)
        A = {k: pairs(p, a, gated(x, w, kind)) for k, a in (("one", None), ("alpha", alpha))}
        for name, weights in (("one", None), ("alpha", alpha)):
            image = np.einsum("bij,bj->bi", A[name], w)
            there = A[name], (w * image).sum(-1) / 2, project(w, image)
            for q, what in ((p, ""), (p / p.sum(-1, keepdims=True), "of sum one")):
                of = one_layer.World(*tensors(x, q, *([] if weights is None else [weights])))
                given = of, *tensors(w), kind, SLOPE
                ours = one_layer.operator(*given), one_layer.energy(*given), one_layer.flow(*given)
                for part, mine, other in zip(parts, ours, there, strict=True):
                    error = relative(mine, other)
                    part.breaks(what, error) if what else part.add(error)
        alpha = 2 * alpha - 1.3  # some pairs repel
        total = np.abs(np.diagonal(pairs(p, alpha, x), axis1=1, axis2=2)).sum(-1)
        start, v = 3 * w, w
        for _ in range(2):
            push = np.einsum("bij,bj->bi", pairs(p, alpha, gated(x, v, kind)), v)
            v = v + 0.3 / total[:, None] * project(v, push)
            v = v / np.linalg.norm(v, axis=-1, keepdims=True)
        for count, rate in ((2, 0.3), (1, 0.3), (2, 0.2)):
            of = one_layer.World(*tensors(x, p, alpha))
            error = absolute(one_layer.ascend(of, *tensors(start), kind, rate, count, SLOPE), v)
            steps.add(error) if (count, rate) == (2, 0.3) else steps.breaks("others", error)


def maximal(t: Trial) -> None:
    """The numbers of Def. 3 and the decision, where some pairs repel: at any unit w, at the first
    and at the last eigenvector. Controls: other eigenvalues, the other decision."""
    rng, n, d = t.stream("numbers"), t.draws, 4
    numbers = t.defines("numbers of the test", 1e-12, controls=typical)
    decided = t.defines("decisions of the test", controls=pooled)
    turned = t.defines("the top eigenvector, turned to w", 1e-6, controls=typical)
    for kind in GATES:
        x, p, alpha = world(rng, n, 6, d, -1.0)
        w = unit(rng, n, d)
        _numbers(numbers, decided, (x, p, alpha), w, kind)
        if kind == "relu":  # where few gates are open eigenvectors are at right angles to points
            continue
        vectors = np.linalg.eigh(pairs(p, alpha, gated(x, w, kind)))[1]
        for at in (vectors[..., -1], vectors[..., 0]):
            _numbers(numbers, decided, (x, p, alpha), at, kind)
        phi = vectors[..., -1] * np.sign((vectors[..., -1] * w).sum(-1, keepdims=True))
        of = one_layer.World(*tensors(x, p, alpha))
        ours = one_layer.top_eigenvector(of, *tensors(w), kind, SLOPE)
        turned.add(absolute(ours, phi)).breaks("turned away", absolute(ours, -phi))
    closed = one_layer.World(*tensors(np.abs(x), p))  # no gate is open, A(w) = 0, all are tied
    decided.add(one_layer.locally_maximal(closed, *tensors(-np.abs(w)), gap=0.0).numpy())


def _numbers(numbers: Part, decided: Part, points: tuple, w: Array, kind: str) -> None:
    """Residual, value, distance from the largest eigenvalue and gap, relative to the entries on the
    diagonal of C_alpha[x]; and which of them are small enough."""
    x, p, alpha = points
    A, of = pairs(p, alpha, gated(x, w, kind)), one_layer.World(*tensors(x, p, alpha))
    size = np.abs(np.diagonal(pairs(p, alpha, x), axis1=1, axis2=2)).sum(-1)
    values, image = np.linalg.eigvalsh(A) / size[:, None], np.einsum("bij,bj->bi", A, w)
    value, residual = (w * image).sum(-1) / size, np.linalg.norm(project(w, image), axis=-1) / size
    first, second, third = values[:, -1], values[:, -2], values[:, -3]
    there = residual, value, first - value, first - second
    others = residual + 1, value + 1, second - value, second - third
    ours = [v.numpy() / size for v in one_layer.maximality(of, *tensors(w), kind, SLOPE)]
    for mine, own, other in zip(ours, there, others, strict=True):
        numbers.add(np.abs(mine - own)).breaks("other numbers", np.abs(mine - other))
    off = 1.01 * max(np.median(np.maximum(residual, first - value)), 1e-6)
    gap = 1.01 * np.median(first - second)
    for a, b in ((3 * off, gap / 3), (off, gap / 3), (3 * off, gap), (1e9, gap)):
        small = np.maximum(residual, first - value) <= a
        said = one_layer.locally_maximal(of, *tensors(w), kind, float(a), float(b), SLOPE).numpy()
        expected = small & (first - second > b)
        decided.add(said != expected).breaks("the other", said == expected)
