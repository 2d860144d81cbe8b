"""Global modulation: basins and critical times (nl Theorem 6, App. C.3).

Quadrature and adaptive integration meet `clcore.theory.two_layer.modulation`.
"""

import numpy as np
import torch
from scipy.integrate import solve_ivp

from clcore import reference as ref
from clcore.ledger import Trial, check, typical, worst
from clcore.reference import Array, relative, tangent, tensors, unit
from clcore.theory.two_layer import modulation

STARTS = 600


def _pairs(rng: np.random.Generator, draws: int) -> tuple[Array, Array]:
    """y(0) > 0 and b > 0 over two orders of magnitude each, 30 per draw."""
    return 10 ** rng.uniform(-2, 0, (draws, 30)), 10 ** rng.uniform(-1, 1, (draws, 30))


def blow_up(y0: Array, b: Array) -> Array:
    """Time to infinity: the integral of du / (1 + b u), u = 1/y, up to 1/y0, on dyadic panels."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    total = 0.0
    for k in range(16):
        high = 2.0**-k / y0[..., None]
        low = high / 2 if k < 15 else 0 * high
        u = (high + low) / 2 + (high - low) / 2 * nodes
        total = total + (weights * (high - low) / 2 / (1 + b[..., None] * u)).sum(-1)
    return total


@check("nl/thm6")
def thm6(t: Trial) -> None:
    """Global modulation enlarges the attractive basin of a pattern (Theorem 6).

    Given   A(w) = sum_l g(u_l^T w) u_l u_l^T, g(x) = x + b, b from 1.02 to 3, d = 2 and 5; random
            starts shared by all c; (1), (2) the flow on the sphere, integrated; (3), (4) the one
            without projection, by critical times.
    Claim   With c > 0 added for u_1, (1), (3) no start of its basin is lost, and (2), (4) some are
            gained.
    Fails   for c < 0, which loses some and gains none.
    """
    # (1), (3) How many starts end at u_1 without c and no more with it; (2), (4) the other way.
    for projected, name in ((True, "with the projection"), (False, "without it")):
        none_lost = t.part(f"{name}: none lost", draws=2 * STARTS)
        some_gained = t.part(f"{name}: some gained", 1, ">=", draws=2 * STARTS)
        for d in (2, 5):
            starts = torch.from_numpy(t.rng.standard_normal((STARTS, d)))
            starts = starts / starts.norm(dim=-1, keepdim=True)
            b = torch.from_numpy(t.stream("b").uniform(1.02, 3, (STARTS, 1)))
            before = _wins(starts, b, 0.0, projected)
            for c in (0.2, 0.6):
                now = _wins(starts, b, c, projected)
                none_lost.add((before & ~now).sum())
                some_gained.add((now & ~before).sum())
            less = _wins(starts, b, -0.6, projected)
            none_lost.breaks("c < 0", (before & ~less).sum())
            some_gained.breaks("c < 0", (less & ~before).sum())


def _wins(y: torch.Tensor, b: torch.Tensor, c: float, projected: bool) -> torch.Tensor:
    """Whether the first of y' = (y + rates) y wins: first to blow up, or on the sphere."""
    rates = b.expand_as(y).clone()
    rates[:, 0] += c
    if not projected:
        return modulation.first_to_blow_up(y, rates) == 0
    return modulation.winner(modulation.simulate(y, rates, steps=350, pace=0.4)) == 0


@check("nl/eq147")
def eq147(t: Trial) -> None:
    """Closed form of a component's growth without normalisation (Eqs. 144-147).

    Given   w' = A w, A = sum_l g(u_l^T w) u_l u_l^T with g(x) = x + b and orthonormal u_l, and c
            added for one pattern; for the solution y' = (y + b) y, starts on both sides of 0, b in
            [0.3, 4].
    Claim   y_l = u_l^T w has y_l' = (y_l + b_l) y_l, against the matrix A; y(t)/(y(t) + b)
            = y(0)/(y(0) + b) exp(bt), with y(t) by adaptive integration; and the library's solution
            for y(t) is the integrated one.
    Fails   with the projection of Eq. 12, for patterns that are not orthogonal, for exp(-bt), and
            for 1.1 b in place of b.
    """
    _by_components(t)

    # y(t) by integration: every third start between -b and 0, until 2/b; the others above 0, until
    # nine tenths of the time at which they blow up.
    count = min(t.draws, 30)
    b = t.rng.uniform(0.3, 4, count)
    y0 = np.where(np.arange(count) % 3 == 2, -t.rng.uniform(0.05, 0.9, count) * b, 1.0)
    y0 = np.where(y0 > 0, t.rng.uniform(0.02, 1, count), y0)
    last = 0.9 * np.where(y0 > 0, np.log1p(b / np.abs(y0)) / b, 2 / b)
    found = np.array([_integrated(*v) for v in zip(y0, b, last, strict=True)])

    # y / (y + b) at both ends.
    left, right = found / (found + b), y0 / (y0 + b)
    grown = t.part("Eq. 147", 1e-8, controls=typical)
    grown.add(relative(left, right * np.exp(b * last)))
    grown.breaks("$e^{-bt}$", relative(left, right * np.exp(-b * last)))
    grown.breaks("1.1 b", relative(left, right * np.exp(1.1 * b * last)))

    # y by the library.
    start, rate, end = tensors(y0, b, last)
    solved = t.part("solved for y", 1e-7, controls=typical)
    solved.add(relative(modulation.solution(start, rate, end), found))
    solved.breaks("1.1 b", relative(modulation.solution(start, 1.1 * rate, end), found))


def _by_components(t: Trial) -> None:
    """Eqs. 144 to 146: the components u_l^T A(w) w of the velocity, against (y_l + b_l) y_l."""
    rng, count, d = t.stream("components"), min(t.draws, 30), 5
    w, raw = unit(rng.standard_normal((count, d))), rng.standard_normal((count, d, d))
    offset = np.repeat(rng.uniform(0.3, 4, (count, 1)), d, -1)
    offset[:, 0] += rng.uniform(0.1, 1, count)  # b + c for the modulated pattern

    def gap(U: Array, projected: bool = False) -> Array:
        """For patterns in the columns of U, [draws]; `projected`: the velocity on the sphere."""
        y = np.einsum("bdl,bd->bl", U, w)
        A = np.einsum("bdl,bl,bel->bde", U, y + offset, U)
        velocity = np.einsum("bde,be->bd", A, w)
        velocity = tangent(w, velocity) if projected else velocity
        return relative(np.einsum("bdl,bd->bl", U, velocity), (y + offset) * y)

    patterns = np.linalg.qr(raw)[0]
    part = t.part("Eqs. 144 to 146", 1e-12, controls=typical).add(gap(patterns))
    part.breaks("with the projection", gap(patterns, projected=True))
    part.breaks("patterns not orthogonal", gap(unit(raw, axis=1)))


def _integrated(y0: float, b: float, end: float) -> float:
    """y(end) of y' = (y + b) y from y0, by scipy."""
    path = solve_ivp(lambda _, y: (y + b) * y, (0, end), [y0], "DOP853", rtol=1e-12, atol=1e-14)
    return float(path.y[0, -1])


@check("nl/eq148")
def eq148(t: Trial) -> None:
    """The component with the earliest critical time wins (Eq. 148).

    Given   random starts and rates b; the flow without projection and the one on the sphere
            (Eq. 15). For the winners b from 1.02 to 3, the same for all components but b + c for
            u_1: c = 0.5, 0 or -0.5.
    Claim   The component with the least critical time t* dominates, and wins: w -> u_l for l =
            argmin t*. That ratios need no Z is algebra, and not tested.
    Fails   for the flow with the projection. Corrected, b > 1: there argmin t* wins for equal b,
            and u_1 with c > 0 wins whenever its t* is the least. Controls: the smallest or the
            largest start, c < 0, b < 1.
    """
    y0 = t.rng.uniform(0.1, 1, (t.draws, 4))
    b = t.rng.uniform(1.1, 2, (t.draws, 4))
    critical = times(y0, b)

    # z = y / |y|, right before the first critical time.
    when = (1 - 1e-10) * critical.min(-1, keepdims=True) * np.ones_like(b)
    z = unit(modulation.solution(*tensors(y0, b, when)).numpy())

    def short(first: Array) -> Array:
        """What z lacks of 1 at the component where `first` is least."""
        return 1 - np.take_along_axis(z, first.argmin(-1)[:, None], -1)[:, 0]

    lead = t.part("it dominates", 1e-6, controls=worst).add(short(critical))
    lead.breaks("the smallest start", short(y0))

    # Where both flows end: rates b of which the first is larger; all equal; the first smaller.
    start = torch.from_numpy(t.rng.standard_normal((STARTS, 5)))
    start = start / start.norm(dim=-1, keepdim=True)
    start = start[(start > 0).any(-1)]
    rates = t.stream("rates").uniform(1.02, 3, (len(start), 1))
    equal = torch.from_numpy(rates).expand_as(start)
    rate = equal.clone()
    rate[:, 0] += 0.5
    first, even, less = (
        modulation.first_to_blow_up(start, r) for r in (rate, equal, 2 * equal - rate)
    )
    alone = modulation.winner(modulation.simulate(start, rate, False, 500, 0.2), 0.9)
    sphere, same, weaker = (
        modulation.winner(modulation.simulate(start, r, True, 350, 0.4))
        for r in (rate, equal, 2 * equal - rate)
    )

    # Without the projection: starts that another component wins than the first to blow up.
    free = t.part("argmin t*, without the projection", 0.002, draws=len(start))
    free.add((first != alone).double().mean())
    free.breaks("the largest start wins", (start.argmax(-1) != alone).double().mean())

    # With it, as printed; one start with both of its times.
    printed = t.part("argmin t*, the flow with the projection", draws=len(start))
    printed.add((first != sphere).sum())
    printed.breaks("the largest start wins", (start.argmax(-1) != sphere).sum())
    y, b = start.numpy(), rate.numpy()
    end = on_sphere(y, b)[range(len(y)), times(y, b).argmin(-1)]
    printed.fails_by((end < 0.99).sum(), within=0.02)
    own, rates = np.array([[0.55, 0.835]]), np.array([[1.7, 1.2]])
    won = modulation.winner(modulation.simulate(*tensors(own, rates), True, 350, 0.4))
    t1, t2 = modulation.critical_time(*tensors(own, rates))[0].tolist()
    printed.says(won=1 + won.item(), t1=t1, t2=t2)
    t1, t2 = blow_up(own, rates)[0]
    printed.confirms(won=1 + on_sphere(own, rates).argmax(), t1=t1, t2=t2)

    # Corrected: the first pattern wins where its time is the least; any pattern at equal rates.
    mended = t.corrected("argmin t*, the flow with the projection", draws=len(start))
    mended.add(((first == 0) & (sphere != 0)).sum() + (even != same).sum())
    mended.breaks("c < 0", ((less == 0) & (weaker != 0)).sum())
    # One start at b = 0.2, where g < 0 on a part of the sphere: u_1 is first, and u_2 wins.
    y, b = unit(np.array([[1.0, 4.0, -100.0]])), np.array([[0.5, 0.2, 0.2]])
    away = on_sphere(y, b, end=400.0)[:, 0] < 0.01
    mended.breaks("b < 1", ((times(y, b).argmin(-1) == 0) & away).sum())


def times(y: Array, b: Array) -> Array:
    """t* of Eq. 150 by its formula, of every component; infinite for y <= 0."""
    return np.where(y > 0, np.log1p(b / np.where(y > 0, y, 1)) / b, np.inf)


def on_sphere(y: Array, b: Array, end: float = 80.0, near: float = 1e-6) -> Array:
    """Where the flow on the sphere ends, by scipy, all starts in one system. near: its atol."""

    def move(_: float, flat: Array) -> Array:
        z = flat.reshape(y.shape)
        return tangent(z, b * z + z**2).ravel()

    path = solve_ivp(move, (0, end), y.ravel(), "DOP853", rtol=1e-8, atol=near).y
    return path[:, -1].reshape(y.shape)


@check("nl/fig7")
def fig7(t: Trial) -> None:
    """Scalar dynamics with a stable point and finite-time blow-up (Figure 7).

    Given   y' = (y + b) y, b > 0.
    Claim   Slopes at the rest points: b at 0 (unstable), -b at -b (stable); negative starts go to
            -b; positive ones blow up at t* = log(1 + b/y(0))/b, by quadrature of dy/y'.
    Fails   for the points exchanged, starts on the other side, t* without its 1 +.
    """
    b = np.concatenate([[0.5, 1.0, 3.0], t.rng.uniform(0.3, 4, t.draws)])

    # The slope of y' at 0 and at -b.
    slopes = []
    for point in (0 * b, -b):
        y = torch.from_numpy(point).requires_grad_()
        force = modulation.force(y, torch.from_numpy(b)).sum()
        slopes.append(torch.autograd.grad(force, y)[0].numpy())
    rest = t.part("rest points", 1e-12, controls=typical, draws=len(b))
    rest.add(np.abs(slopes[0] - b), np.abs(slopes[1] + b))
    rest.breaks("exchanged", np.abs(slopes[1] - b))

    # Far out in closed form and, from -3b, integrated; `simulate` would return a sign.
    starts = np.stack([-3 * b, -0.5 * b, -1e-3 * b])
    y, rate = torch.from_numpy(starts), torch.from_numpy(b).expand(3, -1)
    far = modulation.solution(y, rate, 40 / rate).numpy()
    pairs = zip(starts[0], b, strict=True)
    ends = np.array([_integrated(float(start), float(of), 40 / of) for start, of in pairs])
    late = 0.9 * modulation.critical_time(-y, rate)
    other = modulation.solution(-y, rate, late).numpy()
    below = t.part("negative starts go to -b", 1e-9, controls=typical, draws=3 * len(b))
    below.add(np.abs(far + b) / b, np.abs(ends + b) / b)
    below.breaks("starts on the other side", np.abs(other + b) / b)

    # t* by quadrature, and the library's.
    y0 = t.rng.uniform(0.02, 1, len(b))
    found = blow_up(y0, b)
    above = t.part("positive starts blow up at t*", 1e-10, controls=typical)
    above.add(np.abs(found / modulation.critical_time(*tensors(y0, b)).numpy() - 1))
    above.breaks("without 1 +", np.abs(np.log(1e-9 + b / y0) / b / found - 1))


@check("nl/eq150")
def eq150(t: Trial) -> None:
    """Critical time at which a component blows up (Eqs. 149-150).

    Given   random y(0) > 0, b > 0.
    Claim   t* = log(1 + b/y(0))/b solves y(0)/(y(0) + b) exp(b t*) = 1: against quadrature; it
            falls as y(0) grows. Where y(0) <= 0 there is none (nl/fig7).
    Fails   without 1/b, for y(0)/b in the logarithm, for a smaller start.
    """
    y0, b = _pairs(t.rng, t.draws)

    # t* by the library, by quadrature, and as the root of Eq. 149.
    ours, found = modulation.critical_time(*tensors(y0, b)).numpy(), blow_up(y0, b)
    root = y0 / (y0 + b) * np.exp(b * ours)
    formula = t.part("Eqs. 149, 150", 1e-10, controls=typical, draws=t.draws)
    formula.add(relative(ours, found), np.abs(root - 1))
    formula.breaks("without 1/b", relative(b * ours, found))
    formula.breaks("$y_l(0)/b_l$", relative(np.log1p(y0 / b) / b, found))

    # A start that is one per cent larger, over t* of the start.
    larger, smaller = (
        modulation.critical_time(*tensors(y, b)).numpy() for y in (1.01 * y0, y0 / 1.01)
    )
    falls = t.part("falls with y(0)", 1 - 1e-6).add(larger / ours)
    falls.breaks("a smaller start", smaller / ours)


@check("nl/eq151")
def eq151(t: Trial) -> None:
    """A larger eigenvalue offset lowers the critical time (Eq. 151).

    Given   random y(0) > 0, b > 0, small b too.
    Claim   dt*/db is the printed form, by complex steps, and negative; at equal t* a larger b goes
            with a smaller y(0).
    Fails   for 1/b in place of 1/b^2; the sign, for b t* in place of t*; at equal t*, for a smaller
            b.
    """
    y0, b = _pairs(t.rng, t.draws)

    # dt*/db by complex steps, and the library's form.
    slope = ref.slope(lambda v: np.log(1 + v / y0) / v, b)
    ours = modulation.critical_slope(*tensors(y0, b)).numpy()
    form = t.part("Eq. 151", 1e-9, controls=typical).add(np.abs(ours / slope - 1))
    form.breaks("1/b for $1/b^2$", np.abs(ours * b / slope - 1))

    # Its sign, for small b too.
    tiny = modulation.critical_slope(*tensors(np.full(9, 1.0), 10.0 ** -np.arange(1, 5.1, 0.5)))
    sign = t.part("negative", -1e-6, draws=t.draws).add(slope, tiny)
    sign.breaks("without the factor 1/b", ref.slope(lambda v: np.log(1 + v / y0), b))

    # At equal times: the start of a rate that is a tenth larger over that of b.
    when = t.rng.uniform(0.2, 2, (t.draws, 30))

    def start(rate: Array) -> Array:
        """y(0) of components with that rate that blow up at the times `when`."""
        return rate / np.expm1(rate * when)

    equal = t.part("at equal times", 1 - 1e-4).add(start(1.1 * b) / start(b))
    equal.breaks("b smaller", start(b / 1.1) / start(b))
