"""What does the sweep of nl Fig. 4 cost, and how much faster is it than a plain loop?

    python benchmarks/token_sequences.py [--steps 10] [--repeats 10] [--json PATH]

Per (P, beta): user CPU time in ms per run and step of three runs trained as one tensor, of the part
of it that is drawing the views, and of a plain loop of one run that embeds every token, evaluates
every filter on every sample and uses autograd and `torch.optim.SGD`. In turns of a few steps in one
process, on one thread; medians. "panel" is the time of 48 runs (16 settings, 3 seeds) of 5000 steps
at these rates.
"""

import argparse
import json
import resource
import statistics
from pathlib import Path

import torch
from torch.func import vmap

from clcore import random as cr
from clcore.experiments import token_sequences as ts
from clcore.nets import networks
from clcore.sweep.lower import trace
from clcore.sweep.step import Problem, flat_step, start

SEEDS, WARM_UP = 3, 3
SIZES = (1, 3, 5, 10)  # of P
FACTORS = (1, 2, 5, 10)  # beta


def cpu():
    return 1e3 * resource.getrusage(resource.RUSAGE_SELF).ru_utime


def sweep(configs):
    """(step, its state, its fixed arguments; drawing alone, its arguments)."""
    problem = Problem(
        **ts.PROBLEM,
        metrics=None,
        project=None,
        schedule=None,
        optimizer="sgd",
        device=torch.device("cpu"),
        dtype=torch.float32,
    )
    part = start(problem, list(range(len(configs))), configs)
    step, state, fixed = flat_step(problem, part)
    step = trace(step, [*state, *fixed])

    def draw(key, patterns):
        return ts.views(cr.fold_in(key, 1), patterns, ts.BATCH, 20)

    needed = [part.fixed["keys"], part.fixed["values"]["patterns"]]
    alone = trace(lambda *t: [vmap(draw)(*t)], needed)
    return step, state, fixed, alone, needed


def plain_loop(config):
    """One run the plain way: a function of no arguments that does one step."""
    patterns, _ = ts.generators(cr.key(0), config["P"])
    params = networks.receptive_field_init(cr.key(1), 10, config["filters"], 20, ts.OUTPUTS)
    params = {n: w.requires_grad_() for n, w in params.items()}
    optimizer = torch.optim.SGD(
        params.values(), lr=config["lr"], momentum=ts.MOMENTUM, weight_decay=ts.WEIGHT_DECAY
    )
    count = iter(range(10**9))

    def step():
        tokens = ts.views(cr.fold_in(cr.key(2), next(count)), patterns, ts.BATCH, 20)
        x = networks.embed(tokens.flatten(0, 1), torch.eye(20))
        z = networks.receptive_field(params, x, config["activation"])
        optimizer.zero_grad()
        ts.loss(z.unflatten(0, (2, -1)), config["kind"], config["protocol"]).backward()
        optimizer.step()

    return step


def timed(function, repeats):
    for _ in range(WARM_UP):
        function()
    began = cpu()
    for _ in range(repeats):
        function()
    return (cpu() - began) / repeats


def measure(P, beta, steps, repeats):
    configs = [ts.configuration(s, P, beta) for s in range(SEEDS)]
    step, state, fixed, alone, needed = sweep(configs)
    plain, found = plain_loop(configs[0]), {"sweep": [], "drawing": [], "plain": []}
    held = [state]

    def one():
        held[0] = step(*held[0], *fixed)[:-1]

    for _ in range(repeats):
        with torch.no_grad():
            found["sweep"].append(timed(one, steps) / SEEDS)
            found["drawing"].append(timed(lambda: alone(*needed), steps) / SEEDS)
        found["plain"].append(timed(plain, steps))
    return {name: statistics.median(times) for name, times in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=10, help="steps a turn")
    parser.add_argument("--repeats", type=int, default=10, help="turns")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    grid = [(P, beta) for P in SIZES for beta in FACTORS]
    table = {f"{P},{beta}": measure(P, beta, options.steps, options.repeats) for P, beta in grid}
    print(f"torch {torch.__version__}, one thread; user CPU ms per run and step")
    print(f"{'P,beta':>8}{'plain':>9}{'sweep':>9}{'ratio':>8}{'drawing':>9}{'run of 5000':>13}")
    for name, t in table.items():
        print(
            f"{name:>8}{t['plain']:9.3f}{t['sweep']:9.3f}{t['plain'] / t['sweep']:7.1f}x"
            f"{t['drawing']:9.3f}{t['sweep'] * ts.STEPS / 1e3:11.1f} s"
        )
    total = SEEDS * ts.STEPS * sum(t["sweep"] for t in table.values()) / 1e3
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"panel: {total / 60:.1f} minutes; peak {peak:.0f} MiB")
    if options.json:
        options.json.write_text(json.dumps({"ms_per_run_step": table, "seconds": total}, indent=1))


if __name__ == "__main__":
    main()
