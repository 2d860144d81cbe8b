"""The covariance operator of a finite data world, exactly (ddn Sec. 4, App. B).

A `World` has S samples, each with V views; every expectation below is a finite sum over them, so
that "large batch limit" is meant literally. Leading dimensions *b are draws. Outputs f of a net on
the views are [*b, S, V, k], connections K_l (ddn Def. 1) are [*b, S, V, w, k] with w = n_l n_{l-1}.

Negatives are drawn like the sample itself: x'' = x can occur. Gradients are those of the first
tower (the anchor's), the other views' weights held, as in ddn Theorem 1, unless `tied` is given.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore import random
from clcore.losses.pairs import require_above, require_temperature

# (r_+ [*s], r_{1-}..r_{H-} [*s, H]) -> [*s], as in `dual_losses`.
Loss = Callable[[Tensor, Tensor], Tensor]

KINDS = ("additive", "mask", "scale")
LARGEST = 2**26  # terms of an enumeration, above which a smaller world is what is wanted


@dataclass(frozen=True)
class World:
    """Samples [*b, S, d] as they are, their chances [*b, S], views [*b, S, V, d], p_aug [*b, S, V].

    Errors: shapes that do not fit; chances that are negative or do not sum to one.
    """

    samples: Tensor
    chances: Tensor
    views: Tensor
    view_chances: Tensor

    def __post_init__(self) -> None:
        if self.samples.shape[:-1] != self.chances.shape:
            raise ValueError(
                f"expected one probability per sample, got samples {list(self.samples.shape)} and "
                f"chances {list(self.chances.shape)}"
            )
        if self.views.shape[:-1] != self.view_chances.shape:
            raise ValueError(
                f"expected one chance a view, got views {list(self.views.shape)} and chances "
                f"{list(self.view_chances.shape)}"
            )
        if self.views.shape[:-2] != self.chances.shape:
            raise ValueError(
                f"expected views [*b, S, V, d] of samples [*b, S, d], got {list(self.views.shape)} "
                f"of {list(self.samples.shape)}"
            )
        for name, value in (("chances", self.chances), ("view_chances", self.view_chances)):
            total = value.sum(-1)
            if bool((value < 0).any()) or not torch.allclose(total, torch.ones_like(total)):
                raise ValueError(
                    f"expected {name} >= 0 that sum to one; divide them by their sum over the "
                    "last axis"
                )

    @property
    def points(self) -> Float[Tensor, "*b N d"]:
        """All views in one list, N = S V: the input of `connection.trace`."""
        return self.views.flatten(-3, -2)

    def shaped(self, a: Tensor, after: int) -> Tensor:
        """[*b, N, ...] -> [*b, S, V, ...], `after` axes following N."""
        return a.unflatten(-after - 1, self.view_chances.shape[-2:])


def random_world(
    key: Int[Tensor, "*b"], samples: int, views: int, d: int, kind: str, strength: float
) -> World:
    """Normal samples with random chances, and views of one kind, in float64.

    additive: x + strength * noise, centred within each sample; mask: entries that are hit (one in
    two) shrink by the factor 1 - strength; scale: every entry times exp(strength * normal).
    Strength 0 is no augmentation. Errors: an unknown kind; strength < 0.
    """
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
    require_above("strength", strength, 0, "0 is no augmentation", or_equal=True)
    place, weigh, view, noise = random.split(key, 4).unbind(-1)
    x = random.normal(place, (samples, d), torch.float64)
    chances = random.uniform(weigh, samples, 0.5, 1.5, torch.float64)
    view_chances = random.uniform(view, (samples, views), 0.5, 1.5, torch.float64)
    chances, view_chances = (c / c.sum(-1, keepdim=True) for c in (chances, view_chances))
    shape = (samples, views, d)
    if kind == "mask":
        hit = random.bernoulli(noise, 0.5, shape)
        whole = x.unsqueeze(-2)
        moved = torch.where(hit, (1 - strength) * whole, whole)
    else:
        step = random.normal(noise, shape, torch.float64)
        if kind == "additive":
            mean = (view_chances[..., None] * step).sum(-2, keepdim=True)
            moved = x.unsqueeze(-2) + strength * (step - mean)
        else:
            moved = x.unsqueeze(-2) * (strength * step).exp()
    return World(x, chances, moved, view_chances)


# ---------------------------------------------------------------------------------- covariances


def covariance(
    a: Float[Tensor, "*b N w k"], b: Float[Tensor, "*b N v k"], chances: Float[Tensor, "*b N"]
) -> Float[Tensor, "*b w v"]:
    """Cov[A, B] = E[(A - EA)(B - EB)^T] of matrix-valued A and B."""
    return weighted_covariance(a, b, torch.ones_like(chances), chances)


def weighted_covariance(
    a: Float[Tensor, "*b N w k"],
    b: Float[Tensor, "*b N v k"],
    weight: Float[Tensor, "*b N"],
    chances: Float[Tensor, "*b N"],
) -> Float[Tensor, "*b w v"]:
    """Cov^xi[A, B] = E[xi (A - EA)(B - EB)^T]; the means carry no weight (ddn Eq. 4)."""
    p = chances[..., None, None]
    a = a - (p * a).sum(-3, keepdim=True)
    b = b - (p * b).sum(-3, keepdim=True)
    mass = (weight * chances)[..., None, None]
    return _columns(mass * a) @ _columns(b).mT


def _columns(a: Float[Tensor, "*b N w k"]) -> Float[Tensor, "*b w Nk"]:
    """All columns of all matrices side by side: sum_i A_i B_i^T is one product."""
    return a.transpose(-3, -2).flatten(-2)


def view_mean(a: Float[Tensor, "*b S V w k"], world: World) -> Float[Tensor, "*b S w k"]:
    """The augmentation average of each sample; of K_l it is Kbar_l (ddn Thm. 3)."""
    return (world.view_chances[..., None, None] * a).sum(-3)


def between(K: Float[Tensor, "*b S V w k"], world: World) -> Float[Tensor, "*b w w"]:
    """VE_l = V_x[Kbar_l], the covariance operator of L_simp (ddn Thm. 3, Eq. 10)."""
    mean = view_mean(K, world)
    return covariance(mean, mean, world.chances)


def within(K: Float[Tensor, "*b S V w k"], world: World) -> Float[Tensor, "*b w w"]:
    """EV_l = E_x[V_aug[K_l]] (ddn Eq. 9)."""
    inner = covariance(K, K, world.view_chances)
    return (world.chances[..., None, None] * inner).sum(-3)


def pair_operator(
    mean: Float[Tensor, "*b S w k"], weight: Float[Tensor, "*b S S"], world: World
) -> Float[Tensor, "*b w w"]:
    """V^xi_{x,x''}[Kbar(x) - Kbar(x'')] / 2 (ddn Eq. 5) for Kbar and xi(x, x'').

    Positive semi-definite where xi >= 0. Of an asymmetric xi only the symmetric part counts.
    """
    p = world.chances
    mass = weight * p[..., :, None] * p[..., None, :]
    mass = (mass + mass.mT) / 2
    laplacian = torch.diag_embed(mass.sum(-1)) - mass
    mixed = (laplacian @ mean.flatten(-2)).unflatten(-1, mean.shape[-2:])
    return _columns(mean) @ _columns(mixed).mT


# -------------------------------------------------------------------------------- pairwise weights


def triplet_weight(
    r: Float[Tensor, "*s"], tau: float | Tensor, margin: float = 0.0
) -> Float[Tensor, "*s"]:
    """xi of the soft triplet loss at distance r of the samples themselves (ddn Eqs. 6, 62).

    Errors: tau <= 0.
    """
    require_temperature(tau)
    return torch.sigmoid((margin - r) / tau)


def infonce_weight(r: Float[Tensor, "*s"], tau: float | Tensor) -> Float[Tensor, "*s"]:
    """xi of InfoNCE with one negative (ddn Eqs. 6, 63). Errors: tau <= 0."""
    require_temperature(tau)
    return torch.sigmoid(-r / tau) / tau


def half_distances(f: Float[Tensor, "*b N k"], g: Float[Tensor, "*b M k"]) -> Tensor:
    """r = |f - g|^2 / 2 of all pairs, [*b, N, M]."""
    return (f[..., :, None, :] - g[..., None, :, :]).square().sum(-1) / 2


# ------------------------------------------------------------------------------- population losses


def _place(r: Tensor, k: int, negatives: int) -> Tensor:
    """[*b, S, V, N] -> [*b, S, V, 1, 1.., N, ..1]: N on the axis of negative k of H."""
    before, after = (1,) * (k + 1), (1,) * (negatives - 1 - k)
    return r.reshape(*r.shape[:-1], *before, r.shape[-1], *after)


def _mean_loss(loss: Loss, r: Float[Tensor, "*b N N"], world: World, negatives: int) -> Tensor:
    """E[L], [*b], of distances r(u, v) of the anchor's view u from every view v."""
    samples, views = world.view_chances.shape[-2:]
    count = samples * views
    if negatives < 1:
        raise ValueError(f"expected at least one negative, got {negatives}")
    if (size := world.chances.numel() * views**2 * count**negatives) > LARGEST:
        raise ValueError(
            f"expected at most {LARGEST} terms, got {size}; take fewer negatives or views"
        )
    q = world.view_chances
    both = (world.chances[..., None] * q).flatten(-2)
    rows = r.unflatten(-2, (samples, views))
    own = torch.arange(samples, device=r.device)
    same = r.unflatten(-1, (samples, views)).unflatten(-3, (samples, views))
    same = same[..., own, :, own, :].movedim(0, -3)  # [*b, S, V, V]
    tail = (1,) * negatives
    positive = same.reshape(*same.shape, *tail)
    others = torch.broadcast_tensors(*(_place(rows, k, negatives) for k in range(negatives)))
    chance = (world.chances[..., None, None] * q[..., :, None] * q[..., None, :]).reshape(
        *same.shape, *tail
    )
    for k in range(negatives):
        chance = chance * _place(both[..., None, None, :], k, negatives)
    values = loss(*_fitted(positive, torch.stack(others, -1)))
    return (chance * values).sum(tuple(range(-3 - negatives, 0)))


def _fitted(positive: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
    shape = torch.broadcast_shapes(positive.shape, negatives.shape[:-1])
    return positive.expand(shape), negatives.expand(*shape, negatives.shape[-1])


def population_loss(
    loss: Loss,
    near: Float[Tensor, "*b S V k"],
    far: Float[Tensor, "*b S V k"],
    world: World,
    negatives: int = 1,
) -> Float[Tensor, "*b"]:
    """E[L(r_+, r_-)] by enumeration: anchors with the first tower's outputs, the rest the second's.

    Detach `far` for the gradient of ddn Theorem 1; pass the same tensor twice for tied towers.
    Errors: no negatives; more than `LARGEST` terms.
    """
    r = half_distances(near.flatten(-3, -2), far.flatten(-3, -2))
    return _mean_loss(loss, r, world, negatives)


def weighted_loss(
    near: Float[Tensor, "*b S V k"],
    far: Float[Tensor, "*b S V k"],
    weight: Float[Tensor, "*b S S"],
    world: World,
) -> Float[Tensor, "*b"]:
    """E[xi(x, x'') (r_+ - r_-)], xi a constant: ddn Eq. 7 of one negative.

    With H independent negatives it is H times this.
    """
    r = half_distances(near.flatten(-3, -2), far.flatten(-3, -2))
    return (weighted_pulls(weight, world) * r).sum((-1, -2))


def weighted_pulls(weight: Float[Tensor, "*b S S"], world: World) -> Float[Tensor, "*b N N"]:
    """`pulls` for the loss of Eq. 7: mass on own views minus mass on all others'."""
    p, q = world.chances, world.view_chances
    mass = weight.detach() * p[..., :, None] * p[..., None, :]
    mass = torch.diag_embed(mass.sum(-1)) - mass
    spread = mass[..., :, None, :, None] * q[..., :, :, None, None] * q[..., None, None, :, :]
    return spread.flatten(-4, -3).flatten(-2)


def pulls(
    loss: Loss, f: Float[Tensor, "*b S V k"], world: World, negatives: int = 1
) -> Float[Tensor, "*b N N"]:
    """dE[L]/dr(u, v) for the anchor's view u and the other view v, N = S V.

    All that a loss of distances does to the weights; see `operator`. Errors: as `population_loss`.
    """
    flat = f.detach().flatten(-3, -2)
    r = half_distances(flat, flat).requires_grad_()
    with torch.enable_grad():
        total = _mean_loss(loss, r, world, negatives).sum()
    return torch.autograd.grad(total, r)[0]


def operator(
    left: Float[Tensor, "*b N w k"],
    right: Float[Tensor, "*b N v k"],
    pull: Float[Tensor, "*b N N"],
    tied: bool = False,
) -> Float[Tensor, "*b w v"]:
    """OP_l with vec(-dE[L]/dW_l) = OP_l vec(W_l), exactly, for any loss of distances.

    Sums -dE[L]/dr(u, v) A_u (B_u - B_v)^T (ddn Thm. 1). Plain distances: A = B = K_l; normalised
    ones: A = K_l^n P, B = K_l^n (ddn Eq. 41). `tied`: the gradient through both towers.
    """
    if tied:
        pull = pull + pull.mT
    move = pull - torch.diag_embed(pull.sum(-1))
    mixed = (move @ right.flatten(-2)).unflatten(-1, right.shape[-2:])
    return _columns(left) @ _columns(mixed).mT


# ------------------------------------------------------------------------------------- the residue


def view_variance(f: Float[Tensor, "*b S V k"], world: World) -> Float[Tensor, "*b S"]:
    """sigma_aug^2(x) = tr V_aug[f] (ddn Thm. 4)."""
    q = world.view_chances[..., None]
    return (q * (f - (q * f).sum(-2, keepdim=True)).square()).sum((-1, -2))


def view_offset(
    f: Float[Tensor, "*b S V k"], plain: Float[Tensor, "*b S k"], world: World
) -> Float[Tensor, "*b S"]:
    """c_0(x) = |f(x) - E_aug f| (ddn Eq. 78); `plain` is f on the samples themselves."""
    return (plain - (world.view_chances[..., None] * f).sum(-2)).norm(dim=-1)


def residue(
    K: Float[Tensor, "*b S V w k"],
    pull: Float[Tensor, "*b N N"],
    weight: Float[Tensor, "*b S S"],
    world: World,
) -> Float[Tensor, "*b w w"]:
    """theta of ddn Theorem 4: the exact operator minus V^xi[Kbar(x) - Kbar(x'')] / 2."""
    flat = K.flatten(-4, -3)
    return operator(flat, flat, pull) - pair_operator(view_mean(K, world), weight, world)


def residue_bound(
    f: Float[Tensor, "*b S V k"],
    plain: Float[Tensor, "*b S k"],
    size: Float[Tensor, "*b"],
    slope: float,
    world: World,
) -> Float[Tensor, "*b"]:
    """2 M^2 s {2 E[|f(x) - f(x'')| (sigma + c_0)(x)] + 3 E[sigma^2] + 2 E[c_0^2]} >= |theta|.

    size: M, the largest spectral norm of K_l over the views. slope: s >= |d xi / dr|, 1/tau^2
    for InfoNCE, 1/tau for the triplet (a quarter of that is enough). ddn Eq. 79, and its last term,
    which is not printed there.
    """
    variance, shift, p = view_variance(f, world), view_offset(f, plain, world), world.chances
    far = (2 * half_distances(plain, plain)).sqrt()
    cross = (p[..., None, :] * far).sum(-1) * (variance.sqrt() + shift)
    total = (p * (2 * cross + 3 * variance + 2 * shift.square())).sum(-1)
    return 2 * slope * size.square() * total
