"""Whether the nodes that were lucky at the start are those that learn (ddn abstract, Secs. 5, 6.1).

Functions of the correlations of single nodes with their latent before and after training, the runs
of Tables 4 and 6 with `tree_contrast.run(..., each=True)`.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy.stats import binomtest, rankdata

from clcore import stats
from clcore.experiments.tree_contrast import LATENTS, STEPS_PER_EPOCH
from clcore.ledger import Check, Trial, check
from clcore.ledger.trial import generator

TRIALS, EPOCHS = 10, 50

Nodes = pd.DataFrame
"""`identities` of the runs: a row per run, latent and node, with the node's correlation with its
latent at the start (initial), after an epoch (epoch1) and at the end (converged)."""
Unrelated = pd.DataFrame
"""`identities` of runs that train on views of unrelated objects."""


def identities(runs: pd.DataFrame) -> pd.DataFrame:
    """One row a run, latent and node: low, width, seed, latent, node, and its correlation with the
    latent, with its sign, at the start (initial), after a pass (epoch1) and at the end (converged);
    steps is how many the end had. Runs of one width, recorded with `each`."""
    steps = {"initial": 0, "epoch1": STEPS_PER_EPOCH, "converged": int(runs.step.max())}
    (width,) = runs.width.unique()
    names = {f"c_s{path}_{k}": (path, k) for path in LATENTS for k in range(width)}
    keys = ["low", "width", "seed"]
    columns = {}
    for stage, step in steps.items():
        at = runs[runs.step == step].melt(keys, list(names), "name", stage)
        columns[stage] = at.set_index([*keys, "name"])[stage]
    table = pd.DataFrame(columns).reset_index()
    path, node = zip(*table.pop("name").map(names), strict=True)
    table.insert(3, "latent", [f"s{p}" for p in path])
    table.insert(4, "node", node)
    return table.assign(low=table.low.round(3), steps=steps["converged"])


def _groups(table: pd.DataFrame, latent: str) -> tuple[np.ndarray, np.ndarray]:
    """|correlation| at the start and at the end, [runs, nodes]."""
    rows = table[table.latent == f"s{latent}"]
    return tuple(
        rows.pivot(index=["low", "seed"], columns="node", values=stage).abs().to_numpy()
        for stage in ("initial", "converged")
    )


def _ranks(first: np.ndarray, last: np.ndarray) -> float:
    """Spearman's correlation of a group's nodes before and after, mean over runs; 0 for groups
    whose nodes are all dead."""
    a, b = (rankdata(v, axis=1) for v in (first, last))
    a, b = (v - v.mean(1, keepdims=True) for v in (a, b))
    size = np.sqrt((a**2).sum(1) * (b**2).sum(1))
    return float(((a * b).sum(1) / np.where(size > 0, size, 1)).mean())


def _stays(first: np.ndarray, last: np.ndarray) -> float:
    """Share of runs in which the best node of a group is the best one at the end."""
    return float((first.argmax(1) == last.argmax(1)).mean())


def _beside(first: np.ndarray, last: np.ndarray) -> tuple[float, float]:
    """What the best node of the start gains on average, and the other nodes of its group."""
    gain, rows = last - first, np.arange(len(first))
    best = gain[rows, first.argmax(1)]
    return float(best.mean()), float((gain.sum(1) - best).mean() / (first.shape[1] - 1))


def _symbol(path: str) -> str:
    return f"z_s{path}" if path else "z_0"


def _gains(table: pd.DataFrame) -> np.ndarray:
    """What the best node of the start gains by the end, all groups not fed by leaves."""
    out = []
    for latent in LATENTS[:-1]:
        first, last = _groups(table, latent)
        rows = np.arange(len(first)), first.argmax(1)
        out.append(last[rows] - first[rows])
    return np.concatenate(out)


def sign_test(gain: np.ndarray) -> float:
    """p of as many gains above 0, or more, if either sign had the same chance."""
    gain = np.ravel(gain)
    return float(binomtest(int((gain > 0).sum()), len(gain), alternative="greater").pvalue)


def _shuffled(table: pd.DataFrame, statistic: Callable, over: Callable) -> float:
    """`over` the latents of a statistic with the nodes' identities exchanged at random at the end,
    the median of many exchanges."""
    first, last = zip(*(_groups(table, path) for path in LATENTS), strict=True)

    def of(*mixed: np.ndarray) -> float:
        return over([statistic(a, b) for a, b in zip(first, mixed, strict=True)])

    return stats.exchanged(of, *last, rng=generator("identities", 0))


@check("ddn/rem17", on="runs")
def rem17(t: Trial, table: Nodes, unrelated: Unrelated) -> None:
    """SimCLR amplifies initially lucky nodes into latents (Abstract; Secs. 5, 6.1.2).

    Protocol   SB-HLTM, L = 5, SimCLR (the runs of Tables 4 and 6), 10 nodes per latent: each
               node's correlation with its latent before and after training; 50 epochs and 10
               trials, or it is called partial.
    Question   (1) Does the best node of a group at the start gain by the end (sign test over groups
               not fed by leaves, p <= 0.01)? (2) Do nodes keep their rank (correlation 0.1 or more
               at every latent)? (3) Does the best stay the best in a share of 1.5/10 or more, where
               chance has 1/10?
    Refuted    by (1) a larger p, (2) a lower correlation, (3) a smaller share. Controls: (1)
               training on views of unrelated objects; (2), (3) nodes' identities exchanged at
               random.
    """
    trials = table.groupby("low").seed.nunique().min()
    full = trials >= TRIALS and table.steps.max() >= EPOCHS * STEPS_PER_EPOCH
    evidence, width = "protocol" if full else "partial", int(table.width.iloc[0])

    # (1) Sign test on what each group's best node of the start gains.
    gain = _gains(table)
    learns = t.part("the lucky node learns", 0.01, evidence=evidence, draws=len(gain))
    learns.add(sign_test(gain)).says(share=(gain > 0).mean())
    both = {path: _beside(*_groups(table, path)) for path in LATENTS}
    learns.says(behind=sum(best < rest for best, rest in both.values()), latents=len(both))
    told = (
        f"{best:+.3f} against {rest:+.3f} ({_symbol(path)})" for path, (best, rest) in both.items()
    )
    learns.says(gains=", ".join(told))
    learns.breaks("views of unrelated objects", sign_test(_gains(unrelated)))

    # (2) The latent with the least rank correlation, before and after training; (3) how often the
    # best node stays the best, mean over latents.
    draws = len(table) // width
    rank = t.part("nodes keep their rank", 0.1, ">=", evidence=evidence, draws=draws)
    place = t.part("the best stays the best", 1.5 / width, ">=", evidence=evidence, draws=draws)
    place.says(chance=1 / width)
    for part, statistic, over in ((rank, _ranks, min), (place, _stays, np.mean)):
        found = {path: statistic(*_groups(table, path)) for path in LATENTS}
        part.add(over(list(found.values())))
        part.breaks("identities exchanged at random", _shuffled(table, statistic, over))
        each = (f"{v:.2f} ({_symbol(path)})" for path, v in found.items())
        part.says(each=", ".join(each))


def checks(
    table: pd.DataFrame, unrelated: pd.DataFrame
) -> list[Callable[[int, int], Iterator[Check]]]:
    """The checks of what happens to lucky nodes, as `Ledger.run` takes them."""
    return [lambda draws, seed: rem17(table, unrelated)]
