"""What a proved gamma promises (nl Theorem 3): omega stays below it over all of B_gamma.

`power_iteration.certificate` sees A at the start only, so it speaks of every family with these
eigenvalues and this Lipschitz constant. Here are families that nearly attain what it allows: in a
plane A(w) = A_0 + u.(w - w(0)) B, u along the chord to the far edge of B_gamma, |B| = L, such that
on the way there the first eigenvalue falls, the second grows, or the eigenvector turns away.
Omega is small at the start and large at the edge. It is searched densely; and once more enclosed by
intervals, on every box of B_gamma.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from mpmath import iv

from clcore.ledger import exact
from clcore.theory.one_layer import power_iteration as pi


@dataclass(frozen=True)
class Start:
    """c = w(0).phi_1, eigenvalues 1 and s of A_0 and a Lipschitz constant L, a draw each."""

    c: np.ndarray
    s: np.ndarray
    L: np.ndarray

    def proved(self, grid=4999):
        """gamma by the library, from A_0 and w(0) in some basis."""
        w, A = np.stack([self.c, np.sqrt(1 - self.c**2)], -1), np.zeros((len(self.c), 2, 2))
        A[:, 0, 0], A[:, 1, 1] = 1, self.s
        turn = np.array([[0.6, -0.8], [0.8, 0.6]])
        at = pi.local(torch.from_numpy(turn @ A @ turn.T), torch.from_numpy(w @ turn.T))
        return pi.certificate(at, torch.from_numpy(self.L), grid).numpy()

    def reach(self, gamma):
        """The angle between w(0) and the edge of B_gamma."""
        c_gamma = 2 * np.sqrt(gamma) / (1 + gamma)
        return np.arccos(np.clip((self.c - c_gamma) / (1 - c_gamma), -1, 1))


TURNING = np.array([(0.9472, 0.2173, 0.0287), (0.9545, 0.2535, 0.0247), (0.9278, 0.1692, 0.0243)])
"""(c, s, L) where the eigenvector's turn counts most."""
KINDS = ("definite", "indefinite", "turning", "far", "at phi_1")


def starts(rng, kind, n=60):
    """n starts; "turning": near `TURNING`; "far": where B_gamma, were a gamma proved, would hold
    vectors at right angles to phi_1."""
    if kind == "turning":
        near = TURNING[np.arange(n) % len(TURNING)]
        return Start(*(near * rng.uniform(0.998, 1.002, near.shape)).T)
    s, L = 10 ** rng.uniform(-2, -0.3, n), 10 ** rng.uniform(-2.3, -1, n)
    if kind == "far":
        return Start(rng.uniform(0.1, 0.7, n), s / 50, L / 50)
    c = np.ones(n) if kind == "at phi_1" else 1 - 10 ** rng.uniform(-2, -0.7, n)
    return Start(c, -s if kind == "indefinite" else s, L)


def omega(c, first, second, L, least, gap):
    """mu + nu of nl Definition 4, with kappa = 8/gap^2 of the least gap in B_gamma."""
    mu = (1 + c) / (2 * c**2) * (second / first) ** 2
    nu = 16 * L**2 / least**2 * (1 + mu * c) + 2 * L / gap * np.sqrt(mu * (1 + mu * c))
    return mu + nu


def largest(at, gamma, points=401, ways=13):
    """The largest omega at the unit vectors of B_gamma, over the families above."""
    reach, first = at.reach(gamma)[:, None], np.arccos(at.c)[:, None]
    t = first + np.linspace(-1, 1, points) * reach
    middle = first + reach / 2 + np.pi / 2  # the direction of the chord
    x = (np.cos(t) - np.cos(first)) * np.cos(middle) + (np.sin(t) - np.sin(first)) * np.sin(middle)
    x, sign = x * at.L[:, None], np.where(at.s < 0, -1, 1)[:, None]
    found = []
    for way in np.linspace(0, np.pi / 2, ways):
        # with s < 0 the second eigenvalue is to fall, too
        a, b = 1 - x * np.cos(way), at.s[:, None] + x * sign * np.cos(way)
        half, mean, off = (a - b) / 2, (a + b) / 2, -x * np.sin(way)
        r = np.hypot(half, off)
        cosine = (half * np.cos(2 * t) + off * np.sin(2 * t)) / r  # of twice the angle to phi_1
        c = np.sqrt(np.clip((1 + cosine) / 2, 1e-30, 1))
        least = 2 * r.min(1, keepdims=True)
        found.append(omega(c, mean + r, mean - r, at.L[:, None], least, 2 * r).max(1))
    return np.max(found, 0)


@pytest.mark.parametrize("kind", ["definite", "indefinite", "turning"])
def test_omega_stays_below_a_proved_gamma(kind):
    at = starts(np.random.default_rng(0), kind, 90)
    gamma = at.proved()
    some = ~np.isnan(gamma)
    assert some.sum() > 9
    ratio = largest(Start(at.c[some], at.s[some], at.L[some]), gamma[some]) / gamma[some]
    assert ratio.max() <= 1 + 1e-12
    assert ratio.max() > 0.8  # and some family comes near it


def corner(at, grid):
    """The least gamma of a grid for the largest angle to phi_1 and the eigenvalues that B_gamma
    allows; NaN where there is none."""
    gamma = np.arange(1, grid + 1)[:, None] / (grid + 1)
    reach = at.reach(gamma)
    moved = 2 * at.L * np.sin(reach / 2)
    gap = 1 - at.s - 2 * moved
    turn = np.where(gap > 0, moved / np.maximum(1 - at.s - moved, 1e-9), 1.0)
    angle = np.arccos(at.c) + reach + np.arcsin(np.minimum(turn, 1))
    c, floor = np.cos(np.minimum(angle, 1.57)), np.maximum(gap, 1e-9)
    worst = omega(c, np.maximum(1 - moved, 1e-9), np.abs(at.s) + moved, at.L, floor, floor)
    enough = (gap > 0) & (angle < np.pi / 2) & (worst <= gamma)
    return np.where(enough.any(0), gamma[enough.argmax(0), 0], np.nan)


@pytest.mark.parametrize("kind", KINDS)
def test_a_proved_gamma_is_the_least_at_the_worst_corner(kind):
    """In five dimensions, all eigenvalues and L scaled by one factor."""
    rng, grid = np.random.default_rng(1), 1499
    at = starts(rng, kind)
    size, Q = rng.uniform(0.2, 5), np.linalg.qr(rng.standard_normal((5, 5)))[0]
    low = np.minimum(at.s, 0)[:, None] - rng.uniform(0, 0.5, (len(at.s), 3))
    values = size * np.concatenate([np.ones((len(at.s), 1)), at.s[:, None], low], -1)
    w = at.c[:, None] * Q[:, 0] + np.sqrt(1 - at.c**2)[:, None] * Q[:, 2]
    seen = pi.local(torch.from_numpy((Q * values[:, None]) @ Q.T), torch.from_numpy(w))
    ours = pi.certificate(seen, torch.from_numpy(size * at.L), grid).numpy()
    assert ours == pytest.approx(corner(at, grid), abs=1e-9, nan_ok=True)


ENCLOSED = Start(*np.array([(0.87, 0.025, 0.04), (0.95, 0.1, 0.02), (0.93, -0.1, 0.02)]).T)


@pytest.mark.parametrize("start", range(3))
@pytest.mark.parametrize("way", [0.0, 0.4])  # B moves both eigenvalues, or turns the eigenvector
def test_intervals_enclose_omega_within_gamma(start, way):
    """In every box of B_gamma, of the library's own, coarser grid."""
    gammas = ENCLOSED.proved(199)
    c, s, L, gamma = (iv.mpf(float(v[start])) for v in (ENCLOSED.c, ENCLOSED.s, ENCLOSED.L, gammas))
    # a little more than B_gamma, for the rounding of these two
    reach, first = float(ENCLOSED.reach(gammas)[start]) + 1e-9, float(np.arccos(ENCLOSED.c[start]))
    x0, y0, middle = c, iv.sqrt(1 - c**2), first + reach / 2 + np.pi / 2
    planes = []
    for t in exact.cover(first - reach, first + reach, 60):
        x = (iv.cos(t) - x0) * iv.cos(middle) + (iv.sin(t) - y0) * iv.sin(middle)
        a = 1 - x * L * iv.cos(way)
        b = s + x * L * iv.cos(way) * (-1 if ENCLOSED.s[start] < 0 else 1)
        half, mean, off = (a - b) / 2, (a + b) / 2, -x * L * iv.sin(way)
        r = iv.sqrt(half**2 + off**2)
        cosine = (half * iv.cos(2 * t) + off * iv.sin(2 * t)) / r
        planes.append((iv.sqrt((1 + cosine) / 2), mean, r))
    least, found = 2 * min(r.a for _, _, r in planes), []
    for c, mean, r in planes:
        mu = (1 + c) / (2 * c**2) * ((mean - r) / (mean + r)) ** 2
        grown = 1 + mu * c
        nu = 16 * L**2 / least**2 * grown + L / r * iv.sqrt(mu * grown)
        found.append(mu + nu - gamma)
    assert exact.below_zero(found).failing == 0
