"""Tables 1-4 and numbers of ncl beside our runs (Sec. 4.2, 5.2.2, App. A.2, B.1).

Functions of one table of runs. What its panels in other readings
(`experiments.sparse_tables.OTHERS`) give is in the notes or, where they pass and the printed
reading does not, the correction (`beside`). Figures and remarks are in `sparse_runs.figures` and
`sparse_runs.remarks`, what needs no run in `sparse_runs.settings`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import product

import numpy as np
import pandas as pd
from scipy.stats import binom

from clcore import stats
from clcore.checks.sparse_runs.figures import FIG7, FIGURES, ends_above, left_open, other
from clcore.checks.sparse_runs.remarks import REMARKS
from clcore.checks.sparse_runs.settings import def3 as def3
from clcore.checks.sparse_runs.settings import num2 as num2
from clcore.experiments import sparse_tables as rt
from clcore.experiments.sparse_tables import SHARE
from clcore.ledger import Check, LedgerError, judge
from clcore.ledger.readings import beside_print

SIMPLIFIED = {"simclr": "simsiam", "simsiam": "simclr"}
LOSSES = {"cl-linear": "ncl-linear", "ncl-linear": "cl-linear"} | {
    "cl-basic": "ncl-basic",
    "ncl-basic": "cl-basic",
}
STARTS = {"warm-0.14": "warm-0.002", "warm-0.002": "warm-0.14"}

# ----------------------------------------------------------------------------------------- tables


def _cells(claim: str, runs: pd.DataFrame, swap: dict[str, str]) -> Check:
    """Share of printed cells that agree. Controls: panels exchanged, encoders before training."""
    table = rt.beside(runs, claim)
    if table.empty:
        raise rt.NoRuns(f"expected runs of the panels of {claim}, got none; train or record them")
    controls = {
        "models exchanged": rt.beside(runs, claim, swap=swap).agrees.mean(),
        "untrained": rt.beside(runs, claim, last=False).agrees.mean(),
    }
    readings = [
        f"{name}: {t.agrees.sum()} of {len(t)}"
        for name, t in (
            ("masks keep a tenth", rt.beside(runs, claim, "-masked")),
            ("masking instead of keeping", rt.beside(runs, claim, "-drop")),
        )
        if len(t)
    ]
    panels = tuple(dict.fromkeys(table.panel))
    whole = len(table) == len(rt.printed(claim))
    return Check(
        claim,
        float(table.agrees.mean()),
        SHARE,
        {name: float(value) for name, value in controls.items()},
        draws=rt.count(runs, *panels),
        part="cells",
        relation=">=",
        evidence=rt.evidence(runs, *panels) if whole else "partial",
        note="; ".join([f"{table.agrees.sum()} of {len(table)} cells agree", *readings]) + ".",
    )


def tab1(runs: pd.DataFrame) -> Iterator[Check]:
    """18 cells, and SimCLR above SimSiam in Minimum max-cosine."""
    yield _cells("ncl/tab1", runs, SIMPLIFIED)
    yield ends_above("ncl/tab1", runs, "simclr", "simsiam", "SimCLR ends above SimSiam")


def tab2(runs: pd.DataFrame) -> Iterator[Check]:
    """45 cells; the orders that the text reads off; and whether the printed cells are possible."""
    yield _cells("ncl/tab2", runs, LOSSES)
    for high, low in (
        ("cl-linear", "ncl-linear"),
        ("cl-basic", "ncl-basic"),
        ("cl-basic", "ncl-basic-2l"),
    ):
        yield ends_above("ncl/tab2", runs, high, low, f"{high} ends above {low}")
    yield from _possible()


def _possible() -> Iterator[Check]:
    """Is there a sample of 5 numbers in [0, 1] with the printed mean and std? The bounds of both
    are widened by half a unit of their last digits. Control: one std ten times as large."""
    table = rt.printed("ncl/tab2")
    most = np.array([rt.most_spread(m + 0.005, 5) for m in table.paper])
    # 0.1 and 0.3 are printed with one digit, the others with two or three.
    unit = np.array([10.0 ** -len(str(s).split(".")[1]) for s in table.paper_std])
    excess = table.paper_std - unit / 2 - most
    row = table.loc[excess.idxmax()]
    without = excess.drop(excess.idxmax()).max()
    larger = float((10 * table.paper_std - unit / 2 - most).max())
    shared = {"claim": "ncl/tab2", "bound": 0.0, "draws": len(table), "part": "possible cells"}
    yield Check(
        **shared,
        measured=float(excess.max()),
        control={"stds ten times as large": larger},
        note=f"Printed std less the largest that five numbers in [0, 1] of that mean have; "
        f"{row.model}, Pr(sparse) = {row.pr}, {row.metric}.",
        counterexample=f"{row.model}, {row.pr}, {row.metric}: ${row.paper:.2f} \\pm "
        f"{row.paper_std}$, where $n = 5$ numbers in $[0, 1]$ of mean {row.paper:.2f} have a "
        f"standard deviation of at most {rt.most_spread(row.paper + 0.005, 5):.2f}",
    )
    yield Check(
        **shared,
        measured=float(max(without, row.paper_std / 10 - rt.most_spread(row.paper, 5))),
        control={"as printed": float(excess.max())},
        form="corrected",
        correction=f"a standard deviation ten times smaller, {row.paper_std / 10:g}, as its "
        "neighbours have, would do",
    )


def tab3(runs: pd.DataFrame) -> Iterator[Check]:
    """All 18 cells are those of Table 1. Control: Table 1's own rows, the models exchanged."""
    one, three = (rt.printed(f"ncl/{name}") for name in ("tab1", "tab3"))
    columns = ["paper", "paper_std"]
    same = (one[columns] == three[columns]).all(axis=1).mean()
    half = len(one) // 2
    exchanged = np.concatenate([one[columns].to_numpy()[half:], one[columns].to_numpy()[:half]])
    yield Check(
        "ncl/tab3",
        float(same),
        1.0,
        {"models exchanged": float((exchanged == three[columns].to_numpy()).all(1).mean())},
        draws=len(one),
        part="the cells of Table 1",
        relation=">=",
    )
    yield _cells("ncl/tab3", runs, SIMPLIFIED)


def tab4(runs: pd.DataFrame) -> Iterator[Check]:
    """27 cells. The note says where the Minimum max-cosines began."""
    found = _cells("ncl/tab4", runs, STARTS)
    starts = other(runs, ("warm-0.14", "warm-0.02", "warm-0.002"))
    yield Check(**{**vars(found), "note": f"{found.note} Minimum, from start to end: {starts}."})
    half = runs[runs.epoch <= rt.EPOCHS / 2]
    if half.epoch.max() == rt.EPOCHS / 2:
        half = replace(_cells("ncl/tab4", half, STARTS), evidence=found.evidence)
        yield left_open(half, "read after half of the epochs")


# ---------------------------------------------------------------------------------------- numbers


def num1(runs: pd.DataFrame) -> Iterator[Check]:
    """Masks of Eq. 3 outperform those of Eq. 2: mean over models and Pr(sparse) of the difference
    in max-cosine, over its standard error. Control: masks exchanged in every other run. The paper
    names no metric: the Minimum is its own first (Eq. 11), Median and Maximum are left open."""
    panels = ("ncl-basic", "cl-basic", "ncl-basic-dependent", "cl-basic-dependent")

    def lead(metric: str, mixed: bool) -> float:
        of = {panel: rt.by_pr(rt.at(runs, panel), metric) for panel in panels}
        # A Pr(sparse) that only one of the models was trained at would weigh for that one alone.
        shared = sorted(set.intersection(*(set(found) for found in of.values())))
        gaps, variance = [], 0.0
        for model, pr in product(panels[:2], shared):
            a, b = of[model][pr], of[model + "-dependent"][pr]
            pair = stats.alternate(a, b) if mixed else (a, b)
            gaps.append(pair[0].mean() - pair[1].mean())
            variance += sum(x.var(ddof=1) / len(x) for x in pair if len(x) > 1)
        mean, error = float(np.mean(gaps)), float(variance) ** 0.5 / len(gaps)
        if error > 0 or mean == 0:
            return mean / max(error, 1e-12)
        return math.copysign(math.inf, mean)  # one seed has no spread

    for metric in ("minimum", "median", "maximum"):
        listed = "; ".join(
            f"{model} {rt.listed(rt.means(runs, model, metric)['mean'])} against "
            f"{rt.listed(rt.means(runs, model + '-dependent', metric)['mean'])}"
            for model in panels[:2]
        )
        left = {"form": "open", "setting": f"the {metric.capitalize()} max-cosine"}
        yield Check(
            "ncl/num1",
            lead(metric, False),
            2.0,
            {"every other run exchanged": lead(metric, True)},
            draws=rt.count(runs, *panels),
            relation=">=",
            evidence=rt.evidence(runs, *panels),
            note=f"{metric.capitalize()} max-cosine, Eq. 3 against Eq. 2: {listed}.",
            **(left if metric != "minimum" else {}),
        )


def _close(
    claim: str, runs: pd.DataFrame, panel: str, start: float, end: float, note: str = ""
) -> Check:
    """The larger of |mean over all runs - printed| at the start and at the end is at most 0.05:
    "around", and the captions give no Pr(sparse). Control: random encoders, which stay."""
    ours = [float(rt.at(runs, panel, last).minimum.mean()) for last in (False, True)]
    random = float(rt.at(runs, "pred-random", last=False).minimum.mean())
    return Check(
        claim,
        max(abs(ours[0] - start), abs(ours[1] - end)),
        0.05,
        {"random encoders": max(abs(random - start), abs(random - end))},
        draws=rt.count(runs, panel),
        part="start and end",
        evidence=rt.evidence(runs, panel),
        note=f"{ours[0]:.2f} to {ours[1]:.2f}, printed {start:.2f} to {end:.2f}. {note}".strip(),
    )


def num3(runs: pd.DataFrame) -> Iterator[Check]:
    """Minimum max-cosine with predictor, from about 0.7 to 0.87."""
    yield _close("ncl/num3", runs, "pred-warm", 0.7, 0.87)
    if rt.has(runs, "pred-warm-faint"):
        setting = "noise 0.05, a factor of 0.22 in its order log d / d"
        yield left_open(_close("ncl/num3", runs, "pred-warm-faint", 0.7, 0.87), setting)


def num4(runs: pd.DataFrame) -> Iterator[Check]:
    """Minimum max-cosine with normalised rows, from about 0.62 to 0.85. The caption's c = 2 is a
    noise of 0.02 an entry, and starts near 1."""
    note = other(runs, ("fig7", "warm-rows"))
    yield _close("ncl/num4", runs, "fig7", 0.62, 0.85, note)
    for panel, setting in FIG7.items():
        if rt.has(runs, panel):
            yield left_open(_close("ncl/num4", runs, panel, 0.62, 0.85), setting)


def num5(runs: pd.DataFrame) -> Iterator[Check]:
    """Table 1's "Bernoulli(0.1)" as the probability of keeping: nearer to the printed cells than as
    that of masking, which is what Figs. 17, 18 say, in more of them than a fair coin would give one
    time in twenty (13 of 18). Over the seeds that all four panels have. Control: the readings
    exchanged in every other cell."""
    panels = ("simclr", "simsiam", "simclr-drop", "simsiam-drop")
    seeds = set.intersection(*(set(rt.at(runs, panel).seed) for panel in panels))
    runs = runs[runs.panel.isin(panels) & runs.seed.isin(seeds) | ~runs.panel.isin(panels)]

    readings = [rt.beside(runs, "ncl/tab1", suffix) for suffix in ("", "-drop")]
    keys = ["model", "pr", "metric"]
    off = [t.set_index(keys)["mean"].sub(t.set_index(keys).paper).abs() for t in readings]
    keep, drop = pd.concat(off, axis=1, join="inner").to_numpy().T
    mixed = stats.alternate(keep, drop)
    yield Check(
        "ncl/num5",
        float((keep < drop).sum()),
        float(binom.isf(rt.SIGNIFICANT, len(keep), 0.5)) + 1,
        {"every other cell exchanged": float((mixed[0] < mixed[1]).sum())},
        draws=rt.count(runs, *panels),
        part="Table 1: 0.1 is kept",
        relation=">=",
        evidence=rt.evidence(runs, *panels),
        note=f"Cells of {len(keep)} that are nearer; seeds: {len(seeds)}. Root mean square: kept "
        f"{(keep**2).mean() ** 0.5:.2f}, masked {(drop**2).mean() ** 0.5:.2f}. "
        + other(runs, ("fig7", "fig7-drop", "fig16", "fig16-drop")),
    )


ON_RUNS = (
    *(num1, num3, num4, num5),
    *REMARKS,
    *FIGURES,
)


# ----------------------------------------------------------------------------------- the readings


def _as_far_as_run(checks: Iterator[Check]) -> Iterator[Check]:
    try:
        yield from checks
    except rt.NoRuns:
        return


Panels = Callable[[str], pd.DataFrame]
"""Suffix -> the runs of that reading (`sparse_tables.reading`)."""


def _readings(
    check: Callable[[pd.DataFrame], Iterator[Check]], own: list[Check], panels: Panels
) -> Iterator[Check]:
    """Every part as printed (`own`), and under the values of settings that the print leaves open
    (`OPEN`); beside it what readings against the print give (`OTHERS`): the first that passes where
    the printed one does not is the correction, all else is in the note."""

    def parts(suffix: str) -> dict[str, Check]:
        found = _as_far_as_run(check(panels(suffix)))
        return {c.part: c for c in found if c.form != "open"}

    left_open = {setting: parts(suffix) for suffix, setting in rt.OPEN.items()}
    others = {name: parts(suffix) for suffix, name in rt.OTHERS.items()}
    for c in own:
        yield from beside_print(
            c, {n: found[c.part] for n, found in others.items() if c.part in found}
        )
        if c.evidence == "exact":
            continue
        for setting, found in left_open.items():
            # Nothing is open to a part whose runs have no temperature: its numbers are the same.
            if c.part in found and _numbers(found[c.part]) != _numbers(c):
                opened = replace(found[c.part], form="open", setting=setting)
                if _tells(opened):
                    yield opened


def _numbers(check: Check) -> tuple:
    return check.measured, tuple(check.control.values()), check.note


def _tells(check: Check) -> bool:
    """Whether the control fails, as it must: a setting with too few runs may not tell the two
    apart, and is then left out."""
    try:
        judge(check)
    except LedgerError:
        return False
    return True


def _with_settings(
    check: Callable[[pd.DataFrame], Iterator[Check]], runs: pd.DataFrame, panels: Panels
) -> Iterator[Check]:
    """The parts as printed, with all readings; then the settings that a check names as left open
    itself, in the printed reading."""
    found = list(check(runs))
    yield from _readings(check, [c for c in found if c.form != "open"], panels)
    yield from (c for c in found if c.form == "open" and _tells(c))


def beside(runs: pd.DataFrame) -> dict[str, Callable[[int, int], Iterator[Check]]]:
    """Claim -> its check on runs, as `Ledger.run` takes it; num2 and def3 need no runs."""
    panels = cache(partial(rt.reading, runs))
    return {
        check.__name__: lambda draws, seed, check=check: _with_settings(check, runs, panels)
        for check in (tab1, tab2, tab3, tab4, *ON_RUNS)
    }
