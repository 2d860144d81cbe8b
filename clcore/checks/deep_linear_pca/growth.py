"""Norms of deep linear nets without constraints (acl Sec. 4.2, first sentence).

Euler steps of 5 per cent in rescaled time, which keeps the paths, by `deep_linear`; a limit, the
flow of three numbers, and nets whose alpha follows theta, by numpy.
"""

import itertools

import numpy as np
import torch
from scipy.optimize import brentq

from clcore.checks.deep_linear_pca.flow import Covariance, following, layers, symmetric
from clcore.ledger import Trial, check, typical
from clcore.reference import Array, relative, tensors
from clcore.theory import deep_linear as dl


@check("acl/num10")
def num10(t: Trial) -> None:
    """Without constraints the weight norms go to infinity (Sec. 4.2).

    Given   Eq. 37 for L = 1, 2, 3 from random starts, X_alpha positive semi-definite, indefinite or
            negative definite, fixed; Euler steps of 5 per cent in rescaled time, which keeps the
            paths.
    Claim   d/dt |W_l|_F^2 = 2 E_alpha, and the norms go to infinity: every layer passes 10^3.
    Fails   the rate with E for 2 E. The norms as printed: X = diag(1, -1), W_1 = (0, 2), W_2 = 0.1
            and all starts near by stay bounded; so do starts with E > 0 where alpha follows theta
            (Eq. 6). Corrected: for fixed alpha they grow exactly if E > 0 at some time. Controls:
            a negative definite X, those bounded starts.
    """
    kinds = ("PSD", "indefinite", "negative definite")
    count = -(-min(t.draws, 300) // 9)
    rate = t.part("rate", 1e-9, controls=typical, draws=9 * count)
    printed, right = norms = t.both("norms", 1e3, ">=")
    generic, negative = [], []

    # The rate of each layer's squared norm against 2 E; the smallest layer norm at the end, of
    # starts with E > 0 at some time (corrected), of all where X has a positive eigenvalue (for the
    # page), and of those where X is negative definite (control).
    for depth, kind in itertools.product((1, 2, 3), kinds):
        X = symmetric(t.rng, count, 4)
        if kind != "indefinite":
            X = (1 if kind == "PSD" else -1) * X @ X
        weights, (X,) = tensors(*layers(t.rng, count, (4, 3, 3, 2)[: depth + 1])), tensors(X)
        E, moves = dl.energy(weights, X), dl.flow(weights, X)
        for w, m in zip(weights, moves, strict=True):
            grown = (2 * w * m).sum((-1, -2))
            rate.add(relative(grown, 2 * E, 1e-3))
            rate.breaks(r"$\mathcal E_\alpha$ for $2\mathcal E_\alpha$", relative(grown, E, 1e-3))
        least, positive = (v.numpy() for v in _least_norm(weights, _fixed(X)))
        right.add(least[positive])
        generic.append(least[torch.linalg.eigvalsh(X)[:, -1].numpy() > 0])
        if kind == "negative definite":
            negative.append(least)
    away = np.concatenate(generic)

    # Starts at and near the counterexample stay bounded.
    other = t.stream("bounded")
    around = np.concatenate([np.zeros((1, 3)), other.uniform(-0.05, 0.05, (20, 3))])
    near, expected = _bounded(np.array([0, 2, 0.1]) + around)
    printed.add(near).fails_by(expected).says(share=(away > 1e3).mean(), starts=len(away))

    # How many starts of narrow nets do, for the page.
    low, high = layers(other, 400, (2, 1, 1))
    ends = _bounded(np.concatenate([low[:, 0], high[:, 0]], -1))
    narrow, again = ((v < 1e-6).mean() for v in ends)
    printed.says(narrow=narrow).confirms(0.01, narrow=again)

    # So do starts with E > 0 where alpha follows theta.
    moving, limit, found = _alpha_follows(t.stream("alpha follows"))
    printed.add(moving).fails_by(limit, within=0.05)
    (follow, begin), (coarse, other_begin) = found
    printed.says(follow=follow, begin=begin).confirms(begin=other_begin)
    printed.confirms(0.2, follow=coarse)  # a few starts grow so slowly that the step decides

    # Controls of both forms, and of the corrected one.
    norms.breaks("negative definite", *negative)
    right.breaks("near the counterexample", near)
    right.breaks(r"$\alpha$ follows $\theta$", moving)


def _fixed(X: torch.Tensor) -> Covariance:
    """X_alpha where alpha is fixed."""
    return lambda _: X


def _bounded(start: Array) -> tuple[Array, Array]:
    """The smallest norm that starts (u, w, g), W_1 = (u, w) and W_2 = g, come to, where X is
    diag(1, -1): by `_least_norm`, and by the flow of the three numbers, u' = g^2 u, w' = -g^2 w,
    g' = (u^2 - w^2) g."""
    weights = tensors(start[:, None, :2], start[:, 2:, None])
    X = torch.diag(torch.tensor([1.0, -1.0], dtype=torch.float64)).expand(len(start), 2, 2)

    def rates(v: Array) -> Array:
        u, w, g = v
        return np.stack([g**2 * u, -(g**2) * w, (u**2 - w**2) * g])

    v = start.T
    for _ in range(4000):
        norms = np.hypot(v[0], v[1]), np.abs(v[2])
        going = (np.max(norms, 0) < 1e5) & (np.min(norms, 0) > 1e-12)
        step = 0.02 * going / np.maximum(v[2] ** 2, np.abs(v[0] ** 2 - v[1] ** 2))
        v = v + step * rates(v + step * rates(v) / 2)
    ours = _least_norm(weights, _fixed(X))[0].numpy()
    return ours, np.minimum(np.hypot(v[0], v[1]), np.abs(v[2]))


Counted = tuple[float, int]
"""The share of starts from which a layer stays below 10^3, and of how many."""


def _alpha_follows(rng: np.random.Generator) -> tuple[Array, Array, tuple[Counted, Counted]]:
    """Norms where alpha follows theta by Eq. 6 and E > 0 at first; steps of 5 per cent end about as
    near to a limit.

    One weight w on x = 0, 1, 3 whose second views are 2 away, tau = 1, from |w| < 0.4: its norms,
    and the w at which X_alpha is 0. Of nets 4-3-2 on 16 samples and views as far apart as the data:
    from how many starts a layer stays below 10^3, by `_two_layers` and by `_least_norm`.
    """
    x = np.array([0.0, 1.0, 3.0])
    starts = rng.choice([-1.0, 1.0], 20) * rng.uniform(0.05, 0.4, 20)
    first = np.tile(x[:, None], (20, 1, 1))
    ours, positive = _least_norm(tensors(starts[:, None, None]), following(first, first + 2.0, 1.0))

    def pull(w: float) -> float:
        """X_alpha, pair by pair."""
        total = 0.0
        for i in range(3):
            near = [(x[i] - x[j]) ** 2 for j in range(3) if j != i]
            weight = np.exp([-(w**2) * v / 2 for v in near])
            total += weight @ near / weight.sum() - 2.0**2
        return total

    if not positive.all():
        raise ValueError("expected starts of positive energy")
    views = rng.standard_normal((2, 40, 16, 4)).cumsum(0)
    begin = [0.3 * w for w in layers(rng, 40, (4, 3, 2))]
    nets, X = tensors(*begin), following(*views, 0.5)
    least, E = _least_norm(nets, X)[0].numpy(), dl.energy(nets, X(nets)).numpy()
    found = _two_layers(begin[0], begin[1], views[0], views[1], 0.5), (least, E)
    fine, coarse = ((float((v[E > 0] < 1e3).mean()), int((E > 0).sum())) for v, E in found)
    return ours.numpy(), np.full(20, brentq(pull, 0.01, 3)), (fine, coarse)


def _two_layers(
    A: Array, B: Array, x: Array, x2: Array, tau: float, steps: int = 600
) -> tuple[Array, Array]:
    """The smaller norm of W_1 = A and W_2 = B after midpoint steps of 5 per cent, and the energy at
    the start; alpha by Eq. 6."""
    d, apart = x - x2, x[:, :, None] - x[:, None]
    near = np.einsum("bip,biq->bpq", d, d)
    products = np.einsum("bijp,bijq->bijpq", apart, apart).reshape(len(x), -1, near[0].size)
    same = np.arange(x.shape[1])

    def rates(A: Array, B: Array) -> tuple[Array, Array, Array]:
        """dA/dt, dB/dt and the energy."""
        W = B @ A
        log = -np.square(apart @ W[:, None].swapaxes(-1, -2)).sum(-1) / (2 * tau)
        log[:, same, same] = -np.inf
        alpha = np.exp(log - log.max(-1, keepdims=True))
        alpha /= alpha.sum(-1, keepdims=True)
        WX = W @ ((alpha.reshape(len(x), 1, -1) @ products).reshape(near.shape) - near)
        return B.swapaxes(1, 2) @ WX, WX @ A.swapaxes(1, 2), (WX * W).sum((1, 2))

    def norm(w: Array) -> Array:
        return np.sqrt((w**2).sum((1, 2)))

    energy = rates(A, B)[2]
    for _ in range(steps):
        first, second, _ = rates(A, B)
        pace = np.maximum(norm(first) / norm(A), norm(second) / norm(B))
        going = np.minimum(norm(A), norm(B)) < 1e4
        step = (0.05 * going / np.maximum(pace, 1e-300))[:, None, None]
        first, second, _ = rates(A + step / 2 * first, B + step / 2 * second)
        A, B = A + step * first, B + step * second
    return np.minimum(norm(A), norm(B)), energy


def _least_norm(
    weights: tuple[torch.Tensor, ...], covariance: Covariance
) -> tuple[torch.Tensor, torch.Tensor]:
    """The smallest layer norm after 2000 rescaled steps, or once all layers are past 1e4.

    With it, whether E was positive at some time t_0 of the first 500 steps: later is too late to
    see the norms grow.
    """
    positive = torch.zeros(len(weights[0]), dtype=torch.bool)
    for step in range(2000):
        X = covariance(weights)
        if step < 500:
            positive |= dl.energy(weights, X) > 1e-3
        moves = dl.flow(weights, X)
        norms = torch.stack([torch.linalg.matrix_norm(w) for w in weights])
        speeds = torch.stack([torch.linalg.matrix_norm(m) for m in moves])
        pace = (speeds / norms).amax(0).clamp(min=1e-300)
        going = (norms.amin(0) < 1e4) & (norms.amin(0) > 1e-12)
        if not going.any():
            break
        rate = torch.where(going, 0.05 / pace, torch.zeros_like(pace))[:, None, None]
        weights = tuple(w + rate * m for w, m in zip(weights, moves, strict=True))
    return torch.stack([torch.linalg.matrix_norm(w) for w in weights]).amin(0), positive
