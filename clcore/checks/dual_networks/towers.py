"""One tower or two (ddn Sec. 3): what the gradient with respect to W_1 alone leaves out.

Tied weights move through both towers of a pair. Their gradients, by complex steps, against the
first tower's: of one pair, of one sample of a loss, and of whole populations.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.dual_networks import nets
from clcore.checks.dual_networks import worlds as dw
from clcore.ledger import Check
from clcore.reference import Array, relative, worst
from clcore.theory.operator import connection as cn
from clcore.theory.operator import covariance_operator as co

PAIR = "one pair, tied weights"
CURVED = "population, InfoNCE and triplet"
FIRST = "The gradient by the first tower's weights, to which Sec. 3 restricts the analysis. "
ONE_SAMPLE = f"{FIRST}Fails where both towers move: tied weights get another vector (ddn/towers)."
TWICE = f"{FIRST}Where both towers move it is exactly twice as much (ddn/towers)."


def both_of_pair(pair: nets.Pair, layer: int, normalised: bool = False) -> Array:
    """vec dr/dW_l of tied weights, both towers moving, by complex steps, [draws, n_l n_{l-1}]."""

    def r(w: Array) -> Array:
        weights = [*pair.first[: layer - 1], w, *pair.first[layer:]]
        outs = (nets.passes(weights, x, pair.name)[1][-1] for x in (pair.x1, pair.x2))
        return nets.half(*outs, normalised)

    return nets.column_stack(ref.gradient(r, pair.first[layer - 1]))


def _pairs(check: partial, rng: np.random.Generator, draws: int) -> Iterator[Check]:
    """The second tower's gradient of any pair, and what tied weights get of it."""
    second, same, apart, other_part, mended, plus = ([] for _ in range(6))
    for pair in nets.pairs(rng, draws):
        one, two = pair.traces
        turned = nets.Pair(pair.second, pair.first, pair.x2, pair.x1, pair.name)
        for layer in range(1, pair.depth + 1):
            other = nets.column_stack(turned.weight_gradient(layer))
            floor = 1e-3 * np.abs(other).max(-1)
            K1, K2 = (nets.one(cn.connection(t, layer)) for t in (one, two))
            f1, f2 = pair.outputs
            second.append(relative(nets.times(K2, f2 - f1), other, floor))
            same.append(relative(nets.times(K1, f1 - f2), other, floor))
    yield check(
        worst(*second),
        1e-11,
        ref.pooled({"the first tower's": same}),
        part="the second tower, any weights",
        note="Eq. 1 with the towers exchanged: in this sense nothing is lost.",
    )
    for pair in nets.pairs(rng, draws, tied=True):
        one, two = pair.traces
        for layer in range(1, pair.depth + 1):
            whole = both_of_pair(pair, layer)
            floor = 1e-3 * np.abs(whole).max(-1)
            K1, K2 = (nets.one(cn.connection(t, layer)) for t in (one, two))
            w = nets.column_stack(pair.first[layer - 1])
            gap, total = (nets.times((K1 + s * K2).swapaxes(1, 2), w) for s in (-1, 1))
            apart.append(dw.off_line(nets.times(K1, gap), whole))
            other_part.append(dw.off_line(nets.times(K2, gap), whole))
            mended.append(relative(nets.times(K1 - K2, gap), whole, floor))
            plus.append(relative(nets.times(K1 - K2, total), whole, floor))
    signs = {"plus in the bracket": ref.typical(*plus)}
    yield check(
        worst(*apart),
        1e-10,
        ref.pooled({"the second tower's part": other_part}),
        part=PAIR,
        counterexample=r"$f=wx$, $x_1=0$, $x_2=1$: $r=\frac12w^2$ and $\partial r/\partial w=w$; "
        "the first tower's part is 0.",
        note="Distance of the first tower's part from the nearest multiple of the gradient of the "
        "one matrix that both towers have, over its norm.",
    )
    yield check(
        worst(*mended),
        1e-11,
        signs,
        part=PAIR,
        form="corrected",
        correction=r"Of the shared matrix $\mathrm{vec}(\partial r/\partial W_l)="
        r"[K_l(x_1)-K_l(x_2)][K_l(x_1)-K_l(x_2)]^\top\mathrm{vec}(W_l)$; Eqs. 40, 41, 46 "
        r"and 51 are its first tower's part, $\mathrm{vec}(\partial r/\partial W_{1,l})$ at "
        r"$\mathcal W_1=\mathcal W_2$. On average over exchangeable $x_1$, $x_2$ the whole is "
        "twice the part.",
    )


def _held(layers: list[Array], world: co.World, case: dw.Case) -> Array:
    """xi(x, x'') at the samples themselves, [draws, S, S], from the page's formula."""
    f = dw.output(layers, dw.parts(world)[0])[:, :, 0]
    return case.weight(dw.half(f[:, :, None], f[:, None]))


def _fixed(layers: list[Array], world: co.World, case: dw.Case):
    """(near, far) -> E[xi(x, x'') (r_+ - r_-)] with xi of the samples themselves, held."""
    xi = _held(layers, world, case)
    _, p, _, q = dw.parts(world)
    S, V = q.shape[1:]

    def objective(near: Array, far: Array) -> Array:
        total = 0.0
        for s, i, t, m in product(range(S), range(V), range(S), range(V)):
            mass = p[:, s] * q[:, s, i] * p[:, t] * q[:, t, m] * xi[:, s, t]
            minus = dw.half(near[..., s, i, :], far[..., t, m, :])
            for j in range(V):
                plus = dw.half(near[..., s, i, :], far[..., s, j, :])
                total = total + mass * q[:, s, j] * (plus - minus)
        return total

    return objective


def _tied_residue(K: torch.Tensor, pull: torch.Tensor, xi: torch.Tensor, world: co.World):
    """The exact operator of both towers less twice the weighted covariance, [draws, w, w]."""
    flat = K.flatten(-4, -3)
    whole = co.operator(flat, flat, pull, tied=True)
    return whole - 2 * co.pair_operator(co.view_mean(K, world), xi, world)


def _populations(check: partial, rng: np.random.Generator, draws: int) -> Iterator[Check]:
    """Twice or not twice, in finite worlds."""
    found: dict[str, list[Array]] = defaultdict(list)
    count = ref.share(min(draws, 40), 4)
    kinds = {"InfoNCE": dw.infonce(0.5), "triplet": dw.triplet(0.5)}
    for depth, widths in dw.DEPTHS.items():
        world, layers = dw.world(rng, count, widths[0]), dw.weights(rng, count, widths)
        x = dw.parts(world)[2]
        for layer in {1, depth}:
            steps = partial(dw.gradient, layers=layers, layer=layer, x=x)
            seen = cn.trace(dw.torch_layers(layers), world.points)
            K = world.shaped(cn.connection(seen, layer), 2)
            for name, case in (
                ("linear", dw.simple()),
                ("linear", dw.simple(-0.5)),
                *kinds.items(),
            ):
                objective = partial(dw.mean_loss, case.page, w=world)
                for unit in (False, True):
                    if unit and (name != "linear" or depth == 1):
                        continue
                    one, two = (
                        dw.vec(steps(lambda a, b, o=objective: o(a, b), tied=t, unit=unit))
                        for t in (False, True)
                    )
                    found[name].append(relative(two, 2 * one, 1e-6))
                    found[f"{name}, off"].append(dw.off_line(one, two))
                if name == "linear":
                    continue
                held = _fixed(layers, world, case)
                first, tied = (dw.vec(steps(held, tied=t)) for t in (False, True))
                found["fixed"].append(relative(tied, 2 * first, 1e-6))
                f = torch.from_numpy(dw.output(layers, x))
                xi = torch.from_numpy(_held(layers, world, case))
                pull = co.pulls(case.ours, f, world)
                theta = _tied_residue(K, pull, xi, world).numpy()
                main = co.pair_operator(co.view_mean(K, world), xi, world).numpy()
                one_theta = co.residue(K, pull, xi, world).numpy()
                for label, op in (
                    ("right", 2 * main + theta),
                    ("theta once", 2 * main + one_theta),
                    ("theta twice", 2 * main + 2 * one_theta),
                ):
                    found[label].append(relative(dw.times(op, layers, layer), -two, 1e-6))
    total = count * len(dw.DEPTHS)
    curved = ref.pooled({k: found[k] for k in kinds})
    off = np.median(np.concatenate(found["InfoNCE, off"]))
    for part, key, note in (
        (
            r"population, $L_{simp}$ and $L^\beta_{simp}$",
            "linear",
            "Both towers give twice one tower's gradient, plain and normalised outputs: anchor and "
            "other view are exchangeable. The learning rate takes the factor in.",
        ),
        (
            "population, leading part of Theorem 4",
            "fixed",
            r"The loss with $\xi$ of the samples held: $\frac12\mathbb V^\xi$ doubles.",
        ),
    ):
        yield check(worst(*found[key]), 1e-8, curved, draws=total, part=part, note=note)
    yield check(
        worst(*found["InfoNCE, off"], *found["triplet, off"]),
        1e-8,
        ref.pooled({"theta doubled": found["theta twice"]}),
        draws=2 * total,
        part=CURVED,
        counterexample=r"Random worlds of three samples with three views, InfoNCE, "
        rf"$\tau=\frac12$: one tower's gradient is off the nearest multiple of both towers' by "
        f"{off:.2f} of its norm (median).",
        note="Distance from the nearest multiple, over the norm. Anchor and negative play "
        "different parts in these losses.",
    )
    yield check(
        worst(*found["right"]),
        1e-8,
        ref.pooled({"theta once": found["theta once"], "theta doubled": found["theta twice"]}),
        draws=2 * total,
        part=CURVED,
        form="corrected",
        correction=r"Both towers move tied weights by $\mathbb V^\xi_{x,x''}[\bar K_l(x)-"
        r"\bar K_l(x'')]+\theta'$, twice the operator of Theorem 4 but for the residue: $\theta'$ "
        r"has the same order as $\theta$, and is another matrix than $2\theta$.",
    )


def towers(draws: int, seed: int) -> Iterator[Check]:
    """Sec. 3 analyses dr/dW_1 alone, without loss of generality; tied weights move in both towers.

    Complex steps through one tower and through both, against the library's operators. Controls: the
    other tower's part, the bracket's sign, losses that are not linear in distances, a residue that
    doubles as the operator does.
    """
    rng, check = ref.generator("ddn towers", seed), partial(Check, "ddn/towers", draws=draws)
    yield from _pairs(check, rng, draws)
    yield from _populations(partial(Check, "ddn/towers"), rng, draws)
