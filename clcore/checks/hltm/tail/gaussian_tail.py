"""Checks of ddn App. C.3: the tail of a correlated Gaussian pair (Lemma 8, Eqs. 113-123).

`clcore.theory.trees.gaussian_tail` meets numpy quadrature of phi(t) Phi(-(k + gamma t)/sqrt(1 -
gamma^2)). Probabilities are compared as logarithms.
"""

import numpy as np
from scipy import special

from clcore import reference as ref
from clcore.ledger import Trial, check, pooled
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
    Claim   P(y_+ >= sqrt c, y_- >= 0) >= exp(-c/2) (1 - gamma^2)^(1/2) R^(c, gamma)/(2 pi), R^ of
            Eq. 121, for correlation -gamma.
    Fails   as printed, at every gamma > 0 for c >= 1. Corrected: exp(-c/(2 (1 - gamma^2))).
            Controls: without (1 - gamma^2)^(1/2), without 1/(2 pi), R^ at gamma = 0.

    Beyond the row: the library's tail, also by Owen's function, and what it refuses.
    """
    c, gamma = settings(t.rng, t.draws)
    tail = log_orthant(np.sqrt(c), np.zeros_like(c), gamma)
    usual = (gamma > 0.05) & (gamma < 0.95)
    pair = tensors(c, gamma)
    r_hat = np.log(gaussian_tail.r_hat(*pair).numpy())
    at_zero = np.log(gaussian_tail.r_hat(*tensors(c, 0 * gamma)).numpy())
    root = np.log1p(-(gamma**2)) / 2
    for form in (t.part, t.corrected):
        part = form("tail bound", ROUNDING, controls=pooled)
        bound = gaussian_tail.log_bound(*pair, form == t.part).numpy()
        part.add(_over(bound, tail))
        if form == t.part:
            again = gaussian_tail.log_tail(*pair).numpy()
            # Near gamma = 1 both take the difference of 1/r and y.
            part.fails_by(_over(page_bound(c, gamma), again), within=1e-6)
        part.breaks("without sqrt(1 - gamma^2)", _over(bound - root, tail)[usual])
        part.breaks("without 1/2 pi", _over(bound + np.log(2 * np.pi), tail))
        part.breaks("R-hat at gamma = 0", _over(bound - r_hat + at_zero, tail)[usual])
        part.says(own=_own_example(), factor=np.exp(-np.max(tail - bound)))
        part.confirms(own=np.exp(page_bound(*OWN) - log_orthant(3 * ONE, 0 * ONE, OWN[1])).item())
    exact = t.defines("clcore's tail", ROUNDING, controls=pooled)
    exact.add(np.abs(_over(gaussian_tail.log_tail(*pair).numpy(), tail)))
    half = log_orthant(np.sqrt(c), np.zeros_like(c), gamma / 2)
    exact.breaks("half of gamma", np.abs(_over(half, tail))[usual])
    _by_owen(t)
    taken = t.defines("c > 0 and 0 <= gamma < 1 are taken, nothing else", 0.0)
    for c, gamma in ((0.0, 0.5), (-1.0, 0.5), (1.0, -1e-9), (1.0, 1.0), (1.0, 1.5)):
        wrong = f"got {c if c <= 0 else gamma:g}"
        taken.add(wrong not in _refused(c, gamma))
        taken.add(wrong not in _refused((1.0, c, 2.0), (0.0, gamma, 0.5)))
    for pair in ((1e-9, 0.5), (1.0, 0.0), (1.0, 1 - 1e-9)):
        taken.add(bool(_refused(*pair))).breaks("inside", not _refused(*pair))


def _refused(c: float | tuple, gamma: float | tuple) -> str:
    """As what kappa_1 and kappa_2 of one pair, or of some, are refused; nothing if they are not."""
    try:
        gaussian_tail.kappas(*tensors(np.array(c), np.array(gamma)))
    except ValueError as error:
        return str(error)
    return ""


def _by_owen(t: Trial) -> None:
    """The library's tail to twelve digits where scipy has it in closed form: Phi(-sqrt(c))/2 at
    gamma = 0, and less Owen's T elsewhere. Control: half of gamma."""
    part = t.defines("clcore's tail by Owen's function", 1e-12, controls=pooled)
    rng = t.stream("Owen")
    for most, greatest in ((100.0, 0.0), (4.0, 0.8)):
        c = np.concatenate([[1e-3, most], np.geomspace(1e-3, most, 20), rng.uniform(0, most, 20)])
        c, gamma = np.maximum(c, 1e-3), greatest * rng.random(len(c))
        h, ours = np.sqrt(c), gaussian_tail.log_tail(*tensors(c, gamma)).numpy()

        def tail(gamma: Array, h: Array = h) -> Array:
            """log P(y_1 >= h, z >= s y_1), s the slope of the line y_- = 0; both standard."""
            cut = special.owens_t(h, gamma / np.sqrt(1 - gamma**2))
            whole = special.log_ndtr(-h) - np.log(2)
            return whole + np.log1p(-cut / np.exp(whole))

        part.add(np.abs(ours - tail(gamma)))
        if greatest:
            part.breaks("half of gamma", np.abs(ours - tail(gamma / 2)))


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

    Given   gamma in [0.1, 0.95], c in [0.1, 100], y_0 = (sqrt c, 0).
    Claim   Sigma_y^-1 = [[1, gamma], [gamma, 1]]/(1 - gamma^2), y_0^T M y_0 = c, det^(1/2) M = (1
            - gamma^2)^(-1/2): each against numpy's solvers.
    Fails   the quadratic form as printed; corrected: c/(1 - gamma^2). Controls: -gamma, without
            1/(1 - gamma^2), the determinant of Sigma_y.
    """
    c, gamma = 10 ** t.rng.uniform(-1, 2, t.draws), t.rng.uniform(0.1, 0.95, t.draws)
    one, less = np.ones(t.draws), 1 - gamma**2
    swap = np.stack([np.stack([one, gamma], -1), np.stack([gamma, one], -1)], -2)
    sigma = 2 * np.eye(2) - swap
    inverse = np.linalg.inv(sigma)
    part = t.part("inverse", 1e-12, controls=pooled)
    part.add(ref.relative(swap / less[:, None, None], inverse))
    part.breaks("-gamma", ref.relative(sigma / less[:, None, None], inverse))
    part.breaks("without 1/(1 - gamma^2)", ref.relative(swap, inverse))
    form = _quadratic_form(np.sqrt(c), 0 * c, gamma)
    printed = t.part("quadratic form", 1e-12, controls=pooled).add(ref.relative(c, form))
    printed.fails_by(gamma**2)
    corrected = t.corrected("quadratic form", 1e-12, controls=pooled)
    corrected.add(ref.relative(c / less, form))
    for part in (printed, corrected):
        part.breaks("c (1 - gamma^2)", ref.relative(c * less, form))
    root = np.sqrt(np.linalg.det(inverse))
    part = t.part("determinant", 1e-12, controls=pooled).add(ref.relative(less**-0.5, root))
    part.breaks("of Sigma_y", ref.relative(less**0.5, root))


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

    Given   gamma < 0.995, y_0 = (sqrt c, 0) as used, and any y_0 >= 0; the probability by
            quadrature.
    Claim   R(y_0, M) >= (1 - gamma^2) max[r(k1) r(k2 + gamma e(k1)), r(k2) r(k1 + gamma e(k2))], r
            the Mills ratio.
    Fails   for sqrt(1 - gamma^2) in place of 1 - gamma^2, and for correlation +gamma in the
            arguments.
    """
    _, gamma = settings(t.rng, t.draws)
    h = t.rng.uniform(0.3, 4, len(gamma))
    use = gamma < 0.995  # 1/r - y has lost too many digits of float64 beyond
    usual, half = use & (gamma > 0.05), np.log1p(-(gamma**2)) / 2
    for name, k in (("as used", 0 * h), ("any y_0", t.rng.uniform(0, 3, len(h)))):
        part = t.part(name, 1e-9, controls=pooled)
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

    Given   the settings of Lemma 8; the quadratic form by a linear solver.
    Claim   R^ of the library is the larger product of Eq. 121; the probability is at least
            Eq. 122; and Eq. 123 is the same number.
    Fails   the step from 122 to 123 as printed; corrected: exp(-c/(2 (1 - gamma^2))) in Eq. 123.
            Controls: the smaller product, one factor, without 1 - gamma^2, c (1 - gamma^2) in the
            exponent.
    """
    c, gamma = settings(t.rng, t.draws)
    h = np.sqrt(c)
    tail = log_orthant(h, 0 * h, gamma)
    usual = (gamma > 0.05) & (gamma < 0.95)
    r_hat = np.log(gaussian_tail.r_hat(*tensors(c, gamma)).numpy())
    use = gamma < 0.99  # beyond, 1/r - y has lost too many digits of float64
    products = _products(h, 0 * h, gamma)
    largest = np.maximum(*products)
    defined = t.defines("R-hat", ROUNDING, controls=pooled).add(np.abs(r_hat - largest)[use])
    defined.breaks("the smaller product", np.abs(np.minimum(*products) - largest)[usual])
    bare = np.log(scipy_mills(h / np.sqrt(1 - gamma**2)))
    defined.breaks("one factor", np.abs(bare - largest)[use])
    half = np.log1p(-(gamma**2)) / 2
    eq122 = -np.log(2 * np.pi) - half - _quadratic_form(h, 0 * h, gamma) / 2 + 2 * half + r_hat
    # The quadratic form is ill-conditioned as gamma nears 1.
    part = t.part("Eq. 122", 1e-9, controls=pooled).add(_over(eq122, tail))
    part.breaks("without (1 - gamma^2)", _over(eq122 - 2 * half, tail)[usual])
    eq123 = -np.log(2 * np.pi) - c / 2 + half + r_hat
    true, size = eq123 + c / 2 - c / (2 * (1 - gamma**2)), np.maximum(1, np.abs(eq122))
    for form, value in ((t.part, eq123), (t.corrected, true)):
        part = form("step 122 to 123", 1e-9, controls=pooled).add(np.abs(value - eq122) / size)
        if form == t.part:
            apart, whole = c * gamma**2 / (1 - gamma**2) / 2, page_bound(c, gamma, False)
            part.fails_by(apart / np.maximum(1, np.abs(whole)), within=1e-6)
        wrong = np.abs(eq123 + c * gamma**2 / 2 - eq122)
        part.breaks("exponent c (1 - gamma^2)/2", wrong[usual])
