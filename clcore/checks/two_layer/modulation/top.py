"""What the top layer sends down when z has two values (nl Theorem 5, App. C.3).

numpy's eigenvectors and enumerated covariances meet the closed forms of
`clcore.theory.two_layer.two_layer`.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from clcore.checks.two_layer.fields.latent import Law, enumerated, net_of, table_of
from clcore.checks.two_layer.fields.monomials import DEGREES, climb, spread, within
from clcore.ledger import Trial, check, pooled, typical
from clcore.reference import Array, relative, tensors, unit
from clcore.theory.two_layer import field_latent, two_layer


class Pair(NamedTuple):
    """C = 2, M = 1: d, b [draws, K], p_0 p_1 [draws], L [draws, K, d, d], Delta [draws, K, d],
    and the enumerated law."""

    d: torch.Tensor
    b: torch.Tensor
    scale: torch.Tensor  # p_0 p_1
    L: torch.Tensor
    delta: torch.Tensor  # Delta
    law: Law

    def top(self) -> two_layer.Top:
        """The top eigenvector of diag(d) + p_0 p_1 b b^T."""
        return two_layer.top_of_rank_one(self.d, self.b, self.scale)


def pair_of(model: field_latent.Model, W: Array, kind: str) -> Pair:
    """`Pair` of a model with filters W, by its enumerated law."""
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
    for k, j in product(range(K), repeat=2):
        move = (blocks[:, k, :, j] @ W[:, j, 0, :, None])[..., 0]
        out[:, k] += (s[:, k] * s[:, j])[:, None] * move
    return out


@check("nl/eq134")
def eq134(t: Trial) -> None:
    """First-layer covariance for two classes is diagonal plus rank one (Eqs. 134-138).

    Given   Assumption 2, C = 2, M = 1, linear and ReLU filters, enumerated; then h = x^p, p = 2, 3.
    Claim   V[f_1] = D + p_0 p_1 b b^T, D = diag(d_k), d_k = E_z V[f_k|z], b_k = w_k^T Delta_k; its
            largest eigenvalue is at least max_k d_k. For h = x^p, with d_k and b_k of gated inputs,
            V[f_1] and E_z V[f_k|z] are p^-2 times these.
    Fails   for D alone, fields coupled given z, minus the rank-one term, 1 in place of p^-2.
    """
    form = t.part("Eq. 138", 1e-11, controls=pooled)
    level = t.part("top eigenvalue", -1e-12, ">=", controls=pooled)
    for kind in ("linear", "relu"):
        model, W = net_of(t.rng, t.share(2), 2, 4, 1)
        pair = pair_of(model, W, kind)
        V, coupled = (outputs(law, W) for law in (pair.law, enumerated(model, W, kind, 0.5)))
        D = torch.diag_embed(pair.d)
        rank_one = pair.scale[:, None, None] * pair.b[:, :, None] * pair.b[:, None]

        # Eq. 138: D + p_0 p_1 b b^T.
        form.add(relative(D + rank_one, V)).breaks("D alone", relative(D, V))
        form.breaks("fields coupled given z", relative(D + rank_one, coupled))

        # Its top eigenvalue over the largest d_k.
        top, most = np.linalg.eigvalsh(V)[:, -1], pair.d.numpy().max(-1)
        less = np.linalg.eigvalsh((D - rank_one).numpy())[:, -1]
        level.add((top - most) / top).breaks("minus the rank-one term", (less - most) / top)

    # h = x^p: V[f_1] = p^-2 (D + p_0 p_1 b b^T), E_z V[f_k|z] = p^-2 d_k.
    powers, below = t.part("monomials", 1e-10, controls=pooled), []
    for kind, degree in DEGREES.items():
        model, W = net_of(t.rng, t.share(len(DEGREES)), 2, 3, 1)
        pair, V = pair_of(model, W, kind), spread(model, W, kind)
        printed = torch.diag_embed(pair.d)
        printed += pair.scale[:, None, None] * pair.b[:, :, None] * pair.b[:, None]
        powers.add(
            relative(printed / degree**2, V), relative(pair.d / degree**2, within(model, W, kind))
        )
        powers.breaks("constant 1", relative(printed, V), relative(pair.d, within(model, W, kind)))
        below.append(np.linalg.eigvalsh(V)[:, -1] < pair.d.numpy().max(-1))
    powers.says(below=np.mean(np.concatenate(below)))


def apart(v: Array, s: Array) -> Array:
    """[draws]: the largest entry of v / |v| minus s, or of their sum, whichever is less."""
    v = unit(v)
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
    """p_0 p_1 s_k sum_{k' != k} s_k' b_k' / b_k: what delta_k stands for, for any vector s."""
    return scale[:, None] * s * ((s * b).sum(-1, keepdims=True) - s * b) / b


def solved(d: Array, b: Array, scale: Array, rank: int = -1) -> tuple[Array, Array]:
    """(lambda, s) of diag(d) + scale b b^T by numpy: the top pair, or the one of another rank."""
    matrix = d[:, :, None] * np.eye(d.shape[1]) + scale[:, None, None] * b[:, :, None] * b[:, None]
    values, vectors = np.linalg.eigh(matrix)
    return values[:, rank], vectors[..., rank]


@check("nl/eq139")
def eq139(t: Trial) -> None:
    """Top eigenvector of diagonal plus rank one (Bunch–Nielsen–Sorensen) (Eq. 139).

    Given   random d, b, p_0 p_1, tied d too, b_k* != 0 for k* = argmax d.
    Claim   s_k = b_k/(Z (d_k - lambda)) is the top eigenvector, lambda the root of 1 + p_0 p_1 sum
            b_k^2/(d_k - lambda) = 0: against numpy's; lambda > d_k*.
    Fails   for b_k/d_k, for b alone, for a minus in the secular equation; lambda > d_k* for b_k*
            = 0 at a d_k* far above the other d.
    """
    vector = t.part("s", 1e-7, controls=pooled, draws=9 * t.draws)
    zero = t.part("secular equation", 1e-9, controls=typical)
    defined = t.part("well defined", 1 - 1e-6, ">=", controls=pooled)
    for d, b, scale in secular(t.rng, t.draws):
        top = two_layer.top_of_rank_one(*tensors(d, b, scale))
        value, s = solved(d, b, scale)

        # The vector of numpy's lambda, that of the library's, and the library's lambda.
        vector.add(apart(b / (d - value[:, None]), s))
        vector.add(apart(top.s.numpy(), s), relative(top.value, value))
        vector.breaks("$b_k/d_k$", apart(b / d, s)).breaks("$b_k$", apart(b, s))

        # numpy's lambda is a root.
        total = scale * (b**2 / (value[:, None] - d)).sum(-1)
        zero.add(np.abs(1 - total)).breaks("sign", np.abs(1 + total))

        # lambda - d_k* over p_0 p_1 b_k*^2 is at least 1. Where b_k* is 0 and d_k* is above the
        # other d by more than b b^T can add, lambda = d_k*.
        largest = np.take_along_axis(b, d.argmax(-1)[:, None], -1)[:, 0]
        defined.add((value - d.max(-1)) / (scale * largest**2))
        tall, none = d.copy(), b.copy()
        tall[:, 0], none[:, 0] = d.max(-1) + 10 * (b**2).sum(-1), 0.0
        excess = (solved(tall, none, scale)[0] - tall[:, 0]) / (scale * (b**2).sum(-1))
        defined.breaks("$b=0$ at the largest d", excess)


@check("nl/thm5")
def thm5(t: Trial) -> None:
    """Two-layer dynamics with two classes: local covariance plus global modulation (Theorem 5, Eq.
    15).

    Given   Assumption 2, C = 2, M = 1; linear, ReLU, leaky ReLU, then h = x^p, p = 2, 3;
            covariances enumerated, s by numpy.
    Claim   Lemma 4's velocity is (s_k^2 A_k + delta_k Delta_k Delta_k^T) w_k, with P_w and
            without, delta_k of Eq. 143 and not negative; for h = x^p, without P_w, it is 1/p of
            that, lambda the top eigenvalue of D + p_0 p_1 b b^T.
    Fails   for delta_k = 0, delta_k of the proof's last sentence, fields coupled given z, the
            bottom eigenvector; for x^p with 1 in place of 1/p, with lambda of V[f_1] itself.
    """
    cases = (("linear", 2), ("relu", 3), ("relu", 4), ("leaky_relu", 3))
    sphere = t.part("with the projection", 1e-7, controls=pooled)
    free = t.part("without it", 1e-7, controls=pooled)
    sign = t.part("delta_k is not negative", 0.0, ">=", controls=typical)
    for kind, K in cases:
        model, W = net_of(t.rng, t.share(len(cases)), 2, K, 1)
        pair, w = pair_of(model, W, kind), torch.from_numpy(W)[:, :, 0]
        vectors = np.linalg.eigh(outputs(pair.law, W))[1]
        s, bottom = vectors[..., -1], vectors[..., 0]
        top = pair.top()
        delta = two_layer.modulation(top, pair.b, pair.scale)
        last = 1 - pair.scale[:, None] * pair.b**2 / top.gaps
        ours = closed_form(pair, top, delta, w)
        other = {
            r"$\delta_k=0$": closed_form(pair, top, 0 * delta, w),
            r"$\delta_k$ of the proof's last sentence": closed_form(pair, top, last, w),
        }
        coupled = velocity(enumerated(model, W, kind, 0.5), W, s)

        # Lemma 4's velocity before its projection.
        direct = velocity(pair.law, W, s)
        free.add(relative(ours, direct)).breaks("fields coupled given z", relative(ours, coupled))
        for what, form in other.items():
            free.breaks(what, relative(form, direct))

        # The same on the spheres.
        along = two_layer.tangent(w, torch.from_numpy(direct))
        turning = two_layer.tangent(w, ours)
        sphere.add(relative(turning, along))
        for what, form in other.items():
            sphere.breaks(what, relative(two_layer.tangent(w, form), along))
        other_turn = two_layer.tangent(w, torch.from_numpy(coupled))
        sphere.breaks("fields coupled given z", relative(turning, other_turn))

        # What delta_k stands for, by numpy's s.
        b, scale = pair.b.numpy(), pair.scale.numpy()
        sign.add(pull_of(s, b, scale).min(-1))
        sign.breaks("the bottom eigenvector", pull_of(bottom, b, scale).min(-1))

    # h = x^p: 1/p of Eq. 15, lambda that of D + p_0 p_1 b b^T, against the gradient at held s.
    powers = t.part("monomials", 1e-7, controls=pooled)
    for kind, degree in DEGREES.items():
        model, W = net_of(t.rng, t.share(len(DEGREES)), 2, 3, 1)
        pair, w = pair_of(model, W, kind), torch.from_numpy(W)[:, :, 0]
        values, vectors = np.linalg.eigh(spread(model, W, kind))
        direct = climb(model, W, vectors[..., -1], kind)
        top = pair.top()
        gaps = torch.from_numpy(values[:, -1:]) - pair.d
        Z = (pair.b / gaps).norm(dim=-1)
        wrong = two_layer.Top(gaps[:, 0], gaps, -pair.b / gaps / Z[:, None], Z)
        ours, of_wrong = (
            closed_form(pair, at, two_layer.modulation(at, pair.b, pair.scale), w)
            for at in (top, wrong)
        )
        powers.add(relative(ours / degree, direct)).breaks("constant 1", relative(ours, direct))
        powers.breaks(r"$\lambda$ of $V[f_1]$", relative(of_wrong / degree, direct))


def closed_form(pair: Pair, top: two_layer.Top, delta: torch.Tensor, w: torch.Tensor):
    """(s_k^2 A_k + delta_k Delta_k Delta_k^T) w_k, A_k = L_k + p_0 p_1 Delta_k Delta_k^T; as w."""
    along = (pair.delta * w).sum(-1, keepdim=True) * pair.delta
    A = (pair.L @ w[..., None])[..., 0] + pair.scale[:, None, None] * along
    return top.s[..., None] ** 2 * A + delta[..., None] * along


@check("nl/eq143")
def eq143(t: Trial) -> None:
    """Strength of the global modulation of a receptive field (Eqs. 142-143).

    Given   random d_k, b_k, p_0 p_1, tied d_k too, b_k* != 0 at the largest; s, lambda: the top
            eigenvector and eigenvalue of diag(d) + p_0 p_1 b b^T, s by numpy; Z = |(b_k/(d_k
            - lambda))_k|.
    Claim   delta_k = p_0 p_1/(Z^2 (lambda - d_k)) sum_{k' != k} b_k'^2/(lambda - d_k') is the pull
            of the other fields, p_0 p_1 s_k sum_{k' != k} s_k' b_k'/b_k, and not negative.
    Fails   for its own field in the sum, without 1/Z^2, for the bottom eigenvector.
    """
    formula = t.part("Eq. 143", 1e-6, controls=pooled)
    sign = t.part("not negative", 0.0, ">=", controls=typical)
    for d, b, scale in secular(t.rng, t.draws):
        top = two_layer.top_of_rank_one(*tensors(d, b, scale))
        s, bottom = (solved(d, b, scale, rank)[1] for rank in (-1, 0))

        # Eq. 143 by the library, and the pull of the other fields by numpy's s.
        delta, direct = two_layer.modulation(top, *tensors(b, scale)).numpy(), pull_of(s, b, scale)
        formula.add(relative(delta, direct))
        own = scale[:, None] * s * (s * b).sum(-1, keepdims=True) / b
        formula.breaks("own field in the sum", relative(own, direct))
        formula.breaks("without $1/Z^2$", relative(delta * top.Z.numpy()[:, None] ** 2, direct))

        # Its sign.
        sign.add(direct.min(-1))
        sign.breaks("the bottom eigenvector", pull_of(bottom, b, scale).min(-1))


@check("nl/rem17")
def rem17(t: Trial) -> None:
    """Short form of the strength of the global modulation (Last sentence of Theorem 5's proof).

    Given   random d_k, b_k, p_0 p_1, tied d_k too, b_k* != 0 at the largest; lambda the top
            eigenvalue of diag(d) + p_0 p_1 b b^T.
    Claim   p_0 p_1 sum_k b_k^2/(lambda - d_k) = 1, and delta_k is 1 minus its own term of it,
            times 1/(Z^2 (lambda - d_k)), the prefactor in Eq. 143.
    Fails   without that prefactor, as typeset (a misprint), or with 1/(lambda - d_k) alone; for 1
            plus its own term; without p_0 p_1.
    """
    premise = t.part("the sum is 1", 1e-9, controls=pooled)
    short = t.part("short form", 1e-8, controls=pooled)
    for d, b, scale in secular(t.rng, t.draws):
        top = two_layer.top_of_rank_one(*tensors(d, b, scale))
        gaps, Z = top.gaps.numpy(), top.Z.numpy()[:, None]
        terms, (value, vector) = scale[:, None] * b**2 / gaps, solved(d, b, scale)

        # sum_k p_0 p_1 b_k^2 / (lambda - d_k) is 1, lambda by numpy.
        plain = (b**2 / (value[:, None] - d)).sum(-1)
        premise.add(np.abs(scale * plain - 1))
        premise.breaks("without $p_0p_1$", np.abs(plain - 1))

        # The prefactor times 1 minus its own term, against Eq. 143 and against the pull by numpy.
        delta = two_layer.modulation(top, *tensors(b, scale)).numpy()
        for direct in (delta, pull_of(vector, b, scale)):
            short.add(relative((1 - terms) / (Z**2 * gaps), direct))
        short.breaks(r"as typeset: without $1/(Z^2(\lambda-d_k))$", relative(1 - terms, delta))
        short.breaks("a plus for the minus", relative((1 + terms) / (Z**2 * gaps), delta))
        short.breaks("without $1/Z^2$", relative((1 - terms) / gaps, delta))
