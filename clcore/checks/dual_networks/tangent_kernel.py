"""Tangent kernel and covariance operator side by side (ddn Sec. 4.1)."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from clcore import reference as ref
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.inside import trained
from clcore.checks.dual_networks.layers import views_of
from clcore.ledger import Check
from clcore.reference import Array, relative, typical, worst
from clcore.theory.operator import covariance_operator as co


def _tangent(rng: np.random.Generator, x: Array, width: int) -> Array:
    """Gradients of f by all weights, [draws, N, parameters], of a net d-width-1, normal weights."""
    count, _, d = x.shape
    w, a = rng.standard_normal((count, width, d)), rng.standard_normal((count, 1, width))
    u = x @ w.swapaxes(-1, -2)
    first = (a * (u > 0))[..., None] * x[..., None, :]
    return np.concatenate([first.reshape(*x.shape[:2], -1), u * (u > 0)], -1) / np.sqrt(width)


def _deficit(J: Array) -> Array:
    """N less the numerical rank of the kernel J J^T, [draws]."""
    s = np.linalg.svd(J, compute_uv=False)
    return J.shape[1] - (s > 1e-9 * s[:, :1]).sum(-1)


def _kernel_change(rng: np.random.Generator, width: int, count: int, lazy: bool) -> Array:
    """Relative change of a kernel of ten samples over 60 steps of regression, [count].

    lazy: f = a relu(W x) / sqrt(width); otherwise the mean-field scale 1 / width, in its own time.
    """
    x = rng.standard_normal((count, 10, 4)) / 2
    y, w = rng.standard_normal((count, 10)), rng.standard_normal((count, width, 4))
    a = rng.standard_normal((count, width))
    scale = width**-0.5 if lazy else 1 / width
    rate = 0.05 if lazy else 0.05 * width

    def kernel(w: Array, a: Array) -> Array:
        u = x @ w.swapaxes(-1, -2)
        gate, h = (u > 0) * a[:, None], u * (u > 0)
        inner = x @ x.swapaxes(-1, -2)
        return inner * (gate @ gate.swapaxes(-1, -2)) + h @ h.swapaxes(-1, -2)

    first = kernel(w, a)
    for _ in range(60):
        u = x @ w.swapaxes(-1, -2)
        h = u * (u > 0)
        error = scale * (h @ a[..., None])[..., 0] - y
        back = ((u > 0) * a[:, None] * error[..., None]).swapaxes(-1, -2) @ x
        w, a = w - rate * scale * back, a - rate * scale * (error[:, None] @ h)[:, 0]
    gap = np.linalg.norm(kernel(w, a) - first, axis=(1, 2))
    return gap / np.linalg.norm(first, axis=(1, 2))


def _rank(check: partial, rng: np.random.Generator, count: int) -> Iterator[Check]:
    """N less the rank of the kernel of 20 samples in R^5, without biases, as printed, and with."""
    x = rng.standard_normal((count, 20, 5))
    parallel, opposite, twice = x.copy(), x.copy(), x.copy()
    parallel[:, 1] = 2 * parallel[:, 0]
    opposite[:, 10:] = -opposite[:, :10]
    twice[:, 1] = twice[:, 0]

    def deficit(v: Array, bias: bool, width: int = 120) -> Array:
        v = np.concatenate([v, np.ones_like(v[..., :1])], -1) if bias else v
        return _deficit(_tangent(rng, v, width))

    bare = {"x and 2x": deficit(parallel, False), "opposite pairs": deficit(opposite, False)}
    general = deficit(x, False)
    common = {"draws": 3 * count}
    yield check(
        worst(general),
        0.0,
        {
            "a sample twice": ref.best(deficit(twice, False)),
            "width 2": ref.best(deficit(x, False, 2)),
            **{f"no biases, {name}": ref.best(gap) for name, gap in bare.items()},
        },
        part="full rank",
        note="N less the rank; random distinct samples, wide two-layer nets without biases, as the "
        r"paper's are. Fails where samples are parallel and there are no biases: $f(2x)=2f(x)$ for "
        r"all weights, so the kernel of $x$, $2x$ has rank 1; ten opposite pairs in $\mathbb R^5$ "
        r"lack rank too, for in two layers $\nabla f(x)-\nabla f(-x)$ is linear in $x$.",
        **common,
    )
    yield check(
        worst(*(deficit(v, True) for v in (x, parallel, opposite))),
        0.0,
        {
            "a sample twice": ref.best(deficit(twice, True)),
            "width 2": ref.best(deficit(x, True, 2)),
        },
        part="full rank, with biases",
        note="Any distinct samples, parallel and opposite ones too; two layers, as in Jacot et al.",
        **common,
    )


WIDTHS = (64, 256, 1024)


def rem4(draws: int, seed: int) -> Iterator[Check]:
    """Tangent kernel and covariance operator side by side: rank, size, movement, augmentation.

    Controls: narrow nets, no biases, the kernel's own size, mean-field scaling, the kernel under
    new views. That wide nets lead to a convex landscape is not measured.
    """
    check = partial(Check, "ddn/rem4")
    rng = ref.generator("rem4", seed)
    count = min(draws, 20)
    yield from _rank(check, rng, count)
    sizes, kernels = [], []
    for samples in (10, 50, 200):
        world = dw.world(rng, 1, 4, samples=samples, views=2)
        layers = dw.weights(rng, 1, (4, 5, 2))
        op = co.between(views_of(layers, world, 1), world)
        J = _tangent(rng, rng.standard_normal((1, samples, 4)), 5)
        sizes.append(abs(op.shape[-1] - 20))
        kernels.append(abs((J @ J.swapaxes(-1, -2)).shape[-1] - 20))
    yield check(
        max(sizes),
        0,
        {"kernel": min(kernels)},
        draws=3,
        part="size",
        note="Rows of the operator less n_l n_{l-1}, for 10, 50 and 200 samples.",
    )
    path = trained(rng, min(draws, 4), 50)
    moved = [
        np.linalg.norm(a - b, axis=(1, 2)) for a, b in zip(path["start"], path["end"], strict=True)
    ]
    yield check(
        worst(*path["least"]),
        1e-12,
        {"beta = 1": typical(np.concatenate(path["beta = 1"]))},
        draws=len(path["least"]),
        part="PSD while it moves",
        note=f"Median relative change over 50 steps: {np.median(np.concatenate(moved)):.2g}.",
    )
    world, layers = dw.world(rng, count, 4), dw.weights(rng, count, (4, 5, 2))
    views = world.samples.unsqueeze(-2) + 0.5 * (world.views - world.samples.unsqueeze(-2))
    other = co.World(world.samples, world.chances, views, world.view_chances)
    ops = [co.between(views_of(layers, w, 1), w).numpy() for w in (world, other)]
    plain = [
        np.concatenate(
            [dw.connection(layers, k, dw.parts(w)[0])[:, :, 0, :, 0] for k in (1, 2)], -1
        )
        for w in (world, other)
    ]
    gram = [J @ J.swapaxes(-1, -2) for J in plain]
    yield check(
        typical(relative(*ops)),
        0.05,
        {"kernel": typical(relative(*gram))},
        relation=">=",
        draws=count,
        part="augmentation",
        note="Median relative change when every view moves half-way to its sample.",
    )
    some = min(draws, 8)
    rates = {
        lazy: [np.median(_kernel_change(rng, m, some, lazy)) for m in WIDTHS]
        for lazy in (True, False)
    }
    slope = {k: float(np.polyfit(np.log(WIDTHS), np.log(v), 1)[0]) for k, v in rates.items()}
    yield check(
        slope[True],
        -0.3,
        {"mean-field scaling": slope[False]},
        draws=some * len(WIDTHS),
        part="kernel of wide nets",
        note="Slope of the kernel's relative change against the width, in logarithms. That the "
        "landscape of wide nets is convex is not tested.",
    )
