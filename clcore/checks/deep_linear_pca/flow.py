"""X_alpha and the flow of deep linear nets: Cor. 2, Lemma 1, Eqs. 9-11 (acl Sec. 4, 4.1).

numpy loops over samples and complex steps against `contrast` and `deep_linear`.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import torch

from clcore import reference as ref
from clcore.ledger import Check
from clcore.losses import contrast
from clcore.reference import Array, best, relative, tensors, worst
from clcore.theory import deep_linear as dl

DEPTHS = range(1, 7)


def layers(rng: np.random.Generator, draws: int, widths: tuple[int, ...]) -> list[Array]:
    """Random W_1, ..., W_L, [draws, n_l, n_{l-1}], gains about 1."""
    return [
        rng.standard_normal((draws, high, low)) / np.sqrt(low) for low, high in pairwise(widths)
    ]


def random_widths(rng: np.random.Generator, depth: int) -> tuple[int, ...]:
    """n_0 in 3..6 and n_1, ..., n_L in 2..6."""
    return (int(rng.integers(3, 7)), *(int(n) for n in rng.integers(2, 7, depth)))


def product(weights: list[Array]) -> Array:
    """W_L ... W_1 by einsum."""
    total = weights[0]
    for w in weights[1:]:
        total = np.einsum("...ij,...jk->...ik", w, total)
    return total


def symmetric(rng: np.random.Generator, draws: int, d: int) -> Array:
    """Random symmetric [draws, d, d], neither positive nor negative."""
    a = rng.standard_normal((draws, d, d))
    return (a + a.swapaxes(-1, -2)) / 2


def _stiefel(x: Array, k: int, rng: np.random.Generator) -> Array:
    """max tr(W x W^T), W W^T = I, W of k rows: shifted ascent with QR, no eigenvalue solver."""
    w = rng.standard_normal((*x.shape[:-1], k))
    shift = np.abs(x).sum(-1).max(-1)[:, None, None] * np.eye(x.shape[-1])
    for _ in range(600):
        w = np.linalg.qr(x @ w + shift @ w)[0]
    return np.einsum("bik,bij,bjk->b", w, x, w)


def _coloured(rng: np.random.Generator, draws: int, values: Array) -> Array:
    """Symmetric [draws, d, d] with the given eigenvalues."""
    q = np.linalg.qr(rng.standard_normal((draws, len(values), len(values))))[0]
    return (q * values) @ q.swapaxes(-1, -2)


def cor2(draws: int, seed: int) -> Iterator[Check]:
    """E = tr(W X W^T) for any linear net; under W W^T = I its maximum is the PCA value.

    Controls: tanh at the output, other weights for the second view; W of Frobenius norm sqrt(k).
    """
    check = partial(Check, "acl/cor2", draws=draws)
    rng, n, d = ref.generator("cor2", seed), 8, 5
    errors, broken = [], defaultdict(list)
    x, x2 = ref.views(rng, draws, n, d)
    alpha = ref.random_weights(rng, draws, n, n)
    X = contrast.contrastive_covariance(*tensors(alpha, x, x2, x, x2))
    eye = np.eye(d)
    plain = layers(rng, draws, (d, 4, 6, 3))
    residual = [w + eye for w in layers(rng, draws, (d, d, d))]
    for weights in (plain, residual):
        right = dl.energy(tensors(*weights), X).numpy()

        def left(maps, maps2, act=lambda z: z):
            z, z2 = (act(v @ product(m).swapaxes(-1, -2)) for v, m in ((x, maps), (x2, maps2)))
            return np.trace(ref.covariance(alpha, z, z2, z, z2), axis1=-2, axis2=-1)

        other = [w * (1 + 0.3 * rng.standard_normal(w.shape)) for w in weights]
        errors.append(relative(left(weights, weights), right, 1e-2))
        broken["tanh at the output"].append(relative(left(weights, weights, np.tanh), right))
        broken["other weights for the second view"].append(relative(left(weights, other), right))
    yield check(worst(*errors), 1e-10, ref.pooled(broken), part="identity")
    values = np.linspace(1.5, -1.0, 6)
    x = _coloured(rng, min(draws, 200), values)
    gaps = [np.abs(_stiefel(x, k, rng) - values[:k].sum()) for k in (1, 2, 3)]
    yield check(
        worst(*gaps),
        1e-8,
        {r"only $\|W\|_F^2=k$ asked": abs(3 * values[0] - values[:3].sum())},
        part="maximum",
        draws=3 * len(x),
        note=r"An indefinite $X_\alpha$: sum of the $n_L$ largest eigenvalues, negative or not.",
    )


def eq9(draws: int, seed: int) -> Iterator[Check]:
    """Classical PCA: the maximum is the sum of the largest eigenvalues of the covariance.

    The data's second moments are known by construction. Control: moments about 0, not the mean.
    """
    rng, values = ref.generator("eq9", seed), np.linspace(2.0, 0.25, 8)
    count, n = min(draws, 200), 40
    x = rng.standard_normal((count, n, 8))
    x = x - x.mean(-2, keepdims=True)
    root = np.linalg.cholesky(x.swapaxes(-1, -2) @ x / n)
    x = np.linalg.solve(root, x.swapaxes(-1, -2)).swapaxes(-1, -2)
    turn = np.linalg.qr(rng.standard_normal((count, 8, 8)))[0]
    x = x * np.sqrt(values) @ turn + 1.0
    centred = x - x.mean(-2, keepdims=True)
    v = centred.swapaxes(-1, -2) @ centred / n
    raw = x.swapaxes(-1, -2) @ x / n
    goal = [values[:k].sum() for k in range(1, 5)]
    yield Check(
        "acl/eq9",
        worst(*(np.abs(_stiefel(v, k, rng) - g) for k, g in enumerate(goal, 1))),
        1e-8,
        {
            "moments about 0": best(
                *(np.abs(_stiefel(raw, k, rng) - g) for k, g in enumerate(goal, 1))
            )
        },
        draws=4 * count,
    )


def num7(draws: int, seed: int) -> Iterator[Check]:
    """alpha = 1/(2N(N-1)) without augmentation: X is the unbiased sample covariance, hence -> V.

    Controls: (1/2)N(N-1), the covariance with 1/N; augmentation noise that does not vanish.
    """
    check = partial(Check, "acl/num7", draws=draws)
    rng, d = ref.generator("num7", seed), 3

    def sample(kind: str, n: int) -> Array:
        if kind == "gaussian":
            return rng.standard_normal((n, d))
        if kind == "uniform":
            return np.sqrt(12) * rng.random((n, d))
        return np.eye(d)[rng.integers(0, d, n)]

    def closed(x: Array, x2: Array) -> Array:
        return np.cov(x.T) - (x - x2).T @ (x - x2) / (2 * len(x))

    n, count = 12, 60
    x = np.stack([sample("gaussian", n) for _ in range(count)])
    x2 = x + rng.standard_normal(x.shape)
    exact, noisy = (np.stack([closed(*v) for v in zip(x, y, strict=True)]) for y in (x, x2))

    def ours(scale: float, x2: Array = x) -> Array:
        alpha = torch.full((count, n, n), scale, dtype=torch.float64)
        return contrast.contrastive_covariance(alpha, *tensors(x, x2, x, x2)).numpy()

    got = ours(1 / (2 * n * (n - 1)))
    yield check(
        worst(relative(got, exact), relative(ours(1 / (2 * n * (n - 1)), x2), noisy)),
        1e-12,
        {
            r"$\frac12N(N-1)$": best(relative(ours(n * (n - 1) / 2), exact)),
            "covariance with 1/N": best(relative(got, exact * (n - 1) / n)),
        },
        part="finite N",
        draws=2 * count,
        note="At every N it is the sample covariance with N - 1; with augmentation, less half the "
        "mean of $(x-x')(x-x')^\\top$.",
    )
    # By the part above, moments of the samples stand for the sum over pairs.
    sizes, count = (100, 1000, 10_000, 100_000), 20
    truth = {"gaussian": np.eye(d), "uniform": np.eye(d), "one-hot": np.eye(d) / d - 1 / d**2}
    slopes, flat = [], []
    for kind, v in truth.items():
        for noise, out in ((0.0, slopes), (2.0, flat)):
            errors = []
            for n in sizes:
                square = []
                for _ in range(count):
                    x = sample(kind, n)
                    gap = closed(x, x + noise * rng.standard_normal(x.shape) if noise else x) - v
                    square.append((gap**2).sum())
                errors.append(np.sqrt(np.mean(square)))
            out.append(np.polyfit(np.log(sizes), np.log(errors), 1)[0])
    yield check(
        worst(np.abs(np.array(slopes) + 0.5)),
        0.1,
        {"augmentation noise 2": best(np.abs(np.array(flat) + 0.5))},
        part="limit",
        draws=count * len(sizes) * len(truth),
        note=r"Slope of $\log\|X_\alpha-\mathbb V\|_F$ against $\log N$, distance from $-1/2$; $N$ "
        "from $10^2$ to $10^5$.",
    )


def _scatter(priors: Array, points: Array) -> tuple[Array, Array]:
    """(S_B, S_W) of classes, points [classes, m, d] equally likely inside each."""
    means = points.mean(1)
    centre = means - priors @ means
    inside = points - means[:, None]
    each = np.einsum("cmi,cmj->cij", inside, inside) / points.shape[1]
    return np.einsum("c,ci,cj->ij", priors, centre, centre), np.einsum("c,cij->ij", priors, each)


def _leading(a: Array, k: int) -> Array:
    """An orthonormal basis of the k leading eigenvectors of a, which need not be symmetric."""
    values, vectors = np.linalg.eig(a)
    return np.linalg.qr(vectors[:, np.argsort(-values.real)[:k]].real)[0]


def rem1(draws: int, seed: int) -> Iterator[Check]:
    """Supervised pairs, uniform alpha: X is exactly S_B; the LDA subspace where S_W is isotropic.

    A population of C classes with m points each, enumerated: samples are all (class, x, x').
    Controls: positives from any class; an anisotropic S_W.
    """
    check = partial(Check, "acl/rem1")
    rng, classes, m, d = ref.generator("rem1", seed), 3, 8, 4
    errors, mixed, angles, skewed = [], [], [], []
    count = min(draws, 40)
    for _ in range(count):
        priors = rng.dirichlet(5 * np.ones(classes))
        for isotropic in (True, False):
            inside = rng.standard_normal((classes, m, d))
            if isotropic:  # the 2 d points +-e_k: a sphere's covariance
                inside = np.broadcast_to(np.concatenate([np.eye(d), -np.eye(d)]), inside.shape)
            else:
                inside = inside * np.array([3.0, 1.0, 0.5, 0.2])
            points = inside - inside.mean(1, keepdims=True)
            points = points + 1.5 * rng.standard_normal((classes, 1, d))
            between, within = _scatter(priors, points)
            c, a, b = (g.ravel() for g in np.indices((classes, m, m)))
            weight = priors[c] / m**2
            alpha = weight[:, None] * weight / 2 * (c[:, None] != c)
            x = points[c, a]

            def cov(x2: Array, x=x, alpha=alpha) -> Array:
                return contrast.contrastive_covariance(*tensors(alpha, x, x2, x, x2)).numpy()

            X = cov(points[c, b])
            errors.append(np.abs(X - between).max() / np.abs(between).max())
            other = cov(points[rng.permutation(c), b])
            mixed.append(np.abs(other - between).max() / np.abs(between).max())
            lda, pca = _leading(np.linalg.solve(within, between), 2), _leading(X, 2)
            gap = np.linalg.norm(lda - pca @ (pca.T @ lda), 2)
            (angles if isotropic else skewed).append(gap)
    yield check(
        worst(np.array(errors)),
        1e-10,
        {"positives from any class": float(np.median(mixed))},
        part="X is the between-class scatter",
        draws=2 * count,
        note=r"$X_\alpha=1\cdot S_B-0\cdot S_W$: the numerator of Fisher's ratio; negatives carry "
        "another label.",
    )
    yield check(
        worst(np.array(angles)),
        1e-6,
        {"anisotropic $S_W$": float(np.median(skewed))},
        part="LDA subspace, isotropic within classes",
        draws=count,
        note="Sine of the largest angle. Otherwise LDA needs whitening by $S_W$ first.",
    )


def num8(draws: int, seed: int) -> Iterator[Check]:
    """X is symmetric; PSD without augmentation, not in general with it. Control: the other case."""
    check = partial(Check, "acl/num8", draws=draws)
    rng, n, d = ref.generator("num8", seed), 8, 4
    x, alpha = rng.standard_normal((draws, n, d)), ref.random_weights(rng, draws, n, n)
    noise = rng.standard_normal(x.shape)
    least, skew = {}, []
    for sigma in (0.0, 0.5, 1.0, 2.0):
        x2 = x + sigma * noise
        X = contrast.contrastive_covariance(*tensors(alpha, x, x2, x, x2)).numpy()
        skew.append(relative(X, X.swapaxes(-1, -2)))
        least[sigma] = np.linalg.eigvalsh(ref.covariance(alpha, x, x2, x, x2))[:, 0]
    y = rng.standard_normal(x.shape)
    cross = contrast.contrastive_covariance(*tensors(alpha, x, x2, y, y + noise)).numpy()
    yield check(
        worst(*skew),
        1e-12,
        {r"$\mathbb C_\alpha[x,y]$": ref.typical(relative(cross, cross.swapaxes(-1, -2)))},
        part="symmetric",
    )
    yield check(
        float(least[2.0].max()),
        -1e-3,
        {"no augmentation": float(least[0.0].min())},
        part="not PSD",
        note=r"Largest over the draws of the least eigenvalue at noise $\sigma=2$.",
    )


def eq10(draws: int, seed: int) -> Iterator[Check]:
    """Layer by layer is the product; dz/df_l = W_{>l} by complex steps. Control: W_{>=l}, order."""
    check = partial(Check, "acl/eq10")
    rng, forward, jacobian, wrong, late = ref.generator("eq10", seed), [], [], [], []
    count = ref.share(draws, 6)
    for depth in DEPTHS:
        widths = (4, *(4 for _ in range(depth)))
        weights = layers(rng, count, widths)
        x = rng.standard_normal((count, 5, 4))
        z = dl.forward(tensors(*weights), *tensors(x)).numpy()
        forward.append(relative(x @ product(weights).swapaxes(-1, -2), z))
        if depth > 1:
            wrong.append(relative(x @ product(weights[::-1]).swapaxes(-1, -2), z))
        high = dl.above(tensors(*weights))
        for layer in range(depth):
            f = ref.stepped(rng.standard_normal((count, 4)))
            for w in weights[layer:]:
                f = np.einsum("bij,sbj->sbi", w, f)
            seen = np.moveaxis(f.imag / ref.STEP, 0, -1)
            jacobian.append(relative(seen, high[layer]))
            late.append(relative(seen, high[layer + 1]))
    yield check(
        worst(*forward),
        1e-10,
        {"layers in reverse order": ref.typical(*wrong)},
        part="product",
        draws=6 * count,
    )
    yield check(
        worst(*jacobian),
        1e-10,
        {"$W_{>l+1}$": ref.typical(*late)},
        part="Jacobian",
        draws=6 * count,
    )


def lem1(draws: int, seed: int) -> Iterator[Check]:
    """-dL/dW_l = W_{>l}^T W_{>l} W_l C_alpha[f_{l-1}], L by loops and complex steps, depths 1..6.

    Controls: twice that (the gradient of E), the covariance one layer up, no augmentation term.
    Eq. 38 of the proof lacks a minus sign, which Eq. 22 above it has: a misprint.
    """
    check = partial(Check, "acl/lem1")
    rng, n = ref.generator("lem1", seed), 6
    names = ("InfoNCE", "Soft Triplet", "N+1 Tuplet", "Modified Triplet")
    table = [row for row in ref.table1() if row[0] in names]
    errors, energies, printed, flipped = [], [], [], []
    broken: dict[str, list[Array]] = defaultdict(list)
    count = ref.share(draws, 6)
    for depth in DEPTHS:
        widths = random_widths(rng, depth)
        weights = layers(rng, count, widths)
        x, x2 = ref.views(rng, count, n, widths[0])
        flat = np.concatenate([w.reshape(count, -1) for w in weights], -1)
        steps, cuts = ref.stepped(flat), np.cumsum([w[0].size for w in weights])[:-1]
        moved, moved2 = x, x2
        for w, shaped in zip(np.split(steps, cuts, -1), weights, strict=True):
            w = w.reshape(*w.shape[:-1], *shaped.shape[1:]).swapaxes(-1, -2)
            moved, moved2 = moved @ w, moved2 @ w
        away = ref.distances(moved, moved2)
        inter, intra = (m[0].real for m in away)
        for _, phi, psi in table:
            left = -np.moveaxis(ref.family_loss(*away, phi, psi).imag / ref.STEP, 0, -1)
            alpha = ref.importance(inter, intra, phi, psi)
            X = contrast.contrastive_covariance(*tensors(alpha, x, x2, x, x2))
            ours = dl.flow(tensors(*weights), X)
            right = torch.cat([g.flatten(1) for g in ours], 1).numpy()
            errors.append(relative(right, left))
            theta = [w.requires_grad_() for w in tensors(*weights)]
            slope = torch.autograd.grad(dl.energy(theta, X).sum(), theta)
            energies.append(relative(np.concatenate([s.flatten(1) for s in slope], 1) / 2, left))
            broken["factor 2"].append(relative(2 * right, left))
            inside = contrast.contrastive_covariance(*tensors(alpha, x, x, x, x))
            no_aug = dl.flow(tensors(*weights), inside)
            broken["no augmentation term"].append(
                relative(torch.cat([g.flatten(1) for g in no_aug], 1), left)
            )
            a, b, c = _eq38(weights, x, x2, phi, psi, left)
            printed.append(a)
            flipped.append(b)
            broken["second views left out"].append(c)
    yield check(
        worst(*errors),
        1e-7,
        {k: v for k, v in ref.pooled(broken).items() if k != "second views left out"},
        part="Eq. 11",
        draws=24 * count,
        note="Four losses of Table 1, depths 1 to 6.",
    )
    yield check(
        worst(*energies),
        1e-7,
        {"the gradient of E itself": ref.pooled(broken)["factor 2"]},
        part=r"half the gradient of $\mathcal E_\alpha$",
        draws=24 * count,
    )
    yield check(
        worst(*flipped),
        1e-7,
        {
            "as typeset, without the minus": ref.typical(*printed),
            "second views left out": ref.pooled(broken)["second views left out"],
        },
        draws=24 * count,
        part="Eq. 38, middle expression",
        misprint=r"$\dot W_l=J_{>l}^\top(\sum_i\dots)$ -> $\dot W_l=-J_{>l}^\top(\sum_i\dots)$, as "
        "in Eq. 22, from which the proof starts",
        note="By Eq. 84 the sum over samples is minus the contrastive covariance on the right; "
        "both ends of Eq. 38, and the lemma, are as they should be.",
    )


def _eq38(weights, x, x2, phi, psi, left: Array) -> tuple[Array, Array, Array]:
    """[draws]: errors of Eq. 38's sum as printed, with a minus, and without second views."""
    lows, lows2 = [x], [x2]
    for w in weights:
        lows.append(lows[-1] @ w.swapaxes(-1, -2))
        lows2.append(lows2[-1] @ w.swapaxes(-1, -2))
    z, z2 = lows[-1], lows2[-1]
    g = ref.gradient(lambda v: ref.family_loss(*ref.distances(v, z2), phi, psi), z)
    g2 = ref.gradient(lambda v: ref.family_loss(*ref.distances(z, v), phi, psi), z2)
    first, second = [], []
    for layer in reversed(range(len(weights))):
        first.insert(0, (g.swapaxes(-1, -2) @ lows[layer]).reshape(len(x), -1))
        second.insert(0, (g2.swapaxes(-1, -2) @ lows2[layer]).reshape(len(x), -1))
        g, g2 = g @ weights[layer], g2 @ weights[layer]
    one, two = np.concatenate(first, -1), np.concatenate(second, -1)
    return relative(one + two, left), relative(-one - two, left), relative(one, left)


def _drift(weights: list[Array], velocities: list[Array]) -> list[Array]:
    """d/dt (W_l W_l^T - W_{l+1}^T W_{l+1}) from weights and their velocities."""
    out = []
    for low, dlow, high, dhigh in zip(
        weights, velocities, weights[1:], velocities[1:], strict=False
    ):
        a = dlow @ low.swapaxes(-1, -2)
        b = dhigh.swapaxes(-1, -2) @ high
        out.append(a + a.swapaxes(-1, -2) - b - b.swapaxes(-1, -2))
    return out


def _size(mats: list[Array]) -> Array:
    """[draws]: the largest entry of all matrices."""
    return np.max([np.abs(m).max((-1, -2)) for m in mats], 0)


def num9(draws: int, seed: int) -> Iterator[Check]:
    """W_l W_l^T - W_{l+1}^T W_{l+1} is conserved by Eq. 11, with alpha fixed or following theta.

    Controls: one layer twice as fast; the norm-constrained flow, which shrinks it at rate 2E.
    """
    rng = ref.generator("num9", seed)
    rate, fast, bound_, decay = [], [], [], []
    count = ref.share(draws, 5)
    for depth in range(2, 7):
        widths = random_widths(rng, depth)
        weights = [w.numpy() for w in dl.normalise(tensors(*layers(rng, count, widths)))]
        X = symmetric(rng, count, widths[0])
        moves = [m.numpy() for m in dl.flow(tensors(*weights), *tensors(X))]
        scale = _size(moves)
        rate.append(_size(_drift(weights, moves)) / scale)
        fast.append(_size(_drift(weights, [2 * moves[0], *moves[1:]])) / scale)
        inside = [m.numpy() for m in dl.tangent(tensors(*weights), tensors(*moves))]
        bound_.append(_size(_drift(weights, inside)) / scale)
        E = np.einsum("bij,bjk,bik->b", product(weights), X, product(weights))[:, None, None]
        gaps = _drift(weights, weights)  # twice W_l W_l^T - W_{l+1}^T W_{l+1}
        decay.append(
            _size([a + E * b for a, b in zip(_drift(weights, inside), gaps, strict=True)]) / scale
        )
    yield Check(
        "acl/num9",
        worst(*rate, *decay),
        1e-10,
        {
            "first layer twice as fast": ref.typical(*fast),
            r"constrained to $\|W_l\|_F=1$": ref.typical(*bound_),
        },
        part="rate",
        draws=5 * count,
        note=r"Under the constraint of Eq. 13 the difference $D$ obeys $\dot D=-2\mathcal E D$ "
        "(included): it is not conserved, but fades where $\\mathcal E>0$.",
    )
    yield _num9_path(rng, min(draws, 20))


def _num9_path(rng: np.random.Generator, count: int) -> Check:
    x, x2 = ref.views(rng, count, 6, 4)
    weights = list(tensors(*layers(rng, count, (4, 5, 3, 2))))
    tx, tx2 = tensors(x, x2)

    def velocity(ws: list[torch.Tensor], speed: float) -> list[torch.Tensor]:
        inter = contrast.inter_distances(dl.forward(ws, tx)) / 0.5
        alpha = torch.softmax(contrast.off_diagonal(-inter, -torch.inf), -1)
        moves = dl.flow(ws, contrast.contrastive_covariance(alpha, tx, tx2, tx, tx2) / 300)
        return [speed * moves[0], *moves[1:]]

    def balance(ws: list[torch.Tensor]) -> torch.Tensor:
        return torch.cat([(a @ a.mT - b.mT @ b).flatten(1) for a, b in pairwise(ws)], 1)

    drifts = {}
    for speed in (1.0, 2.0):
        ws, h = weights, 0.01
        for _ in range(100):  # classical Runge-Kutta
            k1 = velocity(ws, speed)
            k2 = velocity([w + h / 2 * k for w, k in zip(ws, k1, strict=True)], speed)
            k3 = velocity([w + h / 2 * k for w, k in zip(ws, k2, strict=True)], speed)
            k4 = velocity([w + h * k for w, k in zip(ws, k3, strict=True)], speed)
            ws = [
                w + h / 6 * (a + 2 * b + 2 * c + d)
                for w, a, b, c, d in zip(ws, k1, k2, k3, k4, strict=True)
            ]
        drifts[speed] = (balance(ws) - balance(weights)).abs().amax(1)
    return Check(
        "acl/num9",
        float(drifts[1.0].max()),
        1e-6,
        {"first layer twice as fast": float(drifts[2.0].median())},
        part="trajectory",
        draws=count,
        note=r"Runge-Kutta with $\alpha(\theta)$ of Eq. 6 at every moment.",
    )


def num10(draws: int, seed: int) -> Iterator[Check]:
    """Where lambda_max(X) > 0 random starts run to infinity; exactly those with E > 0 at some time.

    Euler steps of 5% in rescaled time, the same paths. Controls: norm constraint, E factor 1, a
    negative definite X, for which the sentence fails.
    """
    rng = ref.generator("num10", seed)
    finals: dict[str, list[Array]] = defaultdict(list)
    rates, wrong = [], []
    count = ref.share(min(draws, 300), 9)
    for depth in (1, 2, 3):
        for kind in ("PSD", "indefinite", "negative definite"):
            widths = (4, 3, 3, 2)[: depth + 1]
            X = symmetric(rng, count, 4)
            if kind != "indefinite":
                X = (1 if kind == "PSD" else -1) * X @ X
            weights, (X,) = tensors(*layers(rng, count, widths)), tensors(X)
            E, moves = dl.energy(weights, X), dl.flow(weights, X)
            for w, m in zip(weights, moves, strict=True):
                grown = (2 * w * m).sum((-1, -2))
                rates.append(relative(grown, 2 * E, 1e-3))
                wrong.append(relative(grown, E, 1e-3))
            least, positive = (t.numpy() for t in _least_norm(weights, X))
            finals[kind].append(least)
            finals["E > 0"].append(np.append(least[positive], np.inf))
            top = torch.linalg.eigvalsh(X)[:, -1].numpy()
            finals["top > 0"].append(least[top > 0])
    check = partial(Check, "acl/num10", draws=9 * count)
    yield check(
        worst(*rates),
        1e-9,
        {r"$\mathcal E_\alpha$ for $2\mathcal E_\alpha$": ref.typical(*wrong)},
        part="rate",
        note=r"$\frac{d}{dt}\|W_l\|_F^2=2\mathcal E_\alpha$ under Eq. 37: "
        r"while $\mathcal E_\alpha\le0$ no norm grows.",
    )
    kept = torch.linalg.matrix_norm(dl.normalise(weights)[0])
    small = {r"constrained to $\|W_l\|_F=1$": float(kept.max())}
    generic, shrunk = np.concatenate(finals["top > 0"]), best(*finals["negative definite"])
    yield check(
        float((generic > 1e3).mean()),
        0.98,
        {
            r"constrained to $\|W_l\|_F=1$": 0.0,
            "negative definite": float((np.concatenate(finals["negative definite"]) > 1e3).mean()),
        },
        part="norms",
        relation=">=",
        draws=len(generic),
        note=r"Share of random starts, $\lambda_{\max}(X_\alpha)>0$ as in Theorem 3, all of whose "
        r"norms pass $10^3$. Fails where the energy is at no time positive: for a negative "
        r"definite $X_\alpha$ ($L=1$, $X_\alpha=-I$: $W_1(t)=e^{-t}W_1(0)$), and for an indefinite "
        r"one on an open set of starts, which random ones hardly meet ($X_\alpha="
        r"\mathrm{diag}(1,-1)$, $W_1=(0,2)$, $W_2=(0.1)$: $W_2\to0$).",
    )
    yield check(
        best(*finals["E > 0"]),
        1e3,
        small | {"negative definite": shrunk},
        part="exactly if the energy is positive at some time",
        relation=">=",
        note=r"For fixed $\alpha$: $\mathcal E_\alpha$ never falls, so $\|W_l(t)\|_F^2\ge"
        r"\|W_l(t_0)\|_F^2+2(t-t_0)\,\mathcal E_\alpha(\theta(t_0))$; where it is never positive "
        "no norm ever grows. This sharper form is ours.",
    )


def _least_norm(
    weights: tuple[torch.Tensor, ...], X: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The smallest layer norm after 2000 rescaled steps, or once all layers are past 1e4.

    With it, whether E was positive at some time t_0 of the first 500 steps: later is too late to
    see the norms grow.
    """
    positive = torch.zeros(len(X), dtype=torch.bool)
    for step in range(2000):
        if step < 500:
            positive |= dl.energy(weights, X) > 1e-3
        moves = dl.flow(weights, X)
        norms = torch.stack([torch.linalg.matrix_norm(w) for w in weights])
        speeds = torch.stack([torch.linalg.matrix_norm(m) for m in moves])
        pace = (speeds / norms).amax(0).clamp(min=1e-300)
        going = (norms.amin(0) < 1e4) & (norms.amin(0) > 1e-12)
        if not going.any():
            break
        rate = torch.where(going, 0.05 / pace, torch.zeros_like(pace))[:, None, None]
        weights = tuple(w + rate * m for w, m in zip(weights, moves, strict=True))
    return torch.stack([torch.linalg.matrix_norm(w) for w in weights]).amin(0), positive
