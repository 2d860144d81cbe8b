"""Every check of the dual linear network: what holds, what fails as printed, controls that fail."""

import pytest
import torch

from clcore.checks.dynamics import linear_theorem
from clcore.ledger import registry
from clcore.ledger.trial import generator
from clcore.theory.sparse import linear_noncontrastive as ln

STEPS = ("grad0", "mom", "grad", "step", "sum", "sub", "exp", "c1", "mono", "lam0", "laminf")
pytestmark = pytest.mark.usefixtures("one_thread")


def test_other_draws_are_other_numbers():
    first, again, other = (
        [check.measured for check in registry.function("ncl/thm2-sum")(9, seed)]
        for seed in (0, 0, 1)
    )
    assert first == again != other


def test_counterexamples_shown():
    one = torch.ones(1, 1, dtype=torch.float64)
    c, lam = torch.tensor([0.1], dtype=torch.float64), torch.tensor([0.9], dtype=torch.float64)
    path = ln.trajectory(ln.Pair(one, 0 * one), one, 1.0, c / 2, lam)
    # Online 0.8 + 0.1, target 0.1: C_1 = 0.8 and C_2 = c_0 = 0.1, not c_0 (lambda_0 - c_0) = 0.08.
    assert [float(w[1, 0, 0]) for w in path] == pytest.approx([0.9, 0.1])
    own, shared = ln.coefficients(c, c)
    assert (float(own[1]), float(shared[1])) == pytest.approx((0, 0.1))


def test_counterexamples_to_theorem_2():
    start = ln.Pair(torch.zeros(1, 2, dtype=torch.float64), torch.tensor([[1.0, 0.0]]).double())
    eye, rate = torch.eye(2, dtype=torch.float64), torch.tensor([0.1], dtype=torch.float64)
    for decay in (0.3, 0.9):
        for kind, second in (("binary", 0.002), ("signed", 0.0)):
            moment = ln.second_moment(eye, ln.latent_moment(2, 0.2, kind), 0.0)
            path = ln.trajectory(start, moment, 0.5, rate, torch.full((1,), decay).double())
            assert path.online[1, 0].tolist() == pytest.approx([0.01, second])
    # A decay of 1e-3, below c, and 1469 that bring the sum of the networks back to its size.
    c = ln.coupling(torch.full((1470,), 0.01, dtype=torch.float64), 0.5, 0.5, 0.5)
    decays = torch.full((1470,), 0.9999, dtype=torch.float64)
    decays[0] = 1e-3
    own, shared = ln.coefficients(c, decays)
    assert c.tolist() == pytest.approx([0.00375] * 1470)
    assert float(own[-1]) == pytest.approx(-9.5e-6, rel=0.01)
    assert float(shared[-1]) == pytest.approx(0.501, abs=5e-4)
    assert float(own[-1] + 2 * shared[-1]) == pytest.approx(1.0025, abs=5e-5)


def test_scalars_of_random_networks_are_the_products():
    rng = generator("test", 0)
    lam, share = rng.uniform(0.1, 0.9, (2, 5, 3))
    own, shared = linear_theorem.found(rng, lam, share)
    minus, plus = ((lam * (1 + sign * share)).cumprod(-1) for sign in (-1, 1))
    assert own == pytest.approx(minus) and shared == pytest.approx((plus - minus) / 2)
    assert linear_theorem.of_limit(rng, share[:, 0]) == pytest.approx(share[:, 0])


def test_a_term_without_slope_at_the_boundary():
    """c_0 (lambda_0 - c_0)(lambda_1 - c_1) at lambda_1 = c_1."""
    inside, edge, total = registry.function("ncl/thm2-mono")(6, 0)
    assert inside.measured > inside.bound > 0 == edge.measured == edge.bound
    assert total.measured > 0 and list(total.control.values()) == [0]
