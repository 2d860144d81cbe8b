"""Checks of ddn App. C.3: the tail of a correlated Gaussian pair (Lemma 8, Eqs. 113-127, Fig. 11).

`clcore.gaussian_tail` meets numpy quadrature of phi(t) Phi(-(k + gamma t)/sqrt(1 - gamma^2)) and
mpmath. Probabilities are compared as logarithms.
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import mpmath
import numpy as np
from scipy import special

from .. import gaussian_tail
from ..ledger import Check
from . import reference as ref
from .reference import Array, tensors, typical, worst

ROUNDING = 1e-11  # of a logarithm relative to its size (at least 1)
GAMMAS = (0.0, 1e-6, 0.01, 0.1, 0.2, 0.5, 0.8, 0.9, 0.99, 0.9999)
COUNTEREXAMPLE = (
    r"$c=9$, $\gamma=\tfrac12$: the probability is $4.1\cdot10^{-5}$, the right side "
    r"$1.8\cdot10^{-4}$."
)


def settings(name: str, draws: int, seed: int) -> tuple[Array, Array, np.random.Generator]:
    """c in [0.1, 100] and gamma in [0, 1), also near 0 and 1, [draws + 50]; and the rng."""
    rng = ref.generator(name, seed)
    kind = rng.random(draws)
    small, large = 10 ** rng.uniform(-6, -1, draws), 1 - 10 ** rng.uniform(-4, -1, draws)
    gamma = np.where(kind < 0.3, small, np.where(kind < 0.6, large, rng.random(draws)))
    c = 10 ** rng.uniform(-1, 2, draws)
    grid_c, grid_gamma = (v.ravel() for v in np.meshgrid((0.5, 1.0, 4.0, 9.0, 16.0), GAMMAS))
    return np.concatenate([grid_c, c]), np.concatenate([grid_gamma, gamma]), rng


def log_orthant(h: Array, k: Array, gamma: Array) -> Array:
    """log P(y_1 >= h, y_2 >= k) of correlation -gamma, for h, k >= 0, by Gauss-Legendre panels."""
    s, root = gamma / np.sqrt(1 - gamma**2), np.sqrt(1 - gamma**2)
    start = -(k + gamma * h) / root
    hazard = np.exp(-(start**2) / 2 - np.log(2 * np.pi) / 2 - special.log_ndtr(start))
    scale = 1 / (h + s * hazard + np.sqrt(1 + s**2))
    x, w = np.polynomial.legendre.leggauss(24)
    edges = np.array([0, 0.5, 1, 2, 4, 8, 16, 32, 64])
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    nodes, weights = (half[:, None] * x + middle[:, None]).ravel(), np.outer(half, w).ravel()
    v = scale[:, None] * nodes
    inner = special.log_ndtr(-(k[:, None] + gamma[:, None] * (h[:, None] + v)) / root[:, None])
    exponent = inner - (h[:, None] * v + v**2 / 2)
    total = special.logsumexp(exponent, axis=1, b=scale[:, None] * weights)
    return total - h**2 / 2 - np.log(2 * np.pi) / 2


def _over(bound: Array, exact: Array) -> Array:
    """By how much a lower bound lies above the exact value (logarithms), relative to their size."""
    return (bound - exact) / np.maximum(np.abs(exact), 1)


def _quadratic_form(h: Array, k: Array, gamma: Array) -> Array:
    """y_0^T Sigma_y^-1 y_0 by solving a linear system, [draws]."""
    one = np.ones_like(gamma)
    sigma = np.stack([np.stack([one, -gamma], -1), np.stack([-gamma, one], -1)], -2)
    point = np.stack([h, k], -1)
    return (point * np.linalg.solve(sigma, point[..., None])[..., 0]).sum(-1)


def lem8(draws: int, seed: int) -> Iterator[Check]:
    """The printed lower bound against quadrature, and with c/(1 - gamma^2) in the exponent.

    Controls: the factor sqrt(1 - gamma^2) dropped; 2 pi dropped; gamma = 0 in R-hat.
    """
    c, gamma, _ = settings("lem8", draws, seed)
    tail = log_orthant(np.sqrt(c), np.zeros_like(c), gamma)
    usual = (gamma > 0.05) & (gamma < 0.95)
    t = tensors(c, gamma)
    r_hat = np.log(gaussian_tail.r_hat(*t).numpy())
    at_zero = np.log(gaussian_tail.r_hat(*tensors(c, 0 * gamma)).numpy())
    root = np.log1p(-(gamma**2)) / 2
    for printed in (True, False):
        bound = gaussian_tail.log_bound(*t, printed).numpy()
        over = _over(bound, tail)
        controls = {
            "without sqrt(1 - gamma^2)": typical(_over(bound - root, tail)[usual]),
            "without 1/2 pi": typical(_over(bound + np.log(2 * np.pi), tail)),
            "R-hat at gamma = 0": typical(_over(bound - r_hat + at_zero, tail)[usual]),
        }
        slack = float(np.max(tail - bound))
        yield Check(
            "ddn/lem8",
            worst(over),
            ROUNDING,
            controls,
            draws=len(c),
            part="tail bound",
            form="printed" if printed else "corrected",
            note="Largest log of the bound over the probability, relative to the latter's log. "
            + (
                r"The proof takes $y_0^\top M_yy_0$ for $c$; it is $c/(1-\gamma^2)$."
                if printed
                else f"Very tight: at worst a factor {np.exp(-slack):.3f} too low here."
            ),
            counterexample=COUNTEREXAMPLE if printed else "",
            correction=""
            if printed
            else r"$\mathbb P(\mathbf y\ge\mathbf y_0)\ge\frac1{2\pi}\exp\big(-\frac c{2(1-"
            r"\gamma^2)}\big)(1-\gamma^2)^{1/2}\hat R(c,\gamma)$.",
        )


def eq113(draws: int, seed: int) -> Iterator[Check]:
    """The precision matrix, the quadratic form and the determinant, against numpy's solvers.

    Controls: the sign of gamma; without 1/(1 - gamma^2); the determinant of Sigma_y instead.
    """
    check = partial(Check, "ddn/eq113", draws=draws)
    rng = ref.generator("eq113", seed)
    c, gamma = 10 ** rng.uniform(-1, 2, draws), rng.uniform(0.1, 0.95, draws)
    one = np.ones(draws)
    swap = np.stack([np.stack([one, gamma], -1), np.stack([gamma, one], -1)], -2)
    sigma = 2 * np.eye(2) - swap
    inverse = np.linalg.inv(sigma)
    printed = swap / (1 - gamma**2)[:, None, None]
    yield check(
        worst(ref.relative(printed, inverse)),
        1e-12,
        {
            "-gamma": typical(ref.relative(sigma / (1 - gamma**2)[:, None, None], inverse)),
            "without 1/(1 - gamma^2)": typical(ref.relative(swap, inverse)),
        },
        part="inverse",
    )
    form = _quadratic_form(np.sqrt(c), 0 * c, gamma)
    controls = {"c (1 - gamma^2)": typical(ref.relative(c * (1 - gamma**2), form))}
    yield check(
        worst(ref.relative(c, form)),
        1e-12,
        controls,
        part="quadratic form",
        note=r"The value in the line after Eq. 122, $\mathbf y_0^\top M_y\mathbf y_0=c$.",
        counterexample=r"$c=1$, $\gamma=\tfrac12$: $M_y=\tfrac43\begin{bmatrix}1&1/2\\1/2&1"
        r"\end{bmatrix}$ and $\mathbf y_0^\top M_y\mathbf y_0=\tfrac43$.",
    )
    yield check(
        worst(ref.relative(c / (1 - gamma**2), form)),
        1e-12,
        controls,
        part="quadratic form",
        form="corrected",
        correction=r"$\mathbf y_0^\top M_y\mathbf y_0=c/(1-\gamma^2)=\kappa_1^2$.",
    )
    root = np.sqrt(np.linalg.det(inverse))
    yield check(
        worst(ref.relative((1 - gamma**2) ** -0.5, root)),
        1e-12,
        {"of Sigma_y": typical(ref.relative((1 - gamma**2) ** 0.5, root))},
        part="determinant",
    )


def _mills(y: Array) -> Array:
    """r(y) from scipy's log of the normal distribution function."""
    return np.exp(special.log_ndtr(-y) + y**2 / 2 + np.log(2 * np.pi) / 2)


def _steck(h: Array, k: Array, gamma: Array, sign: float = 1.0) -> Array:
    """log max[...] of Eq. 115 at any y_0 = (h, k); `sign` flips the argument's gamma e."""
    root = np.sqrt(1 - gamma**2)
    one, two = (h + gamma * k) / root, (k + gamma * h) / root
    values = []
    for x, y in ((one, two), (two, one)):
        shift = sign * gamma * (1 / _mills(x) - x)
        values.append(np.log(_mills(x)) + np.log(_mills(y + shift)))
    return np.maximum(*values)


def eq115(draws: int, seed: int) -> Iterator[Check]:
    """R(y_0, M_y) from quadrature against the printed bound, at [sqrt c, 0] and at any y_0 >= 0.

    Controls: sqrt(1 - gamma^2) for 1 - gamma^2; Steck's rho = +gamma in the arguments.
    """
    _, gamma, rng = settings("eq115", draws, seed)
    h = rng.uniform(0.3, 4, len(gamma))
    for name, k in (("as used", 0 * h), ("any y_0", rng.uniform(0, 3, len(h)))):
        use = gamma < 0.995  # 1/r - y has lost too many digits of float64 beyond
        tail = log_orthant(h, k, gamma)
        half = np.log1p(-(gamma**2)) / 2
        left = np.log(2 * np.pi) + half + tail + _quadratic_form(h, k, gamma) / 2
        over = (2 * half + _steck(h, k, gamma) - left)[use]
        usual = use & (gamma > 0.05)
        yield Check(
            "ddn/eq115",
            worst(over),
            1e-9,
            {
                "sqrt(1 - gamma^2)": typical((half + _steck(h, k, gamma) - left)[usual]),
                "Steck's rho = gamma": typical(
                    (2 * half + _steck(h, k, gamma, -1.0) - left)[usual]
                ),
            },
            draws=int(use.sum()),
            part=name,
            note=r"It is Jensen's inequality for the convex $r$: $R=(1-\gamma^2)\,r(\kappa_1)\,"
            r"\mathbb E\,r(\kappa_2+\gamma U)$ with $\mathbb EU=e(\kappa_1)$. "
            f"Tight to a factor {np.exp(worst(-over)):.2f}.",
        )


def eq120(draws: int, seed: int) -> Iterator[Check]:
    """The three forms of r(y) in high precision, and what float64 makes of 1 minus the CDF.

    Controls: the bracket's r read as the Mills ratio; without sqrt(2 pi); the erfc form at y >= 10.
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
    yield Check(
        "ddn/eq120",
        worst(ref.relative(ours, integral), ref.relative(third, integral)),
        1e-10,
        {
            "bracket's r read as the Mills ratio": typical(ref.relative(literal, integral)),
            "without sqrt(2 pi)": typical(ref.relative(third / np.sqrt(2 * np.pi), integral)),
        },
        draws=len(y),
        part="three forms",
        note="The symbol r in the bracket is the normal distribution function, as the paper's next "
        "line says.",
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


def eq121(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 122 with the quadratic form computed; and whether Eq. 123 is the same number.

    Controls: the factor 1 - gamma^2 dropped; c (1 - gamma^2) in the exponent.
    """
    check = partial(Check, "ddn/eq121")
    c, gamma, _ = settings("eq121", draws, seed)
    h = np.sqrt(c)
    tail = log_orthant(h, 0 * h, gamma)
    usual = (gamma > 0.05) & (gamma < 0.95)
    r_hat = np.log(gaussian_tail.r_hat(*tensors(c, gamma)).numpy())
    half = np.log1p(-(gamma**2)) / 2
    eq122 = -np.log(2 * np.pi) - half - _quadratic_form(h, 0 * h, gamma) / 2 + 2 * half + r_hat
    yield check(
        worst(_over(eq122, tail)),
        1e-9,  # the quadratic form is ill-conditioned as gamma nears 1
        {"without (1 - gamma^2)": typical(_over(eq122 - 2 * half, tail)[usual])},
        draws=len(c),
        part="Eq. 122",
    )
    eq123 = -np.log(2 * np.pi) - c / 2 + half + r_hat
    gap = np.abs(eq123 - eq122) / np.maximum(1, np.abs(eq122))
    true = np.abs(eq123 + c / 2 - c / (2 * (1 - gamma**2)) - eq122) / np.maximum(1, np.abs(eq122))
    controls = {
        "exponent c (1 - gamma^2)/2": typical(np.abs(eq123 + c * gamma**2 / 2 - eq122)[usual])
    }
    yield check(
        worst(gap),
        1e-9,
        controls,
        draws=len(c),
        part="Eq. 123 equals Eq. 122",
        counterexample=r"$c=9$, $\gamma=\tfrac12$: $e^{-6}$ in Eq. 122 is $e^{-4.5}$ in Eq. 123.",
    )
    yield check(
        worst(true),
        1e-9,
        controls,
        draws=len(c),
        part="Eq. 123 equals Eq. 122",
        form="corrected",
        correction=r"$\exp\big(-\frac c{2(1-\gamma^2)}\big)$ for $\exp(-\frac c2)$ in Eq. 123.",
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

    Controls: y/(1/2 + y^2); 1/y lowered to 1/(y + 1/2y); e(y) + 1/y; r(y) ~ 1/2y.
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
        worst(outside, negative), -0.05, {"e(y) + 1/y": worst(outside + 1 + 1e-9)}, part="e"
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
    """R-hat and the exact probability along gamma = 1 - 10^-k and c = 10^k.

    Controls: kappa without 1/(1 - gamma^2); correlation +gamma; kappa without c.
    """
    check = partial(Check, "ddn/eq127", draws=draws)
    rng = ref.generator("eq127", seed)
    c = 10 ** rng.uniform(-1, 2, draws)
    path = [tensors(c, np.full(draws, 1 - 10.0**-k)) for k in range(1, 9)]
    values = np.stack([gaussian_tail.r_hat(*t).numpy() for t in path])
    loose = _mills(np.sqrt(c)) * _mills(np.sqrt(c) + 1 / _mills(np.sqrt(c)) - np.sqrt(c))
    yield check(worst(values[-1]), 1e-6, {"kappa = sqrt c": typical(loose)}, part="gamma to 1")
    log_tail = gaussian_tail.log_tail(*path[-1]).numpy()
    yield check(
        worst(log_tail),
        float(np.log(1e-100)),
        {"correlation +gamma": typical(special.log_ndtr(-np.sqrt(c)))},
        part="probability as gamma to 1",
        note="Its logarithm.",
    )
    gamma = np.concatenate([[0.0], rng.random(draws - 1)])
    end = gaussian_tail.r_hat(*tensors(np.full(draws, 1e8), gamma)).numpy()
    stays = gaussian_tail.r_hat(*tensors(np.full(draws, 1.0), gamma)).numpy()
    yield check(worst(end), 1e-3, {"kappa without c": typical(stays)}, part="c to infinity")


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


def num2(draws: int, seed: int) -> Iterator[Check]:
    """The range of |N_mu| at c = 9, gamma = 0.2: the ratio of its ends, which eta does not enter.

    Control: gamma = 0.9, where the band is narrower.
    """
    ends = {}
    for gamma in (0.2, 0.9):
        t = tensors(np.array([9.0]), np.array([gamma]))
        scale = 2 * np.pi * np.exp(4.5) / np.sqrt(1 - gamma**2)
        ends[gamma] = [scale / float(v) for v in reversed(gaussian_tail.r_hat_bounds(*t))]
    printed = 1467 / 1099
    low, high = ends[0.2]
    etas = [np.exp(-n / end) for n, end in zip((1099, 1467), ends[0.2], strict=True)]
    yield Check(
        "ddn/num2",
        abs(high / low / printed - 1),
        0.5 / 1099 + 0.5 / 1467,
        {"gamma = 0.9": abs(ends[0.9][1] / ends[0.9][0] / printed - 1)},
        evidence="protocol",
        note=f"Eq. 128 through Eq. 124 gives {low:.0f} to {high:.0f} times $\\ln1/\\eta$, a ratio "
        f"of {high / low:.3f}; the printed ends have {printed:.3f}. $\\eta$ is not stated, and no "
        f"value gives both ends ({etas[0]:.3f} gives the lower, {etas[1]:.3f} the upper one).",
    )
