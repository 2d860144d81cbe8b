"""Variance squashing, sharpened Jensen, and what they bound in a latent tree (ddn App. C.1, C.4).

Random variables are finite: atoms x and probabilities p, both [draws, m]; nets by enumeration.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.hltm import tree_reference as tr
from clcore.ledger import Check
from clcore.reference import Array, absolute, best, share, typical, worst
from clcore.theory.trees import latent_tree as lt
from clcore.theory.trees import tree_nets

Function = Callable[[Array], Array]
SEVERAL = (
    r"Two copies of a unit that is a function of $z_\nu$ ($\sigma_l=0$), only child latent $\nu$, "
    r"$|\mathcal N_\mu^{ch}|=2$, both $w=\sigma_w\sqrt{3/2}$: "
    r"$\mathbb V_z[\tilde f_j\mid z_\mu]=4w^2s_k^2(1-\rho_{\mu\nu}^2)"
    r"=6\sigma_w^2s_k^2(1-\rho_{\mu\nu}^2)$; the sum of Eq. 155 and the bound are half of it."
)
LONE = (
    "With one unit a latent, as at the pixels, Eqs. 155-159 hold; Eq. 155 also holds on average "
    "over w."
)
BY_LATENT = (
    r"Units of one latent are not independent given $z_\mu$: sum over latents instead, "
    r"$\mathbb V_z[\tilde f_j\mid z_\mu]=\sum_\nu\mathbf w_{j\nu}^\top"
    r"\mathbb V_z[\mathbf f_{\mathcal N_\nu}\mid z_\mu]\mathbf w_{j\nu}$."
)
PER_LATENT = (
    r"Each child's term counts $|\mathcal N_{\nu(k)}|$ times, as often as its latent has units: "
    r"$3\sigma_w^2\frac1{|\mathcal N_\mu^{ch}|}\sum_k|\mathcal N_{\nu(k)}|\,(\sigma_l^2+"
    r"s_k^2(1-\rho_{\mu\nu}^2))$ (under the root, in Eq. 163). With one unit a latent it is the "
    "printed bound."
)


# ------------------------------------------------------------------------- random finite variables


def _variables(rng: np.random.Generator, draws: int) -> list[tuple[Array, Array]]:
    """(x, p): generic, heavy-tailed, near a kink at 0, and two atoms."""
    out = []
    for m in (2, 3, 8, 50):
        p = ref.normalised(rng.exponential(size=(draws, m)) + 1e-9)
        x = rng.standard_normal((draws, m))
        out += [(x, p), (np.clip(rng.standard_cauchy((draws, m)), -1e4, 1e4), p), (1e-3 * x, p)]
    rare = 10.0 ** -rng.uniform(0.3, 8, draws)
    two = np.stack([rare, 1 - rare], -1)
    out.append((np.stack([rng.uniform(0.5, 2, draws) / rare, -np.ones(draws)], -1), two))
    half = np.full((draws, 2), 0.5)
    return [*out, (np.stack([np.ones(draws), -np.ones(draws)], -1), half)]


def _mean(p: Array, f: Array) -> Array:
    return (p * f).sum(-1)


def _variance(p: Array, f: Array) -> Array:
    return _mean(p, (f - _mean(p, f)[:, None]) ** 2)


def _piecewise(rng: np.random.Generator, draws: int) -> tuple[Function, Array]:
    """A random continuous function with ten kinks, and its Lipschitz constant [draws]."""
    kinks = np.sort(rng.standard_normal((draws, 10)), -1)
    slopes = rng.uniform(-2, 2, (draws, 11))

    def phi(x: Array) -> Array:
        beyond = np.maximum(x[:, :, None] - kinks[:, None], 0)
        return slopes[:, :1] * x + (beyond * np.diff(slopes, axis=-1)[:, None]).sum(-1)

    return phi, np.abs(slopes).max(-1)


def _functions(rng: np.random.Generator, draws: int) -> list[tuple[Function, Array]]:
    """Lipschitz functions with their constants: piecewise linear, ReLU, leaky, tanh, affine."""
    one = np.ones(draws)
    slope = rng.uniform(1.5, 3, draws)
    return [
        _piecewise(rng, draws),
        (lambda x: np.maximum(x, 0), one),
        (lambda x: np.where(x > 0, x, 0.05 * x), one),
        (np.tanh, one),
        (lambda x: 3 - slope[:, None] * x, slope),
    ]


def lem3(draws: int, seed: int) -> Iterator[Check]:
    """V[phi] / (L^2 V[x]) <= 1, with equality for affine phi. Controls: L for L^2, a jump."""
    check, rng = partial(Check, "ddn/lem3"), ref.generator("lem3 tree", seed)
    ratios, affine, jump, linear = [], [], [], []
    for x, p in _variables(rng, draws):
        spread = _variance(p, x)
        for phi, L in _functions(rng, draws):
            ratios.append(_variance(p, phi(x)) / (L**2 * spread))
        affine.append(np.abs(ratios[-1] - 1))
        linear.append(ratios[-1] * L)
        jump.append(_variance(p, x + 3 * np.std(x) * (x > _mean(p, x)[:, None])) / spread)
    yield check(
        worst(*ratios),
        1 + 1e-9,
        {"L in place of L^2": best(*linear), "a jump": typical(*jump)},
        draws=draws * len(ratios),
        part="bound",
        note="Affine functions reach it.",
    )
    yield check(
        worst(*affine),
        1e-9,
        {"ReLU": typical(np.concatenate([np.abs(r - 1) for r in ratios[1::5]]))},
        draws=draws * len(affine),
        part="tight",
    )


def eq88(draws: int, seed: int) -> Iterator[Check]:
    """Each member of the chain as a sum over pairs, against 2 V. Controls: y = x, not centred."""
    check, rng = partial(Check, "ddn/eq88"), ref.generator("eq88 tree", seed)
    second, others, dependent, meant, uncentred = [], [], [], [], []
    for x, p in _variables(rng, min(draws, 60)):
        for phi, _ in _functions(rng, len(x)):
            f = phi(x)
            pair = p[:, :, None] * p[:, None, :]
            mu = _mean(p, f)[:, None]
            c = f - mu
            twice = 2 * _variance(p, f)
            scale = np.maximum(twice, 1e-300)

            def error(member: Array, twice: Array = twice, scale: Array = scale) -> Array:
                return np.abs(member - twice) / scale

            cross = (pair * c[:, :, None] * c[:, None, :]).sum((1, 2))
            first = (pair * np.abs(f[:, :, None] - f[:, None, :]) ** 2).sum((1, 2))
            gap = (pair * np.abs(c[:, :, None] - c[:, None, :]) ** 2).sum((1, 2))
            third = (pair * (c[:, :, None] ** 2 + c[:, None, :] ** 2)).sum((1, 2)) - 2 * cross
            use = twice > 1e-12 * (1 + mu[:, 0] ** 2)  # phi not constant on the atoms
            for member, out in (
                (first, others),
                (third, others),
                (gap / 2, second),
                (gap, meant),
                (third - 2 * _mean(p, c**2), dependent),
                (2 * _mean(p, f**2), uncentred),
            ):
                out.append(error(member)[use])
    pool = np.concatenate
    control = {
        "x and y the same draw": float(np.median(pool(dependent))),
        "not centred": float(np.median(pool(uncentred))),
    }
    tag = {"draws": sum(len(e) for e in others) // 2}
    yield check(float(pool(others).max()), 1e-8, control, part="first, third, last member", **tag)
    yield check(
        float(pool(meant).max()),
        1e-8,
        {"as typeset, with 1/2": float(pool(second).max()), **control},
        part="second member",
        misprint=r"$\frac12\mathbb E|(\phi(x)-\mu_\phi)-(\phi(y)-\mu_\phi)|^2$ -> without "
        r"$\frac12$",
        note=r"Eq. 89 uses the first and the last member only. Of $\phi(x)=x$, $x=\pm1$ with "
        r"probability $1/2$ each, the members are as typeset $2,1,2,2$.",
        **tag,
    )


def _curves(low: Array, high: Array) -> dict[str, tuple[Function, Array, Array, Function]]:
    """phi, inf and sup of phi'' on [low, high], and phi'' itself."""

    def softplus(x: Array) -> Array:
        s = 1 / (1 + np.exp(-x))
        return s * (1 - s)

    inside = (low < 0) & (high > 0)
    fourth = 12 * np.stack([low**2, high**2])
    bump = np.stack([softplus(low), softplus(high)])
    # -sin on [-2, 2] falls on [-pi/2, pi/2] and rises outside.
    ends = -np.sin(np.stack([low, high]))
    return {
        "exp": (np.exp, np.exp(low), np.exp(high), np.exp),
        "x^4": (
            lambda x: x**4,
            np.where(inside, 0, fourth.min(0)),
            fourth.max(0),
            lambda x: 12 * x**2,
        ),
        "softplus": (
            lambda x: np.log1p(np.exp(x)),
            bump.min(0),
            np.where(inside, 0.25, bump.max(0)),
            softplus,
        ),
        "sin": (
            np.sin,
            np.where((low < np.pi / 2) & (high > np.pi / 2), -1, ends.min(0)),
            np.where((low < -np.pi / 2) & (high > -np.pi / 2), 1, ends.max(0)),
            lambda x: -np.sin(x),
        ),
    }


def lem4(draws: int, seed: int) -> Iterator[Check]:
    """E[phi] - phi(E) between V inf phi'' / 2 and V sup phi'' / 2, inf and sup on the atoms' hull.

    Controls: 1 for 1/2; phi'' at the mean for its bounds. Quadratics: equality.
    """
    check, rng = partial(Check, "ddn/lem4"), ref.generator("lem4 tree", seed)
    excess, whole, middle, room, quadratic, no_half = [], [], [], [], [], []
    for m in (2, 3, 10):
        for width in (4.0, 0.4):
            p = ref.normalised(rng.exponential(size=(draws, m)))
            centre = rng.uniform(-2 + width / 2, 2 - width / 2, (draws, 1))
            x = centre + width * (rng.random((draws, m)) - 0.5)
            V, mean = _variance(p, x), _mean(p, x)
            for phi, low, high, curve in _curves(x.min(-1), x.max(-1)).values():
                gap = _mean(p, phi(x)) - phi(mean)
                excess.append(np.maximum(V * low / 2 - gap, gap - V * high / 2))
                whole.append(np.maximum(V * low - gap, gap - V * high))
                middle.append(np.abs(gap - V * curve(mean) / 2))
                room.append((gap - V * low / 2) / np.maximum(V * (high - low) / 2, 1e-12))
            a, b = rng.standard_normal((2, draws, 1))
            gap = _mean(p, a * x**2 + b * x) - (a * mean[:, None] ** 2 + b * mean[:, None])[:, 0]
            quadratic.append(np.abs(gap - V * a[:, 0]))
            no_half.append(np.abs(gap - 2 * V * a[:, 0]))
    pool = np.concatenate
    yield check(
        worst(*excess),
        1e-13,
        {"1 for 1/2": worst(*whole), "phi'' at the mean": float(np.median(pool(middle)))},
        draws=draws * len(excess),
        part="bounds",
        note=f"The gap lies {float(np.median(pool(room))):.2f} of the way up (median).",
    )
    yield check(
        worst(*quadratic),
        1e-13,
        {"1 for 1/2": float(np.median(pool(no_half)))},
        draws=draws * len(quadratic),
        part="quadratics: equality",
    )


def lem5(draws: int, seed: int) -> Iterator[Check]:
    """0 <= E[psi] - psi(E) <= sd, with the pointwise step of Eqs. 92-93; over the sd of x.

    Controls: the bound 0.49 sd; a concave function; a bound without the square root.
    """
    check, rng = partial(Check, "ddn/lem5"), ref.generator("lem5 tree", seed)
    below, above, concave, half, bare, steps, steep = ([] for _ in range(7))
    for x, p in _variables(rng, draws):
        for shift in (0.0, 0.5, -0.5):
            y = x - _mean(p, x)[:, None] + shift * np.sqrt(_variance(p, x))[:, None]
            mu, sd = _mean(p, y), np.sqrt(_variance(p, y))
            gap = (_mean(p, np.maximum(y, 0)) - np.maximum(mu, 0)) / sd
            below.append(-gap)
            above.append(gap)
            concave.append(-(_mean(p, np.minimum(y, 0)) - np.minimum(mu, 0)) / sd)
            half.append(gap - 0.49)
            bare.append(gap - sd)
            for slope, out in ((1.0, steps), (1.5, steep)):
                rise = slope * (np.maximum(y, 0) - np.maximum(mu, 0)[:, None])
                out.append(((rise - np.abs(y - mu[:, None])) / sd[:, None]).max(-1))
    total = draws * len(above)
    yield check(
        worst(*below), 1e-9, {"a concave function": worst(*concave)}, draws=total, part="at least 0"
    )
    yield check(
        worst(*(g - 1 for g in above)),
        1e-9,
        {"0.49 sd": worst(*half), "V in place of sd": worst(*bare)},
        draws=total,
        part="at most the standard deviation",
        note=f"Largest gap found: {worst(*above):.4f} sd. It is 1/2 for two equal atoms, and never "
        "more, so the bound is twice too large.",
    )
    yield check(worst(*steps), 1e-9, {"slope 1.5": worst(*steep)}, draws=total, part="Eqs. 92, 93")


def eq94(draws: int, seed: int) -> Iterator[Check]:
    """Mean absolute deviation, Cauchy-Schwarz and the standard deviation, member by member.

    Any mass of p in the first inequality. Controls: the factor of the mass left out; the squared
    mean root for the root of the mean square; mass 2 in the last member. Two equal atoms: tight.
    """
    check, rng = partial(Check, "ddn/eq94"), ref.generator("eq94 tree", seed)
    ratio, equal, heavy, tight, massless, roots = [], [], [], [], [], []
    for x, p in _variables(rng, draws):
        mu, sd = _mean(p, x)[:, None], np.sqrt(_variance(p, x))
        for mass in (1.0, 2.0):
            first = _mean(mass * p, np.abs(x - mu))
            middle = np.sqrt(_mean(mass * p, (x - mu) ** 2)) * np.sqrt((mass * p).sum(-1))
            (equal if mass == 1 else heavy).append(np.abs(middle / sd - 1))
            ratio.append(first / middle)
        massless.append(first / np.sqrt(_mean(mass * p, (x - mu) ** 2)))
        roots.append(_mean(p, np.abs(x - mu)) / _mean(p, np.sqrt(np.abs(x - mu))) ** 2)
        tight.append(ratio[-2])
    yield check(
        worst(*ratio),
        1 + 1e-9,
        {
            "mass 2, its factor left out": worst(*massless),
            "squared mean root": worst(*roots),
        },
        draws=draws * len(equal),
        part="Cauchy-Schwarz",
        note=f"Two equal atoms: ratio {worst(tight[-1]):.3f}.",
    )
    yield check(
        worst(*equal), 1e-9, {"mass 2": best(*heavy)}, draws=draws * len(equal), part="last member"
    )


# ------------------------------------------------------------------------------ bounds in the tree


def _adversarial(first: int, second: int, rho: float = 0.3) -> tr.World:
    """A root with two children, each above one leaf; their units, `first` and `second` many, are
    copies of one another, and one unit above adds the first group and takes away the second, with
    the largest weights: negative mean (of equal groups), large variance."""
    tree = lt.tree((-1, 0, 0, 1, 2))
    rates = torch.tensor([[rho, rho - 0.01, 1.0, 1.0]], dtype=torch.float64)
    one, two = (torch.ones(1, n, 1, dtype=torch.float64) for n in (first, second))
    top = torch.cat([one.mT, -two.mT], -1) * (3 / (first + second)) ** 0.5
    return tr.explore(lt.binary(tree, rates, 0.2), {0: top, 1: one, 2: two})


def _worlds(rng: np.random.Generator, count: int, several: bool) -> list[tr.World]:
    """Nets with one unit a latent, or with several; sigma_w = 1 everywhere."""
    if not several:
        return tr.worlds(rng, count, 1)
    built = [_adversarial(*copies) for copies in ((2, 2), (3, 3), (10, 10), (10, 2), (1, 6))]
    return built + tr.worlds(rng, count, 3)


def _bound(w: tr.World, mu: int) -> tuple[Array, Array]:
    """The right side of Eq. 158 for sigma_w = 1, [draws], and with every child's term as often as
    its latent has units."""
    s, _, rho = tr.selective(w, mu)
    sizes = [w.out[i].shape[-1] for i in tr.below(w, mu)]
    inner_ = [tr.spread(w, i, w.out[i]).diagonal(axis1=-2, axis2=-1) for i in tr.below(w, mu)]
    sigma = np.concatenate([v.max(1) for v in inner_], -1).max(-1)
    each = sigma[:, None] + s**2 * (1 - rho**2)
    return 3 * each.mean(-1), 3 * (np.repeat(sizes, sizes) * each).mean(-1)


def eq158(draws: int, seed: int) -> Iterator[Check]:
    """Variance of pre-activations given z_mu: the sum, the binomial, both bounds; by enumeration.

    One unit a latent, then several. Controls: sigma_w^2 for 3 sigma_w^2, covariances that count
    for nothing or twice, the binomial without its square.
    """
    check, rng = partial(Check, "ddn/eq158"), ref.generator("eq158 tree", seed)
    count = min(share(draws, 4), 12)
    binomial, raw = [], []
    for several in (False, True):
        name = "several units a latent" if several else "one unit a latent"
        plain, blocks, twice, over, factor, third = ([] for _ in range(6))
        worlds = _worlds(rng, count, several)
        for w in worlds:
            for mu in tr.inner(w):
                weights = w.weights[mu].numpy()
                exact = tr.spread(w, mu, w.pre[mu]).diagonal(axis1=-2, axis2=-1)
                each = tr.spread(w, mu, tr.fed(w, mu)).diagonal(axis1=-2, axis2=-1)
                _, spread = tree_nets.children_moments(w.model, w.groups, mu)
                full = np.einsum("djk,dckl,djl->dcj", weights, spread.numpy(), weights)
                summed = np.einsum("djk,dck->dcj", weights**2, each)
                plain.append(absolute(summed, exact))
                blocks.append(absolute(full, exact))
                twice.append(absolute(2 * summed, exact))
                limit, wider = _bound(w, mu)
                variances = exact, tr.spread(w, mu, w.out[mu]).diagonal(axis1=-2, axis2=-1)
                for V in variances:
                    over.append((V - limit[:, None, None]).reshape(len(V), -1).max(-1))
                    factor.append((V - wider[:, None, None]).reshape(len(V), -1).max(-1))
                    third.append((V - limit[:, None, None] / 6).reshape(len(V), -1).max(-1))
                if not several:
                    _binomial(w, mu, binomial, raw)
        total = sum(len(w.chance) for w in worlds)
        note = LONE if several else ""
        tag = {"part": f"Eq. 155, {name}", "draws": total, "note": note}
        control = {"variances doubled": typical(np.concatenate(twice))}
        bounds = {"part": f"Eqs. 158, 159, {name}", "draws": total, "note": note}
        sixth = {"a sixth of the bound": worst(*third)}
        if not several:
            yield check(worst(*plain, *blocks), 1e-13, control, **tag)
            yield check(worst(*over), 1e-13, sixth, **bounds)
            continue
        yield check(worst(*plain), 1e-13, control, counterexample=SEVERAL, **tag)
        yield check(worst(*blocks), 1e-13, control, form="corrected", correction=BY_LATENT, **tag)
        yield check(worst(*over), 1e-13, sixth, counterexample=SEVERAL, **bounds)
        yield check(worst(*factor), 1e-13, sixth, form="corrected", correction=PER_LATENT, **bounds)
    yield check(
        worst(*binomial),
        1e-13,
        {"1 - rho": typical(np.concatenate(raw))},
        draws=4 * count,
        part="variance of two values",
    )


def _binomial(w: tr.World, mu: int, found: list[Array], raw: list[Array]) -> None:
    """V_{z_nu | z_mu}[v_k(z_nu)] against s_k^2 (1 - rho^2)."""
    s, _, rho = tr.selective(w, mu)
    means = []
    for child in tr.below(w, mu):
        v = tr.given(w, child, w.out[child])
        shown = v[:, 0][:, None] + (v[:, 1] - v[:, 0])[:, None] * w.z[None, :, [child]]
        means.append(tr.spread(w, mu, shown).diagonal(axis1=-2, axis2=-1))
    exact = np.concatenate(means, -1)
    found.append(absolute(np.stack([s**2 * (1 - rho**2)] * 2, 1), exact))
    raw.append(absolute(np.stack([s**2 * (1 - rho)] * 2, 1), exact))


def eq163(draws: int, seed: int) -> Iterator[Check]:
    """Mean activation of units with negative mean pre-activation, against both bounds.

    Controls: units with positive mean, a tenth of the bounds; several units a latent apart.
    """
    check, rng = partial(Check, "ddn/eq163"), ref.generator("eq163 tree", seed)
    count = min(share(draws, 4), 12)
    jensen, positive, tenth = [], [], []
    bounds: dict[bool, list[Array]] = {False: [], True: []}
    end: dict[bool, list[Array]] = {False: [], True: []}
    corrected, small, total = [], {False: [], True: []}, {False: 0, True: 0}
    for several in (False, True):
        for w in _worlds(rng, count, several):
            for mu in tr.inner(w):
                pre, post = (tr.given(w, mu, f)[:, 0] for f in (w.pre[mu], w.out[mu]))
                V = tr.spread(w, mu, w.pre[mu])[:, 0].diagonal(axis1=-2, axis2=-1)
                sd, (limit, wider) = np.sqrt(V), _bound(w, mu)
                use, root = pre < 0, np.sqrt(limit)[:, None] * np.ones_like(sd)
                jensen.append((post - sd)[use])
                positive.append((post - sd)[~use])
                tenth.append((post - sd / 10)[use])
                bounds[several].append((sd - root)[use])
                end[several].append((post - root)[use])
                small[several].append((sd - root / 3)[use])
                total[several] += int(use.sum())
                if several:
                    corrected.append((sd - np.sqrt(wider)[:, None])[use])

    def largest(values: list[Array]) -> float:
        return float(np.concatenate(values).max())

    yield check(
        largest(jensen),
        1e-13,
        {"positive mean pre-activation": largest(positive), "a tenth of sd": largest(tenth)},
        draws=sum(total.values()),
        part="Eqs. 160-162",
    )

    yield check(
        max(largest(bounds[False]), largest(end[False])),
        1e-13,
        {"a third of the bound": largest(small[False])},
        draws=total[False],
        part="Eq. 163, one unit a latent",
    )
    tag = {"part": "Eq. 163, several units a latent", "draws": total[True]}
    control = {"a third of the bound": largest(small[True])}
    yield check(
        max(largest(bounds[True]), largest(end[True])),
        1e-13,
        control,
        counterexample=r"Two latents with polarities $\rho=0.3$ and $0.29$, $n=10$ units "
        r"$f_k=z_\nu$ above each, weights $\pm\sigma_w\sqrt{3/2n}$, $\sigma_w=1$: "
        r"$\tilde v_j^-<0$, $v_j^-=0.874$, bound $0.827$.",
        note=r"Inherited from Eq. 155; Eqs. 160-162 hold. $v_j^-$ less the bound, at worst: "
        rf"{largest(end[True]):.3f}.",
        **tag,
    )
    yield check(largest(corrected), 1e-13, control, form="corrected", correction=PER_LATENT, **tag)
