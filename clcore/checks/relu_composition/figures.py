"""Figures 4 and 5: the ends of the linear and of the ReLU flow (acl Sec. 5.1, 5.2)."""

import numpy as np

from clcore.checks.relu_composition.dynamics import ends_of, random_field
from clcore.checks.relu_composition.signed_weights import starts_of_either_sign
from clcore.ledger import Trial, check, pooled
from clcore.reference import Array, mixture


@check("acl/fig5")
def fig5(t: Trial) -> None:
    """Where one hidden node converges, linear and ReLU (Figure 5, Sec. 5.2).

    Given   one node, one field under Assumption 1, fixed alpha_ij > 0, every mode shown (Theorem 5,
            to which the caption refers, and Lemma 14); starts >= 0, M = 3, 5, 8 modes. Starts of
            either sign: M = 2, 3, 5, stronger augmentation.
    Claim   Linear: w_1 goes to the maximal eigenvector of X_alpha (one minus the cosine). ReLU: to
            a vector with only one positive entry (one minus the largest).
    Fails   where Theorem 5 does: from starts with negative entries. Corrected: from those of them
            whose energy is positive. Both by steps of the gradient and by exponentials. Controls:
            energy below 0 at the start; the linear net; the flows exchanged; under strong
            augmentation, two modes never shown.
    """
    starts_of_either_sign(t)
    linear = t.part("linear", 1e-6, controls=pooled)
    node = t.part("ReLU", 1e-6, controls=pooled)
    sizes = (3, 5, 8)
    count = t.share(len(sizes))
    for modes in sizes:
        x, *_ = random_field(t.rng, count, modes)
        gaps = np.linalg.eigvalsh(x)
        # A flow needs 1/gap of time: leave out the rare matrix with two nearly equal eigenvalues.
        x = x[(gaps[:, -1] - gaps[:, -2]) > 0.003 * np.linalg.norm(x, axis=(-2, -1))]
        start = mixture.starts(t.rng, len(x), modes)
        straight = ends_of(x, start, sticky=False, rate=0.5, steps=16_000)
        relu, top = ends_of(x, start), mixture.top(x)
        # The linear flow's end against the top eigenvector by LAPACK; the ReLU flow's, by steps and
        # by exponentials, against the nearest e_m.
        linear.add(1 - np.abs((straight * top).sum(-1)))
        linear.breaks("the other flow", 1 - np.abs((relu * top).sum(-1)))
        node.add(1 - relu.max(-1), 1 - mixture.sticky_ends(x, start)[0].max(-1))
        node.breaks("the other flow", 1 - straight.max(-1))

        # Under strong augmentation nearly every e_m has a negative energy: the ReLU flow still ends
        # at one if every mode is shown, and not otherwise.
        few, strong = min(count, 10), {"gamma": (2.5, 3.5)}
        short, *_ = random_field(t.rng, few, modes, missing=2, **strong)
        start = mixture.starts(t.rng, few, modes)
        x, *_ = random_field(t.stream("every mode shown"), few, modes, **strong)
        shown, unseen = (mixture.sticky_ends(v, start)[0] for v in (x, short))
        node.add(1 - shown.max(-1)).breaks("two modes never shown", 1 - unseen.max(-1))


@check("acl/fig4")
def fig4(t: Trial) -> None:
    """The PCA solution may be infeasible or non-optimal for ReLU (Figure 4(b)).

    Given   one field under Assumption 1, M = 2..8 modes, random X_alpha; the linear flow ends at
            the PCA vector, the top eigenvector; the ReLU flow is run from starts >= 0.
    Claim   (1) The PCA vector is infeasible for the ReLU net: it has entries of both signs. (2) It
            is at least 0.1 rad from the end of the ReLU flow. (3) It is not optimal: passed through
            the ReLU, with either sign, it has less energy than the best e_m.
    Fails   with all correlations made positive, where the PCA vector is nonnegative; (3) where
            every [X_alpha]_mm < 0, as under strong augmentation.
    """
    infeasible = t.part("infeasible", 1e-5, ">=", controls=pooled)
    differ = t.part("limits differ", 0.1, ">=", controls=pooled)
    optimal = t.part("not optimal", 1e-9, ">=", controls=pooled)
    control = "correlations made positive"
    sizes, lost, scaled = (2, 3, 5, 8), [], []
    count = t.share(len(sizes))
    for modes in sizes:
        X, *_ = random_field(t.rng, count, modes)
        start = mixture.starts(t.rng, count, modes)
        positive = np.abs(X)

        # (1) Size of the smaller sign of the PCA vector; of one sign, it is 0 or negative.
        infeasible.add(_smaller_sign(X)).breaks(control, _smaller_sign(positive))

        # (2) Angle between the ends of both flows.
        differ.add(_angle(X, start)).breaks(control, _angle(positive, start))

        # (3) Energy of the best e_m minus that of the PCA vector.
        optimal.add(_energy_lost(X)).breaks(control, _energy_lost(positive))
        scaled.append(_best_when_scaled(X))
        strong, *_ = random_field(t.stream("strong"), count, modes, gamma=(2.5, 3.5))
        negative = strong[np.diagonal(strong, axis1=-2, axis2=-1).max(-1) < 0]
        lost.append(_energy_lost(negative))
    optimal.breaks("every X_mm < 0", np.concatenate(lost))
    optimal.says(scaled=np.concatenate(scaled).mean())


def _smaller_sign(X: Array) -> Array:
    """0 or less where all entries of the top eigenvector have one sign."""
    pca = mixture.top(X)
    return np.minimum(pca.max(-1), -pca.min(-1))


def _angle(X: Array, start: Array) -> Array:
    """[draws]: between the end of the ReLU flow and the line of the PCA vector."""
    relu = ends_of(X, start, steps=3000)
    return np.arccos(np.abs((relu * mixture.top(X)).sum(-1)).clip(max=1))


def _best_when_scaled(X: Array) -> Array:
    """[draws]: whether ReLU(+-PCA vector), the sign of more energy, is along the best e_m."""
    clipped = np.stack([np.maximum(sign * mixture.top(X), 0) for sign in (1, -1)])
    draw, best = np.arange(len(X)), np.diagonal(X, axis1=-2, axis2=-1).argmax(-1)
    kept = clipped[mixture.energy(X, clipped).argmax(0), draw]
    return kept[draw, best] > (1 - 1e-9) * np.linalg.norm(kept, axis=-1)


def _energy_lost(X: Array) -> Array:
    """[draws]: energy of the best e_m minus that of ReLU(+-PCA vector), the better sign, over the
    size of X."""
    clipped = np.stack([np.maximum(sign * mixture.top(X), 0) for sign in (1, -1)])
    lost = np.diagonal(X, axis1=-2, axis2=-1).max(-1) - mixture.energy(X, clipped)
    return lost.min(0) / np.linalg.norm(X, axis=(-2, -1))
