"""Runs of the program of nl: bn_gen.main(), with its generator, model, BatchNorm and losses."""

import importlib
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import torch
from recording import copied, in_float64, losses, replaced, watched_sgd

BASE = {"activation": "relu", "loss": "infoNCE", "bn": None, "zeta": 1, "P": 3, "beta": 2}
BASE |= {"fields": 6, "tokens": 9, "generators": 7, "fixed": 3, "batch": 24, "outputs": 7}
BASE |= {"lr": 0.02, "momentum": 0.9, "weight_decay": 5e-3, "temperature": 0.1}
BASE |= {"steps": 15, "seed": 1}

ACTIVATIONS = ("relu", "linear", "leakyrelu", "quadratic", "sigmoid")
LOSSES = ("infoNCE", "quadratic")
THROUGH = {
    "vanilla": (True, True),
    "mean": (True, False),
    "variance": (False, True),
    "neither": (False, False),
}
"""Whether gradients pass BatchNorm's mean and variance."""

TRACES = {
    f"nl-{activation}-{loss.lower()}": {"activation": activation, "loss": loss}
    for activation in ACTIVATIONS
    for loss in LOSSES
}
TRACES |= {f"nl-bn-{kind}": {"bn": kind} for kind in THROUGH}
TRACES |= {
    "nl-bn-mean-P1-beta5": {"bn": "mean", "P": 1, "beta": 5},
    "nl-P5-beta1": {"P": 5, "beta": 1},
    "nl-zeta-4": {"zeta": 4},
    "nl-zeta-10": {"zeta": 10},
    "nl-zeta-10-bn-mean": {"zeta": 10, "bn": "mean"},
}
TRACES = {name: BASE | told for name, told in TRACES.items()}


def entry(c: dict) -> list[str]:
    """What of the program is run."""
    return ["bn_gen.main", "bn_gen.Model"]


def _arguments(c: dict) -> SimpleNamespace:
    mean, variance = THROUGH.get(c["bn"], (True, True))
    bn = {"use_bn": c["bn"] is not None, "backprop_mean": mean, "backprop_var": variance}
    model = {"_target_": "bn_gen.Model", "multi": None, "output_d": c["outputs"]}
    model |= {"activation": c["activation"], "bn_spec": SimpleNamespace(**bn)}
    off = ("output_nonlinearity", "w1_bias", "per_layer_normalize", "shared_low_layer")
    model |= dict.fromkeys(off, False)
    law = {"specific": None, "num_loc": c["fields"], "num_tokens": c["tokens"]}
    law |= {"num_tokens_per_pos": c["P"], "pattern_cnt": c["generators"], "pattern_len": c["fixed"]}
    source = {"_target_": "bn_gen.Generator", "aug_degree": c["fields"] - c["fixed"]}
    source |= {"mag_split": c["zeta"], "d": None}
    rule = {"lr": c["lr"], "momentum": c["momentum"], "wd": c["weight_decay"]}
    told = {"batchsize": c["batch"], "T": c["temperature"], "seed": c["seed"], "dataset": None}
    told |= {"l2_type": "regular", "loss_type": c["loss"], "aug": True, "beta": c["beta"]}
    told |= {"similarity": "dotprod", "niter": c["steps"]}
    parts = {"opt": rule, "model": model, "distri": law, "generator": source}
    return SimpleNamespace(**told, **{n: SimpleNamespace(**p) for n, p in parts.items()})


def drive(c: dict) -> dict[str, dict[str, object]]:
    """Groups of arrays: start and end (the model's parameters), batch, loss; more: the generators
    (-1 for the wildcard), and the program's matching scores at the end, in the set and outside."""
    program = importlib.import_module("bn_gen")
    tokens: list[tuple] = []
    sources: list = []
    scores: list[dict] = []
    first: dict = {}
    last: dict = {}

    class Generator(program.Generator):
        def __init__(self, *given: object, **more: object) -> None:
            super().__init__(*given, **more)
            sources.append(self)

        def __iter__(self) -> Iterator[tuple]:
            for one, two, about in super().__iter__():
                tokens.append((about["ground_tokens1"], about["ground_tokens2"]))
                yield one.double(), two.double(), about  # made as a FloatTensor

    def started(params: list) -> None:
        first.update(copied({f"{i}": p for i, p in enumerate(params)}))

    def saved(state: object, file: str) -> None:
        if file == "model-final.pth":
            last.update(copied(state))

    def scored(config: dict) -> list:
        scores.extend(found_scores(config))
        return scores

    found_scores, runs = program.check_result, program.common_utils.MultiRunUtil
    runs.load_full_cfg = lambda folder: {"model": {"activation": c["activation"]}}
    changes = (
        (program, "Generator", Generator),
        (program, "check_result", scored),
        # Nothing is written, so it is not read from files either.
        (program, "load_latest_model", lambda folder: last),
        (program, "load_distri_gen", lambda folder: (sources[0].distrib, sources[0], None)),
        (torch.optim, "SGD", watched_sgd(started)),
        (torch, "save", saved),
    )
    with in_float64(), losses() as found, replaced(*changes):
        program.main(_arguments(c))
    names = [f"w1.{k}.weight" for k in range(c["fields"])] + ["w2.weight"]
    return {
        "start": dict(zip(names, first.values(), strict=True)),
        "end": {name: last[name] for name in names},
        "batch": {"tokens": np.array(tokens[: c["steps"]], dtype=np.uint8)},
        "loss": {"": np.array(found)},
        "more": {
            "patterns": np.array(sources[0].distrib.distributions, dtype=np.int8),
            "matching": np.array([scores[0]["loc_all"], scores[0]["loc_other_all"]]),
        },
    }
