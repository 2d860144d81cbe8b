"""Distances, the loss family, importance, covariance and energy against plain Python loops."""

import math

import numpy as np
import pytest
import torch
from beartype import beartype
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError, jaxtyped

from clcore import losses
from clcore import reference as ref
from clcore.losses import contrast, sources

TABLE = losses.table1(tau=0.7, eps=0.4, margin=0.6, c=1.5)
IDS = [pair.name for pair in TABLE]
SMOOTH = [pair for pair in TABLE if pair.name not in ("Triplet", "Lifted Structured")]
seeds = st.integers(0, 2**32 - 1)


def views(*shape: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z, z2 = torch.randn(2, *shape, dtype=torch.float64, generator=generator)
    return z, z + 0.5 * z2


def half(a: list[float], b: list[float]) -> float:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / 2


def scalar(f, x: float) -> float:
    return f(torch.tensor(x, dtype=torch.float64)).item()


def loop_loss(z: list, z2: list, pair: losses.Pair) -> float:
    total = 0.0
    for i in range(len(z)):
        xi = 0.0
        for j in range(len(z)):
            if j != i:
                xi += scalar(pair.psi, half(z[i], z2[i]) - half(z[i], z[j]))
        total += scalar(pair.phi, xi)
    return total


def loop_importance(z: list, z2: list, pair: losses.Pair) -> list[list[float]]:
    n = len(z)
    gaps = [[half(z[i], z2[i]) - half(z[i], z[j]) for j in range(n)] for i in range(n)]
    rows = []
    for i in range(n):
        xi = sum(scalar(pair.psi, gaps[i][j]) for j in range(n) if j != i)
        rows.append(
            [
                0.0 if j == i else scalar(pair.dphi, xi) * scalar(pair.dpsi, gaps[i][j])
                for j in range(n)
            ]
        )
    return rows


def test_distances_are_squared_and_halved():
    z = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
    assert contrast.inter_distances(z).tolist() == [[0.0, 12.5], [12.5, 0.0]]
    assert contrast.intra_distances(z, z + 1).tolist() == [1.0, 1.0]


def test_distances_far_from_the_origin_and_between_equal_points():
    z, _ = views(6, 3)
    moved = contrast.inter_distances(z + 1e6)
    assert torch.allclose(moved, contrast.inter_distances(z), atol=1e-8)
    assert contrast.inter_distances(torch.ones(4, 3)).abs().max() == 0
    assert (contrast.inter_distances(z[[0, 0, 1, 1]] * 1e3) >= 0).all()


@pytest.mark.parametrize("pair", TABLE, ids=IDS)
@pytest.mark.parametrize("n", [2, 5])
def test_loss_and_importance_equal_loops(pair, n):
    z, z2 = views(n, 3)
    expected = loop_loss(z.tolist(), z2.tolist(), pair)
    assert contrast.family_loss(z, z2, pair).item() == pytest.approx(expected, rel=1e-12)
    alpha = torch.tensor(loop_importance(z.tolist(), z2.tolist(), pair), dtype=torch.float64)
    ours = contrast.pairwise_importance(z, z2, pair)
    assert torch.allclose(ours, alpha, rtol=1e-12, atol=1e-14)
    by_grad, beta = contrast.importance_by_autograd(
        contrast.inter_distances(z), contrast.intra_distances(z, z2), pair
    )
    assert torch.allclose(by_grad, alpha, rtol=1e-12, atol=1e-14)
    assert torch.allclose(contrast.row_mass(ours), beta, rtol=1e-12, atol=1e-14)


def test_pairs_outside_the_table():
    """phi' that varies without a log domain, and slopes a != b: the table has neither."""
    curved = losses.Pair(
        "curved",
        torch.square,
        torch.sigmoid,
        lambda x: 2 * x,
        lambda x: x.sigmoid() * (-x).sigmoid(),
    )
    z, z2 = views(4, 3)
    for a, b in ((2.0, 3.0), (0.5, 3.0)):
        constant = a * b * (1 - torch.eye(4, dtype=torch.float64))
        alpha = contrast.pairwise_importance(z, z2, losses.linear_pair(a, b))
        assert torch.allclose(alpha, constant, rtol=1e-14)
    for pair in (curved, losses.linear_pair(2.0, 3.0)):
        expected = loop_loss(z.tolist(), z2.tolist(), pair)
        assert contrast.family_loss(z, z2, pair).item() == pytest.approx(expected, rel=1e-12)
        inter, intra = contrast.inter_distances(z), contrast.intra_distances(z, z2)
        alpha = contrast.importance_of_distances(inter, intra, pair)
        by_grad, _ = contrast.importance_by_autograd(inter, intra, pair)
        assert torch.allclose(alpha, by_grad, rtol=1e-12)
    x = torch.tensor([0.3, 2.0])
    linear = losses.linear_pair(2.0, 3.0)
    assert linear.phi(x).tolist() == (2 * x).tolist() and linear.psi(x).tolist() == (3 * x).tolist()
    assert linear.dphi(x).tolist() == [2, 2] and linear.dpsi(x).tolist() == [3, 3]


def test_row_mass_leaves_the_diagonal_out():
    alpha = torch.tensor([[5.0, 1.0, 2.0], [3.0, 5.0, 4.0], [6.0, 7.0, 5.0]])
    assert contrast.row_mass(alpha).tolist() == [3, 7, 13]


@pytest.mark.parametrize("pair", TABLE, ids=IDS)
def test_derivatives_of_a_pair(pair):
    x = torch.linspace(-2.1, 2, 83, dtype=torch.float64)
    for f, df, at in ((pair.phi, pair.dphi, x.exp()), (pair.psi, pair.dpsi, x)):
        slope = torch.func.grad(lambda t, f=f: f(t).sum())(at)
        assert torch.allclose(df(at), slope, rtol=1e-12)
    if pair.log is not None:
        log_psi = x / pair.log.tau + pair.log.shift
        assert torch.allclose(pair.psi(x), log_psi.exp(), rtol=1e-12)
        assert torch.allclose(pair.log.phi(x), pair.phi(x.exp()), rtol=1e-12, atol=1e-15)
        assert torch.allclose(pair.log.dphi(x), x.exp() * pair.dphi(x.exp()), rtol=1e-12)


def test_the_table_as_printed():
    """Values of phi and psi at a point, worked out by hand."""
    x, values = 2.0, {}
    for pair in losses.table1(tau=0.5, eps=1.0, margin=1.0, c=2.0):
        values[pair.name] = (scalar(pair.phi, x), scalar(pair.psi, -x))
    logistic = 1 / (1 + math.exp(4))
    expected = {
        "InfoNCE": (0.5 * math.log(3), math.exp(-4)),
        "MINE": (math.log(2), math.exp(-2)),
        "Triplet": (2, 0),
        "Soft Triplet": (0.5 * math.log(3), math.exp(-3)),
        "N+1 Tuplet": (math.log(3), math.exp(-2)),
        "Lifted Structured": (math.log(2) ** 2, math.exp(-1)),
        "Modified Triplet": (2, logistic),
        "Triplet Contrastive": (2, -2),
    }
    assert values == {k: pytest.approx(v) for k, v in expected.items()}
    assert [pair.log is not None for pair in TABLE] == [1, 1, 0, 1, 1, 1, 0, 0]


@pytest.mark.parametrize("eps", [0.0, 0.3, 1.0])
def test_infonce_is_equation_2(eps):
    z, z2 = views(5, 2)
    tau, total = 0.4, 0.0
    rows, rows2 = z.tolist(), z2.tolist()
    for i in range(5):
        near = math.exp(-half(rows[i], rows2[i]) / tau)
        far = sum(math.exp(-half(rows[i], rows[j]) / tau) for j in range(5) if j != i)
        total -= tau * math.log(near / (eps * near + far))
    assert contrast.infonce(z, z2, tau, eps).item() == pytest.approx(total, rel=1e-12)
    if eps == 1:
        assert contrast.infonce(z, z2, tau).item() == pytest.approx(total, rel=1e-12)


def test_no_overflow_where_exponentials_overflow():
    z, z2 = views(6, 3)
    z, z2 = 100 * z, 100 * (z2 + 5)
    for pair in (losses.infonce_pair(0.01, 0.0), losses.infonce_pair(0.01, 1.0), *TABLE):
        if pair.log is None:
            continue
        value = contrast.family_loss(z, z2, pair)
        alpha = contrast.pairwise_importance(z, z2, pair)
        assert value.isfinite() and alpha.isfinite().all() and (alpha >= 0).all()
    # tau -> 0 leaves the nearest negative: L = sum_i (d_i - min_j d_ij), weight 1 on it.
    inter = contrast.off_diagonal(contrast.inter_distances(z), torch.inf)
    limit = (contrast.intra_distances(z, z2) - inter.amin(-1)).sum()
    assert contrast.infonce(z, z2, 1e-3, 0.0).item() == pytest.approx(limit.item(), rel=1e-9)
    hard = contrast.pairwise_importance(z, z2, losses.infonce_pair(1e-6, 0.0))
    assert torch.equal(hard.argmax(-1), inter.argmin(-1))
    assert torch.allclose(hard.amax(-1), torch.ones(6, dtype=torch.float64))


def test_covariance_and_energy_equal_loops():
    n = 6
    z, z2 = views(n, 3)
    b, b2 = views(n, 2, seed=1)
    alpha = torch.rand(n, n, dtype=torch.float64)  # asymmetric, diagonal not zero
    total = torch.zeros(3, 2, dtype=torch.float64)
    power = 0.0
    for i in range(n):
        for j in range(n):
            if i != j:
                total += alpha[i, j] * torch.outer(z[i] - z[j], b[i] - b[j])
                total -= alpha[i, j] * torch.outer(z[i] - z2[i], b[i] - b2[i])
                power += alpha[i, j] * ((z[i] - z[j]) ** 2).sum()
                power -= alpha[i, j] * ((z[i] - z2[i]) ** 2).sum()
    ours = contrast.contrastive_covariance(alpha, z, z2, b, b2)
    assert torch.allclose(ours, total, rtol=1e-12)
    own = contrast.contrastive_covariance(alpha, z, z2, z, z2)
    assert torch.allclose(contrast.energy(alpha, z, z2), power, rtol=1e-12)
    assert torch.allclose(own.trace(), power, rtol=1e-12)
    assert torch.allclose(own, own.T, rtol=1e-12)
    assert torch.allclose(contrast.nl_energy(alpha, z, z2), power / (4 * n**2), rtol=1e-12)


@pytest.mark.parametrize("shift", [(2.0**30, 0.0), (0.0, 2.0**30), (2.0**30, -(2.0**28))])
def test_a_covariance_far_from_the_origin_loses_no_digits(shift):
    """Pairs do not see where the origin is; the views have 20 binary digits, so sums are exact."""
    rng = np.random.default_rng(0)
    alpha = rng.uniform(0.1, 1, (3, 6, 6))
    views = [np.round(v * 2**20) / 2**20 for d in (3, 4) for v in ref.views(rng, 3, 6, d)]
    moved = [v + shift[k // 2] for k, v in enumerate(views)]
    ours = contrast.contrastive_covariance(*ref.tensors(alpha, *moved))
    np.testing.assert_allclose(ours, ref.covariance(alpha, *views), rtol=1e-11)


@pytest.mark.parametrize("pair", TABLE, ids=IDS)
def test_theorem_1_and_its_factor(pair):
    z, z2 = views(7, 3)
    down = torch.func.grad(lambda a: contrast.family_loss(a, z2, pair))(z)
    alpha = contrast.pairwise_importance(z, z2, pair)
    up = torch.func.grad(lambda a: contrast.energy(alpha, a, z2))(z)
    assert torch.allclose(down, -up / 2, rtol=1e-10, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=seeds, n=st.integers(2, 7), d=st.integers(1, 4), which=st.integers(0, 7))
def test_invariances(seed, n, d, which):
    pair = TABLE[which]
    z, z2 = views(n, d, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    turn = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=generator)).Q
    shift = 10 * torch.randn(d, dtype=torch.float64, generator=generator)
    order = torch.randperm(n, generator=generator)
    loss = contrast.family_loss(z, z2, pair)
    alpha = contrast.pairwise_importance(z, z2, pair)
    moved = (z @ turn + shift, z2 @ turn + shift)
    close = {"rtol": 1e-8, "atol": 1e-10}
    assert torch.allclose(contrast.family_loss(*moved, pair), loss, **close)
    assert torch.allclose(contrast.pairwise_importance(*moved, pair), alpha, **close)
    assert torch.allclose(contrast.energy(alpha, *moved), contrast.energy(alpha, z, z2), **close)
    shuffled = (z[order], z2[order])
    assert torch.allclose(contrast.family_loss(*shuffled, pair), loss, **close)
    expected = alpha[order][:, order]
    assert torch.allclose(contrast.pairwise_importance(*shuffled, pair), expected, **close)
    covariance = contrast.contrastive_covariance(alpha, z, z2, z, z2)
    turned = contrast.contrastive_covariance(alpha, *moved, *moved)
    assert torch.allclose(turned, turn.T @ covariance @ turn, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("pair", SMOOTH, ids=[pair.name for pair in SMOOTH])
def test_gradients(pair):
    z, z2 = (v.requires_grad_() for v in views(4, 2))
    assert torch.autograd.gradcheck(lambda a, b: contrast.family_loss(a, b, pair), (z, z2))
    assert torch.autograd.gradcheck(lambda a, b: contrast.pairwise_importance(a, b, pair), (z, z2))


def test_gradients_of_energy_and_covariance():
    z, z2 = (v.requires_grad_() for v in views(4, 2))
    alpha = torch.rand(4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(contrast.energy, (alpha, z, z2))
    assert torch.autograd.gradcheck(
        lambda w, a, b: contrast.contrastive_covariance(w, a, b, a, b), (alpha, z, z2)
    )


@pytest.mark.parametrize("pair", TABLE, ids=IDS)
def test_batches_vmap_and_loops_agree(pair):
    z, z2 = views(2, 3, 5, 4)
    for f in (contrast.family_loss, contrast.pairwise_importance):
        batched = f(z, z2, pair)
        mapped = torch.func.vmap(torch.func.vmap(lambda a, b, f=f: f(a, b, pair)))(z, z2)
        single = torch.stack(
            [torch.stack([f(z[r, s], z2[r, s], pair) for s in range(3)]) for r in range(2)]
        )
        assert torch.allclose(batched, single, rtol=1e-12)
        assert torch.allclose(mapped, single, rtol=1e-12)


def test_one_temperature_a_run():
    z, z2 = views(3, 5, 2)
    tau = torch.tensor([0.1, 0.5, 2.0], dtype=torch.float64)
    eps = torch.tensor([0.0, 0.3, 1.0], dtype=torch.float64)
    mapped = torch.func.vmap(contrast.infonce)(z, z2, tau, eps)
    single = [contrast.infonce(z[r], z2[r], tau[r].item(), eps[r].item()) for r in range(3)]
    assert torch.allclose(mapped, torch.stack(single), rtol=1e-12)


def test_source_losses_equal_loops():
    """The parts of Table 1's sources that the ledger's comparison leaves to this file."""
    z, z2 = views(3, 4, 2)
    for r in range(3):
        a, b = z[r].tolist(), z2[r].tolist()
        hinge = lifted = mine = 0.0
        pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
        for i, j in pairs:
            hinge += max(0.0, 2 * half(a[i], b[i]) - 2 * half(a[i], a[j]) + 0.9)
            mine += math.exp(-half(a[i], a[j])) / len(pairs)
        for i in range(4):
            total = 0.0
            for j in range(4):
                if j != i:
                    total += math.exp(0.8 - math.dist(a[i], a[j]))
                    total += math.exp(0.8 - math.dist(b[i], b[j]))
            lifted += max(0.0, math.log(total) + math.dist(a[i], b[i])) ** 2
        mine = math.log(mine) + sum(half(a[i], b[i]) for i in range(4)) / 4
        assert losses.source_triplet(z, z2, 0.9)[r].item() == pytest.approx(hinge, rel=1e-12)
        assert losses.source_lifted(z, z2, 0.8)[r].item() == pytest.approx(lifted, rel=1e-12)
        assert losses.source_mine(z, z2)[r].item() == pytest.approx(mine, rel=1e-12)


def test_negatives_leave_the_anchor_out():
    z = torch.arange(3.0)[:, None]
    assert sources.negatives(z)[..., 0].tolist() == [[1, 2], [0, 2], [0, 1]]


def test_shapes_are_checked_by_the_annotations():
    z, z2 = views(2, 5, 3)
    alpha = torch.rand(2, 5, 5, dtype=torch.float64)
    checked = {
        f.__name__: jaxtyped(typechecker=beartype)(f)
        for f in (contrast.family_loss, contrast.energy, contrast.contrastive_covariance)
    }
    assert checked["family_loss"](z, z2, TABLE[0]).shape == (2,)
    assert checked["energy"](alpha, z, z2).shape == (2,)
    assert checked["contrastive_covariance"](alpha, z, z2, z[..., :2], z2[..., :2]).shape == (
        2,
        3,
        2,
    )
    with pytest.raises(TypeCheckError):
        checked["energy"](alpha[:, :4], z, z2)


def test_errors_say_what_came_and_how_to_mend_it(unchecked_shapes):
    z, z2 = views(4, 2)
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(
            ValueError, match=r"expected tau > 0, got tau=.*temperature is positive"
        ):
            contrast.infonce(z, z2, bad)
    with pytest.raises(ValueError, match=r"expected eps >= 0, got eps=-0.1; 1 keeps the positive"):
        contrast.infonce(z, z2, 0.5, -0.1)
    with pytest.raises(ValueError, match=r"n >= 2 samples, got \[1, 2\]; a contrastive loss needs"):
        contrast.family_loss(z[:1], z2[:1], TABLE[0])
    with pytest.raises(ValueError, match=r"two views of one shape, got \[4, 2\] and \[3, 2\]; row"):
        contrast.intra_distances(z, z2[:3])
    with pytest.raises(ValueError, match=r"\[\*b, n, n\] with n=4 samples, got \[3, 3\]; row i"):
        contrast.energy(torch.ones(3, 3), z, z2)
    with pytest.raises(ValueError, match=r"distances of shapes .* got \[4, 4\] and \[3\]; see"):
        contrast.loss_of_distances(torch.ones(4, 4), torch.ones(3), TABLE[0])
    with pytest.raises(ValueError, match=r"distances of shapes .* got \[3, 4\] and \[3\]; see"):
        contrast.loss_of_distances(torch.ones(3, 4), torch.ones(3), TABLE[0])
    with pytest.raises(ValueError, match="expected tau > 0"):
        losses.soft_triplet_pair(tau=0.0)
