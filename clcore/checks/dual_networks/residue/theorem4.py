"""Theorem 4 of ddn: the weighted covariance operator, its residue, and the bound of Eq. 79.

theta is computed from its definition by loops over samples and views. For its order and its bound
it is the library's, the exact operator minus the weighted covariance. Bounds meet random worlds and
worlds that hill climbing has made bad.
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain, product

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.layers import Layer, descent, pair_weights, residue, weighted
from clcore.checks.dual_networks.residue.proof4 import summed
from clcore.checks.dual_networks.residue.weights import CASES
from clcore.ledger import Trial, check, pooled, typical
from clcore.reference import Array, relative
from clcore.theory.operator import connection as cn
from clcore.theory.operator import covariance_operator as co

STRENGTHS = 2.0 ** -np.arange(-1, 13, 4)


def theta_by_loops(at: Layer, case: dw.Case) -> Array:
    """E[(F - xi) K_1 (K_+ - K_-)^T], [draws, w, w], from the definitions."""
    _, p, x, q = dw.parts(at.world)
    f, K = dw.output(at.net, x), dw.connection(at.net, at.number, x)
    xi = pair_weights(at, case)
    S, V = q.shape[1:]
    total = np.zeros((len(p), *2 * (K.shape[-2],)))
    for s, i, j, t, m in product(range(S), range(V), range(V), range(S), range(V)):
        plus, minus = dw.half(f[:, s, i], f[:, s, j]), dw.half(f[:, s, i], f[:, t, m])
        F = -ref.slope(lambda v, a=plus: case.page(a, v), minus)
        chance = p[:, s] * q[:, s, i] * q[:, s, j] * p[:, t] * q[:, t, m]
        outer = K[:, s, i] @ (K[:, s, j] - K[:, t, m]).swapaxes(-1, -2)
        total += (chance * (F - xi[:, s, t]))[:, None, None] * outer
    return total


class Measured:
    """theta of layer 1 in one world, and what Theorem 4 and Eq. 79 bound it by; [draws] each.

    theta, whole, size: the norms of theta and of the whole operator, and M_K. unit: M_K^2 times the
    slope of F. offset: c_0. cross, cross_offset: E[|f(x) - f(x'')| sigma(x)], and with c_0 for
    sigma. spread, square: E[sigma^2], E[c_0^2]. given: the arguments.
    """

    def __init__(self, net: list[Array], world: co.World, case: dw.Case, slope: float):
        self.given = net, world, case, slope
        x0, p, x, q = dw.parts(world)
        f, f0 = dw.output(net, x), dw.output(net, x0)[:, :, 0]
        K = world.shaped(cn.connection(cn.trace(ref.tensors(*net), world.points), 1), 2)
        xi = case.weight(dw.half(f0[:, :, None], f0[:, None]))
        pull = co.pulls(case.ours, torch.from_numpy(f), world)
        theta = co.residue(K, pull, torch.from_numpy(xi), world)
        flat = K.flatten(1, 2)
        self.theta = torch.linalg.matrix_norm(theta, 2).numpy()
        self.whole = torch.linalg.matrix_norm(co.operator(flat, flat, pull), 2).numpy()
        self.size = torch.linalg.matrix_norm(K, 2).flatten(1).max(1).values.numpy()
        self.unit = slope * self.size**2
        mean = (q[..., None] * f).sum(2)
        variance = (q * ((f - mean[:, :, None]) ** 2).sum(-1)).sum(-1)
        far = np.sqrt(((f0[:, :, None] - f0[:, None]) ** 2).sum(-1))
        self.sigma, self.offset = np.sqrt(variance), np.sqrt(((f0 - mean) ** 2).sum(-1))
        both = p[:, :, None] * p[:, None]
        pair = partial(np.einsum, "bst,bst,bs->b", both, far)
        self.cross, self.cross_offset = pair(self.sigma), pair(self.offset)
        self.spread, self.square = (p * variance).sum(-1), (p * self.offset**2).sum(-1)

    @property
    def excess(self) -> Array:
        """|theta| minus what rounding may leave of it."""
        return np.maximum(self.theta - 1e-13 * self.unit * self.size, 0)

    def over(self, offset: bool) -> Array:
        """|theta| over the order of Theorem 4, in units of M_K^2 times the slope of F."""
        return self.excess / self.unit / self.order(offset)

    def order(self, offset: bool) -> Array:
        """E[sqrt(r) sigma] + E[sigma^2], the order of Theorem 4; offset: with c_0, too."""
        total = self.cross / np.sqrt(2) + self.spread
        return total + (self.cross_offset / np.sqrt(2) + self.square if offset else 0.0)

    def bound(self, squares: float = 2.0, offset: float = 1.0) -> Array:
        """Eq. 79 with `squares` times E[c_0^2] added, 0 as printed; offset=0: no other c_0."""
        first = 2 * (self.cross + offset * self.cross_offset)
        return 2 * self.unit * (first + 3 * self.spread + squares * self.square)


def ratios_by_sums(net: list[Array], world: co.World, case: dw.Case, slope: float) -> Array:
    """|theta| of layer 1 over the printed order of Theorem 4, in units of M_K^2 times the slope,
    and over the printed bound of Eq. 79, [2, draws]; an excess within rounding does not count.

    By sums over x_1, x_+ and x_-; K_1 and F by complex steps, variances by pairs of views.
    """
    x0, p, x, q = dw.parts(world)
    f, f0, K = dw.output(net, x), dw.output(net, x0)[:, :, 0], dw.connection(net, 1, x)
    views, r = (dw.half(v[..., :, None, :], v[..., None, :, :]) for v in (f, f0))
    minus = dw.half(f[:, :, :, None, None], f[:, None, None])[:, :, :, None]
    ends = np.broadcast_arrays(views[..., None, None], minus), (0 * r, r)
    F, xi = (-ref.slope(partial(case.page, a), b) for a, b in ends)
    gap = F - xi[:, :, None, None, :, None]
    pull = np.einsum("bs,bsi,bsj,bt,btm,bsijtm->bsijtm", p, q, q, p, q, gap)
    theta = sum(
        sign * np.einsum(f"bsijtm,bsiwk,{other}vk->bwv", pull, K, K, optimize=True)
        for sign, other in ((1, "bsj"), (-1, "btm"))
    )
    size = np.linalg.norm(K, 2, (-2, -1)).max((1, 2))
    excess = np.maximum(np.linalg.norm(theta, 2, (1, 2)) / slope / size**2 - 1e-13 * size, 0)
    sigma = np.sqrt(variance := np.einsum("bsi,bsj,bsij->bs", q, q, views))
    offset = np.linalg.norm(f0 - np.einsum("bsi,bsik->bsk", q, f), axis=-1)
    pairs = partial(np.einsum, "bs,bt,bst,bs->b", p, p, np.sqrt(r))
    spread = (p * variance).sum(-1)
    bound = 4 * np.sqrt(2) * (pairs(sigma) + pairs(offset)) + 6 * spread
    return excess / np.maximum([pairs(sigma) + spread, bound], [[1e-300], [1e-9]])


def biased(rng: np.random.Generator, count: int, d: int, spread: float) -> co.World:
    """Views x + shift(x) + a little: a nearly deterministic augmentation that moves its sample."""
    world = dw.world(rng, count, d, "additive", spread)
    shift = torch.from_numpy(rng.standard_normal((count, 3, 1, d)))
    return co.World(world.samples, world.chances, world.views + shift, world.view_chances)


def alike(rng: np.random.Generator, count: int, d: int, kind: str, strength: float) -> co.World:
    """Samples drawn like their views (z' redrawn): three groups of three points, every point a
    sample, and the points of its group its views. Then E[c_0^2] = E[sigma_aug^2]."""
    base = dw.world(rng, count, d, kind, strength)
    each = partial(torch.repeat_interleave, repeats=base.view_chances.shape[-1], dim=1)
    chances = (base.chances[..., None] * base.view_chances).flatten(1)
    return co.World(base.views.flatten(1, 2), chances, each(base.views), each(base.view_chances))


def slope_of(name: str, tau: float) -> float:
    # what bounds the slope of F in the distances; its largest is a quarter of that
    return 1 / tau**2 if name == "InfoNCE" else 1 / tau


@check("ddn/thm4")
def thm4(t: Trial) -> None:
    """Soft triplet and InfoNCE: weighted covariance plus a residue (Theorem 4, Eqs. 5-6).

    Given   finite worlds, ReLU nets of 1..4 layers, InfoNCE (H = 1) and the soft triplet loss,
            tied weights, plain outputs, the first tower's gradient; for the order biased, masked,
            noisy views of falling strength, and samples drawn like their views.
    Claim   -gradient = (V^xi[Kbar(x) - Kbar(x')]/2 + theta) vec(W_l), theta by loops over samples
            and views; theta = 0 for L_simp; theta = O(E[sqrt(r) sigma_aug] + E[sigma_aug^2]): the
            ratio stays below 6 units of M_K^2 times the slope of F, M_K the largest norm of K_1.
            Its first term is needed: theta falls only like the strength of a mask.
    Fails   the operator without theta or without 1/2; theta = 0 for the other losses. The order as
            printed where views are biased (sigma_aug = 0, theta not). Corrected: c_0 = |f(x)
            - E_aug f| added; or c_0 = O(sigma_aug), as for samples drawn like their views.
            Controls: the whole operator; centred noise, under which theta falls like the square.
    """
    count = ref.share(min(t.draws, 120), 6)
    operator = t.part("operator", 1e-10, controls=pooled, draws=6 * count)
    none = t.part("L_simp has no residue", 1e-12, controls=pooled, draws=6 * count)
    for depth, name, tau in (
        (1, "InfoNCE", 0.5),
        (2, "InfoNCE", 1.0),
        (3, "InfoNCE", 0.5),
        (1, "triplet", 1.0),
        (2, "triplet", 0.5),
        (4, "triplet", 1.0),
    ):
        widths, case = dw.DEPTHS[depth], CASES[name](tau)
        world, weights = dw.world(t.rng, count, widths[0]), dw.weights(t.rng, count, widths)
        for at in (Layer(world, weights, number) for number in sorted({1, depth})):
            # -gradient = (V^xi[Kbar(x) - Kbar(x')]/2 + theta) vec(W_l).
            g, xi = descent(at, case), pair_weights(at, case)
            main, theta = weighted(at, xi).numpy(), theta_by_loops(at, case)
            operator.add(relative(at.times(main + theta), g, 1e-6))
            operator.breaks("no residue", relative(at.times(main), g, 1e-6))
            operator.breaks("no 1/2", relative(at.times(2 * main + theta), g, 1e-6))

            # theta = 0 for L_simp, and only for it.
            simple = residue(at, dw.simple(), np.ones_like(xi)).numpy()
            none.add(_largest(simple) / _largest(at.between.numpy()))
            none.breaks(name, _largest(theta) / (_largest(main) + _largest(theta)))
    _orders(t, ref.share(min(t.draws, 100), 4))


def _largest(A: Array) -> Array:
    """The largest entry of a matrix, [draws]."""
    return np.abs(A).max((1, 2))


def _series(
    t: Trial, count: int
) -> Iterator[tuple[float, int, dict[str, list[Measured]], list[Measured]]]:
    """For each loss, tau and depth: (tau, depth, Measured by kind of augmentation, at falling
    strengths, and with a bias; Measured of samples that are drawn like their views)."""
    for (name, make), tau, depth in product(CASES.items(), (0.2, 1.0), (1, 3)):
        weights, d = dw.weights(t.rng, count, dw.DEPTHS[depth]), dw.DEPTHS[depth][0]
        measured = partial(Measured, weights, case=make(tau), slope=slope_of(name, tau))
        series, same = {"biased": [measured(biased(t.rng, count, d, 1e-8))]}, []
        draw = int(t.rng.integers(2**40))
        for kind in co.KINDS:  # the same draws at every strength
            series[kind] = [
                measured(dw.world(np.random.default_rng(draw), count, d, kind, strength))
                for strength in STRENGTHS
            ]
            same += [measured(alike(t.rng, count, d, kind, s)) for s in STRENGTHS[:2]]
        yield tau, depth, series, same


def _orders(t: Trial, count: int) -> None:
    """theta over the printed order, and over the order with c_0; its exponent in the strength."""
    seen = list(_series(t, count))
    weakest = [series[kind][-1] for tau, _, series, _ in seen for kind in co.KINDS if tau >= 1]
    whole = [m.whole / m.unit / m.order(True) for m in weakest]

    # Unbiased views: the printed order.
    unbiased = t.part("residue, unbiased views", 6.0, controls=pooled)
    for _, depth, series, _ in seen:
        if depth == 1:
            unbiased.add(*(m.over(False) for m in series["additive"]))
    unbiased.breaks("the whole operator", *whole)

    # Samples drawn like their views: the printed order.
    drawn_alike = t.part("residue, samples drawn like their views", 6.0, controls=pooled)
    for *_, same in seen:
        drawn_alike.add(*(m.theta / m.unit / m.order(False) for m in same))
    drawn_alike.breaks("the whole operator", *whole)

    # Any augmentation: the printed order, which biased views exceed; the one with c_0.
    printed, mended = forms = t.both("residue, any augmentation", 6.0, controls=pooled)
    for _, _, series, _ in seen:
        for m in chain(*series.values()):
            printed.add(m.over(False)).fails_by(ratios_by_sums(*m.given)[0], within=1e-7)
            mended.add(m.over(True))
    forms.breaks("the whole operator", *whole)
    random = [m for _, _, series, _ in seen for kind in co.KINDS for m in series[kind]]
    printed.says(random=max(m.over(False).max() for m in random))

    # theta falls like the strength of a mask, and like its square where noise is centred.
    slow, fast = (
        np.concatenate([_exponent(*series[kind][-2:]) for _, _, series, _ in seen])
        for kind in ("mask", "additive")
    )
    rate = t.part("rate", 0.1, draws=len(slow)).add(abs(np.median(slow) - 1))
    rate.breaks("centred noise", abs(np.median(fast) - 1)).says(noise=np.median(fast))


def _exponent(before: Measured, after: Measured) -> Array:
    """The exponent of theta in the strength, between the two weakest."""
    fall = np.log(before.theta) - np.log(after.theta)
    return fall / np.log(STRENGTHS[-2] / STRENGTHS[-1])


# -------------------------------------------------------------------------------------- the bound


def _climb(rng: np.random.Generator, count: int, make, slope: float, printed: bool) -> Measured:
    """Worlds of two samples with two views that hill climbing has made bad for Eq. 79 as printed,
    or as corrected; make: the loss."""

    def measured(v: list[Array]) -> Measured:
        world = co.World(*ref.tensors(v[0], np.full((count, 2), 0.5)), *ref.tensors(v[1], half))
        return Measured(v[2:], world, make, slope)

    def ratio(m: Measured) -> Array:
        return m.theta / (m.bound(squares=0.0 if printed else 2.0) + 1e-6 * m.unit)

    half = np.full((count, 2, 2), 0.5)
    x = rng.standard_normal((count, 2, 2))
    views = x[:, :, None] + rng.standard_normal((count, 2, 1, 2))
    views = views + 0.3 * rng.standard_normal((count, 2, 2, 2))
    point = [x, views, *dw.weights(rng, count, (2, 2))]
    best = measured(point)
    for step in np.geomspace(1.0, 0.1, 12):
        near = [a + step * rng.standard_normal(a.shape) for a in point]
        trial = measured(near)
        better = ratio(trial) > ratio(best)
        point = [
            np.where(better.reshape(-1, *(1,) * (a.ndim - 1)), b, a)
            for a, b in zip(point, near, strict=True)
        ]
        best = measured(point)
    return best


def _measured(t: Trial, count: int, name: str, tau: float) -> tuple:
    """(random worlds, biased and climbed ones; weak augmentation; samples drawn like their views;
    the counterexample) at one temperature."""
    slope, case = slope_of(name, tau), CASES[name](tau)
    measured = partial(Measured, case=case, slope=slope)
    kinds = tuple(zip((1, 2, 3), co.KINDS, strict=True))
    kept, weak, same = [], [], []
    for depth, kind in kinds:
        weights, d = dw.weights(t.rng, count, dw.DEPTHS[depth]), dw.DEPTHS[depth][0]
        size = float(t.rng.uniform(0.05, 1.0))
        kept.append(measured(weights, dw.world(t.rng, count, d, kind, size)))
        kept.append(measured(weights, biased(t.rng, count, d, 1e-4)))
        weak.append(measured(weights, dw.world(t.rng, count, d, kind, 1e-5)))
    if tau in (0.2, 1.0):
        kept += [_climb(t.rng, count, case, slope, printed) for printed in (True, False)]
    for depth, kind in kinds:
        weights, d = dw.weights(t.rng, count, dw.DEPTHS[depth]), dw.DEPTHS[depth][0]
        same.append(measured(weights, alike(t.rng, count, d, kind, 1.0)))
    return kept, weak, same, _same_samples(t.rng, count, case, slope)


@check("ddn/eq79")
def eq79(t: Trial) -> None:
    """Bound on the residue of the covariance operator (Eq. 79).

    Given   finite worlds of samples and views, ReLU nets: random ones, biased views, worlds that
            hill climbing has made bad, the counterexample; InfoNCE and the soft triplet loss, tau
            in {0.1, 0.2, 0.5, 1, 5}.
    Claim   |theta|_2, the exact operator minus the weighted covariance, over the printed bound is
            at most 1 (for the triplet loss with 1/tau in place of 1/tau^2). Both are 0 without
            augmentation; as tau -> 0 the triplet's bound is very loose. Two steps of it: |K_1 (K_+
            - K_-)^T| <= 2 M_K^2, M_K the largest norm of K; Eqs. 74 and 78 add up to the braces.
    Fails   as printed where f(x) = f(x'') and the single views lie elsewhere. Corrected: 2 E[c_0^2]
            added in the braces; for samples drawn like their views as printed. Controls: no c_0 in
            the bound, the whole operator for theta, a little augmentation, tau = 1, M_K^2 for 2
            M_K^2, 2 for the 3 in the braces.
    """
    count = ref.share(min(t.draws, 120), 6)
    for name in CASES:
        like_views = t.part(f"{name}, samples drawn like their views", 1.0, controls=pooled)
        printed = t.part(name, 1.0, controls=pooled)
        mended = t.corrected(name, 1.0, controls=pooled)
        for tau in (0.1, 0.2, 0.5, 1.0, 5.0):
            worlds, weak, alikes, counterexample = _measured(t, count, name, tau)

            # Samples drawn like their views: |theta| over the printed bound.
            like_views.add(*(m.theta / m.bound(squares=0.0) for m in alikes))

            # Any world: over the printed bound, and over the one with 2 E[c_0^2] in the braces.
            for m in (*worlds, counterexample):
                printed.add(m.excess / np.maximum(m.bound(squares=0.0), 1e-9 * m.unit))
                printed.fails_by(ratios_by_sums(*m.given)[1], within=1e-7)
                mended.add(m.excess / m.bound())

            # The bound without c_0; the whole operator for theta, which stays at weak augmentation.
            if tau >= 1:
                bare = counterexample.bound(squares=0.0, offset=0.0)
                without = bare + 1e-9 * counterexample.unit
                for part in (like_views, printed, mended):
                    part.breaks("no c_0 at all", counterexample.theta / without)
                    part.breaks("the whole operator", *(m.whole / m.bound() for m in weak))
    _limits(t, count)
    summed(t)


def _same_samples(rng: np.random.Generator, count: int, case: dw.Case, slope: float) -> Measured:
    """The counterexample with a separate net: samples in the kernel of W, views off it."""
    w = np.zeros((count, 1, 2))
    w[..., 0] = rng.uniform(0.5, 1.0, (count, 1))
    x = np.zeros((count, 2, 2))
    x[:, :, 1] = np.array([1, -1])
    views = x[:, :, None].repeat(2, 2)
    views[:, :, :, 0] = np.array([1, -1])[:, None] * rng.uniform(0.2, 1.0, (count, 1, 1))
    even, half = np.full((count, 2), 0.5), np.full((count, 2, 2), 0.5)
    return Measured([w], co.World(*ref.tensors(x, even, views, half)), case, slope)


def _limits(t: Trial, count: int) -> None:
    """Without augmentation, and as tau -> 0."""
    none = t.part("no augmentation", 1e-7, controls=typical)
    for tau, (name, make) in product((0.2, 1.0), CASES.items()):
        weights = dw.weights(t.rng, count, dw.DEPTHS[3])
        off, on = (
            Measured(weights, dw.world(t.rng, count, 4, strength=c), make(tau), slope_of(name, tau))
            for c in (0.0, 0.05)
        )
        none.add((off.theta + off.bound()) / off.unit / off.size)
        none.breaks("a little augmentation", (on.theta + on.bound()) / on.unit / on.size)

    loose = t.part("triplet, tau to 0", 50.0, ">=", controls=typical)
    for tau in (1e-3, 1.0):
        weights = dw.weights(t.rng, count, dw.DEPTHS[2])
        world = dw.world(t.rng, count, 4, strength=0.5)
        m = Measured(weights, world, dw.triplet(1.0), 1 / tau)
        ratio = m.bound() / (2 * m.size**2)  # over the trivial bound, as |F - xi| <= 1
        loose.add(ratio) if tau < 1 else loose.breaks("tau = 1", ratio)
