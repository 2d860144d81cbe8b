"""The min player against scipy, its optimality conditions, and the variants of acl Sec. 6.1."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize

from clcore import losses
from clcore.losses import contrast, minplayer

seeds = st.integers(0, 2**32 - 1)
SOLVERS = {
    "entropy": minplayer.entropy_weights,
    "inverse": minplayer.inverse_weights,
    "square": minplayer.square_weights,
}


def off(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[-1]
    return x[..., ~torch.eye(n, dtype=torch.bool)].reshape(*x.shape[:-1], n - 1)


def solve(name: str, c: torch.Tensor, tau: float, gamma: float, mass: float) -> torch.Tensor:
    more = {"gamma": gamma} if name == "inverse" else {}
    return SOLVERS[name](c, tau, mass=mass, **more)


def costs_of(n: int, seed: int, kind: str = "generic") -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    c = torch.randn(3, n, n, dtype=torch.float64, generator=generator)
    if kind == "ties":
        c = c.round()
    if kind == "equal":
        c = torch.full_like(c, 7.0)
    if kind == "extreme":
        c = c.sign() * 10 ** (
            12 * torch.rand(c.shape, dtype=torch.float64, generator=generator) - 6
        )
    return c


def views(*shape: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z, z2 = torch.randn(2, *shape, dtype=torch.float64, generator=generator)
    return z, z + 0.5 * z2


def regulariser(name: str, a: np.ndarray, tau: float, gamma: float) -> np.ndarray:
    if name == "entropy":
        return -2 * tau * a * np.log(a)
    if name == "inverse":
        return 2 * tau / (1 - gamma) * a ** (1 - gamma)
    return -tau / 2 * a**2


def generic(name: str, c: np.ndarray, tau: float, gamma: float, mass: float) -> np.ndarray:
    """A row by scipy's SLSQP with numerical gradients."""
    start = np.full(len(c), mass / len(c))
    return minimize(
        lambda a: float(c @ a - regulariser(name, a, tau, gamma).sum()),
        start,
        bounds=[(1e-9, None)] * len(c),
        constraints={"type": "eq", "fun": lambda a: a.sum() - mass},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    ).x


@pytest.mark.parametrize("kind", ["generic", "ties", "equal"])
@pytest.mark.parametrize("name", list(SOLVERS))
@pytest.mark.parametrize(
    ("tau", "gamma", "mass"), [(0.5, 2.0, 1.0), (2.0, 1.5, 0.3), (1.0, 3.0, 4.0)]
)
def test_solvers_against_scipy(name, kind, tau, gamma, mass):
    c = costs_of(5, 0, kind)
    ours = off(solve(name, c, tau, gamma, mass))
    for row in range(3):
        expected = generic(name, off(c)[0, row].numpy(), tau, gamma, mass)
        assert ours[0, row].numpy() == pytest.approx(expected, abs=2e-4 * mass)


def test_inverse_against_a_scalar_root():
    """The multiplier by Brent's method, row by row."""
    for seed, gamma in enumerate((1.05, 1.5, 2.0, 4.0)):
        c, tau = costs_of(6, seed), 0.3
        ours = off(minplayer.inverse_weights(c, tau, gamma))
        for row, cost in zip(ours[0], off(c)[0].numpy(), strict=True):
            least = cost.min()

            def excess(mu, cost=cost, gamma=gamma, tau=tau):
                return ((2 * tau / (cost + mu)) ** (1 / gamma)).sum() - 1

            mu = brentq(excess, -least + 1e-12, -least + 1e6, xtol=1e-14, rtol=1e-14)
            expected = (2 * tau / (cost + mu)) ** (1 / gamma)
            assert row.numpy() == pytest.approx(expected, rel=1e-8)


def test_the_cost_of_a_pair_by_a_loop():
    z, z2 = views(4, 3)
    half = lambda a, b: float((a - b).square().sum()) / 2  # noqa: E731
    expected = [[2 * (half(a, b) - half(a, p)) for b in z] for a, p in zip(z, z2, strict=True)]
    found = off(minplayer.cost(z, z2))
    assert torch.allclose(found, off(torch.tensor(expected, dtype=torch.float64)), rtol=1e-12)


def test_square_of_a_known_row():
    c = torch.tensor([[0.0, 1.0, 2.0, 9.0]]).expand(4, 4).double()
    # Row 3: costs 0, 1, 2 at tau = 2 project (0, -1/2, -1) on the simplex: (3/4, 1/4, 0).
    assert off(minplayer.square_weights(c, 2.0))[3].tolist() == [0.75, 0.25, 0.0]


@settings(max_examples=60, deadline=None)
@given(
    seed=seeds,
    n=st.integers(2, 9),
    kind=st.sampled_from(["generic", "ties", "equal", "extreme"]),
    log_tau=st.floats(-6, 6, allow_subnormal=False),
    gamma=st.floats(1.01, 6),
    mass=st.floats(1e-3, 1e3),
    name=st.sampled_from(list(SOLVERS)),
)
def test_optimality_conditions(seed, n, kind, log_tau, gamma, mass, name):
    """Feasible, and r'(alpha_ij) - c_ij is one constant in a row, but for pairs at 0."""
    c, tau = costs_of(n, seed, kind), 10.0**log_tau
    alpha = solve(name, c, tau, gamma, mass)
    assert (alpha.diagonal(dim1=-2, dim2=-1) == 0).all()
    a, c = off(alpha), off(c)
    assert a.isfinite().all() and (a >= 0).all()
    assert a.sum(-1).numpy() == pytest.approx(mass, rel=1e-12)
    best = a.gather(-1, c.argmin(-1, keepdim=True))
    least = c.amin(-1, keepdim=True)
    # What alpha must be from the row's dearest weight alone, in the form that loses no digits.
    if name == "entropy":
        expected = best * torch.exp(-(c - least) / (2 * tau))
    elif name == "inverse":
        expected = best * (1 + (c - least) * best**gamma / (2 * tau)) ** (-1 / gamma)
    else:
        expected = torch.relu(best - (c - least) / tau)
    assert torch.allclose(a, expected, rtol=1e-8, atol=1e-10 * mass)


def test_extreme_weights_keep_their_size():
    """Weights of 1e-300 and ties at vanishing tau."""
    c = torch.zeros(4, 4, dtype=torch.float64)
    c[:, 3] = 2 * 300 * math.log(10)
    alpha = minplayer.entropy_weights(c, 1.0)
    assert alpha[0, 3].item() == pytest.approx(0.5e-300, rel=1e-10)
    assert alpha[0, 1].item() == pytest.approx(0.5, rel=1e-12)
    far = minplayer.inverse_weights(c * 1e200, 1.0, 2.0)
    assert far[0, 1].item() == pytest.approx(0.5, rel=1e-12)
    assert 0 < far[0, 3].item() < 1e-99
    for solver in SOLVERS.values():
        for tau in (1e-300, 1e-30):
            assert off(solver(c, tau))[0].tolist() == pytest.approx([0.5, 0.5, 0.0], abs=1e-12)
        assert off(solver(c, 1e30))[0].tolist() == pytest.approx([1 / 3] * 3, abs=1e-12)


def test_one_mass_a_row():
    c, mass = costs_of(5, 1), torch.rand(3, 5, dtype=torch.float64) + 0.1
    for solver in SOLVERS.values():
        alpha = solver(c, 0.7, mass=mass)
        assert torch.allclose(alpha.sum(-1), mass, rtol=1e-12)
        row = solver(c[1], 0.7, mass=mass[1, 2].item())[2]
        assert torch.allclose(alpha[1, 2], row, rtol=1e-12)


@pytest.mark.parametrize("eps", [0.0, 0.3, 1.0])
def test_theorem_2(eps):
    z, z2 = views(6, 3)
    pair = losses.infonce_pair(0.4, eps)
    alpha = contrast.pairwise_importance(z, z2, pair)
    mass = contrast.row_mass(alpha)
    player = minplayer.entropy_weights(minplayer.cost(z, z2), 0.4, mass)
    assert torch.allclose(player, alpha, rtol=1e-12)


def test_direct_weights():
    z, z2 = views(6, 3)
    inter = contrast.inter_distances(z)
    eq6 = contrast.pairwise_importance(z, z2, losses.infonce_pair(0.5, 0.0))
    assert torch.allclose(minplayer.direct_weights(inter, 1.0, 0.5), eq6, rtol=1e-12)
    raw = torch.exp(-(inter**2) / 0.5) * (1 - torch.eye(6, dtype=torch.float64))
    expected = raw / raw.sum(-1, keepdim=True)
    assert torch.allclose(minplayer.direct_weights(inter, 2.0, 0.5), expected, rtol=1e-12)


def test_gradients_of_the_solvers():
    c = costs_of(4, 2)[0].requires_grad_()
    mass = torch.tensor([0.5, 1.0, 1.5, 2.0], dtype=torch.float64, requires_grad=True)
    for name, solver in SOLVERS.items():
        tau = 2.0 if name == "square" else 0.5
        # The gradient is not smooth where the support changes; keep the square away from there.
        assert torch.autograd.gradcheck(lambda x, m, s=solver, t=tau: s(x, t, mass=m), (c, mass))


def test_slopes_at_large_masses():
    """They weigh a shift of a row's costs by its mass, and a row's least cost is such a shift."""
    c, v = costs_of(5, 3)[0], costs_of(5, 4)[0]

    def value(c):
        return (minplayer.inverse_weights(c, 0.5, 2.0, mass=1e6) * v).sum()

    ours, h = (torch.func.grad(value)(c) * v).sum(), 1e-6
    assert ours.item() == pytest.approx(
        ((value(c + h * v) - value(c - h * v)) / (2 * h)).item(), 1e-4
    )


def test_nan_stays_nan():
    """A run that diverges beside others must not bring them down."""
    c = costs_of(5, 3)
    c[1] = torch.nan
    for solver in SOLVERS.values():
        found = solver(c, 1.0)
        off = ~torch.eye(5, dtype=torch.bool)
        assert found[1][off].isnan().all()
        assert torch.equal(found[[0, 2]], solver(c[[0, 2]], 1.0))


def test_vmap_equals_loop():
    c = costs_of(5, 3)
    tau = torch.tensor([0.1, 0.5, 2.0], dtype=torch.float64)
    for solver in SOLVERS.values():
        single = torch.stack([solver(c[r], tau[r].item()) for r in range(3)])
        assert torch.allclose(torch.func.vmap(solver)(c, tau), single, rtol=1e-12)
    z, z2 = views(3, 5, 2)
    for variant in minplayer.VARIANTS:
        mapped = torch.func.vmap(lambda a, b, t, v=variant: minplayer.variant_loss(a, b, v, tau=t))(
            z, z2, tau
        )
        single = [minplayer.variant_loss(z[r], z2[r], variant, tau=tau[r].item()) for r in range(3)]
        assert torch.allclose(mapped, torch.stack(single), rtol=1e-12)


# ------------------------------------------------------------------------------------- variants


def slope(variant: str, z: torch.Tensor, z2: torch.Tensor, **more: float) -> torch.Tensor:
    def total(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return minplayer.variant_loss(a, b, variant, **more).sum()

    return torch.cat(torch.func.grad(total, argnums=(0, 1))(z, z2), -1)


@pytest.mark.parametrize("tau", [0.1, 0.5, 2.0])
def test_entropy_is_nce_and_backprop_is_not(tau):
    z, z2 = views(4, 8, 3)
    nce = slope("nce", z, z2, tau=tau, eps=0.0)
    assert (slope("entropy", z, z2, tau=tau) - nce).abs().max() < 1e-12
    assert (slope("backprop-alpha", z, z2, tau=tau) - nce).abs().max() > 1e-2
    assert (slope("nce", z, z2, tau=tau, eps=1.0) - nce).abs().max() > 1e-3


def test_nce_is_the_mean_over_samples():
    z, z2 = views(8, 3)
    value = minplayer.variant_loss(z, z2, "nce", eps=1.0)
    assert value.item() == pytest.approx(contrast.infonce(z, z2, 0.5, 1.0).item() / 8, rel=1e-12)


def test_each_variant_ascends_its_own_energy():
    """-E/(2n) with alpha fixed: minus sum_j alpha_ij (d_ij - d_i), mean over i, by loops."""
    z, z2 = views(6, 3)
    for variant in ("entropy", "inverse", "square", "direct"):
        alpha = minplayer.variant_importance(z, z2, variant)
        assert torch.allclose(contrast.row_mass(alpha), torch.ones(6, dtype=torch.float64))
        total = 0.0
        for i in range(6):
            for j in range(6):
                if i != j:
                    gap = ((z[i] - z[j]) ** 2).sum() / 2 - ((z[i] - z2[i]) ** 2).sum() / 2
                    total -= alpha[i, j] * gap / 6
        assert torch.allclose(minplayer.variant_loss(z, z2, variant), total, rtol=1e-12)
        # eq. 88 of acl: dE/dz2[i] = 2 beta_i (z[i] - z2[i]), here times -1/(2n)
        assert torch.allclose(slope(variant, z, z2)[:, 3:], (z2 - z) / 6, rtol=1e-10)


def test_backprop_through_alpha_and_the_regulariser_is_nce_again():
    """Why the baseline leaves the regulariser out: the value of the inner minimum is -2 L_nce."""
    z, z2 = views(6, 3)
    alpha = minplayer.variant_importance(z, z2, "entropy")
    entropy = -2 * 0.5 * torch.special.xlogy(alpha, alpha).sum()
    value = contrast.energy(alpha, z, z2) - entropy
    assert value.item() == pytest.approx(-2 * contrast.infonce(z, z2, 0.5, 0.0).item(), rel=1e-12)


def test_settings_of_the_paper():
    assert {k: dict(v) for k, v in minplayer.VARIANTS.items()} == {
        "nce": {"tau": 0.5, "eps": 1.0},
        "backprop-alpha": {"tau": 0.5},
        "entropy": {"tau": 0.5},
        "inverse": {"tau": 0.5, "gamma": 2.0},
        "square": {"tau": 5.0},
        "direct": {"tau": 0.5, "p": 2.0},
    }
    z, z2 = views(6, 3)
    by_hand = {
        "inverse": minplayer.inverse_weights(minplayer.cost(z, z2), 0.5, 2.0),
        "square": minplayer.square_weights(minplayer.cost(z, z2), 5.0),
        "direct": minplayer.direct_weights(contrast.inter_distances(z), 2.0, 0.5),
        "entropy": minplayer.entropy_weights(minplayer.cost(z, z2), 0.5),
    }
    for variant, alpha in by_hand.items():
        assert torch.equal(minplayer.variant_importance(z, z2, variant), alpha)
    values = [minplayer.variant_loss(z, z2, v).item() for v in ("entropy", "inverse", "direct")]
    assert len({round(v, 6) for v in values}) == 3


def test_errors(unchecked_shapes):
    c, (z, z2) = costs_of(4, 0), views(4, 2)
    with pytest.raises(ValueError, match=r"expected tau > 0, got tau=0; a temperature is positive"):
        minplayer.square_weights(c, 0)
    with pytest.raises(
        ValueError, match=r"expected gamma > 1, got gamma=1.0; gamma = 1 is the ent"
    ):
        minplayer.inverse_weights(c, 0.5, 1.0)
    with pytest.raises(ValueError, match=r"expected mass > 0, got mass=0.0; a row needs"):
        minplayer.entropy_weights(c, 0.5, 0.0)
    with pytest.raises(ValueError, match=r"expected p >= 1, got p=0.5; the paper takes p > 1"):
        minplayer.direct_weights(c, 0.5)
    with pytest.raises(ValueError, match=r"costs of shape \[\*b, n, n\] .*got \[3, 4, 3\]; row i"):
        minplayer.entropy_weights(c[..., :3])
    with pytest.raises(ValueError, match=r"n >= 2, got \[1, 1\]"):
        minplayer.square_weights(c[0, :1, :1])
    with pytest.raises(ValueError, match=r"one mass per row, shape \[\*b, 4\], got \[3\]"):
        minplayer.entropy_weights(c, 0.5, torch.ones(3))
    with pytest.raises(ValueError, match=r"a variant in \['nce', .*got 'simclr'"):
        minplayer.variant_loss(z, z2, "simclr")
    with pytest.raises(ValueError, match=r"settings of 'square' in \['tau'\], got 'gamma'"):
        minplayer.variant_loss(z, z2, "square", gamma=2.0)
    with pytest.raises(ValueError, match=r"sets alpha by itself, got 'nce'; its importance is"):
        minplayer.variant_importance(z, z2, "nce")
    with pytest.raises(ValueError, match=r"expected eps >= 0, got eps=-1"):
        minplayer.variant_loss(z, z2, "nce", eps=-1)
    with pytest.raises(ValueError, match=r"two views of one shape"):
        minplayer.variant_loss(z, z2[:2], "entropy")
