"""The range of |N_mu| that ddn reads off Theorem 5 (Eq. 165), by every way to get there."""

from itertools import product

import numpy as np

from clcore.ledger import Trial, check
from clcore.reference import Array, relative

READINGS = {
    "": ("e124", "e124", "larger"),
    "e(y) < 1/y from Eq. 125": ("e124", "e125", "larger"),
    "0 < e(y) < 1/y from Eq. 125": ("zero", "e125", "larger"),
    "the first product of the maximum": ("e124", "e124", "first"),
    "the second product of the maximum": ("e124", "e124", "second"),
    "0 < e(y) < 1/y, the second product": ("zero", "e125", "second"),
}
"""Bounds on e(y), below and above, and which product of R-hat: what is left open by "through
Eq. 124"."""


def _band(gamma: float, reading: tuple[str, str, str], c: float = 9.0) -> tuple[float, float]:
    """(below, above) R-hat by one of `READINGS`, in numpy."""
    one = np.sqrt(c / (1 - gamma**2))
    two = gamma * one
    sides = {
        "below": lambda y: 2 / (np.sqrt(y**2 + 4) + y),
        "above": lambda y: 4 / (np.sqrt(y**2 + 8) + 3 * y),
    }
    ends = []
    for side, kind in (("below", reading[1]), ("above", reading[0])):
        r = sides[side]  # r falls, so that a bound below r needs one above e = 1/r - y, and back
        bounds = {"e124": lambda y, r=r: 1 / r(y) - y, "e125": lambda y: 1 / y}
        e = bounds.get(kind, lambda y: 0 * y)
        first, second = r(one) * r(two + gamma * e(one)), r(two) * r(one + gamma * e(two))
        ends.append({"larger": max(first, second), "first": first, "second": second}[reading[2]])
    return float(ends[0]), float(ends[1])


def corners(c: Array, gamma: Array, kinds: tuple[str, str, str], share: float = 1.0) -> Array:
    """(below, above) R-hat, [2, draws]: the least and the largest of what bounds on r and e leave
    open, over all corners, whichever bound belongs where. share: of the width of the bounds on e
    that is kept, about their middle."""
    one = np.sqrt(c / (1 - gamma**2))
    ends = []
    for x, y in ((one, gamma * one), (gamma * one, one)):
        r = [2 / (np.sqrt(x**2 + 4) + x), 4 / (np.sqrt(x**2 + 8) + 3 * x)]
        low = {"e124": 1 / r[1] - x, "zero": 0 * x}[kinds[0]]
        high = {"e124": 1 / r[0] - x, "e125": 1 / x}[kinds[1]]
        middle, half = (low + high) / 2, share * (high - low) / 2
        found = []
        for outer, e in product(r, (middle - half, middle + half)):
            z = y + gamma * e
            found += [
                outer * 2 / (np.sqrt(z**2 + 4) + z),
                outer * 4 / (np.sqrt(z**2 + 8) + 3 * z),
            ]
        ends.append(np.stack([np.min(found, 0), np.max(found, 0)]))
    chosen = {"larger": np.maximum(*ends), "first": ends[0], "second": ends[1]}
    return chosen[kinds[2]]


@check("ddn/num2")
def num2(t: Trial) -> None:
    """Between 1099 and 1467 nodes at c = 9, γ = 0.2 (Eq. 165).

    Given   c = 9, gamma = 0.2, sigma_l = 0; eta is not stated; several ways to go through Eq. 124,
            each a setting of its own.
    Claim   The ratio of the ends of |N_mu|, in which eta cancels, is 1467/1099, to the printed
            digits.
    Fails   by every way that was tried. Control: gamma = 0.9, where the band is narrower.
    """
    printed, scale = 1467 / 1099, 2 * np.pi * np.exp(4.5) / np.sqrt(1 - 0.2**2)
    first = READINGS["the first product of the maximum"]
    for setting, reading in READINGS.items():
        part = t.part("", 0.5 / 1099 + 0.5 / 1467, setting=setting, evidence="protocol")
        low, high = (scale / end for end in reversed(_band(0.2, reading)))
        part.add(abs(high / low / printed - 1))
        part.breaks("gamma = 0.9", abs(_ratio(0.9, reading) / printed - 1))
        part.says(low=low, high=high, ratio=high / low, printed=printed)
        part.says(first_eta=np.exp(-1099 / low), last_eta=np.exp(-1467 / high))
        part.says(squared=_ratio(0.04, reading), product=_ratio(0.04, first))
    ends = t.defines("ends of the bands", 1e-12)
    for reading in READINGS.values():
        at = np.array([9.0, 9.0, 9.0]), np.array([0.04, 0.2, 0.9])
        found = np.transpose([_band(gamma, reading) for gamma in at[1]])
        ends.add(relative(found, corners(*at, reading)))
        ends.breaks("half of e's width", relative(found, corners(*at, reading, share=0.5)))


def _ratio(gamma: float, reading: tuple[str, str, str]) -> float:
    """The upper end over the lower one."""
    below, above = _band(gamma, reading)
    return above / below
