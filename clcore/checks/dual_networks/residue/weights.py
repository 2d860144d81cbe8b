"""Pair weights of the covariance operator (ddn Eqs. 6, 7 and 80).

The loss with detached weights, which has no residue; and several negatives, where the normaliser
couples them.
"""

from itertools import product

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.layers import (
    Layer,
    Objective,
    descent,
    operator,
    pair_weights,
    skew,
    weighted,
)
from clcore.checks.dual_networks.operator import exact_worlds
from clcore.checks.dual_networks.residue import exact_weights
from clcore.ledger import Trial, check, pooled, typical, worst
from clcore.reference import Array, absolute, relative
from clcore.theory.operator import covariance_operator as co

TAUS = (0.1, 0.5, 1.0, 5.0)
CASES = {"InfoNCE": dw.infonce, "triplet": dw.triplet}


# -------------------------------------------------------------------------------- the weight itself


@check("ddn/eq6")
def eq6(t: Trial) -> None:
    """Pairwise weights of the losses, larger for close pairs of samples (Eq. 6, Eqs. 61-63).

    Given   random r in [0, 5], r_+ = 0, H = 1, tau in {0.1, 0.5, 1, 5}, a random margin r_0.
    Claim   -dL/dr_- by autograd of the losses is xi(r) of Eq. 6, and for the triplet loss that of
            Eq. 62; xi falls with r; for L_tri it tends to 1(r <= r_0) as tau -> 0. All proved.
    Fails   without the margin, without 1/tau; for xi in -r; the limit for tau = 1/2, and at r
            = r_0, where xi = 1/2 (in the proof for both sides of r_0 exchanged).
    """
    n, margin = 200 * t.draws, t.rng.uniform(0.1, 2.0)
    r = 5 * t.rng.random(n)
    page = t.part("Eq. 6", 1e-12, draws=n)
    eq62 = t.part("Eq. 62", 1e-12, draws=n)
    small = t.part("small r weighs more", 0.0, draws=n)
    for tau in TAUS:
        infonce, triplet = dw.infonce(tau), dw.triplet(tau, margin)

        # xi(r) is -dL/dr_-, by autograd.
        slope = {case: _slope_at(case, r) for case in (dw.simple(), triplet, infonce)}
        for case in slope:
            page.add(absolute(slope[case], case.weight(r)))
        bare = dw.triplet(tau, 0.0).weight(r)
        page.breaks("no margin", absolute(slope[triplet], bare).max())
        if tau != 1.0:
            page.breaks("no 1/tau", absolute(slope[infonce], tau * infonce.weight(r)).max())

        # For the triplet loss it is Eq. 62 as well.
        near, far = np.exp(-margin / tau), np.exp(-r / tau)
        eq62.add(absolute(slope[triplet], far / (near + far)))
        eq62.breaks("no margin", absolute(slope[triplet], bare).max())

        # It falls with r, where it is not 0 but for rounding.
        for case in (triplet, infonce):
            ordered = case.weight(np.sort(r)[:: max(n // 100, 1)])
            rise = np.diff(ordered) * (ordered[1:] > 1e-15)
            small.add(rise).breaks("in -r", -rise, by=worst)
    page.proves(**exact_weights.eq6())
    eq62.proves(**exact_weights.eq62())
    small.proves(**exact_weights.falls())

    # As tau -> 0 that of the triplet loss is 1(r <= r_0), but at r_0 itself, where it is 1/2.
    away = r[np.abs(r - margin) > 0.05]
    step = (away <= margin).astype(float)
    steep, kink = (
        co.triplet_weight(torch.from_numpy(v), 1e-3, margin).numpy()
        for v in (away, np.array([margin]))
    )
    limit = t.part(r"limit $\tau\to0$", 1e-12).add(np.abs(steep - step))
    limit.breaks("tau = 1/2", np.abs(dw.triplet(0.5, margin).weight(away) - step), by=worst)
    limit.breaks("at r_0", np.abs(kink - 1))
    limit.proves(**exact_weights.sharp())


def _slope_at(case: dw.Case, r: Array) -> torch.Tensor:
    """-dL/dr_- of the library's loss at r_+ = 0, by autograd, as long as r."""
    negative = torch.from_numpy(r)[:, None].requires_grad_()
    total = case.ours(torch.zeros(len(r), dtype=torch.float64), negative).sum()
    return -torch.autograd.grad(total, negative)[0][:, 0]


# ------------------------------------------------------------------------- the loss without residue


def _sum_of(at: Layer, case: dw.Case, negatives: int, moving: str = "") -> Objective:
    """Eq. 7's population loss by loops; `moving`: '' (as printed), 'samples' (no StopGrad), 'views'
    (xi of the augmented points, held)."""
    held = pair_weights(at, case)
    _, p, x, q = dw.parts(at.world)
    S, V = q.shape[1:]
    out = dw.output(at.net, x)

    def objective(near: Array, far: Array) -> Array:
        total = np.zeros(())
        for s, i, j in product(range(S), range(V), range(V)):
            positive = dw.half(near[..., s, i, :], far[..., s, j, :])
            first = p[:, s] * q[:, s, i] * q[:, s, j]
            for others in product(product(range(S), range(V)), repeat=negatives):
                chance, value = first, 0.0
                for t, m in others:
                    chance = chance * p[:, t] * q[:, t, m]
                    xi = held[:, s, t]
                    if moving == "views":
                        xi = case.weight(dw.half(out[:, s, i], out[:, t, m]))
                    if moving == "samples":
                        xi = case.weight(dw.half(near[..., s, i, :], near[..., t, i, :]))
                    value = value + xi * (positive - dw.half(near[..., s, i, :], far[..., t, m, :]))
                total = total + chance * value
        return total

    return objective


@check("ddn/eq7")
def eq7(t: Trial) -> None:
    """A loss with frozen weights has the same operator and no residue (Eq. 7).

    Given   finite worlds of widely spread views, nets of 1 and 3 layers; xi of InfoNCE or the
            triplet loss, taken at the samples and held; the first tower's gradient.
    Claim   The gradient of L^exact = sum_k xi (r_+ - r_k-) is -V^xi[Kbar(x) - Kbar(x')]/2
            vec(W_l), without residue; with two negatives twice that; both towers give twice one's;
            slopes sum to 0. The loss by loops and complex steps.
    Fails   for xi of the views, without StopGrad, for the losses themselves, for r_+ counted once;
            with two negatives for the operator once; in the proof for an asymmetric xi.
    """
    draws = ref.share(min(t.draws, 60), 4)
    single, several, towers = (
        t.part(name, 1e-8, controls=pooled, draws=4 * draws)
        for name in ("H = 1", "several negatives", "both tied towers")
    )
    for depth, (name, make) in product((1, 3), CASES.items()):
        case, widths = make(0.5), dw.DEPTHS[depth]
        world = dw.world(t.rng, draws, widths[0], "additive", 0.8, samples=3, views=2)
        weights = dw.weights(t.rng, draws, widths)
        for at in (Layer(world, weights, number) for number in sorted({1, depth})):
            claimed = at.times(weighted(at, pair_weights(at, case)))

            # With one negative the gradient of L^exact is the operator's.
            one, both = (descent(at, _sum_of(at, case, 1), tied) for tied in (False, True))
            of_views, moving = (
                relative(claimed, descent(at, _sum_of(at, case, 1, what)), 1e-6)
                for what in ("views", "samples")
            )
            loss, loss_of_both = (descent(at, case, tied) for tied in (False, True))
            single.add(relative(claimed, one, 1e-6))
            single.breaks("xi of the views", of_views).breaks("no StopGrad", moving)
            single.breaks(f"the {name} loss itself", relative(claimed, loss, 1e-6))

            # With two it is twice that.
            of_two, of_views, moving = (
                descent(at, _sum_of(at, case, 2, what)) for what in ("", "views", "samples")
            )
            several.add(relative(2 * claimed, of_two, 1e-6))
            several.breaks("the operator once", relative(claimed, of_two, 1e-6), by=typical)
            several.breaks("xi of the views", relative(2 * claimed, of_views, 1e-6))
            several.breaks("no StopGrad", relative(2 * claimed, moving, 1e-6))

            # Both tied towers give twice one's.
            towers.add(relative(both, 2 * one, 1e-6))
            towers.breaks("InfoNCE, triplet", relative(loss_of_both, 2 * loss, 1e-6))
    for part, proof in zip((single, several, towers), exact_worlds.held_weights(), strict=True):
        part.proves(**proof)

    # Slopes by all distances sum to 0: r_+ stands in every term.
    r, xi = 3 * t.rng.random((t.draws, 6)), t.rng.random((t.draws, 5))

    def slopes(positives: float) -> Array:
        return ref.gradient(lambda v: (xi * (positives * v[..., :1] - v[..., 1:])).sum(-1), r)

    zero = t.part("slopes sum to zero", 1e-13, controls=typical)
    # r_+ in one of the five terms only, whichever: a fifth of it in each.
    zero.add(np.abs(slopes(1.0).sum(-1))).breaks("r_+ once only", np.abs(slopes(0.2).sum(-1)))
    zero.proves(**exact_worlds.held_slopes())


# -------------------------------------------------------------------------------- several negatives


@check("ddn/eq80")
def eq80(t: Trial) -> None:
    """InfoNCE with many negatives: coupled weights, no exact symmetry (Eq. 80).

    Given   L_nce with H > 1 at random distances; for the operator a two-layer net; for a nearly
            constant Z points that all see the same distances, H = 256.
    Claim   dL/dr_k- = -e^(-r_k-/tau)/(tau Z), and xi_k is minus that at the samples: the only
            reading that Eqs. 44, 60, 61 and 63 allow, against complex steps. The operator is then
            not symmetric; with Z nearly constant it nearly is the weighted covariance.
    Fails   as typeset (sign, 1/tau, 1/2, inputs for outputs), slip by slip; symmetric for the
            weighted covariance of H = 1; the last for points at random, and without the weight.
    """
    slopes, xis = (t.part(name, 1e-12, controls=pooled) for name in ("slope", "xi"))
    for tau, negatives in product((0.2, 0.5, 2.0), (2, 8)):
        r = t.rng.uniform(0, 2, (t.draws, negatives + 1))
        x = t.rng.standard_normal((t.draws, negatives + 1, 3))
        f = np.tanh(x @ t.rng.standard_normal((t.draws, 3, 2)))
        samples = dw.half(f[:, :1], f)

        def loss(v: Array, tau: float = tau) -> Array:
            e = np.exp(-v / tau)
            return -np.log(e[..., 0] / e.sum(-1))

        slope, start = (ref.gradient(loss, v)[:, 1:] for v in (r, samples))

        # dL/dr_k- = -e^(-r_k-/tau)/(tau Z).
        share = _over_all(np.exp(-r / tau))
        slopes.add(absolute(slope, -share / tau))
        slopes.breaks("as typeset", absolute(slope, share), by=worst)
        slopes.breaks("no 1/tau", absolute(slope, -share))
        slopes.breaks("no sign", absolute(slope, share / tau))

        # xi_k is minus that at the samples.
        right = _over_all(np.exp(-samples / tau)) / tau
        raw = _over_all(np.exp(-2 * dw.half(x[:, :1], x) / tau))
        twice = _over_all(np.exp(-samples / tau) ** 2)  # |f - f'|^2 for r
        xis.add(absolute(-start, right))
        xis.breaks("as typeset", absolute(start, raw), by=worst)
        xis.breaks("no 1/tau in xi", absolute(-start, tau * right))
        xis.breaks("$|x-x'|^2$ for r", absolute(-start, raw / tau))
        xis.breaks("as typeset, but of outputs", absolute(start, twice))
        xis.breaks("no 1/2", absolute(-tau * start, twice))

    # Several negatives: the operator is not symmetric, as exchanging x and x' does nothing.
    count, tau = min(t.draws, 20), 0.5
    skewed = t.part("the symmetry trick fails", 1e-3, ">=", draws=count)
    weights = dw.weights(t.rng, count, dw.DEPTHS[2])
    at = Layer(dw.world(t.rng, count, 4, strength=0.05, samples=4, views=2), weights, 1)
    skewed.add(*(np.median(skew(operator(at, dw.infonce(tau), H))) for H in (2, 3)))
    single = weighted(at, pair_weights(at, dw.infonce(tau)))
    skewed.breaks("H = 1, constant weight", skew(single))

    # Z nearly constant, f = x on an orbit whose five points all see the same distances.
    close = t.part("Z nearly constant", 0.05, draws=count)
    x, other = _orbits(t.rng, count), t.rng.standard_normal((max(count, 20), 5, 4))
    gaps = {H: _gap(x, H, tau) for H in (2, 4, 256)}
    close.add(gaps[256])
    close.breaks("points at random", _gap(other, 256, tau), by=worst)
    close.breaks("without the weight", _gap(x, 256, tau, alike=True))
    close.says(few=np.median(gaps[2]), four=np.median(gaps[4]), most=gaps[256].max())


def _over_all(e: Array) -> Array:
    """The negatives' shares, [draws, H], of terms [draws, 1 + H]."""
    return e[:, 1:] / e.sum(-1, keepdims=True)


def _orbits(rng: np.random.Generator, count: int) -> Array:
    """Five points that turn into one another on two circles, [count, 5, 4]."""
    radii = rng.uniform((1.0, 0.0), (1.5, 0.7), (count, 2))
    turn = 2 * np.pi * np.arange(5) / 5
    return np.stack([f(k * turn) * radii[:, [k - 1]] for k in (1, 2) for f in (np.cos, np.sin)], -1)


def _gap(x: Array, H: int, tau: float, alike: bool = False) -> Array:
    """How far the operator of InfoNCE with H negatives, of f = x on points x [draws, S, d] that are
    as likely, is from the weighted covariance with the mean Z, over the latter's norm."""
    apart = x[:, :, None] - x[:, None]
    e = np.exp(-(apart**2).sum(-1) / (2 * tau))
    Z = 1 + H * e.mean((1, 2), keepdims=True)
    xi = H * (np.ones_like(e) if alike else e) / Z / tau
    main = np.einsum("bst,bsti,bstj->bij", xi, apart, apart) / (2 * e[0].size)
    op = np.einsum("bst,bsi,bstj->bij", _pulls(e, H, tau), x, apart) / e[0].size
    return np.linalg.norm(op - main, axis=(1, 2)) / np.linalg.norm(main, axis=(1, 2))


def _pulls(e: Array, H: int, tau: float) -> Array:
    """H E[-dL/dr_-] of a negative at t for the sample s, [draws, s, t], r_+ = 0: E[1 / (c + sum)]
    over H - 1 others is the integral of exp(-c u) E[exp(-u e)]^(H - 1)."""
    node, mass = np.polynomial.legendre.leggauss(400)
    y = (node + 1) / 2
    u = y / (1 - y) / (1 + H * e.mean())
    du = mass / 2 / (1 - y) ** 2 / (1 + H * e.mean())
    one = np.exp(-u[:, None, None, None] * e)
    whole = np.exp(-u[:, None, None, None]) * one * one.mean(-1, keepdims=True) ** (H - 1)
    return H * e / tau * np.tensordot(du, whole, 1)
