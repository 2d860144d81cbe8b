"""Checks of ddn Secs. 3 to 5.1 on pairs of towers, losses of distances, and one-neuron worlds.

One function a claim, named after it, `check(draws, seed)`, as in `acl_minmax`.
"""

from .ddn_augmentation import ex1, rem6
from .ddn_connection import def1, eq28, eq29, eq30, eq40, eq41, thm1, thm1_app
from .ddn_invariance import eq13, ex2, ex3, ex4
from .ddn_losses import eq2, eq43, rem1, thm2
from .ddn_one_neuron import rem18, rem19, rem21
from .ddn_reversible import def2, eq16, eq17, eq18, lem1, rem7, rem8
from .ddn_towers import towers

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
