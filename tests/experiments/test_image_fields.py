"""The two-layer net on quarters of images, its measures, and the checks on its runs."""

from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
import torch
from chapter_checks import claims_of
from torch.nn import functional as F

from clcore import _paths, ledger, random
from clcore.checks.two_layer import image_fields as checks
from clcore.experiments import image_fields as fields
from clcore.experiments import token_sequences as ts
from clcore.images import augmentations as aug
from clcore.images import image_sets

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def digits():
    """Pixels to train on, and patches that are not among them."""
    pixels = image_sets.on_device(image_sets.load("digits"))[0][:, 0]
    return pixels[:200], fields.quarters(pixels[200:300].float() / 255)


def test_quarters_are_slices_and_come_together_again():
    x = torch.rand(3, 6, 6)
    cut = fields.quarters(x)
    assert cut.shape == (3, 4, 9)
    assert torch.equal(cut[:, 1], x[:, :3, 3:].flatten(1))  # upper right
    assert torch.equal(cut[:, 2], x[:, 3:, :3].flatten(1))  # lower left
    assert torch.equal(fields.assemble(cut), x)


@pytest.mark.parametrize("shape", [(2, 7, 7), (2, 6, 8)])
def test_images_that_have_no_quarters(shape):
    told = rf"expected square images of an even side, got {shape[1]} x {shape[2]} pixels"
    with pytest.raises(ValueError, match=told):
        fields.quarters(torch.rand(shape))


def test_images_that_are_not_square_are_not_cropped(digits):
    wide = digits[0].new_zeros(20, 6, 8)
    with pytest.raises(ValueError, match=r"pixels: expected square images, got \(6, 8\)"):
        fields.problem(wide, digits[1])


# -------------------------------------------------------------------------------------- measures


def waves(side, rate):
    return torch.cos(2 * torch.pi * rate * torch.arange(side) / side).expand(side, side)


def test_high_frequency_of_plane_waves():
    """Half of Nyquist is a quarter of the sampling rate: 2 of 8 pixels are below, 3 above."""
    W = torch.stack([waves(8, k).flatten() for k in (1, 2, 3, 4)]).double()
    diagonal = (waves(8, 2).T * waves(8, 2)).flatten()[None].double()
    assert fields.high_frequency(W) == pytest.approx([0, 0, 1, 1], abs=1e-12)
    assert fields.high_frequency(diagonal) == pytest.approx([1.0])
    mixed = fields.high_frequency((W[0] + 2 * W[2])[None])
    assert mixed == pytest.approx([0.8])


def test_roughness_is_total_variation_at_norm_one():
    w = torch.zeros(1, 16).double()
    w[0, 5] = -3.0  # one pixel inside: right and down at it, and from its two other neighbours
    assert fields.roughness(w) == pytest.approx([2 + 2**0.5])
    smooth, rough = waves(8, 1).reshape(1, -1), waves(8, 4).reshape(1, -1)
    assert fields.roughness(smooth) < fields.roughness(rough)


def test_effective_rank():
    eye = torch.eye(9, dtype=torch.float64)
    assert fields.effective_rank(3 * eye[:5]) == pytest.approx(5)
    assert fields.effective_rank(eye[[0, 0, 0]] * torch.tensor([[1], [-2], [3]])) == pytest.approx(
        1
    )
    two = fields.effective_rank(eye[[0, 0, 0, 1]])
    assert two == pytest.approx(np.exp(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25))))


def test_best_match_is_the_largest_cosine_of_its_own_field():
    W, patches = torch.randn(4, 3, 9).double(), torch.rand(7, 4, 9).double()
    found = fields.best_match(W, patches)
    for k in range(4):
        for m in range(3):
            each = F.cosine_similarity(W[k, m], patches[:, k], dim=-1)
            assert found[k, m] == pytest.approx(float(each.max()))


def test_measures_of_a_patch_and_of_its_pixels_shuffled(digits):
    _, patches = digits
    found = fields.measures(patches[:5].transpose(0, 1).double(), patches.double())
    assert set(found) == {f"{m}{k}" for m in fields.MEASURES for k in range(4)}
    for k in range(4):
        assert found[f"match{k}"] == pytest.approx(1)
        assert found[f"match_shuffled{k}"] < 0.97
        assert found[f"tv{k}"] < found[f"tv_shuffled{k}"]


# ------------------------------------------------------------------------------------------ runs


def test_configuration_is_that_of_the_token_runs():
    text, program = (fields.configuration(1, 2, protocol=p) for p in ("paper", "released"))
    assert (text["lr"], program["lr"]) == (2e-3, 2e-2)
    assert text["filters"] == 20 and text["momentum"] == 0.9 and text["weight_decay"] == 5e-3
    assert text["scale"] == pytest.approx(0.8) and program["scale"] == 1
    with pytest.raises(ValueError, match="protocol: expected one of paper, released"):
        fields.configuration(1, protocol="mine")
    with pytest.raises(ValueError, match="beta: expected an int >= 1"):
        fields.configuration(1, beta=0)


def one(digits, **change):
    """Functions, configuration as a run sees it, and parameters of one run."""
    parts = fields.problem(*digits)
    c = fields.configuration(0, **change)
    c |= parts["setup"](random.key(1), c)
    return parts, c, parts["init"](random.key(2), c)


@pytest.mark.parametrize("protocol", ["paper", "released"])
def test_loss_without_crops_has_the_image_as_its_own_positive(digits, protocol):
    parts, c, params = one(digits, protocol=protocol)
    batch = parts["data"](random.key(3), torch.tensor(2), c)
    x = digits[0][c["order"][16:24]].float() / 255
    assert torch.equal(batch[0], fields.quarters(x))
    hidden = torch.einsum("kmd,nkd->nkm", params["W"], batch[0]).relu()
    z = F.normalize(hidden.flatten(1) @ params["V"].T, dim=1)
    logits = z @ z.T / ts.TEMPERATURE  # its diagonal: the positives
    mode = "sum" if protocol == "paper" else "mean"
    expected = F.cross_entropy(logits, torch.arange(8), reduction=mode)
    expected *= ts.TEMPERATURE if protocol == "paper" else 1
    assert float(parts["loss"](params, batch, c)) == pytest.approx(float(expected), rel=1e-5)


def test_crops_are_two_views_of_each_image(digits):
    parts, c, params = one(digits, crop=True)
    key = random.key(3)
    batch = parts["data"](key, torch.tensor(0), c)
    x = digits[0][c["order"][:8]].float() / 255
    box = aug.crop_boxes(key, 16, 8, 8, fields.SCALE, fields.RATIO)
    for i, (top, left, h, w) in enumerate(box.tolist()):
        cut = x[i % 8, top : top + h, left : left + w]
        expected = F.interpolate(cut[None, None], (8, 8), mode="bilinear")[0]
        assert torch.allclose(batch.flatten(0, 1)[i], fields.quarters(expected)[0], atol=1e-5)
    hidden = torch.einsum("kmd,vnkd->vnkm", params["W"], batch).relu()
    a, b = F.normalize(hidden.flatten(2) @ params["V"].T, dim=2)
    logits = a @ a.T
    logits[range(8), range(8)] = (a * b).sum(1)
    expected = F.cross_entropy(logits / ts.TEMPERATURE, torch.arange(8), reduction="sum")
    found = float(parts["loss"](params, batch, c))
    assert found == pytest.approx(ts.TEMPERATURE * float(expected), rel=1e-5)


def test_a_pass_is_every_image_once(digits):
    parts, c, _ = one(digits)
    seen = [parts["data"](random.key(9), torch.tensor(t), c)[0] for t in range(25)]
    everything = fields.assemble(torch.cat(seen)).flatten(1)
    expected = digits[0].float().flatten(1) / 255
    assert torch.equal(everything.sort(0).values, expected.sort(0).values)
    assert torch.equal(parts["data"](random.key(9), torch.tensor(25), c)[0], seen[0])


def test_batch_larger_than_the_data(digits):
    parts = fields.problem(digits[0][:5], digits[1])
    with pytest.raises(ValueError, match="batch: expected at most the 5 images there are, got 8"):
        parts["setup"](random.key(0), fields.configuration(0))


@pytest.fixture(scope="module")
def trained(digits):
    return fields.nets(*digits, list(fields.ARMS), range(2), beta=1, steps=4)


def test_runs_do_not_depend_on_their_company(digits, trained):
    alone = fields.nets(*digits, ["crop"], [1], beta=1, steps=4)["crop"]
    for mine, theirs in ((0, 1), (1, 3)):
        a, b = alone.params(mine)["W"], trained["crop"].params(theirs)["W"]
        assert torch.allclose(a, b, atol=1e-6)


def test_arms_share_start_and_order(trained):
    plain, crop = trained["plain"], trained["crop"]
    assert torch.equal(plain.setup(0)["order"], crop.setup(0)["order"])
    assert not torch.equal(plain.setup(0)["order"], plain.setup(1)["order"])
    a, b = (fields.tidy(trained[arm], arm).query("step == 0") for arm in ("plain", "linear"))
    measured = list(fields.MEASURES)
    assert np.allclose(a[measured].to_numpy(), b[measured].to_numpy())


def test_unknown_arm(digits):
    with pytest.raises(ValueError, match="arm: expected one of plain, crop, linear, got 'noise'"):
        fields.nets(*digits, ["noise"], [0])


def test_tables_and_picture(trained):
    table = fields.tidy(trained["crop"], "crop")
    assert len(table) == 2 * 2 * 2 * 4  # protocols, seeds, steps, fields
    assert set(table.protocol) == {"paper", "released"}
    kept = fields.tiles(trained["crop"], "crop", count=3)
    assert len(kept) == 2 * 4 * 3
    picture = fields.montage(kept[kept.protocol == "released"])
    assert picture.shape == (4 * 5, 3 * 5)
    W = trained["crop"].params(2)["W"][1, 2].reshape(4, 4)  # field 1, filter 2
    shown = picture[5:9, 10:14]
    assert torch.allclose(shown, W / W.abs().max(), atol=0.005)
    assert picture[4].isnan().all() and picture[:, 4].isnan().all()


# ------------------------------------------------------------------------------------- the checks


def runs(steps=50_000, seeds=5, **change):
    """Runs as the paper says they are; `change`: another value of (arm, measure)."""
    rng = np.random.default_rng(0)
    value = {
        **dict.fromkeys([("plain", "tv"), ("linear", "tv")], 12.0),
        ("crop", "tv"): 8.0,
        **dict.fromkeys([("plain", "high"), ("linear", "high")], 0.3),
        ("crop", "high"): 0.2,
        **dict.fromkeys([("plain", "centred"), ("linear", "centred")], 0.4),
        ("crop", "centred"): 0.3,
        **dict.fromkeys([("plain", "rank"), ("crop", "rank")], 14.0),
        ("linear", "rank"): 6.0,
        **{(arm, "match"): 0.5 for arm in fields.ARMS},
    } | {tuple(name.split("_")): v for name, v in change.items()}
    start = {"tv": 24.0, "high": 0.8, "centred": 0.8, "rank": 19.0, "match": 0.15}
    rows = []
    for arm in fields.ARMS:
        for protocol in ts.RATES:
            for seed in range(seeds):
                for field in range(4):
                    noise = 1 + 0.01 * rng.standard_normal()
                    for step in (0, steps):
                        row = {m: value[arm, m] * noise if step else start[m] for m in start}
                        row |= {"tv_shuffled": 24.0, "match_shuffled": 0.15 - 0.01 * noise}
                        row |= {"arm": arm, "protocol": protocol, "seed": seed}
                        rows.append(row | {"field": field, "step": step})
    return pd.DataFrame(rows).rename(columns={"centred": "high_centred"})


def tables(made):
    """Runs as `tidy` makes them, and their ends as `living` does."""
    ends = made[made.step > 0].assign(high_centred_shuffled=0.8, alive=1.0)
    return made.drop(columns="high_centred"), ends


CLASSES = pd.DataFrame({"digit": range(10), "used": [5000] * 10, "file": [6000] * 10})


def test_runs_as_the_paper_says_pass(digits):
    book = ledger.Ledger("any")
    x = digits[0].float() / 255
    found = book.run(checks.beside(*tables(runs()), CLASSES, x), draws=6, seed=11)
    assert {r.claim for r in found} == set(claims_of("nl", "images"))
    assert all(r.passed for r in found), [r.part for r in found if not r.passed]
    asserting = [r for r in found if r.sort != "definition"]
    assert {r.evidence for r in asserting if r.claim != "nl/num4"} == {"protocol"}
    assert len(asserting) == 4 + 4 + 6


@pytest.mark.parametrize("made", [runs(steps=500), runs(seeds=4)])
def test_less_than_full_size_is_partial(made):
    made = tables(made)
    assert {c.evidence for c in (*checks.fig12(*made), *checks.fig13(*made))} == {"partial"}


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"crop_tv": 12.0}, "less total variation"),
        ({"crop_tv": 13.0}, "less total variation"),
        ({"crop_high": 0.3}, "weaker high frequencies"),
        ({"crop_centred": 0.4}, "weaker high frequencies, mean removed"),
        ({"plain_rank": 6.0}, "a field's filters are more diverse than linear ones"),
        ({"plain_match": 0.15}, "filters look like parts of digits"),
    ],
)
def test_other_runs_fail(change, part):
    made = tables(runs(**change))
    for c in (*checks.fig12(*made), *checks.fig13(*made)):
        stem = next(c.part.removesuffix(name) for name in checks.NAMES.values() if name in c.part)
        assert (c.measured >= c.bound) is not (stem == part), c.part


def test_one_field_that_is_not_smoother_is_enough():
    made = runs()
    worse = (made.arm == "crop") & (made.field == 2) & (made.step > 0)
    made.loc[worse, "tv"] = 12.0
    found = {c.part: c for c in checks.fig13(*tables(made))}
    first = found["less total variation, released program"]
    assert first.measured < first.bound


def test_interval_is_the_paired_one():
    differences = pd.DataFrame({0: [1.0, 2.0, 3.0], 1: [1.0, 2.0, 3.0]})
    mean, low, high = checks.interval(differences)
    assert mean == 2 and (low + high) / 2 == pytest.approx(2)
    assert high - mean == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert checks.ratio(differences) == pytest.approx([2 * 3**0.5] * 2)
    assert checks.ratio(0 * differences).tolist() == [0, 0]


def test_rougher_filters_are_recorded_as_a_failure_and_not_refused():
    made = tables(runs(crop_tv=14.0))
    found = [c for c in checks.fig13(*made) if c.part.startswith("less total variation")]
    assert [ledger.judge(c) for c in found] == [False, False]


def test_missing_arm_says_so():
    with pytest.raises(ValueError, match="expected runs of crop under 'paper', got none"):
        list(checks.fig13(*tables(runs().query("arm != 'crop'"))))


def test_a_training_file_of_another_size_fails(digits):
    x = digits[0].float() / 255
    for change in ({"file": [6100] * 10}, {"used": [4900] * 10}):
        with pytest.raises(ledger.LedgerError, match="'number of training images'"):
            list(checks.num4(CLASSES.assign(**change), x, 6, 0))


def test_recorded_runs_carry_the_figures():
    """The verdicts rest on these files: all parts at full size, none near a control."""
    folder = _paths.root() / "data" / "recorded" / "5-two-layer-images"
    made, ends = (pd.read_csv(folder / f"{name}.csv") for name in ("runs", "ends"))
    assert len(ends) == made[["arm", "protocol", "seed", "field"]].drop_duplicates().shape[0]
    for c in (*checks.fig12(made, ends), *checks.fig13(made, ends)):
        assert ledger.judge(c) and c.evidence == "protocol", c.part
        assert max(c.control.values()) < 0.6 * c.bound, c.part
        if "pixels" not in "".join(c.control):
            assert checks.EXCHANGED in c.control


def test_false_negatives_by_enumeration():
    """Batches of 3 out of classes of 2, 1 and 2 images."""
    labels = [0, 0, 1, 2, 2]
    from itertools import permutations

    found = [labels[i] in (labels[j], labels[k]) for i, j, k in permutations(range(5), 3)]
    assert checks.false_negative(np.array([2, 1, 2]), 3) == pytest.approx(np.mean(found))


@pytest.mark.parametrize("seed", range(5))
def test_num4_holds_for_any_seed(digits, seed):
    book = ledger.Ledger("any")
    x = digits[0].float() / 255
    records = book.run([lambda d, s: checks.num4(CLASSES, x, d, s)], draws=6, seed=seed)
    assert all(r.passed for r in records)


def test_a_filter_that_decayed_keeps_its_direction(digits):
    _, patches = digits
    W = patches[:5].transpose(0, 1) + 0.1
    small = fields.measures(1e-25 * W, patches)
    for name, value in fields.measures(W, patches).items():
        if not name.startswith("norm"):
            assert small[name] == pytest.approx(float(value), rel=1e-4), name


def test_alive_are_filters_that_some_patch_excites(digits):
    _, patches = digits
    W = torch.rand(4, 2, 16)
    W[1, 0], W[3] = -1.0, -1e-30  # nothing is below zero in a patch
    W[2] *= 1e-30
    lives = fields.alive(W, patches).tolist()
    assert lives == [[True, True], [False, True], [True, True], [False, False]]


def test_ends_are_of_living_filters(digits, trained):
    _, patches = digits
    net = deepcopy(trained["crop"])
    W = next(params["W"][held.index(2)] for held, params, _ in net.stacked if 2 in held)
    W[1, 0] = -1.0  # dies
    table = fields.living(net, "crop", patches)
    assert len(table) == 4 * 4  # nets, fields
    row = table[(table.protocol == "released") & (table.seed == 0) & (table.field == 1)].iloc[0]
    lives = fields.alive(W, patches)[1]
    assert not lives[0] and row.alive == pytest.approx(float(lives.float().mean()))
    kept = W[1][lives]
    assert row["rank"] == pytest.approx(float(fields.effective_rank(kept)), rel=1e-4)
    assert row.tv == pytest.approx(float(fields.roughness(kept).mean()), rel=1e-4)
    assert row.high == pytest.approx(float(fields.high_frequency(kept).mean()), rel=1e-4)
    centred = kept - kept.mean(-1, keepdim=True)
    assert row.high_centred == pytest.approx(float(fields.high_frequency(centred).mean()), rel=1e-3)
    assert row.high_centred > row.high and row.high_centred != row.high_centred_shuffled


def test_collapsed_nets_have_the_loss_of_guessing():
    guess = np.log(8)
    rows = [("paper", 0.8 * guess), ("released", guess), ("paper", 0.7 * guess), ("released", 1.9)]
    ends = pd.DataFrame(rows, columns=["protocol", "loss"])
    assert fields.collapsed(ends).tolist() == [True, True, False, False]
