"""The sparse coding model against numpy loops and counts."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from torch.func import grad, vmap

from clcore import random as cr
from clcore.reference import kolmogorov
from clcore.theory.sparse import sparse_coding as sc

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_dictionary_has_orthonormal_columns_and_spans_its_gaussian():
    keys = cr.split(cr.key(0), 20)
    M = vmap(lambda k: sc.dictionary(k, 7, 3, torch.float64))(keys)
    assert torch.allclose(M.mT @ M, torch.eye(3, dtype=torch.float64).expand(20, 3, 3), atol=1e-13)
    G = cr.normal(keys[4], (7, 3), dtype=torch.float64)
    assert torch.allclose(M[4] @ (M[4].T @ G), G, atol=1e-12)
    assert (torch.diagonal(M[4].T @ G) > 0).all()  # R's diagonal: one Q a Gaussian
    assert torch.equal(sc.dictionary(keys[4], 7, 3, torch.float64), M[4])
    with pytest.raises(ValueError, match="expected 1 <= d <= p for orthonormal columns, got d=4"):
        sc.dictionary(cr.key(0), 3, 4)


def counts(kind, d=3, beta=0.4, n=40000):
    z = sc.latents(cr.key(1), n, d, beta, kind)
    return {k: v / n for k, v in Counter(map(tuple, z.int().tolist())).items()}


def expected(kind, d=3, beta=0.4):
    """The law, by enumerating {-1, 0, 1}^d."""
    law = {}
    for z in np.ndindex(*(3,) * d):
        z = tuple(v - 1 for v in z)
        k, plus = sum(map(abs, z)), z.count(1)
        free = (beta / 2) ** k * (1 - beta) ** (d - k)
        law[z] = {
            "iid-zeros": free,
            "iid": free * (k > 0) / (1 - (1 - beta) ** d),
            "binary": (beta**k * (1 - beta) ** (d - k)) * (plus == k),
            "one-hot": (k == 1 and plus == 1) / d,
            "signed-one-hot": (k == 1) / (2 * d),
            # ceil(3 * 0.4 / 2) = 1 of -1, max(ceil(1.2), 2) = 2 in all
            "fixed": (k == 2 and plus == 1) / 6,
        }[kind]
    return {z: value for z, value in law.items() if value > 0}


@pytest.mark.parametrize("kind", list(sc.READINGS["latent"]))
def test_latents_have_the_law_of_their_reading(kind):
    found, law = counts(kind), expected(kind)
    assert sum(law.values()) == pytest.approx(1)
    assert set(found) == set(law)
    for z, value in law.items():
        assert abs(found[z] - value) < 5 * math.sqrt(value / 40000), z


def test_the_program_s_counts_are_the_same_at_one_and_two_tenths():
    found = [[int(v) for v in sc.fixed_counts(10, beta)] for beta in (0.1, 0.2, 0.3, 0.5)]
    assert found == [[1, 2], [1, 2], [2, 3], [3, 5]]
    beta = torch.tensor([0.1, 0.2, 0.3])  # float32: 10 * 0.3 is above 3
    assert vmap(lambda b: sc.fixed_counts(10, b)[1])(beta).tolist() == [2, 2, 3]
    assert [int(v) for v in sc.fixed_counts(1, 1.0)] == [1, 1]
    for d, beta, minus, plus in ((10, 0.1, 1, 1), (10, 0.3, 2, 1), (6, 0.6, 2, 2), (4, 1.0, 2, 2)):
        z = sc.latents(cr.key(4), 50, d, beta, "fixed")
        assert ((z == -1).sum(1) == minus).all() and ((z == 1).sum(1) == plus).all()


def test_at_probability_one_no_entry_is_zero():
    z = sc.latents(cr.key(5), 4000, 5, 1.0)
    assert (z != 0).all()
    assert ((z == 1).double().mean(0) - 0.5).abs().max() < 5 * math.sqrt(0.25 / 4000)


def test_a_fixed_number_of_ones_is_the_same_at_a_tenth_and_a_fifth():
    tenth, fifth, third = (sc.latents(cr.key(3), 50, 10, b, "fixed") for b in (0.1, 0.2, 0.3))
    assert torch.equal(tenth, fifth)
    assert ((tenth != 0).sum(1) == 2).all() and ((third != 0).sum(1) == 3).all()


def test_latents_of_a_run_do_not_depend_on_its_batch():
    keys, beta = cr.split(cr.key(2), 3), torch.tensor([0.1, 0.5, 0.9])
    for kind in ("iid", "fixed", "binary"):
        many = vmap(lambda k, b, kind=kind: sc.latents(k, 50, 6, b, kind))(keys, beta)
        assert torch.equal(many[1], sc.latents(keys[1], 50, 6, beta[1], kind))


def test_samples_are_the_mixture_plus_noise_of_the_stated_size():
    M = sc.dictionary(cr.key(3), 6, 2)
    z = sc.latents(cr.key(4), 5000, 2, 0.5)
    x = sc.samples(cr.key(5), M, z, 0.3)
    noise = x - torch.stack([sum(z[i, j] * M[:, j] for j in range(2)) for i in range(5000)])
    assert abs(noise.std() - 0.3) < 0.01 and noise.mean().abs() < 0.01


@pytest.mark.parametrize("d", [2, 10, 50])
def test_readings_of_the_noise(d):
    log = math.log(d)
    stated = {"std": log / d, "variance": math.sqrt(log / d), "released": math.sqrt(log) / d}
    found = {kind: sc.noise_std(d, kind) for kind in sc.READINGS["noise"]}
    assert found == pytest.approx(stated | {"none": 0.0}, abs=1e-15)


@pytest.mark.parametrize("keep", [0.5, 0.25, 0.75, 0.1, 0.9, 1.0, 2.0**-16])
def test_coins_come_up_with_their_probability_and_independently(keep):
    D = torch.stack([sc.coins(cr.key(s), 64 * 300, keep) for s in (6, 7)])
    assert ((D == 0) | (D == 1)).all()
    error = 5 * math.sqrt(keep * (1 - keep) / D.numel()) + 2**-17
    assert abs(D.mean() - keep) < error
    words = D[0].reshape(300, 64)
    for a, b in ((words[:, 0], words[:, 1]), (D[0], D[1]), (words[:-1, 5], words[1:, 5])):
        assert abs((a * b).mean() - keep**2) < 5 * math.sqrt(keep**2 / len(a)) + 1e-3


def test_what_is_drawn_is_where_the_key_is():
    key = cr.key(0).to("meta")
    for keep in (0.3, 1.0):
        assert sc.masks(key, 3, 4, keep).device.type == "meta"
    for kind in ("iid", "one-hot", "binary"):
        assert sc.latents(key, 3, 4, 0.2, kind).device.type == "meta"


def test_masks_of_both_kinds():
    D = sc.masks(cr.key(8), 400, 5, 0.3)
    assert set(D.unique().tolist()) == {0.0, 1.0}
    assert abs((D[0] * D[1]).mean() - 0.09) < 0.03
    x = cr.normal(cr.key(9), (400, 5))
    one = sc.masks(cr.key(8), 400, 5, 0.3, "dependent")
    a, b = sc.views(x, one)
    assert torch.equal(a + b, 2 * x) and (a * b == 0).all()
    assert abs((one[0] / 2).mean() - 0.3) < 0.05
    assert torch.equal(sc.views(x, D)[1], D[1] * x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["independent", "dependent"])
@pytest.mark.parametrize(
    ("n", "p", "rows", "keep"), [(9, 5, 7, 0.3), (64, 2, 64, 0.5), (4, 5, 4, 1.0)]
)
def test_views_of_words_are_the_views_of_masks(dtype, kind, n, p, rows, keep):
    keys = cr.key(torch.arange(3))
    words = sc.mask_words(keys, n, p, keep, kind)
    for one, key in zip(words, keys, strict=True):
        x = cr.normal(cr.fold_in(key, 1), (rows, p), dtype=dtype)
        D = sc.masks(key, n, p, keep, kind)[:, :rows].to(dtype)
        found = sc.views_of_words(x, one, n, kind)
        assert found.dtype == dtype and torch.equal(found, sc.views(x, D))
        assert torch.equal(one, sc.mask_words(key, n, p, keep, kind))


@pytest.mark.parametrize("keep", [0.5, 0.375, 2.0**-10, 1.0])
@pytest.mark.parametrize("kind", ["independent", "dependent"])
def test_masks_are_the_bits_of_their_words_the_lowest_first(kind, keep):
    (n, p), sides = (8, 9), 2 if kind == "independent" else 1
    words = sc.mask_words(cr.key(21), n, p, keep, kind)
    assert len(words) == -(-sides * n * p // 64)
    bits = torch.tensor([int(word) >> k & 1 for word in words for k in range(64)])
    D = bits[: sides * n * p].reshape(sides, n, p).double()
    D = torch.cat([2 * D, 2 - 2 * D]) if sides == 1 else D
    assert torch.equal(sc.masks(cr.key(21), n, p, keep, kind).double(), D)
    x = 0.5 + cr.uniform(cr.key(22), (n, p), dtype=torch.float64)
    for view in (x, x.float(), x[:5]):
        found = sc.views_of_words(view, words, n, kind)
        assert torch.equal(found, D[:, : len(view)].to(view.dtype) * view)


@pytest.mark.parametrize("b", [0.4, 0.0, -0.4])
def test_symmetric_relus_by_cases(b):
    x = torch.linspace(-2, 2, 41, dtype=torch.float64)
    found = sc.symmetric_relu(x[:, None], torch.tensor([b], dtype=torch.float64))[:, 0]
    for u, value in zip(x.tolist(), found.tolist(), strict=True):
        if b >= 0:
            exact = u - b if u > b else u + b if u < -b else 0.0  # ncl Eq. 14
        else:
            exact = 2 * u if abs(u) < -b else u + math.copysign(-b, u)
        assert value == pytest.approx(exact, abs=1e-12)
    # The program's, on u = x + b, is Eq. 14 at the bias with the other sign.
    assert torch.allclose(sc.released_symmetric_relu(x + b, b), sc.symmetric_relu(x, -b))


def test_normalised_weights_keep_rows_of_zeros():
    W = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert sc.normalised(W, "rows").tolist() == [
        [pytest.approx(0.6), pytest.approx(0.8)],
        [0.0, 0.0],
    ]
    assert sc.normalised(W, "columns").tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert sc.normalised(W, "none") is W
    with pytest.raises(ValueError, match="normalise: expected none, rows or columns, got 'all'"):
        sc.normalised(W, "all")


def test_max_cosine_is_the_double_loop():
    rng = np.random.default_rng(0)
    W, M = rng.standard_normal((5, 4)), rng.standard_normal((4, 3))
    W[2] = 0
    best = [
        max(
            abs(W[i] @ M[:, j]) / np.linalg.norm(W[i]) / np.linalg.norm(M[:, j])
            for i in range(5)
            if i != 2
        )
        for j in range(3)
    ]
    found = sc.max_cosine(torch.tensor(W), torch.tensor(M))
    assert found.numpy() == pytest.approx(np.array(best), abs=1e-14)
    assert torch.allclose(found, sc.max_cosine(-7 * torch.tensor(W), torch.tensor(M)))
    assert (sc.max_cosine(torch.zeros(2, 4), torch.tensor(M).float()) == 0).all()


@pytest.mark.parametrize("d", [1, 4, 5])
def test_summary_is_numpy_s(d):
    best = cr.uniform(cr.key(10), (3, d), dtype=torch.float64)
    found = sc.summary(best)
    for name, function in (("minimum", np.min), ("median", np.median), ("maximum", np.max)):
        assert found[name].numpy() == pytest.approx(function(best.numpy(), -1))


def test_starts():
    M = sc.dictionary(cr.key(11), 8, 4, torch.float64)
    exact = {k: sc.warm_start(cr.key(12), M, 8, 0.0, k) for k in sc.READINGS["warm"]}

    def column(v):
        """Which column of M this is."""
        return next(j for j in range(4) if torch.equal(v, M[:, j]))

    rows = {k: [column(v) for v in exact[k]] for k in ("rows", "replacement", "balanced")}
    assert Counter(rows["balanced"]) == dict.fromkeys(range(4), 2)
    assert rows["balanced"] != sorted(rows["balanced"])
    assert [column(v) for v in exact["columns"].T]
    assert torch.equal(sc.warm_start(cr.key(12), M, 4, 0.0), M.T)
    drawn = [column(v) for v in sc.warm_start(cr.key(12), M, 400, 0.0, "replacement")]
    assert all(60 < Counter(drawn)[j] < 140 for j in range(4))
    shaken = sc.warm_start(cr.key(13), M, 400, 0.2, "balanced")
    assert abs((shaken - sc.warm_start(cr.key(13), M, 400, 0.0, "balanced")).std() - 0.2) < 0.01
    assert abs(sc.random_start(cr.key(14), 300, 20, 5).std() - 0.1) < 0.003
    assert sc.warm_std(50, 1) == pytest.approx(0.1414, abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "m"),
    [("rows", 5), ("rows", 8), ("replacement", 5), ("balanced", 7), ("columns", 12)],
)
def test_warm_starts_have_their_law(kind, m):
    """Which columns of M are taken, how often and in which order; and Gaussian noise beside them.

    5 columns, 600 starts: frequencies in standard errors; Kolmogorov's statistic times the root of
    the sample is above 3 with a chance of 3e-8.
    """
    starts, d, sigma, M = 600, 5, 0.03, torch.eye(12, 5, dtype=torch.float64)
    keys = cr.split(cr.key(20 + m), starts)
    rows = vmap(lambda key: sc.warm_start(key, M, m, sigma, kind))(keys)
    rows = (rows.mT if kind == "columns" else rows).numpy()
    which = (rows @ M.numpy()).argmax(-1)  # [starts, m]
    rest = (rows - M.T.numpy()[which]) / sigma
    assert kolmogorov(ndtr(rest).ravel(), 0, 1) < 3
    if (kind, m) == ("rows", d):
        assert (which == np.arange(d)).all()  # every column once, in order
        return
    assert abs(np.corrcoef(rest[:, 0, 0], which[:, 0])[0, 1]) < 6 / math.sqrt(starts)
    if kind == "balanced":
        often = np.eye(d)[which].sum(1)
        assert (np.sort(often, -1) == [1, 1, 1, 2, 2]).all()
    else:
        repeats = (which[:, 1:] == which[:, :-1]).mean(0)
        assert np.abs(repeats - 0.2).max() < 6 * math.sqrt(0.16 / starts)
    places = np.eye(d)[which].sum(0)  # [m, d]: every column as often at every place
    assert np.abs(places - starts / d).max() < 6 * math.sqrt(starts * 0.16)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda M: sc.warm_start(cr.key(0), M, 5, 0.1, "columns"), "only if m = p, got 5 and 8"),
        (lambda M: sc.warm_start(cr.key(0), M, 2, 0.1), "'rows' needs m >= d, got m=2, d=4"),
        (lambda M: sc.warm_start(cr.key(0), M, 5, 0.1, "near"), "warm: expected one of rows"),
        (lambda M: sc.latents(cr.key(0), 5, 3, 0.0), "beta: expected a probability, 0 < beta"),
        (lambda M: sc.latents(cr.key(0), 5, 3, 0.1, "sparse"), "latent: expected one of iid"),
        (lambda M: sc.masks(cr.key(0), 5, 3, 0.0), "keep: expected a probability, 0 < keep"),
        (lambda M: sc.masks(cr.key(0), 5, 3, 1e-6), r"keep: expected at least 2\^-17"),
        (lambda M: sc.masks(cr.key(0), 5, 3, 0.5, "both"), "mask: expected one of independent"),
        (lambda M: sc.noise_std(10, "small"), "noise: expected one of std, variance"),
        (lambda M: sc.noise_std(0), "d: expected at least 1 latent, got 0"),
    ],
)
def test_errors_say_what_was_expected(call, text):
    with pytest.raises(ValueError, match=text):
        call(sc.dictionary(cr.key(11), 8, 4))


def test_the_bias_of_a_symmetric_relu_learns_from_zero():
    x = torch.tensor([[1.5, -2.0, 0.5]], dtype=torch.float64)
    slope = grad(lambda b: sc.symmetric_relu(x, b).sum())(torch.zeros(3, dtype=torch.float64))
    assert slope.tolist() == [-1.0, 1.0, -1.0]
