"""ddn's remarks on its one-neuron examples (Secs. 4, 5 and 5.1): other losses, a ReLU
that sees the whole ring, and growth that is exponential.

Updates are complex-step gradients of losses enumerated over objects and views, as in `rings`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np

from clcore import reference as ref
from clcore.checks.dual_networks import nets
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.augmentation import rings
from clcore.checks.dual_networks.operator.each_step import LOSSES, TAU, WIDTHS
from clcore.checks.dual_networks.operator.inside import simple_loss
from clcore.ledger import Trial, check, typical, worst
from clcore.reference import Array

RINGS = (4, 6, 9)


def descent(w: Array, x: Array, name: str, loss: Callable) -> Array:
    """-d/dw of E[loss(r_+, r_-)] in the first tower, [draws, k], of a neuron that sees the equally
    likely views x [o, v, k] of o objects."""
    fixed = nets.act(name, np.einsum("...k,ovk->...ov", w, x))

    def value(u: Array) -> Array:
        f = nets.act(name, np.einsum("...k,ovk->...ov", u, x))
        near = (f[..., None] - fixed[..., None, :]) ** 2 / 2  # [..., o, v, v+]
        far = (f[..., None, None] - fixed[..., None, None, :, :]) ** 2 / 2  # [..., o, v, o-, v-]
        return loss(near[..., None, None], far[..., None, :, :]).mean((-1, -2, -3, -4, -5))

    return -ref.gradient(value, w)


def _sized(w: Array, x: Array, name: str, size: float) -> Array:
    """w scaled so that the largest output is size * sqrt(tau)."""
    f = np.abs(nets.act(name, np.einsum("...k,ovk->...ov", w, x))).max((-1, -2))
    return w * (size * np.sqrt(TAU) / f)[..., None]


def _weighted(w: Array, x: Array, name: str, weight: Callable) -> Array:
    """V^xi[Kbar(x) - Kbar(x')] / 2 of Theorem 4, a draw at a time; a sample is an object at a
    place, its views are at all places."""
    out = []
    for one in w:
        drive = np.einsum("k,ovk->ov", one, x)
        gate = np.ones_like(drive) if name == "linear" else (drive > 0) * 1.0
        mean = (gate[..., None] * x).mean(1)
        f = nets.act(name, drive)
        xi = weight((f[:, :, None, None] - f[None, None]) ** 2 / 2).mean((1, 3))  # [o, o']
        gap = mean[:, None] - mean[None]
        out.append(np.einsum("ab,abi,abj->ij", xi, gap, gap) / (2 * len(x) ** 2))
    return np.stack(out)


def _neurons(rng: np.random.Generator, count: int) -> Iterator[tuple]:
    """(ring, the paper's example, activation, views, weights [count, k], the pattern, 01,
    10 or 11, that alone opens a ReLU)."""
    signs = np.array([(1, 1, a, b) for a in (1, -1) for b in (1, -1)])  # two scrambled
    for d in RINGS:
        yield d, 2, "linear", rings.ring(d), rng.standard_normal((count, d)), None
        yield d, 3, "linear", rings.windows(d, False), rng.standard_normal((count, 2)), None
        x = rng.standard_normal((5, 1, 4)) * signs
        yield d, 1, "linear", x, rng.standard_normal((count, 4)), None
        for p, bias, w in rings.selective(rng, count):
            if p:
                yield d, 4, "relu", rings.windows(d, bias), w, rings.vectors(bias)[p]


@check("ddn/rem18")
def rem18(t: Trial) -> None:
    """InfoNCE and triplet losses work by similar principles (Sec. 5, after Assumption 1).

    Given   the neurons of examples 1 to 4 under InfoNCE and the soft triplet loss, their largest
            output 0.001, 1 or 3 times sqrt(tau) (1 for the operator); the paper does not define
            "similar".
    Claim   Theorem 4's weighted operator, in place of Theorem 3's, (1) vanishes for a linear neuron
            (examples 2, 3) and (2) amplifies the pattern of a selective ReLU neuron (example 4):
            its quadratic form there is positive.
    Fails   (1) for a selective ReLU neuron; (2) for the same neuron made linear. Only reported:
            whole updates, with the residue, are those of L_simp for outputs small against
            sqrt(tau), not beyond.
    """
    count = min(t.share(6), 5)
    vanishes = t.part("the weighted operator of a linear neuron vanishes", 1e-14)
    amplifies = t.part("the weighted operator amplifies a single pattern", 1e-3, ">=")
    small, least, falls, moved = [], [], [], []
    neurons = product(_neurons(t.rng, count), LOSSES.values())
    for (d, example, name, x, w, pattern), case in neurons:
        scale = case.weight(np.zeros(1))[0]
        operator, linear = (
            _weighted(_sized(w, x, kind, 1.0), x, kind, case.weight) / scale
            for kind in (name, "linear")
        )
        selective, largest = pattern is not None, np.abs(operator).max((-1, -2))

        # (1) A linear neuron on a ring or behind a window: no entry of its operator is left.
        if example in (2, 3):
            vanishes.add(largest)
        elif selective:
            vanishes.breaks("a selective ReLU, window of two", largest)

        # (2) The operator's quadratic form at the pattern that alone opens the ReLU.
        if selective:
            along, without = (
                np.einsum("i,bij,j->b", pattern, op, pattern) * d**2 for op in (operator, linear)
            )
            amplifies.add(along).breaks("linear", without)

        # Reported: whole updates beside those of L_simp, and what they do to the pattern.
        for size in (1e-3, 1.0, 3.0):
            u = _sized(w, x, name, size)
            move = descent(u, x, name, case.page) / scale
            power = np.linalg.norm(u, axis=-1) * (x**2).sum(-1).mean()
            error = np.linalg.norm(move - rings.descent(u, x, name), axis=-1) / power
            if size < 0.1:
                small.append(error.max())
            elif size == 1.0 and example in (2, 3):
                moved.append(np.linalg.norm(move, axis=-1) / power)
            if selective:
                gain = (move @ pattern) / (u @ pattern)
                (least if size < 0.1 else falls).append(gain)

    vanishes.says(small=max(small), moved=np.median(np.concatenate(moved)))
    shares = {"falls": falls, "small_falls": least}
    amplifies.says(**{k: (np.concatenate(v) < 0).mean() for k, v in shares.items()}, turn=_turn())


def _turn() -> float:
    """The output at 10, over sqrt(tau), above which an update of InfoNCE lowers it, if 10 alone
    opens the neuron; ring of 8."""
    x, low, high = rings.windows(8, False), 0.01, 5.0
    for _ in range(40):
        middle = (low + high) / 2
        w = np.array([[1.0, -3.0]]) * middle * np.sqrt(TAU)
        rises = descent(w, x, "relu", LOSSES["InfoNCE"].page)[0, 0] > 0
        low, high = (middle, high) if rises else (low, middle)
    return low


# ------------------------------------------------------------------------------ the whole ring


@check("ddn/rem19")
def rem19(t: Trial) -> None:
    """A local receptive field and a nonlinearity rescue the neuron (Sec. 5.1, after example 2).

    Given   the model of example 2, d in {4, 8, 16}, L_simp; windows of two, weights of two signs.
    Claim   A local field with a ReLU rescues the neuron: the largest eigenvalue of its operator is
            positive.
    Fails   for a linear neuron behind the same window, and with a bias that opens it to all
            patterns. A ReLU on the whole ring learns, too; the share of starts is reported, and the
            paper does not deny it.
    """
    window, whole, learnt, count = t.part("", 1e-3, ">="), [], [], min(t.draws, 20)
    for d in (4, 8, 16):
        x = rings.windows(d, False)
        w = t.rng.standard_normal((count, 2))
        w = np.where(np.prod(w, 1, keepdims=True) > 0, w * np.array([1.0, -1.0]), w)
        window.add(_largest(w, x, d))
        window.breaks("linear, window of two", _largest(w, x, d, "linear"))
        biased = np.concatenate([w, np.abs(w).sum(1, keepdims=True)], 1)
        window.breaks("a bias that opens all", _largest(biased, rings.windows(d, True), d))

        # Reported: a ReLU on the whole ring, and whether 100 steps widen its gap.
        x, w = rings.ring(d), t.rng.standard_normal((count, d))
        whole.append(_largest(w, x, d))
        after = w
        for _ in range(100):
            step = 4.0 * rings.descent(after, x, "relu")
            after = after + step / np.maximum(whole[-1], 1e-3)[:, None]
        gaps = [np.abs(_gap(v, x)) / np.linalg.norm(v, axis=-1) for v in (w, after)]
        learnt.append(gaps[1] > gaps[0])
    window.says(learns=(np.concatenate(whole) > 1e-9).mean(), widens=np.concatenate(learnt).mean())


def _largest(w: Array, x: Array, d: int, name: str = "relu") -> Array:
    """d^2 times the largest eigenvalue of V_{z_0}[Kbar], [draws]."""
    if name == "linear":
        mean = x.mean(1)
        spread = mean - mean.mean(0)
        op = np.broadcast_to(spread.T @ spread / len(x), (len(w), *[x.shape[-1]] * 2))
    else:
        op = rings.operator(w, x)
    return d**2 * np.linalg.eigvalsh(op)[:, -1]


def _gap(w: Array, x: Array) -> Array:
    """E[f | object 11] - E[f | object 101], [draws]."""
    f = nets.act("relu", np.einsum("bk,ovk->bov", w, x)).mean(-1)
    return f[:, 0] - f[:, 1]


# ----------------------------------------------------------------------------- exponential growth


@check("ddn/rem21")
def rem21(t: Trial) -> None:
    """Weight components grow exponentially without output normalisation (Sec. 4, after Eq. 2).

    Given   L_simp on plain outputs, large batch limit: a finite world, gradients by complex steps.
    Claim   One linear layer: after 120 steps the component along each eigenvector of the operator
            is (1 + alpha lambda)^120 times its start. Two layers with a ReLU: the growth of log
            |W_l|^2 a step never falls.
    Fails   for growth by t alpha lambda; for InfoNCE, where the growth slows down.
    """
    count, steps = min(t.draws, 4), 120
    world = dw.world(t.rng, count, 4, "additive", 0.4)
    (W,), (_, p, x, q) = dw.weights(t.rng, count, (4, 3)), dw.parts(world)

    # One linear layer: 120 steps multiply each component by (1 + alpha lambda)^120.
    mean = (q[..., None] * x).sum(2)
    centred = mean - (p[..., None] * mean).sum(1, keepdims=True)
    values, vectors = np.linalg.eigh(np.einsum("bs,bsi,bsj->bij", p, centred, centred))
    rate = 0.05 / values[:, -1]
    start, simple = np.einsum("bij,bjk->bik", W, vectors), simple_loss(world)
    for _ in range(steps):
        W = W - rate[:, None, None] * dw.gradient(simple, [W], 1, x)
    end = np.einsum("bij,bjk->bik", W, vectors)
    size = np.abs(end).max((1, 2))
    grown = (1 + rate[:, None] * values) ** steps
    linear = 1 + steps * rate[:, None] * values
    one = t.part("one linear layer", 1e-10, controls=typical)
    one.add(np.abs(end - grown[:, None] * start).max((1, 2)) / size)
    one.breaks("growth by t rate lambda", np.abs(end - linear[:, None] * start).max((1, 2)) / size)
    one.says(grown=np.median(np.abs(grown).max(1)))

    # Two layers with a ReLU: the growth of log |W_l|^2 a step never falls.
    two = t.part("two layers: never slower than exponential", 0.0, ">=")
    two.add(_change_of_growth(t, 12, dw.simple()))
    # "never": one run that slows down refutes it; with InfoNCE half of them do
    two.breaks("InfoNCE", _change_of_growth(t, 12, dw.infonce(0.5)), by=worst)


def _change_of_growth(t: Trial, count: int, case: dw.Case) -> Array:
    """Least relative change from a step to the next of the growth of log |W_l|^2, [draws], over two
    layers and 20 steps; the same start for every loss."""
    rng = t.stream("deep")
    world = dw.world(rng, count, WIDTHS[0], "additive", 0.4)
    layers, x = dw.weights(rng, count, WIDTHS), dw.parts(world)[2]
    linear = case.weight is np.ones_like
    objective = simple_loss(world) if linear else partial(dw.mean_loss, case.page, w=world)
    norms = []
    for _ in range(20):
        norms.append([np.log((w**2).sum((1, 2))) for w in layers])
        steps = [dw.gradient(objective, layers, k, x) for k in (1, 2)]
        layers = [w - 4e-3 * g for w, g in zip(layers, steps, strict=True)]
    growth = np.diff(np.array(norms), axis=0)
    return (growth[1:] / growth[:-1] - 1).min((0, 1))
