"""The checks of nl Sec. 2 and of its one-layer section: what holds, what fails as printed."""

import numpy as np
import pytest
import torch
from chapter_checks import run_check

from clcore import one_layer
from clcore.checks import (
    nl_activation,
    nl_covariance,
    nl_eigenvectors,
    nl_limits,
    plane,
)

pytestmark = pytest.mark.usefixtures("one_thread")
# (claim, part) that fail as printed and hold as corrected.
CORRECTED = {
    ("nl/eq25", "shorthand of the later version"),
}
ROWS = {
    nl_covariance: ("eq1", "eq2", "eq3", "eq25", "rem1", "def1", "def2", "lem1"),
    nl_limits: ("lem2", "eq32", "eq41", "cor1"),
    nl_activation: ("eq5", "rem2", "rem3", "eq6", "lem3", "rem4", "rem5"),
    nl_eigenvectors: ("def3", "rem6", "eq43", "rem7", "ex1", "ex2", "num1", "rem8"),
}


CASES = [pytest.param(m, f"nl/{name}", id=name) for m, names in ROWS.items() for name in names]


@pytest.mark.parametrize(("module", "claim"), CASES)
def test_check(module, claim):
    run_check(module, claim, CORRECTED, draws=6)


def test_other_draws_are_other_numbers():
    first, again, other = (
        [check.measured for check in nl_limits.eq32(6, seed)] for seed in (0, 0, 1)
    )
    assert first == again != other


def test_a_lone_sample_shows_what_i_equal_to_j_adds_to_eq25():
    """N = 1, alpha_11 = 1: Eq. 3 gives -(a - a')^2 / 2, Eqs. 23 and 24 empty sums."""
    a, a2, ones = (torch.full((1, 1), v, dtype=torch.float64) for v in (3.0, 1.0, 1.0))
    world = one_layer.of_views(ones, a, a2)
    assert one_layer.covariance(world, torch.cat([a, a2])).item() == -2


def test_quadrature_in_the_plane():
    law = plane.draw(np.random.default_rng(0))
    x, p = plane.grid(law, 0.3)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert p @ x == pytest.approx(law.share @ law.mean, abs=1e-12)
    w = plane.direction(0.3)
    on = (x @ w > 0) + 0.2 * (x @ w <= 0)
    gated = on[:, None] * x
    centred = gated - p @ gated
    direct = (p[:, None] * centred).T @ centred
    assert np.allclose(plane.operator(law, 0.3, 0.2), direct, atol=1e-12)
