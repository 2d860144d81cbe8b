"""A(w), its flow and its top eigenvectors against loops, autograd and closed forms."""

import pytest
import torch

from clcore.losses import contrast
from clcore.nets import networks
from clcore.theory.one_layer import one_layer

pytestmark = pytest.mark.usefixtures("one_thread")
KINDS = list(networks.ACTIVATIONS)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def unit(*shape: int, seed: int = 0) -> torch.Tensor:
    w = normal(*shape, seed=seed)
    return w / w.norm(dim=-1, keepdim=True)


def basis(d: int, seed: int = 0) -> torch.Tensor:
    return torch.linalg.qr(normal(d, d, seed=seed)).Q


def random_world(n: int = 7, d: int = 3, seed: int = 0) -> one_layer.World:
    return one_layer.World(
        normal(n, d, seed=seed), normal(n, seed=seed + 1).exp(), normal(n, n, seed=seed + 2).exp()
    )


def loop(world: one_layer.World, g: torch.Tensor) -> torch.Tensor:
    """C_alpha[g] by the double sum."""
    total = torch.zeros(g.shape[-1], g.shape[-1], dtype=torch.float64)
    for a in range(len(g)):
        for b in range(len(g)):
            weight = 1.0 if world.alpha is None else world.alpha[a, b]
            gap = g[a] - g[b]
            total += weight * world.p[a] * world.p[b] * torch.outer(gap, gap) / 2
    return total


def test_derivatives_are_those_of_the_activations():
    u = torch.tensor([-1.5, -0.2, 0.3, 2.0], dtype=torch.float64, requires_grad=True)
    for kind in KINDS:
        h = networks.activate(u, kind, 0.3)
        (slope,) = torch.autograd.grad(h.sum(), u)
        rate = one_layer.derivative(u.detach(), kind, 0.3)
        assert torch.allclose(rate, slope, rtol=1e-14, atol=0)
        assert torch.allclose(rate * u.detach(), one_layer.DEGREES[kind] * h.detach(), rtol=1e-14)
    zero = torch.zeros(1, dtype=torch.float64)
    assert one_layer.derivative(zero, "relu").item() == 0
    assert one_layer.derivative(zero, "leaky_relu", 0.3).item() == 0.3


@pytest.mark.parametrize("weighted", [False, True])
def test_covariance_equals_the_double_sum(weighted):
    world = random_world()
    world = world if weighted else world._replace(alpha=None)
    g = normal(7, 4, seed=9)
    assert torch.allclose(one_layer.covariance(world, g), loop(world, g), rtol=1e-12, atol=1e-14)
    assert torch.allclose(one_layer.covariance(world, g + 1e5), loop(world, g), rtol=1e-8)


def test_views_equal_the_contrastive_covariance():
    x, x2 = normal(6, 3), normal(6, 3, seed=1)
    alpha = normal(6, 6, seed=2).exp()
    ours = one_layer.covariance(one_layer.of_views(alpha, x, x2), torch.cat([x, x2]))
    column = one_layer.of_views(alpha, x[:, :1], x2[:, :1])
    first = one_layer.covariance(column, torch.cat([x, x2])[:, :1])
    assert torch.allclose(first, ours[:1, :1], rtol=1e-12, atol=1e-14)
    theirs = contrast.contrastive_covariance(alpha, x, x2, x, x2) / (2 * 6**2)
    gaps = x - x2
    diagonal = gaps.T @ (alpha.diagonal()[:, None] * gaps) / (2 * 6**2)
    assert torch.allclose(ours, theirs - diagonal, rtol=1e-12, atol=1e-14)
    same = one_layer.covariance(one_layer.samples(x, alpha), x)
    without = contrast.contrastive_covariance(alpha, x, x, x, x) / (2 * 6**2)
    assert torch.allclose(same, without, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_energy_operator_and_flow(kind):
    world, w = random_world(), unit(5, 3, seed=4)
    A = one_layer.operator(world, w, kind, 0.3)
    image = (A @ w[..., None])[..., 0]
    degree = one_layer.DEGREES[kind]
    energy = one_layer.energy(world, w, kind, 0.3)
    assert torch.allclose((w * image).sum(-1) / 2, degree**2 * energy, rtol=1e-12)
    for one, matrix in zip(w, A, strict=True):
        gated = world.x * one_layer.derivative(world.x @ one, kind, 0.3)[:, None]
        assert torch.allclose(matrix, loop(world, gated), rtol=1e-11, atol=1e-13)
    free = w.clone().requires_grad_()
    (slope,) = torch.autograd.grad(one_layer.energy(world, free, kind, 0.3).sum(), free)
    along = slope - (w * slope).sum(-1, keepdim=True) * w
    flow = one_layer.flow(world, w, kind, 0.3)
    assert torch.allclose(flow, degree * along, rtol=1e-11, atol=1e-13)
    plain = world._replace(alpha=None)
    ones = world._replace(alpha=torch.ones(7, 7, dtype=torch.float64))
    uniform = one_layer.flow(plain, w, kind, 0.3)
    assert torch.allclose(uniform, one_layer.flow(ones, w, kind, 0.3), rtol=1e-11, atol=1e-13)


def test_spectrum_falls_and_the_gap_is_its_head():
    A = normal(4, 5, 5)
    A = A + A.mT
    values, vectors = one_layer.spectrum(A)
    assert (values.diff(dim=-1) <= 0).all()
    assert torch.allclose(A @ vectors, vectors * values[..., None, :], atol=1e-12)
    assert torch.allclose(one_layer.gap(A), values[:, 0] - values[:, 1])


def test_linear_ascent_finds_the_first_principal_component():
    world = one_layer.samples(normal(40, 4) * torch.tensor([3.0, 1, 1, 1]))
    w = one_layer.ascend(world, unit(10, 4, seed=3), "linear", 1.0, 500)
    top = one_layer.top_eigenvector(world, w, "linear")
    assert torch.allclose(w, top, atol=1e-8)
    assert one_layer.locally_maximal(world, w, "linear", residual=1e-7).all()
    assert not one_layer.locally_maximal(world, unit(10, 4, seed=3), "linear").any()


def test_categorical_model():
    p = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    for patterns in (torch.eye(4, dtype=torch.float64), basis(4), basis(6)[:, :4]):
        world = one_layer.categorical(p, patterns)
        A = one_layer.operator(world, patterns.T)
        assert torch.allclose(A, one_layer.categorical_operator(p, patterns), atol=1e-15)
        assert one_layer.locally_maximal(world, patterns.T).all()
        found = one_layer.search(world, unit(60, len(patterns), seed=1))
        assert 40 <= found.count.sum() <= 60 and len(found.w) == 4
        assert torch.allclose((found.w @ patterns).amax(0), torch.ones(4, dtype=torch.float64))


def test_patterns_on_the_hyperplane_are_inactive_up_to_rounding():
    U = basis(4)
    active = one_layer.gated(U.T, U.T).norm(dim=-1)
    assert torch.equal(active > 0, torch.eye(4, dtype=torch.bool))
    near = U.T[0] + 1e-9 * U.T[1]
    assert one_layer.gated(U.T, near).norm(dim=-1)[:2].min() > 0.5


def test_weights_that_have_overflowed_have_no_drive():
    """None of 0 either, as if every point lay on their hyperplane."""
    x = normal(5, 3)
    w = torch.tensor([torch.inf, 1.0, 1.0], dtype=torch.float64)
    assert one_layer.drive(x, w).isnan().all() and not one_layer.drive(x, 0 * x[0]).any()


def test_summation_model_and_its_threshold():
    q = torch.tensor([0.1, 0.3, 0.381, 0.383, 0.6], dtype=torch.float64)
    U = basis(5, seed=2)
    world = one_layer.summation(q, U)
    mean = (world.p[:, None] * world.x).sum(0)
    assert world.p.sum().item() == pytest.approx(1) and mean.abs().max() < 1e-14
    identity = torch.eye(5, dtype=torch.float64)
    assert torch.allclose(one_layer.covariance(world, world.x), identity, atol=1e-13)
    A = one_layer.operator(world, U.T)
    assert torch.allclose(A, one_layer.summation_operator(q, U), atol=1e-13)
    expected = q < one_layer.SUMMATION_THRESHOLD
    assert one_layer.locally_maximal(world, U.T).tolist() == expected.tolist()
    few = one_layer.summation(q[:3], U[:, :3])
    A = one_layer.operator(few, U.T[:3])
    assert torch.allclose(A, one_layer.summation_operator(q[:3], U[:, :3]), atol=1e-13)


def test_a_repeated_top_eigenvalue_is_no_lme():
    world = one_layer.samples(torch.eye(3, dtype=torch.float64))
    w = torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64) / 2**0.5
    m = one_layer.maximality(world, w, "linear")
    assert m.residual < 1e-15 and m.below.abs() < 1e-15 and m.gap < 1e-15
    assert not one_layer.locally_maximal(world, w, "linear")
    ones = torch.ones(3, dtype=torch.float64) / 3**0.5  # an eigenvector of the least eigenvalue
    assert not one_layer.locally_maximal(world, ones, "linear")
    none = one_layer.search(world, unit(5, 3), "linear")
    assert none.w.shape == (0, 3) and none.count.tolist() == []


def test_distinct_counts():
    w = unit(3, 4)
    found = one_layer.distinct(w[[0, 1, 0, 2, 1, 0]])
    assert torch.equal(found.w, w) and found.count.tolist() == [3, 2, 1]
    assert one_layer.distinct(w[:0]).count.shape == (0,)
    assert one_layer.distinct(w[[0, 1, 0]], 0.0).count.tolist() == [2, 1]  # equal ones are one


@pytest.mark.usefixtures("unchecked_shapes")
def test_errors():
    x, w = normal(5, 3), unit(3)
    with pytest.raises(ValueError, match="expected one of linear, relu, leaky_relu, quadratic"):
        one_layer.gated(x, w, "tanh")
    with pytest.raises(ValueError, match=r"expected weights of shape \[\*b, d\] with d=3"):
        one_layer.gated(x, unit(4))
    with pytest.raises(ValueError, match="with n=5 points"):
        one_layer.covariance(one_layer.samples(x), normal(4, 3))
    with pytest.raises(ValueError, match="expected d >= 2 eigenvalues"):
        one_layer.gap(normal(1, 1))
    with pytest.raises(ValueError, match="with M=2 columns"):
        one_layer.categorical(torch.full((2,), 0.5), torch.eye(3))
    with pytest.raises(ValueError, match="0 < q_m < 1"):
        one_layer.summation(torch.tensor([0.5, 1.0]), torch.eye(2))
    with pytest.raises(ValueError, match="1 <= M <= 16"):
        one_layer.signs(17)
