"""The panels of nl Figs. 4, 9, 10, 11 and Table 1: which runs of `token_sequences` each one needs.

A panel is a grid of P (tokens in a field's set) by beta (filters a token) of one net and loss. The
figures share most of them: Fig. 4 is in Figs. 9 and 10, Fig. 11 at zeta = 10 is in Table 1.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from clcore.experiments import token_sequences as ts
from clcore.grid import Grid, Request
from clcore.sweep import Result
from clcore.sweep.configs import Config
from clcore.sweep.optim import unit_rows

SIZES, FACTORS = (1, 3, 5, 10), (1, 2, 5, 10)
FIGURE_SEEDS, TABLE_SEEDS = 3, 10
VARIANTS = ("neither", "variance", "mean", "vanilla")
NON_HOMOGENEOUS, OTHER = "sigmoid", "tanh"
"""The program's non-homogeneous activation, and one in its place: the paper names none."""

ACTIVATIONS = ("relu", "linear", "leaky_relu", "quadratic", NON_HOMOGENEOUS)
PANELS: dict[str, dict[str, Any]] = (
    {f"{k}-{a}": {"activation": a, "kind": k} for k in ts.LOSSES for a in ACTIVATIONS}
    | {f"plain-{z}": {"zeta": float(z)} for z in (2, 5, 10)}
    | {f"mean-{z}": {"zeta": float(z), "norm": "mean"} for z in (2, 5)}
    | {f"{n}-10": {"zeta": 10.0, "norm": n} for n in VARIANTS}
    | {"unconfined": {"confined": False}}
    | {"decay": {"weight_decay": 0.05}, "rate": {"lr": ts.RATES["paper"]}}
    | {f"infonce-{OTHER}": {"activation": OTHER}}
)
"""What each panel changes: ReLU, InfoNCE, no BatchNorm, tokens of norm 1 are the rule."""

OURS = ("unconfined", "decay", "rate")
"""Panels that the paper lacks: generators that use every token; ten times the weight decay; the
paper's learning rate, whatever the loss."""

COLUMNS = (
    *("panel", "seed", "activation", "kind", "norm", "zeta", "P", "filters", "step"),
    *("chi_plus", "chi_minus", "released_plus", "released_minus", "diverged"),
)


def panels(protocol: str) -> list[str]:
    """The panels of a protocol: "decay" changes the paper's text, "rate" the program's settings.

    `OTHER` is in none: it stands for the sigmoid where Fig. 9 turns on that.
    """
    left_out = {f"infonce-{OTHER}", {"paper": "rate", "released": "decay"}[protocol]}
    return [p for p in PANELS if p not in left_out]


def seeds(panel: str) -> int:
    """Repeats: the 3 of the paper's figures; 10 for Table 1, whose number the paper leaves open."""
    return TABLE_SEEDS if panel in {f"{n}-10" for n in VARIANTS} else FIGURE_SEEDS


def _request(configs: Sequence[Config], steps: int, **parts: Any) -> Request:
    static = ts.PROBLEM["static"]
    return Request(ts.run, configs, static=static, options={"steps": steps}, **parts)


def runs(
    panels: str | Sequence[str],
    protocol: str,
    repeats: Sequence[int],
    steps: int = ts.STEPS,
    sizes: Sequence[int] = SIZES,
    factors: Sequence[int] = FACTORS,
    grid: Grid | None = None,
    lr: float | None = None,
) -> pd.DataFrame:
    """Train panels: one row per run and step, the first (random filters) and the last.

    repeats: seeds, of which a panel takes as many as it has (`seeds`). grid: who trains, and where
    results are kept; None trains here and keeps nothing. lr: for panels without a rate of their
    own; the protocol's unless given. Errors: an unknown panel.
    """
    names = [panels] if isinstance(panels, str) else list(panels)
    for name in names:
        if name not in PANELS:
            raise ValueError(f"panel: expected one of {', '.join(PANELS)}, got {name!r}")
    rate: dict[str, Any] = {"lr": lr}
    requests = [
        _request(
            [
                ts.configuration(seed, P, beta, protocol=protocol, **(rate | PANELS[name]))
                for P in sizes
                for beta in factors
                for seed in [*repeats][: seeds(name)]
            ],
            steps,
        )
        for name in names
    ]
    results = (grid or Grid(progress=False)).gather(requests)
    tables = [r.table.assign(panel=name) for name, r in zip(names, results, strict=True)]
    return pd.concat(tables, ignore_index=True)[list(COLUMNS)]


# ------------------------------------------------------------------------------------- Figure 5


def filters(
    protocol: str,
    repeats: Sequence[int],
    tokens: int = 20,
    steps: int = ts.STEPS,
    activations: Sequence[str] = ("relu", "linear"),
    grid: Grid | None = None,
    lr: float | None = None,
) -> Result:
    """Nets of nl Fig. 5, P = 3 and beta = 5, with their filters (`params`, `setup` of a run).

    tokens: 20 as in the text, 8 as in the figure's caption. grid: as of `runs`. lr: the protocol's
    unless given.
    """
    configs = [
        ts.configuration(seed, 3, 5, a, protocol=protocol, tokens=tokens, lr=lr)
        for a in activations
        for seed in repeats
    ]
    request = _request(configs, steps, tensors=True)
    return (grid or Grid(progress=False)).gather([request])[0]


def found(result: Result) -> pd.DataFrame:
    """Which tokens have a filter: one row per net and step, the first and the last."""
    table = result.table
    return table[["seed", "activation", "tokens", "step", *ts.FOUND]]


def montage(result: Result, seeds: int, gap: int = 3) -> Float[Tensor, "rows columns"]:
    """Filters of the first nets as one picture: a line of fields for each seed and activation.

    Filters have norm 1 and the tokens of R_k come first; NaN lies between the fields.
    """
    first = result.table.query("step == 0 and seed - seed.min() < @seeds")
    lines = []
    for run in first.sort_values(["seed", "run"]).run:
        R = result.setup(run)["in_set"]
        order = R.to(torch.int8).argsort(dim=1, descending=True, stable=True)
        W = unit_rows(result.params(run)["W"])
        tiles = W.gather(2, order[:, None].expand_as(W))
        padded = torch.nn.functional.pad(tiles, (0, gap, 0, gap), value=torch.nan)
        lines.append(torch.cat(list(padded), dim=1))
    return torch.cat(lines).cpu()
