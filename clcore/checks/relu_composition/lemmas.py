"""The lemmas on X_alpha of an orthogonal mixture: signs, eigenvectors (acl App. B, 14 to 16)."""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np

from clcore import reference as ref
from clcore.ledger import Check, check
from clcore.losses import contrast
from clcore.reference import Array, best, mixture, tensors, typical, worst

SIZES = (2, 3, 5, 8)


def _clcore(x: Array, x2: Array, alpha: Array) -> Array:
    return contrast.contrastive_covariance(*tensors(alpha, x, x2, x, x2)).numpy()


def _perron(x: Array) -> Array:
    """The leading eigenvector of beta I - X > 0, by squaring it forty times."""
    beta = 2 * np.abs(x).sum((-1, -2))[:, None, None]
    power = beta * np.eye(x.shape[-1]) - x
    for _ in range(40):
        power = power @ power
        power = power / np.linalg.norm(power, axis=(-2, -1), keepdims=True)
    u = power.sum(-1)
    return u / np.linalg.norm(u, axis=-1, keepdims=True)


def _between(x: Array) -> Array:
    """[draws, n, n]: whether two samples show different modes."""
    active = (x > 0).any(-1)
    return active[:, :, None] & active[:, None] & ~(x @ x.swapaxes(-1, -2) > 0)


@check("acl/lem14")
def lem14(draws: int, seed: int) -> Iterator[Check]:
    """The maximal eigenvector has entries of both signs; the minimal one has not, and is simple.

    Eigenvectors by LAPACK, and the Perron vector by repeated squaring. Controls: a mode that is not
    shown, no weight between modes, two active modes.
    """
    check = partial(Check, "acl/lem14")
    rng = ref.generator("lem14", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    count = ref.share(draws, len(SIZES))
    for modes in SIZES:
        n = max(10, 2 * modes)
        x, x2 = mixture.field(rng, count, n, modes)
        alpha = mixture.weights(rng, count, n)
        matrix = _clcore(x, x2, alpha)
        values, vectors = np.linalg.eigh(matrix)
        top, u = vectors[..., -1], _perron(matrix)
        found["signs"].append(np.minimum(top.max(-1), -top.min(-1)))
        found["one sign"].append(np.abs(u).min(-1) * (np.sign(u) == np.sign(u[:, :1])).all(-1))
        found["simple"].append((values[:, 1] - values[:, 0]) / np.abs(values).max(-1))
        found["same"].append(1 - np.abs((u * vectors[..., 0]).sum(-1)))
        found["ones"].append(np.abs(top.sum(-1)) / np.sqrt(modes))
        found["across"].append(np.abs((u * top).sum(-1)))
        split = _clcore(x, x2, alpha * ~_between(x))
        lonely, pairs = np.linalg.eigh(split)[1][..., -1], mixture.two_hot(rng, x)
        found["no weight between modes"].append(np.minimum(lonely.max(-1), -lonely.min(-1)))
        if modes > 2:
            same = np.linalg.eigh(_clcore(pairs, pairs, alpha))
            low = same[1][..., 0]
            found["two active modes"].append(np.abs(low).min(-1) * ((low > 0).all(-1)))
        if modes == 2:
            one, one2 = mixture.field(rng, count, n, 2, missing=1)
            end = mixture.top(_clcore(one, one2, alpha))
            found["one mode not shown"].append(np.minimum(end.max(-1), -end.min(-1)))
    total = count * len(SIZES)
    control = {
        k: typical(np.concatenate(found[k]))
        for k in ("no weight between modes", "one mode not shown")
    }
    yield check(
        best(*found["signs"]),
        1e-5,
        control,
        relation=">=",
        draws=total,
        part="both signs",
        note="Least size of the smaller sign.",
    )
    yield check(
        best(*found["one sign"], *found["simple"]),
        1e-6,
        {"two active modes": typical(np.concatenate(found["two active modes"]))},
        relation=">=",
        draws=total,
        part="minimal eigenvector",
        note="Its least entry (one sign throughout), and the relative gap above its eigenvalue.",
    )
    yield check(
        worst(*found["across"], *found["same"]),
        1e-9,
        {"all ones for u": typical(np.concatenate(found["ones"]))},
        draws=total,
        part="orthogonal to it",
    )


@check("acl/lem15")
def lem15(draws: int, seed: int) -> Iterator[Check]:
    """Off the diagonal X_alpha is negative for alpha > 0, as the proof and Lemma 14 have it.

    Weights of 0 between two modes, which Eq. 4 allows, leave a 0 there. clcore's covariance against
    -sum (alpha_ij + alpha_ji) x_im x_jl over the samples of two modes.
    Controls: two active modes, a mode not shown, no weight between modes.
    """
    check = partial(Check, "acl/lem15")
    rng = ref.generator("lem15", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    count = ref.share(draws, len(SIZES))
    for modes in SIZES:
        n = max(10, 2 * modes)
        x, x2 = mixture.field(rng, count, n, modes)
        alpha = mixture.weights(rng, count, n)
        scale = 1 / np.abs(mixture.covariance(alpha, x, x2)).max((-1, -2))

        def largest(matrix: Array, scale: Array = scale) -> Array:
            return ref.off(matrix).max((-1, -2)) * scale

        found["positive"].append(largest(_clcore(x, x2, alpha)))
        own = ((x - x2)[..., :, None] * (x - x2)[..., None, :]).sum(1)
        found["augmentation"].append(np.abs(ref.off(own)).max((-1, -2)))
        pairs = mixture.two_hot(rng, x)
        pairs2 = pairs * rng.uniform(0.5, 1.5, pairs.shape)
        own = ((pairs - pairs2)[..., :, None] * (pairs - pairs2)[..., None, :]).sum(1)
        found["augmentation of two modes"].append(np.abs(ref.off(own)).max((-1, -2)))
        less, less2 = mixture.field(rng, count, n, modes, missing=1)
        found["a mode not shown"].append(largest(_clcore(less, less2, alpha)))
        between = _between(x)
        found["zeros"].append(largest(_clcore(x, x2, alpha * ~between)))
        # Some zeros, but one pair of samples left for every two modes, in one direction only.
        kept = alpha * (rng.random(alpha.shape) > 0.8)
        kept[:, :modes, :modes] = alpha[:, :modes, :modes] * np.triu(np.ones((modes, modes)), 1)
        matrix = _clcore(x, x2, kept)
        found["some zeros"].append(largest(matrix))
        closed = -np.einsum("bij,bim,bjl->bml", kept + kept.swapaxes(-1, -2), x, x)
        found["formula"].append(np.abs(ref.off(matrix - closed)).max((-1, -2)) * scale)
        half = -np.einsum("bij,bim,bjl->bml", kept, x, x)
        found["alpha_ij alone"].append(np.abs(ref.off(matrix - half)).max((-1, -2)) * scale)
    total = count * len(SIZES)
    joined = {name: np.concatenate(v) for name, v in found.items()}
    broken = {
        "no weight between modes": typical(joined["zeros"]),
        "a mode not shown": typical(joined["a mode not shown"]),
    }
    yield check(
        worst(joined["positive"]),
        -1e-8,
        broken,
        draws=total,
        part="off the diagonal",
        note="Largest off-diagonal entry relative to the largest of all. Fails where all weights "
        r"between two modes are 0, which Eq. 4 allows and the proof's $\alpha_{ij}>0$ does not: "
        r"the triplet loss of Table 1, margin $\epsilon<\frac12$, $N=M=2$, $x[i]=x[i']=e_i$, "
        r"$w_1=e_1$, has $d_{12}=\frac12>\epsilon$, so $\alpha=0$ and $X_\alpha=0$.",
    )
    yield check(
        worst(joined["some zeros"]),
        -1e-8,
        broken,
        draws=total,
        part="with some weights 0",
        note=r"Ours: it is enough that for any two modes $m\ne l$ some $i$ of $m$ and $j$ of $l$ "
        r"have $\alpha_{ij}+\alpha_{ji}>0$.",
    )
    yield check(
        worst(joined["augmentation"]),
        0.0,
        {"two active modes": typical(joined["augmentation of two modes"])},
        draws=total,
        part="augmentation",
        note="Off-diagonal part of the sum over views.",
    )
    yield check(
        worst(joined["formula"]),
        1e-12,
        {"alpha_ij alone": typical(joined["alpha_ij alone"])},
        draws=total,
        part="value",
        note=r"$[X_\alpha]_{ml}=-\sum_{i\in A_m,j\in A_l}(\alpha_{ij}+\alpha_{ji})x_m[i]x_l[j]$.",
    )


@check("acl/lem16")
def lem16(draws: int, seed: int) -> Iterator[Check]:
    """How negative a vector orthogonal to a positive one must be, as Eq. 129 gives it.

    Eq. 128 lacks the brackets around d - k: a misprint. Controls: the letters as they are, k for
    d - k, the bound doubled, u not orthogonal to v.
    """
    check = partial(Check, "acl/lem16")
    rng = ref.generator("lem16", seed)
    outside: dict[str, list[Array]] = defaultdict(list)
    sizes = range(2, 9)
    count = max(500, draws)
    for d in sizes:
        v = rng.uniform(0.05, 3, (count, d))
        raw = rng.standard_normal((count, d))
        u = raw - (raw * v).sum(-1, keepdims=True) / (v * v).sum(-1, keepdims=True) * v
        low, high, least, most = u.min(-1), np.abs(u).max(-1), v.min(-1), v.max(-1)
        k = (u >= 0).sum(-1)
        bound = -least / (d - k) * high / most
        outside["bound"].append(low > bound + 1e-12)
        fused = d - k * most
        outside["printed"].append(low > -least * high / fused + 1e-12)
        outside["doubled"].append(low > 2 * bound + 1e-12)
        outside["k for d - k"].append(low > -least * high / (k * most) + 1e-12)
        shifted = u + 0.5 * v
        k2 = (shifted >= 0).sum(-1)
        wide = -least * np.abs(shifted).max(-1) / (np.maximum(d - k2, 1) * most)
        outside["not orthogonal"].append(shifted.min(-1) > wide + 1e-12)
        line = least * np.maximum(u, 0).max(-1) + (d - k) * most * low
        outside["line"].append(line > 1e-12)
        outside["line, k"].append(least * np.maximum(u, 0).max(-1) + k * least * low > 1e-12)
    share = {name: float(np.concatenate(v).mean()) for name, v in outside.items()}
    total = count * len(sizes)
    yield check(
        share["bound"],
        0.0,
        {
            r"as typeset, $d-k\|v\|_\infty$ below": share["printed"],
            "bound doubled": share["doubled"],
            "k for d - k": share["k for d - k"],
            "u not orthogonal": share["not orthogonal"],
        },
        draws=total,
        part="Eq. 128",
        misprint=r"$d-k\,\|v\|_\infty$ -> $(d-k)\,\|v\|_\infty$, as in Eq. 129",
        note=r"Share of random $u\perp v$ that break the bound. Without the brackets: "
        r"$v=(\frac32,1)$, $u=(2,-3)$ has $d=2$, $k=1$ and $\min_mu_m=-3$, and the fraction is 6.",
    )
    yield check(
        share["line"],
        0.0,
        {"k for d - k": share["line, k"]},
        draws=total,
        part="Eq. 129",
    )
