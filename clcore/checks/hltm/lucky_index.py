"""Checks of ddn App. C.3, C.4: rare events of a Gaussian pair, and lucky nodes (Theorem 5).

One function a claim, named after it; see `minmax.index`.
"""

from clcore.checks.hltm.gaussian_tail import eq113, eq115, eq121, lem8
from clcore.checks.hltm.lucky_event import eq142, eq144, eq147, eq152
from clcore.checks.hltm.lucky_gap import eq164
from clcore.checks.hltm.lucky_nodes import eq149, thm5
from clcore.checks.hltm.lucky_range import num2
from clcore.checks.hltm.lucky_threshold import num1, rem20, thm5b
from clcore.checks.hltm.mills_ratio import eq120, eq124, eq125, eq126, eq127, fig11

__all__ = [
    "eq113",
    "eq115",
    "eq120",
    "eq121",
    "eq124",
    "eq125",
    "eq126",
    "eq127",
    "eq142",
    "eq144",
    "eq147",
    "eq149",
    "eq152",
    "eq164",
    "fig11",
    "lem8",
    "num1",
    "num2",
    "rem20",
    "thm5",
    "thm5b",
]
