"""acl Sec. 6.2, Figure 7: total variation of a ResNet's filters against the strength of
augmentation.

`eq18` tests the measure. The others are functions of a table of runs, as `curves` makes it: one row
a run at its end with `curve` ("jitter" or "gray": what varies), `level`, `seed`, `linear` (accuracy
in [0, 1]) and a `tv_`, `unit_` and `norm_` column a layer: means over its filters of the total
variation as it is, of that at norm 1, which no scale changes, and of the norm. `dataset`,
`images`, `width` and `epoch` say how far a run is from the paper's.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from scipy import stats

from clcore import reference as ref
from clcore.images.datasets import called
from clcore.images.filter_variation import total_variation
from clcore.ledger import Check, check
from clcore.nets.resnet import ResNet, first_convolutions

EPOCHS, LEVELS, SEEDS, WIDTH, IMAGES = 300, 5, 3, 64, 105_000
CURVES = ("jitter", "gray")
MEASURES = ("tv", "unit", "norm")
SHUFFLES = 200


# ----------------------------------------------------------------------------------- the measure


def _by_loops(w: np.ndarray, kind: str = "length") -> np.ndarray:
    """Eq. 18 of each filter, `f c h w`, pixel by pixel; kind: a version of it that is wrong."""
    out = np.zeros(len(w))
    for f, filter_ in enumerate(w):
        h, v = filter_.shape[1:]
        for y in range(h):
            for x in range(v):
                right = (
                    filter_[:, y, x + 1] - filter_[:, y, x] if x + 1 < v else 0 * filter_[:, 0, 0]
                )
                down = (
                    filter_[:, y + 1, x] - filter_[:, y, x] if y + 1 < h else 0 * filter_[:, 0, 0]
                )
                if kind == "length":
                    out[f] += np.sqrt(right**2 + down**2).sum()
                elif kind == "sum of sides":
                    out[f] += (np.abs(right) + np.abs(down)).sum()
                elif kind == "channels inside the root":
                    out[f] += np.sqrt((right**2 + down**2).sum())
                else:
                    out[f] += (right**2 + down**2).sum()
    return out


def _edges(rng: np.random.Generator, count: int, steps: bool = False) -> np.ndarray:
    """Edge detectors at random angles, one colour each: a sine under a Gaussian (Gabor, odd), with
    a period of 3.5 to 7 pixels; or bare steps through the middle."""
    at = np.arange(7) - 3
    angle = rng.uniform(0, 2 * np.pi, count)[:, None, None]
    across = np.cos(angle) * at + np.sin(angle) * at[:, None]
    period = rng.uniform(3.5, 7, count)[:, None, None]
    wave = np.sign(across + 1e-3) if steps else np.sin(2 * np.pi * across / period) * _spot()
    return wave[:, None] * rng.normal(size=(count, 3, 1, 1))


def _spot() -> np.ndarray:
    at = np.arange(7) - 3
    return np.exp(-(at**2 + at[:, None] ** 2) / 8)


def _blurred(w: np.ndarray) -> np.ndarray:
    """Means over 3 x 3 neighbours (the border repeated), scaled back to the filter's norm."""
    padded = np.pad(w, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    h, v = w.shape[-2:]
    mean = sum(padded[..., y : y + h, x : x + v] for y in range(3) for x in range(3)) / 9
    norm = np.sqrt((w**2).sum((1, 2, 3)) / (mean**2).sum((1, 2, 3)))
    return mean * norm[:, None, None, None]


def _tv(w: np.ndarray, scheme: str = "forward") -> np.ndarray:
    return total_variation(torch.from_numpy(w), scheme).numpy()


@check("acl/eq18")
def eq18(draws: int, seed: int) -> Iterator[Check]:
    """The measure against loops over pixels (controls: other readings of the norm), constant
    filters, multiples, edges against their blurred copies, and the layers it is taken at."""
    rng = ref.generator("acl/eq18", seed)
    count = min(draws, 30)
    filters = [rng.normal(size=(count, 3, 7, 7)), rng.normal(size=(count, 64, 3, 3))]
    error, broken = [], {"sum of sides": [], "channels inside the root": [], "squares": []}
    for w in filters:
        found = _tv(w)
        error.append(ref.relative(found, _by_loops(w)))
        for kind, values in broken.items():
            values.append(ref.relative(found, _by_loops(w, kind)))
    ratio = [_tv(w, "central") / _tv(w) for w in filters]
    yield Check(
        "acl/eq18",
        ref.worst(*error),
        1e-12,
        ref.least(broken),
        draws=2 * count,
        part="sum over channels and pixels of the gradient's length",
        note="A definition: tested is our code against it. Forward differences, zero beyond the "
        "last row and column; the paper names no scheme. "
        f"Central differences give {ratio[0].mean():.2f} of it for noise of 3 x 7 x 7 and "
        f"{ratio[1].mean():.2f} for 64 x 3 x 3, and change little between filters (standard "
        f"deviation {ratio[0].std():.2f} and {ratio[1].std():.2f}).",
    )
    flat = rng.normal(size=(count, 3, 1, 1)) * np.ones((7, 7))
    tilted = flat + 0.01 * np.arange(7)
    yield Check(
        "acl/eq18",
        max(ref.worst(_tv(flat, scheme)) for scheme in ("forward", "central")),
        0.0,
        {"a slope of a hundredth": ref.best(_tv(tilted))},
        draws=count,
        part="nothing for a constant filter",
    )
    scale = rng.uniform(-3, 3, count)[:, None, None, None]
    multiple = [_tv(scale * w) for w in filters]
    expected = [np.abs(scale[:, 0, 0, 0]) * _tv(w) for w in filters]
    yield Check(
        "acl/eq18",
        ref.worst(*(ref.relative(a, b) for a, b in zip(multiple, expected, strict=True))),
        1e-12,
        {
            "no change, as the output of a BatchNorm behind it": ref.typical(
                *(ref.relative(a, _tv(w)) for a, w in zip(multiple, filters, strict=True))
            )
        },
        draws=2 * count,
        part="grows in proportion to the filter",
        note="A convolution before a BatchNorm computes the same at any scale, so that the raw "
        "measure is no function of what a net computes; at norm 1 it is.",
    )
    edges, steps = _edges(rng, count), _edges(rng, count, steps=True)
    spots = _spot() * np.sqrt((edges**2).sum((2, 3), keepdims=True) / (_spot() ** 2).sum())
    sharper = {
        name: _tv(w) / _tv(_blurred(w)) for name, w in {"edge": edges, "step": steps}.items()
    }
    more = _tv(edges) / _tv(spots)
    yield Check(
        "acl/eq18",
        ref.best(sharper["edge"], more),
        1.02,
        {"steps in place of edge detectors": ref.typical(sharper["step"])},
        draws=2 * count,
        part="an edge detector has more than its blurred copy, and than a spot, of equal norm",
        relation=">=",
        note=f"Least and largest ratio to the copy {sharper['edge'].min():.2f} and "
        f"{sharper['edge'].max():.2f}, to a Gaussian spot {more.min():.2f} and {more.max():.2f}. "
        "On filters made by hand. Fails where the edge is a single step, which has the variation "
        "of a slow rise of the same height, and at equal norm less than its blurred copy (mean "
        f"ratio {sharper['step'].mean():.2f}).",
    )
    net = ResNet("standard", 4)
    kernels = [m for m in net.modules() if isinstance(m, torch.nn.Conv2d) and m.kernel_size[0] > 1]
    # Of the kernels wider than one pixel the first is the stem's; then two a block, in order.
    own = [kernels[0], *kernels[1::2]]
    layers = list(first_convolutions(net).values())
    yield Check(
        "acl/eq18",
        float(
            abs(len(layers) - 9)
            + sum(not torch.equal(a, b.weight) for a, b in zip(layers, own, strict=True))
        ),
        0.0,
        {
            "second convolutions of the blocks": float(
                sum(not torch.equal(a, b.weight) for a, b in zip(layers, kernels[::2], strict=True))
            )
        },
        draws=9,
        part="layers: the stem and the first convolution of each block",
    )


@check("acl/num21")
def num21(draws: int, seed: int) -> Iterator[Check]:
    """At equal norm a spot has less variation than edge detectors, the finer the more. Controls:
    norms free; the order of frequencies exchanged."""
    rng = ref.generator("acl/num21", seed)
    count = min(draws, 30)
    edges, steps = _edges(rng, count), _edges(rng, count, steps=True)
    size = np.sqrt((edges**2).sum((2, 3), keepdims=True))
    spots = _spot() * size / np.sqrt((_spot() ** 2).sum())
    noise = rng.normal(size=edges.shape)
    noise *= size / np.sqrt((noise**2).sum((2, 3), keepdims=True))
    steps *= size / np.sqrt((steps**2).sum((2, 3), keepdims=True))
    least = ref.best(_tv(edges) / _tv(spots))
    yield Check(
        "acl/num21",
        least,
        1.02,
        {"edge detectors of a quarter of the norm": ref.typical(_tv(edges / 4) / _tv(spots))},
        draws=count,
        part="an edge detector has more than a spot",
        relation=">=",
        note="Least ratio over edge detectors made by hand (odd Gabor filters), norms equal. Fails "
        "where norms differ, and for bare steps, which have "
        f"{(_tv(steps) / _tv(spots)).mean():.2f} times the variation of the spot; and white noise "
        f"has {(_tv(noise) / _tv(edges)).mean():.1f} times that of such an edge detector. So "
        "'precisely' is too much: total variation tells fine from coarse.",
    )
    at = np.arange(7) - 3
    angle = rng.uniform(0, 2 * np.pi, count)[:, None, None]
    across = np.cos(angle) * at + np.sin(angle) * at[:, None]
    waves = [np.sin(2 * np.pi * across / period) * _spot() for period in (14, 10, 7, 5, 4)]
    found = np.stack(
        [_tv((w / np.linalg.norm(w, axis=(1, 2), keepdims=True))[:, None]) for w in waves]
    )
    yield Check(
        "acl/num21",
        float(np.diff(found, axis=0).min()),
        1e-3,
        {"in another order": float(np.diff(found[[1, 0, 3, 2, 4]], axis=0).min())},
        draws=count,
        part="the finer the edge, the more",
        relation=">=",
        note="Least rise from one period to the next, 14, 10, 7, 5, 4 pixels, norm 1.",
    )


# ---------------------------------------------------------------------------------------- the runs


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
    r = runs.iloc[0]
    return (
        f"{runs.seed.nunique()} seeds. {called(r.dataset)}; {r.images:,} images, {r.epoch} epochs, "
        f"width {r.width} (paper: STL-10, 300 epochs, width 64)."
    )


@dataclass(frozen=True)
class Curve:
    """What one curve's runs have: `accuracy` [seeds, levels], and each measure of each layer,
    `filters` [seeds, levels, layers]. Seeds that lack a level are left out."""

    levels: np.ndarray
    accuracy: np.ndarray
    filters: dict[str, np.ndarray]

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
        """The same with each seed's filters at other levels, by chance."""
        order = rng.permuted(np.tile(np.arange(len(self.levels)), (len(self.accuracy), 1)), axis=1)
        other = {
            name: np.take_along_axis(values, order[..., None], 1)
            for name, values in self.filters.items()
        }
        return replace(self, filters=other)


def curve(runs: pd.DataFrame, name: str) -> Curve:
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


@check("acl/fig7", on="runs")
def fig7(runs: pd.DataFrame, seed: int = 0) -> Iterator[Check]:
    """TV rises up to the best accuracy in most layers of both curves; accuracy and TV have their
    largest value within a step of the grid; filters of the stem at norm 1 have more under the
    strongest augmentation. Control: filters at levels exchanged at random within each seed, mean
    or (last part) median of many."""
    rng = ref.generator("acl/fig7", seed)
    both = {name: curve(runs, name) for name in CURVES}
    mixed = [{n: c.exchanged(rng) for n, c in both.items()} for _ in range(SHUFFLES)]
    most = len(layers(runs)) // 2 + 1
    seeds = min(len(c.accuracy) for c in both.values())
    common = {"draws": seeds, "evidence": evidence(runs)}

    def least(found: dict[str, Curve]) -> int:
        return min(c.risen() for c in found.values())

    said = "; ".join(
        f"{name}: best accuracy at {c.levels[c.best()]:g}, {c.risen()} layers as they are, "
        f"{c.risen('unit')} at norm 1"
        for name, c in both.items()
    )
    yield Check(
        "acl/fig7",
        float(least(both)),
        float(most),
        {"filters of other levels": float(np.mean([least(found) for found in mixed]))},
        part="left: total variation is larger where accuracy is best",
        relation=">=",
        note=f"Layers of {len(layers(runs))} above their first point by more than two standard "
        f"errors, the fewer of two curves. {said}. {about(runs)}",
        **common,
    )

    def far(found: dict[str, Curve]) -> int:
        return max(c.apart() for c in found.values())

    yield Check(
        "acl/fig7",
        float(far(both)),
        1.0,
        {"filters of other levels": float(np.mean([far(found) for found in mixed]))},
        part="left: both are largest at about the same strength",
        note="Steps of the grid between them, the more of two curves: "
        + ", ".join(f"{name} {c.apart()}" for name, c in both.items())
        + f". {about(runs)}",
        **common,
    )
    first = layers(runs).index("conv1")

    def change(c: Curve) -> np.ndarray:
        return c.filters["unit"][:, -1, first] - c.filters["unit"][:, 0, first]

    def stronger(found: dict[str, Curve]) -> float:
        return min(_t(change(c)) for c in found.values())

    said = "; ".join(
        f"{name} {change(c).mean():+.2f} of {c.filters['unit'][:, 0, first].mean():.1f}"
        for name, c in both.items()
    )
    yield Check(
        "acl/fig7",
        stronger(both),
        float(stats.t.ppf(0.975, seeds - 1)),
        {"filters of other levels": float(np.median([stronger(found) for found in mixed]))},
        part="right: first filters at norm 1 vary more under strong augmentation",
        relation=">=",
        note=f"Paired t over seeds, strongest level minus weakest, the less of two curves. {said}. "
        f"{about(runs)}",
        **common,
    )


def _t(change: np.ndarray) -> float:
    error = change.std(ddof=1) / len(change) ** 0.5
    return float(change.mean() / error) if error > 0 else 0.0


def settings(runs: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds, one row a setting of jitter and grey: that of both curves is there once."""
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
    for layer in layers(points):
        for measure in MEASURES:
            values = points[f"{measure}_{layer}"].to_numpy()
            low, high = np.quantile(spearman(values[at], right[at]), [0.025, 0.975])
            rows.append((layer, measure, float(spearman(values, right)), low, high))
    return pd.DataFrame(rows, columns=["layer", "measure", "rho", "low", "high"])


@check("acl/num17", on="runs")
def num17(runs: pd.DataFrame, draws: int, seed: int) -> Iterator[Check]:
    """Total variation and accuracy go together over the settings in most layers: bootstrap
    intervals above zero (control: accuracies of other settings, on average). The norm alone and TV
    at norm 1 are reported beside."""
    rng = ref.generator("acl/num17", seed)
    points, resamples = settings(runs), 20 * min(max(draws, 10), 100)
    found = correlations(points, resamples, rng)
    mixed = [
        _positive(correlations(points.assign(linear=rng.permutation(points.linear)), 200, rng))
        for _ in range(20)
    ]
    most = len(layers(runs)) // 2 + 1
    said = ", ".join(
        f"{name} in {_positive(found, measure)}"
        for measure, name in {
            "tv": "as it is",
            "unit": "at norm 1",
            "norm": "the norm alone",
        }.items()
    )
    yield Check(
        "acl/num17",
        float(_positive(found)),
        float(most),
        {"accuracies of other settings": float(np.mean(mixed))},
        draws=len(points),
        part="total variation is correlated with accuracy",
        relation=">=",
        evidence=evidence(runs),
        note=f"Layers of {len(layers(runs))} whose 95 per cent interval of Spearman's correlation "
        f"over {len(points)} settings lies above zero: {said}. {about(runs)}",
    )


def _positive(found: pd.DataFrame, measure: str = "tv") -> int:
    return int((found[found.measure == measure].low > 0).sum())


def beside(runs: pd.DataFrame) -> list[Callable[[int, int], Iterator[Check]]]:
    """The checks of runs, as `Ledger.run` takes them."""
    return [lambda d, s: fig7(runs, s), lambda d, s: num17(runs, d, s)]
