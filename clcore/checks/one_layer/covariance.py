"""The contrastive covariance of nl, and importance with a kernel (nl Sec. 2, App. A.1).

Loops, complex steps and exact sums over finite worlds meet `clcore.losses.contrast` and
`clcore.losses.kernel_importance`. Both versions of the paper number these statements apart, and
agree but where a part says so.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import product
from math import factorial

import numpy as np
import torch
from scipy.special import gammaln

from clcore import reference as ref
from clcore.ledger import Check
from clcore.losses import contrast, infonce_pair
from clcore.losses import kernel_importance as ki
from clcore.reference import Array, absolute, relative, tensors, typical, worst

WIDTHS = (3, 5, 2)  # of the net of Eq. 2


def _trace(x: Array) -> Array:
    return np.trace(x, axis1=-2, axis2=-1)


def _nl_energy(alpha: Array, z: Array, z2: Array) -> Array:
    """tr C_alpha[z] by the double sum, 1/(2 N^2) included, no 1/2; complex z allowed."""
    return _trace(ref.covariance(alpha, z, z2, z, z2)) / (2 * z.shape[-2] ** 2)


# ------------------------------------------------------------------------------ losses and energy


def eq1(draws: int, seed: int) -> Iterator[Check]:
    """InfoNCE, through log-sum-exp against the printed double loop; eps 0, 1/2, 1.

    Controls: distances not halved, another temperature, negatives from the second views.
    """
    rng, errors = ref.generator("nl eq1", seed), []
    broken: dict[str, list[Array]] = defaultdict(list)
    settings = list(product((0.1, 0.5, 1.0), (0.0, 0.5, 1.0)))
    count = ref.share(draws, len(settings))
    for tau, eps in settings:
        z, z2 = ref.views(rng, count, 8, 4)
        inter, intra = ref.distances(z, z2)
        ours = contrast.infonce(*tensors(z, z2), tau, eps)
        errors.append(relative(ours, ref.infonce(inter, intra, tau, eps)))
        broken["d not halved"].append(relative(ref.infonce(2 * inter, 2 * intra, tau, eps), ours))
        broken["1.1 tau"].append(relative(ref.infonce(inter, intra, 1.1 * tau, eps), ours))
        cross = np.stack([ref.distances(z, np.roll(z2, -k, -2))[1] for k in range(8)], -1)
        rows = np.arange(8)
        second = np.zeros_like(inter)
        for k in range(8):
            second[:, rows, (rows + k) % 8] = cross[:, :, k]
        broken["negatives from x'"].append(relative(ref.infonce(second, intra, tau, eps), ours))
    yield Check(
        "nl/eq1",
        worst(*errors),
        1e-11,
        ref.pooled(broken),
        draws=count * len(settings),
        note="A definition: nothing can fail but our code; tested is that, by loops.",
    )


def eq2(draws: int, seed: int) -> Iterator[Check]:
    """Ascent direction of the energy: autograd through a detached alpha, complex steps through
    the double sum at fixed alpha, on a ReLU net. Controls: alpha not held, no 1/2.
    """
    check = partial(Check, "nl/eq2")
    rng = ref.generator("nl eq2", seed)
    n, tau = 8, 0.5
    x, x2 = ref.views(rng, draws, n, WIDTHS[0])
    theta = ref.net_parameters(rng, draws, WIDTHS)
    z, z2 = (ref.net(theta, v, "relu", WIDTHS) for v in (x, x2))
    alpha = ref.softmax(ref.distances(z, z2)[0], tau)
    steps = ref.stepped(theta)
    away = [ref.net(steps, v, "relu", WIDTHS) for v in (x, x2)]
    exact = np.moveaxis(_nl_energy(alpha, *away).imag / ref.STEP, 0, -1) / 2

    def ascent(held: bool) -> Array:
        (free,) = tensors(theta)
        free.requires_grad_()
        f, f2 = (ref.net(free, v, "relu", WIDTHS) for v in tensors(x, x2))
        weights = contrast.pairwise_importance(f, f2, infonce_pair(tau, 0.0))
        weights = weights.detach() if held else weights
        total = contrast.nl_energy(weights, f, f2).sum()
        return torch.autograd.grad(total, free)[0].numpy()

    ours = ascent(True)
    free = typical(relative(ascent(False), exact))
    yield check(
        worst(relative(ours, exact)),
        1e-9,
        {
            "alpha not held": free,
            "as typeset: no 1/2, as in Sec. 2": typical(relative(2 * ours, exact)),
        },
        draws=draws,
        part="stop gradient",
        misprint=r"$\operatorname{tr}\mathbb C_\alpha$ in the last paragraph before Def. 1 -> "
        r"$\frac12\operatorname{tr}\mathbb C_\alpha$, as with Eqs. 2 and 5 and in App. B.2",
        note=r"The 1/2 belongs to Eq. 7; left out it rescales $\eta$ by 2. The one-layer version "
        "has none in its energy.",
    )


def eq3(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 3, i = j included, by the double loop; and alpha = 1 without augmentation.

    Controls: no 1/2, 1/N(N-1), the other sign of the second term, i = j left out.
    """
    check = partial(Check, "nl/eq3")
    rng, n = ref.generator("nl eq3", seed), 9
    a, a2 = ref.views(rng, draws, n, 3)
    b, b2 = ref.views(rng, draws, n, 2)
    alpha = rng.random((draws, n, n))
    printed = np.zeros((draws, 3, 2))
    for i, j in product(range(n), repeat=2):
        inter = (a[:, i] - a[:, j])[:, :, None] * (b[:, i] - b[:, j])[:, None, :]
        intra = (a[:, i] - a2[:, i])[:, :, None] * (b[:, i] - b2[:, i])[:, None, :]
        printed += alpha[:, i, j, None, None] * (inter - intra) / (2 * n**2)
    ours = ki.batch_covariance(*tensors(alpha, a, a2, b, b2))
    flipped = ref.covariance(alpha, a, a2, b, b2, -1.0) / (2 * n**2)
    no_diagonal = contrast.contrastive_covariance(*tensors(alpha, a, a2, b, b2)) / (2 * n**2)
    yield check(
        worst(relative(ours, printed)),
        1e-12,
        {
            "1/N^2": typical(relative(2 * ours, printed)),
            "second term added": typical(relative(flipped, printed)),
            "i = j left out": typical(relative(no_diagonal, printed)),
        },
        draws=draws,
        part="double sum",
        note="A definition: nothing can fail but our code; tested is that, by the double loop. "
        "acl's contrastive covariance is $2N^2$ times this and leaves out $i=j$.",
    )
    plain = np.stack([np.cov(v.T, bias=True) for v in a])
    ones = np.ones_like(alpha)
    uniform = ki.batch_covariance(*tensors(ones, a, a, a, a))
    yield check(
        worst(relative(uniform, plain)),
        1e-12,
        {"1/(N-1)": typical(relative(uniform * n / (n - 1), plain))},
        draws=draws,
        part="uniform, no augmentation",
        note="The biased sample covariance, at every N.",
    )


def eq25(draws: int, seed: int) -> Iterator[Check]:
    """C = C^inter - C^intra by loops over j != i, against Eq. 3 over j != i.

    alpha uniform, Gaussian and random, N = 5 and 12. Controls: a plus; Eq. 3 with its i = j.
    """
    check = partial(Check, "nl/eq25")
    rng = ref.generator("nl eq25", seed)
    kept, free, shorthand, summed = [], [], [], []
    count = ref.share(draws, 6)
    for n, kind in product((5, 12), ("uniform", "Gaussian", "random")):
        a, a2 = ref.views(rng, count, n, 3)
        inter_distance, _ = ref.distances(a, a2)
        alpha = {
            "uniform": np.ones((count, n, n)),
            "Gaussian": np.exp(-inter_distance),
            "random": 0.5 + rng.random((count, n, n)),
        }[kind]
        inter, intra = np.zeros((2, count, 3, 3))
        for i in range(n):
            gap = a[:, i] - a2[:, i]
            square = gap[:, :, None] * gap[:, None, :]
            for j in (k for k in range(n) if k != i):
                away = a[:, i] - a[:, j]
                weight = alpha[:, i, j, None, None] / (2 * n**2)
                inter += weight * away[:, :, None] * away[:, None, :]
                intra += weight * square
        ours = ki.batch_covariance(*tensors(alpha, a, a2, a, a2)).numpy()
        zero = alpha * ~np.eye(n, dtype=bool)
        bare = ki.batch_covariance(*tensors(zero, a, a2, a, a2)).numpy()
        kept.append(relative(inter - intra, ours))
        free.append(relative(inter - intra, bare))
        shorthand.append(relative(inter - inter, bare))
        summed.append(relative(inter + intra, bare))
    total = 6 * count
    plus = {"plus C^intra": typical(*summed)}
    yield check(
        worst(*free),
        1e-12,
        plus | {r"i = j kept, alpha_ii not 0": typical(*kept)},
        draws=total,
        part="Eq. 25 at finite N",
        note=r"Eq. 3 as a sum over $j\ne i$, or $\alpha_{ii}=0$. If Eq. 3 is read with $i=j$ and "
        r"$\alpha_{ii}\ne0$ (Lemma 1 has $\alpha_{ii}=1$) there is a further term of order $1/N$; "
        "limits unaffected.",
    )
    yield check(
        worst(*free),
        1e-12,
        plus | {"as typeset: the intra part is the inter part": typical(*shorthand)},
        draws=total,
        part="shorthand of the later version",
        misprint=r"$\mathbb C^{intra}_\alpha[a]:=\mathbb C^{inter}_\alpha[a,a]$ -> "
        r"$\mathbb C^{intra}_\alpha[a]:=\mathbb C^{intra}_\alpha[a,a]$",
        note="The one-layer version has it right. As typeset Eq. 25 would be 0.",
    )


# -------------------------------------------------------------------------- kernels and their laws


def def1(draws: int, seed: int) -> Iterator[Check]:
    """alpha = phi phi^T with phi >= 0 is symmetric, PSD and nonnegative; so is the Gaussian.

    Controls: InfoNCE's rows (asymmetric), signed features (negative), distances (not PSD).
    """
    rng, n = ref.generator("nl def1", seed), 8

    def defect(alpha: Array) -> Array:
        """[draws]: asymmetry, negative eigenvalue or negative entry, the largest of them."""
        skew = np.abs(alpha - alpha.swapaxes(-1, -2)).max((-1, -2))
        low = np.linalg.eigvalsh((alpha + alpha.swapaxes(-1, -2)) / 2)[:, 0]
        return np.max([skew, -low, -alpha.min((-1, -2))], 0) / np.abs(alpha).max((-1, -2))

    phi = rng.random((draws, n, 50)) ** 4
    kernel = np.einsum("bil,bjl->bij", phi, phi)
    y = np.abs(rng.standard_normal((draws, n, 2)))
    inter, _ = ref.distances(y, y)
    signed = rng.standard_normal((draws, n, 3))
    uniform = np.ones((draws, n, n))
    yield Check(
        "nl/def1",
        worst(*(defect(a) for a in (kernel, uniform, ki.gaussian(*tensors(y), 0.7).numpy()))),
        1e-12,
        {
            "rows normalised (InfoNCE)": typical(defect(ref.softmax(inter, 0.7))),
            "features of both signs": typical(defect(signed @ signed.swapaxes(-1, -2))),
            "distances for a kernel": typical(defect(inter)),
        },
        draws=3 * draws,
        note="A definition: nothing can fail but our code; tested is what follows from it, for "
        r"random features, $\alpha=1$ ($\phi\equiv1$), and the Gaussian.",
    )


def _mass(level: Array, tau: float) -> Array:
    """z_l of the features of ReLU(x), x ~ N(0, 1), in closed form."""
    logs = (
        (level + 1) / 2 * np.log(2 * tau / (1 + tau))
        + gammaln((level + 1) / 2)
        - level / 2 * np.log(tau)
        - gammaln(level + 1) / 2
    )
    return np.exp(logs) / (2 * np.sqrt(2 * np.pi)) + 0.5 * (level == 0)


DEFINED = "l = 0..10. A definition: nothing can fail but our code; tested is that, by closed forms."


def def2(draws: int, seed: int) -> Iterator[Check]:
    """x ~ N(0, 1), features of ReLU(x): laws by Gauss-Legendre against closed forms of z_l.

    sum z_l^2 is the mean of K, an orthant probability. Controls: features not squared,
    normaliser left out.
    """
    check = partial(Check, "nl/def2")
    rng, orders = ref.generator("nl def2", seed), 80
    node, weight = np.polynomial.legendre.leggauss(200)
    x = 6 * (node + 1)
    x = np.concatenate([-x[::-1], x])
    p = 6 * np.concatenate([weight[::-1], weight]) * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    masses, half, totals, means, whole, naive = [], [], [], [], [], []
    for tau in rng.uniform(0.5, 4, min(draws, 20)):
        y, density = tensors(np.maximum(x, 0)[:, None], p)
        z, law = ki.adjusted(ki.gaussian_features(y, float(tau), orders), density)
        level = np.arange(orders + 1)
        closed = _mass(level, tau)
        masses.append(np.abs(z.numpy() - closed).max())
        half.append(np.abs(z.numpy() - closed + 0.5 * (level == 0)).max())
        whole.append(np.abs(law.sum(-1).numpy()[:11] - 1).max())
        naive.append(np.abs((z[:, None] * law).sum(-1).numpy()[:11] - 1).max())
        both = (0.25 + np.arcsin(1 / (1 + tau)) / (2 * np.pi)) / np.sqrt(1 + 2 / tau)
        mean = 0.25 + np.sqrt(tau / (1 + tau)) / 2 + both
        totals.append(abs(float((z**2).sum()) - mean))
        means.append(abs(float(z.sum()) - mean))
    tag = {"draws": len(masses)}
    control = {"z_l left out": float(np.median(naive))}
    yield check(worst(np.array(whole)), 1e-10, control, part="laws", note=DEFINED, **tag)
    yield check(
        worst(np.array(masses)),
        1e-10,
        {"only positive x": float(np.median(half))},
        part=r"$z_l$",
        note=f"l = 0..{orders}, against Gamma functions.",
        **tag,
    )
    yield check(
        worst(np.array(totals)),
        1e-10,
        {"not squared": float(np.median(means))},
        part=r"$\sum_lz_l^2=E\,\mathcal K$",
        **tag,
    )


def lem1(draws: int, seed: int) -> Iterator[Check]:
    """Explicit features, all d^k ordered products, against the Gaussian; the tail by its series.

    g a ReLU layer or clipped inputs, d = 1, 2, 3. Controls: no 1/sqrt k!, unordered products,
    another temperature; v above g.
    """
    check = partial(Check, "nl/lem1")
    rng, n = ref.generator("nl lem1", seed), 5
    listed, errors, least, above = [], [], [], []
    broken: dict[str, list[Array]] = defaultdict(list)
    count = min(ref.share(draws, 6), 8)
    for (d, orders), tau in product(((1, 12), (2, 7), (3, 5)), (0.5, 2.0)):
        x = rng.standard_normal((count, n, 3))
        g = np.maximum(x @ rng.standard_normal((count, 3, d)), 0) if tau < 1 else x[..., :d]
        g = np.clip(g, -3, 3)
        v = 0.0 if tau < 1 else -3.0
        y = g - v
        phi = ki.gaussian_features(*tensors(y), tau, orders).numpy()
        least.append(-phi.min((1, 2)))
        high = g - g.mean(1, keepdims=True)
        above.append(-np.where(high < 0, high, 0).min((1, 2)))
        shell = np.exp(-(y**2).sum(-1) / (2 * tau))
        columns = [
            shell * np.prod([y[..., i] / tau**0.5 for i in chosen], 0) / factorial(k) ** 0.5
            for k in range(orders + 1)
            for chosen in product(range(d), repeat=k)
        ]
        listed.append(absolute(phi, np.stack(np.broadcast_arrays(*columns), -1)))
        inner = np.einsum("bid,bjd->bij", y, y) / tau
        outside = shell[:, :, None] * shell[:, None, :]
        term, tail = np.ones_like(inner), np.zeros_like(inner)
        for k in range(1, 400):
            term = term * inner / k
            tail += term * (k > orders)
        alpha = np.exp(-((y[:, :, None] - y[:, None]) ** 2).sum(-1) / (2 * tau))
        ours = phi @ phi.swapaxes(-1, -2) + outside * tail
        errors.append(absolute(ours, alpha))
        order = np.concatenate([np.full(d**k, k) for k in range(orders + 1)])
        no_factorial = phi * np.array([factorial(k) ** 0.5 for k in order])
        broken["no 1/sqrt(k!)"].append(
            absolute(no_factorial @ no_factorial.swapaxes(-1, -2) + outside * tail, alpha)
        )
        broken["tau doubled"].append(absolute(np.sqrt(alpha), ours))
    total = 6 * count
    control = {name: typical(*values) for name, values in broken.items()}
    yield check(worst(*errors), 1e-11, control, part="kernel", draws=total)
    yield check(
        worst(*listed),
        1e-13,
        {"order of Eq. 20 reversed": typical(*(absolute(phi, phi[..., ::-1]),))},
        part="Eqs. 20 and 22 as listed",
        draws=total,
    )
    yield check(
        worst(*least),
        0.0,
        {"v above some g": typical(*above)},
        part="nonnegative",
        draws=total,
        note="Minus the least feature; a v that is no lower bound makes first-order ones negative.",
    )
