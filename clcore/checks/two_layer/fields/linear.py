"""What linear filters of one receptive field can learn (nl Theorem 4, App. C.4).

Complex-step gradients and loops over filters meet `clcore.theory.two_layer.two_layer`.
"""

from functools import partial

import numpy as np

from clcore import reference as ref
from clcore.checks.two_layer.fields.dynamics import batch, of_W, project, unit
from clcore.ledger import Part, Trial, check, typical
from clcore.reference import Array, relative, tensors
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


@check("nl/thm4")
def thm4(t: Trial) -> None:
    """Linear filters: velocities, their rank, and paths of critical points.

    The flow of Eq. 14, without the projection of Lemma 4; V fixed. Controls: ReLU, means without
    weights, unit filters with the projection, s the top eigenvector.
    """
    shapes = ((2, 2, 3, None), (2, 3, 3, 4), (1, 4, 4, 2))
    count, kept = t.share(len(shapes)), "with the projection of Lemma 4"
    flow = t.part("Eq. 14", 1e-10, controls=typical)
    affine = t.part("b_k linear in W", 1e-11, controls=typical)
    line = t.part("(1) co-linear", 1e-11, controls=typical)
    path = t.part("(2) a path", 1e-9, controls=typical, draws=count * len(shapes))
    learnt = t.part("what such points learn", 1e-10, controls=typical)
    for K, M, d, rank in shapes:
        x, x2, alpha, W, _ = batch(t.rng, count, K, M, d)
        C, s = _linear_case(t.rng, count, K, M, d, rank)
        V = unit(t.rng.standard_normal((count, 2)))[:, :, None] * s[:, None]
        velocity, bent = (
            ref.gradient(partial(of_W, alpha, x, x2, V, kind), W) for kind in ("linear", "relu")
        )
        flat = [v.reshape(*v.shape[:2], -1) for v in (x, x2)]
        Cx = ref.covariance(alpha, *flat, *flat) / (2 * x.shape[1] ** 2)
        b = two_layer.common_direction(*tensors(Cx, s, W)).numpy()
        weights = s.reshape(count, K, M, 1)
        on_spheres = _spherical(Cx, W)
        flow.add(relative(weights * b[:, :, None], velocity))
        flow.breaks("ReLU filters", relative(weights * b[:, :, None], bent))
        flow.breaks(kept, relative(_unprojected(Cx, W), on_spheres))
        line.add(_second(velocity)).breaks("ReLU filters", _second(bent))
        line.breaks(kept, _second(on_spheres))
        W2 = t.rng.standard_normal(W.shape)
        both = two_layer.common_direction(*tensors(Cx, s, W + W2)).numpy()
        other = two_layer.common_direction(*tensors(Cx, s, W2)).numpy()
        affine.add(relative(both, b + other))
        moved = _force(Cx, np.roll(s, 1, -1), W2)
        affine.breaks("V that moves with W", relative(both, b + moved))
        _merged(path, C, s, _critical(t.rng, C, s, K, M))
        value = (s * np.einsum("bij,bj->bi", _outputs(Cx, W2), s)).sum(-1)
        sent = ((weights * W2).sum(2) * _force(Cx, s, W2)).sum((1, 2))
        learnt.add(relative(sent, value)).breaks("half of it", relative(sent / 2, value))
    line.says(second=typical(line.broken[kept], line.relation))
    crossed, turned, apart = _crossing(t.rng, count)
    path.breaks("unit filters, Lemma 4: one turns around", _opposite())
    path.breaks("the same, random C", turned)
    path.breaks("the same, any way: least velocity on a circle that it must cross", crossed)
    path.breaks("unit filters at the start: distance", apart)


def _merged(p: Part, C: Array, s: Array, W: Array) -> None:
    """Forces on the way of critical filters to their weighted mean, or to their plain mean."""
    plain = []
    for c in np.linspace(0, 1, 5):
        on = two_layer.merge(*tensors(W, s), float(c)).numpy()
        p.add(np.abs(_force(C, s, on)).max((1, 2)))
        mean = (1 - c) * W + c * W.mean(2, keepdims=True)
        plain.append(np.abs(_force(C, s, mean)).max((1, 2)))
    p.add(_spread(on))
    p.breaks("filters move to their plain mean", np.max(plain, 0))
    p.breaks("distance of the filters at the start", _spread(W))


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
    angle = np.linspace(0, np.pi, 41)
    W = _plane(np.stack([0 * angle, np.pi - angle], -1))
    C = np.broadcast_to(np.diag([2.0, 1.0]), (len(W), 2, 2))
    return float(np.abs(_spherical(C, W)).max())


@check("nl/eq163")
def eq163(t: Trial) -> None:
    """The path of the proof for the flow of Eq. 14, V as it was: two filters exchanged, then a
    straight line.

    Corrected: both go to their mean with weights s_km. Controls: other filters; plain means; starts
    that are not critical; the exchange.
    """
    K, M, d = 2, 3, 4
    C, s = _linear_case(t.rng, t.draws, K, M, d, 5)
    W = _critical(t.rng, C, s, K, M)
    velocity = s.reshape(t.draws, K, M, 1) * _force(C, s, W)[:, :, None]
    free = t.rng.standard_normal(W.shape)
    still = t.part("b_k = 0 at critical points", 1e-9, controls=typical, draws=t.draws)
    still.add(np.abs(velocity).max((1, 2, 3)), np.abs(_force(C, s, W)).max((1, 2)))
    still.breaks("other filters", np.abs(_force(C, s, free)).max((1, 2)))

    def chord(W: Array, s: Array, other: Array) -> Array:
        path = [_force(C, s, c * W + (1 - c) * other) for c in np.linspace(0, 1, 11)]
        return np.abs(path).max((0, 2, 3))

    swapped = W[:, :, [1, 0, 2]]
    a, b = s[:, 0::M], s[:, 1::M]
    merged = W.copy()
    mean = (a[..., None] * W[:, :, 0] + b[..., None] * W[:, :, 1]) / (a + b)[..., None]
    merged[:, :, :2] = mean[:, :, None]
    exchanged = t.part("the path", 1e-9, controls=typical).add(chord(W, s, swapped))
    shift = (a - b)[..., None] * (W[:, :, 1] - W[:, :, 0])  # of sum_m s_km w_km by the exchange
    exchanged.fails_by(np.abs(C @ shift.reshape(t.draws, -1, 1)).max((1, 2)))
    mended = t.corrected("the path", 1e-9, controls=typical).add(chord(W, s, merged))
    for p in (exchanged, mended):
        p.breaks("plain mean of two filters", chord(W, s, (W + swapped) / 2))
        p.breaks("start that is not critical", chord(free, s, free[:, :, [1, 0, 2]]))
    mended.breaks("the exchange", chord(W, s, swapped))
    equal = unit(np.repeat(t.rng.uniform(0.2, 1, (t.draws, K)), M, -1))
    even = _critical(t.rng, C, equal, K, M)
    same = t.part("the path, equal top weights", 1e-9, controls=typical)
    same.add(chord(even, equal, even[:, :, [1, 0, 2]]))
    same.breaks("unequal top weights", chord(W, s, swapped))
