"""Tables 4 and 6 of ddn against our runs (ddn Sec. 7, App. D.1).

Functions of a table of runs (`tree_contrast.run`); below 10 trials or 50 epochs it is `partial`.
"""

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pandas as pd
import torch

from clcore import ledger, stats
from clcore import random as cr
from clcore.checks.hltm.runs.identities import sign_test
from clcore.experiments.tree_contrast import LATENTS, STEPS_PER_EPOCH
from clcore.ledger import Check, Trial, check
from clcore.ledger.judging import Shared
from clcore.ledger.trial import generator
from clcore.theory.trees import leaf_patterns, pattern_net, tree_statistics

TRIALS, EPOCHS = 10, 50
SHARE = 0.9  # of cells; two standard errors leave out about one cell in twenty by chance
GAIN = 0.05  # of the paper's, from which on ours should show it
CELL = ["latent", "low", "width", "stage"]
ORDERS = {"stage": ("initial", "epoch1", "converged"), "low": (0.7, 0.8, 0.9), "width": (2, 10)}
"""In which order NC should rise."""
EVERY, MEASURED = "latent == latent", "nc == nc"  # queries: every row, or those with a number
SHOWN = {"stage": "{}", "low": "delta = {}", "width": "{} nodes"}
SHUFFLES = 200  # of a control: labels exchanged at random, the median of what they give

Runs = pd.DataFrame
"""A row per run (seed, width, polarities from `low` to 1) and step, under the paper's loss; nc_s101
and the like: the normalised correlation of z_s101 with its nodes."""
Released = pd.DataFrame
"""The runs under the loss of the authors' program, in the same columns."""
Unrelated = pd.DataFrame
"""Runs that train on views of unrelated objects, in the same columns."""


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
    return table.assign(agrees=ledger.agreements(table, table, TRIALS))


def _widths_exchanged(table: pd.DataFrame) -> float:
    """Share of printed cells that agree with our results at the other width."""
    ours = stats.other_cells(table, CELL, width=12 - table.width)
    return float(np.mean(ledger.agreements(ours, table, TRIALS)))


def evidence(runs: pd.DataFrame) -> str:
    """Whether runs are at the paper's own protocol (10 trials a cell, 50 epochs)."""
    trials = runs.groupby(["low", "width"]).seed.nunique().min()
    full = trials >= TRIALS and runs.step.max() >= EPOCHS * STEPS_PER_EPOCH
    return "protocol" if full else "partial"


def _share(t: Trial, runs: pd.DataFrame, released: pd.DataFrame, keep: str) -> None:
    """Share of cells that agree, under the paper's loss. Control: results of the other width."""
    table, other = (cells(v).query(keep).reset_index(drop=True) for v in (runs, released))
    draws = int(table["count"].sum())
    part = t.part("cells", SHARE, ">=", evidence=evidence(runs), draws=draws)
    part.add(table.agrees.mean()).breaks("widths exchanged", _widths_exchanged(table))
    part.says(agree=table.agrees.sum(), cells=len(table))
    part.says(other_agree=other.agrees.sum(), other_cells=len(other))
    early = _early(cells(runs)).query(keep).reset_index(drop=True)
    part.says(early=sum(ledger.agreements(early, early, TRIALS)))


def _early(table: pd.DataFrame) -> pd.DataFrame:
    """`cells` with our results after epoch 1 for those at the end."""
    index = table.set_index(CELL)
    ours = ["mean", "std", "count"]
    for latent, low, width, stage in index.index:
        if stage == "converged":
            own = (latent, low, width)
            index.loc[(*own, stage), ours] = index.loc[(*own, "epoch1"), ours].to_numpy()
    return index.reset_index()


def _shuffled(values: np.ndarray, statistic: Callable[[np.ndarray], float], name: str) -> float:
    """`stats.exchanged`, with the random numbers of that name."""
    return stats.exchanged(statistic, values, rng=generator(name, 0), draws=SHUFFLES)


def _errors(values: np.ndarray) -> np.ndarray:
    """Steps between neighbouring labels in standard errors, paired by run; values: [rows, labels,
    runs], result [rows, labels - 1]; 0 where nothing moves, at most 1e9 where runs agree."""
    return stats.paired(values[:, 1:], values[:, :-1]).t.clip(-1e9, 1e9)


def _order(t: Trial, runs: pd.DataFrame, column: str, keep: str) -> None:
    """Whether NC rises along one of `ORDERS`. Control: its labels permuted at random."""
    tall = measured(runs).query(keep)
    others = [c for c in CELL if c != column]
    labels = [label for label in ORDERS[column] if label in set(tall[column])]
    wide = tall.pivot(index=[*others, "seed"], columns=column, values="nc")[labels]
    rows = wide.index.droplevel("seed").unique()
    values = wide.to_numpy().reshape(len(rows), -1, len(labels)).swapaxes(1, 2)
    steps = np.diff(values.mean(-1), axis=1)
    units = [SHOWN[c] for c in others[1:]]
    odd = [
        f"; not {_name(row[0])} ({', '.join(map(str.format, units, row[1:]))})"
        f" from {labels[k]} to {labels[k + 1]}"
        for row, each in zip(rows, steps < 0, strict=True)
        for k in np.flatnonzero(each)
    ]
    name = f"rises with {column.replace('low', 'delta')}"
    part = t.part(name, -2.0, ">=", evidence=evidence(runs), draws=len(tall))
    part.add(_errors(values))
    part.breaks("labels exchanged at random", _shuffled(values, lambda v: _errors(v).min(), column))
    part.says(rise=steps.size - len(odd), steps=steps.size, but="".join(odd))


def _orders(t: Trial, runs: pd.DataFrame, keep: str = MEASURED) -> None:
    """NC along each of `ORDERS`, and less spread at 10 nodes than at 2."""
    for column in ORDERS:
        _order(t, runs, column, keep)
    kept = measured(runs).query(keep)
    wide = kept.groupby(CELL).nc.std().unstack("width")[list(ORDERS["width"])].to_numpy()
    part = t.part("std falls with width", 0.0, ">=", evidence=evidence(runs))
    part.add(wide[:, 0] - wide[:, 1]).says(rows=len(wide))
    exchanged = _shuffled(wide, lambda v: float((v[:, 0] - v[:, 1]).min()), "std")
    part.breaks("widths exchanged at random", exchanged)


def _clear(runs: pd.DataFrame, keep: str) -> tuple[list[tuple], np.ndarray]:
    """The rows in which the paper gains GAIN or more up to the end, and our own values there: a
    (latent, low, width, stage before) each, and [rows, stages, runs]."""
    paper = printed().query(keep).pivot(index=CELL[:3], columns="stage", values="paper")
    tall = measured(runs).pivot(index=[*CELL[:3], "seed"], columns="stage", values="nc")
    rows = [
        (*row, stage)
        for stage in ("initial", "epoch1")
        if stage in paper
        for row in paper.index[paper["converged"] - paper[stage] >= GAIN - 1e-9]
    ]
    stages = list(ORDERS["stage"])
    return rows, np.stack([tall.loc[row[:3], stages].to_numpy().T for row in rows])


def _pooled(rows: list[tuple], values: np.ndarray, last: str = "converged") -> dict[tuple, float]:
    """What is gained up to the end in standard errors over polarities and runs, mean over latents;
    by the stage before and width."""
    place, found = {stage: k for k, stage in enumerate(ORDERS["stage"])}, {}
    for stage, width in dict.fromkeys((row[3], row[2]) for row in rows):
        gains: dict[float, list[np.ndarray]] = {}
        for row, value in zip(rows, values, strict=True):
            if (row[3], row[2]) == (stage, width):
                gains.setdefault(row[1], []).append(value[place[last]] - value[place[stage]])
        mean = np.concatenate([np.mean(gain, 0) for gain in gains.values()])
        found[stage, width] = float(stats.paired(mean).t.clip(-1e9, 1e9))
    return found


def _gains(t: Trial, runs: pd.DataFrame, released: pd.DataFrame, keep: str) -> None:
    """Whether the paper's gains are reproduced: t > 2 in training."""
    rows, values = _clear(runs, keep)
    found, other = _pooled(rows, values), _pooled(*_clear(released, keep))
    part = t.part("gains", 2.0, ">=", evidence=evidence(runs), draws=values.size)
    part.add(list(found.values()))
    part.breaks(
        "stages exchanged at random",
        _shuffled(values, lambda v: min(_pooled(rows, v).values()), "gains"),
    )
    if any(row[3] == "epoch1" for row in rows):
        part.breaks("epoch 1 for the end", min(_pooled(rows, values, "epoch1").values()))
    alone = [_pooled([row], value[None]) for row, value in zip(rows, values, strict=True)]
    part.says(clear=sum(min(one.values()) > 2 for one in alone), rows=len(rows))
    part.says(each=_told(found), other=_told(other))


def _told(found: dict[tuple, float]) -> str:
    """Each t with its stage and its width, for a note."""
    names = {"initial": "the start", "epoch1": "epoch 1"}
    return ", ".join(f"{v:.1f} (from {names[s]}, {w} nodes)" for (s, w), v in found.items())


@check("ddn/tab6", on="runs")
def tab6(t: Trial, runs: Runs, released: Released) -> None:
    """Correlation of five latents with their best nodes, in training (Table 6).

    Protocol   SB-HLTM, L = 5, SimCLR with the NCE loss, 2 and 10 nodes per latent, polarities
               from U[low, 1], 10 trials per cell, 50 epochs; runs of the paper's loss and of the
               released one.
    Question   Do nine of ten of the 90 cells agree? Is what the paper gains, 0.05 or more, gained
               here (t > 2)? Does the correlation rise with stage, polarity and width, no step
               against it by two standard errors, and its std fall with width? Are the rows of z_0
               those of Table 4?
    Refuted    by fewer cells, a smaller gain, a step down, a std that rises. Controls: the other
               width, labels exchanged at random, epoch 1 for the end, the rows of z_s0.
    """
    _share(t, runs, released, EVERY)
    _gains(t, runs, released, EVERY)
    _orders(t, runs)
    tables = [ledger.claim(f"ddn/{name}")["numbers"] for name in ("tab4", "tab6")]

    def gap(path: str) -> float:
        """The largest difference of Table 4 to a latent of Table 6, columns that both have."""
        return max(
            abs(a - b)
            for low in ("U[0.7,1]", "U[0.8,1]", "U[0.9,1]")
            for width, stages in tables[0][low].items()
            for stage, cell in stages.items()
            for a, b in zip(cell, tables[1][_name(path)][low][width][stage], strict=True)
        )

    part = t.part("z_0 as in Table 4", 0.0, draws=12, sort="sampled")
    part.add(gap("")).breaks("z_s0 for z_0", gap("0"))


@check("ddn/tab4", on="runs")
def tab4(t: Trial, runs: Runs, released: Released) -> None:
    """Correlation of the topmost latent with its best node (Table 4).

    Protocol   the runs of Table 6 (SB-HLTM, L = 5, SimCLR): root and best node, at start and end.
    Question   Do nine cells in ten agree? Are gains of 0.05 gained here (t > 2)? Does the mean
               never fall with stage, polarity, width (by two standard errors), the std never rise?
    Refuted    by fewer cells, a smaller gain, a step down. Controls: other width, labels exchanged.
    """
    keep = "latent == '' and stage != 'epoch1'"
    _share(t, runs, released, keep)
    _gains(t, runs, released, keep)
    _orders(t, runs, keep)


def _trends(
    t: Trial, table: pd.DataFrame, name: str, column: str, source: str, runs: str = ""
) -> None:
    """The first and the third trend, on a column of `cells`; runs: statements on single runs."""
    wide = table.pivot(index=["low", "width", "stage"], columns="latent", values=column)
    below = wide[["0", "1"]].mean(axis=1)  # the level below the root
    values = np.stack([wide[""], below, wide["101"], wide["0111"]], 1)
    words = "(1), (2) the lower the better"
    sort = "sampled" if source == "exact" else "trained"
    kind: Shared = {"words": words, "evidence": source, "sort": sort}
    part = t.part(f"{words}, {name}", 0.02, ">=", draws=len(wide), **kind)
    part.add(_least_step(values))
    part.breaks("latents exchanged at random", _shuffled(values, _least_step, "latents"))
    part.says(rise=(np.diff(values, axis=1) > 0).all(axis=1).sum(), columns=len(wide), runs=runs)
    part.says(**{f"under{path}": (wide[path] < wide[""] - 1e-9).sum() for path in ("0", "1")})
    widths = {"(3) faster in epoch 1 at 10 nodes": first_pass(table, column)}
    for stage, when in (("initial", "before"), ("converged", "after")):
        at = table[table.stage == stage].set_index(["latent", "low", "width"])[column]
        widths[f"(3) higher at 10 nodes {when} training"] = at.unstack("width")
    for words, at in widths.items():
        more = at[10] - at[2] > 1e-9  # printed numbers are decimals: equal ones may differ
        never = ", ".join(_name(path) for path in LATENTS if not more[path].any())
        kind["words"] = words
        part = t.part(f"{words}, {name}", 0.02, ">=", draws=at.size, **kind)
        part.add(_least_step(at.to_numpy()))
        part.breaks("widths exchanged at random", _shuffled(at.to_numpy(), _least_step, "widths"))
        part.says(more=more.sum(), rows=len(more), never=f", never at {never}" if never else "")


@check("ddn/rem11", on="runs")
def rem11(t: Trial, runs: Runs) -> None:
    """Correlation is higher with over-parameterisation and in lower layers (App. D.1, trends 1-3).

    Protocol   the printed numbers of Table 6 (SB-HLTM, L = 5, SimCLR), and our runs of it.
    Question   (1), (2): is z_s0111 above z_s101, that above the mean of z_s0 and z_s1, and that
               above z_0, by 0.02 a step, on average? (2) Are all cells at 0.1 or more before
               training, and a leaf's node at exactly 1? (3) Are start, end and the gain of epoch 1
               higher at 10 nodes than at 2, by 0.02?
    Refuted    by a smaller step, cell or leaf. Controls: latents or widths exchanged at random,
               polarities below a half, polarity 0.9.
    """
    table, kind = cells(runs), evidence(runs)

    # (1), (2) Layers and (3) widths, in the printed numbers, then in our runs.
    _trends(t, table, "printed numbers", "paper", "exact")
    tall = measured(runs)
    ends = tall.query("stage == 'converged' and width == 2").set_index(["latent", "low", "seed"])
    gap = ends.nc["1"] - ends.nc[""]
    runs_say = f"; run by run at the end, 2 nodes: {(gap < 0).sum()} below, {(gap > 0).sum()} above"
    _trends(t, table, "our runs", "mean", kind, runs_say)

    # (2) The least cell before training, and an untrained leaf.
    start = tall.query("stage == 'initial'").groupby(CELL).nc.mean()
    part = t.part("(2) at initialisation", 0.1, ">=", evidence=kind, draws=len(tall))
    part.add(start).breaks("polarities below a half", _weak())
    part = t.part("(2) a node that is a leaf", 1e-12, draws=2, sort="sampled")
    part.add(abs(1 - _single(1.0))).breaks("polarity 0.9", abs(1 - _single(0.9)))


def _single(rho: float) -> float:
    """Correlation of a latent with a node that copies its left leaf, by the exact law of both."""
    params = {
        "w0": torch.tensor([[[1.0, 0.0]]], dtype=torch.float64),
        "b0": torch.zeros(1, 1, dtype=torch.float64),
    }
    polarity = torch.tensor([rho, 0.5], dtype=torch.float64)
    return float(tree_statistics.correlations(params, polarity))


def first_pass(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """What NC gains in the first epoch, a row each latent and polarity, a column each width; of
    `cells`, column "paper" or "mean"."""
    stage = table.pivot(index=["latent", "low", "width"], columns="stage", values=column)
    return (stage["epoch1"] - stage["initial"]).unstack("width")[list(ORDERS["width"])]


def _least_step(values: np.ndarray) -> float:
    """The least rise between neighbouring labels, mean over rows; values: [rows, labels]."""
    return float(np.diff(values, axis=1).mean(0).min())


def _weak() -> float:
    """The root's NC in untrained nets, mean of ten, where polarities are uniform on [0, 1/2]."""
    found = []
    for seed in range(TRIALS):
        params = pattern_net.init(cr.key(seed), 5, 10)
        rho = leaf_patterns.random_polarity(cr.fold_in(cr.key(seed), 1), 5, 0.0, False) / 2
        found.append(float(tree_statistics.correlations(params, rho).abs().max()))
    return float(np.mean(found))


@check("ddn/rem12", on="runs")
def rem12(t: Trial, runs: Runs, shuffled: Unrelated) -> None:
    """Intermediate layers learn the tree's latents unsupervised (Sec. 7; Sec. 6.1.2).

    Protocol   SB-HLTM, L = 5, SimCLR (the runs of Tables 4 and 6), paired over seeds and trees.
    Question   By sign tests, p <= 0.01: does (1) the mean correlation of z_s0, z_s1 and z_s101, and
               (2) that of the root grow in training? (3) Is the mean at the end larger with 10
               nodes than with 2?
    Refuted    by a larger p. Controls: (1), (2) runs on views of unrelated objects; (3) widths
               exchanged at random.
    """

    def gains(table: pd.DataFrame) -> pd.DataFrame:
        last = table[table.step == table.step.max()].set_index(["low", "width", "seed"])
        first = table[table.step == 0].set_index(["low", "width", "seed"])
        found = last[[f"nc_s{path}" for path in LATENTS]] - first[[f"nc_s{p}" for p in LATENTS]]
        return found.set_axis(list(LATENTS), axis=1)

    gain, other, kind = gains(runs), gains(shuffled), evidence(runs)
    # (1), (2) Correlation at the end minus that at the start.
    for name, paths in (("learning", ["0", "1", "101"]), ("learning, the root", [""])):
        part = t.part(name, 0.01, evidence=kind, draws=len(gain))
        part.add(sign_test(gain[paths].mean(axis=1).to_numpy()))
        part.breaks("views of unrelated objects", sign_test(other[paths].mean(axis=1).to_numpy()))
        part.says(each=_by_width(gain, ["0", "1", "101", "0111"] if len(paths) > 1 else paths))
    # (3) Correlation with 10 nodes minus that with 2.
    last = measured(runs).query("stage == 'converged'")
    wide = last.groupby(["low", "seed", "width"]).nc.mean().unstack()[[2, 10]].to_numpy()
    name = "over-parameterisation"
    part = t.part(name, 0.01, evidence=kind, draws=len(wide)).add(sign_test(np.diff(wide)))
    exchanged = _shuffled(wide, lambda v: sign_test(np.diff(v)), name)
    part.breaks("widths exchanged at random", exchanged)


def _by_width(gain: pd.DataFrame, paths: list[str]) -> str:
    """Gain, and in how many runs it rises, falls and stays, of each latent and width."""
    told = []
    for path, (width, rows) in product(paths, gain.groupby("width")):
        up, down = int((rows[path] > 0).sum()), int((rows[path] < 0).sum())
        where = f"{_name(path)} at {width} nodes"
        told.append(f"{where} {rows[path].mean():+.3f} ({up}, {down}, {len(rows) - up - down})")
    return "; ".join(told)


def beside(
    runs: pd.DataFrame, released: pd.DataFrame, shuffled: pd.DataFrame
) -> list[Callable[[int, int], Iterator[Check]]]:
    """The checks of both tables and of the statements on them, as `Ledger.run` takes them; of runs
    under the paper's loss, under the released one, and on unrelated views (shuffled)."""
    return [
        lambda draws, seed: tab6(runs, released),
        lambda draws, seed: tab4(runs, released),
        lambda draws, seed: rem11(runs),
        lambda draws, seed: rem12(runs, shuffled),
    ]
