"""CL-basic over what ncl leaves open or prints twice: temperature, noise, masks.

The temperature is not printed (the program's is 0.05), nor the factor of the noise, of which Sec.
4.1 has the order and Sec. 4.2 a variance, and of masks Eq. 2 and 3 name two kinds, with a keeping
probability that changes between captions. All else is as printed (`sparse_training`, protocol
"paper"). A cell of the map is one setting of each; its rate is the printed one, or the printed one
times temperature / 0.05, so that the gradient keeps the size that it has at the program's
temperature.
"""

from collections.abc import Iterator, Sequence

import pandas as pd

from clcore.experiments import sparse_training as st
from clcore.grid import Grid
from clcore.sweep.configs import Config
from clcore.theory.sparse.sparse_coding import noise_std

TEMPERATURES = (0.05, 0.1, 0.2, 0.5, 1.0)
SIGMAS = (
    0.0,
    0.05,
    round(noise_std(10, "released"), 3),
    round(noise_std(10, "std"), 4),
    round(noise_std(10, "variance"), 2),
)
"""None; a factor of 0.22 in the printed order log d / d; the program's; log d / d as a standard
deviation, a factor of 1, and as a variance (d = 10)."""

MASKS: dict[str, dict] = {
    "keep 0.5": {"keep": 0.5},
    "keep 0.1": {"keep": 0.1},
    "Eq. 2": {"mask": "dependent"},
}
"""Eq. 3 keeping a half (Sec. 4.2), keeping a tenth (Table 1), and Eq. 2 (the program's scripts)."""

RATES = ("printed", "scaled")
EPOCHS = (0, 500, 1000, 2000, 4000, 8000)
KEY = ["model", "latent", "temperature", "rate", "sigma", "masks", "pr", "seed"]
COLUMNS = (*KEY, "epoch", "loss", "minimum", "median", "maximum", "rank", "diverged")

READINGS: dict[str, tuple[float, str]] = {
    "-t0.2": (0.2, "scaled"),
    "-t0.2-slow": (0.2, "printed"),
    "-t0.5": (0.5, "scaled"),
    "-t0.5-slow": (0.5, "printed"),
}
"""Suffix of a panel's name -> the temperature and rate under which the map stands in for it."""

FAINT: dict[str, tuple[float, str]] = {
    "-faint": (st.TEMPERATURE, "printed"),
    "-faint-t0.2": (0.2, "scaled"),
    "-faint-t0.5": (0.5, "scaled"),
}
"""The same at the noise of 0.05."""

LOUD: dict[str, tuple[float, str]] = {
    "-loud": (st.TEMPERATURE, "printed"),
    "-loud-t0.2": (0.2, "scaled"),
    "-loud-t0.5": (0.5, "scaled"),
}
"""The same at the noise of 0.48, log d / d as a variance (Sec. 4.2)."""

LOUD_PANELS = {f"ncl-basic-{SIGMAS[4]:g}": "ncl-basic"}
"""Recorded panels at that noise -> the panel that they are."""

CONTRASTIVE = {
    ("CL-basic", "iid", "keep 0.5"): "cl-basic",
    ("CL-basic", "iid", "keep 0.1"): "cl-basic-masked",
    ("CL-basic", "iid", "Eq. 2"): "cl-basic-dependent",
    ("CL-basic", "one-hot", "keep 0.5"): "one-hot-cl-bn",
    ("CL-srelu", "one-hot", "keep 0.5"): "one-hot-cl",
    ("CL-linear", "iid", "keep 0.5"): "cl-linear",
    ("Simplified-SimCLR", "iid", "keep 0.1"): "simclr",
}
"""(model, latents, masks) of the map -> the panel that they are at noise 0.23."""

WITHOUT = {
    ("NCL-basic", "iid", "keep 0.1"): "ncl-basic-masked",
    ("NCL-basic", "iid", "Eq. 2"): "ncl-basic-dependent",
}
"""The same of the net without a temperature."""

BESIDE: dict[str, tuple[str, ...]] = {
    "cl-basic": ("ncl-basic", "ncl-basic-2l"),
    "cl-basic-masked": ("ncl-basic-masked",),
    "cl-basic-dependent": ("ncl-basic-dependent",),
    "one-hot-cl-bn": ("one-hot-ncl-bn",),
    "one-hot-cl": ("one-hot-ncl",),
    "cl-linear": ("ncl-linear",),
    "simclr": ("simsiam",),
}
"""Panel of a contrastive net -> those shown with it whose losses have no temperature."""

_PRS, _MANY = (0.1, 0.2, 0.3), range(5)
_ORDER = [(0.2, kind, SIGMAS[3], "keep 0.5") for kind in RATES]


Cell = tuple[float, str, float, str]


def plan() -> list[tuple[str, str, list[Cell], Sequence[float], Sequence[int]]]:
    """What is recorded: (model, latents, cells, Pr(sparse), seeds).

    The whole map at Pr = 0.1; what decides at every Pr with the paper's number of runs, for the
    other contrastive nets of ncl Fig. 1 and Tables 1 and 2 at the rate in proportion; and
    NCL-basic, which has no temperature, under the masks that its panels lack.
    """
    dependent = (0.2, "scaled", SIGMAS[3], "Eq. 2")
    tenth = (0.2, "scaled", SIGMAS[3], "keep 0.1")
    without = [
        (st.TEMPERATURE, "printed", sigma, masks)
        for sigma in SIGMAS
        for masks in ("keep 0.1", "Eq. 2")
    ]
    return [
        ("CL-basic", "iid", list(cells()), (0.1,), range(3)),
        ("CL-basic", "iid", [*_ORDER, dependent], _PRS, _MANY),
        ("CL-linear", "iid", _ORDER[1:], _PRS, _MANY),
        ("Simplified-SimCLR", "iid", [tenth], _PRS, _MANY),
        ("CL-basic", "one-hot", [*_ORDER[1:], (0.5, *_ORDER[1][1:])], (0.1,), _MANY),
        ("CL-srelu", "one-hot", _ORDER[1:], (0.1,), _MANY),
        ("NCL-basic", "iid", without, (0.1,), range(3)),
    ]


CHUNK = {"nt-xent": 3, "contrastive": 15, "non-contrastive": 5}


def rate(temperature: float, kind: str) -> float:
    """The learning rate of a cell. Errors: a kind that is not one of RATES."""
    if kind not in RATES:
        raise ValueError(f"rate: expected one of {', '.join(RATES)}, got {kind!r}")
    printed = st.PROTOCOLS["paper"]["lr"]
    return printed * (temperature / st.TEMPERATURE if kind == "scaled" else 1)


def cells(
    temperatures: Sequence[float] = TEMPERATURES,
    sigmas: Sequence[float] = SIGMAS,
    masks: Sequence[str] = tuple(MASKS),
    rates: Sequence[str] = RATES,
) -> Iterator[tuple[float, str, float, str]]:
    """(temperature, rate, sigma, masks); at the program's temperature both rates are one, called
    "printed". Errors: masks that are not in MASKS."""
    for name in masks:
        if name not in MASKS:
            raise ValueError(f"masks: expected one of {', '.join(MASKS)}, got {name!r}")
    for temperature in temperatures:
        for kind in rates:
            if kind != "printed" and temperature == st.TEMPERATURE and "printed" in rates:
                continue
            for sigma in sigmas:
                for name in masks:
                    yield temperature, kind, sigma, name


Part = tuple[str, str, list[Cell], Sequence[float], Sequence[int]]
"""As of `plan`."""


def runs(
    seeds: Sequence[int],
    prs: Sequence[float] = (0.1,),
    chosen: Sequence[Cell] | None = None,
    epochs: int = st.EPOCHS,
    record: Sequence[int] = EPOCHS,
    model: str = "CL-basic",
    latent: str = "iid",
    grid: Grid | None = None,
    **changes: int,
) -> pd.DataFrame:
    """Train cells of the map (all of them, if none are chosen): one row per run and recorded epoch.

    grid: who trains, and where results are kept; None trains here and keeps nothing. changes: sizes
    of `sparse_training.configuration`. Errors: those of `cells` and `configuration`.
    """
    cells_ = list(cells() if chosen is None else chosen)
    return _trained([(model, latent, cells_, prs, seeds)], epochs, record, grid, **changes)


def everything(epochs: int = st.EPOCHS, grid: Grid | None = None, **changes: int) -> pd.DataFrame:
    """All of `plan`: a run that stands in it twice is trained, and in the table, once."""
    return _trained(plan(), epochs, EPOCHS, grid, **changes)


def _trained(
    parts: Sequence[Part], epochs: int, record: Sequence[int], grid: Grid | None, **changes: int
) -> pd.DataFrame:
    requests, keys = [], []
    done: set[tuple] = set()
    for model, latent, chosen, prs, seeds in parts:
        wanted = [(model, latent, *cell, pr, s) for cell in chosen for pr in prs for s in seeds]
        fresh = [key for key in wanted if key not in done]
        done |= {*fresh}
        configs = [_configuration(*key, **changes) for key in fresh]
        if configs:
            chunk = CHUNK[configs[0]["loss_kind"]]
            requests.append(st.request(configs, epochs, record, chunk))
            keys.append(pd.DataFrame(fresh, columns=KEY))
    tables = []
    for key, result in zip(keys, (grid or Grid(progress=False)).gather(requests), strict=True):
        table = result.table.drop(columns=[n for n in KEY if n in result.table])
        tables.append(table.join(key, on="run")[list(COLUMNS)])
    return pd.concat(tables, ignore_index=True)


def _configuration(
    model: str,
    latent: str,
    temperature: float,
    kind: str,
    sigma: float,
    masks: str,
    pr: float,
    seed: int,
    **changes: int,
) -> Config:
    """A run by its KEY."""
    return st.configuration(
        seed, model, pr, lr=rate(temperature, kind), temperature=temperature, noise=sigma,
        latent=latent, **MASKS[masks], **changes,
    )  # fmt: skip


def as_panels(table: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """The map at noise 0.23 as panels of runs, named as in READINGS, and, under the same
    names, the runs of the losses without a temperature that are shown with them. And the map at
    noise 0.05, named as in FAINT, and at 0.48, named as in LOUD, where `runs` has no such panels at
    full size; at 0.48 each with the nets without a temperature at that noise.

    table: of `runs` here; runs: recorded runs, of which those in BESIDE are taken.
    """
    parts, own = [], _named(table, SIGMAS[3], CONTRASTIVE)
    for suffix, cell in READINGS.items():
        here = _at(own, *cell)
        if len(here):
            beside = [name for panel in here.panel.unique() for name in BESIDE[panel]]
            same = runs[runs.panel.isin(beside)]
            both = pd.concat([here, same])
            parts.append(both.assign(panel=both.panel + suffix))
    own = _named(table, SIGMAS[1], CONTRASTIVE | WITHOUT)
    for suffix, cell in FAINT.items():
        here = _at(own, *cell)
        here = here.assign(panel=here.panel + suffix)
        parts.append(here[~here.panel.isin(runs.panel)])
    own = _named(table, SIGMAS[4], CONTRASTIVE)
    same = runs[runs.panel.isin(LOUD_PANELS)]
    beside = [_named(table, SIGMAS[4], WITHOUT), same.assign(panel=same.panel.map(LOUD_PANELS))]
    for suffix, cell in LOUD.items():
        both = pd.concat([_at(own, *cell), *beside])
        whole = (both.panel + suffix).isin(runs.panel) | (
            (both.panel + "-loud").isin(runs.panel) & ~both.panel.isin(CONTRASTIVE.values())
        )
        parts.append(both[~whole].assign(panel=lambda t, end=suffix: t.panel + end))
    parts = [part for part in parts if len(part)]
    return pd.concat(parts).reindex(columns=list(runs.columns)) if parts else runs[:0]


def _named(table: pd.DataFrame, sigma: float, names: dict) -> pd.DataFrame:
    """Cells at that noise with the panel that they are; of cells with one run, none: it has no
    spread to be compared with."""
    found = [
        names.get(tuple(key)) for key in table[["model", "latent", "masks"]].itertuples(index=False)
    ]
    noise = table.sigma.round(4) == round(sigma, 4)
    table = table.assign(panel=found)[noise].dropna(subset="panel")
    by = ["panel", "temperature", "rate", "pr"]
    return table.groupby(by).filter(lambda t: t.seed.nunique() > 1) if len(table) else table


def _at(table: pd.DataFrame, temperature: float, kind: str) -> pd.DataFrame:
    return table[(table.temperature == temperature) & (table.rate == kind)]
