"""The range of |N_mu| that ddn reads off Theorem 5 (Eq. 165), by every way to get there."""

from collections.abc import Iterator

import numpy as np

from clcore.ledger import Check

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


def num2(draws: int, seed: int) -> Iterator[Check]:
    """The range of |N_mu| at c = 9, gamma = 0.2: the ratio of its ends, which eta does not enter.

    Over the ways to go "through Eq. 124". Control: gamma = 0.9, where the band is narrower.
    """
    printed, scale = 1467 / 1099, 2 * np.pi * np.exp(4.5) / np.sqrt(1 - 0.2**2)
    for setting, reading in READINGS.items():
        low, high = (scale / end for end in reversed(_band(0.2, reading)))
        below, above = _band(0.9, reading)
        etas = [np.exp(-n / end) for n, end in zip((1099, 1467), (low, high), strict=True)]
        note = (
            f"{low:.0f} to {high:.0f} times $\\ln1/\\eta$, a ratio of {high / low:.3f}, printed "
            f"{printed:.3f}."
        )
        if not setting:
            first = _ratio(0.04, READINGS["the first product of the maximum"])
            note = (
                f"Eq. 128 through Eq. 124 gives {note} $\\eta$, $c$ in the exponent and the base "
                "of the logarithm cancel in the ratio. $\\eta$ is not stated: through Eq. 124 the "
                f"lower end needs {etas[0]:.3f}, the upper one {etas[1]:.3f}. At "
                f"$\\gamma=0.04=0.2^2$ the ratio is {_ratio(0.04, reading):.3f}, and by the first "
                f"product {first:.3f}."
            )
        yield Check(
            "ddn/num2",
            abs(high / low / printed - 1),
            0.5 / 1099 + 0.5 / 1467,
            {"gamma = 0.9": abs(above / below / printed - 1)},
            evidence="protocol",
            form="open" if setting else "printed",
            setting=setting,
            note=note,
        )


def _ratio(gamma: float, reading: tuple[str, str, str]) -> float:
    """The upper end over the lower one."""
    below, above = _band(gamma, reading)
    return above / below
