"""The loss family (phi, psi) of acl Sec. 3: Eq. 1, Table 1 row by row, InfoNCE, linear pairs."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch.nn.functional import normalize

from .. import contrast, losses
from ..ledger import Check
from . import reference as ref
from .reference import Array, best, relative, tensors, worst


def eq1(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 1 in torch equals loops over i and j, for all rows of Table 1 and N = 2..12.

    Controls: distances not halved, distances not squared, the pair j = i kept.
    """
    check = partial(Check, "acl/eq1", draws=draws)
    rng, errors = ref.generator("eq1", seed), []
    broken: dict[str, list[Array]] = defaultdict(list)
    sizes = ((2, 1), (3, 5), (5, 2), (8, 3), (12, 4))
    for n, d in sizes:
        z, z2 = ref.views(rng, ref.share(draws, len(sizes)), n, d)
        inter, intra = ref.distances(z, z2)
        for (_, phi, psi), pair in zip(ref.table1(), losses.table1(), strict=True):
            ours = contrast.family_loss(*tensors(z, z2), pair)
            errors.append(relative(ours, ref.family_loss(inter, intra, phi, psi), 1.0))
            wrong = {
                "no 1/2": ref.family_loss(2 * inter, 2 * intra, phi, psi),
                "no square": ref.family_loss(np.sqrt(2 * inter), np.sqrt(2 * intra), phi, psi),
                "j = i kept": ref.family_loss(inter, intra, phi, psi, diagonal=True),
            }
            for name, value in wrong.items():
                broken[name].append(relative(ours, value, 1.0))
    yield check(
        worst(*errors),
        1e-12,
        ref.pooled(broken),
        draws=ref.share(draws, len(sizes)) * len(sizes),
        note="Relative to max(1, |L|); all eight rows of Table 1.",
    )


def eq2(draws: int, seed: int) -> Iterator[Check]:
    """InfoNCE is the (phi, psi) pair of Eq. 2; SimCLR is its eps = 1, and not eps = 0.

    Controls: eps not multiplied by exp(-d_i/tau), tau dropped in front, tau doubled; other eps.
    """
    check = partial(Check, "acl/eq2", draws=draws)
    rng, errors = ref.generator("eq2", seed), []
    broken: dict[str, list[Array]] = defaultdict(list)
    z, z2 = ref.views(rng, draws, 8, 4)
    inter, intra = ref.distances(z, z2)
    for tau in (0.1, 0.5, 1.0):
        for eps in (0.0, 0.3, 1.0):
            literal = ref.infonce(inter, intra, tau, eps)
            errors.append(relative(contrast.infonce(*tensors(z, z2), tau, eps), literal, 1.0))
            wrong = {}
            if eps:  # at eps = 0 this control is no change
                wrong["eps alone"] = ref.infonce(inter, intra, tau, eps, positive=0.0)
            if tau != 1:
                wrong["no tau in front"] = literal / tau
            wrong["tau doubled"] = ref.infonce(inter, intra, 2 * tau, eps)
            for name, value in wrong.items():
                broken[name].append(relative(value, literal, 1.0))
    yield check(
        worst(*errors),
        1e-11,
        ref.least(broken),
        part="formula",
        note="Relative to max(1, |L|).",
    )

    z, z2 = ref.views(rng, draws, 8, 4, unit=True)
    cosine = z @ z.swapaxes(-1, -2)
    near = np.exp((z * z2).sum(-1) / 0.5)
    others = np.exp(ref.off(cosine) / 0.5).sum(-1)
    simclr = -0.5 * np.log(near / (near + others)).sum(-1)
    error = {
        eps: relative(contrast.infonce(*tensors(z, z2), 0.5, eps), simclr, 1.0)
        for eps in (0.0, 0.5, 1.0)
    }
    small = torch.eye(2, dtype=torch.float64)
    without, kept = (float(contrast.infonce(small, small, 1.0, e)) for e in (0.0, 1.0))
    yield check(
        worst(error[0.0]),
        1e-11,
        {"eps = 1/2": best(error[0.5])},
        part="SimCLR",
        note="SimCLR's loss on unit vectors, with first-view anchors and negatives, against "
        r"Eq. 2 with $\epsilon=0$. (The printed $\exp(-d_{ij}/\tau)$ missing from the "
        r"denominator must also read $\exp(-d_i/\tau)$.)",
        counterexample=r"$N=2$, $z[1]=z[1']=(1,0)$, $z[2]=z[2']=(0,1)$, $\tau=1$: SimCLR's "
        rf"denominator gives ${kept:.4g}$, $\epsilon=0$ gives ${without:.4g}$.",
    )
    yield check(
        worst(error[1.0]),
        1e-11,
        {"eps = 0": best(error[0.0]), "eps = 1/2": best(error[0.5])},
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
    inputs = tensors(*views)

    def both(f: Callable) -> tuple[Array, Array]:
        def at(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return f(*(normalize(v, dim=-1) for v in (a, b))) if sphere else f(a, b)

        slopes = torch.func.grad(lambda a, b: at(a, b).sum(), argnums=(0, 1))(*inputs)
        return at(*inputs).numpy(), torch.cat(slopes, -1).numpy()

    value, slope = both(lambda a, b: contrast.family_loss(a, b, pair))
    theirs, their_slope = both(source)
    errors = relative(factor * theirs + constant, value, 1.0), relative(factor * their_slope, slope)
    return np.maximum(*errors)


_TAU, _MARGIN, _C = 0.5, 1.0, 2.0  # the settings of Table 1 in `tab1`
_TOLERANCE = 1e-10
_LINE = torch.tensor([[0.0], [1.0], [3.0]], dtype=torch.float64)
_ON_LINE = "Points $0,1,3$ on a line, both views equal: "

Views = tuple[Array, Array]
Pairs = dict[str, losses.Pair]


def tab1(draws: int, seed: int) -> Iterator[Check]:
    """Each row of Table 1 against the loss of its own source, in value and gradient.

    Equal up to a stated factor and constant: InfoNCE, Triplet, Soft Triplet (one negative),
    Modified Triplet. On the unit sphere: N+1 Tuplet, Triplet Contrastive. After changes: MINE,
    Lifted Structured. Controls: constants not converted, the source's own form, another row.
    """
    views = ref.views(ref.generator("tab1", seed), draws, 8, 4)
    pairs = {pair.name: pair for pair in losses.table1(_TAU, 1.0, _MARGIN, _C)}
    parts = (
        _infonce_row,
        _mine_row,
        _triplet_row,
        _soft_triplet_row,
        _tuplet_row,
        _lifted_row,
        _modified_row,
        _linear_row,
        _coinciding_rows,
    )
    for part in parts:
        yield from part(partial(Check, "acl/tab1", draws=draws), views, pairs)
    yield from _shapes(ref.table1(_TAU, 1.0, _MARGIN, _C), _MARGIN)


def _at_line(f: Callable | losses.Pair) -> str:
    """A loss, or the loss of a pair, at the points 0, 1, 3."""
    pair = isinstance(f, losses.Pair)
    value = contrast.family_loss(_LINE, _LINE, f) if pair else f(_LINE, _LINE)
    return f"${float(value):.4g}$"


def _infonce_row(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    source = partial(losses.source_infonce, tau=_TAU)
    without = losses.infonce_pair(_TAU, 0.0)
    yield check(
        worst(_same(source, pairs["InfoNCE"], views, _TAU)),
        _TOLERANCE,
        {"eps = 0": best(_same(source, without, views, _TAU))},
        part="InfoNCE",
        note=r"Exact with $\epsilon=1$ and scores $-d/\tau$; factor $\tau$.",
    )


def _mine_row(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    n, row = views[0].shape[-2], pairs["MINE"]
    shift = n * np.log(n - 1)
    whole = _same(losses.source_mine, row, views, n, shift)
    halved = tuple(v / 2 for v in views)
    other = _same(losses.source_mine_per_sample, pairs["InfoNCE"], halved, 1, shift)
    yield check(
        worst(whole),
        _TOLERANCE,
        {"the InfoNCE row": best(other)},
        part="MINE",
        note="The source takes one logarithm, of the mean over all pairs of the batch.",
        counterexample=_ON_LINE
        + r"$N$ times the source's bound plus $N\log(N-1)$ is "
        + _at_line(lambda a, b: 3 * losses.source_mine(a, b) + 3 * np.log(2))
        + f", the row {_at_line(row)}.",
    )
    yield check(
        worst(_same(losses.source_mine_per_sample, row, views, 1, shift)),
        _TOLERANCE,
        {"one log for the batch": best(whole), "the InfoNCE row": best(other)},
        part="MINE",
        form="corrected",
        correction="The row is the Donsker-Varadhan bound with a logarithm for each anchor, summed "
        r"over anchors (up to the constant $N\log(N-1)$).",
    )


def _triplet_row(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    source = partial(losses.source_triplet, margin=2 * _MARGIN)
    kept = _same(source, losses.triplet_pair(2 * _MARGIN), views, 0.5)
    yield check(
        worst(_same(source, pairs["Triplet"], views, 0.5)),
        _TOLERANCE,
        {"margin not halved": float(np.median(kept))},
        part="Triplet",
        note=r"Exact with $\epsilon$ half the source's margin, factor 1/2: it does not halve d.",
    )


def _soft_triplet_row(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    source = partial(losses.source_soft_triplet, tau=_TAU, margin=_TAU * _MARGIN)
    row, two = pairs["Soft Triplet"], tuple(v[:, :2] for v in views)
    unscaled = losses.soft_triplet_pair(_TAU, _TAU * _MARGIN)
    yield check(
        worst(_same(source, row, two)),
        _TOLERANCE,
        {
            "summed over 7 negatives": best(_same(source, row, views)),
            "margin not divided by tau": best(_same(source, unscaled, two)),
        },
        part="Soft Triplet",
        note=r"Exact for the source's one negative an anchor ($N=2$), $\epsilon$ = margin$/\tau$; "
        "with more negatives the row puts them inside one logarithm.",
    )


def _tuplet_row(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    source, row, nce = losses.source_tuplet, pairs["N+1 Tuplet"], pairs["InfoNCE"]
    free = _same(source, row, views)
    yield check(
        worst(free),
        _TOLERANCE,
        {"the InfoNCE row": best(_same(source, nce, views))},
        part="N+1 Tuplet",
        note="The source compares inner products.",
        counterexample=f"{_ON_LINE}inner products give {_at_line(source)}, the row "
        f"{_at_line(row)}.",
    )
    other = _same(source, nce, views, sphere=True)
    yield check(
        worst(_same(source, row, views, sphere=True)),
        _TOLERANCE,
        {"norms free": best(free), "the InfoNCE row": best(other)},
        part="N+1 Tuplet",
        form="corrected",
        correction="Equal when all outputs have unit norm.",
    )


def _lifted_row(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    row, source = pairs["Lifted Structured"], partial(losses.source_lifted, margin=_MARGIN)

    def lift(squared: bool, both: bool) -> Array:
        return _same(partial(source, squared=squared, both=both), row, views)

    one_change, other_change = lift(True, True), lift(False, False)
    yield check(
        worst(lift(False, True)),
        _TOLERANCE,
        {"squared distances": best(one_change), "first member": best(other_change)},
        part="Lifted Structured",
        note="The source uses unsquared distances and the negatives of both members of a pair.",
        counterexample=f"{_ON_LINE}the source gives {_at_line(source)} (times twice the number of "
        f"positive pairs), the row {_at_line(row)}.",
    )
    yield check(
        worst(lift(True, False)),
        _TOLERANCE,
        {"only squared distances": best(one_change), "only first member": best(other_change)},
        part="Lifted Structured",
        form="corrected",
        correction="Equal after two changes: squared half distances, and the negatives of the "
        "first member of each positive pair only.",
    )


def _modified_row(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    row, slower = pairs["Modified Triplet"], losses.modified_triplet_pair(_C / 2)
    distance, cosine = (
        partial(losses.source_modified_triplet, c=_C, cosine=cosine) for cosine in (False, True)
    )
    yield check(
        worst(_same(distance, row, views), _same(cosine, row, views, sphere=True)),
        _TOLERANCE,
        {
            "cosine distances, norms free": best(_same(cosine, row, views)),
            "c halved": best(_same(distance, slower, views)),
        },
        part="Modified Triplet",
        note="Exact on squared half distances; on cosine distances when outputs have unit norm.",
    )


def _linear_row(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    source, row, n = losses.source_linear, pairs["Triplet Contrastive"], views[0].shape[-2]
    free = _same(source, row, views, n - 1)
    yield check(
        worst(free),
        _TOLERANCE,
        {"factor 1": best(_same(source, row, views))},
        part="Triplet Contrastive",
        note="The source compares inner products and adds a regulariser, left out here.",
        counterexample=r"$N=2$ on a line, $z=(0,1)$, $z'=(1,1)$: inner products give $-1$, the row "
        r"$-\frac12$.",
    )
    unscaled = _same(source, row, views, sphere=True)
    yield check(
        worst(_same(source, row, views, n - 1, sphere=True)),
        _TOLERANCE,
        {"norms free": best(free), "factor 1": best(unscaled)},
        part="Triplet Contrastive",
        form="corrected",
        correction="Equal up to the factor $N-1$ when all outputs have unit norm (for the value "
        r"alone, $\sum_i\|z[i]\|^2=\sum_i\|z[i']\|^2$ is enough).",
    )


def _coinciding_rows(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    shift = views[0].shape[-2] * _TAU * _MARGIN

    def family(pair: losses.Pair) -> Array:
        return contrast.family_loss(*tensors(*views), pair).numpy()

    soft, mine, tuplet = (family(pairs[k]) for k in ("Soft Triplet", "MINE", "N+1 Tuplet"))
    right, wrong = (
        family(losses.infonce_pair(_TAU, float(np.exp(sign * _MARGIN)))) + shift for sign in (-1, 1)
    )
    yield check(
        worst(
            relative(soft, right, 1.0),
            relative(mine, family(losses.infonce_pair(1.0, 0.0)), 1.0),
            relative(tuplet, family(losses.infonce_pair(1.0, 1.0)), 1.0),
        ),
        1e-12,
        {"sign of the margin": best(relative(soft, wrong, 1.0))},
        part="rows that coincide",
        note=r"Soft Triplet is InfoNCE with $e^{-\epsilon}$ in place of $\epsilon$ (plus a "
        r"constant), MINE is InfoNCE at $\epsilon=0,\tau=1$, N+1 Tuplet at $\epsilon=\tau=1$.",
    )


def _shapes(rows: list[ref.Row], margin: float) -> Iterator[Check]:
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


def eq33(draws: int, seed: int) -> Iterator[Check]:
    """General InfoNCE: both printed forms of alpha, and -dL_nce/dd_ij, agree.

    Controls: phi' = 1/(x + eps), eps not multiplied by exp(-d_i/tau), the sign of the gap.
    """
    check = partial(Check, "acl/eq33", draws=draws)
    rng = ref.generator("eq33", seed)
    z, z2 = ref.views(rng, draws, 8, 3)
    inter, intra = ref.distances(z, z2)
    off, near = ~np.eye(8, dtype=bool), intra[..., None]
    errors = []
    broken: dict[str, list[Array]] = defaultdict(list)
    for tau in (0.2, 0.5, 1.0):
        for eps in (0.01, 0.3, 1.0, 5.0):
            gaps = np.exp((near - inter) / tau) * off
            first = gaps / (eps + gaps.sum(-1, keepdims=True))
            far = np.exp(-inter / tau) * off
            second = far / (eps * np.exp(-near / tau) + far.sum(-1, keepdims=True))
            slope = -ref.gradient(lambda x, t=tau, e=eps: ref.infonce(x, intra, t, e), inter) * off
            ours = contrast.pairwise_importance(*tensors(z, z2), losses.infonce_pair(tau, eps))
            errors += [relative(v, slope) for v in (first, second, ours)]
            back = np.exp((inter - near) / tau) * off
            wrong = {
                "eps alone": far / (eps + far.sum(-1, keepdims=True)),
                "sign of the gap": back / (eps + back.sum(-1, keepdims=True)),
            }
            if tau != 1:
                wrong["tau missing"] = first / tau
            for name, value in wrong.items():
                broken[name].append(relative(value, slope))
    yield check(worst(*errors), 1e-7, ref.least(broken))


def num1(draws: int, seed: int) -> Iterator[Check]:
    """Linear phi and psi: L is a difference of distances, alpha is constant.

    Controls: phi = x^2, psi = exp; the positive distances dropped.
    """
    rng, sizes = ref.generator("num1", seed), (2, 3, 6, 10)
    values, alphas = [], []
    broken: dict[str, list[Array]] = defaultdict(list)
    bent = losses.Pair("", lambda x: x, torch.exp, torch.ones_like, torch.exp)
    squared = losses.Pair("", torch.square, lambda x: x, lambda x: 2 * x, torch.ones_like)
    count = ref.share(draws, len(sizes))
    for n in sizes:
        z, z2 = ref.views(rng, count, n, 3)
        a, b = (float(v) for v in rng.random(2) + 0.5)
        inter, intra = ref.distances(z, z2)
        gap = (n - 1) * intra.sum(-1) - inter.sum((-1, -2))
        pair, tz = losses.linear_pair(a, b), tensors(z, z2)
        ours = contrast.family_loss(*tz, pair)
        values.append(relative(ours, a * b * gap, 1.0))
        broken["no d_i"].append(relative(ours, -a * b * inter.sum((-1, -2)), 1.0))
        constant = np.broadcast_to(a * b * ~np.eye(n, dtype=bool), inter.shape)
        at, fresh = tensors(inter, intra), tensors(*ref.views(rng, count, n, 3))

        def uneven(pair: losses.Pair, at=at, constant=constant) -> Array:
            return relative(contrast.importance_by_autograd(*at, pair)[0], constant)

        def moved(pair: losses.Pair, tz=tz, fresh=fresh) -> Array:
            one, other = (contrast.pairwise_importance(*v, pair) for v in (tz, fresh))
            return relative(other, one)

        alphas += [uneven(pair), moved(pair)]
        broken["psi = exp"].append(uneven(bent))
        broken["phi = x^2"].append(uneven(squared))
        broken["psi = exp, other batch"].append(moved(bent))
    dropped = {"positive distances dropped": best(*broken.pop("no d_i"))}
    check = partial(Check, "acl/num1", draws=count * len(sizes))
    yield check(worst(*values), 1e-12, dropped, part="loss")
    yield check(
        worst(*alphas),
        1e-12,
        ref.least(broken),
        part="alpha",
        note="alpha = ab at every pair, and the same for another batch.",
    )


def num4(draws: int, seed: int) -> Iterator[Check]:
    """Five of the eight psi are exponentials, and a shift in the exponent does Theorem 2 no harm.

    Controls: the same count for psi linear; psi = sigmoid; the row sum computed without the shift.
    """
    check = partial(Check, "acl/num4", draws=draws)
    rng, grid = ref.generator("num4", seed), np.linspace(0.1, 3, 50)
    rows = ref.table1()
    exponential = sum(
        bool(np.std(ref.slope(lambda x, p=psi: np.log(p(x)), grid)) < 1e-12) for _, _, psi in rows
    )
    linear = sum(bool(np.std(ref.slope(psi, grid)) < 1e-12) for _, _, psi in rows)
    yield check(
        float(exponential),
        5.0,
        {"rows with linear psi": float(linear)},
        part="count",
        relation=">=",
        note="Of 8 rows; InfoNCE, MINE, Soft Triplet, N+1 Tuplet, Lifted Structured.",
    )
    z, z2 = ref.views(rng, draws, 6, 3)
    inter, intra = (0.1 * d for d in ref.distances(z, z2))  # keeps log(xi) > 0, for Lifted
    gap = ref.off(inter - intra[..., None])
    errors, shiftless = [], []
    for name, tau in (("Soft Triplet", 0.5), ("Lifted Structured", 1.0)):
        phi, psi = next((f, g) for k, f, g in rows if k == name)
        alpha = ref.off(ref.importance(inter, intra, phi, psi))
        xi = psi(-gap).sum(-1)
        solved = ref.newton("entropy", 2 * gap, xi * ref.slope(phi, xi) / tau, tau)
        errors.append(relative(solved, alpha))
        bare = np.exp(-gap / tau).sum(-1)
        shiftless.append(
            relative(ref.newton("entropy", 2 * gap, bare * ref.slope(phi, bare) / tau, tau), alpha)
        )
    _, phi, psi = rows[6]
    alpha = ref.off(ref.importance(inter, intra, phi, psi))
    yield check(
        worst(*errors),
        1e-6,
        {
            "psi = sigmoid": best(
                relative(ref.newton("entropy", 2 * gap, alpha.sum(-1), 0.5), alpha)
            ),
            "row sums without the shift": best(*shiftless),
        },
        part="shifted rows",
        note=r"Theorem 2 for $e^{x/\tau+\epsilon}$ and $e^{x+\epsilon}$, the shift inside $\xi_i$.",
    )
