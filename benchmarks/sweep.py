"""How much faster is a sweep than training its runs one after another?

    python benchmarks/sweep.py [--runs 12] [--steps 10] [--repeats 12] [--json PATH]

The problem is the two-layer net on token sequences (nl Sec. 5) at the paper's sizes: K=10
receptive fields, d=20 tokens, 40 generators, batch 128, two views, 50 outputs, InfoNCE, SGD with
momentum and weight decay. The plain loop is what one would write without `clcore.sweep`: one run
at a time, vectorised over batch and fields, autograd and `torch.optim.SGD`. Both sides compute
the same loss of the same batches, drawn by the same generator, in one process, in turns of a few
steps; the table gives medians over all steps in ms per run and step, also of the loop's drawing.

`dense` multiplies one-hot inputs; `table` computes the same function through a table of the
tokens' contributions (`token_sequences.outputs`), in the loop as in the sweep. "of matmul" is the
rate of the dense net's products over what `torch.bmm` alone reaches at the same shapes.
"""

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

import torch

from clcore import random as cr
from clcore.experiments import token_sequences
from clcore.nets.networks import embed, receptive_field, receptive_field_init
from clcore.sweep.lower import compiled, trace
from clcore.sweep.step import Problem, flat_step, start

K, D, IN_SET, BATCH = 10, 20, 5, token_sequences.BATCH
OUT, WARM_UP = token_sequences.OUTPUTS, 3
HYPER = {
    "lr": 2e-3,
    "momentum": token_sequences.MOMENTUM,
    "weight_decay": token_sequences.WEIGHT_DECAY,
}


def setup(key, config):
    patterns, _ = token_sequences.generators(key, IN_SET)
    return {"patterns": patterns, "norms": torch.ones(D)}


def data(key, step, config):
    return token_sequences.views(key, config["patterns"], BATCH, D)


def init(key, config):
    return receptive_field_init(key, K, config["M"], D, OUT)


def dense(params, tokens, config):
    x = embed(tokens.flatten(0, 1), torch.eye(D))
    z = receptive_field(params, x, "relu").unflatten(0, (2, BATCH))
    return token_sequences.loss(z, protocol="released")


def table(params, tokens, config):
    z = token_sequences.outputs(params, tokens, config["norms"], "relu")
    return token_sequences.loss(z, protocol="released")


def plain_loop(loss, filters, steps):
    """One run the plain way: seconds of every step, and of drawing its batch."""
    keys = cr.split(cr.key(0), 3)
    config = {"M": filters}
    config |= setup(keys[0], config)
    params = {n: w.requires_grad_() for n, w in init(keys[1], config).items()}
    optimizer = torch.optim.SGD(params.values(), **HYPER)
    total, drawing = [], []
    for step in range(steps + WARM_UP):
        began = time.perf_counter()
        batch = data(cr.fold_in(keys[2], step), step, config)
        drawn = time.perf_counter()
        optimizer.zero_grad()
        loss(params, batch, config).backward()
        optimizer.step()
        total.append(time.perf_counter() - began)
        drawing.append(drawn - began)
    return total[WARM_UP:], drawing[WARM_UP:]


def prepare(loss, filters, runs, compile):
    """The step of a sweep as `train` repeats it, and its arguments."""
    problem = Problem(
        init, data, loss, None, None, setup, None, "sgd", ("M",), torch.device("cpu"), torch.float32
    )
    configs = [{"seed": r, "M": filters, **HYPER} for r in range(runs)]
    part = start(problem, list(range(runs)), configs)
    step, state, fixed = flat_step(problem, part)
    step = trace(step, [*state, *fixed])
    how = False
    if compile:
        step, how = compiled(step, [*state, *fixed])
    return step, state, fixed, how


def sweep(prepared, steps):
    """Seconds of every step of all runs."""
    step, state, fixed, _ = prepared
    times = []
    for _ in range(steps + WARM_UP):
        began = time.perf_counter()
        *state, _ = step(*state, *fixed)
        times.append(time.perf_counter() - began)
    return times[WARM_UP:]


def products(filters):
    """Shapes `(count, m, k, n)` of the dense net's matrix products in one step of one run."""
    n, units = 2 * BATCH, K * filters
    forward = [(K, filters, D, n), (1, n, units, OUT), (1, BATCH, OUT, BATCH)]
    backward = [(K, filters, n, D), (1, OUT, n, units), (1, n, OUT, units)]
    return [*forward, *backward, (1, BATCH, BATCH, OUT), (1, BATCH, BATCH, OUT)]


def matmul_ms(filters, runs, repeats):
    """ms that `torch.bmm` needs for the products of one step of all runs."""
    total = 0.0
    for count, m, k, n in products(filters):
        a, b = torch.randn(runs * count, m, k), torch.randn(runs * count, k, n)
        out, times = torch.empty(runs * count, m, n), []
        for _ in range(repeats + 2):
            began = time.perf_counter()
            torch.bmm(a, b, out=out)
            times.append(time.perf_counter() - began)
        total += statistics.median(times)
    return 1e3 * total


def measure(loss, filters, options):
    eager = prepare(loss, filters, options.runs, compile=False)
    fused = prepare(loss, filters, options.runs, compile=True)
    times = {"loop": [], "drawing": [], "sweep": [], "compiled": []}
    for _ in range(options.repeats):
        total, drawing = plain_loop(loss, filters, options.steps)
        times["loop"] += total
        times["drawing"] += drawing
        with torch.no_grad():
            times["sweep"] += [t / options.runs for t in sweep(eager, options.steps)]
            times["compiled"] += [t / options.runs for t in sweep(fused, options.steps)]
    row = {"M": filters, "net": loss.__name__, "was_compiled": fused[3]}
    row |= {name: 1e3 * statistics.median(column) for name, column in times.items()}
    return row | {"least": {name: 1e3 * min(column) for name, column in times.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    print(f"{options.runs} runs, {torch.get_num_threads()} threads, torch {torch.__version__}")
    print("  M  net     loop  (drawing)   sweep    x   compiled    x   of matmul")
    for filters in (1, 15, 100):
        for loss in (dense, table):
            row = measure(loss, filters, options)
            gains = [row["loop"] / row[name] for name in ("sweep", "compiled")]
            row["gain_sweep"], row["gain_compiled"] = gains
            share = ""
            if loss is dense:
                rate = matmul_ms(filters, options.runs, 10) / options.runs
                row["matmul"], row["matmul_share"] = rate, rate / row["compiled"]
                share = f"{row['matmul_share']:8.0%}"
            print(
                f"{filters:3d}  {loss.__name__:5s} {row['loop']:6.2f}  {row['drawing']:8.2f}"
                f"  {row['sweep']:7.2f} {gains[0]:5.1f}"
                f" {row['compiled']:9.2f} {gains[1]:5.1f}  {share}"
            )
            rows.append(row)
    if options.json:
        about = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__}
        about |= {"threads": torch.get_num_threads(), "runs": options.runs, "unit": "ms/run/step"}
        options.json.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
