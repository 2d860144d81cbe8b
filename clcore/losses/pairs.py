"""The (phi, psi) pairs of acl Table 1.

A pair stands for L = sum_i phi(sum_{j != i} psi(d_i - d_ij)) on squared half distances (acl Eq. 1,
`contrast.family_loss`). Five of the eight psi are exponentials; those pairs carry a `LogDomain`, so
that L and its pairwise importance are computed from log sum_j psi and never overflow. The same
losses as their own sources write them are in `sources`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

# A number, or a 0-d tensor: one value a run inside torch.func.vmap.
Scalar = float | int | Float[Tensor, ""]
Function = Callable[[Tensor], Tensor]


def require_above(
    name: str, value: float | int | Tensor, least: float, mend: str, *, or_equal: bool = False
) -> None:
    """Raise ValueError unless `value` > `least` (>= with `or_equal`), TypeError for no number.

    Tensors pass unseen: inside vmap their values are unknown.
    """
    if isinstance(value, Tensor):
        return
    if not isinstance(value, float | int | Real):
        raise TypeError(
            f"expected {name} to be a number or a tensor of one, got {name}={value!r}; {mend}"
        )
    if value > least or (or_equal and value == least):
        return
    relation = ">=" if or_equal else ">"
    raise ValueError(f"expected {name} {relation} {least}, got {name}={value}; {mend}")


def require_temperature(tau: Scalar) -> None:
    """Raise ValueError for a temperature (not a tensor) that is not positive, TypeError for a text
    and the like."""
    require_above("tau", tau, 0, "a temperature is positive, for example 0.5")


@dataclass(frozen=True)
class LogDomain:
    """A pair with psi(x) = exp(x / tau + shift), in terms of u = log(sum psi).

    phi, dphi: u -> phi(exp(u)) and its derivative in u, so that xi phi'(xi) = dphi(log xi).

    Examples:
        >>> log = infonce_pair(tau=0.5).log
        >>> log.tau, log.shift, log.phi(torch.tensor(0.0))  # 0.5 log 2
        (0.5, 0.0, tensor(0.3466))
    """

    tau: Scalar
    shift: Scalar
    phi: Function
    dphi: Function


@dataclass(frozen=True)
class Pair:
    """One row of acl Table 1: phi, psi, their derivatives, and where psi is exponential `log`.

    `log` is None where psi is no exponential; Theorem 2 of acl does not cover those rows.

    Examples:
        >>> hinge = Pair(
        ...     "my own",
        ...     phi=lambda x: x,
        ...     psi=lambda x: torch.relu(x + 3) ** 2,
        ...     dphi=torch.ones_like,
        ...     dpsi=lambda x: 2 * torch.relu(x + 3),
        ... )
        >>> z = torch.tensor([[0.0], [2.0]])  # a pair at distance 2
        >>> family_loss(z, z, hinge)
        tensor(2.)
    """

    name: str
    phi: Function
    psi: Function
    dphi: Function
    dpsi: Function
    log: LogDomain | None = None


_MAKERS = (
    "infonce_pair, mine_pair, triplet_pair, soft_triplet_pair, tuplet_pair, lifted_pair, "
    "modified_triplet_pair and linear_pair make one, table1() all eight"
)


def require_pair(pair: Any) -> None:
    """Raise TypeError unless this is a `Pair`."""
    if isinstance(pair, Pair):
        return
    got = f"{pair!r:.80}"
    if isinstance(pair, str):
        got += ", a name, which ContrastiveLoss alone takes"
    elif callable(pair):
        name = getattr(pair, "__name__", "it")
        got = f"the function {name}, which is to be called first: {name}()"
    raise TypeError(f"pair: expected a Pair (phi, psi and their derivatives), got {got}; {_MAKERS}")


def softplus(u: Tensor) -> Tensor:
    """log(1 + exp(u)) to machine precision; torch's softplus is u itself from u = 20 on."""
    return torch.logaddexp(u, torch.zeros_like(u))


def _exponential(name: str, phi: Function, dphi: Function, log: LogDomain) -> Pair:
    def psi(x: Tensor) -> Tensor:
        return torch.exp(x / log.tau + log.shift)

    return Pair(name, phi, psi, dphi, lambda x: psi(x) / log.tau, log)


def infonce_pair(tau: Scalar = 0.5, eps: Scalar = 1.0) -> Pair:
    """phi = tau log(eps + x), psi = exp(x / tau): acl Eq. 2. Errors: tau <= 0, eps < 0.

    Examples:
        >>> pair = infonce_pair(tau=0.5)
        >>> pair.phi(torch.tensor(2.0))  # 0.5 log(1 + 2)
        tensor(0.5493)
    """
    require_temperature(tau)
    require_above(
        "eps", eps, 0, "1 keeps the positive in the denominator, 0 does not", or_equal=True
    )

    def log_eps(u: Tensor) -> Tensor:
        if not isinstance(eps, Tensor):  # filled there: a copy would make the device wait
            return torch.full((), eps, dtype=u.dtype, device=u.device).log()  # log 0 is meant
        return eps.to(u).log()

    return _exponential(
        "InfoNCE",
        lambda x: tau * torch.log(eps + x),
        lambda x: tau / (eps + x),
        LogDomain(
            tau,
            0.0,
            lambda u: tau * torch.logaddexp(u, log_eps(u)),
            lambda u: tau * torch.sigmoid(u - log_eps(u)),
        ),
    )


def mine_pair() -> Pair:
    """phi = log x, psi = exp(x).

    Examples:
        >>> mine_pair().phi(torch.tensor(1.0)), mine_pair().psi(torch.tensor(0.0))
        (tensor(0.), tensor(1.))
    """
    log = LogDomain(1.0, 0.0, lambda u: u, torch.ones_like)
    return _exponential("MINE", torch.log, torch.reciprocal, log)


def triplet_pair(margin: Scalar = 1.0) -> Pair:
    """phi = x, psi = [x + margin]_+; the derivative at the kink x = -margin is taken as 0.

    Examples:
        >>> triplet_pair(margin=1.0).psi(torch.tensor([-2.0, 0.5]))  # [x + margin]_+
        tensor([0.0000, 1.5000])
    """
    return Pair(
        "Triplet",
        lambda x: x,
        lambda x: torch.relu(x + margin),
        torch.ones_like,
        lambda x: (x + margin > 0).to(x.dtype),
    )


def soft_triplet_pair(tau: Scalar = 0.5, margin: Scalar = 1.0) -> Pair:
    """phi = tau log(1 + x), psi = exp(x / tau + margin); the margin is in units of tau.

    Examples:
        >>> soft_triplet_pair(tau=0.5, margin=0.0).psi(torch.tensor(0.0))
        tensor(1.)
    """
    require_temperature(tau)
    return _exponential(
        "Soft Triplet",
        lambda x: tau * torch.log1p(x),
        lambda x: tau / (1 + x),
        LogDomain(tau, margin, lambda u: tau * softplus(u), lambda u: tau * torch.sigmoid(u)),
    )


def tuplet_pair() -> Pair:
    """phi = log(1 + x), psi = exp(x).

    Examples:
        >>> tuplet_pair().phi(torch.tensor(1.0))  # log 2
        tensor(0.6931)
    """
    log = LogDomain(1.0, 0.0, softplus, torch.sigmoid)
    return _exponential("N+1 Tuplet", torch.log1p, lambda x: 1 / (1 + x), log)


def lifted_pair(margin: Scalar = 1.0) -> Pair:
    """phi = [log x]_+^2, psi = exp(x + margin).

    Examples:
        >>> lifted_pair().phi(torch.tensor([0.5, 1.0, 10.0]))  # 0 below 1, then log^2
        tensor([0.0000, 0.0000, 5.3019])
    """
    return _exponential(
        "Lifted Structured",
        lambda x: torch.relu(torch.log(x)) ** 2,
        lambda x: 2 * torch.relu(torch.log(x)) / x,
        LogDomain(1.0, margin, lambda u: torch.relu(u) ** 2, lambda u: 2 * torch.relu(u)),
    )


def modified_triplet_pair(c: Scalar = 2.0) -> Pair:
    """phi = x, psi = sigmoid(c x).

    Examples:
        >>> modified_triplet_pair(c=2.0).psi(torch.tensor(0.0))
        tensor(0.5000)
    """

    def dpsi(x: Tensor) -> Tensor:
        return c * torch.sigmoid(c * x) * torch.sigmoid(-c * x)

    return Pair(
        "Modified Triplet", lambda x: x, lambda x: torch.sigmoid(c * x), torch.ones_like, dpsi
    )


def linear_pair(a: Scalar = 1.0, b: Scalar = 1.0) -> Pair:
    """phi = a x, psi = b x.

    Examples:
        >>> linear_pair(a=2.0, b=3.0).dphi(torch.tensor(7.0))
        tensor(2.)
    """
    return Pair(
        "Triplet Contrastive",
        lambda x: a * x,
        lambda x: b * x,
        lambda x: torch.full_like(x, 1) * a,
        lambda x: torch.full_like(x, 1) * b,
    )


def table1(
    tau: Scalar = 0.5, eps: Scalar = 1.0, margin: Scalar = 1.0, c: Scalar = 2.0
) -> tuple[Pair, ...]:
    """The eight rows of acl Table 1 in its order; tau, eps, margin, c are left open there.

    Examples:
        >>> [pair.name for pair in table1()][:3]
        ['InfoNCE', 'MINE', 'Triplet']
    """
    return (
        infonce_pair(tau, eps),
        mine_pair(),
        triplet_pair(margin),
        soft_triplet_pair(tau, margin),
        tuplet_pair(),
        lifted_pair(margin),
        modified_triplet_pair(c),
        linear_pair(),
    )
