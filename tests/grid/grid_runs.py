"""Functions that workers import: small sweeps, and some that go wrong."""

import os
import signal
import time
from pathlib import Path

import pandas as pd
import torch

from clcore import random
from clcore.sweep import train


def _init(key, c):
    return {"w": random.normal(key, (3,)) * c["scale"]}


def _data(key, step, c):
    return random.normal(key, (8, 3))


def _loss(params, x, c):
    return (x @ params["w"] - c["target"]).square().mean()


def _metrics(params, c):
    return {"norm": params["w"].norm(), "size": params["w"].abs().amax()}


def runs(count, **more):
    """Configurations; settings are int in some runs and float in others, as users write them."""
    each = [
        {"seed": s, "lr": 0.05, "scale": 1 + s % 2, "target": 0.5, "kind": "ab"[s % 2]}
        for s in range(count)
    ]
    return [c | more for c in each]


def sweep(configs, steps=6, device="cpu", checkpoint=None, progress=False, chunk=None, pause=0.0):
    """Train; a pause before each stack, so that tests can come between."""
    _note(configs)
    time.sleep(pause)
    found = train(
        configs, _init, _data, _loss, steps, metrics=_metrics, record=[2], device=device,
        checkpoint=checkpoint, progress=progress, chunk=chunk,
    )  # fmt: skip
    found.table["half"] = found.table.step / 2
    return found


def table(configs, device="cpu", progress=False, shared=None):
    """A function that returns a table, and takes something large."""
    _note(configs)
    return _made(configs, float(shared.sum()) if shared is not None else 0.0)


def _made(configs, total=0.0):
    seeds = [c["seed"] for c in configs]
    made = {"run": range(len(seeds)), "word": [c["kind"] for c in configs]}
    made |= {"value": [total + s for s in seeds], "lost": [s == 1 for s in seeds]}
    if any(c.get("wide") for c in configs):
        made["width"] = [1.0 if c["wide"] else float("nan") for c in configs]
    return pd.DataFrame(made)


def fragile(configs, device="cpu", progress=False, folder="", how="raise"):
    """One run (seed 3) goes wrong: always, or the first time."""
    _note(configs)
    if any(c["seed"] == 3 for c in configs):
        first = Path(folder) / "tried"
        if how == "kill" or (how == "kill once" and not first.exists()):
            first.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "raise":
            raise RuntimeError("seed 3 cannot be trained")
        if how == "full":
            raise OSError(28, "No space left on device")
    if how == "memory" and len(configs) > 1:
        raise torch.OutOfMemoryError("two are too many")
    return _made(configs)


def _note(configs):
    """Which runs were worked at, a line each, for the tests to count."""
    if folder := os.environ.get("GRID_NOTES"):
        with (Path(folder) / "notes").open("a") as out:
            out.write("".join(f"{c['seed']}\n" for c in configs))
