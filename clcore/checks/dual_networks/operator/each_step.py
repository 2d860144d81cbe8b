"""ddn's statement on each update of SimCLR, in its abstract and in Secs. 1 and 4: a covariance
operator gives it, positive semi-definite but for the residue of Theorem 4.

A PSD operator's possible updates: some A >= 0 has vec(dW) = A vec(W) if and only if the cosine of
vec(dW) and vec(W) is positive, or dW = 0. So cosines of updates with weights are measured, of
complex-step gradients of losses enumerated by loops, plain and l2-normalised, and of batches.
"""

from collections import defaultdict
from itertools import product

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.layers import (
    TIGHT,
    Layer,
    Objective,
    descent,
    operator,
    residue,
    skew,
    weighted,
)
from clcore.ledger import Trial, check, pooled, worst
from clcore.reference import Array, relative
from clcore.theory.operator import covariance_operator as co

NEVER = 1e-6  # a cosine that is not positive, to rounding and more
STILL = 1e-12  # no update, of one that is about 1
WIDTHS = dw.DEPTHS[2]
TAU = 0.5
LOSSES = {"InfoNCE": dw.infonce(TAU), "triplet": dw.triplet(TAU)}
ALL = (dw.simple(), *LOSSES.values())
BOTH = (False, True)  # one tower, both


def cosine(update: Array, at: Layer) -> Array:
    """Cosine of vec(dW_l), [draws, w], and vec(W_l); 1 where nothing moves, to rounding, as in a
    net that is dead at all samples: nothing goes against the weights there."""
    w = dw.vec(at.net[at.number - 1])
    moved, size = (np.linalg.norm(x, axis=-1) for x in (update, w))
    return np.where(moved > STILL, (update * w).sum(-1) / np.maximum(moved * size, STILL), 1.0)


def _by_operator(at: Layer, case: dw.Case, tied: bool) -> Array:
    """`cosine` of w and the update A w, by the library's operator A, as a quadratic form."""
    w, A = dw.vec(at.net[at.number - 1]), operator(at, case, tied=tied).numpy()
    square = np.maximum(np.einsum("bi,bji,bjk,bk->b", w, A, A, w), STILL**2)
    found = np.einsum("bi,bij,bj->b", w, A, w) / np.sqrt((w**2).sum(-1) * square)
    return np.where(square > STILL**2, found, 1.0)


def _batch(rng: np.random.Generator, world: co.World, size: int) -> Objective:
    """The mean of r_+ - r_- over a batch of `size` drawn anchors, each with a view and a negative;
    one and the same batch for all draws of weights."""
    _, p, _, q = dw.parts(world)
    S, V = q.shape[1:]
    s, t = (rng.choice(S, size, p=p[0]) for _ in range(2))
    i, j, m = (np.array([rng.choice(V, p=q[0, k]) for k in own]) for own in (s, s, t))

    def objective(near: Array, far: Array) -> Array:
        anchor = near[..., s, i, :]
        gap = dw.half(anchor, far[..., s, j, :]) - dw.half(anchor, far[..., t, m, :])
        return gap.mean(-1)

    return objective


def _indefinite(at: Layer, tied: bool) -> Array:
    """How far the operator of InfoNCE with three negatives is from PSD, [draws]: its skewness, or
    minus its least eigenvalue over the largest, whichever is more."""
    op = operator(at, LOSSES["InfoNCE"], 3, tied)
    low = torch.linalg.eigvalsh((op + op.mT) / 2)
    return np.maximum((-low[:, 0] / low.abs().amax(-1)).numpy(), skew(op))


@check("ddn/rem16")
def rem16(t: Trial) -> None:
    """Each layer is updated by a positive semi-definite operator, up to a residue (abstract,
    Secs. 1, 4).

    Given   two-layer ReLU nets, plain outputs, additive noise on views; the large batch limit
            (finite worlds), or one batch of 2000; one tower, or both.
    Claim   under the simple loss, the soft triplet loss and InfoNCE a positive semi-definite
            operator gives every update, so that its cosine with the weights is positive. Corrected:
            for the last two but for the residue theta of Theorem 4. With three negatives and views
            that are the samples, InfoNCE's operator of both towers is positive semi-definite.
    Fails   with theta left in, where views are spread as far as samples; for normalised outputs,
            batches of 4, and 2 r_+ - r_- (beta = 1); with three negatives for one tower, and with
            augmentation.

    One update whose cosine is not positive refutes "each", so that the least is what counts there.
    """
    count, ends = t.share(2), []
    for strength in (0.6, 1.5):
        world = dw.world(t.rng, count, WIDTHS[0], "additive", strength)
        net = dw.weights(t.rng, count, WIDTHS)
        ends += [Layer(world, net, number) for number in (1, 2)]

    # The simple loss moves every layer along its weights.
    limit = t.part("simple loss, large batch limit, plain outputs", NEVER, ">=", draws=2 * count)
    apart, exact = [], 0.0
    for at in ends:
        one, both = (descent(at, dw.simple(), tied) for tied in BOTH)
        limit.add(cosine(one, at), cosine(both, at))
        units = [descent(at, case, tied, unit=True) for case in ALL for tied in BOTH]
        limit.breaks("l2-normalised outputs", *(cosine(move, at) for move in units))
        apart += [cosine(descent(at, dw.simple(1.0), tied), at) for tied in BOTH]
        ours = at.times(at.between)
        off = relative(ours, one, 1e-6).max(), relative(2 * ours, both, 1e-6).max()
        exact = float(max(exact, *off))
    limit.breaks("beta = 1", *apart, by=worst).says(exact=exact)

    # So does one step of both towers on a batch of 2000.
    one_step = t.part("simple loss, one step on a batch of 2000, plain outputs", NEVER, ">=")
    below = []
    for _ in range(min(max(count, 2), 6)):
        world = dw.world(t.rng, 1, WIDTHS[0], "additive", 0.6)
        at = Layer(world, dw.weights(t.rng, 1, WIDTHS), 1)
        for _ in range(20):
            small = cosine(descent(at, _batch(t.rng, world, 4), tied=True), at)
            one_step.breaks("batches of 4", small, by=worst)
            below.append(small < 0)
        one_step.add(cosine(descent(at, _batch(t.rng, world, 2000), tied=True), at))
    one_step.says(below=np.mean(below))

    # With three negatives the operator of both towers is PSD where a view is its sample.
    several = t.part(
        "InfoNCE with three negatives, both towers, no augmentation", TIGHT, draws=2 * count
    )
    for at in ends:
        certain = torch.ones_like(at.world.chances)[..., None]
        alone = co.World(at.world.samples, at.world.chances, at.world.samples[:, :, None], certain)
        bare = Layer(alone, at.net, at.number)
        several.add(_indefinite(bare, tied=True))
        several.breaks("one tower", _indefinite(bare, tied=False), by=pooled)
        several.breaks("with augmentation", _indefinite(at, tied=True), by=worst)

    # Soft triplet and InfoNCE: as printed with the residue theta, as corrected without it.
    name = "soft triplet and InfoNCE, large batch limit, plain outputs"
    printed, mended = (form(name, NEVER, ">=", draws=2 * count) for form in (t.part, t.corrected))
    cosines, again, exact = defaultdict(list), defaultdict(list), 0.0
    for at, (loss, case) in product(ends, LOSSES.items()):
        for towers, tied in (("both", True), ("one", False)):
            key, move = f"{loss}_{towers}".lower(), descent(at, case, tied)
            cosines[key].append(cosine(move, at))
            again[key].append(_by_operator(at, case, tied))
        # The parts take the last key, one tower; the notes have shares for both and for one.
        printed.add(cosines[key][-1]).fails_by(again[key][-1], within=1e-6)
        mended.breaks("theta left in", cosines[key][-1], by=worst)
        xi = weight(at, case)
        rest = move - at.times(residue(at, case, xi))
        mended.add(cosine(rest, at))
        exact = max(exact, relative(at.times(weighted(at, xi)), rest, 1e-6).max())
    for part in (printed, mended):
        part.breaks("simple loss, beta = 1", *apart, by=worst)
    printed.says(**{key: (np.concatenate(v) < 0).mean() for key, v in cosines.items()})
    printed.confirms(**{key: (np.concatenate(v) < 0).mean() for key, v in again.items()})
    printed.says(number_one=smallest(False), number_both=smallest(True))
    mended.says(weighted=exact)


def smallest(tied: bool, beta: float = 0.0, off: float = 1.0) -> float:
    """The update of the one weight w = 1 of f = w x under InfoNCE and beta r_+, H = tau = 1, of
    samples at 0.1 and -0.1 with views `off` to either side."""
    x = np.array([[0.1], [-0.1]]) + np.array([off, -off])
    u = 1 + 1j * ref.STEP
    near, far = u * x, (u if tied else 1) * x
    plus = (near[:, :, None] - far[:, None]) ** 2 / 2
    minus = (near[:, :, None, None] - far) ** 2 / 2
    gap = plus[..., None, None] - minus[:, :, None]
    loss = np.log(1 + np.exp(gap)).mean() + beta * plus.mean()
    return float(-loss.imag / ref.STEP)


def weight(at: Layer, case: dw.Case) -> torch.Tensor:
    """xi(x, x'') of the library at the samples themselves, [draws, S, S]."""
    plain = torch.from_numpy(dw.output(at.net, dw.parts(at.world)[0]))[..., 0, :]
    return case.library_weight(co.half_distances(plain, plain))
