"""Locally maximal eigenvectors: two latent models, a threshold, roughness (nl Sec. 3).

Enumeration of all states in numpy, root finding and quadrature meet
`clcore.theory.one_layer.one_layer`. All here is for uniform alpha, large batches and no
augmentation, as in nl Sec. 3.1.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np
import torch
from scipy.optimize import brentq

from clcore import reference as ref
from clcore.checks.one_layer.activation import unit
from clcore.checks.one_layer.gate_jumps import categorical_quotient
from clcore.ledger import Check
from clcore.reference import Array, absolute, plane, relative, tensors, typical, worst
from clcore.theory.one_layer import one_layer


def bases(rng: np.random.Generator, draws: int, d: int, m: int | None = None) -> Array:
    """Random orthonormal columns [draws, d, m]."""
    return np.linalg.qr(rng.standard_normal((draws, d, d)))[0][..., :m]


def _gate(u: Array, at_zero: float = 0.0) -> Array:
    return np.where(np.abs(u) < 1e-12, at_zero, (u > 0) * 1.0)


def _moments(p: Array, x: Array, w: Array, at_zero: float = 0.0, centred: bool = True) -> Array:
    """V[gated x], [draws, d, d], of laws p [draws, n] on x [draws, n, d], by a loop over points."""
    mean, square = 0.0, 0.0
    for k in range(p.shape[-1]):
        point = x[:, k] * _gate((x[:, k] * w).sum(-1), at_zero)[:, None]
        mean = mean + p[:, k, None] * point
        square = square + p[:, k, None, None] * point[:, :, None] * point[:, None, :]
    return square - centred * mean[:, :, None] * mean[:, None, :]


def _states(q: Array) -> tuple[Array, Array]:
    """(P [draws, 2^M], y [draws, 2^M, M]) of the latent summation model, by a loop."""
    chances, values = [], []
    for bits in product((0, 1), repeat=q.shape[-1]):
        on = np.array(bits)
        chances.append(np.where(on, q, 1 - q).prod(-1))
        values.append(np.where(on, np.sqrt((1 - q) / q), -np.sqrt(q / (1 - q))))
    return np.stack(chances, 1), np.stack(values, 1)


def _is_lme(A: Array, w: Array) -> Array:
    """[draws]: Def. 3 by numpy, on matrices A at w."""
    values, vectors = np.linalg.eigh(A)
    scale = np.abs(values).max(-1)
    along = np.abs((vectors[..., -1] * w).sum(-1)) > 1 - 1e-9
    return along & (values[:, -1] - values[:, -2] > 1e-8 * scale)


def _outer(u: Array) -> Array:
    return u[..., :, None] * u[..., None, :]


# ---------------------------------------------------------------------------------- definitions


def def3(draws: int, seed: int) -> Iterator[Check]:
    """The LME test against eigenvectors by numpy: patterns of the summation model, principal
    directions of the linear node, one repeated eigenvalue. Controls: each half of Def. 3 left out.
    """
    rng, d = ref.generator("nl def3", seed), 4
    wrong = 0
    lenient: dict[str, int] = defaultdict(int)
    q, U = rng.uniform(0.05, 0.6, (draws, d)), bases(rng, draws, d)
    p, y = _states(q)
    x = y @ U.swapaxes(-1, -2)
    world = one_layer.World(*tensors(x, p))
    for m in range(d):
        w = U[..., m]
        said = one_layer.locally_maximal(world, *tensors(w)).numpy()
        wrong += int((said != _is_lme(_moments(p, x, w), w)).sum())
        lenient["not maximal"] += int((~said).sum())  # an eigenvector all the same
    x = rng.standard_normal((draws, 20, d))
    linear = one_layer.samples(*tensors(x))
    A = np.stack([np.cov(v.T, bias=True) for v in x])
    _, vectors = np.linalg.eigh(A)
    for k in range(d):
        said = one_layer.locally_maximal(linear, *tensors(vectors[..., k]), "linear").numpy()
        wrong += int((said != (k == d - 1)).sum())
    simplex = one_layer.samples(torch.eye(d, dtype=torch.float64))
    w = np.eye(d) - 1 / d
    w = w / np.linalg.norm(w, axis=-1, keepdims=True)
    maximal = one_layer.maximality(simplex, *tensors(w), "linear")
    wrong += int(one_layer.locally_maximal(simplex, *tensors(w), "linear").sum())
    lenient["not distinct"] = int(((maximal.residual < 1e-12) & (maximal.below < 1e-12)).sum())
    yield Check(
        "nl/def3",
        float(wrong),
        0.0,
        {name: float(v) for name, v in lenient.items()},
        draws=2 * draws * d + d,
        note="A definition: nothing can fail but our code; tested is that. Number of decisions "
        "that "
        "differ from those of numpy's eigenvectors.",
    )


def rem6(draws: int, seed: int) -> Iterator[Check]:
    """At LMEs that a search finds, the projected gradient of V[h(w^T x)], by complex steps, is 0.

    Controls: eigenvectors of A(w) at another w, the LMEs of other data.
    """
    rng, few = ref.generator("nl rem6", seed), min(draws, 8)
    rest, stale, other, found = [], [], [], 0

    def slope(x: Array, w: Array) -> Array:
        u = x @ ref.stepped(w[None])[:, 0].T
        h = np.where(u.real > 0, u, 0)
        half = (h**2).mean(0) / 2 - h.mean(0) ** 2 / 2
        gradient = half.imag / ref.STEP
        return gradient - (w @ gradient) * w

    for _ in range(few):
        q, U = rng.uniform(0.1, 0.25, (1, 4)), bases(rng, 1, 4)[0]
        p, y = _states(q)
        x = y[0, rng.choice(16, 200, p=p[0])] @ U.T + 0.05 * rng.standard_normal((200, 4))
        scale = np.trace(np.cov(x.T))
        world = one_layer.samples(*tensors(x))
        starts = tensors(unit(rng, 20, 4))[0]
        lmes = one_layer.search(world, starts, steps=100).w.numpy()
        found += len(lmes)
        rest += [np.linalg.norm(slope(x, w)) / scale for w in lmes]
        jump = one_layer.top_eigenvector(world, starts[:3]).numpy()
        stale += [np.linalg.norm(slope(x, w)) / scale for w in jump]
        away = rng.permuted(x, axis=0)
        other += [np.linalg.norm(slope(away, w)) / scale for w in lmes]
    yield Check(
        "nl/rem6",
        max(rest, default=np.inf),
        1e-10,
        {"eigenvectors elsewhere": float(np.median(stale)), "other data": float(np.median(other))},
        draws=max(found, 1),
        note="Draws are LMEs found in 200 noisy samples of the latent summation model.",
    )


def eq43(draws: int, seed: int) -> Iterator[Check]:
    """V[gated x] by loops against the three terms, binary z, eight atoms each.

    Controls: p0 p1 left out, Sigmas exchanged, means of ungated inputs.
    """
    rng, n, d = ref.generator("nl eq43", seed), 8, 4
    x = rng.standard_normal((draws, 2, n, d)) + rng.standard_normal((draws, 2, 1, d))
    law = ref.normalised(rng.random((draws, 2, n)))
    p1 = rng.uniform(0.1, 0.9, draws)
    w = unit(rng, draws, d)
    prior = np.stack([1 - p1, p1], 1)
    joint = (prior[:, :, None] * law).reshape(draws, -1)
    points = x.reshape(draws, -1, d)
    exact = _moments(joint, points, w)
    library = one_layer.operator(one_layer.World(*tensors(points, joint)), *tensors(w))
    gated = x * ((x * w[:, None, None]).sum(-1) > 0)[..., None]
    mean = (law[..., None] * gated).sum(2)
    gap = gated - mean[:, :, None]
    sigma = np.einsum("bzi,bziq,bzir->bzqr", law, gap, gap)
    delta = mean[:, 1] - mean[:, 0]
    plain = (law[..., None] * x).sum(2)
    weight = (prior[:, 0] * prior[:, 1])[:, None, None]
    within = (prior[..., None, None] * sigma).sum(1)
    swapped = (prior[:, ::-1, None, None] * sigma).sum(1)
    formula = weight * _outer(delta) + within
    yield Check(
        "nl/eq43",
        worst(relative(formula, exact), relative(library, exact)),
        1e-12,
        {
            "no p0 p1": typical(relative(_outer(delta) + within, exact)),
            "p0 and p1 exchanged": typical(relative(weight * _outer(delta) + swapped, exact)),
            "Delta not gated": typical(
                relative(weight * _outer(plain[:, 1] - plain[:, 0]) + within, exact)
            ),
        },
        draws=draws,
    )


# --------------------------------------------------------------------------------- the two models


def _categorical(rng: np.random.Generator, draws: int, M: int, d: int) -> tuple[Array, Array]:
    """(p [draws, M], U [draws, d, M]); patterns are rotated in every second draw."""
    p = ref.normalised(0.15 + rng.random((draws, M)))
    U = bases(rng, draws, d, M)
    U[::2] = np.eye(d)[:, :M]
    return p, U


def rem7(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 8 with h'(0) = 0, all other patterns on the edge of the gate. Control: h'(0) = 1, 1/2."""
    rng = ref.generator("nl rem7", seed)
    p, U = _categorical(rng, draws, 4, 4)
    closed = one_layer.categorical_operator(*tensors(p, U)).numpy()
    errors: dict[float, list[Array]] = defaultdict(list)
    for m, at_zero in product(range(4), (0.0, 0.5, 1.0)):
        A = _moments(p, U.swapaxes(-1, -2), U[..., m], at_zero)
        errors[at_zero].append(absolute(A, closed[:, m]))
    yield Check(
        "nl/rem7",
        worst(*errors[0.0]),
        1e-12,
        {f"h'(0) = {v:g}": typical(np.concatenate(errors[v])) for v in (0.5, 1.0)},
        draws=4 * draws,
    )


def ex1(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 8 by enumeration; its pieces; every u_m is an LME, and the flow returns to it.

    Controls: without (1 - p), h'(0) = 1, a linear node.
    """
    check = partial(Check, "nl/ex1")
    rng = ref.generator("nl ex1", seed)
    errors, square, refused, edge, away, straight = [], [], 0, 0, [], []
    count = ref.share(draws, 2)
    for M, d in ((5, 5), (4, 7)):
        p, U = _categorical(rng, count, M, d)
        closed = one_layer.categorical_operator(*tensors(p, U)).numpy()
        world = one_layer.categorical(*tensors(p, U))
        x = U.swapaxes(-1, -2)
        for m in range(M):
            w = U[..., m]
            exact = _moments(p, x, w)
            errors += [
                absolute(closed[:, m], exact),
                absolute(one_layer.operator(world, *tensors(w)), exact),
            ]
            square.append(absolute(p[:, m, None, None] * _outer(w), exact))
            refused += int((~one_layer.locally_maximal(world, *tensors(w)).numpy()).sum())
            edge += int((~_is_lme(_moments(p, x, w, 1.0), w)).sum())
        few = min(count, 8)
        batch = one_layer.World(*(v[:few, None] for v in world[:2]))
        # Within the basin: other patterns die out while w^T u_j < p_m, roughly.
        start = x[:few] + rng.uniform(-0.015, 0.015, x[:few].shape)
        for kind, out in (("relu", away), ("linear", straight)):
            end = one_layer.ascend(batch, *tensors(start), kind, 1.0, 400).numpy()
            out.append(1 - (end * x[:few]).sum(-1).ravel())
    total = count * 9
    yield check(
        worst(*errors),
        1e-13,
        {"p for p(1 - p)": typical(np.concatenate(square))},
        part="Eq. 8",
        draws=total,
        note=r"All patterns but $u_m$ lie on the edge of the gate.",
    )
    yield check(
        float(refused),
        0.0,
        {"h'(0) = 1": float(edge)},
        part="every pattern is an LME",
        draws=total,
        note="Number of patterns that fail Def. 3. The eigenvalue is p(1 - p), all others 0.",
    )
    yield check(
        worst(*away),
        1e-6,
        {"linear": typical(np.concatenate(straight))},
        part="and attractive",
        draws=sum(len(v) for v in away),
        note="Ours: 1 - cosine after the flow from starts near every pattern.",
    )


def ex2(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 9 by enumeration of 2^M states; Delta and Sigma; LME where q is below the threshold.

    Controls: (1 - q) for its square, I not reduced; Sigma_1 = I; threshold 1/2.
    """
    check = partial(Check, "nl/ex2")
    rng, M = ref.generator("nl ex2", seed), 5
    draws = min(draws, 200)
    q, U = rng.uniform(0.05, 0.6, (draws, M)), bases(rng, draws, M)
    p, y = _states(q)
    x = y @ U.swapaxes(-1, -2)
    world = one_layer.summation(*tensors(q, U))
    errors, linear, full, pieces, identity = [], [], [], [], []
    judged: dict[str, int] = defaultdict(int)
    for m in range(M):
        w, Q = U[..., m], q[:, m, None, None]
        exact = _moments(p, x, w)
        printed = (1 - Q) ** 2 * _outer(w) + Q * (np.eye(M) - _outer(w))
        errors += [
            absolute(printed, exact),
            absolute(one_layer.operator(world, *tensors(w)), exact),
            absolute(one_layer.summation_operator(*tensors(q, U))[:, m], exact),
        ]
        linear.append(absolute((1 - Q) * _outer(w) + Q * (np.eye(M) - _outer(w)), exact))
        full.append(absolute((1 - Q) ** 2 * _outer(w) + Q * np.eye(M), exact))
        on = y[..., m] > 0
        high = np.sqrt((1 - q[:, m]) / q[:, m])
        law = p * on / q[:, m, None]
        gated = x * on[..., None]
        mean = (law[..., None] * gated).sum(1)
        sigma = np.einsum("bi,biq,bir->bqr", law, gated, gated) - _outer(mean)
        off = (p * ~on)[..., None] * gated
        pieces += [absolute(mean, high[:, None] * w), absolute(off, 0 * off)]
        pieces.append(absolute(sigma, np.eye(M) - _outer(w)))
        identity.append(absolute(sigma, np.broadcast_to(np.eye(M), sigma.shape)))
        said = one_layer.locally_maximal(world, *tensors(w)).numpy()
        for name, value in (("exact", one_layer.SUMMATION_THRESHOLD), ("1/2", 0.5)):
            judged[name] += int((said != (q[:, m] < value)).sum())
    spare = bases(rng, draws, 6, 3)
    few, z = _states(q[:, :3])
    wide = _moments(few, z @ spare.swapaxes(-1, -2), spare[..., 0])
    Q = q[:, 0, None, None]
    outer = _outer(spare[..., 0])
    span = spare @ spare.swapaxes(-1, -2)
    errors.append(absolute((1 - Q) ** 2 * outer + Q * (span - outer), wide))
    apart = typical(absolute((1 - Q) ** 2 * outer + Q * (np.eye(6) - outer), wide))
    yield check(
        worst(*errors),
        1e-12,
        {
            "1 - q for its square": typical(np.concatenate(linear)),
            "q I": typical(np.concatenate(full)),
            "I for M < d": apart,
        },
        part="Eq. 9",
        draws=draws * M,
        note=r"U a basis, as the text says, M = d = 5. For M = 3 < d = 6 the same with "
        r"$UU^\top$ for $I$.",
    )
    yield check(
        worst(*pieces),
        1e-11,
        {"Sigma_1 = I": typical(np.concatenate(identity))},
        part=r"$\Delta$ and $\Sigma$",
        draws=draws * M,
    )
    yield check(
        float(judged["exact"]),
        0.0,
        {"threshold 1/2": float(judged["1/2"])},
        part="LME below the threshold",
        draws=draws * M,
        note="Number of patterns for which test and threshold disagree.",
    )


def _bisect(up: Callable[[float], bool], low: float = 0.2, high: float = 0.6) -> float:
    """Where `up` turns from True to False."""
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if up(middle) else (low, middle)
    return (low + high) / 2


def num1(draws: int, seed: int) -> Iterator[Check]:
    """(3 - sqrt 5)/2 as a root, as the place where the LME test switches, and where the flow turns.

    Controls: second moments for variances, whose threshold is 1/2; the linear node.
    """
    check = partial(Check, "nl/num1")
    rng, M = ref.generator("nl num1", seed), 4
    root = brentq(lambda q: (1 - q) ** 2 - q, 0, 1, xtol=1e-15)
    raw = brentq(lambda q: (1 - q) - q, 0, 1, xtol=1e-15)
    exact = (3 - np.sqrt(5)) / 2
    yield check(
        max(abs(root - exact), abs(one_layer.SUMMATION_THRESHOLD - exact)),
        1e-14,
        {"second moments": abs(raw - exact)},
        part="root",
    )
    yield check(
        abs(round(root, 3) - 0.382),
        1e-12,
        {"second moments": abs(round(raw, 3) - 0.382)},
        part="0.382",
    )
    tests, moments, turns, flat = [], [], [], []
    few = min(draws, 12)
    for _ in range(few):
        U, rest = bases(rng, 1, M), rng.uniform(0.1, 0.3, M - 1)
        w, u = U[0, :, :1].T, U[0, :, 1:2].T
        v = np.sqrt(1 - 1e-8) * w + 1e-4 * u

        def world(q: float) -> one_layer.World:
            return one_layer.summation(*tensors(np.array([q, *rest]), U[0]))  # noqa: B023

        def lme(q: float) -> bool:
            return bool(one_layer.locally_maximal(world(q), *tensors(w[0]), gap=1e-13))  # noqa: B023

        def returns(q: float, kind: str) -> bool:
            flow = one_layer.flow(world(q), *tensors(v[0]), kind).numpy()  # noqa: B023
            return bool(flow @ u[0] < -1e-12)  # noqa: B023

        def uncentred(q: float) -> bool:
            p, y = _states(np.array([[q, *rest]]))  # noqa: B023
            A = _moments(p, y @ U.swapaxes(-1, -2), w, centred=False)  # noqa: B023
            return bool(_is_lme(A, w)[0])  # noqa: B023

        tests.append(abs(_bisect(lme) - exact))
        moments.append(abs(_bisect(uncentred) - exact))
        turns.append(abs(_bisect(lambda q: returns(q, "relu")) - exact))
        flat.append(abs(_bisect(lambda q: returns(q, "linear")) - exact))
    yield check(
        max(tests),
        1e-12,
        {"second moments": min(moments)},
        part="the LME test",
        draws=few,
        note="Bisection in q; the other latents keep random q below 0.3.",
    )
    yield check(
        max(turns),
        1e-6,
        {"linear": min(flat)},
        part="the flow",
        draws=few,
        note=r"Bisection on the sign of $u^\top P_v^\perp A(v)v$, $v$ turned from $u_m$ by 1e-4.",
    )


# -------------------------------------------------------------------------------------- roughness


def _quotient(law: plane.Law, angle: float, step: float) -> float:
    """|(A(v) - A(w)) w| / |v - w| with v turned by `step`."""
    gap = plane.operator(law, angle + step) - plane.operator(law, angle)
    w, v = plane.direction(angle), plane.direction(angle + step)
    return float(np.linalg.norm(gap @ w) / np.linalg.norm(v - w))


def rem8(draws: int, seed: int) -> Iterator[Check]:
    """rho(w) by Richardson from quotients, against E[h] times an integral along w^T x = 0.

    Mixtures in the plane. Controls: without E[h], with |x| for x^2; a finite sample has rho = 0.
    """
    check = partial(Check, "nl/rem8")
    rng, few = ref.generator("nl rem8", seed), min(draws, 12)
    errors, bare, first = [], [], []
    node, weight = np.polynomial.legendre.leggauss(200)
    for _ in range(few):
        law, angle = plane.draw(rng), rng.uniform(-np.pi, np.pi)
        w, u = plane.direction(angle), plane.direction(angle + np.pi / 2)
        values = [(_quotient(law, angle, s) + _quotient(law, angle, -s)) / 2 for s in (1e-2, 5e-3)]
        limit = (4 * values[1] - values[0]) / 3
        line = law.reach * node
        p = law.reach * weight * plane.density(law, line[:, None] * u)
        mean, _ = plane.gated_moments(law, angle)
        exact = (w @ mean) * (line**2 @ p)
        errors.append(abs(limit / exact - 1))
        bare.append(abs(limit / (line**2 @ p) - 1))
        first.append(abs(limit / ((w @ mean) * (np.abs(line) @ p)) - 1))
    yield check(
        max(errors),
        1e-3,
        {"without E[h]": float(np.median(bare)), "|x| for x^2": float(np.median(first))},
        part="roughness",
        draws=few,
        note=r"$\rho(w)$ is $E[h(w^\top x)]$ times the norm of "
        r"$\int_{w^\top x=0}x\,(u^\top x)\,p$.",
    )
    x, w = rng.standard_normal((draws, 40, 3)), unit(rng, draws, 3)
    world = one_layer.samples(*tensors(x))
    A = one_layer.operator(world, *tensors(w)).numpy()
    edge = np.abs((x * w[:, None]).sum(-1) / np.linalg.norm(x, axis=-1)).min(-1, keepdims=True)
    u = unit(rng, draws, 3)
    u = u - (u * w).sum(-1, keepdims=True) * w
    u = u / np.linalg.norm(u, axis=-1, keepdims=True)
    far = []
    for size in (0.5 * np.minimum(edge, 0.1), np.full_like(edge, 0.5)):
        v = np.sqrt(1 - size**2) * w + size * u
        gap = one_layer.operator(world, *tensors(v)).numpy() - A
        norm = np.linalg.norm(gap @ w[..., None], axis=(1, 2))
        far.append(norm / np.linalg.norm(v - w, axis=-1))
    yield check(
        worst(far[0]),
        1e-9,
        {"beyond the nearest hyperplane": typical(far[1])},
        part="finite samples",
        draws=draws,
        note=r"$A$ is constant until a sample crosses $w^\top x=0$: $\rho=0$ there. A smallest "
        r"scalar need not exist: at a pattern $u_m$ of the categorical model the others lie on "
        r"that plane, and from $\|v-u_m\|=10^{-2}$ to $10^{-4}$ the quotient grows by a factor of "
        f"{categorical_quotient(1e-4) / categorical_quotient(1e-2):.0f}. Theorem 1 says nothing of "
        "that example.",
    )
    A = A + A.swapaxes(-1, -2)
    values, vectors = (v.numpy() for v in one_layer.spectrum(*tensors(A)))
    again = (vectors * values[:, None]) @ vectors.swapaxes(-1, -2)
    gaps = absolute(one_layer.gap(*tensors(A)), values[:, 0] - values[:, 1])
    order = np.maximum(np.diff(values, axis=-1), 0).max(-1)
    turned = (vectors * values[:, None, ::-1]) @ vectors.swapaxes(-1, -2)
    yield check(
        worst(absolute(again, A), gaps, order),
        1e-12,
        {"eigenvalues rising": typical(absolute(turned, A))},
        part="spectrum and gap",
        draws=draws,
    )
