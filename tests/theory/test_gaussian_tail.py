"""The tail of a correlated Gaussian pair against mpmath, scipy and limits."""

from itertools import product

import mpmath
import numpy as np
import pytest
import torch
from scipy import special, stats

from clcore.checks.hltm.tail import node_range
from clcore.theory.trees import gaussian_tail as tail

GRID = [(c, g) for c in (1e-3, 0.5, 4.0, 30.0) for g in (0.0, 1e-6, 0.3, 0.9, 0.9999)]


def f64(*values):
    return torch.tensor(values, dtype=torch.float64)


def mills(y):
    y = mpmath.mpf(y)
    return mpmath.sqrt(mpmath.pi / 2) * mpmath.exp(y**2 / 2) * mpmath.erfc(y / mpmath.sqrt(2))


@pytest.mark.parametrize("y", [-3.0, 0.0, 0.7, 3.99, 4.01, 12.0, 1e3])
def test_mills_ratio_and_excess(y):
    with mpmath.workdps(60):
        r = mills(y)
        e = 1 / r - y
    assert tail.mills(f64(y)).item() == pytest.approx(float(r), rel=1e-13)
    assert tail.excess(f64(y)).item() == pytest.approx(float(e), rel=1e-12)


def test_excess_is_a_conditional_mean():
    assert tail.excess(f64(1.3)).item() == pytest.approx(stats.truncnorm.mean(1.3, np.inf) - 1.3)


def test_bounds_on_the_mills_ratio():
    y = torch.logspace(-3, 1.5, 200, dtype=torch.float64)
    low, high = tail.mills_bounds(y)
    assert (low < tail.mills(y)).all() and (tail.mills(y) < high).all()
    assert low[0].item() == pytest.approx(1, abs=1e-3)
    assert high[0].item() == pytest.approx(2**0.5, abs=2e-3)


@pytest.mark.parametrize("c, gamma", GRID)
def test_tail_by_quadrature(c, gamma):
    with mpmath.workdps(25):
        g, h = mpmath.mpf(gamma), mpmath.sqrt(c)
        s = g / mpmath.sqrt(1 - g**2)
        scale = 1 / (h * (1 + s**2) + mpmath.sqrt(1 + s**2))
        points = [h + scale * k for k in (0, 1, 3, 9, 27, 60)]
        exact = mpmath.quad(lambda t: mpmath.npdf(t) * mpmath.ncdf(-s * t), points)
    value = tail.log_tail(f64(c), f64(gamma)).item()
    assert value == pytest.approx(float(mpmath.log(exact)), rel=1e-12)


def test_tail_by_scipy():
    c, gamma = f64(0.5, 1.0, 4.0), f64(0.2, 0.8, 0.5)
    for k in range(3):
        covariance = [[1, -gamma[k].item()], [-gamma[k].item(), 1]]
        # P(y >= y_0) = P(-y <= -y_0), and -y has the same law.
        normal = stats.multivariate_normal([0, 0], covariance, abseps=1e-10, releps=1e-10)
        exact = normal.cdf([-(c[k].item() ** 0.5), 0.0])
        assert tail.log_tail(c, gamma)[k].exp().item() == pytest.approx(exact, rel=1e-6)
    h, g = c.sqrt().numpy(), gamma.numpy()
    owen = special.ndtr(-h) / 2 - special.owens_t(h, g / np.sqrt(1 - g**2))
    assert tail.log_tail(c, gamma).exp().tolist() == pytest.approx(owen, rel=1e-9)


@pytest.mark.parametrize(("most", "greatest"), [(100.0, 0.0), (4.0, 0.8)])
def test_tail_by_owen_to_twelve_digits(most, greatest):
    """Where its closed form loses none: Phi(-sqrt(c))/2 at gamma = 0, less Owen's T elsewhere."""
    rng = np.random.default_rng(0)
    c = np.concatenate([np.geomspace(1e-3, most, 20), rng.uniform(1e-3, most, 20)])
    gamma, h = greatest * rng.random(len(c)), np.sqrt(c)
    cut = special.owens_t(h, gamma / np.sqrt(1 - gamma**2))
    whole = special.log_ndtr(-h) - np.log(2)
    expected = whole + np.log1p(-cut / np.exp(whole))
    ours = tail.log_tail(torch.from_numpy(c), torch.from_numpy(gamma)).numpy()
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-12)


def test_tail_far_out_follows_its_exponent():
    c, gamma = f64(1e4, 1e4), f64(0.5, 1 - 1e-8)
    form = c / ((1 - gamma) * (1 + gamma))
    assert torch.isfinite(tail.log_tail(c, gamma)).all()
    assert ((tail.log_tail(c, gamma) / (-form / 2) - 1).abs() < 1e-2).all()


def test_bound_holds_and_is_tight_and_the_printed_one_does_not():
    c, gamma = f64(9.0), f64(0.5)
    exact = tail.log_tail(c, gamma)
    assert 0 < (exact - tail.log_bound(c, gamma)).item() < 0.01
    assert (tail.log_bound(c, gamma, printed=True) - exact).item() == pytest.approx(1.5, abs=0.01)
    zero = f64(0.0)
    slope = torch.func.grad(lambda g: tail.log_bound(c, g).sum())
    near = (tail.log_bound(c, f64(1e-5)) - tail.log_bound(c, zero)).item() / 1e-5
    assert slope(zero).item() == pytest.approx(near, abs=1e-3)
    assert tail.log_bound(c, zero).item() == tail.log_bound(c, zero, printed=True).item()
    product = tail.mills(f64(3.0)) * tail.mills(f64(0.0))
    assert tail.r_hat(c, zero).item() == pytest.approx(product.item())


def test_band_of_r_hat():
    c = torch.linspace(0.1, 30, 50, dtype=torch.float64)[:, None]
    gamma = f64(0.01, 0.2, 0.9)
    low, high = tail.r_hat_bounds(c, gamma)
    exact = tail.r_hat(c, gamma)
    assert low.shape == (50, 3)
    assert (low < exact).all() and (exact < high).all()
    ratio = (tail.asymptote(c, gamma) / exact)[-1]
    assert ratio[2].item() == pytest.approx(1, abs=0.05) and ratio[0].item() > 10


@pytest.mark.parametrize("gamma", [0.0, 1e-6, 0.3, 0.9, 1 - 1e-8])
@pytest.mark.parametrize("c", [1e-2, 1.0, 30.0, 1e8])
def test_r_hat_with_50_digits(c, gamma):
    """ddn Eq. 121 from Eqs. 116 to 119; a smaller second product is not taken for it."""
    with mpmath.workdps(50):
        one = mpmath.sqrt(mpmath.mpf(c) / (1 - mpmath.mpf(gamma) ** 2))
        two = gamma * one

        def r(y):
            if y < 1e3:
                return mills(y)
            last = y  # by its continued fraction
            for k in range(40, 0, -1):
                last = y + k / last
            return 1 / last

        products = [r(x) * r(y + gamma * (1 / r(x) - x)) for x, y in ((one, two), (two, one))]
    assert tail.r_hat(f64(c), f64(gamma)).item() == pytest.approx(float(max(products)), rel=1e-12)


def corners(c, gamma, below, above, product_of):
    """(below, above) R-hat: the least and the largest of what bounds on r and e leave open, over
    all corners, whichever bound belongs where; as `node_range.READINGS`."""
    one = np.sqrt(c / (1 - gamma**2))
    ends = []
    for x, y in ((one, gamma * one), (gamma * one, one)):
        r = [2 / (np.sqrt(x**2 + 4) + x), 4 / (np.sqrt(x**2 + 8) + 3 * x)]
        low = {"e124": 1 / r[1] - x, "zero": 0 * x}[below]
        high = {"e124": 1 / r[0] - x, "e125": 1 / x}[above]
        found = []
        for outer, z in product(r, (y + gamma * low, y + gamma * high)):
            found += [
                outer * 2 / (np.sqrt(z**2 + 4) + z),
                outer * 4 / (np.sqrt(z**2 + 8) + 3 * z),
            ]
        ends.append(np.stack([np.min(found, 0), np.max(found, 0)]))
    return {"larger": np.maximum(*ends), "first": ends[0], "second": ends[1]}[product_of]


def test_band_of_r_hat_by_all_corners():
    rng = np.random.default_rng(1)
    c, gamma = rng.uniform(0.05, 30, 60), rng.uniform(0.01, 0.99, 60)
    ours = tail.r_hat_bounds(torch.from_numpy(c), torch.from_numpy(gamma))
    np.testing.assert_allclose(np.stack(ours), corners(c, gamma, "e124", "e124", "larger"), 1e-12)


@pytest.mark.parametrize("reading", node_range.READINGS)
def test_bands_of_every_reading_by_all_corners(reading):
    kinds, gamma = node_range.READINGS[reading], np.array([0.04, 0.2, 0.9])
    found = np.transpose([node_range._band(g, kinds) for g in gamma])
    np.testing.assert_allclose(found, corners(np.full(3, 9.0), gamma, *kinds), 1e-12)


def test_refuses_what_has_no_tail(unchecked_shapes):
    with pytest.raises(ValueError, match=r"expected 0 <= gamma < 1, got 1; at 1 the event"):
        tail.log_tail(f64(1.0), f64(1.0))
    with pytest.raises(ValueError, match=r"expected 0 <= gamma < 1, got nan"):
        tail.r_hat(f64(1.0), f64(float("nan")))
    with pytest.raises(ValueError, match=r"expected c > 0, got 0; y_\+ has to exceed"):
        tail.r_hat(f64(0.0), f64(0.5))
    for c, gamma in ((-1.0, 0.5), (1.0, -1e-9), (1.0, 1.5)):
        wrong = f"got {c if c <= 0 else gamma:g}"
        for pair in ((f64(c), f64(gamma)), (f64(1.0, c, 2.0), f64(0.0, gamma, 0.5))):
            with pytest.raises(ValueError, match=wrong):
                tail.kappas(*pair)
    for c, gamma in ((1e-9, 0.5), (1.0, 0.0), (1.0, 1 - 1e-9)):
        one, two = tail.kappas(f64(c), f64(gamma))
        assert one.item() == pytest.approx((c / (1 - gamma**2)) ** 0.5, rel=1e-6)
        assert two.item() == pytest.approx(gamma * one.item(), rel=1e-15)
