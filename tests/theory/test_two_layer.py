"""The two-layer net against autograd and eigenvalue solvers; its latent model by enumeration."""

import pytest
import torch

from clcore import random
from clcore.theory.one_layer import one_layer
from clcore.theory.two_layer import field_latent, two_layer

pytestmark = pytest.mark.usefixtures("one_thread")
KINDS = list(two_layer.HOMOGENEOUS)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def unit(*shape: int, seed: int = 0) -> torch.Tensor:
    w = normal(*shape, seed=seed)
    return w / w.norm(dim=-1, keepdim=True)


def world(n: int = 6, K: int = 2, d: int = 3) -> one_layer.World:
    return two_layer.of_views(normal(n, n, seed=1).exp(), normal(n, K, d), normal(n, K, d, seed=2))


@pytest.mark.parametrize("kind", KINDS)
def test_flow_is_the_gradient_of_the_energy(kind):
    W = unit(2, 3, 3, seed=3).requires_grad_()
    V = normal(4, 6, seed=4).requires_grad_()
    slopes = torch.autograd.grad(two_layer.energy(world(), W, V, kind), (V, W))
    flow = two_layer.flow(world(), W.detach(), V.detach(), kind)
    assert torch.allclose(flow.V, slopes[0], atol=1e-12)
    assert torch.allclose(flow.W, slopes[1], atol=1e-12)
    on = two_layer.tangent(W.detach(), flow.W)
    assert (on * W).sum(-1).abs().max() < 1e-12 and not torch.allclose(on, flow.W)


def test_energy_of_a_batch_without_augmentation_is_half_a_variance():
    x, W, V = normal(7, 2, 3), unit(2, 2, 3, seed=1), normal(3, 4, seed=2)
    f = two_layer.hidden(x, W) @ V.mT
    data = one_layer.World(x, torch.full((7,), 1 / 7, dtype=torch.float64))
    expected = f.var(0, unbiased=False).sum() / 2
    assert two_layer.energy(data, W, V).item() == pytest.approx(expected.item())


def test_fields_see_their_own_input_only():
    x, W = normal(5, 2, 3), unit(2, 2, 3, seed=1)
    moved = x.clone()
    moved[:, 1] += 1
    before, after = two_layer.hidden(x, W), two_layer.hidden(moved, W)
    assert torch.equal(before[:, :2], after[:, :2]) and not torch.equal(before, after)
    assert torch.allclose(before[:, 3], (x[:, 1] @ W[1, 1]).relu())


def test_merged_filters_are_equal_and_keep_the_common_direction():
    W, s = normal(2, 3, 4), normal(6, seed=1)
    root = normal(8, 8, seed=2)
    C = root @ root.T
    before = two_layer.common_direction(C, s, W)
    for c in (0.3, 1.0):
        after = two_layer.common_direction(C, s, two_layer.merge(W, s, c))
        assert torch.allclose(before, after, atol=1e-10)
    equal = two_layer.merge(W, s, 1.0)
    assert torch.allclose(equal[:, 0], equal[:, 2]) and torch.equal(two_layer.merge(W, s, 0.0), W)


@pytest.mark.parametrize("K", [1, 2, 6])
def test_top_of_diagonal_plus_rank_one(K):
    d, b, scale = normal(50, K).exp(), normal(50, K, seed=1), normal(50, seed=2).exp()
    top = two_layer.top_of_rank_one(d, b, scale)
    full = torch.diag_embed(d) + scale[:, None, None] * b[:, :, None] * b[:, None]
    values, vectors = torch.linalg.eigh(full)
    assert torch.allclose(top.value, values[:, -1]) and torch.allclose(
        (top.s * vectors[..., -1]).sum(-1).abs(), torch.ones(50, dtype=torch.float64)
    )
    assert torch.allclose(top.gaps, top.value[:, None] - d, atol=1e-9)
    assert torch.allclose(top.s * top.Z[:, None], b / (d - top.value[:, None]), rtol=1e-6)
    delta = two_layer.modulation(top, b, scale)
    rest = (top.s * b).sum(-1, keepdim=True) - top.s * b
    assert torch.allclose(delta * b, scale[:, None] * top.s * rest, atol=1e-10)


def test_small_gaps_keep_their_digits():
    d, b = normal(1, 2) * 0 + torch.tensor([1.0, 0.0]), torch.tensor([[1e-9, 0.5]]).double()
    gap = two_layer.top_of_rank_one(d, b, torch.ones(1, dtype=torch.float64)).gaps[0, 0].item()
    assert gap == pytest.approx(1e-18 / (1 - 0.25), rel=1e-9)


def test_batch_norm_and_what_its_gradient_passes():
    f, p = normal(8, 3).requires_grad_(), torch.full((8,), 1 / 8, dtype=torch.float64)
    z = two_layer.batch_norm(f, p)
    assert torch.allclose(z.mean(0), torch.zeros(3).double(), atol=1e-12)
    assert torch.allclose(z.var(0, unbiased=False), torch.ones(3).double())
    direction = normal(8, 3, seed=1)
    (slope,) = torch.autograd.grad((z * direction).sum(), f)
    sigma = f.detach().std(0, unbiased=False)
    assert torch.allclose(slope, (direction - direction.mean(0)) / sigma)
    (bare,) = torch.autograd.grad((two_layer.batch_norm(f, p, False) * direction).sum(), f)
    assert torch.allclose(bare, direction / sigma)
    (full,) = torch.autograd.grad((two_layer.batch_norm(f, p, True, True) * f.detach()).sum(), f)
    assert full.abs().max() < 1e-12  # the size of f does not matter


def test_normalised_flow_is_the_gradient_with_the_deviation_held():
    data, V = world(), normal(4, 4, seed=4)
    W = unit(2, 2, 3, seed=3).requires_grad_()
    z = two_layer.batch_norm(two_layer.hidden(data.x, W), data.p)
    energy = one_layer.covariance(data, z @ V.mT).diagonal().sum() / 2
    (slope,) = torch.autograd.grad(energy, W)
    flow = two_layer.normalised_flow(data, W.detach(), V)
    assert torch.allclose(flow.W, slope, atol=1e-12)
    larger = two_layer.normalised_flow(data._replace(x=5 * data.x), W.detach(), V)
    assert torch.allclose(larger.W, flow.W) and torch.allclose(larger.V, flow.V)


def test_latent_model_against_its_joint_law():
    model = field_latent.draw(random.key(3), 3, 2, 4, 2)
    joint = field_latent.joint(model)
    x = field_latent.features(joint.states, model.values)
    assert joint.p.sum().item() == pytest.approx(1) and x.shape == (48, 2, 2)
    flat = x.flatten(1)
    mean = joint.p @ flat
    expected = (flat - mean).T @ (joint.p[:, None] * (flat - mean))
    assert torch.allclose(field_latent.covariance(model, model.values), expected)
    on = joint.z == 1
    q = [joint.p[m] @ flat[m] / joint.p[m].sum() for m in (on, ~on)]
    found = field_latent.contrasts(model, model.values)[1].flatten()
    assert torch.allclose(found, q[0] - q[1])
    assert torch.allclose(field_latent.means(model, model.values)[1].flatten(), q[0])
    assert torch.allclose(joint.p[on].sum(), model.prior[1])


@pytest.mark.usefixtures("unchecked_shapes")
def test_errors():
    x, W, V = normal(5, 2, 3), normal(2, 2, 3), normal(3, 4)
    with pytest.raises(ValueError, match=r"h\(u\) = h'\(u\) u, one of linear.*got 'quadratic'"):
        two_layer.hidden(x, W, "quadratic")
    with pytest.raises(ValueError, match=r"K=2 fields of d=3 inputs, got \[3, 2, 3\]"):
        two_layer.gated(x, normal(3, 2, 3))
    with pytest.raises(ValueError, match="multiple of the K\\*M=4 filters in S, got 6"):
        two_layer.masked(V.T @ V, normal(6, 6))
    with pytest.raises(ValueError, match=r"sum_m s_km != 0 in every field"):
        two_layer.merge(W, torch.tensor([1.0, -1, 1, 1], dtype=torch.float64), 0.5)
    one = torch.ones(1, dtype=torch.float64)
    with pytest.raises(ValueError, match="b_k != 0 at the largest d_k"):
        two_layer.top_of_rank_one(torch.tensor([[2.0, 1]]), torch.tensor([[0.0, 1]]), one)
    with pytest.raises(ValueError, match="expected scale > 0"):
        two_layer.top_of_rank_one(torch.ones(1, 2), torch.ones(1, 2), -one)
    with pytest.raises(ValueError, match=r"one shape \[\*b, K\], got \[1, 2\], \[1, 3\]"):
        two_layer.top_of_rank_one(torch.ones(1, 2), torch.ones(1, 3), one)
    with pytest.raises(ValueError, match="got a constant one"):
        two_layer.batch_norm(torch.ones(4, 2), torch.full((4,), 0.25))
    with pytest.raises(ValueError, match="at least two values of the latent, got 1"):
        field_latent.draw(random.key(0), 1, 2, 3, 2)
    model = field_latent.draw(random.key(0), 2, 9, 5, 2)
    with pytest.raises(ValueError, match=r"at most 100000 joint states, got 2 \* 5\^9"):
        field_latent.joint(model)
    with pytest.raises(ValueError, match=r"\[K, S\] = \[9, 5\], got \[9, 4, 2\]"):
        field_latent.means(model, normal(9, 4, 2))
