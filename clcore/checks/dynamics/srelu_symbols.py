"""The symmetric ReLU near a warm start in symbols, M = I (ncl App. C.3): two neurons, two inputs.

A neuron's output is computed by the region of its pre-activation, which mask and latent set
(ncl/thm3-region).
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import sympy
from sympy import Matrix

from clcore.ledger import exact

ALPHA = sympy.Symbol("alpha", real=True)
"""The chance that a mask keeps an entry."""
KAPPA = sympy.Symbol("kappa", real=True)
"""The chance that an entry of a latent is not 0."""
D = 2
MASKS = list(product((0, 1), repeat=D))


class Net(NamedTuple):
    """W = I + Delta, and the biases."""

    delta: Matrix  # Delta, (d, d)
    b: Matrix  # biases, (d, 1)

    def weights(self) -> Matrix:
        return sympy.eye(D) + self.delta


def nets() -> tuple[Net, Net]:
    """The online and the target network."""
    online, target = (Net(exact.matrix(f"D{k}", D, D), exact.vector(f"b{k}", D)) for k in "ot")
    return online, target


def latents(binary: bool = False) -> list[tuple[tuple[int, ...], Any]]:
    """All z with their chances (Assumption 1); binary: 1 where it has +-1."""
    share = {0: 1 - KAPPA, 1: KAPPA / 2, -1: KAPPA / 2}
    if binary:
        share = {0: 1 - KAPPA, 1: KAPPA}
    return [(z, sympy.prod(share[v] for v in z)) for z in product(share, repeat=D)]


def output(net: Net, i: int, mask: Sequence[int], x: Sequence, z: Sequence[int]) -> Any:
    """SReLU of neuron i on the masked x: its pre-activation minus the bias, on the side of z_i; 0
    where the mask or the latent is 0."""
    if not mask[i] or not z[i]:
        return sympy.Integer(0)
    return sum(net.weights()[i, j] * mask[j] * x[j] for j in range(D)) - z[i] * net.b[i]


def summand(i: int, pair: tuple[Net, Net]) -> Any:
    """E[SReLU SReLU] of neuron i over latents and both masks, which are independent; no noise."""

    def mean(net: Net, z: Sequence[int]) -> Any:
        return sum(
            ALPHA ** sum(mask) * (1 - ALPHA) ** (D - sum(mask)) * output(net, i, mask, z, z)
            for mask in MASKS
        )

    return sum(share * mean(pair[0], z) * mean(pair[1], z) for z, share in latents())


def loss(pair: tuple[Net, Net]) -> Any:
    """Eq. 13."""
    return sympy.expand(2 - 2 * sum(summand(i, pair) for i in range(D)))


def printed_summand(i: int, pair: tuple[Net, Net], inside: Any) -> Any:
    """alpha^2 kappa times (own product + inside times the sum off the diagonal), of one neuron."""
    own = sympy.prod(1 + net.delta[i, i] - net.b[i] for net in pair)
    cross = sum(pair[0].delta[i, j] * pair[1].delta[i, j] for j in range(D) if j != i)
    return ALPHA**2 * KAPPA * (own + inside * cross)


def two_relus(x: Any, b: Any) -> Any:
    """ReLU(x - b) - ReLU(-x - b), Eq. 14."""
    return sympy.Max(0, sympy.factor(x - b)) - sympy.Max(0, sympy.factor(-x - b))


def three_cases(sign: int) -> exact.Shown:
    """Eq. 14 for x above b, below -b, anywhere between, and at both ends; b has this sign."""
    size, beyond, low, high = sympy.symbols("b u l h", positive=True)
    b = sign * size
    x = [b + beyond, -b - beyond, b * (low - high) / (low + high), b, -b]
    return exact.equal([two_relus(v, b) for v in x], [beyond, -beyond, 0, 0, 0])


def moments(binary: bool) -> exact.Shown:
    """E[z_1], E[z_1^2], E[z_1 z_2] and E[z_1^2 z_2^2]."""
    powers = ((1, 0), (2, 0), (1, 1), (2, 2))
    found = [sum(share * z[0] ** p * z[1] ** q for z, share in latents(binary)) for p, q in powers]
    return exact.equal(found, [0, KAPPA, 0, KAPPA**2])
