"""The table of normalisations of InfoNCE, computed: by loops, and between the functions that it
names."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clcore.experiments import image_losses, sparse_models, token_sequences, tree_contrast
from clcore.losses import (
    CONVENTIONS,
    ContrastiveLoss,
    Convention,
    InfoNCE,
    anchors,
    contrast,
    cross_entropy,
    infonce,
    infonce_family,
    infonce_pair,
    minplayer,
    sources,
    table1,
    two_view,
)

SIZES = [(2, 3), (3, 1), (7, 4), (12, 5)]
CLOSE = {"rel": 1e-12, "abs": 1e-13}
OWN = Convention("inner", "both", "other", True, "mean")  # a row that the table does not have


def views(n: int, d: int, unit: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    z, noise = torch.randn(2, n, d, dtype=torch.float64)
    both = z, z + 0.5 * noise
    return tuple(F.normalize(x, dim=-1) for x in both) if unit else both


def loops(z, z2, tau: float, eps: float, how: Convention) -> float:
    """The definition, one anchor and one negative after another."""

    def similarity(a, b) -> float:
        if how.similarity == "distance":
            return -sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / 2
        s = sum(x * y for x, y in zip(a, b, strict=True))
        return s / math.hypot(*a) / math.hypot(*b) if how.similarity == "cosine" else s

    sides, n, total = (z.tolist(), z2.tolist()), len(z), 0.0
    for v in range(2 if how.anchors == "both" else 1):
        for i in range(n):
            near, share = similarity(sides[v][i], sides[1 - v][i]), eps
            for w in {"same": [v], "other": [1 - v], "all": [0, 1]}[how.negatives]:
                for j in range(n):
                    if j != i:
                        share += math.exp((similarity(sides[v][i], sides[w][j]) - near) / tau)
            total += math.log(share)
    total *= (tau if how.scaled else 1) / (2 if how.anchors == "both" else 1)
    return total / n if how.reduction == "mean" else total


@pytest.mark.parametrize("how", [*CONVENTIONS.values(), OWN], ids=[*CONVENTIONS, "own"])
@pytest.mark.parametrize(("n", "d"), SIZES)
def test_every_convention_is_its_definition(how, n, d):
    z, z2 = views(n, d)
    for tau, eps in ((0.6, 1.0), (1.3, 0.4), (0.2, 0.0)):
        found = infonce(z, z2, tau, eps, how).item()
        assert found == pytest.approx(loops(z, z2, tau, eps, how), **CLOSE)
        for other in ({"scaled": not how.scaled}, {"reduction": "mean", "scaled": not how.scaled}):
            assert infonce(z, z2, tau, eps, replace(how, **other)).item() != pytest.approx(found)


def _images(z, z2, tau):
    return image_losses.LOSSES["infonce"].value(z, z2, tau=tau)


def _tokens(reading):
    return lambda z, z2, tau: token_sequences.loss(torch.stack([z, z2]), "infonce", reading, tau)


FUNCTIONS = {
    "acl": contrast.infonce,
    "acl-mean": lambda z, z2, tau: minplayer.variant_loss(z, z2, "nce", tau=tau),
    "acl-both": _images,
    "cpc": sources.source_infonce,
    "simclr-first": lambda z, z2, tau: sources.source_simclr(z, z2, tau, second_views=False),
    "simclr": sources.source_simclr,
    "nt-xent": sparse_models.nt_xent,
    "ddn": image_losses.LOSSES["nce"].value,
    "ncl": sparse_models.contrastive,
    "nl": _tokens("raw"),
    "nl-unit": _tokens("paper"),
    "nl-released": _tokens("released"),
}
"""What the last column of the table names."""


def test_the_table_has_a_function_a_row():
    assert list(FUNCTIONS) == list(CONVENTIONS)


def agree(name: str, n: int, d: int, factor: float = 1.0) -> None:
    for tau in (0.3, 0.5, 1.7):
        z, z2 = views(n, d)
        z, z2 = 0.8 * z, 0.8 * z2
        value = factor * infonce(z, z2, tau, how=name)
        assert FUNCTIONS[name](z, z2, tau).item() == pytest.approx(value.item(), **CLOSE)


@pytest.mark.parametrize("name", CONVENTIONS)
@pytest.mark.parametrize(("n", "d"), SIZES)
def test_the_functions_that_the_table_names_are_of_the_family(name, n, d):
    agree(name, n, d)
    with pytest.raises(AssertionError):
        agree(name, n, d, 1 + 1e-9)


@pytest.mark.parametrize("name", CONVENTIONS)
def test_gradients_agree_too(name):
    def slope(loss):
        both = [x.clone().requires_grad_() for x in (z, z2)]
        loss(*both, 0.4).backward()
        return torch.stack([torch.zeros_like(x) if x.grad is None else x.grad for x in both])

    z, z2 = views(6, 3)
    found = slope(lambda a, b, tau: infonce(a, b, tau, how=name))
    torch.testing.assert_close(slope(FUNCTIONS[name]), found, rtol=1e-10, atol=1e-12)
    assert found.abs().max() > 1e-3


def test_the_docstring_is_the_table():
    rows = re.findall(r"^([a-z-]+) +(distance|cosine) .*$", infonce_family.__doc__, re.M)
    assert [name for name, _ in rows] == list(CONVENTIONS)
    for line in infonce_family.__doc__.splitlines():
        words = line.split()
        if len(words) > 4 and words[0] in CONVENTIONS and words[1] in ("distance", "cosine"):
            scaled = words[4] == "tau"
            row = Convention(words[1], words[2], words[3], scaled, words[5] if scaled else words[4])
            assert row == CONVENTIONS[words[0]]


def constants(n: int, d: int, wrong: float = 1.0) -> None:
    """The equalities below the table; `wrong` is a factor that is not in it."""
    for tau in (0.3, 0.5, 1.7):
        z, z2 = views(n, d)

        def value(name, z=z, z2=z2, tau=tau):
            return infonce(z, z2, tau, how=name).item()

        acl, both = value("acl"), (value("acl-mean") + value("acl-mean", z2, z)) / 2
        for other in (tau * value("cpc"), n * value("acl-mean"), value("nl")):
            assert acl == pytest.approx(wrong * other, **CLOSE)
        assert value("simclr") == pytest.approx(wrong * n * value("nt-xent"), **CLOSE)
        assert value("acl-both") == pytest.approx(wrong * both, **CLOSE)
        u = views(n, d, unit=True)
        acl = value("acl", *u)
        assert value("ddn", *u) == pytest.approx(wrong * value("nt-xent", *u), **CLOSE)
        for other in (
            value("nl-unit", *u),
            tau * value("simclr-first", *u),
            n * tau * value("nl-released", *u),
        ):
            assert acl == pytest.approx(wrong * other, **CLOSE)


@pytest.mark.parametrize(("n", "d"), SIZES)
def test_constants_between_the_conventions(n, d):
    constants(n, d)
    for wrong in (2.0, 1 / n, 1 + 1e-9):
        with pytest.raises(AssertionError):
            constants(n, d, wrong)


def test_no_constant_leads_from_one_kind_of_negatives_to_another():
    found = []
    for _ in range(4):
        z, z2 = views(5, 3)
        same, other, every = (
            infonce(z, z2, how=Convention("cosine", "both", kind)).item()
            for kind in ("same", "other", "all")
        )
        found.append((other / same, every / same))
    assert (np.ptp(found, axis=0) > 0.01).all()


@pytest.mark.parametrize(("n", "h"), [(1, 1), (5, 3)])
def test_versions_with_given_negatives(n, h):
    near, tau = torch.rand(n, dtype=torch.float64), 0.4
    far = torch.rand(n, h, dtype=torch.float64)
    by_hand = [
        math.log(1 + sum(math.exp((p - k) / tau) for k in row))
        for p, row in zip(near.tolist(), far.tolist(), strict=True)
    ]
    wanted = torch.tensor(by_hand, dtype=torch.float64)
    gaps = (near[:, None] - far) / tau
    for found in (
        anchors.infonce(near, far, tau),
        cross_entropy(-near, -far, tau),
        infonce_family.cross_entropy_of_gaps(gaps),
        infonce_family.cross_entropy_of_gaps(gaps, bounded=True),
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-13, atol=1e-14)
        assert not torch.allclose(found, tau * wanted)


def test_ncl_multiplies_by_tau_and_trees_take_one_negative():
    a, b, c = F.normalize(torch.randn(3, 6, 4, dtype=torch.float64), dim=-1)
    wanted = cross_entropy((a * b).sum(-1), (a * c).sum(-1, keepdim=True), 0.4).mean()
    ncl = two_view.contrastive(a, b, c[:, None], 1 / 0.4)
    tree = tree_contrast.loss(torch.stack([a, 3 * b, c / 7]), "paper", 0.4)
    assert ncl.item() == pytest.approx(wanted.item(), rel=1e-12)
    assert tree.item() == pytest.approx(wanted.item(), rel=1e-12)


def test_far_gaps_do_not_overflow():
    near, far = torch.tensor([0.0, 1e4]), torch.tensor([[1e4, 0.0], [0.0, 0.0]])
    assert cross_entropy(near, far).tolist() == [1e4, 0.0]
    assert infonce_family.cross_entropy_of_gaps(far - near[:, None]).tolist() == [1e4, 0.0]


def test_a_row_without_direction_has_cosine_zero():
    z, z2 = views(4, 3)
    z[1] = 0
    value = infonce(z, z2, 0.7, how="nt-xent").item()
    assert value == pytest.approx(sparse_models.nt_xent(z, z2, 0.7).item(), rel=1e-12)


def test_leading_dimensions_and_vmap():
    z, z2 = torch.randn(2, 3, 5, 4, dtype=torch.float64)
    for name in CONVENTIONS:
        alone = torch.stack([infonce(a, b, how=name) for a, b in zip(z, z2, strict=True)])
        torch.testing.assert_close(infonce(z, z2, how=name), alone, rtol=1e-13, atol=0)
        taus = torch.tensor([0.3, 0.5, 0.9], dtype=torch.float64)
        mapped = torch.func.vmap(lambda a, b, t, name=name: infonce(a, b, t, how=name))(z, z2, taus)
        assert mapped[1].item() == pytest.approx(alone[1].item(), rel=1e-13)


def test_modules_are_the_functions():
    z, z2 = views(5, 3)
    for name in CONVENTIONS:
        module = InfoNCE(0.3, 0.5, name)
        assert module(z, z2).item() == infonce(z, z2, 0.3, 0.5, name).item()
    assert "tau=0.3" in repr(InfoNCE(0.3)) and "MINE" in repr(ContrastiveLoss("MINE"))
    for pair in table1():
        wanted = contrast.family_loss(z, z2, pair).item() / 5
        for given in (pair, pair.name):
            module = ContrastiveLoss(given)
            assert module(z, z2).item() == pytest.approx(wanted, rel=1e-15)
            alpha = contrast.pairwise_importance(z, z2, pair)
            assert torch.equal(module.importance(z.requires_grad_(), z2), alpha)
            assert not module.importance(z, z2).requires_grad
            z = z.detach()
    nce = ContrastiveLoss(infonce_pair(0.3))(z, z2).item()
    assert nce == pytest.approx(InfoNCE(0.3, how="acl-mean")(z, z2).item(), rel=1e-13)


def test_errors_say_what_was_expected():
    z, z2 = views(3, 2)
    with pytest.raises(ValueError, match=r"convention: expected one of acl, .* got 'nce'"):
        InfoNCE(how="nce")
    with pytest.raises(ValueError, match="negatives: expected one of same, other, all, got 'no'"):
        Convention(negatives="no")
    with pytest.raises(ValueError, match=r"pair: expected one of InfoNCE, MINE.* got 'nce'"):
        ContrastiveLoss("nce")
    for call in (InfoNCE, lambda tau: cross_entropy(z[:, 0], z, tau)):
        with pytest.raises(ValueError, match=r"expected tau > 0, got tau=0"):
            call(0)
    with pytest.raises(ValueError, match="expected eps >= 0"):
        InfoNCE(eps=-1)
    for how in CONVENTIONS:
        with pytest.raises(ValueError, match="n >= 2 samples"):
            infonce(z[:1], z2[:1], how=how)


# ------------------------------------------------------------------------------------- importance


def shares(z, z2, tau: float, eps: float, how: Convention) -> torch.Tensor:
    """exp(s_k / tau) over the denominator, one anchor and one view after another; rows and columns
    are the first views and then the second."""
    views, n = torch.cat([z, z2]), len(z)
    if how.similarity == "cosine":
        views = views / views.norm(dim=-1, keepdim=True)

    def similarity(i, j) -> float:
        if how.similarity == "distance":
            return -((views[i] - views[j]) ** 2).sum().item() / 2
        return (views[i] @ views[j]).item()

    found = torch.zeros(2 * n, 2 * n, dtype=torch.float64)
    for i in range(2 * n if how.anchors == "both" else n):
        sides = {"same": [i // n], "other": [1 - i // n], "all": [0, 1]}[how.negatives]
        among = [v * n + j for v in sides for j in range(n) if j != i % n]
        positive = math.exp(similarity(i, (i + n) % (2 * n)) / tau)
        parts = {k: math.exp(similarity(i, k) / tau) for k in among}
        for k, part in parts.items():
            found[i, k] = part / (eps * positive + sum(parts.values()))
    return found


@pytest.mark.parametrize("how", [*CONVENTIONS.values(), OWN], ids=[*CONVENTIONS, "own"])
def test_importance_is_the_share_of_each_negative(how):
    z, z2 = views(5, 3)
    for tau, eps in ((0.6, 1.0), (1.3, 0.4), (0.2, 0.0)):
        found = InfoNCE(tau, eps, how).importance(z.requires_grad_(), z2)
        expected = shares(z.detach(), z2, tau, eps, how)
        rows, columns = found.shape
        assert rows == (10 if how.anchors == "both" else 5) and not found.requires_grad
        assert columns == (5 if (how.anchors, how.negatives) == ("first", "same") else 10)
        torch.testing.assert_close(found, expected[:rows, :columns], rtol=1e-11, atol=1e-14)
        assert not expected[rows:].any() and not expected[:, columns:].any()


def test_importance_in_acl_is_the_pairwise_importance():
    z, z2 = views(6, 3)
    found = InfoNCE(0.4, 0.3, "acl").importance(z, z2)
    torch.testing.assert_close(found, contrast.pairwise_importance(z, z2, infonce_pair(0.4, 0.3)))


@pytest.mark.parametrize("anchors", ["first", "both"])
@pytest.mark.parametrize("negatives", ["same", "other", "all"])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_importance_is_the_gradient_with_the_factor_that_its_page_gives(
    anchors, negatives, scaled, reduction
):
    """On inner products: an anchor is pulled to its other view as hard as it is pushed from all."""
    how, tau, n = Convention("inner", anchors, negatives, scaled, reduction), 0.7, 5
    both = torch.cat(views(n, 3)).requires_grad_()
    (slope,) = torch.autograd.grad(infonce(both[:n], both[n:], tau, how=how), both)
    alpha = torch.zeros(2 * n, 2 * n, dtype=torch.float64)
    found = InfoNCE(tau, how=how).importance(both[:n], both[n:])
    alpha[: found.shape[0], : found.shape[1]] = found
    factor = (1 if scaled else 1 / tau) / (n if reduction == "mean" else 1)
    factor /= 2 if anchors == "both" else 1
    other = torch.eye(2 * n, dtype=torch.float64).roll(n, 0)
    pull = alpha - alpha.sum(1, keepdim=True) * other
    torch.testing.assert_close(slope, factor * (pull + pull.T) @ both.detach())
