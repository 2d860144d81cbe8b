"""Adding one direction again and again, and normalising (ncl Lemma 1, App. D).

v <- (v + c g) / |v + c g| with a fixed direction g and steps c > 0. In Lemma 1 g = (1, a, ..., a);
nothing changes for other g, and Theorem 3 needs one entry for each coordinate.
"""

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["contraction", "direction", "iterate", "limit", "step"]


def direction(a: Float[Tensor, "*b"], d: int) -> Float[Tensor, "*b d"]:
    """Lemma 1's g = (1, a, ..., a) in d >= 2 dimensions."""
    if d < 2:
        raise ValueError(f"d: expected at least 2 dimensions, got {d}; with one there is no angle")
    rest = a[..., None].expand(*a.shape, d - 1)
    return torch.cat([torch.ones_like(rest[..., :1]), rest], -1)


def step(
    v: Float[Tensor, "*b d"], g: Float[Tensor, "*#b d"], c: float | Float[Tensor, "*#b"]
) -> Float[Tensor, "*b d"]:
    """(v + c g) / |v + c g|.

    Raises ValueError where v + c g is zero, which has no direction.
    """
    moved = v + torch.as_tensor(c, dtype=v.dtype, device=v.device)[..., None] * g
    norm = moved.norm(dim=-1, keepdim=True)
    if bool((norm == 0).any()):
        raise ValueError(
            "v + c g: expected a non-zero vector, got zero; the start is opposite to g, choose "
            "another start or step"
        )
    return moved / norm


def iterate(
    v: Float[Tensor, "*b d"], g: Float[Tensor, "*#b d"], c: Float[Tensor, "t *#b"]
) -> Float[Tensor, "t1 *b d"]:
    """The trajectory v(0), ..., v(t) for the steps c(0), ..., c(t - 1); t1 = t + 1."""
    path = [v]
    for size in c:
        path.append(step(path[-1], g, size))
    return torch.stack(path)


def limit(g: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """Where the update leads from every start with v . g > 0: g / |g| (ncl Lemma 1).

    Raises ValueError for g = 0, which moves nothing.
    """
    norm = g.norm(dim=-1, keepdim=True)
    if bool((norm == 0).any()):
        raise ValueError("g: expected a non-zero direction, got zero; such an update moves nothing")
    return g / norm


def contraction(g: Float[Tensor, "*b d"], c: float | Float[Tensor, "*#b"]) -> Float[Tensor, "*b"]:
    """gamma = 1 / sqrt(1 + |g|^2 c^2) of ncl Eq. 26, for steps of at least c > 0.

    One step from a unit v with v . g >= 0 shrinks every v_i g_j - v_j g_i by at least this factor.
    """
    c = torch.as_tensor(c, dtype=g.dtype, device=g.device)
    if bool((c <= 0).any()):
        raise ValueError(f"c: expected a positive lower bound of the steps, got {c.min():g}")
    return 1 / (1 + (g**2).sum(-1) * c**2).sqrt()
