"""Checks of ddn Theorem 5's threshold (Eqs. 128, 130): in what it grows, and from where on."""

import numpy as np
import torch

from clcore import random, stats
from clcore.checks.hltm.lucky import proofs
from clcore.checks.hltm.lucky.event import Children, heavier
from clcore.checks.hltm.tail import mills_proofs
from clcore.ledger import Trial, check, pooled
from clcore.reference import Array, tensors
from clcore.theory.trees import latent_tree as lt
from clcore.theory.trees import lucky_nodes, tree_nets


def _thresholds(s: Array, rho: Array, c: Array) -> Array:
    """Eq. 130's bracket times 3 sigma_w^2, sigma_w = 1 and sigma_l = 0, one level c per draw."""
    t = tensors(s, rho)
    rows = [lucky_nodes.square_gap_bound(t[0][b], t[1][b], c[b]) for b in range(len(c))]
    return torch.stack(rows).numpy()


@check("ddn/thm5b")
def thm5b(t: Trial) -> None:
    """Lucky nodes at initialisation: sketch with a threshold φ (Sec. 6.1.1).

    Given   the threshold of Eq. 130, the only one that the paper gives, where it is above 0: phi
            rises with 3 sigma_w^2 (mean_k s_k^2 ((c + 6) rho_k^2/6 - 1) - sigma_l^2). |N_mu| of
            Eq. 128: log 1/eta over the lower bound on a node's chance to be lucky.
    Claim   |N_mu| grows as c exp(c/2) at most; phi increases in every rho_{mu nu}^2, in c, and in
            every s_k.
    Fails   in an s_k whose polarity is weaker than others. Corrected: in s_k with equal
            polarities, or where rho_k^2 >= 6/(c + 6). Controls: c/(1 - gamma^2) in the exponent,
            polarities or s_k lowered, a threshold below 0; in the proofs a step's formula changed,
            s_k for rho_k^2 and c, a strong polarity for the weak one.
    """
    # log of |N_mu| of Eq. 128 over c exp(c/2), minus its value at c = 1: never above 0.
    gamma = t.rng.uniform(0.2, 0.95, (t.draws, 1))
    c = np.concatenate([np.ones((t.draws, 1)), t.rng.uniform(1, 50, (t.draws, 20))], 1)
    pair = tensors(c, np.broadcast_to(gamma, c.shape))

    def beyond(printed: bool) -> Array:
        nodes = lucky_nodes.nodes_asked(*pair, 0.5, printed).numpy()
        growth = np.log(nodes) - np.log(c) - c / 2
        return growth[:, 1:] - growth[:, :1]

    growth = t.part("growth", 1e-9, controls=pooled).add(beyond(True))
    growth.breaks("exponent c/(2 (1 - gamma^2))", beyond(False).max(-1))
    mills_proofs.growth(growth)

    # phi increases in every polarity and in c.
    n, size = 5, max(t.draws, 20)  # a third of them have a threshold above 0
    s, rho = t.rng.random((size, n)), t.rng.uniform(-1, 1, (size, n))
    c = t.rng.uniform(0.5, 20, size)
    base = _thresholds(s, rho, c)
    step = np.eye(n)[t.rng.integers(n, size=size)]
    stronger = np.sign(rho) * np.sqrt(rho**2 + 0.01 * step)
    lower = np.sign(rho) * np.sqrt(np.maximum(rho**2 - 0.01, 0))
    rising = t.part("threshold in polarity and c", 0.0, controls=pooled)
    least = np.minimum(_thresholds(s, stronger, c), _thresholds(s, rho, c + 0.1))
    rising.add(-(least - base)).breaks("polarity lowered", base - _thresholds(s, lower, c))

    # And in s_k, as printed; corrected: where rho_k^2 >= 6/(c + 6), or polarities are equal.
    def gains(d: float, rho: Array = rho, base: Array = base) -> Array:
        moved = [_thresholds(np.sqrt(s**2 * (1 + d * e)), rho, c) - base for e in np.eye(n)]
        return np.stack(moved, -1)

    enough, up, down = rho**2 >= 6 / (c[:, None] + 6), gains(0.1), gains(-0.1)
    name = "threshold in each s_k"
    printed, corrected = (
        form(name, 0.0, controls=pooled, draws=n * size) for form in (t.part, t.corrected)
    )
    printed.add(-up[base > 0]).says(share=(up[base > 0] < 0).any(-1).mean())
    corrected.add(-up[enough]).breaks("weaker polarities", -up[~enough])
    equal = np.broadcast_to(rho[:, :1], rho.shape)
    level = _thresholds(s, equal, c)
    risen = gains(0.1, equal, level)
    corrected.add(-risen[level > 0])
    corrected.breaks("equal polarities, threshold below 0", -risen[level < 0])
    for part in (printed, corrected):
        part.breaks("s_k lowered", -down[enough])
    proofs.thm5b(rising, printed, corrected)


WIDE = (2, 5, 15, 50)


@check("ddn/rem20")
def rem20(t: Trial) -> None:
    """More over-parameterisation boosts a lucky node's selectivity (Sec. 6.1.1, after Theorem 5).

    Given   240 random trees of depth 3, exact laws before training; the group of a latent with 2,
            5, 15 and 50 units, alone and with all groups widened.
    Claim   The best |s_j| of the group rises with its number of units: every step by two standard
            errors or more.
    Fails   for the mean over units, which does not rise.
    """
    count = 240  # trees, whatever the draws: a step is measured in standard errors
    tree = lt.complete(3)
    key = t.keys(count)
    model = lt.binary(tree, lt.polarities(random.fold_in(key, 1), tree, 0.5))
    nets = {units: tree_nets.net(random.fold_in(key, 2), tree, units) for units in WIDE}
    # Node 1 has two children above two leaves each; the groups above it are not used.
    fan_in = nets[WIDE[1]][1].shape[-1]
    edge = (3 / fan_in) ** 0.5
    shape = WIDE[-1], fan_in
    many = random.uniform(random.fold_in(key, 3), shape, -edge, edge, torch.float64)
    alone = [nets[WIDE[1]] | {1: many[:, :units]} for units in WIDE]
    for name, groups in (("this group alone", alone), ("all groups", list(nets.values()))):
        laws = [_group(model, weights) for weights in groups]
        s = [tree_nets.selectivity(tree_nets.mean(law.chance, law.out)).abs() for law in laws]
        best = np.array([v.amax(-1).numpy() for v in s])
        mean = np.array([v.mean(-1).numpy() for v in s])
        part = t.part(name, 2.0, ">=", draws=count).add(_least_step(best))
        part.breaks("mean over units", _least_step(mean))
        shown = ", ".join(f"{v:.2f}" for v in best.mean(1))
        part.says(units=", ".join(map(str, WIDE)), best=shown)


def _group(model: lt.Model, weights: tree_nets.Weights) -> tree_nets.Law:
    """The law of node 1's group, from the tree below it alone."""
    below = lt.children(model.tree)
    keep = [1, *below[1], *(leaf for child in below[1] for leaf in below[child])]
    tree = lt.complete(2)
    rates = model.table[:, [k - 1 for k in keep[1:]], 1, 1] * 2 - 1
    nets = {new: weights[old] for new, old in enumerate(keep) if below[old]}
    return tree_nets.laws(lt.binary(tree, rates), nets)[0]


def _least_step(values: Array) -> float:
    """The least rise between neighbouring rows in standard errors, over columns."""
    return float(stats.paired(values[1:], values[:-1]).t.min())


def _gap_of_the_nodes(w: Array, kids: Children, factor: float | Array) -> tuple[Array, Array]:
    """v_j(1) - v_j(0) and the difference of the squares, [nodes], of weights [nodes, n] over all
    states of n children, one draw, sigma_l = 0; each s_k times `factor`, of all or of each."""
    (rho,), (h,), (s,) = kids.rho, kids.h, factor * kids.s
    on = (np.arange(2 ** len(h))[:, None] >> np.arange(len(h))) % 2 == 1
    active = np.maximum(np.where(on, h + s, h - s) @ w.T, 0)
    chance = np.stack([np.where(on, p, 1 - p).prod(-1) for p in ((1 - rho) / 2, (1 + rho) / 2)])
    low, high = chance @ active
    return high - low, high**2 - low**2


@check("ddn/num1")
def num1(t: Trial) -> None:
    """A polarity of 63.3% is enough for an activation gap at c = 9 (Remark after Theorem 5, App.
    C.4).

    Given   sigma_l = 0, c = 9, polarities of 63.3 per cent or more, of both signs; gaps over all
            states of 14 children; weights with the signs of a_k, all of them or all but one.
    Claim   Eq. 130's bracket is positive at 63.3 per cent; nodes that meet the event have
            (v_j(1))^2 - (v_j(0))^2 at least the bound; their gap grows as all s_k do by a factor.
    Fails   at 63.2 per cent; for nodes as they are drawn; for less selective children, and for the
            s_k alone whose weight has the sign of -a_k.
    """
    rng = t.rng
    s = tensors(rng.uniform(0.1, 1, (t.draws, 6)))[0]

    def bracket(rho: float) -> Array:
        return lucky_nodes.square_gap_bound(s, torch.full_like(s, rho), 9.0).numpy()

    # Eq. 130's bracket is positive at 63.3 per cent.
    threshold = t.part("threshold", 0.0, ">=", controls=pooled)
    threshold.add(bracket(0.633)).breaks("63.2 %", bracket(0.632)).says(root=np.sqrt(6 / 15))

    measured = t.part("measured gap", 0.0, ">=", controls=pooled)
    grows = t.part("grows with selectivity", 0.0, ">=", controls=pooled)
    count, n = min(t.draws, 10), 14  # with few children no node can meet the event at c = 9
    h = rng.uniform(0.8, 1, (count, n))
    # With polarities of one size, and with any above it.
    size = np.where(np.arange(count)[:, None] % 2, rng.uniform(0.633, 1, (count, n)), 0.633)
    rho = size * rng.permuted(np.tile([-1, 1], (count, n // 2)), axis=1)
    met, least = 0, np.inf
    for share in (0.85, 0.9):  # s_k over h_k
        kids = heavier(Children((1 - share) * h, (1 + share) * h, rho))
        bound = lucky_nodes.square_gap_bound(*tensors(kids.s, kids.rho), 9.0).numpy()
        # Weights with the signs of a_k, for it is rare that drawn ones meet the event.
        low = rng.uniform(-1, 0.97, (count, 400, 1))
        pull = np.sign(kids.a)[:, None] * rng.uniform(low, 1, (count, 400, n))
        pull[:, ::2, 0] *= -0.5  # and in half of the nodes child 0 pulls the other way
        w = torch.from_numpy(np.sqrt(3 / n) * pull)
        lucky = lucky_nodes.lucky(w, *tensors(kids.h, kids.a), 9.0).numpy()
        any_ones = np.sqrt(3 / n) * rng.uniform(-1, 1, (count, 100, n))
        for b in range(count):
            # Nodes that meet the event: difference of squares over all states, minus the bound.
            one = Children(kids.low[[b]], kids.high[[b]], kids.rho[[b]])
            missed = _gap_of_the_nodes(any_ones[b], one, 1.0)[1] - bound[b]
            measured.breaks("nodes as they are drawn", missed)
            rows = w[b][lucky[b]].numpy()
            if not len(rows):
                continue
            gap, squares = _gap_of_the_nodes(rows, one, 1.0)
            measured.add(squares - bound[b])

            # Their gap grows with s_k: with all s_k times 1.1, minus that before.
            grows.add(_gap_of_the_nodes(rows, one, 1.1)[0] - gap)
            grows.breaks("less selective", _gap_of_the_nodes(rows, one, 0.9)[0] - gap)
            against, first = rows[:, 0] * kids.a[b, 0] < 0, 1 + 0.1 * np.eye(n)[0]
            alone = _gap_of_the_nodes(rows, one, first)[0] - gap
            grows.breaks("one $s_k$ alone, of a weight against it", alone[against])
            met, least = met + len(rows), min(least, gap.min())
    measured.says(met=met, gap=least)
