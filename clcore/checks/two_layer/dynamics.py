"""Two layers with receptive fields: gradients, assumptions (nl Lemma 4, Assumption 2).

Derivatives by complex steps through sums over pairs meet `clcore.theory.two_layer.two_layer`.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.two_layer.latent import enumerated, inputs, net_of, settings, table_of
from clcore.ledger import Check
from clcore.reference import Array, absolute, relative, tensors, typical, worst
from clcore.theory.one_layer import one_layer
from clcore.theory.two_layer import field_latent, two_layer

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
    # A filter that no input passes is turned around.
    drive = np.einsum("bnkd,bkmd->bnkm", np.concatenate([x, x2], 1), W).max(1)
    W = np.where((drive <= 0)[..., None], -W, W)
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
        slope_W = ref.gradient(partial(of_W, alpha, x, x2, V, kind), W)
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
        note="Eq. 119, printed without the projection, linear, ReLU and leaky ReLU filters. Eqs. "
        "14, 142, 144 and 158 to 161 go on from it; Eqs. 12 and 15 have the projection.",
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


def of_W(alpha: Array, x: Array, x2: Array, V: Array, kind: str, W: Array) -> Array:
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
    """V' = V C through matrix exponentials: the direction it takes, and where it settles.

    Printed: every stationary point has the form v s^T; corrected: every stable one. Controls: the
    start; saddles, v times another eigenvector, left alone; V whose v has another length.
    """
    check = partial(Check, "nl/rem14")
    rng = ref.generator("rem14", seed)
    size, q = 5, 3
    basis = np.linalg.qr(rng.standard_normal((draws, size, size)))[0]
    values = np.sort(rng.uniform(0.1, 1, (draws, size)))
    values[:, -1] += 0.2
    C = (basis * values[:, None]) @ np.swapaxes(basis, 1, 2)
    s = basis[..., -1]
    start = rng.standard_normal((draws, q, size))
    v = unit(rng.standard_normal((draws, q)))
    grow = (basis * np.exp(200 * (values - values[:, -1:]))[:, None]) @ np.swapaxes(basis, 1, 2)

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
    rest = np.einsum("bq,bik->bkqi", v, basis)  # v u^T for every eigenvector u, on |V| = 1
    push = rest @ C[:, None]
    push -= (push * rest).sum((-1, -2), keepdims=True) * rest
    assert np.abs(push).max() < 1e-12  # all are stationary
    control = {"the start": typical(off_form(start))}
    yield check(
        worst(*(off_form(rest[:, k]) for k in range(size))),
        1e-6,
        control,
        draws=size * draws,
        part="necessary for stationary",
        note=r"Distance from $vs^\top$ of $vu^\top$ for all eigenvectors $u$, each of which rests "
        r"on $\|V\|_F=1$. (Without that constraint only $VC=0$ rests, so not even $vs^\top$.)",
        counterexample=r"$C=\mathrm{diag}(2,1)$, $s=e_1$: $V=ve_2^\top$ has $VC=V$, no velocity "
        r"on $\|V\|_F=1$.",
    )
    pushed = rest + 1e-6 * rng.standard_normal(rest.shape)
    yield check(
        worst(*(off_form(pushed[:, k] @ grow) for k in range(size))),
        1e-6,
        control | {"the saddles left alone": typical(off_form(rest[:, 0]))},
        draws=size * draws,
        part="necessary for stationary",
        form="corrected",
        correction=r"$V=vs^\top$ is necessary for a stable stationary point with $\|V\|_F=1$.",
        note=r"Where training of $V$ settles, as Assumption 2 has it. Every $vu^\top$, pushed by "
        r"1e-6, ends at the form $vs^\top$: the others are saddles.",
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
    gates, variances summed without z_l^2, the law without alpha.
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
        own = phi_of_fields(rng, model)
        for name, weights in (("Gaussian", gaussian(model, W)), ("factors", own)):
            for weight in weights:
                error, bare, apart = carried(model, W, weight)
                found[name].append(error)
                found[name + ", bare"].append(bare)
                found[name + ", apart"].append(apart)
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
    part, control = "kernel alpha: analysis carries over", "the law without alpha"
    middle = [
        float(np.median(np.concatenate(found[f"{k}, apart"]))) for k in ("Gaussian", "factors")
    ]
    yield check(
        worst(*found["Gaussian"]),
        1e-11,
        {control: typical(*found["Gaussian, bare"])},
        draws=total,
        part=part,
        note="Lemma 5, on which Theorem 5 rests, for the terms $l=0,1,2$ of Gaussian alpha of the "
        r"sum of all $f_{1,km}$ (Lemma 1): $\tilde p_l\propto\phi_lp$ couples the fields. Given "
        f"$z$ their covariance is {middle[0]:.2g} of the largest entry in the median.",
        counterexample=r"Given $z$, two fields with outputs 0 or 1, all four states alike, "
        r"$\tau=1$: under $\tilde p_0\propto e^{-(f_{11}+f_{21})^2/2}$ state $(1,1)$ has chance "
        r"$e^{-2}/(1+2e^{-1/2}+e^{-2})=0.058$, a 1 in one field $0.316$, with square $0.100$.",
    )
    yield check(
        worst(*found["factors"]),
        1e-11,
        {control: typical(*found["factors, bare"]), "Gaussian alpha": typical(*found["Gaussian"])},
        draws=total,
        part=part,
        form="corrected",
        correction=r"The analysis carries over, term by term, if each $\phi_l$ factorises over the "
        r"fields given $z$, $\phi_l(x)=\prod_k\phi_{lk}(x_k,z)$.",
        note=f"Covariance of different fields given $z$: {middle[1]:.0e} of the largest entry.",
    )


def _between_fields(given: list[Array], K: int) -> Array:
    """[draws]: largest covariance of features of different fields given z."""
    size = given[0].shape[-1] // K
    field = np.arange(K * size) // size
    apart = field[:, None] != field[None]
    return np.max([np.abs(v[:, apart]).max(-1) for v in given], 0)


def gaussian(model: field_latent.Model, W: Array, tau: float = 0.5) -> list[Array]:
    """phi_0, phi_1, phi_2 of nl Lemma 1 for the sum of all outputs, [draws, n] each."""
    joint = field_latent.joint(model)
    x = field_latent.features(joint.states, model.values)
    h = two_layer.hidden(x, torch.from_numpy(W)).sum(-1).numpy() / np.sqrt(tau)
    return [np.exp(-(h**2) / 2) * h**power for power in range(3)]


def phi_of_fields(rng: np.random.Generator, model: field_latent.Model) -> list[Array]:
    """Three random weights [draws, n] that are products of a factor for every field given z."""
    joint = field_latent.joint(model)
    z, states = joint.z.numpy(), joint.states.numpy()
    out = []
    for _ in range(3):
        factors = rng.uniform(0.2, 1, tuple(model.table.shape))
        out.append(np.prod([factors[:, z, k, s] for k, s in enumerate(states.T)], 0))
    return out


def carried(model: field_latent.Model, W: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Lemma 5 under the law p phi / z_l: [draws] each.

    The error of its form, with this law's prior and laws of single fields given z, for V of the
    gated inputs; the error with the law p instead; and the covariance of different fields given z,
    over the largest entry.
    """
    joint = field_latent.joint(model)
    z, states, mass = joint.z.numpy(), joint.states.numpy(), joint.p.numpy() * weight
    mass = mass / mass.sum(-1, keepdims=True)
    draws, C, K, S = model.table.shape
    table = np.zeros((draws, C, K, S))
    for c in range(C):
        for k in range(K):
            for s in range(S):
                table[:, c, k, s] = mass[:, (z == c) & (states[:, k] == s)].sum(-1)
    prior = table[:, :, 0].sum(-1)
    new = field_latent.Model(*tensors(prior, table / prior[..., None, None]), model.values)
    features = table_of(model, W, "relu")
    g = field_latent.features(joint.states, features).flatten(-2).numpy()
    _, direct = _tilted(mass, g)
    given = [_tilted(mass[:, z == c], g[:, z == c])[1] for c in range(C)]
    error, bare = (relative(field_latent.covariance(m, features), direct) for m in (new, model))
    return error, bare, _between_fields(given, K) / np.abs(given).max((0, -1, -2))


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
