"""Figures 1 and 8, basins, and augmentation: the optima themselves (nl Sec. 3.3, App. B.5, E.1).

`clcore.circle_landscape` takes the energy apart into arcs; the checks scan it on a fine grid, climb
from random starts, or enumerate finite laws in numpy.
"""

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from .. import basins, one_layer
from .. import circle_landscape as circle
from .. import power_iteration as pi
from ..ledger import Check
from . import reference as ref
from .reference import Array, best, typical, worst


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


def fig8(draws: int, seed: int) -> Iterator[Check]:
    """The figure's nine points: maxima counted exactly and on 1e5 angles; random points besides.

    Controls: linear for ReLU and the other way round; the second eigenvector; orthogonal axes.
    """
    check, rng = partial(Check, "nl/fig8"), ref.generator("nl fig8", seed)
    angles = np.array(circle.FIGURE8)
    x = on_rays(angles, np.ones(9))
    points = torch.tensor(x)
    relu, linear = circle.extrema(points), circle.extrema(points, 1.0)
    n_relu, n_linear = int(relu.count()), int(linear.count())
    kinks = int((~relu.kinks.isnan()).sum())
    yield check(
        n_relu,
        8,
        {"linear": n_linear},
        relation=">=",
        part="ReLU: at least 8 maxima",
        evidence="protocol",
        note=rf"Exactly {n_relu}, {kinks} of them at kinks, where $w^\top x_i=0$ for some $i$: "
        r"none is a critical point of Eq. 7, hence none an LME; Theorems 1, 3 say nothing there.",
    )
    yield check(
        abs(n_linear - 2),
        0,
        {"ReLU": abs(n_relu - 2)},
        part="linear: two maxima",
        evidence="protocol",
    )
    vectors = np.linalg.eigh(np.cov(x.T, bias=True))[1]
    peaks = linear.angle[~linear.angle.isnan()].numpy()
    w = np.stack([np.cos(peaks), np.sin(peaks)], -1)
    yield check(
        worst(1 - np.abs(w @ vectors[:, 1])),
        1e-12,
        {"the second component": best(1 - np.abs(w @ vectors[:, 0]))},
        part="linear maxima are the first component",
        evidence="protocol",
    )
    tops = relu.angle[~relu.angle.isnan()].numpy()
    inner = np.abs(np.cos(tops[:, None] - tops))
    pairs = inner[np.triu_indices(len(tops), 1)]
    yield check(
        best(pairs),
        0.1,
        {"both components of the linear node": float(abs(vectors[:, 0] @ vectors[:, 1]))},
        relation=">=",
        part="not orthogonal",
        evidence="protocol",
        note=r"The least $|w^\top w'|$ over all pairs.",
    )
    misses, other = [_missed(scanned(x, 0.0), tops)], []
    for _ in range(min(draws, 20)):
        cloud = rng.standard_normal((int(rng.integers(3, 12)), 2))
        slope = float(rng.choice([0.0, 0.1, 0.5]))
        exact = circle.extrema(torch.tensor(cloud), slope).angle
        found = exact[~exact.isnan()].numpy()
        misses.append(_missed(scanned(cloud, slope), found))
        other.append(_missed(scanned(cloud, 1.0), found))
    yield check(
        worst(np.array(misses)),
        2 * math.pi / 100_000,
        {"linear": float(np.mean(other))},
        part="pieces against a grid",
        draws=len(misses),
        note="Nine for other data: the maxima of random points, ReLU and leaky.",
    )


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


def fig1(draws: int, seed: int) -> Iterator[Check]:
    """Power iteration from every u_m, d = M = 8, |U^T U - I|_2 up to 0.1: steps shrink by a factor
    each, ends near u_m and is an LME. Controls: the first step; a neighbour u_m'.
    """
    rng, check = ref.generator("nl fig1", seed), partial(Check, "nl/fig1")
    last, first, off, beside, rank, shares = [], [], [], [], [], []
    q, d = 0.2, 8
    for size in (0.0, 0.02, 0.05, 0.1):
        for _ in range(min(draws, 5)):
            U = near_orthogonal(rng, d, size) if size else np.linalg.qr(
                rng.standard_normal((d, d)))[0]  # fmt: skip
            x, p = enumerated(U, q)
            world = one_layer.summation(torch.full((d,), q, dtype=torch.float64), torch.tensor(U))
            path = pi.iterate(partial(one_layer.operator, world), torch.tensor(U.T.copy()), 60)
            moved = (path[1:] - path[:-1]).norm(dim=-1).numpy()
            ends_ = path[-1].numpy()
            last.append(moved[-1])
            if size:  # exactly orthogonal patterns do not move at all
                first.append(moved[0])
            cosine = ends_ @ U
            off.append(1 - np.diag(cosine))
            beside.append(1 - (cosine - 2 * np.eye(d)).max(1))
            for w in ends_:
                _, vectors = np.linalg.eigh(gated_variance(x, p, w))
                rank.append(1 - abs(vectors[:, -1] @ w))
                shares.append(1 - abs(vectors[:, -2] @ w))
    runs = {"draws": len(rank), "note": "The figure's settings are not printed: $M=d=8$, $q=0.2$."}
    yield check(
        worst(*last), 1e-10, {"the first step": typical(np.concatenate(first))}, part="converges",
        **runs,
    )  # fmt: skip
    yield check(
        worst(*off), 0.05, {"the nearest other": typical(np.concatenate(beside))}, part="near u_m",
        **runs,
    )  # fmt: skip
    yield check(
        worst(np.array(rank)),
        1e-10,
        {"second eigenvector": typical(np.array(shares))},
        part="an LME",
        draws=len(rank),
        note=r"$A(w)$ is a step function, so its Lipschitz constant on the sphere is infinite; "
        r"Theorem 3 reaches these optima only with $L$ taken inside $B_\gamma$, where it is zero.",
    )


def rem12(draws: int, seed: int) -> Iterator[Check]:
    """Different starts, different optima: nodes collect optima as K grows, and stop at all of them;
    linear nodes find one. Basins are the arcs between minima.

    Controls: linear nodes; equal shares.
    """
    rng, check = ref.generator("nl rem12", seed), partial(Check, "nl/rem12")
    most, linear, errors, even = [], [], [], []
    n = 100
    for _ in range(min(draws, 5)):
        turn = 2 * math.pi * (np.arange(7) + rng.uniform(-0.3, 0.3, 7)) / 7
        x = on_rays(turn, rng.uniform(0.5, 1.5, 7)) * [1.0, 0.5]
        angle, _, share = circle.basins(torch.tensor(x))
        valleys = np.sort(scanned(x, 0.0, sign=-1.0))
        arcs = np.diff(valleys, append=valleys[0] + 2 * math.pi)
        first = int(np.searchsorted(angle.numpy(), valleys[0]))
        errors.append(worst(arcs / (2 * math.pi) - np.roll(share.numpy(), -first)))
        even.append(worst(share.numpy() - 1 / len(angle)))
        start = circle.on_circle(torch.tensor(rng.uniform(-math.pi, math.pi, n)))
        world = one_layer.samples(torch.tensor(x))
        for kind, out in (("relu", most), ("linear", linear)):
            end = basins.climb(world, start, kind, steps=600)
            if kind == "linear":  # up to sign
                end = end * (end @ end[0]).sign()[:, None]
            out.append(len(basins.ends(end).count) - 1)
    yield check(
        worst(np.array(linear)),
        0.0,
        {"ReLU": typical(np.array(most))},
        part="linear: one optimum up to sign",
        draws=n * len(linear),
    )
    yield check(
        worst(np.abs(np.array(errors))),
        1e-3,
        {"equal shares": float(np.median(even))},
        part="basins",
        draws=len(errors),
        note="Exact arcs between minima, against the minima of a fine grid.",
    )
    d, q = 6, 0.2
    U = np.linalg.qr(rng.standard_normal((d, d)))[0]
    world = one_layer.summation(torch.full((d,), q, dtype=torch.float64), torch.tensor(U))
    start = torch.tensor(rng.standard_normal((256, d)))
    start = start / start.norm(dim=-1, keepdim=True)
    end = basins.climb(world, start, steps=600)
    sizes = [len(basins.ends(end[:K], 0.05).count) for K in (1, 2, 4, 16, 64, 256)]
    yield check(
        sizes[3],
        3,
        {"one node": sizes[0]},
        relation=">=",
        part="nodes collect optima",
        draws=256,
        note=f"Different ends of 1, 2, 4, 16, 64, 256 nodes, summation model with $d=6$: {sizes}.",
    )


def rotation(t: Array | float, speeds: tuple[int, ...], d: int) -> Array:
    """R(t) [*t, d, d]: block k of two coordinates turns by speeds[k] t."""
    R = np.zeros((*np.shape(t), d, d)) + np.eye(d)
    for k, s in enumerate(speeds):
        c, sn = np.cos(s * t), np.sin(s * t)
        i = 2 * k
        R[..., i, i], R[..., i, i + 1], R[..., i + 1, i], R[..., i + 1, i + 1] = c, -sn, sn, c
    return R


def mean_response(x0: Array, w: Array, speeds: tuple[int, ...], t: Array) -> Array:
    """b(w | x_0) for each x_0 [n, d] over the augmentations R(t) x_0."""
    turned = np.einsum("tij,nj->nti", rotation(t, speeds, x0.shape[1]), x0)
    return np.maximum(turned @ w, 0).mean(1)


def energy_of(b: Array, alpha: Array) -> float:
    """1/2 sum_ij alpha_ij (b_i - b_j)^2 / N^2: the population C_alpha of Eq. 105."""
    return float(0.5 * (alpha * (b[:, None] - b) ** 2).mean())


def eq105(draws: int, seed: int) -> Iterator[Check]:
    """The expectation of Eq. 3 over augmentations, by enumeration of all pairs of views, against
    sum_l z_l^2 V_l[b]. Controls: V of h and not of b; z_l for its square.
    """
    rng, check = ref.generator("nl eq105", seed), partial(Check, "nl/eq105", draws=draws)
    errors, raw, single = {"uniform": [], "Gaussian": []}, [], []
    for _ in range(draws):
        n, k, d, tau = 5, 3, 3, float(rng.uniform(0.5, 2))
        p, aug = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(k))
        x0 = rng.standard_normal((n, d))
        views, w = x0[:, None] + 0.7 * rng.standard_normal((n, k, d)), rng.standard_normal(d)
        w = w if (views @ w).max() > 0.1 else -w  # at least one open gate
        h, g = np.maximum(views @ w, 0), np.abs(x0 @ w).clip(0, 2)  # alpha from some g >= 0 of x_0
        for name in errors:
            power = np.arange(60 if name == "Gaussian" else 1)
            root = np.cumprod(np.sqrt(np.maximum(power, 1)))
            scaled = g[:, None] / math.sqrt(tau)
            phi = np.exp(-(scaled**2) / 2) * scaled**power / root
            alpha = np.exp(-((g[:, None] - g) ** 2) / (2 * tau))
            if name == "uniform":
                phi, alpha = np.ones((n, 1)), np.ones((n, n))
            left = 0.0
            for i in range(n):
                for j in range(n):
                    weight = p[i] * p[j] * alpha[i, j] / 2
                    apart = aug @ (h[i][:, None] - h[j]) ** 2 @ aug
                    left += weight * (apart - aug @ (h[i][:, None] - h[i]) ** 2 @ aug)
            z = p @ phi
            law = phi * p[:, None] / np.maximum(z, 1e-300)
            b, h2 = h @ aug, h**2 @ aug
            spread = law.T @ b**2 - (law.T @ b) ** 2
            errors[name].append(abs(z**2 @ spread / left - 1))
            if name == "Gaussian":
                raw.append(abs(z**2 @ (law.T @ h2 - (law.T @ b) ** 2) / left - 1))
                single.append(abs(z @ spread / left - 1))
    yield check(
        worst(np.array(list(errors.values()))),
        1e-8,
        {"V of h": typical(np.array(raw)), "z_l": typical(np.array(single))},
    )


def eq108(draws: int, seed: int) -> Iterator[Check]:
    """b and the energy are constant along orbits, d = 2, 4, 6. Controls: angles of an interval
    (no group); a rotation outside the group.
    """
    rng, check = ref.generator("nl eq108", seed), partial(Check, "nl/eq108")
    same, energy, arc, foreign = [], [], [], []
    steps = 20_000
    t = 2 * math.pi * np.arange(steps) / steps
    for d, speeds in ((2, (1,)), (4, (1, 2)), (6, (1, 3, 0))):
        for _ in range(min(draws, 4)):
            x0, w = rng.standard_normal((4, d)), rng.standard_normal(d)
            alpha = np.exp(-((x0[:, None] - x0) ** 2).sum(-1) / 4)
            v = rotation(float(rng.uniform(0.3, 6)), speeds, d) @ w
            a, b = (mean_response(x0, y, speeds, t) for y in (w, v))
            same.append(np.abs(a - b).max())
            energy.append(abs(energy_of(a, alpha) - energy_of(b, alpha)))
            few = 0.6 * np.arange(400) / 400 - 0.3
            c, e = (mean_response(x0, y, speeds, few) for y in (w, v))
            arc.append(np.abs(c - e).max())
            if d == 4:
                mixed = w[[0, 2, 1, 3]]
                other = mean_response(x0, mixed, speeds, t)
                foreign.append(abs(energy_of(a, alpha) - energy_of(other, alpha)))
    check = partial(check, draws=len(same))
    yield check(
        worst(np.array(same)), 1e-6, {"angles of an interval": typical(np.array(arc))}, part="b"
    )
    yield check(
        worst(np.array(energy)), 1e-6, {"axes exchanged": typical(np.array(foreign))}, part="energy"
    )


def turned_response(x0: Array, theta: Array) -> Array:
    """b(w | x_0), [t, n], for rotations about the third axis and w = (cos theta, 0, sin theta).

    The mean of max(a cos(s) + c, 0) over s; every other w is on the orbit of one of these.
    """
    a = np.cos(theta)[:, None] * np.hypot(x0[:, 0], x0[:, 1])
    c = np.sin(theta)[:, None] * x0[:, 2]
    ratio = np.clip(-c / np.maximum(a, 1e-300), -1, 1)
    return (a * np.sqrt(1 - ratio**2) + c * np.arccos(ratio)) / math.pi


def rings(x0: Array, grid: int = 2001) -> Array:
    """theta of the maxima of the augmented energy that the rotations move, poles excluded."""
    theta = np.linspace(-math.pi / 2, math.pi / 2, grid)
    E = turned_response(x0, theta).var(-1)
    return theta[1:-1][(E[1:-1] > E[:-2]) & (E[1:-1] > E[2:])]


def _plain_tops(x0: Array, rng: np.random.Generator) -> Array:
    """Maxima without augmentation that the rotations would move, [k, 3], by ascent."""
    start = torch.tensor(rng.standard_normal((8, 3)))
    world = one_layer.samples(torch.tensor(x0))
    w = basins.climb(world, start / start.norm(dim=-1, keepdim=True), steps=300)
    w = w[one_layer.energy(world, w) > 0].numpy()  # some gate is open
    return w[np.abs(w[:, 2]) < 1 - 1e-6]


def rem13(draws: int, seed: int) -> Iterator[Check]:
    """Rotations about the third axis: data sets with a local maximum at a w that moves, and how the
    energy bends along the orbit of such a w.

    Control: no augmentation.
    """
    rng, check = ref.generator("nl rem13", seed), partial(Check, "nl/rem13")
    clouds = [rng.standard_normal((12, 3)) for _ in range(draws)]
    flat = [rng.random((6, 1)) * [1.0, 0.0, 0.0] for _ in range(min(draws, 6))]
    found = [rings(x0) for x0 in clouds + flat]
    ringed = [len(theta) > 0 for theta in found]
    plain = [_plain_tops(x0, rng) for x0 in clouds[:6]]
    yield check(
        sum(ringed),
        0,
        {"without augmentation": sum(len(w) > 0 for w in plain)},
        draws=len(found),
        note=f"Data sets with a local maximum, not strict, at a $w$ that moves: "
        f"{sum(ringed[:draws])} of {draws} Gaussian ones, {sum(ringed[draws:])} of {len(flat)} in "
        "the rotated plane.",
        counterexample=r"$x_0=(r,0,0)$ with random $r\ge0$, rotations about the third axis: "
        r"$\mathcal E\propto(w_1^2+w_2^2)\,\mathrm{Var}[r]$, greatest at every $w$ with $w_3=0$, "
        r"which moves, least at the invariant $w=\pm e_3$.",
    )
    t, step = 2 * math.pi * np.arange(20_000) / 20_000, 0.2

    def bend(x0: Array, w: Array, t: Array) -> float:
        """|second difference of the energy along the orbit of w| over the energy."""
        below, here, above = (
            mean_response(x0, rotation(s * step, (1,), 3) @ w, (1,), t).var() for s in (-1, 0, 1)
        )
        return abs(below - 2 * here + above) / (step**2 * here)

    along = [
        bend(x0, np.array([math.cos(1) * math.cos(v), math.sin(1) * math.cos(v), math.sin(v)]), t)
        for x0, theta in zip(clouds + flat, found, strict=True)
        for v in theta
    ]
    bare = [bend(x0, w, t[:1]) for x0, tops in zip(clouds[:6], plain, strict=True) for w in tops]
    yield check(
        worst(np.array(along)),
        1e-5,
        {"without augmentation": typical(np.array(bare))},
        draws=len(along),
        form="corrected",
        correction=r"If $w'=R(t'')w\ne w$, $w$ cannot be an isolated local maximum; its orbit "
        "may be a ring of them.",
        note="Second difference along the orbit at these maxima, over the energy.",
    )
