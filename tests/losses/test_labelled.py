"""Labels as positives: Khosla et al. 2020, Eq. 2 by loops, its slope by autograd, NT-Xent."""

import copy
import math
import pickle

import pytest
import torch

from clcore.losses import InfoNCE, SupCon, infonce, supcon

LABELS = torch.tensor([0, 1, 0, 2, 1, 0])


def views(n=6, d=3):
    z, noise = torch.randn(2, n, d, dtype=torch.float64)
    return z, z + 0.5 * noise


def loops(z, z2, labels, tau):
    """L_out of Eq. 2, the sum over the 2n anchors: one anchor and one positive after another."""
    rows, both = torch.cat([z, z2]).tolist(), [*labels.tolist()] * 2
    total = 0.0
    for i, a in enumerate(rows):
        others = [k for k in range(len(rows)) if k != i]

        def share(k, a=a):
            dot = sum(x * y for x, y in zip(a, rows[k], strict=True))
            return math.exp(dot / math.hypot(*a) / math.hypot(*rows[k]) / tau)

        positives = [k for k in others if both[k] == both[i]]
        below = sum(map(share, others))
        total -= sum(math.log(share(p) / below) for p in positives) / len(positives)
    return total


@pytest.mark.parametrize("tau", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("labels", [LABELS, torch.zeros(6, dtype=torch.int8), LABELS > 0])
def test_it_is_its_definition(labels, tau):
    z, z2 = views()
    wanted = loops(z, z2, labels, tau)
    assert supcon(z, z2, labels, tau, reduction="sum").item() == pytest.approx(wanted / 2)
    assert supcon(z, z2, labels, tau).item() == pytest.approx(wanted / 12, rel=1e-12)
    assert supcon(z, z2, labels, tau).item() != pytest.approx(supcon(z, z2, LABELS % 2, tau).item())


def test_without_a_label_twice_it_is_nt_xent():
    z, z2 = views()
    labels = torch.tensor([7, -3, 0, 12, 5, 1])
    assert SupCon(0.3)(z, z2, labels).item() == pytest.approx(InfoNCE(0.3)(z, z2).item(), rel=1e-13)
    alpha, shares = (
        SupCon(0.3).importance(z, z2, labels),
        InfoNCE(0.3).importance(z, z2),
    )
    own = torch.eye(12, dtype=torch.bool).roll(6, 0)
    torch.testing.assert_close(alpha.masked_fill(own, 0), shares)
    torch.testing.assert_close(alpha[own], -shares.sum(-1))


def test_its_importance_is_its_slope_and_sums_to_zero():
    """On unit vectors v, an anchor's value has the slope importance / tau in v_i . v_k."""
    v = torch.nn.functional.normalize(torch.cat(views()), dim=-1)
    alpha = SupCon(0.3).importance(v[:6], v[6:], LABELS)
    torch.testing.assert_close(alpha.sum(-1), torch.zeros(12, dtype=torch.float64))
    w = v.clone().requires_grad_()
    (slope,) = torch.autograd.grad(SupCon(0.3)(w[:6], w[6:], LABELS), w)
    push = (alpha + alpha.T) @ v / (12 * 0.3)
    push = push - (push * v).sum(-1, keepdim=True) * v  # what changes a norm changes no cosine
    torch.testing.assert_close(slope, push)
    assert slope.abs().max() > 1e-2


def test_batches_of_batches_vmap_and_second_derivatives():
    z, z2 = torch.randn(2, 4, 6, 3, dtype=torch.float64)
    labels = torch.stack([LABELS, LABELS.flip(0), torch.arange(6), LABELS * 0])
    alone = [supcon(*given, 0.4).item() for given in zip(z, z2, labels, strict=True)]
    assert supcon(z, z2, labels, 0.4).tolist() == pytest.approx(alone, rel=1e-13)
    mapped = torch.func.vmap(lambda a, b, c: supcon(a, b, c, 0.4))(z, z2, labels)
    assert mapped.tolist() == pytest.approx(alone, rel=1e-13)
    a, b = (x[0].clone().requires_grad_() for x in (z, z2))
    assert torch.autograd.gradgradcheck(lambda a, b: supcon(a, b, LABELS, 0.4), (a, b))


def test_edges_of_floating_point():
    z, z2 = views()
    assert SupCon(1e-3)(z, z2, LABELS).isfinite()
    half = SupCon(0.1)(z.half(), z2.half(), LABELS)
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(SupCon(0.1)(z, z2, LABELS).item(), rel=1e-2)
    with torch.autocast("cpu", torch.bfloat16):
        assert SupCon(0.1)(z.float(), z2.float(), LABELS).dtype == torch.float32
    z = z.clone()
    z[1] = 0
    z.requires_grad_()
    SupCon(0.5)(z, z2, LABELS).backward()
    assert z.grad.isfinite().all() and z.grad[1].abs().max() < 10


def test_it_is_kept_and_learned():
    z, z2 = views()
    module = SupCon(torch.nn.Parameter(torch.tensor(0.3, dtype=torch.float64)))
    for kept in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert kept(z, z2, LABELS).item() == module(z, z2, LABELS).item()
    module(z, z2, LABELS).backward()
    assert module.tau.grad.abs() > 1e-3
    assert SupCon(temperature=0.2).tau == 0.2 and "tau=0.2" in repr(SupCon(0.2))


def test_labels_are_integers_one_a_sample(unchecked_shapes):
    z, z2 = views()
    for bad, got in ((LABELS.float(), "torch.float32"), (LABELS.tolist(), "a list")):
        with pytest.raises(TypeError, match=rf"labels: expected a tensor of integers.* got {got}"):
            SupCon()(z, z2, bad)
    for bad in (LABELS[:5], torch.cat([LABELS, LABELS]), LABELS[None]):
        with pytest.raises(ValueError, match=r"labels: expected one per sample, \[6\], got \["):
            SupCon()(z, z2, bad)
    with pytest.raises(ValueError, match="n >= 2"):
        supcon(z[:1], z2[:1], LABELS[:1])
    with pytest.raises(ValueError, match="expected tau > 0"):
        SupCon(0)
    with pytest.raises(TypeError, match="got both"):
        SupCon(0.1, temperature=0.1)
    assert infonce(z, z2, 0.2, how="nt-xent").item() == pytest.approx(
        supcon(z, z2, torch.arange(6), temperature=0.2).item()
    )
