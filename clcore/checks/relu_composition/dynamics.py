"""One hidden ReLU node: where its flow ends (acl Sec. 5.2).

Batched flows of `clcore.theory.relu.relu_two_layer` meet eigenvectors, gradients and energies from
numpy.
"""

import numpy as np
import torch

from clcore import losses
from clcore import reference as ref
from clcore.checks.relu_composition.lemmas import clcore_covariance
from clcore.checks.relu_composition.linear_flow import leaves_the_orthant
from clcore.checks.relu_composition.signed_weights import starts_of_either_sign
from clcore.ledger import Trial, check, fraction, pooled
from clcore.losses import contrast
from clcore.reference import Array, mixture, relative, sphere, tensors, unit
from clcore.theory.relu import relu_two_layer

SIZES = (2, 3, 5, 8, 12, 20)


def random_field(
    rng: np.random.Generator, draws: int, modes: int, **how
) -> tuple[Array, Array, Array, Array]:
    """X_alpha of random batches and weights, with the weights and the batches."""
    n = max(12, 2 * modes)
    x, x2 = mixture.field(rng, draws, n, modes, **how)
    alpha = mixture.weights(rng, draws, n)
    return clcore_covariance(x, x2, alpha), alpha, x, x2


def ends_of(x: Array, w: Array, **how) -> Array:
    return relu_two_layer.sticky_limit(*tensors(x, w), **how).numpy()


def _many(w: Array) -> Array:
    """[draws]: whether w is not one of the e_m."""
    largest = np.sort(np.abs(w), -1)
    return (largest[:, -1] < 1 - 1e-6) | (largest[:, -2] > 1e-6) | (w.max(-1) < 0.5)


def _listed(cells: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.0%}" for name, value in cells.items())


def _shares(cells: dict[str, list[Array]]) -> dict[str, float]:
    """Of each cell the share of runs, all settings together."""
    return {name: fraction(found, "<=") for name, found in cells.items()}


@check("acl/eq53")
def eq53(t: Trial) -> None:
    """Flow of a single ReLU node, losing entries until one is left (Eq. 53).

    Given   Assumption 1, one hidden node, w_1 >= 0; InfoNCE. For (2), (3) fixed alpha > 0 and
            every mode shown, as Lemma 14 asks, which the proof cites.
    Claim   (1) -dL/dw_1 of the ReLU net, by autograd, is diag(w_1 > 0) X w_1 in numpy. (2) Along
            the flow the set of positive entries never grows and ends as one, in 99 per cent of the
            runs: by steps of the library, and by exponentials from one entry's death to the next.
            (3) The linear flow from w_1 > 0 leaves w_1 >= 0, whichever entries of w_1 are left.
    Fails   (1) without the gate, for the gradient of E (twice as long), with the augmentation
            added; (2) for the linear flow, where a mode is not shown, and from the minimal
            eigenvector; (3) without weight between modes, with correlations made positive.
    """
    n, tau, sizes = 12, 0.5, (3, 5, 8)
    pair, functions = losses.infonce_pair(tau, 1.0), ref.table1(tau)[0][1:]
    count = t.share(len(sizes))
    part = t.part("gradient", 1e-9, controls=pooled, draws=count * len(sizes))
    for modes in sizes:
        x, x2 = mixture.field(t.rng, count, n, modes)
        w = mixture.starts(t.rng, count, modes) * (t.rng.random((count, modes)) > 0.4)
        w[:, 0] = t.rng.random(count) + 0.2
        w[:, 1] = 0.0
        top = unit(t.rng.standard_normal((count, 2, 1)), 1)
        views = [v[:, :, None] for v in tensors(x, x2)]

        def loss(w: torch.Tensor, views=views, top=top) -> torch.Tensor:
            z, z2 = (relu_two_layer.output(w[:, None], torch.from_numpy(top), v) for v in views)
            return contrast.family_loss(z, z2, pair).sum()

        # (1) The gradient by autograd; in numpy alpha of the outputs, and X_alpha w_1.
        ours = -torch.func.grad(loss)(torch.from_numpy(w))
        z, z2 = (np.einsum("bnm,bm->bn", v, w)[..., None] for v in (x, x2))
        alpha = ref.importance(*ref.distances(z, z2), *functions)
        push = np.einsum("bml,bl->bm", mixture.covariance(alpha, x, x2), w)
        part.add(relative(ours, (w > 0) * push))
        part.breaks("no gate", relative(ours, push))
        part.breaks("gradient of the energy", relative(ours, 2 * (w > 0) * push))
        flipped = ref.covariance(alpha, x, x2, x, x2, sign=-1.0)
        wrong = (w > 0) * np.einsum("bml,bl->bm", flipped, w)
        part.breaks("augmentation added", relative(ours, wrong))
    _active_set(t)
    leaves_the_orthant(t)


def _active_set(t: Trial) -> None:
    """Entries die in turn until one is left: by steps of the library, and by exponentials from one
    death to the next."""
    count = t.share(len(SIZES))
    total = count * len(SIZES)
    part = t.part("active set", 0.99, ">=", measured=fraction, controls=fraction, draws=total)
    cells: dict[str, list[Array]] = {}
    for modes in SIZES:
        x, *_ = random_field(t.rng, count, modes)
        start = mixture.starts(t.rng, count, modes)
        part.add(_dies_in_turn(x, start, True, blocks=400), _one_left(x, start, 1000))
        # The linear flow never gets there: no use in waiting for it as long.
        part.breaks("no sticky rule", _dies_in_turn(x, start, False, blocks=40))
        if modes > 5:
            continue
        few, *_ = random_field(t.rng, min(count, 20), modes, missing=1)
        even = 2 * np.eye(modes)[None] - 0.5 / modes
        # The zero row of a mode not shown moves nothing, however long the flow runs.
        for name, matrix, w in (
            ("a mode not shown", few, start[: len(few)]),
            ("starts at the minimal eigenvector", even, np.full((1, modes), modes**-0.5)),
        ):
            cells.setdefault(name, []).append(_dies_in_turn(matrix, w, True, blocks=40))
            cells[name].append(_one_left(matrix, w, 100))
    for name, found in cells.items():
        part.breaks(name, *found)
    part.says(cells=_listed(_shares(cells)))


def _one_left(x: Array, w: Array, until: float) -> Array:
    return mixture.sticky_ends(x, w, until)[1].sum(-1) == 1


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
def thm5(t: Trial) -> None:
    """A single ReLU node converges to one feature (Theorem 5).

    Given   Assumption 1, |w_1| = 1, fixed alpha; of Lemma 14, which the proof cites, alpha_ij > 0
            and every mode shown; M = 2..20. Starts of either sign: M = 2, 3, 5, augmentation by
            factors from 0.2 to 3.
    Claim   w_1 -> e_m for some m, by the library's flow and by exponentials from one entry's death
            to the next: from almost every w_1(0) >= 0, and from one of either sign.
    Fails   from w_1(0) with negative entries whose energy stays negative: the output dies.
            Corrected: where E(w_1(0)) > 0. Controls: E(w_1(0)) < 0; the linear net; outside Lemma
            14's hypotheses (under strong augmentation two modes never shown; no weight on any
            pair), and from the minimal eigenvector. Shares at a cold alpha that follows w_1 are
            reported, not tested.
    """
    starts_of_either_sign(t)
    count = 4 * t.share(len(SIZES))
    few, total = min(count, 20), len(SIZES) * count
    part = t.part("fixed weights", 0.0, measured=fraction, controls=fraction, draws=total)
    cells: dict[str, list[Array]] = {}

    def outside(name: str, *flow: Array, steps: int) -> None:
        ends = ends_of(*flow, steps=steps), mixture.sticky_ends(*flow, 0.1 * steps)[0]
        cells.setdefault(name, []).extend(map(_many, ends))

    for modes in SIZES:
        x, *_ = random_field(t.rng, count, modes)
        start = mixture.starts(t.rng, count, modes)
        # Whether an end is none of the e_m: by steps of the library, and by exponentials.
        part.add(_many(ends_of(x, start)))
        part.add(_many(mixture.sticky_ends(x[:few], start[:few])[0]))
        part.breaks("linear net", _many(ends_of(x, start, sticky=False, steps=300)))
        even = 2 * np.eye(modes) - 0.5 * np.ones((few, modes, modes)) / modes
        minimal = np.full((few, modes), modes**-0.5)
        outside("starts at the minimal eigenvector", even, minimal, steps=300)
        none = np.zeros((few, 2 * modes, 2 * modes))  # all pairs beyond a triplet's margin
        flat = clcore_covariance(*mixture.field(t.rng, few, 2 * modes, modes), none)
        outside("no weight on any pair", flat, start[:few], steps=300)
        if modes > 2:
            # Under strong augmentation, where nearly every e_m has a negative energy.
            strong, rng = {"gamma": (2.5, 3.5)}, t.stream("every mode shown")
            x, *_ = random_field(rng, few, modes, **strong)
            part.add(_many(mixture.sticky_ends(x, start[:few])[0]))
            x, *_ = random_field(t.rng, few, modes, missing=2, **strong)
            outside("two modes never shown", x, start[:few], steps=3000)
    for name, found in cells.items():
        part.breaks(name, *found)
    shown = ends_of(np.diag([-1.0, 0.0, 0.0])[None], np.array([[0.7, 0.5, 0.4]]))[0]
    part.says(second=shown[1], third=shown[2])
    part.confirms(second=5 / 41**0.5, third=4 / 41**0.5)  # the first dies, the others stand
    cold = _follows(t.rng, 20)
    part.says(
        cells=_listed(_shares(cells)),
        cold=", ".join(f"{v:.0%} end at one $e_m$ at $\\tau={tau:g}$" for tau, v in cold.items()),
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
def num13(t: Trial) -> None:
    """Every single feature is a local optimum of one ReLU node (Sec. 5.2, last paragraph).

    Given   Theorem 5's setting: Assumption 1, |w_1| = 1, Lemma 14's alpha_ij > 0 and every mode;
            factors of augmentation from 0.3 to 3.5.
    Claim   w_1 = e_m is a local maximum of the energy for every m: no step of 10^-4 gains, and the
            flow returns. Energies by X_alpha, and by the outputs of the ReLU net.
    Fails   where X_mm < 0, for a negative entry, read as 0, then gains. Among w_1 >= 0, and among
            all w_1 where X_mm > 0, it holds. Among w_1 >= 0 it fails outside Lemma 14's hypotheses
            (a mode not shown, no weight between modes), and with correlations made positive.
    """
    sizes, strong = (2, 3, 5, 8), {"gamma": (0.3, 3.5)}
    count = t.share(len(sizes))
    positive = t.part("local maxima among w >= 0", 1e-12, controls=pooled)
    signed, where = every_w = t.both("local maxima among all w", 1e-12, controls=pooled)
    outside: dict[str, list[Array]] = {}
    for modes in sizes:
        x, alpha, *views = random_field(t.rng, count, modes, **strong)
        few, *_ = random_field(t.rng, count, modes, missing=1, **strong)
        _, _, one, one2 = random_field(t.rng, count, modes, **strong)
        # Weight on pairs that show the same mode only, as with triplets beyond the margin.
        same = mixture.weights(t.rng, count, one.shape[1]) * (one @ one.swapaxes(-1, -2) > 0)
        cells = {
            "a mode not shown": few,
            "no weight between modes": clcore_covariance(one, one2, same),
        }
        gains: dict[str, list[Array]] = {name: [] for name in cells}
        for m in range(modes):
            axes = np.broadcast_to(np.eye(modes)[:, None], (modes, count, modes))
            noise = np.concatenate([sphere(t.rng, 50, count, modes), axes])
            plus = np.abs(noise)

            # Among w >= 0: no step gains, and the flow returns to e_m.
            back = np.abs(ends_of(x, _near(m, 0.01 * plus[0])) - np.eye(modes)[m]).max(-1)
            positive.add(_gain(x, m, plus), back)
            positive.breaks("correlations made positive", _gain(np.abs(x), m, plus))
            for name, matrix in cells.items():
                gains[name].append(_gain(matrix, m, plus))

            # Among all w: by X_alpha of the entries that are positive, and by the net's outputs.
            every, above = np.concatenate([noise, -plus]), x[:, m, m] > 0
            gain = _gain(x, m, every)
            signed.add(gain).fails_by(_gain_of_outputs(x, m, every, alpha, *views), within=1e-13)
            where.add(gain[above])
            every_w.breaks("X_mm < 0", gain[~above])
        # Outside Lemma 14's hypotheses: from the e_m that is left most easily.
        for name, found in gains.items():
            outside.setdefault(name, []).append(np.max(found, 0))
    for name, found in outside.items():
        positive.breaks(name, *found)
    shares = _shares({name: [g > 1e-12 for g in found] for name, found in outside.items()})
    positive.says(cells=_listed(shares))
    against = [g > 1e-12 for g in signed.broken["X_mm < 0"]]
    signed.says(negative=fraction(against, "<="))


def _near(m: int, noise: Array) -> Array:
    """Unit vectors at 1e-4 times `noise` from e_m."""
    return unit(np.eye(noise.shape[-1])[m] + 1e-4 * noise)


def _gain(x: Array, m: int, noise: Array) -> Array:
    """[draws]: the most that a step of length 1e-4 from e_m gains, relative to |X|."""
    gain = mixture.energy(x, np.maximum(_near(m, noise), 0)) - x[:, m, m]
    return gain.max(0) / np.linalg.norm(x, axis=(-2, -1))


def _gain_of_outputs(x: Array, m: int, noise: Array, alpha: Array, *views: Array) -> Array:
    """`_gain` by the energy of the ReLU net's outputs; of x only |X|."""

    def energy(w: Array) -> Array:
        z = (np.maximum(np.einsum("...bm,bnm->...bn", w, v), 0)[..., None] for v in views)
        return (alpha * ref.costs(*ref.distances(*z))).sum((-1, -2))

    gain = energy(_near(m, noise)) - energy(_near(m, 0 * noise[:1]))
    return gain.max(0) / np.linalg.norm(x, axis=(-2, -1))
