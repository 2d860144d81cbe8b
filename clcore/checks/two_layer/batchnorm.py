"""BatchNorm behind receptive fields, no gradient through the deviation (nl App. D).

torch's own BatchNorm, autograd, complex steps and enumeration meet
`clcore.theory.two_layer.two_layer`.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.two_layer.dynamics import activate, batch
from clcore.checks.two_layer.latent import enumerated, inputs, middle, net_of
from clcore.checks.two_layer.top import Pair, closed_form, outputs, pair_of, pull_of, velocity
from clcore.ledger import Check
from clcore.reference import Array, relative, tensors, typical, worst
from clcore.theory.one_layer import one_layer
from clcore.theory.two_layer import field_latent, two_layer


def _views(x: Array, x2: Array) -> torch.Tensor:
    """Both views of a batch, [draws, 2n, K, d]."""
    return torch.from_numpy(np.concatenate([x, x2], 1))


def _masses(points: torch.Tensor) -> torch.Tensor:
    return torch.full(points.shape[:2], 1 / points.shape[1], dtype=points.dtype)


def eq164(draws: int, seed: int) -> Iterator[Check]:
    """Statistics and output against torch's BatchNorm in training, and their limits.

    Controls: the unbiased deviation; V of inputs without gates; the moments given one z.
    """
    check = partial(Check, "nl/eq164")
    rng = ref.generator("eq164", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    x, x2, _, W, _ = batch(rng, draws, 2, 2, 3, n=16)
    points, w = _views(x, x2), torch.from_numpy(W)
    p = _masses(points)
    f = two_layer.hidden(points, w, "relu")
    ours = two_layer.batch_norm(f, p)
    torchs = torch.stack(
        [torch.nn.functional.batch_norm(v, None, None, training=True, eps=1e-30) for v in f]
    )
    found["bn"].append(relative(ours, torchs))
    size = points.shape[1]
    found["bn, unbiased"].append(relative(ours * ((size - 1) / size) ** 0.5, torchs))
    _, deviation = two_layer.statistics(f, p)
    world = one_layer.World(points, p)
    for name, g in (
        ("V", two_layer.gated(points, w)),
        ("V, no gates", two_layer.gated(points, w, "linear")),
    ):
        C = one_layer.covariance(world, g.flatten(-3)).unflatten(-1, (4, 3))
        blocks = C.unflatten(-3, (4, 3)).diagonal(dim1=-4, dim2=-2)  # i, j, filter
        variance = torch.einsum("bqi,bijq,bqj->bq", w.flatten(1, 2), blocks, w.flatten(1, 2))
        found[name].append(relative(variance, deviation**2))
    yield check(
        worst(*found["bn"]),
        1e-12,
        {"unbiased deviation": typical(*found["bn, unbiased"])},
        draws=draws,
        part="Eqs. 164, 165",
        note="No affine part, nothing added in the denominator.",
    )
    yield check(
        worst(*found["V"]),
        1e-11,
        {"inputs without gates": typical(*found["V, no gates"])},
        draws=draws,
        part="sigma^2 is w^T V w",
        note="At every batch size, with the batch's own V.",
    )
    count, size = min(draws, 6), 20_000
    model, W = net_of(rng, count, 2, 2, 1)
    law, f = inputs(model, W, "relu")[0], []
    for i in range(count):
        index = rng.choice(law.p.shape[1], size, p=law.p[i].numpy() / law.p[i].sum().item())
        f.append(two_layer.hidden(law.x[i, index], torch.from_numpy(W[i])))
    f = torch.stack(f)
    mean, deviation = two_layer.statistics(f, torch.ones_like(f[..., 0]))
    exact_mean, exact = two_layer.statistics(two_layer.hidden(law.x, torch.from_numpy(W)), law.p)
    gap = f - exact_mean[:, None]
    fourth = ((gap**4).mean(1) - exact**4).clamp(min=1e-9)
    off = (deviation**2 - exact**2).abs() / (fourth / size).sqrt()
    away = (mean - exact_mean).abs() / (exact.clamp(min=1e-9) / size**0.5)
    twice = (deviation**2 - 2 * exact**2).abs() / (fourth / size).sqrt()
    yield check(
        worst(off.numpy(), away.numpy()),
        7.0,
        {"twice the variance": float(twice.median())},
        draws=count,
        part="large batches",
        note=f"Standard errors at {size} samples.",
    )


def _jacobian(f, W: torch.Tensor) -> torch.Tensor:
    """Per-sample Jacobian of f(W) [draws, n, q] by autograd, [draws, n, q, *W.shape[1:]]."""
    rows = torch.autograd.functional.jacobian(lambda w: f(w).sum(0), W, vectorize=True)
    return rows.movedim(2, 0)


def _parts(draws: int, rng: np.random.Generator):
    """Views, W with M = 1, and the pieces of Eq. 170 from closed forms."""
    x, x2, alpha, W, V = batch(rng, draws, 2, 1, 3, n=8)
    points, w = _views(x, x2), torch.from_numpy(W)
    p = _masses(points)
    f = two_layer.hidden(points, w)
    tilde = two_layer.gated(points, w)[:, :, :, 0]  # draws, 2n, K, d
    mean, deviation = two_layer.statistics(f, p)
    slope_mean = tilde.mean(1)
    gap = f - mean[:, None]
    slope_deviation = (gap[..., None] * (tilde - slope_mean[:, None])).mean(1) / deviation[
        ..., None
    ]
    first = (tilde - slope_mean[:, None]) / deviation[:, None, :, None]
    last = (gap / deviation[:, None])[..., None] * (slope_deviation / deviation[..., None])[:, None]
    return points, w, p, f, tilde, first, last, alpha, torch.from_numpy(V)


def _own(jacobian: torch.Tensor) -> torch.Tensor:
    """Entries of field k's output by field k's filter: [draws, 2n, K, d]."""
    return jacobian[..., 0, :].diagonal(dim1=2, dim2=3).movedim(-1, 2)


def def5(draws: int, seed: int) -> Iterator[Check]:
    """Gradient through the mean only: same output, Eq. 170 without its last term (autograd).

    Controls: gradient through the deviation too; another output.
    """
    check = partial(Check, "nl/def5")
    points, w, p, f, _, first, last, _, _ = _parts(draws, ref.generator("def5", seed))
    torchs = torch.stack(
        [torch.nn.functional.batch_norm(v, None, None, training=True, eps=1e-30) for v in f]
    )
    yield check(
        worst(relative(two_layer.batch_norm(f, p), torchs)),
        1e-12,
        {"not centred": typical(relative(two_layer.batch_norm(f, p) + f, torchs))},
        draws=draws,
        part="output",
        note="A definition: nothing can fail but our code; tested is that.",
    )
    found = _own(_jacobian(lambda v: two_layer.batch_norm(two_layer.hidden(points, v), p), w))
    yield check(
        worst(relative(first, found)),
        1e-10,
        {"through the deviation too": typical(relative(first - last, found))},
        draws=draws,
        part="gradient",
    )


def eq170(draws: int, seed: int) -> Iterator[Check]:
    """The full Jacobian by autograd, and what is constant over the batch.

    Controls: a sign; no last term; things that vary over the batch; gradient through sigma.
    """
    check = partial(Check, "nl/eq170")
    rng = ref.generator("eq170", seed)
    points, w, p, f, tilde, first, last, alpha, V = _parts(draws, rng)

    def full(v: torch.Tensor) -> torch.Tensor:
        return two_layer.batch_norm(two_layer.hidden(points, v), p, True, True)

    found = _own(_jacobian(full, w))
    yield check(
        worst(relative(first - last, found)),
        1e-10,
        {
            "last term with a plus": typical(relative(first + last, found)),
            "without it": typical(relative(first, found)),
        },
        draws=draws,
        part="Eq. 170",
    )
    slopes = _jacobian(
        lambda v: two_layer.statistics(two_layer.hidden(points, v), p)[0][:, None], w
    )
    yield check(
        worst(relative(tilde.mean(1), _own(slopes)[:, 0])),
        1e-11,
        {"one view": typical(relative(tilde[:, :8].mean(1), _own(slopes)[:, 0]))},
        draws=draws,
        part="Eq. 171",
    )
    a = torch.from_numpy(alpha)
    pairs = two_layer.of_views(a, points[:, :8], points[:, 8:])
    constant = tilde.mean(1, keepdim=True).expand_as(tilde)
    ratio = two_layer.statistics(f, p)[0] / two_layer.statistics(f, p)[1]
    mixed = torch.cat([f, constant.flatten(2), ratio[:, None].expand_as(f)], -1)
    C = one_layer.covariance(pairs, mixed)[:, :, f.shape[-1] :]
    moving = one_layer.covariance(pairs, torch.cat([f, tilde.flatten(2)], -1))
    yield check(
        worst(C.abs().numpy()),
        1e-13,
        {"gated inputs themselves": typical(moving[:, :2, 2:].abs().amax((1, 2)).numpy())},
        draws=draws,
        part="covariance with constants",
    )

    def slope(through_mean: bool, through_deviation: bool) -> torch.Tensor:
        v = w.clone().requires_grad_()
        z = two_layer.batch_norm(two_layer.hidden(points, v), p, through_mean, through_deviation)
        C = one_layer.covariance(pairs, z @ V.mT)
        return torch.autograd.grad(C.diagonal(dim1=-2, dim2=-1).sum(), v)[0]

    yield check(
        worst(relative(slope(False, False), slope(True, False))),
        1e-11,
        {"through the deviation too": typical(relative(slope(True, True), slope(True, False)))},
        draws=draws,
        part="consequence",
        note="Whether gradients pass the mean makes no difference to the energy.",
    )


def _outputs(W: Array, points: Array, kind: str, sigma: Array | float | None) -> Array:
    """(f - mu) / sigma, [..., 2n, K*M]; sigma of the batch itself where None."""
    u = np.einsum("...nkd,...kmd->...nkm", points, W)
    f = activate(u, kind).reshape(*u.shape[:-2], -1)
    gap = f - f.mean(-2, keepdims=True)
    return gap / (np.sqrt((gap * gap).mean(-2, keepdims=True)) if sigma is None else sigma)


def _loss(alpha: Array, points: Array, kind: str, sigma: Array | None, V: Array, W: Array) -> Array:
    """1/2 tr C_alpha[V f^bn] by loops over pairs."""
    z, n = _outputs(W, points, kind, sigma) @ np.swapaxes(V, -1, -2), alpha.shape[-1]
    a, a2 = z[..., :n, :], z[..., n:, :]
    return np.trace(ref.covariance(alpha, a, a2, a, a2), axis1=-2, axis2=-1) / (4 * n**2)


def _loss_of_V(alpha: Array, points: Array, kind: str, sigma: Array, W: Array, V: Array) -> Array:
    return _loss(alpha, points, kind, sigma, V, W)


def lem6(draws: int, seed: int) -> Iterator[Check]:
    """Both velocities against complex-step gradients with sigma held fixed, random alpha.

    Controls: sigma not held; no BatchNorm.
    """
    check = partial(Check, "nl/lem6")
    rng = ref.generator("lem6", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    kinds = ("relu", "leaky_relu")
    count = ref.share(draws, len(kinds))
    for kind in kinds:
        x, x2, alpha, W, V = batch(rng, count, 2, 2, 3, n=8)
        points = np.concatenate([x, x2], 1)

        sigma = _outputs(W, points, kind, 1.0).std(1, keepdims=True)
        loss = partial(_loss, alpha, points, kind)
        held = ref.gradient(partial(loss, sigma, V), W)
        whole = ref.gradient(partial(loss, None, V), W)
        top = ref.gradient(partial(_loss_of_V, alpha, points, kind, sigma, W), V)
        a, b, b2, w, v = tensors(alpha, x, x2, W, V)
        world = two_layer.of_views(a, b, b2)
        ours = two_layer.normalised_flow(world, w, v, kind)
        plain = two_layer.flow(world, w, v, kind)
        found["W"].append(relative(ours.W, held))
        found["W, sigma"].append(relative(ours.W, whole))
        found["W, plain"].append(relative(plain.W, held))
        found["V"].append(relative(ours.V, top))
        found["V, plain"].append(relative(plain.V, top))
    total = count * len(kinds)
    yield check(
        worst(*found["V"]),
        1e-10,
        {"no BatchNorm": typical(*found["V, plain"])},
        draws=total,
        part="V",
    )
    yield check(
        worst(*found["W"]),
        1e-10,
        {
            "gradient through sigma": typical(*found["W, sigma"]),
            "no BatchNorm": typical(*found["W, plain"]),
        },
        draws=total,
        part="W",
        note="Printed, and checked, without the projection.",
    )


# -------------------------------------------------------------------------------- Corollary 3


def normalised(pair: Pair) -> tuple[Pair, torch.Tensor]:
    """The quantities of Corollary 3 in place of Theorem 5's, and sigma, from Lemma 5."""
    sigma = (pair.d + pair.scale[:, None] * pair.b**2).sqrt()
    return (
        pair._replace(
            d=pair.d / sigma**2,
            b=pair.b / sigma,
            L=pair.L / sigma[..., None, None] ** 2,
            delta=pair.delta / sigma[..., None],
        ),
        sigma,
    )


def _scaled(model: field_latent.Model, W: Array, deviation: Array):
    """The enumerated law of gated inputs over sigma."""
    law = enumerated(model, W, "relu")
    size = np.repeat(deviation, W.shape[-1], -1)
    covariance = law.covariance / (size[:, :, None] * size[:, None])
    return law._replace(covariance=covariance)


def cor3(draws: int, seed: int) -> Iterator[Check]:
    """Lemma 6's velocity with enumerated covariances and numpy's s against the closed forms.

    Controls: d_k without sigma^-2; no modulation; minus the rank-one term.
    """
    check = partial(Check, "nl/cor3")
    rng = ref.generator("cor3", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    for K in (2, 3, 4):
        model, W = net_of(rng, ref.share(draws, 3), 2, K, 1)
        pair = pair_of(model, W, "relu")
        deviation = np.sqrt(np.diagonal(outputs(pair.law, W), axis1=1, axis2=2))
        law = _scaled(model, W, deviation)
        bn, _ = normalised(pair)
        V = outputs(law, W)
        values, vectors = np.linalg.eigh(V)
        s = vectors[..., -1]
        top = two_layer.top_of_rank_one(bn.d, bn.b, bn.scale)
        delta = two_layer.modulation(top, bn.b, bn.scale)
        w = torch.from_numpy(W)[:, :, 0]
        level = bn.d.numpy().max(-1)
        found["top"].append(values[:, -1] - level)
        rank_one = bn.scale[:, None, None] * bn.b[:, :, None] * bn.b[:, None]
        found["top, minus"].append(
            np.linalg.eigvalsh((torch.diag_embed(bn.d) - rank_one).numpy())[:, -1] - level
        )
        for name, vector in (
            ("s", bn.b.numpy() / (values[:, -1:] - bn.d.numpy())),
            ("s, d", pair.b.numpy() / (values[:, -1:] - pair.d.numpy())),
        ):
            v = vector / np.linalg.norm(vector, axis=-1, keepdims=True)
            found[name].append(np.minimum(np.abs(v - s).max(-1), np.abs(v + s).max(-1)))
        direct = velocity(law, W, s)  # Lemma 6 before any projection
        found["w"].append(relative(closed_form(bn, top, delta, w), direct))
        found["w, zero"].append(relative(closed_form(bn, top, 0 * delta, w), direct))
        found["w, plain"].append(relative(closed_form(pair, top, delta, w), direct))
        for name, vector in (("sign", s), ("sign, bottom", vectors[..., 0])):
            found[name].append(pull_of(vector, bn.b.numpy(), bn.scale.numpy()).min(-1))
    total = 3 * ref.share(draws, 3)
    yield check(
        ref.best(*found["top"]),
        -1e-12,
        {"minus the rank-one term": middle(*found["top, minus"])},
        draws=total,
        part="(1) top eigenvalue",
        relation=">=",
    )
    yield check(
        worst(*found["s"]),
        1e-7,
        {r"$d_k,\Delta_k$ as without BatchNorm": middle(*found["s, d"])},
        draws=total,
        part="(2) its eigenvector",
    )
    yield check(
        worst(*found["w"]),
        1e-7,
        {
            r"$\delta_k^{bn}=0$": middle(*found["w, zero"]),
            r"$A_k,\Delta_k$ as without BatchNorm": middle(*found["w, plain"]),
        },
        draws=total,
        part="(3) dynamics",
        note="Without the projection, as in Lemma 6.",
    )
    yield check(
        ref.best(*found["sign"]),
        0.0,
        {"the bottom eigenvector": typical(*found["sign, bottom"])},
        draws=total,
        part="(3) not negative",
        relation=">=",
    )
