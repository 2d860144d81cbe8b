"""Checks of ncl App. C.3 up to the loss: regions, activation, noise, one summand, their sum."""

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.dynamics.srelu import Warm, brute, signed, subsets, warm
from clcore.ledger import Check, check
from clcore.reference import Array, tensors, typical, worst
from clcore.theory.sparse import sparse_coding as sc
from clcore.theory.sparse import srelu_dynamics as sd


def realisations(rng: np.random.Generator, d: int, size: float) -> tuple[Array, Array, Array]:
    """All pairs of latent and mask, each with noise of absolute size `size`: [k, d] each."""
    pairs = list(itertools.product(signed(d), subsets(d)))
    z, D = (np.array([p[k] for p in pairs]) for k in (0, 1))
    return z, D, size * (2 * rng.integers(0, 2, z.shape) - 1)


@check("ncl/thm3-region")
def thm3_region(draws: int, seed: int) -> Iterator[Check]:
    """The three cases over all latents, masks and bounded noise, d = 4.

    b up to 0.4, and anywhere in the displayed interval below 1 + Delta_ii - |c_b|. Controls: b at
    the top of that interval with Delta_ii < 0; b below |c_b|.
    """
    rng, d, size = ref.generator("thm3-region", seed), 4, 0.02
    count = min(draws, 60)
    wrong, top, small, cut = [], [], [], []
    for delta in (0.03, 0.1, 0.3):
        w = warm(rng, count, d, delta, size)
        for r in range(count):
            z, D, noise = realisations(rng, d, size)
            W, b = w.online[r], w.b_online[r]
            u, c = (D * (z + noise)) @ W.T, (D * z) @ (W - np.diag(np.diag(W))).T
            c = np.abs(c + (D * noise) @ W.T).max(0)  # the largest |c_b|

            def violations(b: Array, u: Array = u, z: Array = z, D: Array = D) -> Array:
                """How many realisations of each row are in the wrong region, [d]."""
                case = D * z  # 1, -1, or 0 for "D_ii = 0 or z_i = 0"
                right = np.where(case == 1, u > b, np.where(case == -1, u < -b, np.abs(u) < b))
                return (~right).sum(0)

            wide = c + (1 - 2 * c) * rng.uniform(0.001, 0.999, d)  # the interval, b = o(1) left out
            found = violations(wide)
            cut.append(found > 0)
            wrong.append((violations(b) + found * (wide < np.diag(W) - c)).sum())
            if np.diag(W).min() < 1:
                top.append(violations((1 - c) * (1 - 1e-9)).sum())
            small.append(violations(0.9 * c).sum())
    yield Check(
        "ncl/thm3-region",
        worst(np.array(wrong)),
        0.0,
        {"b near 1 - |c_b|": typical(np.array(top)), "b = 0.9 |c_b|": typical(np.array(small))},
        draws=3 * count,
        note=r"Realisations in the wrong region, for $b\le0.4$ and for $b$ anywhere in the "
        r"displayed interval with $b<1+\Delta_{ii}-|c_b|$, which is needed. It is $b=o(1)$, also "
        r"in Assumption 3, that gives the first two cases: the upper end $1-|c_b|$ of the interval "
        r"leaves $\Delta_{ii}$ out, and fails when $\Delta_{ii}<0$. With $b$ drawn from all of the "
        f"interval, {np.sum(cut)} of {np.size(cut)} rows have a realisation in the wrong region.",
    )


@check("ncl/thm3-srelu")
def thm3_srelu(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 14 of the pre-activation against the simplified expression with its noise part.

    Controls: the mask D_ii left out; the bias with the same sign in both branches.
    """
    rng, d, size = ref.generator("thm3-srelu", seed), 4, 0.01
    count = min(draws, 60)
    w = warm(rng, count, d, 0.3, size)
    errors, broken = [], {"no mask": [], "bias of one sign": []}
    for r in range(count):
        z, D, noise = realisations(rng, d, size)
        W, b = w.online[r], w.b_online[r]
        direct = sc.symmetric_relu(*tensors((D * (z + noise)) @ W.T, b)).numpy()
        delta = W - np.eye(d)
        own, rest = np.diag(delta), delta - np.diag(np.diag(delta))
        cross = (D * z) @ rest.T
        part = (1 + own) * noise + (D * noise) @ rest.T

        def form(masks, sign, z=z, b=b, own=own, cross=cross, part=part) -> Array:
            up = (z == 1) * (1 + own + cross - b + part)
            down = (z == -1) * (-1 - own + cross + sign * b + part)
            return masks * (up + down)

        errors.append(np.abs(form(D, 1) - direct).max())
        broken["no mask"].append(np.abs(form(np.ones_like(D), 1) - direct).max())
        broken["bias of one sign"].append(np.abs(form(D, -1) - direct).max())
    control = {name: typical(np.array(values)) for name, values in broken.items()}
    yield Check("ncl/thm3-srelu", worst(np.array(errors)), 1e-14, control, draws=count)


def _summands(w: Warm, x: Array, mass: Array) -> Array:
    """Exact E[SReLU SReLU] of each row, [draws, d], for the law (x, mass)."""
    online, target, b_online, b_target, alpha, _ = w.torch()
    x, mass = tensors(x, mass)
    seen = sd.views(x, mass, alpha)
    each = sd.outputs(online, b_online, seen) * sd.outputs(target, b_target, seen)
    return torch.einsum("rkn,rk->rn", each, mass).numpy()


def _added(w: Warm, values: Array, weights: Array) -> tuple[Array, Array]:
    """By how much independent noise, and for contrast noise along z, changes every summand.

    [sizes, draws, d] each, for noise entries size * values.
    """
    z, mass = sd.latents(torch.from_numpy(w.kappa), w.online.shape[-1])
    clean, free, along = sd.summands(*w.torch()).numpy(), [], []
    for size in SIZES:
        x = sd.noisy(z, mass, *tensors(size * values, weights))
        free.append(_summands(w, *(t.numpy() for t in x)) - clean)
        along.append(_summands(w, (1 + size) * z.numpy(), mass.numpy()) - clean)
    return np.stack(free), np.stack(along)


SIZES = (0.02, 0.04, 0.08)
THREE = (np.array([-(3**0.5), 0.0, 3**0.5]), np.array([1, 4, 1]) / 6)  # variance 1, bounded


@check("ncl/thm3-noise")
def thm3_noise(draws: int, seed: int) -> Iterator[Check]:
    """What noise adds to a summand: its order, its constant; d = 2.

    Noise of three values, and Gaussian on 40 quadrature nodes a coordinate. Controls: noise that
    goes with the latent; the constant without the masks' alpha^2.
    """
    rng, check = ref.generator("thm3-noise", seed), partial(Check, "ncl/thm3-noise")
    count = min(draws, 10)
    w = warm(rng, count, 2, 0.1, 0.2)

    def order(change: Array) -> Array:
        return np.polyfit(np.log(SIZES), np.log(np.abs(change)).reshape(len(SIZES), -1), 1)[0]

    change, along = _added(w, *THREE)
    yield check(
        worst(np.abs(order(change) - 2)),
        1e-6,
        {"noise along z": typical(np.abs(order(along) - 2))},
        part="second order",
        draws=count,
        note="Power of the noise's size in what it adds.",
    )
    scale = (w.alpha**2 * w.kappa)[:, None] * np.array(SIZES)[:, None, None] ** 2
    own = np.einsum("rii,rii->ri", w.online, w.target)
    cross = (w.online * w.target).sum(-1) - own
    inner = own + w.alpha[:, None] ** 2 * cross
    gap = [np.abs(change / (scale * other) - 1) for other in (inner, own + cross, own)]
    yield check(
        worst(gap[0]),
        1e-9,
        {"no alpha^2": typical(gap[1]), "no off-diagonals": typical(gap[2])},
        part="its constant",
        draws=count,
        note=r"$\alpha^2\kappa\sigma^2[(1+\Delta^o_{ii})(1+\Delta^t_{ii})+\alpha^2\sum_{j\ne i}"
        r"\Delta^o_{ij}\Delta^t_{ij}]$: in the gradients $\kappa$ becomes $\kappa+\sigma^2$ off "
        r"the diagonal and $1-b$ becomes $1-b+\sigma^2$ on it. Ignoring it changes the rate by "
        r"the factor $(1+\sigma^2/\kappa)/(1+\sigma^2/(1-b))$, which is $1+o(1)$ if "
        r"$\sigma^2=o(\kappa)$.",
    )
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    few = Warm(*(part[:2] for part in w))._replace(
        b_online=np.full((2, 2), 0.45), b_target=np.full((2, 2), 0.45)
    )
    gauss, along = _added(few, nodes, weights / weights.sum())
    yield check(
        worst(np.abs(order(gauss) - 2)),
        0.02,
        {"noise along z": typical(np.abs(order(along) - 2))},
        part="Gaussian noise",
        draws=2,
        note="Here a rare sample leaves its region; b = 0.45.",
    )


@check("ncl/thm3-summand")
def thm3_summand(draws: int, seed: int) -> Iterator[Check]:
    """A row's expectation, summed over latents and both masks, against the formula; d = 3.

    Controls: alpha for alpha^2 inside the bracket, kappa left out of it, alpha^3 in front.
    """
    count = min(draws, 30)
    w = warm(ref.generator("thm3-summand", seed), count, 3, 0.3)
    exact = np.stack([brute(w, r) for r in range(count)])
    own = np.einsum("rii->ri", w.online) - w.b_online, np.einsum("rii->ri", w.target) - w.b_target
    eye = np.eye(3)
    cross = ((w.online * (1 - eye)) * (w.target * (1 - eye))).sum(-1)
    alpha, kappa = w.alpha[:, None], w.kappa[:, None]

    def gap(front: Array, inside: Array) -> Array:
        return np.abs(front * (own[0] * own[1] + inside * cross) - exact).max(-1)

    yield Check(
        "ncl/thm3-summand",
        worst(
            gap(alpha**2 * kappa, alpha**2 * kappa),
            np.abs(sd.summands(*w.torch()).numpy() - exact),
        ),
        1e-14,
        {
            "alpha inside": typical(gap(alpha**2 * kappa, alpha * kappa)),
            "no kappa inside": typical(gap(alpha**2 * kappa, alpha**2)),
            "alpha^3 in front": typical(gap(alpha**3 * kappa, alpha**2 * kappa)),
        },
        draws=count,
        note="On the way there a product sign stands between the two cases, and a plus is missing; "
        "the lines after have both right. Possibly slips of the text copy.",
    )


@check("ncl/thm3-loss")
def thm3_loss(draws: int, seed: int) -> Iterator[Check]:
    """The simplified loss against Eq. 13 by enumeration, d = 3, with the bracket of the line above.

    Controls: the second sum left out; under -2 alpha^2 kappa without the factor of its own; the
    display by its letters.
    """
    count = min(draws, 30)
    w = warm(ref.generator("thm3-loss", seed), count, 3, 0.3)
    exact = np.array([2 - 2 * brute(w, r).sum() for r in range(count)])
    simple = sd.simplified_loss(*w.torch()).numpy()
    own = (np.einsum("rii->ri", w.online) - w.b_online) * (
        np.einsum("rii->ri", w.target) - w.b_target
    )
    cross = ((w.online * w.target).sum(-1) - np.einsum("rii,rii->ri", w.online, w.target)).sum(-1)
    scale = w.alpha**2 * w.kappa

    def gap(factor: Array) -> Array:
        """From the exact loss, for this factor of the second sum."""
        return np.abs(2 - 2 * scale * own.sum(-1) + factor * cross - exact)

    yield Check(
        "ncl/thm3-loss",
        worst(np.abs(simple - exact), gap(-2 * scale**2)),
        1e-14,
        {
            "no second sum": typical(gap(0 * scale)),
            "one alpha^2 kappa": typical(gap(-2 * scale)),
            "as typeset, no bracket": typical(gap(scale)),
        },
        draws=count,
        misprint=r"$\sum_i(\cdot)(\cdot)+\alpha^2\kappa\sum_{j\ne i}\Delta^o_{ij}\Delta^t_{ij}$ -> "
        r"$\sum_i\big[(\cdot)(\cdot)+\alpha^2\kappa\sum_{j\ne i}\Delta^o_{ij}\Delta^t_{ij}\big]$: "
        "a lost bracket, which the line above has",
        note=r"$-2\alpha^2\kappa$ multiplies both sums, as the line above and the gradients below "
        r"have it; by the letters the second has a free $i$ (here: over all $i$) and the other "
        "sign. Possibly a slip of the text copy.",
    )
