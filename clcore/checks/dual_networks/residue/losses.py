"""Checks of ddn Eq. 2 and Theorem 2: the contrastive losses as functions of distances.

`dual_losses` against the printed formulas in numpy (naive exponentials) and complex steps.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import sympy
import torch
from sympy import exp

from clcore import reference as ref
from clcore.ledger import Part, Trial, check, exact, pooled, total, worst
from clcore.losses import anchors
from clcore.reference import Array, absolute, relative

TAUS = (0.1, 0.5, 2.0)
MARGINS = (0.0, 1.0)
COUNTS = (1, 4, 32)
Loss = Callable[[Array, Array], Array]

# The losses once more, of symbols: r_+ and two negatives.
TAU = sympy.Symbol("tau", positive=True)
MARGIN = sympy.Symbol("r_0", nonnegative=True)
R = sympy.symbols("r_+ r_1 r_2", real=True)  # of the positive and two negatives
LIFT = exp((R[0] - R[1] + MARGIN) / TAU)
SHARES = [exp(-r / TAU) for r in R]
INFONCE = -sympy.log(SHARES[0] / sum(SHARES))
INFONCE_1 = -sympy.log(SHARES[0] / sum(SHARES[:2]))  # of one negative
TRIPLET = TAU * sympy.log(1 + LIFT)


def slopes(loss: Any) -> list[Any]:
    """Derivatives by r_+, r_1-, r_2-."""
    return [sympy.diff(loss, r) for r in R]


def _nce(
    positive: Array, negatives: Array, tau: float, own: float = 1.0, power: float = 1
) -> Array:
    """Eq. 2 as printed; `own` multiplies the positive's term in the denominator."""
    near, far = np.exp(-(positive**power) / tau), np.exp(-(negatives**power) / tau).sum(-1)
    return -np.log(near / (own * near + far))


def _tri(positive: Array, negatives: Array, tau: float, margin: float) -> Array:
    return tau * np.log(1 + np.exp((positive - negatives[..., 0] + margin) / tau))


def _distances(
    rng: np.random.Generator, draws: int, count: int, largest: float = 5.0
) -> tuple[Array, Array]:
    """Random r_+ [draws] and r_k- [draws, H] in [0, largest]."""
    return largest * rng.random(draws), largest * rng.random((draws, count))


def _slopes(loss: Loss, positive: Array, negatives: Array) -> tuple[Array, Array]:
    """dL/dr_+ [draws] and dL/dr_{k-} [draws, H], by complex steps."""
    up = np.imag(loss(positive + 1j * ref.STEP, negatives)) / ref.STEP
    return up, ref.gradient(lambda r: loss(positive, r), negatives)


def _autograd(loss: Callable, positive: Array, negatives: Array) -> tuple[Array, Array]:
    """dL/dr_+ and dL/dr_{k-} of a loss of the library, by torch."""
    inputs = [t.requires_grad_() for t in ref.tensors(positive, negatives)]
    return tuple(g.numpy() for g in torch.autograd.grad(loss(*inputs).sum(), inputs))


@check("ddn/eq2")
def eq2(t: Trial) -> None:
    """Simple contrastive, soft triplet and InfoNCE losses (Eq. 2).

    Given   random distances in [0, 5], H = 1, 4, 32, tau in {0.1, 0.5, 2}, r_0 in {0, 1}; for the
            cosines unit vectors of 2..64 dimensions.
    Claim   L_simp, L_tri and L_nce of the library are the printed formulas. For unit vectors -|u
            - v|^2/2 = cos - 1, so that L_nce is SimCLR's loss, a cross-entropy of cosines over
            tau; both proved.
    Fails   for distances doubled or swapped, without the positive in the denominator; for vectors
            that are not of unit length (SimCLR's loss in the proof: distances not halved).
    """
    losses = t.defines("the three losses", 1e-11, controls=pooled, draws=t.draws)
    doubled = "distances doubled or swapped"
    for tau in TAUS:
        # L_nce, with any number of negatives.
        for count in COUNTS:
            positive, negatives = _distances(t.rng, t.draws, count)
            loss = anchors.infonce(*ref.tensors(positive, negatives), tau)
            losses.add(absolute(loss, _nce(positive, negatives, tau)))
            losses.breaks(doubled, absolute(loss, _nce(2 * positive, 2 * negatives, tau)))
            without = _nce(positive, negatives, tau, own=0)
            losses.breaks("no positive below", absolute(loss, without))

        # L_simp and L_tri, of one.
        positive, negatives = _distances(t.rng, t.draws, 1)
        both = ref.tensors(positive, negatives)
        simple = anchors.simple(*both)
        losses.add(absolute(simple, positive - negatives[:, 0]))
        losses.breaks(doubled, absolute(simple, negatives[:, 0] - positive))
        for margin in MARGINS:
            expected = _tri(positive, negatives, tau, margin)
            losses.add(absolute(anchors.soft_triplet(*both, tau, margin), expected))
            swapped = _tri(negatives[:, 0], positive[:, None], tau, margin)
            losses.breaks(doubled, absolute(swapped, expected))
    _simclr(t)


def _simclr(t: Trial) -> None:
    """Half the squared distance of unit vectors is 1 minus their cosine; the two losses."""
    cosines = t.part("cosine", 1e-13, controls=pooled, draws=t.draws)
    losses = t.part("SimCLR's loss", 1e-11, controls=pooled, draws=t.draws)
    for dimension, tau, count in product((2, 8, 64), (0.1, 0.5, 1.0), (1, 5, 50)):
        raw = t.rng.standard_normal((t.draws, count + 2, dimension))

        # -|u - v|^2/2 = cos - 1.
        def errors(vectors: Array, tau: float = tau) -> tuple[Array, Array]:
            u, rest = vectors[:, :1], vectors[:, 1:]
            sizes = np.linalg.norm(u, axis=-1) * np.linalg.norm(rest, axis=-1)
            cosine = (u * rest).sum(-1) / sizes
            half = ((u - rest) ** 2).sum(-1) / 2
            simclr = np.log(np.exp(cosine / tau).sum(-1)) - (cosine / tau)[:, 0]
            loss = anchors.infonce(*ref.tensors(half[:, 0], half[:, 1:]), tau)
            return absolute(-half, cosine - 1), absolute(loss, simclr)

        unit = raw / np.linalg.norm(raw, axis=-1, keepdims=True)
        (of_cosine, of_loss), (raw_cosine, raw_loss) = errors(unit), errors(raw)
        cosines.add(of_cosine).breaks("not of unit length", raw_cosine)

        # So L_nce of them is a cross-entropy of cosines over tau.
        losses.add(of_loss).breaks("not of unit length", raw_loss)
    _simclr_exactly(cosines, losses)


def _simclr_exactly(cosines: Part, losses: Part) -> None:
    """Of vectors over their lengths; then what the logarithm is of, at r = 1 - cosine."""
    a, b = exact.vector("a", 3), exact.vector("b", 3)
    u, v = (w / sympy.sqrt(w.dot(w)) for w in (a, b))
    cosine = a.dot(b) / sympy.sqrt(a.dot(a) * b.dot(b))
    cosines.proves(
        exact.equal(-(u - v).dot(u - v) / 2, cosine - 1),
        breaks={"not of unit length": exact.equal(-(a - b).dot(a - b) / 2, cosine - 1)},
        at="three dimensions",
    )
    c = sympy.symbols("c_+ c_1 c_2", real=True)
    softmax = exp(c[0] / TAU) / sum(exp(v / TAU) for v in c)

    def inside(distance: Callable) -> sympy.Expr:
        near, *far = (exp(-distance(v) / TAU) for v in c)
        return near / (near + sum(far))

    losses.proves(
        exact.equal(inside(lambda v: 1 - v), softmax),
        breaks={"distances not halved": exact.equal(inside(lambda v: 2 - 2 * v), softmax)},
        at="two negatives",
    )


@check("ddn/rem1")
def rem1(t: Trial) -> None:
    """The soft triplet loss tends to the hinge at temperature 0 (Sec. 4, loss (2)).

    Given   r_+ - r_- + r_0 in [-1, 1], half of it around the corner; r_0 in {0, 0.5, 1}; tau = 1,
            1/2, ..., 2^-20.
    Claim   L_tri tends to max(r_+ - r_- + r_0, 0): the gap is at most tau log 2, and below 10^-6
            at the last tau. Proved.
    Fails   for a hinge without its margin or its corner; the rate for tau/2 in place of tau log 2.
            In the proofs: tau/2 before the logarithm, exp(p/tau) for exp(-p/tau), log 3/2.
    """
    limit = t.part("limit", 1e-6, controls=pooled, draws=t.draws)
    rate = t.part("rate", 1e-9, controls=worst, draws=t.draws)
    negatives = 2 + 3 * t.rng.random((t.draws, 1))
    u = t.rng.uniform(-1, 1, t.draws)
    u[: t.draws // 2] *= 1e-6  # around the corner, where the limit is slowest
    u[-2:] = 0.5, -0.5
    for margin in (0.0, 0.5, 1.0):
        inputs = ref.tensors(u - margin + negatives[:, 0], negatives)

        # The gap is at most tau log 2.
        for k in range(21):
            soft = anchors.soft_triplet(*inputs, 2.0**-k, margin).numpy()
            gap = np.abs(soft - np.maximum(u, 0))
            excess = gap / (2.0**-k * np.log(2)) - 1
            rate.add(excess)
            rate.breaks("bound tau / 2", np.log(2) / 0.5 * (1 + excess) - 1)

        # At the last tau it is below 10^-6.
        limit.add(gap)
        limit.breaks("no corner", np.abs(soft - u).max())
        if margin:
            limit.breaks("no margin", np.abs(soft - np.maximum(u - margin, 0)).max())
    _hinge_exactly(limit, rate)


def _hinge_exactly(limit: Part, rate: Part) -> None:
    """u = r_+ - r_- + r_0 is p, 0 or -p. Beyond the hinge is tau log(1 + y), y = exp(-p / tau), and
    y = 1 / (1 + s) in (0, 1) gives 1 + y < 2."""
    p, s = sympy.symbols("p s", positive=True)
    above, corner, below = (exp(u / TAU) for u in (p, sympy.Integer(0), -p))

    def ends(scale: sympy.Expr) -> list[sympy.Expr]:
        lifts = (above, corner, below)
        return [sympy.limit(scale * sympy.log(1 + v), TAU, 0, "+") for v in lifts]

    limit.proves(
        exact.equal(ends(TAU), [p, 0, 0]),
        breaks={"tau / 2 before the logarithm": exact.equal(ends(TAU / 2), [p, 0, 0])},
    )
    rate.proves(
        exact.equal([1 + above, 1 + below], [above * (1 + below), 1 + below]),
        breaks={"exp(p / tau) for y": exact.equal(1 + above, above * (1 + above))},
    )
    y = 1 / (1 + s)
    rate.proves(
        exact.nonnegative(2 - (1 + y), s / (1 + s)),
        breaks={"3/2 for 2": exact.nonnegative(sympy.Rational(3, 2) - (1 + y), s / (1 + s))},
    )


def _losses() -> Iterator[tuple[float, int, Loss, Callable]]:
    """(tau, H, numpy's loss, the library's) over all settings."""
    yield 1.0, 1, lambda p, n: p - n[..., 0], anchors.simple
    for tau in TAUS:
        for margin in MARGINS:
            at = {"tau": tau, "margin": margin}
            yield tau, 1, partial(_tri, **at), partial(anchors.soft_triplet, **at)
        for count in COUNTS:
            yield tau, count, partial(_nce, tau=tau), partial(anchors.infonce, tau=tau)


@check("ddn/thm2")
def thm2(t: Trial) -> None:
    """The derivatives of a contrastive loss in all distances sum to zero (Theorem 2).

    Given   L_simp, L_tri (H = 1) and L_nce (H = 1, 4, 32) at random distances; tau in {0.1, 0.5,
            2}.
    Claim   dL/dr_+ > 0, dL/dr_k- < 0 and dL/dr_+ + sum_k dL/dr_k- = 0: complex steps of the page's
            formulas, and autograd of the library's losses. Proved for one and two negatives.
    Fails   the signs with r_+ and r_- swapped; the sum for (1 + beta) r_+ - r_-, where it is beta,
            and for squared distances in the exponent.
    """
    signs = t.part("signs", 0, measured=total, controls=total, draws=t.draws)
    sums = t.part("sum", 1e-11, controls=pooled, draws=t.draws)
    for tau, count, ours, theirs in _losses():
        # At distances of many tau the exact signs are below the resolution of 1 - share.
        positive, negatives = _distances(t.rng, t.draws, count, 10 * tau)
        page, library = _slopes(ours, positive, negatives), _autograd(theirs, positive, negatives)

        # dL/dr_+ + sum_k dL/dr_k- = 0, the same by both.
        sums.add(*(absolute(a, b) for a, b in zip(library, page, strict=True)))
        sums.add(*(np.abs(up + down.sum(-1)) for up, down in (page, library)))

        # dL/dr_+ > 0, dL/dr_k- < 0.
        for up, down in (page, library):
            signs.add(up <= 0, down >= 0)
            signs.breaks("r_+ and r_- swapped", up >= 0, down <= 0)

    for beta in (-0.5, 0.2):
        positive, negatives = _distances(t.rng, t.draws, 1)
        up, down = _autograd(partial(anchors.simple, beta=beta), positive, negatives)
        sums.breaks("beta", np.abs(up + down.sum(-1)))
        up, down = _slopes(partial(_nce, tau=2.0, power=2), positive, negatives)
        sums.breaks("squared distances", np.abs(up + down.sum(-1)))
    _slopes_exactly(signs, sums)


def _slopes_exactly(signs: Part, sums: Part) -> None:
    """A number is positive if its reciprocal is nonnegative, and so are the forms below."""
    simple, triplet, one, two = map(slopes, (R[0] - R[1], TRIPLET, INFONCE_1, INFONCE))
    up = [1 / loss[0] for loss in (simple, triplet, one, two)]
    down = [1 / v for v in (simple[1], triplet[1], one[1], two[1], two[2])]
    of_one, of_two = TAU * sum(SHARES[:2]), TAU * sum(SHARES)
    rises = [1, 1 + 1 / LIFT, of_one / SHARES[1], of_two / sum(SHARES[1:])]
    falls = [1, 1 + 1 / LIFT, of_one / SHARES[1], of_two / SHARES[1], of_two / SHARES[2]]
    signs.proves(
        exact.nonnegative(up + [-v for v in down], rises + falls),
        breaks={"r_+ and r_- swapped": exact.nonnegative([-v for v in up] + down, rises + falls)},
        at="one and two negatives",
    )
    beta = sympy.Symbol("beta", real=True)
    sums.proves(
        exact.equal([sum(loss) for loss in (simple, triplet, one, two)]),
        breaks={"beta": exact.equal(sum(slopes((1 + beta) * R[0] - R[1])))},
        at="one and two negatives",
    )


@check("ddn/eq43")
def eq43(t: Trial) -> None:
    """Derivatives of InfoNCE in the positive and the negative distances (Eqs. 43-45).

    Given   L_nce at random distances, H = 1 and 8, tau in {0.1, 0.5, 2}.
    Claim   dL/dr_+ = (1 - e^(-r_+/tau)/Z)/tau > 0, dL/dr_k- = -e^(-r_k-/tau)/(tau Z) < 0, Z the
            sum of all terms: against autograd of the library's loss; they sum to 0. Proved.
    Fails   without 1/tau, and without the positive in the denominator; in the proof for dL/dr_k-
            of the other sign.
    """
    each = t.part("Eqs. 43, 44", 1e-11, controls=pooled, draws=t.draws)
    sums = t.part("Eq. 45", 1e-13, controls=pooled, draws=t.draws)
    for tau, count in product(TAUS, (1, 8)):
        positive, negatives = _distances(t.rng, t.draws, count)
        up, down = _autograd(partial(anchors.infonce, tau=tau), positive, negatives)
        near, far = np.exp(-positive / tau), np.exp(-negatives / tau)
        whole, rest = near + far.sum(-1), far.sum(-1)
        plus, minus = (1 - near / whole) / tau, -far / whole[:, None] / tau

        # dL/dr_+ = (1 - e^(-r_+/tau)/Z)/tau, dL/dr_k- = -e^(-r_k-/tau)/(tau Z).
        each.add(absolute(plus, up), absolute(minus, down))
        each.breaks("no 1/tau", relative(tau * minus, down))
        each.breaks("no positive below", relative(-far / rest[:, None] / tau, down))

        # They sum to 0.
        sums.add(np.abs(plus + minus.sum(-1)))
        sums.breaks("no positive below", np.abs(plus - far.sum(-1) / rest / tau))

    # Proved for two negatives.
    near, *far = SHARES
    whole = near + sum(far)
    plus, minus = (1 - near / whole) / TAU, [-v / whole / TAU for v in far]
    bare = [-v / sum(far) / TAU for v in far]
    found = slopes(INFONCE)
    each.proves(
        exact.equal(found, [plus, *minus]),
        breaks={"no positive below": exact.equal(found, [plus, *bare])},
        at="two negatives",
    )
    forms = [TAU * whole / v for v in (sum(far), *far)]  # of reciprocals, as in Theorem 2
    each.proves(
        exact.nonnegative([1 / plus, *(-1 / v for v in minus)], forms),
        breaks={"no sign": exact.nonnegative([1 / plus, *(1 / v for v in minus)], forms)},
        at="two negatives",
    )
    sums.proves(
        exact.equal(plus + sum(minus)),
        breaks={"no positive below": exact.equal(plus + sum(bare))},
        at="two negatives",
    )
