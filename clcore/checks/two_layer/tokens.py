"""The token experiment of nl: its data, its scores and the four BatchNorms (Sec. 5, App. E.2).

`clcore.experiments.token_sequences` meets numpy loops over samples, fields, filters and tokens.
"""

from collections.abc import Iterator

import numpy as np
import torch
from scipy.stats import chisquare

from clcore import random as cr
from clcore import reference as ref
from clcore.experiments import token_sequences as ts
from clcore.ledger import Check, claim
from clcore.reference import Array, relative, tensors, typical, worst

FIELDS, TOKENS, GENERATORS, FIXED = 10, 20, 40, 5
SAMPLES = 1000


def _worlds(draws: int, seed: int) -> Iterator[tuple[Array, Array, Array, int]]:
    """(generators [G, K], R_k as a mask [K, d], two views [2, n, K], P) of fresh worlds."""
    for i in range(draws):
        P = (1, 3, 5, 10)[i % 4]
        key = cr.fold_in(cr.key(seed), i)
        patterns, inside = ts.generators(key, P)
        found = ts.views(cr.fold_in(key, 1), patterns, SAMPLES, TOKENS)
        yield patterns.numpy(), inside.numpy(), found.numpy(), P


def _outside(patterns: Array, inside: Array) -> int:
    """How many fixed positions hold a token that is not in the field's set."""
    return sum(not inside[k, a] for row in patterns for k, a in enumerate(row.tolist()) if a >= 0)


def _uniformity(tokens: Array) -> float:
    """p of the chi^2 test that all tokens are equally frequent."""
    return float(chisquare(np.bincount(tokens.ravel(), minlength=TOKENS)).pvalue)


def num2(draws: int, seed: int) -> Iterator[Check]:
    """The data as the set-up describes them, and the net sample by sample. Controls: another
    field's set, tokens at fixed positions, unrelated views, overlapping receptive fields."""
    draws = min(draws, 40)
    off, four, wrong, mixed, levels, fixed_levels, shared, redrawn = ([] for _ in range(8))
    for i, (patterns, inside, found, P) in enumerate(_worlds(draws, seed)):
        fewer, _ = ts.generators(cr.fold_in(cr.key(seed), i), P, fixed=FIXED - 1)
        four.append(abs((fewer.numpy() >= 0).sum(1) - FIXED).max())
        sizes = [patterns.shape == (GENERATORS, FIELDS), (inside.sum(1) == P).all()]
        off.append(float(not all(sizes)) + abs((patterns >= 0).sum(1) - FIXED).max())
        wrong.append(_outside(patterns, inside))
        mixed.append(_outside(patterns, np.roll(inside, 1, 0)))
        # Which generators can have given both views of a sample, and which the first one alone.
        free = patterns < 0
        fits = [(free | (v[:, None] == patterns)).all(-1) for v in found]
        both = fits[0] & fits[1]
        shared.append((~both.any(1)).mean())
        redrawn.append((~(fits[0] & np.roll(fits[1], 1, 0)).any(1)).mean())
        own = both.argmax(1)
        sure = both.sum(1) == 1
        wild = free[own] & sure[:, None]
        levels.append(_uniformity(found[:, wild]))
        fixed_levels.append(_uniformity(found[:, ~free[own] & sure[:, None]]))
    yield Check(
        "nl/num2",
        worst(np.array(off, float)),
        0.0,
        {"four fixed positions": typical(np.array(four))},
        draws=draws,
        part="40 generators of length 10, 5 fixed fields, P tokens a set",
    )
    yield Check(
        "nl/num2",
        worst(np.array(wrong, float)),
        0.0,
        {"the next field's set": typical(np.array(mixed, float))},
        draws=draws * GENERATORS * FIXED,
        part="fixed tokens are candidates of their field",
        note="So a token outside the set comes from a wildcard only.",
    )
    yield Check(
        "nl/num2",
        worst(np.array(shared)),
        0.0,
        {"views of two samples": typical(np.array(redrawn))},
        draws=draws * SAMPLES,
        part="both views of a sample fit one generator",
    )
    # The least of `draws` p-values: 1e-3 for one of them.
    yield Check(
        "nl/num2",
        ref.best(np.array(levels)) * draws,
        1e-3,
        {"fixed positions": worst(np.array(fixed_levels)[np.arange(draws) % 4 < 3]) * draws},
        draws=draws,
        part="wildcards are uniform over the tokens",
        relation=">=",
        note="chi^2, least p times the number of tests.",
    )
    yield from _net(draws, seed)
    yield _training()


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


def _training() -> Check:
    return Check(
        "nl/num2",
        mismatches("paper"),
        0,
        {"the released program's": mismatches("released")},
        draws=16,
        part="training as printed",
        note=f"Settings of the runs that differ from the printed ones: InfoNCE, {ts.STEPS} "
        r"minibatches, batch size, learning rate, momentum, weight decay, $M=\beta P$. The "
        "program's learning rate is ten times the printed one.",
    )


def _relu_net(W: Array, V: Array, x: Array) -> Array:
    """V h(W_k x_k) by a loop over samples and fields; x [n, K, d]."""
    out = []
    for sample in x:
        hidden = [np.maximum(W[k] @ sample[k], 0) for k in range(W.shape[0])]
        out.append(V @ np.concatenate(hidden))
    return np.array(out)


def _net(draws: int, seed: int) -> Iterator[Check]:
    rng = ref.generator("nl/num2", seed)
    errors, shifted, gram = [], [], []
    for i in range(min(draws, 8)):
        W, V = rng.standard_normal((4, 3, 6)), rng.standard_normal((5, 12))
        tokens = rng.integers(0, 6, (2, 7, 4))
        norms = rng.uniform(0.5, 2, 6) if i % 2 else np.ones(6)
        p = dict(zip("WV", tensors(W, V), strict=True))
        found = ts.outputs(p, *tensors(tokens, norms), "relu").numpy()
        x = np.diag(norms)[tokens]
        expected = np.stack([_relu_net(W, V, view) for view in x])
        errors.append(relative(found, expected))
        other = np.stack([_relu_net(W, V, np.roll(view, 1, 1)) for view in x])
        shifted.append(relative(found, other))
        gram.append(abs(np.diag(ts.norms(1.0, 6).double()) - np.eye(6)).max())
    yield Check(
        "nl/num2",
        worst(*errors, np.array(gram)),
        1e-12,
        {"fields exchanged": typical(*shifted)},
        draws=len(errors),
        part="two layers, K disjoint receptive fields, orthonormal embeddings",
    )


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


def _filters(draws: int, seed: int, name: str) -> Iterator[tuple[Array, Array, Array]]:
    """Random filters, sets of P = 1..6 of 8 tokens, and norms of the embeddings."""
    rng = ref.generator(name, seed)
    for i in range(draws):
        W = rng.standard_normal((3, 1 + i % 5, 8)) * rng.lognormal(0, 2, (3, 1 + i % 5, 1))
        inside = rng.random((3, 8)).argsort(1) < 1 + i % 6
        yield W, inside, rng.lognormal(0, 1, 8)


def eq16(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 16 against loops; its range and both ends of it. Controls: without the filters' norms."""
    draws = min(draws, 200)
    errors, bare, above, raw_above, whole, half = [], [], [], [], [], []
    for W, inside, norms in _filters(draws, seed, "nl/eq16"):
        found = float(ts.matching(ts.cosines(torch.from_numpy(W)), torch.from_numpy(inside)))
        plus, _, raw = _scores(W, inside, norms)
        errors.append(abs(found - plus))
        bare.append(abs(found - raw))
        above.append(abs(found) - 1)
        raw_above.append(abs(raw) - 1)
        every = torch.from_numpy(np.stack([3.0 * np.eye(8)] * 3))
        whole.append(abs(float(ts.matching(ts.cosines(every), torch.from_numpy(inside))) - 1))
        few = every[:, :1]
        half.append(abs(float(ts.matching(ts.cosines(few), torch.from_numpy(inside))) - 1))
    yield Check(
        "nl/eq16",
        worst(np.array(errors)),
        1e-13,
        {"without the filters' norms": typical(np.array(bare))},
        draws=draws,
        part="value",
        note="A definition: nothing can fail but our code; tested is that.",
    )
    big = ref.generator("nl/eq16 range", seed).standard_normal((50 * draws, 3, 2, 8))
    sets = torch.arange(8).expand(3, 8) < 3
    inner = ts.matching(ts.cosines(torch.from_numpy(big)), sets)
    one = torch.arange(8).expand(3, 8) < 1
    low = float(ts.matching(ts.cosines(-torch.eye(8).expand(3, 8, 8)[:, :1]), one))
    yield Check(
        "nl/eq16",
        max(worst(np.array(above)), float(inner.abs().max()) - 1),
        1e-12,
        {"without the filters' norms": worst(np.array(raw_above))},
        draws=51 * draws,
        part="range",
        note=f"Both ends are attained: 1 below, {low:.0f} by the filter -u_a alone at P = 1.",
    )
    yield Check(
        "nl/eq16",
        worst(np.array(whole)),
        1e-13,
        {"one filter a field": typical(np.array(half))},
        draws=draws,
        part="all tokens of the set among the filters",
    )


def eq181(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 181 with 1/(d - P), the mean over the tokens it sums, against loops and in range.
    Controls: the score of the tokens inside, the prefactor 1/P as typeset."""
    draws = min(draws, 200)
    mean, inner, other = [], [], []
    for W, inside, norms in _filters(draws, seed, "nl/eq181"):
        found = float(ts.matching(ts.cosines(torch.from_numpy(W)), torch.from_numpy(~inside)))
        plus, minus, _ = _scores(W, inside, norms)
        P = inside[0].sum()
        mean.append(abs(found - minus * P / (8 - P)))
        inner.append(abs(plus - found))
        other.append(abs(found - minus) if P != 4 else np.nan)
    yield Check(
        "nl/eq181",
        worst(np.array(mean)),
        1e-12,
        {"tokens inside": typical(np.array(inner)), "as typeset: 1/P": float(np.nanmedian(other))},
        draws=draws,
        part="value",
        misprint=r"$\frac1P\sum_{a\notin R_k^g}$ -> $\frac1{d-P}\sum_{a\notin R_k^g}$",
        note="A definition; tested is our code, against loops. The sum has d - P terms, and the "
        "authors' program divides by d - P.",
    )
    off, fair = [], []
    for P in (1, 3, 5, 10):
        best = np.ones((FIELDS, TOKENS))  # filters equal to all embeddings
        inside = np.arange(TOKENS) < P
        most = (best * ~inside).sum(1).mean() / P
        off.append(abs(most - 1))
        found = ts.matching(*tensors(best, np.broadcast_to(~inside, best.shape)))
        fair.append(abs(float(found) - 1))
    yield Check(
        "nl/eq181",
        max(fair),
        1e-12,
        {"as typeset: 1/P": off[0]},
        draws=4,
        part="range",
        misprint=r"$\frac1P$ -> $\frac1{d-P}$",
        note="Its largest value is 1, like that of the other score. With 1/P it would be "
        "(d - P)/P, 19 for P = 1.",
    )


# -------------------------------------------------------------------------------- the BatchNorms


def _backward(g: Array, f: Array, scale: Array, kind: str) -> Array:
    """The gradient at the inputs from the gradient g at the normalised values f, [n, units]."""
    through_mean, through_variance = ts.NORMALISATIONS[kind]
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
    """The same from the printed formula, in numpy; InfoNCE's gradient at f is torch's."""
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


def num3(draws: int, seed: int) -> Iterator[Check]:
    """The four variants: one forward pass, four gradients, each against its closed form, BatchNorm
    after and before the activation. Controls: no BatchNorm, another variant's closed form."""
    rng = ref.generator("nl/num3", seed)
    kinds = [k for k in ts.NORMALISATIONS if k != "none"]
    draws = min(draws, 30)
    for before in (False, True):
        place = "before" if before else "after"
        spread, plain, errors, crossed, gaps = [], [], [], [], []
        for _ in range(draws):
            W, V = rng.standard_normal((3, 2, 5)), rng.standard_normal((4, 6))
            tokens = rng.integers(0, 5, (2, 12, 3))
            found = {k: _gradients(W, V, tokens, k, before) for k in kinds}
            right = {k: _expected(W, V, tokens, k, before) for k in kinds}
            none = _gradients(W, V, tokens, "none", before)[0]
            for i, k in enumerate(kinds):
                spread.append(abs(found[k][0] - right[k][0]).max())
                plain.append(abs(none - right[k][0]).max())
                errors.append(abs(found[k][1] - right[k][1]).max() / abs(right[k][1]).max())
                for other in kinds[:i]:
                    gap = abs(found[k][1] - right[other][1]).max() / abs(right[other][1]).max()
                    crossed.append(gap)
                    gaps.append(gap)
        yield Check(
            "nl/num3",
            worst(np.array(spread)),
            1e-12,
            {"no BatchNorm": typical(np.array(plain))},
            draws=draws * len(kinds),
            part=f"one forward pass, {place} the activation",
            note="The left side's $f^{bn}$ stands on the right, too: there it is the input.",
        )
        yield Check(
            "nl/num3",
            worst(np.array(errors)),
            1e-10,
            {"another variant": typical(np.array(crossed))},
            draws=draws * len(kinds),
            part=f"four gradients, {place} the activation",
            note="Outputs of norm 1, as in the runs, though not in Eq. 1. No two coincide: least "
            f"relative gap {min(gaps):.1e}.",
        )
    yield _coincide(rng, draws)


def _coincide(rng: np.random.Generator, draws: int) -> Check:
    """Eq. 1 of raw outputs, BatchNorm after the activation: the mean's gradient is zero."""
    pairs = (("vanilla", "variance"), ("mean", "neither"))
    raw, scaled, across = [], [], []
    for _ in range(draws):
        W, V = rng.standard_normal((3, 2, 5)), 0.3 * rng.standard_normal((4, 6))
        tokens = rng.integers(0, 5, (2, 12, 3))
        for out, loss in ((raw, eq1), (scaled, ts.loss)):
            g = {k: _gradients(W, V, tokens, k, False, loss)[1] for k in sum(pairs, ())}
            out += [abs(g[a] - g[b]).max() / abs(g[a]).max() for a, b in pairs]
            if loss is eq1:
                across.append(abs(g["vanilla"] - g["mean"]).max() / abs(g["mean"]).max())
    return Check(
        "nl/num3",
        worst(np.array(raw)),
        1e-10,
        {
            "outputs of norm 1": typical(np.array(scaled)),
            "with and without the deviation": typical(np.array(across)),
        },
        draws=2 * draws,
        part="two pairs coincide under Eq. 1, after the activation",
        note="Eq. 1 depends on differences of outputs only, so the switch of the mean does "
        r"nothing: $\mu$'s columns of Table 1 can differ only through outputs of norm 1.",
    )
