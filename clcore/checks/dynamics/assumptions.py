"""Checks of the assumptions of ncl Theorem 3 (App. C.2), with remarks 3 and 4.

References are numpy: every latent, both masks jointly, Eq. 14 by its three cases.
"""

import numpy as np
import torch
from scipy.special import erfc

from clcore import reference as ref
from clcore.checks.dynamics import srelu_symbols as sym
from clcore.checks.dynamics.srelu import (
    brute,
    from_identity,
    law,
    products,
    scheme,
    signed,
    subsets,
)
from clcore.checks.dynamics.srelu_starts import beyond, just_below, warm, wide
from clcore.ledger import Trial, check, pooled, total, typical
from clcore.reference import Array, absolute, tensors
from clcore.theory.sparse import sparse_coding as sc
from clcore.theory.sparse import srelu_dynamics as sd


@check("ncl/def4")
def def4(t: Trial) -> None:
    """Symmetric Bernoulli latents (Assumption 1).

    Given   kappa in [0.05, 0.9], all values of z enumerated.
    Claim   E z = 0, E z_i z_j = kappa 1[i = j], E z_i^2 z_j^2 = kappa^2 for i
            != j.
    Fails   for binary latents, whose mean is not 0, and for latents with one sign for all entries,
            where E z_i z_j is not 0.
    """
    kappa = t.rng.uniform(0.05, 0.9, t.draws)
    z, mass = (x.numpy() for x in sd.latents(*tensors(kappa), 4))
    first = np.array([point[np.flatnonzero(point)[0]] if point.any() else 0.0 for point in z])

    # Mean 0, covariance kappa I, and squares of two latents that are independent.
    moments = t.part("moments", 1e-14, controls=typical)
    moments.add(_off_moments(z, mass, kappa))
    moments.breaks("binary", _off_moments(np.abs(z), mass, kappa))
    one_sign = np.abs(z) * first[:, None]  # that of the first non-zero entry
    moments.breaks("one sign", _off_moments(one_sign, mass, kappa))
    moments.proves(sym.moments(False), breaks={"binary": sym.moments(True)}, at="d = 2")


def _off_moments(z: Array, mass: Array, kappa: Array) -> Array:
    """[draws]: how far first, second and fourth moments of latents z [k, d], with chances mass
    [draws, k], are from those of Assumption 1."""
    mean = np.einsum("rk,kd->rd", mass, z)
    second = np.einsum("rk,kd,ke->rde", mass, z, z)
    fourth = np.einsum("rk,kd,ke->rde", mass, z**2, z**2)
    eye, kappa = np.eye(z.shape[-1]), kappa[:, None, None]
    off = [second - kappa * eye, fourth - (kappa * eye + kappa**2 * (1 - eye))]
    return np.max([np.abs(mean).max(-1), *(np.abs(gap).max((-1, -2)) for gap in off)], 0)


@check("ncl/def5")
def def5(t: Trial) -> None:
    """Warm start: weights close to the dictionary (Assumption 2).

    Given   warm starts with errors up to 0.3/d, biases b as Assumption 3 has them, alpha^2 kappa/(1
            - b) up to 0.8, with alpha the chance that a mask keeps a coordinate and kappa, up to
            0.9, that z_i != 0; exact loss, d = 3.
    Claim   Theorem 3's loop ends at the identity.
    Fails   for b above 1 - alpha^2 kappa, or just below it at errors of 0.1; errors of size 10,
            random rows.
    """
    count = min(t.draws, 40)
    part = t.part("", 1e-9, controls=typical)
    for delta in (0.03, 0.1, 0.3):
        part.add(from_identity(scheme(warm(t.rng, count, 3, delta))[-1]))
    part.add(from_identity(scheme(wide(t.rng, count, 3, 0.8), rounds=60)[-1]))
    high = scheme(beyond(t.rng, count, 3), rounds=60)
    part.breaks("b above 1 - alpha^2 kappa", from_identity(high[-1]))
    part.says(start=from_identity(high[0]).max(), end=from_identity(high[-1]).min())
    near = just_below(t.stream("just below"), min(count, 10), 3)
    far = from_identity(scheme(near, rounds=100)[-1])
    part.breaks("b just below it, errors of 0.1", far).says(far=far.min())
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
    """Fixed biases above the crosstalk and noise of a warm start (Assumption 3).

    Given   warm starts, d = 4, all masks and latents, bounded noise; for (3) Gaussian noise of
            standard deviation sigma = log d/d, Delta = 0, alpha = 1/2, b = sigma^(1/2), d = 10, 100
            and 10000.
    Claim   (1) The largest |c_b| is the library's; (2) biases between it and 1 minus it meet the
            assumption in every realisation, so that it can be met; (3) with Gaussian noise the
            chance of a miss vanishes with d.
    Fails   (1) with i's own error counted in, and for D_1,lu as typeset, 0 off the diagonal; (2)
            for crosstalk 0.6, which leaves no bias; (3) at d = 10 and 100.
    """
    d, count = 4, min(t.draws, 30)
    z, D = signed(d), subsets(d)
    largest = t.part("the largest |c_b|", 1e-14, controls=pooled)
    interval = t.part("the interval", 0.0, measured=total, controls=total, draws=count)
    for _ in range(count):
        noise = t.rng.uniform(0, 0.05)
        delta = 0.4 / d * t.rng.uniform(-1, 1, (d, d))
        W = np.eye(d) + delta
        # c_b of every i, in all realisations; of the noise allowed the corner that matters, which
        # has the sign of W_ij.
        crosstalk = []
        for i in range(d):
            off = delta[i] * (np.arange(d) != i)
            crosstalk.append((D[:, None] * z) @ off + (D * noise * np.sign(W[i])) @ W[i][:, None])
        # (1) The largest |c_b| of all realisations, against the library's.
        most = np.array([np.abs(c).max() for c in crosstalk])
        low = sd.crosstalk(*tensors(W), noise).numpy()
        largest.add(np.abs(low - most).max())
        beside = noise * np.abs(W).sum(-1)
        largest.breaks("own error counted in", np.abs(np.abs(delta).sum(-1) + beside - most).max())
        largest.breaks("as typeset, D_1,lu", np.abs(beside - most).max())  # D_lu = 0 for u != l
        # (2) Realisations in which a bias between the largest |c_b| and what it leaves of 1 misses.
        b = low + (1 - 2 * low) * t.rng.uniform(0.001, 0.999, d)
        for i, c in enumerate(crosstalk):
            interval.add(((b[i] <= np.abs(c)) | (b[i] >= np.minimum(1 + c, 1 - c))).sum())
            far = c * 0.6 / most[i]
            interval.breaks("crosstalk 0.6", (np.abs(far) >= np.minimum(1 + far, 1 - far)).sum())
    # (3) The chance of a miss under Gaussian noise, at d = 10^4.
    ten, hundred, large = (normal_crosstalk(d) for d in (10, 100, 10_000))
    normal = t.part("Gaussian noise", 1e-12).add(large)
    normal.breaks("d = 10", ten).breaks("d = 100", hundred)
    normal.says(ten=ten, hundred=hundred, large=large)


@check("ncl/def7")
def def7(t: Trial) -> None:
    """Rows normalised after every update (Assumption 4).

    Given   Theorem 3's loop from warm starts; for (2) random nets and a gradient of 0.
    Claim   (1) Every row has norm 1 after every step. (2) With a gradient of 0 each row becomes
            itself over its own norm.
    Fails   (1) without the normalisation; (2) for columns over their norms.
    """
    w = warm(t.rng, t.draws, 3, 0.3)
    *start, alpha, kappa = tensors(*w)
    slope = sd.exact_slope(sd.views(*sd.latents(kappa, 3), alpha))

    def gap(normalise: bool) -> Array:
        path = sd.alternate(*start, slope, 0.5 / alpha, 4, 1, normalise)
        norms = np.sqrt((path.numpy()[2:] ** 2).sum(-1))
        return np.abs(norms - 1).max((0, 1, -1))

    # (1) Norms minus 1, from when both nets have moved.
    part = t.defines("", 1e-14, controls=typical)
    part.add(gap(True)).breaks("not normalised", gap(False))

    # (2) A gradient of 0: every row over its norm, though no row uses the last coordinate.
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
    """Why the dynamics theory takes symmetric latents and the symmetric ReLU (Remark 3).

    Given   warm starts W = I + Delta, d = 3, all latents and masks; alpha is the chance that a mask
            keeps a coordinate, kappa that z_i != 0; for (2) latents as the experiments draw them.
    Claim   (1) The expected product of a neuron's two outputs is alpha^2 kappa [(1 + Delta^o_ii -
            b^o)(1 + Delta^t_ii - b^t) + alpha^2 kappa sum Delta^o_ij Delta^t_ij] for the signed
            latent and the symmetric ReLU. (2) The experiments' latent is signed.
    Fails   (1) for binary latents, and for the one-sided ReLU; (2) for binary latents.
    """
    d, count = 3, min(t.draws, 20)
    w = warm(t.rng, count, d, 0.3)
    formula = sd.summands(*tensors(*w)).numpy()
    z, D = signed(d), subsets(d)

    # (1) The formula, each neuron of a net, against sums over all latents and pairs of masks.
    pair = t.part("the pair the formula needs", 1e-12, controls=pooled)
    for k in range(count):

        def gap(value: Array, k: int = k) -> Array:
            return ref.relative(value[None], formula[k : k + 1])

        pair.add(gap(brute(w, k)))
        keep = law(D, w.alpha[k], 1 - w.alpha[k])
        mass = law(z, w.kappa[k] / 2, 1 - w.kappa[k])
        b = (w.b_online[k], w.b_target[k])
        binary = products(w.online[k], w.target[k], b, np.abs(z), mass, D, keep)
        pair.breaks("binary latents", gap(binary))
        one_sided = np.zeros(())
        for point, chance in zip(z, mass, strict=True):
            u, v = ((D * point) @ net[k].T for net in (w.online, w.target))
            u, v = np.maximum(u - b[0], 0), np.maximum(v - b[1], 0)
            one_sided = one_sided + chance * (keep @ u) * (keep @ v)
        pair.breaks("one-sided ReLU", gap(one_sided))

    def excess(kind: str, key: torch.Tensor) -> float:
        """Sum of the entries in standard errors."""
        drawn = sc.latents(key, 20_000, 10, 0.1, kind)
        return float(drawn.sum().abs() / (drawn != 0).sum().sqrt())

    # (2) Signs cancel in the sum of all drawn entries; six standard errors are allowed.
    latent, keys = t.part("the experiments' latent", 6.0), t.keys(count, "latents")
    latent.add(*(excess("iid", k) for k in keys)).breaks("binary", excess("binary", keys[0]))


@check("ncl/rem4")
def rem4(t: Trial) -> None:
    """Warm-start errors of order o(1/d), and larger ones with high probability (Remark 4).

    Given   all off-diagonal errors of a net equal, a power of d, d = 64, 256, 1024; the crosstalk
            |c_b| in the worst case, and its quantile at 1 - 1/(1000 d) by exact convolution.
    Claim   As d grows, (1) the worst case vanishes for errors d^-1.5, which are o(1/d); (2) the
            quantile vanishes already for errors d^-0.75.
    Fails   (1) for errors of order 1/d or d^-0.75; (2) for the worst case at d^-0.75, and for the
            quantile at d^-0.5.
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

    # (1) Power of d with which the largest possible crosstalk falls.
    needs = t.part("o(1/d) is what the worst case needs", -0.45, draws=len(sizes))
    needs.add(worst_case(-1.5)).breaks("1/d", worst_case(-1.0))
    needs.breaks("d^-0.75", worst_case(-0.75))

    # (2) Power of d with which the crosstalk falls that is exceeded with chance 1/(1000 d) only.
    likely = t.part("larger errors with high probability", -0.1, draws=len(sizes))
    likely.add(quantile(-0.75)).breaks("worst case", worst_case(-0.75))
    likely.breaks("d^-0.5", quantile(-0.5))
