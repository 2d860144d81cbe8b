"""Power iteration when the matrix moves with the vector (nl Sec. 3.3, App. B.4, App. G).

A family is a function from unit vectors w [*b, d] to symmetric matrices A(w) [*b, d, d]. The
quantities of nl Definition 4 bound how fast w(t+1) = A(w)w / |A(w)w| finds an eigenvector of its
own matrix; `certificate` turns them into a proof for one start.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

Family = Callable[[Tensor], Tensor]

__all__ = [
    "Local",
    "affine",
    "affine_lipschitz",
    "ball",
    "certificate",
    "iterate",
    "kappa",
    "local",
    "mu",
    "nu",
    "omega",
    "residual",
    "shifted",
    "step",
]


class Local(NamedTuple):
    """A(w) as seen from w: correlation c >= 0 with the top eigenvector, and three eigenvalues."""

    c: Float[Tensor, "*b"]
    first: Float[Tensor, "*b"]
    second: Float[Tensor, "*b"]
    least: Float[Tensor, "*b"]

    @property
    def gap(self) -> Float[Tensor, "*b"]:
        """lambda_gap = lambda_1 - lambda_2."""
        return self.first - self.second


def local(A: Float[Tensor, "*b d d"], w: Float[Tensor, "*b d"]) -> Local:
    """c(w) (sign of the eigenvector chosen so that c >= 0) and eigenvalues 1, 2 and d of A(w)."""
    if A.shape[-1] < 2:
        raise ValueError(f"A: expected at least two dimensions, got {A.shape[-1]}")
    values, vectors = torch.linalg.eigh(A)
    c = (vectors[..., -1] * w).sum(-1).abs().clamp(max=1)
    return Local(c, values[..., -1], values[..., -2], values[..., 0])


def mu(at: Local) -> Float[Tensor, "*b"]:
    """mu(w) = (1 + c) / (2 c^2) [1 - lambda_gap / lambda_1]^2 (nl Definition 4, Eq. 182)."""
    return (1 + at.c) / (2 * at.c**2) * (1 - at.gap / at.first) ** 2


def nu(
    at: Local, lipschitz: float | Float[Tensor, "*#b"], kappa: float | Float[Tensor, "*#b"]
) -> Float[Tensor, "*b"]:
    """nu(w) of nl Eq. 193, for a Lipschitz constant of A and a kappa of nl Lemma 9."""
    m = mu(at)
    grown = 1 + m * at.c
    return 2 * kappa * lipschitz**2 * grown + 2 * lipschitz / at.gap * (m * grown).sqrt()


def omega(
    at: Local, lipschitz: float | Float[Tensor, "*#b"], kappa: float | Float[Tensor, "*#b"]
) -> Float[Tensor, "*b"]:
    """The irregularity omega = mu + nu of nl Definition 4."""
    return mu(at) + nu(at, lipschitz, kappa)


def kappa(gap: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """A constant that nl Lemma 9 asks for, valid for changes of any size: 8 / gap^2.

    With s = |dA| / gap: for s >= 1/2 the remainder is at most sqrt(2) + s <= 8 s^2. Below, the
    angle obeys sin(t) <= 2 s, and projecting the eigenvalue equation leaves at most
    s (sin^2 t + 2 sin t) <= 6 s^2 across and sin^2 t <= 4 s^2 along the eigenvector.
    """
    return 8 / gap**2


def step(A: Float[Tensor, "*#b d d"], w: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """One step A w / |A w| (nl Eq. PI)."""
    image = (A @ w[..., None])[..., 0]
    return image / image.norm(dim=-1, keepdim=True)


def iterate(family: Family, w: Float[Tensor, "*b d"], steps: int) -> Float[Tensor, "t *b d"]:
    """The trajectory w(0), ..., w(steps), all starts at once."""
    path = [w]
    for _ in range(steps):
        path.append(step(family(path[-1]), path[-1]))
    return torch.stack(path)


def residual(A: Float[Tensor, "*b d d"], w: Float[Tensor, "*b d"]) -> Float[Tensor, "*b"]:
    """|P_w A(w) w|: zero exactly at the critical points of nl Eq. 7."""
    image = (A @ w[..., None])[..., 0]
    return (image - (image * w).sum(-1, keepdim=True) * w).norm(dim=-1)


def shifted(A: Float[Tensor, "*b d d"], epsilon: float) -> Float[Tensor, "*b d d"]:
    """A - lambda_min I + epsilon I: positive definite, same eigenvectors (nl Eq. 104)."""
    least = torch.linalg.eigvalsh(A)[..., :1, None]
    eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    return A - (least - epsilon) * eye


def ball(c0: Float[Tensor, "*#b"], gamma: float | Float[Tensor, "*#b"]) -> Float[Tensor, "*c"]:
    """B_gamma = {w : w.w(0) >= this} (nl Theorem 3)."""
    gamma = torch.as_tensor(gamma, dtype=c0.dtype, device=c0.device)
    if bool((gamma < 0).any() | (gamma >= 1).any()):
        raise ValueError("gamma: expected 0 <= gamma < 1; B_gamma is defined for no other")
    c_gamma = 2 * gamma.sqrt() / (1 + gamma)
    return (c0 - c_gamma) / (1 - c_gamma)


def affine(
    base: Float[Tensor, "*b d d"],
    directions: Float[Tensor, "*b k d"],
    matrices: Float[Tensor, "*b k d d"],
) -> Family:
    """The family A(w) = base + sum_k (directions_k . w) matrices_k."""

    def family(w: Tensor) -> Tensor:
        return base + torch.einsum("...kd,...d,...kij->...ij", directions, w, matrices)

    return family


def affine_lipschitz(
    directions: Float[Tensor, "*b k d"], matrices: Float[Tensor, "*b k d d"]
) -> Float[Tensor, "*b"]:
    """A Lipschitz constant of `affine` on the sphere; the least one where k = 1."""
    norms = torch.linalg.matrix_norm(matrices, 2)
    return (directions.norm(dim=-1) * norms).sum(-1)


def certificate(
    at: Local, lipschitz: float | Float[Tensor, "*#b"], grid: int = 199
) -> Float[Tensor, "*b"]:
    """The least gamma of a grid for which sup omega over B_gamma <= gamma is *proved*; else NaN.

    `at`: A seen from the start. Inside B_gamma eigenvalues move by at most L R (Weyl) and the top
    eigenvector by at most the angle of Davis and Kahan; omega falls with c and with the gap, so
    the worst corner of those intervals bounds the supremum. kappa is that of `kappa`.
    """
    gamma = torch.linspace(0, 1, grid + 2, dtype=at.c.dtype, device=at.c.device)[1:-1]
    wide = Local(*(x[..., None] for x in at))
    L = torch.as_tensor(lipschitz, dtype=at.c.dtype, device=at.c.device)[..., None]
    reach = torch.acos(ball(wide.c, gamma).clamp(-1, 1))
    moved = L * 2 * torch.sin(reach / 2)
    turn = moved / (wide.gap - moved)
    turned = torch.asin(turn.clamp(0, 1))
    angle = torch.acos(wide.c) + reach + turned
    second = wide.second.abs() + moved
    first = wide.first - moved
    gap = wide.gap - 2 * moved
    worst = Local(angle.cos(), first, second, wide.least - moved)
    ratio = (1 + worst.c) / (2 * worst.c**2) * (second / first) ** 2
    grown = 1 + ratio * worst.c
    bound = ratio + 2 * kappa(gap) * L**2 * grown + 2 * L / gap * (ratio * grown).sqrt()
    proved = (gap > 0) & (first > 0) & (angle < torch.pi / 2) & (turn < 1) & (bound <= gamma)
    least = torch.where(proved, gamma, torch.inf).amin(-1)
    return torch.where(least < 1, least, torch.nan)
