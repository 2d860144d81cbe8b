"""Gaussian features, adjusted laws and large-batch limits against loops and enumeration."""

from itertools import product

import pytest
import torch

from clcore import random
from clcore.losses import contrast
from clcore.losses import kernel_importance as ki

pytestmark = pytest.mark.usefixtures("one_thread")


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, dtype=torch.float64, generator=generator)


def world(n: int = 3, v: int = 2, q: int = 2, L: int = 4, seed: int = 0):
    phi, p, views = rand(n, L, seed=seed), rand(n, seed=seed + 1), rand(n, v, seed=seed + 2)
    g = rand(n, v, q, seed=seed + 3) * 4 - 2
    return phi, p / p.sum(), views / views.sum(-1, keepdim=True), g


def test_features_list_ordered_products():
    y = torch.tensor([[2.0, 3.0]], dtype=torch.float64)
    phi = ki.gaussian_features(y, 1.0, 3)[0] * torch.exp(torch.tensor(6.5, dtype=torch.float64))
    products = [1, 2, 3] + [v / 2**0.5 for v in (4, 6, 6, 9)]
    products += [v / 6**0.5 for v in (8, 12, 12, 18, 12, 18, 18, 27)]
    assert phi.tolist() == pytest.approx(products)


@pytest.mark.parametrize("tau", [0.5, 2.0])
def test_gaussian_features_give_the_gaussian(tau):
    y = rand(2, 5, 2) * 0.7
    direct = torch.exp(-((y[:, :, None] - y[:, None]) ** 2).sum(-1) / (2 * tau))
    assert torch.allclose(ki.gaussian(y, tau), direct, rtol=1e-13)
    phi = ki.gaussian_features(y, tau, 12)
    assert phi.shape[-1] == 2**13 - 1 and (phi >= 0).all()
    assert torch.allclose(phi @ phi.mT, direct, rtol=0, atol=1e-8)
    short = ki.gaussian_features(y, tau, 1)
    short = short @ short.mT
    inner = y @ y.mT / tau
    assert torch.allclose(short, direct * torch.exp(-inner) * (1 + inner), rtol=1e-12)


@pytest.mark.parametrize(("d", "tau"), [(1, 0.3), (2, 1.0), (4, 2.5)])
def test_the_gaussian_by_loops_over_pairs(d, tau):
    y = torch.randn(3, 5, d, dtype=torch.float64)
    found = ki.gaussian(y, tau)
    for b in range(3):
        for i in range(5):
            for j in range(5):
                square = sum((y[b, i, k] - y[b, j, k]) ** 2 for k in range(d))
                assert found[b, i, j].item() == pytest.approx(float(torch.exp(-square / (2 * tau))))


def test_adjusted_laws():
    phi, p, _, _ = world()
    phi[:, 2] = 0
    z, law = ki.adjusted(phi, p)
    for k in range(4):
        mass = [float(phi[i, k] * p[i]) for i in range(3)]
        assert z[k].item() == pytest.approx(sum(mass))
        expected = [m / sum(mass) if sum(mass) else 0.0 for m in mass]
        assert law[k].tolist() == pytest.approx(expected)


def test_the_mean_over_all_batches_is_the_limit():
    """Over every batch of N = 2: without i = j the mean is (1 - 1/N) times the limit, exactly."""
    phi, p, views, g = world()
    kernel, N = phi @ phi.T, 2
    cells = list(product(range(3), range(2), range(2)))
    mass = [float(p[s] * views[s, a] * views[s, b]) for s, a, b in cells]
    mean, own = torch.zeros(2, 2, 2, dtype=torch.float64)
    for one, two in product(range(len(cells)), repeat=2):
        sample, first, second = (torch.tensor(t) for t in zip(cells[one], cells[two], strict=True))
        chance = mass[one] * mass[two]
        batch = ki.Batch(sample, first, second)
        mean += chance * ki.of_batch(batch, kernel, g)
        a, a2 = ki.features(batch, g)
        alpha = kernel[sample][:, sample]
        gaps = a - a2
        own += chance * gaps.T @ (alpha.diagonal()[:, None] * gaps) / (2 * N**2)
    limit = ki.limit(phi, p, views, g)
    assert torch.allclose(mean + own, (1 - 1 / N) * limit, atol=1e-14)
    assert not torch.allclose(mean, (1 - 1 / N) * limit, atol=1e-3)
    parts = ki.inter_limit(phi, p, views, g) - ki.intra_limit(phi, p, views, g)
    assert torch.allclose(parts, limit, atol=1e-14)


def test_intra_limit_by_loop():
    phi, p, views, g = world(seed=5)
    total = torch.zeros(2, 2, dtype=torch.float64)
    for i, j, a, b in product(range(3), range(3), range(2), range(2)):
        gap = g[i, a] - g[i, b]
        chance = p[i] * p[j] * views[i, a] * views[i, b]
        total += chance * (phi[i] @ phi[j]) * torch.outer(gap, gap) / 2
    assert torch.allclose(ki.intra_limit(phi, p, views, g), total, atol=1e-14)


def test_batches_follow_the_masses_and_their_views_are_independent():
    _, p, views, g = world(seed=7)
    keys = random.fold_in(random.key(3), torch.arange(4))
    batch = ki.draw(keys, p.expand(4, -1), views.expand(4, -1, -1), 20_000)
    share = torch.stack([(batch.sample == i).double().mean() for i in range(3)])
    assert (share - p).abs().max() < 0.01
    own = batch.sample == 1
    both = ((batch.first == 1) & (batch.second == 1))[own].double().mean()
    assert (both - views[1, 1] ** 2).abs() < 0.02
    a, a2 = ki.features(batch, g.expand(4, -1, -1, -1))
    assert torch.equal(a[2, 5], g[batch.sample[2, 5], batch.first[2, 5]])
    assert torch.equal(a2[2, 5], g[batch.sample[2, 5], batch.second[2, 5]])


def test_batches_approach_the_limit():
    phi, p, views, g = world(seed=9)
    keys = random.fold_in(random.key(0), torch.arange(40))
    batch = ki.draw(keys, p.expand(40, -1), views.expand(40, -1, -1), 200)
    found = ki.of_batch(batch, (phi @ phi.T).expand(40, -1, -1), g.expand(40, -1, -1, -1))
    limit = ki.limit(phi, p, views, g)
    error = found.std(0) / 40**0.5 + 3 / 200 * limit.abs().max()
    assert ((found.mean(0) - limit).abs() < 5 * error).all()


def test_batch_covariance_is_eq_3():
    a, a2, b, b2 = rand(4, 5, 3)
    alpha = rand(5, 5, seed=1)
    total = torch.zeros(3, 3, dtype=torch.float64)
    for i, j in product(range(5), repeat=2):
        inter = torch.outer(a[i] - a[j], b[i] - b[j])
        total += alpha[i, j] * (inter - torch.outer(a[i] - a2[i], b[i] - b2[i])) / 50
    assert torch.allclose(ki.batch_covariance(alpha, a, a2, b, b2), total, atol=1e-14)
    free = contrast.off_diagonal(alpha, 0.0)
    converted = contrast.contrastive_covariance(free, a, a2, b, b2) / 50
    assert torch.allclose(ki.batch_covariance(free, a, a2, b, b2), converted, atol=1e-15)


@pytest.mark.usefixtures("unchecked_shapes")
def test_errors():
    y = rand(4, 2)
    with pytest.raises(ValueError, match="tau: expected a positive number"):
        ki.gaussian(y, 0.0)
    with pytest.raises(ValueError, match="tau: expected a positive number"):
        ki.gaussian_features(y, -1.0, 2)
    with pytest.raises(ValueError, match="subtract a lower bound"):
        ki.gaussian_features(y - 0.5, 1.0, 2)
    with pytest.raises(ValueError, match="with n=4 samples"):
        ki.adjusted(rand(3, 2), rand(4))
