"""What does the sweep of ddn Tables 4 and 6 cost, and how much of it is sampling?

    python benchmarks/latent_trees.py [--steps 10] [--repeats 10] [--json PATH]

Per width of the groups (2 and 10 nodes per latent, L = 5, batches of 128 samples): ms per run and
step of all 30 runs of that width trained as one tensor, the part of it that is drawing the views,
and a plain loop of one run that draws every latent of the tree, evaluates the net on every sample
and uses autograd and `torch.optim.SGD`. In turns of a few steps in one process; medians. "60 runs"
is the time of the paper's 60 runs of 25000 steps at that rate.
"""

import argparse
import json
import resource
import statistics
import time
from pathlib import Path

import torch
from torch.func import vmap

from clcore import random as cr
from clcore.experiments import tree_contrast
from clcore.sweep.lower import trace
from clcore.sweep.step import Problem, flat_step, start
from clcore.theory.trees import latent_tree, pattern_net

DEPTH, TRIALS, LOWS, WARM_UP = 5, 10, (0.7, 0.8, 0.9), 3
RUNS, STEPS = 60, 50 * tree_contrast.STEPS_PER_EPOCH


def sweep(width):
    """(step, its state, its fixed arguments; drawing alone, its arguments) of 30 runs."""
    configs = [
        tree_contrast.configuration(seed, low, width) for low in LOWS for seed in range(TRIALS)
    ]
    parts = tree_contrast.PROBLEM
    problem = Problem(
        **parts,
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

    def draw(key, states, patterns):
        tables = {"states": states, "patterns": patterns}
        return tree_contrast.views(cr.fold_in(key, 1), tables, tree_contrast.BATCH)

    needed = [part.fixed["keys"], *(part.fixed["values"][n] for n in ("states", "patterns"))]
    alone = trace(lambda *t: [vmap(draw)(*t)], needed)
    return step, state, fixed, alone, needed


def plain_loop(width):
    """One run the plain way: a function of no arguments that does one step."""
    tree = latent_tree.complete(DEPTH)
    edges = torch.ones(len(tree.parents) - 1, dtype=torch.float64)
    model = latent_tree.binary(tree, 0.8 * edges)
    leaves = latent_tree.leaves(tree)
    params = pattern_net.init(cr.key(0), DEPTH, width)
    params = {n: w.float().requires_grad_() for n, w in params.items()}
    optimizer = torch.optim.SGD(params.values(), lr=tree_contrast.RATE)
    count = iter(range(10**9))

    def step():
        keys = cr.split(cr.fold_in(cr.key(1), next(count)), 3)
        x = latent_tree.sample(keys[0], model, tree_contrast.BATCH)
        plus = latent_tree.augment(keys[1], model, x)
        minus = latent_tree.sample(keys[2], model, tree_contrast.BATCH)
        seen = torch.cat([x, plus, minus])[:, leaves].float()
        outputs = pattern_net.by_sample(params, seen)[0][0]
        optimizer.zero_grad()
        tree_contrast.loss(outputs.unflatten(0, (3, -1))).backward()
        optimizer.step()

    return step


def timed(function, repeats):
    times = []
    for _ in range(repeats + WARM_UP):
        began = time.perf_counter()
        function()
        times.append(1e3 * (time.perf_counter() - began))
    return times[WARM_UP:]


def measure(width, steps, repeats):
    step, state, fixed, alone, needed = sweep(width)
    plain, found = plain_loop(width), {"sweep": [], "drawing": [], "plain": []}
    runs = TRIALS * len(LOWS)
    held = [state]

    def one():
        held[0] = step(*held[0], *fixed)[:-1]

    for _ in range(repeats):
        found["sweep"] += [t / runs for t in timed(one, steps)]
        found["drawing"] += [t / runs for t in timed(lambda: alone(*needed), steps)]
        found["plain"] += timed(plain, steps)
    return {name: statistics.median(times) for name, times in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=10, help="steps a turn")
    parser.add_argument("--repeats", type=int, default=10, help="turns")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    options = parser.parse_args()
    table = {w: measure(w, options.steps, options.repeats) for w in (2, 10)}
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; ms per run and step")
    print(f"{'width':>6}{'plain':>9}{'sweep':>9}{'ratio':>8}{'drawing':>9}{'share':>8}")
    for width, t in table.items():
        ratio, share = t["plain"] / t["sweep"], t["drawing"] / t["sweep"]
        print(
            f"{width:>6}{t['plain']:9.3f}{t['sweep']:9.3f}{ratio:7.1f}x"
            f"{t['drawing']:9.3f}{share:8.0%}"
        )
    total = sum(t["sweep"] for t in table.values()) * RUNS / len(table) * STEPS / 1e3
    share = sum(t["drawing"] for t in table.values()) / sum(t["sweep"] for t in table.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"60 runs: {total / 60:.1f} minutes, drawing {share:.0%}; peak {peak:.0f} MiB")
    if options.json:
        options.json.write_text(json.dumps({"ms_per_run_step": table, "seconds": total}, indent=1))


if __name__ == "__main__":
    main()
