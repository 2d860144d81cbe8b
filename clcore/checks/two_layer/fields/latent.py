"""A latent behind receptive fields (nl Lemma 5, App. C.2).

Enumeration of all joint states in numpy meets `clcore.theory.two_layer.field_latent`.
"""

import math
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from clcore import random
from clcore.checks.two_layer.fields import monomials
from clcore.ledger import Trial, check, pooled, typical
from clcore.reference import Array, relative, unit
from clcore.theory.one_layer import one_layer
from clcore.theory.two_layer import field_latent, two_layer

STATES, INPUTS = 4, 3


SETTINGS = ((2, 3, 1), (3, 2, 2), (4, 3, 1))
"""Values of z, fields, filters in each."""


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
    return unit(np.where(silent, -W, W))


class Law(NamedTuple):
    """Covariance of the stacked gated inputs by enumeration, [draws, q, q]; and given each z."""

    covariance: Array
    given: list[Array]


SLOPES: dict[str, Callable[[Array], Array]] = {
    "linear": np.ones_like,
    "relu": lambda u: np.where(u > 0, 1.0, 0.0),
    "leaky_relu": lambda u: np.where(u > 0, 1.0, 0.05),
    "quadratic": lambda u: 2 * u,
    "cubic": lambda u: 3 * u**2,
}
"""h'(u), from the page."""


def enumerated(model: field_latent.Model, W: Array, kind: str, coupling: float = 0.0) -> Law:
    """All joint states by a loop. `coupling`: with this chance the states of the first two fields
    are found from one uniform number, by their distribution functions: the law of each field given
    z is the same, but they are no longer independent."""
    prior, table, values = (v.numpy() for v in model)
    draws, C, K, S = table.shape
    top = table.cumsum(-1)
    bottom = top - table
    size = math.prod(W.shape[1:])
    mean, square = np.zeros((draws, C, size)), np.zeros((draws, C, size, size))
    for joint in product(range(S), repeat=K):
        x = np.stack([values[:, k, s] for k, s in enumerate(joint)], 1)[:, :, None]
        gate = SLOPES[kind]((x * W).sum(-1))
        g = (gate[..., None] * x).reshape(draws, 1, size)
        each = [table[:, :, k, s] for k, s in enumerate(joint)]
        upper, lower = ([F[:, :, k, joint[k]] for k in (0, 1)] for F in (top, bottom))
        both = np.clip(np.min(upper, 0) - np.max(lower, 0), 0, None)
        chance = (1 - coupling) * np.prod(each, 0) + coupling * both * np.prod(each[2:], 0)
        mean += chance[..., None] * g
        square += chance[..., None, None] * (g[..., None] * g[:, :, None])
    total = (prior[..., None] * mean).sum(1)
    second = (prior[..., None, None] * square).sum(1)
    given = [square[:, c] - mean[:, c, :, None] * mean[:, c, None] for c in range(C)]
    return Law(second - total[:, :, None] * total[:, None], given)


def inputs(model: field_latent.Model, W: Array, kind: str) -> tuple[one_layer.World, torch.Tensor]:
    """The joint law as a world, and its stacked gated inputs [draws, n, K*M*d]."""
    joint = field_latent.joint(model)
    world = one_layer.World(field_latent.features(joint.states, model.values), joint.p)
    return world, two_layer.gated(world.x, torch.from_numpy(W), kind).flatten(-3)


def table_of(model: field_latent.Model, W: Array, kind: str) -> torch.Tensor:
    """Gated inputs of every state, [draws, K, S, M*d]."""
    states = model.values.transpose(-2, -3)
    of = monomials.gated if kind in monomials.DEGREES else two_layer.gated
    return of(states, torch.from_numpy(W), kind).flatten(-2).transpose(-2, -3)


@check("nl/lem5")
def lem5(t: Trial) -> None:
    """Gated covariance given a global latent: block-diagonal plus low rank (Lemma 5, Eqs. 120-133).

    Given   Assumption 2, two to four values of z, all states enumerated; ReLU, leaky ReLU, linear,
            h = x^p, p = 2, 3.
    Claim   V[x~] = diag_k[L_k] + sum_c p_c (1 - p_c)^2 Delta(c) Delta(c)^T, L_k = E_z V[x~_k|z];
            for C = 2 the second term is p_0 p_1 Delta Delta^T; V_z E[x~|z] has rank at most C.
    Fails   for two fields that are not independent given z: with chance 0.4 they share one random
            number; for p_c (1 - p_c), for L_k a vector as typeset, p_0 for p_0 p_1; the rank, for
            V[x~] itself, which has the variance given z too.
    """
    form = t.part("Eq. 120", 1e-11, controls=pooled)
    two = t.part("C = 2", 1e-11, controls=typical)
    rank = t.part("rank", 1e-11, controls=pooled)
    cases = tuple(product(SETTINGS, SLOPES))
    for (C, K, M), kind in cases:
        model, W = net_of(t.rng, t.share(len(cases)), C, K, M)
        law, coupled = (enumerated(model, W, kind, c) for c in (0.0, 0.4))
        g, p = table_of(model, W, kind), model.prior.numpy()
        ours = field_latent.covariance(model, g).numpy()
        delta = field_latent.contrasts(model, g).flatten(-2).numpy()

        # Eq. 120: blocks L_k on the diagonal and a rank-one term for each z, against enumeration.
        between = _sum_outer(p * (1 - p) ** 2, delta)
        blocks = ours - between
        wrong = blocks + _sum_outer(p * (1 - p), delta)
        vectors = blocks * np.eye(blocks.shape[-1]) + between
        form.add(relative(ours, law.covariance))
        form.breaks("fields coupled given z", relative(ours, coupled.covariance))
        form.breaks("$p_c(1-p_c)$", relative(wrong, law.covariance))
        form.breaks("as typeset: $L_k$ a vector, the diagonal", relative(vectors, law.covariance))

        # V_z E[x~|z], what V leaves beside E_z V[x~|z]: all eigenvalues but C of them are 0.
        means = law.covariance - sum(p[:, c, None, None] * law.given[c] for c in range(C))
        values, whole = np.linalg.eigvalsh(means), np.linalg.eigvalsh(law.covariance)
        rank.add(np.abs(values[:, :-C]).max(-1) / values[:, -1])
        rank.breaks("with the variance given z", np.abs(whole[:, :-C]).max(-1) / whole[:, -1])

        # C = 2: one rank-one term, against V_z E[x~|z].
        if C == 2:
            one = (p[:, 0] * p[:, 1])[:, None, None] * delta[:, 0, :, None] * delta[:, 0, None]
            two.add(relative(one, means))
            two.breaks("$p_0$ for $p_0p_1$", relative(one / p[:, 1, None, None], means))


def _sum_outer(weights: Array, delta: Array) -> Array:
    return np.einsum("bc,bci,bcj->bij", weights, delta, delta)


@check("nl/eq128")
def eq128(t: Trial) -> None:
    """Variance of class means as a sum of rank-one terms (Eqs. 126-131).

    Given   random latent models, C = 2, 3, 6.
    Claim   E[x~|z = c] - E[x~] = (1 - p_c)(q_c - q_-c); V_z E[x~|z] = sum_c p_c (1 - p_c)^2 (q_c
            - q_-c)(q_c - q_-c)^T; for C = 2 Delta(0) = -Delta(1) and sum_c p_c (1 - p_c)^2 = p_0
            p_1: loops over z, against the library's Delta(c) = q_c - q_-c.
    Fails   without 1 - p_c, for 1 - p_c not squared, for p_0 in place of p_0 p_1.
    """
    gap = t.part("Eq. 128", 1e-11, controls=typical)
    spread = t.part("Eq. 131", 1e-11, controls=typical)
    two = t.part("C = 2", 1e-11, controls=typical, draws=3 * t.share(3))
    for C in (2, 3, 6):
        model, W = net_of(t.rng, t.share(3), C, 2, 1)
        g, p = table_of(model, W, "relu"), model.prior.numpy()
        delta = field_latent.contrasts(model, g).flatten(-2).numpy()  # q_c - q_-c

        # Eq. 128: the mean given z = c minus the mean.
        q = field_latent.means(model, g).flatten(-2).numpy()
        mean = sum(p[:, c, None] * q[:, c] for c in range(C))
        left = np.stack([q[:, c] - mean for c in range(C)], 1)
        gap.add(relative((1 - p)[..., None] * delta, left))
        gap.breaks("without $1-p_c$", relative(delta, left))

        # Eq. 131: the variance of these means.
        V = sum(p[:, c, None, None] * left[:, c, :, None] * left[:, c, None] for c in range(C))
        spread.add(relative(_sum_outer(p * (1 - p) ** 2, delta), V))
        spread.breaks("$1-p_c$ not squared", relative(_sum_outer(p * (1 - p), delta), V))

        # C = 2: Delta(0) = -Delta(1), and the weights.
        if C == 2:
            weight = (p * (1 - p) ** 2).sum(-1)
            two.add(np.abs(delta[:, 0] + delta[:, 1]).max(-1) / np.abs(delta[:, 0]).max(-1))
            two.add(relative(weight, p[:, 0] * p[:, 1]))
            two.breaks("$p_0$ for $p_0p_1$", relative(weight, p[:, 0]))
