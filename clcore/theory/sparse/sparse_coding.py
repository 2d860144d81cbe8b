"""The sparse coding model: x = M z + noise, seen through two random masks (ncl Sec. 4).

M is a p x d dictionary with orthonormal columns, z a sparse latent; a view D x keeps a coordinate
of x with probability `keep`. An encoder W, m x p, is scored by how well some row of it matches each
column of M (`max_cosine`). ncl states several pieces in more than one way, and the authors' program
adds its own; `READINGS` names them all. Every function takes one key or one run, and is batched by
`torch.func.vmap`; leading dimensions of tensors are free where stated in the signature.
"""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore import random as cr
from clcore.sweep.optim import unit_columns, unit_norm, unit_rows

READINGS: dict[str, dict[str, str]] = {
    "latent": {
        "iid": "entries i.i.d. in {-1, 0, 1}, Pr(z_i != 0) = beta, signs equally likely, given "
        "that z is not zero (ncl Sec. 4.2 and its footnote)",
        "iid-zeros": "the same without the condition (ncl Assumption 1)",
        "binary": "entries i.i.d. in {0, 1}, Pr(z_i = 1) = beta (ncl Eq. 1)",
        "fixed": "numbers of -1 and +1 the same in every sample, see `fixed_counts` (program)",
        "one-hot": "one entry +1, its place uniform (ncl Theorem 1, Fig. 1)",
        "signed-one-hot": "one entry -1 or +1, place and sign uniform",
    },
    "noise": {
        "std": "sigma_0 = log d / d (ncl Sec. 4.1)",
        "variance": "sigma_0^2 = log d / d (ncl Sec. 4.2, N(0, log d / d) read as mean, variance)",
        "released": "sigma_0 = sqrt(log d) / d (program)",
        "none": "sigma_0 = 0 (ncl Theorem 1)",
    },
    "mask": {
        "independent": "D_1 x and D_2 x, independent masks (ncl Eq. 3)",
        "dependent": "2 D x and 2 (I - D) x, one mask (ncl Eq. 2)",
    },
    "warm": {
        "rows": "rows of W are columns of M: all of them in order when m = d, else drawn with "
        "replacement (program)",
        "replacement": "rows of W are columns of M, drawn with replacement also when m = d",
        "balanced": "rows of W are columns of M, each floor(m/d) or ceil(m/d) times, shuffled",
        "columns": "columns of W are columns of M, drawn with replacement; needs m = p (ncl Sec. "
        "5.2.2 and App. B.1.4 by the letter)",
    },
}
"""kind -> name -> its meaning and source."""


def one_of(kind: str, name: str) -> None:
    """Raise ValueError unless `name` is a reading of `kind`."""
    if name not in READINGS[kind]:
        raise ValueError(f"{kind}: expected one of {', '.join(READINGS[kind])}, got {name!r}")


def _probability(name: str, value: float | Tensor) -> None:
    # Inside vmap the value of a tensor is unknown: configurations are checked before.
    if not isinstance(value, Tensor) and not 0 < value <= 1:
        raise ValueError(f"{name}: expected a probability, 0 < {name} <= 1, got {value}")


# ------------------------------------------------------------------------------------------ data


def dictionary(
    key: Int[Tensor, ""], p: int, d: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "p d"]:
    """The Q factor of a p x d matrix of standard normals: orthonormal columns. Errors: p < d.

    The signs are those that make R's diagonal positive, so that M is uniform on the Stiefel
    manifold and the same whatever the linear algebra library.
    """
    if not 1 <= d <= p:
        raise ValueError(f"d: expected 1 <= d <= p for orthonormal columns, got d={d}, p={p}")
    Q, R = torch.linalg.qr(cr.normal(key, (p, d), dtype=torch.float64))
    return (Q * torch.where(R.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0)).to(dtype)


def fixed_counts(d: int, beta: float | Float[Tensor, ""]) -> tuple[Tensor, Tensor]:
    """(number of -1, number of non-zeros) of the program: s = ceil(d beta / 2) and
    max(ceil(d beta), s + 1), at most d. At d = 10 beta = 0.1 and 0.2 are the same law, (1, 2)."""
    # 10 * float32(0.3) is above 3: a product within 1e-5 of an integer is that integer.
    product = torch.as_tensor(beta, dtype=torch.float64) * d
    minus = torch.ceil(product / 2 - 1e-5)
    both = torch.maximum(torch.ceil(product - 1e-5), minus + 1)
    return minus.clamp(max=d), both.clamp(max=d)


def _count(key: Tensor, n: int, d: int, beta: float | Tensor) -> Int[Tensor, "n"]:
    """Numbers of non-zeros, binomial(d, beta) given that they are not 0."""
    like: dict[str, Any] = {"dtype": torch.float64, "device": key.device}
    beta, k = torch.as_tensor(beta, **like), torch.arange(1, d + 1, **like)
    ways = torch.tensor([float(math.comb(d, i)) for i in range(1, d + 1)], **like)
    law = ways * beta**k * (1 - beta) ** (d - k)
    share = law.cumsum(0) / law.sum()
    drawn = cr.uniform(key, n, dtype=torch.float64)
    return 1 + (drawn[:, None] >= share[:-1]).sum(-1)


def latents(
    key: Int[Tensor, ""],
    n: int,
    d: int,
    beta: float | Float[Tensor, ""] = 0.1,
    kind: str = "iid",
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "n d"]:
    """n sparse latents, with entries -1, 0, 1; `kind` of READINGS["latent"].

    The one-hot kinds ignore beta. Errors: unknown kind, beta outside (0, 1] (as a number).
    """
    one_of("latent", kind)
    _probability("beta", beta)
    counts, places, signs = cr.split(key, 3)
    if kind in ("binary", "iid-zeros"):
        at = cr.bernoulli(places, beta, (n, d))
    else:
        rank = cr.permutation(places, d, n)
        if kind == "fixed":
            minus, both = fixed_counts(d, beta)
            return torch.where(rank < minus, -1.0, (rank < both).double()).to(dtype)
        at = rank < (_count(counts, n, d, beta)[:, None] if kind == "iid" else 1)
    if kind in ("binary", "one-hot"):
        return at.to(dtype)
    sign = 2 * cr.small_randint(signs, (n, d), 2) - 1
    return (at * sign).to(dtype)


def noise_std(d: int, kind: str = "std") -> float:
    """sigma_0 of READINGS["noise"]; at d = 10: std 0.230, variance 0.480, released 0.152."""
    one_of("noise", kind)
    if d < 1:
        raise ValueError(f"d: expected at least 1 latent, got {d}")
    log = math.log(d)
    return {"std": log / d, "variance": (log / d) ** 0.5, "released": log**0.5 / d, "none": 0.0}[
        kind
    ]


def samples(
    key: Int[Tensor, ""],
    M: Float[Tensor, "p d"],
    z: Float[Tensor, "n d"],
    sigma: float | Float[Tensor, ""],
) -> Float[Tensor, "n p"]:
    """x = M z + sigma * standard normal (ncl Eq. 1)."""
    return z @ M.T + sigma * cr.normal(key, (z.shape[0], M.shape[0]), dtype=M.dtype)


# ----------------------------------------------------------------------------------------- masks

PLACES = 16
"""Binary digits of a keep probability: it is off by at most 2^-17."""


def coin_words(key: Int[Tensor, "*b"], count: int, keep: float = 0.5) -> Int[Tensor, "*b words"]:
    """The bits of `count` `coins`, 64 to an int64, the lowest first; those after `count` are more
    of them. Errors: those of `coins`."""
    _probability("keep", keep)
    steps, words = round(keep * 2**PLACES), -(-count // 64)
    if steps == 2**PLACES:
        return torch.full((*key.shape, words), -1, device=key.device)
    if steps == 0:
        raise ValueError(f"keep: expected at least 2^-{PLACES + 1}, got {keep}")
    digits = format(steps, f"0{PLACES}b").rstrip("0")
    fresh = cr.bits(key, (len(digits), words)).unbind(-2)
    word = fresh[-1]
    for digit, other in zip(digits[-2::-1], fresh[-2::-1], strict=True):
        word = word | other if digit == "1" else word & other
    return word


def coins(key: Int[Tensor, ""], count: int, keep: float) -> Float[Tensor, "count"]:
    """`count` independent zeros and ones, 1 with probability `keep` to within 2^-17.

    64 at a time: with keep = 0.b_1 b_2 ... in binary, start from 0 and for k = last ... 1 take OR
    (b_k = 1) or AND (b_k = 0) with a fresh random word. keep = 1/2 takes one word, 1/4 two.
    """
    word = coin_words(key, count, keep)
    # Eight at a time from a table: the bits as int64 would be eight times the memory.
    byte, places = (torch.arange(n, device=key.device) for n in (256, 8))
    table = ((byte[:, None] >> places) & 1).to(torch.float32)
    octets = (word[:, None] >> (8 * places)) & 255
    return torch.nn.functional.embedding(octets, table).flatten()[:count]


def masks(
    key: Int[Tensor, ""], n: int, p: int, keep: float = 0.5, kind: str = "independent"
) -> Float[Tensor, "two n p"]:
    """What both views multiply x by: 0 and 1 (independent), 0 and 2 (dependent).

    keep: Bernoulli parameter of D's diagonal, ncl's alpha, a number. A row may drop everything:
    that view is zero. Errors: unknown kind, keep outside (0, 1].
    """
    one_of("mask", kind)
    if kind == "independent":
        return coins(key, 2 * n * p, keep).reshape(2, n, p)
    D = coins(key, n * p, keep).reshape(n, p)
    return torch.stack([2 * D, 2 * (1 - D)])


def views(
    x: Float[Tensor, "*b n p"], D: Float[Tensor, "*b two n p"]
) -> Float[Tensor, "*b two n p"]:
    """D_1 x and D_2 x."""
    return D * x.unsqueeze(-3)


def mask_words(
    key: Int[Tensor, "*b"], n: int, p: int, keep: float = 0.5, kind: str = "independent"
) -> Int[Tensor, "*b words"]:
    """The `coin_words` of `masks`. Errors: those of `masks`."""
    one_of("mask", kind)
    return coin_words(key, (2 if kind == "independent" else 1) * n * p, keep)


def views_of_words(
    x: Float[Tensor, "rows p"],
    words: Int[Tensor, "words"],
    n: int,
    kind: str = "independent",
) -> Float[Tensor, "two rows p"]:
    """`views` under the first rows of the n of `masks`, from their `mask_words`, in half the time:
    a bit is moved to where an integer has its sign, which decides whether a number stays or is 0.
    """
    ints = torch.int32 if x.element_size() == 4 else torch.int64
    width, (rows, p), sides = 8 * x.element_size(), x.shape, 2 if kind == "independent" else 1
    places = torch.arange(width - 1, -1, -1, dtype=ints, device=x.device)
    # Inverted, since a negative number is to drop; the low half of an int64 comes first in memory.
    signs = (~words).view(ints)[:, None] << places
    signs = signs.flatten()[: sides * n * p].view(sides, n, p)[:, :rows]
    both = x.view(ints).expand(sides, rows, p)
    kept = torch.ops.aten.threshold_backward(both, signs, -1).view(x.dtype)
    if kind == "independent":
        return kept
    return 2 * torch.cat([kept, x - kept])


# --------------------------------------------------------------------------------------- encoder


def symmetric_relu(
    x: Float[Tensor, "*b m"], b: Float[Tensor, "*#b m"] | float
) -> Float[Tensor, "*b m"]:
    """ReLU(x - b) - ReLU(-x - b): ncl Eq. 14, which writes it by cases for b > 0, where |x| <= b
    gives 0. b = 0 is the identity; b < 0 has slope 2 where |x| < |b|."""
    return torch.relu(x - b) - torch.relu(-x - b)


def released_symmetric_relu(
    u: Float[Tensor, "*b m"], b: Float[Tensor, "*#b m"] | float
) -> Float[Tensor, "*b m"]:
    """ReLU(u) - ReLU(2b - u), as the program has it, on u = W x + b: then it is Eq. 14 at bias -b.

    After BatchNorm, which takes b out of u, it is zero on [2b, 0] and no longer odd."""
    return torch.relu(u) - torch.relu(2 * b - u)


def normalised(w: Float[Tensor, "*b m p"], kind: str) -> Float[Tensor, "*b m p"]:
    """Weights with rows or columns of norm 1, or as they are: kind "rows", "columns", "none".

    A row or column of zeros has no direction and stays zero. Errors: another kind.
    """
    if kind not in ("none", "rows", "columns"):
        raise ValueError(f"normalise: expected none, rows or columns, got {kind!r}")
    if kind == "none":
        return w
    return unit_rows(w) if kind == "rows" else unit_columns(w)


def random_start(
    key: Int[Tensor, ""], m: int, p: int, d: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "m p"]:
    """Entries N(0, 1/(p d)), ncl Sec. 4.2 with constant 1, as in the program."""
    return cr.normal(key, (m, p), dtype=dtype) / (p * d) ** 0.5


def warm_std(p: int, c: float) -> float:
    """sigma = p^(-c/2): ncl Sec. 5.2.2."""
    return p ** (-c / 2)


def warm_start(
    key: Int[Tensor, ""],
    M: Float[Tensor, "p d"],
    m: int,
    sigma: float | Float[Tensor, ""],
    kind: str = "rows",
) -> Float[Tensor, "m p"]:
    """Columns of M plus N(0, sigma^2) on every entry; `kind` of READINGS["warm"].

    Errors: unknown kind; "columns" with m != p, since a column of M has p entries and one of W m;
    "rows" with m < d, where the program cannot start.
    """
    one_of("warm", kind)
    p, d = M.shape[-2:]
    pick, shake = cr.split(key)
    if kind == "columns" and m != p:
        raise ValueError(f"warm: columns of W can be columns of M only if m = p, got {m} and {p}")
    if kind == "rows" and m < d:
        raise ValueError(f"warm: 'rows' needs m >= d, got m={m}, d={d}; use 'replacement'")
    if kind == "balanced":
        # Which columns occur once more than the others is drawn, too.
        which = (cr.permutation(pick, d)[torch.arange(m) % d])[
            cr.permutation(cr.fold_in(pick, 1), m)
        ]
    elif kind == "rows" and m == d:
        which = torch.arange(d)
    else:
        which = cr.randint(pick, p if kind == "columns" else m, 0, d)
    chosen = M[:, which]
    return (chosen if kind == "columns" else chosen.T) + sigma * cr.normal(
        shake, (m, p), dtype=M.dtype
    )


# ---------------------------------------------------------------------------------------- metric


def max_cosine(W: Float[Tensor, "*b m p"], M: Float[Tensor, "*#b p d"]) -> Float[Tensor, "*b d"]:
    """Per latent j the largest |cos(W_i*, M_*j)| over the rows i: ncl Eq. 11.

    A row of zeros has cosine 0 with everything; a dictionary column of zeros likewise.
    """
    return (unit_norm(W, -1) @ unit_norm(M, -2)).abs().amax(-2)


def summary(best: Float[Tensor, "*b d"]) -> dict[str, Float[Tensor, "*b"]]:
    """minimum, median and maximum over latents; the median of an even number is the mean of the
    middle two."""
    ordered, d = best.sort(-1).values, best.shape[-1]
    middle = (ordered[..., (d - 1) // 2] + ordered[..., d // 2]) / 2
    return {"minimum": ordered[..., 0], "median": middle, "maximum": ordered[..., -1]}
