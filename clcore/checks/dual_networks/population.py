"""The covariance operator of finite worlds (ddn Sec. 4, App. B.2, B.3, and Corollary 1).

Operators of `clcore.theory.operator.covariance_operator` meet complex-step gradients of losses
enumerated by loops. All statements are about the first tower's gradient (Theorem 1); thm3 says what
both towers give.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.towers import ONE_SAMPLE, TWICE
from clcore.ledger import Check
from clcore.reference import Array, relative, typical, worst
from clcore.theory.operator import connection as net
from clcore.theory.operator import covariance_operator as co

TIGHT = 1e-11


def views_of(layers: list[Array], world: co.World, layer: int) -> torch.Tensor:
    """K_l of all views by the library, [draws, S, V, w, k]."""
    return world.shaped(net.connection(net.trace(dw.torch_layers(layers), world.points), layer), 2)


def sides(layers: list[Array], world: co.World, layer: int) -> tuple[torch.Tensor, ...]:
    """(K_l^n, P) of all views by the library, each [draws, S, V, ...]."""
    seen = net.trace(dw.torch_layers(layers), world.points)
    K = world.shaped(net.normalised_connection(seen, layer), 2)
    return K, world.shaped(net.projector(seen.output), 2)


# -------------------------------------------------------------------------------- one sample's pull


def _tuple(rng: np.random.Generator, count: int, depth: int, negatives: int) -> tuple:
    """(weights, x [count, 1, 2 + negatives, d]): anchor, its other view, negatives."""
    widths = dw.DEPTHS[depth]
    layers = dw.weights(rng, count, widths)
    x = rng.standard_normal((count, 1, 2 + negatives, widths[0]))
    x[:, :, 1] = x[:, :, 0] + 0.7 * x[:, :, 1]
    return layers, x


def _multi(tau: float, near: Array, far: Array) -> Array:
    """InfoNCE of anchor near[0] with positive far[1] and negatives far[2:], naive exponentials."""
    r = dw.half(near[..., 0, :1, :], far[..., 0, 1:, :])
    e = np.exp(-r / tau)
    return -np.log(e[..., 0] / e.sum(-1))


def _one_sample(draws: int, seed: int, unit: bool) -> tuple[list, dict, int]:
    """Lemma 2 (or Eq. 51) against complex steps: errors, controls, number of draws.

    Errors are relative to the factors' norms: a softmax slope near 0 is known absolutely only.
    """
    rng = ref.generator(f"lem2 {unit}", seed)
    errors, broken = [], defaultdict(list)
    count, tau = ref.share(draws, 6), 0.7
    settings = [(d, 1, c) for d in (1, 2, 4) for c in (dw.simple(), dw.triplet(tau))]
    settings += [(d, h, None) for d in (2, 3) for h in (1, 3, 8)]
    for depth, negatives, case in settings:
        layers, x = _tuple(rng, count, depth, negatives)
        seen = net.trace(dw.torch_layers(layers), torch.from_numpy(x[:, 0]))
        f = (net.unit(seen.output) if unit else seen.output).numpy()
        r = dw.half(f[:, :1], f[:, 1:])
        if case is None:
            objective = partial(_multi, tau)
            slope = -np.exp(-r[:, 1:] / tau) / np.exp(-r / tau).sum(-1, keepdims=True) / tau
        else:
            slope = ref.slope(lambda v, a=r[:, :1], c=case: c.page(a, v), r[:, 1:])

            def objective(near: Array, far: Array, c: dw.Case = case) -> Array:
                a, b = (dw.half(near[..., 0, 0, :], far[..., 0, k, :]) for k in (1, 2))
                return c.page(a, b)

        def extended(near: Array, far: Array, base=objective) -> Array:
            return base(near, far) + 0.5 * dw.half(near[..., 0, 0, :], far[..., 0, 1, :])

        for layer in range(1, depth + 1):
            K = net.normalised_connection(seen, layer) if unit else net.connection(seen, layer)
            K = K.numpy()
            gaps = np.einsum("bh,bhwk->bkw", slope, K[:, 1:2] - K[:, 2:])
            left = K[:, 0]
            if unit:
                left = left @ net.projector(seen.output)[:, 0].numpy()
            steps = partial(dw.gradient, layers=layers, layer=layer, x=x, unit=unit)
            g = dw.vec(steps(objective))
            ours = dw.times(left @ gaps, layers, layer)
            size = _norm(left) * _norm(K[:, 1:2] - K[:, 2:]) * _norm(layers[layer - 1])
            errors.append(_norm(ours - g) / size)
            broken["beta = 1/2"].append(_norm(ours - dw.vec(steps(extended))) / size)
            both = dw.vec(steps(objective, tied=True))
            broken["both towers"].append(_norm(ours - both) / size)
            broken["any multiple of both towers"].append(dw.off_line(ours, both))
            if unit:
                bare = dw.times(K[:, 0] @ gaps, layers, layer)
                broken["no projector"].append(_norm(bare - g) / size)
    return errors, ref.pooled(broken), count * len(settings)


def _norm(a: Array) -> Array:
    """[draws]: root of the sum of squares of all other entries."""
    return np.sqrt((a**2).reshape(len(a), -1).sum(-1))


def lem2(draws: int, seed: int) -> Iterator[Check]:
    """One sample's gradient, H = 1, 3, 8, three losses, all layers, against complex steps.

    Controls: a loss with slopes that do not sum to zero; the gradient through both towers, and its
    nearest multiple.
    """
    errors, control, count = _one_sample(draws, seed, unit=False)
    note = f"{ONE_SAMPLE} Eq. 49 of the proof has $k=1,\\dots,n$ for $k=1,\\dots,H$."
    yield Check("ddn/lem2", worst(*errors), TIGHT, control, draws=count, note=note)


def eq51(draws: int, seed: int) -> Iterator[Check]:
    """The same with normalised outputs. Controls: as lem2, and no projector."""
    errors, control, count = _one_sample(draws, seed, unit=True)
    yield Check("ddn/eq51", worst(*errors), TIGHT, control, draws=count, note=ONE_SAMPLE)


# ---------------------------------------------------------------------------------------- Theorem 3


def population_objective(case: dw.Case, world: co.World):
    """(near, far) -> E[L] by loops."""
    return lambda near, far: dw.mean_loss(case.page, near, far, world)


def thm3(draws: int, seed: int) -> Iterator[Check]:
    """V_x[Kbar_l] vec(W_l) against minus the complex-step gradient of the enumerated E[L_simp].

    Every layer of ReLU nets of depth 1 to 4, three kinds of augmentation. Controls: views not
    averaged; the gradient through both tied towers, which is exactly twice (a part of its own).
    """
    rng, errors, twice = ref.generator("thm3", seed), [], []
    broken: dict[str, list[Array]] = defaultdict(list)
    count = ref.share(draws, 12)
    for depth, widths in dw.DEPTHS.items():
        for kind in co.KINDS:
            world, layers = dw.world(rng, count, widths[0], kind), dw.weights(rng, count, widths)
            x = dw.parts(world)[2]
            for layer in range(1, depth + 1):
                steps = partial(dw.gradient, layers=layers, layer=layer, x=x)
                g = -dw.vec(steps(population_objective(dw.simple(), world)))
                both = -dw.vec(steps(population_objective(dw.simple(), world), tied=True))
                K = views_of(layers, world, layer)
                op = co.between(K, world)
                errors.append(relative(dw.times(op, layers, layer), g, 1e-8))
                twice.append(relative(both, 2 * g, 1e-8))
                whole = op + co.within(K, world)
                broken["views not averaged"].append(relative(dw.times(whole, layers, layer), g))
                broken["both towers"].append(relative(dw.times(op, layers, layer), both, 1e-8))
                if layer == depth:
                    objective = population_objective(dw.infonce(0.5), world)
                    one, two = (dw.vec(steps(objective, tied=t)) for t in (False, True))
                    broken["InfoNCE"].append(relative(two, 2 * one, 1e-8))
    control = ref.pooled(broken)
    total = 12 * count
    yield Check(
        "ddn/thm3",
        worst(*errors),
        TIGHT,
        {k: control[k] for k in ("views not averaged", "both towers")},
        draws=total,
        part="one tower",
        note=rf"{TWICE} $\bar K_l$ as in the main text; the copy in App. B.3 defines it by itself.",
    )
    yield Check(
        "ddn/thm3",
        worst(*twice),
        TIGHT,
        {"InfoNCE": control["InfoNCE"]},
        draws=total,
        part="both tied towers",
        note="Gradient of the tied loss against twice one tower's: the learning rate takes the "
        "factor in. For InfoNCE it is not two (ddn/towers).",
    )


EQ54 = "Eq. 54"


def eq54(draws: int, seed: int) -> Iterator[Check]:
    """E[K K_+^T] and E[K K_-^T] by loops against products of averages; then Eqs. 53-55.

    K here is a complex-step Jacobian. Controls: the other view from any sample, negatives never
    from the same sample, no means. Means over finite batches approach the limit as 1/sqrt(n).
    """
    check = partial(Check, "ddn/eq54")
    rng = ref.generator("eq54", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    count, slopes, biased = ref.share(draws, 3), [], []
    for depth in (1, 2, 3):
        widths = dw.DEPTHS[depth]
        world, layers = dw.world(rng, count, widths[0]), dw.weights(rng, count, widths)
        _, p, x, q = dw.parts(world)
        S, V = q.shape[1:]
        for layer in range(1, depth + 1):
            K = dw.connection(layers, layer, x)
            plus, minus, apart = np.zeros((3, count, *2 * (K.shape[-2],)))
            for s in range(S):
                for i in range(V):
                    for t in range(S):
                        for j in range(V):
                            outer = K[:, s, i] @ K[:, t, j].swapaxes(-1, -2)
                            view = (q[:, s, i] * q[:, t, j])[:, None, None] * outer
                            if s == t:
                                plus += p[:, s, None, None] * view
                            else:
                                apart += (p[:, s] * p[:, t])[:, None, None] * view
                            minus += (p[:, s] * p[:, t])[:, None, None] * view
            mean = (q[..., None, None] * K).sum(2)
            second = np.einsum("bs,bsik,bsjk->bij", p, mean, mean)
            centre = np.einsum("bs,bsik->bik", p, mean)
            product = centre @ centre.swapaxes(-1, -2)
            apart /= (1 - (p**2).sum(-1))[:, None, None]
            found["positive"].append(relative(plus, second))
            found["not two views"].append(relative(minus, second))
            found["negative"].append(relative(minus, product))
            found["never the same sample"].append(relative(apart, product))
            g = -dw.vec(dw.gradient(population_objective(dw.simple(), world), layers, layer, x))
            ours = co.between(views_of(layers, world, layer), world)
            found["gradient"].append(relative(dw.times(plus - minus, layers, layer), g, 1e-8))
            found["variance"].append(relative(ours, plus - minus))
            found["second moment"].append(relative(ours, plus))
            whole = ours + co.within(views_of(layers, world, layer), world)
            found["views not averaged"].append(relative(dw.times(whole, layers, layer), g))
        for rows, bias in ((slopes, False), (biased, True)):
            rows.append(_slope(rng, K, world, plus - minus, bias))
    for part, errors, control in (
        ("positive pairs", "positive", "not two views"),
        ("negative pairs", "negative", "never the same sample"),
        (EQ54, "gradient", "views not averaged"),
        ("Eq. 55", "variance", "second moment"),
    ):
        broken = {control: typical(np.concatenate(found[control]))}
        note = TWICE if part == EQ54 else ""
        yield check(worst(*found[errors]), TIGHT, broken, draws=3 * count, part=part, note=note)
    yield check(
        float(np.abs(np.array(slopes) + 0.5).max()),
        0.1,
        {"positives from another sample": float(np.median(np.abs(np.array(biased) + 0.5)))},
        draws=len(slopes),
        part="finite batches",
        note="Slope of log error against log batch size, less the -1/2 of a mean.",
    )


BATCHES = 2 ** np.arange(4, 13)


def _slope(rng: np.random.Generator, K: Array, world: co.World, op: Array, biased: bool) -> float:
    """Slope of the error of batch means of -K_1 (K_+ - K_-)^T against the batch's size, one draw.

    `biased` draws x_+ from another sample, so that the mean is not the operator.
    """
    _, p, _, q = (v[0] for v in dw.parts(world))
    S, V = q.shape
    errors = []
    for size in BATCHES:
        draws = 40 * BATCHES[-1] // size // 8
        shape = (draws, size)
        s, t, u = (rng.choice(S, shape, p=p) for _ in range(3))
        one, plus, minus = (
            (rng.random((*shape, 1)) > q[k].cumsum(-1)[..., :-1]).sum(-1)
            for k in (s, u if biased else s, t)
        )
        code = (s * V + one, (u if biased else s) * V + plus, t * V + minus)
        flat = K[0].reshape(S * V, *K.shape[-2:])
        count = np.zeros((2, draws, S * V, S * V))
        rows = np.arange(draws)[:, None]
        for k in (0, 1):
            np.add.at(count[k], (rows, code[0], code[1 + k]), 1 / size)
        estimate = np.einsum("buv,uik,vjk->bij", count[0] - count[1], flat, flat, optimize=True)
        errors.append(np.sqrt(((estimate - op[0]) ** 2).sum((1, 2)).mean()))
    return float(np.polyfit(np.log(BATCHES), np.log(errors), 1)[0])


def eq56(draws: int, seed: int) -> Iterator[Check]:
    """-Cov_x[avg(K^n P), avg(K^n)] vec(W_l) against complex steps of E[r_n+ - r_n-].

    Controls: no projector, projector and connection averaged apart, both towers. Parts: both give
    twice one tower's gradient; it is not symmetric.
    """
    rng, errors, bent, plain, twice = ref.generator("eq56", seed), [], [], [], []
    broken: dict[str, list[Array]] = defaultdict(list)
    count = ref.share(draws, 4)
    for depth, widths in dw.DEPTHS.items():
        world, layers = dw.world(rng, count, widths[0]), dw.weights(rng, count, widths)
        x = dw.parts(world)[2]
        for layer in range(1, depth + 1):
            objective = population_objective(dw.simple(), world)
            g, both = (
                -dw.vec(dw.gradient(objective, layers, layer, x, tied=tied, unit=True))
                for tied in (False, True)
            )
            twice.append(relative(both, 2 * g, 1e-6))
            K, P = sides(layers, world, layer)
            mean, left = co.view_mean(K, world), co.view_mean(K @ P, world)
            apart = mean @ co.view_mean(P, world)
            ours, bare, split = (co.covariance(a, mean, world.chances) for a in (left, mean, apart))
            errors.append(relative(dw.times(ours, layers, layer), g, 1e-6))
            broken["both towers"].append(relative(dw.times(ours, layers, layer), both, 1e-6))
            if depth > 1:
                bent.append(skew(ours))
                plain.append(skew(co.between(views_of(layers, world, layer), world)))
                broken["no projector"].append(relative(dw.times(bare, layers, layer), g, 1e-6))
                broken["averaged apart"].append(relative(dw.times(split, layers, layer), g, 1e-6))
    control, total = ref.pooled(broken), 4 * count
    tag = {"draws": total}
    yield Check("ddn/eq56", worst(*errors), 1e-11, control, part="gradient", note=TWICE, **tag)
    once = {"once": control["both towers"]}
    yield Check("ddn/eq56", worst(*twice), 1e-8, once, part="both tied towers", **tag)
    yield Check(
        "ddn/eq56",
        float(np.median(np.concatenate(bent))),
        1e-3,
        {"without normalisation": worst(*plain)},
        relation=">=",
        draws=total,
        part="not symmetric",
        note="Median of |A - A^T| / |A| over layers and draws.",
    )


def skew(A: torch.Tensor) -> Array:
    """|A - A^T| / |A|, [draws]."""
    return (torch.linalg.matrix_norm(A - A.mT) / torch.linalg.matrix_norm(A)).numpy()


# ------------------------------------------------------------------------------ weighted covariance


def _distribution(rng: np.random.Generator, count: int, n: int = 10, w: int = 12, k: int = 3):
    """(K [count, n, w, k], p [count, n]): random matrices with random chances."""
    p = rng.uniform(0.2, 1.0, (count, n))
    return rng.standard_normal((count, n, w, k)), p / p.sum(-1, keepdims=True)


def eq4(draws: int, seed: int) -> Iterator[Check]:
    """Cov^xi against loops; xi = 1 against numpy's covariance; V^xi is PSD for xi >= 0.

    Controls: means that carry the weight, no means taken off, weights of both signs.
    """
    check = partial(Check, "ddn/eq4", draws=draws)
    rng = ref.generator("eq4", seed)
    a, p = _distribution(rng, draws)
    b, xi = rng.standard_normal((draws, 10, 5, 3)), rng.random((draws, 10))
    total = np.zeros((3, draws, 12, 5))
    share = xi * p / (xi * p).sum(-1, keepdims=True)
    for form, mass in enumerate((p, share, 0 * p)):
        for i in range(10):
            left = a[:, i] - sum(mass[:, j, None, None] * a[:, j] for j in range(10))
            right = b[:, i] - sum(mass[:, j, None, None] * b[:, j] for j in range(10))
            total[form] += (xi * p)[:, i, None, None] * (left @ right.swapaxes(-1, -2))
    ours = co.weighted_covariance(*ref.tensors(a, b, xi, p))
    yield check(
        worst(relative(ours, total[0])),
        1e-12,
        {
            "weighted means": typical(relative(ours, total[1])),
            "no means": typical(relative(ours, total[2])),
        },
        part="definition",
        note="A definition: nothing can fail but our code; the library is tested against loops. At "
        "stake are the parts on $\\xi\\equiv1$ and on what Theorems 3 and 4 rest on, PSD.",
    )
    one = co.weighted_covariance(*ref.tensors(a[..., :1], a[..., :1], np.ones_like(p), p)).numpy()
    pairs = list(zip(a[..., 0], p, strict=True))
    theirs = np.stack([np.cov(x.T, aweights=c, ddof=0) for x, c in pairs])
    unbiased = np.stack([np.cov(x.T, aweights=c, ddof=1) for x, c in pairs])
    yield check(
        worst(relative(one, theirs)),
        1e-12,
        {"unbiased": typical(relative(one, unbiased))},
        part="xi = 1",
    )
    low = [
        np.linalg.eigvalsh(co.weighted_covariance(*ref.tensors(a[:, :4], a[:, :4], w, m)).numpy())
        for w in (xi[:, :4], xi[:, :4] - 0.5)
        for m in (p[:, :4] / p[:, :4].sum(-1, keepdims=True),)
    ]
    least = [v[:, 0] / np.abs(v).max(-1) for v in low]
    yield check(
        worst(-least[0]),
        1e-12,
        {"weights of both signs": typical(-least[1])},
        part="PSD",
        note="Least eigenvalue over the largest, its sign changed.",
    )


def rem3(draws: int, seed: int) -> Iterator[Check]:
    """V_{x,x''}[Kbar(x) - Kbar(x'')] / 2 = V_x[Kbar(x)]: a loop over pairs against the variance.

    Controls: no 1/2; pairs of two different samples only.
    """
    rng = ref.generator("rem3", seed)
    K, p = _distribution(rng, draws)
    pairs, apart = np.zeros((2, draws, 12, 12))
    for i in range(10):
        for j in range(10):
            gap = K[:, i] - K[:, j]
            term = (p[:, i] * p[:, j])[:, None, None] * (gap @ gap.swapaxes(-1, -2)) / 2
            pairs += term
    apart = pairs / (1 - (p**2).sum(-1))[:, None, None]
    ours = co.covariance(*ref.tensors(K, K, p))
    yield Check(
        "ddn/rem3",
        worst(relative(pairs, ours)),
        1e-12,
        {
            "no 1/2": typical(relative(2 * pairs, ours)),
            "two different samples": typical(relative(apart, ours)),
        },
        draws=draws,
    )


def eq67(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 65 by loops over views; g(x, x'') + g(x'', x) pair by pair; their mean is Eqs. 68, 69.

    Controls: a weight that depends on the order of the pair; Kbar not averaged over views.
    """
    check = partial(Check, "ddn/eq67", draws=draws)
    rng = ref.generator("eq67", seed)
    S, V, w, k = 4, 3, 6, 2
    K, u = rng.standard_normal((draws, S, V, w, k)), rng.standard_normal((draws, w))
    world = dw.world(rng, draws, 3, samples=S, views=V)
    _, p, _, q = dw.parts(world)
    r = 2 * rng.random((draws, S, S))
    xi = 1 / (1 + np.exp(r + r.swapaxes(-1, -2)))
    found: dict[str, list[Array]] = defaultdict(list)
    for name, weight in (("pairs", xi), ("asymmetric weight", 1 / (1 + np.exp(r)))):
        g, single = np.zeros((2, draws, S, S, w))
        for s in range(S):
            for t in range(S):
                for i in range(V):
                    single[:, s, t] += q[:, s, i, None] * _term(
                        K[:, s, i], K[:, s, i], K[:, t, i], u
                    )
                    for j in range(V):
                        for m in range(V):
                            chance = q[:, s, i] * q[:, s, j] * q[:, t, m]
                            term = _term(K[:, s, i], K[:, s, j], K[:, t, m], u)
                            g[:, s, t] += chance[:, None] * term
        g, single = (-weight[..., None] * v for v in (g, single))
        mean = (q[..., None, None] * K).sum(2)
        gap = mean[:, :, None] - mean[:, None]
        square = np.einsum("bstik,bstjk,bj->bsti", gap, gap, u)
        found[name].append(relative(g + g.swapaxes(1, 2), -weight[..., None] * square))
        if name == "pairs":
            found["one view for all three"].append(
                relative(single + single.swapaxes(1, 2), -weight[..., None] * square)
            )
        both = p[:, :, None] * p[:, None]
        expected = (both[..., None] * g).sum((1, 2))
        op = co.pair_operator(*ref.tensors(mean, weight), world).numpy()
        ours = -np.einsum("bij,bj->bi", op, u)
        found[name + " mean"].append(relative(ours, expected))
        found["no 1/2"].append(relative(2 * ours, expected))
    yield check(
        worst(*found["pairs"]),
        1e-12,
        {n: typical(*found[n]) for n in ("asymmetric weight", "one view for all three")},
        part="Eq. 67",
    )
    yield check(
        worst(*found["pairs mean"]),
        1e-12,
        {
            "asymmetric weight": typical(*found["asymmetric weight mean"]),
            "no 1/2": typical(*found["no 1/2"]),
        },
        part="Eqs. 68, 69",
    )


def _term(one: Array, plus: Array, minus: Array, u: Array) -> Array:
    """K_1 (K_+ - K_-)^T u."""
    return np.einsum("bik,bjk,bj->bi", one, plus - minus, u)
