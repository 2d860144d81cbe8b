"""The runs behind ncl Figs. 1-18 and Tables 1-4: which settings, how many, what they cost.

A panel is one set of runs: a model and its settings, Pr(sparse) in {0.1, 0.2, 0.3}, some seeds.
Figures and tables that have their settings in common have their panel in common; `FIGURES` says
which panels a figure needs. Captions that can be read in two ways have a panel for either reading.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import pandas as pd

from clcore.experiments import sparse_training as st
from clcore.grid import Grid
from clcore.sweep.configs import Config
from clcore.theory.sparse.sparse_coding import fixed_counts, warm_std

PRS = (0.1, 0.2, 0.3)
FEW, MANY = 3, 5


def _set(model: str, seeds: int = MANY, prs: Sequence[float] = PRS, **settings: Any) -> dict:
    chosen = {"model": model, "seeds": seeds, "prs": tuple(prs), "protocol": "paper", "pace": 1}
    return chosen | {"signs": 1, "settings": settings}


_ROWS: dict[str, dict[str, Any]] = {
    "fig7": {"warm": warm_std(50, 2), "keep": 0.1, "normalise": "rows"},
    "fig13": {"warm": warm_std(50, 1), "m": 10, "normalise": "rows"},
    "fig14": {"warm": warm_std(20, 1.25), "p": 20, "d": 20, "m": 20, "normalise": "rows"},
    "fig15": {"warm": warm_std(20, 1.25), "p": 20, "d": 20, "m": 20, "normalise": "columns"},
    "fig16": {"warm": warm_std(50, 2), "keep": 0.25, "normalise": "columns"},
}
"""Warm starts with normalised weights. "Probability of random masking" 0.9 keeps 0.1."""


def _row(name: str, **changes: Any) -> dict[str, Any]:
    return _ROWS[name] | changes


_TABLE2 = ("NCL-basic", "CL-basic", "NCL-basic-2L", "CL-linear", "NCL-linear")

PANELS: dict[str, dict] = (
    {"simclr": _set("Simplified-SimCLR", keep=0.1), "simsiam": _set("Simplified-SimSiam", keep=0.1)}
    | {m.lower(): _set(m) for m in _TABLE2}
    | {"ncl-linear-plain": _set("NCL-linear", unit=False)}
    | {
        "warm-0.14": _set("NCL-basic", warm=warm_std(50, 1)),
        "pred-warm": _set("NCL-pred", FEW, warm=warm_std(50, 1)),
        "pred-random": _set("NCL-pred", FEW),
        "fig7": _set("NCL-basic", FEW, **_ROWS["fig7"]),
        "warm-0.02": _set("NCL-basic", warm=0.02),
        "warm-0.002": _set("NCL-basic", warm=0.002),
        "one-hot-ncl": _set("NCL-srelu", prs=(0.1,), latent="one-hot"),
        "one-hot-cl": _set("CL-srelu", prs=(0.1,), latent="one-hot"),
    }
    | {name: _set("NCL-basic", FEW, **_ROWS[name]) for name in ("fig13", "fig14", "fig15", "fig16")}
    | {f"srelu-{loss.lower()}-10": _set(f"{loss}-srelu", m=10) for loss in ("NCL", "CL")}
    | {
        "simclr-drop": _set("Simplified-SimCLR", keep=0.9),
        "simsiam-drop": _set("Simplified-SimSiam", keep=0.9),
        "fig7-drop": _set("NCL-basic", FEW, **_row("fig7", keep=0.9)),
        "fig16-drop": _set("NCL-basic", FEW, **_row("fig16", keep=0.75)),
        "warm-rows": _set("NCL-basic", warm=warm_std(50, 1), normalise="rows"),
        "warm-columns": _set("NCL-basic", warm=warm_std(50, 1), normalise="columns"),
    }
    | {f"{name}-srelu": _set("NCL-srelu", FEW, **settings) for name, settings in _ROWS.items()}
    | {
        f"{name}-pred": _set("NCL-srelu-pred", FEW, **_ROWS[name])
        for name in ("fig13", "fig14", "fig15")
    }
    | {f"srelu-{loss.lower()}-50": _set(f"{loss}-srelu") for loss in ("NCL", "CL")}
    | {
        f"one-hot-{loss.lower()}-bn": _set(f"{loss}-basic", prs=(0.1,), latent="one-hot")
        for loss in ("NCL", "CL")
    }
    | {f"srelu-{loss.lower()}-10-bn": _set(f"{loss}-basic", m=10) for loss in ("NCL", "CL")}
    | {
        f"{name}-free": _set("NCL-basic", FEW, **_row(name, normalise="none"))
        for name in ("fig13", "fig14")
    }
    | {f"{m.lower()}-dependent": _set(m, mask="dependent") for m in ("NCL-basic", "CL-basic")}
    | {f"{m.lower()}-masked": _set(m, keep=0.1) for m in _TABLE2}
)
PANELS |= {
    f"{name}-quiet": PANELS[name] | {"settings": PANELS[name]["settings"] | {"noise": "none"}}
    for name in (
        *("cl-basic", "ncl-basic", "cl-linear", "ncl-linear", "ncl-linear-plain", "ncl-basic-2l"),
        *("simclr", "simsiam", "warm-0.14", "warm-0.02", "warm-0.002", "pred-warm", "pred-random"),
        *("fig7", "fig13", "fig14", "fig15", "fig16", "one-hot-ncl", "one-hot-cl"),
        *("one-hot-ncl-bn", "one-hot-cl-bn", "srelu-ncl-10-bn", "srelu-cl-10-bn"),
        *("srelu-ncl-10", "srelu-cl-10", "warm-rows", "warm-columns", "fig13-free", "fig14-free"),
        *("ncl-basic-dependent", "cl-basic-dependent"),
    )
}
SIGMAS = (0.025, 0.05, 0.1, 0.15, 0.48)
PANELS |= {
    f"{loss.lower()}-basic-{sigma:g}": _set(f"{loss}-basic", FEW, prs=(0.1,), noise=sigma)
    for loss in ("CL", "NCL")
    for sigma in SIGMAS
}
"""In the order in which they settle the paper's conclusions.

"-drop": the caption's probability read the other way, as that of keeping or of masking (num5).
"-srelu": without BatchNorm, which the captions of Figs. 1, 7, 8, 9 and 13-16 do not mention; Sec.
5.2.2, which discusses Fig. 1, says that all its encoders have it, and so does the program's script
of one-hot latents: "one-hot-*-bn", and "srelu-*-10-bn" for Figs. 8, 9. "srelu-*-50": Fig. 8 by
its title, overparametrised. "fig13-free", "fig14-free": their sizes and starts, no norm fixed (Fig.
15 has Fig. 14's); ours, to tell what the norm does.
"ncl-linear-plain": the distance of outputs that are not normalised. "-quiet": without noise, as the
program's configuration files have it (sigma0: 0, which its scripts then do not read); numbers:
other standard deviations of the noise, the largest the one with the printed number as its variance
(Sec. 4.2). "-masked": masks that keep a tenth, as in Table 1; Table 2
does not say. "-pred": with the predictor, and without the BatchNorm, of the program's scripts for
Figs. 13-15. "-released": the program's protocol, see below.
"""

PANELS |= {
    f"{name}-half": _set(PANELS[name]["model"], keep=0.5, noise="none")
    for name in ("simclr", "simsiam")
}
"""Table 1 with the masks that are the default of the paper, and without noise."""
FAINT = 0.05
"""Another standard deviation of the noise: Sec. 4.1 gives its order, log d / d, and no factor. Here
it is 0.22; in panels that do not name their noise it is 1, and the deviation 0.23."""

_NO_TEMPERATURE = ("simsiam", "ncl-basic", "ncl-linear", "ncl-basic-2l", "one-hot-ncl")
_NO_TEMPERATURE = (*_NO_TEMPERATURE, "pred-warm", "pred-random")
_AT_HALF = ("simclr", "cl-basic", "cl-linear", "one-hot-cl")
_CONTRASTIVE = ("simclr", "cl-", "one-hot-cl", "srelu-cl")


def _faint(name: str, **changes: Any) -> dict[str, Any]:
    """A panel with that noise; FEW runs, but for Table 1 as many as it has."""
    seeds = PANELS[name]["seeds"] if name in ("simclr", "simsiam") else FEW
    settings = PANELS[name]["settings"] | {"noise": FAINT} | changes
    return PANELS[name] | {"seeds": seeds, "settings": settings}


_RATE = st.PROTOCOLS["paper"]["lr"] * 0.5 / st.TEMPERATURE  # in proportion to the temperature
PANELS |= {f"{name}-faint": _faint(name) for name in _NO_TEMPERATURE}
PANELS |= {f"{name}-faint-t0.5": _faint(name, temperature=0.5, lr=_RATE) for name in _AT_HALF}

_OPEN_STARTS: dict[str, dict[str, Any]] = {
    "-faint": {"noise": FAINT},
    "-loud": {"noise": "variance"},
    "-balanced": {"warm_kind": "balanced"},
    "-by-columns": {"warm_kind": "columns"},
    "-target-first": {"updates": "target first"},
    "-together": {"updates": "together"},
    "-each-sign": {},
}
_SEVERAL = ("-loud-balanced", "-loud-each-sign", "-balanced-each-sign", "-loud-balanced-each-sign")
_SEVERAL += ("-loud-balanced-each-sign-together",)
_STARTS = ("warm-0.14", "warm-0.02", "warm-0.002")
for _name, _suffix in product(_STARTS, (*_OPEN_STARTS, *_SEVERAL)):
    _changes = {
        k: v for one in _OPEN_STARTS if one in _suffix for k, v in _OPEN_STARTS[one].items()
    }
    _settings = PANELS[_name]["settings"] | _changes
    _own = {"settings": _settings, "signs": 2 if "-each-sign" in _suffix else 1}
    PANELS[_name + _suffix] = PANELS[_name] | _own
"""Table 4 with what its text leaves open: the noise at that deviation, or at the printed log d / d
as its variance (0.48); every column of M equally often among the rows; columns of W, as the text
has it, not rows, that begin at columns of M; the target network before the online one; Pr(sparse)
as the probability of each sign: `signs` is what Pr(sparse) is multiplied by to be that of an entry
that is not 0. Some of them together. "-together" is against the print, whose networks alternate."""

# Which of the two changes does it?
PANELS |= {"simclr-half-noise": _set("Simplified-SimCLR", FEW, (0.1,), keep=0.5)}

FIGURES: dict[str, tuple[str, ...]] = {
    "tab1": ("simclr", "simsiam"),
    "tab2": ("ncl-linear", "cl-linear", "ncl-basic", "ncl-basic-2l", "cl-basic"),
    "tab3": ("simclr", "simsiam"),
    "tab4": _STARTS,
    "fig1": ("one-hot-ncl", "one-hot-cl"),
    "fig2": ("ncl-basic", "cl-basic"),
    "fig3": ("ncl-basic-2l", "cl-basic"),
    "fig4": ("warm-0.14",),
    "fig5": ("pred-warm",),
    "fig6": ("pred-random", "pred-warm"),
    "fig7": ("fig7",),
    "fig8": ("srelu-ncl-10", "srelu-cl-10"),
    "fig9": ("srelu-ncl-10", "srelu-cl-10"),
    "fig10": ("ncl-basic-2l", "cl-basic"),
    "fig11": ("warm-0.14",),
    "fig12": ("pred-warm",),
    "fig13": ("fig13",),
    "fig14": ("fig14",),
    "fig15": ("fig15",),
    "fig16": ("fig16",),
    "fig17": ("simclr",),
    "fig18": ("simsiam",),
}

_SLOW = ("contrastive", "nt-xent")
"""Losses whose runs under the program's protocol take five minutes each: three runs, not five."""

PANELS |= {
    f"{name}-released": PANELS[name]
    | {"protocol": "released"}
    | ({"seeds": FEW} if st.MODELS[PANELS[name]["model"]]["loss"] in _SLOW else {})
    for name in (
        *dict.fromkeys(panel for panels in FIGURES.values() for panel in panels),
        *("one-hot-ncl-bn", "one-hot-cl-bn"),
    )
}
"""Every panel of a figure or table once more: the model and masks of its caption, all else as the
authors' program has it."""
PANELS |= {
    f"{name}-quiet": PANELS[name]
    | {"seeds": seeds, "prs": (0.1,), "settings": PANELS[name]["settings"] | {"noise": "none"}}
    for name, seeds in (
        ("cl-basic-released", FEW),
        ("ncl-basic-released", MANY),
        ("simclr-released", 1),
    )
}
"""The program with its noise turned off."""

PACE = 5
"""How much faster than the program's scripts "-script" panels go: its rate 0.005 times 5, for a
fifth of its epochs."""


def _script(model: str, seeds: int = MANY, prs: Sequence[float] = PRS, **settings: Any) -> dict:
    quick = {"lr": PACE * st.PROTOCOLS["released"]["lr"]} | settings
    return _set(model, seeds, prs, **quick) | {"protocol": "released", "pace": PACE}


PANELS |= {
    "cl-basic-script": _script("CL-basic", mask="dependent"),
    "cl-linear-script": _script("CL-linear", mask="dependent"),
    "simclr-script": _script("Simplified-SimCLR", mask="dependent"),
    "one-hot-cl-script": _script("CL-basic", prs=(0.1,), mask="dependent", latent="one-hot"),
    "one-hot-ncl-script": _script("NCL-srelu", prs=(0.1,), latent="one-hot"),
    "ncl-basic-script": _script("NCL-srelu"),
    "ncl-linear-script": _script("NCL-linear"),
    "ncl-basic-2l-script": _script("NCL-basic-2L"),
    "ncl-basic-2l-script-plain": _script("NCL-srelu-2L"),
    "simsiam-script": _script("Simplified-SimSiam"),
}
PANELS |= {
    f"{name}-script-keep-{keep:g}": PANELS[f"{name}-script"]
    | {"seeds": FEW, "settings": PANELS[f"{name}-script"]["settings"] | {"keep": keep}}
    for name in ("simsiam", "ncl-basic-2l")
    for keep in (0.1, 0.25, 0.75)
}
PANELS["cl-basic-script-slow"] = _set("CL-basic", FEW, (0.1,), mask="dependent") | {
    "protocol": "released"
}
"""What the program's own entry points train, defaults included.

Those of contrastive nets have the dependent masks of ncl Eq. 2 whatever keeping probability is
given, those of non-contrastive ones and SimSiam independent masks. The net without a predictor
("ncl-basic-script") takes the option of BatchNorm and does not read it; the two-layer net reads it,
and "-plain" is without. "-keep-*": the other probabilities of its default list. No entry point
builds NCL-linear, nor a command of its scripts SimCLR with a predictor, SimSiam or two layers; what
stands here for those has the defaults. "-slow": at the program's own rate, for all its epochs; the
other panels go PACE times as fast for as much shorter, and count epochs times rate as it does.
"""

_LANDSCAPE = ("cl-", "ncl-", "one-hot-", "srelu-")
"""Panels that 6-landscape trains (Table 2, Figs. 1, 2, 8-10); all others are 6-dynamics'."""

RECORDED = ("panel", "pr", "seed", "epoch", "loss", "minimum", "median", "maximum", "norm", "rank")
RECORDED = (*RECORDED, "diverged")
"""Columns that are kept of full-size runs: the others follow from the panel."""

COLUMNS = (
    *("panel", "seed", "model", "protocol", "pr", "keep", "warm", "normalise", "mask", "latent"),
    *("sigma", "unit", "m", "p", "d", "n", "lr", "epoch", "loss", "minimum", "median", "maximum"),
    *("product_minimum", "product_median", "product_maximum", "norm", "rank", "diverged"),
)


def of_chapter(chapter: str) -> list[str]:
    """The panels that "6-landscape" or "6-dynamics" trains. Errors: another chapter."""
    if chapter not in ("6-landscape", "6-dynamics"):
        raise ValueError(f"chapter: expected 6-landscape or 6-dynamics, got {chapter!r}")
    first = chapter == "6-landscape"
    return [name for name in PANELS if name.startswith(_LANDSCAPE) == first]


def _panel(name: str) -> dict:
    if name not in PANELS:
        raise ValueError(f"panel: expected one of {', '.join(PANELS)}, got {name!r}")
    return PANELS[name]


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
        for seed in (range(chosen["seeds"]) if seeds is None else seeds)
    ]


def _law(config: Config) -> str:
    """What decides a run. At two Pr(sparse) that round to the same numbers of entries the program
    draws the same latents, and its runs are the same."""
    pr = config["pr"]
    if config["latent"] == "fixed":
        pr = [int(count) for count in fixed_counts(config["d"], pr)]
    return str(sorted((config | {"pr": pr}).items()))


def faint_beside(runs: pd.DataFrame) -> pd.DataFrame:
    """Panels at FAINT of losses without a temperature, once more under the names that stand beside
    contrastive ones at 0.2 and 0.5 (as `sparse_map.as_panels` has them at the larger noise)."""
    names = runs.panel.unique()
    plain = [n for n in names if n.endswith("-faint") and not n.startswith(_CONTRASTIVE)]
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
    """Train panels: one row a run and recorded epoch, with COLUMNS; epoch 0 is untrained. Runs
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
