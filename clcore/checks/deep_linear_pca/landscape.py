"""Theorem 3, Lemma 10 and what surrounds them, as landscape experiments (acl Sec. 4.3, App. B).

Thousands of random starts climb; their ends are tested by curvature, by random perturbations in
numpy, and against the theorem. `draws` counts starts per cell.
"""

from itertools import pairwise
from itertools import product as every

import numpy as np
import sympy
import torch
from torch import Tensor

from clcore import random as cr
from clcore.checks.deep_linear_pca import between_lemmas
from clcore.checks.deep_linear_pca.flow import product
from clcore.ledger import Trial, check, exact, pooled, typical
from clcore.reference import Array, sphere, tensors, unit
from clcore.theory import deep_linear as dl

SPECTRA: dict[str, tuple[float, ...]] = {
    "PSD": (1.0, 0.6, 0.4, 0.2, 0.1, 0.05),
    "indefinite": (1.0, 0.6, 0.2, -0.2, -0.6, -0.9),
    "mostly negative": (1.0, -0.3, -0.6, -0.9, -1.2, -1.5),
    "repeated top": (1.0, 1.0, 0.5, 0.2, -0.3, -0.6),
}
"""Four spectra of X_alpha, six eigenvalues each."""
WIDTHS = (
    (6, 4),
    (6, 2, 2),
    (6, 1, 2),
    (6, 1, 2, 1),
    (6, 3, 2, 4),
    (6, 2, 2, 2, 2),
    (6, 3, 3, 3, 3, 3),
)
"""Widths of nets on six inputs, n_0 to n_L."""


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
    vs = [v0, *(sphere(rng, len(v0), n) for n in widths[1:])]
    return [b[:, :, None] * a[:, None, :] for a, b in pairwise(vs)]


def energy_of(weights: list[Array], X: Array) -> Array:
    """tr(W X W^T) of the product W of all layers."""
    W = product(weights)
    return np.einsum("...ij,...jk,...ik->...", W, X, W)


def rise(rng: np.random.Generator, weights: list[Array], X: Array) -> Array:
    """[draws]: by how much E rises if a random push of 0.001 is followed by 150 ascent steps.

    At a local maximum by nothing, at a saddle by a lot.
    """
    rate = 0.3 / np.abs(np.linalg.eigvalsh(X)).max(-1)[:, None, None]
    ws = [unit(w + 1e-3 * rng.standard_normal(w.shape), (-2, -1)) for w in weights]
    for _ in range(150):
        pushes = []
        for k in range(len(ws)):
            high = product(ws[k + 1 :]) if k + 1 < len(ws) else np.eye(ws[k].shape[-2])
            low = product(ws[:k]) if k else np.eye(ws[k].shape[-1])
            whole = high @ ws[k] @ low @ X
            pushes.append(np.swapaxes(high, -1, -2) @ whole @ np.swapaxes(low, -1, -2))
        ws = [unit(w + rate * push, (-2, -1)) for w, push in zip(ws, pushes, strict=True)]
    return energy_of(ws, X) - energy_of(weights, X)


def _error(limits: tuple[Tensor, ...], X: Tensor) -> Array:
    """[runs]: distances from Theorem 3's form: E, rank one and aligned, v_0 in the top space."""
    lam, vectors = torch.linalg.eigh(X)
    E, top = dl.energy(limits, X), lam[:, -1]
    v0 = torch.linalg.svd(limits[0], full_matrices=False)[2][:, 0]
    inside = lam > top[:, None] - 1e-9
    along = ((vectors.mT @ v0[..., None])[..., 0] * inside).norm(dim=-1)
    parts = [(E / top - 1).abs(), dl.misalignment(limits), (1 - along).abs()]
    return torch.stack(parts).amax(0).numpy()


def gap_by_gram(ws: list[Array], X: Array, even: bool = False) -> Array:
    """[runs]: distances from Theorem 3's form in numpy, by eigenvectors of W_l^T W_l; `even`: from
    Corollary 3's."""
    lam, vectors = np.linalg.eigh(X)
    gaps, lefts, firsts = [np.abs(energy_of(ws, X) / lam[:, -1] - 1)], [], []
    for w in ws:
        squares, right = np.linalg.eigh(np.swapaxes(w, -1, -2) @ w)
        firsts.append(right[..., -1:])
        lefts.append(w @ firsts[-1] / np.sqrt(squares[:, -1:, None]))
        second = squares[:, -2:-1].clip(0).sum(-1)  # 0 where there is one column
        gaps += [np.abs(np.sqrt(squares[:, -1]) - 1), np.sqrt(second)]
    for left, right in zip(lefts, firsts[1:], strict=False):
        gaps.append(np.sqrt((1 - (left * right).sum((-1, -2)) ** 2).clip(0)))
        if even:
            gaps.append(np.abs(np.abs(left) - left.shape[1] ** -0.5).max((-1, -2)))
    if not even:
        inside = (lam > lam[:, -1:] - 1e-9)[..., None]
        along = np.linalg.norm(np.swapaxes(vectors, -1, -2) @ firsts[0] * inside, axis=(-2, -1))
        gaps.append(np.abs(1 - along))
    return np.max(gaps, 0)


@check("acl/thm3")
def thm3(t: Trial) -> None:
    """Local maxima of deep linear contrastive learning are rank-1 PCA (Theorem 3).

    Given   the deep linear net on |W_l|_F = 1, fixed X with lambda_max > 0 of four spectra, L
            = 1..5; ascent from random starts. Its ends count as local maxima with a distinct top
            eigenvalue of W_{>1}^T W_{>1} if gradient and curvature say so.
    Claim   (i) W_l = v_l v_{l-1}^T with unit vectors, v_0 a top eigenvector of X; (ii) E
            = lambda_max: the largest error of these. Random pushes and 150 steps of ascent in
            numpy raise none.
    Fails   as printed where that eigenvalue is distinct and 0, with n_1 = 1 and L >= 3: there E
            = 0. Corrected: distinct and positive. Controls: aligned on the second eigenvector (a
            saddle), and local maxima whose eigenvalue is not distinct.
    """
    printed, corrected = maxima = t.both("local maxima", 1e-6)
    lifted = t.part("limits are local maxima", 1e-8)
    for name, widths in every(SPECTRA, WIDTHS):
        keys = t.keys(min(t.draws, 200), f"{name} {widths}")
        limits, X = climb(keys, SPECTRA[name], widths)
        top, distinct = dl.distinct_top(limits.weights)
        flat = dl.curvature(limits.weights, X)[:, -1] < 1e-6
        maximum = ((limits.residual < 1e-7) & flat & distinct).numpy()
        some_ = top > 1e-6
        # Ends that count, by SVD against (i) and (ii); then by eigenvectors of W_l^T W_l, in numpy.
        error, some = _error(limits.weights, X), some_.numpy()
        printed.add(error[maximum])
        ends = [w.numpy()[maximum] for w in limits.weights]
        printed.fails_by(gap_by_gram(ends, X.numpy()[maximum]), within=1e-6)
        corrected.add(error[maximum & some])
        # Five ends a cell, pushed. A trap (E = 0) whose W_1 X W_1^T is nearly singular has a tiny
        # basin: left out.
        few = torch.nonzero(some_ | dl.trapped(limits.weights, X, 0.01))[:5, 0]
        lifted.add(rise(t.rng, [w[few].numpy() for w in limits.weights], X[few].numpy()))
    (hand, X1), (two, X2) = trap(1), trap(2)
    lifted.add(rise(t.rng, hand, X1), rise(t.rng, two, X2))
    printed.add(_error(tensors(*hand), *tensors(X1)))
    printed.fails_by([1.0], within=1e-6)  # E = 0, and W_3 across W_2
    x = np.diag(SPECTRA["indefinite"])[None]
    saddle = aligned(t.rng, np.eye(6)[1:2], (6, 3, 2))
    maxima.breaks("aligned on the second eigenvector", _error(tensors(*saddle), *tensors(x)))
    maxima.breaks("top eigenvalue not distinct", _error(tensors(*two), *tensors(X2)))
    lifted.breaks("aligned on the second eigenvector", rise(t.rng, saddle, x))


def spectral_norm(weights: list[Array]) -> Array:
    return np.linalg.norm(product(weights), 2, axis=(-2, -1))


@check("acl/lem10")
def lem10(t: Trial) -> None:
    """Spectral norm of a product of unit-norm layers has only global maxima (Lemma 10).

    Given   random weights of unit Frobenius norm a layer, L = 1..5, and ascent of J = |W_L ...
            W_1|_2 from them; points with J = 0 made by hand, several partial products vanishing.
    Claim   (1) J <= 1. (2) All ends of the ascent have J = 1 and (3) are aligned-rank-1. (4) J = 0
            is no maximum: a random move of 0.01 leaves it. Steps: (5) of rank-1 layers J is the
            product of the cosines between neighbours; (6) of all layers W of norm 1, v v'^T/|v'|
            makes |W v'| largest, and meets Eqs. 113-118.
    Fails   (1) for norms of 1.01; (2), (3) for the starts of the ascent; (4) for J = 0 not moved;
            (5) with one cosine left out; (6) as typeset, with v' that has not norm 1 (in the proof:
            a row of W left out).
    """
    bound = t.part("bound", 1 + 1e-12)
    value = t.part("limits have value 1", 1e-8, controls=pooled)
    rank1 = t.part("limits are aligned-rank-1", 1e-3, controls=pooled)
    left = t.part("J = 0 is left", 1e-14, ">=")
    count = min(t.draws, 200)
    for widths in ((4, 3), (5, 1, 4), (3, 6, 2, 3), (6, 3, 3, 3, 2), (4, 2, 5, 1, 3, 2)):
        W = dl.starts(t.keys(count, f"{widths}"), widths)
        limits = spectral_ascent(W)
        start, end = (spectral_norm([w.numpy() for w in ws]) for ws in (W, limits))
        # (1) J of the starts is at most 1.
        bound.add(start)
        # (2), (3) The ends of the ascent.
        before = "the starts, before the ascent"
        value.add(1 - end).breaks(before, 1 - start)
        rank1.add(dl.misalignment(limits)).breaks(before, dl.misalignment(W))
    large = [1.01 * w for w in aligned(t.rng, np.eye(6)[:1], (6, 3, 3))]
    bound.breaks("aligned layers of norm 1.01", spectral_norm(large))

    # (4) Points with J = 0, moved.
    for depth in (2, 3, 4):
        zero = _vanishing(t.rng, count, depth)
        moved = [w + 1e-2 * t.rng.standard_normal(w.shape) for w in zero]
        left.add(spectral_norm(moved)).breaks("the point itself, not moved", spectral_norm(zero))

    # (5), (6) Steps of the proof.
    between_lemmas.not_aligned(t)
    between_lemmas.one_layer_moved(t)


def spectral_ascent(weights: tuple[Tensor, ...], rows: bool = False) -> tuple[Tensor, ...]:
    """Gradient ascent of |W_L ... W_1|_2 on the spheres (or rows): E for X = v v^T, v refreshed."""
    for _ in range(40):
        v = torch.linalg.svd(dl.above(weights)[0], full_matrices=False)[2][:, 0]
        X = v[:, :, None] * v[:, None]
        weights = dl.ascend(weights, X, steps=10, tolerance=1e-12, rows=rows).weights
    return weights


def _vanishing(rng: np.random.Generator, count: int, depth: int) -> list[Array]:
    """Unit-norm layers of width 4, each of which annihilates the one below."""
    layers = []
    for layer in range(depth):
        w = rng.standard_normal((count, 4, 4))
        w[:, 2:] = 0  # reaches the first two nodes
        if layer:
            w[:, :, :2] = 0  # and hears the last two
        layers.append(unit(w, (-2, -1)))
    return layers


@check("acl/lem9")
def lem9(t: Trial) -> None:
    """A rank-1 matrix of unit norm is an outer product of unit vectors (Lemma 9).

    Given   random A of rank 1 and |A|_F = 1, also of one row or column, and with rows of zeros.
    Claim   A = u v^T with unit u, v, taken from A's largest row without a decomposition; proved
            for 3 by 2, from whichever row is not 0.
    Fails   for rank 2 of the same norm.
    """

    def gap(rank: int, rows: int = 5, columns: int = 4, zero: float = 0.0) -> Array:
        left = t.rng.standard_normal((t.draws, rows, rank))
        left[:, :-1] *= t.rng.random((t.draws, rows - 1, 1)) >= zero
        a = unit(left @ t.rng.standard_normal((t.draws, rank, columns)), (-2, -1))
        # v is A's largest row at norm 1, u = A v: the error of A = u v^T, and of |u| = 1.
        v = unit(np.take_along_axis(a, (a**2).sum(-1).argmax(-1)[:, None, None], 1)[:, 0])
        u = np.einsum("bij,bj->bi", a, v)
        outer = u[:, :, None] * v[:, None]
        length = np.abs(np.linalg.norm(u, axis=-1) - 1)
        return np.maximum(np.abs(a - outer).max((-1, -2)), length)

    part = t.part("", 1e-12, controls=typical).add(gap(1)).breaks("rank 2", gap(2))
    part.add(*(gap(1, *size, zero=0.5) for size in ((7, 4), (1, 4), (5, 1), (1, 1))))
    one, two = (exact.vector(name, 3) * exact.vector(f"{name}'", 2).T for name in "ab")
    part.proves(_outer(one), breaks={"rank 2": _outer(one + two)}, at="3 by 2")


def _outer(a: sympy.Matrix) -> exact.Shown:
    """Whether A = u v^T and |u| = |A|_F with u = A v, the unit vector v along any row of A."""
    rows = [a[k, :] for k in range(a.rows)]
    across = [row.T * row / row.dot(row) for row in rows]  # v v^T
    lengths = [(a * square * a.T).trace() for square in across]
    size = sum(x**2 for x in a)
    return exact.equal([*(a * square for square in across), *lengths], [a] * 3 + [size] * 3)


@check("acl/def3")
def def3(t: Trial) -> None:
    """Aligned-rank-1 solutions (Definition 3).

    Given   weights W_l = v_l v_{l-1}^T made from random unit vectors.
    Claim   The library's detector accepts them, and their product has spectral norm 1.
    Fails   for rank-1 weights that are not aligned, and for a layer of rank 2.
    """
    widths = (5, 4, 3, 2)
    v0 = sphere(t.rng, t.draws, 5)
    good, other = (aligned(t.rng, v0, widths) for _ in range(2))
    thick = unit(good[1] + 0.3 * other[1], (-2, -1))

    def found(*ws: Array) -> Array:
        length = np.abs(spectral_norm(list(ws)) - 1)
        return np.maximum(dl.misalignment(tensors(*ws)).numpy(), length)

    part = t.defines("", 1e-7, controls=typical).add(found(*good))
    part.breaks("not aligned", found(good[0], other[1], good[2]))
    part.breaks("a layer of rank 2", found(good[0], thick, good[2]))


@check("acl/eq40")
def eq40(t: Trial) -> None:
    """Critical points of the deep linear energy as an eigenvalue problem (Eqs. 40-43).

    Given   critical points of the energy at unit Frobenius norms of the layers (Eq. 12): ends of
            ascents, and saddles aligned on the second eigenvector; F_l = C_alpha[f_l].
    Claim   (1) W_{>l}^T W_{>l} W_l F_{l-1} = lambda W_l with one lambda = E for all layers. (2) At
            local maxima lambda is the largest eigenvalue of X kron W_{>1}^T W_{>1}, in numpy.
            Steps: (3) the trace of the left side times W_l^T is E, whichever the layer; (4) vec
            turns (1) at l = 1 into Eq. 43; (5) the top eigenvector is v_0 kron u.
    Fails   (1) at a random point; (2) at saddles, which lie below it; (3) with X for F_{l-1}; (4)
            with rows stacked; (5) if both top eigenvalues are double, or X is negative.
    """
    multiplier = t.part("one multiplier", 1e-6, controls=typical)
    largest = t.part("largest at local maxima", 1e-6)
    count = min(t.draws, 100)
    spectra = ("PSD", "indefinite", "mostly negative")
    for spectrum, widths in every(spectra, ((6, 2, 2), (6, 1, 2, 1), (6, 3, 2, 3))):
        keys = t.keys(count, f"{spectrum} {widths}")
        limits, X = climb(keys, SPECTRA[spectrum], widths)
        X = X.numpy()
        ends, start = ([w.numpy() for w in ws] for ws in (limits.weights, dl.starts(keys, widths)))
        saddle = aligned(t.rng, np.linalg.eigh(X)[1][..., -2], widths)

        # (1) The left side against E times W_l, in every layer.
        multiplier.add(_multipliers(ends, X), _multipliers(saddle, X))
        multiplier.breaks("a random point", _multipliers(start, X))

        # (2) E against the largest eigenvalue, where the ascent has converged.
        largest.add(_below_top(ends, X)[(limits.residual < 1e-7).numpy()])
        largest.breaks("saddles", _below_top(saddle, X))

    # (3), (4), (5) Steps of the proof.
    between_lemmas.trace(t)
    between_lemmas.kronecker(t)
    between_lemmas.top_space(t)


def _multipliers(ws: list[Array], X: Array) -> Array:
    """[draws]: the largest entry of W_{>l}^T W_{>l} W_l F_{l-1} - E W_l, l = 1..L, in numpy."""
    E, gaps = energy_of(ws, X)[:, None, None], []
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
    return np.array(tops) - energy_of(ws, X)
