"""Checks of ncl Theorem 3's loop: fixed point of a half-round, contraction, the limit (App. C.3).

All on the exact loss, never on the simplified one, unless stated.
"""

import numpy as np
import torch

from clcore import random as cr
from clcore import reference as ref
from clcore.checks.dynamics.srelu import from_identity, scheme
from clcore.checks.dynamics.srelu_loss import THREE
from clcore.checks.dynamics.srelu_starts import Warm, beyond, random_rows, unbiased, warm, wide
from clcore.ledger import Trial, check, typical
from clcore.reference import Array, tensors
from clcore.theory.sparse import proportional_update as pu
from clcore.theory.sparse import sparse_coding as sc
from clcore.theory.sparse import srelu_dynamics as sd


def rest(nets: Array) -> Array:
    """[..., d, d] -> [..., d (d - 1)]: the entries off the diagonal."""
    d = nets.shape[-1]
    return nets[..., ~np.eye(d, dtype=bool)].reshape(*nets.shape[:-2], d * (d - 1))


def half_round(w: Warm, steps: int = 40, normalise: bool = True) -> Array:
    """Where W^o goes under the exact loss while W^t is held, [draws, d, d]."""
    online, target, b_online, b_target, alpha, kappa = tensors(*w)
    seen = sd.views(*sd.latents(kappa, w.online.shape[-1]), alpha)
    slope = sd.exact_slope(seen)(target, b_target)
    eta = (2.5 / (alpha**2 * kappa))[:, None, None]
    for _ in range(steps):
        online = online - eta * slope(online, b_online)
        if normalise:
            online = online / online.norm(dim=-1, keepdim=True)
    return online.numpy()


def over_diagonal(nets: Array) -> Array:
    """[draws, d, d] -> [draws, d (d - 1)]: entries off the diagonal over their row's own."""
    return rest(nets / np.einsum("rii->ri", nets)[..., None])


SMALL = np.array([0.1, 0.05, 0.025, 0.0125])  # sizes of the bias b


def factors(w: Warm, errors: Array, b: float, b_online: float, half: int) -> Array:
    """[draws, d (d - 1)]: by what half-round 1 or 2 multiplies each entry, over alpha^2 kappa.

    W^o starts at I with the bias b_online, W^t at I + errors with b: Assumption 3 holds at the
    starts, each net's own errors taken, however small b_online is.
    """
    eye, bias = np.broadcast_to(np.eye(3), errors.shape), np.ones(errors.shape[:-1])
    at = w._replace(online=eye, target=eye + errors, b_online=b_online * bias, b_target=b * bias)
    held, end = at.target, half_round(at, 20)
    if half == 2:
        then = Warm(at.target, end, at.b_target, at.b_online, w.alpha, w.kappa)
        held, end = end, half_round(then, 20)
    return over_diagonal(end) / ((w.alpha**2 * w.kappa)[:, None] * rest(held))


def power_of_b(values: Array) -> float:
    """The power of b with which the largest deviation of values [b, ...] from 1 falls."""
    gaps = np.abs(values - 1).reshape(len(SMALL), -1).max(-1)
    return float(np.polyfit(np.log(SMALL), np.log(gaps), 1)[0])


def one_plus_o(t: Trial, half: int) -> None:
    """Whether half-round 1 or 2 multiplies by (1 + o(1)) alpha^2 kappa, each bias above what the
    errors of every iterate ask for: here above both nets' errors at the start.

    Biases for the starts alone, a control, are above each net's own errors there: then the factor
    over alpha^2 kappa tends to 1 / alpha.
    """
    draws = min(t.draws, 8)
    w = warm(t.rng, draws, 3, 0.3)
    signs = np.where(t.rng.random((draws, 3, 3)) < 0.5, -1, 1)
    shape = signs * t.rng.uniform(0.2, 1, (draws, 3, 3))
    late, kept = (
        np.stack([factors(w, b**2 * shape, b, b**power, half) for b in SMALL]) for power in (4, 1)
    )
    alpha, kappa = w.alpha[:, None], w.kappa[:, None]
    part = t.part("1 + o(1)", 0.9, ">=", draws=draws).add(power_of_b(kept))
    part.breaks("alpha for alpha^2", power_of_b(kept * alpha))
    part.breaks("no kappa", power_of_b(kept * kappa))
    part.breaks("biases for the starts alone: b^o = b^4", power_of_b(late))
    part.says(**{f"shown{k}": np.median(v) for k, v in enumerate(late * alpha, 1)})


@check("ncl/thm3-ratio")
def thm3_ratio(t: Trial) -> None:
    """Where the inner loop ends: errors multiplied by α²κ (App. C.3).

    Given   warm starts, d = 3 and 4, exact loss without noise; every bias is above what the errors
            of either net ask for. A half-round updates W^o until it stays, W^t fixed. alpha is the
            chance that a mask keeps a coordinate, kappa that z_i != 0.
    Claim   (1) It ends at W_ij/W_ii = alpha^2 kappa Delta_ij/(1 + Delta_ii - b). (2) |W_ij| is at
            most that, as W_ii <= 1. (3) The end is the limit of Lemma 1 along the row's gradient.
            (4) The factor over alpha^2 kappa tends to 1 as b -> 0: the power of b in its deviation
            from 1 is at least 0.9.
    Fails   (1) with alpha for alpha^2, and without b; (2) for rows that are not normalised; (3) for
            one a for all coordinates; (4) with alpha for alpha^2, without kappa, and for biases
            above the errors of the starts alone.
    """
    count = min(t.draws, 20)
    factor = t.part("end of a half-round", 1e-9, controls=typical)
    bound = t.part("the bound", 1 + 1e-9, controls=typical)
    general = t.part("by Lemma 1", 1e-12, controls=typical)
    for d in (3, 4):
        w = warm(t.rng, count, d, 0.3)
        end = half_round(w)

        # (1) Each entry of the end over its row's diagonal, against the printed ratio.
        held = np.einsum("rii->ri", w.target) - w.b_target
        scale = (w.alpha**2 * w.kappa)[:, None, None]
        found, expected = over_diagonal(end), rest(scale * w.target / held[..., None])
        factor.add(np.abs(found / expected - 1))
        thin = np.abs(found / expected * w.alpha[:, None] - 1)
        factor.breaks("alpha for alpha^2", thin.max(-1))
        factor.breaks("no bias", np.abs(found / rest(scale * w.target) - 1).max(-1))

        # (2) The entries themselves.
        bound.add(np.abs(rest(end)) / np.abs(expected))
        loose = half_round(w, 5, normalise=False)
        bound.breaks("rows not normalised", (np.abs(rest(loose)) / np.abs(expected)).max(-1))

        # (3) The limit of Lemma 1's update along the rows' gradients is where the loop ends.
        online, target, b_online, b_target, alpha, kappa = tensors(*w)
        push = -sd.simplified_slope(alpha, kappa)(target, b_target)(online, b_online)
        general.add(ref.absolute(pu.limit(push), end))
        mean = sd.off_diagonal(push).abs().sum(-1, keepdim=True) / (d - 1)
        one = torch.where(torch.eye(d) == 1, push, mean)
        general.breaks("one a for all", ref.absolute(pu.limit(one), end))
    # (4) The factor as b -> 0.
    one_plus_o(t, half=1)


def sizes(path: Array) -> Array:
    """[half-rounds, draws, rows]: each row's largest error, of the net that has just moved."""
    moved = np.stack([path[t, (t + 1) % 2] for t in range(1, len(path))])
    return np.abs(moved * (1 - np.eye(moved.shape[-1]))).max(-1)


@check("ncl/thm3-contr")
def thm3_contr(t: Trial) -> None:
    """Off-diagonal errors decay geometrically over the outer rounds (App. C.3).

    Given   warm starts, d = 3, 4, every bias above what the errors of either net ask for; 28 rounds
            on the exact loss; alpha is the chance that a mask keeps a coordinate, kappa, up to 0.9,
            that z_i != 0.
    Claim   (1) A half-round multiplies a row's largest error by alpha^2 kappa/(1 - b), b of the net
            that is held, (2) which is less than one; (3) the loop ends at the identity. (4) The
            second half-round's factor over alpha^2 kappa tends to 1 as b -> 0: the power of b in
            its deviation from 1 is at least 0.9.
    Fails   (1) without 1 - b; (2), (3) for no bias; (2) for b = 0.8, where the factor is 1.2; (4)
            with alpha for alpha^2, without kappa, and for biases above the errors of the starts
            alone.
    """
    count = min(t.draws, 20)
    rate = t.part("rate", 1e-3, controls=typical)
    less = t.part("less than one", 0.95, controls=typical)
    limit = t.part("the limit", 1e-8, controls=typical)
    for d in (3, 4):
        w = wide(t.rng, count, d)
        path = scheme(w, rounds=28)
        size = sizes(path)
        ratio = size[1:] / size[:-1]
        held = np.stack([w.b_online if k % 2 else w.b_target for k in range(1, len(size))])
        scale = (w.alpha**2 * w.kappa)[:, None]
        # Diagonals are one up to the squares of errors; far smaller errors are rounding.
        use = (size[:-1] < 0.01) & (size[1:] > 1e-10)

        def off(ratio: Array, scale=scale, use=use) -> Array:
            """[draws]: how far from 1 a ratio over alpha^2 kappa is, in half-rounds of `use`."""
            return np.where(use, np.abs(ratio / scale - 1), 0.0).max((0, -1))

        # (1) The factor times (1 - b), over alpha^2 kappa, minus 1.
        rate.add(off(ratio * (1 - held))).breaks("no bias in the rate", off(ratio))

        # (2), (3) The first six factors, and the end; with no bias.
        less.add(ratio[:6].max((0, -1)))
        limit.add(from_identity(path[-1]))
        straight = scheme(unbiased(w), rounds=3)
        stays = sizes(straight)
        less.breaks("no bias", (stays[1:] / stays[:-1]).max((0, -1)))
        limit.breaks("no bias", from_identity(straight[-1]))

    # (2) The factor for b = 0.8, from errors that stay small: alpha^2 kappa / (1 - b) = 1.2.
    few = warm(t.rng, count, 3, 0.003)
    b = np.full((count, 3), 1 - 0.81 * 0.3 / 1.2)
    level = {"alpha": np.full(count, 0.9), "kappa": np.full(count, 0.3)}
    grown = sizes(scheme(few._replace(b_online=b, b_target=b, **level), rounds=3))
    less.breaks("b = 0.8", (grown[2:] / grown[1:-1]).min((0, -1)))

    # (4) The factor as b -> 0.
    one_plus_o(t, half=2)


def _trained(key: torch.Tensor, bias: float, rounds: int = 3, d: int = 20, n: int = 4096) -> float:
    """Mean |off-diagonal|, end over start: the loop on samples with Gaussian noise, by autograd.

    Every step draws fresh latents, noise and masks; alpha = 0.8, kappa = 0.3.
    """
    nets = torch.eye(d) + 0.05 * (2.0 * cr.bernoulli(key, 0.5, (2, d, d)) - 1)
    nets = nets / nets.norm(dim=-1, keepdim=True)
    start = float(sd.off_diagonal(nets).abs().mean())
    eye, step = torch.eye(d), 0
    for half in range(2 * rounds):
        k = half % 2
        for inner in range(15):
            step += 1
            draw = cr.split(cr.fold_in(key, step), 3)
            z = sc.latents(draw[0], n, d, 0.3, "iid-zeros")
            one, two = sc.views(sc.samples(draw[1], eye, z, 0.03), sc.masks(draw[2], n, d, 0.8))
            W = nets[k].clone().requires_grad_()
            u = sc.symmetric_relu(one @ W.T, bias)
            v = sc.symmetric_relu(two @ nets[1 - k].T, bias)
            (slope,) = torch.autograd.grad(2 - 2 * (u * v).sum(-1).mean(), W)
            # Long steps reach the end of a half-round, short ones average the samples' noise.
            W = W.detach() - 5 / (1 + inner) * slope
            nets[k] = W / W.norm(dim=-1, keepdim=True)
    return float(sd.off_diagonal(nets).abs().mean()) / start


def _without_noise(t: Trial) -> None:
    """Exact loss, d = 2, 3, 4, kappa up to 0.9."""
    count = min(t.draws, 20)
    part = t.part("no noise", 1e-9, controls=typical)
    for d in (2, 3, 4):
        for delta in (0.03, 0.3):
            part.add(from_identity(scheme(warm(t.rng, count, d, delta))[-1]))
        part.add(from_identity(scheme(wide(t.rng, count, d, 0.8), rounds=60)[-1]))
        high = scheme(beyond(t.rng, count, d))[-1]
        part.breaks("b above 1 - alpha^2 kappa", from_identity(high))
    w = warm(t.rng, count, 3, 0.3)
    part.breaks("no bias", from_identity(scheme(unbiased(w))[-1]))
    part.breaks("random rows", from_identity(scheme(random_rows(t.rng, w))[-1]))
    *start, alpha, kappa = tensors(*w)
    slope = sd.exact_slope(sd.views(*sd.latents(kappa, 3), alpha))
    wild = sd.alternate(*start, slope, 5 / (2 * alpha**2 * kappa), 4, 4, normalise=False)
    part.breaks("not normalised", from_identity(wild[-1].numpy()))

    # Where it ends from one start with b = 0.3 above 1 - alpha^2 kappa.
    alpha, kappa, b, near = 0.95, 0.9, np.full(3, 0.3), np.eye(3) + 0.01 * (1 - np.eye(3))
    one = (np.array([v]) for v in (near, near, b, b, alpha, kappa))
    part.says(end=from_identity(scheme(Warm(*one), rounds=60)[-1])[0])


def _slight_biases(t: Trial) -> None:
    """W^o near I, its biases just above its own errors and far below what half a round brings over
    from W^t; some draws at I itself."""
    w = warm(t.rng, min(t.draws, 20), 3, 0.3)
    slight = 10 ** t.rng.uniform(-6, -2, w.b_online.shape)
    errors = t.rng.uniform(-1, 1, w.online.shape)
    errors *= 0.9 * slight[..., None] / np.abs(errors).sum(-1, keepdims=True)
    errors[::4] = 0
    start = w._replace(online=np.eye(3) + errors, b_online=slight)
    path = scheme(start)
    late = ~sd.separated(*tensors(path[1, 0], slight)).all(-1).numpy()
    part = t.part("biases for the starts only", 1e-9, controls=typical)
    part.add(from_identity(path[-1])).says(late=late.mean())
    part.breaks("no bias", from_identity(scheme(unbiased(start))[-1]))


def _bounded_noise(t: Trial) -> None:
    """Noise of three values, which the proof drops, in d = 3; and the rate with it."""
    size = 0.05
    w = warm(t.rng, min(t.draws, 6), 3, 0.1, size * 3**0.5)
    *_, alpha, kappa = tensors(*w)
    law = sd.noisy(*sd.latents(kappa, 3), *tensors(size * THREE[0], THREE[1]))
    seen = sd.views(*law, alpha)
    path = scheme(w, seen, rounds=20)
    ratio = sizes(path)[2] / sizes(path)[1]
    b, scale = w.b_target, w.alpha[:, None] ** 2
    rate = scale * (w.kappa[:, None] + size**2) / (1 - b + size**2)
    part = t.part("bounded noise", 1e-9, controls=typical)
    part.add(from_identity(path[-1])).says(off=np.abs(ratio / rate - 1).max())
    part.breaks("no bias", from_identity(scheme(unbiased(w), seen, rounds=3)[-1]))


@check("ncl/thm3")
def thm3(t: Trial) -> None:
    """Row-normalised ReLU networks with a warm start converge to the ground truth (Theorem 3).

    Given   warm starts, b < 1 - alpha^2 kappa, rows of norm 1: the exact loss without noise, d = 2,
            3, 4, and with bounded noise, d = 3; biases above the errors of the starts only; samples
            with Gaussian noise at d = 20; alpha is the chance that a mask keeps a coordinate, kappa
            that z_i != 0.
    Claim   The loop of half-rounds ends with both networks at the identity; on samples the mean
            |off-diagonal| falls to 0.15 of the start's or less.
    Fails   for no bias, random rows, no normalisation, biases above 1 - alpha^2 kappa.
    """
    _without_noise(t)
    _slight_biases(t)
    _bounded_noise(t)
    trained = t.part("trained on samples, d = 20", 0.15)
    keys = t.keys(2 if t.draws < 20 else 3, "trained on samples")
    trained.add(*(_trained(key, 0.35) for key in keys))
    trained.breaks("no bias", _trained(keys[0], 0.0))
