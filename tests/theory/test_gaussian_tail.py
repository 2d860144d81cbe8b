"""The tail of a correlated Gaussian pair against mpmath, scipy and limits."""

import mpmath
import numpy as np
import pytest
import torch
from scipy import special, stats

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


def test_refuses_what_has_no_tail(unchecked_shapes):
    with pytest.raises(ValueError, match=r"expected 0 <= gamma < 1, got 1; at 1 the event"):
        tail.log_tail(f64(1.0), f64(1.0))
    with pytest.raises(ValueError, match=r"expected 0 <= gamma < 1, got nan"):
        tail.r_hat(f64(1.0), f64(float("nan")))
    with pytest.raises(ValueError, match=r"expected c > 0, got 0; y_\+ has to exceed"):
        tail.r_hat(f64(0.0), f64(0.5))
