"""The gradient of a contrastive loss: its weights alpha, Eq. 5, Theorem 1, the energy (acl Sec. 3).

InfoNCE's own weights (Eq. 6 and their row sums) are in `minmax.infonce`, the family's in
`minmax.family`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import sympy
import torch

from clcore import losses
from clcore import reference as ref
from clcore.checks.minmax import symbols as sym
from clcore.ledger import Part, Trial, check, exact
from clcore.losses import contrast
from clcore.reference import Array, absolute, relative, tensors

TAUS = (0.1, 0.5, 2.0)
OWN = losses.Pair(
    "a pair of one's own",
    torch.log1p,
    lambda x: x + (1 + x**2) ** 0.5,
    lambda x: 1 / (1 + x),
    lambda x: 1 + x / (1 + x**2) ** 0.5,
)
"""A pair that is not exponential, with a slope of phi that is not constant."""


@check("acl/eq4")
def eq4(t: Trial) -> None:
    """Pairwise importance α of a contrastive loss (Eq. 4).

    Given   distances d_ij, d_i drawn freely from [0, 4], N = 6; the rows of Table 1 and one pair
            that is not exponential.
    Claim   alpha_ij = phi'(sum_j psi(d_i - d_ij)) psi'(d_i - d_ij) is -dL/dd_ij by complex steps,
            beta_i = sum_{j != i} alpha_ij is dL/dd_i, and alpha >= 0. Proved at N = 3, the sign
            for any slopes phi', psi' >= 0.
    Fails   without phi', for d_ij - d_i in place of d_i - d_ij, with j = i in the sum; for column
            sums in place of beta; alpha >= 0 for a decreasing psi.
    """
    inter, intra = 4 * t.rng.random((t.draws, 6, 6)), 4 * t.rng.random((t.draws, 6))
    off, at, gaps = ~np.eye(6, dtype=bool), tensors(inter, intra), intra[..., None] - inter
    alpha = t.part("alpha", 1e-8, draws=t.draws)
    beta = t.part("beta", 1e-8, draws=t.draws)
    sign = t.part("sign", 0.0, ">=", draws=t.draws)
    rows: list[tuple[str, Callable, Callable]] = [*ref.table1(), ("", np.log1p, OWN.psi)]
    for (_, phi, psi), pair in zip(rows, [*losses.table1(), OWN], strict=True):
        loss = partial(ref.family_loss, phi=phi, psi=psi)
        ours = contrast.importance_of_distances(*at, pair)

        # The library's alpha, by Eq. 4 and by autograd, against -dL/dd_ij by complex steps.
        by_inter = -ref.gradient(partial(loss, intra=intra), inter) * off
        alpha.add(relative(ours, by_inter, 1.0))
        alpha.add(relative(contrast.importance_by_autograd(*at, pair)[0], by_inter, 1.0))
        if pair.name == "InfoNCE":
            turned, kept = _alpha(-gaps, phi, psi), _alpha(gaps, phi, psi, diagonal=True)
            alpha.breaks("phi' dropped", relative(ref.slope(psi, gaps) * off, by_inter, 1.0))
            alpha.breaks("sign of the gap", relative(turned, by_inter, 1.0))
            alpha.breaks("j = i kept", relative(kept, by_inter, 1.0))

        # Row sums of the library's alpha against dL/dd_i by complex steps.
        by_intra = ref.gradient(partial(loss, inter), intra)
        beta.add(relative(contrast.row_mass(ours), by_intra, 1.0))
        if pair.name == "InfoNCE":
            columns = contrast.row_mass(ours.transpose(-1, -2))
            beta.breaks("column sums", relative(columns, by_intra, 1.0))

        # alpha >= 0, as psi rises.
        sign.add(ours)
    decreasing = losses.Pair(
        "", lambda x: x, lambda x: -x, torch.ones_like, lambda x: -torch.ones_like(x)
    )
    negative = contrast.importance_of_distances(*at, decreasing).numpy()
    sign.breaks("a decreasing psi", ref.off(negative))
    alpha.proves(sym.importance(), breaks={"phi' dropped": sym.importance(False)}, at="N = 3")
    beta.proves(sym.row_sum(), breaks={"column sums": sym.row_sum(True)}, at="N = 3")
    outer, inner = sympy.symbols("s_1 s_2", nonnegative=True)  # the slopes of phi and psi
    sign.proves(
        exact.nonnegative(outer * inner, outer * inner),
        breaks={"a decreasing psi": exact.nonnegative(-outer * inner, -outer * inner)},
    )


def _alpha(gaps: Array, phi: ref.Function, psi: ref.Function, diagonal: bool = False) -> Array:
    """phi'(sum_j psi) psi' at gaps [draws, n, n]; diagonal: with j = i in the sum."""
    off = ~np.eye(gaps.shape[-1], dtype=bool)
    xi = (psi(gaps) * (diagonal | off)).sum(-1, keepdims=True)
    return ref.slope(phi, xi) * ref.slope(psi, gaps) * off


@check("acl/eq5")
def eq5(t: Trial) -> None:
    """Contrastive covariance and the energy of a representation (Eq. 5).

    Given   any weights alpha >= 0, not symmetric, N = 7; a, b of 3 and 4 dimensions, two views
            each.
    Claim   (1) C_alpha[a, b] of the library, by matrix products, is the double loop of Eq. 5 (i !=
            j weighted by alpha_ij, minus the pairs of views weighted by beta_i). (2) C[W a, b] = W
            C[a, b]. (3) C[a, a] is symmetric though alpha is not. (2) and (3) proved at N = 3.
    Fails   (1) for the second term added, alpha transposed, 1/2 in front; (2) for tanh(W a) in
            place of W a (in the proof: W on the right); (3) for C[a, b] of two variables.
    """
    alpha = ref.random_weights(t.rng, t.draws, 7, 7)
    a, a2 = ref.views(t.rng, t.draws, 7, 3)
    b, b2 = ref.views(t.rng, t.draws, 7, 4)

    def covariance(*inputs: Array) -> Array:
        return contrast.contrastive_covariance(*tensors(*inputs)).numpy()

    # (1) The library against loops.
    loops = ref.covariance(alpha, a, a2, b, b2)
    ours = covariance(alpha, a, a2, b, b2)
    formula = t.defines("formula", 1e-12).add(relative(ours, loops))
    added = ref.covariance(alpha, a, a2, b, b2, sign=-1)
    formula.breaks("second term added", relative(ours, added))
    swapped = covariance(alpha.swapaxes(-1, -2), a, a2, b, b2)
    formula.breaks("alpha transposed", relative(swapped, loops))
    formula.breaks("1/2 in front", relative(ours / 2, loops))

    # (2) A matrix on the first variable comes out in front.
    w = t.rng.standard_normal((t.draws, 5, 3))
    wa, wa2 = (v @ w.swapaxes(-1, -2) for v in (a, a2))
    bilinear = t.part("bilinear", 1e-12)
    bilinear.add(relative(covariance(alpha, wa, wa2, b, b2), w @ loops))
    bent = covariance(alpha, np.tanh(wa), np.tanh(wa2), b, b2)
    bilinear.breaks("tanh of W a", relative(bent, w @ loops))
    weights, one, two = sym.weights(), sym.outputs(), sym.outputs(name="y")
    W, mixed = exact.matrix("W", 2, 2), sym.covariance(weights, one, two)
    mapped = sym.covariance(weights, tuple([W * v for v in view] for view in one), two)
    bilinear.proves(
        exact.equal(mapped, W * mixed),
        breaks={"on the other side": exact.equal(mapped, mixed * W)},
        at=sym.SIZES,
    )

    # (3) C[a, a] against its transpose.
    square = covariance(alpha, a, a2, a, a2)
    other = covariance(alpha, a, a2, b[..., :3], b2[..., :3])
    symmetric = t.part("symmetric", 1e-12).add(relative(square, square.swapaxes(-1, -2)))
    symmetric.breaks("C[a, b], b another variable", relative(other, other.swapaxes(-1, -2)))
    own = sym.covariance(weights, one, one)
    symmetric.proves(
        exact.equal(own, own.T),
        breaks={"C[a, b], b another variable": exact.equal(mixed, mixed.T)},
        at=sym.SIZES,
    )


@check("acl/thm1")
def thm1(t: Trial) -> None:
    """Descending the loss is ascending an energy (Theorem 1).

    Given   z(x; theta): linear, tanh and ReLU nets of 2 and 3 layers at random parameters, N
            = 4..8; all rows of Table 1, tau in {0.1, 0.5, 2}.
    Claim   dL/dtheta = -1/2 dE_alpha/dtheta at alpha = alpha(theta) held fixed. Left: complex
            steps in theta through the loss in numpy. Right: autograd of the energy, alpha from
            Eq. 4 in numpy. Proved at N = 3 for any differentiable z, phi and psi.
    Fails   for alpha off by 1 per cent, or moved one column on (a stand-in for that of another
            theta), with the gradient through alpha, with the factor 1 in place of 1/2.
    """
    nets = [("linear", (4, 5, 3)), ("tanh", (4, 5, 4, 3)), ("relu", (5, 6, 4))]
    count = t.share(len(nets) * len(TAUS))
    half = t.part("", 1e-7, draws=count * len(nets) * len(TAUS))
    for k, (name, widths) in enumerate(nets):
        for tau in TAUS:
            _through_net(t, half, count, 4 + 2 * k, tau, partial(ref.net, name=name, widths=widths))
    right = sym.theorem1(sympy.Rational(1, 2))
    half.proves(right, breaks={"factor 1": sym.theorem1(1)}, at=sym.SIZES)


def _through_net(t: Trial, half: Part, count: int, n: int, tau: float, net: partial) -> None:
    """Theorem 1 for all rows of Table 1, `count` random nets of this shape and batches of n."""
    widths = net.keywords["widths"]
    x, x2 = ref.views(t.rng, count, n, widths[0])
    theta = ref.net_parameters(t.rng, count, widths)
    steps = ref.stepped(theta)
    moved = ref.distances(net(steps, x), net(steps, x2))
    inter, intra = (m[0].real for m in moved)
    tx, tx2, t_theta = tensors(x, x2, theta)

    # -1/2 dE/dtheta by autograd; alpha is held or, where it is a function, differentiated too.
    def ascent(alpha: torch.Tensor | Callable) -> Array:
        def total(p: torch.Tensor) -> torch.Tensor:
            z, z2 = net(p, tx), net(p, tx2)
            a: Any = alpha(z, z2) if callable(alpha) else alpha
            return contrast.energy(a, z, z2).sum()

        return -0.5 * torch.func.grad(total)(t_theta).numpy()

    for (row, phi, psi), pair in zip(ref.table1(tau), losses.table1(tau), strict=True):
        left = np.moveaxis(ref.family_loss(*moved, phi, psi).imag / ref.STEP, 0, -1)
        alpha = ref.importance(inter, intra, phi, psi)
        right = ascent(*tensors(alpha))
        half.add(relative(right, left))
        if row == "InfoNCE":
            off = 1 + 0.01 * np.sign(t.rng.standard_normal(alpha.shape))
            other = np.roll(alpha, 1, axis=-1) * ~np.eye(n, dtype=bool)
            through = ascent(partial(contrast.pairwise_importance, pair=pair))
            half.breaks("alpha off by 1%", relative(ascent(*tensors(alpha * off)), left))
            half.breaks("through alpha", relative(through, left))
            half.breaks("factor 1", relative(2 * right, left))
            half.breaks("alpha of another theta", relative(ascent(*tensors(other)), left))


@check("acl/eq23")
def eq23(t: Trial) -> None:
    """Gradients of the loss and of the energy as contrastive covariances (Eqs. 22-26).

    Given   tanh nets at random parameters, N = 6; InfoNCE's weights; for scalars any alpha.
    Claim   -dL/dtheta = C_alpha[dz/dtheta, z^T] and, alpha held, dE_alpha/dtheta = 2
            C_alpha[dz/dtheta, z^T]: Jacobians of each sample by complex steps, put into loops of
            Eq. 5, against autograd of L and of E. For scalars C_alpha[x, y] = C_alpha[y, x].
            Proved at N = 3.
    Fails   without the term of the second views, with the other sign; with the factor 1 for 2; for
            vectors, which do not commute without a transpose.
    """
    n, widths = 6, (4, 4, 3)
    net = partial(ref.net, name="tanh", widths=widths)
    x, x2 = ref.views(t.rng, t.draws, n, 4)
    theta = ref.net_parameters(t.rng, t.draws, widths)
    steps = ref.stepped(theta)
    z, z2 = net(theta, x), net(theta, x2)
    jacobian, jacobian2 = (net(steps, v).imag / ref.STEP for v in (x, x2))
    _, phi, psi = ref.table1()[0]
    alpha = ref.importance(*ref.distances(z, z2), phi, psi)

    def loops(second: float) -> Array:
        """C_alpha[dz/dtheta, z^T]: [draws, parameters]."""
        total = 0.0
        for i in range(n):
            beta = alpha[:, i].sum(-1)
            inner = (jacobian[..., i, :] - jacobian2[..., i, :]) * (z[:, i] - z2[:, i])
            total = total - second * beta * inner.sum(-1)
            for j in range(n):
                inner = (jacobian[..., i, :] - jacobian[..., j, :]) * (z[:, i] - z[:, j])
                total = total + alpha[:, i, j] * inner.sum(-1)
        return total.T

    tx, tx2, t_theta, t_alpha = tensors(x, x2, theta, alpha)

    def of_theta(f: Callable) -> Array:
        return torch.func.grad(lambda p: f(net(p, tx), net(p, tx2)).sum())(t_theta).numpy()

    # -dL/dtheta by autograd against C_alpha[dz/dtheta, z^T] by loops.
    c = loops(1.0)
    slope = of_theta(partial(contrast.family_loss, pair=losses.infonce_pair()))
    loss = t.part("loss", 1e-6).add(relative(-slope, c))
    loss.breaks("augmentation term dropped", relative(-slope, loops(0.0)))
    loss.breaks("the other sign", relative(slope, c))
    loss.proves(  # A is dz/dtheta
        sym.lemma5(scalar=True),
        breaks={"the other sign": sym.lemma5(-1, scalar=True)},
        at=sym.SIZES,
    )

    # dE_alpha/dtheta by autograd against twice those loops.
    power = of_theta(partial(contrast.energy, t_alpha))
    energy = t.part("energy", 1e-6).add(relative(power, 2 * c))
    energy.breaks("factor 1", relative(power, c))
    energy.proves(sym.energy_slope(2), breaks={"factor 1": sym.energy_slope(1)}, at=sym.SIZES)

    # Of scalars, C_alpha[x, y] is C_alpha[y, x].
    weights = ref.random_weights(t.rng, t.draws, n, n)
    one, two = ref.covariance(weights, z, z2, x, x2), ref.covariance(weights, x, x2, z, z2)
    commute = t.part("scalars commute", 1e-12)
    commute.add(relative(one[:, :1, :1], two[:, :1, :1], floor=1.0))  # a scalar may be near zero
    commute.breaks("vectors, no transpose", relative(one[:, :3, :3], two[:, :3, :3]))
    commute.proves(sym.commutes(1), breaks={"vectors, no transpose": sym.commutes(2)}, at="N = 3")


def _loss_gradients(z: Array, z2: Array, phi: Callable, psi: Callable) -> tuple[Array, Array]:
    """(dL/dz, dL/dz2) by complex steps through the loops of Eq. 1."""

    def loss(a: Array, b: Array) -> Array:
        return ref.family_loss(*ref.distances(a, b), phi, psi)

    return ref.gradient(lambda a: loss(a, z2), z), ref.gradient(lambda b: loss(z, b), z2)


def _both_sums(weights: Array, beta: Array, near: Array, far: Array) -> Array:
    """sum_ij weights_ij far_ij - sum_i beta_i near_i: [draws, ...]."""
    total = np.zeros(())
    for i in range(near.shape[1]):
        total = total - beta[:, i, None, None] * near[:, i]
        for j in range(near.shape[1]):
            total = total + weights[:, i, j, None, None] * far[:, i, j]
    return total


@check("acl/lem5")
def lem5(t: Trial) -> None:
    """Gradient formula of the loss for any per-sample variable (Lemma 5).

    Given   random views z, z', N = 7; any variable A of each view: vectors in the first form,
            matrices 4 x 3 in the second; weights alpha of InfoNCE; any alpha_ii.
    Claim   sum_i dL/dz[i] A^T[i] + dL/dz[i'] A^T[i'] = -C_alpha[z, A], and sum_i A[i] dL/dz[i]
            + A[i'] dL/dz[i'] = -C_alpha[A, z^T]; dL/dz by complex steps. alpha_ii, if left out of
            beta, changes nothing. Proved at N = 3.
    Fails   without the second views' term, with the other sign, and with alpha_ii counted in beta.
    """
    n = 7
    z, z2 = ref.views(t.rng, t.draws, n, 3)
    a, a2 = t.rng.standard_normal((2, t.draws, n, 4))
    _, phi, psi = ref.table1()[0]
    g, g2 = _loss_gradients(z, z2, phi, psi)
    alpha = ref.importance(*ref.distances(z, z2), phi, psi)

    # First form, A[i] a vector: sum_i dL/dz[i] A^T[i] + ... against the library's -C_alpha[z, A].
    first = g.swapaxes(-1, -2) @ a
    left = first + g2.swapaxes(-1, -2) @ a2
    right = -contrast.contrastive_covariance(*tensors(alpha, z, z2, a, a2)).numpy()
    vectors = t.part("z, A", 1e-7).add(absolute(left, right))
    vectors.breaks("second view dropped", absolute(first, right))
    vectors.breaks("the other sign", absolute(left, -right))
    vectors.proves(
        sym.lemma5(), breaks={"the other sign": sym.lemma5(-1)}, at=f"{sym.SIZES}, A in R^2"
    )

    # Second form, A[i] a 4 x 3 matrix: sum_i A[i] dL/dz[i] + ... against -C_alpha[A, z^T], loops.
    m, m2 = t.rng.standard_normal((2, t.draws, n, 4, 3))
    left = (m @ g[..., None] + m2 @ g2[..., None]).sum(1)[..., 0]
    near = (m - m2) @ (z - z2)[..., None]
    far = (m[:, :, None] - m[:, None]) @ (z[:, :, None] - z[:, None])[..., None]
    right = -_both_sums(alpha, alpha.sum(-1), near, far)[..., 0]
    matrices = t.part("A, z^T", 1e-7).add(absolute(left, right))
    matrices.breaks("the other sign", absolute(left, -right))
    matrices.proves(  # row by row of A[i]
        sym.lemma5(scalar=True),
        breaks={"the other sign": sym.lemma5(-1, scalar=True)},
        at=sym.SIZES,
    )

    # C_alpha[z, A] by loops, with alpha_ii and without; beta leaves it out.
    diagonal = alpha + t.rng.random((t.draws, n))[..., None] * np.eye(n)
    near = (z - z2)[..., None] * (a - a2)[..., None, :]
    far = (z[:, :, None] - z[:, None])[..., None] * (a[:, :, None] - a[:, None])[..., None, :]
    plain, left_out = (_both_sums(w, alpha.sum(-1), near, far) for w in (alpha, diagonal))
    free = t.part("any alpha_ii", 1e-7).add(absolute(left_out, plain))
    counted = _both_sums(diagonal, diagonal.sum(-1), near, far)
    free.breaks("alpha_ii in beta", absolute(counted, plain))
    free.proves(sym.diagonal(False), breaks={"alpha_ii in beta": sym.diagonal(True)}, at=sym.SIZES)


@check("acl/eq88")
def eq88(t: Trial) -> None:
    """Gradient of the loss in the outputs of either view (Eqs. 88-89).

    Given   random views, N = 6; all rows of Table 1; alpha by Eq. 4, beta_i = sum_j alpha_ij.
    Claim   (1) dL/dz[i] = sum_j alpha_ij (z[j] - z[i']) + sum_j alpha_ji (z[j] - z[i]) and (2)
            dL/dz[i'] = beta_i (z[i'] - z[i]), against complex steps of L in every entry; proved at
            N = 3.
    Fails   (1) for z[i] in place of z[i'], without the alpha_ji term, with alpha_ij in its place;
            (2) for column sums in place of beta_i, and in the proof for the other sign.
    """
    z, z2 = ref.views(t.rng, t.draws, 6, 3)
    distances = ref.distances(z, z2)

    def closed(alpha: Array, centre: Array, back: Array) -> Array:
        """Eq. 88 with `centre` for z[i'] and `back` for alpha_ji."""
        pull = alpha @ z - alpha.sum(-1, keepdims=True) * centre
        return pull + back @ z - back.sum(-1, keepdims=True) * z

    first = t.part("first view", 1e-8, draws=t.draws)
    second = t.part("second view", 1e-8, draws=t.draws)
    for name, phi, psi in ref.table1():
        alpha = ref.importance(*distances, phi, psi)
        dz, dz2 = _loss_gradients(z, z2, phi, psi)
        turned = alpha.swapaxes(-1, -2)

        # (1) Eq. 88 in numpy against complex steps of L in z.
        first.add(relative(closed(alpha, z2, turned), dz, 1.0))
        if name == "InfoNCE":
            first.breaks("z[i] for z[i']", relative(closed(alpha, z, turned), dz, 1.0))
            first.breaks("no alpha_ji term", relative(closed(alpha, z2, 0 * turned), dz, 1.0))
            first.breaks("alpha_ij for alpha_ji", relative(closed(alpha, z2, alpha), dz, 1.0))

        # (2) Eq. 89 in numpy against complex steps of L in z'.
        second.add(relative(alpha.sum(-1, keepdims=True) * (z2 - z), dz2, 1.0))
        if name == "InfoNCE":
            columns = turned.sum(-1, keepdims=True) * (z2 - z)
            second.breaks("column sums for beta", relative(columns, dz2, 1.0))

    # The proofs, in the same order.
    no_back = {"no alpha_ji term": sym.gradients(0, 0)}
    first.proves(sym.gradients(0), breaks=no_back, at=sym.SIZES)
    second.proves(
        sym.gradients(1), breaks={"the other sign": sym.gradients(1, sign=-1)}, at=sym.SIZES
    )
