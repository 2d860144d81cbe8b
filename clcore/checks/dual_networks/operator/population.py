"""The covariance operator of finite worlds (ddn Sec. 4, App. B.3).

Operators of `clcore.theory.operator.covariance_operator` meet complex-step gradients of losses
enumerated by loops. All statements are about the first tower's gradient (Theorem 1); thm3 and
eq56 cover both towers.
"""

from itertools import product

import numpy as np

from clcore import reference as ref
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.layers import TIGHT, descent, layers, skew
from clcore.checks.dual_networks.operator import exact_worlds
from clcore.ledger import Trial, check, pooled, typical
from clcore.reference import Array, relative
from clcore.theory.operator import connection as cn
from clcore.theory.operator import covariance_operator as co


@check("ddn/thm3")
def thm3(t: Trial) -> None:
    """Simple contrastive loss: a covariance operator moves every layer (Theorem 3, Eq. 3).

    Given   L_simp, large batch limit (finite worlds, enumerated, x' = x among the negatives), tied
            weights, plain outputs; ReLU nets of 1..4 layers, several kinds of augmentation.
    Claim   -dL/dW_l by the first tower's weights is V_x[Kbar_l(x)] vec(W_l), Kbar_l the mean of
            K_l over views: against complex steps, every layer. Through both towers exactly twice
            that. Both proved.
    Fails   where views are not averaged, for one tower's operator against both; twice: under
            InfoNCE.
    """
    count = t.share(12)
    one = t.part("one tower", TIGHT, controls=pooled, draws=12 * count)
    two = t.part("both tied towers", TIGHT, controls=pooled, draws=12 * count)
    for at in layers(t.rng, count, kinds=co.KINDS):
        g, both = (descent(at, dw.simple(), tied) for tied in (False, True))

        # -dL/dvec(W_l) by one tower is V_x[Kbar_l] vec(W_l); between + within is V of all views' K.
        one.add(relative(at.times(at.between), g, 1e-8))
        one.breaks("views not averaged", relative(at.times(at.between + at.within), g))
        one.breaks("both towers", relative(at.times(at.between), both, 1e-8))

        # By both it is twice that by one.
        two.add(relative(both, 2 * g, 1e-8))
        if at.number == len(at.net):
            of_one, of_both = (descent(at, dw.infonce(0.5), tied) for tied in (False, True))
            two.breaks("InfoNCE", relative(of_both, 2 * of_one, 1e-8))
    for part, proof in zip((one, two), exact_worlds.theorem3(), strict=True):
        part.proves(**proof)


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
    """Population gradient of the simple contrastive loss (Eqs. 53-55).

    Given   L_simp in finite worlds, ReLU nets of 1..3 layers; views independent given their
            sample, the negative from an independent one.
    Claim   E[K K_+^T] = E_x[Kbar Kbar^T] and E[K K_-^T] = E[Kbar] E[Kbar]^T, by loops over pairs
            of views against products of means; their difference on vec(W_l) is minus the gradient,
            and is V_x[Kbar_l]. Means over batches of n approach it as n^(-1/2).
    Fails   for a second view of any sample, for negatives never of the same sample, without the
            view average, for the second moment; the rate for positives of another sample.
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

        # E[K K_+^T] = E_x[Kbar Kbar^T].
        second = np.einsum("bs,bsik,bsjk->bij", p, mean, mean)
        positive.add(relative(plus, second)).breaks("not two views", relative(minus, second))

        # E[K K_-^T] = E[Kbar] E[Kbar]^T.
        centre = np.einsum("bs,bsik->bik", p, mean)
        squared = centre @ centre.swapaxes(-1, -2)
        negative.add(relative(minus, squared))
        negative.breaks("never the same sample", relative(apart, squared))

        # Their difference on vec(W_l) is minus the gradient.
        g = descent(at, dw.simple())
        gradient.add(relative(at.times(plus - minus), g, 1e-8))
        gradient.breaks("views not averaged", relative(at.times(at.between + at.within), g))

        # It is V_x[Kbar_l].
        variance.add(relative(at.between, plus - minus))
        variance.breaks("second moment", relative(at.between, plus))

        # Means over batches of n approach it as n^(-1/2): log error against log n has slope -1/2.
        if at.number == len(at.net):
            right, biased = (
                _slope(t.rng, K, at.world, plus - minus, biased) for biased in (False, True)
            )
            batches.add(abs(right + 0.5))
            batches.breaks("positives from another sample", abs(biased + 0.5))


BATCHES = 2 ** np.arange(4, 13)


def _slope(
    rng: np.random.Generator, K: Array, world: co.World, op: Array, biased: bool = False
) -> float:
    """Slope of log |batch mean of K_1 (K_+ - K_-)^T - op| against log batch size, the first draw.

    `biased` draws x_+ from an independent sample, so that the mean is not the operator.
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
    """With normalised outputs the operator is not symmetric (Eq. 56).

    Given   L_simp of normalised distances in finite worlds, ReLU nets of 1..4 layers.
    Claim   The gradient by the first tower's weights is -Cov_x[mean(K^n P^perp), mean(K^n)]
            vec(W_l), means over views, K^n = K_l/|f|, P^perp = I - f f^T/|f|^2: against complex
            steps; that operator is not symmetric; both towers give exactly twice.
    Fails   for one tower's operator against both, without the projector, for projector and
            connection averaged apart; both for once one tower; symmetric without the normalisation.
    """
    count = t.share(4)
    gradient = t.part("gradient", 1e-11, controls=pooled, draws=4 * count)
    twice = t.part("both tied towers", 1e-8, controls=pooled, draws=4 * count)
    bent = t.part("not symmetric", 1e-3, ">=", measured=pooled, draws=4 * count)
    for at in layers(t.rng, count):
        g, both = (descent(at, dw.simple(), tied, unit=True) for tied in (False, True))
        seen = cn.trace(ref.tensors(*at.net), at.world.points)
        K = at.world.shaped(cn.normalised_connection(seen, at.number), 2)
        P = at.world.shaped(cn.projector(seen.output), 2)
        mean, left = co.view_mean(K, at.world), co.view_mean(K @ P, at.world)
        apart = mean @ co.view_mean(P, at.world)
        op, bare, split = (co.covariance(a, mean, at.world.chances) for a in (left, mean, apart))

        # The gradient by one tower is -Cov_x[mean(K^n P^perp), mean(K^n)] vec(W_l).
        gradient.add(relative(at.times(op), g, 1e-6))
        gradient.breaks("both towers", relative(at.times(op), both, 1e-6))
        gradient.breaks("no projector", relative(at.times(bare), g, 1e-6))
        gradient.breaks("averaged apart", relative(at.times(split), g, 1e-6))

        # By both it is twice that by one.
        twice.add(relative(both, 2 * g, 1e-6))
        twice.breaks("not doubled", relative(both, g, 1e-6))

        # The operator is not symmetric.
        bent.add(skew(op)).breaks("without normalisation", skew(at.between))


# ------------------------------------------------------------------------------ weighted covariance


def _distribution(rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    """(K [count, 10, 12, 3], p [count, 10]): random matrices with random chances."""
    p = rng.uniform(0.2, 1.0, (count, 10))
    return rng.standard_normal((count, 10, 12, 3)), p / p.sum(-1, keepdims=True)


def _weighted_by_loops(a: Array, b: Array, mass: Array, centre: Array) -> Array:
    """sum_i mass_i (a_i - abar) (b_i - bbar)^T with means of the weights `centre`."""
    total, n = np.zeros(()), range(a.shape[1])
    middle = [sum(centre[:, j, None, None] * v[:, j] for j in n) for v in (a, b)]
    for i in n:
        left, right = a[:, i] - middle[0], b[:, i] - middle[1]
        total = total + mass[:, i, None, None] * (left @ right.swapaxes(-1, -2))
    return total


@check("ddn/eq4")
def eq4(t: Trial) -> None:
    """Weighted covariance of random matrices (Eq. 4).

    Given   random matrices X, Y on ten points (four for V^xi) with random chances and weights xi.
    Claim   Cov^xi[X, Y] = E[xi (X - E X)(Y - E Y)^T] with unweighted means: the library against
            loops. xi = 1 is the ordinary covariance, against numpy's; V^xi is positive
            semi-definite for xi >= 0. The last two proved.
    Fails   for weighted means, without means, for the unbiased covariance (in the proof for xi
            = 2); positive semi-definite for weights of both signs.
    """
    X, p = _distribution(t.rng, t.draws)
    Y, xi = t.rng.standard_normal((t.draws, 10, 5, 3)), t.rng.random((t.draws, 10))

    # Cov^xi[X, Y] = E[xi (X - E X)(Y - E Y)^T] with unweighted means, by loops.
    ours = co.weighted_covariance(*ref.tensors(X, Y, xi, p))
    definition = t.defines("definition", 1e-12, controls=typical)
    definition.add(relative(ours, _weighted_by_loops(X, Y, xi * p, p)))
    share = xi * p / (xi * p).sum(-1, keepdims=True)
    for what, centre in (("weighted means", share), ("no means", 0 * p)):
        definition.breaks(what, relative(ours, _weighted_by_loops(X, Y, xi * p, centre)))

    # xi = 1 is the ordinary covariance, numpy's.
    column = X[..., :1]
    one = co.weighted_covariance(*ref.tensors(column, column, np.ones_like(p), p)).numpy()
    theirs, unbiased = (
        np.stack([np.cov(x.T, aweights=c, ddof=k) for x, c in zip(X[..., 0], p, strict=True)])
        for k in (0, 1)
    )
    plain = t.part("xi = 1", 1e-12, controls=typical).add(relative(one, theirs))
    plain.breaks("unbiased", relative(one, unbiased))

    # V^xi is PSD for xi >= 0: minus its least eigenvalue over the largest in size.
    X, xi, p = X[:, :4], xi[:, :4], p[:, :4] / p[:, :4].sum(-1, keepdims=True)
    least = []
    for weight in (xi, xi - 0.5):
        values = np.linalg.eigvalsh(co.weighted_covariance(*ref.tensors(X, X, weight, p)).numpy())
        least.append(values[:, 0] / np.abs(values).max(-1))
    psd = t.part("positive semi-definite", 1e-12, controls=typical).add(-least[0])
    psd.breaks("weights of both signs", -least[1])
    plain.proves(**exact_worlds.plain_covariance())
    psd.proves(**exact_worlds.weighted_psd())


@check("ddn/rem3")
def rem3(t: Trial) -> None:
    """With constant weights the pairwise operator is the plain one (Sec. 4, after Theorem 4).

    Given   random matrices Kbar on ten points with random chances; x, x' independent.
    Claim   V_{x,x'}[Kbar(x) - Kbar(x')]/2 = V_x[Kbar(x)]: a loop over pairs against the library's
            variance; proved.
    Fails   without 1/2, and for pairs of two different samples only.
    """
    Kbar, p = _distribution(t.rng, t.draws)
    pairs = np.zeros((t.draws, 12, 12))  # V_{x,x'}[Kbar(x) - Kbar(x')]/2
    for i, j in product(range(10), repeat=2):
        gap = Kbar[:, i] - Kbar[:, j]
        pairs += (p[:, i] * p[:, j])[:, None, None] * (gap @ gap.swapaxes(-1, -2)) / 2
    plain = co.covariance(*ref.tensors(Kbar, Kbar, p))
    same = t.part("", 1e-12, controls=typical).add(relative(pairs, plain))
    same.breaks("no 1/2", relative(2 * pairs, plain))
    apart = pairs / (1 - (p**2).sum(-1))[:, None, None]
    same.breaks("two different samples", relative(apart, plain))
    same.proves(**exact_worlds.pairs_of_samples())


def _term(one: Array, plus: Array, minus: Array, u: Array) -> Array:
    """K_1 (K_+ - K_-)^T u."""
    return np.einsum("bik,bjk,bj->bi", one, plus - minus, u)


def _pair_terms(K: Array, q: Array, u: Array) -> tuple[Array, Array]:
    """(g(x, x'') by loops over views, the same with one view for all three), [draws, S, S, w],
    without the factor -xi."""
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
    """Exchanging the samples makes the gradient a weighted covariance (Eqs. 64-69).

    Given   random connections of four samples with three views, a symmetric weight xi; g(x, x') is
            the mean over views of -xi K_1 (K_+ - K_-)^T vec(W_l), x' the negative's sample.
    Claim   g(x, x') + g(x', x) = -xi (Kbar(x) - Kbar(x'))(Kbar(x) - Kbar(x'))^T vec(W_l), g by
            loops over views; the mean over pairs is -V^xi[Kbar(x) - Kbar(x')]/2 vec(W_l), V^xi by
            the library. Both proved.
    Fails   for a weight that depends on the order of the pair, for one view in all three places,
            without 1/2.
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

    each = t.part("Eq. 67", 1e-12, controls=typical)
    average = t.part("Eqs. 68, 69", 1e-12, controls=typical)
    for what, xi in (
        ("", 1 / (1 + np.exp(r + r.swapaxes(-1, -2)))),
        ("asymmetric weight", 1 / (1 + np.exp(r))),
    ):
        g, single = (-xi[..., None] * v for v in terms)

        # g(x, x') + g(x', x) = -xi (Kbar(x) - Kbar(x'))(Kbar(x) - Kbar(x'))^T vec(W_l).
        whole, one_view = (
            relative(v + v.swapaxes(1, 2), -xi[..., None] * square) for v in (g, single)
        )
        if what:
            each.breaks(what, whole)
        else:
            each.add(whole).breaks("one view for all three", one_view)

        # The mean over pairs is -V^xi[Kbar(x) - Kbar(x')]/2 vec(W_l).
        expected = (both[..., None] * g).sum((1, 2))
        op = co.pair_operator(*ref.tensors(mean, xi), world).numpy()
        ours = -np.einsum("bij,bj->bi", op, u)
        average.breaks("no 1/2", relative(2 * ours, expected))
        if what:
            average.breaks(what, relative(ours, expected))
        else:
            average.add(relative(ours, expected))
    for part, proof in zip((each, average), exact_worlds.symmetry(), strict=True):
        part.proves(**proof)
