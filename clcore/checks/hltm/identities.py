"""Whether the nodes that were lucky at the start are those that learn (ddn abstract, Secs. 5, 6.1).

Functions of the correlations of single nodes with their latent before and after training, the runs
of Tables 4 and 6 with `tree_contrast.run(..., each=True)`.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy.stats import binomtest, rankdata

from clcore import reference as ref
from clcore.experiments.tree_contrast import LATENTS, STEPS_PER_EPOCH
from clcore.ledger import Check

TRIALS, EPOCHS = 10, 50
SHUFFLES = 200


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


def _gains(table: pd.DataFrame) -> np.ndarray:
    """What the best node of the start gains by the end, all groups not fed by leaves."""
    out = []
    for latent in LATENTS[:-1]:
        first, last = _groups(table, latent)
        rows = np.arange(len(first)), first.argmax(1)
        out.append(last[rows] - first[rows])
    return np.concatenate(out)


def _sign_test(gain: np.ndarray) -> float:
    return float(binomtest(int((gain > 0).sum()), len(gain), alternative="greater").pvalue)


def _shuffled(table: pd.DataFrame, statistic: Callable, over: Callable) -> float:
    """`over` the latents of a statistic with the nodes' identities exchanged by chance at the end,
    the median of many exchanges."""
    rng, groups = ref.generator("identities", 0), [_groups(table, path) for path in LATENTS]
    found = [
        over([statistic(a, rng.permuted(b, axis=1)) for a, b in groups]) for _ in range(SHUFFLES)
    ]
    return float(np.median(found))


def rem17(table: pd.DataFrame, unrelated: pd.DataFrame) -> Iterator[Check]:
    """Gains of the best nodes of the start, and whether nodes keep their rank and the best its
    place.

    table: `identities` of runs; unrelated: of runs on views of unrelated objects. Controls: these;
    identities exchanged by chance.
    """
    trials = table.groupby("low").seed.nunique().min()
    full = trials >= TRIALS and table.steps.max() >= EPOCHS * STEPS_PER_EPOCH
    kind = {"evidence": "protocol" if full else "partial"}
    gain, groups = _gains(table), {path: _groups(table, path) for path in LATENTS}
    width = int(table.width.iloc[0])

    def each(statistic: Callable) -> str:
        values = (statistic(*groups[path]) for path in LATENTS)
        return ", ".join(
            f"{v:.2f} ({'z_0' if not path else f'z_s{path}'})"
            for path, v in zip(LATENTS, values, strict=True)
        )

    yield Check(
        "ddn/rem17",
        _sign_test(gain),
        0.01,
        {"views of unrelated objects": _sign_test(_gains(unrelated))},
        draws=len(gain),
        part="the lucky node learns",
        note="Sign test over runs and groups not fed by leaves of what a group's best node at the "
        f"start gains in |correlation| by the end: it does in {(gain > 0).mean():.0%}.",
        **kind,
    )
    ranks = [_ranks(*groups[path]) for path in LATENTS]
    yield Check(
        "ddn/rem17",
        min(ranks),
        0.1,
        {"identities exchanged by chance": _shuffled(table, _ranks, min)},
        draws=len(table) // width,
        part="nodes keep their rank",
        relation=">=",
        note="Rank correlation of the nodes of a group before and after training, mean over runs: "
        f"{each(_ranks)}. The least counts.",
        **kind,
    )
    stays = [_stays(*groups[path]) for path in LATENTS]
    yield Check(
        "ddn/rem17",
        float(np.mean(stays)),
        1.5 / width,
        {"identities exchanged by chance": _shuffled(table, _stays, np.mean)},
        draws=len(table) // width,
        part="the best stays the best",
        relation=">=",
        note=f"Share of groups whose best node at the start is the best at the end, by chance "
        f"{1 / width:.2f}: {each(_stays)}; their mean counts. Fails where it is read of the upper "
        "latents alone: there the best node at the end is as a rule another one, for nodes that "
        "knew little catch up.",
        **kind,
    )


def checks(
    table: pd.DataFrame, unrelated: pd.DataFrame
) -> list[Callable[[int, int], Iterator[Check]]]:
    """The checks of what happens to lucky nodes, as `Ledger.run` takes them."""
    return [lambda draws, seed: rem17(table, unrelated)]
