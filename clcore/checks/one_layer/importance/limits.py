"""Large batches: the limit of C_alpha if alpha is a kernel (nl Lemma 2, Corollary 1, App. A.1).

Finite worlds, in which all limits are finite sums: loops over samples and views meet
`clcore.losses.kernel_importance`, and so do drawn batches.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
import torch

from clcore import random
from clcore import reference as ref
from clcore.checks.one_layer.importance import batch_proofs as proofs
from clcore.ledger import Trial, check, pooled, typical
from clcore.losses import kernel_importance as ki
from clcore.reference import Array, relative, tensors

KINDS = ("uniform", "Gaussian", "random")


def _weighed(mass: Array, gap: Array) -> Array:
    """mass times gap gap^T, [..., q, q]."""
    return mass[..., None, None] * gap[..., :, None] * gap[..., None, :]


class World:
    """Six samples in R^3, three views each, ReLU-gated views for g; all in numpy."""

    def __init__(self, rng: np.random.Generator, count: int, kind: str, views: int = 3) -> None:
        n = 6
        x0 = rng.standard_normal((count, n, 3))
        x = x0[:, :, None] + 0.8 * rng.standard_normal((count, n, views, 3)) * (views > 1)
        w = rng.standard_normal((count, 1, 1, 3))
        self.g = x * ((x * w).sum(-1, keepdims=True) > 0) + 0.3 * x
        self.p = ref.normalised(0.1 + rng.random((count, n)))
        self.views = ref.normalised(0.1 + rng.random((count, n, views)))
        y = np.maximum(x0[..., :1], 0)
        if kind == "uniform":
            self.phi, self.K = np.ones((count, n, 1)), np.ones((count, n, n))
        elif kind == "Gaussian":
            self.phi = ki.gaussian_features(*tensors(y), 0.8, 80).numpy()
            self.K = np.exp(-((y - y.swapaxes(-1, -2)) ** 2) / 1.6)
        else:
            self.phi = rng.random((count, n, 20)) ** 3
            self.K = np.einsum("bil,bjl->bij", self.phi, self.phi)

    def tensors(self) -> tuple[torch.Tensor, ...]:
        return tensors(self.phi, self.p, self.views, self.g)

    def inter(self) -> Array:
        """1/2 sum K P P (g - g')(g - g')^T over samples and views of both, by loops."""
        n, v = map(range, self.g.shape[1:3])
        total = np.zeros((len(self.p), 3, 3))
        for i, a, j, b in product(n, v, n, v):
            mass = self.K[:, i, j] * self.p[:, i] * self.p[:, j]
            mass = mass * self.views[:, i, a] * self.views[:, j, b] / 2
            total += _weighed(mass, self.g[:, i, a] - self.g[:, j, b])
        return total

    def intra(self, tied: bool = False) -> Array:
        """1/2 sum P (sum_j K_ij p_j) (g - g')(g - g')^T over pairs of views of one sample; tied:
        over one view twice."""
        n, v = map(range, self.g.shape[1:3])
        total = np.zeros((len(self.p), 3, 3))
        for i, a, b in product(n, v, v):
            mass = self.p[:, i] * (self.K[:, i] * self.p).sum(-1) * self.views[:, i, a] / 2
            mass = mass * ((a == b) if tied else self.views[:, i, b])
            total += _weighed(mass, self.g[:, i, a] - self.g[:, i, b])
        return total


def worlds(t: Trial, views: int = 3) -> Iterator[World]:
    """Worlds for every kind of importance."""
    for kind in KINDS:
        yield World(t.rng, ref.share(min(t.draws, 60), len(KINDS)), kind, views)


def _sizes(
    key: torch.Tensor, world: World, sizes: tuple[int, ...], repeats: int
) -> Iterator[Array]:
    """C_alpha of `repeats` batches of each size, [repeats, 3, 3], from the first of the worlds."""
    _, p, views, g = (v[:1].expand(repeats, *v.shape[1:]) for v in world.tensors())
    (kernel,) = tensors(world.K[:1])
    for size in sizes:
        keys = random.fold_in(random.fold_in(key, size), torch.arange(repeats))
        batch = ki.draw(keys, p, views, size)
        yield ki.of_batch(batch, kernel.expand(repeats, -1, -1), g).numpy()


@check("nl/lem2")
def lem2(t: Trial) -> None:
    """Contrastive covariance becomes a sum of variances for large batches (Lemma 2, Eq. 4).

    Given   finite worlds: six points, three views, alpha a kernel (uniform, Gaussian, random
            features); batches of N = 32..512 drawn from them. Second moments are finite.
    Claim   C_alpha[g] tends to sum_l z_l^2 V_{p~_l}[E[g|x_0]], and is positive semi-definite:
            double sums over samples and views against the library; errors of batches fall as
            N^(-1/2).
    Fails   for V[g] in place of V[E[g|x_0]], for the same view twice, for features of both signs;
            errors grow for views of infinite variance, though E[g|x_0] has a finite one.
    """
    at = t.part("the limit", 1e-11, controls=pooled)
    psd = t.part("positive semi-definite", 1e-12, controls=pooled)
    for world in worlds(t):
        # Double sums over samples and views, against the library's sum over levels.
        exact, features = world.inter() - world.intra(), world.tensors()
        tied = world.inter() - world.intra(tied=True)
        at.add(relative(ki.limit(*features), exact))
        at.breaks("V[g] for V[E[g | x0]]", relative(ki.inter_limit(*features), exact))
        at.breaks("views not independent", relative(tied, exact))

        # The least eigenvalue over the largest.
        values = np.linalg.eigvalsh(exact)
        psd.add(-values[:, 0] / values[:, -1])
        world.phi = t.rng.standard_normal((len(exact), 6, 2))
        world.K = np.einsum("bil,bjl->bij", world.phi, world.phi)
        values = np.linalg.eigvalsh(world.inter() - world.intra())
        psd.breaks("features of both signs", -values[:, 0] / np.abs(values).max(-1))

    # Drawn batches: the slope of the error of C_alpha against the size of the batch.
    sizes, repeats = (32, 128, 512), 40
    slopes: dict[str, list[float]] = {"limit": [], "inter_limit": []}
    for k, kind in enumerate(KINDS):
        world = World(t.rng, 1, kind)
        key = random.key(int(t.rng.integers(2**40)) + k)
        found = list(_sizes(key, world, sizes, repeats))
        for name, out in slopes.items():
            target = getattr(ki, name)(*world.tensors()).numpy()
            errors = [np.sqrt(((c - target) ** 2).mean()) for c in found]
            out.append(np.polyfit(np.log(sizes), np.log(errors), 1)[0])
    part = t.part("convergence", 0.2, draws=repeats * len(sizes) * len(KINDS))
    part.add(abs(np.mean(slopes["limit"]) + 0.5))
    part.breaks("limit V[g]", abs(np.mean(slopes["inter_limit"]) + 0.5))
    heavy = _heavy_slope(t.stream("heavy tails"), sizes, 400)
    part.breaks("views of infinite variance", abs(heavy + 0.5)).says(heavy=heavy)


def _heavy_slope(rng: np.random.Generator, sizes: tuple[int, ...], repeats: int) -> float:
    """The slope of the median error for g(x) = x, alpha = 1, x_0 = -1 or 1, and views x_0 plus
    Student's t of 3/2 degrees: their mean is x_0, V[E[g|x_0]] is 1, and V[g|x_0] is infinite."""
    errors = []
    for n in sizes:
        x0 = rng.choice([-1.0, 1.0], (repeats, n))
        x, x2 = x0 + rng.standard_t(1.5, (2, repeats, n))
        intra = (n - 1) * ((x - x2) ** 2).sum(-1) / (2 * n**2)
        errors.append(np.median(np.abs(x.var(-1) - intra - 1)))
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


def _by_level(world: World, power: int) -> Array:
    """Eq. 31 by a loop over l, with this power of z_l."""
    total = np.zeros((len(world.p), 3, 3))
    for phi in np.moveaxis(world.phi, -1, 0):
        mass = phi * world.p
        z = mass.sum(-1)
        law = (mass / np.where(z > 0, z, 1)[:, None])[:, :, None] * world.views
        mean = np.einsum("bia,biaq->bq", law, world.g)
        square = np.einsum("bia,biaq,biar->bqr", law, world.g, world.g)
        variance = square - mean[:, :, None] * mean[:, None, :]
        total += (z**power)[:, None, None] * variance
    return total


@check("nl/eq32")
def eq32(t: Trial) -> None:
    """Large-batch limit of the inter-sample part (Eqs. 26-32).

    Given   finite worlds: six points, three views of each, alpha a kernel (uniform, Gaussian,
            random features).
    Claim   C^inter tends to sum_l z_l^2 V_{p~_l}[g], x drawn through x_0: the double sum, Eq. 31
            by loops over l, the library.
    Fails   for z_l in place of its square, and for the variance of the view means only.
    """
    part = t.part("", 1e-11, controls=typical, draws=3 * ref.share(min(t.draws, 60), 3))
    for world in worlds(t):
        exact, given = world.inter(), world.tensors()
        part.add(relative(ki.inter_limit(*given), exact), relative(_by_level(world, 2), exact))
        if world.phi.shape[-1] > 1:  # uniform importance has one level, z_0 = 1
            part.breaks("z_l for z_l^2", relative(_by_level(world, 1), exact))
        part.breaks("variance of the mean only", relative(ki.limit(*given), exact))
    proofs.eq32(part)


@check("nl/eq41")
def eq41(t: Trial) -> None:
    """Large-batch limit of the intra-sample part (Eqs. 33-41).

    Given   finite worlds: six points, three views of each, independent given x_0; alpha a kernel
            (uniform, Gaussian, random features).
    Claim   Row sums of alpha tend to sum_l z_l phi_l; pairs of views give twice V[g|x_0]; C^intra
            tends to sum_l z_l^2 E_{p~_l} V[g|x_0]; Eq. 32 minus Eq. 41 is Lemma 2, sum_l z_l^2
            V_{p~_l}[E[g|x_0]].
    Fails   without z_l, without the factor 2, for one view twice, for the sum in place of the
            difference; in the proof of C^intra, for z_l in place of its square.
    """
    sums = t.part("row sums, Eqs. 33 and 34", 1e-11, controls=pooled)
    views = t.part("pairs of views, Eqs. 36 to 39", 1e-11, controls=pooled)
    eq = t.part("Eq. 41", 1e-11, controls=pooled)
    variance = t.part("law of total variance, Eq. 42", 1e-11, controls=pooled)
    for world in worlds(t):
        features = world.tensors()
        several = world.phi.shape[-1] > 1  # alpha = 1 has one feature, and z_0 = 1

        # Row sums of alpha, sum_j K_ij p_j.
        z, _ = ki.adjusted(*features[:2])
        rows = np.stack([(world.K[:, i] * world.p).sum(-1) for i in range(6)], -1)
        sums.add(relative(np.einsum("bl,bil->bi", z, world.phi), rows))
        if several:
            sums.breaks("z_l left out", relative(world.phi.sum(-1), rows))

        # Of each sample, pairs of views against twice V[g|x_0].
        chance, g = world.views, world.g
        pairs, given = np.zeros((2, len(rows), 6, 3, 3))
        for a, b in product(range(3), repeat=2):
            pairs += _weighed(chance[:, :, a] * chance[:, :, b], g[:, :, a] - g[:, :, b])
        mean = (chance[..., None] * g).sum(-2)
        for a in range(3):
            given += _weighed(chance[:, :, a], g[:, :, a] - mean)
        views.add(relative(2 * given, pairs))
        if several:
            views.breaks("no factor 2", relative(given, pairs))

        # C^intra over all pairs of views, against the library.
        exact, ours = world.intra(), ki.intra_limit(*features).numpy()
        eq.add(relative(ours, exact))
        if several:
            eq.breaks("one view twice", relative(world.intra(tied=True), exact))

        # Eq. 32 minus Eq. 41.
        limit, inter = ki.limit(*features), ki.inter_limit(*features).numpy()
        variance.add(relative(inter - ours, limit))
        if several:
            variance.breaks("sum for difference", relative(inter + ours, limit))
    proofs.eq41(sums, views, eq, variance)


@check("nl/cor1")
def cor1(t: Trial) -> None:
    """Contrastive covariance of large batches without augmentation (Corollary 1).

    Given   finite worlds: six points, one view of each, alpha a kernel (uniform, Gaussian, random
            features).
    Claim   C_alpha[g] tends to sum_l z_l^2 V_{p~_l}[g]: all pairs of samples against the library's
            sum; for alpha = 1 to V[g]: the library's sum against numpy's variance.
    Fails   for V[g] of the data in place of the sum; for alpha = 1, and in both proofs, for second
            moments in place of variances.
    """
    kernel = t.part("kernel", 1e-11, controls=typical)
    uniform = t.part("uniform importance", 1e-11, controls=typical)
    for world in worlds(t, views=1):
        exact, ours, point = world.inter(), ki.limit(*world.tensors()), world.g[:, :, 0]
        variance = np.stack(
            [np.cov(v.T, aweights=m, bias=True) for v, m in zip(point, world.p, strict=True)]
        )

        # The double sum over samples, against the library's sum over levels.
        kernel.add(relative(ours, exact))
        if world.phi.shape[-1] > 1:
            kernel.breaks("V[g] of the data", relative(variance, exact))

        # alpha = 1, one feature: numpy's variance.
        else:
            square = np.einsum("bi,biq,bir->bqr", world.p, point, point)
            uniform.add(relative(ours, variance)).breaks("not centred", relative(square, variance))
    proofs.cor1(kernel, uniform)
