"""Checks of ddn's latent trees: models, messages, covariance over the root, Lipschitz lemmas.

One function a claim, named after it, as in `minmax.index`.
"""

from clcore.checks.hltm.lipschitz import eq88, eq94, lem3, lem4, lem5
from clcore.checks.hltm.tree_covariance import eq170, eq172, eq179, lem9, thm6
from clcore.checks.hltm.tree_depth import thm6b
from clcore.checks.hltm.tree_growth import eq15, rem10
from clcore.checks.hltm.tree_models import def3, eq14, eq103, eq177, lem6, lem7
from clcore.checks.hltm.tree_nets import eq95, eq136, rem9
from clcore.checks.hltm.tree_variance import eq158, eq163

__all__ = [
    "def3",
    "eq14",
    "eq15",
    "eq88",
    "eq94",
    "eq95",
    "eq103",
    "eq136",
    "eq158",
    "eq163",
    "eq170",
    "eq172",
    "eq177",
    "eq179",
    "lem3",
    "lem4",
    "lem5",
    "lem6",
    "lem7",
    "lem9",
    "rem9",
    "rem10",
    "thm6",
    "thm6b",
]
