"""Checks of the steps of ddn Theorem 5's proof (App. C.4, Eqs. 139-154): one node's event.

`clcore.theory.trees.lucky_nodes` meets enumeration of children's states in numpy. Children are
leaves or have three activations, 0, v(0)/q and v(1)/q, so that they vary also when their latent
variable is known.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from clcore import random
from clcore import reference as ref
from clcore.checks.hltm.lucky import proofs
from clcore.ledger import Trial, check, pooled, typical, worst
from clcore.reference import Array, tensors
from clcore.theory.trees import lucky_nodes

SIGMAS = 6.0  # standard errors allowed to the largest of a few entries


class Children(NamedTuple):
    """v(0), v(1), polarity [draws, n], and the chance q of being active given the latent."""

    low: Array  # v(0), [draws, n]
    high: Array  # v(1), [draws, n]
    rho: Array  # polarity, [draws, n]
    q: float = 1.0  # chance of being active given the latent

    @property
    def s(self) -> Array:
        """Selectivity s_k, half of v(1) - v(0)."""
        return (self.high - self.low) / 2

    @property
    def h(self) -> Array:
        """Mean of v(0) and v(1)."""
        return (self.high + self.low) / 2

    @property
    def a(self) -> Array:
        """a_k = rho s_k."""
        return self.rho * self.s

    @property
    def spread(self) -> Array:
        """sigma_l^2: the largest variance given the own latent, [draws]."""
        top = np.maximum(self.low, self.high).max(-1)
        return top**2 * (1 - self.q) / self.q


def heavier(children: Children, sign: int = 1) -> Children:
    """Children with all polarities turned where needed, so that A+ (sign -1: A-) weighs more."""
    a = children.a
    short = sign * (a * np.abs(a)).sum(-1, keepdims=True) < 0
    return children._replace(rho=np.where(short, -children.rho, children.rho))


def leaves(rho: Array) -> Children:
    """Leaves coded 0 and 1."""
    return Children(np.zeros_like(rho), np.ones_like(rho), rho)


def hidden(rng: np.random.Generator, draws: int, n: int, q: float = 0.8) -> Children:
    """Children of random means >= 0 and random polarities of both signs, A+ heavier."""
    low, high = rng.random((2, draws, n))
    return heavier(Children(low, high, rng.uniform(-1, 1, (draws, n)), q))


def means(children: Children) -> tuple[Array, Array]:
    """E[f_k | z_mu = 1] and E[f_k | z_mu = 0], [draws, n], by summing over z_nu."""
    up = (1 + children.rho) / 2
    return (
        up * children.high + (1 - up) * children.low,
        (1 - up) * children.high + up * children.low,
    )


def node_means(weights: Array, children: Children) -> Array:
    """v_j(0), v_j(1), [draws, nodes, 2], by a loop over all joint activations of the children."""
    q, up = children.q, (1 + children.rho) / 2
    values = [np.zeros_like(up), children.low / q, children.high / q]
    total = np.zeros(())
    kinds = (1, 2) if q == 1 else (0, 1, 2)
    for state in product(kinds, repeat=up.shape[-1]):
        f = np.stack([values[kind][:, k] for k, kind in enumerate(state)], -1)
        active = np.maximum(np.einsum("bjn,bn->bj", weights, f), 0)
        chance = []
        for p in (1 - up, up):
            each = [np.full_like(p, 1 - q), q * (1 - p), q * p]
            chance.append(np.prod([each[kind][:, k] for k, kind in enumerate(state)], 0))
        total = total + active[..., None] * np.stack(chance, -1)[:, None, :]
    return total


def draw(rng: np.random.Generator, draws: int, nodes: int, n: int, copies: int = 1) -> torch.Tensor:
    """Uniform weights of sigma = 1, [draws, nodes, n]; of `copies` equal units above each child's
    latent, the sums of theirs: then n * copies is |N_ch|, and all else is as with n children."""
    key = random.key(int(rng.integers(2**40)))
    w = lucky_nodes.weights(random.fold_in(key, torch.arange(draws)), nodes, n * copies)
    return w.unflatten(-1, (n, copies)).sum(-1)


def _from_normal(plus: Array, minus: Array) -> float:
    """n times the largest distance of the characteristic function from a normal's."""
    grid = np.linspace(-3, 3, 21)
    t = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)
    u = np.stack([plus, minus]) / np.sqrt(len(plus))
    root = np.linalg.inv(np.linalg.cholesky(u @ u.T))
    ours = np.prod(np.sinc(np.sqrt(3) * t @ root @ u / np.pi), -1)
    return len(plus) * float(np.max(np.abs(ours - np.exp(-(t**2).sum(-1) / 2))))


@check("ddn/eq142")
def eq142(t: Trial) -> None:
    """Mean pre-activations over random weights are nearly Gaussian (Eqs. 139-142).

    Given   uniform weights on +-sigma_w sqrt(3/n), n = 5..1000 children of random means >= 0 and
            polarities of both signs (moments n <= 50, sigma_w = 1.7; nearly normal n >= 20).
    Claim   The mean pre-activations (v~+, v~-) have mean 0 and the printed covariance sigma_w^2/n
            [[|h + a|^2, |h|^2 - |a|^2], [., |h - a|^2]]: sampled moments within 6 standard errors;
            and they are nearly normal: the distance of characteristic functions falls as 1/n.
    Fails   for the sign off the diagonal; for weights on +-sigma_w/sqrt(n), of a third of the
            variance; nearly normal where one child outweighs all others.
    """
    count, nodes, sigma = min(t.draws, 3), 30_000, 1.7

    # (v~+, v~-) has mean 0 and the printed covariance: moments in standard errors.
    part = t.part("moments", SIGMAS, controls=pooled, draws=3 * count).says(nodes=nodes)
    for n, _ in product((5, 20, 50), range(count)):
        kids = hidden(t.rng, 1, n)
        w = draw(t.rng, 1, nodes, n)[0].numpy() * sigma
        v = w @ np.concatenate(means(kids)).T
        second = np.einsum("ji,jk->jik", v, v)
        error = second.std(0) / np.sqrt(nodes)
        h, a = kids.h[0], kids.a[0]
        off = h @ h - a @ a
        printed = np.array([[(h + a) @ (h + a), off], [off, (h - a) @ (h - a)]]) * sigma**2 / n

        def sigmas(wanted: Array, second: Array = second, error: Array = error) -> float:
            return np.max(np.abs(second.mean(0) - wanted) / error)

        part.add(sigmas(printed), np.max(np.abs(v.mean(0)) / v.std(0)) * np.sqrt(nodes))
        part.breaks("sign off the diagonal", sigmas(printed * np.array([[1, -1], [-1, 1]])))
        # Weights uniform on +-b have the variance b^2 / 3.
        part.breaks("weights on +-1/sqrt n", sigmas(printed / 3))
    proofs.eq142(part)

    # n times the distance from a normal's characteristic function has a bound.
    normal = t.part("nearly normal", 3.0, controls=pooled)
    for n, _ in product((20, 100, 1000), range(count)):
        plus, minus = (m[0] for m in means(hidden(t.rng, 1, n)))
        normal.add(_from_normal(plus, minus))
        if n == 1000:
            weight = np.where(np.arange(n) == 0, np.sqrt(n), 1)
            normal.breaks("one child dominates", _from_normal(weight * plus, weight * minus))


@check("ddn/eq144")
def eq144(t: Trial) -> None:
    """The lucky event in standardised Gaussian variables (Eqs. 143-146).

    Given   a node's pre-activations v~+ and v~-, Gaussian with the covariance of Eq. 142, for n =
            20 children and sigma_w = 1, at 2000 sampled nodes; c in {0.25, 4, 9}.
    Claim   (1) y_+ = sqrt(n) v~+ / (sigma_w |h + a|) and y_- = -sqrt(n) v~- / (sigma_w |h - a|)
            have variance 1 and correlation -gamma. (2) The lucky event, v~+ >= sqrt(c/n) sigma_w
            |u+| and v~- < 0, happens at the same nodes as y_+ >= sqrt(c) and y_- > 0.
    Fails   as typeset, with sqrt(c) sigma_w in the denominators of y; for y_- without its sign; for
            the threshold c in place of sqrt(c).
    """
    n, nodes = 20, 2000
    kids = hidden(t.rng, t.draws, n)
    u = np.stack(means(kids), 1)  # h + a and h - a, [draws, 2, n]
    length = np.linalg.norm(u, axis=-1)
    v = np.einsum("bjn,bin->bji", draw(t.rng, t.draws, nodes, n).numpy(), u)  # v~+ and v~-
    c = np.resize([0.25, 4.0, 9.0], t.draws)
    root = np.sqrt(c)[:, None]
    scale = np.sqrt(n) / length * np.array([1.0, -1.0])  # y over v
    typeset = np.sqrt(n) / root / length * np.array([1.0, -1.0])

    # (1) The covariance of y, mapped from that of v, has variances 1 and correlation -gamma.
    gamma, one = lucky_nodes.correlation(*tensors(kids.h, kids.a)).numpy(), np.ones(t.draws)
    target = np.stack([np.stack([one, -gamma], -1), np.stack([-gamma, one], -1)], -2)
    covariance = u @ u.swapaxes(-1, -2) / n

    def off_target(scale: Array) -> Array:
        return ref.relative(scale[:, :, None] * covariance * scale[:, None, :], target)

    standardised = t.part("standardised", 1e-10, controls=pooled)
    standardised.add(off_target(scale)).breaks("y_- = +v_-", off_target(np.abs(scale)))
    standardised.breaks("as typeset", off_target(typeset), by=worst)

    # (2) The lucky event, asked of v and of y at every node.
    lucky = (v[..., 0] >= np.sqrt(c / n)[:, None] * length[:, :1]) & (v[..., 1] < 0)

    def differs(scale: Array, level: Array) -> Array:
        y = v * scale[:, None]
        return ((y[..., 0] >= level) & (y[..., 1] > 0)) != lucky

    same = t.part("event", 0.0).says(nodes=nodes)
    same.add(differs(scale, root).mean(-1)).breaks("y_+ >= c", differs(scale, c[:, None]).mean())
    same.breaks("as typeset", differs(typeset, root).mean(-1), by=worst)

    proofs.eq144(standardised, same)


@check("ddn/eq147")
def eq147(t: Trial) -> None:
    """The correlation γ is not negative for ReLU children (Eq. 147).

    Given   children with nonnegative means given z_mu, polarities of both signs, n = 2, 5, 40.
    Claim   0 <= gamma <= 1, since |h|^2 - |a|^2 = (h + a)^T (h - a) >= 0: gamma by the library; the
            identity with the means h + a and h - a summed over z_nu.
    Fails   for leaves coded -1 and 1, where gamma = -1; for the identity with a plus sign.
    """
    sign = t.part("sign", 1e-12, controls=pooled)
    identity = t.part("identity", 1e-10, controls=pooled)
    for n in (2, 5, 40):
        kids = hidden(t.rng, t.draws, n)
        h, a = kids.h, kids.a

        # 0 <= gamma <= 1. The library refuses negative means: the control is the cosine in numpy.
        gamma = lucky_nodes.correlation(*tensors(h, a)).numpy()
        coded = means(Children(-np.ones_like(h), np.ones_like(h), kids.rho))
        sign.add(np.maximum(-gamma, gamma - 1)).breaks("leaves coded -1, 1", -_cosine(*coded))

        # |h|^2 - |a|^2 is the product of both means, which are summed over z_nu.
        plus, minus = means(kids)
        inner, square_h, square_a = (plus * minus).sum(-1), (h**2).sum(-1), (a**2).sum(-1)
        identity.add(ref.relative(square_h - square_a, inner))
        identity.breaks("+ |a|^2", ref.relative(square_h + square_a, inner))
    proofs.eq147(sign, identity)


def _cosine(a: Array, b: Array) -> Array:
    """Cosines of vectors [draws, n]."""
    return (a * b).sum(-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))


def strong(rng: np.random.Generator, count: int, n: int = 3, q: float = 0.98) -> Children:
    """Hidden children whose polarities and selectivities leave Eq. 164's bound above 0 though they
    vary within their latent (sigma_l > 0)."""
    low, high = rng.uniform(0, 0.2, (count, n)), rng.uniform(0.8, 1, (count, n))
    rho = rng.uniform(0.95, 1, (count, n)) * rng.choice([-1, 1], (count, n))
    rho[:, 0] = -np.abs(rho[:, 0])  # of both signs, or no node is lucky at so high a level
    rho[:, 1] = np.abs(rho[:, 1])
    return heavier(Children(low, high, rho, q))


def settings(rng: np.random.Generator, count: int) -> list[tuple[Children, float]]:
    """(children, c): hidden ones, leaves, and both of strong polarity, for which bounds bite."""
    signs = rng.uniform(0.9, 1, (count, 6)) * rng.choice([-1, 1], (count, 6))
    return [
        (hidden(rng, count, 4), 1.0),
        (heavier(leaves(rng.uniform(-1, 1, (count, 6)))), 2.0),
        (strong(rng, count), 3.0),
        (heavier(leaves(signs)), 3.0),
    ]


@check("ddn/eq152")
def eq152(t: Trial) -> None:
    """Lower bound on a lucky node's activation when its latent is on (Eqs. 151-154).

    Given   random h >= |a|, A+ (the a_k >= 0) the heavier; children with three activations,
            leaves, and strong polarities; nodes with sampled weights, sigma_w = 1. psi the ReLU, u+
            = h + a the children's means at z_mu = 1, v~+ = w^T u+.
    Claim   |u+|^2 >= sum over A+ of a_k^2 >= sum_k rho^2 s_k^2/2; v_j(1) >= psi(v~+) by Jensen,
            for every node; and v_j(1) >= sigma_w sqrt(c/(2n) sum rho^2 s^2) for those that meet
            the event. v_j by enumeration.
    Fails   the norms for A- the heavier; Jensen for v_j(0) or half of v_j(1), or |v~+| in place of
            psi(v~+) (in the proof min for max); the activation for nodes that miss the event.
    """
    # |u+|^2 >= sum over A+ of a_k^2 >= sum_k rho^2 s_k^2/2.
    norms = t.part("norms", 1e-12, controls=pooled)
    for n in (2, 6, 30):
        kids = hidden(t.rng, t.draws, n)
        norms.add(_beyond_norms(kids)).breaks("A- heavier", _beyond_norms(heavier(kids, -1)))

    jensen = t.part("Jensen", 1e-12, controls=typical)
    activation, met, count = t.part("activation", 1e-12), 0, min(t.draws, 8)
    for kids, c in settings(t.rng, count):
        n = kids.rho.shape[-1]
        w = draw(t.rng, count, 3000, n)
        v = node_means(w.numpy(), kids)

        # v_j(1) >= psi(v~+), for every node; the controls are of nodes with v~+ > 0, or < 0.
        mean = np.einsum("bjn,bn->bj", w.numpy(), means(kids)[0])
        active, up = np.maximum(mean, 0), mean > 0
        jensen.add(active - v[..., 1])
        jensen.breaks("v_j(0) for v_j(1)", (active - v[..., 0])[up])
        jensen.breaks("|v~+| for psi(v~+)", (np.abs(mean) - v[..., 1])[mean < 0])
        jensen.breaks("half of v_j(1)", (active - v[..., 1] / 2)[up])

        # v_j(1) >= sqrt(c/(2n) sum rho^2 s^2), for those that meet the event (others count as -9).
        lucky = lucky_nodes.lucky(w, *tensors(kids.h, kids.a), c).numpy()
        short = np.sqrt(c / (2 * n) * (kids.rho**2 * kids.s**2).sum(-1))[:, None] - v[..., 1]
        activation.add(np.where(lucky, short, -9.0))
        met += int(lucky.sum())
    # The control: of the last setting, leaves of strong polarity.
    activation.breaks("nodes that miss the event", short[~lucky], by=pooled).says(met=met)
    proofs.eq152(norms, jensen, activation)


def _beyond_norms(kids: Children) -> Array:
    """By how much the chain of norms is violated, relative, [draws]."""
    a = kids.a
    positive = np.linalg.norm(np.where(a >= 0, a, 0), axis=-1)
    last = np.sqrt((kids.rho**2 * kids.s**2).sum(-1) / 2)
    plus = np.linalg.norm(means(kids)[0], axis=-1)
    return np.maximum(positive / plus, last / positive.clip(1e-9)) - 1
