"""What the runs of nl Figures 12 and 13 are fed, minimise and measure, once more by numpy loops
over pixels, filters and patches; gradients by complex steps, in double precision."""

import cmath

import numpy as np
import pandas as pd
import pytest
import torch

from clcore import random as cr
from clcore.experiments import image_fields as fields
from clcore.images.augmentations import crop_boxes
from clcore.reference import STEP

pytestmark = pytest.mark.usefixtures("one_thread")
SIDE = 8


def images(seed, count):
    return np.random.default_rng(seed).integers(0, 256, (count, SIDE, SIDE)).astype(np.uint8)


def cut(x):
    """The four fields, [n, 4, d], by slices."""
    h = x.shape[-1] // 2
    parts = (x[:, :h, :h], x[:, :h, h:], x[:, h:, :h], x[:, h:, h:])
    return np.stack([part.reshape(len(x), -1) for part in parts], 1)


# ---------------------------------------------------------------------------------------- filters


def variation(w):
    """Of one square filter: lengths of its differences to the right and down, 0 at the border."""
    side, out = len(w), 0.0
    for y, x in np.ndindex(w.shape):
        right = w[y, x + 1] - w[y, x] if x + 1 < side else 0.0
        down = w[y + 1, x] - w[y, x] if y + 1 < side else 0.0
        out += (right**2 + down**2) ** 0.5
    return out


def high(w, above=0.25):
    """Share of its energy at frequencies above a quarter of the sampling rate, by Fourier sums."""
    side, energy = len(w), {False: 0.0, True: 0.0}
    for u, v in np.ndindex(w.shape):
        rate = [(k if 2 * k < side else k - side) / side for k in (u, v)]
        waves = [cmath.exp(-2j * cmath.pi * (u * y + v * x) / side) for y, x in np.ndindex(w.shape)]
        size = abs(sum(a * b for a, b in zip(w.ravel(), waves, strict=True))) ** 2
        energy[(rate[0] ** 2 + rate[1] ** 2) ** 0.5 > above] += size
    return energy[True] / (energy[False] + energy[True])


def mixed(w):
    """Filters with their pixels in the order that `shuffled` has."""
    return w[..., fields.shuffled(torch.arange(float(w.shape[-1]))).long().tolist()]


def measured(W, patches):
    """Of the filters [M, d] of a field, and its patches [P, d]."""
    side = round(W.shape[1] ** 0.5)
    unit = W / np.sqrt((W**2).sum(1, keepdims=True))
    near = [p / np.sqrt(p @ p) for p in patches]
    shares = np.linalg.svd(unit, compute_uv=False) ** 2 / len(unit)
    shares = shares[shares > 1e-12]
    squares, shuffled = unit.reshape(-1, side, side), mixed(unit)
    return {
        "tv": np.mean([variation(w) for w in squares]),
        "tv_shuffled": np.mean([variation(w) for w in shuffled.reshape(-1, side, side)]),
        "high": np.mean([high(w) for w in squares]),
        "rank": np.exp(-(shares * np.log(shares)).sum()),
        "match": np.mean([max(w @ p for p in near) for w in unit]),
        "match_shuffled": np.mean([max(w @ p for p in near) for w in shuffled]),
        "norm": np.mean([np.sqrt(w @ w) for w in W]),
    }


def test_pixels_are_shuffled_by_one_permutation():
    order = mixed(np.arange(16)).tolist()
    assert sorted(order) == list(range(16)) != order


def test_measures_of_filters():
    rng = np.random.default_rng(0)
    W, patches = rng.standard_normal((4, 5, 16)), rng.random((6, 4, 16))
    W *= rng.lognormal(0, 3, (4, 5, 1))
    found = fields.measures(torch.from_numpy(W), torch.from_numpy(patches))
    for k in range(4):
        for name, value in measured(W[k], patches[:, k]).items():
            assert float(found[f"{name}{k}"]) == pytest.approx(value, rel=1e-10), (name, k)


@pytest.fixture(scope="module")
def small():
    """Patches, and small nets after two steps."""
    pixels, patches = torch.from_numpy(images(1, 24)), cut(images(2, 5) / 255 - 0.5)
    seen = torch.from_numpy(patches).float()
    return patches, seen, fields.nets(pixels, seen, ("plain", "crop"), [0], 1, 2, [0])


@pytest.mark.parametrize("arm", ["plain", "crop"])
def test_tables_and_pictures_of_small_nets(small, arm):
    patches, seen, nets = small
    result = nets[arm]
    ends = fields.living(result, arm, seen)
    curves, kept = (of(result, arm) for of in (fields.tidy, fields.tiles))
    guess = ends.loss > 0.99 * np.log(8) * ends.protocol.map({"paper": 0.8, "released": 1.0})
    assert (fields.collapsed(ends) == guess).all()
    assert (len(ends), len(curves), len(kept)) == (8, 16, 80)
    moved = 0.0
    for row in ends.itertuples():
        runs = result.table[result.table.lr == fields.ts.RATES[row.protocol]]
        W = result.params(int(runs.run.iloc[0]))["W"].double().numpy()[row.field]
        excited = [any(w @ p > 0 for p in patches[:, row.field]) for w in W]
        lives, every = W[excited], measured(W, patches[:, row.field])
        wanted = measured(lives, patches[:, row.field]) | {"alive": np.mean(excited)}
        flat = lives / abs(lives).max(1, keepdims=True)
        flat = (flat - flat.mean(1, keepdims=True)).reshape(-1, 4, 4)
        wanted["high_centred"] = np.mean([high(w) for w in flat])
        shuffled = mixed(flat.reshape(-1, 16)).reshape(-1, 4, 4)
        wanted["high_centred_shuffled"] = np.mean([high(w) for w in shuffled])
        for name, value in wanted.items():
            assert getattr(row, name) == pytest.approx(value, rel=1e-4), name
        assert row.loss == runs.loss[runs.step == 2].iloc[0] != runs.loss[runs.step == 0].iloc[0]
        here = curves[(curves.protocol == row.protocol) & (curves.field == row.field)]
        last, first = (here[here.step == step].iloc[0] for step in (2, 0))
        for name, value in every.items():
            assert last[name] == pytest.approx(value, rel=1e-4), name
        moved = max(moved, abs(first["match"] / every["match"] - 1))
        rows = kept[(kept.protocol == row.protocol) & (kept.field == row.field)]
        drawn = fields.montage(rows).numpy()[:4]
        for m, w in enumerate(W):
            tile = drawn[:, 5 * m : 5 * m + 4]
            assert abs(tile - (w / abs(w).max()).reshape(4, 4)).max() <= 0.51 / 127
    assert moved > 3e-4  # rows of step 0 are not those of step 2


def test_pictures_are_of_the_first_seed_a_few_in_a_line():
    pixels, seen = torch.from_numpy(images(1, 24)), torch.zeros(1, 4, 16)
    both, first, second = (
        fields.tiles(fields.nets(pixels, seen + 1, ["plain"], seeds, 1, 1)["plain"], "plain", 4)
        for seeds in ([3, 4], [3], [4])
    )
    assert len(both) == 32 and both.equals(first) and not both.equals(second)
    rows = both[both.protocol == "paper"]
    assert [tuple(fields.montage(rows, n).shape) for n in (3, 4)] == [(20, 15), (20, 20)]


@pytest.mark.parametrize("asked", [None, [1], [1, 2]])
def test_a_table_has_the_first_step_the_last_and_those_asked_for(asked):
    pixels, seen = torch.from_numpy(images(1, 24)), torch.zeros(1, 4, 16)
    table = fields.nets(pixels, seen + 1, ["plain"], [0], 1, 4, asked)["plain"].table
    assert {*table.step} == {0, 4, *(asked or ())}


def test_collapsed_nets_guess_one_of_eight_images():
    scales = {"paper": 0.8, "released": 1.0}
    rows = [(name, k * scales[name] * np.log(8)) for name in scales for k in (0.985, 0.995, 1.0)]
    found = fields.collapsed(pd.DataFrame(rows, columns=["protocol", "loss"]))
    assert found.tolist() == [False, True, True] * 2


# ----------------------------------------------------------------------------------------- a batch


def resampled(length, start, count):
    """Rows of weights that stretch the pixels start, ..., start + count - 1 to `length` pixels:
    triangles as wide as the larger of a pixel and a step, confined to the box."""
    out, step = np.zeros((length, SIDE)), count / length
    for place in range(length):
        centre = start + (place + 0.5) * step
        for pixel in range(start, start + count):
            out[place, pixel] = max(0.0, 1 - abs(pixel + 0.5 - centre) / max(step, 1.0))
        out[place] /= out[place].sum()
    return out


def cropped(x, boxes):
    """Every image cut to its box (top, left, height, width) and stretched."""
    pairs = [
        (resampled(SIDE, top, height), resampled(SIDE, left, width))
        for top, left, height, width in boxes.tolist()
    ]
    return np.array([rows @ v @ columns.T for v, (rows, columns) in zip(x, pairs, strict=True)])


def loss(params, views, linear, sums):
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


@pytest.mark.parametrize("protocol", fields.ts.RATES)
@pytest.mark.parametrize("arm", fields.ARMS)
def test_a_minibatch_its_loss_and_its_gradient(arm, protocol):
    pixels, rng, key = images(3, 11), np.random.default_rng(4), cr.key(5)
    make = fields.problem(torch.from_numpy(pixels), torch.zeros(1, 4, 16))
    c = fields.configuration(0, 1, protocol=protocol, **fields.ARMS[arm])
    c |= make["setup"](key, c)
    views, order = make["data"](key, torch.tensor(1), c), c["order"].tolist()
    assert sorted(order) == list(range(11))
    taken = pixels[[order[k % 11] for k in range(8, 16)]] / 255
    wanted = np.stack([cut(taken)])
    if c["crop"]:
        boxes = crop_boxes(key, 16, SIDE, SIDE, fields.SCALE, fields.RATIO).numpy()
        wanted = cut(cropped(np.concatenate([taken, taken]), boxes)).reshape(2, 8, 4, 16)
        top, left, height, width = boxes.T
        assert boxes[:, :2].min() >= 0
        assert (top + height).max() <= SIDE and (left + width).max() <= SIDE
        assert ((height + 0.5) * (width + 0.5) >= fields.SCALE[0] * SIDE**2).all()
        assert ((width - 0.5) / (height + 0.5) <= fields.RATIO[1]).all()
        assert ((width + 0.5) / (height - 0.5) >= fields.RATIO[0]).all()
    assert views.numpy() == pytest.approx(wanted, abs=1e-6)

    params = {n: p.double().requires_grad_() for n, p in make["init"](key, c).items()}
    value = make["loss"](params, views.double(), c)
    grads = torch.autograd.grad(value, list(params.values()))
    to = {n: rng.standard_normal(p.shape) for n, p in params.items()}
    slope = sum((g.numpy() * v).sum() for g, v in zip(grads, to.values(), strict=True))
    moved = {n: p.detach().numpy() + 1j * STEP * to[n] for n, p in params.items()}
    right = loss(moved, views.double().numpy(), arm == "linear", protocol == "paper")
    assert [value.item(), slope] == pytest.approx([right.real, right.imag / STEP], abs=1e-9)


@pytest.mark.parametrize("beta", [1, 2, 3])
def test_nets_have_ten_filters_a_field_times_beta_and_fifty_outputs(beta):
    make = fields.problem(torch.from_numpy(images(3, 11)), torch.zeros(1, 4, 16))
    shapes = [
        tuple(p.shape) for p in make["init"](cr.key(6), fields.configuration(0, beta)).values()
    ]
    assert shapes == [(4, 10 * beta, 16), (50, 40 * beta)]


def test_a_batch_may_be_all_images():
    make = fields.problem(torch.from_numpy(images(3, 11)), torch.zeros(1, 4, 16))
    assert make["setup"](cr.key(6), fields.configuration(0, batch=11))
    with pytest.raises(ValueError, match="batch: expected at most the 11 images"):
        make["setup"](cr.key(6), fields.configuration(0, batch=12))
