"""What the runs of nl Figures 12 and 13 are fed, minimise and measure, once more by hand.

`experiments.image_fields` meets numpy loops over pixels, filters and patches; double precision.
"""

import cmath
from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch

from clcore import reference as ref
from clcore.experiments import image_fields as fields
from clcore.images.augmentations import crop_boxes
from clcore.ledger import Trial, check, pooled
from clcore.reference import STEP, Array

SIDE = 8


def _images(t: Trial, what: str, count: int) -> Array:
    return t.stream(what).integers(0, 256, (count, SIDE, SIDE)).astype(np.uint8)


def _cut(x: Array) -> Array:
    """The four fields, [n, 4, d], by slices."""
    h = x.shape[-1] // 2
    parts = (x[:, :h, :h], x[:, :h, h:], x[:, h:, :h], x[:, h:, h:])
    return np.stack([part.reshape(len(x), -1) for part in parts], 1)


# ---------------------------------------------------------------------------------------- filters


def _variation(w: Array) -> float:
    """Of one square filter: lengths of its differences to the right and down, 0 at the border."""
    side, out = len(w), 0.0
    for y, x in np.ndindex(w.shape):
        right = w[y, x + 1] - w[y, x] if x + 1 < side else 0.0
        down = w[y + 1, x] - w[y, x] if y + 1 < side else 0.0
        out += (right**2 + down**2) ** 0.5
    return out


def _high(w: Array, above: float = 0.25) -> float:
    """Share of its energy at frequencies above a quarter of the sampling rate, by Fourier sums."""
    side, energy = len(w), {False: 0.0, True: 0.0}
    for u, v in np.ndindex(w.shape):
        rate = [(k if 2 * k < side else k - side) / side for k in (u, v)]
        waves = [cmath.exp(-2j * cmath.pi * (u * y + v * x) / side) for y, x in np.ndindex(w.shape)]
        size = abs(sum(a * b for a, b in zip(w.ravel(), waves, strict=True))) ** 2
        energy[(rate[0] ** 2 + rate[1] ** 2) ** 0.5 > above] += size
    return energy[True] / (energy[False] + energy[True])


def _mixed(w: Array) -> Array:
    """Filters with their pixels in the order that `shuffled` has."""
    return w[..., fields.shuffled(torch.arange(float(w.shape[-1]))).long().tolist()]


def _measures(W: Array, patches: Array) -> dict[str, float]:
    """Of the filters [M, d] of a field, and its patches [P, d]."""
    side = round(W.shape[1] ** 0.5)
    unit = W / np.sqrt((W**2).sum(1, keepdims=True))
    near = [p / np.sqrt(p @ p) for p in patches]
    shares = np.linalg.svd(unit, compute_uv=False) ** 2 / len(unit)
    shares = shares[shares > 1e-12]
    squares, mixed = unit.reshape(-1, side, side), _mixed(unit)
    return {
        "tv": np.mean([_variation(w) for w in squares]),
        "tv_shuffled": np.mean([_variation(w) for w in mixed.reshape(-1, side, side)]),
        "high": np.mean([_high(w) for w in squares]),
        "rank": np.exp(-(shares * np.log(shares)).sum()),
        "match": np.mean([max(w @ p for p in near) for w in unit]),
        "match_shuffled": np.mean([max(w @ p for p in near) for w in mixed]),
        "norm": np.mean([np.sqrt(w @ w) for w in W]),
    }


@check("nl/fig13")
def measures_by_hand(t: Trial) -> None:
    """MNIST filters with augmentation are smoother (Figure 13).

    Given   random filters and patches; small nets after two steps.
    Claim   What is measured of filters, of the living ones, and what is kept as tables and
            pictures, is what its words say: against numpy.
    Fails   for the next field's filters, mirrored pixels, values before training, other seeds and
            steps.

    What the filters look like is judged on runs.
    """
    part = t.defines("measures of filters", 1e-10, controls=pooled)
    rng = t.stream("filters")
    order = _mixed(np.arange(16)).tolist()
    part.add(float(sorted(order) != list(range(16)) or order == list(range(16))))
    for _ in range(min(t.draws, 3)):
        W, patches = rng.standard_normal((4, 5, 16)), rng.random((6, 4, 16))
        W *= rng.lognormal(0, 3, (4, 5, 1))
        found = fields.measures(*ref.tensors(W, patches))
        for k in range(4):
            for name, value in _measures(W[k], patches[:, k]).items():
                ours = float(found[f"{name}{k}"])
                part.add(abs(ours - value) / abs(value))
                other = _measures(W[k - 1, :, ::-1], patches[:, k])[name]
                part.breaks("the next field's, mirrored", abs(ours - other) / abs(other))
    _living(t)
    _recorded(t)
    _kept(t)


def _kept(t: Trial) -> None:
    """Pictures of the first of two seeds, a few in a line; which losses are those of guessing, the
    logarithm of eight images. Controls: the other seed, all in a line, a protocol's for both."""
    pictures, guesses = t.defines("pictures that are kept", 0.0), t.defines("nets that guess", 0.0)
    pixels, seen = torch.from_numpy(_images(t, "train", 24)), torch.zeros(1, 4, 16)
    both, *each = (
        fields.tiles(fields.nets(pixels, seen + 1, ["plain"], seeds, 1, 1)["plain"], "plain", 4)
        for seeds in ([t.seed, t.seed + 1], [t.seed], [t.seed + 1])
    )
    pictures.add(float(len(both) != 32 or not both.equals(each[0])))
    pictures.breaks("of the second", float(not both.equals(each[1])))
    rows = both[both.protocol == "paper"]
    few, whole = (tuple(fields.montage(rows, n).shape) for n in (3, 4))
    pictures.add(float(few != (20, 15)), float(whole != (20, 20)))
    pictures.breaks("all in a line", float(whole != (20, 15)))
    scales = {"paper": 0.8, "released": 1.0}
    table = pd.DataFrame(
        [(name, k * scales[name] * np.log(8)) for name in scales for k in (0.985, 0.995, 1.0)],
        columns=["protocol", "loss"],
    )
    found = fields.collapsed(table).to_numpy()
    guesses.add(found != [False, True, True] * 2)
    for name, scale in scales.items():
        same = found == (table.loss > 0.99 * scale * np.log(8)).to_numpy()
        guesses.breaks(f"all as {name}", float(not same.all()))


def _recorded(t: Trial) -> None:
    """Which steps of small nets are in their tables: the first, the last, and those asked for."""
    part = t.defines("steps of a table", 0.0)
    pixels, seen = torch.from_numpy(_images(t, "train", 24)), torch.zeros(1, 4, 16)
    for asked in (None, [1], [1, 2]):
        found = fields.nets(pixels, seen + 1, ["plain"], [t.seed], 1, 4, asked)["plain"].table
        part.add(float({*found.step} != {0, 4, *(asked or ())}))
        part.breaks("the last but one", float({*found.step} != {0, 3, *(asked or ())}))


def _living(t: Trial) -> None:
    """Tables of small nets: living filters, curves, and the pictures that are kept."""
    part = t.defines("tables of runs", 1e-4, controls=pooled)
    losses = t.defines("losses at the end", 0.0, controls=pooled)
    pixels = torch.from_numpy(_images(t, "train", 24))
    patches = _cut(_images(t, "patches", 5) / 255 - 0.5)
    seen = torch.from_numpy(patches).float()
    arms = ("plain", "crop")
    for arm, result in fields.nets(pixels, seen, arms, [t.seed], 1, 2, [0]).items():
        ends, curves, kept = (
            fields.living(result, arm, seen),
            *(of(result, arm) for of in (fields.tidy, fields.tiles)),
        )
        guess = ends.loss > 0.99 * np.log(8) * ends.protocol.map({"paper": 0.8, "released": 1.0})
        part.add(float((fields.collapsed(ends) != guess).sum()))
        part.add(abs(len(ends) - 8), abs(len(curves) - 16), abs(len(kept) - 80))
        for r in ends.itertuples():
            runs = result.table[(result.table.lr == fields.ts.RATES[r.protocol])]
            W = result.params(int(runs.run.iloc[0]))["W"].double().numpy()[r.field]
            seen_by = [any(w @ p > 0 for p in patches[:, r.field]) for w in W]
            lives, of = W[seen_by], _measures(W, patches[:, r.field])
            expected = _measures(lives, patches[:, r.field]) | {"alive": np.mean(seen_by)}
            flat = lives / abs(lives).max(1, keepdims=True)
            flat = (flat - flat.mean(1, keepdims=True)).reshape(-1, 4, 4)
            expected["high_centred"] = np.mean([_high(w) for w in flat])
            mixed = _mixed(flat.reshape(-1, 16)).reshape(-1, 4, 4)
            expected["high_centred_shuffled"] = np.mean([_high(w) for w in mixed])
            part.add(*(abs(getattr(r, name) - v) / abs(v) for name, v in expected.items()))
            losses.add(abs(r.loss - float(runs.loss[runs.step == 2].iloc[0])))
            losses.breaks("before training", abs(r.loss - float(runs.loss[runs.step == 0].iloc[0])))
            at = curves[(curves.protocol == r.protocol) & (curves.field == r.field)]
            last, first = (at[at.step == step].iloc[0] for step in (2, 0))
            part.add(*(abs(last[name] - v) / abs(v) for name, v in of.items()))
            part.breaks("before training", abs(first["match"] - of["match"]) / abs(of["match"]))
            rows = kept[(kept.protocol == r.protocol) & (kept.field == r.field)]
            drawn = fields.montage(rows).numpy()[:4]
            for m, w in enumerate(W):
                tile = drawn[:, 5 * m : 5 * m + 4]
                off = abs(tile - (w / abs(w).max()).reshape(4, 4)).max()
                part.add(max(0.0, off - 0.51 / 127))
                part.breaks("the filter turned", abs(tile.T - w.reshape(4, 4) / abs(w).max()).max())


# ----------------------------------------------------------------------------------------- a batch


def _resampled(length: int, box: Array) -> Array:
    """Rows of weights that stretch pixels box[0], ..., box[0] + box[1] - 1 to `length` pixels:
    triangles as wide as the larger of a pixel and a step, confined to the box."""
    start, count = box.tolist()
    out, step = np.zeros((length, SIDE)), count / length
    for place in range(length):
        centre = start + (place + 0.5) * step
        for pixel in range(start, start + count):
            out[place, pixel] = max(0.0, 1 - abs(pixel + 0.5 - centre) / max(step, 1.0))
        out[place] /= out[place].sum()
    return out


def _cropped(x: Array, boxes: Array) -> Array:
    """Every image cut to its box (top, left, height, width) and stretched."""
    pairs = [(_resampled(SIDE, b[[0, 2]]), _resampled(SIDE, b[[1, 3]])) for b in boxes]
    return np.array([rows @ v @ columns.T for v, (rows, columns) in zip(x, pairs, strict=True)])


def _off_limits(boxes: Array) -> float:
    """How far boxes leave the image, or their areas and ratios the recipe's range but for whole
    pixels."""
    top, left, h, w = boxes.T
    leaves = max(0, -boxes[:, :2].min(), (top + h).max() - SIDE, (left + w).max() - SIDE)
    area = max(0.0, *(fields.SCALE[0] * SIDE**2 - (h + 0.5) * (w + 0.5)))
    ratio = max(
        *((w - 0.5) / (h + 0.5) - fields.RATIO[1]), *(fields.RATIO[0] - (w + 0.5) / (h - 0.5))
    )
    return float(max(leaves, area, ratio, 0.0))


def _loss(params: Mapping[str, Array], views: Array, linear: bool, sums: bool) -> complex:
    """nl's cross-entropies at temperature 0.1 on outputs of norm 1, negatives of the first view."""
    out = []
    for view in views:
        z = []
        for x in view:
            hidden = [W @ field for W, field in zip(params["W"], x, strict=True)]
            hidden = np.concatenate([u if linear else np.where(u.real > 0, u, 0) for u in hidden])
            f = params["V"] @ hidden
            z.append(f / np.sqrt((f**2).sum()))
        out.append(z)
    first, second = out[0], out[-1]
    total = 0.0
    for i, a in enumerate(first):
        far = [np.exp((a * b).sum() / 0.1) for j, b in enumerate(first) if j != i]
        near = np.exp((a * second[i]).sum() / 0.1)
        total = total - np.log(near / (near + sum(far)))
    return 0.1 * total if sums else total / len(first)


@check("nl/fig12")
def batch_by_hand(t: Trial) -> None:
    """MNIST filters of four receptive fields without augmentation (Figure 12).

    Given   small nets of every arm under both protocols, random images.
    Claim   Minibatches, crops, the loss of a batch and its gradient along a random direction are
            those of the protocol: numpy and complex steps.
    Fails   for the batch before, another image's box, sum and mean exchanged, linear and ReLU
            exchanged.

    What the filters look like is judged on runs.
    """
    inputs = t.defines("minibatches", 1e-6, controls=pooled)
    part = t.defines("loss and gradient of a batch", 1e-9, controls=pooled)
    pixels, rng = _images(t, "train", 11), t.stream("along")
    make = fields.problem(torch.from_numpy(pixels), torch.zeros(1, 4, 16))
    settings = [(arm, protocol) for arm in fields.ARMS for protocol in fields.ts.RATES]
    for key, (arm, protocol) in zip(t.keys(len(settings)), settings, strict=True):
        c = fields.configuration(0, 1, protocol=protocol, **fields.ARMS[arm])
        c |= make["setup"](key, c)
        views, order = make["data"](key, torch.tensor(1), c), c["order"].tolist()
        taken = pixels[[order[k % 11] for k in range(8, 16)]] / 255
        by_hand = np.stack([_cut(taken)])
        if c["crop"]:
            args = (SIDE, SIDE, fields.SCALE, fields.RATIO)
            boxes = crop_boxes(key, 16, *args).numpy()
            inputs.add(_off_limits(boxes))
            twice = np.concatenate([taken, taken])
            by_hand, other = (
                _cut(_cropped(twice, b)).reshape(2, 8, 4, 16) for b in (boxes, np.roll(boxes, 1, 0))
            )
            inputs.breaks("another image's box", abs(views.numpy() - other).max())
        else:
            early = make["data"](key, torch.tensor(0), c).numpy()
            inputs.breaks("the batch before", abs(early - by_hand).max())
        inputs.add(abs(views.numpy() - by_hand).max(), float(sorted(order) != list(range(11))))

        params = {n: p.double().requires_grad_() for n, p in make["init"](key, c).items()}
        value = make["loss"](params, views.double(), c)
        grads = torch.autograd.grad(value, list(params.values()))
        to = {n: rng.standard_normal(p.shape) for n, p in params.items()}
        slope = sum((g.numpy() * v).sum() for g, v in zip(grads, to.values(), strict=True))
        moved = {n: p.detach().numpy() + 1j * STEP * to[n] for n, p in params.items()}
        ours, seen = value.item() + 1j * slope * STEP, views.double().numpy()

        def off(linear: bool, sums: bool, ours=ours, moved=moved, seen=seen) -> Array:
            gap = ours - _loss(moved, seen, linear, sums)
            return np.abs([gap.real, gap.imag / STEP])

        linear, sums = arm == "linear", protocol == "paper"
        part.add(off(linear, sums))
        part.breaks("sum for mean, mean for sum", off(linear, not sums))
        part.breaks("linear for ReLU, ReLU for linear", off(not linear, sums))
    _sizes(t, make, len(pixels))


def _sizes(t: Trial, make: Mapping, images: int) -> None:
    """Nets of beta times ten filters a field, below a top layer of fifty outputs; a batch as large
    as there are images is made, a larger one refused. Control: one beta for another."""
    part, key = t.defines("sizes of nets", 0.0), t.keys(1, "sizes")[0]
    for beta in (1, 2, 3):
        c = fields.configuration(t.seed, beta)
        found = [tuple(p.shape) for p in make["init"](key, c).values()]
        for times in (beta, beta + 1):
            off = float(found != [(4, 10 * times, 16), (50, 40 * times)])
            part.add(off) if times == beta else part.breaks("of another beta", off)
    for batch in (images, images + 1):
        try:
            make["setup"](key, fields.configuration(0, batch=batch))
            taken = 1.0
        except ValueError:
            taken = 0.0
        part.add(taken != float(batch == images))
        if batch > images:
            part.breaks("a larger batch taken", 1 - taken)
