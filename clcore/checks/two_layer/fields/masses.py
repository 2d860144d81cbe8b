"""Two layers on points of any masses, which need not sum to one; fields, filters, inputs and
outputs of different numbers: what the library says, by loops over pairs (nl Lemmas 4, 6)."""

from functools import partial
from typing import NamedTuple

import numpy as np

from clcore.ledger import Trial, typical
from clcore.reference import Array, absolute, gradient, relative, tensors
from clcore.theory.one_layer import one_layer
from clcore.theory.two_layer import two_layer

SLOPE = 0.2
BELOW = {"linear": 1.0, "relu": 0.0, "leaky_relu": SLOPE}
K, M, D, Q = 3, 2, 4, 5


class Case(NamedTuple):
    """Points [draws, n, K, d], masses [draws, n], weights of pairs; W and V."""

    x: Array
    p: Array
    alpha: Array
    W: Array
    V: Array

    def world(self, p: Array | None = None) -> one_layer.World:
        """For the library; with other masses, where given."""
        return one_layer.World(*tensors(self.x, self.p if p is None else p, self.alpha))

    @property
    def of_one(self) -> Array:
        """The masses over their sum."""
        return self.p / self.p.sum(-1, keepdims=True)


def case(rng: np.random.Generator, draws: int, n: int = 6) -> Case:
    """Random, alpha not symmetric, W not of norm one."""
    sizes = (n, K, D), (K, M, D), (Q, K * M)
    x, W, V = (rng.standard_normal((draws, *size)) for size in sizes)
    return Case(x, rng.uniform(0.2, 1, (draws, n)), rng.uniform(0.2, 1, (draws, n, n)), W, V)


def outputs(x: Array, W: Array, kind: str) -> Array:
    """h(w_km.x_k), [..., n, K*M], for real or complex W."""
    columns = []
    for k in range(K):
        for m in range(M):
            u = (x[:, :, k] * W[..., None, k, m, :]).sum(-1)
            columns.append(np.where(np.real(u) > 0, u, BELOW[kind] * u))
    return np.stack(columns, -1)


def energy(c: Case, kind: str, sigma: Array | float, V: Array, W: Array) -> Array:
    """1/2 tr C_alpha[V f_1 / sigma], by a loop over pairs."""
    f, total = outputs(c.x, W, kind) / sigma @ V.swapaxes(-1, -2), 0.0
    for i in range(c.x.shape[1]):
        for j in range(c.x.shape[1]):
            weight = c.p[:, i] * c.p[:, j] * c.alpha[:, i, j] / 4
            total = total + weight * ((f[..., i, :] - f[..., j, :]) ** 2).sum(-1)
    return np.asarray(total)


def of_V(c: Case, kind: str, sigma: Array | float, W: Array, V: Array) -> Array:
    """`energy`, a function of V."""
    return energy(c, kind, sigma, V, W)


def deviations(c: Case, kind: str) -> tuple[Array, Array]:
    """Mean and deviation of outputs at masses of sum one, [draws, K*M], by a loop over points."""
    f, mean, square = outputs(c.x, c.W, kind), 0.0, 0.0
    for i in range(c.x.shape[1]):
        mean = mean + c.of_one[:, i, None] * f[:, i]
        square = square + c.of_one[:, i, None] * f[:, i] ** 2
    return np.asarray(mean), np.sqrt(square - mean**2)


def moves(t: Trial) -> None:
    """Outputs, the energy and both velocities. Controls: masses of sum one, the next field's."""
    rng = t.stream("masses")
    hidden = t.defines("outputs of unequal sizes", 1e-12, controls=typical)
    names = ("energy, any masses", "V, any masses", "W, any masses")
    parts = [t.defines(name, 1e-10, controls=typical) for name in names]
    for kind in BELOW:
        c = case(rng, t.share(len(BELOW)))
        W, V = tensors(c.W, c.V)
        ours = two_layer.hidden(*tensors(c.x, c.W), kind, SLOPE)
        hidden.add(absolute(ours, outputs(c.x, c.W, kind)))
        hidden.breaks("the next field's", absolute(ours, outputs(c.x, np.roll(c.W, 1, 1), kind)))
        slopes = (
            energy(c, kind, 1.0, c.V, c.W),
            gradient(partial(of_V, c, kind, 1.0, c.W), c.V),
            gradient(partial(energy, c, kind, 1.0, c.V), c.W),
        )
        for p, what in ((c.p, ""), (c.of_one, "of sum one")):
            flow = two_layer.flow(c.world(p), W, V, kind, SLOPE)
            found = two_layer.energy(c.world(p), W, V, kind, SLOPE), flow.V, flow.W
            for part, mine, other in zip(parts, found, slopes, strict=True):
                error = relative(mine, other)
                part.breaks(what, error) if what else part.add(error)


def normalised(t: Trial) -> None:
    """Statistics, outputs and velocities with BatchNorm, sigma held. Controls: points of one mass,
    no BatchNorm."""
    rng = t.stream("masses")
    moments = t.defines("statistics, any masses", 1e-10, controls=typical)
    output = t.defines("outputs, any masses", 1e-10, controls=typical)
    parts = [t.defines(name, 1e-9, controls=typical) for name in ("V, any masses", "W, any masses")]
    for kind in ("linear", "leaky_relu"):
        c = case(rng, t.share(2))
        W, V = tensors(c.W, c.V)
        mean, sigma = deviations(c, kind)
        f, held = outputs(c.x, c.W, kind), sigma[:, None]
        for p, what in ((c.p, ""), (np.ones_like(c.p), "of one mass")):
            of = tensors(f, p)
            errors = [
                relative(a, b)
                for a, b in zip(two_layer.statistics(*of), (mean, sigma), strict=True)
            ]
            errors += [relative(two_layer.batch_norm(*of), (f - mean[:, None]) / held)]
            for part, error in zip((moments, moments, output), errors, strict=True):
                part.breaks(what, error) if what else part.add(error)
        slopes = (
            gradient(partial(of_V, c, kind, held, c.W), c.V),
            gradient(partial(energy, c, kind, held, c.V), c.W),
        )
        flows = (
            two_layer.normalised_flow(c.world(), W, V, kind, SLOPE),
            two_layer.flow(c.world(), W, V, kind, SLOPE),
        )
        for part, slope, mine, other in zip(parts, slopes, *flows, strict=True):
            part.add(relative(mine, slope)).breaks("no BatchNorm", relative(other, slope))
