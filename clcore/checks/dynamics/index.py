"""Checks of ncl Theorem 3 and Lemma 1 (Sec. 5.2.1, App. C.2, C.3, D).

One function a claim, named after it, `check(draws, seed)`, "-" in an id written "_".
"""

from clcore.checks.dynamics.contraction import eq25, eq25_step, eq26, eq26_id, lem1, lem1_lim
from clcore.checks.dynamics.sentences import rem14, rem16
from clcore.checks.dynamics.srelu import def4, def5, def6, def7, eq13, eq14, eq23, rem3, rem4
from clcore.checks.dynamics.srelu_gradients import thm3_grad, thm3_gradas
from clcore.checks.dynamics.srelu_loss import (
    thm3_loss,
    thm3_noise,
    thm3_region,
    thm3_srelu,
    thm3_summand,
)
from clcore.checks.dynamics.srelu_rounds import thm3, thm3_contr, thm3_ratio

__all__ = [
    "def4",
    "def5",
    "def6",
    "def7",
    "eq13",
    "eq14",
    "eq23",
    "eq25",
    "eq25_step",
    "eq26",
    "eq26_id",
    "lem1",
    "lem1_lim",
    "rem3",
    "rem4",
    "rem14",
    "rem16",
    "thm3",
    "thm3_contr",
    "thm3_grad",
    "thm3_gradas",
    "thm3_loss",
    "thm3_noise",
    "thm3_ratio",
    "thm3_region",
    "thm3_srelu",
    "thm3_summand",
]
