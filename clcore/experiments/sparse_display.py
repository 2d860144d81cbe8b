"""Tables and curves of ncl's runs as the chapters show them."""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch

from clcore import random as cr
from clcore import stats
from clcore.experiments import sparse_tables as rt
from clcore.experiments.sparse_panels import configurations
from clcore.theory.sparse import sparse_coding as sc

READINGS = {"": "first choice", "-t0.2": "temperature 0.2", "-script": "program's scripts"}
READINGS |= {"-faint-t0.5": "noise 0.05, temp. 0.5"}
READINGS |= {"-quiet": "without noise"}
READINGS |= {"-released": "program, printed masks", "-half": "half kept, no noise"}
READINGS |= {"-bn": "BatchNorm", "-bn-quiet": "BatchNorm, no noise"}
READINGS |= {"-bn-released": "program, printed masks, BatchNorm"}
"""Suffixes of panels (`sparse_panels.PANELS`) and their names on the pages. The first choice is
the text's and, where the text is silent, noise 0.23 and the program's temperature, 0.05."""


def curves(
    axis: plt.Axes,
    runs: pd.DataFrame,
    labels: Mapping[str, str],
    pr: float,
    column: str = "minimum",
    whole: bool = False,
    dashed: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Means of panels over epochs, one colour a panel, with bands of one standard deviation over
    runs or, if `whole`, from the least run to the largest.

    labels: panel -> name; dashed: panel -> another one, in whose colour it is drawn, dashed. The
    abscissa is epochs + 1, so that the start is on a log scale; dotted,
    a random encoder of the panels' sizes (`random_encoder`). Panels that are not in `runs` are
    left out.
    """
    colors = {p: f"C{k}" for k, p in enumerate(p for p in labels if p not in dashed)}
    starts = {}
    for panel, label in labels.items():
        color, style = colors[dashed.get(panel, panel)], "--" if panel in dashed else "-"
        rows = runs[(runs.panel == panel) & np.isclose(runs.pr, pr)]
        if rows.empty:
            continue
        found = rows.groupby("epoch")[column].agg(["mean", "std"]).fillna(0.0)
        x = found.index.to_numpy() + 1
        axis.plot(x, found["mean"], style, color=color, label=label)
        band = found["mean"] - found["std"], found["mean"] + found["std"]
        if whole:
            band = rows.groupby("epoch")[column].min(), rows.groupby("epoch")[column].max()
        axis.fill_between(x, *band, color=color, alpha=0.2, linewidth=0)
        if column != "loss":
            starts.setdefault(random_encoder(panel, column), color)
    for value, color in starts.items():
        axis.axhline(value, color=color if len(starts) > 1 else "0.5", ls=":", lw=1)
    axis.set_xscale("log")


def grid(
    runs: pd.DataFrame,
    labels: Mapping[str, str],
    prs: tuple[float, ...] = (0.1, 0.2, 0.3),
    column: str = "minimum",
    height: float = 5.2,
    dashed: Mapping[str, str] = MappingProxyType({}),
    chosen: Sequence[str] = tuple(READINGS),
) -> plt.Figure:
    """Curves of the same panels: one row per reading (READINGS) that is chosen and was run, one
    column per Pr(sparse). Lines have labels and no legend, as in `measures`."""
    known = set(runs.panel)
    readings = {s: READINGS[s] for s in chosen if known & {p + s for p in labels}}
    figure, axes = plt.subplots(
        len(readings),
        len(prs),
        figsize=(9.5, 0.4 + height * len(readings) / 2),
        sharex=True,
        sharey="row",
        squeeze=False,
    )
    measure = "loss" if column == "loss" else f"{column.capitalize()} max-cosine"
    for row, (suffix, reading) in zip(axes, readings.items(), strict=True):
        named = {p + suffix: name for p, name in labels.items()}
        of = {p + suffix: other + suffix for p, other in dashed.items()}
        for axis, pr in zip(row, prs, strict=True):
            curves(axis, runs, named, pr, column, dashed=of)
            if column != "loss":
                axis.set_ylim(0, 1.02)
        row[0].set_ylabel(f"{reading}\n{measure}")
    for axis in axes[-1]:
        axis.set_xlabel("epochs + 1")
    for axis, pr in zip(axes[0], prs, strict=True):
        axis.set_title(f"Pr = {pr:g}")
    return figure


def readings(
    runs: pd.DataFrame,
    labels: Mapping[str, str],
    chosen: Sequence[str],
    pr: float = 0.1,
    dashed: Mapping[str, str] = MappingProxyType({}),
) -> plt.Figure:
    """Curves of the same panels at one Pr(sparse): one axis per reading (READINGS), two in a row,
    with room for names at the lines' ends. What `chosen` names first stands top left."""
    rows = -(-len(chosen) // 2)
    size = (9.2, 0.4 + 2.6 * rows)
    figure, axes = plt.subplots(rows, 2, figsize=size, sharex=True, sharey=True, squeeze=False)
    for axis, suffix in zip(axes.flat, chosen, strict=True):
        named = {p + suffix: name for p, name in labels.items()}
        of = {p + suffix: other + suffix for p, other in dashed.items()}
        curves(axis, runs, named, pr, dashed=of)
        axis.set(title=READINGS[suffix], ylim=(0, 1.02))
    for axis in axes[-1]:
        axis.set_xlabel("epochs + 1")
    for axis in axes[:, 0]:
        axis.set_ylabel("Minimum max-cosine")
    return figure


def measures(
    runs: pd.DataFrame,
    labels: Mapping[str, str],
    prs: tuple[float, ...] = (0.1, 0.2, 0.3),
    dashed: Mapping[str, str] = MappingProxyType({}),
) -> plt.Figure:
    """The four panels of ncl's figures, a row a Pr(sparse): Minimum, Median and Maximum max-cosine
    and loss; bands from the least run to the largest. Lines have labels and no legend: name them in
    the last column (`clcore.book.plots.label_ends`)."""
    columns = ("minimum", "median", "maximum", "loss")
    size = (10, 0.6 + 2.1 * len(prs))
    figure, axes = plt.subplots(len(prs), 4, figsize=size, sharex=True, squeeze=False)
    for row, pr in zip(axes, prs, strict=True):
        for axis, column in zip(row, columns, strict=True):
            curves(axis, runs, labels, pr, column, whole=True, dashed=dashed)
            if column != "loss":
                axis.set_ylim(0, 1.02)
        row[0].set_ylabel(f"Pr = {pr:g}")
    for axis, column in zip(axes[0], columns, strict=True):
        axis.set_title("loss" if column == "loss" else f"{column.capitalize()} max-cosine")
    for axis in axes[-1]:
        axis.set_xlabel("epochs + 1")
    return figure


@cache
def _random(m: int, p: int, d: int, draws: int = 400) -> dict[str, float]:
    atoms, start = cr.split(cr.key(0))
    cosines = torch.func.vmap(
        lambda a, b: sc.max_cosine(sc.random_start(b, m, p, d), sc.dictionary(a, p, d))
    )(cr.split(atoms, draws), cr.split(start, draws))
    return {k: float(v.mean()) for k, v in sc.summary(cosines).items()}


def random_encoder(panel: str, column: str = "minimum") -> float:
    """Mean Minimum (median, maximum) max-cosine of random encoders of the sizes of a panel."""
    for suffix in rt.OPEN:
        panel = panel.removesuffix(suffix)
    c = configurations(panel, seeds=[0])[0]
    return _random(c["m"], c["p"], c["d"])[column]


def cells(runs: pd.DataFrame, claim: str, readings: Sequence[str] = ("", "-quiet")) -> pd.DataFrame:
    """A printed table of ncl next to our runs, mean and standard deviation; a star marks a cell
    outside the ledger's rule. Rows: model (or sigma), metric; columns: Pr(sparse) by source.

    readings: which of READINGS.
    """
    tables = {"paper": rt.printed(claim)}
    tables |= {READINGS[suffix]: rt.beside(runs, claim, suffix) for suffix in readings}
    key = "sigma" if claim == "ncl/tab4" else "model"
    columns = {}
    for name, table in tables.items():
        own = name != "paper"
        mean, std = table["mean" if own else "paper"], table["std" if own else "paper_std"]
        text = (
            mean.map("{:.2f}".format)
            + " ± "
            + std.map("{:.2g}".format if not own else "{:.2f}".format)
        )
        if own:
            text += np.where(table.agrees, "", "*")
        for pr in (0.1, 0.2, 0.3):
            here = np.isclose(table.pr, pr)
            index = pd.MultiIndex.from_frame(table.loc[here, [key, "metric"]])
            columns[f"Pr = {pr:g}", name] = pd.Series(text[here].to_numpy(), index)
    order = [(f"Pr = {pr:g}", name) for pr in (0.1, 0.2, 0.3) for name in tables]
    rows = pd.MultiIndex.from_frame(tables["paper"][[key, "metric"]]).unique()
    return pd.DataFrame(columns).reindex(index=rows, columns=pd.MultiIndex.from_tuples(order))


def share(runs: pd.DataFrame, claim: str, suffix: str = "") -> str:
    """ "12 of 45" cells agree."""
    table = rt.beside(runs, claim, suffix)
    return f"{table.agrees.sum()} of {len(table)}"


FACTORS = {
    "predictor": ("predictor", False, True),
    "BatchNorm": ("batchnorm", False, True),
    "warm start": ("warm", False, True),
    "rows of norm 1": ("normalise", "none", "rows"),
    "columns of norm 1": ("normalise", "none", "columns"),
}


def effects(table: pd.DataFrame, score: str = "minimum") -> pd.DataFrame:
    """How much a factor of `sparse_factors.decide` changes a score, all others equal.

    The difference is averaged over the settings of the other factors, run by run; mean and 95 per
    cent interval (Student) are over seeds. One row a factor that varies in `table`.
    """
    names = ["predictor", "batchnorm", "warm", "normalise", "seed"]
    rows = {}
    for label, (name, off, on) in FACTORS.items():
        wide = table.set_index(names)[score].unstack(name)
        if off not in wide or on not in wide:
            continue
        each = (wide[on] - wide[off]).dropna().groupby("seed").mean()
        found = stats.paired(each)
        rows[label] = (found.difference, found.low, found.high, len(each))
    return pd.DataFrame.from_dict(rows, "index", columns=["mean", "low", "high", "seeds"])


def settings_map(axis: plt.Axes, table: pd.DataFrame, score: str = "minimum") -> None:
    """Means over seeds as a map with numbers: start and predictor down, BatchNorm and normalisation
    across."""
    named = table.assign(
        start=np.where(table.warm, "warm", "random"),
        head=np.where(table.predictor, ", predictor", ""),
        norm=np.where(table.batchnorm, "BatchNorm", "none"),
        of=table.normalise.replace("none", "free"),
    )
    named["row"], named["column"] = named.start + named["head"], named.norm + "\n" + named.of
    shown = named.pivot_table(index="row", columns="column", values=score, sort=False)
    sns.heatmap(
        shown, ax=axis, annot=True, fmt=".2f", vmin=0, vmax=1, cmap="cividis", cbar=False,
        annot_kws={"fontsize": "small"},
    )  # fmt: skip
    axis.set(xlabel="", ylabel="")
    axis.tick_params(axis="both", length=0, labelsize="small", labelrotation=0)


MASKS = {
    "keep 0.5": "Eq. 3, a half kept (text)",
    "Eq. 2": "Eq. 2, nothing shared (program)",
}
NOISES = {
    0.0: "none",
    0.05: "0.05",
    0.152: "0.15, program",
    0.2303: "0.23, Sec. 4.1",
    0.48: "0.48, Sec. 4.2",
}
WAYS = {"temperature": ((2.4, 1.86), (1.05, 1.86)), "noise": ((0.88, 3.4), (0.88, 2.05))}
"""Arrows of `temperature_map` from the first choice, in cells: where they end and begin, next to
the numbers."""


def temperature_map(table: pd.DataFrame, without: pd.DataFrame) -> plt.Figure:
    """Mean Minimum max-cosine of CL-basic at the end of `sparse_map.runs`, the rate in proportion
    to the temperature: masks across; in each, noise against temperature.

    without: NCL-basic, which has no temperature, with columns sigma, masks, minimum: the column at
    the right. The frame marks the printed settings (Sec. 4.1) at the program's temperature, arrows
    the ways out of it; the dashed frame is the same with the other masks. Masks that the table
    lacks are left out, settings that it lacks are blank.
    """
    ends = table[table.epoch == table.epoch.max()]
    # At the program's temperature the printed rate is the one in proportion.
    ends = ends[(ends.rate == "scaled") | (ends.temperature == 0.05)]
    beside = without.groupby(["masks", "sigma"]).minimum.mean()
    shown = {masks: name for masks, name in MASKS.items() if masks in set(table.masks)}
    size = (1.4 + 3.6 * len(shown), 3.9)
    figure, axes = plt.subplots(1, len(shown), figsize=size, sharey=True, squeeze=False)
    for axis, (masks, name) in zip(axes[0], shown.items(), strict=True):
        here = ends[ends.masks == masks]
        wide = here.pivot_table(index="sigma", columns="temperature", values="minimum")
        wide = wide.reindex(index=list(NOISES)[::-1], columns=[0.05, 0.1, 0.2, 0.5, 1.0])
        wide["NCL"] = [beside.get((masks, sigma), np.nan) for sigma in wide.index]
        words = wide.map(lambda value: "" if np.isnan(value) else f"{value:.2f}".lstrip("0"))
        sns.heatmap(
            wide, ax=axis, annot=words, fmt="", vmin=0.2, vmax=1, cmap="cividis", cbar=False,
            annot_kws={"fontsize": "medium"},
        )  # fmt: skip
        axis.axvline(5, color="w", lw=5)
        first = masks == "keep 0.5"
        line = "-" if first else "--"
        frame = plt.Rectangle((0, 1), 1, 1, fill=False, ec="tab:red", lw=2.5, ls=line)
        axis.add_patch(frame)
        for end, start in WAYS.values() if first else ():
            arrow = {"arrowstyle": "-|>", "color": "tab:red", "lw": 2}
            axis.annotate("", end, start, arrowprops=arrow)
        axis.set(xlabel="temperature; NCL-basic", ylabel="", title=name)
        axis.title.set_fontsize("small")
        axis.set_yticklabels([NOISES[sigma] for sigma in wide.index], rotation=0)
        axis.set_xticklabels([*(f"{t:g}" for t in wide.columns[:-1]), "NCL"], rotation=0)
    axes[0, 0].set_ylabel("noise")
    return figure
