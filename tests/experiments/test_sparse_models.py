"""Losses and encoders against numpy loops."""

import itertools

import numpy as np
import pytest
import torch
from torch.func import grad

from clcore import random as cr
from clcore.experiments import sparse_models as sm

pytestmark = pytest.mark.usefixtures("one_thread")


def normal(seed, *shape):
    return cr.normal(cr.key(seed), shape, dtype=torch.float64)


# ----------------------------------------------------------------------------------------- losses


def unit(v):
    return v / np.linalg.norm(v) if np.linalg.norm(v) > 0 else 0 * v


def loops(a, b, kind, tau):
    """The losses by the letter: sums over pairs, a vector at a time."""
    a, b = [[unit(v) for v in x.numpy()] for x in (a, b)]
    n, total = len(a), 0.0
    if kind == "contrastive":
        for i in range(n):
            plus = np.exp(a[i] @ b[i] / tau)
            total -= np.log(
                plus / (plus + sum(np.exp(a[i] @ b[j] / tau) for j in range(n) if j != i))
            )
        return total / n
    z = a + b
    for i in range(2 * n):
        plus = np.exp(z[i] @ z[(i + n) % (2 * n)] / tau)
        total -= np.log(plus / sum(np.exp(z[i] @ z[j] / tau) for j in range(2 * n) if j != i))
    return total / (2 * n)


@pytest.mark.parametrize("kind", ["contrastive", "nt_xent"])
def test_contrastive_losses_are_the_loops_and_so_are_their_gradients(kind):
    a, b = normal(0, 5, 3), normal(1, 5, 3)
    a[2] = 0  # a fully masked view
    loss = getattr(sm, kind)
    assert loss(a, b, 0.2).item() == pytest.approx(loops(a, b, kind, 0.2), rel=1e-12)
    for place, at in itertools.product((0, 1), ((0, 1), (4, 2), (3, 0))):
        step = torch.zeros(5, 3, dtype=torch.float64)
        step[at] = 1e-6
        sides = [(a + s * step, b) if place == 0 else (a, b + s * step) for s in (1, -1)]
        slope = (loops(*sides[0], kind, 0.2) - loops(*sides[1], kind, 0.2)) / 2e-6
        found = grad(lambda *v: loss(*v, 0.2), place)(a, b)
        assert found[at].item() == pytest.approx(slope, abs=1e-8)
        assert (grad(lambda *v: loss(*v, 0.2), 0)(a, b)[2] == 0).all()


def test_contrastive_losses_at_their_limits():
    z = torch.zeros(7, 3, dtype=torch.float64)
    assert sm.contrastive(z, z).item() == pytest.approx(np.log(7))
    assert sm.nt_xent(z, z).item() == pytest.approx(np.log(13))
    e = torch.eye(7, dtype=torch.float64)
    for loss, others in ((sm.contrastive, 6), (sm.nt_xent, 12)):
        assert loss(e, e, 0.5).item() == pytest.approx(np.log1p(others * np.exp(-2)))
        with pytest.raises(ValueError, match=r"temperature: expected at least 0.025 .* got 0"):
            loss(e, e, 0)


def test_non_contrastive_loss_is_the_mean_squared_distance():
    u, v = normal(2, 6, 4), normal(3, 6, 4)
    far = np.mean([np.sum((a - b) ** 2) for a, b in zip(u.numpy(), v.numpy(), strict=True)])
    near = np.mean(
        [np.sum((unit(a) - unit(b)) ** 2) for a, b in zip(u.numpy(), v.numpy(), strict=True)]
    )
    assert sm.non_contrastive(u, v, unit=False).item() == pytest.approx(far)
    assert sm.non_contrastive(u, v).item() == pytest.approx(near)
    assert sm.non_contrastive(3 * u, 0.1 * v).item() == pytest.approx(near)
    for f in (True, False):
        assert (grad(lambda u, v, f=f: sm.non_contrastive(u, v, f), 1)(u, v) == 0).all()


def test_an_output_without_direction_is_orthogonal_to_everything():
    u, v = normal(2, 6, 4), normal(3, 6, 4)
    u[1], v[2] = 0, 0
    assert sm.cosine(u, v)[1] == 0 and sm.cosine(u, v)[2] == 0
    slope = grad(lambda u: sm.non_contrastive(u, v))(u)
    assert slope.isfinite().all() and (slope[1] == 0).all() and (slope[2] == 0).all()


def test_sim_siam_is_symmetric_and_stops_the_gradient_at_z():
    p, z = normal(4, 2, 5, 3), normal(5, 2, 5, 3)
    value = -np.mean(
        [unit(p[v, i].numpy()) @ unit(z[1 - v, i].numpy()) for v in (0, 1) for i in range(5)]
    )
    assert sm.sim_siam(p, z).item() == pytest.approx(value)
    assert (grad(sm.sim_siam, 1)(p, z) == 0).all() and (grad(sm.sim_siam)(p, z) != 0).any()


# --------------------------------------------------------------------------------------- encoders


def net(suffixes=("",), bn=("", "2"), m=4, p=5):
    """Layers by their suffixes, those in `bn` with a BatchNorm."""
    found, width = {}, p
    for i, s in enumerate(suffixes):
        found |= {"W" + s: normal(10 + i, m, width), "b" + s: 0.3 * normal(20 + i, m)}
        if s in bn:
            found |= {"gain" + s: 1 + 0.2 * normal(30 + i, m), "shift" + s: normal(40 + i, m)}
        width = m
    return found


def looped(params, x, activation, suffix=""):
    """One layer, unit by unit and sample by sample."""
    W, b = params["W" + suffix].numpy(), params["b" + suffix].numpy()
    u = np.array([[w @ s for w in W] for s in x])
    if "gain" + suffix in params:
        u = (u - u.mean(0)) / np.sqrt(u.var(0) + 1e-5)
        u = u * params["gain" + suffix].numpy() + params["shift" + suffix].numpy()
    elif activation != "paper":
        u = u + b
    if activation == "paper":
        return np.where(np.abs(u) <= b, 0, np.maximum(u - b, 0) - np.maximum(-u - b, 0))
    if activation == "released":
        return np.maximum(u, 0) - np.maximum(2 * b - u, 0)
    return u if activation is None else np.where(u > 0, u, 0)


@pytest.mark.parametrize("activation", [None, "paper", "released", "plain"])
@pytest.mark.parametrize("bn", [("", "2"), ("2",), ()])
@pytest.mark.parametrize("suffixes", [("",), ("", "2")])
def test_encoders_are_the_loops(activation, bn, suffixes):
    params, x = net(suffixes, bn), normal(6, 2, 7, 5)
    found = sm.encode(params, x, activation)
    for view in (0, 1):
        h = x[view].numpy()
        for suffix in suffixes:
            h = looped(params, h, activation, suffix)
        assert found[view].numpy() == pytest.approx(h, abs=1e-10)


def test_batch_norm_of_a_dead_unit():
    x, params = normal(7, 9, 5), net()
    args = [params[n] for n in ("W", "gain", "shift")]
    dead = args[0] * torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=torch.float64)[:, None]
    assert torch.allclose(sm.linear_batch_norm(x, dead, *args[1:])[:, 1], params["shift"][1])
