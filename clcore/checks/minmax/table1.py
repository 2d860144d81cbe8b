"""Table 1 of acl Sec. 3, row by row, against the losses of its sources; shapes of phi and psi.

One rule for all: the row equals the source's loss up to a constant and a positive factor. A source
that defines a single negative is read with one; the other case is reported. A row that
needs more, as outputs of equal norm, is corrected, all its changes named.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch.nn.functional import normalize

from clcore import losses
from clcore import reference as ref
from clcore.checks.minmax import sources
from clcore.ledger import Trial, check, typical
from clcore.ledger.trial import Both
from clcore.losses import contrast
from clcore.reference import Array, relative, tensors

TAU, MARGIN, C = 0.5, 1.0, 2.0
TOLERANCE = 1e-10

Views = tuple[Array, ...]


def same_loss(
    source: Callable,
    pair: losses.Pair,
    views: Views,
    factor: float | None = None,
    radius: float | None = None,
) -> Array:
    """Per draw: error of L = factor * source + constant, in value and in the gradient in z, z2.

    `factor` None: the positive one that fits the gradients of all draws best. The constant is
    fitted too. `radius`: of both as functions of outputs that are scaled to this norm first.
    """
    inputs = tensors(*views)

    def both(f: Callable) -> tuple[Array, Array]:
        def at(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return f(*(radius * normalize(v, dim=-1) for v in (a, b))) if radius else f(a, b)

        slopes = torch.func.grad(lambda a, b: at(a, b).sum(), argnums=(0, 1))(*inputs)
        return at(*inputs).numpy(), torch.cat(slopes, -1).numpy()

    value, slope = both(lambda a, b: contrast.family_loss(a, b, pair))
    theirs, their_slope = both(source)
    if factor is None:
        factor = max(0.0, float((slope * their_slope).sum() / (their_slope**2).sum()))
    constant = (value - factor * theirs).mean()
    errors = relative(factor * theirs + constant, value, 1.0), relative(factor * their_slope, slope)
    return np.maximum(*errors)


def value_at(f: Callable | losses.Pair, z: list, z2: list | None = None) -> float:
    """A loss, or the loss of a pair, at a batch of numbers or vectors; both views z without z2."""
    batch = torch.tensor([z, z2 or z], dtype=torch.float64)
    a, b = batch[..., None] if batch.ndim == 2 else batch
    return float(contrast.family_loss(a, b, f) if isinstance(f, losses.Pair) else f(a, b))


def _page(name: str, margin: float = MARGIN) -> sources.Functions:
    """phi and psi of a row of Table 1 in numpy, for the second computation of a printed failure."""
    return next((phi, psi) for row, phi, psi in ref.table1(TAU, 1.0, margin, C) if row == name)


def _mine_row(t: Trial, views: Views) -> None:
    """The source takes one logarithm for the batch; corrected: one for each anchor."""
    pair, nce = losses.mine_pair(), losses.infonce_pair(TAU, 1.0)
    whole, anchored = losses.source_mine, losses.source_mine_per_sample
    row = t.part("MINE", TOLERANCE).add(same_loss(whole, pair, views))
    row.fails_by(sources.apart(sources.mine, _page(pair.name), views))
    row.breaks("the InfoNCE row", same_loss(whole, nce, views))
    # N = 3: the source's loss with the factor and the constant that it would need, and the row.
    forced = 3 * value_at(whole, [0, 1, 3]) + 3 * np.log(2)
    row.says(forced=forced, row=value_at(pair, [0, 1, 3]))

    # At N = 2 the row is right.
    pairs_of_two = tuple(v[:, :2] for v in views)
    row = t.part("MINE, at N = 2", TOLERANCE).add(same_loss(whole, pair, pairs_of_two, 2.0))
    row.breaks("eight samples", same_loss(whole, pair, views))

    # One logarithm for each anchor.
    row = t.corrected("MINE", TOLERANCE).add(same_loss(anchored, pair, views, 1.0))
    row.breaks("one log for the batch", same_loss(whole, pair, views))
    row.breaks("the InfoNCE row", same_loss(anchored, nce, views))


def _stands_still(source: Callable, pair: losses.Pair) -> dict[str, float]:
    """Where a loss of inner products stands still and the row moves, so that no factor fits."""
    still, moved = ([0, 1], [0, 1]), ([0, 1], [1, 1])
    return {
        "still": value_at(source, *still),
        "moved": value_at(source, *moved),
        "row_still": value_at(pair, *still),
        "row_moved": value_at(pair, *moved),
    }


def _on_sphere(
    row: Both,
    views: Views,
    source: Callable,
    by_hand: Callable,
    pair: losses.Pair,
    other: tuple[str, losses.Pair],
    factor: float = 1.0,
    at_two: losses.Pair | None = None,
) -> None:
    """A row whose source compares inner products or cosines; corrected: on outputs of equal norm.
    other: what the control changes, and the pair that it puts in place of the row's. at_two: the
    row's pair where that norm is 2, if it is another."""
    free, (what, wrong) = same_loss(source, pair, views), other
    row.printed.add(free).fails_by(sources.apart(by_hand, _page(pair.name), views))
    row.printed.breaks(what, same_loss(source, wrong, views))
    row.corrected.add(same_loss(source, pair, views, factor, radius=1.0))
    row.corrected.add(same_loss(source, at_two or pair, views, factor, radius=2.0))
    row.corrected.breaks("norms free", free)
    if at_two:
        row.corrected.breaks("c of norm 1", same_loss(source, pair, views, radius=2.0))
    if factor != 1:
        row.corrected.breaks("factor 1", same_loss(source, pair, views, 1.0, radius=1.0))
    row.corrected.breaks(what, same_loss(source, wrong, views, radius=1.0))


def _tuplet_row(t: Trial, views: Views) -> None:
    row, pair, source = t.both("N+1 Tuplet", TOLERANCE), losses.tuplet_pair(), losses.source_tuplet
    other = "the InfoNCE row", losses.infonce_pair(TAU, 1.0)
    _on_sphere(row, views, source, sources.tuplet, pair, other)
    row.printed.says(**_stands_still(source, pair))


def _own_margin(source: Callable, views: Views) -> tuple[Array, float]:
    """The errors of the Lifted Structured row whose own margin fits a source best, and that margin:
    the table leaves it free."""

    def at(margin: float) -> Array:
        return same_loss(source, losses.lifted_pair(margin), views)

    def typically(margin: float) -> float:
        return float(np.median(at(margin)))

    coarse = np.linspace(-1, 5, 25)
    step, near = coarse[1] - coarse[0], min(coarse, key=typically)
    fine = minimize_scalar(typically, bounds=(near - step, near + step), method="bounded")
    best = float(min((near, fine.x), key=typically))
    return at(best), best


def _lifted_row(t: Trial, views: Views) -> None:
    """Three changes make the source's loss the row; each of them is needed, whatever its margin."""
    pair = losses.lifted_pair(MARGIN)
    source = partial(losses.source_lifted, margin=MARGIN, second_views=True)

    def lift(**changes: bool) -> Array:
        return _own_margin(partial(source, **changes), views)[0]

    squared, first_member, first_views = {"squared": True}, {"both": False}, {"second_views": False}
    row = t.part("Lifted Structured", TOLERANCE)
    errors, margin = _own_margin(source, views)
    row.add(errors).fails_by(sources.apart(sources.lifted, _page(pair.name, margin), views))
    row.breaks("squared distances", lift(**squared))
    row.breaks("first member", lift(**first_member))

    # Both views equal, at distance x: four negatives of an anchor at distance x.
    at = (1, 1.5, 2, 3)
    values = [value_at(source, [0, x]) for x in at]
    row.says(margin=MARGIN, **{f"source{k}": v for k, v in enumerate(values)})
    own = losses.lifted_pair(MARGIN + np.log(4))  # that gives the last two
    values = [value_at(own, [0, x]) for x in at]
    row.says(**{f"row{k}": v for k, v in enumerate(values)})

    # All three changes; any two.
    row = t.corrected("Lifted Structured", TOLERANCE)
    all_three = partial(source, **squared, **first_member, **first_views)
    row.add(same_loss(all_three, pair, views, 1.0))
    row.breaks("distances unsquared", lift(**first_member, **first_views))
    row.breaks("negatives of both members", lift(**squared, **first_views))
    row.breaks("negatives from both views", lift(**squared, **first_member))


def _modified_row(t: Trial, views: Views) -> None:
    row, pair = t.both("Modified Triplet", TOLERANCE), losses.modified_triplet_pair(C)
    source, hand = (
        partial(f, c=C) for f in (losses.source_modified_triplet, sources.modified_triplet)
    )
    halved, quarter = (losses.modified_triplet_pair(C / k) for k in (2, 4))
    _on_sphere(row, views, source, hand, pair, ("c halved", halved), at_two=quarter)
    once, twice = [[1, 0], [0, 1]], [[2, 0], [0, 2]]
    row.printed.says(c=C, once=value_at(source, once), twice=value_at(source, twice))
    row.printed.says(row_once=value_at(pair, once), row_twice=value_at(pair, twice))


def _linear_row(t: Trial, views: Views) -> None:
    """The source's mean is over N - 1 negatives, the row has their sum."""
    row, pair = t.both("Triplet Contrastive", TOLERANCE), losses.linear_pair()
    source, negatives = losses.source_linear, views[0].shape[-2] - 1
    other = "the Modified Triplet row", losses.modified_triplet_pair(C)
    _on_sphere(row, views, source, sources.linear, pair, other, negatives)
    row.printed.says(**_stands_still(source, pair))


def _coinciding_rows(t: Trial, views: Views) -> None:
    """Three rows are InfoNCE at another eps and tau, Soft Triplet up to a constant."""

    def row(pair: losses.Pair, constant: float = 0.0) -> Array:
        z, z2 = tensors(*views)
        return contrast.family_loss(z, z2, pair).numpy() + constant

    soft, constant = row(losses.soft_triplet_pair(TAU, MARGIN)), views[0].shape[-2] * TAU * MARGIN
    right, wrong = (
        row(losses.infonce_pair(TAU, float(np.exp(sign * MARGIN))), constant) for sign in (-1, 1)
    )
    coincide = t.part("rows that coincide", 1e-12, draws=t.draws)
    coincide.add(relative(soft, right, 1.0))
    coincide.breaks("sign of the margin", relative(soft, wrong, 1.0))
    coincide.add(relative(row(losses.mine_pair()), row(losses.infonce_pair(1.0, 0.0)), 1.0))
    coincide.add(relative(row(losses.tuplet_pair()), row(losses.infonce_pair(1.0, 1.0)), 1.0))


def _jump(f: Callable, x: Array) -> Array:
    """Difference of the two one-sided slopes, each to second order."""
    h = 1e-5
    right = (-3 * f(x) + 4 * f(x + h) - f(x + 2 * h)) / (2 * h)
    left = (3 * f(x) - 4 * f(x - h) + f(x - 2 * h)) / (2 * h)
    return np.abs(right - left) / np.maximum(1.0, np.abs(right))


def _shapes(t: Trial) -> None:
    """Monotone and differentiable, for all sixteen functions of Table 1, on a grid; phi is taken as
    a function of log x, which changes neither property."""
    grid, table = np.linspace(-6, 6, 4001), ref.table1(TAU, 1.0, MARGIN, C)
    phis = {name: lambda x, phi=phi: phi(np.exp(x)) for name, phi, _ in table}
    psis = {name: psi for name, _, psi in table}

    # No step along the grid leads down.
    monotone = t.part("monotone", 1e-12, draws=1)
    for f in (*phis.values(), *psis.values()):
        monotone.add(-np.diff(f(grid)).min())
    monotone.breaks("psi(-x) in place of psi(x)", np.diff(np.exp(grid)).max())

    # Slopes from the left and from the right agree, off the point where a positive part switches.
    smooth = t.part("differentiable", 1e-3, draws=1)
    triplet, lifted = losses.triplet_pair(MARGIN).name, losses.lifted_pair(MARGIN).name
    for functions, kinked, kink in ((phis, lifted, 0.0), (psis, triplet, -MARGIN)):
        for name, f in functions.items():
            near = (np.abs(grid - kink) <= 1e-3) & (name == kinked)
            smooth.add(_jump(f, grid)[~near])
    smooth.breaks("Triplet's kink", _jump(psis[triplet], np.array([-MARGIN])))
    smooth.breaks("|x| at 0", _jump(np.abs, np.zeros(1)))


@check("acl/tab1")
def tab1(t: Trial) -> None:
    """Eight known contrastive losses as members of the family (Table 1).

    Given   random views of 8 samples in 4 dimensions (2 samples for Soft Triplet, whose source has
            one negative an anchor, and for a part of MINE); tau = 1/2, margin 1, c = 2. Each row's
            loss is coded from the paper that the row cites.
    Claim   Eq. 1 with the row's phi and psi is that loss, in value and in the gradient in z and z',
            up to a constant and a positive factor (fitted where the source leaves it). Three rows
            are InfoNCE at other eps and tau. phi and psi are monotone and differentiable, on a
            grid.
    Fails   MINE (one logarithm for the batch), N+1 Tuplet, Modified Triplet and Triplet
            Contrastive (inner products or cosines), Lifted Structured (unsquared distances,
            negatives of both members and views). Corrected: a logarithm for each anchor; outputs
            of equal norm, 1 or 2; these three changes. Controls: one of the changes undone, or made
            alone; eps, margin, c or the factor not converted; another row; more samples than the
            source has; a reversed function, |x|, and the kink of Triplet, where its psi has no
            derivative.
    """
    views = ref.views(t.rng, t.draws, 8, 4)

    # InfoNCE, as it stands.
    source, pair = partial(losses.source_infonce, tau=TAU), losses.infonce_pair(TAU, 1.0)
    row = t.part("InfoNCE", TOLERANCE).add(same_loss(source, pair, views, TAU))
    row.breaks("eps = 0", same_loss(source, losses.infonce_pair(TAU, 0.0), views))

    _mine_row(t, views)

    # The triplet loss, as it stands: the row's eps is half of the source's margin.
    source, unhalved = partial(losses.source_triplet, margin=2 * MARGIN), 2 * MARGIN
    row = t.part("Triplet", TOLERANCE, controls=typical)
    row.add(same_loss(source, losses.triplet_pair(MARGIN), views, 0.5))
    row.breaks("margin not halved", same_loss(source, losses.triplet_pair(unhalved), views))

    # The soft triplet loss, with one negative an anchor as its source defines it.
    source = partial(losses.source_soft_triplet, tau=TAU, margin=TAU * MARGIN)
    pair, two = losses.soft_triplet_pair(TAU, MARGIN), tuple(v[:, :2] for v in views)
    row = t.part("Soft Triplet", TOLERANCE).add(same_loss(source, pair, two, 1.0))
    row.breaks("seven negatives", same_loss(source, pair, views))
    undivided = losses.soft_triplet_pair(TAU, TAU * MARGIN)
    row.breaks("margin not divided by tau", same_loss(source, undivided, two))
    row.breaks("the N+1 Tuplet row", same_loss(source, losses.tuplet_pair(), two))
    alike = [0, 0, 0]
    row.says(tau=TAU, margin=MARGIN, source=value_at(source, alike), row=value_at(pair, alike))

    _tuplet_row(t, views)
    _lifted_row(t, views)
    _modified_row(t, views)
    _linear_row(t, views)
    _coinciding_rows(t, views)
    _shapes(t)
