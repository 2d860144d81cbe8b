"""Checks of ncl App. C.3's gradients: as printed, as d grows, and along trajectories."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from clcore import reference as ref
from clcore.checks.dynamics.srelu import Warm, brute, by_cases, law, signed, subsets, warm
from clcore.ledger import Check, check
from clcore.reference import Array, tensors, typical, worst
from clcore.theory.sparse import srelu_dynamics as sd


@check("ncl/thm3-grad")
def thm3_grad(draws: int, seed: int) -> Iterator[Check]:
    """Both gradients against complex steps through the enumerated Eq. 13; d = 3.

    Controls: alpha kappa for alpha^2 kappa off the diagonal; no bias; the other net's gradient.
    """
    count = min(draws, 15)
    w = warm(ref.generator("thm3-grad", seed), count, 3, 0.3)
    online, target, b_online, b_target, alpha, kappa = w.torch()
    ours = sd.simplified_slope(alpha, kappa)(target, b_target)(online, b_online).numpy()
    exact = np.concatenate(
        [
            ref.gradient(lambda net, r=r: 2 - 2 * brute(w, r, net).sum(-1), w.online[r][None])
            for r in range(count)
        ]
    )
    scale, eye = (w.alpha**2 * w.kappa)[:, None, None], np.eye(3)

    def printed(net: Array, b: Array, inside: Array) -> Array:
        own = np.einsum("rii->ri", net) - b
        return -2 * scale * (own[:, None] * eye + inside * net * (1 - eye))

    thinner = (w.alpha * w.kappa)[:, None, None]
    broken = {
        "alpha kappa": printed(w.target, w.b_target, thinner),
        "no bias": printed(w.target, 0 * w.b_target, scale),
        "the other net": printed(w.online, w.b_online, scale),
    }
    yield Check(
        "ncl/thm3-grad",
        worst(ref.absolute(printed(w.target, w.b_target, scale), exact), np.abs(ours - exact)),
        1e-14,
        {name: typical(ref.absolute(value, exact)) for name, value in broken.items()},
        draws=count,
    )


def even(rng: np.random.Generator, d: int, error: float, b: float) -> tuple[Array, Array]:
    """I + Delta with all |Delta_ij| = error, and d equal biases."""
    return np.eye(d) + error * np.where(rng.random((d, d)) < 0.5, -1.0, 1.0), np.full(d, b)


def push(held: Array, b_held: Array, moved: Array, b: Array, alpha: float, kappa: float) -> Array:
    """-dL/dW of `moved`, [d, d], from Eq. 13 without noise: a sum over latents and masks."""
    d = len(held)
    D, total = subsets(d), np.zeros((d, d))
    keep, z = law(D, alpha, 1 - alpha), signed(d)
    for point, chance in zip(z, law(z, kappa / 2, 1 - kappa), strict=True):
        x = D * point
        passed = (np.abs(x @ moved.T) > b) * keep[:, None]
        total += 2 * chance * (keep @ by_cases(x @ held.T, b_held))[:, None] * (passed.T @ x)
    return total


@check("ncl/thm3-gradas")
def thm3_gradas(draws: int, seed: int) -> Iterator[Check]:
    """The asymptotic gradients as d grows, and the warm start along exact trajectories.

    |Delta_ij| = d^-7/4, b = d^-1/2: separated from d = 4 on, else the measure is NaN. Controls: a
    bias that stays, errors of order 1/d, crosstalk above b; a step up the loss, no normalisation.
    """
    rng, check = ref.generator("thm3-gradas", seed), partial(Check, "ncl/thm3-gradas")
    alpha, kappa = rng.uniform(0.3, 0.95), rng.uniform(0.1, 0.9)

    def nets(sizes: tuple[int, ...], error: float, bias: float, factor: float = 1.0) -> list:
        return [even(rng, d, d**error, factor * d**bias) for d in sizes]

    def simple(net: tuple[Array, Array]) -> Array:
        """The simplified push on a net, held the same."""
        at = tensors(*net)
        return -sd.simplified_slope(*tensors(np.full(1, alpha), np.full(1, kappa)))(*at)(*at)[
            0
        ].numpy()

    def inside(some: list) -> float:
        """1, but NaN, which never passes, where a pre-activation may be in the wrong region."""
        return 1.0 if all(bool(sd.separated(*tensors(*net)).all()) for net in some) else np.nan

    def gap(some: list) -> float:
        """Of the exact gradient from the simplified one, entry by entry."""
        return worst(*(np.abs(push(*net, *net, alpha, kappa) / simple(net) - 1) for net in some))

    few = nets((4, 5, 6), -1.75, -0.5)
    yield check(
        inside(few) * gap(few),
        1e-11,
        {"crosstalk above b": gap(nets((4, 5, 6), -1.5, -0.5, 0.5))},
        part="against the exact gradient",
        draws=len(few),
        note=r"$|\Delta_{ij}|=d^{-7/4}$, $b=d^{-1/2}$, as in the next two parts; $d=4,5,6$. Within "
        "the regions the formulas are exact, so they may stand for the gradient at large $d$.",
    )
    sizes = (8, 16, 32, 64, 128)

    def powers(some: list) -> tuple[float, float]:
        """Powers of d of: the diagonal's deviation from -2 alpha^2 kappa; d times the rest."""
        diagonal, rest = [], []
        for d, net in zip(sizes, some, strict=True):
            unit = simple(net) / (2 * alpha**2 * kappa)
            diagonal.append(np.abs(np.diag(unit) - 1).max())
            rest.append(d * np.abs(unit - np.diag(np.diag(unit))).max())
        return tuple(float(np.polyfit(np.log(sizes), np.log(v), 1)[0]) for v in (diagonal, rest))

    many = nets(sizes, -1.75, -0.5)
    small = inside(many) * np.array(powers(many))
    yield check(
        float(small[0]),
        -0.4,
        {"a bias that stays": powers(nets(sizes, -1.75, 0.0, 0.5))[0]},
        part="diagonal",
        draws=len(many),
        note=r"Power of $d$ in the deviation from $-2\alpha^2\kappa$.",
    )
    yield check(
        float(small[1]),
        -0.4,
        {"errors of order 1/d": powers(nets(sizes, -1.0, -0.5))[1]},
        part="off the diagonal",
        draws=len(many),
        note=r"Power of $d$ in $d$ times the largest entry.",
    )
    count = min(draws, 30)
    w = warm(rng, count, 4, 0.3)
    yield check(
        worst(grown(w)),
        1 + 1e-12,
        {"up the loss": typical(grown(w, -0.4)), "not normalised": typical(grown(w, 1.0, False))},
        part="the warm start stays",
        draws=count,
        note=r"One step a half-round, exact loss. The larger of both nets' errors never grows by "
        r"more than $1/(1+\Delta_{ii})$, and $1-W_{ii}$ is of the order of $d-1$ times its square: "
        r"all stay $o(1/d)$. One net's own errors may grow: a net that starts at the identity "
        "takes over a share of the other's. No pre-activation changes its region, as here each "
        "bias is above what either net's errors ask for. Assumption 3 asks that of each net's own "
        "errors at the start only, and errors taken over may then exceed a bias.",
    )


def grown(w: Warm, sign: float = 1.0, normalise: bool = True) -> Array:
    """[draws]: the most that errors grow in 24 half-rounds of one step, over the allowance; d = 4.

    With the least diagonal m <= 1 at the start and the largest |W_ij| of both nets there, r / m is
    allowed to |W_ij|, three times its square to |1 - W_ii|. 10 where a region changes.
    """
    online, target, b_online, b_target, alpha, kappa = w.torch()
    slope = sd.exact_slope(sd.views(*sd.latents(kappa, 4), alpha))
    eta = sign / (2 * alpha**2 * kappa)
    path = sd.alternate(online, target, b_online, b_target, slope, eta, 12, 1, normalise).numpy()
    errors = np.abs(path - np.eye(4))
    rest = (errors * (1 - np.eye(4))).max((1, -1, -2))
    # The first normalisation divides by a diagonal that may be below one.
    least = np.minimum(np.einsum("tnrii->tnri", path)[0].min((0, -1)), 1.0)
    moved = (errors[2:] * np.eye(4)).max((0, 1, -1, -2))  # from when both nets have unit rows
    own = moved / (3 * (rest[0] / least) ** 2)
    outside = ~np.stack(
        [
            sd.separated(*tensors(path[:, k], np.broadcast_to(b, path[:, k].shape[:-1]))).numpy()
            for k, b in ((0, w.b_online), (1, w.b_target))
        ]
    )
    grows = np.maximum(rest.max(0) / rest[0] * least, own)
    return np.maximum(grows, 10.0 * outside.any((0, 1, -1)))
