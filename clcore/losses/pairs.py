"""The (phi, psi) pairs of acl Table 1.

A pair represents L = sum_i phi(sum_{j != i} psi(d_i - d_ij)) on squared half distances (acl Eq. 1,
`contrast.family_loss`). Five of the eight psi are exponentials; those pairs carry a `LogDomain`, so
that L and its pairwise importance are computed from log sum_j psi and never overflow. The same
losses as their own sources write them are in `sources`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from clcore.losses.floating import known

# A number, or a 0-d tensor: one value per run inside torch.func.vmap.
Scalar = float | int | Float[Tensor, ""]
Function = Callable[[Tensor], Tensor]


def require_above(
    name: str, value: float | int | Tensor, least: float, mend: str, *, or_equal: bool = False
) -> None:
    """Raise ValueError unless `value` > `least` (>= with `or_equal`), TypeError for no number.

    A tensor is asked where its value is `known`; one of NaN passes, as NaN of a loss shows.
    """
    relation = ">=" if or_equal else ">"
    if isinstance(value, Tensor):
        if known((value < least if or_equal else value <= least).any()):
            raise ValueError(
                f"expected {name} {relation} {least}, got {name}={value.tolist()}; {mend}"
            )
        return
    if not isinstance(value, (float, int, Real)):  # no union: PyTorch 2.4 compiles none
        raise TypeError(
            f"expected {name} to be a number or a tensor of one, got {name}={value!r}; {mend}"
        )
    if value > least or (or_equal and value == least):
        return
    raise ValueError(f"expected {name} {relation} {least}, got {name}={value}; {mend}")


def _require_number(name: str, value: Scalar) -> None:
    """Raise TypeError for what is neither a number nor a tensor, ValueError for NaN."""
    if isinstance(value, Tensor):
        return
    if not isinstance(value, (float, int, Real)):
        raise TypeError(
            f"expected {name} to be a number or a tensor of one, got {name}={value!r}; give "
            "one, for example 1.0"
        )
    if value != value:
        raise ValueError(
            f"expected {name} to be a number, got {name}={value}; give one, for example 1.0"
        )


def require_temperature(tau: Scalar) -> Scalar:
    """The temperature itself, but NaN for a tensor that is not positive where that is not `known`.
    Raises ValueError for one that is not positive, TypeError for a text and the like."""
    mend = "a temperature is positive, for example 0.5"
    if not isinstance(tau, Tensor):
        require_above("tau", tau, 0, mend)
        return tau
    require_above("tau", tau, 0, f"{mend}; one that is learned stays so as the exp of a parameter")
    return torch.where(tau > 0, tau, torch.nan)


def one_temperature(tau: Scalar | None, temperature: Scalar | None) -> Scalar:
    """`tau`, which may be given as `temperature`; 0.5 without either. Raises TypeError for both."""
    if tau is not None and temperature is not None:
        raise TypeError(
            f"expected tau or temperature, which is another name for it, got both: tau={tau} and "
            f"temperature={temperature}; leave one out"
        )
    given = temperature if tau is None else tau
    return 0.5 if given is None else given


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

    `log` is None where psi is not an exponential; Theorem 2 of acl does not cover those rows. The
    eight rows can be pickled and copied, so a loss is saved with its net; so can a pair of your
    own if its functions are defined at the top level of a module.

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


# ------------------------------------------------------ phi and psi, by name: lambdas do not pickle


def _exp(x: Tensor, tau: Scalar, shift: Scalar) -> Tensor:
    return torch.exp(x / tau + shift)


def _exp_slope(x: Tensor, tau: Scalar, shift: Scalar) -> Tensor:
    return _exp(x, tau, shift) / tau


def _exponential(name: str, phi: Function, dphi: Function, log: LogDomain) -> Pair:
    psi, dpsi = (partial(f, tau=log.tau, shift=log.shift) for f in (_exp, _exp_slope))
    return Pair(name, phi, psi, dphi, dpsi, log)


def _same(x: Tensor) -> Tensor:
    return x


def _times(x: Tensor, factor: Scalar) -> Tensor:
    return factor * x


def _constant(x: Tensor, value: Scalar) -> Tensor:
    return torch.full_like(x, 1) * value


def _log_eps(u: Tensor, eps: Scalar) -> Tensor:
    if not isinstance(eps, Tensor):  # filled there: a copy would make the device wait
        return torch.full((), eps, dtype=u.dtype, device=u.device).log()  # log 0 is meant
    return eps.to(u).log()


def _nce_phi(x: Tensor, tau: Scalar, eps: Scalar) -> Tensor:
    return tau * torch.log(eps + x)


def _nce_dphi(x: Tensor, tau: Scalar, eps: Scalar) -> Tensor:
    return tau / (eps + x)


def _nce_log_phi(u: Tensor, tau: Scalar, eps: Scalar) -> Tensor:
    return tau * torch.logaddexp(u, _log_eps(u, eps))


def _nce_log_dphi(u: Tensor, tau: Scalar, eps: Scalar) -> Tensor:
    return tau * torch.sigmoid(u - _log_eps(u, eps))


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
    phi, dphi, log_phi, log_dphi = (
        partial(f, tau=tau, eps=eps) for f in (_nce_phi, _nce_dphi, _nce_log_phi, _nce_log_dphi)
    )
    return _exponential("InfoNCE", phi, dphi, LogDomain(tau, 0.0, log_phi, log_dphi))


def mine_pair() -> Pair:
    """phi = log x, psi = exp(x).

    Examples:
        >>> mine_pair().phi(torch.tensor(1.0)), mine_pair().psi(torch.tensor(0.0))
        (tensor(0.), tensor(1.))
    """
    log = LogDomain(1.0, 0.0, _same, torch.ones_like)
    return _exponential("MINE", torch.log, torch.reciprocal, log)


def _hinge(x: Tensor, margin: Scalar) -> Tensor:
    return torch.relu(x + margin)


def _hinge_slope(x: Tensor, margin: Scalar) -> Tensor:
    return (x + margin > 0).to(x.dtype)


def triplet_pair(margin: Scalar = 1.0) -> Pair:
    """phi = x, psi = [x + margin]_+; the derivative at the kink x = -margin is taken as 0.

    Examples:
        >>> triplet_pair(margin=1.0).psi(torch.tensor([-2.0, 0.5]))  # [x + margin]_+
        tensor([0.0000, 1.5000])
    """
    _require_number("margin", margin)
    psi, dpsi = (partial(f, margin=margin) for f in (_hinge, _hinge_slope))
    return Pair("Triplet", _same, psi, torch.ones_like, dpsi)


def _soft_phi(x: Tensor, tau: Scalar) -> Tensor:
    return tau * torch.log1p(x)


def _soft_dphi(x: Tensor, tau: Scalar) -> Tensor:
    return tau / (1 + x)


def _soft_log_phi(u: Tensor, tau: Scalar) -> Tensor:
    return tau * softplus(u)


def _soft_log_dphi(u: Tensor, tau: Scalar) -> Tensor:
    return tau * torch.sigmoid(u)


def soft_triplet_pair(tau: Scalar = 0.5, margin: Scalar = 1.0) -> Pair:
    """phi = tau log(1 + x), psi = exp(x / tau + margin); the margin is in units of tau.

    Examples:
        >>> soft_triplet_pair(tau=0.5, margin=0.0).psi(torch.tensor(0.0))
        tensor(1.)
    """
    require_temperature(tau)
    _require_number("margin", margin)
    phi, dphi, log_phi, log_dphi = (
        partial(f, tau=tau) for f in (_soft_phi, _soft_dphi, _soft_log_phi, _soft_log_dphi)
    )
    return _exponential("Soft Triplet", phi, dphi, LogDomain(tau, margin, log_phi, log_dphi))


def tuplet_pair() -> Pair:
    """phi = log(1 + x), psi = exp(x).

    Examples:
        >>> tuplet_pair().phi(torch.tensor(1.0))  # log 2
        tensor(0.6931)
    """
    log = LogDomain(1.0, 0.0, softplus, torch.sigmoid)
    return _exponential("N+1 Tuplet", torch.log1p, partial(_soft_dphi, tau=1), log)


def _lifted_phi(x: Tensor) -> Tensor:
    return torch.relu(torch.log(x)) ** 2


def _lifted_dphi(x: Tensor) -> Tensor:
    return 2 * torch.relu(torch.log(x)) / x


def _lifted_log_phi(u: Tensor) -> Tensor:
    return torch.relu(u) ** 2


def _lifted_log_dphi(u: Tensor) -> Tensor:
    return 2 * torch.relu(u)


def lifted_pair(margin: Scalar = 1.0) -> Pair:
    """phi = [log x]_+^2, psi = exp(x + margin).

    Examples:
        >>> lifted_pair().phi(torch.tensor([0.5, 1.0, 10.0]))  # 0 below 1, then log^2
        tensor([0.0000, 0.0000, 5.3019])
    """
    _require_number("margin", margin)
    log = LogDomain(1.0, margin, _lifted_log_phi, _lifted_log_dphi)
    return _exponential("Lifted Structured", _lifted_phi, _lifted_dphi, log)


def _sigmoid(x: Tensor, c: Scalar) -> Tensor:
    return torch.sigmoid(c * x)


def _sigmoid_slope(x: Tensor, c: Scalar) -> Tensor:
    return c * torch.sigmoid(c * x) * torch.sigmoid(-c * x)


def modified_triplet_pair(c: Scalar = 2.0) -> Pair:
    """phi = x, psi = sigmoid(c x).

    Examples:
        >>> modified_triplet_pair(c=2.0).psi(torch.tensor(0.0))
        tensor(0.5000)
    """
    _require_number("c", c)
    psi, dpsi = partial(_sigmoid, c=c), partial(_sigmoid_slope, c=c)
    return Pair("Modified Triplet", _same, psi, torch.ones_like, dpsi)


def linear_pair(a: Scalar = 1.0, b: Scalar = 1.0) -> Pair:
    """phi = a x, psi = b x.

    Examples:
        >>> linear_pair(a=2.0, b=3.0).dphi(torch.tensor(7.0))
        tensor(2.)
    """
    _require_number("a", a)
    _require_number("b", b)
    phi, psi = partial(_times, factor=a), partial(_times, factor=b)
    dphi, dpsi = partial(_constant, value=a), partial(_constant, value=b)
    return Pair("Triplet Contrastive", phi, psi, dphi, dpsi)


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
