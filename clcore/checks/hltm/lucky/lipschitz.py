"""Variance squashing and sharpened Jensen (ddn App. C.1: Lemmas 3 to 5 and their proofs).

Random variables are finite: atoms x and probabilities p, both [draws, m].
"""

from collections.abc import Callable
from itertools import product

import numpy as np

from clcore import reference as ref
from clcore.checks.hltm.lucky import lipschitz_proofs
from clcore.ledger import Trial, check, pooled, typical, worst
from clcore.reference import Array

Function = Callable[[Array], Array]


def _variables(rng: np.random.Generator, draws: int) -> list[tuple[Array, Array]]:
    """(x, p): generic, heavy-tailed, near a kink at 0, and two atoms."""
    out = []
    for m in (2, 3, 8, 50):
        p = ref.normalised(rng.exponential(size=(draws, m)) + 1e-9)
        x = rng.standard_normal((draws, m))
        out += [(x, p), (np.clip(rng.standard_cauchy((draws, m)), -1e4, 1e4), p), (1e-3 * x, p)]
    rare = 10.0 ** -rng.uniform(0.3, 8, draws)
    two = np.stack([rare, 1 - rare], -1)
    out.append((np.stack([rng.uniform(0.5, 2, draws) / rare, -np.ones(draws)], -1), two))
    half = np.full((draws, 2), 0.5)
    return [*out, (np.stack([np.ones(draws), -np.ones(draws)], -1), half)]


def _mean(p: Array, f: Array) -> Array:
    return (p * f).sum(-1)


def _variance(p: Array, f: Array) -> Array:
    return _mean(p, (f - _mean(p, f)[:, None]) ** 2)


def _piecewise(rng: np.random.Generator, draws: int) -> tuple[Function, Array]:
    """A random continuous function with ten kinks, and its Lipschitz constant [draws]."""
    kinks = np.sort(rng.standard_normal((draws, 10)), -1)
    slopes = rng.uniform(-2, 2, (draws, 11))

    def phi(x: Array) -> Array:
        beyond = np.maximum(x[:, :, None] - kinks[:, None], 0)
        return slopes[:, :1] * x + (beyond * np.diff(slopes, axis=-1)[:, None]).sum(-1)

    return phi, np.abs(slopes).max(-1)


def _functions(rng: np.random.Generator, draws: int) -> list[tuple[Function, Array]]:
    """Lipschitz functions with their constants: piecewise linear, ReLU, leaky, tanh, affine."""
    one = np.ones(draws)
    slope = rng.uniform(1.5, 3, draws)
    return [
        _piecewise(rng, draws),
        (lambda x: np.maximum(x, 0), one),
        (lambda x: np.where(x > 0, x, 0.05 * x), one),
        (np.tanh, one),
        (lambda x: 3 - slope[:, None] * x, slope),
    ]


@check("ddn/lem3")
def lem3(t: Trial) -> None:
    """Variance squashing: a Lipschitz function of a random variable (Lemma 3).

    Given   finite random variables: generic, heavy-tailed, near a kink, two atoms; phi piecewise
            linear, ReLU, leaky ReLU, tanh, affine, of known Lipschitz constant L.
    Claim   V[phi(x)] <= L^2 V[x], with equality for affine phi.
    Fails   for L in place of L^2, at affine phi with L > 1; for phi with a jump, which has no L;
            equality for the ReLU (in the proof for a quadratic phi).
    """
    bound = t.part("bound", 1 + 1e-9)
    tight = t.part("tight", 1e-9, controls=pooled)
    for x, p in _variables(t.rng, t.draws):
        spread, functions = _variance(p, x), _functions(t.rng, t.draws)
        ratios = [_variance(p, phi(x)) / (L**2 * spread) for phi, L in functions]
        relu, affine = ratios[1], ratios[-1]

        # V[phi(x)] <= L^2 V[x]: their ratio.
        bound.add(*ratios)
        bound.breaks("L in place of L^2", affine * functions[-1][1])
        jump = x + 3 * np.std(x) * (x > _mean(p, x)[:, None])
        bound.breaks("a jump", _variance(p, jump) / spread, by=typical)

        # Affine phi attains it.
        tight.add(np.abs(affine - 1)).breaks("ReLU", np.abs(relu - 1))
    lipschitz_proofs.lem3(bound, tight)


@check("ddn/eq88")
def eq88(t: Trial) -> None:
    """Squared difference of independent copies is twice the variance (Eq. 88).

    Given   x, y independent draws of a finite variable, phi as in Lemma 3; sums over pairs.
    Claim   E|phi(x) - phi(y)|^2 = E|(phi(x) - mu) - (phi(y) - mu)|^2 = the third member, E of both
            squares minus twice E of the product, = 2 V[phi]: each against 2 V, mu the mean.
    Fails   the second member as typeset, with 1/2 (a misprint); the third for y = x, and
            where its cross term is left out though it is not centred.
    """
    others = t.part("first, third, last member", 1e-8, controls=pooled)
    second = t.part("second member", 1e-8, controls=pooled)
    for x, p in _variables(t.rng, min(t.draws, 60)):
        pair = p[:, :, None] * p[:, None, :]
        for phi, _ in _functions(t.rng, len(x)):
            f = phi(x)
            mu, twice = _mean(p, f)[:, None], 2 * _variance(p, f)
            centred = f - mu
            use = twice > 1e-12 * (1 + mu[:, 0] ** 2)  # phi not constant on the atoms

            def error(member: Array, twice: Array = twice, use: Array = use) -> Array:
                return (np.abs(member - twice) / np.maximum(twice, 1e-300))[use]

            # E|phi(x) - phi(y)|^2, and the third member, are 2 V[phi].
            first = (pair * np.abs(f[:, :, None] - f[:, None, :]) ** 2).sum((1, 2))
            one, other = centred[:, :, None], centred[:, None, :]
            cross = (pair * one * other).sum((1, 2))
            third = (pair * (one**2 + other**2)).sum((1, 2)) - 2 * cross
            others.add(np.maximum(error(first), error(third)))

            # So is E|(phi(x) - mu) - (phi(y) - mu)|^2.
            gap = (pair * np.abs(one - other) ** 2).sum((1, 2))
            second.add(error(gap))
            second.breaks("as typeset, with 1/2", error(gap / 2), by=worst)

            # The third member where y = x; and its squares alone, not centred: its cross term is 0
            # only if centred.
            others.breaks("x and y the same draw", error(third - 2 * _mean(p, centred**2)))
            others.breaks("not centred", error(2 * _mean(p, f**2)))
    lipschitz_proofs.eq88(others, second)


def _curves(low: Array, high: Array) -> list[tuple[Function, Array, Array, Function]]:
    """phi, inf and sup of phi'' on [low, high], and phi'' itself: exp, x^4, softplus, sin."""

    def softplus(x: Array) -> Array:  # its second derivative
        s = 1 / (1 + np.exp(-x))
        return s * (1 - s)

    inside = (low < 0) & (high > 0)
    fourth = 12 * np.stack([low**2, high**2])
    bump = np.stack([softplus(low), softplus(high)])
    # -sin on [-2, 2] falls on [-pi/2, pi/2] and rises outside.
    ends = -np.sin(np.stack([low, high]))
    trough, peak = ((low < at) & (high > at) for at in (np.pi / 2, -np.pi / 2))
    return [
        (np.exp, np.exp(low), np.exp(high), np.exp),
        (lambda x: x**4, np.where(inside, 0, fourth.min(0)), fourth.max(0), lambda x: 12 * x**2),
        (lambda x: np.log1p(np.exp(x)), bump.min(0), np.where(inside, 0.25, bump.max(0)), softplus),
        (
            np.sin,
            np.where(trough, -1, ends.min(0)),
            np.where(peak, 1, ends.max(0)),
            lambda x: -np.sin(x),
        ),
    ]


@check("ddn/lem4")
def lem4(t: Trial) -> None:
    """Sharpened Jensen's inequality for twice differentiable functions (Lemma 4, Eq. 90).

    Given   random x on 2, 3 or 10 atoms in [-2, 2]; phi = exp, x^4, softplus, sin; inf and sup of
            phi'' over the hull of the atoms.
    Claim   (1) V inf phi''/2 <= E[phi(x)] - phi(E x) <= V sup phi''/2. (2) Both are equalities for
            quadratics. Proved for three atoms.
    Fails   for 1 in place of 1/2; for an equality with phi'' at the mean.
    """
    bounds, height = t.part("bounds", 1e-13), []
    quadratic = t.part("quadratics: equality", 1e-13, controls=pooled)
    for m, width in product((2, 3, 10), (4.0, 0.4)):
        p = ref.normalised(t.rng.exponential(size=(t.draws, m)))
        centre = t.rng.uniform(-2 + width / 2, 2 - width / 2, (t.draws, 1))
        x = centre + width * (t.rng.random((t.draws, m)) - 0.5)
        V, mean = _variance(p, x), _mean(p, x)

        # (1) The gap E[phi(x)] - phi(E x) lies between V inf phi''/2 and V sup phi''/2.
        for phi, low, high, curve in _curves(x.min(-1), x.max(-1)):
            gap = _mean(p, phi(x)) - phi(mean)
            bounds.add(np.maximum(V * low / 2 - gap, gap - V * high / 2))
            bounds.breaks("1 for 1/2", np.maximum(V * low - gap, gap - V * high), by=worst)
            bounds.breaks("phi'' at the mean", np.abs(gap - V * curve(mean) / 2), by=pooled)
            height.append((gap - V * low / 2) / np.maximum(V * (high - low) / 2, 1e-12))

        # (2) Of a x^2 + b x, whose phi'' is 2a, the gap is V a.
        a, b = t.rng.standard_normal((2, t.draws, 1))
        gap = _mean(p, a * x**2 + b * x) - (a * mean[:, None] ** 2 + b * mean[:, None])[:, 0]
        quadratic.add(np.abs(gap - V * a[:, 0]))
        quadratic.breaks("1 for 1/2", np.abs(gap - 2 * V * a[:, 0]))
    bounds.says(room=np.median(np.concatenate(height)))
    lipschitz_proofs.lem4(bounds, quadratic)


@check("ddn/lem5")
def lem5(t: Trial) -> None:
    """Sharpened Jensen's inequality for ReLU (Lemma 5, Eqs. 91-93).

    Given   finite variables, heavy-tailed and two-atom ones among them, shifted around the kink;
            psi the ReLU.
    Claim   0 <= E[psi(x)] - psi(E x) <= sd(x), and half of sd(x) is enough (ours), with the
            pointwise step psi(x) - psi(mu) <= |x - mu|. All proved.
    Fails   at least 0: for a concave function; the bound for V in place of sd; half of it for 0.49
            sd, as two equal atoms around the kink reach 1/2 (in the proof a third of sd for both);
            the step for slope 1.5 (in the proof 2).
    """
    below = t.part("at least 0", 1e-9, controls=worst)
    above = t.part("at most the standard deviation", 1e-9, controls=worst)
    half = t.part("at most half of it", 1e-9, controls=worst)
    steps, largest = t.part("Eqs. 92, 93", 1e-9, controls=worst), 0.0
    for (x, p), shift in product(_variables(t.rng, t.draws), (0.0, 0.5, -0.5)):
        y = x - _mean(p, x)[:, None] + shift * np.sqrt(_variance(p, x))[:, None]
        mu, sd = _mean(p, y), np.sqrt(_variance(p, y))
        gap = (_mean(p, np.maximum(y, 0)) - np.maximum(mu, 0)) / sd
        largest = np.maximum(largest, gap.max())

        # 0 <= E[psi(x)] - psi(E x), here in units of sd(x).
        below.add(-gap)
        below.breaks("a concave function", -(_mean(p, np.minimum(y, 0)) - np.minimum(mu, 0)) / sd)

        # It is at most sd(x), and half of it.
        above.add(gap - 1).breaks("V in place of sd", gap - sd)
        half.add(gap - 0.5).breaks("0.49 sd", gap - 0.49)

        # psi(x) - psi(mu) <= |x - mu|, atom by atom.
        for slope in (1.0, 1.5):
            rise = slope * (np.maximum(y, 0) - np.maximum(mu, 0)[:, None])
            error = ((rise - np.abs(y - mu[:, None])) / sd[:, None]).max(-1)
            steps.add(error) if slope == 1 else steps.breaks("slope 1.5", error)
    half.says(gap=largest)
    lipschitz_proofs.lem5(below, above, half, steps)


@check("ddn/eq94")
def eq94(t: Trial) -> None:
    """Mean absolute deviation is at most the standard deviation (Eq. 94).

    Given   finite variables, mass 1 and 2; two equal atoms are tight.
    Claim   int |x - mu| p <= (int |x - mu|^2 p)^(1/2) (int p)^(1/2), and for mass 1 the right side
            is the standard deviation.
    Fails   without the factor of the mass, at mass 2; for the squared mean root in place of the
            root of the mean square; the last member at mass 2.
    """
    variables = _variables(t.rng, t.draws)
    inequality = t.part("Cauchy-Schwarz", 1 + 1e-9, controls=worst, draws=t.draws * len(variables))
    last = t.part("last member", 1e-9)
    for x, p in variables:
        gap, sd = np.abs(x - _mean(p, x)[:, None]), np.sqrt(_variance(p, x))
        for mass in (2.0, 1.0):
            first, square = _mean(mass * p, gap), np.sqrt(_mean(mass * p, gap**2))
            middle = square * np.sqrt((mass * p).sum(-1))

            # int |x - mu| p over (int |x - mu|^2 p)^(1/2) (int p)^(1/2): 1 at most.
            ratio = first / middle
            inequality.add(ratio)
            if mass == 1:
                inequality.breaks("squared mean root", first / _mean(p, np.sqrt(gap)) ** 2)
            else:
                inequality.breaks("mass 2, its factor left out", first / square)

            # For mass 1 the right side is the standard deviation.
            off = np.abs(middle / sd - 1)
            last.add(off) if mass == 1 else last.breaks("mass 2", off)
    inequality.says(ratio=ratio.max())  # of the two equal atoms, which come last
    lipschitz_proofs.eq94(inequality, last)
