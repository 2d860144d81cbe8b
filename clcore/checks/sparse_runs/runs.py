"""Tables 1-4 and numbers of ncl against our runs (Sec. 4.2, 5.2.2, App. A.2, B.1).

What the panels of a table of runs in other readings
(`experiments.sparse_tables.OTHERS`) give is in the notes or, where they pass and the printed
reading does not, the correction (`beside`). Figures and remarks are in `sparse_runs.figures` and
`sparse_runs.remarks`, what needs no run in `sparse_runs.settings`.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from clcore import stats
from clcore.checks.sparse_runs.figures import FIG7, FIGURES, Runs, ends_above, on_runs
from clcore.checks.sparse_runs.masks import num5
from clcore.checks.sparse_runs.remarks import REMARKS
from clcore.checks.sparse_runs.settings import def3 as def3
from clcore.checks.sparse_runs.settings import num2 as num2
from clcore.experiments import sparse_tables as rt
from clcore.experiments.sparse_panels import FEW
from clcore.experiments.sparse_tables import SHARE
from clcore.ledger import Check, Part, Trial, check
from clcore.ledger.readings import beside_print, tells

SIMPLIFIED = {"simclr": "simsiam", "simsiam": "simclr"}
LOSSES = {"cl-linear": "ncl-linear", "ncl-linear": "cl-linear"} | {
    "cl-basic": "ncl-basic",
    "ncl-basic": "cl-basic",
}
"""Each panel with a contrastive loss, and that with the non-contrastive one in its place."""
STARTS = {"warm-0.14": "warm-0.002", "warm-0.002": "warm-0.14"}

# ----------------------------------------------------------------------------------------- tables


def _cells(
    t: Trial, runs: Runs, swap: dict[str, str], starts: tuple[str, ...] = (), **more: Any
) -> Part:
    """Share of printed cells that agree. Controls: models, or starts, exchanged; encoders before
    training.

    starts: panels whose initial values are in the words.
    """
    claim, table = t.claim, rt.beside(runs, t.claim)
    if table.empty:
        raise rt.NoRuns(f"expected runs of the panels of {claim}, got none; train or record them")
    exchanged = "starts exchanged" if swap == STARTS else "models exchanged"
    controls = {
        exchanged: rt.beside(runs, claim, swap=swap).agrees.mean(),
        "untrained": rt.beside(runs, claim, last=False).agrees.mean(),
    }
    if len(table) < len(rt.printed(claim)):
        more = {"evidence": "partial"} | more
    panels = tuple(dict.fromkeys(table.panel))
    part = on_runs(t, runs, panels, "cells", SHARE, ">=", (table.agrees.mean(), controls), **more)
    others = ""
    for name, of in (("masks keep a tenth", "-masked"), ("masking instead of keeping", "-drop")):
        if len(found := rt.beside(runs, claim, of)):
            others += f"; {name}: {found.agrees.sum()} of {len(found)}"
    part.says(agree=table.agrees.sum(), cells=len(table), others=others)
    return part.says(starts=rt.other(runs, starts))


@check("ncl/tab1", on="runs")
def tab1(t: Trial, runs: Runs) -> None:
    """Max-cosines of Simplified-SimCLR and Simplified-SimSiam, three sparsities (Table 1).

    Protocol   Simplified SimCLR and SimSiam, 18 cells; other readings of the masks are in the
               note.
    Question   Do nine cells of ten agree, and does SimCLR end above SimSiam (Welch)?
    Refuted    by fewer cells, a p-value above 0.05. Controls: models exchanged, encoders before
               training, every other run exchanged.
    """
    _cells(t, runs, SIMPLIFIED)
    ends_above(t, runs, "simclr", "simsiam", "SimCLR ends above SimSiam")


@check("ncl/tab2", on="runs")
def tab2(t: Trial, runs: Runs) -> None:
    """Max-cosines of contrastive and non-contrastive encoders, three sparsities (Table 2).

    Protocol   linear, basic and two-layer models, 45 cells.
    Question   Do nine cells of ten agree? Are the orders that the text reads off ours (Welch)? Has
               every printed cell five numbers in [0, 1] of its mean and std?
    Refuted    by fewer cells, another order, a std that none have. Corrected: that std ten times
               smaller. Controls: models exchanged, encoders before training, every other run
               exchanged, stds ten times as large.
    """
    _cells(t, runs, LOSSES)
    for high, low in (
        ("CL-linear", "NCL-linear"),
        ("CL-basic", "NCL-basic"),
        ("CL-basic", "NCL-basic-2L"),
    ):
        name = f"{high} ends above {low}"
        ends_above(t, runs, high.lower(), low.lower(), name, words="order")
    _possible(t)


def _widest(mean: float, n: int = 5) -> float:
    """`most_spread` once more: by all corners of the cube, one number free."""
    found = [np.r_[np.ones(k), mean * n - k, np.zeros(n - 1 - k)] for k in range(n)]
    return max(float(np.std(x, ddof=1)) for x in found if x.min() >= 0 and x.max() <= 1)


def _possible(t: Trial) -> None:
    """Is there a sample of 5 numbers in [0, 1] with the printed mean and std? The bounds of both
    are widened by half a unit of their last digits. Control: one std ten times as large."""
    table = rt.printed(t.claim)
    most = np.array([rt.most_spread(m + 0.005, 5) for m in table.paper])
    # 0.1 and 0.3 are printed with one digit, the others with two or three.
    unit = np.array([10.0 ** -len(str(s).split(".")[1]) for s in table.paper_std])
    excess = table.paper_std - unit / 2 - most
    row = table.loc[excess.idxmax()]
    printed = t.part("possible cells", sort="sampled").add(excess)
    rows = zip(table.paper, table.paper_std, unit, strict=True)
    printed.fails_by([std - u / 2 - _widest(mean + 0.005) for mean, std, u in rows])
    printed.breaks("stds ten times as large", (10 * table.paper_std - unit / 2 - most).max())
    printed.says(model=row.model, pr=row.pr, metric=row.metric, mean=row.paper, std=row.paper_std)
    printed.says(most=rt.most_spread(row.paper + 0.005, 5))
    smaller, without = row.paper_std / 10, excess.drop(excess.idxmax()).max()
    mended = t.corrected("possible cells", sort="sampled", draws=len(table)).says(smaller=smaller)
    mended.add(without, smaller - rt.most_spread(row.paper, 5))
    mended.breaks("as printed", excess.max())


@check("ncl/tab3", on="runs")
def tab3(t: Trial, runs: Runs) -> None:
    """Max-cosines of Simplified-SimCLR and Simplified-SimSiam, printed again (Table 3).

    Protocol   Simplified SimCLR and SimSiam, 18 cells; the runs of Table 1.
    Question   Are all 18 cells those of Table 1, and do nine of ten agree with our runs?
    Refuted    by another cell, fewer that agree. Controls: models exchanged, encoders before
               training.
    """
    one, three = (rt.printed(f"ncl/{name}")[["paper", "paper_std"]] for name in ("tab1", "tab3"))
    half = len(one) // 2
    exchanged = np.concatenate([one.to_numpy()[half:], one.to_numpy()[:half]])
    part = t.part("the cells of Table 1", 1.0, ">=", draws=len(one), sort="sampled")
    part.add((one == three).all(axis=1).mean())
    part.breaks("models exchanged", (exchanged == three.to_numpy()).all(1).mean())
    _cells(t, runs, SIMPLIFIED)


@check("ncl/tab4", on="runs")
def tab4(t: Trial, runs: Runs) -> None:
    """Max-cosines of non-contrastive nets from three levels of warm start (Table 4).

    Protocol   NCL-basic from three warm starts, 27 cells, at the last epoch; half of the epochs is
               open. The note has the initial Minimum max-cosines.
    Question   Do nine cells of ten agree?
    Refuted    by fewer. Controls: starts exchanged, encoders before training.
    """
    found = _cells(t, runs, STARTS, ("warm-0.14", "warm-0.02", "warm-0.002"))
    half, setting = runs[runs.epoch <= rt.EPOCHS / 2], "read after half of the epochs"
    if half.epoch.max() == rt.EPOCHS / 2:
        _cells(t, half, STARTS, setting=setting, evidence=found.evidence)


# ---------------------------------------------------------------------------------------- numbers


def _lead(runs: Runs, panels: tuple[str, ...], metric: str, mixed: bool) -> float:
    """Mean difference of panels and the same with "-dependent", over its standard error; mixed:
    every other run exchanged."""
    names = (*panels, *(f"{panel}-dependent" for panel in panels))
    of = {panel: rt.by_pr(rt.at(runs, panel), metric) for panel in names}
    # A Pr(sparse) that only one of the models was trained at would weigh for that one alone.
    shared = sorted(set.intersection(*(set(found) for found in of.values())))
    gaps, variance = [], 0.0
    for model, pr in product(panels, shared):
        a, b = of[model][pr], of[model + "-dependent"][pr]
        pair = stats.alternate(a, b) if mixed else (a, b)
        gaps.append(pair[0].mean() - pair[1].mean())
        variance += sum(x.var(ddof=1) / len(x) for x in pair if len(x) > 1)
    mean, error = float(np.mean(gaps)), float(variance) ** 0.5 / len(gaps)
    return mean / max(error, 1e-12)  # one seed has no spread


@check("ncl/num1", on="runs")
def num1(t: Trial, runs: Runs) -> None:
    """Independent masks do better than dependent masks (Sec. 4.2).

    Protocol   NCL-basic and CL-basic with masks of Eq. 3 and of Eq. 2. The paper names no metric:
               the Minimum is its own first (Eq. 11), Median and Maximum are left open.
    Question   Is the mean lead of Eq. 3, over models and Pr(sparse), two standard errors or more?
    Refuted    by a smaller lead. Control: masks exchanged in every other run.
    """
    names = {"ncl-basic": "NCL-basic", "cl-basic": "CL-basic"}
    models = tuple(names)
    panels = (*models, *(f"{model}-dependent" for model in models))
    for metric in ("minimum", "median", "maximum"):
        control = {"every other run exchanged": _lead(runs, models, metric, True)}
        measured = _lead(runs, models, metric, False), control
        setting = "" if metric == "minimum" else f"the {metric.capitalize()} max-cosine"
        part = on_runs(t, runs, panels, "", 2.0, ">=", measured, setting=setting)
        listed = "; ".join(
            f"{name} {rt.listed(rt.means(runs, model, metric)['mean'])} against "
            f"{rt.listed(rt.means(runs, model + '-dependent', metric)['mean'])}"
            for model, name in names.items()
        )
        part.says(metric=metric.capitalize(), listed=listed)


Ends = tuple[float, float]


def _close(
    t: Trial, runs: Runs, panel: str, printed: Ends, others: str = "", setting: str = ""
) -> None:
    """The larger of |mean - printed| at the start and at the end, minus two standard errors of the
    difference, since the paper's are means of three runs, is at most 0.05: "around", and the
    captions give no Pr(sparse). Control: random encoders, which stay."""
    runs_of = [rt.at(runs, panel, last).groupby("seed").minimum.mean() for last in (False, True)]
    start, end = (one.mean() for one in runs_of)
    random = rt.at(runs, "pred-random", last=False).minimum.mean()
    chance = [2 * np.nan_to_num(one.std()) * (1 / len(one) + 1 / FEW) ** 0.5 for one in runs_of]
    off = max(abs(start - printed[0]) - chance[0], abs(end - printed[1]) - chance[1])
    measured = off, {"random encoders": max(abs(random - value) for value in printed)}
    part = on_runs(t, runs, (panel,), "start and end", 0.05, "<=", measured, setting=setting)
    part.says(start=start, end=end, others=others)


@check("ncl/num3", on="runs")
def num3(t: Trial, runs: Runs) -> None:
    """Minimum max-cosine rises from 0.7 to 0.87 with a linear predictor (Sec. 5.2.2).

    Protocol   Figure 5's runs, mean over all; the caption gives no Pr(sparse).
    Question   Is the Minimum max-cosine within 0.05 of 0.7 at the start and of 0.87 at the end,
               plus two standard errors of its difference from a mean of three runs?
    Refuted    by another start or end. Control: random encoders, which stay.
    """
    _close(t, runs, "pred-warm", (0.7, 0.87))


@check("ncl/num4", on="runs")
def num4(t: Trial, runs: Runs) -> None:
    """Minimum max-cosine rises from 0.62 to 0.85 with normalised rows (Sec. 5.2.2).

    Protocol   Figure 7's runs, mean over all. Its caption has c = 2, a noise of 0.02 an entry,
               which starts near 1: other readings of it are run as well.
    Question   Is the Minimum max-cosine within 0.05 of 0.62 at the start and of 0.85 at the end,
               plus two standard errors of its difference from a mean of three runs?
    Refuted    by another start or end. Control: random encoders, which stay.
    """
    _close(t, runs, "fig7", (0.62, 0.85), rt.other(runs, ("fig7", "warm-rows")))
    for panel, setting in FIG7.items():
        if rt.has(runs, panel):
            _close(t, runs, panel, (0.62, 0.85), setting=setting)


ON_RUNS = (
    *(num1, num3, num4, num5),
    *REMARKS,
    *FIGURES,
)


# ----------------------------------------------------------------------------------- the readings


def _as_far_as_run(check: Any, runs: Runs) -> Iterator[Check]:
    """The parts of a check on runs up to the first whose panels a reading does not have."""
    trial = Trial([f"ncl/{check.__name__}"], sort="trained")
    with suppress(rt.NoRuns):
        check.__wrapped__(trial, runs)
    yield from trial.records()


Panels = Callable[[str], pd.DataFrame]
"""Suffix -> the runs of that reading (`sparse_tables.reading`)."""


def _readings(
    check: Callable[[pd.DataFrame], Iterator[Check]],
    printed: list[Check],
    own: list[Check],
    panels: Panels,
) -> Iterator[Check]:
    """Every part as printed, and under values of settings that the print leaves open: those of
    `OPEN`, and those that its check names (`own`). Beside it what readings against the print give
    (`OTHERS`): the first that passes where none of these does is the correction, all else is in the
    note."""

    def parts(suffix: str) -> dict[str, Check]:
        found = _as_far_as_run(check, panels(suffix))
        return {c.part: c for c in found if c.form != "open"}

    left_open = {setting: parts(suffix) for suffix, setting in rt.OPEN.items()}
    others = {name: parts(suffix) for suffix, name in rt.OTHERS.items()}
    for c in printed:
        opened, told = [], [_numbers(c)]
        for setting, found in left_open.items():
            # A part whose runs have no temperature has the same numbers at every one.
            if c.part in found and _numbers(found[c.part]) not in told:
                told.append(_numbers(found[c.part]))
                opened.append(replace(found[c.part], form="open", setting=setting))
        opened = [] if c.evidence == "exact" else [one for one in opened if tells(one)]
        opened += [one for one in own if one.part == c.part]
        of_part = {n: found[c.part] for n, found in others.items() if c.part in found}
        yield from beside_print(c, of_part, opened)
        yield from opened
    parts_printed = {c.part for c in printed}
    yield from (one for one in own if one.part not in parts_printed)  # the ledger refuses it


def _numbers(check: Check) -> tuple:
    return check.measured, tuple(check.control.values()), check.note


def _with_settings(
    check: Callable[[pd.DataFrame], Iterator[Check]], runs: Runs, panels: Panels
) -> Iterator[Check]:
    """The parts as printed, with all readings and the settings that a check names itself, these in
    the printed reading."""
    found = list(check(runs))
    printed = [c for c in found if c.form != "open"]
    own = [c for c in found if c.form == "open" and tells(c)]
    yield from _readings(check, printed, own, panels)


def beside(runs: Runs) -> dict[str, Callable[[int, int], Iterator[Check]]]:
    """Claim -> its check on runs, as `Ledger.run` takes it; num2 and def3 need no runs."""
    runs = runs.astype({"panel": "category"})  # thousands of times rows are chosen by their panel
    panels = cache(partial(rt.reading, runs))
    return {
        check.__name__: lambda draws, seed, check=check: _with_settings(check, runs, panels)
        for check in (tab1, tab2, tab3, tab4, *ON_RUNS)
    }
