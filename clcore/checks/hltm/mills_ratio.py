"""Checks of the Mills ratio and of R-hat (ddn App. C.3: Eqs. 120, 124-127, Fig. 11, Eq. 165).

`clcore.theory.trees.gaussian_tail` meets mpmath, quadrature and limits.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import mpmath
import numpy as np
from scipy import special

from clcore import reference as ref
from clcore.checks.hltm.gaussian_tail import scipy_mills
from clcore.ledger import Check
from clcore.reference import Array, tensors, typical, worst
from clcore.theory.trees import gaussian_tail


def eq120(draws: int, seed: int) -> Iterator[Check]:
    """The three forms of r(y) in high precision, and what float64 makes of 1 minus the CDF.

    As typeset, one r is both the Mills ratio and the distribution function. Controls: without
    sqrt(2 pi); r as either of the two throughout; the erfc form at y >= 10.
    """
    rng = ref.generator("eq120", seed)
    y = np.concatenate([[-3.0, 0.0, 8.0], rng.uniform(-3, 8, min(draws, 30))])
    x, w = np.polynomial.legendre.leggauss(160)
    # exp(-y t - t^2/2) is below 1e-17 of its maximum beyond t = max(-y, 0) + 9.
    length = np.maximum(-y, 0) + 9
    t = length[:, None] * (x + 1) / 2
    integral = length / 2 * (np.exp(-y[:, None] * t - t**2 / 2) @ w)
    with mpmath.workdps(40):
        bracket = np.array([float(mpmath.ncdf(-v)) for v in y])
    third = np.sqrt(2 * np.pi) * np.exp(y**2 / 2) * bracket
    ours = gaussian_tail.mills(*tensors(y)).numpy()
    literal = np.sqrt(2 * np.pi) * np.exp(y**2 / 2) * (1 - ours)
    readings = {
        "r the Mills ratio throughout": ref.relative(literal, integral),
        "r the distribution function throughout": ref.relative(special.ndtr(y), integral),
    }
    bare = {"without sqrt(2 pi)": typical(ref.relative(third / np.sqrt(2 * np.pi), integral))}
    common = {"draws": len(y), "part": "three forms"}
    yield Check(
        "ddn/eq120",
        worst(ref.relative(ours, integral), ref.relative(third, integral)),
        1e-10,
        bare
        | {f"as typeset, {name}": worst(error) for name, error in readings.items()}
        | {name: typical(error) for name, error in readings.items()},
        misprint=r"$\sqrt{2\pi}\,e^{y^2/2}(1-r(y))$ -> $\sqrt{2\pi}\,e^{y^2/2}(1-\Phi(y))$ with "
        r"$\Phi$ the distribution function that the next line speaks of",
        note=r"One letter stands for two functions. At $y=0$ the integral is $\sqrt{\pi/2}=1.253$; "
        r"with the Mills ratio in the bracket the last form is $-0.635$.",
        **common,
    )
    far = np.concatenate([[10.0], rng.uniform(10, 30, min(draws, 30))])
    exact = gaussian_tail.mills(*tensors(far)).numpy()
    # Phi is 1 to the last digit of float64.
    naive = np.sqrt(2 * np.pi) * np.exp(far**2 / 2) * (1 - special.ndtr(far))
    erfc = np.sqrt(np.pi / 2) * np.exp(far**2 / 2) * special.erfc(far / np.sqrt(2))
    yield Check(
        "ddn/eq120",
        ref.best(ref.relative(naive, exact)),
        0.5,
        {"erfc in place of 1 - Phi": worst(ref.relative(erfc, exact))},
        draws=len(far),
        part="loss of digits from y = 10",
        relation=">=",
        note="Relative error of the form with 1 minus the distribution function, in float64.",
    )


def _precise(draws: int, seed: int, name: str) -> tuple[list, list]:
    """y in [1e-3, 1e3], rising, and r(y), to 60 digits."""
    rng = ref.generator(name, seed)
    logs = np.sort(np.concatenate([[-3.0, 0.0, 3.0], rng.uniform(-3, 3, min(draws, 60))]))
    ys = [mpmath.mpf(10.0**v) for v in logs]
    root = mpmath.sqrt(mpmath.pi / 2)
    return ys, [root * mpmath.exp(y**2 / 2) * mpmath.erfc(y / mpmath.sqrt(2)) for y in ys]


def _scaled(values: list) -> Array:
    return np.array([float(v) for v in values])


def eq124(draws: int, seed: int) -> Iterator[Check]:
    """Both bounds on r(y) and its fall in y, with 60 digits; the distances times their decay.

    Controls: 3 for 4 in the lower bound; 9 for 8 in the upper one; y r(y) in place of r(y).
    """
    check = partial(Check, "ddn/eq124", draws=min(draws, 60) + 3)
    with mpmath.workdps(60):
        ys, rs = _precise(draws, seed, "eq124")
        pairs = list(zip(ys, rs, strict=True))

        def below(four):
            return [(2 / (mpmath.sqrt(y**2 + four) + y) / r - 1) * (1 + y**4) for y, r in pairs]

        def above(eight):
            root = mpmath.sqrt
            return [(r * (root(y**2 + eight) + 3 * y) / 4 - 1) * (1 + y**6) for y, r in pairs]

        lower, upper = (_scaled(v) for v in (below(4), above(8)))
        broken = {"3 for 4": below(3), "9 for 8": above(9)}
        broken = {name: float(np.max(_scaled(v))) for name, v in broken.items()}
        falls = _scaled([b / a - 1 for a, b in pairwise(rs)])
        rises = _scaled([y * r for y, r in pairs])
    yield check(
        worst(lower, upper),
        -0.02,
        broken,
        part="bounds",
        note="Relative distance beyond a bound, times $1+y^4$ below and $1+y^6$ above: strictly "
        "negative.",
    )
    yield check(worst(falls), -1e-9, {"y r(y)": worst(np.diff(rises))}, part="decreasing")


def eq125(draws: int, seed: int) -> Iterator[Check]:
    """The coarse bounds on r(y) and e(y) with 60 digits, and r(y) ~ 1/y.

    Controls: y/(1/2 + y^2); 1/y lowered to 1/(y + 1/2y); 1/2y above e(y), and 1/r(y) - 2y for e(y);
    r(y) ~ 1/2y.
    """
    check = partial(Check, "ddn/eq125", draws=min(draws, 60) + 3)
    with mpmath.workdps(60):
        ys, rs = _precise(draws, seed, "eq125")
        pairs = list(zip(ys, rs, strict=True))
        lower = _scaled([(y / (1 + y**2) / r - 1) * (1 + y**4) for y, r in pairs])
        broken = _scaled([(y / (y**2 + 0.5) / r - 1) * (1 + y**4) for y, r in pairs])
        upper = _scaled([(y * r - 1) * (1 + y**2) for y, r in pairs])
        lowered = _scaled([(r * (y + 1 / (2 * y)) - 1) * (1 + y**2) for y, r in pairs])
        excess = [y * (1 / r - y) for y, r in pairs]
        outside = _scaled([(e - 1) * (1 + y**2) for e, y in zip(excess, ys, strict=True)])
        negative = _scaled([-e / min(y, 1) for e, y in zip(excess, ys, strict=True)])
        above = _scaled([(2 * y * (1 / r - y) - 1) * (1 + y**2) for y, r in pairs])
        below = _scaled([-y * (1 / r - 2 * y) / min(y, 1) for y, r in pairs])
        ratio = _scaled([y**2 * abs(1 - y * r) for y, r in pairs])
        half = _scaled([y**2 * abs(1 - 2 * y * r) for y, r in pairs])
    yield check(
        worst(lower, upper),
        -0.05,
        {"y/(1/2 + y^2)": worst(broken), "1/(y + 1/2y)": worst(lowered)},
        part="r",
        note="Relative distance beyond a bound, times its decay: strictly negative.",
    )
    yield check(
        worst(outside, negative),
        -0.05,
        {"e < 1/2y": worst(above), "1/r - 2y": worst(below)},
        part="e",
        note="Relative distance beyond a bound, the upper one times its decay: strictly negative.",
    )
    yield check(worst(ratio), 1.0, {"1/2y": worst(half)}, part="r ~ 1/y", note=r"$y^2|1-y\,r(y)|$.")


def eq126(draws: int, seed: int) -> Iterator[Check]:
    """R-hat over its asymptote, and that R-hat stays where the asymptote blows up, at gamma = 0.

    Controls: gamma or a factor 1 + gamma dropped; half of it; gamma near 1 for the blow-up.
    """
    rng = ref.generator("eq126", seed)
    c = 10 ** rng.uniform(1, 6, draws)
    gamma = np.concatenate([[0.99], 1 - 10 ** rng.uniform(-4, -0.3, draws - 1)])
    c[0] = 1e3
    t = tensors(c, gamma)
    ratio = (gaussian_tail.r_hat(*t) / gaussian_tail.asymptote(*t)).numpy()
    second = gamma**2 * c / (1 - gamma**2)
    printed = (1 - gamma**2) / (gamma * c)
    yield Check(
        "ddn/eq126",
        worst(ref.relative(gaussian_tail.asymptote(*t), printed)),
        1e-10,
        {"without gamma": typical(ref.relative(gaussian_tail.asymptote(*t), gamma * printed))},
        draws=draws,
        part="two forms of it",
    )
    yield Check(
        "ddn/eq126",
        worst(np.abs(ratio - 1) * second),
        4.0,
        {
            "(1 - gamma)/(gamma c)": typical(np.abs(ratio * (1 + gamma) - 1) * second),
            "half of it": typical(np.abs(2 * ratio - 1) * second),
        },
        draws=draws,
        part="asymptote",
        note=r"$\kappa_2^2|\hat R\gamma c/(1-\gamma^2)-1|$ stays bounded; at $\gamma=0.99$, "
        rf"$c=10^3$ the ratio is {ratio[0]:.5f}.",
    )
    c, gamma = 10 ** rng.uniform(-1, 2, draws), np.full(draws, 1e-6)
    t = tensors(c, gamma)
    at_zero = gaussian_tail.r_hat(t[0], 0 * t[1])
    finite = ref.relative(gaussian_tail.r_hat(*t), at_zero)
    blown = (gaussian_tail.asymptote(*t) / at_zero).numpy()
    usual = tensors(c, np.full(draws, 0.99))
    tame = gaussian_tail.asymptote(*usual) / gaussian_tail.r_hat(*usual)
    yield Check(
        "ddn/eq126",
        ref.best(blown, 1 / np.maximum(finite, 1e-300)),
        1e4,
        {"gamma = 0.99": float(tame.median())},
        draws=draws,
        part="near gamma = 0",
        relation=">=",
        note="Asymptote over R-hat, and the reciprocal of the relative change of R-hat from "
        r"$\gamma=0$ to $10^{-6}$.",
    )


def eq127(draws: int, seed: int) -> Iterator[Check]:
    """R-hat and the exact probability along gamma = 1 - 10^-k and c = 10^k, at every k.

    R-hat once more with 50 digits, from its definition (Eqs. 116 to 121). Controls: the smaller
    product; kappa without 1/(1 - gamma^2); correlation +gamma; kappa without c.
    """
    check = partial(Check, "ddn/eq127", draws=draws)
    rng = ref.generator("eq127", seed)
    c = 10 ** rng.uniform(-1, 2, draws)
    path = [tensors(c, np.full(draws, 1 - 10.0**-k)) for k in range(1, 9)]
    values = np.stack([gaussian_tail.r_hat(*t).numpy() for t in path])
    loose = scipy_mills(np.sqrt(c)) * scipy_mills(
        np.sqrt(c) + 1 / scipy_mills(np.sqrt(c)) - np.sqrt(c)
    )
    yield check(worst(values[-1]), 1e-6, {"kappa = sqrt c": typical(loose)}, part="gamma to 1")
    frozen = [gaussian_tail.r_hat(*tensors(c / 10.0**k, t[1].numpy())) for k, t in enumerate(path)]
    yield check(
        _rise(values),
        -0.05,
        {"c (1 - gamma) fixed": _rise(np.stack([v.numpy() for v in frozen]))},
        part="falls at every step to gamma = 1",
        note="Largest relative change of R-hat from one $k$ to the next.",
    )
    log_tail = gaussian_tail.log_tail(*path[-1]).numpy()
    yield check(
        worst(log_tail),
        float(np.log(1e-100)),
        {"correlation +gamma": typical(special.log_ndtr(-np.sqrt(c)))},
        part="probability as gamma to 1",
        note="Its logarithm.",
    )
    gamma = np.concatenate([[0.0], rng.random(draws - 1)])
    levels = [tensors(np.full(draws, 10.0**k), gamma) for k in range(9)]
    falls = np.stack([gaussian_tail.r_hat(*t).numpy() for t in levels])
    yield check(
        worst(falls[-1]), 1e-3, {"kappa without c": typical(falls[0])}, part="c to infinity"
    )
    bounded = [gaussian_tail.r_hat(t[0] / (1 + t[0]), t[1]) for t in levels]
    yield check(
        _rise(falls),
        -0.05,
        {"kappa of c/(1 + c)": _rise(np.stack([v.numpy() for v in bounded]))},
        part="falls at every step to c = infinity",
        note="Largest relative change of R-hat from one $k$ to the next, also at $\\gamma=0$.",
    )
    found = np.concatenate([v[:5] for v in (*values, *falls)])
    few = [pair for t in (*path, *levels) for pair in np.stack([v[:5] for v in t], 1).tolist()]
    larger, smaller = (np.array([_r_hat(*pair, pick) for pair in few]) for pick in (max, min))
    between = np.abs(smaller / larger - 1) > 1e-8  # at gamma = 0 the two products are one
    yield check(
        worst(ref.relative(found, larger)),
        1e-12,
        {"the smaller product": typical(ref.relative(found, smaller)[between])},
        part="R-hat once more, with 50 digits",
    )


def _rise(values: Array) -> float:
    """The largest relative change along the first axis."""
    return float(np.max(values[1:] / values[:-1] - 1))


def _r_hat(c: float, gamma: float, pick: Callable) -> float:
    """Eq. 121 from Eqs. 116 to 119, with 50 digits; `pick` is the max."""
    with mpmath.workdps(50):
        one = mpmath.sqrt(mpmath.mpf(c) / (1 - mpmath.mpf(gamma) ** 2))
        two = gamma * one

        def r(y):
            if y > 1e3:  # sqrt(pi/2) exp(y^2/2) erfc(y/sqrt 2), by its continued fraction
                tail = y
                for k in range(40, 0, -1):
                    tail = y + k / tail
                return 1 / tail
            return (
                mpmath.sqrt(mpmath.pi / 2) * mpmath.exp(y**2 / 2) * mpmath.erfc(y / mpmath.sqrt(2))
            )

        def product(x, y):
            return r(x) * r(y + gamma * (1 / r(x) - x))

        return float(pick(product(one, two), product(two, one)))


def fig11(draws: int, seed: int) -> Iterator[Check]:
    """R-hat inside the band of Eq. 124, the band near the asymptote for large gamma, off it near 0.

    Controls: another gamma's curve; the asymptote at small gamma.
    """
    check = partial(Check, "ddn/fig11")
    rng = ref.generator("fig11", seed)
    chosen = np.array([0.01, 0.1, 0.2, 0.5, 0.8, 0.9, 0.99])
    gamma = np.repeat(chosen, ref.share(draws, 2))
    c = rng.uniform(0.05, 30, len(gamma))
    t = tensors(c, gamma)
    low, high = (np.log(v.numpy()) for v in gaussian_tail.r_hat_bounds(*t))

    def beyond(value: Array) -> Array:
        return np.maximum(low - value, value - high)

    exact = np.log(gaussian_tail.r_hat(*t).numpy())
    other = np.log(gaussian_tail.r_hat(*tensors(c, gamma / 2)).numpy())
    line = np.log(gaussian_tail.asymptote(*t).numpy())
    yield check(
        worst(beyond(exact)),
        1e-12,
        {
            "gamma / 2": typical(beyond(other)[gamma > 0.4]),
            "asymptote, gamma <= 0.1": typical(beyond(line)[gamma < 0.15]),
        },
        draws=len(c),
        part="inside the band",
        note="The paper gives no values, range or base of the logarithm; its widest band here is "
        f"{worst(high - low):.2f} (natural logarithm).",
    )
    c = rng.uniform(20, 30, draws)
    distance = {}
    for g in (0.01, 0.9, 0.99):
        t = tensors(c, np.full(draws, g))
        line = gaussian_tail.asymptote(*t).log()
        ends = [v.log() for v in gaussian_tail.r_hat_bounds(*t)]
        distance[g] = np.max([np.abs((end - line).numpy()) for end in ends], 0)
    yield check(
        worst(distance[0.99], distance[0.9] / 5),
        0.02,
        {"gamma = 0.01": typical(distance[0.01])},
        draws=draws,
        part="asymptote",
        note="Largest distance of the band from the asymptote for $c$ from 20 to 30 at "
        r"$\gamma=0.99$, and a fifth of it at 0.9.",
    )
