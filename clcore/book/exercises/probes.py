"""One value of an answer that is a function: what a page can check where no notebook runs."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Probe:
    """at: the arguments, as the page prints them. given: the same, as the function takes them; a
    list is a tensor. value: what it must return, found on paper. within: as for `numeric`."""

    at: str
    given: tuple
    value: float
    within: float = 0.01


PROBES = {
    "ex-linear-5": Probe("δ = 0.004", (0.004,), 1, within=0.001),
    "ex-linear-6": Probe("n = 6, L = 4", (6, 4), 1 / 6**3),
    "ex-relu-3": Probe("a = 1, 2, 3", ([1, 2, 3],), (3 - 2) / (3 - 14 / 18)),
    "ex-relu-5": Probe("a = 2.5", (2.5,), math.atan(2.5) / (math.pi / 2)),
    "ex-relu-6": Probe("a = 1, 2, 3", ([1, 2, 3],), 36 / 14),
    "ex-dual-1": Probe("d = 4", (4,), 1 + 3 / 64, within=0.001),
    "ex-dual-2": Probe("d = 5", (5,), 1 / 200),
    "ex-dual-3": Probe("c = 7, k = 3", (7, 3), 18, within=0),
    "ex-dual-operator-1": Probe("τ = 1", (1.0,), 1 / (1 + math.e**4) - 1 / (1 + math.e**2)),
    "ex-onelayer-1": Probe("p_m = 0.1, p_j = 0.3", (0.1, 0.3), 5**0.5 - 2),
    "ex-onelayer-2": Probe("a = 0.5", (0.5,), 3.5 - 9.25**0.5),
}
"""Exercise -> its probe, at arguments for which none of the judge's wrong answers is right."""
