"""Checks of ncl Sec. 4, Sec. 5 to Theorem 1, and App. A.1: the landscapes of two losses.

One function a claim, `check(draws, seed)`, named after it with _ for -.
"""

from clcore.checks.landscape.contrastive_landscape import eq15, thm1b, thm1b_lln
from clcore.checks.landscape.data_model import def1, def2, eq1, eq2, eq3
from clcore.checks.landscape.loss_definitions import eq4, eq5, eq6, eq7, eq8
from clcore.checks.landscape.proof_steps import eq19, eq20, eq20_eq, eq21, thm1b_orth, thm1b_perm
from clcore.checks.landscape.recovery import eq9, eq10, eq11, rem2
from clcore.checks.landscape.sentences import rem15, rem17, rem18
from clcore.checks.landscape.surrogate import eq16, thm1b_AB
from clcore.checks.landscape.theorem1 import eq17, thm1, thm1a, thm1a_ineq, thm1a_max, thm1a_sum

__all__ = [
    "def1",
    "def2",
    "eq1",
    "eq2",
    "eq3",
    "eq4",
    "eq5",
    "eq6",
    "eq7",
    "eq8",
    "eq9",
    "eq10",
    "eq11",
    "eq15",
    "eq16",
    "eq17",
    "eq19",
    "eq20",
    "eq20_eq",
    "eq21",
    "rem2",
    "rem15",
    "rem17",
    "rem18",
    "thm1",
    "thm1a",
    "thm1a_ineq",
    "thm1a_max",
    "thm1a_sum",
    "thm1b",
    "thm1b_AB",
    "thm1b_lln",
    "thm1b_orth",
    "thm1b_perm",
]
