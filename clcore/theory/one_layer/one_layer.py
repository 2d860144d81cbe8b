"""One layer with a homogeneous activation: A(w), its top eigenvectors, two models (nl Sec. 3).

Data are a `World`: n points x with masses p, and the importance alpha of their pairs. A batch of
N samples without augmentation has p = 1/N; a law with finitely many values has its probabilities
(this is the limit of large batches); `of_views` makes a world of two views of a batch. Everything
is C_alpha[g] = 1/2 sum_ab p_a p_b alpha_ab (g_a - g_b)(g_a - g_b)^T, as nl normalises it: its
Eq. 3 for batches, the 1/(2 N^2) included. `clcore.losses.contrast` leaves that factor out.

Leading dimensions of worlds and of weights w broadcast: one world takes many starts.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clcore.losses.contrast import off_diagonal
from clcore.nets.networks import activate

# h'(u), with h'(0) = 0 for the ReLU (nl App. B.1), and the constant h'(u) u / h(u) of nl Ass. 1.
DERIVATIVES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "linear": lambda u, slope: torch.ones_like(u),
    "relu": lambda u, slope: (u > 0).to(u.dtype),
    "leaky_relu": lambda u, slope: torch.where(u > 0, torch.ones_like(u), slope),
    "quadratic": lambda u, slope: 2 * u,
    "cubic": lambda u, slope: 3 * u**2,
}
DEGREES = {"linear": 1, "relu": 1, "leaky_relu": 1, "quadratic": 2, "cubic": 3}

# (1 - q)^2 = q: below it every u_m of the latent summation model is an LME (nl Sec. 3.1).
SUMMATION_THRESHOLD = (3 - 5**0.5) / 2


class World(NamedTuple):
    """Points x `*b n d`, masses p `*b n`, importance of their pairs alpha `*b n n` (None: 1)."""

    x: Tensor
    p: Tensor
    alpha: Tensor | None = None


def samples(x: Float[Tensor, "*b n d"], alpha: Float[Tensor, "*b n n"] | None = None) -> World:
    """A batch without augmentation: p = 1/n (nl Eq. 3 with x[i'] = x[i])."""
    return World(x, torch.full_like(x[..., 0], 1 / x.shape[-2]), alpha)


def of_views(
    alpha: Float[Tensor, "*b n n"], x: Float[Tensor, "*b n d"], x2: Float[Tensor, "*b n d"]
) -> World:
    """Two views of a batch as one world of 2n points, for nl Eq. 3: positives get negative weights.

    As nl prints the sum, alpha_ii weighs the pair (i, i') too.
    """
    n = x.shape[-2]
    pull = torch.diag_embed(-alpha.sum(-1) / 2)
    top = torch.cat([off_diagonal(alpha, 0.0), pull], -1)
    below = torch.cat([pull, torch.zeros_like(pull)], -1)
    points = torch.cat([x, x2], -2)
    return World(points, torch.full_like(points[..., 0], 1 / n), torch.cat([top, below], -2))


# ------------------------------------------------------------------------------- gating and A(w)


def derivative(u: Float[Tensor, "..."], kind: str, slope: float = 0.05) -> Float[Tensor, "..."]:
    """h'(u) of the activations of `networks.activate`; zero at 0 for the ReLU (nl App. B.1).

    The leaky ReLU takes its lower slope at 0. Errors: an unknown kind.
    """
    if kind not in DERIVATIVES:
        raise ValueError(f"activation: expected one of {', '.join(DERIVATIVES)}, got {kind!r}")
    return DERIVATIVES[kind](u, slope)


def drive(x: Float[Tensor, "*#b n d"], w: Float[Tensor, "*#b d"]) -> Float[Tensor, "*c n"]:
    """u = w^T x of every point, for every w. Errors: dimensions that differ.

    Values within rounding of 0 are 0: at a pattern of the categorical model all other patterns
    lie on the hyperplane w^T x = 0, where the gate jumps.
    """
    if x.shape[-1] != w.shape[-1]:
        raise ValueError(
            f"expected weights of shape [*b, d] with d={x.shape[-1]}, got {list(w.shape)}; w has "
            "one entry for each coordinate of x"
        )
    u = (x @ w[..., None])[..., 0]
    size = torch.linalg.vector_norm(x, dim=-1) * torch.linalg.vector_norm(w, dim=-1, keepdim=True)
    return torch.where(u.abs() <= 400 * torch.finfo(u.dtype).eps * size, 0.0 * u, u)


def gated(
    x: Float[Tensor, "*#b n d"], w: Float[Tensor, "*#b d"], kind: str = "relu", slope: float = 0.05
) -> Float[Tensor, "*c n d"]:
    """The gated input x h'(w^T x) (nl Eq. 6)."""
    return x * derivative(drive(x, w), kind, slope)[..., None]


def covariance(world: World, g: Float[Tensor, "*#b n q"]) -> Float[Tensor, "*c q q"]:
    """C_alpha[g] of features g of the world's points (nl Eq. 3). Errors: another number of points.

    alpha need not be symmetric.
    """
    p = world.p
    if g.shape[-2] != p.shape[-1]:
        raise ValueError(
            f"expected features of shape [*b, n, q] with n={p.shape[-1]} points, got "
            f"{list(g.shape)}; row a belongs to the world's point a"
        )
    total = p.sum(-1)[..., None, None]
    # Differences ignore a common shift, and centring keeps the cancellation harmless.
    g = g - (p[..., None] * g).sum(-2, keepdim=True) / total
    if world.alpha is None:
        return total * (g.mT @ (p[..., None] * g))
    pairs = p[..., :, None] * p[..., None, :] * (world.alpha + world.alpha.mT) / 2
    return g.mT @ (pairs.sum(-1)[..., None] * g - pairs @ g)


def operator(
    world: World, w: Float[Tensor, "*#b d"], kind: str = "relu", slope: float = 0.05
) -> Float[Tensor, "*c d d"]:
    """A(w) = C_alpha[gated x] (nl Sec. 3, above Lemma 3)."""
    return covariance(world, gated(world.x, w, kind, slope))


def energy(
    world: World, w: Float[Tensor, "*#b d"], kind: str = "relu", slope: float = 0.05
) -> Float[Tensor, "*c"]:
    """1/2 C_alpha[h(w^T x)], the objective of one node (nl Eq. 5, later version).

    It is w^T A(w) w / 2 over the square of the kind's degree: 1 but for monomials.
    """
    return covariance(world, activate(drive(world.x, w), kind, slope)[..., None])[..., 0, 0] / 2


def spectrum(
    A: Float[Tensor, "*b d d"],
) -> tuple[Float[Tensor, "*b d"], Float[Tensor, "*b d d"]]:
    """(lambda_i, phi_i) of nl Sec. 3.2: eigenvalues falling, eigenvectors in columns."""
    values, vectors = torch.linalg.eigh(A)
    return values.flip(-1), vectors.flip(-1)


def gap(A: Float[Tensor, "*b d d"]) -> Float[Tensor, "*b"]:
    """lambda_gap = lambda_1 - lambda_2 (nl Sec. 3.2). Errors: d < 2."""
    if A.shape[-1] < 2:
        raise ValueError(f"expected d >= 2 eigenvalues for a gap, got {list(A.shape)}")
    values = torch.linalg.eigvalsh(A)
    return values[..., -1] - values[..., -2]


# ------------------------------------------------------------------------------------- dynamics


def flow(
    world: World, w: Float[Tensor, "*#b d"], kind: str = "relu", slope: float = 0.05
) -> Float[Tensor, "*c d"]:
    """P_w^perp A(w) w for unit w (nl Eq. 7): the projected gradient of `energy` times the degree.

    Computed without the matrix A(w).
    """
    push = _push(world, w, kind, slope)
    return push - (w * push).sum(-1, keepdim=True) * w


def _push(world: World, w: Tensor, kind: str, slope: float) -> Tensor:
    """A(w) w = sum_a p_a x_a h'(u_a) sum_b p_b alpha_ab (v_a - v_b) with v = h'(u) u, symmetrised.

    One product with alpha and one with x, so that long runs stay cheap.
    """
    u = drive(world.x, w)
    rate = derivative(u, kind, slope)
    p, v = world.p, rate * u
    if world.alpha is None:
        force = p * (v * p.sum(-1, keepdim=True) - (p * v).sum(-1, keepdim=True))
    else:
        alpha = (world.alpha + world.alpha.mT) / 2
        total = (alpha @ p[..., None])[..., 0]
        force = p * (v * total - (alpha @ (p * v)[..., None])[..., 0])
    return ((rate * force)[..., None, :] @ world.x)[..., 0, :]


def ascend(
    world: World,
    w: Float[Tensor, "*b d"],
    kind: str = "relu",
    rate: float | Float[Tensor, "*#b 1"] = 0.5,
    steps: int = 500,
    slope: float = 0.05,
) -> Float[Tensor, "*b d"]:
    """Euler steps of nl Eq. 7 on the unit sphere, each of length rate / tr C_alpha[x]; one rate, or
    one of each run.

    At a kink of the energy, where w^T x = 0 for some x, w may hover within one step's length.
    """
    A = covariance(world, world.x)
    pace = rate / A.diagonal(dim1=-2, dim2=-1).abs().sum(-1)[..., None]
    w = w / torch.linalg.vector_norm(w, dim=-1, keepdim=True)
    for _ in range(steps):
        w = w + pace * flow(world, w, kind, slope)
        w = w / torch.linalg.vector_norm(w, dim=-1, keepdim=True)
    return w


# --------------------------------------------------------------- locally maximal eigenvectors (LME)


class Maximality(NamedTuple):
    """How near w is to an LME: |A w - (w^T A w) w|, w^T A w, its distance from the largest
    eigenvalue, and lambda_gap, all `*b` and of A = A(w)."""

    residual: Tensor
    value: Tensor
    below: Tensor
    gap: Tensor


def maximality(
    world: World, w: Float[Tensor, "*#b d"], kind: str = "relu", slope: float = 0.05
) -> Maximality:
    """What nl Def. 3 asks of unit w. Errors: d < 2."""
    A = operator(world, w, kind, slope)
    if A.shape[-1] < 2:
        raise ValueError(f"expected d >= 2 eigenvalues for a gap, got {list(A.shape)}")
    image = (A @ w[..., None])[..., 0]
    value = (w * image).sum(-1)
    residual = torch.linalg.vector_norm(image - value[..., None] * w, dim=-1)
    values = torch.linalg.eigvalsh(A)
    return Maximality(residual, value, values[..., -1] - value, values[..., -1] - values[..., -2])


def locally_maximal(
    world: World,
    w: Float[Tensor, "*#b d"],
    kind: str = "relu",
    residual: float = 1e-10,
    gap: float = 1e-8,
    slope: float = 0.05,
) -> Bool[Tensor, "*c"]:
    """Whether unit w is an LME (nl Def. 3): A(w) w = lambda_max w, and the eigenvalue is simple.

    `residual` and `gap` are relative to the trace of C_alpha[x].
    """
    m = maximality(world, w, kind, slope)
    scale = covariance(world, world.x).diagonal(dim1=-2, dim2=-1).abs().sum(-1)
    top = (m.residual <= residual * scale) & (m.below <= residual * scale)
    return top & (m.gap > gap * scale)


def top_eigenvector(
    world: World, w: Float[Tensor, "*#b d"], kind: str = "relu", slope: float = 0.05
) -> Float[Tensor, "*c d"]:
    """phi_1(w) with the sign that makes w^T phi_1 >= 0. LMEs are what this map keeps."""
    phi = torch.linalg.eigh(operator(world, w, kind, slope)).eigenvectors[..., -1]
    return torch.where((phi * w).sum(-1, keepdim=True) < 0, -phi, phi)


class Found(NamedTuple):
    """Different LMEs w `k d`, and how many starts led to each, `k`."""

    w: Float[Tensor, "k d"]
    count: Int[Tensor, " k"]


def distinct(w: Float[Tensor, "s d"], tol: float = 1e-6) -> Found:
    """Unit vectors that differ by more than `tol`, in order of appearance, and how often."""
    if not len(w):
        return Found(w, torch.zeros(0, dtype=torch.int64, device=w.device))
    near = torch.cdist(w, w, compute_mode="donot_use_mm_for_euclid_dist") <= tol
    first, index = near.int().argmax(-1).unique(return_inverse=True)
    return Found(w[first], torch.bincount(index, minlength=len(first)))


def search(
    world: World,
    starts: Float[Tensor, "s d"],
    kind: str = "relu",
    steps: int = 300,
    polish: int = 30,
    slope: float = 0.05,
) -> Found:
    """The LMEs that many starts lead to, for one world (no leading dimensions).

    `steps` of `ascend`, then `polish` times w <- phi_1(w), which for the piecewise constant A of
    (leaky) ReLU ends after finitely many; what then fails the test is dropped. With steps=0 LMEs
    that the flow leaves can be found too.
    """
    w = ascend(world, starts, kind, 0.5, steps, slope)
    for _ in range(polish):
        w = top_eigenvector(world, w, kind, slope)
    return distinct(w[locally_maximal(world, w, kind, slope=slope)])


# ------------------------------------------------------------------------------- two latent models


def _require_basis(size: int, U: Tensor) -> None:
    if U.shape[-1] != size:
        raise ValueError(
            f"expected patterns U of shape [*b, d, M] with M={size} columns, got {list(U.shape)}"
        )


def categorical(p: Float[Tensor, "*b M"], U: Float[Tensor, "*b d M"]) -> World:
    """The latent categorical model: x = u_m with probability p_m (nl Sec. 3.1). Errors: shapes."""
    _require_basis(p.shape[-1], U)
    return World(U.mT, p)


def categorical_operator(
    p: Float[Tensor, "*b M"], U: Float[Tensor, "*b d M"]
) -> Float[Tensor, "*b M d d"]:
    """A(u_m) = p_m (1 - p_m) u_m u_m^T for every m (nl Eq. 8), orthonormal U."""
    _require_basis(p.shape[-1], U)
    return (p * (1 - p))[..., None, None] * (U.mT[..., :, None] * U.mT[..., None, :])


def signs(M: int) -> Float[Tensor, "states M"]:
    """All 2^M states of M bits, 0.0 or 1.0, float64. Errors: M > 16."""
    if not 1 <= M <= 16:
        raise ValueError(f"expected 1 <= M <= 16 binary latents to enumerate, got {M}")
    states = torch.arange(2**M)[:, None] >> torch.arange(M) & 1
    return states.to(torch.float64)


def summation(q: Float[Tensor, "*b M"], U: Float[Tensor, "*b d M"]) -> World:
    """The latent summation model, x = U y, by all its 2^M states (nl Sec. 3.1).

    y_m = sqrt((1 - q_m) / q_m) with probability q_m, else -sqrt(q_m / (1 - q_m)): mean 0,
    variance 1, independent. Errors: shapes, M > 16, q outside (0, 1).
    """
    _require_basis(q.shape[-1], U)
    if not bool(((q > 0) & (q < 1)).all()):
        raise ValueError("expected probabilities 0 < q_m < 1, got some outside")
    on = signs(q.shape[-1]).to(q)
    q = q[..., None, :]
    high, low = ((1 - q) / q).sqrt(), -(q / (1 - q)).sqrt()
    y = on * high + (1 - on) * low
    return World(y @ U.mT, (on * q + (1 - on) * (1 - q)).prod(-1))


def summation_operator(
    q: Float[Tensor, "*b M"], U: Float[Tensor, "*b d M"]
) -> Float[Tensor, "*b M d d"]:
    """A(u_m) = (1 - q_m)^2 u_m u_m^T + q_m (U U^T - u_m u_m^T) for every m (nl Eq. 9).

    nl prints I for U U^T: U is a basis there, M = d.
    """
    _require_basis(q.shape[-1], U)
    outer = U.mT[..., :, None] * U.mT[..., None, :]
    q = q[..., None, None]
    return (1 - q) ** 2 * outer + q * ((U @ U.mT)[..., None, :, :] - outer)
