"""Checks of ddn Eq. 2 and Theorem 2: the contrastive losses as functions of distances.

`dual_losses` against the printed formulas in numpy (naive exponentials) and complex steps.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.ledger import Check
from clcore.losses import anchors
from clcore.reference import Array, absolute, relative, worst

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


def eq2(draws: int, seed: int) -> Iterator[Check]:
    """The three losses against their formulas; for unit vectors, InfoNCE is SimCLR's.

    SimCLR's is a cross-entropy of cosines over tau. Controls: distances not halved, not squared;
    the positive left out of the denominator; vectors that are not of unit length.
    """
    rng, check = ref.generator("ddn eq2", seed), partial(Check, "ddn/eq2", draws=draws)
    errors, doubled, roots = [], [], []
    for tau in TAUS:
        for count in COUNTS:
            positive, negatives = _distances(rng, draws, count)
            loss = anchors.infonce(*ref.tensors(positive, negatives), tau)
            errors.append(absolute(loss, _nce(positive, negatives, tau)))
            doubled.append(absolute(loss, _nce(2 * positive, 2 * negatives, tau)))
            roots.append(absolute(loss, _nce(positive, negatives, tau, own=0)))
        positive, negatives = _distances(rng, draws, 1)
        both = ref.tensors(positive, negatives)
        errors.append(absolute(anchors.simple(*both), positive - negatives[:, 0]))
        for margin in MARGINS:
            expected = _tri(positive, negatives, tau, margin)
            errors.append(absolute(anchors.soft_triplet(*both, tau, margin), expected))
            swapped = _tri(negatives[:, 0], positive[:, None], tau, margin)
            doubled.append(absolute(swapped, expected))
    broken = {"distances doubled or swapped": doubled, "no positive below": roots}
    yield check(worst(*errors), 1e-11, ref.pooled(broken), part="the three losses")
    identity, loose, same, other = [], [], [], []
    for dimension in (2, 8, 64):
        for tau in (0.1, 0.5, 1.0):
            for count in (1, 5, 50):
                raw = rng.standard_normal((draws, count + 2, dimension))
                z = raw / np.linalg.norm(raw, axis=-1, keepdims=True)
                for vectors, halves, losses in ((z, identity, same), (raw, loose, other)):
                    u, rest = vectors[:, :1], vectors[:, 1:]
                    sizes = np.linalg.norm(u, axis=-1) * np.linalg.norm(rest, axis=-1)
                    cosine = (u * rest).sum(-1) / sizes
                    half = ((u - rest) ** 2).sum(-1) / 2
                    halves.append(absolute(-half, cosine - 1))
                    logits = cosine / tau
                    simclr = np.log(np.exp(logits).sum(-1)) - logits[:, 0]
                    inputs = ref.tensors(half[:, 0], half[:, 1:])
                    losses.append(absolute(anchors.infonce(*inputs, tau), simclr))
    yield check(worst(*identity), 1e-13, ref.pooled({"not of unit length": loose}), part="cosine")
    yield check(
        worst(*same), 1e-11, ref.pooled({"not of unit length": other}), part="SimCLR's loss"
    )


def rem1(draws: int, seed: int) -> Iterator[Check]:
    """The soft triplet loss at tau = 1, 1/2, ..., 2^-20 against the hinge.

    Measured: the gap over tau log 2, which the limit needs bounded, and the gap at the last tau.
    Controls: the hinge without margin, and without its corner.
    """
    rng, check = ref.generator("ddn rem1", seed), partial(Check, "ddn/rem1", draws=draws)
    negatives = 2 + 3 * rng.random((draws, 1))
    u = rng.uniform(-1, 1, draws)
    u[: draws // 2] *= 1e-6  # around the corner, where the limit is slowest
    u[-2:] = 0.5, -0.5
    rates, gaps, lost = [], [], {"no margin": [], "no corner": []}
    for margin in (0.0, 0.5, 1.0):
        inputs = ref.tensors(u - margin + negatives[:, 0], negatives)
        hinge = np.maximum(u, 0)
        for k in range(21):
            soft = anchors.soft_triplet(*inputs, 2.0**-k, margin).numpy()
            rates.append(np.abs(soft - hinge) / (2.0**-k * np.log(2)) - 1)
        gaps.append(np.abs(soft - hinge))
        lost["no corner"].append(np.max(np.abs(soft - u))[None])
        if margin:
            lost["no margin"].append(np.max(np.abs(soft - np.maximum(u - margin, 0)))[None])
    yield check(worst(*gaps), 1e-6, ref.pooled(lost), part="limit", note=r"at $\tau=2^{-20}$")
    broken = {"bound tau / 2": float(np.log(2) / 0.5 * (1 + worst(*rates)) - 1)}
    yield check(
        worst(*rates), 1e-9, broken, part="rate", note=r"gap $\le\tau\log2$, met at the corner"
    )


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


def thm2(draws: int, seed: int) -> Iterator[Check]:
    """Signs and sum of the derivatives, complex steps of numpy and autograd of the library.

    Controls: (1 + beta) r_+ - r_-, whose sum is beta; r in the exponent squared, whose is not 0;
    for signs, the loss of swapped arguments.
    """
    rng, check = ref.generator("ddn thm2", seed), partial(Check, "ddn/thm2", draws=draws)
    sums, wrong, same, swapped = [], 0, [], 0
    tilted, squared = [], []
    for tau, count, ours, theirs in _losses():
        # At distances of many tau the exact signs are below the resolution of 1 - share.
        positive, negatives = _distances(rng, draws, count, 10 * tau)
        up, down = _slopes(ours, positive, negatives)
        up2, down2 = _autograd(theirs, positive, negatives)
        same += [absolute(up2, up), absolute(down2, down)]
        for a, b in ((up, down), (up2, down2)):
            sums.append(np.abs(a + b.sum(-1)))
            wrong += int((a <= 0).sum() + (b >= 0).sum())
            swapped += int((a >= 0).sum() + (b <= 0).sum())
    for beta in (-0.5, 0.2):
        positive, negatives = _distances(rng, draws, 1)
        up, down = _autograd(partial(anchors.simple, beta=beta), positive, negatives)
        tilted.append(np.abs(up + down.sum(-1)))
        up, down = _slopes(partial(_nce, tau=2.0, power=2), positive, negatives)
        squared.append(np.abs(up + down.sum(-1)))
    broken = {"beta": tilted, "squared distances": squared}
    yield check(wrong, 0, {"r_+ and r_- swapped": swapped}, part="signs")
    yield check(worst(*sums, *same), 1e-11, ref.pooled(broken), part="sum")


def eq43(draws: int, seed: int) -> Iterator[Check]:
    """Eqs. 43, 44 against autograd of the library's InfoNCE; Eq. 45.

    Controls: 1/tau dropped; the positive left out of the denominator.
    """
    rng, check = ref.generator("ddn eq43", seed), partial(Check, "ddn/eq43", draws=draws)
    errors, sums = [], []
    broken = {"no 1/tau": [], "no positive below": []}
    apart = []
    for tau in TAUS:
        for count in (1, 8):
            positive, negatives = _distances(rng, draws, count)
            up, down = _autograd(partial(anchors.infonce, tau=tau), positive, negatives)
            near, far = np.exp(-positive / tau), np.exp(-negatives / tau)
            whole, rest = near + far.sum(-1), far.sum(-1)
            plus, minus = (1 - near / whole) / tau, -far / whole[:, None] / tau
            errors += [absolute(plus, up), absolute(minus, down)]
            sums.append(np.abs(plus + minus.sum(-1)))
            broken["no 1/tau"].append(relative(tau * minus, down))
            broken["no positive below"].append(relative(-far / rest[:, None] / tau, down))
            apart.append(np.abs(plus - far.max(-1) / rest / tau))
    yield check(worst(*errors), 1e-11, ref.pooled(broken), part="Eqs. 43, 44")
    yield check(worst(*sums), 1e-13, ref.pooled({"no positive below": apart}), part="Eq. 45")
