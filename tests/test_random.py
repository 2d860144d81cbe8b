import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch.func import vmap

from clcore import random as cr

KEYS = cr.key(torch.arange(7))

DRAWS = {
    "bits": lambda k: cr.bits(k, (3, 5)),
    "uniform32": lambda k: cr.uniform(k, (33,), -1, 2),
    "uniform64": lambda k: cr.uniform(k, (33,), dtype=torch.float64),
    "normal32": lambda k: cr.normal(k, (7, 33)),
    "normal64": lambda k: cr.normal(k, (7, 33), torch.float64),
    "bernoulli": lambda k: cr.bernoulli(k, 0.3, (17,)),
    "randint": lambda k: cr.randint(k, (17,), -4, 9),
    "permutation": lambda k: cr.permutation(k, 9, (2,)),
    "choice": lambda k: cr.choice(k, 9, 4, (2,)),
    "split": lambda k: cr.split(k, 3),
    "fold_in": lambda k: cr.fold_in(k, 12),
}


def plain(x):
    return x.double().flatten().numpy()


def test_bits_are_the_published_splitmix64_sequence():
    found = [int(b) % 2**64 for b in cr.bits(torch.tensor(1234567), 5)]
    assert found == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_vmap_many_keys_and_a_loop_give_the_same_bits(draw):
    loop = torch.stack([draw(k) for k in KEYS])
    assert torch.equal(vmap(draw)(KEYS), loop)
    assert torch.equal(draw(KEYS), loop)
    assert torch.equal(vmap(draw)(KEYS[2:4]), loop[2:4])


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA on this machine")
def test_cuda_gives_what_the_cpu_gives(draw):
    here, there = draw(KEYS), draw(KEYS.cuda()).cpu()
    if draw in (DRAWS["normal32"], DRAWS["normal64"]):  # erfinv is each device's own
        torch.testing.assert_close(there, here)
    else:
        assert torch.equal(there, here)


@settings(max_examples=30, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**40))
def test_any_seed_and_step_make_a_reproducible_key(seed, step):
    one = cr.fold_in(cr.key(seed), step)
    many = cr.fold_in(cr.key(torch.tensor([seed])), torch.tensor([step]))
    assert one.dtype == torch.int64 and one == many[0]
    assert one != cr.fold_in(cr.key(seed), step + 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_and_normal_follow_their_laws(dtype):
    n = 200_000
    u, z = plain(cr.uniform(KEYS[0], n, dtype=dtype)), plain(cr.normal(KEYS[1], n, dtype=dtype))
    assert u.min() >= 0 and u.max() < 1
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert stats.kstest(z, "norm").pvalue > 1e-3
    for power, moment in [(1, 0), (2, 1), (3, 0), (4, 3)]:
        spread = math.sqrt(math.prod(range(2 * power - 1, 0, -2)) / n)
        assert abs((z**power).mean() - moment) < 5 * spread
    v = plain(cr.uniform(KEYS[0], n, -3.0, 5.0, dtype))
    assert abs(v.mean() - 1) < 0.03 and -3 <= v.min() < -2.99 and 4.99 < v.max() <= 5


def test_uniform_float32_is_uniform_float64_cut_short():
    a, b = cr.uniform(KEYS[0], 1000), cr.uniform(KEYS[0], 1000, dtype=torch.float64)
    assert torch.equal(a.double(), torch.floor(b * 2**24) / 2**24)


@pytest.mark.parametrize(("dtype", "places"), [(torch.float32, 24), (torch.float64, 53)])
def test_normal_is_symmetric_and_finite_at_the_ends_of_its_grid(monkeypatch, dtype, places):
    half = 1 << (places - 1)
    ends = torch.tensor([0, 2 * half - 1, half - 1, half])
    monkeypatch.setattr(cr, "_leading", lambda key, shape, places: ends)
    low, high, below, above = cr.normal(KEYS[0], 4, dtype).tolist()
    assert low == -high and below == -above and 5 < high < 9 and 0 < above < 2.0 ** (2 - places)


def test_every_bit_is_fair_and_changes_with_every_bit_of_the_key():
    b = cr.bits(KEYS[0], 50_000)
    shares = torch.stack([((b >> i) & 1).double().mean() for i in range(64)])
    assert (shares - 0.5).abs().max() < 5 * 0.5 / math.sqrt(50_000)
    keys = cr.bits(KEYS[1], 2000)
    for bit in range(64):
        changed = cr.bits(keys, 1) ^ cr.bits(keys ^ (1 << bit if bit < 63 else -(2**63)), 1)
        shares = torch.stack([((changed >> i) & 1).double().mean() for i in range(64)])
        assert (shares - 0.5).abs().max() < 6 * 0.5 / math.sqrt(2000)


@pytest.mark.parametrize(
    "keys",
    [
        cr.key(torch.arange(100_000)),
        cr.fold_in(cr.key(3), torch.arange(100_000)),
        cr.split(cr.key(3), 100_000),
    ],
    ids=["seeds", "steps", "split"],
)
def test_neighbouring_keys_are_independent(keys):
    first = cr.uniform(keys, (2,), dtype=torch.float64)
    assert stats.kstest(first[:, 0].numpy(), "uniform").pvalue > 1e-3
    for a, b in [(first[:-1, 0], first[1:, 0]), (first[:, 0], first[:, 1])]:
        r = torch.corrcoef(torch.stack([a, b]))[0, 1]
        assert abs(r) < 5 / math.sqrt(len(a))
        cells = (a * 16).long() * 16 + (b * 16).long()
        assert stats.chisquare(torch.bincount(cells, minlength=256).numpy()).pvalue > 1e-3


def test_no_two_streams_collide():
    parents = cr.key(torch.arange(300))
    steps = cr.fold_in(parents[:, None], torch.arange(300))
    drawn = [parents, steps, cr.split(parents, 300), cr.bits(parents, 300), cr.bits(steps, 5)]
    values = torch.cat([d.flatten() for d in drawn])
    assert values.unique().numel() == values.numel()


def test_randint_covers_its_range_evenly():
    x = cr.randint(KEYS[0], 60_000, -4, 9)
    assert x.min() == -4 and x.max() == 8
    assert stats.chisquare(torch.bincount(x + 4).numpy()).pvalue > 1e-3
    per_key = cr.randint(KEYS[:2], 500, 0, torch.tensor([[2], [50]]))
    assert per_key[0].max() == 1 and per_key[1].max() > 40
    with pytest.raises(ValueError, match=r"expected 0 < high - low < 2\^31, got low=3, high=3"):
        cr.randint(KEYS[0], 1, 3, 3)


def test_bernoulli_has_its_probability_also_per_key():
    x = cr.bernoulli(KEYS[:2], torch.tensor([[0.1], [0.8]]), 50_000).double().mean(1)
    assert (x - torch.tensor([0.1, 0.8])).abs().max() < 0.01
    assert not cr.bernoulli(KEYS[0], 0.0, 1000).any() and cr.bernoulli(KEYS[0], 1.0, 1000).all()


def test_permutations_and_choices_are_uniform_and_without_repetition():
    p = cr.permutation(KEYS[0], 3, 12_000)
    assert torch.equal(p.sort(-1).values, torch.arange(3).expand(12_000, 3))
    orders = torch.bincount(p[:, 0] * 9 + p[:, 1] * 3 + p[:, 2])
    assert stats.chisquare(orders[orders > 0].numpy()).pvalue > 1e-3 and (orders > 0).sum() == 6
    c = cr.choice(KEYS[1], 10, 4, 10_000)
    assert c.shape == (10_000, 4) and (c.sort(-1).values.diff() > 0).all()
    assert stats.chisquare(torch.bincount(c.flatten()).numpy()).pvalue > 1e-3
    with pytest.raises(ValueError, match="expected 0 <= k <= n, got k=5, n=4"):
        cr.choice(KEYS[0], 4, 5)


def test_one_key_and_no_shape_is_one_number():
    key = cr.key(5)
    for draw in (cr.bits, cr.uniform, cr.normal):
        assert torch.equal(draw(key), draw(key, 1)[0])
        assert torch.equal(draw(cr.split(key, 3))[1], draw(cr.split(key, 3)[1]))


def test_what_is_no_key_no_seed_and_no_size_is_named(unchecked_shapes):
    for call in (cr.bits, cr.uniform, cr.normal, cr.split, lambda k: cr.fold_in(k, 1)):
        for bad, got in ((3, "3"), (None, "None"), (torch.tensor(0.5), r"torch\.float32")):
            with pytest.raises(TypeError, match=rf"key: .* got {got}; make one with key\(seed\)"):
                call(bad)
    for bad in (1.7, "a"):
        with pytest.raises(TypeError, match=rf"seed: expected an int .* got {bad!r}"):
            cr.key(bad)
        with pytest.raises(TypeError, match=rf"data: expected an int .* got {bad!r}"):
            cr.fold_in(KEYS[0], bad)
    with pytest.raises(ValueError, match=f"seed: expected an int of 64 bits, got {2**64}"):
        cr.key(2**64)
    for bad in (-3, (2, -1), 3.5):
        for draw in (cr.bits, cr.normal):
            with pytest.raises(ValueError, match="shape: expected whole sizes from 0, got"):
                draw(KEYS[0], bad)
    assert cr.split(KEYS[0], 0).shape == (0,)
    assert torch.equal(cr.key(np.int64(5)), cr.key(5))
    assert cr.bits(KEYS[0], torch.Size([2, 3])).shape == (2, 3)
    assert cr.bits(KEYS[0], np.int64(2)).shape == (2,)


def test_an_unknown_dtype_is_refused():
    with pytest.raises(ValueError, match=r"expected torch.float32 or torch.float64, got"):
        cr.uniform(KEYS[0], 3, dtype=torch.float16)


def test_small_integers_are_uniform_and_a_function_of_the_key():
    found = cr.small_randint(cr.key(torch.arange(3)), (50, 401), 20)
    assert found.shape == (3, 50, 401) and found.min() == 0 and found.max() == 19
    for i in range(3):
        counts = torch.bincount(found[i].flatten(), minlength=20).double()
        expected = counts.sum() / 20
        assert ((counts - expected) ** 2 / expected).sum() < 43.8  # chi^2, 19 dof, p = 1e-3
    assert torch.equal(found[1], cr.small_randint(cr.key(1), (50, 401), 20))
    # The three parts of one draw are independent: pairs of all parts are uniform, too.
    parts = cr.small_randint(cr.key(9), 30000, 4).unflatten(0, (3, -1))
    for a, b in ((0, 1), (0, 2), (1, 2)):
        counts = torch.bincount(4 * parts[a] + parts[b], minlength=16).double()
        assert ((counts - 625) ** 2 / 625).sum() < 37.7  # 15 dof
    with pytest.raises(ValueError, match=r"small_randint: expected 1 <= high <= 2\^16, got 0"):
        cr.small_randint(cr.key(0), 3, 0)
