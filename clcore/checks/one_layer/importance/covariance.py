"""The contrastive covariance of nl, and importance with a kernel (nl Sec. 2, App. A.1).

Loops, complex steps and exact sums over finite worlds meet `clcore.losses.contrast` and
`clcore.losses.kernel_importance`. Both versions of the paper number these statements apart, and
agree unless a part states otherwise.
"""

from itertools import product
from math import factorial

import numpy as np
import torch
from scipy.special import gammaln

from clcore import reference as ref
from clcore.checks.one_layer.importance import batch_proofs as proofs
from clcore.ledger import Trial, check, pooled, typical
from clcore.losses import contrast, infonce_pair
from clcore.losses import kernel_importance as ki
from clcore.reference import Array, absolute, relative, tensors

WIDTHS = (3, 5, 2)  # of the net of Eq. 2


# ------------------------------------------------------------------------------ losses and energy


@check("nl/eq1")
def eq1(t: Trial) -> None:
    """InfoNCE loss of a batch of view pairs (Eq. 1).

    Given   random views of 8 samples, tau in {0.1, 0.5, 1}, eps in {0, 1/2, 1}.
    Claim   The library's InfoNCE, through log-sum-exp, is the printed double loop.
    Fails   for distances that are not halved, 1.1 tau, negatives from the second views.
    """
    part, rows = t.defines("", 1e-11, controls=pooled), np.arange(8)
    for tau, eps in product((0.1, 0.5, 1.0), (0.0, 0.5, 1.0)):
        z, z2 = ref.views(t.rng, t.share(9), 8, 4)
        inter, intra = ref.distances(z, z2)
        ours = contrast.infonce(*tensors(z, z2), tau, eps)
        part.add(relative(ours, ref.infonce(inter, intra, tau, eps)))
        second = np.zeros_like(inter)
        for k in range(8):
            second[:, rows, (rows + k) % 8] = ref.distances(z, np.roll(z2, -k, -2))[1]
        for name, other in (
            ("d not halved", (2 * inter, 2 * intra, tau)),
            ("1.1 tau", (inter, intra, 1.1 * tau)),
            ("negatives from x'", (second, intra, tau)),
        ):
            part.breaks(name, relative(ref.infonce(*other, eps), ours))


@check("nl/eq2")
def eq2(t: Trial) -> None:
    """Training as gradient ascent on an energy with fixed pairwise weights (Eq. 2).

    Given   a small ReLU net on random views, InfoNCE's alpha at eps = 0.
    Claim   The ascent direction is the gradient of E = tr C_alpha/2 at alpha held: autograd
            through a detached alpha against complex steps of the double sum.
    Fails   for alpha that is not held; without the 1/2 of Eq. 7, as Sec. 2 typesets E.
    """
    n, tau = 8, 0.5
    x, x2 = ref.views(t.rng, t.draws, n, WIDTHS[0])
    theta = ref.net_parameters(t.rng, t.draws, WIDTHS)
    z, z2 = (ref.net(theta, v, "relu", WIDTHS) for v in (x, x2))
    alpha = ref.softmax(ref.distances(z, z2)[0], tau)

    def energy(theta: Array) -> Array:
        """tr C_alpha[z] by the double sum, 1/(2 N^2) included."""
        z, z2 = (ref.net(theta, v, "relu", WIDTHS) for v in (x, x2))
        return np.trace(ref.covariance(alpha, z, z2, z, z2), axis1=-2, axis2=-1) / (2 * n**2)

    exact = ref.gradient(energy, theta) / 2

    def ascent(held: bool) -> Array:
        (free,) = tensors(theta)
        free.requires_grad_()
        f, f2 = (ref.net(free, v, "relu", WIDTHS) for v in tensors(x, x2))
        weights = contrast.pairwise_importance(f, f2, infonce_pair(tau, 0.0))
        weights = weights.detach() if held else weights
        total = contrast.nl_energy(weights, f, f2).sum()
        return torch.autograd.grad(total, free)[0].numpy()

    ours = ascent(True)
    part = t.defines("stop gradient", 1e-9, controls=typical).add(relative(ours, exact))
    part.breaks("alpha not held", relative(ascent(False), exact))
    part.breaks("as typeset: no 1/2, as in Sec. 2", relative(2 * ours, exact))


@check("nl/eq3")
def eq3(t: Trial) -> None:
    """Contrastive covariance with the prefactor 1/(2N²) (Eq. 3).

    Given   any alpha, random views, N = 9.
    Claim   C_alpha = sum over all i, j of alpha_ij (...)/(2N^2), i = j included: the library
            against the double loop; for alpha = 1 without augmentation it is the biased sample
            covariance.
    Fails   for 1/N^2, the second term added, i = j left out; for 1/(N - 1).
    """
    draws, n = t.draws, 9
    a, a2 = ref.views(t.rng, draws, n, 3)
    b, b2 = ref.views(t.rng, draws, n, 2)
    alpha = t.rng.random((draws, n, n))

    # The double sum, i = j included.
    printed = np.zeros((draws, 3, 2))
    for i, j in product(range(n), repeat=2):
        inter = (a[:, i] - a[:, j])[:, :, None] * (b[:, i] - b[:, j])[:, None, :]
        intra = (a[:, i] - a2[:, i])[:, :, None] * (b[:, i] - b2[:, i])[:, None, :]
        printed += alpha[:, i, j, None, None] * (inter - intra) / (2 * n**2)
    ours = ki.batch_covariance(*tensors(alpha, a, a2, b, b2))
    double = t.defines("double sum", 1e-12, controls=typical).add(relative(ours, printed))
    double.breaks("1/N^2", relative(2 * ours, printed))
    flipped = ref.covariance(alpha, a, a2, b, b2, -1.0) / (2 * n**2)
    double.breaks("second term added", relative(flipped, printed))
    no_diagonal = contrast.contrastive_covariance(*tensors(alpha, a, a2, b, b2)) / (2 * n**2)
    double.breaks("i = j left out", relative(no_diagonal, printed))

    # alpha = 1 and one view: numpy's covariance over N.
    plain = np.stack([np.cov(v.T, bias=True) for v in a])
    uniform = ki.batch_covariance(*tensors(np.ones_like(alpha), a, a, a, a))
    biased = t.part("uniform, no augmentation", 1e-12, controls=typical)
    biased.add(relative(uniform, plain)).breaks("1/(N-1)", relative(uniform * n / (n - 1), plain))
    proofs.eq3(biased)


def _by_parts(alpha: Array, a: Array, a2: Array) -> tuple[Array, Array]:
    """C^inter[a, a] and C^intra[a, a] of Eqs. 23 and 24, by loops over j != i."""
    count, n, d = a.shape
    inter, intra = np.zeros((2, count, d, d))
    for i, j in product(range(n), repeat=2):
        if i != j:
            away, own = a[:, i] - a[:, j], a[:, i] - a2[:, i]
            weight = alpha[:, i, j, None, None] / (2 * n**2)
            inter += weight * away[:, :, None] * away[:, None, :]
            intra += weight * (own[:, :, None] * own[:, None, :])
    return inter, intra


@check("nl/eq25")
def eq25(t: Trial) -> None:
    """Contrastive covariance as inter-sample minus intra-sample part (Eqs. 23-26).

    Given   alpha uniform, Gaussian or random, N = 5 and 12; Eq. 3 as a sum over j != i.
    Claim   (1) C_alpha = C^inter - C^intra, both by loops. (2) Moving every sample with both of
            its views, alpha held, does not change C^inter - C_alpha: it is C^intra[a, a].
    Fails   (1) for a plus, and as typeset, with i = j in Eq. 3 where alpha_ii != 0; (2) for
            C^inter[a, a], as the later version's shorthand is typeset.
    """
    finite = t.part("Eq. 25 at finite N", 1e-12, controls=typical)
    later = t.part("shorthand of the later version", 1e-11, controls=typical)
    count = t.share(6)
    for n, kind in product((5, 12), ("uniform", "Gaussian", "random")):
        a, a2 = ref.views(t.rng, count, n, 3)
        inter_distance, _ = ref.distances(a, a2)
        alpha = {
            "uniform": np.ones((count, n, n)),
            "Gaussian": np.exp(-inter_distance),
            "random": 0.5 + t.rng.random((count, n, n)),
        }[kind]
        no_diagonal = alpha * ~np.eye(n, dtype=bool)

        def whole(weights: Array, a: Array, a2: Array) -> Array:
            """Eq. 3 by the library."""
            return ki.batch_covariance(*tensors(weights, a, a2, a, a2)).numpy()

        # Both parts by loops over j != i; Eq. 3 over j != i, and with i = j kept.
        inter, intra = _by_parts(alpha, a, a2)
        ours = whole(no_diagonal, a, a2)
        finite.add(relative(inter - intra, ours))
        finite.breaks("plus C^intra", relative(inter + intra, ours))
        kept = whole(alpha, a, a2)
        finite.breaks("as typeset: i = j kept, alpha_ii not 0", relative(inter - intra, kept))

        # What Eq. 25 takes from C^inter stays where each sample is moved with both of its views, as
        # C^intra[a, a] does; C^inter[a, a], as typeset, does not.
        move = t.rng.standard_normal((count, n, 3))
        b, b2 = a + move, a2 + move
        moved, _ = _by_parts(alpha, b, b2)
        later.add(relative(moved - whole(no_diagonal, b, b2), inter - ours))
        later.breaks("as typeset: the intra part is the inter part", relative(moved, inter))
    proofs.eq25(finite, later)


# -------------------------------------------------------------------------- kernels and their laws


@check("nl/def1")
def def1(t: Trial) -> None:
    """Kernel structure of the pairwise importance α (Definition 1).

    Given   random features phi >= 0, alpha = 1, the Gaussian.
    Claim   alpha = phi phi^T is symmetric, positive semi-definite and nonnegative.
    Fails   for InfoNCE's normalised rows (not symmetric), features of both signs (entries below 0),
            distances in place of a kernel (a negative eigenvalue); in the proof that v^T alpha v is
            a sum of squares, two features, for one square of the sum in place of two.
    """
    rng, draws, n = t.rng, t.draws, 8

    def defect(alpha: Array) -> Array:
        """[draws]: asymmetry, negative eigenvalue or negative entry, the largest of them."""
        skew = np.abs(alpha - alpha.swapaxes(-1, -2)).max((-1, -2))
        low = np.linalg.eigvalsh((alpha + alpha.swapaxes(-1, -2)) / 2)[:, 0]
        return np.max([skew, -low, -alpha.min((-1, -2))], 0) / np.abs(alpha).max((-1, -2))

    phi = rng.random((draws, n, 50)) ** 4
    y = np.abs(rng.standard_normal((draws, n, 2)))
    inter, _ = ref.distances(y, y)
    signed = rng.standard_normal((draws, n, 3))
    part = t.part("", 1e-12, controls=typical)
    part.add(defect(np.einsum("bil,bjl->bij", phi, phi)), defect(np.ones((draws, n, n))))
    part.add(defect(ki.gaussian(*tensors(y), 0.7).numpy()))
    part.breaks("rows normalised (InfoNCE)", defect(ref.softmax(inter, 0.7)))
    part.breaks("features of both signs", defect(signed @ signed.swapaxes(-1, -2)))
    part.breaks("distances for a kernel", defect(inter))
    proofs.def1(part)


def _mass(level: Array, tau: float) -> Array:
    """z_l of the features of ReLU(x), x ~ N(0, 1), in closed form."""
    logs = (
        (level + 1) / 2 * np.log(2 * tau / (1 + tau))
        + gammaln((level + 1) / 2)
        - level / 2 * np.log(tau)
        - gammaln(level + 1) / 2
    )
    return np.exp(logs) / (2 * np.sqrt(2 * np.pi)) + 0.5 * (level == 0)


@check("nl/def2")
def def2(t: Trial) -> None:
    """Data density adjusted by a feature of the kernel (Definition 2).

    Given   x ~ N(0, 1), the features of the Gaussian kernel of ReLU(x), random tau.
    Claim   p~_l = phi_l p/z_l are laws; z_l are their closed forms, by quadrature; sum_l z_l^2 is
            the mean of the kernel, an orthant probability.
    Fails   without z_l, for positive x alone, for z_l that are not squared.
    """
    orders = 80
    node, weight = np.polynomial.legendre.leggauss(200)
    x = 6 * (node + 1)
    x = np.concatenate([-x[::-1], x])
    p = 6 * np.concatenate([weight[::-1], weight]) * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    laws = t.defines("laws", 1e-10, controls=pooled)
    masses = t.defines(r"$z_l$", 1e-10, controls=pooled).says(orders=orders)
    squares = t.part(r"$\sum_lz_l^2=E\,\mathcal K$", 1e-10, controls=pooled)
    for tau in t.rng.uniform(0.5, 4, min(t.draws, 20)):
        y, density = tensors(np.maximum(x, 0)[:, None], p)
        z, law = ki.adjusted(ki.gaussian_features(y, float(tau), orders), density)

        # z_l by quadrature and in closed form; x < 0 adds 1/2 to z_0, as there phi_0 = 1.
        level = np.arange(orders + 1)
        off = z.numpy() - _mass(level, tau)
        masses.add(np.abs(off).max())
        masses.breaks("only positive x", np.abs(off + 0.5 * (level == 0)).max())

        # The mass of each law.
        laws.add(np.abs(law.sum(-1).numpy()[:11] - 1).max())
        laws.breaks("z_l left out", np.abs((z[:, None] * law).sum(-1).numpy()[:11] - 1).max())

        # sum_l z_l^2 is the mean of the kernel: over pairs with no positive x, one, or both.
        both = (0.25 + np.arcsin(1 / (1 + tau)) / (2 * np.pi)) / np.sqrt(1 + 2 / tau)
        mean = 0.25 + np.sqrt(tau / (1 + tau)) / 2 + both
        squares.add(abs(float((z**2).sum()) - mean))
        squares.breaks("not squared", abs(float(z.sum()) - mean))
    proofs.def2(squares)


def _tail(y: Array, tau: float, orders: int) -> Array:
    """What the features beyond `orders` add to the kernel, [draws, n, n], by its series."""
    inner = np.einsum("bid,bjd->bij", y, y) / tau
    shell = np.exp(-(y**2).sum(-1) / (2 * tau))
    term, tail = np.ones_like(inner), np.zeros_like(inner)
    for k in range(1, 400):
        term = term * inner / k
        tail += term * (k > orders)
    return shell[:, :, None] * shell[:, None, :] * tail


@check("nl/lem1")
def lem1(t: Trial) -> None:
    """Gaussian pairwise importance has kernel structure (Lemma 1).

    Given   g a ReLU layer or clipped inputs, d = 1, 2, 3, v below g, tau in {1/2, 2}.
    Claim   exp(-|g - g'|^2/(2 tau)) = phi^T phi' with the printed features, all d^k ordered
            products, the tail by its series; and phi >= 0.
    Fails   without 1/sqrt(k!), at another temperature; nonnegative for v above some g.
    """
    rng, n, count = t.rng, 5, min(t.share(6), 8)
    kernel = t.part("kernel", 1e-11, controls=typical)
    least = t.part("nonnegative", controls=typical)
    for (d, orders), tau in product(((1, 12), (2, 7), (3, 5)), (0.5, 2.0)):
        x = rng.standard_normal((count, n, 3))
        g = np.maximum(x @ rng.standard_normal((count, 3, d)), 0) if tau < 1 else x[..., :d]
        g = np.clip(g, -3, 3)
        y = g - (0.0 if tau < 1 else -3.0)
        phi = ki.gaussian_features(*tensors(y), tau, orders).numpy()

        # phi >= 0, where v is below all g.
        above = g - g.mean(1, keepdims=True)
        least.add(-phi.min((1, 2)))
        least.breaks("v above some g", -np.where(above < 0, above, 0).min((1, 2)))

        # phi^T phi' and the tail, against the Gaussian.
        tail = _tail(y, tau, orders)
        alpha = np.exp(-((y[:, :, None] - y[:, None]) ** 2).sum(-1) / (2 * tau))
        ours = phi @ phi.swapaxes(-1, -2) + tail
        kernel.add(absolute(ours, alpha))
        order = np.concatenate([np.full(d**k, k) for k in range(orders + 1)])
        bare = phi * np.array([factorial(k) ** 0.5 for k in order])
        kernel.breaks("no 1/sqrt(k!)", absolute(bare @ bare.swapaxes(-1, -2) + tail, alpha))
        kernel.breaks("tau doubled", absolute(np.sqrt(alpha), ours))
    proofs.lem1(kernel, least)
