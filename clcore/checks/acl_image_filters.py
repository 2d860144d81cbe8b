"""acl Sec. 6.2, Figure 7: total variation of a ResNet's filters against the strength of
augmentation.

`eq18` tests the measure. The others are functions of a table of runs, as `curves` makes it: one row
a run at its end with `curve` ("jitter" or "gray": what varies), `level`, `seed`, `linear` (accuracy
in [0, 1]) and a `tv_`, `norm_` and `unit_` column a layer: means over its filters of the total
variation and of the norm, and their quotient, which no scale of the filters changes. `dataset`,
`images`, `width` and `epoch` say how far a run is from the paper's.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import torch
from scipy import stats

from ..filter_variation import total_variation
from ..ledger import Check
from ..resnet import ResNet, first_convolutions
from . import reference as ref

EPOCHS, LEVELS, SEEDS, WIDTH = 300, 5, 3, 64
CURVES = ("jitter", "gray")
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
        note="Forward differences, zero beyond the last row and column; the paper names no scheme. "
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
        "That edges are sharp is not enough: a single step has the variation of a slow rise of the "
        "same height, and at equal norm less than its blurred copy (mean ratio "
        f"{sharper['step'].mean():.2f}).",
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


# ---------------------------------------------------------------------------------------- the runs


def curves(runs: pd.DataFrame) -> pd.DataFrame:
    """From rows of `pretraining.grid` with `jitter` (strength) and `gray` (chance), of which one is
    zero: the last of each run that did not diverge, in the curve or curves it belongs to, with the
    `unit_` columns. The runs with neither begin both curves."""
    last = runs[(runs.epoch == runs.epoch.max()) & ~runs.diverged.astype(bool)].copy()
    for layer in layers(last):
        last[f"unit_{layer}"] = last[f"tv_{layer}"] / last[f"norm_{layer}"]
    jitter = last[last.gray == 0].assign(curve="jitter", level=lambda t: t.jitter)
    gray = last[last.jitter == 0].assign(curve="gray", level=lambda t: t.gray)
    return pd.concat([jitter, gray], ignore_index=True)


def layers(runs: pd.DataFrame) -> list[str]:
    return [name.removeprefix("tv_") for name in runs.columns if name.startswith("tv_")]


def evidence(runs: pd.DataFrame) -> str:
    """Whether runs are at the paper's size: STL-10, all of it, its net, 300 epochs, and the grid
    and seeds that the ledger asks for."""
    full = (
        set(runs.dataset) == {"stl10"}
        and runs.images.min() >= 105_000
        and runs.width.min() >= WIDTH
        and runs.epoch.min() >= EPOCHS
        and runs.groupby("curve").level.nunique().min() >= LEVELS
        and runs.seed.nunique() >= SEEDS
    )
    return "protocol" if full else "partial"


def about(runs: pd.DataFrame) -> str:
    r = runs.iloc[0]
    return (
        f"{runs.seed.nunique()} seeds; {r.dataset}, {r.images:,} images, {r.epoch} epochs, width "
        f"{r.width} (paper: STL-10, 300 epochs, width 64)."
    )


def ratios(runs: pd.DataFrame, curve: str, column: str) -> pd.DataFrame:
    """A measure over its value at the first level, seed by seed: seeds down, levels across."""
    wide = runs[runs.curve == curve].pivot(index="seed", columns="level", values=column)
    return wide.div(wide.iloc[:, 0], axis=0)


def accuracy(runs: pd.DataFrame, curve: str) -> pd.Series:
    """Mean accuracy over seeds at each level."""
    return runs[runs.curve == curve].groupby("level").linear.mean()


def risen(runs: pd.DataFrame, curve: str, measure: str = "tv") -> list[str]:
    """Layers whose mean ratio at the level of the best accuracy is above 1 by more than two
    standard errors over seeds; none where the first level is the best."""
    level = accuracy(runs, curve).idxmax()
    found = []
    for layer in layers(runs):
        more = ratios(runs, curve, f"{measure}_{layer}")[level] - 1
        if more.mean() > 2 * more.sem() > 0:
            found.append(layer)
    return found


def apart(runs: pd.DataFrame, curve: str, measure: str = "tv") -> int:
    """Grid steps between the levels where accuracy and the mean ratio of all layers are largest."""
    mean = sum(ratios(runs, curve, f"{measure}_{layer}").mean() for layer in layers(runs))
    best = accuracy(runs, curve)
    return abs(int(np.argmax(mean)) - int(np.argmax(best)))


def _exchanged(runs: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Runs of each seed and curve with their filters' columns at other levels, by chance."""
    columns = [c for c in runs.columns if c.startswith(("tv_", "unit_", "norm_"))]
    parts = []
    for _, part in runs.groupby(["curve", "seed"]):
        other = part.copy()
        other[columns] = part[columns].to_numpy()[rng.permutation(len(part))]
        parts.append(other)
    return pd.concat(parts)


def fig7(runs: pd.DataFrame, seed: int = 0) -> Iterator[Check]:
    """TV rises up to the best accuracy in most layers of both curves; accuracy and TV have their
    largest value within a step of the grid; filters of the stem at norm 1 have more under the
    strongest augmentation. Control: filters at levels exchanged at random within each seed, on
    average; for the stem, the weakest level against itself."""
    rng = ref.generator("acl/fig7", seed)
    mixed = [_exchanged(runs, rng) for _ in range(SHUFFLES)]
    most = len(layers(runs)) // 2 + 1
    seeds = int(runs.seed.nunique())
    common = {"draws": seeds, "evidence": evidence(runs)}

    def least(table: pd.DataFrame) -> int:
        return min(len(risen(table, curve)) for curve in CURVES)

    said = "; ".join(
        f"{curve}: best accuracy at {accuracy(runs, curve).idxmax():g}, {len(risen(runs, curve))} "
        f"layers as they are, {len(risen(runs, curve, 'unit'))} at norm 1"
        for curve in CURVES
    )
    yield Check(
        "acl/fig7",
        float(least(runs)),
        float(most),
        {"filters of other levels": float(np.mean([least(table) for table in mixed]))},
        part="left: total variation is larger where accuracy is best",
        relation=">=",
        note=f"Layers of {len(layers(runs))} above their first point by more than two standard "
        f"errors, the fewer of two curves. {said}. {about(runs)}",
        **common,
    )

    def far(table: pd.DataFrame) -> int:
        return max(apart(table, curve) for curve in CURVES)

    yield Check(
        "acl/fig7",
        float(far(runs)),
        1.0,
        {"filters of other levels": float(np.mean([far(table) for table in mixed]))},
        part="left: both are largest at about the same strength",
        note="Steps of the grid between them, the more of two curves: "
        + ", ".join(f"{curve} {apart(runs, curve)}" for curve in CURVES)
        + f". {about(runs)}",
        **common,
    )
    changes = {}
    for curve in CURVES:
        wide = runs[runs.curve == curve].pivot(index="seed", columns="level", values="unit_conv1")
        changes[curve] = wide.iloc[:, -1] - wide.iloc[:, 0]
    t = {curve: _t(change) for curve, change in changes.items()}
    said = "; ".join(
        f"{curve}: {change.mean():+.2f} of {runs[runs.curve == curve].unit_conv1.mean():.1f}"
        for curve, change in changes.items()
    )
    yield Check(
        "acl/fig7",
        min(t.values()),
        float(stats.t.ppf(0.975, seeds - 1)),
        {"the weakest level against itself": 0.0},
        part="right: first filters at norm 1 vary more under strong augmentation",
        relation=">=",
        note=f"Paired t over seeds, strongest level minus weakest, the less of two curves. {said}. "
        f"{about(runs)}",
        **common,
    )


def _t(change: pd.Series) -> float:
    return float(change.mean() / change.sem()) if change.sem() > 0 else 0.0


def correlation(table: pd.DataFrame, column: str) -> float:
    """Spearman's over settings, means over seeds; 0 where one of them is constant."""
    found = stats.spearmanr(table[column], table.linear).statistic
    return 0.0 if np.isnan(found) else float(found)


def settings(runs: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds, one row a setting of jitter and grey: that of both curves is there once."""
    once = runs.drop_duplicates(["jitter", "gray", "seed"])
    return once.groupby(["jitter", "gray"]).mean(numeric_only=True).reset_index()


def correlations(runs: pd.DataFrame, resamples: int, rng: np.random.Generator) -> pd.DataFrame:
    """Of each layer and measure (tv, unit, norm): Spearman's correlation with accuracy over
    settings, and its 95 per cent interval by resampling settings."""
    points = settings(runs)
    draws = rng.integers(0, len(points), (resamples, len(points)))
    rows = []
    for layer in layers(runs):
        for measure in ("tv", "unit", "norm"):
            column = f"{measure}_{layer}"
            value = correlation(points, column)
            some = [_fast(points[column].to_numpy()[d], points.linear.to_numpy()[d]) for d in draws]
            low, high = np.quantile(some, [0.025, 0.975])
            rows.append((layer, measure, value, low, high))
    return pd.DataFrame(rows, columns=["layer", "measure", "rho", "low", "high"])


def _fast(x: np.ndarray, y: np.ndarray) -> float:
    """Spearman's correlation, without a test; 0 where one of them is constant."""
    a, b = stats.rankdata(x) - (len(x) + 1) / 2, stats.rankdata(y) - (len(y) + 1) / 2
    norm = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / norm) if norm > 0 else 0.0


def num17(runs: pd.DataFrame, draws: int, seed: int) -> Iterator[Check]:
    """Total variation and accuracy go together over the settings in most layers: bootstrap
    intervals above zero (control: accuracies of other settings, on average). The norm alone and TV
    at norm 1 are reported beside."""
    rng = ref.generator("acl/num17", seed)
    found = correlations(runs, 20 * min(max(draws, 10), 100), rng)
    points = settings(runs)
    mixed = []
    for _ in range(5):
        other = points.assign(linear=rng.permutation(points.linear))
        mixed.append(_positive(correlations(other.assign(seed=0), 100, rng), "tv"))
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
        float(_positive(found, "tv")),
        float(most),
        {"accuracies of other settings": float(np.mean(mixed))},
        draws=len(points),
        part="total variation is correlated with accuracy",
        relation=">=",
        evidence=evidence(runs),
        note=f"Layers of {len(layers(runs))} whose 95 per cent interval of Spearman's correlation "
        f"over {len(points)} settings lies above zero: {said}. {about(runs)}",
    )


def _positive(found: pd.DataFrame, measure: str) -> int:
    return int((found[found.measure == measure].low > 0).sum())


def beside(runs: pd.DataFrame) -> list[Callable[[int, int], Iterator[Check]]]:
    """The checks of runs, as `Ledger.run` takes them."""
    return [lambda d, s: fig7(runs, s), lambda d, s: num17(runs, d, s)]
