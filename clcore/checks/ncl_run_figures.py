"""Figures 1-18 of ncl beside our runs: who ends above whom, what rises (ncl Sec. 5.2.2, App. A, B).

The figures are curves without printed values; what is tested is what their captions and the text
say of them, at the last epoch, by one-sided t-tests, the worst over Pr(sparse).
"""

from collections.abc import Iterator

import pandas as pd

from ..ledger import Check
from . import ncl_run_tables as rt
from .ncl_run_tables import RECOVERED, SIGNIFICANT


def ends_above(
    claim: str, runs: pd.DataFrame, high: str, low: str, part: str, note: str = ""
) -> Check:
    worst, control = rt.ahead(runs, high, low)
    ours = [rt.listed(rt.means(runs, p)["mean"]) for p in (high, low)]
    return Check(
        claim,
        worst,
        SIGNIFICANT,
        control,
        draws=rt.count(runs, high, low),
        part=part,
        evidence=rt.evidence(runs, high, low),
        note=f"p-value, Welch; Minimum max-cosine {ours[0]} against {ours[1]}. {note}".strip(),
    )


def moves(
    claim: str, runs: pd.DataFrame, panel: str, part: str, sign: int = 1, note: str = ""
) -> Check:
    worst, control = rt.rises(runs, panel, sign)
    ends = [rt.listed(rt.means(runs, panel, last=last)["mean"]) for last in (False, True)]
    path = runs[runs.panel == panel].groupby("epoch").minimum.mean()
    between = f"lowest {path.min():.2f} at epoch {path.idxmin():g}" if sign < 0 else ""
    note = f"{between} {note}".strip()
    return Check(
        claim,
        worst,
        SIGNIFICANT,
        control,
        draws=rt.count(runs, panel),
        part=part,
        evidence=rt.evidence(runs, panel),
        note=f"p-value, paired; Minimum max-cosine from {ends[0]} to {ends[1]}. {note}".strip(),
    )


def stays_low(
    claim: str, runs: pd.DataFrame, panel: str, part: str, bound: float = RECOVERED
) -> Check:
    found = rt.means(runs, panel)["mean"]
    return Check(
        claim,
        float(found.max()),
        bound,
        {"warm starts with c = 2": float(rt.planted("warm").minimum.mean())},
        draws=rt.count(runs, panel),
        part=part,
        evidence=rt.evidence(runs, panel),
        note=f"Largest mean Minimum max-cosine over Pr(sparse): {rt.listed(found)}.",
    )


def other(runs: pd.DataFrame, panels: tuple[str, ...]) -> str:
    """Where other readings of a caption began and ended, for a note."""
    found = [
        f"{p}: {rt.listed(rt.means(runs, p, last=False)['mean'])} to "
        f"{rt.listed(rt.means(runs, p)['mean'])}"
        for p in panels
        if rt.has(runs, p)
    ]
    return "; ".join(found)


def fig1(runs: pd.DataFrame) -> Iterator[Check]:
    """CL above NCL on one-hot latents, by 0.2 (low and high in the text); NCL's loss falls."""
    claim, pair = "ncl/fig1", ("one-hot-cl", "one-hot-ncl")
    yield ends_above(claim, runs, *pair, "CL ends above NCL")
    gap, mixed = rt.leads(runs, *pair)
    yield Check(
        claim,
        float(gap.min()),
        0.2,
        {"every other run exchanged": float(mixed.min())},
        draws=rt.count(runs, *pair),
        part="by 0.2",
        relation=">=",
        evidence=rt.evidence(runs, *pair),
    )
    worst, control = rt.rises(runs, "one-hot-ncl", -1, "loss")
    yield Check(
        claim,
        worst,
        SIGNIFICANT,
        control,
        draws=rt.count(runs, "one-hot-ncl"),
        part="NCL's loss falls",
        evidence=rt.evidence(runs, "one-hot-ncl"),
        note="p-value, paired.",
    )


def fig2(runs: pd.DataFrame) -> Iterator[Check]:
    """CL above NCL at every Pr(sparse), with BatchNorm; CL's is high."""
    readings = other(runs, ("cl-basic-masked", "ncl-basic-masked"))
    yield ends_above("ncl/fig2", runs, "cl-basic", "ncl-basic", "CL ends above NCL", readings)
    yield stays_low("ncl/fig2", runs, "ncl-basic", "NCL ends low")


def _deeper(claim: str, runs: pd.DataFrame) -> Iterator[Check]:
    yield ends_above(claim, runs, "cl-basic", "ncl-basic-2l", "two layers end below CL-basic")
    yield stays_low(claim, runs, "ncl-basic-2l", "two layers end low", 0.8)


def fig3(runs: pd.DataFrame) -> Iterator[Check]:
    """A two-layer encoder does not help. Eq. 11 on its first layer."""
    yield from _deeper("ncl/fig3", runs)


def fig10(runs: pd.DataFrame) -> Iterator[Check]:
    """As Fig. 3."""
    yield from _deeper("ncl/fig10", runs)


def fig4(runs: pd.DataFrame) -> Iterator[Check]:
    """Without predictor the Minimum max-cosine falls from a warm start."""
    yield moves("ncl/fig4", runs, "warm-0.14", "it falls from a warm start", -1)


def fig11(runs: pd.DataFrame) -> Iterator[Check]:
    """As Fig. 4."""
    yield moves("ncl/fig11", runs, "warm-0.14", "it falls from a warm start", -1)


def fig5(runs: pd.DataFrame) -> Iterator[Check]:
    """With a linear predictor it rises from a warm start."""
    yield moves("ncl/fig5", runs, "pred-warm", "it rises from a warm start")


def fig12(runs: pd.DataFrame) -> Iterator[Check]:
    """As Fig. 5."""
    yield moves("ncl/fig12", runs, "pred-warm", "it rises from a warm start")


def fig6(runs: pd.DataFrame) -> Iterator[Check]:
    """With a predictor but from a random start it stays low."""
    yield ends_above("ncl/fig6", runs, "pred-warm", "pred-random", "ends below the warm start")
    yield stays_low("ncl/fig6", runs, "pred-random", "ends low")


def fig7(runs: pd.DataFrame) -> Iterator[Check]:
    """Warm start and normalised rows: it rises without a predictor."""
    readings = other(runs, ("fig7-drop", "fig7-srelu"))
    yield moves("ncl/fig7", runs, "fig7", "it rises without a predictor", 1, readings)


def _square(claim: str, runs: pd.DataFrame, note: str = "") -> Iterator[Check]:
    yield ends_above(claim, runs, "srelu-cl-10", "srelu-ncl-10", "CL ends above NCL, m = 10", note)


def fig8(runs: pd.DataFrame) -> Iterator[Check]:
    """CL above NCL without BatchNorm; sizes as printed. Note: m = 50 (its title)."""
    yield from _square("ncl/fig8", runs, other(runs, ("srelu-cl-50", "srelu-ncl-50")))


def fig9(runs: pd.DataFrame) -> Iterator[Check]:
    """As Fig. 8."""
    yield from _square("ncl/fig9", runs)


def _normalised(name: str, runs: pd.DataFrame) -> Iterator[Check]:
    free = {"fig15": "fig14"}.get(name, name)
    readings = other(runs, (f"{name}-srelu", f"{name}-pred", f"{free}-free"))
    yield moves(f"ncl/{name}", runs, name, "it rises without a predictor", 1, readings)


def fig13(runs: pd.DataFrame) -> Iterator[Check]:
    """Normalised rows, m = 10."""
    yield from _normalised("fig13", runs)


def fig14(runs: pd.DataFrame) -> Iterator[Check]:
    """Normalised rows, p = d = m = 20."""
    yield from _normalised("fig14", runs)


def fig15(runs: pd.DataFrame) -> Iterator[Check]:
    """Normalised columns, p = d = m = 20."""
    yield from _normalised("fig15", runs)


def fig16(runs: pd.DataFrame) -> Iterator[Check]:
    """Normalised columns from c = 2, where the start is at 0.99 already: that it works can only
    mean that it ends at 0.8 or more, and no more than 0.02 below the start."""
    found, start = (rt.means(runs, "fig16", last=last)["mean"] for last in (True, False))
    random = rt.means(runs, "pred-random", last=False)["mean"]
    note = f"From {rt.listed(start)} to {rt.listed(found)}."
    for part, value, bound, control, more in (
        ("it ends high", found.min(), 0.8, random.max(), ("fig16-srelu", "fig16-drop")),
        ("it does not fall", (found - start).min(), -0.02, (random - start).min(), ()),
    ):
        yield Check(
            "ncl/fig16",
            float(value),
            bound,
            {"random encoders at the end": float(control)},
            draws=rt.count(runs, "fig16"),
            part=part,
            relation=">=",
            evidence=rt.evidence(runs, "fig16"),
            note=f"{note} {other(runs, more)}".strip(),
        )


def fig17(runs: pd.DataFrame) -> Iterator[Check]:
    """Simplified SimCLR learns good representations at low sparsity, Pr(sparse) = 0.1 and 0.2."""
    found, start = (
        rt.means(runs, "simclr", last=last)["mean"].reindex([0.1, 0.2]) for last in (True, False)
    )
    yield Check(
        "ncl/fig17",
        float(found.min()),
        0.8,
        {"untrained": float(start.max())},
        draws=rt.count(runs, "simclr"),
        part="it ends high",
        relation=">=",
        evidence=rt.evidence(runs, "simclr"),
        note=f"{rt.listed(rt.means(runs, 'simclr')['mean'])} at Pr(sparse) = 0.1, 0.2, 0.3. "
        + other(runs, ("simclr-drop",)),
    )


def fig18(runs: pd.DataFrame) -> Iterator[Check]:
    """Simplified SimSiam fails."""
    yield stays_low("ncl/fig18", runs, "simsiam", "it ends low", 0.6)


FIGURES = (
    *(fig1, fig2, fig3, fig4, fig5, fig6, fig7, fig8, fig9, fig10, fig11, fig12, fig13, fig14),
    *(fig15, fig16, fig17, fig18),
)
