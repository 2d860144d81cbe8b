"""What ddn says of each update of SimCLR in its abstract and in Secs. 1 and 4: that a covariance
operator gives it, PSD but for the residue of Theorem 4.

What a PSD operator can do is known: some A >= 0 has vec(dW) = A vec(W) if and only if the cosine of
vec(dW) and vec(W) is positive, or dW = 0. So cosines of updates with weights are measured, of
complex-step gradients of losses enumerated by loops, plain and l2-normalised, and of batches.
"""

from collections import defaultdict

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.layers import TIGHT, Layer, Objective, skew
from clcore.ledger import Part, Trial, check, pooled, worst
from clcore.reference import Array, relative
from clcore.theory.operator import covariance_operator as co

NEVER = 1e-6  # a cosine that is not positive, to rounding and more
WIDTHS = dw.DEPTHS[2]
TAU = 0.5
LOSSES = {"InfoNCE": dw.infonce(TAU), "triplet": dw.triplet(TAU)}
ALL = (dw.simple(), *LOSSES.values())
BOTH = (False, True)  # one tower, both
TOWERS = ("one", "both")


def cosine(update: Array, at: Layer) -> Array:
    """Of vec(dW_l), [draws, w], and vec(W_l); 0 where nothing moves."""
    w = dw.vec(at.net[at.number - 1])
    size = np.linalg.norm(update, axis=-1) * np.linalg.norm(w, axis=-1)
    return (update * w).sum(-1) / np.maximum(size, 1e-300)


def _by_operator(at: Layer, case: dw.Case, tied: bool) -> Array:
    """`cosine` of w and the update A w, by the library's operator A, as a quadratic form."""
    w, A = dw.vec(at.net[at.number - 1]), at.operator(case, tied=tied).numpy()
    square = np.einsum("bi,bji,bjk,bk->b", w, A, A, w)
    return np.einsum("bi,bij,bj->b", w, A, w) / np.sqrt((w**2).sum(-1) * square)


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
    op = at.operator(LOSSES["InfoNCE"], 3, tied)
    low = torch.linalg.eigvalsh((op + op.mT) / 2)
    return np.maximum((-low[:, 0] / low.abs().amax(-1)).numpy(), skew(op))


@check("ddn/rem16")
def rem16(t: Trial) -> None:
    """Each layer is updated by a covariance operator, PSD up to a residue (abstract, Secs. 1, 4).

    Given   plain outputs; the large batch limit, or one batch of 2000; one tower, or both.
    Claim   under the simple loss, the soft triplet loss and InfoNCE a PSD operator gives every
            update, so that its cosine with the weights is positive. Corrected: for the last two but
            for the residue theta of Theorem 4.
    Fails   with theta left in, where views are spread as far as samples; for normalised outputs,
            small batches, beta = 1; of one tower with several negatives.

    One update whose cosine is not positive refutes "each", so that the least is what counts there.
    """
    count = t.share(2)
    limit = t.part("simple loss, large batch limit, plain outputs", NEVER, ">=", draws=2 * count)
    one_step = t.part("simple loss, one step on a batch of 2000, plain outputs", NEVER, ">=")
    several = t.part(
        "InfoNCE with three negatives, both towers, no augmentation", TIGHT, draws=2 * count
    )
    name = "soft triplet and InfoNCE, large batch limit, plain outputs"
    whole, curved = (form(name, NEVER, ">=", draws=2 * count) for form in (t.part, t.corrected))
    cosines: dict[tuple[str, str], list[Array]] = defaultdict(list)
    again: dict[tuple[str, str], list[Array]] = defaultdict(list)
    exact, weighted = 0.0, 0.0
    for strength in (0.6, 1.5):
        world = dw.world(t.rng, count, WIDTHS[0], "additive", strength)
        weights = dw.weights(t.rng, count, WIDTHS)
        for at in (Layer(world, weights, number) for number in (1, 2)):
            exact = max(exact, _simple(at, limit, (whole, curved)))
            for loss, case in LOSSES.items():
                moves = [at.descent(case, tied) for tied in BOTH]
                for tied, move in zip(BOTH, moves, strict=True):
                    cosines[loss, TOWERS[tied]].append(cosine(move, at))
                    again[loss, TOWERS[tied]].append(_by_operator(at, case, tied))
                whole.add(cosine(moves[0], at)).fails_by(again[loss, TOWERS[0]][-1], within=1e-6)
                curved.breaks("theta left in", cosine(moves[0], at), by=worst)
                xi = weight(at, case)
                rest = moves[0] - at.times(at.residue(case, xi))
                curved.add(cosine(rest, at))
                main = relative(at.times(at.weighted(xi)), rest, 1e-6)
                weighted = max(weighted, main.max())
            _three_negatives(at, several)
    _batches(t, one_step, min(max(count, 2), 6))
    for found, say in ((cosines, whole.says), (again, whole.confirms)):
        for (loss, towers), values in found.items():
            say(**{f"{loss}_{towers}".lower(): (np.concatenate(values) < 0).mean()})
    limit.says(exact=exact)
    curved.says(weighted=weighted)
    whole.says(number_one=smallest(False), number_both=smallest(True))


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


def _simple(at: Layer, limit: Part, curved: tuple[Part, Part]) -> float:
    """The simple loss; the largest error of the operator of Theorem 3."""
    one, both = (at.descent(dw.simple(), tied) for tied in BOTH)
    limit.add(cosine(one, at), cosine(both, at))
    units = [at.descent(case, tied, unit=True) for case in ALL for tied in BOTH]
    limit.breaks("l2-normalised outputs", *(cosine(move, at) for move in units))
    more = [cosine(at.descent(dw.simple(1.0), tied), at) for tied in BOTH]
    limit.breaks("beta = 1", *more, by=worst)
    for part in curved:
        part.breaks("simple loss, beta = 1", *more, by=worst)
    ours = at.times(at.between)
    return float(max(relative(ours, one, 1e-6).max(), relative(2 * ours, both, 1e-6).max()))


def _three_negatives(at: Layer, several: Part) -> None:
    whole = torch.ones_like(at.world.chances)[..., None]
    world = co.World(at.world.samples, at.world.chances, at.world.samples[:, :, None], whole)
    alone = Layer(world, at.net, at.number)
    one, both = (_indefinite(alone, tied) for tied in BOTH)
    several.add(both)
    several.breaks("one tower", one, by=pooled)
    several.breaks("with augmentation", _indefinite(at, True), by=worst)


def _batches(t: Trial, one_step: Part, count: int) -> None:
    """Steps of both towers on drawn batches, of 2000 and of four, in `count` worlds."""
    below = []
    for _ in range(count):
        world = dw.world(t.rng, 1, WIDTHS[0], "additive", 0.6)
        at = Layer(world, dw.weights(t.rng, 1, WIDTHS), 1)
        for _ in range(20):
            small = cosine(at.descent(_batch(t.rng, world, 4), tied=True), at)
            one_step.breaks("batches of 4", small, by=worst)
            below.append(small < 0)
        one_step.add(cosine(at.descent(_batch(t.rng, world, 2000), tied=True), at))
    one_step.says(below=np.mean(below))
