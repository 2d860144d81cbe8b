"""ncl's remarks on what training finds, beside our runs (Sec. 2.2, 5.2.2, App. A.2.1, B.1.4)."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from clcore import ledger
from clcore.checks.sparse_runs.figures import ends_above, left_open, moves, other, stays_low
from clcore.experiments import sparse_tables as rt
from clcore.experiments.sparse_tables import RECOVERED
from clcore.ledger import Check, check

CONTRASTIVE = {"simclr": "Simplified-SimCLR", "cl-basic": "CL-basic", "cl-linear": "CL-linear"}
"""SimCLR first: one of the readings has none of the others, and a check ends where runs do."""


def _lowest_printed(model: str) -> float:
    tables = [rt.printed(f"ncl/{t}") for t in ("tab1", "tab2")]
    table = pd.concat(tables).query("model == @model and metric == 'minimum'")
    return float(table.paper.min())


@check("ncl/rem5", on="runs")
def rem5(runs: pd.DataFrame) -> Iterator[Check]:
    """Contrastive runs end as high as the lowest value that ncl itself prints for the model and
    calls recovery, less the 0.05 that its own spread allows. Control: before training."""
    for panel, model in CONTRASTIVE.items():
        found = rt.means(runs, panel)["mean"]
        yield Check(
            "ncl/rem5",
            float(found.min()),
            _lowest_printed(model) - 0.05,
            {"untrained": float(rt.means(runs, panel, last=False)["mean"].max())},
            draws=rt.count(runs, panel),
            part=model,
            relation=">=",
            evidence=rt.evidence(runs, panel),
            note=f"Minimum max-cosine {rt.listed(found)}. "
            + other(runs, (panel + "-masked", panel + "-drop")),
        )


@check("ncl/rem1", on="runs")
def rem1(runs: pd.DataFrame) -> Iterator[Check]:
    """The counterpart in experiment of Wen and Li's theorem: CL-basic learns from a random start.
    Their process is another, hence partial."""
    found = moves("ncl/rem1", runs, "cl-basic", "CL-basic rises from a random start")
    yield Check(**{**vars(found), "evidence": "partial"})


@check("ncl/rem6", on="runs")
def rem6(runs: pd.DataFrame) -> Iterator[Check]:
    """Poor minima without a predictor, near the truth with one, optional from a warm start with
    normalised weights. Sec. 2.2 leaves the start of the second to Sec. 5.2.2, which has it warm,
    and the sizes of the third open."""
    claim = "ncl/rem6"
    yield stays_low(claim, runs, "ncl-basic", "no predictor, random start: ends low")
    yield stays_low(claim, runs, "warm-0.14", "no predictor, warm start: ends low")
    for panel, setting in (("pred-warm", ""), ("pred-random", "a random start")):
        found, start = (rt.means(runs, panel, last=last)["mean"] for last in (True, False))
        random = rt.means(runs, "pred-random", last=False)["mean"]
        check = Check(
            claim,
            float(found.min()),
            RECOVERED,
            {"untrained, random": float(random.max())},
            draws=rt.count(runs, panel),
            part="predictor: ends near the truth",
            relation=">=",
            evidence=rt.evidence(runs, panel),
            note=f"From {rt.listed(start)} to {rt.listed(found)}.",
        )
        yield left_open(check, setting) if setting else check
    for panel, sizes, setting in (
        ("warm-rows", "fig13", "m = 10, as in Fig. 13"),
        ("warm-columns", "fig15", "p = d = m = 20, c = 1.25, as in Fig. 15"),
    ):
        part = f"no predictor, warm start, normalised {panel[5:]}: rises"
        yield moves(claim, runs, panel, part)
        if rt.has(runs, sizes):
            yield left_open(moves(claim, runs, sizes, part), setting)


@check("ncl/rem7", on="runs")
def rem7(runs: pd.DataFrame) -> Iterator[Check]:
    """The predictor helps from a warm start and only from there."""
    claim = "ncl/rem7"
    yield ends_above(claim, runs, "pred-warm", "warm-0.14", "with a predictor above without")
    yield ends_above(claim, runs, "pred-warm", "pred-random", "warm above random start")


@check("ncl/rem8", on="runs")
def rem8(runs: pd.DataFrame) -> Iterator[Check]:
    """SimCLR above SimSiam: by the printed gaps, and in our runs."""
    table = rt.printed("ncl/tab1").query("metric == 'minimum'")
    wide = table.pivot(index="pr", columns="model", values="paper")
    gaps = (wide["Simplified-SimCLR"] - wide["Simplified-SimSiam"]).to_numpy()
    stated = list(ledger.claim("ncl/rem8")["numbers"]["derived_min_gaps"].values())
    yield Check(
        "ncl/rem8",
        float(np.abs(gaps - stated).max()),
        1e-9,
        {"another order of Pr(sparse)": float(np.abs(gaps[::-1] - stated).max())},
        draws=3,
        part="printed gaps",
        note=f"{rt.listed(gaps)}: all positive.",
    )
    yield ends_above("ncl/rem8", runs, "simclr", "simsiam", "SimCLR ends above SimSiam")


@check("ncl/rem9", on="runs")
def rem9(runs: pd.DataFrame) -> Iterator[Check]:
    """CL above NCL of the same architecture in three metrics at three Pr(sparse). Controls: the
    losses exchanged, in our runs in every other one."""
    table = rt.printed("ncl/tab2")
    wide = table.pivot(index=["metric", "pr"], columns="model", values="paper")
    printed = [wide[f"CL-{k}"] - wide[f"NCL-{k}"] for k in ("linear", "basic")]
    yield Check(
        "ncl/rem9",
        float(np.mean([g > 0 for g in printed])),
        1.0,
        {"losses exchanged": float(np.mean([g < 0 for g in printed]))},
        draws=18,
        part="printed numbers",
        relation=">=",
    )

    found = [
        rt.leads(runs, f"cl-{k}", f"ncl-{k}", m)
        for k in ("linear", "basic")
        for m in rt.METRICS.values()
    ]
    ours, mixed = (np.concatenate(each) for each in zip(*found, strict=True))
    panels = ("cl-linear", "ncl-linear", "cl-basic", "ncl-basic")
    yield Check(
        "ncl/rem9",
        float((ours > 0).mean()),
        1.0,
        {"every other run exchanged": float((mixed > 0).mean())},
        draws=rt.count(runs, *panels),
        part="our runs",
        relation=">=",
        evidence=rt.evidence(runs, *panels),
        note="Share of comparisons. " + other(runs, panels),
    )


@check("ncl/rem10", on="runs")
def rem10(runs: pd.DataFrame) -> Iterator[Check]:
    """NCL-linear's weights are driven to 0: norm at the end over norm at the start at most 0.1.
    Control: start and end exchanged. The text calls the loss that it trains Eq. 6, outputs as they
    are; Sec. 4.2 has unit outputs in all experiments, Eq. 4, which is open beside it.

    On directions (Eq. 4) without bias the gradient is orthogonal to W, and no step of SGD can make
    the norm smaller; outputs that are not normalised shrink under independent masks."""
    for panel, setting in (("ncl-linear-plain", ""), ("ncl-linear", "unit outputs, Eq. 4")):
        start, end = (
            rt.at(runs, panel, last).set_index(["pr", "seed"]).norm for last in (False, True)
        )
        check = Check(
            "ncl/rem10",
            float((end / start).max()),
            0.1,
            {"start and end exchanged": float((start / end).max())},
            draws=rt.count(runs, panel),
            part="the norm of W vanishes",
            evidence=rt.evidence(runs, panel),
            note="Largest ratio over runs; 0.1 is ours. " + other(runs, (panel,)),
        )
        yield left_open(check, setting) if setting else check


@check("ncl/rem11", on="runs")
def rem11(runs: pd.DataFrame) -> Iterator[Check]:
    """A second layer does not bring NCL-basic to CL-basic: printed and ours."""
    numbers = ledger.claim("ncl/rem11")["numbers"]
    gap = np.subtract(numbers["min_CL_basic"], numbers["min_NCL_basic_2L"])
    yield Check(
        "ncl/rem11",
        float(gap.min()),
        0.02,
        {"models exchanged": float((-gap).min())},
        draws=3,
        part="printed numbers",
        relation=">=",
        note=f"Gaps {rt.listed(gap)}; 0.02 is two units of the last digit.",
    )
    yield ends_above("ncl/rem11", runs, "cl-basic", "ncl-basic-2l", "our runs")


@check("ncl/rem12", on="runs")
def rem12(runs: pd.DataFrame) -> Iterator[Check]:
    """A warmer start ends higher, in print and in our runs: from sigma = 0.14 to 0.02, from there
    to 0.002, and over both steps. Control for the printed cells: the levels exchanged."""
    table = rt.printed("ncl/tab4")
    wide, std = (
        table.pivot(index=["metric", "pr"], columns="sigma", values=name)
        for name in ("paper", "paper_std")
    )
    n = ledger.claim("ncl/tab4")["numbers"]["n"]
    for high, low in ((0.02, 0.14), (0.002, 0.02), (0.002, 0.14)):
        gap, name = wide[high] - wide[low], f"{high} above {low}"
        back = [f"{metric} at {pr}" for (metric, pr), g in gap.items() if g < 0]
        shared = {"claim": "ncl/rem12", "draws": len(gap), "relation": ">="}
        shared |= {"part": f"printed numbers, {name}"}
        yield Check(
            **shared,
            measured=float(gap.min()),
            bound=0.0,
            control={"exchanged": float((-gap).min())},
            note=f"The least of {len(gap)} gaps.",
            counterexample=f"Table 4, lower at {high} than at {low}: {', '.join(back)} "
            "(mean of five runs at that Pr(sparse))"
            if back
            else "",
        )
        if back:
            z = gap / ((std[high] ** 2 + std[low] ** 2) / n) ** 0.5
            yield Check(
                **shared,
                measured=float(z.min()),
                bound=-2.0,
                control={"exchanged": float((-z).min())},
                form="corrected",
                correction="not lower by more than two standard errors",
            )
        yield ends_above("ncl/rem12", runs, f"warm-{high}", f"warm-{low}", f"our runs, {name}")


def rem13(runs: pd.DataFrame) -> Iterator[Check]:
    """Training of NCL-basic from a random start ends at bad points, that are not collapsed; CL's
    does not: shares of runs, against a half ("preponderance"). Controls: warm starts for the first,
    rows that are all parallel for the second, untrained encoders for the third."""

    def bad(rows: pd.DataFrame) -> float:
        return float((rows.minimum < RECOVERED).mean())

    def wide(rows: pd.DataFrame) -> float:
        return float(((rows["rank"] > 2) & (rows.norm > 0.1)).mean())

    ncl, cl = rt.at(runs, "ncl-basic"), rt.at(runs, "cl-basic")
    untrained = rt.at(runs, "cl-basic", last=False)
    warm, flat = rt.planted("warm"), rt.planted("parallel")
    for value, control, part, panel, note in (
        (bad(ncl), {"warm starts with c = 2": bad(warm)}, "NCL ends at bad points", "ncl-basic",
         f"Minimum max-cosine {rt.listed(rt.means(runs, 'ncl-basic')['mean'])}."),
        (wide(ncl), {"parallel rows": wide(flat)}, "not collapsed", "ncl-basic",
         f"Effective rank of W at least {ncl['rank'].min():.1f}."),
        ((cl.minimum >= RECOVERED).mean(), {"untrained": (untrained.minimum >= RECOVERED).mean()},
         "CL recovers", "cl-basic", other(runs, ("cl-basic", "cl-basic-masked"))),
    ):  # fmt: skip
        yield Check(
            "ncl/rem13",
            float(value),
            0.5,
            {name: float(v) for name, v in control.items()},
            draws=rt.count(runs, panel),
            part=part,
            relation=">=",
            evidence=rt.evidence(runs, panel),
            note=note,
        )


REMARKS = (rem1, rem5, rem6, rem7, rem8, rem9, rem10, rem11, rem12, rem13)
