"""The laws that `covariance_operator.random_world` draws from: samples, chances, kinds of views.

Of many worlds at once: distribution functions in the scale of Kolmogorov's law (`kolmogorov`: above
3 with a chance of 3e-8), correlations in standard errors.
"""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.special import ndtr

from clcore import random
from clcore.checks.dual_networks import worlds as dw
from clcore.reference import kolmogorov
from clcore.theory.operator import covariance_operator as co

pytestmark = pytest.mark.usefixtures("one_thread")
N = 3000
STRENGTH = {"additive": 0.4, "mask": 0.3, "scale": 0.5}


@pytest.fixture(scope="module", params=STRENGTH)
def drawn(request):
    """(kind, strength, samples [N, 2, 1, 2], p [N, 2], views [N, 2, 3, 2], q [N, 2, 3])."""
    keys = random.fold_in(random.key(4), torch.arange(N))
    kind = request.param
    world = co.random_world(keys, 2, 3, 2, kind, STRENGTH[kind])
    return kind, STRENGTH[kind], *dw.parts(world)


def moves(kind, strength, x, p, v, q):
    """What moves an entry: whether it is hit, a standard normal number, or (additive views are
    centred in their sample) the difference of two, over sqrt(2)."""
    if kind == "mask":
        return (np.abs(v / x - 1) > strength / 2).astype(float)
    if kind == "scale":
        return np.log(v / x) / strength
    return (v[:, :, :1] - v[:, :, 1:2]) / strength / 2**0.5


def share(ratio):
    """The chance of a smaller ratio of two independent numbers that are uniform on [1/2, 3/2]."""
    below = 0.5 + (np.arange(1000) + 0.5) / 1000
    return np.clip(ratio[:, None] * below - 0.5, 0, 1).mean(1)


def test_samples_are_normal_and_chances_uniform_shares(drawn):
    *_, x, p, _, q = drawn
    assert kolmogorov(ndtr(x).ravel(), 0, 1) < 3
    np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-12)
    np.testing.assert_allclose(q.sum(-1), 1, rtol=1e-12)
    for a, b in ((p[:, 0], p[:, 1]), (q[:, 0, 0], q[:, 0, 2]), (q[:, 1, 1], q[:, 1, 2])):
        assert kolmogorov(share(a / b), 0, 1) < 3


def test_views_of_each_kind(drawn):
    kind, strength, x, _, v, q = drawn
    moved = moves(*drawn)
    if kind == "mask":  # one entry in two shrinks
        expected = x * np.where(moved > 0, 1 - strength, 1)
        np.testing.assert_allclose(v, expected, rtol=1e-12)
        assert moved.size**0.5 * abs(moved.mean() - 0.5) < 3
    else:
        assert kolmogorov(ndtr(moved).ravel(), 0, 1) < 3
    if kind == "additive":
        np.testing.assert_allclose((q[..., None] * (v - x)).sum(2), 0, atol=1e-12)


def test_one_is_drawn_apart_from_another(drawn):
    _, _, x, p, _, q = drawn
    columns = [*x.reshape(N, -1).T, p[:, 0], q[:, 0, 0], q[:, 1, 0]]
    for a, b in combinations([*columns, *moves(*drawn).reshape(N, -1).T], 2):
        assert N**0.5 * abs(np.corrcoef(a, b)[0, 1]) < 6
