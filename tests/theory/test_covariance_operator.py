"""The covariance operator of finite worlds against loops over samples, views and weights."""

from functools import partial
from itertools import product

import numpy as np
import pytest
import torch

from clcore import random
from clcore.checks.dual_networks import worlds
from clcore.losses import anchors
from clcore.theory.operator import connection as net
from clcore.theory.operator import covariance_operator as co
from clcore.theory.operator import descent

pytestmark = pytest.mark.usefixtures("one_thread")
DRAWS, S, V = 3, 3, 2
KEYS = random.fold_in(random.key(5), torch.arange(DRAWS))
NCE = partial(anchors.infonce, tau=0.5)
TRIPLET = partial(anchors.soft_triplet, tau=0.7, margin=0.2)


def world(kind="scale", strength=0.5):
    return co.random_world(KEYS, S, V, 4, kind, strength)


def layers(grad=False):
    W = worlds.weights(np.random.default_rng(3), DRAWS, (4, 6, 3, 2))
    return [torch.from_numpy(w).mul(0.7).requires_grad_(grad) for w in W]


def close(a, b, tol=1e-12):
    torch.testing.assert_close(a, b, rtol=tol, atol=tol)


def connections(W, w, layer=1):
    return w.shaped(net.connection(net.trace(W, w.points), layer), 2)


def by_loops(loss, near, far, w, negatives):
    total = torch.zeros(DRAWS, dtype=torch.float64)
    half = lambda a, b: (a - b).square().sum(-1) / 2  # noqa: E731
    q, p = w.view_chances, w.chances
    for s, i, j in product(range(S), range(V), range(V)):
        for others in product(product(range(S), range(V)), repeat=negatives):
            chance = p[:, s] * q[:, s, i] * q[:, s, j]
            r = []
            for t, m in others:
                chance = chance * p[:, t] * q[:, t, m]
                r.append(half(near[:, s, i], far[:, t, m]))
            total = total + chance * loss(half(near[:, s, i], far[:, s, j]), torch.stack(r, -1))
    return total


@pytest.mark.parametrize(
    ("loss", "negatives"), [(anchors.simple, 1), (TRIPLET, 1), (NCE, 1), (NCE, 2)]
)
def test_population_loss_is_the_sum_over_all_tuples(loss, negatives):
    w = world()
    near, far = random.normal(KEYS, (2, S, V, 2), torch.float64).unbind(1)
    found = co.population_loss(loss, near, far, w, negatives)
    close(found, by_loops(loss, near, far, w, negatives))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    ("loss", "negatives"), [(anchors.simple, 1), (TRIPLET, 1), (NCE, 1), (NCE, 2)]
)
def test_operator_times_weights_is_minus_the_gradient(loss, negatives, tied):
    w, W = world("mask"), layers(grad=True)
    f = w.shaped(net.trace(W, w.points).output, 1)
    total = co.population_loss(loss, f, f if tied else f.detach(), w, negatives).sum()
    slopes = torch.autograd.grad(total, W)
    pull = co.pulls(loss, f, w, negatives)
    for layer in (1, 2, 3):
        K = connections([v.detach() for v in W], w, layer).flatten(1, 2)
        op = co.operator(K, K, pull, tied)
        close((op @ net.vec(W[layer - 1])[..., None])[..., 0], -net.vec(slopes[layer - 1]))


def test_operator_of_normalised_outputs():
    w, W = world("additive"), layers(grad=True)
    seen = net.trace(W, w.points)
    f = w.shaped(net.unit(seen.output), 1)
    slope = torch.autograd.grad(co.population_loss(NCE, f, f.detach(), w).sum(), W)[1]
    K = net.normalised_connection(seen, 2)
    op = co.operator(K @ net.projector(seen.output), K, co.pulls(NCE, f, w))
    close((op @ net.vec(W[1])[..., None])[..., 0], -net.vec(slope), 1e-10)


def test_inside_between_and_weighted_by_loops():
    w, K = world(), random.normal(KEYS, (S, V, 5, 2), torch.float64)
    xi = random.uniform(KEYS, (S, S), dtype=torch.float64)
    p, q = w.chances, w.view_chances
    mean = [sum(q[:, s, v, None, None] * K[:, s, v] for v in range(V)) for s in range(S)]
    centre = sum(p[:, s, None, None] * mean[s] for s in range(S))
    low, high, pair = torch.zeros(3, DRAWS, 5, 5, dtype=torch.float64)
    for s in range(S):
        gap = mean[s] - centre
        low += p[:, s, None, None] * gap @ gap.mT
        for v in range(V):
            gap = K[:, s, v] - mean[s]
            high += (p[:, s] * q[:, s, v])[:, None, None] * gap @ gap.mT
        for t in range(S):
            gap = mean[s] - mean[t]
            pair += (p[:, s] * p[:, t] * xi[:, s, t])[:, None, None] * gap @ gap.mT / 2
    close(co.between(K, w), low)
    close(co.within(K, w), high)
    close(co.pair_operator(torch.stack(mean, 1), xi, w), pair)
    a, b = K[:, :, 0], K[:, :, 1, :3]
    weight = xi[:, 0]
    left, right = (x - (p[..., None, None] * x).sum(1, keepdim=True) for x in (a, b))
    expected = torch.einsum("bn,bnik,bnjk->bij", weight * p, left, right)
    close(co.weighted_covariance(a, b, weight, p), expected)


def test_detached_weights_leave_no_residue():
    w, W = world(), layers()
    f = w.shaped(net.trace(W, w.points).output, 1)
    plain = net.trace(W, w.samples).output
    K, xi = connections(W, w, 2), co.infonce_weight(co.half_distances(plain, plain), 0.5)
    pull = co.weighted_pulls(xi, w)
    close(co.residue(K, pull, xi, w), torch.zeros(DRAWS, 18, 18, dtype=torch.float64))
    assert co.residue(K, co.pulls(NCE, f, w), xi, w).abs().max() > 1e-3
    near, far = f, f.flip(1)
    q = w.view_chances
    both = torch.einsum("bs,bt,bst,bsi,bsj,btk->bstijk", w.chances, w.chances, xi, q, q, q)
    r = lambda a, b: (a - b).square().sum(-1) / 2  # noqa: E731
    own = r(near[:, :, :, None], far[:, :, None])[:, :, None, :, :, None]
    other = r(near[:, :, None, :, None, None], far[:, None, :, None, None, :])
    close(co.weighted_loss(near, far, xi, w), (both * (own - other)).flatten(1).sum(1))


@pytest.mark.parametrize("tied", [False, True])
def test_the_weighted_loss_holds_weights_that_follow_the_net(tied):
    w, W = world(), layers(grad=True)
    f = w.shaped(net.trace(W, w.points).output, 1)
    plain = net.trace(W, w.samples).output
    xi, far = co.infonce_weight(co.half_distances(plain, plain), 0.5), f if tied else f.detach()
    assert xi.requires_grad
    slopes = torch.autograd.grad(co.weighted_loss(f, far, xi, w).sum(), W, retain_graph=True)
    held = torch.autograd.grad(co.weighted_loss(f, far, xi.detach(), w).sum(), W, retain_graph=True)
    for slope, expected in zip(slopes, held, strict=True):
        assert slope.equal(expected)
    K = connections([v.detach() for v in W], w, 2)
    op = co.pair_operator(co.view_mean(K, w), xi.detach(), w) * (1 + tied)
    close((op @ net.vec(W[1])[..., None])[..., 0], -net.vec(slopes[1]))


@pytest.mark.parametrize("tau", [0.3, 2.0])
def test_weights_are_slopes_of_the_losses_at_the_samples(tau):
    r = torch.linspace(0, 4, 9, dtype=torch.float64)[:, None].requires_grad_()
    for loss, weight in (
        (partial(anchors.infonce, tau=tau), co.infonce_weight(r[:, 0], tau)),
        (
            partial(anchors.soft_triplet, tau=tau, margin=0.4),
            co.triplet_weight(r[:, 0], tau, 0.4),
        ),
    ):
        close(-torch.autograd.grad(loss(torch.zeros_like(r[:, 0]), r).sum(), r)[0][:, 0], weight)


def test_spread_offset_and_the_bound_of_the_residue():
    w, W = world("scale", 0.8), layers()
    f, plain = w.shaped(net.trace(W, w.points).output, 1), net.trace(W, w.samples).output
    q = w.view_chances[..., None]
    mean = (q * f).sum(-2)
    close(co.view_variance(f, w), (q * f.square()).sum((-1, -2)) - mean.square().sum(-1), 1e-10)
    close(co.view_offset(f, plain, w), (plain - mean).norm(dim=-1))
    size = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    s, c, p = co.view_variance(f, w), co.view_offset(f, plain, w), w.chances
    total = torch.zeros(DRAWS, dtype=torch.float64)
    for i in range(S):
        total += p[:, i] * (3 * s[:, i] + 2 * c[:, i] ** 2)
        for j in range(S):
            far = (plain[:, i] - plain[:, j]).norm(dim=-1)
            total += p[:, i] * p[:, j] * 2 * far * (s[:, i].sqrt() + c[:, i])
    close(co.residue_bound(f, plain, size, 4.0, w), 8 * size**2 * total)


def test_kinds_of_views():
    for kind in co.KINDS:
        still = world(kind, 0.0)
        close(still.views, still.samples.unsqueeze(-2).expand_as(still.views))
    w = world("additive", 0.3)
    close((w.view_chances[..., None] * w.views).sum(-2), w.samples)
    hit = world("mask", 1.0)
    kept = hit.views == hit.samples.unsqueeze(-2)
    assert ((hit.views == 0) | kept).all() and 0 < kept.double().mean() < 1
    assert (world("scale").views.sign() == world("scale").samples.sign().unsqueeze(-2)).all()


@pytest.mark.parametrize(("normalised", "tied"), [(False, False), (True, True)])
def test_training_is_gradient_descent(normalised, tied):
    w, W = world("mask", 0.3), layers(grad=True)
    xi = partial(co.infonce_weight, tau=0.5)
    path = descent.train([v.detach() for v in W], w, NCE, xi, 0.01, 1, 1, normalised, tied)
    out = net.trace(W, w.points).output
    f = w.shaped(net.unit(out) if normalised else out, 1)
    slopes = torch.autograd.grad(co.population_loss(NCE, f, f if tied else f.detach(), w).sum(), W)
    for new, old, slope in zip(path.weights, W, slopes, strict=True):
        close(new, old.detach() - 0.01 * slope, 1e-10)
    assert path.steps == [0, 1] and path.residue.shape == (2, DRAWS, 3)
    K = connections([v.detach() for v in W], w)
    close(path.between[0][0], torch.linalg.eigvalsh(co.between(K, w)))
    close(path.within[0][0], torch.linalg.eigvalsh(co.within(K, w)))
    inside = (w.chances * co.view_variance(f.detach(), w)).sum(-1)
    close(path.spread[0, :, 0], inside)


def test_errors():
    w = world()
    with pytest.raises(ValueError, match="kind: expected one of additive, mask, scale, got 'crop'"):
        co.random_world(KEYS, 3, 2, 4, "crop", 0.1)
    with pytest.raises(ValueError, match="expected strength >= 0"):
        co.random_world(KEYS, 3, 2, 4, "mask", -0.1)
    with pytest.raises(ValueError, match="divide them by their sum"):
        co.World(w.samples, 2 * w.chances, w.views, w.view_chances)
    with pytest.raises(ValueError, match="expected one probability per sample"):
        co.World(w.samples, w.chances[:, :2], w.views, w.view_chances)
    with pytest.raises(ValueError, match="expected one chance a view"):
        co.World(w.samples, w.chances, w.views, w.view_chances[..., :1])
    with pytest.raises(ValueError, match=r"expected views \[\*b, S, V, d\]"):
        co.World(w.samples[:, :2], w.chances[:, :2] * 0 + 0.5, w.views, w.view_chances)
    f = torch.zeros(DRAWS, S, V, 2, dtype=torch.float64)
    with pytest.raises(ValueError, match="expected at least one negative, got 0"):
        co.population_loss(NCE, f, f, w, 0)
    with pytest.raises(ValueError, match="take fewer negatives or views"):
        co.population_loss(NCE, f, f, w, 12)
    with pytest.raises(ValueError, match="temperature"):
        co.infonce_weight(torch.ones(2), 0.0)
    assert np.isclose(float(w.chances.sum(-1)[0]), 1)
