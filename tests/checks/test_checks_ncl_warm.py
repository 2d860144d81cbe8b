"""Every check of ncl Theorem 3 and Lemma 1: what holds, what fails, that controls fail."""

import numpy as np
import pytest
import torch

from clcore import reference
from clcore.checks.dynamics import (
    contraction,
    srelu,
    srelu_gradients,
    srelu_push,
    srelu_rounds,
    srelu_starts,
)
from clcore.ledger import registry
from clcore.theory.sparse import srelu_dynamics as sd

pytestmark = pytest.mark.usefixtures("one_thread")


def test_other_draws_are_other_numbers():
    first, again, other = (
        [check.measured for check in registry.function("ncl/thm3-contr")(3, seed)]
        for seed in (0, 0, 1)
    )
    assert first == again != other


def test_the_printed_interval_is_not_enough_alone():
    """d = 2, W_11 = 1 - s, b between 1 - s and 1: the signal itself is cut off."""
    W, b = torch.tensor([[0.9, 0.0], [0.0, 1.0]]).double(), torch.tensor([0.95, 0.95]).double()
    low, high = sd.bias_range(W)
    assert bool(((low < b) & (b < high)).all())
    assert sd.separated(W, b).tolist() == [False, True]


def test_a_bias_for_the_start_only():
    """W^o = I with a tiny bias: once W^t's errors are in it, the factor is alpha kappa."""
    w = srelu_starts.warm(np.random.default_rng(0), 3, 3, 0.3)
    w = w._replace(online=np.stack([np.eye(3)] * 3), b_online=np.full((3, 3), 1e-9))
    path = srelu.scheme(w, rounds=2)
    factor = srelu_rounds.rest(path[2, 1]) / srelu_rounds.rest(path[1, 0])
    expected = np.broadcast_to((w.alpha * w.kappa)[:, None], factor.shape)
    assert factor == pytest.approx(expected, rel=0.02)


def test_the_factors_of_two_half_rounds():
    """Each over alpha^2 kappa: 1 / (1 + Delta_ii - b), and 1 / alpha times it with b^o overtaken.

    A second half-round holds W^o: then b^o stands in the bracket, a diagonal of about one with it.
    """
    rng = np.random.default_rng(1)
    w, shape = srelu_starts.warm(rng, 3, 3, 0.3), rng.uniform(0.5, 1, (3, 3, 3))
    errors, b = 0.01**2 * shape, 0.01
    own = np.repeat(1 + np.einsum("rii->ri", errors) - b, 2, -1)
    for tiny, more in ((b, 1.0), (1e-13, w.alpha[:, None])):
        first = srelu_rounds.factors(w, errors, b, tiny, 1)
        assert first * more == pytest.approx(1 / own, rel=1e-6)
        second = srelu_rounds.factors(w, errors, b, tiny, 2)
        assert second * more == pytest.approx(1 / (1 - tiny), rel=1e-6)


@pytest.mark.parametrize("half", [1, 2])
def test_factors_follow_from_where_half_rounds_end(half):
    """ncl/thm3-ratio, ncl/thm3-contr: factors of starts with b^o = b^4, a net at a time."""
    rng, b, off = np.random.default_rng(6), 0.1, ~np.eye(3, dtype=bool)
    w, errors = srelu_starts.warm(rng, 3, 3, 0.3), 0.01 * rng.uniform(-1, 1, (3, 3, 3))
    found = srelu_rounds.factors(w, errors, b, b**4, half)
    for k, (E, alpha, kappa) in enumerate(zip(errors, w.alpha, w.kappa, strict=True)):
        held, low, high = np.eye(3) + E, b**4 * np.ones(3), b * np.ones(3)
        rate = 2.5 / (alpha**2 * kappa)
        end = srelu_push.ends(held, high, np.eye(3), low, alpha, kappa, rate)
        if half == 2:
            held, end = end, srelu_push.ends(end, low, held, high, alpha, kappa, rate)
        expected = end / (np.diag(end)[:, None] * alpha**2 * kappa * held)
        assert found[k] == pytest.approx(expected[off], rel=1e-8)


def test_where_a_round_ends_from_a_bias_that_is_too_large():
    """ncl/thm3: b = 0.3 above 1 - alpha^2 kappa; steps without end in place of steps."""
    alpha, kappa, b, near = 0.95, 0.9, np.full(3, 0.3), np.eye(3) + 0.01 * (1 - np.eye(3))
    start = srelu_starts.Warm(*(np.array([v]) for v in (near, near, b, b, alpha, kappa)))
    online, target = near, near
    for _ in range(60):
        online = srelu_push.ends(target, b, online, b, alpha, kappa)
        target = srelu_push.ends(online, b, target, b, alpha, kappa)
    apart = max(np.abs(W - np.eye(3)).max() for W in (online, target))
    assert apart > 0.1
    end = srelu.scheme(start, rounds=60)[-1]
    assert srelu.from_identity(end)[0] == pytest.approx(apart, abs=1e-9)


def test_the_family_that_grows_with_d_is_inside_assumption_3():
    rng = np.random.default_rng(3)
    for d in (4, 5, 6, 8, 16, 32, 64, 128):
        W, b = reference.tensors(*srelu_gradients.even(rng, d, d**-1.75, d**-0.5))
        assert bool(sd.separated(W, b).all())
    W, b = reference.tensors(*srelu_gradients.even(rng, 8, 8**-1.5, 0.5 * 8**-0.5))
    assert not bool(sd.separated(W, b).any())


def test_the_push_on_a_moved_net():
    """The enumerated gradient of Eq. 13 against complex steps, where nothing is separated."""
    rng = np.random.default_rng(4)
    w = srelu_starts.warm(rng, 1, 3, 0.3)._replace(b_online=np.full((1, 3), 0.01))
    exact = reference.gradient(lambda net: 2 - 2 * srelu.brute(w, 0, net).sum(-1), w.online[:1])
    at = (w.target[0], w.b_target[0], w.online[0], w.b_online[0], w.alpha[0], w.kappa[0])
    assert -srelu_gradients.push(*at) == pytest.approx(exact[0], abs=1e-14)


def test_errors_that_both_biases_exceed_stay_below():
    """The corrected reading's sufficient condition, close to its edge, with steps of any length."""
    rng, count = np.random.default_rng(2), 8
    w = srelu_starts.wide(rng, count, 3)
    nets = np.eye(3) + 0.05 * rng.uniform(-1, 1, (2, count, 3, 3))
    off = np.abs(nets * (1 - np.eye(3))).sum(-1)
    b = 1.001 * (off / np.minimum(np.einsum("nrii->nri", nets), 1)).max(0)
    w = w._replace(online=nets[0], target=nets[1], b_online=b, b_target=b)
    online, target, b_online, b_target, alpha, kappa = reference.tensors(*w)
    slope = sd.exact_slope(sd.views(*sd.latents(kappa, 3), alpha))
    path = sd.alternate(online, target, b_online, b_target, slope, 0.2 / alpha**2 / kappa, 4, 6)
    assert bool(sd.separated(path, b_online.expand(path.shape[:-1])).all())


def test_enumerations_of_the_reference():
    z, D = srelu.signed(3), srelu.subsets(3)
    assert len(np.unique(z, axis=0)) == 27 and len(np.unique(D, axis=0)) == 8
    assert srelu.law(z, 0.1, 0.8).sum() == pytest.approx(1)
    values = srelu.by_cases(np.array([-2.0, -0.5, 0.5, 2.0]), np.array(0.5))
    assert values.tolist() == [-1.5, 0, 0, 1.5]


def test_counterexamples_to_the_proof_of_lemma_1():
    v, a, c = np.array([[1.0, 0.0, 0.0]]), np.zeros(1), np.array([0.5])
    after, norm = contraction.once(v, a, c)
    assert contraction.along(after, a) == pytest.approx(1)
    assert (contraction.along(v, a) + 2 * a**2 * c) / norm == pytest.approx(1 / 1.5)
    end = contraction.target(np.array([0.7]), 4)
    for solution in (end, -end):
        assert (solution**2).sum() == pytest.approx(1)
        assert contraction.gaps(solution, np.array([0.7])).max() == pytest.approx(0)
