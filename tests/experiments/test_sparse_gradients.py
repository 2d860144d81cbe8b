"""The gradients written out, against those that autograd finds of the losses that define them."""

import pytest
import torch
from torch.func import grad_and_value, vmap

from clcore import random as cr
from clcore.experiments import sparse_gradients as sg
from clcore.experiments import sparse_models as sm
from clcore.experiments import sparse_training as st
from clcore.sweep.step import Problem, start

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = {"m": 6, "p": 5, "d": 3, "n": 10, "batch": 4}
CHANGES = [{}, {"mask": "dependent"}, {"unit": False}, {"keep": 0.1}]
CHANGES += [{"updates": "together"}, {"updates": "together", "mask": "dependent"}]
CHANGES += [{"plain": True}, {"m": 1}]
OF_TWO = ("unit", "updates")


def begun(configs):
    """Settings, set-up and stream of some runs; parameters away from where biases are 0."""
    functions = {n: f for n, f in st.PROBLEM.items() if n != "static"}
    problem = Problem(
        **functions,
        metrics=None,
        schedule=None,
        optimizer="sgd",
        static=st.STATIC,
        device=torch.device("cpu"),
        dtype=torch.float64,
    )
    part = start(problem, list(range(len(configs))), configs)
    params = {
        n: p + 0.3 * cr.normal(cr.fold_in(cr.key(5), i), p.shape, dtype=torch.float64)
        for i, (n, p) in enumerate(part.state["params"].items())
    }
    return part, params


@pytest.mark.parametrize("protocol", st.PROTOCOLS)
@pytest.mark.parametrize("model", st.MODELS)
def test_written_out_is_what_autograd_finds(model, protocol):
    seen = 0
    for change in CHANGES:
        if change.keys() & set(OF_TWO) and st.MODELS[model]["loss"] != "non-contrastive":
            continue
        if change.get("plain") and not st.MODELS[model]["relu"]:
            continue
        configs = [st.configuration(s, model, 0.4, protocol, **(SMALL | change)) for s in range(3)]
        part, params = begun(configs)
        keys, values = part.fixed["keys"], part.fixed["values"]
        for at, turn in enumerate(st.turns(part.static)):
            step, c = torch.tensor(at), part.static | turn
            views = vmap(
                lambda key, own, step=step, c=c: st._data(cr.fold_in(key, step), step, c | own)
            )(keys, values)
            defined, losses = vmap(
                lambda p, x, own, c=c: grad_and_value(lambda p: sm.loss_of(p, x, c | own))(p)
            )(params, views, values)
            before = views.clone()
            found, slopes = sg.gradient(params, views, c | values)
            assert torch.equal(views, before)
            assert torch.allclose(found, losses, atol=1e-12)
            assert slopes.keys() == params.keys()
            for name, slope in slopes.items():
                assert slope.shape == params[name].shape
                size = defined[name].abs().max() + 1e-3
                assert (slope - defined[name]).abs().max() < 1e-9 * size, (change, turn, name)
                seen += int((slope != 0).any())
    assert seen


def test_the_settings_of_a_step_count():
    part, params = begun([st.configuration(0, "NCL-basic", 0.4, **SMALL, mask="dependent")])
    first, second = st.turns(part.static)[:2]
    views = cr.normal(cr.key(3), (1, 2, 4, 5), dtype=torch.float64)
    one, other = (sg.gradient(params, views, part.static | t)[1]["W"] for t in (first, second))
    assert one[:, 0].any() and not one[:, 1].any()
    assert other[:, 1].any() and not other[:, 0].any()


@pytest.mark.parametrize("model", ["NCL-basic", "CL-basic"])
def test_what_is_drawn_ahead_is_what_a_step_draws_alone(model):
    part, _ = begun([st.configuration(s, model, 0.4, **SMALL, keep=0.3) for s in range(2)])
    values = part.fixed["values"]
    length = part.static["per_epoch"]
    for epoch in (0, 3):
        drawn = vmap(lambda key, own, e=epoch: st._ahead(key, torch.tensor(e), part.static | own))(
            part.fixed["keys"], values
        )
        for at, turn in enumerate(st.turns(part.static)):
            step, c = torch.tensor(epoch * length + at), part.static | turn
            mine = {n: t[:, at] for n, t in drawn.items()}

            def views(key, own, step=step, c=c):
                return st._data(cr.fold_in(key, step), step, c | own)

            ahead, alone = (vmap(views)(part.fixed["keys"], own) for own in (values | mine, values))
            assert torch.equal(ahead, alone)
        assert drawn["samples"].shape == (2, length, 4)
