"""Theorem 2 of ncl and the ranges of its scalars: what it needs of the data and of the schedule.

Schedules are random, trajectories exact, as in `dynamics.linear_schedules`.
"""

from typing import Any

import numpy as np

from clcore.checks.dynamics import linear_ranges as ranges
from clcore.checks.dynamics.linear_schedules import run, scalars
from clcore.checks.dynamics.linear_step import dictionaries, fitted, moment
from clcore.ledger import Trial, check, typical, worst
from clcore.reference import Array, tensors
from clcore.theory.sparse import linear_noncontrastive as ln


def found(
    rng: np.random.Generator,
    lam: Array,
    share: Array | None = None,
    rate: float = 0.0,
) -> tuple[Array, Array]:
    """(C_1,t, C_2,t), [n, T], of exact steps of random networks on random data: on M the difference
    of the two networks is multiplied by C_1, their sum by C_1 + 2 C_2. eta_t is `share` of what
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


def inside(own: Array) -> Array:
    """How far `own` is inside (0, 1), from the nearer end; negative outside."""
    return np.minimum(own, 1 - own)


@check("ncl/thm2")
def thm2(t: Trial) -> None:
    """Linear non-contrastive training mixes the initial weights with two scalars (Theorem 2).

    Given   exact steps of random networks, signed latents; for (2) c_t < lambda_t; for (3) 1 x 1
            networks.
    Claim   (1) Both networks are C_1 times their start plus C_2 times the sum of starts, on M; (2)
            C_1 is in (0, 1); (3) C_2 > 0.
    Fails   (1) for latents 0 and 1, and alternating updates; (2) for a rate over the limit, at
            which c = lambda, and eta = 0.01 whatever lambda; (3) for ascent.
    """
    n = min(t.draws, 100)
    _two_scalars(t, n)
    _own_scalar(t, max(n, 60))
    c, lam = t.rng.uniform(1e-3, 0.9, (n, 4)), t.rng.uniform(0.05, 0.999, (n, 4))
    part = t.part("C_2 > 0", 1e-9, ">=", draws=n)
    part.add(scalars(c, lam)[1][:, 1:])
    part.breaks("ascent", scalars(c, lam, -1.0)[1][:, 1:], by=worst)
    part.proves(ranges.shared_above(), breaks={"ascent": ranges.shared_above(-1)})


def _two_scalars(t: Trial, n: int) -> None:
    """C_1 and C_2 fitted to the exact dynamics' online network alone; the target must have the
    same."""
    part, count = t.part("two scalars", 1e-11, controls=typical), -(-n // 5)

    def residual(size: tuple[int, int, int], steps: int, **other: Any) -> Array:
        A, B, _, _ = run(t.rng, count, size, steps, **other)
        return fitted(A, B, steps)[1]

    for size in ((8, 5, 6), (20, 4, 10), (5, 5, 3)):
        for steps in (1, 5, 50):
            for low in (0.5, 0.001):
                if low == 0.5 or steps <= 5:  # else the weights would vanish
                    part.add(residual(size, steps, low=low))
            part.breaks("latents 0 and 1", residual(size, steps, binary=True))
            part.breaks("alternating updates", residual(size, steps, alternating=True))
    part.proves(
        ranges.two_scalars(),
        breaks={"latents 0 and 1": ranges.two_scalars(binary=True)},
        at="m = 1, M = I, d = 2",
    )


def _own_scalar(t: Trial, n: int) -> None:
    """C_1 of exact steps at rates below the limit; of the controls one is a run that neither
    explodes nor vanishes."""
    lam = t.rng.uniform(0.05, 0.999, (n, 4))
    small = found(t.rng, t.rng.uniform(0, 1, (max(n, 400), 4)), rate=0.01)[0]  # one in forty fails
    below = found(t.rng, lam, t.rng.uniform(0.01, 0.9, (n, 4)))[0]
    share = np.where(np.arange(4) == 2, 1.2, t.rng.uniform(0.01, 0.9, (n, 4)))
    over = inside(found(t.rng, lam, share)[0])
    # A decay of 1e-3, then many near 1, at c = 2 * 0.01 * 0.25 * (0.5 + 0.25).
    c, later = 0.00375, 1469
    decays = np.array([[1e-3] + [0.9999] * later])
    own, shared = (x[:, 1:] for x in scalars(np.full(decays.shape, c), decays))

    # One draw, and one step of it, refutes a control, hence by=worst.
    part = t.part("C_1 in (0, 1)", 1e-10, ">=", draws=n)
    part.add(inside(below))
    part.breaks("one rate 1.2 times the limit", over, by=worst)
    part.breaks("eta = 0.01 whatever lambda", inside(small), inside(own), by=worst)
    part.says(share=100 * (small.min(1) < 0).mean(), own=own[0, -1], shared=shared[0, -1])
    part.says(later=later, total=own[0, -1] + 2 * shared[0, -1])
    minus, plus = ((1e-3 + s * c) * (0.9999 + s * c) ** later for s in (-1, 1))
    part.confirms(own=minus, within=1e-12).confirms(shared=(plus - minus) / 2, total=plus)
    part.proves(
        ranges.unit_interval(ranges.held_step()),
        breaks={"lambda below c": ranges.unit_interval(ranges.held_step(over=True))},
    )


@check("ncl/thm2-c1")
def thm2_c1(t: Trial) -> None:
    """Ranges of the step coefficient c and of the scalar C₁ (App. C.1).

    Given   alpha in (0, 1), p_z in (0, 0.5), sigma_0 up to 10; learning rates small against noise
            and lambda; for (3), (4) 1 x 1 networks.
    Claim   (1) c = 2 eta alpha^2 (2 p_z + sigma_0^2) is in (0, 1), on a grid. (2) c <= lambda. (3)
            C_1 is in (-1, 1) for lambda in (0, 1), c in (0, 1), and (4) in (0, 1) for c < lambda.
    Fails   (1) for eta = 1 or 0.01 whatever sigma_0; (2) for 1.2 times the limit of the rate, or
            eta = 0.01 whatever lambda; (3) for lambda = 2; (4) for one lambda equal to its c, or
            below.
    """
    n = min(t.draws, 100)
    grid = np.meshgrid(
        [1e-4, 0.01, 0.999], [0.01, 0.5, 0.999], [1e-3, 0.25, 0.499], [0, 0.5, 2, 10], indexing="ij"
    )
    small, alpha, p_z, sigma = (g.ravel() for g in grid)

    def c_of(rate: Array) -> Array:
        return ln.coupling(*tensors(rate[:, None], alpha, 2 * p_z, sigma)).numpy()[:, 0]

    # (1) eta below 1/(2 (1 + sigma_0^2)).
    c = c_of(small / (2 * (1 + sigma**2)))
    part = t.part("c in (0, 1)", -1e-14, draws=c.size)
    part.add(-c, c - 1).breaks("eta = 1", c_of(0 * sigma + 1) - 1, by=worst)
    part.breaks("eta = 0.01 whatever sigma_0", c_of(0 * sigma + 0.01) - 1, by=worst)
    loud = ln.coupling(*tensors(np.array([[0.01]]), *(np.array([x]) for x in (0.9, 0.9, 10.0))))
    part.says(loud=loud.item()).confirms(loud=2 * 0.01 * 0.9**2 * (2 * 0.45 + 10**2))
    part.proves(ranges.rate_in_unit(), breaks={"eta up to 1": ranges.rate_in_unit(small=False)})

    # (2) c/lambda, for a share of the rate that makes c = lambda.
    share = t.rng.uniform(0.01, 0.99, n)
    small, over = (of_limit(t.rng, 0 * share + k, rate=r) for k, r in ((0, 0.01), (1.2, 0.0)))
    part = t.part("c <= lambda", 0.0)
    part.add(of_limit(t.rng, share) - 1).breaks("1.2 times the limit", over - 1)
    part.breaks("eta = 0.01 at lambda = 1e-4", small - 1)
    part.says(least=small.min(), most=small.max(), draws=n)
    part.proves(
        ranges.decay_over_rate(),
        breaks={"over the limit": ranges.decay_over_rate(over=True)},
        at="m = p = d = 1",
    )

    # (3) C_1 after 1..7 steps, any c and lambda.
    c, lam = t.rng.uniform(1e-3, 0.999, (2, n, 7))
    part = t.part("C_1 in (-1, 1)", -1e-6, draws=n)
    part.add(np.abs(scalars(c, lam)[0][:, 1:]) - 1)
    part.breaks("decays of 2", np.cumprod(2 - c, -1) - 1)
    part.proves(
        ranges.both_ends(ranges.free_step()),
        breaks={"decays up to 2": ranges.both_ends(ranges.free_step(2))},
    )

    # (4) C_1 after 1..7 steps, c below lambda.
    lam, share = t.rng.uniform(0.2, 0.999, (n, 7)), t.rng.uniform(0, 0.8, (n, 7))

    def own(fourth: float | None = None) -> Array:
        """C_1,t, t = 1..7, where c = share * lambda; of the fourth step this share."""
        if fourth is not None:
            share[:, 3] = fourth
        return scalars(share * lam, lam)[0][:, 1:]

    part = t.part("C_1 in (0, 1)", 1e-12, ">=", draws=n)
    part.add(inside(own()))
    part.breaks("one lambda equal to c", own(1.0), by=worst)
    part.breaks("one lambda below c", own(1.2)[:, 3:], by=worst)
    part.proves(
        ranges.unit_interval(ranges.held_step()),
        breaks={"lambda below c": ranges.unit_interval(ranges.held_step(over=True))},
    )


def of_limit(rng: np.random.Generator, share: Array, rate: float = 0.0) -> Array:
    """c / lambda, [n], read off one exact step: the networks' difference on M shrinks by
    lambda - c. eta is `share` of what makes c = lambda, or `rate`, with lambda = 1e-4."""
    n = len(share)
    lam = np.full((n, 1), 1e-4) if rate else np.exp(rng.uniform(np.log(1e-4), 0, (n, 1)))
    own = found(rng, lam, None if rate else share[:, None], rate)[0]
    return ((lam - own) / lam)[:, 0]
