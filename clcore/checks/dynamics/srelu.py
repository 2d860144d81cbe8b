"""Checks of ncl Eqs. 13, 14 and 23: the loss with symmetric ReLUs; Theorem 3's loop.

References are numpy: every latent, both masks jointly, Eq. 14 by its three cases.
"""

import itertools

import numpy as np
import torch

from clcore.checks.dynamics import srelu_regions
from clcore.checks.dynamics import srelu_symbols as sym
from clcore.checks.dynamics.srelu_starts import Warm
from clcore.ledger import Trial, check, pooled
from clcore.reference import Array, tensors
from clcore.theory.sparse import sparse_coding as sc
from clcore.theory.sparse import srelu_dynamics as sd


def signed(d: int) -> Array:
    """All latents, [3^d, d]."""
    return np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=d)))


def subsets(d: int) -> Array:
    """The diagonals of all masks, [2^d, d]."""
    return np.array(list(itertools.product((0.0, 1.0), repeat=d)))


def law(points: Array, inside: float, outside: float) -> Array:
    """Probabilities of independent entries: `inside` where non-zero, else `outside`."""
    return np.array([np.prod([inside if v else outside for v in p]) for p in points])


def by_cases(x: Array, b: Array) -> Array:
    """Eq. 14 by its three cases; complex steps pass through."""
    return np.where(np.real(x) > b, x - b, np.where(np.real(x) < -b, x + b, 0.0))


def products(online: Array, target: Array, b: tuple[Array, Array], x: Array, mass, masks, keep):
    """E[SReLU SReLU] of every row [*c, n]: a sum over (x, D_1, D_2) jointly, nets [*c, n, p]."""
    total = 0.0
    for point, chance in zip(x, mass, strict=True):
        one = by_cases(np.einsum("...np,mp->...mn", online, masks * point), b[0])
        two = by_cases(np.einsum("...np,mp->...mn", target, masks * point), b[1])
        total = total + chance * np.einsum("m,l,...mn,...ln->...n", keep, keep, one, two)
    return total


def brute(w: Warm, r: int, online: Array | None = None) -> Array:
    """E[SReLU(.) SReLU(.)] of each row of both nets in draw r: over all latents of Assumption 1 and
    all masks, jointly. online: another online net [*c, d, d] in place of the draw's."""
    d = w.online.shape[-1]
    z, D = signed(d), subsets(d)
    keep = law(D, w.alpha[r], 1 - w.alpha[r])
    mass = law(z, w.kappa[r] / 2, 1 - w.kappa[r])
    net = w.online[r] if online is None else online
    return products(net, w.target[r], (w.b_online[r], w.b_target[r]), z, mass, D, keep)


@check("ncl/eq13")
def eq13(t: Trial) -> None:
    """Non-contrastive loss of dual networks with symmetric ReLU (Eq. 13).

    Given   any nets and biases, p = 4, d = 3, M not square, noise of two values.
    Claim   The library's loss, from each net's mean over its own mask at every sample, is the joint
            sum over samples and both masks.
    Fails   for one mask for both views, no bias, a one-sided ReLU.
    """
    part, D = t.defines("", 1e-13, controls=pooled), subsets(4)
    for _ in range(min(t.draws, 12)):
        online, target = t.rng.standard_normal((2, 3, 4))
        b = t.rng.uniform(0.1, 0.6, (2, 3))
        alpha, kappa = t.rng.uniform(0.2, 0.9, 2)
        M = np.linalg.qr(t.rng.standard_normal((4, 3)))[0]
        shift = 0.2 * t.rng.standard_normal(4)
        x = np.concatenate([signed(3) @ M.T + s * shift for s in (-1, 1)])
        mass = np.tile(law(signed(3), kappa / 2, 1 - kappa) / 2, 2)
        keep = law(D, alpha, 1 - alpha)
        # The joint sum, against the library's loss.
        value = 2 - 2 * products(online, target, tuple(b), x, mass, D, keep).sum()
        seen = sd.views(*tensors(x, mass), torch.tensor(alpha))
        part.add(abs(float(sd.loss(*tensors(online, target, *b), seen)) - value))
        u, v = (np.einsum("np,kmp->kmn", w, D * x[:, None]) for w in (online, target))
        same = np.einsum("k,m,kmn,kmn->", mass, keep, by_cases(u, b[0]), by_cases(v, b[1]))
        part.breaks("one mask for both", abs(2 - 2 * same - value))
        free = products(online, target, (0 * b[0], 0 * b[1]), x, mass, D, keep).sum()
        part.breaks("no bias", abs(2 - 2 * free - value))
        half = [
            np.einsum("kmn,m->kn", np.maximum(s - c, 0), keep) for s, c in ((u, b[0]), (v, b[1]))
        ]
        plain = np.einsum("k,kn,kn->", mass, *half)
        part.breaks("one-sided ReLU", abs(2 - 2 * plain - value))


@check("ncl/eq14")
def eq14(t: Trial) -> None:
    """Symmetric ReLU with bias (Eq. 14).

    Given   random x and b > 0, ties |x| = b among them.
    Claim   SReLU_b(x) = ReLU(x - b) - ReLU(-x - b) is x - b for x > b, x + b for x < -b, and 0
            between.
    Fails   for b < 0.
    """
    x, b = t.rng.standard_normal((100 * t.draws, 4)), t.rng.uniform(0.01, 1.5, 4)
    x[::7], x[1::7] = b, -b

    def gap(bias: Array) -> Array:
        return np.abs(sc.symmetric_relu(*tensors(x, bias)).numpy() - by_cases(x, bias))

    # The two ReLUs against the three cases.
    cases = t.part("by cases", 1e-15).add(gap(b)).breaks("b < 0", gap(-b).max())
    cases.proves(sym.three_cases(1), breaks={"b < 0": sym.three_cases(-1)})


@check("ncl/eq23")
def eq23(t: Trial) -> None:
    """Symmetric-ReLU loss as a sum over neurons, and their pre-activations (Eqs. 23-24).

    Given   M = I, d = 5, random samples, masks, noise, Delta, biases.
    Claim   2 - 2 times the mean inner product of the two outputs, by matrices, is 2 - 2 times the
            mean sum over rows i of the products of their outputs, whose pre-activations are written
            in Delta, by loops over the same samples.
    Fails   without Delta_ii, and for one mask for both networks.
    """
    d, n = 5, 20
    part = t.part("", 1e-13, controls=pooled)
    for _ in range(t.draws):
        z = t.rng.integers(-1, 2, (n, d)).astype(float)
        D = t.rng.integers(0, 2, (2, n, d)).astype(float)
        noise = 0.1 * t.rng.standard_normal((n, d))
        delta = 0.3 * t.rng.uniform(-1, 1, (2, d, d))
        b = t.rng.uniform(0.05, 0.4, (2, d))
        x = z + noise  # M = I
        u = [
            sc.symmetric_relu(*tensors((D[k] * x) @ (np.eye(d) + delta[k]).T, b[k])) for k in (0, 1)
        ]
        whole = 2 - 2 * float((u[0] * u[1]).sum(-1).mean())

        # The right side; `own` multiplies Delta_ii, masks [2, n, d].
        def rows(own: float, masks: Array, delta=delta, b=b, x=x) -> float:
            total = 0.0
            for i, s in itertools.product(range(d), range(n)):
                term = 1.0
                for k in (0, 1):
                    pre = (1 + own * delta[k, i, i]) * masks[k, s, i] * x[s, i]
                    for j in range(d):
                        pre += delta[k, i, j] * masks[k, s, j] * x[s, j] if j != i else 0.0
                    term *= float(by_cases(np.array(pre), np.array(b[k, i])))
                total += term / n
            return 2 - 2 * total

        part.add(abs(rows(1.0, D) - whole))
        part.breaks("no Delta_ii", abs(rows(0.0, D) - whole))
        part.breaks("one mask", abs(rows(1.0, D[[0, 0]]) - whole))
    part.proves(
        srelu_regions.rows(),
        breaks={"no Delta_ii": srelu_regions.rows(own=0), "one mask": srelu_regions.rows(masks=1)},
        at="d = 2, two samples",
    )


def scheme(w: Warm, seen: sd.Views | None = None, rounds: int = 24) -> Array:
    """Theorem 3's loop on the exact loss, [t, two, draws, d, d]: the nets at the start and after
    each half-round of 16 steps of eta = 5 / (2 alpha^2 kappa); `seen`: with noise, if given."""
    *start, alpha, kappa = tensors(*w)
    if seen is None:
        seen = sd.views(*sd.latents(kappa, w.online.shape[-1]), alpha)
    eta = 5 / (2 * alpha**2 * kappa)
    return sd.alternate(*start, sd.exact_slope(seen), eta, rounds, steps=16).numpy()


def from_identity(nets: Array) -> Array:
    """[draws]: the largest entry of W - I over both nets [two, draws, d, d]."""
    return np.abs(nets - np.eye(nets.shape[-1])).max((0, -1, -2))
