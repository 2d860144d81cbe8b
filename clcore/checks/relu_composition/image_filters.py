"""acl Sec. 6.2, Figure 7: total variation of a ResNet's filters against the strength of
augmentation.

The checks are functions of a table of runs, as `curves` makes it: one row per run at its end with
`curve` ("jitter" or "gray": what varies), `level`, `seed`, `linear` (accuracy in [0, 1]) and a
`tv_`, `unit_` and `norm_` column a layer: means over its filters of the total variation as it is,
of that at norm 1, which no scale changes, and of the norm. `dataset`, `images`, `width` and `epoch`
say how far a run is from the paper's.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd
from scipy import stats

from clcore.images.datasets import called
from clcore.ledger import Check, Trial, check
from clcore.ledger.judging import Shared
from clcore.ledger.trial import generator

EPOCHS, LEVELS, SEEDS, WIDTH, IMAGES = 300, 5, 3, 64, 105_000
CURVES = ("jitter", "gray")
MEASURES = ("tv", "unit", "norm")
SHUFFLES = 200

Runs = pd.DataFrame
"""A row per run (jitter, grey, seed) and epoch: linear, the accuracy; tv_, unit_ and norm_ of each
layer's filters."""


def curves(runs: pd.DataFrame) -> pd.DataFrame:
    """From rows of `pretraining.grid` with `jitter` (strength) and `gray` (chance), of which one is
    zero: the last row of each run that did not diverge, in the curve or curves it belongs to. The
    runs with neither begin both curves."""
    last = runs[(runs.epoch == runs.epoch.max()) & ~runs.diverged.astype(bool)]
    jitter = last[last.gray == 0].assign(curve="jitter", level=lambda t: t.jitter)
    gray = last[last.jitter == 0].assign(curve="gray", level=lambda t: t.gray)
    return pd.concat([jitter, gray], ignore_index=True)


def trained(runs: pd.DataFrame) -> pd.DataFrame:
    """What training does to each layer and measure, from rows of `pretraining.grid` that have
    epoch 0: columns layer, measure, change (end over start of a run, minus 1; mean over the runs of
    a seed, then over seeds) and half (of its 95 per cent interval over seeds, Student). Diverged
    runs are left out."""
    key = ["seed", "jitter", "gray"]
    kept = runs[~runs.diverged.astype(bool)].set_index(key)
    names = {f"{m}_{layer}": (layer, m) for layer in layers(runs) for m in MEASURES}
    start, end = (kept.loc[kept.epoch == e, [*names]] for e in (0, runs.epoch.max()))
    each = (end / start - 1).groupby("seed").mean()
    of = stats.t.ppf(0.975, len(each) - 1)
    rows = [(*names[c], each[c].mean(), of * each[c].sem()) for c in names]
    return pd.DataFrame(rows, columns=["layer", "measure", "change", "half"])


def layers(runs: pd.DataFrame) -> list[str]:
    """The layers that runs have a total variation of."""
    return [name.removeprefix("tv_") for name in runs.columns if name.startswith("tv_")]


def evidence(runs: pd.DataFrame) -> str:
    """Whether runs are at the paper's size: STL-10, all of it, its net, 300 epochs, and the grid
    and seeds that the ledger asks for."""
    full = (
        set(runs.dataset) == {"stl10"}
        and runs.images.min() >= IMAGES
        and runs.width.min() >= WIDTH
        and runs.epoch.min() >= EPOCHS
        and runs.groupby("curve")["level"].nunique().min() >= LEVELS
        and runs.seed.nunique() >= SEEDS
    )
    return "protocol" if full else "partial"


def about(runs: pd.DataFrame) -> str:
    """Seeds, data, epochs and width in words, for a note."""
    r = runs.iloc[0]
    return (
        f"{runs.seed.nunique()} seeds. {called(r.dataset)}; {r.images:,} images, {r.epoch} epochs, "
        f"width {r.width} (paper: STL-10, 300 epochs, width 64)."
    )


@dataclass(frozen=True)
class Curve:
    """What one curve's runs have: `accuracy` [seeds, levels], and each measure of each layer,
    `filters` [seeds, levels, layers]. Seeds that lack a level are left out."""

    levels: np.ndarray  # strengths of colour jitter, or chances of grey
    accuracy: np.ndarray  # linear accuracy, [seeds, levels]
    filters: dict[str, np.ndarray]  # of each measure, tv as it is or unit at norm 1

    def ratios(self, measure: str = "tv") -> np.ndarray:
        """A measure over its value at the first level, seed by seed."""
        values = self.filters[measure]
        return values / values[:, :1]

    def best(self) -> int:
        """Which level has the best mean accuracy."""
        return int(self.accuracy.mean(0).argmax())

    def risen(self, measure: str = "tv") -> int:
        """Layers whose mean ratio at the best level is above 1 by more than two standard errors
        over seeds; none where the first level is the best."""
        more = self.ratios(measure)[:, self.best()] - 1
        error = more.std(0, ddof=1) / len(more) ** 0.5
        return int(((more.mean(0) > 2 * error) & (error > 0)).sum())

    def apart(self) -> int:
        """Steps of the grid between the levels where accuracy and mean total variation (ratios, of
        all layers) are largest."""
        return abs(int(self.ratios().mean((0, 2)).argmax()) - self.best())

    def exchanged(self, rng: np.random.Generator) -> "Curve":
        """The same with each seed's filters at other levels, at random."""
        order = rng.permuted(np.tile(np.arange(len(self.levels)), (len(self.accuracy), 1)), axis=1)
        other = {
            name: np.take_along_axis(values, order[..., None], 1)
            for name, values in self.filters.items()
        }
        return replace(self, filters=other)


def curve(runs: pd.DataFrame, name: str) -> Curve:
    """The curve of this name, "jitter" or "gray", from rows that `curves` made."""
    part = runs[runs.curve == name]
    wide = part.pivot(index="seed", columns="level").dropna()
    if len(wide) < 2:
        raise ValueError(f"expected two seeds with all levels of the {name} curve, got {len(wide)}")
    filters = {
        measure: np.stack([wide[f"{measure}_{layer}"].to_numpy() for layer in layers(runs)], -1)
        for measure in MEASURES
    }
    accuracy = wide["linear"]
    return Curve(accuracy.columns.to_numpy(), accuracy.to_numpy(), filters)


def _stronger(c: Curve, first: int) -> np.ndarray:
    """Total variation at norm 1 of one layer's filters, the last level minus the first, [seeds]."""
    return c.filters["unit"][:, -1, first] - c.filters["unit"][:, 0, first]


@check("acl/fig7", on="runs")
def fig7(t: Trial, runs: Runs, seed: int = 0) -> None:
    """Augmentation strength, total variation of filters and accuracy (Figure 7).

    Protocol   STL-10, ResNet18, 300 epochs, two curves: five strengths of colour jitter and five
               chances of grey; three seeds; smaller runs are marked. TV is the total variation of a
               layer's filters (Eq. 18), their mean.
    Question   Left: (1) is TV above its first value, by two standard errors, where accuracy is
               best, in most layers of both curves? (2) Are TV and accuracy largest within one step
               of the grid? Right: (3) do the first filters, at norm 1, have more TV under the
               strongest augmentation than under none?
    Refuted    (1) by fewer layers, (2) by peaks further apart, (3) by a difference within its 95
               per cent interval. Control of all: filters of levels exchanged at random within each
               seed.
    """
    rng = generator("acl/fig7", seed)
    both: dict[str, Curve] = {name.replace("gray", "grey"): curve(runs, name) for name in CURVES}
    mixed = [{n: c.exchanged(rng) for n, c in both.items()} for _ in range(SHUFFLES)]
    seeds, exchanged = min(len(c.accuracy) for c in both.values()), "filters of other levels"
    common: Shared = {"draws": seeds, "evidence": evidence(runs)}

    # (1) Layers whose TV has risen, in the curve that has fewer of them.
    def least(found: dict[str, Curve]) -> int:
        return min(c.risen() for c in found.values())

    most = len(layers(runs)) // 2 + 1
    part = t.part("left: total variation is larger where accuracy is best", most, ">=", **common)
    part.add(least(both)).breaks(exchanged, np.mean([least(found) for found in mixed]))
    said = "; ".join(
        f"{name}: best accuracy at {c.levels[c.best()]:g}, {c.risen()} layers as they are, "
        f"{c.risen('unit')} at norm 1"
        for name, c in both.items()
    )
    part.says(layers=len(layers(runs)), said=said, about=about(runs))

    # (2) Steps of the grid between both peaks, in the curve where they are further apart.
    def far(found: dict[str, Curve]) -> int:
        return max(c.apart() for c in found.values())

    part = t.part("left: both are largest at about the same strength", 1.0, **common)
    part.add(far(both)).breaks(exchanged, np.mean([far(found) for found in mixed]))
    part.says(steps=", ".join(f"{name} {c.apart()}" for name, c in both.items()), about=about(runs))

    # (3) Student's t, over seeds, of the last level minus the first, in the weaker curve.
    first = layers(runs).index("conv1")

    def stronger(found: dict[str, Curve]) -> float:
        return min(_t(_stronger(c, first)) for c in found.values())

    name = "right: first filters at norm 1 vary more under strong augmentation"
    part = t.part(name, stats.t.ppf(0.975, seeds - 1), ">=", **common)
    part.add(stronger(both)).breaks(exchanged, np.median([stronger(found) for found in mixed]))
    said = "; ".join(
        f"{name} {_stronger(c, first).mean():+.2f} of {c.filters['unit'][:, 0, first].mean():.1f}"
        for name, c in both.items()
    )
    part.says(said=said, about=about(runs))


def _t(change: np.ndarray) -> float:
    """The t statistic of the mean change, 0 where it has no error."""
    error = change.std(ddof=1) / len(change) ** 0.5
    return float(change.mean() / error) if error > 0 else 0.0


def settings(runs: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds, one row per setting of jitter and grey; that of both curves once."""
    once = runs.drop_duplicates(["jitter", "gray", "seed"])
    return once.groupby(["jitter", "gray"]).mean(numeric_only=True).reset_index()


def spearman(x: np.ndarray, y: np.ndarray) -> np.ndarray | float:
    """Spearman's correlation over the last axis; 0 where one side is constant."""
    a, b = (stats.rankdata(v, axis=-1) - (v.shape[-1] + 1) / 2 for v in (x, y))
    norm = np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    return (a * b).sum(-1) / np.where(norm > 0, norm, 1)


def correlations(points: pd.DataFrame, resamples: int, rng: np.random.Generator) -> pd.DataFrame:
    """Of each layer and measure: Spearman's correlation with accuracy over `settings`, and its 95
    per cent interval by resampling settings."""
    at = rng.integers(0, len(points), (resamples, len(points)))
    right = points.linear.to_numpy()
    rows = []
    for layer, measure in product(layers(points), MEASURES):
        values = points[f"{measure}_{layer}"].to_numpy()
        low, high = np.quantile(spearman(values[at], right[at]), [0.025, 0.975])
        rows.append((layer, measure, float(spearman(values, right)), low, high))
    return pd.DataFrame(rows, columns=["layer", "measure", "rho", "low", "high"])


@check("acl/num17", on="runs")
def num17(t: Trial, runs: Runs, draws: int, seed: int) -> None:
    """Total variation rises and falls with downstream accuracy (Sec. 6.2).

    Protocol   the runs of Figure 7 (ResNet18 on STL-10; smaller ones are marked): one mean over
               seeds for each setting of jitter and grey. TV: total variation of a layer's filters.
    Question   Is a layer's TV correlated with accuracy (Spearman) over the settings, its bootstrap
               95 per cent interval above 0, in a majority of layers? TV at norm 1 and the norm
               alone are reported, too.
    Refuted    by fewer layers. Control: accuracies of other settings.
    """
    rng = generator("acl/num17", seed)
    points, majority = settings(runs), len(layers(runs)) // 2 + 1
    found = correlations(points, 20 * min(max(draws, 10), 100), rng)
    mixed = [
        _positive(correlations(points.assign(linear=rng.permutation(points.linear)), 200, rng))
        for _ in range(20)
    ]
    seen: Shared = {"draws": len(points), "evidence": evidence(runs)}
    part = t.part("total variation is correlated with accuracy", majority, ">=", **seen)
    part.add(_positive(found)).breaks("accuracies of other settings", np.mean(mixed))
    names = {"tv": "total variation", "unit": "total variation at norm 1", "norm": "the norm"}
    said = ", ".join(f"{name} in {_positive(found, m)}" for m, name in names.items())
    part.says(layers=len(layers(runs)), settings=len(points), said=said, about=about(runs))


def _positive(found: pd.DataFrame, measure: str = "tv") -> int:
    return int((found[found.measure == measure].low > 0).sum())


def beside(runs: pd.DataFrame) -> list[Callable[[int, int], Iterator[Check]]]:
    """The checks of runs, as `Ledger.run` takes them."""
    return [lambda d, s: fig7(runs, s), lambda d, s: num17(runs, d, s)]
