"""Checks of ncl Lemma 1's proof (App. D): an update along one direction, normalised."""

from typing import NamedTuple

import numpy as np
import sympy

from clcore.ledger import Trial, check, exact, pooled, typical, worst
from clcore.reference import Array


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


class Symbols(NamedTuple):
    """d = 3: v with v_1 + a (v_2 + v_3) = s > 0, a step c > 0, and one update of it."""

    v: list[sympy.Expr]
    a: sympy.Symbol
    s: sympy.Symbol  # v_1 + a (v_2 + v_3)
    c: sympy.Symbol
    factor: sympy.Expr  # 1 + (d - 1) a^2
    moved: list[sympy.Expr]  # v after the update, before it is divided by N


def symbols(a_sign: int = 1) -> Symbols:
    """v, a, a step and its update in symbols; a_sign -1: the update wrongly takes -a."""
    a, second, third = sympy.symbols("a v_2 v_3", real=True)
    s, c = sympy.symbols("s c", positive=True)
    v = [s - a * (second + third), second, third]
    moved = [v[0] + c, *(x + a_sign * a * c for x in v[1:])]
    return Symbols(v, a, s, c, 1 + 2 * a**2, moved)


def square(v: list[sympy.Expr]) -> sympy.Expr:
    """The squared norm."""
    return sum((x**2 for x in v), sympy.Integer(0))


@check("ncl/eq25")
def eq25(t: Trial) -> None:
    """Normalised updates keep a positive component along their direction (Eq. 25).

    Given   d = 2, 3, 10, 50; a of both signs and 0; |v| = 1 with v_1 + a sum v_i > 0; 40 steps
            above a least one.
    Claim   v_1 + a sum v_i stays above 0 in every step.
    Fails   for a start at which it is negative, after one short step; in the proof, for a step
            along (1, -a, ..., -a).
    """
    # Counted: steps after which v_1 + a sum v_i is not above 0.
    failures, negative = 0, 0
    for d in DIMENSIONS:
        s = starts(t.rng, t.draws, d, 40)
        v = s.v
        # The mirrored start is negative, and so is its first step if that is short.
        negative += int((along(once(-v, s.a, 1e-12 * s.c)[0], s.a) <= 0).sum())
        for c in s.steps:
            v = once(v, s.a, c)[0]
            failures += int((along(v, s.a) <= 0).sum())
    part = t.part("", 0.0, draws=t.draws * len(DIMENSIONS))
    part.add(failures).breaks("negative start", negative)
    part.proves(_stays(symbols()), breaks={"a step of -a": _stays(symbols(-1))}, at="d = 3")


def _stays(x: Symbols) -> exact.Shown:
    """Whether N (v_1 + a v_2 + a v_3) is above 0 after a step if it was before."""
    return exact.positive(x.moved[0] + x.a * sum(x.moved[1:]), x.s + x.c + 2 * x.a**2 * x.c)


@check("ncl/eq25-step")
def eq25_step(t: Trial) -> None:
    """Induction step for the positive component along the direction (App. D, before Eq. 25).

    Given   d = 2, 3, 10, 50; a of both signs and 0; |v| = 1 with v_1 + a sum v_i > 0; one step
            c^(t) > c; N is the norm before scaling; f = 1 + (d-1)a^2.
    Claim   (1) v_1 + a sum v_i is after the step [v_1 + c^(t) + a sum (v_i + a c^(t))]/N, (2) which
            is [v_1 + a sum v_i + f c^(t)]/N, (3) which is at least f c^(t)/N, and that at least
            f c/N; (3) with the typeset f = (d-1)a^2, too.
    Fails   (1), (2) without the denominator N; (2) as typeset, where f lacks the 1; (3) for -v,
            where Eq. 25 fails.
    """
    count = t.draws * len(DIMENSIONS)
    first = t.part("first link", 1e-12, controls=typical, draws=count)
    second = t.part("second link", 1e-12, controls=typical, draws=count)
    third = t.part("inequalities", 0.0, controls=pooled, draws=count)
    for d in DIMENSIONS:
        v, a, low, steps = starts(t.rng, t.draws, d, 1)
        c = steps[0]
        after, N = once(v, a, c)
        # (1) The component after the step, against the second line's quotient.
        middle = (v[:, 0] + c + a * (v[:, 1:] + (a * c)[:, None]).sum(-1)) / N
        scale = np.maximum(np.abs(middle), 1)
        first.add(np.abs(along(after, a) - middle) / scale)
        first.breaks("no denominator", np.abs(along(after, a) - middle * N) / scale)
        # (2) That quotient against the sum collected, with the lost 1.
        factor = 1 + (d - 1) * a**2
        printed = (along(v, a) + (factor - 1) * c) / N
        whole = (along(v, a) + factor * c) / N
        second.add(np.abs(whole - middle) / scale)
        second.breaks("no denominator", np.abs(whole * N - middle) / scale)
        second.breaks("as typeset, no 1", np.abs(printed - middle) / scale)
        # (3) Links that fail, counted: with the lost 1 and, by the letters, without.
        for value, f in ((whole, factor), (printed, factor - 1)):
            third.add(value - f * c / N <= -1e-15 * scale, f * (c - low) < 0)
        mirrored = (along(-v, a) + factor * c) / N
        third.breaks("where Eq. 25 fails", mirrored < factor * c / N)
    x, N = symbols(), sympy.Symbol("N", positive=True)
    after = [m / sympy.sqrt(square(x.moved)) for m in x.moved]
    middle = x.v[0] + x.c + x.a * sum(v + x.a * x.c for v in x.v[1:])
    link = middle / sympy.sqrt(square(x.moved))
    # The first link.
    first.proves(
        exact.equal(after[0] + x.a * sum(after[1:]), link),
        breaks={"no denominator": exact.equal(after[0] + x.a * sum(after[1:]), middle)},
        at="d = 3",
    )
    # The second link.
    second.proves(
        exact.equal(middle / N, (x.s + x.factor * x.c) / N),
        breaks={"as typeset, no 1": exact.equal(middle / N, (x.s + (x.factor - 1) * x.c) / N)},
        at="d = 3",
    )
    # The inequalities.
    low, more = sympy.symbols("l u", positive=True)  # c = l + u is above its bound l
    gap, rest = middle / N - x.factor * x.c / N, x.factor * (low + more) / N
    third.proves(
        exact.nonnegative([gap, rest - x.factor * low / N], [x.s / N, x.factor * more / N]),
        breaks={
            "where Eq. 25 fails": exact.nonnegative(
                [gap.subs(x.s, -x.s), rest - x.factor * low / N], [-x.s / N, x.factor * more / N]
            )
        },
        at="d = 3",
    )


@check("ncl/eq26")
def eq26(t: Trial) -> None:
    """Normalised updates contract towards their direction by a constant factor (Eq. 26).

    Given   v <- (v + c^(t) (1, a, ..., a))/norm with c^(t) > c; d = 2, 3, 10, 50; a of both signs
            and 0; |v| = 1 with v_1 + a sum v_i > 0; ten steps, each tested alone. For (2) one
            step, d = 4, a = 1/2, v_2 = a v_1.
    Claim   (1) Where v_i is not a v_1, a step shrinks |v_i - a v_1| by more than the factor gamma =
            1/sqrt(1 + (1 + (d-1)a^2)c^2). (2) Where v_i = a v_1, both sides of it stay 0, while (1)
            holds for the other coordinates.
    Fails   (1) with 2 + (d-1)a^2, and for gamma of steps twice as long; (2) for the strict sign at
            v_i = a v_1, and elsewhere for gamma of steps three times as long; in the proof, for a
            coordinate v_3 that is not a v_1: its v_3 - a v_1 does not become 0.
    """
    # (1) The factor that one step shrinks a gap by, over gamma, is at most 1.
    part = t.part(
        "v_i different from a v_1", 1 + 1e-9, controls=pooled, draws=t.draws * len(DIMENSIONS)
    )
    for d in DIMENSIONS:
        s = starts(t.rng, t.draws, d, 10)
        v, factor = s.v, gamma(s.a, s.c, d)
        for step, c in enumerate(s.steps):
            after = once(v, s.a, c)[0]
            before = gaps(v, s.a)
            use = before > 1e-4  # else rounding decides
            ratio = np.where(use, gaps(after, s.a) / np.where(use, before, 1.0), 0.0).max(-1)
            part.add(ratio / factor)
            if step == 0:  # tight: every third start, at a right angle with least steps
                wide = 1 / np.sqrt(1 + (2 + (d - 1) * s.a**2) * s.c**2)
                part.breaks("2 + (d-1) a^2", (ratio / wide)[::3])
                part.breaks("twice the step", (ratio / gamma(s.a, 2 * s.c, d))[::3])
            v = after
    part.says(tight=abs(1 - worst(part.errors, "<=")))
    part.proves(_shrinks(1), breaks={"2 + (d-1) a^2": _shrinks(2)}, at="d = 3")

    # (2) How often the gap after a step, [0], breaks its bound, [1]: "at most" for a coordinate
    # with v_i = a v_1, "below" for the two others; [2] is the bound for 3 c.
    count = min(t.draws, 50)
    equal, others = arrived(t.rng, count)
    part = t.part("v_i = a v_1", 0.0, draws=count)
    part.add((equal[0] > equal[1]).sum() + (others[0] >= others[1]).sum())
    part.breaks("strict for every coordinate", (equal[0] >= equal[1]).sum())
    part.breaks("gamma for steps three times as long", (others[0] >= others[2]).sum())
    p, q, a, c = sympy.symbols("v_1 v_3 a c", real=True)

    def gap(other: sympy.Expr) -> sympy.Expr:
        return (other + a * c) - a * (p + c)

    part.proves(
        exact.equal(a * p + a * c, a * (p + c)),
        breaks={"another coordinate": exact.equal(gap(q), 0)},
    )


def _shrinks(one: int) -> exact.Shown:
    """Whether the square of what divides the gap in a step, N^2, is above 1 / gamma^2, for |v| = 1
    and a step above its bound: c = l + u. With `one` in place of gamma's first 1."""
    x = symbols()
    low, more = sympy.symbols("l u", positive=True)
    left = square(x.moved) - (square(x.v) - 1) - (1 + (one + 2 * x.a**2) * low**2)
    form = 2 * x.c * x.s + x.factor * (2 * low * more + more**2)
    return exact.positive(left.subs(x.c, low + more), sympy.expand(form.subs(x.c, low + more)))


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
def eq26_id(t: Trial) -> None:
    """Contraction of one normalised update, exactly (App. D, behind Eq. 26).

    Given   d = 2, 3, 10, 50; a of both signs and 0; |v| = 1 with v_1 + a sum v_i > 0; one step of
            any length, or the least.
    Claim   A step of c divides |v_i - a v_1| by sqrt(1 + 2c(v_1 + a sum v_i) + (1 + (d-1)a^2)c^2),
            and so at least by the root without the middle term.
    Fails   the identity for v of norm 1.5, or with 2 for |v|^2; the inequality at v_1 + a sum v_i
            < 0, where Eq. 25 fails.
    """
    count = t.draws * len(DIMENSIONS)
    identity = t.part("identity", 1e-14, controls=pooled, draws=count)
    inequality = t.part("inequality", 1e-15, controls=pooled, draws=count)
    for d in DIMENSIONS:
        s = starts(t.rng, t.draws, d, 1)
        c = s.steps[0] if d != 3 else s.c

        def sides(v: Array, c: Array = c, a: Array = s.a, d: int = d) -> tuple[Array, ...]:
            left = gaps(once(v, a, c)[0], a)
            square = (1 + (d - 1) * a**2) * c**2
            root = np.sqrt(np.maximum(1 + 2 * c * along(v, a) + square, 0))[:, None]
            return left, gaps(v, a) / root, gaps(v, a) / np.sqrt(1 + square)[:, None]

        left, right, bound = sides(s.v)
        # Differences of entries of size one over steps of a thousand: absolute in units of one.
        identity.add(np.abs(left - right).max(-1))
        inequality.add((left - bound).max(-1))
        left, right, _ = sides(1.5 * s.v)
        identity.breaks("norm 1.5", np.abs(left - right).max(-1))
        length = np.sqrt(1 + (d - 1) * s.a**2)[:, None]
        v = s.v - 1.6 * along(s.v, s.a)[:, None] * target(s.a, d) / length
        v = v / np.linalg.norm(v, axis=-1, keepdims=True)
        left, _, bound = sides(v, 0.2 * s.c)
        # of starts that are not at a right angle, as every third is
        inequality.breaks("where Eq. 25 fails", (left - bound).max(-1)[1::3])
    x = symbols()
    gap = x.v[1] - x.a * x.v[0]
    norm = square(x.v) + 2 * x.c * x.s + x.factor * x.c**2  # under the root, |v| = 1

    def step(under: sympy.Expr) -> exact.Shown:
        """Squares of both sides, times what is under the roots."""
        return exact.equal((x.moved[1] - x.a * x.moved[0]) ** 2 * under, gap**2 * square(x.moved))

    identity.proves(
        step(norm), breaks={"norm not counted": step(norm - square(x.v) + 2)}, at="d = 3"
    )
    below = 1 + x.factor * x.c**2
    inequality.proves(
        exact.positive(norm - (square(x.v) - 1) - below, 2 * x.c * x.s),
        breaks={
            "where Eq. 25 fails": exact.positive(
                (norm - (square(x.v) - 1) - below).subs(x.s, -x.s), -2 * x.c * x.s
            )
        },
        at="d = 3",
    )
