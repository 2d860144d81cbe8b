"""Theorem 3, Lemma 10 and what surrounds them, as landscape experiments (acl Sec. 4.3, App. B).

Thousands of random starts climb; what they reach is looked at by curvature, by random
perturbations in numpy, and by what the theorem says about it. `draws` counts starts a cell.
"""

import zlib
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from clcore import random as cr
from clcore import reference as ref
from clcore.checks.deep_linear_pca.flow import product
from clcore.ledger import Check
from clcore.reference import Array, best, tensors, worst
from clcore.theory import deep_linear as dl

SPECTRA: dict[str, tuple[float, ...]] = {
    "PSD": (1.0, 0.6, 0.4, 0.2, 0.1, 0.05),
    "indefinite": (1.0, 0.6, 0.2, -0.2, -0.6, -0.9),
    "mostly negative": (1.0, -0.3, -0.6, -0.9, -1.2, -1.5),
    "repeated top": (1.0, 1.0, 0.5, 0.2, -0.3, -0.6),
}
# L >= 3, W_{>1} of two columns: at a trap its top eigenvalue is repeated, and Theorem 3 silent.
TRAPS = ("mostly negative", (6, 2, 4, 2))
WORST = ("mostly negative", (6, 1, 2, 1))  # most traps: about half of the starts
WIDTHS = (
    (6, 4),
    (6, 2, 2),
    (6, 1, 2),
    (6, 1, 2, 1),
    (6, 3, 2, 4),
    (6, 2, 2, 2, 2),
    (6, 3, 3, 3, 3, 3),
)


def keys_of(name: str, seed: int, count: int) -> Tensor:
    """`count` keys that no other check shares."""
    return cr.fold_in(cr.fold_in(cr.key(seed), zlib.crc32(name.encode())), torch.arange(count))


def climb(
    keys: Tensor, values: tuple[float, ...], widths: tuple[int, ...], rows: bool = False
) -> tuple[dl.Limits, Tensor]:
    """Ascent from one random start a key, each on its own X with these eigenvalues."""
    spectrum = torch.tensor(values, dtype=torch.float64).expand(len(keys), -1)
    X = dl.with_spectrum(cr.fold_in(keys, 1), spectrum)
    start = dl.starts(cr.fold_in(keys, 2), widths, rows)
    return dl.ascend(start, X, steps=3000, tolerance=1e-8, rows=rows), X


def can_trap(values: tuple[float, ...], widths: tuple[int, ...]) -> bool:
    """Whether X has as many negative eigenvalues as some layer l <= L-2 has nodes."""
    negative = sum(v < 0 for v in values)
    return any(n <= negative for n in widths[1:-2])


def trap(n1: int) -> tuple[list[Array], Array]:
    """A local maximum with E = 0, made by hand: L = 3, W_3 W_2 = 0, W_1 on negative directions."""
    X = np.diag([1.0] + [-1.0] * n1)
    first = np.concatenate([np.zeros((n1, 1)), np.eye(n1)], 1) / np.sqrt(n1)
    middle, last = np.zeros((2, n1)), np.array([[0.0, 1.0]])
    middle[0, 0] = 1.0
    return [w[None] for w in (first, middle, last)], X[None]


def aligned(rng: np.random.Generator, v0: Array, widths: tuple[int, ...]) -> list[Array]:
    """Aligned-rank-1 weights on unit vectors v0 [draws, n_0]."""
    vs = [v0]
    for n in widths[1:]:
        v = rng.standard_normal((len(v0), n))
        vs.append(v / np.linalg.norm(v, axis=-1, keepdims=True))
    return [b[:, :, None] * a[:, None, :] for a, b in pairwise(vs)]


def _energy(weights: list[Array], X: Array) -> Array:
    W = product(weights)
    return np.einsum("...ij,...jk,...ik->...", W, X, W)


def rise(rng: np.random.Generator, weights: list[Array], X: Array) -> Array:
    """[draws]: by how much E rises if a random push of 0.001 is followed by 150 ascent steps.

    At a local maximum by nothing, at a saddle by a lot.
    """
    rate = 0.3 / np.abs(np.linalg.eigvalsh(X)).max(-1)[:, None, None]
    ws = _spheres([w + 1e-3 * rng.standard_normal(w.shape) for w in weights])
    for _ in range(150):
        pushes = []
        for k in range(len(ws)):
            high = product(ws[k + 1 :]) if k + 1 < len(ws) else np.eye(ws[k].shape[-2])
            low = product(ws[:k]) if k else np.eye(ws[k].shape[-1])
            whole = high @ ws[k] @ low @ X
            pushes.append(np.swapaxes(high, -1, -2) @ whole @ np.swapaxes(low, -1, -2))
        ws = _spheres([w + rate * push for w, push in zip(ws, pushes, strict=True)])
    return _energy(ws, X) - _energy(weights, X)


def _spheres(ws: list[Array]) -> list[Array]:
    return [w / np.sqrt((w**2).sum((-1, -2), keepdims=True)) for w in ws]


def _error(limits: tuple[Tensor, ...], X: Tensor) -> Array:
    """[runs]: how far from what Theorem 3 says: E, rank one and aligned, v_0 in the top space."""
    lam, vectors = torch.linalg.eigh(X)
    E, top = dl.energy(limits, X), lam[:, -1]
    v0 = torch.linalg.svd(limits[0], full_matrices=False)[2][:, 0]
    inside = lam > top[:, None] - 1e-9
    along = ((vectors.mT @ v0[..., None])[..., 0] * inside).norm(dim=-1)
    parts = [(E / top - 1).abs(), dl.misalignment(limits), (1 - along).abs()]
    return torch.stack(parts).amax(0).numpy()


def thm3(draws: int, seed: int) -> Iterator[Check]:
    """Every certified local maximum with a distinct top eigenvalue of W_{>1}^T W_{>1} is as said.

    Fails where that eigenvalue is 0, distinct because n_1 = 1. Controls: aligned on the second
    eigenvector (a saddle); local maxima whose top eigenvalue is not distinct.
    """
    rng, check = ref.generator("thm3", seed), partial(Check, "acl/thm3")
    errors, narrow, lifts, total = [], [], [], 0
    for name, values in SPECTRA.items():
        for widths in WIDTHS:
            keys = keys_of(f"thm3 {name} {widths}", seed, min(draws, 200))
            limits, X = climb(keys, values, widths)
            top, distinct = dl.distinct_top(limits.weights)
            flat = dl.curvature(limits.weights, X)[:, -1] < 1e-6
            maximum = (limits.residual < 1e-7) & flat & distinct
            some_ = top > 1e-6
            error, some = _error(limits.weights, X), some_.numpy()
            errors.append(error[maximum.numpy() & some])
            narrow.append(error[maximum.numpy() & ~some])
            total += int(maximum.sum())
            # A trap whose W_1 X W_1^T is nearly singular has a tiny basin: left out.
            few = torch.nonzero(some_ | dl.trapped(limits.weights, X, 0.01))[:5, 0]
            lifts.append(rise(rng, [w[few].numpy() for w in limits.weights], X[few].numpy()))
    hand, X1 = trap(1)
    lifts.append(rise(rng, hand, X1))
    two, X2 = trap(2)
    lifts.append(rise(rng, two, X2))
    narrow.append(_error(tensors(*hand), *tensors(X1)))
    repeated = _error(tensors(*two), *tensors(X2))
    x = np.diag(SPECTRA["indefinite"])[None]
    saddle = aligned(rng, np.eye(6)[1:2], (6, 3, 2))
    control = {
        "aligned on the second eigenvector": best(_error(tensors(*saddle), *tensors(x))),
        "top eigenvalue not distinct": best(repeated),
    }
    bound, tag = 1e-6, {"part": "local maxima", "draws": total}
    yield check(
        worst(np.concatenate(errors + narrow)),
        bound,
        control,
        counterexample=r"$L=3$, $n=(2,1,2,1)$, $X_\alpha=\mathrm{diag}(1,-1)$, $W_1=(0,1)$, "
        r"$W_2=(1,0)^\top$, $W_3=(0,1)$: $W_{>1}=0$ is $1\times1$, so its eigenvalue is distinct, "
        r"and near this point $\mathcal E=(w_1^\top X_\alpha w_1)(W_3W_2)^2\le0=\mathcal E$. A "
        r"local maximum with $\mathcal E=0<\lambda_{\max}=1$.",
        note="The proof takes vec($W_1$) for $v_0\\otimes u$, which needs $W_{>1}\\ne0$.",
        **tag,
    )
    yield check(
        worst(np.concatenate(errors)),
        bound,
        control,
        form="corrected",
        correction=r"Ask that the maximal eigenvalue of $W_{>1}^\top W_{>1}$ be distinct and "
        r"positive. For $n_1\ge2$ or $L\le2$ the printed statement already says so.",
        **tag,
    )
    saddle_rise = rise(rng, saddle, x)
    yield check(
        worst(*lifts),
        1e-8,
        {"aligned on the second eigenvector": best(saddle_rise)},
        part="limits are local maxima",
        draws=len(lifts) * 5,
        note="Rise of E after a random push of 0.001 and 150 ascent steps in numpy, traps too.",
    )


def _spectral(weights: list[Array]) -> Array:
    return np.linalg.norm(product(weights), 2, axis=(-2, -1))


def lem10(draws: int, seed: int) -> Iterator[Check]:
    """max |W_L ... W_1|_2 on the spheres: bound, limits, J = 0 is no maximum.

    Ascent of the spectral norm as power iteration does it: E with X = v v^T, v the right vector.
    """
    check, rng = partial(Check, "acl/lem10"), ref.generator("lem10", seed)
    values, errors, begun, bounds, escape, total = [], [], [], [], [], 0
    shapes = [(4, 3), (5, 1, 4), (3, 6, 2, 3), (6, 3, 3, 3, 2), (4, 2, 5, 1, 3, 2)]
    count = min(draws, 200)
    for widths in shapes:
        keys = keys_of(f"lem10 {widths}", seed, count)
        W = dl.starts(keys, widths)
        bounds.append(_spectral([w.numpy() for w in W]))
        limits = spectral_ascent(W)
        values.append(1 - _spectral([w.numpy() for w in limits]))
        errors.append(dl.misalignment(limits).numpy())
        begun.append(dl.misalignment(W).numpy())
        total += count
    v0 = np.eye(6)[:1]
    large = [1.01 * w for w in aligned(rng, v0, (6, 3, 3))]
    yield check(
        worst(*bounds),
        1 + 1e-12,
        {"aligned layers of norm 1.01": worst(_spectral(large))},
        part="bound",
        draws=total,
    )
    yield check(
        worst(*values),
        1e-8,
        {"not climbed": float(np.median(1 - np.concatenate(bounds)))},
        part="limits have value 1",
        draws=total,
    )
    yield check(
        worst(*errors),
        1e-3,
        {"not climbed": float(np.median(np.concatenate(begun)))},
        part="limits are aligned-rank-1",
        draws=total,
        note="The proof writes $v'$ where the unit vector $v$ is needed: Eqs. 115 and 118 are "
        r"$W_L^*=v_Lv_{L-1}^\top$ and $W_{L-1}^*=v_{L-1}v_{L-2}^\top$ (of norm 1 only so), and the "
        r"middle step of Eq. 116 is $\|v_Lv_{L-1}^\top v'_{L-1}\|_2$; with $v'_{L-1}$ it would be "
        r"$\|v'_{L-1}\|_2^2$.",
    )
    for depth in (2, 3, 4):
        zero = _vanishing(rng, count, depth)
        escape.append(_spectral([w + 1e-2 * rng.standard_normal(w.shape) for w in zero]))
        still = _spectral(zero)
    yield check(
        best(*escape),
        1e-14,
        {"not perturbed": worst(still)},
        part="J = 0 is left",
        relation=">=",
        draws=3 * count,
        note="Points where several partial products vanish.",
    )


def spectral_ascent(weights: tuple[Tensor, ...], rounds: int = 40) -> tuple[Tensor, ...]:
    """Gradient ascent of |W_L ... W_1|_2 on the spheres: E for X = v v^T, v refreshed."""
    for _ in range(rounds):
        v = torch.linalg.svd(dl.above(weights)[0], full_matrices=False)[2][:, 0]
        weights = dl.ascend(weights, v[:, :, None] * v[:, None], steps=10, tolerance=1e-12).weights
    return weights


def _vanishing(rng: np.random.Generator, count: int, depth: int) -> list[Array]:
    """Unit-norm layers of width 4, each of which annihilates the one below."""
    layers = []
    for layer in range(depth):
        w = rng.standard_normal((count, 4, 4))
        w[:, 2:] = 0  # reaches the first two nodes
        if layer:
            w[:, :, :2] = 0  # and hears the last two
        layers.append(w / np.sqrt((w**2).sum((-1, -2), keepdims=True)))
    return layers


def lem9(draws: int, seed: int) -> Iterator[Check]:
    """A of rank 1 and |A|_F = 1 is u v^T with unit vectors. Control: rank 2 of the same norm."""
    rng = ref.generator("lem9", seed)

    def gap(rank: int) -> Array:
        a = rng.standard_normal((draws, 5, rank)) @ rng.standard_normal((draws, rank, 4))
        a = a / np.sqrt((a**2).sum((-1, -2), keepdims=True))
        # Unit vectors from A's largest row and column, without a decomposition.
        v = np.take_along_axis(a, (a**2).sum(-1).argmax(-1)[:, None, None], 1)[:, 0]
        v = v / np.linalg.norm(v, axis=-1, keepdims=True)
        u = np.einsum("bij,bj->bi", a, v)
        outer = u[:, :, None] * v[:, None]
        unit = np.abs(np.linalg.norm(u, axis=-1) - 1)
        return np.maximum(np.abs(a - outer).max((-1, -2)), unit)

    yield Check("acl/lem9", worst(gap(1)), 1e-12, {"rank 2": ref.typical(gap(2))}, draws=draws)


def def3(draws: int, seed: int) -> Iterator[Check]:
    """The detector accepts aligned-rank-1 weights, whose product has norm 1.

    Controls: rank 1 but not aligned; aligned but one layer of rank 2.
    """
    rng, widths = ref.generator("def3", seed), (5, 4, 3, 2)
    v0 = rng.standard_normal((draws, 5))
    good = aligned(rng, v0 / np.linalg.norm(v0, axis=-1, keepdims=True), widths)
    other = aligned(rng, v0 / np.linalg.norm(v0, axis=-1, keepdims=True), widths)
    mixed, thick = [good[0], other[1], good[2]], [good[0], good[1] + 0.3 * other[1], good[2]]
    thick[1] = thick[1] / np.sqrt((thick[1] ** 2).sum((-1, -2), keepdims=True))

    def found(ws: list[Array]) -> Array:
        return np.maximum(dl.misalignment(tensors(*ws)).numpy(), np.abs(_spectral(ws) - 1))

    yield Check(
        "acl/def3",
        worst(found(good)),
        1e-7,
        {"not aligned": ref.typical(found(mixed)), "a layer of rank 2": ref.typical(found(thick))},
        draws=draws,
    )


def eq40(draws: int, seed: int) -> Iterator[Check]:
    """At critical points every layer's multiplier is E; at local maxima it tops X kron M.

    Kronecker products in numpy. Controls: a random point; saddles on the second eigenvector.
    """
    check, rng = partial(Check, "acl/eq40"), ref.generator("eq40", seed)
    equal, random_, kron, below, total = [], [], [], [], 0
    count = min(draws, 100)
    for name in ("PSD", "indefinite", "mostly negative"):
        for widths in ((6, 2, 2), (6, 1, 2, 1), (6, 3, 2, 3)):
            keys = keys_of(f"eq40 {name} {widths}", seed, count)
            limits, X = climb(keys, SPECTRA[name], widths)
            vectors = np.linalg.eigh(X.numpy())[1]
            saddle = tensors(*aligned(rng, vectors[..., -2], widths))
            start = dl.starts(keys, widths)
            for weights, out in ((limits.weights, equal), (saddle, equal), (start, random_)):
                out.append(_multipliers([w.numpy() for w in weights], X.numpy()))
            done = (limits.residual < 1e-7).numpy()
            kron.append(_below_top([w.numpy() for w in limits.weights], X.numpy())[done])
            below.append(_below_top([w.numpy() for w in saddle], X.numpy()))
            total += count
    yield check(
        worst(*equal),
        1e-6,
        {"a random point": ref.typical(*random_)},
        part="one multiplier",
        draws=2 * total,
        note="Residual of Eqs. 40 and 42 with $\\lambda_l=\\mathcal E$, at limits and at saddles.",
    )
    yield check(
        worst(*kron),
        1e-6,
        {"saddles": best(*below)},
        part="largest at local maxima",
        draws=total,
        note=r"Also at local maxima with $\mathcal E=0$, where $W_{>1}=0$.",
    )


def _multipliers(ws: list[Array], X: Array) -> Array:
    """[draws]: the largest entry of W_{>l}^T W_{>l} W_l F_{l-1} - E W_l, l = 1..L, in numpy."""
    E, gaps = _energy(ws, X)[:, None, None], []
    for k, w in enumerate(ws):
        high = product(ws[k + 1 :]) if k + 1 < len(ws) else np.eye(w.shape[-2])
        low = product(ws[:k]) if k else np.eye(w.shape[-1])
        F = low @ X @ np.swapaxes(low, -1, -2)
        gaps.append(np.abs(np.swapaxes(high, -1, -2) @ high @ w @ F - E * w).max((-1, -2)))
    return np.max(gaps, 0)


def _below_top(ws: list[Array], X: Array) -> Array:
    """[draws]: how far E lies below the largest eigenvalue of X kron W_{>1}^T W_{>1}."""
    high = product(ws[1:])
    M = np.swapaxes(high, -1, -2) @ high
    tops = [np.linalg.eigvalsh(np.kron(x, m))[-1] for x, m in zip(X, M, strict=True)]
    return np.array(tops) - _energy(ws, X)


def num11(draws: int, seed: int) -> Iterator[Check]:
    """The share of random starts that end at E = lambda_max, cell by cell.

    Less than 1 where a trap exists: L >= 3 and as many negative eigenvalues as a layer has nodes.
    Controls: no ascent; cells with traps.
    """
    check, free, traps, before = partial(Check, "acl/num11"), {}, {}, []
    held, steep = 0.0, 0
    many = max(min(draws, 1000), 200)
    cells = [(name, widths) for name in SPECTRA for widths in WIDTHS] + [TRAPS]
    for name, widths in cells:
        values = SPECTRA[name]
        # Two shares are reported: 20 starts would not tell them.
        starts = many if (name, widths) in (TRAPS, WORST) else min(draws, 1000)
        keys = keys_of(f"num11 {name} {widths}", seed, starts)
        limits, X = climb(keys, values, widths)
        share = float(((limits.energy / values[0] - 1).abs() < 1e-4).double().mean())
        (traps if can_trap(values, widths) else free)[name, widths] = share
        start = dl.energy(dl.starts(cr.fold_in(keys, 2), widths), X)
        before.append(float(((start / values[0] - 1).abs() < 1e-4).double().mean()))
        if (name, widths) == TRAPS:
            stuck = dl.trapped(limits.weights, X, 1e-4)
            held, steep = float(stuck.double().mean()), sum(v < 0 for v in values)
    total = (len(cells) - 2) * min(draws, 1000) + 2 * many
    tag = {"relation": ">=", "part": "share of starts", "draws": total}
    shares = f"{traps[TRAPS]:.0%} of {many}", f"{traps[WORST]:.0%} of {many}"
    yield check(
        min(*free.values(), *traps.values()),
        0.99,
        {"no ascent": max(before)},
        counterexample=f"$\\lambda_{{\\max}}(X_\\alpha)=1$ and {steep} negative eigenvalues "
        f"(-0.3, ..., -1.5), widths 6-2-4-2: {shares[0]} random starts reach $\\lambda_{{\\max}}$, "
        rf"{held:.0%} end at local maxima with $\mathcal E=0$, where $W_{{>1}}=0$ and "
        r"$W_1X_\alpha W_1^\top$ is negative definite, so that $\mathcal E\le0$ all around. With "
        f"widths 6-1-2-1, {shares[1]}: there these local maxima form a 6-dimensional set, the "
        "global ones a 1-dimensional set.",
        note="'Almost' is not defined in the paper. The headline leaves out Theorem 3's hypothesis "
        r"that the top eigenvalue of $W_{>1}^\top W_{>1}$ is distinct, which excludes such points "
        "for $n_1\\ge2$. The share falls below 0.99 only in cells with them.",
        **tag,
    )
    yield check(
        min(free.values()),
        0.99,
        {"cells with traps": max(traps[TRAPS], traps[WORST])},
        form="corrected",
        correction=r"If $\lambda_{\max}(X_\alpha)>0$ and either $L\le2$ or $X_\alpha$ has fewer "
        r"negative eigenvalues than each of the layers $1..L-2$ has nodes (so for PSD $X_\alpha$), "
        "every local maximum found is global. Sufficient, not necessary.",
        **tag,
    )
    errors, second, summed = [], [], []
    for widths in ((6, 4, 1), (6, 4, 3)):
        keys = keys_of(f"num11 pca {widths}", seed, min(draws, 100))
        limits, X = climb(keys, SPECTRA["PSD"], widths)
        values = np.linalg.eigvalsh(X.numpy())[:, ::-1]
        E = limits.energy.numpy()
        errors.append(np.abs(E / values[:, 0] - 1))
        second.append(np.abs(E / values[:, 1] - 1))
        if widths[-1] > 1:
            summed.append(np.abs(E / values[:, : widths[-1]].sum(-1) - 1))
    yield check(
        worst(*errors),
        1e-5,
        {"the second eigenvalue": best(*second), "three components": best(*summed)},
        part="the PCA objective of Eq. 8",
        draws=2 * min(draws, 100),
        note=r"For one component. With $n_L\ge2$ the maximum of Eq. 12 is still "
        r"$\lambda_{\max}(X_\alpha)$, that of Eq. 8 the sum of the $n_L$ largest eigenvalues: 1 "
        r"against 1.6 for $X_\alpha=\mathrm{diag}(1,0.6)$.",
    )
