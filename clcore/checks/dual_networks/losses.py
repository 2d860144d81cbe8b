"""Checks of ddn Eq. 2 and Theorem 2: the contrastive losses as functions of distances.

`dual_losses` against the printed formulas in numpy (naive exponentials) and complex steps.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np
import torch

from clcore import reference as ref
from clcore.ledger import Trial, check, pooled, total, worst
from clcore.losses import anchors
from clcore.reference import Array, absolute, relative

TAUS = (0.1, 0.5, 2.0)
MARGINS = (0.0, 1.0)
COUNTS = (1, 4, 32)
Loss = Callable[[Array, Array], Array]


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
    return largest * rng.random(draws), largest * rng.random((draws, count))


def _slopes(loss: Loss, positive: Array, negatives: Array) -> tuple[Array, Array]:
    """dL/dr_+ [draws] and dL/dr_{k-} [draws, H], by complex steps."""
    up = np.imag(loss(positive + 1j * ref.STEP, negatives)) / ref.STEP
    return up, ref.gradient(lambda r: loss(positive, r), negatives)


def _autograd(loss: Callable, positive: Array, negatives: Array) -> tuple[Array, Array]:
    """The same two of a loss of the library, by torch."""
    inputs = [t.requires_grad_() for t in ref.tensors(positive, negatives)]
    return tuple(g.numpy() for g in torch.autograd.grad(loss(*inputs).sum(), inputs))


@check("ddn/eq2", stream="ddn eq2")
def eq2(t: Trial) -> None:
    """The three losses against their formulas; for unit vectors, InfoNCE is SimCLR's.

    SimCLR's is a cross-entropy of cosines over tau. Controls: distances not halved, not squared;
    the positive left out of the denominator; vectors that are not of unit length.
    """
    losses = t.part("the three losses", 1e-11, controls=pooled, draws=t.draws)
    doubled = "distances doubled or swapped"
    for tau in TAUS:
        for count in COUNTS:
            positive, negatives = _distances(t.rng, t.draws, count)
            loss = anchors.infonce(*ref.tensors(positive, negatives), tau)
            losses.add(absolute(loss, _nce(positive, negatives, tau)))
            losses.breaks(doubled, absolute(loss, _nce(2 * positive, 2 * negatives, tau)))
            losses.breaks(
                "no positive below", absolute(loss, _nce(positive, negatives, tau, own=0))
            )
        positive, negatives = _distances(t.rng, t.draws, 1)
        both = ref.tensors(positive, negatives)
        losses.add(absolute(anchors.simple(*both), positive - negatives[:, 0]))
        for margin in MARGINS:
            expected = _tri(positive, negatives, tau, margin)
            losses.add(absolute(anchors.soft_triplet(*both, tau, margin), expected))
            swapped = _tri(negatives[:, 0], positive[:, None], tau, margin)
            losses.breaks(doubled, absolute(swapped, expected))
    _simclr(t)


def _simclr(t: Trial) -> None:
    """Half the squared distance of unit vectors is 1 less their cosine; the two losses."""
    cosines = t.part("cosine", 1e-13, controls=pooled, draws=t.draws)
    losses = t.part("SimCLR's loss", 1e-11, controls=pooled, draws=t.draws)
    for dimension, tau, count in product((2, 8, 64), (0.1, 0.5, 1.0), (1, 5, 50)):
        raw = t.rng.standard_normal((t.draws, count + 2, dimension))

        def errors(vectors: Array, tau: float = tau) -> tuple[Array, Array]:
            u, rest = vectors[:, :1], vectors[:, 1:]
            sizes = np.linalg.norm(u, axis=-1) * np.linalg.norm(rest, axis=-1)
            cosine = (u * rest).sum(-1) / sizes
            half = ((u - rest) ** 2).sum(-1) / 2
            simclr = np.log(np.exp(cosine / tau).sum(-1)) - (cosine / tau)[:, 0]
            loss = anchors.infonce(*ref.tensors(half[:, 0], half[:, 1:]), tau)
            return absolute(-half, cosine - 1), absolute(loss, simclr)

        on, off = errors(raw / np.linalg.norm(raw, axis=-1, keepdims=True)), errors(raw)
        for part, right, wrong in zip((cosines, losses), on, off, strict=True):
            part.add(right)
            part.breaks("not of unit length", wrong)


@check("ddn/rem1", stream="ddn rem1")
def rem1(t: Trial) -> None:
    """The soft triplet loss at tau = 1, 1/2, ..., 2^-20 against the hinge.

    Measured: the gap over tau log 2, which the limit needs bounded, and the gap at the last tau.
    Controls: the hinge without margin, and without its corner.
    """
    limit = t.part("limit", 1e-6, controls=pooled, draws=t.draws)
    rate = t.part("rate", 1e-9, controls=worst, draws=t.draws)
    negatives = 2 + 3 * t.rng.random((t.draws, 1))
    u = t.rng.uniform(-1, 1, t.draws)
    u[: t.draws // 2] *= 1e-6  # around the corner, where the limit is slowest
    u[-2:] = 0.5, -0.5
    for margin in (0.0, 0.5, 1.0):
        inputs = ref.tensors(u - margin + negatives[:, 0], negatives)
        for k in range(21):
            soft = anchors.soft_triplet(*inputs, 2.0**-k, margin).numpy()
            gap = np.abs(soft - np.maximum(u, 0))
            excess = gap / (2.0**-k * np.log(2)) - 1
            rate.add(excess)
            rate.breaks("bound tau / 2", np.log(2) / 0.5 * (1 + excess) - 1)
        limit.add(gap)
        limit.breaks("no corner", np.abs(soft - u).max())
        if margin:
            limit.breaks("no margin", np.abs(soft - np.maximum(u - margin, 0)).max())


def _losses() -> Iterator[tuple[float, int, Loss, Callable]]:
    """(tau, H, numpy's loss, the library's) over all settings."""
    yield 1.0, 1, lambda p, n: p - n[..., 0], anchors.simple
    for tau in TAUS:
        for margin in MARGINS:
            yield (
                tau,
                1,
                partial(_tri, tau=tau, margin=margin),
                partial(anchors.soft_triplet, tau=tau, margin=margin),
            )
        for count in COUNTS:
            yield (
                tau,
                count,
                partial(_nce, tau=tau),
                partial(anchors.infonce, tau=tau),
            )


@check("ddn/thm2", stream="ddn thm2")
def thm2(t: Trial) -> None:
    """Signs and sum of the derivatives, complex steps of numpy and autograd of the library.

    Controls: (1 + beta) r_+ - r_-, whose sum is beta; r in the exponent squared, whose is not 0;
    for signs, the loss of swapped arguments.
    """
    signs = t.part("signs", 0, measured=total, controls=total, draws=t.draws)
    sums = t.part("sum", 1e-11, controls=pooled, draws=t.draws)
    for tau, count, ours, theirs in _losses():
        # At distances of many tau the exact signs are below the resolution of 1 - share.
        positive, negatives = _distances(t.rng, t.draws, count, 10 * tau)
        page, library = _slopes(ours, positive, negatives), _autograd(theirs, positive, negatives)
        sums.add(*(absolute(a, b) for a, b in zip(library, page, strict=True)))
        for up, down in (page, library):
            sums.add(np.abs(up + down.sum(-1)))
            signs.add(up <= 0, down >= 0)
            signs.breaks("r_+ and r_- swapped", up >= 0, down <= 0)
    for beta in (-0.5, 0.2):
        positive, negatives = _distances(t.rng, t.draws, 1)
        up, down = _autograd(partial(anchors.simple, beta=beta), positive, negatives)
        sums.breaks("beta", np.abs(up + down.sum(-1)))
        up, down = _slopes(partial(_nce, tau=2.0, power=2), positive, negatives)
        sums.breaks("squared distances", np.abs(up + down.sum(-1)))


@check("ddn/eq43", stream="ddn eq43")
def eq43(t: Trial) -> None:
    """Eqs. 43, 44 against autograd of the library's InfoNCE; Eq. 45.

    Controls: 1/tau dropped; the positive left out of the denominator.
    """
    slopes = t.part("Eqs. 43, 44", 1e-11, controls=pooled, draws=t.draws)
    sums = t.part("Eq. 45", 1e-13, controls=pooled, draws=t.draws)
    for tau, count in product(TAUS, (1, 8)):
        positive, negatives = _distances(t.rng, t.draws, count)
        up, down = _autograd(partial(anchors.infonce, tau=tau), positive, negatives)
        near, far = np.exp(-positive / tau), np.exp(-negatives / tau)
        whole, rest = near + far.sum(-1), far.sum(-1)
        plus, minus = (1 - near / whole) / tau, -far / whole[:, None] / tau
        slopes.add(absolute(plus, up), absolute(minus, down))
        slopes.breaks("no 1/tau", relative(tau * minus, down))
        slopes.breaks("no positive below", relative(-far / rest[:, None] / tau, down))
        sums.add(np.abs(plus + minus.sum(-1)))
        sums.breaks("no positive below", np.abs(plus - far.max(-1) / rest / tau))
