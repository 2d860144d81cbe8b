"""The sentence of ddn's abstract and of Sec. 4: each update of SimCLR is that of a PSD operator.

What a PSD operator can do is known: some A >= 0 has vec(dW) = A vec(W) if and only if the cosine of
vec(dW) and vec(W) is positive, or dW = 0. So cosines of updates with weights are measured, of
complex-step gradients of losses enumerated by loops, plain and l2-normalised, and of batches.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.layers import TIGHT, population_objective, skew, views_of
from clcore.ledger import Check
from clcore.losses import anchors
from clcore.reference import Array, relative, typical, worst
from clcore.theory.operator import covariance_operator as co

NEVER = 1e-6  # a cosine that is not positive, to rounding and more
WIDTHS = dw.DEPTHS[2]


def cosine(update: Array, layers: list[Array], layer: int) -> Array:
    """Of vec(dW_l), [draws, w], and vec(W_l); 0 where nothing moves."""
    w = dw.vec(layers[layer - 1])
    size = np.linalg.norm(update, axis=-1) * np.linalg.norm(w, axis=-1)
    return (update * w).sum(-1) / np.maximum(size, 1e-300)


def _towers(objective: Callable, layers: list[Array], layer: int, x: Array, unit: bool = False):
    """vec(-dE/dW_l) of the first tower and of both, each [draws, w]."""
    step = partial(dw.gradient, objective, layers, layer, x, unit=unit)
    return tuple(-dw.vec(step(tied=tied)) for tied in (False, True))


def _batch(rng: np.random.Generator, world: co.World, size: int) -> Callable:
    """The mean of r_+ - r_- over a batch of `size` drawn anchors, each with a view and a negative;
    one and the same batch for all draws of weights."""
    _, p, _, q = dw.parts(world)
    S, V = q.shape[1:]
    s, t = (rng.choice(S, size, p=p[0]) for _ in range(2))
    i, j, m = (np.array([rng.choice(V, p=q[0, k]) for k in own]) for own in (s, s, t))

    def objective(near: Array, far: Array) -> Array:
        anchor = near[..., s, i, :]
        gap = dw.half(anchor, far[..., s, j, :]) - dw.half(anchor, far[..., t, m, :])
        return gap.mean(-1)

    return objective


def _several(negatives: int, tau: float, world: co.World, K: torch.Tensor, f: torch.Tensor):
    """The operators of InfoNCE with H negatives, of one tower and of both."""
    pull = co.pulls(partial(anchors.infonce, tau=tau), f, world, negatives)
    flat = K.flatten(-4, -3)
    return [co.operator(flat, flat, pull, tied=tied) for tied in (False, True)]


def rem16(draws: int, seed: int) -> Iterator[Check]:
    """Cosines of updates with weights, by loss, towers, batch and normalisation; H = 3.

    Controls: normalised outputs; the loss with beta = 1; small batches; one tower; theta left in.
    """
    check = partial(Check, "ddn/rem16")
    rng, count = ref.generator("rem16", seed), ref.share(draws, 2)
    found: dict[str, list[Array]] = defaultdict(list)
    for strength in (0.6, 1.5):
        world = dw.world(rng, count, WIDTHS[0], "additive", strength)
        layers, x = dw.weights(rng, count, WIDTHS), dw.parts(world)[2]
        plain = torch.from_numpy(dw.output(layers, dw.parts(world)[0]))[..., 0, :]
        f = torch.from_numpy(dw.output(layers, x))
        whole = torch.ones_like(world.chances)[..., None]
        alone = co.World(world.samples, world.chances, world.samples[:, :, None], whole)
        for layer in (1, 2):
            K = views_of(layers, world, layer)
            one, both = _towers(population_objective(dw.simple(), world), layers, layer, x)
            ours = dw.times(co.between(K, world), layers, layer)
            found["simple"] += [cosine(one, layers, layer), cosine(both, layers, layer)]
            found["operator"] += [relative(ours, one, 1e-6), relative(2 * ours, both, 1e-6)]
            more = _towers(population_objective(dw.simple(1.0), world), layers, layer, x)
            found["beta"] += [cosine(v, layers, layer) for v in more]
            for name, case in (("InfoNCE", dw.infonce(0.5)), ("triplet", dw.triplet(0.5))):
                moves = _towers(population_objective(case, world), layers, layer, x)
                for tower, move in zip(("one", "both"), moves, strict=True):
                    found[f"{name}, {tower}"].append(cosine(move, layers, layer))
                xi = case.library_weight(co.half_distances(plain, plain))
                theta = co.residue(K, co.pulls(case.ours, f, world), xi, world)
                rest = moves[0] - dw.times(theta, layers, layer)
                found["without theta"].append(cosine(rest, layers, layer))
                main = co.pair_operator(co.view_mean(K, world), xi, world)
                found["weighted"].append(relative(dw.times(main, layers, layer), rest, 1e-6))
                unit = _towers(population_objective(case, world), layers, layer, x, unit=True)
                found["unit"] += [cosine(v, layers, layer) for v in unit]
            one, both = _towers(population_objective(dw.simple(), world), layers, layer, x, True)
            found["unit"] += [cosine(v, layers, layer) for v in (one, both)]
            sets = (("views", world, K, f), ("alone", alone, None, plain[:, :, None]))
            for kind, w, k, out in sets:
                k = views_of(layers, alone, layer) if k is None else k
                for towers, op in zip(("one", "both"), _several(3, 0.5, w, k, out), strict=True):
                    low = torch.linalg.eigvalsh((op + op.mT) / 2)
                    psd = (-low[:, 0] / low.abs().amax(-1)).numpy()
                    found[f"{kind}, {towers}"].append(np.maximum(psd, skew(op)))
    for _ in range(min(max(count, 2), 6)):
        world = dw.world(rng, 1, WIDTHS[0], "additive", 0.6)
        layers, x = dw.weights(rng, 1, WIDTHS), dw.parts(world)[2]
        for size, repeat in ((4, 20), (2000, 1)):
            for _ in range(repeat):
                move = _towers(_batch(rng, world, size), layers, 1, x)[1]
                found[f"batches of {size}"].append(cosine(move, layers, 1))
    yield from _report(check, found, 2 * count)


def _report(check: Callable, found: dict[str, list[Array]], total: int) -> Iterator[Check]:
    least = {name: ref.best(*values) for name, values in found.items()}
    small = float((np.concatenate(found["batches of 4"]) < 0).mean())
    yield check(
        least["simple"],
        NEVER,
        {
            "l2-normalised outputs": least["unit"],
            "beta = 1": least["beta"],
        },
        relation=">=",
        draws=total,
        part="simple loss, large batch limit, plain outputs",
        note="Least cosine of update and weights, of one tower's and of both towers'; the update "
        "is $\\mathbb V_x[\\bar K_l]$ on the weights, or twice that, to "
        f"{worst(*found['operator']):.0e}. "
        "Fails where outputs are l2-normalised, as SimCLR's are, under all three losses: they do "
        "not change with the scale of $W_l$, so that every update is orthogonal to it, as that of "
        "a PSD operator never is. Sec. 4 sets this aside, and App. B.3 leaves it to future work.",
    )
    yield check(
        least["batches of 2000"],
        NEVER,
        {"batches of 4": least["batches of 4"]},
        relation=">=",
        draws=len(found["batches of 2000"]),
        part="simple loss, one step on a batch of 2000, plain outputs",
        note="Least cosine, both towers. Fails where batches are small: below 0 for "
        f"{small:.0%} of batches of four. Theorem 3 says 'with large batch limit'.",
    )
    yield check(
        worst(*found["alone, both"]),
        TIGHT,
        {
            "one tower": typical(np.concatenate(found["alone, one"])),
            "with augmentation": worst(*found["views, both"]),
        },
        draws=total,
        part="InfoNCE with three negatives, both towers, no augmentation",
        note="The larger of $|A-A^\\top|/|A|$ and minus the least eigenvalue over the largest. "
        "Of one tower, as in the theorems, the operator is not symmetric (App. B.4 says why).",
    )
    names = [f"{loss}, {towers}" for loss in ("InfoNCE", "triplet") for towers in ("one", "both")]
    shares = {n: float((np.concatenate(found[n]) < 0).mean()) for n in names}
    kinder = max(min(least[f"{n}, {t}"] for n in ("InfoNCE", "triplet")) for t in ("one", "both"))
    tag = {"part": "soft triplet and InfoNCE, large batch limit, plain outputs", "draws": total}
    yield check(
        kinder,
        NEVER,
        {"simple loss, beta = 1": least["beta"]},
        relation=">=",
        counterexample=COUNTEREXAMPLE,
        note="Least cosine, under the kinder of two readings: one tower moves, or both. Below 0 in "
        + ", ".join(f"{share:.0%} ({name})" for name, share in shares.items())
        + " of the draws; views spread by 0.6 and 1.5, samples by 1.",
        **tag,
    )
    yield check(
        least["without theta"],
        NEVER,
        {"theta left in": min(least["InfoNCE, one"], least["triplet, one"])},
        relation=">=",
        form="corrected",
        correction=CORRECTION,
        note=r"Least cosine once $\theta$ is taken off; what is left is $\frac12\mathbb V^\xi$ on "
        f"the weights, to {worst(*found['weighted']):.0e}.",
        **tag,
    )


COUNTEREXAMPLE = (
    r"$f=wx$, $w=1$, InfoNCE with $H=1$, $\tau=1$; samples $x=\pm0.1$, views $x\pm1$, all equally "
    r"likely: the update of $w$ is $-0.38$ (one tower) or $-0.76$ (both), where a PSD operator, a "
    "number that is not negative, gives none below 0."
)
CORRECTION = (
    r"For the soft triplet loss and InfoNCE with one negative the update is that of "
    r"$\frac12\mathbb V^\xi_{x,x'}[\bar K_l(x)-\bar K_l(x')]+\theta$ (Theorem 4), of which the "
    r"first part alone is PSD; $\theta$ vanishes without augmentation, and need not be the smaller."
)
