"""Symmetric-ReLU dynamics against sampling, closed forms and autograd; Lemma 1's update by hand."""

import math

import numpy as np
import pytest
import torch

from clcore import random as cr
from clcore.theory.sparse import proportional_update as pu
from clcore.theory.sparse import sparse_coding as sc
from clcore.theory.sparse import srelu_dynamics as sd

pytestmark = pytest.mark.usefixtures("one_thread")
F = torch.float64


def probabilities(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=F)


def warm(runs: int, d: int, size: float) -> tuple[torch.Tensor, ...]:
    """Two nets near the identity and their biases, [runs, d, d] and [runs, d]."""
    key = cr.key(3)
    shake = 2 * cr.uniform(key, (2, runs, d, d), dtype=F) - 1
    b = 0.2 + 0.1 * cr.uniform(cr.fold_in(key, 1), (2, runs, d), dtype=F)
    online, target = torch.eye(d, dtype=F) + size * shake
    return online, target, *b


def world(alpha: torch.Tensor, kappa: torch.Tensor, d: int) -> sd.Views:
    return sd.views(*sd.latents(kappa, d), alpha)


def test_latents_and_masks_are_laws():
    kappa, alpha = probabilities(0.2, 1.0), probabilities(0.3, 1.0)
    z, mass = sd.latents(kappa, 3)
    assert z.shape == (27, 3) and len(z.unique(dim=0)) == 27
    seen = sd.views(z, mass, alpha)
    assert seen.masked.shape == (27, 8, 3)
    assert mass.sum(-1).tolist() == pytest.approx([1, 1])
    assert seen.keep.sum(-1).tolist() == pytest.approx([1, 1])
    assert torch.einsum("rk,kd->rd", mass, z**2)[0].tolist() == pytest.approx([0.2] * 3)
    mean = torch.einsum("rk,rm,kmd->rd", mass, seen.keep, seen.masked.abs())
    assert mean.flatten().tolist() == pytest.approx([0.06] * 3 + [1.0] * 3)


def test_loss_by_hand():
    """One coordinate matters: W = identity in d = 2, each row worth alpha^2 kappa (1 - b)^2."""
    eye, b = torch.eye(2, dtype=F), probabilities(0.25, 0.25)
    alpha, kappa = torch.tensor(0.5, dtype=F), torch.tensor(0.2, dtype=F)
    value = sd.loss(eye, eye, b, b, world(alpha, kappa, 2))
    assert float(value) == pytest.approx(2 - 2 * 2 * 0.25 * 0.2 * 0.75**2)
    assert float(sd.simplified_loss(eye, eye, b, b, alpha, kappa)) == pytest.approx(float(value))


def test_loss_is_the_mean_over_samples():
    online, target, b, b2 = (t[0] for t in warm(1, 3, 0.5))
    alpha, kappa = torch.tensor(0.625, dtype=F), torch.tensor(0.4, dtype=F)
    exact = float(sd.loss(online, target, b, b2, world(alpha, kappa, 3)))
    n, keys = 200_000, cr.split(cr.key(0), 2)
    z = sc.latents(keys[0], n, 3, 0.4, "iid-zeros", F)
    one, two = sc.views(z, sc.masks(keys[1], n, 3, 0.625).to(F))
    u, v = sc.symmetric_relu(one @ online.T, b), sc.symmetric_relu(two @ target.T, b2)
    each = 2 - 2 * (u * v).sum(-1)
    assert abs(float(each.mean()) - exact) < 5 * float(each.std()) / math.sqrt(n)


def test_slope_is_autograd():
    online, target, b, b2 = warm(4, 3, 0.4)
    alpha, kappa = probabilities(0.2, 0.5, 0.9, 1.0), probabilities(0.1, 0.3, 0.6, 1.0)
    seen = world(alpha, kappa, 3)
    free = online.clone().requires_grad_()
    (slope,) = torch.autograd.grad(sd.loss(free, target, b, b2, seen).sum(), free)
    assert torch.allclose(sd.exact_slope(seen)(target, b2)(online, b), slope, atol=1e-14)


def test_simplified_is_exact_where_separated_and_only_there():
    near, far = warm(5, 3, 0.05), warm(5, 3, 0.4)
    alpha, kappa = torch.linspace(0.2, 0.9, 5, dtype=F), torch.linspace(0.5, 0.1, 5, dtype=F)
    seen = world(alpha, kappa, 3)
    assert bool(sd.separated(near[0], near[2]).all() & sd.separated(near[1], near[3]).all())
    simple = sd.simplified_loss(*near, alpha, kappa)
    assert torch.allclose(simple, sd.loss(*near, seen), atol=1e-14)
    slopes = [
        s(near[1], near[3])(near[0], near[2])
        for s in (sd.exact_slope(seen), sd.simplified_slope(alpha, kappa))
    ]
    assert torch.allclose(*slopes, atol=1e-14)
    outside = 2 - 2 * sd.summands(*far, alpha, kappa).sum(-1)
    assert float((outside - sd.loss(*far, seen)).abs().max()) > 1e-3
    with pytest.raises(ValueError, match="online: expected biases between the crosstalk"):
        sd.simplified_loss(*far, alpha, kappa)


def test_crosstalk_and_the_room_for_a_bias():
    W = torch.tensor([[0.9, 0.1, -0.2], [0.0, 1.0, 0.0], [0.05, 0.05, 1.1]], dtype=F)
    assert sd.crosstalk(W).tolist() == pytest.approx([0.3, 0, 0.1])
    assert sd.crosstalk(W, 0.1).tolist() == pytest.approx([0.42, 0.1, 0.22])
    low, high = sd.bias_range(W)
    assert (low + high).tolist() == pytest.approx([1, 1, 1])
    b = probabilities(0.5, 0.5, 0.5)
    assert sd.separated(W, b).tolist() == [True, True, True]
    assert sd.separated(W, b, 0.1).tolist() == [False, True, True]
    with pytest.raises(ValueError, match=r"W: expected every row's crosstalk below 1/2, got 0\.9"):
        sd.bias_range(3 * W)


def test_noise_adds_its_variance_to_the_rate():
    d, size = 2, 0.1
    values, weights = probabilities(-size, size), probabilities(0.5, 0.5)
    alpha, kappa = torch.tensor(0.8, dtype=F), torch.tensor(0.3, dtype=F)
    x, mass = sd.noisy(*sd.latents(kappa, d), values, weights)
    assert x.shape == (36, 2) and float(mass.sum()) == pytest.approx(1)
    target = torch.tensor([[1.0, 1e-3], [-2e-3, 1.0]], dtype=F)
    b = probabilities(0.3, 0.3)
    push = sd.exact_slope(sd.views(x, mass, alpha))(target, b)(target, b)
    found = push[0, 1] / push[0, 0] / target[0, 1]
    expected = sd.rate(alpha, kappa, b[0], variance=size**2)
    assert float(found) == pytest.approx(float(expected))
    assert float(sd.rate(alpha, kappa, b[0])) == pytest.approx(0.64 * 0.3 / 0.7)


@pytest.mark.parametrize("eta", [2.0, 50.0])
def test_scheme_contracts_at_the_rate_whatever_the_step(eta):
    online, target, b, b2 = warm(2, 3, 0.03)
    alpha, kappa = probabilities(0.9, 0.6), probabilities(0.3, 0.4)
    seen, step = world(alpha, kappa, 3), probabilities(eta, eta)
    path = sd.alternate(online, target, b, b2, sd.exact_slope(seen), step, 6, 80)
    assert path.shape == (13, 2, 2, 3, 3)
    assert torch.equal(path[1, 1], target) and torch.equal(path[2, 0], path[1, 0])
    assert torch.allclose(path.norm(dim=-1)[2:], torch.ones((), dtype=F))
    last = sd.off_diagonal(path)
    ratio = last[6, 1].abs().amax(-1) / last[5, 0].abs().amax(-1)
    expected = sd.rate(alpha[:, None], kappa[:, None], b)
    assert torch.allclose(ratio, expected, rtol=1e-4)
    assert float((path[-1] - torch.eye(3, dtype=F)).abs().max()) < 1e-6


def test_runs_do_not_see_each_other():
    online, target, b, b2 = warm(3, 2, 0.05)
    alpha, kappa = probabilities(0.5, 0.7, 0.9), probabilities(0.3, 0.2, 0.1)
    step = probabilities(9, 9, 9)

    def end(k: slice) -> torch.Tensor:
        slope = sd.exact_slope(world(alpha[k], kappa[k], 2))
        return sd.alternate(online[k], target[k], b[k], b2[k], slope, step[k], 2, 5)[:, :, -1]

    assert torch.equal(end(slice(None)), end(slice(2, 3)))


def test_linear_nets_do_not_contract():
    online, target, b, _ = warm(1, 3, 0.05)
    alpha, kappa = probabilities(0.9), probabilities(0.3)
    slope = sd.exact_slope(world(alpha, kappa, 3))
    path = sd.alternate(online, target, 0 * b, 0 * b, slope, probabilities(50.0), 3, 40)
    assert torch.allclose(path[-1, 0], path[1, 0], atol=1e-12)


@pytest.mark.usefixtures("unchecked_shapes")
def test_bad_input_is_named():
    good = probabilities(0.5)
    for bad in (0.0, -0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="kappa: expected probabilities"):
            sd.latents(probabilities(bad), 2)
        with pytest.raises(ValueError, match="alpha: expected probabilities"):
            sd.views(*sd.latents(good, 2), probabilities(bad))
    with pytest.raises(ValueError, match="d: expected at least 2 dimensions, got 1"):
        sd.latents(good, 1)
    with pytest.raises(ValueError, match=r"d: expected 3\^d <= 1048576, got d=13"):
        sd.latents(good, 13)
    with pytest.raises(ValueError, match=r"x: expected k 2\^p <= 1048576, got k=6561, p=8"):
        sd.views(*sd.latents(good, 8), good)
    with pytest.raises(ValueError, match=r"values: expected k v\^d <= 1048576, got 2187 3\^7"):
        sd.noisy(*sd.latents(good, 7), probabilities(-1, 0, 1), probabilities(0.2, 0.6, 0.2))


def test_rows_without_a_direction_are_an_error():
    online, target, b, b2 = warm(1, 2, 0.05)
    slope = sd.exact_slope(world(probabilities(0.5), probabilities(0.3), 2))
    arguments = (target, b, b2, slope, probabilities(1.0), 1, 2)
    for bad in (0 * online, online * math.nan):
        with pytest.raises(ValueError, match=r"W: expected rows with a direction.* half-round 1"):
            sd.alternate(bad, 0 * arguments[0], *arguments[1:])


def test_a_coordinate_that_no_row_uses_is_none():
    still = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]], dtype=F)
    b = torch.zeros(1, 2, dtype=F)

    def flat(other, b_other):
        return lambda W, b: 0 * W

    path = sd.alternate(still, still, b, b, flat, probabilities(1.0), 1, 1)
    assert torch.equal(path[-1, 0], still)


# ----------------------------------------------------------------------- Lemma 1's update


def test_update_by_hand():
    g = pu.direction(probabilities(2.0), 3)
    assert g.tolist() == [[1, 2, 2]]
    v = pu.step(probabilities(0.6, 0.0, 0.8)[None], g, 0.4)
    raw = probabilities(1.0, 0.8, 1.6)
    assert torch.allclose(v[0], raw / raw.norm())
    assert pu.limit(g)[0].tolist() == pytest.approx([1 / 3, 2 / 3, 2 / 3])
    assert pu.contraction(g, 0.5).tolist() == pytest.approx([1 / math.sqrt(1 + 9 / 4)])


def test_contraction_is_attained_at_right_angles():
    g = probabilities(1.0, -0.5, 2.0)
    v = probabilities(2.0, 4.0, 0.0)
    v = v / v.norm()
    after, c = pu.step(v, g, 0.7), 0.7

    def minors(w: torch.Tensor) -> torch.Tensor:
        return w[:, None] * g - w * g[:, None]

    gamma = float(pu.contraction(g, c))
    assert torch.allclose(minors(after), gamma * minors(v), atol=1e-15)


def test_iterate_reaches_the_limit_from_every_start_but_the_opposite():
    g = pu.direction(probabilities(-0.7), 4)
    v = probabilities(-1.0, 0.1, 0.0, -1.0)[None]
    v = v / v.norm()
    assert float((v * g).sum()) < 0
    path = pu.iterate(v, g, torch.full((200, 1), 0.3, dtype=F))
    assert path.shape == (201, 1, 4)
    assert torch.allclose(path[-1], pu.limit(g), atol=1e-14)


@pytest.mark.parametrize("d", [2, 5, 50])
def test_updates_along_any_direction_step_by_step(d):
    rng, runs = np.random.default_rng(d), 6
    g, c = rng.standard_normal((runs, d)), rng.uniform(0.1, 0.6, (6, runs))
    path = [rng.standard_normal((runs, d))]  # |v| other than 1 at the start
    for size in c:
        moved = path[-1] + size[:, None] * g
        path.append(moved / np.sqrt((moved**2).sum(-1, keepdims=True)))
    found = pu.iterate(*map(torch.from_numpy, (path[0], g, c)))
    assert found.numpy() == pytest.approx(np.array(path), abs=1e-13)
    gamma = pu.contraction(*map(torch.from_numpy, (g, c[0])))
    right = [(1 + sum((entry * c[0, k]) ** 2 for entry in g[k])) ** -0.5 for k in range(runs)]
    assert gamma.numpy() == pytest.approx(np.array(right), abs=1e-14)


@pytest.mark.usefixtures("unchecked_shapes")
def test_bad_updates_are_named():
    with pytest.raises(ValueError, match="d: expected at least 2 dimensions, got 1"):
        pu.direction(probabilities(1.0), 1)
    g = probabilities(1.0, 0.0)
    with pytest.raises(ValueError, match=r"v \+ c g: expected a non-zero vector"):
        pu.step(-g, g, 1.0)
    with pytest.raises(ValueError, match="g: expected a non-zero direction"):
        pu.limit(0 * g)
    for bad in (0.0, -1.0):
        with pytest.raises(ValueError, match="c: expected a positive lower bound"):
            pu.contraction(g, bad)
