"""Towers and finite worlds of symbols, for what ddn's checks prove beside their draws.

Arrays (numpy, of objects) hold polynomials of one ring each: numpy's own products work on them, and
derivatives are exact. Between its kinks an activation that is piecewise linear multiplies a unit by
a number that stays what it is nearby, its gate: gates are symbols here, so that ReLU, leaky ReLU
and linear nets are all among what is shown.
"""

from collections.abc import Iterator
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

    @property
    def depth(self) -> int:
        return len(self.weights)

    def act(self, layer: int, pre: Any) -> Any:
        """Output of a layer; the top one is linear."""
        if layer == self.depth:
            return pre
        return pre**self.power if self.gates is None else self.gates[layer - 1] * pre

    def passes(self, weights: list[Any] | None = None) -> tuple[list[Any], list[Any]]:
        """([pre_1, ..., pre_L], [f_0, ..., f_L])."""
        pre, post = [], [self.x]
        for layer, w in enumerate(weights or self.weights, 1):
            pre.append(w @ post[-1])
            post.append(self.act(layer, pre[-1]))
        return pre, post

    @property
    def output(self) -> Any:
        return self.passes()[1][-1]

    def upward(self, layer: int, pre: Any) -> Any:
        """f_L from a pre-activation."""
        for number in range(layer, self.depth):
            pre = self.weights[number] @ self.act(number, pre)
        return pre

    def jacobian(self, layer: int) -> Any:
        """J_l = df_L/dpre_l by derivatives, [n_L, n_l]."""
        pre = self.passes()[0][layer - 1]
        inner = self.inner[: len(pre)]
        return poly.put(poly.gradient(self.upward(layer, inner), inner), inner, pre)

    def pre_gradient(self, layer: int, goal: Any) -> Any:
        """dr/dpre_l against a fixed output, [n_l]."""
        pre = self.passes()[0][layer - 1]
        inner = self.inner[: len(pre)]
        slope = poly.gradient(np.array(half(self.upward(layer, inner), goal)), inner)
        return poly.put(slope, inner, pre)

    def connection(self, layer: int) -> Any:
        """K_l = f_{l-1} kron J_l^T of Definition 1, [n_l n_{l-1}, n_L]."""
        return np.kron(self.passes()[1][layer - 1][:, None], self.jacobian(layer).T)

    def forward(self, layer: int) -> Any:
        """G_l of Eqs. 16-18."""
        w, pre = self.weights[layer - 1], self.passes()[0]
        if layer == 1:
            return w
        if self.gates is None:
            return w * pre[layer - 2] ** (self.power - 1)
        return w * self.gates[layer - 2]

    def transitions(self, layer: int) -> tuple[Any, Any]:
        """(V^f_l, V^b_l) of Lemma 1, products of G and Q = power * I."""
        V_f = V_b = unit(self.weights[-1][:, 0])
        for number in range(self.depth, layer, -1):
            V_f, V_b = V_f @ self.forward(number), self.power * V_b @ self.forward(number)
        return V_f, V_b


def towers(depth: int = 2, width: int = 2, tied: bool = False, power: int = 0) -> list[Tower]:
    """Two towers with an input each; `tied`: of the same weights, with other gates. power: of
    psi(u) = u^power in place of gates."""
    shape = (depth, width, width)
    first, second, x, gates, inner = poly.arrays(
        w=shape, v=shape, x=(2, width), d=(2, max(depth - 1, 1), width), u=(width,)
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

    def descent(self, plus: Any, minus: Any, tied: bool = False) -> Any:
        """-d/dvec(W_l) of E[plus r_+ - minus r_-] with held weights plus, minus (a number each, or
        [s, t]), in the first tower or in both."""
        near, far = (self.outputs(w) for w in (self.near, self.near if tied else self.w))
        return self.descent_of(near, far, plus, minus)

    def descent_of(self, near: Any, far: Any, plus: Any, minus: Any) -> Any:
        """The same of any outputs of both towers."""
        plus, minus = (np.broadcast_to(np.array(v, dtype=object), (2, 2)) for v in (plus, minus))
        total = sum(
            chance
            * (plus[x[0], y[0]] * half(near[x], far[z]) - minus[x[0], y[0]] * half(near[x], far[y]))
            for chance, x, z, y in self.places()
        )
        return -poly.put(poly.gradient(np.array(total), self.near), self.near, self.w)

    def pairs(self, xi: Any) -> Any:
        """V^xi[Kbar_l(x) - Kbar_l(x'')] / 2 of Theorem 4, [w, w]; xi [s, t]."""
        gap = self.bar[:, None] - self.bar[None]
        return np.einsum("s,t,st,stwk,stvk->wv", self.p, self.p, xi, gap, gap) * HALF


def world(outputs: int = 1) -> tuple[World, Any]:
    """(world of K with two rows, weights xi [s, t] of pairs of samples, which are symmetric)."""
    p, q, K, w, near, xi = poly.arrays(p=(), q=(2,), K=(2, 2, 2, outputs), w=(2,), u=(2,), b=(3,))
    P = np.array([p.item(), 1 - p.item()])
    return World(P, np.stack([q, 1 - q], -1), K, w, near), xi[[[0, 1], [1, 2]]]
