"""The loss family (phi, psi) of acl Sec. 3: Eq. 1, Table 1 row by row, InfoNCE, linear pairs."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch.nn.functional import normalize

from clcore import losses
from clcore import reference as ref
from clcore.ledger import Check
from clcore.losses import contrast
from clcore.reference import Array, best, relative, tensors, worst

_TAU, _MARGIN, _C = 0.5, 1.0, 2.0  # the settings of Table 1 in `tab1`
_TOLERANCE = 1e-10

Views = tuple[Array, Array]
Pairs = dict[str, losses.Pair]


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
    """InfoNCE is the (phi, psi) pair of Eq. 2; SimCLR, restricted, is its eps = 1 and not eps = 0.

    Controls: eps not multiplied by exp(-d_i/tau), tau dropped in front, tau doubled; other eps;
    SimCLR unrestricted.
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

    yield from _simclr(check, ref.views(rng, draws, 8, 4))


def _simclr(check: Callable[..., Check], views: Views) -> Iterator[Check]:
    """Eq. 2 on the sphere against NT-Xent, in value and gradient; tau is the factor between them.

    An anchor of NT-Xent meets 2N - 2 negatives, and both views are anchors; Eq. 2 has N - 1 and N.
    """
    tau = 0.5
    source = partial(losses.source_simclr, tau=tau)
    first = partial(source, second_views=False)

    def error(loss: Callable, eps: float) -> Array:
        return _same(loss, losses.infonce_pair(tau, eps), views, sphere=True)

    restricted = _same(first, losses.infonce_pair(tau, 1.0), views, tau, sphere=True)
    turned = [[[1, 0], [cosine, 1 - abs(cosine)]] for cosine in (1, 0, -1)]
    simclr = ", ".join(_value(partial(source, tau=1.0), z) for z in turned)
    eq2_values = ", ".join(_value(losses.infonce_pair(1.0, 0.0), z) for z in turned)
    yield check(
        worst(error(source, 0.0)),
        _TOLERANCE,
        {"eps = 1/2": best(error(source, 0.5))},
        part="SimCLR",
        note=r"NT-Xent over all $2N$ views of unit norm against Eq. 2 with $\epsilon=0$, up to any "
        r"constant and positive factor. Eq. 2 itself, a formula for every $\epsilon$, stands. (The "
        r"printed $\exp(-d_{ij}/\tau)$ missing from the denominator must also read "
        r"$\exp(-d_i/\tau)$.)",
        counterexample=r"$N=2$, $\tau=1$, $z[1]=z[1']=(1,0)$, and $z[2]=z[2']$ at $(1,0)$, "
        rf"$(0,1)$, $(-1,0)$: NT-Xent, summed over one view as anchors, gives {simclr} (the second "
        rf"is $2\log(1+2/e)$), Eq. 2 with $\epsilon=0$ gives {eq2_values}: unequal steps against "
        "equal ones.",
    )
    yield check(
        worst(restricted),
        _TOLERANCE,
        {
            "eps = 0": best(error(first, 0.0)),
            "eps = 1/2": best(error(first, 0.5)),
            "NT-Xent over all views": best(error(source, 1.0)),
        },
        part="SimCLR",
        form="corrected",
        correction=r"With first views as the only anchors and negatives, SimCLR's loss is "
        r"$\epsilon=1$ on unit vectors (times $\tau$): the denominator holds the positive pair. "
        r"$\epsilon=0$ is the decoupled loss without it (Yeh et al., 2021).",
    )


def _same(
    source: Callable,
    pair: losses.Pair,
    views: Views,
    factor: float | None = None,
    sphere: bool = False,
) -> Array:
    """Per draw: error of L = factor * source + constant, in value and in the gradient in z, z2.

    `factor` None: the positive one that fits the gradients of all draws best. The constant is
    fitted too. `sphere`: of both as functions of outputs that are normalised first.
    """
    inputs = tensors(*views)

    def both(f: Callable) -> tuple[Array, Array]:
        def at(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return f(*(normalize(v, dim=-1) for v in (a, b))) if sphere else f(a, b)

        slopes = torch.func.grad(lambda a, b: at(a, b).sum(), argnums=(0, 1))(*inputs)
        return at(*inputs).numpy(), torch.cat(slopes, -1).numpy()

    value, slope = both(lambda a, b: contrast.family_loss(a, b, pair))
    theirs, their_slope = both(source)
    if factor is None:
        factor = max(0.0, float((slope * their_slope).sum() / (their_slope**2).sum()))
    constant = (value - factor * theirs).mean()
    errors = relative(factor * theirs + constant, value, 1.0), relative(factor * their_slope, slope)
    return np.maximum(*errors)


def tab1(draws: int, seed: int) -> Iterator[Check]:
    """Each row of Table 1 against the loss of its own source, in value and gradient; its shapes.

    One rule for all: the row equals the source's loss up to a constant and a positive factor. A
    source that compares cosines or inner products is read on outputs of unit norm, one that defines
    a single negative with one; what becomes of it otherwise is said. A row that needs more is
    corrected, all its changes named. Controls: a change undone, constants not converted, another
    row.
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


def _value(f: Callable | losses.Pair, z: list, z2: list | None = None) -> str:
    """A loss, or the loss of a pair, at a batch of numbers or vectors; both views z without z2."""
    batch = torch.tensor([z, z2 or z], dtype=torch.float64)
    a, b = batch[..., None] if batch.ndim == 2 else batch
    value = contrast.family_loss(a, b, f) if isinstance(f, losses.Pair) else f(a, b)
    return f"${float(value):.4g}$"


def _infonce_row(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    source = partial(losses.source_infonce, tau=_TAU)
    yield check(
        worst(_same(source, pairs["InfoNCE"], views, _TAU)),
        _TOLERANCE,
        {"eps = 0": best(_same(source, losses.infonce_pair(_TAU, 0.0), views))},
        part="InfoNCE",
        note=r"With $\epsilon=1$, factor $\tau$. The source leaves the score function free; "
        r"$-d/\tau$ is chosen.",
    )


def _mine_row(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    row, nce = pairs["MINE"], pairs["InfoNCE"]
    whole, anchored = losses.source_mine, losses.source_mine_per_sample
    forced = _value(lambda a, b: 3 * whole(a, b) + 3 * np.log(2), [0, 1, 3])
    yield check(
        worst(_same(whole, row, views)),
        _TOLERANCE,
        {"the InfoNCE row": best(_same(whole, nce, views))},
        part="MINE",
        note="The source takes one logarithm, of the mean over all pairs of the batch. (It leaves "
        "the statistic free, as InfoNCE the score; $-d$ is chosen.)",
        counterexample="$N=3$: moving second views shows that the factor must be 3, coinciding "
        r"outputs that the constant must be $3\log 2$. At points $0,1,3$ on a line, both views "
        f"equal, that gives {forced}, the row {_value(row, [0, 1, 3])}.",
    )
    yield check(
        worst(_same(anchored, row, views, 1.0)),
        _TOLERANCE,
        {
            "one log for the batch": best(_same(whole, row, views)),
            "the InfoNCE row": best(_same(anchored, nce, views)),
        },
        part="MINE",
        form="corrected",
        correction="One change: the Donsker-Varadhan bound takes a logarithm for each anchor, of "
        r"the mean over its own negatives, and is summed over anchors (constant $N\log(N-1)$).",
    )


def _triplet_row(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    source = partial(losses.source_triplet, margin=2 * _MARGIN)
    kept = _same(source, losses.triplet_pair(2 * _MARGIN), views)
    yield check(
        worst(_same(source, pairs["Triplet"], views, 0.5)),
        _TOLERANCE,
        {"margin not halved": float(np.median(kept))},
        part="Triplet",
        note=r"Factor 1/2, and $\epsilon$ is half the source's margin: the source does not halve "
        "squared distances.",
    )


def _soft_triplet_row(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    source = partial(losses.source_soft_triplet, tau=_TAU, margin=_TAU * _MARGIN)
    row, two = pairs["Soft Triplet"], tuple(v[:, :2] for v in views)
    unscaled = losses.soft_triplet_pair(_TAU, _TAU * _MARGIN)
    many = _same(source, row, views)
    yield check(
        worst(_same(source, row, two, 1.0)),
        _TOLERANCE,
        {
            "seven negatives": best(many),
            "margin not divided by tau": best(_same(source, unscaled, two)),
            "the N+1 Tuplet row": best(_same(source, pairs["N+1 Tuplet"], two)),
        },
        part="Soft Triplet",
        note=r"With one negative an anchor, as the source defines it; $\epsilon$ is the source's "
        r"margin over $\tau$. Fails where an anchor has more: a sum of triplets has a logarithm "
        r"each, the row one for all. For three points at $0,0,0$ on a line, both views equal, "
        rf"$\tau={_TAU:g}$, $\epsilon={_MARGIN:g}$, they give {_value(source, [0, 0, 0])} and "
        f"{_value(row, [0, 0, 0])}.",
    )


def _tuplet_row(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    source, row, nce = losses.source_tuplet, pairs["N+1 Tuplet"], pairs["InfoNCE"]
    free = _same(source, row, views)
    yield check(
        worst(_same(source, row, views, 1.0, sphere=True)),
        _TOLERANCE,
        {"norms free": best(free), "the InfoNCE row": best(_same(source, nce, views, sphere=True))},
        part="N+1 Tuplet",
        note=_UNIT + " The source compares inner products. " + _inner_products(source, row),
    )


_UNIT = (
    r"On outputs of unit norm, where $d$ is one less the cosine (Sec. 4.2 calls an $\ell_2$ layer "
    "before the loss popular). Fails where norms are free."
)


def _inner_products(source: Callable, row: losses.Pair) -> str:
    """Where a loss of inner products stands still and the row moves, so that no factor fits."""
    still, moved = ([0, 1], [0, 1]), ([0, 1], [1, 1])
    return (
        "$N=2$ on a line, $z=(0,1)$: with $z'=(0,1)$ and with $z'=(1,1)$ inner products give "
        f"{_value(source, *still)} and {_value(source, *moved)}, the row {_value(row, *still)} and "
        f"{_value(row, *moved)}."
    )


def _lifted_row(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    row = pairs["Lifted Structured"]
    source = partial(losses.source_lifted, margin=_MARGIN, second_views=True)

    def lift(**changes: bool) -> Array:
        return _same(partial(source, **changes), row, views)

    squared, first_member, first_views = {"squared": True}, {"both": False}, {"second_views": False}
    pairs_of_changes = {
        "distances unsquared": first_member | first_views,
        "negatives of both members": squared | first_views,
        "negatives from both views": squared | first_member,
    }
    two, three = [0, 2], [0, 3]
    yield check(
        worst(lift()),
        _TOLERANCE,
        {"squared distances": best(lift(**squared)), "first member": best(lift(**first_member))},
        part="Lifted Structured",
        note="The source uses unsquared distances, and all views of other samples as negatives of "
        "both members of a positive pair.",
        counterexample=rf"$\epsilon={_MARGIN:g}$, "
        "$N=2$ on a line, both views equal: at distance 2 and at distance 3 the row "
        f"gives {_value(row, two)} and {_value(row, three)}, the source (times twice the number of "
        f"positive pairs) {_value(source, two)} and {_value(source, three)}.",
    )
    all_three = partial(source, **squared, **first_member, **first_views)
    yield check(
        worst(_same(all_three, row, views, 1.0)),
        _TOLERANCE,
        {name: best(lift(**changes)) for name, changes in pairs_of_changes.items()},
        part="Lifted Structured",
        form="corrected",
        correction="Three changes: squared half distances; the negatives of the first member of "
        "each positive pair only; first views only among them.",
    )


def _modified_row(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    row, slower = pairs["Modified Triplet"], losses.modified_triplet_pair(_C / 2)
    source = partial(losses.source_modified_triplet, c=_C)
    free = _same(source, row, views)
    corner, twice = [[1, 0], [0, 1]], [[2, 0], [0, 2]]
    yield check(
        worst(_same(source, row, views, 1.0, sphere=True)),
        _TOLERANCE,
        {"norms free": best(free), "c halved": best(_same(source, slower, views, sphere=True))},
        part="Modified Triplet",
        note=f"{_UNIT} The source uses cosine distances: at $(1,0),(0,1)$ and at twice these "
        f"outputs ($c={_C:g}$, $N=2$, both views equal) it gives {_value(source, corner)} and "
        f"{_value(source, twice)}, the row {_value(row, corner)} and {_value(row, twice)}.",
    )


def _linear_row(check: Callable, views: Views, pairs: Pairs) -> Iterator[Check]:
    source, row, n = losses.source_linear, pairs["Triplet Contrastive"], views[0].shape[-2]
    free = _same(source, row, views)
    yield check(
        worst(_same(source, row, views, n - 1, sphere=True)),
        _TOLERANCE,
        {
            "norms free": best(free),
            "factor 1": best(_same(source, row, views, 1.0, sphere=True)),
            "the Modified Triplet row": best(
                _same(source, pairs["Modified Triplet"], views, sphere=True)
            ),
        },
        part="Triplet Contrastive",
        note=f"{_UNIT} The source compares inner products, takes the mean over negatives (factor "
        "$N-1$), and adds a regulariser, left out here. " + _inner_products(source, row),
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
        smooth,
        1e-3,
        {"Triplet's kink": at_kinks, "|x| at 0": absolute},
        part="differentiable",
        note="Largest gap between the slopes from the left and from the right. Fails at the one "
        r"point $x=-\epsilon$ of Triplet's $\psi(x)=[x+\epsilon]_+$ (slopes 0 and 1), which "
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
