"""Checks of the Mills ratio and of R-hat (ddn App. C.3: Eqs. 120, 124-127, Fig. 11, Eq. 165).

`clcore.theory.trees.gaussian_tail` meets mpmath, quadrature and limits.
"""

from collections.abc import Callable
from itertools import pairwise

import mpmath
import numpy as np
from scipy import special

from clcore import reference as ref
from clcore.checks.hltm.tail import mills_proofs
from clcore.checks.hltm.tail.gaussian_tail import scipy_mills
from clcore.ledger import Trial, check, pooled, worst
from clcore.reference import Array, tensors
from clcore.theory.trees import gaussian_tail


@check("ddn/eq120")
def eq120(t: Trial) -> None:
    """Mills ratio as an integral and through the normal CDF (Eq. 120).

    Given   y in [-3, 8]; for the loss of digits y in [10, 30].
    Claim   r(y) = int_0^inf exp(-yt - t^2/2) dt, the library's by erfcx and sqrt(2 pi) exp(y^2/2)
            (1 - Phi(y)) agree: quadrature and 40 digits. In float64 the last form loses half of
            its value or more from y = 10.
    Fails   as typeset, where one r is both the Mills ratio and Phi: for either throughout; without
            sqrt(2 pi); the loss for erfc in place of 1 - Phi (in the proof from y = 5, and the
            controls of Eq. 125).
    """
    # The integral by quadrature, the library's form and that through Phi agree.
    y = np.concatenate([[-3.0, 0.0, 8.0], t.rng.uniform(-3, 8, min(t.draws, 30))])
    x, w = np.polynomial.legendre.leggauss(160)
    # exp(-y t - t^2/2) is below 1e-17 of its maximum beyond t = max(-y, 0) + 9.
    length = np.maximum(-y, 0) + 9
    u = length[:, None] * (x + 1) / 2
    integral = length / 2 * (np.exp(-y[:, None] * u - u**2 / 2) @ w)
    with mpmath.workdps(40):
        bracket = np.array([float(mpmath.ncdf(-v)) for v in y])
    third = np.sqrt(2 * np.pi) * np.exp(y**2 / 2) * bracket
    ours = gaussian_tail.mills(*tensors(y)).numpy()
    forms = t.part("three forms", 1e-10, controls=pooled)
    forms.add(np.maximum(ref.relative(ours, integral), ref.relative(third, integral)))
    forms.breaks("without sqrt(2 pi)", ref.relative(third / np.sqrt(2 * np.pi), integral))
    literal = np.sqrt(2 * np.pi) * np.exp(y**2 / 2) * (1 - ours)
    for name, value in (
        ("r the Mills ratio throughout", literal),
        ("r the distribution function throughout", special.ndtr(y)),
    ):
        forms.breaks(f"as typeset, {name}", ref.relative(value, integral))

    # From y = 10 the last loses its digits: Phi is 1 to the last one of float64.
    far = np.concatenate([[10.0], t.rng.uniform(10, 30, min(t.draws, 30))])
    exact = gaussian_tail.mills(*tensors(far)).numpy()
    naive = np.sqrt(2 * np.pi) * np.exp(far**2 / 2) * (1 - special.ndtr(far))
    erfc = np.sqrt(np.pi / 2) * np.exp(far**2 / 2) * special.erfc(far / np.sqrt(2))
    loss = t.part("loss of digits from y = 10", 0.5, ">=").add(ref.relative(naive, exact))
    loss.breaks("erfc in place of 1 - Phi", ref.relative(erfc, exact))
    mills_proofs.eq120(forms, loss)


def _precise(t: Trial) -> list[tuple]:
    """(y, r(y)) of y in [1e-3, 1e3], rising, to 60 digits."""
    logs = np.sort(np.concatenate([[-3.0, 0.0, 3.0], t.rng.uniform(-3, 3, min(t.draws, 60))]))
    ys, root = [mpmath.mpf(10.0**v) for v in logs], mpmath.sqrt(mpmath.pi / 2)
    return [(y, root * mpmath.exp(y**2 / 2) * mpmath.erfc(y / mpmath.sqrt(2))) for y in ys]


def _each(pairs: list[tuple], formula: Callable) -> Array:
    """formula(y, r(y)), in high precision until the end."""
    return np.array([float(formula(y, r)) for y, r in pairs])


@check("ddn/eq124")
def eq124(t: Trial) -> None:
    """Bounds on the Mills ratio with square roots (Soranzo and Epure) (Eq. 124).

    Given   y in [0.001, 1000], 60 digits.
    Claim   r falls, and 2/(sqrt(y^2 + 4) + y) < r(y) < 4/(sqrt(y^2 + 8) + 3y), strictly: the
            relative distances, times 1 + y^4 and 1 + y^6 as they decay, are 0.02 or more.
    Fails   for 3 in place of 4, 9 in place of 8 (in the proof for r' = 1 - y r, too); falling for
            y r(y).
    """
    count, root = min(t.draws, 60) + 3, mpmath.sqrt
    bounds = t.part("bounds", -0.02, controls=worst, draws=count)
    falls = t.part("decreasing", -1e-9, controls=worst, draws=count)
    with mpmath.workdps(60):
        pairs = _precise(t)

        def below(four: int) -> Array:
            return _each(pairs, lambda y, r: (2 / (root(y**2 + four) + y) / r - 1) * (1 + y**4))

        def above(eight: int) -> Array:
            return _each(
                pairs, lambda y, r: (r * (root(y**2 + eight) + 3 * y) / 4 - 1) * (1 + y**6)
            )

        # 2/(sqrt(y^2 + 4) + y) < r(y) < 4/(sqrt(y^2 + 8) + 3y).
        bounds.add(below(4), above(8)).breaks("3 for 4", below(3)).breaks("9 for 8", above(9))

        # r falls.
        falls.add(np.array([float(b / a - 1) for (_, a), (_, b) in pairwise(pairs)]))
        falls.breaks("y r(y)", np.diff(_each(pairs, lambda y, r: y * r)))
    mills_proofs.sharp(bounds)
    mills_proofs.falls(falls)


@check("ddn/eq125")
def eq125(t: Trial) -> None:
    """Coarser bounds on the Mills ratio and its excess e(y) (Eq. 125).

    Given   y in [0.001, 1000], 60 digits; e(y) = 1/r(y) - y.
    Claim   y/(1 + y^2) < r(y) < 1/y, 0 < e(y) < 1/y, and y^2 |1 - y r(y)| <= 1, so r ~ 1/y.
    Fails   for y/(1/2 + y^2) below r, 1/(y + 1/(2y)) above it, e < 1/(2y), 1/r - 2y in place of e,
            r ~ 1/(2y); in the proofs for r' = 1 - y r, too.
    """
    count = min(t.draws, 60) + 3
    ratio = t.part("r", -0.05, controls=worst, draws=count)
    excess = t.part("e", -0.05, controls=worst, draws=count)
    limit = t.part("r ~ 1/y", 1.0, controls=worst, draws=count)
    with mpmath.workdps(60):
        pairs = _precise(t)

        def each(formula: Callable) -> Array:
            return _each(pairs, formula)

        # y/(1 + y^2) < r(y) < 1/y: relative distances, times what keeps them away from 0.
        ratio.add(each(lambda y, r: (y / (1 + y**2) / r - 1) * (1 + y**4)))
        ratio.breaks("y/(1/2 + y^2)", each(lambda y, r: (y / (y**2 + 0.5) / r - 1) * (1 + y**4)))
        ratio.add(each(lambda y, r: (y * r - 1) * (1 + y**2)))
        ratio.breaks("1/(y + 1/2y)", each(lambda y, r: (r * (y + 1 / (2 * y)) - 1) * (1 + y**2)))

        # 0 < e(y) < 1/y, e(y) = 1/r(y) - y: the same, of y e(y), which is between 0 and 1.
        excess.add(each(lambda y, r: (y * (1 / r - y) - 1) * (1 + y**2)))
        excess.breaks("e < 1/2y", each(lambda y, r: (2 * y * (1 / r - y) - 1) * (1 + y**2)))
        excess.add(each(lambda y, r: -(y * (1 / r - y)) / min(y, 1)))
        excess.breaks("1/r - 2y", each(lambda y, r: -y * (1 / r - 2 * y) / min(y, 1)))

        # y^2 |1 - y r(y)| <= 1, so r ~ 1/y.
        limit.add(each(lambda y, r: y**2 * abs(1 - y * r)))
        limit.breaks("1/2y", each(lambda y, r: y**2 * abs(1 - 2 * y * r)))
    mills_proofs.eq125(ratio, excess, limit)


@check("ddn/eq126")
def eq126(t: Trial) -> None:
    """Asymptote of the factor R̂ for γ near 1 and large c (Eq. 126).

    Given   gamma in [0.5, 1), c in [10, 10^6]; then gamma = 10^-6 and 0.
    Claim   R^ ~ 1/(k1 k2) = (1 - gamma^2)/(gamma c), k1 = sqrt(c/(1 - gamma^2)), k2 = gamma k1:
            k2^2 |ratio - 1| stays bounded (by 4); near gamma = 0 R^ hardly changes, and the
            asymptote blows up.
    Fails   for (1 - gamma^2)/c in place of 1/(k1 k2); the asymptote without a factor 1 + gamma or
            for half of it; the blow-up at gamma = 0.99; in the proofs also e = 1/r and the
            controls of Eqs. 124 and 125.
    """
    c = 10 ** t.rng.uniform(1, 6, t.draws)
    gamma = np.concatenate([[0.99], 1 - 10 ** t.rng.uniform(-4, -0.3, t.draws - 1)])
    c[0] = 1e3
    pair = tensors(c, gamma)
    library = gaussian_tail.asymptote(*pair)

    # 1/(k1 k2) by the library against (1 - gamma^2)/(gamma c).
    printed = (1 - gamma**2) / (gamma * c)
    forms = t.part("two forms of it", 1e-10, controls=pooled).add(ref.relative(library, printed))
    forms.breaks("without gamma", ref.relative(library, gamma * printed))

    # k2^2 |R^/asymptote - 1| stays bounded.
    ratio = (gaussian_tail.r_hat(*pair) / library).numpy()
    k2_squared = gamma**2 * c / (1 - gamma**2)
    asymptote = t.part("asymptote", 4.0, controls=pooled).add(np.abs(ratio - 1) * k2_squared)
    asymptote.breaks("(1 - gamma)/(gamma c)", np.abs(ratio * (1 + gamma) - 1) * k2_squared)
    asymptote.breaks("half of it", np.abs(2 * ratio - 1) * k2_squared).says(ratio=ratio[0])

    # Near gamma = 0 the asymptote blows up, and R^ hardly changes.
    c, tiny = 10 ** t.rng.uniform(-1, 2, t.draws), np.full(t.draws, 1e-6)
    pair, usual = tensors(c, tiny), tensors(c, np.full(t.draws, 0.99))
    at_zero = gaussian_tail.r_hat(pair[0], 0 * pair[1])
    change = ref.relative(gaussian_tail.r_hat(*pair), at_zero)
    near = t.part("near gamma = 0", 1e4, ">=", controls=pooled, draws=t.draws)
    over, tame = (gaussian_tail.asymptote(*p) / gaussian_tail.r_hat(*p) for p in (pair, usual))
    near.add(over, 1 / np.maximum(change, 1e-300)).breaks("gamma = 0.99", tame)
    mills_proofs.eq126(forms, asymptote, near)


@check("ddn/eq127")
def eq127(t: Trial) -> None:
    """The factor R̂ vanishes as γ tends to 1 or c to infinity (Eq. 127).

    Given   gamma = 1 - 10^-k at fixed c, and c = 10^k at fixed gamma (0 too), k <= 8.
    Claim   R^ falls at every step, to 10^-6 as gamma -> 1 and 10^-3 as c -> infinity; the exact
            probability tends to 0 as gamma -> 1.
    Fails   gamma -> 1 for kappa = sqrt(c), or with c/(1 - gamma) fixed; the probability for
            correlation +gamma; c -> infinity for kappa without c, or of c/(1 + c); in the proofs
            also e = 1/r, gamma e(k1) in both arguments and the controls of Eqs. 124 and 125.
    """
    draws, root = t.draws, np.sqrt
    c = 10 ** t.rng.uniform(-1, 2, draws)
    to_one = [tensors(c, np.full(draws, 1 - 10.0**-k)) for k in range(1, 9)]
    values = _along(to_one)

    # gamma -> 1 at fixed c: R^ ends near 0.
    end = t.part("gamma to 1", 1e-6, controls=pooled).add(values[-1])
    r = scipy_mills(root(c))  # R^ is then r(kappa) r(z), z = kappa + gamma (1/r - kappa), gamma = 1
    end.breaks("kappa = sqrt c", r * scipy_mills(root(c) + 1 / r - root(c)))

    # It falls at every step on the way.
    frozen = _along([tensors(c / 10.0**k, p[1].numpy()) for k, p in enumerate(to_one)])
    falls = t.part("falls at every step to gamma = 1", -0.05, controls=worst, draws=draws)
    falls.add(_rise(values)).breaks("c/(1 - gamma) fixed", _rise(frozen))

    # The exact probability tends to 0.
    chance = t.part("probability as gamma to 1", np.log(1e-100), controls=pooled)
    chance.add(gaussian_tail.log_tail(*to_one[-1]))
    chance.breaks("correlation +gamma", special.log_ndtr(-root(c)))

    # c -> infinity at fixed gamma: the same.
    gamma = np.concatenate([[0.0], t.rng.random(draws - 1)])
    levels = [tensors(np.full(draws, 10.0**k), gamma) for k in range(9)]
    outwards = _along(levels)
    far = t.part("c to infinity", 1e-3, controls=pooled).add(outwards[-1])
    far.breaks("kappa without c", outwards[0])

    # It falls at every step on the way.
    bounded = _along([(p[0] / (1 + p[0]), p[1]) for p in levels])
    out = t.part("falls at every step to c = infinity", -0.05, controls=worst, draws=draws)
    out.add(_rise(outwards)).breaks("kappa of c/(1 + c)", _rise(bounded))
    mills_proofs.eq127(end, falls, chance, far, out)


def _along(pairs: list[tuple]) -> Array:
    """R-hat of tensors c and gamma, a row each."""
    return np.stack([gaussian_tail.r_hat(*pair).numpy() for pair in pairs])


def _rise(values: Array) -> Array:
    """The relative changes along the first axis."""
    return values[1:] / values[:-1] - 1


@check("ddn/fig11")
def fig11(t: Trial) -> None:
    """The factor R̂ between its bounds, and its asymptote, over c and γ (Figure 11).

    Given   gamma in {0.01, ..., 0.99}, c in [0.05, 30]; the band of R^ through the bounds of Eq.
            124.
    Claim   (1) log R^ lies inside the band. (2) The band is near the asymptote (1 - gamma^2)/(gamma
            c) for gamma 0.9 and 0.99 at c >= 20.
    Fails   (1) for the curve of gamma/2, and for the asymptote, which is outside the band for gamma
            <= 0.1 (in the proof the band's ends exchanged, and the controls of Eq. 124); (2) at
            gamma = 0.01, where the asymptote is far off.
    """
    gamma = np.repeat([0.01, 0.1, 0.2, 0.5, 0.8, 0.9, 0.99], t.share(2))
    c = t.rng.uniform(0.05, 30, len(gamma))
    pair = tensors(c, gamma)
    low, high = (np.log(v.numpy()) for v in gaussian_tail.r_hat_bounds(*pair))

    def beyond(value: Array) -> Array:
        return np.maximum(low - value, value - high)

    # (1) How far logarithms are beyond the band's ends.
    other = np.log(gaussian_tail.r_hat(*tensors(c, gamma / 2)).numpy())
    line = np.log(gaussian_tail.asymptote(*pair).numpy())
    inside = t.part("inside the band", 1e-12, controls=pooled)
    inside.add(beyond(np.log(gaussian_tail.r_hat(*pair).numpy())))
    inside.breaks("gamma / 2", beyond(other)[gamma > 0.4])  # of gamma 0.5 and more
    inside.breaks("asymptote, gamma <= 0.1", beyond(line)[gamma < 0.15])
    inside.says(widest=(high - low).max())

    c = t.rng.uniform(20, 30, t.draws)

    def distance(value: float) -> Array:
        pair = tensors(c, np.full(t.draws, value))
        line = gaussian_tail.asymptote(*pair).log()
        ends = [v.log() for v in gaussian_tail.r_hat_bounds(*pair)]
        return np.max([np.abs((end - line).numpy()) for end in ends], 0)

    # (2) Distance of the asymptote's logarithm from the band's farther end, c >= 20; at gamma 0.9
    # a fifth of it, so that 0.1 is allowed.
    near = t.part("asymptote", 0.02, controls=pooled)
    near.add(np.maximum(distance(0.99), distance(0.9) / 5)).breaks("gamma = 0.01", distance(0.01))

    mills_proofs.fig11(inside, near)
