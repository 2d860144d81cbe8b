"""What a sweep computes: runs against plain loops, groups, divergence, projections, errors."""

import functools
import logging

import pytest
import torch
from small_runs import D, N, configs, data, info_nce, init, loss, metrics, run
from torch._subclasses.fake_tensor import FakeTensorMode

from clcore import random as cr
from clcore.nets.networks import mlp, mlp_init
from clcore.sweep import engine, train
from clcore.sweep.configs import group
from clcore.sweep.lower import trace
from clcore.sweep.optim import unit_columns, unit_filters, unit_frobenius, unit_norm, unit_rows

OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def torch_loop(config, steps, optimizer):
    """The plain way: one run, autograd and torch.optim."""
    _, start, stream = cr.split(cr.key(config["seed"]), 3)
    params = {n: w.double().requires_grad_() for n, w in init(start, config).items()}
    hyper = {
        k: config[k] for k in ("lr", "momentum", "weight_decay", "betas", "eps") if k in config
    }
    optimizer = optimizer(params.values(), **hyper)
    seen = []
    for step in range(steps):
        batch = data(cr.fold_in(stream, step), step, config)
        value = loss(params, batch, config)
        seen.append(value.item())
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    seen.append(loss(params, data(cr.fold_in(stream, steps), steps, config), config).item())
    return params, seen


@pytest.mark.parametrize(
    ("name", "hyper"),
    [
        ("sgd", {}),
        ("sgd", {"momentum": 0.9, "weight_decay": 0.02}),
        ("adam", {"weight_decay": 0.02, "betas": (0.8, 0.95), "eps": 1e-5}),
        ("adamw", {}),
        ("adamw", {"weight_decay": 0.5, "betas": (0.8, 0.95), "eps": 1e-5}),
        ("adamw", {"weight_decay": 0.0}),
    ],
)
def test_a_sweep_equals_a_plain_loop_with_torch_optim(name, hyper):
    chosen = configs(3, **hyper)
    if name != "sgd":
        chosen = [{**c, "lr": c["lr"] / 10} for c in chosen]
    else:  # momentum and decay differ between the runs too
        chosen = [
            {**c, **{k: v * (1 - 0.3 * r) for k, v in hyper.items()}} for r, c in enumerate(chosen)
        ]
    result = run(chosen, steps=60, optimizer=name, record=1)
    for r, config in enumerate(chosen):
        expected, seen = torch_loop(config, 60, OPTIMIZERS[name])
        for n, w in expected.items():
            torch.testing.assert_close(result.params(r)[n], w.detach(), rtol=1e-10, atol=1e-10)
        mine = result.table.query("run == @r")
        assert mine["step"].tolist() == list(range(61))
        assert mine["loss"].to_numpy() == pytest.approx(seen, rel=1e-10)
        assert (w.detach() - mlp_init(cr.key(0), [D, 6, 4])[n]).abs().max() > 1e-3


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_a_run_does_not_depend_on_its_company(dtype, rtol):
    chosen = configs(5, momentum=0.9)
    together = run(chosen, steps=25, dtype=dtype, metrics=metrics)
    for order in ([2], [4, 0, 3]):
        some = run([chosen[r] for r in order], steps=25, dtype=dtype, metrics=metrics)
        for place, r in enumerate(order):
            for n, w in together.params(r).items():
                assert w.dtype == dtype
                torch.testing.assert_close(some.params(place)[n], w, rtol=rtol, atol=rtol)
    chunked = run(chosen, steps=25, dtype=dtype, chunk=2)
    assert [runs for runs, _, _ in chunked.stacked] == [[0, 1], [2, 3], [4]]
    for r in range(5):
        torch.testing.assert_close(
            chunked.params(r)["W1"], together.params(r)["W1"], rtol=rtol, atol=rtol
        )


def test_runs_differ_by_seed_by_lr_and_by_their_own_numbers():
    base = {"seed": 1, "lr": 0.1, "tau": 0.2, "momentum": 0.0}
    others = [
        {**base, "seed": 2},
        {**base, "lr": 0.2},
        {**base, "tau": 0.3},
        {**base, "momentum": 0.5},
    ]
    result = run([base, base, *others], steps=5)
    first = result.params(0)["W1"]
    assert torch.equal(first, result.params(1)["W1"])
    for r in range(2, 6):
        assert (first - result.params(r)["W1"]).abs().max() > 1e-4


def test_the_table_has_the_recorded_steps_metrics_and_configurations():
    result = run(configs(2, kind="a"), steps=7, record=3, metrics=metrics)
    table = result.table
    assert list(table.columns) == [
        *("run", "seed", "lr", "tau", "kind", "step", "loss", "size", "tau_again", "diverged")
    ]
    assert table["run"].tolist() == [0] * 4 + [1] * 4
    assert table["step"].tolist() == [0, 3, 6, 7] * 2
    assert table["seed"].tolist() == [10] * 4 + [11] * 4
    assert table["tau_again"].to_numpy() == pytest.approx(2 * table["tau"])
    final = table.query("step == 7")["size"].to_numpy()
    assert final == pytest.approx([result.params(r)["W1"].norm().item() for r in (0, 1)])
    first = [
        mlp_init(cr.split(cr.key(10 + r), 3)[1], [D, 6, 4])["W1"].norm().item() for r in (0, 1)
    ]
    assert table.query("step == 0")["size"].to_numpy() == pytest.approx(first)
    assert run(configs(2), steps=7, record=[5, 2]).table["step"].tolist() == [0, 2, 5, 7] * 2
    assert run(configs(2), steps=7).table["step"].tolist() == [0, 7] * 2
    assert result.compiled is False and result.ms_per_run_step > 0 and result.seconds > 0


def test_runs_are_grouped_by_sizes_and_texts():
    def sized(key, config):
        return mlp_init(key, [D, config["width"], 4])

    def by_kind(params, batch, config):
        assert isinstance(config["kind"], str) and isinstance(config["flag"], bool)
        return loss(params, batch, config) * (2 if config["kind"] == "twice" else 1)

    chosen = configs(5, flag=True)
    for r, config in enumerate(chosen):
        config.update(width=(3, 6)[r % 2], kind="twice" if r == 3 else "once")
    go = functools.partial(run, init=sized, loss=by_kind, steps=3, static=("width",))
    result = go(chosen)
    assert [runs for runs, _, _ in result.stacked] == [[0, 2, 4], [1], [3]]
    assert [result.params(r)["W1"].shape[0] for r in range(5)] == [3, 6, 3, 6, 3]
    assert result.table["run"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert result.table["width"].tolist() == [3, 3, 6, 6, 3, 3, 6, 6, 3, 3]
    alone = go([chosen[3]])
    torch.testing.assert_close(alone.params(0)["W1"], result.params(3)["W1"], rtol=1e-12, atol=0)


def test_values_that_compare_equal_but_differ_in_kind_are_kept_apart():
    chosen = [{"a": 1}, {"a": True}, {"a": 1}, {"a": None}]
    assert group(chosen, ("a",), None) == [[0, 2], [1], [3]]
    assert group(chosen, ("a",), 1) == [[0], [2], [1], [3]]


def test_setup_is_drawn_once_per_run_and_reaches_every_function():
    def setup(key, config):
        return {"dictionary": cr.normal(key, (D, 3))}

    def from_dictionary(key, step, config):
        return cr.normal(key, (N, 3)) @ config["dictionary"].T

    def energy(params, x, config):
        return -(x @ params["w"]).square().mean() + config["dictionary"].sum() * 0

    result = train(
        configs(3),
        lambda key, config: {"w": config["dictionary"][:, 0]},
        from_dictionary,
        energy,
        4,
        setup=setup,
        metrics=lambda p, c: {"overlap": p["w"] @ c["dictionary"][:, 0]},
        progress=False,
    )
    for r in range(3):
        drawn = cr.normal(cr.split(cr.key(10 + r), 3)[0], (D, 3))
        assert torch.equal(result.setup(r)["dictionary"], drawn)
        start = result.table.query("run == @r and step == 0")["overlap"].item()
        assert start == pytest.approx(drawn[:, 0].square().sum().item(), rel=1e-5)


def test_detach_in_the_loss_stops_the_gradient():
    def stopped(params, batch, config):
        x, y = batch
        return info_nce(mlp(params, x, "relu"), mlp(params, y, "relu").detach(), config["tau"])

    result = train(configs(1), init, data, stopped, 1, dtype=torch.float64, progress=False)
    _, start, stream = cr.split(cr.key(10), 3)
    params = {n: w.double().requires_grad_() for n, w in init(start, {}).items()}
    value = stopped(params, data(cr.fold_in(stream, 0), 0, {}), {"tau": 0.2})
    for (n, w), g in zip(params.items(), torch.autograd.grad(value, params.values()), strict=True):
        torch.testing.assert_close(
            result.params(0)[n], (w - 0.02 * g).detach(), rtol=1e-12, atol=1e-14
        )


def test_a_schedule_scales_the_learning_rate_of_its_step():
    result = run(configs(1), steps=2, schedule=lambda step, config: (step == 0) * config["tau"])
    once = run([{**configs(1)[0], "lr": 0.02 * 0.2}], steps=1)
    torch.testing.assert_close(result.params(0)["W1"], once.params(0)["W1"], rtol=1e-13, atol=0)


@pytest.mark.parametrize(("steps", "traces"), [(engine.FEW, 0), (engine.FEW + 1, 1)])
def test_a_few_steps_are_trained_untraced_to_the_same_bits(monkeypatch, steps, traces):
    made = []
    monkeypatch.setattr(engine, "trace", lambda *given: made.append(0) or trace(*given))
    weights = run(configs(2), steps=steps).params(1)["W1"]
    assert len(made) == traces
    monkeypatch.setattr(engine, "FEW", steps - 1)
    assert torch.equal(weights, run(configs(2), steps=steps).params(1)["W1"])


def test_data_that_reads_the_step_as_a_number_is_trained_untraced(caplog):
    def by_number(key, step, config):
        x, y = data(key, step, config)
        return (x, y) if int(step) < 2 else (y, x)

    def by_tensor(key, step, config):
        x, y = data(key, step, config)
        return torch.where(step < 2, x, y), torch.where(step < 2, y, x)

    with caplog.at_level(logging.INFO):
        a = train(configs(2), init, by_number, loss, 6, progress=False)
    assert "the step runs untraced" in caplog.text
    b = train(configs(2), init, by_tensor, loss, 6, progress=False)
    torch.testing.assert_close(a.params(1)["W1"], b.params(1)["W1"])


@pytest.mark.skipif(torch.__version__.startswith("2.4."), reason="it makes several by itself")
def test_a_trace_makes_one_mode_of_fake_tensors_and_not_one_a_value(monkeypatch):
    made, init = [], FakeTensorMode.__init__

    def counted(self, *given, **named):
        made.append(self)
        init(self, *given, **named)

    monkeypatch.setattr(FakeTensorMode, "__init__", counted)
    step = trace(lambda a: [(2 * a).sin() + a, a.sum()], [torch.ones(3)])
    assert len(made) == 1 and torch.equal(step(torch.zeros(3))[0], torch.zeros(3))


def test_a_diverging_run_is_frozen_and_the_others_do_not_notice(caplog):
    def quartic(params, batch, config):
        return loss(params, batch, config) + params["W1"].pow(4).sum()

    grown = functools.partial(
        train, init=init, data=data, loss=quartic, dtype=torch.float64, progress=False
    )
    good = [{**c, "lr": 0.01} for c in configs(3)]
    bad = {"seed": 5, "lr": 1e6, "tau": 0.2}
    calm = grown(good, steps=30)
    assert calm.diverged == {} and not caplog.records
    result = grown([good[0], bad, *good[1:]], steps=30, record=1, metrics=metrics)
    for a, b in ((0, 0), (1, 2), (2, 3)):
        for n, w in calm.params(a).items():
            torch.testing.assert_close(result.params(b)[n], w, rtol=1e-12, atol=0)
    assert list(result.diverged) == [1]
    when = result.diverged[1]
    assert 0 < when < 10
    frozen = result.params(1)
    assert all(w.isfinite().all() for w in frozen.values())
    before = grown([bad], steps=when)  # the last finite state is the one before that step
    assert before.diverged == {} and torch.equal(before.params(0)["W1"], frozen["W1"])
    mine = result.table.query("run == 1")
    assert mine["diverged"].tolist() == [step > when for step in range(31)]
    assert mine.query("step > @when")["size"].nunique() == 1
    assert not result.table.query("run != 1")["diverged"].any()
    assert len(caplog.records) == 1
    assert "1 of 4 runs diverged" in caplog.text and f"(run 1 first, at step {when})" in caplog.text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_parameters_that_are_not_finite_count_as_divergence(value):
    def spoil(params, config):
        spoiled = params["W2"].flatten()
        spoiled = torch.where(torch.arange(len(spoiled)) == 3, value * config["tau"], spoiled)
        return {**params, "W2": spoiled.reshape(params["W2"].shape)}

    result = run(configs(2), steps=3, project=spoil)
    assert result.diverged == {0: 0, 1: 0} and result.params(0)["W2"].isfinite().all()


def test_a_run_that_recovers_stays_frozen():
    def once(params, batch, config):
        x, step = batch
        spoiled = torch.where((step == 2) & (config["tau"] > 0.25), torch.nan, 0.0)
        return loss(params, x, config) + spoiled  # the gradient stays finite

    result = run(
        configs(2),
        data=lambda key, step, config: (data(key, step, config), step),
        loss=once,
        steps=6,
    )
    assert result.diverged == {1: 2}
    torch.testing.assert_close(result.params(1)["W1"], run(configs(2), steps=2).params(1)["W1"])
    torch.testing.assert_close(result.params(0)["W1"], run(configs(2), steps=6).params(0)["W1"])


def test_projections_scale_to_norm_one_and_leave_zero_alone():
    w = cr.normal(cr.key(0), (4, 3, 2, 5), torch.float64)
    one = functools.partial(torch.testing.assert_close, rtol=1e-12, atol=0)
    one(unit_rows(w).norm(dim=-1), torch.ones(4, 3, 2, dtype=w.dtype))
    one(unit_columns(w).norm(dim=-2), torch.ones(4, 3, 5, dtype=w.dtype))
    one(unit_filters(w).flatten(1).norm(dim=1), torch.ones(4, dtype=w.dtype))
    one(unit_frobenius(w).norm(), torch.tensor(1.0, dtype=w.dtype))
    assert torch.equal(unit_norm(w), unit_frobenius(w))
    one(unit_rows(7 * w), unit_rows(w))
    w[1, 2, 0] = 0
    assert torch.equal(unit_rows(w)[1, 2, 0], torch.zeros(5, dtype=w.dtype))
    assert unit_rows(w).isfinite().all() and unit_frobenius(0 * w).eq(0).all()


def test_a_projection_follows_every_step_of_every_run():
    def project(params, config):
        return {**params, "W1": unit_rows(params["W1"]), "W2": unit_frobenius(params["W2"])}

    result = run(configs(3), steps=4, project=project)
    for r in range(3):
        assert (result.params(r)["W1"].norm(dim=1) - 1).abs().max() < 1e-12
        assert abs(result.params(r)["W2"].norm() - 1) < 1e-12
    once = run(configs(1), steps=1)
    torch.testing.assert_close(
        run(configs(1), steps=1, project=project).params(0)["W1"], unit_rows(once.params(0)["W1"])
    )


BASE = {"seed": 0, "lr": 0.1, "tau": 0.5}


@pytest.mark.parametrize(
    ("chosen", "settings", "text"),
    [
        ([], {}, "configs: expected at least one configuration, got none"),
        ([{"seed": 0}], {}, "every run needs 'lr'; run 0 has"),
        ([{"lr": 0.1}], {}, "every run needs 'seed'; run 0 has"),
        (
            [BASE, {**BASE, "beta": 1}],
            {},
            r"run 1 differs from run 0 in having or missing \['beta'",
        ),
        ([{**BASE, "lr": -0.1}], {}, "lr: expected a finite value >= 0, got -0.1"),
        ([{**BASE, "lr": float("nan")}], {}, "lr: expected a finite value >= 0, got nan"),
        ([{**BASE, "momentum": 1.0}], {}, "momentum: expected 0 <= value < 1, got 1.0"),
        ([{**BASE, "seed": 0.5}], {}, "seed of run 0: expected an int, got 0.5"),
        ([{**BASE, "learning_rate": 1}], {}, "'learning_rate' is not a key .* use 'lr'"),
        ([{**BASE, "nesterov": True}], {}, "'nesterov' is not supported"),
        ([{**BASE, "eps": 1e-3}], {}, "'eps' belongs to optimizer='adam', but this sweep has"),
        (
            [{**BASE, "betas": 0.9}],
            {"optimizer": "adam"},
            "betas of run 0: expected a tuple of two",
        ),
        ([{**BASE, "x": [1]}], {}, "'x' of run 0 is a list; expected a number, str, bool or None"),
        ([BASE], {"optimizer": "lion"}, "optimizer: expected one of sgd, adam, adamw, got 'lion'"),
        ([BASE], {"static": ("width",)}, "static: 'width' is no key of configs"),
        ([BASE], {"steps": 0}, "steps: expected at least 1, got 0"),
        ([BASE], {"record": 0}, "record: expected a number of steps >= 1, got 0"),
        ([BASE], {"record": [4]}, r"record: expected steps between 0 and 3, got \[4\]"),
        ([BASE], {"chunk": 0}, "chunk: expected at least 1 run, got 0"),
        (
            [BASE],
            {"static": "tau"},
            r"static: expected a list .* got 'tau'; write \('tau',\)",
        ),
        (
            [BASE],
            {"dtype": torch.int64},
            "dtype: expected torch.float32 .*, got torch.int64",
        ),
        ([{**BASE, "lr": "0.1"}], {}, "lr of run 0: expected a number, got '0.1'"),
        ([{**BASE, "lr": None}], {}, "lr of run 0: expected a number, got None"),
        ([{**BASE, "seed": 2**64}], {}, "seed of run 0: expected an int of 64 bits, got"),
        ([BASE], {"init": lambda k, c: {}}, "init: expected a dict .* got an empty one"),
        (
            [BASE],
            {"init": lambda k, c: {"w": 1.0}},
            "init: expected a dict of tensors; a value",
        ),
        (
            [BASE],
            {"init": lambda k, c: {"w": torch.ones(3, dtype=torch.int64)}},
            "init: expected floating-point parameters, got torch.int64 for 'w'; .* `setup`",
        ),
        (
            [BASE],
            {"project": lambda p, c: {"w": p["W1"]}},
            r"project: .* parameters, .* got \['w",
        ),
        ([BASE], {"project": lambda p, c: p["W1"]}, "project: .* all parameters, .* got Tensor"),
        ([BASE], {"metrics": lambda p, c: p["W1"].sum()}, "metrics: .* a dict .* got Tensor"),
        (
            [BASE],
            {"metrics": lambda p, c: {"s": 1.0}},
            "metrics: 's' is 1.0; .* torch.tensor",
        ),
        (
            [BASE],
            {"loss": lambda p, b, c: p["W1"]},
            r"loss: expected a scalar tensor, got shape \[6, 5\]",
        ),
        ([BASE], {"loss": lambda p, b, c: 1.0}, "loss: expected a scalar tensor, got float"),
        ([BASE], {"init": lambda k, c: k}, "init: expected a dict of tensors, got Tensor"),
        ([BASE], {"metrics": lambda p, c: p}, r"metrics: 'W1' is no scalar but \[6, 5\]"),
        (
            [BASE],
            {"metrics": lambda p, c: {"tau": p["W1"].sum()}},
            "metrics: 'tau' is taken by a column of the table; rename it",
        ),
    ],
)
def test_errors_say_what_is_wrong(chosen, settings, text):
    with pytest.raises(ValueError, match=text):
        run(chosen, **{"steps": 3, **settings})


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"chunk": 1.5}, "chunk: expected a whole number, at least 1 run; got 1.5"),
        ({"steps": 3.0}, "steps: expected a whole number, at least 1; got 3.0"),
        ({"record": 1.5}, "record: expected a number of steps, or a list of them, got 1.5"),
        ({"record": "all"}, "record: expected a number of steps, or a list of them, got 'all'"),
        ({"dtype": "float64"}, "dtype: expected torch.float32 or torch.float64, got 'float64'"),
    ],
)
def test_a_setting_of_another_type_is_named(unchecked_shapes, settings, text):
    with pytest.raises(ValueError, match=text):
        run([BASE], **{"steps": 3, **settings})


def test_a_device_that_is_not_there_is_named():
    name = f"cuda:{torch.cuda.device_count()}" if torch.cuda.is_available() else "cuda"
    with pytest.raises(ValueError, match=f"device '{name}' was asked for, but PyTorch"):
        run(configs(1), steps=1, device=name)
    with pytest.raises(KeyError, match="run 3 is not in this sweep, which has runs 0 to 0"):
        run(configs(1), steps=1).params(3)
