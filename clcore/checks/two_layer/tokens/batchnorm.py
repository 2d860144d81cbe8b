"""Figure 11 of nl, BatchNorm for tokens of unequal norm, against our runs (App. E.2).

Functions of a table of runs, as `runs`. The paragraph and the caption say "BN"; the analysis
that they point at (App. D) is of mean-backprop BatchNorm, and the next paragraph calls that another
one than regular BatchNorm.
"""

from functools import partial
from itertools import pairwise

import pandas as pd

from clcore.checks.two_layer.tokens.runs import MUCH, REPEATS, Runs, ahead, evidence, panel
from clcore.ledger import Trial, check

ZETAS = (2.0, 5.0, 10.0)


def gain(runs: pd.DataFrame, column: str, norm: str, zeta: float) -> float:
    """Mean over P > 1, beta > 1 of what BatchNorm adds to the score."""
    with_norm, without = (
        panel(runs, column, activation="relu", norm=n, zeta=zeta) for n in (norm, "none")
    )
    gap = with_norm - without
    return float(gap.loc[gap.index > 1, gap.columns > 1].to_numpy().mean())


def _cells(runs: pd.DataFrame, norm: str) -> set[float]:
    return set(runs[runs.norm == norm].zeta.round(3))


@check("nl/fig11", on="runs")
def fig11(t: Trial, runs: Runs, column: str = "chi_plus", norm: str = "mean") -> None:
    """Matching score for tokens of unequal norm, with and without BatchNorm (Figure 11).

    Protocol   the token experiment with embeddings of norms zeta and 1/zeta, zeta = 2, 5, 10, ReLU
               with and without BatchNorm; which gradients BatchNorm passes the figure leaves open.
    Question   Is BatchNorm ahead at zeta = 10 in half of the cells with P > 1 and beta > 1, by two
               pooled standard deviations? Does the mean gain grow with zeta, and is it small at
               zeta = 2?
    Refuted    by fewer cells, a gain that falls, a gain at 2 that is not small. Controls: random
               filters, zetas exchanged, zeta = 10 for 2.
    """
    part = partial(t.part, evidence=evidence(runs))

    # Cells at zeta = 10 in which BatchNorm is ahead by two pooled standard deviations.
    sides = ({"activation": "relu", "norm": n, "zeta": 10.0} for n in (norm, "none"))
    most = gain(runs, column, norm, 10.0)
    name = "BatchNorm is ahead at zeta = 10 where P > 1 and beta > 1"
    p = part(name, 0.5, ">=", draws=18 * REPEATS)
    ahead(p, runs, column, *sides)
    p.says(gain=most)
    if not set(ZETAS) <= _cells(runs, norm):
        return

    # The mean gain from each zeta to the next.
    gains = [gain(runs, column, norm, zeta) for zeta in ZETAS]
    p = part("the gain grows with zeta", relation=">=", draws=96 * REPEATS)
    for low, high in pairwise(gains):
        p.add(high - low).breaks("exchanged", low - high)
    p.says(gains=", ".join(f"zeta = {z:.0f}: {g:.2f}" for z, g in zip(ZETAS, gains, strict=True)))

    # The gain at zeta = 2 against a part of that at 10.
    p = part("it hardly helps at zeta = 2", draws=36 * REPEATS)
    p.add(gains[0] - most / MUCH).breaks("zeta = 10", most - most / MUCH)
    p.says(gain=gains[0], most=most, times=MUCH)
