"""Tangent kernel and covariance operator side by side (ddn Sec. 4.1)."""

import numpy as np

from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.layers import Layer
from clcore.checks.dual_networks.operator.inside import training
from clcore.ledger import Trial, check, pooled
from clcore.reference import Array, relative
from clcore.theory.operator import covariance_operator as co


def _tangent(rng: np.random.Generator, x: Array, width: int, at_zero: bool = False) -> Array:
    """Gradients of f by all weights, [draws, N, parameters], of a net d-width-1, normal weights;
    at_zero: those of the last input are 0, as biases often are at the start."""
    count, _, d = x.shape
    w, a = rng.standard_normal((count, width, d)), rng.standard_normal((count, 1, width))
    if at_zero:
        w[..., -1] = 0
    u = x @ w.swapaxes(-1, -2)
    first = (a * (u > 0))[..., None] * x[..., None, :]
    return np.concatenate([first.reshape(*x.shape[:2], -1), u * (u > 0)], -1) / np.sqrt(width)


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


def _rank(t: Trial, count: int) -> None:
    """N minus the rank of the kernel of 20 samples in R^5, without biases, as printed, and with."""
    x = t.rng.standard_normal((count, 20, 5))
    parallel, opposite, twice, ray = (x.copy() for _ in range(4))
    parallel[:, 1] = 2 * parallel[:, 0]
    ray[:, 1], ray[:, 2] = 2 * ray[:, 0], 3 * ray[:, 0]
    opposite[:, 10:] = -opposite[:, :10]
    twice[:, 1] = twice[:, 0]

    def deficit(v: Array, bias: bool, width: int = 120, at_zero: bool = False) -> Array:
        v = np.concatenate([v, np.ones_like(v[..., :1])], -1) if bias else v
        s = np.linalg.svd(_tangent(t.rng, v, width, at_zero), compute_uv=False)
        return v.shape[1] - (s > 1e-9 * s[:, :1]).sum(-1)

    # Distinct samples, as printed: a parallel pair lacks a rank without biases, none with random
    # ones.
    printed, mended = (form("full rank", 0.0) for form in (t.part, t.corrected))
    printed.add(deficit(parallel, False)).fails_by(np.ones(count))  # f(2x) = 2 f(x) for all weights
    mended.add(*(deficit(v, True) for v in (x, parallel, opposite, ray)))
    mended.breaks("no biases, x and 2x", deficit(parallel, False))
    mended.breaks("no biases, opposite pairs", deficit(opposite, False))
    mended.breaks("biases of 0, x, 2x and 3x", deficit(ray, True, at_zero=True))
    for part in (printed, mended):
        part.breaks("a sample twice", deficit(twice, True))
        part.breaks("width 2", deficit(x, True, 2))

    # Random samples.
    bare = t.part("full rank, random samples, no biases", 0.0).add(deficit(x, False))
    bare.breaks("a sample twice", deficit(twice, False))
    bare.breaks("width 2", deficit(x, False, 2))


WIDTHS = (64, 256, 1024)
SAMPLES = (10, 50, 200)


@check("ddn/rem4")
def rem4(t: Trial) -> None:
    """The covariance operator compared with the neural tangent kernel (Sec. 4.1).

    Given   two-layer ReLU nets, of width 64 to 1024 for the kernel, of width 5 for the operator
            (layer 1); three layers for the operator's movement.
    Claim   The kernel has full rank if samples are distinct, hardly moves in wide nets and ignores
            augmentation; the operator's norm does not grow with the samples, it stays positive
            semi-definite while it moves, and it depends on the views.
    Fails   the rank for parallel samples where nets have no biases, as those of Sec. 3; corrected:
            wide nets with random biases. Controls: the rank for a sample twice, at width 2 and for
            biases of 0; the kernel in the operator's place, whose norm grows and which no view
            enters; the operator of beta = 1; mean-field scaling, where a wide net's kernel moves.

    That wide nets lead to a convex landscape is not measured.
    """
    count = min(t.draws, 20)
    _rank(t, count)

    # The operator's norm does not grow with the samples: its log against that of their number has
    # no slope upwards.
    net, norms = dw.weights(t.rng, count, (4, 5, 2)), []
    for samples in SAMPLES:
        world = dw.world(t.rng, count, 4, samples=samples)
        both = Layer(world, net, 1).between.numpy(), _gram(net, dw.parts(world)[0])
        norms.append([np.median(np.linalg.norm(m, axis=(1, 2))) for m in both])
    own, other = np.polyfit(np.log(SAMPLES), np.log(norms), 1)[0]
    size = t.part("size", 0.5, draws=count * len(SAMPLES)).add(own).breaks("kernel", other)
    size.says(kernel=other)

    # It stays PSD while it moves: three layers under L_simp.
    steps, ops = 50, []
    psd = t.part(
        "positive semi-definite while it moves", 1e-12, controls=pooled, draws=3 * (steps + 1)
    )
    for now in training(t.rng, min(t.draws, 4), steps):
        psd.add(*(step.negative() for step in now))
        psd.breaks("beta = 1", *(step.negative(1.0) for step in now))
        ops.append([s.at.between.numpy() / s.values[:, -1, None, None] for s in now])
    moved = [np.linalg.norm(a - b, axis=(1, 2)) for a, b in zip(ops[0], ops[-1], strict=True)]
    psd.says(moved=np.median(np.concatenate(moved)))

    # It depends on the views: its change when their spread about the samples is halved.
    world, weights = dw.world(t.rng, count, 4), dw.weights(t.rng, count, (4, 5, 2))
    views = world.samples.unsqueeze(-2) + 0.5 * (world.views - world.samples.unsqueeze(-2))
    other = co.World(world.samples, world.chances, views, world.view_chances)
    changes = t.part("augmentation", 0.05, ">=", measured=pooled, controls=pooled)
    own, moved = (Layer(w, weights, 1).between for w in (world, other))
    changes.add(relative(own, moved))
    own, moved = (_gram(weights, dw.parts(w)[0]) for w in (world, other))
    changes.breaks("kernel", relative(own, moved))

    # The kernel hardly moves in wide nets: log change against log width has a negative slope.
    some = min(t.draws, 8)
    wide = t.part("kernel of wide nets", -0.3, draws=some * len(WIDTHS))
    lazy, mean_field = (
        [np.median(_kernel_change(t.rng, m, some, scaled)) for m in WIDTHS]
        for scaled in (True, False)
    )
    wide.add(np.polyfit(np.log(WIDTHS), np.log(lazy), 1)[0])
    wide.breaks("mean-field scaling", np.polyfit(np.log(WIDTHS), np.log(mean_field), 1)[0])


def _gram(layers: list[Array], x: Array) -> Array:
    """J J^T, [draws, S, S], of the first output of two layers."""
    each = [dw.connection(layers, k, x)[:, :, 0, :, 0] for k in (1, 2)]
    J = np.concatenate(each, -1)
    return J @ J.swapaxes(-1, -2)
