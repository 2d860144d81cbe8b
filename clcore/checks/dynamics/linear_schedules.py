"""Many steps of the dual linear network: the closed forms of Theorem 2's proof (ncl App. C.1).

Schedules are random, trajectories exact; A_t = W^o_t M and B_t = W^t_t M.
"""

from functools import partial

import numpy as np
import sympy

from clcore import reference as ref
from clcore.checks.dynamics import linear_symbols as sym
from clcore.checks.dynamics.linear_step import dictionaries, fitted, moment
from clcore.ledger import Part, Trial, check, exact, typical, worst
from clcore.reference import Array, relative, tensors
from clcore.theory.sparse import linear_noncontrastive as ln


def schedules(
    rng: np.random.Generator, n: int, steps: int, low: float = 0.5
) -> tuple[Array, Array]:
    """Learning rates in (0.05, 0.3) and decays in (low, 0.99), [n, steps]."""
    return rng.uniform(0.05, 0.3, (n, steps)), rng.uniform(low, 0.99, (n, steps))


def run(
    rng: np.random.Generator,
    n: int,
    sizes: tuple[int, int, int],
    steps: int,
    low: float = 0.5,
    alternating: bool = False,
    binary: bool = False,
) -> tuple[Array, Array, Array, Array]:
    """A_t = W^o_t M, B_t = W^t_t M [steps + 1, n, m, d] of the exact dynamics with p, d, m;
    c_t and lambda_t [n, steps]. Moments by enumeration for d <= 6."""
    p, d, m = sizes
    M, p_z = dictionaries(rng, n, p, d), rng.uniform(0.05, 0.45, n)
    sigma, alpha = rng.uniform(0.1, 1.0, n), rng.uniform(0.3, 0.9, n)
    W = rng.standard_normal((2, n, m, p))
    eta, lam = schedules(rng, n, steps, low)
    xx = moment(M, p_z, sigma, binary)
    inputs = tensors(xx, alpha, eta, lam)
    path = ln.trajectory(ln.Pair(*tensors(*W)), *inputs, alternating=alternating)
    c = 2 * eta * (alpha**2 * (2 * p_z + sigma**2))[:, None]
    return path.online.numpy() @ M, path.target.numpy() @ M, c, lam


def prefix(factors: Array) -> Array:
    """[n, T] -> [T + 1, n, 1, 1]: products of the first t factors."""
    return column(np.cumprod(np.insert(factors, 0, 1, axis=-1), axis=-1))


def by_time(ours: Array, theirs: Array) -> Array:
    """[T, n]: largest error of ours relative to the largest entry of theirs, per t and run."""
    return np.abs(ours - theirs).max((-1, -2)) / np.abs(theirs).max((-1, -2))


def scalars(c: Array, lam: Array, sign: float = 1.0) -> tuple[Array, Array]:
    """C_1,t and C_2,t, [n, T + 1], read off the dynamics of 1 x 1 networks: from W^o = 1, W^t = 0
    the target is C_2,t and the difference C_1,t. With sign -1 they ascend."""
    one = np.ones((len(c), 1, 1))
    inputs = tensors(sign * one, c / 2, lam)  # E[x x^T] = 1, keep = 1: c = 2 eta
    path = ln.trajectory(ln.Pair(*tensors(one, 0 * one)), inputs[0], 1.0, *inputs[1:])
    online, target = (w.numpy()[:, :, 0, 0].T for w in path)
    return online - target, target


def column(values: Array) -> Array:
    """[n, T] -> [T, n, 1, 1], as factors of matrices."""
    return values.T[:, :, None, None]


@check("ncl/thm2-sum")
def thm2_sum(t: Trial) -> None:
    """Sum of online and target weights is multiplied by λ + c in every step (App. C.1).

    Given   random schedules of eta and lambda, 50 exact steps; c = 2 eta alpha^2 (2 p_z +
            sigma_0^2).
    Claim   (1) W^o M + W^t M is multiplied by lambda_t + c_t in every step, and so (2) is at every
            t the product of these factors times its start.
    Fails   (1), (2) for lambda - c, and for alternating updates.
    """
    n = min(t.draws, 100)
    A, B, c, lam = run(t.rng, n, (8, 5, 6), 50)
    A2, B2, c2, lam2 = run(t.rng, n, (8, 5, 6), 50, alternating=True)
    total, total2 = A + B, A2 + B2

    # (1) The sum one step later against the factor times the sum.
    part = t.part("recursion", 1e-12, controls=typical, draws=n)
    part.add(by_time(total[1:], column(lam + c) * total[:-1]))
    part.breaks("lambda - c", by_time(total[1:], column(lam - c) * total[:-1]))
    part.breaks("alternating", by_time(total2[1:], column(lam2 + c2) * total2[:-1]))
    first, second = sympy.symbols("A B", real=True)
    sums = partial(sym.sum_is_product, first, second)
    part.proves(sums(1), breaks={"alternating": sums(1, alternating=True)})

    # (2) The sum at every t against all factors before it times the start.
    part = t.part("product", 1e-11, controls=typical, draws=n)
    part.add(by_time(total, prefix(lam + c) * total[0]))
    part.breaks("lambda - c", by_time(total, prefix(lam - c) * total[0])[1:])
    part.breaks("alternating", by_time(total2, prefix(lam2 + c2) * total2[0])[1:])
    part.proves(sums(4), breaks={"alternating": sums(4, alternating=True)}, at="t = 4")


@check("ncl/thm2-sub")
def thm2_sub(t: Trial) -> None:
    """Recursion of the online weights alone (App. C.1).

    Given   random schedules of eta and lambda, 50 exact steps; A_t = W^o_t M, S_0 = W^o_0 M + W^t_0
            M, c = 2 eta alpha^2 (2 p_z + sigma_0^2).
    Claim   (1) A_{t+1} = (lambda_t - c_t) A_t + c_t prod_{i<t} (lambda_i + c_i) S_0. (2) The same
            with A_t replaced by this formula for it.
    Fails   (1) for the product up to t; (2) for the inner term without lambda_t - c_t.
    """
    n = min(t.draws, 100)
    A, B, c_, lam = run(t.rng, n, (8, 5, 6), 50)
    S0, plus, c, minus = A[0] + B[0], prefix(lam + c_), column(c_), column(lam - c_)

    # (1) From A_t to A_{t+1}, every t.
    part = t.part("one step", 1e-11, controls=typical, draws=n)
    part.add(by_time(minus * A[:-1] + c * plus[:-1] * S0, A[1:]))
    longer = minus * A[:-1] + c * plus[1:] * S0
    part.breaks("product up to t", by_time(longer, A[1:]))
    online, start = sym.online_path(3)
    k, decay = sym.steps(3)
    grown = [sympy.prod(x + y for x, y in zip(decay[:j], k, strict=False)) for j in range(4)]
    once = (decay[2] - k[2]) * online[2]
    part.proves(
        exact.equal(online[3], once + k[2] * grown[2] * start),
        breaks={"product up to t": exact.equal(online[3], once + k[2] * grown[3] * start)},
        at="t = 2",
    )

    # (2) From A_{t-1} to A_{t+1}: the inner term stems from step t - 1, the outer from t.
    inner, outer = c[:-1] * plus[:-2] * S0, c[1:] * plus[1:-1] * S0
    own = minus[1:] * minus[:-1] * A[:-2]
    part = t.part("two steps", 1e-11, controls=typical, draws=n)
    part.add(by_time(own + minus[1:] * inner + outer, A[2:]))
    part.breaks("without the outer factor", by_time(own + inner + outer, A[2:]))
    two = (decay[2] - k[2]) * (decay[1] - k[1]) * online[1] + k[2] * grown[2] * start
    first = k[1] * grown[1] * start
    part.proves(
        exact.equal(online[3], two + (decay[2] - k[2]) * first),
        breaks={"without the outer factor": exact.equal(online[3], two + first)},
        at="t = 2",
    )


def terms(c: Array, lam: Array, first: int) -> Array:
    """[n, T]: c_j prod_{i=j+first}^{T-1} (lambda_i - c_i) prod_{i<j} (lambda_i + c_i); `first` is
    0 as printed, 1 as the recursion gives it."""
    T = c.shape[-1]
    values = []
    for j in range(T):
        later = np.prod((lam - c)[..., j + first :], axis=-1)
        values.append(c[..., j] * later * np.prod((lam + c)[..., :j], axis=-1))
    return np.stack(values, -1)


@check("ncl/thm2-exp")
def thm2_exp(t: Trial) -> None:
    """Linear networks after t steps in closed form: the scalars C₁ and C₂ (App. C.1).

    Given   random schedules of eta and lambda, T = 1, 2, 7, 50 exact steps.
    Claim   (1) W^o_T M = C_1 W^o_0 M + C_2 (W^o_0 + W^t_0) M with C_1 = prod_{i<T} (lambda_i - c_i)
            and C_2 = sum_j c_j prod_{i<j} (lambda_i + c_i) prod_{i=j}^{T-1} (lambda_i - c_i). (3)
            W^o M - W^t M is C_1 times its start.
    Fails   (1) by c_0(lambda_0 - c_0) for c_0 at T = 1. Corrected: (2) the second product from j +
            1. Controls: (1), (2) a first product up to j; (2) the product from j; (3) C_1's square.
    """
    n = min(t.draws, 60)
    printed = t.part("expansion", 1e-11, controls=typical, draws=4 * n)
    right = t.corrected("expansion", 1e-11, controls=typical, draws=4 * n)
    single = t.part("C_1", 1e-10, controls=typical, draws=3 * n)
    for steps in (1, 2, 7, 50):
        A, B, c, lam = run(t.rng, n, (8, 5, 6), steps)
        S0, front = A[0] + B[0], np.prod(lam - c, axis=-1)[:, None, None]

        def error(shared: Array, A=A, S0=S0, front=front) -> Array:
            return relative(front * A[0] + shared.sum(-1)[:, None, None] * S0, A[-1])

        # (1) The index ranges by the letter.
        by_letter, corrected = error(terms(c, lam, 0)), terms(c, lam, 1)
        up_to = error(corrected * (lam + c))
        printed.add(by_letter).breaks("first product up to j", up_to)

        # (2) The range from j + 1; the library's C_2 against it, too.
        closed = ln.coefficients(*tensors(c, lam)).shared.numpy()[:, -1]
        right.add(error(corrected), relative(closed, corrected.sum(-1)))
        right.breaks("first product up to j", up_to).breaks("the product from j", by_letter)

        # (3) The difference of the two nets.
        if steps < 50:  # later the difference is below the rounding of its terms
            difference = A[-1] - B[-1]
            floor = 1e-3 * np.abs(A[-1]).max((1, 2))
            single.add(relative(front * (A[0] - B[0]), difference, floor))
            single.breaks("its square", relative(front**2 * (A[0] - B[0]), difference, floor))

    _prove_expansion(printed, right, single)


def _prove_expansion(printed: Part, right: Part, single: Part) -> None:
    """One step at c = 1/4, lambda = 1/2 from W^o = W^t = 1 against the printed range; four steps,
    any, against the corrected one."""
    numbers = [sympy.Rational(1, 4)], [sympy.Rational(1, 2)]

    def at_numbers(first: int) -> exact.Shown:
        value = (numbers[1][0] - numbers[0][0]) + 2 * sym.shared(*numbers, first)
        return exact.differ(value, sym.trajectory(1, 1, *numbers)[-1][0])

    printed.proves(at_numbers(0), breaks={"the product from j + 1": at_numbers(1)}, at="t = 1")
    c, lam = sym.steps(4)
    A, B = sympy.symbols("A B", real=True)
    end, front = sym.trajectory(A, B, c, lam)[-1], sympy.prod(map(sympy.Add, lam, [-x for x in c]))

    def expansion(first: int) -> exact.Shown:
        return exact.equal(front * A + sym.shared(c, lam, first) * (A + B), end[0])

    right.proves(expansion(1), breaks={"the product from j": expansion(0)}, at="t = 4")
    single.proves(
        exact.equal(front * (A - B), end[0] - end[1]),
        breaks={"its square": exact.equal(front**2 * (A - B), end[0] - end[1])},
        at="t = 4",
    )


@check("ncl/thm2-mono")
def thm2_mono(t: Trial) -> None:
    """Terms of the scalar C₂ increase with every weight-decay factor (App. C.1).

    Given   random schedules of six steps, 0 < c_i < lambda_i < 1; then with one lambda_i = c_i.
    Claim   (1) For lambda_i > c_i every printed term increases in every lambda_i: its slope over
            the term, which is 1/(lambda_i -+ c_i), is at least 1/4. (2) With one lambda_i = c_i no
            slope is negative. (3) C_2, whose product begins at j + 1, increases for t >= 2. Slopes
            by complex steps; all proved for t = 3, (3) for lambda_i > c_i.
    Fails   (1) and (2) for one lambda_i below its c_i; (1) for the product from j + 1, as term j
            then has no lambda_j, and (3) therefore for its terms one by one; (3) at t = 1, where
            C_2 = c_0.
    """
    n, T = min(t.draws, 60), 6
    c = t.rng.uniform(0.01, 0.3, (n, T))
    lam = c + (1 - c) * t.rng.uniform(0.01, 0.99, (n, T))

    def slopes(lam: Array, first: int = 0, relative: bool = True) -> Array:
        """[n, j, i]: the slope of term j in lambda_i; relative: over the term's size."""
        each = []
        for j in range(T):
            slope = ref.gradient(lambda v, j=j: terms(c, v, first)[..., j], lam)
            size = np.abs(terms(c, lam, first)[:, j, None]) if relative else 1.0
            each.append(slope / size)
        return np.stack(each, 1)

    # In a control only some slopes have the wrong sign: by=worst takes the worst of them.
    low, edge = lam.copy(), lam.copy()
    low[:, 2], edge[:, 2] = 0.5 * c[:, 2], c[:, 2]

    # (1) lambda_i > c_i for all i.
    part = t.part("lambda > c", 0.25, ">=", draws=n)
    part.add(slopes(lam))
    part.breaks("one lambda below c", slopes(low), by=worst)
    part.breaks("product from j + 1", slopes(lam, 1), by=worst)
    part.proves(
        sym.rising(exact.positive, 0),
        breaks={"product from j + 1": sym.rising(exact.positive, 1)},
        at="t = 3",
    )

    # (2) lambda_i = c_i for one i.
    part = t.part("lambda = c for one of them", 0.0, ">=", draws=n)
    part.add(slopes(edge, relative=False))
    part.breaks("one lambda below c", slopes(low, relative=False), by=worst)
    part.proves(
        sym.rising(exact.nonnegative, 0, 0),
        breaks={"lambda = c/2": sym.rising(exact.nonnegative, 0, sympy.Rational(-1, 2))},
        at="t = 3",
    )

    def shared(v: Array, steps: int) -> Array:
        return terms(c[:, :steps], v, 1).sum(-1)

    # (3) The sum of the corrected terms.
    part = t.part("C_2 for t >= 2", 1e-9, ">=", draws=n)
    for steps in range(2, T + 1):
        for lams in (lam, edge):
            part.add(ref.gradient(partial(shared, steps=steps), lams[:, :steps]))
    part.breaks("t = 1", ref.gradient(partial(shared, steps=1), lam[:, :1]))
    part.proves(
        sym.rising(exact.positive, 1, of=lambda each: [sum(each)]),
        breaks={"single terms": sym.rising(exact.positive, 1)},
        at="t = 3",
    )


@check("ncl/thm2-lam0")
def thm2_lam0(t: Trial) -> None:
    """A last weight-decay factor λ = c makes the scalar C₂ vanish (App. C.1).

    Given   schedules whose last decay is c_{T-1}, T = 1, 2, 7; C_1 and C_2 fitted to exact steps.
    Claim   C_2 = 0.
    Fails   at T = 1: C_2 = c_0. Corrected: C_1 = 0 and C_2 = c_{T-1} prod (lambda_i + c_i).
            Control: the last decay 2 c_{T-1}.
    """
    n = min(t.draws, 60)
    printed = t.part("the value", 1e-12, controls=typical, draws=3 * n)
    right = t.corrected("the value", 1e-9, controls=typical, draws=3 * n)
    for steps in (1, 2, 7):
        A, B, C1, C2, plus = last_decay(t.rng, n, steps, 1.0)
        # C_2, which is printed to be 0; its corrected value; C_1 = 0, so that A_T = B_T.
        printed.add(np.abs(C2))
        right.add(np.abs(C2 / plus - 1), np.abs(C1 / C2))
        right.add(np.abs(A - B).max((1, 2)) / np.abs(A).max((1, 2)))
        _, _, C1, C2, plus = last_decay(t.rng, n, steps, 2.0)
        printed.breaks("lambda = 2 c", np.abs(C2))
        if steps > 1:  # C_2 = c_0 at T = 1 has no lambda
            right.breaks("lambda = 2 c", np.abs(C2 / plus - 1))
        right.breaks("C_1 at lambda = 2 c", np.abs(C1 / C2))
    third = sympy.Rational(1, 3)
    _, value = sym.scalars([third], [third])
    printed.proves(
        exact.differ(value, 0), breaks={"its own value": exact.differ(value, third)}, at="t = 1"
    )
    c, lam = sym.steps(3)
    value = c[2] * (lam[0] + c[0]) * (lam[1] + c[1])

    def vanishes(times: int) -> exact.Shown:
        """Whether C_1 = 0 and C_2 has the corrected value, where the last decay is `times` c_2."""
        C1, C2 = (v.subs(lam[-1], times * c[-1]) for v in sym.scalars(c, lam))
        return exact.equal([C2, C1], [value, 0])

    right.proves(vanishes(1), breaks={"lambda = 2 c": vanishes(2)}, at="t = 3")


def last_decay(rng: np.random.Generator, n: int, steps: int, factor: float) -> tuple[Array, ...]:
    """A_T, B_T [n, m, d], their fitted C_1 and C_2 [n], and c_{T-1} prod_{i<T-1} (lambda + c); the
    last decay is `factor` times c_{T-1}."""
    p, d, m = 5, 3, 4
    M, W = dictionaries(rng, n, p, d), rng.standard_normal((2, n, m, p))
    p_z, sigma, alpha = np.full(n, 0.2), np.full(n, 0.5), np.full(n, 0.6)
    eta, lam = schedules(rng, n, steps)
    c = 2 * eta * (alpha**2 * (2 * p_z + sigma**2))[:, None]
    lam[:, -1] = factor * c[:, -1]
    inputs = tensors(moment(M, p_z, sigma), alpha, eta, lam)
    path = ln.trajectory(ln.Pair(*tensors(*W)), *inputs)
    A, B = path.online.numpy() @ M, path.target.numpy() @ M
    pairs, _ = fitted(A, B, steps)
    plus = c[:, -1] * np.prod((lam + c)[:, :-1], axis=-1)
    return A[-1], B[-1], pairs[:, 0], pairs[:, 1], plus


@check("ncl/thm2-laminf")
def thm2_laminf(t: Trial) -> None:
    """Weight-decay factors λ = 1 − c/2 let the scalar C₂ grow to infinity (App. C.1).

    Given   c_0 in [0.001, 0.65], lambda = 1 - c_0/2, t <= 1000 steps of 1 x 1 networks; in (4) also
            t <= 10^4 at c_0 = 0.01.
    Claim   (1) C_2 is at least c_0 (1 - 3c_0/2)(1 + c_0/2)^(t-1), (2) which is c_{t-1}
            (lambda_{t-1} - c_{t-1}) prod_{i<t-1} (lambda_i + c_i); (3) it grows like (1 +
            c_0/2)^t. (4) Under lambda = 1 - c_0, c_0 <= 1/2, it stays in [c_0, 1/2].
    Fails   (1) for twice the bound; (1), (3) for lambda = 1 - c_0; (2) for a factor 1 + c_0/2 more;
            (4) for lambda = 1 - c_0/2, where C_2 grows, and 1 - 3c_0/2, where it vanishes.
    """
    T, cs = 1000, np.array([0.001, 0.03, 0.1, 0.5, 0.65])
    c = np.repeat(cs[:, None], T, -1)
    steady, grown = scalars(c, 1 - c)[1][:, 1:], scalars(c, 1 - c / 2)[1][:, 1:]
    grows = (1 + cs[:, None] / 2) ** np.arange(T)
    bound = (cs * (1 - 1.5 * cs))[:, None] * grows

    # (1) The bound over C_2. A schedule as a whole breaks it: its worst step, hence by=worst.
    part = t.part("lower bound", 1.0, draws=grown.size)
    part.add(bound / grown)
    part.breaks("twice the bound", 2 * bound / grown, by=worst)
    part.breaks("lambda = 1 - c", bound / steady, by=worst)

    # (2) The product form over the last one.
    part = t.part("the bound as a product", 1e-11, controls=typical, draws=3 * len(cs))
    for steps in (10, 100, 1000):
        lam = 1 - c[:, :steps] / 2
        plus = np.prod((lam + c[:, :steps])[:, :-1], axis=-1)
        last = c[:, steps - 1] * (lam - c[:, :steps])[:, -1] * plus / bound[:, steps - 1]
        part.add(np.abs(last - 1))
        part.breaks("one factor more", np.abs(last * (1 + cs / 2) - 1))

    def slope(C2: Array) -> Array:
        """That of log C_2 in the last 100 steps over log(1 + c_0/2), minus 1; not at c_0 = 0.001,
        where a thousand steps are too few."""
        return np.abs(np.log(C2[:, -1] / C2[:, -101]) / 100 / np.log1p(cs / 2) - 1)[1:]

    part = t.part("to infinity", 1e-3, controls=typical, draws=len(cs) - 1)
    part.add(slope(grown)).breaks("lambda = 1 - c", slope(steady))

    gone = scalars(c, 1 - 1.5 * c)[1][:, 1:]
    long = ln.coefficients(*tensors(np.full((1, 10**4), 0.01), np.full((1, 10**4), 0.99))).shared
    late = long.numpy()[:, 1:]
    small = steady[cs <= 0.5], c[cs <= 0.5]
    part = t.part("existence", 1 + 1e-9, draws=small[0].size + late.size)
    part.add(2 * small[0], small[1] / small[0], 2 * late, 0.01 / late)
    part.breaks("lambda = 1 - c/2", 2 * grown, by=worst)
    part.breaks("lambda = 1 - 3c/2", c / gone, by=worst)
