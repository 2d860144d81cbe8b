"""Towers and finite worlds of symbols, for the proofs that ddn's checks have in addition to draws.

Arrays (numpy, of objects) hold polynomials of one ring each: numpy's own products work on them, and
derivatives are exact. Between its kinks an activation that is piecewise linear multiplies a unit by
a number that is locally constant, its gate: gates are symbols here, so that ReLU, leaky ReLU
and linear nets are all among what is shown.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import sympy

from clcore.ledger import polynomials as poly

HALF = sympy.QQ(1, 2)


def unit(like: Any) -> Any:
    """The unit matrix, of polynomials, for vectors like this one."""
    return np.eye(len(like), dtype=int).astype(object) * like[0].ring.one


def half(f: Any, g: Any) -> Any:
    """r of ddn: half the squared distance."""
    return ((f - g) ** 2).sum(-1) * HALF


def vec(w: Any) -> Any:
    """Column by column, over the first two of its axes."""
    return np.swapaxes(w, 0, 1).reshape(-1, *w.shape[2:])


@dataclass(frozen=True)
class Tower:
    """A net with weights (layers from 1), an input, and gates [L - 1, width] or, for powers, the
    exponent of its activation; `inner` are spare symbols [width] for derivatives by what a layer
    takes in."""

    weights: list[Any]
    x: Any
    inner: Any
    gates: Any | None = None
    power: int = 1

    def act(self, layer: int, pre: Any) -> Any:
        """Output of a layer; the top one is linear."""
        if layer == len(self.weights):
            return pre
        return pre**self.power if self.gates is None else self.gates[layer - 1] * pre

    def passes(self) -> tuple[list[Any], list[Any]]:
        """([pre_1, ..., pre_L], [f_0, ..., f_L])."""
        pre, post = [], [self.x]
        for layer, w in enumerate(self.weights, 1):
            pre.append(w @ post[-1])
            post.append(self.act(layer, pre[-1]))
        return pre, post

    @property
    def output(self) -> Any:
        return self.passes()[1][-1]


def _by_pre(net: Tower, layer: int, value: Callable[[Any], Any]) -> Any:
    """The derivative by pre_l of a function `value` of f_L."""
    pre = net.passes()[0][layer - 1]
    top = inner = net.inner[: len(pre)]
    for number in range(layer, len(net.weights)):
        top = net.weights[number] @ net.act(number, top)
    return poly.put(poly.gradient(value(top), inner), inner, pre)


def jacobian(net: Tower, layer: int) -> Any:
    """J_l = df_L/dpre_l by derivatives, [n_L, n_l]."""
    return _by_pre(net, layer, lambda f: f)


def pre_gradient(net: Tower, layer: int, goal: Any) -> Any:
    """dr/dpre_l against a fixed output, [n_l]."""
    return _by_pre(net, layer, lambda f: np.array(half(f, goal)))


def connection(net: Tower, layer: int) -> Any:
    """K_l = f_{l-1} kron J_l^T of Definition 1, [n_l n_{l-1}, n_L]."""
    return np.kron(net.passes()[1][layer - 1][:, None], jacobian(net, layer).T)


def transitions(net: Tower, layer: int) -> tuple[Any, Any]:
    """(V^f_l, V^b_l) of Lemma 1: products over the layers k above of G_k as in Eqs. 16-18, and of
    Q_k G_k with Q = power * I."""
    pre, V_f = net.passes()[0], unit(net.weights[-1][:, 0])
    V_b = V_f
    for k in range(len(net.weights), layer, -1):
        slopes = pre[k - 2] ** (net.power - 1) if net.gates is None else net.gates[k - 2]
        G = net.weights[k - 1] * slopes
        V_f, V_b = V_f @ G, net.power * V_b @ G
    return V_f, V_b


def towers(depth: int = 2, tied: bool = False, power: int = 0) -> list[Tower]:
    """Two towers of width 2 with an input each; `tied`: of the same weights, with other gates.
    power: of psi(u) = u^power in place of gates."""
    shape, hidden = (depth, 2, 2), max(depth - 1, 1)
    first, second, x, gates, inner = poly.arrays(
        w=shape, v=shape, x=(2, 2), d=(2, hidden, 2), u=(2,)
    )
    found = []
    for number, w in enumerate((first, first if tied else second)):
        how = {"power": power} if power else {"gates": gates[number]}
        found.append(Tower(list(w), x[number], inner, **how))
    return found


# ------------------------------------------------------------------------------------------ worlds


@dataclass(frozen=True)
class World:
    """Two samples of two views each, and a layer: f_L = K^T vec(W), as gates do not move.

    p: chances [s]; q: of views [s, i]; K [s, i, w, k]; w: vec(W_l); near: the first tower's own
    copy of it, by which derivatives are taken.
    """

    p: Any
    q: Any
    K: Any
    w: Any
    near: Any

    @property
    def bar(self) -> Any:
        """Kbar_l, the means over views, [s, w, k]."""
        return np.einsum("si,siwk->swk", self.q, self.K)

    @property
    def between(self) -> Any:
        """V_x[Kbar_l], [w, w]."""
        off = self.bar - np.einsum("s,swk->wk", self.p, self.bar)
        return np.einsum("s,swk,svk->wv", self.p, off, off)

    @property
    def within(self) -> Any:
        """E_x[V_aug[K_l]], [w, w]."""
        off = self.K - self.bar[:, None]
        return np.einsum("s,si,siwk,sivk->wv", self.p, self.q, off, off)

    def outputs(self, weights: Any) -> Any:
        """f_L of all views, [s, i, k]."""
        return np.einsum("siwk,w->sik", self.K, weights)

    def places(self) -> Iterator[tuple[Any, tuple[int, int], tuple[int, int], tuple[int, int]]]:
        """(chance, view of a sample, another view of it, view of a second sample)."""
        for s, i, j, t, m in product(range(2), repeat=5):
            chance = self.p[s] * self.q[s, i] * self.q[s, j] * self.p[t] * self.q[t, m]
            yield chance, (s, i), (s, j), (t, m)


def descent(at: World, plus: Any, minus: Any, tied: bool = False) -> Any:
    """-d/dvec(W_l) of E[plus r_+ - minus r_-] with held weights plus, minus (a number each, or
    [s, t]), in the first tower or in both."""
    near, far = (at.outputs(w) for w in (at.near, at.near if tied else at.w))
    plus, minus = (np.broadcast_to(np.array(v, dtype=object), (2, 2)) for v in (plus, minus))
    total = sum(
        chance
        * (plus[x[0], y[0]] * half(near[x], far[z]) - minus[x[0], y[0]] * half(near[x], far[y]))
        for chance, x, z, y in at.places()
    )
    return -poly.put(poly.gradient(np.array(total), at.near), at.near, at.w)


def weighted(at: World, xi: Any) -> Any:
    """V^xi[Kbar_l(x) - Kbar_l(x')] / 2 of Theorem 4, [w, w]; xi [s, t]."""
    gap = at.bar[:, None] - at.bar[None]
    return np.einsum("s,t,st,stwk,stvk->wv", at.p, at.p, xi, gap, gap) * HALF


def world(outputs: int = 1) -> tuple[World, Any]:
    """(world of K with two rows, weights xi [s, t] of pairs of samples, which are symmetric)."""
    p, q, K, w, near, xi = poly.arrays(p=(), q=(2,), K=(2, 2, 2, outputs), w=(2,), u=(2,), b=(3,))
    P = np.array([p.item(), 1 - p.item()])
    return World(P, np.stack([q, 1 - q], -1), K, w, near), xi[[[0, 1], [1, 2]]]
