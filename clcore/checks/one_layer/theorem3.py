"""Theorem 3, its lemma and its definitions: power iteration to the end (nl Sec. 3.3, App. B.4).

A gamma < 1 is not sampled but proved, by `power_iteration.certificate`; then the run is watched.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.one_layer.power_iteration import (
    ROUNDING,
    draw,
    matrix,
    moving_family,
    mu_of,
    start,
)
from clcore.ledger import Check
from clcore.reference import Array, relative, tensors, typical, worst
from clcore.theory.one_layer import power_iteration as pi

STEPS = 200


def rem10(draws: int, seed: int) -> Iterator[Check]:
    """The analytic Lipschitz constant dominates sampled quotients, and one term attains it; |c|,
    |d| <= 1. Controls: half of the constant; w of norm 1.5.
    """
    rng, check = ref.generator("nl rem10", seed), partial(Check, "nl/rem10")
    values = np.tile([2.0, 1.5, 1.2, 1.1, 1.0], (draws, 1))
    family, w, L = moving_family(rng, draws, 5, values, np.full(draws, 0.7), np.full(draws, 0.3))
    one = rng.standard_normal((draws, 5, 5))
    one, unit = one + one.swapaxes(-1, -2), start(rng, rng.uniform(-1, 1, draws), 5)
    single = pi.affine(family(w), *tensors(unit[:, None], one[:, None]))
    least = pi.affine_lipschitz(*tensors(unit[:, None], one[:, None])).numpy()
    quotients = []
    for f, constant in ((family, L.numpy()), (single, least)):
        for k in range(20):
            v = start(rng, rng.uniform(-1, 1, draws), 5)
            v2 = -v if k == 0 else start(rng, rng.uniform(-1, 1, draws), 5)
            if k == 0 and f is single:
                v, v2 = unit, -unit
            change = np.linalg.norm((f(torch.tensor(v)) - f(torch.tensor(v2))).numpy(), 2, (1, 2))
            quotients.append(change / np.linalg.norm(v - v2, axis=-1) / constant)
    yield check(
        worst(*quotients) - 1,
        ROUNDING,
        {"half of the constant": typical(2 * quotients[20]) - 1},
        part="L",
        draws=40 * draws,
    )
    A = family(w)
    vectors = torch.linalg.eigh(A)[1].numpy()
    after = pi.step(A, w).numpy()
    inner = np.abs(np.stack([np.einsum("bij,bi->bj", vectors, v) for v in (w.numpy(), after)]))
    norm = np.linalg.norm(1.5 * np.einsum("bij,bi->bj", vectors, after), axis=-1)
    yield check(
        worst(inner) - 1, ROUNDING, {"norm 1.5": typical(norm) - 1}, part="c and d", draws=draws
    )


def def4(draws: int, seed: int) -> Iterator[Check]:
    """Both forms of mu, omega = mu + nu as printed in Eq. 10; its size at and near an LME.

    Controls: (1 + c) left out; 1 for 2 before L / gap; a start far from the LME; a small gap.
    """
    rng, check = ref.generator("nl def4", seed), partial(Check, "nl/def4", draws=draws)
    values, a, Q = draw(rng, draws, "generic")
    c, L, k = a[:, 0], rng.random(draws), rng.random(draws)
    at = pi.local(*tensors(matrix(values, Q), np.einsum("bij,bj->bi", Q, a)))
    m = mu_of(values, c)
    gap = values[:, 0] - values[:, 1]
    plain = (values[:, 1] / values[:, 0]) ** 2 / (2 * c**2)
    yield check(
        worst(relative(pi.mu(at), m)),
        1e-9,
        {"(1 + c) left out": typical(relative(pi.mu(at), plain))},
        part="two forms of mu",
    )
    root = np.sqrt(m * (1 + m * c))
    printed = m + 2 * k * L**2 * (1 + m * c) + 2 * L / gap * root
    ours = pi.omega(at, *tensors(L, k))
    yield check(
        worst(relative(ours, printed)),
        1e-9,
        {"1 for 2 before L / gap": typical(relative(ours, printed - L / gap * root))},
        part="Eq. 10 is mu + nu",
    )
    yield check(
        -float(ours.min()),
        0.0,
        {"minus nu": typical(printed - 2 * m)},
        part="omega >= 0",
    )

    def sizes(ratio: Array, L: Array, c: Array) -> Array:
        one = torch.ones(len(L), dtype=torch.float64)
        here = pi.Local(torch.tensor(c), one, torch.tensor(ratio), 0 * one)
        return pi.omega(here, torch.tensor(L), pi.kappa(here.gap)).numpy()

    near = 1 - 1e-6 * rng.random(draws)
    far = {
        "c = 0.2": typical(sizes(np.full(draws, 0.2), np.full(draws, 0.01), np.full(draws, 0.2)))
    }
    narrow = sizes(rng.uniform(0.5, 0.95, draws), rng.uniform(0, 0.5, draws), near)
    easy = sizes(rng.uniform(0, 0.2, draws), rng.uniform(0, 0.015, draws), near)
    yield check(
        worst(easy),
        0.1,
        far | {"a small gap": typical(narrow)},
        part="small near an LME",
        note=r"With $L$, $\kappa$ small and the gap large, as the text after Theorem 3 puts it: "
        r"$\lambda_2\le0.2\lambda_1$, $L\le0.015\lambda_1$ give $\omega\le0.1$. Fails where the "
        r"gap is "
        r"small, although the sentence after Eq. 10, of intuition, says any LME: there "
        r"$\omega\ge(\lambda_2/\lambda_1)^2$, $0.81$ for $A(w)=\mathrm{diag}(1,0.9)$ at "
        r"$w(0)=e_1$.",
    )


def eq103(draws: int, seed: int) -> Iterator[Check]:
    """The two forms of B_gamma are the same set. Control: 1 + sqrt(gamma) in the radius."""
    rng, n = ref.generator("nl eq103", seed), 100 * draws
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

    def disagree(sign: float) -> Array:
        radius = np.sqrt(2 * (1 + gamma) * (1 - c0)) / (1 + sign * np.sqrt(gamma))
        clear = np.abs((w * w0).sum(-1) - edge) > 1e-9
        return clear & ((apart <= radius) != ((w * w0).sum(-1) >= edge))

    yield Check(
        "nl/eq103",
        float(disagree(-1).mean()),
        0.0,
        {"1 + sqrt(gamma)": float(disagree(1).mean())},
        draws=n,
        note="Share of pairs on which the two disagree.",
    )


def eq104(draws: int, seed: int) -> Iterator[Check]:
    """The shift keeps eigenvectors, c_0 and P A w, and makes A definite. Control: w not unit,
    so that P_w w does not vanish; A itself.
    """
    rng, check = ref.generator("nl eq104", seed), partial(Check, "nl/eq104", draws=draws)
    values, a, Q = draw(rng, draws, "indefinite")
    A, w = matrix(values, Q), np.einsum("bij,bj->bi", Q, a)
    hat = pi.shifted(torch.tensor(A), 0.01)

    def pushed(matrix: Array, v: Array) -> Array:
        image = np.einsum("bij,bj->bi", matrix, v)
        return image - v * (v * image).sum(-1, keepdims=True)

    same = relative(pushed(hat.numpy(), w), pushed(A, w), 1.0)
    broken = relative(pushed(hat.numpy(), 1.1 * w), pushed(A, 1.1 * w), 1.0)
    yield check(worst(same), 1e-12, {"w of norm 1.1": typical(broken)}, part="P A w")
    least = np.linalg.eigvalsh(hat.numpy())[:, 0]
    bare = np.linalg.eigvalsh(A)[:, 0]
    yield check(
        worst(np.abs(least - 0.01)), 1e-12, {"A itself": typical(np.abs(bare - 0.01))}, part="PD"
    )
    c = pi.local(hat, torch.tensor(w)).c.numpy()
    second = np.abs(a[:, 1])
    yield check(
        worst(np.abs(c - a[:, 0])),
        1e-9,
        {"the second eigenvector": typical(np.abs(second - a[:, 0]))},
        part="keeps c_0",
    )


def _runs(name: str, draws: int, seed: int, low: float = 0.02, hat: bool = False) -> dict:
    """Random starts on random families, and the trajectories of those with a proved gamma.

    `low` is the least eigenvalue at the start: below zero A is indefinite, its last eigenvalue the
    largest in size. `hat` certifies and iterates the shifted matrix, with twice the constant.
    """
    rng, d, count = ref.generator(name, seed), 4, 12 * draws
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


def thm3(draws: int, seed: int) -> Iterator[Check]:
    """Starts with a proved gamma: the iteration ends in B_gamma at a critical point of Eq. 7.

    Indefinite A: with the shifted matrix before Eq. 104, as the proof has it. Controls: the starts;
    A not shifted.
    """

    def miss(run: dict) -> tuple[Array, Array, Array]:
        last = (run["path"][-1] - run["path"][-2]).norm(dim=-1).numpy()
        return run["residual"][-1], last, _outside(run)[-1]

    definite = _runs("nl thm3", draws, seed)
    own = _runs("nl thm3 indefinite", draws, seed, low=-1.05)
    hat = _runs("nl thm3 indefinite", draws, seed, low=-1.05, hat=True)
    check = partial(Check, "nl/thm3", bound=1e-10)
    control = {"the starts": typical(definite["residual"][0])}
    yield check(
        worst(*miss(definite)),
        control=control,
        part="A positive definite",
        draws=len(definite["gamma"]),
        note=rf"$\gamma<1$ was proved for {definite['share']:.0%} of the random starts.",
    )
    yield check(
        worst(*miss(hat)),
        control=control | {"A itself, not shifted": typical(own["residual"][-1])},
        part="A indefinite",
        draws=len(hat["gamma"]),
        note=r"As App. B.4 applies it: $\omega$, $L$, $\kappa$ and the iteration are those of "
        r"$\hat A(w)=A(w)-\lambda_{\min}(w)I+\epsilon I$. (For large batches $\mathbb C_\alpha$ is "
        r"semidefinite, Lemma 2.) Fails where an indefinite $A$ itself is iterated: "
        r"$A=\mathrm{diag}(1,0,-1)$, $w(0)=(3,0,1)/\sqrt{10}$ has $\omega=0$ throughout "
        r"$B_\gamma$ for "
        r"$\gamma=0.01$, but $w(t)=(3,0,(-1)^t)/\sqrt{10}$.",
    )


def rem11(draws: int, seed: int) -> Iterator[Check]:
    """Along certified runs w(t) stays in B_gamma and mu_t + nu_t <= gamma; small L, kappa and
    c_0 near 1 suffice. Controls: a ball and a gamma of a tenth; L as large as the gap.
    """
    run, check = _runs("nl rem11", draws, seed), partial(Check, "nl/rem11")
    at, gamma = run["at"], run["gamma"]
    small = pi.omega(at, run["L"], pi.kappa(at.gap.amin(0))).numpy()
    outside, count = _outside(run), len(gamma)
    yield check(
        worst(small - gamma.numpy()),
        0.0,
        {"a tenth of gamma": typical(small[0] - gamma.numpy() / 10)},
        part="mu + nu along the trajectory",
        draws=count,
    )
    edge = (1 - (run["path"][-1] * run["path"][0]).sum(-1)).numpy()
    room = 1 - pi.ball(at.c[0], gamma).numpy()
    yield check(
        worst(outside),
        ROUNDING,
        {"a hundredth of the cap": typical(edge - room / 100)},
        part="stays in B_gamma",
        draws=count,
        note=r"$A(w)$ positive definite, as in the corrected Theorem 3; with an indefinite $A$ the "
        r"iteration may leave $B_\gamma$.",
    )
    rng, n = ref.generator("nl rem11 small", seed), 10 * draws
    one = torch.ones(n, dtype=torch.float64)
    second = torch.tensor(rng.uniform(0, 0.9, n))
    here = pi.Local(one - 1e-8, one, second, 0 * one)
    proved = [
        float(pi.certificate(here, scale * here.gap).isnan().double().mean())
        for scale in (1e-4, 1.0)
    ]
    yield check(
        proved[0],
        0.0,
        {"L as large as the gap": proved[1]},
        part="the condition can hold",
        draws=n,
        note=r"Share of draws without a $\gamma<1$; $\lambda_2/\lambda_1\le0.9$, "
        r"$L=10^{-4}\lambda_{\mathrm{gap}}$, $1-c_0=10^{-8}$.",
    )


def lem11(draws: int, seed: int) -> Iterator[Check]:
    """All five items along certified runs of definite A.

    Controls: the reverse order; the first iterate; a radius of a tenth; indefinite A.
    """
    check = partial(Check, "nl/lem11")

    def items(run: dict) -> dict[str, tuple[float, float, dict[str, float]]]:
        """{part: (measured, bound, control)}."""
        path, c = run["path"], run["at"].c.numpy()
        moved = (path[1:] - path[:-1]).norm(dim=-1).numpy()
        fall = c[:-1] - c[1:]
        away = (path - path[0]).norm(dim=-1).numpy()
        gamma, c0 = run["gamma"].numpy(), c[0]
        radius = np.sqrt(2 * (1 + gamma) * (1 - c0)) / (1 - np.sqrt(gamma))
        top = np.maximum(run["residual"], 1 - c)
        short = {"a tenth of the radius": typical(away[-1] - radius / 10)}
        return {
            "c_t rises to 1": (
                worst(fall, 1 - c[-1]),
                ROUNDING,
                {"the order reversed": typical(-fall[0])},
            ),
            "converges": (worst(moved[-1]), ROUNDING, {"first step": typical(moved[0])}),
            "limit is a top eigenvector": (
                worst(top[-1]), 1e-11, {"the start": typical(top[0])},
            ),
            "trajectory within the radius": (worst(away - radius), ROUNDING, short),
            "limit within the radius": (worst(away[-1] - radius), ROUNDING, short),
        }  # fmt: skip

    definite = _runs("nl lem11", draws, seed)
    of_any = items(_runs("nl lem11 indefinite", draws, seed, low=-1.05))
    for part, (measured, bound, control) in items(definite).items():
        yield check(
            measured,
            bound,
            control | {"A indefinite": of_any[part][0]},
            draws=len(definite["gamma"]),
            part=part,
            note=r"Fails where $A$ is indefinite, which App. B.4 excludes: "
            r"$A=\mathrm{diag}(1,0,-1)$, "
            r"$w(0)=(3,0,1)/\sqrt{10}$, $\gamma=0.01$ has $w(t)=(3,0,(-1)^t)/\sqrt{10}$, "
            r"$c_t=3/\sqrt{10}$, radius 0.36, distances up to 0.63."
            if part == "c_t rises to 1"
            else "",
        )


def eq216(draws: int, seed: int) -> Iterator[Check]:
    """The three rates at every t. Controls: gamma squared, a tenth of the other bounds."""
    run, check = _runs("nl eq216", draws, seed), partial(Check, "nl/eq216")
    check = partial(check, draws=len(run["gamma"]))
    path, at = run["path"], run["at"]
    c, gamma = at.c.numpy(), run["gamma"].numpy()
    m, t = pi.mu(at).numpy(), np.arange(STEPS + 1)[:, None]
    away = (path - path[0]).norm(dim=-1).numpy()
    moved = (path[1:] - path[:-1]).norm(dim=-1).numpy()
    front = np.sqrt(2 * (1 + gamma) * (1 - c[0]))
    yield check(
        worst(1 - c - gamma**t * (1 - c[0])),
        ROUNDING,
        {"gamma squared": typical((1 - c - gamma ** (2 * t) * (1 - c[0]))[1])},
        part="1 - c_t",
    )
    total = np.concatenate([0 * gamma[None], np.cumsum(gamma ** (t[:-1] / 2), 0)])
    yield check(
        worst(away - front * total),
        ROUNDING,
        {"a tenth of the front": typical((away - front / 10 * total)[1])},
        part="|w(t) - w(0)|",
    )
    bound = np.sqrt(2 * (1 + m * c) * np.maximum(1 - c, 0))[:-1]
    last = front * gamma ** (t[:-1] / 2)
    # c near 1 is known to 1e-16 only, so its root to 1e-8.
    yield check(
        worst(moved - bound, bound - last),
        1e-7,
        {"a tenth": typical((moved - bound / 10)[0])},
        part="|dw(t)|",
    )
