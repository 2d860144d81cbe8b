"""Checks of ncl Sec. 4 up to Definition 2: data, masks, encoders, and their sets of weights.

Expectations over masks and latents are sums over all of them, except where a sampler is what is
tested. The losses, Eqs. 4 to 8, are in `landscape.loss_definitions`.
"""

from itertools import product

import numpy as np
import sympy
import torch

from clcore import random as cr
from clcore.checks.landscape import symbols as sy
from clcore.ledger import Part, Trial, check, exact, pooled, typical
from clcore.losses import two_view as vl
from clcore.reference import Array, tensors
from clcore.theory.sparse import mask_landscape as ml
from clcore.theory.sparse import sparse_coding as sc

ROUNDING = 1e-12


def _moments(d: int, beta: float, signed: bool) -> Array:
    """E[z z^T] of i.i.d. sparse latents, [d, d]; beta is the chance that an entry is not 0."""
    return beta * np.eye(d) if signed else beta**2 + beta * (1 - beta) * np.eye(d)


@check("ncl/eq1")
def eq1(t: Trial) -> None:
    """Sparse coding data: x = Mz + ε with an orthonormal dictionary (Eq. 1).

    Given   latents with i.i.d. coordinates, binary and signed, enumerated and drawn; dictionaries
            of orthonormal columns.
    Claim   (1) E[z z^T] is beta I for signed latents, beta^2 1 1^T + beta (1 - beta) I for binary
            ones. (2) E[x x^T] = M E[z z^T] M^T + sigma_0^2 I, sigma_0 = log d/d: means over samples
            are within six standard errors. (3) M^T M = I.
    Fails   (1) for latents of the other kind; (2) for the variance log d/d, and M^T in place of M;
            (3) for M M^T.
    """
    # (1) Second moments of latents, summed over all of them, are the closed form.
    latents = t.defines("latents", ROUNDING)
    for d, signed in product((2, 4, 6), (False, True)):
        beta = float(t.rng.uniform(0.05, 0.6))
        law = ml.sparse(d, beta, signed)
        second = np.einsum("ki,kj,k->ij", *(v.numpy() for v in (law.point, *law)))
        latents.add(np.abs(second - _moments(d, beta, signed)).max())
        other = np.abs(second - _moments(d, beta, not signed)).max()
        latents.breaks("the other kind of latents", other)

    samples, columns, n = t.defines("samples", 6.0), t.defines("columns", 1e-13), 20_000
    for kind, (p, d) in product(("binary", "iid-zeros"), ((12, 6), (8, 8))):
        for run in range(min(t.draws, 3)):
            keys = cr.split(t.keys(3, f"{kind} {p}")[run], 3)
            atoms = sc.dictionary(keys[0], p, d, torch.float64)
            M = atoms.numpy()

            # (3) Columns of M are orthonormal.
            columns.add(np.abs(M.T @ M - np.eye(d)).max())
            if p > d:
                columns.breaks("M M^T for M^T M", np.abs(M @ M.T - np.eye(p)).max())

            # (2) Second moments of x over samples are those of the model.
            z = sc.latents(keys[1], n, d, 0.3, kind, torch.float64)
            x = sc.samples(keys[2], atoms, z, sc.noise_std(d)).numpy()
            products = x[:, :, None] * x[:, None, :]
            mean, error = products.mean(0), products.std(0) / np.sqrt(n)
            inside, noise = _moments(d, 0.3, kind != "binary"), (np.log(d) / d) ** 2 * np.eye(p)
            seen = M @ inside @ M.T
            samples.add(np.abs((mean - (seen + noise)) / error).max())
            louder = np.abs((mean - (seen + np.log(d) / d * np.eye(p))) / error).max()
            samples.breaks("log d / d as the variance", louder)
            if p == d and kind == "binary":
                turned = np.abs((mean - (M.T @ inside @ M + noise)) / error).max()
                samples.breaks("rows of M for its columns", turned)


@check("ncl/eq2")
def eq2(t: Trial) -> None:
    """Dependent masking: complementary views 2Dx and 2(I − D)x (Eq. 2).

    Given   one mask D of Bernoulli(alpha) entries, a_1 = 2Dx, a_2 = 2(I - D)x; random x.
    Claim   (1) No entry is in both views, and a_1 + a_2 = 2x, exactly. (2) Their means over all
            masks are 2 alpha x and 2 (1 - alpha) x.
    Fails   (1) for independent masks, (2) for 1 - alpha in place of alpha.
    """
    apart = t.part("disjoint, and together 2x")
    means = t.part("means of the views", ROUNDING, controls=pooled)
    for key in t.keys(min(t.draws, 60)):
        alpha = float(t.rng.uniform(0.1, 0.45))
        x = t.rng.standard_normal((40, 50))

        def overlap(D: torch.Tensor, x: Array = x) -> float:
            a1, a2 = sc.views(*tensors(x), D).numpy()
            return np.abs(a1 * a2).max() + np.abs(a1 + a2 - 2 * x).max()

        # (1) The sampler's views: entries that both have, and what their sum misses of 2x. In the
        # control the second view of each sample is that of the next sample's mask.
        first, second = sc.masks(key, 40, 50, alpha, "dependent").double()
        apart.add(overlap(torch.stack([first, second])))
        apart.breaks("independent masks", overlap(torch.stack([first, second.roll(1, 0)])))

        # (2) Sums over all masks of six entries, by their probabilities q.
        mask = ml.masks(6, alpha)
        D, q = mask.point.numpy(), mask.probability.numpy()
        v = x[0, :6]
        first, second = q @ (2 * D * v), q @ (2 * (1 - D) * v)
        means.add(np.abs(np.stack([first - 2 * alpha * v, second - 2 * (1 - alpha) * v])).max())
        means.breaks("1 - alpha for alpha", np.abs(first - 2 * (1 - alpha) * v).max())

    _proves_dependent(apart, means)


def _proves_dependent(apart: Part, means: Part) -> None:
    """What follows from Eq. 2, at every mask and for any x."""
    x, every = exact.vector("x", 3), sy.masks(3)

    def views(D: sy.Mask) -> tuple[sympy.Matrix, sympy.Matrix]:
        return 2 * sympy.diag(*D) * x, 2 * (sympy.eye(3) - sympy.diag(*D)) * x

    def found(D1: sy.Mask, D2: sy.Mask) -> list[sympy.Matrix]:
        """a_1 and a_2 multiplied entry by entry, and a_1 + a_2; the second view by D2."""
        a1, a2 = views(D1)[0], views(D2)[1]
        return [a1.multiply_elementwise(a2), a1 + a2]

    wanted = [[sympy.zeros(3, 1), 2 * x] for _ in every]
    apart.proves(
        exact.equal([found(D, D) for D in every], wanted),
        breaks={"two masks": exact.equal([found(D, every[3]) for D in every], wanted)},
        at="p = 3",
    )
    first, second = (
        sum((sy.chance(D) * views(D)[k] for D in every), sympy.zeros(3, 1)) for k in (0, 1)
    )
    means.proves(
        exact.equal([first, second], [2 * sy.ALPHA * x, 2 * (1 - sy.ALPHA) * x]),
        breaks={"1 - alpha for alpha": exact.equal(first, 2 * (1 - sy.ALPHA) * x)},
        at="p = 3",
    )


@check("ncl/eq3")
def eq3(t: Trial) -> None:
    """Augmentation by two independent random masks (Eq. 3).

    Given   two independent masks, all pairs enumerated.
    Claim   E[D] = alpha I, for the library's masks, and E[D_1 A D_2] = alpha^2 A for any A, by a
            loop over both masks.
    Fails   the second for one mask for both views; the first for 1 - alpha in place of alpha.
    """
    p, masks = 4, t.part("all masks", ROUNDING)
    for _ in range(min(t.draws, 20)):
        alpha, A = float(t.rng.uniform(0.1, 0.9)), t.rng.standard_normal((p, p))
        # The diagonal of E[D] by the library; E[D_1 A D_2], and with D_1 for D_2, by the loop.
        mask = ml.masks(p, alpha)
        first = (mask.probability[:, None] * mask.point).sum(0).numpy()
        both, single = np.zeros((p, p)), np.zeros((p, p))
        chance = {D: np.prod([alpha if b else 1 - alpha for b in D]) for D in sy.masks(p)}
        for D1, q1 in chance.items():
            single += q1 * np.outer(D1, D1) * A
            for D2, q2 in chance.items():
                both += q1 * q2 * np.outer(D1, D2) * A

        # Both means, against alpha and alpha^2 A.
        masks.add(max(np.abs(first - alpha).max(), np.abs(both - alpha**2 * A).max()))
        masks.breaks("one mask for both", np.abs(single - alpha**2 * A).max())
        masks.breaks("1 - alpha", np.abs(first - (1 - alpha)).max(), by=pooled)
    _proves_independent(masks)


def _proves_independent(masks: Part) -> None:
    """Both means of Eq. 3 for any A, by the sum over all masks and all pairs of them."""
    A, every = exact.matrix("a", 2, 2), sy.masks(2)
    mean, both, single = (sympy.zeros(2, 2) for _ in range(3))
    for D1 in every:
        mean += sy.chance(D1) * sympy.diag(*D1)
        single += sy.chance(D1) * sympy.diag(*D1) * A * sympy.diag(*D1)
        for D2 in every:
            both += sy.chance(D1, D2) * sympy.diag(*D1) * A * sympy.diag(*D2)
    masks.proves(
        exact.equal([mean, both], [sy.ALPHA * sympy.eye(2), sy.ALPHA**2 * A]),
        breaks={
            "one mask for both": exact.equal(single, sy.ALPHA**2 * A),
            "1 - alpha": exact.equal(mean, (1 - sy.ALPHA) * sympy.eye(2)),
        },
        at="p = 2",
    )


def _layer(W: Array, x: Array, b: Array) -> Array:
    """ReLU(W x + b) by a loop over neurons."""
    return np.stack([np.maximum(x @ W[i] + b[i], 0) for i in range(len(W))], -1)


@check("ncl/def1")
def def1(t: Trial) -> None:
    """One-layer ReLU encoders, online and target networks, linear predictor (Sec. 4.1).

    Given   random weights and biases.
    Claim   The library's encoder is ReLU(W x + b) and its head W^p h + b^p: loops over neurons.
    Fails   for the bias after the ReLU, no ReLU, W^p transposed.
    """
    m, encoder, head = 8, t.defines("encoder", ROUNDING), t.defines("head", ROUNDING)
    for _ in range(min(t.draws, 60)):
        W, Wp = t.rng.standard_normal((2, m, m))
        b, bp = t.rng.standard_normal((2, m))
        x = t.rng.standard_normal((30, m))
        h = vl.encode(*tensors(W, x, b))
        g = vl.predict(*tensors(Wp), h, *tensors(bp)).numpy()
        slow = _layer(W, x, b)
        encoder.add(np.abs(h.numpy() - slow).max())
        after = np.abs(h.numpy() - (_layer(W, x, 0 * b) + b)).max()
        encoder.breaks("bias after the ReLU", after)
        encoder.breaks("no ReLU", np.abs(h.numpy() - x @ W.T - b).max())
        by_hand = np.array([[Wp[i] @ row + bp[i] for i in range(m)] for row in slow])
        head.add(np.abs(g - by_hand).max())
        head.breaks("W_p transposed", np.abs(g - (slow @ Wp + bp)).max())


def _overlap(W: sympy.MatrixBase) -> exact.Shown:
    """Whether the first two columns have a positive inner product."""
    form = sum(W[k, 0] * W[k, 1] for k in range(W.rows))
    return exact.positive(W[:, 0].dot(W[:, 1]), form)


@check("ncl/def2")
def def2(t: Trial) -> None:
    """Matrices with unit columns, orthogonal and nonnegative ones (Sec. 4; App. A.1).

    Given   random members of U and U_>= as the library draws them.
    Claim   Columns have norm 1, entries of U_>= are not negative. Two columns with positive
            entries are never orthogonal, so that O_> is empty; proved.
    Fails   for unit rows; for members of U, which have negative entries; for the columns of a
            permutation, which are orthogonal but have zeros.
    """
    norms = t.defines("unit columns", 1e-14, controls=typical, draws=4 * t.draws)
    signs = t.defines("nonnegative", controls=pooled)
    empty = t.part("no positive orthogonal matrix", -1e-9, controls=typical, draws=4 * t.draws)
    for m, p in ((2, 2), (5, 5), (20, 20), (7, 4)):
        (W,) = tensors(t.rng.standard_normal((t.draws, m, p)))
        # The norms of the columns, of members of both sets; R has rows of norm 1 instead.
        U, positive = ml.unit_columns(W).numpy(), ml.positive_columns(W).numpy()
        R = W.numpy() / np.sqrt((W.numpy() ** 2).sum(-1, keepdims=True))
        off, off_positive, off_rows = (
            np.abs(np.sqrt((V**2).sum(-2)) - 1).max(-1) for V in (U, positive, R)
        )
        norms.add(off, off_positive).breaks("unit rows", off_rows)

        # No entry of U_>= is negative.
        signs.add(-positive.min((-2, -1))).breaks("members of U", -U.min((-2, -1)))

        # The least inner product of two columns, of positive ones and of a permutation's.
        apart = ~np.eye(p, dtype=bool)
        overlaps = (positive.swapaxes(-1, -2) @ positive)[:, apart].min(-1)
        P = np.eye(p)
        empty.add(-overlaps).breaks("a permutation", -(P.T @ P)[apart].min())
    pair, touching = exact.matrix("v", 3, 2, positive=True), sy.nonnegative("v", 3, 2)
    empty.proves(_overlap(pair), breaks={"entries that may be 0": _overlap(touching)}, at="m = 3")
