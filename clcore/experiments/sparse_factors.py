"""Which of predictor, BatchNorm, start and normalisation decides what ncl's nets learn: all of them
crossed, ours; the paper varies one at a time."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from clcore.experiments import sparse_training as st
from clcore.experiments.sparse_panels import CHUNK
from clcore.grid import Grid
from clcore.sweep.configs import Config
from clcore.theory.sparse.sparse_coding import warm_std

DECIDING = {"non-contrastive": (False, True), "contrastive": (False,)}
"""Losses, and whether with a predictor: Eq. 5 has one, Eq. 8 has none."""


def factors(
    loss: str, seeds: Sequence[int], noise: str | float = "none", **changes: Any
) -> list[Config]:
    """Every combination of predictor, BatchNorm, start (random, c = 1) and normalisation for a loss
    of DECIDING, at Pr(sparse) = 0.1: 24 for "non-contrastive", 12 for "contrastive", times seeds.
    """
    if loss not in DECIDING:
        raise ValueError(f"loss: expected one of {', '.join(DECIDING)}, got {loss!r}")
    names = {(kind["bn"], kind["head"]): name for name, kind in st.MODELS.items()
             if kind["loss"] == loss and kind["relu"] and kind["layers"] == 1}  # fmt: skip
    return [
        st.configuration(
            seed, names[bn, head], warm=warm, normalise=normalise, noise=noise, **changes
        )
        for head in DECIDING[loss]
        for bn in (False, True)
        for warm in (None, warm_std(changes.get("p", st.P), 1))
        for normalise in ("none", "rows", "columns")
        for seed in seeds
    ]


def decide(
    seeds: Sequence[int],
    epochs: int = st.EPOCHS,
    record: Sequence[int] = (2000,),
    noise: str | float = "none",
    grid: Grid | None = None,
    **changes: Any,
) -> pd.DataFrame:
    """Train all `factors`: one row per run and recorded epoch, with Minimum max-cosine `before`
    training and then.

    Ours: ncl varies one factor at a time. record: epochs besides the last. grid: who trains, and
    where results are kept; None trains here and keeps nothing.
    """
    requests = [
        st.request(factors(loss, seeds, noise, **changes), epochs, record, CHUNK[loss])
        for loss in DECIDING
    ]
    tables = []
    for result in (grid or Grid(progress=False)).gather(requests):
        found = result.table
        first = found[found.epoch == 0].set_index("run").minimum
        later = found[found.epoch > 0].set_index("run")
        tables.append(later.assign(before=first, warm=later.warm > 0))
    columns = {"loss_kind": "loss", "head": "predictor", "bn": "batchnorm", "warm": "warm"}
    columns |= {n: n for n in ("normalise", "sigma", "seed", "epoch", "before", "minimum")}
    columns |= {n: n for n in ("median", "maximum", "rank", "norm", "diverged")}
    table = pd.concat(t[list(columns)] for t in tables)
    return table.rename(columns=columns).reset_index(drop=True)
