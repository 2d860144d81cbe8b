"""Theorem 2, link by link, and Corollary 2: how rough A(w) is (nl Sec. 3.2, App. B.3).

Laws on balls from radius 0.05 to 4 in two and three dimensions. `clcore.theory.one_layer.roughness`
integrates over the plane w.x = 0; the checks take differences of A, or integrate the wedges between
w_* and w.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from clcore.checks.one_layer import unit_ball
from clcore.checks.one_layer.eigenvectors.families import across
from clcore.ledger import Part, Trial, check, pooled, worst
from clcore.reference import Array
from clcore.theory.one_layer import roughness as ro

RADII = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
ORDER = 20


def flat(radius: float, d: int) -> Callable:
    """The uniform law."""
    return lambda x: torch.full_like(x[..., 0], 1 / ro.volume(d, radius))


def tilted(radius: float, d: int, t: Array) -> Callable:
    """Density proportional to 1 + t.x / C_0, |t| <= 1."""
    t = torch.tensor(t)
    return lambda x: (1 + (x @ t) / radius) / ro.volume(d, radius)


def heaped(radius: float, w: Array, share: float = 1e-3) -> Callable:
    """Nearly all mass close to C_0 w, a little uniform: attains most of the bound."""
    spike = ro.mixture(torch.tensor(0.95 * radius * w)[None], 0.05 * radius, radius, 60)
    d = len(w)
    return lambda x: (1 - share) * spike(x) + share / ro.volume(d, radius)


def unit(rng: np.random.Generator, d: int) -> Array:
    w = rng.standard_normal(d)
    return w / np.linalg.norm(w)


def examples(
    rng: np.random.Generator, draws: int
) -> Iterator[tuple[Callable, float, Array, Array]]:
    """(density, radius, w_*, u) over all radii: uniform, tilted along u, mixtures."""
    for k in range(min(draws, 10)):
        for radius in RADII:
            d = 2 + k % 2
            w = unit(rng, d)
            u = across(rng, w[None])[0]
            means = 0.5 * radius * rng.standard_normal((3, d))
            scale = radius * rng.uniform(0.3, 0.6)
            yield (
                (
                    flat(radius, d),
                    tilted(radius, d, u),
                    ro.mixture(torch.tensor(means), scale, radius, ORDER),
                )[k % 3 if k else 0],
                radius,
                w,
                u,
            )


def turned(w: Array, u: Array, angle: float) -> Array:
    return math.cos(angle) * w + math.sin(angle) * u


def measured_roughness(parts: ro.Parts, radius: float, w: Array, directions: Array) -> float:
    """rho by differences of A(w) from both sides, over the given tangent directions."""
    e, out = 1e-4, []
    order = ORDER if len(w) == 2 else 16
    here = torch.tensor(w)
    for u in directions:
        plus, minus = (
            ro.covariance(parts, torch.tensor(turned(w, u, s * e)), radius, order) for s in (1, -1)
        )
        out.append(float(((plus - minus) @ here).norm()) / (2 * e))
    return max(out)


def powers(t: Trial, name: str = "", bound: float = 1.0, **more: Any) -> tuple[Part, Part]:
    """A part as printed, with C_0^3, and as corrected, with C_0^2."""
    more["controls"] = worst
    return t.part(name, bound, **more), t.corrected(name, bound, **more)


def compare(parts: tuple[Part, Part], ratio: Callable[[int], float]) -> None:
    """Add the left side over the right one with this power of C_0; controls: powers 4 and 0."""
    printed, corrected = parts
    printed.add(ratio(3)).breaks("C_0^4", ratio(4))
    corrected.add(ratio(2)).breaks("C_0^0", ratio(0))


@check("nl/thm2")
def thm2(t: Trial) -> None:
    """Local roughness of ReLU bounded by the data density on the gating plane (Theorem 2).

    Given   ReLU, laws on balls of radius 0.05 to 4 in two and three dimensions, alpha uniform or
            Gaussian.
    Claim   rho(w_*) <= C_0^3 vol(C_0) r(w_*, alpha)/pi: their ratio, rho from differences of A;
            rho is an integral over the plane w_*^T x = 0.
    Fails   as printed, at small radii. Corrected: C_0^2. Controls: powers 4 and 1, half of rho.
    """
    printed, corrected = powers(t)
    plane = t.part("rho is an integral over the plane", 1e-3, controls=pooled)

    def over(rho: float, peak: torch.Tensor, d: int, radius: float) -> None:
        ratio = {k: rho / float(ro.bound(peak, d, radius, k)) for k in (1, 2, 3, 4)}
        for part, power in ((printed, 3), (corrected, 2)):
            part.add(ratio[power]).breaks("C_0^4", ratio[4]).breaks("C_0", ratio[1])

    for p, radius, w, u in examples(t.rng, t.draws):
        d, here = len(w), torch.tensor(w)
        order = ORDER if d == 2 else 16
        unit_law, axes = unit_ball.scaled(p, radius, d), unit_ball.axes_of(w, u)
        for kernel in (False, True):
            spots = ro.plane(ro.frame(here), 1.0, order)[0].numpy()
            own = unit_ball.over_bound(unit_law, axes, spots, 0.1 if kernel else None) / radius
            printed.fails_by(own, within=2e-4)
            parts = ro.gaussian(p, here, 0.1 * radius**2, 6) if kernel else ro.uniform(p)
            M = ro.jacobian(parts, here, radius, order)
            tangents = np.linalg.eigh(M.numpy())[1][:, : d - 1].T
            rho = measured_roughness(parts, radius, w, tangents)
            exact = float(ro.roughness(parts, here, radius, order))
            plane.add(abs(rho / exact - 1)).breaks("half of it", abs(rho / (exact / 2) - 1))
            over(rho, ro.peak(parts, here, radius, order), d, radius)
    for radius in (0.3, 3.0):
        w = unit(t.rng, 2)
        parts = ro.uniform(heaped(radius, w))
        rho = float(ro.roughness(parts, torch.tensor(w), radius, 60))
        over(rho, ro.peak(parts, torch.tensor(w), radius, 60), 2, radius)
        law = unit_ball.scaled(heaped(radius, w), radius, 2)
        spots = ro.plane(ro.frame(torch.tensor(w)), 1.0, 60)[0].numpy()
        own = unit_ball.over_bound(law, unit_ball.axes_of(w), spots) / radius
        printed.fails_by(own, within=2e-4)


def wedge(p: Callable, radius: float, w: Array, u: Array, low: float, high: float) -> dict:
    """Integrals over the sector from `low` to `high` in the plane (w, u): dx, p, |x|p, xp, xx^T p,
    and the largest p and |w.x| there."""
    axes = np.stack([w, u] if len(w) == 2 else [w, u, np.cross(w, u)])
    x, weight = ro.sector(torch.tensor(axes), low, high, radius, 24 if len(w) == 2 else 14)
    mass, x, weight = (p(x) * weight).numpy(), x.numpy(), weight.numpy()
    edge = axes[:1] * math.cos(low) + axes[1:2] * math.sin(low)
    spots = np.concatenate([x, radius * edge])
    return {
        "dx": weight.sum(),
        "p": mass.sum(),
        "length": (np.linalg.norm(x, axis=-1) * mass).sum(),
        "first": mass @ x,
        "second": np.einsum("n,ni,nj->ij", mass, x, x),
        "peak": float(p(torch.tensor(spots)).max()),
        "spots": spots,
        "reach": np.abs(spots @ w).max(),
    }


def wedges(p: Callable, radius: float, w: Array, u: Array, angle: float) -> tuple[dict, dict]:
    """Omega_+ and Omega_- between w and w turned towards u by `angle`."""
    right = math.pi / 2
    return (
        wedge(p, radius, w, u, -right, -right + angle),
        wedge(p, radius, w, u, right, right + angle),
    )


def gated(p: Callable, radius: float, w: Array) -> tuple[Array, Array]:
    """e and E of Eqs. 67, 68."""
    axes = ro.frame(torch.tensor(w))
    order = 24 if len(w) == 2 else 18
    x, weight = ro.sector(axes, -math.pi / 2, math.pi / 2, radius, order)
    mass, x = (p(x) * weight).numpy(), x.numpy()
    return mass @ x, np.einsum("n,ni,nj->ij", mass, x, x)


@check("nl/eq79")
def eq79(t: Trial) -> None:
    """Second moment over the wedge between two gating planes (Eqs. 70-80).

    Given   the laws of Theorem 2, wedges of angle 0.01 to 0.5 between two planes.
    Claim   |w_*^T x| <= C_0 |w - w_*| on the wedge, the split of E - E_*, and the chain from
            Eq. 76 to the "=" before Eq. 78 and to Eq. 80, link by link.
    Fails   the "=" before Eq. 78, and Eq. 80, as printed. Corrected: C_0^2. Controls: half of the
            reach, wedges swapped, a tenth, other powers.
    """
    reach = t.part("Eqs. 75, 79", 1e-9, controls=pooled)
    split = t.part("Eq. 73", 1e-3, controls=pooled)
    chain = t.part("Eqs. 76, 77", 1.0, controls=worst)
    equal = t.part('the "=" before Eq. 78', 1e-3, controls=pooled)
    mended = t.corrected('the "=" before Eq. 78', 1e-3, controls=pooled)
    whole, short = powers(t, "Eq. 80"), []
    for p, radius, w, u in examples(t.rng, t.draws):
        d, angle = len(w), float(10 ** t.rng.uniform(-2, -0.3))
        v = turned(w, u, angle)
        plus, minus = wedges(p, radius, w, u, angle)
        far = np.linalg.norm(v - w)
        most = max(plus["reach"], minus["reach"]) / (radius * far)
        reach.add(most - 1)
        short.append(2 * most)
        change = gated(p, radius, v)[1] - gated(p, radius, w)[1]
        size = max(np.abs(side["second"]).max() for side in (plus, minus))
        split.add(np.abs(change - minus["second"] + plus["second"]).max() / size)
        split.breaks(
            "wedges swapped", np.abs(change - plus["second"] + minus["second"]).max() / size
        )
        left = np.linalg.norm(plus["second"] @ w)
        middle = radius**2 * far * plus["peak"] * plus["dx"]
        chain.add(left / middle).breaks("a tenth", 10 * left / middle)
        off = {}
        for k in (1, 2, 3):
            right = radius**k * far * plus["peak"] * ro.volume(d, radius) * angle / (2 * math.pi)
            off[k] = abs(middle / right - 1)
        equal.add(off[3]).breaks("C_0", off[1]).fails_by(abs(1 / radius - 1))
        mended.add(off[2]).breaks("C_0", off[1])
        top = max(plus["peak"], minus["peak"])
        pushed = np.linalg.norm((minus["second"] - plus["second"]) @ w)

        def ratio(k: int) -> float:
            return pushed / (radius**k * ro.volume(d, radius) / math.pi * far * top * angle)  # noqa: B023

        compare(whole, ratio)
        whole[1].breaks("C_0^4", ratio(4))
        law, axes = unit_ball.scaled(p, radius, d), unit_ball.axes_of(w, u)
        spots = np.concatenate([plus["spots"], minus["spots"]]) / radius
        own, _ = unit_ball.over_wedges(law, axes, angle, spots)
        whole[0].fails_by(own / radius, within=1e-4)
    reach.breaks("half of C_0", np.median(short) - 1)


def _slope(big: float, small: float) -> float:
    return math.log10(big / small)


@check("nl/eq84")
def eq84(t: Trial) -> None:
    """Change of the gated second moment is of second order (Eq. 84).

    Given   tilted densities on balls, angles 0.01 and 0.001.
    Claim   (E - E_*) w_* is of second order (slope 2), and at most C_0^3 vol(C_0)/pi |w - w_*|^2
            max p~/(1 - eps).
    Fails   the bound as printed, at small C_0. Corrected: C_0^2. Controls: u in place of w_*,
            other powers.
    """
    found = list(examples(t.rng, t.draws))
    order = t.part("second order", 0.05, controls=pooled)
    bound = powers(t, "bound", draws=len(found))
    for _, radius, w, u in found:
        d, p = len(w), tilted(radius, len(w), u)
        sizes, other = [], []
        for angle in (1e-2, 1e-3):
            plus, minus = wedges(p, radius, w, u, angle)
            change = minus["second"] - plus["second"]
            sizes.append(np.linalg.norm(change @ w))
            other.append(np.linalg.norm(change @ u))
            far, top = 2 * math.sin(angle / 2), max(plus["peak"], minus["peak"])

            def ratio(k: int) -> float:
                right = radius**k * ro.volume(d, radius) / math.pi / math.cos(angle) * far**2 * top  # noqa: B023
                return sizes[-1] / right  # noqa: B023

            compare(bound, ratio)
            bound[0].fails_by(unit_ball.tilted_wedges(d, angle) / radius, within=1e-7)
        order.add(abs(_slope(*sizes) - 2)).breaks("u for w_*", abs(_slope(*other) - 2))


@check("nl/eq90")
def eq90(t: Trial) -> None:
    """Change of the gated mean is the first-order term of the roughness (Eqs. 85-90).

    Given   the laws of Theorem 2, angles 0.1 and 0.01.
    Claim   Eq. 85's split; only one term is of first order; Eqs. 87 and 88, each link; Eq. 89, and
            the whole chain of Eq. 90.
    Fails   Eq. 89, and with it Eq. 90, as printed. Corrected: C_0^2. Eq. 87 as typeset, with w in
            the mean (a misprint). Controls: a term transposed, a tenth, other powers.
    """
    found = list(examples(t.rng, t.draws))
    split = t.part("Eq. 85", 1e-9, controls=pooled)
    order = t.part("only one term of first order", 0.2, controls=pooled, draws=2 * len(found))
    begun = t.part("Eq. 87", 1 + 1e-9, controls=worst)
    links = [t.part(f"Eq. 88, {n}", 1 + 1e-9, controls=worst) for n in ("first", "second")]
    last, total = (powers(t, n, 1 + 1e-6) for n in ("Eq. 89", "Eq. 90, whole chain"))
    for p, radius, w, u in found:
        d, steps, steps1 = len(w), [], []
        for angle in (1e-1, 1e-2):
            v = turned(w, u, angle)
            plus, minus = wedges(p, radius, w, u, angle)
            base = gated(p, radius, w)[0]
            change = minus["first"] - plus["first"]
            e = base + change
            steps.append(np.linalg.norm(e * (change @ w)))
            steps1.append(np.linalg.norm(change * (base @ w)))
            outer = np.outer(e, e) - np.outer(base, base)
            rest, size = outer - np.outer(e, change), np.abs(outer).max()
            split.add(np.abs(rest - np.outer(change, base)).max() / size)
            split.breaks("transposed", np.abs(rest - np.outer(base, change)).max() / size)
            h = e @ v
            top = max(plus["peak"], minus["peak"])
            length, mass, size = (plus[k] + minus[k] for k in ("length", "p", "dx"))
            chain = [h * length, radius**2 * mass, radius**2 * top * size]
            for link, left, right in zip(links, chain, chain[1:], strict=False):
                link.add(left / right).breaks("a tenth", 10 * (left / right))
            start = steps1[-1] / (base @ w * length)
            begun.add(start).breaks("a tenth", 10 * start)
            begun.breaks("as typeset: w in the mean", steps1[-1] / chain[0])
            far = np.linalg.norm(v - w)

            def scale(k: int) -> float:
                return radius**k * ro.volume(d, radius) / math.pi * top  # noqa: B023

            compare(last, lambda k: chain[-1] / (scale(k) * angle))  # noqa: B023
            compare(total, lambda k: steps1[-1] / (scale(k) * far / math.cos(angle)))  # noqa: B023
            law, axes = unit_ball.scaled(p, radius, d), unit_ball.axes_of(w, u)
            spots = np.concatenate([plus["spots"], minus["spots"]]) / radius
            _, own = unit_ball.over_wedges(law, axes, angle, spots)
            last[0].fails_by(1 / radius)
            total[0].fails_by(own / radius, within=2e-4)
        order.add(abs(_slope(*steps) - 2))
        order.breaks("the first-order term", abs(_slope(*steps1) - 2))


@check("nl/eq92")
def eq92(t: Trial) -> None:
    """Change of A(w) bounded by the data density on the wedge (Eqs. 91-93).

    Given   the laws of Theorem 2, alpha uniform and Gaussian, angle 0.001.
    Claim   |(A(w) - A(w_*)) w_*| is at most the first-order right side, C_0^3 vol(C_0)/pi sum_l
            z_l^2 max p~_l |w - w_*|/(1 - eps).
    Fails   as printed, at small C_0. Corrected: C_0^2. Controls: other powers.
    """
    bound, angle = powers(t), 1e-3
    for p, radius, w, u in examples(t.rng, t.draws):
        d, here = len(w), torch.tensor(w)
        order = ORDER if d == 2 else 14
        for kernel in (False, True):
            parts = ro.gaussian(p, here, 0.3 * radius**2, 8) if kernel else ro.uniform(p)
            base = ro.covariance(parts, here, radius, order)
            v = torch.tensor(turned(w, u, angle))
            left = float(((ro.covariance(parts, v, radius, order) - base) @ here).norm())
            peak = torch.tensor(float(ro.peak(parts, here, radius, order)))

            def ratio(k: int) -> float:
                right = float(ro.bound(peak, d, radius, k)) * 2 * math.sin(angle / 2)  # noqa: B023
                return left / right  # noqa: B023

            compare(bound, ratio)
            law, axes = unit_ball.scaled(p, radius, d), unit_ball.axes_of(w, u)
            spots = ro.plane(ro.frame(here), 1.0, order)[0].numpy()
            tau = 0.3 if kernel else None
            own = unit_ball.over_bound(law, axes, spots, tau, along=True) / radius
            bound[0].fails_by(own, within=5e-3)  # to first order
