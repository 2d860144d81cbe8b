"""What is recorded along population descent, against sums over samples and views in numpy."""

from itertools import product

import numpy as np
import pytest
import torch

from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.layers import Layer
from clcore.checks.dual_networks.layers import descent as by_complex_steps
from clcore.reference import STEP, tensors
from clcore.theory.operator import descent

pytestmark = pytest.mark.usefixtures("one_thread")
DRAWS, RATE = 3, 0.2


def small(views=3, seed=0):
    """(a world of three samples, layers of a net), some draws of each."""
    rng = np.random.default_rng(seed)
    world = dw.world(rng, DRAWS, 4, "additive", 0.3, samples=3, views=views)
    return world, [0.7 * w for w in dw.weights(rng, DRAWS, (4, 5, 3))]


def trained(world, layers, case, steps, every, **more):
    weights = tensors(*layers)
    return descent.train(weights, world, case.ours, case.library_weight, RATE, steps, every, **more)


def spectra(at):
    """Eigenvalues of VE_l and of EV_l, rising, by sums over samples and views, [draws, w]."""
    _, p, _, q = dw.parts(at.world)
    p, q, K = p[..., None, None], q[..., None, None], at.K.numpy()
    mean = (q * K).sum(2)
    centred, inside = mean - (p * mean).sum(1, keepdims=True), K - mean[:, :, None]
    squares = [v @ v.swapaxes(-1, -2) for v in (centred, inside)]
    operators = (p * squares[0]).sum(1), (p * (q * squares[1]).sum(2)).sum(1)
    return [np.linalg.eigvalsh(v) for v in operators]


def test_eigenvalues_at_both_ends():
    world, start = small()
    found = trained(world, start, dw.infonce(0.5), 4, 2)
    assert found.steps == [0, 2, 4]
    for end, net in ((0, start), (-1, [w.numpy() for w in found.weights])):
        for k, ours in enumerate(zip(found.between, found.within, strict=True)):
            for values, expected in zip(ours, spectra(Layer(world, net, k + 1)), strict=True):
                np.testing.assert_allclose(values[end], expected, atol=1e-9)


@pytest.mark.parametrize(("every", "asked"), [(1, [0, 1, 2, 3]), (2, [0, 2, 3]), (4, [0, 3])])
def test_the_first_step_and_the_last_are_recorded(every, asked):
    found = trained(*small(), dw.infonce(0.5), 3, every)
    assert found.steps == asked and len(found.residue) == len(found.spread) == len(asked)


def test_a_net_that_diverges_has_no_numbers_and_all_others_have_theirs():
    world, start = small()
    found = trained(world, start, dw.infonce(0.5), 4, 2)
    huge = [w * np.array([1e200, 1, 1])[:, None, None] for w in start]
    far = trained(world, huge, dw.infonce(0.5), 4, 2)
    for ours, alone in zip(far.between + far.within, found.between + found.within, strict=True):
        assert ours[:, 0].isnan().all()
        torch.testing.assert_close(ours[:, 1:], alone[:, 1:], rtol=0, atol=0)


def test_an_operator_of_which_some_entries_are_too_large_has_no_eigenvalues():
    world, start = small()
    active = (world.points[0].numpy() @ start[0][0].T).clip(min=0).sum(0).argmax()
    start[0][0, active] *= 1e200
    above = trained(world, start, dw.infonce(0.5), 4, 2)
    for ours in (above.between[1], above.within[1]):
        assert ours[0, 0].isnan().all() and ours[0, 1:].isfinite().all()


def operators(case, at, normalised):
    """The exact operator of a layer and V^xi / 2 of its Kbar, [draws, w, w], by a loop over a
    sample, its two views, and a negative: ddn Theorem 1, Eqs. 5 and 41."""
    _, p, x, q = dw.parts(at.world)
    f, K = dw.output(at.net, x, normalised), dw.connection(at.net, at.number, x)
    plain = dw.output(at.net, dw.parts(at.world)[0], normalised)[:, :, 0]
    left = right = K
    if normalised:
        right = K / np.linalg.norm(dw.output(at.net, x), axis=-1)[..., None, None]
        left = right - (right @ f[..., None]) @ f[..., None, :]
    exact, main, (samples, views) = 0.0, 0.0, q.shape[1:]
    for s, i, r, j in product(range(samples), range(views), range(samples), range(views)):
        for k in range(views):
            near, far = dw.half(f[:, s, i], f[:, s, k]), dw.half(f[:, s, i], f[:, r, j])
            slopes = (case.page(near + STEP * 1j, far), case.page(near, far + STEP * 1j))
            chance = p[:, s] * q[:, s, i] * q[:, s, k] * p[:, r] * q[:, r, j]
            for slope, there in zip(slopes, (right[:, s, k], right[:, r, j]), strict=True):
                pair = left[:, s, i] @ (right[:, s, i] - there).swapaxes(-1, -2)
                exact = exact - (chance * slope.imag / STEP)[:, None, None] * pair
    mean_left, mean_right = ((q[..., None, None] * v).sum(2) for v in (left, right))
    for s, r in product(range(samples), repeat=2):
        mass = p[:, s] * p[:, r] * case.weight(dw.half(plain[:, s], plain[:, r])) / 2
        gap = mean_left[:, s] - mean_left[:, r]
        pair = gap @ (mean_right[:, s] - mean_right[:, r]).swapaxes(-1, -2)
        main = main + mass[:, None, None] * pair
    return exact, main


def spread(world, f):
    """Of outputs f: the mean variance of a sample's views, and the variance of their means."""
    _, p, _, q = dw.parts(world)
    mean = (q[..., None] * f).sum(2)
    inside = (p[..., None] * q * ((f - mean[:, :, None]) ** 2).sum(-1)).sum((1, 2))
    across = (p * ((mean - (p[..., None] * mean).sum(1, keepdims=True)) ** 2).sum(-1)).sum(1)
    return np.stack([inside, across], -1)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("normalised", [False, True])
def test_three_steps_the_residue_and_the_spread(normalised, tied):
    """Weights by complex steps, one tower and both; |theta| over |V^xi / 2| at the start."""
    case = dw.infonce(2.0)  # at a small temperature xi vanishes
    world, start = small(views=2, seed=1)
    found = trained(world, start, case, 3, 3, normalised=normalised, tied=tied)
    net = list(start)
    for _ in range(3):
        both = [Layer(world, list(net), k + 1) for k in (0, 1)]
        steps = [by_complex_steps(at, case, tied, normalised) for at in both]
        for k, step in enumerate(steps):
            rows, columns = net[k].shape[1:]
            net[k] = net[k] + RATE * step.reshape(DRAWS, columns, rows).swapaxes(1, 2)
    for k in (0, 1):
        np.testing.assert_allclose(found.weights[k], net[k], atol=1e-10)
        exact, main = operators(case, Layer(world, start, k + 1), normalised)
        size = [np.linalg.norm(v, axis=(1, 2)) for v in (exact - main, main)]
        np.testing.assert_allclose(found.residue[0][:, k], size[0] / size[1], rtol=1e-8)
    for at, layers in ((0, start), (-1, net)):
        expected = spread(world, dw.output(layers, dw.parts(world)[2], normalised))
        np.testing.assert_allclose(found.spread[at], expected, atol=1e-10)
