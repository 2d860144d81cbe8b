"""X_alpha as a covariance: Cor. 2, Eq. 9, sample covariance, LDA, signs (acl Sec. 4).

numpy loops over samples against `contrast` and `deep_linear`.
"""

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.deep_linear_pca.flow import layers, product
from clcore.ledger import Trial, check, pooled, typical
from clcore.losses import contrast
from clcore.reference import Array, relative, tensors
from clcore.theory import deep_linear as dl


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


@check("acl/cor2")
def cor2(t: Trial) -> None:
    """Deep linear contrastive learning reparameterises PCA (Corollary 2, Eq. 8).

    Given   random views, any alpha; W a product of layers, and one of residual layers I + W_l; for
            the maximum an indefinite X_alpha with known eigenvalues.
    Claim   E_alpha = tr(W X_alpha W^T), X_alpha = C_alpha[x]: the trace of the double loop over
            outputs against products of weights. Under W W^T = I its maximum, by ascent with QR, is
            the sum of the n_L largest eigenvalues, negative or not.
    Fails   for tanh at the output, for other weights in the second view; where W has only the
            Frobenius norm of such a W, the largest eigenvalue counts n_L times.
    """
    n, d = 8, 5
    identity = t.part("identity", 1e-10, controls=pooled, draws=t.draws)
    x, x2 = ref.views(t.rng, t.draws, n, d)
    alpha = ref.random_weights(t.rng, t.draws, n, n)
    X = contrast.contrastive_covariance(*tensors(alpha, x, x2, x, x2))
    plain = layers(t.rng, t.draws, (d, 4, 6, 3))
    residual = [w + np.eye(d) for w in layers(t.rng, t.draws, (d, d, d))]
    for weights in (plain, residual):
        right = dl.energy(tensors(*weights), X).numpy()

        def left(maps, maps2, act=lambda z: z):
            z, z2 = (act(v @ product(m).swapaxes(-1, -2)) for v, m in ((x, maps), (x2, maps2)))
            return np.trace(ref.covariance(alpha, z, z2, z, z2), axis1=-2, axis2=-1)

        other = [w * (1 + 0.3 * t.rng.standard_normal(w.shape)) for w in weights]
        identity.add(relative(left(weights, weights), right, 1e-2))
        identity.breaks("tanh at the output", relative(left(weights, weights, np.tanh), right))
        identity.breaks("other weights for the second view", relative(left(weights, other), right))
    values = np.linspace(1.5, -1.0, 6)
    x = _coloured(t.rng, min(t.draws, 200), values)
    maximum = t.part("maximum", 1e-8)
    maximum.add(*(np.abs(_stiefel(x, k, t.rng) - values[:k].sum()) for k in (1, 2, 3)))
    maximum.breaks(r"only $\|W\|_F^2=k$ asked", abs(3 * values[0] - values[:3].sum()))


@check("acl/eq9")
def eq9(t: Trial) -> None:
    """Classical PCA as a constrained trace maximisation (Eq. 9).

    Given   data with a known covariance in 8 dimensions, mean not 0.
    Claim   max tr(W V[x] W^T) subject to W W^T = I, by ascent with QR, is the sum of the k largest
            eigenvalues that the data were made with, k = 1..4.
    Fails   for moments about 0 in place of the mean.
    """
    rng, values = t.rng, np.linspace(2.0, 0.25, 8)
    count, n = min(t.draws, 200), 40
    x = rng.standard_normal((count, n, 8))
    x = x - x.mean(-2, keepdims=True)
    root = np.linalg.cholesky(x.swapaxes(-1, -2) @ x / n)
    x = np.linalg.solve(root, x.swapaxes(-1, -2)).swapaxes(-1, -2)
    turn = np.linalg.qr(rng.standard_normal((count, 8, 8)))[0]
    x = x * np.sqrt(values) @ turn + 1.0
    centred = x - x.mean(-2, keepdims=True)
    v, raw = (y.swapaxes(-1, -2) @ y / n for y in (centred, x))
    largest = t.part("", 1e-8)
    largest.add(*(np.abs(_stiefel(v, k, rng) - values[:k].sum()) for k in range(1, 5)))
    moved = (np.abs(_stiefel(raw, k, rng) - values[:k].sum()) for k in range(1, 5))
    largest.breaks("moments about 0", *moved)


def _sample(rng: np.random.Generator, kind: str, n: int, d: int = 3) -> Array:
    """n points [n, d]: of identity covariance, or one-hot."""
    if kind == "gaussian":
        return rng.standard_normal((n, d))
    if kind == "uniform":
        return np.sqrt(12) * rng.random((n, d))
    return np.eye(d)[rng.integers(0, d, n)]


def _closed(x: Array, x2: Array) -> Array:
    """X_alpha of uniform alpha = 1/(2N(N-1)) by moments of the sample."""
    return np.cov(x.T) - (x - x2).T @ (x - x2) / (2 * len(x))


@check("acl/num7")
def num7(t: Trial) -> None:
    """Uniform α without augmentation recovers the data covariance (Sec. 4, after Eq. 9).

    Given   alpha_ij = 1/(2N(N - 1)); x' = x (at finite N also with noise); Gaussian, uniform and
            one-hot data of known covariance V.
    Claim   At every N X_alpha is the sample covariance with N - 1, less half the mean of (x
            - x')(x - x')^T; without augmentation it tends to V: the log-log slope of |X_alpha
            - V|_F over N = 10^2..10^5 is -1/2, within 0.1.
    Fails   for the reading (1/2)N(N - 1), for the covariance with 1/N; for augmentation noise that
            does not vanish.
    """
    n, count, d = 12, 60, 3
    x = np.stack([_sample(t.rng, "gaussian", n) for _ in range(count)])
    x2 = x + t.rng.standard_normal(x.shape)
    exact, noisy = (np.stack([_closed(*v) for v in zip(x, y, strict=True)]) for y in (x, x2))

    def ours(scale: float, x2: Array = x) -> Array:
        alpha = torch.full((count, n, n), scale, dtype=torch.float64)
        return contrast.contrastive_covariance(alpha, *tensors(x, x2, x, x2)).numpy()

    got = ours(1 / (2 * n * (n - 1)))
    finite = t.part("finite N", 1e-12)
    finite.add(relative(got, exact), relative(ours(1 / (2 * n * (n - 1)), x2), noisy))
    finite.breaks(r"$\frac12N(N-1)$", relative(ours(n * (n - 1) / 2), exact))
    finite.breaks("covariance with 1/N", relative(got, exact * (n - 1) / n))
    # By the part above, moments of the samples stand for the sum over pairs.
    sizes, count = (100, 1000, 10_000, 100_000), 20
    truth = {"gaussian": np.eye(d), "uniform": np.eye(d), "one-hot": np.eye(d) / d - 1 / d**2}
    limit = t.part("limit", 0.1, draws=count * len(sizes) * len(truth))
    for kind, v in truth.items():
        off = []
        for noise in (0.0, 2.0):
            errors = []
            for n in sizes:
                square = []
                for _ in range(count):
                    x = _sample(t.rng, kind, n)
                    x2 = x + noise * t.rng.standard_normal(x.shape) if noise else x
                    square.append(((_closed(x, x2) - v) ** 2).sum())
                errors.append(np.sqrt(np.mean(square)))
            off.append(np.abs(np.polyfit(np.log(sizes), np.log(errors), 1)[0] + 0.5))
        limit.add(off[0]).breaks("augmentation noise 2", off[1])


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


NCE = "InfoNCE's alpha, the best $aS_B-bS_W$"


def _infonce(x: Array, weight: Array, c: Array) -> Array:
    """InfoNCE's alpha at epsilon = 0 over samples of other classes, tau the mean distance; a row
    has the weight of its anchor, halved as for uniform alpha."""
    inter = ((x[:, None] - x) ** 2).sum(-1) / 2
    rows = np.exp(-inter / inter.mean()) * weight * (c[:, None] != c)
    return weight[:, None] * rows / rows.sum(-1, keepdims=True) / 2


def _residual(X: Array, between: Array, within: Array) -> float:
    """What the best a S_B - b S_W leaves of X, relative."""
    design = np.stack([between.ravel(), within.ravel()], -1)
    best = design @ np.linalg.lstsq(design, X.ravel(), rcond=None)[0]
    return float(np.linalg.norm(X.ravel() - best) / np.linalg.norm(X))


@check("acl/rem1")
def rem1(t: Trial) -> None:
    """Supervised contrastive learning and Fisher's linear discriminant (Sec. 4, after Eq. 9).

    Given   three classes of eight points each, enumerated with all pairs of views: positives of
            the same label, negatives of other labels, uniform alpha (the paper gives no formula).
    Claim   X_alpha = S_B, the numerator of Fisher's ratio; and its leading eigenvectors span the
            subspace of linear discriminant analysis where S_W is isotropic.
    Fails   for positives from any class; for InfoNCE's alpha, of which the best a S_B - b S_W
            leaves a part; the subspace for an anisotropic S_W, which has to be whitened first.
    """
    sines: list[float | np.floating] = []
    rng, classes, m, d = t.rng, 3, 8, 4
    scatter = t.part("X is the between-class scatter", 1e-10, controls=pooled)
    subspace = t.part("LDA subspace, isotropic within classes", 1e-6, controls=pooled)
    for _ in range(min(t.draws, 40)):
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

            def cov(x2: Array, alpha=alpha, x=x) -> Array:
                return contrast.contrastive_covariance(*tensors(alpha, x, x2, x, x2)).numpy()

            X, size = cov(points[c, b]), np.abs(between).max()
            scatter.add(np.abs(X - between).max() / size)
            other = cov(points[rng.permutation(c), b])
            scatter.breaks("positives from any class", np.abs(other - between).max() / size)
            follows = _infonce(x, weight, c)
            nce = cov(points[c, b], follows)
            scatter.breaks(NCE, _residual(nce, between, within))
            lda = _leading(np.linalg.solve(within, between), 2)
            gap, gap_nce = (
                np.linalg.norm(lda - top @ (top.T @ lda), 2)
                for top in (_leading(X, 2), _leading(nce, 2))
            )
            if isotropic:
                sines.append(gap_nce)
                subspace.add(gap)
            else:
                subspace.breaks("anisotropic $S_W$", gap)
    scatter.says(residual=np.median(scatter.broken[NCE]))
    subspace.says(sine=max(sines))


@check("acl/num8")
def num8(t: Trial) -> None:
    """With augmentation the contrastive covariance need not be PSD (Sec. 4, before 4.1).

    Given   random data and alpha > 0; second views with noise of size 0, 0.5, 1, 2.
    Claim   X_alpha is symmetric, and with augmentation not PSD: its least eigenvalue is negative
            in every draw at noise 2.
    Fails   symmetry for C_alpha[x, y] of two variables; a negative eigenvalue without
            augmentation.
    """
    n, d = 8, 4
    x, alpha = t.rng.standard_normal((t.draws, n, d)), ref.random_weights(t.rng, t.draws, n, n)
    noise = t.rng.standard_normal(x.shape)
    symmetric = t.part("symmetric", 1e-12, controls=typical, draws=t.draws)
    least = {}
    for sigma in (0.0, 0.5, 1.0, 2.0):
        x2 = x + sigma * noise
        X = contrast.contrastive_covariance(*tensors(alpha, x, x2, x, x2)).numpy()
        symmetric.add(relative(X, X.swapaxes(-1, -2)))
        least[sigma] = np.linalg.eigvalsh(ref.covariance(alpha, x, x2, x, x2))[:, 0]
    y = t.rng.standard_normal(x.shape)
    cross = contrast.contrastive_covariance(*tensors(alpha, x, x2, y, y + noise)).numpy()
    symmetric.breaks(r"$\mathbb C_\alpha[x,y]$", relative(cross, cross.swapaxes(-1, -2)))
    t.part("not PSD", -1e-3).add(least[2.0]).breaks("no augmentation", least[0.0])
