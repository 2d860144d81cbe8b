"""Every check of the covariance operator: what holds, what fails as printed, that controls fail."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.special import gammaln

from clcore import ledger
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.layers import Layer, pair_weights, residue, weighted
from clcore.checks.dual_networks.operator import each_step
from clcore.checks.dual_networks.residue import weights as rw
from clcore.checks.dual_networks.residue.theorem4 import theta_by_loops
from clcore.ledger import findings, registry
from clcore.losses import anchors
from clcore.theory.operator import covariance_operator as co

pytestmark = pytest.mark.usefixtures("one_thread")


def test_residue_of_trained_nets_is_measured_not_claimed():
    records = list(registry.function("ddn/rem15")(6, 11))
    said = [r for r in records if r.sort != "definition"]
    assert [r.evidence for r in said] == ["exact", *["protocol"] * 7]
    least, share, size, hot, plain, _, _, warm = (r.measured for r in said)
    assert least > 1e-3 and share < 1
    book = ledger.Ledger("any")
    book.run([lambda draws, seed: records], 6, 11)
    register = findings.verdicts()
    assert ledger.verdict(book.records) == register["ddn/rem15"]
    assert size < 1 < plain  # it shrinks, and outgrows the operator, which shrinks faster
    assert hot > 1.5  # at temperature 2 it grows itself
    assert warm < 0.8  # normalised outputs at temperature 2: the operator wins


def test_the_weight_at_the_kink_is_a_half():
    r = torch.tensor([0.2, 0.3, 0.4], dtype=torch.float64)
    assert co.triplet_weight(r, 1e-3, 0.3).tolist() == pytest.approx([1.0, 0.5, 0.0], abs=1e-12)


def _gradients(x, bias):
    """Of f by all weights, one row per sample, by autograd; three layers."""
    generator = torch.Generator().manual_seed(5)
    x = torch.cat([x, torch.ones_like(x[:, :1])], 1) if bias else x
    shapes = ((80, x.shape[1]), (80, 80), (1, 80))
    weights = [
        torch.randn(s, dtype=torch.float64, generator=generator).requires_grad_() for s in shapes
    ]
    rows = []
    for v in x:
        out = weights[2] @ torch.relu(weights[1] @ torch.relu(weights[0] @ v))
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(out.sum(), weights)]))
    return torch.stack(rows)


@pytest.mark.parametrize(("bias", "rank"), [(False, 1), (True, 2)])
def test_without_biases_the_tangents_of_x_and_2x_are_parallel(bias, rank):
    x = torch.tensor([[1.0, -2.0, 0.5], [2.0, -4.0, 1.0]], dtype=torch.float64)
    J = _gradients(x, bias)
    assert torch.linalg.matrix_rank(J @ J.T, rtol=1e-9) == rank


@pytest.mark.parametrize(("depth", "name"), [(1, "InfoNCE"), (2, "triplet"), (3, "InfoNCE")])
def test_the_residue_of_the_library_is_that_of_its_definition(depth, name):
    """ddn/thm4, first and last layer, by loops over samples and views."""
    rng, widths, case = np.random.default_rng(depth), dw.DEPTHS[depth], rw.CASES[name](0.5)
    world, weights = dw.world(rng, 3, widths[0]), dw.weights(rng, 3, widths)
    for at in (Layer(world, weights, number) for number in sorted({1, depth})):
        expected = theta_by_loops(at, case)
        ours = residue(at, case, pair_weights(at, case)).numpy()
        size = np.abs(weighted(at, pair_weights(at, case)).numpy()).max()
        assert np.abs(ours - expected).max() < 1e-11 * size < np.abs(expected).max()


def _by_counts(e, H, tau):
    """`weights._pulls` of an orbit of five, whose points see themselves once and two others twice
    each: by the multinomial law of how many of the H - 1 others are where."""
    first, second = np.array([(i, j) for i in range(H) for j in range(H - i)]).T
    rest = H - 1 - first - second
    log = gammaln(H) - sum(gammaln(n + 1) for n in (first, second, rest))
    chance = np.exp(log + first * np.log(1 / 5) + (second + rest) * np.log(2 / 5))
    out = np.empty_like(e)
    for b, near, far in zip(range(len(e)), e[:, 0, 1], e[:, 0, 2], strict=True):
        total = first + second * near + rest * far
        mean = {v: (chance / (1 + v + total)).sum() for v in (1.0, near, far)}
        for s, k in product(range(5), repeat=2):
            v = (1.0, near, far, far, near)[(k - s) % 5]
            out[b, s, k] = H * v / tau * mean[v]
    return out


def test_pulls_of_many_negatives_on_an_orbit():
    """ddn/eq80: the integral, against counts and, for two, the library's sum over all negatives."""
    x, tau = rw._orbits(np.random.default_rng(0), 3), 0.5
    e = np.exp(-((x[:, :, None] - x[:, None]) ** 2).sum(-1) / (2 * tau))
    for H in (2, 64):
        assert np.abs(rw._pulls(e, H, tau) / _by_counts(e, H, tau) - 1).max() < 1e-9
    even, points = torch.full(x.shape[:2], 1 / 5, dtype=torch.float64), torch.from_numpy(x)
    world = co.World(points, even, points[:, :, None], torch.ones_like(even)[..., None])
    pull = -co.pulls(dw.infonce(tau).ours, points[:, :, None], world, 2).numpy() * 25
    off = ~np.eye(5, dtype=bool)  # what stands on the diagonal moves nothing
    assert np.abs(rw._pulls(e, 2, tau) / pull - 1)[:, off].max() < 1e-9


@pytest.mark.parametrize(
    ("tied", "off", "beta"), [(False, 1, -0.2), (True, 1, -0.2), (False, 2, -0.5), (True, 1, 0)]
)
def test_the_update_of_one_weight(tied, off, beta):
    """ddn/rem5, ddn/rem16: the smallest nets that a step turns around, by autograd and loops."""
    w, x = torch.ones((), dtype=torch.float64, requires_grad=True), (0.1, -0.1)
    other, loss = (w if tied else w.detach()), torch.zeros((), dtype=torch.float64)
    for s, i, j, k, m in product((0, 1), repeat=5):
        a, b, c = (x[u] + off * (1 - 2 * v) for u, v in ((s, i), (s, j), (k, m)))
        near, far = (w * a - other * b) ** 2 / 2, (w * a - other * c) ** 2 / 2
        loss = loss + (torch.logaddexp(-near, -far) + near + beta * near) / 32
    (slope,) = torch.autograd.grad(loss, w)
    assert each_step.smallest(tied, beta, off) == pytest.approx(-slope.item(), rel=1e-9)


@pytest.mark.parametrize("negatives", [1, 2, 3])
def test_the_exact_loss_has_as_many_operators_as_negatives(negatives):
    """f = w x, x = +-1, no augmentation; the first tower alone, by autograd."""
    points, half = torch.tensor([1.0, -1.0], dtype=torch.float64), 0.5
    w = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    held = w.detach()
    total = 0.0
    for x in points:
        for others in product(points, repeat=negatives):
            for y in others:  # r_+ is the distance of a sample to itself
                far, near = ((w * x - held * v) ** 2 / 2 for v in (y, x))
                xi = co.infonce_weight((held * (x - y)) ** 2 / 2, 0.5)
                total = total + half ** (1 + negatives) * xi * (near - far)
    (slope,) = torch.autograd.grad(total, w)
    xi = co.infonce_weight(2 * held**2, 0.5)
    theorem = xi / 2 * half * 4  # half the pairs differ, by 2
    torch.testing.assert_close(-slope, negatives * theorem * held)


def test_counterexample_to_the_order_without_offset():
    """x = +-(0, 1), views +-(1, 1), f = x: no spread of views, yet a residue."""
    x = torch.tensor([[0.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    v = torch.tensor([[[1.0, 1.0]], [[-1.0, -1.0]]], dtype=torch.float64)
    half = torch.full((2,), 0.5, dtype=torch.float64)
    world = co.World(x, half, v, torch.ones(2, 1, dtype=torch.float64))
    eye = torch.eye(2, dtype=torch.float64)
    K = (v[..., None, None] * eye).flatten(-3, -2)  # f_0 kron J^T with J = I
    xi = co.infonce_weight(co.half_distances(x, x), 0.5)

    def loss(positive, negatives):
        return anchors.infonce(positive, negatives, 0.5)

    theta = co.residue(K, co.pulls(loss, v, world), xi, world)
    gap = co.infonce_weight(torch.tensor([4.0, 2.0], dtype=torch.float64), 0.5)
    expected = (gap[0] - gap[1]) * torch.kron(torch.ones(2, 2, dtype=torch.float64), eye)
    assert co.view_variance(v, world).abs().max() == 0
    torch.testing.assert_close(theta, expected)
