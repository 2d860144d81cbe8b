"""Tables 2 and 3 of ddn, Sec. 7's statements on them, and the residue in a net on images.

Three kinds of evidence. The printed cells, as mean, std and n = 5: their differences with Welch
intervals, taken as the differences of independent samples. Our runs (`pretraining.grid`), paired
over seeds: the same start and the same order of images and views. And the residue itself, in the
gradient of a small net (`residue_share.along`). Accuracies are in points (per cent).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from clcore import ledger, stats
from clcore.checks.dual_networks.residue.direct_test import dominance, rem13_split
from clcore.ledger import Check, Trial, check, worst
from clcore.ledger.trial import generator

RUNS, EPOCHS = 5, (100, 300, 500)
SHARE = 0.9  # of cells, as in the book's other tables
MARGIN = 1.0  # points: "comparable", "similar" (the ledger's; the paper gives no number)
SETS = {"cifar10": "CIFAR-10", "stl10": "STL-10"}
IMAGES = {"cifar10": 50_000, "stl10": 105_000}
ROWS = {
    "nce": "nce",
    "nce_exact": "exact",
    "nce_exact_noise": "exact-noise",
    "beta=-0.5": "beta-0.5",
    "beta=+0.2": "beta+0.2",
}
LOSSES = tuple(ROWS.values())
BETWEEN = ("nce-pairwise", "exact-shared", "exact-views")
PAIRWISE, SHARED = ("exact", "nce-pairwise"), ("exact-shared", "nce")
"""BETWEEN: losses that the tables do not name. The pairs differ in one thing, weights that are
taken at the un-augmented images: those of one negative (Eq. 6), those that all share (Eq. 80)."""
AT_VIEWS = "exact-views", "nce"
"""The exact loss with its weights at the views, as the released command trains it."""
SECOND = {"nce": "InfoNCE", "nce-pairwise": "InfoNCE of one negative"}
Sides = Mapping[str, pd.DataFrame]
"""Tables of runs, each of one data set, by what to call them: a row per loss, seed and epoch."""
Shares = pd.DataFrame
"""`tidy` tables of small runs: a row per step, run and layer, with the residue's size against the
operator's."""
EXCHANGED = "losses exchanged at random within each seed"
TABLES = {"ddn/tab2": LOSSES[:3], "ddn/tab3": LOSSES[3:]}

# ------------------------------------------------------------------------------ the printed cells


def printed(*claims: str) -> pd.DataFrame:
    """Cells as printed, of both tables if none is named.

    dataset, loss_name (as in `image_losses.LOSSES`), epoch, paper, paper_std.
    """
    rows = [
        (data, ROWS[loss], int(epochs[1:]), *cell)
        for claim in claims or TABLES
        for data in SETS
        for loss, cells in ledger.claim(claim)["numbers"][data].items()
        for epochs, cell in cells.items()
    ]
    return pd.DataFrame(rows, columns=["dataset", "loss_name", "epoch", "paper", "paper_std"])


def welch(first: str, second: str) -> pd.DataFrame:
    """Printed means of one loss minus those of another, one row per column of the tables.

    dataset, epoch, difference, error (combined standard error of n = 5 and 5), t, p and the 95 per
    cent interval low, high, with Welch's degrees of freedom.
    """
    table = printed().set_index(["loss_name", "dataset", "epoch"])
    a, b = table.loc[first], table.loc[second].reindex(table.loc[first].index)
    found = stats.welch_of(a.paper, a.paper_std, RUNS, b.paper, b.paper_std, RUNS)
    return found.frame(a.index).reset_index()


def reach(gaps: pd.DataFrame) -> np.ndarray:
    """The point of each interval that is farthest from 0."""
    return np.maximum(gaps.low.abs(), gaps.high.abs()).to_numpy()


def listed(gaps: pd.DataFrame) -> str:
    """CIFAR-10: -0.36 (p = 0.007), ..., for notes."""
    words = []
    for data, part in gaps.groupby("dataset", sort=False):
        cells = (
            f"{gap:+.2f} (p = {p:.2g})" for gap, p in zip(part.difference, part.p, strict=True)
        )
        words.append(f"{SETS[str(data)]}: {', '.join(cells)}")
    return "; ".join(words)


def _comparable_printed(t: Trial) -> None:
    gaps = welch("exact", "nce")
    name = "exact is comparable, printed cells"
    part = t.part(name, MARGIN, controls=worst, sort="sampled").add(reach(gaps))
    part.breaks("beta = -0.5 in place of exact", reach(welch("beta-0.5", "nce")))
    part.breaks("beta = +0.2 in place of exact", reach(welch("beta+0.2", "nce")))
    below = int((gaps.difference < 0).sum())
    chance = binomtest(below, len(gaps)).pvalue
    part.says(cells=listed(gaps), below=below, chance=chance, mean=gaps.difference.mean())


def _least_mean(gaps: pd.DataFrame, sign: int = 1) -> float:
    """Lower end of the 95 per cent interval of the mean difference over data sets and epochs.

    Cells of one data set are checkpoints of the same runs: their errors are taken as one and the
    same, those of different data sets as independent; degrees of freedom of five runs and five.
    """
    each = gaps.groupby("dataset").agg({"difference": "mean", "error": "mean"})
    error = float(np.sqrt((each.error**2).sum()) / len(each))
    return float(sign * each.difference.mean() - stats.critical(2 * RUNS - 2) * error)


def _noise_printed(t: Trial) -> None:
    gaps = welch("exact-noise", "exact")
    stl = gaps[gaps.dataset == "stl10"]
    part = t.part("noise improves, printed cells", 0.0, ">=", draws=len(gaps), sort="sampled")
    part.add(_least_mean(gaps))
    part.breaks("rows exchanged", _least_mean(gaps, -1))
    part.breaks("STL-10 alone", _least_mean(stl))
    part.says(mean=gaps.difference.mean(), cells=listed(gaps))
    part.says(below=int((stl.difference < 0).sum()), stl=stl.difference.mean(), p=stl.p.min())


def _order_printed(t: Trial) -> None:
    """beta = -0.5 > L_nce > beta = +0.2 after 100 epochs, on both data sets."""
    steps = [welch("beta-0.5", "nce"), welch("nce", "beta+0.2")]
    early = pd.concat([gaps[gaps.epoch == EPOCHS[0]] for gaps in steps])
    part = t.part("order after 100 epochs, printed cells", 0.0, ">=", sort="sampled").add(early.low)
    part.breaks("order reversed", -early.high)
    part.says(cells=listed(early))


def _beta_printed(t: Trial) -> None:
    lead, below = welch("beta-0.5", "nce"), welch("beta+0.2", "nce")
    early, late = (lead[lead.epoch == epoch] for epoch in (EPOCHS[0], EPOCHS[-1]))
    name = "(1) beta < 0 is ahead after 100 epochs, printed cells"
    ahead = t.part(name, 0.0, ">=", sort="sampled")
    ahead.add(early.low)
    ahead.breaks("rows exchanged", -early.high)
    ahead.says(cells=listed(early))

    name = "(1) and similar after 500, printed cells"
    similar = t.part(name, MARGIN, controls=worst, sort="sampled")
    similar.add(reach(late))
    similar.breaks("after 100 epochs", reach(early))
    first, second = late.difference.abs().div(late.error)
    similar.says(cells=listed(late), first=first, second=second, lead=late.high.iloc[0])

    name = "(2) beta > 0 is worse, printed cells"
    worse = t.part(name, 0.0, controls=worst, sort="sampled").add(below.high)
    worse.breaks("rows exchanged", -below.low)
    worse.breaks("beta = -0.5 in its place", lead.high)
    worse.says(cells=listed(below))


# --------------------------------------------------------------------------------------- our runs


def evidence(runs: pd.DataFrame) -> str:
    """Whether runs are at the paper's protocol: its published images, all of them, ResNet-18, five
    seeds, 500 epochs."""
    full = (
        runs.dataset.isin(list(SETS)).all()
        and (runs.width == 64).all()
        and (runs.images >= runs.dataset.map(IMAGES)).all()
        and runs.groupby(["dataset", "loss_name"]).seed.nunique().min() >= RUNS
        and runs.epoch.max() >= EPOCHS[-1]
    )
    return "protocol" if full else "partial"


def early_epoch(runs: pd.DataFrame) -> int:
    """The recorded epoch nearest to a fifth of the training: the paper's 100 of 500."""
    epochs = np.unique(runs.epoch[runs.epoch > 0])
    return int(epochs[np.abs(epochs - runs.epoch.max() * EPOCHS[0] / EPOCHS[-1]).argmin()])


def paired(runs: pd.DataFrame, first: str, second: str, epoch: int) -> pd.Series:
    """Points of one loss minus another's at one epoch, paired over seeds: difference, low, high,
    pairs, p and t (`stats.paired`). Runs that diverged are left out, with their partner.

    Errors: no runs of a loss at this epoch; fewer than two pairs.
    """
    kept = runs[(runs.epoch == epoch) & ~runs.diverged]
    missing = [loss for loss in (first, second) if loss not in set(kept.loss_name)]
    if missing:
        raise ValueError(f"expected runs of {', '.join(missing)} at epoch {epoch}, got none")
    points = kept.assign(points=100 * kept.linear)
    wide = points.pivot(index="seed", columns="loss_name", values="points")
    both = wide[[first, second]].dropna()
    found = stats.paired(both[first], both[second])
    row = {"difference": found.difference, "low": found.low, "high": found.high}
    row |= {"pairs": len(both), "p": found.p, "t": found.t_of_interval}
    return pd.Series(row, dtype=float)


def said(row: pd.Series) -> str:
    """A paired difference in words, as far as its interval allows."""
    verdict = "no difference seen" if row.low <= 0 <= row.high else "a difference"
    return (
        f"{row.difference:+.2f} points, 95 per cent interval {row.low:+.2f} to {row.high:+.2f}, "
        f"{row.pairs:.0f} pairs: {verdict}"
    )


def _farthest(row: pd.Series) -> float:
    return float(max(abs(row.low), abs(row.high)))


def _within(
    t: Trial, name: str, label: str, runs: pd.DataFrame, arms: tuple[str, str], **more: str
) -> None:
    """The paired interval at the end is within the margin."""
    epoch = int(runs.epoch.max())
    row = paired(runs, *arms, epoch)
    before = runs[(runs.loss_name == arms[1]) & (runs.epoch == 0)].assign(epoch=epoch)
    untrained = paired(pd.concat([runs[runs.loss_name == arms[0]], before]), *arms, epoch)
    more = {"words": f"runs: {name}", "evidence": evidence(runs)} | more
    part = t.part(f"{name}, {label}", MARGIN, draws=int(row.pairs), **more).add(_farthest(row))
    part.breaks(f"{SECOND[arms[1]]} before training", _farthest(untrained))
    first = runs[runs.loss_name == arms[0]].groupby("epoch").linear.mean() * 100
    part.says(epoch=epoch, gap=said(row), start=first.get(0, np.nan), end=first[epoch])


def _above(
    t: Trial,
    name: str,
    label: str,
    runs: pd.DataFrame,
    steps: Sequence[tuple[str, str]],
    epoch: int,
) -> None:
    """First above second, beyond the paired interval, for each of the steps."""
    rows = [paired(runs, *step, epoch) for step in steps]
    losses = list(dict.fromkeys(loss for step in steps for loss in step))

    def least(table: pd.DataFrame) -> float:
        return float(min(paired(table, *step, epoch).t for step in steps))

    pairs = int(min(row.pairs for row in rows))
    more: dict[str, Any] = {"words": f"runs: {name}", "draws": pairs, "evidence": evidence(runs)}
    part = t.part(f"{name}, {label}", float(stats.critical(pairs - 1)), ">=", **more)
    part.add(*(row.t for row in rows))
    rng, table = generator("relabelled", 0), runs[runs.epoch == epoch]
    part.breaks(EXCHANGED, stats.exchanged_labels(table, "loss_name", losses, least, rng))
    part.says(epoch=epoch, **{f"gap{k}": said(row) for k, row in enumerate(rows, 1)})


def cells(claim: str, runs: pd.DataFrame) -> pd.DataFrame:
    """Printed cells for which there are runs on the published images, with our mean, std (n - 1),
    number of seeds, and whether they agree by the ledger's rule. Points."""
    kept = runs[~runs.diverged & runs.dataset.isin(list(SETS))]
    by = ["dataset", "loss_name", "epoch"]
    ours = (100 * kept.linear).groupby([kept[c] for c in by]).agg(["mean", "std", "count"])
    table = printed(claim).merge(ours.reset_index(), on=by)
    return table.assign(agrees=ledger.agreements(table, table, RUNS))


def _share_of_cells(t: Trial, runs: pd.DataFrame) -> None:
    """Share of cells that agree; nothing where no run is of a printed cell."""
    table, of = cells(t.claim, runs), len(printed(t.claim))
    if set(table.epoch) < set(EPOCHS):
        return
    by = ["dataset", "loss_name", "epoch"]
    following = dict(zip(EPOCHS, (*EPOCHS[1:], EPOCHS[0]), strict=True))
    other = stats.other_cells(table, by, epoch=table.epoch.map(following))
    known = evidence(runs) if len(table) == of else "partial"
    part = t.part("cells", SHARE, ">=", draws=int(table["count"].sum()), evidence=known)
    part.add(table.agrees.mean())
    part.breaks("epochs exchanged", np.mean(ledger.agreements(other, table, RUNS)))
    part.says(agree=table.agrees.sum(), cells=len(table), printed=of)


# ------------------------------------------------------------------------------------- the checks


def having(sides: Sides, *losses: str) -> Sides:
    """The tables in which all of these losses were trained."""
    return {label: runs for label, runs in sides.items() if set(losses) <= set(runs.loss_name)}


@check("ddn/tab2", on="runs")
def tab2(t: Trial, sides: Sides) -> None:
    """Linear evaluation of InfoNCE with and without residue (Table 2).

    Protocol   ResNet-18, tau = 0.5, linear evaluation after 100, 300 and 500 epochs on CIFAR-10
               and STL-10, 5 seeds; smaller runs are marked.
    Question   Do nine cells in ten agree, where there are runs of them? Is the loss without
               residue (exact) within one point of InfoNCE at the end, by the paired 95 per cent
               interval, with its weights at the images (text), the same with gradient noise, or
               at the views (released program)?
    Refuted    by fewer cells, by an interval that leaves one point. Controls: our results of other
               epochs; InfoNCE before training.
    """
    _share_of_cells(t, pd.concat(sides.values()))
    for label, runs in having(sides, "exact", "nce").items():
        _within(t, "exact is comparable", label, runs, ("exact", "nce"))
    for label, runs in having(sides, "exact-noise", "nce").items():
        _within(t, "exact with noise is comparable", label, runs, ("exact-noise", "nce"))
    for label, runs in having(sides, *AT_VIEWS).items():
        _within(t, "exact, weights at the views, is comparable", label, runs, AT_VIEWS)


@check("ddn/tab3", on="runs")
def tab3(t: Trial, sides: Sides) -> None:
    """Linear evaluation at β = −0.5 and +0.2 (Table 3).

    Protocol   InfoNCE with beta r_+ added, beta = -0.5 and +0.2: ResNet-18, tau = 0.5, linear
               evaluation on CIFAR-10 and STL-10, 5 seeds; smaller runs are marked.
    Question   Is beta = -0.5 above InfoNCE and that above beta = +0.2 after 100 epochs: printed
               cells by Welch intervals, our runs by paired t at a fifth of the training? Do nine
               cells in ten agree?
    Refuted    by an interval that reaches 0, by fewer cells. Controls: the order reversed; other
               epochs; losses exchanged at random within each seed.
    """
    _order_printed(t)
    _share_of_cells(t, pd.concat(sides.values()))
    order = [("beta-0.5", "nce"), ("nce", "beta+0.2")]
    for label, runs in having(sides, "beta-0.5", "nce", "beta+0.2").items():
        name = "order after a fifth of the training"
        _above(t, name, label, runs, order, early_epoch(runs))


@check("ddn/rem13", on="runs")
def rem13(t: Trial, sides: Sides, shares: Shares) -> None:
    """The operator dominates the residue; gradient noise helps slightly (Sec. 7, Sec. 4.1).

    Protocol   the cells of Table 2 (ResNet-18, linear evaluation on CIFAR-10 and STL-10); runs of
               it, and runs in which nothing but the residue is left out; gradients of a small net
               along training.
    Question   Is exact within one point of InfoNCE, in every printed cell and in our runs? Does
               noise on the gradient improve, on the mean of the cells and in runs? Is |theta
               vec(W)| at most half of |V^xi/2 vec(W)| at all layers and steps?
    Refuted    by an interval beyond one point, one that reaches 0, a larger ratio. Controls: the
               rows of beta, rows exchanged, STL-10 alone, before training, losses exchanged at
               random within each seed, the operator's sign turned.
    """
    _comparable_printed(t)
    _noise_printed(t)

    for label, runs in having(sides, "exact", "nce").items():
        _within(t, "exact is comparable", label, runs, ("exact", "nce"))

    for arms, weights in ((PAIRWISE, "of one negative"), (SHARED, "shared")):
        name = f"only the residue left out, weights {weights}"
        for label, runs in having(sides, *arms).items():
            _within(t, name, label, runs, arms, evidence="partial")  # no experiment of the paper's

    noise = ("exact-noise", "exact")
    for label, runs in having(sides, *noise).items():
        _above(t, "noise improves", label, runs, [noise], int(runs.epoch.max()))
    dominance(t, shares)


@check("ddn/rem14", on="runs")
def rem14(t: Trial, sides: Sides) -> None:
    """β < 0 may accelerate training, β > 0 worsens performance (Sec. 7, Sec. 4.2).

    Protocol   the cells of Tables 2 and 3; runs of InfoNCE, beta = -0.5 and beta = +0.2 with
               matched seeds.
    Question   (1) Is beta = -0.5 ahead of InfoNCE after 100 epochs (in runs a fifth of the
               training), and within one point at the end? (2) Is beta = +0.2 behind, in all six
               cells and in runs?
    Refuted    by an interval that reaches 0, or leaves one point. Controls: rows exchanged, after
               100 epochs for 500, beta = -0.5 for +0.2, before training, losses exchanged at
               random within each seed.
    """
    _beta_printed(t)
    lead, worse = ("beta-0.5", "nce"), ("nce", "beta+0.2")
    for label, runs in having(sides, *lead, *worse).items():
        name = "(1) beta < 0 is ahead after a fifth of the training"
        _above(t, name, label, runs, [lead], early_epoch(runs))
        _within(t, "(1) and similar at the end", label, runs, lead)
        _above(t, "(2) beta > 0 is worse", label, runs, [worse], int(runs.epoch.max()))


def beside(sides: Sides, shares: pd.DataFrame) -> list[Callable[[int, int], Iterator[Check]]]:
    """The checks as `Ledger.run` takes them.

    sides: by what to call them, tables of `pretraining.grid`, each of one data set, with columns
    dataset, width and images added; a claim is held against those that have its losses. shares:
    `tidy` tables with columns tied and scale.
    """
    return [
        lambda draws, seed: tab2(sides),
        lambda draws, seed: rem13(sides, shares),
        rem13_split,
        lambda draws, seed: tab3(sides),
        lambda draws, seed: rem14(sides),
    ]
