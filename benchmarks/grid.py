"""What does a grid cost beside its runs, and what do more workers gain?

    python benchmarks/grid.py [--tasks 60] [--ms 200] [--rounds 3] [--json PATH]

Tasks of a given CPU time go through `clcore.grid`, in turns, in one run: in this process, by one
worker and by two. Two numbers of tasks tell apart the start of the workers and what each task
costs: overhead is the time a task takes beyond its own, with its result kept in a file; efficiency
of k workers is the time of as many tasks in this process, over k times theirs (without the start).
Medians over the rounds.

64 workers are simulated, not run: the stacks of ncl's panels and map, by their cost
(`sparse_panels.cost`, `sparse_map.CHUNK`), the longest first, each begun when a worker is free and
the launcher, which is busy with every task for the overhead measured here, has come to it.
"""

import argparse
import heapq
import json
import math
import statistics
import tempfile
import time
from pathlib import Path

from grid_tasks import spin

from clcore.experiments import sparse_map
from clcore.experiments import sparse_panels as sp
from clcore.experiments import sparse_training as st
from clcore.grid import Grid, launcher


def seconds(name, count, ms, seed):
    """Wall time of so many tasks."""
    configs = [{"seed": seed + n, "ms": ms} for n in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        grid = Grid(Path(folder), launcher(name), progress=False)
        began = time.perf_counter()
        grid.run(spin, configs, chunk=1)
        return time.perf_counter() - began


def stacks():
    """CPU seconds of every stack of ncl's panels and map."""
    found = []
    for panel, part in sp.PANELS.items():
        runs = len(sp.configurations(panel))
        size = sp.CHUNK[st.MODELS[part["model"]]["loss"]]
        each = sp.seconds(panel) / runs
        found += [each * size] * (runs // size) + [each * (runs % size)] * bool(runs % size)
    for model, _, cells, prs, seeds in sparse_map.plan():
        kind = st.MODELS[model]["loss"]
        runs, size = len(cells) * len(prs) * len(seeds), sparse_map.CHUNK[kind]
        one = st.configuration(0, model)
        each = sp.MS[kind] * st.steps(one) / 1e3
        found += [each * size] * math.ceil(runs / size)
    return found


def simulated(tasks, workers, overhead):
    """Wall time of tasks, the longest first, on so many workers behind one launcher."""
    free, launched = [0.0] * workers, 0.0
    for task in sorted(tasks, reverse=True):
        launched += overhead
        heapq.heappush(free, max(heapq.heappop(free), launched) + task)
    return max(free)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--ms", type=float, default=200.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    options = parser.parse_args()
    names, few = ("serial", "local:1", "local:2"), max(2, options.tasks // 3)
    times = {name: [] for name in names}
    for turn in range(options.rounds):
        for name in names:
            pair = [seconds(name, n, options.ms, 10**6 * turn) for n in (few, options.tasks)]
            times[name].append(pair)
    each = {
        name: statistics.median((b - a) / (options.tasks - few) for a, b in pairs)
        for name, pairs in times.items()
    }
    start = {
        name: statistics.median(a - few * (b - a) / (options.tasks - few) for a, b in pairs)
        for name, pairs in times.items()
    }
    print(f"{options.tasks} tasks of {options.ms:g} ms of CPU time")
    print(
        f"{'launcher':>10}{'ms a task':>12}{'overhead, ms':>14}{'start, s':>10}{'efficiency':>12}"
    )
    found = {}
    for name in names:
        workers = 2 if name.endswith("2") else 1
        over = 1e3 * each[name] * workers - options.ms
        gain = each["serial"] / workers / each[name]
        found[name] = {"overhead_ms": over, "start_s": start[name], "efficiency": gain}
        print(f"{name:>10}{1e3 * each[name]:12.1f}{over:14.1f}{start[name]:10.2f}{gain:12.2f}")
    tasks, overhead = stacks(), max(found["local:1"]["overhead_ms"], 0.0) / 1e3
    for workers in (2, 16, 64):
        wall = simulated(tasks, workers, overhead)
        found[f"simulated {workers}"] = {"hours": wall / 3600, "stacks": len(tasks)}
        share = sum(tasks) / workers / wall
        print(
            f"{workers} workers, simulated: {len(tasks)} stacks of {sum(tasks) / 3600:.1f} core "
            f"hours in {wall / 3600:.2f} h, efficiency {share:.2f}"
        )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
