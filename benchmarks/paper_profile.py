"""How long do the trainings of the synthetic chapters take in the profile `paper`?

    python benchmarks/paper_profile.py [--only 6-training] [--check one-hot-ncl] [--json PATH]

The chapters' own functions say which runs there are, how they are stacked and for how many steps;
of every kind of stack (its settings but seeds and numbers, its size) a short stretch is timed on
one thread, in CPU seconds, and multiplied. Left out are tracing (a second or two a stack), what is
recorded on the way, and all else that a chapter does. `--check` trains one panel whole and puts
its CPU seconds beside the estimate: choose one that takes minutes.
"""

import argparse
import contextlib
import heapq
import json
import time
from collections import Counter
from pathlib import Path

import torch
from stretches import seconds_a_step, stepper

from clcore.experiments import sparse_factors, sparse_map, token_panels, tree_contrast
from clcore.experiments import sparse_panels as sp
from clcore.experiments import sparse_training as st
from clcore.experiments import token_sequences as ts
from clcore.grid import Grid
from clcore.sweep.configs import group, static_part

FUNCTIONS = ("init", "data", "loss", "setup", "project", "schedule", "gradient", "turns", "ahead")

COSTLESS: dict[str, tuple[str, ...]] = {
    st.__name__: ("model", "latent", "temperature", "start", "keep", "unit"),
    ts.__name__: ("activation", "kind", "protocol", "confined"),
    tree_contrast.__name__: (),
}
"""Settings on which the cost of a step does not depend, or hardly."""


class Asked(Exception):
    """In place of a training: what it was asked for."""

    def __init__(self, configs, options):
        super().__init__(f"{len(configs)} runs")
        self.configs, self.options = configs, options


def asking(configs, **options):
    raise Asked(configs, options)


@contextlib.contextmanager
def no_training():
    """Whatever would train says what it was asked for instead."""
    modules = (st, ts, tree_contrast)
    before = [m.train for m in modules]
    for m in modules:
        m.train = asking
    try:
        yield
    finally:
        for m, own in zip(modules, before, strict=True):
            m.train = own


def asked(call, *args, **options):
    """(configurations, options of `train`) of one training."""
    try:
        call(*args, **options)
    except Asked as found:
        return found.configs, found.options
    raise RuntimeError("expected a training, there was none")


class Requested(Exception):
    """In place of a grid's results: its requests."""

    def __init__(self, requests):
        super().__init__(f"{len(requests)} requests")
        self.requests = requests


class Asking(Grid):
    """A grid that computes nothing."""

    def gather(self, requests):
        raise Requested(list(requests))


def of(request):
    """The training of a request."""
    chunk = {} if request.chunk is None else {"chunk": request.chunk}
    return asked(request.function, list(request.configs), **request.options, **chunk)


def gathered(call, *args):
    """The trainings of a function that takes a grid."""
    try:
        call(*args, grid=Asking())
    except Requested as found:
        return [of(request) for request in found.requests]
    raise RuntimeError("expected requests, there were none")


def tree_tables(kind):
    configs = [
        tree_contrast.configuration(s, low, width, kind=kind, signs=kind == "released")
        for width in (2, 10)
        for low in (0.7, 0.8, 0.9)
        for s in range(10)
    ]
    return of(tree_contrast.request(configs, 50))


def tree_operators():
    cases = [(d, 0.8, 10) for d in (5, 6, 4, 3)]
    cases += [(5, low, 10) for low in (0.7, 0.9)] + [(5, 0.8, w) for w in (2, 5)]
    for depth, low, width in cases:
        configs = [tree_contrast.configuration(s, low, width, depth) for s in range(30)]
        yield of(tree_contrast.request(configs, 10))


def parts():
    """Chapter, part, and its trainings: lists of (configurations, options of `train`)."""
    for kind in ("paper", "released"):
        yield "4-trained-trees", f"tables, {kind}", [tree_tables(kind)]
    yield "4-trained-trees", "operators", list(tree_operators())
    for protocol in ("paper", "released"):
        for name in token_panels.panels(protocol):
            part = gathered(token_panels.runs, name, protocol, range(10))
            yield "5-two-layer", f"{name}, {protocol}", part
    for chapter, record in (("6-training", "6-landscape"), ("6-warm-starts", "6-dynamics")):
        for panel in sp.of_record(record):
            yield chapter, panel, gathered(sp.runs, panel)
    yield "6-training", "map", gathered(sparse_map.everything)
    yield "6-warm-starts", "decides", gathered(sparse_factors.decide, range(10))


def stacks(configs, options):
    """(kind, a stack of it) of one training; kinds that are equal cost the same."""
    static, home = options["static"], options["init"].__module__
    for runs in group(configs, static, options.get("chunk")):
        mine = [configs[r] for r in runs]
        known = static_part(mine[0], static)
        costly = sorted((n, v) for n, v in known.items() if n not in COSTLESS[home])
        yield (str(costly), len(mine), home), mine


def estimate(trainings, timed):
    """CPU seconds of each stack of some trainings. timed: kind -> seconds a step, filled here."""
    found = []
    for configs, options in trainings:
        for kind, mine in stacks(configs, options):
            if kind not in timed:
                functions = {n: options[n] for n in FUNCTIONS if n in options}
                one = stepper(functions | {"static": tuple(options["static"])}, mine)
                timed[kind] = seconds_a_step(one, least=0.1)
            found.append(options["steps"] * timed[kind])
    return found


def wall(tasks, cores):
    """Wall time of tasks on so many cores, the longest first."""
    loads = [0.0] * cores
    for task in sorted(tasks, reverse=True):
        heapq.heappush(loads, heapq.heappop(loads) + task)
    return max(loads)


def check(panel, timed):
    with no_training():
        found = gathered(sp.runs, panel)
    expected = sum(estimate(found, timed))
    began = time.process_time()
    sp.runs(panel)
    spent = time.process_time() - began
    print(f"panel {panel}: estimated {expected:.0f} s, trained whole in {spent:.0f} s of CPU time")
    return {"panel": panel, "estimated": expected, "trained": spent}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", help="one chapter")
    parser.add_argument("--check", metavar="PANEL", help="train this panel whole, too")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    timed, rows, tasks = {}, Counter(), {}
    with no_training():
        all_parts = [p for p in parts() if options.only in (None, p[0])]
    for chapter, part, trainings in all_parts:
        found = estimate(trainings, timed)
        rows[chapter, part] = sum(found)
        tasks.setdefault(chapter, []).extend(found)
    print(f"torch {torch.__version__}, one thread; {len(timed)} kinds of stacks timed")
    print(f"{'chapter':>14}{'stacks':>8}{'core hours':>12}{'longest, min':>14}", end="")
    print("".join(f"{f'{k} cores, h':>13}" for k in (2, 4, 8, 16)))
    tasks["all"] = [t for own in tasks.values() for t in own]
    for chapter, own in tasks.items():
        print(f"{chapter:>14}{len(own):8d}{sum(own) / 3600:12.2f}{max(own) / 60:14.1f}", end="")
        print("".join(f"{wall(own, k) / 3600:13.2f}" for k in (2, 4, 8, 16)))
    for (chapter, part), seconds in rows.most_common(10):
        print(f"  {chapter}: {part}, {seconds / 60:.0f} min")
    checked = check(options.check, timed) if options.check else None
    if options.json:
        parts_told = [{"chapter": c, "part": p, "seconds": s} for (c, p), s in rows.items()]
        options.json.write_text(json.dumps({"parts": parts_told, "checked": checked}, indent=1))


if __name__ == "__main__":
    main()
