"""The (phi, psi) loss family, pairwise importance, contrastive covariance, energy (acl Sec. 3).

First views are z (z[i] in the papers), second views are z2 (z[i']), both [*b n d]: leading
dimensions are batches, and all runs under `torch.func.vmap`. Negatives are first views only.

Normalisation, once and for all: sums as acl prints them, over the n samples (losses) and over the
ordered pairs i != j (covariance), with no 1/n, no 1/(2 n^2), and no 1/2 in the energy. Other
conventions are this times a constant: the covariance of nl carries 1/(2 n^2), and its energy
another 1/2 (`nl_energy`). The diagonal of alpha is never read.

Distances are squared and halved. They come from the Gram matrix of the centred batch, so their
absolute error is a few machine epsilons times the squared spread of the batch.
"""

import warnings

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clcore.losses.floating import at_least_single, known, require_floating
from clcore.losses.pairs import (
    LogDomain,
    Pair,
    Scalar,
    infonce_pair,
    require_pair,
    require_temperature,
)


def off_diagonal(x: Float[Tensor, "*b n n"], fill: float) -> Float[Tensor, "*b n n"]:
    """x with its diagonal replaced by `fill`."""
    eye: Bool[Tensor, "n n"] = torch.eye(x.shape[-1], dtype=torch.bool, device=x.device)
    return x.masked_fill(eye, fill)


def _require_batch(z: Tensor) -> None:
    require_floating("z", z)
    if z.ndim < 2 or z.shape[-2] < 2:
        raise ValueError(
            f"expected outputs of shape [*b, n, d] with n >= 2 samples, got {list(z.shape)}; a "
            "contrastive loss needs a negative for every sample"
        )


def require_views(z: Tensor, z2: Tensor) -> None:
    """Raise ValueError unless these are outputs for two views of n >= 2 samples, TypeError for
    what is no tensor of floating-point numbers."""
    _require_batch(z)
    require_floating("z2", z2)
    if z.shape != z2.shape:
        raise ValueError(
            f"expected two views of one shape, got {list(z.shape)} and {list(z2.shape)}; row i of "
            "z2 is the other view of row i of z"
        )


def _require_distances(inter: Tensor, intra: Tensor) -> None:
    square = inter.ndim > 1 and inter.shape[-1] == inter.shape[-2] > 1
    if not square or inter.shape[:-1] != intra.shape:
        raise ValueError(
            f"expected distances of shapes [*b, n, n] and [*b, n] with n >= 2, got "
            f"{list(inter.shape)} and {list(intra.shape)}; see inter_distances and intra_distances"
        )


def require_reduction(reduction: str) -> str:
    """A reduction itself. Raises ValueError for an unknown one."""
    if reduction not in ("sum", "mean", "none"):
        raise ValueError(f"reduction: expected one of sum, mean, none, got {reduction!r}")
    return reduction


def reduced(values: Float[Tensor, "*b n"], reduction: str) -> Tensor:
    """The samples' values summed, averaged, or as they are. Errors: an unknown reduction."""
    if require_reduction(reduction) == "none":
        return values
    return values.sum(-1) if reduction == "sum" else values.mean(-1)


# -------------------------------------------------------------------------------------- distances


@at_least_single
def inter_distances(z: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n n"]:
    """d_ij = |z[i] - z[j]|^2 / 2 (acl Sec. 3); the diagonal is 0. Errors: n < 2.

    Examples:
        >>> inter_distances(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
        tensor([[ 0.0000, 12.5000],
                [12.5000,  0.0000]])
    """
    _require_batch(z)
    # Distances ignore a shift of the batch; without it, far from 0 the Gram form loses all digits.
    z = z - z.mean(-2, keepdim=True).detach()
    half = (z * z).sum(-1) / 2
    gram = z @ z.transpose(-1, -2)
    return off_diagonal((half[..., :, None] + half[..., None, :] - gram).clamp(min=0), 0.0)


@at_least_single
def intra_distances(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"]
) -> Float[Tensor, "*b n"]:
    """d_i = |z[i] - z[i']|^2 / 2 (acl Sec. 3). Errors: n < 2, shapes that differ.

    Examples:
        >>> intra_distances(torch.zeros(2, 2), torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
        tensor([ 0.0000, 12.5000])
    """
    require_views(z, z2)
    return ((z - z2) ** 2).sum(-1) / 2


# --------------------------------------------------------------------------- losses and importance


def _log_psi(gaps: Tensor, log: LogDomain) -> Tensor:
    return off_diagonal(gaps / require_temperature(log.tau) + log.shift, -torch.inf)


@at_least_single
def loss_of_distances(
    inter: Float[Tensor, "*b n n"],
    intra: Float[Tensor, "*b n"],
    pair: Pair,
    reduction: str = "sum",
) -> Float[Tensor, "*b"] | Float[Tensor, "*b n"]:
    """sum_i phi(sum_{j != i} psi(d_i - d_ij)) of free distances (acl Eq. 1).

    reduction: over i, as of `family_loss`. Errors: shapes, no Pair, an unknown reduction.
    """
    require_pair(pair)
    _require_distances(inter, intra)
    gaps = intra[..., :, None] - inter
    if pair.log is not None:
        return reduced(pair.log.phi(torch.logsumexp(_log_psi(gaps, pair.log), -1)), reduction)
    return reduced(pair.phi(off_diagonal(pair.psi(gaps), 0.0).sum(-1)), reduction)


@at_least_single
def family_loss(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"], pair: Pair, reduction: str = "sum"
) -> Float[Tensor, "*b"] | Float[Tensor, "*b n"]:
    """L_{phi,psi} of acl Eq. 1, the sum over the n samples.

    reduction: "sum" or "mean" over samples, or "none", a value for each.
    Errors: n < 2, shapes that differ, an unknown reduction (ValueError); a `pair` that is not a
    `Pair`, such as a name (TypeError).

    Examples:
        >>> z, z2 = torch.eye(3), torch.eye(3)
        >>> family_loss(z, z2, mine_pair())  # 3 log(2 exp(-1))
        tensor(-0.9206)
    """
    return loss_of_distances(inter_distances(z), intra_distances(z, z2), pair, reduction)


def infonce(
    z: Float[Tensor, "*b n d"],
    z2: Float[Tensor, "*b n d"],
    tau: Scalar = 0.5,
    eps: Scalar = 1.0,
) -> Float[Tensor, "*b"]:
    """L_nce of acl Eq. 2, the sum over the n samples, through log-sum-exp.

    eps=1 keeps the positive in the denominator (InfoNCE, MoCo, and SimCLR with first-view
    negatives); eps=0 leaves it out (decoupled contrastive learning).
    Errors: tau <= 0, eps < 0, n < 2, shapes that differ.
    """
    return family_loss(z, z2, infonce_pair(tau, eps))


@at_least_single
def importance_of_distances(
    inter: Float[Tensor, "*b n n"], intra: Float[Tensor, "*b n"], pair: Pair
) -> Float[Tensor, "*b n n"]:
    """alpha_ij = phi'(sum_k psi(d_i - d_ik)) psi'(d_i - d_ij), acl Eq. 4, of free distances.

    alpha_ii = 0. Errors: shapes, n < 2, no Pair.
    """
    require_pair(pair)
    _require_distances(inter, intra)
    gaps = intra[..., :, None] - inter
    if pair.log is None:
        xi = off_diagonal(pair.psi(gaps), 0.0).sum(-1, keepdim=True)
        return off_diagonal(pair.dphi(xi) * pair.dpsi(gaps), 0.0)
    # phi'(xi) psi'(x_j) = (xi phi'(xi) / tau) (psi_j / xi): the row mass of acl Thm. 2, softmaxed.
    logs = _log_psi(gaps, pair.log)
    mass = pair.log.dphi(torch.logsumexp(logs, -1, keepdim=True)) / pair.log.tau
    return mass * torch.softmax(logs, -1)


@at_least_single
def pairwise_importance(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"], pair: Pair
) -> Float[Tensor, "*b n n"]:
    """Pairwise importance alpha(theta) by formula, acl Eq. 4, with alpha_ii = 0.

    It belongs to the sum over samples, as `family_loss` is, and is a function of z: detach it where
    the paper holds alpha fixed. Warns where the weights of all pairs underflow.
    Errors: n < 2, shapes that differ (ValueError); a `pair` that is not a `Pair`, such as a name
    (TypeError).

    Examples:
        >>> z = torch.tensor([[0.0], [1.0], [3.0]])
        >>> pairwise_importance(z, z, infonce_pair())  # near pairs weigh most
        tensor([[0.0000e+00, 2.6892e-01, 9.0212e-05],
                [2.6539e-01, 0.0000e+00, 1.3213e-02],
                [1.2118e-04, 1.7984e-02, 0.0000e+00]])
    """
    alpha = importance_of_distances(inter_distances(z), intra_distances(z, z2), pair)
    # A hinge may give all pairs the weight 0 and mean it; other exponentials never do.
    below = torch.tensor(-1.0, dtype=alpha.dtype, device=alpha.device)
    if pair.log is not None and known((pair.log.dphi(below) > 0).all()):
        warn_of_underflow(alpha, pair.log.tau)
    return alpha


def warn_of_underflow(alpha: Float[Tensor, "*b r c"], tau: Scalar) -> None:
    """Warn where no row of weights sums to more than rounding, so that nothing is pushed apart."""
    most = alpha.detach().sum(-1).amax()
    if known(most < torch.finfo(alpha.dtype).eps):
        warnings.warn(
            f"the pairs' weights underflow: no sample's sum to more than {most.item():.0e}. At the "
            f"temperature {float(tau):g} every negative is too far from its anchor to count: "
            "normalise the outputs, or raise tau to the size of the distances",
            stacklevel=4,
        )


def importance_by_autograd(
    inter: Float[Tensor, "*b n n"], intra: Float[Tensor, "*b n"], pair: Pair
) -> tuple[Float[Tensor, "*b n n"], Float[Tensor, "*b n"]]:
    """(alpha, beta) as -dL/dd_ij and +dL/dd_i of acl Eq. 1, with the distances as free inputs."""

    def total(inter: Tensor, intra: Tensor) -> Tensor:
        return loss_of_distances(inter, intra, pair).sum()

    d_inter, d_intra = torch.func.grad(total, argnums=(0, 1))(inter, intra)
    return -d_inter, d_intra


def row_mass(alpha: Float[Tensor, "*b n n"]) -> Float[Tensor, "*b n"]:
    """beta_i = sum_{j != i} alpha_ij (acl Eq. 4).

    Examples:
        >>> z = torch.tensor([[0.0], [1.0], [3.0]])
        >>> row_mass(pairwise_importance(z, z, infonce_pair()))
        tensor([0.2690, 0.2786, 0.0181])
    """
    return off_diagonal(alpha, 0.0).sum(-1)


# --------------------------------------------------------------------------- covariance and energy


def _require_weights(alpha: Tensor, z: Tensor) -> None:
    if alpha.shape[-2:] != (z.shape[-2], z.shape[-2]):
        raise ValueError(
            f"expected pairwise importance of shape [*b, n, n] with n={z.shape[-2]} samples, got "
            f"{list(alpha.shape)}; row i holds the weights of the pairs (i, j)"
        )


@at_least_single
def contrastive_covariance(
    alpha: Float[Tensor, "*b n n"],
    a: Float[Tensor, "*b n p"],
    a2: Float[Tensor, "*b n p"],
    b: Float[Tensor, "*b n q"],
    b2: Float[Tensor, "*b n q"],
) -> Float[Tensor, "*b p q"]:
    """Contrastive covariance C_alpha[a, b] of acl Eq. 5, unnormalised; C_alpha[a] takes a for b.

    sum_{i != j} alpha_ij (a[i] - a[j])(b[i] - b[j])^T
    - sum_i beta_i (a[i] - a[i'])(b[i] - b[i'])^T, where beta_i = sum_{j != i} alpha_ij.
    alpha need not be symmetric. Errors: n < 2, shapes that do not fit.

    Examples:
        >>> x = torch.tensor([[0.0, 0.0], [1.0, 2.0]])
        >>> contrastive_covariance(torch.ones(2, 2), x, x, x, x)  # both orders of one pair
        tensor([[2., 4.],
                [4., 8.]])
    """
    require_views(a, a2)
    require_views(b, b2)
    _require_weights(alpha, a)
    _require_weights(alpha, b)
    alpha = off_diagonal(alpha, 0.0)
    beta = alpha.sum(-1)
    within = (a - a2).transpose(-1, -2) @ (beta[..., None] * (b - b2))
    # The pair term is a^T (D - alpha - alpha^T) b, a graph Laplacian: it ignores shifts of a and b,
    # and centring keeps its cancellation harmless.
    a, b = a - a.mean(-2, keepdim=True), b - b.mean(-2, keepdim=True)
    degree = beta + alpha.sum(-2)
    pairs = degree[..., None] * b - (alpha + alpha.transpose(-1, -2)) @ b
    return a.transpose(-1, -2) @ pairs - within


@at_least_single
def energy(
    alpha: Float[Tensor, "*b n n"], z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"]
) -> Float[Tensor, "*b"]:
    """E_alpha = tr C_alpha[z, z] = 2 sum_{i != j} alpha_ij (d_ij - d_i), acl Eqs. 5 and 29.

    Differentiable in z and in alpha: pass `alpha.detach()` for the gradient of acl Eq. 3.
    Errors: n < 2, shapes that do not fit.

    Examples:
        >>> z = torch.tensor([[0.0], [2.0]])
        >>> energy(torch.ones(2, 2), z, z)  # 2 (2 + 2)
        tensor(8.)
    """
    _require_weights(alpha, z)
    gaps = inter_distances(z) - intra_distances(z, z2)[..., :, None]
    return 2 * (off_diagonal(alpha, 0.0) * gaps).sum((-1, -2))


def nl_energy(
    alpha: Float[Tensor, "*b n n"], z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"]
) -> Float[Tensor, "*b"]:
    """The energy as nl writes it (its Eqs. 2, 3): half the trace, 1/(2 n^2) in the covariance."""
    return energy(alpha, z, z2) / (4 * z.shape[-2] ** 2)
