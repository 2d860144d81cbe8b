"""Our steps beside recorded ones of the authors' programs, and what would not pass for them."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from clcore.experiments import golden, golden_replay, tree_contrast
from clcore.experiments import sparse_models as sm
from clcore.experiments import sparse_training as st
from clcore.experiments import token_sequences as ts
from clcore.experiments.golden_replay import Replay, difference, prepare, run
from clcore.theory.sparse import sparse_coding as sc
from clcore.theory.trees import pattern_net, tree_statistics

pytestmark = pytest.mark.usefixtures("one_thread")

LOADED = cache(golden.load)
TRAINED = [name for name, told in golden.index()["traces"].items() if told["steps"]]
WRONG = 1e-6  # what every change of a setting exceeds: a million times the tolerance


@pytest.mark.parametrize("name", TRAINED)
def test_ours_is_the_program(name: str) -> None:
    trace = LOADED(name)
    assert 10 <= len(trace.loss) <= 20
    replay = prepare(trace)
    end = replay.translate(trace.end)
    assert all((replay.start[n] != end[n]).any() for n in end)  # every tensor is trained
    found = difference(trace, replay)
    assert max(found.loss, found.weights) <= golden.tolerance(name)
    # An exception that has gone is one no longer, and has to leave the list.
    assert (max(found.loss, found.weights) > golden.TOLERANCE) == (name in golden.EXCEPTIONS)
    # What the site shows; rounding is another one on another machine.
    shown = golden.measured()[name]
    assert shown["steps"] == len(trace.loss)
    assert found.loss <= 30 * shown["loss"] + 1e-13
    assert found.weights <= 30 * shown["weights"] + 1e-13


@pytest.mark.parametrize("name", [n for n in TRAINED if n not in golden.EXCEPTIONS])
def test_another_rate_is_seen(name: str) -> None:
    trace = LOADED(name)
    replay = prepare(trace)
    assert difference(trace, replay, lr=1.01 * replay.config["lr"]).weights > WRONG


def by_definition(replay: Replay) -> Replay:
    """With the gradient that autograd finds of the loss, where it is written out."""
    return replace(replay, problem=replay.problem | {"gradient": None})


@pytest.mark.parametrize("name", [n for n in TRAINED if n.startswith("ncl-")])
def test_written_out_and_by_autograd_a_step_is_the_same(name: str) -> None:
    trace = LOADED(name)
    replay, steps = prepare(trace), len(trace.loss)
    written, found = (run(r, steps) for r in (replay, by_definition(replay)))
    assert np.allclose(written[0], found[0], rtol=1e-12)
    for param, ours in written[1].items():
        assert torch.allclose(ours, found[1][param], rtol=1e-9, atol=1e-11), param


# --------------------------------------------------------------------------------------- controls


def views(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable:
    """A control: both views of every batch changed."""

    def control(replay: Replay, patch: pytest.MonkeyPatch) -> tuple[Replay, dict]:
        return replace(replay, batches=lambda at, c: change(replay.batches(at, c))), {}

    return control


def setting(**changes: object) -> Callable:
    """A control: other values in the configuration."""
    return lambda replay, patch: (replay, changes)


def loss_of(module: object, change: Callable) -> Callable:
    """A control: `change` in place of the module's loss, called with that and its arguments."""

    def control(replay: Replay, patch: pytest.MonkeyPatch) -> tuple[Replay, dict]:
        before = module.loss
        patch.setattr(module, "loss", lambda z, *more: change(before, z, *more))
        return replay, {}

    return control


MASKS = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (2, 16, 12)))


def independent(pair: torch.Tensor) -> torch.Tensor:
    """Independent masks on the samples that the pair 2Dx, 2(I - D)x shows."""
    return 2 * MASKS[:, : pair.shape[1]] * pair.mean(0, keepdim=True)


def no_detach(replay: Replay, patch: pytest.MonkeyPatch) -> tuple[Replay, dict]:
    patch.setattr(torch.Tensor, "detach", lambda self: self)
    return by_definition(replay), {}


def other_sign(replay: Replay, patch: pytest.MonkeyPatch) -> tuple[Replay, dict]:
    released = sc.released_symmetric_relu
    patch.setitem(sm.ACTIVATIONS, "released", lambda u, b: released(u, -b))
    return by_definition(replay), {}


def other_turn(replay: Replay, patch: pytest.MonkeyPatch) -> tuple[Replay, dict]:
    def turns(c: dict) -> list[dict]:
        return [known | {"turn": 1 - known["turn"]} for known in st.turns(c)]

    return replace(replay, problem=replay.problem | {"turns": turns}), {}


def not_normalised(replay: Replay, patch: pytest.MonkeyPatch) -> tuple[Replay, dict]:
    return replace(replay, problem=replay.problem | {"project": None}), {}


def over_both_views(replay: Replay, patch: pytest.MonkeyPatch) -> tuple[Replay, dict]:
    before = ts.outputs
    patch.setattr(ts, "outputs", lambda *given, per_view: before(*given))
    return replay, {}


def no_floor(loss: Callable, outputs: torch.Tensor, *more: object) -> torch.Tensor:
    """ddn's output without the 1e-4 that is added to its norm."""
    return loss(1e8 * outputs, *more)


NCL = {
    "temperature": setting(temperature=0.0505),
    "independent masks": views(independent),
    "views exchanged": views(lambda pair: pair.flip(0)),
    "no detach": no_detach,
    "sign of the bias": other_sign,
    "turn": other_turn,
    "not normalised": not_normalised,
    "columns": setting(normalise="columns"),
    "rows": setting(normalise="rows"),
    "a full last batch": setting(n=64),
    "other turn of views": setting(mask="dependent"),
    "one turn of views": setting(mask="independent"),
    "NT-Xent": setting(loss_kind="nt-xent"),
    "Eq. 8": setting(loss_kind="contrastive"),
    "one of two views": views(lambda pair: pair[:1].expand(2, -1, -1)),
    "no direction": setting(unit=False),
    "no ReLU": setting(relu=False),
    "ReLU of the paper": setting(protocol="paper"),
}
NL = {
    "temperature": loss_of(ts, lambda loss, z, *more: loss(z, *more, 0.101)),
    "momentum": setting(momentum=0.891),
    "weight decay": setting(weight_decay=5.05e-3),
    "loss of the paper": loss_of(ts, lambda loss, z, kind, protocol: loss(z, kind, "paper")),
    "views exchanged": views(lambda pair: pair.flip(0)),
    "sign": loss_of(ts, lambda loss, z, *more: -loss(z, *more)),
    "BatchNorm over both views": over_both_views,
    "mean and variance": setting(norm="vanilla"),
    "neither": setting(norm="neither"),
    "norms exchanged": setting(zeta=0.25),
    "ReLU": setting(activation="relu"),
}
DDN = {
    "temperature": loss_of(tree_contrast, lambda loss, z, kind: loss(z, kind, 0.101)),
    "loss of the paper": setting(kind="paper"),
    "no floor": loss_of(tree_contrast, no_floor),
    "positive and negative exchanged": loss_of(
        tree_contrast, lambda loss, z, kind: loss(z[[0, 2, 1]], kind)
    ),
    "other leaves": views(lambda patterns: patterns ^ 1),
    "leaves -1 and 1": setting(signed=True),
}


CONTROLS = [
    ("ncl-simplified", NCL, ("no detach", "sign of the bias", "turn", "other turn of views")),
    ("ncl-simplified", NCL, ("a full last batch", "no direction", "no ReLU", "rows", "columns")),
    ("ncl-simplified-dependent", NCL, ("independent masks", "one turn of views")),
    ("ncl-simplified-rows-warm", NCL, ("not normalised", "columns")),
    ("ncl-simplified-columns", NCL, ("not normalised", "rows")),
    ("ncl-simplified-pred", NCL, ("no detach", "turn", "sign of the bias")),
    ("ncl-simplified-pred-bn", NCL, ("no detach", "turn", "a full last batch", "views exchanged")),
    ("ncl-simplified-pred-bn-dependent", NCL, ("independent masks", "one turn of views")),
    ("ncl-simplified-pred-columns-warm", NCL, ("not normalised", "rows")),
    ("ncl-simplified-ml-bn", NCL, ("no detach", "sign of the bias", "turn", "ReLU of the paper")),
    ("ncl-simclr", NCL, ("temperature", "sign of the bias", "Eq. 8", "one of two views")),
    ("ncl-simclr-dependent", NCL, ("temperature", "independent masks")),
    ("ncl-simclr-bn", NCL, ("temperature", "no ReLU", "ReLU of the paper")),
    ("ncl-simclr-bn-dependent", NCL, ("temperature", "independent masks", "Eq. 8")),
    ("ncl-simclr-linear", NCL, ("temperature", "Eq. 8")),
    ("ncl-simclr-orig", NCL, ("temperature", "sign of the bias")),
    ("ncl-simclr-orig-dependent", NCL, ("temperature", "independent masks")),
    ("ncl-simclr-alter-aug", NCL, ("temperature", "NT-Xent", "views exchanged")),
    ("ncl-simclr-alter-aug-bn", NCL, ("temperature", "NT-Xent", "views exchanged")),
    ("ncl-simsiam-bn", NCL, ("no detach", "sign of the bias", "a full last batch")),
    ("ncl-simsiam-bn-keep-0.2", NCL, ("no detach", "one of two views")),
    ("nl-relu-infonce", NL, ("temperature", "momentum", "weight decay", "loss of the paper")),
    ("nl-relu-infonce", NL, ("views exchanged", "sign")),
    ("nl-relu-quadratic", NL, ("momentum", "weight decay", "loss of the paper", "sign")),
    ("nl-relu-quadratic", NL, ("temperature", "views exchanged")),
    ("nl-leakyrelu-infonce", NL, ("temperature", "ReLU")),
    ("nl-linear-quadratic", NL, ("temperature", "ReLU")),
    ("nl-quadratic-infonce", NL, ("temperature", "ReLU")),
    ("nl-sigmoid-infonce", NL, ("temperature", "ReLU", "loss of the paper")),
    ("nl-bn-mean", NL, ("mean and variance", "neither", "BatchNorm over both views")),
    ("nl-bn-variance", NL, ("mean and variance", "neither", "BatchNorm over both views")),
    ("nl-bn-neither", NL, ("mean and variance", "BatchNorm over both views")),
    ("nl-bn-vanilla", NL, ("neither", "BatchNorm over both views")),
    ("nl-zeta-4", NL, ("norms exchanged", "temperature")),
    ("ddn-depth-3", DDN, tuple(DDN)),
    ("ddn-depth-4", DDN, tuple(DDN)),
    ("ddn-depth-5-width-8", DDN, tuple(DDN)),
]


@pytest.mark.parametrize(
    ("name", "control"),
    [
        pytest.param(name, known[control], id=f"{name}: {control}")
        for name, known, controls in CONTROLS
        for control in controls
    ],
)
def test_a_change_does_not_pass(
    name: str, control: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = LOADED(name)
    replay, changes = control(prepare(trace), monkeypatch)
    found = difference(trace, replay, **changes)
    assert not max(found.loss, found.weights) <= WRONG  # a NaN does not pass, either


# -------------------------------------------------------------------------------------- exceptions


@pytest.mark.parametrize("name", [n for n in golden.EXCEPTIONS if n.startswith("nl")])
def test_with_its_norms_in_float32_the_other_exception_is_none(name: str) -> None:
    """The program's 1/10 is one of float32: with that in ours there is no difference left."""
    trace = LOADED(name)
    replay = prepare(trace)
    setup = replay.problem["setup"]

    def rounded(key: torch.Tensor, c: dict) -> dict:
        made = setup(key, c)
        return made | {"norms": made["norms"].float().double()}

    found = difference(trace, replace(replay, problem=replay.problem | {"setup": rounded}))
    assert max(found.loss, found.weights) <= golden.TOLERANCE


def test_only_empty_views_without_batch_norm_differ() -> None:
    """Up to the first update nothing differs, and of the weights the biases differ most: to an
    empty view nothing else contributes."""
    empty = []
    for name in (n for n in TRAINED if n.startswith("ncl")):
        trace = LOADED(name)
        inside = np.arange(trace.settings["batch"]) < trace.batch["rows"][:, None, None]
        if ((trace.batch["views"] == 0).all(-1) & inside).any() and not trace.settings["bn"]:
            empty.append(name)
    assert empty == [n for n in golden.EXCEPTIONS if n.startswith("ncl")]
    trace = LOADED(empty[0])
    replay = prepare(trace)
    losses, ours = golden_replay.run(replay, len(trace.loss))
    assert abs(losses[0] / trace.loss[0] - 1) < golden.TOLERANCE
    theirs = replay.translate(trace.end)
    far = {n: float((ours[n] - theirs[n]).abs().max() / theirs[n].abs().max()) for n in ours}
    assert far["b"] > 3 * far["W"]


# ------------------------------------------------------------------------------------------ scores


@pytest.mark.parametrize("name", [n for n in TRAINED if n.startswith("ncl")])
def test_max_cosines(name: str) -> None:
    trace = LOADED(name)
    W, dictionary = (
        torch.from_numpy(a) for a in (trace.end["Wo.weight"], trace.more["dictionary"])
    )
    found = sc.summary(sc.max_cosine(W, dictionary))
    ours = [float(found[n]) for n in ("maximum", "median", "minimum")]
    np.testing.assert_allclose(ours, trace.more["score"], rtol=1e-13)
    assert len(set(ours)) == 3


@pytest.mark.parametrize("name", [n for n in TRAINED if n.startswith("nl")])
def test_matching(name: str) -> None:
    """The program rounds these to float32."""
    trace = LOADED(name)
    W = prepare(trace).translate(trace.end)["W"]
    patterns = torch.from_numpy(trace.more["patterns"].astype(np.int64))
    present = (patterns[:, :, None] == torch.arange(W.shape[-1])).any(0)
    linear = trace.settings["activation"] == "linear"
    ours = [float(ts.released_matching(W, chosen, linear)) for chosen in (present, ~present)]
    np.testing.assert_allclose(ours, trace.more["matching"], rtol=1e-6)
    if linear:  # without the absolute value it is another number
        assert abs(float(ts.released_matching(W, present, False)) / ours[0] - 1) > 1e-3


def correlation(states: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Of one latent's states [samples] and its group's values [samples, N]."""
    x, y = states - states.mean(), values - values.mean(0)
    return (x @ y) / np.sqrt((x @ x) * (y * y).sum(0))


def groups(depth: int) -> list[str]:
    """Paths of all latents, by depth and from the left: the order of the program."""
    return [format(i, f"0{d}b") if d else "" for d in range(depth) for i in range(2**d)]


@pytest.mark.parametrize("name", [n for n in TRAINED if n.startswith("ddn")])
def test_best_correlations_of_the_same_samples(name: str) -> None:
    """Before training: our groups' values, numpy's correlation, the program's samples."""
    trace = LOADED(name)
    depth = trace.settings["depth"]
    leaves = torch.from_numpy(trace.batch["leaves"][:, 0]).flatten(0, 1).double()
    states = trace.batch["latents"].reshape(len(leaves), -1).astype(float)
    params = golden_replay.tree_params(trace.start, depth)
    values = [group.numpy() for row in pattern_net.by_sample(params, leaves) for group in row]
    ours = [np.abs(correlation(states[:, i], v)).max() for i, v in enumerate(values)]
    assert len(ours) == len(groups(depth)) == 2**depth - 1
    np.testing.assert_allclose(ours, trace.more["best"], rtol=1e-9)
    # The sample is a few thousand of the law that ours is exact for.
    polarity = torch.from_numpy(trace.more["polarity"])
    exact = [
        float(tree_statistics.correlations(params, polarity, path).abs().max())
        for path in groups(depth)
    ]
    assert np.abs(np.array(exact) - trace.more["best"]).max() < 4 / len(leaves) ** 0.5


def test_best_correlations_over_every_outcome() -> None:
    """The program's statistics on a list of all outcomes are exact, and so are ours."""
    trace = LOADED("ddn-metric-every-outcome")
    params = golden_replay.tree_params(trace.start, 2)
    polarity = torch.from_numpy(trace.more["polarity"])
    ours, other = (
        [float(tree_statistics.correlations(params, rho, path).abs().max()) for path in groups(2)]
        for rho in (polarity, 1.01 * polarity)
    )
    np.testing.assert_allclose(ours, trace.more["best"], rtol=1e-12)
    assert np.abs(np.array(other) / ours - 1).max() > 1e-4
    with pytest.raises(ValueError, match="expected a trace of a training, this one has no step"):
        prepare(trace)


def test_the_command_tells_what_is_too_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    some = ["ddn-depth-3", "ddn-metric-every-outcome", "nl-zeta-10"]
    monkeypatch.setattr(golden, "names", lambda: some)
    assert golden_replay.command(write=False)
    shown = capsys.readouterr().out
    assert "ddn: 1 traces, 12 steps, loss " in shown and "nl-zeta-10: 1 traces" in shown
    monkeypatch.setattr(golden, "TOLERANCE", 0)
    assert not golden_replay.command(write=True)  # and nothing is written
    shown = capsys.readouterr().out
    assert "ddn-depth-3: farther from the program than 0" in shown
    assert "nl-zeta-10: farther" not in shown


def test_steps_that_are_compared_are_those_of_the_chapters() -> None:
    """The functions are the chapters' own, not copies for this test."""
    assert prepare(LOADED("ncl-simclr-bn")).problem is st.PROBLEM
    assert prepare(LOADED("nl-bn-mean")).problem is ts.PROBLEM
    assert prepare(LOADED("ddn-depth-5")).problem is tree_contrast.PROBLEM
