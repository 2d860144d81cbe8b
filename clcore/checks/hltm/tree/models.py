"""Latent trees: definition, sampler, transitions along a path (ddn Sec. 6.1, App. C.2).

`clcore.theory.trees.latent_tree` meets the enumeration of all joint states of small trees in numpy.
"""

from itertools import pairwise, product

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.hltm.tree import proofs
from clcore.checks.hltm.tree import reference as tr
from clcore.ledger import Trial, check, pooled, typical
from clcore.reference import Array, absolute
from clcore.theory.trees import latent_tree as lt

Q = np.array([-1.0, 1.0])  # q: P(z_nu | z_mu) is (1 1^T + rho q q^T)/2
SIGMAS = 7.0  # of the largest of some ten thousand errors
SAMPLES = 10_000


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


@check("ddn/eq14")
def eq14(t: Trial) -> None:
    """Symmetric binary hierarchical latent tree model (SB-HLTM) (Eq. 14).

    Given   four SB-HLTM trees of random polarities, all joint states enumerated; for the posterior
            roots of any polarity.
    Claim   P(1|1) = P(0|0) = (1 + rho)/2 on every edge, siblings are independent given the parent;
            rho = +-1 leaves no randomness; at rho = 0 the posterior of z_0 can only be uniform.
    Fails   the posterior, where the root is not uniform; corrected: it is the prior. Controls:
            polarity reversed, the parent not given, |rho| = 0.95 (in the proof P (1 - P)
            = (1 - |rho|)/4), rho not 0.
    """
    count = min(t.share(4), 4)
    worlds = tr.worlds(t.rng, count, 1)

    # P(1|1) and P(0|0) on every edge, from the joint states, against (1 + rho)/2.
    edges = t.defines("transitions", 1e-13, controls=typical, draws=len(tr.SHAPES) * count)
    for parents in tr.SHAPES:
        rho, n = tr.signed(t.rng, count, len(parents) - 1), len(parents)
        z, chance = tr.enumerate_states(lt.binary(lt.tree(parents), torch.from_numpy(rho), 0.3))
        ones = np.concatenate([z, 1 - z], -1)  # whether z = 1; n columns later, whether z = 0
        both = np.einsum("ds,sa,sb->dab", chance, ones, ones, optimize=True)
        for node, parent in enumerate(parents[1:], 1):
            found = np.stack(
                [both[:, parent + k, node + k] / both[:, parent + k, parent + k] for k in (0, n)],
                -1,
            )
            wanted = np.stack([(1 + rho[:, node - 1]) / 2] * 2, -1)
            edges.add(absolute(found, wanted))
            edges.breaks("polarity reversed", absolute(found, 1 - wanted))

    # Siblings are independent given the parent.
    apart = t.defines("siblings independent given the parent", 1e-13, controls=typical)
    apart.add(*(_dependence(w, True) for w in worlds))
    apart.breaks("parent not given", *(_dependence(w, False) for w in worlds))

    # rho = +-1 leaves no randomness: P (1 - P) of every transition is 0.
    sure = t.part("no randomness at rho = +-1", 0.0, controls=pooled)
    sure.add(_randomness(t.rng, count, 1.0))
    sure.breaks("|rho| = 0.95", _randomness(t.rng, count, 0.95))

    # At rho = 0 the posterior of z_0, from the joint states, against 1/2 (printed), and against its
    # prior, which need not be uniform.
    name = "posterior at rho = 0"
    printed, mended = (form(name, 1e-12, controls=typical) for form in (t.part, t.corrected))
    for parents in tr.SHAPES:
        rho = tr.signed(t.rng, count, len(parents) - 1)
        root = torch.from_numpy(t.rng.uniform(-0.9, 0.9, count))
        none, some = (
            lt.binary(lt.tree(parents), torch.from_numpy(v), root) for v in (0 * rho, rho)
        )
        posterior, other = _posterior(none), _posterior(some)
        prior = none.prior[:, 1:].numpy()
        from_uniform, from_prior = (absolute(posterior, 0 * posterior + v) for v in (0.5, prior))
        printed.add(from_uniform).fails_by(np.abs(prior[:, 0] - 0.5))
        mended.add(from_prior).breaks("uniform", from_uniform)
        for part in (printed, mended):
            part.breaks("rho not 0", absolute(other, 0 * other + prior))
    proofs.eq14(sure, mended)


def _posterior(model: lt.Model) -> Array:
    """P(z_0 = 1 | x), [draws, inputs], by sums over the joint states that show x."""
    z, chance = tr.enumerate_states(model)
    shown, found = lt.leaves(model.tree), []
    for x in product((0, 1), repeat=len(shown)):
        here = chance * (z[:, shown] == x).all(-1)
        found.append(here[:, z[:, 0] == 1].sum(-1) / here.sum(-1))
    return np.stack(found, -1)


def _randomness(rng: np.random.Generator, count: int, size: float) -> Array:
    """The largest P (1 - P) over transitions whose polarities are +-size."""
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


@check("ddn/def3")
def def3(t: Trial) -> None:
    """Transition-regularised latent tree model (TR-HLTM) (Definition 3).

    Given   random stochastic matrices P, m_mu x m_nu, of six shapes; regular ones by Sinkhorn and
            by the library.
    Claim   C = P - 1 1^T/m_nu has C 1 = 0 for every stochastic P, and 1^T C = 0 just where columns
            sum to m_mu/m_nu; square ones are then doubly stochastic; regular ones exist for all m.
    Fails   for rows that sum to 1.1; for m_nu/m_mu in place of m_mu/m_nu; regular and doubly
            stochastic: for generic stochastic P, whose columns have other sums.
    """
    rows_sum = t.part("C 1 = 0", 1e-13)
    condition = t.part("the real condition", 1e-13)
    regular = t.part("regular for every m", 1e-12, controls=typical)
    square = t.part("square: doubly stochastic", 1e-12, controls=typical)
    for rows, columns in SHAPES:
        generic = _stochastic(t.rng, t.draws, rows, columns)
        by_sinkhorn = _sinkhorn(t.rng, t.draws, rows, columns)
        ours = lt.regular_transition(tr.keys(t.rng, t.draws), rows, columns).numpy()

        # C 1 = 0 for every stochastic P.
        for P in (generic, by_sinkhorn, ours):
            rows_sum.add(_largest_sum(P, -1))
        rows_sum.breaks("rows sum to 1.1", _largest_sum(1.1 * generic, -1))

        # 1^T C against the column sums of P, by a loop, minus m_mu/m_nu. The control turns this
        # ratio over, which changes nothing where P is square.
        for P in (generic, by_sinkhorn, ours):
            found, sums = (
                _deviation(P).sum(-2),
                np.stack([sum(p[i] for i in range(rows)) for p in P]),
            )
            condition.add(absolute(found, sums - rows / columns))
            if rows != columns:
                condition.breaks("m_nu / m_mu", absolute(found, sums - columns / rows))

        # Regular ones, 1^T C = 0, exist for all m.
        regular.add(*(_largest_sum(P, -2) for P in (by_sinkhorn, ours)))
        regular.breaks("generic stochastic", _largest_sum(generic, -2))

        # Square ones are then doubly stochastic.
        if rows == columns:
            square.add(*(np.abs(P.sum(-2) - 1).max(-1) for P in (by_sinkhorn, ours)))
            square.breaks("generic stochastic", np.abs(generic.sum(-2) - 1).max(-1))
    proofs.def3(rows_sum, condition, regular, square)


def _deviation(P: Array) -> Array:
    """C = P - 1 1^T/m_nu, [draws, m_mu, m_nu]."""
    return lt.deviation(torch.from_numpy(P)).numpy()


def _largest_sum(P: Array, axis: int) -> Array:
    """The largest entry of C 1 (axis -1) or of 1^T C (axis -2), [draws]."""
    return np.abs(_deviation(P).sum(axis)).max(-1)


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


CHAINS = ((2, 3, 4), (5, 2, 3), (3, 3, 3, 2), (2, 4, 3, 5), (3, 2, 3, 2, 4), (2, 3, 2, 2, 3, 2, 3))
"""Numbers of states along a path; none ends with as many as it begins with."""


@check("ddn/lem6")
def lem6(t: Trial) -> None:
    """Transitions along a path of a TR-HLTM multiply (Lemma 6, Eqs. 98-99).

    Given   chains of three to seven nodes with 2..5 states, transitions as Definition 3.
    Claim   P along the path is 1 1^T/m_alpha plus the product of the C's: against marginalisation
            of all joint states, for two edges (Eq. 98) and more (Eq. 99).
    Fails   for transitions that are stochastic but not regular, and for 1/m of the upper node,
            which has another number of states.
    """
    two, more = (t.part(name, 1e-13, controls=typical) for name in ("Eq. 98", "Eq. 99"))
    for states, regular in product(CHAINS, (True, False)):
        model, last = _chain(t.rng, min(t.draws, 60), states, regular), len(states) - 1
        summed = _summed(model)
        C = np.eye(states[0])
        for node in range(1, len(states)):
            C = C @ lt.deviation(lt.edge(model, node)).numpy()

        # P along the path by all joint states, `summed`: errors of the formula and of the library.
        formula = absolute(1 / states[-1] + C, summed)
        part = two if len(states) == 3 else more
        if regular:
            by_library = absolute(lt.path_transition(model, last), summed)
            part.add(np.maximum(formula, by_library))
            part.breaks("1 / m of the upper node", absolute(1 / states[0] + C, summed))
        else:
            part.breaks("not regular", formula)
    proofs.lem6(two, more)


def _summed(model: lt.Model) -> Array:
    """P(last node | root) by sums over all joint states, [draws, m_0, m_last]."""
    z, chance = tr.enumerate_states(model)
    rows = []
    for top in range(model.tree.states[0]):
        here = chance * (z[:, 0] == top)
        ends = [here[:, z[:, -1] == state].sum(-1) for state in range(model.tree.states[-1])]
        rows.append(np.stack(ends, -1))
    return np.stack(rows, -2) / model.prior.numpy()[:, :, None]


@check("ddn/lem7")
def lem7(t: Trial) -> None:
    """A TR-HLTM with binary latents is an SB-HLTM (Lemma 7, Eq. 102).

    Given   binary transitions of any polarity, +-1 among them; binary regular ones by Sinkhorn and
            by the library; for the entries rho in [-2, 2].
    Claim   Eq. 14 is 1 1^T/2 + C with C = rho q q^T/2, which is regular; of the four linear
            constraints one is redundant and one parameter is free; a binary regular P is symmetric
            as Eq. 14; entries are in [0, 1] just for |rho| <= 1.
    Fails   for C without its 1/2, without the columns' constraints, for generic P, for |rho| <= 1/2
            in place of 1.
    """
    # Eq. 14 is 1 1^T/2 + C with C = rho q q^T/2, which is regular.
    rho = t.rng.uniform(-1, 1, (t.draws, 4))
    rho[:, :2] = [1, -1]
    C = rho[..., None, None] / 2 * np.outer(Q, Q)
    P = lt.transition(torch.from_numpy(rho)).numpy()
    sums = np.maximum(np.abs(C.sum(-1)), np.abs(C.sum(-2))).max((-1, -2))
    forward = t.part("SB is TR", 1e-15, draws=4 * t.draws)
    forward.add(absolute(P, 0.5 + C), sums).breaks("no 1/2", absolute(P, 0.5 + 2 * C))

    # Rows and columns of C sum to 0: of these four constraints on four entries one is redundant
    # (rank 3), and any three leave one entry free.
    rows = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]])
    free = [4 - np.linalg.matrix_rank(np.delete(rows, k, 0)) for k in range(4)]
    count = t.part("4 constraints, 1 redundant, 1 free", 0.0, draws=5)
    count.add(abs(4 - np.linalg.matrix_rank(rows) - 1) + max(abs(f - 1) for f in free))
    count.breaks("without the columns' two", abs(4 - np.linalg.matrix_rank(rows[:2]) - 1))

    # A binary regular P is Eq. 14 with rho = 2 P(1|1) - 1.
    back = t.part("binary TR is SB", 1e-12, controls=pooled)
    by_sinkhorn = _sinkhorn(t.rng, t.draws, 2, 2)
    by_library = lt.regular_transition(tr.keys(t.rng, t.draws), 2, 2).numpy()
    generic = _stochastic(t.rng, t.draws, 2, 2)
    back.add(*(absolute(P, _symmetric(2 * P[:, 1, 1] - 1)) for P in (by_sinkhorn, by_library)))
    back.breaks("generic", absolute(generic, _symmetric(2 * generic[:, 1, 1] - 1)))

    # Entries are in [0, 1] just for |rho| <= 1: we count where the two disagree.
    grid = np.concatenate([[-1, 1], t.rng.uniform(-2, 2, 20 * t.draws)])
    entries = 0.5 + grid[:, None, None] / 2 * np.outer(Q, Q)
    valid = ((entries >= 0) & (entries <= 1)).all((-1, -2))
    interval = t.part("polarity in [-1, 1]", 0.0, draws=len(grid))
    interval.add((valid != (np.abs(grid) <= 1)).sum())
    interval.breaks("|rho| <= 1/2", (valid != (np.abs(grid) <= 0.5)).sum())
    proofs.lem7(forward, count, back, interval)


@check("ddn/eq103")
def eq103(t: Trial) -> None:
    """Binary transitions are closed under multiplication (Eq. 103).

    Given   random pairs of polarities in [-1, 1].
    Claim   C(rho) C(rho') = q q^T q q^T rho rho'/4 = q q^T rho rho'/2 = C(rho rho').
    Fails   for q^T q = 1 in place of 2, and for the mean of the polarities.
    """
    a, b = t.rng.uniform(-1, 1, (2, t.draws * 10))
    low, high = (lt.deviation(lt.transition(torch.from_numpy(v))).numpy() for v in (a, b))
    end = lt.deviation(lt.transition(torch.from_numpy(a * b))).numpy()
    qq, scale = np.outer(Q, Q), (a * b)[:, None, None]
    # Each member against `end`, C of the transition with the polarity rho rho'.
    part = t.part("", 1e-15, controls=pooled, draws=10 * t.draws)
    part.add(*(absolute(m, end) for m in (low @ high, qq @ qq / 4 * scale, qq / 2 * scale)))
    part.breaks("q^T q = 1", absolute(qq / 4 * scale, end))
    wrong = lt.deviation(lt.transition(torch.from_numpy((a + b) / 2))).numpy()
    part.breaks("mean of polarities", absolute(wrong, end))
    proofs.eq103(part)


def standard_errors(found: Array, expected: Array, n: int) -> Array:
    """[draws]: the largest error of frequencies in standard errors (with a floor)."""
    error = np.sqrt(np.maximum(expected * (1 - expected), 0) / n) + 1e-4
    return (np.abs(found - expected) / error).reshape(len(found), -1).max(-1)


@check("ddn/eq177")
def eq177(t: Trial) -> None:
    """Polarity between distant latents is the product along the path (Eqs. 177, 180).

    Given   four small SB-HLTM trees; complete ones of depth 2, 4, 8; random polarities of both
            signs.
    Claim   rho_0mu, 2 P(z_mu = 1|z_0 = 1) - 1, is the product of the polarities along the path: by
            enumeration in small trees, by products of transition matrices in deep ones, and in
            samples within 7 standard errors.
    Fails   in small trees without signs or the last edge; in deep ones for P(1|0), of the other
            sign, and in the proof for one of two edges alone; in samples for the sign reversed.
    """
    # Small trees: the library's products, and 2 P(1|1) - 1 from the joint states.
    small = t.part("small trees", 1e-13, controls=typical)
    for w in tr.worlds(t.rng, min(t.share(4), 15), 1):
        ours = lt.path_polarity(w.model.tree, torch.from_numpy(tr.rho(w))).numpy()
        found = np.stack([tr.path_rho(w, node) for node in range(w.z.shape[1])], -1)
        small.add(absolute(ours, found))
        small.breaks("signs dropped", absolute(np.abs(ours), found))
        short = ours[:, [max(i, 0) for i in w.model.tree.parents]]
        small.breaks("the last edge left out", absolute(short, found))

    deep = t.part("depth 2 to 8", 1e-13, controls=typical)
    sampled = t.part("samples", SIGMAS, controls=typical)
    total = min(t.draws, 6)
    for depth in (2, 4, 8):
        tree = lt.complete(depth)
        leaf = len(tree.parents) - 1
        rho = tr.signed(t.rng, total, leaf, 0.7)
        ours = lt.path_polarity(tree, torch.from_numpy(rho))[:, leaf].numpy()

        # Deep trees: the library's product, and 2 P(1|1) - 1 by products of transition matrices.
        P = np.eye(2)
        for node in lt.path(tree, leaf)[1:]:
            P = P @ _symmetric(rho[:, node - 1])
        deep.add(absolute(ours, 2 * P[:, 1, 1] - 1))
        deep.breaks("P(1 | 0)", absolute(ours, 2 * P[:, 0, 1] - 1))

        # Samples, but of the deepest: in what share root and leaf agree, against (1 + rho)/2.
        if depth < 8:
            z = lt.sample(tr.keys(t.rng, total), lt.binary(tree, torch.from_numpy(rho)), SAMPLES)
            same = (z[..., 0] == z[..., leaf]).double().mean(-1).numpy()[:, None]
            sampled.add(standard_errors(same, (1 + ours[:, None]) / 2, SAMPLES))
            if depth == 4:  # where polarities are weaker
                sampled.breaks("reversed", standard_errors(same, (1 - ours[:, None]) / 2, SAMPLES))
    proofs.eq177(small, deep, sampled)
