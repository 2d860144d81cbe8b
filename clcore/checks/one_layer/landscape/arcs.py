"""What `clcore.theory.one_layer.circle_landscape` says of arcs: their matrices, optima of weighted
pairs, which optima are kinks, where a flow runs. Energies are summed over pairs in numpy."""

import math

import numpy as np
import torch

from clcore.ledger import Trial, pooled, typical
from clcore.reference import Array, relative, tensors
from clcore.theory.one_layer import circle_landscape as circle

FINE = 100_000


def on(angle: Array) -> Array:
    """(cos, sin), [..., 2]."""
    return np.stack([np.cos(angle), np.sin(angle)], -1)


def energy(x: Array, angle: Array, slope: float, alpha: Array) -> Array:
    """1/2 C_alpha[h(w.x)] over pairs of x [b, n, 2] at angles [b, m]."""
    u = on(angle) @ x.swapaxes(-1, -2)
    h = np.where(u > 0, u, slope * u)
    out = np.zeros(angle.shape)
    for i in range(x.shape[1]):
        for j in range(x.shape[1]):
            out += alpha[:, i, j, None] * (h[..., i] - h[..., j]) ** 2
    return out / (4 * x.shape[1] ** 2)


def listed(angle: torch.Tensor) -> Array:
    """The angles of one entry that are there, rising."""
    return np.sort(angle[~angle.isnan()].numpy())


def missed(found: Array, there: Array) -> float:
    """The largest distance between two lists of angles, sorted; 9 if their lengths differ."""
    if len(found) != len(there):
        return 9.0
    return float(np.abs(np.sin((np.sort(found) - np.sort(there)) / 2)).max(initial=0) * 2)


def edges(x: Array, angle: Array) -> Array:
    """How far each angle [m] is from where the gate of a point of x [n, 2] opens or closes."""
    return np.abs(on(angle) @ (x / np.linalg.norm(x, axis=-1, keepdims=True)).T).min(-1)


def _clouds(rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Clouds [count, 4, 2], the first two points of every second at opposite angles; alpha."""
    x = rng.standard_normal((count, 4, 2))
    x[::2, 1] = -x[::2, 0] * rng.uniform(0.5, 2, (len(x[::2]), 1))
    return x, rng.uniform(0.2, 2, (count, 4, 4))


def weighted_arcs(t: Trial) -> None:
    """Many clouds at once, their pairs weighted, none of it symmetric: the energy in a cell is the
    form of its matrix, and optima are those of a grid. Controls: the next cell's matrix, alpha = 1,
    minima for maxima, kinks for smooth optima."""
    rng = t.stream("arcs")
    x, alpha = _clouds(rng, min(max(t.draws, 4), 8))
    form = t.defines("energy in a cell", 1e-12, controls=typical)
    whole = t.defines("cells make the circle", 1e-11, controls=typical)
    plain = t.defines("energy of weighted pairs", 1e-12, controls=typical)
    same = t.defines("optima of weighted pairs against a grid", 2 * math.pi / FINE, controls=pooled)
    sorts = t.defines("which optima are kinks", controls=pooled)
    grid = np.broadcast_to(2 * math.pi * np.arange(FINE) / FINE - math.pi, (len(x), FINE))
    for slope in (0.0, 0.3):
        begin, length, A = (v.numpy() for v in circle.cells(*tensors(x), slope, *tensors(alpha)))
        whole.add(np.abs(length.sum(-1) - 2 * math.pi))
        whole.breaks("without the last", np.abs(length[:, :-1].sum(-1) - 2 * math.pi))
        angle = begin + rng.uniform(0, 1, length.shape) * length
        there, w = energy(x, angle, slope, alpha), on(angle)
        forms = [np.einsum("bmi,bmij,bmj->bm", w, M, w) / 2 for M in (A, np.roll(A, 1, 1))]
        real = length > 0
        form.add(relative(forms[0] * real, there * real))
        form.breaks("the next cell's matrix", relative(forms[1] * real, there * real))
        for b in range(len(x)):
            ours = circle.energy(*tensors(x[b], angle[b]), slope, *tensors(alpha[b])).numpy()
            plain.add(relative(ours[None], there[b, None]))
            of_one = energy(x[b, None], angle[b, None], slope, np.ones_like(alpha[:1]))
            plain.breaks("alpha = 1", relative(of_one, there[b, None]))
        E = energy(x, grid, slope, alpha)
        for low, sign in ((False, 1.0), (True, -1.0)):
            found = circle.extrema(*tensors(x), slope, *tensors(alpha), minima=low)
            turns = _peaks(sign * E), _peaks(-sign * E)
            for b, cloud in enumerate(x):
                every = listed(found.angle[b])
                same.add(missed(every, grid[b, turns[0][b]]))
                same.breaks("minima for maxima", missed(every, grid[b, turns[1][b]]))
                near = [edges(cloud, listed(v[b])) < 1e-9 for v in (found.smooth, found.kinks)]
                sorts.add(near[0].sum() + (~near[1]).sum())
                sorts.breaks("exchanged", near[1].sum() + (~near[0]).sum())
    _of_one(t)


def _peaks(E: Array) -> Array:
    return (np.roll(E, 1, -1) < E) & (np.roll(E, -1, -1) < E)


def _of_one(t: Trial) -> None:
    """A linear node runs to both ends of the first axis of its data, also where these are angles
    of the grid. Control: the second axis."""
    part, rng = t.defines("a linear node runs to its axis", 1e-6, controls=pooled), t.stream("runs")
    cases = [(rng.standard_normal((5, 2)), grid) for grid in (30, 101, 360) for _ in range(4)]
    cross = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    cases += [(scale * cross, grid) for scale in rng.uniform(0.5, 2, 3) for grid in (21, 31, 101)]
    for x, grid in cases:
        axes = np.linalg.eigh(np.cov(x.T))[1]
        ends = on(circle.stable_angles(torch.from_numpy(x), 1.0, grid=grid).numpy())
        for k, wrong in ((1, False), (0, True)):
            along = ends @ axes[:, k]
            steps = np.arccos(np.minimum(np.abs(along), 1)).max(initial=0) * grid / math.pi
            off = max(steps - 1, abs((along > 0).sum() - 1), abs((along < 0).sum() - 1))
            part.breaks("the second axis", off) if wrong else part.add(off)


def weighted_basins(t: Trial) -> None:
    """Basins of weighted pairs: the maxima, which are kinks, and the arcs between minima, against
    a grid. Controls: minima for maxima, the others are kinks, one side of the arc."""
    rng, slope = t.stream("arcs"), 0.2
    top, sorts, share = (
        t.defines(name, bound, controls=pooled)
        for name, bound in (
            ("maxima of basins", 2 * math.pi / FINE),
            ("which maxima are kinks", 0.0),
            ("shares of basins", 2 / FINE),
        )
    )
    x, alpha = _clouds(rng, min(max(t.draws, 4), 8))
    grid = np.broadcast_to(2 * math.pi * np.arange(FINE) / FINE - math.pi, (len(x), FINE))
    E = energy(x, grid, slope, alpha)
    for b, cloud in enumerate(x):
        angle, kink, part = (
            v.numpy() for v in circle.basins(*tensors(cloud), slope, *tensors(alpha[b]))
        )
        tops, low = (grid[b, _peaks(sign * E[b])] for sign in (1, -1))
        top.add(missed(angle, tops)).breaks("minima", missed(angle, low))
        for turn in (0.0, *(1e-3 - math.pi - angle[kink])):  # a kink is the first of all angles
            turned = cloud @ on(turn + np.array([0, math.pi / 2]))
            angle, kink, _ = circle.basins(*tensors(turned), slope, *tensors(alpha[b]))
            same = kink.numpy() == (edges(turned, angle.numpy()) < 1e-9)
            sorts.add((~same).sum()).breaks("the others", same.sum())
        after = np.searchsorted(low, tops)
        rest = np.remainder(low[after - 1] - low[after % len(low)], 2 * math.pi) / (2 * math.pi)
        share.add(np.abs(part - (1 - rest)).max())
        right = np.remainder(low[after % len(low)] - tops, 2 * math.pi) / (2 * math.pi)
        share.breaks("one side of it", np.abs(right - (1 - rest)).max())
