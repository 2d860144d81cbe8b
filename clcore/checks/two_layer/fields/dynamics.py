"""Two layers with receptive fields: gradients, assumptions (nl Lemma 4, Assumption 2).

Derivatives by complex steps through sums over pairs meet `clcore.theory.two_layer.two_layer`.
"""

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.two_layer.fields.latent import SETTINGS, enumerated, inputs, net_of, table_of
from clcore.checks.two_layer.fields.monomials import DEGREES, gated
from clcore.checks.two_layer.fields.several_features import strengths_in_theorem5
from clcore.ledger import Trial, check, typical
from clcore.reference import Array, absolute, relative, sphere, tensors, unit
from clcore.theory.one_layer import one_layer
from clcore.theory.two_layer import field_latent, two_layer

KINDS = ("linear", "relu", "leaky_relu")


def activate(u: Array, kind: str) -> Array:
    """h(u) for real or complex u: the branch is chosen by the real part."""
    if kind in DEGREES:
        return u ** DEGREES[kind]
    below = {"linear": 1.0, "relu": 0.0, "leaky_relu": 0.05}[kind]
    return np.where(np.real(u) > 0, u, below * u)


def hidden(x: Array, W: Array, kind: str) -> Array:
    """h(w_km^T x_k), [..., n, K*M]."""
    u = (x[..., None, :] * W[..., None, :, :, :]).sum(-1)
    return activate(u, kind).reshape(*u.shape[:-2], -1)


def batch(rng: np.random.Generator, draws: int, K: int, M: int, d: int, q: int = 3, n: int = 5):
    """Two views, alpha, W with unit filters, V."""
    x = rng.standard_normal((draws, n, K, d))
    x2 = x + 0.5 * rng.standard_normal(x.shape)
    W = sphere(rng, draws, K, M, d)
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


@check("nl/lem4")
def lem4(t: Trial) -> None:
    """Training dynamics of a two-layer network with receptive fields (Lemma 4, Eq. 12).

    Given   two layers with disjoint receptive fields, random asymmetric alpha held; linear, ReLU,
            leaky ReLU, and h = x^p, p = 2, 3, where dw/dt is 1/p of the form.
    Claim   dV/dt = V C_alpha[f_1] and dw/dt = P_w [(S kron 1 1^T) o C_alpha[x~]] w: complex steps
            of the energy, before the projection (Eq. 119) and on the spheres; the printed matrix
            of Kronecker's and Hadamard's product, times w, is the sum over blocks.
    Fails   without positive pairs, 1/2, gates, S's off-diagonal or the projection; for |S|, for
            Kronecker's factors exchanged; for x^p with 1 in place of 1/p.
    """
    top = t.part("V", 1e-10, controls=typical)
    filters = t.part("W before the projection", 1e-10, controls=typical)
    sphere = t.part("W on the spheres", 1e-9, controls=typical)
    blocks = t.part("Kronecker and Hadamard", 1e-12, controls=typical)
    for kind in KINDS:
        x, x2, alpha, W, V = batch(t.rng, t.share(len(KINDS)), 2, 2, 3)
        energy = partial(objective, alpha, x, x2)
        a, b, b2, w, v = tensors(alpha, x, x2, W, V)
        world = two_layer.of_views(a, b, b2)
        flow = two_layer.flow(world, w, v, kind)
        lone = two_layer.flow(two_layer.of_views(a, b, b), w, v, kind)  # both views the same
        tilde, S = two_layer.gated(world.x, w, kind), v.mT @ v
        C = one_layer.covariance(world, tilde.flatten(-3))

        # V C_alpha[f_1] against the energy's gradient in V.
        slope = ref.gradient(partial(energy, W, kind=kind), V)
        top.add(relative(flow.V, slope))
        top.breaks("without positive pairs", relative(lone.V, slope))

        # [(S kron 1 1^T) o C_alpha[x~]] w against its gradient in W.
        slope = ref.gradient(partial(energy, V=V, kind=kind), W)
        diagonal = torch.diag_embed(S.diagonal(dim1=-2, dim2=-1))
        filters.add(relative(flow.W, slope))
        filters.breaks("without positive pairs", relative(lone.W, slope))
        filters.breaks("energy without 1/2", relative(2 * flow.W, slope))
        alone = two_layer.push(diagonal, C, w)
        filters.breaks("S without its off-diagonal", relative(alone, slope))
        if kind != "linear":
            raw = one_layer.covariance(world, (tilde * 0 + world.x[..., None, :]).flatten(-3))
            filters.breaks("inputs without gates", relative(two_layer.push(S, raw, w), slope))

        # P_w of it against the gradient of the energy of w / |w|.
        on_sphere = two_layer.tangent(w, flow.W)
        sphere.add(relative(on_sphere, _along_sphere(alpha, x, x2, W, V, kind)))
        sphere.breaks("without the projection", relative(flow.W, on_sphere))

        # The printed matrix times w, and the library's, against the sum over blocks S_ij C_ij w_j.
        top_gram, moments, ones = S.numpy(), C.numpy(), np.ones((W.shape[-1],) * 2)
        wide = np.stack([np.kron(one, ones) for one in top_gram])
        turned = np.stack([np.kron(ones, one) for one in top_gram])
        summed = _blocks(top_gram, moments, W)
        blocks.add(relative(_stacked(wide * moments, W), summed), relative(flow.W, summed))
        blocks.breaks("|S| for S", relative(_stacked(np.abs(wide) * moments, W), summed))
        exchanged = relative(_stacked(turned * moments, W), summed)
        blocks.breaks(r"$1_d1_d^\top\otimes S$", exchanged)

    # W for h = x^p: the gradient is 1/p of Eq. 119.
    powers = t.part("monomials", 1e-10, controls=typical)
    for kind, degree in DEGREES.items():
        x, x2, alpha, W, V = batch(t.rng, t.share(len(DEGREES)), 2, 2, 3)
        slope = ref.gradient(partial(objective, alpha, x, x2, V=V, kind=kind), W)
        a, b, b2, w, v = tensors(alpha, x, x2, W, V)
        world = two_layer.of_views(a, b, b2)
        C = one_layer.covariance(world, gated(world.x, w, kind).flatten(-3))
        ours = two_layer.push(v.mT @ v, C, w)
        powers.add(relative(ours / degree, slope)).breaks("constant 1", relative(ours, slope))


def _along_sphere(alpha: Array, x: Array, x2: Array, W: Array, V: Array, kind: str) -> Array:
    """Gradient of W -> energy(W / |w_km|)."""
    return ref.gradient(lambda w: objective(alpha, x, x2, unit(w), V, kind), W)


def _blocks(S: Array, C: Array, W: Array) -> Array:
    """sum_j S_ij C_ij w_j, as W, by a loop over filters."""
    d, count = W.shape[-1], S.shape[-1]
    w, out = W.reshape(len(W), count, d), np.zeros((len(W), count, d))
    for i, j in product(range(count), repeat=2):
        block = C[:, i * d : (i + 1) * d, j * d : (j + 1) * d]
        out[:, i] += S[:, i, j, None] * (block @ w[:, j, :, None])[..., 0]
    return out.reshape(W.shape)


def _stacked(matrix: Array, W: Array) -> Array:
    """A matrix times w, the filters stacked, as W."""
    return (matrix @ W.reshape(len(W), -1, 1)).reshape(W.shape)


def _both_rest() -> Array:
    """Velocities on the spheres of V = v e_2^T and of w_1 = w_2 = e_1, h linear, inputs of two
    independent fields with variances (2, 1) and (1, 1/2): C_alpha[f_1] = diag(2, 1)."""
    V, W = np.array([[0.0, 0.6], [0.0, 0.8]]), np.zeros((1, 2, 1, 2))
    W[..., 0] = 1
    C = np.diag([2.0, 1.0])
    top = V @ C - (V * (V @ C)).sum() * V
    low = _blocks((V.T @ V)[None], np.diag([2.0, 1.0, 1.0, 0.5])[None], W)
    return np.append(top, low - (W * low).sum(-1, keepdims=True) * W).round(15)


@check("nl/rem14")
def rem14(t: Trial) -> None:
    """Stationary top layer is rank one, along the top eigenvector (Sec. 4, after Lemma 4).

    Given   C = C_alpha[f_1] with a distinct largest eigenvalue and top eigenvector s; V' = V C by
            matrix exponentials, the norm of V held at 1.
    Claim   V goes to the form v s^T, and that form is necessary for a stationary point. That S =
            s s^T is then of rank 1 is algebra, and not tested.
    Fails   necessary: v u^T is stationary for every eigenvector u, and W can rest with it, as in
            one example of independent fields. Corrected: for a stable one. Controls: the start, v
            u^T that is not pushed.
    """
    size, outputs = 5, 3
    basis = np.linalg.qr(t.rng.standard_normal((t.draws, size, size)))[0]
    values = np.sort(t.rng.uniform(0.1, 1, (t.draws, size)))
    values[:, -1] += 0.2
    C = (basis * values[:, None]) @ np.swapaxes(basis, 1, 2)
    s = basis[..., -1]
    start = t.rng.standard_normal((t.draws, outputs, size))
    v = sphere(t.rng, t.draws, outputs)

    def off_form(V: Array) -> Array:
        """How far V, at norm 1, is from the form v s^T."""
        V = unit(V, (1, 2))
        return np.linalg.norm(V - (V @ s[..., None]) * s[:, None], axis=(1, 2))

    # Where V goes: V exp(200 C), but for its norm.
    grow = (basis * np.exp(200 * (values - values[:, -1:]))[:, None]) @ np.swapaxes(basis, 1, 2)
    ends = t.part("where V goes", 1e-9, controls=typical)
    ends.add(off_form(start @ grow)).breaks("the start", off_form(start))

    # v u^T is stationary on |V| = 1 for every eigenvector u; pushed by 1e-6, all go to the form.
    rest = np.einsum("bq,bik->bkqi", v, basis)
    push = rest @ C[:, None]
    push -= (push * rest).sum((-1, -2), keepdims=True) * rest
    assert np.abs(push).max() < 1e-12
    assert not _both_rest().any()
    pushed = rest + 1e-6 * t.rng.standard_normal(rest.shape)
    printed, stable = necessary = t.both("necessary for stationary", 1e-6, controls=typical)
    printed.add(*(off_form(rest[:, k]) for k in range(size)))
    printed.fails_by(*(np.full(t.draws, float(k < size - 1)) for k in range(size)))  # |v u^T| is 1
    stable.add(*(off_form(pushed[:, k] @ grow) for k in range(size)))
    necessary.breaks("the start", off_form(start))
    stable.breaks("the saddles left alone", off_form(rest[:, 0]))


@check("nl/rem15")
def rem15(t: Trial) -> None:
    """Assumptions for two layers: uniform α, fast top layer, independence given z (Assumption 2,
    Eq. 13).

    Given   models with finitely many states, all enumerated; fields independent given z; ReLU.
    Claim   (a) C_alpha[g] = V[g] at uniform alpha; (c) no covariance between fields given z;
            augmentation that keeps the gates changes nothing; for kernel alpha the analysis
            carries over, several variances combined by Lemma 1, and so does Theorem 5.
    Fails   carries over: for Gaussian alpha of the sum of all f_1, which couples the fields given
            z, and single strengths delta_k can be negative. Corrected: features that are products
            over the fields; strengths summed over features. Controls: random alpha, coupled fields,
            noise that crosses gates, no z_l^2, the law without alpha, the bottom eigenvector for s.
    """
    whole = t.part("C_alpha is V", 1e-11, controls=typical)
    given = t.part("independent given z", 1e-13, controls=typical)
    augmented = t.part("augmentation", 1e-10, controls=typical)
    terms = t.part("kernel alpha", 1e-11, controls=typical)
    count = t.share(len(SETTINGS))
    more: dict[str, Any] = {"controls": typical, "draws": count * len(SETTINGS)}
    carries = t.both("kernel alpha: analysis carries over", 1e-11, **more)
    coupling: dict[str, list[Array]] = {"printed": [], "corrected": []}
    for C, K, M in SETTINGS:
        model, W = net_of(t.rng, count, C, K, M)
        law, coupled = (enumerated(model, W, "relu", c) for c in (0.0, 0.4))
        world, g = inputs(model, W, "relu")
        states = world.p.shape[-1]

        # (a) C_alpha of gated inputs at alpha = 1, against the enumerated variance.
        skewed = world._replace(alpha=torch.from_numpy(t.rng.random((count, states, states))))
        whole.add(relative(one_layer.covariance(world, g), law.covariance))
        whole.breaks("random alpha", relative(one_layer.covariance(skewed, g), law.covariance))

        # (c) Covariances between fields given z, which are 0.
        given.add(_between_fields(law.given, K))
        given.breaks("coupled fields", _between_fields(coupled.given, K))
        # V[E_aug g] and V[g(E_aug x)], g the gated inputs.
        augmented.add(_augmented(model, W, 1e-7))
        augmented.breaks("noise that crosses gates", _augmented(model, W, 1.0))

        # C_alpha of alpha = sum_l phi_l phi_l^T, and sum_l z_l^2 V_l, V_l under p phi_l / z_l.
        phi = t.rng.random((count, states, 3))
        kernel = world._replace(alpha=torch.from_numpy(phi @ np.swapaxes(phi, 1, 2)))
        laws = [_tilted(world.p.numpy() * phi[..., i], g.numpy()) for i in range(3)]
        ours = one_layer.covariance(kernel, g)
        weighted = np.sum([z[:, None, None] ** 2 * variance for z, variance in laws], 0)
        terms.add(relative(ours, weighted))
        bare = np.sum([variance for _, variance in laws], 0)
        terms.breaks("without $z_l^2$", relative(ours, bare))

        # Lemma 5's form and V, under each p phi_l / z_l: Gaussian alpha, product features.
        weights_of = gaussian(model, W), phi_of_fields(t.rng, model)
        for part, weights in zip(carries, weights_of, strict=True):
            for weight in weights:
                error, bare, apart = carried(model, W, weight)
                part.add(error).breaks("the law without alpha", bare)
                coupling[part.form].append(apart)
        carries.printed.fails_by(*left_out(model, W))
    carries.corrected.breaks("Gaussian alpha", *carries.printed.errors)

    # The counterexample, two fields of two states, and its numbers by hand.
    pair = np.exp(-(np.add.outer([0, 1], [0, 1]) ** 2) / 2)
    one = pair[1].sum() / pair.sum()
    carries.printed.says(both=pair[1, 1] / pair.sum(), one=one, square=one**2)
    total = np.exp(2) + 2 * np.exp(1.5) + 1
    one = (np.exp(1.5) + 1) / total
    carries.printed.confirms(both=1 / total, one=one, square=one**2)
    for part in carries:
        part.says(coupling=np.median(np.concatenate(coupling[part.form])))
    strengths_in_theorem5(t)


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
    for c, k, s in np.ndindex(C, K, S):
        table[:, c, k, s] = mass[:, (z == c) & (states[:, k] == s)].sum(-1)
    prior = table[:, :, 0].sum(-1)
    new = field_latent.Model(*tensors(prior, table / prior[..., None, None]), model.values)
    features = table_of(model, W, "relu")
    g = field_latent.features(joint.states, features).flatten(-2).numpy()
    _, direct = _tilted(mass, g)
    given = [_tilted(mass[:, z == c], g[:, z == c])[1] for c in range(C)]
    error, bare = (relative(field_latent.covariance(m, features), direct) for m in (new, model))
    return error, bare, _between_fields(given, K) / np.abs(given).max((0, -1, -2))


def left_out(model: field_latent.Model, W: Array, tau: float = 0.5) -> list[Array]:
    """What Lemma 5 leaves out under each law of `gaussian`, [draws]: the covariance of different
    fields given z, over the largest entry of V; summed over a list of the states."""
    prior, table, values = (v.numpy() for v in model)
    fields = range(values.shape[1])
    states = list(product(range(values.shape[2]), repeat=len(fields)))
    x = np.stack([values[:, fields, s] for s in states], 1)
    law = np.stack([table[:, :, fields, s].prod(-1) for s in states], 1) * prior[:, None]
    u = np.einsum("bnkd,bkmd->bnkm", x, W)
    g = ((u > 0)[..., None] * x[:, :, :, None]).reshape(*x.shape[:2], -1)
    h = np.maximum(u, 0).sum((2, 3))[..., None] / np.sqrt(tau)
    field = np.repeat(fields, g.shape[-1] // len(fields))
    found = []
    for power in range(3):
        mass = law * np.exp(-(h**2) / 2) * h**power
        z, first = mass.sum(1), np.einsum("bnc,bni->bci", mass, g)
        square = np.einsum("bnc,bni,bnj->bcij", mass, g, g)
        given = (square - first[..., None] * first[:, :, None] / z[..., None, None]).sum(1)
        total = first.sum(1)
        outer = total[:, :, None] * total[:, None] / z.sum(1)[:, None, None]
        apart = np.abs(given[:, field[:, None] != field]).max(-1)
        found.append(apart / np.abs(square.sum(1) - outer).max((1, 2)))
    return found


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
