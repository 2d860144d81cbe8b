"""Every check of the covariance operator (ddn Sec. 4, App. B), by the name of its claim."""

from clcore.checks.dual_networks.each_step import rem16
from clcore.checks.dual_networks.inside import cor1, eq86, rem2, rem5, rem15
from clcore.checks.dual_networks.population import eq4, eq51, eq54, eq56, eq67, lem2, rem3, thm3
from clcore.checks.dual_networks.proof4 import eq59, eq71, eq72, eq74, eq77, eq78
from clcore.checks.dual_networks.residue import eq79, thm4
from clcore.checks.dual_networks.tangent_kernel import rem4
from clcore.checks.dual_networks.weights import eq6, eq7, eq80

__all__ = [
    "cor1",
    "eq4",
    "eq6",
    "eq7",
    "eq51",
    "eq54",
    "eq56",
    "eq59",
    "eq67",
    "eq71",
    "eq72",
    "eq74",
    "eq77",
    "eq78",
    "eq79",
    "eq80",
    "eq86",
    "lem2",
    "rem2",
    "rem3",
    "rem4",
    "rem5",
    "rem15",
    "rem16",
    "thm3",
    "thm4",
]
