"""Where training goes (acl Sec. 5, Sec. 5.2 end, Sec. 5.3).

Theorem 6 compares the energies of two points. Here the joint flow of both layers, with sticky
weights, runs on random latent models; how fast it moves at the two points is taken in numpy.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor

from clcore import random
from clcore import reference as ref
from clcore.checks.relu_composition.energy import SETTINGS, models, parts, salient
from clcore.checks.relu_composition.theorem6 import strong_half
from clcore.ledger import Part, Trial, check, fraction, typical
from clcore.ledger.judging import Shared
from clcore.reference import Array, tangent, unit
from clcore.sweep.optim import unit_norm
from clcore.theory.relu import binary_latent, relu_two_layer

CELLS = ((2, 2), (3, 3), (4, 3))
ACTIVE = 0.01
"""A field k takes part if |s_k w_1k| is above this, of unit norms |W_1| = |s| = 1."""
STEPS = 3000
MOST = 0.5
CROWD = 100
"""Runs with 8 fields."""
LONG = 10_000
"""Their steps: after 3000 of length 1 two in five are still at a negative energy."""
RATE = 4.0
"""The length of one of these steps."""
LEAD = 0.1
SMALL = 0.02
"""Of the eta at which E(theta_Omega) is 0."""


def augmentations(model: binary_latent.Model) -> dict[str, Tensor]:
    """X_alpha under the weak and the strong D_aug of Theorem 6, eta = 0, and with p0 p1 on the
    strong one's second term; each [draws, K d, K d]."""
    p = model.p1 * (1 - model.p1)
    strengths = {"weak": 0 * p, "strong": torch.ones_like(p), "strong, p0 p1": p}
    level = partial(binary_latent.strong_augmentation, model)
    return {name: binary_latent.contrastive(model, level(t)) for name, t in strengths.items()}


def fields_used(X: Tensor, W1: Tensor, s: Tensor, rate: float = 1.0, steps: int = STEPS) -> Array:
    """[draws]: how many fields take part where the ascent of E from (W1, s) ends."""
    W1, s = relu_two_layer.ascend(X, W1, s, rate=rate, steps=steps)
    return ((s[..., None] * W1).norm(dim=-1) > ACTIVE).sum(-1).numpy()


def random_start(rng: np.random.Generator, count: int, fields: int, modes: int) -> tuple:
    """(W1, s): positive filters, one top weight of any sign per field, both of unit norm."""
    keys = random.fold_in(random.key(int(rng.integers(2**40))), torch.arange(count))
    W1 = random.uniform(keys, (fields, modes), dtype=torch.float64)
    s = random.normal(random.fold_in(keys, 1), (fields,), torch.float64)
    return unit_norm(W1, (-2, -1)), unit_norm(s, -1)


def used_in_numpy(X: Tensor | Array, W1: Tensor, s: Tensor) -> Array:
    """`fields_used` by an ascent in numpy, in steps of the same length as in torch, so that run for
    run it must end at the same point."""
    X, w, top = (np.asarray(v) for v in (X, W1, s))
    pace = 1 / np.sqrt((X**2).sum((-1, -2)))[:, None]
    for _ in range(STEPS):
        push = np.einsum("bpq,bq->bp", X, (top[..., None] * w).reshape(len(X), -1)).reshape(w.shape)
        open_, level = w > 0, top + pace * (w * push).sum(-1)
        up = w + (pace * top)[..., None] * push * open_
        w, top = unit(np.maximum(up, 0), (-2, -1)), unit(level)
    return (top**2 * (w**2).sum(-1) > ACTIVE**2).sum(-1)


def under_each(levels: Mapping[str, Tensor | Array], W1: Tensor, s: Tensor) -> dict[str, Array]:
    """`fields_used` under each X_alpha from the same starts: all of them in one ascent, since runs
    of a batch do not see each other."""
    n, X = len(levels), torch.cat([torch.as_tensor(level) for level in levels.values()])
    found = fields_used(X, W1.repeat(n, 1, 1), s.repeat(n, 1))
    return dict(zip(levels, np.split(found, n), strict=True))


@check("acl/num19")
def num19(t: Trial) -> None:
    """Whether feature composition is learned depends on augmentation (Abstract, Sec. 5.2, Sec.
    5.3).

    Given   random binary latent models on K = 2, 3, 4 or 8 disjoint fields, under weak augmentation
            (D_aug = diag(D_V)) and a strong one (diag^2(Delta) + eta I more); the joint flow of
            both layers with sticky weights for 3000 steps from random starts.
    Claim   Weak augmentation: most ends use one field. Strong: most use several, a composition.
            And where theta_Omega has more energy than every theta_m, the share of compositions is
            larger by 0.1 or more than elsewhere: for K <= 4 under all augmentations, and for K = 8
            under the strong one as printed, followed 13 times as long.
    Fails   strong as printed, where most ends are no compositions. Corrected: with p0 p1 on
            diag^2(Delta), at eta = 0 and little more, for fields of 2 or 3 features. Controls: the
            other augmentation, an eta at which E(theta_Omega) = 0, energies of other models.
    """
    count = max(20, -(-min(t.draws, 300) // len(CELLS)))
    shares: Shared = {"measured": fraction, "controls": fraction}
    one = t.part("weak augmentation: one field", MOST, **shares)
    several, right = t.both("strong augmentation: several fields", MOST, ">=", **shares)
    tells = t.part("the energy tells which", LEAD, ">=", draws=len(CELLS) * 3 * count + CROWD)
    none, idle, by_cell, ends, above = ([] for _ in range(5))
    for fields, modes in CELLS:
        model = models(t.rng, count, fields, modes)
        start = random_start(t.rng, count, fields, modes)
        levels = augmentations(model)

        # X_alpha once more, assembled in numpy; with eta I on top of the strong one with p0 p1:
        # little of it, and as much as brings E(theta_Omega) to 0.
        delta = parts(model)[0]
        in_numpy, flat = _matrices(model, delta), delta.reshape(count, -1)
        most = reach(model)[:, None]
        strong = _less(in_numpy["weak"], flat**2)
        little, much = (_less(in_numpy["strong"], share * most) for share in (SMALL, 1.0))
        used = under_each(levels | {"little": little, "much": much}, *start)
        again = used_in_numpy(strong, *start)
        composed = {name: used[name] > 1 for name in levels}
        by_cell.append(f"K = {fields}: " + ", ".join(f"{e.mean():.0%}" for e in composed.values()))

        # Weak: one field.
        one.add(composed["weak"]).breaks("strong augmentation, p0 p1", composed["strong, p0 p1"])

        # Strong: several, as printed; once more, followed in numpy.
        several.add(composed["strong"]).breaks("weak augmentation", composed["weak"])
        several.fails_by(again > 1)
        none.append(used["strong"] == 0)

        # With p0 p1; and with eta I on top.
        right.add(composed["strong, p0 p1"]).breaks("weak augmentation", composed["weak"])
        right.breaks("terms not times p0 p1", composed["strong"])
        right.add(used["little"] > 1).breaks("eta at which E(theta_Omega) is 0", used["much"] > 1)
        idle.append(used["much"] == 0)

        ends += composed.values()
        above += [_whole_is_above(model, X) for X in levels.values()]
    one.says(steps=STEPS, cells=", ".join(by_cell))
    several.says(first=several.errors[0].mean(), none=fraction(none, ">="))
    composed = fraction(right.broken["eta at which E(theta_Omega) is 0"], ">=")
    right.says(small=SMALL, composed=composed, idle=fraction(idle, ">="))
    _six_features(t.stream("six features"), right, 3 * count)

    # The energies tell which, for K <= 4 and for K = 8.
    few, crowd = (np.concatenate(ends), np.concatenate(above)), _crowd(t.stream("crowd"))
    rng = t.stream("other models")
    for found, energies in (few, crowd):
        tells.add(_lead(found, energies))
        others = [_lead(found, rng.permutation(energies)) for _ in range(50)]
        tells.breaks("energies of other models", np.mean(others))
    tells.says(few=(few[0] == few[1]).mean(), crowd=(crowd[0] == crowd[1]).mean(), runs=CROWD)
    tells.says(length=LONG * RATE)


def _lead(composed: Array, above: Array) -> float:
    """The share of compositions among runs where theta_Omega has more energy than every theta_m,
    minus that among the others."""
    return composed[above].mean() - composed[~above].mean()


def _crowd(rng: np.random.Generator) -> tuple[Array, Array]:
    """With 8 fields and the strong D_aug as printed: whether ends are compositions, and whether
    theta_Omega has more energy than every theta_m."""
    model = models(rng, CROWD, 8, 3)
    X, start = augmentations(model)["strong"], random_start(rng, CROWD, 8, 3)
    return fields_used(X, *start, RATE, LONG) > 1, _whole_is_above(model, X)


def _six_features(rng: np.random.Generator, right: Part, count: int) -> None:
    """The share of compositions for two fields of six features, with p0 p1 and the small eta."""
    model = models(rng, count, 2, 6)
    X = _matrices(model, parts(model)[0])["strong"]
    X, start = _less(X, SMALL * reach(model)[:, None]), random_start(rng, count, 2, 6)
    X = torch.from_numpy(X)
    right.says(six=(fields_used(X, *start) > 1).mean())
    right.confirms(six=(used_in_numpy(X, *start) > 1).mean())


def _whole_is_above(model: binary_latent.Model, X: Tensor) -> Array:
    """[draws]: whether theta_Omega has more energy than every theta_m."""
    whole = relu_two_layer.compositional(binary_latent.difference(model))
    best_feature = X.diagonal(dim1=-2, dim2=-1).amax(-1)
    return (relu_two_layer.trace_energy(*whole, X) > best_feature).numpy()


def velocity(W1: Array, s: Array, X: Array) -> tuple[Array, Array]:
    """[draws]: lengths of the flow of W1 and of s along the unit spheres, over |X|; sticky."""
    v = (s[..., None] * W1).reshape(len(s), -1)
    push = np.einsum("bpq,bq->bp", X, v).reshape(W1.shape)
    up = s[..., None] * push * (W1 > 0)
    up = up - (up * W1).sum((-1, -2), keepdims=True) * W1
    top = tangent(s, (W1 * push).sum(-1))
    size = np.linalg.norm(X, axis=(-2, -1))
    return np.sqrt((up**2).sum((-1, -2))) / size, np.sqrt((top**2).sum(-1)) / size


def residual(W1: Array, s: Array, X: Array) -> Array:
    """[draws]: length of the flow of both layers along the unit spheres, over |X|."""
    return np.hypot(*velocity(W1, s, X))


def _matrices(model: binary_latent.Model, delta: Array) -> dict[str, Array]:
    """X_alpha of Theorem 6's two cases, the strong one with p0 p1, for a given Delta, in numpy."""
    _, scale, within = parts(model)
    flat = delta.reshape(len(delta), -1)
    eye = np.eye(flat.shape[-1])
    bare = within * (1 - eye) + scale[:, None, None] * flat[:, :, None] * flat[:, None, :]
    return {"weak": bare, "strong": bare - scale[:, None, None] * (flat**2)[:, None] * eye}


def _less(X: Array, level: Array) -> Array:
    """X minus diag(level), level [draws, K d] or [draws, 1]."""
    return X - level[..., None] * np.eye(X.shape[-1])


def reach(model: binary_latent.Model) -> Array:
    """[draws]: the eta at which E(theta_Omega) is 0 under the strong D_aug with p0 p1 on its
    diag^2(Delta), p0 p1 sum_{k != l} a_k a_l / sum_k a_k."""
    delta, scale, _ = parts(model)
    a = salient(delta) ** 2
    others = a.sum(-1, keepdims=True) - a
    return scale * (a * others).sum(-1) / a.sum(-1)


@check("acl/num20")
def num20(t: Trial) -> None:
    """Fixed points of high energy compose features under strong augmentation (Sec. 5,
    introduction).

    Given   random binary latent models on disjoint fields under Theorem 6's strong augmentation,
            D_aug = diag(D_V) + diag^2(Delta) + eta I, which the sentence sums up; K <= 5 for (2)
            and (3).
    Claim   (1) theta_Omega has more energy than every theta_m, as in Theorem 6. The paper calls
            neither one a fixed point: (2) theta_m is one, and (3) theta_Omega is where its features
            are equal. The length of the flow along the unit spheres, over |X|, is 0.
    Fails   (1) as Theorem 6 does, without the p0 p1 on diag^2(Delta); (2) for two features of two
            fields, weighted two to one; (3) for unequal salient features.
    """
    # (1) The strong half of Theorem 6.
    strong_half(t)

    settings = [s for s in SETTINGS if s[0] <= 5]
    count = t.share(len(settings))
    total: Shared = {"draws": 2 * count * len(settings)}
    feature = t.part("one feature", 1e-12, controls=typical, **total)
    level = t.part("theta_Omega where its features are equal", 1e-12, controls=typical, **total)
    lengths: dict[str, list[Array]] = {"weak": [], "strong": []}
    for fields, modes in settings:
        model = models(t.rng, count, fields, modes)
        delta = parts(model)[0]
        matrices = _matrices(model, delta)

        # (3) theta_Omega, all salient |Delta| equal; then unequal.
        even = delta * (0.3 / salient(delta))[..., None]
        W1, W2 = (v.numpy() for v in relu_two_layer.compositional(ref.tensors(even)[0]))
        for X in _matrices(model, even).values():
            level.add(residual(W1, W2[:, 0], X))
        W1, W2 = (v.numpy() for v in relu_two_layer.compositional(ref.tensors(delta)[0]))
        for name, X in matrices.items():
            left = velocity(W1, W2[:, 0], X)
            level.breaks("unequal salient features", np.hypot(*left))
            if fields > 2:  # of two fields the filters have equal pushes under strong augmentation
                lengths[name].append(np.stack(left))

        # (2) theta_m of one feature m of field k; then two features.
        k, m = int(t.rng.integers(fields)), int(t.rng.integers(modes))
        W1, W2 = (v.numpy() for v in relu_two_layer.relay(ref.tensors(delta)[0], k, m))
        two1, two2 = (v + 0.5 * np.roll(v, 1, 1) for v in (W1, W2[:, 0]))
        two1, two2 = (v / np.sqrt((v[0] ** 2).sum()) for v in (two1, two2))
        for X in matrices.values():
            feature.add(residual(W1, W2[:, 0], X))
            feature.breaks("two features, two to one", residual(two1, two2, X))
    moved = {name: np.median(np.concatenate(v, -1), -1) for name, v in lengths.items()}
    level.says(weak=moved["weak"][0], low=moved["strong"][0], high=moved["strong"][1])
