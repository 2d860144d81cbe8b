"""Arcs, optima and basins of weighted pairs against sums over pairs on a grid; where climbs end."""

import math

import numpy as np
import pytest
import torch

from clcore.theory.one_layer import basins, one_layer
from clcore.theory.one_layer import circle_landscape as circle

FINE = 20_000
GRID = 2 * math.pi * np.arange(FINE) / FINE - math.pi


def on(angle):
    return np.stack([np.cos(angle), np.sin(angle)], -1)


def energy(x, alpha, slope, angle):
    """1/2 C_alpha[h(w.x)] at angles [m], summed over pairs."""
    u = on(angle) @ x.T
    h = np.where(u > 0, u, slope * u)
    return np.einsum("ij,mij->m", alpha, (h[:, :, None] - h[:, None]) ** 2) / (4 * len(x) ** 2)


def peaks(E):
    return GRID[(np.roll(E, 1) < E) & (np.roll(E, -1) < E)]


def same(found, expected):
    found = np.sort(np.asarray(found)[~np.isnan(found)])
    assert len(found) == len(expected)
    assert np.abs(np.sin((found - np.sort(expected)) / 2)).max() < 1.1 * math.pi / FINE


@pytest.fixture(params=range(4))
def weighted(request):
    """Four points, in every second cloud two at opposite angles; weights that are not symmetric."""
    rng = np.random.default_rng(request.param)
    x = rng.standard_normal((4, 2))
    if request.param % 2:
        x[1] = -x[0] * rng.uniform(0.5, 2)
    return x, rng.uniform(0.2, 2, (4, 4)), rng


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_arcs_and_optima_of_weighted_pairs(weighted, slope):
    x, alpha, rng = weighted
    cut = circle.cells(torch.tensor(x), slope, torch.tensor(alpha))
    begin, length, A = (v.numpy() for v in cut)
    assert length.sum() == pytest.approx(2 * math.pi)
    angle = (begin + rng.random(len(begin)) * length)[length > 0]
    w, form = on(angle), A[length > 0]
    expected = energy(x, alpha, slope, angle)
    assert np.einsum("mi,mij,mj->m", w, form, w) / 2 == pytest.approx(expected, rel=1e-11)
    ours = circle.energy(torch.tensor(x), torch.tensor(angle), slope, torch.tensor(alpha))
    assert ours.numpy() == pytest.approx(expected, rel=1e-12)
    for minima, sign in ((False, 1), (True, -1)):
        found = circle.extrema(torch.tensor(x), slope, torch.tensor(alpha), minima=minima)
        same(found.angle.numpy(), peaks(sign * energy(x, alpha, slope, GRID)))
        gate = np.abs(on(found.kinks.numpy()) @ (x / np.linalg.norm(x, axis=1, keepdims=True)).T)
        assert (gate[~found.kinks.isnan().numpy()].min(-1, initial=1) < 1e-9).all()


def test_basins_of_weighted_pairs(weighted):
    x, alpha, _ = weighted
    angle, _, share = (v.numpy() for v in circle.basins(torch.tensor(x), 0.2, torch.tensor(alpha)))
    E = energy(x, alpha, 0.2, GRID)
    same(angle, peaks(E))
    minima = peaks(-E)
    arcs = np.diff(minima, append=minima[0] + 2 * math.pi) / (2 * math.pi)
    assert share == pytest.approx(arcs[np.searchsorted(minima, angle) - 1], abs=3 / FINE)


@pytest.mark.parametrize("grid", [21, 30, 101])
def test_a_linear_node_runs_to_the_ends_of_its_axis(grid):
    rng = np.random.default_rng(grid)
    for x in (rng.standard_normal((5, 2)), np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])):
        axis = np.linalg.eigh(np.cov(x.T))[1][:, 1]
        along = on(circle.stable_angles(torch.tensor(x), 1.0, grid=grid).numpy()) @ axis
        assert sorted(np.sign(along)) == [-1, 1]
        assert np.arccos(np.abs(along).clip(max=1)).max() <= math.pi / grid + 1e-6


def test_ends_are_counted_the_most_frequent_first():
    rng = np.random.default_rng(0)
    places, count = np.linalg.qr(rng.standard_normal((4, 4)))[0], np.array([5, 14, 2, 9])
    found = basins.ends(torch.tensor(rng.permutation(np.repeat(places, count, 0))))
    assert found.count.tolist() == [14, 9, 5, 2]
    assert found.w.numpy() == pytest.approx(places[np.argsort(-count)])


def test_climbs_end_at_maxima_higher_than_their_starts():
    rng = np.random.default_rng(1)
    x, start = rng.standard_normal((7, 2)), on(rng.uniform(-math.pi, math.pi, 50))
    alpha, angle = np.ones((7, 7)), lambda w: np.arctan2(w[:, 1], w[:, 0])
    end = basins.climb(one_layer.samples(torch.tensor(x)), torch.tensor(start), steps=600).numpy()
    here, before = (energy(x, alpha, 0.0, angle(w)) for w in (end, start))
    assert (here > before - 1e-6).all()
    far = np.sum(start * end, 1) <= np.cos(2.0)  # 600 steps reach 2.26 radians
    beside = [energy(x, alpha, 0.0, angle(end) + step) for step in (0.01, -0.01)]
    assert (np.maximum(*beside) <= here)[~far].mean() > 0.97


def test_lengths_of_steps_fall_by_one_factor():
    x = np.random.default_rng(2).uniform(0.5, 1.5, (6, 1)) * [[2.0, 1.0]]
    world = one_layer.samples(torch.tensor(np.concatenate([x, -x])))
    start = torch.tensor(on(np.array([2.0])))
    for steps in (1, 2, 5):
        end = basins.climb(world, start, "linear", steps, 0.02, 0.001)
        expected = np.arctan(np.geomspace(0.02, 0.001, steps)).sum()
        assert torch.acos((start * end).sum()).item() == pytest.approx(expected)


def test_where_no_gate_opens_a_start_stays():
    x, w = np.random.default_rng(3).uniform(0.5, 1.5, (2, 6, 2))
    start = torch.tensor(-w / np.linalg.norm(w, axis=1, keepdims=True))
    world = one_layer.samples(torch.tensor(x))
    assert torch.allclose(basins.climb(world, start, "relu", steps=50), start, rtol=1e-15)
    assert not torch.allclose(basins.climb(world, start, "linear", steps=50), start)


@pytest.mark.parametrize("quarter", [0, 1, 2, 3])
def test_points_on_an_axis(quarter):
    """Two points on half an axis, others behind them: a cell whose matrix has one entry, where only
    these two have an open gate; at half a turn the angle has two names."""
    rng = np.random.default_rng(quarter)
    behind = on(rng.uniform(0.55, 1.45, 4) * math.pi) * rng.uniform(0.5, 1.5, (4, 1))
    x = np.concatenate([[[rng.uniform(0.5, 1), 0], [rng.uniform(1.5, 2), 0]], behind])
    x = x @ np.round(on((quarter + np.arange(2)) * math.pi / 2))
    E = energy(x, np.ones((6, 6)), 0.0, GRID)
    there = GRID[(np.roll(E, 1) < E) & (np.roll(E, -1) <= E)]
    same(circle.extrema(torch.tensor(x)).angle.numpy(), there)


def test_ends_that_are_the_same_to_the_bit():
    found = basins.ends(torch.eye(3)[[0, 1, 0, 2, 0, 1]], 0.0)
    assert found.count.tolist() == [3, 2, 1]
