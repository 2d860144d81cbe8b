"""The energy as distances, and InfoNCE's weights: Eqs. 27 and 6, sums of a row (acl Sec. 3.2)."""

from itertools import pairwise

import numpy as np
import sympy

from clcore import losses
from clcore import reference as ref
from clcore.checks.minmax import symbols as sym
from clcore.ledger import Trial, check, exact
from clcore.losses import contrast
from clcore.reference import Array, absolute, relative, tensors


@check("acl/eq27")
def eq27(t: Trial) -> None:
    """The energy as a sum of distance differences, linear in α (Eqs. 27-29).

    Given   random views, N = 9; any weights alpha, not symmetric; d_ij = |z[i] - z[j]|^2/2, d_i =
            |z[i] - z[i']|^2/2.
    Claim   (1) E_alpha = tr C_alpha[z, z] = sum_{i != j} alpha_ij (|z[i] - z[j]|^2 - |z[i]
            - z[i']|^2) = 2 sum alpha_ij (d_ij - d_i): the trace of the double loop, the scalar sum,
            the library's energy. (2) Hence E is linear in alpha. Both proved at N = 3.
    Fails   (1) for the factor 1 in place of 2, and with d_i added; (2) for E - R_H (in the proof:
            alpha squared), which is not linear.
    """
    n = 9
    z, z2 = ref.views(t.rng, t.draws, n, 4)
    alpha, other = (ref.random_weights(t.rng, t.draws, n, n) for _ in range(2))
    trace = np.trace(ref.covariance(alpha, z, z2, z, z2), axis1=-2, axis2=-1)
    scale = float(np.abs(trace).mean())

    def energy_of(weights: Array, regularised: bool = False) -> Array:
        """The library's E, or E - R_H."""
        value = contrast.energy(*tensors(weights, z, z2)).numpy()
        off = ref.off(weights)
        return value + (off * np.log(off)).sum((-1, -2)) if regularised else value

    # (1) The trace against the scalar sum and the library's energy.
    inter, intra = ref.distances(z, z2)
    scalar_sum = sum(
        alpha[:, i, j] * (((z[:, i] - z[:, j]) ** 2).sum(-1) - ((z[:, i] - z2[:, i]) ** 2).sum(-1))
        for i in range(n)
        for j in range(n)
        if i != j
    )
    ours = energy_of(alpha)
    energy = t.part("energy", 1e-12, draws=t.draws)
    energy.add(relative(scalar_sum, trace, scale), relative(ours, trace, scale))
    energy.breaks("factor 1", relative(ours / 2, trace, scale))
    added = 2 * (alpha * (inter + intra[..., None])).sum((-1, -2))
    energy.breaks("second term added", relative(added, trace, scale))
    energy.proves(sym.as_distances(2), breaks={"factor 1": sym.as_distances(1)}, at=sym.SIZES)

    r, s = 0.7, 1.9

    def bend(regularised: bool) -> Array:
        mixed = energy_of(r * alpha + s * other, regularised)
        summed = r * energy_of(alpha, regularised) + s * energy_of(other, regularised)
        return relative(summed, mixed, scale)

    # (2) The energy of r alpha + s alpha' against r and s times the energies.
    linear = t.part("linear in alpha", 1e-12).add(bend(False)).breaks("E - R_H", bend(True))
    linear.proves(sym.linear(1), breaks={"alpha squared": sym.linear(2)}, at=sym.SIZES)


@check("acl/eq6")
def eq6(t: Trial) -> None:
    """InfoNCE with ε = 0 weights pairs by a softmax over distances (Eq. 6).

    Given   phi = tau log x, psi = exp(x/tau) (eps = 0), tau in {0.05, 0.1, 0.5, 2}; random views,
            N = 8.
    Claim   (1) alpha_ij = exp(-d_ij/tau) / sum_j exp(-d_ij/tau): the softmax against Eq. 4 with
            slopes by complex steps, and the library's. (2) Rows sum to 1. (3) Other second views,
            which change d_i alone, change nothing. (4) In a row a closer pair weighs more. (1) to
            (3) proved at N = 3, (4) at N = 4.
    Fails   (1) for 2 tau; (1) to (3) at eps = 1, where rows sum to less and d_i counts; (4) for
            linear psi, which favours no pair, and in the proof with the order turned round.
    """
    z, z2 = ref.views(t.rng, t.draws, 8, 3)
    tz, moved_views = tensors(z, z2), tensors(z, z + 0.5 * t.rng.standard_normal(z.shape))
    ones = np.ones(z.shape[:2])
    inter, intra = ref.distances(z, z2)
    formula = t.part("formula", 1e-8, draws=t.draws)
    sums = t.part("beta = 1", 1e-12, draws=t.draws)
    moved = t.part("no d_i", 1e-12, draws=t.draws)
    order = t.part("close pairs first", 0.0, draws=t.draws)
    violations = 0
    for tau in (0.05, 0.1, 0.5, 2.0):
        printed = ref.softmax(inter, tau)
        definition = ref.importance(inter, intra, *ref.table1(tau, 0.0)[0][1:])
        pair, kept = losses.infonce_pair(tau, 0.0), losses.infonce_pair(tau, 1.0)
        ours, one = (contrast.pairwise_importance(*tz, p) for p in (pair, kept))
        # (1) The softmax, Eq. 4, the library.
        formula.add(relative(printed, definition), relative(ours, printed))
        formula.breaks("tau doubled", relative(ref.softmax(inter, 2 * tau), definition))
        formula.breaks("eps = 1", relative(one, definition))
        # (2) Rows sum to 1.
        sums.add(absolute(ours.sum(-1), ones)).breaks("eps = 1", absolute(one.sum(-1), ones))
        # (3) Other second views.
        moved.add(relative(contrast.pairwise_importance(*moved_views, pair), ours))
        moved.breaks("eps = 1", relative(contrast.pairwise_importance(*moved_views, kept), one))
        # (4) A count: neighbours in a row's order of distance whose weights do not fall.
        violations += ref.disorder(ours.numpy(), inter)
    flat = contrast.pairwise_importance(*tz, losses.linear_pair()).numpy()
    order.add(violations).breaks("linear psi", ref.disorder(flat, inter))

    # The proofs, in the same order.
    doubled = {"eps = 1": sym.softmax(1, near=True, scale=0)}
    formula.proves(sym.softmax(0, near=True), breaks=doubled, at="N = 3")
    d, far = sym.infonce(), sym.infonce(1)
    one = exact.equal(sum(d.slopes()), 1)
    sums.proves(one, breaks={"eps = 1": exact.equal(sum(far.slopes()), 1)}, at="N = 3")
    still, moves = ([sympy.diff(a, of.intra[0]) for a in of.slopes()] for of in (d, far))
    moved.proves(exact.equal(still, 0), breaks={"eps = 1": exact.equal(moves, 0)}, at="N = 3")
    e, w, rest = exact.vector("e", 3, positive=True)  # exp(-d/tau) of the farther pair; the nearer
    lead = (e * (1 + w) - e) / (e * (1 + w) + e + rest)  # one is 1 + w times that
    order.proves(
        exact.positive(lead, e * w / (e * (1 + w) + e + rest)),
        breaks={"far pairs first": exact.positive(-lead, -e * w / (e * (1 + w) + e + rest))},
        at="N = 4",
    )


@check("acl/num2")
def num2(t: Trial) -> None:
    """InfoNCE discounts samples that are already well separated (Sec. 3.2, after Theorem 2).

    Given   InfoNCE, tau in {0.2, 0.5, 1}, eps in {0, 0.3, 1}; random views, N = 8; for (2), at tau
            = 2, one sample that leaves the others by factors 1, 2, 4, 8 while its views close up.
    Claim   (1) sum_{j != i} alpha_ij = xi_i/(xi_i + eps), xi_i = sum_j exp((d_i - d_ij)/tau). (2)
            At eps = 1 each step of that sample lowers its row sum: what is well separated already
            weighs little. Both proved at N = 3.
    Fails   (1) for 2 eps; (2) at eps = 0, where every row sums to 1 wherever the sample is.
    """
    z, z2 = ref.views(t.rng, t.draws, 8, 3)
    inter, intra = ref.distances(z, z2)

    def masses(a: Array, b: Array, tau: float, eps: float) -> Array:
        pair = losses.infonce_pair(tau, eps)
        return contrast.row_mass(contrast.pairwise_importance(*tensors(a, b), pair)).numpy()

    # (1) Row sums of the library's alpha against xi in numpy.
    sums = t.part("row sums", 1e-12, draws=t.draws)
    for tau in (0.2, 0.5, 1.0):
        xi = np.exp(ref.off(intra[..., None] - inter) / tau).sum(-1)
        for eps in (0.0, 0.3, 1.0):
            ours = masses(z, z2, tau, eps)
            sums.add(absolute(ours, xi / (xi + eps)))
            if eps:
                sums.breaks("eps doubled", absolute(ours, xi / (xi + 2 * eps)))
    # (2) Sample 0 starts outside the others, moves away by factors 1, 2, 4, 8 and pulls its views
    # together by the same factors: its row sum after a step over that before.
    direction = ref.unit(z[:, 0])
    radius = 0.5 + np.linalg.norm(z, axis=-1).max(-1, keepdims=True)
    path = []
    for factor in (1, 2, 4, 8):
        a, b = z.copy(), z2.copy()
        a[:, 0] = factor * radius * direction
        b[:, 0] = a[:, 0] + (z2[:, 0] - z[:, 0]) / factor
        path.append([masses(a, b, 2.0, eps)[:, 0] for eps in (1.0, 0.0)])
    sums.proves(sym.masses(sym.EPS), breaks={"eps doubled": sym.masses(sym.EPS, 2)}, at="N = 3")
    discount = t.part("discount", 0.999, draws=t.draws)
    for (before, level_before), (after, level) in pairwise(path):
        discount.add(after / before).breaks("eps = 0", level / level_before)
    discount.proves(
        sym.separated(sym.EPS), breaks={"eps = 0": sym.separated(sympy.Integer(0))}, at="N = 3"
    )
