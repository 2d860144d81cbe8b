"""The gradient of a contrastive loss: its weights alpha, Eq. 5, Theorem 1, the energy (acl Sec. 3).

InfoNCE's own weights (Eq. 6 and their row sums) stand here too, the family's are in
`minmax.family`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import torch

from clcore import losses
from clcore import reference as ref
from clcore.ledger import Check
from clcore.losses import contrast
from clcore.reference import Array, absolute, best, relative, tensors, worst

TAUS = (0.1, 0.5, 2.0)


def eq4(draws: int, seed: int) -> Iterator[Check]:
    """alpha_ij of Eq. 4 is -dL/dd_ij, its row sum is dL/dd_i, and it is not negative.

    Controls: phi' dropped, d_ij - d_i in place of d_i - d_ij, the pair j = i kept in the sum.
    """
    rng = ref.generator("eq4", seed)
    inter, intra = 4 * rng.random((draws, 6, 6)), 4 * rng.random((draws, 6))
    off = ~np.eye(6, dtype=bool)
    alphas, betas, least = [], [], []
    for (_, phi, psi), pair in zip(ref.table1(), losses.table1(), strict=True):
        ours = contrast.importance_of_distances(*tensors(inter, intra), pair)
        by_inter = (
            -ref.gradient(lambda x, f=phi, g=psi: ref.family_loss(x, intra, f, g), inter) * off
        )
        by_intra = ref.gradient(lambda x, f=phi, g=psi: ref.family_loss(inter, x, f, g), intra)
        alphas.append(relative(ours, by_inter, 1.0))
        alphas.append(
            relative(
                contrast.importance_by_autograd(*tensors(inter, intra), pair)[0], by_inter, 1.0
            )
        )
        betas.append(relative(contrast.row_mass(ours), by_intra, 1.0))
        least.append(ours.numpy().min())
        if pair.name == "InfoNCE":
            gaps = intra[..., None] - inter
            full = psi(gaps).sum(-1, keepdims=True)
            flipped = (psi(-gaps) * off).sum(-1, keepdims=True)
            broken = {
                "phi' dropped": ref.slope(psi, gaps) * off,
                "sign of the gap": ref.slope(phi, flipped) * ref.slope(psi, -gaps) * off,
                "j = i kept": ref.slope(phi, full) * ref.slope(psi, gaps) * off,
            }
            control = {name: best(relative(value, by_inter, 1.0)) for name, value in broken.items()}
            wrong_beta = relative(contrast.row_mass(ours.transpose(-1, -2)), by_intra, 1.0)
    check = partial(Check, "acl/eq4", draws=draws)
    yield check(
        worst(*alphas),
        1e-8,
        control,
        part="alpha",
        note="Eight rows of Table 1; relative to the larger of 1 and the largest weight.",
    )
    yield check(worst(*betas), 1e-8, {"column sums": best(wrong_beta)}, part="beta")
    decreasing = losses.Pair(
        "", lambda x: x, lambda x: -x, torch.ones_like, lambda x: -torch.ones_like(x)
    )
    negative = contrast.importance_of_distances(*tensors(inter, intra), decreasing)
    yield check(
        float(min(least)),
        0.0,
        {"a decreasing psi": float(negative.min())},
        relation=">=",
        part="sign",
    )


def eq5(draws: int, seed: int) -> Iterator[Check]:
    """C_alpha[a, b] as matrix products equals the double loop; it is bilinear, C[a, a] symmetric.

    Controls: the second term added, alpha transposed, 1/2 in front; a nonlinear map of a.
    """
    check = partial(Check, "acl/eq5", draws=draws)
    rng = ref.generator("eq5", seed)
    alpha = ref.random_weights(rng, draws, 7, 7)
    a, a2 = ref.views(rng, draws, 7, 3)
    b, b2 = ref.views(rng, draws, 7, 4)
    loops = ref.covariance(alpha, a, a2, b, b2)
    ours = contrast.contrastive_covariance(*tensors(alpha, a, a2, b, b2)).numpy()
    swapped = contrast.contrastive_covariance(*tensors(alpha.swapaxes(-1, -2), a, a2, b, b2))
    yield check(
        worst(relative(ours, loops)),
        1e-12,
        {
            "second term added": best(relative(ours, ref.covariance(alpha, a, a2, b, b2, sign=-1))),
            "alpha transposed": best(relative(swapped, loops)),
            "1/2 in front": best(relative(ours / 2, loops)),
        },
        part="formula",
    )
    w = rng.standard_normal((draws, 5, 3))
    turn = w.swapaxes(-1, -2)
    mapped = contrast.contrastive_covariance(*tensors(alpha, a @ turn, a2 @ turn, b, b2))
    bent = contrast.contrastive_covariance(
        *tensors(alpha, np.tanh(a @ turn), np.tanh(a2 @ turn), b, b2)
    )
    yield check(
        worst(relative(mapped, w @ loops)),
        1e-12,
        {"tanh of W a": best(relative(bent, w @ loops))},
        part="bilinear",
    )
    square = contrast.contrastive_covariance(*tensors(alpha, a, a2, a, a2)).numpy()
    mixed = contrast.contrastive_covariance(*tensors(alpha, a, a2, b[..., :3], b2[..., :3])).numpy()
    yield check(
        worst(relative(square, square.swapaxes(-1, -2))),
        1e-12,
        {"C[a, b], b another variable": best(relative(mixed, mixed.swapaxes(-1, -2)))},
        part="symmetric",
        note=r"$\mathbb C_\alpha[a]$ is symmetric although $\alpha$ is not.",
    )


def thm1(draws: int, seed: int) -> Iterator[Check]:
    """dL/dtheta = -1/2 dE_alpha/dtheta with alpha held at alpha(theta), through random nets.

    Left: complex steps in theta through numpy. Right: autograd of the energy, alpha from Eq. 4 in
    numpy. Controls: alpha off by 1%, gradient through alpha, factor 1, alpha of other parameters.
    """
    check = partial(Check, "acl/thm1", draws=draws)
    rng, errors = ref.generator("thm1", seed), []
    broken: dict[str, list[Array]] = defaultdict(list)
    nets = [("linear", (4, 5, 3)), ("tanh", (4, 5, 4, 3)), ("relu", (5, 6, 4))]
    count = ref.share(draws, len(nets) * len(TAUS))
    for k, (name, widths) in enumerate(nets):
        for tau in TAUS:
            n = 4 + 2 * k
            x, x2 = ref.views(rng, count, n, widths[0])
            theta = ref.net_parameters(rng, count, widths)
            steps = ref.stepped(theta)
            moved = ref.distances(ref.net(steps, x, name, widths), ref.net(steps, x2, name, widths))
            inter, intra = (m[0].real for m in moved)
            tx, tx2, t_theta = tensors(x, x2, theta)

            def ascent(alpha, tx=tx, tx2=tx2, t_theta=t_theta, name=name, widths=widths):
                def total(t):
                    z, z2 = ref.net(t, tx, name, widths), ref.net(t, tx2, name, widths)
                    a = alpha(z, z2) if callable(alpha) else alpha
                    return contrast.energy(a, z, z2).sum()

                return -0.5 * torch.func.grad(total)(t_theta).numpy()

            for (row, phi, psi), pair in zip(ref.table1(tau), losses.table1(tau), strict=True):
                left = np.moveaxis(ref.family_loss(*moved, phi, psi).imag / ref.STEP, 0, -1)
                alpha = ref.importance(inter, intra, phi, psi)
                right = ascent(*tensors(alpha))
                errors.append(relative(right, left))
                if row == "InfoNCE":
                    off = 1 + 0.01 * np.sign(rng.standard_normal(alpha.shape))
                    other = np.roll(alpha, 1, axis=-1) * ~np.eye(n, dtype=bool)
                    through = ascent(lambda z, z2, p=pair: contrast.pairwise_importance(z, z2, p))
                    broken["alpha off by 1%"].append(relative(ascent(*tensors(alpha * off)), left))
                    broken["through alpha"].append(relative(through, left))
                    broken["factor 1"].append(relative(2 * right, left))
                    broken["alpha of another theta"].append(relative(ascent(*tensors(other)), left))
    yield check(
        worst(*errors),
        1e-7,
        ref.least(broken),
        draws=count * 9,
        note=r"All rows of Table 1; linear, tanh and ReLU nets; $\tau$ in {0.1, 0.5, 2}.",
    )


def eq23(draws: int, seed: int) -> Iterator[Check]:
    """-dL/dtheta = C_alpha[dz/dtheta, z^T], dE_alpha/dtheta is twice that, scalars commute.

    Per-sample Jacobians by complex steps put into Eq. 5 by loops, against autograd of L and E.
    Controls: the augmentation term dropped, factor 1, vectors in place of scalars.
    """
    rng, n, widths = ref.generator("eq23", seed), 6, (4, 4, 3)
    x, x2 = ref.views(rng, draws, n, 4)
    theta = ref.net_parameters(rng, draws, widths)
    steps = ref.stepped(theta)
    z, z2 = ref.net(theta, x, "tanh", widths), ref.net(theta, x2, "tanh", widths)
    jacobian, jacobian2 = (ref.net(steps, v, "tanh", widths).imag / ref.STEP for v in (x, x2))
    _, phi, psi = ref.table1()[0]
    alpha = ref.importance(*ref.distances(z, z2), phi, psi)

    def loops(second: float) -> Array:
        """C_alpha[dz/dtheta, z^T]: [parameters, draws]."""
        total = 0.0
        for i in range(n):
            beta = alpha[:, i].sum(-1)
            inner = (jacobian[..., i, :] - jacobian2[..., i, :]) * (z[:, i] - z2[:, i])
            total = total - second * beta * inner.sum(-1)
            for j in range(n):
                inner = (jacobian[..., i, :] - jacobian[..., j, :]) * (z[:, i] - z[:, j])
                total = total + alpha[:, i, j] * inner.sum(-1)
        return total

    tx, tx2, t_theta, t_alpha = tensors(x, x2, theta, alpha)
    pair = losses.infonce_pair()

    def of_theta(f: Callable) -> Array:
        def total(t):
            return f(ref.net(t, tx, "tanh", widths), ref.net(t, tx2, "tanh", widths)).sum()

        return torch.func.grad(total)(t_theta).numpy()

    c = loops(1.0).T
    loss = of_theta(lambda a, b: contrast.family_loss(a, b, pair))
    power = of_theta(lambda a, b: contrast.energy(t_alpha, a, b))
    check = partial(Check, "acl/eq23", draws=draws)
    yield check(
        worst(relative(-loss, c)),
        1e-6,
        {
            "augmentation term dropped": best(relative(-loss, loops(0.0).T)),
            "sign": best(relative(loss, c)),
        },
        part="loss",
    )
    yield check(
        worst(relative(power, 2 * c)), 1e-6, {"factor 1": best(relative(power, c))}, part="energy"
    )
    weights = ref.random_weights(rng, draws, n, n)
    one, two = ref.covariance(weights, z, z2, x, x2), ref.covariance(weights, x, x2, z, z2)
    scalars = relative(one[:, :1, :1], two[:, :1, :1], floor=1.0)  # a scalar may be near zero
    yield check(
        worst(scalars),
        1e-12,
        {"vectors, no transpose": best(relative(one[:, :3, :3], two[:, :3, :3]))},
        part="scalars commute",
    )


def _loss_gradients(z: Array, z2: Array, phi: Callable, psi: Callable) -> tuple[Array, Array]:
    """(dL/dz, dL/dz2) by complex steps through the loops of Eq. 1."""

    def loss(a: Array, b: Array) -> Array:
        return ref.family_loss(*ref.distances(a, b), phi, psi)

    return ref.gradient(lambda a: loss(a, z2), z), ref.gradient(lambda b: loss(z, b), z2)


def lem5(draws: int, seed: int) -> Iterator[Check]:
    """sum_i dL/dz[i] A[i]^T + dL/dz[i'] A[i']^T = -C_alpha[z, A], and its mirror image.

    A runs over vectors (first form) and matrices (second form). alpha_ii is arbitrary.
    Controls: the second-view term dropped, the sign, alpha_ii counted in beta.
    """
    rng, n = ref.generator("lem5", seed), 7
    z, z2 = ref.views(rng, draws, n, 3)
    a, a2 = rng.standard_normal((2, draws, n, 4))
    _, phi, psi = ref.table1()[0]
    g, g2 = _loss_gradients(z, z2, phi, psi)
    alpha = ref.importance(*ref.distances(z, z2), phi, psi)
    first = g.swapaxes(-1, -2) @ a
    left = first + g2.swapaxes(-1, -2) @ a2
    right = -contrast.contrastive_covariance(*tensors(alpha, z, z2, a, a2)).numpy()
    check = partial(Check, "acl/lem5", draws=draws)
    yield check(
        worst(absolute(left, right)),
        1e-7,
        {"second view dropped": best(absolute(first, right)), "sign": best(absolute(left, -right))},
        part="z, A",
    )
    # Second form, with a 4 x 3 matrix A[i] a sample: sum_i A[i] dL/dz[i] + A[i'] dL/dz[i'].
    m, m2 = rng.standard_normal((2, draws, n, 4, 3))
    left = (m @ g[..., None] + m2 @ g2[..., None]).sum(1)[..., 0]
    right = 0.0
    for i in range(n):
        beta = alpha[:, i].sum(-1)[:, None]
        right = right + beta * ((m[:, i] - m2[:, i]) @ (z[:, i] - z2[:, i])[..., None])[..., 0]
        for j in range(n):
            step = (m[:, i] - m[:, j]) @ (z[:, i] - z[:, j])[..., None]
            right = right - alpha[:, i, j, None] * step[..., 0]
    yield check(
        worst(absolute(left, right)), 1e-7, {"sign": best(absolute(left, -right))}, part="A, z^T"
    )
    diagonal = alpha + rng.random((draws, n))[..., None] * np.eye(n)

    def both_sums(weights: Array, beta: Array) -> Array:
        total = 0.0
        for i in range(n):
            near = (z[:, i] - z2[:, i])[..., :, None] * (a[:, i] - a2[:, i])[..., None, :]
            total = total - beta[:, i, None, None] * near
            for j in range(n):
                far = (z[:, i] - z[:, j])[..., :, None] * (a[:, i] - a[:, j])[..., None, :]
                total = total + weights[:, i, j, None, None] * far
        return total

    plain = both_sums(alpha, alpha.sum(-1))
    yield check(
        worst(absolute(both_sums(diagonal, alpha.sum(-1)), plain)),
        1e-7,
        {"alpha_ii in beta": best(absolute(both_sums(diagonal, diagonal.sum(-1)), plain))},
        part="any alpha_ii",
        note=r"With $i,j$ over all pairs; $\beta_i$ still leaves $j=i$ out.",
    )


def eq88(draws: int, seed: int) -> Iterator[Check]:
    """The gradient of L in z[i] and z[i'] in closed form, for all rows of Table 1.

    Controls: z[i] in place of z[i'], the alpha_ji term dropped, alpha not transposed there.
    """
    rng, n = ref.generator("eq88", seed), 6
    z, z2 = ref.views(rng, draws, n, 3)
    distances = ref.distances(z, z2)
    errors, broken, seconds, wrong_seconds = [], {}, [], []

    def closed(alpha: Array, centre: Array, back: Array) -> Array:
        pull = alpha @ z - alpha.sum(-1, keepdims=True) * centre
        return pull + back @ z - back.sum(-1, keepdims=True) * z

    for name, phi, psi in ref.table1():
        alpha = ref.importance(*distances, phi, psi)
        g, g2 = _loss_gradients(z, z2, phi, psi)
        turned = alpha.swapaxes(-1, -2)
        errors.append(relative(closed(alpha, z2, turned), g, 1.0))
        second = alpha.sum(-1, keepdims=True) * (z2 - z)
        seconds.append(relative(second, g2, 1.0))
        if name == "InfoNCE":
            broken = {
                "z[i] for z[i']": best(relative(closed(alpha, z, turned), g, 1.0)),
                "no alpha_ji term": best(relative(closed(alpha, z2, 0 * turned), g, 1.0)),
                "alpha_ij for alpha_ji": best(relative(closed(alpha, z2, alpha), g, 1.0)),
            }
            wrong_seconds = [relative(turned.sum(-1, keepdims=True) * (z2 - z), g2, 1.0)]
    check = partial(Check, "acl/eq88", draws=draws)
    yield check(worst(*errors), 1e-8, broken, part="first view")
    yield check(
        worst(*seconds), 1e-8, {"column sums for beta": best(*wrong_seconds)}, part="second view"
    )


def eq27(draws: int, seed: int) -> Iterator[Check]:
    """E_alpha = sum alpha_ij (|z_i - z_j|^2 - |z_i - z_i'|^2) = 2 sum alpha_ij (d_ij - d_i).

    Hence it is linear in alpha. Controls: factor 1, the second term added, E - R_H in place of E.
    """
    rng, n = ref.generator("eq27", seed), 9
    z, z2 = ref.views(rng, draws, n, 4)
    alpha, other = ref.random_weights(rng, draws, n, n), ref.random_weights(rng, draws, n, n)
    trace = np.trace(ref.covariance(alpha, z, z2, z, z2), axis1=-2, axis2=-1)
    inter, intra = ref.distances(z, z2)
    middle = sum(
        alpha[:, i, j] * (((z[:, i] - z[:, j]) ** 2).sum(-1) - ((z[:, i] - z2[:, i]) ** 2).sum(-1))
        for i in range(n)
        for j in range(n)
        if i != j
    )
    ours = contrast.energy(*tensors(alpha, z, z2)).numpy()
    scale = float(np.abs(trace).mean())
    wrong = 2 * (alpha * (inter + intra[..., None])).sum((-1, -2))
    check = partial(Check, "acl/eq27", draws=draws)
    yield check(
        worst(relative(middle, trace, scale), relative(ours, trace, scale)),
        1e-12,
        {
            "factor 1": best(relative(ours / 2, trace, scale)),
            "second term added": best(relative(wrong, trace, scale)),
        },
        part="energy",
        note="Relative to the mean size of E.",
    )

    def power(weights: Array, regularised: bool = False) -> Array:
        value = contrast.energy(*tensors(weights, z, z2)).numpy()
        off = ref.off(weights)
        return value + (off * np.log(off)).sum((-1, -2)) if regularised else value

    s, t = 0.7, 1.9

    def bend(regularised: bool) -> Array:
        mixed = power(s * alpha + t * other, regularised)
        return relative(s * power(alpha, regularised) + t * power(other, regularised), mixed, scale)

    yield check(worst(bend(False)), 1e-12, {"E - R_H": best(bend(True))}, part="linear in alpha")


def eq6(draws: int, seed: int) -> Iterator[Check]:
    """InfoNCE with eps = 0: alpha is a softmax of -d_ij/tau, rows sum to 1, d_i plays no part.

    Controls: tau doubled, eps = 1, linear psi.
    """
    rng = ref.generator("eq6", seed)
    z, z2 = ref.views(rng, draws, 8, 3)
    tz, moved_views = tensors(z, z2), tensors(z, z + 0.5 * rng.standard_normal(z.shape))
    ones = np.ones(z.shape[:2])
    inter, intra = ref.distances(z, z2)
    errors, sums, moved, order = [], [], [], []
    broken: dict[str, list[Array]] = defaultdict(list)
    for tau in (0.05, 0.1, 0.5, 2.0):
        printed = ref.softmax(inter, tau)
        definition = ref.importance(inter, intra, *ref.table1(tau, 0.0)[0][1:])
        pair, kept = losses.infonce_pair(tau, 0.0), losses.infonce_pair(tau, 1.0)
        ours = contrast.pairwise_importance(*tz, pair)
        errors += [relative(printed, definition), relative(ours, printed)]
        sums.append(absolute(ours.sum(-1), ones))
        moved.append(relative(contrast.pairwise_importance(*moved_views, pair), ours))
        one = contrast.pairwise_importance(*tz, kept)
        broken["2 tau"].append(relative(ref.softmax(inter, 2 * tau), definition))
        broken["eps = 1"].append(relative(one, definition))
        broken["sums"].append(absolute(one.sum(-1), ones))
        broken["moved"].append(relative(contrast.pairwise_importance(*moved_views, kept), one))
        order.append(ref.disorder(ours.numpy(), inter))
    flat = contrast.pairwise_importance(*tz, losses.linear_pair()).numpy()
    check = partial(Check, "acl/eq6", draws=draws)
    yield check(
        worst(*errors),
        1e-8,
        {"tau doubled": best(*broken["2 tau"]), "eps = 1": best(*broken["eps = 1"])},
        part="formula",
    )
    yield check(worst(*sums), 1e-12, {"eps = 1": best(*broken["sums"])}, part="beta = 1")
    yield check(
        worst(*moved),
        1e-12,
        {"eps = 1": best(*broken["moved"])},
        part="no d_i",
        note="Change of alpha when the second views are replaced.",
    )
    yield check(
        float(sum(order)),
        0.0,
        {"linear psi": float(ref.disorder(flat, inter))},
        part="close pairs first",
        note="Neighbours in a row's order of distance whose weights do not strictly fall, or are "
        "not positive.",
    )


def num2(draws: int, seed: int) -> Iterator[Check]:
    """InfoNCE's row sums are xi/(xi + eps): separated samples are discounted, unless eps = 0.

    Controls: eps doubled; eps = 0 on the same path of a sample that moves away.
    """
    rng = ref.generator("num2", seed)
    z, z2 = ref.views(rng, draws, 8, 3)
    inter, intra = ref.distances(z, z2)
    errors, wrong = [], []
    for tau in (0.2, 0.5, 1.0):
        for eps in (0.0, 0.3, 1.0):
            xi = np.exp(ref.off(intra[..., None] - inter) / tau).sum(-1)
            ours = contrast.row_mass(
                contrast.pairwise_importance(*tensors(z, z2), losses.infonce_pair(tau, eps))
            )
            errors.append(absolute(ours, xi / (xi + eps)))
            if eps:
                wrong.append(absolute(ours, xi / (xi + 2 * eps)))
    check = partial(Check, "acl/num2", draws=draws)
    yield check(worst(*errors), 1e-12, {"eps doubled": best(*wrong)}, part="row sums")
    # Sample 0 starts outside the others, moves away by factors 1, 2, 4, 8 and pulls its views
    # together by the same factors.
    direction = z[:, 0] / np.linalg.norm(z[:, 0], axis=-1, keepdims=True)
    radius = 0.5 + np.linalg.norm(z, axis=-1).max(-1, keepdims=True)
    masses: dict[float, list[Array]] = {0.0: [], 1.0: []}
    for factor in (1, 2, 4, 8):
        a, b = z.copy(), z2.copy()
        a[:, 0] = factor * radius * direction
        b[:, 0] = a[:, 0] + (z2[:, 0] - z[:, 0]) / factor
        for eps, path in masses.items():
            alpha = contrast.pairwise_importance(*tensors(a, b), losses.infonce_pair(2.0, eps))
            path.append(contrast.row_mass(alpha)[:, 0].numpy())
    ratio = {
        eps: np.stack([after / before for before, after in pairwise(path)])
        for eps, path in masses.items()
    }
    yield check(
        worst(ratio[1.0]),
        0.999,
        {"eps = 0": best(ratio[0.0])},
        part="discount",
        note="Largest ratio of a sample's row sum to the one before, as it moves away.",
    )
