"""NT-Xent of one large batch: `losses.InfoNCE`, which makes the similarities in tiles, beside the
same with the whole matrix and beside the usual lines (similarities, cross entropy).

    python benchmarks/infonce.py --samples 4096 --outputs 128

Each in a process of its own, on one thread: CPU seconds of value and gradient, the median of
`--calls`, and the peak of memory above that before. The ratios are the result; seconds depend on
the machine and on what runs beside.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

from clcore.losses import InfoNCE, infonce_family

TAU = 0.1


def usual(z, z2):
    """What a program without a library has."""
    both = F.normalize(torch.cat([z, z2]), dim=-1)
    own = torch.eye(len(both), dtype=torch.bool)
    similarity = (both @ both.T / TAU).masked_fill(own, -torch.inf)
    return F.cross_entropy(similarity, torch.arange(len(both)).roll(len(z)))


def measure(which, samples, outputs, calls):
    """Print value, CPU seconds of a call, MiB."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if which == "matrix":
        infonce_family.LARGE = samples + 1
    loss = usual if which == "usual" else InfoNCE(TAU)
    z, z2 = torch.randn(2, samples, outputs)
    z.requires_grad_()
    torch.autograd.grad(loss(z[:64], z2[:64]), z)  # what is loaded at the first call
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    for _ in range(calls):
        began = time.process_time()
        value = loss(z, z2)
        torch.autograd.grad(value, z)
        times.append(time.process_time() - began)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10
    print(value.item(), statistics.median(times), peak)


def main():
    """Three processes and a table."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--samples", type=int, default=4096)
    asked.add_argument("--outputs", type=int, default=128)
    asked.add_argument("--calls", type=int, default=5)
    asked.add_argument("--only", choices=["tiles", "matrix", "usual"])
    given = asked.parse_args()
    sizes = given.samples, given.outputs, given.calls
    if given.only:
        return measure(given.only, *sizes)
    print(f"{'':8}{'value':>10}{'CPU s':>8}{'MiB':>7}{'times':>8}{'memory':>8}")
    for which in ("tiles", "matrix", "usual"):
        command = [sys.executable, __file__, "--only", which]
        command += [f"--samples={sizes[0]}", f"--outputs={sizes[1]}", f"--calls={sizes[2]}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        value, seconds, peak = map(float, done.stdout.split())
        if which == "tiles":
            unit = seconds, peak
        ratios = f"{seconds / unit[0]:8.2f}{peak / unit[1]:8.2f}"
        print(f"{which:8}{value:10.6f}{seconds:8.2f}{peak:7.0f}{ratios}", flush=True)


if __name__ == "__main__":
    main()
