"""Where training goes, and whether theta_Omega stands still (acl Sec. 5, Sec. 5.2 end, Sec. 5.3).

Theorem 6 compares the energies of two points. Here the joint flow of both layers, with sticky
weights, runs on random latent models; residuals of the two points are taken in numpy.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from clcore import random
from clcore import reference as ref
from clcore.checks.relu_composition.energy import SETTINGS, models, parts, salient
from clcore.ledger import Check, check
from clcore.reference import Array, typical, worst
from clcore.sweep.optim import unit_norm
from clcore.theory.relu import binary_latent, relu_two_layer

CELLS = ((2, 2), (3, 3), (4, 3))
ACTIVE = 0.01
"""A field k takes part if |s_k w_1k| is above this, of unit norms |W_1| = |s| = 1."""
STEPS = 3000
MOST = 0.5
CROWD = 40


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


@check("acl/num19")
def num19(draws: int, seed: int) -> Iterator[Check]:
    """Ends of the joint flow from random starts: one field under weak augmentation, several under
    strong, and the one of larger energy. `draws` counts models of all cells.

    As printed (the strong D_aug without p0 p1) most ends are no compositions. Controls: the other
    augmentation; energies of other models.
    """
    rng = ref.generator("num19", seed)
    composed: dict[str, list[Array]] = defaultdict(list)
    none: list[Array] = []
    told: list[Array] = []
    mixed: list[Array] = []
    count = max(20, ref.share(min(draws, 300), len(CELLS)))
    for fields, modes in CELLS:
        model = models(rng, count, fields, modes)
        whole = relu_two_layer.compositional(binary_latent.difference(model))
        start = random_start(rng, count, fields, modes)
        ends, higher = [], []
        for name, X in augmentations(model).items():
            used = fields_used(*relu_two_layer.ascend(X, *start, rate=1.0, steps=STEPS))
            composed[name].append(used > 1)
            if name == "strong":
                none.append(used == 0)
            single = X.diagonal(dim1=-2, dim2=-1).amax(-1)  # the best theta_m
            higher.append((relu_two_layer.trace_energy(*whole, X) > single).numpy())
            ends.append(used > 1)
        pair = np.concatenate(ends), np.concatenate(higher)
        told.append(pair[0] == pair[1])
        mixed.append(pair[0] == rng.permutation(pair[1]))
    share = {name: float(np.concatenate(v).mean()) for name, v in composed.items()}
    by_cell = ", ".join(
        f"K = {k}: {w.mean():.0%}, {p.mean():.0%}, {c.mean():.0%}"
        for (k, _), w, p, c in zip(CELLS, *composed.values(), strict=True)
    )
    crowd, above = _crowd(rng)
    check = partial(Check, "acl/num19", draws=count * len(CELLS))
    yield check(
        share["weak"],
        MOST,
        {"strong augmentation, p0 p1": share["strong, p0 p1"]},
        part="weak augmentation: one field",
        note=f"Share of ends after {STEPS} steps at which more than one field takes part (it still "
        "falls with more steps). That most ends decide is our reading of 'more likely'. Shares "
        f"under weak, strong as printed, strong with $p_0p_1$: {by_cell}.",
    )
    tag = {"part": "strong augmentation: several fields", "relation": ">="}
    yield check(
        share["strong"],
        MOST,
        {"weak augmentation": share["weak"]},
        counterexample="Random models with $K=2$ fields of 2 features, $\\eta=0$: "
        f"{composed['strong'][0].mean():.0%} of the ends are compositions. "
        r"There $X_\alpha$ reads $p_0p_1\Delta\Delta^\top-\mathrm{diag}^2(\Delta)"
        r"$ on the salient features, and with $p_0p_1\le\frac14$ it is negative definite at $K<4$: "
        f"the flow gives up the fields' product, $s^\\top W_1=0$ ({np.concatenate(none).mean():.0%}"
        " of all ends use no field), or goes to a feature with a small $|\\Delta_m|$.",
        **tag,
    )
    yield check(
        share["strong, p0 p1"],
        MOST,
        {"weak augmentation": share["weak"], "terms not times p0 p1": share["strong"]},
        form="corrected",
        correction=r"With $p_0p_1$ on $\mathrm{diag}^2(\Delta)$, as Theorem 6 needs it.",
        **tag,
    )
    yield check(
        float(np.concatenate(told).mean()),
        0.75,
        {"energies of other models": float(np.concatenate(mixed).mean())},
        relation=">=",
        part="the energy tells which",
        draws=3 * count * len(CELLS),
        note=r"Share of runs, all three augmentations, that end in a composition exactly if "
        r"$\mathcal E(\theta_\Omega)$ is above every $\mathcal E(\theta_m)$; $K\le4$. Fails where "
        f"there are many fields and the strong augmentation is as printed: at $K=8$ {crowd:.0%} of "
        f"{CROWD} runs compose, and {above:.0%} would by the energies.",
    )


def _crowd(rng: np.random.Generator) -> tuple[float, float]:
    """With 8 fields and the strong D_aug as printed: the share of ends that are compositions, and
    of models whose theta_Omega has more energy than every theta_m."""
    model = models(rng, CROWD, 8, 3)
    X = augmentations(model)["strong"]
    ends = relu_two_layer.ascend(X, *random_start(rng, CROWD, 8, 3), rate=1.0, steps=STEPS)
    whole = relu_two_layer.compositional(binary_latent.difference(model))
    above = relu_two_layer.trace_energy(*whole, X) > X.diagonal(dim1=-2, dim2=-1).amax(-1)
    return float((fields_used(*ends) > 1).mean()), float(above.double().mean())


def residual(W1: Array, s: Array, X: Array) -> Array:
    """[draws]: length of the flow of (W1, s) along the unit spheres, over |X|; sticky weights."""
    v = (s[..., None] * W1).reshape(len(s), -1)
    push = np.einsum("bpq,bq->bp", X, v).reshape(W1.shape)
    up = s[..., None] * push * (W1 > 0)
    up = up - (up * W1).sum((-1, -2), keepdims=True) * W1
    top = (W1 * push).sum(-1)
    top = top - (top * s).sum(-1, keepdims=True) * s
    return np.sqrt((up**2).sum((-1, -2)) + (top**2).sum(-1)) / np.linalg.norm(X, axis=(-2, -1))


def _matrices(model: binary_latent.Model, delta: Array) -> dict[str, Array]:
    """X_alpha of Theorem 6's two cases, the strong one with p0 p1, for a given Delta, in numpy."""
    _, scale, within = parts(model)
    flat = delta.reshape(len(delta), -1)
    eye = np.eye(flat.shape[-1])
    bare = within * (1 - eye) + scale[:, None, None] * flat[:, :, None] * flat[:, None, :]
    return {"weak": bare, "strong": bare - scale[:, None, None] * (flat**2)[:, None] * eye}


@check("acl/num20")
def num20(draws: int, seed: int) -> Iterator[Check]:
    """theta_m stands still, theta_Omega does not unless its |Delta| agree; ascent from it composes.

    Controls: two features of two fields, weighted two to one; unequal salient features.
    """
    rng = ref.generator("num20", seed)
    still: list[Array] = []
    moved: list[Array] = []
    whole: list[Array] = []
    level: list[Array] = []
    lost: dict[str, list[Array]] = defaultdict(list)
    settings = [s for s in SETTINGS if 1 < s[0] <= 5]
    count = ref.share(draws, len(settings))
    for fields, modes in settings:
        model = models(rng, count, fields, modes)
        delta = parts(model)[0]
        even = delta * (0.3 / salient(delta))[..., None]
        for values, found in ((delta, whole), (even, level)):
            (t_delta,) = ref.tensors(values)
            W1, W2 = (v.numpy() for v in relu_two_layer.compositional(t_delta))
            for X in _matrices(model, values).values():
                found.append(residual(W1, W2[:, 0], X))
        k, m = int(rng.integers(fields)), int(rng.integers(modes))
        W1, W2 = (v.numpy() for v in relu_two_layer.relay(ref.tensors(delta)[0], k, m))
        two1, two2 = (v + 0.5 * np.roll(v, 1, 1) for v in (W1, W2[:, 0]))
        two1, two2 = (v / np.sqrt((v[0] ** 2).sum()) for v in (two1, two2))
        matrices = _matrices(model, delta)
        for X in matrices.values():
            still.append(residual(W1, W2[:, 0], X))
            moved.append(residual(two1, two2, X))
        # What the flow makes of theta_Omega, with a push inside its own K entries.
        few = min(count, 20)
        W1, W2 = relu_two_layer.compositional(ref.tensors(delta[:few])[0])
        for name, X in matrices.items():
            t_X = torch.from_numpy(X[:few])
            end = relu_two_layer.ascend(t_X, W1, W2[:, 0], rate=1.0, steps=1500)
            single = np.diagonal(X[:few], axis1=-2, axis2=-1).max(-1)
            E = relu_two_layer.trace_energy(end[0], end[1][:, None], t_X).numpy()
            start = relu_two_layer.trace_energy(W1, W2, t_X).numpy()
            composed = (fields_used(*end) > 1) & (single < E) & (start - 1e-12 < E)
            lost[name].append(~composed)
    total = count * len(settings)
    check = partial(Check, "acl/num20", draws=2 * total)
    yield check(
        worst(*still),
        1e-12,
        {"two features, two to one": typical(*moved)},
        part="one feature",
        note=r"$\theta_m$: length of the flow of both layers along $\Theta$, relative to "
        r"$\|X_\alpha\|_F$; weak and strong augmentation (with $p_0p_1$), $\eta=0$.",
    )
    tag = {"part": "the composition"}
    yield check(
        worst(*whole),
        1e-12,
        {"two features, two to one": typical(*moved)},
        counterexample=r"$K=2$, $d=1$, $D_{aug}=\mathrm{diag}(D_V)$, $p_0=p_1=\frac12$, "
        r"$\Delta=(2,1)$: at $\theta_\Omega$ the rows of $W_1$, both $1/\sqrt2$, are pushed by "
        r"$s_k\cdot(X_\alpha[s_kw_{1k}])_k\propto\Delta_k^2$, by 4 to 1, and not by 1 to 1. In "
        r"general it stands still only if all $|\Delta_{m_k^*}|$ are equal, which the weak half of "
        "Theorem 6 excludes.",
        **tag,
    )
    yield check(
        worst(*level),
        1e-12,
        {"unequal salient features": typical(np.concatenate(whole))},
        form="corrected",
        correction=r"$\theta_\Omega$, where no $\Delta_{m_k^*}$ is 0, is a fixed point if and only "
        r"if all $|\Delta_{m_k^*}|$ are equal; otherwise it is a point of the constraint set whose "
        "energy Theorem 6 compares, and the flow leaves it.",
        **tag,
    )
    yield check(
        float(np.concatenate(lost["strong"]).mean()),
        0.0,
        {"weak augmentation": float(np.concatenate(lost["weak"]).mean())},
        draws=len(np.concatenate(lost["strong"])),
        part="under strong augmentation the flow from there composes",
        note=r"Share of ends of the flow from $\theta_\Omega$ with fewer than two fields, or with "
        r"no more energy than every $\theta_m$, or with less than $\theta_\Omega$; strong with "
        "$p_0p_1$. So the sentence stands for the point that the flow finds from there.",
    )
