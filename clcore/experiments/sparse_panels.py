"""Train the panels of `sparse_settings`, and what that costs."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from clcore.experiments import sparse_training as st
from clcore.experiments.sparse_settings import FAINT as FAINT
from clcore.experiments.sparse_settings import FEW as FEW
from clcore.experiments.sparse_settings import FIGURES as FIGURES
from clcore.experiments.sparse_settings import MANY as MANY
from clcore.experiments.sparse_settings import MORE as MORE
from clcore.experiments.sparse_settings import NO_TEMPERATURE, PANELS
from clcore.experiments.sparse_settings import PACE as PACE
from clcore.experiments.sparse_settings import PRS as PRS
from clcore.experiments.sparse_settings import SIGMAS as SIGMAS
from clcore.grid import Grid
from clcore.sweep.configs import Config
from clcore.theory.sparse.sparse_coding import fixed_counts

_LANDSCAPE = ("cl-", "ncl-", "one-hot-", "srelu-")
"""Panels of data/recorded/6-landscape (Table 2, Figs. 1, 2, 8-10), which 6-training trains; all
others are in data/recorded/6-dynamics, and 6-warm-starts trains them."""

RECORDED = ("panel", "pr", "seed", "epoch", "loss", "minimum", "median", "maximum", "norm", "rank")
RECORDED = (*RECORDED, "diverged")
"""Columns that are kept of full-size runs: the others follow from the panel."""

COLUMNS = (
    *("panel", "seed", "model", "protocol", "pr", "keep", "warm", "normalise", "mask", "latent"),
    *("sigma", "unit", "m", "p", "d", "n", "lr", "epoch", "loss", "minimum", "median", "maximum"),
    *("product_minimum", "product_median", "product_maximum", "norm", "rank", "diverged"),
)


def of_record(folder: str) -> list[str]:
    """The panels whose runs are recorded in a folder of data/recorded/, "6-landscape" or
    "6-dynamics". Errors: another folder."""
    if folder not in ("6-landscape", "6-dynamics"):
        raise ValueError(f"folder: expected 6-landscape or 6-dynamics, got {folder!r}")
    first = folder == "6-landscape"
    return [name for name in PANELS if name.startswith(_LANDSCAPE) == first]


def _panel(name: str) -> dict:
    if name not in PANELS:
        raise ValueError(f"panel: expected one of {', '.join(PANELS)}, got {name!r}")
    return PANELS[name]


def _seeds(chosen: dict) -> range:
    return range(chosen["first"], chosen["first"] + chosen["seeds"])


def configurations(
    panel: str,
    seeds: Sequence[int] | None = None,
    prs: Sequence[float] | None = None,
    **changes: Any,
) -> list[Config]:
    """The runs of a panel; seeds and Pr(sparse) are the panel's unless given. `changes` go to
    `sparse_training.configuration`. Errors: an unknown panel."""
    chosen = _panel(panel)
    settings = chosen["settings"] | changes
    return [
        st.configuration(
            seed, chosen["model"], chosen["signs"] * pr, chosen["protocol"], **settings
        )
        for pr in (chosen["prs"] if prs is None else prs)
        for seed in (_seeds(chosen) if seeds is None else seeds)
    ]


def _law(config: Config) -> str:
    """What decides a run. At two Pr(sparse) that round to the same numbers of entries the program
    draws the same latents, and its runs are the same."""
    pr = config["pr"]
    if config["latent"] == "fixed":
        pr = [int(count) for count in fixed_counts(config["d"], pr)]
    return str(sorted((config | {"pr": pr}).items()))


_CONTRASTIVE = ("simclr", "cl-", "one-hot-cl", "srelu-cl")


def beside(runs: pd.DataFrame) -> pd.DataFrame:
    """Panels at noise 0.05 and 0.48 of losses without a temperature, also under the names that
    appear next to contrastive ones at 0.2 and 0.5; and ten neurons at 0.23 (all others there are
    the business of `sparse_map.as_panels`)."""
    names = runs.panel.unique()
    plain = [n for n in names if n.endswith("-faint") and not n.startswith(_CONTRASTIVE)]
    plain += ["srelu-ncl-10", *(f"{n}-loud" for n in (*NO_TEMPERATURE, "simsiam-drop"))]
    same = runs[runs.panel.isin(plain)]
    return pd.concat([same.assign(panel=same.panel + suffix) for suffix in ("-t0.2", "-t0.5")])


def runs(
    panels: str | Sequence[str],
    seeds: Sequence[int] | None = None,
    epochs: int = st.EPOCHS,
    prs: Sequence[float] | None = None,
    record: Sequence[int] = st.GRID,
    grid: Grid | None = None,
    chunk: int | None = None,
    **changes: Any,
) -> pd.DataFrame:
    """Train panels: one row per run and recorded epoch, with COLUMNS; epoch 0 is untrained. Runs
    whose data follow the same law (`_law`) are trained once and stand there for each Pr(sparse).

    A panel with a pace (`PACE`) is trained for epochs / pace, and recorded at so many times that.
    grid: who trains, and where results are kept; None trains here and keeps nothing.
    """
    names = [panels] if isinstance(panels, str) else list(panels)
    configs = [configurations(name, seeds, prs, **changes) for name in names]
    laws = [[_law(c) for c in own] for own in configs]
    requests = []
    for name, own, law in zip(names, configs, laws, strict=True):
        pace = PANELS[name]["pace"]
        requests.append(
            st.request(
                [own[law.index(one)] for one in dict.fromkeys(law)],
                max(epochs // pace, 1),
                [epoch // pace for epoch in record if epoch % pace == 0],
                chunk or CHUNK[own[0]["loss_kind"]],
            )
        )
    found = (grid or Grid(progress=False)).gather(requests)
    parts = zip(names, configs, laws, [result.table for result in found], strict=True)
    return pd.concat([_rows(*part) for part in parts], ignore_index=True)


def _rows(name: str, configs: list[Config], laws: list[str], table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a panel, of a table with a run for each law."""
    distinct = list(dict.fromkeys(laws))
    table = table.assign(epoch=table.epoch * PANELS[name]["pace"], panel=name)
    of_law = dict(list(table.groupby("run")))
    rows = [
        of_law[distinct.index(law)].assign(pr=c["pr"] / PANELS[name]["signs"])
        for law, c in zip(laws, configs, strict=True)
    ]
    return pd.concat(rows)[list(COLUMNS)]


# ------------------------------------------------------------------------------------------- cost

CHUNK = {"non-contrastive": 15, "simsiam": 5, "contrastive": 5, "nt-xent": 3}
"""Runs trained as one tensor: enough to share the cost of a call, few enough for a small memory."""

MS = {"non-contrastive": 0.55, "simsiam": 1.3, "contrastive": 2.1, "nt-xent": 5.3}
"""User CPU time of one core in ms a run and step (m = p = 50, batch 512; a second layer: twice)."""


def seconds(panel: str, epochs: int = st.EPOCHS) -> float:
    """About how long a panel takes on one core."""
    configs = configurations(panel)
    first = configs[0]
    each = MS[first["loss_kind"]] * first["layers"] * st.steps(first, epochs) / 1e3
    return each * len({_law(c) for c in configs}) / _panel(panel)["pace"]


def cost(epochs: int = st.EPOCHS) -> pd.DataFrame:
    """Panel, model, protocol, runs, seconds on one core; all that two chapters train."""
    rows = [
        (n, p["model"], p["protocol"], len(configurations(n)), seconds(n, epochs))
        for n, p in PANELS.items()
    ]
    return pd.DataFrame(rows, columns=["panel", "model", "protocol", "runs", "seconds"])
