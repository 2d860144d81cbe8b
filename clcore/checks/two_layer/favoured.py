"""Which pattern of a field the top layer favours, and when it wins (nl Sec. 4.2).

Simulated flows, in the model of Theorem 6 and in two coupled layers.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.two_layer.latent import filters, net_of
from clcore.checks.two_layer.top import closed_form, outputs, pair_of, tangent, velocity
from clcore.ledger import Check
from clcore.reference import Array, relative, typical, worst
from clcore.theory.two_layer import field_latent, modulation, two_layer

STARTS, FEW = 4000, 300


def rem18(draws: int, seed: int) -> Iterator[Check]:
    """Decoupling, the pull towards Delta_k, and how often it wins.

    (c) in the model of Theorem 6 and in two coupled layers. Controls: Delta of another field
    (twice); no modulation; fields without a common latent; one other pattern stronger without
    modulation (twice).
    """
    check = partial(Check, "nl/rem18")
    rng = ref.generator("rem18", seed)
    model, W = net_of(rng, draws, 2, 3, 1)
    other = W.copy()
    other[:, 1:] = filters(rng, model, 1)[:, 1:]
    here, there = (pair_of(model, v, "relu") for v in (W, other))
    top = two_layer.top_of_rank_one(there.d, there.b, there.scale)
    delta = two_layer.modulation(top, there.b, there.scale)
    direct = velocity(there.law, other, np.linalg.eigh(outputs(there.law, other))[1][..., -1])
    w = torch.from_numpy(W)[:, :, 0]
    mixed = closed_form(here, top, delta, w)  # A_1, Delta_1 as before the others moved
    swapped = closed_form(here._replace(delta=here.delta.roll(1, 1)), top, delta, w)
    yield check(
        worst(relative(mixed[:, 0], direct[:, 0])),
        1e-7,
        {"Delta of another field": typical(relative(swapped[:, 0], direct[:, 0]))},
        draws=draws,
        part="(a) decoupled",
        note="Other filters move: $A_k$ and $\\Delta_k$ stay, two scalars change.",
    )
    moved = torch.from_numpy(other)[:, :, 0]
    push = tangent(moved, torch.from_numpy(direct) - closed_form(there, top, 0 * delta, moved))

    def gain(towards: torch.Tensor) -> float:
        """The least growth of a squared cosine with these directions, through `push`."""
        along = (towards * moved).sum(-1) / towards.norm(dim=-1) ** 2
        return float(((towards * push).sum(-1) * along).min())

    yield check(
        gain(there.delta),
        -1e-12,
        {"towards Delta of another field": gain(there.delta.roll(1, 1))},
        draws=draws,
        part="(b) towards Delta_k",
        relation=">=",
        note="What the other fields add to the growth of the squared cosine with Delta_k: the "
        "velocity of Lemma 4 less that of $s_k^2A_k$ alone.",
    )
    yield from _wins(rng)


def _wins(rng: np.random.Generator) -> Iterator[Check]:
    """(c): patterns of equal strength; of unequal strength as controls."""
    check = partial(Check, "nl/rem18", relation=">=")
    alike, unequal = {}, {}
    for c in (0.0, 0.3, 0.6):
        alike[c] = _race(rng, c, 0.0, STARTS)
        unequal[c] = _race(rng, c, 0.8, FEW)
    share = unequal[0.3]
    yield check(
        min(_excess(alike[c], STARTS) for c in (0.3, 0.6)),
        4.0,
        {
            "no modulation": _excess(alike[0.0], STARTS),
            "one other pattern stronger": min(_excess(unequal[c], FEW) for c in (0.3, 0.6)),
        },
        draws=2,
        part="(c) wins more often",
        note=f"In standard errors, with the equal patterns of Theorem 6; {STARTS} random unit "
        "starts. Fails where another pattern is stronger, which Theorem 6 excludes: "
        rf"$b=(1.2,2,1.2,1.2)$, $c=0.3$ added to the first: $u_1$ wins {share[0]:.1%} of the "
        f"starts, $u_2$ {share[1]:.1%}.",
    )
    starts = 1500
    share = _coupled(rng, FEW, FREQUENT)
    yield check(
        _excess(_coupled(rng, starts, _tokens(1.0)), starts),
        4.0,
        {
            "no common latent": _excess(_coupled(rng, starts, _tokens(0.0)), starts),
            "one other token more frequent": _excess(share, FEW),
        },
        draws=starts,
        part="(c) in two coupled layers",
        note="In standard errors: three ReLU fields of four equally frequent tokens, each token "
        "an LME of $A_k$, the first with a frequency that depends on $z$, so "
        r"$\Delta_k\propto u_1$; V always at its optimum. Filters that reach no token count for "
        "none. Fails where another token is more frequent: token 1 with chance 0 or 0.2 given $z$,"
        f" token 2 with 0.35: reached from {share[0]:.1%} and {share[1]:.1%} of the starts.",
    )


def _excess(share: Array, starts: int) -> float:
    """By how many standard errors pattern 1 wins more often than the best of the others."""
    best = share[1:].max()
    return float((share[0] - best) / np.sqrt((share[0] + best) / starts))


def _race(rng: np.random.Generator, c: float, second: float, starts: int) -> Array:
    """Shares of random unit starts that reach each of four patterns under Theorem 6's flow.

    Rates 1.2; the first with c added, the second with `second`.
    """
    y = torch.from_numpy(rng.standard_normal((starts, 4)))
    b = torch.full_like(y, 1.2)
    b[:, 0] += c
    b[:, 1] += second
    return _shares(modulation.winner(modulation.simulate(y, b, steps=250, pace=0.4)), 4)


def _shares(ends: torch.Tensor, count: int) -> Array:
    return np.array([float((ends == i).double().mean()) for i in range(count)])


FREQUENT = np.array([[0.0, 0.35, 0.12, 0.12, 0.41], [0.2, 0.35, 0.12, 0.12, 0.21]])
"""Chances of four tokens and of nothing given z: the second is frequent, the first tells z."""


def _tokens(lean: float) -> Array:
    """Four tokens and nothing, all with chance 1/5; token 1 has (1 -+ lean)/5 given z, nothing
    makes up for it."""
    shift = lean * np.array([1.0, 0, 0, 0, -1])
    return np.stack([1 - shift, 1 + shift]) / 5


def _coupled(rng: np.random.Generator, starts: int, table: Array) -> Array:
    """Shares of random starts from which the filter of field 1 reaches each of four tokens.

    Three fields, each with one of four orthonormal tokens or nothing, of chances `table` given z.
    Lemma 4's flow on the spheres, S = s s^T, and a pace of its own for each net, that falls to
    zero.
    """
    d, K, steps = 4, 3, 60
    chances = torch.from_numpy(table)[:, None].expand(2, K, d + 1)
    x = torch.eye(d + 1, d, dtype=torch.float64)[:, None].expand(d + 1, K, d)
    prior = torch.full((2,), 0.5, dtype=torch.float64)
    model = field_latent.Model(prior, chances, x.transpose(0, 1))
    W = torch.from_numpy(rng.standard_normal((starts, K, 1, d)))
    W = W / W.norm(dim=-1, keepdim=True)
    for step in range(steps):
        g = two_layer.gated(x, W)[..., 0, :].transpose(1, 2)  # [starts, K, d + 1, d]
        s = two_layer.top_weights(field_latent.covariance(model, (g * W).sum(-1, keepdim=True)))
        push = two_layer.push(s[:, :, None] * s[:, None], field_latent.covariance(model, g), W)
        move = two_layer.tangent(W, push)
        size = move.norm(dim=-1).amax((1, 2))[:, None, None, None].clamp(min=1e-12)
        W = W + 0.3 * (1 - step / steps) * move / size
        W = W / W.norm(dim=-1, keepdim=True)
    return _shares(modulation.winner(W[:, 0, 0], 0.95), d)
