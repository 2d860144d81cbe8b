"""Many steps of the dual linear network: the closed forms of Theorem 2's proof (ncl App. C.1).

Schedules are random, trajectories exact; A_t = W^o_t M and B_t = W^t_t M.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from clcore import reference as ref
from clcore.checks.dynamics.linear_step import dictionaries, moment
from clcore.ledger import Check, check
from clcore.reference import Array, best, relative, tensors, typical, worst
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
    """[n, T] -> [T + 1, n, 1, 1]: products of the first t factors, one at a time."""
    values = [np.ones(len(factors))]
    for column in factors.T:
        values.append(values[-1] * column)
    return np.stack(values)[:, :, None, None]


def by_time(ours: Array, theirs: Array) -> Array:
    """[T, n]: largest error of ours relative to the largest entry of theirs, per t and run."""
    return np.abs(ours - theirs).max((-1, -2)) / np.abs(theirs).max((-1, -2))


def fitted(A: Array, B: Array, steps: int) -> tuple[Array, Array]:
    """(C_1, C_2) [n, 2] by least squares from W^o_T M alone, and the relative residual [n] of that
    pair on both networks."""
    pairs, errors = [], []
    for k in range(A.shape[1]):
        total = A[0, k] + B[0, k]
        basis = np.stack([A[0, k].ravel(), total.ravel()], -1)
        pair = np.linalg.lstsq(basis, A[steps, k].ravel(), rcond=None)[0]
        gap = max(
            np.abs(pair[0] * start[0, k] + pair[1] * total - start[steps, k]).max()
            / np.abs(start[steps, k]).max()
            for start in (A, B)
        )
        pairs.append(pair)
        errors.append(gap)
    return np.array(pairs), np.array(errors)


def scalars(c: Array, lam: Array, sign: float = 1.0) -> tuple[Array, Array]:
    """C_1,t and C_2,t, [n, T + 1], read off the dynamics of 1 x 1 networks: from W^o = 1, W^t = 0
    the target is C_2,t and the difference C_1,t. With sign -1 they ascend."""
    one = np.ones((len(c), 1, 1))
    inputs = tensors(sign * one, c / 2, lam)  # E[x x^T] = 1, keep = 1: c = 2 eta
    path = ln.trajectory(ln.Pair(*tensors(one, 0 * one)), inputs[0], 1.0, *inputs[1:])
    online, target = (w.numpy()[:, :, 0, 0].T for w in path)
    return online - target, target


@check("ncl/thm2-sum")
def thm2_sum(draws: int, seed: int) -> Iterator[Check]:
    """W^o M + W^t M of 50 exact steps against the recursion and the product, at every t.
    Controls: lambda - c; alternating updates."""
    n = min(draws, 100)
    rng, check = ref.generator("ncl thm2-sum", seed), partial(Check, "ncl/thm2-sum", draws=n)
    A, B, c, lam = run(rng, n, (8, 5, 6), 50)
    S = A + B
    A2, B2, c2, lam2 = run(rng, n, (8, 5, 6), 50, alternating=True)
    factor = (lam + c).T[:, :, None, None]
    other = (lam2 + c2).T[:, :, None, None]
    yield check(
        worst(by_time(S[1:], factor * S[:-1])),
        1e-12,
        {
            "lambda - c": typical(by_time(S[1:], (lam - c).T[:, :, None, None] * S[:-1])),
            "alternating": typical(by_time((A2 + B2)[1:], other * (A2 + B2)[:-1])),
        },
        part="recursion",
    )
    yield check(
        worst(by_time(S, prefix(lam + c) * S[0])),
        1e-11,
        {
            "lambda - c": typical(by_time(S, prefix(lam - c) * S[0])[1:]),
            "alternating": typical(by_time(A2 + B2, prefix(lam2 + c2) * (A2 + B2)[0])[1:]),
        },
        part="product",
    )


@check("ncl/thm2-sub")
def thm2_sub(draws: int, seed: int) -> Iterator[Check]:
    """Both printed forms at every t of 50 exact steps. Controls: the product one factor longer;
    the inner term without lambda_t - c_t."""
    n = min(draws, 100)
    rng, check = ref.generator("ncl thm2-sub", seed), partial(Check, "ncl/thm2-sub", draws=n)
    A, B, c_, lam = run(rng, n, (8, 5, 6), 50)
    S0, plus = A[0] + B[0], prefix(lam + c_)
    c, minus = c_.T[:, :, None, None], (lam - c_).T[:, :, None, None]
    once = minus * A[:-1] + c * plus[:-1] * S0
    longer = minus * A[:-1] + c * plus[1:] * S0
    yield check(
        worst(by_time(once, A[1:])),
        1e-11,
        {"product up to t": typical(by_time(longer, A[1:]))},
        part="one step",
    )
    inner, outer = c[:-1] * plus[:-2] * S0, c[1:] * plus[1:-1] * S0
    twice = minus[1:] * minus[:-1] * A[:-2] + minus[1:] * inner + outer
    short = minus[1:] * minus[:-1] * A[:-2] + inner + outer
    yield check(
        worst(by_time(twice, A[2:])),
        1e-11,
        {"without the outer factor": typical(by_time(short, A[2:]))},
        part="two steps",
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
def thm2_exp(draws: int, seed: int) -> Iterator[Check]:
    """The full expansion with its index ranges by the letter against exact dynamics, T = 1..50.

    As printed the second product starts at j; from j + 1 it holds. Controls: that, and a first
    product up to j."""
    n = min(draws, 60)
    rng, check = ref.generator("ncl thm2-exp", seed), partial(Check, "ncl/thm2-exp")
    wrong, right, longer, own, doubled = [], [], [], [], []
    for steps in (1, 2, 7, 50):
        A, B, c, lam = run(rng, n, (8, 5, 6), steps)
        S0, front = A[0] + B[0], np.prod(lam - c, axis=-1)[:, None, None]

        def formula(shared: Array, A=A, S0=S0, front=front) -> Array:
            return front * A[0] + shared.sum(-1)[:, None, None] * S0

        wrong.append(relative(formula(terms(c, lam, 0)), A[-1]))
        right.append(relative(formula(terms(c, lam, 1)), A[-1]))
        up_to = terms(c, lam, 1) * (lam + c)
        longer.append(relative(formula(up_to), A[-1]))
        if steps < 50:  # later the difference is below the rounding of its terms
            difference = A[-1] - B[-1]
            floor = 1e-3 * np.abs(A[-1]).max((1, 2))
            own.append(relative(front * (A[0] - B[0]), difference, floor))
            doubled.append(relative(front**2 * (A[0] - B[0]), difference, floor))
        closed = ln.coefficients(*tensors(c, lam)).shared.numpy()[:, -1]
        right.append(relative(closed, terms(c, lam, 1).sum(-1)))
    tag = {"part": "expansion", "draws": 4 * n}
    yield check(
        worst(*wrong),
        1e-11,
        {"first product up to j": typical(*longer)},
        counterexample=r"$t=1$: the step gives $W_1^oM=\lambda_0W_0^oM+c_0W_0^tM"
        r"=(\lambda_0-c_0)W_0^oM+c_0(W_0^oM+W_0^tM)$; the printed sum has "
        r"$c_0(\lambda_0-c_0)$ for $c_0$.",
        note=r"An index slip: the two-step form just above it is right. $C_{2,t}$ is also printed "
        r"with the matrix $W_0^oM+W_0^tM$ attached, and called a real number.",
        **tag,
    )
    yield check(
        worst(*right),
        1e-11,
        {
            "first product up to j": typical(*longer),
            "the product from j": typical(*wrong),
        },
        form="corrected",
        correction=r"$C_{2,t}=\sum_{j=0}^{t-1}c_j\prod_{i=j+1}^{t-1}(\lambda_i-c_i)"
        r"\prod_{i=0}^{j-1}(\lambda_i+c_i)=\frac12\big[\prod_{i=0}^{t-1}(\lambda_i+c_i)"
        r"-\prod_{i=0}^{t-1}(\lambda_i-c_i)\big]$.",
        **tag,
    )
    yield check(
        worst(*own),
        1e-10,
        {"its square": typical(*doubled)},
        part="C_1",
        draws=3 * n,
        note=r"On $W^o_tM-W^t_tM=C_{1,t}(W^o_0M-W^t_0M)$.",
    )


@check("ncl/thm2-mono")
def thm2_mono(draws: int, seed: int) -> Iterator[Check]:
    """Complex-step derivatives of every printed term by every lambda_i, in units of the term, for
    lambda_i > c_i; at the edge where some lambda_i = c_i as they are, and there not negative; of
    C_2. Controls: a lambda below its c; the terms with the product from j + 1; C_2 at t = 1."""
    n, T = min(draws, 60), 6
    rng, check = ref.generator("ncl thm2-mono", seed), partial(Check, "ncl/thm2-mono", draws=n)
    c = rng.uniform(0.01, 0.3, (n, T))
    lam = c + (1 - c) * rng.uniform(0.01, 0.99, (n, T))

    def slopes(lam: Array, first: int = 0, relative: bool = True) -> Array:
        """[n, j, i]: the derivative of term j by lambda_i, over the term's size."""
        each = []
        for j in range(T):
            slope = ref.gradient(lambda v, j=j: terms(c, v, first)[..., j], lam)
            size = np.abs(terms(c, lam, first)[:, j, None]) if relative else 1.0
            each.append(slope / size)
        return np.stack(each, 1)

    low, edge = lam.copy(), lam.copy()
    low[:, 2], edge[:, 2] = 0.5 * c[:, 2], c[:, 2]
    yield check(
        best(slopes(lam)),
        0.25,
        {"one lambda below c": best(slopes(low)), "product from j + 1": best(slopes(lam, 1))},
        part="lambda > c",
        relation=">=",
        note=r"The derivative is the term over $\lambda_i\mp c_i$. Of the printed terms: with the "
        r"product from $j+1$, as it must be (ncl/thm2-exp), term $j$ does not contain $\lambda_j$ "
        "and is non-decreasing.",
    )
    yield check(
        best(slopes(edge, relative=False)),
        0.0,
        {"one lambda below c": best(slopes(low, relative=False))},
        part="lambda = c for one of them",
        relation=">=",
        note=r"Least derivative of a term by a decay at the edge that $c_i\le\lambda_i$ includes: "
        r"there terms vanish whatever the other decays are (the one of $j=0$ at $t=2$, "
        r"$\lambda_1=c_1$), and 'increasing' is 'non-decreasing'.",
    )

    def shared(v: Array, t: int) -> Array:
        return terms(c[:, :t], v, 1).sum(-1)

    total = [
        ref.gradient(partial(shared, t=t), lams[:, :t])
        for t in range(2, T + 1)
        for lams in (lam, edge)
    ]
    yield check(
        best(*total),
        1e-9,
        {"t = 1": best(ref.gradient(partial(shared, t=1), lam[:, :1]))},
        part="C_2 for t >= 2",
        relation=">=",
        note=r"$C_{2,t}$ itself, as corrected in the expansion, increases in every $\lambda_i\ge "
        r"c_i$ for $t\ge2$, so that the conclusion stands; $C_{2,1}=c_0$ has no $\lambda$.",
    )


@check("ncl/thm2-lam0")
def thm2_lam0(draws: int, seed: int) -> Iterator[Check]:
    """C_2,T fitted to the exact dynamics when the last decay is c_{T-1}, T = 1, 2, 7.

    It is not zero, C_1 is. Control: the last decay 2 c_{T-1}."""
    n = min(draws, 60)
    rng, check = ref.generator("ncl thm2-lam0", seed), partial(Check, "ncl/thm2-lam0")
    sizes, errors, owns, others, free, twice = [], [], [], [], [], []
    for steps in (1, 2, 7):
        A, B, C1, C2, plus = last_decay(rng, n, steps, 1.0)
        sizes.append(np.abs(C2))
        errors.append(np.abs(C2 / plus - 1))
        owns.append(np.abs(C1 / C2))
        owns.append(np.abs(A - B).max((1, 2)) / np.abs(A).max((1, 2)))
        _, _, C1, C2, plus = last_decay(rng, n, steps, 2.0)
        if steps > 1:
            others.append(np.abs(C2 / plus - 1))
        twice.append(np.abs(C2))
        free.append(np.abs(C1 / C2))
    tag = {"part": "the value", "draws": 3 * n}
    yield check(
        worst(*sizes),
        1e-12,
        {"lambda = 2 c": typical(*twice)},
        counterexample=r"$t=1$, $\lambda_0=c_0$: $W_1^o=c_0(W_0^o+W_0^t)$ on $M$, so "
        r"$C_{1,1}=0$ and $C_{2,1}=c_0$.",
        note="No second slip: the sum as printed in the expansion does vanish, as it has the "
        r"factor $\lambda_{t-1}-c_{t-1}$ in every term, but it is not the networks' $C_{2,t}$. "
        r"What vanishes is $C_{1,t}$: both networks become the same on $M$.",
        **tag,
    )
    yield check(
        worst(*errors, *owns),
        1e-9,
        {"lambda = 2 c": typical(*others), "C_1 at lambda = 2 c": typical(*free)},
        form="corrected",
        correction=r"With $\lambda_{t-1}=c_{t-1}$: $C_{1,t}=0$ and "
        r"$C_{2,t}=c_{t-1}\prod_{i=0}^{t-2}(\lambda_i+c_i)>0$. It goes to 0 with $c_{t-1}$, which "
        "is enough for what the proof concludes.",
        **tag,
    )


def last_decay(rng: np.random.Generator, n: int, steps: int, factor: float) -> tuple[Array, ...]:
    """A_T, B_T [n, m, d], their fitted C_1 and C_2 [n], and c_{T-1} prod_{i<T-1} (lambda + c)."""
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
def thm2_laminf(draws: int, seed: int) -> Iterator[Check]:
    """lambda = 1 - c/2: C_2 from the exact dynamics of 1 x 1 networks against the printed lower
    bound at every t, its three forms, its growth; a schedule that keeps C_2 between bounds.

    Controls: the bound with c_0 twice; lambda = 1 - c, which does not grow; 1 - c/2, which does;
    1 - 3c/2, under which C_2 vanishes."""
    check = partial(Check, "ncl/thm2-laminf")
    T, cs = 1000, np.array([0.001, 0.03, 0.1, 0.5])
    c = np.repeat(cs[:, None], T, -1)
    steady, grown = scalars(c, 1 - c)[1][:, 1:], scalars(c, 1 - c / 2)[1][:, 1:]
    t = np.arange(1, T + 1)
    bound = (cs * (1 - 1.5 * cs))[:, None] * (1 + cs[:, None] / 2) ** (t - 1)
    double = (2 * cs * (1 - 1.5 * cs))[:, None] * (1 + cs[:, None] / 2) ** (t - 1)
    yield check(
        worst(bound / grown),
        1.0,
        {"twice the bound": worst(double / grown), "lambda = 1 - c": worst(bound / steady)},
        part="lower bound",
        draws=grown.size,
        note=r"$c_0\le\frac12$, as a small $\eta_t$ gives. Fails where $c_0>2/3$, which the "
        r"range $(0,1)$ of $c_t$ alone would allow: there $1-1.5c_0<0$, and the bound says "
        r"nothing. The true last term is larger, without the factor $1-1.5c_0$: the index "
        "slip does not hurt the bound.",
    )
    forms = []
    for steps in (10, 100, 1000):
        lam = 1 - c[:, :steps] / 2
        plus = np.prod((lam + c[:, :steps])[:, :-1], axis=-1)
        forms.append(c[:, steps - 1] * (lam - c[:, :steps])[:, -1] * plus / bound[:, steps - 1])
    yield check(
        worst(*(np.abs(f - 1) for f in forms)),
        1e-11,
        {"one factor more": typical(*(np.abs(f * (1 + cs / 2) - 1) for f in forms))},
        part="three forms",
        draws=12,
    )
    slope = np.log(grown[:, -1] / grown[:, -101]) / 100 / np.log1p(cs / 2)
    flat = np.log(steady[:, -1] / steady[:, -101]) / 100 / np.log1p(cs / 2)
    yield check(
        worst(np.abs(slope[1:] - 1)),
        1e-3,
        {"lambda = 1 - c": typical(np.abs(flat[1:] - 1))},
        part="to infinity",
        draws=3,
        note=r"Slope of $\log C_{2,t}$ over $\log(1+c_0/2)$; $W_t$ explodes with it.",
    )
    gone = scalars(c, 1 - 1.5 * c)[1][:, 1:]
    long = ln.coefficients(*tensors(np.full((1, 10**4), 0.01), np.full((1, 10**4), 0.99))).shared
    late = long.numpy()[:, 1:]
    yield check(
        worst(2 * steady, c / steady, 2 * late, 0.01 / late),
        1 + 1e-9,
        {"lambda = 1 - c/2": worst(2 * grown), "lambda = 1 - 3c/2": worst(c / gone)},
        part="existence",
        draws=steady.size + late.size,
        note=r"Shown by a schedule that the proof does not have: $c_t=c_0\le\frac12$, "
        r"$\lambda_t=1-c_0$. Then $C_{2,t}=\frac12(1-(1-2c_0)^t)$ stays in $[c_0,\frac12]$. The "
        r"proof goes from a $C_{2,t}=0$ that is wrong to one that goes to infinity. Measured: the "
        r"larger of $2C_{2,t}$ and $c_0/C_{2,t}$.",
    )
