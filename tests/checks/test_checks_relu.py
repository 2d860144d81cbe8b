"""Every check of the ReLU chapter: what holds, what fails as printed, that controls fail."""

import numpy as np
import pytest
import torch

from clcore import losses
from clcore import reference as ref
from clcore.checks.relu_composition import latent, training
from clcore.checks.relu_composition.dynamics import _dies_in_turn
from clcore.checks.relu_composition.energy import energies, models
from clcore.checks.relu_composition.signed_weights import _flow_ends, _lost, _lost_at_last
from clcore.checks.relu_composition.training import residual
from clcore.ledger import registry
from clcore.losses import contrast
from clcore.theory.relu import relu_two_layer

pytestmark = pytest.mark.usefixtures("one_thread")


def test_other_draws_are_other_numbers():
    run = registry.function("acl/lem4")
    first, again, other = ([check.measured for check in run(9, seed)] for seed in (0, 0, 1))
    assert first == again != other


def two_equal_fields(feature, eta):
    """E(theta_Omega), E(theta_2) as Theorem 6 prints D_aug: p0 = p1 = 1/2, D_V = 0."""
    delta = np.array([[[1.0, feature], [1.0, feature]]])
    e = energies((delta, np.array([0.25]), np.zeros((1, 4, 4))), own=1.0, eta=eta)
    return float(e.whole[0]), float(e.single[0, 0, 1])


def test_counterexamples_to_strong_augmentation():
    assert two_equal_fields(0.5, 0.0) == pytest.approx((-1 / 4, -3 / 16))
    for eta in (0.01, 0.49):  # the remark asks for eta > 0 if it is constant
        whole, other = two_equal_fields(0.0, eta)
        assert (whole, other) == pytest.approx((-1 / 4 - eta / 2, -eta)) and whole < other
    whole, other = two_equal_fields(0.0, 0.51)
    assert whole > other


def test_counterexample_of_one_mode_shown():
    x = torch.zeros(6, 3, dtype=torch.float64)
    x[:, 0] = 1
    pairs = torch.ones(6, 6, dtype=torch.float64)
    X = contrast.contrastive_covariance(pairs, x, 3 * x, x, 3 * x)
    assert X[0, 0] == -120 and X.abs().sum() == 120
    w = torch.tensor([0.7, 0.5, 0.4], dtype=torch.float64)
    end = relu_two_layer.sticky_limit(X, w / w.norm(), steps=3000)
    assert end.tolist() == pytest.approx([0, 5 / 41**0.5, 4 / 41**0.5])


def test_entries_die_in_turn_where_modes_compete_and_not_where_one_is_not_shown():
    compete = np.array([[1.0, -1.0], [-1.0, 1.0]])
    unseen, friends = np.diag([1.0, 0.0]), np.abs(compete)
    w = np.array([[0.8, 0.6]])
    for X, sticky, expected in (
        (compete, True, True),
        (compete, False, False),
        (unseen, True, False),
        (-unseen, True, False),
        (friends, True, False),
    ):
        assert _dies_in_turn(X[None], w, sticky, blocks=20).tolist() == [expected]


def test_a_negative_entry_gains_where_the_augmentation_is_strong():
    x = torch.eye(2, dtype=torch.float64)
    pair = losses.infonce_pair(0.3, 0.0)
    w = torch.tensor([[1.0, 0.0], [0.99**0.5, -0.1]], dtype=torch.float64)
    top = torch.ones(1, 1, dtype=torch.float64)
    z, z2 = (relu_two_layer.output(w[:1], top, v[:, None]) for v in (x, 3 * x))
    alpha = contrast.pairwise_importance(z, z2, pair)
    assert alpha.tolist() == pytest.approx(np.array([[0, 1], [1, 0]]))
    X = contrast.contrastive_covariance(alpha, x, 3 * x, x, 3 * x)
    assert X.tolist() == [[-2, -2], [-2, -2]]
    read = w.clamp(min=0)
    assert ((read @ X) * read).sum(-1).tolist() == pytest.approx([-2, -1.98])


def test_positive_energy_does_not_save_a_minimal_eigenvector():
    """acl/thm5, its corrected form: two modes at 1 and 2, no augmentation, alpha = 1. The least
    eigenvector (1, 1) has energy 4 per unit, and a node that starts there stays."""
    x = torch.tensor([[1.0, 0], [2, 0], [0, 1], [0, 2]], dtype=torch.float64)
    matrix = contrast.contrastive_covariance(torch.ones(4, 4, dtype=torch.float64), x, x, x, x)
    w = torch.full((2,), 0.5**0.5, dtype=torch.float64)
    assert (matrix @ w).tolist() == pytest.approx((4 * w).tolist())
    assert torch.linalg.eigvalsh(matrix).tolist() == pytest.approx([4, 40])


def test_coarse_steps_cross_the_border_of_two_ends_and_fine_ones_do_not():
    x = np.array(
        [
            [-12.58222279, -9.81127175, -4.49318075, -5.47141685, -9.41255232],
            [-9.81127175, 67.94607687, -19.92172362, -18.27140095, -35.4074727],
            [-4.49318075, -19.92172362, -8.13847607, -8.78176407, -17.06514703],
            [-5.47141685, -18.27140095, -8.78176407, 21.13380294, -14.58714346],
            [-9.41255232, -35.4074727, -17.06514703, -14.58714346, 35.24088455],
        ]
    )
    w = np.array([0.46416461, 0.20970323, 0.73508814, -0.29504079, 0.33641067])
    assert _lost(x[None], w[None])[0] and not _lost(x[None], w[None], rate=0.01)[0]
    assert not _lost_at_last(x[None], w[None])[0]


def test_the_flow_at_the_composition_of_two_unequal_features():
    delta = np.array([[[2.0], [1.0]]])
    X = delta.reshape(1, 2, 1) * delta.reshape(1, 1, 2) / 4
    W1, W2 = (v.numpy() for v in relu_two_layer.compositional(torch.from_numpy(delta)))
    up = W2[0, 0] * (X[0] @ (W2[0, 0] * W1[0, :, 0]))
    assert up[0] / up[1] == pytest.approx(4)
    assert residual(W1, W2[:, 0], X)[0] > 0.1
    one = np.array([[[1.0], [0.0]]]), np.array([[1.0, 0.0]])
    assert residual(*one, X)[0] < 1e-15


def test_a_mode_not_shown_has_a_row_of_zeros():
    x = torch.zeros(5, 2, dtype=torch.float64)
    x[:, 0] = torch.tensor([1.0, 0.5, 2.0, 1.5, 0.0])
    pairs = torch.ones(5, 5, dtype=torch.float64)
    X = contrast.contrastive_covariance(pairs, x, 1.1 * x, x, 1.1 * x)
    assert X[0, 0] > 0 and X.abs().sum() == X[0, 0]
    push = relu_two_layer.sticky_gradient(X, torch.tensor([0.8, 0.6], dtype=torch.float64))
    assert push.tolist() == pytest.approx([0.8 * float(X[0, 0]), 0])


def test_counterexample_of_triplets_beyond_the_margin():
    x, top = torch.eye(2, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    w = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    z = relu_two_layer.output(w, top, x[:, None])
    for margin, zero in ((0.49, True), (0.51, False)):
        alpha = contrast.pairwise_importance(z, z, losses.triplet_pair(margin))
        X = contrast.contrastive_covariance(alpha, x, x, x, x)
        assert bool((X == 0).all()) is zero


def test_counterexample_to_the_fused_fraction():
    v, u, k = np.array([1.5, 1.0]), np.array([2.0, -3.0]), 1
    assert u @ v == 0 and (u >= 0).sum() == k
    fused = -v.min() * np.abs(u).max() / (2 - k * v.max())
    product = -v.min() / (2 - k) * np.abs(u).max() / v.max()
    assert (fused, product) == (-6, -2) and fused < u.min() <= product


def test_moments_of_a_sample_are_its_contrastive_covariance():
    """acl/eq17, uniform alpha: the spread over N - 1 less half the mean square between views."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 30, 4))
    x2 = x + rng.standard_normal(x.shape)
    spread, own = latent._mean_product(latent._centred(x))[0], latent._mean_product(x - x2)[0] / 2
    alpha = np.full((2, 30, 30), 1 / (2 * 30 * 29))
    loop = ref.covariance(alpha, x, x2, x, x2)
    assert np.abs(spread * 30 / 29 - own - loop).max() < 1e-12
    assert np.abs(spread - own - loop).max() > 1e-3
    a, b, b2 = (torch.from_numpy(v) for v in (alpha, x, x2))
    ours = contrast.contrastive_covariance(a, b, b2, b, b2).numpy()
    assert np.abs(ours - loop).max() < 1e-12


def test_runs_in_numpy_end_at_the_same_fields():
    """acl/num19: from the same starts, under the weak and the strong augmentation, and a lot of
    it, where some runs learn nothing."""
    rng = np.random.default_rng(2)
    model, start = models(rng, 12, 3, 3), training.random_start(rng, 12, 3, 3)
    levels, wide = training.augmentations(model), training.reach(model)[:, None]
    levels["much"] = levels["strong"] - torch.diag_embed(torch.as_tensor(wide).expand(-1, 9))
    used = training.under_each(levels, *start)
    assert {0, 1} <= set(np.concatenate(list(used.values())).tolist())
    for name, X in levels.items():
        assert training.used_in_numpy(X, *start).tolist() == used[name].tolist()


def test_a_negative_entry_keeps_its_ratio_to_a_mode_that_is_never_shown():
    """acl/lem3: X = diag(-1, 0, 0); the first entry dies, the others keep their ratio."""
    end = _flow_ends(np.diag([-1.0, 0, 0])[None], np.array([[[0.7, 0.4, -0.6]]]))[0][0, 0]
    assert end == pytest.approx(np.array([0, 2, -3]) / 13**0.5, abs=1e-9)


def test_nodes_with_w2_trained_end_at_the_top_of_two_modes():
    """acl/lem3: X = diag(1, 3) over two nodes of one mode, E = sum_k X_kk (W_2k w_k)^2."""
    start = np.array([[[0.6], [0.8]]]), np.array([[[0.6, 0.8]]])
    end, energy = _flow_ends(np.diag([1.0, 3])[None], *start)
    assert end[0, :, 0] == pytest.approx([0, 1], abs=1e-9) and energy == pytest.approx(3 / 10**0.5)
