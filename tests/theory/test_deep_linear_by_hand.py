"""Ascents and paths of deep linear nets step by step in numpy; what tells their limits apart:
residuals, curvature, how far from aligned weights are, and which of them are trapped."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from clcore import random
from clcore import reference as ref
from clcore.checks.deep_linear_pca.flow import product as product_of
from clcore.checks.deep_linear_pca.landscape import rise, trap
from clcore.reference import kolmogorov, tensors
from clcore.theory import deep_linear as dl

pytestmark = pytest.mark.usefixtures("one_thread")
DRAWS = 6


def axes(rows):
    """Of what has norm one: a row or a layer."""
    return (-1,) if rows else (-2, -1)


def scaled(ws, rows):
    """To the constraint set: layers of norm 1; rows: all but the last of rows of norm n^(-1/2)."""
    out = []
    for k, w in enumerate(ws):
        own = rows and k < len(ws) - 1
        size = np.sqrt((w**2).sum(axes(own), keepdims=True))
        out.append(w / size / (np.sqrt(w.shape[-2]) if own else 1))
    return out


def symmetric(rng, d):
    X = rng.standard_normal((DRAWS, d, d))
    return X + X.swapaxes(1, 2)


def normal(rng, widths):
    return [rng.standard_normal((DRAWS, high, low)) for low, high in pairwise(widths)]


def energy(ws, X):
    z = X
    for w in ws:
        z = w @ z @ w.swapaxes(-1, -2)
    return np.trace(z, axis1=-2, axis2=-1)


def pushes(ws, X):
    """Half the gradient of E by each layer, from the slope of E along every one of its entries."""
    out = []
    for k, w in enumerate(ws):
        slope = np.empty_like(w)
        for place in np.ndindex(w.shape[1:]):
            moved = w.astype(complex)
            moved[(slice(None), *place)] += 1e-30j
            slope[(slice(None), *place)] = energy([*ws[:k], moved, *ws[k + 1 :]], X).imag / 2e-30
        out.append(slope)
    return out


def tangent(ws, X, rows):
    """Half the gradient of E within the constraint set, and the norm of its longest layer."""
    out = []
    for k, (w, g) in enumerate(zip(ws, pushes(ws, X), strict=True)):
        dims = axes(rows and k < len(ws) - 1)
        out.append(g - (g * w).sum(dims, keepdims=True) / (w * w).sum(dims, keepdims=True) * w)
    return out, np.max([np.sqrt((m**2).sum((1, 2))) for m in out], 0)


# --------------------------------------------------------------------------------------- spectra


def test_eigenvectors_of_a_spectrum_are_uniform_on_the_sphere():
    """Their projections on a line are uniform in three dimensions (Archimedes)."""
    for place in range(3):
        keys = random.split(random.key(place), 2000)
        one = torch.eye(3, dtype=torch.float64)[place].expand(2000, -1)
        X = dl.with_spectrum(keys, one).numpy()
        for along in ([1, 0, 0], [0, 1, 0], [0, 0, 1], [0.6, 0.8, 0], [0, 0.6, -0.8]):
            seen = np.sqrt(np.einsum("i,bij,j->b", along, X, along).clip(0))
            assert kolmogorov(seen, 0.0, 1.0) < 3


def layers_with_top(kind, widths):
    """Generic layers above the first, two of whose eigenvalues are equal, or the last of them 0."""
    ws = normal(np.random.default_rng(len(widths)), widths)
    if kind == "equal":
        ws[1] = np.linalg.qr(ws[1])[0]
    elif kind == "zero":
        ws[-1] = 0 * ws[-1]
    return ws


@pytest.mark.parametrize(
    ("kind", "widths", "distinct"),
    [
        ("generic", (4, 3, 2), True),
        ("generic", (4, 3, 5, 2), True),
        ("generic", (4, 3, 1), True),
        ("zero", (4, 2, 3), False),
        ("zero", (4, 3, 1), False),
        ("zero", (4, 1, 2), True),  # one node has but one eigenvalue
        ("equal", (4, 2, 3), False),
    ],
)
def test_the_largest_eigenvalue_above_layer_1_and_whether_it_is_distinct(kind, widths, distinct):
    ws = layers_with_top(kind, widths)
    value, alone = (found.numpy() for found in dl.distinct_top(tensors(*ws)))
    whole = ws[-1] @ ws[1] if len(ws) > 2 else ws[1]
    np.testing.assert_allclose(value, np.linalg.norm(whole, 2, (1, 2)) ** 2, atol=1e-12)
    assert (alone == distinct).all()


# ------------------------------------------------------------------------------- ascents and paths


def climbed(ws, X, rows, steps, tolerance):
    """Where runs end, in how many steps, and the residual there."""
    steep = np.linalg.norm(X, 2, (1, 2))
    pace, taken, live = 0.5 / steep, np.zeros(len(X), int), np.ones(len(X), bool)
    for step in range(steps + 1):
        moves, size = tangent(ws, X, rows)
        live &= size > tolerance * steep
        if step == steps:
            break
        taken += live
        there = scaled([w + pace[:, None, None] * m for w, m in zip(ws, moves, strict=True)], rows)
        rises = live & (energy(there, X) >= energy(ws, X))
        ws = [np.where(rises[:, None, None], new, w) for new, w in zip(there, ws, strict=True)]
        pace *= np.where(rises, 1.5, 0.4)
    return ws, taken, size / steep


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize(
    ("widths", "scale"), [((4, 3, 2), 2.0**40), ((3, 4, 3, 2), 2.0**-40), ((3, 2), 1.0)]
)
def test_an_ascent_step_by_step(rows, widths, scale):
    """X of any size; a few runs end early."""
    rng = np.random.default_rng(0)
    ws, X = scaled(normal(rng, widths), rows), symmetric(rng, widths[0])
    limits = dl.ascend(tensors(*ws), *tensors(scale * X), steps=14, tolerance=0.1, rows=rows)
    ours = [w.numpy() for w in limits.weights]
    hand, taken, residual = climbed(ws, X, rows, 14, 0.1)
    for w, by_hand in zip(ours, hand, strict=True):
        np.testing.assert_allclose(w, by_hand, atol=1e-8)
    np.testing.assert_allclose(limits.energy.numpy() / scale, energy(ours, X), atol=1e-8)
    np.testing.assert_allclose(limits.residual.numpy(), residual, atol=1e-8)
    assert (limits.steps.numpy() == taken).all()


@pytest.mark.parametrize(
    ("widths", "steps", "every"), [((4, 3, 2, 3), 5, 2), ((3, 1, 2), 4, 3), ((3, 2), 3, 1)]
)
def test_a_path_step_by_step(widths, steps, every):
    """A layer of one node among them, whose second singular value is 0."""
    rng, rate = np.random.default_rng(1), 0.7
    ws, X = scaled(normal(rng, widths), False), symmetric(rng, widths[0])
    path = dl.singular_path(tensors(*ws), *tensors(X), rate, steps, every)
    pace, expected = rate / np.linalg.norm(X, 2, (1, 2))[:, None, None], []
    for _ in range(steps + 1):
        s = [np.linalg.svd(w, compute_uv=False) for w in ws]
        whole = product_of(ws)
        first = np.stack([v[:, 0] for v in s], 1)
        second = np.stack([np.sort(np.pad(v, ((0, 0), (0, 1))), 1)[:, -2] for v in s], 1)
        E = np.trace(whole @ X @ whole.swapaxes(1, 2), axis1=1, axis2=2)
        expected.append({"energy": E, "first": first, "second": second})
        ws = scaled([w + pace * m for w, m in zip(ws, pushes(ws, X), strict=True)], False)
    for name, ours in path.items():
        assert len(ours) == len(expected[::every])
        for found, at in zip(ours, expected[::every], strict=True):
            np.testing.assert_allclose(found, at[name], atol=1e-10)


def test_steps_against_the_min_player():
    """A temperature a run, infinity among them."""
    rng, rate, steps, taus = np.random.default_rng(2), 0.5, 3, np.array([0.3, 1.0, np.inf])
    x, x2 = ref.views(rng, len(taus), 6, 4)
    low, high = scaled(
        [rng.standard_normal((len(taus), *size)) for size in ((3, 4), (2, 3))], False
    )
    last, found = dl.adversarial_ascent(tensors(low, high), *tensors(x, x2, taus), rate, steps)
    pace = None
    for step in range(steps + 1):
        z = x @ (high @ low).swapaxes(1, 2)
        alpha = ref.softmax(ref.distances(z, z)[0], taus[:, None, None])
        X = ref.covariance(alpha, x, x2, x, x2)
        if pace is None:
            pace = rate / np.linalg.norm(X, 2, (1, 2))[:, None, None]
        if step < steps:
            back = high.swapaxes(1, 2) @ high @ low @ X
            top = high @ low @ X @ low.swapaxes(1, 2)
            low, high = scaled([low + pace * back, high + pace * top], False)
    for ours, theirs in zip((*last, found), (low, high, X), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-11 * np.abs(theirs).max())


# --------------------------------------------------------------------------- what is said of limits


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("widths", [(3, 2, 2), (2, 2, 1, 2)])
def test_curvature_by_second_differences_on_the_constraint_set(rows, widths):
    rng, step = np.random.default_rng(3), 1e-4
    ws, X = scaled(normal(rng, widths), rows), symmetric(rng, widths[0])
    flat = np.concatenate([w.reshape(DRAWS, -1) for w in ws], 1)
    ends = np.cumsum([w[0].size for w in ws])[:-1]

    def value(at):
        layers = zip(np.split(at, ends, -1), ws, strict=True)
        return energy(scaled([p.reshape(len(p), *w.shape[1:]) for p, w in layers], rows), X)

    size = flat.shape[1]
    moves, H = step * np.eye(size), np.empty((DRAWS, size, size))
    for i, j in product(range(size), repeat=2):
        up, down = moves[i] + moves[j], moves[i] - moves[j]
        far = [value(flat + s * v) for v in (up, down) for s in (1, -1)]
        H[:, i, j] = (far[0] + far[1] - far[2] - far[3]) / (4 * step**2)
    found = dl.curvature(tensors(*ws), *tensors(X), rows=rows)
    expected = np.linalg.eigvalsh(H)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def near_aligned(rng, widths, off):
    """Layers of singular values 1 + off[0] and off[1], their vectors turned by off[2] against those
    of the layer before; even and of random signs where off[2] is 0."""
    vectors = []
    for n in widths:
        even = rng.choice([-1.0, 1.0], (DRAWS, n, 1)) / np.sqrt(n)
        both = np.concatenate([even, rng.standard_normal((DRAWS, n, 1))], 2)
        vectors.append(np.linalg.qr(both)[0])
    out = []
    for right, left in pairwise(vectors):
        turn = np.array([[np.cos(off[2]), -np.sin(off[2])], [np.sin(off[2]), np.cos(off[2])]])
        sign = rng.choice([-1.0, 1.0], (DRAWS, 1, 1))
        values = np.diag([1 + off[0], off[1]])
        out.append(sign * left @ values @ (right @ turn).swapaxes(1, 2))
    return out


@pytest.mark.parametrize(
    "off", [(0.3, 0.1, 0.2), (-0.3, 0.1, 0.2), (0.1, 0.4, 0.2), (0.1, 0.05, 0.5)]
)
def test_misalignment_is_the_largest_of_three(off):
    """How far the first singular value is from 1, the second, the sine of the angle."""
    ws = tensors(*near_aligned(np.random.default_rng(4), (4, 3, 5, 2), off))
    expected = max(abs(off[0]), off[1], np.sin(off[2]))
    np.testing.assert_allclose(dl.misalignment(ws), expected, atol=1e-8)


def test_unevenness_of_aligned_weights():
    rng = np.random.default_rng(5)
    even = tensors(*near_aligned(rng, (4, 3, 5, 2), (0, 0, 0)))
    np.testing.assert_allclose(dl.unevenness(even), 0, atol=1e-8)
    np.testing.assert_allclose(dl.misalignment(even), 0, atol=1e-8)
    for high, low in ((3, 4), (5, 2)):
        left, right, last = (
            v / np.linalg.norm(v, axis=1, keepdims=True)
            for v in (
                rng.standard_normal((DRAWS, high)) + 2.0,
                *(rng.standard_normal((DRAWS, n)) for n in (low, 2)),
            )
        )
        ws = [left[:, :, None] * right[:, None], last[:, :, None] * left[:, None]]
        away = np.abs(np.abs(left) - high**-0.5).max(1)
        np.testing.assert_allclose(dl.unevenness(tensors(*ws)), away, atol=1e-8)


def unit(rng, n):
    v = rng.standard_normal((DRAWS, n))
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def cancelled(ws, layer, v):
    """W_{layer+1} with v for the only direction of its outputs, W_{layer+2} without it."""
    low, high = ws[layer], ws[layer + 1]
    first = v[:, :, None] * (low * v[:, :, None]).sum(1, keepdims=True)
    across = np.eye(v.shape[1]) - v[:, :, None] * v[:, None, :]
    return [*ws[:layer], first, high @ across, *ws[layer + 2 :]]


@pytest.fixture(scope="module")
def four_layers():
    """{name: (layers, X, whether they are trapped)}: nets that cancel above layer 1 or 2, and
    covariances there that are negative definite or not."""
    rng, widths = np.random.default_rng(6), (4, 3, 2, 3, 2)
    turn = np.linalg.qr(symmetric(rng, 4))[0]
    down = -turn @ np.diag([0.5, 0.8, 1.3, 2.0]) @ turn.swapaxes(1, 2)
    free = [np.linalg.svd(w, full_matrices=False) for w in normal(rng, widths)]
    free = [left @ right for left, _, right in free]
    one, two = (cancelled(free, k, unit(rng, widths[k + 1])) for k in (1, 2))
    # One positive direction of C[f_1], which W_2 does not see.
    mixed = np.repeat(np.diag([9.0, -1.0, -1.0, -1.0])[None], DRAWS, 0)
    low = np.linalg.eigh(free[0] @ mixed @ free[0].swapaxes(1, 2))[1][..., :2]
    blind = [two[0], low.swapaxes(1, 2), *two[2:]]
    cases = {
        "above layer 1": (one, down, True),
        "above layer 2": (two, down, True),
        "blind to the way out": (blind, mixed, True),
        "above layer 1, X positive": (one, -down, False),
        "above layer 2, X positive": (two, -down, False),
        "nothing cancels": (free, down, False),
    }
    return {name: (scaled(ws, False), X, trapped) for name, (ws, X, trapped) in cases.items()}


@pytest.mark.parametrize(
    "name",
    [
        *("above layer 1", "above layer 2", "blind to the way out"),
        *("above layer 1, X positive", "above layer 2, X positive", "nothing cancels"),
    ],
)
def test_traps_by_construction(four_layers, name):
    """What is trapped does not rise after a push, and what is not does where it could be."""
    weights, X, trapped = four_layers[name]
    assert (dl.trapped(tensors(*weights), *tensors(X)).numpy() == trapped).all()
    if name != "nothing cancels":
        rises = rise(np.random.default_rng(7), weights, X)
        assert rises.max() < 1e-8 if trapped else np.median(rises) > 1e-3


@pytest.mark.parametrize("nodes", [1, 2])
def test_exact_traps_without_tolerance(nodes):
    weights, X = trap(nodes)
    assert dl.trapped(tensors(*weights), *tensors(X), 0.0).all()
