"""Power iteration with a moving matrix against closed forms; what the certificate promises."""

import pytest
import torch

from clcore.theory.one_layer import power_iteration as pi

F = torch.float64


def diagonal(*values: float) -> torch.Tensor:
    return torch.diag(torch.tensor(values, dtype=F))


def vector(*values: float) -> torch.Tensor:
    v = torch.tensor(values, dtype=F)
    return v / v.norm()


def test_local_by_hand():
    at = pi.local(diagonal(1.0, 3.0, 2.0), vector(0.0, -0.8, 0.6))
    assert [float(x) for x in at] == pytest.approx([0.8, 3.0, 2.0, 1.0])
    assert float(at.gap) == pytest.approx(1.0)


def test_irregularity_by_hand():
    at = pi.local(diagonal(2.0, 1.0), vector(0.6, 0.8))
    mu = 0.5 * 1.6 / 0.36 / 4
    grown = 1 + 0.6 * mu
    nu = 2 * 5.0 * 0.09 * grown + 2 * 0.3 * (mu * grown) ** 0.5
    assert float(pi.mu(at)) == pytest.approx(mu)
    assert float(pi.nu(at, 0.3, 5.0)) == pytest.approx(nu)
    assert float(pi.omega(at, 0.3, 5.0)) == pytest.approx(mu + nu)
    assert float(pi.kappa(torch.tensor(0.5, dtype=F))) == 32


def test_step_residual_and_shift():
    A, w = diagonal(3.0, -1.0), vector(0.6, 0.8)
    assert pi.step(A, w).tolist() == pytest.approx(vector(1.8, -0.8).tolist())
    assert float(pi.residual(A, w)) == pytest.approx(4 * 0.48)
    hat = pi.shifted(A, 0.25)
    assert torch.allclose(hat, diagonal(4.25, 0.25))
    assert float(pi.residual(hat, w)) == pytest.approx(4 * 0.48)


def test_ball_is_a_chord():
    c0, gamma = torch.tensor([0.9, 0.99], dtype=F), 0.3
    radius = (2 * (1 + gamma) * (1 - c0)).sqrt() / (1 - gamma**0.5)
    assert torch.allclose(pi.ball(c0, gamma), 1 - radius**2 / 2)
    assert float(pi.ball(c0, 0.0)[0]) == pytest.approx(0.9)
    with pytest.raises(ValueError, match="gamma: expected 0 <= gamma < 1"):
        pi.ball(c0, 1.0)
    with pytest.raises(ValueError, match="A: expected at least two dimensions, got 1"):
        pi.local(torch.ones(1, 1), torch.ones(1))


def test_affine_family_and_its_constant():
    base, B = diagonal(2.0, 1.0), torch.tensor([[[0.0, 3.0], [3.0, 0.0]]], dtype=F)
    a = torch.tensor([[0.0, 2.0]], dtype=F)
    family = pi.affine(base, a, B)
    w = vector(0.6, 0.8)
    assert torch.allclose(family(w), base + 1.6 * B[0])
    assert float(pi.affine_lipschitz(a, B)) == pytest.approx(6.0)
    change = torch.linalg.matrix_norm(family(vector(0.0, 1.0)) - family(vector(0.0, -1.0)), 2)
    assert float(change) == pytest.approx(6.0 * 2)  # attained


def test_affine_families_by_loops_and_the_constant_of_terms_that_are_alike():
    torch.manual_seed(1)
    runs, terms, d = 4, 3, 5
    base, w = torch.randn(runs, d, d, dtype=F), torch.randn(runs, d, dtype=F)
    a, B = torch.randn(runs, terms, d, dtype=F), torch.randn(runs, terms, d, d, dtype=F)
    found = pi.affine(base, a, B)(w)
    times = torch.tensor([1.0, 2.0, 0.5], dtype=F)
    alike = a[:, :1].expand(runs, terms, d), B[:, :1] * times[:, None, None]
    constant = pi.affine_lipschitz(*alike)
    for r in range(runs):
        moved = base[r] + sum((a[r, k] @ w[r]) * B[r, k] for k in range(terms))
        assert torch.allclose(found[r], moved, atol=1e-12)
        one = a[r, 0].norm() * torch.linalg.matrix_norm(B[r, 0], 2)
        assert float(constant[r]) == pytest.approx(3.5 * float(one))


def test_certificate_bounds_omega_on_samples():
    """gamma is at least omega at many points of B_gamma, and falls with L."""
    torch.manual_seed(0)
    d, n = 4, 2000
    base = diagonal(1.0, 0.3, 0.2, 0.1)
    B = torch.randn(1, d, d, dtype=F)
    B = B + B.mT
    B = 0.01 * B / torch.linalg.matrix_norm(B, 2)[:, None, None]
    a = vector(0.0, 1.0, 1.0, 0.0)[None]
    family, L = pi.affine(base, a, B), pi.affine_lipschitz(a, B)
    w0 = vector(1.0, 0.02, 0.02, 0.0)
    at = pi.local(family(w0), w0)
    gamma = float(pi.certificate(at, L))
    assert 0.09 < gamma < 0.5
    assert float(pi.certificate(at, 0.0)) < gamma
    assert torch.isnan(pi.certificate(at, 1.0))
    edge = float(pi.ball(at.c, gamma))
    inner = edge + (1 - edge) * torch.rand(n, dtype=F)
    side = torch.randn(n, d, dtype=F)
    side = side - (side @ w0)[:, None] * w0
    side = side / side.norm(dim=-1, keepdim=True)
    w = inner[:, None] * w0 + (1 - inner**2).sqrt()[:, None] * side
    here = pi.local(family(w), w)
    sampled = pi.omega(here, L, pi.kappa(here.gap.min()))
    assert float(sampled.max()) <= gamma
    assert float(sampled.max()) > gamma / 4  # and not absurdly loose
