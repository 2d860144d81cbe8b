"""Traces: the same bits in fewer and quicker calls, or the operators as they were."""

import torch

from clcore.sweep import lower, train
from clcore.sweep.lower import trace


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
