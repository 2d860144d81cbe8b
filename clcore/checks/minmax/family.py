"""The loss family (phi, psi) of acl Sec. 3: Eq. 1, InfoNCE, linear pairs; for Table 1 row by row
see `minmax.table1`."""

from functools import partial

import numpy as np
import torch

from clcore import losses
from clcore import reference as ref
from clcore.checks.minmax import sources
from clcore.checks.minmax import symbols as sym
from clcore.checks.minmax.table1 import TOLERANCE, Views, same_loss, value_at
from clcore.ledger import Trial, check, pooled
from clcore.losses import contrast
from clcore.reference import Array, relative, tensors


@check("acl/eq1")
def eq1(t: Trial) -> None:
    """A general family of contrastive losses (Eq. 1).

    Given   random views z, z' of batches of N = 2..12 samples in n_L = 1..5 dimensions; the eight
            pairs (phi, psi) of Table 1.
    Claim   L = sum_i phi(sum_{j != i} psi(d_i - d_ij)), d_ij = |z[i] - z[j]|^2/2 among first
            views, d_i = |z[i] - z[i']|^2/2: the loss of `clcore.losses` is a loop over i and j.
    Fails   for squared lengths without the 1/2, for half of the plain lengths, and with j = i in
            the sum.
    """
    sizes = ((2, 1), (3, 5), (5, 2), (8, 3), (12, 4))
    draws = t.share(len(sizes))
    equal = t.defines("", 1e-12, controls=pooled, draws=draws * len(sizes))
    for samples, outputs in sizes:
        z, z2 = ref.views(t.rng, draws, samples, outputs)
        inter, intra = ref.distances(z, z2)
        for (_, phi, psi), pair in zip(ref.table1(), losses.table1(), strict=True):
            # The library's loss is a loop over i and j.
            error = partial(relative, contrast.family_loss(*tensors(z, z2), pair), floor=1.0)
            loops = partial(ref.family_loss, phi=phi, psi=psi)
            equal.add(error(loops(inter, intra)))
            equal.breaks("no 1/2", error(loops(2 * inter, 2 * intra)))
            equal.breaks("no square", error(loops(np.sqrt(inter / 2), np.sqrt(intra / 2))))
            equal.breaks("j = i kept", error(loops(inter, intra, diagonal=True)))


@check("acl/eq2")
def eq2(t: Trial) -> None:
    """Generalised InfoNCE as a member of the family, and the ε of SimCLR (Eq. 2).

    Given   random views of 8 samples, tau in {0.1, 0.5, 1}, eps in {0, 0.3, 1}; for SimCLR outputs
            of unit norm, tau = 1/2.
    Claim   phi = tau log(eps + x), psi = exp(x/tau) in Eq. 1 is -tau sum_i log[exp(-d_i/tau) /
            (eps exp(-d_i/tau) + sum_{j != i} exp(-d_ij/tau))], written out by loops; and eps = 0
            is the loss of SimCLR.
    Fails   the formula: for eps without the factor exp(-d_i/tau), without tau in front, for 2 tau.
            SimCLR: NT-Xent, over all 2N views, is not Eq. 2 at eps = 0 (nor, the control, at 1/2),
            in value and gradient up to a constant and a factor. Corrected: with first views as the
            only anchors and negatives it is tau^-1 times Eq. 2 at eps = 1; not at eps = 0 or 1/2,
            and not over all views.
    """
    z, z2 = ref.views(t.rng, t.draws, 8, 4)
    inter, intra = ref.distances(z, z2)

    # The library's loss is the formula, written out by loops.
    formula = t.part("formula", 1e-11, draws=t.draws)
    for tau in (0.1, 0.5, 1.0):
        for eps in (0.0, 0.3, 1.0):
            literal = ref.infonce(inter, intra, tau, eps)
            error = partial(relative, b=literal, floor=1.0)
            formula.add(error(contrast.infonce(*tensors(z, z2), tau, eps)))
            if eps:  # at eps = 0 this control is no change
                formula.breaks("eps alone", error(ref.infonce(inter, intra, tau, eps, positive=0)))
            if tau != 1:
                formula.breaks("no tau in front", error(literal / tau))
            formula.breaks("tau doubled", error(ref.infonce(inter, intra, 2 * tau, eps)))

    _simclr(t, ref.views(t.rng, t.draws, 8, 4))


def _simclr(t: Trial, views: Views) -> None:
    """Eq. 2 on the sphere against NT-Xent, in value and gradient, both by the library.

    An anchor of NT-Xent meets 2N - 2 negatives, and both views are anchors; Eq. 2 has N - 1 and N.
    """
    tau = 0.5
    source = partial(losses.source_simclr, tau=tau)
    first = partial(source, second_views=False)

    def error(loss: partial, eps: float, factor: float | None = None) -> Array:
        return same_loss(loss, losses.infonce_pair(tau, eps), views, factor, radius=1.0)

    # As printed: over all views, the factor fitted; then the same error in numpy.
    printed = t.part("SimCLR", TOLERANCE)
    printed.add(error(source, 0.0)).breaks("eps = 1/2", error(source, 0.5))
    page = ref.table1(tau, 0.0)[0][1:]
    printed.fails_by(sources.apart(partial(sources.simclr, tau=tau), page, views, sphere=True))
    # The example of the page: both losses, and by hand.
    for k, cosine in enumerate((1, 0, -1), 1):
        turned = [[1, 0], [cosine, 1 - abs(cosine)]]
        simclr = value_at(partial(source, tau=1.0), turned)
        ours = value_at(losses.infonce_pair(1.0, 0.0), turned)
        printed.says(**{f"simclr{k}": simclr, f"eq{k}": ours})
        # two anchors, each with two negatives as similar as that, or one at a distance
        hand = {f"simclr{k}": 2 * np.log(1 + 2 * np.exp(cosine - 1)), f"eq{k}": 2 * (cosine - 1)}
        printed.confirms(**hand)
    # Corrected: first views alone, eps = 1, the factor tau.
    corrected = t.corrected("SimCLR", TOLERANCE)
    corrected.add(error(first, 1.0, tau))
    corrected.breaks("eps = 0", error(first, 0.0))
    corrected.breaks("eps = 1/2", error(first, 0.5))
    corrected.breaks("NT-Xent over all views", error(source, 1.0))


@check("acl/eq33")
def eq33(t: Trial) -> None:
    """Pairwise importance of InfoNCE for any ε (Eq. 33).

    Given   random views of 8 samples; phi = tau log(eps + x), psi = exp(x/tau), tau in {0.2, 0.5,
            1}, eps in {0.01, 0.3, 1, 5}.
    Claim   alpha_ij = exp((d_i - d_ij)/tau) / (eps + sum_j exp((d_i - d_ij)/tau)) = exp(-d_ij/tau)
            / (eps exp(-d_i/tau) + sum_j exp(-d_ij/tau)): both forms, and the library's weights,
            are -dL_nce/dd_ij by complex steps; proved at N = 3.
    Fails   for eps without exp(-d_i/tau), for d_ij - d_i in place of d_i - d_ij, for phi' without
            tau; the proof with 2 eps.
    """
    z, z2 = ref.views(t.rng, t.draws, 8, 3)
    inter, intra = ref.distances(z, z2)
    off, near = ~np.eye(8, dtype=bool), intra[..., None]
    agree = t.part("", 1e-7, draws=t.draws)
    for tau in (0.2, 0.5, 1.0):
        far = np.exp(-inter / tau) * off
        gaps, back = (np.exp(s * (near - inter) / tau) * off for s in (1, -1))
        for eps in (0.01, 0.3, 1.0, 5.0):
            first = gaps / (eps + gaps.sum(-1, keepdims=True))
            second = far / (eps * np.exp(-near / tau) + far.sum(-1, keepdims=True))
            loss = partial(ref.infonce, intra=intra, tau=tau, eps=eps)
            slope = -ref.gradient(loss, inter) * off
            ours = contrast.pairwise_importance(*tensors(z, z2), losses.infonce_pair(tau, eps))
            # Both forms of Eq. 33 and the library's weights, against the slope of the loss.
            agree.add(*(relative(v, slope) for v in (first, second, ours)))
            alone = far / (eps + far.sum(-1, keepdims=True))
            agree.breaks("eps alone", relative(alone, slope))
            turned = back / (eps + back.sum(-1, keepdims=True))
            agree.breaks("sign of the gap", relative(turned, slope))
            if tau != 1:
                agree.breaks("tau missing", relative(first / tau, slope))
    for near_form in (False, True):
        agree.proves(
            sym.softmax(sym.EPS, near_form),
            breaks={"eps doubled": sym.softmax(sym.EPS, near_form, 2)},
            at="N = 3",
        )


@check("acl/num1")
def num1(t: Trial) -> None:
    """Linear φ and ψ give a constant pairwise importance (Sec. 3.2).

    Given   phi(x) = a x, psi(x) = b x with a, b in (0.5, 1.5); random views, N = 2..10.
    Claim   L = a b (sum_{i != j} d_i - d_ij), a difference of distances, and alpha_ij = a b for
            all i != j, in this batch and in any other. Both proved at N = 3.
    Fails   L without the positive distances d_i; alpha for psi = exp (not constant, and another in
            another batch) and for phi = x^2.
    """
    sizes = (2, 3, 6, 10)
    draws = t.share(len(sizes))
    loss = t.part("loss", 1e-12)
    alpha = t.part("alpha", 1e-12, draws=draws * len(sizes))
    exponential = losses.Pair("", lambda x: x, torch.exp, torch.ones_like, torch.exp)
    squared = losses.Pair("", torch.square, lambda x: x, lambda x: 2 * x, torch.ones_like)
    for n in sizes:
        z, z2 = ref.views(t.rng, draws, n, 3)
        a, b = (float(v) for v in t.rng.random(2) + 0.5)
        linear = losses.linear_pair(a, b)
        inter, intra = ref.distances(z, z2)

        # L = a b (sum over pairs of d_i - d_ij).
        ours = contrast.family_loss(*tensors(z, z2), linear)
        positive, negative = (n - 1) * intra.sum(-1), inter.sum((-1, -2))
        loss.add(relative(ours, a * b * (positive - negative), 1.0))
        loss.breaks("positive distances dropped", relative(ours, -a * b * negative, 1.0))

        # alpha by autograd against a b for all i != j; alpha by Eq. 4 in one batch and in another.
        constant = np.broadcast_to(a * b * ~np.eye(n, dtype=bool), inter.shape)
        uneven = partial(_uneven, tensors(inter, intra), constant)
        moved = partial(_moved, tensors(z, z2), tensors(*ref.views(t.rng, draws, n, 3)))
        alpha.add(uneven(linear), moved(linear))
        alpha.breaks("psi = exp", uneven(exponential)).breaks("phi = x^2", uneven(squared))
        alpha.breaks("psi = exp, other batch", moved(exponential))
    alpha.proves(sym.constant(1), breaks={"phi = x^2": sym.constant(2)}, at="N = 3")
    loss.proves(
        sym.difference(1), breaks={"positive distances dropped": sym.difference(0)}, at="N = 3"
    )


Tensors = tuple[torch.Tensor, ...]


def _uneven(distances: Tensors, constant: Array, pair: losses.Pair) -> Array:
    """How far alpha, by autograd at these distances, is from `constant` [draws, n, n]: [draws]."""
    return relative(contrast.importance_by_autograd(*distances, pair)[0], constant)


def _moved(views: Tensors, others: Tensors, pair: losses.Pair) -> Array:
    """How far alpha of one batch is from that of another, [draws]."""
    one, other = (contrast.pairwise_importance(*v, pair) for v in (views, others))
    return relative(other, one)


@check("acl/num4")
def num4(t: Trial) -> None:
    """An exponential ψ, as in most known losses, makes α an independent variable (Sec. 3.2, before
    Theorem 2).

    Given   the eight psi of Table 1; for (2) random batches of 6, all distances times 0.1, which
            keeps the logarithm of Lifted Structured positive.
    Claim   (1) Most psi are exponentials: log psi has a constant slope in at least 5 of the 8 rows.
            (2) For the two with a shift in the exponent, Soft Triplet and Lifted Structured, the
            weights of Eq. 4 are still Theorem 2's minimiser, by a Newton solver.
    Fails   (1) counted for linear psi; (2) with row sums that leave the shift out, and for psi
            = sigmoid, no exponential, even with its own row sums.
    """
    # (1) Rows of which log psi has one slope; then rows of which psi has.
    grid, rows = np.linspace(0.1, 3, 50), ref.table1()
    logs = [ref.slope(lambda x, p=psi: np.log(p(x)), grid) for _, _, psi in rows]
    count = t.part("count", 5.0, ">=")
    count.add(sum(np.std(slope) < 1e-12 for slope in logs))
    linear = sum(np.std(ref.slope(psi, grid)) < 1e-12 for _, _, psi in rows)
    count.breaks("rows with linear psi", linear)

    # (2) Eq. 4 against the min player with entropy, whose rows sum to xi phi'(xi)/tau.
    z, z2 = ref.views(t.rng, t.draws, 6, 3)
    inter, intra = (0.1 * d for d in ref.distances(z, z2))
    gap = ref.off(inter - intra[..., None])
    shifted = t.part("shifted rows", 1e-6, draws=t.draws)

    def of_player(xi: Array, phi: ref.Function, tau: float) -> Array:
        return ref.newton("entropy", 2 * gap, xi * ref.slope(phi, xi) / tau, tau)

    functions = {name: (phi, psi) for name, phi, psi in rows}
    for name, tau in (("Soft Triplet", 0.5), ("Lifted Structured", 1.0)):
        phi, psi = functions[name]
        alpha = ref.off(ref.importance(inter, intra, phi, psi))
        shifted.add(relative(of_player(psi(-gap).sum(-1), phi, tau), alpha))
        unshifted = of_player(np.exp(-gap / tau).sum(-1), phi, tau)
        shifted.breaks("row sums without the shift", relative(unshifted, alpha))
    alpha = ref.off(ref.importance(inter, intra, *functions["Modified Triplet"]))
    sigmoid = ref.newton("entropy", 2 * gap, alpha.sum(-1), 0.5)
    shifted.breaks("psi = sigmoid", relative(sigmoid, alpha))
