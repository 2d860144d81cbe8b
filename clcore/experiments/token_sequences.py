"""Contrastive learning on token sequences with a two-layer net: nl Sec. 5, App. E.2.

A sequence has K fields, each with one of T tokens. A generator fixes the tokens of a few fields and
leaves wildcards elsewhere; two sequences of one generator are a positive pair. In field k, fixed
tokens come from a set R_k of P tokens only, so that all others are noise. The net has M = beta * P
filters per field and a linear top layer. Token a enters as zeta_a e_a, with e_a the standard basis.

Protocols: "paper" is what nl prints (loss as a sum over samples, BatchNorm over both views),
"released" what the authors' program does (means, BatchNorm per view). What the paper leaves open
(outputs of norm 1, temperature 0.1, 50 outputs) is the program's in both. More readings, at the
paper's rate: "t0.2", "t0.5", "t1" are "paper" at other temperatures; "mean" and "sum" have that of
the cross-entropies, without Eq. 1's factor tau; "raw" has Eq. 1 on outputs that are not scaled.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clcore import random as cr
from clcore.losses.infonce_family import cross_entropy_of_gaps
from clcore.nets.networks import ACTIVATIONS, receptive_field_init
from clcore.sweep import Result, train
from clcore.sweep.configs import Config
from clcore.sweep.optim import Params, unit_rows

TEMPERATURE, EPS, SLOPE = 0.1, 1e-5, 0.05
STEPS, BATCH, OUTPUTS = 5000, 128, 50
MOMENTUM, WEIGHT_DECAY = 0.9, 5e-3
MEANS = ("released", "mean")
RATES = {"paper": 2e-3, "released": 2e-2}
TEMPERATURES = {"t0.2": 0.2, "t0.5": 0.5, "t1": 1.0}
READINGS = RATES | {"mean": 2e-3, "sum": 2e-3, "raw": 2e-3} | dict.fromkeys(TEMPERATURES, 2e-3)
"""Learning rates of the two protocols, and of more readings of the paper's text."""
LOSSES = ("infonce", "quadratic")

# nl names no non-homogeneous activation; the program has a sigmoid.
NON_HOMOGENEOUS: dict[str, Callable] = {"sigmoid": torch.sigmoid, "tanh": torch.tanh}

NORMALISATIONS = {
    "none": None,
    "vanilla": (True, True),
    "variance": (False, True),
    "mean": (True, False),
    "neither": (False, False),
}
"""BatchNorm and what gradients pass through, (mean, variance): nl App. E.2."""


def _one_of(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"{name}: expected one of {', '.join(known)}, got {value!r}")


# ------------------------------------------------------------------------------------------ data


def generators(
    key: Int[Tensor, ""],
    in_set: int | Tensor,
    *,
    fields: int = 10,
    tokens: int = 20,
    count: int = 40,
    fixed: int = 5,
) -> tuple[Int[Tensor, "G K"], Bool[Tensor, "K T"]]:
    """Generators, with -1 for the wildcard, and R_k as a mask.

    R_k: `in_set` tokens drawn without replacement. A generator: `fixed` random fields, each with a
    token of R_k drawn uniformly.
    """
    allowed, places, picks = cr.split(key, 3)
    order = cr.permutation(allowed, tokens, fields)
    drawn = order.gather(1, cr.randint(picks, (fields, count), 0, in_set)).T
    at = cr.permutation(places, fields, count) < fixed
    # `order` as a permutation and its inverse are equally likely: its entries below P are a mask.
    return torch.where(at, drawn, -1), order.argsort(dim=1) < in_set


def views(
    key: Int[Tensor, ""], patterns: Int[Tensor, "G K"], batch: int, tokens: int
) -> Int[Tensor, "two N K"]:
    """Tokens of two views: those of sample i share one generator, and have separate wildcards."""
    which, wild = cr.split(key)
    pattern = patterns[cr.randint(which, batch, 0, patterns.shape[0])]
    filled = cr.small_randint(wild, (2, batch, patterns.shape[1]), tokens)
    return torch.where(pattern < 0, filled, pattern)


def norms(zeta: float | Float[Tensor, ""], tokens: int) -> Float[Tensor, "T"]:
    """|u_a|: 1/zeta for the first floor(T/2) tokens, zeta for the others (nl App. E.2).

    With an odd number of tokens it is the larger half that has norm zeta, as in the program.
    """
    zeta = torch.as_tensor(zeta)
    low = torch.arange(tokens, device=zeta.device) < tokens // 2
    return torch.where(low, 1 / zeta, zeta)


# ------------------------------------------------------------------------------------------- net


def activate(u: Float[Tensor, "..."], kind: str) -> Float[Tensor, "..."]:
    """An activation by name, homogeneous (slope 0.05 for the leaky ReLU) or not."""
    _one_of("activation", kind, (*ACTIVATIONS, *NON_HOMOGENEOUS))
    return NON_HOMOGENEOUS[kind](u) if kind in NON_HOMOGENEOUS else ACTIVATIONS[kind](u, SLOPE)


def batch_norm(
    h: Float[Tensor, "*units T"], weights: Float[Tensor, "*more T"], kind: str, eps: float = EPS
) -> Float[Tensor, "*all T"]:
    """BatchNorm of values that occur with given frequencies (sum 1 over the last axis); the other
    axes broadcast.

    kind, of NORMALISATIONS: where gradients stop; the values are the same for all but "none".
    """
    _one_of("norm", kind, tuple(NORMALISATIONS))
    if (through := NORMALISATIONS[kind]) is None:
        return h
    through_mean, through_variance = through
    mean = (h * weights).sum(-1, keepdim=True)
    centred = h - mean
    variance = (centred.square() * weights).sum(-1, keepdim=True)
    if not through_variance:
        variance = variance.detach()
    if not through_mean:
        centred = h - mean.detach()
    return centred * torch.rsqrt(variance + eps)


def outputs(
    params: Params,
    tokens: Int[Tensor, "two N K"],
    norms: Float[Tensor, "T"],
    activation: str,
    norm: str = "none",
    per_view: bool = False,
) -> Float[Tensor, "two N n"]:
    """Outputs of both views, V (BatchNorm of) h(W_k u_a); statistics over 2N samples or a view.

    A field sees T inputs only: all layers are evaluated once per token, an output sums K rows.
    """
    W, V = params["W"], params["V"]
    K, M, T = W.shape
    one_hot = torch.nn.functional.embedding(tokens, torch.eye(T, dtype=W.dtype, device=W.device))
    h = activate(W * norms, activation)  # K M T
    if norm != "none":
        counts = one_hot.mean(1)[:, :, None]  # views K 1 T
        if not per_view:
            counts = counts.mean(0, keepdim=True)
        h = batch_norm(h, counts, norm)  # 1 or 2 views, K M T
    table = h.transpose(-1, -2) @ V.reshape(-1, K, M).permute(1, 2, 0)  # (views) K T n
    rows = one_hot.flatten(2)
    if table.ndim == 4 and table.shape[0] == 2:
        return rows @ table.flatten(1, 2)
    return (rows.flatten(0, 1) @ table.reshape(K * T, -1)).unflatten(0, (2, -1))


# ------------------------------------------------------------------------------------------ loss


def loss(
    z: Float[Tensor, "two N n"],
    kind: str = "infonce",
    protocol: str = "paper",
    tau: float | None = None,
) -> Float[Tensor, ""]:
    """The loss of a batch, on outputs scaled to norm 1 (but for "raw"); negatives are first views.

    InfoNCE: nl Eq. 1 with epsilon = 1, tau times the sum of the N cross-entropies; "sum": their
    sum; "released", "mean": their mean. Quadratic: sum over i and j != i of alpha (d_i^2 - d_ij^2)
    with alpha = 1/N, so that a sample's weights have about the sum they have in InfoNCE;
    "released", "mean": -(1 + 1/N) mean of positives + mean of the N x N similarities, positives on
    the diagonal, over tau. tau: the protocol's unless given; errors: unknown names, tau < 0.025.
    """
    _one_of("kind", kind, LOSSES)
    _one_of("protocol", protocol, tuple(READINGS))
    tau = TEMPERATURES.get(protocol, TEMPERATURE) if tau is None else tau
    if not tau >= 0.025:
        raise ValueError(f"tau: expected at least 0.025 (float32 exponentials), got {tau}")
    if protocol == "raw":
        return _raw(z, kind, tau)
    # As torch's normalize, whose floor keeps a net with dead outputs finite.
    z = z * torch.rsqrt(z.square().sum(-1, keepdim=True).clamp(min=1e-24))
    a, b = z[0], z[1]
    n = a.shape[0]
    positive = (a * b).sum(-1)
    if kind == "quadratic":
        total = a.sum(0)
        others = (total * total).sum() - a.square().sum()  # sum over j != i
        if protocol not in MEANS:
            return (others - (n - 1) * positive.sum()) / n
        everything = (others + positive.sum()) / n**2
        return (everything - (1 + 1 / n) * positive.mean()) / tau
    own = torch.zeros(n, n, dtype=z.dtype, device=z.device).fill_diagonal_(-torch.inf)
    # Exponents are below 2 / tau: up to 6000 samples in single precision, no maximum is needed.
    gaps = (a / tau) @ a.T - (positive / tau)[:, None] + own
    entropy = cross_entropy_of_gaps(gaps, bounded=True)
    if protocol in MEANS:
        return entropy.mean()
    return entropy.sum() if protocol == "sum" else tau * entropy.sum()


def _raw(z: Float[Tensor, "two N n"], kind: str, tau: float) -> Float[Tensor, ""]:
    """nl Eq. 1 with epsilon = 1 on the outputs as they are."""
    _one_of("kind", kind, LOSSES[:1])
    a, b = z[0], z[1]
    lengths = a.square().sum(-1)
    # d_ij^2 by the Gram matrix: a sample's own entry is left out.
    far = (lengths[:, None] + lengths - 2 * a @ a.T) / 2
    near = (a - b).square().sum(-1) / 2
    own = torch.zeros_like(far).fill_diagonal_(-torch.inf)
    return tau * cross_entropy_of_gaps((near[:, None] - far) / tau + own).sum()


# --------------------------------------------------------------------------------------- metrics


def cosines(W: Float[Tensor, "*b K M T"]) -> Float[Tensor, "*b K T"]:
    """max_m cos(w_km, u_a): a token's best match among the filters of its field."""
    return unit_rows(W).amax(-2)


def matching(best: Float[Tensor, "*b K T"], chosen: Bool[Tensor, "*#b K T"]) -> Float[Tensor, "*b"]:
    """Mean over fields of the mean of `best` over the chosen tokens of the field.

    With R_k chosen it is nl's chi_+ (Eq. 16). With the others chosen it is chi_- (Eq. 181) but for
    the prefactor, printed 1/P, which is 1/(T - P) here: times (T - P)/P it is as printed. NaN where
    nothing is chosen.
    """
    return ((best * chosen).sum(-1) / chosen.sum(-1)).mean(-1)


def released_matching(
    W: Float[Tensor, "*b K M T"], chosen: Bool[Tensor, "*b K T"], linear: bool
) -> Float[Tensor, "*b"]:
    """The same as the program measures it: max|W_k|/1000 added to the norms, absolute values for
    a linear net, fields without a chosen token left out."""
    floor = (W.abs().amax((-1, -2), keepdim=True) / 1000).clamp(min=1e-6)
    ratio = W / (torch.linalg.vector_norm(W, dim=-1, keepdim=True) + floor)
    best = (ratio.abs() if linear else ratio).amax(-2)
    count = chosen.sum(-1)
    each = torch.where(count > 0, (best * chosen).sum(-1) / count.clamp(min=1), 0.0)
    return each.sum(-1) / (count > 0).sum(-1)


FOUND = ("all_found", "any_found", "other_found")


def found(
    best: Float[Tensor, "*b K T"], chosen: Bool[Tensor, "*#b K T"], above: float = 0.9
) -> dict[str, Float[Tensor, "*b"]]:
    """Shares of the fields in which each, or any, chosen token has a filter with a cosine above
    `above`, and in which a token that is not chosen has one."""
    has = best > above
    shares = (has | ~chosen).all(-1), (has & chosen).any(-1), (has & ~chosen).any(-1)
    return {name: share.to(best.dtype).mean(-1) for name, share in zip(FOUND, shares, strict=True)}


# --------------------------------------------------------------------------------------- the runs


def configuration(
    seed: int,
    P: int,
    beta: int,
    activation: str = "relu",
    kind: str = "infonce",
    protocol: str = "paper",
    norm: str = "none",
    zeta: float = 1.0,
    *,
    lr: float | None = None,
    weight_decay: float = WEIGHT_DECAY,
    fields: int = 10,
    tokens: int = 20,
    generators: int = 40,
    fixed: int = 5,
    batch: int = BATCH,
    confined: bool = True,
) -> Config:
    """One run: P tokens in R_k, beta * P filters a field; the rate is the protocol's unless given.

    confined: generators draw their tokens from R_k, or, as a control, from all tokens.
    Errors: sizes that do not fit, zeta <= 0, an unknown name.
    """
    _one_of("activation", activation, (*ACTIVATIONS, *NON_HOMOGENEOUS))
    _one_of("kind", kind, LOSSES)
    _one_of("protocol", protocol, tuple(READINGS))
    _one_of("norm", norm, tuple(NORMALISATIONS))
    sizes = {"beta": beta, "fields": fields, "tokens": tokens, "generators": generators}
    for name, value in (sizes | {"batch": batch}).items():
        least = 2 if name == "batch" else 1
        if int(value) != value or value < least:
            raise ValueError(f"{name}: expected an int >= {least}, got {value}")
    if int(P) != P or not 1 <= P <= tokens:
        raise ValueError(
            f"P: expected 1 to {tokens} tokens in a field's set, got {P}; there are {tokens} tokens"
        )
    if int(fixed) != fixed or not 0 <= fixed <= fields:
        raise ValueError(
            f"fixed: expected 0 to {fields} fixed positions, got {fixed}; there are {fields} fields"
        )
    if not 0 < zeta < math.inf:
        raise ValueError(f"zeta: expected a norm above 0, got {zeta}")
    sizes["filters"] = sizes["beta"] * P
    names = {"activation": activation, "kind": kind, "protocol": protocol, "norm": norm}
    rate = READINGS[protocol] if lr is None else lr
    sgd = {"lr": rate, "momentum": MOMENTUM, "weight_decay": weight_decay}
    run = {"seed": seed, **sgd, "P": P, "zeta": zeta, "fixed": fixed, "batch": batch}
    return run | sizes | names | {"confined": bool(confined)}


def _setup(key: Tensor, c: Config) -> dict[str, Tensor]:
    sizes = {"fields": c["fields"], "tokens": c["tokens"], "count": c["generators"]}
    P = c["P"].long()
    patterns, in_set = generators(key, P, fixed=c["fixed"], **sizes)
    if not c["confined"]:
        patterns, _ = generators(key, torch.full_like(P, c["tokens"]), fixed=c["fixed"], **sizes)
    present = (patterns[:, :, None] == torch.arange(c["tokens"])).any(0)
    found = {"patterns": patterns, "in_set": in_set, "present": present}
    return found | {"norms": norms(c["zeta"], c["tokens"])}


def _init(key: Tensor, c: Config) -> Params:
    return receptive_field_init(key, c["fields"], c["filters"], c["tokens"], OUTPUTS)


def _ahead(key: Tensor, step: Tensor, c: Config) -> dict[str, Tensor]:
    """The views of a step, which do not hang on what was learned before it."""
    return {"views": _data(cr.fold_in(key, step), step, c)[None]}


def _data(key: Tensor, step: Tensor, c: Config) -> Tensor:
    return c["views"] if "views" in c else views(key, c["patterns"], c["batch"], c["tokens"])


def _loss(params: Params, batch: Tensor, c: Config) -> Tensor:
    released = c["protocol"] == "released"
    z = outputs(params, batch, c["norms"], c["activation"], c["norm"], per_view=released)
    return loss(z, c["kind"], c["protocol"])


def _metrics(params: Params, c: Config) -> dict[str, Tensor]:
    W, R, seen = params["W"], c["in_set"], c["present"]
    best, linear = cosines(W), c["activation"] == "linear"
    # A field where no token is outside R_k (P = T) has no irrelevant match.
    return {
        "chi_plus": matching(best, R),
        "chi_minus": matching(best, ~R),
        "released_plus": released_matching(W, seen, linear),
        "released_minus": released_matching(W, ~seen, linear),
        **found(best, R),
    }


PROBLEM: dict[str, Any] = {
    "init": _init,
    "ahead": _ahead,
    "data": _data,
    "loss": _loss,
    "setup": _setup,
    "static": ("fields", "tokens", "generators", "filters", "fixed", "batch", "confined"),
}
"""The functions of one run, as `sweep.train` takes them."""


def run(
    configs: Sequence[Config],
    steps: int = STEPS,
    record: Sequence[int] | int | None = None,
    device: str | torch.device = "cpu",
    chunk: int | None = None,
    checkpoint: Path | str | None = None,
    stop_after: float | None = None,
    progress: bool = True,
) -> Result:
    """Train one run per configuration; all runs of one shape are one tensor.

    Recorded, at step 0 (random filters) and at the end at least: chi_plus and chi_minus
    (`matching`), released_plus and released_minus, whose R_k are the tokens that occur in a
    generator, and the shares of `found`.
    """
    return train(
        configs,
        **PROBLEM,
        steps=steps,
        metrics=_metrics,
        record=record,
        device=device,
        chunk=chunk,
        checkpoint=checkpoint,
        stop_after=stop_after,
        progress=progress,
    )
