"""Which pattern of a field the top layer favours, and when it wins (nl Sec. 4.2).

Simulated flows, in the model of Theorem 6 and in two coupled layers.
"""

import numpy as np
import torch

from clcore.checks.two_layer.fields.latent import filters, net_of
from clcore.checks.two_layer.modulation.top import closed_form, outputs, pair_of, velocity
from clcore.ledger import Trial, check, typical
from clcore.reference import Array, relative
from clcore.theory.two_layer import field_latent, modulation, two_layer

STARTS, FEW = 4000, 300


@check("nl/rem18")
def rem18(t: Trial) -> None:
    """Global modulation favours the pattern that separates the classes (Sec. 4.2).

    Given   Assumption 2, C = 2, M = 1; for (c) races from random starts under A(w) = sum_l
            g(u_l^T w) u_l u_l^T, g(x) = x + b, with c more for Delta_k, and in two coupled ReLU
            layers with equally frequent tokens.
    Claim   (a) other filters act on w_k through scalars only: A_k and Delta_k stay as they move;
            (b) what they add turns w_k towards Delta_k; (c) random starts go to Delta_k more often
            than to any other pattern, by four standard errors.
    Fails   for Delta of another field, without modulation, for fields without a common latent, and
            where another pattern is stronger.
    """
    model, W = net_of(t.rng, t.draws, 2, 3, 1)
    moved = W.copy()
    moved[:, 1:] = filters(t.rng, model, 1)[:, 1:]
    w, v = (torch.from_numpy(of)[:, :, 0] for of in (W, moved))
    here, there = (pair_of(model, of, "relu") for of in (W, moved))
    top = there.top()
    delta = two_layer.modulation(top, there.b, there.scale)
    direct = velocity(there.law, moved, np.linalg.eigh(outputs(there.law, moved))[1][..., -1])

    # (a) Filter 1 stays: its velocity has A_1, Delta_1 as before the others moved.
    swapped = here._replace(delta=here.delta.roll(1, 1))
    ours, foreign = (closed_form(pair, top, delta, w) for pair in (here, swapped))
    decoupled = t.part("(a) decoupled", 1e-7, controls=typical)
    decoupled.add(relative(ours[:, 0], direct[:, 0]))
    decoupled.breaks("Delta of another field", relative(foreign[:, 0], direct[:, 0]))

    # (b) What the others add to the velocity, on the sphere, and the squared cosines it raises.
    added = torch.from_numpy(direct) - closed_form(there, top, 0 * delta, v)
    push = two_layer.tangent(v, added)

    def gain(towards: torch.Tensor) -> torch.Tensor:
        along = (towards * v).sum(-1) / towards.norm(dim=-1) ** 2
        return (towards * push).sum(-1) * along

    turns = t.part("(b) towards Delta_k", -1e-12, ">=", controls=typical).add(gain(there.delta))
    turns.breaks("towards Delta of another field", gain(there.delta.roll(1, 1)).amin(-1))

    # (c) Theorem 6's flow, patterns of equal strength; the first is Delta's, its rate c more.
    wins = t.part("(c) wins more often", 4.0, ">=").says(starts=STARTS)
    for c in (0.0, 0.3, 0.6):
        lead = _excess(_race(t.rng, c, 0.0, STARTS), STARTS)
        share = _race(t.rng, c, 0.8, FEW)
        if c == 0.0:
            wins.breaks("no modulation", lead)
            continue
        wins.add(lead).breaks("one other pattern stronger", _excess(share, FEW))
        if c == 0.3:
            wins.says(first=share[0], second=share[1])

    # (c) Two coupled ReLU layers; the first of four tokens tells z.
    starts = 1500
    share = _coupled(t.rng, FEW, FREQUENT)
    first, alone = (_excess(_coupled(t.rng, starts, of), starts) for of in (EVEN, UNRELATED))
    coupled = t.part("(c) in two coupled layers", 4.0, ">=", draws=starts).add(first)
    coupled.breaks("no common latent", alone)
    coupled.breaks("one other token more frequent", _excess(share, FEW))
    coupled.says(first=share[0], second=share[1])


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
    ends = modulation.winner(modulation.simulate(y, b, steps=250, pace=0.4))
    return np.array([float((ends == i).double().mean()) for i in range(4)])


EVEN = np.array([[0, 0.2, 0.2, 0.2, 0.4], [0.4, 0.2, 0.2, 0.2, 0]])
"""Chances of four tokens and of nothing given z: the first reveals z, nothing makes up for it."""
UNRELATED = np.full((2, 5), 1 / 5)
FREQUENT = np.array([[0.0, 0.35, 0.12, 0.12, 0.41], [0.2, 0.35, 0.12, 0.12, 0.21]])
"""The second token is more frequent, the first reveals z."""


def _coupled(rng: np.random.Generator, starts: int, table: Array) -> Array:
    """Shares of random starts from which the filter of field 1 reaches each of four tokens.

    Three fields, each with one of four orthonormal tokens or nothing, of chances `table` given z.
    Lemma 4's flow on the spheres, S = s s^T, and a separate pace for each net, which falls to
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
    ends = modulation.winner(W[:, 0, 0], 0.95)
    return np.array([float((ends == i).double().mean()) for i in range(d)])
