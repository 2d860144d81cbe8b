"""Fields of different size: what slows the small ones, and what BatchNorm evens out (nl App. D).

Closed forms of `clcore.theory.two_layer.two_layer` with their factors taken out one by one.
"""

import numpy as np
import torch

from clcore.checks.two_layer.batchnorm import normalised
from clcore.checks.two_layer.fields.latent import net_of
from clcore.checks.two_layer.modulation.top import Pair, closed_form, outputs, pair_of, pull_of
from clcore.ledger import Trial, check, pooled, typical
from clcore.reference import Array, relative, tensors
from clcore.theory.two_layer import field_latent, two_layer

ALMOST = 1.25  # the largest over the least that still is "almost constant"; ours


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


@check("nl/rem20")
def rem20(t: Trial) -> None:
    """Fields of one law at sizes 1, 1/3, 1/10: how fast their filters turn, and what the factor
    1/(lambda - d_k) does to it alone, b_k and A_k of one size; delta_k of fields with equal b_k.

    Controls: the same fields behind BatchNorm, which move alike; the factor left out, or upside
    down; two fields only; sizes left in.
    """
    draws = max(t.draws, 50)  # medians are compared
    model, W = _alike(t.rng, draws, 3)
    factors = np.tile([1.0, 1 / 3, 0.1], (draws, 1))
    pair, even = (pair_of(m, W, "relu") for m in (_stretched(model, factors), model))
    bn, _ = normalised(pair)
    w = torch.from_numpy(W)[:, :, 0]
    top, level = (two_layer.top_of_rank_one(q.d, q.b, q.scale) for q in (pair, bn))
    factor = _next(1 / top.gaps)
    p = t.part("the factor", 1 - 1e-9).add(factor)
    p.breaks("with BatchNorm", _next(1 / level.gaps))
    plain = pair.b / pair.b.norm(dim=-1, keepdim=True)
    weights, sizes = _next(top.s**2), _next(pair.b**2)
    p = t.part("the factor in $s_k^2$", 1 - 1e-9).add(weights / sizes)
    p.breaks("without the factor", _next(plain**2) / sizes)
    p.breaks("factor upside down", 1 / factor**2).says(b=sizes.max(), s=weights.max())
    p = t.part("speed", 0.3, measured=pooled, controls=pooled, draws=draws)
    p.add(_next(speed(pair, top.gaps, w)))
    p.breaks("with BatchNorm", _next(speed(bn, level.gaps, w)))
    _coefficients_rise(t, draws, pair, top)
    one = torch.ones_like(top.gaps)
    bare = _next(speed(pair, one, w))
    alone, still = (_next(speed(even, gaps, w)) for gaps in (top.gaps, one))
    p = t.part("the cause", 0.3, measured=pooled, controls=pooled, draws=3 * draws)
    p.add(alone[:, 0]).breaks("without the factor", still[:, 0])
    p.says(third=np.median(alone[:, 1]), bare=np.median(bare[:, 0]))


def _coefficients_rise(t: Trial, draws: int, pair: Pair, top: two_layer.Top) -> None:
    """delta_k of a field over that of the field with the next larger d_k, all b_k equal."""
    p = t.part(r"the factor in $\beta_k$ ($\delta_k$)", 1 - 1e-9, controls=pooled, draws=3 * draws)
    shares = pair.b**2 / top.gaps
    others = _next(shares.sum(-1, keepdim=True) - shares)
    two, *more = (_next(coefficients(t.rng, draws, K, True)) for K in (2, 3, 4, 6))
    p.add(*more).breaks("two fields", two.max())
    law = _next(two_layer.modulation(top, pair.b, pair.scale))
    p.breaks("one law at three sizes", law)
    p.breaks("one law at three sizes: the sum over other fields alone", others)
    free = coefficients(t.rng, 1000, 5, False)
    p.says(rising=np.mean(free[:, 0] > free[:, -1]))


@check("nl/rem21")
def rem21(t: Trial) -> None:
    """sigma_k^2 and d_k behind BatchNorm by enumeration; fields of random size.

    Printed: lambda - d_k almost constant; corrected: more uniform. Controls: terms dropped; no
    BatchNorm; sigma of another field.
    """
    draws = max(t.draws, 60)  # the last part compares medians
    model, W = net_of(t.rng, draws, 2, 4, 1)
    pair = pair_of(model, W, "relu")
    bn, sigma = normalised(pair)
    variance = np.diagonal(outputs(pair.law, W), axis1=1, axis2=2)
    p = t.part("sigma^2", 1e-11, controls=typical).add(relative(sigma**2, variance))
    p.breaks("d_k alone", relative(pair.d, variance))
    ratio = pair.scale[:, None] * pair.b**2 / pair.d
    direct = pair.d.numpy() / variance
    p = t.part("d_k behind BatchNorm", 1e-8, controls=typical)
    p.add(relative(1 / (1 + ratio), direct))
    p.breaks("1 - for 1 / (1 +", relative(1 - ratio, direct))
    factors = 10 ** t.rng.uniform(-1, 1, (draws, 4))
    moved = pair_of(_stretched(model, factors), W, "relu")
    after, own = normalised(moved)
    p = t.part("size of the inputs", 1e-10, controls=typical).add(relative(after.d, bn.d))
    p.breaks("without BatchNorm", relative(moved.d, pair.d))
    another = torch.from_numpy(np.roll(own, 1, -1))
    wrong = moved._replace(d=moved.d / another**2, b=moved.b / another)

    def spread(q: Pair) -> Array:
        gaps = two_layer.top_of_rank_one(q.d, q.b, q.scale).gaps.numpy()
        return np.log(gaps.max(-1) / gaps.min(-1))

    even, bare, other = spread(after), np.median(spread(moved)), np.median(spread(wrong))
    constant = t.part("almost constant", np.log(ALMOST), draws=draws).add(np.median(even))
    constant.breaks("without BatchNorm", bare)
    correlation = outputs(pair.law, W) / np.sqrt(variance[:, :, None] * variance[:, None])
    gaps = np.linalg.eigvalsh(correlation)[:, -1:] - direct
    again = np.log(gaps.max(-1) / gaps.min(-1))
    constant.fails_by(np.median(again), within=1e-6)
    quantiles = (np.exp(np.quantile(v, [0.5, 0.9])) for v in (even, again))
    own, confirmed = (dict(zip(("median", "tenth"), q, strict=True)) for q in quantiles)
    constant.says(**own, almost=ALMOST, bare=np.exp(bare)).confirms(within=1e-6, **confirmed)
    p = t.corrected("almost constant", 0.5, draws=draws).add(np.median(even) / bare)
    p.breaks("sigma of another field", other / bare)
