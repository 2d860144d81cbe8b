"""Checks of acl Sec. 4 and App. A.2: deep linear nets, the norms, and the landscape.

One function a claim, named after it; see `minmax.index`.
"""

from clcore.checks.deep_linear_pca.adversary import rem2
from clcore.checks.deep_linear_pca.covariance import cor2, eq9, num7, num8, rem1
from clcore.checks.deep_linear_pca.data import rem3
from clcore.checks.deep_linear_pca.flow import eq10, lem1, num9, num10
from clcore.checks.deep_linear_pca.jacobians import def1, def2, lem7
from clcore.checks.deep_linear_pca.landscape import def3, eq40, lem9, lem10, num11, thm3
from clcore.checks.deep_linear_pca.limits import cor3, def4, fig3, lem12, rem4
from clcore.checks.deep_linear_pca.norms import lem2, lem8, lem11
from clcore.checks.deep_linear_pca.objective import eq12
from clcore.checks.deep_linear_pca.step import eq44

__all__ = [
    "cor2",
    "cor3",
    "def1",
    "def2",
    "def3",
    "def4",
    "eq9",
    "eq10",
    "eq12",
    "eq40",
    "eq44",
    "fig3",
    "lem1",
    "lem2",
    "lem7",
    "lem8",
    "lem9",
    "lem10",
    "lem11",
    "lem12",
    "num7",
    "num8",
    "num9",
    "num10",
    "num11",
    "rem1",
    "rem2",
    "rem3",
    "rem4",
    "thm3",
]
