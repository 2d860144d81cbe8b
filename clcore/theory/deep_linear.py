"""Deep linear nets z = W_L ... W_1 x on products of spheres (acl Sec. 4).

`weights` is (W_1, ..., W_L), W_l of shape [*b, n_l, n_{l-1}]; X is the contrastive covariance of
the input, [*b, d, d], symmetric (`contrast.contrastive_covariance`). Leading dimensions are runs,
and thousands of them are one stacked tensor. Layers count from 1, as in the paper.

The max player's energy is E = tr(W X W^T) (acl Eq. 12). Its gradient is twice `flow`: what acl
Lemma 1 calls the dynamics is descent on the loss, and the loss falls at half of E's gradient.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clcore import random
from clcore.losses import contrast

Weights = Sequence[Float[Tensor, "*b _ _"]]
Layers = tuple[Tensor, ...]


def _require_chain(weights: Sequence[Tensor]) -> None:
    for layer, (low, high) in enumerate(pairwise(weights), 1):
        if high.shape[-1] != low.shape[-2]:
            raise ValueError(
                f"expected W_{layer + 1} to have {low.shape[-2]} columns, as many as W_{layer} has "
                f"rows, got {high.shape[-1]}; weights are (W_1, ..., W_L), the bottom first"
            )


# ------------------------------------------------------------------------- products of the layers


def below(weights: Weights) -> Layers:
    """(I, W_1, W_2 W_1, ..., W_L ... W_1): from the input to layers 0..L. Errors: shapes."""
    _require_chain(weights)
    first = weights[0]
    eye = torch.eye(first.shape[-1], dtype=first.dtype, device=first.device)
    maps = [eye.expand(*first.shape[:-2], *eye.shape), first]
    for w in weights[1:]:
        maps.append(w @ maps[-1])
    return tuple(maps)


def above(weights: Weights) -> Layers:
    """(W_{>0}, ..., W_{>L}) with W_{>l} = W_L ... W_{l+1} and W_{>L} = I (acl Eq. 10).

    Errors: shapes.
    """
    _require_chain(weights)
    last = weights[-1]
    eye = torch.eye(last.shape[-2], dtype=last.dtype, device=last.device)
    maps = [eye.expand(*last.shape[:-2], *eye.shape), last]
    for w in reversed(weights[:-1]):
        maps.append(maps[-1] @ w)
    return tuple(reversed(maps))


def forward(weights: Weights, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n k"]:
    """z = W_L ... W_1 x for each of n samples, layer by layer (acl Eq. 10). Errors: shapes."""
    _require_chain(weights)
    for w in weights:
        x = x @ w.mT
    return x


def energy(weights: Weights, X: Float[Tensor, "*b d d"]) -> Float[Tensor, "*b"]:
    """E = tr(W X W^T), acl Eq. 12. Errors: shapes."""
    W = above(weights)[0]
    return ((W @ X) * W).sum((-1, -2))


def layer_covariances(weights: Weights, X: Float[Tensor, "*b d d"]) -> Layers:
    """(C_alpha[f_0], ..., C_alpha[f_L]), the contrastive covariance after each layer (acl Lemma 1).

    C_alpha[f_l] is W_{l..1} X W_{l..1}^T. Errors: shapes.
    """
    return tuple(m @ X @ m.mT for m in below(weights))


def flow(weights: Weights, X: Float[Tensor, "*b d d"]) -> Layers:
    """dW_l/dt = W_{>l}^T W_{>l} W_l C_alpha[f_{l-1}], all layers at once (acl Eqs. 11, 37).

    Half the gradient of `energy`. Errors: shapes.
    """
    return _flow(weights, X)[2]


def _flow(weights: Weights, X: Tensor) -> tuple[Tensor, Tensor, Layers]:
    """W, W X, and `flow`. Half of an ascent's time goes here, so no product with I is taken."""
    high = above(weights)
    WX = high[0] @ X
    low = below(weights[:-1])[1:] if len(weights) > 1 else ()
    right = [WX, *(WX @ m.mT for m in low)]
    moves = [high[k + 1].mT @ r for k, r in enumerate(right[:-1])]
    return high[0], WX, (*moves, right[-1])


# ------------------------------------------------------------------------------- the constraint set


def _squares(w: Tensor, rows: bool) -> Tensor:
    return (w * w).sum(-1, keepdim=True) if rows else (w * w).sum((-1, -2), keepdim=True)


def _by_rows(rows: bool, layer: int, depth: int) -> bool:
    return rows and layer < depth - 1


def normalise(weights: Weights, rows: bool = False) -> Layers:
    """The weights scaled to |W_l|_F = 1 (acl Eq. 13).

    rows: instead, every row of W_1..W_{L-1} to norm 1/sqrt(n_l) (acl Cor. 3; BatchNorm's set).
    """
    out = []
    for layer, w in enumerate(weights):
        each = _by_rows(rows, layer, len(weights))
        out.append(w / (_squares(w, each) * (w.shape[-2] if each else 1)).sqrt())
    return tuple(out)


def tangent(weights: Weights, moves: Weights, rows: bool = False) -> Layers:
    """`moves` without their components that leave the constraint set of `normalise`."""
    out = []
    for layer, (w, g) in enumerate(zip(weights, moves, strict=True)):
        each = _by_rows(rows, layer, len(weights))
        dims = (-1,) if each else (-1, -2)
        out.append(g - (g * w).sum(dims, keepdim=True) / _squares(w, each) * w)
    return tuple(out)


def starts(keys: Int[Tensor, "*b"], widths: Sequence[int], rows: bool = False) -> Layers:
    """Random weights in the constraint set, uniform on each sphere; widths are n_0, ..., n_L.

    Errors: fewer than two widths.
    """
    if len(widths) < 2:
        raise ValueError(f"expected widths n_0, ..., n_L with L >= 1, got {list(widths)}")
    each = random.split(keys, len(widths) - 1)
    shapes = [(high, low) for low, high in pairwise(widths)]
    return normalise(
        [random.normal(each[..., k], s, torch.float64) for k, s in enumerate(shapes)], rows
    )


def with_spectrum(
    keys: Int[Tensor, "*b"], eigenvalues: Float[Tensor, "*b d"]
) -> Float[Tensor, "*b d d"]:
    """Symmetric X with these eigenvalues and random (Haar) eigenvectors."""
    d = eigenvalues.shape[-1]
    q, r = torch.linalg.qr(random.normal(keys, (d, d), torch.float64))
    q = q * r.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]
    return (q * eigenvalues[..., None, :]) @ q.mT


# ------------------------------------------------------------------------------------- the ascent


@dataclass(frozen=True)
class Limits:
    """Where an ascent ended. energy, residual: [runs]; steps: [runs], accepted and refused."""

    weights: Layers
    energy: Float[Tensor, " runs"]
    residual: Float[Tensor, " runs"]
    steps: Int[Tensor, " runs"]


def ascend(
    weights: Weights,
    X: Float[Tensor, "runs d d"],
    steps: int = 2000,
    tolerance: float = 1e-10,
    rows: bool = False,
    chunk: int = 1000,
) -> Limits:
    """Projected gradient ascent of E from many starts at once, [runs, n_l, n_{l-1}] a layer.

    A step is W_l <- normalise(W_l + eta D_l) with D the tangent part of `flow`. Each run has its
    own eta, which grows by half after a step that does not lower E and is cut to 0.4 after one that
    would, which is not taken: E never falls, and no run sees the others. A run stops when
    |D_l|_F <= tolerance |X|_2 for all l; `residual` is max_l |D_l|_F / |X|_2.
    Errors: shapes, chunk < 1.
    """
    if chunk < 1:
        raise ValueError(f"expected chunk >= 1 run at a time, got {chunk}")
    X = X.expand(weights[0].shape[0], *X.shape[-2:])
    parts = []
    for begin in range(0, X.shape[0], chunk):
        part = slice(begin, begin + chunk)
        parts.append(_ascend([w[part] for w in weights], X[part], steps, tolerance, rows))
    layers = tuple(torch.cat(ws) for ws in zip(*(p.weights for p in parts), strict=True))
    energies, residuals, counts = (
        torch.cat([getattr(p, name) for p in parts]) for name in ("energy", "residual", "steps")
    )
    return Limits(layers, energies, residuals, counts)


def _slope(weights: Layers, X: Tensor, rows: bool) -> tuple[Tensor, Layers, Tensor]:
    """E, the ascent direction, and the longest of its layers."""
    W, WX, moves = _flow(weights, X)
    value = (WX * W).sum((-1, -2))
    moves = tangent(weights, moves, rows)
    size = torch.stack([(m * m).sum((-1, -2)) for m in moves]).amax(0).sqrt()
    return value, moves, size


def _ascend(weights: Weights, X: Tensor, steps: int, tolerance: float, rows: bool) -> Limits:
    scale = torch.linalg.matrix_norm(X, 2)
    done = tuple(w.clone() for w in weights)
    value, moves, size = _slope(done, X, rows)
    final_value, final_size = value.clone(), size.clone()
    taken = torch.zeros(len(X), dtype=torch.int64, device=X.device)
    runs = torch.arange(len(X), device=X.device)
    eta, here = 0.5 / scale, done
    for step in range(steps + 1):
        ends = (
            (size <= tolerance * scale) if step < steps else torch.ones_like(size, dtype=torch.bool)
        )
        if ends.any():
            out = runs[ends]
            for whole, part in zip(done, here, strict=True):
                whole[out] = part[ends]
            final_value[out], final_size[out] = value[ends], (size / scale)[ends]
            taken[out] = step
            left = ~ends
            if not left.any():
                break
            here, moves = (tuple(t[left] for t in ts) for ts in (here, moves))
            runs, value, size, eta, X, scale = (t[left] for t in (runs, value, size, eta, X, scale))
        length = eta[:, None, None]
        there = normalise([w + length * m for w, m in zip(here, moves, strict=True)], rows)
        new_value, new_moves, new_size = _slope(there, X, rows)
        # Rounding alone may lower E by a few units in its last place.
        better = new_value >= value - 1e-15 * scale
        pick = better[:, None, None]
        here = tuple(torch.where(pick, a, b) for a, b in zip(there, here, strict=True))
        moves = tuple(torch.where(pick, a, b) for a, b in zip(new_moves, moves, strict=True))
        value, size = torch.where(better, new_value, value), torch.where(better, new_size, size)
        eta = torch.where(better, 1.5 * eta, 0.4 * eta)
    return Limits(done, final_value, final_size, taken)


# -------------------------------------------------------------------------- what a limit looks like


def curvature(
    weights: Weights, X: Float[Tensor, "runs d d"], rows: bool = False
) -> Float[Tensor, "runs p"]:
    """Eigenvalues, rising, of the Hessian of E on the constraint set, at critical points.

    It is the Hessian of E(normalise(W)) in all p entries of all layers, which is the Riemannian one
    and 0 across the constraint set. A local maximum has none above 0. [runs, p]
    """
    shapes = [w.shape[1:] for w in weights]
    flat = torch.cat([w.flatten(1) for w in weights], 1)
    sizes = [math.prod(s) for s in shapes]

    def value(theta: Tensor, X: Tensor) -> Tensor:
        layers = [t.reshape(s) for t, s in zip(theta.split(sizes), shapes, strict=True)]
        return energy(normalise(layers, rows), X)

    X = X.expand(len(flat), *X.shape[-2:])
    return torch.linalg.eigvalsh(torch.func.vmap(torch.func.hessian(value))(flat, X))


def misalignment(weights: Weights) -> Float[Tensor, "*b"]:
    """How far weights are from aligned-rank-1, W_l = v_l v_{l-1}^T (acl Def. 3); 0 when they are.

    The largest of |s_1(W_l) - 1|, s_2(W_l) and sin(angle(left vector of W_l, right vector of
    W_{l+1})). Signs of the v_l do not matter.
    """
    worst, left = [], None
    for w in weights:
        u, s, vh = torch.linalg.svd(w, full_matrices=False)
        worst.append((s[..., 0] - 1).abs())
        if s.shape[-1] > 1:
            worst.append(s[..., 1])
        if left is not None:
            right = vh[..., 0, :]
            along = (left * right).sum(-1, keepdim=True)
            worst.append((right - along * left).norm(dim=-1))
        left = u[..., 0]
    return torch.stack(worst).amax(0)


def unevenness(weights: Weights) -> Float[Tensor, "*b"]:
    """How far weights are from aligned-uniform (acl Def. 4): 0 when aligned-rank-1 and v_l even.

    The larger of `misalignment` and | |[v_l]_k| - 1/sqrt(n_l) |, l = 1..L-1.
    """
    worst = [misalignment(weights)]
    for w in weights[:-1]:
        left = torch.linalg.svd(w, full_matrices=False)[0][..., 0]
        worst.append((left.abs() - left.shape[-1] ** -0.5).abs().amax(-1))
    return torch.stack(worst).amax(0)


def trapped(
    weights: Weights, X: Float[Tensor, "*b d d"], tolerance: float = 1e-6
) -> Bool[Tensor, "*b"]:
    """Local maxima with E = 0: layers above some l cancel, and what reaches l is negative definite.

    If W_{>l} = 0 and C_alpha[f_l] < 0 for an l <= L-2, then E = tr(W_{>l} C_alpha[f_l] W_{>l}^T)
    is at most 0 in a neighbourhood and 0 here. `tolerance` is on |W_{>l}|_F and, relative to X, on
    the largest eigenvalue of C_alpha[f_l].
    """
    high, covariances = above(weights), layer_covariances(weights, X)
    scale = torch.linalg.matrix_norm(X, 2)
    found = torch.zeros(scale.shape, dtype=torch.bool, device=X.device)
    for layer in range(1, len(weights) - 1):
        cancels = torch.linalg.matrix_norm(high[layer]) <= tolerance
        top = torch.linalg.eigvalsh(covariances[layer])[..., -1]
        found = found | (cancels & (top < -tolerance * scale))
    return found


def distinct_top(
    weights: Weights, tolerance: float = 1e-6
) -> tuple[Float[Tensor, "*b"], Bool[Tensor, "*b"]]:
    """Largest eigenvalue of W_{>1}^T W_{>1}, and whether it is distinct (acl Thm. 3).

    A 1 by 1 matrix has a distinct largest eigenvalue, 0 included.
    """
    high = above(weights)[1]
    values = torch.linalg.eigvalsh(high.mT @ high)
    if values.shape[-1] == 1:
        return values[..., -1], torch.ones_like(values[..., -1], dtype=torch.bool)
    return values[..., -1], values[..., -1] - values[..., -2] > tolerance


# ------------------------------------------------------------------------------ whole trajectories


def singular_path(
    weights: Weights, X: Float[Tensor, "runs d d"], rate: float, steps: int, every: int = 1
) -> dict[str, Float[Tensor, "times runs ..."]]:
    """Projected gradient ascent at a fixed rate, W_l <- normalise(W_l + rate / |X|_2 * flow).

    Recorded before the first step and after each `every`-th: energy [times, runs]; first, second
    [times, runs, L], the two largest singular values of each layer (acl Fig. 3). Errors: shapes.
    """
    pace = (rate / torch.linalg.matrix_norm(X, 2))[:, None, None]
    out: dict[str, list[Tensor]] = {"energy": [], "first": [], "second": []}
    layers = tuple(weights)
    for step in range(steps + 1):
        if step % every == 0:
            spectra = [torch.linalg.svdvals(w) for w in layers]
            out["energy"].append(energy(layers, X))
            out["first"].append(torch.stack([s[:, 0] for s in spectra], -1))
            second = [s[:, 1] if s.shape[-1] > 1 else 0 * s[:, 0] for s in spectra]
            out["second"].append(torch.stack(second, -1))
        moves = flow(layers, X)
        layers = normalise([w + pace * m for w, m in zip(layers, moves, strict=True)])
    return {name: torch.stack(values) for name, values in out.items()}


def adversarial_ascent(
    weights: Weights,
    x: Float[Tensor, "runs n d"],
    x2: Float[Tensor, "runs n d"],
    tau: Float[Tensor, " runs"],
    rate: float,
    steps: int,
) -> tuple[Layers, Float[Tensor, "runs d d"]]:
    """The max player against the min player: alpha of acl Eq. 6 refreshed before every step.

    alpha_ij is the softmax over j of -d_ij / tau (rows sum to 1); tau = inf is uniform alpha, held
    for ever. Steps as in `singular_path`, with |X_alpha|_2 at the start. Returns the last
    weights and X_alpha. Errors: shapes.
    """
    layers, pace = tuple(weights), None
    for _ in range(steps + 1):
        distance = contrast.inter_distances(forward(layers, x)) / tau[:, None, None]
        alpha = torch.softmax(contrast.off_diagonal(-distance, -torch.inf), -1)
        X = contrast.contrastive_covariance(alpha, x, x2, x, x2)
        if pace is None:
            pace = (rate / torch.linalg.matrix_norm(X, 2))[:, None, None]
        last = layers
        moves = flow(layers, X)
        layers = normalise([w + pace * m for w, m in zip(layers, moves, strict=True)])
    return last, X
