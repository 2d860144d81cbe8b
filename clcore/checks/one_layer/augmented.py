"""What augmentation by a group of rotations does to optima (nl App. B.5).

Finite laws enumerated in numpy, means over many angles, closed forms for rotations of one plane.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.ledger import Check
from clcore.reference import Array, typical, worst
from clcore.theory.one_layer import basins, one_layer


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
    """b and the energy along orbits, d = 2, 4, 6, for t uniform in a parameter of the group.

    Controls: angles of an interval (no group), angles 2 pi t^2 (t uniform, the rotation not); a
    rotation outside the group.
    """
    rng, check = ref.generator("nl eq108", seed), partial(Check, "nl/eq108")
    found: dict[str, list[float]] = defaultdict(list)
    t = np.arange(20_000) / 20_000
    families = {
        "squared": 2 * math.pi * t**2,
        "angle": 2 * math.pi * t,
        "interval": 0.6 * np.arange(400) / 400 - 0.3,
    }
    for d, speeds in ((2, (1,)), (4, (1, 2)), (6, (1, 3, 0))):
        for _ in range(min(draws, 4)):
            x0, w = rng.standard_normal((4, d)), rng.standard_normal(d)
            alpha = np.exp(-((x0[:, None] - x0) ** 2).sum(-1) / 4)
            v = rotation(float(rng.uniform(0.3, 6)), speeds, d) @ w
            for name, angles in families.items():
                a, b = (mean_response(x0, y, speeds, angles) for y in (w, v))
                found[f"b {name}"].append(np.abs(a - b).max())
                apart = energy_of(a, alpha) - energy_of(b, alpha)
                found[f"energy {name}"].append(abs(apart))
                if d == 4 and name == "angle":
                    other = mean_response(x0, w[[0, 2, 1, 3]], speeds, angles)
                    found["foreign"].append(abs(energy_of(a, alpha) - energy_of(other, alpha)))
    controls = {
        "b": {"angles of an interval": typical(np.array(found["b interval"]))},
        "energy": {"axes exchanged": typical(np.array(found["foreign"]))},
    }
    for part, control in controls.items():
        this = partial(check, draws=len(found["b angle"]), part=part)
        yield this(
            worst(np.array(found[f"{part} angle"])),
            1e-6,
            control | {"rotations by $2\\pi t^2$": typical(np.array(found[f"{part} squared"]))},
            note=r"$R(t)R(t')=R(t+t')$, so that the parameter of a product is uniform, as the text "
            r"after Eq. 108 has it: $R(t)$ is uniform on the group (Haar). Fails where $t$ is "
            r"uniform and $R(t)$ is not: rotations by $2\pi t^2$, $t$ uniform on $[0,1]$."
            if part == "b"
            else "",
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
        note="Second difference along the orbit at these maxima, over the energy. Isolated is "
        "enough where a local optimum is what weights converge into and stay at (Sec. 3.2); App. "
        "B.5 argues by the energy alone.",
    )
