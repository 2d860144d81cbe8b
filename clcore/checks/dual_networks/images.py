"""Tables 2 and 3 of ddn, what Sec. 7 says of them, and the residue in a net on images.

Three kinds of evidence. The printed cells, as mean, std and n = 5: their differences with Welch
intervals, taken as the differences of independent samples. Our runs (`pretraining.grid`), paired
over seeds: the same start and the same order of images and views. And the residue itself, in the
gradient of a small net (`residue_share.along`). Accuracies are in points (per cent).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

from clcore import ledger
from clcore import reference as ref
from clcore.checks.dual_networks import worlds as dw
from clcore.experiments import residue_share
from clcore.ledger import Check
from clcore.losses import anchors
from clcore.stats import paired_tests, welch_tests
from clcore.theory.operator import connection as net
from clcore.theory.operator import covariance_operator as co

RUNS, EPOCHS = 5, (100, 300, 500)
SHARE = 0.9  # of cells, as in the book's other tables
MARGIN = 1.0  # points: "comparable", "similar" (the ledger's; the paper gives no number)
DOMINANT = 0.5  # the residue at most half of the operator's part: then they are within 30 degrees
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
BETWEEN = ("nce-pairwise", "exact-shared")
PAIRWISE, SHARED = ("exact", "nce-pairwise"), ("exact-shared", "nce")
"""BETWEEN: losses that the paper did not train. The pairs differ in one thing, weights that are
taken at the un-augmented images: those of one negative (Eq. 6), those that all share (Eq. 80)."""
Sides = Mapping[str, pd.DataFrame]
EXCHANGED = "losses exchanged by chance within each seed"
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
    """Printed means of one loss less those of another, a row a column of the tables.

    dataset, epoch, difference, error (combined standard error of n = 5 and 5), t, p and the 95 per
    cent interval low, high, with Welch's degrees of freedom.
    """
    table = printed().set_index(["loss_name", "dataset", "epoch"])
    a, b = table.loc[first], table.loc[second].reindex(table.loc[first].index)
    return welch_tests(a.paper, a.paper_std, RUNS, b.paper, b.paper_std, RUNS).reset_index()


def reach(gaps: pd.DataFrame) -> float:
    """The point of all intervals that is farthest from 0."""
    return float(np.maximum(gaps.low.abs(), gaps.high.abs()).max())


def listed(gaps: pd.DataFrame) -> str:
    """CIFAR-10: -0.36 (p = 0.007), ..., for notes."""
    words = []
    for data, part in gaps.groupby("dataset", sort=False):
        cells = (f"{r.difference:+.2f} (p = {r.p:.2g})" for r in part.itertuples())
        words.append(f"{SETS[data]}: {', '.join(cells)}")
    return "; ".join(words)


def _comparable_printed() -> Check:
    gaps = welch("exact", "nce")
    below = int((gaps.difference < 0).sum())
    chance = stats.binomtest(below, len(gaps)).pvalue
    return Check(
        "ddn/rem13",
        reach(gaps),
        MARGIN,
        {
            "beta = -0.5 in place of exact": reach(welch("beta-0.5", "nce")),
            "beta = +0.2 in place of exact": reach(welch("beta+0.2", "nce")),
        },
        draws=len(gaps),
        part="exact is comparable, printed cells",
        note=f"Farthest end of six 95 per cent intervals of exact less L_nce. {listed(gaps)}. "
        f"Comparable, and yet {below} of 6 are below: a sign test of six independent cells would "
        f"have p = {chance:.2g}, mean {gaps.difference.mean():+.2f}.",
    )


def _least_mean(gaps: pd.DataFrame, sign: int = 1) -> float:
    """Lower end of the 95 per cent interval of the mean difference over data sets and epochs.

    Cells of one data set are checkpoints of the same runs: their errors are taken as one and the
    same, those of different data sets as independent; degrees of freedom of five runs and five.
    """
    each = gaps.groupby("dataset").agg({"difference": "mean", "error": "mean"})
    error = float(np.sqrt((each.error**2).sum()) / len(each))
    return float(sign * each.difference.mean() - stats.t.ppf(0.975, 2 * RUNS - 2) * error)


def _noise_printed() -> Check:
    gaps = welch("exact-noise", "exact")
    stl = gaps[gaps.dataset == "stl10"]
    below = stl[stl.difference < 0]
    return Check(
        "ddn/rem13",
        _least_mean(gaps),
        0.0,
        {"rows exchanged": _least_mean(gaps, -1), "STL-10 alone": _least_mean(stl)},
        relation=">=",
        draws=len(gaps),
        part="noise improves, printed cells",
        note="Lower end of the 95 per cent interval of the mean difference, with noise less "
        f"without: {gaps.difference.mean():+.2f} over six cells. {listed(gaps)}. Fails where "
        f"STL-10 "
        f"is taken alone: {len(below)} of its three cells fall, mean {stl.difference.mean():+.2f}, "
        f"none beyond the noise of five runs (least p = {stl.p.min():.2g}).",
    )


def _order_printed() -> Check:
    """beta = -0.5 > L_nce > beta = +0.2 after 100 epochs, on both data sets."""
    steps = [welch("beta-0.5", "nce"), welch("nce", "beta+0.2")]
    early = pd.concat([gaps[gaps.epoch == EPOCHS[0]] for gaps in steps])
    return Check(
        "ddn/tab3",
        float(early.low.min()),
        0.0,
        {"order reversed": float(-early.high.max())},
        draws=len(early),
        part="order after 100 epochs, printed cells",
        relation=">=",
        note="Least lower end of four 95 per cent intervals: beta = -0.5 less L_nce (Table 2), and "
        f"L_nce less beta = +0.2. {listed(early)}.",
    )


def _beta_printed() -> Iterator[Check]:
    lead, below = welch("beta-0.5", "nce"), welch("beta+0.2", "nce")
    early, late = (lead[lead.epoch == epoch] for epoch in (EPOCHS[0], EPOCHS[-1]))
    yield Check(
        "ddn/rem14",
        float(early.low.min()),
        0.0,
        {"rows exchanged": float(-early.high.max())},
        draws=len(early),
        part="(1) beta < 0 is ahead after 100 epochs, printed cells",
        relation=">=",
        note=f"Lower end of the interval of beta = -0.5 less L_nce. {listed(early)}.",
    )
    seen = late.difference.abs().div(late.error)
    yield Check(
        "ddn/rem14",
        reach(late),
        MARGIN,
        {"after 100 epochs": reach(early)},
        draws=len(late),
        part="(1) and similar after 500, printed cells",
        note=f"Farthest end of the intervals. {listed(late)}: {seen.iloc[0]:.1f} and "
        f"{seen.iloc[1]:.1f} standard errors, no difference seen. The margin of one point is the "
        f"ledger's; on CIFAR-10 a lead of up to {late.high.iloc[0]:.2f} is not excluded.",
    )
    yield Check(
        "ddn/rem14",
        float(below.high.max()),
        0.0,
        {
            "rows exchanged": float(-below.low.min()),
            "beta = -0.5 in its place": float(lead.high.max()),
        },
        draws=len(below),
        part="(2) beta > 0 is worse, printed cells",
        note=f"Highest upper end of six intervals of beta = +0.2 less L_nce. {listed(below)}.",
    )


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
    """Points of one loss less another's at one epoch, paired over seeds: difference, low, high,
    pairs, p (`paired_tests`) and t. Runs that diverged are left out, with their partner.

    Errors: no runs of a loss at this epoch; fewer than two pairs.
    """
    kept = runs[(runs.epoch == epoch) & ~runs.diverged]
    missing = [loss for loss in (first, second) if loss not in set(kept.loss_name)]
    if missing:
        raise ValueError(f"expected runs of {', '.join(missing)} at epoch {epoch}, got none")
    levels = kept.loss_name.map({first: 0, second: 1})
    table = kept.assign(level=levels, points=100 * kept.linear).dropna(subset="level")
    row = paired_tests(table, "level", "points").iloc[0]
    error = (row.high - row.low) / 2 / stats.t.ppf(0.975, row.pairs - 1)
    if error > 0:
        t = row.difference / error
    else:  # no spread
        t = np.sign(row.difference) * np.inf if row.difference else 0.0
    return pd.Series({**row[["difference", "low", "high", "pairs", "p"]], "t": t}, dtype=float)


def said(row: pd.Series) -> str:
    """A paired difference in words; what its interval allows to say."""
    verdict = "no difference seen" if row.low <= 0 <= row.high else "a difference"
    return (
        f"{row.difference:+.2f} points, 95 per cent interval {row.low:+.2f} to {row.high:+.2f}, "
        f"{row.pairs:.0f} pairs: {verdict}"
    )


def _farthest(row: pd.Series) -> float:
    return float(max(abs(row.low), abs(row.high)))


def _within(claim: str, part: str, runs: pd.DataFrame, arms: tuple[str, str], epoch: int) -> Check:
    """The paired interval is within the margin. Control: the second loss before training."""
    row = paired(runs, *arms, epoch)
    before = runs[(runs.loss_name == arms[1]) & (runs.epoch == 0)].assign(epoch=epoch)
    untrained = paired(pd.concat([runs[runs.loss_name == arms[0]], before]), *arms, epoch)
    return Check(
        claim,
        _farthest(row),
        MARGIN,
        {f"{arms[1]} before training": _farthest(untrained)},
        draws=int(row.pairs),
        part=part,
        evidence=evidence(runs),
        note=f"Epoch {epoch}, {arms[0]} less {arms[1]}: {said(row)}.",
    )


def _above(
    claim: str, part: str, runs: pd.DataFrame, steps: Sequence[tuple[str, str]], epoch: int
) -> Check:
    """First above second, beyond the paired interval, for each of the steps. Control: losses
    exchanged by chance within each seed."""
    rows = [paired(runs, *step, epoch) for step in steps]
    names = list(dict.fromkeys(name for step in steps for name in step))

    def least(table: pd.DataFrame) -> float:
        return float(min(paired(table, *step, epoch).t for step in steps))

    pairs = int(min(row.pairs for row in rows))
    notes = "; ".join(f"{a} less {b}: {said(r)}" for (a, b), r in zip(steps, rows, strict=True))
    return Check(
        claim,
        float(min(row.t for row in rows)),
        float(stats.t.ppf(0.975, pairs - 1)),
        {EXCHANGED: ref.relabelled(runs[runs.epoch == epoch], "loss_name", names, least)},
        draws=pairs,
        part=part,
        relation=">=",
        evidence=evidence(runs),
        note=f"Paired t, epoch {epoch}. {notes}.",
    )


def cells(claim: str, runs: pd.DataFrame) -> pd.DataFrame:
    """Printed cells for which there are runs on the published images, with our mean, std (n - 1),
    number of seeds, and whether they agree by the ledger's rule. Points."""
    kept = runs[~runs.diverged & runs.dataset.isin(list(SETS))]
    by = ["dataset", "loss_name", "epoch"]
    ours = (100 * kept.linear).groupby([kept[c] for c in by]).agg(["mean", "std", "count"])
    table = printed(claim).merge(ours.reset_index(), on=by)
    return table.assign(agrees=_agree(table, table))


def _agree(table: pd.DataFrame, ours: pd.DataFrame) -> list[bool]:
    columns = (ours["mean"], ours["std"], ours["count"], table.paper, table.paper_std)
    return [
        ledger.agreement(mean, std, n, paper, spread, RUNS, 0.01)
        for mean, std, n, paper, spread in zip(*columns, strict=True)
    ]


def _cells(claim: str, runs: pd.DataFrame) -> Iterator[Check]:
    """Share of cells that agree; nothing where no run is of a printed cell. Control: our results
    of the next column, 100 for 300, 300 for 500, 500 for 100 epochs."""
    table = cells(claim, runs)
    if set(table.epoch) < set(EPOCHS):
        return
    by = ["dataset", "loss_name", "epoch"]
    following = dict(zip(EPOCHS, (*EPOCHS[1:], EPOCHS[0]), strict=True))
    other = pd.MultiIndex.from_frame(table[by].assign(epoch=table.epoch.map(following)))
    yield Check(
        claim,
        float(table.agrees.mean()),
        SHARE,
        {"epochs exchanged": float(np.mean(_agree(table, table.set_index(by).reindex(other))))},
        draws=int(table["count"].sum()),
        part="cells",
        relation=">=",
        evidence=evidence(runs) if len(table) == len(printed(claim)) else "partial",
        note=f"{table.agrees.sum()} of {len(table)} cells agree, of {len(printed(claim))} printed.",
    )


# ----------------------------------------------------------------------------------- the residue


def tidy(shares: residue_share.Shares, **columns: float) -> pd.DataFrame:
    """One row a recorded step, run and layer: step, seed, layer, ratio, overlap, cosine, reversed,
    loss, spread, and the given columns."""
    steps, runs, layers = shares.ratio.shape
    at = np.indices((steps, runs, layers)).reshape(3, -1)
    table = pd.DataFrame({"step": np.array(shares.steps)[at[0]], "seed": at[1], "layer": at[2] + 1})
    for name in ("ratio", "overlap", "cosine", "reversed"):
        table[name] = getattr(shares, name).flatten().numpy()
    for name in ("loss", "spread"):
        table[name] = getattr(shares, name).numpy()[at[0], at[1]]
    return table.assign(**columns)


def medians(shares: pd.DataFrame) -> pd.DataFrame:
    """Medians over runs, one row a setting (tied, scale of the crops), step and layer."""
    names = ["ratio", "overlap", "cosine", "reversed", "loss", "spread"]
    return shares.groupby(["tied", "scale", "step", "layer"])[names].median().reset_index()


def _parts_agree(draws: int, seed: int) -> Check:
    """The parts of the gradient by autograd, against operators times vec(W_l)."""
    rng, count, tau = ref.generator("rem13", seed), min(draws, 12), 0.5
    off: dict[str, list] = {"theta": [], "half": [], "none": []}
    for strength in (0.2, 0.6):
        world = dw.world(rng, count, 4, "additive", strength)
        weights = dw.torch_layers(dw.weights(rng, count, (4, 6, 5, 3)))
        _, theta = residue_share.split_gradient(weights, world, tau)
        seen = net.trace(weights, world.points)
        far = net.unit(net.trace(weights, world.samples).output)
        xi = co.weighted_pulls(co.infonce_weight(co.half_distances(far, far), tau), world)
        f = world.shaped(net.unit(seen.output), 1)
        pull = co.pulls(partial(anchors.infonce, tau=tau), f, world)
        for layer, part in enumerate(theta, 1):
            right = net.normalised_connection(seen, layer)
            left = right @ net.projector(seen.output)
            w = net.vec(weights[layer - 1])[..., None]
            for name, pulled in (("theta", pull - xi), ("half", pull - xi / 2), ("none", pull)):
                vector = (co.operator(left, right, pulled) @ w)[..., 0].numpy()
                off[name].append(ref.relative(net.vec(part).numpy(), vector, 1e-6))
    return Check(
        "ddn/rem13",
        ref.worst(*off["theta"]),
        1e-8,
        {
            "half of the operator": ref.typical(*off["half"]),
            "without the operator": ref.typical(*off["none"]),
        },
        draws=2 * count,
        part="direct test: how it is measured",
        note="theta vec(W) as a difference of two gradients, against theta as an operator.",
    )


def _dominance(shares: pd.DataFrame) -> Check:
    table = medians(shares)
    start, end = (
        table[table.step == step].groupby("scale").ratio.max() for step in (0, shares.step.max())
    )
    each = ", ".join(
        f"{start[scale]:.2f} to {end[scale]:.2f} (crops of area {scale:g} to 1)"
        for scale in start.index
    )
    cosine = table[table.step == table.step.max()].groupby("scale").cosine.min()
    return Check(
        "ddn/rem13",
        float(table.ratio.max()),
        DOMINANT,
        {"operator's sign turned": float(table.reversed.max())},
        draws=int(shares.seed.nunique()),
        part="direct test: the operator dominates",
        evidence="partial",
        note="Largest median over runs of |theta vec(W)| over |V^xi vec(W) / 2|, of all layers, "
        f"steps, augmentations, one tower and both; a half is asked. From start to end: {each}; "
        f"cosine of the gradient and the operator's part at the end {cosine.min():.2f} at worst. "
        "At a stationary point of InfoNCE the ratio is 1, whatever the net.",
    )


# ------------------------------------------------------------------------------------- the checks


def having(sides: Sides, *losses: str) -> Sides:
    """The tables in which all of these losses were trained."""
    return {label: runs for label, runs in sides.items() if set(losses) <= set(runs.loss_name)}


def tab2(sides: Sides) -> Iterator[Check]:
    """Cells where there are runs of them; exact against L_nce. Controls: epochs exchanged,
    before training."""
    yield from _cells("ddn/tab2", pd.concat(sides.values()))
    for label, runs in having(sides, "exact", "nce").items():
        part, last = f"exact is comparable, {label}", int(runs.epoch.max())
        yield _within("ddn/tab2", part, runs, ("exact", "nce"), last)


def tab3(sides: Sides) -> Iterator[Check]:
    """Cells; the order after a fifth of the training, printed and ours. Controls: epochs exchanged,
    order reversed, losses exchanged within each seed."""
    yield _order_printed()
    yield from _cells("ddn/tab3", pd.concat(sides.values()))
    order = [("beta-0.5", "nce"), ("nce", "beta+0.2")]
    for label, runs in having(sides, "beta-0.5", "nce", "beta+0.2").items():
        part = f"order after a fifth of the training, {label}"
        yield _above("ddn/tab3", part, runs, order, early_epoch(runs))


def rem13(sides: Sides, shares: pd.DataFrame, draws: int, seed: int) -> Iterator[Check]:
    """Exact against L_nce and noise against none, printed cells and runs; runs in which nothing but
    the residue is left out; the residue's size along training. Controls: other rows, rows
    exchanged, STL-10, before training, losses exchanged within each seed, parts of the operator
    left out, its sign turned."""
    yield _comparable_printed()
    yield _noise_printed()
    for label, runs in having(sides, "exact", "nce").items():
        last = int(runs.epoch.max())
        yield _within("ddn/rem13", f"exact is comparable, {label}", runs, ("exact", "nce"), last)
    for pair, weights in ((PAIRWISE, "of one negative"), (SHARED, "shared")):
        for label, runs in having(sides, *pair).items():
            part = f"only the residue left out, weights {weights}, {label}"
            check = _within("ddn/rem13", part, runs, pair, int(runs.epoch.max()))
            yield replace(check, evidence="partial")  # not an experiment of the paper
    noise = ("exact-noise", "exact")
    for label, runs in having(sides, *noise).items():
        yield _above("ddn/rem13", f"noise improves, {label}", runs, [noise], int(runs.epoch.max()))
    yield _parts_agree(draws, seed)
    yield _dominance(shares)


def rem14(sides: Sides) -> Iterator[Check]:
    """beta < 0 ahead early and similar at the end, beta > 0 behind, printed cells and runs.
    Controls: rows exchanged, another column or row, before training, losses exchanged within each
    seed."""
    yield from _beta_printed()
    lead, worse = ("beta-0.5", "nce"), ("nce", "beta+0.2")
    for label, runs in having(sides, *lead, *worse).items():
        early, last = early_epoch(runs), int(runs.epoch.max())
        part = f"(1) beta < 0 is ahead after a fifth of the training, {label}"
        yield _above("ddn/rem14", part, runs, [lead], early)
        yield _within("ddn/rem14", f"(1) and similar at the end, {label}", runs, lead, last)
        yield _above("ddn/rem14", f"(2) beta > 0 is worse, {label}", runs, [worse], last)


def beside(sides: Sides, shares: pd.DataFrame) -> list[Callable[[int, int], Iterator[Check]]]:
    """The checks as `Ledger.run` takes them.

    sides: by what to call them, tables of `pretraining.grid`, each of one data set, with columns
    dataset, width and images added; a claim is held against those that have its losses. shares:
    `tidy` tables with columns tied and scale.
    """
    return [
        lambda draws, seed: tab2(sides),
        lambda draws, seed: rem13(sides, shares, draws, seed),
        lambda draws, seed: tab3(sides),
        lambda draws, seed: rem14(sides),
    ]
