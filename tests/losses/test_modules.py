"""The modules of a training loop: their defaults, and what they refuse, in words."""

import inspect
import subprocess
import sys

import pytest
import torch

from clcore import losses
from clcore.losses import ContrastiveLoss, InfoNCE

Z = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
Z2 = Z.flip(1)
MODULES = (InfoNCE(), ContrastiveLoss("MINE"), ContrastiveLoss("MINE").importance)


def test_defaults_differ_from_the_functions_as_the_page_says():
    assert inspect.signature(InfoNCE).parameters["how"].default == "nt-xent"
    assert inspect.signature(losses.infonce).parameters["how"].default == "acl"
    mean, total = ContrastiveLoss("MINE")(Z, Z2), losses.family_loss(Z, Z2, losses.mine_pair())
    assert mean.item() == pytest.approx(total.item() / 4)
    for word in ('how="nt-xent"', 'how="acl"', "the mean over samples", "sum"):
        assert word in losses.__doc__
    assert "as functions" not in losses.__doc__.replace("As functions, for", "")


def test_the_gradient_of_the_module_has_one_nth_of_the_importance():
    z = Z.clone().requires_grad_()
    module = ContrastiveLoss("InfoNCE")
    (slope,) = torch.autograd.grad(module(z, Z2), z)
    (push,) = torch.autograd.grad(losses.energy(module.importance(z, Z2) / 4, z, Z2) / 2, z)
    torch.testing.assert_close(slope, -push)


def test_importance_is_detached():
    z, tau = Z.clone().requires_grad_(), torch.tensor(0.5, requires_grad=True)
    labels = torch.tensor([0, 1, 0, 1])
    for found in (
        InfoNCE(tau).importance(z, Z2),
        ContrastiveLoss(losses.infonce_pair(tau)).importance(z, Z2),
        losses.SupCon(tau).importance(z, Z2, labels),
    ):
        assert not found.requires_grad


@pytest.mark.parametrize("module", MODULES, ids=["InfoNCE", "ContrastiveLoss", "importance"])
def test_only_one_batch_of_outputs_is_taken(unchecked_shapes, module):
    image = torch.zeros(8, 3, 4, 4)
    wanted = (
        r"views of one shape \[n, d\], got \[8, 3, 4, 4\] and \[8, 3, 4, 4\]; row i .* Flatten"
        r" further dimensions, or use losses\.(infonce|family_loss|pairwise_importance) for"
    )
    with pytest.raises(ValueError, match=wanted):
        module(image, image)
    for z, z2 in ((Z[0], Z[0]), (Z, Z2[:3]), (Z, Z2[None])):
        with pytest.raises(ValueError, match=r"views of one shape \[n, d\]"):
            module(z, z2)
    for z, z2, name, got in (
        (Z.long(), Z2, "z", "torch.int64"),
        (Z, Z2.bool(), "z2", "torch.bool"),
        (Z.tolist(), Z2, "z", "a list"),
    ):
        wanted = rf"{name}: expected a tensor of floating-point outputs, got {got}; .*\.float\(\)"
        with pytest.raises(TypeError, match=wanted):
            module(z, z2)


@pytest.mark.parametrize("module", MODULES[:2], ids=["InfoNCE", "ContrastiveLoss"])
def test_what_is_refused_stands_in_no_transform_s_way(module):
    runs, runs2 = torch.stack([Z, 2 * Z]), torch.stack([Z2, Z2])
    mapped = torch.func.vmap(module)(runs, runs2)
    torch.testing.assert_close(mapped[1], module(2 * Z, Z2))
    slope = torch.func.vmap(torch.func.grad(module))(runs, runs2)
    torch.testing.assert_close(slope[0], torch.func.grad(module)(Z, Z2))


COMPILED = """
import torch
from clcore.losses import ContrastiveLoss, InfoNCE, SupCon
z, z2, labels = torch.eye(4, 3), torch.ones(4, 3), torch.tensor([0, 1, 0, 2])
for module, more in ((InfoNCE(), ()), (ContrastiveLoss("MINE"), ()), (SupCon(), (labels,))):
    whole = torch.compile(module, backend="eager", fullgraph=True)
    torch.testing.assert_close(whole(z, z2, *more), module(z, z2, *more))
"""


def test_the_modules_compile_into_one_graph():
    """In a process without the checks of annotations, which no compiler follows."""
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True)
    assert not done.returncode, done.stderr


def test_a_temperature_is_one_positive_number(unchecked_shapes):
    for bad in ("x", [0.5]):
        with pytest.raises(TypeError, match=r"expected tau to be a number .* got tau=.*positive"):
            InfoNCE(tau=bad)
    with pytest.raises(TypeError, match=r"expected eps to be a number"):
        InfoNCE(eps="x")
    for bad in (0, -0.1):
        with pytest.raises(ValueError, match=r"expected tau > 0, got tau="):
            InfoNCE(tau=bad)
    with pytest.raises(ValueError, match=r"tau to be one number, got a tensor of shape \[2\]"):
        InfoNCE(tau=torch.tensor([0.1, 0.2]))
    learned = InfoNCE(torch.nn.Parameter(torch.tensor(0.5)))
    assert [name for name, _ in learned.named_parameters()] == ["tau"]
    assert learned(Z, Z2).item() == pytest.approx(InfoNCE(0.5)(Z, Z2).item(), rel=1e-6)


def test_what_is_no_pair_is_refused_with_those_who_make_one(unchecked_shapes):
    called = (
        r"got the function infonce_pair, .*: infonce_pair\(\); infonce_pair, mine_pair, .*table1"
    )
    with pytest.raises(TypeError, match=called):
        ContrastiveLoss(losses.infonce_pair)
    with pytest.raises(TypeError, match=r"pair: expected a Pair .* got 3; infonce_pair, .*table1"):
        ContrastiveLoss(3)
    for call in (losses.pairwise_importance, losses.family_loss):
        with pytest.raises(TypeError, match=r"got 'InfoNCE', a name, which ContrastiveLoss alone"):
            call(Z, Z2, "InfoNCE")
        with pytest.raises(TypeError, match=called):
            call(Z, Z2, losses.infonce_pair)


@pytest.mark.parametrize("bad", [Z.long(), Z.to(torch.complex64), Z.numpy(), Z.tolist()])
def test_functions_name_what_is_no_output(unchecked_shapes, bad):
    wanted = r": expected a tensor of floating-point outputs, got .*; .*\.float\(\)"
    for call in (
        losses.infonce,
        lambda z, z2: losses.family_loss(z, z2, losses.mine_pair()),
        lambda z, z2: losses.pairwise_importance(z, z2, losses.infonce_pair()),
        lambda z, z2: losses.supcon(z, z2, torch.arange(4)),
        losses.intra_distances,
    ):
        with pytest.raises(TypeError, match="z" + wanted):
            call(bad, Z2)
        with pytest.raises(TypeError, match="z2" + wanted):
            call(Z, bad)
    with pytest.raises(TypeError, match="z" + wanted):
        losses.inter_distances(bad)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (losses.triplet_pair, "margin"),
        (losses.soft_triplet_pair, "margin"),
        (losses.lifted_pair, "margin"),
        (losses.modified_triplet_pair, "c"),
        (losses.linear_pair, "a"),
        (losses.linear_pair, "b"),
    ],
)
def test_a_setting_of_a_pair_is_a_number(unchecked_shapes, make, name):
    with pytest.raises(TypeError, match=rf"expected {name} to be a number .* got {name}='x'; give"):
        make(**{name: "x"})
    with pytest.raises(ValueError, match=rf"expected {name} to be a number, got {name}=nan; give"):
        make(**{name: float("nan")})
    make(**{name: -0.5})
    make(**{name: torch.tensor(2.0)})


def test_the_makers_that_are_named_are_all(unchecked_shapes):
    with pytest.raises(TypeError) as caught:
        ContrastiveLoss(3)
    makers = [name for name in losses.__all__ if name.endswith("_pair")]
    assert len(makers) == 8 and all(name in str(caught.value) for name in makers)


def test_the_variants_are_public():
    assert "VARIANTS" in losses.__all__
    for variant, settings in losses.VARIANTS.items():
        value = losses.variant_loss(Z, Z2, variant, **settings)
        assert value.item() == losses.variant_loss(Z, Z2, variant).item()
