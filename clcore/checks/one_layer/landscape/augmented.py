"""What augmentation by a group of rotations does to optima (nl App. B.5).

Finite laws enumerated in numpy, means over many angles, closed forms for rotations of one plane.
"""

import math
from itertools import product

import numpy as np
import torch

from clcore.checks.one_layer.importance import batch_proofs as proofs
from clcore.ledger import Trial, check, pooled
from clcore.reference import Array
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


def _features(g: Array, tau: float, kind: str) -> tuple[Array, Array]:
    """(phi [n, l], alpha [n, n]) of outputs g: 60 features of the Gaussian, or alpha = 1."""
    if kind == "uniform":
        return np.ones((len(g), 1)), np.ones((len(g), len(g)))
    power = np.arange(60)
    root = np.cumprod(np.sqrt(np.maximum(power, 1)))
    scaled = g[:, None] / math.sqrt(tau)
    phi = np.exp(-(scaled**2) / 2) * scaled**power / root
    return phi, np.exp(-((g[:, None] - g) ** 2) / (2 * tau))


@check("nl/eq105")
def eq105(t: Trial) -> None:
    """Energy of a single filter under data augmentation (Eq. 105).

    Given   finite worlds of five points with three views each, h = ReLU; alpha uniform or Gaussian.
    Claim   C_alpha[h(w^T x)] tends to sum_l z_l^2 V_{p~_l}[b], b = E[h(w^T x)|x_0]: all pairs of
            views against the right side.
    Fails   for V[h] in place of V[b], and for z_l in place of its square (alpha Gaussian).
    """
    rng, n, views, d = t.rng, 5, 3, 3
    part = t.part("", 1e-8, controls=pooled, draws=t.draws)
    for _ in range(t.draws):
        tau = float(rng.uniform(0.5, 2))
        p, chance = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(views))
        x0 = rng.standard_normal((n, d))
        x, w = x0[:, None] + 0.7 * rng.standard_normal((n, views, d)), rng.standard_normal(d)
        w = w if (x @ w).max() > 0.1 else -w  # at least one open gate
        h, g = np.maximum(x @ w, 0), np.abs(x0 @ w).clip(0, 2)  # alpha from some g >= 0 of x_0
        for kind in ("uniform", "Gaussian"):
            phi, alpha = _features(g, tau, kind)

            # C_alpha over all pairs of samples and views.
            left = 0.0
            for i, j in product(range(n), repeat=2):
                weight = p[i] * p[j] * alpha[i, j] / 2
                apart = chance @ (h[i][:, None] - h[j]) ** 2 @ chance
                left += weight * (apart - chance @ (h[i][:, None] - h[i]) ** 2 @ chance)

            # sum_l z_l^2 V_l of the mean response b.
            z = p @ phi
            law = phi * p[:, None] / np.maximum(z, 1e-300)
            b, square = h @ chance, h**2 @ chance
            spread = law.T @ b**2 - (law.T @ b) ** 2
            part.add(abs(z**2 @ spread / left - 1))
            if kind == "Gaussian":
                of_h = z**2 @ (law.T @ square - (law.T @ b) ** 2)
                part.breaks("V of h", abs(of_h / left - 1))
                part.breaks("z_l", abs(z @ spread / left - 1))
    proofs.eq105(part)


@check("nl/eq108")
def eq108(t: Trial) -> None:
    """Energy is invariant when a group of augmentations rotates the filter (Eqs. 106-108).

    Given   rotations of one parameter in d = 2, 4, 6, R(t) uniform on the group; random x_0, alpha
            held.
    Claim   With b(w|x_0) = E[max(w^T x, 0)|x_0], x = R(t) x_0, a mean over 20000 angles, (1) b(R
            w|x_0) = b(w|x_0); (2) the energy 1/2 E[alpha (b(w|x_0) - b(w|x_0'))^2] is the same at R
            w.
    Fails   (1) for angles of an interval, which are no group; (1), (2) for rotations by 2 pi t^2,
            which are not uniform; (2) for a w' that no rotation of the group takes w to.
    """
    response = t.part("b", 1e-6, controls=pooled)
    energy = t.part("energy", 1e-6, controls=pooled)
    turn, square = np.arange(20_000) / 20_000, r"rotations by $2\pi t^2$"
    families = {
        "angle": 2 * math.pi * turn,
        square: 2 * math.pi * turn**2,
        "angles of an interval": 0.6 * np.arange(400) / 400 - 0.3,
    }
    for d, speeds in ((2, (1,)), (4, (1, 2)), (6, (1, 3, 0))):
        for _ in range(min(t.draws, 4)):
            x0, w = t.rng.standard_normal((4, d)), t.rng.standard_normal(d)
            alpha = np.exp(-((x0[:, None] - x0) ** 2).sum(-1) / 4)
            turned = rotation(float(t.rng.uniform(0.3, 6)), speeds, d) @ w

            def off(name: str, other: Array) -> tuple[float, float]:
                """How far b and the energy at `other` are from those at w."""
                a, b = (mean_response(x0, y, speeds, families[name]) for y in (w, other))  # noqa: B023
                return np.abs(a - b).max(), abs(energy_of(a, alpha) - energy_of(b, alpha))  # noqa: B023

            same, squared = off("angle", turned), off(square, turned)

            # (1) b at the turned filter against b at w, the largest gap over x_0.
            response.add(same[0]).breaks(square, squared[0])
            response.breaks("angles of an interval", off("angles of an interval", turned)[0])

            # (2) The energy at both.
            energy.add(same[1]).breaks(square, squared[1])
            if d == 4:
                energy.breaks("axes exchanged", off("angle", w[[0, 2, 1, 3]])[1])


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


def _turns(x0: Array, grid: int = 2001) -> int:
    """How many maxima `rings` has, b a Gauss-Legendre sum over the rotations for which the gate is
    open."""
    theta = np.linspace(-math.pi / 2, math.pi / 2, grid)[:, None, None]
    nodes, weights = np.polynomial.legendre.leggauss(12)
    r, z = np.hypot(x0[:, 0], x0[:, 1])[:, None], x0[:, 2:]
    across = np.maximum(np.cos(theta) * r, 1e-300)
    end = np.arccos(np.clip(-np.sin(theta) * z / across, -1, 1))  # the gate is open for |s| < end
    s, weight = end * (1 + nodes) / 2, end * weights / (2 * math.pi)
    b = ((across * np.cos(s) + np.sin(theta) * z) * weight).sum(-1)
    rises = np.diff(((b - b.mean(-1, keepdims=True)) ** 2).mean(-1)) > 0
    return int((rises[:-1] & ~rises[1:]).sum())


def _plain_tops(x0: Array, rng: np.random.Generator) -> Array:
    """Maxima without augmentation that the rotations would move, [k, 3], by ascent."""
    start = torch.tensor(rng.standard_normal((8, 3)))
    world = one_layer.samples(torch.tensor(x0))
    w = basins.climb(world, start / start.norm(dim=-1, keepdim=True), steps=300)
    w = w[one_layer.energy(world, w) > 0].numpy()  # some gate is open
    return w[np.abs(w[:, 2]) < 1 - 1e-6]


def bend(x0: Array, w: Array, t: Array, step: float = 0.2) -> float:
    """|second difference of the energy along the orbit of w| over the energy, angles t."""
    below, here, above = (
        mean_response(x0, rotation(s * step, (1,), 3) @ w, (1,), t).var() for s in (-1, 0, 1)
    )
    return abs(below - 2 * here + above) / (step**2 * here)


@check("nl/rem13")
def rem13(t: Trial) -> None:
    """Augmentation removes local optima that it does not leave invariant (App. B.5, after Eq. 108).

    Given   rotations about the third axis in d = 3, Gaussian data and data in the rotated plane;
            the augmented energy in closed form along the meridian.
    Claim   No local maximum is at a w that moves under the group: the number of data sets that
            have one is 0.
    Fails   as printed: rings of such maxima occur. Corrected: they are not isolated, for the
            energy does not bend along the orbit. Control: no augmentation.
    """
    clouds = [t.rng.standard_normal((12, 3)) for _ in range(t.draws)]
    flat = [t.rng.random((6, 1)) * [1.0, 0.0, 0.0] for _ in range(min(t.draws, 6))]
    found = [rings(x0) for x0 in clouds + flat]
    plain = [_plain_tops(x0, t.rng) for x0 in clouds[:6]]

    # How many data sets have a maximum at a w that moves.
    ringed, again = ([len(theta) > 0 for theta in found], [_turns(x0) > 0 for x0 in clouds + flat])
    moves = t.part(draws=len(found)).add(sum(ringed)).fails_by(sum(again))
    moves.breaks("without augmentation", sum(len(w) > 0 for w in plain))
    moves.says(some=sum(ringed[: t.draws]), draws=t.draws)
    moves.says(flat=sum(ringed[t.draws :]), of=len(flat))
    moves.confirms(some=sum(again[: t.draws]), flat=sum(again[t.draws :]))

    # How the energy bends along the orbit of such a w.
    ring = t.corrected("", 1e-5, controls=pooled)
    turn = 2 * math.pi * np.arange(20_000) / 20_000
    for x0, angles in zip(clouds + flat, found, strict=True):
        for v in angles:
            w = [math.cos(1) * math.cos(v), math.sin(1) * math.cos(v), math.sin(v)]
            ring.add(bend(x0, np.array(w), turn))
    for x0, tops in zip(clouds[:6], plain, strict=True):
        ring.breaks("without augmentation", *(bend(x0, w, turn[:1]) for w in tops))
