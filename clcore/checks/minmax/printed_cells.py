"""The printed cells of acl Table 2: six losses on CIFAR-10 and STL-10, accuracies in points of a
hundred."""

from itertools import product

import numpy as np
import pandas as pd

from clcore import ledger
from clcore.stats import welch_tests

CLAIMS = {"cifar10": "acl/tab2a", "stl10": "acl/tab2b"}
ROWS = {
    "infonce": "L_nce",
    "backprop": "backprop_alpha",
    "entropy": "Pg_rH",
    "inverse": "Pg_rgamma2",
    "square": "Pg_rs",
    "direct": "Pg_direct_alpha",
}
"""Our names of the losses, and those of data/claims."""
NAMES = {
    "infonce": "InfoNCE",
    "backprop": "gradient through the weights",
    "entropy": "entropy",
    "inverse": "inverse, γ = 2",
    "square": "square",
    "direct": "direct, p = 2",
    "direct-4": "direct, p = 4",
    "inverse-released": "inverse (program)",
}
"""What notes call our losses."""
REGULARISERS = ("entropy", "inverse", "square")
EPOCHS, UNIT = (100, 300, 500), 0.01
COMPARABLE = 0.5
LEVEL = 0.05


def printed() -> pd.DataFrame:
    """Table 2, one row per cell: dataset, loss, epoch, mean, std (in points), n, highlighted."""
    rows = []
    for (dataset, claim), (loss, row), epoch in product(CLAIMS.items(), ROWS.items(), EPOCHS):
        cell = {"dataset": dataset, "loss": loss, "epoch": epoch, "highlighted": False}
        rows.append(cell | ledger.claim(claim)["numbers"][row][f"e{epoch}"])
    return pd.DataFrame(rows)


def against(loss: str, other: str = "infonce", standard_error: bool = False) -> pd.DataFrame:
    """Printed cells of one loss minus another's: dataset, epoch, and the columns of
    `stats.welch_tests`.

    standard_error: read the paper's plus-minus as the standard error of the mean, which it does not
    exclude.
    """
    cells = printed()
    if standard_error:
        cells = cells.assign(std=cells["std"] * np.sqrt(cells.n))
    sides = [cells[cells.loss == name].reset_index(drop=True) for name in (loss, other)]
    found = welch_tests(*(row[name].to_numpy() for row in sides for name in ("mean", "std", "n")))
    return pd.concat([sides[0][["dataset", "epoch"]], found], axis=1)


def behind(found: pd.DataFrame) -> pd.DataFrame:
    """The cells that are neither better nor comparable: more than half a point lower, p <= 0.05."""
    return found[(found.difference < -COMPARABLE) & (found.p <= LEVEL)]


def one_sided(found: pd.DataFrame, sign: int) -> pd.Series:
    """p of each cell, against a difference of zero or of the other sign."""
    return (found.p / 2).where(np.sign(found.difference) == sign, 1 - found.p / 2)


def span(found: pd.DataFrame) -> str:
    return f"{found.difference.min():+.2f} to {found.difference.max():+.2f} points"
