"""Linear filters of one field learn one direction, ReLU filters several (nl Sec. 4.1).

Random latent models, enumerated, and token sequences (nl Sec. 5), in a world small enough to follow
the flow with the top layer always at its optimum.
"""

from collections.abc import Iterator

import numpy as np
import torch

from clcore import random
from clcore.checks.two_layer.fields.linear import _second, _unprojected
from clcore.experiments import token_sequences as ts
from clcore.ledger import Trial, check, pooled, typical
from clcore.reference import Array, relative, sphere, tangent, unit
from clcore.theory.one_layer import one_layer
from clcore.theory.two_layer import field_latent, two_layer

SIZES = ((2, 8, 3, 5), (3, 4, 4, 6), (2, 6, 5, 4))
"""Fields, filters a field, inputs a field, values of an input."""
STEPS = 300


def _velocity(world: one_layer.World, W: torch.Tensor, kind: str) -> torch.Tensor:
    """W' of Lemma 4 before its projection, V at its optimum."""
    f = one_layer.covariance(world, two_layer.hidden(world.x, W, kind))
    return two_layer.flow(world, W, two_layer.top_weights(f)[..., None, :], kind).W


def _trained(world: one_layer.World, W: torch.Tensor, kind: str, steps: int) -> torch.Tensor:
    """Unit filters after the projected flow, at a separate pace for each field."""
    for _ in range(steps):
        move = _velocity(world, W, kind)
        size = torch.linalg.vector_norm(move, dim=-1).amax(-1, keepdim=True)[..., None]
        W = W + two_layer.tangent(W, move) / (2 * size)
        W = W / torch.linalg.vector_norm(W, dim=-1, keepdim=True)
    return W


def _trained_alone(C: Array, W: Array, steps: int) -> Array:
    """Linear filters, by numpy, from C_alpha of all inputs alone; smaller steps."""
    for _ in range(steps):
        move = _unprojected(C, W)
        size = np.linalg.norm(move, axis=-1).max(-1)[..., None, None]
        W = unit(W + 0.4 * tangent(W, move) / size)
    return W


def _gradient(world: one_layer.World, W: torch.Tensor) -> torch.Tensor:
    """Gradient of s^T C_alpha[f_1] s / 2 at the optimal s, held, of linear filters, autograd."""
    free = W.clone().requires_grad_()
    C = one_layer.covariance(world, two_layer.hidden(world.x, free, "linear"))
    s = torch.linalg.eigh(C.detach()).eigenvectors[..., -1]
    value = torch.einsum("...i,...ij,...j->...", s, C, s).sum() / 2
    return torch.autograd.grad(value, free)[0]


def _models(rng: np.random.Generator, draws: int) -> Iterator[tuple[one_layer.World, torch.Tensor]]:
    """Enumerated worlds of each size and random unit filters."""
    for K, M, d, values in SIZES:
        key = random.fold_in(random.key(int(rng.integers(2**40))), torch.arange(draws))
        model = field_latent.draw(key, 2, K, values, d)
        joint = field_latent.joint(model)
        world = one_layer.World(field_latent.features(joint.states, model.values), joint.p)
        yield world, torch.from_numpy(sphere(rng, draws, K, M, d))


def _inputs(world: one_layer.World) -> Array:
    """V[x] of all fields' inputs, [draws, K d, K d], by numpy."""
    x, p = world.x.flatten(-2).numpy(), world.p.numpy()
    x, p = np.broadcast_to(x, (len(p), *x.shape[-2:])), p / p.sum(-1, keepdims=True)
    x = x - (p[..., None] * x).sum(1, keepdims=True)
    return np.swapaxes(x, 1, 2) @ (p[..., None] * x)


def _token_world(rng: np.random.Generator) -> one_layer.World:
    """96 pairs of sequences: 3 fields of 6 tokens, 3 of them in the generators; alpha = 1."""
    key = random.key(int(rng.integers(2**40)))
    ours, theirs = random.split(key)
    patterns, _ = ts.generators(ours, 3, fields=3, tokens=6, count=12, fixed=2)
    pair = ts.views(theirs, patterns, 96, 6)
    x, x2 = torch.nn.functional.one_hot(pair, 6).double()
    return two_layer.of_views(torch.ones(96, 96, dtype=torch.float64), x, x2)


@check("nl/rem16")
def rem16(t: Trial) -> None:
    """Linear activation never learns diverse features, however many filters (Sec. 4.1).

    Given   linear and ReLU filters of one receptive field, many to a field; random models and
            token sequences, V at its optimum.
    Claim   Linear filters of a field have parallel gradients, and after training are parallel:
            second over first singular value 0, by the library, by automatic differentiation and by
            numpy.
    Fails   for ReLU filters.
    """
    first = t.part("gradients", 1e-10, controls=pooled)
    slopes = t.part("gradients, by automatic differentiation", 1e-10, controls=typical)
    last = t.part("after training", 1e-6, controls=pooled)
    alone = t.part("after training, by numpy", 1e-3, controls=pooled)
    projected = []
    for world, W in _models(t.rng, min(t.draws, 20)):
        # Lemma 4's velocities: the second singular value of a field's, over the first.
        linear, relu = (_velocity(world, W, kind) for kind in ("linear", "relu"))
        first.add(_second(linear.numpy())).breaks("ReLU", _second(relu.numpy()))
        projected.append(_second(two_layer.tangent(W, linear).numpy()))

        # The same velocities as the gradient of s^T C_alpha[f_1] s / 2.
        gradient = _gradient(world, W)
        slopes.add(relative(gradient, linear)).breaks("ReLU", relative(gradient, relu))

        # Filters after the flow: the second singular value of a field's, by the library, by numpy.
        straight, several = (
            _second(_trained(world, W, kind, STEPS).numpy()) for kind in ("linear", "relu")
        )
        last.add(straight).breaks("ReLU", several)
        alone.add(_second(_trained_alone(_inputs(world), W.numpy(), 2 * STEPS)))
        alone.breaks("ReLU", several)
    first.says(sphere=np.median(np.concatenate(projected)))

    # The same after training on token sequences.
    tokens = t.part("after training, token sequences", 1e-3, controls=pooled)
    for _ in range(min(t.draws, 4)):
        world = _token_world(t.rng)
        W = torch.from_numpy(sphere(t.rng, 3, 6, 6))
        tokens.add(_second(_trained(world, W, "linear", 150).numpy()))
        tokens.breaks("ReLU", _second(_trained(world, W, "relu", 150).numpy()))
