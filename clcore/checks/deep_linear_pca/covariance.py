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


@check("acl/cor2")
def cor2(t: Trial) -> None:
    """Deep linear contrastive learning reparameterises PCA (Corollary 2, Eq. 8).

    Given   random views, any alpha; W a product of layers, and one of residual layers I + W_l; for
            (2) an indefinite X_alpha with known eigenvalues.
    Claim   (1) E_alpha = tr(W X_alpha W^T), X_alpha = C_alpha[x]: the trace of the double loop over
            outputs against products of weights. (2) Under W W^T = I, W of k rows, its maximum, by
            ascent with QR, is the sum of the k largest eigenvalues, negative or not.
    Fails   (1) for tanh at the output, and for other weights in the second view; (2) where W has
            only the Frobenius norm of such a W: the largest eigenvalue counts k times.
    """
    samples, inputs = 8, 5
    identity = t.part("identity", 1e-10, controls=pooled, draws=t.draws)
    x, x2 = ref.views(t.rng, t.draws, samples, inputs)
    alpha = ref.random_weights(t.rng, t.draws, samples, samples)
    X = contrast.contrastive_covariance(*tensors(alpha, x, x2, x, x2))
    plain = layers(t.rng, t.draws, (inputs, 4, 6, 3))
    residual = [w + np.eye(inputs) for w in layers(t.rng, t.draws, (inputs, inputs, inputs))]

    for weights in (plain, residual):
        trace = dl.energy(tensors(*weights), X).numpy()

        def energy(first, second, act=lambda z: z):
            z, z2 = (act(v @ product(w).swapaxes(-1, -2)) for v, w in ((x, first), (x2, second)))
            return np.trace(ref.covariance(alpha, z, z2, z, z2), axis1=-2, axis2=-1)

        other = [w * (1 + 0.3 * t.rng.standard_normal(w.shape)) for w in weights]

        # (1) E_alpha of the outputs, pair by pair, against the trace with X_alpha.
        identity.add(relative(energy(weights, weights), trace, 1e-2))
        curved = energy(weights, weights, np.tanh)
        identity.breaks("tanh at the output", relative(curved, trace))
        unlike = energy(weights, other)
        identity.breaks("other weights for the second view", relative(unlike, trace))

    # (2) The largest trace over W W^T = I against the eigenvalues that X_alpha was made with.
    eigenvalues = np.linspace(1.5, -1.0, 6)
    q = np.linalg.qr(t.rng.standard_normal((min(t.draws, 200), 6, 6)))[0]
    X_known = (q * eigenvalues) @ q.swapaxes(-1, -2)
    maximum = t.part("maximum", 1e-8)
    maximum.add(*(np.abs(_stiefel(X_known, k, t.rng) - eigenvalues[:k].sum()) for k in (1, 2, 3)))
    norm_only = abs(3 * eigenvalues[0] - eigenvalues[:3].sum())
    maximum.breaks(r"only $\|W\|_F^2=k$ asked", norm_only)


@check("acl/eq9")
def eq9(t: Trial) -> None:
    """Classical PCA as a constrained trace maximisation (Eq. 9).

    Given   40 points with a known covariance V[x] in 8 dimensions, mean not 0.
    Claim   max tr(W V[x] W^T) subject to W W^T = I, by ascent with QR, is the sum of the k largest
            eigenvalues that the data were made with, k = 1..4.
    Fails   for moments about 0 in place of the mean.
    """
    rng, values = t.rng, np.linspace(2.0, 0.25, 8)
    count, n = min(t.draws, 200), 40
    # Whitened, stretched and turned: their covariance has these eigenvalues exactly.
    x = rng.standard_normal((count, n, 8))
    x = x - x.mean(-2, keepdims=True)
    root = np.linalg.cholesky(x.swapaxes(-1, -2) @ x / n)
    x = np.linalg.solve(root, x.swapaxes(-1, -2)).swapaxes(-1, -2)
    turn = np.linalg.qr(rng.standard_normal((count, 8, 8)))[0]
    x = x * np.sqrt(values) @ turn + 1.0
    centred = x - x.mean(-2, keepdims=True)
    v, raw = (y.swapaxes(-1, -2) @ y / n for y in (centred, x))
    # The largest trace that an ascent finds, against the sum of the k largest of these.
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
    Claim   (1) At every N X_alpha is the sample covariance with N - 1, minus half the mean of (x
            - x')(x - x')^T: the library at N = 12. (2) Without augmentation it tends to V: the
            log-log slope of |X_alpha - V|_F over N = 10^2..10^5 is -1/2, within 0.1.
    Fails   (1) for the reading alpha_ij = (1/2)N(N - 1), for the covariance with 1/N; (2) with
            augmentation noise of size 2, which keeps X_alpha away from V.
    """
    n, count, d = 12, 60, 3
    x = np.stack([_sample(t.rng, "gaussian", n) for _ in range(count)])
    x2 = x + t.rng.standard_normal(x.shape)
    exact, noisy = (np.stack([_closed(*v) for v in zip(x, y, strict=True)]) for y in (x, x2))

    def ours(scale: float, x2: Array = x) -> Array:
        alpha = torch.full((count, n, n), scale, dtype=torch.float64)
        return contrast.contrastive_covariance(alpha, *tensors(x, x2, x, x2)).numpy()

    # (1) The library's sum over pairs against moments of the sample.
    got = ours(1 / (2 * n * (n - 1)))
    finite = t.part("finite N", 1e-12)
    finite.add(relative(got, exact), relative(ours(1 / (2 * n * (n - 1)), x2), noisy))
    finite.breaks(r"$\frac12N(N-1)$", relative(ours(n * (n - 1) / 2), exact))
    finite.breaks("covariance with 1/N", relative(got, exact * (n - 1) / n))
    # (2) By the part above, moments of the samples stand for the sum over pairs. How far the slope
    # is from -1/2.
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

    Given   three classes of eight points each, random priors, enumerated with all pairs of views:
            positives of the same label, negatives of other labels, alpha uniform, that is, half the
            product of the two samples' probabilities (the paper gives no formula).
    Claim   (1) X_alpha, by the library, is the between-class scatter S_B of the class means, the
            numerator of Fisher's ratio. (2) Its two leading eigenvectors span the subspace of
            linear discriminant analysis (that of S_W^-1 S_B) if S_W is isotropic.
    Fails   (1) for positives from any class; for InfoNCE's alpha, of which the best a S_B - b S_W
            leaves a part. (2) for an anisotropic S_W, which has to be whitened first.
    """
    sines: list[float | np.floating] = []
    rng, classes, points_each, d = t.rng, 3, 8, 4
    scatter = t.part("X is the between-class scatter", 1e-10, controls=pooled)
    subspace = t.part("LDA subspace, isotropic within classes", 1e-6, controls=pooled)
    for _ in range(min(t.draws, 40)):
        priors = rng.dirichlet(5 * np.ones(classes))
        for isotropic in (True, False):
            inside = rng.standard_normal((classes, points_each, d))
            if isotropic:  # the 2 d points +-e_k: a sphere's covariance
                inside = np.broadcast_to(np.concatenate([np.eye(d), -np.eye(d)]), inside.shape)
            else:
                inside = inside * np.array([3.0, 1.0, 0.5, 0.2])
            points = inside - inside.mean(1, keepdims=True)
            points = points + 1.5 * rng.standard_normal((classes, 1, d))
            between, within = _scatter(priors, points)
            # A sample is a class and a pair of its points: an anchor and its second view.
            label, anchor, view = (
                g.ravel() for g in np.indices((classes, points_each, points_each))
            )
            weight = priors[label] / points_each**2
            alpha = weight[:, None] * weight / 2 * (label[:, None] != label)
            x, x2 = points[label, anchor], points[label, view]

            def covariance(x2: Array, alpha=alpha, x=x) -> Array:
                return contrast.contrastive_covariance(*tensors(alpha, x, x2, x, x2)).numpy()

            # (1) X_alpha against S_B.
            X, size = covariance(x2), np.abs(between).max()
            scatter.add(np.abs(X - between).max() / size)
            any_class = covariance(points[rng.permutation(label), view])
            scatter.breaks("positives from any class", np.abs(any_class - between).max() / size)
            X_infonce = covariance(x2, _infonce(x, weight, label))
            scatter.breaks(NCE, _residual(X_infonce, between, within))

            # (2) Sine of the largest angle between the plane of X_alpha and that of S_W^-1 S_B.
            lda = _leading(np.linalg.solve(within, between), 2)
            sine, sine_infonce = (
                np.linalg.norm(lda - top @ (top.T @ lda), 2)
                for top in (_leading(X, 2), _leading(X_infonce, 2))
            )
            if isotropic:
                sines.append(sine_infonce)
                subspace.add(sine)
            else:
                subspace.breaks("anisotropic $S_W$", sine)

    # What InfoNCE's alpha leaves, and the angle of its plane: numbers for the page.
    scatter.says(residual=np.median(scatter.broken[NCE]))
    subspace.says(sine=max(sines))


@check("acl/num8")
def num8(t: Trial) -> None:
    """With augmentation the contrastive covariance need not be positive semi-definite (Sec. 4,
    before 4.1).

    Given   random data and alpha > 0; second views with noise of size 0, 0.5, 1, 2.
    Claim   (1) X_alpha, by the library, is symmetric. (2) With augmentation it is not positive
            semi-definite: by the double loop, its least eigenvalue is negative in every draw at
            noise 2.
    Fails   (1) for C_alpha[x, y] of two variables; (2) without augmentation.
    """
    samples, d = 8, 4
    x = t.rng.standard_normal((t.draws, samples, d))
    alpha = ref.random_weights(t.rng, t.draws, samples, samples)
    noise, y = t.rng.standard_normal(x.shape), t.rng.standard_normal(x.shape)

    # (1) X_alpha against its transpose.
    symmetric = t.part("symmetric", 1e-12, controls=typical, draws=t.draws)
    for sigma in (0.0, 0.5, 1.0, 2.0):
        x2 = x + sigma * noise
        X = contrast.contrastive_covariance(*tensors(alpha, x, x2, x, x2)).numpy()
        symmetric.add(relative(X, X.swapaxes(-1, -2)))
    second = x + 2.0 * noise
    cross = contrast.contrastive_covariance(*tensors(alpha, x, second, y, y + noise)).numpy()
    symmetric.breaks(r"$\mathbb C_\alpha[x,y]$", relative(cross, cross.swapaxes(-1, -2)))

    def least_eigenvalue(sigma: float) -> Array:
        x2 = x + sigma * noise
        return np.linalg.eigvalsh(ref.covariance(alpha, x, x2, x, x2))[:, 0]

    # (2) The least eigenvalue, with much noise and with none.
    indefinite = t.part("not positive semi-definite", -1e-3).add(least_eigenvalue(2.0))
    indefinite.breaks("no augmentation", least_eigenvalue(0.0))
