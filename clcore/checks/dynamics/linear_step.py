"""One step of the dual linear network: loss, moments, gradient (ncl Eq. 12, App. C.1).

Expectations by enumeration of latents, noise values and masks. Latents are those of App. C.1: -1
and 1 with probability p_z each (Sec. 4.2; Sec. 4.1 prints 0 and 1, which serves as a control).
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np
import torch

from clcore import reference as ref
from clcore.ledger import Check, check
from clcore.reference import Array, relative, tensors, typical, worst
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


def enumerated(
    online: Array,
    target: Array,
    x: Array,
    weight: Array,
    alpha: Array,
    act: Callable[[Array], Array] = lambda u: u,
    same: bool = False,
) -> Array:
    """Eq. 12, [..., n], over all samples and all pairs of masks; weights [..., n, m, p]. `act`:
    what follows the linear layer. `same` wrongly takes D_2 = D_1."""
    p = x.shape[-1]
    masks = np.array(list(product((0.0, 1.0), repeat=p)))
    kept = masks.sum(-1)
    share = alpha[:, None] ** kept * (1 - alpha[:, None]) ** (p - kept)
    seen = (x[:, :, None] * masks).reshape(len(x), -1, p)

    def out(W: Array) -> Array:
        u = act(seen @ np.swapaxes(W, -1, -2))
        return u.reshape(*u.shape[:-2], x.shape[1], len(masks), -1)

    first, second = out(online), out(target)
    if same:
        overlap = np.einsum("...nxkm,...nxkm,nk,nx->...n", first, second, share, weight)
    else:
        first = np.einsum("...nxkm,nk->...nxm", first, share)  # D_1 and D_2 are independent
        second = np.einsum("...nxkm,nk->...nxm", second, share)
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
def eq12(draws: int, seed: int) -> Iterator[Check]:
    """The library's closed form against all latents, noise values and pairs of masks; the ReLU
    loss where nothing is negative. Controls: one mask for both views; alpha once; mixed signs."""
    n = min(draws, 60)
    rng, check = ref.generator("ncl eq12", seed), partial(Check, "ncl/eq12", draws=n)
    M, Wo, Wt, p_z, sigma, alpha = small(rng, n)
    x, weight = law(M, p_z, sigma)
    exact = enumerated(Wo, Wt, x, weight, alpha)
    pair = ln.Pair(*tensors(Wo, Wt))
    moments = torch.stack(
        [ln.second_moment(*tensors(a), ln.latent_moment(2, 2 * b), c) for a, b, c in
         zip(M, p_z, sigma, strict=True)]
    )  # fmt: skip
    closed = ln.loss(pair, moments, *tensors(alpha)).numpy()
    yield check(
        worst(relative(closed, exact)),
        1e-12,
        {
            "one mask for both views": typical(
                relative(closed, enumerated(Wo, Wt, x, weight, alpha, same=True))
            ),
            "alpha for its square": typical(
                relative(ln.loss(pair, moments, *tensors(np.sqrt(alpha))).numpy(), exact)
            ),
        },
        part="closed form",
    )
    z, weight = latents(4, p_z, binary=True)
    x = np.broadcast_to(z, (n, *z.shape))
    up, relu = (np.abs(Wo), np.abs(Wt)), partial(np.maximum, 0)
    yield check(
        worst(relative(enumerated(*up, x, weight, alpha, relu), enumerated(*up, x, weight, alpha))),
        1e-12,
        {
            "weights of both signs": typical(
                relative(
                    enumerated(Wo, Wt, x, weight, alpha, relu),
                    enumerated(Wo, Wt, x, weight, alpha),
                )
            )
        },
        part="identity region of the ReLU",
        note=r"$M=I$, $z\in\{0,1\}^4$, no noise, weights $\ge0$: no ReLU is inactive. With the "
        "signed latents of the proof this region does not exist.",
    )


def slopes(Wo: Array, Wt: Array, x: Array, weight: Array, alpha: Array, **more: bool) -> Array:
    """dL/dW^o, [n, m, p], of the enumerated loss by complex steps."""
    return ref.gradient(lambda W: enumerated(W, Wt, x, weight, alpha, **more), Wo)


@check("ncl/thm2-grad0")
def thm2_grad0(draws: int, seed: int) -> Iterator[Check]:
    """dL/dW^o for random finite laws of x against -2 E[(W^t D_2 x)(D_1 x)^T] by pairs of masks
    and against -2 alpha^2 W^t E[x x^T]. Controls: D_1 = D_2; alpha once."""
    n = min(draws, 60)
    rng = ref.generator("ncl thm2-grad0", seed)
    _, Wo, Wt, _, _, alpha = small(rng, n)
    x, weight = rng.standard_normal((n, 5, 4)), rng.dirichlet(np.ones(5), n)
    exact = slopes(Wo, Wt, x, weight, alpha)
    outer = np.zeros_like(exact)
    for first in product((0.0, 1.0), repeat=4):
        for second in product((0.0, 1.0), repeat=4):
            kept = sum(first) + sum(second)
            share = alpha**kept * (1 - alpha) ** (8 - kept)
            left, right = (x * second) @ np.swapaxes(Wt, 1, 2), x * first
            term = np.einsum("nx,nxm,nxp->nmp", weight, left, right)
            outer -= 2 * share[:, None, None] * term
    xx = np.einsum("nx,nxp,nxq->npq", weight, x, x)
    closed = ln.gradient(*tensors(Wt, xx, alpha)).numpy()
    yield Check(
        "ncl/thm2-grad0",
        worst(relative(outer, exact), relative(closed, exact)),
        1e-12,
        {
            "one mask for both views": typical(
                relative(closed, slopes(Wo, Wt, x, weight, alpha, same=True))
            ),
            "alpha for its square": typical(relative(-2 * alpha[:, None, None] * (Wt @ xx), exact)),
        },
        draws=n,
        note=r"One mask would add $\alpha(1-\alpha)\,\mathrm{diag}\,E[xx^\top]$.",
    )


@check("ncl/thm2-mom")
def thm2_mom(draws: int, seed: int) -> Iterator[Check]:
    """E[z z^T] over all 3^4 latents, the noise by Gauss-Hermite quadrature. Controls: latents 0
    and 1; noise that follows z; its standard deviation in place of the variance."""
    n = min(draws, 60)
    rng, check = ref.generator("ncl thm2-mom", seed), partial(Check, "ncl/thm2-mom", draws=n)
    p_z = rng.uniform(0.02, 0.48, n)
    z, weight = latents(4, p_z)
    zz = np.einsum("nz,zi,zj->nij", weight, z, z)
    z01, weight01 = latents(4, p_z, binary=True)
    mixed = np.einsum("nz,zi,zj->nij", weight01, z01, z01)
    printed = 2 * p_z[:, None, None] * np.eye(4)
    ours = np.stack([ln.latent_moment(4, 2 * q).numpy() for q in p_z])
    given = weight * (z != 0).any(-1)
    given = np.einsum("nz,zi,zj->nij", given / given.sum(-1, keepdims=True), z, z)
    conditioned = np.stack([ln.latent_moment(4, 2 * q, "nonzero").numpy() for q in p_z])
    yield check(
        worst(relative(zz, printed), relative(ours, printed), relative(given, conditioned)),
        1e-13,
        {"latents 0 and 1": typical(relative(mixed, printed))},
        part="latents",
        note=r"Given $z\ne0$ (footnote of Sec. 4.2) the moment is $2p_z/(1-(1-2p_z)^d)\,I$, again "
        r"a multiple of $I$. For $z\in\{0,1\}^d$ (Sec. 4.1) it is not.",
    )
    nodes, share = np.polynomial.hermite_e.hermegauss(3)
    share = share / share.sum()
    eps = np.array(list(product(nodes, repeat=3)))
    chance = np.array([np.prod(s) for s in product(share, repeat=3)])
    M, sigma = dictionaries(rng, n, 3, 3), rng.uniform(0.1, 1.5, n)
    z, weight = latents(3, p_z)
    noise = sigma[:, None, None] * eps
    total = np.einsum("e,nei,nej->nij", chance, noise, noise)
    square = sigma[:, None, None] ** 2 * np.eye(3)
    yield check(
        worst(relative(total, square)),
        1e-13,
        {"its standard deviation": typical(relative(total, np.sqrt(square)))},
        part="noise",
    )

    def cross(shift: float) -> Array:
        """E[noise z^T M^T] where the noise is moved by shift * M z."""
        image = z @ np.swapaxes(M, 1, 2)
        sample = noise[:, None] + shift * image[:, :, None]
        return np.einsum("nz,e,nzei,nzj->nij", weight, chance, sample, image)

    size = np.sqrt(2 * p_z) * sigma
    yield check(
        worst(np.abs(cross(0.0)).max((1, 2)) / size),
        1e-13,
        {"noise that follows z": typical(np.abs(cross(0.1)).max((1, 2)) / size)},
        part="cross terms",
        note="Both printed terms: one is the transpose of the other.",
    )


@check("ncl/thm2-grad")
def thm2_grad(draws: int, seed: int) -> Iterator[Check]:
    """-2 alpha^2 (2 p_z W^t M M^T + sigma_0^2 W^t) against complex steps on the enumerated loss.
    Controls: p_z for 2 p_z; no noise term; latents 0 and 1."""
    n = min(draws, 60)
    rng = ref.generator("ncl thm2-grad", seed)
    M, Wo, Wt, p_z, sigma, alpha = small(rng, n)

    def printed(share: Array, level: Array) -> Array:
        along = Wt @ M @ np.swapaxes(M, 1, 2)
        value = share[:, None, None] * along + level[:, None, None] ** 2 * Wt
        return -2 * alpha[:, None, None] ** 2 * value

    exact = slopes(Wo, Wt, *law(M, p_z, sigma), alpha)
    swapped = ref.gradient(lambda W: enumerated(Wt, W, *law(M, p_z, sigma), alpha), Wo)
    right = printed(2 * p_z, sigma)
    yield Check(
        "ncl/thm2-grad",
        worst(relative(right, exact), relative(right, swapped)),
        1e-12,
        {
            "p_z for 2 p_z": typical(relative(printed(p_z, sigma), exact)),
            "no noise": typical(relative(printed(2 * p_z, 0 * sigma), exact)),
            "latents 0 and 1": typical(
                relative(right, slopes(Wo, Wt, *law(M, p_z, sigma, binary=True), alpha))
            ),
        },
        draws=n,
    )


@check("ncl/thm2-step")
def thm2_step(draws: int, seed: int) -> Iterator[Check]:
    """One step on the enumerated loss by complex steps, p = 4 > d = 2. Controls: columns of M that
    are not orthonormal; for the target, a gradient taken after the online network has moved."""
    n = min(draws, 60)
    rng, check = ref.generator("ncl thm2-step", seed), partial(Check, "ncl/thm2-step", draws=n)
    M, Wo, Wt, p_z, sigma, alpha = small(rng, n)
    eta, lam = rng.uniform(0.05, 0.3, (n, 1, 1)), rng.uniform(0.5, 0.99, (n, 1, 1))
    c = (2 * eta[:, 0, 0] * alpha**2 * (2 * p_z + sigma**2))[:, None, None]

    def moved(own: Array, other: Array, D: Array) -> Array:
        return lam * own - eta * slopes(own, other, *law(D, p_z, sigma), alpha)

    tilted = M @ (np.eye(2) + 0.3 * rng.standard_normal((n, 2, 2)))
    online = lam * Wo @ M + c * Wt @ M
    target = lam * Wt @ M + c * Wo @ M
    skew = lam * Wo @ tilted + c * Wt @ tilted
    yield check(
        worst(relative(moved(Wo, Wt, M) @ M, online)),
        1e-12,
        {"M not orthonormal": typical(relative(moved(Wo, Wt, tilted) @ tilted, skew))},
        part="online",
    )
    yield check(
        worst(relative(moved(Wt, Wo, M) @ M, target)),
        1e-12,
        {"after the online step": typical(relative(moved(Wt, moved(Wo, Wt, M), M) @ M, target))},
        part="target",
        note="Training alternates (Sec. 4.1), the theorem does not: both gradients at step t.",
    )
