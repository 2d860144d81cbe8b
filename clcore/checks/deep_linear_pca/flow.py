"""The flow of deep linear nets: Lemma 1, Eqs. 10 and 11, what it conserves (acl Sec. 4, 4.1).

numpy loops over samples and complex steps against `contrast` and `deep_linear`.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch

from clcore import reference as ref
from clcore.ledger import Trial, check, exact, pooled, typical
from clcore.losses import contrast
from clcore.reference import Array, relative, tensors
from clcore.theory import deep_linear as dl

DEPTHS = range(1, 7)
Layers = list[torch.Tensor]
Covariance = Callable[[Sequence[torch.Tensor]], torch.Tensor]
"""X_alpha at the weights that a path is at."""


def layers(rng: np.random.Generator, draws: int, widths: tuple[int, ...]) -> list[Array]:
    """Random W_1, ..., W_L, [draws, n_l, n_{l-1}], gains about 1."""
    return [
        rng.standard_normal((draws, high, low)) / np.sqrt(low) for low, high in pairwise(widths)
    ]


def random_widths(rng: np.random.Generator, depth: int) -> tuple[int, ...]:
    """n_0 in 3..6 and n_1, ..., n_L in 2..6."""
    return (int(rng.integers(3, 7)), *(int(n) for n in rng.integers(2, 7, depth)))


def product(weights: list[Array]) -> Array:
    """W_L ... W_1 by einsum."""
    total = weights[0]
    for w in weights[1:]:
        total = np.einsum("...ij,...jk->...ik", w, total)
    return total


def symmetric(rng: np.random.Generator, draws: int, d: int) -> Array:
    """Random symmetric [draws, d, d], neither positive nor negative."""
    a = rng.standard_normal((draws, d, d))
    return (a + a.swapaxes(-1, -2)) / 2


@check("acl/eq10")
def eq10(t: Trial) -> None:
    """The deep linear network DeepLin (Eq. 10).

    Given   random layers of width 4, L = 1..6.
    Claim   (1) z = W_L ... W_1 x: the library's outputs, layer by layer, against the product. (2)
            dz/df_l = W_{>l} = W_L ... W_{l+1}: complex steps in f_l against the library's product.
            Both proved at L = 3, widths 2.
    Fails   (1) for layers in reverse order; (2) for W_{>l+1} in place of W_{>l}.
    """
    count = t.share(len(DEPTHS))
    forward = t.part("product", 1e-10, controls=typical)
    jacobian = t.part("Jacobian", 1e-10, controls=typical, draws=count * len(DEPTHS))
    for depth in DEPTHS:
        weights = layers(t.rng, count, (4,) * (depth + 1))
        x = t.rng.standard_normal((count, 5, 4))

        # (1) Layer by layer, and by the product of all layers.
        z = dl.forward(tensors(*weights), *tensors(x)).numpy()
        forward.add(relative(x @ product(weights).swapaxes(-1, -2), z))
        if depth > 1:
            turned = x @ product(weights[::-1]).swapaxes(-1, -2)
            forward.breaks("layers in reverse order", relative(turned, z))

        # (2) Steps in f_l, carried through the layers above it.
        above = dl.above(tensors(*weights))
        for layer in range(depth):
            f = ref.stepped(t.rng.standard_normal((count, 4)))
            for w in weights[layer:]:
                f = np.einsum("bij,sbj->sbi", w, f)
            slope = np.moveaxis(f.imag / ref.STEP, 0, -1)
            jacobian.add(relative(slope, above[layer]))
            jacobian.breaks("$W_{>l+1}$", relative(slope, above[layer + 1]))

    # The proofs, in the same order.
    w1, w2, w3 = (exact.matrix(f"w{k}", 2, 2) for k in (1, 2, 3))
    x = exact.vector("x", 2)
    z, at = w3 * (w2 * (w1 * x)), "L = 3, all widths 2"
    reverse = exact.equal(z, w1 * w2 * w3 * x)
    forward.proves(exact.equal(z, w3 * w2 * w1 * x), breaks={"reverse order": reverse}, at=at)
    f1 = exact.vector("f", 2)
    slope = (w3 * (w2 * f1)).jacobian(f1)
    jacobian.proves(
        exact.equal(slope, w3 * w2), breaks={"$W_{>l+1}$": exact.equal(slope, w3)}, at=at
    )


def _stepped_distances(weights: list[Array], x: Array, x2: Array) -> tuple[Array, Array]:
    """Distances (inter, intra) of outputs, a complex step in each entry of each layer."""
    count = len(x)
    flat = np.concatenate([w.reshape(count, -1) for w in weights], -1)
    steps, cuts = ref.stepped(flat), np.cumsum([w[0].size for w in weights])[:-1]
    for w, shaped in zip(np.split(steps, cuts, -1), weights, strict=True):
        w = w.reshape(*w.shape[:-1], *shaped.shape[1:]).swapaxes(-1, -2)
        x, x2 = x @ w, x2 @ w
    return ref.distances(x, x2)


@check("acl/lem1")
def lem1(t: Trial) -> None:
    """Training dynamics of each layer of a deep linear network (Lemma 1, Eq. 11).

    Given   linear nets of depth 1..6 and random widths, no normalisation; four losses of Table 1
            on random views, N = 6.
    Claim   (1) -dL/dW_l = W_{>l}^T W_{>l} W_l C_alpha[f_{l-1}]: L by loops and complex steps
            against the library's products. (2) It is half the gradient of E_alpha, by autograd.
            (3) It is the middle expression of Eq. 38, a sum over samples, with the minus of Eq. 22.
    Fails   (1) for the factor 2, and without the augmentation term of C_alpha; (2) for the gradient
            of E itself; (3) as typeset, where the minus is missing, and without the second views.
    """
    names = ("InfoNCE", "Soft Triplet", "N+1 Tuplet", "Modified Triplet")
    table = [row for row in ref.table1() if row[0] in names]
    flow = t.part("Eq. 11", 1e-7, controls=pooled)
    half = t.part(r"half the gradient of $\mathcal E_\alpha$", 1e-7, controls=pooled)
    middle = t.part("Eq. 38, middle expression", 1e-7, controls=pooled)
    count = t.share(len(DEPTHS))
    for depth in DEPTHS:
        widths = random_widths(t.rng, depth)
        weights = layers(t.rng, count, widths)
        x, x2 = ref.views(t.rng, count, 6, widths[0])
        stepped = _stepped_distances(weights, x, x2)
        inter, intra = (distances[0].real for distances in stepped)

        def velocity(X: torch.Tensor, weights=weights) -> Array:
            return torch.cat([g.flatten(1) for g in dl.flow(tensors(*weights), X)], 1).numpy()

        for _, phi, psi in table:
            descent = -np.moveaxis(ref.family_loss(*stepped, phi, psi).imag / ref.STEP, 0, -1)
            alpha = ref.importance(inter, intra, phi, psi)

            # (1) The loss's descent against the velocity that Eq. 11 gives all layers.
            X = contrast.contrastive_covariance(*tensors(alpha, x, x2, x, x2))
            eq11 = velocity(X)
            flow.add(relative(eq11, descent)).breaks("factor 2", relative(2 * eq11, descent))
            unaugmented = contrast.contrastive_covariance(*tensors(alpha, x, x, x, x))
            flow.breaks("no augmentation term", relative(velocity(unaugmented), descent))

            # (2) Against the energy at fixed alpha.
            theta = [w.requires_grad_() for w in tensors(*weights)]
            slopes = torch.autograd.grad(dl.energy(theta, X).sum(), theta)
            gradient = np.concatenate([s.flatten(1) for s in slopes], 1)
            half.add(relative(gradient / 2, descent))
            half.breaks("the gradient of E itself", relative(gradient, descent))

            # (3) Against the sum over samples in Eq. 38.
            printed, negated, first_views = _eq38(weights, x, x2, phi, psi, descent)
            middle.add(negated).breaks("as typeset, without the minus", printed, by=typical)
            middle.breaks("second views left out", first_views)


def _eq38(weights, x, x2, phi, psi, left: Array) -> tuple[Array, Array, Array]:
    """[draws]: errors of Eq. 38's sum as printed, with a minus, and without second views."""
    lows, lows2 = [x], [x2]
    for w in weights:
        lows.append(lows[-1] @ w.swapaxes(-1, -2))
        lows2.append(lows2[-1] @ w.swapaxes(-1, -2))
    z, z2 = lows[-1], lows2[-1]
    g = ref.gradient(lambda v: ref.family_loss(*ref.distances(v, z2), phi, psi), z)
    g2 = ref.gradient(lambda v: ref.family_loss(*ref.distances(z, v), phi, psi), z2)
    first, second = [], []
    for layer in reversed(range(len(weights))):
        first.insert(0, (g.swapaxes(-1, -2) @ lows[layer]).reshape(len(x), -1))
        second.insert(0, (g2.swapaxes(-1, -2) @ lows2[layer]).reshape(len(x), -1))
        g, g2 = g @ weights[layer], g2 @ weights[layer]
    one, two = np.concatenate(first, -1), np.concatenate(second, -1)
    return relative(one + two, left), relative(-one - two, left), relative(one, left)


def _drift(weights: list[Array], velocities: list[Array]) -> list[Array]:
    """d/dt (W_l W_l^T - W_{l+1}^T W_{l+1}) from weights and their velocities."""
    out = []
    for low, dlow, high, dhigh in zip(
        weights, velocities, weights[1:], velocities[1:], strict=False
    ):
        a = dlow @ low.swapaxes(-1, -2)
        b = dhigh.swapaxes(-1, -2) @ high
        out.append(a + a.swapaxes(-1, -2) - b - b.swapaxes(-1, -2))
    return out


def _size(mats: list[Array]) -> Array:
    """[draws]: the largest entry of all matrices."""
    return np.max([np.abs(m).max((-1, -2)) for m in mats], 0)


@check("acl/num9")
def num9(t: Trial) -> None:
    """Neighbouring layers of a deep linear network stay balanced (Sec. 4.1, after Lemma 1).

    Given   the flow of Eq. 11: its velocity at random weights of norm 1 and random X, L = 2..6;
            then Runge-Kutta paths at L = 3 where alpha follows theta (Eq. 6).
    Claim   d/dt D = 0, D = W_l W_l^T - W_{l+1}^T W_{l+1}, and D stays along the paths. Under the
            constraint |W_l|_F = 1 it obeys D' = -2 E D instead (also checked).
    Fails   if one layer moves twice as fast; under the norm constraint, taken as conserved.
    """
    depths = range(2, 7)
    count = t.share(len(depths))
    rate = t.part("rate", 1e-10, controls=typical, draws=count * len(depths))
    for depth in depths:
        widths = random_widths(t.rng, depth)
        weights = [w.numpy() for w in dl.normalise(tensors(*layers(t.rng, count, widths)))]
        X = symmetric(t.rng, count, widths[0])
        moves = [m.numpy() for m in dl.flow(tensors(*weights), *tensors(X))]
        scale = _size(moves)
        # The rate of D by the product rule, from the library's velocity: 0.
        rate.add(_size(_drift(weights, moves)) / scale)
        fast = _size(_drift(weights, [2 * moves[0], *moves[1:]])) / scale
        rate.breaks("first layer twice as fast", fast)
        # On the spheres the rate of D is -2 E D, with E by numpy.
        inside = [m.numpy() for m in dl.tangent(tensors(*weights), tensors(*moves))]
        shrinks = _drift(weights, inside)
        rate.breaks(r"constrained to $\|W_l\|_F=1$", _size(shrinks) / scale)
        E = np.einsum("bij,bjk,bik->b", product(weights), X, product(weights))[:, None, None]
        gaps = _drift(weights, weights)  # twice W_l W_l^T - W_{l+1}^T W_{l+1}
        rate.add(_size([a + E * b for a, b in zip(shrinks, gaps, strict=True)]) / scale)
    _num9_path(t, min(t.draws, 20))


def runge_kutta(weights: Layers, velocity: Callable[[Layers], Layers], h: float, n: int) -> Layers:
    """n classical steps of size h along a velocity."""

    def moved(ws: Layers, h: float, k: Layers) -> Layers:
        return [w + h * v for w, v in zip(ws, k, strict=True)]

    ws = weights
    for _ in range(n):
        k1 = velocity(ws)
        k2 = velocity(moved(ws, h / 2, k1))
        k3 = velocity(moved(ws, h / 2, k2))
        k4 = velocity(moved(ws, h, k3))
        ws = [
            w + h / 6 * (a + 2 * b + 2 * c + d)
            for w, a, b, c, d in zip(ws, k1, k2, k3, k4, strict=True)
        ]
    return ws


def _num9_path(t: Trial, count: int) -> None:
    x, x2 = ref.views(t.rng, count, 6, 4)
    weights = list(tensors(*layers(t.rng, count, (4, 5, 3, 2))))
    X = following(x, x2, 0.5)

    def drift(speed: float) -> torch.Tensor:
        """[draws]: how far D ends from its start, the first layer's velocity times speed."""

        def velocity(ws: Layers) -> Layers:
            moves = dl.flow(ws, X(ws) / 300)  # slower, in time alone
            return [speed * moves[0], *moves[1:]]

        ends = runge_kutta(weights, velocity, 0.01, 100)
        return (_balance(ends) - _balance(weights)).abs().amax(1)

    trajectory = t.part("trajectory", 1e-6).add(drift(1.0))
    trajectory.breaks("first layer twice as fast", drift(2.0).median())


def following(x: Array, x2: Array, tau: float) -> Covariance:
    """X_alpha of these views where alpha follows the weights as InfoNCE has it (Eq. 6)."""
    first, second = tensors(x, x2)

    def X(ws: Sequence[torch.Tensor]) -> torch.Tensor:
        inter = contrast.inter_distances(dl.forward(ws, first)) / tau
        alpha = torch.softmax(contrast.off_diagonal(-inter, -torch.inf), -1)
        return contrast.contrastive_covariance(alpha, first, second, first, second)

    return X


def _balance(ws: Layers) -> torch.Tensor:
    """[draws, ...]: all W_l W_l^T - W_{l+1}^T W_{l+1}."""
    return torch.cat([(a @ a.mT - b.mT @ b).flatten(1) for a, b in pairwise(ws)], 1)
