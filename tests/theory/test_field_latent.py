"""The laws of the random latent models: chances, states, inputs, and that they are drawn apart."""

from itertools import product

import numpy as np
import pytest
from scipy.special import ndtr

from clcore import random as cr
from clcore.reference import kolmogorov
from clcore.theory.two_layer import field_latent

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def models():
    """Of two values of z, two fields, three states and two inputs: prior, table, values."""
    keys = cr.split(cr.key(0), 8000)
    return tuple(v.numpy() for v in field_latent.draw(keys, 2, 2, 3, 2))


def test_chances_are_uniform_on_their_simplex_and_inputs_normal(models):
    """Of z: two numbers of [0.1, 1] over their sum. Kolmogorov's statistic times the root of the
    sample is above 3 with a chance of 3e-8."""
    prior, table, values = models
    odds = prior.min(-1) / prior.max(-1)
    # Of two uniform numbers of [0.1, 1], P(smaller / larger < r) = (r - 0.1)^2 / (0.81 r).
    assert kolmogorov((odds - 0.1) ** 2 / (0.81 * odds), 0, 1) < 3
    assert prior.sum(-1) == pytest.approx(1) and table.sum(-1) == pytest.approx(1)
    for c, k in product(range(2), range(2)):
        assert kolmogorov((1 - table[:, c, k, 0]) ** 2, 0, 1) < 3
        assert kolmogorov(ndtr(values[:, c, k, 1]), 0, 1) < 3


def test_prior_table_and_inputs_are_drawn_apart(models):
    """Correlations of every two of their numbers and squares, in standard errors."""
    flat = [v.reshape(len(v), -1) for v in models]
    both = [np.concatenate([v, (v - v.mean(0)) ** 2], -1) for v in flat]
    unit = [(v - v.mean(0)) / v.std(0) for v in both]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(unit[a].T @ unit[b]).max() / np.sqrt(len(unit[a])) < 6
