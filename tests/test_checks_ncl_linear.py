"""Every check of the dual linear network: what holds, what fails as printed, controls that fail."""

import pytest
import torch
from chapter_checks import run_check

from clcore import linear_noncontrastive as ln
from clcore.checks import ncl_linear

STEPS = ("grad0", "mom", "grad", "step", "sum", "sub", "exp", "c1", "mono", "lam0", "laminf")
NAMES = ["def8", "eq12", "cor1", "thm2", *(f"thm2-{step}" for step in STEPS)]
pytestmark = pytest.mark.usefixtures("one_thread")
# (claim, part) that fail as printed and hold as corrected.
CORRECTED = {
    ("ncl/thm2-exp", "expansion"),
    ("ncl/thm2-lam0", "the value"),
    ("ncl/cor1", "p > d"),
    ("ncl/thm2-c1", "c <= lambda"),
}


def test_every_claim_has_a_function():
    assert sorted(ncl_linear.__all__) == sorted(name.replace("-", "_") for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_check(name):
    run_check(ncl_linear, f"ncl/{name}", CORRECTED, draws=6)


def test_other_draws_are_other_numbers():
    first, again, other = (
        [check.measured for check in ncl_linear.thm2_sum(9, seed)] for seed in (0, 0, 1)
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
