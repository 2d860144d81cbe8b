"""Tables 4 and 6 and Figures 13 and 14 of ddn beside our runs (ddn Sec. 7, App. D.1).

Functions of a table of runs (`tree_contrast.run`), recorded or of this build. The tables are at the
paper's protocol with 10 trials a cell and 50 epochs; anything less is `partial`. For
the figures the paper gives neither depths nor polarities nor epochs, nor says which operator: ours
are settings of things left open.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import torch
from scipy.stats import binomtest, spearmanr

from clcore import ledger, stats
from clcore import random as cr
from clcore.checks.hltm.tree_training import operator_by_hand, training_by_hand
from clcore.experiments.tree_contrast import LATENTS, NODES, STEPS_PER_EPOCH
from clcore.ledger import Check, Trial, check, worst
from clcore.ledger.trial import generator
from clcore.theory.trees import leaf_patterns, pattern_net, tree_statistics

TRIALS, EPOCHS = 10, 50
GROWTH = 1.05  # at least, where the paper says only that a norm goes up
SHARE = 0.9  # of cells; two standard errors leave out about one cell in twenty by chance
CELL = ["latent", "low", "width", "stage"]
ORDERS = {"stage": ("initial", "epoch1", "converged"), "low": (0.7, 0.8, 0.9), "width": (2, 10)}
"""In which order NC should rise."""
SHUFFLES = 200  # of a control: labels exchanged by chance, the median of what they give


def _name(path: str) -> str:
    return f"zs{path}" if path else "z0"


def printed() -> pd.DataFrame:
    """Table 6 as printed: latent, low, width, stage, paper, paper_std; 90 rows."""
    rows = [
        (path, float(low[2:5]), int(width[1:]), stage, *numbers)
        for path in LATENTS
        for low, widths in ledger.claim("ddn/tab6")["numbers"][_name(path)].items()
        for width, stages in widths.items()
        for stage, numbers in stages.items()
    ]
    return pd.DataFrame(rows, columns=[*CELL, "paper", "paper_std"])


def measured(runs: pd.DataFrame) -> pd.DataFrame:
    """One row a run, latent and stage: latent, low, width, stage, seed, nc. Converged: the end."""
    steps = {0: "initial", STEPS_PER_EPOCH: "epoch1", int(runs.step.max()): "converged"}
    names = {f"nc_s{path}": path for path in LATENTS}
    kept = runs[runs.step.isin(steps)].assign(stage=lambda t: t.step.map(steps))
    tall = kept.melt(["low", "width", "stage", "seed"], list(names), "latent", "nc")
    return tall.assign(latent=tall.latent.map(names), low=tall.low.round(3))


def cells(runs: pd.DataFrame) -> pd.DataFrame:
    """Table 6 with our mean, std (n - 1), n and whether a cell agrees by the ledger's rule."""
    ours = measured(runs).groupby(CELL).nc.agg(["mean", "std", "count"]).reset_index()
    table = printed().merge(ours, on=CELL, how="inner")
    return table.assign(agrees=_agree(table, table["mean"].to_numpy(), table["std"].to_numpy()))


def _agree(table: pd.DataFrame, mean: np.ndarray, std: np.ndarray) -> list[bool]:
    columns = (mean, std, table["count"], table.paper, table.paper_std)
    return [
        ledger.agreement(m, s, n, theirs, spread, TRIALS, 0.01)
        for m, s, n, theirs, spread in zip(*columns, strict=True)
    ]


def _widths_exchanged(table: pd.DataFrame) -> float:
    """Share of printed cells that agree with our results at the other width."""
    ours = stats.other_cells(table, CELL, width=12 - table.width)
    return float(np.mean(_agree(table, ours["mean"].to_numpy(), ours["std"].to_numpy())))


def evidence(runs: pd.DataFrame) -> str:
    """Whether runs are at the paper's own protocol (10 trials a cell, 50 epochs)."""
    trials = runs.groupby(["low", "width"]).seed.nunique().min()
    full = trials >= TRIALS and runs.step.max() >= EPOCHS * STEPS_PER_EPOCH
    return "protocol" if full else "partial"


def _share(t: Trial, runs: pd.DataFrame, released: pd.DataFrame, keep: str) -> None:
    """Share of cells that agree, under the paper's loss. Control: results of the other width."""
    table, other = (cells(v).query(keep).reset_index(drop=True) for v in (runs, released))
    draws = int(table["count"].sum())
    part = t.part("cells", SHARE, ">=", evidence=evidence(runs), draws=draws)
    part.add(table.agrees.mean()).breaks("widths exchanged", _widths_exchanged(table))
    part.says(agree=table.agrees.sum(), cells=len(table))
    part.says(other_agree=other.agrees.sum(), other_cells=len(other))


def _shuffled(
    values: np.ndarray,
    statistic: Callable[[np.ndarray], float],
    name: str,
    draws: int = SHUFFLES,
) -> float:
    """`stats.exchanged`, with the random numbers of that name."""
    return stats.exchanged(statistic, values, rng=generator(name, 0), draws=draws)


def _errors(values: np.ndarray) -> np.ndarray:
    """Steps between neighbouring labels in standard errors, paired by run; values: [rows, labels,
    runs], result [rows, labels - 1]; 0 where nothing moves, at most 1e9 where runs agree."""
    return stats.paired(values[:, 1:], values[:, :-1]).t.clip(-1e9, 1e9)


def _order(t: Trial, runs: pd.DataFrame, column: str, keep: str) -> None:
    """Whether NC rises along one of `ORDERS`. Control: its labels permuted by chance."""
    tall = measured(runs).query(keep)
    others = [c for c in CELL if c != column]
    labels = [label for label in ORDERS[column] if label in set(tall[column])]
    wide = tall.pivot(index=[*others, "seed"], columns=column, values="nc")[labels]
    rows = wide.index.droplevel("seed").unique()
    values = wide.to_numpy().reshape(len(rows), -1, len(labels)).swapaxes(1, 2)
    steps = np.diff(values.mean(-1), axis=1)
    odd = [
        f"{_name(row[0])} at {row[1]}, {row[2]} from {labels[k]} to {labels[k + 1]}"
        for row, each in zip(rows, steps < 0, strict=True)
        for k in np.flatnonzero(each)
    ]
    part = t.part(f"rises with {column}", -2.0, ">=", evidence=evidence(runs), draws=len(tall))
    part.add(_errors(values))
    part.breaks("labels exchanged by chance", _shuffled(values, lambda v: _errors(v).min(), column))
    part.says(rise=steps.size - len(odd), steps=steps.size)
    part.says(but=f"; not {'; '.join(odd)}" if odd else "")


def _orders(t: Trial, runs: pd.DataFrame, keep: str = "nc == nc") -> None:
    """NC along each of `ORDERS`, and less spread at 10 nodes than at 2."""
    for column in ORDERS:
        _order(t, runs, column, keep)
    kept = measured(runs).query(keep)
    wide = kept.groupby(CELL).nc.std().unstack("width")[list(ORDERS["width"])].to_numpy()
    part = t.part("std falls with width", 0.0, ">=", evidence=evidence(runs))
    part.add(wide[:, 0] - wide[:, 1]).says(rows=len(wide))
    exchanged = _shuffled(wide, lambda v: float((v[:, 0] - v[:, 1]).min()), "std")
    part.breaks("widths exchanged by chance", exchanged)


@check("ddn/tab6", on="runs")
def tab6(t: Trial, runs: pd.DataFrame, released: pd.DataFrame) -> None:
    """All 90 cells by the agreement rule, the orderings, and the root's rows beside Table 4.

    Controls: our results of the other width; labels exchanged by chance; the rows of z_s0.
    """
    _share(t, runs, released, "latent == latent")
    _orders(t, runs)
    tables = [ledger.claim(f"ddn/{name}")["numbers"] for name in ("tab4", "tab6")]

    def gap(path: str) -> float:
        """The largest difference of Table 4 to a latent of Table 6, columns that both have."""
        return max(
            abs(a - b)
            for low in ("U[0.7,1]", "U[0.8,1]", "U[0.9,1]")
            for width, stages in tables[0][low].items()
            for stage, cell in stages.items()
            for a, b in zip(cell, tables[1][_name(path)][low][width][stage], strict=True)
        )

    part = t.part("z_0 as in Table 4", 0.0, draws=12)
    part.add(gap("")).breaks("z_s0 for z_0", gap("0"))


@check("ddn/tab4", on="runs")
def tab4(t: Trial, runs: pd.DataFrame, released: pd.DataFrame) -> None:
    """The root's cells, initial and converged, and the orderings. Controls as in `tab6`."""
    keep = "latent == '' and stage != 'epoch1'"
    _share(t, runs, released, keep)
    _orders(t, runs, keep)


def _trends(t: Trial, table: pd.DataFrame, name: str, column: str, source: str) -> None:
    """The first and the third trend, on a column of `cells`."""
    wide = table.pivot(index=["low", "width", "stage"], columns="latent", values=column)
    values = wide[["", "101", "0111"]].to_numpy()
    words = "(1), (2) the lower the better"
    part = t.part(f"{words}, {name}", 0.02, ">=", words=words, evidence=source, draws=len(wide))
    part.add(_least_step(values))
    part.breaks("latents exchanged by chance", _shuffled(values, _least_step, "latents"))
    rise = (np.diff(values, axis=1) > 0).all(axis=1).sum()
    part.says(rise=rise, columns=len(wide))
    gain = first_pass(table, column)
    more = gain[10] - gain[2] > 1e-9  # printed numbers are decimals: equal ones may differ
    never = ", ".join(_name(path) for path in LATENTS if not more[path].any())
    words = "(3) faster in epoch 1 at 10 nodes"
    part = t.part(f"{words}, {name}", 0.02, ">=", words=words, evidence=source, draws=gain.size)
    part.add(_least_step(gain.to_numpy()))
    part.breaks("widths exchanged by chance", _shuffled(gain.to_numpy(), _least_step, "widths"))
    part.says(more=more.sum(), rows=len(more), never=f", never at {never}" if never else "")


@check("ddn/rem11", on="runs")
def rem11(t: Trial, runs: pd.DataFrame) -> None:
    """The three trends, on the printed numbers and on our runs. Controls: latents or widths
    exchanged by chance; latents that say little of their leaves."""
    table, kind = cells(runs), evidence(runs)
    _trends(t, table, "printed numbers", "paper", "exact")
    _trends(t, table, "our runs", "mean", kind)
    tall = measured(runs)
    start = tall.query("stage == 'initial'").groupby(CELL).nc.mean()
    part = t.part("(2) at initialisation", 0.1, ">=", evidence=kind, draws=len(tall))
    part.add(start).breaks("polarities below a half", _weak())
    part = t.part("(2) a node that is a leaf", 1e-12, draws=2)
    part.add(abs(1 - _single(1.0))).breaks("polarity 0.9", abs(1 - _single(0.9)))


def _single(rho: float) -> float:
    """Correlation of a latent with a node that copies its left leaf, by the exact law of both."""
    params = {
        "w0": torch.tensor([[[1.0, 0.0]]], dtype=torch.float64),
        "b0": torch.zeros(1, 1, dtype=torch.float64),
    }
    polarity = torch.tensor([rho, 0.5], dtype=torch.float64)
    return float(tree_statistics.correlations(params, polarity))


def first_pass(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """What NC gains in the first epoch, a row each latent and polarity, a column each width; of
    `cells`, column "paper" or "mean"."""
    stage = table.pivot(index=["latent", "low", "width"], columns="stage", values=column)
    return (stage["epoch1"] - stage["initial"]).unstack("width")[list(ORDERS["width"])]


def _least_step(values: np.ndarray) -> float:
    """The least rise between neighbouring labels, mean over rows; values: [rows, labels]."""
    return float(np.diff(values, axis=1).mean(0).min())


def _weak() -> float:
    """The root's NC in untrained nets, mean of ten, where polarities are uniform on [0, 1/2]."""
    found = []
    for seed in range(TRIALS):
        params = pattern_net.init(cr.key(seed), 5, 10)
        rho = leaf_patterns.random_polarity(cr.fold_in(cr.key(seed), 1), 5, 0.0, False) / 2
        found.append(float(tree_statistics.correlations(params, rho).abs().max()))
    return float(np.mean(found))


def _sign_test(gain: np.ndarray) -> float:
    gain = np.ravel(gain)
    return float(binomtest(int((gain > 0).sum()), len(gain), alternative="greater").pvalue)


@check("ddn/rem12", on="runs")
def rem12(t: Trial, runs: pd.DataFrame, shuffled: pd.DataFrame) -> None:
    """Sign tests, paired by run: NC grows in training, and is larger with more nodes.

    Controls: training on pairs of views of unrelated objects; widths exchanged by chance.
    """

    def gains(table: pd.DataFrame) -> np.ndarray:
        last = table[table.step == table.step.max()].set_index(["low", "width", "seed"])
        first = table[table.step == 0].set_index(["low", "width", "seed"])
        names = [f"nc_s{path}" for path in LATENTS if path != "0111"]
        return (last[names] - first[names]).mean(axis=1).to_numpy()

    gain, kind = gains(runs), evidence(runs)
    learning = t.part("learning", 0.01, evidence=kind, draws=len(gain)).add(_sign_test(gain))
    learning.breaks("views of unrelated objects", _sign_test(gains(shuffled)))
    last = measured(runs).query("stage == 'converged'")
    wide = last.groupby(["low", "seed", "width"]).nc.mean().unstack()[[2, 10]].to_numpy()
    name = "over-parameterisation"
    part = t.part(name, 0.01, evidence=kind, draws=len(wide)).add(_sign_test(np.diff(wide)))
    exchanged = _shuffled(wide, lambda v: _sign_test(np.diff(v)), name)
    part.breaks("widths exchanged by chance", exchanged)


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
    if np.ptp(row) == 0:
        return 1.0
    found = spearmanr(range(len(row)), row, alternative="greater").pvalue
    return float(np.nan_to_num(found, nan=1))  # two steps give no p


READINGS = (
    ("op", ""),
    ("op_rescaled", "weights rescaled"),
    ("unit", "with the normalised output's Jacobian"),
    ("unit_rescaled", "with the normalised output's Jacobian, weights rescaled"),
    ("own", "of the group's activations"),
    ("own_rescaled", "of the group's activations, weights rescaled"),
    ("cov", "of its children's activations"),
    ("cov_rescaled", "of its children's activations, weights rescaled"),
)
"""What "covariance operator" may be: that of Theorem 3 with the Jacobian of Definition 1, of the
output without its norm, as in the authors' program, counts as printed. Normalised outputs have
symbols of their own (Eqs. 41, 56); the caption of Fig. 14 speaks of features."""


def _figure(t: Trial, nodes: tuple[str, ...], curves: pd.DataFrame, shuffled: pd.DataFrame) -> None:
    """End over start, the rank test of its rise, and the whole operators' height; by reading.

    Controls: training on views of unrelated objects; steps exchanged by chance.
    """
    unrelated = operator_summary(shuffled)
    for quantity, setting in READINGS:
        rows, other = (_growth(table, quantity, nodes) for table in (curves, unrelated))
        draws = int(curves.trials.max()) * len(rows)
        shared = {"draws": draws, "evidence": "partial", "setting": setting}
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
        part.breaks("steps exchanged by chance", _shuffled(rows.to_numpy(), _trend, quantity, 21))


@check("ddn/fig13", on="runs")
def fig13(t: Trial, curves: pd.DataFrame, shuffled: pd.DataFrame) -> None:
    """The first two nodes' operators; curves: `operator_summary`, shuffled: on unrelated views."""
    _figure(t, NODES[:2], curves, shuffled)


@check("ddn/fig14", on="runs")
def fig14(t: Trial, curves: pd.DataFrame, shuffled: pd.DataFrame) -> None:
    """The other nodes' operators; arguments as in `fig13`."""
    _figure(t, NODES[2:], curves, shuffled)


def beside(
    runs: pd.DataFrame, released: pd.DataFrame, shuffled: pd.DataFrame
) -> list[Callable[[int, int], Iterator[Check]]]:
    """The checks of both tables and of what is said about them, as `Ledger.run` takes them.

    runs: under the paper's loss; released: under the released one; shuffled: on unrelated views.
    """
    return [
        lambda draws, seed: tab6(runs, released),
        lambda draws, seed: tab4(runs, released),
        training_by_hand,
        lambda draws, seed: rem11(runs),
        lambda draws, seed: rem12(runs, shuffled),
    ]


def figures(
    curves: pd.DataFrame, shuffled: pd.DataFrame
) -> list[Callable[[int, int], Iterator[Check]]]:
    """The checks of Figs. 13 and 14, as `Ledger.run` takes them.

    curves: `operator_summary` of runs; shuffled: runs on unrelated views.
    """

    return [
        lambda draws, seed: fig13(curves, shuffled),
        lambda draws, seed: fig14(curves, shuffled),
        operator_by_hand,
    ]
