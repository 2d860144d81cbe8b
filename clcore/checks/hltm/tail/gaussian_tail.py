"""Checks of ddn App. C.3: the tail of a correlated Gaussian pair (Lemma 8, Eqs. 113-123).

`clcore.theory.trees.gaussian_tail` meets numpy quadrature of phi(t) Phi(-(k + gamma t)/sqrt(1 -
gamma^2)). Probabilities are compared as logarithms.
"""

import numpy as np
from scipy import special

from clcore import reference as ref
from clcore.ledger import Part, Trial, check, pooled
from clcore.reference import Array, tensors
from clcore.theory.trees import gaussian_tail

ROUNDING = 1e-11  # of a logarithm relative to its size (at least 1)
GAMMAS = (0.0, 1e-6, 0.01, 0.1, 0.2, 0.5, 0.8, 0.9, 0.99, 0.9999)


def settings(rng: np.random.Generator, draws: int) -> tuple[Array, Array]:
    """c in [0.1, 100] and gamma in [0, 1), also near 0 and 1, [draws + 50]."""
    kind = rng.random(draws)
    small, large = 10 ** rng.uniform(-6, -1, draws), 1 - 10 ** rng.uniform(-4, -1, draws)
    gamma = np.where(kind < 0.3, small, np.where(kind < 0.6, large, rng.random(draws)))
    c = 10 ** rng.uniform(-1, 2, draws)
    grid_c, grid_gamma = (v.ravel() for v in np.meshgrid((0.5, 1.0, 4.0, 9.0, 16.0), GAMMAS))
    return np.concatenate([grid_c, c]), np.concatenate([grid_gamma, gamma])


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


@check("ddn/lem8")
def lem8(t: Trial) -> None:
    """Lower bound on a tail of two correlated Gaussians (Lemma 8, Eqs. 111-112).

    Given   c in [0.1, 100], gamma in [0, 1), near 0 and 1 too; the probability by quadrature.
    Claim   P(y_+ >= sqrt(c), y_- >= 0) >= exp(-c/2) (1 - gamma^2)^(1/2) R^(c, gamma)/(2 pi), R^ of
            Eq. 121, for correlation -gamma: both in logarithms.
    Fails   as printed, at every gamma > 0 for c >= 1. Corrected: exp(-c/(2 (1 - gamma^2))).
            Controls: without (1 - gamma^2)^(1/2), without 1/(2 pi), R^ at gamma = 0.
    """
    c, gamma = settings(t.rng, t.draws)
    pair, tail = tensors(c, gamma), log_orthant(np.sqrt(c), np.zeros_like(c), gamma)
    usual = (gamma > 0.05) & (gamma < 0.95)
    root = np.log1p(-(gamma**2)) / 2
    r_hat, at_zero = (
        np.log(gaussian_tail.r_hat(*tensors(c, g)).numpy()) for g in (gamma, 0 * gamma)
    )

    def fill(part: Part, bound: Array) -> Part:
        """By how much the bound, a logarithm, is above that of the probability."""
        part.add(_over(bound, tail))
        part.breaks("without sqrt(1 - gamma^2)", _over(bound - root, tail)[usual])
        part.breaks("without 1/2 pi", _over(bound + np.log(2 * np.pi), tail))
        part.breaks("R-hat at gamma = 0", _over(bound - r_hat + at_zero, tail)[usual])
        part.says(own=_own_example(), factor=np.exp(-np.max(tail - bound)))
        by_hand = page_bound(*OWN) - log_orthant(3 * ONE, 0 * ONE, OWN[1])
        return part.confirms(own=np.exp(by_hand).item())

    # As printed, with exp(-c/2).
    printed = t.part("tail bound", ROUNDING, controls=pooled)
    fill(printed, gaussian_tail.log_bound(*pair, printed=True).numpy())
    again = gaussian_tail.log_tail(*pair).numpy()
    # Near gamma = 1 both take the difference of 1/r and y.
    printed.fails_by(_over(page_bound(c, gamma), again), within=1e-6)

    # With exp(-c/(2 (1 - gamma^2))).
    corrected = t.corrected("tail bound", ROUNDING, controls=pooled)
    fill(corrected, gaussian_tail.log_bound(*pair, printed=False).numpy())


ONE = np.ones(1)
OWN = 9 * ONE, 0.2 * ONE
"""c and gamma of the paper's example, above Eq. 165."""


def _own_example() -> float:
    """The printed bound over the probability at `OWN`."""
    own = tensors(*OWN)
    printed = gaussian_tail.log_bound(*own, printed=True)
    return (printed - gaussian_tail.log_tail(*own)).exp().item()


def page_bound(c: Array, gamma: Array, printed: bool = True) -> Array:
    """log of Eq. 123's bound, as Lemma 8 prints it or with c/(1 - gamma^2), in numpy."""
    root, h = np.log1p(-(gamma**2)) / 2, np.sqrt(c)
    square = c if printed else c / (1 - gamma**2)
    return root - np.log(2 * np.pi) + _steck(h, 0 * h, gamma) - square / 2


@check("ddn/eq113")
def eq113(t: Trial) -> None:
    """Precision matrix, quadratic form, determinant of the Gaussian pair (Eq. 113).

    Given   gamma in [0.1, 0.95], c in [0.1, 100], y_0 = (sqrt(c), 0).
    Claim   M = Sigma_y^-1 = [[1, gamma], [gamma, 1]]/(1 - gamma^2), y_0^T M y_0 = c, det^(1/2) M
            = (1 - gamma^2)^(-1/2): each against numpy's solvers.
    Fails   the quadratic form as printed; corrected: c/(1 - gamma^2). Controls: M with -gamma or
            without 1/(1 - gamma^2), c (1 - gamma^2), the determinant of Sigma_y.
    """
    c, gamma = 10 ** t.rng.uniform(-1, 2, t.draws), t.rng.uniform(0.1, 0.95, t.draws)
    one, less = np.ones(t.draws), 1 - gamma**2
    swap = np.stack([np.stack([one, gamma], -1), np.stack([gamma, one], -1)], -2)
    sigma = 2 * np.eye(2) - swap
    inverse = np.linalg.inv(sigma)

    # Sigma_y^-1 = [[1, gamma], [gamma, 1]]/(1 - gamma^2).
    precision = t.part("inverse", 1e-12, controls=pooled)
    precision.add(ref.relative(swap / less[:, None, None], inverse))
    precision.breaks("-gamma", ref.relative(sigma / less[:, None, None], inverse))
    precision.breaks("without 1/(1 - gamma^2)", ref.relative(swap, inverse))

    # y_0^T M y_0 = c; corrected: c/(1 - gamma^2).
    form = _quadratic_form(np.sqrt(c), 0 * c, gamma)
    printed = t.part("quadratic form", 1e-12, controls=pooled).add(ref.relative(c, form))
    printed.fails_by(gamma**2)
    corrected = t.corrected("quadratic form", 1e-12, controls=pooled)
    corrected.add(ref.relative(c / less, form))
    for part in (printed, corrected):
        part.breaks("c (1 - gamma^2)", ref.relative(c * less, form))

    # det^(1/2) M = (1 - gamma^2)^(-1/2).
    root = np.sqrt(np.linalg.det(inverse))
    determinant = t.part("determinant", 1e-12, controls=pooled)
    determinant.add(ref.relative(less**-0.5, root))
    determinant.breaks("of Sigma_y", ref.relative(less**0.5, root))


def scipy_mills(y: Array) -> Array:
    """r(y) from scipy's log of the normal distribution function."""
    return np.exp(special.log_ndtr(-y) + y**2 / 2 + np.log(2 * np.pi) / 2)


def _products(h: Array, k: Array, gamma: Array, sign: float = 1.0) -> list[Array]:
    """log of the two products of Eq. 115 at any y_0 = (h, k); `sign` flips the argument's
    gamma e."""
    root = np.sqrt(1 - gamma**2)
    one, two = (h + gamma * k) / root, (k + gamma * h) / root
    values = []
    for x, y in ((one, two), (two, one)):
        shift = sign * gamma * (1 / scipy_mills(x) - x)
        values.append(np.log(scipy_mills(x)) + np.log(scipy_mills(y + shift)))
    return values


def _steck(h: Array, k: Array, gamma: Array, sign: float = 1.0) -> Array:
    """log max[...] of Eq. 115."""
    return np.maximum(*_products(h, k, gamma, sign))


@check("ddn/eq115")
def eq115(t: Trial) -> None:
    """Lower bound on the Mills ratio of two Gaussians (Steck 1979) (Eqs. 114-119).

    Given   gamma < 0.995, y_0 = (h, k): (sqrt(c), 0) as used, sqrt(c) in [0.3, 4], and any k in [0,
            3]; k1 = (h + gamma k)/sqrt(1 - gamma^2), k2 the same with h and k exchanged, e(y)
            = 1/r(y) - y; the probability by quadrature.
    Claim   R(y_0, M) >= (1 - gamma^2) max[r(k1) r(k2 + gamma e(k1)), r(k2) r(k1 + gamma e(k2))], r
            the Mills ratio.
    Fails   for sqrt(1 - gamma^2) in place of 1 - gamma^2, and for -gamma e in place of gamma e
            (Steck's rho taken as gamma there).
    """
    _, gamma = settings(t.rng, t.draws)
    h = t.rng.uniform(0.3, 4, len(gamma))
    use = gamma < 0.995  # 1/r - y has lost too many digits of float64 beyond
    usual, half = use & (gamma > 0.05), np.log1p(-(gamma**2)) / 2
    for name, k in (("as used", 0 * h), ("any y_0", t.rng.uniform(0, 3, len(h)))):
        part = t.part(name, 1e-9, controls=pooled)
        # In logarithms: R(y_0, M), `left`, from the probability; by how much the bound exceeds it.
        tail = log_orthant(h, k, gamma)
        left = np.log(2 * np.pi) + half + tail + _quadratic_form(h, k, gamma) / 2
        over = (2 * half + _steck(h, k, gamma) - left)[use]
        part.add(over)
        part.breaks("sqrt(1 - gamma^2)", (half + _steck(h, k, gamma) - left)[usual])
        part.breaks("Steck's rho = gamma", (2 * half + _steck(h, k, gamma, -1.0) - left)[usual])
        part.says(factor=np.exp(-over.min()))


@check("ddn/eq121")
def eq121(t: Trial) -> None:
    """The factor R̂ and the Gaussian tail bound that it gives (Eqs. 121-123).

    Given   c in [0.1, 100], gamma in [0, 1), near 0 and 1 too; correlation -gamma; the quadratic
            form by a linear solver.
    Claim   R^ of the library is the larger product of Eq. 121; the probability is at least
            Eq. 122; and Eq. 123 is the same number.
    Fails   the step from 122 to 123 as printed; corrected: exp(-c/(2 (1 - gamma^2))) in Eq. 123.
            Controls: the smaller product, one factor, without 1 - gamma^2, c (1 - gamma^2) in the
            exponent.
    """
    c, gamma = settings(t.rng, t.draws)
    h, half = np.sqrt(c), np.log1p(-(gamma**2)) / 2  # half: log sqrt(1 - gamma^2)
    tail = log_orthant(h, 0 * h, gamma)
    usual = (gamma > 0.05) & (gamma < 0.95)
    use = gamma < 0.99  # beyond, 1/r - y has lost too many digits of float64
    r_hat = np.log(gaussian_tail.r_hat(*tensors(c, gamma)).numpy())

    # R-hat by the library, against the larger of two products by scipy.
    products = _products(h, 0 * h, gamma)
    largest = np.maximum(*products)
    defined = t.defines("R-hat", ROUNDING, controls=pooled).add(np.abs(r_hat - largest)[use])
    defined.breaks("the smaller product", np.abs(np.minimum(*products) - largest)[usual])
    one_factor = np.log(scipy_mills(h / np.sqrt(1 - gamma**2)))
    defined.breaks("one factor", np.abs(one_factor - largest)[use])

    # Eq. 122 is a lower bound of the probability, in logarithms. Its quadratic form is
    # ill-conditioned as gamma nears 1.
    eq122 = -np.log(2 * np.pi) - half - _quadratic_form(h, 0 * h, gamma) / 2 + 2 * half + r_hat
    bound = t.part("Eq. 122", 1e-9, controls=pooled).add(_over(eq122, tail))
    bound.breaks("without (1 - gamma^2)", _over(eq122 - 2 * half, tail)[usual])

    # Eq. 123 is the same number, with c/(1 - gamma^2) in the exponent.
    eq123 = -np.log(2 * np.pi) - c / 2 + half + r_hat
    true, size = eq123 + c / 2 - c / (2 * (1 - gamma**2)), np.maximum(1, np.abs(eq122))
    wrong = np.abs(eq123 + c * gamma**2 / 2 - eq122)[usual]
    printed = t.part("step 122 to 123", 1e-9, controls=pooled).add(np.abs(eq123 - eq122) / size)
    apart, whole = c * gamma**2 / (1 - gamma**2) / 2, page_bound(c, gamma, False)
    printed.fails_by(apart / np.maximum(1, np.abs(whole)), within=1e-6)
    printed.breaks("exponent c (1 - gamma^2)/2", wrong)
    corrected = t.corrected("step 122 to 123", 1e-9, controls=pooled)
    corrected.add(np.abs(true - eq122) / size).breaks("exponent c (1 - gamma^2)/2", wrong)
