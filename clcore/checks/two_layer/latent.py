"""A latent behind receptive fields (nl Lemma 5, App. C.2).

Enumeration of all joint states in numpy meets `clcore.theory.two_layer.field_latent`.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from clcore import random
from clcore import reference as ref
from clcore.ledger import Check
from clcore.reference import Array, relative, typical, worst
from clcore.theory.one_layer import one_layer
from clcore.theory.two_layer import field_latent, two_layer

STATES, INPUTS = 4, 3


def settings() -> tuple[tuple[int, int, int], ...]:
    """(values of z, fields, filters a field)."""
    return ((2, 3, 1), (3, 2, 2), (4, 3, 1))


def net_of(
    rng: np.random.Generator, draws: int, C: int, K: int, M: int
) -> tuple[field_latent.Model, Array]:
    """A random model and unit filters, each with w^T x > 0 in some state."""
    key = random.fold_in(random.key(int(rng.integers(2**40))), torch.arange(draws))
    model = field_latent.draw(key, C, K, STATES, INPUTS)
    return model, filters(rng, model, M)


def filters(rng: np.random.Generator, model: field_latent.Model, M: int) -> Array:
    """Random unit filters, turned around where no state of their field would pass the gate."""
    values = model.values.numpy()
    draws, K, _, d = values.shape
    W = rng.standard_normal((draws, K, M, d))
    silent = (np.einsum("bksd,bkmd->bkms", values, W).max(-1) <= 0)[..., None]
    return np.where(silent, -W, W) / np.linalg.norm(W, axis=-1, keepdims=True)


def middle(*errors: Array) -> float:
    """For controls that some setting lets through by chance: the median over all draws."""
    return float(np.median(np.concatenate([np.ravel(e) for e in errors])))


class Law(NamedTuple):
    """Moments of the stacked gated inputs by enumeration: V, and V given each z, [draws, q, q];
    their means given z, [draws, C, q]."""

    covariance: Array
    given: list[Array]
    means: Array


def _gated(x: Array, W: Array, kind: str) -> Array:
    """[draws, K*M*d] of one state x [draws, K, d], by a loop over filters."""
    low = {"linear": 1.0, "relu": 0.0, "leaky_relu": 0.05}[kind]
    pieces = []
    for k in range(W.shape[1]):
        for m in range(W.shape[2]):
            on = (x[:, k] * W[:, k, m]).sum(-1) > 0
            pieces.append(np.where(on, 1.0, low)[:, None] * x[:, k])
    return np.concatenate(pieces, -1)


def enumerated(model: field_latent.Model, W: Array, kind: str, coupling: float = 0.0) -> Law:
    """All joint states by a loop. `coupling` favours states in which the first two fields are
    alike, which breaks their independence given z."""
    prior, table, values = (v.numpy() for v in model)
    draws, C, K, S = table.shape
    size = W.shape[1] * W.shape[2] * W.shape[3]
    mean, square = np.zeros((draws, C, size)), np.zeros((draws, C, size, size))
    for joint in product(range(S), repeat=K):
        x = np.stack([values[:, k, s] for k, s in enumerate(joint)], 1)
        g = _gated(x, W, kind)
        outer = g[:, :, None] * g[:, None]
        for c in range(C):
            chance = np.prod([table[:, c, k, s] for k, s in enumerate(joint)], 0)
            if coupling:
                rest = np.prod([table[:, c, k, s] for k, s in enumerate(joint) if k != 1], 0)
                chance = (1 - coupling) * chance + coupling * (joint[0] == joint[1]) * rest
            mean[:, c] += chance[:, None] * g
            square[:, c] += chance[:, None, None] * outer
    total = (prior[..., None] * mean).sum(1)
    second = (prior[..., None, None] * square).sum(1)
    given = [square[:, c] - mean[:, c, :, None] * mean[:, c, None] for c in range(C)]
    return Law(second - total[:, :, None] * total[:, None], given, mean)


def inputs(model: field_latent.Model, W: Array, kind: str) -> tuple[one_layer.World, torch.Tensor]:
    """The joint law as a world, and its stacked gated inputs [draws, n, K*M*d]."""
    joint = field_latent.joint(model)
    world = one_layer.World(field_latent.features(joint.states, model.values), joint.p)
    return world, two_layer.gated(world.x, torch.from_numpy(W), kind).flatten(-3)


def table_of(model: field_latent.Model, W: Array, kind: str) -> torch.Tensor:
    """Gated inputs of every state, [draws, K, S, M*d]."""
    states = model.values.transpose(-2, -3)
    return two_layer.gated(states, torch.from_numpy(W), kind).flatten(-2).transpose(-2, -3)


def lem5(draws: int, seed: int) -> Iterator[Check]:
    """V of gated inputs in closed form against enumeration, ReLU, two to four latent values.

    Controls: fields coupled given z; p_c (1 - p_c); L_k a vector; one class only; the whole
    variance.
    """
    check = partial(Check, "nl/lem5")
    rng = ref.generator("lem5", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    count = ref.share(draws, len(settings()))
    for C, K, M in settings():
        model, W = net_of(rng, count, C, K, M)
        law, coupled = (enumerated(model, W, "relu", c) for c in (0.0, 0.4))
        g = table_of(model, W, "relu")
        ours = field_latent.covariance(model, g).numpy()
        delta = field_latent.contrasts(model, g).flatten(-2).numpy()
        p = model.prior.numpy()
        between = _sum_outer(p * (1 - p) ** 2, delta)
        found["all"].append(relative(ours, law.covariance))
        found["coupled"].append(relative(ours, coupled.covariance))
        wrong = ours - between + _sum_outer(p * (1 - p), delta)
        found["not squared"].append(relative(wrong, law.covariance))
        within = ours - between
        diagonal = within * np.eye(within.shape[-1])
        found["vector"].append(relative(diagonal + between, law.covariance))
        inside = sum(p[:, c, None, None] * law.given[c] for c in range(C))
        left = law.covariance - inside
        values = np.linalg.eigvalsh(left)
        found["rank"].append(np.abs(values[:, : -C or None]).max(-1) / values[:, -1])
        whole = np.linalg.eigvalsh(law.covariance)
        found["rank, all"].append(np.abs(whole[:, :-C]).max(-1) / whole[:, -1])
        if C == 2:
            one = (p[:, 0] * p[:, 1])[:, None, None] * delta[:, 0, :, None] * delta[:, 0, None]
            found["two"].append(relative(one, left))
            found["two, p0"].append(relative(one / p[:, 1, None, None], left))
    total = count * len(settings())
    yield check(
        worst(*found["all"]),
        1e-11,
        {
            "fields coupled given z": middle(*found["coupled"]),
            "$p_c(1-p_c)$": middle(*found["not squared"]),
            "as typeset: $L_k$ a vector, the diagonal": middle(*found["vector"]),
        },
        draws=total,
        part="Eq. 120",
        misprint=r"$L_k\in\mathbb R^{Md}$ -> $L_k\in\mathbb R^{Md\times Md}$",
    )
    yield check(
        worst(*found["two"]),
        1e-11,
        {"$p_0$ for $p_0p_1$": typical(*found["two, p0"])},
        draws=count,
        part="C = 2",
        note="Of either sign: Section 4.2 takes z = 1 minus z = 0, here it is the other way.",
    )
    yield check(
        worst(*found["rank"]),
        1e-11,
        {"with the variance given z": middle(*found["rank, all"])},
        draws=total,
        part="rank",
        note="At most C, as printed; at most C - 1 in fact, as the means are centred.",
    )


def _sum_outer(weights: Array, delta: Array) -> Array:
    return np.einsum("bc,bci,bcj->bij", weights, delta, delta)


def eq128(draws: int, seed: int) -> Iterator[Check]:
    """The algebra of conditional means, by loops over the values of z.

    Controls: without the factor; not squared; p_0 for p_0 p_1.
    """
    check = partial(Check, "nl/eq128")
    rng = ref.generator("eq128", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    for C in (2, 3, 6):
        model, W = net_of(rng, ref.share(draws, 3), C, 2, 1)
        g = table_of(model, W, "relu")
        q = field_latent.means(model, g).flatten(-2).numpy()
        ours = field_latent.contrasts(model, g).flatten(-2).numpy()
        p = model.prior.numpy()
        mean = sum(p[:, c, None] * q[:, c] for c in range(C))
        left = np.stack([q[:, c] - mean for c in range(C)], 1)
        found["gap"].append(relative((1 - p)[..., None] * ours, left))
        found["gap, 1"].append(relative(ours, left))
        spread = sum(p[:, c, None, None] * left[:, c, :, None] * left[:, c, None] for c in range(C))
        found["V"].append(relative(_sum_outer(p * (1 - p) ** 2, ours), spread))
        found["V, 1"].append(relative(_sum_outer(p * (1 - p), ours), spread))
        if C == 2:
            weight = (p * (1 - p) ** 2).sum(-1)
            pair = np.abs(ours[:, 0] + ours[:, 1]).max(-1) / np.abs(ours[:, 0]).max(-1)
            found["two"] += [pair, relative(weight, p[:, 0] * p[:, 1])]
            found["two, p0"].append(relative(weight, p[:, 0]))
    total = 3 * ref.share(draws, 3)
    for part, key, broken, name in (
        ("Eq. 128", "gap", "gap, 1", "without $1-p_c$"),
        ("Eq. 131", "V", "V, 1", "$1-p_c$ not squared"),
        ("C = 2", "two", "two, p0", "$p_0$ for $p_0p_1$"),
    ):
        yield check(
            worst(*found[key]), 1e-11, {name: typical(*found[broken])}, draws=total, part=part
        )
