"""Latent trees: what survives the augmentation, and how it grows (ddn Sec. 6.1.2, App. C.5).

`clcore.latent_tree` and `clcore.tree_nets` meet the enumeration of all joint states in numpy; one
update of the simple loss is taken by autograd over all pairs of states.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from .. import latent_tree as lt
from .. import tree_nets
from ..ledger import Check
from . import reference as ref
from . import tree_reference as tr
from .ddn_tree_nets import STATES, categorical
from .reference import Array, absolute, best, share, typical, worst

Q = np.array([-1.0, 1.0])
CATERPILLAR = (-1, 0, 0, 1, 1, 3, 3, 5, 5)  # the path 0-1-3-5 has a leaf at every node
O_OF_THE_PROOF = (
    r"With $o_\mu=\rho_{0\mu}^2(1-\rho_0^2)$, Eq. 179; for the value printed in Theorem 6 see "
    "ddn/thm6."
)


def _outer(a: Array) -> Array:
    return a[:, :, None] * a[:, None, :]


def _sizes(w: tr.World, mu: int) -> tuple[Array, Array]:
    """(o_mu as Theorem 6 prints it, o_mu of Eq. 179), each [draws]."""
    rho = lt.path_polarity(w.model.tree, torch.from_numpy(tr.rho(w)))[:, mu].numpy()
    return rho**2 * (1 - rho**2), rho**2 * (1 - tr.rho0(w) ** 2)


def _vector(w: tr.World, mu: int) -> Array:
    return tree_nets.child_selectivity(w.model, w.groups, mu).numpy()


def _scaled(size: Array, matrix: Array) -> Array:
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
            form = _scaled((1 - tr.rho0(w) ** 2) / 4, _outer(Vq))
            exact = tr.over_root(w, tr.fed(w, mu))
            found["covariance"].append(absolute(form, exact))
            broken["covariance"].append(absolute(_outer(Vq) / 4, exact))
            path = tr.path_rho(w, mu)[:, None]
            found["q v"].append(absolute(2 * path * _vector(w, mu), Vq))
            broken["q v"].append(absolute(path * _vector(w, mu), Vq))
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
            exact, a = tr.over_root(w, tr.fed(w, mu)), _vector(w, mu)
            s = tr.selective(w, mu)[0]
            for vector, out in ((a, along), (s, selected)):
                outer = _outer(vector)
                square = (outer**2).sum((1, 2))
                fit = (exact * outer).sum((1, 2)) / np.where(square, square, 1)
                out.append(absolute(_scaled(fit, outer), exact))
            theirs, ours = _sizes(w, mu)
            printed.append(absolute(_scaled(theirs, _outer(a)), exact))
            corrected.append(absolute(_scaled(ours, _outer(a)), exact))
            double.append(absolute(_scaled(2 * ours, _outer(a)), exact))
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
        note="Eq. 179 in the proof has it right; possibly a slip of the text copy.",
        **tag,
    )
    yield check(
        worst(*corrected),
        1e-13,
        control,
        form="corrected",
        correction=r"$o_\mu=\rho_{0\mu}^2(1-\rho_0^2)$, as in Eq. 179, with $\rho_0$ the root's "
        "polarity.",
        **tag,
    )


def eq179(draws: int, seed: int) -> Iterator[Check]:
    """rho_0mu^2 (1 - rho_0^2) a a^T, entry by entry. Controls: Theorem 6's o_mu, a uniform root."""
    rng = ref.generator("eq179 tree", seed)
    count = min(share(draws, 4), 15)
    errors, theorem, uniform = [], [], []
    for w in tr.worlds(rng, count, 3):
        for mu in tr.inner(w):
            exact, outer = tr.over_root(w, tr.fed(w, mu)), _outer(_vector(w, mu))
            theirs, ours = _sizes(w, mu)
            errors.append(absolute(_scaled(ours, outer), exact))
            theorem.append(absolute(_scaled(theirs, outer), exact))
            uniform.append(absolute(_scaled(tr.path_rho(w, mu) ** 2, outer), exact))
    control = {
        "Theorem 6's o_mu": typical(np.concatenate(theorem)),
        "root taken as uniform": typical(np.concatenate(uniform)),
    }
    yield Check("ddn/eq179", worst(*errors), 1e-13, control, draws=4 * count)


def _far(rho: Array, distance: int) -> Array:
    """[draws]: the larger of |rho_0mu| and what is left of the variance and of mixing, at the end
    of a path with polarities rho [draws, L], `distance` below the root."""
    tree = lt.tree(range(-1, rho.shape[1]))
    model = lt.binary(tree, torch.from_numpy(rho), 0.2)
    polarity = lt.path_polarity(tree, torch.from_numpy(rho))[:, distance].abs()
    P = lt.path_transition(model, distance)
    variance = tree_nets.root_covariance(model.prior, P[..., 1:])[:, 0, 0]
    return torch.stack([polarity, (P - 0.5).abs().amax((1, 2)), variance]).amax(0).numpy()


def thm6b(draws: int, seed: int) -> Iterator[Check]:
    """Paths of 400 edges: polarity, distance from uniform and covariance at the far end, and
    |rho_0mu| <= r^d; the size of the covariance level by level. Controls: a node near the root,
    polarities that tend to 1 or are 1, a smaller r.
    """
    check, rng = partial(Check, "ddn/thm6b"), ref.generator("thm6b tree", seed)
    count, L, r = min(draws, 10), 400, 0.95
    rho = rng.choice([-1, 1], (count, L)) * rng.uniform(0, r, (count, L))
    rho[0] = r
    layers = np.arange(1, L + 1)
    near_one = np.broadcast_to(1 - 1 / (layers + 1.0) ** 2, (1, L)).copy()
    reach = lt.path_polarity(lt.tree(range(-1, L)), torch.from_numpy(rho)).abs().numpy()
    distance = np.arange(L + 1.0)
    yield check(
        worst(_far(rho, L), reach - r**distance),
        1e-8,
        {
            "a node 3 below the root": best(_far(rho[:1], 3)),
            "polarities tend to 1": best(_far(near_one, L)),
            "all polarities 1": best(_far(np.ones((1, L)), L)),
            "r = 0.94": worst(reach - 0.94**distance),
        },
        draws=count,
        part="main text",
        note=r"Distance 400, $|\rho|\le r=0.95$; largest of the three, and of $|\rho_{0\mu}|"
        r"-r^{d(0,\mu)}$. The appendix does not repeat the condition of Sec. 6.1.2 "
        r"($\max|\rho|<1$); without it the limit fails, e.g. all $\rho=1$; read as one $r<1$ for "
        r"all $L$, and $\mu$ as moving away from the root.",
    )
    w = tr.world(rng, max(count, 6), CATERPILLAR, 2, 1)
    ours, theirs = [], []
    for mu, leaf in ((0, 2), (1, 4), (3, 6), (5, 7)):
        size = tr.over_root(w, w.out[leaf])[:, 0, 0]
        a = tr.rho(w)[:, leaf - 1] / 2
        ours.append(size / a**2)
        theirs.append(_sizes(w, mu)[0])
    yield check(
        worst(np.diff(ours, axis=0)),
        1e-14,
        {r"Theorem 6's o_mu": typical(np.max(np.diff(theirs, axis=0), 0))},
        draws=len(ours[0]),
        part="faster at the top",
        note=r"Largest rise, from the root down, of the covariance over $a_k^2$ at leaves of four "
        r"levels; the $o_\mu$ of Theorem 6 would be $0$ at the root.",
    )


def _operator(w: tr.World, mu: int, J: Array) -> Array:
    """V_{z_0}[K-bar], [draws, cn, cn], of K = f kron J^T in every joint state, J [draws, p, n]."""
    draws, f = len(J), tr.fed(w, mu)
    K = np.einsum("dsc,dpn->dscnp", f, J).reshape(draws, f.shape[1], -1)
    rows, prior = tr.given(w, 0, K), w.model.prior.numpy()
    gaps = rows - np.einsum("dc,dcx->dx", prior, rows)[:, None]
    gaps = gaps.reshape(draws, 2, -1, J.shape[1])
    return np.einsum("dc,dcip,dcjp->dij", prior, gaps, gaps)


def _kron(a: Array, b: Array) -> Array:
    return np.stack([np.kron(x, y) for x, y in zip(a, b, strict=True)])


def _norm_of_operator(rng: np.random.Generator, count: int) -> tuple[Array, ...]:
    """Norms [11, draws] of the enumerated operator at node 1 as |rho_01|, then a, then the root's
    |polarity| grow, and of Theorem 6's form as |rho_01| grows."""
    tree = lt.tree(CATERPILLAR)
    rho = tr.signed(rng, count, len(CATERPILLAR) - 1)
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
            out.append(np.linalg.norm(_operator(w, 1, J), axis=(1, 2)))
            if rates is upper:
                form = _scaled(_sizes(w, 1)[0], _outer(_vector(w, 1)))
                found[3].append(np.linalg.norm(_kron(form, J.mT @ J), axis=(1, 2)))
    return tuple(np.array(rows) for rows in found)


def rem10(draws: int, seed: int) -> Iterator[Check]:
    """OP_mu with constant J_mu, as a variance over z_0 of all joint states; its norm.

    Controls: the Kronecker product in the other order, Theorem 6's o_mu, the root's polarity.
    """
    check, rng = partial(Check, "ddn/rem10"), ref.generator("rem10 tree", seed)
    count = min(share(draws, 4), 6)
    product_, swapped, theorem, proof, double = [], [], [], [], []
    for w in tr.worlds(rng, count, 3):
        for mu in tr.inner(w):
            J = rng.standard_normal((count, 4, 2))
            exact, JJ = _operator(w, mu, J), J.mT @ J
            activity = tr.over_root(w, tr.fed(w, mu))
            product_.append(absolute(_kron(activity, JJ), exact))
            swapped.append(absolute(_kron(JJ, activity), exact))
            outer, (theirs, ours) = _outer(_vector(w, mu)), _sizes(w, mu)
            for size, out in ((theirs, theorem), (ours, proof), (2 * ours, double)):
                out.append(absolute(_kron(_scaled(size, outer), JJ), exact))
    total, pool = 4 * count, np.concatenate
    yield check(
        worst(*product_),
        1e-12,
        {"other order": typical(pool(swapped))},
        draws=total,
        part="Kronecker product",
    )
    yield check(
        worst(*proof),
        1e-12,
        {"Theorem 6's o_mu": typical(pool(theorem)), "twice the size": typical(pool(double))},
        draws=total,
        part="o_mu",
        note=O_OF_THE_PROOF,
    )
    polarity, vector, root, theirs = (
        -np.diff(rows, axis=0).min(0) for rows in _norm_of_operator(rng, count)
    )
    yield check(
        worst(polarity, vector),
        1e-12,
        {"Theorem 6's o_mu": typical(theirs), "larger |rho_0|": typical(root)},
        draws=2 * count,
        part="larger with rho_0mu and a",
        note="Largest fall of the enumerated norm along 11 growing values.",
    )


def _loss_step(w: tr.World, mu: int, W: Array, J: Array, rate: float) -> Array:
    """One step on L_simp of the net J W f through one of the two branches, by autograd.

    The loss is the sum over all pairs of joint states: of one root, less of two.
    """
    f, J = torch.from_numpy(tr.fed(w, mu)), torch.from_numpy(J)
    prior = w.model.prior
    states = torch.stack([torch.from_numpy(w.chance * (w.z[:, 0] == c)) for c in (0, 1)], 1)
    same = torch.einsum("dcs,dct,dc->dst", states, states, 1 / prior)
    weight = same - torch.einsum("ds,dt->dst", states.sum(1), states.sum(1))
    first = torch.from_numpy(W).requires_grad_()
    one, two = f @ first.mT @ J.mT, f @ torch.from_numpy(W).mT @ J.mT
    squares = (weight.sum(2)[..., None] * one**2 + weight.sum(1)[..., None] * two**2).sum() / 2
    loss = squares - torch.einsum("dst,dsp,dtp->", weight, one, two)
    (slope,) = torch.autograd.grad(loss, first)
    return W - rate * slope.numpy()


def eq15(draws: int, seed: int) -> Iterator[Check]:
    """Growth of a^T w_j in one step, by the enumerated OP and by autograd of L_simp over all pairs.

    Controls: Theorem 6's o_mu, twice the rate, J^T J other than I; a path polarity of zero for the
    strict growth.
    """
    check, rng = partial(Check, "ddn/eq15"), ref.generator("eq15 tree", seed)
    count, rate = max(4, min(share(draws, 3), 8)), 0.5
    fitted, theorem, proof, stretched, twice, growth, still = ([] for _ in range(7))
    for parents in tr.SHAPES[:3]:
        w = tr.world(rng, count, parents, 2, 4, 1.5)
        flat = tr.rho(w)
        flat[:, [i - 1 for i, parent in enumerate(parents) if parent == 0]] = 0
        model = lt.binary(w.model.tree, torch.from_numpy(flat), 0.2)
        uninformed = tr.explore(model, w.weights)
        for mu in tr.inner(w):
            a = _vector(w, mu)
            W = rng.standard_normal((count, 3, a.shape[1]))
            J = np.linalg.qr(rng.standard_normal((count, 5, 3)))[0]
            before = np.einsum("djc,dc->dj", W, a)
            activity = tr.over_root(w, tr.fed(w, mu))
            square = (a**2).sum(1)
            fit = np.einsum("dc,dck,dk->d", a, activity, a) / np.where(square, square, 1) ** 2
            steps = [_loss_step(w, mu, W, J, rate), _apply(_operator(w, mu, J), W, rate)]
            theirs, ours = _sizes(w, mu)
            for after in steps:
                got = np.einsum("djc,dc->dj", after, a)
                cases = ((fit, fitted), (theirs, theorem), (ours, proof), (2 * ours, twice))
                for size, out in cases:
                    out.append(absolute((1 + rate * size * square)[:, None] * before, got))
            got = np.einsum("djc,dc->dj", _apply(_operator(w, mu, 1.5 * J), W, rate), a)
            stretched.append(absolute((1 + rate * ours * square)[:, None] * before, got))
            if mu:
                growth.append(_least_growth(_operator(w, mu, J), W, a, rate))
                v = _vector(uninformed, mu)
                still.append(_least_growth(_operator(uninformed, mu, J), W, v, rate))
    total, pool = 3 * count, np.concatenate
    control = {
        "twice the rate": typical(pool(twice)),
        "J^T J = 2.25 I": typical(pool(stretched)),
    }
    note = "Autograd through one branch, and the enumerated operator."
    part = "growth factor, measured o_mu"
    yield check(worst(*fitted), 1e-12, control, draws=total, part=part, note=note)
    yield check(
        worst(*proof),
        1e-12,
        {"Theorem 6's o_mu": typical(pool(theorem)), **control},
        draws=total,
        part="growth factor",
        note=f"{note} {O_OF_THE_PROOF}",
    )
    yield check(
        best(*(g[np.isfinite(g)] for g in growth)),
        1e-9,
        {"path polarity 0": worst(*(g[np.isfinite(g)] for g in still))},
        relation=">=",
        draws=total,
        part="strict growth",
        note="Least relative growth a step over 100 steps, units with positive gap; it needs "
        r"$o_\mu\|\mathbf a_\mu\|>0$: $\rho_{0\mu}\ne0$, $|\rho_0|<1$, $\mathbf a_\mu\ne0$.",
    )


def _apply(operator: Array, W: Array, rate: float) -> Array:
    """W + rate OP vec(W), columns of W stacked."""
    vec = W.swapaxes(1, 2).reshape(len(W), -1)
    step = np.einsum("dij,dj->di", operator, vec)
    return W + rate * step.reshape(len(W), W.shape[2], W.shape[1]).swapaxes(1, 2)


def _least_growth(operator: Array, W: Array, a: Array, rate: float, steps: int = 100) -> Array:
    """[draws, units]: the least relative growth of a^T w_j in 100 steps; NaN where it begins <= 0,
    or where no child is selective."""
    gap, least = np.einsum("djc,dc->dj", W, a), np.full(W.shape[:2], np.inf)
    started = (gap > 0) & (np.abs(a).max(1) > 1e-3)[:, None]
    for _ in range(steps):
        W = _apply(operator, W, rate)
        new = np.einsum("djc,dc->dj", W, a)
        least, gap = np.minimum(least, new / np.where(started, gap, 1) - 1), new
    return np.where(started, least, np.nan)
