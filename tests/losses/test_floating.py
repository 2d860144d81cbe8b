"""Losses at the edges of floating point: no direction, half precision, autocast, no temperature."""

import copy
import io
import pickle
import warnings

import pytest
import torch

from clcore import losses
from clcore.losses import anchors, floating, minplayer, two_view
from clcore.nets import encoders
from clcore.nets.resnet import Projector
from clcore.sweep.optim import directions

HALVES = (torch.float16, torch.bfloat16)
SOURCES = [name for name in losses.__all__ if name.startswith("source_")]
MODULES = {name: losses.InfoNCE(0.5, how=name) for name in losses.CONVENTIONS}
MODULES |= {pair.name: losses.ContrastiveLoss(pair) for pair in losses.table1()}
FUNCTIONS = {name: getattr(losses, name) for name in SOURCES}
FUNCTIONS["normalised_distance"] = two_view.normalised_distance
FUNCTIONS |= {
    f"variant {name}": (lambda z, z2, name=name: losses.variant_loss(z, z2, name))
    for name in losses.VARIANTS
}
EVERY = {**MODULES, **FUNCTIONS}
every = pytest.mark.parametrize("loss", EVERY.values(), ids=EVERY)


def views(n: int, d: int, dtype: torch.dtype = torch.float64, seed: int = 0):
    drawn = torch.randn(2, n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (drawn + torch.stack([torch.zeros(n, d), drawn[0]]) / 2).to(dtype)


def slopes(loss, *given: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    free = [x.detach().clone().requires_grad_() for x in given]
    value = loss(*free)
    return value, torch.autograd.grad(value.sum(), free, allow_unused=True, materialize_grads=True)


# ---------------------------------------------------------------------------------- no direction


@every
@pytest.mark.parametrize("length", [0.0, 1e-30, 1e-13])
def test_an_output_without_direction_has_a_slope_of_ordinary_size(loss, length):
    """As many rows, of either view; without the floor, slopes are up to 1e30."""
    for dtype in (torch.float32, torch.float64):
        z, z2 = views(6, 4, dtype)
        z[1], z2[4] = length * torch.eye(4)[0], length * torch.eye(4)[1]
        value, slope = slopes(loss, z, z2)
        assert value.isfinite().all()
        assert all(s.isfinite().all() and s.abs().max() < 100 for s in slope)


def test_directions_are_those_of_torch_above_its_floor():
    z = torch.cat([views(5, 3)[0], 2e-12 * torch.eye(3, dtype=torch.float64)])
    weight = views(8, 3)[1]
    ours = slopes(lambda x: (directions(x) * weight).sum(), z)
    theirs = slopes(lambda x: (torch.nn.functional.normalize(x, dim=-1) * weight).sum(), z)
    assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1][0], theirs[1][0])
    value, (slope,) = slopes(lambda x: (directions(x) * weight).sum(), 0 * z)
    assert value == 0 and torch.equal(slope, weight)


def test_cosine_zero_takes_part_as_a_negative():
    """Value and slope with a row of zeros, by the definition."""
    z, z2 = views(4, 3)
    z[0] = 0
    value, (slope, _) = slopes(losses.InfoNCE(0.7, how="ncl"), z, z2)
    unit, other = directions(z), directions(z2)
    assert value.item() == pytest.approx(
        torch.nn.functional.cross_entropy(unit @ other.T / 0.7, torch.arange(4)).item()
    )
    expected = (other.mean(0) - other[0]) / (4 * 0.7)  # all shares of the row are a quarter
    torch.testing.assert_close(slope[0], expected)


def test_equal_points_have_no_slope_in_the_lifted_loss():
    z, _ = views(4, 3)
    z[2] = z[1]
    value, (slope, other) = slopes(losses.source_lifted, z, z)
    assert value.isfinite() and slope.isfinite().all() and other.isfinite().all()


def test_nets_with_dead_outputs_stay_trainable():
    head, images = torch.zeros(64, 3), torch.rand(2, 8, 8)
    from clcore import random

    params = encoders.init_small_conv(random.key(0), out=3)

    def loss(head):
        return encoders.outputs({**params, "head": head}, images).sum()

    _, (slope,) = slopes(loss, head)
    assert slope.isfinite().all() and 0 < slope.abs().max() < 100
    projector = Projector(4, 5, 3)
    torch.nn.init.zeros_(projector[3].weight)
    torch.nn.init.zeros_(projector[3].bias)
    out = projector(torch.randn(6, 4))
    out.sum().backward()
    assert out.abs().max() == 0 and projector[3].weight.grad.abs().max() < 100


# -------------------------------------------------------------------------------- half precision


@every
@pytest.mark.parametrize("half", HALVES, ids=str)
def test_half_precision_is_computed_in_single(loss, half):
    z, z2 = views(7, 5, half)
    value, slope = slopes(loss, z, z2)
    exact, exact_slope = slopes(loss, z.float(), z2.float())
    assert value.dtype == torch.float32 and torch.equal(value, exact)
    for s, e in zip(slope, exact_slope, strict=True):
        assert s.dtype == half and torch.equal(s, e.to(half))


@every
@pytest.mark.parametrize("half", HALVES, ids=str)
def test_autocast_changes_no_loss(loss, half):
    z, z2 = views(7, 5, torch.float32)
    exact, exact_slope = slopes(loss, z, z2)
    with torch.autocast("cpu", dtype=half):
        assert (z @ z2.T).dtype == half
        free, other = (x.clone().requires_grad_() for x in (z, z2))
        value = loss(free, other)
        assert torch.is_autocast_enabled("cpu")
    assert torch.equal(value, exact)
    slope = torch.autograd.grad(value.sum(), (free, other), allow_unused=True)
    for s, e in zip(slope, exact_slope, strict=True):
        assert torch.equal(torch.zeros_like(e) if s is None else s, e)


@pytest.mark.parametrize("how", ["acl", "acl-both", "cpc", "ddn"])
def test_long_outputs_do_not_overflow_in_half_precision(how):
    """Squares of 300 exceed float16's largest number, 65504."""
    z, z2 = 300 + 20 * views(6, 9, torch.float32)
    loss = losses.InfoNCE(400.0, how=how)
    value, (slope, _) = slopes(loss, z.half(), z2.half())
    exact = loss(z.half().double(), z2.half().double()).item()
    assert value.item() == pytest.approx(exact, rel=1e-4) and exact > 0.1
    assert slope.isfinite().all()


def test_functions_of_distances_and_weights_take_half_precision():
    z, z2 = 100 * views(5, 4, torch.float16)
    single = (z.float(), z2.float())
    for f in (losses.inter_distances, lambda x: losses.cost(x, x)):
        assert torch.equal(f(z), f(single[0]))
    assert torch.equal(losses.intra_distances(z, z2), losses.intra_distances(*single))
    pair = losses.infonce_pair(1e4)
    for f in (
        losses.pairwise_importance,
        lambda a, b, p: losses.ContrastiveLoss(p).importance(a, b),
    ):
        assert torch.equal(f(z, z2, pair), f(*single, pair))
    alpha = torch.rand(5, 5).half()
    for f in (losses.energy, lambda w, a, b: losses.contrastive_covariance(w, a, b, b, a)):
        assert torch.equal(f(alpha, z, z2), f(alpha.float(), *single))
    costs = losses.cost(z, z2).clamp(0, 6e4).half()
    for f in (minplayer.entropy_weights, minplayer.inverse_weights, minplayer.square_weights):
        assert torch.equal(f(costs, 0.01), f(costs.float(), 0.01))
    assert losses.direct_weights(costs, 3.0).isfinite().all()
    near, far = costs[:, 0], costs[:, 1:]
    for f in (
        losses.cross_entropy,
        anchors.infonce,
        lambda a, b, t: anchors.soft_triplet(a, b[:, :1], t),
        lambda a, b, t: anchors.simple(a, b[:, :1], 3.0),
        lambda a, b, t: two_view.contrastive(b, b, b[:, None].flip(0), t),
    ):
        found = f(near, far, 0.1)
        assert torch.equal(found, f(near.float(), far.float(), 0.1)) and found.isfinite().all()


# ------------------------------------------------------------------------------ the temperature

TAKES_TAU = {
    **{
        name: (lambda z, z2, tau, name=name: losses.infonce(z, z2, tau, how=name))
        for name in losses.CONVENTIONS
    },
    "InfoNCE": lambda z, z2, tau: losses.InfoNCE(tau)(z, z2),
    "family": lambda z, z2, tau: losses.family_loss(z, z2, losses.soft_triplet_pair(tau)),
    "cross entropy": lambda z, z2, tau: losses.cross_entropy(z[:, 0], z2, tau).sum(),
    "distances": lambda z, z2, tau: anchors.infonce(z[:, 0], z2, tau).sum(),
    "soft triplet": lambda z, z2, tau: anchors.soft_triplet(z[:, 0], z2[:, :1], tau).sum(),
    "as ncl": lambda z, z2, tau: two_view.contrastive(z, z2, z2[:, None], tau),
    **{
        name: (lambda z, z2, tau, name=name: getattr(losses, name)(z, z2, tau=tau))
        for name in ("source_infonce", "source_simclr", "source_soft_triplet")
    },
    **{
        f"variant {name}": (lambda z, z2, tau, name=name: losses.variant_loss(z, z2, name, tau=tau))
        for name in losses.VARIANTS
    },
}


@pytest.mark.parametrize("loss", TAKES_TAU.values(), ids=TAKES_TAU)
def test_a_learned_temperature_is_positive_or_said_to_be_none(loss, unchecked_shapes):
    z, z2 = views(5, 3)
    assert loss(z, z2, torch.tensor(0.5, dtype=torch.float64)).item() == loss(z, z2, 0.5).item()
    for bad in (-0.01, 0.0):
        wanted = r"expected tau > 0, got tau=-?0\.0.*; one that is learned stays so as the exp"
        with pytest.raises(ValueError, match=wanted):
            loss(z, z2, torch.nn.Parameter(torch.tensor(bad)))
    # Side by side, the run that lost its temperature is NaN, and the others go on.
    taus = torch.tensor([0.5, -0.01, 0.0], dtype=torch.float64)
    mapped = torch.func.vmap(lambda tau: loss(z, z2, tau))(taus)
    assert mapped[0].item() == pytest.approx(loss(z, z2, 0.5).item(), rel=1e-12)
    assert mapped[1:].isnan().all()


def test_a_pair_is_asked_for_its_temperature_at_every_call():
    z, z2 = views(5, 3)
    tau = torch.nn.Parameter(torch.tensor(0.5))
    module = losses.ContrastiveLoss(losses.infonce_pair(tau))
    module(z, z2).backward()
    tau.data.fill_(-1)
    for call in (module, module.importance):
        with pytest.raises(ValueError, match="expected tau > 0"):
            call(z, z2)


def test_conditions_are_read_where_they_can_be(monkeypatch):
    yes, no = torch.tensor(True), torch.tensor(False)
    assert floating.known(yes) and not floating.known(no)
    seen = []
    torch.func.vmap(lambda x: seen.append(floating.known(x > 0)) or x)(torch.ones(2))
    assert seen == [False] and not floating.known(torch.ones((), dtype=torch.bool, device="meta"))
    for room, name in ((torch.compiler, "is_compiling"), (torch.jit, "is_tracing")):
        with monkeypatch.context() as patch:
            patch.setattr(room, name, lambda: True)
            assert not floating.known(yes)


def test_temperature_is_another_name(unchecked_shapes):
    z, z2 = views(5, 3)
    assert losses.InfoNCE(temperature=0.1).tau == 0.1 and losses.InfoNCE().tau == 0.5
    found = losses.infonce(z, z2, temperature=0.2)
    assert torch.equal(found, losses.infonce(z, z2, 0.2))
    assert torch.equal(losses.infonce(z, z2), losses.infonce(z, z2, 0.5))
    for call in (losses.InfoNCE, lambda *tau, **more: losses.infonce(z, z2, *tau, **more)):
        with pytest.raises(TypeError, match=r"expected tau or temperature, .* got both: tau=0\.1"):
            call(0.1, temperature=0.1)
        with pytest.raises(ValueError, match="expected tau > 0, got tau=-1"):
            call(temperature=-1)


# ------------------------------------------------------------------------------- kept and copied

KEPT = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "save": lambda x: torch.load(_saved(x), weights_only=False),
    "deepcopy": copy.deepcopy,
}


def _saved(x: object) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("loss", MODULES.values(), ids=MODULES)
@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
def test_a_net_is_kept_with_its_loss(loss, keep):
    z, z2 = views(5, 3)
    again = keep(torch.nn.ModuleDict({"net": torch.nn.Linear(3, 2), "loss": loss}))["loss"]
    assert torch.equal(again(z, z2), loss(z, z2))
    assert torch.equal(again.importance(z, z2), loss.importance(z, z2))


def test_every_function_of_a_pair_is_kept():
    x = views(3, 2)[0].exp()
    for pair in losses.table1(0.3, 0.2, 0.1, 1.5):
        again = pickle.loads(pickle.dumps(pair))
        for f in ("phi", "psi", "dphi", "dpsi"):
            assert torch.equal(getattr(again, f)(x), getattr(pair, f)(x))


# ------------------------------------------------------------------------------------- small print


@pytest.mark.parametrize("name", SOURCES)
def test_a_last_batch_that_is_no_batch_is_refused(name, unchecked_shapes):
    z, z2 = views(4, 3)
    loss = getattr(losses, name)
    for bad in ((z[:1], z2[:1]), (z, z2[:1]), (z, z2[:2])):
        with pytest.raises(ValueError, match=r"n >= 2 samples|two views of one shape"):
            loss(*bad)


def test_weights_that_underflow_are_told():
    z, z2 = 30 * views(6, 5)
    for call in (
        losses.InfoNCE(0.5, how="acl").importance,
        lambda a, b: losses.pairwise_importance(a, b, losses.infonce_pair(0.5)),
        losses.ContrastiveLoss("N+1 Tuplet").importance,
    ):
        with pytest.warns(UserWarning, match=r"weights underflow: .* more than \de-\d+.*raise tau"):
            assert call(z / 2, z / 2).sum() < 1e-15
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses.InfoNCE(0.5).importance(z, z2)  # cosines
        losses.ContrastiveLoss("InfoNCE").importance(z / 30, z2 / 30)
        losses.ContrastiveLoss("MINE").importance(z, z)
        far = losses.ContrastiveLoss("Lifted Structured").importance(z, z)  # a hinge, satisfied
        assert far.abs().max() == 0
