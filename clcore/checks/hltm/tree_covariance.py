"""Latent trees: what survives the augmentation (ddn Sec. 6.1.2, App. C.5).

`clcore.theory.trees.latent_tree` and `clcore.theory.trees.tree_nets` meet the enumeration of all
joint states in numpy.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.hltm import tree_reference as tr
from clcore.checks.hltm.tree_nets import STATES, categorical
from clcore.ledger import Check
from clcore.reference import Array, absolute, share, typical, worst
from clcore.theory.trees import latent_tree as lt
from clcore.theory.trees import tree_nets

Q = np.array([-1.0, 1.0])
O_OF_THE_PROOF = (
    r"$o_\mu=\rho_{0\mu}^2(1-\rho_0^2)$, as in Eq. 179, with $\rho_0$ the root's polarity."
)


def outer_square(a: Array) -> Array:
    """a a^T, a draw each."""
    return a[:, :, None] * a[:, None, :]


def both_sizes(w: tr.World, mu: int) -> tuple[Array, Array]:
    """(o_mu as Theorem 6 prints it, o_mu of Eq. 179), each [draws]."""
    rho = lt.path_polarity(w.model.tree, torch.from_numpy(tr.rho(w)))[:, mu].numpy()
    return rho**2 * (1 - rho**2), rho**2 * (1 - tr.rho0(w) ** 2)


def dampened(w: tr.World, mu: int) -> Array:
    """a_mu = [rho_{mu nu(k)} s_k], [draws, c]."""
    return tree_nets.child_selectivity(w.model, w.groups, mu).numpy()


def times(size: Array, matrix: Array) -> Array:
    """A number times a matrix, a draw each."""
    return size[:, None, None] * matrix


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


def lem9(draws: int, seed: int) -> Iterator[Check]:
    """The covariance over z_0 and its columns v_0k, categorical trees with ReLU units.

    Controls: a uniform prior, the mean not subtracted; columns where transitions are not regular.
    """
    check, rng = partial(Check, "ddn/lem9"), ref.generator("lem9 tree", seed)
    count = min(share(draws, 6), 6)
    formula, uniform, raw = [], [], []
    columns: dict[bool, list[Array]] = {True: [], False: []}
    worlds = [(True, w) for w in categorical(rng, count) + tr.worlds(rng, count, 3)]
    for regular, w in worlds + [(False, w) for w in _irregular(rng, count)]:
        for mu in tr.inner(w):
            V, exact = tree_nets.root_means(w.model, w.groups, mu), tr.over_root(w, tr.fed(w, mu))
            prior = w.model.prior
            formula.append(absolute(tree_nets.root_covariance(prior, V), exact))
            flat = torch.full_like(prior, 1 / prior.shape[1])
            uniform.append(absolute(tree_nets.root_covariance(flat, V), exact))
            raw.append(absolute(V.mT @ torch.diag_embed(prior) @ V, exact))
            for child in tr.below(w, mu):
                C, m = np.eye(prior.shape[1]), w.model.tree.states[child]
                for node in lt.path(w.model.tree, child)[1:]:
                    C = C @ (lt.edge(w.model, node).numpy() - 1 / w.model.tree.states[node])
                v = tr.given(w, child, w.out[child])
                split = v.sum(1, keepdims=True) / m + C @ v
                columns[regular].append(absolute(split, tr.given(w, 0, w.out[child])))
    total = len(worlds) * count
    pool = np.concatenate
    yield check(
        worst(*formula),
        1e-13,
        {"uniform prior": typical(pool(uniform)), "mean not subtracted": typical(pool(raw))},
        draws=total + 3 * count,
        part="Eq. 166",
        note="Regularity (Def. 3) is not needed for it: irregular trees are among the draws.",
    )
    yield check(
        worst(*columns[True]),
        1e-13,
        {"not regular": typical(pool(columns[False]))},
        draws=total,
        part="Eq. 169",
    )


def eq170(draws: int, seed: int) -> Iterator[Check]:
    """Mean and variance of a categorical variable: both forms of Eq. 170 against sums.

    Controls: the mean of the values unweighted; the raw second moment.
    """
    rng, errors, flat, raw = ref.generator("eq170 tree", seed), [], [], []
    for m in range(2, 11):
        p, u = ref.normalised(rng.exponential(size=(draws, m))), rng.standard_normal((draws, m))
        mean = sum(p[:, i] * u[:, i] for i in range(m))
        exact = sum(p[:, i] * (u[:, i] - mean) ** 2 for i in range(m))
        P0, one = p[:, :, None] * np.eye(m), np.ones((m, m))
        c = u - (one @ P0 @ u[..., None])[..., 0]
        second = P0 - P0 @ one @ P0
        ours = tree_nets.root_covariance(*ref.tensors(p, u[..., None]))[:, 0, 0].numpy()
        forms = [np.einsum("di,dij,dj->d", c, P0, c), np.einsum("di,dij,dj->d", u, second, u)]
        errors += [absolute(form, exact) for form in [*forms, ours]]
        errors.append(absolute((P0 @ u[..., None]).sum((1, 2)), mean))
        off = u - u.mean(1, keepdims=True)
        flat.append(absolute(np.einsum("di,dij,dj->d", off, P0, off), exact))
        raw.append(absolute((p * u**2).sum(1), exact))
    control = {
        "unweighted mean": typical(np.concatenate(flat)),
        "raw moment": typical(np.concatenate(raw)),
    }
    yield Check("ddn/eq170", worst(*errors), 1e-14, control, draws=9 * draws)


def eq172(draws: int, seed: int) -> Iterator[Check]:
    """A binary root: P_0 - P_0 1 1^T P_0, and C_0nu v_k along q. Controls: 1/2 for 1/4, signs."""
    check, rng = partial(Check, "ddn/eq172"), ref.generator("eq172 tree", seed)
    rho = np.concatenate([[-1, 0, 1], rng.uniform(-1, 1, 10 * draws)])
    p = np.stack([1 - rho, 1 + rho], -1) / 2
    left = p[:, :, None] * np.eye(2) - p[:, :, None] * p[:, None, :]
    right = (1 - rho**2)[:, None, None] / 4 * np.outer(Q, Q)
    plain = (1 - np.abs(rho))[:, None, None] / 4 * np.outer(Q, Q)
    tree = lt.tree((-1, 0))
    ours = tree_nets.root_covariance(
        lt.binary(tree, torch.zeros(len(rho), 1, dtype=torch.float64), torch.from_numpy(rho)).prior,
        torch.eye(2, dtype=torch.float64).expand(len(rho), 2, 2),
    )
    yield check(
        worst(absolute(right, left), absolute(right, ours)),
        1e-15,
        {"1/2": typical(absolute(2 * right, left)), "1 - |rho|": typical(absolute(plain, left))},
        draws=len(rho),
        part="Eq. 172",
    )
    count = min(share(draws, 4), 15)
    names = ("covariance", "C v", "q v")
    found: dict[str, list[Array]] = {name: [] for name in names}
    broken: dict[str, list[Array]] = {name: [] for name in names}
    for w in tr.worlds(rng, count, 3):
        for mu in tr.inner(w):
            V = np.concatenate([tr.given(w, 0, w.out[i]) for i in tr.below(w, mu)], -1)
            Vq = np.einsum("c,dcn->dn", Q, V)
            form = times((1 - tr.rho0(w) ** 2) / 4, outer_square(Vq))
            exact = tr.over_root(w, tr.fed(w, mu))
            found["covariance"].append(absolute(form, exact))
            broken["covariance"].append(absolute(outer_square(Vq) / 4, exact))
            path = tr.path_rho(w, mu)[:, None]
            found["q v"].append(absolute(2 * path * dampened(w, mu), Vq))
            broken["q v"].append(absolute(path * dampened(w, mu), Vq))
            for child in tr.below(w, mu):
                v, own = tr.given(w, child, w.out[child]), tr.path_rho(w, child)[:, None]
                C = lt.path_transition(w.model, child).numpy() - 0.5
                s = (v[:, 1] - v[:, 0]) / 2
                along = (own * s)[:, None, :] * Q[None, :, None]
                found["C v"].append(absolute(C @ v, along))
                broken["C v"].append(absolute(C @ v, -along))
                found["q v"].append(
                    absolute(np.einsum("c,dcn->dn", Q, tr.given(w, 0, w.out[child])), 2 * own * s)
                )
    controls = ("root's polarity left out", "q = [1, -1]", "no 2")
    parts = ("Eq. 173", "Eq. 176", "Eqs. 175, 177")
    for name, control, part in zip(names, controls, parts, strict=True):
        bad = typical(np.concatenate(broken[name]))
        yield check(worst(*found[name]), 1e-13, {control: bad}, draws=4 * count, part=part)


def thm6(draws: int, seed: int) -> Iterator[Check]:
    """The covariance over z_0 is o_mu a a^T: its rank and direction, then o_mu, by enumeration.

    Controls: a without polarities; twice the size.
    """
    check, rng = partial(Check, "ddn/thm6"), ref.generator("thm6 tree", seed)
    count = min(share(draws, 4), 15)
    along, selected, printed, corrected, double = [], [], [], [], []
    for w in tr.worlds(rng, count, 3):
        for mu in tr.inner(w):
            exact, a = tr.over_root(w, tr.fed(w, mu)), dampened(w, mu)
            s = tr.selective(w, mu)[0]
            for vector, out in ((a, along), (s, selected)):
                outer = outer_square(vector)
                square = (outer**2).sum((1, 2))
                fit = (exact * outer).sum((1, 2)) / np.where(square, square, 1)
                out.append(absolute(times(fit, outer), exact))
            theirs, ours = both_sizes(w, mu)
            printed.append(absolute(times(theirs, outer_square(a)), exact))
            corrected.append(absolute(times(ours, outer_square(a)), exact))
            double.append(absolute(times(2 * ours, outer_square(a)), exact))
    total, pool = 4 * count, np.concatenate
    yield check(
        worst(*along),
        1e-13,
        {"polarities left out of a": typical(pool(selected))},
        draws=total,
        part="a multiple of a a^T",
    )
    tag = {"part": "o_mu", "draws": total}
    control = {"twice the size": typical(pool(double))}
    yield check(
        worst(*printed),
        1e-13,
        control,
        counterexample=r"A uniform root, $\rho_{0\mu}=1$ with $\mu\ne0$, one child, a leaf with "
        r"$\rho_{\mu\nu}=1$: printed $0$, variance $\frac14=\mathbf a_\mu^2$. Likewise "
        r"$\rho_{0\mu}=\frac12$: printed $o_\mu=\frac3{16}$, true $\frac14$.",
        note=r"The last line of its own proof, Eq. 179, has $\rho_0$. The subscript is in both "
        r"places "
        r"that print the theorem, and is carried on to Eq. 15; the text after it, where a larger "
        r"$|\rho_{0\mu}|$ means a larger covariance, goes with the proof.",
        **tag,
    )
    yield check(
        worst(*corrected),
        1e-13,
        control,
        form="corrected",
        correction=O_OF_THE_PROOF,
        **tag,
    )


def eq179(draws: int, seed: int) -> Iterator[Check]:
    """rho_0mu^2 (1 - rho_0^2) a a^T, entry by entry. Controls: Theorem 6's o_mu, a uniform root."""
    rng = ref.generator("eq179 tree", seed)
    count = min(share(draws, 4), 15)
    errors, theorem, uniform = [], [], []
    for w in tr.worlds(rng, count, 3):
        for mu in tr.inner(w):
            exact, outer = tr.over_root(w, tr.fed(w, mu)), outer_square(dampened(w, mu))
            theirs, ours = both_sizes(w, mu)
            errors.append(absolute(times(ours, outer), exact))
            theorem.append(absolute(times(theirs, outer), exact))
            uniform.append(absolute(times(tr.path_rho(w, mu) ** 2, outer), exact))
    control = {
        "Theorem 6's o_mu": typical(np.concatenate(theorem)),
        "root taken as uniform": typical(np.concatenate(uniform)),
    }
    yield Check("ddn/eq179", worst(*errors), 1e-13, control, draws=4 * count)
