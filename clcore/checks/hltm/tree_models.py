"""Latent trees: definition, sampler, transitions along a path (ddn Sec. 6.1, App. C.2).

`clcore.theory.trees.latent_tree` meets the enumeration of all joint states of small trees in numpy.
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise, product

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.hltm import tree_reference as tr
from clcore.ledger import Check
from clcore.reference import Array, absolute, best, share, typical, worst
from clcore.theory.trees import latent_tree as lt

SIGMAS = 7.0  # of the largest of some ten thousand errors
SAMPLES = 10_000
Q = np.array([-1.0, 1.0])


def _pairs(chance: Array, z: Array) -> Array:
    """P(z_a = 1, z_b = 1) of all pairs of nodes, [draws, nodes, nodes]; chance [draws, J]."""
    return np.einsum("ds,sa,sb->dab", chance, z, z, optimize=True)


def _sigmas(found: Array, expected: Array, n: int) -> Array:
    """[draws]: the largest error of frequencies in standard errors (with a floor)."""
    error = np.sqrt(np.maximum(expected * (1 - expected), 0) / n) + 1e-4
    return (np.abs(found - expected) / error).reshape(len(found), -1).max(-1)


def _symmetric(rho: Array) -> Array:
    """Eq. 14 written out: [..., 2, 2]."""
    out = np.empty((*rho.shape, 2, 2))
    out[..., 1, 1] = out[..., 0, 0] = (1 + rho) / 2
    out[..., 1, 0] = out[..., 0, 1] = (1 - rho) / 2
    return out


def _dependence(w: tr.World, condition: bool) -> Array:
    """[draws]: how far siblings' joint law is from a product, given the parent or not."""
    found = [np.zeros(len(w.chance))]
    for mu in tr.inner(w):
        a, b = tr.below(w, mu)[0], tr.below(w, mu)[-1]
        if a == b:
            continue
        both = w.z[:, [a, b]] * np.ones((len(w.chance), 1, 1))
        f = np.concatenate([both, both[..., :1] * both[..., 1:]], -1)
        means = tr.given(w, mu, f) if condition else np.einsum("ds,dsn->dn", w.chance, f)
        found.append(
            np.abs(means[..., 2] - means[..., 0] * means[..., 1]).reshape(len(f), -1).max(-1)
        )
    return np.max(found, 0)


def eq14(draws: int, seed: int) -> Iterator[Check]:
    """Transitions, independence, sampler, augmentation, the two extremes; against enumeration.

    Controls: polarity reversed, siblings not conditioned, views that share more or less than z_0.
    """
    check, rng = partial(Check, "ddn/eq14"), ref.generator("eq14 tree", seed)
    count = min(share(draws, 4), 4)
    worlds = tr.worlds(rng, count, 1)
    total = len(worlds) * count
    edges, reversed_ = [], []
    for parents in tr.SHAPES:
        rho = tr.signed(rng, count, len(parents) - 1)
        model = lt.binary(lt.tree(parents), torch.from_numpy(rho), 0.3)
        z, chance = tr.enumerate_states(model)
        for node, parent in enumerate(parents[1:], 1):
            both = _pairs(chance, np.concatenate([z, 1 - z], -1))
            n = len(parents)
            ones, zeros = both[:, parent, node], both[:, parent + n, node + n]
            found = np.stack(
                [ones / both[:, parent, parent], zeros / both[:, parent + n, parent + n]], -1
            )
            wanted = np.stack([(1 + rho[:, node - 1]) / 2] * 2, -1)
            edges.append(absolute(found, wanted))
            reversed_.append(absolute(found, 1 - wanted))
    apart, tied = ([_dependence(w, given) for w in worlds] for given in (True, False))
    yield check(
        worst(*edges),
        1e-13,
        {"polarity reversed": typical(*reversed_)},
        draws=total,
        part="transitions",
    )
    yield check(
        worst(*apart),
        1e-13,
        {"parent not given": typical(*tied)},
        draws=total,
        part="siblings independent given the parent",
    )
    first, second, other, same, fresh = [], [], [], [], []
    for w in worlds:
        k = tr.keys(rng, count)
        z = lt.sample(k, w.model, SAMPLES)
        views = torch.cat([z, lt.augment(k + 1, w.model, z)], -1).numpy().astype(float)
        flipped = lt.binary(
            w.model.tree, torch.from_numpy(-tr.rho(w)), torch.from_numpy(tr.rho0(w))
        )
        wrong = lt.sample(k, flipped, SAMPLES).numpy().astype(float)
        new = torch.cat([z, lt.sample(k + 1, w.model, SAMPLES)], -1).numpy().astype(float)
        expected = _pairs(w.chance, w.z)
        found, bad = (np.einsum("dna,dnb->dab", v, v) / SAMPLES for v in (z.numpy() * 1.0, wrong))
        first.append(_sigmas(found, expected, SAMPLES))
        other.append(_sigmas(bad, expected, SAMPLES))
        means = tr.given(w, 0, w.z * np.ones((count, 1, 1)))
        across = np.einsum("dc,dca,dcb->dab", w.model.prior.numpy(), means, means)
        n = w.z.shape[1]
        for v, out in (
            (views, second),
            (new, fresh),
            (np.concatenate([views[..., :n]] * 2, -1), same),
        ):
            found = np.einsum("dna,dnb->dab", v[..., :n], v[..., n:]) / SAMPLES
            out.append(_sigmas(found, across, SAMPLES))
    yield check(
        worst(*first),
        SIGMAS,
        {"polarity reversed": typical(*other)},
        draws=total,
        part="sampler",
        note="Standard errors of all pairwise frequencies.",
    )
    yield check(
        worst(*second),
        SIGMAS,
        {"nothing drawn anew": typical(*same), "root drawn anew": typical(*fresh)},
        draws=total,
        part="augmentation",
        note="Pairwise frequencies across two views.",
    )
    yield from _extremes(check, rng, count)


def _extremes(check: partial, rng: np.random.Generator, count: int) -> Iterator[Check]:
    """|rho| = 1 leaves nothing to chance; rho = 0 leaves the prior."""
    sure, almost = (_randomness(rng, count, size) for size in (1.0, 0.95))
    yield check(
        worst(sure),
        0.0,
        {"|rho| = 0.95": typical(almost)},
        draws=count,
        part="no randomness at rho = +-1",
        note="Largest P(1 - P) of a transition.",
    )
    flat, kept = ({"none": [], "some": []} for _ in range(2))
    for parents in tr.SHAPES:
        tree = lt.tree(parents)
        rho = tr.signed(rng, count, len(parents) - 1)
        prior = torch.from_numpy(rng.uniform(-0.9, 0.9, count))
        for name, rates in (("none", 0 * rho), ("some", rho)):
            model = lt.binary(tree, torch.from_numpy(rates), prior)
            posterior = _posterior(model)
            flat[name].append(absolute(posterior, np.full_like(posterior, 0.5)))
            own = np.broadcast_to(model.prior[:, 1:].numpy(), posterior.shape)
            kept[name].append(absolute(posterior, own))
    tag = {"part": "posterior at rho = 0", "draws": len(tr.SHAPES) * count}
    yield check(
        worst(*kept["none"]),
        1e-12,
        {"as typeset, uniform": worst(*flat["none"]), "rho not 0": typical(*kept["some"])},
        misprint=r"the posterior of $z_0$ can only be uniform -> can only be the prior",
        note=r"All $\rho$ on the paths to the leaves are 0. The two are the same for a uniform "
        r"root; "
        r"Sec. 6.1 does not assume one (Table 1 has $\rho_0$): with $\mathbb P(z_0=1)=0.8$ the "
        "posterior is $0.8$ whatever $x$ is. Eq. 14 is not touched.",
        **tag,
    )


def _posterior(model: lt.Model) -> Array:
    """P(z_0 = 1 | x), [draws, inputs], by sums over the joint states that show x."""
    z, chance = tr.enumerate_states(model)
    shown, found = lt.leaves(model.tree), []
    for x in product((0, 1), repeat=len(shown)):
        here = chance * (z[:, shown] == x).all(-1)
        found.append(here[:, z[:, 0] == 1].sum(-1) / here.sum(-1))
    return np.stack(found, -1)


def _randomness(rng: np.random.Generator, count: int, size: float) -> Array:
    rho = torch.from_numpy(size * rng.choice([-1.0, 1.0], (count, 5)))
    P = lt.transition(rho).numpy()
    return (P * (1 - P)).reshape(count, -1).max(-1)


SHAPES = ((2, 3), (3, 2), (3, 3), (4, 2), (2, 5), (4, 4))


def _stochastic(rng: np.random.Generator, draws: int, rows: int, columns: int) -> Array:
    return ref.normalised(rng.exponential(size=(draws, rows, columns)))


def _sinkhorn(rng: np.random.Generator, draws: int, rows: int, columns: int) -> Array:
    """Rows that sum to 1 and columns that sum to rows / columns, by rescaling in turn."""
    P = rng.uniform(0.2, 1, (draws, rows, columns))
    for _ in range(200):
        P = P / P.sum(-2, keepdims=True) * rows / columns
        P = P / P.sum(-1, keepdims=True)
    return P


def def3(draws: int, seed: int) -> Iterator[Check]:
    """C 1 = 0 for every stochastic P; 1^T C = 0 iff columns sum to m_mu / m_nu, square: to 1.

    Positives by Sinkhorn and by the library's generator. Controls: rows scaled; generic P.
    """
    check, rng = partial(Check, "ddn/def3"), ref.generator("def3 tree", seed)
    auto, scaled, regular, generic, agree, off, square, not_square = ([] for _ in range(8))
    for rows, columns in SHAPES:
        P = _stochastic(rng, draws, rows, columns)
        some = _sinkhorn(rng, draws, rows, columns)
        ours = lt.regular_transition(tr.keys(rng, draws), rows, columns).numpy()
        for table in (P, some, ours):
            C = lt.deviation(torch.from_numpy(table)).numpy()
            auto.append(np.abs(C.sum(-1)).max(-1))
            sums = np.stack([sum(t[i] for i in range(rows)) for t in table])
            agree.append(absolute(C.sum(-2), sums - rows / columns))
            off.append(absolute(C.sum(-2), sums - columns / rows if rows != columns else sums))
        C = lt.deviation(torch.from_numpy(1.1 * P)).numpy()
        scaled.append(np.abs(C.sum(-1)).max(-1))
        for table, out in ((some, regular), (ours, regular), (P, generic)):
            C = lt.deviation(torch.from_numpy(table)).numpy()
            out.append(np.abs(C.sum(-2)).max(-1))
            if rows == columns:
                doubly = np.abs(table.sum(-2) - 1).max(-1)
                (square if out is regular else not_square).append(doubly)
    total = draws * len(SHAPES)
    yield check(
        worst(*auto), 1e-13, {"rows sum to 1.1": best(*scaled)}, draws=3 * total, part="C 1 = 0"
    )
    yield check(
        worst(*agree),
        1e-13,
        {"m_nu / m_mu": best(*off)},
        draws=3 * total,
        part="the real condition",
        note=r"$\mathbf 1^\top C=$ column sums $-\,m_\mu/m_\nu$, hence the same condition.",
    )
    yield check(
        worst(*regular),
        1e-12,
        {"generic stochastic": typical(*generic)},
        draws=2 * total,
        part="regular for every m",
        note="Such transitions exist for unequal numbers of states too.",
    )
    yield check(
        worst(*square),
        1e-12,
        {"generic stochastic": typical(*not_square)},
        draws=4 * draws,
        part="square: doubly stochastic",
        note=r"Column sums $-1$ of regular $P$, and of generic.",
    )


def _chain(
    rng: np.random.Generator, count: int, states: tuple[int, ...], regular: bool
) -> lt.Model:
    """A path of nodes with these numbers of states."""
    tree = lt.tree(range(-1, len(states) - 1), states)
    if regular:
        return lt.draw(tr.keys(rng, count), tree)
    tables = [torch.from_numpy(_stochastic(rng, count, a, b)) for a, b in pairwise(states)]
    prior = torch.full((count, states[0]), 1 / states[0], dtype=torch.float64)
    return lt.categorical(tree, prior, tables, regular=False)


def lem6(draws: int, seed: int) -> Iterator[Check]:
    """P along a path is 1 1^T / m plus the product of the C's, against marginalisation.

    Controls: chains that are stochastic but not regular; 1 / m of the upper node.
    """
    check, rng = partial(Check, "ddn/lem6"), ref.generator("lem6 tree", seed)
    chains = (
        (2, 3, 4),
        (5, 2, 3),
        (3, 3, 3, 2),
        (2, 4, 3, 5),
        (3, 2, 3, 2, 4),
        (2, 3, 2, 2, 3, 2, 3),
    )
    count = min(draws, 60)
    right, marginal, irregular, upper = ({"two": [], "more": []} for _ in range(4))
    for states in chains:
        part = "two" if len(states) == 3 else "more"
        for regular in (True, False):
            model = _chain(rng, count, states, regular)
            z, chance = tr.enumerate_states(model)
            rows = []
            for top in range(states[0]):
                here = chance * (z[:, 0] == top)
                rows.append(
                    np.stack([here[:, z[:, -1] == s].sum(-1) for s in range(states[-1])], -1)
                )
            summed = np.stack(rows, -2) / model.prior.numpy()[:, :, None]
            C = np.eye(states[0])
            for node in range(1, len(states)):
                C = C @ lt.deviation(lt.edge(model, node)).numpy()
            formula = 1 / states[-1] + C
            if regular:
                right[part].append(absolute(formula, summed))
                ours = lt.path_transition(model, len(states) - 1)
                marginal[part].append(absolute(ours, summed))
                upper[part].append(absolute(1 / states[0] + C, summed))
            else:
                irregular[part].append(absolute(formula, summed))
    for part, name in (("two", "Eq. 98"), ("more", "Eq. 99")):
        unequal = [e for e in upper[part] if np.median(e) > 1e-6]
        yield check(
            worst(*right[part], *marginal[part]),
            1e-13,
            {
                "not regular": typical(*irregular[part]),
                "1 / m of the upper node": typical(*unequal),
            },
            draws=count * len(right[part]),
            part=name,
            note=r"Printed for any $\mu$ and $\alpha$ of the two layers; the product runs along a "
            r"path, so $\mu$ is taken to be above $\alpha$."
            if part == "more"
            else "",
        )


def lem7(draws: int, seed: int) -> Iterator[Check]:
    """SB => TR by Eq. 102; TR => SB by the rank of the constraints; |rho| <= 1 iff P in [0, 1].

    Controls: the factor 1/2 dropped, a constraint dropped, generic binary transitions.
    """
    check, rng = partial(Check, "ddn/lem7"), ref.generator("lem7 tree", seed)
    rho = rng.uniform(-1, 1, (draws, 4))
    rho[:, :2] = [1, -1]
    C = rho[..., None, None] / 2 * np.outer(Q, Q)
    P = lt.transition(torch.from_numpy(rho)).numpy()
    regular = np.maximum(np.abs(C.sum(-1)), np.abs(C.sum(-2))).max((-1, -2))
    yield check(
        worst(absolute(P, 0.5 + C), regular),
        1e-15,
        {"no 1/2": best(absolute(P, 0.5 + 2 * C))},
        draws=4 * draws,
        part="SB is TR",
    )
    # Rows: both rows of C, then both columns, as functions of C's entries.
    rows = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]])
    free = [4 - np.linalg.matrix_rank(np.delete(rows, k, 0)) for k in range(4)]
    two = 4 - np.linalg.matrix_rank(rows[:2])
    constraint = abs(4 - np.linalg.matrix_rank(rows) - 1) + max(abs(f - 1) for f in free)
    yield check(
        float(constraint),
        0.0,
        {"without the columns' two": float(abs(two - 1))},
        draws=5,
        part="4 constraints, 1 redundant, 1 free",
        note="Any one of the four may be dropped.",
    )
    found = _sinkhorn(rng, draws, 2, 2)
    ours = lt.regular_transition(tr.keys(rng, draws), 2, 2).numpy()
    generic = _stochastic(rng, draws, 2, 2)

    def asymmetry(P: Array) -> Array:
        rho = 2 * P[:, 1, 1] - 1
        return absolute(P, _symmetric(rho))

    yield check(
        worst(asymmetry(found), asymmetry(ours)),
        1e-12,
        {"generic": typical(asymmetry(generic))},
        draws=2 * draws,
        part="binary TR is SB",
    )
    grid = np.concatenate([[-1, 1], rng.uniform(-2, 2, 20 * draws)])
    entries = 0.5 + grid[:, None, None] / 2 * np.outer(Q, Q)
    valid = ((entries >= 0) & (entries <= 1)).all((-1, -2))
    yield check(
        float((valid != (np.abs(grid) <= 1)).sum()),
        0.0,
        {"|rho| <= 1/2": float((valid != (np.abs(grid) <= 0.5)).sum())},
        draws=len(grid),
        part="polarity in [-1, 1]",
        note="Disagreements.",
    )


def eq103(draws: int, seed: int) -> Iterator[Check]:
    """C(rho) C(rho') = C(rho rho'), and both members between. Controls: q^T q = 1; means."""
    rng = ref.generator("eq103 tree", seed)
    a, b = rng.uniform(-1, 1, (2, draws * 10))
    low, high = (lt.deviation(lt.transition(torch.from_numpy(v))).numpy() for v in (a, b))
    end = lt.deviation(lt.transition(torch.from_numpy(a * b))).numpy()
    qq, scale = np.outer(Q, Q), (a * b)[:, None, None]
    errors = [absolute(m, end) for m in (low @ high, qq @ qq / 4 * scale, qq / 2 * scale)]
    wrong = lt.deviation(lt.transition(torch.from_numpy((a + b) / 2))).numpy()
    control = {
        "q^T q = 1": typical(absolute(qq / 4 * scale, end)),
        "mean of polarities": typical(absolute(wrong, end)),
    }
    yield Check("ddn/eq103", worst(*errors), 1e-15, control, draws=10 * draws)


def eq177(draws: int, seed: int) -> Iterator[Check]:
    """The polarity to a far node is the product along the path: enumeration, products, samples.

    Controls: sizes without signs, the edge below the root left out, the least polarity.
    """
    check, rng = partial(Check, "ddn/eq177"), ref.generator("eq177 tree", seed)
    count = min(share(draws, 4), 15)
    exact, positive, short, sampled, reversed_ = [], [], [], [], []
    for w in tr.worlds(rng, count, 1):
        rho = torch.from_numpy(tr.rho(w))
        ours = lt.path_polarity(w.model.tree, rho).numpy()
        found = np.stack([tr.path_rho(w, node) for node in range(w.z.shape[1])], -1)
        exact.append(absolute(ours, found))
        positive.append(absolute(np.abs(ours), found))
        short.append(absolute(ours[:, [max(i, 0) for i in w.model.tree.parents]], found))
    yield check(
        worst(*exact),
        1e-13,
        {"signs dropped": typical(*positive), "the last edge left out": typical(*short)},
        draws=4 * count,
        part="small trees",
    )
    deep, total = [], min(draws, 6)
    for depth in (2, 4, 8):
        tree = lt.complete(depth)
        rho = tr.signed(rng, total, len(tree.parents) - 1, 0.7)
        model = lt.binary(tree, torch.from_numpy(rho))
        leaf = len(tree.parents) - 1
        P = np.eye(2)
        for node in lt.path(tree, leaf)[1:]:
            P = P @ _symmetric(rho[:, node - 1])
        ours = lt.path_polarity(tree, torch.from_numpy(rho))[:, leaf].numpy()
        deep.append(absolute(ours, 2 * P[:, 1, 1] - 1))
        reversed_.append(absolute(ours, 2 * P[:, 0, 1] - 1))
        if depth < 8:
            z = lt.sample(tr.keys(rng, total), model, SAMPLES)
            same = (z[..., 0] == z[..., leaf]).double().mean(-1).numpy()[:, None]
            sampled.append(_sigmas(same, (1 + ours[:, None]) / 2, SAMPLES))
            wrong = _sigmas(same, (1 - ours[:, None]) / 2, SAMPLES)
    yield check(
        worst(*deep),
        1e-13,
        {"P(1 | 0)": typical(*reversed_)},
        draws=3 * total,
        part="depth 2 to 8",
        note="Products of transition matrices.",
    )
    yield check(
        worst(*sampled),
        SIGMAS,
        {"reversed": typical(wrong)},
        draws=2 * total,
        part="samples",
        note="Standard errors.",
    )
