"""Normalisation layers keep the norms of the weights below them (acl Sec. 4.2, App. A.2.1, B).

Gradients by autograd of nets written here.
"""

from collections.abc import Callable, Sequence
from itertools import product as every

import numpy as np
import torch
from torch import Tensor

from clcore.checks.deep_linear_pca.flow import layers, runge_kutta
from clcore.checks.deep_linear_pca.jacobians import MAPS, jacobian, lemma7, times
from clcore.ledger import Trial, check, pooled, typical
from clcore.ledger.judging import Shared
from clcore.reference import Array, absolute, relative, tensors

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda u: u,
    "relu": torch.relu,
    "leaky": lambda u: torch.where(u > 0, u, 0.2 * u),
    "tanh": torch.tanh,
}
REVERSIBLE = ("linear", "relu", "leaky")


def _standard(f: Tensor, dim: int, eps: float = 0.0) -> Tensor:
    f = f - f.mean(dim, keepdim=True)
    return f / (f.pow(2).mean(dim, keepdim=True) + eps).sqrt()


NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "l2": lambda f: f / f.norm(dim=-1, keepdim=True),
    "LayerNorm": lambda f: _standard(f, -1),
    "LayerNorm, eps 0.1": lambda f: _standard(f, -1, 0.1),
    "BatchNorm": lambda f: _standard(f, -2),
    "none": lambda f: f,
}


Weights = list[Tensor]


def _loss_gradient(
    weights: Weights,
    x: Tensor,
    acts: list[str],
    norm: str,
    at: int,
    bias: Sequence[Tensor] = (),
    penalty: float = 0.0,
) -> tuple[Tensor, ...]:
    """dLoss/dW_l of a fixed smooth loss of the outputs, without symmetry; `norm` acts on layer `at`
    (1..L), and `penalty` times the squares of that layer's outputs is added."""
    theta = [w.clone().requires_grad_() for w in weights]
    f, squares = x, x.new_zeros(())
    for layer, (w, act) in enumerate(zip(theta, acts, strict=True), 1):
        f = f @ w.mT
        if len(bias):
            f = f + bias[layer - 1]
        f = ACTIVATIONS[act](f)
        if layer == at:
            f = NORMS[norm](f)
            squares = f.pow(2).sum()
    ripple = torch.arange(f[0].numel(), dtype=f.dtype).reshape(f.shape[1:]).cos()
    loss = (torch.sin(2 * f + ripple) * (1.5 + ripple)).sum() + (f.mean(-2) ** 3).sum()
    return torch.autograd.grad(loss + penalty * squares, theta)


def _inner(weights: Weights, slopes: tuple[Tensor, ...], rows: bool = False) -> list[Array]:
    """Per layer, [draws]: |<W_l, dLoss/dW_l>| over the gradient's norm; rows: of its worst row."""
    out = []
    for w, g in zip(weights, slopes, strict=True):
        if rows:
            inner, size = (w * g).sum(-1).abs().amax(-1), g.norm(dim=-1).amax(-1)
        else:
            inner, size = (w * g).sum((-1, -2)).abs(), torch.linalg.matrix_norm(g)
        out.append((inner / (size + 1e-12)).numpy())
    return out


def _net(rng: np.random.Generator, count: int, widths: tuple[int, ...]) -> list[Tensor]:
    """Random W_1, ..., W_L, [count, n_l, n_{l-1}]."""
    return list(tensors(*layers(rng, count, widths)))


@check("acl/lem2")
def lem2(t: Trial) -> None:
    """ℓ2 normalisation and LayerNorm conserve the weight norms below (Lemma 2).

    Given   linear, ReLU and leaky ReLU nets of four layers without biases, an l2 or LayerNorm
            layer after the third or fourth; one smooth loss without symmetry.
    Claim   <W_l, dLoss/dW_l> = 0 for every layer below, so |W_l|_F is conserved: by autograd at
            random weights, and along Runge-Kutta paths of the gradient flow (linear nets).
    Fails   for layers above the normalisation, with biases, with tanh, with eps = 0.1 in
            LayerNorm, and without the normalisation.
    """
    widths, count = (5, 24, 24, 24, 4), t.share(6)
    conserved = t.part("conserved", 1e-10, controls=pooled, draws=6 * count)
    for norm, act, at in every(("l2", "LayerNorm"), REVERSIBLE, (3, 4)):
        weights = _net(t.rng, count, widths)
        (x,) = tensors(t.rng.standard_normal((count, 12, 5)))
        acts = [act, act, "linear" if at == 3 else act, "linear"]

        def inner(norm=norm, acts=acts, weights=weights, x=x, at=at, **more):
            return _inner(weights, _loss_gradient(weights, x, acts, norm, at, **more))

        # By autograd, below the normalisation; then above it, and with one condition broken.
        found = inner()
        conserved.add(*found[:at])
        if at == 3:
            conserved.breaks("layer above", found[3])
        bias = tensors(*(t.rng.standard_normal((count, 1, n)) for n in widths[1:]))
        conserved.breaks("biases", inner(bias=bias)[0])
        conserved.breaks("tanh", inner(acts=["tanh", "tanh", *acts[2:]])[0])
        conserved.breaks("no normalisation", inner(norm="none")[0])
        if norm == "LayerNorm":
            conserved.breaks("eps 0.1", inner(norm="LayerNorm, eps 0.1")[0])
    _norm_path(t, min(t.draws, 20))


def _norm_path(t: Trial, count: int) -> None:
    """Drift of the squared norms along Runge-Kutta paths of the gradient flow (smooth net).

    LayerNorm's slope has no bound where all outputs of a sample are nearly alike, and the
    integrator is then at fault. Hence many outputs; and draws that end elsewhere at twice the step
    are left out.
    """
    (x,) = tensors(t.rng.standard_normal((count, 8, 4)))
    start = _net(t.rng, count, (4, 24, 24))
    before = [(w * w).sum((-1, -2)) for w in start]
    trajectory, travelled, left = t.part("trajectory", 1e-7), [], 0

    def path(act: str, norm: str, steps: int = 160) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Drift of squared norms [draws], how far matrices move [layers, draws], relative; ends."""

        def speed(ws: list[Tensor]) -> list[Tensor]:
            return [-g for g in _loss_gradient(ws, x, [act, "linear"], norm, 2)]

        ws = runge_kutta(start, speed, 0.02 / steps, steps)
        pairs = zip(before, ((w * w).sum((-1, -2)) for w in ws), strict=True)
        way = [torch.linalg.matrix_norm(a - b) for a, b in zip(ws, start, strict=True)]
        drift = torch.stack([(a - b).abs() / b for b, a in pairs]).amax(0)
        return drift, torch.stack(way) / torch.stack(before).sqrt(), ws

    for norm in ("l2", "LayerNorm"):
        (_, _, coarse), (drift, way, end) = (path("linear", norm, n) for n in (160, 320))
        apart = [torch.linalg.matrix_norm(a - b) for a, b in zip(coarse, end, strict=True)]
        sure = torch.stack(apart).amax(0) < 1e-6  # then `end` is sixteen times closer
        trajectory.add(drift[sure])
        travelled.append(way)
        left += int((~sure).sum())
    trajectory.breaks("eps 0.1", path("linear", "LayerNorm, eps 0.1")[0].median())
    trajectory.breaks("tanh", path("tanh", "LayerNorm")[0].median())
    trajectory.says(moved=float(torch.stack(travelled).median()), left=left)


@check("acl/lem8")
def lem8(t: Trial) -> None:
    """Weight norms are conserved below a normalisation and reversible layers (Lemma 8).

    Given   up to four layers of mixed reversible kinds between W_l and an l2 or LayerNorm layer;
            one smooth loss without symmetry.
    Claim   <W_l, dLoss/dW_l> = 0, by autograd; the key step J f = 0, J by the formula of Lemma 7.
    Fails   for a tanh among the layers; below an l2 penalty in place of the normalisation, as
            typeset ("l2 regularization"); J f for P_1^perp in place of P_{x,1}^perp.
    """
    count = t.share(8)
    conserved = t.part("conserved", 1e-9, controls=pooled, draws=8 * count)
    for norm, between in every(("l2", "LayerNorm"), range(1, 5)):
        depth = between + 1
        weights = _net(t.rng, count, (5, *(24 for _ in range(depth)), 3))
        (x,) = tensors(t.rng.standard_normal((count, 12, 5)))
        first, *others = [*t.rng.choice(REVERSIBLE, depth - 1), "linear", "linear"]
        # By autograd in all layers up to the normalisation: as stated; tanh first; a penalty only.
        found, bent, typeset = (
            _inner(weights, _loss_gradient(weights, x, [act, *others], layer, depth, penalty=size))
            for act, layer, size in ((first, norm, 0), ("tanh", norm, 0), (first, "none", 0.5))
        )
        conserved.add(*found[:depth]).breaks("a tanh among them", bent[0])
        conserved.breaks("as typeset: an l2 penalty", typeset[0])

    # The key step, J of Lemma 7 for l2 and for LayerNorm; the control is LayerNorm's.
    kills = t.part("J f = 0", 1e-12, controls=typical, draws=8 * count)
    for n in range(3, 9):
        f = t.rng.standard_normal((count, n))
        kills.add(*(np.abs(times(lemma7(f, ones), f)).max(-1) for ones in (False, True)))
        centred = f @ (np.eye(n) - 1 / n)
        kept = np.abs(centred).max(-1) / np.linalg.norm(centred, axis=-1)
        kills.breaks(r"$P_1^\perp$ in place of $P_{x,1}^\perp$", kept)


def conserved_rows(t: Trial, name: str, rng: np.random.Generator) -> None:
    """A row's norm is conserved under BatchNorm of its node, and not under other layers."""
    count = t.share(3)
    conserved = t.part(name, 1e-9, controls=pooled)
    for act in REVERSIBLE:
        weights = _net(rng, count, (5, 24, 4))
        (x,) = tensors(rng.standard_normal((count, 32, 5)))

        def rows(norm: str, act: str = act, weights=weights, x=x) -> Array:
            slopes = _loss_gradient(weights, x, [act, "linear"], norm, 1)
            return _inner(weights, slopes, rows=True)[0]

        conserved.add(rows("BatchNorm"))
        conserved.breaks("l2 instead", rows("l2"))
        conserved.breaks("LayerNorm instead", rows("LayerNorm"))
        conserved.breaks("tanh before it", rows("BatchNorm", act="tanh"))


@check("acl/lem11")
def lem11(t: Trial) -> None:
    """BatchNorm conserves the norm of each filter (Lemma 11, Eqs. 119-121).

    Given   linear, ReLU and leaky ReLU nets with BatchNorm of the hidden nodes over a batch of 32.
    Claim   <w_k, dLoss/dw_k> = 0 for the fan-in weights of each node; and Eq. 119, f^n = J f, g
            = J^T g^n with J symmetric, J that of Lemma 7 over the batch.
    Fails   the rows under l2 or LayerNorm, and with tanh before BatchNorm. Eq. 119's forward half
            as printed: J f = 0, whether f^n has norm 1 or, the control, std 1. Corrected: J f = 0
            is what Eq. 121 needs, not f^n. The backward half fails with |f| for |P_1^perp f|.
    """
    conserved_rows(t, "conserved", t.rng)

    # Eq. 119, backward: J of Lemma 7 is the Jacobian of what BatchNorm does.
    count = t.share(3)
    more: Shared = {"controls": typical, "draws": 3 * count}
    f = t.rng.standard_normal((count, 32))  # one node over the batch
    J, image = lemma7(f, True), MAPS["centred norm"](f)
    backward = t.part("Eq. 119, backward", 1e-10, **more)
    backward.add(relative(jacobian(MAPS["centred norm"], f), J))
    # With a mean of 0.7, so that |f| is not |P_1^perp f|.
    raw = relative(jacobian(MAPS["as printed"], f + 0.7), lemma7(f + 0.7, True))
    backward.breaks(r"$\|f\|$ below", raw)

    # Forward, J f is not the output, but 0.
    Jf = times(J, f)
    printed = t.part("Eq. 119, forward", 1e-10, **more).add(absolute(Jf, image))
    # The standard deviation of 32 outputs is their centred norm over 32^(1/2).
    printed.breaks("with std for the norm", absolute(Jf, np.sqrt(32) * image))
    gap = f - f.mean(-1, keepdims=True)
    printed.fails_by(np.abs(gap).max(-1) / np.linalg.norm(gap, axis=-1))  # J f is 0
    corrected = t.corrected("Eq. 119, forward", 1e-10, **more).add(np.abs(Jf).max(-1))
    corrected.breaks("$f^n_k=J_kf_k$ as printed", absolute(Jf, image))
