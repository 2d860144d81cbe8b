"""Two layers with receptive fields: gradients, and what linear filters can do (nl Lemma 4, Thm 4).

Derivatives by complex steps through sums over pairs meet `clcore.two_layer`.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from .. import field_latent, one_layer, random, two_layer
from ..ledger import Check
from . import reference as ref
from .nl_two_latent import enumerated, inputs, net_of, settings
from .reference import Array, absolute, relative, tensors, typical, worst

KINDS = ("linear", "relu", "leaky_relu")


def unit(x: Array) -> Array:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def activate(u: Array, kind: str) -> Array:
    """h(u) for real or complex u: the branch is chosen by the real part."""
    below = {"linear": 1.0, "relu": 0.0, "leaky_relu": 0.05}[kind]
    return np.where(np.real(u) > 0, u, below * u)


def hidden(x: Array, W: Array, kind: str) -> Array:
    """[..., n, K*M], by a loop over fields and filters."""
    K, M = W.shape[-3:-1]
    columns = [
        activate((x[..., k, :] * W[..., None, k, m, :]).sum(-1), kind)
        for k in range(K)
        for m in range(M)
    ]
    return np.stack(columns, -1)


def batch(rng: np.random.Generator, draws: int, K: int, M: int, d: int, q: int = 3, n: int = 5):
    """Two views, alpha, W with unit filters, V."""
    x = rng.standard_normal((draws, n, K, d))
    x2 = x + 0.5 * rng.standard_normal(x.shape)
    W = unit(rng.standard_normal((draws, K, M, d)))
    V = rng.standard_normal((draws, q, K * M))
    return x, x2, ref.random_weights(rng, draws, n, n), W, V


def objective(alpha: Array, x: Array, x2: Array, W: Array, V: Array, kind: str) -> Array:
    """1/2 tr C_alpha[V f_1] by loops over pairs, with the 1/(2 N^2) of nl."""
    f, g = (hidden(v, W, kind) @ np.swapaxes(V, -1, -2) for v in (x, x2))
    C = ref.covariance(alpha, f, g, f, g)
    return np.trace(C, axis1=-2, axis2=-1) / (4 * x.shape[-3] ** 2)


def project(W: Array, move: Array) -> Array:
    return move - (W * move).sum(-1, keepdims=True) * W


def lem4(draws: int, seed: int) -> Iterator[Check]:
    """Both velocities against complex-step gradients of the energy, asymmetric random alpha.

    Controls: no positive pairs, inputs without their gates, no coupling between filters, twice.
    """
    check = partial(Check, "nl/lem4")
    rng = ref.generator("lem4", seed)
    count = ref.share(draws, len(KINDS))
    found: dict[str, list[Array]] = defaultdict(list)
    for kind in KINDS:
        x, x2, alpha, W, V = batch(rng, count, 2, 2, 3)
        slope_W = ref.gradient(partial(_of_W, alpha, x, x2, V, kind), W)
        slope_V = ref.gradient(partial(_of_V, alpha, x, x2, W, kind), V)
        a, b, b2, w, v = tensors(alpha, x, x2, W, V)
        flow = two_layer.flow(two_layer.of_views(a, b, b2), w, v, kind)
        lone = two_layer.flow(two_layer.of_views(a, b, b), w, v, kind)
        found["V"].append(relative(flow.V, slope_V))
        found["V, no positives"].append(relative(lone.V, slope_V))
        found["W"].append(relative(flow.W, slope_W))
        found["W, no positives"].append(relative(lone.W, slope_W))
        found["W, twice"].append(relative(2 * flow.W, slope_W))
        world = two_layer.of_views(a, b, b2)
        tilde = two_layer.gated(world.x, w, kind)
        C = one_layer.covariance(world, tilde.flatten(-3))
        S = v.mT @ v
        alone = two_layer.push(torch.diag_embed(S.diagonal(dim1=-2, dim2=-1)), C, w)
        found["W, diagonal S"].append(relative(alone, slope_W))
        on_sphere = two_layer.tangent(w, flow.W)
        found["sphere"].append(relative(on_sphere, _along_sphere(alpha, x, x2, W, V, kind)))
        found["sphere, no P"].append(relative(flow.W, on_sphere))
        blocks = _blocks(S.numpy(), C.numpy(), W)
        found["blocks"].append(relative(flow.W, blocks))
        found["blocks, S^T V"].append(relative(two_layer.push(S.abs(), C, w), blocks))
        if kind != "linear":
            raw = one_layer.covariance(world, (tilde * 0 + world.x[..., None, :]).flatten(-3))
            found["no gates"].append(relative(two_layer.push(S, raw, w), slope_W))
    total = count * len(KINDS)
    yield check(
        worst(*found["V"]),
        1e-10,
        {"without positive pairs": typical(*found["V, no positives"])},
        draws=total,
        part="V",
    )
    yield check(
        worst(*found["W"]),
        1e-10,
        {
            "without positive pairs": typical(*found["W, no positives"]),
            "inputs without gates": typical(*found["no gates"]),
            "S without its off-diagonal": typical(*found["W, diagonal S"]),
            "energy without 1/2": typical(*found["W, twice"]),
        },
        draws=total,
        part="W before the projection",
        note="Eq. 119, linear, ReLU and leaky ReLU filters.",
    )
    yield check(
        worst(*found["sphere"]),
        1e-9,
        {"without the projection": typical(*found["sphere, no P"])},
        draws=total,
        part="W on the spheres",
        note="Against the gradient of the energy of normalised filters, at unit filters.",
    )
    yield check(
        worst(*found["blocks"]),
        1e-12,
        {"|S| for S": typical(*found["blocks, S^T V"])},
        draws=total,
        part="Kronecker and Hadamard",
        note="Against the sum over blocks.",
    )


def _of_W(alpha: Array, x: Array, x2: Array, V: Array, kind: str, W: Array) -> Array:
    return objective(alpha, x, x2, W, V, kind)


def _of_V(alpha: Array, x: Array, x2: Array, W: Array, kind: str, V: Array) -> Array:
    return objective(alpha, x, x2, W, V, kind)


def _along_sphere(alpha: Array, x: Array, x2: Array, W: Array, V: Array, kind: str) -> Array:
    """Gradient of W -> energy(W / |w_km|); sqrt of the sum of squares takes complex steps."""

    def scaled(w: Array) -> Array:
        return objective(alpha, x, x2, w / np.sqrt((w * w).sum(-1, keepdims=True)), V, kind)

    return ref.gradient(scaled, W)


def _blocks(S: Array, C: Array, W: Array) -> Array:
    K, M, d = W.shape[-3:]
    w, out = W.reshape(len(W), K * M, d), np.zeros((len(W), K * M, d))
    for i in range(K * M):
        for j in range(K * M):
            block = C[:, i * d : (i + 1) * d, j * d : (j + 1) * d]
            out[:, i] += S[:, i, j, None] * (block @ w[:, j, :, None])[..., 0]
    return out.reshape(W.shape)


def rem14(draws: int, seed: int) -> Iterator[Check]:
    """V' = V C through matrix exponentials: the direction it takes, and what is stationary.

    Controls: the start; the start v s_2^T left alone; V whose v has another length.
    """
    check = partial(Check, "nl/rem14")
    rng = ref.generator("rem14", seed)
    size, q = 5, 3
    basis = np.linalg.qr(rng.standard_normal((draws, size, size)))[0]
    values = np.sort(rng.uniform(0.1, 1, (draws, size)))
    values[:, -1] += 0.2
    C = (basis * values[:, None]) @ np.swapaxes(basis, 1, 2)
    s, other = basis[..., -1], basis[..., 0]
    start = rng.standard_normal((draws, q, size))
    v = unit(rng.standard_normal((draws, q)))
    grow = (basis * np.exp(150 * (values - values[:, -1:]))[:, None]) @ np.swapaxes(basis, 1, 2)
    saddle = v[:, :, None] * other[:, None]

    def off_form(V: Array) -> Array:
        V = V / np.linalg.norm(V, axis=(1, 2), keepdims=True)
        return np.linalg.norm(V - (V @ s[..., None]) * s[:, None], axis=(1, 2))

    yield check(
        worst(off_form(start @ grow)),
        1e-9,
        {"the start": typical(off_form(start))},
        draws=draws,
        part="where V goes",
        note="Distance of V / |V| from the form v s^T. V itself grows: only its direction "
        "converges, so a constraint |V| = 1 is understood, as in the analysis cited.",
    )
    move = saddle @ C
    speed = move - (move * saddle).sum((1, 2), keepdims=True) * saddle
    pushed = saddle + 1e-6 * rng.standard_normal(saddle.shape)
    controls = {"the saddle left alone": typical(off_form(saddle))}
    yield check(
        worst(off_form(saddle), np.abs(speed).max((1, 2))),
        1e-9,
        controls,
        draws=draws,
        part="necessary for stationary",
        note="Every v times another eigenvector is stationary on |V| = 1 too. The analysis cited "
        "(acl, proof of Theorem 3) is about local optima.",
        counterexample=r"$C=\mathrm{diag}(2,1)$, $V=(0,1)$: $VC=V$, so $V$ does not move on "
        r"$\|V\|=1$, and $V\ne vs^\top$ with $s=(1,0)$.",
    )
    yield check(
        worst(off_form(pushed @ grow)),
        1e-6,
        controls,
        draws=draws,
        part="necessary for stationary",
        form="corrected",
        correction=r"$V=vs^\top$ is necessary for a *stable* stationary point (on $\|V\|_F=1$).",
        note="A push of 1e-6 off v times another eigenvector ends at v s^T.",
    )
    top = two_layer.top_weights(torch.from_numpy(C)).numpy()
    V = v[:, :, None] * top[:, None]
    S = np.einsum("bqi,bqj->bij", V, V)
    product = s[:, :, None] * s[:, None]
    yield check(
        worst(relative(S, product)),
        1e-10,
        {"|v| = 2": typical(relative(4 * S, product))},
        draws=draws,
        part="S of rank 1",
    )


def rem15(draws: int, seed: int) -> Iterator[Check]:
    """Assumption 2 on a model with finitely many states, by enumeration.

    Controls: weights that are not uniform, fields that are coupled given z, noise that crosses the
    gates, variances summed without z_l^2.
    """
    check = partial(Check, "nl/rem15")
    rng = ref.generator("rem15", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    for C, K, M in settings():
        count = ref.share(draws, len(settings()))
        model, W = net_of(rng, count, C, K, M)
        law = enumerated(model, W, "relu")
        world, g = inputs(model, W, "relu")
        n = world.p.shape[-1]
        uniform = one_layer.covariance(world, g)
        skewed = world._replace(alpha=torch.from_numpy(rng.random((count, n, n))))
        found["uniform"].append(relative(uniform, law.covariance))
        found["skewed"].append(relative(one_layer.covariance(skewed, g), law.covariance))
        found["apart"].append(_between_fields(law.given, K))
        coupled = enumerated(model, W, "relu", coupling=0.4)
        found["coupled"].append(_between_fields(coupled.given, K))
        for noise in (1e-7, 1.0):
            found[f"noise {noise}"].append(_augmented(model, W, noise))
        phi = rng.random((count, n, 3))
        kernel = world._replace(alpha=torch.from_numpy(phi @ np.swapaxes(phi, 1, 2)))
        p, values = world.p.numpy(), g.numpy()
        parts = [_tilted(p * phi[..., i], values) for i in range(3)]
        summed = sum(z[:, None, None] ** 2 * variance for z, variance in parts)
        ours = one_layer.covariance(kernel, g)
        found["kernel"].append(relative(ours, summed))
        found["kernel, no z^2"].append(relative(ours, sum(v for _, v in parts)))
    total = len(settings()) * ref.share(draws, len(settings()))
    note = "Dense inputs: no field has to have a single positive component."
    for part, key, broken, name, bound in (
        ("C_alpha is V", "uniform", "skewed", "random alpha", 1e-11),
        ("independent given z", "apart", "coupled", "coupled fields", 1e-13),
        ("augmentation", "noise 1e-07", "noise 1.0", "noise that crosses gates", 1e-10),
        ("kernel alpha", "kernel", "kernel, no z^2", "without $z_l^2$", 1e-11),
    ):
        yield check(
            worst(*found[key]), bound, {name: typical(*found[broken])}, draws=total, part=part,
            note=note if key == "apart" else "",
        )  # fmt: skip


def _between_fields(given: list[Array], K: int) -> Array:
    """[draws]: largest covariance of features of different fields given z."""
    size = given[0].shape[-1] // K
    field = np.arange(K * size) // size
    apart = field[:, None] != field[None]
    return np.max([np.abs(v[:, apart]).max(-1) for v in given], 0)


def _tilted(mass: Array, g: Array) -> tuple[Array, Array]:
    """(z_l, V of g under mass / z_l)."""
    z = mass.sum(-1)
    q = (mass / z[:, None])[..., None]
    gap = g - (q * g).sum(1, keepdims=True)
    return z, np.einsum("bni,bnj->bij", q * gap, gap)


def _augmented(model: field_latent.Model, W: Array, noise: float) -> Array:
    """[draws]: |V[E_aug g] - V[g(E_aug x)]|, noise +-noise along the diagonal of every field."""
    w = torch.from_numpy(W)
    joint = field_latent.joint(model)
    x = field_latent.features(joint.states, model.values)
    moved = [two_layer.gated(x + e * noise, w).flatten(-3) for e in (-1, 1)]
    world = one_layer.World(x, joint.p)
    mean = one_layer.covariance(world, (moved[0] + moved[1]) / 2)
    return absolute(mean, one_layer.covariance(world, two_layer.gated(x, w).flatten(-3)))


# ------------------------------------------------------------------------------ linear activation


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
        velocity = ref.gradient(partial(_of_W, alpha, x, x2, V, "linear"), W)
        bent = ref.gradient(partial(_of_W, alpha, x, x2, V, "relu"), W)
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
        note="Second singular value over the first. On unit spheres the velocities are the "
        "projections of one direction, and not parallel.",
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
        "With unit filters and the projection there is none: see the control.",
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
    """K = 1, C = diag(2, 1), s = (0.8, 0.6), unit filters e_1 and -e_1: critical for Lemma 4.

    All critical points there are pairs of +-eigenvectors, so a path must leave them: the largest
    velocity when the second filter turns around to e_1.
    """
    C, s = np.diag([2.0, 1.0])[None], np.array([[0.8, 0.6]])
    speeds = []
    for angle in np.linspace(0, np.pi, 41):
        W = np.array([[[[1.0, 0.0], [-np.cos(angle), np.sin(angle)]]]])
        move = s.reshape(1, 1, 2, 1) * _force(C, s, W)[:, :, None]
        speeds.append(np.abs(project(W, move)).max())
    return float(np.max(speeds))


def eq163(draws: int, seed: int) -> Iterator[Check]:
    """The path of the proof: two filters exchanged, then straight lines, V as it was.

    Controls: other filters; plain means; filters that are not silent.
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
    controls = {
        "plain mean of two filters": typical(chord(W, s, (W + swapped) / 2)),
        "start that is not critical": typical(chord(free, s, free[:, :, [1, 0, 2]])),
    }
    yield check(
        worst(chord(W, s, swapped)),
        1e-9,
        controls,
        draws=draws,
        part="the path, V fixed",
        note=r"$b_k(W,V)$ is linear in $W$ for fixed $V$, and so the equation is read; the "
        r"exchange changes $\sum_ms_{km}w_{km}$ unless $s_{k1}=s_{k2}$.",
        counterexample=r"$K=d=1$, $C_\alpha[x]=1$, $s=(\frac45,\frac35)$, $w=(3,-4)$: $b=0$. "
        r"Exchanged, $b=-\frac75$; at $c=\frac12$, $b=-\frac7{10}$.",
    )
    a, b = s[:, None, 0::M][:, 0], s[:, 1::M]
    both = (a[..., None] * W[:, :, 0] + b[..., None] * W[:, :, 1]) / (a + b)[..., None]
    merged = W.copy()
    merged[:, :, 0] = merged[:, :, 1] = both
    yield check(
        worst(chord(W, s, merged)),
        1e-9,
        controls,
        draws=draws,
        part="the path, V fixed",
        form="corrected",
        correction=r"$W'^*$ has $w_{k1}=w_{k2}=(s_{k1}\mu_1+s_{k2}\mu_2)/(s_{k1}+s_{k2})$ (for "
        r"$s_{k1}+s_{k2}\neq0$; else go straight to $W=0$). Theorem 4 (2) follows as before.",
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
    flat, silent = _silent(rng, C, K, M)
    moved = silent[:, :, [1, 0, 2]]
    yield check(
        worst(chord(silent, s, moved, flat)),
        1e-9,
        {"filters that are not silent": typical(chord(W, s, swapped))},
        draws=draws,
        part="the path, V converged",
        note="If s is a top eigenvector at the critical point, all filters are silent, and so are "
        "all combinations of them: the printed path holds, whatever s.",
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
