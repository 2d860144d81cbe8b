"""Checks of ncl Theorem 2, App. C.1 and Corollary 1: the dual linear network.

One function a claim, named after it, `check(draws, seed)`, as in `minmax.index`.
"""

from clcore.checks.dynamics.linear_reach import cor1, def8
from clcore.checks.dynamics.linear_schedules import (
    thm2_exp,
    thm2_lam0,
    thm2_laminf,
    thm2_mono,
    thm2_sub,
    thm2_sum,
)
from clcore.checks.dynamics.linear_step import eq12, thm2_grad, thm2_grad0, thm2_mom, thm2_step
from clcore.checks.dynamics.linear_theorem import thm2, thm2_c1

__all__ = [
    "cor1",
    "def8",
    "eq12",
    "thm2",
    "thm2_c1",
    "thm2_exp",
    "thm2_grad",
    "thm2_grad0",
    "thm2_lam0",
    "thm2_laminf",
    "thm2_mom",
    "thm2_mono",
    "thm2_step",
    "thm2_sub",
    "thm2_sum",
]
