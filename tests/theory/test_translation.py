"""Two objects on a ring and a neuron, against loops over positions and by hand."""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.special import ndtr

from clcore import random
from clcore.reference import kolmogorov
from clcore.theory.operator import connection as cn
from clcore.theory.operator import translation as tr

F64 = torch.float64


def vector(*values):
    return torch.tensor(values, dtype=F64)


def starts(k, count=200):
    return random.normal(random.key(k), (count, k), F64)


def seen(d, bias):
    x = tr.window(tr.images(d))
    return tr.with_bias(x) if bias else x


def test_images_and_counts():
    x = tr.images(5)
    assert x[0, 4].tolist() == [1, 0, 0, 0, 1] and x[1, 4].tolist() == [0, 1, 0, 0, 1]
    assert x.sum(-1).unique().tolist() == [2] and len(x.flatten(0, 1).unique(dim=0)) == 10
    for d in (4, 7):
        counts = torch.zeros(2, 4, dtype=torch.int64)
        for o, place in ((o, p) for o in range(2) for p in range(d)):
            a, b = tr.images(d)[o, place, :2].long().tolist()
            counts[o, tr.PATTERNS.index(f"{a}{b}")] += 1
        assert tr.pattern_counts(d).equal(counts)
    assert tr.patterns(True)[2].tolist() == [1, 0, 1]


@pytest.mark.parametrize("bias", [False, True])
def test_operator_of_a_relu_neuron_in_closed_form(bias):
    w = starts(3 if bias else 2)
    x = seen(6, bias)
    assert torch.allclose(tr.operator(w, x), tr.closed_operator(w, 6), atol=1e-16)
    one = tr.operator(w[0], x)
    means = [sum((w[0] @ v > 0).to(F64) * v for v in views) / len(views) for views in x]
    gap = (means[0] - means[1]) / 2
    assert torch.allclose(one, torch.outer(gap, gap), atol=1e-16)


def test_linear_neurons_learn_nothing():
    for x in (tr.images(6), seen(6, False), seen(6, True)):
        w = random.normal(random.key(1), (x.shape[-1],), F64)
        assert tr.operator(w, x, cn.LINEAR).abs().max() < 1e-16
        assert torch.allclose(tr.step(w, x, 5.0, cn.LINEAR), w, rtol=1e-14)


def test_operator_counts_the_activation_s_factor():
    w, x = starts(2)[0], seen(6, False)
    drive = torch.einsum("k,ovk->ov", w, x)
    mean = (2 * drive[..., None] * x).mean(1)
    gap = (mean[0] - mean[1]) / 2
    assert torch.allclose(tr.operator(w, x, cn.power(2)), torch.outer(gap, gap), atol=1e-16)


def test_step_and_path_of_a_selective_neuron():
    w, x = vector(1.0, -3.0), seen(4, False)
    assert tr.selected(w).tolist() == [False, False, True, False]
    after = tr.step(w, x, 2.0)
    assert torch.allclose(after, vector(1 + 2 / 64, -3.0), rtol=1e-14)
    path = tr.path(w, x, 2.0, 3)
    assert path.shape == (4, 2) and path[1].equal(after)
    assert torch.allclose(path[3], vector((1 + 2 / 64) ** 3, -3.0), rtol=1e-14)


def test_axis_by_hand():
    open_ = torch.tensor([[0, 1, 0, 1], [0, 1, 1, 1], [1, 0, 0, 0]]).bool()
    assert tr.axis(open_).tolist() == [[1, 0], [0, 0], [0, 0]]
    assert tr.axis(open_, True).tolist() == [[1, 0, 0], [0, 0, -1], [0, 0, 1]]


def test_scramble_keeps_the_rest_and_has_the_right_moments():
    basis = torch.linalg.qr(random.normal(random.key(0), (5, 5), F64))[0]
    keep, drop = basis[:, :2], basis[:, 2:]
    x = random.normal(random.key(1), (3, 5), F64)
    views = tr.scramble(random.key(2), x, drop, 20_000)
    assert torch.allclose(views @ keep, (x @ keep).expand(20_000, 3, 2), atol=1e-13)
    assert (views @ drop).mean(0).abs().max() < 0.05
    second = (views @ drop).square().mean(0)
    expected = (x @ drop).square().sum(-1, keepdim=True) / 3
    assert torch.allclose(second / expected, torch.ones_like(second), atol=0.06)
    assert (views[0] - views[1]).abs().max() > 0.1


def test_errors_say_what_to_do(unchecked_shapes):
    for f in (tr.images, tr.pattern_counts):
        with pytest.raises(ValueError, match="expected a ring of d >= 4 pixels, got d=3"):
            f(3)
    with pytest.raises(ValueError, match="expected 2 weights, or 3 with a bias, got 4"):
        tr.selected(torch.zeros(4, dtype=F64))


@pytest.mark.parametrize("m", [2, 3])
def test_scrambled_views_are_normal_in_the_nuisance_subspace(m):
    """With the mean square of x there in every direction, apart from view to view and sample to
    sample."""
    rng, views = np.random.default_rng(m), 3000
    basis = np.linalg.qr(rng.standard_normal((5, m)))[0]
    x = rng.standard_normal((3, 5))
    seen = tr.scramble(random.key(m), torch.tensor(x), torch.tensor(basis), views).numpy() @ basis
    z = seen / np.sqrt(((x @ basis) ** 2).mean(-1))[:, None]  # view, sample, direction
    for sample in range(3):
        assert kolmogorov(ndtr(z[:, sample]).ravel(), 0, 1) < 3
    every = list(z.reshape(views, -1).T)
    late = [np.roll(z[:, 0, 0], 1), np.roll(z[:, 1, 1], 1)]
    for a, b in [*combinations(every, 2), *((a, b) for a in every for b in late)]:
        assert views**0.5 * abs(np.corrcoef(a, b)[0, 1]) < 6
