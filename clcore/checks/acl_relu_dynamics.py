"""One hidden ReLU node: where its flow ends (acl Sec. 5.2, Figs. 4 and 5).

Batched flows of `clcore.relu_two_layer` meet eigenvectors, gradients and energies from numpy.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from .. import contrast, losses, relu_two_layer
from ..ledger import Check
from . import mixture
from . import reference as ref
from .reference import Array, best, relative, tensors, typical, worst

SIZES = (2, 3, 5, 8, 12, 20)


def _fixed(x: Array, x2: Array, alpha: Array) -> Array:
    """C_alpha[x, x] by clcore, [draws, M, M]."""
    return contrast.contrastive_covariance(*tensors(alpha, x, x2, x, x2)).numpy()


def _random_field(
    rng: np.random.Generator, draws: int, modes: int, **how
) -> tuple[Array, Array, Array]:
    """X_alpha of random batches and weights, with the batches."""
    n = max(12, 2 * modes)
    x, x2 = mixture.field(rng, draws, n, modes, **how)
    return _fixed(x, x2, mixture.weights(rng, draws, n)), x, x2


def _ends(x: Array, w: Array, **how) -> Array:
    return relu_two_layer.sticky_limit(*tensors(x, w), **how).numpy()


def _many(w: Array) -> Array:
    """[draws]: whether w is not one of the e_m."""
    largest = np.sort(np.abs(w), -1)
    return (largest[:, -1] < 1 - 1e-6) | (largest[:, -2] > 1e-6) | (w.max(-1) < 0.5)


def eq53(draws: int, seed: int) -> Iterator[Check]:
    """One node's descent is diag(w > 0) X w; entries die one after the other until one is left.

    Gradients: autograd of the loss of the ReLU net against numpy. Controls: no gate, the energy's
    whole gradient, the augmentation's sign; the linear flow.
    """
    rng, n, tau = ref.generator("eq53", seed), 12, 0.5
    errors: list[Array] = []
    broken: dict[str, list[Array]] = defaultdict(list)
    pair, functions = losses.infonce_pair(tau, 1.0), ref.table1(tau)[0][1:]
    sizes = (3, 5, 8)
    count = ref.share(draws, len(sizes))
    for modes in sizes:
        x, x2 = mixture.field(rng, count, n, modes)
        w = mixture.starts(rng, count, modes) * (rng.random((count, modes)) > 0.4)
        w[:, 0] = rng.random(count) + 0.2
        w[:, 1] = 0.0
        top = rng.standard_normal((count, 2, 1))
        top /= np.linalg.norm(top, axis=1, keepdims=True)
        views = [v[:, :, None] for v in tensors(x, x2)]

        def loss(w: torch.Tensor, views=views, top=top) -> torch.Tensor:
            z, z2 = (relu_two_layer.output(w[:, None], torch.from_numpy(top), v) for v in views)
            return contrast.family_loss(z, z2, pair).sum()

        ours = -torch.func.grad(loss)(torch.from_numpy(w))
        z, z2 = (np.einsum("bnm,bm->bn", v, w)[..., None] for v in (x, x2))
        alpha = ref.importance(*ref.distances(z, z2), *functions)
        push = np.einsum("bml,bl->bm", mixture.covariance(alpha, x, x2), w)
        flipped = ref.covariance(alpha, x, x2, x, x2, sign=-1.0)
        errors.append(relative(ours, (w > 0) * push))
        broken["no gate"].append(relative(ours, push))
        broken["gradient of the energy"].append(relative(ours, 2 * (w > 0) * push))
        wrong = (w > 0) * np.einsum("bml,bl->bm", flipped, w)
        broken["augmentation added"].append(relative(ours, wrong))
    yield Check(
        "acl/eq53",
        worst(*errors),
        1e-9,
        ref.pooled(broken),
        part="gradient",
        draws=count * len(sizes),
        note="Minus the gradient of the loss. The energy's gradient is twice as long.",
    )

    orderly, linear, total = [], [], 0
    count = ref.share(draws, len(SIZES))
    for modes in SIZES:
        x, *_ = _random_field(rng, count, modes)
        start = mixture.starts(rng, count, modes)
        for sticky, found in ((True, orderly), (False, linear)):
            found.append(_dies_in_turn(x, start, sticky))
        total += count
    yield Check(
        "acl/eq53",
        float(np.concatenate(orderly).mean()),
        0.99,
        {"no sticky rule": float(np.concatenate(linear).mean())},
        relation=">=",
        draws=total,
        part="active set",
        note="Share of runs whose set of positive entries never grows and loses M - 1 entries.",
    )


def _dies_in_turn(x: Array, w: Array, sticky: bool, blocks: int = 400) -> Array:
    """[draws]: the active set never grows, and ends as one entry."""
    t_x, t_w = tensors(x, w)
    size = torch.linalg.matrix_norm(t_x)[..., None]
    active, fine = t_w > 0, torch.ones(len(w), dtype=torch.bool)
    for _ in range(blocks):
        for _ in range(25):
            t_w = relu_two_layer.sticky_step(t_x, t_w, 0.1 / size, sticky)
        now = t_w > 0
        fine &= ~(now & ~active).any(-1)
        active = now
        if sticky and bool((active.sum(-1) == 1).all()):
            break
    return (fine & (active.sum(-1) == 1) & ((t_w == 0).sum(-1) == w.shape[-1] - 1)).numpy()


def thm5(draws: int, seed: int) -> Iterator[Check]:
    """w1 -> e_m: for fixed positive weights, all modes shown and almost every start, yes.

    Cells outside these hypotheses, which Assumption 1 allows, end elsewhere; so does cold InfoNCE
    when its weights follow w1. Controls: the linear flow; the cells.
    """
    check = partial(Check, "acl/thm5")
    rng = ref.generator("thm5", seed)
    inside, linear = [], []
    cells: dict[str, list[Array]] = defaultdict(list)
    count = 4 * ref.share(draws, len(SIZES))
    for modes in SIZES:
        x, *_ = _random_field(rng, count, modes)
        start = mixture.starts(rng, count, modes)
        inside.append(_many(_ends(x, start)))
        linear.append(_many(_ends(x, start, sticky=False, steps=300)))
        few = min(count, 20)
        eye, ones = np.eye(modes), np.ones((few, modes, modes))
        even = 2 * eye - 0.5 * ones / modes
        cells["starts at the minimal eigenvector"].append(
            _many(_ends(even, np.full((few, modes), modes**-0.5), steps=300))
        )
        dead = -start[:few]
        cells["starts with no positive entry"].append(_many(_ends(x[:few], dead, steps=300)))
        if modes > 2:
            x, *_ = _random_field(rng, few, modes, missing=2, gamma=(2.5, 3.5))
            cells["two modes never shown"].append(_many(_ends(x, start[:few], steps=3000)))
            none = np.zeros((few, 2 * modes, 2 * modes))  # all pairs beyond a triplet's margin
            flat = _fixed(*mixture.field(rng, few, 2 * modes, modes), none)
            cells["no weight on any pair"].append(_many(_ends(flat, start[:few], steps=300)))
    share = {name: float(np.concatenate(v).mean()) for name, v in cells.items()}
    total = float(np.concatenate(inside).mean())
    yield check(
        max(total, *share.values()),
        0.0,
        {"linear net": float(np.concatenate(linear).mean())},
        draws=len(SIZES) * count,
        part="fixed weights",
        note="Largest share of runs, over cells that Assumption 1 allows, that do not end at an "
        "$e_m$: " + ", ".join(f"{name} {value:.0%}" for name, value in share.items()) + ".",
        counterexample=r"Two modes of which the batch shows neither: $X_\alpha=0$, and $w_1$ "
        r"stays. Or all shown, $X_\alpha=2I-\mathbf1\mathbf1^\top/2$, $w_1(0)\propto\mathbf1$, the "
        "minimal eigenvector: $w_1$ stays.",
    )
    yield check(
        total,
        0.0,
        {"linear net": float(np.concatenate(linear).mean()), **share},
        draws=len(SIZES) * count,
        part="fixed weights",
        form="corrected",
        correction=r"Hypotheses of Lemma 14 ($\alpha_{ij}>0$, every mode shown), $w_1(0)\ge0$ with "
        "a positive entry, and almost every such start: not the minimal eigenvectors of "
        "$X_\\alpha$ and of its diagonal blocks.",
    )
    yield from _following(check, rng, min(draws, 40))


def _following(check, rng: np.random.Generator, draws: int) -> Iterator[Check]:
    """Weights that follow w1: InfoNCE at three temperatures; the same batches with weights kept."""
    shares, kept = {}, []
    count = ref.share(draws, 2)
    for tau in (0.05, 0.5, 2.0):
        ends = []
        for modes in (3, 5):
            x, x2 = mixture.field(rng, count, 16, modes)
            w = mixture.starts(rng, count, modes)
            pair = losses.infonce_pair(tau, 0.0)
            end, _ = relu_two_layer.loss_driven_limit(*tensors(x, x2, w), pair, steps=600)
            ends.append(_many(end.numpy()))
            z, z2 = (np.einsum("bnm,bm->bn", v, w)[..., None] for v in (x, x2))
            inter, _ = ref.distances(z, z2)
            kept.append(_many(_ends(_fixed(x, x2, ref.softmax(inter, tau)), w)))
        shares[tau] = float(np.concatenate(ends).mean())
    frozen = float(np.concatenate(kept).mean())
    yield check(
        max(shares.values()),
        0.0,
        {"InfoNCE at tau = 0.05": shares[0.05]},
        draws=2 * count,
        part="weights follow w1",
        note="Share of runs that do not end at an $e_m$ when InfoNCE's weights are renewed at "
        "every step: " + ", ".join(f"{s:.0%} at tau = {t}" for t, s in shares.items()) + ".",
        counterexample=r"Modes $e_1,e_2,e_3$ shown twice each, $\gamma=1$, InfoNCE at "
        r"$\tau=0.05$: from $(0.8,0.5,0.33)$ the flow rests at $(0.907,0.421,0)$, which keeps "
        r"three outputs apart where $e_m$ keeps two.",
    )
    yield check(
        frozen,
        0.0,
        {"weights renewed, tau = 0.05": shares[0.05]},
        draws=6 * count,
        part="weights follow w1",
        form="corrected",
        correction=r"$\alpha$ is held fixed while $w_1$ moves (as the proof does, with one $X$).",
        note="The same batches and starts, with the weights of the start kept.",
    )


def fig5(draws: int, seed: int) -> Iterator[Check]:
    """Linear: the maximal eigenvector. ReLU: a single positive entry. Controls: exchanged."""
    rng = ref.generator("fig5", seed)
    lost: dict[str, list[Array]] = defaultdict(list)
    sizes = (3, 5, 8)
    count = ref.share(draws, len(sizes))
    for modes in sizes:
        x, *_ = _random_field(rng, count, modes)
        gaps = np.linalg.eigvalsh(x)
        # A flow needs 1/gap of time: leave out the rare matrix with two nearly equal eigenvalues.
        x = x[(gaps[:, -1] - gaps[:, -2]) > 0.003 * np.linalg.norm(x, axis=(-2, -1))]
        start = mixture.starts(rng, len(x), modes)
        straight = _ends(x, start, sticky=False, rate=0.5, steps=16_000)
        relu, top = _ends(x, start), mixture.top(x)
        for name, w in (("linear", straight), ("relu", relu)):
            lost[f"{name} top"].append(1 - np.abs((w * top).sum(-1)))
            lost[f"{name} hot"].append(1 - w.max(-1))
    for part, ours, other in (
        ("linear", "linear top", "relu top"),
        ("ReLU", "relu hot", "linear hot"),
    ):
        yield Check(
            "acl/fig5",
            worst(*lost[ours]),
            1e-6,
            {"the other flow": typical(np.concatenate(lost[other]))},
            part=part,
            draws=sum(map(len, lost[ours])),
            note="One less the cosine with the maximal eigenvector, or with the nearest $e_m$.",
        )


def fig4(draws: int, seed: int) -> Iterator[Check]:
    """The linear net's PCA solution is infeasible for the ReLU net, and not optimal.

    Controls: two active modes with positive correlations, where PCA is nonnegative.
    """
    rng, check = ref.generator("fig4", seed), partial(Check, "acl/fig4")
    sizes = (2, 3, 5, 8)
    count = ref.share(draws, len(sizes))
    negative, angle, excess, none, still, better = [], [], [], [], [], []
    for modes in sizes:
        x, *_ = _random_field(rng, count, modes)
        positive = np.abs(x)
        start = mixture.starts(rng, count, modes)
        for matrix, lows, angles, gains in (
            (x, negative, angle, excess),
            (positive, none, still, better),
        ):
            top = mixture.top(matrix)
            lows.append(np.minimum(top.max(-1), -top.min(-1)))
            end = _ends(matrix, start, steps=3000)
            cosine = np.abs((end * top).sum(-1)).clip(max=1)
            angles.append(np.arccos(cosine))
            read = np.stack([np.maximum(s * top, 0) for s in (1, -1)])
            gain = np.diagonal(matrix, axis1=-2, axis2=-1).max(-1) - mixture.energy(matrix, read)
            gains.append(gain.min(0) / np.linalg.norm(matrix, axis=(-2, -1)))
    total = count * len(sizes)
    named = {"part": "infeasible", "note": "Least size of the smaller sign of the top eigenvector."}
    for ours, other, bound, words in (
        (negative, none, 1e-5, named),
        (angle, still, 1e-3, {"part": "limits differ", "note": "Least angle, in rad."}),
        (
            excess,
            better,
            1e-9,
            {
                "part": "not optimal",
                "note": "What the best $e_m$ has more than the PCA vector passed through the ReLU, "
                "relative.",
            },
        ),
    ):
        yield check(
            best(*ours),
            bound,
            {"correlations made positive": typical(np.concatenate(other))},
            relation=">=",
            draws=total,
            **words,
        )


def num13(draws: int, seed: int) -> Iterator[Check]:
    """Every e_m is a local maximum among w >= 0; among all w where X_mm > 0.

    Controls: positive correlations; negative directions at X_mm < 0.
    """
    rng, check = ref.generator("num13", seed), partial(Check, "acl/num13")
    sizes, size = (2, 3, 5, 8), 1e-4
    count = ref.share(draws, len(sizes))
    climbs: dict[str, list[Array]] = defaultdict(list)
    leaves: list[Array] = []
    for modes in sizes:
        x, *_ = _random_field(rng, count, modes, gamma=(0.3, 3.5))
        for m in range(modes):
            noise = rng.standard_normal((200, count, modes))
            noise /= np.linalg.norm(noise, axis=-1, keepdims=True)

            def climb(x: Array, noise: Array, m: int = m, modes: int = modes) -> Array:
                """[draws]: the most that a step of length 1e-4 gains, relative to |X|."""
                w = np.eye(modes)[m] + size * noise
                w = w / np.linalg.norm(w, axis=-1, keepdims=True)
                gain = mixture.energy(x, np.maximum(w, 0)) - x[:, m, m]
                return gain.max(0) / np.linalg.norm(x, axis=(-2, -1))

            climbs["nonnegative"].append(climb(x, np.abs(noise)))
            climbs["correlations made positive"].append(climb(np.abs(x), np.abs(noise)))
            free, up = climb(x, noise), x[:, m, m] > 0
            climbs["free"].append(free)
            climbs["free, X_mm > 0"].append(free[up])
            climbs["X_mm < 0"].append(climb(x, -np.abs(noise))[~up])
            near = np.eye(modes)[m] + 0.01 * size * np.abs(noise[0])
            near /= np.linalg.norm(near, axis=-1, keepdims=True)
            leaves.append(np.abs(_ends(x, near) - np.eye(modes)[m]).max(-1))
    measured = {name: np.concatenate(found) for name, found in climbs.items()}
    gain = "Most that a step of length $10^{-4}$ gains, relative to $|X_\\alpha|$."
    positive = float(np.median(measured["correlations made positive"]))
    yield check(
        worst(measured["nonnegative"], *leaves),
        1e-12,
        {"correlations made positive": positive},
        draws=count * len(sizes),
        part="among w >= 0",
        note=gain + " The flow also returns to $e_m$.",
    )
    yield check(
        worst(measured["free"]),
        1e-12,
        {"correlations made positive": positive},
        draws=count * len(sizes),
        part="among all unit w",
        note=gain + f" It gains in {np.mean(measured['free'] > 1e-12):.0%} of cases.",
        counterexample=r"Strong augmentation with $[X_\alpha]_{11}=-1$: "
        r"$w=(\sqrt{1-\epsilon^2},-\epsilon)$ gives what $(\sqrt{1-\epsilon^2},0)$ gives, "
        r"the energy $-(1-\epsilon^2)>-1$.",
    )
    yield check(
        worst(measured["free, X_mm > 0"]),
        1e-12,
        {"X_mm < 0": typical(measured["X_mm < 0"]), "correlations made positive": positive},
        draws=len(measured["free, X_mm > 0"]),
        part="among all unit w",
        form="corrected",
        correction=r"$e_m$ is a local maximum among $w\ge0$ (with $\alpha>0$ and all modes shown), "
        r"and among all unit $w$ if moreover $[X_\alpha]_{mm}>0$.",
    )
