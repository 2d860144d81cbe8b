"""The binary latent model and its closed form of X_alpha (acl Sec. 5.3, Eqs. 14-17, 68, Lemma 4).

Closed forms of `clcore.theory.relu.binary_latent` meet enumeration of all states in numpy, and
large samples.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
import torch

from clcore import random
from clcore import reference as ref
from clcore.checks.relu_composition import exact_mixtures
from clcore.checks.relu_composition.energy import SETTINGS, models
from clcore.ledger import Trial, check, pooled, typical
from clcore.ledger.judging import Shared
from clcore.losses import contrast
from clcore.reference import Array, absolute, mixture, relative, tensors
from clcore.theory.relu import binary_latent, relu_two_layer

SAMPLES = 10_000
SIGMAS = 7.0  # of the largest of a few thousand errors


def _enumerate(
    model: binary_latent.Model, coupling: float = 0.0, threes: float = 0.0
) -> Iterator[tuple]:
    """(y, P(y, x) [draws], x [draws, K, d]) of all joint states, by a loop.

    `coupling` moves probability to the states in which the first two fields' states are alike,
    which breaks their independence given y. `threes` in [0, 1] couples the first three fields, of
    which any two stay independent: a share of the least chance is added or taken by a parity.
    """
    p1, table, values = (v.numpy() for v in model)
    fields, states = table.shape[2:]
    for c, prior in enumerate((1 - p1, p1)):
        for joint in product(range(states), repeat=fields):
            chance = np.prod([table[:, c, k, s] for k, s in enumerate(joint)], 0)
            if threes and max(joint[:3]) < 2:
                rest = np.prod([table[:, c, k, s] for k, s in enumerate(joint) if k > 2], 0)
                least = table[:, c, :3, :2].min(-1).prod(-1)
                chance = chance + threes * (-1) ** sum(joint[:3]) * least * rest
            if coupling:
                tied = table[:, c, 0, joint[0]] * (joint[0] == joint[1])
                rest = np.prod([table[:, c, k, s] for k, s in enumerate(joint) if k > 1], 0)
                chance = (1 - coupling) * chance + coupling * tied * rest
            yield c, prior * chance, np.stack([values[:, k, s] for k, s in enumerate(joint)], 1)


def _moments(
    model: binary_latent.Model, coupling: float = 0.0, threes: float = 0.0
) -> tuple[Array, Array]:
    """(V[x] [draws, Kd, Kd], Delta [draws, Kd]) by enumeration."""
    p1 = model.p1.numpy()
    mean, square = np.zeros((2, len(p1), model.values.shape[1] * model.values.shape[3])), 0.0
    for c, chance, x in _enumerate(model, coupling, threes):
        flat = x.reshape(len(p1), -1)
        mean[c] += chance[:, None] * flat
        square = square + chance[:, None, None] * flat[:, :, None] * flat[:, None, :]
    total = mean[0] + mean[1]
    delta = mean[1] / p1[:, None] - mean[0] / (1 - p1)[:, None]
    return square - total[:, :, None] * total[:, None, :], delta


def _flat(x: torch.Tensor | Array) -> Array:
    return np.asarray(x).reshape(*x.shape[:2], -1)


def _mean_product(x: Array) -> tuple[Array, Array]:
    """Mean of x x^T over samples [draws, n, p], and its standard errors (with a floor)."""
    n = x.shape[1]
    mean = x.swapaxes(-1, -2) @ x / n
    square = (x**2).swapaxes(-1, -2) @ x**2 / n
    return mean, np.sqrt(np.maximum(square - mean**2, 0) / n) + 1e-4


def _centred(x: Array) -> Array:
    return x - x.mean(1, keepdims=True)


def _apart(x: Array, modes: int) -> Array:
    """The entries of [draws, Kd, Kd] that join different fields: [draws, entries]."""
    field = np.arange(x.shape[-1]) // modes
    return x[:, field[:, None] != field[None, :]]


def _sigmas(found: Array, expected: Array | float, error: Array) -> Array:
    """[draws]: the largest error in standard errors."""
    return (np.abs(found - expected) / error).reshape(len(found), -1).max(-1)


def _joined(model: binary_latent.Model, variance: Array) -> Array:
    """[draws]: the largest entry between fields of E[(1 - gamma)^2 x x^T] in its standard errors,
    of all joint states and the law of one gamma for all fields: low or high of mean 1."""
    count, size = len(variance), variance[0].size
    square, fourth = np.zeros((2, count, size, size))
    for _, chance, x in _enumerate(model):
        flat = x.reshape(count, -1)
        both = flat[:, :, None] * flat[:, None, :]
        square += chance[:, None, None] * both
        fourth += chance[:, None, None] * both**2
    v = variance.mean((1, 2))[:, None, None]
    low = np.minimum(np.sqrt(v), 0.5)
    power = v * (low**2 - v + (v / low) ** 2)  # E (1 - gamma)^4
    spread = np.sqrt((power * fourth - (v * square) ** 2).clip(0) / SAMPLES) + 1e-4
    return _apart(v * square / spread, variance.shape[2]).max(-1)


def _sampled(t: Trial, count: int, fields: int, modes: int) -> tuple:
    """(model, keys, x [count, n, K, d], variances of gamma) of random models and large samples."""
    model = models(t.rng, count, fields, modes)
    keys = random.fold_in(random.key(int(t.rng.integers(2**40))), torch.arange(count))
    _, x = binary_latent.sample(keys, model, SAMPLES)
    return model, keys, x, torch.from_numpy(t.rng.uniform(0.1, 1.5, (count, fields, modes)))


@check("acl/eq14")
def eq14(t: Trial) -> None:
    """Non-overlapping fields: covariance minus a diagonal augmentation term (Eq. 14).

    Given   disjoint fields under Assumption 1; uniform alpha = 1/(2N(N - 1)); 10000 samples of
            random models, factors of augmentation of mean 1.
    Claim   sum alpha (x[i] - x[j])(x[i] - x[j])^T is the unbiased sample covariance at every N, so
            V[x] in the limit; D_aug is diagonal, and >= 0: its entries are E[(1 - gamma)^2
            x_m^2]/2.
    Fails   the variance for alpha = 1/(2N^2). D_aug across fields if one gamma serves all fields,
            which the print leaves open; corrected: a factor for every field, independent, of mean
            1. Controls: two active modes, gamma of mean 2, the diagonal without its 1/2 or
            negative.
    """
    n = 30
    x, _ = mixture.fields(t.rng, t.draws, n, 2, 3)
    flat = _flat(x)
    alpha = np.broadcast_to(1 / (2 * n * (n - 1)), (t.draws, n, n)).copy()
    ours = contrast.contrastive_covariance(*tensors(alpha, flat, flat, flat, flat))
    unbiased = np.stack([np.cov(v.T) for v in flat])
    part = t.part("variance", 1e-12, controls=typical).add(relative(ours, unbiased))
    part.breaks("alpha = 1/2N^2", relative(ours * (n - 1) / n, unbiased))
    _augmentation(t)


def _augmentation(t: Trial) -> None:
    """E[(x - x')(x - x')^T] / 2 of samples whose factors are of each field, or one for all."""
    settings = ((1, 3), (2, 3), (4, 3))
    count = min(t.draws, 8)
    within = t.part("D_aug within a field", controls=pooled, draws=2 * count)
    across, own = both = t.both("D_aug across fields", SIGMAS, controls=pooled, draws=2 * count)
    level = t.part("its diagonal", SIGMAS, controls=pooled, draws=count * len(settings))

    def largest(mean: Array) -> Array:
        return np.abs(ref.off(mean)).reshape(count, -1).max(-1)

    for fields, modes in settings:
        model, keys, x, variance = _sampled(t, count, fields, modes)

        def moments(factor: float, shared: bool = False, x=x, keys=keys, v=variance) -> tuple:
            """Mean and standard errors of gap gap^T / 2, gap = x - `factor` times its view."""
            gap = _flat(x - factor * binary_latent.scaled(keys + 1, x, v, shared))
            return tuple(value / 2 for value in _mean_product(gap))

        def between(mean: Array, error: Array, modes: int = modes) -> Array:
            return _sigmas(_apart(mean, modes), 0.0, _apart(error, modes))

        # The diagonal of D_aug, in standard errors from E[(1 - gamma)^2 x_m^2]/2.
        mean, error = moments(1.0)
        wanted = (variance * binary_latent.second_moments(model)).numpy().reshape(count, -1) / 2
        diagonal, its = (np.diagonal(v, axis1=-2, axis2=-1) for v in (mean, error))
        level.add(_sigmas(diagonal, wanted, its))
        level.breaks("no 1/2", _sigmas(diagonal, 2 * wanted, its))
        level.breaks("negative", _sigmas(diagonal, -wanted, its))

        # Of one field: its largest entry off the diagonal.
        shared = moments(1.0, shared=True)
        if fields == 1:
            within.add(largest(mean), largest(shared[0]))
            pairs = mixture.two_hot(t.rng, x[:, :, 0].numpy())
            factors = t.rng.uniform(0.5, 1.5, pairs.shape)
            within.breaks("two active modes", largest(_mean_product(pairs * factors - pairs)[0]))
            continue

        # Of several: entries between fields, where one factor serves all, and with one of each.
        across.add(between(*shared)).fails_by(_joined(model, variance.numpy()), within=0.1)
        own.add(between(mean, error)).breaks("one factor for all fields", between(*shared))
        both.breaks("mean of gamma 2", between(*moments(2.0)))


@check("acl/eq15")
def eq15(t: Trial) -> None:
    """Binary latent variable of co-occurring features, feature difference Δ (Eqs. 15-16).

    Given   random binary latent models of 2 and 3 disjoint fields, all joint states enumerated.
    Claim   Fields are independent given y: no conditional covariance between them. Delta
            = E[x|y=1] - E[x|y=0]: closed form against enumeration.
    Fails   for fields coupled given y; for y exchanged, and means not divided by P(y).
    """
    settings = ((2, 2), (2, 3), (3, 2))
    draws = t.share(len(settings))
    independent = t.part("independence given y", 1e-12, controls=pooled)
    exact = t.part("Delta", 1e-12, controls=pooled)
    for fields, modes in settings:
        model = models(t.rng, draws, fields, modes)

        # Given y, fields have no covariance.
        independent.add(_dependence(model, modes))
        independent.breaks("fields coupled", _dependence(model, modes, coupling=0.3))

        # Delta = E[x|y=1] - E[x|y=0].
        ours = binary_latent.difference(model).numpy().reshape(draws, -1)
        _, delta = _moments(model)
        exact.add(absolute(ours, delta)).breaks("y exchanged", absolute(-ours, delta))
        exact.breaks("not divided by P(y)", absolute(_undivided(model), delta))


def _undivided(model: binary_latent.Model) -> Array:
    """E[x 1(y=1)] - E[x 1(y=0)] by the library's joint states, [draws, K M]."""
    chance, states = binary_latent.joint(model)
    x = binary_latent.inputs(model, states.expand(len(chance), -1, -1)).numpy()
    weighted = np.einsum("bcj,bjkd->bckd", chance.numpy(), x).reshape(len(x), 2, -1)
    return weighted[:, 1] - weighted[:, 0]


def _dependence(model: binary_latent.Model, modes: int, coupling: float = 0.0) -> Array:
    """[draws]: the largest conditional covariance between fields, by enumeration."""
    prior = np.stack([1 - model.p1.numpy(), model.p1.numpy()])
    count, size = len(model.p1), model.values.shape[1] * modes
    mean, square = np.zeros((2, count, size)), np.zeros((2, count, size, size))
    for c, chance, x in _enumerate(model, coupling):
        flat = x.reshape(count, -1)
        weight = chance / prior[c]
        mean[c] += weight[:, None] * flat
        square[c] += weight[:, None, None] * flat[:, :, None] * flat[:, None, :]
    spread = square - mean[..., :, None] * mean[..., None, :]
    return np.abs(np.stack([_apart(s, modes) for s in spread])).max((0, 2))


@check("acl/lem4")
def lem4(t: Trial) -> None:
    """Covariance of the latent model: rank one between fields (Lemma 4).

    Given   random binary latent models: fields independent given y, K = 2..4, and three fields of
            which any two are, but not all three; all joint states enumerated.
    Claim   V[x] = p0 p1 Delta Delta^T + D_V, D_V = diag_k(E_y V[x_k|y]): the library's closed form
            against enumeration; proved as well. With Eq. 14, X_alpha is that minus D_aug.
    Fails   for fields coupled given y, without p0 p1, without D_V.
    """
    settings = ((2, 2), (2, 4), (3, 2), (3, 3), (4, 2))
    draws = t.share(len(settings))
    variance = t.part("", 1e-12, controls=pooled)
    for fields, modes in settings:
        # V[x] = p0 p1 Delta Delta^T + D_V, by the closed form and by enumeration.
        model = models(t.rng, draws, fields, modes)
        closed, within = (
            f(model).numpy() for f in (binary_latent.covariance, binary_latent.within)
        )
        enumerated, delta = _moments(model)
        outer = delta[:, :, None] * delta[:, None, :]
        variance.add(absolute(closed, enumerated))
        if fields > 2:
            variance.add(absolute(closed, _moments(model, threes=0.9)[0]))
        variance.breaks("fields coupled", absolute(closed, _moments(model, 0.3)[0]))
        variance.breaks("no p0 p1", absolute(outer + within, enumerated))
        variance.breaks("no D_V", absolute(closed - within, enumerated))
    variance.proves(**exact_mixtures.latent_variance())


@check("acl/eq17")
def eq17(t: Trial) -> None:
    """Closed form of the contrastive covariance under the latent model (Eq. 17).

    Given   fields that are independent given a binary y (Eqs. 14-16), uniform alpha; 10000 samples
            of random models, a factor of augmentation for every field, as Eq. 14 needs.
    Claim   X_alpha = p0 p1 Delta Delta^T + D_V - D_aug: closed form against C_alpha of the sample,
            computed from its moments, within 7 standard errors.
    Fails   without p0 p1, with one factor for all fields.
    """
    settings = ((2, 2), (3, 3), (4, 2))
    count = min(t.draws, 8)
    large = t.part("large samples", SIGMAS, controls=pooled)
    for fields, modes in settings:
        model, keys, x, variance = _sampled(t, count, fields, modes)
        level = (variance * binary_latent.second_moments(model)).flatten(-2) / 2
        closed = binary_latent.contrastive(model, level).numpy()
        delta = binary_latent.difference(model).flatten(-2).numpy()
        p = (model.p1 * (1 - model.p1)).numpy()[:, None, None]
        naive = closed + (1 - p) * delta[:, :, None] * delta[:, None, :]
        views = {s: binary_latent.scaled(keys + 1, x, variance, s) for s in (False, True)}

        def sigmas(expected: Array, shared: bool = False, x=x, views=views) -> Array:
            # V[x] of the sample minus half the mean of (x - x')(x - x')^T.
            spread, error = _mean_product(_centred(_flat(x)))
            own, its = (v / 2 for v in _mean_product(_flat(x - views[shared])))
            return _sigmas(spread - own, expected, error + its)

        large.add(sigmas(closed)).breaks("no p0 p1", sigmas(naive))
        large.breaks("one factor for all fields", sigmas(closed, shared=True))


@check("acl/eq68")
def eq68(t: Trial) -> None:
    """Salient features, one-hot and compositional solutions (Eqs. 68-69).

    Given   random Delta, K >= 2 disjoint fields. The library's theta_Omega reads the feature of
            largest |Delta_m| in every field, theta_m one feature m of one field.
    Claim   (1) Both have |W_1|_F = |W_2|_F = 1. (2) W_1 >= 0 has K entries, each at its field's
            largest |Delta_m|, for theta_Omega; and one entry for theta_m. (3) s of theta_Omega, its
            W_2, is the top eigenvector of W_1 Delta Delta^T W_1^T.
    Fails   (1) without 1/sqrt(K); (2) for the first feature of every field; (3) for s_k all alike.
    """
    count = t.share(len(SETTINGS))
    total: Shared = {"controls": pooled, "draws": count * len(SETTINGS)}
    norms = t.part("norms", 1e-14, **total)
    counts = t.part("entries", 0.0, **total)
    optimal = t.part("s is the top eigenvector", 1e-12, **total)
    for fields, modes in SETTINGS:
        delta = t.rng.standard_normal((count, fields, modes))
        w1, w2 = (v.numpy() for v in relu_two_layer.compositional(*tensors(delta)))
        k, m = int(t.rng.integers(fields)), int(t.rng.integers(modes))
        one1, one2 = (v.numpy() for v in relu_two_layer.relay(*tensors(delta), k, m))

        # (1) Squared norms of the layers of both solutions.
        for w in (w1, w2, one1, one2):
            norms.add(np.abs((w**2).sum((-1, -2)) - 1))
        unscaled = ((w1 * np.sqrt(fields)) ** 2).sum((-1, -2))
        norms.breaks("no 1/sqrt(K)", np.abs(unscaled - 1))

        def missed(read: Array, delta: Array = delta) -> Array:
            return (np.abs(np.abs(read) - np.abs(delta).max(-1)) > 1e-12).sum(-1)

        # (2) Entries too many, negative ones, and fields that are not read at their largest.
        surplus = (w1 > 0).sum((-1, -2)) - fields
        surplus_one = (one1 > 0).sum((-1, -2)) - 1
        negative = (w1 < 0).sum((-1, -2)) + (one1 < 0).sum((-1, -2))
        read = (w1 * delta).sum(-1) * np.sqrt(fields)
        counts.add(np.abs(surplus) + np.abs(surplus_one) + negative + missed(read))
        counts.breaks("first feature of every field", missed(delta[..., 0]))

        # (3) One minus the cosine of s and that eigenvector, by LAPACK.
        wide = mixture.blocks(w1)
        flat = delta.reshape(count, -1)
        inner = wide @ (flat[:, :, None] * flat[:, None, :]) @ wide.swapaxes(-1, -2)
        top = mixture.top(inner)
        optimal.add(1 - np.abs((top * w2[:, 0]).sum(-1)))
        optimal.breaks("all s_k alike", 1 - np.abs(top.sum(-1)) / np.sqrt(fields))
