"""Dual linear networks against autograd, loops over masks, hand-made steps and dense grids."""

from itertools import product

import numpy as np
import pytest
import torch

from clcore import random as cr
from clcore.theory.sparse import linear_noncontrastive as ln
from clcore.theory.sparse import sparse_coding as sc

F = torch.float64
pytestmark = pytest.mark.usefixtures("one_thread")


def world(p: int, d: int, m: int, seed: int = 0) -> tuple[ln.Pair, torch.Tensor]:
    key = cr.key(seed)
    W = cr.normal(cr.fold_in(key, 1), (2, m, p), F)
    return ln.Pair(W[0], W[1]), sc.dictionary(cr.fold_in(key, 2), p, d, F)


def schedule(T: int) -> tuple[torch.Tensor, torch.Tensor]:
    key = cr.key(7)
    return cr.uniform(key, T, 0.05, 0.3, F), cr.uniform(cr.fold_in(key, 1), T, 0.5, 0.99, F)


def test_latent_moments_by_enumeration():
    beta, d = 0.3, 3
    for kind, values in (("signed", (-1, 0, 1)), ("nonzero", (-1, 0, 1)), ("binary", (0, 1))):
        share = {0: 1 - beta, 1: beta / (len(values) - 1), -1: beta / 2}
        total, moment = 0.0, torch.zeros(d, d, dtype=F)
        for z in product(values, repeat=d):
            if kind == "nonzero" and not any(z):
                continue
            chance = share[z[0]] * share[z[1]] * share[z[2]]
            v = torch.tensor(z, dtype=F)
            total, moment = total + chance, moment + chance * torch.outer(v, v)
        assert torch.allclose(ln.latent_moment(d, beta, kind), moment / total, atol=1e-14)


def test_second_moment_of_samples():
    _, M = world(4, 2, 1)
    key = cr.key(3)
    z = sc.latents(key, 200_000, 2, 0.3, "binary", F)
    x = sc.samples(cr.fold_in(key, 1), M, z, 0.5)
    moment = ln.second_moment(M, ln.latent_moment(2, 0.3, "binary"), 0.5)
    assert (x.mT @ x / len(x) - moment).abs().max() < 0.01
    both = ln.second_moment(
        torch.stack([M, M]), ln.latent_moment(2, 0.3), torch.tensor([0.0, 2.0], dtype=F)
    )
    assert torch.allclose(both[1] - both[0], 4 * torch.eye(4, dtype=F))


def test_loss_over_all_masks():
    W, M = world(3, 2, 4)
    keep, noise = 0.3, 0.7
    moment = ln.second_moment(M, ln.latent_moment(2, 0.4), noise)
    root = torch.linalg.cholesky(moment)  # three samples with this second moment
    value = torch.tensor(2.0, dtype=F)
    for first in product((0.0, 1.0), repeat=3):
        for second in product((0.0, 1.0), repeat=3):
            kept = sum(first) + sum(second)
            share = keep**kept * (1 - keep) ** (6 - kept)
            D1, D2 = torch.tensor(first, dtype=F), torch.tensor(second, dtype=F)
            for x in root.T:
                value = value - 2 * share * (W.online @ (D1 * x)) @ (W.target @ (D2 * x))
    assert float(ln.loss(W, moment, keep)) == pytest.approx(float(value), rel=1e-12)


def test_gradient_is_that_of_the_loss():
    W, M = world(5, 3, 4)
    moment = ln.second_moment(M, ln.latent_moment(3, 0.4, "binary"), 0.2)
    free = ln.Pair(*(w.clone().requires_grad_() for w in W))
    slopes = torch.autograd.grad(ln.loss(free, moment, 0.6), free)
    assert torch.allclose(slopes[0], ln.gradient(W.target, moment, 0.6), rtol=1e-12)
    assert torch.allclose(slopes[1], ln.gradient(W.online, moment, 0.6), rtol=1e-12)


@pytest.mark.parametrize("alternating", [False, True])
def test_trajectory_by_hand(alternating):
    W, M = world(4, 2, 3)
    moment = ln.second_moment(M, ln.latent_moment(2, 0.4), 0.3)
    rates, decays = schedule(3)
    path = ln.trajectory(W, moment, 0.5, rates, decays, alternating)
    a, b = W
    for t in range(3):
        push = 0.5 * rates[t]  # 2 eta keep^2
        new = decays[t] * a + push * b @ moment
        b = decays[t] * b + push * (new if alternating else a) @ moment
        a = new
        assert torch.allclose(path.online[t + 1], a) and torch.allclose(path.target[t + 1], b)
    assert torch.equal(path.online[0], W.online) and len(path.target) == 4


def test_runs_do_not_see_each_other():
    (one, M), (two, N) = world(4, 2, 3), world(4, 2, 3, seed=5)
    rates, decays = schedule(6)
    both = ln.Pair(*(torch.stack(pair) for pair in zip(one, two, strict=True)))
    moments = ln.second_moment(torch.stack([M, N]), ln.latent_moment(2, 0.4), 0.3)
    keep = torch.tensor([0.5, 0.8], dtype=F)
    path = ln.trajectory(both, moments, keep, torch.stack([rates, 2 * rates]), decays)
    alone = ln.trajectory(two, moments[1], 0.8, 2 * rates, decays)
    assert torch.allclose(path.online[:, 1], alone.online, rtol=1e-13)


def test_closed_forms_on_and_off_the_dictionary():
    W, M = world(6, 2, 3)
    rates, decays = schedule(20)
    keep, beta, noise = 0.5, 0.4, 0.3
    moment = ln.second_moment(M, ln.latent_moment(2, beta), noise)
    path = ln.trajectory(W, moment, keep, rates, decays)
    on = [ln.on_dictionary(w, M) for w in W]
    off = [w - v for w, v in zip(W, on, strict=True)]
    expected = 0
    for part, share in ((on, beta), (off, 0.0)):
        c = ln.coupling(rates, keep, share, noise)
        own, shared = (v[:, None, None] for v in ln.coefficients(c, decays))
        expected = expected + own * part[0] + shared * (part[0] + part[1])
    assert torch.allclose(path.online, expected, rtol=1e-12, atol=1e-13)


def test_coefficients_of_two_steps():
    c, lam = torch.tensor([0.1, 0.2], dtype=F), torch.tensor([0.9, 0.7], dtype=F)
    own, shared = ln.coefficients(c, lam)
    assert own.tolist() == pytest.approx([1, 0.8, 0.8 * 0.5])
    assert shared.tolist() == pytest.approx([0, 0.1, 0.1 * 0.5 + 0.2 * 1.0])


def test_coupling_moment_loss_and_scalars_by_loops():
    rng, n, steps = np.random.default_rng(0), 5, 4
    keys = cr.split(cr.key(9), n)
    M = torch.stack([sc.dictionary(key, 5, 3, F) for key in keys])
    W = rng.standard_normal((2, n, 4, 5))
    eta, lam = rng.uniform(0.1, 0.5, (n, steps)), rng.uniform(0.3, 0.9, (n, steps))
    keep, beta, noise = rng.uniform(0.2, 0.8, (3, n))
    latent = rng.standard_normal((3, 3))
    latent = latent @ latent.T
    c = ln.coupling(*map(torch.from_numpy, (eta, keep, beta, noise)))
    moment = ln.second_moment(M, torch.from_numpy(latent), torch.from_numpy(noise))
    pair = ln.Pair(*torch.from_numpy(W))
    values = ln.loss(pair, moment, torch.from_numpy(keep))
    own, shared = ln.coefficients(c, torch.from_numpy(lam))
    for k in range(n):
        right = M[k].numpy() @ latent @ M[k].numpy().T + np.diag([noise[k] ** 2] * 5)
        assert moment[k].numpy() == pytest.approx(right, abs=1e-13)
        overlap = sum(W[0, k, i] @ right @ W[1, k, i] for i in range(4))
        assert float(values[k]) == pytest.approx(2 - 2 * keep[k] ** 2 * overlap, abs=1e-12)
        first, both = 1.0, 0.0  # W^o = first A + both (A + B), W^t = first B + both (A + B)
        for s in range(steps):
            assert float(own[k, s]) == pytest.approx(first, abs=1e-13)
            assert float(shared[k, s]) == pytest.approx(both, abs=1e-13)
            step = 2 * eta[k, s] * keep[k] ** 2 * (beta[k] + noise[k] ** 2)
            assert float(c[k, s]) == pytest.approx(step, abs=1e-14)
            both = lam[k, s] * both + step * (first + both)
            first = (lam[k, s] - step) * first
        assert float(own[k, -1]) == pytest.approx(first, abs=1e-13)
        assert float(shared[k, -1]) == pytest.approx(both, abs=1e-13)


def test_alternate_takes_the_new_online_network():
    start = ln.Pair(*torch.tensor([[[1.0]], [[2.0]]], dtype=F))
    after = ln.alternate(lambda a, b: (a * b * b).sum(), start, 0.25)
    # 1 - 2^2 / 4 = 0 moves first, so that the target feels no force.
    assert [float(w) for w in after] == [0.0, 2.0]
    assert float(start.online) == 1.0 and not after.target.requires_grad


def test_alternate_does_not_differentiate_through_the_start():
    W = cr.normal(cr.key(4), (2, 3, 4), F).requires_grad_()
    given = []

    def loss(own, other):
        given.append((own.requires_grad, other.requires_grad))
        return (own * other).sum() + (own**2).sum()

    for start in (ln.Pair(*W), ln.Pair(*W.detach())):
        assert not any(w.requires_grad for w in ln.alternate(loss, start, 0.1))
    assert given == [(True, False)] * 4


def test_projection():
    W, M = world(5, 2, 3)
    flat = ln.on_dictionary(W.online, M)
    assert torch.allclose(flat @ M, W.online @ M) and torch.allclose(
        ln.on_dictionary(flat, M), flat
    )
    assert torch.linalg.matrix_rank(flat) == 2


def test_best_combination_in_the_plane():
    start = ln.Pair(*torch.eye(2, dtype=F)[:, None])  # rows e_1 and e_2, one neuron
    found = ln.best_combination(start, torch.eye(2, dtype=F))
    assert float(found["maximum"]) == pytest.approx(1, abs=1e-12)
    assert float(found["minimum"]) == pytest.approx(0.5**0.5, abs=1e-9)
    assert float(found["median"]) == pytest.approx(0.5**0.5, abs=1e-9)
    assert {k: float(v) for k, v in ln.best_per_neuron(start, torch.eye(2, dtype=F)).items()} == {
        "minimum": pytest.approx(1),
        "median": pytest.approx(1),
        "maximum": pytest.approx(1),
    }


def test_best_combination_is_the_best():
    for seed in range(4):
        start, M = world(8, 5, 6, seed)
        found = ln.best_combination(start, M)
        angles = torch.linspace(0, torch.pi, 20_001, dtype=F)[:, None, None]
        W = angles.cos() * start.online + angles.sin() * start.target
        dense = {k: float(v.max()) for k, v in sc.summary(sc.max_cosine(W, M)).items()}
        for name, value in found.items():
            assert dense[name] - 1e-12 <= float(value) <= dense[name] + 1e-3
        neuron = ln.best_per_neuron(start, M)
        assert float(found["maximum"]) == pytest.approx(float(neuron["maximum"]), abs=1e-12)
        assert all(float(found[k]) <= float(neuron[k]) + 1e-9 for k in found)
        assert float(neuron["median"]) > float(found["median"]) + 1e-3


def highest(one, two, M, name, grid=2000):
    """A metric of the best combination of two nets: the five highest tops of a grid of angles, each
    narrowed by the golden section."""
    pick = {"minimum": np.min, "median": np.median, "maximum": np.max}[name]
    length = np.linalg.norm(M, axis=0)

    def metric(angle):
        a = np.asarray(angle)[..., None, None]
        W = np.cos(a) * one + np.sin(a) * two
        best = np.abs(W @ M / np.linalg.norm(W, axis=-1, keepdims=True) / length).max(-2)
        return pick(best, -1)

    step = np.pi / grid
    values = metric(step * np.arange(grid))
    tops = np.flatnonzero((values >= np.roll(values, 1)) & (values >= np.roll(values, -1)))
    middle = step * tops[np.argsort(-values[tops])[:5]]
    low, high, golden = middle - step, middle + step, (5**0.5 - 1) / 2
    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        rises = metric(left) < metric(right)
        low, high = np.where(rises, left, low), np.where(rises, high, right)
    return float(metric((low + high) / 2).max())


@pytest.mark.parametrize(("p", "d", "m"), [(3, 3, 4), (6, 3, 5)])
def test_best_combinations_by_another_search_whatever_the_columns_lengths(p, d, m):
    (start, M), lengths = world(p, d, m, seed=3), torch.tensor([0.3, 1.0, 2.7], dtype=F)
    for columns in (M, M * lengths):
        found = ln.best_combination(start, columns)
        for name, value in found.items():
            right = highest(*(x.numpy() for x in (*start, M)), name)
            assert float(value) == pytest.approx(right, abs=1e-8)
        rows = np.linalg.svd(torch.stack([*start], 1).numpy(), full_matrices=False)[2]  # m 2 p
        seen = np.sqrt(((rows @ M.numpy()) ** 2).sum(1))
        assert ln.reach(start, columns).numpy() == pytest.approx(seen, abs=1e-12)
        best = sc.summary(torch.from_numpy(seen.max(0)))
        assert ln.best_per_neuron(start, columns) == {
            name: pytest.approx(float(value), abs=1e-12) for name, value in best.items()
        }
    inside = M.numpy() @ np.linalg.lstsq(M.numpy(), start.online.numpy().T, rcond=None)[0]
    assert ln.on_dictionary(start.online, M).numpy() == pytest.approx(inside.T, abs=1e-12)


def test_reach_is_the_angle_to_a_plane():
    start, M = world(7, 4, 3)
    basis = torch.stack([start.online[1], start.target[1]], -1)
    ab = torch.linalg.lstsq(basis, M[:, 2:3]).solution
    near = (basis @ ab)[:, 0]
    expected = float(near @ M[:, 2] / near.norm())
    assert float(ln.reach(start, M)[1, 2]) == pytest.approx(expected, rel=1e-12)


def test_better_than_every_combination_where_the_dictionary_is_thin():
    # The counterexample to Corollary 1: every combination has cosine 1/sqrt(2).
    start = ln.Pair(*torch.ones(2, 1, 2, dtype=F))
    M = torch.tensor([[1.0], [0.0]], dtype=F)
    moment = ln.second_moment(M, ln.latent_moment(1, 0.2), 0.0)
    rates = torch.full((100,), 0.5, dtype=F)
    c = ln.coupling(rates, 0.5, 0.2, 0.0)
    path = ln.trajectory(start, moment, 0.5, rates, 1 - c)
    assert path.online[-1, 0].tolist() == pytest.approx([1, 0.95**100])
    cosines = sc.max_cosine(path.online, M)[1:, 0]
    assert bool((cosines > 0.5**0.5 + 0.01).all()) and float(cosines[-1]) > 0.9999
    found = ln.best_combination(start, M)
    assert all(float(v) == pytest.approx(0.5**0.5) for v in found.values())


@pytest.mark.usefixtures("unchecked_shapes")
def test_errors():
    W, M = world(4, 2, 3)
    moment = ln.second_moment(M, ln.latent_moment(2, 0.4), 0.3)
    half, T = torch.full((5,), 0.5, dtype=F), torch.full((4,), 0.5, dtype=F)
    for match, call in (
        ("M: expected p >= d, .* got p=2, d=4", lambda: ln.second_moment(M.T, torch.eye(4), 0.1)),
        (
            "M: expected orthonormal columns, .* see sparse_coding.dictionary",
            lambda: ln.second_moment(2 * M, ln.latent_moment(2, 0.4), 0.1),
        ),
        (
            r"latent: expected shape \(2, 2\) for d=2, got \(3, 3\)",
            lambda: ln.second_moment(M, ln.latent_moment(3, 0.4), 0.1),
        ),
        ("beta: expected 0 < beta <= 1, got 1.5", lambda: ln.latent_moment(2, 1.5)),
        ("kind: expected signed, nonzero or binary", lambda: ln.latent_moment(2, 0.5, "plain")),
        ("keep: expected 0 < keep <= 1, got 0", lambda: ln.loss(W, moment, 0.0)),
        (
            "weights: expected 4 columns, .* got 3",
            lambda: ln.gradient(W.online[:, :3], moment, 0.5),
        ),
        (
            r"start: expected networks of one shape, got \(3, 4\) and \(2, 4\)",
            lambda: ln.trajectory(ln.Pair(W.online, W.target[:2]), moment, 0.5, half, half),
        ),
        (
            "rates, decays: expected one of each a step, got 5 rates and 4 decays",
            lambda: ln.trajectory(W, moment, 0.5, half, T),
        ),
        (
            "rates: expected positive learning rates, got -0.5",
            lambda: ln.trajectory(W, moment, 0.5, -half, half),
        ),
        (
            "decays: expected factors 0 < lambda <= 1 .* got values from 1.5 to 1.5",
            lambda: ln.coefficients(half, 3 * half),
        ),
        ("grid: expected at least 32 angles, got 4", lambda: ln.best_combination(W, M, 4)),
        ("start: expected rows of 2 entries, .* got 4", lambda: ln.best_combination(W, M[:2])),
    ):
        with pytest.raises(ValueError, match=match):
            call()
