"""Figures 1 and 8, and basins: the optima themselves (nl Sec. 3.3, App. E.1).

`clcore.theory.one_layer.circle_landscape` takes the energy apart into arcs; the checks scan it on a
fine grid, climb from random starts, or enumerate finite laws in numpy.
"""

import math
from functools import partial

import numpy as np
import torch

from clcore.checks.one_layer.landscape import climbs
from clcore.checks.one_layer.landscape.arcs import weighted_arcs, weighted_basins
from clcore.ledger import Trial, check, pooled, typical, worst
from clcore.reference import Array, absolute
from clcore.theory.one_layer import basins, one_layer
from clcore.theory.one_layer import circle_landscape as circle
from clcore.theory.one_layer import power_iteration as pi


def variance_on_circle(points: Array, angle: Array, slope: float) -> Array:
    """1/2 Var[h(w.x)] at angles [t], by numpy."""
    u = np.cos(angle)[:, None] * points[:, 0] + np.sin(angle)[:, None] * points[:, 1]
    return np.where(u > 0, u, slope * u).var(-1) / 2


def scanned(points: Array, slope: float, grid: int = 100_000, sign: float = 1.0) -> Array:
    """Angles of the maxima on a grid (of the minima: sign -1)."""
    angle = 2 * math.pi * np.arange(grid) / grid - math.pi
    E = sign * variance_on_circle(points, angle, slope)
    return angle[(np.roll(E, 1) < E) & (np.roll(E, -1) <= E)]


def on_rays(angle: Array, radius: Array) -> Array:
    """Points [n, 2] in polar coordinates."""
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], -1)


def _missed(found: Array, listed: Array) -> float:
    """The largest distance between two sorted lists of angles; 9 if their lengths differ."""
    if len(found) != len(listed):
        return 9.0
    return float(np.abs(np.sin((np.sort(found) - np.sort(listed)) / 2)).max() * 2)


@check("nl/fig8")
def fig8(t: Trial) -> None:
    """The figure's nine points: maxima counted exactly and on 1e5 angles; random points besides.

    Controls: linear for ReLU and the other way round; the second eigenvector; orthogonal axes.
    """
    x = on_rays(np.array(circle.FIGURE8), np.ones(9))
    points, protocol = torch.tensor(x), {"evidence": "protocol", "draws": 1}
    relu, linear = circle.extrema(points), circle.extrema(points, 1.0)
    n_relu, n_linear = int(relu.count()), int(linear.count())
    part = t.part("ReLU: at least 8 maxima", 8, ">=", **protocol).add(n_relu)
    part.breaks("linear", n_linear).says(count=n_relu, kinks=int((~relu.kinks.isnan()).sum()))
    at = relu.angle[~relu.angle.isnan()].numpy()
    edges = np.abs(on_rays(at, np.ones(len(at))) @ x.T).min(1) < 1e-9  # of some point's gate
    part.confirms(kinks=int(edges.sum()))
    part = t.part("linear: two maxima", **protocol).add(abs(n_linear - 2))
    part.breaks("ReLU", abs(n_relu - 2))
    vectors = np.linalg.eigh(np.cov(x.T, bias=True))[1]
    peaks = linear.angle[~linear.angle.isnan()].numpy()
    w = np.stack([np.cos(peaks), np.sin(peaks)], -1)
    part = t.part("linear maxima are the first component", 1e-12, **protocol)
    part.add(1 - np.abs(w @ vectors[:, 1]))
    part.breaks("the second component", 1 - np.abs(w @ vectors[:, 0]))
    tops = relu.angle[~relu.angle.isnan()].numpy()
    inner = np.abs(np.cos(tops[:, None] - tops))
    part = t.part("not orthogonal", 0.1, ">=", **protocol)
    part.add(inner[np.triu_indices(len(tops), 1)])
    part.breaks("both components of the linear node", abs(vectors[:, 0] @ vectors[:, 1]))
    pieces, other = t.part("pieces against a grid", 2 * math.pi / 100_000), []
    pieces.add(_missed(scanned(x, 0.0), tops))
    for _ in range(min(t.draws, 20)):
        cloud = t.rng.standard_normal((int(t.rng.integers(3, 12)), 2))
        slope = float(t.rng.choice([0.0, 0.1, 0.5]))
        exact = circle.extrema(torch.tensor(cloud), slope).angle
        found = exact[~exact.isnan()].numpy()
        pieces.add(_missed(scanned(cloud, slope), found))
        other.append(_missed(scanned(cloud, 1.0), found))
    pieces.breaks("linear", np.mean(other))
    _on_an_axis(t)
    _level(t)
    weighted_arcs(t)


def _on_an_axis(t: Trial) -> None:
    """Two points on half an axis, others behind them: a cell whose matrix has one entry, where
    only these two have an open gate."""
    part = t.defines("points on an axis against a grid", 2 * math.pi / 100_000, controls=pooled)
    rng = t.stream("axis")
    for k in range(min(max(t.draws, 4), 20)):
        behind = on_rays(rng.uniform(0.55, 1.45, 4) * math.pi, rng.uniform(0.5, 1.5, 4))
        cloud = np.concatenate([[[rng.uniform(0.5, 1), 0], [rng.uniform(1.5, 2), 0]], behind])
        quarter = (0, 1, 3)[k % 3]  # at half a turn the angle has two names
        cloud = cloud @ np.round(on_rays((quarter + np.arange(2)) * math.pi / 2, np.ones(2)))
        found = circle.extrema(torch.tensor(cloud)).angle
        found = found[~found.isnan()].numpy()
        part.add(_missed(scanned(cloud, 0.0), found))
        part.breaks("linear", _missed(scanned(cloud, 1.0), found))


def _level(t: Trial) -> None:
    """A triangle with equal sides, far from the origin: where all its gates are open the energy is
    constant, but for rounding, and has no smooth maximum. Control: the triangle made longer."""
    part = t.defines("smooth maxima where the energy is constant", controls=pooled)
    rng = t.stream("level")

    def smooth(long: float) -> int:
        corner = rng.uniform(0, 2 * math.pi) + 2 * math.pi * np.arange(3) / 3
        cloud = on_rays(corner, np.ones(3)) * [1.0, long] + [0.0, 4.0]
        peaks = circle.extrema(torch.tensor(cloud)).smooth
        return int((np.cos(peaks[~peaks.isnan()].numpy() - math.pi / 2) > 0.5).sum())

    for _ in range(min(max(t.draws, 10), 40)):
        part.add(smooth(1.0)).breaks("a longer triangle", smooth(1.2))


def _counted(t: Trial) -> None:
    """Starts that end near four vectors, by chance in any order: which these are and how often each
    is reached, the most often first. Control: the most often last."""
    part, rng = t.defines("ends and how often", 1e-12, controls=pooled), t.stream("counted")
    for _ in range(min(t.draws, 20)):
        count = rng.permutation([14, 9, 5, 2])
        places = np.linalg.qr(rng.standard_normal((4, 4)))[0]
        w = rng.permutation(np.repeat(places, count, 0))
        found = basins.ends(torch.tensor(w))
        for falls, order in ((True, np.argsort(-count)), (False, np.argsort(count))):
            gap = np.abs(found.w.numpy() - places[order]).max()
            gap = max(gap, np.abs(found.count.numpy() - count[order]).max())
            if falls:
                part.add(gap)
            else:
                part.breaks("the most often last", gap)
    same = t.defines("ends that are the same", 0.0)
    count = basins.ends(torch.eye(3)[[0, 1, 0, 2, 0, 1]], 0.0).count.numpy()
    same.add(absolute(count[None], np.array([[3, 2, 1]])))
    same.breaks("each by itself", absolute(count[None], np.ones((1, 3))))


def near_orthogonal(rng: np.random.Generator, d: int, size: float) -> Array:
    """Unit columns with |U^T U - I|_2 = size, by scaling a random perturbation."""
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    noise = rng.standard_normal((d, d))

    def columns(s: float) -> Array:
        U = Q + s * noise
        return U / np.linalg.norm(U, axis=0)

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        U = columns(middle)
        bigger = np.linalg.norm(U.T @ U - np.eye(d), 2) > size
        low, high = (low, middle) if bigger else (middle, high)
    return columns(low)


def _orthogonal(rng: np.random.Generator, d: int) -> Array:
    return np.linalg.qr(rng.standard_normal((d, d)))[0]


def enumerated(U: Array, q: float) -> tuple[Array, Array]:
    """All 2^M states x [2^M, d] of the summation model, and their probabilities."""
    M = U.shape[1]
    bits = (np.arange(2**M)[:, None] >> np.arange(M) & 1).astype(bool)
    y = np.where(bits, math.sqrt((1 - q) / q), -math.sqrt(q / (1 - q)))
    return y @ U.T, np.where(bits, q, 1 - q).prod(-1)


def gated_variance(x: Array, p: Array, w: Array) -> Array:
    """V[x 1(w.x > 0)] by numpy."""
    g = x * (x @ w > 1e-12)[:, None]
    mean = p @ g
    return (p[:, None] * g).T @ g - np.outer(mean, mean)


STEP = 1e-6
LARGE = 0.4  # a deviation beyond which Theorem 3 tells nothing


def _lacks(x: Array, p: Array, w: Array) -> tuple[float, float]:
    """The least sup of omega over B_gamma, less gamma, at the start w: with L of the whole sphere
    (a lower bound, from one step of A), and with L = 0 where no state changes sign in B_gamma.
    """
    values, vectors = np.linalg.eigh(gated_variance(x, p, w))
    c0 = min(abs(vectors[:, -1] @ w), 1.0)
    angle = np.arcsin(np.minimum(np.abs(x @ w) / np.linalg.norm(x, axis=1), 1))
    state = x[angle.argmin()]
    edge = state @ w * state / (state @ state)
    foot = (w - edge) / np.linalg.norm(w - edge)  # the closest unit vector on the step
    sides = [foot + s * STEP / 2 * state / np.linalg.norm(state) for s in (-1, 1)]
    jump = np.linalg.norm(gated_variance(x, p, sides[1]) - gated_variance(x, p, sides[0]), 2)
    ratio, gap = values[-2] / values[-1], values[-1] - values[-2]
    L, mu = jump / STEP, (1 + c0) / (2 * c0**2) * ratio**2
    grown = 1 + mu * c0
    everywhere = mu + 16 * (L / gap) ** 2 * grown + 2 * L / gap * math.sqrt(mu * grown)
    gamma = np.linspace(0, 1, 201)[1:-1]
    c_gamma = 2 * np.sqrt(gamma) / (1 + gamma)
    reach = np.arccos(np.clip((c0 - c_gamma) / (1 - c_gamma), -1, 1))
    c = np.cos(math.acos(c0) + reach)  # the least in B_gamma, A being constant
    sup = np.where(c > 0, (1 + c) / (2 * np.maximum(c, 1e-9) ** 2) * ratio**2, everywhere)
    near = np.where(reach < angle.min(), sup, everywhere) - gamma
    return float(everywhere - gamma[-1]), float(near.min())


def _step_again(x: Array, p: Array, w: Array) -> float:
    """|A(v) - A(v')| across the step next to w, in closed form: one state k more is open, and A is
    larger by p (1 - p) x x^T - p (x m^T + m x^T), m the mean of the others that are."""
    k = (np.abs(x @ w) / np.linalg.norm(x, axis=1)).argmin()
    foot = w - (x[k] @ w) / (x[k] @ x[k]) * x[k]
    on = x @ foot > 0
    on[k] = False
    mixed = np.outer(x[k], (p * on) @ x)
    change = p[k] * (1 - p[k]) * np.outer(x[k], x[k]) - p[k] * (mixed + mixed.T)
    return float(np.abs(np.linalg.eigvalsh(change)).max())


@check("nl/fig1")
def fig1(t: Trial) -> None:
    """Power iteration from every u_m, d = M = 8, |U^T U - I|_2 up to 0.1: steps shrink by a factor
    each, ends near u_m and is an LME. And whether Theorem 3 tells so. Controls: the first step; a
    neighbour u_m'; larger deviations; those of `_categorical`.
    """
    converges = t.part("converges", 1e-10, controls=pooled)
    near = t.part("near u_m", 0.05, controls=pooled)
    lme = t.part("an LME", 1e-10, controls=pooled)
    theorem = t.part("Theorem 3", controls=typical).says(step=STEP)
    mended = t.corrected("Theorem 3", controls=typical)
    q, d, restless, beyond = 0.2, 8, [], rf"$\|U^\top U-I\|$ = {LARGE}"
    for size in np.repeat([0.0, 0.02, 0.05, 0.1, LARGE], min(t.draws, 5)):
        U = near_orthogonal(t.rng, d, size) if size else _orthogonal(t.rng, d)
        x, p = enumerated(U, q)
        world = one_layer.summation(torch.full((d,), q, dtype=torch.float64), torch.tensor(U))
        path = pi.iterate(partial(one_layer.operator, world), torch.tensor(U.T.copy()), 60)
        moved = (path[1:] - path[:-1]).norm(dim=-1).numpy()
        ends = path[-1].numpy()
        cosine = ends @ U
        near.add(1 - np.diag(cosine))
        whole, inside = np.array([_lacks(x, p, w) for w in U.T]).T
        if size == LARGE:
            restless.append(moved[-1])
            converges.breaks(beyond, moved[-1], by=worst)
            theorem.breaks(beyond, inside)
            mended.breaks(beyond, inside)
            continue
        converges.add(moved[-1])
        if size:  # exactly orthogonal patterns do not move at all
            converges.breaks("the first step", moved[0])
        if 0 < size < 0.1:
            theorem.add(whole)
            at = pi.local(one_layer.operator(world, path[0]), path[0])
            L = torch.tensor(np.array([_step_again(x, p, w) / STEP for w in U.T]))
            theorem.fails_by(pi.omega(at, L, pi.kappa(at.gap)) - 199 / 200)  # the largest gamma
            mended.add(inside)
        near.breaks("the nearest other", 1 - (cosine - 2 * np.eye(d)).max(1))
        for w in ends:
            _, vectors = np.linalg.eigh(gated_variance(x, p, w))
            lme.add(1 - abs(vectors[:, -1] @ w))
            lme.breaks("second eigenvector", 1 - abs(vectors[:, -2] @ w))
    converges.says(moving=(np.concatenate(restless) > 1e-10).mean())
    _categorical(t)


def equiangular(rng: np.random.Generator, d: int, product: float) -> Array:
    """d unit columns in d dimensions with one inner product, turned at random."""
    gram = (1 - product) * np.eye(d) + product
    return _orthogonal(rng, d) @ np.linalg.cholesky(gram).T


def _variance(U: Array, w: Array) -> Array:
    """C_alpha[h(w.x)] of equally frequent patterns U, for alpha = 1, w [..., d], by numpy."""
    return np.asarray(np.maximum(w @ U, 0).var(-1))


def _rise(rng: np.random.Generator, U: Array, w: Array) -> float:
    """The greatest relative rise of `_variance` at 400 points around w."""
    step = rng.standard_normal((400, len(w)))
    v = w + 10 ** rng.uniform(-4, -2, (400, 1)) * step / np.linalg.norm(
        step, axis=-1, keepdims=True
    )
    v /= np.linalg.norm(v, axis=-1, keepdims=True)
    return float((_variance(U, v) / _variance(U, w) - 1).max())


def _last_step(U: Array) -> tuple[float, float]:
    """Length of the last of 60 steps of power iteration from u_1, and its cosine with u_1."""
    d = len(U)
    world = one_layer.categorical(torch.full((d,), 1 / d, dtype=torch.float64), torch.tensor(U))
    path = pi.iterate(partial(one_layer.operator, world), torch.tensor(U.T[:1].copy()), 60)
    ends = path[-2:, 0].numpy()
    return float(np.linalg.norm(ends[1] - ends[0])), float((ends @ U[:, 0]).min())


def _alternates(d: int, product: float) -> tuple[float, float]:
    """`_last_step` in closed form for a positive product: A(u_1) u_1, all gates open, is along
    (d - 1) u_1 less the others, whose gates it closes; from there A leads back to u_1."""
    cosine = math.sqrt((1 - product) * (d - 1) / d)
    return math.sqrt(2 - 2 * cosine), cosine


def _categorical(t: Trial) -> None:
    """The first case of Sec. 3.1, patterns with a small inner product: optima near u_1, and whether
    power iteration from u_1 ends. Controls: u_1 itself; larger products."""
    near = t.part("categorical model: optima near u_m", controls=typical)
    name = "categorical model: Theorem 3"
    printed, mended = t.part(name, 1e-10), t.corrected(name, 1e-10)
    for _ in range(min(t.draws, 20)):
        d, size = int(t.rng.integers(3, 9)), float(t.rng.uniform(0.002, 0.02))
        U = equiangular(t.rng, d, size)
        kink = np.linalg.inv(U)[0]  # where all other patterns are on the edge of their gates
        kink /= np.linalg.norm(kink)
        near.add(_rise(t.rng, U, kink), 1 - kink @ U[:, 0] - 0.05)
        near.breaks("u_m itself", _rise(t.rng, U, U[:, 0]))
        printed.add(_last_step(U)[0]).fails_by(_alternates(d, size)[0])
        larger = _last_step(equiangular(t.rng, d, 0.3))[0]
        apart = equiangular(t.rng, d, -size)
        mended.add(_last_step(apart)[0], _lacks(apart.T, np.full(d, 1 / d), apart[:, 0])[1])
        for part in (printed, mended):
            part.breaks("a product of 0.3", larger)
    step, cosine = _last_step(equiangular(t.rng, 3, 0.01))
    again = dict(zip(("step", "cosine"), _alternates(3, 0.01), strict=True))
    printed.says(step=step, cosine=cosine).confirms(**again)


@check("nl/rem12")
def rem12(t: Trial) -> None:
    """Different starts, different optima: nodes collect optima as K grows, and stop at all of them;
    linear nodes find one. Basins are the arcs between minima.

    Controls: ReLU nodes for linear ones; equal shares; one node; starts in place of ends.
    """
    rng, n = t.rng, 100
    clouds = min(t.draws, 5)
    linear = t.part("linear: one optimum up to sign", controls=pooled, draws=n * clouds)
    areas = t.part("basins", 1e-3, controls=pooled)
    ascents = []
    for _ in range(clouds):
        turn = 2 * math.pi * (np.arange(7) + rng.uniform(-0.3, 0.3, 7)) / 7
        x = on_rays(turn, rng.uniform(0.5, 1.5, 7)) * [1.0, 0.5]
        angle, _, share = (v.numpy() for v in circle.basins(torch.tensor(x)))
        valleys = np.sort(scanned(x, 0.0, sign=-1.0))
        arcs = np.diff(valleys, append=valleys[0] + 2 * math.pi)
        first = int(np.searchsorted(angle, valleys[0]))
        areas.add(abs((arcs / (2 * math.pi) - np.roll(share, -first)).max()))
        areas.breaks("equal shares", (share - 1 / len(angle)).max())
        start = circle.on_circle(torch.tensor(rng.uniform(-math.pi, math.pi, n)))
        world = one_layer.samples(torch.tensor(x))
        end = basins.climb(world, start, "linear", steps=600)
        ascents.append((x, start.numpy(), end.numpy(), "linear"))
        end = end * (end @ end[0]).sign()[:, None]  # up to sign
        linear.add(len(basins.ends(end).count) - 1)
        end = basins.climb(world, start, "relu", steps=600)
        ascents.append((x, start.numpy(), end.numpy(), "relu"))
        linear.breaks("ReLU", len(basins.ends(end).count) - 1)
    d, q = 6, 0.2
    world = one_layer.summation(
        torch.full((d,), q, dtype=torch.float64), torch.tensor(_orthogonal(rng, d))
    )
    start = torch.tensor(rng.standard_normal((256, d)))
    start = start / start.norm(dim=-1, keepdim=True)
    end = basins.climb(world, start, steps=600)
    sizes = [len(basins.ends(end[:K], 0.05).count) for K in (1, 2, 4, 16, 64, 256)]
    nodes = t.part("nodes collect optima", 3, ">=", draws=256).add(sizes[3])
    nodes.breaks("one node", sizes[0]).says(sizes=", ".join(map(str, sizes)))
    _counted(t)
    climbs.tops(t, ascents)
    weighted_basins(t)
