"""ncl's remarks on what training finds, against our runs (Sec. 2.2, 5.2.2, App. A.2.1, B.1.4)."""

from functools import partial

import numpy as np
import pandas as pd

from clcore import ledger
from clcore.checks.sparse_runs.figures import Runs, ends_above, moves, on_runs, stays_low
from clcore.experiments import sparse_tables as rt
from clcore.experiments.sparse_tables import RECOVERED
from clcore.ledger import Trial, check

CONTRASTIVE = {"simclr": "Simplified-SimCLR", "cl-basic": "CL-basic", "cl-linear": "CL-linear"}
"""The contrastive models, and what the paper calls them."""


def _lowest_printed(model: str) -> float:
    """The least Minimum max-cosine of a model in Tables 1 and 2."""
    tables = [rt.printed(f"ncl/{t}") for t in ("tab1", "tab2")]
    table = pd.concat(tables).query("model == @model and metric == 'minimum'")
    return float(table.paper.min())


@check("ncl/rem5", on="runs")
def rem5(t: Trial, runs: Runs) -> None:
    """Contrastive training recovers the latents, robustly across settings (Sec. 2.2).

    Protocol   SimCLR, CL-basic and CL-linear from random starts.
    Question   Do they end as high as the lowest value that ncl prints for the model and calls
               recovery, minus the 0.05 that its own spread allows?
    Refuted    by a lower end. Control: before training.
    """
    # Not every reading has all of them, and a check ends where runs do: what there is comes first.
    for panel in sorted(CONTRASTIVE, key=lambda panel: not rt.has(runs, panel)):
        model = CONTRASTIVE[panel]
        found, start = (rt.means(runs, panel, last=last)["mean"] for last in (True, False))
        measured, bound = (found.min(), {"untrained": start.max()}), _lowest_printed(model) - 0.05
        part = on_runs(t, runs, (panel,), model, bound, ">=", measured, words="recovery")
        others = rt.other(runs, (panel + "-masked", panel + "-drop"))
        part.says(found=rt.listed(found), others=others)


@check("ncl/rem1", on="runs")
def rem1(t: Trial, runs: Runs) -> None:
    """Contrastive training learns a good representation without a warm start (Remark 1).

    Protocol   CL-basic from a random start; Wen and Li's process is another, hence partial.
    Question   Does the Minimum max-cosine end above its start, by a paired test?
    Refuted    by a p-value above 0.05. Control: start and end exchanged in every other run.
    """
    moves(t, runs, "cl-basic", "CL-basic rises from a random start", evidence="partial")


@check("ncl/rem6", on="runs")
def rem6(t: Trial, runs: Runs) -> None:
    """Non-contrastive training needs a predictor or a normalised warm start (Sec. 2.2).

    Protocol   NCL with and without predictor, random and warm starts, normalised rows and columns.
               Sec. 2.2 leaves the start of the second to Sec. 5.2.2, which has it warm, and the
               sizes of the third open.
    Question   Without predictor, does it end below 0.75? With one, above? With normalised weights
               from a warm start, does it rise (paired)?
    Refuted    by one panel that does not. Controls: starts with c = 2, untrained; untrained
               encoders, start and end exchanged in every other run.
    """
    stays_low(t, runs, "ncl-basic", "no predictor, random start: ends low")
    stays_low(t, runs, "warm-0.14", "no predictor, warm start: ends low")
    for panel, setting in (("pred-warm", ""), ("pred-random", "a random start")):
        found, start = (rt.means(runs, panel, last=last)["mean"] for last in (True, False))
        random = rt.means(runs, "pred-random", last=False)["mean"]
        measured, name = (found.min(), {"untrained, random": random.max()}), "ends near the truth"
        part = on_runs(
            t, runs, (panel,), f"predictor: {name}", RECOVERED, ">=", measured, setting=setting
        )
        part.says(start=rt.listed(start), end=rt.listed(found))
    for panel, sizes, free, setting in (
        ("warm-rows", "fig13", "fig13-free", "m = 10, as in Fig. 13"),
        # Fig. 15 has the sizes and the start of Fig. 14
        ("warm-columns", "fig15", "fig14-free", "p = d = m = 20, c = 1.25, as in Fig. 15"),
    ):
        name = f"no predictor, warm start, normalised {panel[5:]}: rises"
        moves(t, runs, panel, name)
        if rt.has(runs, sizes):
            moves(t, runs, sizes, name, others=rt.other(runs, (free,)), setting=setting)


@check("ncl/rem7", on="runs")
def rem7(t: Trial, runs: Runs) -> None:
    """A predictor is essential, but not enough without a warm start (Sec. 5.2.2).

    Protocol   NCL from a warm start with and without predictor, from a random one with it.
    Question   Does the predictor end above none, and the warm start above the random one (Welch)?
    Refuted    by a p-value above 0.05. Control: every other run exchanged.
    """
    # Warm starts with c = 1: noise of 0.14 on the weights.
    ends_above(t, runs, "pred-warm", "warm-0.14", "with a predictor above without")
    ends_above(t, runs, "pred-warm", "pred-random", "warm above random start")


@check("ncl/rem8", on="runs")
def rem8(t: Trial, runs: Runs) -> None:
    """Simplified-SimCLR recovers the support, Simplified-SimSiam does not (Sec. 5.2.2).

    Protocol   Simplified SimCLR and SimSiam; Table 1 as printed.
    Question   Are the printed gaps in Minimum max-cosine those stated, and does SimCLR end above
               SimSiam (Welch)?
    Refuted    by other gaps, a p-value above 0.05. Controls: another order of Pr(sparse), every
               other run exchanged.
    """
    table = rt.printed("ncl/tab1").query("metric == 'minimum'")
    wide = table.pivot(index="pr", columns="model", values="paper")
    gaps = (wide["Simplified-SimCLR"] - wide["Simplified-SimSiam"]).to_numpy()
    stated = list(ledger.claim(t.claim)["numbers"]["derived_min_gaps"].values())
    part = t.part("printed gaps", 1e-9, sort="sampled").add(np.abs(gaps - stated))
    part.says(gaps=rt.listed(gaps))
    part.breaks("another order of Pr(sparse)", np.abs(gaps[::-1] - stated).max())
    ends_above(t, runs, "simclr", "simsiam", "SimCLR ends above SimSiam")


@check("ncl/rem9", on="runs")
def rem9(t: Trial, runs: Runs) -> None:
    """High max-cosines for contrastive encoders, low for non-contrastive ones (App. A.2.1).

    Protocol   linear and basic models, three metrics at three Pr(sparse); Table 2 as printed.
    Question   Is CL above NCL of the same architecture in all of them?
    Refuted    by one that is not. Controls: the losses exchanged, in our runs in every other one.
    """
    table = rt.printed("ncl/tab2")
    wide = table.pivot(index=["metric", "pr"], columns="model", values="paper")
    gaps = [wide[f"CL-{k}"] - wide[f"NCL-{k}"] for k in ("linear", "basic")]
    part = t.part("printed numbers", 1.0, ">=", draws=18, sort="sampled")
    part.add(np.mean([g > 0 for g in gaps]))
    part.breaks("losses exchanged", np.mean([g < 0 for g in gaps]))
    found = [
        rt.leads(runs, f"cl-{k}", f"ncl-{k}", m)
        for k in ("linear", "basic")
        for m in rt.METRICS.values()
    ]
    ours, mixed = (np.concatenate(each) for each in zip(*found, strict=True))
    panels = ("cl-linear", "ncl-linear", "cl-basic", "ncl-basic")
    measured = (ours > 0).mean(), {"every other run exchanged": (mixed > 0).mean()}
    part = on_runs(t, runs, panels, "our runs", 1.0, ">=", measured)
    part.says(others=rt.other(runs, panels))


@check("ncl/rem10", on="runs")
def rem10(t: Trial, runs: Runs) -> None:
    """Weights of the linear non-contrastive encoder collapse to zero (App. A.2.1).

    Protocol   NCL-linear; the text calls its loss Eq. 6, outputs as they are. We train by their
               squared distance. Sec. 4.2 has unit outputs in all experiments, Eq. 4; both are open.
    Question   Is the norm of W at the end at most 0.1 of that at the start?
    Refuted    by a run in which it is more. Control: start and end exchanged.

    On directions (Eq. 4) without bias the gradient is orthogonal to W, and no step of SGD can make
    the norm smaller; by the squared distance of outputs as they are weights shrink under
    independent masks. Eq. 6 to the letter, 2 - 2 E<u, v>, falls without end as W grows.
    """
    for panel, setting in (("ncl-linear-plain", ""), ("ncl-linear", "unit outputs, Eq. 4")):
        start, end = (
            rt.at(runs, panel, last).set_index(["pr", "seed"]).norm for last in (False, True)
        )
        measured = (end / start).max(), {"start and end exchanged": (start / end).max()}
        part = on_runs(
            t, runs, (panel,), "the norm of W vanishes", 0.1, "<=", measured, setting=setting
        )
        part.says(others=rt.other(runs, (panel,)))


@check("ncl/rem11", on="runs")
def rem11(t: Trial, runs: Runs) -> None:
    """Two-layer non-contrastive encoder stays below the one-layer contrastive one (App. A.2.1).

    Protocol   NCL-basic-2L and CL-basic; Table 2 as printed.
    Question   Is CL-basic above, by 0.02 in print and by Welch's test in our runs?
    Refuted    by a smaller gap, a p-value above 0.05. Controls: models exchanged, every other run
               exchanged.
    """
    numbers = ledger.claim(t.claim)["numbers"]
    gap = np.subtract(numbers["min_CL_basic"], numbers["min_NCL_basic_2L"])
    part = t.part("printed numbers", 0.02, ">=", sort="sampled").add(gap)
    part.says(gaps=rt.listed(gap))
    part.breaks("models exchanged", (-gap).min())
    ends_above(t, runs, "cl-basic", "ncl-basic-2l", "our runs")


def _read_off(low: float, high: float) -> list[float]:
    """The gaps of Table 4's cells between two levels, metric by metric, read off once more."""
    found: dict[float, list[float]] = {low: [], high: []}
    for metric in ("max", "median", "min"):
        for pr in (0.1, 0.2, 0.3):
            for row in ledger.claim("ncl/tab4")["numbers"]["rows"]:
                if row["pr_sparse"] == pr and row["sigma"] in found:
                    found[row["sigma"]].append(row[metric]["mean"])
    return [above - below for below, above in zip(found[low], found[high], strict=True)]


WARM, WARMER = 0.14, (0.02, 0.002)
"""The levels of Table 4, a standard deviation of the noise on the weights."""
AS_PRINTED = "the means of the runs, as the table prints them, without a test"
STEP = "the last step alone, 0.002 above 0.02, by the same test"


@check("ncl/rem12", on="runs")
def rem12(t: Trial, runs: Runs) -> None:
    """A warmer start helps at every sparsity (App. B.1.4).

    Protocol   warm starts at sigma = 0.14, 0.02, 0.002, twenty runs of each, where the table has
               five; Table 4 as printed.
    Question   Does either warmer start end above 0.14, in print and by the means in all three
               metrics, in the Minimum by a test at each Pr(sparse)?
    Refuted    by a level that does not. Controls: the levels exchanged, every other run exchanged.

    Open is what helping means: the test, or the means that the table has; and whether each step
    must help.
    """
    # In print: either warmer start above the coldest; the note has the steps that go back.
    table = rt.printed("ncl/tab4")
    pivot = partial(table.pivot, index=["metric", "pr"], columns="sigma")
    wide, std = pivot(values="paper"), pivot(values="paper_std")
    gaps = [wide[level] - wide[WARM] for level in WARMER]
    part = t.part("printed numbers", 1e-9, ">=", sort="sampled").add(*gaps)
    part.fails_by(*(_read_off(WARM, level) for level in WARMER))
    part.breaks("exchanged", min((-gap).min() for gap in gaps))
    step = wide[WARMER[1]] - wide[WARMER[0]]
    n = ledger.claim("ncl/tab4")["numbers"]["n"]
    errors = step / ((std[WARMER[0]] ** 2 + std[WARMER[1]] ** 2) / n) ** 0.5
    back = [
        f"{metric} at {pr} by {-step[metric, pr]:.2f}, {-errors[metric, pr]:.1f} standard errors"
        for metric, pr in step.index[step < 0]
    ]
    part.says(gaps=sum(map(len, gaps)), cells=len(step), back="; ".join(back))

    # Our runs, each level above the coldest: by a test, and by the means of all three metrics.
    runs = rt.settled(runs, *(f"warm-{level}" for level in (WARM, *WARMER)))
    for level in WARMER:
        pair, name = (f"warm-{level}", f"warm-{WARM}"), f"our runs, {level} above {WARM}"
        ends_above(t, runs, *pair, name, words="our runs: order")
        found = [rt.leads(runs, *pair, metric) for metric in rt.METRICS.values()]
        ours, mixed = (np.concatenate(each) for each in zip(*found, strict=True))
        measured = ours.min(), {"every other run exchanged": mixed.min()}
        more = {"setting": AS_PRINTED, "words": "our runs: order"}
        means = on_runs(t, runs, pair, name, 1e-9, ">=", measured, **more)
        means.says(gaps=len(ours), most=ours.max())

    # The step from the middle level to the warmest, a setting of the warmest's part.
    pair, name = (f"warm-{WARMER[1]}", f"warm-{WARMER[0]}"), f"our runs, {WARMER[1]} above {WARM}"
    ends_above(t, runs, *pair, name, setting=STEP, words="our runs: order")


@check("ncl/rem13", on="runs")
def rem13(t: Trial, runs: Runs) -> None:
    """Training does not avoid the bad minima of non-contrastive losses (Abstract; Sec. 5; Sec. 6).

    Protocol   NCL-basic and CL-basic from random starts; shares of runs, against a half
               ("preponderance").
    Question   Does NCL end at bad points that are not collapsed, and does CL recover?
    Refuted    by less than half of the runs. Controls: starts with c = 2, untrained; parallel rows,
               untrained encoders.
    """

    def recovered(rows: pd.DataFrame) -> float:
        return (rows.minimum >= RECOVERED).mean()

    def bad(rows: pd.DataFrame) -> float:
        return (rows.minimum < RECOVERED).mean()

    def wide(rows: pd.DataFrame) -> float:
        return ((rows["rank"] > 2) & (rows.norm > 0.1)).mean()

    ncl, cl = rt.at(runs, "ncl-basic"), rt.at(runs, "cl-basic")

    # Most runs of NCL end far from the truth, and are not collapsed.
    measured = bad(ncl), {"starts with c = 2, untrained": bad(rt.planted("warm"))}
    part = on_runs(t, runs, ("ncl-basic",), "NCL ends at bad points", 0.5, ">=", measured)
    part.says(found=rt.listed(rt.means(runs, "ncl-basic")["mean"]))
    measured = wide(ncl), {"parallel rows": wide(rt.planted("parallel"))}
    part = on_runs(t, runs, ("ncl-basic",), "not collapsed", 0.5, ">=", measured)
    part.says(rank=ncl["rank"].min())

    # Most runs of CL end at it.
    untrained = rt.at(runs, "cl-basic", last=False)
    measured = recovered(cl), {"untrained": recovered(untrained)}
    part = on_runs(t, runs, ("cl-basic",), "CL recovers", 0.5, ">=", measured)
    part.says(others=rt.other(runs, ("cl-basic", "cl-basic-masked")))


REMARKS = (rem1, rem5, rem6, rem7, rem8, rem9, rem10, rem11, rem12, rem13)
