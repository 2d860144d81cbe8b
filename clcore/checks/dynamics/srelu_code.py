"""What ncl Theorem 3's checks run on, once more in numpy: the exact gradient of Eq. 13, and whether
biases separate (Assumption 3). At nets in any region, not only where the simplified loss is exact.
"""

from itertools import product

import numpy as np
import torch

from clcore.checks.dynamics.srelu import by_cases, law, signed, subsets
from clcore.ledger import Trial, fraction, typical
from clcore.reference import Array, absolute, relative, tensors
from clcore.theory.sparse import srelu_dynamics as sd

SMALL = 3  # latents


def push(held: Array, b_held: Array, moved: Array, b: Array, alpha: float, kappa: float) -> Array:
    """-dL/dW of `moved`, [d, d], from Eq. 13 without noise: a sum over latents and masks."""
    d = len(held)
    D, total = subsets(d), np.zeros((d, d))
    keep, z = law(D, alpha, 1 - alpha), signed(d)
    for point, chance in zip(z, law(z, kappa / 2, 1 - kappa), strict=True):
        x = D * point
        passed = (np.abs(x @ moved.T) > b) * keep[:, None]
        total += 2 * chance * (keep @ by_cases(x @ held.T, b_held))[:, None] * (passed.T @ x)
    return total


def ends(
    held: Array,
    b_held: Array,
    moved: Array,
    b: Array,
    alpha: float,
    kappa: float,
    rate: float = np.inf,
) -> Array:
    """Where a half-round takes `moved`, [d, d], by steps of `rate`, or by steps without end: W is
    its own push, row by row over its norm. While no gate changes, one such step gets there; where
    gates change, other steps may end elsewhere."""
    for _ in range(6 if np.isinf(rate) else 40):
        W = moved / rate + push(held, b_held, moved, b, alpha, kappa)
        W /= np.linalg.norm(W, axis=-1, keepdims=True)
        if np.array_equal(W, moved):
            break
        moved = W
    return moved


def in_numpy(t: Trial) -> None:
    """All parts, in the name of the claim that runs on them.

    Controls: a gate that is open everywhere, or at half of the bias; a bias only above the
    crosstalk, or only below what is left.
    """
    _gradient(t)
    _regions(t)
    _at_kinks(t)
    _edges(t)
    _by_turns(t)
    _noisy(t)


def _gradient(t: Trial) -> None:
    count = min(t.draws, 20)
    nets = 0.6 * t.rng.standard_normal((2, count, SMALL, SMALL))
    b = t.rng.uniform(0.2, 0.8, (2, count, SMALL))
    alpha, kappa = t.rng.uniform(0.3, 0.95, count), t.rng.uniform(0.2, 0.9, count)
    alphas, kappas = tensors(alpha, kappa)
    field = sd.exact_slope(sd.views(*sd.latents(kappas, SMALL), alphas))
    held, moved = (tensors(nets[k], b[k]) for k in (0, 1))
    ours = -field(*held)(*moved).numpy()

    def own(gate: float) -> Array:
        rows = zip(nets[0], b[0], nets[1], gate * b[1], alpha, kappa, strict=True)
        return np.stack([push(*row) for row in rows])

    part = t.defines("clcore's exact gradient", 1e-12, controls=typical)
    part.add(relative(ours, own(1.0)))
    part.breaks("gate open", relative(own(0.0), own(1.0)))
    part.breaks("gate at half the bias", relative(own(0.5), own(1.0)))


def _at_kinks(t: Trial) -> None:
    """Where |u| is b itself, the slope is the one of ReLU at 0, which is 0: descent takes what
    differentiation of the loss gives. Control: biases a little lower."""
    part = t.defines("slopes where |u| is b", 1e-12, controls=typical)
    rng = t.stream("kinks")
    W, other = rng.choice([-1.0, -0.5, 0.5, 1.0], (2, t.draws, 3, 3))
    b, b2 = rng.choice([0.5, 1.0], (2, t.draws, 3))  # sums of a few halves, to the bit
    alpha, kappa = tensors(*rng.uniform(0.3, 0.9, (2, t.draws)))
    seen = sd.views(*sd.latents(kappa, 3), alpha)
    online = torch.from_numpy(W).requires_grad_()
    value = sd.loss(online, *tensors(other, b, b2), seen).sum()
    (right,) = torch.autograd.grad(value, online)
    field = sd.exact_slope(seen)(*tensors(other, b2))
    part.add(absolute(field(*tensors(W, b)), right))
    part.breaks("lower biases", absolute(field(*tensors(W, b - 1e-9)), right))


def _edges(t: Trial) -> None:
    """A bias at either end of what Assumption 3 allows does not separate, one just inside does.
    Entries of W and the noise are multiples of 1/8, so that sums are exact. Control: just
    inside."""
    part, rng = t.defines("ends of the biases", 0.0), t.stream("ends")
    for noise in (0.0, 0.125):
        W = np.eye(SMALL) + rng.choice([-0.125, 0.0, 0.125], (t.draws, SMALL, SMALL)) * ~np.eye(
            SMALL, dtype=bool
        )
        low = np.array([[sum(abs(np.delete(w[i], i))) for i in range(SMALL)] for w in W])
        low = low + noise * np.array([[sum(abs(row)) for row in w] for w in W])
        part.add(
            *(
                absolute(end, right)
                for end, right in zip(
                    sd.bias_range(*tensors(W), noise), (low, 1 - low), strict=True
                )
            )
        )
        for end, inside in ((low, 1e-9), (1 - low, -1e-9)):
            at, within = (sd.separated(*tensors(W, end + k), noise).numpy() for k in (0, inside))
            part.add(at.any(-1) * 1.0, (~within).any(-1) * 1.0)
            part.breaks("just inside", within.all(-1) * 1.0)


def _by_turns(t: Trial) -> None:
    """Every half-round of descent by loops over draws, rows normalised or not. Control: the other
    net as it was at the start."""
    part, rng, count = t.defines("half-rounds", 1e-10), t.stream("half-rounds"), min(t.draws, 3)
    nets = 0.6 * rng.standard_normal((2, count, SMALL, SMALL))
    b = rng.uniform(0.05, 0.3, (2, count, SMALL))
    alpha, kappa, eta = rng.uniform(0.4, 0.9, (3, count))
    slope = sd.exact_slope(sd.views(*sd.latents(*tensors(kappa), SMALL), *tensors(alpha)))
    for normalise in (True, False):
        ours = sd.alternate(*tensors(*nets, *b), slope, *tensors(eta), 2, 3, normalise).numpy()
        part.add(abs(len(ours) - 5.0))
        for k in range(count):
            now, stale = ([nets[0, k], nets[1, k]] for _ in range(2))
            for half, found in enumerate(ours[1:5, :, k]):
                i = half % 2
                for held, path in ((now[1 - i], now), (nets[1 - i, k], stale)):
                    for _ in range(3):
                        pushed = push(held, b[1 - i, k], path[i], b[i, k], alpha[k], kappa[k])
                        path[i] = path[i] + eta[k] * pushed
                        if normalise:
                            path[i] = path[i] / np.linalg.norm(path[i], axis=-1, keepdims=True)
                part.add(np.abs(found - now).max())
            part.breaks("the other net at the start", np.abs(ours[-1, :, k] - stale).max())


def _noisy(t: Trial) -> None:
    """Latents with noise and their chances one by one, and the factor of a half-round. Controls:
    noise that is alike in all entries, no noise."""
    part, factor = t.defines("latents with noise", 1e-14), t.defines("factor with noise", 1e-14)
    rng, (values, weights) = t.stream("noise"), (np.array([-0.5, 0.25, 2.0]), [0.2, 0.5, 0.3])
    for kappa, alpha, b in rng.uniform(0.2, 0.8, (min(t.draws, 5), 3)):
        z, mass = sd.latents(*tensors(np.array([kappa])), 2)
        x, chance = sd.noisy(z, mass, *tensors(values, np.array(weights)))
        wanted = {
            tuple(np.add(s, values[list(v)]).tolist()): float(
                np.prod([1 - kappa if k == 0 else kappa / 2 for k in s])
                * weights[v[0]]
                * weights[v[1]]
            )
            for s in product((-1, 0, 1), repeat=2)
            for v in product(range(3), repeat=2)
        }
        found = dict(zip(map(tuple, x.tolist()), chance[0].tolist(), strict=True))
        part.add(abs(len(x) - 81.0), float(set(found) != set(wanted)))
        part.add(*(abs(found.get(point, 0.0) - v) for point, v in wanted.items()))
        alike = {
            tuple(np.add(s, value).tolist()): float(
                np.prod([1 - kappa if k == 0 else kappa / 2 for k in s]) * weight
            )
            for s in product((-1, 0, 1), repeat=2)
            for value, weight in zip(values, weights, strict=True)
        }
        other = max(abs(v - alike.get(point, 0.0)) for point, v in found.items())
        part.breaks("alike in all entries", other)
        ours, bare = (
            float(sd.rate(*tensors(*map(np.asarray, (alpha, kappa, b))), v)) for v in (0.3, 0.0)
        )
        right = alpha * alpha * (kappa + 0.3) / (1.3 - b)
        factor.add(abs(ours - right), abs(bare - alpha * alpha * kappa / (1 - b)))
        factor.breaks("no noise", abs(bare - right))


def _regions(t: Trial) -> None:
    """Of nets near the identity, with biases about both ends: whether every row is separated."""
    count = 10 * t.draws
    W = np.eye(SMALL) + t.rng.uniform(-0.4, 0.4, (count, SMALL, SMALL))
    b = t.rng.uniform(0.05, 1.2, (count, SMALL))
    x = (subsets(SMALL)[:, None] * signed(SMALL)).reshape(-1, SMALL)
    u = np.einsum("rij,nj->rni", W, x)
    beyond, sign = np.abs(u) > b[:, None], np.sign(u) == np.sign(x)
    quiet = ~(beyond & (x == 0)).any(1)  # nothing passes where the row's own latent is not shown
    loud = ((beyond & sign) | (x == 0)).all(1)  # and all does, with its sign, where it is
    ours = sd.separated(*tensors(W, b)).numpy()
    part = t.defines("clcore's regions", measured=fraction, controls=fraction)
    part.add(ours != (quiet & loud))
    part.breaks("above the crosstalk only", quiet != (quiet & loud))
    part.breaks("below what is left only", loud != (quiet & loud))
