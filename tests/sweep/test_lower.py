"""Traces: the same bits in fewer and quicker calls, or the operators as they were."""

import torch

from clcore.sweep import lower, train
from clcore.sweep.ahead import Ahead
from clcore.sweep.lower import trace
from clcore.sweep.step import Problem, flat_step, losses, measured, start


def step(x, w):
    half = torch.where(x > 0, x, torch.zeros(()))[:, 1:]
    return [(half.detach() @ w).view(4, 2).sum(-1, keepdim=True), torch.relu(x).clone().add_(1)]


def example():
    torch.manual_seed(0)
    return [torch.randn(4, 4), torch.randn(3, 2)]


def test_a_trace_gives_the_same_bits_through_pytorch_s_own_functions():
    graph, given = trace(step, example()), example()
    assert all(torch.equal(a, b) for a, b in zip(graph(*given), step(*given), strict=True))
    targets = {node.target for node in graph.graph.nodes}
    assert torch.where in targets and "add_" in targets
    assert torch.ops.aten.where.self not in targets
    # What hands on its argument has gone: no detach, no view of a shape that it has already.
    assert not {t for t in targets if "detach" in str(t) or "view" in str(t)}


def test_where_a_function_of_the_name_does_something_else_all_operators_stay(monkeypatch, caplog):
    given = example()
    for names in ({"mm": "sub"}, {"mm": "add", "relu": "neg"}):
        monkeypatch.setattr(lower, "_OTHER_NAMES", names)
        graph = trace(step, given)
        assert all(torch.equal(a, b) for a, b in zip(graph(*given), step(*given), strict=True))
        assert torch.ops.aten.where.self in {node.target for node in graph.graph.nodes}


def test_turns_and_draws_ahead_are_those_of_every_step(tmp_path):
    """Two turns with other batch sizes and rates; what is drawn ahead holds the step's number."""

    def turns(c):
        return [{"size": 3, "sign": 1.0}, {"size": 2, "sign": -1.0}, {"size": 3, "sign": 1.0}]

    def ahead(key, period, c):
        return {"number": 3 * period + torch.arange(3)}

    def data(key, step, c):
        return torch.ones(c["size"]) * c["number"] * (c["number"] == step)

    def loss(params, x, c):
        return c["sign"] * params["w"] * x.sum() + 0 * c["seed"]

    def run(steps, **more):
        configs = [{"seed": s, "lr": lr} for s, lr in ((0, 0.5), (1, 1.0))]
        return train(
            configs, lambda key, c: {"w": torch.zeros(())}, data, loss, steps, ahead=ahead,
            turns=turns, progress=False, record=1, **more,
        )  # fmt: skip

    plain = run(40)
    w = -sum((3, -2, 3)[t % 3] * t for t in range(40))
    assert plain.params(1)["w"].item() == w and plain.params(0)["w"].item() == w / 2

    def gradient(params, x, c):
        slope = c["sign"] * x.sum(-1)
        return params["w"] * slope, {"w": slope}

    written = run(40, gradient=gradient)
    assert written.params(1)["w"].item() == w
    assert written.table.loss.tolist() == plain.table.loss.tolist()


def test_new_tensors_of_a_problem_lie_on_its_device_and_a_trace_needs_no_default(monkeypatch):
    """Functions of a run name no device. A trace names it for each tensor that it makes."""
    monkeypatch.setattr(lower, "_called_directly", lambda graph, _: graph)  # it compares values
    meta = torch.device("meta")

    def drawn(key, at, c):
        return {"x": at + torch.arange(3.0)[None]}

    problem = Problem(
        lambda key, c: {"w": torch.zeros(3) + c["size"]},
        lambda key, at, c: c["x"] + torch.ones(3) * c["own"],
        lambda params, x, c: (params["w"] * x * torch.full((3,), 2.0)).sum(),
        lambda params, c: {"length": (params["w"] * torch.ones(3)).norm()},
        None,
        lambda key, c: {"own": torch.ones(3)},
        None,
        *("adam", (), meta, torch.float32),
        ahead=drawn,
    )
    part = start(problem, [0, 1], [{"seed": s, "lr": 0.1, "size": 2.0} for s in (0, 1)])
    draws = Ahead(problem, part).at(17)
    run, state, fixed = flat_step(problem, part, {}, draws)
    made = [*draws.values(), *run(*state, *fixed), losses(problem, part, {}, draws)]
    made += measured(problem, part).values()
    assert {tensor.device for tensor in made} == {meta}
    graph = trace(run, [*state, *fixed])
    default = [node for node in graph.graph.nodes if node.kwargs.get("device", meta) != meta]
    assert graph is not run and not default
    assert {tensor.device for tensor in graph(*state, *fixed)} == {meta}
