"""Values per sample: what they sum to, what weights do, and what a sample's value is."""

import math
from dataclasses import replace

import pytest
import torch

from clcore.losses import (
    CONVENTIONS,
    ContrastiveLoss,
    InfoNCE,
    SupCon,
    family_loss,
    infonce,
    infonce_family,
    pairwise_importance,
    table1,
)

Z, Z2 = torch.randn(2, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
LABELS = torch.tensor([0, 1, 0, 2, 1, 0])
WEIGHTS = torch.tensor([1.0, 0, 2, 0.5, 0, 3], dtype=torch.float64)


@pytest.mark.parametrize("name", CONVENTIONS)
def test_infonce_of_each_sample(name):
    each = infonce(Z, Z2, 0.4, 0.7, name, reduction="none")
    assert each.shape == (6,)
    total = each.sum() if CONVENTIONS[name].reduction == "sum" else each.mean()
    assert total.item() == pytest.approx(infonce(Z, Z2, 0.4, 0.7, name).item(), rel=1e-13)
    for word, value in (("sum", each.sum()), ("mean", each.mean())):
        found = infonce(Z, Z2, 0.4, 0.7, name, reduction=word)
        assert found.item() == pytest.approx(value.item(), rel=1e-13)
    module = InfoNCE(0.4, 0.7, name, reduction="none")
    assert torch.equal(module(Z, Z2), each)
    assert module.how == replace(CONVENTIONS[name], reduction="none")
    assert torch.equal(infonce(Z[None], Z2[None], 0.4, 0.7, name, reduction="none")[0], each)


def test_a_sample_s_value_is_the_mean_of_its_two_anchors():
    """By hand: sample 4, first its first view as the anchor, then its second."""
    u, v = (x / x.norm(dim=-1, keepdim=True) for x in (Z, Z2))

    def anchor(a, positive, others):
        logits = [(a @ positive).item() / 0.4, *((a @ k).item() / 0.4 for k in others)]
        return math.log(sum(map(math.exp, logits))) - logits[0]

    others = [x[j] for x in (u, v) for j in range(6) if j != 4]
    by_hand = (anchor(u[4], v[4], others) + anchor(v[4], u[4], others)) / 2
    assert infonce(Z, Z2, 0.4, how="nt-xent", reduction="none")[4].item() == pytest.approx(by_hand)
    first = infonce(Z, Z2, 0.4, how="ncl", reduction="none")[4].item()
    assert first == pytest.approx(anchor(u[4], v[4], [v[j] for j in range(6) if j != 4]))


@pytest.mark.parametrize("pair", table1(), ids=lambda pair: pair.name)
def test_the_family_of_each_sample(pair):
    each = family_loss(Z, Z2, pair, "none")
    assert each.shape == (6,)
    assert each.sum().item() == pytest.approx(family_loss(Z, Z2, pair).item(), rel=1e-13)
    assert each.mean().item() == pytest.approx(family_loss(Z, Z2, pair, "mean").item(), rel=1e-13)
    assert torch.equal(ContrastiveLoss(pair, reduction="none")(Z, Z2), each)
    total = ContrastiveLoss(pair, reduction="sum")(Z, Z2)
    assert total.item() == pytest.approx(6 * ContrastiveLoss(pair)(Z, Z2).item(), rel=1e-13)
    gaps = [((Z[4] - Z2[4]) ** 2).sum() / 2 - ((Z[4] - Z[j]) ** 2).sum() / 2 for j in range(6)]
    own = pair.phi(sum(pair.psi(gap) for j, gap in enumerate(gaps) if j != 4))
    assert each[4].item() == pytest.approx(own.item(), rel=1e-12)


def test_weights_of_samples_weigh_the_rows_of_the_importance():
    """What sample weights mean in the family: row i of alpha times w_i."""
    z, pair = Z.clone().requires_grad_(), table1()[0]
    (slope,) = torch.autograd.grad((WEIGHTS * family_loss(z, Z2, pair, "none")).sum(), z)
    alpha = (WEIGHTS[:, None] * pairwise_importance(z, Z2, pair)).detach()
    gaps = ((z[:, None] - z) ** 2).sum(-1) / 2 - ((z - Z2) ** 2).sum(-1)[:, None] / 2
    (push,) = torch.autograd.grad((alpha * gaps).sum(), z)
    torch.testing.assert_close(slope, -push)


def test_a_large_batch_in_tiles_weighs_samples_too(monkeypatch):
    def slope():
        z, z2 = Z.clone().requires_grad_(), Z2.clone().requires_grad_()
        each = infonce(z, z2, 0.4, how="nt-xent", reduction="none")
        return each, *torch.autograd.grad((WEIGHTS * each).sum(), (z, z2))

    plain = slope()
    monkeypatch.setattr(infonce_family, "LARGE", 2)
    for found, expected in zip(slope(), plain, strict=True):
        torch.testing.assert_close(found, expected)


def test_supcon_of_each_sample():
    each = SupCon(0.4, reduction="none")(Z, Z2, LABELS)
    assert each.shape == (6,)
    assert SupCon(0.4)(Z, Z2, LABELS).item() == pytest.approx(each.mean().item(), rel=1e-13)
    total = SupCon(0.4, reduction="sum")(Z, Z2, LABELS)
    assert total.item() == pytest.approx(each.sum().item(), rel=1e-13)


def test_an_unknown_reduction():
    told = "reduction: expected one of sum, mean, none, got 'batchmean'"
    for make in (
        lambda: InfoNCE(reduction="batchmean"),
        lambda: ContrastiveLoss("MINE", reduction="batchmean"),
        lambda: SupCon(reduction="batchmean"),
        lambda: infonce(Z, Z2, reduction="batchmean"),
        lambda: family_loss(Z, Z2, table1()[0], "batchmean"),
    ):
        with pytest.raises(ValueError, match=told):
            make()
