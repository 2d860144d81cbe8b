"""Figures 1-18 of ncl against our runs: final order, rising curves (ncl Sec. 5.2.2, App. A, B).

The figures are curves without printed values; the tests are of the statements of captions and
text, at the last epoch, by one-sided t-tests, the worst over Pr(sparse).
"""

from typing import Any

import pandas as pd

from clcore.experiments import sparse_tables as rt
from clcore.experiments.sparse_tables import RECOVERED, SIGNIFICANT
from clcore.ledger import Part, Trial, check

Runs = pd.DataFrame
"""A row per run (panel, Pr(sparse), seed) and recorded epoch; minimum, median, maximum: of the
max-cosines. A table per setting; the first choice is noise log d / d (0.23 at d = 10, 0.15 at 20)
and temperature 0.05. In a panel's name fig7 is that figure's settings, warm-0.14 a warm start with
this noise on the weights (c = 1), srelu no BatchNorm, 2l two layers, 10 or 50 the neurons, masked
that masks keep a tenth, drop that they keep what is printed as dropped, dependent Eq. 2's masks."""


def on_runs(
    t: Trial,
    runs: Runs,
    panels: tuple[str, ...],
    name: str,
    bound: float,
    relation: str,
    measured: tuple[float, dict[str, float]],
    **more: Any,
) -> Part:
    """A part on the runs of these panels, with what was measured and its controls."""
    more = {"draws": rt.count(runs, *panels), "evidence": rt.evidence(runs, *panels)} | more
    part = t.part(name, bound, relation, **more).add(measured[0])
    for what, value in measured[1].items():
        part.breaks(what, value)
    return part


def ends_above(
    t: Trial, runs: Runs, high: str, low: str, name: str, others: str = "", **more: Any
) -> None:
    """Panel `high` ends above panel `low`."""
    measured = rt.ahead(runs, high, low)
    part = on_runs(t, runs, (high, low), name, SIGNIFICANT, "<=", measured, **more)
    ours = [rt.listed(rt.means(runs, p)["mean"]) for p in (high, low)]
    part.says(high=ours[0], low=ours[1], others=others)


def moves(
    t: Trial, runs: Runs, panel: str, name: str, sign: int = 1, others: str = "", **more: Any
) -> None:
    """A panel ends above (sign -1: below) where it began."""
    measured = rt.rises(runs, panel, sign)
    part = on_runs(t, runs, (panel,), name, SIGNIFICANT, "<=", measured, **more)
    start, end = (rt.listed(rt.means(runs, panel, last=last)["mean"]) for last in (False, True))
    path = runs[runs.panel == panel].groupby("epoch").minimum.mean()
    part.says(start=start, end=end, low=path.min(), epoch=path.idxmin(), others=others)


def stays_low(
    t: Trial, runs: Runs, panel: str, name: str, bound: float = RECOVERED, **more: Any
) -> None:
    """A panel ends below a bound at every Pr(sparse)."""
    found = rt.means(runs, panel)["mean"]
    control = {"starts with c = 2, untrained": float(rt.planted("warm").minimum.mean())}
    part = on_runs(t, runs, (panel,), name, bound, "<=", (found.max(), control), **more)
    part.says(found=rt.listed(found))


@check("ncl/fig1", on="runs")
def fig1(t: Trial, runs: Runs) -> None:
    """Contrastive and non-contrastive training with one-hot latents (Figure 1).

    Protocol   one-hot latents, linear encoders; Minimum max-cosine at the last epoch.
    Question   Does CL end above NCL, by a one-sided Welch test and by 0.2 (low and high in the
               text)? Does NCL's loss fall?
    Refuted    by a p-value above 0.05, a smaller gap. Controls: every other run exchanged; start
               and end exchanged in every other run.
    """
    pair = ("one-hot-cl", "one-hot-ncl")
    ends_above(t, runs, *pair, "CL ends above NCL")
    gap, mixed = rt.leads(runs, *pair)
    measured = gap.min(), {"every other run exchanged": mixed.min()}
    on_runs(t, runs, pair, "by 0.2", 0.2, ">=", measured)
    falls = rt.rises(runs, "one-hot-ncl", -1, "loss")
    on_runs(t, runs, ("one-hot-ncl",), "NCL's loss falls", SIGNIFICANT, "<=", falls)


@check("ncl/fig2", on="runs")
def fig2(t: Trial, runs: Runs) -> None:
    """Contrastive and non-contrastive training with k-sparse latents (Figure 2).

    Protocol   k-sparse latents, BatchNorm and symmetric ReLU, every Pr(sparse).
    Question   Does CL-basic end above NCL-basic (Welch), and NCL-basic below 0.75?
    Refuted    by one Pr(sparse) at which it does not. Controls: every other run exchanged; warm
               starts with c = 2, untrained.
    """
    readings = rt.other(runs, ("cl-basic-masked", "ncl-basic-masked"))
    ends_above(t, runs, "cl-basic", "ncl-basic", "CL ends above NCL", readings)
    stays_low(t, runs, "ncl-basic", "NCL ends low")


TWO_LAYERS = "two layers end low"


@check("ncl/fig3", on="runs")
def fig3(t: Trial, runs: Runs) -> None:
    """Non-contrastive training of a two-layer encoder fails (Figure 3).

    Protocol   NCL with a two-layer encoder, Eq. 11 on its first layer; every Pr(sparse). The figure
               has no contrastive curve: that comparison is `ncl/rem11`.
    Question   Does it end below 0.75?
    Refuted    by one Pr(sparse) at which it does not. Control: starts with c = 2, untrained.
    """
    stays_low(t, runs, "ncl-basic-2l", TWO_LAYERS)


@check("ncl/fig10", on="runs")
def fig10(t: Trial, runs: Runs) -> None:
    """Max-cosine and loss curves of a two-layer non-contrastive encoder (Figure 10).

    Protocol   NCL with a two-layer encoder, Eq. 11 on its first layer; every Pr(sparse), the runs
               of Figure 3.
    Question   Does it end below 0.75?
    Refuted    by one Pr(sparse) at which it does not. Control: starts with c = 2, untrained.
    """
    stays_low(t, runs, "ncl-basic-2l", TWO_LAYERS)


FALLS = "it falls from a warm start"
AS_DRAWN = "the mean of the runs, as the figure draws it, without a test"
LOUD_DRAWN = "noise 0.48, every column of M equally often, the mean of the runs, without a test"
"""A setting in which the mean of the runs falls, as the figure draws it."""


def _change(runs: Runs, panel: str) -> pd.Series:
    """Mean at the end minus mean at the start, per Pr(sparse)."""
    ends, starts = (rt.means(runs, panel, last=last)["mean"] for last in (True, False))
    return ends - starts


@check("ncl/fig4", on="runs")
def fig4(t: Trial, runs: Runs) -> None:
    """Non-contrastive training from a warm start without a predictor fails (Figure 4).

    Protocol   NCL from a warm start, c = 1, no predictor; twenty runs, where the figure has five.
    Question   Does it end below 0.75, and below its start: single runs by a paired test at the
               last epoch?
    Refuted    by an end above, by a p-value above 0.05. Controls: starts with c = 2, untrained;
               start and end exchanged in every other run.

    Twenty runs, since five left the test to chance. Left open are the test (the figure draws the
    mean of the runs; control: the net with a predictor, which rises) and the epoch.
    """
    panel = "warm-0.14"
    single = rt.settled(runs, panel)
    stays_low(t, single, panel, "it ends low")
    moves(t, single, panel, FALLS, -1, rt.other(single, ("warm-0.02", "warm-0.002")))

    fall, control = _change(single, panel), {"with a predictor": _change(single, "pred-warm").max()}
    mean = on_runs(t, single, (panel,), FALLS, 0.0, "<=", (fall.max(), control), setting=AS_DRAWN)
    mean.says(change=rt.listed(fall, 3))
    half = single[(single.panel == panel) & (single.epoch <= rt.EPOCHS / 2)]
    if half.epoch.max() == rt.EPOCHS / 2:
        moves(t, half, panel, FALLS, -1, setting="read after half of the epochs")
    loud = "warm-0.14-loud-balanced"
    if rt.has(runs, loud):  # the caption names neither the noise nor how columns are drawn
        fall = _change(runs, loud)
        measured = fall.max(), {"with a predictor": _change(runs, "pred-warm").max()}
        part = on_runs(t, runs, (loud,), FALLS, 0.0, "<=", measured, setting=LOUD_DRAWN)
        part.says(change=rt.listed(fall, 3), p=rt.rises(runs, loud, -1)[0])


@check("ncl/fig11", on="runs")
def fig11(t: Trial, runs: Runs) -> None:
    """Warm-started non-contrastive training without a predictor, several sparsities (Figure 11).

    Protocol   NCL from a warm start, no predictor, twenty runs; c = 1, which Sec. 5.2.2 states for
               its results. Other warmths are Table 4's.
    Question   Does it not work, as the caption says: does it end below 0.75? That it falls is
               stated for `ncl/fig4`.
    Refuted    by an end above. Control: starts with c = 2, untrained.
    """
    stays_low(t, rt.settled(runs, "warm-0.14"), "warm-0.14", "it ends low")


@check("ncl/fig5", on="runs")
def fig5(t: Trial, runs: Runs) -> None:
    """Non-contrastive training from a warm start with a linear predictor works (Figure 5).

    Protocol   NCL from a warm start, c = 1, with a linear predictor; fifteen runs, where the figure
               has three, which left the test to chance at noise 0.48.
    Question   Does the Minimum max-cosine end above its start at every Pr(sparse) (paired test)?
    Refuted    by a p-value above 0.05. Control: start and end exchanged in every other run.
    """
    moves(t, runs, "pred-warm", "it rises from a warm start")


@check("ncl/fig12", on="runs")
def fig12(t: Trial, runs: Runs) -> None:
    """Max-cosine and loss curves from a warm start with a linear predictor (Figure 12).

    Protocol   NCL from a warm start, c = 1, with a linear predictor; the runs of Figure 5.
    Question   Do the Minimum, Median and Maximum max-cosine end above their starts, and the loss
               below, at every Pr(sparse) (paired test)?
    Refuted    by a p-value above 0.05. Control: start and end exchanged in every other run.
    """
    moves(t, runs, "pred-warm", "it rises from a warm start")
    for name, sign in (("median", 1), ("maximum", 1), ("loss", -1)):
        measured, way = rt.rises(runs, "pred-warm", sign, name), "rises" if sign > 0 else "falls"
        on_runs(t, runs, ("pred-warm",), f"the {name} {way}", SIGNIFICANT, "<=", measured)


@check("ncl/fig6", on="runs")
def fig6(t: Trial, runs: Runs) -> None:
    """Non-contrastive training with a predictor fails without a warm start (Figure 6).

    Protocol   NCL with a linear predictor from a random start, and from the warm one.
    Question   Does it end below the warm start (Welch), and below 0.75?
    Refuted    by one Pr(sparse) at which it does not. Controls: every other run exchanged; warm
               starts with c = 2, untrained.
    """
    ends_above(t, runs, "pred-warm", "pred-random", "ends below the warm start")
    stays_low(t, runs, "pred-random", "ends low")


FIG7 = {
    "fig7-srelu": "without BatchNorm",
    "fig7-drop": "masks keep 0.9",
    "fig7-srelu-drop": "without BatchNorm, masks keep 0.9",
    "fig13": "c = 1, m = 10, masks keep a half, as Fig. 13 (0.62 at the start excludes c = 2)",
    "fig14": "c = 1.25, p = d = m = 20, masks keep a half, as Fig. 14",
    "warm-rows": "c = 1, as Sec. 5.2.2 has it, masks keep a half",
    "fig7-one": "c = 1, masks keep 0.1",
    "fig7-one-drop": "c = 1, masks keep 0.9",
    "fig7-one-srelu": "c = 1, masks keep 0.1, without BatchNorm",
    "fig7-one-srelu-drop": "c = 1, masks keep 0.9, without BatchNorm",
}
"""Panel -> what it takes for Fig. 7, whose caption and text exclude each other: a start with c = 2
is at 0.99, not at 0.62."""


@check("ncl/fig7", on="runs")
def fig7(t: Trial, runs: Runs) -> None:
    """Row-normalised non-contrastive training from a warm start, no predictor (Figure 7).

    Protocol   NCL from a warm start, c = 2, masks that keep 0.1, rows normalised, no predictor;
               other readings of the caption, which cannot be met as it stands.
    Question   Does the Minimum max-cosine end above its start, by a paired test?
    Refuted    by a p-value above 0.05. Control: start and end exchanged in every other run.
    """
    moves(t, runs, "fig7", "it rises without a predictor")
    for panel, setting in FIG7.items():
        if rt.has(runs, panel):
            moves(t, runs, panel, "it rises without a predictor", setting=setting)


OVERPARAMETRISED = "50 neurons, as the title may mean"


@check("ncl/fig8", on="runs")
def fig8(t: Trial, runs: Runs) -> None:
    """Max-cosine and loss curves with k-sparse latents, overparametrised network (Figure 8).

    Protocol   without BatchNorm, sizes as printed, m = 10; m = 50, as the title may mean.
    Question   Does CL end above NCL (Welch), at every Pr(sparse)?
    Refuted    by a p-value above 0.05. Control: every other run exchanged.
    """
    name = "CL ends above NCL"
    ends_above(t, runs, "srelu-cl-10", "srelu-ncl-10", name)
    if rt.has(runs, "srelu-cl-50"):
        ends_above(t, runs, "srelu-cl-50", "srelu-ncl-50", name, setting=OVERPARAMETRISED)


@check("ncl/fig9", on="runs")
def fig9(t: Trial, runs: Runs) -> None:
    """Max-cosine and loss curves with k-sparse latents, ten neurons (Figure 9).

    Protocol   without BatchNorm, m = 10; the runs of Figure 8.
    Question   Does CL end above NCL (Welch), at every Pr(sparse)?
    Refuted    by a p-value above 0.05. Control: every other run exchanged.
    """
    ends_above(t, runs, "srelu-cl-10", "srelu-ncl-10", "CL ends above NCL, m = 10")


def _normalised(t: Trial, runs: Runs, panel: str, free: str) -> None:
    readings = rt.other(runs, (f"{panel}-srelu", f"{panel}-pred", f"{free}-free"))
    moves(t, runs, panel, "it rises without a predictor", 1, readings)


@check("ncl/fig13", on="runs")
def fig13(t: Trial, runs: Runs) -> None:
    """Warm start and normalised rows: all curves with ten neurons (Figure 13).

    Protocol   NCL from a warm start, rows normalised, m = 10, no predictor.
    Question   Does the Minimum max-cosine end above its start at every Pr(sparse) (paired test)?
    Refuted    by a p-value above 0.05. Control: start and end exchanged in every other run.
    """
    _normalised(t, runs, "fig13", "fig13")


@check("ncl/fig14", on="runs")
def fig14(t: Trial, runs: Runs) -> None:
    """Warm start and normalised rows: all curves for p = d = m = 20 (Figure 14).

    Protocol   NCL from a warm start, c = 1.25, rows normalised, p = d = m = 20, no predictor;
               fifteen runs, where the figure has three (of three of ours p is 0.045).
    Question   Does the Minimum max-cosine end above its start at every Pr(sparse) (paired test)?
    Refuted    by a p-value above 0.05. Control: start and end exchanged in every other run.
    """
    _normalised(t, runs, "fig14", "fig14")


@check("ncl/fig15", on="runs")
def fig15(t: Trial, runs: Runs) -> None:
    """Warm start and normalised columns: all curves for p = d = m = 20 (Figure 15).

    Protocol   NCL from a warm start, c = 1.25, columns normalised, p = d = m = 20, no predictor;
               fifteen runs, where the figure has three.
    Question   Does the Minimum max-cosine end above its start at every Pr(sparse) (paired test)?
    Refuted    by a p-value above 0.05. Control: start and end exchanged in every other run.
    """
    _normalised(t, runs, "fig15", "fig14")


FIG16 = {
    "fig16": "",
    "fig16-srelu": "without BatchNorm",
    "fig16-drop": "masks keep 0.75",
    "fig16-srelu-drop": "without BatchNorm, masks keep 0.75",
}
"""Panel -> what it takes for what the caption leaves open."""


@check("ncl/fig16", on="runs")
def fig16(t: Trial, runs: Runs) -> None:
    """Warm start and normalised columns: all curves for p = m = 50, d = 10 (Figure 16).

    Protocol   NCL from a warm start with c = 2, at 0.99 already, columns normalised; the caption
               names no BatchNorm.
    Question   Does it end at 0.8 or more, and no more than 0.02 below the weights that the first
               normalisation leaves?
    Refuted    by a lower end. Control: random encoders at the end.

    That it works can only mean this: the first normalisation takes 0.03 by itself. Both numbers
    are ours.
    """
    random = rt.means(runs, "pred-random", last=False)["mean"]
    for panel, setting in FIG16.items():
        if setting and not rt.has(runs, panel):
            continue
        found, start = (rt.means(runs, panel, last=last)["mean"] for last in (True, False))
        rows = runs[(runs.panel == panel) & (runs.epoch <= 1)]
        first = rt.means(rows, panel)["mean"]
        for name, value, bound, control in (
            ("it ends high", found.min(), 0.8, random.max()),
            ("it does not fall", (found - first).min(), -0.02, (random - first).min()),
        ):
            measured = value, {"random encoders at the end": control}
            part = on_runs(t, runs, (panel,), name, bound, ">=", measured, setting=setting)
            part.says(start=rt.listed(start), first=rt.listed(first), end=rt.listed(found))


@check("ncl/fig17", on="runs")
def fig17(t: Trial, runs: Runs) -> None:
    """Simplified-SimCLR learns good representations from a random start (Figure 17).

    Protocol   Simplified SimCLR from a random start, Pr(sparse) = 0.1 and 0.2.
    Question   Does the mean Minimum max-cosine end at 0.8 or more?
    Refuted    by a lower end. Control: untrained encoders.
    """
    found, start = (
        rt.means(runs, "simclr", last=last)["mean"].reindex([0.1, 0.2]) for last in (True, False)
    )
    measured = found.min(), {"untrained": start.max()}
    part = on_runs(t, runs, ("simclr",), "it ends high", 0.8, ">=", measured)
    ours = rt.listed(rt.means(runs, "simclr")["mean"])
    part.says(found=ours, others=rt.other(runs, ("simclr-drop",)))


@check("ncl/fig18", on="runs")
def fig18(t: Trial, runs: Runs) -> None:
    """Simplified-SimSiam fails to learn good representations from a random start (Figure 18).

    Protocol   Simplified SimSiam from a random start, every Pr(sparse); masks that keep a tenth, as
               in Table 1, and masks that mask one, as the caption's words may be read.
    Question   Does the mean Minimum max-cosine end at 0.6 or less?
    Refuted    by a higher end. Control: starts with c = 2, untrained.
    """
    stays_low(t, runs, "simsiam", "it ends low", 0.6)
    if rt.has(runs, "simsiam-drop"):
        stays_low(t, runs, "simsiam-drop", "it ends low", 0.6, setting="masks that mask a tenth")


FIGURES = (
    *(fig1, fig2, fig3, fig4, fig5, fig6, fig7, fig8, fig9, fig10, fig11, fig12, fig13, fig14),
    *(fig15, fig16, fig17, fig18),
)
