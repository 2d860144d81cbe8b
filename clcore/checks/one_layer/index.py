"""Checks of nl Sec. 2, 3 and App. A, B, E.1, G: kernels of weights, one layer, its optima.

One function a claim, named after it, `check(draws, seed)`, as in `minmax.index`.
"""

from clcore.checks.one_layer.activation import eq5, eq6, lem3, rem2, rem3, rem4
from clcore.checks.one_layer.angle import eq83
from clcore.checks.one_layer.augmented import eq105, eq108, rem13
from clcore.checks.one_layer.circle import fig1, fig8, rem12
from clcore.checks.one_layer.corollary2 import cor2
from clcore.checks.one_layer.covariance import def1, def2, eq1, eq2, eq3, eq25, lem1
from clcore.checks.one_layer.eigenvectors import def3, eq43, ex1, ex2, num1, rem6, rem7, rem8
from clcore.checks.one_layer.gate_slope import rem5
from clcore.checks.one_layer.gaussian_weights import rem9
from clcore.checks.one_layer.landscape import fig1c, rem23, rem26
from clcore.checks.one_layer.limits import cor1, eq32, eq41, lem2
from clcore.checks.one_layer.losses import rem1
from clcore.checks.one_layer.normalised import rem24, rem25
from clcore.checks.one_layer.power_iteration import eq101, lem7, lem8, lem9, lem10
from clcore.checks.one_layer.roughness import eq79, eq84, eq90, eq92, thm2
from clcore.checks.one_layer.stability import eq56, eq65, thm1
from clcore.checks.one_layer.theorem3 import def4, eq103, eq104, eq216, lem11, rem10, rem11, thm3

__all__ = [
    "cor1",
    "cor2",
    "def1",
    "def2",
    "def3",
    "def4",
    "eq1",
    "eq2",
    "eq3",
    "eq5",
    "eq6",
    "eq25",
    "eq32",
    "eq41",
    "eq43",
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
    "ex1",
    "ex2",
    "fig1",
    "fig1c",
    "fig8",
    "lem1",
    "lem2",
    "lem3",
    "lem7",
    "lem8",
    "lem9",
    "lem10",
    "lem11",
    "num1",
    "rem1",
    "rem2",
    "rem3",
    "rem4",
    "rem5",
    "rem6",
    "rem7",
    "rem8",
    "rem9",
    "rem10",
    "rem11",
    "rem12",
    "rem13",
    "rem23",
    "rem24",
    "rem25",
    "rem26",
    "thm1",
    "thm2",
    "thm3",
]
