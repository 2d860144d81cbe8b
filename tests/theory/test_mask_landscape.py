"""Landscapes of masked views: enumeration against loops, closed forms against enumeration."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from clcore import random as cr
from clcore.losses import two_view as vl
from clcore.sweep import optim
from clcore.theory.sparse import mask_landscape as ml

pytestmark = pytest.mark.usefixtures("one_thread")


def weights(seed: int, *shape: int) -> Tensor:
    return cr.normal(cr.key(seed), shape, torch.float64)


def views_by_loop(W, law, keep):
    """(chance, point, representation) of every view."""
    for k, (x, q) in enumerate(zip(law.point.numpy(), law.probability.numpy(), strict=True)):
        for D in product((0, 1), repeat=len(x)):
            odds = math.prod(keep if bit else 1 - keep for bit in D)
            yield q, odds, k, np.maximum(W.numpy() @ (np.array(D) * x), 0)


def contrastive_by_loop(W, law, keep, tau, negatives):
    views = list(views_by_loop(W, law, keep))
    total = 0.0
    for q, odds, k, h in views:
        plus = sum(o * tau * h @ g for _, o, j, g in views if j == k)
        far = [(p * o, h @ g) for p, o, j, g in views if negatives == "data" or j != k]
        mass = sum(w for w, _ in far)
        total += q * odds * (math.log(sum(w * math.exp(tau * s) for w, s in far) / mass) - plus)
    return total


LAWS = [ml.one_hot(3), ml.one_hot(2, signed=True), ml.sparse(2, 0.3), ml.sparse(2, 0.4, True, True)]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("negatives", ml.NEGATIVES)
def test_contrastive_is_the_sum_over_all_views(law, negatives):
    W = weights(1, 4, law.point.shape[-1])
    fast = ml.contrastive(W, law, 0.4, 1.7, negatives)
    assert float(fast) == pytest.approx(contrastive_by_loop(W, law, 0.4, 1.7, negatives), abs=1e-12)


@pytest.mark.parametrize("law", LAWS)
def test_non_contrastive_is_the_sum_over_all_pairs(law):
    d = law.point.shape[-1]
    Wo, Wt, Wp = weights(2, 4, d), weights(3, 4, d), weights(4, 4, 4)
    total = 0.0
    for q, odds, k, h in views_by_loop(Wo, law, 0.3):
        for _, other, j, g in views_by_loop(Wt, law, 0.3):
            total += (j == k) * q * odds * other * (Wp.numpy() @ h) @ g
    assert float(ml.non_contrastive(Wo, Wt, law, 0.3, Wp)) == pytest.approx(2 - 2 * total)


@pytest.mark.parametrize("keep", [0.2, 0.7, 1.0])
def test_closed_forms_for_one_hots(keep):
    law, W = ml.one_hot(4), ml.unit_columns(weights(5, 6, 3, 4))
    close = {"rtol": 0, "atol": 1e-13}
    torch.testing.assert_close(
        ml.one_hot_non_contrastive(W, keep), ml.non_contrastive(W, W, law, keep), **close
    )
    for negatives in ml.NEGATIVES:
        torch.testing.assert_close(
            ml.one_hot_contrastive(W, keep, 2.5, negatives),
            ml.contrastive(W, law, keep, 2.5, negatives),
            **close,
        )


def test_a_batch_is_the_same_as_one_by_one_and_large_tau_does_not_overflow():
    W = ml.unit_columns(weights(6, 5, 4, 4))
    one = torch.stack([ml.one_hot_surrogate(w, 0.6, 2.0) for w in W])
    torch.testing.assert_close(ml.one_hot_surrogate(W, 0.6, 2.0), one)
    assert ml.one_hot_contrastive(W, 0.6, 1e4).isfinite().all()


def test_surrogate_without_masks_is_the_softmax_loss():
    W = ml.unit_columns(weights(7, 4, 4))
    G = 3.0 * ml.rectified_gram(W)
    expected = -torch.log_softmax(G, -1).diagonal().sum()
    torch.testing.assert_close(ml.one_hot_surrogate(W, 1.0, 3.0), expected)


def test_proof_bound_at_full_masks():
    assert ml.proof_bound(2, 1.0, 1.3) == pytest.approx(2 * math.log1p(math.exp(-1.3)))
    assert ml.proof_bound(2, 1.0, 1.3, "traces") == pytest.approx(2 * math.log1p(math.exp(-5.2)))
    eye = torch.eye(3, dtype=torch.float64)
    assert ml.proof_bound(3, 0.4, 2.0) == pytest.approx(float(ml.one_hot_surrogate(eye, 0.4, 2.0)))


def test_threshold_of_repeating_negatives():
    """Below it 1 is the best squared length, above it the closed form; a grid finds the same."""
    d, keep = 5, 0.6
    eye = torch.eye(d, dtype=torch.float64)
    lengths = torch.linspace(0.05, 1, 191, dtype=torch.float64)
    W = lengths.sqrt()[:, None, None] * eye
    limit = ml.repeats_threshold(d, keep)
    for tau in (0.9 * limit, 1.1 * limit, 2 * limit):
        best = lengths[ml.one_hot_contrastive(W, keep, tau, "data").argmin()]
        assert float(best) == pytest.approx(ml.best_length(d, keep, tau), abs=0.006)
    assert ml.repeats_threshold(d, 1.0) == math.inf


def test_sparse_laws():
    law = ml.sparse(3, 0.2, signed=True)
    assert len(law.point) == 27 and float(law.probability.sum()) == pytest.approx(1)
    nonzero = ml.sparse(3, 0.2, nonzero=True)
    assert len(nonzero.point) == 7 and (nonzero.point.abs().sum(-1) > 0).all()
    one = nonzero.probability[nonzero.point.sum(-1) == 1]
    assert one.tolist() == pytest.approx([0.2 * 0.64 / (1 - 0.512)] * 3)
    M = torch.linalg.qr(weights(8, 5, 3)).Q
    torch.testing.assert_close(law.through(M).point, torch.einsum("kd,pd->kp", law.point, M))


def test_masks_are_all_patterns():
    mask = ml.masks(3, 0.25)
    assert sorted(mask.point.tolist()) == sorted(map(list, product((0.0, 1.0), repeat=3)))
    assert float(mask.probability[mask.point.sum(-1) == 3]) == pytest.approx(1 / 64)
    torch.testing.assert_close(mask.probability @ mask.point, torch.full((3,), 0.25).double())


def test_permutation_gap():
    P = torch.eye(4, dtype=torch.float64)[[2, 0, 3, 1]]
    assert float(ml.permutation_gap(P)) == 0
    assert float(ml.permutation_gap(P + 0.1)) == pytest.approx(0.1)
    P[:, 1] = P[:, 0]
    assert float(ml.permutation_gap(P)) == 1
    assert float(ml.permutation_gap(-torch.eye(3, dtype=torch.float64))) == 1


def test_descent_never_rises_and_stays_in_U():
    start = weights(9, 20, 3, 3)
    losses = [
        ml.one_hot_contrastive(ml.descend(loss, start, steps), 0.5, 1.0)
        for loss in [lambda W: ml.one_hot_contrastive(W, 0.5, 1.0)]
        for steps in (0, 10, 100)
    ]
    assert (losses[1] <= losses[0]).all() and (losses[2] <= losses[1]).all()
    end = ml.descend(lambda W: ml.one_hot_contrastive(W, 0.5, 1.0), start, 100)
    torch.testing.assert_close(end.norm(dim=-2), torch.ones(20, 3, dtype=torch.float64))
    assert float(losses[2].min()) == pytest.approx(-0.25)  # -tau alpha^2, at a permutation


EYE = torch.eye(2, dtype=torch.float64)
ERRORS = [
    (lambda: ml.one_hot(3).through(torch.ones(2, 3).double()), r"expected \[p, 3\] with p >= 3"),
    (lambda: ml.sparse(3, 0.0), "expected 0 < beta <= 1, got beta=0.0"),
    (lambda: ml.masks(3, 0.0), "at 0 every view is zero"),
    (lambda: ml.masks(13, 0.5), r"expected 2\^p <= 4096, got p=13"),
    (lambda: ml.unit_columns(torch.zeros(2, 2)), r"no zero column, got one at index \[0\]"),
    (lambda: ml.one_hot_contrastive(EYE, 0.5, 0.0), "expected tau > 0, got tau=0.0"),
    (lambda: ml.contrastive(EYE, ml.one_hot(2), 0.5, -1.0), "expected tau > 0"),
    (lambda: ml.one_hot_surrogate(EYE, 0.5, 0.0), "expected tau > 0"),
    (lambda: ml.one_hot_contrastive(EYE, 0.0, 1.0), "expected 0 < keep <= 1, got keep=0.0"),
    (lambda: ml.one_hot_contrastive(EYE, 0.5, 1.0, "some"), "expected negatives in .*got 'some'"),
    (lambda: ml.one_hot_contrastive(EYE[:1, :1], 0.5, 1.0), "at least two points, got 1"),
    (lambda: ml.contrastive(EYE[:1, :1], ml.one_hot(1), 0.5, 1.0), "at least two points, got 1"),
    (lambda: ml.contrastive(torch.eye(9), ml.one_hot(9), 0.5, 1.0), "expected at most 4096 views"),
    (lambda: ml.non_contrastive(EYE, EYE, ml.one_hot(3), 0.5), "expected 3 columns"),
    (lambda: ml.proof_bound(2, 0.5, 1.0, "both"), "expected g in"),
]


@pytest.mark.parametrize("call, text", ERRORS)
def test_errors(call, text):
    with pytest.raises(ValueError, match=text):
        call()


# ----------------------------------------------------------------------------- losses on batches


def test_batch_losses_against_numpy():
    u, t = weights(10, 6, 4).numpy(), weights(11, 6, 4).numpy()
    U, T = torch.from_numpy(u), torch.from_numpy(t)
    cosine = (u * t).sum(-1) / np.linalg.norm(u, axis=-1) / np.linalg.norm(t, axis=-1)
    assert float(vl.normalised_distance(U, T)) == pytest.approx(2 - 2 * cosine.mean())
    assert float(vl.inner_product(U, T)) == pytest.approx(2 - 2 * (u * t).sum(-1).mean())
    far = weights(12, 6, 3, 4)
    s = np.exp(0.7 * np.einsum("nm,nkm->nk", u, far.numpy())).sum(-1)
    near = np.exp(0.7 * (u * t).sum(-1))
    expected = -np.log(near / (near + s)).mean()
    assert float(vl.contrastive(U, T, far, 0.7)) == pytest.approx(expected)


def test_targets_get_no_gradient():
    u, t = (w.requires_grad_() for w in (weights(13, 5, 3), weights(14, 5, 3)))
    for loss in (vl.inner_product, vl.normalised_distance):
        slopes = torch.autograd.grad(loss(u, t), (u, t), allow_unused=True)
        assert slopes[0].abs().max() > 0 and slopes[1] is None


def test_a_view_without_any_coordinate_counts_as_cosine_zero():
    W = torch.ones(3, 2, dtype=torch.float64).requires_grad_()
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    loss = vl.normalised_distance(vl.encode(W, x), torch.ones(2, 3, dtype=torch.float64))
    assert loss.item() == pytest.approx(1.0)  # 2 for the empty view, 0 for the other
    (slope,) = torch.autograd.grad(loss, W)
    assert slope.isfinite().all()


def test_encoder_and_head():
    W, x, b = weights(15, 3, 2), weights(16, 5, 2), weights(17, 3)
    torch.testing.assert_close(vl.encode(W, x, b), (x @ W.T + b).clamp(min=0))
    assert vl.encode(W, x).min() == 0
    torch.testing.assert_close(vl.predict(W.T, vl.encode(W, x)), vl.encode(W, x) @ W)


def test_negatives_are_different_other_samples():
    index = vl.other_samples(cr.key(3), 6, 5)
    assert index.sort(-1).values.tolist() == [[j for j in range(6) if j != i] for i in range(6)]
    index = torch.stack([vl.other_samples(cr.key(s), 6, 2) for s in range(300)])
    counts = torch.bincount(index[:, 0].flatten(), minlength=6)
    assert counts[0] == 0 and counts[1:].min() > 80


@pytest.mark.parametrize("size", [0, 6, 7])
def test_a_batch_larger_than_the_data(size):
    with pytest.raises(ValueError, match=rf"1 <= size <= 5 negatives from 6 .*got {size}"):
        vl.other_samples(cr.key(0), 6, size)


def test_batch_errors():
    u = torch.ones(4, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match="expected tau > 0"):
        vl.contrastive(u, u, u[:, None], 0.0)
    with pytest.raises(ValueError, match="expected at least one per sample, got none"):
        vl.contrastive(u, u, u[:, None][:, :0], 1.0)
    with pytest.raises(ValueError, match=r"expected the shape of the online output, \[4, 3\]"):
        vl.inner_product(u, u[:3])
    assert optim.unit_columns(torch.zeros(2, 2)).tolist() == [[0, 0], [0, 0]]


def test_with_independent_latents_only_equal_columns_are_minimal():
    """Their least value is 2 - 2 alpha^2 (beta d + beta^2 d (d - 1)); a permutation is above it."""
    d, beta, keep = 3, 0.3, 0.5
    law, some = ml.sparse(d, beta), ml.positive_columns(weights(18, 40, d, d))
    equal = some[..., :1].expand_as(some)
    floor = 2 - 2 * keep**2 * (beta * d + beta**2 * d * (d - 1))
    at = ml.non_contrastive(equal, equal, law, keep)
    torch.testing.assert_close(at, torch.full_like(at, floor))
    signed = ml.unit_columns(weights(19, 40, d, d))
    for W in (some, signed):
        assert ml.non_contrastive(W, W, law, keep).min() > floor + 1e-4
    eye = torch.eye(d, dtype=torch.float64)
    assert float(ml.non_contrastive(eye, eye, law, keep)) == pytest.approx(
        2 - 2 * keep**2 * beta * d
    )
