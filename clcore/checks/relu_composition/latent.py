"""The binary latent model and its closed form of X_alpha (acl Sec. 5.3, Eqs. 14-17, 68, Lemma 4).

Closed forms of `clcore.theory.relu.binary_latent` meet enumeration of all states in numpy, and
large samples.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import torch

from clcore import random
from clcore import reference as ref
from clcore.checks.relu_composition.energy import SETTINGS, models
from clcore.ledger import Check, check
from clcore.losses import contrast
from clcore.reference import Array, absolute, mixture, relative, tensors, typical, worst
from clcore.theory.relu import binary_latent, relu_two_layer

SAMPLES = 10_000
SIGMAS = 7.0  # of the largest of a few thousand errors


def _enumerate(model: binary_latent.Model, coupling: float = 0.0) -> Iterator[tuple]:
    """(y, P(y, x) [draws], x [draws, K, d]) of all joint states, by a loop.

    `coupling` moves probability to the states in which the first two fields' states are alike,
    which breaks their independence given y.
    """
    p1, table, values = (v.numpy() for v in model)
    fields, states = table.shape[2:]
    for c, prior in enumerate((1 - p1, p1)):
        for joint in product(range(states), repeat=fields):
            chance = np.prod([table[:, c, k, s] for k, s in enumerate(joint)], 0)
            if coupling:
                tied = table[:, c, 0, joint[0]] * (joint[0] == joint[1])
                rest = np.prod([table[:, c, k, s] for k, s in enumerate(joint) if k > 1], 0)
                chance = (1 - coupling) * chance + coupling * tied * rest
            yield c, prior * chance, np.stack([values[:, k, s] for k, s in enumerate(joint)], 1)


def _moments(model: binary_latent.Model, coupling: float = 0.0) -> tuple[Array, Array]:
    """(V[x] [draws, Kd, Kd], Delta [draws, Kd]) by enumeration."""
    p1 = model.p1.numpy()
    mean, square = np.zeros((2, len(p1), model.values.shape[1] * model.values.shape[3])), 0.0
    for c, chance, x in _enumerate(model, coupling):
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


@check("acl/eq14")
def eq14(draws: int, seed: int) -> Iterator[Check]:
    """Uniform alpha gives the variance; the augmentation's part is diagonal within a field only.

    Controls: another normalisation; one factor shared by all fields; factors of another mean.
    """
    check = partial(Check, "acl/eq14")
    rng = ref.generator("eq14", seed)
    n = 30
    x, _ = mixture.fields(rng, draws, n, 2, 3)
    flat = _flat(x)
    alpha = np.broadcast_to(1 / (2 * n * (n - 1)), (draws, n, n)).copy()
    ours = contrast.contrastive_covariance(*tensors(alpha, flat, flat, flat, flat))
    unbiased = np.stack([np.cov(v.T) for v in flat])
    yield check(
        worst(relative(ours, unbiased)),
        1e-12,
        {"alpha = 1/2N^2": typical(relative(ours * (n - 1) / n, unbiased))},
        draws=draws,
        part="variance",
        note="Against the unbiased sample covariance: equal at every N, so the limit is V[x].",
    )
    found: dict[str, list[Array]] = defaultdict(list)
    settings = ((1, 3), (2, 3), (4, 3))
    count = min(draws, 8)
    for fields, modes in settings:
        model = models(rng, count, fields, modes)
        keys = random.fold_in(random.key(int(rng.integers(2**40))), torch.arange(count))
        _, x = binary_latent.sample(keys, model, SAMPLES)
        variance = torch.from_numpy(rng.uniform(0.1, 1.5, (count, fields, modes)))
        for shared in (False, True):
            gap = _flat(x - binary_latent.scaled(keys + 1, x, variance, shared))
            mean, error = (v / 2 for v in _mean_product(gap))
            if fields == 1:
                found["one field"].append(np.abs(ref.off(mean)).reshape(count, -1).max(-1))
            else:
                name = "shared" if shared else "own"
                found[name].append(_sigmas(_apart(mean, modes), 0.0, _apart(error, modes)))
            if not shared:
                moments = (variance * binary_latent.second_moments(model)).numpy()
                wanted = moments.reshape(count, -1) / 2
                diagonal, its = (np.diagonal(v, axis1=-2, axis2=-1) for v in (mean, error))
                found["diagonal"].append(_sigmas(diagonal, wanted, its))
                found["no 1/2"].append(_sigmas(diagonal, 2 * wanted, its))
                found["negative"].append(_sigmas(diagonal, -wanted, its))
        if fields > 1:
            biased = _flat(x - 2 * binary_latent.scaled(keys + 1, x, variance))
            mean, error = (v / 2 for v in _mean_product(biased))
            found["biased"].append(_sigmas(_apart(mean, modes), 0.0, _apart(error, modes)))
        else:
            pairs = mixture.two_hot(rng, x[:, :, 0].numpy())
            own = pairs * rng.uniform(0.5, 1.5, pairs.shape) - pairs
            mean, _ = _mean_product(own)
            found["two active modes"].append(np.abs(ref.off(mean)).reshape(count, -1).max(-1))
    total = count * len(settings)
    shared = typical(np.concatenate(found["shared"]))
    factors = {"mean of gamma 2": typical(np.concatenate(found["biased"]))}
    yield check(
        worst(*found["one field"]),
        0.0,
        {"two active modes": typical(np.concatenate(found["two active modes"]))},
        draws=2 * count,
        part="D_aug within a field",
        note="Largest off-diagonal entry.",
    )
    yield check(
        worst(*found["shared"]),
        SIGMAS,
        factors,
        draws=2 * count,
        part="D_aug across fields",
        note=f"Largest entry between fields, in standard errors, {SAMPLES} samples; one factor "
        "gamma[i] for all fields, as Assumption 1 prints it. That $D_{aug}$ is diagonal does not "
        "follow from Assumption 1: it is an extra assumption. Lemma 4 and Theorem 6 take $D_{aug}$ "
        "as given.",
        counterexample=r"$K=2$, $d=1$, $x=(1,1)$ always, $\gamma=1\pm\tfrac12$: "
        r"$\sum_i\beta_i(x-x')(x-x')^\top=\tfrac18$ in all four entries.",
    )
    yield check(
        worst(*found["own"]),
        SIGMAS,
        {"one factor for all fields": shared, **factors},
        draws=2 * count,
        part="D_aug across fields",
        form="corrected",
        correction=r"Diagonal under an extra assumption: for instance, every field has its own "
        r"factor $\gamma_k[i]$, independent of the others given $x$ and of mean 1 (or $K=1$).",
    )
    yield check(
        worst(*found["diagonal"]),
        SIGMAS,
        {
            "no 1/2": typical(np.concatenate(found["no 1/2"])),
            "negative": typical(np.concatenate(found["negative"])),
        },
        draws=total,
        part="its diagonal",
        note=r"It is $\tfrac12E[(1-\gamma)^2x_m^2]\ge0$, whichever way $\gamma$ scales.",
    )


@check("acl/eq15")
def eq15(draws: int, seed: int) -> Iterator[Check]:
    """Fields are independent given y; Delta by enumeration and from samples.

    Controls: fields coupled given y; y exchanged, means not divided by P(y).
    """
    check = partial(Check, "acl/eq15")
    rng = ref.generator("eq15", seed)
    free, tied, exact, flipped, joint_mean = [], [], [], [], []
    settings = ((2, 2), (2, 3), (3, 2))
    count = ref.share(draws, len(settings))
    sampled, swapped = [], []
    for fields, modes in settings:
        model = models(rng, count, fields, modes)
        prior = np.stack([1 - model.p1.numpy(), model.p1.numpy()])
        for coupling, found in ((0.0, free), (0.3, tied)):
            size = fields * modes
            mean, square = np.zeros((2, count, size)), np.zeros((2, count, size, size))
            for c, chance, x in _enumerate(model, coupling):
                flat = x.reshape(count, -1)
                weight = chance / prior[c]
                mean[c] += weight[:, None] * flat
                square[c] += weight[:, None, None] * flat[:, :, None] * flat[:, None, :]
            spread = square - mean[..., :, None] * mean[..., None, :]
            found.append(np.abs(np.stack([_apart(s, modes) for s in spread])).max((0, 2)))
        _, delta = _moments(model)
        ours = binary_latent.difference(model).numpy().reshape(count, -1)
        exact.append(absolute(ours, delta))
        flipped.append(absolute(-ours, delta))
        chance, states = binary_latent.joint(model)
        x = binary_latent.inputs(model, states.expand(count, -1, -1)).numpy()
        weighted = np.einsum("bcj,bjkd->bckd", chance.numpy(), x).reshape(count, 2, -1)
        joint_mean.append(absolute(weighted[:, 1] - weighted[:, 0], delta))
        few = min(count, 8)
        small = binary_latent.Model(*(v[:few] for v in model))
        keys = random.fold_in(random.key(int(rng.integers(2**40))), torch.arange(few))
        y, x = binary_latent.sample(keys, small, SAMPLES)
        y, flat = y.numpy().astype(bool), _flat(x)
        for row in range(few):
            one, zero = flat[row][y[row]], flat[row][~y[row]]
            error = np.sqrt(one.var(0) / len(one) + zero.var(0) / len(zero)) + 3e-3
            gap = one.mean(0) - zero.mean(0)
            sampled.append((np.abs(gap - delta[row]) / error).max())
            swapped.append((np.abs(gap + delta[row]) / error).max())
    total = count * len(settings)
    yield check(
        worst(*free),
        1e-12,
        {"fields coupled": typical(np.concatenate(tied))},
        draws=total,
        part="independence given y",
        note="Largest conditional covariance between fields, by enumeration.",
    )
    yield check(
        worst(*exact),
        1e-12,
        {
            "y exchanged": typical(np.concatenate(flipped)),
            "not divided by P(y)": typical(np.concatenate(joint_mean)),
        },
        draws=total,
        part="Delta",
    )
    yield check(
        float(max(sampled)),
        SIGMAS,
        {"y exchanged": float(np.median(swapped))},
        draws=len(sampled),
        part="sampler",
        note=f"Delta of {SAMPLES} samples, in standard errors.",
    )


@check("acl/lem4")
def lem4(draws: int, seed: int) -> Iterator[Check]:
    """V[x] = p0 p1 Delta Delta^T + D_V, against the enumeration of all joint states.

    Controls: fields coupled given y, p0 p1 left out, D_V left out.
    """
    rng, errors = ref.generator("lem4", seed), []
    broken: dict[str, list[Array]] = defaultdict(list)
    settings = ((2, 2), (2, 4), (3, 2), (3, 3), (4, 2))
    count = ref.share(draws, len(settings))
    for fields, modes in settings:
        model = models(rng, count, fields, modes)
        ours = binary_latent.covariance(model).numpy()
        variance, delta = _moments(model)
        outer = delta[:, :, None] * delta[:, None, :]
        within = binary_latent.within(model).numpy()
        errors.append(absolute(ours, variance))
        broken["fields coupled"].append(absolute(ours, _moments(model, 0.3)[0]))
        broken["no p0 p1"].append(absolute(outer + within, variance))
        broken["no D_V"].append(absolute(ours - within, variance))
    yield Check("acl/lem4", worst(*errors), 1e-12, ref.pooled(broken), draws=count * len(settings))


@check("acl/eq17")
def eq17(draws: int, seed: int) -> Iterator[Check]:
    """X_alpha = p0 p1 Delta Delta^T + D_V - D_aug, against C_alpha of large samples.

    Every field has its own factor, as Eq. 14 needs. Controls: one factor for all, p0 p1 left out.
    """
    check = partial(Check, "acl/eq17")
    rng = ref.generator("eq17", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    settings = ((2, 2), (3, 3), (4, 2))
    count = min(draws, 8)
    for fields, modes in settings:
        model = models(rng, count, fields, modes)
        keys = random.fold_in(random.key(int(rng.integers(2**40))), torch.arange(count))
        _, x = binary_latent.sample(keys, model, SAMPLES)
        variance = torch.from_numpy(rng.uniform(0.1, 1.5, (count, fields, modes)))
        level = (variance * binary_latent.second_moments(model)).flatten(-2) / 2
        closed = binary_latent.contrastive(model, level).numpy()
        delta = binary_latent.difference(model).flatten(-2).numpy()
        p = (model.p1 * (1 - model.p1)).numpy()[:, None, None]
        naive = closed + (1 - p) * delta[:, :, None] * delta[:, None, :]
        for shared in (False, True):
            x2 = binary_latent.scaled(keys + 1, x, variance, shared)
            spread, error = _mean_product(_centred(_flat(x)))
            own, its = (v / 2 for v in _mean_product(_flat(x - x2)))
            found["shared" if shared else "own"].append(_sigmas(spread - own, closed, error + its))
            if not shared:
                found["no p0 p1"].append(_sigmas(spread - own, naive, error + its))
                # What stands here for C_alpha is C_alpha: at 40 samples by the loop over pairs.
                few, few2 = _flat(x)[:, :40], _flat(x2)[:, :40]
                alpha = np.full((count, 40, 40), 1 / (2 * 40 * 39))
                direct = ref.covariance(alpha, few, few2, few, few2)
                quick = _mean_product(_centred(few))[0] * 40 / 39 - _mean_product(few - few2)[0] / 2
                found["direct"].append(relative(quick, direct))
                found["biased"].append(
                    relative(
                        _mean_product(_centred(few))[0] - _mean_product(few - few2)[0] / 2, direct
                    )
                )
    total = count * len(settings)
    yield check(
        worst(*found["own"]),
        SIGMAS,
        {
            "one factor for all fields": typical(np.concatenate(found["shared"])),
            "no p0 p1": typical(np.concatenate(found["no p0 p1"])),
        },
        draws=total,
        part="large samples",
        note=f"Largest entrywise error in standard errors, {SAMPLES} samples. Eq. 14 is taken as "
        "given; it is met here by a factor of its own for every field. With one gamma[i] for all "
        "fields, as Assumption 1 prints it, $D_{aug}$ is not diagonal and the equation fails (the "
        "control); see acl/eq14.",
    )
    yield check(
        worst(*found["direct"]),
        1e-11,
        {"1/N for 1/(N-1)": typical(np.concatenate(found["biased"]))},
        draws=total,
        part="the sample's C_alpha",
        note="Moments used above against the double sum over pairs, 40 samples.",
    )


@check("acl/eq68")
def eq68(draws: int, seed: int) -> Iterator[Check]:
    """theta_Omega and theta_m lie in Theta, with the entries they should have, and s is optimal.

    Controls: no 1/sqrt(K), all s_k alike.
    """
    check = partial(Check, "acl/eq68")
    rng = ref.generator("eq68", seed)
    norms, counts, angles = [], [], []
    broken: dict[str, list[Array]] = defaultdict(list)
    settings = [s for s in SETTINGS if s[0] > 1]
    count = ref.share(draws, len(settings))
    for fields, modes in settings:
        delta = rng.standard_normal((count, fields, modes))
        w1, w2 = (v.numpy() for v in relu_two_layer.compositional(*tensors(delta)))
        k, m = int(rng.integers(fields)), int(rng.integers(modes))
        one1, one2 = (v.numpy() for v in relu_two_layer.relay(*tensors(delta), k, m))
        for w in (w1, w2, one1, one2):
            norms.append(np.abs((w**2).sum((-1, -2)) - 1))
        broken["no 1/sqrt(K)"].append(np.abs(((w1 * np.sqrt(fields)) ** 2).sum((-1, -2)) - 1))
        entries = (w1 > 0).sum((-1, -2)) - fields, (one1 > 0).sum((-1, -2)) - 1
        negative = (w1 < 0).sum((-1, -2)) + (one1 < 0).sum((-1, -2))
        # W1 must read the entry of largest |Delta| in every field.
        rows = np.abs((w1 * delta).sum(-1)) * np.sqrt(fields)
        missed = (np.abs(rows - np.abs(delta).max(-1)) > 1e-12).sum(-1)
        counts.append(np.abs(entries[0]) + np.abs(entries[1]) + negative + missed)
        wide = mixture.blocks(w1)
        flat = delta.reshape(count, -1)
        inner = wide @ (flat[:, :, None] * flat[:, None, :]) @ wide.swapaxes(-1, -2)
        top = mixture.top(inner)
        angles.append(1 - np.abs((top * w2[:, 0]).sum(-1)))
        broken["all s_k alike"].append(1 - np.abs(top.sum(-1)) / np.sqrt(fields))
        broken["first feature of every field"].append(
            (np.abs(np.abs(delta[..., 0]) - np.abs(delta).max(-1)) > 1e-12).sum(-1).astype(float)
        )
    total = count * len(settings)
    control = ref.pooled(broken)
    for part, found, bound, name in (
        ("norms", norms, 1e-14, "no 1/sqrt(K)"),
        ("entries", counts, 0.0, "first feature of every field"),
        ("s is the top eigenvector", angles, 1e-12, "all s_k alike"),
    ):
        yield check(worst(*found), bound, {name: control[name]}, draws=total, part=part)
