"""nl App. E.3, Figures 12 and 13: filters of the two-layer net on quarters of images.

Functions of the tables that `image_fields` makes (`tidy`, `living`), recorded or of this build.
Full size: MNIST, 50000 minibatches, five seeds; anything less is `partial`. Comparisons are paired
over seeds: the same order of images and the same random start, with one thing changed. They are of
filters that are alive at the end: dead ones keep a shape from before, and are more where nothing is
cropped, so that they would pass for rough and for diverse.
"""

from collections.abc import Callable, Iterator
from math import comb

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from clcore import reference as ref
from clcore import stats
from clcore.experiments import image_fields as fields
from clcore.ledger import Check, Part, Trial, check, pooled
from clcore.ledger.judging import Shared
from clcore.ledger.trial import generator

SEEDS = 5
NAMES = {"paper": ", the paper's text", "released": ", released program"}
EXCHANGED = "arms exchanged at random within each seed"

Runs = pd.DataFrame
"""A row per run (arm, protocol, seed), step and field, with its measures over all filters."""
Ends = pd.DataFrame
"""A row per trained net (arm, protocol, seed) and field, with its measures over the filters that
are alive at the end."""
Classes = pd.DataFrame
"""A row per digit: how many images are used, and how many are in the file."""
Images = Tensor
"""Images of the data set."""


def evidence(runs: pd.DataFrame) -> str:
    """Whether runs are at full size: all steps, five seeds (of MNIST, by the table's
    name)."""
    full = runs.step.max() >= fields.STEPS and runs.seed.nunique() >= SEEDS
    return "protocol" if full else "partial"


def grid(table: pd.DataFrame, measure: str, arm: str, protocol: str) -> pd.DataFrame:
    """A measure of one arm, from rows of one step: seeds down, fields across."""
    kept = table[(table.protocol == protocol) & (table.arm == arm)]
    if kept.empty:
        raise ValueError(f"expected runs of {arm} under {protocol!r}, got none")
    return kept.pivot(index="seed", columns="field", values=measure)


def pairs(table: pd.DataFrame, measure: str, arms: tuple[str, str], protocol: str) -> pd.DataFrame:
    """Differences of a measure between two arms, first minus second: seeds down, fields across."""
    first, second = (grid(table, measure, arm, protocol) for arm in arms)
    return first - second


def ratio(differences: pd.DataFrame) -> np.ndarray:
    """Paired t of each field; 0 where nothing differs at all."""
    return stats.paired(differences.to_numpy().T).t


def interval(differences: pd.DataFrame) -> tuple[float, float, float]:
    """Mean over fields and seeds of paired differences, and its 95 per cent interval over seeds."""
    each = differences.mean(axis=1)
    # in this order of operations, on which the recorded last digits rest
    half = stats.critical(len(each) - 1) * each.std(ddof=1) / len(each) ** 0.5
    return float(each.mean()), float(each.mean() - half), float(each.mean() + half)


def _least(differences: pd.DataFrame) -> float:
    """Paired t of the field that has the least."""
    return float(ratio(differences).min())


def _mixed(table: pd.DataFrame, measure: str, arms: tuple[str, str], protocol: str) -> float:
    """The least paired t where each seed's arms carry their names at random."""
    rng = generator("relabelled", 0)
    return stats.exchanged_labels(
        table, "arm", arms, lambda other: _least(pairs(other, measure, arms, protocol)), rng
    )


def _above(
    t: Trial, part: str, differences: pd.DataFrame, protocol: str, runs: pd.DataFrame
) -> Part:
    """Differences are above zero in every field, beyond the 95 per cent interval over seeds."""
    seeds = len(differences)
    mean, low, high = interval(differences)
    p = t.part(
        part + NAMES[protocol],
        stats.critical(seeds - 1),
        ">=",
        draws=seeds,
        evidence=evidence(runs),
        words=part,
    )
    return p.add(ratio(differences)).says(mean=mean, low=low, high=high)


@check("nl/fig12", on="runs")
def fig12(t: Trial, runs: Runs, ends: Ends) -> None:
    """MNIST filters of four receptive fields without augmentation (Figure 12).

    Protocol   two layers on the four quarters of MNIST's digits, ReLU and linear filters, no
               augmentation; six seeds, the text's protocol and the released program's; filters
               alive at the end, paired over seeds.
    Question   In every field, is the best cosine with a patch that the net has not seen above that
               of random filters, and is the effective rank above that of linear ones, by the 95
               per cent interval over seeds?
    Refuted    by a field inside the interval. Controls: the trained filters with their pixels
               shuffled; arms exchanged at random within each seed.
    """
    start, arms = runs[runs.step == 0], ("plain", "linear")
    for protocol in fields.ts.RATES:
        random = grid(start, "match", "plain", protocol)
        gain, shuffled = (
            grid(ends, m, "plain", protocol) - random for m in ("match", "match_shuffled")
        )
        p = _above(t, "filters look like parts of digits", gain, protocol, runs)
        p.breaks("pixels shuffled", _least(shuffled))
        _beside_linear(p, ends, protocol)
        more = pairs(ends, "rank", arms, protocol)
        part = "a field's filters are more diverse than linear ones"
        p = _above(t, part, more, protocol, runs)
        p.breaks(EXCHANGED, _mixed(ends, "rank", arms, protocol))


def _beside_linear(p: Part, ends: pd.DataFrame, protocol: str) -> None:
    """Reports the best cosines of ReLU and of linear filters, by field, in how many fields linear
    filters are nearer, and the share of ReLU filters that are dead."""
    own, linear, living = (
        grid(ends, measure, arm, protocol).mean()
        for measure, arm in (("match", "plain"), ("match", "linear"), ("alive", "plain"))
    )
    listed = {
        name: ", ".join(f"{v:.2f}" for v in means)
        for name, means in (("own", own), ("linear", linear))
    }
    p.says(**listed, nearer=(linear > own).sum(), fields=len(own), dead=1 - living.mean())


@check("nl/fig13", on="runs")
def fig13(t: Trial, runs: Runs, ends: Ends) -> None:
    """MNIST filters with augmentation are smoother (Figure 13).

    Protocol   two layers on the four quarters of MNIST's digits, ReLU filters, trained with and
               without random resized crops; six seeds, the text's protocol and the released
               program's; filters alive at the end, paired over seeds.
    Question   In every field, have filters trained with crops less total variation at norm 1 and
               less energy at high frequencies, with their mean and without it, by the 95 per cent
               interval over seeds?
    Refuted    by a field inside the interval. Controls: arms exchanged at random within each seed;
               pixels shuffled.

    Shuffled filters keep their mean, the frequency 0, which crops change too: that control is for
    what is left without the mean.
    """
    parts = {
        "tv": "less total variation",
        "high": "weaker high frequencies",
        "high_centred": "weaker high frequencies, mean removed",
    }
    arms = ("plain", "crop")
    for protocol in fields.ts.RATES:
        for measure, part in parts.items():
            p = _above(t, part, pairs(ends, measure, arms, protocol), protocol, runs)
            p.breaks(EXCHANGED, _mixed(ends, measure, arms, protocol))
            plain, crop = (grid(ends, measure, arm, protocol).to_numpy().mean() for arm in arms)
            p.says(plain=plain, crop=crop)
            if f"{measure}_shuffled" in ends:
                shuffled = pairs(ends, f"{measure}_shuffled", arms, protocol)
                p.breaks("pixels shuffled", _least(shuffled))


# --------------------------------------------------------------------------------- the protocol


def false_negative(counts: np.ndarray, batch: int) -> float:
    """Chance that an image of a batch without repetition has another of its class in it."""
    n = int(counts.sum())
    alone = [comb(n - int(c), batch - 1) / comb(n - 1, batch - 1) for c in counts]
    return float(1 - (counts / n * alone).sum())


def _simulated(counts: np.ndarray, batch: int, draws: int, rng: np.random.Generator) -> float:
    """`false_negative` from batches drawn without repetition: numbers of images of each class."""
    found = rng.multivariate_hypergeometric(counts, batch, size=draws)
    return float(np.where(found > 1, found, 0).sum(1).mean() / batch)


@check("nl/num4", on="runs")
def num4(t: Trial, classes: Classes, x: Images, draws: int, seed: int) -> None:
    """MNIST with four receptive fields: data and training protocol (App. E.3).

    Protocol   the data set and the library's fields; `classes` counts the images of each digit,
               `used` and in the `file`; 400 batches a draw, 24000 at most.
    Question   Do four disjoint quarters make up the image, has the training file 60,000 images, of
               which we use 50,000? Is the chance that an image has a false negative in its batch
               the closed form (four standard errors), growing with the batch?
    Refuted    by other fields or counts, another chance. Controls: two fields exchanged, a file of
               50,000 as typeset, a batch of half the size, a separate class for every image.
    """
    # The library's fields, and quarters cut by slices.
    half, cut = x.shape[-1] // 2, fields.quarters(x)
    slices = [x[:, :half, :half], x[:, :half, half:], x[:, half:, :half], x[:, half:, half:]]
    by_hand = torch.stack([part.flatten(1) for part in slices], 1)
    drawn: Shared = {"sort": "sampled"}  # nothing here is trained
    name = "four disjoint fields make up the image"
    disjoint = t.part(name, controls=pooled, draws=len(x), **drawn)
    disjoint.add(ref.absolute(cut, by_hand), ref.absolute(fields.assemble(cut), x))
    swapped = ref.absolute(cut[:, [0, 2, 1, 3]], by_hand)
    disjoint.breaks("upper right and lower left exchanged", swapped)

    # Images in the file, and those that are used.
    used, file = int(classes.used.sum()), int(classes.file.sum())
    images = t.part("number of training images", draws=len(classes), **drawn)
    images.says(file=file, used=used)
    images.add(abs(file - 60_000), abs(used - 50_000))
    images.breaks("as typeset, 50,000", abs(file - 50_000))

    # Another image of the class in a batch: counted in drawn batches, and in closed form.
    rng, batches = generator("nl/num4", seed), 400 * min(draws, 60)
    counts = classes.used.to_numpy()
    found = {b: _simulated(counts, b, batches, rng) for b in (2, 4, 8, 16, 32)}
    bound = 4 * (0.25 / batches) ** 0.5
    chance = t.part("chance that an image has a false negative", bound, draws=batches, **drawn)
    chance.add(*(abs(share - false_negative(counts, b)) for b, share in found.items()))
    chance.breaks("a batch of half the size", abs(found[8] - false_negative(counts, 4)))
    chance.says(small=false_negative(counts, 8), large=false_negative(counts, 128))

    # From each size of batches to the next; of 1000 images in as many classes none has another.
    own = np.ones(len(counts) * 100, int)
    grows = t.part("it grows with the batch", 0.05, ">=", draws=batches, **drawn)
    grows.add(np.diff(list(found.values())))
    grows.breaks("a class of its own for every image", _simulated(own, 32, 20, rng))


def beside(
    runs: pd.DataFrame, ends: pd.DataFrame, classes: pd.DataFrame, x: Tensor
) -> list[Callable[[int, int], Iterator[Check]]]:
    """All checks, as `Ledger.run` takes them."""
    return [
        lambda draws, seed: num4(classes, x, draws, seed),
        lambda draws, seed: fig12(runs, ends),
        lambda draws, seed: fig13(runs, ends),
    ]
