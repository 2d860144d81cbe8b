"""How many images a second does pretraining see, and does the device wait for them?

    python benchmarks/pretraining.py [--device cuda] [--batch 128] [--width 64] [--stem standard]
        [--side 32] [--count 10000] [--steps 5] [--repeats 5] [--variants plain,mixed,...]
        [--lanes 1,2,6] [--json PATH]

Random images of the size of CIFAR-10's, the papers' augmentations, InfoNCE, Adam. Per variant, in
turns in one process, medians: images per second of augmentation alone (two views of each), of
training, and of training on one batch that is already there; the share of time that augmentation
takes, and the share for which the device waits for data, 1 - (seconds on one batch) / (seconds with
a new batch every step); seconds of a pass through 50 000 images. On the CPU on one thread, in CPU
time. Variants, "+" between several: plain, channels_last, mixed, compile.

Then, for each variant, the seconds of that pass for one run: by the usual lines of PyTorch (a loop
that draws, trains and reads no loss), by steps one by one, and by steps that are drawn ahead, on a
GPU a CUDA graph each, of so many runs side by side.
"""

import argparse
import itertools
import json
import resource
import statistics
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from clcore import random as cr
from clcore.experiments.pretraining import steps as taken
from clcore.experiments.trainer import Settings, Trainer, network, views
from clcore.images import augmentations as aug
from clcore.images import image_sets

WARM_UP, EPOCH = 2, 50_000


def images(count, side):
    pixels = np.random.default_rng(0).integers(0, 256, (count, 3, side, side), np.uint8)
    labels = np.zeros(count, np.int64)
    return image_sets.ImageSet("random", "train", "random images", pixels, labels, ("one",))


def timed(function, steps, device):
    """Seconds of one step; a GPU is waited for at both ends only."""
    if device.type == "cuda":
        clock, wait = time.perf_counter, torch.cuda.synchronize
    else:
        clock, wait = time.process_time, lambda: None
    wait()
    began = clock()
    for t in range(steps):
        function(t)
    wait()
    return (clock() - began) / steps


def measure(settings, data, device, steps, repeats):
    trainer = Trainer(settings, 3, device)
    source = image_sets.batches(data, settings.batch, trainer.order, device)
    batch = next(source)[0]
    key, each = cr.key(0, device), len(data) // settings.batch
    parts = {
        "augmentation": lambda t: views(
            cr.fold_in(key, t), batch.float() / 255, settings.augmentation
        ),
        "one batch": lambda t: trainer.step(batch, t, 0, each),
        "training": lambda t: trainer.step(next(source)[0], t, 0, each),
    }
    for function in parts.values():
        timed(function, WARM_UP, device)
    found = {name: [] for name in parts}
    for _ in range(repeats):
        for name, function in parts.items():
            found[name].append(timed(function, steps, device))
    waiting = [1 - a / b for a, b in zip(found["one batch"], found["training"], strict=True)]
    seconds = {name: statistics.median(times) for name, times in found.items()}
    return {
        **{name: settings.batch / t for name, t in seconds.items()},
        "augmenting": seconds["augmentation"] / seconds["training"],
        "waiting": statistics.median(waiting),
        "epoch": EPOCH / settings.batch * seconds["training"],
    }


def usual(settings, data, device):
    """A step as one writes it in PyTorch, with its own generator and optimiser."""
    net = network(settings, 3).to(device).train()
    optimizer = torch.optim.Adam(net.parameters(), settings.lr)
    pixels = torch.from_numpy(data.pixels).to(device)

    def step(_):
        at = torch.randint(len(pixels), (settings.batch,), device=device)
        x = pixels[at].float() / 255
        key = torch.randint(2**62, (), device=device)
        both = views(key, x, settings.augmentation)
        with torch.autocast(device.type, torch.bfloat16, enabled=settings.mixed):
            z = net(both)
        z = torch.nn.functional.normalize(z.float(), dim=-1)
        logits = z @ z.T / 0.5
        logits.fill_diagonal_(-torch.inf)
        n = settings.batch
        partner = torch.arange(2 * n, device=device).roll(n)
        loss = torch.nn.functional.cross_entropy(logits, partner)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def of_run(settings, data, device, ahead, seed=0):
    """A step of a run of the library."""
    own = Trainer(replace(settings, seed=seed), 3, device)
    each, total = len(data) // settings.batch, torch.zeros((), device=device, dtype=torch.float64)
    if ahead:
        way = taken.Ahead(own, image_sets.resident(data, device), total, each)
    else:
        way = taken.OneByOne(own, data, total, 0)
    numbers = itertools.count()

    def step(_):
        number = next(numbers)
        way.take(number, number // each, each)

    return step


def compare(settings, data, device, steps, repeats, lanes):
    """Seconds of a pass through EPOCH images for one run, medians, all ways in turns."""
    ways = {
        "usual lines": (1, [usual(settings, data, device)]),
        "one by one": (1, [of_run(settings, data, device, False)]),
    }
    for count in lanes:
        runs = [of_run(settings, data, device, True, seed) for seed in range(count)]
        ways[f"ahead, {count} side by side"] = count, runs
    found = {name: [] for name in ways}
    for turn in range(repeats + 1):
        for name, (count, functions) in ways.items():

            def together(t, functions=functions):
                for function in functions:
                    function(t)

            seconds = timed(together, max(steps, taken.WARM + 2), device) / count
            if turn:  # the first sets up, and records graphs
                found[name].append(EPOCH // settings.batch * seconds)
    return {name: statistics.median(times) for name, times in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--stem", default="standard")
    parser.add_argument("--side", type=int, default=32, help="of the images, in pixels")
    parser.add_argument("--count", type=int, default=10_000, help="of images")
    parser.add_argument("--steps", type=int, default=5, help="steps a turn")
    parser.add_argument("--repeats", type=int, default=5, help="turns")
    parser.add_argument("--variants", default="plain,channels_last,mixed+channels_last")
    parser.add_argument("--lanes", default="1,2", help="runs side by side")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    device, data = torch.device(options.device), images(options.count, options.side)
    table, ways = {}, {}
    lanes = [int(count) for count in options.lanes.split(",")]
    for variant in options.variants.split(","):
        switches = {name: True for name in variant.split("+") if name != "plain"}
        settings = Settings(
            batch=options.batch,
            width=options.width,
            stem=options.stem,
            recipe=aug.Recipe(options.side),
            **switches,
        )
        table[variant] = measure(settings, data, device, options.steps, options.repeats)
        given = settings, data, device, options.steps, options.repeats, lanes
        ways[variant] = compare(*given)
    print(f"torch {torch.__version__}, {device}; images a second")
    print(f"{'variant':>24}{'augmentation':>14}{'one batch':>11}{'training':>10}", end="")
    print(f"{'augmenting':>12}{'waiting':>9}{'50 000 images':>15}")
    for name, t in table.items():
        print(
            f"{name:>24}{t['augmentation']:14.0f}{t['one batch']:11.0f}{t['training']:10.0f}"
            f"{t['augmenting']:11.1%}{t['waiting']:9.1%}{t['epoch']:13.1f} s"
        )
    print(f"\nseconds for 50 000 images, one run\n{'':>24}", end="")
    print("".join(f"{way:>26}" for way in next(iter(ways.values()))))
    for name, found in ways.items():
        print(f"{name:>24}" + "".join(f"{seconds:24.2f} s" for seconds in found.values()))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"peak {peak:.0f} MiB", end="")
    if device.type == "cuda":
        print(f", on the device {torch.cuda.max_memory_allocated(device) / 2**20:.0f} MiB", end="")
    print()
    if options.json:
        card = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
        about = {"torch": torch.__version__, "device": card}
        content = about | {"variants": table, "seconds for 50 000 images": ways}
        options.json.write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
