"""Checks of ncl's sentences on its theorems in abstract, introduction and overview: landscapes.

Losses are exact: all latents and masks.
"""

from functools import partial
from itertools import product

import numpy as np
import sympy
import torch
from scipy.stats import norm
from torch import Tensor

from clcore.checks.landscape import symbols as sy
from clcore.checks.landscape.theorem1 import unit
from clcore.ledger import Part, Trial, check, exact
from clcore.losses import two_view as vl
from clcore.reference import Array, tensors
from clcore.theory.sparse import mask_landscape as ml
from clcore.theory.sparse import sparse_coding as sc

# ------------------------------------------------------------------------- the bad global optima


def optima(rng: np.random.Generator, n: int, d: int) -> Array:
    """Members of U_>= by its uniform measure: columns of independent normals, their sizes."""
    return unit(np.abs(rng.standard_normal((n, d, d))))


def second_moment(W: Array, keep: float = 0.5) -> Array:
    """[n, d, d]: E[h h^T] over one-hot latents and masks: a loop over latents, each seen or not."""
    d, total = W.shape[-1], np.zeros(())
    for j in range(d):
        for seen, chance in ((1.0, keep), (0.0, 1 - keep)):
            h = np.maximum(seen * W[..., j], 0)
            total = total + chance / d * h[:, :, None] * h[:, None, :]
    return total


def least_rank(W: Array, keep: float = 0.5) -> Array:
    """[n]: least eigenvalue of E[h h^T], times d over the share kept."""
    return np.linalg.eigvalsh(second_moment(W, keep))[:, 0] * W.shape[-1] / keep


def _gap(W: Array) -> Array:
    """[draws]: one minus the largest inner product of two unit columns of W [draws, rows, d]."""
    gram = np.swapaxes(W, 1, 2) @ W - 2 * np.eye(W.shape[-1])
    return 1 - gram.max((1, 2))


@check("ncl/rem15")
def rem15(t: Trial) -> None:
    """Bad optima are collapsed neither completely nor in dimension (Sec. 1).

    Given   members of U_>= by its uniform measure, one-hot latents, d = 3, 5, 10.
    Claim   (1) They minimise the non-contrastive loss. (2) Outputs of different latents differ.
            (3) The outputs' second moment has full rank: W's least singular value is not 0.
    Fails   (1) for i.i.d. latents, under which equal columns are lower; (2), (3) for equal columns,
            which are minimisers too; in the proofs (1), (3) for a negative entry, (2) for columns
            of any length.

    Also: the outputs' effective rank, as of trained encoders, (sum of eigenvalues)^2 over the
    sum of squares; by singular values of W, and by traces of the second moment.
    """
    n, off = min(t.draws, 100), []
    minimal = t.part("minimisers", 1e-12)
    apart = t.part("not one point", 1e-6, ">=")
    rank = t.part("of full dimension", 1e-6, ">=")
    for d in (3, 5, 10):
        W, equal = optima(t.rng, n, d), optima(t.rng, n, d)
        equal[:] = equal[:, :, :1]

        # (1) The loss minus its least value, 2 - 2 alpha^2 at alpha = 1/2.
        minimal.add((ml.one_hot_non_contrastive(*tensors(W), 0.5) - 1.5).abs())

        # (2) One minus the largest cosine of two columns.
        apart.add(_gap(W)).breaks("equal columns", _gap(equal))

        # (3) The least singular value of W; of equal columns the root of the least eigenvalue of
        # the second moment. Reported: the effective rank.
        singular = np.linalg.svd(W, compute_uv=False)
        least, values = singular[:, -1], singular**2
        rank.add(least).breaks("equal columns", np.sqrt(np.abs(least_rank(equal))))
        off.append(np.abs(least**2 - least_rank(W)).max())
        effective = values.sum(-1) ** 2 / (values**2).sum(-1)
    rank.says(off=max(off))
    rank.says(least=np.median(least), effective=np.median(effective))  # of the last d, 10

    # (1) By how much a member of U_>= is above equal columns under i.i.d. latents.
    law = ml.sparse(3, 0.3)
    some, same = tensors(optima(t.rng, n, 3), equal[:, :3, :3] / equal[:, :3, :1].max())
    same = ml.unit_columns(same)
    rise = ml.non_contrastive(some, some, law, 0.5) - ml.non_contrastive(same, same, law, 0.5)
    minimal.breaks("i.i.d. latents, against equal columns", rise)

    _proves_no_collapse(minimal, apart, rank)


def _proves_no_collapse(minimal: Part, apart: Part, rank: Part) -> None:
    """All of U_>= are minimisers. Two outputs are one point only if W_1 = W_2, and outputs lie in a
    subspace only if det W = 0: the zeros of polynomials, which have measure zero in U_>=."""
    least, signed = (
        exact.equal(sy.on_unit_columns(sy.non_contrastive, V), 2 - 2 * sy.ALPHA**2)
        for V in (sy.POSITIVE, sy.SIGNED)
    )
    minimal.proves(least, breaks={"a negative entry": signed}, at=sy.AT)
    first, second = (sy.ANY[:, j] for j in range(2))
    half, distance = sympy.S.Half, sy.square(first - second) / 2
    lengths = half * (sy.square(first) + sy.square(second))  # 1 in U
    apart.proves(
        exact.nonnegative(lengths - first.dot(second), distance),
        breaks={"columns of any length": exact.nonnegative(1 - first.dot(second), distance)},
        at=sy.AT,
    )

    def moment(W: sympy.MatrixBase) -> sympy.Expr:
        """The determinant of E[h h^T]."""
        views = [(sy.chance(D), sy.view(W, D, j)) for D in sy.masks(2) for j in range(2)]
        return sum((q / 2 * h * h.T for q, h in views), sympy.zeros(2, 2)).det()

    whole, other = (
        exact.nonnegative(moment(W), (sy.ALPHA / 2) ** 2 * W.det() ** 2)
        for W in (sy.POSITIVE, sy.SIGNED)
    )
    rank.proves(whole, breaks={"a negative entry": other}, at=sy.AT)


def _share_bad(W: Array) -> float:
    """The share of W that have full rank and miss a column of M = I: no row of W has a cosine of
    0.9 or more with it."""
    rows = W / np.linalg.norm(W, axis=-1, keepdims=True)
    good = rows.max(-2).min(-1) >= 0.9
    full = np.linalg.svd(W, compute_uv=False)[:, -1] > 1e-6
    return float((~good & full).mean())


@check("ncl/rem18")
def rem18(t: Trial) -> None:
    """Most global minima of the non-contrastive loss are bad but not collapsed (Abstract).

    Given   W in U_>= (unit columns, no entry negative) by its uniform measure, d = 3, 5, 10; W in
            U (unit columns) at d = 2.
    Claim   (1) At least half of the minimisers have full rank and miss a column of the truth M = I:
            no row of W has a cosine of 0.9 with it. (2) Minimisers are 2^(-d^2) of U.
    Fails   (1) for minimisers near a permutation; (2) for 2^-d.
    """
    n = 500 * max(t.draws, 4)
    # (1) Share of the minimisers.
    minima = t.part("of the minima", 0.5, ">=", draws=3 * min(n, 20_000))
    for d in (3, 5, 10):
        minima.add(_share_bad(optima(t.rng, min(n, 20_000), d)))
        planted = unit(np.eye(d) + 0.05 * t.rng.random((200, d, d)))
        minima.breaks("near a permutation", _share_bad(planted))
    minima.says(shares=", ".join(f"{share:.3f}" for share in minima.errors))

    W = unit(t.rng.standard_normal((n, 2, 2)))
    loss = ml.one_hot_non_contrastive(*tensors(W), 0.5).numpy()
    error = (1 / 16 * 15 / 16 / n) ** 0.5

    def off(share: float) -> float:
        return abs(float((loss < 1.5 + 1e-12).mean()) - share) / error

    # (2) Share of random W that have the least loss, in standard errors from 2^-4.
    t.part("of all W", 5.0, draws=n).add(off(2.0**-4)).breaks("2^-d", off(2.0**-2))


# ----------------------------------------------------------------------------- what is recovered


def _missed(W: Array, b: float, x: Array, z: Array) -> float:
    """Share of samples for which ReLU(W x - b) has another support than z."""
    h = vl.encode(*tensors(W, x, np.full(len(W), -b))).numpy()
    return float(((h > 1e-9) != (z > 0)).any(-1).mean())


@check("ncl/rem17")
def rem17(t: Trial) -> None:
    """A one-layer ReLU encoder can recover the support of the latents (Sec. 2).

    Given   latents in {0, 1}^d, random dictionaries, b in [0, 1) without noise; b = 1/2 with noise
            below 1/2 in the span of M, any across it.
    Claim   The support of ReLU(P M^T x - b) is that of P z in every sample.
    Fails   for a random encoder, b = 1.01, noise of 0.6.
    """
    runs, n = min(t.draws, 20), 200
    exact, bounded = (t.part(name, draws=2 * runs * n) for name in ("no noise", "bounded noise"))
    bounded.says(share=float(1 - norm.cdf(0.5 / sc.noise_std(10)) ** 10))
    for (p, d), run in product(((50, 10), (20, 20)), range(runs)):
        M = sc.dictionary(t.keys(runs, f"atoms {p}")[run], p, d, torch.float64).numpy()
        z = (t.rng.random((n, d)) < 0.3).astype(float)
        b = float(t.rng.uniform(0, 0.99))
        P = np.eye(d)[t.rng.permutation(d)]
        exact.add(_missed(P @ M.T, b, z @ M.T, z @ P.T))
        strange = t.rng.standard_normal((d, p))
        exact.breaks("a random encoder", _missed(strange, b, z @ M.T, z))
        exact.breaks("b = 1.01", _missed(M.T, 1.01, z @ M.T, z))

        def under(size: float, M: Array = M, z: Array = z) -> float:
            """With noise of that size in the span of M, and any noise across it."""
            noise = size * t.rng.uniform(-1, 1, z.shape)
            noise[:, 0] = size * np.where(t.rng.random(n) < 0.5, -1, 1)
            across = t.rng.standard_normal((n, len(M))) @ (np.eye(len(M)) - M @ M.T)
            return _missed(M.T, 0.5, (z + noise) @ M.T + across, z)

        bounded.add(under(0.49)).breaks("noise of 0.6", under(0.6))


@check("ncl/rem13")
def rem13(t: Trial) -> None:
    """Training does not avoid the bad minima of non-contrastive losses (Abstract; Sec. 5; Sec. 6).

    Given   one-hot latents, M = I, random masks (Theorem 1's setting), d = 10; projected gradient
            descent by our rule, hence partial, from 200 random starts.
    Claim   Most ends of NCL are minimisers that miss a column of M, with which no row has a cosine
            of 0.9; most ends of CL are permutations.
    Fails   for permutations as NCL's ends, and for the starts, not trained.

    Trained nets: `sparse_runs.remarks.rem13`.
    """
    d, alpha, tau, runs = 10, 0.5, 2.0, 200
    (start,) = tensors(t.rng.standard_normal((runs, d, d)))
    eye = torch.eye(d, dtype=torch.float64)
    part = partial(t.part, bound=0.5, relation=">=", evidence="partial", sort="trained", draws=runs)
    bad = part("Theorem 1's setting: NCL ends at bad minima")
    found = part("Theorem 1's setting: CL ends at permutations")

    def share_bad(W: Tensor) -> float:
        """The share that is optimal within 1e-6 and misses a column of M, as above."""
        least = ml.one_hot_non_contrastive(eye, alpha)
        scores = (W / W.norm(dim=-1, keepdim=True)).abs().amax(-2).amin(-1)
        low = ml.one_hot_non_contrastive(W, alpha) < least + 1e-6
        return float((low & (scores < 0.9)).double().mean())

    def share_true(W: Tensor) -> float:
        return float((ml.permutation_gap(W) < 0.01).double().mean())

    ncl = ml.descend(partial(ml.one_hot_non_contrastive, keep=alpha), start, 200)
    bad.add(share_bad(ncl)).breaks("permutations", share_bad(eye[None]))
    loss = partial(ml.one_hot_contrastive, keep=alpha, tau=tau)
    cl = ml.descend(loss, start, 200)
    found.add(share_true(cl)).breaks("the starts, not trained", share_true(ml.unit_columns(start)))
    rise = loss(cl[ml.permutation_gap(cl) >= 0.01]) - loss(eye)
    found.says(rise=rise.median().item(), positive=share_true(ml.descend(loss, start.abs(), 200)))
