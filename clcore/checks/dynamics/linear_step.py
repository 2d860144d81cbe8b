"""One step of the dual linear network: loss, moments, gradient (ncl Eq. 12, App. C.1).

Expectations by enumeration of latents, noise values and masks. Latents are those of App. C.1: -1
and 1 with probability p_z each (Sec. 4.2; Sec. 4.1 prints 0 and 1, which serves as a control).
"""

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
import sympy
import torch

from clcore import reference as ref
from clcore.checks.dynamics import linear_symbols as sym
from clcore.ledger import Trial, check, exact, typical
from clcore.reference import Array, relative, tensors
from clcore.theory.sparse import linear_noncontrastive as ln

# ------------------------------------------------------------------------------ exact expectations


def dictionaries(rng: np.random.Generator, n: int, p: int, d: int) -> Array:
    """[n, p, d]: orthonormal columns."""
    return np.stack([np.linalg.qr(rng.standard_normal((p, d)))[0] for _ in range(n)])


def latents(d: int, p_z: Array, binary: bool = False) -> tuple[Array, Array]:
    """All values of z [Z, d] and their probabilities [n, Z], p_z: [n]; binary: 2 p_z on 1."""
    values = np.array(list(product((0, 1) if binary else (-1, 0, 1), repeat=d)), dtype=float)
    count = (values != 0).sum(-1)
    share = (2 if binary else 1) * p_z[:, None]
    return values, share**count * (1 - 2 * p_z[:, None]) ** (d - count)


def law(M: Array, p_z: Array, sigma: Array, binary: bool = False) -> tuple[Array, Array]:
    """A finite law of x = M z + noise: [n, X, p] and [n, X]. The noise takes the 2p values
    +-sigma sqrt(p) e_k, which has its mean and covariance: enough for what is quadratic in x."""
    n, p, d = M.shape
    z, weight = latents(d, p_z, binary)
    steps = np.concatenate([np.eye(p), -np.eye(p)]) * np.sqrt(p)
    x = (z @ np.swapaxes(M, 1, 2))[:, :, None] + sigma[:, None, None, None] * steps
    return x.reshape(n, -1, p), np.repeat(weight / (2 * p), 2 * p, -1)


def fitted(A: Array, B: Array, steps: int) -> tuple[Array, Array]:
    """(C_1, C_2) [n, 2] by least squares from W^o_T M alone, and the relative residual [n] of that
    pair on both networks."""
    pairs, errors = [], []
    for k in range(A.shape[1]):
        total = A[0, k] + B[0, k]
        basis = np.stack([A[0, k].ravel(), total.ravel()], -1)
        pair = np.linalg.lstsq(basis, A[steps, k].ravel(), rcond=None)[0]
        gap = max(
            np.abs(pair[0] * start[0, k] + pair[1] * total - start[steps, k]).max()
            / np.abs(start[steps, k]).max()
            for start in (A, B)
        )
        pairs.append(pair)
        errors.append(gap)
    return np.array(pairs), np.array(errors)


Law = tuple[Array, Array]
"""Values of x, [n, X, p], and their probabilities, [n, X]."""
Act = Callable[[Array], Array]


def enumerated(
    online: Array, target: Array, of: Law, alpha: Array, act: Act = np.positive, same: bool = False
) -> Array:
    """Eq. 12, [..., n], over all samples and all pairs of masks; weights [..., n, m, p]. `act`:
    what follows the linear layer. `same` wrongly takes D_2 = D_1."""
    x, weight = of
    p = x.shape[-1]
    masks = np.array(list(product((0.0, 1.0), repeat=p)))
    kept = masks.sum(-1)
    share = alpha[:, None] ** kept * (1 - alpha[:, None]) ** (p - kept)
    seen = (x[:, :, None] * masks).reshape(len(x), -1, p)
    outputs = (act(seen @ np.swapaxes(W, -1, -2)) for W in (online, target))
    first, second = (u.reshape(*u.shape[:-2], x.shape[1], len(masks), -1) for u in outputs)
    if same:
        overlap = np.einsum("...nxkm,...nxkm,nk,nx->...n", first, second, share, weight)
    else:
        # D_1 and D_2 are independent.
        first, second = (np.einsum("...nxkm,nk->...nxm", u, share) for u in (first, second))
        overlap = np.einsum("...nxm,...nxm,nx->...n", first, second, weight)
    return 2 - 2 * overlap


def small(rng: np.random.Generator, n: int) -> tuple[Array, ...]:
    """M [n, 4, 2], W^o and W^t [n, 3, 4], p_z, sigma_0, alpha [n]: small enough to enumerate."""
    W = rng.standard_normal((2, n, 3, 4))
    p_z, sigma = rng.uniform(0.05, 0.45, n), rng.uniform(0.1, 1.0, n)
    return dictionaries(rng, n, 4, 2), W[0], W[1], p_z, sigma, rng.uniform(0.2, 0.9, n)


def moment(M: Array, p_z: Array, sigma: Array, binary: bool = False) -> Array:
    """E[x x^T], [n, p, p], by enumeration of z."""
    z, weight = latents(M.shape[-1], p_z, binary)
    zz = np.einsum("nz,zi,zj->nij", weight, z, z)
    return M @ zz @ np.swapaxes(M, 1, 2) + sigma[:, None, None] ** 2 * np.eye(M.shape[1])


@check("ncl/eq12")
def eq12(t: Trial) -> None:
    """Non-contrastive loss of dual linear networks (Eq. 12).

    Given   small networks, p = 4, d = 2, all latents, noise values and pairs of masks; for (2)
            weights >= 0, x = z in {0, 1}^4.
    Claim   (1) The loss is 2 - 2 alpha^2 tr(W^o E[x x^T] W^tT); (2) with a ReLU behind W^o and W^t
            it is the same where nothing is negative.
    Fails   (1) for one mask for both views, alpha for its square; (2) for weights of both signs.
    """
    n = min(t.draws, 60)
    M, Wo, Wt, p_z, sigma, alpha = small(t.rng, n)
    data = law(M, p_z, sigma)

    # (1) Eq. 12 over all samples and masks, against its closed form.
    values = enumerated(Wo, Wt, data, alpha)
    pair = ln.Pair(*tensors(Wo, Wt))
    moments = torch.stack(
        [ln.second_moment(*tensors(a), ln.latent_moment(2, 2 * b), c) for a, b, c in
         zip(M, p_z, sigma, strict=True)]
    )  # fmt: skip
    closed = ln.loss(pair, moments, *tensors(alpha)).numpy()
    part = t.part("closed form", 1e-12, controls=typical).add(relative(closed, values))
    one_mask = enumerated(Wo, Wt, data, alpha, same=True)
    part.breaks("one mask for both views", relative(closed, one_mask))
    once = ln.loss(pair, moments, *tensors(np.sqrt(alpha))).numpy()
    part.breaks("alpha for its square", relative(once, values))
    net = sym.small()
    of_masks = sym.loss(net.online, net.target, sym.data(net.M))
    moment_of_x = 2 * sym.P_Z * net.M * net.M.T + sym.SIGMA**2 * sympy.eye(2)
    overlap = (net.online * moment_of_x * net.target.T)[0]
    part.proves(
        exact.equal(of_masks, 2 - 2 * sym.ALPHA**2 * overlap),
        breaks={"alpha once": exact.equal(of_masks, 2 - 2 * sym.ALPHA * overlap)},
        at="m = 1, p = 2, d = 1",
    )

    # (2) Eq. 12 with the ReLU against Eq. 12 without.
    z, weight = latents(4, p_z, binary=True)
    binary = np.broadcast_to(z, (n, *z.shape)), weight

    def beside_linear(first: Array, second: Array) -> Array:
        relu = enumerated(first, second, binary, alpha, partial(np.maximum, 0))
        return relative(relu, enumerated(first, second, binary, alpha))

    part = t.part("identity region of the ReLU", 1e-12, controls=typical)
    part.add(beside_linear(np.abs(Wo), np.abs(Wt)))
    part.breaks("weights of both signs", beside_linear(Wo, Wt))
    signed, above = net.online, exact.matrix("o", 1, 2, positive=True)
    other, z01 = exact.matrix("w", 1, 2, positive=True), sym.latents(2, binary=True)

    def beside(online: sympy.Matrix) -> exact.Shown:
        relu = sym.loss(online, other, z01, act=lambda u: sympy.Max(0, u))
        return exact.equal(relu, sym.loss(online, other, z01))

    part.proves(beside(above), breaks={"weights of both signs": beside(signed)}, at="m = 1, p = 2")


def slopes(Wo: Array, Wt: Array, of: Law, alpha: Array, same: bool = False) -> Array:
    """dL/dW^o, [n, m, p], of the enumerated loss by complex steps."""
    return ref.gradient(lambda W: enumerated(W, Wt, of, alpha, same=same), Wo)


@check("ncl/thm2-grad0")
def thm2_grad0(t: Trial) -> None:
    """Gradient of the linear non-contrastive loss from the data's second moment (App. C.1).

    Given   random finite laws of x, all pairs of masks.
    Claim   dL/dW^o = -2 E[(W^t D_2 x)(D_1 x)^T] = -2 alpha^2 W^t E[x x^T]: complex steps.
    Fails   for one mask for both views, and for alpha in place of its square.
    """
    n = min(t.draws, 60)
    _, Wo, Wt, _, _, alpha = small(t.rng, n)
    x, weight = t.rng.standard_normal((n, 5, 4)), t.rng.dirichlet(np.ones(5), n)
    slope = slopes(Wo, Wt, (x, weight), alpha)
    outer = np.zeros_like(slope)
    for first, second in product(product((0.0, 1.0), repeat=4), repeat=2):
        kept = sum(first) + sum(second)
        share = alpha**kept * (1 - alpha) ** (8 - kept)
        left, right = (x * second) @ np.swapaxes(Wt, 1, 2), x * first
        outer -= 2 * share[:, None, None] * np.einsum("nx,nxm,nxp->nmp", weight, left, right)
    xx = np.einsum("nx,nxp,nxq->npq", weight, x, x)
    closed = ln.gradient(*tensors(Wt, xx, alpha)).numpy()
    part = t.part("", 1e-12, controls=typical, draws=n)
    part.add(relative(outer, slope), relative(closed, slope))
    one_mask = slopes(Wo, Wt, (x, weight), alpha, same=True)
    part.breaks("one mask for both views", relative(closed, one_mask))
    part.breaks("alpha for its square", relative(-2 * alpha[:, None, None] * (Wt @ xx), slope))
    net, two = sym.small(), sym.samples()
    printed = -2 * sym.ALPHA**2 * net.target * sym.second_moment(two)

    def by(same: bool = False) -> exact.Shown:
        return exact.equal(
            sym.gradient(sym.loss(net.online, net.target, two, same=same), net.online), printed
        )

    part.proves(
        by(), breaks={"one mask for both views": by(same=True)}, at="m = 1, p = 2, two samples"
    )


@check("ncl/thm2-mom")
def thm2_mom(t: Trial) -> None:
    """Second moments of signed sparse latents and of the noise (App. C.1).

    Given   signed latents, +-1 with probability p_z each, p_z in (0, 0.5), enumerated; Gaussian
            noise by quadrature; random dictionaries M.
    Claim   (1) E[z z^T] = 2 p_z I; given z != 0 a multiple of I as well. (2) E[eps eps^T] =
            sigma_0^2 I. (3) E[eps z^T M^T] = 0. Proved for d = 2.
    Fails   (1) for latents 0 and 1; (2) with sigma_0 for its square; (3) for noise that follows M
            z.
    """
    n = min(t.draws, 60)
    p_z = t.rng.uniform(0.02, 0.48, n)

    def squares(z: Array, weight: Array) -> Array:
        return np.einsum("nz,zi,zj->nij", weight, z, z)

    # (1) Latents: sums over all z, and the same given z != 0.
    z, weight = latents(4, p_z)
    printed = 2 * p_z[:, None, None] * np.eye(4)
    ours = np.stack([ln.latent_moment(4, 2 * q).numpy() for q in p_z])
    given = weight * (z != 0).any(-1)
    given = squares(z, given / given.sum(-1, keepdims=True))
    conditioned = np.stack([ln.latent_moment(4, 2 * q, "nonzero").numpy() for q in p_z])
    part = t.part("latents", 1e-13, controls=typical, draws=n)
    part.add(relative(squares(z, weight), printed), relative(ours, printed))
    part.add(relative(given, conditioned))
    part.breaks("latents 0 and 1", relative(squares(*latents(4, p_z, binary=True)), printed))
    diagonal = 2 * sym.P_Z * sympy.eye(2)
    part.proves(
        exact.equal(sym.second_moment(sym.latents(2)), diagonal),
        breaks={
            "latents 0 and 1": exact.equal(sym.second_moment(sym.latents(2, binary=True)), diagonal)
        },
        at="d = 2",
    )

    # (2) Noise.
    nodes, share = np.polynomial.hermite_e.hermegauss(3)
    share = share / share.sum()
    eps = np.array(list(product(nodes, repeat=3)))
    chance = np.array([np.prod(s) for s in product(share, repeat=3)])
    M, sigma = dictionaries(t.rng, n, 3, 3), t.rng.uniform(0.1, 1.5, n)
    z, weight = latents(3, p_z)
    noise = sigma[:, None, None] * eps
    total = np.einsum("e,nei,nej->nij", chance, noise, noise)
    square = sigma[:, None, None] ** 2 * np.eye(3)
    part = t.part("noise", 1e-13, controls=typical)
    part.add(relative(total, square))
    part.breaks("its standard deviation", relative(total, np.sqrt(square)))
    mean, variance = sym.gaussian_moments()
    spread = sym.SIGMA**2 * (variance * sympy.eye(2) + mean**2 * (sympy.ones(2) - sympy.eye(2)))
    part.proves(
        exact.equal(spread, sym.SIGMA**2 * sympy.eye(2)),
        breaks={"its standard deviation": exact.equal(spread, sym.SIGMA * sympy.eye(2))},
        at="p = 2",
    )

    # (3) The cross terms.
    def cross(shift: float) -> Array:
        """Size of E[noise z^T M^T] where the noise is moved by shift * M z."""
        image = z @ np.swapaxes(M, 1, 2)
        sample = noise[:, None] + shift * image[:, :, None]
        mean = np.einsum("nz,e,nzei,nzj->nij", weight, chance, sample, image)
        return np.abs(mean).max((1, 2)) / (np.sqrt(2 * p_z) * sigma)

    part = t.part("cross terms", 1e-13, controls=typical)
    part.add(cross(0.0))
    part.breaks("noise that follows z", cross(0.1))
    D, shift, ones = exact.matrix("m", 2, 2), sympy.Symbol("s"), sympy.ones(2, 1)
    terms = (q * (mean * ones + shift * D * z) * (D * z).T for z, q in sym.latents(2))
    moved = sum(terms, sympy.zeros(2))
    follows = 2 * sym.P_Z * shift * D * D.T  # 0 where the noise does not follow z
    part.proves(
        exact.equal(moved, follows),
        breaks={"noise that follows z": exact.equal(moved, 0 * follows)},
        at="p = d = 2",
    )


@check("ncl/thm2-grad")
def thm2_grad(t: Trial) -> None:
    """Gradient of the linear non-contrastive loss for sparse coding data (App. C.1).

    Given   two small linear networks W^o, W^t, p = 4, d = 2, sparse data M z + noise with signed
            latents: all latents, noise values and pairs of masks.
    Claim   dL/dW^o = -2 alpha^2 (2 p_z W^t M M^T + sigma_0^2 W^t), and the same for W^t: against
            complex steps of the enumerated loss.
    Fails   for p_z in place of 2 p_z, without the term of the noise, for latents 0 and 1 in the
            loss.
    """
    n = min(t.draws, 60)
    M, Wo, Wt, p_z, sigma, alpha = small(t.rng, n)

    def printed(share: Array, level: Array) -> Array:
        """The printed gradient with these factors for 2 p_z and sigma_0."""
        along = Wt @ M @ np.swapaxes(M, 1, 2)
        value = share[:, None, None] * along + level[:, None, None] ** 2 * Wt
        return -2 * alpha[:, None, None] ** 2 * value

    # The slope of the loss by the online network; and that by the target network, which is Wo here
    # and has Wt for W^o.
    slope = slopes(Wo, Wt, law(M, p_z, sigma), alpha)
    swapped = ref.gradient(lambda W: enumerated(Wt, W, law(M, p_z, sigma), alpha), Wo)

    # The printed gradient, against both.
    right = printed(2 * p_z, sigma)
    part = t.part("", 1e-12, controls=typical, draws=n)
    part.add(relative(right, slope), relative(right, swapped))
    part.breaks("p_z for 2 p_z", relative(printed(p_z, sigma), slope))
    part.breaks("no noise", relative(printed(2 * p_z, 0 * sigma), slope))
    mixed = slopes(Wo, Wt, law(M, p_z, sigma, binary=True), alpha)
    part.breaks("latents 0 and 1", relative(right, mixed))

    # The same in symbols, one neuron and one atom.
    net, M1 = sym.small(), exact.vector("m", 2)

    def formula(share: object) -> sympy.Matrix:
        """The printed gradient with this factor for 2 p_z."""
        along = share * net.target * M1 * M1.T
        return -2 * sym.ALPHA**2 * (along + sym.SIGMA**2 * net.target)

    enumerated_slope = sym.gradient(sym.loss(net.online, net.target, sym.data(M1)), net.online)
    part.proves(
        exact.equal(enumerated_slope, formula(2 * sym.P_Z)),
        breaks={"p_z for 2 p_z": exact.equal(enumerated_slope, formula(sym.P_Z))},
        at="m = 1, p = 2, d = 1",
    )


@check("ncl/thm2-step")
def thm2_step(t: Trial) -> None:
    """One step of gradient descent with weight decay on WM (App. C.1).

    Given   linear nets, p = 4 > d = 2, M with orthonormal columns; one step with weight decay, both
            gradients taken at step t.
    Claim   (1) W^o_t+1 M = lambda W^o_t M + c W^t_t M, c = 2 eta alpha^2 (2 p_z + sigma_0^2), and
            (2) the same for the target.
    Fails   (1) for columns of M that are not orthonormal; (2) for a target step whose gradient is
            taken after the online step.
    """
    n = min(t.draws, 60)
    M, Wo, Wt, p_z, sigma, alpha = small(t.rng, n)
    eta, lam = t.rng.uniform(0.05, 0.3, (n, 1, 1)), t.rng.uniform(0.5, 0.99, (n, 1, 1))
    c = (2 * eta[:, 0, 0] * alpha**2 * (2 * p_z + sigma**2))[:, None, None]

    def moved(own: Array, other: Array, D: Array) -> Array:
        return lam * own - eta * slopes(own, other, law(D, p_z, sigma), alpha)

    tilted = M @ (np.eye(2) + 0.3 * t.rng.standard_normal((n, 2, 2)))

    # (1) Steps by slopes of the enumerated loss, both at step t, against the recursion.
    online = relative(moved(Wo, Wt, M) @ M, lam * Wo @ M + c * Wt @ M)
    part = t.part("online", 1e-12, controls=typical).add(online)
    skew = lam * Wo @ tilted + c * Wt @ tilted
    part.breaks("M not orthonormal", relative(moved(Wo, Wt, tilted) @ tilted, skew))
    (Vo, Vt, M1), free = sym.small(), exact.vector("m", 2)
    unit, sizes = dict(zip(free.flat(), M1.flat(), strict=True)), "m = 1, p = 2, d = 1"
    rate = 2 * sym.ETA * sym.ALPHA**2 * (2 * sym.P_Z + sym.SIGMA**2)

    def step(own: sympy.Matrix, other: sympy.Matrix) -> sympy.Matrix:
        slope = sym.gradient(sym.loss(own, other, sym.data(free)), own)
        return (sym.DECAY * own - sym.ETA * slope.expand()) * free

    def recursion(own: sympy.Matrix, other: sympy.Matrix) -> sympy.Matrix:
        return sym.DECAY * own * free + rate * other * free

    def as_printed(own: sympy.Matrix, other: sympy.Matrix, seen: sympy.Matrix) -> exact.Shown:
        return exact.equal(step(own, seen).subs(unit), recursion(own, other).subs(unit))

    part.proves(
        as_printed(Vo, Vt, Vt),
        breaks={"M of any norm": exact.equal(step(Vo, Vt), recursion(Vo, Vt))},
        at=sizes,
    )

    # (2) The target likewise, W^o being that of step t.
    target = lam * Wt @ M + c * Wo @ M
    part = t.part("target", 1e-12, controls=typical).add(relative(moved(Wt, Wo, M) @ M, target))
    part.breaks("after the online step", relative(moved(Wt, moved(Wo, Wt, M), M) @ M, target))
    part.proves(
        as_printed(Vt, Vo, Vo),
        breaks={"after the online step": as_printed(Vt, Vo, sym.DECAY * Vo + rate * Vt)},
        at=sizes,
    )
