"""Laws whose augmented views straddle a ReLU's gate: one gap, two roughnesses (nl Sec. 3.2).

Two samples, alpha = 1. The first is shown as (a, 0), or near the gate of w = e_1 as (xi, +-r), xi
on [-eta, eta] and even; the second as (-1, 0), where the ReLU is silent. By Lemma 2 A(w) is the
covariance over samples of the gated view's mean, so that A(e_1) = diag(gap, 0).
"""

from typing import NamedTuple

import numpy as np
import torch

from clcore.reference import Array, tensors
from clcore.theory.one_layer import one_layer


class Gate(NamedTuple):
    """The first sample's chance, that of its views near the gate, and where these lie."""

    first: float
    near: float
    a: float
    eta: float
    r: float

    @property
    def output(self) -> float:
        """Mean output of the first sample at e_1."""
        return (1 - self.near) * self.a + self.near * self.eta / 4


def gate(rng: np.random.Generator) -> Gate:
    """A law whose even density has a roughness of 1.5 to 4 gaps."""
    first, near, a, eta = rng.uniform([0.2, 0.2, 0.5, 0.2], [0.8, 0.8, 2.0, 1.0])
    drawn = Gate(first, near, a, eta, 0.0)
    return drawn._replace(r=np.sqrt(rng.uniform(1.5, 4) * drawn.output * 2 * eta / near))


def closed(g: Gate, density: float) -> tuple[float, float]:
    """(gap, rho) at e_1, density / (2 eta) being that of xi at 0.

    rho is the covariance over samples of mean outputs and of what crosses the gate,
    near r^2 density / (2 eta) for the first and 0 for the second.
    """
    spread = g.first * (1 - g.first)
    crossing = g.near * g.r**2 * density / (2 * g.eta)
    return spread * g.output**2, spread * g.output * crossing


def views(g: Gate, density: float, m: int = 200) -> tuple[Array, Array]:
    """The first sample's views [n, 2] and their chances: a mixture of xi uniform on +-[0, eta] and
    on +-[eta/4, 3 eta/4], which have one mean of |xi|."""
    u = (np.arange(m) + 0.5) / m
    size = g.eta * np.concatenate([u, 0.25 + u / 2])
    chance = np.repeat([density, 1 - density], m) * g.near / (4 * m)
    sides = [np.stack([i * size, np.full(2 * m, j * g.r)], -1) for i in (1, -1) for j in (1, -1)]
    return np.vstack([*sides, [[g.a, 0.0]]]), np.append(np.tile(chance, 4), 1 - g.near)


def push(g: Gate, density: float, angle: Array, augmented: bool = True) -> Array:
    """The flow's speed at every angle: the covariance of h and of the gated input across w, over
    samples; `augmented` False: every view is a sample of its own."""
    w, across = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    x, chance = views(g, density)
    x, p = np.vstack([x, [[-1.0, 0.0]]]), np.append(g.first * chance, 1 - g.first)
    open_ = x @ w > 0
    h, side = open_ * (x @ w), open_ * (x @ across)
    if augmented:
        h, side = (np.stack([chance @ v[:-1], v[-1]]) for v in (h, side))
        p = np.array([g.first, 1 - g.first])
    return p @ (h * side) - (p @ h) * (p @ side)


def rate(g: Gate, density: float, augmented: bool = True) -> float:
    """d(speed)/d(angle) at e_1, by a difference over 0.1 eta / r; from 0.25 eta / r on either side
    the density at the gate is another one."""
    d = 0.05 * g.eta / g.r
    low, high = push(g, density, np.array([-d, d]), augmented)
    return float((high - low) / (2 * d))


def _by_samples(g: Gate, chance: Array) -> tuple[Array, Array]:
    """Masses of all views, the second sample's last, and weights of pairs: those of one sample are
    taken from those of all."""
    mass = np.append(g.first * chance, 1 - g.first)
    alpha = np.ones((len(mass), len(mass)))
    alpha[:-1, :-1] -= 1 / g.first
    alpha[-1, -1] -= 1 / (1 - g.first)
    return mass, alpha


def rate_again(g: Gate, density: float) -> float:
    """`rate` by the library."""
    x, chance = views(g, density, 60)
    world = one_layer.World(*tensors(np.vstack([x, [[-1.0, 0.0]]]), *_by_samples(g, chance)))
    d = 0.05 * g.eta / g.r
    w = torch.tensor([[np.cos(d), -np.sin(d)], [np.cos(d), np.sin(d)]])
    low, high = one_layer.flow(world, w)[..., 1] / np.cos(d)
    return float((high - low) / (2 * d))


def in_space(g: Gate, density: float, third: float) -> Array:
    """The flow's derivative at e_1 across it, [2, 2], where half of the views near the gate are at
    (xi, 0, +-third), the others at (xi, +-r, 0): by the library, a difference as in `rate`."""
    x, chance = views(g, density, 60)
    x = np.insert(x, 2, 0.0, axis=-1)
    turned = x[:-1, [0, 2, 1]] * np.array([1.0, 0.0, third / g.r])
    x = np.vstack([x[:-1], turned, x[-1:], [[-1.0, 0.0, 0.0]]])
    first = np.concatenate([chance[:-1] / 2, chance[:-1] / 2, chance[-1:]])
    world = one_layer.World(*tensors(x, *_by_samples(g, first)))
    d = 0.05 * g.eta / np.repeat([g.r, third], 2)
    aside = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    w = np.column_stack([np.cos(d), np.sin(d)[:, None] * aside])
    speed = one_layer.flow(world, torch.from_numpy(w)).numpy()[:, 1:] / (2 * d[:, None])
    return (speed[1::2] - speed[::2]).T


def optima(g: Gate, density: float, grid: int = 720) -> int:
    """How many angles attract."""
    angle = 2 * np.pi * (np.arange(grid) + 0.5) / grid - np.pi
    speed = push(g, density, angle)
    return int(((speed > 0) & (np.roll(speed, -1) <= 0)).sum())


class Three(NamedTuple):
    """A gate's law with a third sample, shown as (output, 0), under an importance of samples."""

    gate: Gate
    chance: Array  # [3]
    outputs: Array  # [3], mean outputs at e_1
    alpha: Array  # [3, 3]

    @property
    def gap(self) -> float:
        """A(e_1) = diag(gap, 0)."""
        apart = (self.outputs[:, None] - self.outputs) ** 2
        return float(self.chance @ (self.alpha * apart / 2) @ self.chance)

    @property
    def rho(self) -> float:
        """The roughness at e_1: + drives away, - pulls back."""
        crossing = self.gate.near * self.gate.r**2 / (2 * self.gate.eta)
        ahead = self.alpha[0] * (self.outputs[0] - self.outputs)
        return float(self.chance[0] * crossing * (self.chance @ ahead))

    def speed(self, angle: Array) -> Array:
        """That of the flow, alpha held: differences of mean outputs times those across w."""
        w, across = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        x, chance = views(self.gate, 1.0)
        samples = [
            (x, chance),
            *((np.array([[v, 0.0]]), np.ones(1)) for v in (-1.0, self.outputs[2])),
        ]
        h, side = (np.stack([p @ ((x @ w > 0) * (x @ v)) for x, p in samples]) for v in (w, across))
        pairs = self.chance[:, None] * self.chance * self.alpha / 2
        return np.einsum("ij,ijt->t", pairs, (h[:, None] - h) * (side[:, None] - side))

    def rate(self) -> float:
        """d(speed)/d(angle) at e_1."""
        d = 0.05 * self.gate.eta / self.gate.r
        low, high = self.speed(np.array([-d, d]))
        return float((high - low) / (2 * d))


def three(rng: np.random.Generator) -> tuple[Three, Three]:
    """A law that is rougher than its gap under alpha = 1, and less under a Gaussian of outputs."""
    while True:
        g, chance = gate(rng), rng.dirichlet(np.full(3, 10.0))
        outputs = g.output * np.array([1.0, 0.0, rng.uniform(1.1, 1.3)])
        apart = (outputs[:, None] - outputs) ** 2
        alphas = np.ones((3, 3)), np.exp(-apart / (2 * rng.uniform(0.2, 0.6) * g.output**2))
        plain = Three(g, chance, outputs, alphas[0])
        r = g.r * np.sqrt(rng.uniform(1.1, 1.5) * plain.gap / plain.rho)
        even, gaussian = (Three(g._replace(r=r), chance, outputs, alpha) for alpha in alphas)
        if abs(gaussian.rho) < 0.95 * gaussian.gap:
            return even, gaussian
