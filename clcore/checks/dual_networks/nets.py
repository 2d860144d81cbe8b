"""The nets that ddn's statements about one pair of samples are checked on, and numpy's own.

numpy nets take one sample per draw: weights [..., n_l, n_{l-1}], x [..., n_0]; complex arguments
are allowed, so that derivatives are complex steps. Layers count from 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
import torch

from clcore import reference as ref
from clcore.reference import Array
from clcore.theory.operator import connection as cn

ACTIVATIONS = {
    "linear": cn.LINEAR,
    "relu": cn.RELU,
    "leaky": cn.leaky_relu(0.1),
    "square": cn.power(2),
    "cube": cn.power(3),
    "1.5": cn.power(1.5),
}
PIECEWISE = ("linear", "relu", "leaky")
EXPONENTS = {"square": 2, "cube": 3, "1.5": 1.5}
POWERS = tuple(EXPONENTS)


def act(name: str, u: Array) -> Array:
    """The activation once more, for complex arguments."""
    if name in EXPONENTS:
        return u ** EXPONENTS[name]
    return np.where(np.real(u) > 0, u, {"linear": 1, "relu": 0, "leaky": 0.1}[name] * u)


def times(w: Array, x: Array) -> Array:
    """w x, one matrix and one vector per draw."""
    return (w @ x[..., None])[..., 0]


def upward(weights: list[Array], pre: Array, name: str) -> Array:
    """f_L from a pre-activation and the weights above it."""
    for w in weights:
        pre = times(w, act(name, pre))
    return pre


def passes(weights: list[Array], x: Array, name: str) -> tuple[list[Array], list[Array]]:
    """([pre_1, ..., pre_L], [f_0, ..., f_L])."""
    pre, post = [], [x]
    for w in weights:
        pre.append(times(w, post[-1]))
        post.append(act(name, pre[-1]))
    return pre, [*post[:-1], pre[-1]]


def half(f: Array, g: Array, normalised: bool = False) -> Array:
    """r, or r_n of ddn Eq. 28."""
    if normalised:
        f, g = (v / np.sqrt((v**2).sum(-1, keepdims=True)) for v in (f, g))
    return ((f - g) ** 2).sum(-1) / 2


def jacobian(weights: list[Array], pre: Array, name: str) -> Array:
    """df_L/dpre, [draws, n_L, n_l], by complex steps; `weights` are those above pre."""
    out = upward(weights, ref.stepped(pre), name)
    return np.moveaxis(np.imag(out) / ref.STEP, 0, -1)


def kron(f: Array, J: Array) -> Array:
    """f kron J^T by numpy's own Kronecker product, a draw at a time."""
    return np.stack([np.kron(g[:, None], j.T) for g, j in zip(f, J, strict=True)])


def connection(weights: list[Array], x: Array, layer: int, name: str) -> Array:
    """K_l = f_{l-1} kron J_l^T, J_l by complex steps."""
    pre, post = passes(weights, x, name)
    return kron(post[layer - 1], jacobian(weights[layer:], pre[layer - 1], name))


@dataclass(frozen=True)
class Pair:
    """Two towers of one shape with an input each; weights and inputs [draws, ...]."""

    first: list[Array]  # weights of the first tower, layer by layer
    second: list[Array]  # weights of the second tower
    x1: Array  # input of the first tower
    x2: Array  # input of the second tower
    name: str  # of the activation

    @property
    def depth(self) -> int:
        """How many layers a tower has."""
        return len(self.first)

    @property
    def traces(self) -> tuple[cn.Trace, ...]:
        """The passes of both towers by the library, one sample per draw."""
        towers, psi = ((self.first, self.x1), (self.second, self.x2)), ACTIVATIONS[self.name]
        return tuple(cn.trace(ref.tensors(*w), *ref.tensors(x[:, None]), psi) for w, x in towers)

    @property
    def outputs(self) -> tuple[Array, ...]:
        """f_L of both towers, [draws, n_L] each, by numpy."""
        towers = ((self.first, self.x1), (self.second, self.x2))
        return tuple(passes(w, x, self.name)[1][-1] for w, x in towers)


def weight_gradient(pair: Pair, layer: int, normalised: bool = False, both: bool = False) -> Array:
    """dr/dW_l, [draws, n_l, n_{l-1}], by complex steps: of the first tower, the second being fixed,
    or of tied weights, which move in both."""

    def r(w: Array) -> Array:
        weights = [*pair.first[: layer - 1], w, *pair.first[layer:]]
        goal = passes(weights, pair.x2, pair.name)[1][-1] if both else pair.outputs[1]
        return half(passes(weights, pair.x1, pair.name)[1][-1], goal, normalised)

    return ref.gradient(r, pair.first[layer - 1])


def pre_gradient(pair: Pair, layer: int, normalised: bool = False) -> Array:
    """dr/dpre_l of the first tower, [draws, n_l], by complex steps; l = 0: dr/dx_1."""

    def r(u: Array) -> Array:
        if layer == 0:
            f = passes(pair.first, u, pair.name)[1][-1]
        else:
            f = upward(pair.first[layer:], u, pair.name)
        return half(f, pair.outputs[1], normalised)

    return ref.gradient(r, [pair.x1, *passes(pair.first, pair.x1, pair.name)[0]][layer])


def normalised_hidden(rng: np.random.Generator, draws: int) -> tuple[Array, Array, Array]:
    """Eq. 22 at layer 1 of two towers W_3 W_2 pre_1/|pre_1|, the same with Q_2^T for Q_2, and
    complex steps. G_2 = W_2/|pre_1| and Q_2 = W_2 P W_2^-1, P across pre_1: not symmetric."""
    sheared = np.eye(3) + np.triu(rng.uniform(-1, 1, (2, draws, 3, 3)), 1)  # W_2, easy to invert
    top = rng.standard_normal((2, draws, 4, 3))
    pre = rng.standard_normal((2, draws, 3))

    def output(u: Array, k: int) -> Array:
        return times(top[k] @ sheared[k], u / np.sqrt((u**2).sum(-1, keepdims=True)))

    u = pre[0] / np.linalg.norm(pre[0], axis=-1, keepdims=True)
    across = np.eye(3) - u[:, :, None] * u[:, None, :]
    Q = sheared[0] @ across @ np.linalg.inv(sheared[0])
    G = sheared[0] / np.linalg.norm(pre[0], axis=-1)[:, None, None]
    gap = output(pre[0], 0) - output(pre[1], 1)  # V^f_1 pre_1 of each tower is its output
    ours, turned = (times((top[0] @ q @ G).swapaxes(1, 2), gap) for q in (Q, Q.swapaxes(1, 2)))
    return ours, turned, ref.gradient(lambda v: half(output(v, 0), output(pre[1], 1)), pre[0])


def _weights(rng: np.random.Generator, count: int, widths: list[int]) -> list[Array]:
    """Layers of variance 2 / fan-in."""
    shapes = pairwise(widths)
    return [rng.standard_normal((count, b, a)) * np.sqrt(2 / a) for a, b in shapes]


def pairs(
    rng: np.random.Generator,
    draws: int,
    names: tuple[str, ...] = ("relu",),
    depths: tuple[int, ...] = (1, 2, 3, 4, 5, 6),
    tied: bool = False,
) -> Iterator[Pair]:
    """Random towers, `draws` in all over depths and activations, with random widths from 5 to 8.

    Thrown away are draws in which an output vanishes, both are parallel, or the first tower has a
    layer with fewer than two positive neurons: there r_n is undefined, or its gradients vanish.
    """
    count = ref.share(draws, len(names) * len(depths))
    for name, depth in product(names, depths):
        widths, many = rng.integers(5, 9, depth + 1).tolist(), 6 * count + 60
        first = _weights(rng, many, widths)
        second = first if tied else _weights(rng, many, widths)
        x1, x2 = rng.standard_normal((2, many, widths[0]))
        if name == "1.5":  # of positive numbers alone
            first, second = ([np.abs(w) for w in tower] for tower in (first, second))
            x1, x2 = np.abs(x1), np.abs(x2)
        f, g = Pair(first, second, x1, x2, name).outputs
        a, b = (np.linalg.norm(v, axis=-1) for v in (f, g))
        fine = (np.minimum(a, b) > 1e-3) & ((f * g).sum(-1) < 0.99 * a * b)
        for hidden in passes(first, x1, name)[0][:-1]:
            fine &= (hidden > 0).sum(-1) > 1
        kept = np.flatnonzero(fine)[:count]
        first, second = ([w[kept] for w in tower] for tower in (first, second))
        yield Pair(first, second, x1[kept], x2[kept], name)


def one(t: torch.Tensor) -> Array:
    """The only sample of a draw, as numpy."""
    return t[:, 0].numpy()


def connections(pair: Pair, layer: int) -> tuple[Array, ...]:
    """(K_l of the first tower, of the second) by the library, [draws, n_l n_{l-1}, n_L]."""
    return tuple(one(cn.connection(net, layer)) for net in pair.traces)
