"""What goes wrong inside the functions of a run, and slips in its keys: told with what to do."""

import functools
import logging
import re

import pytest
import torch
from small_runs import D, N, configs, data, loss, run
from torch import nn

from clcore import _paths
from clcore import random as cr
from clcore.nets.networks import mlp_init
from clcore.sweep import configs as cf

SIZE = "name those that set a size or choose a branch in static=(...)"
DRAW = "draw with clcore.random from the `key`"


def scaled(function):
    return lambda p, b, c: loss(p, b, c) * function(c)


@pytest.mark.parametrize("steps", [1, 8])  # untraced, traced
@pytest.mark.parametrize(
    ("wrong", "note"),
    [
        ({"init": lambda k, c: {"w": torch.randn(3)}}, DRAW),
        ({"init": lambda k, c: dict(nn.Linear(3, 1).named_parameters())}, DRAW),
        ({"init": lambda k, c: mlp_init(k, [D, c["width"], 2])}, SIZE),
        ({"init": lambda k, c: {"w": nn.Linear(c["width"], 1).weight}}, SIZE),
        ({"setup": lambda k, c: {"w": torch.randn(3)}}, DRAW),
        ({"data": lambda k, t, c: torch.randn(2, N, D)}, DRAW),
        ({"data": lambda k, t, c: cr.normal(k, (2, c["width"], D))}, SIZE),
        ({"data": lambda k, t, c: torch.zeros(c["width"], D)}, SIZE),
        ({"loss": scaled(lambda c: 1 if c["tau"] > 0.25 else 2)}, SIZE),
        ({"loss": scaled(lambda c: {0.5: 1}[c["tau"]])}, SIZE),
        ({"loss": scaled(lambda c: float(c["tau"]))}, SIZE),
        ({"loss": scaled(lambda c: c["tau"].numpy())}, SIZE),
        ({"loss": scaled(lambda c: nn.functional.dropout(torch.ones(3)).sum())}, DRAW),
        ({"metrics": lambda p, c: {"s": p["W1"][: c["width"]].sum()}}, SIZE),
        ({"project": lambda p, c: p if c["tau"] > 0 else {}}, SIZE),
        ({"schedule": lambda t, c: torch.ones(()) if c["tau"] > 0 else t}, SIZE),
        ({"ahead": lambda k, p, c: {"r": torch.randn(1, 2)}}, DRAW),
    ],
)
def test_an_error_of_a_function_says_what_to_do(wrong, note, steps):
    with pytest.raises(Exception) as caught:
        run(configs(2, width=3), steps=steps, **wrong)
    (said,) = caught.value.__notes__
    assert said.startswith(f"in {next(iter(wrong))}: ") and note in said


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"seed": 0, "lr": 0.1}, r"a list of dicts, one per run, got a dict; write \[config\]"),
        (iter(configs(1)), r"a list of dicts, one per run, got a list_iterator; write list\("),
        ([*configs(1), "tau"], "configs: run 1 is a str; expected a dict"),
    ],
)
def test_what_is_no_list_of_dicts_is_refused(unchecked_shapes, chosen, said):
    with pytest.raises(ValueError, match=said):
        run(chosen, steps=1)


def test_a_function_of_other_arguments_is_told_nothing_of_values():
    with pytest.raises(TypeError, match="2 positional arguments but 3 were given") as caught:
        run(configs(2), steps=1, loss=lambda p, b: p["W1"].sum())
    assert not getattr(caught.value, "__notes__", [])


def test_other_errors_come_as_they_are():
    def own(params, batch, config):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match=r"^mine$") as caught:
        run(configs(2), steps=1, loss=own)
    assert not getattr(caught.value, "__notes__", [])


def test_what_the_notes_advise_is_trained():
    net = nn.Sequential(nn.Linear(D, 4), nn.Tanh(), nn.Dropout(0.0))

    def init(key, c):
        shapes = {n: p.shape for n, p in net.named_parameters()}
        return {n: cr.normal(cr.fold_in(key, i), s) for i, (n, s) in enumerate(shapes.items())}

    def own(params, batch, c):
        z, z2 = (torch.func.functional_call(net.eval(), params, (x,)) for x in batch)
        return (z - z2).square().mean() * torch.where(c["tau"] > 0.25, 1, 2)

    both = run(configs(2, width=3), steps=3, init=init, loss=own, static=("width",))
    for r in range(2):
        alone = run(configs(2, width=3)[r : r + 1], steps=3, init=init, loss=own)
        torch.testing.assert_close(alone.params(0), both.params(r))


# ------------------------------------------------------------------------------------ slips of keys


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("momentumm", "momentum"),
        ("momentun", "momentum"),
        ("Momentum", "momentum"),
        ("weightdecay", "weight_decay"),
        ("weight-decay", "weight_decay"),
        ("weight_decy", "weight_decay"),
    ],
)
def test_a_slip_in_a_key_of_the_optimiser_is_warned_of(caplog, slip, meant):
    run(configs(2, **{slip: 0.9}), steps=1)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"no function names the key {slip!r}" in record.message and repr(meant) in record.message


def test_a_key_that_a_function_names_or_that_is_static_is_no_slip(caplog):
    def inside(params, batch, config):
        return (lambda: loss(params, batch, config) * config["momentumm"])()

    chosen = configs(2, momentumm=0.9)
    run(chosen, steps=1, loss=inside)
    run(chosen, steps=1, loss=functools.partial(inside))
    run(chosen, steps=1, static=("momentumm",))
    names = ["beta", "step", "moments", "eps2", "tau", "decay", "weights", "momentum"]
    cf.warn_of_slips(names, (data, loss, None))
    assert not caplog.records


def test_no_word_of_the_repository_would_be_taken_for_a_slip(caplog):
    words = set()
    for folder in ("clcore", "chapters", "benchmarks"):
        for file in (_paths.root() / folder).rglob("*"):
            if file.suffix in (".py", ".ipynb"):
                words |= set(re.findall(r"[\"'](\w+)\\?[\"']", file.read_text()))
    assert {"momentum", "weight_decay", "lr", "tau", "batch"} <= words
    cf.warn_of_slips(words, ())
    assert not caplog.records
