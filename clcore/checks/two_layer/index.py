"""Checks of nl Sec. 4, App. C and D: two layers with receptive fields.

One function a claim, named after it, `check(draws, seed)`, as in `minmax.index`.
"""

from clcore.checks.two_layer.batchnorm import cor3, def5, eq164, eq170, lem6
from clcore.checks.two_layer.chances import eq154, eq155, eq156, eq157, rem19
from clcore.checks.two_layer.dynamics import lem4, rem14, rem15
from clcore.checks.two_layer.favoured import rem18
from clcore.checks.two_layer.latent import eq128, lem5
from clcore.checks.two_layer.linear import eq163, thm4
from clcore.checks.two_layer.modulation import eq147, eq148, eq150, eq151, fig7, thm6
from clcore.checks.two_layer.sizes import rem20, rem21
from clcore.checks.two_layer.specialise import rem16
from clcore.checks.two_layer.top import eq134, eq139, eq143, rem17, thm5

__all__ = [
    "cor3",
    "def5",
    "eq128",
    "eq134",
    "eq139",
    "eq143",
    "eq147",
    "eq148",
    "eq150",
    "eq151",
    "eq154",
    "eq155",
    "eq156",
    "eq157",
    "eq163",
    "eq164",
    "eq170",
    "fig7",
    "lem4",
    "lem5",
    "lem6",
    "rem14",
    "rem15",
    "rem16",
    "rem17",
    "rem18",
    "rem19",
    "rem20",
    "rem21",
    "thm4",
    "thm5",
    "thm6",
]
