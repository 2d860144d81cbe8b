"""Linear filters of one field learn one direction, ReLU filters several (nl Sec. 4.1).

Random latent models, enumerated, and token sequences (nl Sec. 5), in a world small enough to follow
the flow with the top layer always at its optimum.
"""

from collections.abc import Iterator

import numpy as np
import torch

from clcore import random
from clcore.checks.two_layer.fields.linear import _second
from clcore.experiments import token_sequences as ts
from clcore.ledger import Trial, check, pooled
from clcore.reference import sphere
from clcore.theory.one_layer import one_layer
from clcore.theory.two_layer import field_latent, two_layer

SIZES = ((2, 8, 3, 5), (3, 4, 4, 6), (2, 6, 5, 4))
"""Fields, filters a field, inputs a field, values of an input."""
STEPS, FREE_STEPS = 300, 80


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


def _freed(world: one_layer.World, W: torch.Tensor, kind: str, steps: int) -> torch.Tensor:
    """Directions after the flow without projection, at a separate pace for each field."""
    for _ in range(steps):
        move = _velocity(world, W, kind)
        size, length = (torch.linalg.vector_norm(v, dim=-1).amax(-1) for v in (move, W))
        W = W + (length / (2 * size))[..., None, None] * move
        W = W / torch.linalg.vector_norm(W, dim=(-3, -2, -1), keepdim=True)  # turns no filter
    return W / torch.linalg.vector_norm(W, dim=-1, keepdim=True)


def _models(rng: np.random.Generator, draws: int) -> Iterator[tuple[one_layer.World, torch.Tensor]]:
    """Enumerated worlds of each size and random unit filters."""
    for K, M, d, values in SIZES:
        key = random.fold_in(random.key(int(rng.integers(2**40))), torch.arange(draws))
        model = field_latent.draw(key, 2, K, values, d)
        joint = field_latent.joint(model)
        world = one_layer.World(field_latent.features(joint.states, model.values), joint.p)
        yield world, torch.from_numpy(sphere(rng, draws, K, M, d))


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

    Given   linear and ReLU filters of one receptive field, many to a field, drawn at norm 1; random
            models and token sequences, V at its optimum; gradients without projection, training
            without it and on unit filters.
    Claim   Linear filters of a field have parallel gradients, and after training are parallel:
            second over first singular value 0.
    Fails   for ReLU filters.
    """
    first = t.part("gradients", 1e-10, controls=pooled)
    last = t.part("after training", 1e-6, controls=pooled)
    free = t.part("after training, free norms", 1e-6, controls=pooled)
    projected = []
    for world, W in _models(t.rng, min(t.draws, 20)):
        # A field's velocities, not projected: the second singular value over the first.
        linear, relu = (_velocity(world, W, kind) for kind in ("linear", "relu"))
        first.add(_second(linear.numpy())).breaks("ReLU", _second(relu.numpy()))
        projected.append(_second(two_layer.tangent(W, linear).numpy()))

        # The same ratio of the filters themselves, after training.
        last.add(_second(_trained(world, W, "linear", STEPS).numpy()))
        last.breaks("ReLU", _second(_trained(world, W, "relu", STEPS).numpy()))

        # That of their directions, trained without projection.
        free.add(_second(_freed(world, W, "linear", FREE_STEPS).numpy()))
        free.breaks("ReLU", _second(_freed(world, W, "relu", FREE_STEPS).numpy()))
    first.says(sphere=np.median(np.concatenate(projected)))

    # The same ratio of filters that were trained on token sequences.
    tokens = t.part("after training, token sequences", 1e-3, controls=pooled)
    for _ in range(min(t.draws, 4)):
        world = _token_world(t.rng)
        W = torch.from_numpy(sphere(t.rng, 3, 6, 6))
        tokens.add(_second(_trained(world, W, "linear", 150).numpy()))
        tokens.breaks("ReLU", _second(_trained(world, W, "relu", 150).numpy()))
