"""Checks of ncl Sec. 5 before Theorem 1, and Remark 2: what counts as finding the ground truth."""

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
import sympy
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from clcore import random as cr
from clcore.checks.landscape import symbols as sy
from clcore.ledger import Part, Trial, check, exact, pooled, typical
from clcore.losses import two_view as vl
from clcore.reference import Array, tensors
from clcore.theory.sparse import mask_landscape as ml
from clcore.theory.sparse import sparse_coding as sc

SIZES = ((50, 10), (20, 20), (7, 3))


def permutation(rng: np.random.Generator, d: int) -> Array:
    """A random permutation matrix."""
    return np.eye(d)[rng.permutation(d)]


def _dictionary(rng: np.random.Generator, p: int, d: int) -> Array:
    return np.linalg.qr(rng.standard_normal((p, d)))[0]


def misfit(h: Array, z: Array) -> float:
    """min over permutations P and constants c of |h - c P z| / |h|, h and z [n, d].

    For a given P the best c is <h, Pz> / |z|^2, so the best P maximises that inner product.
    """
    score = h.T @ z
    rows, columns = linear_sum_assignment(-score)
    along = score[rows, columns].sum() / np.sqrt((z**2).sum())
    return float(np.sqrt(max(1 - along**2 / (h**2).sum(), 0)))


def _encode(W: Array, x: Array) -> Array:
    return vl.encode(*tensors(W, x)).numpy()


def _unit(W: Array) -> Array:
    return W / np.linalg.norm(W, axis=-1, keepdims=True)


def _shorter(
    t: Trial, M: Array, P: Array, z: Array, recovers: Part, rows: Part, span: Part
) -> None:
    """Encoders of unit rows that satisfy Eq. 9 with a c other than 1: at p = d on one-hot latents,
    at p > d with a part across the span of M."""
    (p, d), c = M.shape, float(t.rng.uniform(0.2, 0.8))
    if p == d:
        W, e = (c * P - np.sqrt(1 - c**2) * np.roll(P, 1, 0)) @ M.T, np.eye(d)
        recovers.add(np.abs(_encode(W, e @ M.T) - c * e @ P.T).max())
        span.breaks("one-hot latents, p = d", 1 - c)
        return
    across = _unit(t.rng.standard_normal((d, p)) @ (np.eye(p) - M @ M.T))
    W = c * P @ M.T + np.sqrt(1 - c**2) * across
    h = _encode(W, z @ M.T)
    fitted = (h * (z @ P.T)).sum() / (z**2).sum()
    recovers.add(np.abs(h - fitted * z @ P.T).max())
    rows.add(abs(fitted - 1)).fails_by(1 - c).breaks("rows of norm 1/4", abs(fitted / 4 - 1))
    span.breaks("p > d, |c - 1| of rows with a part across", abs(fitted - 1))
    off = abs(np.linalg.norm(W @ M, axis=-1).mean() - 1)
    span.breaks("p > d, |W M| of rows with a part across", off)


PERMUTATIONS = tuple(sympy.eye(2)[rows, :] for rows in ([0, 1], [1, 0]))


def _orthonormal(slant: int = 0) -> tuple[sympy.Matrix, sympy.Matrix]:
    """All orthonormal 2 x 2 matrices: (a, b) over its norm, and the direction across it, either
    way. `slant`: added to that direction, so that it is not across."""
    a, b = sympy.symbols("a b", real=True)
    M = sympy.Matrix([[a, -b + slant], [b, a]]) / sympy.sqrt(a**2 + b**2)
    return M, M * sympy.diag(1, -1)


def _proves_metric(truths: Part) -> None:
    """All cosines of Eq. 11 at W = diag(s) P M^T, s of any signs: those of row i are 0, and one is
    1 or -1, so that the largest |cosine| with every column is 1."""
    sizes = sympy.diag(*sympy.symbols("s t", positive=True))
    signs = [sympy.diag(1, sign) for sign in (1, -1)]
    cases = [sign * P for P, sign in product(PERMUTATIONS, signs)]

    def over_norms(rows: sympy.MatrixBase) -> sympy.MatrixBase:
        norms = [sympy.sqrt(sympy.cancel(sy.square(rows[i, :]))) for i in range(2)]
        return sympy.diag(*norms).inv() * rows

    columns = [(M, over_norms(M.T).T) for M in _orthonormal()]
    cosines = [over_norms(sizes * case * M.T) * unit for M, unit in columns for case in cases]
    plain = [sizes * case * M.T * unit for M, unit in columns for case in cases]
    truths.proves(
        exact.equal(cosines, cases * 2),
        breaks={"rows not normalised": exact.equal(plain, cases * 2)},
        at="p = d = 2",
    )


@check("ncl/eq9")
def eq9(t: Trial) -> None:
    """Ground-truth recovery up to a constant and a permutation (Eq. 9, Sec. 5).

    Given   orthonormal columns of M, latents in {0, 1}^d.
    Claim   (1) W = P M^T recovers z; (2) relabelling latents and columns together changes nothing;
            (3) where W has unit rows and Eq. 9 holds, c = 1.
    Fails   (1) for W M in U_> and signed latents; (2) for latents alone; (3) at p > d for rows with
            a part across the columns of M, where c < 1. Corrected: rows in their span, as all are
            if p = d. Controls: rows with a part across, one-hot latents alone, c = 0, in the proof
            columns of M that are not orthogonal; as printed, rows of norm 1/4.
    """
    recovers, same = t.part("W = P M^T", 1e-12), t.part("relabelling", 1e-12)
    rows, span = t.part("unit rows", 1e-12), t.corrected("unit rows", 1e-12)
    for _, (p, d) in product(range(min(t.draws, 60)), SIZES):
        M, P = _dictionary(t.rng, p, d), permutation(t.rng, d)
        while P.trace() == d:
            P = permutation(t.rng, d)
        z = (t.rng.random((200, d)) < 0.3).astype(float)
        z[0] = 1.0
        x = z @ M.T

        # (1) The encoder's outputs against the latents, in P's order.
        recovers.add(np.abs(_encode(P @ M.T, x) - z @ P.T).max())
        if p == d:
            V = ml.positive_columns(*tensors(t.rng.standard_normal((d, d)))).numpy()
            recovers.breaks("W M in U_>", misfit(_encode(V @ M.T, x), z), by=pooled)
        signed = z * np.where(t.rng.random(z.shape) < 0.5, -1, 1)
        off = np.abs(_encode(P @ M.T, signed @ M.T) - signed @ P.T).max()
        recovers.breaks("signed latents", off)

        # (2) The data x = M z after both are relabelled.
        same.add(np.abs(z @ P.T @ (M @ P.T).T - x).max())
        same.breaks("latents relabelled, M not", np.abs(z @ P.T @ M.T - x).max())

        # (3) Rows in the span of M, scaled to norm 1, recover z itself; `_shorter` has the others.
        W = _unit(P @ M.T * t.rng.uniform(0.1, 3, (d, 1)))
        span.add(np.abs(_encode(W, x) - z @ P.T).max())
        span.breaks("c = 0: W = -P M^T", np.abs(_encode(-P @ M.T, x) - z @ P.T).max())
        _shorter(t, M, P, z, recovers, rows, span)

    _proves_recovery(recovers, same, span)


def _proves_recovery(recovers: Part, same: Part, span: Part) -> None:
    """W = P M^T at any orthonormal M and latents z >= 0, which Eq. 1's are; M and z relabelled; and
    what a row in the span of M has to be."""
    z, cases = sy.nonnegative("z", 2, 1), list(product(_orthonormal(), PERMUTATIONS))

    def layer(
        M: sympy.MatrixBase, P: sympy.MatrixBase, latents: sympy.MatrixBase
    ) -> sympy.MatrixBase:
        return sy.relu((P * M.T * M * latents).applyfunc(sympy.cancel))

    recovered, signed = (
        exact.equal([layer(M, P, s * z) for M, P in cases], [P * s * z for _, P in cases])
        for s in (sympy.eye(2), sympy.diag(1, -1))
    )
    recovers.proves(recovered, breaks={"signed latents": signed}, at="p = d = 2")
    atoms, latents, swap = exact.matrix("m", 3, 2), exact.vector("z", 2), PERMUTATIONS[1]
    same.proves(
        exact.equal([(atoms * P.T) * (P * latents) for P in PERMUTATIONS], [atoms * latents] * 2),
        breaks={"latents relabelled, M not": exact.equal(atoms * swap * latents, atoms * latents)},
        at="p = 3, d = 2",
    )
    # By Eq. 9 at z = e_1 and e_2 a row is (c, -q) M^T, up to their order, with c > 0 and q >= 0. At
    # z = e_1 + e_2 its output misses c by min(c, q), so that q = 0, and its norm is then c.
    c, q = sympy.symbols("c q", positive=True)
    row, least = sympy.Matrix([[c, -q]]), sympy.Min(c, q).rewrite(sympy.Abs)
    missed = c - sy.relu(row * sympy.ones(2, 1))[0]
    rows, slanted = (
        exact.equal([missed, *(sy.square(row * M.T) for M in Ms)], [least, *[c**2 + q**2] * 2])
        for Ms in (_orthonormal(), _orthonormal(slant=1))
    )
    span.proves(rows, breaks={"columns of M not orthogonal": slanted}, at="p = d = 2")


def margin(W: Array, M: Array) -> float:
    """Worst over neurons of the best max |outside| / min inside over the sets N_i of Eq. 10.

    Inside, the inner products count with their signs. A set that makes the ratio small consists of
    the largest entries, so d - 1 sets are tried.
    """
    inner = np.sort(W @ M, -1)[:, ::-1]
    # Of a sorted row the rest is largest in size at one of its two ends.
    outside = np.maximum(np.abs(inner[:, 1:]), np.abs(inner[:, -1:]))
    return float((outside / np.maximum(inner[:, :-1], 1e-300)).min(-1).max())


@check("ncl/eq10")
def eq10(t: Trial) -> None:
    """Success criterion: each neuron aligned with few dictionary columns (Eq. 10).

    Given   orthonormal dictionaries, p = 50, d = 10; encoders P M^T, and near it.
    Claim   With the best set N_i of columns for each row w_i, the largest |<w_i, M_j>| outside is
            at most 0.02 (ours) of the least <w_i, M_j> inside.
    Fails   for entries of W M of one size, and for -P M^T, as signs count.
    """
    part, (p, d) = t.defines(bound=0.02), SIZES[0]
    for _ in range(min(t.draws, 60)):
        M, P = _dictionary(t.rng, p, d), permutation(t.rng, d)
        near = P @ M.T + 1e-3 * t.rng.standard_normal((d, p))
        part.add(max(margin(P @ M.T, M), margin(near, M)))
        V = t.rng.random((d, d)) + 0.5
        mixed = margin(V / np.sqrt((V**2).sum(0)) @ M.T, M)
        part.breaks("W M with entries of one size", mixed).breaks("-P M^T", margin(-P @ M.T, M))


def _by_loops(W: Array, M: Array) -> Array:
    """Of each column of M the largest |cosine| with a row of W, one by one."""
    out = []
    for j in range(M.shape[1]):
        cosines = [abs(w @ M[:, j]) / np.linalg.norm(w) / np.linalg.norm(M[:, j]) for w in W]
        out.append(max(cosines))
    return np.array(out)


@check("ncl/eq11")
def eq11(t: Trial) -> None:
    """Max-cosine metrics (maximum, median, minimum) of dictionary recovery (Eq. 11).

    Given   random W and orthonormal M; W = P M^T with any scales and signs of rows.
    Claim   (1) The library's metric is the loop's. (2) It has one value per column of M, (3) all
            1 at P M^T. (4) Minimum, median and maximum are in order. (5) If Minimum > 0.71,
            distinct rows are best for distinct columns, (6) at m = d sqrt(2 - 2 Minimum) away in
            the worst row.
    Fails   (1) without norms; (2) for j in [m] as typeset; (3) without |.|; (4) for the mean as
            median; (5) for a row between two columns; (6) for rows with their signs; in the proofs
            (3) without norms, (5) for columns of M that are not orthogonal.
    """
    value, columns = t.defines("value", 1e-13), t.defines("range of j")
    truths = t.part("1 at P M^T of any row scale and sign", 1e-12)
    order = t.defines("minimum, median, maximum", 1e-12, controls=pooled)
    for _, (p, d) in product(range(min(t.draws, 60)), SIZES):
        M, W = _dictionary(t.rng, p, d), t.rng.standard_normal((2 * d, p))
        found = sc.max_cosine(*tensors(W, M)).numpy()
        # (1), (2) One value a column of M, by the library and by loops.
        value.add(np.abs(found - _by_loops(W, M)).max())
        value.breaks("rows not normalised", np.abs(found - np.abs(W @ M).max(0)).max())
        columns.add(abs(len(found) - d)).breaks("as typeset, j in [m]", abs(len(W) - d))
        # (3) Rows along the columns of M.
        scale = t.rng.uniform(0.1, 3, (d, 1)) * np.where(np.arange(d) % 2, -1, 1)[:, None]
        truth = scale * permutation(t.rng, d) @ M.T
        truths.add(np.abs(sc.max_cosine(*tensors(truth, M)).numpy() - 1).max())
        truths.breaks("no absolute value", np.abs((_unit(truth) @ M).max(0) - 1).max())
        # (4) The three summaries.
        low, middle, high = (float(v) for v in sc.summary(torch.from_numpy(found)).values())
        order.add(max(low - middle, middle - high, abs(middle - np.median(found))))
        order.breaks("the mean for the median", abs(middle - found.mean()))
    _proves_metric(truths)

    # (5), (6) What a Minimum above 0.71 says of the rows.
    _says_of_rows(t)


def _signed_rows(W: Array, M: Array, signs: bool = True) -> float:
    """The largest distance of unit rows of W [d, p] from columns of M, each with a different row;
    `signs`: from plus or minus a column, which is nearer. The rows by the assignment problem."""
    inner = _unit(W) @ M
    rows, columns = linear_sum_assignment(-np.abs(inner))
    side = np.sign(inner[rows, columns]) if signs else np.ones(len(rows))
    return float(np.linalg.norm(_unit(W)[rows] - side[:, None] * M[:, columns].T, axis=-1).max())


def _shared(W: Array, M: Array) -> int:
    """How many columns of M have their best row in common with a column before."""
    return M.shape[1] - len(np.unique(np.abs(_unit(W) @ M).argmax(0)))


def _says_of_rows(t: Trial) -> None:
    """What follows from a Minimum max-cosine above 1 / sqrt 2: no row is the best of two columns,
    and at m = d every row is the best of one, in the worst case 2 - 2 Minimum away, squared."""
    own = t.part("Minimum above 0.71: a row for every column")
    close = t.part("m = d: rows at sqrt(2 - 2 Minimum)", 1e-12, controls=pooled)
    for _, (p, d) in product(range(min(t.draws, 60)), SIZES):
        M = _dictionary(t.rng, p, d)
        signs = np.where(np.arange(d) % 2, -1, 1)[:, None]
        noise = t.rng.uniform(0.05, 0.95) * _unit(t.rng.standard_normal((d, p)))
        W = t.rng.uniform(0.1, 3, (d, 1)) * signs * permutation(t.rng, d) @ (M.T + noise)
        least = float(sc.max_cosine(*tensors(W, M)).min())
        if least > 0.71:
            more = np.concatenate([W, t.rng.standard_normal((d, p))])
            own.add(_shared(W, M), _shared(more, M))
            close.add(abs(_signed_rows(W, M) ** 2 - (2 - 2 * least)))
            close.breaks("no sign", abs(_signed_rows(W, M, False) ** 2 - (2 - 2 * least)))
        both = np.concatenate([M.T[:1] + M.T[1:2], M.T[2:], M.T[2:3]])  # Minimum 1 / sqrt 2
        own.breaks("one row between two columns", _shared(both, M))
    first, second, rest = sympy.symbols("w_1 w_2 w_3", real=True)
    row = sympy.Matrix([[first, second, rest]])

    def room(slant: int) -> exact.Shown:
        """Both squared cosines of a row leave room in its squared norm: not both exceed a half."""
        M = sympy.Matrix.vstack(_orthonormal(slant)[0], sympy.zeros(1, 2))
        return exact.nonnegative(sy.square(row) - sy.square(row * M), rest**2)

    own.proves(room(0), breaks={"columns of M not orthogonal": room(1)}, at="p = 3, d = 2")
    _not_outputs(own)


def _not_outputs(part: Part) -> None:
    """Misfits of Eq. 9 where all three metrics are 1, p = d = 3."""
    z = np.array(list(product((0.0, 1.0), repeat=3)))[1:]
    scaled, wide = np.diag([1.0, 10.0, 100.0]), np.concatenate([np.eye(3), np.ones((3, 3))])
    for name, W in (("scaled", scaled), ("wide", wide)):
        part.says(**{name: misfit(_encode(W, z), np.pad(z, ((0, 0), (0, len(W) - 3))))})


@check("ncl/rem2")
def rem2(t: Trial) -> None:
    """Symmetric ReLU without bias is the identity (Remark 2).

    Given   random x; W in U, of unit columns, at d = 4, one-hot latents, all masks.
    Claim   (1) SReLU_0(x) = x. (2) With SReLU_0 the non-contrastive loss of Theorem 1 is 2 - 2
            alpha^2 on all of U. The cases of SReLU_b are tested in a row of their own, ncl/eq14.
    Fails   (1) for the plain ReLU, and a bias of 0.1; (2) for the plain ReLU, and i.i.d. latents
            in {0, 1}^d.
    """
    x = t.rng.standard_normal((min(t.draws, 100), 1000))
    zero, biased = (sc.symmetric_relu(*tensors(x), b).numpy() for b in (0.0, 0.1))

    # (1) No bias: the input itself.
    identity = t.part("no bias", draws=x.size).add(np.abs(zero - x))
    identity.breaks("plain ReLU", np.abs(np.maximum(x, 0) - x).max(-1))
    identity.breaks("bias 0.1", np.abs(biased - x).max(-1))

    keys, mask = t.keys(min(t.draws, 60)), ml.masks(4, 0.7)
    W = ml.unit_columns(cr.normal(keys, (4, 4), torch.float64))

    def off(act: Callable[[Tensor], Tensor], latents: ml.Law) -> Array:
        """Eq. 6, 2 - 2 E|E_D a(W D z)|^2 as both masks are independent, minus 2 - 2 alpha^2."""
        views = latents.point[:, None] * mask.point
        output = act(torch.einsum("rmi,kqi->rkqm", W, views))
        squares = torch.einsum("rkqm,q->rkm", output, mask.probability).square().sum(-1)
        return (2 * (squares @ latents.probability - 0.7**2)).abs().numpy()

    # (2) The loss minus 2 - 2 alpha^2, alpha = 0.7; i.i.d. latents with E|z|^2 = 1, too.
    identical = partial(sc.symmetric_relu, b=0.0)
    flat = t.part("the loss is flat on U", 1e-14, controls=typical)
    flat.add(off(identical, ml.one_hot(4)))
    flat.breaks("plain ReLU", off(torch.relu, ml.one_hot(4)))
    flat.breaks("i.i.d. 0/1 latents", off(identical, ml.sparse(4, 0.25)))

    _proves_symmetric(identity, flat)


def _symmetric(x: sympy.MatrixBase) -> sympy.MatrixBase:
    """SReLU_0, entry by entry, as Eq. 14 begins."""
    return sy.relu(x) - sy.relu(-x)


def _proves_symmetric(identity: Part, flat: Part) -> None:
    """SReLU without bias at any x, and Theorem 1's loss with it at every W of U."""
    x, minus = exact.vector("x", 1), -sy.nonnegative("x", 1, 1)
    identity.proves(
        exact.equal(_symmetric(x), x), breaks={"plain ReLU": exact.equal(sy.relu(minus), minus)}
    )
    symmetric, plain = (
        exact.equal(
            sy.on_unit_columns(partial(sy.non_contrastive, act=act), V), 2 - 2 * sy.ALPHA**2
        )
        for act, V in ((_symmetric, sy.ANY), (sy.relu, sy.SIGNED))
    )
    flat.proves(symmetric, breaks={"plain ReLU": plain}, at=sy.AT)
