"""Large batches: what C_alpha tends to if alpha is a kernel (nl Lemma 2, Corollary 1, App. A.1).

Finite worlds, in which all limits are finite sums: loops over samples and views meet
`clcore.losses.kernel_importance`, and so do drawn batches.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import torch

from clcore import random
from clcore import reference as ref
from clcore.ledger import Check
from clcore.losses import kernel_importance as ki
from clcore.reference import Array, relative, tensors, typical, worst

KINDS = ("uniform", "Gaussian", "random")


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
        total = 0.0
        n, v = self.g.shape[1:3]
        for i, a, j, b in product(range(n), range(v), range(n), range(v)):
            gap = self.g[:, i, a] - self.g[:, j, b]
            mass = self.K[:, i, j] * self.p[:, i] * self.p[:, j]
            mass = mass * self.views[:, i, a] * self.views[:, j, b] / 2
            total = total + mass[:, None, None] * gap[:, :, None] * gap[:, None, :]
        return total

    def intra(self, tied: bool = False) -> Array:
        """1/2 sum P (sum_j K_ij p_j) (g - g')(g - g')^T over pairs of views of one sample."""
        total = np.zeros((len(self.p), 3, 3))
        n, v = self.g.shape[1:3]
        for i, a, b in product(range(n), range(v), range(v)):
            gap = self.g[:, i, a] - self.g[:, i, b]
            mass = self.p[:, i] * (self.K[:, i] * self.p).sum(-1) * self.views[:, i, a] / 2
            mass = mass * ((a == b) if tied else self.views[:, i, b])
            total += mass[:, None, None] * gap[:, :, None] * gap[:, None, :]
        return total


def worlds(rng: np.random.Generator, draws: int, views: int = 3) -> Iterator[tuple[int, World]]:
    """(how many, worlds) for every kind of importance."""
    count = ref.share(min(draws, 60), len(KINDS))
    for kind in KINDS:
        yield count, World(rng, count, kind, views)


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


def lem2(draws: int, seed: int) -> Iterator[Check]:
    """The limit by its features against double sums over samples and views; batches of growing N.

    Controls: the variance of g itself, the same view twice, z_l for z_l^2; signed features.
    """
    check = partial(Check, "nl/lem2")
    rng = ref.generator("nl lem2", seed)
    errors, low, signed = [], [], []
    broken: dict[str, list[Array]] = defaultdict(list)
    total = 0
    for count, world in worlds(rng, draws):
        total += count
        phi, p, views, g = world.tensors()
        limit = ki.limit(phi, p, views, g).numpy()
        exact = world.inter() - world.intra()
        errors.append(relative(limit, exact))
        broken["V[g] for V[E[g | x0]]"].append(relative(ki.inter_limit(phi, p, views, g), exact))
        broken["views not independent"].append(
            relative(world.inter() - world.intra(tied=True), exact)
        )
        # Of the double sums: the library's limit, a sum of squares, could be nothing else.
        values = np.linalg.eigvalsh(exact)
        low.append(-values[:, 0] / values[:, -1])
        world.phi = rng.standard_normal((count, 6, 2))
        world.K = np.einsum("bil,bjl->bij", world.phi, world.phi)
        values = np.linalg.eigvalsh(world.inter() - world.intra())
        signed.append(-values[:, 0] / np.abs(values).max(-1))
    control = {name: float(np.median(np.concatenate(v))) for name, v in broken.items()}
    yield check(
        worst(*errors),
        1e-11,
        control,
        draws=total,
        part="the limit",
        note=r"Against the mean of one term of Eq. 3 with $i\ne j$, an exact sum.",
    )
    yield check(
        worst(*low),
        1e-12,
        {"features of both signs": float(np.median(np.concatenate(signed)))},
        draws=total,
        part="PSD",
        note=r"Minus the least eigenvalue over the largest. What this needs is $\alpha_{ij}\ge0$.",
    )
    sizes, repeats, slopes, far = (32, 128, 512), 40, [], []
    for k, kind in enumerate(KINDS):
        world = World(rng, 1, kind)
        key = random.key(int(rng.integers(2**40)) + k)
        phi, p, views, g = world.tensors()
        limit = ki.limit(phi, p, views, g).numpy()
        wrong = ki.inter_limit(phi, p, views, g).numpy()
        found = list(_sizes(key, world, sizes, repeats))
        for target, out in ((limit, slopes), (wrong, far)):
            rms = [np.sqrt(((c - target) ** 2).mean()) for c in found]
            out.append(np.polyfit(np.log(sizes), np.log(rms), 1)[0])
    yield check(
        float(abs(np.mean(slopes) + 0.5)),
        0.2,
        {"limit V[g]": float(abs(np.mean(far) + 0.5))},
        draws=repeats * len(sizes) * len(KINDS),
        part="convergence",
        note=r"Distance from $-1/2$ of the slope of log error over $\log N$, N = 32 to 512: errors "
        r"fall as $N^{-1/2}$.",
    )


def eq32(draws: int, seed: int) -> Iterator[Check]:
    """C^inter in the limit: the double sum, Eq. 31 by loops over l, Eq. 32 by the library.

    Controls: z_l for z_l^2, the views' variance left out.
    """
    rng = ref.generator("nl eq32", seed)
    errors, middle, single, bare, total = [], [], [], [], 0
    for count, world in worlds(rng, draws):
        total += count
        exact = world.inter()
        phi, p, views, g = world.tensors()
        ours = ki.inter_limit(phi, p, views, g)
        errors.append(relative(ours, exact))
        bare.append(relative(ki.limit(phi, p, views, g), exact))
        for power, out in ((2, middle), (1, single)):
            eq31 = np.zeros_like(exact)
            for k in range(world.phi.shape[-1]):
                mass = world.phi[..., k] * world.p
                z = mass.sum(-1)
                law = mass / np.where(z > 0, z, 1)[:, None]
                joint = law[:, :, None] * world.views
                mean = np.einsum("bia,biaq->bq", joint, world.g)
                square = np.einsum("bia,biaq,biar->bqr", joint, world.g, world.g)
                part = square - mean[:, :, None] * mean[:, None, :]
                eq31 += (z**power)[:, None, None] * part
            out.append(relative(eq31, exact))
    yield Check(
        "nl/eq32",
        worst(*errors, *middle),
        1e-11,
        {
            "z_l for z_l^2": typical(*[s for s in single[1:]]),
            "variance of the mean only": typical(*bare),
        },
        draws=total,
    )


def eq41(draws: int, seed: int) -> Iterator[Check]:
    """Row sums, pairs of views and C^intra in the limit, by loops; then Eq. 32 less Eq. 41.

    Controls: z_l left out, no factor 2, one view twice, sum for difference.
    """
    check = partial(Check, "nl/eq41")
    rng = ref.generator("nl eq41", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    total = 0
    for count, world in worlds(rng, draws):
        total += count
        phi, p, views, g = world.tensors()
        z, _ = ki.adjusted(phi, p)
        rows = np.stack([(world.K[:, i] * world.p).sum(-1) for i in range(6)], -1)
        found["rows"].append(relative(np.einsum("bl,bil->bi", z, world.phi), rows))
        found["no z"].append(relative(world.phi.sum(-1), rows))
        pairs = np.zeros((count, 6, 3, 3))
        same = np.zeros_like(pairs)
        for a, b in product(range(3), repeat=2):
            gap = world.g[:, :, a] - world.g[:, :, b]
            mass = world.views[:, :, a] * world.views[:, :, b]
            pairs += mass[..., None, None] * gap[..., :, None] * gap[..., None, :]
        for a in range(3):
            mean = (world.views[..., None] * world.g).sum(-2)
            gap = world.g[:, :, a] - mean
            same += world.views[:, :, a, None, None] * gap[..., :, None] * gap[..., None, :]
        found["views"].append(relative(2 * same, pairs))
        found["no 2"].append(relative(same, pairs))
        exact = world.intra()
        ours = ki.intra_limit(phi, p, views, g).numpy()
        found["intra"].append(relative(ours, exact))
        found["tied"].append(relative(world.intra(tied=True), exact))
        limit = ki.limit(phi, p, views, g)
        inter = ki.inter_limit(phi, p, views, g).numpy()
        found["total"].append(relative(inter - ours, limit))
        found["sum"].append(relative(inter + ours, limit))
    for part, name, broken, label in (
        ("row sums, Eqs. 33 and 34", "rows", "no z", "z_l left out"),
        ("pairs of views, Eqs. 36 to 39", "views", "no 2", "no factor 2"),
        ("Eq. 41", "intra", "tied", "one view twice"),
        ("law of total variance, Eq. 42", "total", "sum", "sum for difference"),
    ):
        control = {label: float(np.median(np.concatenate(found[broken][1:])))}
        yield check(worst(*found[name]), 1e-11, control, part=part, draws=total)


def cor1(draws: int, seed: int) -> Iterator[Check]:
    """One view a sample: the double sum against sum_l z_l^2 V_{p~_l}[g]; alpha = 1: V[g].

    Controls: the unweighted variance, z_l for z_l^2; the second moment.
    """
    check = partial(Check, "nl/cor1")
    rng = ref.generator("nl cor1", seed)
    errors, plain, uniform, moment, total = [], [], [], [], 0
    for count, world in worlds(rng, draws, views=1):
        total += count
        exact = world.inter()
        ours = ki.limit(*world.tensors())
        errors.append(relative(ours, exact))
        point = world.g[:, :, 0]
        variance = np.stack(
            [np.cov(v.T, aweights=m, bias=True) for v, m in zip(point, world.p, strict=True)]
        )
        if world.phi.shape[-1] > 1:
            plain.append(relative(variance, exact))
        else:
            uniform.append(relative(ours, variance))
            square = np.einsum("bi,biq,bir->bqr", world.p, point, point)
            moment.append(relative(square, variance))
    yield check(
        worst(*errors),
        1e-11,
        {"V[g] of the data": typical(*plain)},
        draws=total,
        part="kernel",
    )
    yield check(
        worst(*uniform),
        1e-11,
        {"not centred": typical(*moment)},
        draws=total // len(KINDS),
        part="uniform importance",
    )
