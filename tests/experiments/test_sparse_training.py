"""Updates against plain torch modules, and what a run must not see."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from clcore import random as cr
from clcore.experiments import sparse_training as st
from clcore.sweep.step import Problem, start

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = {"m": 6, "p": 5, "d": 3, "n": 10, "batch": 4}


def normal(seed, *shape):
    return cr.normal(cr.key(seed), shape, dtype=torch.float64)


def problem(dtype=torch.float64):
    functions = {n: f for n, f in st.PROBLEM.items() if n != "static"}
    return Problem(
        **functions,
        metrics=None,
        schedule=None,
        optimizer="sgd",
        static=st.STATIC,
        device=torch.device("cpu"),
        dtype=dtype,
    )


def begun(config):
    """One run: its settings as the functions see them, its parameters, its stream of keys."""
    part = start(problem(), [0], [config])
    values = {n: t[0] for n, t in part.fixed["values"].items()}
    params = {n: t[0] for n, t in part.state["params"].items()}
    return part.static | values, params, part.fixed["keys"][0]


def batch(c, key, t):
    """Both views of a step, without what is drawn ahead."""
    turn = st.turns(c)[t % c["per_epoch"]]
    return st._data(cr.fold_in(key, t), torch.tensor(t), c | turn).double()


class Layer(nn.Module):
    """Linear, BatchNorm and symmetric ReLU out of torch's modules."""

    def __init__(self, W, b, bn, kind):
        super().__init__()
        self.linear = nn.Linear(W.shape[1], W.shape[0]).double()
        self.linear.weight.data, self.linear.bias.data = W.clone(), b.clone()
        self.bn = nn.BatchNorm1d(W.shape[0]).double() if bn else None
        self.kind = kind

    def forward(self, x):
        b = self.linear.bias
        u = F.linear(x, self.linear.weight) if self.kind == "paper" else self.linear(x)
        u = self.bn(u) if self.bn else u
        if self.kind is None:
            return u
        if self.kind == "paper":
            return F.relu(u - b) - F.relu(-u - b)
        return F.relu(u) - F.relu(2 * b - u)


def encoder(params, i, c):
    kind = c["protocol"] if c["relu"] else None
    layers = [
        Layer(params["W" + s][i], params["b" + s][i], c["bn"], kind)
        for s in ("", "2")[: c["layers"]]
    ]
    return nn.Sequential(*layers)


def linear(W, b):
    made = nn.Linear(W.shape[1], W.shape[0]).double()
    made.weight.data, made.bias.data = W.clone(), b.clone()
    return made


def by_hand(config, steps):
    """Weights of the first layer of every network after some steps of torch.optim.SGD."""
    c, params, key = begun(config)
    nets = [encoder(params, i, c) for i in range(len(params["W"]))]
    top = linear(params["P"], params["q"]) if c["head"] else nn.Identity()
    between = Layer(params["R"], params["r"], True, "released") if "R" in params else nn.Identity()
    weights = [p for part in (*nets, top, between) for p in part.parameters()]
    optimizer = torch.optim.SGD(weights, lr=config["lr"])
    for t in range(steps):
        x, y = batch(c, key, t)
        optimizer.zero_grad()
        if config["updates"] == "together":
            out = [(top(net(w)), net(w).detach()) for net, w in zip(nets, (x, y), strict=True)]
            if config["unit"]:
                out = [[F.normalize(w, dim=1) for w in both] for both in out]
            (u, still), (v, rest) = out
            loss = ((u - rest) ** 2).sum(1).mean() + ((v - still) ** 2).sum(1).mean()
        elif len(nets) == 2:
            first = config["updates"] == "target first"
            learner, teacher = nets[:: -1 if (t % config["per_epoch"] % 2 == 0) == first else 1]
            if config["mask"] == "dependent" and learner is nets[1]:
                x, y = y, x  # the two views have not the same law: the online net keeps the first
            u, v = top(learner(x)), teacher(y).detach()
            if config["unit"]:
                u, v = F.normalize(u, dim=1), F.normalize(v, dim=1)
            loss = ((u - v) ** 2).sum(1).mean()
        elif config["loss_kind"] == "simsiam":
            u, v = between(nets[0](x)), between(nets[0](y))
            loss = -F.cosine_similarity(top(u), v.detach()).mean() / 2
            loss = loss - F.cosine_similarity(top(v), u.detach()).mean() / 2
        else:
            u, v = (F.normalize(top(nets[0](w)), dim=1) for w in (x, y))
            if config["loss_kind"] == "contrastive":
                logits, target = u @ v.T, torch.arange(len(u))
            else:
                z = torch.cat([u, v])
                logits = (z @ z.T).masked_fill(torch.eye(len(z), dtype=torch.bool), -torch.inf)
                target = torch.arange(len(z)).roll(len(u))
            loss = F.cross_entropy(logits / config["temperature"], target)
        loss.backward()
        optimizer.step()
        if config["normalise"] != "none":
            for one in nets:
                W = one[0].linear.weight.data
                W /= W.norm(dim=1 if config["normalise"] == "rows" else 0, keepdim=True)
    return torch.stack([n[0].linear.weight.data for n in nets]), float(loss.detach())


VARIANTS = [
    *((model, "paper", {}) for model in st.MODELS if "srelu" not in model),
    *((f"Simplified-{name}", "released", {}) for name in ("SimCLR", "SimSiam")),
    *((name, "released", {}) for name in ("NCL-srelu", "NCL-basic-2L", "CL-linear")),
    ("NCL-basic", "paper", {"normalise": "rows", "warm": 0.1}),
    ("NCL-srelu", "paper", {"normalise": "columns", "warm": 0.1, "keep": 0.75}),
    ("NCL-linear", "paper", {"unit": False}),
    ("CL-basic", "paper", {"mask": "dependent"}),
    ("NCL-pred", "paper", {"mask": "dependent"}),
    ("NCL-basic", "paper", {"updates": "target first"}),
    ("NCL-pred", "paper", {"updates": "together"}),
    ("NCL-basic", "paper", {"updates": "together", "mask": "dependent"}),
]


@pytest.mark.parametrize(("model", "protocol", "more"), VARIANTS)
def test_steps_are_those_of_torch_s_modules_and_optimiser(model, protocol, more):
    config = st.configuration(3, model, 0.4, protocol, lr=0.3, **(SMALL | more))
    steps = 4
    found = st.train(
        [config], **st.PROBLEM, steps=steps, record=[steps - 1], dtype=torch.float64, progress=False
    )
    W, loss = by_hand(config, steps)
    assert torch.allclose(found.params(0)["W"], W, atol=1e-9), (
        (found.params(0)["W"] - W).abs().max()
    )
    assert found.table.loss[found.table.step == steps - 1].item() == pytest.approx(loss, abs=1e-9)
    assert not torch.allclose(W, begun(config)[1]["W"], atol=1e-3)


def test_a_step_leaves_the_other_network_as_it_is():
    config = st.configuration(0, "NCL-pred", 0.4, lr=0.3, **SMALL)  # 3 batches an epoch
    before, moved = begun(config)[1], []
    for steps in (1, 2, 4):
        run = st.train([config], **st.PROBLEM, steps=steps, dtype=torch.float64, progress=False)
        now = run.params(0)
        same = {
            n: [torch.equal(now[n][i], before[n][i]) for i in (0, 1)]
            for n in before
            if n not in "Pq"
        }
        assert {tuple(v) for n, v in same.items() if n != "b" or steps > 1} <= {
            (False, True),
            (True, False),
        }
        assert not torch.equal(now["P"], before["P"])
        moved.append("target" if same["W"][0] else "online")
        before = now
    assert moved == ["online", "target", "online"]  # the next epoch begins with the online one


def test_an_epoch_sees_every_sample_once_or_drops_the_rest():
    for model, batches in (("NCL-basic", 3), ("CL-basic", 2)):
        c, _, key = begun(st.configuration(0, model, 0.4, **SMALL, keep=1.0))
        for epoch in (0, 1):
            seen = []
            for t in range(epoch * batches, (epoch + 1) * batches):
                seen += [int((r == c["x"]).all(1).nonzero()) for r in batch(c, key, t)[0]]
            assert len(set(seen)) == len(seen) == (10 if batches == 3 else 8)
        first = batch(c, key, 0)[0]
        assert not torch.equal(first, batch(c, key, batches)[0])


def bits(words, count):
    """The first bits of words of 64, the lowest first."""
    return [float(bit) for w in words for bit in reversed(format(int(w) % 2**64, "064b"))][:count]


@pytest.mark.parametrize("keep", [0.5, 0.375])
@pytest.mark.parametrize("mask", ["independent", "dependent"])
@pytest.mark.parametrize("model", ["NCL-basic", "CL-basic"])
def test_masks_of_a_minibatch_are_read_bit_by_bit(model, mask, keep):
    config = st.configuration(0, model, 0.4, mask=mask, keep=keep, **SMALL)
    c, _, key = begun(config)
    turns, epoch, seen = st.turns(c), 3, []
    ahead = st._ahead(key, torch.tensor(epoch), c)
    for at, turn in enumerate(turns):
        own = {name: value[at] for name, value in ahead.items()}
        step, rows = torch.tensor(epoch * len(turns) + at), own["samples"][: turn["rows"]]
        found = st._data(cr.fold_in(key, step), step, c | turn | own)
        sides = 1 if mask == "dependent" else 2
        drawn = torch.tensor(bits(own["words"], sides * 4 * 5)).reshape(sides, 4, 5)
        drawn = torch.cat([2 * drawn, 2 - 2 * drawn]) if sides == 1 else drawn
        assert torch.equal(found, drawn[:, : len(rows)].to(c["x"]) * c["x"][rows])
        assert torch.equal(found, st._data(cr.fold_in(key, step), step, c | turn))
        seen += rows.tolist()
    assert len(set(seen)) == len(seen) == (10 if model == "NCL-basic" else 8)


def test_a_run_does_not_depend_on_its_batch():
    for model in ("NCL-basic", "CL-basic"):
        configs = [st.configuration(s, model, pr, **SMALL) for s in (0, 1) for pr in (0.2, 0.5)]
        together = st.run(configs, 3, progress=False)
        alone = st.run(configs[2:3], 3, progress=False)
        for name in ("minimum", "norm", "loss"):
            ours = together.table.query("run == 2")[name].to_numpy()
            assert ours == pytest.approx(alone.table[name].to_numpy(), rel=1e-4)


@pytest.mark.parametrize("model", ["NCL-basic", "CL-basic"])
def test_at_the_paper_s_size_a_run_has_the_same_bits_in_every_stack(model):
    configs = [st.configuration(seed, model) for seed in range(4)]
    together = st.run(configs, 2, progress=False)
    for chosen in ([2], [3, 2, 0]):
        fewer, at = st.run([configs[i] for i in chosen], 2, progress=False), chosen.index(2)
        for name, weights in fewer.params(at).items():
            assert torch.equal(weights, together.params(2)[name]), (model, chosen, name)


def test_models_of_one_seed_start_from_one_encoder():
    first = [begun(st.configuration(5, m, 0.4, **SMALL))[1]["W"][0] for m in st.MODELS]
    assert all(torch.equal(w, first[0]) for w in first)
    a, b = begun(st.configuration(5, "NCL-basic", 0.4, **SMALL))[1]["W"]
    assert not torch.equal(a, b)


def test_starts_of_the_two_protocols():
    wide = SMALL | {"m": 200, "p": 40, "d": 10}
    paper = begun(st.configuration(0, "Simplified-SimSiam", 0.4, "paper", **wide))[1]
    released = begun(st.configuration(0, "Simplified-SimSiam", 0.4, "released", **wide))[1]
    assert paper["W"].std().item() == pytest.approx((40 * 10) ** -0.5, rel=0.05)
    assert paper["P"].std().item() == pytest.approx((40 * 10) ** -0.5, rel=0.05)
    assert not paper["b"].any() and not paper["q"].any() and "R" not in paper
    for name, fan_in in (("b", 40), ("P", 200), ("q", 200), ("R", 200), ("r", 200)):
        size = released[name].abs()
        assert size.max() <= fan_in**-0.5 and size.mean().item() == pytest.approx(
            fan_in**-0.5 / 2, rel=0.2
        )


def test_metrics_of_known_encoders():
    config = st.configuration(0, "NCL-basic-2L", 0.4, **SMALL | {"p": 6, "m": 6, "d": 3})
    c, params, _ = begun(config)
    M = c["dictionary"]
    params["W"][0] = torch.cat([M.T, M.T])
    params["W2"][0] = torch.eye(6, dtype=torch.float64).roll(1, 0)
    found = st.metrics(params, c)
    for name in ("minimum", "product_median", "maximum"):
        assert found[name].item() == pytest.approx(1)
    assert found["norm"].item() == pytest.approx(6**0.5)
    assert found["rank"].item() == pytest.approx(3)
    params["W"][0] = 0
    assert all(v == 0 for v in st.metrics(params, c).values())
    params["W"][0] = normal(50, 6, 1) @ normal(51, 1, 6)
    assert st.metrics(params, c)["rank"].item() == pytest.approx(1)


@pytest.mark.parametrize("kind", ["rows", "columns"])
@pytest.mark.parametrize("model", ["NCL-basic-2L", "CL-basic"])
def test_metrics_and_normalisation_are_numpy_s(model, kind):
    more = {"m": 5, "normalise": kind, "warm": 0.1, "warm_kind": kind}
    c, params, _ = begun(st.configuration(0, model, 0.4, **(SMALL | more)))
    found = st.metrics(params, c)
    W, M = params["W"][0].numpy(), c["dictionary"].numpy()
    layers = {"": W} | ({"product_": params["W2"][0].numpy() @ W} if "W2" in params else {})
    for name, w in layers.items():
        best = sorted(
            max(abs(row @ atom) / np.sqrt((row @ row) * (atom @ atom)) for row in w) for atom in M.T
        )
        for which, value in zip(("minimum", "median", "maximum"), best, strict=True):
            assert found[name + which].item() == pytest.approx(value, abs=1e-12)
    values = np.linalg.svd(W, compute_uv=False) ** 2
    assert found["norm"].item() == pytest.approx(np.sqrt(values.sum()))
    assert found["rank"].item() == pytest.approx(values.sum() ** 2 / (values**2).sum())
    raw, axis = params["W"].numpy(), {"rows": -1, "columns": -2}[kind]
    assert st._project(params, c)["W"].numpy() == pytest.approx(
        raw / np.sqrt((raw**2).sum(axis, keepdims=True)), abs=1e-12
    )


def test_nothing_is_nan_where_masks_drop_whole_samples():
    for model in ("NCL-linear", "NCL-basic-2L", "CL-srelu", "Simplified-SimSiam"):
        config = st.configuration(0, model, 0.4, keep=0.05, **SMALL)
        found = st.run([config], 4, progress=False)
        assert not found.diverged and found.table.notna().all(axis=None), model


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"model": "BYOL"}, "model: expected one of NCL-linear, .* got 'BYOL'"),
        ({"protocol": "print"}, "protocol: expected one of paper, released, got 'print'"),
        ({"pr": 0.0}, "pr: expected a probability, 0 < pr <= 1, got 0.0"),
        ({"keep": 0.0}, r"keep: expected 2\^-16 <= keep <= 1, got 0.0"),
        ({"batch": 11}, "batch: expected 2 <= batch <= n=10 samples, got 11"),
        ({"batch": 10}, r"one batch per epoch \(n=10, batch=10\) would never train the target"),
        ({"d": 6}, r"d: expected d <= p \(orthonormal columns\), got d=6, p=5"),
        ({"m": 0}, "m: expected an int >= 1, got 0"),
        ({"warm": -0.1}, "warm: expected a standard deviation >= 0, got -0.1"),
        ({"warm": 0.1, "m": 2}, "'rows' needs m >= d, got m=2, d=3"),
        ({"warm": 0.1, "warm_kind": "columns"}, "'columns' needs m = p, got m=6, p=5"),
        ({"warm_kind": "near"}, "warm: expected one of rows"),
        ({"normalise": "all"}, "normalise: expected none, rows or columns, got 'all'"),
        ({"temperature": 0.0}, "temperature: expected at least 0.025"),
        ({"model": "CL-basic", "unit": False}, "CL-basic is contrastive"),
        ({"model": "NCL-linear", "plain": True}, "plain: .* NCL-linear has none"),
        ({"latent": "dense"}, "latent: expected one of iid"),
        ({"noise": "loud"}, "noise: expected one of std"),
        ({"noise": -0.1}, "noise: expected a reading or a standard deviation >= 0, got -0.1"),
        ({"updates": "at once"}, "updates: expected one of by turns, .* got 'at once'"),
        ({"model": "CL-basic", "updates": "together"}, "updates: is for non-contrastive losses"),
        ({"mask": "both"}, "mask: expected one of independent"),
    ],
)
def test_errors_say_what_was_expected(change, text):
    with pytest.raises(ValueError, match=text):
        st.configuration(**({"seed": 0, "model": "NCL-basic", "pr": 0.4} | SMALL | change))


def test_runs_with_other_epochs_are_refused():
    configs = [st.configuration(0, m, 0.4, **SMALL) for m in ("NCL-basic", "CL-basic")]
    with pytest.raises(ValueError, match=r"batches per epoch differ \(2, 3\)"):
        st.run(configs, 2)
