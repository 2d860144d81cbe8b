"""Every loss of the image tables against loops written from the papers, gradients included."""

import math

import numpy as np
import pytest
import torch

from clcore import random
from clcore.experiments.image_losses import (
    LOSSES,
    exact_weights,
    loss,
    near_weights,
    shared_weights,
)

N, D = 7, 4
KEYS = random.split(random.key(5), 3)


def unit(key):
    z = random.normal(key, (N, D), torch.float64)
    return z / z.norm(dim=1, keepdim=True)


Z, Z2, X = map(unit, KEYS)


def r(u, v):
    """The papers' distance, squared and halved."""
    return 0.5 * float(((u - v) ** 2).sum())


def gradient(name, z, z2, x=None, **settings):
    z, z2 = z.clone().requires_grad_(), z2.clone().requires_grad_()
    loss(name, z, z2, x, **settings).backward()
    return torch.cat([z.grad, z2.grad])


def numeric(function, z, z2, step=1e-6):
    """Central differences of a function of two lists of vectors."""
    both = torch.cat([z, z2])
    out = torch.zeros_like(both)
    for i in range(2 * N):
        for k in range(D):
            for sign in (1, -1):
                moved = both.clone()
                moved[i, k] += sign * step
                out[i, k] += sign * function(moved[:N], moved[N:]) / (2 * step)
    return out


# -------------------------------------------------------------------------------- acl, Sec. 6.1


def acl_infonce(z, z2, tau=0.5):
    """acl Eq. 2, a sum over samples, here its mean."""
    total = 0.0
    for i in range(N):
        same = math.exp(-r(z[i], z2[i]) / tau)
        others = sum(math.exp(-r(z[i], z[j]) / tau) for j in range(N) if j != i)
        total -= tau * math.log(same / (same + others))
    return total / N


def both_orders(function):
    return lambda z, z2: (function(z, z2) + function(z2, z)) / 2


def test_infonce():
    function = both_orders(acl_infonce)
    assert abs(float(loss("infonce", Z, Z2)) - function(Z, Z2)) < 1e-12
    assert torch.allclose(gradient("infonce", Z, Z2), numeric(function, Z, Z2), atol=1e-8)


def energy(alpha):
    """-(1/2) sum_ij alpha_ij (d_ij - d_i) / n of given importance: descent on it is ascent on E."""

    def value(z, z2):
        terms = (
            alpha[i][j] * (r(z[i], z[j]) - r(z[i], z2[i]))
            for i in range(N)
            for j in range(N)
            if j != i
        )
        return -sum(terms) / N

    return value


def rows(z, z2):
    """Costs c_ij = 2 (d_ij - d_i), j != i: what alpha_ij is charged in 2 E."""
    return [
        [(2 * (r(z[i], z[j]) - r(z[i], z2[i])) if j != i else None) for j in range(N)]
        for i in range(N)
    ]


def solved(costs, slope_inverse):
    """Row by row: alpha = slope_inverse(c + mu) with mu by bisection, so that a row sums to 1.

    slope_inverse is the inverse of r', decreasing."""
    out = []
    for row in costs:
        own = [c for c in row if c is not None]
        low, high = -min(own) - 100.0, 100.0 - min(own)
        for _ in range(200):
            mu = (low + high) / 2
            total = sum(slope_inverse(c + mu) for c in own)
            low, high = (mu, high) if total > 1 else (low, mu)
        out.append([0.0 if c is None else slope_inverse(c + mu) for c in row])
    return out


MINIMISERS = {
    # r_H' = -2 tau (log alpha + 1), r_gamma' = 2 tau alpha^-2, r_s' = -tau alpha.
    "entropy": lambda v: math.exp(-v / (2 * 0.5) - 1),
    "inverse": lambda v: math.sqrt(2 * 0.5 / v) if v > 0 else 1e9,
    "square": lambda v: max(0.0, -v / 5.0),
}


@pytest.mark.parametrize("name", [*MINIMISERS, "direct", "direct-4"])
def test_min_max(name):
    def weights(z, z2):
        if name in MINIMISERS:
            return solved(rows(z, z2), MINIMISERS[name])
        p = 2 if name == "direct" else 4
        out = []
        for i in range(N):
            e = [math.exp(-(r(z[i], z[j]) ** p) / 0.5) if j != i else 0.0 for j in range(N)]
            out.append([v / sum(e) for v in e])
        return out

    first, second = weights(Z, Z2), weights(Z2, Z)

    def function(z, z2):  # importance held fixed
        return (energy(first)(z, z2) + energy(second)(z2, z)) / 2

    assert abs(float(loss(name, Z, Z2)) - function(Z, Z2)) < 1e-9
    assert torch.allclose(gradient(name, Z, Z2), numeric(function, Z, Z2), atol=1e-7)


def test_backprop_goes_through_the_importance():
    def one(z, z2):
        return energy(solved(rows(z, z2), MINIMISERS["entropy"]))(z, z2)

    function = both_orders(one)
    found = gradient("backprop", Z, Z2)
    assert torch.allclose(found, numeric(function, Z, Z2), atol=1e-6)
    assert not torch.allclose(found, gradient("entropy", Z, Z2), atol=1e-3)


@pytest.mark.parametrize(("tau", "gamma"), [(0.5, 2), (0.3, 3)])
def test_the_released_inverse(tau, gamma):
    def weights(z):
        return [
            [(r(z[i], z[j]) + tau) ** -gamma if j != i else 0.0 for j in range(N)] for i in range(N)
        ]

    first, second = weights(Z), weights(Z2)

    def function(z, z2):
        return (energy(first)(z, z2) + energy(second)(z2, z)) / 2

    name, settings = "inverse-released", {"tau": tau, "gamma": gamma}
    assert abs(float(loss(name, Z, Z2, **settings)) - function(Z, Z2)) < 1e-10
    found = gradient(name, Z, Z2, **settings)
    assert torch.allclose(found, numeric(function, Z, Z2), atol=1e-7)
    assert LOSSES[name].settings == {"tau": 0.5, "gamma": 2.0}
    # Nearer weighs more, without bound on a row's sum.
    alpha = near_weights(torch.tensor([[0.0, 0.1], [1.5, 0.0]], dtype=torch.float64))
    assert alpha.tolist() == [[0.0, pytest.approx(0.6**-2)], [0.25, 0.0]]


def test_tau_can_be_set():
    assert (
        abs(
            float(loss("infonce", Z, Z2, tau=0.2))
            - both_orders(lambda a, b: acl_infonce(a, b, 0.2))(Z, Z2)
        )
        < 1e-12
    )


# --------------------------------------------------------------------------------- ddn, Sec. 7


def anchors(z, z2):
    """Of all 2N views: the view, its other view, the views of other images and their numbers."""
    views = [*z, *z2]
    for a, view in enumerate(views):
        others = [k for k in range(2 * N) if k % N != a % N]
        yield a % N, view, views[(a + N) % (2 * N)], [(k % N, views[k]) for k in others]


@pytest.mark.parametrize("tau", [0.5, 0.2])
@pytest.mark.parametrize(
    ("name", "beta"),
    [
        ("nce", 0),
        ("beta-0.5", -0.5),
        ("beta+0.2", 0.2),
        ("beta-0.5-released", -0.5),
        ("beta+0.2-released", 0.2),
    ],
)
def test_nce_and_beta(name, beta, tau):
    beta = beta / tau if name.endswith("released") else beta

    def function(z, z2):
        total = 0.0
        for _, view, other, negatives in anchors(z, z2):
            same = math.exp(-r(view, other) / tau)
            rest = sum(math.exp(-r(view, n) / tau) for _, n in negatives)
            total += -math.log(same / (same + rest)) + beta * r(view, other)
        return total / (2 * N)

    assert abs(float(loss(name, Z, Z2, tau=tau)) - function(Z, Z2)) < 1e-12
    found = gradient(name, Z, Z2, tau=tau)
    assert torch.allclose(found, numeric(function, Z, Z2), atol=1e-8)


@pytest.mark.parametrize("tau", [0.5, 0.2])
@pytest.mark.parametrize("name", ["exact", "exact-noise"])
def test_exact(name, tau):
    """ddn Eq. 7 with the weights of Eq. 6, from the distances of un-augmented images."""
    H = 2 * N - 2

    def function(z, z2):
        total = 0.0
        for image, view, other, negatives in anchors(z, z2):
            for k, negative in negatives:
                e = math.exp(-r(X[image], X[k]) / tau)
                total += e / (1 + e) / tau * (r(view, other) - r(view, negative))
        return total / (2 * N) / H

    assert abs(float(loss(name, Z, Z2, X, tau=tau)) - function(Z, Z2)) < 1e-12
    found = gradient(name, Z, Z2, X, tau=tau)
    assert torch.allclose(found, numeric(function, Z, Z2), atol=1e-8)
    x = X.clone().requires_grad_()
    assert not exact_weights(x).requires_grad


@pytest.mark.parametrize("tau", [0.5, 0.2])
def test_one_negative_on_average(tau):
    H = 2 * N - 2

    def function(z, z2):
        total = 0.0
        for _, view, other, negatives in anchors(z, z2):
            for _, negative in negatives:
                total += math.log1p(math.exp((r(view, other) - r(view, negative)) / tau))
        return total / (2 * N) / H

    assert abs(float(loss("nce-pairwise", Z, Z2, tau=tau)) - function(Z, Z2)) < 1e-12
    found = gradient("nce-pairwise", Z, Z2, tau=tau)
    assert torch.allclose(found, numeric(function, Z, Z2), atol=1e-8)


@pytest.mark.parametrize("tau", [0.5, 0.2])
def test_weights_that_all_negatives_share(tau):
    """ddn Eq. 80 for every negative of every anchor."""

    def function(z, z2):
        total = 0.0
        for image, view, other, negatives in anchors(z, z2):
            near = [math.exp(-r(X[image], X[k]) / tau) for k, _ in negatives]
            for e, (_, negative) in zip(near, negatives, strict=True):
                xi = e / (1 + sum(near)) / tau
                total += xi * (r(view, other) - r(view, negative))
        return total / (2 * N)

    name = "exact-shared"
    assert abs(float(loss(name, Z, Z2, X, tau=tau)) - function(Z, Z2)) < 1e-12
    found = gradient(name, Z, Z2, X, tau=tau)
    assert torch.allclose(found, numeric(function, Z, Z2), atol=1e-8)
    assert not shared_weights(X.clone().requires_grad_()).requires_grad


@pytest.mark.parametrize("tau", [0.5, 0.2])
def test_weights_at_the_views_are_constants(tau):
    """Value and gradient as of a sum over anchors and negatives whose weights stay those of Z."""

    H = 2 * N - 2

    def function(z, z2):
        total = 0.0
        held = [negatives for *_, negatives in anchors(Z, Z2)]
        views = [view for _, view, _, _ in anchors(Z, Z2)]
        for k, (_, view, other, negatives) in enumerate(anchors(z, z2)):
            for (_, was), (_, negative) in zip(held[k], negatives, strict=True):
                near = math.exp(-r(views[k], was) / tau)
                total += near / (1 + near) / tau * (r(view, other) - r(view, negative))
        return total / (2 * N) / H

    assert abs(float(loss("exact-views", Z, Z2, tau=tau)) - function(Z, Z2)) < 1e-12
    found = gradient("exact-views", Z, Z2, tau=tau)
    assert torch.allclose(found, numeric(function, Z, Z2), atol=1e-8)
    # Views that are the images: there is one place only for the weights.
    at_images = gradient("exact", X, X, X, tau=tau)
    assert torch.allclose(gradient("exact-views", X, X, tau=tau), at_images, atol=1e-12)
    assert not torch.allclose(found, gradient("exact", Z, Z2, X, tau=tau), atol=1e-3)


@pytest.mark.parametrize(("exact", "whole"), [("exact", "nce-pairwise"), ("exact-shared", "nce")])
def test_without_augmentation_there_is_no_residue(exact, whole):
    """And with it there is: the gradients differ."""
    assert torch.allclose(gradient(exact, X, X, X), gradient(whole, X, X), atol=1e-12)
    assert not torch.allclose(gradient(exact, Z, Z2, X), gradient(whole, Z, Z2), atol=1e-3)
    # The other loss's weights are others, whatever the length of its gradient.
    other = {"exact": "nce", "exact-shared": "nce-pairwise"}[exact]
    own, others = gradient(exact, X, X, X).flatten(), gradient(other, X, X).flatten()
    assert torch.cosine_similarity(own, others, dim=0) < 0.999


def test_all_are_finite_in_float32_at_the_extremes():
    flat = torch.ones(N, D) / 2  # collapsed
    far = torch.eye(N, D)
    for name in LOSSES:
        for z in (flat, far, Z.float()):
            a = z.clone().requires_grad_()
            value = loss(name, a, z, z)
            value.backward()
            assert value.isfinite() and a.grad.isfinite().all(), name
            assert value.dtype == torch.float32


def test_the_temperature_is_the_paper_s_where_none_is_given():
    for name in LOSSES:
        tau = 5.0 if name == "square" else 0.5
        assert LOSSES[name].settings["tau"] == tau
        assert loss(name, Z, Z2, X).equal(loss(name, Z, Z2, X, tau=tau))
        assert not torch.allclose(loss(name, Z, Z2, X), loss(name, Z, Z2, X, tau=tau / 2))


def test_images_in_another_order_change_nothing():
    order = torch.from_numpy(np.random.default_rng(0).permutation(N))
    for name in LOSSES:
        moved = loss(name, Z[order], Z2[order], X[order])
        assert abs(float(moved - loss(name, Z, Z2, X))) < 1e-12
        assert abs(float(loss(name, Z2, Z, X) - loss(name, Z, Z2, X))) < 1e-12


def test_errors(unchecked_shapes):
    with pytest.raises(ValueError, match=r"loss: expected one of infonce, .*, got 'simclr'"):
        loss("simclr", Z, Z2)
    with pytest.raises(ValueError, match=r"settings of 'nce' in \['tau'\], got 'gamma'"):
        loss("nce", Z, Z2, gamma=2.0)
    with pytest.raises(ValueError, match="x: 'exact' needs the outputs of the un-augmented"):
        loss("exact", Z, Z2)
    with pytest.raises(ValueError, match="negative for every sample"):
        loss("nce", Z[:1], Z2[:1])
    with pytest.raises(ValueError, match="temperature"):
        loss("nce", Z, Z2, tau=0.0)
    for name in ("nce-pairwise", "exact-shared", "inverse-released"):
        with pytest.raises(ValueError, match="temperature"):
            loss(name, Z, Z2, X, tau=0.0)
    with pytest.raises(ValueError, match="gamma"):
        loss("inverse-released", Z, Z2, gamma=0.0)
