"""One node on points of any masses, which need not sum to one, where some pairs repel: steps of the
ascent, the numbers of Definition 3 and its decisions, by loops over pairs; what a search finds."""

import numpy as np
import pytest
import torch

from clcore.theory.one_layer import one_layer

pytestmark = pytest.mark.usefixtures("one_thread")
SLOPE, DRAWS = 0.2, 20
GATES = {
    "linear": np.ones_like,
    "relu": lambda u: np.where(u > 0, 1.0, 0.0),
    "leaky_relu": lambda u: np.where(u > 0, 1.0, SLOPE),
}


def tensors(*arrays):
    return tuple(map(torch.from_numpy, arrays))


def points(rng, n, d, low):
    """Points [draws, n, d], masses, weights of pairs of [low, 1], not symmetric."""
    x, p = rng.standard_normal((DRAWS, n, d)), rng.uniform(0.2, 1, (DRAWS, n))
    return x, p, rng.uniform(low, 1, (DRAWS, n, n))


def unit(rng, d):
    w = rng.standard_normal((DRAWS, d))
    return w / np.linalg.norm(w, axis=-1, keepdims=True)


def pairs(p, alpha, g):
    """C_alpha of features g [draws, n, q], [draws, q, q]: half the sum over pairs."""
    out = np.zeros((len(g), g.shape[-1], g.shape[-1]))
    for i in range(g.shape[1]):
        for j in range(g.shape[1]):
            weight, gap = p[:, i] * p[:, j] / 2 * alpha[:, i, j], g[:, i] - g[:, j]
            out += weight[:, None, None] * gap[:, :, None] * gap[:, None]
    return out


def operator(x, p, alpha, w, kind):
    """A(w), [draws, d, d]."""
    return pairs(p, alpha, x * GATES[kind](np.einsum("bnd,bd->bn", x, w))[..., None])


def across(w, v):
    """v without its part along w."""
    return v - (w * v).sum(-1, keepdims=True) * w


@pytest.mark.parametrize("kind", GATES)
def test_steps_of_the_ascent(kind):
    """A rate is of the trace of |C_alpha[x]|; starts count by their directions."""
    rng, rate = np.random.default_rng(0), 0.3
    x, p, alpha = points(rng, 5, 3, -0.9)
    w = v = unit(rng, 3)
    total = np.abs(np.diagonal(pairs(p, alpha, x), axis1=1, axis2=2)).sum(-1)
    for _ in range(2):
        push = np.einsum("bij,bj->bi", operator(x, p, alpha, v, kind), v)
        v = v + rate / total[:, None] * across(v, push)
        v = v / np.linalg.norm(v, axis=-1, keepdims=True)
    world = one_layer.World(*tensors(x, p, alpha))
    ours = one_layer.ascend(world, *tensors(3 * w), kind, rate, 2, SLOPE)
    assert ours.numpy() == pytest.approx(v, abs=1e-11)


EIGENVECTORS = ("first eigenvector", "last eigenvector")
PLACES = [(kind, "anywhere") for kind in GATES]
PLACES += [(kind, at) for kind in ("linear", "leaky_relu") for at in EIGENVECTORS]


@pytest.mark.parametrize(("kind", "at"), PLACES)
def test_numbers_and_decisions_of_definition_3(kind, at):
    """Residual, value, distance from the largest eigenvalue and gap; and which are small enough, on
    the scale of the diagonal of C_alpha[x]. Where ReLU opens few gates, eigenvectors are at right
    angles to points."""
    rng = np.random.default_rng(1)
    x, p, alpha = points(rng, 6, 4, -1.0)
    w = unit(rng, 4)
    if at != "anywhere":
        vectors = np.linalg.eigh(operator(x, p, alpha, w, kind))[1]
        w = np.ascontiguousarray(vectors[..., -1 if at == EIGENVECTORS[0] else 0])
    A, world = operator(x, p, alpha, w, kind), one_layer.World(*tensors(x, p, alpha))
    size = np.abs(np.diagonal(pairs(p, alpha, x), axis1=1, axis2=2)).sum(-1)
    values, image = np.linalg.eigvalsh(A) / size[:, None], np.einsum("bij,bj->bi", A, w)
    value, residual = (w * image).sum(-1) / size, np.linalg.norm(across(w, image), axis=-1) / size
    below, gap = values[:, -1] - value, values[:, -1] - values[:, -2]
    found = [v.numpy() / size for v in one_layer.maximality(world, *tensors(w), kind, SLOPE)]
    for mine, right in zip(found, (residual, value, below, gap), strict=True):
        assert mine == pytest.approx(right, abs=1e-12)
    off = 1.01 * max(np.median(np.maximum(residual, below)), 1e-6)
    apart = 1.01 * np.median(gap)
    for most, least in ((3 * off, apart / 3), (off, apart / 3), (3 * off, apart), (1e9, apart)):
        said = one_layer.locally_maximal(world, *tensors(w), kind, float(most), float(least), SLOPE)
        right = (np.maximum(residual, below) <= most) & (gap > least)
        assert said.numpy().tolist() == right.tolist()


@pytest.mark.parametrize("kind", ["linear", "leaky_relu"])
def test_the_top_eigenvector_is_turned_to_w(kind):
    rng = np.random.default_rng(2)
    x, p, alpha = points(rng, 6, 4, -1.0)
    w = unit(rng, 4)
    phi = np.linalg.eigh(operator(x, p, alpha, w, kind))[1][..., -1]
    phi = phi * np.sign((phi * w).sum(-1, keepdims=True))
    world = one_layer.World(*tensors(x, p, alpha))
    ours = one_layer.top_eigenvector(world, *tensors(w), kind, SLOPE)
    assert ours.numpy() == pytest.approx(phi, abs=1e-6)


def test_where_no_gate_is_open_nothing_is_locally_maximal():
    """A(w) = 0: all eigenvalues are tied."""
    rng = np.random.default_rng(3)
    x, p, _ = points(rng, 6, 4, 0.0)
    world = one_layer.World(*tensors(np.abs(x), p))
    assert not one_layer.locally_maximal(world, *tensors(-np.abs(unit(rng, 4))), gap=0.0).any()


def test_a_search_sends_starts_to_the_pattern_that_they_meet_most():
    """On the categorical model with equal chances; a start that meets none goes nowhere."""
    d, rng = 4, np.random.default_rng(4)
    model = one_layer.categorical(*tensors(np.full(d, 1 / d), np.eye(d)))
    starts = rng.standard_normal((60, d))
    starts /= np.linalg.norm(starts, axis=-1, keepdims=True)
    found = one_layer.search(model, *tensors(starts))
    met = np.bincount(starts[starts.max(1) > 0].argmax(1), minlength=d)
    assert len(found.w) == d
    assert np.bincount(found.w.numpy().argmax(1), found.count.numpy(), d).tolist() == met.tolist()


def test_vectors_that_are_the_same_are_one():
    order = np.random.default_rng(5).permutation([0, 0, 1, 2, 2, 2])
    found = one_layer.distinct(torch.eye(3)[order], 0.0)
    times = np.bincount(found.w.numpy().argmax(1), found.count.numpy(), 3)
    assert len(found.w) == 3 and times.tolist() == [2, 1, 3]
