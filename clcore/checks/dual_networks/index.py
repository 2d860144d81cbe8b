"""Checks of ddn Secs. 3 to 5.1 on pairs of towers, losses of distances, and one-neuron worlds.

One function a claim, named after it, `check(draws, seed)`, as in `minmax.index`.
"""

from clcore.checks.dual_networks.augmentation import ex1, rem6
from clcore.checks.dual_networks.connection import (
    def1,
    eq28,
    eq29,
    eq30,
    eq40,
    eq41,
    thm1,
    thm1_app,
)
from clcore.checks.dual_networks.invariance import eq13, ex2, ex3, ex4
from clcore.checks.dual_networks.losses import eq2, eq43, rem1, thm2
from clcore.checks.dual_networks.one_neuron import rem18, rem19, rem21
from clcore.checks.dual_networks.reversible import def2, eq16, eq17, eq18, lem1, rem7, rem8
from clcore.checks.dual_networks.towers import towers

__all__ = [
    "def1",
    "def2",
    "eq2",
    "eq13",
    "eq16",
    "eq17",
    "eq18",
    "eq28",
    "eq29",
    "eq30",
    "eq40",
    "eq41",
    "eq43",
    "ex1",
    "ex2",
    "ex3",
    "ex4",
    "lem1",
    "rem1",
    "rem6",
    "rem7",
    "rem8",
    "rem18",
    "rem19",
    "rem21",
    "thm1",
    "thm1_app",
    "thm2",
    "towers",
]
