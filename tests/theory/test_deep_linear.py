"""Deep linear nets against loops and closed forms; the ascent; what is said of its limits."""

from itertools import pairwise

import pytest
import torch

from clcore import random
from clcore.losses import contrast
from clcore.theory import deep_linear as dl

F = torch.float64


def keys(n: int, seed: int = 0) -> torch.Tensor:
    return random.fold_in(random.key(seed), torch.arange(n))


def unit(*values: float) -> torch.Tensor:
    v = torch.tensor(values, dtype=F)
    return v / v.norm()


def aligned(*vectors: torch.Tensor) -> dl.Layers:
    return tuple(torch.outer(b, a)[None] for a, b in pairwise(vectors))


def test_products_by_hand():
    one = torch.tensor([[1.0, 2.0], [0.0, 1.0]], dtype=F)
    two = torch.tensor([[3.0, 1.0]], dtype=F)
    assert torch.equal(dl.below([one, two])[2], torch.tensor([[3.0, 7.0]], dtype=F))
    high = dl.above([one, two])
    assert torch.equal(high[0], torch.tensor([[3.0, 7.0]], dtype=F))
    assert torch.equal(high[1], two)
    assert torch.equal(high[2], torch.eye(1, dtype=F))
    x = torch.tensor([[1.0, 1.0]], dtype=F)
    assert dl.forward([one, two], x).item() == 10.0
    assert dl.energy([one, two], torch.diag(torch.tensor([1.0, -1.0], dtype=F))) == 9 - 49


def test_flow_is_half_the_gradient_of_the_energy():
    weights = [w.requires_grad_() for w in dl.starts(keys(3), (4, 3, 5, 2))]
    X = dl.with_spectrum(keys(3, 1), torch.tensor([1.0, 0.4, -0.2, -2.0], dtype=F).expand(3, -1))
    slopes = torch.autograd.grad(dl.energy(weights, X).sum(), weights)
    for ours, slope in zip(dl.flow(weights, X), slopes, strict=True):
        assert torch.allclose(2 * ours, slope, rtol=0, atol=1e-14)


def test_layer_covariances_are_those_of_the_activations():
    x, x2 = torch.randn(2, 6, 4, dtype=F, generator=torch.Generator().manual_seed(0))
    alpha = torch.rand(6, 6, dtype=F, generator=torch.Generator().manual_seed(1))
    weights = dl.starts(random.key(3), (4, 3, 2))
    X = contrast.contrastive_covariance(alpha, x, x2, x, x2)
    f, f2 = x, x2
    for layer, F_l in enumerate(dl.layer_covariances(weights, X)):
        if layer:
            f, f2 = f @ weights[layer - 1].T, f2 @ weights[layer - 1].T
        direct = contrast.contrastive_covariance(alpha, f, f2, f, f2)
        assert torch.allclose(F_l, direct, atol=1e-12)


def test_constraint_sets():
    for rows in (False, True):
        weights = dl.starts(keys(4), (5, 3, 4, 2), rows)
        for layer, w in enumerate(weights):
            norms = torch.linalg.matrix_norm(w)
            assert torch.allclose(norms, torch.ones(4, dtype=F))
            if rows and layer < 2:
                each = torch.full((4, w.shape[1]), w.shape[1] ** -0.5, dtype=F)
                assert torch.allclose(w.norm(dim=-1), each)
        noise = [random.normal(random.key(k), w.shape, F) for k, w in enumerate(weights)]
        moves = dl.tangent(weights, noise, rows)
        h = 1e-7  # the next term is h/2 times the squared length of a move
        moved = dl.normalise([w + h * m for w, m in zip(weights, moves, strict=True)], rows)
        for w, m, there in zip(weights, moves, moved, strict=True):
            assert ((there - w) / h - m).abs().max() < 1e-5


def test_spectrum_is_as_asked():
    values = torch.tensor([[-1.0, 0.5, 2.0], [0.0, 0.0, 1.0]], dtype=F)
    X = dl.with_spectrum(keys(2), values)
    assert torch.allclose(torch.linalg.eigvalsh(X), values, atol=1e-12)
    assert torch.equal(X[0].T.round(decimals=12), X[0].round(decimals=12))


@pytest.mark.parametrize("rows", [False, True])
def test_ascent_reaches_the_largest_eigenvalue(rows):
    spectrum = torch.tensor([1.0, 0.5, 0.2, -0.4], dtype=F).expand(30, -1)
    X = dl.with_spectrum(keys(30, 1), spectrum)
    start = dl.starts(keys(30, 2), (4, 5, 5, 3), rows)
    out = dl.ascend(start, X, rows=rows, tolerance=1e-9)
    assert (out.energy - 1).abs().max() < 1e-10
    assert torch.allclose(dl.energy(out.weights, X), out.energy, atol=1e-14)
    assert out.residual.max() <= 1e-9
    assert dl.misalignment(out.weights).max() < 1e-6
    uneven = dl.unevenness(out.weights)
    assert uneven.max() < 1e-6 if rows else uneven.median() > 0.05
    assert dl.curvature(out.weights, X, rows).max() < 1e-7


def test_a_run_does_not_see_its_neighbours():
    X = dl.with_spectrum(keys(12, 1), torch.tensor([1.0, 0.5, -0.4], dtype=F).expand(12, -1))
    start = dl.starts(keys(12, 2), (3, 2, 2, 2))
    whole = dl.ascend(start, X, steps=50)
    parts = dl.ascend(start, X, steps=50, chunk=5)
    alone = dl.ascend([w[7:8] for w in start], X[7:8], steps=50)
    for a, b in zip(whole.weights, parts.weights, strict=True):
        assert torch.allclose(a, b, atol=1e-12)
    assert torch.allclose(whole.energy[7:8], alone.energy, atol=1e-12)


def test_energy_never_falls():
    X = dl.with_spectrum(keys(8, 1), torch.tensor([1.0, -3.0, -9.0], dtype=F).expand(8, -1))
    start = dl.starts(keys(8, 2), (3, 2, 2, 2))
    values = [dl.energy(start, X)]
    values += [dl.ascend(start, X, steps=n, tolerance=0.0).energy for n in (1, 2, 5, 20)]
    assert (torch.stack(values).diff(dim=0) >= -1e-12).all()


def test_curvature_of_one_layer():
    # On the unit sphere of one row, the Hessian of w X w^T at e_k is 2 (X_jj - X_kk).
    X = torch.diag(torch.tensor([3.0, 1.0, -2.0], dtype=F))[None]
    at = torch.tensor([[[0.0, 1.0, 0.0]]], dtype=F)
    found = dl.curvature((at,), X)[0]
    assert torch.allclose(found, torch.tensor([-6.0, 0.0, 4.0], dtype=F), atol=1e-12)


def test_detectors():
    a, b, c = unit(1, 2, 2), unit(1, -1), unit(3, 4)
    good = aligned(a, b, c)
    assert dl.misalignment(good) < 1e-12 and dl.unevenness(good) < 1e-12
    assert dl.misalignment(tuple(-w for w in good)) < 1e-12
    assert dl.unevenness(aligned(a, c, b)) > 0.05
    other = (good[0], torch.outer(c, c)[None])
    assert abs(dl.misalignment(other).item() - (1 - (b @ c).item() ** 2) ** 0.5) < 1e-12
    for length in (0.5, 2.0):
        assert abs(dl.misalignment((length * good[0],)).item() - abs(length - 1)) < 1e-12
    thick = dl.normalise([torch.eye(2, dtype=F)[None]])
    assert abs(dl.misalignment(thick).item() - 0.5**0.5) < 1e-12


def test_traps():
    X = torch.diag(torch.tensor([1.0, -1.0], dtype=F))[None]
    down = torch.tensor([[[0.0, 1.0]]], dtype=F)
    out = torch.tensor([[[1.0], [0.0]]], dtype=F)
    across = torch.tensor([[[0.0, 1.0]]], dtype=F)
    trap = (down, out, across)
    assert dl.trapped(trap, X).item() and dl.energy(trap, X).item() == 0
    assert not dl.trapped(trap, -X).item()
    assert not dl.trapped((down, out, out.mT), X).item()
    top, distinct = dl.distinct_top(trap)
    assert top.item() == 0 and distinct.item()
    flat = dl.normalise([torch.eye(2, dtype=F)[None]] * 2)
    assert not dl.distinct_top(flat)[1].item()


def test_singular_path_follows_the_flow():
    X = torch.diag(torch.tensor([2.0, 1.0, 0.0], dtype=F))[None]
    start = dl.starts(keys(1), (3, 3, 3))
    path = dl.singular_path(start, X, 0.5, 400, every=200)
    assert path["first"].shape == (3, 1, 2)
    assert path["energy"][0] == dl.energy(start, X)
    step = dl.normalise([w + 0.25 * m for w, m in zip(start, dl.flow(start, X), strict=True)])
    assert torch.allclose(dl.singular_path(start, X, 0.5, 1)["energy"][1], dl.energy(step, X))
    assert abs(path["energy"][-1].item() - 2) < 1e-8
    assert path["second"][-1].max() < 1e-6 and path["first"][-1].min() > 1 - 1e-9


def test_adversary_at_high_temperature_is_uniform_alpha():
    x, x2 = torch.randn(2, 1, 8, 3, dtype=F, generator=torch.Generator().manual_seed(0))
    x2 = x + 0.1 * x2
    start = dl.starts(keys(1), (3, 3, 2))
    cold, hot, never = (
        dl.adversarial_ascent(start, x, x2, torch.tensor([t], dtype=F), 0.5, 50)
        for t in (0.05, 1e9, float("inf"))
    )
    uniform = torch.full((1, 8, 8), 1 / 7, dtype=F)
    X = contrast.contrastive_covariance(uniform, x, x2, x, x2)
    assert torch.allclose(never[1], X) and torch.allclose(hot[1], X, atol=1e-6)
    assert (cold[1] - X).abs().max() > 0.1


def test_errors(unchecked_shapes):
    a, b = torch.zeros(2, 3), torch.zeros(2, 4)
    with pytest.raises(ValueError, match="expected W_2 to have 2 columns, as many as W_1 has rows"):
        dl.energy([a, b], torch.eye(3))
    with pytest.raises(ValueError, match=r"expected widths n_0, \.\.\., n_L with L >= 1"):
        dl.starts(keys(1), (3,))
    with pytest.raises(ValueError, match="expected chunk >= 1"):
        dl.ascend([a[None]], torch.eye(3)[None], chunk=0)
