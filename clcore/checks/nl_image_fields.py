"""nl App. E.3, Figures 12 and 13: filters of the two-layer net on quarters of images.

Functions of the tables that `image_fields` makes (`tidy`), recorded or of this build. Full size:
MNIST, 50000 minibatches, five seeds; anything less is `partial`. Comparisons are paired over seeds:
the same order of images and the same random start, with one thing changed.
"""

from collections.abc import Callable, Iterator
from math import comb

import numpy as np
import pandas as pd
import torch
from scipy.stats import t as student
from torch import Tensor

from .. import image_fields as fields
from ..ledger import Check
from . import reference as ref

SEEDS = 5
NAMES = {"paper": ", the paper's text", "released": ", released program"}


def evidence(runs: pd.DataFrame) -> str:
    """Whether runs are at full size: all steps, five seeds (of MNIST, which the table's name
    says)."""
    full = runs.step.max() >= fields.STEPS and runs.seed.nunique() >= SEEDS
    return "protocol" if full else "partial"


def pairs(
    runs: pd.DataFrame, measure: str, arms: tuple[str, str], protocol: str, trained: bool = True
) -> pd.DataFrame:
    """Differences of a measure between two arms, first minus second: seeds down, fields across."""
    step = runs.step.max() if trained else 0
    kept = runs[(runs.step == step) & (runs.protocol == protocol)]
    first, second = (
        kept[kept.arm == arm].pivot(index="seed", columns="field", values=measure) for arm in arms
    )
    if first.empty or second.empty:
        raise ValueError(f"expected runs of {' and '.join(arms)} under {protocol!r}, got none")
    return first - second


def ratio(differences: pd.DataFrame) -> np.ndarray:
    """Paired t of each field: mean over standard error; 0 where nothing differs at all."""
    mean = differences.mean().to_numpy()
    error = (differences.std(ddof=1) / len(differences) ** 0.5).to_numpy()
    return np.where(error > 0, mean / np.where(error > 0, error, 1), 0.0)


def interval(differences: pd.DataFrame) -> tuple[float, float, float]:
    """Mean over fields and seeds of paired differences, and its 95 per cent interval over seeds."""
    each = differences.mean(axis=1)
    half = student.ppf(0.975, len(each) - 1) * each.std(ddof=1) / len(each) ** 0.5
    return float(each.mean()), float(each.mean() - half), float(each.mean() + half)


def _critical(seeds: int) -> float:
    return float(student.ppf(0.975, seeds - 1))


def _less(
    claim: str, runs: pd.DataFrame, measure: str, arms: tuple[str, str], protocol: str, part: str
) -> Check:
    """The first arm is above the second in every field, beyond the 95 per cent interval."""
    differences = pairs(runs, measure, arms, protocol)
    control = {
        "before training": float(ratio(pairs(runs, measure, arms, protocol, False)).min()),
        "arms exchanged": float(ratio(-differences).min()),
    }
    if measure == "tv":
        mixed = pairs(runs, "tv_shuffled", arms, protocol)
        control["pixels shuffled"] = float(ratio(mixed).min())
    mean, low, high = interval(differences)
    return Check(
        claim,
        float(ratio(differences).min()),
        _critical(len(differences)),
        control,
        draws=len(differences),
        part=part + NAMES[protocol],
        relation=">=",
        evidence=evidence(runs),
        note=f"Least paired t of the four fields. Mean difference {mean:.3g}, 95 per cent interval "
        f"{low:.3g} to {high:.3g}.",
    )


def fig12(runs: pd.DataFrame) -> Iterator[Check]:
    """Without augmentation: filters look like parts of digits (their best cosine with patches that
    the net has not seen, against the same filters with shuffled pixels), and are more diverse than
    linear ones (effective rank). Controls: the random filters at the start, arms exchanged."""
    for protocol in fields.ts.RATES:
        here = runs[(runs.protocol == protocol) & (runs.arm == "plain")]
        gain = here.match - here.match_shuffled
        trained = here.step == runs.step.max()
        yield Check(
            "nl/fig12",
            float(gain[trained].groupby(here.field).mean().min()),
            0.1,
            {"before training": float(gain[here.step == 0].groupby(here.field).mean().max())},
            draws=here.seed.nunique(),
            part="filters are parts of digits" + NAMES[protocol],
            relation=">=",
            evidence=evidence(runs),
            note="Gain in the best cosine with a patch, over the same filters with shuffled "
            f"pixels; the least of four fields. Best cosines: {here.match[trained].mean():.2f} "
            f"trained, {here.match[here.step == 0].mean():.2f} random.",
        )
        part = "a field's filters are more diverse than linear ones"
        yield _less("nl/fig12", runs, "rank", ("plain", "linear"), protocol, part)


def fig13(runs: pd.DataFrame) -> Iterator[Check]:
    """With random resized crops filters are smoother: less total variation at norm 1, and less
    energy at high frequencies, in each field. Controls: the nets before training, arms exchanged,
    the same filters with their pixels shuffled."""
    for protocol in fields.ts.RATES:
        arms = ("plain", "crop")
        yield _less("nl/fig13", runs, "tv", arms, protocol, "less total variation")
        yield _less("nl/fig13", runs, "high", arms, protocol, "weaker high frequencies")


# --------------------------------------------------------------------------------- the protocol


def false_negative(counts: np.ndarray, batch: int) -> float:
    """Chance that an image of a batch without repetition has another of its class in it."""
    n = int(counts.sum())
    alone = [comb(n - int(c), batch - 1) / comb(n - 1, batch - 1) for c in counts]
    return float(1 - (counts / n * alone).sum())


def _simulated(counts: np.ndarray, batch: int, draws: int, rng: np.random.Generator) -> float:
    """The same from batches drawn without repetition, as numbers of images of each class."""
    found = rng.multivariate_hypergeometric(counts, batch, size=draws)
    return float(np.where(found > 1, found, 0).sum(1).mean() / batch)


def num4(classes: pd.DataFrame, x: Tensor) -> Callable[[int, int], Iterator[Check]]:
    """The protocol's numbers. classes: images of each digit, `used` and in the `file`; x: images.

    Fields against slices; chances of a false negative, closed form against draws of batches.
    Controls: fields exchanged, the whole file, another batch, every image in a class of its own.
    """

    def checks(draws: int, seed: int) -> Iterator[Check]:
        half = x.shape[-1] // 2
        cut = fields.quarters(x)
        slices = [x[:, :half, :half], x[:, :half, half:], x[:, half:, :half], x[:, half:, half:]]
        by_hand = torch.stack([part.flatten(1) for part in slices], 1)
        swapped = ref.absolute(cut[:, [0, 2, 1, 3]], by_hand)
        yield Check(
            "nl/num4",
            ref.worst(ref.absolute(cut, by_hand), ref.absolute(fields.assemble(cut), x)),
            0.0,
            {"upper right and lower left exchanged": ref.typical(swapped)},
            draws=len(x),
            part="four disjoint fields make up the image",
        )
        used, file = int(classes.used.sum()), int(classes.file.sum())
        yield Check(
            "nl/num4",
            abs(used - 50_000),
            0.0,
            {"the whole training file": abs(file - 50_000)},
            draws=len(classes),
            part="50,000 training images",
            note=f"MNIST's training file has {file:,} images. We take the first {used:,} and keep "
            "the rest out of training.",
        )
        counts = classes.used.to_numpy()
        rng = ref.generator("nl/num4", seed)
        batches = 400 * min(draws, 60)
        found = {b: _simulated(counts, b, batches, rng) for b in (2, 4, 8, 16, 32)}
        spread = 4 * (0.25 / batches) ** 0.5
        yield Check(
            "nl/num4",
            max(abs(found[b] - false_negative(counts, b)) for b in found),
            spread,
            {"a batch of half the size": abs(found[8] - false_negative(counts, 4))},
            draws=batches,
            part="chance that an image has a false negative",
            note="Closed form against drawn batches: "
            f"{false_negative(counts, 8):.2f} at 8, {false_negative(counts, 128):.2f} at 128.",
        )
        own = np.ones(len(counts) * 100, int)
        rises = np.diff([found[b] for b in found])
        yield Check(
            "nl/num4",
            float(rises.min()),
            0.05,
            {"a class of its own for every image": _simulated(own, 32, 20, rng)},
            draws=batches,
            part="it grows with the batch",
            relation=">=",
            note="Batches of 2, 4, 8, 16, 32. The share of false negatives among an image's "
            "negatives does not grow: it is a tenth for any batch.",
        )

    checks.__name__ = "num4"
    return checks


def beside(
    runs: pd.DataFrame, classes: pd.DataFrame, x: Tensor
) -> list[Callable[[int, int], Iterator[Check]]]:
    """All checks, as `Ledger.run` takes them."""
    return [num4(classes, x), lambda d, s: fig12(runs), lambda d, s: fig13(runs)]
