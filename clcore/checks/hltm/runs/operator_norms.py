"""Figures 13 and 14 of ddn against our runs: the norm of the covariance operator (ddn App. D.1).

Functions of a table of runs (`tree_contrast.run`), recorded or of this build. The paper gives
neither depths nor polarities nor epochs, nor defines the operator: where the paper leaves settings
open, they are ours.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from clcore import stats
from clcore.experiments.tree_contrast import NODES
from clcore.ledger import Check, Trial, check, worst
from clcore.ledger.judging import Shared
from clcore.ledger.trial import generator

GROWTH = 1.05  # at least, where the paper says only that a norm goes up

Curves = pd.DataFrame
"""`operator_summary` of the runs: a row per configuration, step, quantity and node, with the median
over trials."""
Unrelated = pd.DataFrame
"""A row per run and step, of training on views of unrelated objects."""

OPERATORS = ("own", "cov", "op", "unit")
"""Readings of "covariance operator", see `tree_statistics.operator_norms`."""


def operator_summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Medians and quartiles over trials of the operators' norms, one row a configuration, step,
    quantity (`OPERATORS`, and each _rescaled) and node: the curves of Figs. 13 and 14."""
    keys = ["depth", "low", "width", "step"]
    names = [c for c in runs if c.startswith(OPERATORS)]
    tall = runs.melt([*keys, "seed"], names, "name").dropna(subset="value")
    tall[["quantity", "node"]] = tall.pop("name").str.rsplit("_", n=1, expand=True)
    grouped = tall.assign(low=tall.low.round(3)).groupby([*keys, "quantity", "node"]).value
    table = (
        grouped.quantile([0.25, 0.5, 0.75]).unstack().set_axis(["lower", "median", "upper"], axis=1)
    )
    return table.assign(trials=grouped.count()).reset_index()


def _growth(curves: pd.DataFrame, quantity: str, nodes: tuple[str, ...]) -> pd.DataFrame:
    """Medians over steps, one row a configuration and node (columns: steps). Without the groups
    whose children are leaves where it is the children's covariance, which nothing can change."""
    kept = curves[(curves.quantity == quantity) & curves.node.isin([f"s{path}" for path in nodes])]
    if quantity.startswith("cov"):
        kept = kept[kept.node.str.len() < kept.depth]
    return kept.pivot(index=["depth", "low", "width", "node"], columns="step", values="median")


def _ratio(rows: pd.DataFrame, height: bool = False) -> pd.Series:
    """Median at the end (or its height after the start) over that at the start; without those that
    are 0 throughout."""
    last = rows.iloc[:, 1:].max(axis=1) if height else rows.iloc[:, -1]
    return (last / rows.iloc[:, 0]).dropna()


def _trend(rows: np.ndarray) -> float:
    """The largest p over rows of Spearman's test for a rise; 1 for medians that never change."""
    return max(_rank_test(row) for row in rows)


def _rank_test(row: np.ndarray) -> float:
    """The p-value of a rise along a row, by rank correlation; 1 where it cannot be told."""
    if np.ptp(row) == 0:
        return 1.0
    found = spearmanr(range(len(row)), row, alternative="greater").pvalue
    return float(np.nan_to_num(found, nan=1))  # two steps give no p


READINGS = (
    ("op", ""),
    ("op_rescaled", "weights rescaled"),
    ("unit", "the normalised output's Jacobian"),
    ("unit_rescaled", "the normalised output's Jacobian, weights rescaled"),
    ("own", "covariance of the group's activations"),
    ("own_rescaled", "covariance of the group's activations, weights rescaled"),
    ("cov", "covariance of its children's activations"),
    ("cov_rescaled", "covariance of its children's activations, weights rescaled"),
)
"""What "covariance operator" may be: that of Theorem 3 with the Jacobian of Definition 1, of the
output without its norm, as in the authors' program, counts as printed. Normalised outputs have
separate symbols (Eqs. 41, 56); the caption of Fig. 14 mentions features."""


def _figure(t: Trial, nodes: tuple[str, ...], curves: pd.DataFrame, shuffled: pd.DataFrame) -> None:
    """End over start, the rank test of its rise, and the whole operators' height; by reading."""
    unrelated = operator_summary(shuffled)
    for quantity, setting in READINGS:
        rows, other = (_growth(table, quantity, nodes) for table in (curves, unrelated))
        draws = int(curves.trials.max()) * len(rows)
        shared: Shared = {"draws": draws, "evidence": "partial", "setting": setting}
        whole = quantity in ("op", "unit")
        for name in ("at the end", "at its height") if whole else ("at the end",):
            height = name == "at its height"
            ratio = _ratio(rows, height)
            still = len(rows) - len(ratio)
            part = t.part(name, GROWTH, ">=", **shared).add(ratio)
            # The least, too: by chance a case grows by more than 5% on unrelated views.
            part.breaks("views of unrelated objects", _ratio(other, height), by=worst)
            part.says(above=(ratio > 1).sum(), cases=len(ratio))
            part.says(still=f", {still} left out, zero throughout" if still else "")
        part = t.part("rank trend", 0.01, **shared).add(_trend(rows.to_numpy()))
        part.breaks(
            "steps exchanged at random",
            stats.exchanged(_trend, rows.to_numpy(), rng=generator(quantity, 0), draws=21),
        )


@check("ddn/fig13", on="runs")
def fig13(t: Trial, curves: Curves, shuffled: Unrelated) -> None:
    """Norm of the covariance operator in training, children of the root (Figure 13).

    Protocol   App. D.1: norm of the operator of z_s0 and z_s1 in training, medians of 30 trials
               over depths, polarities and widths; the paper has neither of these nor epochs, nor
               says which operator.
    Question   By each reading (Definition 1's Jacobian or the normalised output's, weights as they
               are or rescaled): is the norm at the end 5 per cent above the start in every
               configuration, or at least at its height, and does it rise in rank (Spearman, p
               <= 0.01)?
    Refuted    by one configuration that does not grow. Controls: training on views of unrelated
               objects; steps exchanged at random.
    """
    _figure(t, NODES[:2], curves, shuffled)


@check("ddn/fig14", on="runs")
def fig14(t: Trial, curves: Curves, shuffled: Unrelated) -> None:
    """Norm of the covariance operator in training, lower latents (Figure 14).

    Protocol   norm of the covariance operator of the lower latents z_s010 and z_s1100 in training
               (App. D.1), medians of 30 trials over depths, polarities and widths; the paper has
               neither of these nor epochs, nor says which operator.
    Question   By each reading (Definition 1's Jacobian or the normalised output's, weights as they
               are or rescaled to their first norms, so that growth is not theirs): is the norm at
               the end 5 per cent above the start in every configuration, or at least at its height,
               and does it rise in rank (Spearman, p <= 0.01)?
    Refuted    by one configuration that does not grow. Controls: training on views of unrelated
               objects; steps exchanged at random.
    """
    _figure(t, NODES[2:], curves, shuffled)


def figures(
    curves: pd.DataFrame, shuffled: pd.DataFrame
) -> list[Callable[[int, int], Iterator[Check]]]:
    """The checks of Figs. 13 and 14, as `Ledger.run` takes them.

    curves: `operator_summary` of runs; shuffled: runs on unrelated views.
    """

    return [
        lambda draws, seed: fig13(curves, shuffled),
        lambda draws, seed: fig14(curves, shuffled),
    ]
