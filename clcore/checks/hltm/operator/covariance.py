"""Latent trees: what survives the augmentation (ddn Sec. 6.1.2, App. C.5).

`clcore.theory.trees.latent_tree` and `clcore.theory.trees.tree_nets` meet the enumeration of all
joint states in numpy.
"""

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.hltm.tree import proofs as tree_proofs
from clcore.checks.hltm.tree import reference as tr
from clcore.checks.hltm.tree.nets import STATES, categorical
from clcore.ledger import Trial, check, pooled
from clcore.ledger.judging import Shared
from clcore.reference import Array, absolute
from clcore.theory.trees import latent_tree as lt
from clcore.theory.trees import tree_nets

Q = np.array([-1.0, 1.0])  # q: P(z_nu | z_mu) is (1 1^T + rho q q^T)/2


def both_sizes(w: tr.World, mu: int) -> tuple[Array, Array]:
    """(rho_0mu^2 (1 - rho_0mu^2), as Theorem 6 is typeset; rho_0mu^2 (1 - rho_0^2), Eq. 179),
    each [draws]."""
    rho = lt.path_polarity(w.model.tree, torch.from_numpy(tr.rho(w)))[:, mu].numpy()
    return rho**2 * (1 - rho**2), rho**2 * (1 - tr.rho0(w) ** 2)


def dampened(w: tr.World, mu: int) -> Array:
    """a_mu = [rho_{mu nu(k)} s_k], [draws, c]."""
    return tree_nets.child_selectivity(w.model, w.groups, mu).numpy()


def rank_one(size: Array, a: Array) -> Array:
    """size a a^T, a draw each, [draws, c, c]."""
    return size[:, None, None] * (a[:, :, None] * a[:, None, :])


def _irregular(rng: np.random.Generator, count: int) -> list[tr.World]:
    """Categorical worlds whose transitions are stochastic and nothing more."""
    out = []
    for parents, states in zip(tr.SHAPES, STATES, strict=False):
        tree = lt.tree(parents, states)
        tables = [
            torch.from_numpy(ref.normalised(rng.exponential(size=(count, states[i], m))))
            for i, m in zip(parents[1:], states[1:], strict=True)
        ]
        prior = ref.normalised(rng.exponential(size=(count, states[0])))
        model = lt.categorical(tree, torch.from_numpy(prior), tables, regular=False)
        out.append(tr.explore(model, tree_nets.net(tr.keys(rng, count), tree, 3)))
    return out


@check("ddn/lem9")
def lem9(t: Trial) -> None:
    """Covariance of mean activations over the root of a TR-HLTM (Lemma 9, Eq. 166).

    Given   categorical trees with ReLU units and binary ones, any prior of the root; all joint
            states enumerated.
    Claim   V_z0[E[f|z_0]] = V_0^T (P_0 - P_0 1 1^T P_0) V_0, P_0 = diag P(z_0), also where
            transitions are not regular; the columns of V_0, v_0k = E[f_k|z_0], are 1 1^T v_k/m_nu
            + C_0nu v_k (Eq. 169).
    Fails   for a uniform P_0, without the mean subtracted; the columns where transitions are not
            regular.
    """
    count = min(t.share(6), 6)
    worlds = [(True, w) for w in categorical(t.rng, count) + tr.worlds(t.rng, count, 3)]
    total = len(worlds) * count
    covariance = t.part("Eq. 166", 1e-13, controls=pooled, draws=total + 3 * count)
    columns = t.part("Eq. 169", 1e-13, controls=pooled, draws=total)
    for regular, w in worlds + [(False, w) for w in _irregular(t.rng, count)]:
        prior = w.model.prior
        flat = torch.full_like(prior, 1 / prior.shape[1])
        for mu in tr.inner(w):
            # V_0^T (P_0 - P_0 1 1^T P_0) V_0 by the library against V_z0[E[f|z_0]] by joint states.
            V, exact = tree_nets.root_means(w.model, w.groups, mu), tr.over_root(w, tr.fed(w, mu))
            covariance.add(absolute(tree_nets.root_covariance(prior, V), exact))
            covariance.breaks("uniform prior", absolute(tree_nets.root_covariance(flat, V), exact))
            raw = V.mT @ torch.diag_embed(prior) @ V
            covariance.breaks("mean not subtracted", absolute(raw, exact))

            # 1 1^T v_k/m_nu + C_0nu v_k against E[f_k|z_0] by joint states, C_0nu along the path.
            for child in tr.below(w, mu):
                C, m = np.eye(prior.shape[1]), w.model.tree.states[child]
                for node in lt.path(w.model.tree, child)[1:]:
                    C = C @ (lt.edge(w.model, node).numpy() - 1 / w.model.tree.states[node])
                v = tr.given(w, child, w.out[child])
                ours = v.sum(1, keepdims=True) / m + C @ v
                error = absolute(ours, tr.given(w, 0, w.out[child]))
                columns.add(error) if regular else columns.breaks("not regular", error)
    tree_proofs.lem9(covariance, columns)


@check("ddn/eq170")
def eq170(t: Trial) -> None:
    """Mean and variance of a categorical variable as matrix products (Eq. 170).

    Given   random laws p of 2..10 states, P_0 = diag p, random values u.
    Claim   Mean 1^T P_0 u and variance (u - 1 1^T P_0 u)^T P_0 (u - 1 1^T P_0 u) = u^T (P_0 - P_0
            1 1^T P_0) u, against sums.
    Fails   the variance: about the unweighted mean, and for the raw second moment.
    """
    # Sums, against both forms of the variance, the library's, and the mean.
    part = t.part("", 1e-14, controls=pooled, draws=9 * t.draws)
    for m in range(2, 11):
        p = ref.normalised(t.rng.exponential(size=(t.draws, m)))
        u = t.rng.standard_normal((t.draws, m))
        mean = sum(p[:, i] * u[:, i] for i in range(m))
        exact = sum(p[:, i] * (u[:, i] - mean) ** 2 for i in range(m))
        P0, one = p[:, :, None] * np.eye(m), np.ones((m, m))
        centred = u - (one @ P0 @ u[..., None])[..., 0]
        part.add(absolute(np.einsum("di,dij,dj->d", centred, P0, centred), exact))
        part.add(absolute(np.einsum("di,dij,dj->d", u, P0 - P0 @ one @ P0, u), exact))
        ours = tree_nets.root_covariance(*ref.tensors(p, u[..., None]))[:, 0, 0].numpy()
        part.add(absolute(ours, exact), absolute((P0 @ u[..., None]).sum((1, 2)), mean))
        off = u - u.mean(1, keepdims=True)
        flat = np.einsum("di,dij,dj->d", off, P0, off)
        part.breaks("unweighted mean", absolute(flat, exact))
        part.breaks("raw moment", absolute((p * u**2).sum(1), exact))
    tree_proofs.eq170(part)


@check("ddn/eq172")
def eq172(t: Trial) -> None:
    """Covariance over a binary root from polarities and selectivity (Eqs. 172-176).

    Given   a binary root of any polarity, SB-HLTM trees with ReLU units, enumerated; q = (-1, 1).
    Claim   P_0 - P_0 1 1^T P_0 = (1 - rho_0^2) q q^T/4, so the covariance is (1 - rho_0^2)/4 V_0^T
            q q^T V_0; C_0nu v_k = rho_0nu s_k q; q^T v_0k = 2 rho_0nu s_k = 2 rho_0mu a_mu[k], v_0k
            the columns of V_0.
    Fails   for 1/2 in place of 1/4, for 1 - |rho_0| in place of 1 - rho_0^2 (in the proof for q
            = (1, 1)); the covariance without rho_0; C_0nu v_k for -q; q^T v_0k without the 2.
    """
    # P_0 - P_0 1 1^T P_0 = (1 - rho_0^2) q q^T/4, by numpy and by the library.
    rho0 = np.concatenate([[-1, 0, 1], t.rng.uniform(-1, 1, 10 * t.draws)])
    p = np.stack([1 - rho0, 1 + rho0], -1) / 2
    left = p[:, :, None] * np.eye(2) - p[:, :, None] * p[:, None, :]
    right = (1 - rho0**2)[:, None, None] / 4 * np.outer(Q, Q)
    plain = (1 - np.abs(rho0))[:, None, None] / 4 * np.outer(Q, Q)
    ours = tree_nets.root_covariance(*ref.tensors(p, np.eye(2) + np.zeros((len(p), 2, 2))))
    root = t.part("Eq. 172", 1e-15, controls=pooled, draws=len(p))
    root.add(absolute(right, left), absolute(right, ours))
    root.breaks("1/2", absolute(2 * right, left)).breaks("1 - |rho|", absolute(plain, left))
    tree_proofs.eq172_root(root)

    count = min(t.share(4), 15)
    covariance, transitions, means = (
        t.part(name, 1e-13, controls=pooled, draws=4 * count)
        for name in ("Eq. 173", "Eq. 176", "Eqs. 175, 177")
    )
    for w in tr.worlds(t.rng, count, 3):
        for mu in tr.inner(w):
            # The covariance is (1 - rho_0^2)/4 V_0^T q q^T V_0.
            V = np.concatenate([tr.given(w, 0, w.out[i]) for i in tr.below(w, mu)], -1)
            Vq, exact = np.einsum("c,dcn->dn", Q, V), tr.over_root(w, tr.fed(w, mu))
            covariance.add(absolute(rank_one((1 - tr.rho0(w) ** 2) / 4, Vq), exact))
            uniform = rank_one(np.full(count, 1 / 4), Vq)
            covariance.breaks("root's polarity left out", absolute(uniform, exact))

            # q^T v_0k = 2 rho_0mu a_mu[k].
            path = tr.path_rho(w, mu)[:, None]
            means.add(absolute(2 * path * dampened(w, mu), Vq))
            means.breaks("no 2", absolute(path * dampened(w, mu), Vq))

            for child in tr.below(w, mu):
                # C_0nu v_k = rho_0nu s_k q.
                v, own = tr.given(w, child, w.out[child]), tr.path_rho(w, child)[:, None]
                C = lt.path_transition(w.model, child).numpy() - 0.5
                s = (v[:, 1] - v[:, 0]) / 2
                along = (own * s)[:, None, :] * Q[None, :, None]
                transitions.add(absolute(C @ v, along))
                transitions.breaks("q = [1, -1]", absolute(C @ v, -along))

                # q^T v_0k = 2 rho_0nu s_k.
                at_root = np.einsum("c,dcn->dn", Q, tr.given(w, 0, w.out[child]))
                means.add(absolute(at_root, 2 * own * s))
    tree_proofs.eq172(covariance, transitions, means)


@check("ddn/thm6")
def thm6(t: Trial) -> None:
    """Activation covariance over the root has rank one (Theorem 6).

    Given   SB-HLTM; V over z_0 of the children's mean activations, by enumeration of all states;
            a_mu = [rho s_k], the children's polarity times selectivity.
    Claim   it is o_mu a_mu a_mu^T, o_mu = rho_0mu^2 (1 - rho_0mu^2). Corrected: 1 - rho_0^2, rho_0
            the polarity of the root.
    Fails   in size with the printed o_mu, or with twice either o_mu; in direction without the
            polarities in a_mu.
    """
    count = min(max(t.share(4), 8), 15)
    some: Shared = {"controls": pooled, "draws": 4 * count}
    shape = t.part("a multiple of a a^T", 1e-13, **some)
    printed, mended = (form("o_mu", 1e-13, **some) for form in (t.part, t.corrected))
    for w in tr.worlds(t.rng, count, 3):
        for mu in tr.inner(w):
            exact, a = tr.over_root(w, tr.fed(w, mu)), dampened(w, mu)

            # Its direction: how far it is from the nearest multiple of a a^T.
            shape.add(_off_multiple(exact, a))
            bare = tr.selective(w, mu)[0]
            # Draws where the signs of s_k^2 rho differ: one rho for all would only be a factor.
            turned = np.ptp(np.sign(bare * a), -1) > 0
            shape.breaks("polarities left out of a", _off_multiple(exact, bare)[turned])

            # Its size, against o_mu a a^T with 1 - rho_0mu^2 (printed) and with 1 - rho_0^2.
            typeset, ours = both_sizes(w, mu)
            printed.add(absolute(rank_one(typeset, a), exact))
            printed.fails_by(absolute(rank_one(typeset - ours, a), 0 * exact))
            mended.add(absolute(rank_one(ours, a), exact))
            mended.breaks("rho_0mu for rho_0", absolute(rank_one(typeset, a), exact))
            for part, size in ((printed, typeset), (mended, ours)):
                part.breaks("twice the size", absolute(rank_one(2 * size, a), exact))
    tree_proofs.thm6(shape, mended)


def _off_multiple(exact: Array, a: Array) -> Array:
    """How far `exact` is from the nearest multiple of a a^T, [draws]."""
    outer = rank_one(np.ones(len(a)), a)
    square = (outer**2).sum((1, 2))
    fit = (exact * outer).sum((1, 2)) / np.where(square, square, 1)
    return absolute(rank_one(fit, a), exact)


@check("ddn/eq179")
def eq179(t: Trial) -> None:
    """Activation covariance over the root, with the root's polarity (Eqs. 178-179).

    Given   SB-HLTM trees with ReLU units, enumerated; roots of any polarity.
    Claim   V_z0[E[f|z_0]] = rho_0mu^2 (1 - rho_0^2) a_mu a_mu^T, entry by entry.
    Fails   for Theorem 6 as typeset, 1 - rho_0mu^2 in place of 1 - rho_0^2, and for a root taken
            as uniform.
    """
    count = min(t.share(4), 15)
    # The formula, a from the library, against the joint states.
    part = t.part("", 1e-13, controls=pooled, draws=4 * count)
    for w in tr.worlds(t.rng, count, 3):
        for mu in tr.inner(w):
            exact, a = tr.over_root(w, tr.fed(w, mu)), dampened(w, mu)
            typeset, ours = both_sizes(w, mu)
            part.add(absolute(rank_one(ours, a), exact))
            part.breaks("Theorem 6 as typeset", absolute(rank_one(typeset, a), exact))
            uniform = tr.path_rho(w, mu) ** 2
            part.breaks("root taken as uniform", absolute(rank_one(uniform, a), exact))
    tree_proofs.eq179(part)
