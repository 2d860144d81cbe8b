"""Short stretches of training: what `clcore.sweep.train` repeats, without the rest of it."""

import statistics
import time

import torch
from torch.utils._pytree import tree_flatten

from clcore.sweep.ahead import Ahead
from clcore.sweep.lower import keep_freed_memory, trace
from clcore.sweep.step import Problem, flat_step, period, start


def stepper(functions, configs, optimizer="sgd"):
    """A function of no arguments that does one step of all runs.

    functions: those of one run, with "static", as `train` takes them.
    """
    keep_freed_memory()
    problem = Problem(
        **{"project": None, "setup": None, "schedule": None} | functions,
        metrics=None,
        optimizer=optimizer,
        device=torch.device("cpu"),
        dtype=torch.float32,
    )
    with torch.no_grad():
        part = start(problem, list(range(len(configs))), configs)
        ahead, turns, steps = Ahead(problem, part), period(problem, part), []
        fixed = tree_flatten(part.fixed)[0]
        for at, turn in enumerate(turns):
            if turn in turns[:at]:
                steps.append(steps[turns.index(turn)])
                continue
            step, state, all_fixed = flat_step(problem, part, turn, ahead.at(at))
            steps.append(trace(step, [*state, *all_fixed]))
    held, at = [tree_flatten(part.state)[0]], [0]

    def one():
        with torch.no_grad():
            step = steps[at[0] % len(turns)]
            held[0] = step(*held[0], *fixed, *ahead.at(at[0]).values())[:-1]
        at[0] += 1

    return one


def seconds_a_step(one, least=0.3, repeats=3):
    """CPU seconds of a call: the median of a few stretches of at least that long."""
    for _ in range(4):
        one()
    began = time.process_time()
    one()
    many = max(2, int(least / max(time.process_time() - began, 1e-6)))
    times = []
    for _ in range(repeats):
        began = time.process_time()
        for _ in range(many):
            one()
        times.append((time.process_time() - began) / many)
    return statistics.median(times)
