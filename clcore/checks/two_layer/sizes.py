"""Fields of different size: what slows the small ones, and what BatchNorm evens out (nl App. D).

Closed forms of `clcore.theory.two_layer.two_layer` with their factors taken out one by one.
"""

import numpy as np
import torch

from clcore.checks.two_layer.batchnorm import normalised
from clcore.checks.two_layer.fields.latent import Law, enumerated, net_of
from clcore.checks.two_layer.modulation.top import Pair, closed_form, outputs, pair_of, pull_of
from clcore.ledger import Trial, check, pooled, typical
from clcore.reference import Array, relative, tensors, unit
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
    s = unit(b / gaps.numpy())
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
    """Receptive fields of small variance learn slowly without BatchNorm (App. D).

    Given   three fields with a common latent, one ReLU filter each, whose d_k differ a lot: one law
            and one filter at sizes 1, 1/3, 1/10.
    Claim   fields with smaller d_k turn more slowly, because of the factor 1/(lambda - d_k), in
            s_k^2 and in delta_k (printed beta_k). Corrected: delta_k falls with d_k where the b_k
            are equal and there are three fields or more.
    Fails   for delta_k where the inputs differ in size; behind BatchNorm all fields turn alike.
            Controls: the factor left out or upside down; for delta_k two fields, and its sum over
            the other fields without the factor.
    """
    draws = max(t.draws, 50)  # medians are compared
    model, W = _alike(t.rng, draws, 3)
    factors = np.tile([1.0, 1 / 3, 0.1], (draws, 1))
    pair, even = (pair_of(m, W, "relu") for m in (_stretched(model, factors), model))
    bn, _ = normalised(pair)
    w = torch.from_numpy(W)[:, :, 0]
    top, level = pair.top(), bn.top()

    # The factor of a field over that of the next larger one: below 1.
    factor = _next(1 / top.gaps)
    p = t.part("the factor", 1 - 1e-6).add(factor)
    p.breaks("with BatchNorm", _next(1 / level.gaps))

    # The factor in s_k^2: it falls by more than b_k^2 does.
    plain = pair.b / pair.b.norm(dim=-1, keepdim=True)
    weights, sizes = _next(top.s**2), _next(pair.b**2)
    p = t.part("the factor in $s_k^2$", 1 - 1e-9).add(weights / sizes)
    p.breaks("without the factor", _next(plain**2) / sizes)
    p.breaks("factor upside down", 1 / factor**2).says(b=sizes.max(), s=weights.max())

    # The same ratio of the speeds |w_k'| on the sphere, its median.
    p = t.part("speed", 0.3, measured=pooled, controls=pooled, draws=draws)
    p.add(_next(speed(pair, top.gaps, w)))
    p.breaks("with BatchNorm", _next(speed(bn, level.gaps, w)))

    # The same ratio of delta_k: of one law at three sizes; corrected, of equal b_k.
    name = r"the factor in $\beta_k$ ($\delta_k$)"
    printed = t.part(name, 1 - 1e-9, controls=pooled)
    printed.add(_next(two_layer.modulation(top, pair.b, pair.scale))[:, 0])
    again = np.linalg.eigh(outputs(pair.law, W))[1][..., -1]
    pull = pull_of(again, pair.b.numpy(), pair.scale.numpy())
    printed.fails_by(pull[:, 1] / pull[:, 0], within=1e-5)
    two, *more = (_next(coefficients(t.rng, draws, K, True)) for K in (2, 3, 4, 6))
    mended = t.corrected(name, 1 - 1e-9, controls=pooled, draws=3 * draws).add(*more)
    mended.breaks("one law at three sizes", printed.errors[0])
    shares = pair.b**2 / top.gaps
    others = _next(shares.sum(-1, keepdim=True) - shares)
    for part in (printed, mended):
        part.breaks("two fields", two.max())
        part.breaks("one law at three sizes: the sum over other fields alone", others)
    free = coefficients(t.rng, 1000, 5, False)
    printed.says(rising=np.mean(free[:, 0] > free[:, -1]))

    # Speeds by the factor alone: lambda - d_k of three sizes, b_k and A_k of one size.
    one = torch.ones_like(top.gaps)
    bare = _next(speed(pair, one, w))
    alone, still = (_next(speed(even, gaps, w)) for gaps in (top.gaps, one))
    p = t.part("the cause", 0.3, measured=pooled, controls=pooled, draws=3 * draws)
    p.add(alone[:, 0]).breaks("without the factor", still[:, 0])
    p.says(third=np.median(alone[:, 1]), bare=np.median(bare[:, 0]))


@check("nl/rem21")
def rem21(t: Trial) -> None:
    """BatchNorm makes the variances of receptive fields more uniform (App. D).

    Given   four fields with a common latent z of two classes, one ReLU filter each; r_k is the
            correlation of f_k with z, r_k^2 = p_0 p_1 b_k^2 / V[f_k], b_k = w_k . Delta_k.
    Claim   sigma_k^2 = V[f_k] and d_k^bn = 1 - r_k^2, so that the fields' sizes do not matter; the
            d_k^bn are more uniform than the d_k, and lambda^bn - d_k^bn almost constant: largest
            over least 1.25 at most, in the median over draws (a bound of ours).
    Fails   "more uniform" where the d_k are alike, "almost constant" where the r_k are not.
            Corrected: where the d_k differ by more than 1 / min d_k^bn, the d_k^bn differ less; and
            lambda^bn - d_k^bn differ by at most the factor by which the r_k do. Controls: d_k for
            sigma_k^2, r_k^2/(1 - r_k^2) for r_k^2, no BatchNorm, sigma of another field, the
            factor's root (half of its logarithm).
    """
    draws = max(t.draws, 60)  # one part compares medians
    model, W = net_of(t.rng, draws, 2, 4, 1)
    alike, law = pair_of(model, W, "relu"), enumerated(model, W, "relu")
    sized = pair_of(_stretched(model, 10 ** t.rng.uniform(-1, 1, (draws, 4))), W, "relu")
    bn, sigma = normalised(alike)
    bn_sized, sigma_sized = normalised(sized)
    variance = np.diagonal(outputs(law, W), axis1=1, axis2=2)
    within = _within(model, law, W)

    # sigma_k^2 and d_k^bn, against enumeration; `ratio`, the control's r, is r_k^2/(1 - r_k^2).
    part = t.part("sigma^2", 1e-11, controls=typical).add(relative(sigma**2, variance))
    part.breaks("d_k alone", relative(alike.d, variance))
    ratio = alike.scale[:, None] * alike.b**2 / alike.d
    part = t.part("d_k behind BatchNorm", 1e-8, controls=typical)
    part.add(relative(1 / (1 + ratio), within / variance))
    part.breaks("1 - r for 1 / (1 + r)", relative(1 - ratio, within / variance))

    # The same fields at other sizes.
    part = t.part("size of the inputs", 1e-10, controls=typical)
    part.add(relative(bn_sized.d, bn.d)).breaks("without BatchNorm", relative(sized.d, alike.d))

    # d_k^bn is more uniform than d_k: not if these are alike, but if they differ enough.
    levelled = alike._replace(d=alike.d / alike.d, b=alike.b / alike.d.sqrt())
    printed = t.part("more uniform than d_k", 1e-9, controls=typical)
    printed.add(_spread(normalised(levelled)[0].d) - _spread(levelled.d))
    printed.fails_by(_spread(within / variance))
    printed.says(share=(_spread(bn.d) > _spread(alike.d)).mean())
    mended = t.corrected("more uniform than d_k", 1e-9, controls=typical)
    enough = _spread(sized.d) >= -bn_sized.d.log().amin(-1).numpy()
    mended.add((_spread(bn_sized.d) - _spread(sized.d))[enough])
    foreign = sized._replace(d=sized.d / torch.from_numpy(np.roll(sigma_sized, 1, -1)) ** 2)
    for part in (printed, mended):
        part.breaks("sigma of another field", (_spread(foreign.d) - _spread(sized.d))[enough])

    # lambda^bn - d_k^bn is almost constant: to the factor by which the r_k differ.
    even = _spread(bn_sized.top().gaps)
    constant = t.part("almost constant", np.log(ALMOST), draws=draws).add(np.median(even))
    bare = np.median(_spread(sized.top().gaps))
    constant.breaks("without BatchNorm", bare)
    correlation = outputs(law, W) / np.sqrt(variance[:, :, None] * variance[:, None])
    again = _spread(np.linalg.eigvalsh(correlation)[:, -1:] - within / variance)
    constant.fails_by(np.median(again), within=1e-6)
    quantiles = (np.exp(np.quantile(v, [0.5, 0.9])) for v in (even, again))
    own, confirmed = (dict(zip(("median", "tenth"), q, strict=True)) for q in quantiles)
    constant.says(**own, almost=ALMOST, bare=np.exp(bare)).confirms(within=1e-6, **confirmed)
    bound = t.corrected("almost constant", 1e-9, controls=pooled)
    bound.add(even - _spread(bn.b.abs()))  # r_k^2 is p_0 p_1 (b_k^bn)^2
    two = bn._replace(d=bn.d[:, :2], b=bn.b[:, :2])  # two fields attain it
    apart, gaps = _spread(two.b.abs()), _spread(two.top().gaps)
    unlike = apart > 0.1  # else half of nothing bounds nothing
    bound.add(gaps - apart).breaks("half of the factor", (gaps - apart / 2)[unlike])


def _within(model: field_latent.Model, law: Law, W: Array) -> Array:
    """d_k = E_z V[f_k | z], [draws, K], from the enumerated covariances given z; M = 1."""
    draws, K, _, d = W.shape
    given = np.einsum("cbij,bc->bij", np.stack(law.given), model.prior.numpy())
    blocks = given.reshape(draws, K, d, K, d)
    return np.einsum("bki,bkikj,bkj->bk", W[:, :, 0], blocks, W[:, :, 0])


def _spread(values: torch.Tensor | Array) -> Array:
    """[draws]: the logarithm of the largest over the least."""
    values = np.asarray(values)
    return np.log(values.max(-1) / values.min(-1))
