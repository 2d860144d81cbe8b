"""What the top layer sends down when z has two values (nl Theorem 5, App. C.3).

numpy's eigenvectors and enumerated covariances meet the closed forms of
`clcore.theory.two_layer.two_layer`.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.two_layer.latent import Law, enumerated, middle, net_of, table_of
from clcore.ledger import Check
from clcore.reference import Array, relative, tensors, typical, worst
from clcore.theory.two_layer import field_latent, two_layer


class Pair(NamedTuple):
    """C = 2, M = 1: d, b [draws, K], p_0 p_1 [draws], L [draws, K, d, d], Delta [draws, K, d],
    and the enumerated law."""

    d: torch.Tensor
    b: torch.Tensor
    scale: torch.Tensor
    L: torch.Tensor
    delta: torch.Tensor
    law: Law


def pair_of(model: field_latent.Model, W: Array, kind: str) -> Pair:
    g = table_of(model, W, kind)
    w = torch.from_numpy(W)[:, :, 0]
    L = field_latent.within(model, g)
    delta = field_latent.contrasts(model, g)[:, 1]
    d = torch.einsum("bki,bkij,bkj->bk", w, L, w)
    return Pair(d, (w * delta).sum(-1), model.prior.prod(-1), L, delta, enumerated(model, W, kind))


def outputs(law: Law, W: Array) -> Array:
    """V[f_1], [draws, K, K], from V of the gated inputs; M = 1."""
    draws, K, _, d = W.shape
    blocks = law.covariance.reshape(draws, K, d, K, d)
    w = W[:, :, 0]
    return np.einsum("bki,bkilj,blj->bkl", w, blocks, w)


def velocity(law: Law, W: Array, s: Array) -> Array:
    """Lemma 4's block sum for S = s s^T, M = 1, before the projection: [draws, K, d]."""
    draws, K, _, d = W.shape
    blocks = law.covariance.reshape(draws, K, d, K, d)
    out = np.zeros((draws, K, d))
    for k in range(K):
        for j in range(K):
            move = (blocks[:, k, :, j] @ W[:, j, 0, :, None])[..., 0]
            out[:, k] += (s[:, k] * s[:, j])[:, None] * move
    return out


def eq134(draws: int, seed: int) -> Iterator[Check]:
    """V[f_1] = D + p_0 p_1 b b^T, by enumeration; its top eigenvalue. Controls: terms dropped."""
    check = partial(Check, "nl/eq134")
    rng = ref.generator("eq134", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    for kind in ("linear", "relu"):
        model, W = net_of(rng, ref.share(draws, 2), 2, 4, 1)
        pair = pair_of(model, W, kind)
        V = outputs(pair.law, W)
        rank_one = pair.scale[:, None, None] * pair.b[:, :, None] * pair.b[:, None]
        found["V"].append(relative(torch.diag_embed(pair.d) + rank_one, V))
        found["V, D"].append(relative(torch.diag_embed(pair.d), V))
        coupled = outputs(enumerated(model, W, kind, 0.5), W)
        found["V, coupled"].append(relative(torch.diag_embed(pair.d) + rank_one, coupled))
        top = np.linalg.eigvalsh(V)[:, -1]
        found["top"].append((top - pair.d.numpy().max(-1)) / top)
        less = np.linalg.eigvalsh((torch.diag_embed(pair.d) - rank_one).numpy())[:, -1]
        found["top, minus"].append((less - pair.d.numpy().max(-1)) / top)
    total = 2 * ref.share(draws, 2)
    yield check(
        worst(*found["V"]),
        1e-11,
        {
            "D alone": middle(*found["V, D"]),
            "fields coupled given z": middle(*found["V, coupled"]),
        },
        draws=total,
        part="Eq. 138",
    )
    yield check(
        ref.best(*found["top"]),
        -1e-12,
        {"minus the rank-one term": middle(*found["top, minus"])},
        draws=total,
        part="top eigenvalue",
        relation=">=",
        note="Its least excess over max d_k, as a share of it.",
    )


def secular(rng: np.random.Generator, draws: int) -> Iterator[tuple[Array, Array, Array]]:
    """(d, b, p_0 p_1): generic, widely spread, and with the two largest d alike; no tiny b."""
    for K in (2, 5, 10):
        p = rng.uniform(0.05, 0.95, draws)
        b = rng.choice([-1, 1], (draws, K)) * rng.uniform(0.3, 2, (draws, K))
        d = rng.random((draws, K))
        yield d, b, p * (1 - p)
        yield 10 ** rng.uniform(-2, 2, (draws, K)), b, p * (1 - p)
        d[:, 1] = d[:, 0] = 1.0
        yield d, b, p * (1 - p)


def pull_of(s: Array, b: Array, scale: Array) -> Array:
    """p_0 p_1 s_k sum_k'!=k s_k' b_k' / b_k: what delta_k stands for, for any vector s."""
    return scale[:, None] * s * ((s * b).sum(-1, keepdims=True) - s * b) / b


def solved(d: Array, b: Array, scale: Array, rank: int = -1) -> tuple[Array, Array]:
    """(lambda, s) of diag(d) + scale b b^T by numpy: the top pair, or the one of another rank."""
    matrix = d[:, :, None] * np.eye(d.shape[1]) + scale[:, None, None] * b[:, :, None] * b[:, None]
    values, vectors = np.linalg.eigh(matrix)
    return values[:, rank], vectors[..., rank]


def eq139(draws: int, seed: int) -> Iterator[Check]:
    """The top eigenvector of diagonal plus rank one, against numpy's; where it is defined.

    Controls: b_k / d_k, b alone; b = 0 at the largest d.
    """
    check = partial(Check, "nl/eq139")
    rng = ref.generator("eq139", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    for d, b, scale in secular(rng, draws):
        top = two_layer.top_of_rank_one(*tensors(d, b, scale))
        value, s = solved(d, b, scale)

        def off(v: Array, s: Array = s) -> Array:
            v = v / np.linalg.norm(v, axis=-1, keepdims=True)
            return np.minimum(np.abs(v - s).max(-1), np.abs(v + s).max(-1))

        found["s"].append(off(b / (d - value[:, None])))
        found["ours"] += [off(top.s.numpy()), relative(top.value, value)]
        found["s, b/d"].append(off(b / d))
        found["s, b"].append(off(b))
        gap = value - d.max(-1)
        found["zero"].append(np.abs(1 - scale * (b**2 / top.gaps.numpy()).sum(-1)))
        found["zero, plus"].append(np.abs(1 + scale * (b**2 / top.gaps.numpy()).sum(-1)))
        at = np.take_along_axis(b, d.argmax(-1)[:, None], -1)[:, 0]
        found["strict"].append(gap / (scale * at**2))
        tall, none = d.copy(), b.copy()
        tall[:, 0], none[:, 0] = d.max(-1) + 10 * (b**2).sum(-1), 0.0
        level, _ = solved(tall, none, scale)
        found["strict, 0"].append((level - tall[:, 0]) / (scale * (b**2).sum(-1)))
    total = 9 * draws
    yield check(
        worst(*found["s"], *found["ours"]),
        1e-7,
        {"$b_k/d_k$": middle(*found["s, b/d"]), "b": middle(*found["s, b"])},
        draws=total,
        part="s",
        note="Formula with numpy's eigenvalue, and with the root of the secular equation.",
    )
    yield check(
        worst(*found["zero"]),
        1e-10,
        {"sign": typical(*found["zero, plus"])},
        draws=total,
        part="secular equation",
    )
    yield check(
        ref.best(*found["strict"]),
        1 - 1e-6,
        {"$b=0$ at the largest d": middle(*found["strict, 0"])},
        draws=total,
        part="well defined",
        relation=">=",
        note=r"$\lambda-d_{k^*}$ over $p_0p_1b_{k^*}^2$: never below 1, and 1 only if the other "
        "$b_k$ vanish. Tied $d_k$ do no harm.",
    )


def thm5(draws: int, seed: int) -> Iterator[Check]:
    """Lemma 4's velocity with numpy's top eigenvector and enumerated covariances, against Eq. 15.

    Controls: no modulation; delta_k as the last sentence of the proof has it; fields coupled.
    """
    check = partial(Check, "nl/thm5")
    rng = ref.generator("thm5", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    cases = (("linear", 2), ("relu", 3), ("relu", 4), ("leaky_relu", 3))
    count = ref.share(draws, len(cases))
    for kind, K in cases:
        model, W = net_of(rng, count, 2, K, 1)
        pair = pair_of(model, W, kind)
        _, s = np.linalg.eigh(outputs(pair.law, W))
        direct = velocity(pair.law, W, s[..., -1])
        coupled = velocity(enumerated(model, W, kind, 0.5), W, s[..., -1])
        top = two_layer.top_of_rank_one(pair.d, pair.b, pair.scale)
        delta = two_layer.modulation(top, pair.b, pair.scale)
        short = 1 - pair.scale[:, None] * pair.b**2 / top.gaps
        w = torch.from_numpy(W)[:, :, 0]
        for name, strength in (("", delta), ("zero", 0 * delta), ("short", short)):
            ours = closed_form(pair, top, strength, w)
            found["free " + name].append(relative(ours, direct))
            found["sphere " + name].append(relative(tangent(w, ours), tangent(w, direct)))
        found["free coupled"].append(relative(closed_form(pair, top, delta, w), coupled))
        b, scale = pair.b.numpy(), pair.scale.numpy()
        found["sign"].append(pull_of(s[..., -1], b, scale))
        found["sign, bottom"].append(pull_of(s[..., 0], b, scale).min(-1))
    total = count * len(cases)
    for part, key in (("with the projection", "sphere "), ("without it", "free ")):
        yield check(
            worst(*found[key]),
            1e-7,
            {
                r"$\delta_k=0$": middle(*found[key + "zero"]),
                r"$\delta_k$ of the proof's last sentence": middle(*found[key + "short"]),
                "fields coupled given z": middle(*found["free coupled"]),
            },
            draws=total,
            part=part,
        )
    yield check(
        ref.best(*found["sign"]),
        0.0,
        {"the bottom eigenvector": typical(*found["sign, bottom"])},
        draws=total,
        part="delta_k is not negative",
        relation=">=",
    )


def tangent(w: torch.Tensor, move: torch.Tensor | Array) -> torch.Tensor:
    move = torch.as_tensor(move)
    return move - (w * move).sum(-1, keepdim=True) * w


def closed_form(pair: Pair, top: two_layer.Top, delta: torch.Tensor, w: torch.Tensor):
    """(s_k^2 V[x_k] + delta_k Delta_k Delta_k^T) w_k, V = L_k + p_0 p_1 Delta_k Delta_k^T."""
    along = (pair.delta * w).sum(-1, keepdim=True) * pair.delta
    A = (pair.L @ w[..., None])[..., 0] + pair.scale[:, None, None] * along
    return top.s[..., None] ** 2 * A + delta[..., None] * along


def eq143(draws: int, seed: int) -> Iterator[Check]:
    """delta_k against the sum over other fields that it stands for, s by numpy.

    Controls: its own field in the sum; without 1/Z^2; the bottom eigenvector for s.
    """
    check = partial(Check, "nl/eq143")
    rng = ref.generator("eq143", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    for d, b, scale in secular(rng, draws):
        top = two_layer.top_of_rank_one(*tensors(d, b, scale))
        ours = two_layer.modulation(top, *tensors(b, scale)).numpy()
        _, s = solved(d, b, scale)
        direct = pull_of(s, b, scale)
        own = scale[:, None] * s * (s * b).sum(-1, keepdims=True) / b
        found["delta"].append(relative(ours, direct))
        found["own"].append(relative(own, direct))
        found["Z"].append(relative(ours * top.Z.numpy()[:, None] ** 2, direct))
        found["least"].append(direct.min(-1))
        found["bottom"].append(pull_of(solved(d, b, scale, 0)[1], b, scale).min(-1))
    yield check(
        worst(*found["delta"]),
        1e-6,
        {"own field in the sum": middle(*found["own"]), "without $1/Z^2$": middle(*found["Z"])},
        draws=9 * draws,
        part="Eq. 143",
    )  # fmt: skip
    yield check(
        ref.best(*found["least"]),
        0.0,
        {"the bottom eigenvector": typical(*found["bottom"])},
        draws=9 * draws,
        part="not negative",
        relation=">=",
    )


def rem17(draws: int, seed: int) -> Iterator[Check]:
    """The short form of delta_k at the end of the proof, against Eq. 143.

    Controls: other signs and a missing p_0 p_1.
    """
    check = partial(Check, "nl/rem17")
    rng = ref.generator("rem17", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    for d, b, scale in secular(rng, draws):
        top = two_layer.top_of_rank_one(*tensors(d, b, scale))
        delta = two_layer.modulation(top, *tensors(b, scale)).numpy()
        gaps, Z = top.gaps.numpy(), top.Z.numpy()[:, None]
        part = scale[:, None] * b**2 / gaps
        found["premise"].append(np.abs(part.sum(-1) - 1))
        found["premise, no p"].append(np.abs((b**2 / gaps).sum(-1) - 1))
        found["printed"].append(relative(1 - part, delta))
        found["mended"].append(relative((1 - part) / (Z**2 * gaps), delta))
        found["plus"].append(relative((1 + part) / (Z**2 * gaps), delta))
        found["no Z"].append(relative((1 - part) / gaps, delta))
    yield check(
        worst(*found["premise"]),
        1e-9,
        {"without $p_0p_1$": middle(*found["premise, no p"])},
        draws=9 * draws,
        part="the sum is 1",
    )
    controls = {"plus": middle(*found["plus"]), "without $1/Z^2$": middle(*found["no Z"])}
    yield check(
        worst(*found["printed"]),
        1e-8,
        controls,
        draws=9 * draws,
        part="short form",
        note="Theorem 5 uses Eq. 143, not this.",
        counterexample=r"$K=2$, $d=(0,0)$, $b=(1,1)$, $p_0=\frac12$: $\lambda=\frac12$, $Z^2=8$, "
        r"so Eq. 143 gives $\delta_k=\frac18$; $1-p_0p_1b_k^2/(\lambda-d_k)=\frac12$.",
    )
    yield check(
        worst(*found["mended"]),
        1e-8,
        controls,
        draws=9 * draws,
        part="short form",
        form="corrected",
        correction=r"$\delta_k=\frac1{Z^2(\lambda-d_k)}\Big(1-\frac{p_0p_1b_k^2}{\lambda-d_k}"
        r"\Big)$.",
    )
