"""Checks of ncl Eqs. 13, 14, 23 and the assumptions of Theorem 3 (App. C.2), with remarks 3, 4.

References are numpy: every latent, both masks jointly, Eq. 14 by its three cases.
"""

import itertools

import numpy as np
import sympy
import torch
from scipy.special import erfc

from clcore import reference as ref
from clcore.checks.dynamics import srelu_regions
from clcore.checks.dynamics import srelu_symbols as sym
from clcore.checks.dynamics.srelu_starts import Warm, beyond, warm, wide
from clcore.ledger import Trial, check, exact, pooled, total, typical
from clcore.reference import Array, absolute, tensors
from clcore.theory.sparse import sparse_coding as sc
from clcore.theory.sparse import srelu_dynamics as sd


def signed(d: int) -> Array:
    """All latents, [3^d, d]."""
    return np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=d)))


def subsets(d: int) -> Array:
    """The diagonals of all masks, [2^d, d]."""
    return np.array(list(itertools.product((0.0, 1.0), repeat=d)))


def law(points: Array, inside: float, outside: float) -> Array:
    """Probabilities of independent entries: `inside` where non-zero, else `outside`."""
    return np.array([np.prod([inside if v else outside for v in p]) for p in points])


def by_cases(x: Array, b: Array) -> Array:
    """Eq. 14 by its three cases; complex steps pass through."""
    return np.where(np.real(x) > b, x - b, np.where(np.real(x) < -b, x + b, 0.0))


def products(online: Array, target: Array, b: tuple[Array, Array], x: Array, mass, masks, keep):
    """E[SReLU SReLU] of every row [*c, n]: a sum over (x, D_1, D_2) jointly, nets [*c, n, p]."""
    total = 0.0
    for point, chance in zip(x, mass, strict=True):
        one = by_cases(np.einsum("...np,mp->...mn", online, masks * point), b[0])
        two = by_cases(np.einsum("...np,mp->...mn", target, masks * point), b[1])
        total = total + chance * np.einsum("m,l,...mn,...ln->...n", keep, keep, one, two)
    return total


def brute(w: Warm, r: int, online: Array | None = None) -> Array:
    """`products` of draw r of Assumption 1, another online net [*c, d, d] put in if given."""
    d = w.online.shape[-1]
    z, D = signed(d), subsets(d)
    keep = law(D, w.alpha[r], 1 - w.alpha[r])
    mass = law(z, w.kappa[r] / 2, 1 - w.kappa[r])
    net = w.online[r] if online is None else online
    return products(net, w.target[r], (w.b_online[r], w.b_target[r]), z, mass, D, keep)


@check("ncl/eq13")
def eq13(t: Trial) -> None:
    """The loss as two conditional means against a joint sum over samples and both masks.

    Any nets and biases, p = 4, d = 3, M not square, noise of two values. Controls: one mask for
    both views, no bias, a one-sided ReLU.
    """
    part, D = t.defines("", 1e-13, controls=pooled), subsets(4)
    for _ in range(min(t.draws, 12)):
        online, target = t.rng.standard_normal((2, 3, 4))
        b = t.rng.uniform(0.1, 0.6, (2, 3))
        alpha, kappa = t.rng.uniform(0.2, 0.9, 2)
        M = np.linalg.qr(t.rng.standard_normal((4, 3)))[0]
        shift = 0.2 * t.rng.standard_normal(4)
        x = np.concatenate([signed(3) @ M.T + s * shift for s in (-1, 1)])
        mass = np.tile(law(signed(3), kappa / 2, 1 - kappa) / 2, 2)
        keep = law(D, alpha, 1 - alpha)
        value = 2 - 2 * products(online, target, tuple(b), x, mass, D, keep).sum()
        seen = sd.views(*tensors(x, mass), torch.tensor(alpha))
        part.add(abs(float(sd.loss(*tensors(online, target, *b), seen)) - value))
        u, v = (np.einsum("np,kmp->kmn", w, D * x[:, None]) for w in (online, target))
        same = np.einsum("k,m,kmn,kmn->", mass, keep, by_cases(u, b[0]), by_cases(v, b[1]))
        part.breaks("one mask for both", abs(2 - 2 * same - value))
        free = products(online, target, (0 * b[0], 0 * b[1]), x, mass, D, keep).sum()
        part.breaks("no bias", abs(2 - 2 * free - value))
        half = [
            np.einsum("kmn,m->kn", np.maximum(s - c, 0), keep) for s, c in ((u, b[0]), (v, b[1]))
        ]
        plain = np.einsum("k,kn,kn->", mass, *half)
        part.breaks("one-sided ReLU", abs(2 - 2 * plain - value))


@check("ncl/eq14")
def eq14(t: Trial) -> None:
    """Two ReLUs against three cases, ties |x| = b among them; odd. Controls: b < 0; a sum."""
    x, b = t.rng.standard_normal((100 * t.draws, 4)), t.rng.uniform(0.01, 1.5, 4)
    x[::7], x[1::7] = b, -b

    def gap(bias: Array) -> Array:
        return np.abs(sc.symmetric_relu(*tensors(x, bias)).numpy() - by_cases(x, bias))

    cases = t.part("by cases", 1e-15).add(gap(b)).breaks("b < 0", gap(-b).max())
    cases.proves(sym.three_cases(1), breaks={"b < 0": sym.three_cases(-1)})
    both = [sc.symmetric_relu(*tensors(s * x, b)).numpy() for s in (1, -1)]
    one = np.maximum(x - b, 0) + np.maximum(-x - b, 0)
    odd = t.part("odd", 0.0).add(np.abs(both[0] + both[1]))
    odd.breaks("the two ReLUs added", 2 * one.max())
    s, c = sympy.symbols("x b", real=True)
    odd.proves(
        exact.equal(sym.two_relus(-s, c), -sym.two_relus(s, c)),
        breaks={
            "the two ReLUs added": exact.equal(sym.two_relus(-s, c, 1), -sym.two_relus(s, c, 1))
        },
    )


@check("ncl/eq23")
def eq23(t: Trial) -> None:
    """Inner product, sum over rows, and pre-activations in Delta agree, on the same samples.

    Controls: Delta_ii left out; the target behind the online net's mask.
    """
    d, n = 5, 20
    part = t.part("", 1e-13, controls=pooled)
    for _ in range(t.draws):
        z = t.rng.integers(-1, 2, (n, d)).astype(float)
        D = t.rng.integers(0, 2, (2, n, d)).astype(float)
        noise = 0.1 * t.rng.standard_normal((n, d))
        delta = 0.3 * t.rng.uniform(-1, 1, (2, d, d))
        b = t.rng.uniform(0.05, 0.4, (2, d))
        x = z + noise  # M = I
        u = [
            sc.symmetric_relu(*tensors((D[k] * x) @ (np.eye(d) + delta[k]).T, b[k])) for k in (0, 1)
        ]
        whole = 2 - 2 * float((u[0] * u[1]).sum(-1).mean())

        def rows(own: float, masks: Array, delta=delta, b=b, x=x) -> float:
            total = 0.0
            for i, s in itertools.product(range(d), range(n)):
                term = 1.0
                for k in (0, 1):
                    pre = (1 + own * delta[k, i, i]) * masks[k, s, i] * x[s, i]
                    for j in range(d):
                        pre += delta[k, i, j] * masks[k, s, j] * x[s, j] if j != i else 0.0
                    term *= float(by_cases(np.array(pre), np.array(b[k, i])))
                total += term / n
            return 2 - 2 * total

        part.add(abs(rows(1.0, D) - whole))
        part.breaks("no Delta_ii", abs(rows(0.0, D) - whole))
        part.breaks("one mask", abs(rows(1.0, D[[0, 0]]) - whole))
    part.proves(
        srelu_regions.rows(),
        breaks={"no Delta_ii": srelu_regions.rows(own=0), "one mask": srelu_regions.rows(masks=1)},
        at="d = 2, two samples",
    )


@check("ncl/def4")
def def4(t: Trial) -> None:
    """Moments of the enumerated latent, and frequencies of the sampled one.

    Controls: binary latents; one sign for all coordinates.
    """
    kappa, d = t.rng.uniform(0.05, 0.9, t.draws), 4
    z, mass = (x.numpy() for x in sd.latents(*tensors(kappa), d))

    def gap(values: Array) -> Array:
        mean = np.einsum("rk,kd->rd", mass, values)
        second = np.einsum("rk,kd,ke->rde", mass, values, values)
        fourth = np.einsum("rk,kd,ke->rde", mass, values**2, values**2)
        eye = np.eye(d)
        pairs = kappa[:, None, None] * eye + (kappa**2)[:, None, None] * (1 - eye)
        return np.maximum(
            np.abs(mean).max(-1),
            np.maximum(
                np.abs(second - kappa[:, None, None] * eye).max((-1, -2)),
                np.abs(fourth - pairs).max((-1, -2)),
            ),
        )

    # The sign of the first non-zero entry, given to all of them.
    first = np.array([p[np.flatnonzero(p)[0]] if p.any() else 0.0 for p in z])
    moments = t.part("moments", 1e-14, controls=typical).add(gap(z))
    moments.breaks("binary", gap(np.abs(z)))
    moments.breaks("one sign", gap(np.abs(z) * first[:, None]))
    moments.proves(sym.moments(False), breaks={"binary": sym.moments(True)}, at="d = 2")

    n, chance = 40_000, 0.3

    def deviation(kind: str, key: torch.Tensor) -> float:
        drawn = sc.latents(key, n, d, chance, kind).numpy()
        shares = [(drawn == v).mean(0) for v in (-1, 0, 1)]
        expected = np.array([chance / 2, 1 - chance, chance / 2])[:, None]
        error = np.sqrt(expected * (1 - expected) / n)
        pair = (drawn[:, 0] * drawn[:, 1]).mean() / (chance / np.sqrt(n))
        return max((np.abs(shares - expected) / error).max(), abs(float(pair)))

    keys = t.keys(min(t.draws, 10), "shares of latents")
    sampler = t.defines("sampler", 6.0, draws=len(keys) * n)
    sampler.add(*(deviation("iid-zeros", key) for key in keys))
    sampler.breaks("binary", deviation("binary", keys[0]))
    sampler.breaks("never all zero", deviation("iid", keys[0]))


def scheme(w: Warm, seen: sd.Views | None = None, rounds: int = 24, variance: float = 0.0) -> Array:
    """Theorem 3's loop on the exact loss, [t, two, draws, d, d], in steps of about 5."""
    online, target, b_online, b_target, alpha, kappa = w.torch()
    if seen is None:
        seen = sd.views(*sd.latents(kappa, w.online.shape[-1]), alpha)
    eta = 5 / (2 * alpha**2 * (kappa + variance))
    slope = sd.exact_slope(seen)
    path = sd.alternate(online, target, b_online, b_target, slope, eta, rounds, steps=16)
    return path.numpy()


def from_identity(nets: Array) -> Array:
    """[draws]: the largest entry of W - I over both nets [two, draws, d, d]."""
    return np.abs(nets - np.eye(nets.shape[-1])).max((0, -1, -2))


@check("ncl/def5")
def def5(t: Trial) -> None:
    """Warm starts, small and large, end at the identity: exact loss, d = 3; kappa up to 0.9.

    Controls: errors ten times the identity's entries; random rows; biases above 1 - alpha^2 kappa.
    """
    count = min(t.draws, 40)
    part = t.part("", 1e-9, controls=typical)
    for delta in (0.03, 0.1, 0.3):
        part.add(from_identity(scheme(warm(t.rng, count, 3, delta))[-1]))
    part.add(from_identity(scheme(wide(t.rng, count, 3, 0.8), rounds=60)[-1]))
    high = scheme(beyond(t.rng, count, 3), rounds=60)
    part.breaks("b above 1 - alpha^2 kappa", from_identity(high[-1]))
    part.says(start=from_identity(high[0]).max(), end=from_identity(high[-1]).min())
    w = warm(t.rng, count, 3, 0.3)
    nets = t.rng.standard_normal((2, count, 3, 3))
    cold = w._replace(online=np.eye(3) + 10 * nets[0], target=np.eye(3) + 10 * nets[1])
    part.breaks("errors of size 10", from_identity(scheme(cold)[-1]))
    nets = nets / np.linalg.norm(nets, axis=-1, keepdims=True)
    rows = w._replace(online=nets[0], target=nets[1])
    part.breaks("random rows", from_identity(scheme(rows)[-1]))


def normal_crosstalk(d: int) -> float:
    """P(|c_b| >= b for some row) at Delta = 0, alpha = 1/2, b = sigma^(1/2), Gaussian noise."""
    sigma = sc.noise_std(d)
    one = 0.5 * erfc(sigma**-0.5 / np.sqrt(2))
    return float(-np.expm1(d * np.log1p(-one)))


@check("ncl/def6")
def def6(t: Trial) -> None:
    """The largest |c_b| over all masks and latents; biases that its interval allows.

    An assumption: tested is that it can be met. Controls: i's own error counted in; by the letters,
    entries of a diagonal mask off its diagonal; errors so large that the interval is empty; and,
    for Gaussian noise, d = 10 and 100.
    """
    d, count = 4, min(t.draws, 30)
    z, D = signed(d), subsets(d)
    largest = t.part("the largest |c_b|", 1e-14, controls=pooled)
    interval = t.part("the interval", 0.0, measured=total, controls=total, draws=count)
    for _ in range(count):
        noise = t.rng.uniform(0, 0.05)
        delta = 0.4 / d * t.rng.uniform(-1, 1, (d, d))
        W = np.eye(d) + delta
        # Noise of the size allowed, on every corner of its box that matters: the sign of W_ij.
        signs = []
        for i in range(d):
            off = delta[i] * (np.arange(d) != i)
            signs.append((D[:, None] * z) @ off + (D * noise * np.sign(W[i])) @ W[i][:, None])
        most = np.array([np.abs(c).max() for c in signs])
        low = sd.crosstalk(*tensors(W), noise).numpy()
        largest.add(np.abs(low - most).max())
        beside = noise * np.abs(W).sum(-1)
        largest.breaks("own error counted in", np.abs(np.abs(delta).sum(-1) + beside - most).max())
        largest.breaks("as typeset, D_1,lu", np.abs(beside - most).max())  # D_lu = 0 for u != l
        b = low + (1 - 2 * low) * t.rng.uniform(0.001, 0.999, d)
        for i, c in enumerate(signs):
            interval.add(((b[i] <= np.abs(c)) | (b[i] >= np.minimum(1 + c, 1 - c))).sum())
            far = c * 0.6 / most[i]
            interval.breaks("crosstalk 0.6", (np.abs(far) >= np.minimum(1 + far, 1 - far)).sum())
    ten, hundred, large = (normal_crosstalk(d) for d in (10, 100, 10_000))
    normal = t.part("Gaussian noise", 1e-12).add(large)
    normal.breaks("d = 10", ten).breaks("d = 100", hundred)
    normal.says(ten=ten, hundred=hundred, large=large)


@check("ncl/def7")
def def7(t: Trial) -> None:
    """Row norms after every step. Control: without the normalisation."""
    w = warm(t.rng, t.draws, 3, 0.3)
    online, target, b_online, b_target, alpha, kappa = w.torch()
    slope = sd.exact_slope(sd.views(*sd.latents(kappa, 3), alpha))

    def gap(normalise: bool) -> Array:
        path = sd.alternate(online, target, b_online, b_target, slope, 0.5 / alpha, 4, 1, normalise)
        norms = np.sqrt((path.numpy()[2:] ** 2).sum(-1))
        return np.abs(norms - 1).max((0, 1, -1))

    part = t.defines("", 1e-14, controls=typical)
    part.add(gap(True)).breaks("not normalised", gap(False))
    _each_row(t)


def _each_row(t: Trial) -> None:
    """Nets that nothing pulls: every row over its norm, though no row uses the last coordinate."""
    part = t.defines("each row over its norm", 1e-14)
    nets = t.stream("rows").standard_normal((2, t.draws, 3, 4)) * [1, 1, 1, 0]
    online, target = torch.from_numpy(nets)
    none = torch.zeros(t.draws, 3, dtype=torch.float64)

    path = sd.alternate(
        online, target, none, none, lambda *held: lambda W, b: 0 * W, none[:, 0] + 1, 1, 2
    ).numpy()
    rows, columns = (nets / np.sqrt((nets**2).sum(k, keepdims=True) + 1e-300) for k in (-1, -2))
    part.add(*(absolute(path[-1, k], rows[k]) for k in (0, 1)), absolute(path[1, 1], nets[1]))
    part.breaks("columns", *(absolute(path[-1, k], columns[k]) for k in (0, 1)))


@check("ncl/rem3")
def rem3(t: Trial) -> None:
    """What latent and activation the formula of App. C.3 needs, and what the sampler draws.

    Controls: binary latents under the same activation; signed ones under a one-sided ReLU.
    """
    d, count = 3, min(t.draws, 20)
    w = warm(t.rng, count, d, 0.3)
    formula = sd.summands(*w.torch()).numpy()
    z, D = signed(d), subsets(d)
    pair = t.part("the pair the formula needs", 1e-12, controls=pooled)
    for r in range(count):

        def gap(value: Array, r: int = r) -> Array:
            return ref.relative(value[None], formula[r : r + 1])

        pair.add(gap(brute(w, r)))
        keep = law(D, w.alpha[r], 1 - w.alpha[r])
        mass = law(z, w.kappa[r] / 2, 1 - w.kappa[r])
        b = (w.b_online[r], w.b_target[r])
        binary = products(w.online[r], w.target[r], b, np.abs(z), mass, D, keep)
        pair.breaks("binary latents", gap(binary))
        one = 0.0
        for point, chance in zip(z, mass, strict=True):
            u, v = ((D * point) @ net[r].T for net in (w.online, w.target))
            u, v = np.maximum(u - b[0], 0), np.maximum(v - b[1], 0)
            one = one + chance * (keep @ u) * (keep @ v)
        pair.breaks("one-sided ReLU", gap(one))

    def excess(kind: str, key: torch.Tensor) -> float:
        """Sum of the entries in standard errors."""
        drawn = sc.latents(key, 20_000, 10, 0.1, kind)
        return float(drawn.sum().abs() / (drawn != 0).sum().sqrt())

    latent, keys = t.part("the experiments' latent", 6.0), t.keys(count, "latents")
    latent.add(*(excess("iid", k) for k in keys)).breaks("binary", excess("binary", keys[0]))


@check("ncl/rem4")
def rem4(t: Trial) -> None:
    """How |c_b| scales with d: worst case and 1 - 1/(1000 d) quantile, by exact convolution.

    Measured are powers of d. Controls: errors of order 1/d and above in the worst case.
    """
    chance, sizes = 0.3, np.array([64, 256, 1024])  # alpha kappa; d

    def growth(values: list[float]) -> float:
        return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])

    def worst_case(power: float) -> float:
        return growth(
            [float(sd.crosstalk(torch.full((d, d), d**power).double()).max()) for d in sizes]
        )

    def quantile(power: float) -> float:
        """Of |sum of d - 1 entries d^power times +-1 with chance alpha kappa|."""
        values = []
        for d in sizes:
            pmf, square, count = np.ones(1), np.array([chance / 2, 1 - chance, chance / 2]), d - 1
            while count:  # the (d - 1)-fold convolution, by repeated squaring
                pmf = np.convolve(pmf, square) if count % 2 else pmf
                square, count = np.convolve(square, square), count // 2
            tail = 2 * np.cumsum(pmf)[: d - 1]  # of |sum| >= d - 1 - index
            values.append((d - 1 - np.argmax(tail > 1e-3 / d)) * d**power)
        return growth(values)

    needs = t.part("o(1/d) is what the worst case needs", -0.45, draws=len(sizes))
    needs.add(worst_case(-1.5)).breaks("1/d", worst_case(-1.0))
    needs.breaks("d^-0.75", worst_case(-0.75))
    likely = t.part("larger errors with high probability", -0.1, draws=len(sizes))
    likely.add(quantile(-0.75)).breaks("worst case", worst_case(-0.75))
    likely.breaks("d^-0.5", quantile(-0.5))
