"""acl Theorem 6 and its remark: which of the two solutions has more energy.

The energies are those of `relu_composition.energy`.
"""

import numpy as np

from clcore.checks.relu_composition import exact_mixtures
from clcore.checks.relu_composition.energy import (
    SETTINGS,
    Energies,
    added,
    models,
    one_field,
    prior,
    salient,
    strong,
    weak,
)
from clcore.ledger import Trial, check, fraction, pooled
from clcore.ledger.judging import Shared
from clcore.reference import Array, relative

OF_MODELS: Shared = {"measured": fraction, "controls": fraction}


def loses(e: Energies, against: Array) -> Array:
    """[draws]: whether E(theta_Omega) > `against` fails, beyond rounding."""
    return e.whole - against <= 1e-13 * (1 + np.abs(against))


def ties(e: Energies) -> Array:
    """[draws]: whether E(theta_Omega) < the largest E(theta_m) fails, beyond rounding."""
    return e.whole >= largest(e) - 1e-13


def largest(e: Energies) -> Array:
    """The largest E(theta_m), [draws]."""
    return e.single.max((-1, -2))


def most_salient(e: Energies) -> Array:
    """E(theta_m) of the largest |Delta_m| of all, [draws]."""
    count = len(e.delta)
    place = np.abs(e.delta).reshape(count, -1).argmax(-1)[:, None]
    return np.take_along_axis(e.single.reshape(count, -1), place, -1)[:, 0]


def below(e: Energies) -> Array:
    """[draws]: `loses` under the printed D_aug, in closed form: whether the mean of p0 p1 Delta^2
    over salient features, minus what the added terms take from it, is at most some -(1 - p0 p1)
    Delta_m^2 - eta_m."""
    single = (e.scale[:, None, None] - 1) * e.delta**2 - e.eta.reshape(e.delta.shape)
    return e.scale * (salient(e.delta) ** 2).mean(-1) - added(e) <= single.max((-1, -2)) + 1e-13


@check("acl/thm6")
def thm6(t: Trial) -> None:
    """Strong augmentation favours feature composition, weak one feature (Theorem 6).

    Given   disjoint fields, K = 2..12, random binary latent models, X_alpha of Eq. 17; weak D_aug
            = diag(D_V), strong diag(D_V) + diag^2(Delta) + eta I, eta in {0, 0.01, 0.2}.
    Claim   Weak: E(theta_Omega) < E(theta_m*). Strong: E(theta_Omega) > E(theta_m) for every
            feature m, m* included. The share of models that break it is 0; weak, and strong
            against m*, also proved.
    Fails   strong as printed, for features that are not the largest. Corrected: p0 p1 on
            diag^2(Delta). Against m* it holds as printed. Controls: the other half's D_aug; equal
            salient features (weak); all of Delta in one field at eta = 0 (strong).
    """
    count = t.share(len(SETTINGS))
    half = t.part("weak", 0.0, **OF_MODELS)
    for fields, modes in SETTINGS:
        model = models(t.rng, count, fields, modes)
        # Weak: whether E(theta_Omega) is not below E(theta_m*).
        e = weak(model)
        half.add(ties(e))
        other = strong(model, 0.2 * prior(model), corrected=True)
        half.breaks("strong augmentation", other.whole >= most_salient(other))
        level = e.delta * (0.3 / salient(e.delta))[..., None]
        half.breaks("equal salient features", ties(weak(model, level)))
    half.proves(**exact_mixtures.weak_half())
    strong_half(t)


def strong_half(t: Trial) -> None:
    """The strong half as printed, with p0 p1, and against m* alone; for acl/num20, too."""
    etas = (0.0, 0.01, 0.2)
    count = t.share(len(etas) * len(SETTINGS))
    printed, right = t.both("strong", 0.0, **OF_MODELS)
    top = t.part("strong, against the dominant feature", 0.0, **OF_MODELS)
    for fields, modes in SETTINGS:
        for eta in etas:
            model = models(t.rng, count, fields, modes)
            # As printed: against every feature, then against m* alone.
            e = strong(model, eta, corrected=False)
            wrong = loses(e, largest(e))
            printed.add(wrong).fails_by(below(e))
            right.breaks("terms not times p0 p1", wrong)
            top.add(loses(e, most_salient(e)))
            # Proved for every K: at least (1 - p0 p1 - 1/K) of the largest Delta^2.
            least = (1 - e.scale - 1 / fields) * (e.delta**2).max((-1, -2))
            top.add(e.whole - most_salient(e) < least - 1e-13)
            # With p0 p1 on diag^2(Delta); the controls.
            e = strong(model, eta, corrected=True)
            right.add(loses(e, largest(e)))
            flat = weak(model)
            for part, other in ((printed, largest(flat)), (top, most_salient(flat))):
                part.breaks("weak augmentation", loses(flat, other))
            right.breaks("weak augmentation", loses(flat, largest(flat)))
            # At eta = 0 both energies are 0 if Delta has no nonzero entry outside one field.
            e = strong(model, eta, True, one_field(e.delta))
            wrong = loses(e, largest(e))
            if eta:
                right.add(wrong)
            else:
                right.breaks("all of Delta in one field, eta = 0", wrong)
    top.proves(**exact_mixtures.strong_against_top())


@check("acl/rem5")
def rem5(t: Trial) -> None:
    """Strong augmentation of unequal strength still favours composition (Remarks after Theorem 6,
    Eqs. 77-82).

    Given   random latent models, K = 2..12; the strong D_aug = diag(D_V) + diag^2(Delta) +
            diag(eta) with a vector eta >= 0, min eta > |eta|_inf/K.
    Claim   (1) E(theta_Omega), all fields composed, is above E(theta_m) of every single feature m:
            the share of models where it is not is 0. (2) E(theta_Omega), from X_alpha, is the right
            side of Eq. 78. (3) Each link of Eqs. 80-82, from there down to the largest E(theta_m),
            holds.
    Fails   (1) and (2) as printed. Corrected: p0 p1 before diag^2(Delta), for (2) before diag(eta)
            as well. Controls: p0 p1 left out; eta ignored in Eq. 78; an eta whose least entry is 0,
            at the feature with the smallest |Delta_m|, all others 4.
    """
    count = max(4, t.share(len(SETTINGS)))
    total: Shared = {"draws": count * len(SETTINGS)}
    printed, right = conclusion = t.both("conclusion", 0.0, **(OF_MODELS | total))
    equation, factor = t.both("Eqs. 78, 79", 1e-10, controls=pooled, **total)
    chain = t.part("Eqs. 80-82", 1e-12, controls=pooled, **total)
    missing, broken = "terms not times p0 p1", "bound on eta broken"
    for fields, modes in SETTINGS:
        model = models(t.rng, count, fields, modes)
        low = t.rng.uniform(1 / fields, 1.0, (count, 1)) + 0.01
        size = t.rng.uniform(0.001, 0.02, (count, 1))  # small: there the p0 p1 matters most
        eta = size * (low + (1 - low) * t.rng.random((count, fields * modes))).clip(max=1.0)
        typeset = strong(model, eta, corrected=False)
        e = strong(model, eta * prior(model), corrected=True)  # p0 p1 before both terms

        # (1) E(theta_Omega) against the largest E(theta_m): as typeset,
        beaten = loses(typeset, largest(typeset))
        printed.add(beaten).fails_by(below(typeset))
        right.breaks(missing, beaten)
        # with p0 p1 before diag^2(Delta) alone, Delta in all fields or in one, and before both.
        for delta in (typeset.delta, one_field(typeset.delta)):
            alone = strong(model, eta, True, delta)
            right.add(loses(alone, largest(alone)))
        right.add(loses(e, largest(e)))

        # (2) E(theta_Omega) against Eq. 78.
        value = _eq78(typeset, eta)
        gap = relative(typeset.whole, value, 1e-3)
        size = np.maximum(np.abs(value), 1e-3)
        equation.add(gap).fails_by((1 - typeset.scale) * added(typeset) / size)
        equation.breaks("eta ignored", relative(e.whole, _eq78(e, 0 * eta), 1e-3))
        factor.add(relative(e.whole, _eq78(e, eta), 1e-3)).breaks(missing, gap)

        # (3) From Eq. 78 down to the bound on its eta, to the least eta, to the largest E(theta_m).
        bound, least = -e.scale / fields * eta.max(-1), -e.scale * eta.min(-1)
        slack = [_eq78(e, eta) - bound, bound - least, least - largest(e)]
        chain.add(np.max([-s for s in slack], 0) / e.scale)

        # One feature that is not augmented at all, all others strongly: the bound is broken.
        steep = np.full_like(eta, 4.0)
        steep[np.arange(count), np.abs(e.delta).reshape(count, -1).argmin(-1)] = 0.0
        uneven = strong(model, steep * prior(model), corrected=True)
        conclusion.breaks(broken, loses(uneven, largest(uneven)))
        chain.breaks(broken, steep.max(-1) / fields - steep.min(-1))


def _eq78(e: Energies, eta: Array) -> Array:
    """The right side of Eq. 78, [draws]; eta: [draws, Kd]."""
    a, chosen = salient(e.delta) ** 2, np.abs(e.delta).argmax(-1)
    mine = np.take_along_axis(eta.reshape(e.delta.shape), chosen[..., None], -1)[..., 0]
    total = a.sum(-1)
    return e.scale / (e.delta.shape[1] * total) * (total**2 - (a * (a + mine)).sum(-1))
