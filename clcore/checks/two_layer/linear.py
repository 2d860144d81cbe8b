"""What linear filters of one receptive field can learn (nl Theorem 4, App. C.4).

Complex-step gradients and loops over filters meet `clcore.theory.two_layer.two_layer`.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np

from clcore import reference as ref
from clcore.checks.two_layer.dynamics import batch, of_W, project, unit
from clcore.ledger import Check
from clcore.reference import Array, relative, tensors, typical, worst
from clcore.theory.two_layer import two_layer


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
    return np.asarray((values[..., 1] / values[..., 0]).max(-1))


def thm4(draws: int, seed: int) -> Iterator[Check]:
    """Linear filters: velocities, their rank, and paths of critical points.

    The flow of Eq. 14, without the projection of Lemma 4; V fixed. Controls: ReLU, means without
    weights, unit filters with the projection, s the top eigenvector.
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
        on_spheres = _spherical(Cx, W)
        found["dynamics, P"].append(relative(_unprojected(Cx, W), on_spheres))
        found["rank, P"].append(_second(on_spheres))
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
    crossed, turned, apart = _crossing(rng, count)
    relu, rank = {"ReLU filters": typical(*found["dynamics, relu"])}, typical(*found["rank, relu"])
    paths = {
        "filters move to their plain mean": typical(*found["path, plain"]),
        "distance of the filters at the start": typical(*found["start"]),
    }
    here = typical(*found["rank, P"])
    yield check(
        worst(*found["dynamics"]),
        1e-10,
        relu | {"with the projection of Lemma 4": typical(*found["dynamics, P"])},
        draws=total,
        part="Eq. 14",
        note="Against complex-step gradients of the energy. Eq. 14, like Eqs. 142, 144 and 158 to "
        r"161, is printed without the projection $P_w^\perp$ that Eqs. 12 and 15 have: the flow of "
        "filters that are not normalised. Fails where it is kept: "
        r"$\dot w_{km}=s_{km}P^\perp_{w_{km}}b_k$.",
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
        {"ReLU filters": rank, "with the projection of Lemma 4": here},
        draws=total,
        part="(1) co-linear",
        note=f"Second singular value over the first. Fails where filters are kept at norm 1: "
        f"projections of one direction at different points, {here:.2f} in the median; $K=1$, "
        r"$C=\mathrm{diag}(2,1)$, $w_{11}=e_1$, $w_{12}$ at $45^\circ$.",
    )
    on_spheres = {
        "unit filters, Lemma 4: one turns around": _opposite(),
        "the same, random C": turned,
        "the same, any way: least velocity on a circle that it must cross": crossed,
        "unit filters at the start: distance": apart,
    }
    yield check(
        worst(*found["path"]),
        1e-9,
        paths | on_spheres,
        draws=total,
        part="(2) a path",
        note="V fixed; the filters of a field go straight to their mean with weights $s_{km}$ (if "
        "these sum to 0, all filters to 0). Where V has converged, too, see the next part. Fails "
        r"where filters are kept at norm 1: with $C=\mathrm{diag}(2,1)$ $\pm e_1$ is an isolated "
        r"maximum; but then $e_1,e_1$ is the same up to the sign that a linear filter leaves free.",
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


def _unprojected(C: Array, W: Array) -> Array:
    """s_km b_k for s the top eigenvector of C_alpha[f_1]."""
    draws, K, M, _ = W.shape
    s = np.linalg.eigh(_outputs(C, W))[1][..., -1]
    return s.reshape(draws, K, M, 1) * _force(C, s, W)[:, :, None]


def _spherical(C: Array, W: Array) -> Array:
    """Lemma 4's velocity of linear unit filters, S = s s^T at its optimum."""
    return project(W, _unprojected(C, W))


def _plane(angle: Array) -> Array:
    """Unit filters of one field in the plane, [n, 1, M, 2], from their angles [n, M]."""
    return np.stack([np.cos(angle), np.sin(angle)], -1)[:, None]


def _crossing(rng: np.random.Generator, draws: int) -> tuple[float, float, float]:
    """Two unit filters in the plane, at +- the top eigenvector of C, which is critical.

    Lemma 4's largest velocity at any filter, over C's trace: the least on a circle of pairs around
    that point, and the largest on the way in which the second filter turns around. Then how far
    apart the filters are at the start.
    """
    top = rng.uniform(-np.pi, np.pi, draws)
    axis = _plane(top[:, None])[:, 0, 0]
    low = rng.uniform(0.1, 0.6, draws)[:, None, None]
    C = (1 - low) * axis[:, :, None] * axis[:, None] + low * np.eye(2)
    around = 2 * np.pi * np.arange(360) / 360
    ring = 0.5 * np.stack([np.cos(around), np.sin(around)], -1)
    turn = np.linspace(0, np.pi, 41)
    least, most = [], []
    for matrix, angle in zip(C, top, strict=True):
        start = angle + np.array([0, np.pi])

        def speed(move: Array, matrix: Array = matrix, start: Array = start) -> Array:
            W = _plane(start + move)
            found = _spherical(np.broadcast_to(matrix, (len(W), 2, 2)), W)
            return np.abs(found).max((1, 2, 3)) / np.trace(matrix)

        assert speed(np.zeros((1, 2))).max() < 1e-12
        least.append(speed(ring).min())
        most.append(speed(np.stack([0 * turn, turn], -1)).max())
    return float(np.min(least)), float(np.median(most)), _spread(_plane(start[None])).max()


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
    """The path of the proof for the flow of Eq. 14, V as it was: two filters exchanged, then a
    straight line.

    Corrected: both go to their mean with weights s_km. Controls: other filters; plain means; starts
    that are not critical; the exchange.
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
    broken = {
        "plain mean of two filters": typical(chord(W, s, (W + swapped) / 2)),
        "start that is not critical": typical(chord(free, s, free[:, :, [1, 0, 2]])),
    }
    yield check(
        worst(chord(W, s, swapped)),
        1e-9,
        broken,
        draws=draws,
        part="the path",
        note=r"V held fixed. The exchange is no symmetry: it changes $\sum_ms_{km}w_{km}$. (Where "
        "V has converged, with all $b_k=0$, every filter is silent, and so are all "
        "combinations: any line is a path.)",
        counterexample=r"V fixed, $K=d=1$, $C=1$, $s=(4,3)/5$: at $w=(3,-4)$ $b=0$; exchanged, "
        r"$w=(-4,3)$, $b=-\frac75$.",
    )
    a, b = s[:, None, 0::M][:, 0], s[:, 1::M]
    both = (a[..., None] * W[:, :, 0] + b[..., None] * W[:, :, 1]) / (a + b)[..., None]
    merged = W.copy()
    merged[:, :, 0] = merged[:, :, 1] = both
    yield check(
        worst(chord(W, s, merged)),
        1e-9,
        broken | {"the exchange": typical(chord(W, s, swapped))},
        draws=draws,
        part="the path",
        form="corrected",
        correction=r"Both filters go straight to $(s_{k1}\mu_1+s_{k2}\mu_2)/(s_{k1}+s_{k2})$ (if "
        r"$s_{k1}+s_{k2}=0$, all filters to $W=0$). For $s_{k1}=s_{k2}$ the print holds.",
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
