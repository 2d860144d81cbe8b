"""Nodes that a random start makes selective by luck (ddn Theorem 5 and its proof, App. C.4).

A node j over latent variable mu has uniform weights w_j on |N^ch| children. Child k has mean
activation h_k + a_k when z_mu = 1 and h_k - a_k when z_mu = 0, with a_k = rho_k s_k; both are
nonnegative, as activations are. Weights: `*b nodes n`, children: `*b n`. sigma is the paper's
sigma_w: a weight has variance sigma^2 / n.
"""

import itertools
import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clcore import random
from clcore.theory.trees import gaussian_tail

FEW = 8


def correlation(h: Float[Tensor, "*b n"], a: Float[Tensor, "*b n"]) -> Float[Tensor, "*b"]:
    """gamma of ddn Eq. 129: the cosine between h + a and h - a; 1 where they are parallel.

    Errors: a child with a negative mean, |a_k| > h_k.
    """
    if not bool((a.abs() <= h * (1 + 1e-12)).all()):
        raise ValueError(
            "expected |a| <= h, since activations of ReLU nodes have means h + a and h - a >= 0; "
            "leaves are to be coded 0 and 1, not -1 and 1"
        )
    plus, minus = (h + a).norm(dim=-1), (h - a).norm(dim=-1)
    return ((h + a) * (h - a)).sum(-1) / (plus * minus)


def nodes_asked(
    c: Float[Tensor, "*#b"], gamma: Float[Tensor, "*#b"], eta: float, printed: bool = True
) -> Float[Tensor, "*#b"]:
    """|N_mu| of ddn Eq. 128, not rounded: ln(1/eta) over the lower bound of a node's chance.

    `printed` takes the bound as ddn Lemma 8 prints it; otherwise c/2 is c/(2 (1 - gamma^2)).
    """
    if not 0 < eta < 1:
        raise ValueError(f"expected a chance of failure 0 < eta < 1, got {eta:g}")
    return math.log(1 / eta) * torch.exp(-gaussian_tail.log_bound(c, gamma, printed))


def weights(
    key: Int[Tensor, "*b"], nodes: int, children: int, sigma: float = 1.0
) -> Float[Tensor, "*b nodes n"]:
    """Weights uniform on +-sigma sqrt(3 / children), in float64."""
    edge = sigma * math.sqrt(3 / children)
    return random.uniform(key, (nodes, children), -edge, edge, dtype=torch.float64)


def lucky(
    weights: Float[Tensor, "*b nodes n"],
    h: Float[Tensor, "*b n"],
    a: Float[Tensor, "*b n"],
    c: float,
    sigma: float = 1.0,
) -> Bool[Tensor, "*b nodes"]:
    """The event of ddn Eq. 143: mean pre-activation below 0 when z_mu = 0, and at least sqrt(c)
    of its standard deviations (over weights) above 0 when z_mu = 1."""
    plus, minus = ((weights @ u[..., None])[..., 0] for u in (h + a, h - a))
    level = math.sqrt(c / h.shape[-1]) * sigma * (h + a).norm(dim=-1)
    return (plus >= level[..., None]) & (minus < 0)


def lucky_probability(
    h: Float[Tensor, "*b n"], a: Float[Tensor, "*b n"], c: float
) -> Float[Tensor, "*b"]:
    """The exact probability of `lucky` for one node with few children, n <= 8.

    The volume of the part of a cube below two planes, by inclusion and exclusion over its corners;
    absolute error below 1e-7.
    Errors: n outside 2..8; h + a or h - a with a zero, or two children with (nearly) the same ratio
    of the two, where the terms cancel beyond repair.
    """
    n = h.shape[-1]
    if not 2 <= n <= FEW:
        raise ValueError(f"expected 2 to {FEW} children, got {n}; draw weights for more")
    alpha, beta = h + a, h - a
    if not bool(((alpha > 0) & (beta > 0)).all()):
        raise ValueError("expected h + a > 0 and h - a > 0 everywhere; move polarities off +-1")
    # P(w.u+ >= x, w.u- < 0) of w in [-b, b]^n, mirrored and moved to the unit cube.
    s = (alpha.sum(-1) - math.sqrt(c / 3) * alpha.norm(dim=-1)) / 2
    total, half = beta.sum(-1), beta.sum(-1) / 2
    (both, size), (left, size2) = (_below(alpha, beta, s, t) for t in (total, half))
    if not bool((torch.maximum(size, size2) < 1e7).all()):
        raise ValueError(
            "children with nearly the same ratio (h - a)/(h + a): the exact sum loses its digits; "
            "move them apart or draw weights"
        )
    return (both - left).clamp(0, 1)


def _below(alpha: Tensor, beta: Tensor, s: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """P(alpha.x <= s, beta.x <= t) of x uniform on the unit cube, and the largest term summed."""
    n = alpha.shape[-1]
    corners = torch.tensor(
        list(itertools.product((0.0, 1.0), repeat=n)), dtype=alpha.dtype, device=alpha.device
    )
    sign = 1 - 2 * (corners.sum(-1) % 2)
    s = s[..., None] - (alpha[..., None, :] * corners).sum(-1)
    t = t[..., None] - (beta[..., None, :] * corners).sum(-1)
    ratio = beta / alpha
    apart = beta[..., None, :] - alpha[..., None, :] * ratio[..., :, None]
    apart = torch.where(torch.eye(n, dtype=torch.bool, device=alpha.device), 1.0, apart)
    weight = math.factorial(n) * beta * apart.prod(-1)
    first = t.clamp(min=0) ** n / (math.factorial(n) * beta.prod(-1)[..., None])
    cones = (t[..., None] - ratio[..., None, :] * s[..., None]).clamp(min=0) ** n
    terms = torch.cat([first[..., None], -cones / weight[..., None, :]], -1)
    terms = terms * (sign * (s >= 0))[..., None]
    return terms.sum((-1, -2)), terms.abs().amax((-1, -2))


def leaf_states(
    rho: Float[Tensor, "*b n"],
) -> tuple[Float[Tensor, "states n"], Float[Tensor, "*b 2 states"]]:
    """All values of binary leaves coded 0 and 1, and their probabilities given z_mu = 0 and 1.

    `rho` are the polarities. Errors: more than 14 leaves.
    """
    n = rho.shape[-1]
    if n > 14:
        raise ValueError(f"expected at most 14 leaves to enumerate, got {n}; draw states instead")
    states = torch.tensor(
        list(itertools.product((0.0, 1.0), repeat=n)), dtype=rho.dtype, device=rho.device
    )
    same = (1 + torch.stack([-rho, rho], -2)) / 2  # P(leaf = 1 | z_mu)
    each = torch.where(states > 0, same[..., None, :], 1 - same[..., None, :])
    return states, each.prod(-1)


def drawn_leaf_states(
    key: Int[Tensor, ""], rho: Float[Tensor, "n"], count: int
) -> tuple[Float[Tensor, "states n"], Float[Tensor, "2 states"]]:
    """As `leaf_states`, for any number of leaves: `count` states drawn given z_mu = 0, then 1."""
    up = ((1 + torch.stack([-rho, rho])) / 2).repeat_interleave(count, 0)
    states = random.uniform(key, tuple(up.shape), dtype=torch.float64) < up
    chance = torch.eye(2, dtype=rho.dtype, device=rho.device).repeat_interleave(count, 1) / count
    return states.to(rho.dtype), chance


def activations(
    weights: Float[Tensor, "*b nodes n"],
    states: Float[Tensor, "*#b states n"],
    chance: Float[Tensor, "*b 2 states"],
) -> Float[Tensor, "*b nodes 2"]:
    """v_j(0), v_j(1): mean ReLU activations of the nodes given z_mu, from children's states."""
    active = torch.relu(weights @ states.mT)
    return active @ chance.mT


def square_gap_bound(
    s: Float[Tensor, "*b n"],
    rho: Float[Tensor, "*b n"],
    c: float,
    spread: float | Float[Tensor, "*b"] = 0.0,
    sigma: float = 1.0,
    units: int = 1,
) -> Float[Tensor, "*b"]:
    """3 sigma^2 [mean_k s_k^2 ((c + 6) rho_k^2 / 6 - 1) - spread] (ddn Eq. 164).

    What Theorem 5 promises to |v_j(1)^2 - v_j(0)^2| = 4 vbar_j |s_j|; `spread` is sigma_l^2, the
    largest variance of a child's activation given its own latent variable. With `units` children
    above one latent, at most, its negative terms count that often: 1 - rho^2 and the spread.
    """
    kept = s**2 * (c / 6 * rho**2 - units * (1 - rho**2))
    return 3 * sigma**2 * (kept.mean(-1) - units * spread)
