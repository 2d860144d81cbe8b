"""Inside and between: EV and VE, and what training does to them (ddn Sec. 4.1, 4.2, Corollary 1).

Gradients by complex steps through enumerated losses, as in `dual_networks.population`; paths of
training by the library, and for Theorem 3's remark by numpy alone.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.layers import TIGHT, population_objective, views_of
from clcore.checks.dual_networks.towers import TWICE
from clcore.ledger import Check
from clcore.reference import Array, relative, typical, worst
from clcore.theory.operator import connection as net
from clcore.theory.operator import covariance_operator as co

# ------------------------------------------------------------------------------ inside and between

BETAS = (-0.5, 0.0, 0.2, 1.0)


def cor1(draws: int, seed: int) -> Iterator[Check]:
    """(-beta EV + VE) vec(W_l) against complex steps of E[(1 + beta) r_+ - r_-], all layers.

    Controls: EV and VE exchanged, beta's sign, both towers (again exactly twice, a part).
    """
    rng, errors, twice = ref.generator("cor1", seed), [], []
    broken: dict[str, list[Array]] = defaultdict(list)
    count = ref.share(draws, 3)
    for depth in (1, 2, 3):
        widths = dw.DEPTHS[depth]
        world, layers = dw.world(rng, count, widths[0]), dw.weights(rng, count, widths)
        x = dw.parts(world)[2]
        for layer in range(1, depth + 1):
            K = views_of(layers, world, layer)
            low, high = co.between(K, world), co.within(K, world)
            for beta in BETAS:
                steps = partial(dw.gradient, layers=layers, layer=layer, x=x)
                g = -dw.vec(steps(population_objective(dw.simple(beta), world)))
                ours = dw.times(low - beta * high, layers, layer)
                errors.append(relative(ours, g, 1e-6))
                if beta == 1.0:
                    both = -dw.vec(steps(population_objective(dw.simple(beta), world), tied=True))
                    twice.append(relative(both, 2 * g, 1e-6))
                    broken["both towers"].append(relative(ours, both, 1e-6))
                if beta:
                    other = dw.times(high - beta * low, layers, layer)
                    broken["EV and VE exchanged"].append(relative(other, g, 1e-6))
                    sign = dw.times(low + beta * high, layers, layer)
                    broken["sign of beta"].append(relative(sign, g, 1e-6))
    control = ref.pooled(broken)
    tag = {"draws": 3 * count, "note": TWICE}
    yield Check("ddn/cor1", worst(*errors), TIGHT, control, part="one tower", **tag)
    yield Check(
        "ddn/cor1",
        worst(*twice),
        TIGHT,
        {"once": control["both towers"]},
        draws=3 * count,
        part="both tied towers",
        note="Twice one tower's gradient, at beta = 1.",
    )


def eq86(draws: int, seed: int) -> Iterator[Check]:
    """EV_l vec(W_l) against complex steps of the enumerated E[r_+]. Controls: VE, both towers.

    Through both towers it is exactly twice (a part), for the two views are exchangeable.
    """
    rng, errors, twice = ref.generator("eq86", seed), [], []
    broken: dict[str, list[Array]] = defaultdict(list)
    count = ref.share(draws, 4)
    for depth, widths in dw.DEPTHS.items():
        world, layers = dw.world(rng, count, widths[0]), dw.weights(rng, count, widths)
        x = dw.parts(world)[2]

        def objective(near: Array, far: Array, world: co.World = world) -> Array:
            return dw.mean_loss(lambda a, b: a, near, far, world)

        for layer in range(1, depth + 1):
            steps = partial(dw.gradient, objective, layers, layer, x)
            g, both = dw.vec(steps()), dw.vec(steps(tied=True))
            K = views_of(layers, world, layer)
            ours = dw.times(co.within(K, world), layers, layer)
            errors.append(relative(ours, g, 1e-6))
            broken["VE"].append(relative(dw.times(co.between(K, world), layers, layer), g, 1e-6))
            broken["both towers"].append(relative(ours, both, 1e-6))
            twice.append(relative(2 * ours, both, 1e-6))
    control = ref.pooled(broken)
    yield Check(
        "ddn/eq86",
        worst(*errors),
        TIGHT,
        control,
        draws=4 * count,
        part="one tower",
        note=TWICE,
    )
    yield Check(
        "ddn/eq86",
        worst(*twice),
        TIGHT,
        {"once": control["both towers"]},
        draws=4 * count,
        part="both tied towers",
        note="Twice one tower's gradient.",
    )


def rem5(draws: int, seed: int) -> Iterator[Check]:
    """Least eigenvalue of -beta EV_l + VE_l over the largest, for beta < 0, many nets and worlds.

    Control: beta = 0.2 and 1, where it may be negative.
    """
    rng, found = ref.generator("rem5", seed), defaultdict(list)
    count = ref.share(draws, 3)
    for depth in (1, 2, 3):
        widths = dw.DEPTHS[depth]
        for kind in co.KINDS:
            world, layers = dw.world(rng, count, widths[0], kind), dw.weights(rng, count, widths)
            for layer in range(1, depth + 1):
                K = views_of(layers, world, layer)
                low, high = co.between(K, world), co.within(K, world)
                for beta in (-1.0, -0.5, -0.1, 0.2, 1.0):
                    values = torch.linalg.eigvalsh(low - beta * high)
                    size = values.abs().amax(-1)
                    ratio = -(values[:, 0] / size.clamp(min=1e-300)).numpy()
                    found[beta if beta > 0 else "negative"].append(ratio)
    control = {f"beta = {b:g}": float(np.median(np.concatenate(found[b]))) for b in (0.2, 1.0)}
    yield Check("ddn/rem5", worst(*found["negative"]), 1e-10, control, draws=9 * count)


# ---------------------------------------------------------------------------------------- training


def _simple_loss(world: co.World, beta: float = 0.0):
    """E[(1 + beta) r_+ - r_-] as one sum over pairs of views, for complex arguments."""
    _, p, _, q = dw.parts(world)
    both = (p[..., None] * q).reshape(len(p), -1)
    same = np.repeat(np.repeat(np.eye(p.shape[1]), q.shape[2], 0), q.shape[2], 1)
    chance = q.reshape(len(p), -1)
    mass = (1 + beta) * same * both[:, :, None] * chance[:, None] - both[:, :, None] * both[:, None]

    def objective(near: Array, far: Array) -> Array:
        a, b = (v.reshape(*v.shape[:-3], -1, v.shape[-1]) for v in (near, far))
        return (mass * dw.half(a[..., :, None, :], b[..., None, :, :])).sum((-1, -2))

    return objective


def trained(rng: np.random.Generator, count: int, steps: int) -> dict[str, list[Array]]:
    """Three layers under L_simp in numpy; what rem2 and rem4 ask of the operators on the way."""
    widths, found = dw.DEPTHS[3], defaultdict(list)
    world, layers = dw.world(rng, count, widths[0]), dw.weights(rng, count, widths)
    objective, (_, p, x, q) = _simple_loss(world), dw.parts(world)
    for step in range(steps + 1):
        kept = []
        mean = (q[..., None] * dw.output(layers, x)).sum(2)
        spread = (p[..., None] * (mean - (p[..., None] * mean).sum(1, keepdims=True)) ** 2).sum(
            (1, 2)
        )
        for layer in range(1, 4):
            K, w = views_of(layers, world, layer), dw.vec(layers[layer - 1])
            op = co.between(K, world).numpy()
            values, vectors = np.linalg.eigh(op)
            found["least"].append(-values[:, 0] / values[:, -1])
            plus = np.linalg.eigvalsh(op - co.within(K, world).numpy())
            found["beta = 1"].append(-plus[:, 0] / np.abs(plus).max(-1))
            rate = 0.02 / values[:, -1]
            g = dw.gradient(objective, layers, layer, x)
            new = layers[layer - 1] - rate[:, None, None] * g
            size = np.linalg.norm(w, axis=-1)[:, None]
            before, after = (np.einsum("bji,bj->bi", vectors, v) for v in (w, dw.vec(new)))
            grown = (1 + rate[:, None] * values) * before
            found["modes"].append(np.abs(after - grown) / size)
            found["both towers"].append(
                np.abs(2 * (after - before) - (grown - before)).max(-1) / size[:, 0]
            )
            gain = np.einsum("bi,bij,bj->b", w, op, w)
            found["gain"].append(np.abs(gain / spread - 1))
            whole = op + co.within(K, world).numpy()
            found["all views"].append(np.abs(np.einsum("bi,bij,bj->b", w, whole, w) / spread - 1))
            found["norm"].append(-(after**2).sum(-1) / (before**2).sum(-1))
            found["shrinks"].append(-((2 * before - after) ** 2).sum(-1) / (before**2).sum(-1))
            kept.append(new)
            if step == 0:
                found["start"].append(op / values[:, -1, None, None])
            if step == steps:
                found["end"].append(op / values[:, -1, None, None])
        layers = kept
    return found


def rem2(draws: int, seed: int) -> Iterator[Check]:
    """200 steps of a three-layer net under L_simp, gradients by complex steps.

    The operator stays PSD, eigenmode i grows by 1 + rate * lambda_i, |W_l| never falls. Controls:
    the operator of beta = 1, both towers, all views for their means, ascent of the loss.
    """
    check = partial(Check, "ddn/rem2")
    found = trained(ref.generator("rem2", seed), min(draws, 6), 200)
    total = len(found["least"]) * len(found["least"][0])
    for part, bound, errors, control, note in (
        (
            "PSD at every step",
            1e-12,
            "least",
            "beta = 1",
            "Least eigenvalue over the largest, minus.",
        ),
        (
            "growth of each mode",
            1e-11,
            "modes",
            "both towers",
            f"Relative to the norm of the weights. {TWICE}",
        ),
        (
            "growth of the norm",
            1e-10,
            "gain",
            "all views",
            "vec(W)^T OP vec(W) is the variance of the mean outputs, alike in every layer.",
        ),
        (
            "weights never shrink",
            -1.0,
            "norm",
            "shrinks",
            "Minus the squared norm's growth in a step.",
        ),
    ):
        broken = {control: typical(np.concatenate(found[control]))}
        yield check(worst(*found[errors]), bound, broken, draws=total, part=part, note=note)


def _residues(weights: tuple, world: co.World, case: dw.Case) -> Array:
    """|theta| of every layer, plain outputs, [L, draws]."""
    seen = net.trace(weights, world.points)
    pull = co.pulls(case.ours, world.shaped(seen.output, 1), world)
    plain = net.trace(weights, world.samples).output
    xi = case.library_weight(co.half_distances(plain, plain))
    connections = [world.shaped(net.connection(seen, k + 1), 2) for k in range(len(weights))]
    found = [torch.linalg.matrix_norm(co.residue(K, pull, xi, world)) for K in connections]
    return torch.stack(found).numpy()


SEEDS = 24  # nets a setting
SETTINGS = ((False, 0.5), (False, 2.0), (True, 0.5), (True, 2.0))
"""Normalised outputs or not, and the temperature; the first is what counts as printed."""


def rem15(draws: int, seed: int) -> Iterator[Check]:
    """theta, also over the weighted covariance, and the views' spread, before and after training.

    Two losses, with and without output normalisation, two temperatures, both towers as in practice,
    one schedule. The remark is an expectation that does not say against what theta
    shrinks, nor of which net: both are measured, over settings that it leaves open. Control: as
    many steps on the loss of -r_+, which pushes views apart (but samples more, if outputs are not
    normalised). L_simp for the residue that is never there.
    """
    check = partial(Check, "ddn/rem15")
    rng = ref.generator("rem15", seed)
    steps, widths = 60, (6, 8, 6, 3)
    found: dict[str, list[float]] = defaultdict(list)
    for name, (normalised, tau) in product(("InfoNCE", "triplet"), SETTINGS):
        case, rate = (dw.infonce(tau), 0.6 * tau) if name == "InfoNCE" else (dw.triplet(tau), 0.6)
        layers = [0.7 * w for w in dw.weights(rng, SEEDS, widths)]
        world = dw.world(rng, SEEDS, 6, "additive", 0.3, samples=5)

        def path(
            weights, length: int, sign: int = 1, case=case, rate=rate, n=normalised, world=world
        ):
            """`length` steps on the loss of sign * r_+; nothing recorded but its end."""
            return co.train(
                weights,
                world,
                lambda near, far: case.ours(sign * near, far),
                case.library_weight,
                rate,
                length,
                length + 1,
                n,
                tied=True,
            )

        start = dw.torch_layers(layers)
        nets = [start, *(path(start, steps, sign).weights for sign in (1, -1))]
        seen = [path(weights, 0) for weights in nets]  # the residue of the loss itself
        theta = [v.residue[0].numpy() for v in seen]
        rows = [(f"{normalised} {tau}", theta)]
        if tau == SETTINGS[0][1]:
            spread = [(v.spread[0, ..., 0] / v.spread[0, ..., 1]).numpy() for v in seen]
            rows.append(("share", spread))
            found["start"].append(np.nanmedian(theta[0]))
            found["L_simp"].append(_never(layers, world))
            if not normalised:
                rows.append(("theta", [_residues(weights, world, case) for weights in nets]))
        for key, (first, trained, broken) in rows:
            found[key].append(np.nanmedian(trained / first))
            if normalised or key != "share":
                found[f"{key}, control"].append(np.nanmedian(broken / first))
    yield check(
        min(found["start"]),
        1e-3,
        {"L_simp": max(found["L_simp"])},
        relation=">=",
        draws=4 * SEEDS,
        part="theta is not zero",
        note="Median of |theta| over the weighted covariance at the start, least of four settings.",
    )
    apart = "views pushed apart"
    for part, key in (
        ("views' spread over samples' spread", "share"),
        ("theta itself, plain outputs", "theta"),
        *(("theta over the operator", f"{n} {tau}") for n, tau in SETTINGS),
    ):
        open_ = key not in ("share", "theta", f"{SETTINGS[0][0]} {SETTINGS[0][1]}")
        normalised, tau = key.split() if open_ else ("False", "0.5")
        outputs = "normalised outputs" if normalised == "True" else "plain outputs"
        yield check(
            max(found[key]),
            1.0,
            {
                f"{apart}, normalised outputs" if key == "share" else apart: min(
                    found[f"{key}, control"]
                )
            },
            draws=SEEDS * (4 if key == "share" else 2),
            part=f"{part}, shrinks",
            evidence="protocol",
            form="open" if open_ else "printed",
            setting=f"{outputs}, temperature {float(tau):g}" if open_ else "",
            note=f"Median of end over start, {steps} steps, the larger of both losses'"
            + ("" if key == "share" else f"; {outputs}, temperature {float(tau):g}")
            + ". The paper prints no sizes for this, so none are fallen short of.",
        )


def _never(layers: list[Array], world: co.World) -> float:
    """The residue of L_simp over its operator, the largest of all draws."""
    K = views_of(layers, world, 2)
    f = torch.from_numpy(dw.output(layers, dw.parts(world)[2]))
    ones = torch.ones(*world.chances.shape, world.chances.shape[-1], dtype=torch.float64)
    none = co.residue(K, co.pulls(dw.simple().ours, f, world), ones, world)
    size = torch.linalg.matrix_norm(co.between(K, world))
    return float((torch.linalg.matrix_norm(none) / size).max())
