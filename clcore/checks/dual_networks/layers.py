"""A layer of a ReLU net on a finite world: complex-step gradients, and the library's operators."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.dual_networks import worlds as dw
from clcore.reference import Array
from clcore.theory.operator import connection as cn
from clcore.theory.operator import covariance_operator as co

TIGHT = 1e-11
Objective = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Layer:
    """Layer `number`, from 1, of nets with weights `net` on `world`; all have a draw each."""

    world: co.World
    net: list[Array]
    number: int

    @cached_property
    def x(self) -> Array:
        """All views, [draws, S, V, d]."""
        return dw.parts(self.world)[2]

    @cached_property
    def K(self) -> torch.Tensor:
        """K_l of all views by the library, [draws, S, V, w, k]."""
        seen = cn.trace(ref.tensors(*self.net), self.world.points)
        return self.world.shaped(cn.connection(seen, self.number), 2)

    @cached_property
    def between(self) -> torch.Tensor:
        """V_x[Kbar_l], the operator of Theorem 3, [draws, w, w]."""
        return co.between(self.K, self.world)

    @cached_property
    def within(self) -> torch.Tensor:
        """E_x[V_aug[K_l]], [draws, w, w]."""
        return co.within(self.K, self.world)

    def times(self, operator: Array | torch.Tensor) -> Array:
        """operator vec(W_l), [draws, w]."""
        w = dw.vec(self.net[self.number - 1])
        return np.einsum("bij,bj->bi", np.asarray(operator), w)


def descent(at: Layer, loss: dw.Case | Objective, tied: bool = False, unit: bool = False) -> Array:
    """-dE/dvec(W_l), [draws, w], by complex steps in the first tower, or in both (`tied`).

    loss: of one negative, or of the outputs of both towers (near, far). unit: outputs over their
    norms.
    """
    if isinstance(loss, dw.Case):
        loss = partial(dw.mean_loss, loss.page, w=at.world)
    return -dw.vec(dw.gradient(loss, at.net, at.number, at.x, tied, unit))


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


# --------------------------------------------------------------------------------------- operators


def pair_weights(at: Layer, case: dw.Case) -> Array:
    """xi(x, x'') at the samples themselves, [draws, S, S], from the page's formula."""
    f = dw.output(at.net, dw.parts(at.world)[0])[:, :, 0]
    return case.weight(dw.half(f[:, :, None], f[:, None]))


def weighted(at: Layer, xi: Array | torch.Tensor) -> torch.Tensor:
    """V^xi[Kbar_l(x) - Kbar_l(x')] / 2 by the library, [draws, w, w]; xi [draws, S, S]."""
    return co.pair_operator(co.view_mean(at.K, at.world), torch.as_tensor(xi), at.world)


def pulls(at: Layer, case: dw.Case, negatives: int = 1) -> torch.Tensor:
    """dE[loss]/dr(u, v) of all pairs of views, by the library at numpy's outputs."""
    return co.pulls(case.ours, torch.from_numpy(dw.output(at.net, at.x)), at.world, negatives)


def operator(at: Layer, case: dw.Case, negatives: int = 1, tied: bool = False) -> torch.Tensor:
    """The exact operator of a loss, of one tower or of both, by the library, [draws, w, w]."""
    K = at.K.flatten(1, 2)
    return co.operator(K, K, pulls(at, case, negatives), tied=tied)


def residue(at: Layer, case: dw.Case, xi: Array | torch.Tensor) -> torch.Tensor:
    """theta of Theorem 4 by the library, for pair weights xi [draws, S, S]."""
    return co.residue(at.K, pulls(at, case), torch.as_tensor(xi), at.world)


def skew(A: torch.Tensor) -> Array:
    """|A - A^T| / |A|, [draws]."""
    return (torch.linalg.matrix_norm(A - A.mT) / torch.linalg.matrix_norm(A)).numpy()
