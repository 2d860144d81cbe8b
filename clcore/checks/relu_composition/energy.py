"""Composition against one feature: the energies of acl Theorem 6, its proof and its remark.

X_alpha is assembled in numpy from Delta, D_V and D_aug; the solutions are those of
`clcore.theory.relu.relu_two_layer`; the printed right sides are evaluated as they stand.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from clcore import random
from clcore import reference as ref
from clcore.ledger import Check, check
from clcore.reference import Array, mixture, relative, typical, worst
from clcore.theory.relu import binary_latent, relu_two_layer

SETTINGS = ((1, 2), (2, 2), (2, 3), (3, 3), (4, 4), (5, 2), (8, 3), (12, 4))


class Energies(NamedTuple):
    """Of many models: E(theta_Omega) [draws], E(theta_m) [draws, K, d], and their ingredients."""

    whole: Array
    single: Array
    delta: Array
    scale: Array  # p0 p1
    eta: Array


def models(rng: np.random.Generator, draws: int, fields: int, modes: int) -> binary_latent.Model:
    """Random models of `clcore`, a fresh key a draw."""
    keys = random.fold_in(random.key(int(rng.integers(2**40))), torch.arange(draws))
    return binary_latent.draw(keys, fields, modes)


def parts(model: binary_latent.Model) -> tuple[Array, Array, Array]:
    """(Delta [draws, K, d], p0 p1 [draws], D_V [draws, Kd, Kd]) by loops."""
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
    delta: Array, scale: Array, within: Array, augmentation: Array, eta: Array
) -> Energies:
    """Both solutions' energies s^T W1 X W1^T s under D_aug = diag(augmentation [draws, Kd])."""
    flat = delta.reshape(len(delta), -1)
    outer = scale[:, None, None] * flat[:, :, None] * flat[:, None, :]
    x = outer + within - augmentation[:, :, None] * np.eye(flat.shape[-1])
    w1, w2 = (v.numpy() for v in relu_two_layer.compositional(torch.from_numpy(delta)))
    single = np.zeros(delta.shape)
    for k in range(delta.shape[1]):
        for m in range(delta.shape[2]):
            pair = relu_two_layer.relay(torch.from_numpy(delta), k, m)
            single[:, k, m] = mixture.trace(*(v.numpy() for v in pair), x)
    return Energies(mixture.trace(w1, w2, x), single, delta, scale, eta)


def weak(model: binary_latent.Model, delta: Array | None = None) -> Energies:
    """D_aug = diag(D_V); `delta` overrides the model's own Delta."""
    own, scale, within = parts(model)
    delta = own if delta is None else delta
    level = np.diagonal(within, axis1=-2, axis2=-1)
    return energies(delta, scale, within, level, np.zeros_like(level))


def strong(
    model: binary_latent.Model, eta: Array | float, corrected: bool, delta: Array | None = None
) -> Energies:
    """D_aug = diag(D_V) + diag^2(Delta) + diag(eta); `corrected`: diag^2(Delta) times p0 p1."""
    own, scale, within = parts(model)
    delta = own if delta is None else delta
    level = np.diagonal(within, axis1=-2, axis2=-1)
    flat = delta.reshape(len(delta), -1)
    eta = np.broadcast_to(eta, flat.shape)
    factor = scale[:, None] if corrected else 1.0
    return energies(delta, scale, within, level + factor * flat**2 + eta, eta)


def prior(model: binary_latent.Model) -> Array:
    """p0 p1, [draws, 1]."""
    return (model.p1 * (1 - model.p1)).numpy()[:, None]


def one_field(delta: Array) -> Array:
    """Delta with every nonzero entry in the first field."""
    return np.concatenate([delta[:, :1], np.zeros_like(delta[:, 1:])], 1)


def salient(delta: Array) -> Array:
    """|Delta_{m*_k}|, [draws, K]."""
    return np.abs(delta).max(-1)


def loses(e: Energies, against: Array) -> Array:
    """[draws]: whether E(theta_Omega) > `against` fails, beyond rounding."""
    return e.whole - against <= 1e-13 * (1 + np.abs(against))


@check("acl/eq70")
def eq70(draws: int, seed: int) -> Iterator[Check]:
    """Weak augmentation: the energies of both solutions in closed form.

    Left sides: exact variance of the ReLU net's outputs over all joint states, less what the
    augmentation takes. Controls: 1/K left out, every feature's Delta^2 summed, no p0 p1.
    """
    rng = ref.generator("eq70", seed)
    whole, single = [], []
    broken: dict[str, list[Array]] = {"no 1/K": [], "all features": [], "no p0 p1": []}
    settings = ((1, 3), (2, 3), (3, 3), (4, 2), (5, 2), (8, 1))
    count = ref.share(draws, len(settings))
    for fields, modes in settings:
        model = models(rng, count, fields, modes)
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

        (t_delta,) = ref.tensors(delta)
        w1, w2 = relu_two_layer.compositional(t_delta)
        total = (salient(delta) ** 2).sum(-1)
        ours = energy(w1, w2)
        whole.append(relative(ours, scale * total / fields, 1e-3))
        if fields > 1:
            broken["no 1/K"].append(relative(ours, scale * total, 1e-3))
            broken["all features"].append(
                relative(ours, scale * (delta**2).sum((-1, -2)) / fields, 1e-3)
            )
        broken["no p0 p1"].append(relative(ours, total / fields, 1e-3))
        for row in range(min(count, 50)):
            k, m = np.unravel_index(np.abs(delta[row]).argmax(), delta[row].shape)
            one = energy(*relu_two_layer.relay(t_delta, int(k), int(m)))[row]
            single.append(relative(np.array([one]), scale[row : row + 1] * delta[row, k, m] ** 2))
    yield Check(
        "acl/eq70",
        worst(*whole, *single),
        1e-10,
        ref.pooled(broken),
        draws=count * len(settings),
    )


@check("acl/eq71")
def eq71(draws: int, seed: int) -> Iterator[Check]:
    """Strong augmentation: Eqs. 71 and 72 as printed, and with D_aug's added terms times p0 p1.

    Controls: 1/K left out, eta left out; the chain at one field.
    """
    check = partial(Check, "acl/eq71", draws=draws)
    rng = ref.generator("eq71", seed)
    errors: dict[str, list[Array]] = {name: [] for name in ("71", "72", "71c", "72c", "b71", "b72")}
    chains, loose = [], []
    settings = [s for s in SETTINGS if s[0] > 1]
    count = ref.share(draws, 3 * len(settings))
    for fields, modes in settings:
        for eta in (0.0, 0.01, 0.2):
            model = models(rng, count, fields, modes)
            for corrected, mark in ((False, ""), (True, "c")):
                e = strong(model, eta * prior(model) if corrected else eta, corrected)
                a = salient(e.delta) ** 2
                total = a.sum(-1)
                printed = e.scale / fields * (total - (a * (a + eta)).sum(-1) / total)
                errors["71" + mark].append(relative(e.whole, printed, 1e-3))
                right = np.broadcast_to((-e.scale * eta)[:, None, None], e.single.shape)
                errors["72" + mark].append(relative(e.single, right, 1e-3))
                if corrected:
                    errors["b71"].append(relative(e.whole, printed * fields, 1e-3))
                    wrong = right - e.scale[:, None, None] * 0.01
                    errors["b72"].append(relative(e.single, wrong, 1e-3))
            cross = total**2 - (a**2).sum(-1)
            bracket = e.scale / (fields * total) * (cross - eta * total)
            gap = bracket + e.scale * eta / fields
            chains += [relative(bracket, printed, 1e-3), -np.minimum(gap / e.scale, 0)]
            chains.append(np.maximum(0, -e.scale * eta + e.scale * eta / fields))
            chains.append((gap <= 0).astype(float))  # strict, by the cross products
            loose.append(relative(e.scale / (fields * total) * (total**2 - eta * total), printed))
    for part, key, what in (
        ("Eq. 71", "71", r"$\mathcal E(\theta_\Omega)$"),
        ("Eq. 72", "72", r"$\mathcal E(\theta_m)$"),
    ):
        yield check(
            worst(*errors[key]),
            1e-10,
            {"1/K or eta changed": typical(np.concatenate(errors["b" + key]))},
            part=part,
            note=f"{what} from X_alpha against the printed right side, relative.",
            counterexample=r"$K=2$, $d=1$, $p_0=p_1=1/2$, $\Delta=(1,1)$, $\eta=0$: "
            + (
                r"$X_\alpha=\tfrac14\Delta\Delta^\top-I$ (off $D_V$) gives $-1/4$, Eq. 71 gives "
                r"$+1/8$."
                if key == "71"
                else r"$\mathcal E(\theta_m)=\tfrac14-1=-3/4$, Eq. 72 gives $0$."
            ),
        )
        yield check(
            worst(*errors[key + "c"]),
            1e-10,
            {
                "terms not times p0 p1": typical(np.concatenate(errors[key])),
                "1/K or eta changed": typical(np.concatenate(errors["b" + key])),
            },
            part=part,
            form="corrected",
            correction=r"Take $D_{aug}=\mathrm{diag}(D_V)+p_0p_1[\mathrm{diag}^2(\Delta)+\eta I]$: "
            "the proof puts its factor before these two terms, the definition does not.",
        )
    yield check(
        worst(*chains),
        1e-10,
        {"sum over all k, k'": typical(np.concatenate(loose))},
        part="Eqs. 73-76",
        note="The right sides among themselves: equalities, and both inequalities.",
    )


@check("acl/thm6")
def thm6(draws: int, seed: int) -> Iterator[Check]:
    """Which solution has more energy: Theorem 6, both halves, hypotheses as printed.

    Random models, and models with special Delta that meet the printed hypotheses: one field, equal
    salient features, all of Delta's entries in one field. Controls: the other half's D_aug.
    """
    rng, check = ref.generator("thm6", seed), partial(Check, "acl/thm6")
    yield from _weak(partial(check, part="weak"), rng, draws)
    yield from _strong(partial(check, part="strong"), rng, draws)


def _weak(check: Callable[..., Check], rng: np.random.Generator, draws: int) -> Iterator[Check]:
    count = ref.share(draws, len(SETTINGS))
    fails: dict[str, Array] = {}
    generic, other = [], []
    for fields, modes in SETTINGS:
        model = models(rng, count, fields, modes)
        e = weak(model)
        top = e.single.max((-1, -2))
        wrong = e.whole >= top - 1e-13
        fails[f"K = {fields}, d = {modes}"] = wrong
        if fields > 1:
            generic.append(wrong)
            strong_e = strong(model, 0.2 * prior(model), corrected=True)
            best = np.take_along_axis(
                strong_e.single.reshape(count, -1),
                np.abs(e.delta).reshape(count, -1).argmax(-1)[:, None],
                -1,
            )[:, 0]
            other.append(strong_e.whole >= best)
            level = e.delta * (0.3 / salient(e.delta))[..., None]  # equal salient features
            flat = weak(model, level)
            fails[f"K = {fields}, equal salient"] = flat.whole >= flat.single.max((-1, -2)) - 1e-13
    total = np.concatenate(list(fails.values()))
    even = np.concatenate([v for k, v in fails.items() if "equal" in k])
    yield check(
        float(total.mean()),
        0.0,
        {"strong augmentation": float(np.concatenate(other).mean())},
        draws=len(total),
        note="Share of models, $|\\Delta|$ not constant, where $\\mathcal E(\\theta_\\Omega)<"
        "\\mathcal E(\\theta_{m^*})$ fails: "
        f"{np.concatenate(generic).mean():.0%} of random ones with $K\\ge2$, "
        f"{fails['K = 1, d = 2'].mean():.0%} at $K=1$, {even.mean():.0%} with equal salient ones.",
        counterexample=r"$K=2$, $d=2$, $\Delta=(1,\tfrac12,1,\tfrac12)$, $p_0=p_1=\tfrac12$: both "
        r"energies are $\tfrac14$: a tie is possible. Also at $K=1$, where both solutions are one.",
    )
    yield check(
        float(np.concatenate(generic).mean()),
        0.0,
        {
            "strong augmentation": float(np.concatenate(other).mean()),
            "equal salient features": float(even.mean()),
        },
        draws=sum(map(len, generic)),
        form="corrected",
        correction=r"Not $|\Delta|$ but its salient entries $|\Delta_{m_1^*}|,\dots,"
        r"|\Delta_{m_K^*}|$ must not all be equal (so $K\ge2$).",
    )


def _strong(check: Callable[..., Check], rng: np.random.Generator, draws: int) -> Iterator[Check]:
    etas = (0.0, 0.01, 0.2)
    count = ref.share(draws, len(etas) * len(SETTINGS))
    printed, corrected, against_top, weaker, crowded = [], [], [], [], []
    for fields, modes in SETTINGS:
        for eta in etas:
            model = models(rng, count, fields, modes)
            for fixed, found in ((False, printed), (True, corrected)):
                e = strong(model, eta, fixed)
                wrong = loses(e, e.single.max((-1, -2)))
                if fields > 1 or not fixed:
                    found.append(wrong)
                if fields > 1 and not fixed:
                    place = np.abs(e.delta).reshape(count, -1).argmax(-1)[:, None]
                    top = np.take_along_axis(e.single.reshape(count, -1), place, -1)[:, 0]
                    against_top.append(loses(e, top))
            if fields > 1:
                flat = weak(model)
                weaker.append(loses(flat, flat.single.max((-1, -2))))
                # Only at eta = 0 must Delta have nonzero entries in two fields.
                e = strong(model, eta, True, one_field(e.delta))
                (corrected if eta else crowded).append(loses(e, e.single.max((-1, -2))))
    yield check(
        float(np.concatenate(printed).mean()),
        0.0,
        {"weak augmentation": float(np.concatenate(weaker).mean())},
        draws=sum(map(len, printed)),
        note="Share of models where $\\mathcal E(\\theta_\\Omega)>\\mathcal E(\\theta_m)$ fails "
        "for some $m$. For $m=m^*$ alone this half is true as printed if $K\\ge2$: there it fails "
        f"in {np.concatenate(against_top).mean():.0%}.",
        counterexample=r"$K=2$, $d=2$, $\Delta=(1,\tfrac12,1,\tfrac12)$, $p_0=p_1=\tfrac12$, "
        r"$\eta=0$: $\mathcal E(\theta_\Omega)=-\tfrac14<-\tfrac3{16}=\mathcal E(\theta_2)$.",
    )
    yield check(
        float(np.concatenate(corrected).mean()),
        0.0,
        {
            "terms not times p0 p1": float(np.concatenate(printed).mean()),
            "weak augmentation": float(np.concatenate(weaker).mean()),
            "all of Delta in one field, eta = 0": float(np.concatenate(crowded).mean()),
        },
        draws=sum(map(len, corrected)),
        form="corrected",
        correction=r"$K\ge2$ and $D_{aug}=\mathrm{diag}(D_V)+p_0p_1\mathrm{diag}^2(\Delta)+\eta I$ "
        r"with any $\eta\ge0$; if $\eta=0$, $\Delta$ has nonzero entries in two fields.",
    )


@check("acl/rem5")
def rem5(draws: int, seed: int) -> Iterator[Check]:
    """The remark after Theorem 6: eta may vary over features, if not too much.

    Controls: p0 p1 left out, an eta that breaks the bound where it hurts.
    """
    rng = ref.generator("rem5", seed)
    found: dict[str, list[Array]] = {
        k: [] for k in ("p", "c", "bad", "eq", "eqp", "chain", "none", "steep")
    }
    settings = [s for s in SETTINGS if s[0] > 1]
    count = max(4, ref.share(draws, len(settings)))
    check = partial(Check, "acl/rem5", draws=count * len(settings))
    for fields, modes in settings:
        model = models(rng, count, fields, modes)
        low = rng.uniform(1 / fields, 1.0, (count, 1)) + 0.01
        size = rng.uniform(0.001, 0.02, (count, 1))  # small: there the p0 p1 matters most
        eta = size * (low + (1 - low) * rng.random((count, fields * modes))).clip(max=1.0)
        for corrected, key in ((False, "p"), (True, "c")):
            if corrected:
                for own in (e.delta, one_field(e.delta)):
                    free = strong(model, eta, True, own)
                    found[key].append(loses(free, free.single.max((-1, -2))))
            e = strong(model, eta * prior(model) if corrected else eta, corrected)
            found[key].append(loses(e, e.single.max((-1, -2))))
            a = salient(e.delta) ** 2
            chosen = np.abs(e.delta).argmax(-1)
            mine = np.take_along_axis(eta.reshape(e.delta.shape), chosen[..., None], -1)[..., 0]
            total = a.sum(-1)
            right = e.scale / (fields * total) * (total**2 - (a * (a + mine)).sum(-1))
            found["eqp" if key == "p" else "eq"].append(relative(e.whole, right, 1e-3))
        bound = -e.scale / fields * eta.max(-1)
        least = -e.scale * eta.min(-1)
        slack = [right - bound, bound - least, least - e.single.max((-1, -2))]
        found["chain"].append(np.max([-s for s in slack], 0) / e.scale)
        without = e.scale / (fields * total) * (total**2 - (a * a).sum(-1))
        found["none"].append(relative(e.whole, without, 1e-3))
        # One feature that is not augmented at all, all others strongly: the bound is broken.
        steep = np.full_like(eta, 4.0)
        least_salient = np.abs(e.delta).reshape(count, -1).argmin(-1)
        steep[np.arange(count), least_salient] = 0.0
        e = strong(model, steep * prior(model), corrected=True)
        found["bad"].append(loses(e, e.single.max((-1, -2))))
        found["steep"].append(steep.max(-1) / fields - steep.min(-1))
    rate = {k: float(np.concatenate(found[k]).mean()) for k in ("p", "c", "bad")}
    yield check(
        rate["p"],
        0.0,
        {"bound on eta broken": rate["bad"]},
        part="conclusion",
        note="Share of models where a one-hot solution has as much energy.",
        counterexample=r"$K=2$, $d=2$, $p_0=p_1=\tfrac12$, $\Delta=(1,0,1,0)$ and a constant "
        r"$0<\eta<\tfrac12$: $\mathcal E(\theta_\Omega)=-\tfrac14-\tfrac\eta2<-\eta="
        r"\mathcal E(\theta_2)$.",
    )
    yield check(
        rate["c"],
        0.0,
        {"terms not times p0 p1": rate["p"], "bound on eta broken": rate["bad"]},
        part="conclusion",
        form="corrected",
        correction=r"The factor $p_0p_1$ on $\mathrm{diag}^2(\Delta)$ alone suffices, for every "
        r"$\Delta\ne0$. (Nonzero entries in two fields are needed only for the sign $>$ of Eq. 80 "
        r"itself, where the only field with $\Delta\ne0$ has $\eta_k=\|\eta\|_\infty$.)",
    )
    yield check(
        worst(*found["eqp"]),
        1e-10,
        {"eta ignored": typical(np.concatenate(found["none"]))},
        part="Eqs. 78, 79",
        note=r"$\mathcal E(\theta_\Omega)$ from X_alpha against Eq. 78, relative.",
        counterexample=r"As for Eq. 71: $K=2$, $\Delta=(1,1)$, $\eta=0$.",
    )
    yield check(
        worst(*found["eq"]),
        1e-10,
        {"terms not times p0 p1": typical(np.concatenate(found["eqp"]))},
        part="Eqs. 78, 79",
        form="corrected",
        correction=r"With the factor $p_0p_1$ in $D_{aug}$ both hold.",
    )
    yield check(
        worst(*found["chain"]),
        1e-12,
        {"bound on eta broken": typical(np.concatenate(found["steep"]))},
        part="Eqs. 80-82",
        note="The chain of bounds, with the corrected D_aug on its right end.",
    )


def _rank_two(rng: np.random.Generator, fields: int) -> float:
    """sigma_2/sigma_1 of a critical W2 of rank 2: d = 1, Delta = 1, eta = 0, p0 = p1 = 1/2.

    A point whose joint gradient does not lie along (W1, W2), layer by layer, counts as NaN.
    """
    ones = np.ones((fields, fields))
    x = ones / 4 - np.eye(fields)  # off D_V, which diag(D_V) in D_aug removes
    raw = rng.standard_normal((fields, 2))
    w2 = np.linalg.qr(raw - raw.mean(0))[0].T / np.sqrt(2)
    w1 = np.full((fields, 1), fields**-0.5)
    t_w1, t_w2, t_x = ref.tensors(w1, w2, x)
    slopes = torch.func.grad(relu_two_layer.trace_energy, argnums=(0, 1))(t_w1, t_w2, t_x)
    for w, slope in zip((t_w1, t_w2), slopes, strict=True):
        if (slope - (slope * w).sum() * w).abs().max() > 1e-12:
            return float("nan")
    sizes = np.linalg.svd(w2, compute_uv=False)
    return float(sizes[1] / sizes[0])


@check("acl/eq64")
def eq64(draws: int, seed: int) -> Iterator[Check]:
    """Eqs. 64-67 agree, Eq. 67 as the double sum that is meant. Rank of W2, an aside.

    Controls: the sum over k alone, as typeset; a critical point of rank 2.
    """
    check = partial(Check, "acl/eq64", draws=draws)
    rng = ref.generator("eq64", seed)
    same, dropped, double, rank, wrong = [], [], [], [], []
    anywhere: list[Array] = []
    settings = ((1, 3), (2, 3), (3, 3), (4, 2), (6, 2))
    count = ref.share(draws, len(settings))
    for fields, modes in settings:
        model = models(rng, count, fields, modes)
        x = binary_latent.contrastive(
            model, binary_latent.strong_augmentation(model, 0.2, 0.01)
        ).numpy()
        w1, s = rng.random((count, fields, modes)), rng.standard_normal((count, fields))
        w2 = s[:, None, :]
        wide = mixture.blocks(w1)
        values = [
            relu_two_layer.trace_energy(*ref.tensors(w1, w2, x)).numpy(),
            mixture.trace(w1, w2, x),
            np.einsum("bk,bkp,bpq,blq,bl->b", s, wide, x, wide, s),
            mixture.energy(x, (s[..., None] * w1).reshape(count, -1)),
        ]
        same += [relative(v, values[0], 1e-3) for v in values[1:]]
        grid = x.reshape(count, fields, modes, fields, modes)
        terms = np.einsum("bk,bkm,bkmln,bln,bl->bkl", s, w1, grid, w1, s)
        error = relative(np.trace(terms, axis1=-2, axis2=-1), values[0], 1e-3)
        if fields > 1:
            dropped.append(error)
        twice = 2 * np.trace(terms, axis1=-2, axis2=-1)
        wrong.append(relative(twice, values[0], 1e-3))
        double.append(relative(terms.sum((-1, -2)), values[0], 1e-3))
        if fields > 1:
            # W2's ascent at fixed W1 is a power iteration: 2^30 steps of it, by squaring.
            inner = wide @ x @ wide.swapaxes(-1, -2)
            power = inner + np.abs(inner).sum((-1, -2))[:, None, None] * np.eye(fields)
            for _ in range(34):
                power = power @ power
                power = power / np.linalg.norm(power, axis=(-2, -1), keepdims=True)
            begin = rng.standard_normal(inner.shape)
            for w, found in ((begin @ power, rank), (begin, anywhere)):
                sizes = np.linalg.svd(w, compute_uv=False)
                found.append(sizes[:, 1] / sizes[:, 0])
    tied = [_rank_two(rng, fields) for fields in (3, 4, 6)]
    control = {"sum over k alone": typical(*dropped)}
    yield check(worst(*same), 1e-11, control, part="Eqs. 64-66")
    yield check(
        worst(*double),
        1e-11,
        {"as typeset, the sum over k alone": typical(*dropped), "twice that sum": typical(*wrong)},
        part="Eq. 67",
        misprint=r"$\sum_ks_kw_{1k}^\top X_\alpha w_{1k}s_k$ -> "
        r"$\sum_{k,k'}s_kw_{1k}^\top[X_\alpha]_{kk'}w_{1k'}s_{k'}$, the stacked form of Eq. 66 "
        "written out",
        note=r"The single sum drops the products of different fields, and $w_{1k}$ has $d$ entries "
        r"where $X_\alpha$ has $Kd$ rows. Eqs. 70-76 use the double sum.",
    )
    yield check(
        max(worst(*rank), *tied),
        1e-4,
        {"a random W2": typical(*anywhere)},
        part="rank-1 W2",
        note=r"An aside of the proof: $\sigma_2/\sigma_1$ of critical $W_2$, double eigenvalues of "
        r"$W_1X_\alpha W_1^\top$ included.",
        counterexample=r"$K=3$, $d=1$, $p_0=p_1=\tfrac12$, $\Delta=(1,1,1)$, $D_{aug}$ of Theorem "
        r"6's strong half with $\eta=0$: $W_1=I/\sqrt3$ with $W_2$ of two orthonormal rows "
        r"orthogonal to $\mathbf1$, over $\sqrt2$, is critical, and of rank 2.",
    )
    yield check(
        worst(*rank),
        1e-4,
        {"a double eigenvalue": min(tied)},
        part="rank-1 W2",
        form="corrected",
        correction=r"Rank 1 follows where the eigenvalue of $W_1X_\alpha W_1^\top$ at the critical "
        "point is simple. The energies that Theorem 6 compares are those of rank-1 $W_2$ "
        "by definition, so it does not depend on this.",
    )
