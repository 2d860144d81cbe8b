"""Weights of either sign on norm 1: what Lemma 3's clipping does there (acl Sec. 5.1, 5.2).

Gradient flow on norm 1 is the unconstrained flow, brought back to norm 1: negative entries stand
still and the others grow where their energy is positive. Where it is negative, they die away.
"""

from typing import Any

import numpy as np
import torch

from clcore import random
from clcore import reference as ref
from clcore.ledger import Part, Trial, check, fraction, pooled
from clcore.losses import contrast
from clcore.reference import Array, absolute, mixture, relative, tangent, tensors, unit
from clcore.theory.relu import orthogonal_mixture, relu_two_layer

STRONG = (0.2, 3.0)
"""Factors of augmentations with which many energies are negative."""
WEAK = (0.6, 1.4)
"""Factors of augmentations with which few energies are negative."""


@check("acl/lem3")
def lem3(t: Trial) -> None:
    """Nonnegative filters suffice for ReLU, with the linear energy formula (Lemma 3).

    Given   Assumption 1; disjoint fields, and overlapping ones; for the last part norms of 1.
    Claim   (1) max(W_1, 0) for W_1 changes no output; (2) for W_1 >= 0 the ReLU net's energy is
            tr(W2 W1 X_alpha W1^T W2^T); (3) so only nonnegative W_1 need be considered: signed
            filters of norm 1 gain nothing over the same, clipped and of norm 1 again. (4) In the
            correction: along the flow at norm 1 negative entries die away where the energy gets
            above 0, of nets whose W_2 is trained, too, and take all the norm of one node where it
            stays below 0.
    Fails   (1) with two active modes or signed data, (2) with signed data or signed filters, (3)
            on norm 1 where the clipped filters have a negative energy, as under strong
            augmentation. Corrected: where their energy is not negative. (4) in a linear net, and
            below 0 where a mode is never shown.
    """
    settings: tuple[tuple[Any, int], ...] = ((1, 2), (2, 3), (4, 4), ("windows", 3))
    count, n = t.share(len(settings)), 14
    clipping = t.part("clipping", 1e-14, controls=pooled, draws=count * len(settings))
    energy = t.part("energy", 1e-10, controls=pooled, draws=count * len(settings))
    only, where = both = t.both(ONLY, 1e-12, controls=pooled)
    for kind, modes in settings:
        if kind == "windows":  # 3 of 7 pixels, stride 2: neighbouring fields share a pixel
            keys = random.fold_in(random.key(int(t.rng.integers(2**40))), torch.arange(count))
            line = orthogonal_mixture.draw_line(keys, n, 7, modes)
            x, x2 = (orthogonal_mixture.windows(v, modes, 2).numpy() for v in line)
        else:
            x, x2 = mixture.fields(t.rng, count, n, kind, modes)
        fields = x.shape[2]
        w1 = t.rng.standard_normal((count, fields, modes))
        w2 = t.rng.standard_normal((count, 2, fields))
        sign = t.rng.choice([-1.0, 1.0], x.shape)

        # (1) Outputs before and after clipping.
        def clipped(x: Array, w1: Array = w1, w2: Array = w2) -> Array:
            signed = relu_two_layer.output(*tensors(w1, w2, x))
            return absolute(mixture.output(np.maximum(w1, 0), w2, x), signed)

        clipping.add(clipped(x)).breaks("two active modes", clipped(mixture.two_hot(t.rng, x)))
        clipping.breaks("signed data", clipped(x * sign))

        # (2) The energy of the ReLU net's outputs, and tr(W2 W1 X W1^T W2^T).
        alpha = mixture.weights(t.rng, count, n)

        def trace_error(x: Array, x2: Array, w1: Array, w2: Array = w2, a: Array = alpha) -> Array:
            flat = [v.reshape(*v.shape[:2], -1) for v in (x, x2)]
            linear = mixture.trace(w1, w2, mixture.covariance(a, *flat))
            return relative(_energy(w1, w2, (x, x2), a), linear)

        energy.add(trace_error(x, x2, np.abs(w1)))
        energy.breaks("signed data", trace_error(x * sign, x2 * sign, np.abs(w1)))
        if fields > 1:
            energy.breaks("signed filters", trace_error(x, x2, w1))

        # (3) What signed filters of norm 1 have more than the same, clipped and of norm 1 again.
        for views in ((x, x2), (x, 4 * x)):
            gain, again, rest = _gains(w1, w2, views, alpha)
            only.add(gain).fails_by(again)
            where.add(gain[rest >= 0])
            both.breaks("E < 0 where clipped", gain[rest < 0])
    _only_negative(only)
    _negative_entries(t)


ONLY = "only nonnegative filters, in Theta"


def _energy(w1: Array, w2: Array, views: tuple[Array, ...], alpha: Array) -> Array:
    """E_alpha of the ReLU net's outputs by clcore, [draws]."""
    z, z2 = (relu_two_layer.output(*tensors(w1, w2, v)) for v in views)
    return contrast.energy(torch.from_numpy(alpha), z, z2).numpy()


def _gains(w1: Array, w2: Array, views: tuple[Array, ...], alpha: Array) -> tuple[Array, ...]:
    """(gain, the same by outputs in numpy, the clipped net's energy), relative to the squares of
    the inputs, where a filter has any positive entry: [draws that have]."""
    some = (w1 > 0).any((1, 2))
    w1, w2, alpha = (v[some] for v in (w1, w2, alpha))
    views = tuple(v[some] for v in views)
    signed, kept, top = (unit(v, (1, 2)) for v in (w1, np.maximum(w1, 0), w2))
    rest = _energy(kept, top, views, alpha)
    gain = _energy(signed, top, views, alpha) - rest
    # Energies are quadratic in W1, and clipping changes no output: so in the clipped norm^2.
    z, z2 = (mixture.output(np.maximum(w1, 0), w2, v) for v in views)
    whole = (alpha * ref.costs(*ref.distances(z, z2))).sum((-1, -2)) / (w2**2).sum((1, 2))
    sizes = [(v**2).sum((1, 2)) for v in (w1, np.maximum(w1, 0))]
    scale = alpha.sum((1, 2)) * (views[0] ** 2).sum((1, 2, 3))
    return gain / scale, whole * (1 / sizes[0] - 1 / sizes[1]) / scale, rest / scale


def _only_negative(part: Part) -> None:
    """Two modes, x' = 3x, alpha = 1: every entry of X_alpha is -2. The best w >= 0, and -e_1."""
    x, alpha = np.eye(2), 1 - np.eye(2)
    angle = np.linspace(0, np.pi / 2, 181)
    w = np.stack([np.cos(angle), np.sin(angle)], -1)

    def energies(w: Array) -> Array:
        z = [np.maximum(w @ v.T, 0)[..., None] for v in (x, 3 * x)]
        inter, intra = ref.distances(*z)
        return (alpha * ref.costs(inter, intra)).sum((-1, -2))

    part.says(best=energies(w).max(), signed=energies(np.array([[-1.0, 0.0]])).item())
    part.confirms(best=-2 * (w.sum(-1) ** 2).min(), signed=0.0)


def _negative_entries(t: Trial) -> None:
    """Negative entries at the end of the flow from signed starts, every second one without one of
    the modes, against none (the energy gets above 0) or all of the norm (it stays below 0)."""
    part = t.part("negative entries in the flow", 1e-6, controls=pooled)
    rng, sizes, met, slow, dead = t.stream("flow"), (2, 3, 5), 0, 0, 0
    count = min(max(t.share(len(sizes)), 60), 200)  # few of them have an energy below 0

    # One node: the sign of its energy at the end, by exponentials; then the flow, by steps.
    for modes in sizes:
        x, w = _signed_field(rng, count, modes, STRONG)
        w[::2, -1] = 0
        some = (w > 0).any(-1) & (w < 0).any(-1)
        x, w = x[some], unit(w[some])
        energy = mixture.energy(x, mixture.sticky_ends(x, np.maximum(w, 0))[0])
        (end, midway), (linear, _) = (_flow_ends(x, w[:, None], sticky=s) for s in (True, False))
        plain = (np.abs(midway) > CLOSE) & ((midway > 0) == (energy > 0))
        met, slow = met + len(plain), slow + (~plain).sum()
        dead += (plain & (energy < 0)).sum()
        part.add(np.abs(_negative(end) - (energy < 0))[plain])
        part.breaks("linear net", _negative(linear)[plain & (energy > 0)])
    unseen = np.diag([-1.0, 0, 0])[None], np.array([[[0.7, 0.4, -0.6]]])
    part.breaks("a mode never shown", 1 - _negative(_flow_ends(*unseen)[0]))

    # Several nodes, each with its own field, W_2 trained, too, from an energy above 0.
    for modes in (2, 3):
        x = mixture.fields(rng, count, 14, modes, modes)[0]
        flat = [v.reshape(count, 14, -1) for v in (x, x * rng.uniform(*STRONG, (count, 14, 1, 1)))]
        matrix = mixture.covariance(mixture.weights(rng, count, 14), *flat)
        w1, w2 = rng.standard_normal((count, modes, modes)), rng.standard_normal((count, 2, modes))
        w1[::2, 0, 0] = 0
        above = mixture.trace(np.maximum(w1, 0), w2, matrix) > 0
        nets = matrix[above], w1[above], w2[above]
        (end, midway), (linear, _) = (_flow_ends(*nets, sticky=s) for s in (True, False))
        plain = midway > CLOSE
        met, slow = met + len(plain), slow + (~plain).sum()
        part.add(_negative(end)[plain]).breaks("linear net", _negative(linear)[plain])
    part.says(slow=slow, met=met, dead=dead)


CLOSE = 0.02
"""Runs are left out whose clipped filters at norm 1 have an energy of at most this times |X|
midway, or not yet its last sign."""


def _negative(w1: Array) -> Array:
    """[draws]: the share of the squared norm that is in negative entries."""
    return (np.minimum(w1, 0) ** 2).sum((1, 2)) / (w1**2).sum((1, 2))


def _flow_ends(
    x: Array, w1: Array, w2: Array | None = None, sticky: bool = True
) -> tuple[Array, Array]:
    """(W_1 [draws, K, M], midway the energy of its clipped filters at norm 1, over |X|, [draws]) of
    5000 steps of 0.2/|X| along |W_1| = |W_2| = 1; x [draws, K M, K M]. Without w2 one node, whose
    W_2 stands still. What reaches 0 stays there; a linear net, not clipped, if not `sticky`."""
    draws, nodes, modes = w1.shape
    x4 = x.reshape(draws, nodes, modes, nodes, modes)
    w2 = np.ones((draws, 1, nodes)) if w2 is None else w2
    w1, w2 = unit(w1, (1, 2)), unit(w2, (1, 2))
    size = np.linalg.norm(x, axis=(1, 2))
    rate, midway = 0.2 / size[:, None, None], np.zeros(draws)
    for step in range(5000):
        read, open_ = (np.maximum(w1, 0), w1 > 0) if sticky else (w1, np.ones(w1.shape, bool))
        seen = np.einsum("bkmln,bln->bkml", x4, read)
        layers = w2.swapaxes(1, 2) @ w2
        covariance = np.einsum("bkm,bkml->bkl", read, seen)
        energy = (layers * covariance).sum((1, 2), keepdims=True)
        if step == 2500:
            kept = unit(read / np.abs(read).max((1, 2), keepdims=True), (1, 2))
            midway = np.einsum("bkl,bkm,bkmln,bln->b", layers, kept, x4, kept) / size
        moved = w1 + rate * (np.einsum("bkl,bkml->bkm", layers, seen) * open_ - energy * w1)
        w1 = unit(np.where(open_ & (moved < 0), 0, moved) if sticky else moved, (1, 2))
        w2 = unit(w2 + rate * (w2 @ covariance - energy * w2), (1, 2))
    return w1, midway


def starts_of_either_sign(t: Trial) -> None:
    """Theorem 5 from w_1(0) with negative entries: share of ends that are no e_m, by steps of the
    gradient and by exponentials. Corrected: where the energy at the start is positive. Controls:
    where it is negative; the linear flow. In the notes: starts w >= 0, by steps that may pass 0."""
    part, right = t.both(EITHER, measured=fraction, controls=fraction)
    rng, sizes, weak, passed = t.stream("signs"), (2, 3, 5), [], []
    count = max(20, 2 * t.share(len(sizes)))
    for modes in sizes:
        x, start = _signed_field(rng, count, modes, STRONG)
        energy = mixture.energy(x, np.maximum(start, 0))
        lost, again, linear = _lost(x, start), _lost_at_last(x, start), _lost(x, start, False)
        near = lost != again  # on the border of two ends, which coarse steps cross
        lost[near] = _lost(x[near], start[near], rate=0.01)
        part.add(lost).fails_by(again).breaks("linear net", linear)
        right.add(lost[energy > 0], again[energy > 0])
        right.breaks("energy below 0 at the start", lost[energy < 0])
        right.breaks("linear net", linear[energy > 0])
        weak.append(_lost_at_last(*_signed_field(rng, count, modes, WEAK)))
        passed.append(_lost(x, np.abs(start), halts=False))
    part.says(lost=fraction(part.errors, "<="), weak=fraction(weak, "<="))
    part.says(passed=fraction(passed, "<="))
    # N = M = 2, x' = 3x, alpha = 1: every entry of X is -2.
    alone = np.full((1, 2, 2), -2.0), np.array([[0.8, -0.6]])
    part.add(_lost(*alone)).fails_by(_lost_at_last(*alone))
    end = _ends(*alone, until=100.0)[0]
    part.says(first=end[0], second=end[1]).confirms(first=0.0, second=-1.0, within=1e-6)


EITHER = "starts of either sign"


def _signed_field(
    rng: np.random.Generator, draws: int, modes: int, gamma: tuple[float, float]
) -> tuple[Array, Array]:
    """X_alpha under Lemma 14, and unit starts of either sign that have a positive entry."""
    x, x2 = mixture.field(rng, draws, 4 * modes, modes, gamma)
    w = rng.standard_normal((draws, modes))
    w[np.arange(draws), rng.integers(modes, size=draws)] = np.abs(rng.standard_normal(draws))
    matrix = mixture.covariance(mixture.weights(rng, draws, 4 * modes), x, x2)
    return matrix, unit(w)


def _ends(
    x: Array,
    w: Array,
    sticky: bool = True,
    until: float = 0.0,
    halts: bool = True,
    rate: float = 0.1,
) -> Array:
    """The node's flow along |w| = 1 by steps of `rate`/|X|, up to the time `until`/|X| and until
    one positive entry at most is left, or 2000. A negative entry is read as 0; what reaches 0
    stays, or where it does not halt there passes it by the rest of its step."""
    pace = 1 / np.linalg.norm(x, axis=(-2, -1))[:, None]
    for step in range(round(2000 / rate) if sticky else round(200 / rate)):
        read = np.maximum(w, 0) if sticky else w
        push = np.einsum("bml,bl->bm", x, read) * ((w > 0) if sticky else 1)
        moved = w + rate * pace * tangent(w, push)
        w = unit(np.where((w > 0) & (moved < 0), 0, moved) if sticky and halts else moved)
        if step * rate >= until and step % 50 == 0 and ((w > 0).sum(-1) <= 1).all():
            break
    return w


def _lost(x: Array, w: Array, sticky: bool = True, halts: bool = True, rate: float = 0.1) -> Array:
    """[draws]: whether the flow does not go to an e_m. With one positive entry a left it does
    where X_mm > 0, since a' = X_mm a (1 - a^2)."""
    end = _ends(x, w, sticky, halts=halts, rate=rate)
    return ((end > 0).sum(-1) != 1) | (mixture.energy(x, np.maximum(end, 0)) <= 0)


def _lost_at_last(x: Array, w: Array) -> Array:
    """`_lost` by exponentials of what is positive, from one entry's death to the next."""
    end, alive = mixture.sticky_ends(x, np.maximum(w, 0))
    return (alive.sum(-1) != 1) | (mixture.energy(x, end) <= 0)
