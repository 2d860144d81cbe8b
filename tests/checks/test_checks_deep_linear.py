"""Every check of the deep-linear chapter: what holds, what fails as printed, that controls fail."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from clcore import random
from clcore import reference as ref
from clcore.checks.deep_linear_pca import adversary, almost_all, data, flow, limits, objective
from clcore.checks.deep_linear_pca.landscape import SPECTRA, climb
from clcore.losses import contrast
from clcore.theory import deep_linear

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_batch_for_the_trap_of_theorem_3():
    x = torch.tensor([[2.0, 0], [0, 0], [2, 0], [0, 0]], dtype=torch.float64)
    x2 = x + torch.tensor([[0.0, 1], [0, -1], [0, 1], [0, 1]], dtype=torch.float64)
    rng = np.random.default_rng(0)
    (alpha,) = ref.tensors(ref.random_weights(rng, 7, 4, 4))
    X = contrast.contrastive_covariance(alpha, *(v.expand(7, 4, 2) for v in (x, x2, x, x2)))
    assert (X[:, 0, 0] > 0).all() and (X[:, 1, 1] < 0).all() and (X[:, 0, 1] == 0).all()
    point = [torch.tensor(w, dtype=torch.float64) for w in ([[0, 1]], [[1], [0]], [[0, 1]])]
    many = [w.expand(7, *w.shape) for w in point]
    assert deep_linear.trapped(many, X).all() and not deep_linear.trapped(many, -X).any()
    top, distinct = deep_linear.distinct_top(many)
    assert (top == 0).all() and distinct.all()


def test_infonce_has_a_finite_minimum_where_its_own_weights_lose_their_energy():
    x = np.array([0.0, 1.0, 3.0])
    own = np.eye(3, dtype=bool)

    def loss(w):
        inter, intra = (w * (x[:, None] - x)) ** 2 / 2, (w * 2.0) ** 2 / 2
        return np.log(np.exp(np.where(own, -np.inf, intra - inter)).sum(1)).sum()

    best = minimize_scalar(loss, bounds=(0.01, 3), method="bounded", options={"xatol": 1e-9}).x
    assert best == pytest.approx(0.40977, abs=1e-5)
    X = flow.following(x[None, :, None], x[None, :, None] + 2.0, 1.0)
    at = [float(X(ref.tensors(np.full((1, 1, 1), w)))) for w in (1e-6, best, 1.0)]
    assert at[0] == pytest.approx(2) and abs(at[1]) < 1e-5 and at[2] < -4


def test_a_sample_covariance_can_be_right_to_one_over_n():
    """acl/num7: x = +-1, half of them each or nearly so; V = 1."""
    for n, ones in ((10, 5), (1000, 500), (1000, 515)):  # 515: a standard error from the mean
        x = torch.ones(n, 1, dtype=torch.float64)
        x[ones:] = -1
        alpha = torch.full((n, n), 1 / (2 * n * (n - 1)), dtype=torch.float64)
        off = contrast.contrastive_covariance(alpha, x, x, x, x).item() - 1
        assert off == pytest.approx((1 - (2 * ones - n) ** 2 / n) / (n - 1), abs=1e-12)
        assert abs(off) < 1.2 / n


def test_the_frozen_weights_are_a_softmax_of_the_distances():
    rng = np.random.default_rng(1)
    x, x2 = data.hard_views(rng, "discrete", 3, 0.5)
    keys = random.fold_in(random.key(2), torch.arange(3))
    found = data.frozen(keys, (5, 3, 2), x, x2)
    first, second = (w.numpy() for w in deep_linear.starts(keys, (5, 3, 2)))
    inter, _ = ref.distances(*(v @ (second @ first).swapaxes(-1, -2) for v in (x, x2)))
    alpha = ref.softmax(inter / inter.mean((1, 2))[:, None, None], 1.0)
    X = ref.covariance(alpha, x, x2, x, x2)
    assert ref.relative(found, X / np.linalg.norm(X, 2, (1, 2))[:, None, None]).max() < 1e-12


def test_three_points_for_which_normalised_outputs_have_another_maximiser():
    angle = 2 * np.pi * np.arange(3) / 3
    x = np.stack([1.1 * np.cos(angle), np.sin(angle)], -1)[None]
    alpha, even = np.ones((1, 3, 3)), [np.eye(2)[None] / 2**0.5] * 2
    first, second = (objective.along(v[None], 3) for v in np.eye(2))
    tops = {"plain": np.asarray, **objective.OUTPUTS}

    def energy(weights, name):
        return float(objective.output_energy(alpha, (x, x), weights, tops[name])[0])

    assert energy(first, "plain") == pytest.approx(9 * 1.1**2)  # X = diag(9 * 1.21, 9)
    assert energy(second, "plain") == pytest.approx(9)
    assert energy(even, "plain") == pytest.approx(9 * (1.1**2 + 1) / 4)
    assert energy(first, "l2") == pytest.approx(16)
    assert 17.9 < energy(even, "l2") < 18


@pytest.mark.parametrize("tau", [0.3, 0.0])
def test_the_largest_jump_of_the_spectrum_along_a_path(tau):
    keys = random.fold_in(random.key(3), torch.arange(2))
    x, x2 = (v.numpy() for v in limits.data_views(keys, 16, 6))
    begin, end = (deep_linear.starts(random.fold_in(keys, tag), (6, 6, 3)) for tag in (16, 17))
    found = []
    for t in (0.0, 0.25, 0.5, 0.75, 1.0):
        mix = [(1 - t) * a + t * b for a, b in zip(begin, end, strict=True)]
        first, second = (w.numpy() for w in deep_linear.normalise(mix))
        inter, _ = ref.distances(*(v @ (second @ first).swapaxes(-1, -2) for v in (x, x2)))
        nearest = (inter == ref.off(inter).min(-1, keepdims=True)).astype(float)
        alpha = ref.softmax(inter, tau) if tau else nearest
        found.append(np.linalg.eigvalsh(ref.covariance(alpha, x, x2, x, x2)))
    jumps = np.abs(np.diff(found, axis=0)).max((0, 2)) / np.abs(found).max((0, 2))
    ours = adversary.largest_jump(keys, tau, 4)
    assert ours == pytest.approx(jumps, rel=1e-9)


def test_the_share_of_starts_that_the_flow_takes_to_a_trap():
    """acl/num11, widths (d, 1, n, 1). With q = w^T X w, w = W_1, and g = W_3 W_2 the flow is
    w' = g^2 (X - q) w and g' = 2 q g (1 - g^2). In the time s, ds = g^2 dt, w runs along
    exp(sX) w(0), and 1 - g^2 is its first value over |exp(sX) w(0)|^4: g reaches 0 where that
    comes down to 1 - g(0)^2."""
    spectrum, widths = almost_all.WORST
    keys = random.fold_in(random.key(0), torch.arange(300))
    limits, X = climb(keys, SPECTRA[spectrum], widths)
    w, *upper = (v.numpy() for v in deep_linear.starts(random.fold_in(keys, 2), widths))
    values, vectors = np.linalg.eigh(X.numpy())
    parts = (w @ vectors)[:, 0] ** 2
    least = np.min([(np.exp(2 * values * u) * parts).sum(-1) for u in np.linspace(0, 60, 6001)], 0)
    caught = least**2 <= 1 - flow.product(upper)[:, 0, 0] ** 2
    assert 0.02 < caught.mean() < 0.98
    reached = (limits.energy / SPECTRA[spectrum][0] - 1).abs() < 1e-4
    assert np.mean(reached.numpy() == caught) < 0.02


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_aligned_points_curve_upwards_as_their_first_vector_turns(k, depth):
    """acl/num11: E = lambda_k cos^2 + lambda_1 sin^2 along the turn."""
    lam = SPECTRA["indefinite"]
    point = almost_all._balanced([k], depth)
    (top,) = almost_all._upwards(point, np.diag(lam)[None])
    assert top == pytest.approx(2 * (lam[0] - lam[k]))


def test_points_with_a_slope_have_no_curvature():
    point = almost_all._balanced([1], 2)
    point[0][0, 0, :2] = 0.6, 0.8
    assert almost_all._upwards(point, np.diag(SPECTRA["indefinite"])[None]) == [-1]
