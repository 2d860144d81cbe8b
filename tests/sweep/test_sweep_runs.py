"""How a sweep runs: stopped and resumed, compiled, on a GPU, with a line of progress."""

import functools
import shutil

import pandas as pd
import pytest
import torch
from small_runs import configs, metrics, run, same

from clcore.sweep import Stopped, engine
from clcore.sweep import checkpoint as checkpoints
from clcore.sweep.step import start

RESUMED = {"steps": 12, "record": 5, "metrics": metrics, "chunk": 2}


@pytest.fixture
def many():
    return configs(3, momentum=0.9, weight_decay=0.01)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_resuming_equals_not_stopping_bit_for_bit(many, tmp_path, monkeypatch, optimizer):
    if optimizer == "adam":
        many = configs(3, weight_decay=0.01)
    go = functools.partial(run, many, **RESUMED, optimizer=optimizer)
    file = tmp_path / "deep" / "sweep.pt"
    for _ in range(3):
        with pytest.raises(Stopped, match="with a checkpoint, call again to resume"):
            go(checkpoint=file, stop_after=0)
    assert torch.load(file, weights_only=True)["chunks"][0]["state"]["step"] == 3
    resumed, whole = go(checkpoint=file), go()
    assert same(resumed, whole)
    pd.testing.assert_frame_equal(resumed.table, whole.table)
    monkeypatch.setattr(engine, "trace", None)
    again = go(checkpoint=file)  # finished: nothing left to train
    assert same(again, whole) and again.ms_per_run_step != again.ms_per_run_step
    pd.testing.assert_frame_equal(again.table, whole.table)


def test_an_interrupt_leaves_a_checkpoint_in_any_group(many, tmp_path, monkeypatch):
    file, ticks = tmp_path / "sweep.pt", []

    def interrupted(self):
        ticks.append(0)
        if len(ticks) == 17:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(checkpoints.Keeper, "tick", interrupted)
        run(many, **RESUMED, checkpoint=file)
    chunks = torch.load(file, weights_only=True)["chunks"]
    assert [chunks[n]["state"]["step"].item() for n in (0, 1)] == [12, 5]
    begun = []

    def interrupted_start(*arguments):
        begun.append(0)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return start(*arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(engine, "start", interrupted_start)
        run(many, **RESUMED, checkpoint=file)
    assert torch.load(file, weights_only=True)["chunks"][1]["state"]["step"] == 5
    assert same(run(many, **RESUMED, checkpoint=file), run(many, **RESUMED))


def test_checkpoints_are_written_as_often_as_asked(many, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(checkpoints, "save", lambda path, mark, chunks: written.append(len(chunks)))
    run(many, **RESUMED, checkpoint=tmp_path / "a.pt", checkpoint_every=0)
    assert written == [1] * 12 + [2] * 13
    written.clear()
    run(many, **RESUMED, checkpoint=tmp_path / "a.pt")
    assert written == [2]


def test_a_damaged_or_foreign_checkpoint_is_reported_and_training_starts_over(
    many, tmp_path, caplog
):
    settings = {**RESUMED, "chunk": None}
    file, whole = tmp_path / "sweep.pt", run(many, **settings)
    with pytest.raises(Stopped):
        run(many, **settings, checkpoint=file, stop_after=0)
    kept = tmp_path / "kept.pt"
    shutil.copy(file, kept)
    damaged = file.read_bytes()[:-300]
    file.write_bytes(damaged)
    assert same(run(many, **settings, checkpoint=file), whole)
    assert len(caplog.records) == 1 and "training starts over" in caplog.text
    assert "cannot be read" in caplog.text and "\n" not in caplog.records[0].getMessage()
    old = tmp_path / "sweep.pt.old"
    assert old.name in caplog.text and old.read_bytes() == damaged  # it may be somebody's data
    for change in ({"steps": 13}, {"record": 4}, {"optimizer": "adam"}):
        shutil.copy(kept, file)
        caplog.clear()
        other = [{k: v for k, v in c.items() if k != "momentum"} for c in many]
        run(other if "optimizer" in change else many, **{**settings, **change}, checkpoint=file)
        assert "belongs to another sweep; training starts over" in caplog.text, change
        assert old.read_bytes() == kept.read_bytes(), change


def test_a_flipped_byte_in_a_checkpoint_is_found(tmp_path):
    file, value = tmp_path / "a.pt", torch.full((100,), 500.0)
    checkpoints.write(file, {"x": value})
    assert torch.equal(checkpoints.read(file, ["x"])["x"], value)
    content = bytearray(file.read_bytes())
    content[content.index(value.numpy().tobytes()) + 2] ^= 0x7F
    file.write_bytes(content)
    with pytest.raises(checkpoints.Unreadable, match=r"checksum of .*data/0"):
        checkpoints.read(file, ["x"])


def test_a_compiled_sweep_equals_the_plain_one():
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("no C++ compiler on this machine")
    chosen = configs(2, momentum=0.9)
    plain = run(chosen, steps=20, record=4)
    fast = run(chosen, steps=20, record=4, compile=True)
    assert fast.compiled is True
    for r in (0, 1):
        torch.testing.assert_close(
            fast.params(r)["W1"], plain.params(r)["W1"], rtol=1e-9, atol=1e-12
        )
    assert fast.table["loss"].to_numpy() == pytest.approx(plain.table["loss"], rel=1e-9)


def test_a_folder_is_no_checkpoint(tmp_path):
    with pytest.raises(ValueError, match="checkpoint: expected the path of a file, got the folder"):
        run(configs(1), steps=1, checkpoint=tmp_path)


@pytest.mark.parametrize("fault", ["raises", "is wrong"])
def test_a_compiler_that_fails_or_errs_is_named_and_not_used(monkeypatch, caplog, fault):
    def broken(step, **options):
        if fault == "raises":
            raise RuntimeError("no compiler found\nand a long story")
        return lambda *tensors: [t + 1 for t in step(*tensors)]

    monkeypatch.setattr(torch, "compile", broken)
    result = run(configs(2), steps=3, compile=True)
    why = {
        "raises": "not compiled: RuntimeError: no compiler found",
        "is wrong": "not compiled: RuntimeError: the compiled and the plain step disagree",
    }[fault]
    assert result.compiled.startswith(why) and why in caplog.text
    assert torch.equal(result.params(0)["W1"], run(configs(2), steps=3).params(0)["W1"])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA on this machine")
@pytest.mark.parametrize("compile", [False, True])
def test_cuda_gives_what_the_cpu_gives(compile):
    chosen = configs(4, momentum=0.9)
    here, there = run(chosen, steps=20), run(chosen, steps=20, device="cuda", compile=compile)
    assert there.compiled is compile and there.params(0)["W1"].device.type == "cuda"
    for r in range(4):
        torch.testing.assert_close(
            there.params(r)["W1"].cpu(), here.params(r)["W1"], rtol=1e-8, atol=1e-10
        )


def test_progress_is_one_line_on_stdout_or_none(capsys):
    run(configs(2), steps=3, progress=True)
    out = capsys.readouterr().out
    assert "2 runs: 100%" in out and out.count("\n") == 1
    run(configs(2), steps=3)
    assert capsys.readouterr().out == ""
