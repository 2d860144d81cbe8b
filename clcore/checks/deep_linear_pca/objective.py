"""The objective of Eq. 12, and what it is without loss of (acl Sec. 4.2).

Energies by loops over sample pairs against traces of products of weights.
"""

from collections.abc import Callable

import numpy as np

from clcore import reference as ref
from clcore.checks.deep_linear_pca.flow import layers, symmetric
from clcore.ledger import Part, Trial, check, typical
from clcore.ledger.judging import Shared
from clcore.losses import contrast
from clcore.reference import Array, relative, tensors, unit
from clcore.theory import deep_linear as dl


def _layer_norm(z: Array) -> Array:
    z = z - z.mean(-1, keepdims=True)
    return z / z.std(-1, keepdims=True)


# The layers of Lemma 2, from each sample's output to the loss.
OUTPUTS: dict[str, Callable[[Array], Array]] = {"l2": unit, "LayerNorm": _layer_norm}


def output_energy(
    alpha: Array, views: tuple[Array, Array], weights: list[Array], top: Callable = np.asarray
) -> Array:
    """tr C_alpha of the outputs of a two-layer linear net with the layer `top` above, by loops."""
    W = weights[1] @ weights[0]
    z, z2 = (top(v @ W.swapaxes(-1, -2)) for v in views)
    return np.trace(ref.covariance(alpha, z, z2, z, z2), axis1=-2, axis2=-1)


def along(v: Array, hidden: int) -> list[Array]:
    """The two-layer net of unit norms W_2 W_1 = e_1 v^T, v [draws, d], with d outputs."""
    first = np.zeros((len(v), hidden, v.shape[-1]))
    second = np.zeros((len(v), v.shape[-1], hidden))
    first[:, 0], second[:, 0, 0] = v, 1.0
    return [first, second]


def _by_pairs(alpha: Array, z: Array, z2: Array) -> Array:
    """tr C_alpha[z, z], [draws], from distances."""
    return (alpha * ref.costs(*ref.distances(z, z2))).sum((-1, -2))


def _lost_by_signs(alpha: Array, views: tuple[Array, Array], tries: list, name: str) -> float:
    """What the maximiser of Eq. 12 gives away, once more: all its normalised outputs are one vector
    up to a sign, of length 1 (l2) or the root of d (LayerNorm)."""
    x, x2 = views
    v, d = np.linalg.eigh(ref.covariance(alpha, x, x2, x, x2))[1][..., -1:], x.shape[-1]
    length = 1.0 if name == "l2" else np.sqrt(d)
    here = _by_pairs(alpha, *(length * np.sign(u @ v) for u in views))
    found, centre = here, np.eye(d) - (0 if name == "l2" else 1 / d)
    for first, second in tries:
        z = [u @ first.swapaxes(-1, -2) @ second.swapaxes(-1, -2) @ centre for u in views]
        z = [length * u / np.linalg.norm(u, axis=-1, keepdims=True) for u in z]
        found = np.maximum(found, _by_pairs(alpha, *z))
    return float(np.median((found - here) / np.abs(found)))


def _three_points(printed: Part) -> None:
    """Three points at 120 degrees, stretched along one, and what two nets make of them."""
    x = np.array([[[1.1, 0.0], [-0.55, np.sqrt(0.75)], [-0.55, -np.sqrt(0.75)]]])
    alpha, eye = 1 - np.eye(3)[None], np.eye(2)
    line = along(np.array([[1.0, 0.0]]), 2)
    one, both = (
        output_energy(alpha, (x, x), w, unit).item() for w in (line, [eye[None] / 2**0.5, eye])
    )
    printed.says(one=one, both=both)
    # two pairs at distance 2, either way; 2 N^2 minus twice the square of the sum of unit vectors
    printed.confirms(one=2 * 2 * 4, both=18 - 2 * (1 - 1.1 / np.sqrt(0.55**2 + 0.75)) ** 2)


@check("acl/eq12")
def eq12(t: Trial) -> None:
    """The max player's problem at unit Frobenius norms (Eqs. 12-13).

    Given   two-layer linear nets at random weights of unit norms, fixed random alpha.
    Claim   E = tr(W X W^T) on |W_l|_F = 1: products of weights against loops over pairs of outputs;
            and the constraint loses no generality, in view of Lemma 2.
    Fails   for another X, drawn at random. The generality as printed: under an l2 or LayerNorm
            output the maximiser of Eq. 12 gives away energy against the best of twenty random nets.
            Corrected: at norms c_l the energy before the normalisation is prod c_l^2 times Eq. 12,
            and nothing is lost with weights W_l/|W_l|_F. Controls: nets along the second
            eigenvector, c_l for c_l^2, outputs after the normalisation.
    """
    count, n, d = min(t.draws, 100), 12, 3
    views = x, x2 = ref.views(t.rng, count, n, d)
    alpha = ref.random_weights(t.rng, count, n, n)

    def net() -> list[Array]:
        return [w.numpy() for w in dl.normalise(tensors(*layers(t.rng, count, (d, 4, d))))]

    more: Shared = {"controls": typical, "draws": count}
    # E by products of weights against loops over pairs; and the norms of the layers.
    weights = net()
    X = contrast.contrastive_covariance(*tensors(alpha, x, x2, x, x2))
    E = dl.energy(tensors(*weights), X).numpy()
    left = output_energy(alpha, views, weights)
    objective = t.part("objective", 1e-9, **more).add(relative(E, left, 1e-2))
    objective.add(*(np.abs((w**2).sum((-1, -2)) - 1) for w in weights))
    other = dl.energy(tensors(*weights), *tensors(symmetric(t.rng, count, d))).numpy()
    objective.breaks("another X", relative(other, left))

    vectors = np.linalg.eigh(X.numpy())[1]
    maximiser, second = (along(vectors[..., -k], 4) for k in (1, 2))
    tries = [net() for _ in range(20)]

    def lost(weights: list[Array], top: Callable) -> float:
        """Energy given away against the best of twenty random nets, relative: median over draws."""
        here = output_energy(alpha, views, weights, top)
        found = np.max([here, *(output_energy(alpha, views, w, top) for w in tries)], 0)
        return float(np.median((found - here) / np.abs(found)))

    # Corrected: loops at layers c_l W_l, before any normalisation, against prod c_l^2 E.
    scales = t.rng.uniform(0.5, 2, (2, count, 1, 1))
    scaled = [c * w for c, w in zip(scales, weights, strict=True)]
    squares = (scales**2).prod(0).ravel()
    outputs = output_energy(alpha, views, scaled)
    printed = t.part("without loss of generality", 1e-9, draws=count)
    corrected = t.corrected("without loss of generality", 1e-9, **more)
    corrected.add(relative(squares * E, outputs, 1e-2))
    corrected.breaks("$c_l$ for $c_l^2$", relative(np.sqrt(squares) * E, outputs))
    # A net that divides its weights by their norms: Eq. 12 at the quotients, which lie in Theta.
    inside = [unit(w, (-2, -1)) for w in scaled]
    corrected.add(relative(output_energy(alpha, views, inside), E, 1e-2))
    # As printed: what the maximiser of Eq. 12 loses under an output layer, and again by its signs.
    for name, top in OUTPUTS.items():
        printed.add(given := lost(maximiser, top)).says(**{name: given})
        printed.fails_by(_lost_by_signs(alpha, views, tries, name))
        printed.breaks("along the second eigenvector", lost(second, top))
        after = output_energy(alpha, views, scaled, top)
        corrected.breaks(f"{name} outputs", relative(squares * E, after))
    printed.says(plain=lost(maximiser, np.asarray))
    _three_points(printed)
