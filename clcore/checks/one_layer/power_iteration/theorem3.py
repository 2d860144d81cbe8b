"""Theorem 3, its lemma and its definitions: power iteration to the end (nl Sec. 3.3, App. B.4).

A gamma < 1 is not sampled but proved, by `power_iteration.certificate` (tests/theory hold it to
that); then the run is watched.
"""

from typing import Any, NamedTuple

import numpy as np
import torch

from clcore.checks.one_layer.power_iteration import proofs
from clcore.checks.one_layer.power_iteration.steps import (
    ROUNDING,
    draw,
    matrix,
    moving_family,
    mu_of,
    start,
)
from clcore.ledger import Trial, check, typical, worst
from clcore.reference import Array, relative, tangent, tensors, unit
from clcore.theory.one_layer import one_layer
from clcore.theory.one_layer import power_iteration as pi

STEPS = 200


@check("nl/rem10")
def rem10(t: Trial) -> None:
    """Lipschitz constant of A(w) and correlations along power iteration (Sec. 3.3).

    Given   affine families A(w), random unit w.
    Claim   No sampled quotient is above the analytic Lipschitz constant, and one term attains it;
            |c_t| and |d_t| are at most 1.
    Fails   for half of the constant; for d_t where w(t + 1) is 1.5 times as long.
    """
    rng, draws = t.rng, t.draws
    values = np.tile([2.0, 1.5, 1.2, 1.1, 1.0], (draws, 1))
    family, w, L = moving_family(rng, draws, 5, values, np.full(draws, 0.7), np.full(draws, 0.3))

    # L, of two terms and of one; the latter changes most between its direction and the opposite.
    B = rng.standard_normal((draws, 5, 5))
    B, a = B + B.swapaxes(-1, -2), start(rng, rng.uniform(-1, 1, draws), 5)
    single = pi.affine(family(w), *tensors(a[:, None], B[:, None]))
    least = pi.affine_lipschitz(*tensors(a[:, None], B[:, None])).numpy()
    lipschitz = t.defines("L", ROUNDING, controls=typical)
    for A_of, constant in ((family, L.numpy()), (single, least)):
        for k in range(20):
            v = start(rng, rng.uniform(-1, 1, draws), 5)
            v2 = -v if k == 0 else start(rng, rng.uniform(-1, 1, draws), 5)
            attained = k == 0 and A_of is single
            if attained:
                v, v2 = a, -a
            change = (A_of(torch.tensor(v)) - A_of(torch.tensor(v2))).numpy()
            change = np.linalg.norm(change, 2, (1, 2))
            quotient = change / np.linalg.norm(v - v2, axis=-1) / constant
            lipschitz.add(np.abs(quotient - 1) if attained else quotient - 1)
            if attained:
                lipschitz.breaks("half of the constant", 2 * quotient - 1)

    # c_t and d_t: w(t) and w(t + 1) along the eigenvectors of A(w(t)), of which phi_1 is one; the
    # control has |d_t| for 1.5 w(t + 1), whose largest is above 1.
    vectors = torch.linalg.eigh(family(w))[1].numpy()
    after = pi.step(family(w), w).numpy()
    along = np.abs(np.stack([np.einsum("bij,bi->bj", vectors, v) for v in (w.numpy(), after)]))
    correlations = t.part("c and d", ROUNDING, controls=typical, draws=draws)
    correlations.add(along - 1).breaks("norm 1.5", (1.5 * along[1]).max(-1) - 1)
    proofs.rem10(correlations)


@check("nl/def4")
def def4(t: Trial) -> None:
    """Irregularity of A(w) near a fixed point of power iteration (Definition 4, Eq. 10).

    Given   c = c(w), lambda_1 and the gap of A(w), its Lipschitz constant L, kappa of Lemma 9.
    Claim   mu has two forms; omega = mu + nu, nu = 2 kappa L^2 (1 + mu c) + 2 (L/gap) sqrt(mu (1
            + mu c)), none of whose terms is negative; near any LME omega is much less than 1 (0.1,
            ours).
    Fails   the size at LMEs whose gap is not large. Corrected: where |lambda_2| is at most 0.2
            lambda_1, L and kappa small. Controls: 1 + c left out, 1 for 2 before L/gap, c = 0.2, a
            small gap, a large gap where lambda_2 is near -lambda_1.
    """
    rng, draws = t.rng, t.draws
    values, a, Q = draw(rng, draws, "generic")
    c, L, kappa = a[:, 0], rng.random(draws), rng.random(draws)
    at = pi.local(*tensors(matrix(values, Q), np.einsum("bij,bj->bi", Q, a)))
    mu, gap = mu_of(values, c), values[:, 0] - values[:, 1]

    # mu by the gap of A(w), and by its eigenvalues.
    plain = (values[:, 1] / values[:, 0]) ** 2 / (2 * c**2)
    forms = t.part("two forms of mu", 1e-9, controls=typical).add(relative(pi.mu(at), mu))
    forms.breaks("(1 + c) left out", relative(pi.mu(at), plain))

    # omega of the library, and Eq. 10.
    root = np.sqrt(mu * (1 + mu * c))
    eq10 = mu + 2 * kappa * L**2 * (1 + mu * c) + 2 * L / gap * root
    ours = pi.omega(at, *tensors(L, kappa))
    whole = t.defines("Eq. 10 is mu + nu", 1e-9, controls=typical).add(relative(ours, eq10))
    whole.breaks("1 for 2 before L / gap", relative(ours, eq10 - L / gap * root))

    def omega(ratio: Array, L: Array, c: Array) -> Array:
        """omega for lambda_1 = 1 and lambda_2 = ratio, kappa of Lemma 9."""
        one, second = torch.ones(len(L), dtype=torch.float64), torch.tensor(ratio)
        here = pi.Local(torch.tensor(c), first=one, second=second, least=second.clamp(max=0.0))
        return pi.omega(here, torch.tensor(L), pi.kappa(here.gap)).numpy()

    # Near any LME, A constant: omega is mu, which a small gap leaves large.
    near = 1 - 1e-6 * rng.random(draws)
    name = "small near an LME"
    printed, small = (form(name, 0.1, controls=typical) for form in (t.part, t.corrected))
    ratios = rng.uniform(0.5, 0.95, draws)
    printed.add(omega(ratios, np.zeros(draws), near))
    printed.fails_by((1 + near) / (2 * near**2) * ratios**2)
    world = one_layer.summation(torch.full((4,), 0.3, dtype=torch.float64), torch.eye(4).double())
    pattern = torch.eye(4, dtype=torch.float64)[:1]
    local = pi.local(one_layer.operator(world, pattern), pattern)
    own = pi.omega(local, *tensors(np.zeros(1), np.zeros(1)))
    printed.says(own=own.item()).confirms(own=(0.3 / 0.7**2) ** 2)

    # Near an LME with |lambda_2|, L and kappa small.
    far = omega(np.full(draws, 0.2), np.full(draws, 0.01), np.full(draws, 0.2))
    for part in (printed, small):
        part.breaks("c = 0.2", far)
    narrow = rng.uniform(0.5, 0.95, draws), rng.uniform(0, 0.5, draws)
    small.breaks("a small gap", omega(*narrow, near))
    small.breaks("the summation model at q = 0.3", own.numpy())
    small.breaks("$\\lambda_2<0$, a large gap", omega(-ratios, 0 * near, near))
    for side in (1, -1):
        small.add(omega(side * rng.uniform(0, 0.2, draws), rng.uniform(0, 0.015, draws), near))
    proofs.def4(forms, small)


@check("nl/eq103")
def eq103(t: Trial) -> None:
    """Ball around the start of power iteration as a bound on the cosine (Eq. 103).

    Given   random unit w, w(0), gamma < 0.98, c_0.
    Claim   |w - w(0)| <= sqrt(2 (1 + gamma)(1 - c_0))/(1 - sqrt gamma) just if w^T w(0) >= (c_0
            - c_gamma)/(1 - c_gamma): the share of pairs on which they disagree is 0.
    Fails   for 1 + sqrt gamma in the radius.
    """
    rng, n = t.rng, 100 * t.draws
    gamma, c0 = rng.uniform(0, 0.98, n), rng.uniform(0.02, 1, n)
    edge = pi.ball(*tensors(c0, gamma)).numpy()

    # Pairs whose cosine is near the edge, on either side.
    cosine = np.maximum(edge, -1)
    cosine = cosine + np.where(rng.random(n) < 0.5, 1, -1) * 10.0 ** rng.uniform(-6, 0, n)
    cosine = np.clip(cosine, -1, 1)
    w0 = start(rng, rng.uniform(-1, 1, n), 4)
    side = unit(tangent(w0, start(rng, rng.uniform(-1, 1, n), 4)))
    w = cosine[:, None] * w0 + np.sqrt(1 - cosine**2)[:, None] * side

    def disagree(sign: float) -> float:
        """The share of pairs that one form counts as inside and the other does not."""
        radius = np.sqrt(2 * (1 + gamma) * (1 - c0)) / (1 + sign * np.sqrt(gamma))
        apart, inner = np.linalg.norm(w - w0, axis=-1), (w * w0).sum(-1)
        return ((np.abs(inner - edge) > 1e-9) & ((apart <= radius) != (inner >= edge))).mean()

    part = t.part(draws=n).add(disagree(-1)).breaks("1 + sqrt(gamma)", disagree(1))
    proofs.eq103(part)


@check("nl/eq104")
def eq104(t: Trial) -> None:
    """Shifting A(w) to be positive definite keeps the critical points (Eq. 104).

    Given   random indefinite A, unit w.
    Claim   A - lambda_min I + eps I is positive definite, keeps c_0, and P_w of it times w is P_w A
            w.
    Fails   for w of norm 1.1 (P_w A w), A itself (definite), the second eigenvector (c_0).
    """
    values, a, Q = draw(t.rng, t.draws, "indefinite")
    A, w = matrix(values, Q), np.einsum("bij,bj->bi", Q, a)
    hat = pi.shifted(torch.tensor(A), 0.01)  # A - lambda_min I + eps I, eps = 0.01

    def pushed(matrix: Array, v: Array) -> Array:
        return tangent(v, np.einsum("bij,bj->bi", matrix, v))

    # P A w of both, for unit w.
    push = t.part("P A w", 1e-12, controls=typical)
    push.add(relative(pushed(hat.numpy(), w), pushed(A, w), 1.0))
    push.breaks("w of norm 1.1", relative(pushed(hat.numpy(), 1.1 * w), pushed(A, 1.1 * w), 1.0))

    # The least eigenvalue is eps.
    definite = t.part("positive definite", 1e-12, controls=typical)
    definite.add(np.abs(np.linalg.eigvalsh(hat.numpy())[:, 0] - 0.01))
    definite.breaks("A itself", np.abs(np.linalg.eigvalsh(A)[:, 0] - 0.01))

    # c_0 of A-hat, by eigh, against the coordinate that w was built from.
    kept = t.part("keeps c_0", 1e-9, controls=typical)
    kept.add(np.abs(pi.local(hat, torch.tensor(w)).c.numpy() - a[:, 0]))
    kept.breaks("the second eigenvector", np.abs(np.abs(a[:, 1]) - a[:, 0]))
    proofs.eq104(push, definite, kept)


class Runs(NamedTuple):
    """Trajectories of power iteration for which a gamma is proved: w(t) [t, runs, d], A(w(t)) as
    seen from there, gamma and L [runs], |P A w| [t, runs]; the share of starts that have one."""

    path: torch.Tensor
    at: pi.Local
    gamma: torch.Tensor
    L: torch.Tensor
    residual: Array
    share: float

    def outside(self) -> Array:
        """By how much w(t).w(0) falls below the edge of B_gamma, [t, runs]."""
        along = (self.path * self.path[0]).sum(-1)
        return (pi.ball(self.at.c[0], self.gamma) - along).numpy()


def _with_kernel(family: pi.Family, w: torch.Tensor) -> pi.Family:
    """All A(w) cut by the direction of the least eigenvalue at w(0), which they send to 0."""
    last = torch.linalg.eigh(family(w))[1][..., :1]
    off = torch.eye(w.shape[-1], dtype=w.dtype) - last * last.mT
    return lambda v: off @ family(v) @ off


def runs(
    t: Trial, more: str = "", low: float = 0.02, hat: bool = False, kernel: bool = False
) -> Runs:
    """Random starts on random families, `STEPS` steps.

    `low` is the least eigenvalue at the start: below zero A is indefinite, its last eigenvalue the
    largest in size. `hat` certifies and iterates the shifted matrix, with twice the constant.
    `kernel`: all A(w) send one direction to 0, so that the least eigenvalue is 0.
    """
    rng, d, count = t.stream(f"runs{more}"), 4, 12 * t.draws
    rest = -np.sort(-rng.uniform(0.02, 0.6, (count, d - 1)), -1)
    if low < 0:
        rest[:, -1] = low - 0.4 * rng.random(count)
    values = np.concatenate([np.ones((count, 1)), rest], -1)
    c0 = 1 - 10.0 ** rng.uniform(-5, -2, count)
    plain, w, L = moving_family(rng, count, d, values, c0, 10.0 ** rng.uniform(-4, -1.8, count))
    plain = _with_kernel(plain, w) if kernel else plain
    family = (lambda v: pi.shifted(plain(v), 0.01)) if hat else plain
    gamma = pi.certificate(pi.local(family(w), w), 2 * L if hat else L)
    keep = ~gamma.isnan()
    path = pi.iterate(family, w, STEPS)
    matrices = torch.stack([plain(v) for v in path])
    at = pi.Local(*(x[:, keep] for x in pi.local(matrices, path)))
    residual = pi.residual(matrices, path)[:, keep].numpy()
    return Runs(path[:, keep], at, gamma[keep], L[keep], residual, float(keep.double().mean()))


@check("nl/thm3")
def thm3(t: Trial) -> None:
    """Power iteration from an approximate eigenvector converges to a critical point (Theorem 3).

    Given   c_0 != 0, A Lipschitz on the sphere, and a gamma < 1 with omega <= gamma in all of
            B_gamma: proved by `power_iteration.certificate`, not sampled.
    Claim   the iteration w <- A(w) w / |A(w) w| ends in B_gamma at a critical point of Eq. 7.
            Corrected: for positive semi-definite A(w), or with A-hat(w) of App. B.4 iterated.
    Fails   where A(w) has a negative eigenvalue larger in size than the second one. Controls: the
            starts, A in place of A-hat.
    """

    definite = runs(t)
    indefinite = runs(t, " indefinite", low=-1.05)
    shifted = runs(t, " indefinite", low=-1.05, hat=True)

    def miss(run: Runs) -> tuple[Array, Array, Array]:
        """At the last step: P A w, the length of the step, how far outside B_gamma."""
        last = (run.path[-1] - run.path[-2]).norm(dim=-1).numpy()
        return run.residual[-1], last, run.outside()[-1]

    # A positive definite, over the sphere.
    ends = t.part("A positive definite", 1e-10, controls=typical, draws=len(definite.gamma))
    ends.add(*miss(definite)).breaks("the starts", definite.residual[0])
    ends.says(share=definite.share)

    # A indefinite: iterated as printed, and A-hat in its place.
    printed = t.part("A indefinite", 1e-10, controls=typical, draws=len(indefinite.gamma))
    printed.add(indefinite.residual[-1]).proves(**proofs.indefinite("residual"))
    mended = t.corrected("A indefinite", 1e-10, controls=typical, draws=len(shifted.gamma))
    mended.add(*miss(shifted)).breaks("A itself, not shifted", indefinite.residual[-1])
    for part in (printed, mended):
        part.breaks("the starts", definite.residual[0])


@check("nl/rem11")
def rem11(t: Trial) -> None:
    """Irregularity stays bounded along the trajectory of power iteration (Remark after Theorem 3's
    proof).

    Given   runs on random PD families for which a gamma < 1 is proved.
    Claim   w(t) stays in B_gamma, and mu_t + nu_t <= gamma along the way; small L and kappa with
            c_0 near 1 suffice for such a gamma.
    Fails   for a tenth of gamma, a hundredth of the cap, L as large as the gap.
    """
    run = runs(t)
    gamma = run.gamma.numpy()
    kept: dict[str, Any] = {"controls": typical, "draws": len(gamma)}

    # mu + nu at every w(t), kappa for the least gap of the run.
    irregularity = pi.omega(run.at, run.L, pi.kappa(run.at.gap.amin(0))).numpy()
    along = t.part("mu + nu along the trajectory", **kept).add(irregularity - gamma)
    along.breaks("a tenth of gamma", irregularity[0] - gamma / 10)

    # w(t).w(0) against the edge of B_gamma.
    moved = (1 - (run.path[-1] * run.path[0]).sum(-1)).numpy()
    cap = 1 - pi.ball(run.at.c[0], run.gamma).numpy()
    stays = t.part("stays in B_gamma", ROUNDING, **kept).add(run.outside())
    stays.breaks("a hundredth of the cap", moved - cap / 100)

    # A gamma is proved for c_0 = 1 - 1e-8 and L a small part of the gap.
    n = 10 * t.draws
    one = torch.ones(n, dtype=torch.float64)
    second = torch.tensor(t.stream("small").uniform(0, 0.9, n))
    start_at = pi.Local(one - 1e-8, one, second, 0 * one)
    unproved, large = (
        float(pi.certificate(start_at, scale * start_at.gap).isnan().double().mean())
        for scale in (1e-4, 1.0)
    )
    holds = t.part("the condition can hold", draws=n).add(unproved)
    holds.breaks("L as large as the gap", large)


def _items(run: Runs) -> dict[str, tuple[list[Array], float, str, Array]]:
    """The items of Lemma 11: {part: (errors, bound, what is broken, its errors)}."""
    c, gamma = run.at.c.numpy(), run.gamma.numpy()
    steps = (run.path[1:] - run.path[:-1]).norm(dim=-1).numpy()
    fall = c[:-1] - c[1:]
    away = (run.path - run.path[0]).norm(dim=-1).numpy()
    radius = np.sqrt(2 * (1 + gamma) * (1 - c[0])) / (1 - np.sqrt(gamma))
    beside_top = np.maximum(run.residual, 1 - c)
    short = ("a tenth of the radius", away[-1] - radius / 10)
    return {
        "c_t rises to 1": ([fall, 1 - c[-1]], ROUNDING, "the order reversed", -fall[0]),
        "converges": ([steps[-1]], ROUNDING, "first step", steps[0]),
        "limit is a top eigenvector": ([beside_top[-1]], 1e-11, "the start", beside_top[0]),
        "trajectory within the radius": ([away - radius], ROUNDING, *short),
        "limit within the radius": ([away[-1] - radius], ROUNDING, *short),
    }


@check("nl/lem11")
def lem11(t: Trial) -> None:
    """Power iteration converges within a ball around its start (Lemma 11).

    Given   positive definite A(w), and semi-definite ones; c_0 > 0 and a proved gamma < 1 with
            omega <= gamma in all of B_gamma.
    Claim   c_t rises to 1, w(t) converges, to a top eigenvector of A there, and neither w(t) nor
            the limit leaves the ball of radius R.
    Fails   for indefinite A(w), as A = diag(1, 0, -1): c_t stays, w(t) swings. Controls: the order
            reversed, the first step, the start, a tenth of the radius.
    """
    definite, flat = runs(t), runs(t, " semi-definite", kernel=True)
    count, semi = len(definite.gamma) + len(flat.gamma), _items(flat)
    indefinite = _items(runs(t, " indefinite", low=-1.05))
    for name, (errors, bound, what, broken) in _items(definite).items():
        part = t.part(name, bound, controls=typical, draws=count)
        part.add(*errors, *semi[name][0]).breaks(what, broken)
        part.breaks("A indefinite", *indefinite[name][0], by=worst)


@check("nl/eq216")
def eq216(t: Trial) -> None:
    """Geometric rates of power iteration with bounded irregularity (Eqs. 206-220).

    Given   runs on random PD families for which a gamma < 1 is proved, 200 steps.
    Claim   1 - c_t <= gamma^t (1 - c_0), |w(t) - w(0)| <= front sum_{s < t} gamma^(s/2), |dw(t)|
            <= sqrt(2 (1 + mu_t c_t)(1 - c_t)) <= front gamma^(t/2), front = sqrt(2 (1 + gamma)(1
            - c_0)); and 1 - c_{t+1} <= (mu_t + nu_t)(1 - c_t) (Eqs. 213, 214).
    Fails   at the first step, for gamma squared, and for a tenth of the other bounds.
    """
    run = runs(t)
    c, gamma, mu = run.at.c.numpy(), run.gamma.numpy(), pi.mu(run.at).numpy()
    step = np.arange(STEPS + 1)[:, None]
    kept: dict[str, Any] = {"controls": typical, "draws": len(gamma)}
    front = np.sqrt(2 * (1 + gamma) * (1 - c[0]))

    # 1 - c_t falls as gamma^t.
    rise = t.part("1 - c_t", ROUNDING, **kept).add(1 - c - gamma**step * (1 - c[0]))
    rise.breaks("gamma squared", (1 - c - gamma ** (2 * step) * (1 - c[0]))[1])

    # |w(t) - w(0)| against the sum of gamma^(s/2) below t.
    away = (run.path - run.path[0]).norm(dim=-1).numpy()
    total = np.concatenate([0 * gamma[None], np.cumsum(gamma ** (step[:-1] / 2), 0)])
    far = t.part("|w(t) - w(0)|", ROUNDING, **kept).add(away - front * total)
    far.breaks("a tenth of the front", (away - front / 10 * total)[1])

    # |dw(t)|, both links; c near 1 is known to 1e-16 only, so its root to 1e-8.
    length = (run.path[1:] - run.path[:-1]).norm(dim=-1).numpy()
    bound = np.sqrt(2 * (1 + mu * c) * np.maximum(1 - c, 0))[:-1]
    change = t.part("|dw(t)|", 1e-7, **kept)
    change.add(length - bound, bound - front * gamma ** (step[:-1] / 2))
    change.breaks("a tenth", (length - bound / 10)[0])
    proofs.eq216(rise, far, change)

    # One step: 1 - c_(t+1) <= (mu + nu)(1 - c_t).
    nu = pi.nu(run.at, run.L, pi.kappa(run.at.gap.amin(0))).numpy()
    one = t.part("Eqs. 213, 214", ROUNDING, **kept)
    one.add((1 - c[1:]) - ((mu + nu) * (1 - c))[:-1])
    one.breaks("a tenth of mu + nu", (1 - c[1] - (mu + nu)[0] / 10 * (1 - c[0])))
