"""What linear filters of one receptive field can learn (nl Theorem 4, App. C.4).

Complex-step gradients and loops over filters meet `clcore.two_layer`.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from .. import field_latent, one_layer, random, two_layer
from ..ledger import Check
from . import reference as ref
from .nl_two_dynamics import batch, of_W, project, unit
from .reference import Array, relative, tensors, typical, worst


def _linear_case(rng: np.random.Generator, draws: int, K: int, M: int, d: int, rank: int | None):
    """C_alpha[x] of all inputs (of a rank), a unit s with positive entries of different size."""
    root = rng.standard_normal((draws, K * d, rank or K * d))
    C = root @ np.swapaxes(root, 1, 2) / root.shape[-1]
    s = unit(rng.uniform(0.2, 1, (draws, K * M)))
    return C, s


def _critical(rng: np.random.Generator, C: Array, s: Array, K: int, M: int) -> Array:
    """Distinct filters with C [sum_m s_km w_km] = 0: the last filter of a field makes up for it."""
    draws, size = C.shape[:2]
    values, vectors = np.linalg.eigh(C)
    null = (values < 1e-10 * values[:, -1:]) * rng.standard_normal((draws, size))
    u = (vectors @ null[..., None])[..., 0].reshape(draws, K, -1)
    W = rng.standard_normal((draws, K, M, size // K))
    weights = s.reshape(draws, K, M, 1)
    rest = (weights * W)[:, :, :-1].sum(2)
    W[:, :, -1] = (u - rest) / weights[:, :, -1]
    return W


def _force(C: Array, s: Array, W: Array) -> Array:
    """b_k, [draws, K, d], by a loop over filters."""
    draws, K, M, d = W.shape
    b = np.zeros((draws, K, d))
    for k in range(K):
        for j in range(K):
            block = C[:, k * d : (k + 1) * d, j * d : (j + 1) * d]
            for m in range(M):
                b[:, k] += s[:, j * M + m, None] * (block @ W[:, j, m, :, None])[..., 0]
    return b


def _spread(W: Array) -> Array:
    return np.abs(W - W.mean(2, keepdims=True)).max((1, 2, 3))


def _second(W: Array) -> Array:
    """[draws]: largest ratio of the second to the first singular value over fields."""
    values = np.linalg.svd(W, compute_uv=False)
    return (values[..., 1] / values[..., 0]).max(-1)


def thm4(draws: int, seed: int) -> Iterator[Check]:
    """Gradients of linear filters, their rank, and paths of critical points, V fixed.

    Controls: ReLU, the projection of Lemma 4, means without weights.
    """
    check = partial(Check, "nl/thm4")
    rng = ref.generator("thm4", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    shapes = ((2, 2, 3, None), (2, 3, 3, 4), (1, 4, 4, 2))
    count = ref.share(draws, len(shapes))
    for K, M, d, rank in shapes:
        x, x2, alpha, W, _ = batch(rng, count, K, M, d)
        C, s = _linear_case(rng, count, K, M, d, rank)
        V = unit(rng.standard_normal((count, 2)))[:, :, None] * s[:, None]
        velocity = ref.gradient(partial(of_W, alpha, x, x2, V, "linear"), W)
        bent = ref.gradient(partial(of_W, alpha, x, x2, V, "relu"), W)
        flat = [v.reshape(*v.shape[:2], -1) for v in (x, x2)]
        Cx = ref.covariance(alpha, *flat, *flat) / (2 * x.shape[1] ** 2)
        b = two_layer.common_direction(*tensors(Cx, s, W)).numpy()
        predicted = s.reshape(count, K, M, 1) * b[:, :, None]
        found["dynamics"].append(relative(predicted, velocity))
        found["dynamics, relu"].append(relative(predicted, bent))
        found["rank"].append(_second(velocity))
        found["rank, relu"].append(_second(bent))
        found["rank, P"].append(_second(project(W, velocity)))
        W2 = rng.standard_normal(W.shape)
        both = two_layer.common_direction(*tensors(Cx, s, W + W2)).numpy()
        other = two_layer.common_direction(*tensors(Cx, s, W2)).numpy()
        found["linear"].append(relative(both, b + other))
        found["linear, moved s"].append(relative(both, b + _force(Cx, np.roll(s, 1, -1), W2)))
        W = _critical(rng, C, s, K, M)
        path, plain = [], []
        for c in np.linspace(0, 1, 5):
            on = two_layer.merge(*tensors(W, s), float(c)).numpy()
            path.append(np.abs(_force(C, s, on)).max((1, 2)))
            mean = (1 - c) * W + c * W.mean(2, keepdims=True)
            plain.append(np.abs(_force(C, s, mean)).max((1, 2)))
        found["path"] += [*path, _spread(on)]
        found["path, plain"].append(np.max(plain, 0))
        found["start"].append(_spread(W))
        f = np.einsum("bij,bj->bi", _outputs(Cx, W2), s)
        b2 = _force(Cx, s, W2)
        u = (s.reshape(count, K, M, 1) * W2).sum(2)
        value = (s * f).sum(-1)
        found["value"].append(relative((u * b2).sum((1, 2)), value))
        found["value, halved"].append(relative((u * b2).sum((1, 2)) / 2, value))
    total = count * len(shapes)
    yield check(
        worst(*found["dynamics"]),
        1e-10,
        {"ReLU filters": typical(*found["dynamics, relu"])},
        draws=total,
        part="Eq. 14",
        note="As printed, without the projection of Lemma 4: the gradient, filters free.",
    )
    yield check(
        worst(*found["linear"]),
        1e-11,
        {"V that moves with W": typical(*found["linear, moved s"])},
        draws=total,
        part="b_k linear in W",
    )
    yield check(
        worst(*found["rank"]),
        1e-11,
        {
            "ReLU filters": typical(*found["rank, relu"]),
            "with the projection of Lemma 4": typical(*found["rank, P"]),
        },
        draws=total,
        part="(1) co-linear",
        note="Second singular value over the first. False of the flow of Lemma 4: on unit spheres "
        "the velocities are the projections of one direction, and not parallel.",
    )
    yield check(
        worst(*found["path"]),
        1e-9,
        {
            "filters move to their plain mean": typical(*found["path, plain"]),
            "unit filters, Lemma 4": _opposite(),
            "distance of the filters at the start": typical(*found["start"]),
        },
        draws=total,
        part="(2) a path",
        note="V fixed; the filters of a field go straight to their mean with weights $s_{km}$. "
        r"With unit filters and the projection there is none: at $\pm e_1$, "
        r"$C=\mathrm{diag}(2,1)$, the top eigenvalue has an isolated maximum; see the control.",
    )
    yield check(
        worst(*found["value"]),
        1e-10,
        {"half": typical(*found["value, halved"])},
        draws=total,
        part="what such points learn",
        note=r"$s^\top\mathbb C_\alpha[f_1]s=\sum_ku_k^\top b_k$: where all $b_k=0$ and V has "
        "converged, the top eigenvalue is zero and all filters are silent.",
    )


def _outputs(C: Array, W: Array) -> Array:
    """C_alpha[f_1] of linear filters."""
    draws, K, M, d = W.shape
    full = np.zeros((draws, K * M, K * d))
    for k in range(K):
        full[:, k * M : (k + 1) * M, k * d : (k + 1) * d] = W[:, k]
    return full @ C @ np.swapaxes(full, 1, 2)


def _opposite() -> float:
    """K = 1, C = diag(2, 1), unit filters e_1 and -e_1, s always the top eigenvector of V[f_1].

    There s = (1, -1)/sqrt 2, the projected velocity is zero, and the top eigenvalue has an isolated
    maximum, 4: a path must leave the critical points. The largest velocity when the second filter
    turns around to e_1.
    """
    C, speeds = np.diag([2.0, 1.0])[None], []
    for angle in np.linspace(0, np.pi, 41):
        W = np.array([[[[1.0, 0.0], [-np.cos(angle), np.sin(angle)]]]])
        s = np.linalg.eigh(_outputs(C, W))[1][..., -1]
        move = s.reshape(1, 1, 2, 1) * _force(C, s, W)[:, :, None]
        speeds.append(np.abs(project(W, move)).max())
    return float(np.max(speeds))


def eq163(draws: int, seed: int) -> Iterator[Check]:
    """The path of the proof: two filters exchanged, then straight lines, V as it was.

    Read under Assumption 2 (V has converged), and two paths for any V. Controls: other filters; the
    exchange and plain means where V has not converged; starts that are not critical.
    """
    check = partial(Check, "nl/eq163")
    rng = ref.generator("eq163", seed)
    K, M, d = 2, 3, 4
    C, s = _linear_case(rng, draws, K, M, d, 5)
    W = _critical(rng, C, s, K, M)
    velocity = s.reshape(draws, K, M, 1) * _force(C, s, W)[:, :, None]
    free = rng.standard_normal(W.shape)
    yield check(
        worst(np.abs(velocity).max((1, 2, 3)), np.abs(_force(C, s, W)).max((1, 2))),
        1e-9,
        {"other filters": typical(np.abs(_force(C, s, free)).max((1, 2)))},
        draws=draws,
        part="b_k = 0 at critical points",
    )

    def chord(W: Array, s: Array, other: Array, C: Array = C) -> Array:
        path = [_force(C, s, c * W + (1 - c) * other) for c in np.linspace(0, 1, 11)]
        return np.abs(path).max((0, 2, 3))

    swapped = W[:, :, [1, 0, 2]]
    flat, silent = _silent(rng, C, K, M)
    yield check(
        worst(chord(silent, s, silent[:, :, [1, 0, 2]], flat)),
        1e-9,
        {"V that has not converged": typical(chord(W, s, swapped))},
        draws=draws,
        part="the path",
        note="Under Assumption 2 s is a top eigenvector at the critical point. Then all filters "
        "are silent, and so are all combinations of them: the printed path holds, whatever s. For "
        r"other V the exchange is no symmetry: it changes $\sum_ms_{km}w_{km}$ unless "
        r"$s_{k1}=s_{k2}$.",
    )
    a, b = s[:, None, 0::M][:, 0], s[:, 1::M]
    both = (a[..., None] * W[:, :, 0] + b[..., None] * W[:, :, 1]) / (a + b)[..., None]
    merged = W.copy()
    merged[:, :, 0] = merged[:, :, 1] = both
    yield check(
        worst(chord(W, s, merged)),
        1e-9,
        {
            "the exchange": typical(chord(W, s, swapped)),
            "plain mean of two filters": typical(chord(W, s, (W + swapped) / 2)),
            "start that is not critical": typical(chord(free, s, free[:, :, [1, 0, 2]])),
        },
        draws=draws,
        part="a path for any V",
        note=r"Both filters move to $(s_{k1}\mu_1+s_{k2}\mu_2)/(s_{k1}+s_{k2})$ (for "
        r"$s_{k1}+s_{k2}\neq0$; else go straight to $W=0$): Theorem 4 (2) without Assumption 2.",
    )
    equal = unit(np.repeat(rng.uniform(0.2, 1, (draws, K)), M, -1))
    even = _critical(rng, C, equal, K, M)
    yield check(
        worst(chord(even, equal, even[:, :, [1, 0, 2]])),
        1e-9,
        {"unequal top weights": typical(chord(W, s, swapped))},
        draws=draws,
        part="the path, equal top weights",
    )


def _silent(rng: np.random.Generator, C: Array, K: int, M: int) -> tuple[Array, Array]:
    """C made singular in every field, and filters in the null spaces of the fields."""
    draws, size = C.shape[:2]
    d = size // K
    null = unit(rng.standard_normal((draws, K, d)))
    P = np.zeros_like(C)
    for k in range(K):
        part = slice(k * d, (k + 1) * d)
        P[:, part, part] = np.eye(d) - null[:, k, :, None] * null[:, k, None]
    return P @ C @ P, rng.standard_normal((draws, K, M, 1)) * null[:, :, None]


def rem16(draws: int, seed: int) -> Iterator[Check]:
    """Rank of the velocities and of trained filters in every field, linear against ReLU."""
    check = partial(Check, "nl/rem16")
    rng = ref.generator("rem16", seed)
    count = min(draws, 20)
    key = random.fold_in(random.key(int(rng.integers(2**40))), torch.arange(count))
    model = field_latent.draw(key, 2, 2, 5, 3)
    joint = field_latent.joint(model)
    world = one_layer.World(field_latent.features(joint.states, model.values), joint.p)
    found = {}
    for kind in ("linear", "relu"):
        W = torch.from_numpy(unit(rng.standard_normal((count, 2, 8, 3))))
        first = None
        for _ in range(300):
            f = one_layer.covariance(world, two_layer.hidden(world.x, W, kind))
            V = two_layer.top_weights(f)[..., None, :]
            move = two_layer.flow(world, W, V, kind).W
            first = _second(move.numpy()) if first is None else first
            # A field's own time: its largest velocity is 1/2.
            size = torch.linalg.vector_norm(move, dim=-1).amax(-1, keepdim=True)[..., None]
            W = W + two_layer.tangent(W, move) / (2 * size)
            W = W / torch.linalg.vector_norm(W, dim=-1, keepdim=True)
        found[kind] = first, _second(W.numpy())
    for i, (part, bound) in enumerate((("gradients", 1e-10), ("after training", 1e-6))):
        yield check(
            worst(found["linear"][i]),
            bound,
            {"ReLU": typical(found["relu"][i])},
            draws=count,
            part=part,
            note="Eight filters a field: second singular value over the first."
            + (" Unit filters, V always at its optimum, own pace for each field." if i else ""),
        )
