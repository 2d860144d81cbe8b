"""What does a run of ncl's experiments cost, and how much faster is it than a plain loop?

    python benchmarks/sparse_coding.py [--steps 10] [--repeats 10] [--runs 1 5] [--json PATH]

Per model and size of the stack (`--runs`, else the chunk of `sparse_panels`): user CPU time in ms
per run and step of runs trained as one tensor, as `sparse_panels.runs` does it, and of a plain loop
of one run out of torch.nn modules, autograd and `torch.optim.SGD`, with `torch.randperm` and
`torch.bernoulli`. In turns of a few steps in one process, on one thread; medians and, since other
programs only ever add to them, minima. "run" is a run of 8000 epochs at the median.
"""

import argparse
import json
import resource
import statistics
from pathlib import Path

import torch
from stretches import stepper
from torch import nn
from torch.nn import functional as F

from clcore.experiments import sparse_panels as sp
from clcore.experiments import sparse_training as st

WARM_UP = 3
MODELS = ("NCL-linear", "NCL-basic", "NCL-basic-2L", "NCL-pred", "Simplified-SimSiam")
MODELS = (*MODELS, "CL-linear", "CL-basic", "Simplified-SimCLR")


def cpu():
    return 1e3 * resource.getrusage(resource.RUSAGE_SELF).ru_utime


class Layer(nn.Module):
    def __init__(self, width, m, bn, relu):
        super().__init__()
        self.linear = nn.Linear(width, m, bias=False)
        self.b = nn.Parameter(torch.zeros(m))
        self.bn = nn.BatchNorm1d(m) if bn else nn.Identity()
        self.relu = relu

    def forward(self, x):
        u = self.bn(self.linear(x))
        return F.relu(u - self.b) - F.relu(-u - self.b) if self.relu else u + self.b


def plain_loop(c):
    """One run the plain way: a function of no arguments that does one step."""

    def encoder():
        widths = [c["p"], c["m"]][: c["layers"]]
        return nn.Sequential(*(Layer(w, c["m"], c["bn"], c["relu"]) for w in widths))

    x = torch.randn(c["n"], c["p"])
    nets = [encoder() for _ in range(2 if c["loss_kind"] == "non-contrastive" else 1)]
    top = nn.Linear(c["m"], c["m"]) if c["head"] else nn.Identity()
    weights = [w for part in (*nets, top) for w in part.parameters()]
    optimizer = torch.optim.SGD(weights, lr=c["lr"])
    state = {"step": 0, "order": None}

    def loss(a, b, online):
        if len(nets) == 2:
            learner, teacher = nets if online else nets[::-1]
            u, v = F.normalize(top(learner(a)), dim=1), F.normalize(teacher(b), dim=1).detach()
            return (u - v).square().sum(1).mean()
        u, v = nets[0](a), nets[0](b)
        if c["loss_kind"] == "simsiam":
            first = F.cosine_similarity(top(u), v.detach()).mean()
            return -(first + F.cosine_similarity(top(v), u.detach()).mean()) / 2
        u, v = F.normalize(top(u), dim=1), F.normalize(top(v), dim=1)
        if c["loss_kind"] == "contrastive":
            return F.cross_entropy(u @ v.T / c["temperature"], torch.arange(len(u)))
        z = torch.cat([u, v])
        logits = (z @ z.T / c["temperature"]).masked_fill(torch.eye(len(z)).bool(), -torch.inf)
        return F.cross_entropy(logits, torch.arange(len(z)).roll(len(u)))

    def step():
        number = state["step"] % c["per_epoch"]
        if number == 0:
            state["order"] = torch.randperm(c["n"])
        state["step"] += 1
        rows = x[state["order"][number * c["batch"] : (number + 1) * c["batch"]]]
        a, b = (rows * torch.bernoulli(torch.full_like(rows, c["keep"])) for _ in range(2))
        optimizer.zero_grad()
        loss(a, b, number % 2 == 0).backward()
        optimizer.step()

    return step


def timed(function, repeats):
    for _ in range(WARM_UP):
        function()
    began = cpu()
    for _ in range(repeats):
        function()
    return (cpu() - began) / repeats


def measure(model, protocol, steps, repeats, size):
    first = st.configuration(0, model, 0.1, protocol)
    size = size or sp.CHUNK[first["loss_kind"]]
    ours = stepper(st.PROBLEM, [st.configuration(s, model, 0.1, protocol) for s in range(size)])
    plain, found = plain_loop(first), {"sweep": [], "plain": []}
    for _ in range(repeats):
        found["sweep"].append(timed(ours, steps) / size)
        found["plain"].append(timed(plain, steps))
    result = {name: statistics.median(times) for name, times in found.items()}
    result |= {f"least {name}": min(times) for name, times in found.items()}
    return result | {"runs": size, "seconds": result["sweep"] * st.steps(first) / 1e3}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=10, help="steps a turn")
    parser.add_argument("--repeats", type=int, default=10, help="turns")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS, metavar="MODEL")
    parser.add_argument("--runs", type=int, nargs="+", default=[0], help="sizes of the stack")
    parser.add_argument("--protocol", default="paper", choices=list(st.PROTOCOLS))
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    how = (options.protocol, options.steps, options.repeats)
    table = {
        f"{m} {size or ''}".strip(): measure(m, *how, size)
        for m in options.models
        for size in options.runs
    }
    print(f"torch {torch.__version__}, one thread, protocol {options.protocol}; user CPU ms")
    print(f"{'model':>21}{'plain':>9}{'sweep':>9}{'ratio':>8}{'least':>9}{'runs':>6}{'run':>10}")
    for name, t in table.items():
        print(
            f"{name:>21}{t['plain']:9.3f}{t['sweep']:9.3f}{t['plain'] / t['sweep']:7.1f}x"
            f"{t['least sweep']:9.3f}{t['runs']:6d}{t['seconds']:8.1f} s"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"peak {peak:.0f} MiB")
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
