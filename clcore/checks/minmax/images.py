"""acl Sec. 6.1, Table 2: six losses on CIFAR-10 and STL-10.

Parts of two kinds. On the printed cells: mean, standard deviation and five runs are all that a
Welch test needs, so that the paper's statements on its table can be tested on the table itself. On
runs: functions of the table of `pretraining.grid` with the columns `dataset`, `images` and `width`,
paired over seeds (same start, same order of images, same augmentations, another loss). Accuracies
are in points of a hundred. Their control: losses exchanged at random within each seed.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from clcore import ledger
from clcore.checks.minmax.printed_cells import (
    CLAIMS,
    EPOCHS,
    LEVEL,
    NAMES,
    REGULARISERS,
    ROWS,
    UNIT,
    against,
    behind,
    one_sided,
    printed,
    span,
)
from clcore.images.datasets import called
from clcore.ledger import Check, Part, Trial, check, worst
from clcore.ledger.judging import Shared
from clcore.ledger.trial import generator
from clcore.stats import exchanged_labels, paired_tests

SEEDS, WIDTH = 5, 64
TRAIN = {"cifar10": 50_000, "stl10": 105_000}
EXCHANGED = "losses exchanged at random within each seed"
Sides = Mapping[str, pd.DataFrame]
"""Tables of runs, each of one data set, by what to call them: a row per loss, seed and epoch."""
Runs = pd.DataFrame
"""A table of runs of one data set: a row per loss, seed and epoch."""


def evidence(runs: pd.DataFrame) -> str:
    """Whether runs are at the paper's size: its data, all of it, its net, 500 epochs, 5 seeds."""
    full = (
        runs.dataset.nunique() == 1
        and runs.images.min() >= TRAIN.get(runs.dataset.iloc[0], np.inf)
        and runs.width.min() >= WIDTH
        and runs.epoch.max() >= EPOCHS[-1]
        and runs.seed.nunique() >= SEEDS
    )
    return "protocol" if full else "partial"


def kept(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs without the diverged ones, all epochs of them, with `accuracy` in points."""
    lost = runs.diverged.astype(bool).groupby([runs.loss_name, runs.seed]).transform("any")
    return runs[~lost].reset_index(drop=True).assign(accuracy=lambda found: 100 * found.linear)


COMPARED = ["difference", "low", "high", "pairs", "p", "t"]


def gaps(runs: pd.DataFrame) -> pd.DataFrame:
    """Every loss minus InfoNCE at every recorded epoch: epoch, loss, and what `_paired` gives."""
    rows = []
    for epoch, part in kept(runs).groupby("epoch"):
        for loss in sorted(set(part.loss_name) - {"infonce"}):
            both = part[part.loss_name.isin(["infonce", loss])]
            rows.append((epoch, loss, *_paired(both, "loss_name", loss)))
    return pd.DataFrame(rows, columns=["epoch", "loss", *COMPARED])


def gains(runs: pd.DataFrame) -> pd.DataFrame:
    """Accuracy at the end minus that before training: loss, and what `_paired` gives."""
    table, last = kept(runs), runs.epoch.max()
    both = table[table.epoch.isin([0, last])].groupby("loss_name")
    rows = [(loss, *_paired(part, "epoch", last)) for loss, part in both]
    return pd.DataFrame(rows, columns=["loss", *COMPARED])


def _paired(both: pd.DataFrame, column: str, first: Any) -> tuple[Any, ...]:
    """COMPARED of accuracies of two labels, `first` minus the other one, paired over seeds: low and
    high end the 95 per cent interval; t is the mean over its standard error, 0 without a spread."""
    test = paired_tests(both, column, "accuracy").iloc[0]
    sign = 1 if test["first"] == first else -1
    low, high = sorted((sign * test.low, sign * test.high))
    error = (high - low) / 2 / stats.t.ppf(1 - LEVEL / 2, test.pairs - 1)
    difference = sign * test.difference
    return difference, low, high, test.pairs, test.p, difference / error if error > 0 else 0.0


def _said(row: Any) -> str:
    """A difference in words, with its interval; whether one is seen at all."""
    seen = "" if row.low > 0 or row.high < 0 else ": no difference seen"
    return (
        f"{row.difference:+.2f} points, 95 per cent interval {row.low:+.2f} to {row.high:+.2f}, "
        f"{row.pairs:.0f} seeds{seen}"
    )


def about(runs: pd.DataFrame) -> str:
    """Description of these runs, for a note."""
    r = runs.iloc[0]
    lost = int(runs.groupby(["loss_name", "seed"]).diverged.any().sum())
    broken = f" {lost} diverged runs are left out." if lost else ""
    return (
        f"Runs: {called(r.dataset)}; {r.images:,} images, {runs.epoch.max()} epochs, width "
        f"{r.width} (paper: all images, 500 epochs, width 64).{broken}"
    )


def _end(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[runs.epoch == runs.epoch.max()]


def _directed(t: Trial, name: str, label: str, runs: pd.DataFrame, loss: str, sign: int) -> Part:
    """At the end the difference to InfoNCE has a sign, beyond its 95 per cent interval. Control:
    the two losses exchanged at random within each seed."""

    def of(table: pd.DataFrame) -> pd.Series:
        found = gaps(table)
        return found[found.loss == loss].iloc[0]

    last = of(_end(runs))
    beyond = stats.t.ppf(1 - LEVEL / 2, last.pairs - 1)
    seen: Shared = {"evidence": evidence(runs), "draws": int(last.pairs), "words": name}
    part = t.part(f"{name}, {label}", beyond, ">=", **seen)
    part.add(sign * last.t)
    part.breaks(EXCHANGED, _exchanged(_end(runs), "infonce", loss, by=lambda r: sign * of(r).t))
    return part.says(said=_said(last), about=about(runs))


def _exchanged(
    runs: pd.DataFrame, *labels: Any, by: Callable[[pd.DataFrame], float], column: str = "loss_name"
) -> float:
    """The median of a statistic over tables whose labels are exchanged within each seed."""
    rng = generator("relabelled", 0)
    return exchanged_labels(runs, column, labels, lambda rows: float(by(rows)), rng)


def _rho(first: pd.Series, second: pd.Series) -> float:
    """Spearman's correlation; 0 where one of them is constant."""
    if first.nunique() < 2 or second.nunique() < 2:
        return 0.0
    return float(stats.spearmanr(first, second.reindex(first.index)).statistic)


def cells(runs: pd.DataFrame) -> pd.DataFrame:
    """Printed cells that runs of the same data set have too: columns of `printed`, and ours,
    spread, seeds."""
    found = kept(runs).groupby(["loss_name", "epoch"]).accuracy.agg(["mean", "std", "count"])
    ours = found.set_axis(["ours", "spread", "seeds"], axis=1).reset_index()
    theirs = printed().query("dataset == @runs.dataset.iloc[0]")
    return theirs.merge(ours.rename(columns={"loss_name": "loss"}))


def agree(found: pd.DataFrame) -> pd.Series:
    """Which rows of `cells` agree (ledger.agreement)."""
    return found.apply(
        lambda r: ledger.agreement(r.ours, r.spread, r.seeds, r["mean"], r["std"], r.n, UNIT),
        axis=1,
    )


@check("acl/tab2a", "acl/tab2b", on="runs")
def table2(t: Trial, runs: Runs) -> None:
    """Six contrastive formulations on CIFAR-10, linear evaluation; Six contrastive formulations on
    STL-10, linear evaluation (Table 2).

    Protocol   ResNet18, linear evaluation, tau = 1/2, 5 seeds, 100, 300 and 500 epochs; the runs
               are of one data set, and smaller unless they say protocol.
    Question   Are the highlighted cells the two best of their columns, as printed? At the
               protocol: do nine cells in ten agree (two standard errors and half a digit)? On
               smaller runs: are the six losses in the printed order of 100 epochs (Spearman's rho
               >= 0.828)?
    Refuted    by a highlighted cell that is not among the two best, by fewer cells, by a lower
               rho. Controls: third and fourth of each column; losses in the opposite order; losses
               exchanged at random within each seed.
    """
    name = "stl10" if runs.dataset.iloc[0] == "stl10" else "cifar10"
    claim, block = CLAIMS[name], printed().query("dataset == @name")

    # The printed cells alone: rank 1 is the best of a column.
    rank = block.groupby("epoch")["mean"].rank(ascending=False)
    asked: Shared = {"claim": claim, "draws": len(block), "sort": "sampled"}
    best = t.part("printed cells: highlighted ones are the best two of their column", **asked)
    best.add((block.highlighted != (rank <= 2)).sum())
    best.breaks("third and fourth of each column", (block.highlighted != rank.between(3, 4)).sum())

    # Runs at the protocol, cell by cell.
    if evidence(runs) == "protocol":
        ours = cells(runs)
        turned = ours.groupby("epoch")["mean"].transform(lambda column: column.to_numpy()[::-1])
        full: Shared = {"claim": claim, "evidence": "protocol", "draws": len(ours)}
        share = t.part("runs: share of cells that agree", 0.9, ">=", **full)
        share.add(agree(ours).mean()).says(about=about(runs))
        share.breaks("losses in the opposite order", agree(ours.assign(mean=turned)).mean())
        return

    # Smaller runs, by the order of the losses at their end.
    end = _end(kept(runs))
    column = block[block.epoch == EPOCHS[0]].set_index("loss")["mean"]

    def means(rows: pd.DataFrame) -> pd.Series:
        return rows.groupby("loss_name").accuracy.mean()[[*ROWS]]

    smaller = {"claim": claim, "evidence": "partial", "draws": end.seed.nunique()}
    order = t.part("runs: order of the six losses", 0.828, ">=", **smaller)
    order.add(_rho(means(end), column))
    order.breaks(EXCHANGED, _exchanged(end, *ROWS, by=lambda rows: _rho(means(rows), column)))
    ranking = means(end).sort_values(ascending=False).index
    order.says(order=" > ".join(NAMES[loss] for loss in ranking), about=about(runs))


@check("acl/num14", on="runs")
def num14(t: Trial, sides: Sides) -> None:
    """Back-propagating through α is slightly worse (Sec. 6.1, finding (1)).

    Protocol   the rows InfoNCE and back-propagation of Table 2: six printed cells, 5 seeds each;
               runs with matched seeds.
    Question   Is back-propagating through alpha worse in every printed cell (one-sided Welch test
               at 2.5 per cent), by less than a point? On runs: is the paired difference at the
               last epoch below 0, beyond its 95 per cent interval?
    Refuted    by one cell that is not lower or a point lower; on runs by an interval that holds 0.
               Controls: the entropy row and the square row in its place; losses exchanged at
               random within each seed.
    """
    found = against("backprop")
    # Of a control that some cells let through: the cell that is farthest from what is asked.
    lower = t.part("printed cells: lower than InfoNCE", LEVEL / 2, controls=worst, sort="sampled")
    lower.add(one_sided(found, -1))
    lower.breaks("entropy regulariser in its place", one_sided(against("entropy"), -1))
    wider = one_sided(against("backprop", standard_error=True), -1)
    lower.says(span=span(found), wider=int((wider <= LEVEL / 2).sum()))
    # How far below, in points.
    slightly = t.part("printed cells: slightly", 1.0, controls=worst, sort="sampled")
    slightly.add(found.difference.abs())
    slightly.breaks("square regulariser in its place", against("square").difference.abs())
    for label, runs in sides.items():
        _directed(t, "runs: lower than InfoNCE", label, runs, "backprop", -1)


@check("acl/num15", on="runs")
def num15(t: Trial, sides: Sides) -> None:
    """Other regularisers perform like InfoNCE or better (Sec. 6.1, findings (2)-(3)).

    Protocol   the rows of the entropy, inverse (gamma = 2) and square regularisers of Table 2
               and InfoNCE: printed cells, and runs with matched seeds.
    Question   Is each comparable to InfoNCE or better: no cell more than half a point lower at p
               <= 0.05? Of the printed cells the square row, which the paper excepts, is left out;
               on runs it counts. On runs also: does each improve on the untrained net?
    Refuted    by one cell that is behind, or a regulariser that learns nothing. Controls: back-
               propagation and the square row in their place; guessing; before and after exchanged
               at random within each seed.
    """
    # Printed cells, each beside InfoNCE's; the note tells which runs say otherwise.
    table = {name: against(name) for name in (*REGULARISERS, "backprop")}
    useful, square = ("entropy", "inverse"), table["square"]
    cells_asked = sum(len(table[name]) for name in useful)
    part = t.part(
        "printed cells: comparable to InfoNCE or better", draws=cells_asked, sort="sampled"
    )
    part.add(sum(len(behind(table[name])) for name in useful))
    part.breaks("gradient through the weights in their place", len(behind(table["backprop"])))
    part.breaks("square regulariser in their place", len(behind(square)))
    last = square.query("dataset == 'cifar10' and epoch == 500").iloc[0]
    part.says(entropy=span(table["entropy"]), inverse=span(table["inverse"]))
    part.says(last=last.difference, p=last.p, lowest=behind(square).difference.min())
    part.says(contrary="".join(_contrary(runs) for runs in sides.values()))
    for label, runs in sides.items():
        _regularisers(t, label, runs)


def _contrary(runs: pd.DataFrame) -> str:
    """Runs that contradict the printed cells of num15, for its note; nothing if none does."""
    end = _end(gaps(runs)).set_index("loss")
    other = [name for name in ("entropy", "inverse") if name in behind(end).index]
    if end.low["square"] > 0:
        other.append("square")
    said = "; ".join(f"{NAMES[name]}: {_said(end.loc[name])}" for name in other)
    return f" Our runs differ: {said}. {about(runs)}" if said else ""


def _regularisers(t: Trial, label: str, runs: pd.DataFrame) -> None:
    """The parts of num15 on runs."""
    at: Shared = {"evidence": evidence(runs)}

    # At the end no regulariser is behind InfoNCE.
    end = _end(gaps(runs))
    chosen = end[end.loss.isin(REGULARISERS)]
    seen: Shared = {
        "draws": int(chosen.pairs.min()),
        "words": "runs: comparable to InfoNCE or better",
    }
    comparable = t.part(f"runs: comparable to InfoNCE or better, {label}", **(at | seen))
    comparable.add(len(behind(chosen)))
    comparable.breaks("guessing in their place", len(behind(_guessing(runs))))
    said = "; ".join(f"{r.loss} {_said(r)}" for r in chosen.itertuples())
    comparable.says(said=said, about=about(runs))

    # Each has gained by training, beyond its 95 per cent interval.
    of = runs[runs.loss_name.isin(REGULARISERS)]
    learned = gains(of)
    beyond = stats.t.ppf(1 - LEVEL / 2, learned.pairs.min() - 1)
    seen: Shared = {"draws": int(learned.pairs.min()), "words": "runs: each works"}
    works = t.part(f"runs: each works, {label}", beyond, ">=", **(at | seen)).add(learned.t)
    mixed = _exchanged(of, 0, of.epoch.max(), by=lambda rows: gains(rows).t.min(), column="epoch")
    works.breaks("before and after exchanged at random within each seed", mixed)
    works.says(span=span(learned))


def _guessing(runs: pd.DataFrame) -> pd.DataFrame:
    """A net that guesses, minus InfoNCE at the end, over seeds."""
    last = _end(kept(runs)).query("loss_name == 'infonce'")
    rest = 100 / last.classes - last.accuracy
    p = stats.ttest_1samp(rest, 0).pvalue if rest.std() > 0 else 0.0
    return pd.DataFrame({"difference": [rest.mean()], "p": [p]})


@check("acl/num16", on="runs")
def num16(t: Trial, sides: Sides) -> None:
    """Setting α directly from distances works without a minimisation (Sec. 6.1, finding (4)).

    Protocol   Table 2 (accuracy of six losses): the row of direct weights, alpha_ij from d_ij^2 at
               tau = 1/2, and the others; printed cells, and runs with matched seeds.
    Question   Printed cells: (1) is it the best row of every column, and (2) above InfoNCE in each
               cell (one-sided Welch test at 2.5 per cent)? (3) Runs: is the paired difference to
               InfoNCE above 0, beyond its 95 per cent interval?
    Refuted    (1) by one column that another row leads, (2) one cell that is not, (3) an interval
               that holds 0. Controls: (1) the entropy row and InfoNCE in its place; (2) the entropy
               row; (3) losses exchanged at random within each seed.
    """
    # (1) Each column's cell of the row, minus the best cell of the other rows.
    wide = printed().pivot(index=["dataset", "epoch"], columns="loss", values="mean")

    def lead(loss: str) -> pd.Series:
        return wide[loss] - wide.drop(columns=loss).max(axis=1)

    best = t.part(
        "printed cells: the best row of every column", UNIT, ">=", controls=worst, sort="sampled"
    )
    best.add(lead("direct"))
    for name in ("entropy", "infonce"):
        best.breaks(f"{NAMES[name]} in its place", lead(name))
    seconds = wide.drop(columns="direct").idxmax(axis=1)
    beyond = sum(
        against("direct", other).set_index(["dataset", "epoch"]).p[column] <= LEVEL
        for column, other in seconds.items()
    )
    best.says(beyond=int(beyond))

    # (2) p of each cell against InfoNCE's cell, from the printed means and deviations.
    found = against("direct")
    above = t.part("printed cells: above InfoNCE", LEVEL / 2, controls=worst, sort="sampled")
    above.add(one_sided(found, 1))
    above.breaks("entropy regulariser in its place", one_sided(against("entropy"), 1))
    above.says(span=span(found))

    # (3) Our runs, a part for each data set.
    for label, runs in sides.items():
        part = _directed(t, "runs: above InfoNCE", label, runs, "direct", 1)
        end = _end(gaps(runs)).set_index("loss").difference
        ahead = end.index[end > end["direct"]]
        part.says(ahead=", ".join(NAMES[name] for name in ahead) or "none of the other losses")


def beside(sides: Sides) -> list[Callable[[int, int], Iterator[Check]]]:
    """The checks, as `Ledger.run` takes them, on at most one table of each block of Table 2."""
    blocks = [lambda d, s, runs=runs: table2(runs) for runs in sides.values()]
    rows = [lambda d, s, check=check: check(sides) for check in (num14, num15, num16)]
    return [*blocks, *rows]
