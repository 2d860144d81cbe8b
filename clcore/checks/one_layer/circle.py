"""Figures 1 and 8, and basins: the optima themselves (nl Sec. 3.3, App. E.1).

`clcore.theory.one_layer.circle_landscape` takes the energy apart into arcs; the checks scan it on a
fine grid, climb from random starts, or enumerate finite laws in numpy.
"""

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.ledger import Check
from clcore.reference import Array, best, typical, worst
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
    each, ends near u_m and is an LME. And whether Theorem 3 tells so. Controls: the first step; a
    neighbour u_m'; larger deviations.
    """
    rng, check = ref.generator("nl fig1", seed), partial(Check, "nl/fig1")
    last, first, off, beside, rank, shares = [], [], [], [], [], []
    whole, inside, far, restless = [], [], [], []
    q, d, large = 0.2, 8, 0.4
    for size in (0.0, 0.02, 0.05, 0.1, large):
        for _ in range(min(draws, 5)):
            U = near_orthogonal(rng, d, size) if size else np.linalg.qr(
                rng.standard_normal((d, d)))[0]  # fmt: skip
            x, p = enumerated(U, q)
            world = one_layer.summation(torch.full((d,), q, dtype=torch.float64), torch.tensor(U))
            path = pi.iterate(partial(one_layer.operator, world), torch.tensor(U.T.copy()), 60)
            moved = (path[1:] - path[:-1]).norm(dim=-1).numpy()
            ends_ = path[-1].numpy()
            off.append(1 - np.diag(ends_ @ U))
            lacks = np.array([_lacks(x, p, w) for w in U.T])
            if size == large:
                restless.append(moved[-1])
                far.append(lacks[:, 1])
                continue
            if 0 < size < 0.1:
                whole.append(lacks[:, 0])
                inside.append(lacks[:, 1])
            last.append(moved[-1])
            if size:  # exactly orthogonal patterns do not move at all
                first.append(moved[0])
            cosine = ends_ @ U
            beside.append(1 - (cosine - 2 * np.eye(d)).max(1))
            for w in ends_:
                _, vectors = np.linalg.eigh(gated_variance(x, p, w))
                rank.append(1 - abs(vectors[:, -1] @ w))
                shares.append(1 - abs(vectors[:, -2] @ w))
    note, deviation = (
        "The figure's settings are not printed: $M=d=8$, $q=0.2$.",
        r"$\|U^\top U-I\|$",
    )
    moving = float((np.concatenate(restless) > 1e-10).mean())
    yield check(
        worst(*last),
        1e-10,
        {"the first step": typical(np.concatenate(first)), f"{deviation} = 0.4": worst(*restless)},
        part="converges",
        draws=len(rank),
        note=f"{note} {deviation} up to 0.1. At 0.4, {moving:.0%} of the runs go round near $u_m$ "
        "for ever.",
    )
    yield check(
        worst(*off),
        0.05,
        {"the nearest other": typical(np.concatenate(beside))},
        part="near u_m",
        draws=d * len(off),
        note=f"{note} {deviation} up to 0.4.",
    )
    yield check(
        worst(np.array(rank)),
        1e-10,
        {"second eigenvector": typical(np.array(shares))},
        part="an LME",
        draws=len(rank),
    )
    part, control = "Theorem 3", {f"{deviation} = 0.4": typical(*far)}
    yield check(
        worst(*whole),
        0.0,
        control,
        part=part,
        draws=d * len(whole),
        note=r"$\omega-\gamma$ at $u_m$, the best $\gamma$, deviations 0.02 and 0.05. L is the "
        f"change of $A$ across one of its steps over {STEP:.0e}, and has no bound.",
        counterexample=r"$A(w)$ jumps where $w^\top x=0$ for a state $x$, so $L=\infty$ on the "
        "sphere, and Eq. 11 never holds.",
    )
    yield check(
        worst(*inside),
        0.0,
        control,
        part=part,
        draws=d * len(inside),
        form="corrected",
        correction=r"Theorem 3 tells so if $L$ is taken inside $B_\gamma$, where it is zero for "
        r"small $\|U^\top U-I\|$: no state has $w^\top x=0$ there.",
        note=r"$\sup_{B_\gamma}\omega-\gamma$, the best $\gamma$. At 0.4 there is a step in "
        "most $B_\\gamma$.",
    )


STEP = 1e-6


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


def rem12(draws: int, seed: int) -> Iterator[Check]:
    """Different starts, different optima: nodes collect optima as K grows, and stop at all of them;
    linear nodes find one. Basins are the arcs between minima.

    Controls: ReLU nodes for linear ones; equal shares; one node.
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
