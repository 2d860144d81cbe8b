"""Where training goes, and from theta_Omega (acl Sec. 5, Sec. 5.2 end, Sec. 5.3).

Theorem 6 compares the energies of two points. Here the joint flow of both layers, with sticky
weights, runs on random latent models; how fast it moves at the two points is taken in numpy.
"""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from clcore import random
from clcore import reference as ref
from clcore.checks.relu_composition.energy import SETTINGS, models, parts, salient
from clcore.ledger import Trial, check, fraction, typical
from clcore.reference import Array
from clcore.sweep.optim import unit_norm
from clcore.theory.relu import binary_latent, relu_two_layer

CELLS = ((2, 2), (3, 3), (4, 3))
ACTIVE = 0.01
"""A field k takes part if |s_k w_1k| is above this, of unit norms |W_1| = |s| = 1."""
STEPS = 3000
MOST = 0.5
CROWD = 40
COMPOSES = "the flow from theta_Omega ends at a composition of more energy"


def augmentations(model: binary_latent.Model) -> dict[str, Tensor]:
    """X_alpha under the weak and the strong D_aug of Theorem 6, eta = 0, and with p0 p1 on the
    strong one's second term; each [draws, K d, K d]."""
    p = model.p1 * (1 - model.p1)
    strengths = {"weak": 0 * p, "strong": torch.ones_like(p), "strong, p0 p1": p}
    level = partial(binary_latent.strong_augmentation, model)
    return {name: binary_latent.contrastive(model, level(t)) for name, t in strengths.items()}


def fields_used(W1: Tensor, s: Tensor) -> Array:
    """[draws]: how many fields take part."""
    return ((s[..., None] * W1).norm(dim=-1) > ACTIVE).sum(-1).numpy()


def random_start(rng: np.random.Generator, count: int, fields: int, modes: int) -> tuple:
    """(W1, s): positive filters, a top weight of any sign a field, both of unit norm."""
    keys = random.fold_in(random.key(int(rng.integers(2**40))), torch.arange(count))
    W1 = random.uniform(keys, (fields, modes), dtype=torch.float64)
    s = random.normal(random.fold_in(keys, 1), (fields,), torch.float64)
    return unit_norm(W1, (-2, -1)), unit_norm(s, -1)


def _used_in_numpy(model: binary_latent.Model, W1: Tensor, s: Tensor) -> Array:
    """[draws]: how many fields take part in the end, X_alpha of the strong D_aug as printed and
    the ascent in numpy; by steps of the same length, so that run for run it must be as many.
    """
    delta = parts(model)[0].reshape(len(s), -1)
    X = _matrices(model, delta)["weak"] - delta[:, :, None] ** 2 * np.eye(delta.shape[1])
    w, top = W1.numpy(), s.numpy()
    pace = 1 / np.sqrt((X**2).sum((-1, -2)))[:, None]
    for _ in range(STEPS):
        push = np.einsum("bpq,bq->bp", X, (top[..., None] * w).reshape(len(X), -1)).reshape(w.shape)
        up, level = w + (pace * top)[..., None] * push * (w > 0), top + pace * (w * push).sum(-1)
        w = np.maximum(up, 0) / np.sqrt((np.maximum(up, 0) ** 2).sum((-1, -2), keepdims=True))
        top = level / np.sqrt((level**2).sum(-1, keepdims=True))
    return (top**2 * (w**2).sum(-1) > ACTIVE**2).sum(-1)


@check("acl/num19")
def num19(t: Trial) -> None:
    """Ends of the joint flow from random starts: one field under weak augmentation, several under
    strong, and the one of larger energy. `draws` counts models of all cells.

    As printed (the strong D_aug without p0 p1) most ends are no compositions. Controls: the other
    augmentation; energies of other models.
    """
    count = max(20, -(-min(t.draws, 300) // len(CELLS)))
    shares = {"measured": fraction, "controls": fraction}
    one = t.part("weak augmentation: one field", MOST, **shares)
    several = t.part("strong augmentation: several fields", MOST, ">=", **shares)
    right = t.corrected("strong augmentation: several fields", MOST, ">=", **shares)
    tells = t.part("the energy tells which", 0.75, ">=", **shares)
    none, numpy_none, by_cell = [], [], []
    for fields, modes in CELLS:
        model = models(t.rng, count, fields, modes)
        whole = relu_two_layer.compositional(binary_latent.difference(model))
        start = random_start(t.rng, count, fields, modes)
        ends, higher = {}, []
        for name, X in augmentations(model).items():
            used = fields_used(*relu_two_layer.ascend(X, *start, rate=1.0, steps=STEPS))
            ends[name] = used > 1
            if name == "strong":
                none.append(used == 0)
            single = X.diagonal(dim1=-2, dim2=-1).amax(-1)  # the best theta_m
            higher.append((relu_two_layer.trace_energy(*whole, X) > single).numpy())
        one.add(ends["weak"]).breaks("strong augmentation, p0 p1", ends["strong, p0 p1"])
        used = _used_in_numpy(model, *start)
        numpy_none.append(used == 0)
        several.fails_by(used > 1)
        several.add(ends["strong"]).breaks("weak augmentation", ends["weak"])
        right.add(ends["strong, p0 p1"]).breaks("weak augmentation", ends["weak"])
        right.breaks("terms not times p0 p1", ends["strong"])
        composed, above = np.concatenate([*ends.values()]), np.concatenate(higher)
        tells.add(composed == above)
        tells.breaks("energies of other models", composed == t.rng.permutation(above))
        by_cell.append(f"K = {fields}: " + ", ".join(f"{e.mean():.0%}" for e in ends.values()))
    one.says(steps=STEPS, cells=", ".join(by_cell))
    several.says(first=several.errors[0].mean(), none=fraction(none, ">="))
    several.confirms(none=fraction(numpy_none, ">="))
    crowd, above = _crowd(t.rng)
    tells.says(crowd=crowd, above=above, runs=CROWD)


def _crowd(rng: np.random.Generator) -> tuple[float, float]:
    """With 8 fields and the strong D_aug as printed: the share of ends that are compositions, and
    of models whose theta_Omega has more energy than every theta_m."""
    model = models(rng, CROWD, 8, 3)
    X = augmentations(model)["strong"]
    ends = relu_two_layer.ascend(X, *random_start(rng, CROWD, 8, 3), rate=1.0, steps=STEPS)
    whole = relu_two_layer.compositional(binary_latent.difference(model))
    above = relu_two_layer.trace_energy(*whole, X) > X.diagonal(dim1=-2, dim2=-1).amax(-1)
    return float((fields_used(*ends) > 1).mean()), float(above.double().mean())


def velocity(W1: Array, s: Array, X: Array) -> tuple[Array, Array]:
    """[draws]: lengths of the flow of W1 and of s along the unit spheres, over |X|; sticky."""
    v = (s[..., None] * W1).reshape(len(s), -1)
    push = np.einsum("bpq,bq->bp", X, v).reshape(W1.shape)
    up = s[..., None] * push * (W1 > 0)
    up = up - (up * W1).sum((-1, -2), keepdims=True) * W1
    top = (W1 * push).sum(-1)
    top = top - (top * s).sum(-1, keepdims=True) * s
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


@check("acl/num20")
def num20(t: Trial) -> None:
    """Under strong augmentation (with p0 p1) the flow from theta_Omega ends where several fields
    take part, with more energy. theta_m stands still; theta_Omega does where its |Delta| agree.

    Controls: two features of two fields, weighted two to one; unequal salient features; the weak
    augmentation, and the strong one without p0 p1.
    """
    settings = [s for s in SETTINGS if s[0] <= 5]
    count = t.share(len(settings))
    few = min(count, 20)
    ends = t.part(COMPOSES, measured=fraction, controls=fraction, draws=few * len(settings))
    total = {"draws": 2 * count * len(settings)}
    feature = t.part("one feature", 1e-12, controls=typical, **total)
    level = t.part("theta_Omega where its features are equal", 1e-12, controls=typical, **total)
    lengths: dict[str, list[Array]] = {"weak": [], "strong": []}
    for fields, modes in settings:
        model = models(t.rng, count, fields, modes)
        delta = parts(model)[0]
        matrices = _matrices(model, delta)
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
        k, m = int(t.rng.integers(fields)), int(t.rng.integers(modes))
        W1, W2 = (v.numpy() for v in relu_two_layer.relay(ref.tensors(delta)[0], k, m))
        two1, two2 = (v + 0.5 * np.roll(v, 1, 1) for v in (W1, W2[:, 0]))
        two1, two2 = (v / np.sqrt((v[0] ** 2).sum()) for v in (two1, two2))
        for X in matrices.values():
            feature.add(residual(W1, W2[:, 0], X))
            feature.breaks("two features, two to one", residual(two1, two2, X))
        # What the flow makes of theta_Omega, with a push inside its own K entries.
        flat = delta.reshape(count, -1) ** 2
        matrices["printed"] = matrices["weak"] - flat[:, None] * np.eye(flat.shape[1])
        lost = {name: ~_composes(X, delta, few) for name, X in matrices.items()}
        ends.add(lost["strong"]).breaks("weak augmentation", lost["weak"])
        ends.breaks("strong augmentation without p0 p1", lost["printed"])
    ends.says(printed=fraction(ends.broken["strong augmentation without p0 p1"], "<="))
    moved = {name: np.median(np.concatenate(v, -1), -1) for name, v in lengths.items()}
    level.says(weak=moved["weak"][0], low=moved["strong"][0], high=moved["strong"][1])


def _composes(X: Array, delta: Array, few: int) -> Array:
    """[few]: whether the flow from theta_Omega ends at several fields, with more energy than every
    theta_m, and than it began with."""
    W1, W2 = relu_two_layer.compositional(ref.tensors(delta[:few])[0])
    t_X = torch.from_numpy(X[:few])
    end = relu_two_layer.ascend(t_X, W1, W2[:, 0], rate=1.0, steps=1500)
    single = np.diagonal(X[:few], axis1=-2, axis2=-1).max(-1)
    E = relu_two_layer.trace_energy(end[0], end[1][:, None], t_X).numpy()
    start = relu_two_layer.trace_energy(W1, W2, t_X).numpy()
    return (fields_used(*end) > 1) & (single < E) & (start < E)
