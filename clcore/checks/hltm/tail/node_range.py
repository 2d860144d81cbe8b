"""The range of |N_mu| that ddn reads off Theorem 5 (Eq. 165), by every way to get there."""

import numpy as np

from clcore.ledger import Trial, check

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


def _band(gamma: float, reading: tuple[str, str, str]) -> tuple[float, float]:
    """(below, above) R-hat at c = 9 by one of `READINGS`, in numpy."""
    one = np.sqrt(9 / (1 - gamma**2))
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


@check("ddn/num2")
def num2(t: Trial) -> None:
    """Between 1099 and 1467 nodes at c = 9, γ = 0.2 (Eq. 165).

    Given   c = 9, gamma = 0.2, sigma_l = 0; eta is not stated; several ways to go through Eq. 124,
            each a separate setting.
    Claim   The ratio of the ends of |N_mu|, in which eta cancels, is 1467/1099, to the printed
            digits.
    Fails   by every way that was tried. Control: gamma = 0.9, where the band is narrower.
    """
    printed, scale = 1467 / 1099, 2 * np.pi * np.exp(4.5) / np.sqrt(1 - 0.2**2)
    first = READINGS["the first product of the maximum"]

    # A guess: gamma = 0.04 and no 2 pi. |N_mu| is this number over R-hat, times ln 1/eta.
    below, above = _band(0.04, first)
    guess = np.exp(4.5) / np.sqrt(1 - 0.04**2)
    lower, upper = np.exp(-1099 * above / guess), np.exp(-1467 * below / guess)
    for setting, reading in READINGS.items():
        part = t.part("", 0.5 / 1099 + 0.5 / 1467, setting=setting, evidence="protocol")
        low, high = (scale / end for end in reversed(_band(0.2, reading)))
        part.add(abs(high / low / printed - 1))
        part.breaks("gamma = 0.9", abs(_ratio(0.9, reading) / printed - 1))
        part.says(low=low, high=high, ratio=high / low, printed=printed)
        part.says(first_eta=np.exp(-1099 / low), last_eta=np.exp(-1467 / high))
        part.says(squared=_ratio(0.04, reading), product=_ratio(0.04, first))
        part.says(lower_eta=lower, upper_eta=upper)


def _ratio(gamma: float, reading: tuple[str, str, str]) -> float:
    """The upper end over the lower one."""
    below, above = _band(gamma, reading)
    return above / below
