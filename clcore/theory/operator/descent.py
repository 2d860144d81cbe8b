"""Gradient descent on population losses by the covariance operator (ddn Thm. 1), and what VE_l and
EV_l become during it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from clcore.theory.operator import connection as net
from clcore.theory.operator import covariance_operator as co


@dataclass(frozen=True)
class Path:
    """What `train` returns; T recorded steps come first.

    weights: after the last step. between, within: eigenvalues of VE_l and EV_l, one [T, *b, w_l] a
    layer, rising. residue: |theta| / |V^xi / 2| in Frobenius norm, [T, *b, L]. spread: E[sigma^2]
    and E of the variance between samples, [T, *b, 2].
    """

    steps: list[int]
    weights: tuple[Tensor, ...]
    between: tuple[Tensor, ...]
    within: tuple[Tensor, ...]
    residue: Tensor
    spread: Tensor


def train(
    weights: Sequence[Float[Tensor, "*b _ _"]],
    world: co.World,
    loss: co.Loss,
    weight: Callable[[Tensor], Tensor],
    rate: float,
    steps: int,
    every: int = 10,
    normalised: bool = False,
    tied: bool = False,
) -> Path:
    """Population gradient descent, vec(W_l) += rate * OP_l vec(W_l), all draws at once.

    weight: r -> xi(r) of the same loss, for the residue. normalised: distances of f / |f|, whose
    operator has K_l^n P and K_l^n for K_l. tied: the gradient through both towers, as in practice;
    the paper's is that of one. It records one tower's. Errors: as
    `covariance_operator.population_loss`.
    """
    weights = tuple(weights)
    kept: list[tuple] = []
    times = sorted({*range(0, steps + 1, every), steps})
    for step in range(steps + 1):
        seen = net.trace(weights, world.points)
        f = world.shaped(net.unit(seen.output) if normalised else seen.output, 1)
        pull = co.pulls(loss, f, world)
        pairs = [_sides(seen, layer, normalised) for layer in range(1, len(weights) + 1)]
        if step in times:
            kept.append(_record(weights, world, seen, f, pull, weight, pairs, normalised))
        if step == steps:
            break
        weights = tuple(
            W
            + rate
            * net.unvec(
                (co.operator(a, b, pull, tied) @ net.vec(W)[..., None])[..., 0], W.shape[-2]
            )
            for W, (a, b) in zip(weights, pairs, strict=True)
        )
    low, high, share, spread = zip(*kept, strict=True)
    layers = range(len(weights))
    return Path(
        times,
        weights,
        tuple(torch.stack([k[layer] for k in low]) for layer in layers),
        tuple(torch.stack([k[layer] for k in high]) for layer in layers),
        torch.stack(share),
        torch.stack(spread),
    )


def _sides(seen: net.Trace, layer: int, normalised: bool) -> tuple[Tensor, Tensor]:
    """(A, B) of `covariance_operator.operator` for one layer."""
    if not normalised:
        K = net.connection(seen, layer)
        return K, K
    K = net.normalised_connection(seen, layer)
    return K @ net.projector(seen.output), K


def _spectrum(A: Float[Tensor, "*b w w"]) -> Float[Tensor, "*b w"]:
    """Eigenvalues, rising; NaN for the draws that have diverged, where eigvalsh would raise."""
    finite = A.isfinite().all(-1, keepdim=True).all(-2, keepdim=True)
    values = torch.linalg.eigvalsh(torch.where(finite, A, 0.0))
    return torch.where(finite[..., 0], values, torch.nan)


def _record(weights, world, seen, f, pull, weight, pairs, normalised) -> tuple:
    plain = net.trace(weights, world.samples).output
    xi = co.weighted_pulls(
        weight(co.half_distances(*[net.unit(plain) if normalised else plain] * 2)), world
    )
    low, high, share = [], [], []
    for layer, (a, b) in enumerate(pairs, 1):
        K = world.shaped(net.connection(seen, layer), 2)
        low.append(_spectrum(co.between(K, world)))
        high.append(_spectrum(co.within(K, world)))
        main = co.operator(a, b, xi)
        theta = co.operator(a, b, pull) - main
        share.append(torch.linalg.matrix_norm(theta) / torch.linalg.matrix_norm(main))
    inside = (world.chances * co.view_variance(f, world)).sum(-1)
    mean = co.view_mean(f[..., None], world)
    across = co.covariance(mean, mean, world.chances).diagonal(dim1=-2, dim2=-1).sum(-1)
    return low, high, torch.stack(share, -1), torch.stack([inside, across], -1)
