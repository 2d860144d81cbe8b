"""A run that costs a given CPU time, in a module of its own, where workers find it."""

import time

import pandas as pd


def spin(configs, device="cpu", progress=False):
    """Compute for `ms` of CPU time a run; a table of one row each."""
    for c in configs:
        end = time.process_time() + c["ms"] / 1e3
        while time.process_time() < end:
            sum(range(1000))
    return pd.DataFrame({"run": range(len(configs)), "ms": [float(c["ms"]) for c in configs]})
