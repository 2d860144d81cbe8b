"""Checks of ncl Lemma 1 and its proof (App. D): an update along one direction, normalised."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from clcore import reference as ref
from clcore.ledger import Check, check
from clcore.reference import Array, tensors, typical, worst
from clcore.theory.sparse import proportional_update as pu


class Start(NamedTuple):
    """One dimension's draws: unit v with v_1 + a sum v_i > 0, and steps c^(t) > c."""

    v: Array  # [draws, d]
    a: Array  # [draws]
    c: Array  # [draws], the lower bound
    steps: Array  # [t, draws]


DIMENSIONS = (2, 3, 10, 50)


def along(v: Array, a: Array) -> Array:
    """v_1 + a v_2 + ... + a v_d, [..., draws]."""
    return v[..., 0] + a * v[..., 1:].sum(-1)


def starts(rng: np.random.Generator, draws: int, d: int, steps: int) -> Start:
    """a of both signs and zero; steps up to a thousand; a third of the starts nearly at a right
    angle to (1, a, ..., a), and in their runs steps close to the bound."""
    a = rng.standard_normal(draws) * np.where(rng.random(draws) < 0.5, 1.0, 1 / np.sqrt(d))
    a[1::5] = 0.0
    g = np.concatenate([np.ones((draws, 1)), np.repeat(a[:, None], d - 1, 1)], -1)
    v = rng.standard_normal((draws, d))
    v[::3] -= ((v * g).sum(-1) / (g**2).sum(-1))[::3, None] * g[::3]
    v = v / np.linalg.norm(v, axis=-1, keepdims=True)
    v[::3] += (1e-9 / np.linalg.norm(g, axis=-1))[::3, None] * g[::3]
    v = v * np.where(along(v, a) < 0, -1.0, 1.0)[:, None]
    v = v / np.linalg.norm(v, axis=-1, keepdims=True)
    c = rng.uniform(0.2, 1.5, draws)
    spread = np.exp(rng.uniform(-12, 7, (steps, draws)))
    spread[:, ::3] = 1e-9 * rng.uniform(0.5, 1, spread[:, ::3].shape)
    return Start(v, a, c, c * (1 + spread))


def once(v: Array, a: Array, c: Array) -> tuple[Array, Array]:
    """One update as the lemma writes it, coordinate by coordinate, and the norm N."""
    moved = [v[..., 0] + c] + [v[..., i] + a * c for i in range(1, v.shape[-1])]
    norm = np.sqrt(sum(m**2 for m in moved))
    return np.stack([m / norm for m in moved], -1), norm


def target(a: Array, d: int) -> Array:
    """The lemma's limit, [draws, d]."""
    first = 1 / np.sqrt(1 + (d - 1) * a**2)
    return np.stack([first] + [a * first] * (d - 1), -1)


def gamma(a: Array, c: Array, d: int) -> Array:
    """The proof's constant."""
    return 1 / np.sqrt(1 + (1 + (d - 1) * a**2) * c**2)


def gaps(v: Array, a: Array) -> Array:
    """|v_i - a v_1| for i = 2..d, [..., d - 1]."""
    return np.abs(v[..., 1:] - a[..., None] * v[..., :1])


@check("ncl/lem1")
def lem1(draws: int, seed: int) -> Iterator[Check]:
    """The limit, from random and nearly orthogonal starts; the module against the lemma's loop.

    Controls: steps of the other sign; a in place of a^2 in the limit; a start opposite to it.
    """
    rng, errors, same = ref.generator("lem1", seed), [], []
    broken = {"steps of the other sign": [], "no square in the limit": [], "opposite start": []}
    for d in DIMENSIONS:
        s = starts(rng, draws, d, 250)
        v, back = s.v, s.v
        for c in s.steps:
            v, back = once(v, s.a, c)[0], once(back, s.a, -c)[0]
        end = target(s.a, d)
        errors.append(np.abs(v - end).max(-1))
        g = pu.direction(*tensors(s.a), d)
        same.append(np.abs(pu.iterate(*tensors(s.v), g, *tensors(s.steps))[-1].numpy() - v).max(-1))
        same.append(np.abs(pu.limit(g).numpy() - end).max(-1))
        broken["steps of the other sign"].append(np.abs(back - end).max(-1))
        false = end * np.sqrt((1 + (d - 1) * s.a**2) / (1 + (d - 1) * np.abs(s.a)))[:, None]
        broken["no square in the limit"].append(np.abs(v - false).max(-1))
    opposite = np.array([[-1.0, 0.0, 0.0]])  # a = 0: exact in floating point
    for _ in range(100):
        opposite = once(opposite, np.zeros(1), np.array([0.5]))[0]
    broken["opposite start"].append(np.abs(opposite - target(np.zeros(1), 3)).max(-1))
    yield Check(
        "ncl/lem1",
        worst(*errors, *same),
        1e-12,
        {name: typical(np.concatenate(values)) for name, values in broken.items()},
        draws=draws * len(DIMENSIONS),
        note="More is true: every start but the opposite of the limit goes there.",
    )


@check("ncl/eq25")
def eq25(draws: int, seed: int) -> Iterator[Check]:
    """Steps at which the invariant fails, over whole runs. Control: negative at the start."""
    rng, failures, negative = ref.generator("eq25", seed), 0, 0
    for d in DIMENSIONS:
        s = starts(rng, draws, d, 40)
        v = s.v
        # The mirrored start is negative, and so is its first step if that is short.
        negative += int((along(once(-v, s.a, 1e-12 * s.c)[0], s.a) <= 0).sum())
        for c in s.steps:
            v = once(v, s.a, c)[0]
            failures += int((along(v, s.a) <= 0).sum())
    yield Check(
        "ncl/eq25",
        float(failures),
        0.0,
        {"negative start": float(negative)},
        draws=draws * len(DIMENSIONS),
    )


@check("ncl/eq25-step")
def eq25_step(draws: int, seed: int) -> Iterator[Check]:
    """Each link of the induction step, both sides over one norm; the second with the first
    coordinate's c, which the line above it has.

    Controls: no denominator; the letters of the numerator; a start that Eq. 25 excludes.
    """
    rng, check = ref.generator("eq25-step", seed), partial(Check, "ncl/eq25-step")
    first, plain, second, bare, fixed, third, ends, turned = [], [], [], [], [], [], [], []
    for d in DIMENSIONS:
        v, a, low, steps = starts(rng, draws, d, 1)
        c = steps[0]
        after, N = once(v, a, c)
        middle = (v[:, 0] + c + a * (v[:, 1:] + (a * c)[:, None]).sum(-1)) / N
        scale = np.maximum(np.abs(middle), 1)
        first.append(np.abs(along(after, a) - middle) / scale)
        plain.append(np.abs(along(after, a) - middle * N) / scale)
        printed = (along(v, a) + (d - 1) * a**2 * c) / N
        second.append(np.abs(printed - middle) / scale)
        factor = 1 + (d - 1) * a**2
        whole = (along(v, a) + factor * c) / N
        fixed.append(np.abs(whole - middle) / scale)
        bare.append(np.abs(whole * N - middle) / scale)
        # Both forms of what follows: with the lost 1 and, by the letters, without.
        for value, f in ((whole, factor), (printed, factor - 1)):
            third.append((value - f * c / N <= -1e-15 * scale).astype(float))
            ends.append((f * (c - low) < 0).astype(float))
        turned.append(((along(-v, a) + factor * c) / N < factor * c / N) * 1.0)
    tag = {"draws": draws * len(DIMENSIONS)}
    yield check(worst(*first), 1e-12, {"no denominator": typical(*plain)}, part="first link", **tag)
    yield check(
        worst(*fixed),
        1e-12,
        {"no denominator": typical(*bare), "as typeset, no 1": typical(*second)},
        part="second link",
        misprint=r"$(d-1)a^2c^{(t)}$ -> $(1+(d-1)a^2)c^{(t)}$: the first coordinate's $c^{(t)}$, "
        "which the line above has, is lost",
        note=r"Eq. 26's proof has the sum right. With the 1 in what follows the last bound is "
        r"positive also for $a=0$; Eq. 25 stands either way.",
        **tag,
    )
    yield check(
        worst(*third, *ends),
        0.0,
        {"where Eq. 25 fails": typical(np.concatenate(turned))},
        part="inequalities",
        note="With the lost 1 and without it.",
        **tag,
    )


@check("ncl/eq26")
def eq26(draws: int, seed: int) -> Iterator[Check]:
    """The contraction by gamma, step by step; apart, the coordinates that have arrived, where both
    sides vanish.

    Controls: gamma with 2 for its 1; gamma for steps two or three times as long.
    """
    rng, check = ref.generator("eq26", seed), partial(Check, "ncl/eq26")
    ratios, more, less, same = [], [], [], []
    for d in DIMENSIONS:
        s = starts(rng, draws, d, 10)
        v, best = s.v, gamma(s.a, s.c, d)
        g = pu.direction(*tensors(s.a), d)
        same.append(np.abs(pu.contraction(g, *tensors(s.c)).numpy() - best))
        for t, c in enumerate(s.steps):
            after = once(v, s.a, c)[0]
            before = gaps(v, s.a)
            use = before > 1e-4  # else rounding decides
            ratio = np.where(use, gaps(after, s.a) / np.where(use, before, 1.0), 0.0).max(-1)
            ratios.append(ratio / best)
            if t == 0:  # tight: right angles and least steps
                wide = 1 / np.sqrt(1 + (2 + (d - 1) * s.a**2) * s.c**2)
                bold = 1 / np.sqrt(1 + (1 + (d - 1) * s.a**2) * (2 * s.c) ** 2)
                more.append((ratio / wide)[::3])
                less.append((ratio / bold)[::3])
            v = after
    tag = {"draws": draws * len(DIMENSIONS)}
    tight = 1 - worst(*ratios)
    yield check(
        worst(*ratios),
        1 + 1e-9,
        {
            "2 + (d-1) a^2": typical(np.concatenate(more)),
            "twice the step": typical(np.concatenate(less)),
        },
        part="v_i different from a v_1",
        note=r"Sharp: $\gamma$ is approached at right angles to $(1,a,\dots,a)$ with the least "
        f"step, to {abs(tight):.0e} here. Near the limit a step contracts more, by "
        r"$1/(1+c\sqrt{1+(d-1)a^2})$.",
        **tag,
    )
    count = min(draws, 50)
    here, there = arrived(rng, count)
    yield check(
        float((here[0] > here[1]).sum() + (there[0] >= there[1]).sum()),
        0.0,
        {
            "strict for every coordinate": float((here[0] >= here[1]).sum()),
            "gamma for steps three times as long": float((there[0] >= there[2]).sum()),
        },
        part="v_i = a v_1",
        draws=count,
        note=r"A coordinate that has arrived, $v_i=av_1$, stays so: both sides are then 0, and the "
        r"strict sign is $\le$; the limit needs no more. Counted: coordinates with $>$ at that "
        r"edge, and with $\ge$ beside it.",
    )


def arrived(rng: np.random.Generator, draws: int) -> tuple[Array, Array]:
    """Both sides of Eq. 26 for a coordinate with v_i = a v_1, and for two others; a = 1/2, d = 4.

    [3, draws, 1] and [3, draws, 2]: after a step of c^(t) > c, and before it times gamma for c, and
    for 3 c. Starts are at right angles to (1, a, a, a) but for a little.
    """
    a, c = np.repeat(0.5, draws), rng.uniform(0.2, 1.5, draws)
    # Powers of two, so that v_2 = a v_1 to the last bit, for ever.
    v = np.concatenate([np.ones((draws, 1)), np.full((draws, 1), 0.5)], -1)
    far = rng.uniform(0.2, 1, draws)
    v = np.concatenate([v, far[:, None], (0.01 - 2.5 - far)[:, None]], -1)
    v = v / np.linalg.norm(v, axis=-1, keepdims=True)
    v[:, 1] = v[:, 0] / 2
    before, after = gaps(v, a), gaps(once(v, a, c * rng.uniform(1.01, 1.5, draws))[0], a)
    sides = np.stack([after, *(gamma(a, k * c, 4)[:, None] * before for k in (1, 3))])
    return sides[..., :1], sides[..., 1:]


@check("ncl/eq26-id")
def eq26_id(draws: int, seed: int) -> Iterator[Check]:
    """The one-step identity, for a step of any length or (d = 3) the least; the inequality after.

    Controls: v not of norm one; a start that Eq. 25 excludes.
    """
    rng, check = ref.generator("eq26-id", seed), partial(Check, "ncl/eq26-id")
    errors, loose, above, excluded = [], [], [], []
    for d in DIMENSIONS:
        s = starts(rng, draws, d, 1)
        c = s.steps[0] if d != 3 else s.c

        def sides(v: Array, c: Array = c, a: Array = s.a, d: int = d) -> tuple[Array, ...]:
            left = gaps(once(v, a, c)[0], a)
            square = (1 + (d - 1) * a**2) * c**2
            root = np.sqrt(np.maximum(1 + 2 * c * along(v, a) + square, 0))[:, None]
            return left, gaps(v, a) / root, gaps(v, a) / np.sqrt(1 + square)[:, None]

        left, right, bound = sides(s.v)
        # Differences of entries of size one over steps of a thousand: absolute in units of one.
        errors.append(np.abs(left - right).max(-1))
        above.append((left - bound).max(-1))
        long = sides(1.5 * s.v)
        loose.append(np.abs(long[0] - long[1]).max(-1))
        v = (
            s.v
            - 1.6
            * along(s.v, s.a)[:, None]
            * target(s.a, d)
            / np.sqrt(1 + (d - 1) * s.a**2)[:, None]
        )
        v = v / np.linalg.norm(v, axis=-1, keepdims=True)
        low = sides(v, 0.2 * s.c)
        excluded.append((low[0] - low[2]).max(-1)[1::3])
    tag = {"draws": draws * len(DIMENSIONS)}
    yield check(
        worst(*errors), 1e-14, {"norm 1.5": typical(np.concatenate(loose))}, part="identity", **tag
    )
    yield check(
        worst(*above),
        1e-15,
        {"where Eq. 25 fails": typical(np.concatenate(excluded))},
        part="inequality",
        **tag,
    )


@check("ncl/lem1-lim")
def lem1_lim(draws: int, seed: int) -> Iterator[Check]:
    """The geometric envelope over whole runs; the solution of the limit's two equations that meets
    Eq. 25, which the proof has shown before.

    Controls: an envelope with twice the least step; a of the other sign; the solution that Eq. 25
    excludes.
    """
    rng, check = ref.generator("lem1-lim", seed), partial(Check, "ncl/lem1-lim")
    above, false = [], []
    for d in DIMENSIONS:
        s = starts(rng, draws, d, 60)
        v, begun = s.v, gaps(s.v, s.a)
        for t, c in enumerate(s.steps, 1):
            v = once(v, s.a, c)[0]
            above.append((gaps(v, s.a) - gamma(s.a, s.c, d)[:, None] ** t * begun).max(-1))
            if t == 1:
                fast = gamma(s.a, 2 * s.c, d)[:, None]
                false.append((gaps(v, s.a) - fast * begun).max(-1)[::3])
    yield check(
        worst(*above),
        1e-13,
        {"twice the step": typical(np.concatenate(false))},
        part="envelope",
        draws=draws * len(DIMENSIONS),
    )
    distances, kept, turned, count = [], [], [], min(draws, 50)
    for d in (2, 5):
        a = rng.standard_normal(count)
        for _ in range(4):
            v = _solution(rng.standard_normal((count, d)), a)
            away = np.abs(v - target(a, d)).max(-1)
            distances.append(away)
            turned.append(np.abs(v - target(-a, d)).max(-1))
            kept.append(away[along(v, a) > 0])
    other = np.concatenate(distances)
    yield check(
        worst(*kept),
        1e-9,
        {
            "a of the other sign": typical(np.concatenate(turned)),
            "the solution with a negative sum": ref.best(other[other > 1e-3]),
        },
        part="solution of the two equations",
        draws=8 * count,
        note=r"The two equations alone have a mirror solution, $-v^*$. Eq. 25, shown earlier in "
        r"the proof for all $t$, leaves one: in the limit $v_1+a\sum_{i\ge2}v_i\ge0$.",
    )


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
