"""Fig. 3 and per-filter norms (acl Sec. 4.2, App. A.2.2).

`draws` counts starts or seeds a cell.
"""

from itertools import pairwise, product

import numpy as np
import torch
from torch import Tensor

from clcore import random as cr
from clcore.checks.deep_linear_pca.flow import product as product_of
from clcore.checks.deep_linear_pca.landscape import (
    SPECTRA,
    aligned,
    climb,
    gap_by_gram,
    spectral_ascent,
    spectral_norm,
)
from clcore.checks.deep_linear_pca.norms import conserved_rows
from clcore.ledger import Trial, check, pooled, typical
from clcore.losses import contrast
from clcore.reference import Array, sphere, tangent, tensors, unit
from clcore.theory import deep_linear as dl


def data_views(keys: Tensor, n: int, d: int, noise: float = 0.3) -> tuple[Tensor, Tensor]:
    """Two views [runs, n, d] of Gaussian data, scales from 1.5 down to 0.5."""
    scale = torch.linspace(1.5, 0.5, d, dtype=torch.float64)
    x = scale * cr.normal(cr.fold_in(keys, 11), (n, d), torch.float64)
    return x, x + noise * cr.normal(cr.fold_in(keys, 12), (n, d), torch.float64)


def fig3_setting(keys: Tensor, width: int = 10, n: int = 64) -> tuple[dl.Layers, Tensor]:
    """Random starts of L = 5 layers of one width, and X_alpha of random data with random alpha."""
    x, x2 = data_views(keys, n, width)
    alpha = cr.uniform(cr.fold_in(keys, 13), (n, n), dtype=torch.float64)
    X = contrast.contrastive_covariance(alpha / n**2, x, x2, x, x2)
    return dl.starts(cr.fold_in(keys, 14), (width,) * 6), X


def _unconstrained(weights: dl.Layers, X: Tensor) -> dl.Layers:
    """Where Eq. 37 leads as it stands, until a norm passes 100."""
    pace = (0.3 / torch.linalg.matrix_norm(X, 2))[:, None, None]
    for _ in range(2000):
        small = torch.stack([torch.linalg.matrix_norm(w) for w in weights]).amax(0) < 100
        if not small.any():
            break
        step = pace * small[:, None, None]
        weights = tuple(w + step * m for w, m in zip(weights, dl.flow(weights, X), strict=True))
    return weights


@check("acl/fig3")
def fig3(t: Trial) -> None:
    """Energy and singular values of a five-layer linear net in training (Figure 3).

    Given   L = 5 of width 10, X_alpha of random data and alpha (ours), fixed; norms kept at 1
            (Eq. 13), 20 seeds or more.
    Claim   E -> lambda_max, and in every layer s_1 -> 1, s_2 -> 0: the largest relative error of
            E, 1 - s_1 and s_2/10 is at most 10^-3 after 4000 steps.
    Fails   at the start, for the second eigenvalue, and for Eq. 37 without the constraint, which
            alone the caption names.
    """
    weights, X = fig3_setting(t.keys(max(20, min(t.draws, 100))))
    values = torch.linalg.eigvalsh(X)
    path = dl.singular_path(weights, X, rate=1.0, steps=4000, every=4000)

    # The largest error, at the start (0) or the end (-1), with E against this eigenvalue: [runs].
    def gap(when: int, which: int = -1) -> Array:
        parts = [
            (path["energy"][when] / values[:, which] - 1).abs(),
            (1 - path["first"][when]).amax(-1),
            path["second"][when].amax(-1) / 10,
        ]
        return torch.stack(parts).amax(0).numpy()

    limit = t.part("", 1e-3, evidence="protocol", sort="trained").add(gap(-1))
    limit.breaks("at the start", gap(0))
    limit.breaks("the second eigenvalue", gap(-1, -2), by=typical)  # the two may nearly agree
    free = _unconstrained(weights, X)
    loose = torch.stack([(1 - torch.linalg.svdvals(w)[:, 0]).abs() for w in free]).amax(0)
    limit.breaks("Eq. 37 without the constraint", loose)


# ------------------------------------------------------------------------------- per-filter norms


def _even(rng: np.random.Generator, v0: Array, widths: tuple[int, ...]) -> list[Array]:
    """Aligned-uniform weights (Definition 4): inner v_l of entries +-1/sqrt(n_l)."""
    ws = aligned(rng, v0, widths)
    vs = [v0]
    for n in widths[1:-1]:
        vs.append(np.sign(rng.standard_normal((len(v0), n))) / np.sqrt(n))
    vs.append(unit(ws[-1][:, :, 0]))
    return [b[:, :, None] * a[:, None, :] for a, b in pairwise(vs)]


@check("acl/def4")
def def4(t: Trial) -> None:
    """Aligned-uniform solutions (Definition 4).

    Given   weights W_l = v_l v_{l-1}^T of unit vectors v_l of entries +-1/sqrt(n_l), v_0 and v_L
            any.
    Claim   The library's detector accepts them; the rows of W_l, l < L, have norm 1/sqrt(n_l).
    Fails   for aligned-rank-1 weights with uneven v_l.
    """
    widths = (5, 4, 3, 2)
    v0 = sphere(t.rng, t.draws, 5)

    def found(ws: list[Array]) -> Array:
        rows = [np.abs(np.linalg.norm(w, axis=-1) - w.shape[-2] ** -0.5).max(-1) for w in ws[:-1]]
        return np.maximum(dl.unevenness(tensors(*ws)).numpy(), np.max(rows, 0))

    detector = t.defines("", 1e-7, controls=typical).add(found(_even(t.rng, v0, widths)))
    detector.breaks("uneven $v_l$", found(aligned(t.rng, v0, widths)))


@check("acl/cor3")
def cor3(t: Trial) -> None:
    """With per-filter normalisation the PCA solutions become uniform (Corollary 3).

    Given   the deep linear net with rows of norm 1/sqrt(n_l) below the last layer, fixed X of three
            spectra with lambda_max > 0; ascent from random starts. Its ends count as local maxima
            with a distinct top eigenvalue of W_{>1}^T W_{>1} if gradient and curvature say so.
    Claim   These local maxima have E = lambda_max and are aligned-uniform: entries of v_l are
            +-1/sqrt(n_l).
    Fails   as printed where Theorem 3 fails: that eigenvalue is distinct but 0, and n_1 = 1.
            Corrected: distinct and positive. Controls: ends of the ascent without the row
            constraint; in the corrected form, a maximum with that eigenvalue 0.
    """
    printed, corrected = maxima = t.both("local maxima", 1e-6, controls=typical)
    shapes = ((6, 2, 2), (6, 3, 2, 4), (6, 1, 2, 1), (6, 3, 3, 3, 2))
    for name, widths in product(("PSD", "indefinite", "mostly negative"), shapes):
        keys = t.keys(min(t.draws, 200), f"{name} {widths}")
        limits, X = climb(keys, SPECTRA[name], widths, rows=True)
        top, distinct = dl.distinct_top(limits.weights)
        flat = dl.curvature(limits.weights, X, rows=True)[:, -1] < 1e-6
        maximum = ((limits.residual < 1e-7) & flat & distinct).numpy()
        # The distance from Corollary 3's form by SVD; then by eigenvectors of W_l^T W_l, in numpy.
        error = _error(limits.weights, X)
        printed.add(error[maximum])
        ends = [w.numpy()[maximum] for w in limits.weights]
        printed.fails_by(gap_by_gram(ends, X.numpy()[maximum], even=True), within=1e-6)
        corrected.add(error[maximum & (top > 1e-6).numpy()])
        if widths[1] > 1 and name == "PSD":
            free, X = climb(keys, SPECTRA[name], widths)
            maxima.breaks("no row constraint", _error(free.weights, X))
    # A local maximum with E = 0 and n_1 = 1, by hand.
    hand = [np.array([[[0.0, 1.0]]]), np.array([[[1.0], [1.0]]]), np.array([[[1.0, -1.0]]])]
    hand = [w / np.linalg.norm(w) for w in hand]
    error = _error(tensors(*hand), *tensors(np.diag([1.0, -1.0])[None]))
    printed.add(error).fails_by([1.0], within=1e-6)  # E = 0, and W_3 across W_2
    corrected.breaks("local maxima with $W_{>1}=0$", error)


def _error(weights: tuple[Tensor, ...], X: Tensor) -> Array:
    """[runs]: |E/lambda_max - 1|, or how far from aligned-uniform."""
    E = dl.energy(weights, X) / torch.linalg.eigvalsh(X)[:, -1]
    return torch.maximum((E - 1).abs(), dl.unevenness(weights)).numpy()


@check("acl/lem12")
def lem12(t: Trial) -> None:
    """Local maxima of the product norm under BatchNorm regularisation (Lemma 12, Eqs. 122-124).

    Given   rows of norm 1/sqrt(n_l), |W_L|_F = 1, L = 2..5; ascent of J = |W_L ... W_1|_2; a point
            with J = 0 made by hand; v' = W_{l-1} ... W_1 u, u the top input direction.
    Claim   All ends have J = 1 and are aligned-uniform, rows w_k of W_l are multiples of v'
            (Eq. 124), so that W_l = v_l v_{l-1}^T, and J = 0 is left by a random move of 0.01. In
            the proof, every diagonal element n_l (w_k^T v')^2/|v'|^2 of Lambda at a critical point
            of Eq. 123 is 1.
    Fails   that step of the proof: a row across v' is critical, of element 0, and not zero.
            Corrected: at a maximum. Controls: the starts, before the ascent, v_l v_l^T as typeset
            (a misprint), J = 0 not moved, rows at random, the critical point.
    """
    value = t.part("limits have value 1", 1e-8, controls=pooled)
    uniform = t.part("limits are aligned-uniform", 1e-3, controls=pooled)
    rows = t.part("Eq. 124", 1e-3, controls=pooled)
    outer = t.part("the solution of Eq. 124", 1e-3, controls=pooled)
    left = t.part("J = 0 is left", 1e-9, ">=")
    count = min(t.draws, 200)
    for widths in ((4, 3, 2), (5, 1, 4, 2), (3, 6, 2, 3), (6, 3, 3, 3, 2), (4, 2, 5, 1, 3, 2)):
        W = dl.starts(t.keys(count, f"{widths}"), widths, rows=True)
        limits = spectral_ascent(W, rows=True)
        start, end = ([w.numpy() for w in ws] for ws in (W, limits))
        # The ends have value 1.
        before = "the starts, before the ascent"
        value.add(1 - spectral_norm(end)).breaks(before, 1 - spectral_norm(start))
        # They are aligned and uniform.
        uniform.add(dl.unevenness(limits)).breaks(before, dl.unevenness(W))
        # Their rows are multiples of v' (Eq. 124): W_l = v_l v_{l-1}^T.
        rows.add(_row_condition(end)).breaks(before, _row_condition(start))
        outer.add(_apart(end)).breaks(before, _apart(start))

    # v_l v_l^T has the shape of W_l in square layers alone.
    W = dl.starts(t.keys(count, "square"), (3, 3, 3, 2), rows=True)
    square = [w.numpy() for w in spectral_ascent(W, rows=True)]
    outer.add(_apart(square)).breaks("as typeset, $v_lv_l^\\top$", _apart(square, typeset=True))

    # From a point with J = 0 the ascent goes on, once it is moved at random.
    zero = _even(t.rng, sphere(t.rng, count, 4), (4, 4, 4, 2))
    # Every row of W_2 turned across v_1: the product vanishes, the norms stay.
    side = unit(tangent(unit(zero[1][:, :1]), t.rng.standard_normal((count, 1, 4))))
    zero[1] = np.broadcast_to(side / 2, (count, 4, 4))
    moved = [w + 1e-2 * t.rng.standard_normal(w.shape) for w in zero]
    moved = [w.numpy() for w in dl.normalise(tensors(*moved), rows=True)]
    left.add(spectral_norm(moved)).breaks("the point itself, not moved", spectral_norm(zero))
    _lambda(t, count)


def _lambda(t: Trial, count: int) -> None:
    """The step of the proof after Eq. 124: Lambda's diagonal, n_l <w_k, v'>^2 for unit v'."""
    name = r"every diagonal element of $\Lambda$ is 1"
    printed, corrected = step = t.both(name, 1e-8, draws=count)
    n, v = 4, sphere(t.rng, count, 5)
    rows = v[:, None] * np.sign(t.rng.standard_normal((count, n, 1)))
    rows[:, :1] = unit(tangent(rows[:, :1], t.rng.standard_normal((count, 1, 5))))  # across v'
    critical = rows / np.sqrt(n)

    def elements(w: Array) -> Array:
        return n * np.einsum("bkj,bj->bk", w, v) ** 2

    # Critical: Eq. 124 holds, and |W v'| does not change to first order along the spheres.
    still = np.einsum("bkj,bj,bi->bki", critical, v, v) - elements(critical)[..., None] * critical
    assert np.abs(still).max() < 1e-12 and np.linalg.norm(critical, axis=-1).min() > 0.4
    apart = np.abs(elements(critical) - 1).max(-1)
    printed.add(apart).fails_by(np.ones(count))

    # Moved at random, the ascent of Eq. 123 (a row towards its side of v') ends at a maximum.
    w = unit(critical + 1e-2 * t.rng.standard_normal(critical.shape)) / np.sqrt(n)
    for _ in range(60):
        w = unit(w + np.einsum("bkj,bj,bi->bki", w, v, v)) / np.sqrt(n)
    corrected.add(np.abs(elements(w) - 1).max(-1))
    corrected.breaks("the critical point, before the ascent", apart)
    anywhere = unit(t.rng.standard_normal(critical.shape))
    step.breaks("rows at random", np.abs(elements(anywhere / np.sqrt(n)) - 1).max(-1))


def _row_condition(ws: list[Array]) -> Array:
    """[draws]: sine of the angle between rows of W_l and v' = W_{l-1} ... W_1 u, l < L."""
    u = np.linalg.svd(product_of(ws))[2][:, 0]
    out = []
    for w in ws[:-1]:
        v, row = unit(u), unit(w)
        along = np.einsum("bij,bj->bi", row, v)
        out.append(np.linalg.norm(row - along[..., None] * v[:, None], axis=-1).max(-1))
        u = np.einsum("bij,bj->bi", w, u)
    return np.max(out, 0)


def _apart(ws: list[Array], typeset: bool = False) -> Array:
    """[draws]: largest entry of W_l - v_l v_{l-1}^T over l < L, where v_l is W_l v_{l-1} at norm 1
    and v_0 the input direction of the product; typeset: of W_l - v_l v_l^T."""
    v, out = np.linalg.svd(product_of(ws))[2][:, 0], []
    for w in ws[:-1]:
        below, v = v, unit(np.einsum("bij,bj->bi", w, v))
        right = v if typeset else below
        out.append(np.abs(w - v[:, :, None] * right[:, None]).max((1, 2)))
    return np.max(out, 0)


def freedom(weights: dl.Layers, X: Tensor, rows: bool) -> Tensor:
    """[runs]: dimensions of the set of maximisers: flat directions inside the spheres."""
    flat = (dl.curvature(weights, X, rows).abs() < 1e-5).sum(-1)
    inner = sum(w.shape[-2] for w in weights[:-1]) if rows else len(weights) - 1
    return flat - inner - 1


@check("acl/rem4")
def rem4(t: Trial) -> None:
    """BatchNorm constrains local maxima and helps optimisation (Remarks after Theorem 3 and
    Corollary 3).

    Given   BatchNorm of every hidden node, or rows of norm 1/sqrt(n_l) in its place; for (3) and
            (4) widths 6-4-3-2 and positive semi-definite X.
    Claim   (1) Fan-in norms are conserved. (2) So they may be fixed without loss of generality:
            energies of two directions of w keep their ratio. (3) The row constraint leaves the
            maximisers fewer dimensions and (4) the value lambda_max. ("Better behaved" names no
            measure and is not judged.)
    Fails   (2) as printed: under BatchNorm the energy of one node does not depend on the direction
            of w; corrected for w/|w| without BatchNorm. Controls: (1) other normalisations, tanh;
            (2) the square of the ratio, norms left free, BatchNorm; (3) no row constraint; (4) rows
            of norm 1.
    """
    # (1) The loss's gradient moves no row's norm.
    conserved_rows(t, "fan-in norms conserved", t.rng)

    # (2) One node, two directions of w.
    _one_node(t)

    # (3) Flat directions at the maximisers, with the row constraint and without.
    widths, count = (6, 4, 3, 2), min(t.draws, 60)
    keys = t.keys(count)
    free, X = climb(keys, SPECTRA["PSD"], widths)
    held, X_held = climb(keys, SPECTRA["PSD"], widths, rows=True)
    free_dims = freedom(free.weights, X, rows=False).double()
    held_dims = freedom(held.weights, X_held, rows=True).double()
    fewer = t.part("fewer degrees of freedom", -1.0).add(held_dims - free_dims)
    # Without the constraint a maximiser is free in a unit vector v_l for every layer: the control
    # compares `free_dims` with this number.
    spheres = sum(n - 1 for n in widths[1:])
    fewer.breaks("no row constraint", free_dims - spheres)
    fewer.says(widths=str(widths), rows=int(held_dims.median()), free=int(free_dims.median()))

    # (4) The energy there, against lambda_max = 1.
    value = t.part("value with rows of norm 1/sqrt(n_l)", 1e-6).add((held.energy - 1).abs())
    longer = [n**0.5 * w for n, w in zip((4, 3, 1), held.weights, strict=True)]
    value.breaks("rows of norm 1", (dl.energy(longer, X_held) - 1).abs())


def _one_node(t: Trial) -> None:
    """One hidden node, its fan-in weights of norm 1, alpha = 1, x = x': the energies of two
    directions of w, their ratio under BatchNorm and without it."""
    name, count, n, d = "without loss of generality", min(t.draws, 100), 12, 4
    printed, right = t.part(name, 1e-9, controls=typical), t.corrected(name, 1e-9, controls=typical)
    rng = t.stream(name)
    x = rng.standard_normal((count, n, d)) * np.array([2.0, 1.0, 0.7, 0.5])
    size = rng.uniform(0.5, 2, (2, count, 1))
    v = sphere(rng, 2, count, d)
    keep = torch.from_numpy(1 - np.eye(n)).expand(count, n, n)
    quadratic = np.einsum("bni,bnj->bij", x, x) - n * x.mean(1)[:, :, None] * x.mean(1)[:, None]
    plain = np.einsum("kbi,bij,kbj->kb", v, quadratic, v)

    def ratio(layer: str, w: Array) -> Array:
        f = np.einsum("bni,kbi->kbn", x, w)
        if layer == "BatchNorm":
            f = (f - f.mean(-1, keepdims=True)) / f.std(-1, keepdims=True)
        E = [contrast.energy(keep, *tensors(g[..., None], g[..., None])).numpy() for g in f]
        return E[0] / E[1]

    # (2) As printed: the ratio of energies under BatchNorm, which is 1, against that of w^T Q w.
    expected = plain[0] / plain[1]
    off = np.abs(ratio("BatchNorm", v) - expected)
    printed.add(off).fails_by(np.abs(1 - expected))
    printed.breaks("the square of the ratio", np.abs(ratio("BatchNorm", v) - expected**2))

    # (2) Corrected: the ratio without BatchNorm, w/|w| in place of w.
    right.add(np.abs(ratio("none", v) - expected) / np.maximum(1, expected))
    right.breaks("BatchNorm of the node", off)
    right.breaks("norms free", np.abs(ratio("none", size * v) - expected))

    # One example for the page: the axes of most and of least variance.
    axes = np.eye(d)[[0, 3]][:, None].repeat(count, 1)
    first, last = np.einsum("kbi,bij,kbj->kb", axes, quadratic, axes)
    printed.says(normed=float(np.median(ratio("BatchNorm", axes))))
    printed.says(plain=float(np.median(ratio("none", axes))))
    printed.confirms(normed=1.0, plain=np.median(first / last))
