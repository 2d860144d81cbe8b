"""Latent trees: the operator of one part of the net, and one update by it (ddn Sec. 6.1.2, Eq. 15).

One update of the simple loss is taken by autograd over all pairs of joint states.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from clcore.checks.hltm.operator import proofs
from clcore.checks.hltm.operator.covariance import both_sizes, dampened, rank_one
from clcore.checks.hltm.tree import reference as tr
from clcore.ledger import Trial, check, pooled, worst
from clcore.ledger.judging import Shared
from clcore.reference import Array, absolute
from clcore.theory.trees import latent_tree as lt
from clcore.theory.trees import tree_nets


def _centred(w: tr.World, mu: int, J: Array) -> Array:
    """K-bar minus its mean, [draws, 2, cn, p], of K = f kron J^T in every joint state, J [draws, p,
    n]."""
    draws, f = len(J), tr.fed(w, mu)
    K = np.einsum("dsc,dpn->dscnp", f, J).reshape(draws, f.shape[1], -1)
    rows, prior = tr.given(w, 0, K), w.model.prior.numpy()
    gaps = rows - np.einsum("dc,dcx->dx", prior, rows)[:, None]
    return gaps.reshape(draws, 2, -1, J.shape[1])


def _operator(w: tr.World, one: tuple[int, Array], other: tuple[int, Array] | None = None) -> Array:
    """Cov_{z_0}[K-bar_mu, K-bar_nu], [draws, cn, c'n'], of two groups and their Jacobians; of one
    group alone OP_mu, the variance."""
    first, second = (_centred(w, *group) for group in (one, other or one))
    return np.einsum("dc,dcip,dcjp->dij", w.model.prior.numpy(), first, second)


def _kron(a: Array, b: Array) -> Array:
    return np.stack([np.kron(x, y) for x, y in zip(a, b, strict=True)])


def _norm_of_operator(rng: np.random.Generator, count: int) -> tuple[Array, ...]:
    """Norms [11, draws] of the enumerated operator at node 1 as |rho_01|, then a, then the root's
    |polarity| grow, and of Theorem 6 as typeset as |rho_01| grows."""
    tree = lt.tree(tr.CATERPILLAR)
    rho = tr.signed(rng, count, len(tr.CATERPILLAR) - 1)
    net = tree_nets.net(tr.keys(rng, count), tree, 3)
    J = rng.standard_normal((count, 4, 3))
    found: tuple[list, ...] = ([], [], [], [])
    for grid in np.linspace(0, 1, 11):
        upper, lower = rho.copy(), rho.copy()
        upper[:, 0] = grid * np.sign(rho[:, 0])
        lower[:, 2:4] *= grid
        cases = ((upper, 0.3), (lower, 0.3), (rho, 0.9 * float(grid)))
        for (rates, root), out in zip(cases, found[:3], strict=True):
            w = tr.explore(lt.binary(tree, torch.from_numpy(rates), root), net)
            out.append(np.linalg.norm(_operator(w, (1, J)), axis=(1, 2)))
            if rates is upper:
                form = _kron(rank_one(both_sizes(w, 1)[0], dampened(w, 1)), J.mT @ J)
                found[3].append(np.linalg.norm(form, axis=(1, 2)))
    return tuple(np.array(rows) for rows in found)


@check("ddn/rem10")
def rem10(t: Trial) -> None:
    """Operator at constant Jacobian: activation covariance times JᵀJ (Sec. 6.1.2).

    Given   SB-HLTM, J_mu constant; OP_mu as a variance over z_0 of all joint states.
    Claim   OP_mu = o_mu a_mu a_mu^T kron J^T J, and it is larger with |rho_0mu| and |a_mu|.
    Fails   with the printed o_mu, which is 0 at the root and falls as |rho_0mu| nears 1.
            Corrected: o_mu = rho_0mu^2 (1 - rho_0^2). Controls: the factors in the other order,
            twice the size, a larger |rho_0|, with which the operator shrinks (in the proof the
            prior of the root).
    """
    count = min(t.share(4), 6)
    some: Shared = {"controls": pooled, "draws": 4 * count}
    product = t.part("Kronecker product", 1e-12, **some)
    printed, mended = (form("o_mu", 1e-12, **some) for form in (t.part, t.corrected))
    for w in tr.worlds(t.rng, count, 3):
        for mu in tr.inner(w):
            J = t.rng.standard_normal((count, 4, 2))
            exact, JJ, a = _operator(w, (mu, J)), J.mT @ J, dampened(w, mu)

            # The covariance of activations kron J^T J, against the operator, by joint states.
            activity = tr.over_root(w, tr.fed(w, mu))
            product.add(absolute(_kron(activity, JJ), exact))
            product.breaks("other order", absolute(_kron(JJ, activity), exact))

            # Its size, o_mu as printed and as corrected.
            typeset, ours = both_sizes(w, mu)
            wrong, right, apart = (
                _kron(rank_one(size, a), JJ) for size in (typeset, ours, typeset - ours)
            )
            printed.add(absolute(wrong, exact)).fails_by(absolute(apart, 0 * exact))
            mended.add(absolute(right, exact))
            mended.breaks("Theorem 6 as printed", absolute(wrong, exact))
            for part, size in ((printed, wrong), (mended, right)):
                part.breaks("twice the size", absolute(2 * size, exact))

    # The norm as |rho_0mu| and |a_mu| grow: its largest fall from one of 11 values to the next.
    polarity, vector, root, typeset = (
        -np.diff(rows, axis=0).min(0) for rows in _norm_of_operator(t.rng, count)
    )
    larger = t.part("larger with rho_0mu and a", 1e-12, controls=pooled).add(polarity, vector)
    larger.breaks("Theorem 6 as printed", typeset).breaks("larger |rho_0|", root)
    proofs.rem10(product, mended, larger)


class Group(NamedTuple):
    """A group of units of a level: its latent, its weights [draws, n, c] and Jacobian [draws, p,
    n]."""

    mu: int
    W: Array
    J: Array


def _loss_step(w: tr.World, groups: Sequence[Group], rate: float) -> Array:
    """The first group's weights after a step on L_simp of the net sum_nu J_nu W_nu f_nu, through
    one of the two branches, by autograd.

    The loss is the sum over all pairs of joint states: those of one root minus those of two.
    """
    held = [
        torch.from_numpy(tr.fed(w, mu)) @ torch.from_numpy(W).mT @ torch.from_numpy(J).mT
        for mu, W, J in groups
    ]
    mu, W, J = groups[0]
    prior = w.model.prior
    states = torch.stack([torch.from_numpy(w.chance * (w.z[:, 0] == c)) for c in (0, 1)], 1)
    same = torch.einsum("dcs,dct,dc->dst", states, states, 1 / prior)
    weight = same - torch.einsum("ds,dt->dst", states.sum(1), states.sum(1))
    first = torch.from_numpy(W).requires_grad_()
    own = torch.from_numpy(tr.fed(w, mu)) @ first.mT @ torch.from_numpy(J).mT
    one, two = sum(held[1:], own), sum(held[1:], held[0])
    squares = (weight.sum(2)[..., None] * one**2 + weight.sum(1)[..., None] * two**2).sum() / 2
    loss = squares - torch.einsum("dst,dsp,dtp->", weight, one, two)
    (slope,) = torch.autograd.grad(loss, first)
    return W - rate * slope.numpy()


@check("ddn/eq15")
def eq15(t: Trial) -> None:
    """An update widens a lucky node's pre-activation gap (Eq. 15).

    Given   SB-HLTM trees, J_mu with orthonormal columns, L_simp; one update by autograd over all
            pairs of joint states, and by the enumerated operator.
    Claim   a^T w_j(t + 1) = (1 + alpha o_mu |a|^2) a^T w_j(t), so that the gap of a lucky node
            grows: of the net of one part alone, and with all groups of its level.
    Fails   with the o_mu of Theorem 6 as printed, 0 at the root; corrected: rho_0mu^2 (1
            - rho_0^2). With the other groups of the level, whose cross terms can shrink the gap;
            corrected: J_mu^T J_nu = 0, or with those terms added. Controls: twice the rate, J^T J
            = 2.25 I, a path polarity of 0 (no growth), cross terms left out or of the other sign;
            in the proof a gap below 0.
    """
    count, rate = max(4, min(t.share(3), 8)), 0.5
    common: Shared = {"controls": pooled, "draws": 3 * count}
    measured = t.part("growth factor, measured o_mu", 1e-12, **common)
    printed, factor = (form("growth factor", 1e-12, **common) for form in (t.part, t.corrected))
    growth = t.part("strict growth", 1e-9, ">=", draws=3 * count)
    for parents in tr.SHAPES[:3]:
        w = tr.world(t.rng, count, parents, 4, 1.5)
        uninformed = _uninformed(w)
        for mu in tr.inner(w):
            a = dampened(w, mu)
            square = (a**2).sum(1)
            W = t.rng.standard_normal((count, 3, a.shape[1]))
            J = np.linalg.qr(t.rng.standard_normal((count, 5, 3)))[0]
            operator = _operator(w, (mu, J))

            def off(size: Array, after: Array, W: Array = W, a: Array = a, square=square) -> Array:
                return _off_factor(1 + rate * size * square, W, after, a)

            # a^T w_j(t + 1) = (1 + alpha o_mu |a|^2) a^T w_j(t): o_mu measured, printed, corrected.
            activity = tr.over_root(w, tr.fed(w, mu))
            fit = np.einsum("dc,dck,dk->d", a, activity, a) / np.where(square, square, 1) ** 2
            typeset, ours = both_sizes(w, mu)
            before = np.einsum("djc,dc->dj", W, a)
            apart = (rate * (typeset - ours) * square)[:, None] * before
            for after in (_loss_step(w, [Group(mu, W, J)], rate), W + rate * _times(operator, W)):
                measured.add(off(fit, after))
                printed.add(off(typeset, after)).fails_by(absolute(apart, 0 * apart))
                factor.add(off(ours, after)).breaks("Theorem 6 as printed", off(typeset, after))
                for part in (measured, printed, factor):
                    part.breaks("twice the rate", off(2 * ours, after))
            stretched = W + rate * _times(_operator(w, (mu, 1.5 * J)), W)
            for part in (measured, printed, factor):
                part.breaks("J^T J = 2.25 I", off(ours, stretched))

            # So the gap of a lucky node grows at every step.
            growth.add(*_least_growth(operator, W, a, rate))
            if mu == 0:
                none = _kron(rank_one(typeset, a), J.mT @ J), W, a
                growth.breaks("Theorem 6 as printed, at the root", *_least_growth(*none, rate))
            else:
                none = _operator(uninformed, (mu, J)), W, dampened(uninformed, mu)
                growth.breaks("path polarity 0", *_least_growth(*none, rate))
    proofs.eq15(measured, factor, growth)
    _whole_level(t, count, rate)


def _groups(rng: np.random.Generator, w: tr.World, mu: int, apart: bool) -> list[Group]:
    """mu and then the other groups of its level, of three units each, with random weights and
    J_nu^T J_nu = I. apart: with J_mu^T J_nu = 0, too."""
    above = [len(lt.path(w.model.tree, node)) for node in range(len(w.model.tree.parents))]
    nodes = [mu, *(nu for nu in tr.inner(w) if nu != mu and above[nu] == above[mu])]
    draws, units = len(w.chance), 3
    if apart:
        square = np.linalg.qr(rng.standard_normal((draws, 2 * units + 5, units * len(nodes))))[0]
        J = np.split(square, len(nodes), axis=2)
    else:
        J = [np.linalg.qr(rng.standard_normal((draws, 5, units)))[0] for _ in nodes]
    shapes = [(draws, units, tr.fed(w, nu).shape[2]) for nu in nodes]
    return [Group(nu, rng.standard_normal(s), j) for nu, s, j in zip(nodes, shapes, J, strict=True)]


def _by_blocks(w: tr.World, groups: Sequence[Group], rate: float) -> Array:
    """The weights after a step, by the enumerated blocks of the whole level's operator."""
    mu, after, J = groups[0]
    for nu, V, other in groups:
        after = after + rate * _times(_operator(w, (mu, J), (nu, other)), V)
    return after


def _from_others(w: tr.World, groups: Sequence[Group]) -> Array:
    """What the other groups of the level add to the growth of a^T w_j at rate 1, [draws, n]."""
    mu, W, J = groups[0]
    far = lt.path_polarity(w.model.tree, torch.from_numpy(tr.rho(w))).numpy()
    total = np.zeros(W.shape[:2])
    for nu, V, other in groups[1:]:
        shown = np.einsum("dpi,dpj,djc,dc->di", J, other, V, dampened(w, nu))
        total += far[:, [nu]] * shown
    size = (1 - tr.rho0(w) ** 2) * far[:, mu] * (dampened(w, mu) ** 2).sum(1)
    return size[:, None] * total


def _whole_level(t: Trial, count: int, rate: float) -> None:
    """Growth with the other groups of the level, which feed the output too."""
    names = "growth factor, all groups of the level", "strict growth, all groups of the level"
    factor, mended = (form(names[0], 1e-12, controls=pooled) for form in (t.part, t.corrected))
    growth, grows = (form(names[1], 1e-9, ">=") for form in (t.part, t.corrected))
    shares: tuple[list[Array], list[Array]] = ([], [])
    for parents in tr.SHAPES[:3]:
        w = tr.world(t.rng, count, parents, 4, 1.5)
        flat = _uninformed(w)
        for mu in tr.inner(w)[1:]:
            for apart in (False, True):
                groups = _groups(t.rng, w, mu, apart)
                if len(groups) < 2:
                    continue
                a, W = dampened(w, mu), groups[0].W
                after, again = _loss_step(w, groups, rate), _by_blocks(w, groups, rate)
                alone = 1 + rate * both_sizes(w, mu)[1] * (a**2).sum(1)
                cross = rate * _from_others(w, groups)
                as_alone, grown = _off_factor(alone, W, after, a), _growth(W, after, a)
                still = _growth(W, _by_blocks(flat, groups, rate), a)

                # The factor, with the cross terms added; alone, where J_mu^T J_nu = 0.
                mended.add(_off_factor(alone, W, after, a, cross))
                if apart:
                    mended.add(as_alone)
                else:
                    factor.add(as_alone).fails_by(_off_factor(alone, W, again, a))
                    factor.breaks("twice the rate", _off_factor(2 * alone - 1, W, after, a))
                    mended.breaks("cross terms left out", as_alone)
                    mended.breaks("their sign", _off_factor(alone, W, after, a, -cross))

                # The gap grows where J_mu^T J_nu = 0, and can shrink elsewhere.
                growth.breaks("path polarity 0", still)
                grows.breaks("path polarity 0", still)
                if apart:
                    grows.add(grown)
                else:
                    grown_again = _growth(W, again, a)
                    growth.add(grown).fails_by(grown_again)
                    grows.breaks(r"$J_\mu^\top J_\nu\ne0$", grown, by=worst)
                    for share, values in zip(shares, (grown, grown_again), strict=True):
                        share.append(values < 0)
    shrink, same = (np.concatenate(v).mean() for v in shares)
    growth.says(shrink=shrink).confirms(shrink=same)
    moved, typeset = _smallest_step()
    for part in (factor, growth):
        part.says(moved=moved, printed=typeset)


def _growth(W: Array, after: Array, a: Array) -> Array:
    """The relative growth of a^T w_j in a step, of units where it begins above 0 and a child is
    selective."""
    before, got = (np.einsum("djc,dc->dj", v, a) for v in (W, after))
    lucky = (before > 0) & (np.abs(a).max(1) > 0.05)[:, None]
    return got[lucky] / before[lucky] - 1


def _smallest_step() -> tuple[float, float]:
    """What f = relu(w_1 x_1) - relu(w_2 x_2) at w = (1, 3) adds to w_1 at rate 1, fair root and all
    polarities 1; and Eq. 15's value."""
    tree = lt.tree((-1, 0, 0, 1, 2))
    net = tree_nets.net(tr.keys(np.random.default_rng(0), 1), tree, 1)
    w = tr.explore(lt.binary(tree, torch.ones(1, 4, dtype=torch.float64), 0.0), net)
    groups = [
        Group(mu, np.array([[[v]]]), np.array([[[j]]]))
        for mu, v, j in ((1, 1.0, 1.0), (2, 3.0, -1.0))
    ]
    size = both_sizes(w, 1)[1] * (dampened(w, 1) ** 2).sum(1)
    return float(_loss_step(w, groups, 1.0).item() - 1), float(size.item())


def _off_factor(
    factor: Array, W: Array, after: Array, a: Array, more: Array | float = 0.0
) -> Array:
    """How far a^T w_j is from `factor` times what it was and `more`, [draws]."""
    before, got = (np.einsum("djc,dc->dj", v, a) for v in (W, after))
    return absolute(factor[:, None] * before + more, got)


def _uninformed(w: tr.World) -> tr.World:
    """The net of w on a tree whose root is independent of its children."""
    flat = tr.rho(w)
    flat[:, [i - 1 for i, parent in enumerate(w.model.tree.parents) if parent == 0]] = 0
    return tr.explore(lt.binary(w.model.tree, torch.from_numpy(flat), 0.2), w.weights)


def _times(operator: Array, W: Array) -> Array:
    """OP vec(W), columns of W stacked, as a matrix of as many rows."""
    step = np.einsum("dij,dj->di", operator, W.swapaxes(1, 2).reshape(len(W), -1))
    return step.reshape(len(W), -1, W.shape[1]).swapaxes(1, 2)


def _least_growth(operator: Array, W: Array, a: Array, rate: float, steps: int = 100) -> Array:
    """The least relative growth of a^T w_j in 100 steps, of the units where it begins above 0 and
    a child is selective."""
    gap, least = np.einsum("djc,dc->dj", W, a), np.full(W.shape[:2], np.inf)
    started = (gap > 0) & (np.abs(a).max(1) > 1e-3)[:, None]
    for _ in range(steps):
        W = W + rate * _times(operator, W)
        new = np.einsum("djc,dc->dj", W, a)
        least, gap = np.minimum(least, new / np.where(started, gap, 1) - 1), new
    return least[started]
