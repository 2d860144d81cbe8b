"""Tables 4 and 6 and Figures 13 and 14 of ddn beside our runs (ddn Sec. 7, App. D.1).

Functions of a table of runs (`tree_contrast.run`), recorded or of this build. The tables are at the
paper's protocol with 10 trials a cell and 50 epochs; anything less is `partial`, and so are the
figures, for which the paper gives neither depths nor polarities, and we train for ten epochs only.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import torch
from scipy.stats import binomtest

from .. import ledger, pattern_net, tree_statistics
from .. import random as cr
from ..ledger import Check
from ..tree_contrast import LATENTS, NODES, STEPS_PER_EPOCH

TRIALS, EPOCHS = 10, 50
GROWTH = 1.05  # at least, where the paper says only that a norm goes up
SHARE = 0.9  # of cells; two standard errors leave out about one cell in twenty by chance
CELL = ["latent", "low", "width", "stage"]


def _name(path: str) -> str:
    return f"zs{path}" if path else "z0"


def printed() -> pd.DataFrame:
    """Table 6 as printed: latent, low, width, stage, paper, paper_std; 90 rows."""
    rows = [
        (path, float(low[2:5]), int(width[1:]), stage, *numbers)
        for path in LATENTS
        for low, widths in ledger.claim("ddn/tab6")["numbers"][_name(path)].items()
        for width, stages in widths.items()
        for stage, numbers in stages.items()
    ]
    return pd.DataFrame(rows, columns=[*CELL, "paper", "paper_std"])


def measured(runs: pd.DataFrame) -> pd.DataFrame:
    """One row a run, latent and stage: latent, low, width, stage, seed, nc. Converged: the end."""
    steps = {0: "initial", STEPS_PER_EPOCH: "epoch1", int(runs.step.max()): "converged"}
    names = {f"nc_s{path}": path for path in LATENTS}
    kept = runs[runs.step.isin(steps)].assign(stage=lambda t: t.step.map(steps))
    tall = kept.melt(["low", "width", "stage", "seed"], list(names), "latent", "nc")
    return tall.assign(latent=tall.latent.map(names), low=tall.low.round(3))


def cells(runs: pd.DataFrame) -> pd.DataFrame:
    """Table 6 with our mean, std (n - 1), n and whether a cell agrees by the ledger's rule."""
    ours = measured(runs).groupby(CELL).nc.agg(["mean", "std", "count"]).reset_index()
    table = printed().merge(ours, on=CELL, how="inner")
    return table.assign(agrees=_agree(table, table["mean"].to_numpy(), table["std"].to_numpy()))


def _agree(table: pd.DataFrame, mean: np.ndarray, std: np.ndarray) -> list[bool]:
    columns = (mean, std, table["count"], table.paper, table.paper_std)
    return [
        ledger.agreement(m, s, n, theirs, spread, TRIALS, 0.01)
        for m, s, n, theirs, spread in zip(*columns, strict=True)
    ]


def _exchanged(table: pd.DataFrame, **change: Callable) -> float:
    """Share of printed cells that agree with our results of other cells."""
    other = pd.MultiIndex.from_frame(table[CELL].assign(**change))
    ours = table.set_index(CELL).reindex(other)
    return float(np.mean(_agree(table, ours["mean"].to_numpy(), ours["std"].to_numpy())))


def _other_width(table: pd.DataFrame) -> pd.Series:
    return 12 - table.width


def evidence(runs: pd.DataFrame) -> str:
    """Whether runs are at the paper's own protocol (10 trials a cell, 50 epochs)."""
    trials = runs.groupby(["low", "width"]).seed.nunique().min()
    full = trials >= TRIALS and runs.step.max() >= EPOCHS * STEPS_PER_EPOCH
    return "protocol" if full else "partial"


def _share(
    claim: str, runs: pd.DataFrame, released: pd.DataFrame, keep: str, control: dict[str, Callable]
) -> Check:
    table, other = (cells(t).query(keep).reset_index(drop=True) for t in (runs, released))
    return Check(
        claim,
        float(table.agrees.mean()),
        SHARE,
        {"widths exchanged": _exchanged(table, **control)},
        draws=int(table["count"].sum()),
        part="cells",
        relation=">=",
        evidence=evidence(runs),
        note=f"Share of cells that agree: {table.agrees.sum()} of {len(table)} under the paper's "
        f"loss; {other.agrees.sum()} of {len(other)} under the released one.",
    )


def tab6(runs: pd.DataFrame, released: pd.DataFrame) -> Iterator[Check]:
    """All 90 cells by the agreement rule. Control: our results of the other width."""
    yield _share("ddn/tab6", runs, released, "latent == latent", {"width": _other_width})
    wide = cells(runs).pivot(
        index=["latent", "low", "stage"], columns="width", values=["mean", "std"]
    )
    gain = wide["mean", 10] - wide["mean", 2]
    spread = wide["std", 2] - wide["std", 10]
    worst = float(min(gain.min(), spread.min()))
    yield Check(
        "ddn/tab6",
        worst,
        0.0,
        {"widths exchanged": float(-max(gain.max(), spread.max()))},
        draws=len(wide),
        part="10 against 2 nodes",
        relation=">=",
        evidence=evidence(runs),
        note="Least gain in mean and least loss in std over the 45 rows.",
    )


def tab4(runs: pd.DataFrame, released: pd.DataFrame) -> Iterator[Check]:
    """The root's cells, initial and converged. Control: our results of the other width."""
    keep = "latent == '' and stage != 'epoch1'"
    yield _share("ddn/tab4", runs, released, keep, {"width": _other_width})


def rem11(runs: pd.DataFrame) -> Iterator[Check]:
    """The three trends, on the printed numbers and on our runs. Controls: order reversed, latents
    that say nothing of their leaves, widths exchanged."""
    ours = cells(runs)
    kind = evidence(runs)
    for name, column, source in (("printed numbers", "paper", "exact"), ("our runs", "mean", kind)):
        wide = ours.pivot(index=["low", "width", "stage"], columns="latent", values=column)
        steps = [wide["101"] - wide[""], wide["0111"] - wide["101"]]
        columns = int(((steps[0] > 0) & (steps[1] > 0)).sum())
        yield Check(
            "ddn/rem11",
            float(min(step.mean() for step in steps)),
            0.02,
            {"order reversed": float(-max(step.mean() for step in steps))},
            draws=len(wide),
            part=f"(1), (2) the lower the better, {name}",
            relation=">=",
            evidence=source,
            note="Mean over columns of what NC gains from z_0 to z_s101, and on to z_s0111. "
            f"Both rise in {columns} of {len(wide)} columns.",
        )
        stage = ours.pivot(index=["latent", "low", "width"], columns="stage", values=column)
        gain = (stage["epoch1"] - stage["initial"]).groupby("width").mean()
        yield Check(
            "ddn/rem11",
            float(gain[10] - gain[2]),
            0.02,
            {"widths exchanged": float(gain[2] - gain[10])},
            draws=len(stage),
            part=f"(3) faster in epoch 1 at 10 nodes, {name}",
            relation=">=",
            evidence=source,
            note="Mean over latents and polarities of the gain in epoch 1, 10 nodes minus 2.",
        )
    start = measured(runs).query("stage == 'initial'").groupby(CELL).nc.mean()
    yield Check(
        "ddn/rem11",
        float(start.min()),
        0.1,
        {"polarities zero": _mute()},
        draws=len(measured(runs)),
        part="(2) at initialisation",
        relation=">=",
        evidence=kind,
        note="Least mean NC of a cell before training.",
    )
    yield Check(
        "ddn/rem11",
        abs(1 - _single(1.0)),
        1e-12,
        {"polarity 0.9": abs(1 - _single(0.9))},
        draws=2,
        part="(2) a node that is a leaf",
        note="A node that copies one leaf, against a latent that the leaf copies.",
    )


def _single(rho: float) -> float:
    """Correlation of a latent with a node that copies its left leaf, by the exact law of both."""
    params = {
        "w0": torch.tensor([[[1.0, 0.0]]], dtype=torch.float64),
        "b0": torch.zeros(1, 1, dtype=torch.float64),
    }
    polarity = torch.tensor([rho, 0.5], dtype=torch.float64)
    return float(tree_statistics.correlations(params, polarity))


def _mute() -> float:
    """The best correlation of an untrained net where no latent tells anything of its leaves."""
    params = pattern_net.init(cr.key(0), 5, 10)
    rho = torch.zeros(62, dtype=torch.float64)
    return float(tree_statistics.correlations(params, rho).abs().max())


def _sign_test(gain: pd.Series) -> float:
    return float(binomtest(int((gain > 0).sum()), len(gain), alternative="greater").pvalue)


def rem12(runs: pd.DataFrame, shuffled: pd.DataFrame) -> Iterator[Check]:
    """Sign tests, paired by run: NC grows in training, and is larger with more nodes.

    Controls: training on pairs of views of unrelated objects; widths exchanged.
    """

    def gains(table: pd.DataFrame) -> pd.Series:
        last = table[table.step == table.step.max()].set_index(["low", "width", "seed"])
        first = table[table.step == 0].set_index(["low", "width", "seed"])
        names = [f"nc_s{path}" for path in LATENTS if path != "0111"]
        return (last[names] - first[names]).mean(axis=1)

    gain = gains(runs)
    yield Check(
        "ddn/rem12",
        _sign_test(gain),
        0.01,
        {"views of unrelated objects": _sign_test(gains(shuffled))},
        draws=len(gain),
        part="learning",
        evidence=evidence(runs),
        note="Sign test over runs of the mean gain of z_0, z_s0, z_s1, z_s101.",
    )
    last = measured(runs).query("stage == 'converged'")
    wide = last.groupby(["low", "seed", "width"]).nc.mean().unstack()
    yield Check(
        "ddn/rem12",
        _sign_test(wide[10] - wide[2]),
        0.01,
        {"widths exchanged": _sign_test(wide[2] - wide[10])},
        draws=len(wide),
        part="over-parameterisation",
        evidence=evidence(runs),
        note="Sign test over trees of the mean NC at the end, 10 against 2 nodes a latent.",
    )


OPERATORS = ("own", "cov", "op")
"""Readings of "covariance operator", see `tree_statistics.operator_norms`."""


def operator_summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Medians and quartiles over trials of the operators' norms, one row a configuration, step,
    quantity (own, cov, op, and each _rescaled) and node: the curves of Figs. 13 and 14."""
    keys = ["depth", "low", "width", "step"]
    names = [c for c in runs if c.startswith(OPERATORS)]
    tall = runs.melt([*keys, "seed"], names, "name").dropna(subset="value")
    tall[["quantity", "node"]] = tall.pop("name").str.rsplit("_", n=1, expand=True)
    grouped = tall.assign(low=tall.low.round(3)).groupby([*keys, "quantity", "node"]).value
    table = (
        grouped.quantile([0.25, 0.5, 0.75]).unstack().set_axis(["lower", "median", "upper"], axis=1)
    )
    return table.assign(trials=grouped.count()).reset_index()


def _growth(curves: pd.DataFrame, quantity: str, nodes: tuple[str, ...]) -> pd.DataFrame:
    """Medians over steps, one row a configuration and node (columns: steps). Without the groups
    whose children are leaves where it is the children's covariance, which nothing can change."""
    kept = curves[(curves.quantity == quantity) & curves.node.isin([f"s{path}" for path in nodes])]
    if quantity.startswith("cov"):
        kept = kept[kept.node.str.len() < kept.depth]
    return kept.pivot(index=["depth", "low", "width", "node"], columns="step", values="median")


def _rise(curves: pd.DataFrame, quantity: str, nodes: tuple[str, ...]) -> float:
    """Least ratio over configurations and nodes of the median at the end to that at the start; of
    its height to the start for "op"."""
    rows = _growth(curves, quantity, nodes)
    last = rows.max(axis=1) if quantity == "op" else rows.iloc[:, -1]
    return float((last / rows.iloc[:, 0]).min())


def _figure(
    claim: str, nodes: tuple[str, ...], curves: pd.DataFrame, shuffled: pd.DataFrame
) -> Iterator[Check]:
    unrelated = operator_summary(shuffled)
    for quantity, part in (
        ("own", "the group's activations"),
        ("own_rescaled", "the group's activations, weights rescaled"),
        ("cov", "its children's activations"),
        ("op", "with the Jacobian, at its height"),
    ):
        rows = _growth(curves, quantity, nodes)
        note = f"Least over {len(rows)} configurations and nodes of end over start (medians)."
        if quantity == "op":
            lasting = int((rows.iloc[:, -1] > rows.iloc[:, 0]).sum())
            note = (
                f"Height over start; at the end still above it in {lasting} of {len(rows)} cases."
            )
        yield Check(
            claim,
            _rise(curves, quantity, nodes),
            GROWTH,
            {"views of unrelated objects": _rise(unrelated, quantity, nodes)},
            draws=int(curves.trials.max()) * len(rows),
            part=part,
            relation=">=",
            evidence="partial",
            note=note,
        )


def beside(
    runs: pd.DataFrame, released: pd.DataFrame, shuffled: pd.DataFrame
) -> list[Callable[[int, int], Iterator[Check]]]:
    """The checks of both tables and of what is said about them, as `Ledger.run` takes them.

    runs: under the paper's loss; released: under the released one; shuffled: on unrelated views.
    """
    return [
        lambda draws, seed: tab6(runs, released),
        lambda draws, seed: tab4(runs, released),
        lambda draws, seed: rem11(runs),
        lambda draws, seed: rem12(runs, shuffled),
    ]


def figures(
    curves: pd.DataFrame, shuffled: pd.DataFrame
) -> list[Callable[[int, int], Iterator[Check]]]:
    """The checks of Figs. 13 and 14, as `Ledger.run` takes them.

    curves: `operator_summary` of runs; shuffled: runs on unrelated views.
    """

    def fig13(draws: int, seed: int) -> Iterator[Check]:
        return _figure("ddn/fig13", NODES[:2], curves, shuffled)

    def fig14(draws: int, seed: int) -> Iterator[Check]:
        return _figure("ddn/fig14", NODES[2:], curves, shuffled)

    return [fig13, fig14]
