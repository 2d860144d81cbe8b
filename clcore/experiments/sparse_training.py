"""Training encoders on sparse coding data, contrastive and non-contrastive: ncl Sec. 4.2, 5.2.2.

Protocols: "paper" as printed in ncl, "released" as in the authors' program. Differences, and our
choices where ncl states nothing:

| item              | paper                           | released                           |
|-------------------|---------------------------------|------------------------------------|
| samples, rate     | 1000, 0.025                     | 3000, 0.005                        |
| latents           | "iid" (`sparse_coding.READINGS`) | "fixed"                            |
| noise             | "std"                           | "released"                         |
| symmetric ReLU    | Eq. 14 on W x                   | ReLU(u) - ReLU(2b - u), u = Wx + b |
| biases at start   | 0                               | uniform, +-1/sqrt(fan-in)          |
| head at start     | N(0, 1/(pd)), bias 0            | uniform, +-1/sqrt(m)               |
| contrastive loss  | Eq. 8, N - 1 negatives, cosines | NT-Xent, 2N - 2 negatives          |
| SimSiam           | encoder, linear predictor       | a projector between, BN, ReLU      |

In both, from the program: temperature 0.05 (tau = 20 in Eq. 8); BatchNorm with a trained gain and
shift and statistics of each view; biases are trained; the second layer of a two-layer encoder has
its own BatchNorm and symmetric ReLU, is m x m, and Eq. 11 reads the first; the online network is
the one that is scored; a minibatch updates one of the two networks, online first in every epoch,
and a predictor, which both share, every time. A last incomplete batch is dropped by the contrastive
losses and kept by the others: with 1000 samples in batches of 512 an epoch that dropped it would be
one batch, and the target would never be trained. Rows or columns are normalised after updates only.
Left open by both: data are drawn anew for every run, SGD has neither momentum nor weight decay.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clcore import random as cr
from clcore.experiments import sparse_gradients, sparse_models
from clcore.experiments.sparse_models import BOTH
from clcore.grid import Request
from clcore.sweep import Result, train
from clcore.sweep.configs import Config
from clcore.sweep.optim import Params, unit_norm
from clcore.theory.sparse import sparse_coding as sc

EPOCHS, BATCH, TEMPERATURE = 8000, 512, 0.05
P, D, M = 50, 10, 50

PROTOCOLS: dict[str, dict] = {
    "paper": {"n": 1000, "lr": 0.025, "latent": "iid", "noise": "std", "start": "normal"},
    "released": {
        "n": 3000,
        "lr": 0.005,
        "latent": "fixed",
        "noise": "released",
        "start": "uniform",
    },
}
"""The settings among the module's table; the rest goes by the protocol's name."""

_BASE = {"loss": "non-contrastive", "bn": True, "relu": True, "layers": 1, "head": False}
MODELS: dict[str, dict] = {
    "NCL-linear": _BASE | {"bn": False, "relu": False},
    "NCL-srelu": _BASE | {"bn": False},
    "NCL-basic": _BASE,
    "NCL-basic-2L": _BASE | {"layers": 2},
    "NCL-srelu-2L": _BASE | {"bn": False, "layers": 2},
    "NCL-pred": _BASE | {"head": True},
    "NCL-srelu-pred": _BASE | {"bn": False, "head": True},
    "CL-linear": _BASE | {"loss": "contrastive", "bn": False, "relu": False},
    "CL-srelu": _BASE | {"loss": "contrastive", "bn": False},
    "CL-basic": _BASE | {"loss": "contrastive"},
    "Simplified-SimCLR": _BASE | {"loss": "nt-xent", "head": True},
    "Simplified-SimSiam": _BASE | {"loss": "simsiam", "head": True},
}
"""Names of ncl Table 1 and 2; "srelu" has no BatchNorm (Fig. 1, 8, 9), "pred" a predictor."""

UPDATES = {"by turns": (0, 1), "target first": (1, 0), "together": (BOTH,)}
"""Which network learns, minibatch by minibatch: 0 the online one, 1 the target, or BOTH."""

STATIC = ("n", "p", "d", "m", "batch", "layers", "per_epoch", "keep", "temperature")


def _check_sizes(n: int, p: int, d: int, m: int, batch: int) -> None:
    for name, value in {"n": n, "p": p, "d": d, "m": m, "batch": batch}.items():
        if int(value) != value or value < 1:
            raise ValueError(f"{name}: expected an int >= 1, got {value}")
    if d > p:
        raise ValueError(f"d: expected d <= p (orthonormal columns), got d={d}, p={p}")
    if not 2 <= batch <= n:
        raise ValueError(f"batch: expected 2 <= batch <= n={n} samples, got {batch}")


def _check_networks(loss: str, unit: bool, updates: str, model: str) -> None:
    if updates not in UPDATES:
        raise ValueError(f"updates: expected one of {', '.join(UPDATES)}, got {updates!r}")
    for name, given in {"unit": not unit, "updates": updates != "by turns"}.items():
        if given and loss != "non-contrastive":
            raise ValueError(f"{name}: is for non-contrastive losses alone, {model} is {loss}")


def _warm_start(warm: float | None, kind: str, m: int, p: int, d: int) -> Config:
    """The settings of the start, random if `warm` is None."""
    sc.one_of("warm", kind)
    if warm is None:
        return {"warm": -1.0, "start": "random"}
    if not 0 <= warm < math.inf:
        raise ValueError(f"warm: expected a standard deviation >= 0, got {warm}")
    if kind == "rows" and m < d:
        raise ValueError(f"warm_kind: 'rows' needs m >= d, got m={m}, d={d}; use 'replacement'")
    if kind == "columns" and m != p:
        raise ValueError(f"warm_kind: 'columns' needs m = p, got m={m}, p={p}")
    return {"warm": warm, "start": kind}


def configuration(
    seed: int,
    model: str,
    pr: float = 0.1,
    protocol: str = "paper",
    *,
    keep: float = 0.5,
    warm: float | None = None,
    normalise: str = "none",
    unit: bool = True,
    plain: bool = False,
    mask: str = "independent",
    latent: str | None = None,
    noise: str | float | None = None,
    warm_kind: str = "rows",
    updates: str = "by turns",
    m: int = M,
    p: int = P,
    d: int = D,
    n: int | None = None,
    batch: int = BATCH,
    lr: float | None = None,
    temperature: float = TEMPERATURE,
) -> Config:
    """One run.

    pr: ncl's Pr(sparse), beta; keep: Bernoulli parameter of the masks (1 - masking probability);
    warm: std of the noise of a warm start, None is a random start; normalise: "rows" or "columns"
    after every update; unit: whether the loss sees directions (Eq. 4) or the outputs themselves,
    non-contrastive models only; plain: the ReLU of Sec. 5.2.2 in place of
    Sec. 4.2's symmetric one; updates: one of UPDATES, of two networks; latent, noise, mask,
    warm_kind: readings, noise also a standard deviation; n, lr, latent, noise are the protocol's
    unless given. Errors: unknown names, sizes that do not fit, a mask that keeps nothing, a batch
    larger than the data, a temperature below 0.025.
    """
    if model not in MODELS:
        raise ValueError(f"model: expected one of {', '.join(MODELS)}, got {model!r}")
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol: expected one of {', '.join(PROTOCOLS)}, got {protocol!r}")
    kind, chosen = MODELS[model], PROTOCOLS[protocol]
    latent, n = latent or chosen["latent"], n or chosen["n"]
    noise = chosen["noise"] if noise is None else noise
    sigma = sc.noise_std(d, noise) if isinstance(noise, str) else noise
    if not 0 <= sigma < math.inf:
        raise ValueError(f"noise: expected a reading or a standard deviation >= 0, got {noise}")
    for name, value in (("latent", latent), ("mask", mask)):
        sc.one_of(name, value)
    _check_sizes(n, p, d, m, batch)
    start = _warm_start(warm, warm_kind, m, p, d)
    if not 0 < pr <= 1:
        raise ValueError(f"pr: expected a probability, 0 < pr <= 1, got {pr}")
    if not 2.0**-sc.PLACES <= keep <= 1:
        raise ValueError(f"keep: expected 2^-{sc.PLACES} <= keep <= 1, got {keep}")
    if normalise not in ("none", "rows", "columns"):
        raise ValueError(f"normalise: expected none, rows or columns, got {normalise!r}")
    if not temperature >= 0.025:
        raise ValueError(f"temperature: expected at least 0.025 (float32), got {temperature}")
    loss = kind["loss"]
    _check_networks(loss, unit, updates, model)
    if loss == "contrastive" and protocol == "released":
        loss = "nt-xent"
    drops = loss in ("contrastive", "nt-xent")
    per_epoch = n // batch if drops else -(-n // batch)
    if loss == "non-contrastive" and per_epoch == 1 and updates != "together":
        raise ValueError(
            f"batch: one batch per epoch (n={n}, batch={batch}) would never train the target; "
            "take batch < n"
        )
    if plain and not kind["relu"]:
        raise ValueError(f"plain: is for models with an activation, {model} has none")
    model_settings = {name: kind[name] for name in ("bn", "relu", "head", "layers")}
    model_settings["plain"] = bool(plain)
    names = {"model": model, "protocol": protocol, "loss_kind": loss, "normalise": normalise}
    readings = {"mask": mask, "latent": latent, "unit": bool(unit), "updates": updates}
    sizes = {"m": m, "p": p, "d": d, "n": n, "batch": batch, "per_epoch": per_epoch}
    numbers = {"pr": pr, "keep": keep, "sigma": sigma, "temperature": temperature}
    rate = chosen["lr"] if lr is None else lr
    return {"seed": seed, "lr": rate} | names | numbers | readings | start | model_settings | sizes


def steps(config: Config, epochs: int = EPOCHS) -> int:
    """Updates in that many epochs."""
    return epochs * config["per_epoch"]


# ------------------------------------------------------------------------------- data, parameters


def _setup(key: Tensor, c: Config) -> dict[str, Tensor]:
    atoms, code, noise, order = cr.split(key, 4)
    dictionary = sc.dictionary(atoms, c["p"], c["d"])
    z = sc.latents(code, c["n"], c["d"], c["pr"], c["latent"])
    x = sc.samples(noise, dictionary, z, c["sigma"])
    return {"dictionary": dictionary, "x": x, "order": order}


def _networks(c: Config) -> int:
    return 2 if c["loss_kind"] == "non-contrastive" else 1


def _uniform(key: Tensor, shape: tuple[int, ...], fan_in: int) -> Tensor:
    return cr.uniform(key, shape, -(fan_in**-0.5), fan_in**-0.5)


def _bias(key: Tensor, shape: tuple[int, ...], fan_in: int, c: Config) -> Tensor:
    released = c["protocol"] == "released"
    return _uniform(key, shape, fan_in) if released else torch.zeros(shape)


def _square(key: Tensor, c: Config) -> tuple[Tensor, Tensor]:
    """Weights and bias of an m x m head."""
    m = c["m"]
    weights, bias = cr.split(key)
    if c["protocol"] == "released":
        return _uniform(weights, (m, m), m), _bias(bias, (m,), m, c)
    return sc.random_start(weights, m, m, c["d"]) * (m / c["p"]) ** 0.5, torch.zeros(m)


def _init(key: Tensor, c: Config) -> Params:
    """Encoder tensors have the networks (online and target, or one) on the first axis."""
    m, p, d, nets = c["m"], c["p"], c["d"], _networks(c)
    first, second, biases, heads = cr.split(key, 4)
    keys = cr.split(first, nets)
    if c["start"] == "random":
        W = [sc.random_start(keys[i], m, p, d) for i in range(nets)]
    else:
        found = c["dictionary"]
        W = [sc.warm_start(keys[i], found, m, c["warm"], c["start"]) for i in range(nets)]
    params = {"W": torch.stack(W), "b": _bias(biases, (nets, m), p, c)}
    if c["layers"] == 2:
        deeper = cr.split(second, nets)
        # N(0, 1/(fan-in d)), as the program starts it.
        params["W2"] = torch.stack([sc.random_start(deeper[i], m, m, d) for i in range(nets)])
        params["b2"] = _bias(cr.fold_in(biases, 1), (nets, m), m, c)
    if c["bn"]:
        for suffix in ("", "2")[: c["layers"]]:
            params |= {"gain" + suffix: torch.ones(nets, m), "shift" + suffix: torch.zeros(nets, m)}
    if c["head"]:
        params["P"], params["q"] = _square(heads, c)
    if _has_projector(c):
        params["R"], params["r"] = _square(cr.fold_in(heads, 1), c)
        params |= {"gainR": torch.ones(m), "shiftR": torch.zeros(m)}
    return params


def _has_projector(c: Config) -> bool:
    return c["loss_kind"] == "simsiam" and c["protocol"] == "released"


def turns(c: Config) -> list[Config]:
    """Of every step of an epoch, which network learns, 0 the online one or BOTH, and how many
    samples the batch has: settings by which a step is more than its configuration."""
    order = UPDATES[c["updates"]] if _networks(c) == 2 else (0,)
    rows = [min(c["batch"], c["n"] - at * c["batch"]) for at in range(c["per_epoch"])]
    return [{"turn": order[at % len(order)], "rows": size} for at, size in enumerate(rows)]


def _order(epoch: Tensor, c: Config) -> Tensor:
    """The samples of an epoch, batch by batch; a last, incomplete batch is filled up."""
    order = cr.permutation(cr.fold_in(c["order"], epoch), c["n"])
    size = c["per_epoch"] * c["batch"]
    return torch.cat([order, order[-1:].expand(max(size - c["n"], 0))])[:size]


def _words(keys: Tensor, c: Config) -> Tensor:
    return sc.mask_words(keys, c["batch"], c["p"], c["keep"], c["mask"])


def _ahead(key: Tensor, epoch: Tensor, c: Config) -> dict[str, Tensor]:
    """Of every step of an epoch its samples and the bits of its masks."""
    steps = epoch * c["per_epoch"] + torch.arange(c["per_epoch"])
    keys = cr.fold_in(key, steps)
    return {"samples": _order(epoch, c).unflatten(0, (-1, c["batch"])), "words": _words(keys, c)}


def _data(key: Tensor, step: Tensor, c: Config) -> Tensor:
    """Both views of a minibatch; c: with the step's entry of `turns`, and what is drawn ahead."""
    if "words" in c:
        samples, words = c["samples"], c["words"]
    else:
        epoch = torch.div(step, c["per_epoch"], rounding_mode="floor")
        place = (step - epoch * c["per_epoch"]) * c["batch"] + torch.arange(c["batch"])
        samples, words = _order(epoch, c)[place], _words(key, c)
    # embedding takes rows; batched over runs it is much faster than an index.
    x = torch.nn.functional.embedding(samples[: c["rows"]], c["x"])
    return sc.views_of_words(x, words, c["batch"], c["mask"])


# ---------------------------------------------------------------------------------------- metrics


def metrics(params: Params, c: Config) -> dict[str, Tensor]:
    """Max-cosines of the online network's first layer and of the product of its layers; Frobenius
    norm of the first and its effective rank, (sum of squared singular values)^2 / sum of fourth
    powers: 1 when all rows are parallel, at most min(m, p)."""
    W = params["W"][0]
    product = params["W2"][0] @ W if "W2" in params else W
    found = sc.summary(sc.max_cosine(W, c["dictionary"]))
    found |= {
        f"product_{n}": v for n, v in sc.summary(sc.max_cosine(product, c["dictionary"])).items()
    }
    direction = unit_norm(W)  # so that a tiny W does not underflow
    gram = (direction @ direction.mT).square().sum()
    rank = torch.where(gram > 0, 1 / gram.clamp(min=1e-12), 0.0)
    return found | {"norm": torch.linalg.vector_norm(W), "rank": rank}


def _project(params: Params, c: Config) -> Params:
    return params | {"W": sc.normalised(params["W"], c["normalise"])}


PROBLEM: dict[str, Any] = {
    "init": _init,
    "data": _data,
    "loss": sparse_models.loss_of,
    "gradient": sparse_gradients.gradient,
    "turns": turns,
    "ahead": _ahead,
    "setup": _setup,
    "project": _project,
    "static": STATIC,
}
"""The functions of one run, as `sweep.train` takes them."""

GRID = (0, 1, 2, 5, 10, 20, 50, 100, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 4000, 5000, 6000)
GRID = (*GRID, 7000, 8000)
"""Epochs at which metrics are recorded."""


def run(
    configs: Sequence[Config],
    epochs: int = EPOCHS,
    record: Sequence[int] = GRID,
    device: str | torch.device = "cpu",
    chunk: int | None = None,
    compile: bool = False,
    checkpoint: Path | str | None = None,
    stop_after: float | None = None,
    progress: bool = True,
) -> Result:
    """Train one run a configuration; runs of one model and shape are one tensor.

    record: epochs to record besides the first (untrained encoders) and the last. The table gets a
    column `epoch`. Errors: configurations with different numbers of batches an epoch.
    """
    sizes = sorted({c["per_epoch"] for c in configs})
    if len(sizes) > 1:
        raise ValueError(
            f"configs: batches per epoch differ ({', '.join(map(str, sizes))}); train contrastive "
            "and non-contrastive runs, and runs of different n, in separate calls"
        )
    found = train(
        configs,
        **PROBLEM,
        steps=epochs * sizes[0] if sizes else epochs,
        metrics=metrics,
        record=[e * sizes[0] for e in record if 0 <= e <= epochs] if sizes else None,
        device=device,
        chunk=chunk,
        compile=compile,
        checkpoint=checkpoint,
        stop_after=stop_after,
        progress=progress,
    )
    found.table["epoch"] = found.table.step / found.table.per_epoch
    return found


def request(
    configs: Sequence[Config], epochs: int, record: Sequence[int], chunk: int | None = None
) -> Request:
    """`run` of these configurations, for a grid."""
    options = {"epochs": epochs, "record": list(record)}
    return Request(run, configs, static=STATIC, chunk=chunk, options=options)
