"""The token experiment of nl: its data, its scores and the four BatchNorms (Sec. 5, App. E.2).

`clcore.experiments.token_sequences` meets numpy loops over samples, fields, filters and tokens.
"""

from collections.abc import Iterator

import numpy as np
import torch
from scipy.stats import chi2, chisquare
from torch import Tensor

from clcore import random as cr
from clcore.experiments import token_sequences as ts
from clcore.ledger import Trial, check, claim, pooled, typical, worst
from clcore.reference import Array, relative, tensors

FIELDS, TOKENS, GENERATORS, FIXED = 10, 20, 40, 5
SAMPLES = 1000


def _worlds(keys: Tensor) -> Iterator[tuple[Array, Array, Array, int]]:
    """(generators [G, K], R_k as a mask [K, d], two views [2, n, K], P) of fresh worlds."""
    for i, key in enumerate(keys):
        P = (1, 3, 5, 10)[i % 4]
        patterns, inside = ts.generators(key, P)
        found = ts.views(cr.fold_in(key, 1), patterns, SAMPLES, TOKENS)
        yield patterns.numpy(), inside.numpy(), found.numpy(), P


def _outside(patterns: Array, inside: Array) -> int:
    """How many fixed positions hold a token that is not in the field's set."""
    return sum(not inside[k, a] for row in patterns for k, a in enumerate(row.tolist()) if a >= 0)


def _uniformity(tokens: Array) -> float:
    """p of the chi^2 test that all tokens are equally frequent."""
    return float(chisquare(np.bincount(tokens.ravel(), minlength=TOKENS)).pvalue)


def _picks(patterns: Array, inside: Array) -> tuple[Array, Array]:
    """How many generators fix each field [K], and take each candidate of a field's set [P]."""
    fixed = patterns >= 0
    rank = inside.cumsum(1)[np.arange(FIELDS), patterns] - 1
    return fixed.sum(0), np.bincount(rank[fixed], minlength=inside[0].sum())


def _even_fields(counts: Array) -> float:
    """p of the chi^2 test that each generator fixes 5 of the 10 fields, all sets equally likely:
    a count's variance is half its mean, and their sum is fixed."""
    scale = (FIELDS - 1) / FIELDS / (1 - FIXED / FIELDS)
    return float(chi2.sf(scale * chisquare(counts).statistic, FIELDS - 1))


@check("nl/num2")
def num2(t: Trial) -> None:
    """Synthetic token sequences and the training protocol (Sec. 5; Figure 3).

    Given   the library's generators and views, P from 1 up; the settings of the runs.
    Claim   40 generators of length 10 with five fixed fields, P candidates a field, fixed tokens
            among them, fields and candidates picked evenly; both views of a sample fit one
            generator; wildcards are uniform; two layers on disjoint fields with orthonormal
            embeddings; the training settings are the printed ones.
    Fails   for four fixed positions, another field's set, the same five fields or one candidate in
            all generators, views of two samples, fixed positions as wildcards, fields exchanged,
            the released program's settings.
    """
    draws = min(t.draws, 40)
    of_fixed, of_samples = draws * GENERATORS * FIXED, draws * SAMPLES
    shapes = t.part("40 generators of length 10, 5 fixed fields, P tokens per set", controls=pooled)
    candidates = t.part(
        "fixed tokens are candidates of their field", controls=pooled, draws=of_fixed
    )
    shared = t.part("both views of a sample fit one generator", controls=pooled, draws=of_samples)
    uniform = t.part("wildcards are uniform over the tokens", 1e-3, ">=")
    keys, fields, taken = t.keys(draws), np.zeros(FIELDS), {}
    for key, (patterns, inside, found, P) in zip(keys, _worlds(keys), strict=True):
        # Sizes, and how many positions of each generator are fixed.
        fewer, _ = ts.generators(key, P, fixed=FIXED - 1)
        sizes = [patterns.shape == (GENERATORS, FIELDS), (inside.sum(1) == P).all()]
        shapes.add(float(not all(sizes)) + abs((patterns >= 0).sum(1) - FIXED).max())
        shapes.breaks("four fixed positions", abs((fewer.numpy() >= 0).sum(1) - FIXED).max())

        # Fixed tokens outside the set of their field.
        candidates.add(_outside(patterns, inside))
        candidates.breaks("the next field's set", _outside(patterns, np.roll(inside, 1, 0)))

        # How often each field is fixed, and each candidate of a set of P is taken.
        places, ranks = _picks(patterns, inside)
        fields, taken[P] = fields + places, taken.get(P, 0) + ranks

        # The share of samples whose views fit no one generator; views of two samples.
        free = patterns < 0
        fits = [(free | (v[:, None] == patterns)).all(-1) for v in found]
        both, apart = fits[0] & fits[1], fits[0] & np.roll(fits[1], 1, 0)
        shared.add((~both.any(1)).mean())
        shared.breaks("views of two samples", (~apart.any(1)).mean())

        # Tokens where the only such generator is free: p-values, times the number of draws.
        own, sure = both.argmax(1), (both.sum(1) == 1)[:, None]
        uniform.add(_uniformity(found[:, free[own] & sure]) * draws)
        if P < 10:
            uniform.breaks("fixed positions", _uniformity(found[:, ~free[own] & sure]) * draws)
    _net(t)

    # Fields, and candidates of a set, equally frequent: p-values, times the number of them.
    total = draws * GENERATORS * FIXED
    even = t.part("fields and candidates are picked evenly", 1e-3, ">=", draws=total)
    even.add(_even_fields(fields) * len(taken))
    even.add(*(chisquare(taken[P]).pvalue * len(taken) for P in taken if P > 1))
    even.breaks("the same five fields", _even_fields(total / FIXED * (np.arange(FIELDS) < FIXED)))
    even.breaks("one candidate", chisquare([total, 0, 0]).pvalue)

    # The settings of a run, over P and beta.
    settings = t.part("training as printed", draws=16).says(steps=ts.STEPS)
    settings.add(mismatches("paper")).breaks("the released program's", mismatches("released"))


def mismatches(protocol: str) -> int:
    """How many settings of a run, over P and beta, are not the row's printed numbers."""
    printed, off = claim("nl/num2")["numbers"], 0
    same = {"lr": "lr", "momentum": "momentum", "weight_decay": "weight_decay"}
    same |= {"batch": "batchsize", "fields": "K", "tokens": "d_tokens", "generators": "G"}
    same |= {"fixed": "fixed_positions_per_generator"}
    for P in (1, 3, 5, 10):
        for beta in (1, 2, 5, 10):
            run = ts.configuration(0, P, beta, protocol=protocol)
            off += sum(float(run[ours]) != float(printed[row]) for ours, row in same.items())
            off += (run["filters"] != beta * P) + (run["kind"] != "infonce")
    return off + (printed["minibatches"] != ts.STEPS)


def _relu_net(W: Array, V: Array, x: Array) -> Array:
    """V h(W_k x_k) by a loop over samples and fields; x [n, K, d]."""
    out = []
    for sample in x:
        hidden = [np.maximum(W[k] @ sample[k], 0) for k in range(W.shape[0])]
        out.append(V @ np.concatenate(hidden))
    return np.array(out)


def _net(t: Trial) -> None:
    """Outputs sample by sample and field by field; embeddings of norm 1, and of other norms."""
    count = min(t.draws, 8)
    p = t.part(
        "two layers, K disjoint receptive fields, orthonormal embeddings",
        1e-12,
        controls=typical,
        draws=count,
    )
    for i in range(count):
        W, V = t.rng.standard_normal((4, 3, 6)), t.rng.standard_normal((5, 12))
        tokens = t.rng.integers(0, 6, (2, 7, 4))
        norms = t.rng.uniform(0.5, 2, 6) if i % 2 else np.ones(6)
        weights = dict(zip("WV", tensors(W, V), strict=True))
        given = torch.from_numpy(tokens), torch.from_numpy(norms)
        found = ts.outputs(weights, *given, "relu").numpy()
        x = np.diag(norms)[tokens]
        expected, other = (
            np.stack([_relu_net(W, V, view) for view in views]) for views in (x, np.roll(x, 1, 2))
        )
        p.add(relative(found, expected))
        p.add(abs(np.diag(ts.norms(1.0, 6).double()) - np.eye(6)).max())
        p.breaks("fields exchanged", relative(found, other))


# ----------------------------------------------------------------------------------- the scores


def _scores(W: Array, inside: Array, norms: Array) -> tuple[float, float, float]:
    """Eq. 16, Eq. 181 as printed, and Eq. 16 without the filters' norms; loops."""
    plus = minus = raw = 0.0
    for k in range(len(W)):
        P = inside[k].sum()
        for a in range(W.shape[2]):
            u = norms[a] * np.eye(W.shape[2])[a]
            match = [w @ u / np.sqrt(w @ w) / np.sqrt(u @ u) for w in W[k]]
            if inside[k, a]:
                plus += max(match) / P / len(W)
                raw += max(w @ u for w in W[k]) / P / len(W)
            else:
                minus += max(match) / P / len(W)
    return plus, minus, raw


def _filters(t: Trial, draws: int) -> Iterator[tuple[Array, Array, Array]]:
    """Random filters, sets of P = 1..6 of 8 tokens, and norms of the embeddings."""
    for i in range(draws):
        W = t.rng.standard_normal((3, 1 + i % 5, 8)) * t.rng.lognormal(0, 2, (3, 1 + i % 5, 1))
        inside = t.rng.random((3, 8)).argsort(1) < 1 + i % 6
        yield W, inside, t.rng.lognormal(0, 1, 8)


def _matching(W: Array, tokens: Array) -> float:
    """The score of filters [K, M, d] for the tokens of a mask [K, d]."""
    return float(ts.matching(ts.cosines(torch.from_numpy(W)), torch.from_numpy(tokens)))


@check("nl/eq16")
def eq16(t: Trial) -> None:
    """Matching score of filters with the candidate tokens of a receptive field (Eq. 16).

    Given   random filters of any norm, sets of 1..6 of 8 tokens.
    Claim   chi_+ is the mean over fields and tokens of the set of the best cosine: the library
            against loops; it lies in [-1, 1], both ends attained, and is 1 where the filters hold
            all tokens.
    Fails   without the filters' norms; for one filter per field.
    """
    draws, broken = min(t.draws, 200), "without the filters' norms"
    value = t.part("value", 1e-13, controls=pooled)
    span = t.part("range", 1e-12, draws=51 * draws)
    full = t.part("all tokens of the set among the filters", 1e-13, controls=pooled)
    every = np.stack([3.0 * np.eye(8)] * 3)
    for W, inside, norms in _filters(t, draws):
        # The library's score, and loops over fields, tokens and filters.
        found = _matching(W, inside)
        plus, _, raw = _scores(W, inside, norms)
        value.add(abs(found - plus)).breaks(broken, abs(found - raw))
        # It lies in [-1, 1].
        span.add(abs(found) - 1).breaks(broken, abs(raw) - 1, by=worst)

        # Filters along all tokens, and one of them.
        full.add(abs(_matching(every, inside) - 1))
        full.breaks("one filter per field", abs(_matching(every[:, :1], inside) - 1))

    # |chi_+| at many more filters, and its least value.
    many = t.stream("range").standard_normal((50 * draws, 3, 2, 8))
    three = torch.arange(8).expand(3, 8) < 3
    span.add(ts.matching(ts.cosines(torch.from_numpy(many)), three).abs().max() - 1)
    lowest = -np.stack([np.eye(8)[:1]] * 3)
    span.says(low=_matching(lowest, np.stack([np.arange(8) < 1] * 3)))


@check("nl/eq181")
def eq181(t: Trial) -> None:
    """Irrelevant-matching score, for tokens outside the candidate set (Eq. 181).

    Given   random filters w_km of any norm, a receptive field's set R_k of P = 1..6 of d = 8
            tokens (for the largest value: of P = 1, 3, 5, 10 of 20, all best cosines 1); the score
            is taken over the d - P tokens outside the set.
    Claim   chi_-, averaged over fields, is the mean over the d - P tokens outside of the best
            cosine with a filter: the library against loops. Its largest value, where each of them
            has a filter of its own, is 1.
    Fails   with the prefactor 1/P, as typeset (a misprint), and for the tokens inside.
    """
    # The library, and loops with the printed 1/P, times P/(d - P). At P = 4 the two are the same.
    value = t.part("value", 1e-12, controls=pooled, draws=min(t.draws, 200))
    for W, inside, norms in _filters(t, min(t.draws, 200)):
        found = _matching(W, ~inside)
        plus, minus, _ = _scores(W, inside, norms)
        d, P = W.shape[2], inside[0].sum()
        value.add(abs(found - minus * P / (d - P)))
        value.breaks("tokens inside", abs(plus - found))
        if d != 2 * P:
            value.breaks("as typeset: 1/P", abs(found - minus))

    # The largest value: every token has a filter along it, so that all best cosines are 1.
    span = t.part("range", 1e-12)
    best = np.ones((FIELDS, TOKENS))
    for P in (1, 3, 5, 10):
        outside = np.broadcast_to(np.arange(TOKENS) >= P, best.shape)
        span.add(abs(float(ts.matching(*tensors(best, outside))) - 1))
        if P == 1:
            span.breaks("as typeset: 1/P", abs((best * outside).sum(1).mean() / P - 1))


# -------------------------------------------------------------------------------- the BatchNorms


def _backward(g: Array, f: Array, scale: Array, kind: str) -> Array:
    """The gradient at the inputs from the gradient g at the normalised values f, [n, units]."""
    through = ts.NORMALISATIONS[kind]
    assert through is not None  # "none" has no BatchNorm
    through_mean, through_variance = through
    out = g.copy()
    if through_mean:
        out -= g.mean(0)
    if through_variance:
        out -= f * (g * f).mean(0)
    return out / scale


def eq1(z: torch.Tensor, tau: float = 0.5) -> torch.Tensor:
    """nl Eq. 1 with epsilon = 1 of the outputs [2, n, o] as they are, not scaled to norm 1."""
    positive = (z[0] - z[1]).square().sum(-1) / 2
    apart = (z[0][:, None] - z[0]).square().sum(-1) / 2
    others = torch.exp(-apart / tau) * (1 - torch.eye(len(apart), dtype=z.dtype))
    near = torch.exp(-positive / tau)
    return -tau * torch.log(near / (near + others.sum(-1))).sum()


def _gradients(
    W: Array, V: Array, tokens: Array, kind: str, before: bool, loss=ts.loss
) -> tuple[Array, Array]:
    """(values, gradient of `loss` at the inputs of BatchNorm), [2n, K M] each, by autograd."""
    n = tokens.shape[1]
    eye = torch.eye(W.shape[2], dtype=torch.float64)
    x = eye[torch.from_numpy(tokens)].flatten(0, 1)  # 2n K d
    u = torch.einsum("kmd,nkd->nkm", torch.from_numpy(W), x).flatten(1)
    start = (u if before else u.relu()).clone().requires_grad_()
    weights = torch.full((1, 2 * n), 1 / (2 * n), dtype=torch.float64)
    f = ts.batch_norm(start.T, weights, kind).T
    hidden = f.relu() if before else f
    z = (hidden @ torch.from_numpy(V).T).unflatten(0, (2, n))
    (found,) = torch.autograd.grad(loss(z), start)
    return f.detach().numpy(), found.numpy()


def _expected(W: Array, V: Array, tokens: Array, kind: str, before: bool) -> tuple[Array, Array]:
    """Normalised outputs and their gradient from the printed formula, in numpy; InfoNCE's gradient
    at f is torch's."""
    n = tokens.shape[1]
    x = np.eye(W.shape[2])[tokens].reshape(2 * n, len(W), -1)
    u = np.einsum("kmd,nkd->nkm", W, x).reshape(2 * n, -1)
    h = u if before else np.maximum(u, 0)
    scale = np.sqrt(((h - h.mean(0)) ** 2).mean(0) + ts.EPS)
    f = (h - h.mean(0)) / scale
    held = torch.from_numpy(f).requires_grad_()
    hidden = held.relu() if before else held
    z = (hidden @ torch.from_numpy(V).T).unflatten(0, (2, n))
    (g,) = torch.autograd.grad(ts.loss(z), held)
    # eps makes mean(f^2) less than 1; the variance's gradient is exact with it all the same.
    return f, _backward(g.numpy(), f, scale, kind)


@check("nl/num3")
def num3(t: Trial) -> None:
    """Four BatchNorm variants: gradients through mean, variance, both or none (App. E.2).

    Given   small nets, BatchNorm after and before the activation.
    Claim   The four variants have one forward pass and four gradients, each its closed form; under
            Eq. 1 of raw outputs, after the activation, the switch of the mean does nothing: two
            pairs coincide.
    Fails   without BatchNorm, for another variant's closed form; the pairs, for outputs of norm 1,
            and for the switch of the deviation.
    """
    kinds = [k for k in ts.NORMALISATIONS if k != "none"]
    for before in (False, True):
        place = "before" if before else "after"
        forward, gradient = (
            t.part(f"{part}, {place} the activation", bound, controls=pooled, words=part)
            for part, bound in (("one forward pass", 1e-12), ("four gradients", 1e-10))
        )
        for _ in range(min(t.draws, 30)):
            W, V = t.rng.standard_normal((3, 2, 5)), t.rng.standard_normal((4, 6))
            tokens = t.rng.integers(0, 5, (2, 12, 3))
            found = {k: _gradients(W, V, tokens, k, before) for k in kinds}
            right = {k: _expected(W, V, tokens, k, before) for k in kinds}

            # One forward pass, which is not the one without BatchNorm.
            none = _gradients(W, V, tokens, "none", before)[0]
            for k in kinds:
                forward.add(abs(found[k][0] - right[k][0]).max())
                forward.breaks("no BatchNorm", abs(none - right[k][0]).max())

            # Each variant's gradient is its closed form, and not another's.
            for i, k in enumerate(kinds):
                gradient.add(_off(found[k][1], right[k][1]))
                for other in kinds[:i]:
                    gradient.breaks("another variant", _off(found[k][1], right[other][1]))
        gradient.says(gap=np.min(gradient.broken["another variant"]))
    _coincide(t)


def _off(found: Array, right: Array) -> float:
    """The largest error, over the largest entry of what is right."""
    return abs(found - right).max() / abs(right).max()


def _coincide(t: Trial) -> None:
    """Eq. 1 of raw outputs, BatchNorm after the activation: the mean's gradient is zero."""
    pairs = (("vanilla", "variance"), ("mean", "neither"))
    part = t.part("two pairs coincide under Eq. 1, after the activation", 1e-10, controls=pooled)
    for _ in range(min(t.draws, 30)):
        W, V = t.rng.standard_normal((3, 2, 5)), 0.3 * t.rng.standard_normal((4, 6))
        tokens = t.rng.integers(0, 5, (2, 12, 3))
        raw, scaled = (
            {k: _gradients(W, V, tokens, k, False, loss)[1] for k in sum(pairs, ())}
            for loss in (eq1, ts.loss)
        )
        part.add(*(_off(raw[b], raw[a]) for a, b in pairs))
        part.breaks("outputs of norm 1", *(_off(scaled[b], scaled[a]) for a, b in pairs))
        part.breaks("with and without the deviation", _off(raw["vanilla"], raw["mean"]))
