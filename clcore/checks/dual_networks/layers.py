"""A layer of a ReLU net on a finite world: complex-step gradients, and the library's operators."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch

from clcore.checks.dual_networks import worlds as dw
from clcore.reference import Array
from clcore.theory.operator import connection as cn
from clcore.theory.operator import covariance_operator as co

TIGHT = 1e-11
Objective = Callable[[Array, Array], Array]


def views_of(layers: list[Array], world: co.World, layer: int) -> torch.Tensor:
    """K_l of all views by the library, [draws, S, V, w, k]."""
    return world.shaped(cn.connection(cn.trace(dw.torch_layers(layers), world.points), layer), 2)


def population_objective(case: dw.Case, world: co.World) -> Objective:
    """(near, far) -> E[L] by loops."""
    return lambda near, far: dw.mean_loss(case.page, near, far, world)


def skew(A: torch.Tensor) -> Array:
    """|A - A^T| / |A|, [draws]."""
    return (torch.linalg.matrix_norm(A - A.mT) / torch.linalg.matrix_norm(A)).numpy()


@dataclass(frozen=True)
class Layer:
    """Layer `number`, from 1, of nets with weights `net` on `world`; all have a draw each."""

    world: co.World
    net: list[Array]
    number: int

    @property
    def depth(self) -> int:
        return len(self.net)

    @cached_property
    def x(self) -> Array:
        """All views, [draws, S, V, d]."""
        return dw.parts(self.world)[2]

    @cached_property
    def outputs(self) -> torch.Tensor:
        """f_L of all views, by numpy, [draws, S, V, k]."""
        return torch.from_numpy(dw.output(self.net, self.x))

    @cached_property
    def K(self) -> torch.Tensor:
        """K_l of all views, [draws, S, V, w, k]."""
        return views_of(self.net, self.world, self.number)

    @cached_property
    def between(self) -> torch.Tensor:
        """V_x[Kbar_l], the operator of Theorem 3, [draws, w, w]."""
        return co.between(self.K, self.world)

    @cached_property
    def within(self) -> torch.Tensor:
        """E_x[V_aug[K_l]], [draws, w, w]."""
        return co.within(self.K, self.world)

    def sides(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(K_l^n, P) of all views by the library, each [draws, S, V, ...]."""
        seen = cn.trace(dw.torch_layers(self.net), self.world.points)
        K = self.world.shaped(cn.normalised_connection(seen, self.number), 2)
        return K, self.world.shaped(cn.projector(seen.output), 2)

    def xi(self, case: dw.Case) -> Array:
        """xi(x, x'') at the samples themselves, [draws, S, S], from the page's formula."""
        f = dw.output(self.net, dw.parts(self.world)[0])[:, :, 0]
        return case.weight(dw.half(f[:, :, None], f[:, None]))

    def operator(self, case: dw.Case, negatives: int = 1, tied: bool = False) -> torch.Tensor:
        """The exact operator of a loss, of one tower or of both, by the library, [draws, w, w]."""
        flat, pull = self.K.flatten(1, 2), co.pulls(case.ours, self.outputs, self.world, negatives)
        return co.operator(flat, flat, pull, tied=tied)

    def residue(self, case: dw.Case, xi: torch.Tensor) -> torch.Tensor:
        """theta of Theorem 4 by the library, for pair weights xi [draws, S, S]."""
        return co.residue(self.K, co.pulls(case.ours, self.outputs, self.world), xi, self.world)

    def weighted(self, xi: torch.Tensor) -> torch.Tensor:
        """V^xi[Kbar_l(x) - Kbar_l(x'')] / 2 by the library, [draws, w, w]."""
        return co.pair_operator(co.view_mean(self.K, self.world), xi, self.world)

    def times(self, operator: Array | torch.Tensor) -> Array:
        """operator vec(W_l), [draws, w]."""
        return dw.times(operator, self.net, self.number)

    def descent(self, loss: dw.Case | Objective, tied: bool = False, unit: bool = False) -> Array:
        """-dE/dvec(W_l), [draws, w], by complex steps in the first tower, or in both (`tied`).

        loss: of one negative, or of the outputs of both towers (near, far). unit: outputs over
        their norms.
        """
        objective = population_objective(loss, self.world) if isinstance(loss, dw.Case) else loss
        return -dw.vec(dw.gradient(objective, self.net, self.number, self.x, tied, unit))


def layers(
    rng: np.random.Generator,
    count: int,
    depths: Iterable[int] = tuple(dw.DEPTHS),
    kinds: Iterable[str] = ("scale",),
    ends: bool = False,
) -> Iterator[Layer]:
    """All layers (`ends`: first and last) of random nets on random worlds, `count` draws each."""
    kinds = tuple(kinds)
    for depth in depths:
        widths = dw.DEPTHS[depth]
        for kind in kinds:
            world, net = dw.world(rng, count, widths[0], kind), dw.weights(rng, count, widths)
            numbers = sorted({1, depth}) if ends else range(1, depth + 1)
            yield from map(partial(Layer, world, net), numbers)
