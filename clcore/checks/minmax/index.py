"""Checks of acl Sec. 3, Table 1, Sec. 6.1 and App. A.1: the min-max view of contrastive losses.

One function a claim, named after it. Each compares `clcore` (torch, closed
forms, autograd) with what `reference` computes without it. Where a check is "worst over the draws",
its controls are the best (or median) over the draws.
"""

from clcore.checks.minmax.family import eq1, eq2, eq33, num1, num4
from clcore.checks.minmax.family_reach import num22
from clcore.checks.minmax.gradients import eq4, eq5, eq6, eq23, eq27, eq88, lem5, num2, thm1
from clcore.checks.minmax.players import cor1, lem6, thm2
from clcore.checks.minmax.regularisers import def6, num3, num5, num6, num18
from clcore.checks.minmax.table1 import tab1

__all__ = [
    "cor1",
    "def6",
    "eq1",
    "eq2",
    "eq4",
    "eq5",
    "eq6",
    "eq23",
    "eq27",
    "eq33",
    "eq88",
    "lem5",
    "lem6",
    "num1",
    "num2",
    "num3",
    "num4",
    "num5",
    "num6",
    "num18",
    "num22",
    "tab1",
    "thm1",
    "thm2",
]
