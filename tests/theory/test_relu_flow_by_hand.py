"""Flows of one hidden ReLU node and of two layers, step by step in numpy (acl Sec. 5.2, 5.3)."""

import numpy as np
import pytest
import torch

from clcore import losses
from clcore import reference as ref
from clcore.reference import mixture, tensors
from clcore.theory.relu import relu_two_layer

pytestmark = pytest.mark.usefixtures("one_thread")
DRAWS = 12


def moved(X, w, pace):
    """One step along the unit sphere; what is at 0 stays, what would fall below it stops there."""
    push = np.einsum("bij,bj->bi", X, w) * (w > 0)
    w = np.maximum(w + pace * (push - (w * push).sum(-1, keepdims=True) * w), 0)
    return w / np.sqrt((w**2).sum(-1, keepdims=True))


def size(X):
    """|X|, 1 where it is 0, [draws, 1]."""
    norm = np.sqrt((X**2).sum((-1, -2)))[:, None]
    return np.where(norm > 0, norm, 1.0)


def test_a_step_from_0_upwards_and_below_0():
    rng = np.random.default_rng(0)
    w = np.abs(rng.standard_normal((DRAWS, 4))) * [1.0, 1.0, 0.0, 0.05]
    w /= np.linalg.norm(w, axis=-1, keepdims=True)
    X = rng.standard_normal((DRAWS, 4, 4))
    X = X + X.swapaxes(-1, -2)
    X[:, 2] = X[:, :, 2] = 2.0  # up, against the mask
    X[:, 3] = X[:, :, 3] = -4.0  # and down, beyond 0
    ours = relu_two_layer.sticky_step(*tensors(X, w), 0.3).numpy()
    np.testing.assert_allclose(ours, moved(X, w, 0.3), atol=1e-12)
    assert (ours[:, 2] == 0).all() and (ours[:, 3] == 0).any()


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.0])
def test_the_flow_whose_weights_follow(scale):
    """Of small views, where |X| is below 1, and of views that are 0, where w stays, too."""
    rng, tau, rate, steps = np.random.default_rng(1), 0.3, 0.1, 25
    x, x2 = (scale * v for v in mixture.field(rng, DRAWS, 10, 3))
    first = mixture.starts(rng, DRAWS, 3)
    functions = ref.table1(tau, 0.0)[0][1:]
    w = first
    for _ in range(steps):
        z, z2 = (v @ w[..., None] for v in (x, x2))
        X = mixture.covariance(ref.importance(*ref.distances(z, z2), *functions), x, x2)
        w = moved(X, w, rate / size(X))
    views, pair = tensors(x, x2, first), losses.infonce_pair(tau, 0.0)
    ours = relu_two_layer.loss_driven_limit(*views, pair, rate, steps)[0]
    np.testing.assert_allclose(ours, w if scale else first, atol=1e-9)


@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 100.0])
def test_the_flow_of_a_fixed_matrix(scale):
    """A multiple of the identity on top, alone or not, moves nothing and sets no pace."""
    rng, rate, steps, modes = np.random.default_rng(2), 0.2, 12, 4
    X = rng.standard_normal((DRAWS, modes, modes))
    X = X + X.swapaxes(-1, -2)
    level = scale * (X - np.trace(X, axis1=-2, axis2=-1)[:, None, None] / modes * np.eye(modes))
    first, shift = mixture.starts(rng, DRAWS, modes), rng.uniform(3, 6, (DRAWS, 1, 1))
    w = first
    for _ in range(steps):
        w = moved(level, w, rate / size(level))
    given = scale * X + max(scale, 1e-2) * shift * np.eye(modes)
    ours = relu_two_layer.sticky_limit(*tensors(given, first), rate=rate, steps=steps)
    np.testing.assert_allclose(ours, w, atol=1e-9)


def test_what_has_no_direction_stays_0():
    X = torch.eye(3, dtype=torch.float64)[None] + 1
    still = relu_two_layer.sticky_limit(X, torch.zeros(1, 3, dtype=torch.float64), steps=2)
    assert (still == 0).all()


@pytest.mark.parametrize(("modes", "tol"), [(2, 1e-6), (3, 1e-6), (5, 1e-3)])
def test_unit_vectors_that_count_as_one_e_m(modes, tol):
    """Up to a tolerance on their other entries and on their length, of either sign."""
    e = np.concatenate([np.eye(modes), -np.eye(modes)])
    for far in (0.0, 0.5, 2.0, 1.0 / tol):
        w = e + far * tol * np.roll(e, 1, -1)
        unit = w / np.linalg.norm(w, axis=-1, keepdims=True)
        found = relu_two_layer.one_hot(torch.from_numpy(unit), tol)
        assert (found == (far < 1)).all()
    assert not relu_two_layer.one_hot(torch.from_numpy((1 - 2 * tol) * e), tol).any()


@pytest.mark.parametrize(("fields", "modes"), [(2, 2), (3, 3), (4, 3)])
def test_the_joint_flow_of_both_layers(fields, modes):
    """From starts half of whose filters' entries are 0, as they stay."""
    rng = np.random.default_rng(fields)
    X = rng.standard_normal((DRAWS, fields * modes, fields * modes))
    X = X + X.swapaxes(-1, -2)
    W1 = rng.random((DRAWS, fields, modes)) * (np.arange(modes) % 2)
    W1 /= np.sqrt((W1**2).sum((-1, -2), keepdims=True))
    s = rng.standard_normal((DRAWS, fields))
    s /= np.linalg.norm(s, axis=-1, keepdims=True)
    ours = relu_two_layer.ascend(*tensors(X, W1, s), rate=1.0, steps=20)
    pace = 1 / np.sqrt((X**2).sum((-1, -2)))[:, None]
    w, top = W1, s
    for _ in range(20):
        push = np.einsum("bpq,bq->bp", X, (top[..., None] * w).reshape(DRAWS, -1)).reshape(w.shape)
        level = top + pace * (w * push).sum(-1)
        w = np.maximum(w + (pace * top)[..., None] * push * (w > 0), 0)
        w = w / np.sqrt((w**2).sum((-1, -2), keepdims=True))
        top = level / np.linalg.norm(level, axis=-1, keepdims=True)
    for found, expected in zip(ours, (w, top), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)
