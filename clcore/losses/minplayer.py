"""The min player of acl: pairwise importance as the exact solution of a separate problem.

Every solver returns, row by row, the minimiser of sum_j c_ij alpha_ij - sum_j r(alpha_ij) over
alpha_ij >= 0, sum_{j != i} alpha_ij = mass_i, with alpha_ii = 0; c_ij = 2 (d_ij - d_i), see `cost`,
makes the first sum the energy (acl Eq. 29). A constant added to a row of c changes nothing. The
regularisers r are those of acl Sec. 6.1, factors of 2 and 1/2 included.

`variant_loss` turns the six variants of acl Sec. 6.1 into scalars whose gradient is what each
procedure uses.
"""

from collections.abc import Mapping
from types import MappingProxyType

import torch
from jaxtyping import Float
from torch import Tensor

from clcore.losses.contrast import energy, infonce, inter_distances, intra_distances, off_diagonal
from clcore.losses.floating import at_least_single
from clcore.losses.pairs import Scalar, require_above, require_temperature

Mass = float | int | Float[Tensor, "*b n"]

_NEWTON_STEPS = 16  # 12 reach machine precision on every cost tried (tests/test_minplayer.py)


@at_least_single
def cost(z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n n"]:
    """c_ij = 2 (d_ij - d_i), the price of alpha_ij in the energy (acl Eq. 29). Errors: shapes.

    Examples:
        >>> z = torch.tensor([[0.0], [1.0], [3.0]])
        >>> cost(z, z)
        tensor([[0., 1., 9.],
                [1., 0., 4.],
                [9., 4., 0.]])
    """
    return 2 * (inter_distances(z) - intra_distances(z, z2)[..., :, None])


def _rows(costs: Tensor, mass: Mass) -> tuple[Tensor, Tensor]:
    """Costs above their row's minimum (diagonal: 0), and the masses as a column."""
    if costs.ndim < 2 or costs.shape[-1] != costs.shape[-2] or costs.shape[-1] < 2:
        raise ValueError(
            f"expected costs of shape [*b, n, n] with n >= 2, got {list(costs.shape)}; row i holds "
            "the costs of the pairs (i, j), its diagonal is ignored"
        )
    if not isinstance(mass, Tensor):
        require_above("mass", mass, 0, "a row needs some weight to share out")
        mass = torch.full((), mass, dtype=costs.dtype, device=costs.device)
    elif mass.ndim and mass.shape[-1] not in (1, costs.shape[-1]):
        raise ValueError(
            f"expected one mass per row, shape [*b, {costs.shape[-1]}], got {list(mass.shape)}"
        )
    # Not detached: what rounding leaves of a slope along a shift counts at large masses.
    least = off_diagonal(costs, torch.inf).amin(-1, keepdim=True)
    return off_diagonal(costs - least, 0.0), mass[..., None]


@at_least_single
def entropy_weights(
    costs: Float[Tensor, "*b n n"], tau: Scalar = 0.5, mass: Mass = 1.0
) -> Float[Tensor, "*b n n"]:
    """Minimiser for r_H = -2 tau alpha log(alpha): mass times softmax(-c / (2 tau)) (acl Thm. 2).

    With c = 2 (d_ij - d_i) and mass xi phi'(xi) / tau it is Eq. 4 of acl.
    Errors: tau <= 0, mass <= 0 (numbers), shapes, n < 2.

    Examples:
        >>> z = torch.tensor([[0.0], [1.0], [3.0]])
        >>> entropy_weights(cost(z, z), tau=0.5)
        tensor([[0.0000e+00, 9.9966e-01, 3.3535e-04],
                [9.5257e-01, 0.0000e+00, 4.7426e-02],
                [6.6929e-03, 9.9331e-01, 0.0000e+00]])
    """
    tau = require_temperature(tau)
    costs, mass = _rows(costs, mass)
    return mass * torch.softmax(off_diagonal(-costs / (2 * tau), -torch.inf), -1)


@at_least_single
def inverse_weights(
    costs: Float[Tensor, "*b n n"], tau: Scalar = 0.5, gamma: Scalar = 2.0, mass: Mass = 1.0
) -> Float[Tensor, "*b n n"]:
    """Minimiser for r_gamma = 2 tau alpha^(1-gamma) / (1-gamma), gamma > 1 (acl Sec. 6.1).

    alpha_ij = (2 tau / (c_ij + mu_i))^(1/gamma), the multiplier mu_i solved to machine precision.
    First derivatives are exact, second ones are not.
    Errors: tau <= 0, gamma <= 1, mass <= 0 (numbers), shapes, n < 2.

    Examples:
        >>> z = torch.tensor([[0.0], [1.0], [3.0]])
        >>> inverse_weights(cost(z, z), tau=0.5)
        tensor([[0.0000, 0.6858, 0.3142],
                [0.5880, 0.0000, 0.4120],
                [0.3655, 0.6345, 0.0000]])
    """
    tau = require_temperature(tau)
    require_above("gamma", gamma, 1, "gamma = 1 is the entropy, see entropy_weights")
    costs, mass = _rows(costs, mass)
    scaled = off_diagonal(costs * mass**gamma / (2 * tau), torch.inf)
    # With alpha = mass * (scaled + w)^(-1/gamma), w solves g(w) = (sum_j (scaled_j + w)^(-1/gamma))
    # ^(-gamma) = 1. g is a power mean: increasing and concave, so Newton from w = 1, where g <= 1,
    # climbs to the root without ever passing it, and no bracket is needed.
    w = torch.ones_like(scaled[..., :1])
    for step in range(_NEWTON_STEPS + 1):
        # The last step alone carries the gradient: a Newton step at the root is implicit
        # differentiation.
        here = scaled if step == _NEWTON_STEPS else scaled.detach()
        terms = (here + w.detach()) ** (-1 / gamma)
        total = terms.sum(-1, keepdim=True)
        slope = (terms / (here + w.detach())).sum(-1, keepdim=True)
        w = w.detach() + (total ** (gamma + 1) - total) / slope
    weights = (scaled + w) ** (-1 / gamma)
    return mass * weights


@at_least_single
def square_weights(
    costs: Float[Tensor, "*b n n"], tau: Scalar = 5.0, mass: Mass = 1.0
) -> Float[Tensor, "*b n n"]:
    """Minimiser for r_s = -tau alpha^2 / 2: -c / tau projected on the simplex (acl Sec. 6.1).

    Costly pairs get exactly 0. Errors: tau <= 0, mass <= 0 (numbers), shapes, n < 2.

    Examples:
        >>> z = torch.tensor([[0.0], [1.0], [3.0]])
        >>> square_weights(cost(z, z), tau=5.0)
        tensor([[0.0000, 1.0000, 0.0000],
                [0.8000, 0.0000, 0.2000],
                [0.0000, 1.0000, 0.0000]])
    """
    tau = require_temperature(tau)
    costs, mass = _rows(costs, mass)
    points = off_diagonal(-costs / tau, -torch.inf)
    ordered = points.sort(-1, descending=True).values
    count = torch.arange(1, points.shape[-1] + 1, dtype=points.dtype, device=points.device)
    levels = (ordered.cumsum(-1) - mass) / count
    used = (ordered > levels).sum(-1, keepdim=True)  # the best point is always used
    # Of NaN none is used: they go on as NaN.
    return torch.relu(points - levels.gather(-1, (used - 1).clamp(min=0)))


@at_least_single
def direct_weights(
    inter: Float[Tensor, "*b n n"], p: Scalar = 2.0, tau: Scalar = 0.5
) -> Float[Tensor, "*b n n"]:
    """alpha_ij = exp(-d_ij^p / tau) / sum_{k != i} exp(-d_ik^p / tau) (acl Sec. 6.1).

    Set directly, not as a minimiser; p = 1 is acl Eq. 6. Errors: tau <= 0, p < 1, shapes, n < 2.

    Examples:
        >>> z = torch.tensor([[0.0], [1.0], [3.0]])
        >>> direct_weights(inter_distances(z), p=2.0)
        tensor([[0.0000e+00, 1.0000e+00, 4.2484e-18],
                [9.9945e-01, 0.0000e+00, 5.5278e-04],
                [7.6812e-15, 1.0000e+00, 0.0000e+00]])
    """
    require_above("p", p, 1, "the paper takes p > 1; p = 1 is acl Eq. 6", or_equal=True)
    return entropy_weights(2 * inter**p, tau)


# ------------------------------------------------------------------ the variants of acl Sec. 6.1

VARIANTS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "nce": MappingProxyType({"tau": 0.5, "eps": 1.0}),
        "backprop-alpha": MappingProxyType({"tau": 0.5}),
        "entropy": MappingProxyType({"tau": 0.5}),
        "inverse": MappingProxyType({"tau": 0.5, "gamma": 2.0}),
        "square": MappingProxyType({"tau": 5.0}),
        "direct": MappingProxyType({"tau": 0.5, "p": 2.0}),
    }
)
"""The variants with the settings of acl Sec. 6.1, Table 2.

The eps of nce is not printed there; with 0 it would have the gradient of entropy."""


def variant_settings(variant: str, overrides: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The paper's settings of a variant, with overrides. Errors: unknown variant or setting."""
    if variant not in VARIANTS:
        raise ValueError(f"expected a variant in {list(VARIANTS)}, got {variant!r}")
    own = VARIANTS[variant]
    for name in overrides:
        if name not in own:
            raise ValueError(f"expected settings of {variant!r} in {list(own)}, got {name!r}")
    return {**own, **overrides}


@at_least_single
def variant_importance(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"], variant: str, **settings: Scalar
) -> Float[Tensor, "*b n n"]:
    """alpha of one of the variants with unit row mass (all but "nce"), as a function of z.

    settings: overrides of `VARIANTS[variant]`. Errors: as `variant_loss`.
    """
    chosen = variant_settings(variant, settings)
    if variant == "direct":
        return direct_weights(inter_distances(z), chosen["p"], chosen["tau"])
    if variant == "inverse":
        return inverse_weights(cost(z, z2), chosen["tau"], chosen["gamma"])
    if variant == "square":
        return square_weights(cost(z, z2), chosen["tau"])
    if variant in ("entropy", "backprop-alpha"):
        return entropy_weights(cost(z, z2), chosen["tau"])
    raise ValueError(
        "expected a variant that sets alpha by itself, got 'nce'; its importance is "
        "contrast.pairwise_importance with infonce_pair(tau, eps)"
    )


@at_least_single
def variant_loss(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"], variant: str, **settings: Scalar
) -> Float[Tensor, "*b"]:
    """A loss to DESCEND, the mean over samples, with the gradient of a variant of acl Sec. 6.1.

    "nce" is L_nce / n. The others are -E_alpha / (2 n): descent on L is ascent on E / 2 (acl Thm.
    1), so that "entropy" has exactly the gradient of "nce" with eps = 0. alpha is detached
    (procedure P_g, acl Eq. 7) in all but "backprop-alpha", which lets the gradient through alpha in
    E alone: with the regulariser, E - R at the best alpha would be -2 L_nce again. Only the
    gradients have a meaning; the values of different variants are not comparable.

    settings: overrides of `VARIANTS[variant]`.
    Errors: unknown variant or setting, tau <= 0, gamma <= 1, p < 1, eps < 0, n < 2, shapes.

    Examples:
        >>> z = torch.tensor([[0.0], [1.0], [3.0]])
        >>> variant_loss(z, z, "nce"), variant_loss(z, z, "square")
        (tensor(0.1097), tensor(-1.1000))
    """
    n = z.shape[-2] if z.ndim > 1 else 1
    if variant == "nce":
        return infonce(z, z2, **variant_settings(variant, settings)) / n
    alpha = variant_importance(z, z2, variant, **settings)
    if variant != "backprop-alpha":
        alpha = alpha.detach()
    return -energy(alpha, z, z2) / (2 * n)
