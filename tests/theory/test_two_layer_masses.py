"""Two layers on points of any masses, which need not sum to one, against loops over pairs and
complex steps; fields, filters, inputs and outputs of different numbers."""

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch

from clcore.reference import gradient
from clcore.theory.one_layer import one_layer
from clcore.theory.two_layer import two_layer

pytestmark = pytest.mark.usefixtures("one_thread")
SLOPE = 0.2
BELOW = {"linear": 1.0, "relu": 0.0, "leaky_relu": SLOPE}
DRAWS, POINTS, FIELDS, FILTERS, INPUTS, OUTPUTS = 3, 6, 3, 2, 4, 5


class Case(NamedTuple):
    """Points [draws, n, K, d], masses [draws, n], weights of pairs; W and V."""

    x: np.ndarray
    p: np.ndarray
    alpha: np.ndarray
    W: np.ndarray
    V: np.ndarray

    @property
    def world(self):
        """For the library."""
        return one_layer.World(*map(torch.from_numpy, (self.x, self.p, self.alpha)))

    @property
    def of_one(self):
        """The masses over their sum."""
        return self.p / self.p.sum(-1, keepdims=True)


def case(seed):
    """Random, alpha not symmetric, W not of norm one."""
    rng = np.random.default_rng(seed)
    sizes = (POINTS, FIELDS, INPUTS), (FIELDS, FILTERS, INPUTS), (OUTPUTS, FIELDS * FILTERS)
    x, W, V = (rng.standard_normal((DRAWS, *size)) for size in sizes)
    p, alpha = (rng.uniform(0.2, 1, (DRAWS, *size)) for size in ((POINTS,), (POINTS, POINTS)))
    return Case(x, p, alpha, W, V)


def outputs(x, W, kind):
    """h(w_km.x_k), [..., n, K*M], for real or complex W."""
    columns = []
    for k in range(FIELDS):
        for m in range(FILTERS):
            u = (x[:, :, k] * W[..., None, k, m, :]).sum(-1)
            columns.append(np.where(np.real(u) > 0, u, BELOW[kind] * u))
    return np.stack(columns, -1)


def energy(c, kind, sigma, V, W):
    """1/2 tr C_alpha[V f_1 / sigma], by a loop over pairs."""
    f, total = outputs(c.x, W, kind) / sigma @ V.swapaxes(-1, -2), 0.0
    for i in range(POINTS):
        for j in range(POINTS):
            weight = c.p[:, i] * c.p[:, j] * c.alpha[:, i, j] / 4
            total = total + weight * ((f[..., i, :] - f[..., j, :]) ** 2).sum(-1)
    return np.asarray(total)


def slopes(c, kind, sigma):
    """Gradients of the energy with respect to V and W, sigma held."""
    of_V = gradient(lambda V: energy(c, kind, sigma, V, c.W), c.V)
    return of_V, gradient(partial(energy, c, kind, sigma, c.V), c.W)


@pytest.mark.parametrize("kind", BELOW)
def test_outputs_energy_and_velocities(kind):
    c = case(0)
    W, V = map(torch.from_numpy, (c.W, c.V))
    found = two_layer.hidden(c.world.x, W, kind, SLOPE)
    assert found.numpy() == pytest.approx(outputs(c.x, c.W, kind), abs=1e-12)
    value = two_layer.energy(c.world, W, V, kind, SLOPE)
    assert value.numpy() == pytest.approx(energy(c, kind, 1.0, c.V, c.W), rel=1e-11)
    flow, (of_V, of_W) = two_layer.flow(c.world, W, V, kind, SLOPE), slopes(c, kind, 1.0)
    assert flow.V.numpy() == pytest.approx(of_V, rel=1e-9, abs=1e-11)
    assert flow.W.numpy() == pytest.approx(of_W, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("kind", ["linear", "leaky_relu"])
def test_batchnorm_at_any_masses(kind):
    """Mean and deviation are of masses over their sum; the deviation is held in the gradient."""
    c = case(1)
    W, V = map(torch.from_numpy, (c.W, c.V))
    f, mean, square = outputs(c.x, c.W, kind), 0.0, 0.0
    for i in range(POINTS):
        mean = mean + c.of_one[:, i, None] * f[:, i]
        square = square + c.of_one[:, i, None] * f[:, i] ** 2
    sigma = np.sqrt(square - mean**2)
    of = torch.from_numpy(f), torch.from_numpy(c.p)
    for found, right in zip(two_layer.statistics(*of), (mean, sigma), strict=True):
        assert found.numpy() == pytest.approx(right, rel=1e-11)
    z = (f - mean[:, None]) / sigma[:, None]
    assert two_layer.batch_norm(*of).numpy() == pytest.approx(z, abs=1e-11)
    flow = two_layer.normalised_flow(c.world, W, V, kind, SLOPE)
    of_V, of_W = slopes(c, kind, sigma[:, None])
    assert flow.V.numpy() == pytest.approx(of_V, rel=1e-9, abs=1e-11)
    assert flow.W.numpy() == pytest.approx(of_W, rel=1e-9, abs=1e-11)
