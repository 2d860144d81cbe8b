"""Checks of the steps of ddn Theorem 5's proof (App. C.4, Eqs. 139-154): one node's event.

`clcore.theory.trees.lucky_nodes` meets enumeration of children's states in numpy. Children are
leaves or have three activations, 0, v(0)/q and v(1)/q, so that they vary also when their latent
variable is known.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from clcore import random
from clcore import reference as ref
from clcore.ledger import Check
from clcore.reference import Array, tensors, typical, worst
from clcore.theory.trees import lucky_nodes

SIGMAS = 6.0  # standard errors allowed to the largest of a few entries


class Children(NamedTuple):
    """v(0), v(1), polarity [draws, n], and the chance q of being active given the latent."""

    low: Array
    high: Array
    rho: Array
    q: float = 1.0

    @property
    def s(self) -> Array:
        return (self.high - self.low) / 2

    @property
    def h(self) -> Array:
        return (self.high + self.low) / 2

    @property
    def a(self) -> Array:
        return self.rho * self.s

    @property
    def spread(self) -> Array:
        """sigma_l^2: the largest variance given the own latent, [draws]."""
        top = np.maximum(self.low, self.high).max(-1)
        return top**2 * (1 - self.q) / self.q


def heavier(children: Children, sign: int = 1) -> Children:
    """The same with all polarities turned where needed, so that A+ (sign -1: A-) weighs more."""
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
    total = 0.0
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


def eq142(draws: int, seed: int) -> Iterator[Check]:
    """Covariance of sampled mean pre-activations; their characteristic function against a normal's.

    Controls: the off-diagonal's sign; weights on +-1/sqrt n; one child that dominates.
    """
    check = partial(Check, "ddn/eq142")
    rng = ref.generator("eq142", seed)
    nodes, found = 30_000, {"ours": [], "sign": [], "range": []}
    count = min(draws, 3)
    for n in (5, 20, 50):
        for _ in range(count):
            kids = hidden(rng, 1, n)
            w = draw(rng, 1, nodes, n)[0].numpy() * 1.7
            u = np.stack([m[0] for m in means(kids)])
            v = w @ u.T
            second = np.einsum("ji,jk->jik", v, v)
            error = second.std(0) / np.sqrt(nodes)
            h, a = kids.h[0], kids.a[0]
            off = h @ h - a @ a
            printed = np.array([[(h + a) @ (h + a), off], [off, (h - a) @ (h - a)]]) * 1.7**2 / n
            flip = printed * np.array([[1, -1], [-1, 1]])
            for name, wanted in (("ours", printed), ("sign", flip), ("range", printed / 3)):
                found[name].append(np.max(np.abs(second.mean(0) - wanted) / error))
            found["ours"].append(np.max(np.abs(v.mean(0)) / v.std(0)) * np.sqrt(nodes))
    yield check(
        worst(np.array(found["ours"])),
        SIGMAS,
        {
            "sign off the diagonal": typical(np.array(found["sign"])),
            "weights on +-1/sqrt n": typical(np.array(found["range"])),
        },
        draws=3 * count,
        part="moments",
        note=f"In standard errors, {nodes} nodes.",
    )
    grid = np.linspace(-3, 3, 21)
    t = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)

    def distance(plus: Array, minus: Array) -> float:
        u = np.stack([plus, minus]) / np.sqrt(len(plus))
        root = np.linalg.inv(np.linalg.cholesky(u @ u.T))
        angles = np.sqrt(3) * t @ root @ u
        ours = np.prod(np.sinc(angles / np.pi), -1)
        return len(plus) * float(np.max(np.abs(ours - np.exp(-(t**2).sum(-1) / 2))))

    near, far = [], []
    for n in (20, 100, 1000):
        for _ in range(count):
            plus, minus = (m[0] for m in means(hidden(rng, 1, n)))
            near.append(distance(plus, minus))
            weight = np.where(np.arange(n) == 0, np.sqrt(n), 1)
            far += [distance(weight * plus, weight * minus)] if n > 500 else []
    yield check(
        worst(np.array(near)),
        3.0,
        {"one child dominates": typical(np.array(far))},
        draws=3 * count,
        part="nearly normal",
        note=r"$|\mathcal N^{ch}_\mu|$ (20 to 1000) times the largest distance of the "
        "characteristic functions: it falls like one over the number of children. Fails where one "
        "child outweighs all others together, against the condition of the Central Limit Theorem "
        "that the text invokes.",
    )


def eq144(draws: int, seed: int) -> Iterator[Check]:
    """The map of Eq. 144 applied to the covariance of Eq. 142 and to sampled nodes.

    Controls: y_- with its sign lost; the level c in place of sqrt c.
    """
    check = partial(Check, "ddn/eq144")
    rng = ref.generator("eq144", seed)
    n, nodes = 20, 2000
    kids = hidden(rng, draws, n)
    plus, minus = means(kids)
    c = rng.choice([0.25, 4.0, 9.0], draws)
    u = np.stack([plus, minus], 1)
    covariance = u @ u.swapaxes(-1, -2) / n
    gamma = lucky_nodes.correlation(*tensors(kids.h, kids.a)).numpy()
    one = np.ones(draws)
    target = np.stack([np.stack([one, -gamma], -1), np.stack([-gamma, one], -1)], -2)
    v = np.einsum("bjn,bin->bji", draw(rng, draws, nodes, n).numpy(), u)
    event = np.stack(
        [
            (row[:, 0] >= np.sqrt(level / n) * np.linalg.norm(p)) & (row[:, 1] < 0)
            for row, level, p in zip(v, c, plus, strict=True)
        ]
    )
    found = {}
    for typeset in (True, False):
        extra = 1 / np.sqrt(c) if typeset else one
        scale = np.sqrt(n) * extra[:, None] / np.linalg.norm(u, axis=-1) * np.array([1.0, -1.0])
        y = v * scale[:, None]
        inside = (y[..., 0] >= np.sqrt(c)[:, None]) & (y[..., 1] > 0)
        found[typeset] = (
            worst(ref.relative(scale[:, :, None] * covariance * scale[:, None, :], target)),
            worst((inside != event).mean(-1)),
        )
    lost = np.abs(scale)
    above = (v[..., 0] * lost[:, :1] >= c[:, None]) & (y[..., 1] > 0)
    misprint = (
        r"$\sqrt c\,\sigma_w$ in the denominators -> $\sigma_w$, which standardises, and which "
        "Eqs. 143, 145-150 use"
    )
    control = ref.relative(lost[:, :, None] * covariance * lost[:, None, :], target)
    yield check(
        found[False][0],
        1e-10,
        {"as typeset": found[True][0], "y_- = +v_-": typical(control)},
        draws=draws,
        part="standardised",
        misprint=misprint,
        note=r"As typeset $\mathbb V[y_\pm]=1/c$.",
    )
    yield check(
        found[False][1],
        0.0,
        {"as typeset": found[True][1], "y_+ >= c": float((above != event).mean())},
        draws=draws,
        part="event",
        misprint=misprint,
        note=f"Share of {nodes} sampled nodes on which the two events differ.",
    )


def eq147(draws: int, seed: int) -> Iterator[Check]:
    """gamma of children with non-negative means, and the identity that shows its sign.

    Controls: leaves coded -1 and 1, for which gamma = -1; the identity with a plus sign.
    """
    rng = ref.generator("eq147", seed)
    gammas, signed, apart, wrong = [], [], [], []
    for n in (2, 5, 40):
        kids = hidden(rng, draws, n)
        h, a = kids.h, kids.a
        gammas.append(lucky_nodes.correlation(*tensors(h, a)).numpy())
        plus, minus = means(kids)
        inner, square = (plus * minus).sum(-1), (h**2).sum(-1) - (a**2).sum(-1)
        apart.append(ref.relative(square, inner))
        wrong.append(ref.relative((h**2).sum(-1) + (a**2).sum(-1), inner))
        plus, minus = means(Children(-np.ones_like(h), np.ones_like(h), kids.rho))
        norms = np.linalg.norm(plus, axis=-1) * np.linalg.norm(minus, axis=-1)
        signed.append((plus * minus).sum(-1) / norms)
    gammas = np.stack(gammas)
    yield Check(
        "ddn/eq147",
        worst(-gammas, gammas - 1),
        1e-12,
        {"leaves coded -1, 1": typical(-np.concatenate(signed))},
        draws=3 * draws,
        part="sign",
        note="Leaves are to be coded 0 and 1: coded -1 and 1 they are no ReLU outputs, and gamma "
        "is -1.",
    )
    yield Check(
        "ddn/eq147",
        worst(*apart),
        1e-10,
        {"+ |a|^2": typical(np.concatenate(wrong))},
        draws=3 * draws,
        part="identity",
    )


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


def eq152(draws: int, seed: int) -> Iterator[Check]:
    """The chain of norms, and v_j^+ of sampled nodes by enumeration: that it is at least the
    activation of the mean, and at least the bound where the event is met.

    Controls: A- heavier than A+; v_j^-, no ReLU, half of v_j^+; nodes that miss the event.
    """
    check = partial(Check, "ddn/eq152")
    rng = ref.generator("eq152", seed)
    below, flipped = [], []
    for n in (2, 6, 30):
        kids = hidden(rng, draws, n)
        for sign, into in ((1, below), (-1, flipped)):
            kids = heavier(kids, sign)
            a = kids.a
            positive = np.linalg.norm(np.where(a >= 0, a, 0), axis=-1)
            last = np.sqrt((kids.rho**2 * kids.s**2).sum(-1) / 2)
            plus = np.linalg.norm(means(kids)[0], axis=-1)
            into.append(np.maximum(positive / plus, last / positive.clip(1e-9)) - 1)
    yield check(
        worst(*below),
        1e-12,
        {"A- heavier": typical(np.concatenate(flipped))},
        draws=3 * draws,
        part="norms",
        note=r"With $\bar v\ge|a|$ the first step loses a factor of two or more, "
        r"$\|\mathbf u^+\|^2\ge4\sum_{A_+}a_k^2$.",
    )
    met, count = [], min(draws, 8)
    jensen: dict[str, list[Array]] = {name: [] for name in ("ours", "low", "no ReLU", "half")}
    for kids, c in settings(rng, count):
        n = kids.rho.shape[-1]
        w = draw(rng, count, 3000, n)
        v = node_means(w.numpy(), kids)
        mean = np.einsum("bjn,bn->bj", w.numpy(), means(kids)[0])
        active = np.maximum(mean, 0)
        jensen["ours"].append(active - v[..., 1])
        jensen["low"].append((active - v[..., 0])[mean > 0])
        jensen["no ReLU"].append((np.abs(mean) - v[..., 1])[mean < 0])
        jensen["half"].append((active - v[..., 1] / 2)[mean > 0])
        lucky = lucky_nodes.lucky(w, *tensors(kids.h, kids.a), c).numpy()
        bound = np.sqrt(c / (2 * n) * (kids.rho**2 * kids.s**2).sum(-1))[:, None]
        met.append(np.where(lucky, bound - v[..., 1], -9.0))
    yield check(
        worst(*jensen["ours"]),
        1e-12,
        {
            "v_j(0) for v_j(1)": typical(*jensen["low"]),
            "|.| for the ReLU": typical(*jensen["no ReLU"]),
            "half of v_j(1)": typical(*jensen["half"]),
        },
        draws=len(met) * count,
        part="Jensen",
        note=r"$\psi(\tilde v_j^+)-v_j^+$ at worst, of all 3000 nodes a draw.",
    )
    yield check(
        worst(*met),
        1e-12,
        {"nodes that miss the event": float(np.median((bound - v[..., 1])[~lucky]))},
        draws=len(met) * count,
        part="activation",
        note=f"{sum(int((m > -9).sum()) for m in met)} nodes met the event; the control is of "
        "leaves with strong polarity.",
    )
