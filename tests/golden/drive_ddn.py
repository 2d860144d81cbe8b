"""Runs of the program of ddn: simCLR_hltm.main(), with its tree, data, net, loss and statistics."""

import importlib
import itertools
from types import SimpleNamespace

import numpy as np
import torch
from recording import copied, in_float64, losses, replaced, watched_sgd

BASE = {"depth": 3, "width": 5, "low": 0.8, "high": 1.0, "steps": 12, "batch": 128, "lr": 0.1}
BASE |= {"temperature": 0.1, "eps": 1e-4, "seed": 1, "samples": "drawn"}
TRACES = {
    "ddn-depth-3": {},
    "ddn-depth-3-width-11": {"width": 11, "low": 0.7, "steps": 10},
    "ddn-depth-4": {"depth": 4, "steps": 20},
    "ddn-depth-4-width-2": {"depth": 4, "width": 2, "low": 0.9},
    "ddn-depth-5": {"depth": 5, "steps": 10},
    "ddn-depth-5-width-2": {"depth": 5, "width": 2, "low": 0.7, "steps": 10},
    "ddn-depth-5-width-8": {"depth": 5, "width": 8, "low": 0.9, "steps": 10},
    # Nothing is trained. With polarities of +-1/2 every edge has four equally likely outcomes, so
    # that a list of all of them has the tree's very law.
    "ddn-metric-every-outcome": {"depth": 2, "width": 7, "low": 0.5, "high": 0.5, "steps": 0}
    | {"samples": "every outcome"},
}
TRACES = {name: BASE | told for name, told in TRACES.items()}


def entry(c: dict) -> list[str]:
    """What of the program is run."""
    return ["simCLR_hltm.main", "simCLR_hltm.Model"]


def _every_outcome(tree: object) -> list[torch.Tensor]:
    """All outcomes of a tree whose edges keep or flip with 3/4, each as often as it is likely."""
    latents = list(tree.top_down(leaf=True))
    numbers = {latent.name: i for i, latent in enumerate(latents)}
    states = torch.tensor(list(itertools.product(range(2), *[range(4)] * (len(latents) - 1))))
    values = torch.zeros_like(states)
    values[:, 0] = states[:, 0]
    for parent in latents:
        if parent.isleaf:
            continue
        for child, law in zip(parent.children, parent.ps, strict=True):
            above, at = values[:, numbers[parent.name]], numbers[child.name]
            often = (4 * law[above, 0]).round()  # of four, how many have the child 0
            values[:, at] = (states[:, at] >= often).long()
    leaves = [numbers[latent.name] for latent in latents if latent.isleaf]
    shown = values[:, leaves]
    return [shown, shown, shown, values, values, values, values[:, 0]]


def drive(c: dict) -> dict[str, dict[str, object]]:
    """Groups of arrays: start and end (parameters of the groups), batch, loss; more: polarities,
    and what the statistics before the training found, the best absolute correlation a latent."""
    program = importlib.import_module("simCLR_hltm")
    kept = SimpleNamespace(items=[], tree=None, first={}, model=None, best=[])

    class Loader:
        """The same batches for the statistics and, after them, for the training."""

        def __init__(self, dataset: object, **_: object) -> None:
            kept.tree, self.passes = dataset.root, 0
            if c["samples"] == "drawn":
                for _ in range(c["steps"]):
                    rows = [dataset[i] for i in range(c["batch"])]
                    kept.items.append([torch.stack(column) for column in zip(*rows, strict=True)])
            else:
                kept.items.append(_every_outcome(dataset.root))

        def __len__(self) -> int:
            return len(kept.items)

        def __iter__(self):
            self.passes += 1
            return iter(kept.items[: c["steps"]] if self.passes > 1 else kept.items)

    def summary(correlations: torch.Tensor, *given: object, **more: object) -> dict:
        made = found_summary(correlations, *given, **more)
        kept.best.append(float(made["best_corr"]))
        return made

    def started(params: list) -> None:
        kept.first = copied({f"{i}": p for i, p in enumerate(params)})

    found_summary = program.common_utils.corr_summary
    changes = (
        (torch.utils.data, "DataLoader", Loader),
        (program.optim, "SGD", watched_sgd(started)),
        (program.common_utils, "corr_summary", summary),
        (program.tqdm, "tqdm", lambda items, **_: items),
        (torch, "save", lambda model, file: setattr(kept, "model", model)),
        (torch.Tensor, "cuda", lambda tensor: tensor),
        (torch.nn.Module, "cuda", lambda module: module),
    )
    told = {"depth": c["depth"], "num_children": 2, "batchsize": c["batch"], "hid": c["width"]}
    told |= {"N": c["batch"], "num_epoch": 1, "save_file": "model", "seed": c["seed"]}
    told |= {"lr": c["lr"], "delta_lower": c["low"], "delta_upper": c["high"], "loss": "nce"}
    told |= {"eps": c["eps"], "temp": c["temperature"], "pretty": lambda: ""}
    with in_float64(), losses() as found, replaced(*changes):
        program.main(SimpleNamespace(**told))
    names = [name for name, _ in kept.model.nets.named_parameters()]
    batch = {
        "leaves": np.stack([_bits(item[0:3]) for item in kept.items]),
        "latents": np.stack([item[3].numpy().astype(np.uint8) for item in kept.items]),
    }
    if c["samples"] != "drawn":
        batch = {}  # they follow from the polarities
    layers = kept.tree.layers[:-1]
    polarity = [delta for layer in layers for latent in layer for delta in latent.deltas]
    return {
        "start": dict(zip(names, kept.first.values(), strict=True)),
        "end": copied(dict(kept.model.nets.named_parameters())),
        "batch": batch,
        "loss": {"": np.array(found)},
        "more": {"polarity": np.array(polarity), "best": np.array(kept.best)},
    }


def _bits(views: list[torch.Tensor]) -> np.ndarray:
    return torch.stack(views).numpy().astype(np.uint8)
