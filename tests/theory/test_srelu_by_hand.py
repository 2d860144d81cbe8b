"""Symmetric-ReLU dynamics in any region, at kinks and at the ends of Assumption 3's interval,
against loops over latents, masks and draws in numpy."""

from itertools import product

import numpy as np
import pytest
import torch

from clcore.theory.sparse import srelu_dynamics as sd

pytestmark = pytest.mark.usefixtures("one_thread")
D, DRAWS = 3, 12
LATENTS = np.array(list(product((-1.0, 0.0, 1.0), repeat=D)))
MASKS = np.array(list(product((0.0, 1.0), repeat=D)))


def law(points, inside, outside):
    """Chances of points with independent entries: `inside` where one is not 0."""
    return np.array([np.prod([inside if v else outside for v in point]) for point in points])


def push(held, b_held, moved, b, alpha, kappa):
    """-dL/dW of the net that moves, [D, D], from Eq. 13: a sum over latents and masks."""
    keep, total = law(MASKS, alpha, 1 - alpha), np.zeros((D, D))
    for point, chance in zip(LATENTS, law(LATENTS, kappa / 2, 1 - kappa), strict=True):
        x = MASKS * point
        u = x @ held.T
        output = np.where(u > b_held, u - b_held, np.where(u < -b_held, u + b_held, 0.0))
        passed = (np.abs(x @ moved.T) > b) * keep[:, None]
        total += 2 * chance * (keep @ output)[:, None] * (passed.T @ x)
    return total


def tensors(*arrays):
    return tuple(torch.from_numpy(np.ascontiguousarray(a)) for a in arrays)


def test_the_exact_slope_is_the_sum_in_any_region():
    rng = np.random.default_rng(0)
    nets = 0.6 * rng.standard_normal((2, DRAWS, D, D))
    b = rng.uniform(0.2, 0.8, (2, DRAWS, D))
    alpha, kappa = rng.uniform(0.3, 0.95, DRAWS), rng.uniform(0.2, 0.9, DRAWS)
    field = sd.exact_slope(sd.views(*sd.latents(*tensors(kappa), D), *tensors(alpha)))
    found = field(*tensors(nets[0], b[0]))(*tensors(nets[1], b[1])).numpy()
    for k in range(DRAWS):
        right = push(nets[0, k], b[0, k], nets[1, k], b[1, k], alpha[k], kappa[k])
        assert found[k] == pytest.approx(-right, abs=1e-13)


def test_at_a_kink_the_slope_is_autograd_s():
    """Where |u| is b itself ReLU has the slope 0; entries are halves, so that ties are exact."""
    rng = np.random.default_rng(1)
    W, other = rng.choice([-1.0, -0.5, 0.5, 1.0], (2, DRAWS, D, D))
    b, b2 = rng.choice([0.5, 1.0], (2, DRAWS, D))
    alpha, kappa = tensors(*rng.uniform(0.3, 0.9, (2, DRAWS)))
    seen = sd.views(*sd.latents(kappa, D), alpha)
    online = torch.from_numpy(W).requires_grad_()
    value = sd.loss(online, *tensors(other, b, b2), seen).sum()
    (right,) = torch.autograd.grad(value, online)
    field = sd.exact_slope(seen)(*tensors(other, b2))
    assert torch.allclose(field(*tensors(W, b)), right, atol=1e-13)
    assert (field(*tensors(W, b - 1e-9)) - right).abs().max() > 1e-3  # there are ties


def test_separated_is_what_every_latent_and_mask_says():
    rng, count = np.random.default_rng(2), 300
    W = np.eye(D) + rng.uniform(-0.4, 0.4, (count, D, D))
    b = rng.uniform(0.05, 1.2, (count, D))
    x = (MASKS[:, None] * LATENTS).reshape(-1, D)
    u = np.einsum("rij,nj->rni", W, x)
    beyond, sign = np.abs(u) > b[:, None], np.sign(u) == np.sign(x)
    quiet = ~(beyond & (x == 0)).any(1)  # nothing passes where the row's own latent is not shown
    loud = ((beyond & sign) | (x == 0)).all(1)  # and all does, with its sign, where it is
    found = sd.separated(*tensors(W, b)).numpy()
    assert (found == (quiet & loud)).all()
    assert (found != quiet).any() and (found != loud).any()


@pytest.mark.parametrize("noise", [0.0, 0.125])
def test_ends_of_the_biases_are_open(noise):
    """Entries and noise are multiples of 1/8, so that sums are exact."""
    rng, off = np.random.default_rng(3), ~np.eye(D, dtype=bool)
    W = np.eye(D) + rng.choice([-0.125, 0.0, 0.125], (DRAWS, D, D)) * off
    low = np.array([[sum(abs(np.delete(w[i], i))) for i in range(D)] for w in W])
    low = low + noise * np.array([[sum(abs(row)) for row in w] for w in W])
    found = sd.bias_range(*tensors(W), noise)
    assert (found[0].numpy() == low).all() and (found[1].numpy() == 1 - low).all()
    for end, inside in ((low, 1e-9), (1 - low, -1e-9)):
        assert not sd.separated(*tensors(W, end), noise).any()
        assert sd.separated(*tensors(W, end + inside), noise).all()


@pytest.mark.parametrize("normalise", [True, False])
def test_half_rounds_by_loops(normalise):
    """Each net takes three steps against the other where that then is."""
    rng, count, rounds, steps = np.random.default_rng(4), 3, 2, 3
    nets = 0.6 * rng.standard_normal((2, count, D, D))
    b = rng.uniform(0.05, 0.3, (2, count, D))
    alpha, kappa, eta = rng.uniform(0.4, 0.9, (3, count))
    slope = sd.exact_slope(sd.views(*sd.latents(*tensors(kappa), D), *tensors(alpha)))
    start = tensors(*nets, *b)
    found = sd.alternate(*start, slope, *tensors(eta), rounds, steps, normalise).numpy()
    assert len(found) == 1 + 2 * rounds
    assert (found[0] == nets).all()
    for k in range(count):
        now = [nets[0, k], nets[1, k]]
        for half, path in enumerate(found[1:, :, k]):
            i = half % 2
            for _ in range(steps):
                pushed = push(now[1 - i], b[1 - i, k], now[i], b[i, k], alpha[k], kappa[k])
                now[i] = now[i] + eta[k] * pushed
                if normalise:
                    now[i] = now[i] / np.linalg.norm(now[i], axis=-1, keepdims=True)
            assert path == pytest.approx(np.array(now), abs=1e-10)


def test_latents_with_noise_are_listed_with_their_chances():
    values, weights, kappa = (-0.5, 0.25, 2.0), (0.2, 0.5, 0.3), 0.35
    z, mass = sd.latents(*tensors(np.array([kappa])), 2)
    x, chance = sd.noisy(z, mass, *tensors(np.array(values), np.array(weights)))
    wanted = {}
    for signs in product((-1, 0, 1), repeat=2):
        for shifts in product(range(3), repeat=2):
            point = tuple(s + values[k] for s, k in zip(signs, shifts, strict=True))
            chances = [1 - kappa if s == 0 else kappa / 2 for s in signs]
            wanted[point] = np.prod(chances) * np.prod([weights[k] for k in shifts])
    found = dict(zip(map(tuple, x.tolist()), chance[0].tolist(), strict=True))
    assert len(x) == len(wanted) == 81
    assert found == pytest.approx(wanted, abs=1e-14)


@pytest.mark.parametrize("variance", [0.0, 0.3])
def test_factor_of_a_half_round(variance):
    for alpha, kappa, b in np.random.default_rng(5).uniform(0.2, 0.8, (5, 3)):
        found = sd.rate(*tensors(*map(np.asarray, (alpha, kappa, b))), variance)
        right = alpha * alpha * (kappa + variance) / (1 + variance - b)
        assert float(found) == pytest.approx(right, abs=1e-14)
