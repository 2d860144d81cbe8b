"""Theorem 2 of ncl and the ranges of its scalars: what it needs of the data and of the schedule.

Schedules are random, trajectories exact, as in `dynamics.linear_schedules`.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from clcore import reference as ref
from clcore.checks.dynamics.linear_schedules import fitted, run, scalars
from clcore.checks.dynamics.linear_step import dictionaries, moment
from clcore.ledger import Check, check
from clcore.reference import Array, best, tensors, typical, worst
from clcore.theory.sparse import linear_noncontrastive as ln


@check("ncl/thm2")
def thm2(draws: int, seed: int) -> Iterator[Check]:
    """Two scalars for both networks, with the signed latents of Sec. 4.2 and of the proof.
    C_1 in (0, 1): not from a small rate alone, from one small against lambda. C_2 > 0."""
    n = min(draws, 100)
    rng = ref.generator("ncl thm2", seed)
    yield from _two_scalars(rng, n)
    yield from _own_scalar(rng, n)
    c, lam = rng.uniform(1e-3, 0.9, (n, 4)), rng.uniform(0.05, 0.999, (n, 4))
    yield Check(
        "ncl/thm2",
        best(scalars(c, lam)[1][:, 1:]),
        1e-9,
        {"ascent": best(scalars(c, lam, -1.0)[1][:, 1:])},
        part="C_2 > 0",
        relation=">=",
        draws=n,
        note=r"$C_{2,t}>0$ needs no more than $c_t,\lambda_t>0$.",
    )


def _two_scalars(rng: np.random.Generator, n: int) -> Iterator[Check]:
    """C_1 and C_2 fitted to the exact dynamics' online network alone; the target must have the
    same, signed latents. Controls: latents 0 and 1; alternating updates; both."""
    signed, binary, by_turns, both, total = [], [], [], [], 0
    for sizes in ((8, 5, 6), (20, 4, 10), (5, 5, 3)):
        for steps in (1, 5, 50):
            for low in (0.5, 0.001):
                if low < 0.5 and steps > 5:
                    continue  # the weights would vanish
                count = ref.share(n, 5)
                A, B, _, _ = run(rng, count, sizes, steps, low)
                signed.append(fitted(A, B, steps)[1])
                total += count
            A, B, _, _ = run(rng, count, sizes, steps, binary=True)
            binary.append(fitted(A, B, steps)[1])
            for zeros, place in ((False, by_turns), (True, both)):
                A, B, _, _ = run(rng, count, sizes, steps, alternating=True, binary=zeros)
                place.append(fitted(A, B, steps)[1])
    yield Check(
        "ncl/thm2",
        worst(*signed),
        1e-11,
        {
            "latents 0 and 1": typical(*binary),
            "alternating updates": typical(*by_turns),
            "both": typical(*both),
        },
        part="two scalars",
        draws=total,
        note=r"Needs the signed latents of Sec. 4.2, which the proof takes. Fails where $z$ is in "
        r"$\{0,1\}^d$ (Sec. 4.1): $E[zz^\top]$, there $\beta(1-\beta)I+\beta^2\mathbf 1\mathbf "
        r"1^\top$, must be a multiple of $I$ for all starts to have two such scalars: $d=2$, "
        r"$M=I$, $\sigma_0=0$, $\alpha=\frac12$, $\beta=0.2$, $\eta_0=0.1$, $W_0^o=(0,0)$, "
        r"$W_0^t=(1,0)$ gives $W_1^o=(0.01,\,0.002)$.",
    )


def found(
    rng: np.random.Generator,
    lam: Array,
    share: Array | None = None,
    rate: float = 0.0,
) -> tuple[Array, Array]:
    """(C_1,t, C_2,t), [n, T], of exact steps of random networks on random data: what the
    difference and the sum of the two networks on M are multiplied by. eta_t is `share` of what
    makes c_t = lambda_t, or `rate`; lam, share: [n, T]."""
    n = len(lam)
    M, W = dictionaries(rng, n, 5, 3), rng.standard_normal((2, n, 4, 5))
    p_z, sigma, alpha = rng.uniform((0.05, 0.1, 0.3), (0.45, 1.0, 0.9), (n, 3)).T
    size = (2 * alpha**2 * (2 * p_z + sigma**2))[:, None]
    eta = np.full(lam.shape, rate) if share is None else share * lam / size
    path = ln.trajectory(ln.Pair(*tensors(*W)), *tensors(moment(M, p_z, sigma), alpha, eta, lam))

    def factor(weights: Array) -> Array:
        on = weights @ M
        return ((on[1:] * on[0]).sum((-1, -2)) / (on[0] ** 2).sum((-1, -2))).T

    own = factor((path.online - path.target).numpy())
    return own, (factor((path.online + path.target).numpy()) - own) / 2


def _own_scalar(rng: np.random.Generator, n: int) -> Iterator[Check]:
    """C_1 of exact steps: decays anywhere in (0, 1), at eta = 0.01 and at rates below the limit.
    Controls: one lambda below c; rates over the limit."""
    n = max(n, 60)
    lam = rng.uniform(0.05, 0.999, (n, 4))
    # Seven decays near 1 and one of 1e-3, at c = 2 * 0.01 * 0.25 * (0.5 + 0.25).
    c, decays = np.full((1, 8), 0.00375), np.array([[0.99] * 3 + [1e-3] + [0.99] * 4])
    example = scalars(c, decays)[0][:, 1:]
    small = found(rng, rng.uniform(0, 1, (n, 4)), rate=0.01)[0]
    below = found(rng, lam, rng.uniform(0.01, 0.9, (n, 4)))[0]
    over = found(rng, lam, np.where(np.arange(4) == 2, 1.2, rng.uniform(0.01, 0.9, (n, 4))))[0]

    def inside(own: Array) -> float:
        return best(np.minimum(own, 1 - own))

    as_printed = min(inside(small), inside(example))
    control = {"one rate 1.2 times the limit": inside(over)}
    tag = {"claim": "ncl/thm2", "bound": 1e-10, "part": "C_1 in (0, 1)", "draws": n}
    yield Check(
        measured=as_printed,
        control=control,
        relation=">=",
        counterexample=r"$\eta=0.01$, $\alpha=\frac12$, $p_z=\frac14$, $\sigma_0=\frac12$, so that "
        r"$c=0.00375$; seven $\lambda_i=0.99$ and one $10^{-3}$: $C_{1,8}=-0.0025$, with "
        r"$C_{2,8}=0.0035$.",
        note=r"$\eta_t=0.01$ and $\lambda_t$ uniform in (0, 1), four steps: in "
        f"{100 * (small.min(1) < 0).mean():.2g} % of the draws some $C_{{1,t}}<0$. No bound on "
        r"$\eta_t$ alone helps: $C_{1,t}=\prod(\lambda_i-c_i)$.",
        **tag,
    )
    yield Check(
        measured=inside(below),
        control=control | {"eta = 0.01 whatever lambda": as_printed},
        relation=">=",
        form="corrected",
        correction=r"$0<\eta_t<\lambda_t/[2\alpha^2(2p_z+\sigma_0^2)]$, that is $c_t<\lambda_t$: "
        r"small against $\lambda_t$, not only against 1.",
        **tag,
    )


@check("ncl/thm2-c1")
def thm2_c1(draws: int, seed: int) -> Iterator[Check]:
    """The ranges of c_t on a grid and, against lambda_t, in one exact step; those of C_1 in the
    dynamics of 1 x 1 networks.

    Controls: eta = 1; a rate over the limit, or small but not against lambda; decays of 2; one
    lambda below c, and one equal to it."""
    n = min(draws, 100)
    rng, check = ref.generator("ncl thm2-c1", seed), partial(Check, "ncl/thm2-c1")
    grid = np.meshgrid(
        [1e-4, 1e-3, 0.01], [0.01, 0.5, 0.999], [1e-3, 0.25, 0.499], [0, 0.5, 2.0], indexing="ij"
    )
    eta, alpha, p_z, sigma = (g.ravel() for g in grid)

    def c_of(rate: Array) -> Array:
        return ln.coupling(*tensors(rate[:, None], alpha, 2 * p_z, sigma)).numpy()[:, 0]

    c = c_of(eta)
    large = c_of(0 * eta + 1).max()
    yield check(
        worst(-c, c - 1),
        -1e-14,
        {"eta = 1": float(large - 1)},
        part="c in (0, 1)",
        draws=c.size,
        note=r"$\eta\le0.01$, $\sigma_0\le2$.",
    )
    share = rng.uniform(0.01, 0.99, n)
    small = of_limit(rng, 0 * share, rate=0.01)
    over = {"1.2 times the limit": best(of_limit(rng, 0 * share + 1.2)) - 1}
    yield check(
        worst(small) - 1,
        0.0,
        over,
        part="c <= lambda",
        draws=n,
        note="The proof takes this from a rate far below 1 alone.",
        counterexample=r"$\eta=0.01$, $\lambda=10^{-4}$: $c/\lambda$ is at least "
        f"{best(small):.1f} and up to {worst(small):.0f} in {n} draws of $\\alpha\\in(0.3,0.9)$, "
        r"$p_z\in(0.05,0.45)$, $\sigma_0\in(0.1,1)$",
    )
    yield check(
        worst(of_limit(rng, share)) - 1,
        0.0,
        over | {"eta = 0.01 at lambda = 1e-4": best(small) - 1},
        part="c <= lambda",
        draws=n,
        form="corrected",
        correction=r"$\eta_t\le\lambda_t/[2\alpha^2(2p_z+\sigma_0^2)]$: small against $\lambda_t$",
    )
    c, lam = rng.uniform(1e-3, 0.999, (2, n, 7))
    mixed = scalars(c, lam)[0][:, 1:]
    yield check(
        worst(np.abs(mixed)) - 1,
        -1e-6,
        {"decays of 2": best(np.cumprod(2 - c, -1)) - 1},
        part="C_1 in (-1, 1)",
        draws=n,
    )
    lam, share = rng.uniform(0.2, 0.999, (n, 7)), rng.uniform(0, 0.8, (n, 7))
    strict = scalars(share * lam, lam)[0][:, 1:]
    share[:, 3] = 1.0
    equal = scalars(share * lam, lam)[0][:, 1:]
    share[:, 3] = 1.2
    beyond = scalars(share * lam, lam)[0][:, 4:]
    yield check(
        best(np.minimum(strict, 1 - strict)),
        1e-12,
        {"one lambda below c": best(beyond), "one lambda equal to c": best(equal)},
        part="C_1 in (0, 1)",
        relation=">=",
        draws=n,
        note=r"For $c_t<\lambda_t$, as a small enough $\eta_t$ gives. The proof writes "
        r"$c_t\le\lambda_t$, from which it takes only $(-1,1)$: at equality $C_{1,t}=0$.",
    )


def of_limit(rng: np.random.Generator, share: Array, rate: float = 0.0) -> Array:
    """c / lambda, [n], read off one exact step: the networks' difference on M shrinks by
    lambda - c. eta is `share` of what makes c = lambda, or `rate`, with lambda = 1e-4."""
    n = len(share)
    lam = np.full((n, 1), 1e-4) if rate else np.exp(rng.uniform(np.log(1e-4), 0, (n, 1)))
    own = found(rng, lam, None if rate else share[:, None], rate)[0]
    return ((lam - own) / lam)[:, 0]
