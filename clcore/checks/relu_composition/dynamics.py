"""One hidden ReLU node: where its flow ends (acl Sec. 5.2).

Batched flows of `clcore.theory.relu.relu_two_layer` meet eigenvectors, gradients and energies from
numpy.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from clcore import losses
from clcore import reference as ref
from clcore.ledger import Check, check
from clcore.losses import contrast
from clcore.reference import Array, mixture, relative, tensors, typical, worst
from clcore.theory.relu import relu_two_layer

SIZES = (2, 3, 5, 8, 12, 20)


def _fixed(x: Array, x2: Array, alpha: Array) -> Array:
    """C_alpha[x, x] by clcore, [draws, M, M]."""
    return contrast.contrastive_covariance(*tensors(alpha, x, x2, x, x2)).numpy()


def random_field(
    rng: np.random.Generator, draws: int, modes: int, **how
) -> tuple[Array, Array, Array]:
    """X_alpha of random batches and weights, with the batches."""
    n = max(12, 2 * modes)
    x, x2 = mixture.field(rng, draws, n, modes, **how)
    return _fixed(x, x2, mixture.weights(rng, draws, n)), x, x2


def ends_of(x: Array, w: Array, **how) -> Array:
    return relu_two_layer.sticky_limit(*tensors(x, w), **how).numpy()


def _many(w: Array) -> Array:
    """[draws]: whether w is not one of the e_m."""
    largest = np.sort(np.abs(w), -1)
    return (largest[:, -1] < 1 - 1e-6) | (largest[:, -2] > 1e-6) | (w.max(-1) < 0.5)


@check("acl/eq53")
def eq53(draws: int, seed: int) -> Iterator[Check]:
    """One node's descent is diag(w > 0) X w; entries die one after the other until one is left.

    The second half needs Lemma 14's hypotheses; cells outside them fail. Gradients: autograd of
    the loss of the ReLU net against numpy. Controls: no gate, the energy's whole gradient, the
    augmentation's sign; the linear flow; the cells.
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
    cells: dict[str, list[Array]] = defaultdict(list)
    count = ref.share(draws, len(SIZES))
    for modes in SIZES:
        x, *_ = random_field(rng, count, modes)
        start = mixture.starts(rng, count, modes)
        for sticky, found in ((True, orderly), (False, linear)):
            # The linear flow never gets there: no use in waiting for it as long.
            found.append(_dies_in_turn(x, start, sticky, blocks=400 if sticky else 40))
        total += count
        if modes > 5:
            continue
        few, *_ = random_field(rng, min(count, 20), modes, missing=1)
        even = 2 * np.eye(modes)[None] - 0.5 / modes
        # The zero row of a mode not shown moves nothing, however long the flow runs.
        for name, matrix, w in (
            ("a mode not shown", few, start[: len(few)]),
            ("starts at the minimal eigenvector", even, np.full((1, modes), modes**-0.5)),
        ):
            cells[name].append(_dies_in_turn(matrix, w, True, blocks=40))
    share = {name: float(np.concatenate(found).mean()) for name, found in cells.items()}
    inside = float(np.concatenate(orderly).mean())
    control = {"no sticky rule": float(np.concatenate(linear).mean())}
    check = partial(Check, "acl/eq53", relation=">=", draws=total, part="active set")
    yield check(
        min(inside, *share.values()),
        0.99,
        control,
        note="Least share of runs, over cells that Assumption 1 allows, whose set of positive "
        "entries never grows and loses $M-1$ entries: all modes shown, random starts "
        f"{inside:.0%}, " + ", ".join(f"{name} {value:.0%}" for name, value in share.items()) + ".",
        counterexample=r"$M=2$, every $x[i]$ a multiple of $e_1$: $X=\mathrm{diag}(a,0)$ and "
        r"$\dot w_1=(aw_{11},0)$ for $w_1>0$. No entry ever reaches 0, so nothing is removed and "
        r"$X$ stays $2\times2$.",
    )
    yield check(
        inside,
        0.99,
        control | share,
        form="corrected",
        correction=r"With the hypotheses of Lemma 14 ($\alpha_{ij}>0$, every mode shown), from "
        r"almost every $w_1(0)\ge0$.",
    )


def _dies_in_turn(x: Array, w: Array, sticky: bool, blocks: int) -> Array:
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


@check("acl/thm5")
def thm5(draws: int, seed: int) -> Iterator[Check]:
    """w1 -> e_m: for positive weights, all modes shown and almost every start, yes.

    Cells outside these hypotheses, which Assumption 1 allows, end elsewhere. alpha is fixed, as in
    the paper's sections on the max player; the note says what becomes of it where alpha is
    InfoNCE's own. Controls: the linear flow; the cells.
    """
    check = partial(Check, "acl/thm5")
    rng = ref.generator("thm5", seed)
    inside, linear = [], []
    cells: dict[str, list[Array]] = defaultdict(list)
    count = 4 * ref.share(draws, len(SIZES))
    for modes in SIZES:
        x, *_ = random_field(rng, count, modes)
        start = mixture.starts(rng, count, modes)
        inside.append(_many(ends_of(x, start)))
        linear.append(_many(ends_of(x, start, sticky=False, steps=300)))
        few = min(count, 20)
        eye, ones = np.eye(modes), np.ones((few, modes, modes))
        even = 2 * eye - 0.5 * ones / modes
        cells["starts at the minimal eigenvector"].append(
            _many(ends_of(even, np.full((few, modes), modes**-0.5), steps=300))
        )
        if modes > 2:
            x, *_ = random_field(rng, few, modes, missing=2, gamma=(2.5, 3.5))
            cells["two modes never shown"].append(_many(ends_of(x, start[:few], steps=3000)))
            none = np.zeros((few, 2 * modes, 2 * modes))  # all pairs beyond a triplet's margin
            flat = _fixed(*mixture.field(rng, few, 2 * modes, modes), none)
            cells["no weight on any pair"].append(_many(ends_of(flat, start[:few], steps=300)))
    share = {name: float(np.concatenate(v).mean()) for name, v in cells.items()}
    total = float(np.concatenate(inside).mean())
    cold = _follows(rng, 20)
    yield check(
        max(total, *share.values()),
        0.0,
        {"linear net": float(np.concatenate(linear).mean())},
        draws=len(SIZES) * count,
        part="fixed weights",
        note="Largest share of runs, over cells that Assumption 1 allows, that do not end at an "
        "$e_m$: " + ", ".join(f"{name} {value:.0%}" for name, value in share.items()) + ". "
        r"Fails also where $\alpha$ is not fixed but follows $w_1$ under cold InfoNCE: of runs "
        "with 3 modes, "
        + ", ".join(f"{v:.0%} end at one $e_m$ at $\\tau={tau:g}$" for tau, v in cold.items())
        + " (more in the chapter).",
        counterexample=r"Missing hypotheses, with $\alpha_{ij}>0$ and for every $w_1(0)>0$: $M=3$, "
        r"only mode 1 shown, $\gamma=3$: $X_\alpha$ is diagonal with entries $(-,0,0)$, and from "
        r"$(0.7,0.5,0.4)$ the flow ends at $(0,0.78,0.62)$.",
    )
    yield check(
        total,
        0.0,
        {"linear net": float(np.concatenate(linear).mean()), **share},
        draws=len(SIZES) * count,
        part="fixed weights",
        form="corrected",
        correction=r"With the hypotheses of Lemma 14 ($\alpha_{ij}>0$, every mode shown), from "
        r"almost every $w_1(0)\ge0$; the exceptions are those whose trajectory meets a minimal "
        r"eigenvector of $X_\alpha$ or of a diagonal block of size $\ge2$.",
    )


def _follows(rng: np.random.Generator, count: int) -> dict[float, float]:
    """tau: share of runs on 3 modes that end at one e_m if alpha is InfoNCE's at every step."""
    x, x2 = mixture.field(rng, count, 16, 3)
    start = mixture.starts(rng, count, 3)
    ends = {
        tau: relu_two_layer.loss_driven_limit(
            *tensors(x, x2, start), losses.infonce_pair(tau, 0.0), steps=1000
        )[0]
        for tau in (0.05, 1.0)
    }
    return {tau: float(relu_two_layer.one_hot(w).double().mean()) for tau, w in ends.items()}


@check("acl/num13")
def num13(draws: int, seed: int) -> Iterator[Check]:
    """Every e_m is a local maximum among w >= 0, to which Lemma 3 restricts the weights.

    Negative entries gain where X_mm < 0. For positive weights and all modes shown, as in Lemma 14;
    Assumption 1 allows other batches. Controls: both; positive correlations.
    """
    rng, check = ref.generator("num13", seed), partial(Check, "acl/num13")
    sizes, size = (2, 3, 5, 8), 1e-4
    count = ref.share(draws, len(sizes))
    climbs: dict[str, list[Array]] = defaultdict(list)
    outside: dict[str, list[Array]] = defaultdict(list)
    leaves: list[Array] = []

    def climb(x: Array, m: int, noise: Array) -> Array:
        """[draws]: the most that a step of length 1e-4 from e_m gains, relative to |X|."""
        w = np.eye(x.shape[-1])[m] + size * noise
        w = w / np.linalg.norm(w, axis=-1, keepdims=True)
        gain = mixture.energy(x, np.maximum(w, 0)) - x[:, m, m]
        return gain.max(0) / np.linalg.norm(x, axis=(-2, -1))

    for modes in sizes:
        strong = {"gamma": (0.3, 3.5)}
        x, *_ = random_field(rng, count, modes, **strong)
        few, *_ = random_field(rng, count, modes, missing=1, **strong)
        _, one, one2 = random_field(rng, count, modes, **strong)
        # Weight on pairs that show the same mode only, as with triplets beyond the margin.
        same = mixture.weights(rng, count, one.shape[1]) * (one @ one.swapaxes(-1, -2) > 0)
        cells = {"a mode not shown": few, "no weight between modes": _fixed(one, one2, same)}
        gains: dict[str, list[Array]] = defaultdict(list)
        for m in range(modes):
            noise = rng.standard_normal((200, count, modes))
            noise /= np.linalg.norm(noise, axis=-1, keepdims=True)
            axes = np.broadcast_to(np.eye(modes)[:, None], (modes, count, modes))
            noise = np.concatenate([noise, axes])
            plus = np.abs(noise)
            climbs["nonnegative"].append(climb(x, m, plus))
            climbs["correlations made positive"].append(climb(np.abs(x), m, plus))
            up = x[:, m, m] > 0
            climbs["free, X_mm > 0"].append(climb(x, m, noise)[up])
            climbs["X_mm < 0"].append(climb(x, m, -plus)[~up])
            near = np.eye(modes)[m] + 0.01 * size * plus[0]
            near /= np.linalg.norm(near, axis=-1, keepdims=True)
            leaves.append(np.abs(ends_of(x, near) - np.eye(modes)[m]).max(-1))
            for name, matrix in cells.items():
                gains[name].append(climb(matrix, m, plus))
        for name, found in gains.items():
            outside[name].append(np.max(found, 0))  # from the e_m that is left most easily
    measured = {name: np.concatenate(found) for name, found in (climbs | outside).items()}
    inside, free = worst(measured["nonnegative"], *leaves), worst(measured["free, X_mm > 0"])
    positive = float(np.median(measured["correlations made positive"]))
    control = {"correlations made positive": positive}
    below = {"negative entries at X_mm < 0": typical(measured["X_mm < 0"])}
    tag = {"draws": count * len(sizes), "part": "local maxima"}
    gain = "Most that a step of length $10^{-4}$ gains, relative to $|X_\\alpha|$."
    shares = ", ".join(f"{name} {(measured[name] > 1e-12).mean():.0%}" for name in outside)
    yield check(
        worst(np.array(inside), measured["X_mm < 0"], *(measured[name] for name in outside)),
        1e-12,
        control,
        note=f"{gain} A negative entry gains in {(measured['X_mm < 0'] > 1e-12).mean():.0%} of the "
        r"cases with $[X_\alpha]_{mm}<0$. Share of batches in which some $e_m$ is no local maximum "
        f"even among $w\\ge0$, over cells that Assumption 1 allows: {shares}.",
        counterexample=r"All hypotheses of Lemma 14, and InfoNCE's own $\alpha$ ($\epsilon=0$): "
        r"$N=M=2$, $x[i]=e_i$, $x[i']=3e_i$, $\alpha_{ij}=1$: every entry of $X_\alpha$ is $-2$. "
        r"$e_1$ has the energy $-2$, and $w=(\sqrt{0.99},-0.1)$, through the ReLU, $-1.98$. Among "
        r"$w\ge0$: $\alpha_{ij}=1$, $N=6$, $M=3$, every $x[i]=e_1$, $\gamma=3$: $X_\alpha="
        r"\mathrm{diag}(-120,0,0)$, and along $(\cos t,\sin t,0)$ the energy $-120\cos^2t$ rises "
        "from $t=0$ on.",
        **tag,
    )
    yield check(
        max(inside, free),
        1e-12,
        control | below | {name: typical(measured[name]) for name in outside},
        form="corrected",
        correction=r"With the hypotheses of Lemma 14 ($\alpha_{ij}>0$, every mode shown), every "
        r"$e_m$ is a local maximum among $w\ge0$, and among all unit $w$ if $[X_\alpha]_{mm}>0$.",
        note=f"{gain} The flow also returns to $e_m$. The paper says that only $w\\ge0$ need be "
        "considered (Sec. 5.1, by Lemma 3), among which the second half is not needed.",
        **tag,
    )
