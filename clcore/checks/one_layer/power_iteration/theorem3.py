"""Theorem 3, its lemma and its definitions: power iteration to the end (nl Sec. 3.3, App. B.4).

A gamma < 1 is not sampled but proved, by `power_iteration.certificate`; then the run is watched.
"""

import numpy as np
import torch

from clcore.checks.one_layer.power_iteration import over_ball, proofs
from clcore.checks.one_layer.power_iteration.steps import (
    ROUNDING,
    draw,
    matrix,
    moving_family,
    mu_of,
    start,
)
from clcore.ledger import Trial, check, typical, worst
from clcore.reference import Array, relative, tensors
from clcore.theory.one_layer import one_layer
from clcore.theory.one_layer import power_iteration as pi

STEPS = 200


@check("nl/rem10")
def rem10(t: Trial) -> None:
    """Lipschitz constant of A(w) and correlations along power iteration (Sec. 3.3).

    Given   affine families A(w), random unit w.
    Claim   The analytic Lipschitz constant is above all sampled quotients, and one term attains
            it; |c_t| and |d_t| are at most 1.
    Fails   for half of the constant, and w of norm 1.5.
    """
    rng, draws = t.rng, t.draws
    values = np.tile([2.0, 1.5, 1.2, 1.1, 1.0], (draws, 1))
    family, w, L = moving_family(rng, draws, 5, values, np.full(draws, 0.7), np.full(draws, 0.3))
    one = rng.standard_normal((draws, 5, 5))
    one, unit = one + one.swapaxes(-1, -2), start(rng, rng.uniform(-1, 1, draws), 5)
    single = pi.affine(family(w), *tensors(unit[:, None], one[:, None]))
    least = pi.affine_lipschitz(*tensors(unit[:, None], one[:, None])).numpy()
    lipschitz = t.defines("L", ROUNDING, controls=typical)
    for f, constant in ((family, L.numpy()), (single, least)):
        for k in range(20):
            v = start(rng, rng.uniform(-1, 1, draws), 5)
            v2 = -v if k == 0 else start(rng, rng.uniform(-1, 1, draws), 5)
            attained = k == 0 and f is single
            if attained:
                v, v2 = unit, -unit
            change = np.linalg.norm((f(torch.tensor(v)) - f(torch.tensor(v2))).numpy(), 2, (1, 2))
            quotient = change / np.linalg.norm(v - v2, axis=-1) / constant
            lipschitz.add(quotient - 1)
            if attained:
                lipschitz.breaks("half of the constant", 2 * quotient - 1)
    A = family(w)
    vectors = torch.linalg.eigh(A)[1].numpy()
    after = pi.step(A, w).numpy()
    inner = np.abs(np.stack([np.einsum("bij,bi->bj", vectors, v) for v in (w.numpy(), after)]))
    norm = np.linalg.norm(1.5 * np.einsum("bij,bi->bj", vectors, after), axis=-1)
    unit_range = t.part("c and d", ROUNDING, controls=typical, draws=draws)
    unit_range.add(inner - 1).breaks("norm 1.5", np.median(norm) - 1)
    proofs.rem10(unit_range)


@check("nl/def4")
def def4(t: Trial) -> None:
    """Irregularity of A(w) near a fixed point of power iteration (Definition 4, Eq. 10).

    Given   c = c(w), lambda_1 and the gap of A(w), its Lipschitz constant L, kappa of Lemma 9.
    Claim   mu has two forms, omega = mu + nu >= 0, and near any LME omega is much less than 1.
    Fails   the size at LMEs whose gap is not large. Corrected: near an LME with a large gap, L and
            kappa small. Controls: 1 + c left out, 1 for 2 before L/gap, minus nu, c = 0.2.
    """
    rng, draws = t.rng, t.draws
    values, a, Q = draw(rng, draws, "generic")
    c, L, k = a[:, 0], rng.random(draws), rng.random(draws)
    at = pi.local(*tensors(matrix(values, Q), np.einsum("bij,bj->bi", Q, a)))
    m = mu_of(values, c)
    gap = values[:, 0] - values[:, 1]
    plain = (values[:, 1] / values[:, 0]) ** 2 / (2 * c**2)
    forms = t.part("two forms of mu", 1e-9, controls=typical).add(relative(pi.mu(at), m))
    forms.breaks("(1 + c) left out", relative(pi.mu(at), plain))
    root = np.sqrt(m * (1 + m * c))
    printed = m + 2 * k * L**2 * (1 + m * c) + 2 * L / gap * root
    ours = pi.omega(at, *tensors(L, k))
    eq10 = t.defines("Eq. 10 is mu + nu", 1e-9, controls=typical).add(relative(ours, printed))
    eq10.breaks("1 for 2 before L / gap", relative(ours, printed - L / gap * root))
    sign = t.part("omega >= 0", controls=typical).add(-ours)
    sign.breaks("minus nu", printed - 2 * m)

    def sizes(ratio: Array, L: Array, c: Array) -> Array:
        one = torch.ones(len(L), dtype=torch.float64)
        here = pi.Local(torch.tensor(c), one, torch.tensor(ratio), 0 * one)
        return pi.omega(here, torch.tensor(L), pi.kappa(here.gap)).numpy()

    near = 1 - 1e-6 * rng.random(draws)
    name = "small near an LME"
    printed, small = (form(name, 0.1, controls=typical) for form in (t.part, t.corrected))
    ratios = rng.uniform(0.5, 0.95, draws)  # any LME, A constant: omega is mu
    printed.add(sizes(ratios, np.zeros(draws), near))
    printed.fails_by((1 + near) / (2 * near**2) * ratios**2)
    far = sizes(np.full(draws, 0.2), np.full(draws, 0.01), np.full(draws, 0.2))
    for part in (printed, small):
        part.breaks("c = 0.2", far)
    small.breaks(
        "a small gap", sizes(rng.uniform(0.5, 0.95, draws), rng.uniform(0, 0.5, draws), near)
    )
    world = one_layer.summation(torch.full((4,), 0.3, dtype=torch.float64), torch.eye(4).double())
    pattern = torch.eye(4, dtype=torch.float64)[:1]
    own = pi.omega(
        pi.local(one_layer.operator(world, pattern), pattern), *tensors(np.zeros(1), np.zeros(1))
    )
    small.breaks("the summation model at q = 0.3", own.numpy())
    printed.says(own=own.item()).confirms(own=(0.3 / 0.7**2) ** 2)
    small.add(sizes(rng.uniform(0, 0.2, draws), rng.uniform(0, 0.015, draws), near))
    proofs.def4(forms, sign, small)


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
    inner = np.maximum(edge, -1) + np.where(rng.random(n) < 0.5, 1, -1) * 10.0 ** rng.uniform(-6, 0)
    inner = np.clip(inner, -1, 1)
    w0 = start(rng, rng.uniform(-1, 1, n), 4)
    side = start(rng, rng.uniform(-1, 1, n), 4)
    side -= (side * w0).sum(-1, keepdims=True) * w0
    side /= np.linalg.norm(side, axis=-1, keepdims=True)
    w = inner[:, None] * w0 + np.sqrt(1 - inner**2)[:, None] * side
    apart = np.linalg.norm(w - w0, axis=-1)

    def disagree(sign: float) -> float:
        radius = np.sqrt(2 * (1 + gamma) * (1 - c0)) / (1 + sign * np.sqrt(gamma))
        clear = np.abs((w * w0).sum(-1) - edge) > 1e-9
        return (clear & ((apart <= radius) != ((w * w0).sum(-1) >= edge))).mean()

    part = t.part(draws=n).add(disagree(-1)).breaks("1 + sqrt(gamma)", disagree(1))
    proofs.eq103(part)


@check("nl/eq104")
def eq104(t: Trial) -> None:
    """Shifting A(w) to be positive definite keeps the critical points (Eq. 104).

    Given   random indefinite A, unit w.
    Claim   A - lambda_min I + eps I is PD, keeps c_0, and P_w of it times w is P_w A w.
    Fails   for w of norm 1.1, for A itself, for the second eigenvector.
    """
    values, a, Q = draw(t.rng, t.draws, "indefinite")
    A, w = matrix(values, Q), np.einsum("bij,bj->bi", Q, a)
    hat = pi.shifted(torch.tensor(A), 0.01)

    def pushed(matrix: Array, v: Array) -> Array:
        image = np.einsum("bij,bj->bi", matrix, v)
        return image - v * (v * image).sum(-1, keepdims=True)

    push = t.part("P A w", 1e-12, controls=typical)
    push.add(relative(pushed(hat.numpy(), w), pushed(A, w), 1.0))
    push.breaks("w of norm 1.1", relative(pushed(hat.numpy(), 1.1 * w), pushed(A, 1.1 * w), 1.0))
    definite = t.part("PD", 1e-12, controls=typical)
    definite.add(np.abs(np.linalg.eigvalsh(hat.numpy())[:, 0] - 0.01))
    definite.breaks("A itself", np.abs(np.linalg.eigvalsh(A)[:, 0] - 0.01))
    kept = t.part("keeps c_0", 1e-9, controls=typical)
    kept.add(np.abs(pi.local(hat, torch.tensor(w)).c.numpy() - a[:, 0]))
    kept.breaks("the second eigenvector", np.abs(np.abs(a[:, 1]) - a[:, 0]))
    proofs.eq104(push, definite, kept)


def _runs(t: Trial, more: str = "", low: float = 0.02, hat: bool = False) -> dict:
    """Random starts on random families, and the trajectories of those with a proved gamma.

    `low` is the least eigenvalue at the start: below zero A is indefinite, its last eigenvalue the
    largest in size. `hat` certifies and iterates the shifted matrix, with twice the constant.
    """
    rng, d, count = t.stream(f"runs{more}"), 4, 12 * t.draws
    rest = -np.sort(-rng.uniform(0.02, 0.6, (count, d - 1)), -1)
    if low < 0:
        rest[:, -1] = low - 0.4 * rng.random(count)
    values = np.concatenate([np.ones((count, 1)), rest], -1)
    c0 = 1 - 10.0 ** rng.uniform(-5, -2, count)
    plain, w, L = moving_family(rng, count, d, values, c0, 10.0 ** rng.uniform(-4, -1.8, count))
    family = (lambda v: pi.shifted(plain(v), 0.01)) if hat else plain
    gamma = pi.certificate(pi.local(family(w), w), 2 * L if hat else L)
    keep = ~gamma.isnan()
    path = pi.iterate(family, w, STEPS)
    matrices = torch.stack([plain(v) for v in path])
    at = pi.local(matrices, path)
    return {
        "path": path[:, keep],
        "at": pi.Local(*(x[:, keep] for x in at)),
        "gamma": gamma[keep],
        "L": L[keep],
        "residual": pi.residual(matrices, path)[:, keep].numpy(),
        "share": float(keep.double().mean()),
    }


def _outside(run: dict) -> Array:
    """By how much w(t).w(0) falls below the edge of B_gamma, [t, runs]."""
    path = run["path"]
    return (pi.ball(run["at"].c[0], run["gamma"]) - (path * path[0]).sum(-1)).numpy()


@check("nl/thm3")
def thm3(t: Trial) -> None:
    """Power iteration from an approximate eigenvector converges to a critical point (Theorem 3).

    Given   c_0 != 0, A Lipschitz on the sphere, and a gamma < 1 with omega <= gamma in all of
            B_gamma: proved by `power_iteration.certificate`, not sampled.
    Claim   the iteration w <- A(w) w / |A(w) w| ends in B_gamma at a critical point of Eq. 7.
            Corrected: for positive semidefinite A(w), or with A-hat(w) of App. B.4 iterated.
    Fails   where A(w) has a negative eigenvalue larger in size than the second one.
    """

    def miss(run: dict) -> tuple[Array, Array, Array]:
        last = (run["path"][-1] - run["path"][-2]).norm(dim=-1).numpy()
        return run["residual"][-1], last, _outside(run)[-1]

    definite = _runs(t)
    own = _runs(t, " indefinite", low=-1.05)
    hat = _runs(t, " indefinite", low=-1.05, hat=True)
    starts = definite["residual"][0]

    # A positive definite, over the sphere.
    ends = t.part("A positive definite", 1e-10, controls=typical, draws=len(definite["gamma"]))
    ends.add(*miss(definite)).breaks("the starts", starts).says(share=definite["share"])

    # A indefinite: iterated as printed, and A-hat in its place.
    printed = t.part("A indefinite", 1e-10, controls=typical, draws=len(own["gamma"]))
    printed.add(own["residual"][-1]).proves(**proofs.indefinite("residual"))
    mended = t.corrected("A indefinite", 1e-10, controls=typical, draws=len(hat["gamma"]))
    mended.add(*miss(hat)).breaks("A itself, not shifted", own["residual"][-1])
    for part in (printed, mended):
        part.breaks("the starts", starts)
    over_ball.proved(t)
    over_ball.least(t)


@check("nl/rem11")
def rem11(t: Trial) -> None:
    """Irregularity stays bounded along the trajectory of power iteration (Remark after Theorem 3's
    proof).

    Given   runs on random PD families for which a gamma < 1 is proved.
    Claim   w(t) stays in B_gamma, and mu_t + nu_t <= gamma along the way; small L and kappa with
            c_0 near 1 suffice for such a gamma.
    Fails   for a tenth of gamma, a hundredth of the cap, L as large as the gap.
    """
    run = _runs(t)
    at, gamma = run["at"], run["gamma"]
    small = pi.omega(at, run["L"], pi.kappa(at.gap.amin(0))).numpy()
    along = t.part("mu + nu along the trajectory", controls=typical, draws=len(gamma))
    along.add(small - gamma.numpy()).breaks("a tenth of gamma", small[0] - gamma.numpy() / 10)
    edge = (1 - (run["path"][-1] * run["path"][0]).sum(-1)).numpy()
    room = 1 - pi.ball(at.c[0], gamma).numpy()
    stays = t.part("stays in B_gamma", ROUNDING, controls=typical, draws=len(gamma))
    stays.add(_outside(run)).breaks("a hundredth of the cap", edge - room / 100)
    n = 10 * t.draws
    one = torch.ones(n, dtype=torch.float64)
    second = torch.tensor(t.stream("small").uniform(0, 0.9, n))
    here = pi.Local(one - 1e-8, one, second, 0 * one)

    def unproved(scale: float) -> float:
        return float(pi.certificate(here, scale * here.gap).isnan().double().mean())

    holds = t.part("the condition can hold", draws=n).add(unproved(1e-4))
    holds.breaks("L as large as the gap", unproved(1.0))
    over_ball.proved(t)


def _items(run: dict) -> dict[str, tuple[list[Array], float, str, Array]]:
    """The items of Lemma 11: {part: (errors, bound, what is broken, its errors)}."""
    path, c = run["path"], run["at"].c.numpy()
    moved = (path[1:] - path[:-1]).norm(dim=-1).numpy()
    fall = c[:-1] - c[1:]
    away = (path - path[0]).norm(dim=-1).numpy()
    gamma, c0 = run["gamma"].numpy(), c[0]
    radius = np.sqrt(2 * (1 + gamma) * (1 - c0)) / (1 - np.sqrt(gamma))
    top = np.maximum(run["residual"], 1 - c)
    short = ("a tenth of the radius", away[-1] - radius / 10)
    return {
        "c_t rises to 1": ([fall, 1 - c[-1]], ROUNDING, "the order reversed", -fall[0]),
        "converges": ([moved[-1]], ROUNDING, "first step", moved[0]),
        "limit is a top eigenvector": ([top[-1]], 1e-11, "the start", top[0]),
        "trajectory within the radius": ([away - radius], ROUNDING, *short),
        "limit within the radius": ([away[-1] - radius], ROUNDING, *short),
    }


@check("nl/lem11")
def lem11(t: Trial) -> None:
    """Power iteration converges within a ball around its start (Lemma 11).

    Given   c_0 > 0 and a proved gamma < 1 with omega <= gamma in all of B_gamma.
    Claim   c_t rises to 1, w(t) converges, to a top eigenvector of A there, and neither w(t) nor
            the limit leaves the ball of radius R. Corrected: for positive semidefinite A(w).
    Fails   for indefinite A(w), as A = diag(1, 0, -1): c_t stays, w(t) swings.
    """
    definite = _runs(t)
    of_any = _items(_runs(t, " indefinite", low=-1.05))
    for name, (errors, bound, what, broken) in _items(definite).items():
        printed = t.part(name, bound, controls=typical)
        printed.add(*of_any[name][0]).proves(**proofs.indefinite(name))
        item = t.corrected(name, bound, controls=typical, draws=len(definite["gamma"]))
        item.add(*errors).breaks("A indefinite", *of_any[name][0], by=worst)
        for part in (printed, item):
            part.breaks(what, broken)


@check("nl/eq216")
def eq216(t: Trial) -> None:
    """Geometric rates of power iteration with bounded irregularity (Eqs. 206-220).

    Given   the runs of the remark above, 200 steps.
    Claim   1 - c_t <= gamma^t (1 - c_0), |w(t) - w(0)| <= front sum gamma^(t/2), |dw(t)| <= sqrt(2
            (1 + mu c)(1 - c_t)) <= front gamma^(t/2), front = sqrt(2 (1 + gamma)(1 - c_0)).
    Fails   for gamma squared, and a tenth of the other bounds.
    """
    run = _runs(t)
    n, path, at = len(run["gamma"]), run["path"], run["at"]
    c, gamma = at.c.numpy(), run["gamma"].numpy()
    m, step = pi.mu(at).numpy(), np.arange(STEPS + 1)[:, None]
    away = (path - path[0]).norm(dim=-1).numpy()
    moved = (path[1:] - path[:-1]).norm(dim=-1).numpy()
    front = np.sqrt(2 * (1 + gamma) * (1 - c[0]))
    rise = t.part("1 - c_t", ROUNDING, controls=typical, draws=n)
    rise.add(1 - c - gamma**step * (1 - c[0]))
    rise.breaks("gamma squared", (1 - c - gamma ** (2 * step) * (1 - c[0]))[1])
    total = np.concatenate([0 * gamma[None], np.cumsum(gamma ** (step[:-1] / 2), 0)])
    far = t.part("|w(t) - w(0)|", ROUNDING, controls=typical, draws=n).add(away - front * total)
    far.breaks("a tenth of the front", (away - front / 10 * total)[1])
    bound = np.sqrt(2 * (1 + m * c) * np.maximum(1 - c, 0))[:-1]
    # c near 1 is known to 1e-16 only, so its root to 1e-8.
    change = t.part("|dw(t)|", 1e-7, controls=typical, draws=n)
    change.add(moved - bound, bound - front * gamma ** (step[:-1] / 2))
    change.breaks("a tenth", (moved - bound / 10)[0])
    proofs.eq216(rise, far, change)
    nu = pi.nu(at, run["L"], pi.kappa(at.gap.amin(0))).numpy()
    one = t.part("Eqs. 213, 214", ROUNDING, controls=typical, draws=n)
    one.add((1 - c[1:]) - ((m + nu) * (1 - c))[:-1])
    one.breaks("a tenth of mu + nu", (1 - c[1] - (m + nu)[0] / 10 * (1 - c[0])))
