"""Checks of acl Sec. 5 and App. A.3: the two-layer ReLU net on orthogonal mixtures.

One function a claim, named after it, `check(draws, seed)`, as in `minmax.index`.
"""

from clcore.checks.relu_composition.dynamics import eq53, num13, thm5
from clcore.checks.relu_composition.energy import eq64, eq70, eq71, rem5, thm6
from clcore.checks.relu_composition.figures import fig4, fig5
from clcore.checks.relu_composition.latent import eq14, eq15, eq17, eq68, lem4
from clcore.checks.relu_composition.lemmas import lem14, lem15, lem16
from clcore.checks.relu_composition.nets import def5, lem3, lem13, num12, thm4
from clcore.checks.relu_composition.training import num19, num20

__all__ = [
    "def5",
    "eq14",
    "eq15",
    "eq17",
    "eq53",
    "eq64",
    "eq68",
    "eq70",
    "eq71",
    "fig4",
    "fig5",
    "lem3",
    "lem4",
    "lem13",
    "lem14",
    "lem15",
    "lem16",
    "num12",
    "num13",
    "num19",
    "num20",
    "rem5",
    "thm4",
    "thm5",
    "thm6",
]
