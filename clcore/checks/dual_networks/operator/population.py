"""The covariance operator of finite worlds (ddn Sec. 4, App. B.2, B.3).

Operators of `clcore.theory.operator.covariance_operator` meet complex-step gradients of losses
enumerated by loops. All statements are about the first tower's gradient (Theorem 1); thm3 says what
both towers give.
"""

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.layers import TIGHT, layers, skew
from clcore.checks.dual_networks.operator import exact_worlds
from clcore.checks.dual_networks.operator.drawn_worlds import drawn
from clcore.ledger import Trial, check, pooled, typical
from clcore.reference import Array, relative
from clcore.theory.operator import connection as net
from clcore.theory.operator import covariance_operator as co

# -------------------------------------------------------------------------------- one sample's pull


def _tuple(rng: np.random.Generator, count: int, depth: int, negatives: int) -> tuple:
    """(weights, x [count, 1, 2 + negatives, d]): anchor, its other view, negatives."""
    widths = dw.DEPTHS[depth]
    weights = dw.weights(rng, count, widths)
    x = rng.standard_normal((count, 1, 2 + negatives, widths[0]))
    x[:, :, 1] = x[:, :, 0] + 0.7 * x[:, :, 1]
    return weights, x


def _infonce(tau: float, near: Array, far: Array) -> Array:
    """InfoNCE of anchor near[0] with positive far[1] and negatives far[2:], naive exponentials."""
    r = dw.half(near[..., 0, :1, :], far[..., 0, 1:, :])
    e = np.exp(-r / tau)
    return -np.log(e[..., 0] / e.sum(-1))


def _single(case: dw.Case, near: Array, far: Array) -> Array:
    """A loss of one negative, of the same anchor."""
    return case.page(*(dw.half(near[..., 0, 0, :], far[..., 0, k, :]) for k in (1, 2)))


def _slopes(case: dw.Case | None, r: Array, tau: float) -> Array:
    """dL/dr_{k-}, [draws, H], at distances r of the positive and of the negatives."""
    if case is None:
        return -np.exp(-r[:, 1:] / tau) / np.exp(-r / tau).sum(-1, keepdims=True) / tau
    return ref.slope(partial(case.page, r[:, :1]), r[:, 1:])


def _norm(a: Array) -> Array:
    """[draws]: root of the sum of squares of all other entries."""
    return np.sqrt((a**2).reshape(len(a), -1).sum(-1))


def _one_sample(t: Trial, unit: bool) -> None:
    """Lemma 2 (or Eq. 51) against complex steps: over the factors' norms, for a softmax slope near
    0 is known absolutely only."""
    count, tau = t.share(6), 0.7
    settings = [(d, 1, c) for d in (1, 2, 4) for c in (dw.simple(), dw.triplet(tau))]
    settings += [(d, h, None) for d in (2, 3) for h in (1, 3, 8)]
    pull = t.part("", TIGHT, controls=pooled, draws=count * len(settings))
    for depth, negatives, case in settings:
        weights, x = _tuple(t.rng, count, depth, negatives)
        seen = net.trace(dw.torch_layers(weights), torch.from_numpy(x[:, 0]))
        f = (net.unit(seen.output) if unit else seen.output).numpy()
        slope = _slopes(case, dw.half(f[:, :1], f[:, 1:]), tau)
        objective = partial(_single, case) if case else partial(_infonce, tau)

        def extended(near: Array, far: Array, base: Callable = objective) -> Array:
            return base(near, far) + 0.5 * dw.half(near[..., 0, 0, :], far[..., 0, 1, :])

        for layer, W in enumerate(weights, 1):
            K = (net.normalised_connection if unit else net.connection)(seen, layer).numpy()
            gaps = np.einsum("bh,bhwk->bkw", slope, K[:, 1:2] - K[:, 2:])
            left = K[:, 0] @ net.projector(seen.output)[:, 0].numpy() if unit else K[:, 0]
            steps = partial(dw.gradient, layers=weights, layer=layer, x=x, unit=unit)
            g, both = (dw.vec(steps(objective, tied=tied)) for tied in (False, True))
            ours = dw.times(left @ gaps, weights, layer)
            size = _norm(left) * _norm(K[:, 1:2] - K[:, 2:]) * _norm(W)
            pull.add(_norm(ours - g) / size)
            pull.breaks("beta = 1/2", _norm(ours - dw.vec(steps(extended))) / size)
            pull.breaks("both towers", _norm(ours - both) / size)
            pull.breaks("any multiple of both towers", dw.off_line(ours, both))
            if unit:
                bare = dw.times(K[:, 0] @ gaps, weights, layer)
                pull.breaks("no projector", _norm(bare - g) / size)
    shown = exact_worlds.one_unit_sample if unit else exact_worlds.one_sample
    pull.proves(**shown())


@check("ddn/lem2")
def lem2(t: Trial) -> None:
    """One sample's gradient, H = 1, 3, 8, three losses, all layers, against complex steps.

    Controls: a loss with slopes that do not sum to zero; the gradient through both towers, and its
    nearest multiple.
    """
    _one_sample(t, unit=False)


@check("ddn/eq51")
def eq51(t: Trial) -> None:
    """The same with normalised outputs. Controls: as lem2, and no projector."""
    _one_sample(t, unit=True)


# ---------------------------------------------------------------------------------------- Theorem 3


@check("ddn/thm3")
def thm3(t: Trial) -> None:
    """V_x[Kbar_l] vec(W_l) against minus the complex-step gradient of the enumerated E[L_simp].

    Every layer of ReLU nets of depth 1 to 4, three kinds of augmentation. Controls: views not
    averaged; the gradient through both tied towers, which is exactly twice (a part of its own).
    """
    count = t.share(12)
    one = t.part("one tower", TIGHT, controls=pooled, draws=12 * count)
    two = t.part("both tied towers", TIGHT, controls=pooled, draws=12 * count)
    for at in layers(t.rng, count, kinds=co.KINDS):
        g, both = (at.descent(dw.simple(), tied) for tied in (False, True))
        one.add(relative(at.times(at.between), g, 1e-8))
        one.breaks("views not averaged", relative(at.times(at.between + at.within), g))
        one.breaks("both towers", relative(at.times(at.between), both, 1e-8))
        two.add(relative(both, 2 * g, 1e-8))
        if at.number == at.depth:
            g, both = (at.descent(dw.infonce(0.5), tied) for tied in (False, True))
            two.breaks("InfoNCE", relative(both, 2 * g, 1e-8))
    for part, proof in zip((one, two), exact_worlds.theorem3(), strict=True):
        part.proves(**proof)
    drawn(t)


def _moments(K: Array, p: Array, q: Array) -> tuple[Array, Array, Array]:
    """(E[K K_+^T], E[K K_-^T], the latter with negatives of other samples only), [draws, w, w]."""
    plus, minus, apart = np.zeros((3, len(K), *2 * (K.shape[-2],)))
    S, V = q.shape[1:]
    for s, i, t, j in product(range(S), range(V), range(S), range(V)):
        outer = K[:, s, i] @ K[:, t, j].swapaxes(-1, -2)
        view = (q[:, s, i] * q[:, t, j])[:, None, None] * outer
        if s == t:
            plus += p[:, s, None, None] * view
        else:
            apart += (p[:, s] * p[:, t])[:, None, None] * view
        minus += (p[:, s] * p[:, t])[:, None, None] * view
    return plus, minus, apart / (1 - (p**2).sum(-1))[:, None, None]


@check("ddn/eq54")
def eq54(t: Trial) -> None:
    """E[K K_+^T] and E[K K_-^T] by loops against products of averages; then Eqs. 53-55.

    K here is a complex-step Jacobian. Controls: the other view from any sample, negatives never
    from the same sample, no means. Means over finite batches approach the limit as 1/sqrt(n).
    """
    count = t.share(3)
    positive, negative, gradient, variance = (
        t.part(name, TIGHT, controls=pooled, draws=3 * count)
        for name in ("positive pairs", "negative pairs", "Eq. 54", "Eq. 55")
    )
    batches = t.part("finite batches", 0.1, controls=pooled)
    for at in layers(t.rng, count, (1, 2, 3)):
        _, p, x, q = dw.parts(at.world)
        K = dw.connection(at.net, at.number, x)
        plus, minus, apart = _moments(K, p, q)
        mean = (q[..., None, None] * K).sum(2)
        second = np.einsum("bs,bsik,bsjk->bij", p, mean, mean)
        centre = np.einsum("bs,bsik->bik", p, mean)
        squared = centre @ centre.swapaxes(-1, -2)
        positive.add(relative(plus, second))
        positive.breaks("not two views", relative(minus, second))
        negative.add(relative(minus, squared))
        negative.breaks("never the same sample", relative(apart, squared))
        g = at.descent(dw.simple())
        gradient.add(relative(at.times(plus - minus), g, 1e-8))
        gradient.breaks("views not averaged", relative(at.times(at.between + at.within), g))
        variance.add(relative(at.between, plus - minus))
        variance.breaks("second moment", relative(at.between, plus))
        if at.number == at.depth:
            batches.add(abs(_slope(t.rng, K, at.world, plus - minus) + 0.5))
            biased = _slope(t.rng, K, at.world, plus - minus, biased=True)
            batches.breaks("positives from another sample", abs(biased + 0.5))


BATCHES = 2 ** np.arange(4, 13)


def _slope(
    rng: np.random.Generator, K: Array, world: co.World, op: Array, biased: bool = False
) -> float:
    """Slope of the error of batch means of -K_1 (K_+ - K_-)^T against the batch's size, one draw.

    `biased` draws x_+ from another sample, so that the mean is not the operator.
    """
    _, p, _, q = (v[0] for v in dw.parts(world))
    S, V = q.shape
    errors = []
    for size in BATCHES:
        draws = 40 * BATCHES[-1] // size // 8
        shape = (draws, size)
        s, t, u = (rng.choice(S, shape, p=p) for _ in range(3))
        one, plus, minus = (
            (rng.random((*shape, 1)) > q[k].cumsum(-1)[..., :-1]).sum(-1)
            for k in (s, u if biased else s, t)
        )
        code = (s * V + one, (u if biased else s) * V + plus, t * V + minus)
        flat = K[0].reshape(S * V, *K.shape[-2:])
        count = np.zeros((2, draws, S * V, S * V))
        rows = np.arange(draws)[:, None]
        for k in (0, 1):
            np.add.at(count[k], (rows, code[0], code[1 + k]), 1 / size)
        estimate = np.einsum("buv,uik,vjk->bij", count[0] - count[1], flat, flat, optimize=True)
        errors.append(np.sqrt(((estimate - op[0]) ** 2).sum((1, 2)).mean()))
    return float(np.polyfit(np.log(BATCHES), np.log(errors), 1)[0])


@check("ddn/eq56")
def eq56(t: Trial) -> None:
    """-Cov_x[avg(K^n P), avg(K^n)] vec(W_l) against complex steps of E[r_n+ - r_n-].

    Controls: no projector, projector and connection averaged apart, both towers. Parts: both give
    twice one tower's gradient; it is not symmetric.
    """
    count = t.share(4)
    gradient = t.part("gradient", 1e-11, controls=pooled, draws=4 * count)
    twice = t.part("both tied towers", 1e-8, controls=pooled, draws=4 * count)
    bent = t.part("not symmetric", 1e-3, ">=", measured=pooled, draws=4 * count)
    for at in layers(t.rng, count):
        g, both = (at.descent(dw.simple(), tied, unit=True) for tied in (False, True))
        K, P = at.sides()
        mean, left = co.view_mean(K, at.world), co.view_mean(K @ P, at.world)
        apart = mean @ co.view_mean(P, at.world)
        op, bare, split = (co.covariance(a, mean, at.world.chances) for a in (left, mean, apart))
        twice.add(relative(both, 2 * g, 1e-6))
        twice.breaks("not doubled", relative(at.times(op), both, 1e-6))
        gradient.add(relative(at.times(op), g, 1e-6))
        gradient.breaks("both towers", relative(at.times(op), both, 1e-6))
        if at.depth > 1:
            gradient.breaks("no projector", relative(at.times(bare), g, 1e-6))
            gradient.breaks("averaged apart", relative(at.times(split), g, 1e-6))
            bent.add(skew(op))
            bent.breaks("without normalisation", skew(at.between))


# ------------------------------------------------------------------------------ weighted covariance


def _distribution(rng: np.random.Generator, count: int, n: int = 10, w: int = 12, k: int = 3):
    """(K [count, n, w, k], p [count, n]): random matrices with random chances."""
    p = rng.uniform(0.2, 1.0, (count, n))
    return rng.standard_normal((count, n, w, k)), p / p.sum(-1, keepdims=True)


def _weighted_by_loops(a: Array, b: Array, mass: Array, centre: Array) -> Array:
    """sum_i mass_i (a_i - abar) (b_i - bbar)^T with means of the weights `centre`."""
    total, n = 0.0, range(a.shape[1])
    middle = [sum(centre[:, j, None, None] * v[:, j] for j in n) for v in (a, b)]
    for i in n:
        left, right = a[:, i] - middle[0], b[:, i] - middle[1]
        total = total + mass[:, i, None, None] * (left @ right.swapaxes(-1, -2))
    return total


@check("ddn/eq4")
def eq4(t: Trial) -> None:
    """Cov^xi against loops; xi = 1 against numpy's covariance; V^xi is PSD for xi >= 0.

    Controls: means that carry the weight, no means taken off, weights of both signs.
    """
    a, p = _distribution(t.rng, t.draws)
    b, xi = t.rng.standard_normal((t.draws, 10, 5, 3)), t.rng.random((t.draws, 10))
    ours = co.weighted_covariance(*ref.tensors(a, b, xi, p))
    share = xi * p / (xi * p).sum(-1, keepdims=True)
    definition = t.defines("definition", 1e-12, controls=typical)
    definition.add(relative(ours, _weighted_by_loops(a, b, xi * p, p)))
    for what, centre in (("weighted means", share), ("no means", 0 * p)):
        definition.breaks(what, relative(ours, _weighted_by_loops(a, b, xi * p, centre)))
    one = co.weighted_covariance(*ref.tensors(a[..., :1], a[..., :1], np.ones_like(p), p)).numpy()
    theirs, unbiased = (
        np.stack([np.cov(x.T, aweights=c, ddof=k) for x, c in zip(a[..., 0], p, strict=True)])
        for k in (0, 1)
    )
    plain = t.part("xi = 1", 1e-12, controls=typical).add(relative(one, theirs))
    plain.breaks("unbiased", relative(one, unbiased))
    a, xi, p = a[:, :4], xi[:, :4], p[:, :4] / p[:, :4].sum(-1, keepdims=True)
    least = []
    for weight in (xi, xi - 0.5):
        v = np.linalg.eigvalsh(co.weighted_covariance(*ref.tensors(a, a, weight, p)).numpy())
        least.append(v[:, 0] / np.abs(v).max(-1))
    psd = t.part("PSD", 1e-12, controls=typical).add(-least[0])
    psd.breaks("weights of both signs", -least[1])
    plain.proves(**exact_worlds.plain_covariance())
    psd.proves(**exact_worlds.weighted_psd())


@check("ddn/rem3")
def rem3(t: Trial) -> None:
    """V_{x,x''}[Kbar(x) - Kbar(x'')] / 2 = V_x[Kbar(x)]: a loop over pairs against the variance.

    Controls: no 1/2; pairs of two different samples only.
    """
    K, p = _distribution(t.rng, t.draws)
    pairs = np.zeros((t.draws, 12, 12))
    for i, j in product(range(10), repeat=2):
        gap = K[:, i] - K[:, j]
        pairs += (p[:, i] * p[:, j])[:, None, None] * (gap @ gap.swapaxes(-1, -2)) / 2
    ours = co.covariance(*ref.tensors(K, K, p))
    apart = pairs / (1 - (p**2).sum(-1))[:, None, None]
    same = t.part("", 1e-12, controls=typical).add(relative(pairs, ours))
    same.breaks("no 1/2", relative(2 * pairs, ours))
    same.breaks("two different samples", relative(apart, ours))
    same.proves(**exact_worlds.pairs_of_samples())


def _term(one: Array, plus: Array, minus: Array, u: Array) -> Array:
    """K_1 (K_+ - K_-)^T u."""
    return np.einsum("bik,bjk,bj->bi", one, plus - minus, u)


def _pair_terms(K: Array, q: Array, u: Array) -> tuple[Array, Array]:
    """(g(x, x'') by loops over views, the same with one view for all three), [draws, S, S, w],
    without the pair's weight."""
    S, V = q.shape[1:]
    g, single = np.zeros((2, len(K), S, S, K.shape[-2]))
    for s, t, i in product(range(S), range(S), range(V)):
        single[:, s, t] += q[:, s, i, None] * _term(K[:, s, i], K[:, s, i], K[:, t, i], u)
        for j, m in product(range(V), repeat=2):
            chance = q[:, s, i] * q[:, s, j] * q[:, t, m]
            g[:, s, t] += chance[:, None] * _term(K[:, s, i], K[:, s, j], K[:, t, m], u)
    return g, single


@check("ddn/eq67")
def eq67(t: Trial) -> None:
    """Eq. 65 by loops over views; g(x, x'') + g(x'', x) pair by pair; their mean is Eqs. 68, 69.

    Controls: a weight that depends on the order of the pair; Kbar not averaged over views.
    """
    S, V, w, k = 4, 3, 6, 2
    K, u = t.rng.standard_normal((t.draws, S, V, w, k)), t.rng.standard_normal((t.draws, w))
    world = dw.world(t.rng, t.draws, 3, samples=S, views=V)
    _, p, _, q = dw.parts(world)
    r = 2 * t.rng.random((t.draws, S, S))
    terms, mean = _pair_terms(K, q, u), (q[..., None, None] * K).sum(2)
    gap = mean[:, :, None] - mean[:, None]
    square = np.einsum("bstik,bstjk,bj->bsti", gap, gap, u)
    both = p[:, :, None] * p[:, None]

    def pair_by_pair(g: Array, xi: Array) -> Array:
        return relative(g + g.swapaxes(1, 2), -xi[..., None] * square)

    each = t.part("Eq. 67", 1e-12, controls=typical)
    average = t.part("Eqs. 68, 69", 1e-12, controls=typical)
    for what, xi in (
        ("", 1 / (1 + np.exp(r + r.swapaxes(-1, -2)))),
        ("asymmetric weight", 1 / (1 + np.exp(r))),
    ):
        g, single = (-xi[..., None] * v for v in terms)
        expected = (both[..., None] * g).sum((1, 2))
        op = co.pair_operator(*ref.tensors(mean, xi), world).numpy()
        ours = -np.einsum("bij,bj->bi", op, u)
        average.breaks("no 1/2", relative(2 * ours, expected))
        if what:
            each.breaks(what, pair_by_pair(g, xi))
            average.breaks(what, relative(ours, expected))
        else:
            each.add(pair_by_pair(g, xi))
            each.breaks("one view for all three", pair_by_pair(single, xi))
            average.add(relative(ours, expected))
    for part, proof in zip((each, average), exact_worlds.symmetry(), strict=True):
        part.proves(**proof)
