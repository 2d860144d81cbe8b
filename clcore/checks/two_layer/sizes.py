"""Fields of different size: what slows the small ones, and what BatchNorm evens out (nl App. D).

Closed forms of `clcore.theory.two_layer.two_layer` with their factors taken out one by one.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.two_layer.batchnorm import normalised
from clcore.checks.two_layer.latent import middle, net_of
from clcore.checks.two_layer.top import Pair, closed_form, outputs, pair_of, pull_of
from clcore.ledger import Check
from clcore.reference import Array, best, relative, tensors, typical, worst
from clcore.theory.two_layer import field_latent, two_layer


def _alike(rng: np.random.Generator, draws: int, K: int) -> tuple[field_latent.Model, Array]:
    """A model whose fields have one law and one filter."""
    model, W = net_of(rng, draws, 2, K, 1)
    same = field_latent.Model(
        model.prior,
        model.table[:, :, :1].expand_as(model.table),
        model.values[:, :1].expand_as(model.values),
    )
    return same, np.repeat(W[:, :1], K, 1)


def _stretched(model: field_latent.Model, factors: Array) -> field_latent.Model:
    return model._replace(values=model.values * torch.from_numpy(factors)[:, :, None, None])


def _next(values: torch.Tensor | Array) -> Array:
    """Of every field over the next larger one, [draws, K - 1]."""
    values = np.asarray(values)
    return values[:, 1:] / values[:, :-1]


def speed(pair: Pair, gaps: torch.Tensor, w: torch.Tensor) -> Array:
    """[draws, K]: |w_k'| of Theorem 5 on the sphere, with `gaps` for lambda - d_k."""
    b = pair.b.numpy()
    s = b / gaps.numpy()
    s = s / np.linalg.norm(s, axis=-1, keepdims=True)
    delta = torch.from_numpy(pull_of(s, b, pair.scale.numpy()))
    top = two_layer.Top(gaps[:, 0], gaps, torch.from_numpy(s), gaps[:, 0])
    move = two_layer.tangent(w, closed_form(pair, top, delta, w))
    return move.norm(dim=-1).numpy()


def coefficients(rng: np.random.Generator, draws: int, K: int, even: bool) -> Array:
    """delta_k, [draws, K], of fields whose d_k fall; all b_k equal, or drawn apart from d_k."""
    d = -np.sort(-rng.uniform(0, 1, (draws, K)), -1)
    b = np.ones((draws, K)) if even else np.abs(rng.standard_normal((draws, K)))
    scale = rng.uniform(0.05, 0.25, draws)
    s = two_layer.top_of_rank_one(*tensors(d, b, scale)).s.numpy()
    return pull_of(s, b, scale)


def rem20(draws: int, seed: int) -> Iterator[Check]:
    """Fields of one law at sizes 1, 1/3, 1/10: how fast their filters turn, and what the factor
    1/(lambda - d_k) does to it alone, b_k and A_k of one size; delta_k of fields with equal b_k.

    Controls: the same fields behind BatchNorm, which move alike; the factor left out, or upside
    down; two fields only; sizes left in.
    """
    check = partial(Check, "nl/rem20")
    rng = ref.generator("rem20", seed)
    draws = max(draws, 50)  # medians are compared
    model, W = _alike(rng, draws, 3)
    factors = np.tile([1.0, 1 / 3, 0.1], (draws, 1))
    pair, even = (pair_of(m, W, "relu") for m in (_stretched(model, factors), model))
    bn, _ = normalised(pair)
    w = torch.from_numpy(W)[:, :, 0]
    top, level = (two_layer.top_of_rank_one(q.d, q.b, q.scale) for q in (pair, bn))
    one = torch.ones_like(top.gaps)
    speeds = {
        "plain": _next(speed(pair, top.gaps, w)),
        "BatchNorm": _next(speed(bn, level.gaps, w)),
        "no factor": _next(speed(pair, one, w)),
        "one size": _next(speed(even, top.gaps, w)),
        "one size, no factor": _next(speed(even, one, w)),
    }
    check = partial(check, draws=draws)
    factor = _next(1 / top.gaps)
    yield check(
        worst(factor),
        1 - 1e-9,
        {"with BatchNorm": best(_next(1 / level.gaps))},
        part="the factor",
        note=r"$1/(\lambda-d_k)$ of a smaller over a larger field.",
    )
    plain = pair.b / pair.b.norm(dim=-1, keepdim=True)
    weights, sizes = _next(top.s**2), _next(pair.b**2)
    yield check(
        worst(weights / sizes),
        1 - 1e-9,
        {
            "without the factor": best(_next(plain**2) / sizes),
            "factor upside down": best(1 / factor**2),
        },
        part="the factor in $s_k^2$",
        note=r"$s_k^2$ of a field over that of the next larger one, over the same of $b_k^2$. "
        f"$b_k^2$ alone falls to {worst(sizes):.2f} at most, $s_k^2$ to {worst(weights):.2f}.",
    )
    slow = typical(speeds["plain"])
    yield check(
        slow,
        0.3,
        {"with BatchNorm": typical(speeds["BatchNorm"])},
        part="speed",
        note=r"$\|\dot w_k\|$ with the projection over that of the next larger field, median.",
    )
    delta = _next(two_layer.modulation(top, pair.b, pair.scale))
    shares = pair.b**2 / top.gaps
    others = _next(shares.sum(-1, keepdim=True) - shares)
    equal = [_next(coefficients(rng, draws, K, True)) for K in (2, 3, 4, 6)]
    free = coefficients(rng, 1000, 5, False)
    rising = np.mean(free[:, 0] > free[:, -1])
    check = partial(check, draws=3 * draws)
    yield check(
        worst(*equal[1:]),
        1 - 1e-9,
        {
            "two fields": worst(equal[0]),
            "one law at three sizes": float(np.median(delta)),
            "one law at three sizes: the sum over other fields alone": float(np.median(others)),
        },
        part=r"the factor in $\beta_k$ ($\delta_k$)",
        note=r"$\delta_k$ of a field over that of the field with the next larger $d_k$: all $b_k$ "
        rf"equal, three fields or more. (With $b_k$ drawn apart from $d_k$, $\delta_k$ of the "
        f"largest of five fields exceeds that of the smallest in {rising:.0%}.) Fails where two "
        r"fields share all, and where $b_k$ goes with the size: of one law at sizes $1$ and $t<1$ "
        r"$\delta_2=t^{-2}\delta_1$, as "
        r"$\delta_1\Delta_1\Delta_1^\top=\delta_2\Delta_2\Delta_2^\top$.",
    )
    bare, alone, still = (speeds[k] for k in ("no factor", "one size", "one size, no factor"))
    yield check(
        float(np.median(alone[:, 0])),
        0.3,
        {"without the factor": float(np.median(still[:, 0]))},
        part="the cause",
        note=r"The factor alone: $\|\dot w_k\|$ of the second field over that of the first, the "
        r"$\lambda-d_k$ of sizes $1,\frac13,\frac1{10}$, $b_k$ and $A_k$ of one size. (The third "
        f"over the second: {np.median(alone[:, 1]):.2f}.) It is not the only cause: without it, "
        f"with the sizes left in, the ratio is {np.median(bare[:, 0]):.1g}, through $b_k^2$ in "
        "$s_k^2$ and through $A_k$.",
    )


def rem21(draws: int, seed: int) -> Iterator[Check]:
    """sigma_k^2 and d_k behind BatchNorm by enumeration; fields of random size.

    Controls: terms dropped; no BatchNorm; sigma of another field.
    """
    check = partial(Check, "nl/rem21")
    rng = ref.generator("rem21", seed)
    draws = max(draws, 60)  # the last part compares medians
    model, W = net_of(rng, draws, 2, 4, 1)
    pair = pair_of(model, W, "relu")
    bn, sigma = normalised(pair)
    variance = np.diagonal(outputs(pair.law, W), axis1=1, axis2=2)
    yield check(
        worst(relative(sigma**2, variance)),
        1e-11,
        {"d_k alone": middle(relative(pair.d, variance))},
        draws=draws,
        part="sigma^2",
    )
    ratio = pair.scale[:, None] * pair.b**2 / pair.d
    direct = pair.d.numpy() / variance
    yield check(
        worst(relative(1 / (1 + ratio), direct)),
        1e-8,
        {"1 - for 1 / (1 +": middle(relative(1 - ratio, direct))},
        draws=draws,
        part="d_k behind BatchNorm",
    )
    factors = 10 ** rng.uniform(-1, 1, (draws, 4))
    moved = pair_of(_stretched(model, factors), W, "relu")
    after, own = normalised(moved)
    yield check(
        worst(relative(after.d, bn.d)),
        1e-10,
        {"without BatchNorm": middle(relative(moved.d, pair.d))},
        draws=draws,
        part="size of the inputs",
        note="Fields scaled by random factors between 1/10 and 10.",
    )
    spread = []
    another = torch.from_numpy(np.roll(own, 1, -1))
    wrong = moved._replace(d=moved.d / another**2, b=moved.b / another)
    for q in (after, moved, wrong):
        gaps = two_layer.top_of_rank_one(q.d, q.b, q.scale).gaps.numpy()
        spread.append(np.log(gaps.max(-1) / gaps.min(-1)))
    middle_ratio, high_ratio = np.exp(np.quantile(spread[0], [0.5, 0.9]))
    yield check(
        float(np.median(spread[0]) / np.median(spread[1])),
        0.5,
        {"sigma of another field": float(np.median(spread[2]) / np.median(spread[1]))},
        draws=draws,
        part="more uniform",
        note=r"Median log ratio of the largest $\lambda-d_k$ to the least, over the one without. "
        rf"Almost constant is too much: that ratio is {middle_ratio:.1f} in the median, and "
        f"{high_ratio:.1f} or more in every tenth net.",
    )
