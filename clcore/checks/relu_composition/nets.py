"""The two-layer ReLU net on orthogonal mixtures: what it computes and how it moves (acl Sec. 5.1).

The nets of `clcore.theory.relu.relu_two_layer` and autograd meet outputs, gradients and flows in
numpy.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from clcore import losses, random
from clcore import reference as ref
from clcore.ledger import Trial, check, fraction, pooled, total, typical
from clcore.losses import contrast
from clcore.reference import Array, absolute, mixture, relative, tensors
from clcore.theory.relu import orthogonal_mixture, relu_two_layer


def _by_field(x: Array, x2: Array) -> list[list[str]]:
    """What each draw breaks of Assumption 1, field by field, in numpy and the words of
    `orthogonal_mixture.violations`."""
    on = x != 0
    factor = np.where(on, x2, 0.0) / np.where(on, x, 1.0)
    least, most = np.where(on, factor, np.inf).min(-1), np.where(on, factor, -np.inf).max(-1)
    outside = (np.where(on, 0.0, x2) != 0).any(-1)
    broken: dict[str, Any] = {
        "nonnegative": (x < 0).any(-1),
        "one-hot": (x > 0).sum(-1) > 1,
        "augmentation": outside | (least <= 0) | (most - least > 1e-9),
    }
    return [[name for name, found in broken.items() if found[k].any()] for k in range(len(x))]


def _refused(x: Array, x2: Array) -> tuple[Array, Array]:
    """[draws]: whether each of two validators refuses them, `clcore`'s and `_by_field`."""
    pairs = zip(*tensors(x, x2), strict=True)
    ours = [bool(orthogonal_mixture.violations(a, b)) for a, b in pairs]
    return np.array(ours), np.array([bool(broken) for broken in _by_field(x, x2)])


@check("acl/def5")
def def5(t: Trial) -> None:
    """Two-layer ReLU network and the orthogonal mixture data model (Assumption 1).

    Given   batches of the library's generator, three fields of four modes; broken ones: a second
            active mode, negative entries; a second view in another mode, negative, erased.
    Claim   The generator obeys Assumption 1 (nonnegative, one-hot, x' = gamma x with gamma > 0):
            neither of two validators, the library's and one in numpy, refuses its batches. By
            rotation the modes are e_m: turning a field's patterns and its weights changes no
            output.
    Fails   for data with two active modes, signed data; for second views in another mode, with a
            negative factor, erased; for weights that are not turned along.
    """
    draws, samples, fields, modes = t.draws, 30, 3, 4
    keys = random.fold_in(random.key(int(t.rng.integers(2**40))), torch.arange(draws))
    batch = orthogonal_mixture.draw_fields(keys, samples, fields, modes)
    x, x2 = (v.numpy() for v in batch)
    both = mixture.two_hot(t.rng, x)

    # The share of its batches that either validator refuses; of broken ones, that both refuse.
    data = t.part("data", 0.0, measured=fraction, controls=fraction)
    data.add(np.logical_or(*_refused(x, x2)))
    data.breaks("two active modes", np.logical_and(*_refused(both, both)))
    data.breaks("signed", np.logical_and(*_refused(-x, -x2)))
    for name, view in (
        ("another mode in the second view", np.roll(x2, 1, -1)),
        ("a negative factor", -x2),
        ("the second view erased", 0 * x2),
    ):
        data.breaks(name, np.logical_and(*_refused(x, view)))

    # Patterns and weights turned together, field by field, give the same outputs.
    w1 = t.rng.standard_normal((draws, fields, modes))
    w2 = t.rng.standard_normal((draws, 2, fields))
    turn = np.linalg.qr(t.rng.standard_normal((draws, fields, modes, modes)))[0]
    turned = np.einsum("bkij,bnkj->bnki", turn, x)
    along = np.einsum("bkij,bkj->bki", turn, w1)
    plain = relu_two_layer.output(*tensors(w1, w2, x))
    rotation = t.part("rotation", 1e-12, controls=typical)
    rotation.add(relative(mixture.output(along, w2, turned), plain))
    rotation.breaks("weights not rotated", relative(mixture.output(w1, w2, turned), plain))


@check("acl/num12")
def num12(t: Trial) -> None:
    """Beyond linear networks the game holds but the PCA form does not (Sec. 5).

    Given   Gaussian data, which Assumption 1 does not describe; random two-layer ReLU nets;
            InfoNCE with eps = 0.
    Claim   Theorem 1 and Corollary 1 still hold: complex steps of the loss against autograd of the
            energy at the min player's weights by a Newton solver. Corollary 2 does not: tr(W2 W1
            X_alpha W1^T W2^T) is off by more than 1 per cent in 95 per cent of the nets, and no
            symmetric X fits the energies of 30 nets on one batch.
    Fails   the first for uniform weights; the last two under Assumption 1 with W_1 >= 0, where
            X_alpha gives the energy.
    """
    n, widths, tau, count = 6, (4, 5, 3), 0.5, min(t.draws, 200)
    x, x2 = ref.views(t.rng, count, n, 4)
    theta = ref.net_parameters(t.rng, count, widths)

    def loss(parameters: Array) -> Array:
        z, z2 = (ref.net(parameters, v, "relu", widths) for v in (x, x2))
        inter, intra = ref.distances(z, z2)
        return ref.family_loss(inter, intra, lambda s: tau * np.log(s), lambda s: np.exp(s / tau))

    left = ref.gradient(loss, theta)
    z, z2 = (ref.net(theta, v, "relu", widths) for v in (x, x2))
    inter, intra = ref.distances(z, z2)
    alpha = np.zeros((count, n, n))
    solved = ref.newton("entropy", ref.off(ref.costs(inter, intra)), np.ones((count, n)), tau)
    alpha[:, ~np.eye(n, dtype=bool)] = solved.reshape(count, -1)

    def ascent(alpha: Array) -> torch.Tensor:
        def energy(p: torch.Tensor) -> torch.Tensor:
            views = (ref.net(p, v, "relu", widths) for v in tensors(x, x2))
            return contrast.energy(torch.from_numpy(alpha), *views).sum()

        return -torch.func.grad(energy)(torch.from_numpy(theta)) / 2

    # Minus half of the energy's gradient, by autograd; the loss's, by complex steps.
    part = t.part("Theorem 1 and Corollary 1", 1e-7, controls=typical)
    part.add(relative(ascent(alpha), left))
    uniform = np.full_like(alpha, 1 / (n - 1))
    part.breaks("uniform weights", relative(ascent(uniform), left))
    _no_matrix(t, x, x2, count)


def _no_matrix(t: Trial, x: Array, x2: Array, count: int) -> None:
    """No X gives the energies tr(W2 W1 X W1^T W2^T) of many nets on one batch."""
    nets = 30  # more than the ten entries of a symmetric 4 x 4 matrix
    w1, w2 = t.rng.standard_normal((count, nets, 3, 4)), t.rng.standard_normal((count, nets, 2, 3))
    fixed = mixture.weights(t.rng, count, x.shape[1])

    def unexplained(x: Array, x2: Array, w1: Array) -> tuple[Array, Array]:
        """Relative errors: of X = X_alpha, and of the X that fits best."""
        z, z2 = (np.maximum(np.einsum("bnp,brkp->brnk", v, w1), 0) for v in (x, x2))
        hidden = ref.covariance(fixed[:, None], z, z2, z, z2)
        true = np.einsum("brok,brkl,brol->br", w2, hidden, w2)
        rows = w2 @ w1
        design = np.einsum("brop,broq->brpq", rows, rows)
        linear = (design * mixture.covariance(fixed, x, x2)[:, None]).sum((-1, -2))
        flat = design.reshape(count, nets, -1)
        fitted = (flat @ (np.linalg.pinv(flat) @ true[..., None]))[..., 0]
        size = np.linalg.norm(true, axis=-1)
        return np.abs(linear / true - 1)[:, 0], np.linalg.norm(fitted - true, axis=-1) / size

    trace, fit = unexplained(x, x2, w1)
    pure, pure2 = mixture.field(t.rng, count, x.shape[1], 4)
    trace_pure, fit_pure = unexplained(pure, pure2, np.abs(w1))
    part = t.part("Corollary 2 fails", 0.95, ">=", measured=fraction, controls=fraction)
    part.add(trace > 0.01).breaks("Assumption 1, weights >= 0", trace_pure > 0.01)
    part = t.part("no X at all", 0.01, ">=").add(fit).says(nets=nets)
    part.breaks("Assumption 1, weights >= 0", fit_pure)


@check("acl/lem13")
def lem13(t: Trial) -> None:
    """Nonnegative filters give ReLU the activations of a linear net (Lemma 13).

    Given   nonnegative data, not one-hot; W_1 >= 0, any W_2; InfoNCE.
    Claim   (1) f_1 of the ReLU net, by the library, is f_1 of the linear net with the same weights,
            in numpy. (2) So are the gradients of the loss that reach f_1, by autograd.
    Fails   for one negative weight, and for one negative input.
    """
    draws, samples = t.draws, 12
    x = t.rng.random((draws, samples, 3, 4))
    w1, w2 = t.rng.random((draws, 3, 4)), t.rng.standard_normal((draws, 2, 3))
    x2 = x * t.rng.uniform(0.6, 1.4, (draws, samples, 1, 1))
    pair = losses.infonce_pair(0.5, 0.0)
    bad_weight, bad_input = w1.copy(), x.copy()
    bad_weight[:, 0, 0] = -5
    bad_input[:, 0, 0, 0] = -20

    def relu(w1: Array, x: Array) -> torch.Tensor:
        """f_1 of the ReLU net: its output with the identity above."""
        identity = np.broadcast_to(np.eye(3), (draws, 3, 3))
        return relu_two_layer.output(*tensors(w1, identity, x))

    def linear(w1: Array, x: Array) -> Array:
        return np.einsum("bkm,bnkm->bnk", w1, x)

    def loss_gradient(f: torch.Tensor, f2: torch.Tensor) -> torch.Tensor:
        """dL/df_1 of the first views, W_2 above."""
        top = torch.from_numpy(w2).transpose(-1, -2)
        return torch.func.grad(lambda f: contrast.family_loss(f @ top, f2 @ top, pair).sum())(f)

    def activations(w1: Array, x: Array) -> Array:
        return absolute(relu(w1, x), linear(w1, x))

    # (1) f_1 of both nets.
    values = t.part("activations", 1e-14, controls=typical).add(activations(w1, x))
    values.breaks("one negative weight", activations(bad_weight, x))
    values.breaks("one negative input", activations(w1, bad_input))

    def gradients(w1: Array, x: Array) -> Array:
        plain, plain2 = linear(w1, x), linear(w1, x2)
        rectified2 = torch.from_numpy(np.maximum(plain2, 0))
        by_relu = loss_gradient(relu(w1, x), rectified2)
        return absolute(by_relu, loss_gradient(*tensors(plain, plain2)))

    # (2) The loss's gradient at f_1 of both nets; only the first views may have a negative input.
    reaching = t.part("gradients at them", 1e-12, controls=typical).add(gradients(w1, x))
    reaching.breaks("one negative weight", gradients(bad_weight, x))
    reaching.breaks("one negative input", gradients(w1, bad_input))


def _open_at_zero(u: torch.Tensor) -> torch.Tensor:
    """max(u, 0) with the gate open at 0."""
    return torch.where(u >= 0, u, 0.0)


@check("acl/thm4")
def thm4(t: Trial) -> None:
    """ReLU dynamics is linear dynamics with the sticky weight rule (Theorem 4).

    Given   Assumption 1, with one augmentation factor for both fields or one for each; W_1 >= 0
            with exact zeros among its entries, any W_2, both layers trained by three losses, 100
            steps of descent; the ReLU gate closed at 0.
    Claim   (1) The path of the ReLU net, by autograd and not clipped (a negative entry is read as
            0, Lemma 3), is that of the linear net with the sticky rule: hand-written gradients
            through X_alpha, masked by w > 0 and clipped. (2) What reaches 0 on the ReLU net's path
            stays 0. The proof: (3) the two rules, Eqs. 51 and 52, agree in every summand.
    Fails   (1), (3) for the linear net without the rule, and for data with two active modes; (2),
            (3) for a gate that is open at 0.
    """
    runs, n, steps, rate = min(max(t.draws, 6), 12), 8, 100, 0.02
    names = ("InfoNCE", "Soft Triplet", "N+1 Tuplet")
    functions_of = {name: functions for name, *functions in ref.table1()}
    family = [(p, functions_of[p.name]) for p in losses.table1() if p.name in names]
    same = t.part("trajectories", 1e-9, controls=pooled, draws=3 * runs)
    stays = t.part("what reaches 0 stays", 0.0, measured=total, controls=total, draws=3 * runs)
    each = t.part("summands, Eqs. 51, 52", 1e-12, controls=pooled, draws=3 * runs)
    hits = 0
    for pair, functions in family:
        x, x2 = mixture.fields(t.rng, runs, n, 2, 3)
        own = t.rng.random((runs, 1, 1, 1)) < 0.5  # with a factor for every field, from 0.2 to 3
        x2 = np.where(own, x * t.rng.uniform(0.2, 3, (runs, n, 2, 1)), x2)
        two_modes = mixture.two_hot(t.rng, x), mixture.two_hot(t.rng, x2)
        w1 = t.rng.random((runs, 2, 3)) * (t.rng.random((runs, 2, 3)) > 0.3)
        w2 = 0.7 * t.rng.standard_normal((runs, 2, 2))

        def relu(x: Array, x2: Array, gate=torch.relu, w1=w1, w2=w2, pair=pair) -> Array:
            """[runs, steps, weights]: the path of the ReLU net."""
            views = tensors(x, x2)

            def loss(low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
                z, z2 = (gate((low[:, None] * v).sum(-1)) @ high.transpose(-1, -2) for v in views)
                return contrast.family_loss(z, z2, pair).sum()

            low, high = tensors(w1, w2)
            slope, path = torch.func.grad(loss, (0, 1)), []
            for _ in range(steps):
                down = slope(low, high)
                low, high = low - rate * down[0], high - rate * down[1]
                path.append(np.concatenate([low.clamp(min=0).flatten(1), high.flatten(1)], -1))
            return np.stack(path, 1)

        def linear(x: Array, x2: Array, sticky=True, w1=w1, w2=w2, f=functions) -> Array:
            """The same of the linear net."""
            low, high, path = w1, w2, []
            flat = [v.reshape(*v.shape[:2], -1) for v in (x, x2)]
            for _ in range(steps):
                z, z2 = (mixture.output(low, high, v, "linear") for v in (x, x2))
                X = mixture.covariance(ref.importance(*ref.distances(z, z2), *f), *flat)
                wide = mixture.blocks(low)
                up = (high.swapaxes(-1, -2) @ high @ wide @ X).reshape(runs, 2, 2, 3)
                up = np.stack([up[:, 0, 0], up[:, 1, 1]], 1)  # off its field a filter is blind
                up_high = high @ wide @ X @ wide.swapaxes(-1, -2)
                low = np.maximum(low + rate * up * (low > 0), 0) if sticky else low + rate * up
                high = high + rate * up_high
                path.append(np.concatenate([low.reshape(runs, -1), high.reshape(runs, -1)], -1))
            return np.stack(path, 1)

        # (1) The two paths, step by step.
        path = relu(x, x2)
        same.add(relative(path, linear(x, x2), 1.0))
        same.breaks("no sticky rule", relative(path, linear(x, x2, sticky=False), 1.0))
        same.breaks("two active modes", relative(relu(*two_modes), linear(*two_modes), 1.0))

        # (2) How often a weight leaves 0, the first step included.
        stays.add(_waking(w1, path))
        stays.breaks("gate open at 0", _waking(w1, relu(x, x2, _open_at_zero)))

        # (3) g d x of the ReLU net against 1(w > 0) g' x of the linear one, sample by sample.
        net = w1, w2, pair
        each.add(absolute(*_summands(*net, (x, x2))))
        each.breaks("no sticky rule", absolute(*_summands(*net, (x, x2), sticky=False)))
        each.breaks("two active modes", absolute(*_summands(*net, two_modes)))
        each.breaks("gate open at 0", absolute(*_summands(*net, (x, x2), gate=_open_at_zero)))

        # Weights that have reached 0: a number for the page.
        hits += int(((w1 > 0) & (path[:, -1, :6].reshape(w1.shape) == 0)).sum())

    same.says(steps=steps, hits=hits)


def _summands(
    w1: Array,
    w2: Array,
    pair: losses.Pair,
    views: tuple[Array, Array],
    sticky: bool = True,
    gate: Callable[[torch.Tensor], torch.Tensor] = torch.relu,
) -> tuple[Array, Array]:
    """[runs, views, samples, fields, modes]: the summands of Eqs. 51 and 52, by autograd down to a
    copy of the filters for each sample, and down to the linear net's activations."""
    low, high, data = *tensors(w1, w2), torch.stack(tensors(*views), 1)
    copies = low[:, None, None].expand_as(data)

    def loss(hidden: torch.Tensor) -> torch.Tensor:
        z, z2 = (hidden @ high[:, None].transpose(-1, -2)).unbind(1)
        return contrast.family_loss(z, z2, pair).sum()

    rectified = torch.func.grad(lambda low: loss(gate((low * data).sum(-1))))(copies)
    backward = torch.func.grad(loss)((copies * data).sum(-1))
    rule = (copies > 0) | (not sticky)
    return rectified.numpy(), (rule * backward[..., None] * data).numpy()


def _waking(w1: Array, path: Array) -> int:
    """How often a weight of the lower layer leaves 0 along paths [runs, steps, weights] from w1."""
    low = np.concatenate([w1.reshape(len(w1), 1, -1), path[:, :, :6]], 1)
    return int(((low[:, :-1] == 0) & (low[:, 1:] > 0)).sum())
