"""Checks of the limit in ncl Lemma 1 (App. D): where an update along one direction ends."""

import numpy as np

from clcore.checks.dynamics.contraction import (
    DIMENSIONS,
    along,
    gamma,
    gaps,
    once,
    starts,
    target,
)
from clcore.ledger import Trial, check, pooled, strict
from clcore.reference import Array, tensors
from clcore.theory.sparse import proportional_update as pu


@check("ncl/lem1")
def lem1(t: Trial) -> None:
    """Convergence of a proportional update with normalisation (Lemma 1).

    Given   d = 2..50, a of both signs and 0, steps c_t bounded below by c > 0, |v| = 1 with v_1
            + a sum v_i > 0; a third of the starts nearly at a right angle to the limit.
    Claim   (1) The update, by the lemma's loop over 250 steps and by the library, ends at the limit
            (1, a, ..., a)/sqrt(1 + (d-1)a^2). (2) So it does from starts with a negative sum.
    Fails   (1) for steps of the other sign, for steps halved each time, which have no lower bound,
            and with |a| for a^2 in the limit; (2) for the start opposite to the limit, which steps
            of 0.5 leave there.
    """
    count = t.draws * len(DIMENSIONS)
    part = t.part("", 1e-12, controls=pooled, draws=count)
    negative = t.part("starts with a negative sum", 1e-12, controls=pooled, draws=count)
    for d in DIMENSIONS:
        s = starts(t.rng, t.draws, d, 250)
        v, mirrored, back, halved = s.v, -s.v, s.v, s.v
        for k, c in enumerate(s.steps):
            v, back = once(v, s.a, c)[0], once(back, s.a, -c)[0]
            mirrored, halved = once(mirrored, s.a, c)[0], once(halved, s.a, s.c / 2**k)[0]
        end = target(s.a, d)
        g = pu.direction(*tensors(s.a), d)
        ours = pu.iterate(*tensors(s.v), g, *tensors(s.steps))[-1].numpy()
        # (1) The loop against the printed limit; the library's end and limit against the two.
        for gap in (v - end, ours - v, pu.limit(g).numpy() - end):
            part.add(np.abs(gap).max(-1))
        part.breaks("steps of the other sign", np.abs(back - end).max(-1))
        part.breaks("steps halved each time", np.abs(halved - end).max(-1))
        false = end * np.sqrt((1 + (d - 1) * s.a**2) / (1 + (d - 1) * np.abs(s.a)))[:, None]
        part.breaks("no square in the limit", np.abs(v - false).max(-1))
        # (2) The loop from the mirrored starts.
        negative.add(np.abs(mirrored - end).max(-1))
    opposite = np.array([[-1.0, 0.0, 0.0]])  # a = 0: exact in floating point
    for _ in range(100):
        opposite = once(opposite, np.zeros(1), np.array([0.5]))[0]
    negative.breaks("opposite start", np.abs(opposite - target(np.zeros(1), 3)).max(-1))


@check("ncl/lem1-lim")
def lem1_lim(t: Trial) -> None:
    """Limit of normalised updates as the unique solution of two equations (App. D).

    Given   v <- (v + c^(t) (1, a, ..., a))/norm; d = 2, 3, 10, 50; a of both signs and 0; |v| = 1
            with v_1 + a sum v_i > 0; 60 steps c^(t) > c.
    Claim   (1) |v_i - a v_1| <= gamma^t |v_i(0) - a v_1(0)|, gamma = 1/sqrt(1 + (1 + (d-1)a^2)c^2).
            (2) |v| = 1 and v_i = a v_1, solved from random starts, with v_1 + a sum v_i > 0 (Eq.
            25), leave (1, a, ..., a)/sqrt(1 + (d-1)a^2) alone.
    Fails   (1) for gamma of twice the least step; (2) for a of the other sign, and for the solution
            with a negative sum.
    """
    # (1) The gaps after each step minus the envelope.
    part = t.part("envelope", 1e-13, controls=pooled, draws=t.draws * len(DIMENSIONS))
    for d in DIMENSIONS:
        s = starts(t.rng, t.draws, d, 60)
        v, begun = s.v, gaps(s.v, s.a)
        for step, c in enumerate(s.steps, 1):
            v = once(v, s.a, c)[0]
            part.add((gaps(v, s.a) - gamma(s.a, s.c, d)[:, None] ** step * begun).max(-1))
            if step == 1:  # tight: every third start, at a right angle with least steps
                fast = gamma(s.a, 2 * s.c, d)[:, None]
                part.breaks("twice the step", (gaps(v, s.a) - fast * begun).max(-1)[::3])

    # (2) Solutions of the equations against the lemma's limit.
    count = min(t.draws, 50)
    part = t.part("solution of the two equations", 1e-9, controls=pooled, draws=8 * count)
    for d in (2, 5):
        a = t.rng.standard_normal(count)
        for _ in range(4):
            v = _solution(t.rng.standard_normal((count, d)), a)
            away = np.abs(v - target(a, d)).max(-1)
            part.add(away[along(v, a) > 0])
            part.breaks("a of the other sign", np.abs(v - target(-a, d)).max(-1))
            if (away > 1e-3).any():
                negative = "the solution with a negative sum"
                part.breaks(negative, away[away > 1e-3], by=strict)


def _solution(v: Array, a: Array) -> Array:
    """A solution of |v| = 1, v_i = a v_1 from each start [draws, d], by Gauss-Newton."""
    d = v.shape[-1]
    for _ in range(200):
        residual = np.concatenate(
            [(v**2).sum(-1, keepdims=True) - 1, v[:, 1:] - a[:, None] * v[:, :1]], -1
        )
        slope = np.zeros((len(v), d, d))
        slope[:, 0], slope[:, 1:, 0] = 2 * v, -a[:, None]
        slope[:, 1:, 1:] = np.eye(d - 1)
        v = v - np.linalg.solve(slope, residual[..., None])[..., 0]
    return v
