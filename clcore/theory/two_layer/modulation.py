"""Global modulation of attractive basins: y_l' = (y_l + b_l) y_l (nl Theorem 6, App. C.3).

y_l = u_l^T w are the components of one filter on orthonormal patterns, b_l = b, or b + c for the
pattern that the top layer supports. The paper drops the projection on the sphere, solves the
components one by one, and lets the first that blows up win. `simulate` integrates the flow with
and without the projection.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def _require_positive(b: Tensor) -> None:
    if not bool((b > 0).all()):
        raise ValueError("expected b > 0, so that g(0) = b is positive; got some that are not")


def force(
    y: Float[Tensor, "*#b d"], b: Float[Tensor, "*#b d"], projected: bool = False
) -> Float[Tensor, "*c d"]:
    """(y_l + b_l) y_l (nl Eq. 146); projected: minus its part along y, for |y| = 1 (nl Eq. 15)."""
    move = (y + b) * y
    return move - (move * y).sum(-1, keepdim=True) * y if projected else move


def solution(y0: Float[Tensor, "*b"], b: Float[Tensor, "*b"], t: float | Tensor) -> Tensor:
    """y(t) before its blow-up, from y / (y + b) = y0 / (y0 + b) e^(bt) (nl Eq. 147)."""
    grown = y0 * torch.exp(b * t)
    return b * grown / (y0 + b - grown)


def critical_time(y0: Float[Tensor, "*b"], b: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """ln(1 + b / y0) / b (nl Eq. 150), infinite where y0 <= 0. Errors: b <= 0."""
    _require_positive(b)
    grows = y0 > 0
    safe = torch.where(grows, y0, 1.0)
    return torch.where(grows, torch.log1p(b / safe) / b, torch.inf)


def critical_slope(y0: Float[Tensor, "*b"], b: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """d t* / d b for y0 > 0 (nl Eq. 151), always negative. Errors: b <= 0, y0 <= 0."""
    _require_positive(b)
    if not bool((y0 > 0).all()):
        raise ValueError("expected y0 > 0: other components have no critical time")
    x = b / y0
    return (x / (1 + x) - torch.log1p(x)) / b**2


def first_to_blow_up(y0: Float[Tensor, "*b d"], b: Float[Tensor, "*b d"]) -> Int[Tensor, "*b"]:
    """argmin_l t_l*, the winner by critical times; -1 where no component is positive."""
    times = critical_time(y0, b)
    return torch.where(torch.isinf(times).all(-1), -1, times.argmin(-1))


def simulate(
    y0: Float[Tensor, "*b d"],
    b: Float[Tensor, "*b d"],
    projected: bool = True,
    steps: int = 1500,
    pace: float = 0.1,
) -> Float[Tensor, "*b d"]:
    """Unit vectors y / |y| after many Runge-Kutta steps from y0.

    projected: on the sphere, starting from y0 / |y0|. Otherwise the components run alone, each
    step short enough that none grows by much more than a factor 1 + pace, and stop at 1e9.
    """
    y = y0 / torch.linalg.vector_norm(y0, dim=-1, keepdim=True) if projected else y0
    size = b.max(-1, keepdim=True).values
    for _ in range(steps):
        reach = y.abs().max(-1, keepdim=True).values
        h = pace / (size if projected else reach + size)
        if not projected:
            h = torch.where(reach < 1e9, h, 0.0)
        k1 = force(y, b, projected)
        k2 = force(y + h / 2 * k1, b, projected)
        k3 = force(y + h / 2 * k2, b, projected)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + force(y + h * k3, b, projected))
        if projected:
            y = y / torch.linalg.vector_norm(y, dim=-1, keepdim=True)
    return y / torch.linalg.vector_norm(y, dim=-1, keepdim=True)


def winner(y: Float[Tensor, "*b d"], purity: float = 0.99) -> Int[Tensor, "*b"]:
    """Index l of the pattern u_l that unit y has reached, -1 if none (-u_l does not count)."""
    top = y.max(-1)
    return torch.where(top.values >= purity, top.indices, -1)


# --------------------------------------------------- independent uniform starts with a head start


def win_probability(epsilon: Float[Tensor, "*b"], d: int) -> Float[Tensor, "*b"]:
    """P[Y_l > 0, Y_l + epsilon >= max of the d - 1 others], Y uniform on [-1, 1] (nl Eq. 155).

    Also for epsilon <= -1, which the paper leaves out: (1 + epsilon/2)^d / d down to -2, then 0.
    Errors: d < 2.
    """
    if d < 2:
        raise ValueError(f"expected d >= 2 patterns, got {d}")
    e = epsilon
    lead = (1 + e.clamp(-1, 1)) / 2
    ahead = (1 - lead**d) / d + e.clamp(0, 1) / 2
    behind = ((1 + e.clamp(-2, 0) / 2) ** d - lead**d) / d
    return torch.where(e >= 0, ahead, behind)


def win_probabilities(epsilon: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """P[E_l] for every l when every pattern has its own head start (nl App. C.3, general case).

    E_l is Y_l >= 0 and Y_l + epsilon_l >= Y_l' + epsilon_l' for all l'. The integrand is a
    polynomial between breakpoints, so Gauss-Legendre quadrature is exact.
    """
    d = epsilon.shape[-1]
    gap = epsilon[..., :, None] - epsilon[..., None, :]
    ends = torch.stack([torch.zeros_like(epsilon), torch.ones_like(epsilon)], -1)
    breaks = torch.cat([ends, -1 - gap, 1 - gap], -1).clamp(0, 1).sort(-1).values
    nodes, weights = _legendre((d + 1) // 2 + 1, epsilon)
    width = breaks.diff(dim=-1)[..., None]
    y = breaks[..., :-1, None] + width * nodes
    below = ((y[..., None] + gap[..., None, None, :] + 1) / 2).clamp(0, 1)
    others = 1 - torch.eye(d, dtype=epsilon.dtype, device=epsilon.device)
    below = torch.where(others[:, None, None, :] > 0, below, 1.0)
    return (below.prod(-1) * weights * width).sum((-1, -2)) / 2


def _legendre(count: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights on [0, 1], by the eigenvalues of the Jacobi matrix (Golub, Welsch)."""
    k = torch.arange(1, count, dtype=torch.float64)
    off = k / (4 * k**2 - 1).sqrt()
    nodes, vectors = torch.linalg.eigh(torch.diag(off, 1) + torch.diag(off, -1))
    return ((nodes + 1) / 2).to(like), (vectors[0] ** 2).to(like)
