"""ncl's remarks on what training finds, beside our runs (Sec. 2.2, 5.2.2, App. A.2.1, B.1.4)."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from .. import ledger
from ..ledger import Check
from . import ncl_run_tables as rt
from .ncl_run_figures import ends_above, moves, other, stays_low
from .ncl_run_tables import RECOVERED

CONTRASTIVE = {"simclr": "Simplified-SimCLR", "cl-basic": "CL-basic", "cl-linear": "CL-linear"}
"""SimCLR first: one of the readings has none of the others, and a check ends where runs do."""


def _lowest_printed(model: str) -> float:
    tables = [rt.printed(f"ncl/{t}") for t in ("tab1", "tab2")]
    table = pd.concat(tables).query("model == @model and metric == 'minimum'")
    return float(table.paper.min())


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


def rem1(runs: pd.DataFrame) -> Iterator[Check]:
    """The counterpart in experiment of Wen and Li's theorem: CL-basic learns from a random start.
    Their process is another, hence partial."""
    found = moves("ncl/rem1", runs, "cl-basic", "CL-basic rises from a random start")
    yield Check(**{**vars(found), "evidence": "partial"})


def rem6(runs: pd.DataFrame) -> Iterator[Check]:
    """Poor minima without a predictor, near the truth with one, optional from a warm start with
    normalised weights."""
    claim = "ncl/rem6"
    yield stays_low(claim, runs, "ncl-basic", "no predictor, random start: ends low")
    yield stays_low(claim, runs, "warm-0.14", "no predictor, warm start: ends low")
    for panel, part in (("pred-random", "random"), ("pred-warm", "warm")):
        found, start = (rt.means(runs, panel, last=last)["mean"] for last in (True, False))
        random = rt.means(runs, "pred-random", last=False)["mean"]
        yield Check(
            claim,
            float(found.min()),
            RECOVERED,
            {"untrained, random": float(random.max())},
            draws=rt.count(runs, panel),
            part=f"predictor, {part} start: ends near the truth",
            relation=">=",
            evidence=rt.evidence(runs, panel),
            note=f"From {rt.listed(start)} to {rt.listed(found)}.",
        )
    for panel in ("warm-rows", "warm-columns"):
        part = f"no predictor, warm start, normalised {panel[5:]}: rises"
        yield moves(claim, runs, panel, part)


def rem7(runs: pd.DataFrame) -> Iterator[Check]:
    """The predictor helps from a warm start and only from there."""
    claim = "ncl/rem7"
    yield ends_above(claim, runs, "pred-warm", "warm-0.14", "with a predictor above without")
    yield ends_above(claim, runs, "pred-warm", "pred-random", "warm above random start")


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


def rem9(runs: pd.DataFrame) -> Iterator[Check]:
    """CL above NCL of the same architecture in three metrics at three Pr(sparse). Control for our
    runs: the same encoders before training, for the printed numbers: the losses exchanged."""
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

    def share(last: bool) -> float:
        gaps = [
            rt.means(runs, f"cl-{k}", m, last)["mean"] - rt.means(runs, f"ncl-{k}", m, last)["mean"]
            for k in ("linear", "basic")
            for m in rt.METRICS.values()
        ]
        return float((pd.concat(gaps).dropna() > 0).mean())

    panels = ("cl-linear", "ncl-linear", "cl-basic", "ncl-basic")
    yield Check(
        "ncl/rem9",
        share(True),
        1.0,
        {"untrained, one start for both": share(False)},
        draws=rt.count(runs, *panels),
        part="our runs",
        relation=">=",
        evidence=rt.evidence(runs, *panels),
        note="Share of comparisons. " + other(runs, panels),
    )


def rem10(runs: pd.DataFrame) -> Iterator[Check]:
    """NCL-linear's weights are driven to 0: norm at the end over norm at the start at most 0.1.
    Control: 1, weights that stay.

    On directions (Eq. 4) without bias the gradient is orthogonal to W, and no step of SGD can make
    the norm smaller; outputs that are not normalised shrink under independent masks."""
    for panel, part in (("ncl-linear", "Eq. 4"), ("ncl-linear-plain", "outputs not normalised")):
        start, end = (
            rt.at(runs, panel, last).set_index(["pr", "seed"]).norm for last in (False, True)
        )
        yield Check(
            "ncl/rem10",
            float((end / start).max()),
            0.1,
            {"weights that stay": 1.0},
            draws=rt.count(runs, panel),
            part=part,
            evidence=rt.evidence(runs, panel),
            note="Largest ratio over runs. " + other(runs, (panel,)),
        )


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


def rem12(runs: pd.DataFrame) -> Iterator[Check]:
    """A warmer start ends higher: sigma = 0.002 against 0.14, in print and in our runs."""
    table = rt.printed("ncl/tab4")
    wide = table.pivot(index=["metric", "pr"], columns="sigma", values="paper")
    gap = wide[0.002] - wide[0.14]
    back = [f"{metric} at {pr}" for (metric, pr), g in (wide[0.002] - wide[0.02]).items() if g < 0]
    yield Check(
        "ncl/rem12",
        float(gap.min()),
        0.0,
        {"exchanged": float((-gap).min())},
        draws=9,
        part="printed numbers",
        relation=">=",
        note="From 0.02 to 0.002 there is no gain but for the noise: lower in " + ", ".join(back),
    )
    yield ends_above("ncl/rem12", runs, "warm-0.002", "warm-0.14", "our runs, 0.002 above 0.14")


def rem13(runs: pd.DataFrame) -> Iterator[Check]:
    """Training of NCL-basic from a random start ends at bad points, that are not collapsed; CL's
    does not: shares of runs, against a half ("preponderance"). Controls: M^T for the first, rows
    that are all parallel for the second, untrained encoders for the third."""
    ncl, cl = rt.at(runs, "ncl-basic"), rt.at(runs, "cl-basic")
    untrained = rt.at(runs, "cl-basic", last=False)
    for value, control, part, panel, note in (
        ((ncl.minimum < RECOVERED).mean(), {"W = M^T": 0.0}, "NCL ends at bad points", "ncl-basic",
         f"Minimum max-cosine {rt.listed(rt.means(runs, 'ncl-basic')['mean'])}."),
        (((ncl["rank"] > 2) & (ncl.norm > 0.1)).mean(), {"parallel rows": 0.0}, "not collapsed",
         "ncl-basic", f"Effective rank of W at least {ncl['rank'].min():.1f}."),
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
