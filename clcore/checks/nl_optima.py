"""Checks of nl Sec. 3.2, 3.3 and App. B.3-B.5, E.1: stability, power iteration, the optima.

One function a claim, named after it, `check(draws, seed)`, as in `acl_minmax`.
"""

from .nl_circle import eq105, eq108, fig1, fig8, rem12, rem13
from .nl_corollary2 import cor2
from .nl_power_iteration import eq101, lem7, lem8, lem9, lem10
from .nl_roughness import eq79, eq83, eq84, eq90, eq92, thm2
from .nl_stability import eq56, eq65, rem9, thm1
from .nl_theorem3 import def4, eq103, eq104, eq216, lem11, rem10, rem11, thm3

__all__ = [
    "cor2",
    "def4",
    "eq56",
    "eq65",
    "eq79",
    "eq83",
    "eq84",
    "eq90",
    "eq92",
    "eq101",
    "eq103",
    "eq104",
    "eq105",
    "eq108",
    "eq216",
    "fig1",
    "fig8",
    "lem7",
    "lem8",
    "lem9",
    "lem10",
    "lem11",
    "rem9",
    "rem10",
    "rem11",
    "rem12",
    "rem13",
    "thm1",
    "thm2",
    "thm3",
]
