"""Landscapes of masked views by loops: laws point by point, encoders of any height, the descent run
by run, and the distance from all permutations."""

from itertools import permutations, product

import numpy as np
import pytest
import torch

from clcore import random as cr
from clcore.losses import two_view as vl
from clcore.theory.sparse import mask_landscape as ml

pytestmark = pytest.mark.usefixtures("one_thread")


def unit(W):
    return W / np.sqrt((W**2).sum(0))


def told(law, M):
    """{point: chance} of a law; its image under M has the same chances, at M times its points."""
    points = [tuple(map(int, z)) for z in law.point.tolist()]
    image = law.through(torch.from_numpy(M))
    for z, x in zip(points, image.point.numpy(), strict=True):
        assert x == pytest.approx(sum(v * column for v, column in zip(z, M.T, strict=True)))
    assert image.probability.tolist() == law.probability.tolist()
    assert len(set(points)) == len(points)
    return dict(zip(points, law.probability.tolist(), strict=True))


@pytest.mark.parametrize("nonzero", [False, True])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_laws_of_latents_point_by_point(d, signed, nonzero):
    rng = np.random.default_rng(d)
    beta, M = float(rng.uniform(0.1, 0.9)), rng.standard_normal((d + 1, d))
    chance = {0: 1 - beta, 1: beta / (1 + signed), -1: beta / 2}
    wanted = {
        z: float(np.prod([chance[v] for v in z]))
        for z in product((-1, 0, 1) if signed else (0, 1), repeat=d)
        if any(z) or not nonzero
    }
    whole = sum(wanted.values())
    wanted = {z: mass / whole for z, mass in wanted.items()}
    assert told(ml.sparse(d, beta, signed, nonzero), M) == pytest.approx(wanted, abs=1e-13)
    signs = (1, -1) if signed else (1,)
    ones = {tuple((s * row).tolist()) for row in np.eye(d, dtype=int) for s in signs}
    even = dict.fromkeys(ones, 1 / len(ones))
    assert told(ml.one_hot(d, signed), M) == pytest.approx(even, abs=1e-13)


def surrogate_by_loops(W, keep, tau):
    """Eq. 16 by a loop over all masks D_1^i, D_2^1, ..., D_2^d."""
    d, total, eye = W.shape[-1], 0.0, np.eye(W.shape[-1])
    masks = [np.array(D) for D in product((0, 1), repeat=d)]
    for i in range(d):
        for D in product(masks, repeat=d + 1):
            chance = np.prod(np.where(np.array(D), keep, 1 - keep))
            anchor = np.maximum(W @ (D[0] * eye[i]), 0)
            far = [anchor @ np.maximum(W @ (D[1 + j] * eye[j]), 0) for j in range(d)]
            total -= chance * (tau * far[i] - np.log(np.exp(tau * np.array(far)).sum()))
    return total


@pytest.mark.parametrize(("m", "d"), [(1, 2), (3, 2), (5, 2), (2, 3), (4, 3)])
def test_closed_forms_for_encoders_of_any_height(m, d):
    W, keep, tau = unit(np.random.default_rng(m).standard_normal((m, d))), 0.7, 1.5
    ours = torch.from_numpy(W)
    pairs = sum(np.maximum(column, 0) @ np.maximum(column, 0) for column in W.T) / d
    found = float(ml.one_hot_non_contrastive(ours, keep))
    assert found == pytest.approx(2 - 2 * keep**2 * pairs, abs=1e-13)
    for negatives in ml.NEGATIVES:
        closed = float(ml.one_hot_contrastive(ours, keep, tau, negatives))
        every = float(ml.contrastive(ours, ml.one_hot(d), keep, tau, negatives))
        assert closed == pytest.approx(every, abs=1e-12)
    if d == 2:
        slow = surrogate_by_loops(W, keep, tau)
        assert float(ml.one_hot_surrogate(ours, keep, tau)) == pytest.approx(slow, abs=1e-12)


def descended(W, A, B, steps, rate):
    """One run on sum A (W - B)^2: along the sphere of every column, longer steps after each that
    does not raise the loss, half as long after one that does, which is undone."""

    def loss(V):
        return (A * (V - B) ** 2).sum()

    W, undone = unit(W), 0
    for _ in range(steps):
        slope = 2 * A * (W - B)
        tried = unit(W - rate * (slope - W * (W * slope).sum(0)))
        better = loss(tried) <= loss(W)
        W, rate, undone = (
            (tried if better else W),
            rate * (1.2 if better else 0.5),
            undone + ~better,
        )
    return W, undone


@pytest.mark.parametrize(("steps", "rate"), [(1, 0.01), (4, 1.0), (6, 0.3)])
def test_descent_run_by_run(steps, rate):
    rng = np.random.default_rng(0)
    A, B = rng.uniform(0.5, 2, (4, 3)), rng.standard_normal((4, 3))
    starts = rng.standard_normal((6, 4, 3))
    slope, to = torch.from_numpy(A), torch.from_numpy(B)
    found = ml.descend(
        lambda W: (slope * (W - to) ** 2).sum((-1, -2)), torch.from_numpy(starts), steps, rate
    ).numpy()
    right = [descended(W, A, B, steps, rate) for W in starts]
    assert found == pytest.approx(np.array([W for W, _ in right]), abs=1e-12)
    assert rate < 1 or any(undone for _, undone in right)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_how_far_from_a_permutation(d):
    """The permutation with its ones at the columns' largest entries; 1 where there is none."""
    rng, every = np.random.default_rng(d), np.eye(d)[list(permutations(range(d)))]
    size = np.array([0.01, 0.1, 0.3, 0.6, 1])[:, None, None, None]
    noise = size * rng.standard_normal((5, 6, d, d))
    W = every[rng.integers(len(every), size=(5, 6))] + noise
    W[0, 0, :, 1] = W[0, 0, :, 0]  # two columns on one row
    found = ml.permutation_gap(torch.from_numpy(W)).numpy()
    for k in np.ndindex(5, 6):
        tops = [P for P in every if (W[k][P == 1] == W[k].max(0)[P.argmax(1)]).all()]
        assert found[k] == (np.abs(W[k] - tops[0]).max() if tops else 1.0)


def test_a_column_is_refused_only_if_all_of_it_is_zero():
    for W in np.random.default_rng(1).standard_normal((5, 4, 3)):
        W[0, 0] = W[1, 1] = W[2, 1] = W[1:, 2] = 0
        assert ml.unit_columns(torch.from_numpy(W)).numpy() == pytest.approx(unit(W), abs=1e-15)
        with pytest.raises(ValueError, match="expected no zero column"):
            ml.unit_columns(torch.from_numpy(W * [1, 0, 1]))


def test_every_other_sample_is_a_negative_as_often():
    n, size, draws = 7, 4, 300
    drawn = [vl.other_samples(key, n, size).numpy() for key in cr.split(cr.key(5), draws)]
    often = sum(np.eye(n)[index].sum(1) for index in drawn)
    chance = size / (n - 1) * ~np.eye(n, dtype=bool)
    error = np.sqrt(draws * chance.max() * (1 - chance.max()))
    assert np.abs(often - draws * chance).max() < 5 * error
    assert (np.diagonal(often) == 0).all()
