"""Tables 4 and 6 and Figures 13 and 14 of ddn beside our runs (ddn Sec. 7, App. D.1).

Functions of a table of runs (`tree_contrast.run`), recorded or of this build. A run is at the
paper's protocol with 10 trials a cell and 50 epochs; anything less is `partial`.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from .. import ledger
from ..ledger import Check
from ..tree_contrast import LATENTS, STEPS_PER_EPOCH

TRIALS, EPOCHS = 10, 50
SHARE = 0.9  # of cells; two standard errors leave out about one cell in twenty by chance
STAGES = ("initial", "epoch1", "converged")


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
    return pd.DataFrame(rows, columns=["latent", "low", "width", "stage", "paper", "paper_std"])


def measured(runs: pd.DataFrame) -> pd.DataFrame:
    """One row a run, latent and stage: latent, low, width, stage, seed, nc. Converged: the end."""
    steps = {0: "initial", STEPS_PER_EPOCH: "epoch1", int(runs.step.max()): "converged"}
    names = {f"nc_s{path}": path for path in LATENTS}
    kept = runs[runs.step.isin(steps)].assign(stage=lambda t: t.step.map(steps))
    tall = kept.melt(["low", "width", "stage", "seed"], list(names), "latent", "nc")
    return tall.assign(latent=tall.latent.map(names), low=tall.low.round(3))


def cells(runs: pd.DataFrame) -> pd.DataFrame:
    """Table 6 with our mean, std (n - 1), n and whether a cell agrees by the ledger's rule."""
    keys = ["latent", "low", "width", "stage"]
    ours = measured(runs).groupby(keys).nc.agg(["mean", "std", "count"]).reset_index()
    table = printed().merge(ours, on=keys, how="inner")
    return table.assign(agrees=_agree(table, table["mean"], table["std"]))


def _agree(table: pd.DataFrame, mean: pd.Series, std: pd.Series) -> list[bool]:
    columns = (mean, std, table["count"], table.paper, table.paper_std)
    return [
        ledger.agreement(m, s, n, p, q, TRIALS, 0.01)
        for m, s, n, p, q in zip(*columns, strict=True)
    ]


def _broken(table: pd.DataFrame) -> dict[str, float]:
    """Shares of cells that agree after what ought to spoil them."""
    keys = ["latent", "low", "width", "stage"]
    wide = table.set_index(keys)

    def other(change: Callable) -> float:
        index = pd.MultiIndex.from_frame(change(table[keys].copy()))
        found = wide.reindex(index)
        return float(np.mean(_agree(table, found["mean"].array, found["std"].array)))

    return {
        "widths exchanged": other(lambda t: t.assign(width=12 - t.width)),
        "polarities exchanged": other(lambda t: t.assign(low=(1.6 - t.low).round(3))),
        "never trained": other(lambda t: t.assign(stage="initial")),
    }


def _evidence(runs: pd.DataFrame) -> str:
    trials = runs.groupby(["low", "width"]).seed.nunique().min()
    full = trials >= TRIALS and runs.step.max() >= EPOCHS * STEPS_PER_EPOCH
    return "protocol" if full else "partial"


def _shares(claim: str, runs: pd.DataFrame, other: pd.DataFrame, keep: Callable) -> Iterator[Check]:
    table, second = (cells(t).query("count > 1").pipe(keep) for t in (runs, other))
    share, released = table.agrees.mean(), second.agrees.mean()
    yield Check(
        claim,
        float(share),
        SHARE,
        _broken(table)
        if claim == "ddn/tab6"
        else {"widths exchanged": _broken(table)["widths exchanged"]},
        draws=int(table["count"].sum()),
        part="cells",
        relation=">=",
        evidence=_evidence(runs),
        note=f"Share of cells that agree: {table.agrees.sum()} of {len(table)} with the paper's loss, "
        f"{second.agrees.sum()} of {len(second)} with the released one ({released:.0%}).",
    )


def tab6(runs: pd.DataFrame, released: pd.DataFrame) -> Iterator[Check]:
    """All cells by the agreement rule. Controls: exchanged cells, untrained nets."""
    yield from _shares("ddn/tab6", runs, released, lambda t: t)


def tab4(runs: pd.DataFrame, released: pd.DataFrame) -> Iterator[Check]:
    """The cells of the root, initial and converged; control: widths exchanged."""
    keep = "latent == '' and stage != 'epoch1'"
    yield from _shares("ddn/tab4", runs, released, lambda t: t.query(keep).reset_index(drop=True))
