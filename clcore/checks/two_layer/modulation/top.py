"""What the top layer sends down when z has two values (nl Theorem 5, App. C.3).

numpy's eigenvectors and enumerated covariances meet the closed forms of
`clcore.theory.two_layer.two_layer`.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from clcore.checks.two_layer.fields.latent import Law, enumerated, net_of, table_of
from clcore.checks.two_layer.fields.monomials import DEGREES, climb, spread, within
from clcore.ledger import Trial, check, pooled, typical
from clcore.reference import Array, relative, tensors
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


@check("nl/eq134")
def eq134(t: Trial) -> None:
    """First-layer covariance for two classes is diagonal plus rank one (Eqs. 134-138).

    Given   Assumption 2, C = 2, M = 1, linear and ReLU filters, enumerated; h = x^p with p^-2.
    Claim   V[f_1] = D + p_0 p_1 b b^T, d_k = E_z V[f_k|z], b_k = w_k^T Delta_k; its largest
            eigenvalue is at least max_k d_k.
    Fails   for D alone, fields coupled given z, minus the rank-one term, constant 1 for monomials.
    """
    form = t.part("Eq. 138", 1e-11, controls=pooled)
    level = t.part("top eigenvalue", -1e-12, ">=", controls=pooled)
    for kind in ("linear", "relu"):
        model, W = net_of(t.rng, t.share(2), 2, 4, 1)
        pair = pair_of(model, W, kind)
        V = outputs(pair.law, W)
        coupled = outputs(enumerated(model, W, kind, 0.5), W)
        D = torch.diag_embed(pair.d)
        rank_one = pair.scale[:, None, None] * pair.b[:, :, None] * pair.b[:, None]
        form.add(relative(D + rank_one, V))
        form.breaks("D alone", relative(D, V))
        form.breaks("fields coupled given z", relative(D + rank_one, coupled))
        top, most = np.linalg.eigvalsh(V)[:, -1], pair.d.numpy().max(-1)
        level.add((top - most) / top)
        less = np.linalg.eigvalsh((D - rank_one).numpy())[:, -1]
        level.breaks("minus the rank-one term", (less - most) / top)
    _monomial_outputs(t)


def _monomial_outputs(t: Trial) -> None:
    """h = x^p: V[f_1] = p^-2 (D + p_0 p_1 b b^T), E_z V[f_k|z] = p^-2 d_k. Control: no p^-2."""
    part, excess = t.part("monomials", 1e-10, controls=pooled), []
    for kind, degree in DEGREES.items():
        model, W = net_of(t.rng, t.share(len(DEGREES)), 2, 3, 1)
        pair = pair_of(model, W, kind)
        form = torch.diag_embed(pair.d)
        form += pair.scale[:, None, None] * pair.b[:, :, None] * pair.b[:, None]
        V, given = spread(model, W, kind), within(model, W, kind)
        part.add(relative(form / degree**2, V), relative(pair.d / degree**2, given))
        part.breaks("constant 1", relative(form, V), relative(pair.d, given))
        excess.append(np.linalg.eigvalsh(V)[:, -1] < pair.d.numpy().max(-1))
    part.says(below=np.mean(np.concatenate(excess)))


def apart(v: Array, s: Array) -> Array:
    """[draws]: the largest entry of v / |v| less s, or of their sum, whichever is less."""
    v = v / np.linalg.norm(v, axis=-1, keepdims=True)
    return np.minimum(np.abs(v - s).max(-1), np.abs(v + s).max(-1))


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


@check("nl/eq139")
def eq139(t: Trial) -> None:
    """Top eigenvector of diagonal plus rank one (Bunch–Nielsen–Sorensen) (Eq. 139).

    Given   random d, b, p_0 p_1, tied d too, b_k* != 0 at the largest d.
    Claim   s_k = b_k/(Z (d_k - lambda)) is the top eigenvector, lambda the root of 1 + p_0 p_1 sum
            b_k^2/(d_k - lambda) = 0: against numpy's; lambda > d_k*.
    Fails   for b_k/d_k, for b alone, the sign in the secular equation, b = 0 at the largest d.
    """
    vector = t.part("s", 1e-7, controls=pooled, draws=9 * t.draws)
    zero = t.part("secular equation", 1e-10, controls=typical)
    defined = t.part("well defined", 1 - 1e-6, ">=", controls=pooled)
    for d, b, scale in secular(t.rng, t.draws):
        top = two_layer.top_of_rank_one(*tensors(d, b, scale))
        value, s = solved(d, b, scale)
        vector.add(apart(b / (d - value[:, None]), s))
        vector.add(apart(top.s.numpy(), s), relative(top.value, value))
        vector.breaks("$b_k/d_k$", apart(b / d, s)).breaks("$b_k$", apart(b, s))
        total = scale * (b**2 / top.gaps.numpy()).sum(-1)
        zero.add(np.abs(1 - total)).breaks("sign", np.abs(1 + total))
        at = np.take_along_axis(b, d.argmax(-1)[:, None], -1)[:, 0]
        defined.add((value - d.max(-1)) / (scale * at**2))
        tall, none = d.copy(), b.copy()
        tall[:, 0], none[:, 0] = d.max(-1) + 10 * (b**2).sum(-1), 0.0
        level, _ = solved(tall, none, scale)
        excess = (level - tall[:, 0]) / (scale * (b**2).sum(-1))
        defined.breaks("$b=0$ at the largest d", excess)


@check("nl/thm5")
def thm5(t: Trial) -> None:
    """Two-layer dynamics with two classes: local covariance plus global modulation (Theorem 5, Eq.
    15).

    Given   Assumption 2, C = 2, M = 1; linear, ReLU, leaky ReLU; covariances enumerated, s by
            numpy; h = x^p with 1/p.
    Claim   Lemma 4's velocity is (s_k^2 A_k + delta_k Delta_k Delta_k^T) w_k, with P_w and
            without, delta_k of Eq. 143 and not negative.
    Fails   for delta_k = 0, delta_k of the proof's last sentence, fields coupled given z, the
            bottom eigenvector; constant 1, lambda of V[f_1] itself for monomials.
    """
    cases = (("linear", 2), ("relu", 3), ("relu", 4), ("leaky_relu", 3))
    sphere = t.part("with the projection", 1e-7, controls=pooled)
    free = t.part("without it", 1e-7, controls=pooled)
    sign = t.part("delta_k is not negative", 0.0, ">=", controls=typical)
    for kind, K in cases:
        model, W = net_of(t.rng, t.share(len(cases)), 2, K, 1)
        pair = pair_of(model, W, kind)
        vectors = np.linalg.eigh(outputs(pair.law, W))[1]
        s, bottom = vectors[..., -1], vectors[..., 0]
        direct = velocity(pair.law, W, s)
        top = two_layer.top_of_rank_one(pair.d, pair.b, pair.scale)
        delta = two_layer.modulation(top, pair.b, pair.scale)
        short = 1 - pair.scale[:, None] * pair.b**2 / top.gaps
        w = torch.from_numpy(W)[:, :, 0]
        ours = closed_form(pair, top, delta, w)
        free.add(relative(ours, direct))
        sphere.add(relative(tangent(w, ours), tangent(w, direct)))
        for what, strength in (
            (r"$\delta_k=0$", 0 * delta),
            (r"$\delta_k$ of the proof's last sentence", short),
        ):
            other = closed_form(pair, top, strength, w)
            free.breaks(what, relative(other, direct))
            sphere.breaks(what, relative(tangent(w, other), tangent(w, direct)))
        coupled = velocity(enumerated(model, W, kind, 0.5), W, s)
        for p in (sphere, free):
            p.breaks("fields coupled given z", relative(ours, coupled))
        b, scale = pair.b.numpy(), pair.scale.numpy()
        sign.add(pull_of(s, b, scale).min(-1))
        sign.breaks("the bottom eigenvector", pull_of(bottom, b, scale).min(-1))
    _monomial_velocity(t)


def _monomial_velocity(t: Trial) -> None:
    """h = x^p, against the gradient of 1/2 s^T V[f_1] s, s by numpy: 1/p of Eq. 15, lambda that of
    D + p_0 p_1 b b^T. Controls: constant 1; lambda of V[f_1] itself."""
    part = t.part("monomials", 1e-7, controls=pooled)
    for kind, degree in DEGREES.items():
        model, W = net_of(t.rng, t.share(len(DEGREES)), 2, 3, 1)
        pair, w = pair_of(model, W, kind), torch.from_numpy(W)[:, :, 0]
        values, vectors = np.linalg.eigh(spread(model, W, kind))
        direct = climb(model, W, vectors[..., -1], kind)
        top = two_layer.top_of_rank_one(pair.d, pair.b, pair.scale)
        ours = closed_form(pair, top, two_layer.modulation(top, pair.b, pair.scale), w)
        part.add(relative(ours / degree, direct))
        part.breaks("constant 1", relative(ours, direct))
        gaps = torch.from_numpy(values[:, -1:]) - pair.d
        s = -pair.b / gaps
        Z = s.norm(dim=-1)
        other = two_layer.Top(gaps[:, 0], gaps, s / Z[:, None], Z)
        delta = two_layer.modulation(other, pair.b, pair.scale)
        wrong = closed_form(pair, other, delta, w)
        part.breaks(r"$\lambda$ of $V[f_1]$", relative(wrong / degree, direct))


def tangent(w: torch.Tensor, move: torch.Tensor | Array) -> torch.Tensor:
    move = torch.as_tensor(move)
    return move - (w * move).sum(-1, keepdim=True) * w


def closed_form(pair: Pair, top: two_layer.Top, delta: torch.Tensor, w: torch.Tensor):
    """(s_k^2 V[x_k] + delta_k Delta_k Delta_k^T) w_k, V = L_k + p_0 p_1 Delta_k Delta_k^T."""
    along = (pair.delta * w).sum(-1, keepdim=True) * pair.delta
    A = (pair.L @ w[..., None])[..., 0] + pair.scale[:, None, None] * along
    return top.s[..., None] ** 2 * A + delta[..., None] * along


@check("nl/eq143")
def eq143(t: Trial) -> None:
    """Strength of the global modulation of a receptive field (Eqs. 142-143).

    Given   the settings of Eq. 139, s by numpy.
    Claim   delta_k = p_0 p_1/(Z^2 (lambda - d_k)) sum_{k' != k} b_k'^2/(lambda - d_k') is the pull
            of the other fields that it stands for, and not negative.
    Fails   for its own field in the sum, without 1/Z^2, for the bottom eigenvector.
    """
    formula = t.part("Eq. 143", 1e-6, controls=pooled)
    sign = t.part("not negative", 0.0, ">=", controls=typical)
    for d, b, scale in secular(t.rng, t.draws):
        top = two_layer.top_of_rank_one(*tensors(d, b, scale))
        ours = two_layer.modulation(top, *tensors(b, scale)).numpy()
        _, s = solved(d, b, scale)
        direct = pull_of(s, b, scale)
        formula.add(relative(ours, direct))
        own = scale[:, None] * s * (s * b).sum(-1, keepdims=True) / b
        formula.breaks("own field in the sum", relative(own, direct))
        formula.breaks("without $1/Z^2$", relative(ours * top.Z.numpy()[:, None] ** 2, direct))
        sign.add(direct.min(-1))
        bottom = solved(d, b, scale, 0)[1]
        sign.breaks("the bottom eigenvector", pull_of(bottom, b, scale).min(-1))


@check("nl/rem17")
def rem17(t: Trial) -> None:
    """Short form of the strength of the global modulation (Last sentence of Theorem 5's proof).

    Given   the settings of Eq. 139.
    Claim   p_0 p_1 sum_k b_k^2/(lambda - d_k) = 1, and delta_k is 1 less its own term of that sum,
            with the prefactor that Eq. 143 has right above.
    Fails   without that prefactor, as typeset (a misprint), or with half of it; another sign;
            without p_0 p_1.
    """
    premise = t.part("the sum is 1", 1e-9, controls=pooled)
    short = t.part("short form", 1e-8, controls=pooled)
    for d, b, scale in secular(t.rng, t.draws):
        top = two_layer.top_of_rank_one(*tensors(d, b, scale))
        delta = two_layer.modulation(top, *tensors(b, scale)).numpy()
        gaps, Z = top.gaps.numpy(), top.Z.numpy()[:, None]
        part = scale[:, None] * b**2 / gaps
        premise.add(np.abs(part.sum(-1) - 1))
        premise.breaks("without $p_0p_1$", np.abs((b**2 / gaps).sum(-1) - 1))
        direct = pull_of(solved(d, b, scale)[1], b, scale)
        for value in (delta, direct):
            short.add(relative((1 - part) / (Z**2 * gaps), value))
        short.breaks(r"as typeset: without $1/(Z^2(\lambda-d_k))$", relative(1 - part, delta))
        short.breaks("a plus for the minus", relative((1 + part) / (Z**2 * gaps), delta))
        short.breaks("without $1/Z^2$", relative((1 - part) / gaps, delta))
