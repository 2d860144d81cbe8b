"""The two-layer ReLU net, its sticky flow, and the solutions that acl Theorem 6 compares."""

import numpy as np
import pytest
import torch

from clcore import losses, random
from clcore.losses import contrast
from clcore.nets import networks
from clcore.theory.relu import orthogonal_mixture as om
from clcore.theory.relu import relu_two_layer as r2

KEYS = random.fold_in(random.key(7), torch.arange(6))
F64 = torch.float64


def matrices(modes, n=16):
    """X_alpha of random weights on mixtures, with starts: [6, M, M], [6, M]."""
    x, x2 = om.draw(KEYS, n, modes)
    alpha = random.uniform(random.fold_in(KEYS, 50), (n, n), 0.05, 1.0, F64)
    w = random.normal(random.fold_in(KEYS, 51), (modes,), F64).abs()
    return contrast.contrastive_covariance(alpha, x, x2, x, x2), r2.unit_norm(w, -1)


def test_output_is_that_of_the_receptive_field_net():
    x, _ = om.draw_fields(KEYS[0], 20, 3, 4)
    W1 = random.normal(KEYS[1], (3, 4), F64)
    W2 = random.normal(KEYS[2], (2, 3), F64)
    for kind in ("relu", "linear"):
        other = networks.receptive_field({"W": W1[:, None], "V": W2}, x, kind)
        assert torch.allclose(r2.output(W1, W2, x, kind), other, atol=1e-14)
    batch = r2.output(W1.expand(5, 3, 4), W2.expand(5, 2, 3), x.expand(5, 20, 3, 4))
    assert torch.allclose(batch[4], r2.output(W1, W2, x), atol=1e-14)
    with pytest.raises(ValueError, match="activation: expected one of"):
        r2.output(W1, W2, x, "step")


def test_trace_energy_by_loops():
    W1, W2 = random.normal(KEYS[0], (3, 2), F64), random.normal(KEYS[1], (4, 3), F64)
    X = random.normal(KEYS[2], (6, 6), F64)
    total = 0.0
    for o in range(4):
        row = torch.cat([W2[o, k] * W1[k] for k in range(3)])
        total += row @ X @ row
    assert torch.allclose(r2.trace_energy(W1, W2, X), total)


def test_gradient_is_that_of_the_loss():
    x, x2 = om.draw(KEYS[0], 12, 4)
    pair = losses.infonce_pair(0.5, 1.0)
    w = torch.tensor([0.7, 0.0, 0.5, 0.2], dtype=F64, requires_grad=True)
    one = torch.ones(1, 1, dtype=F64)
    z, z2 = (r2.output(w[None], one, v[:, None]) for v in (x, x2))
    (down,) = torch.autograd.grad(contrast.family_loss(z, z2, pair), w)
    push = r2.sticky_gradient(r2.covariance(x, x2, w.detach(), pair), w.detach())
    assert torch.allclose(-down, push, atol=1e-12)
    assert push[1] == 0


def test_a_step_is_euler_on_the_sphere_and_ignores_a_shift():
    X, w = matrices(4)
    small, rate = 1e-6, 0.01
    plain = w + small * (X @ w[..., None])[..., 0]
    plain = plain / plain.norm(dim=-1, keepdim=True)
    assert torch.allclose(r2.sticky_step(X, w, small), plain, atol=1e-9)
    shifted = X + 3 * torch.eye(4, dtype=F64)
    assert torch.allclose(r2.sticky_step(X, w, rate), r2.sticky_step(shifted, w, rate), atol=1e-13)


def test_zeros_stay_and_entries_stop_at_zero():
    X = torch.tensor([[1.0, -2.0, 1.0], [-2.0, 1.0, 0.0], [1.0, 0.0, 1.0]], dtype=F64)
    w = torch.tensor([0.9, 0.43, 0.0], dtype=F64)
    after = r2.sticky_step(X, w, 0.5)
    assert after[1] == 0 and after[2] == 0 and after[0] == 1
    free = r2.sticky_step(X, w, 0.5, sticky=False)
    assert free[1] < 0 < free[2]
    assert abs(float(free.norm()) - 1) < 1e-14


def exact_winner(X, w):
    """The last entry of the sticky flow, by eigendecomposition between the moments of contact."""
    X, w = X.numpy(), w.numpy()
    active = np.arange(len(w))
    while len(active) > 1:
        values, vectors = np.linalg.eigh(X[np.ix_(active, active)])
        values, start = values - values[-1], vectors.T @ w[active]

        def at(t, values=values, vectors=vectors, start=start):
            return vectors @ (np.exp(values * t) * start)

        times = np.concatenate([[0.0], np.geomspace(1e-5, 1e4, 4000)])
        high = next(t for t in times if (at(t) < 0).any())
        low = times[list(times).index(high) - 1]
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if (at(middle) < 0).any() else (middle, high)
        dying = at(high).argmin()
        w = w * 0.0
        w[active] = at(high)
        active = np.delete(active, dying)
    return int(active[0])


@pytest.mark.parametrize("modes", [2, 4, 7])
def test_limit_is_that_of_the_exact_flow(modes):
    X, w = matrices(modes)
    end = r2.sticky_limit(X, w, rate=0.02)
    assert r2.one_hot(end).all()
    winners = [exact_winner(X[i], w[i]) for i in range(6)]
    assert end.argmax(-1).tolist() == winners


def test_linear_limit_is_the_maximal_eigenvector():
    X, w = matrices(4)
    top = torch.linalg.eigh(X)[1][..., -1]
    end = r2.sticky_limit(X, w, sticky=False, rate=0.3)
    assert ((end * top).sum(-1).abs() > 1 - 1e-9).all()


def test_equal_growth_lets_the_largest_ratio_win():
    """X = S I - mu mu^T: the order of w_m / mu_m is kept, so its largest survives."""
    mu = random.uniform(random.fold_in(KEYS, 2), (5,), 0.2, 1.0, F64)
    X = 2 * torch.eye(5, dtype=F64) - mu[..., :, None] * mu[..., None, :]
    w = r2.unit_norm(random.normal(random.fold_in(KEYS, 3), (5,), F64).abs(), -1)
    assert r2.sticky_limit(X, w).argmax(-1).equal((w / mu).argmax(-1))


def test_a_cold_loss_keeps_two_entries():
    x = torch.eye(3, dtype=F64).repeat(2, 1)
    w = r2.unit_norm(torch.tensor([0.8, 0.5, 0.33], dtype=F64), -1)
    cold, X = r2.loss_driven_limit(x, x, w, losses.infonce_pair(0.05, 0.0))
    assert torch.allclose(cold, torch.tensor([0.9071, 0.4209, 0.0], dtype=F64), atol=1e-3)
    push = r2.sticky_gradient(X, cold)
    assert (push - (push @ cold) * cold).abs().max() < 1e-6
    warm, _ = r2.loss_driven_limit(x, x, w, losses.infonce_pair(0.5, 0.0))
    assert r2.one_hot(warm)


def test_a_step_has_the_same_length_in_other_units():
    """Lengths in thousandths and the loss in units to match: the flow is the same."""
    x, x2 = om.draw(KEYS, 12, 3)
    w = r2.unit_norm(random.normal(random.fold_in(KEYS, 4), (3,), F64).abs(), -1)
    found = [
        r2.loss_driven_limit(s * x, s * x2, w, losses.infonce_pair(0.5 * s**2, 0.0), steps=5)[0]
        for s in (1.0, 1e-3)
    ]
    torch.testing.assert_close(*found)
    assert (found[0] - w).abs().max() > 1e-3


def test_one_hot_has_one_entry():
    w = torch.tensor([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 0.9]], dtype=F64)
    assert r2.one_hot(w).tolist() == [True, False, False]


def test_solutions_lie_in_the_constraint_set():
    delta = torch.tensor([[0.1, -0.8], [0.5, 0.2], [-0.3, 0.0]], dtype=F64)
    assert r2.salient(delta).tolist() == [1, 0, 0]
    W1, W2 = r2.compositional(delta)
    assert torch.allclose(W1, torch.tensor([[0, 1], [1, 0], [1, 0]], dtype=F64) / 3**0.5)
    s = torch.tensor([[-0.8, 0.5, -0.3]], dtype=F64)
    assert torch.allclose(W2, s / s.norm())
    W1, W2 = r2.relay(delta, 2, 1)
    assert W1[2, 1] == 1 and W1.sum() == 1 and W2.tolist() == [[0, 0, 1]]


def test_ascent_climbs_and_keeps_zeros_and_norms():
    X = random.normal(KEYS, (6, 6), F64)
    X = X + X.transpose(-1, -2)
    W1 = random.uniform(random.fold_in(KEYS, 1), (3, 2), dtype=F64)
    W1[:, 0, 0] = 0
    W1 = r2.unit_norm(W1, (-2, -1))  # after the zero: the ascent compares unit vectors
    s = r2.unit_norm(random.normal(random.fold_in(KEYS, 2), (3,), F64), -1)
    values = [r2.trace_energy(W1, s[:, None], X)]
    for _ in range(40):
        W1, s = r2.ascend(X, W1, s, rate=0.02, steps=5)
        values.append(r2.trace_energy(W1, s[:, None], X))
        assert (W1 >= 0).all() and (W1[:, 0, 0] == 0).all()
    rises = torch.stack(values).diff(dim=0)
    assert (rises > -1e-9).all() and (rises.sum(0) > 0.1).all()
    assert torch.allclose(W1.square().sum((-1, -2)), torch.ones(6, dtype=F64))
    assert torch.allclose(s.square().sum(-1), torch.ones(6, dtype=F64))
