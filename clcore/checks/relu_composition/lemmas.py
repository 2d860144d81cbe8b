"""The lemmas on X_alpha of an orthogonal mixture: signs, eigenvectors (acl App. B, 14 to 16)."""

from typing import Any

import numpy as np

from clcore import reference as ref
from clcore.checks.relu_composition import exact_mixtures
from clcore.ledger import Trial, check, fraction, pooled
from clcore.ledger.judging import Shared
from clcore.losses import contrast
from clcore.reference import Array, mixture, tensors, unit

SIZES = (2, 3, 5, 8)
GAMMA = (0.2, 3.0)  # factors of augmentation


def clcore_covariance(x: Array, x2: Array, alpha: Array) -> Array:
    """X_alpha of batches of views, [draws, M, M], by clcore."""
    return contrast.contrastive_covariance(*tensors(alpha, x, x2, x, x2)).numpy()


def _perron(x: Array) -> Array:
    """The leading eigenvector of beta I - X > 0, by squaring it forty times."""
    beta = 2 * np.abs(x).sum((-1, -2))[:, None, None]
    power = beta * np.eye(x.shape[-1]) - x
    for _ in range(40):
        power = unit(power @ power, (-2, -1))
    return unit(power.sum(-1))


def no_weight_between(x: Array) -> Array:
    """[draws, n, n]: 0 for samples that show different modes, else 1."""
    active: Any = (x > 0).any(-1)
    return ~(active[:, :, None] & active[:, None]) | (x @ x.swapaxes(-1, -2) > 0)


def _both_signs(v: Array) -> Array:
    """Size of the smaller sign of each vector; of one sign, negative."""
    return np.minimum(v.max(-1), -v.min(-1))


def _one_sign(v: Array) -> Array:
    """Size of the least entry of each vector; 0 where signs differ."""
    return np.abs(v).min(-1) * (np.sign(v) == np.sign(v[..., :1])).all(-1)


@check("acl/lem14")
def lem14(t: Trial) -> None:
    """The maximal eigenvector of one receptive field has a negative entry (Lemma 14).

    Given   one field under Assumption 1, M = 2..8 modes, every mode shown, alpha_ij > 0, gamma from
            0.2 to 3; for (1) modes that are all alike too, where M - 1 eigenvectors are maximal.
    Claim   (1) The maximal eigenvector of X_alpha, by LAPACK, has entries of both signs. (2) The
            minimal one, by repeated squaring of beta I - X (its Perron vector), has one sign
            throughout and a simple eigenvalue. (3) It is orthogonal to the maximal one, and
            LAPACK's minimal one.
    Fails   (1) without weight between modes, and for a mode not shown; (2) with two active modes of
            eight at gamma near 1 (of fewer modes, or for other gamma, it may hold); (3) for the
            vector of ones.
    """
    count = max(12, t.share(len(SIZES)))  # one control fails in eight draws of ten
    total: Shared = {"draws": count * len(SIZES), "controls": pooled}
    signs = t.part("both signs", 1e-5, ">=", **total)
    least = t.part("minimal eigenvector", 1e-6, ">=", **total)
    across = t.part("orthogonal to it", 1e-9, **total)
    for modes in SIZES:
        samples = max(10, 2 * modes)
        x, x2 = mixture.field(t.rng, count, samples, modes, gamma=GAMMA)
        alpha = mixture.weights(t.rng, count, samples)
        X = clcore_covariance(x, x2, alpha)
        values, vectors = np.linalg.eigh(X)
        top, bottom, perron = vectors[..., -1], vectors[..., 0], _perron(X)

        # (1) Size of the smaller sign of the maximal eigenvector.
        signs.add(_both_signs(top))
        alike, even = np.eye(modes)[None], np.ones((1, modes, modes)) - np.eye(modes)
        signs.add(_both_signs(mixture.top(clcore_covariance(alike, alike, even))))
        lonely = clcore_covariance(x, x2, alpha * no_weight_between(x))
        signs.breaks("no weight between modes", _both_signs(mixture.top(lonely)))
        if modes == 2:
            one, one2 = mixture.field(t.rng, count, samples, 2, missing=1)
            end = mixture.top(clcore_covariance(one, one2, alpha))
            signs.breaks("one mode not shown", _both_signs(end))

        # (2) The least entry of the Perron vector, and the gap above its eigenvalue.
        least.add(_one_sign(perron))
        least.add((values[:, 1] - values[:, 0]) / np.abs(values).max(-1))
        if modes == SIZES[-1]:  # of fewer, or for other gamma, it may hold with two active, too
            mild, mild2 = mixture.field(t.rng, count, samples, modes, gamma=(0.9, 1.1))
            factor = mild2.sum(-1, keepdims=True) / np.maximum(mild.sum(-1, keepdims=True), 1e-300)
            two_modes = mixture.two_hot(t.rng, mild)
            both = clcore_covariance(two_modes, factor * two_modes, alpha)
            low = np.linalg.eigh(both)[1][..., 0]
            least.breaks("two active modes of eight", _one_sign(low))

        # (3) Its cosine with the maximal eigenvector; one minus that with LAPACK's minimal one.
        across.add(np.abs((perron * top).sum(-1)), 1 - np.abs((perron * bottom).sum(-1)))
        across.breaks("all ones for u", np.abs(top.sum(-1)) / np.sqrt(modes))


def _within(x: Array, x2: Array) -> Array:
    """[draws]: largest entry off the diagonal of the sum over views, sum_i (x - x')(x - x')^T."""
    own = ((x - x2)[..., :, None] * (x - x2)[..., None, :]).sum(1)
    return np.abs(ref.off(own)).max((-1, -2))


@check("acl/lem15")
def lem15(t: Trial) -> None:
    """Off-diagonal contrastive covariance of one-hot data is negative (Lemma 15).

    Given   Assumption 1, every mode shown, alpha_ij > 0 (as the proof and Lemma 14 have it), gamma
            from 0.2 to 3; then with some weights 0, but a pair with weight for any two modes.
    Claim   Off the diagonal X_alpha is negative, [X]_ml = -sum (alpha_ij + alpha_ji) x_m[i] x_l[j]
            over samples of m and l, and the augmentation adds 0 there. All proved.
    Fails   with a mode not shown, with no weight between modes (Eq. 4 allows it); the
            augmentation's 0 with two active modes; the value for alpha_ij alone.
    """
    count = t.share(len(SIZES))
    total: Shared = {"draws": count * len(SIZES), "controls": pooled}
    negative = t.part("off the diagonal", -1e-8, **total)
    some_zero = t.part("with some weights 0", -1e-8, **total)
    augmentation = t.part("augmentation", 0.0, **total)
    value = t.part("value", 1e-12, **total)
    for modes in SIZES:
        n = max(10, 2 * modes)
        x, x2 = mixture.field(t.rng, count, n, modes, gamma=GAMMA)
        alpha = mixture.weights(t.rng, count, n)
        scale = 1 / np.abs(mixture.covariance(alpha, x, x2)).max((-1, -2))

        def largest(matrix: Array, scale: Array = scale) -> Array:
            return ref.off(matrix).max((-1, -2)) * scale

        negative.add(largest(clcore_covariance(x, x2, alpha)))
        # The sum over views is diagonal, unless two modes are active.
        augmentation.add(_within(x, x2))
        pairs = mixture.two_hot(t.rng, x)
        moved = pairs * t.rng.uniform(0.5, 1.5, pairs.shape)[..., :1]  # one factor per sample
        augmentation.breaks("two active modes", _within(pairs, moved))
        # Controls of both parts on the sign.
        less, less2 = mixture.field(t.rng, count, n, modes, missing=1)
        lonely = clcore_covariance(x, x2, alpha * no_weight_between(x))
        for part in (negative, some_zero):
            part.breaks("no weight between modes", largest(lonely))
            part.breaks("a mode not shown", largest(clcore_covariance(less, less2, alpha)))
        # Some zeros, but one pair of samples left for every two modes, in one direction only.
        kept = alpha * (t.rng.random(alpha.shape) > 0.8)
        kept[:, :modes, :modes] = alpha[:, :modes, :modes] * np.triu(np.ones((modes, modes)), 1)
        matrix = clcore_covariance(x, x2, kept)
        some_zero.add(largest(matrix))

        def gap(weight: Array, matrix=matrix, x=x, scale=scale) -> Array:
            closed = -np.einsum("bij,bim,bjl->bml", weight, x, x)
            return np.abs(ref.off(matrix - closed)).max((-1, -2)) * scale

        value.add(gap(kept + kept.swapaxes(-1, -2))).breaks("alpha_ij alone", gap(kept))
    negative.proves(**exact_mixtures.negative_off_diagonal(some=False))
    some_zero.proves(**exact_mixtures.negative_off_diagonal(some=True))
    augmentation.proves(**exact_mixtures.augmentation_off_diagonal())
    value.proves(**exact_mixtures.value_off_diagonal())


@check("acl/lem16")
def lem16(t: Trial) -> None:
    """Bound on the least entry of a vector orthogonal to a positive one (Lemma 16).

    Given   v > 0 and u orthogonal to it, d = 2..8, one entry in five of u being 0; k the number of
            entries u_j >= 0.
    Claim   (1) min u <= -(1/(d - k)) (min v/max v) |u|_inf (Eq. 128), and (2) the line before it, 0
            >= (min v) (max u) + (d - k) (max v) (min u) (Eq. 129): the share of draws that break
            them is 0.
    Fails   (1) as typeset, without the brackets around d - k (a misprint); for twice the bound, for
            u that is not orthogonal to v, for k in place of d - k. (2) for min v in place of max v.
    """
    inequality = t.part("Eq. 128", 0.0, measured=fraction, controls=fraction)
    line = t.part("Eq. 129", 0.0, measured=fraction, controls=fraction)
    count = max(500, t.draws)
    for d in range(2, 9):
        v = t.rng.uniform(0.05, 3, (count, d))
        on = t.rng.random((count, d)) > 0.2
        on[:, :2] = True  # u has two entries to be orthogonal with
        raw, seen = t.rng.standard_normal((count, d)) * on, v * on
        u = raw - (raw * v).sum(-1, keepdims=True) / (seen * v).sum(-1, keepdims=True) * seen
        u_min, u_norm, v_min, v_max = u.min(-1), np.abs(u).max(-1), v.min(-1), v.max(-1)
        k = (u >= 0).sum(-1)

        # (1) Where the least entry lies above the bound.
        bound = -v_min / (d - k) * u_norm / v_max
        inequality.add(u_min > bound + 1e-12)
        typeset = -v_min * u_norm / (d - k * v_max)
        inequality.breaks(r"as typeset, $d-k\|v\|_\infty$ below", u_min > typeset + 1e-12)
        inequality.breaks("bound doubled", u_min > 2 * bound + 1e-12)
        inequality.breaks("k for d - k", u_min > -v_min * u_norm / (k * v_max) + 1e-12)
        shifted = u + 0.5 * v
        k_shifted = (shifted >= 0).sum(-1)
        its_bound = -v_min * np.abs(shifted).max(-1) / (np.maximum(d - k_shifted, 1) * v_max)
        inequality.breaks("u not orthogonal", shifted.min(-1) > its_bound + 1e-12)

        # (2) Where the sum of both terms is above 0.
        upward = v_min * np.maximum(u, 0).max(-1)
        line.add(upward + (d - k) * v_max * u_min > 1e-12)
        line.breaks("min v for max v", upward + (d - k) * v_min * u_min > 1e-12)
