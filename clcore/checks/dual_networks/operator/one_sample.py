"""One sample's gradient under losses whose slopes sum to zero (ddn Lemma 2, Eq. 51, App. B.2).

Connections of the library meet complex steps through numpy nets; the gradient is the first tower's.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import sympy
import torch

from clcore import reference as ref
from clcore.checks.dual_networks import symbols as sy
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.exact_pairs import Proof
from clcore.checks.dual_networks.layers import TIGHT
from clcore.ledger import Part, Trial, check, exact, pooled
from clcore.ledger import polynomials as poly
from clcore.reference import Array
from clcore.theory.operator import connection as net


def _infonce(tau: float, near: Array, far: Array) -> Array:
    """InfoNCE of anchor near[0] with positive far[1] and negatives far[2:], naive exponentials."""
    r = dw.half(near[..., 0, :1, :], far[..., 0, 1:, :])
    e = np.exp(-r / tau)
    return -np.log(e[..., 0] / e.sum(-1))


def _single(case: dw.Case, near: Array, far: Array) -> Array:
    """A loss of one negative, of the same anchor."""
    return case.page(*(dw.half(near[..., 0, 0, :], far[..., 0, k, :]) for k in (1, 2)))


def _norm(a: Array) -> Array:
    """[draws]: root of the sum of squares of all other entries."""
    return np.sqrt((a**2).reshape(len(a), -1).sum(-1))


def _one_sample(t: Trial, unit: bool) -> Part:
    """Lemma 2, or Eq. 51 if `unit`, against complex steps. Errors are over the factors' norms, as a
    softmax slope near 0 has no relative accuracy."""
    count, tau = t.share(6), 0.7
    settings: list[tuple[int, int, dw.Case | None]] = [
        (d, 1, c) for d in (1, 2, 4) for c in (dw.simple(), dw.triplet(tau))
    ]
    settings += [(d, h, None) for d in (2, 3) for h in (1, 3, 8)]
    pull = t.part("", TIGHT, controls=pooled, draws=count * len(settings))
    for depth, negatives, case in settings:
        weights = dw.weights(t.rng, count, dw.DEPTHS[depth])
        # An anchor, its other view, negatives.
        x = t.rng.standard_normal((count, 1, 2 + negatives, dw.DEPTHS[depth][0]))
        x[:, :, 1] = x[:, :, 0] + 0.7 * x[:, :, 1]
        seen = net.trace(ref.tensors(*weights), torch.from_numpy(x[:, 0]))
        f = (net.unit(seen.output) if unit else seen.output).numpy()
        r = dw.half(f[:, :1], f[:, 1:])
        # dL/dr_k-, [draws, H], and the loss as a function of outputs.
        if case:
            slope, loss = ref.slope(partial(case.page, r[:, :1]), r[:, 1:]), partial(_single, case)
        else:
            slope = -np.exp(-r[:, 1:] / tau) / np.exp(-r / tau).sum(-1, keepdims=True) / tau
            loss = partial(_infonce, tau)

        def extended(near: Array, far: Array, loss: Callable = loss) -> Array:
            return loss(near, far) + 0.5 * dw.half(near[..., 0, 0, :], far[..., 0, 1, :])

        for layer, W in enumerate(weights, 1):
            # vec(g) is K(x_1) sum_k dL/dr_k- (K(x_+) - K(x_k-))^T vec(W).
            K = (net.normalised_connection if unit else net.connection)(seen, layer).numpy()
            gaps = np.einsum("bh,bhwk->bkw", slope, K[:, 1:2] - K[:, 2:])
            left = K[:, 0] @ net.projector(seen.output)[:, 0].numpy() if unit else K[:, 0]
            ours, bare = (np.einsum("bij,bj->bi", A @ gaps, dw.vec(W)) for A in (left, K[:, 0]))

            # vec(g) by complex steps, of this loss in one tower and in both, and of another loss.
            steps = partial(dw.gradient, layers=weights, layer=layer, x=x, unit=unit)
            one, both = (dw.vec(steps(loss, tied=tied)) for tied in (False, True))
            size = _norm(left) * _norm(K[:, 1:2] - K[:, 2:]) * _norm(W)
            pull.add(_norm(ours - one) / size)
            pull.breaks("beta = 1/2", _norm(ours - dw.vec(steps(extended))) / size)
            pull.breaks("both towers", _norm(ours - both) / size)
            pull.breaks("any multiple of both towers", dw.off_line(ours, both))
            if unit:
                pull.breaks("no projector", _norm(bare - one) / size)
    return pull


def _proof() -> Proof:
    """Lemma 2: to first order a loss is its slopes times the distances; those slopes sum to 0."""
    K, w, u, s, beta = poly.arrays(K=(4, 2, 2), w=(2,), u=(2,), s=(2,), b=(1,))

    def slope(plus: Any, tied: bool = False) -> Any:
        near, far = u, u if tied else w
        r = [sy.half(K[0].T @ near, K[k].T @ far) for k in (1, 2, 3)]
        loss = plus * r[0] + s[0] * r[1] + s[1] * r[2]
        return poly.put(poly.gradient(np.array(loss), u), u, w)

    gaps = sum((K[1] - K[k]).T * s[k - 2] for k in (2, 3))
    ours, plus = K[0] @ (gaps @ w), -s[0] - s[1]
    return {
        "shown": poly.equal(slope(plus), ours),
        "breaks": {
            "slopes that sum to beta": poly.unlike(slope(plus + beta[0]), ours),
            "both towers": poly.unlike(slope(plus, tied=True), ours),
        },
        "at": "two negatives, two outputs, a layer of two numbers",
    }


def _unit_proof() -> Proof:
    """Eq. 51. The other outputs do not move, and are K^n(x)^T vec(W) by Eq. 42."""
    K, w = exact.matrix("K", 2, 2), exact.vector("w", 2)
    far = [exact.matrix(name, 2, 2) for name in ("A", "B", "C")]
    s, u = sympy.symbols("s_1 s_2", real=True), exact.vector("u", 2)
    f = K.T * u
    unit = f / sympy.sqrt(f.dot(f))
    r = [(unit - N.T * w).dot(unit - N.T * w) / 2 for N in far]
    loss = -sum(s) * r[0] + s[0] * r[1] + s[1] * r[2]
    at = dict(zip(u.flat(), w.flat(), strict=True))
    slope = sympy.Matrix([sympy.diff(loss, v) for v in u]).subs(at)
    unit, size = unit.subs(at), sympy.sqrt(f.dot(f)).subs(at)
    gaps = sum((sk * (far[0] - N).T for sk, N in zip(s, far[1:], strict=True)), sympy.zeros(2))

    def ours(P: Any) -> Any:
        return K / size * P * gaps * w

    plainly = dict(zip([*K, *far[0], *far[1]], [1, 0, 0, 1] + [0] * 8, strict=True))
    bare = [side[0].subs(plainly) for side in (slope, ours(sympy.eye(2)))]
    return {
        "shown": exact.equal(slope, ours(sympy.eye(2) - unit * unit.T)),
        "breaks": {"no projector, K = I": exact.equal(*bare)},
        "at": "two negatives, two outputs, a layer of two numbers",
    }


@check("ddn/lem2")
def lem2(t: Trial) -> None:
    """Gradient of one sample under losses whose slopes sum to zero (Lemma 2, Eq. 46).

    Given   one sample x_1, x_+, x_1-..x_H-, ReLU nets of 1..4 layers; L_simp and L_tri (H = 1),
            L_nce (H = 1, 3, 8); the gradient by the first tower's weights.
    Claim   vec(g_Wl) = K_l(x_1) sum_k dL/dr_k- (K_l(x_+) - K_l(x_k-))^T vec(W_l), against complex
            steps, relative to the norms of the factors; proved.
    Fails   for a loss whose slopes do not sum to 0 (beta = 1/2); for the gradient through both
            towers and any multiple of it.
    """
    _one_sample(t, unit=False).proves(**_proof())


@check("ddn/eq51")
def eq51(t: Trial) -> None:
    """Gradient of one sample with normalised outputs (Eq. 51).

    Given   one sample x_1, x_+, x_1-..x_H-, ReLU nets of 1..4 layers; L_simp and L_tri (H = 1),
            L_nce (H = 1, 3, 8) of normalised outputs; the gradient by the first tower's weights.
    Claim   vec(g_Wl) = K_l^n(x_1) P^perp sum_k dL/dr_k- (K_l^n(x_+) - K_l^n(x_k-))^T vec(W_l), K^n
            = K/|f|, P^perp = I - f f^T/|f|^2 at x_1: against complex steps, relative to the norms
            of the factors; proved.
    Fails   without the projector P^perp; for a loss whose slopes do not sum to 0 (beta = 1/2); for
            the gradient through both towers and any multiple of it.
    """
    _one_sample(t, unit=True).proves(**_unit_proof())
