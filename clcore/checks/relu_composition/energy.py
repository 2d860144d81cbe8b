"""Composition against one feature: the energies in the proof of acl Theorem 6.

X_alpha is assembled in numpy from Delta, D_V and D_aug; the solutions are those of
`clcore.theory.relu.relu_two_layer`; the printed right sides are evaluated as they stand.
"""

from typing import NamedTuple

import numpy as np
import torch

from clcore import random
from clcore import reference as ref
from clcore.checks.relu_composition import exact_mixtures
from clcore.ledger import Trial, check, pooled, strict, typical
from clcore.ledger.judging import Shared
from clcore.reference import Array, mixture, relative, unit
from clcore.theory.relu import binary_latent, relu_two_layer

SETTINGS = ((2, 2), (2, 3), (3, 3), (4, 4), (5, 2), (8, 3), (12, 4))


class Energies(NamedTuple):
    """Of many models: E(theta_Omega) [draws], E(theta_m) [draws, K, d], and their ingredients."""

    whole: Array  # E(theta_Omega), [draws]
    single: Array  # E(theta_m), [draws, K, d]
    delta: Array  # Delta_m, [draws, K, d]
    scale: Array  # p0 p1
    eta: Array


def models(rng: np.random.Generator, draws: int, fields: int, modes: int) -> binary_latent.Model:
    """Random models of `binary_latent`, one per draw, with a fresh key each."""
    keys = random.fold_in(random.key(int(rng.integers(2**40))), torch.arange(draws))
    return binary_latent.draw(keys, fields, modes)


Parts = tuple[Array, Array, Array]
"""Delta [draws, K, d], p0 p1 [draws] and D_V [draws, Kd, Kd]."""


def parts(model: binary_latent.Model) -> Parts:
    """The ingredients of X_alpha, by loops."""
    p1, table, values = (v.numpy() for v in model)
    draws, fields, _, modes = values.shape
    within = np.zeros((draws, fields * modes, fields * modes))
    mean = np.zeros((draws, 2, fields, modes))
    for c, prior in enumerate((1 - p1, p1)):
        for k in range(fields):
            chance = table[:, c, k]
            mean[:, c, k] = (chance[..., None] * values[:, k]).sum(1)
            centred = values[:, k] - mean[:, c, k, None]
            block = np.einsum("b,bs,bsd,bse->bde", prior, chance, centred, centred)
            cut = slice(k * modes, (k + 1) * modes)
            within[:, cut, cut] += block
    return mean[:, 1] - mean[:, 0], p1 * (1 - p1), within


def energies(
    made_of: Parts, own: Array | float, eta: Array | float, delta: Array | None = None
) -> Energies:
    """Both solutions' energies s^T W1 X W1^T s under D_aug = diag(D_V) + own diag^2(Delta)
    + diag(eta); `delta` overrides the Delta that X_alpha is made of."""
    drawn, scale, within = made_of
    delta = drawn if delta is None else delta
    flat = delta.reshape(len(delta), -1)
    eta = np.broadcast_to(eta, flat.shape)
    augmentation = np.diagonal(within, axis1=-2, axis2=-1) + own * flat**2 + eta
    outer = scale[:, None, None] * flat[:, :, None] * flat[:, None, :]
    x = outer + within - augmentation[:, :, None] * np.eye(flat.shape[-1])
    (t_delta,) = ref.tensors(delta)
    w1, w2 = (v.numpy() for v in relu_two_layer.compositional(t_delta))
    single = np.zeros(delta.shape)
    for k, m in np.ndindex(delta.shape[1:]):
        feature = (v.numpy() for v in relu_two_layer.relay(t_delta, k, m))
        single[:, k, m] = mixture.trace(*feature, x)
    return Energies(mixture.trace(w1, w2, x), single, delta, scale, eta)


def weak(model: binary_latent.Model, delta: Array | None = None) -> Energies:
    """The energies under D_aug = diag(D_V)."""
    return energies(parts(model), 0.0, 0.0, delta)


def strong(
    model: binary_latent.Model, eta: Array | float, corrected: bool, delta: Array | None = None
) -> Energies:
    """The energies under D_aug = diag(D_V) + diag^2(Delta) + diag(eta); corrected: with p0 p1
    diag^2(Delta)."""
    return energies(parts(model), prior(model) if corrected else 1.0, eta, delta)


def prior(model: binary_latent.Model) -> Array:
    """p0 p1, [draws, 1]."""
    return (model.p1 * (1 - model.p1)).numpy()[:, None]


def one_field(delta: Array) -> Array:
    """Delta with every nonzero entry in the first field."""
    return np.concatenate([delta[:, :1], np.zeros_like(delta[:, 1:])], 1)


def salient(delta: Array) -> Array:
    """|Delta_{m*_k}|, [draws, K]."""
    return np.abs(delta).max(-1)


def added(e: Energies) -> Array:
    """[draws]: what diag^2(Delta) + diag(eta) takes from E(theta_Omega), in closed form: the mean
    of Delta^2 + eta over salient features, weighted by Delta^2, over K."""
    count, fields = e.delta.shape[:2]
    taken = np.zeros((2, count))
    for k in range(fields):
        m = np.abs(e.delta[:, k]).argmax(-1)
        a = e.delta[np.arange(count), k, m] ** 2
        taken += a * (a + e.eta.reshape(e.delta.shape)[np.arange(count), k, m]), fields * a
    return taken[0] / taken[1]


@check("acl/eq70")
def eq70(t: Trial) -> None:
    """Energies of both solutions under weak augmentation (Eq. 70).

    Given   Theorem 6's weak case, D_aug = diag(D_V); random models, K = 1..8, all joint states
            enumerated.
    Claim   E(theta_Omega) = (p0 p1/K) sum_k Delta_{m*_k}^2 and E(theta_m*) = p0 p1 Delta_m*^2.
            Left: the exact variance of the ReLU net's outputs, minus what the augmentation takes.
            Proved as well.
    Fails   without 1/K, with every feature's Delta^2, without p0 p1.
    """
    settings = ((1, 3), (2, 3), (3, 3), (4, 2), (5, 2), (8, 1))
    count = t.share(len(settings))
    part = t.part("", 1e-10, controls=pooled, draws=count * len(settings))
    for fields, modes in settings:
        model = models(t.rng, count, fields, modes)
        delta, scale, within = parts(model)
        level = np.diagonal(within, axis1=-2, axis2=-1)
        chance, states = binary_latent.joint(model)
        x = binary_latent.inputs(model, states.expand(count, -1, -1))
        weight = chance.sum(-2)

        def energy(w1: torch.Tensor, w2: torch.Tensor, x=x, weight=weight, level=level) -> Array:
            z = relu_two_layer.output(w1, w2, x)[..., 0]
            spread = (weight * z**2).sum(-1) - (weight * z).sum(-1) ** 2
            rows = (w2[..., None] * w1[..., None, :, :]).flatten(-2)[..., 0, :]
            return (spread - (rows**2 * torch.from_numpy(level.copy())).sum(-1)).numpy()

        # theta_Omega: its energy by enumeration, and p0 p1/K times the sum of salient Delta^2.
        (t_delta,) = ref.tensors(delta)
        total = (salient(delta) ** 2).sum(-1)
        ours = energy(*relu_two_layer.compositional(t_delta))
        part.add(relative(ours, scale * total / fields, 1e-3))
        if fields > 1:
            part.breaks("no 1/K", relative(ours, scale * total, 1e-3))
            every = scale * (delta**2).sum((-1, -2)) / fields
            part.breaks("all features", relative(ours, every, 1e-3))
        part.breaks("no p0 p1", relative(ours, total / fields, 1e-3))
        # theta_m*, the feature of largest |Delta_m|, model by model.
        for row in range(min(count, 50)):
            k, m = np.unravel_index(np.abs(delta[row]).argmax(), delta[row].shape)
            one = energy(*relu_two_layer.relay(t_delta, int(k), int(m)))[row]
            part.add(relative(np.array([one]), scale[row : row + 1] * delta[row, k, m] ** 2))
    part.proves(**exact_mixtures.weak_energies())


@check("acl/eq71")
def eq71(t: Trial) -> None:
    """Energies of both solutions under strong augmentation (Eqs. 71-76).

    Given   Theorem 6's strong case, D_aug = diag(D_V) + diag^2(Delta) + eta I, eta in {0, 0.01,
            0.2}; random models, K = 2..12.
    Claim   E(theta_Omega) (Eq. 71) and E(theta_m) (Eq. 72): s^T W1 X W1^T s with X assembled in
            numpy, against the printed right sides; and the chain of equalities and inequalities
            from one to the other (Eqs. 73-76).
    Fails   Eqs. 71 and 72 as printed. Corrected: D_aug = diag(D_V) + p0 p1 (diag^2(Delta) + eta
            I). Controls: Eq. 71 without 1/K; Eq. 72 with another eta; the chain with the sum over
            all k, k'.
    """
    count = t.share(3 * len(SETTINGS))
    with_draws: Shared = {"controls": pooled, "draws": t.draws}
    names = ("Eq. 71", "Eq. 72")
    printed = {name: t.part(name, 1e-10, **with_draws) for name in names}
    right = {name: t.corrected(name, 1e-10, **with_draws) for name in names}
    chain = t.part("Eqs. 73-76", 1e-10, **with_draws)
    for fields, modes in SETTINGS:
        for eta in (0.0, 0.01, 0.2):
            model = models(t.rng, count, fields, modes)
            # s^T W1 X W1^T s, as printed and with p0 p1 before both added terms, and the right
            # sides of Eqs. 71 and 72.
            typeset = strong(model, eta, corrected=False)
            e = strong(model, eta * prior(model), corrected=True)
            whole, single = _right_sides(e, eta)
            _, lower = _right_sides(e, eta + 0.01)
            for form, left in ((printed, typeset), (right, e)):
                form["Eq. 71"].add(relative(left.whole, whole, 1e-3))
                form["Eq. 71"].breaks("without 1/K", relative(left.whole, whole * fields, 1e-3))
                form["Eq. 72"].add(relative(left.single, single, 1e-3))
                form["Eq. 72"].breaks("eta larger by 0.01", relative(left.single, lower, 1e-3))
            for name in names:
                right[name].breaks("terms not times p0 p1", printed[name].errors[-1])
            # As printed each is off by 1 - p0 p1 times what the added terms take.
            one, most = added(typeset), (e.delta**2).max((-1, -2)) + eta
            for name, take, side in zip(names, (one, most), (whole, e.scale * eta), strict=True):
                size = np.maximum(np.abs(side), 1e-3)
                printed[name].fails_by((1 - e.scale) * take / size)

            # Eq. 74 (`bracket`) is Eq. 71, above -p0 p1 eta/K, and that at least -p0 p1 eta.
            a = salient(e.delta) ** 2
            total = a.sum(-1)
            cross = total**2 - (a**2).sum(-1)
            bracket = e.scale / (fields * total) * (cross - eta * total)
            gap = bracket + e.scale * eta / fields
            chain.add(relative(bracket, whole, 1e-3), -np.minimum(gap / e.scale, 0))
            chain.add(np.maximum(0, -e.scale * eta + e.scale * eta / fields))
            chain.add(gap <= 0)  # strict, by the cross products
            loose = e.scale / (fields * total) * (total**2 - eta * total)
            chain.breaks("sum over all k, k'", relative(loose, whole, 1e-3))


def _right_sides(e: Energies, eta: float) -> tuple[Array, Array]:
    """The right sides of Eq. 71, [draws], and of Eq. 72, [draws, K, d]."""
    a = salient(e.delta) ** 2
    total = a.sum(-1)
    whole = e.scale / e.delta.shape[1] * (total - (a * (a + eta)).sum(-1) / total)
    return whole, np.broadcast_to((-e.scale * eta)[:, None, None], e.single.shape)


def _rank_two(delta: Array, w: Array) -> tuple[Array, Array, Array]:
    """(W1, W2, X) with a critical W2 of rank 2 and E = 0: d = 1, weak augmentation, p0 = p1 = 1/2.

    The rows of W2 are orthonormal, over the root of 2, and orthogonal to W1 Delta.
    """
    x = np.outer(delta, delta) / 4  # D_V is diagonal at d = 1, and D_aug removes it
    w = w / np.sqrt((w**2).sum())
    along = w * delta / np.sqrt(((w * delta) ** 2).sum())
    across = np.linalg.eigh(np.outer(along, along))[1][:, :2].T  # eigenvalue 0 comes first
    return w[:, None], across / np.sqrt(2), x


def _critical(w1: Array, w2: Array, x: Array) -> float:
    """sigma_2/sigma_1 of W2. A point whose joint gradient does not lie along (W1, W2), layer by
    layer, counts as NaN."""
    t_w1, t_w2, t_x = ref.tensors(w1, w2, x)
    slopes = torch.func.grad(relu_two_layer.trace_energy, argnums=(0, 1))(t_w1, t_w2, t_x)
    for w, slope in zip((t_w1, t_w2), slopes, strict=True):
        if (slope - (slope * w).sum() * w).abs().max() > 1e-12:
            return float("nan")
    sizes = np.linalg.svd(w2, compute_uv=False)
    return float(sizes[1] / sizes[0])


def _critical_by_hand(w1: Array, w2: Array, x: Array) -> float:
    """By hand at d = 1: rows of W2 are eigenvectors of W1 X W1^T of one eigenvalue, and w1 of the
    entries of X times those of W2^T W2; the ratio from lengths of rows that are orthogonal."""
    w, gram = w1[:, 0], w2.T @ w2
    for rows, matrix in ((w2, w[:, None] * x * w), (w1.T, gram * x)):
        moved = rows @ matrix
        if np.abs(moved - (moved[0] @ rows[0]) / (rows[0] @ rows[0]) * rows).max() > 1e-12:
            return float("nan")
    lengths = np.sort((w2**2).sum(-1))
    return float(np.sqrt(lengths[0] / lengths[1])) if abs(w2[0] @ w2[1]) < 1e-12 else float("nan")


@check("acl/eq64")
def eq64(t: Trial) -> None:
    """Energy of the two-layer net as a quadratic form, W₂ of rank one (Eqs. 64-67).

    Given   random W_1 >= 0, W_2 = s^T, X_alpha of Eq. 17's form, K = 1..6 disjoint fields; for the
            rank, ends of W_2's ascent and critical points made by hand.
    Claim   tr(W2 W1 X W1^T W2^T) = s^T W1 X W1^T s = [s_k w_1k]^T X [s_k w_1k] = the double sum
            over fields k and l of s_k w_1k^T X_kl w_1l s_l (Eq. 67 as meant). A critical W_2 has
            rank 1.
    Fails   Eq. 67 as typeset, the sum over k alone, or twice that. Rank 1 where the eigenvalue of
            W1 X W1^T is double: critical points of rank 2 exist. Corrected: a simple eigenvalue.
            Control: a random W_2.
    """
    settings = ((1, 3), (2, 3), (3, 3), (4, 2), (6, 2))
    count = t.share(len(settings))
    same = t.part("Eqs. 64-66", 1e-11, controls=typical, draws=t.draws)
    double = t.part("Eq. 67", 1e-11, controls=typical, draws=t.draws)
    rank = t.part("rank-1 W2", 1e-4, controls=typical, draws=t.draws)
    simple = t.corrected("rank-1 W2", 1e-4, draws=t.draws)
    for fields, modes in settings:
        model = models(t.rng, count, fields, modes)
        augmentation = binary_latent.strong_augmentation(model, 0.2, 0.01)
        x = binary_latent.contrastive(model, augmentation).numpy()
        w1, s = t.rng.random((count, fields, modes)), t.rng.standard_normal((count, fields))
        w2, wide = s[:, None, :], mixture.blocks(w1)
        # Eqs. 64-66: the trace by the library, and three forms of it in numpy.
        value = relu_two_layer.trace_energy(*ref.tensors(w1, w2, x)).numpy()
        for other in (
            mixture.trace(w1, w2, x),
            np.einsum("bk,bkp,bpq,blq,bl->b", s, wide, x, wide, s),
            mixture.energy(x, (s[..., None] * w1).reshape(count, -1)),
        ):
            same.add(relative(other, value, 1e-3))
        # Eq. 67: the double sum over fields.
        grid = x.reshape(count, fields, modes, fields, modes)
        terms = np.einsum("bk,bkm,bkmln,bln,bl->bkl", s, w1, grid, w1, s)
        alone = np.trace(terms, axis1=-2, axis2=-1)
        double.add(relative(terms.sum((-1, -2)), value, 1e-3))
        double.breaks("twice that sum", relative(2 * alone, value, 1e-3))
        if fields == 1:
            continue
        same.breaks("sum over k alone", relative(alone, value, 1e-3))
        double.breaks("as typeset, the sum over k alone", relative(alone, value, 1e-3))
        # W2's ascent at fixed W1 is a power iteration: 2^34 steps of it, by squaring.
        inner = wide @ x @ wide.swapaxes(-1, -2)
        power = inner + np.abs(inner).sum((-1, -2))[:, None, None] * np.eye(fields)
        for _ in range(34):
            power = unit(power @ power, (-2, -1))
        begin = t.rng.standard_normal(inner.shape)
        rank.add(_second(begin @ power)).breaks("a random W2", _second(begin))
        rank.fails_by(np.zeros(count), within=1e-4)  # a simple eigenvalue
        simple.add(_second(begin @ power))
    # Critical points where the eigenvalue is double: sigma_2/sigma_1 of their W2.
    points = [_rank_two(np.array([2, 1, 0.7]), np.array([0.6, 0.5, 0.3]))]
    points += [_rank_two(t.rng.standard_normal(k), t.rng.uniform(0.1, 1, k)) for k in (3, 4, 6)]
    tied = [_critical(*point) for point in points]
    rank.add(*tied).fails_by(*(_critical_by_hand(*point) for point in points), within=1e-4)
    simple.breaks("a double eigenvalue", *tied, by=strict)


def _second(w: Array) -> Array:
    """sigma_2/sigma_1, [draws]."""
    sizes = np.linalg.svd(w, compute_uv=False)
    return sizes[:, 1] / sizes[:, 0]
