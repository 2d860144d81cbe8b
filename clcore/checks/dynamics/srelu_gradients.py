"""Checks of ncl App. C.3's gradients: as printed, as d grows, and along trajectories."""

from functools import partial

import numpy as np
import sympy

from clcore import reference as ref
from clcore.checks.dynamics import srelu_symbols as sym
from clcore.checks.dynamics.srelu import brute, law, products, signed, subsets
from clcore.checks.dynamics.srelu_push import push
from clcore.checks.dynamics.srelu_starts import Warm, at_the_limit, beyond, warm, wide
from clcore.ledger import Trial, check, exact, typical, worst
from clcore.reference import Array, tensors
from clcore.theory.sparse import srelu_dynamics as sd


def _noisy_slopes(w: Warm, size: float) -> Array:
    """Gradients of Eq. 13, [draws, d, d], with noise of +-size in every entry of a sample."""
    z, D = signed(3), subsets(3)
    x = (z[:, None] + size * (2 * D - 1)).reshape(-1, 3)

    def loss(net: Array, r: int) -> Array:
        mass = np.repeat(law(z, w.kappa[r] / 2, 1 - w.kappa[r]), len(D)) / len(D)
        keep, biases = law(D, w.alpha[r], 1 - w.alpha[r]), (w.b_online[r], w.b_target[r])
        return 2 - 2 * products(net, w.target[r], biases, x, mass, D, keep).sum(-1)

    rows = range(len(w.online))
    return np.concatenate([ref.gradient(partial(loss, r=r), w.online[r][None]) for r in rows])


@check("ncl/thm3-grad")
def thm3_grad(t: Trial) -> None:
    """Gradients of the symmetric-ReLU loss near the warm start (App. C.3).

    Given   warm starts, d = 3, the enumerated Eq. 13 without noise, whose second order App. C.3
            drops; alpha is the chance that a mask keeps a coordinate, kappa that z_i != 0.
    Claim   dL/dW^o_ii = -2 alpha^2 kappa (1 + Delta^t_ii - b^t_i) and dL/dW^o_ij = -2 (alpha^2
            kappa)^2 Delta^t_ij: this and the library's against complex steps.
    Fails   with alpha kappa for one alpha^2 kappa off the diagonal, without b^t, with Delta^o and
            b^o, and for noise that is kept.
    """
    count = min(t.draws, 15)
    w = warm(t.rng, count, 3, 0.3)
    online, target, b_online, b_target, alpha, kappa = tensors(*w)
    ours = sd.simplified_slope(alpha, kappa)(target, b_target)(online, b_online).numpy()
    slopes = np.concatenate(
        [
            ref.gradient(lambda net, r=r: 2 - 2 * brute(w, r, net).sum(-1), w.online[r][None])
            for r in range(count)
        ]
    )
    scale, eye = (w.alpha**2 * w.kappa)[:, None, None], np.eye(3)

    def gap(net: Array, b: Array, inside: Array) -> Array:
        """Of the printed gradient, with this factor off the diagonal, from the exact one."""
        own = np.einsum("rii->ri", net) - b
        printed = -2 * scale * (own[:, None] * eye + inside * net * (1 - eye))
        return ref.absolute(printed, slopes)

    part = t.part("", 1e-14, controls=typical, draws=count)
    part.add(gap(w.target, w.b_target, scale), np.abs(ours - slopes))
    thinner = (w.alpha * w.kappa)[:, None, None]
    part.breaks("alpha kappa", gap(w.target, w.b_target, thinner))
    part.breaks("no bias", gap(w.target, 0 * w.b_target, scale))
    part.breaks("the other net", gap(w.online, w.b_online, scale))

    # The same difference where the exact loss has noise; biases that exceed it.
    bias = np.full((2, 3), 0.4)
    few = Warm(*(value[:2] for value in w))._replace(b_online=bias, b_target=bias)
    own = np.einsum("rii->ri", few.target) - few.b_target
    front = scale[:2]
    printed = -2 * front * (own[:, None] * eye + front * few.target * (1 - eye))
    part.breaks("noise of +-0.05 kept", ref.absolute(printed, _noisy_slopes(few, 0.05)))
    pair, factor = sym.nets(), sym.ALPHA**2 * sym.KAPPA
    enumerated = sym.loss(pair)

    def formula(inside: sympy.Expr) -> exact.Shown:
        by = [sympy.diff(enumerated, v) for v in pair[0].delta]
        own, cross = 1 + pair[1].delta[0, 0] - pair[1].b[0], inside * pair[1].delta[0, 1]
        return exact.equal(by[:2], [-2 * factor * own, -2 * factor * cross])

    part.proves(
        formula(factor),
        breaks={"alpha kappa": formula(sym.ALPHA * sym.KAPPA)},
        at="d = 2, signs as in ncl/thm3-region",
    )


def even(rng: np.random.Generator, d: int, error: float, b: float) -> tuple[Array, Array]:
    """I + Delta with all |Delta_ij| = error, and d equal biases."""
    return np.eye(d) + error * np.where(rng.random((d, d)) < 0.5, -1.0, 1.0), np.full(d, b)


def simple(net: tuple[Array, Array], alpha: float, kappa: float) -> Array:
    """The simplified push on a net (W, b), held the same, [d, d]."""
    at, chances = tensors(*net), tensors(np.full(1, alpha), np.full(1, kappa))
    return -sd.simplified_slope(*chances)(*at)(*at)[0].numpy()


def inside(nets: list[tuple[Array, Array]]) -> float:
    """1, but NaN, which never passes, where a pre-activation may be in the wrong region."""
    return 1.0 if all(bool(sd.separated(*tensors(*net)).all()) for net in nets) else np.nan


def powers(nets: list[tuple[Array, Array]], alpha: float, kappa: float) -> tuple[float, ...]:
    """Powers of d of: the diagonal's deviation from -2 alpha^2 kappa; d times the rest."""
    sizes = [len(b) for _, b in nets]
    diagonal, rest = [], []
    for d, net in zip(sizes, nets, strict=True):
        unit = simple(net, alpha, kappa) / (2 * alpha**2 * kappa)
        diagonal.append(np.abs(np.diag(unit) - 1).max())
        rest.append(d * np.abs(unit - np.diag(np.diag(unit))).max())
    return tuple(float(np.polyfit(np.log(sizes), np.log(v), 1)[0]) for v in (diagonal, rest))


@check("ncl/thm3-gradas")
def thm3_gradas(t: Trial) -> None:
    """Size of the gradients near the warm start, which updates preserve (App. C.3).

    Given   W = I + Delta, |Delta_ij| = d^(-7/4), b = d^(-1/2), d up to 128; for (1) d = 4, 5, 6;
            for (4) Theorem 3's loop from warm starts, d = 4, b < (1 - alpha^2 kappa) W_ii, also
            just below it with Delta_ii > 0; alpha is the chance that a mask keeps a coordinate,
            kappa that z_i != 0.
    Claim   (1) The simplified gradient is the exact one. (2) The deviation of its diagonal from -2
            alpha^2 kappa vanishes as a power of d, and (3) so does d times its entries off the
            diagonal: they are o(1/d). (4) Errors never grow along the loop: the start stays warm.
    Fails   (1) for crosstalk above b; (2) for a bias that stays; (3) for errors of order 1/d; (4)
            up the loss, not normalised, biases above 1 - alpha^2 kappa or a fifth above the limit.
    """
    alpha, kappa = t.rng.uniform(0.3, 0.95), t.rng.uniform(0.1, 0.9)

    def nets(sizes: tuple[int, ...], error: float, bias: float, factor: float = 1.0) -> list:
        return [even(t.rng, d, d**error, factor * d**bias) for d in sizes]

    def gap(net: tuple[Array, Array]) -> float:
        """Of the exact gradient from the simplified one, entry by entry."""
        return np.abs(push(*net, *net, alpha, kappa) / simple(net, alpha, kappa) - 1).max()

    # (1) Simplified against exact, all latents and masks.
    few = nets((4, 5, 6), -1.75, -0.5)
    against = t.part("against the exact gradient", 1e-11, controls=worst)
    against.add(*(inside(few) * gap(net) for net in few))
    against.breaks("crosstalk above b", *(gap(net) for net in nets((4, 5, 6), -1.5, -0.5, 0.5)))

    # (2), (3) Fitted powers of d: at most -0.4.
    sizes = (8, 16, 32, 64, 128)
    many = nets(sizes, -1.75, -0.5)
    small = inside(many) * np.array(powers(many, alpha, kappa))
    diagonal = t.part("diagonal", -0.4, draws=len(many)).add(small[0])
    diagonal.breaks("a bias that stays", powers(nets(sizes, -1.75, 0.0, 0.5), alpha, kappa)[0])
    off = t.part("off the diagonal", -0.4, draws=len(many)).add(small[1])
    off.breaks("errors of order 1/d", powers(nets(sizes, -1.0, -0.5), alpha, kappa)[1])

    # (4) The most that errors have grown, over what (see `grown`) they may: at most 1.
    count = min(t.draws, 30)
    w = warm(t.rng, count, 4, 0.3)
    stays = t.part("the warm start stays", 1 + 1e-12, controls=typical)
    stays.add(grown(w), grown(wide(t.rng, count, 4, 0.9)))
    stays.breaks("up the loss", grown(w, pace=-0.4))
    stays.breaks("not normalised", grown(w, normalise=False))
    high = grown(beyond(t.rng, count, 4))
    stays.breaks("b above 1 - alpha^2 kappa", high).says(high=np.median(high))

    def limit(over: float) -> Array:
        """Delta_ii > 0, each bias that many times (1 - alpha^2 kappa) W_ii, rows of norm 1."""
        return grown(at_the_limit(t.stream("at the limit"), count, 4, over))

    stays.add(limit(0.999)).breaks("a fifth above $(1-\\alpha^2\\kappa)W_{ii}$", limit(1.2))


def grown(w: Warm, pace: float = 1.0, normalise: bool = True) -> Array:
    """[draws]: the most that errors grow in 24 half-rounds of one step, over the allowance; d = 4.
    pace: times the step 1 / (2 alpha^2 kappa); below 0 up the loss.

    With the least diagonal m <= 1 at the start and the largest |W_ij| of both nets there, r / m is
    allowed to |W_ij|, three times its square to |1 - W_ii|. 10 where a region changes.
    """
    *start, alpha, kappa = tensors(*w)
    slope = sd.exact_slope(sd.views(*sd.latents(kappa, 4), alpha))
    eta = pace / (2 * alpha**2 * kappa)
    path = sd.alternate(*start, slope, eta, 12, 1, normalise).numpy()
    errors = np.abs(path - np.eye(4))
    rest = (errors * (1 - np.eye(4))).max((1, -1, -2))
    # The first normalisation divides by a diagonal that may be below one.
    least = np.minimum(np.einsum("tnrii->tnri", path)[0].min((0, -1)), 1.0)
    moved = (errors[2:] * np.eye(4)).max((0, 1, -1, -2))  # from when both nets have unit rows
    own = moved / (3 * (rest[0] / least) ** 2)
    outside = ~np.stack(
        [
            sd.separated(*tensors(path[:, k], np.broadcast_to(b, path[:, k].shape[:-1]))).numpy()
            for k, b in ((0, w.b_online), (1, w.b_target))
        ]
    )
    grows = np.maximum(rest.max(0) / rest[0] * least, own)
    return np.maximum(grows, 10.0 * outside.any((0, 1, -1)))
