"""What the generators of Assumption 1 draw: modes, amplitudes, factors, each apart from others.

Distribution functions in the scale of Kolmogorov's law (`kolmogorov`: above 3 with a chance of
3e-8), frequencies and correlations in standard errors.
"""

from itertools import combinations

import numpy as np
import pytest

from clcore import random
from clcore.reference import frequency, kolmogorov
from clcore.theory.relu import binary_latent
from clcore.theory.relu import orthogonal_mixture as om

pytestmark = pytest.mark.usefixtures("one_thread")
N, STANDARD_ERRORS = 8000, 5.0


def correlation(a, b):
    """In standard errors of numbers that are independent."""
    return np.sqrt(len(a)) * abs(np.corrcoef(a, b)[0, 1])


def test_one_field():
    modes = 4
    x, x2 = (v.numpy() for v in om.draw(random.key(1), N, modes))
    shown, mode, size = x.any(-1), x.argmax(-1), x.max(-1)
    factor = x2.max(-1)[shown] / size[shown]
    assert kolmogorov(size[shown], 0.5, 1.5) < 3 and kolmogorov(factor, 0.6, 1.4) < 3
    assert (mode[:modes] == np.arange(modes)).all()  # the first show a mode each
    assert frequency(~shown[modes:], 0.1) < STANDARD_ERRORS
    for k in range(modes):
        assert frequency(mode[shown] == k, 1 / modes) < STANDARD_ERRORS
        for values in (size[shown], factor):
            assert correlation((mode == k)[shown], values) < STANDARD_ERRORS
    assert correlation(size[shown], factor) < STANDARD_ERRORS


def test_fields_share_their_factor_or_nothing():
    own = [v.numpy() for v in om.draw_fields(random.key(2), N, 2, 4, shared=False)]
    one = [v.numpy() for v in om.draw_fields(random.key(2), N, 2, 4)]
    both = (own[0] > 0).any(-1).all(-1)
    sizes = own[0].max(-1)[both]
    for values in (sizes, own[1].max(-1)[both] / sizes, own[0].argmax(-1)[both]):
        assert correlation(*values.T) < STANDARD_ERRORS
    both = (one[0] > 0).any(-1).all(-1)
    first, second = (one[1].max(-1)[both] / one[0].max(-1)[both]).T
    assert kolmogorov(first, 0.6, 1.4) < 3
    np.testing.assert_allclose(first, second, rtol=1e-12)


@pytest.mark.parametrize("cover", [True, False])
def test_small_batches_sample_by_sample(cover):
    """The first show a mode each, where all are to be covered; every other one is free."""
    modes, n, empty = 3, 6, 0.35
    keys = random.split(random.key(3), 2000)
    how = {"amplitudes": (2.0, 3.0), "gamma": (0.3, 0.8), "empty": empty}
    x, x2 = (v.numpy() for v in om.draw(keys, n, modes, cover=cover, **how))
    shown, mode = x.any(-1), x.argmax(-1)
    first = modes if cover else 0
    assert shown[:, :first].all() and (mode[:, :first] == np.arange(first)).all()
    for k in range(first, n):
        assert frequency(~shown[:, k], empty) < STANDARD_ERRORS
        for m in range(modes):
            assert frequency(mode[shown[:, k], k] == m, 1 / modes) < STANDARD_ERRORS
    size = x.max(-1)[shown]
    assert kolmogorov(size, 2.0, 3.0) < 3
    assert kolmogorov(x2.max(-1)[shown] / size, 0.3, 0.8) < 3


def test_rows_of_pixels():
    field, length = 3, 13
    x, x2 = (v.numpy() for v in om.draw_line(random.key(4), N, length, field))
    on = x > 0
    first = on.argmax(1)
    period = (on & (np.arange(length) > first[:, None])).argmax(1) - first
    size, second = x[np.arange(N), first], x[np.arange(N), first + period]
    factor = x2[np.arange(N), first] / size
    assert kolmogorov(size, 0.5, 1.5) < 3 and kolmogorov(factor, 0.6, 1.4) < 3
    np.testing.assert_allclose(x2, factor[:, None] * x, atol=1e-9)
    assert (period >= field).all() and (period < field + 3).all() and (first < field).all()
    for gap in range(3):
        assert frequency(period == field + gap, 1 / 3) < STANDARD_ERRORS
        assert frequency(first == gap, 1 / field) < STANDARD_ERRORS
    assert correlation(size, second) < STANDARD_ERRORS
    assert correlation(period, first) < STANDARD_ERRORS
    shown = on.ravel()[:N]  # amplitudes in the order of pixels, the others in that of rows
    for values in (period, first, factor):
        assert correlation(values[shown], x.ravel()[:N][shown]) < STANDARD_ERRORS


def test_random_latent_models():
    """Laws of five states uniform on their simplex, P(one > s) = (1 - s)^4; amplitudes, chances of
    y, and the mode that a field shows twice."""
    model = binary_latent.draw(random.split(random.key(5), N), 2, 3)
    law, size = model.table.numpy(), model.values.numpy().max(-1)
    p1, sizes = model.p1.numpy(), [size[:, 0, 0], size[:, 1, 0], size[:, 0, 3]]
    for values in law[:, :, :, 0].reshape(N, -1).T:
        assert kolmogorov((1 - values) ** 4, 0, 1) < 3
    assert kolmogorov(p1, 0.05, 0.95) < 3
    for values in sizes:
        assert kolmogorov(values, 0.5, 1.5) < 3
    again = model.values.numpy()[:, :, 3].argmax(-1)
    for k in range(3):
        assert frequency(again[:, 0] == k, 1 / 3) < STANDARD_ERRORS
        assert frequency(again[:, 1] == k, 1 / 3) < STANDARD_ERRORS
    every = [p1, *sizes, *again.T, *law[:, :, :, 0].reshape(N, -1).T]
    for a, b in combinations(every, 2):
        assert correlation(a, b) < STANDARD_ERRORS
