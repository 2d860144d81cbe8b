"""How much of InfoNCE's gradient is the residue, along training on images (ddn Thm. 4, Sec. 7).

With one negative the gradient with respect to W_l is minus (V^xi[Kbar - Kbar'] / 2 + theta)
vec(W_l). The first term alone is the gradient of the weighted loss of ddn Eq. 7, so two passes of
autograd separate both terms and no operator is formed. Worlds are finite: expectations are sums
over the images, their views and the negatives. Leading dimensions *b are runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore import random
from clcore.images import augmentations as aug
from clcore.losses import anchors
from clcore.theory.operator import connection as net
from clcore.theory.operator import covariance_operator as co

Weight = Callable[[Tensor, float], Tensor]


def image_world(
    key: Int[Tensor, "*b"],
    x: Float[Tensor, "n c h w"],
    samples: int,
    views: int,
    recipe: aug.Recipe,
) -> co.World:
    """For each key a world of `samples` of the images, with `views` augmented views of each.

    Pixels minus the mean image, scaled to mean square 1 over all images, in float64. All
    probabilities are equal. Errors: more samples than images; a recipe of another size than the
    images'.
    """
    if samples > len(x):
        raise ValueError(f"expected at most {len(x)} samples, as there are images, got {samples}")
    if x.shape[-2:] != (recipe.size, recipe.size):
        raise ValueError(
            f"expected a recipe for images of {list(x.shape[-2:])} pixels, got size {recipe.size}; "
            "samples and views enter the same net"
        )

    def one(own: Tensor) -> tuple[Tensor, Tensor]:
        which, draw = random.split(own)
        chosen = x[random.choice(which, len(x), samples)]
        seen = [aug.view(k, chosen, recipe) for k in random.split(draw, views)]
        return chosen.flatten(1), torch.stack(seen, 1).flatten(2)

    pairs = [one(own) for own in key.reshape(-1)]
    plain, seen = (torch.stack(part).unflatten(0, key.shape) for part in zip(*pairs, strict=True))
    every = x.flatten(1).double()
    mean = every.mean(0)
    scale = (every - mean).square().mean().sqrt()
    plain, seen = (plain.double() - mean) / scale, (seen.double() - mean) / scale
    chance = torch.full_like(plain[..., 0], 1 / samples)
    return co.World(plain, chance, seen, torch.full_like(seen[..., 0], 1 / views))


def outputs(
    weights: Sequence[Float[Tensor, "*b _ _"]], points: Float[Tensor, "*b n d"], normalised: bool
) -> Float[Tensor, "*b n k"]:
    """f_L of the ReLU net, or f_L / |f_L|."""
    f = net.trace(weights, points).output
    return net.unit(f) if normalised else f


@torch.enable_grad()
def split_gradient(
    weights: Sequence[Float[Tensor, "*b _ _"]],
    world: co.World,
    tau: float,
    normalised: bool = True,
    tied: bool = False,
    weight: Weight = co.infonce_weight,
) -> tuple[list[Tensor], list[Tensor]]:
    """V^xi[Kbar - Kbar'] vec(W_l) / 2 and theta vec(W_l), shaped as W_l, for all layers.

    Directions of descent, of the anchor's tower alone, as in ddn Theorem 1; `tied`: of both, as in
    practice, where the operator's part is twice that. weight: xi(r, tau), another one than
    InfoNCE's to split off another operator. Errors: tau <= 0.
    """
    params = [W.detach().requires_grad_() for W in weights]
    near = world.shaped(outputs(params, world.points, normalised), 1)
    plain = outputs(params, world.samples, normalised).detach()
    xi = weight(co.half_distances(plain, plain), tau)
    far = near if tied else near.detach()
    loss = co.population_loss(partial(anchors.infonce, tau=tau), near, far, world)
    whole = torch.autograd.grad(loss.sum(), params, retain_graph=True)
    exact = co.weighted_loss(near, far, xi, world)
    main = torch.autograd.grad(exact.sum(), params)
    return [-m for m in main], [m - g for m, g in zip(main, whole, strict=True)]


@dataclass(frozen=True)
class Shares:
    """What `along` returns: T recorded steps, L layers, runs *b. With m the operator's part of the
    descent and t the residue's, ratio: |t| / |m| and overlap: <t, m> / |m|^2, [T, *b, L].

    loss: of the population, [T, *b]. spread: of outputs between the views of a sample over that
    between samples, [T, *b].
    """

    steps: list[int]
    ratio: Tensor
    overlap: Tensor
    loss: Tensor
    spread: Tensor

    @property
    def cosine(self) -> Float[Tensor, "t *b l"]:
        """Between the whole descent m + t and m."""
        return (1 + self.overlap) / (1 + 2 * self.overlap + self.ratio**2).sqrt()

    @property
    def reversed(self) -> Float[Tensor, "t *b l"]:
        """What the ratio would be if the operator's sign were turned: |2 m + t| / |m|."""
        return (4 + 4 * self.overlap + self.ratio**2).sqrt()


@torch.enable_grad()
def along(
    weights: Sequence[Float[Tensor, "*b _ _"]],
    world: co.World,
    tau: float,
    rate: float,
    steps: int,
    every: int,
    normalised: bool = True,
    tied: bool = False,
    weight: Weight = co.infonce_weight,
) -> Shares:
    """Gradient descent on InfoNCE of one negative; shares at every `every`th step and the last.

    The step is the sum of the two parts, so that where it vanishes the ratio is 1. Not tied: the
    second tower has the same weights and is held. Errors: as `split_gradient`.
    """
    loss = partial(anchors.infonce, tau=tau)
    times = sorted({*range(0, steps + 1, every), steps})
    kept = []
    for step in range(steps + 1):
        params = [W.detach().requires_grad_() for W in weights]
        f = world.shaped(outputs(params, world.points, normalised), 1)
        value = co.population_loss(loss, f, f if tied else f.detach(), world)
        if step in times:
            parts = split_gradient(weights, world, tau, normalised, tied, weight)
            kept.append((*_shares(*parts), value.detach(), _spread(f.detach(), world)))
        slopes = torch.autograd.grad(value.sum(), params)
        weights = [W.detach() - rate * g for W, g in zip(weights, slopes, strict=True)]
    return Shares(times, *(torch.stack(part) for part in zip(*kept, strict=True)))


def _shares(main: list[Tensor], theta: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Ratio and overlap, [*b, L]."""
    pairs = [(m.flatten(-2), t.flatten(-2)) for m, t in zip(main, theta, strict=True)]
    ratio = [t.norm(dim=-1) / m.norm(dim=-1) for m, t in pairs]
    overlap = [(t * m).sum(-1) / m.square().sum(-1) for m, t in pairs]
    return torch.stack(ratio, -1), torch.stack(overlap, -1)


def _spread(f: Float[Tensor, "*b S V k"], world: co.World) -> Float[Tensor, "*b"]:
    within = (world.chances * co.view_variance(f, world)).sum(-1)
    mean = (world.view_chances[..., None] * f).sum(-2)
    centre = (world.chances[..., None] * mean).sum(-2, keepdim=True)
    return within / (world.chances[..., None] * (mean - centre).square()).sum((-1, -2))
