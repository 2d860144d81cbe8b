"""Checks of acl Sec. 3, Table 1, Sec. 6.1 and App. A.1: the min-max view of contrastive losses.

One function a claim, named after it. Each compares `clcore` (torch, closed forms, autograd) with
references of its own below: numpy loops over sample pairs, derivatives by complex steps (f(x + ih)
has imaginary part h f'(x), exact to rounding), and generic solvers for the min player.
Where a check is "worst over the draws", its controls are the best (or median) over the draws.
"""

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from scipy.optimize import minimize
from torch.nn.functional import normalize

from .. import contrast, losses, minplayer
from ..ledger import Check

Array = np.ndarray
Row = tuple[str, Callable[[Array], Array], Callable[[Array], Array]]

TAUS = (0.1, 0.5, 2.0)


# ---------------------------------------------------------------------------- numpy references


def _rng(name: str, seed: int) -> np.random.Generator:
    return np.random.default_rng((seed, zlib.crc32(name.encode())))


def _views(
    rng: np.random.Generator, draws: int, n: int = 6, d: int = 3, unit: bool = False
) -> tuple[Array, Array]:
    """Two views [draws, n, d]: distances between samples around 2, between views around 0.5."""
    z = 0.8 * rng.standard_normal((draws, n, d))
    z2 = z + 0.5 * rng.standard_normal(z.shape)
    if unit:
        z, z2 = (v / np.linalg.norm(v, axis=-1, keepdims=True) for v in (z, z2))
    return z, z2


def _plus(x: Array) -> Array:
    return np.where(np.real(x) > 0, x, 0)


def _rows(tau: float = 0.5, eps: float = 1.0, margin: float = 1.0, c: float = 2.0) -> list[Row]:
    """Table 1 once more, straight from the page: (name, phi, psi); complex arguments allowed."""
    return [
        ("InfoNCE", lambda x: tau * np.log(eps + x), lambda x: np.exp(x / tau)),
        ("MINE", np.log, np.exp),
        ("Triplet", lambda x: x, lambda x: _plus(x + margin)),
        ("Soft Triplet", lambda x: tau * np.log(1 + x), lambda x: np.exp(x / tau + margin)),
        ("N+1 Tuplet", lambda x: np.log(1 + x), np.exp),
        ("Lifted Structured", lambda x: _plus(np.log(x)) ** 2, lambda x: np.exp(x + margin)),
        ("Modified Triplet", lambda x: x, lambda x: 1 / (1 + np.exp(-c * x))),
        ("Triplet Contrastive", lambda x: x, lambda x: x),
    ]


def _slope(f: Callable[[Array], Array], x: Array) -> Array:
    """f'(x) of a scalar function, by one complex step."""
    h = 1e-12 * np.where(x == 0, 1.0, np.abs(x))  # far below x, however small x is
    return np.imag(f(x + 1j * h)) / h


def _gradient(f: Callable[[Array], Array], x: Array) -> Array:
    """df/dx, [draws, *s], of f: [..., *s] -> [...], one complex step an entry of s."""
    shape, size = x.shape[1:], int(np.prod(x.shape[1:]))
    steps = 1e-30j * np.eye(size).reshape(size, 1, *shape)
    return np.moveaxis(np.imag(f(x + steps)) / 1e-30, 0, -1).reshape(x.shape)


def _half(a: Array, b: Array) -> Array:
    return ((a - b) ** 2).sum(-1) / 2


def _distances(z: Array, z2: Array) -> tuple[Array, Array]:
    """(d_ij, d_i) by a loop over pairs."""
    n = z.shape[-2]
    pairs = [[_half(z[..., i, :], z[..., j, :]) for j in range(n)] for i in range(n)]
    inter = np.stack([np.stack(row, -1) for row in pairs], -2)
    return inter, np.stack([_half(z[..., i, :], z2[..., i, :]) for i in range(n)], -1)


def _loss(
    inter: Array, intra: Array, phi: Callable, psi: Callable, diagonal: bool = False
) -> Array:
    """Eq. 1 by loops; `diagonal` wrongly keeps j = i."""
    total = 0.0
    for i in range(inter.shape[-1]):
        xi = 0.0
        for j in range(inter.shape[-1]):
            if j != i or diagonal:
                xi = xi + psi(intra[..., i] - inter[..., i, j])
        total = total + phi(xi)
    return total


def _alpha(inter: Array, intra: Array, phi: Callable, psi: Callable) -> Array:
    """Eq. 4 from the definitions of phi and psi alone."""
    n = inter.shape[-1]
    off = ~np.eye(n, dtype=bool)
    gaps = np.where(off, intra[..., :, None] - inter, 0.0)
    xi = (psi(gaps) * off).sum(-1, keepdims=True)
    return _slope(phi, xi) * _slope(psi, gaps) * off


def _covariance(alpha: Array, a: Array, a2: Array, b: Array, b2: Array, sign: float = 1.0) -> Array:
    """Eq. 5 by a double loop; a, b: [..., n, p] and [..., n, q]. sign=-1 adds the second term."""
    n, total = a.shape[-2], 0.0
    for i in range(n):
        beta = sum(alpha[..., i, j] for j in range(n) if j != i)
        left, right = a[..., i, :] - a2[..., i, :], b[..., i, :] - b2[..., i, :]
        total = total - sign * beta[..., None, None] * left[..., :, None] * right[..., None, :]
        for j in range(n):
            if j != i:
                left, right = a[..., i, :] - a[..., j, :], b[..., i, :] - b[..., j, :]
                weight = alpha[..., i, j, None, None]
                total = total + weight * left[..., :, None] * right[..., None, :]
    return total


def _weights(rng: np.random.Generator, *shape: int) -> Array:
    """Random positive asymmetric alpha with zero diagonal."""
    return rng.random(shape) * ~np.eye(shape[-1], dtype=bool)


def _t(*arrays: Array) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(np.ascontiguousarray(a)) for a in arrays)


def _rel(a: Array | torch.Tensor, b: Array | torch.Tensor, floor: float = 0.0) -> Array:
    """Per draw, the largest error of a relative to the largest entry of b (or to `floor`)."""
    a, b = np.asarray(a), np.asarray(b)
    axes = tuple(range(1, b.ndim))
    scale = np.maximum(np.abs(b).max(axes) if axes else np.abs(b), max(floor, 1e-300))
    return (np.abs(a - b).max(axes) if axes else np.abs(a - b)) / scale


def _abs(a: Array | torch.Tensor, b: Array | torch.Tensor) -> Array:
    a, b = np.asarray(a), np.asarray(b)
    return np.abs(a - b).reshape(len(b), -1).max(-1)


def _worst(*errors: Array) -> float:
    return float(max(np.max(e) for e in errors))


def _best(*errors: Array) -> float:
    return float(min(np.min(e) for e in errors))


def _split(draws: int, parts: int) -> int:
    """How many draws each of several settings gets."""
    return -(-draws // parts)


def _typical(*errors: Array) -> float:
    """For a control that a rare draw lets through: the median over draws, the least of settings."""
    return float(min(np.median(e) for e in errors))


def _least(broken: dict[str, list[Array]]) -> dict[str, float]:
    """The controls: of each broken version, its best value over all settings and draws."""
    return {name: _best(*values) for name, values in broken.items()}


def _pooled(broken: dict[str, list[Array]]) -> dict[str, float]:
    """The controls, where some setting or draw lets one through: the median over all of them."""
    return {name: float(np.median(np.concatenate(values))) for name, values in broken.items()}


# ------------------------------------------------------------------------ generic convex solvers


def _newton(c: Array, mass: Array, slope: Callable, curve: Callable, start: Array) -> Array:
    """min sum_j c_j a_j - r(a_j), sum_j a_j = mass, inside the simplex: damped Newton on the KKT.

    c, start: [..., k]; slope = r', curve = r'' < 0 with r'(0) = inf. Knows nothing of closed forms.
    """
    a = start * (mass / start.sum(-1))[..., None]
    for _ in range(200):
        gradient, hessian = c - slope(a), -curve(a)
        shift = (gradient / hessian).sum(-1, keepdims=True) / (1 / hessian).sum(-1, keepdims=True)
        step = (shift - gradient) / hessian
        room = np.where(step < 0, -a / np.where(step < 0, step, -1.0), np.inf).min(
            -1, keepdims=True
        )
        a = a + np.minimum(1.0, 0.9 * room) * step
        if np.all(np.abs(step) <= 1e-13 * a):
            break
    return a


def _entropy_newton(c: Array, mass: Array, tau: float, start: Array | None = None) -> Array:
    """The minimiser for r_H at coefficient tau: sum_j c_j a_j + tau a_j log a_j."""
    start = np.ones_like(c) if start is None else start
    return _newton(c, mass, lambda a: -tau * (np.log(a) + 1), lambda a: -tau / a, start)


def _slsqp(c: Array, mass: float, r: Callable, slope: Callable, start: Array) -> Array:
    """The same problem for one row by scipy's SLSQP, in shares of the mass."""
    result = minimize(
        lambda p: float(c @ p - r(mass * p).sum() / mass),
        start / start.sum(),
        jac=lambda p: c - slope(mass * p),
        bounds=[(1e-14, None)] * len(c),
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 500},
    )
    return mass * result.x


def _off(x: Array) -> Array:
    """[..., n, n] -> [..., n, n - 1]: each row without its diagonal entry."""
    n = x.shape[-1]
    return x[..., ~np.eye(n, dtype=bool)].reshape(*x.shape[:-1], n - 1)


# ------------------------------------------------------------------------- the loss and its alpha


def eq1(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 1 in torch equals loops over i and j, for all rows of Table 1 and N = 2..12.

    Controls: distances not halved, distances not squared, the pair j = i kept.
    """
    check = partial(Check, "acl/eq1", draws=draws)
    rng, errors = _rng("eq1", seed), []
    broken: dict[str, list[Array]] = defaultdict(list)
    sizes = ((2, 1), (3, 5), (5, 2), (8, 3), (12, 4))
    for n, d in sizes:
        z, z2 = _views(rng, _split(draws, len(sizes)), n, d)
        inter, intra = _distances(z, z2)
        for (_, phi, psi), pair in zip(_rows(), losses.table1(), strict=True):
            ours = contrast.family_loss(*_t(z, z2), pair)
            errors.append(_rel(ours, _loss(inter, intra, phi, psi), 1.0))
            wrong = {
                "no 1/2": _loss(2 * inter, 2 * intra, phi, psi),
                "no square": _loss(np.sqrt(2 * inter), np.sqrt(2 * intra), phi, psi),
                "j = i kept": _loss(inter, intra, phi, psi, diagonal=True),
            }
            for name, value in wrong.items():
                broken[name].append(_rel(ours, value, 1.0))
    yield check(
        _worst(*errors),
        1e-12,
        _pooled(broken),
        draws=_split(draws, len(sizes)) * len(sizes),
        note="Relative to max(1, |L|); all eight rows of Table 1.",
    )


def _nce(inter: Array, intra: Array, tau: float, eps: float, positive: float = 1.0) -> Array:
    """Eq. 2 as printed, with naive exponentials; `positive` scales the exponent beside eps."""
    total = 0.0
    for i in range(inter.shape[-1]):
        others = sum(np.exp(-inter[..., i, j] / tau) for j in range(inter.shape[-1]) if j != i)
        near = np.exp(-intra[..., i] / tau)
        total = total + np.log(near / (eps * near**positive + others))
    return -tau * total


def eq2(draws: int, seed: int) -> Iterator[Check]:
    """InfoNCE is the (phi, psi) pair of Eq. 2; SimCLR is its eps = 1, and not eps = 0.

    Controls: eps not multiplied by exp(-d_i/tau), tau dropped in front, tau doubled; other eps.
    """
    check = partial(Check, "acl/eq2", draws=draws)
    rng, errors, names = _rng("eq2", seed), [], ("eps alone", "no tau in front", "tau doubled")
    broken: dict[str, list[Array]] = defaultdict(list)
    z, z2 = _views(rng, draws, 8, 4)
    inter, intra = _distances(z, z2)
    for tau in (0.1, 0.5, 1.0):
        for eps in (0.0, 0.3, 1.0):
            literal = _nce(inter, intra, tau, eps)
            errors.append(_rel(contrast.infonce(*_t(z, z2), tau, eps), literal, 1.0))
            wrong = [None, None, _nce(inter, intra, 2 * tau, eps)]
            if eps:  # at eps = 0 this control is no change
                wrong[0] = _nce(inter, intra, tau, eps, positive=0.0)
            if tau != 1:
                wrong[1] = literal / tau
            for name, value in zip(names, wrong, strict=True):
                if value is not None:
                    broken[name].append(_rel(value, literal, 1.0))
    yield check(
        _worst(*errors),
        1e-11,
        _least(broken),
        part="formula",
        note="Relative to max(1, |L|).",
    )

    z, z2 = _views(rng, draws, 8, 4, unit=True)
    cosine = z @ z.swapaxes(-1, -2)
    near = np.exp((z * z2).sum(-1) / 0.5)
    others = np.exp(_off(cosine) / 0.5).sum(-1)
    simclr = -0.5 * np.log(near / (near + others)).sum(-1)
    error = {
        eps: _rel(contrast.infonce(*_t(z, z2), 0.5, eps), simclr, 1.0) for eps in (0.0, 0.5, 1.0)
    }
    small = torch.eye(2, dtype=torch.float64)
    without, kept = (float(contrast.infonce(small, small, 1.0, e)) for e in (0.0, 1.0))
    yield check(
        _worst(error[0.0]),
        1e-11,
        {"eps = 1/2": _best(error[0.5])},
        part="SimCLR",
        note="SimCLR's loss on unit vectors, with first-view anchors and negatives, against "
        r"Eq. 2 with $\epsilon=0$. (The printed $\exp(-d_{ij}/\tau)$ missing from the "
        r"denominator must also read $\exp(-d_i/\tau)$.)",
        counterexample=r"$N=2$, $z[1]=z[1']=(1,0)$, $z[2]=z[2']=(0,1)$, $\tau=1$: SimCLR's "
        rf"denominator gives ${kept:.4g}$, $\epsilon=0$ gives ${without:.4g}$.",
    )
    yield check(
        _worst(error[1.0]),
        1e-11,
        {"eps = 0": _best(error[0.0]), "eps = 1/2": _best(error[0.5])},
        part="SimCLR",
        form="corrected",
        correction=r"SimCLR's denominator holds the positive pair, so it is $\epsilon=1$ (but for "
        r"its second-view negatives); $\epsilon=0$ is the decoupled loss of Yeh et al. (2021).",
    )


def _same(
    source: Callable,
    pair: losses.Pair,
    views: tuple[Array, Array],
    factor: float = 1.0,
    constant: float = 0.0,
    sphere: bool = False,
) -> Array:
    """Per draw: error of L = factor * source + constant, in value and in the gradient in z, z2.

    `sphere`: of both as functions of outputs that are normalised first.
    """
    inputs = _t(*views)

    def both(f: Callable) -> tuple[Array, Array]:
        def at(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return f(*(normalize(v, dim=-1) for v in (a, b))) if sphere else f(a, b)

        slopes = torch.func.grad(lambda a, b: at(a, b).sum(), argnums=(0, 1))(*inputs)
        return at(*inputs).numpy(), torch.cat(slopes, -1).numpy()

    value, slope = both(lambda a, b: contrast.family_loss(a, b, pair))
    theirs, their_slope = both(source)
    errors = _rel(factor * theirs + constant, value, 1.0), _rel(factor * their_slope, slope)
    return np.maximum(*errors)


def tab1(draws: int, seed: int) -> Iterator[Check]:
    """Each row of Table 1 against the loss of its own source, in value and gradient.

    Equal up to a stated factor and constant: InfoNCE, Triplet, Soft Triplet (one negative),
    Modified Triplet. On the unit sphere: N+1 Tuplet, Triplet Contrastive. After changes: MINE,
    Lifted Structured. Controls: constants not converted, the source's own form, another row.
    """
    check = partial(Check, "acl/tab1", draws=draws)
    rng, n, tau, margin, c = _rng("tab1", seed), 8, 0.5, 1.0, 2.0
    views = _views(rng, draws, n, 4)
    two = tuple(v[:, :2] for v in views)
    nce, mine, triplet, soft, tuplet, lifted, modified, linear = losses.table1(tau, 1.0, margin, c)
    line = torch.tensor([[0.0], [1.0], [3.0]], dtype=torch.float64)
    on_line = "Points $0,1,3$ on a line, both views equal: "

    def at_line(f: Callable | losses.Pair) -> str:
        pair = isinstance(f, losses.Pair)
        value = contrast.family_loss(line, line, f) if pair else f(line, line)
        return f"${float(value):.4g}$"

    def oord(a, b):
        return losses.source_infonce(a, b, tau)

    yield check(
        _worst(_same(oord, nce, views, tau)),
        1e-10,
        {"eps = 0": _best(_same(oord, losses.infonce_pair(tau, 0.0), views, tau))},
        part="InfoNCE",
        note=r"Exact with $\epsilon=1$ and scores $-d/\tau$; factor $\tau$.",
    )

    shift = n * np.log(n - 1)
    whole = _same(losses.source_mine, mine, views, n, shift)
    halved = tuple(v / 2 for v in views)
    other = _same(losses.source_mine_per_sample, nce, halved, 1, shift)
    yield check(
        _worst(whole),
        1e-10,
        {"the InfoNCE row": _best(other)},
        part="MINE",
        note="The source takes one logarithm, of the mean over all pairs of the batch.",
        counterexample=on_line
        + r"$N$ times the source's bound plus $N\log(N-1)$ is "
        + at_line(lambda a, b: 3 * losses.source_mine(a, b) + 3 * np.log(2))
        + f", the row {at_line(mine)}.",
    )
    yield check(
        _worst(_same(losses.source_mine_per_sample, mine, views, 1, shift)),
        1e-10,
        {"one log for the batch": _best(whole), "the InfoNCE row": _best(other)},
        part="MINE",
        form="corrected",
        correction="The row is the Donsker-Varadhan bound with a logarithm for each anchor, summed "
        r"over anchors (up to the constant $N\log(N-1)$).",
    )

    def hinge(a, b):
        return losses.source_triplet(a, b, 2 * margin)

    kept = _same(hinge, losses.triplet_pair(2 * margin), views, 0.5)
    yield check(
        _worst(_same(hinge, triplet, views, 0.5)),
        1e-10,
        {"margin not halved": float(np.median(kept))},
        part="Triplet",
        note=r"Exact with $\epsilon$ half the source's margin, factor 1/2: it does not halve d.",
    )

    def smooth(a, b):
        return losses.source_soft_triplet(a, b, tau, tau * margin)

    unscaled = _same(smooth, losses.soft_triplet_pair(tau, tau * margin), two)
    yield check(
        _worst(_same(smooth, soft, two)),
        1e-10,
        {
            "summed over 7 negatives": _best(_same(smooth, soft, views)),
            "margin not divided by tau": _best(unscaled),
        },
        part="Soft Triplet",
        note=r"Exact for the source's one negative an anchor ($N=2$), $\epsilon$ = margin$/\tau$; "
        "with more negatives the row puts them inside one logarithm.",
    )

    free = _same(losses.source_tuplet, tuplet, views)
    other = _same(losses.source_tuplet, nce, views, sphere=True)
    yield check(
        _worst(free),
        1e-10,
        {"the InfoNCE row": _best(_same(losses.source_tuplet, nce, views))},
        part="N+1 Tuplet",
        note="The source compares inner products.",
        counterexample=f"{on_line}inner products give {at_line(losses.source_tuplet)}, the row "
        f"{at_line(tuplet)}.",
    )
    yield check(
        _worst(_same(losses.source_tuplet, tuplet, views, sphere=True)),
        1e-10,
        {"norms free": _best(free), "the InfoNCE row": _best(other)},
        part="N+1 Tuplet",
        form="corrected",
        correction="Equal when all outputs have unit norm.",
    )

    def lift(squared: bool, both: bool) -> Array:
        return _same(
            partial(losses.source_lifted, margin=margin, squared=squared, both=both), lifted, views
        )

    published, one_change, other_change = lift(False, True), lift(True, True), lift(False, False)
    yield check(
        _worst(published),
        1e-10,
        {"squared distances": _best(one_change), "first member": _best(other_change)},
        part="Lifted Structured",
        note="The source uses unsquared distances and the negatives of both members of a pair.",
        counterexample=on_line
        + "the source gives "
        + at_line(lambda a, b: losses.source_lifted(a, b, margin))
        + f" (times twice the number of positive pairs), the row {at_line(lifted)}.",
    )
    yield check(
        _worst(lift(True, False)),
        1e-10,
        {"only squared distances": _best(one_change), "only first member": _best(other_change)},
        part="Lifted Structured",
        form="corrected",
        correction="Equal after two changes: squared half distances, and the negatives of the "
        "first member of each positive pair only.",
    )

    def sigmoid(cosine: bool = False) -> Callable:
        return partial(losses.source_modified_triplet, c=c, cosine=cosine)

    slower = losses.modified_triplet_pair(c / 2)
    yield check(
        _worst(
            _same(sigmoid(), modified, views), _same(sigmoid(True), modified, views, sphere=True)
        ),
        1e-10,
        {
            "cosine distances, norms free": _best(_same(sigmoid(True), modified, views)),
            "c halved": _best(_same(sigmoid(), slower, views)),
        },
        part="Modified Triplet",
        note="Exact on squared half distances; on cosine distances when outputs have unit norm.",
    )

    free = _same(losses.source_linear, linear, views, n - 1)
    yield check(
        _worst(free),
        1e-10,
        {"factor 1": _best(_same(losses.source_linear, linear, views))},
        part="Triplet Contrastive",
        note="The source compares inner products and adds a regulariser, left out here.",
        counterexample=r"$N=2$ on a line, $z=(0,1)$, $z'=(1,1)$: inner products give $-1$, the row "
        r"$-\frac12$.",
    )
    unscaled = _same(losses.source_linear, linear, views, sphere=True)
    yield check(
        _worst(_same(losses.source_linear, linear, views, n - 1, sphere=True)),
        1e-10,
        {"norms free": _best(free), "factor 1": _best(unscaled)},
        part="Triplet Contrastive",
        form="corrected",
        correction="Equal up to the factor $N-1$ when all outputs have unit norm (for the value "
        r"alone, $\sum_i\|z[i]\|^2=\sum_i\|z[i']\|^2$ is enough).",
    )

    def family(pair: losses.Pair) -> Array:
        return contrast.family_loss(*_t(*views), pair).numpy()

    right, wrong = (
        family(losses.infonce_pair(tau, float(np.exp(sign * margin)))) + n * tau * margin
        for sign in (-1, 1)
    )
    yield check(
        _worst(
            _rel(family(soft), right, 1.0),
            _rel(family(mine), family(losses.infonce_pair(1.0, 0.0)), 1.0),
            _rel(family(tuplet), family(losses.infonce_pair(1.0, 1.0)), 1.0),
        ),
        1e-12,
        {"sign of the margin": _best(_rel(family(soft), wrong, 1.0))},
        part="rows that coincide",
        note=r"Soft Triplet is InfoNCE with $e^{-\epsilon}$ in place of $\epsilon$ (plus a "
        r"constant), MINE is InfoNCE at $\epsilon=0,\tau=1$, N+1 Tuplet at $\epsilon=\tau=1$.",
    )
    yield from _shapes(_rows(tau, 1.0, margin, c), margin)


def _shapes(rows: list[Row], margin: float) -> Iterator[Check]:
    """Monotone and differentiable, for all sixteen functions of Table 1, on a grid.

    phi is taken as a function of log x, which changes neither property. Controls: a reversed
    function, |x|, the kink of Triplet.
    """
    check = partial(Check, "acl/tab1")
    grid = np.linspace(-6, 6, 4001)
    # Where a positive part switches.
    kinks = {("Triplet", "psi"): -margin, ("Lifted Structured", "phi"): 0.0}

    def jump(f: Callable, x: Array) -> Array:
        """Difference of the two one-sided slopes, each to second order."""
        h = 1e-5
        right = (-3 * f(x) + 4 * f(x + h) - f(x + 2 * h)) / (2 * h)
        left = (3 * f(x) - 4 * f(x - h) + f(x - 2 * h)) / (2 * h)
        return np.abs(right - left) / np.maximum(1.0, np.abs(right))

    drop, smooth, at_kinks = -np.inf, 0.0, 0.0
    for name, phi, psi in rows:
        for which, f in (("phi", lambda t, f=phi: f(np.exp(t))), ("psi", psi)):
            drop = max(drop, float(-np.diff(f(grid)).min()))
            kink = kinks.get((name, which), np.inf)
            smooth = max(smooth, float(jump(f, grid)[np.abs(grid - kink) > 1e-3].max()))
            if np.isfinite(kink):
                at_kinks = max(at_kinks, float(jump(f, np.array([kink]))[0]))
    absolute = float(jump(np.abs, np.zeros(1))[0])
    yield check(
        drop,
        1e-12,
        {"psi(-x) in place of psi(x)": float(np.diff(np.exp(grid)).max())},
        part="monotone",
        note="Largest decrease of any of the sixteen functions along a grid. Only weakly monotone: "
        r"Triplet's $\psi$ and Lifted Structured's $\phi$ are constant on half-lines.",
    )
    yield check(
        max(smooth, at_kinks),
        1e-3,
        {"|x| at 0": absolute},
        part="differentiable",
        note="Largest gap between the slopes from the left and from the right.",
        counterexample=r"Triplet: $\psi(x)=[x+\epsilon]_+$ has slopes 0 and 1 at $x=-\epsilon$.",
    )
    yield check(
        smooth,
        1e-3,
        {"Triplet's kink": at_kinks, "|x| at 0": absolute},
        part="differentiable",
        form="corrected",
        correction=r"All are differentiable except Triplet's $\psi$ at $x=-\epsilon$, which "
        "generic batches do not meet.",
    )


def eq4(draws: int, seed: int) -> Iterator[Check]:
    """alpha_ij of Eq. 4 is -dL/dd_ij, its row sum is dL/dd_i, and it is not negative.

    Controls: phi' dropped, d_ij - d_i in place of d_i - d_ij, the pair j = i kept in the sum.
    """
    rng = _rng("eq4", seed)
    inter, intra = 4 * rng.random((draws, 6, 6)), 4 * rng.random((draws, 6))
    off = ~np.eye(6, dtype=bool)
    alphas, betas, least = [], [], []
    for (_, phi, psi), pair in zip(_rows(), losses.table1(), strict=True):
        ours = contrast.importance_of_distances(*_t(inter, intra), pair)
        by_inter = -_gradient(lambda x, f=phi, g=psi: _loss(x, intra, f, g), inter) * off
        by_intra = _gradient(lambda x, f=phi, g=psi: _loss(inter, x, f, g), intra)
        alphas.append(_rel(ours, by_inter, 1.0))
        alphas.append(
            _rel(contrast.importance_by_autograd(*_t(inter, intra), pair)[0], by_inter, 1.0)
        )
        betas.append(_rel(contrast.row_mass(ours), by_intra, 1.0))
        least.append(ours.numpy().min())
        if pair.name == "InfoNCE":
            gaps = intra[..., None] - inter
            full = psi(gaps).sum(-1, keepdims=True)
            flipped = (psi(-gaps) * off).sum(-1, keepdims=True)
            broken = {
                "phi' dropped": _slope(psi, gaps) * off,
                "sign of the gap": _slope(phi, flipped) * _slope(psi, -gaps) * off,
                "j = i kept": _slope(phi, full) * _slope(psi, gaps) * off,
            }
            control = {name: _best(_rel(value, by_inter, 1.0)) for name, value in broken.items()}
            wrong_beta = _rel(contrast.row_mass(ours.transpose(-1, -2)), by_intra, 1.0)
    check = partial(Check, "acl/eq4", draws=draws)
    yield check(
        _worst(*alphas),
        1e-8,
        control,
        part="alpha",
        note="Eight rows of Table 1; relative to the larger of 1 and the largest weight.",
    )
    yield check(_worst(*betas), 1e-8, {"column sums": _best(wrong_beta)}, part="beta")
    decreasing = losses.Pair(
        "", lambda x: x, lambda x: -x, torch.ones_like, lambda x: -torch.ones_like(x)
    )
    negative = contrast.importance_of_distances(*_t(inter, intra), decreasing)
    yield check(
        float(min(least)),
        0.0,
        {"a decreasing psi": float(negative.min())},
        relation=">=",
        part="sign",
    )


def eq5(draws: int, seed: int) -> Iterator[Check]:
    """C_alpha[a, b] as matrix products equals the double loop; it is bilinear, C[a, a] symmetric.

    Controls: the second term added, alpha transposed, 1/2 in front; a nonlinear map of a.
    """
    check = partial(Check, "acl/eq5", draws=draws)
    rng = _rng("eq5", seed)
    alpha = _weights(rng, draws, 7, 7)
    a, a2 = _views(rng, draws, 7, 3)
    b, b2 = _views(rng, draws, 7, 4)
    loops = _covariance(alpha, a, a2, b, b2)
    ours = contrast.contrastive_covariance(*_t(alpha, a, a2, b, b2)).numpy()
    swapped = contrast.contrastive_covariance(*_t(alpha.swapaxes(-1, -2), a, a2, b, b2))
    yield check(
        _worst(_rel(ours, loops)),
        1e-12,
        {
            "second term added": _best(_rel(ours, _covariance(alpha, a, a2, b, b2, sign=-1))),
            "alpha transposed": _best(_rel(swapped, loops)),
            "1/2 in front": _best(_rel(ours / 2, loops)),
        },
        part="formula",
    )
    w = rng.standard_normal((draws, 5, 3))
    turn = w.swapaxes(-1, -2)
    mapped = contrast.contrastive_covariance(*_t(alpha, a @ turn, a2 @ turn, b, b2))
    bent = contrast.contrastive_covariance(*_t(alpha, np.tanh(a @ turn), np.tanh(a2 @ turn), b, b2))
    yield check(
        _worst(_rel(mapped, w @ loops)),
        1e-12,
        {"tanh of W a": _best(_rel(bent, w @ loops))},
        part="bilinear",
    )
    square = contrast.contrastive_covariance(*_t(alpha, a, a2, a, a2)).numpy()
    mixed = contrast.contrastive_covariance(*_t(alpha, a, a2, b[..., :3], b2[..., :3])).numpy()
    yield check(
        _worst(_rel(square, square.swapaxes(-1, -2))),
        1e-12,
        {"C[a, b], b another variable": _best(_rel(mixed, mixed.swapaxes(-1, -2)))},
        part="symmetric",
        note=r"$\mathbb C_\alpha[a]$ is symmetric although $\alpha$ is not.",
    )


# ------------------------------------------------------------------------ Theorem 1 and its proof

_WIDTHS = (4, 5, 3)


def _act(name: str, x):
    if name == "tanh":
        return np.tanh(x) if isinstance(x, np.ndarray) else torch.tanh(x)
    if name == "relu":
        return _plus(x) if isinstance(x, np.ndarray) else torch.relu(x)
    return x


def _net(theta, x, name: str, widths: tuple[int, ...] = _WIDTHS):
    """A bias-free net on x [..., n, p]; theta: [..., parameters], numpy or torch alike."""
    start, last = 0, len(widths) - 2
    for layer, (rows, columns) in enumerate(pairwise(widths)):
        w = theta[..., start : start + rows * columns].reshape(*theta.shape[:-1], rows, columns)
        x = x @ w
        x = x if layer == last else _act(name, x)
        start += rows * columns
    return x


def _parameters(rng: np.random.Generator, draws: int, widths: tuple[int, ...]) -> Array:
    parts = [
        rng.standard_normal((draws, rows * columns)) / np.sqrt(rows)
        for rows, columns in pairwise(widths)
    ]
    return np.concatenate(parts, -1)


def thm1(draws: int, seed: int) -> Iterator[Check]:
    """dL/dtheta = -1/2 dE_alpha/dtheta with alpha held at alpha(theta), through random nets.

    Left: complex steps in theta through numpy. Right: autograd of the energy, alpha from Eq. 4 in
    numpy. Controls: alpha off by 1%, gradient through alpha, factor 1, alpha of other parameters.
    """
    check = partial(Check, "acl/thm1", draws=draws)
    rng, errors = _rng("thm1", seed), []
    broken: dict[str, list[Array]] = defaultdict(list)
    nets = [("linear", (4, 5, 3)), ("tanh", (4, 5, 4, 3)), ("relu", (5, 6, 4))]
    count = _split(draws, len(nets) * len(TAUS))
    for k, (name, widths) in enumerate(nets):
        for tau in TAUS:
            n = 4 + 2 * k
            x, x2 = _views(rng, count, n, widths[0])
            theta = _parameters(rng, count, widths)
            size = theta.shape[-1]
            steps = theta + 1e-30j * np.eye(size)[:, None, :]
            moved = _distances(_net(steps, x, name, widths), _net(steps, x2, name, widths))
            inter, intra = (m[0].real for m in moved)
            tx, tx2, t_theta = _t(x, x2, theta)

            def ascent(alpha, tx=tx, tx2=tx2, t_theta=t_theta, name=name, widths=widths):
                def total(t):
                    z, z2 = _net(t, tx, name, widths), _net(t, tx2, name, widths)
                    a = alpha(z, z2) if callable(alpha) else alpha
                    return contrast.energy(a, z, z2).sum()

                return -0.5 * torch.func.grad(total)(t_theta).numpy()

            for (row, phi, psi), pair in zip(_rows(tau), losses.table1(tau), strict=True):
                left = np.moveaxis(_loss(*moved, phi, psi).imag / 1e-30, 0, -1)
                alpha = _alpha(inter, intra, phi, psi)
                right = ascent(*_t(alpha))
                errors.append(_rel(right, left))
                if row == "InfoNCE":
                    off = 1 + 0.01 * np.sign(rng.standard_normal(alpha.shape))
                    other = np.roll(alpha, 1, axis=-1) * ~np.eye(n, dtype=bool)
                    through = ascent(lambda z, z2, p=pair: contrast.pairwise_importance(z, z2, p))
                    broken["alpha off by 1%"].append(_rel(ascent(*_t(alpha * off)), left))
                    broken["through alpha"].append(_rel(through, left))
                    broken["factor 1"].append(_rel(2 * right, left))
                    broken["alpha of another theta"].append(_rel(ascent(*_t(other)), left))
    yield check(
        _worst(*errors),
        1e-7,
        _least(broken),
        draws=count * 9,
        note=r"All rows of Table 1; linear, tanh and ReLU nets; $\tau$ in {0.1, 0.5, 2}.",
    )


def eq23(draws: int, seed: int) -> Iterator[Check]:
    """-dL/dtheta = C_alpha[dz/dtheta, z^T], dE_alpha/dtheta is twice that, scalars commute.

    Per-sample Jacobians by complex steps put into Eq. 5 by loops, against autograd of L and E.
    Controls: the augmentation term dropped, factor 1, vectors in place of scalars.
    """
    rng, n, widths = _rng("eq23", seed), 6, (4, 4, 3)
    x, x2 = _views(rng, draws, n, 4)
    theta = _parameters(rng, draws, widths)
    steps = theta + 1e-30j * np.eye(theta.shape[-1])[:, None, :]
    z, z2 = _net(theta, x, "tanh", widths), _net(theta, x2, "tanh", widths)
    jacobian, jacobian2 = (_net(steps, v, "tanh", widths).imag / 1e-30 for v in (x, x2))
    _, phi, psi = _rows()[0]
    alpha = _alpha(*_distances(z, z2), phi, psi)

    def loops(second: float) -> Array:
        """C_alpha[dz/dtheta, z^T]: [parameters, draws]."""
        total = 0.0
        for i in range(n):
            beta = alpha[:, i].sum(-1)
            inner = (jacobian[..., i, :] - jacobian2[..., i, :]) * (z[:, i] - z2[:, i])
            total = total - second * beta * inner.sum(-1)
            for j in range(n):
                inner = (jacobian[..., i, :] - jacobian[..., j, :]) * (z[:, i] - z[:, j])
                total = total + alpha[:, i, j] * inner.sum(-1)
        return total

    tx, tx2, t_theta, t_alpha = _t(x, x2, theta, alpha)
    pair = losses.infonce_pair()

    def of_theta(f: Callable) -> Array:
        def total(t):
            return f(_net(t, tx, "tanh", widths), _net(t, tx2, "tanh", widths)).sum()

        return torch.func.grad(total)(t_theta).numpy()

    c = loops(1.0).T
    loss = of_theta(lambda a, b: contrast.family_loss(a, b, pair))
    power = of_theta(lambda a, b: contrast.energy(t_alpha, a, b))
    check = partial(Check, "acl/eq23", draws=draws)
    yield check(
        _worst(_rel(-loss, c)),
        1e-6,
        {
            "augmentation term dropped": _best(_rel(-loss, loops(0.0).T)),
            "sign": _best(_rel(loss, c)),
        },
        part="loss",
    )
    yield check(
        _worst(_rel(power, 2 * c)), 1e-6, {"factor 1": _best(_rel(power, c))}, part="energy"
    )
    weights = _weights(rng, draws, n, n)
    one, two = _covariance(weights, z, z2, x, x2), _covariance(weights, x, x2, z, z2)
    scalars = _rel(one[:, :1, :1], two[:, :1, :1])
    yield check(
        _worst(scalars),
        1e-12,
        {"vectors, no transpose": _best(_rel(one[:, :3, :3], two[:, :3, :3]))},
        part="scalars commute",
    )


def _loss_gradients(z: Array, z2: Array, phi: Callable, psi: Callable) -> tuple[Array, Array]:
    """(dL/dz, dL/dz2) by complex steps through the loops of Eq. 1."""

    def loss(a: Array, b: Array) -> Array:
        return _loss(*_distances(a, b), phi, psi)

    return _gradient(lambda a: loss(a, z2), z), _gradient(lambda b: loss(z, b), z2)


def lem5(draws: int, seed: int) -> Iterator[Check]:
    """sum_i dL/dz[i] A[i]^T + dL/dz[i'] A[i']^T = -C_alpha[z, A], and its mirror image.

    A runs over vectors (first form) and matrices (second form). alpha_ii is arbitrary.
    Controls: the second-view term dropped, the sign, alpha_ii counted in beta.
    """
    rng, n = _rng("lem5", seed), 7
    z, z2 = _views(rng, draws, n, 3)
    a, a2 = rng.standard_normal((2, draws, n, 4))
    _, phi, psi = _rows()[0]
    g, g2 = _loss_gradients(z, z2, phi, psi)
    alpha = _alpha(*_distances(z, z2), phi, psi)
    first = g.swapaxes(-1, -2) @ a
    left = first + g2.swapaxes(-1, -2) @ a2
    right = -contrast.contrastive_covariance(*_t(alpha, z, z2, a, a2)).numpy()
    check = partial(Check, "acl/lem5", draws=draws)
    yield check(
        _worst(_abs(left, right)),
        1e-7,
        {"second view dropped": _best(_abs(first, right)), "sign": _best(_abs(left, -right))},
        part="z, A",
    )
    # Second form, with a 4 x 3 matrix A[i] a sample: sum_i A[i] dL/dz[i] + A[i'] dL/dz[i'].
    m, m2 = rng.standard_normal((2, draws, n, 4, 3))
    left = (m @ g[..., None] + m2 @ g2[..., None]).sum(1)[..., 0]
    right = 0.0
    for i in range(n):
        beta = alpha[:, i].sum(-1)[:, None]
        right = right + beta * ((m[:, i] - m2[:, i]) @ (z[:, i] - z2[:, i])[..., None])[..., 0]
        for j in range(n):
            step = (m[:, i] - m[:, j]) @ (z[:, i] - z[:, j])[..., None]
            right = right - alpha[:, i, j, None] * step[..., 0]
    yield check(_worst(_abs(left, right)), 1e-7, {"sign": _best(_abs(left, -right))}, part="A, z^T")
    diagonal = alpha + rng.random((draws, n))[..., None] * np.eye(n)

    def both_sums(weights: Array, beta: Array) -> Array:
        total = 0.0
        for i in range(n):
            near = (z[:, i] - z2[:, i])[..., :, None] * (a[:, i] - a2[:, i])[..., None, :]
            total = total - beta[:, i, None, None] * near
            for j in range(n):
                far = (z[:, i] - z[:, j])[..., :, None] * (a[:, i] - a[:, j])[..., None, :]
                total = total + weights[:, i, j, None, None] * far
        return total

    plain = both_sums(alpha, alpha.sum(-1))
    yield check(
        _worst(_abs(both_sums(diagonal, alpha.sum(-1)), plain)),
        1e-7,
        {"alpha_ii in beta": _best(_abs(both_sums(diagonal, diagonal.sum(-1)), plain))},
        part="any alpha_ii",
        note=r"With $i,j$ over all pairs; $\beta_i$ still leaves $j=i$ out.",
    )


def eq88(draws: int, seed: int) -> Iterator[Check]:
    """The gradient of L in z[i] and z[i'] in closed form, for all rows of Table 1.

    Controls: z[i] in place of z[i'], the alpha_ji term dropped, alpha not transposed there.
    """
    rng, n = _rng("eq88", seed), 6
    z, z2 = _views(rng, draws, n, 3)
    distances = _distances(z, z2)
    errors, broken, seconds, wrong_seconds = [], {}, [], []

    def closed(alpha: Array, centre: Array, back: Array) -> Array:
        pull = alpha @ z - alpha.sum(-1, keepdims=True) * centre
        return pull + back @ z - back.sum(-1, keepdims=True) * z

    for name, phi, psi in _rows():
        alpha = _alpha(*distances, phi, psi)
        g, g2 = _loss_gradients(z, z2, phi, psi)
        turned = alpha.swapaxes(-1, -2)
        errors.append(_rel(closed(alpha, z2, turned), g, 1.0))
        second = alpha.sum(-1, keepdims=True) * (z2 - z)
        seconds.append(_rel(second, g2, 1.0))
        if name == "InfoNCE":
            broken = {
                "z[i] for z[i']": _best(_rel(closed(alpha, z, turned), g, 1.0)),
                "no alpha_ji term": _best(_rel(closed(alpha, z2, 0 * turned), g, 1.0)),
                "alpha_ij for alpha_ji": _best(_rel(closed(alpha, z2, alpha), g, 1.0)),
            }
            wrong_seconds = [_rel(turned.sum(-1, keepdims=True) * (z2 - z), g2, 1.0)]
    check = partial(Check, "acl/eq88", draws=draws)
    yield check(_worst(*errors), 1e-8, broken, part="first view")
    yield check(
        _worst(*seconds), 1e-8, {"column sums for beta": _best(*wrong_seconds)}, part="second view"
    )


def eq6(draws: int, seed: int) -> Iterator[Check]:
    """InfoNCE with eps = 0: alpha is a softmax of -d_ij/tau, rows sum to 1, d_i plays no part.

    Controls: tau doubled, eps = 1, linear psi.
    """
    rng = _rng("eq6", seed)
    z, z2 = _views(rng, draws, 8, 3)
    other = z + 0.5 * rng.standard_normal(z.shape)
    inter, intra = _distances(z, z2)
    off = ~np.eye(8, dtype=bool)
    errors, sums, moved, order = [], [], [], []
    broken: dict[str, list[Array]] = defaultdict(list)
    for tau in (0.05, 0.1, 0.5, 2.0):
        naive = np.exp(-inter / tau) * off
        printed = naive / naive.sum(-1, keepdims=True)
        definition = _alpha(inter, intra, *_rows(tau, 0.0)[0][1:])
        pair, kept = losses.infonce_pair(tau, 0.0), losses.infonce_pair(tau, 1.0)
        ours = contrast.pairwise_importance(*_t(z, z2), pair)
        errors += [_rel(printed, definition), _rel(ours, printed)]
        sums.append(_abs(ours.sum(-1), np.ones(z.shape[:2])))
        moved.append(_rel(contrast.pairwise_importance(*_t(z, other), pair), ours))
        slower = np.exp(-inter / (2 * tau)) * off
        one = contrast.pairwise_importance(*_t(z, z2), kept)
        broken["2 tau"].append(_rel(slower / slower.sum(-1, keepdims=True), definition))
        broken["eps = 1"].append(_rel(one, definition))
        broken["sums"].append(_abs(one.sum(-1), np.ones(z.shape[:2])))
        broken["moved"].append(_rel(contrast.pairwise_importance(*_t(z, other), kept), one))
        order.append(_disorder(ours.numpy(), inter))
    flat = contrast.pairwise_importance(*_t(z, z2), losses.linear_pair()).numpy()
    check = partial(Check, "acl/eq6", draws=draws)
    yield check(
        _worst(*errors),
        1e-8,
        {"tau doubled": _best(*broken["2 tau"]), "eps = 1": _best(*broken["eps = 1"])},
        part="formula",
    )
    yield check(_worst(*sums), 1e-12, {"eps = 1": _best(*broken["sums"])}, part="beta = 1")
    yield check(
        _worst(*moved),
        1e-12,
        {"eps = 1": _best(*broken["moved"])},
        part="no d_i",
        note="Change of alpha when the second views are replaced.",
    )
    yield check(
        float(sum(order)),
        0.0,
        {"linear psi": float(_disorder(flat, inter))},
        part="close pairs first",
        note="Neighbours in a row's order of distance whose weights do not strictly fall, or are "
        "not positive.",
    )


def _disorder(alpha: Array, inter: Array) -> int:
    """How many neighbours in the order of d_ij do not have strictly falling positive alpha_ij."""
    order = np.argsort(_off(inter), -1)
    sorted_alpha = np.take_along_axis(_off(alpha), order, -1)
    return int((np.diff(sorted_alpha, axis=-1) >= 0).sum() + (sorted_alpha <= 0).sum())


def eq33(draws: int, seed: int) -> Iterator[Check]:
    """General InfoNCE: both printed forms of alpha, and -dL_nce/dd_ij, agree.

    Controls: phi' = 1/(x + eps), eps not multiplied by exp(-d_i/tau), the sign of the gap.
    """
    check = partial(Check, "acl/eq33", draws=draws)
    rng = _rng("eq33", seed)
    z, z2 = _views(rng, draws, 8, 3)
    inter, intra = _distances(z, z2)
    off, near = ~np.eye(8, dtype=bool), intra[..., None]
    errors = []
    broken: dict[str, list[Array]] = defaultdict(list)
    for tau in (0.2, 0.5, 1.0):
        for eps in (0.01, 0.3, 1.0, 5.0):
            gaps = np.exp((near - inter) / tau) * off
            first = gaps / (eps + gaps.sum(-1, keepdims=True))
            far = np.exp(-inter / tau) * off
            second = far / (eps * np.exp(-near / tau) + far.sum(-1, keepdims=True))
            slope = -_gradient(lambda x, t=tau, e=eps: _nce(x, intra, t, e), inter) * off
            ours = contrast.pairwise_importance(*_t(z, z2), losses.infonce_pair(tau, eps))
            errors += [_rel(v, slope) for v in (first, second, ours)]
            back = np.exp((inter - near) / tau) * off
            wrong = {
                "eps alone": far / (eps + far.sum(-1, keepdims=True)),
                "sign of the gap": back / (eps + back.sum(-1, keepdims=True)),
            }
            if tau != 1:
                wrong["tau missing"] = first / tau
            for name, value in wrong.items():
                broken[name].append(_rel(value, slope))
    yield check(_worst(*errors), 1e-7, _least(broken))


def num1(draws: int, seed: int) -> Iterator[Check]:
    """Linear phi and psi: L is a difference of distances, alpha is constant.

    Controls: phi = x^2, psi = exp; the positive distances dropped.
    """
    rng = _rng("num1", seed)
    values, alphas, moved, wrong_values, wrong_alphas, wrong_moved = ([] for _ in range(6))
    sizes = (2, 3, 6, 10)
    for n in sizes:
        count = _split(draws, len(sizes))
        z, z2 = _views(rng, count, n, 3)
        a, b = (float(v) for v in rng.random(2) + 0.5)
        inter, intra = _distances(z, z2)
        gap = (n - 1) * intra.sum(-1) - inter.sum((-1, -2))
        pair = losses.linear_pair(a, b)
        tz = _t(z, z2)
        values.append(_rel(contrast.family_loss(*tz, pair), a * b * gap, 1.0))
        wrong_values.append(
            _rel(contrast.family_loss(*tz, pair), -a * b * inter.sum((-1, -2)), 1.0)
        )
        constant = np.broadcast_to(a * b * ~np.eye(n, dtype=bool), inter.shape)
        alphas.append(_rel(contrast.importance_by_autograd(*_t(inter, intra), pair)[0], constant))
        bent = losses.Pair("", lambda x: x, torch.exp, torch.ones_like, torch.exp)
        squared = losses.Pair("", torch.square, lambda x: x, lambda x: 2 * x, torch.ones_like)
        curved = [contrast.importance_by_autograd(*_t(inter, intra), p)[0] for p in (bent, squared)]
        wrong_alphas.append([_best(_rel(c, constant)) for c in curved])
        fresh = _t(*_views(rng, count, n, 3))
        moved.append(
            _rel(
                contrast.pairwise_importance(*fresh, pair), contrast.pairwise_importance(*tz, pair)
            )
        )
        wrong_moved.append(
            _rel(
                contrast.pairwise_importance(*fresh, bent), contrast.pairwise_importance(*tz, bent)
            )
        )
    check = partial(Check, "acl/num1", draws=_split(draws, len(sizes)) * len(sizes))
    yield check(
        _worst(*values), 1e-12, {"positive distances dropped": _best(*wrong_values)}, part="loss"
    )
    yield check(
        _worst(*alphas, *moved),
        1e-12,
        {
            "psi = exp": min(w[0] for w in wrong_alphas),
            "phi = x^2": min(w[1] for w in wrong_alphas),
            "psi = exp, other batch": _best(*wrong_moved),
        },
        part="alpha",
        note="alpha = ab at every pair, and the same for another batch.",
    )


def eq27(draws: int, seed: int) -> Iterator[Check]:
    """E_alpha = sum alpha_ij (|z_i - z_j|^2 - |z_i - z_i'|^2) = 2 sum alpha_ij (d_ij - d_i).

    Hence it is linear in alpha. Controls: factor 1, the second term added, E - R_H in place of E.
    """
    rng, n = _rng("eq27", seed), 9
    z, z2 = _views(rng, draws, n, 4)
    alpha, other = _weights(rng, draws, n, n), _weights(rng, draws, n, n)
    trace = np.trace(_covariance(alpha, z, z2, z, z2), axis1=-2, axis2=-1)
    inter, intra = _distances(z, z2)
    middle = sum(
        alpha[:, i, j] * (((z[:, i] - z[:, j]) ** 2).sum(-1) - ((z[:, i] - z2[:, i]) ** 2).sum(-1))
        for i in range(n)
        for j in range(n)
        if i != j
    )
    ours = contrast.energy(*_t(alpha, z, z2)).numpy()
    scale = float(np.abs(trace).mean())
    wrong = 2 * (alpha * (inter + intra[..., None])).sum((-1, -2))
    check = partial(Check, "acl/eq27", draws=draws)
    yield check(
        _worst(_rel(middle, trace, scale), _rel(ours, trace, scale)),
        1e-12,
        {
            "factor 1": _best(_rel(ours / 2, trace, scale)),
            "second term added": _best(_rel(wrong, trace, scale)),
        },
        part="energy",
        note="Relative to the mean size of E.",
    )

    def power(weights: Array, regularised: bool = False) -> Array:
        value = contrast.energy(*_t(weights, z, z2)).numpy()
        off = _off(weights)
        return value + (off * np.log(off)).sum((-1, -2)) if regularised else value

    s, t = 0.7, 1.9

    def bend(regularised: bool) -> Array:
        mixed = power(s * alpha + t * other, regularised)
        return _rel(s * power(alpha, regularised) + t * power(other, regularised), mixed, scale)

    yield check(_worst(bend(False)), 1e-12, {"E - R_H": _best(bend(True))}, part="linear in alpha")


# -------------------------------------------------------------------------------- the min player


def _phis(tau: float) -> dict[str, Callable[[Array], Array]]:
    return {
        "tau log(1/2 + x)": lambda x: tau * np.log(0.5 + x),
        "log(1 + x)": lambda x: np.log(1 + x),
        "x^2": lambda x: x**2,
        "sqrt x": np.sqrt,
    }


def thm2(draws: int, seed: int) -> Iterator[Check]:
    """For psi = exp(x/tau), alpha of Eq. 4 minimises E_alpha - R_H over its own row sums.

    Eq. 4 by complex steps against a Newton solver (all draws), SLSQP (a few rows) and random
    feasible points. Controls: psi = sigmoid(x/tau), entropy without the factor 2, 1/tau left out
    of the row sums.
    """
    rng, n, taus = _rng("thm2", seed), 6, (0.2, 0.5, 1.0)
    solved, kkt, excess, slsqp = [], [], [], []
    broken: dict[str, list[Array]] = defaultdict(list)
    count = _split(draws, len(taus))
    for tau in taus:
        z, z2 = _views(rng, count, n, 3)
        inter, intra = _distances(z, z2)
        c = _off(2 * (inter - intra[..., None]))
        for phi in _phis(tau).values():
            alpha, wrong = (
                _off(_alpha(inter, intra, phi, psi))
                for psi in (
                    lambda x, t=tau: np.exp(x / t),
                    lambda x, t=tau: 1 / (1 + np.exp(-x / t)),
                )
            )
            xi = np.exp(-c / (2 * tau)).sum(-1)
            mass = xi * _slope(phi, xi) / tau
            start = rng.dirichlet(np.ones(n - 1), xi.shape) + 1e-3
            best = _entropy_newton(c, mass, 2 * tau, start)
            solved.append(_rel(best, alpha))
            broken["R_H halved"].append(_rel(_entropy_newton(c, mass, tau, start), alpha))
            if tau != 1:
                broken["row sums times tau"].append(
                    _rel(_entropy_newton(c, mass * tau, 2 * tau, start), alpha)
                )
            # psi = sigmoid, given its own row sums: the best the entropy can do still differs.
            broken["psi = sigmoid"].append(
                _rel(_entropy_newton(c, wrong.sum(-1), 2 * tau, start), wrong)
            )

            def spread(weights: Array, c: Array = c, tau: float = tau) -> Array:
                force = c + 2 * tau * (np.log(weights) + 1)
                return (force.max(-1) - force.min(-1)).max(-1)

            kkt.append(spread(alpha))
            broken["kkt"].append(spread(wrong))

            def objective(weights: Array, c: Array = c, tau: float = tau) -> Array:
                return (c * weights + 2 * tau * weights * np.log(weights)).sum(-1)

            points = rng.dirichlet(np.ones(n - 1), (20, *xi.shape)) + 1e-12
            points = points * (mass / points.sum(-1))[..., None]
            excess.append((objective(points) - objective(alpha)) / mass)
            low = alpha * np.exp(0.01 * rng.standard_normal(alpha.shape))
            low = low * (mass / low.sum(-1))[..., None]  # 1% off: something feasible beats it
            broken["excess"].append((objective(alpha) - objective(low)) / mass)
            for k in range(min(count, 2)):
                row = _slsqp(
                    c[k, 0],
                    mass[k, 0],
                    lambda a, t=tau: -2 * t * a * np.log(a),
                    lambda a, t=tau: -2 * t * (np.log(a) + 1),
                    rng.random(n - 1) + 0.1,
                )
                slsqp.append(_rel(row[None], alpha[k, :1]))
    check = partial(Check, "acl/thm2", draws=count * len(taus))
    phis = r"$\phi$ in {$\tau\log(\epsilon+x)$, $\log(1+x)$, $x^2$, $\sqrt x$}."
    yield check(
        _worst(*solved, *slsqp),
        1e-5,
        {k: _typical(*broken[k]) for k in ("psi = sigmoid", "R_H halved", "row sums times tau")},
        part="minimiser",
        note=phis,
    )
    yield check(
        _worst(*kkt),
        1e-8,
        {"psi = sigmoid": _typical(*broken["kkt"])},
        part="stationarity",
        note=r"Spread over $j$ of $c_{ij}+2\tau(\log\alpha_{ij}+1)$.",
    )
    yield check(
        _best(*excess),
        0.0,
        {"a point 1% away": -_typical(*(-e for e in broken["excess"]))},
        relation=">=",
        part="lowest",
        note="How far the objective at random feasible points lies above its value at Eq. 4, per "
        "unit of mass.",
    )


def num2(draws: int, seed: int) -> Iterator[Check]:
    """InfoNCE's row sums are xi/(xi + eps): separated samples are discounted, unless eps = 0.

    Controls: eps doubled; eps = 0 on the same path of a sample that moves away.
    """
    rng = _rng("num2", seed)
    z, z2 = _views(rng, draws, 8, 3)
    inter, intra = _distances(z, z2)
    errors, wrong = [], []
    for tau in (0.2, 0.5, 1.0):
        for eps in (0.0, 0.3, 1.0):
            xi = np.exp(_off(intra[..., None] - inter) / tau).sum(-1)
            ours = contrast.row_mass(
                contrast.pairwise_importance(*_t(z, z2), losses.infonce_pair(tau, eps))
            )
            errors.append(_abs(ours, xi / (xi + eps)))
            if eps:
                wrong.append(_abs(ours, xi / (xi + 2 * eps)))
    check = partial(Check, "acl/num2", draws=draws)
    yield check(_worst(*errors), 1e-12, {"eps doubled": _best(*wrong)}, part="row sums")
    # Sample 0 starts outside the others, moves away by factors 1, 2, 4, 8 and pulls its views
    # together by the same factors.
    direction = z[:, 0] / np.linalg.norm(z[:, 0], axis=-1, keepdims=True)
    radius = 0.5 + np.linalg.norm(z, axis=-1).max(-1, keepdims=True)
    masses: dict[float, list[Array]] = {0.0: [], 1.0: []}
    for factor in (1, 2, 4, 8):
        a, b = z.copy(), z2.copy()
        a[:, 0] = factor * radius * direction
        b[:, 0] = a[:, 0] + (z2[:, 0] - z[:, 0]) / factor
        for eps, path in masses.items():
            alpha = contrast.pairwise_importance(*_t(a, b), losses.infonce_pair(2.0, eps))
            path.append(contrast.row_mass(alpha)[:, 0].numpy())
    ratio = {
        eps: np.stack([after / before for before, after in pairwise(path)])
        for eps, path in masses.items()
    }
    yield check(
        _worst(ratio[1.0]),
        0.999,
        {"eps = 0": _best(ratio[0.0])},
        part="discount",
        note="Largest ratio of a sample's row sum to the one before, as it moves away.",
    )


def lem6(draws: int, seed: int) -> Iterator[Check]:
    """min c.p - tau H(p) at row sum x0 phi'(x0)/tau is exp(-c/tau) phi'(x0)/tau.

    Theorem 2 applies it with c_ij = 2 (d_ij - d_i), which does not give Eq. 30; d_ij - d_i does.
    Controls: 2 tau in the exponent, 1/tau left out, phi' at another point.
    """
    check = partial(Check, "acl/lem6", draws=draws)
    rng, errors = _rng("lem6", seed), []
    names = ("2 tau in the exponent", "no 1/tau", "phi' at x0/2")
    broken: dict[str, list[Array]] = defaultdict(list)
    sizes = (2, 3, 5, 10)
    count = _split(draws, len(sizes))
    for n in sizes:
        c = rng.standard_normal((count, n))
        for tau in (0.2, 0.5, 1.7):
            slopes = (lambda x, t=tau: t / (0.3 + x), lambda x: 1 / (1 + x), lambda x: 2 * x)
            for k, slope in enumerate(slopes):
                x0 = np.exp(-c / tau).sum(-1)
                mass = x0 * slope(x0) / tau
                closed = np.exp(-c / tau) * slope(x0)[:, None] / tau
                start = rng.dirichlet(np.ones(n), count) + 1e-3
                solved = _entropy_newton(c, mass, tau, start)
                errors.append(_rel(solved, closed))
                wide = np.exp(-c / (2 * tau))
                broken[names[0]].append(_rel(wide * slope(wide.sum(-1))[:, None] / tau, solved))
                broken[names[1]].append(_rel(closed * tau, solved))
                broken[names[2]].append(
                    _rel(np.exp(-c / tau) * slope(x0 / 2)[:, None] / tau, solved)
                )
                if k == 0:
                    row = _slsqp(
                        c[0],
                        mass[0],
                        lambda p, t=tau: -t * p * np.log(p),
                        lambda p, t=tau: -t * (np.log(p) + 1),
                        start[0],
                    )
                    errors.append(_rel(row[None], closed[:1]))
    yield check(
        _worst(*errors),
        1e-6,
        _pooled(broken),
        draws=count * len(sizes),
        part="lemma",
        note="A Newton solver on every draw, SLSQP on some. (Eqs. 99 and 100 give the multiplier "
        "opposite signs; nothing depends on it.)",
    )

    z, z2 = _views(rng, draws, 6, 3)
    inter, intra = _distances(z, z2)
    gap = _off(inter - intra[..., None])
    tau = 0.7

    def lemma(c: Array, t: float, slope: Callable) -> Array:
        """Eq. 98 as printed."""
        return np.exp(-c / t) * slope(np.exp(-c / t).sum(-1, keepdims=True)) / t

    printed, corrected, wrong = [], [], []
    for phi in _phis(tau).values():

        def slope(x: Array, phi: Callable = phi) -> Array:
            return _slope(phi, x)

        eq4_alpha = _off(_alpha(inter, intra, phi, lambda x: np.exp(x / tau)))
        # R_H carries 2 tau: read the lemma's tau as tau, or as 2 tau. Neither gives Eq. 30.
        printed.append(
            np.minimum(
                _rel(lemma(2 * gap, tau, slope), eq4_alpha),
                _rel(lemma(2 * gap, 2 * tau, slope), eq4_alpha),
            )
        )
        corrected.append(_rel(lemma(gap, tau, slope), eq4_alpha))
        wrong.append(_rel(lemma(gap, 2 * tau, slope), eq4_alpha))
    yield check(
        _worst(*printed),
        1e-12,
        {"c = d_ij - d_i at 2 tau": _best(*wrong)},
        part="application",
        note=r"The lemma with $c_{ij}=2(d_{ij}-d_i)$, at $\tau$ or at $2\tau$, against Eq. 30.",
        counterexample=r"$\phi=\log(1+x)$, $\tau=1$, $N=2$, $d_i=0$, $d_{12}=1$: Eq. 30 is "
        f"${np.exp(-1) / (1 + np.exp(-1)):.4f}$; the lemma at $c=2$ gives "
        f"${np.exp(-2) / (1 + np.exp(-2)):.4f}$ with $\\tau$ and half of Eq. 30 with $2\\tau$.",
    )
    yield check(
        _worst(*corrected),
        1e-12,
        {"c = 2 (d_ij - d_i)": _best(*printed), "c = d_ij - d_i at 2 tau": _best(*wrong)},
        part="application",
        form="corrected",
        correction=r"Divide $\mathcal E_\alpha-\mathcal R_H$ by 2 first: the lemma applies with "
        r"$c_{ij}=d_{ij}-d_i$ and $\tau$, and gives Eqs. 30-32 and Theorem 2 unchanged.",
    )


def cor1(draws: int, seed: int) -> Iterator[Check]:
    """P_g with step eta follows gradient descent on L with step 2 eta, iterate by iterate.

    Descent: autograd of L. P_g: alpha from the Newton solver, ascent by hand-written backprop.
    Controls: descent with eta and 4 eta, alpha never refreshed, gradient through alpha.
    """
    rng, n, widths, tau, eps = _rng("cor1", seed), 8, (4, 5, 3), 0.5, 0.3
    runs, eta, steps, short = min(draws, 10), 0.01, 200, 50
    check = partial(Check, "acl/cor1", draws=runs)
    x, x2 = _views(rng, runs, n, 4)
    start = _parameters(rng, runs, widths)
    tx, tx2 = _t(x, x2)
    pair = losses.infonce_pair(tau, eps)
    cut = widths[0] * widths[1]

    def loss(theta: torch.Tensor) -> torch.Tensor:
        return contrast.family_loss(*(_net(theta, v, "tanh", widths) for v in (tx, tx2)), pair)

    def through_alpha(theta: torch.Tensor) -> torch.Tensor:
        z, z2 = (_net(theta, v, "tanh", widths) for v in (tx, tx2))
        return -contrast.energy(contrast.pairwise_importance(z, z2, pair), z, z2) / 2

    def descend(objective: Callable, rates: list[float], steps: int) -> Array:
        """Paths [rates, runs, steps, parameters]."""
        slope = torch.func.grad(lambda theta: objective(theta).sum())
        rate = torch.tensor(rates, dtype=torch.float64)[:, None, None]
        theta, path = torch.from_numpy(start).expand(len(rates), -1, -1), []
        for _ in range(steps):
            theta = theta - rate * slope(theta)
            path.append(theta.numpy())
        return np.stack(path, 2)

    def play(steps: int, refresh: bool = True) -> Array:
        """P_g: paths [runs, steps, parameters]."""
        theta, path, alpha, full = start, [], None, np.zeros((runs, n, n))
        for _ in range(steps):
            w1 = theta[:, :cut].reshape(-1, widths[0], widths[1])
            w2 = theta[:, cut:].reshape(-1, widths[1], widths[2])
            h, h2 = np.tanh(x @ w1), np.tanh(x2 @ w1)
            z, z2 = h @ w2, h2 @ w2
            if refresh or alpha is None:
                inter, intra = _distances(z, z2)
                c = _off(2 * (inter - intra[..., None]))
                xi = np.exp(-c / (2 * tau)).sum(-1)
                alpha = _entropy_newton(c, xi / (eps + xi), 2 * tau, alpha)
                full[:, ~np.eye(n, dtype=bool)] = alpha.reshape(runs, -1)
            # dE/dz[i] = 2 sum_j (alpha_ij + alpha_ji)(z[i] - z[j]) - 2 beta_i (z[i] - z[i'])
            both = full + full.swapaxes(-1, -2)
            pull = 2 * full.sum(-1, keepdims=True) * (z - z2)
            up = 2 * (both.sum(-1, keepdims=True) * z - both @ z) - pull
            ups = ((up, h, x), (pull, h2, x2))
            g2 = sum(a.swapaxes(-1, -2) @ u for u, a, _ in ups)
            g1 = sum(
                v.swapaxes(-1, -2) @ ((u @ w2.swapaxes(-1, -2)) * (1 - a**2)) for u, a, v in ups
            )
            theta = theta + eta * np.concatenate([g1.reshape(runs, -1), g2.reshape(runs, -1)], -1)
            path.append(theta)
        return np.stack(path, 1)

    ours = play(steps)
    half, exact, double = descend(loss, [eta, 2 * eta, 4 * eta], steps)
    (wrong,) = descend(through_alpha, [2 * eta], short)
    yield check(
        _worst(_abs(ours, exact)),
        1e-6,
        {
            "descent with eta": _best(_abs(ours, half)),
            "descent with 4 eta": _best(_abs(ours, double)),
            "alpha never refreshed": _best(_abs(play(short, refresh=False), exact[:, :short])),
            "through alpha": _best(_abs(ours[:, :short], wrong)),
        },
        note=rf"Largest parameter difference over {steps} steps; descent steps by $2\eta$, because "
        "of the 1/2 in Theorem 1.",
    )


_REGULARISERS: dict[str, tuple[Callable, Callable, Callable]] = {
    # r, r', r'' of Sec. 6.1 at (alpha, tau); gamma = 2
    "entropy": (
        lambda a, t: -2 * t * a * np.log(a),
        lambda a, t: -2 * t * (np.log(a) + 1),
        lambda a, t: -2 * t / a,
    ),
    "inverse": (lambda a, t: -2 * t / a, lambda a, t: 2 * t / a**2, lambda a, t: -4 * t / a**3),
    "square": (lambda a, t: -t / 2 * a**2, lambda a, t: -t * a, lambda a, t: -t * np.ones_like(a)),
}


def _project(point: Array) -> Array:
    """The nearest point of the unit simplex, by bisection on the threshold."""
    low, high = point.max(-1, keepdims=True) - 1, point.max(-1, keepdims=True)
    for _ in range(60):
        middle = (low + high) / 2
        full = np.maximum(point - middle, 0).sum(-1, keepdims=True) > 1
        low, high = np.where(full, middle, low), np.where(full, high, middle)
    return np.maximum(point - high, 0)


def _projected(c: Array, tau: float, start: Array, steps: int = 60) -> Array:
    """min c.a + tau |a|^2 / 2 on the simplex by projected gradient; tau = 0 leaves c.a."""
    a = start
    for _ in range(steps):
        a = _project(a - 0.5 / max(tau, 1.0) * (c + tau * a))
    return a


def num3(draws: int, seed: int) -> Iterator[Check]:
    """The min player's optimum is unique, because R is strongly concave.

    50 random starts a problem, three regularisers; curvature of R at random points.
    Controls: R = 0 with tied costs, R = 0.
    """
    check = partial(Check, "acl/num3", draws=draws)
    rng, n, tau = _rng("num3", seed), 8, 0.5
    count = min(draws, 20)
    z, z2 = _views(rng, count, n, 3)
    inter, intra = _distances(z, z2)
    c = np.broadcast_to(_off(2 * (inter - intra[..., None]))[:, 0], (50, count, n - 1))
    start = rng.dirichlet(np.ones(n - 1), (50, count)) + 1e-4
    start = start / start.sum(-1, keepdims=True)
    one = np.ones(c.shape[:-1])
    ends = [
        _newton(c, one, lambda a, s=s: s(a, tau), lambda a, k=k: k(a, tau), start)
        for _, s, k in (_REGULARISERS["entropy"], _REGULARISERS["inverse"])
    ]
    ends.append(_projected(c, tau, start))
    tied = np.round(c)  # integer costs tie often
    tied = np.where(np.arange(n - 1) < 2, tied.min(-1, keepdims=True), tied)

    def spread(a: Array) -> Array:
        return (a.max(0) - a.min(0)).max(-1)

    yield check(
        _worst(*(spread(a) for a in ends)),
        1e-6,
        {"R = 0, tied costs": _best(spread(_projected(tied, 0.0, start)))},
        draws=count,
        part="unique",
        note="Spread of the solutions from 50 random starts.",
    )
    points = rng.dirichlet(np.ones(n - 1), max(draws, 1000))
    # -R is separable: the smallest eigenvalue of its Hessian is its smallest second derivative.
    h = 1e-4 * points
    curvature = {
        name: -(slope(points + h, tau) - slope(points - h, tau)) / (2 * h)
        for name, (_, slope, _) in _REGULARISERS.items()
    }
    modulus = {"entropy": 2 * tau, "inverse": 4 * tau, "square": tau}
    yield check(
        min(float(curvature[k].min() / modulus[k]) for k in curvature),
        1 - 1e-6,
        {"R = 0": 0.0, "R of opposite sign": float((-curvature["square"]).min() / tau)},
        draws=max(draws, 1000),
        part="strongly concave",
        relation=">=",
        note=r"Smallest Hessian eigenvalue of $-\mathcal R$ on the simplex, over $2\tau$, "
        r"$2\tau\gamma$ and $\tau$ for $r_H$, $r_\gamma$, $r_s$.",
    )


def num4(draws: int, seed: int) -> Iterator[Check]:
    """Five of the eight psi are exponentials, and a shift in the exponent does Theorem 2 no harm.

    Controls: the same count for psi linear; psi = sigmoid; the row sum computed without the shift.
    """
    check = partial(Check, "acl/num4", draws=draws)
    rng, grid = _rng("num4", seed), np.linspace(0.1, 3, 50)
    rows = _rows()
    exponential = sum(
        bool(np.std(_slope(lambda x, p=psi: np.log(p(x)), grid)) < 1e-12) for _, _, psi in rows
    )
    linear = sum(bool(np.std(_slope(psi, grid)) < 1e-12) for _, _, psi in rows)
    yield check(
        float(exponential),
        5.0,
        {"rows with linear psi": float(linear)},
        part="count",
        relation=">=",
        note="Of 8 rows; InfoNCE, MINE, Soft Triplet, N+1 Tuplet, Lifted Structured.",
    )
    z, z2 = _views(rng, draws, 6, 3)
    inter, intra = (0.1 * d for d in _distances(z, z2))  # keeps log(xi) > 0, for Lifted
    gap = _off(inter - intra[..., None])
    errors, shiftless = [], []
    for name, tau in (("Soft Triplet", 0.5), ("Lifted Structured", 1.0)):
        phi, psi = next((f, g) for k, f, g in rows if k == name)
        alpha = _off(_alpha(inter, intra, phi, psi))
        xi = psi(-gap).sum(-1)
        solved = _entropy_newton(2 * gap, xi * _slope(phi, xi) / tau, 2 * tau)
        errors.append(_rel(solved, alpha))
        bare = np.exp(-gap / tau).sum(-1)
        shiftless.append(
            _rel(_entropy_newton(2 * gap, bare * _slope(phi, bare) / tau, 2 * tau), alpha)
        )
    _, phi, psi = rows[6]
    alpha = _off(_alpha(inter, intra, phi, psi))
    yield check(
        _worst(*errors),
        1e-6,
        {
            "psi = sigmoid": _best(_rel(_entropy_newton(2 * gap, alpha.sum(-1), 1.0), alpha)),
            "row sums without the shift": _best(*shiftless),
        },
        part="shifted rows",
        note=r"Theorem 2 for $e^{x/\tau+\epsilon}$ and $e^{x+\epsilon}$, the shift inside $\xi_i$.",
    )


def def6(draws: int, seed: int) -> Iterator[Check]:
    """The three regularisers of Sec. 6.1 are concave; their minimisers against generic solvers.

    Controls: the constants 2 and 1/2 of r read otherwise, the diagonal not excluded.
    """
    check = partial(Check, "acl/def6", draws=draws)
    rng, n, tau = _rng("def6", seed), 8, 0.5
    grid = np.linspace(0.01, 1, 400)
    bends = []
    for t in (0.1, 0.5, 5.0):
        curves = [r(grid, t) for r, _, _ in _REGULARISERS.values()]
        curves += [2 * t / (1 - g) * grid ** (1 - g) for g in (1.5, 2.0, 3.0)]
        bends += [np.diff(curve, 2).max() for curve in curves]
    yield check(
        float(max(bends)),
        -1e-9,
        {"a convex r": float(np.diff(2 * tau * grid**2, 2).min())},
        part="concave",
        note=r"Largest second difference on $(0,1]$, three values of $\tau$ and of $\gamma$.",
    )
    z, z2 = _views(rng, draws, n, 3)
    inter, intra = _distances(z, z2)
    costs = 2 * (inter - intra[..., None])
    c, one = _off(costs), np.ones((draws, n))
    start = rng.dirichlet(np.ones(n - 1), (draws, n)) + 1e-3
    start = start / start.sum(-1, keepdims=True)
    (t_costs,) = _t(costs)
    solvers = {
        "entropy": lambda t: minplayer.entropy_weights(t_costs, t),
        "inverse": lambda t: minplayer.inverse_weights(t_costs, t, 2.0),
        "square": lambda t: minplayer.square_weights(t_costs, t),
    }
    for name, (r, slope, curve) in _REGULARISERS.items():
        ours = _off(solvers[name](tau).numpy())
        if name == "square":
            generic = _projected(c, tau, start, 100)
        else:
            generic = _newton(
                c, one, lambda a, s=slope: s(a, tau), lambda a, k=curve: k(a, tau), start
            )
        errors = [_abs(ours, generic)]
        for k in range(min(draws, 8)):
            row = _slsqp(
                c[k, 0], 1.0, lambda a, r=r: r(a, tau), lambda a, s=slope: s(a, tau), start[k, 0]
            )
            errors.append(_abs(ours[k, :1], row[None]))
        control = {
            "r without its factor": _best(
                _abs(_off(solvers[name](tau / 2 if name != "square" else 2 * tau).numpy()), generic)
            )
        }
        if name == "entropy":
            whole = np.exp(-costs / (2 * tau))
            control["diagonal included"] = _best(
                _abs(_off(whole / whole.sum(-1, keepdims=True)), generic)
            )
        yield check(
            _worst(*errors),
            1e-6,
            control,
            part=name,
            note={
                "entropy": r"$\alpha\propto e^{-(d_{ij}-d_i)/\tau}$.",
                "inverse": r"$\alpha=(2\tau/(c_{ij}+\mu_i))^{1/\gamma}$, $\gamma=2$.",
                "square": r"$-c/\tau$ projected on the simplex.",
            }[name],
        )


def num5(draws: int, seed: int) -> Iterator[Check]:
    """Direct weights: p = 1 is Eq. 6; rows sum to 1; p = 2 is something else.

    Controls: p = 2, p = 1.5; weights not normalised.
    """
    rng, tau = _rng("num5", seed), 0.5
    z, z2 = _views(rng, draws, 8, 3)
    inter, _ = _distances(z, z2)
    (t_inter,) = _t(inter)
    far = np.exp(-inter / tau) * ~np.eye(8, dtype=bool)
    eq6_alpha = far / far.sum(-1, keepdims=True)
    direct = {p: minplayer.direct_weights(t_inter, p, tau) for p in (1.0, 1.5, 2.0)}
    check = partial(Check, "acl/num5", draws=draws)
    yield check(
        _worst(_rel(direct[1.0], eq6_alpha)),
        1e-12,
        {f"p = {p}": _best(_rel(direct[p], eq6_alpha)) for p in (1.5, 2.0)},
        part="p = 1",
    )
    powered = np.exp(-(inter**2) / tau) * ~np.eye(8, dtype=bool)
    normalised = powered / powered.sum(-1, keepdims=True)
    yield check(
        _worst(_rel(direct[2.0], normalised), _abs(direct[2.0].sum(-1), np.ones((draws, 8)))),
        1e-12,
        {
            "not normalised": _best(_abs(powered.sum(-1), np.ones((draws, 8)))),
            "d^2 not divided by tau": _best(
                _rel(minplayer.direct_weights(t_inter, 2.0, 1.0), normalised)
            ),
        },
        part="p = 2",
    )


def num6(draws: int, seed: int) -> Iterator[Check]:
    """r' grows without bound at 0 for r_H and r_gamma, not for r_s, whose optimum has exact zeros.

    The analytic half of the statement; the accuracies are a matter for the image chapter.
    Controls: r_s.
    """
    check = partial(Check, "acl/num6", draws=draws)
    rng, tau, n = _rng("num6", seed), 0.5, 64
    weights = 10.0 ** -np.arange(3, 100)
    growth = {
        name: float(np.diff(slope(weights, tau)).min())
        for name, (_, slope, _) in _REGULARISERS.items()
    }
    yield check(
        min(growth["entropy"], growth["inverse"]),
        2 * tau * np.log(10) * (1 - 1e-9),
        {"r_s": growth["square"]},
        part="slope at 0",
        relation=">=",
        note=r"Least increase of $r'$ when $\alpha$ falls by a factor 10, from $10^{-3}$ down: a "
        "constant or more each time, so no bound.",
    )
    count = min(draws, 20)
    z, z2 = _views(rng, count, n, 16, unit=True)
    (costs,) = _t(2 * (_distances(z, z2)[0]))
    zeros = {
        name: float((_off(alpha.numpy()) == 0).mean())
        for name, alpha in (
            ("entropy", minplayer.entropy_weights(costs, tau)),
            ("inverse", minplayer.inverse_weights(costs, tau, 2.0)),
            ("square", minplayer.square_weights(costs, 5.0)),
        )
    }
    yield check(
        max(zeros["entropy"], zeros["inverse"]),
        0.0,
        {"r_s (tau = 5)": zeros["square"]},
        draws=count,
        part="no pair ignored",
        note="Share of exact zeros in the best weights, 64 unit vectors, the paper's settings.",
    )


def num18(draws: int, seed: int) -> Iterator[Check]:
    """The min player weighs hard PAIRS: order by distance, sharper as tau falls, not a_i b_j.

    Controls: linear psi, weights at a fixed tau, weights a_i b_j of hard samples.
    """
    rng, n, taus = _rng("num18", seed), 16, (1.0, 0.5, 0.1)
    z, z2 = _views(rng, draws, n, 3)
    inter, _ = _distances(z, z2)
    tz = _t(z, z2)
    alphas = [
        contrast.pairwise_importance(*tz, losses.infonce_pair(tau, 0.0)).numpy() for tau in taus
    ]
    flat = contrast.pairwise_importance(*tz, losses.linear_pair()).numpy()
    check = partial(Check, "acl/num18", draws=draws)
    yield check(
        float(sum(_disorder(alpha, inter) for alpha in alphas)),
        0.0,
        {"linear psi": float(_disorder(flat, inter))},
        part="order",
        note=f"Violations of the reverse order of distance in {3 * draws * n} rows.",
    )
    nearest = [_off(alpha).max(-1) for alpha in alphas]
    rise = min(float((after - before).min()) for before, after in pairwise(nearest))
    yield check(
        rise,
        1e-6,
        {"tau fixed": float((nearest[0] - nearest[0]).max())},
        relation=">=",
        part="sharper as tau falls",
        note="Least rise of the nearest pair's share, tau from 1 to 0.5 to 0.1.",
    )
    rows, columns = np.nonzero(~np.eye(n, dtype=bool))
    design = np.concatenate([np.eye(n)[rows], np.eye(n)[columns]], -1)
    rest = np.eye(len(rows)) - design @ np.linalg.pinv(design)

    def residual(alpha: Array) -> Array:
        """Root mean square of log alpha_ij that no a_i + b_j explains."""
        return np.sqrt(((np.log(alpha[:, rows, columns]) @ rest) ** 2).mean(-1))

    hardness = np.exp(-_off(inter)).sum(-1)
    samples = hardness[:, :, None] * hardness[:, None, :]
    yield check(
        _best(*(residual(alpha) for alpha in alphas)),
        1e-3,
        {"hard samples a_i b_j": _worst(residual(samples))},
        relation=">=",
        part="pairs, not samples",
        note=r"What is left of $\log\alpha_{ij}$ after the best $a_i+b_j$ (root mean square).",
    )
