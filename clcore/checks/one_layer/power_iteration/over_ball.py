"""What it means that a gamma is proved (nl Theorem 3): omega stays below it over all of B_gamma.

`power_iteration.certificate` sees A at the start only, so it speaks of every family with these
eigenvalues and this Lipschitz constant. Here are families that nearly attain what it allows: in a
plane A(w) = A_0 + u.(w - w(0)) B, u along the chord to the far edge of B_gamma, |B| = L, such that
on the way there the first eigenvalue falls, the second grows, or the eigenvector turns away.
Omega is small at the start and large at the edge. It is searched densely; and once more enclosed by
intervals, on every box of B_gamma.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from mpmath import iv

from clcore.ledger import Part, Trial, exact, pooled
from clcore.reference import Array
from clcore.theory.one_layer import power_iteration as pi

FINE, POINTS, WAYS = 4999, 401, 13
GRID = np.arange(1, FINE + 1) / (FINE + 1)


@dataclass(frozen=True)
class Start:
    """c = w(0).phi_1, eigenvalues 1 and s of A_0 and a Lipschitz constant L, a draw each."""

    c: Array
    s: Array
    L: Array

    def proved(self, grid: int = FINE) -> Array:
        """gamma by the library, from A_0 and w(0) in some basis."""
        w, A = np.stack([self.c, np.sqrt(1 - self.c**2)], -1), np.zeros((len(self.c), 2, 2))
        A[:, 0, 0], A[:, 1, 1] = 1, self.s
        turn = np.array([[0.6, -0.8], [0.8, 0.6]])
        at = pi.local(torch.from_numpy(turn @ A @ turn.T), torch.from_numpy(w @ turn.T))
        return pi.certificate(at, torch.from_numpy(self.L), grid).numpy()

    def reach(self, gamma: Array) -> Array:
        """The angle between w(0) and the edge of B_gamma."""
        c_gamma = 2 * np.sqrt(gamma) / (1 + gamma)
        return np.arccos(np.clip((self.c - c_gamma) / (1 - c_gamma), -1, 1))

    def careless(self, counts: tuple[str, ...]) -> Array:
        """The least gamma of `GRID` that bounds omega where only what `counts` names does: that
        the "angle" to phi_1 grows in B_gamma, that "eigenvalues" move. NaN where there is none."""
        reach = self.reach(GRID[:, None])
        angle = np.arccos(self.c) + reach * ("angle" in counts)
        moved = 2 * self.L * np.sin(reach / 2) * ("eigenvalues" in counts)
        c, gap = np.cos(np.minimum(angle, 1.57)), 1 - self.s - 2 * moved
        omega = _omega(c, 1 - moved, np.abs(self.s) + moved, self.L, np.maximum(gap, 1e-9), gap)
        enough = (omega <= GRID[:, None]) & (angle < np.pi / 2) & (gap > 0)
        return np.where(enough.any(0), GRID[enough.argmax(0)], np.nan)


def _omega(c: Array, first: Array, second: Array, L: Array, least: Array, gap: Array) -> Array:
    """mu + nu of nl Definition 4, with kappa = 8/gap^2 of the least gap in B_gamma."""
    mu = (1 + c) / (2 * c**2) * (second / first) ** 2
    nu = 16 * L**2 / least**2 * (1 + mu * c) + 2 * L / gap * np.sqrt(mu * (1 + mu * c))
    return mu + nu


TURNING = ((0.9472, 0.2173, 0.0287), (0.9545, 0.2535, 0.0247), (0.9278, 0.1692, 0.0243))
"""(c, s, L) where the eigenvector's turn counts most."""


def starts(rng: np.random.Generator, n: int, kind: str) -> Start:
    """n starts; "turning": near `TURNING`; "far": where B_gamma, were a gamma proved, would hold
    vectors at right angles to phi_1."""
    if kind == "turning":
        near = np.array(TURNING)[np.arange(n) % len(TURNING)]
        return Start(*(near * rng.uniform(0.998, 1.002, near.shape)).T)
    s, L = 10 ** rng.uniform(-2, -0.3, n), 10 ** rng.uniform(-2.3, -1, n)
    if kind == "far":
        return Start(rng.uniform(0.1, 0.7, n), s / 50, L / 50)
    return Start(1 - 10 ** rng.uniform(-2, -0.7, n), -s if kind == "indefinite" else s, L)


def largest(at: Start, gamma: Array) -> Array:
    """The largest omega found in B_gamma, over the families above; 0 where there is no gamma."""
    there = np.where(np.isnan(gamma), 0.5, gamma)
    reach, first = at.reach(there)[:, None], np.arccos(at.c)[:, None]
    t = first + np.linspace(-1, 1, POINTS) * reach
    middle = first + reach / 2 + np.pi / 2  # the direction of the chord
    x = (np.cos(t) - np.cos(first)) * np.cos(middle) + (np.sin(t) - np.sin(first)) * np.sin(middle)
    x = x * at.L[:, None]
    found = []
    for way in np.linspace(0, np.pi / 2, WAYS):
        across, sign = np.sin(way), np.where(at.s < 0, -1, 1)[:, None]
        # with s < 0 the second eigenvalue is to fall, too
        found.append(_along(at, t, x, (-np.cos(way), sign * np.cos(way), -across)))
    return np.where(np.isnan(gamma), 0.0, np.max(found, 0))


def _along(at: Start, t: Array, x: Array, B: tuple) -> Array:
    """The largest omega at the unit vectors of angles t, where A = A_0 + x (B_11, B_22, B_12)."""
    a, b, o = 1 + x * B[0], at.s[:, None] + x * B[1], x * B[2]
    half, mean = (a - b) / 2, (a + b) / 2
    r = np.hypot(half, o)
    cosine = (half * np.cos(2 * t) + o * np.sin(2 * t)) / r  # of twice the angle to phi_1
    c = np.sqrt(np.clip((1 + cosine) / 2, 1e-30, 1))
    least = 2 * r.min(1, keepdims=True)
    return _omega(c, mean + r, mean - r, at.L[:, None], least, 2 * r).max(1)


def _excess(at: Start, gamma: Array) -> Array:
    """The largest omega found over gamma, less 1; -1 where no gamma is claimed."""
    return largest(at, gamma) / np.where(np.isnan(gamma), 1, gamma) - 1


def proved(t: Trial, name: str = "a proved gamma bounds omega over B_gamma") -> Part:
    """By how much omega exceeds a proved gamma. Controls: gammas that count too little."""
    part = t.defines(name, 1e-12, controls=pooled)
    for kind in ("definite", "indefinite", "turning", "far"):
        at = starts(t.rng, max(90, 3 * t.draws), kind)
        part.add(_excess(at, at.proved()))
        if kind == "definite":
            part.breaks("as if A stood still", _excess(at, at.careless(("angle",))))
            part.breaks("as if w stood still", _excess(at, at.careless(("eigenvalues",))))
        if kind == "turning":
            still = at.careless(("angle", "eigenvalues"))
            part.breaks("as if the eigenvector stood still", _excess(at, still))
    _enclosed(part)
    return part


def least(t: Trial) -> None:
    """A proved gamma is the least of its grid that bounds omega at the worst corner: c turned by
    the reach of B_gamma and by the eigenvector's turn, eigenvalues moved. In five dimensions, all
    eigenvalues and L scaled by one factor. Controls: corners that leave out how A, or its
    eigenvector, changes."""
    part, rng, grid = t.defines("the least gamma", 1e-9, controls=pooled), t.stream("least"), 1499
    for kind in ("definite", "indefinite", "turning", "far", "at phi_1"):
        at = starts(rng, max(30, t.draws), kind)
        at = Start(np.ones_like(at.c), at.s, at.L) if kind == "at phi_1" else at
        size, Q = rng.uniform(0.2, 5), np.linalg.qr(rng.standard_normal((5, 5)))[0]
        low = np.minimum(at.s, 0)[:, None] - rng.uniform(0, 0.5, (len(at.s), 3))
        values = size * np.concatenate([np.ones((len(at.s), 1)), at.s[:, None], low], -1)
        w = at.c[:, None] * Q[:, 0] + np.sqrt(1 - at.c**2)[:, None] * Q[:, 2]
        seen = pi.local(torch.from_numpy((Q * values[:, None]) @ Q.T), torch.from_numpy(w))
        ours = pi.certificate(seen, torch.from_numpy(size * at.L), grid).numpy()
        part.add(_differs(ours, _corner(at, grid)))
        if kind == "turning":
            part.breaks("as if A stood still", _differs(ours, _corner(at, grid, (1, 0, 0))))
            still = _corner(at, grid, (1, 1, 0))
            there = ~np.isnan(still)
            part.breaks("as if the eigenvector stood still", _differs(ours[there], still[there]))


def _differs(gamma: Array, other: Array) -> Array:
    """By how much; by 2 where only one of them is none."""
    none = np.isnan(gamma), np.isnan(other)
    apart = np.abs(np.where(none[0], 0, gamma) - np.where(none[1], 0, other))
    return np.where(none[0] == none[1], apart, 2.0)


def _corner(at: Start, grid: int, counts: tuple[int, int, int] = (1, 1, 1)) -> Array:
    """The least gamma of a grid for the largest angle to phi_1 and the eigenvalues that B_gamma
    allows; NaN where there is none. counts: w's reach, eigenvalues, the eigenvector's turn."""
    gamma = np.arange(1, grid + 1)[:, None] / (grid + 1)
    reach = at.reach(gamma)
    moved = counts[1] * 2 * at.L * np.sin(reach / 2)
    gap = 1 - at.s - 2 * moved
    turn = np.where(gap > 0, moved / np.maximum(1 - at.s - moved, 1e-9), 1.0)
    angle = np.arccos(at.c) + counts[0] * reach + counts[2] * np.arcsin(np.minimum(turn, 1))
    c, floor = np.cos(np.minimum(angle, 1.57)), np.maximum(gap, 1e-9)
    omega = _omega(c, np.maximum(1 - moved, 1e-9), np.abs(at.s) + moved, at.L, floor, floor)
    enough = (gap > 0) & (angle < np.pi / 2) & (omega <= gamma)
    return np.where(enough.any(0), gamma[enough.argmax(0), 0], np.nan)


ENCLOSED = Start(*np.array([(0.87, 0.025, 0.04), (0.95, 0.1, 0.02), (0.93, -0.1, 0.02)]).T)
BOXES = 60


def _enclosed(part: Part) -> None:
    """Omega within gamma (of the library's own, coarser grid) in every box of B_gamma, for B that
    moves both eigenvalues, or turns the eigenvector as well."""
    gammas = ENCLOSED.proved(199), ENCLOSED.careless(("angle",))
    shown, broken = (
        [v for k in range(len(gamma)) for way in (0.0, 0.4) for v in _boxes(k, gamma, way)]
        for gamma in gammas
    )
    part.proves(
        exact.below_zero(shown),
        breaks={"as if A stood still": exact.below_zero(broken)},
        at="three starts in the plane, two families each",
    )


def _boxes(k: int, gammas: Array, way: float) -> list[Any]:
    """Intervals that hold omega - gamma, one a box of B_gamma."""
    c, s, L, gamma = (iv.mpf(float(v[k])) for v in (ENCLOSED.c, ENCLOSED.s, ENCLOSED.L, gammas))
    # a little more than B_gamma, for the rounding of these two
    reach, first = float(ENCLOSED.reach(gammas)[k]) + 1e-9, float(np.arccos(ENCLOSED.c[k]))
    x0, y0, middle = c, iv.sqrt(1 - c**2), first + reach / 2 + np.pi / 2
    along, across = L * iv.cos(way), L * iv.sin(way)
    planes = []
    for t in exact.cover(first - reach, first + reach, BOXES):
        x = (iv.cos(t) - x0) * iv.cos(middle) + (iv.sin(t) - y0) * iv.sin(middle)
        a, b = 1 - x * along, s + x * along * (-1 if ENCLOSED.s[k] < 0 else 1)
        half, mean, o = (a - b) / 2, (a + b) / 2, -x * across
        r = iv.sqrt(half**2 + o**2)
        planes.append((iv.sqrt((1 + (half * iv.cos(2 * t) + o * iv.sin(2 * t)) / r) / 2), mean, r))
    least = 2 * min(r.a for _, _, r in planes)
    found = []
    for c, mean, r in planes:
        mu = (1 + c) / (2 * c**2) * ((mean - r) / (mean + r)) ** 2
        grown = 1 + mu * c
        nu = 16 * L**2 / least**2 * grown + L / r * iv.sqrt(mu * grown)
        found.append(mu + nu - gamma)
    return found
