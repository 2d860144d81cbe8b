"""What tells limits of an ascent apart (acl Sec. 4.3), once more in numpy: residuals, curvature,
how far from aligned weights are, and which of them are trapped."""

from itertools import pairwise, product

import numpy as np

from clcore.checks.deep_linear_pca.landscape import rise, trap
from clcore.ledger import Trial, pooled
from clcore.reference import Array, absolute, kolmogorov, relative, tensors
from clcore.theory import deep_linear as dl

Weights = list[Array]


def by_hand(t: Trial) -> None:
    """All of it, and spectra that X is made of. Controls: constraints left out or exchanged, a part
    of a distance left out, traps with a way out, axes for eigenvectors."""
    _spectra(t)
    _ascents(t)
    _curvature(t)
    _distances(t)
    _traps(t)
    _top(t)


def _top(t: Trial) -> None:
    """The largest eigenvalue of W_{>1}^T W_{>1}, of as many as layer 1 has nodes, and whether it is
    distinct. Controls: the singular value, the other way round."""
    part = t.defines("the largest eigenvalue by hand", 1e-12, controls=pooled)
    alone = t.defines("whether it is distinct", 0.0, controls=pooled)
    rng, draws = t.stream("top"), min(t.draws, 20)
    for widths, rank in (
        ((4, 3, 2), 2),
        ((4, 3, 5, 2), 2),
        ((4, 3, 1), 1),
        ((4, 2, 3), 0),
        ((4, 3, 1), 0),
        ((4, 1, 2), 0),
        ((4, 2, 3), 9),
    ):
        ws = _normal(rng, draws, widths)
        if rank == 9:  # two equal ones
            ws[1] = np.linalg.qr(ws[1])[0]
        elif not rank:
            ws[-1] = 0 * ws[-1]
        value, distinct = (found.numpy() for found in dl.distinct_top(tensors(*ws)))
        high = ws[-1] @ ws[1] if len(ws) > 2 else ws[1]
        part.add(np.abs(value - np.linalg.norm(high, 2, (1, 2)) ** 2))
        wanted = widths[1] == 1 or rank in (1, 2)
        alone.add(distinct != wanted).breaks("the other way round", distinct == wanted)
        if rank in (1, 2):
            part.breaks("its root", np.abs(value - np.linalg.norm(high, 2, (1, 2))))


def _axes(rows: bool) -> tuple[int, ...]:
    """Of what has norm one: a row or a layer."""
    return (-1,) if rows else (-2, -1)


def _scaled(ws: Weights, rows: bool) -> Weights:
    """To the constraint set: layers of norm 1; rows: all but the last of rows of norm n^(-1/2)."""
    out = []
    for k, w in enumerate(ws):
        own = rows and k < len(ws) - 1
        size = np.sqrt((w**2).sum(_axes(own), keepdims=True))
        out.append(w / size / (np.sqrt(w.shape[-2]) if own else 1))
    return out


def _symmetric(rng: np.random.Generator, draws: int, d: int) -> Array:
    X = rng.standard_normal((draws, d, d))
    return X + X.swapaxes(1, 2)


def _normal(rng: np.random.Generator, draws: int, widths: tuple[int, ...]) -> Weights:
    return [rng.standard_normal((draws, high, low)) for low, high in pairwise(widths)]


def _energy(ws: Weights, X: Array) -> Array:
    z = X
    for w in ws:
        z = w @ z @ w.swapaxes(-1, -2)
    return np.trace(z, axis1=-2, axis2=-1)


def _pushes(ws: Weights, X: Array) -> Weights:
    """Half the gradient of E by each layer, from the slope of E along every one of its entries."""
    out = []
    for k, w in enumerate(ws):
        slope = np.empty_like(w)
        for place in np.ndindex(w.shape[1:]):
            moved = w.astype(complex)
            moved[(slice(None), *place)] += 1e-30j
            slope[(slice(None), *place)] = _energy([*ws[:k], moved, *ws[k + 1 :]], X).imag / 2e-30
        out.append(slope)
    return out


def _spectra(t: Trial) -> None:
    """X has the eigenvalues that are asked for; its eigenvectors are uniform on the sphere, whose
    projections on a line are uniform in three dimensions (Archimedes)."""
    values = t.defines("eigenvalues of X", 1e-12, controls=pooled)
    even = t.defines("eigenvectors of X", 3.0)  # of `kolmogorov`
    rng, draws = t.stream("spectra"), min(t.draws, 50)
    asked = np.sort(rng.standard_normal((draws, 5)))[:, ::-1].copy()
    X = dl.with_spectrum(t.keys(draws, "spectra"), *tensors(asked)).numpy()
    values.add(absolute(np.linalg.eigvalsh(X)[:, ::-1], asked), absolute(X, X.swapaxes(1, 2)))
    values.breaks("all the first", absolute(np.linalg.eigvalsh(X)[:, ::-1], asked[:, [0] * 5]))
    for place in range(3):
        one = np.repeat(np.eye(3)[place : place + 1], 2000, 0)
        X = dl.with_spectrum(t.keys(2000, f"eigenvector {place}"), *tensors(one)).numpy()
        for along in ([1, 0, 0], [0, 1, 0], [0, 0, 1], [0.6, 0.8, 0], [0, 0.6, -0.8]):
            seen = np.sqrt(np.einsum("i,bij,j->b", along, X, along).clip(0))
            even.add(kolmogorov(seen, 0.0, 1.0))
        even.breaks("uniform squares", kolmogorov(seen**2, 0.0, 1.0))
        even.breaks("axes", kolmogorov(one[:, 0], 0.0, 1.0))


def _tangent(ws: Weights, X: Array, rows: bool) -> tuple[Weights, Array]:
    """Half the gradient of E within the constraint set, and the norm of its longest layer."""
    out = []
    for k, (w, g) in enumerate(zip(ws, _pushes(ws, X), strict=True)):
        dims = _axes(rows and k < len(ws) - 1)
        out.append(g - (g * w).sum(dims, keepdims=True) / (w * w).sum(dims, keepdims=True) * w)
    return out, np.max([np.sqrt((m**2).sum((1, 2))) for m in out], 0)


def _climbed(
    ws: Weights, X: Array, rows: bool, steps: int, tolerance: float, grows: float = 1.5
) -> tuple[Weights, Array, Array]:
    """Where runs end, in how many steps, and the residual there."""
    steep = np.linalg.norm(X, 2, (1, 2))
    pace, taken, live = 0.5 / steep, np.zeros(len(X), int), np.ones(len(X), bool)
    for step in range(steps + 1):
        moves, size = _tangent(ws, X, rows)
        live &= size > tolerance * steep
        if step == steps:
            break
        taken += live
        there = _scaled([w + pace[:, None, None] * m for w, m in zip(ws, moves, strict=True)], rows)
        rises = live & (_energy(there, X) >= _energy(ws, X))
        ws = [np.where(rises[:, None, None], new, w) for new, w in zip(there, ws, strict=True)]
        pace *= np.where(rises, grows, 0.4)
    return ws, taken, size / steep


def _ascents(t: Trial) -> None:
    """Steps of ascents, X of any size, once more; a few runs end early."""
    part = t.defines("an ascent by hand", 1e-8, controls=pooled)
    residuals = t.defines("residuals of limits", 1e-8, controls=pooled)
    ends = t.defines("where an ascent ends", 0.0, controls=pooled)
    rng, draws = t.stream("ascents"), min(t.draws, 12)
    cases = product((False, True), (((4, 3, 2), 2.0**40), ((3, 4, 3, 2), 2.0**-40), ((3, 2), 1.0)))
    for rows, (widths, scale) in cases:
        ws, X = _scaled(_normal(rng, draws, widths), rows), _symmetric(rng, draws, widths[0])
        limits = dl.ascend(tensors(*ws), *tensors(scale * X), steps=14, tolerance=0.1, rows=rows)
        ours = [w.numpy() for w in limits.weights]
        hand, taken, size = _climbed(ws, X, rows, 14, 0.1)
        other = _climbed(ws, X, rows, 14, 0.1, 1.4)[0]
        for w, by_hand, slower in zip(ours, hand, other, strict=True):
            part.add(absolute(w, by_hand))
            part.breaks("pace times 1.4, not 1.5", absolute(w, slower)[taken > 2])
        part.add(np.abs(limits.energy.numpy() / scale - _energy(ours, X)))
        ends.add(limits.steps.numpy() != taken)
        ends.breaks("counted from one", limits.steps.numpy() != taken + 1)
        residuals.add(np.abs(limits.residual.numpy() - size))
        steep = np.linalg.norm(X, 2, (1, 2))
        residuals.breaks("not over the size of X", np.abs(limits.residual.numpy() - steep * size))
        if len(ws) > 1:  # the last layer has but one constraint
            exchanged = _tangent(ours, X, not rows)[1] / steep
            residuals.breaks("the other constraint", np.abs(limits.residual.numpy() - exchanged))


def _curvature(t: Trial) -> None:
    """Against second differences of E on the constraint set, in numpy."""
    part, rng = t.defines("curvature by differences", 1e-5, controls=pooled), t.stream("curvature")
    draws, step = min(t.draws, 4), 1e-4
    for rows, widths in product((False, True), ((3, 2, 2), (2, 2, 1, 2))):
        ws, X = _scaled(_normal(rng, draws, widths), rows), _symmetric(rng, draws, widths[0])
        flat = np.concatenate([w.reshape(draws, -1) for w in ws], 1)
        ends = np.cumsum([w[0].size for w in ws])[:-1]

        def value(at: Array, how: bool | None, ws: Weights = ws, ends: Array = ends) -> Array:
            parts = np.split(at, ends, -1)
            layers = [
                p.reshape(*p.shape[:-1], *w.shape[1:]) for p, w in zip(parts, ws, strict=True)
            ]
            return _energy(layers if how is None else _scaled(layers, how), X)  # noqa: B023

        def spectrum(how: bool | None, flat: Array = flat) -> Array:
            p = flat.shape[1]
            moves = step * np.eye(p)
            H = np.empty((draws, p, p))
            for i, j in product(range(p), repeat=2):
                up, down = moves[i] + moves[j], moves[i] - moves[j]
                ends = [value(flat + s * v, how) for v in (up, down) for s in (1, -1)]
                H[:, i, j] = (ends[0] + ends[1] - ends[2] - ends[3]) / (4 * step**2)
            return np.linalg.eigvalsh(H)

        ours = dl.curvature(tensors(*ws), *tensors(X), rows=rows)
        part.add(relative(ours, spectrum(rows)))
        part.breaks("the other constraint", relative(ours, spectrum(not rows)))
        part.breaks("no constraint", relative(ours, spectrum(None)))


def _near_aligned(
    rng: np.random.Generator, draws: int, widths: tuple[int, ...], off: tuple[float, float, float]
) -> Weights:
    """Layers of singular values 1 + off[0] and off[1], their vectors turned by off[2] against those
    of the layer before; even and of random signs where off[2] is 0."""
    vectors = []
    for n in widths:
        even = rng.choice([-1.0, 1.0], (draws, n, 1)) / np.sqrt(n)
        both = np.concatenate([even, rng.standard_normal((draws, n, 1))], 2)
        vectors.append(np.linalg.qr(both)[0])
    out = []
    for right, left in pairwise(vectors):
        turn = np.array([[np.cos(off[2]), -np.sin(off[2])], [np.sin(off[2]), np.cos(off[2])]])
        sign = rng.choice([-1.0, 1.0], (draws, 1, 1))
        values = np.diag([1 + off[0], off[1]])
        out.append(sign * left @ values @ (right @ turn).swapaxes(1, 2))
    return out


def _distances(t: Trial) -> None:
    """Of weights made near aligned ones: what is largest of three is known."""
    names = ("misalignment", "unevenness")
    aligned, even = (t.defines(f"{name} by hand", 1e-8, controls=pooled) for name in names)
    rng, widths = t.stream("distances"), (4, 3, 5, 2)
    for off in ((0.3, 0.1, 0.2), (-0.3, 0.1, 0.2), (0.1, 0.4, 0.2), (0.1, 0.05, 0.5), (0, 0, 0)):
        ws = _near_aligned(rng, t.draws, widths, off)
        parts = [abs(off[0]), off[1], np.sin(off[2])]
        ours = dl.misalignment(tensors(*ws)).numpy()
        aligned.add(np.abs(ours - max(parts)))
        for name, left_out in zip(("|s_1 - 1|", "s_2", "the angle"), range(3), strict=True):
            rest = max(p for k, p in enumerate(parts) if k != left_out)
            if parts[left_out] > rest:
                aligned.breaks(f"{name} left out", np.abs(ours - rest))
        even.add(np.abs(dl.unevenness(tensors(*ws)).numpy() - max(parts)))
    for high, low in ((3, 4), (5, 2)):
        left = rng.standard_normal((t.draws, high, 1)) + 2.0
        left /= np.linalg.norm(left, axis=1, keepdims=True)
        right, last = (rng.standard_normal((t.draws, 1, n)) for n in (low, 2))
        right, last = (v / np.linalg.norm(v, axis=2, keepdims=True) for v in (right, last))
        ws = [left @ right, last.swapaxes(1, 2) @ left.swapaxes(1, 2)]
        away = np.abs(np.abs(left[..., 0]) - high**-0.5)
        ours = dl.unevenness(tensors(*ws)).numpy()
        even.add(np.abs(ours - away.max(1)))
        even.breaks("the mean entry", np.abs(ours - away.mean(1)))


def _across(v: Array) -> Array:
    """[draws, n, n]: what is left of a vector without its part along the unit vectors v."""
    return np.eye(v.shape[1]) - v[:, :, None] * v[:, None, :]


def _unit(rng: np.random.Generator, draws: int, n: int) -> Array:
    v = rng.standard_normal((draws, n))
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def _cancelled(ws: Weights, layer: int, v: Array) -> Weights:
    """W_{layer+1} with v for the only direction of its outputs, W_{layer+2} without it."""
    low, high = ws[layer], ws[layer + 1]
    first = v[:, :, None] * (low * v[:, :, None]).sum(1, keepdims=True)
    return [*ws[:layer], first, high @ _across(v), *ws[layer + 2 :]]


def _traps(t: Trial) -> None:
    """Nets of four layers that cancel above layer 1, or above layer 2, and covariances there that
    are negative definite or not, by construction; what is trapped does not rise."""
    found = t.defines("traps by construction", 0.0)
    stays = t.defines("what is trapped does not rise", 1e-8, controls=pooled)
    rng, draws, widths = t.stream("traps"), min(t.draws, 20), (4, 3, 2, 3, 2)
    turn, _ = np.linalg.qr(_symmetric(rng, draws, 4))
    down = -turn @ np.diag([0.5, 0.8, 1.3, 2.0]) @ turn.swapaxes(1, 2)
    free = [np.linalg.svd(w, full_matrices=False) for w in _normal(rng, draws, widths)]
    free = [left @ right for left, _, right in free]
    one, two = (_cancelled(free, k, _unit(rng, draws, widths[k + 1])) for k in (1, 2))
    # One positive direction of C[f_1], which W_2 does not see.
    mixed = np.repeat(np.diag([9.0, -1.0, -1.0, -1.0])[None], draws, 0)
    low = np.linalg.eigh(free[0] @ mixed @ free[0].swapaxes(1, 2))[1][..., :2]
    blind = [two[0], low.swapaxes(1, 2), *two[2:]]
    cases = ((one, down), (two, down), (blind, mixed), (one, -down), (two, -down), (free, down))
    for k, (weights, X) in enumerate(cases):
        trapped, weights = k < 3, _scaled(weights, False)
        said = dl.trapped(tensors(*weights), *tensors(X)).numpy()
        found.add(said != trapped).breaks("the other way round", said == trapped)
        if trapped:
            stays.add(rise(rng, weights, X))
        elif k < 5:
            stays.breaks("covariances that are not negative", rise(rng, weights, X))
    for n in (1, 2):
        exactly, X = trap(n)
        found.add(~dl.trapped(tensors(*exactly), *tensors(X), 0.0).numpy())
