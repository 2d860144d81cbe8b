"""What the checks on ncl's runs have in common: cells, printed numbers, tests of an order.

A table of runs is `sparse_panels.runs`, of one or more panels. Full size: every Pr(sparse) of a
panel with the paper's number of seeds, 8000 epochs, the panel's own settings; anything else is
`partial`.
"""

from collections.abc import Callable, Iterable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.typing import DataFrameGroupBy

from clcore import ledger, stats
from clcore import random as cr
from clcore.experiments.sparse_panels import MORE, PANELS, configurations
from clcore.experiments.sparse_settings import WORDS
from clcore.experiments.sparse_training import EPOCHS, metrics
from clcore.theory.sparse import sparse_coding as sc

METRICS = {"max": "maximum", "median": "median", "min": "minimum"}
SIGNIFICANT = 0.05
SHARE = 0.9
"""Of cells that agree: the rule allows two standard errors, so that one in twenty may not."""
RECOVERED = 0.75
"""Our threshold for an end that is high, in Minimum max-cosine: just below 0.76, CL-basic's lowest
in print, which the paper calls high."""


class NoRuns(ValueError):
    """A panel that a check needs is not in its table."""


def at(runs: pd.DataFrame, panel: str, last: bool = True) -> pd.DataFrame:
    """Rows of a panel after training, or before. Errors: no such runs."""
    kept = runs[runs.panel == panel]
    if kept.empty:
        raise NoRuns(f"expected runs of panel {panel!r}, got none; train or record it first")
    return kept[kept.epoch == (kept.epoch.max() if last else 0)]


@cache
def planted(kind: str, draws: int = 20) -> pd.DataFrame:
    """A run's scores of known encoders, for controls: "warm", columns of M
    with the noise of c = 2, or "parallel", one row m times with other lengths."""
    rows = []
    for key in cr.split(cr.key(7), draws):
        c = configurations("fig16", seeds=[0])[0]
        atoms, start = cr.split(key)
        M = sc.dictionary(atoms, c["p"], c["d"])
        if kind == "warm":
            W = sc.warm_start(start, M, c["m"], sc.warm_std(c["p"], 2))
        else:
            W = cr.uniform(start, c["m"], 0.5, 2.0)[:, None] * sc.random_start(
                start, 1, c["p"], c["d"]
            )
        found = metrics({"W": W[None]}, {"dictionary": M})
        rows.append({name: float(value) for name, value in found.items()})
    return pd.DataFrame(rows)


def has(runs: pd.DataFrame, *panels: str) -> bool:
    """Whether there is a run of every one of these panels."""
    return set(panels) <= set(runs.panel.unique())


def settled(runs: pd.DataFrame, *panels: str) -> pd.DataFrame:
    """The runs, with the further ones (MORE) of these panels under the panels' own names, where all
    of them have some: for a question that the paper's number of runs leaves to chance."""
    own = {name: name.replace(MORE, "") for name in runs.panel.unique()}
    if not set(panels) <= {plain for name, plain in own.items() if name != plain}:
        return runs
    named = {name: plain if plain in panels else name for name, plain in own.items()}
    return runs.assign(panel=runs.panel.map(named))


OPEN = {
    "-t0.2": "temperature 0.2, the rate in proportion to it",
    "-t0.5": "temperature 0.5, the rate in proportion to it",
    "-t0.2-slow": "temperature 0.2 at the printed rate",
    "-t0.5-slow": "temperature 0.5 at the printed rate",
    "-bn": "BatchNorm in the encoder",
    "-bn-t0.2": "BatchNorm in the encoder, temperature 0.2, the rate in proportion to it",
    "-bn-t0.5": "BatchNorm in the encoder, temperature 0.5, the rate in proportion to it",
    "-faint": "noise 0.05, a fifth to a third of its order log d / d",
    "-loud": "the printed log d / d as the variance of the noise: 0.48 at d = 10, 0.39 at d = 20",
    "-loud-t0.2": "noise 0.48, temperature 0.2, the rate in proportion to it",
    "-loud-t0.5": "noise 0.48, temperature 0.5, the rate in proportion to it",
    "-balanced": "every column of M equally often among the rows of the start",
    "-by-columns": "columns of the encoder, not rows, begin at columns of M",
    "-each-sign": "Pr(sparse) as the probability of each sign",
    "-narrow": "twenty neurons, m = 20",
    "-narrow-balanced": "twenty neurons, every column of M equally often",
    "-narrow-each-sign": "twenty neurons, Pr(sparse) as the probability of each sign",
    "-narrow-loud": "twenty neurons, noise 0.48",
    "-narrow-faint": "twenty neurons, noise 0.05",
    "-narrow-target-first": "twenty neurons, the target network first",
    "-target-first": "the target network before the online one in every epoch",
    "-loud-balanced": "noise 0.48, and every column of M equally often",
    "-loud-each-sign": "noise 0.48, and Pr(sparse) as the probability of each sign",
    "-balanced-each-sign": "every column of M equally often, and Pr(sparse) of each sign",
    "-loud-balanced-each-sign": "noise 0.48, every column equally often, Pr(sparse) of each sign",
    "-faint-t0.2": "noise 0.05, temperature 0.2, the rate in proportion to it",
    "-faint-t0.5": "noise 0.05, temperature 0.5, the rate in proportion to it",
    "-relu": "the plain ReLU behind the encoder",
    "-relu-faint-t0.5": "the plain ReLU, noise 0.05, temperature 0.5, the rate in proportion to it",
}
"""Suffix of a panel's name -> the value of a setting that the print leaves open."""

OPEN_STARTS = ("-loud", "-faint", "-balanced", "-by-columns", "-each-sign", "-target-first")
OPEN_STARTS += ("-loud-balanced", "-loud-each-sign", "-balanced-each-sign")
OPEN_STARTS += ("-loud-balanced-each-sign", "-narrow", "-narrow-balanced", "-narrow-each-sign")
OPEN_STARTS += ("-narrow-loud", "-narrow-faint", "-narrow-target-first")
"""Those of OPEN that were varied for the warm starts of Table 4, alone and some together."""

OTHERS = {
    "-script": "what the program's entry points train, defaults included",
    "-quiet": "without noise in the data",
    "-half": "masks that keep a half, and no noise in the data",
    "-released": "the released program's protocol",
    "-loud-balanced-each-sign-together": "noise 0.48, every column equally often, each sign, "
    "and both networks in every minibatch",
    "-together": "both networks in every minibatch, not by turns",
    "-bn-quiet": "BatchNorm in the encoder, and no noise in the data",
    "-bn-released": "the released program's protocol, with BatchNorm in the encoder",
}
"""Suffix of a panel's name -> how it differs from the print."""

AGAINST_STARTS = ("-quiet", "-released", "-together", "-loud-balanced-each-sign-together")
"""Those of OTHERS that the warm starts of Table 4 were run at."""

SUFFIXES = (*OPEN, *OTHERS)


def reading(runs: pd.DataFrame, suffix: str) -> pd.DataFrame:
    """The panels of one of SUFFIXES under the names that they have in print, with the column
    `trained` for their own; all other panels are left out."""
    rows = runs[runs.panel.str.endswith(suffix)]
    rows = rows.assign(panel=rows.panel.str.removesuffix(suffix), trained=rows.panel)
    return rows[~rows.panel.str.endswith(SUFFIXES)].astype({"panel": "category"})


def per_pr(rows: pd.DataFrame) -> DataFrameGroupBy:
    """Rows by Pr(sparse), which tables of runs write with more or fewer digits."""
    return rows.assign(pr=rows.pr.round(3)).groupby("pr")


def evidence(runs: pd.DataFrame, *panels: str) -> str:
    """ "protocol" if every panel is at full size, else "partial"."""
    for panel in panels:
        rows, wanted = at(runs, panel), PANELS[panel]
        each = per_pr(rows).size().reindex(wanted["prs"], fill_value=0)
        if rows.epoch.max() < EPOCHS or each.min() < wanted["seeds"] or not _as_set(rows, panel):
            return "partial"
    return "protocol"


def _as_set(rows: pd.DataFrame, panel: str) -> bool:
    """Whether runs, as far as their columns show, have the sizes, rate and masks of the panel."""
    names = [n for n in ("n", "lr", "m", "p", "d", "keep", "warm") if n in rows]
    own = rows.trained.iloc[0] if "trained" in rows else panel
    if not names or own not in PANELS:  # those of the map have no settings but their key
        return True
    wanted = configurations(own, seeds=[0])[0]
    return all(np.isclose(rows[n].astype(float), wanted[n]).all() for n in names)


def count(runs: pd.DataFrame, *panels: str) -> int:
    """How many runs of these panels there are, each counted once."""
    return sum(len(at(runs, panel)) for panel in panels)


def means(
    runs: pd.DataFrame, panel: str, column: str = "minimum", last: bool = True
) -> pd.DataFrame:
    """Mean, std (n - 1) and count of a column, one row per Pr(sparse)."""
    rows = at(runs, panel, last)
    found = per_pr(rows)[column].agg(["mean", "std", "count"])
    return pd.DataFrame(found.fillna({"std": 0.0}))


def listed(values: pd.Series | np.ndarray | list, digits: int = 2) -> str:
    """Numbers with that many digits, with commas between them."""
    return ", ".join(f"{v:.{digits}f}" for v in values)


# ------------------------------------------------------------------------------------------ order


def above(test: Callable[..., stats.Comparison], a: np.ndarray, b: np.ndarray) -> float:
    """One-sided p-value of `stats.welch` or `stats.paired` that a's mean exceeds b's. A single run
    has no spread: 0, 1/2 or 1, by the sign of the difference."""
    if min(len(a), len(b)) < 2:
        return float(0.5 * (1 - np.sign(np.mean(a) - np.mean(b))))
    return float(test(a, b, "greater").p)


def by_pr(rows: pd.DataFrame, column: str) -> dict[Any, np.ndarray]:
    """Pr(sparse) -> values of a column, in the order of the seeds."""
    return {p: g.sort_values("seed")[column].to_numpy() for p, g in per_pr(rows)}


def leads(
    runs: pd.DataFrame, high: str, low: str, column: str = "minimum"
) -> tuple[np.ndarray, np.ndarray]:
    """Mean of panel `high` minus that of `low` at the end, one a Pr(sparse) that both have; and the
    same with every other run exchanged."""
    sides = [by_pr(at(runs, panel), column) for panel in (high, low)]
    pairs = [(sides[0][p], sides[1][p]) for p in sorted(set(sides[0]) & set(sides[1]))]
    mixed = [stats.alternate(*pair) for pair in pairs]
    ours, control = (np.array([x.mean() - y.mean() for x, y in each]) for each in (pairs, mixed))
    return ours, control


def ahead(
    runs: pd.DataFrame, high: str, low: str, column: str = "minimum"
) -> tuple[float, dict[str, float]]:
    """Largest p-value over Pr(sparse) that panel `high` ends above panel `low`, and the control:
    the same with every other run exchanged."""
    sides = [by_pr(at(runs, panel), column) for panel in (high, low)]
    common = sorted(set(sides[0]) & set(sides[1]))
    pairs = [(sides[0][p], sides[1][p]) for p in common]
    worst = max(above(stats.welch, *pair) for pair in pairs)
    mixed = max(above(stats.welch, *stats.alternate(*pair)) for pair in pairs)
    return worst, {"every other run exchanged": mixed}


def rises(
    runs: pd.DataFrame, panel: str, sign: int = 1, column: str = "minimum"
) -> tuple[float, dict[str, float]]:
    """Largest p-value over Pr(sparse) that a column ends above (sign -1: below) where it began,
    run by run, and the control: start and end exchanged in every other run."""
    end, begin = (by_pr(at(runs, panel, last), column) for last in (True, False))
    pairs = [(sign * end[p], sign * begin[p]) for p in end]
    worst = max(above(stats.paired, *pair) for pair in pairs)
    mixed = max(above(stats.paired, *stats.alternate(*pair)) for pair in pairs)
    return worst, {"every other run exchanged": mixed}


def other(runs: pd.DataFrame, panels: tuple[str, ...]) -> str:
    """Where other readings of a caption began and ended, as a sentence of a note."""
    found = [
        f"{WORDS[p]}: {listed(means(runs, p, last=False)['mean'])} to "
        f"{listed(means(runs, p)['mean'])}"
        for p in panels
        if has(runs, p)
    ]
    said = "; ".join(found)
    return said[:1].upper() + said[1:]


# ------------------------------------------------------------------------------- printed numbers


def printed(claim: str) -> pd.DataFrame:
    """The cells of Table 1-4: model, sigma (Table 4), pr, metric, paper, paper_std."""
    rows = [
        {"model": row["model"], "sigma": row.get("sigma", np.nan), "pr": row["pr_sparse"]}
        | {"metric": metric, "paper": row[short]["mean"], "paper_std": row[short]["std"]}
        for row in ledger.claim(claim)["numbers"]["rows"]
        for short, metric in METRICS.items()
    ]
    return pd.DataFrame(rows)


def panel_of(row: pd.Series) -> str:
    """The panel of a printed cell."""
    if not np.isnan(row.sigma):
        return f"warm-{row.sigma:g}"
    return {"Simplified-SimCLR": "simclr", "Simplified-SimSiam": "simsiam"}.get(
        row.model, row.model.lower()
    )


def _all_means(
    runs: pd.DataFrame, panels: Iterable[str], last: bool
) -> dict[tuple[Any, ...], float]:
    """(panel, metric, Pr(sparse), "mean", "std" or "count") -> the values of `means`, at once."""
    found: dict[tuple[Any, ...], float] = {}
    for panel in panels:
        rows = at(runs, panel, last)
        names = ("mean", "std", "count")
        table = per_pr(rows)[list(METRICS.values())].agg(list(names))
        for metric, name in product(METRICS.values(), names):
            values = table[metric, name].fillna(0.0) if name == "std" else table[metric, name]
            found |= {(panel, metric, pr, name): value for pr, value in values.items()}
    return found


def beside(
    runs: pd.DataFrame, claim: str, suffix: str = "", last: bool = True, swap: dict | None = None
) -> pd.DataFrame:
    """Printed cells next to ours: mean, std, count, agrees (the ledger's rule). Cells of panels
    that are not in `runs` are left out.

    suffix: of the panels' names, another reading; swap: panel -> the one to put in its place.
    """
    table = printed(claim)
    n = ledger.claim(claim)["numbers"]["n"]
    table["panel"] = [(swap or {}).get(p, p) + suffix for p in table.apply(panel_of, axis=1)]
    table = table[table.panel.isin(runs.panel.unique())].copy()
    ours = _all_means(runs, table.panel.unique(), last)
    cells = list(zip(table.panel, table.metric, table.pr, strict=True))
    for name in ("mean", "std", "count"):
        table[name] = [ours.get((*cell, name), np.nan) for cell in cells]
    table = table[table["count"] > 0]
    agrees = [
        ledger.agreement(r["mean"], r["std"], int(r["count"]), r.paper, r.paper_std, n, 0.01)
        for _, r in table.iterrows()
    ]
    return table.assign(agrees=agrees)


def most_spread(mean: float, n: int) -> float:
    """The largest standard deviation (n - 1) of n numbers in [0, 1] with that mean."""
    total = mean * n
    ones, rest = int(total), total - int(total)
    return float(((ones + rest**2 - total**2 / n) / (n - 1)) ** 0.5)
