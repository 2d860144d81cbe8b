"""Checks of ncl App. C.3 up to the loss: regions, activation, noise, one summand, their sum."""

import itertools
from functools import partial

import numpy as np
import sympy
import torch

from clcore.checks.dynamics import srelu_regions
from clcore.checks.dynamics import srelu_symbols as sym
from clcore.checks.dynamics.srelu import brute, signed, subsets
from clcore.checks.dynamics.srelu_starts import Warm, warm
from clcore.ledger import Trial, check, exact, pooled, typical
from clcore.reference import Array, tensors
from clcore.theory.sparse import sparse_coding as sc
from clcore.theory.sparse import srelu_dynamics as sd


def realisations(rng: np.random.Generator, d: int, size: float) -> tuple[Array, Array, Array]:
    """All pairs of latent and mask, each with noise of absolute size `size`: [k, d] each."""
    pairs = list(itertools.product(signed(d), subsets(d)))
    z, D = (np.array([p[k] for p in pairs]) for k in (0, 1))
    return z, D, size * (2 * rng.integers(0, 2, z.shape) - 1)


@check("ncl/thm3-region")
def thm3_region(t: Trial) -> None:
    """Mask and latent set the sign region of a pre-activation (App. C.3).

    Given   warm starts, all latents and masks, bounded noise, d = 4; b up to 0.4, and anywhere in
            the interval below 1 + Delta_ii - |c_b|.
    Claim   The pre-activation is above b, below -b or between as D_ii z_i is 1, -1 or 0.
    Fails   for b near 1 - |c_b| with Delta_ii < 0, and for b below |c_b|; in the proof also for a
            c_b in which the own error Delta_ii counts.
    """
    d, size, count = 4, 0.02, min(t.draws, 60)
    part, cut = t.part("", 0.0, controls=pooled), []
    for delta in (0.03, 0.1, 0.3):
        w = warm(t.rng, count, d, delta, size)
        for r in range(count):
            # Every pre-activation u, and the largest |c_b| of each row.
            z, D, noise = realisations(t.rng, d, size)
            W, b = w.online[r], w.b_online[r]
            u = (D * (z + noise)) @ W.T
            crosstalk = (D * z) @ (W - np.diag(np.diag(W))).T + (D * noise) @ W.T
            c = np.abs(crosstalk).max(0)

            def violations(b: Array, u: Array = u, case: Array = D * z) -> Array:
                """How many realisations of each row are in the wrong region, [d]; case: 1, -1, or
                0 for "D_ii = 0 or z_i = 0"."""
                right = np.where(case == 1, u > b, np.where(case == -1, u < -b, np.abs(u) < b))
                return (~right).sum(0)

            # Counted for b up to 0.4, and for b anywhere in the interval, with b = o(1) left out,
            # of the rows in which b < 1 + Delta_ii - |c_b|.
            wide = c + (1 - 2 * c) * t.rng.uniform(0.001, 0.999, d)
            found = violations(wide)
            cut.append(found > 0)
            part.add((violations(b) + found * (wide < np.diag(W) - c)).sum())

            # At the upper end of the interval, and below the lower one.
            if np.diag(W).min() < 1:
                part.breaks("b near 1 - |c_b|", violations((1 - c) * (1 - 1e-9)).sum())
            part.breaks("b = 0.9 |c_b|", violations(0.9 * c).sum())
    part.says(cut=np.sum(cut), rows=np.size(cut))

    # In symbols: what a pre-activation consists of, and the signs in the three cases.
    part.proves(
        srelu_regions.split(),
        breaks={"own error counted in": srelu_regions.split(own_counted=True)},
        at="d = 2, signs as in ncl/thm3-region",
    )
    part.proves(
        srelu_regions.regions(),
        breaks={
            "b below |c_b|": srelu_regions.regions(below=True),
            "b up to 1 - |c_b|": srelu_regions.regions(wide=True),
        },
        at="b + max c_b < 1 + Delta_ii",  # what b = o(1) is for
    )


@check("ncl/thm3-srelu")
def thm3_srelu(t: Trial) -> None:
    """Symmetric ReLU in closed form near the warm start (App. C.3).

    Given   warm starts, all latents and masks, bounded noise, d = 4; biases above |c_b|, at most
            0.4.
    Claim   Eq. 14 of neuron i's pre-activation is D_ii [z_i (1 + Delta_ii - b_i) + r] where z_i is
            not 0, else 0, with r = sum_{j != i} Delta_ij D_jj (z_j + eps_j) + (1 + Delta_ii) eps_i.
    Fails   without the mask D_ii, with -b_i also where z_i = -1, and for b near 1 - |c_b| with
            Delta_ii < 0.
    """
    d, size, count = 4, 0.01, min(t.draws, 60)
    w = warm(t.rng, count, d, 0.3, size)
    part = t.part("", 1e-14, controls=pooled)
    for r in range(count):
        z, D, noise = realisations(t.rng, d, size)
        W, b = w.online[r], w.b_online[r]
        gap = partial(_off_expression, W, z=z, D=D, noise=noise)
        part.add(gap(b))
        part.breaks("no mask", gap(b, masked=False)).breaks("bias of one sign", gap(b, sign=-1))
        if np.diag(W).min() < 1:
            crosstalk = (D * z) @ (W - np.diag(np.diag(W))).T + (D * noise) @ W.T  # c_b
            part.breaks("b near 1 - |c_b|", gap((1 - np.abs(crosstalk).max(0)) * (1 - 1e-9)))
    part.proves(
        _simplified(1),
        breaks={"bias of one sign": _simplified(-1)},
        at="d = 2, signs as in ncl/thm3-region",
    )


def _off_expression(
    W: Array, b: Array, z: Array, D: Array, noise: Array, masked: bool = True, sign: int = 1
) -> float:
    """The largest distance of Eq. 14 from the expression; `masked`: with its factor D_ii; `sign` of
    the bias where z is -1."""
    direct = sc.symmetric_relu(*tensors((D * (z + noise)) @ W.T, b)).numpy()
    own = np.diag(W) - 1
    rest = W - np.diag(np.diag(W))
    cross = (D * z) @ rest.T
    beside = (1 + own) * noise + (D * noise) @ rest.T
    up = (z == 1) * (1 + own + cross - b + beside)
    down = (z == -1) * (-1 - own + cross + sign * b + beside)
    return float(np.abs((D if masked else 1) * (up + down) - direct).max())


def _simplified(sign: int) -> exact.Shown:
    """Neuron 1 in each region, all masks and latents, against the expression with its noise;
    `sign` of the bias where z is -1."""
    net, eps = sym.nets()[0], exact.vector("e", sym.D)
    own, other, b = net.delta[0, 0], net.delta[0, 1], net.b[0]
    ours, printed = [], []
    for mask, (z, _) in itertools.product(sym.MASKS, sym.latents()):
        ours.append(sym.output(net, 0, mask, [z[j] + eps[j] for j in range(sym.D)], z))
        cross = other * mask[1] * z[1]
        noise = (1 + own) * eps[0] + other * mask[1] * eps[1]
        up = int(z[0] == 1) * (1 + own + cross - b + noise)
        down = int(z[0] == -1) * (-1 - own + cross + sign * b + noise)
        printed.append(mask[0] * (up + down))
    return exact.equal(ours, printed)


def _summands(w: Warm, x: Array, mass: Array) -> Array:
    """Exact E[SReLU SReLU] of each row, [draws, d], for the law (x, mass)."""
    online, target, b_online, b_target, alpha, _ = tensors(*w)
    points, chance = tensors(x, mass)
    seen = sd.views(points, chance, alpha)
    each = sd.outputs(online, b_online, seen) * sd.outputs(target, b_target, seen)
    return torch.einsum("rkn,rk->rn", each, chance).numpy()


def _added(w: Warm, values: Array, weights: Array) -> tuple[Array, Array]:
    """By how much independent noise, and for contrast noise along z, changes every summand.

    [sizes, draws, d] each, for noise entries size * values.
    """
    z, mass = sd.latents(torch.from_numpy(w.kappa), w.online.shape[-1])
    clean, free, along = sd.summands(*tensors(*w)).numpy(), [], []
    for size in SIZES:
        x = sd.noisy(z, mass, *tensors(size * values, weights))
        free.append(_summands(w, *(t.numpy() for t in x)) - clean)
        along.append(_summands(w, (1 + size) * z.numpy(), mass.numpy()) - clean)
    return np.stack(free), np.stack(along)


SIZES = (0.02, 0.04, 0.08)
THREE = (np.array([-(3**0.5), 0.0, 3**0.5]), np.array([1, 4, 1]) / 6)  # variance 1, bounded
SKEWED = (np.array([-(0.5**0.5), 2**0.5]), np.array([2, 1]) / 3)  # mean 0, variance 1, third moment


def order(change: Array) -> Array:
    """By how much the power of the noise's size in a change, [sizes, ...], is off two."""
    sizes, changes = np.log(SIZES), np.log(np.abs(change)).reshape(len(SIZES), -1)
    return np.abs(np.polyfit(sizes, changes, 1)[0] - 2)


@check("ncl/thm3-noise")
def thm3_noise(t: Trial) -> None:
    """Noise enters the loss at second order only (App. C.3).

    Given   warm starts W = I + Delta, d = 2; independent noise entries of mean 0 and standard
            deviation sigma = 0.02, 0.04, 0.08, of three values or, skewed, of two; for (1) also a
            shift of all entries; for (3) Gaussian noise by quadrature; alpha is the chance that a
            mask keeps a coordinate, kappa that z_i != 0.
    Claim   A summand of the loss is the expected product of a neuron's two outputs. (1) What noise
            adds to it is of second order in sigma, namely (2) alpha^2 kappa sigma^2 [(1 +
            Delta^o_ii)(1 + Delta^t_ii) + alpha^2 sum Delta^o_ij Delta^t_ij]; (3) so is Gaussian
            noise's, within 0.02 of the power.
    Fails   (1), (3) for noise along z, which is of first order; (2) without alpha^2, and without
            off-diagonals.
    """
    count = min(t.draws, 10)
    w = warm(t.rng, count, 2, 0.1, 0.2)
    change, along = _added(w, *THREE)
    skewed, _ = _added(w, *SKEWED)
    shifted, _ = _added(w, np.ones(1), np.ones(1))  # noise with a mean, which symmetric z allow

    # (1) How far the fitted power of sigma is from two.
    second = t.part("second order", 1e-6, controls=typical, draws=3 * count)
    second.add(order(change), order(skewed), order(shifted)).breaks("noise along z", order(along))

    scale = (w.alpha**2 * w.kappa)[:, None] * np.array(SIZES)[:, None, None] ** 2
    own = np.einsum("rii,rii->ri", w.online, w.target)
    cross = (w.online * w.target).sum(-1) - own

    def gap(inner: Array, change: Array = change) -> Array:
        return np.abs(change / (scale * inner) - 1)

    # (2) The change over scale * [...], minus 1.
    constant = t.part("its constant", 1e-9, controls=typical, draws=2 * count)
    inner = own + w.alpha[:, None] ** 2 * cross
    constant.add(gap(inner), gap(inner, skewed))
    constant.breaks("no alpha^2", gap(own + cross)).breaks("no off-diagonals", gap(own))

    # (3) The power for Gaussian noise, biases 0.45.
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    few = Warm(*(x[:2] for x in w))._replace(
        b_online=np.full((2, 2), 0.45), b_target=np.full((2, 2), 0.45)
    )
    change, along = _added(few, nodes, weights / weights.sum())
    normal = t.part("Gaussian noise", 0.02, controls=typical, draws=2)
    normal.add(order(change)).breaks("noise along z", order(along))


@check("ncl/thm3-summand")
def thm3_summand(t: Trial) -> None:
    """Expected product of one neuron's online and target activations (App. C.3).

    Given   warm starts, d = 3, no noise, all latents and masks; alpha is the chance that a mask
            keeps a coordinate, kappa that z_i != 0.
    Claim   A row's expectation is alpha^2 kappa [(1 + Delta^o_ii - b^o)(1 + Delta^t_ii - b^t)
            + alpha^2 kappa sum Delta^o_ij Delta^t_ij]: this and the library's against enumeration.
    Fails   with alpha kappa or alpha^2 for alpha^2 kappa inside the bracket, and with alpha^3 in
            front.
    """
    # Every row's expectation, summed over all latents and masks.
    count = min(t.draws, 30)
    w = warm(t.rng, count, 3, 0.3)
    brutes = np.stack([brute(w, r) for r in range(count)])
    own = np.einsum("rii->ri", w.online) - w.b_online, np.einsum("rii->ri", w.target) - w.b_target
    eye = np.eye(3)
    cross = ((w.online * (1 - eye)) * (w.target * (1 - eye))).sum(-1)
    alpha, kappa = w.alpha[:, None], w.kappa[:, None]

    def gap(front: Array, inside: Array) -> Array:
        """From the sums, for these factors of the bracket and of the second sum inside it."""
        return np.abs(front * (own[0] * own[1] + inside * cross) - brutes).max(-1)

    # The printed bracket and the library's, against the sums.
    part = t.part("", 1e-14, controls=typical, draws=count)
    part.add(
        gap(alpha**2 * kappa, alpha**2 * kappa), np.abs(sd.summands(*tensors(*w)).numpy() - brutes)
    )
    part.breaks("alpha for alpha^2 inside", gap(alpha**2 * kappa, alpha * kappa))
    part.breaks("no kappa inside", gap(alpha**2 * kappa, alpha**2))
    part.breaks("alpha^3 in front", gap(alpha**3 * kappa, alpha**2 * kappa))

    # The same in symbols, d = 2.
    pair = sym.nets()

    def formula(inside: sympy.Expr) -> exact.Shown:
        """The sum is the bracket with this factor of the second sum."""
        return exact.equal(sym.summand(0, pair), sym.printed_summand(0, pair, inside))

    part.proves(
        formula(sym.ALPHA**2 * sym.KAPPA),
        breaks={"no kappa inside": formula(sym.ALPHA**2)},
        at="d = 2, signs as in ncl/thm3-region",
    )


@check("ncl/thm3-loss")
def thm3_loss(t: Trial) -> None:
    """Symmetric-ReLU loss in closed form near the warm start (App. C.3).

    Given   warm starts, d = 3, no noise, all latents and masks; alpha is the chance that a mask
            keeps a coordinate, kappa that z_i != 0.
    Claim   The loss of Eq. 13 is 2 - 2 alpha^2 kappa sum_i [(1 + Delta^o_ii - b^o_i)(1 + Delta^t_ii
            - b^t_i) + alpha^2 kappa sum_{j != i} Delta^o_ij Delta^t_ij], the second sum inside the
            bracket as in the printed line above it: this and the library's against enumeration.
    Fails   without the second sum, with alpha^2 kappa before it once in all, not twice, and as
            typeset without the bracket, where alpha^2 kappa times it is added.
    """
    # The exact loss, from sums over all latents and masks; the library's closed form.
    count = min(t.draws, 30)
    w = warm(t.rng, count, 3, 0.3)
    losses = np.array([2 - 2 * brute(w, r).sum() for r in range(count)])
    simple = sd.simplified_loss(*tensors(*w)).numpy()
    own = (np.einsum("rii->ri", w.online) - w.b_online) * (
        np.einsum("rii->ri", w.target) - w.b_target
    )
    cross = ((w.online * w.target).sum(-1) - np.einsum("rii,rii->ri", w.online, w.target)).sum(-1)
    scale = w.alpha**2 * w.kappa

    def gap(factor: Array) -> Array:
        """From the exact loss, for this factor of the second sum."""
        return np.abs(2 - 2 * scale * own.sum(-1) + factor * cross - losses)

    # The library's and the corrected bracket, against the exact loss.
    part = t.part("", 1e-14, controls=typical, draws=count)
    part.add(np.abs(simple - losses), gap(-2 * scale**2))
    part.breaks("no second sum", gap(0 * scale))
    part.breaks("one alpha^2 kappa", gap(-2 * scale))
    part.breaks("as typeset, no bracket", gap(scale))

    # The same in symbols, d = 2.
    pair, scale = sym.nets(), sym.ALPHA**2 * sym.KAPPA

    def display(inside: sympy.Expr) -> exact.Shown:
        """By this factor of the second sum inside the bracket; -1/2: alpha^2 kappa times it is
        added, as typeset."""
        total = sum(sym.printed_summand(i, pair, inside) for i in range(sym.D))
        return exact.equal(sym.loss(pair), 2 - 2 * total)

    part.proves(
        display(scale),
        breaks={"as typeset, no bracket": display(-sympy.Rational(1, 2))},
        at="d = 2, signs as in ncl/thm3-region",
    )
