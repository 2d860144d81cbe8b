"""Contrastive learning on latent trees: the experiment of ddn Tables 4, 6 and Figs. 13, 14.

A run draws its polarities, then trains a tree-shaped net (`pattern_net`) on fresh views. Losses:
"paper", L_nce of ddn Eq. 2 with one negative, l2-normalised outputs and r = ||y - y'||^2 / 2;
"released", what the authors' program minimises.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore import random as cr
from clcore.grid import Request
from clcore.losses.infonce_family import cross_entropy_of_gaps
from clcore.sweep import Result, train
from clcore.sweep.configs import Config
from clcore.theory.trees import leaf_patterns, pattern_net, tree_statistics

LATENTS = ("", "0", "1", "101", "0111")  # of Table 6: z_0, z_s0, z_s1, z_s101, z_s0111
NODES = ("0", "1", "010", "1100")  # of Figs. 13 and 14
TEMPERATURE, RATE, BATCH, SAMPLES = 0.1, 0.1, 128, 64_000
LOSSES = ("paper", "released")


def steps_per_pass(samples: int = SAMPLES, batch: int = BATCH) -> int:
    """How many whole batches a pass over the samples has. Errors: a batch larger than the data."""
    if not 1 <= batch <= samples:
        raise ValueError(f"batch: expected a batch of at most {samples} samples, got {batch}")
    return samples // batch


STEPS_PER_EPOCH = steps_per_pass()


def loss(
    outputs: Float[Tensor, "three batch N"], kind: str = "paper", tau: float | Tensor = TEMPERATURE
) -> Float[Tensor, ""]:
    """The loss of one batch: outputs of views (x_1, x_+, x_-), not yet normalised.

    "paper": mean of log(1 + e^((r_+ - r_-) / tau)), ddn Eq. 2 with H = 1. "released": minus
    1 / (1 + e^((p - n) / tau)), with p, n the means of (y - y')^2 over batch and outputs, and
    y = f / (||f|| + 1e-4). Errors: another kind, temperature <= 0.
    """
    if kind not in LOSSES:
        raise ValueError(f"loss: expected one of {LOSSES}, got {kind!r}")
    if not isinstance(tau, Tensor) and not tau > 0:
        raise ValueError(f"tau: expected a temperature above 0, got {tau}")
    norm = torch.linalg.vector_norm(outputs, dim=-1, keepdim=True)
    if kind == "paper":
        y = outputs / norm
        plus, minus = (0.5 * (y[0] - y[k]).square().sum(-1) for k in (1, 2))
        return cross_entropy_of_gaps(((plus - minus) / tau)[..., None]).mean()
    y = outputs / (norm + 1e-4)
    plus, minus = ((y[0] - y[k]).square().mean() for k in (1, 2))
    return -torch.sigmoid((minus - plus) / tau)


def views(
    key: Int[Tensor, ""], tables: Config, batch: int, shuffled: bool = False
) -> Int[Tensor, "blocks views"]:
    """Patterns of leaves of x_1, x_+ and x_-, `batch` of each: x_1 and x_+ share their root, x_-
    has its own (which may be the same value). shuffled: x_+ has its own root too, a control."""
    roots = cr.bits(cr.fold_in(key, 1), (3, batch)) & 1
    if not shuffled:
        roots = torch.stack([roots[0], roots[0], roots[2]])
    return leaf_patterns.draw(cr.fold_in(key, 2), tables, roots.flatten())


def configuration(
    seed: int,
    low: float,
    width: int,
    depth: int = 5,
    kind: str = "paper",
    signs: bool = False,
    signed: bool = False,
    shuffled: bool = False,
) -> Config:
    """One run: polarities uniform on [low, 1] (with random signs where `signs`), `width` nodes a
    latent, leaves -1, 1 where `signed`. Errors: sizes, low outside [0, 1], unknown loss."""
    pattern_net.check_sizes(depth, width)
    if not 0 <= low <= 1:
        raise ValueError(f"low: expected the least polarity in [0, 1], got {low}")
    if kind not in LOSSES:
        raise ValueError(f"kind: expected one of {LOSSES}, got {kind!r}")
    flags = {"kind": kind, "signs": signs, "signed": signed, "shuffled": shuffled}
    return {"seed": seed, "lr": RATE, "low": low, "width": width, "depth": depth} | flags


def _setup(key: Tensor, c: Config) -> dict[str, Tensor]:
    polarity = leaf_patterns.random_polarity(cr.fold_in(key, 1), c["depth"], c["low"], c["signs"])
    made = {"polarity": polarity, "net": cr.fold_in(key, 2), "probe": cr.fold_in(key, 3)}
    return made | leaf_patterns.sampler(polarity)


def _init(key: Tensor, c: Config) -> dict[str, Tensor]:
    return pattern_net.init(c["net"], c["depth"], c["width"])


def _ahead(key: Tensor, step: Tensor, c: Config) -> dict[str, Tensor]:
    """The views of a step, which do not hang on what was learned before it."""
    return {"views": _data(cr.fold_in(key, step), step, c)[None]}


def _data(key: Tensor, step: Tensor, c: Config) -> Tensor:
    return c["views"] if "views" in c else views(key, c, BATCH, c["shuffled"])


def _loss(params: dict[str, Tensor], batch: Tensor, c: Config) -> Tensor:
    outputs = pattern_net.forward(params, batch, c["signed"])
    return loss(outputs.unflatten(0, (3, BATCH)), c["kind"])


PROBLEM: dict[str, Any] = {
    "ahead": _ahead,
    "init": _init,
    "data": _data,
    "loss": _loss,
    "setup": _setup,
    "static": ("depth", "width"),
}
"""The functions of one run, as `sweep.train` takes them."""


def metrics(
    latents: Sequence[str], nodes: Sequence[str], samples: int, each: bool = False
) -> Callable[[dict[str, Tensor], Config], dict[str, Tensor]]:
    """What is measured of a run, as `sweep.train` takes it; what `run` records."""

    def measure(params: dict[str, Tensor], c: Config) -> dict[str, Tensor]:
        found = {}
        for path in latents:
            best = tree_statistics.correlations(params, c["polarity"], path, c["signed"])
            found[f"nc_s{path}"] = best.abs().amax()
            if each:
                found |= {f"c_s{path}_{k}": value for k, value in enumerate(best)}
        if nodes:
            first = pattern_net.init(c["net"], c["depth"], c["width"])
            same = pattern_net.rescaled(params, first)
            for name, p in (("", params), ("_rescaled", same)):
                norms = tree_statistics.operator_norms(
                    p, c, c["probe"], nodes, samples, c["signed"]
                )
                for path, part in norms.items():
                    found |= {f"{what}{name}_s{path}": norm for what, norm in part.items()}
        return found

    return measure


def run(
    configs: Sequence[Config],
    epochs: float,
    record: Sequence[int] | int | None = None,
    latents: Sequence[str] = LATENTS,
    nodes: Sequence[str] = (),
    samples: int = 1024,
    device: str | torch.device = "cpu",
    chunk: int | None = None,
    checkpoint: Path | str | None = None,
    stop_after: float | None = None,
    progress: bool = True,
    each: bool = False,
) -> Result:
    """Train one run a configuration, for so many passes over 64000 samples.

    Recorded (steps of `record`, see `sweep.train`): nc_s..., the best absolute correlation of a
    latent in `latents` with the pre-activations of its group, exact; with `each`, c_s..._0 and so
    on, every node's with its sign; with `nodes`, own_s..., cov_s..., op_s... and unit_s..., the
    norms of `tree_statistics.operator_norms`, and own_rescaled_s... etc., the same after every
    layer was brought back to its norm at the start.
    """
    steps = round(epochs * STEPS_PER_EPOCH)
    return train(
        configs,
        **PROBLEM,
        steps=steps,
        metrics=metrics(latents, nodes, samples, each),
        record=record,
        device=device,
        chunk=chunk,
        checkpoint=checkpoint,
        stop_after=stop_after,
        progress=progress,
    )


def request(configs: Sequence[Config], epochs: float, **options: Any) -> Request:
    """`run` of these configurations, for a grid; options: its record, latents, nodes and so on."""
    options = {"epochs": epochs} | options
    return Request(run, configs, static=PROBLEM["static"], options=options)
