"""The two-layer net on images with four receptive fields, and its filters: nl App. E.3.

An image is cut into quarters, upper left, upper right, lower left, lower right; each is one field's
input, row by row, with values in [0, 1]. A field has 10 beta filters, and a linear top layer sees
all of them. Two views of an image are a positive pair: with `crop`, two random resized crops;
without, the image twice, so that only the negatives pull. Loss, rates and protocols are those of
`token_sequences`.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from clcore import random as cr
from clcore.experiments import token_sequences as ts
from clcore.grid import Grid, Request
from clcore.images import augmentations as aug
from clcore.images.filter_variation import total_variation
from clcore.nets.networks import receptive_field, receptive_field_init
from clcore.sweep import Result, train
from clcore.sweep.configs import Config
from clcore.sweep.optim import Params, unit_rows

FIELDS, FILTERS, BATCH, STEPS, TRAIN = 4, 10, 8, 50_000, 50_000
SCALE, RATIO = aug.RECIPES["mnist"].scale, aug.RECIPES["mnist"].ratio
ARMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "crop": {"crop": True},
    "linear": {"activation": "linear"},
}
"""ReLU nets without and with random resized crops (nl Figs. 12, 13), and linear ones without."""
STATIC = ("batch", "beta", "filters")
MEASURES = ("tv", "tv_shuffled", "high", "rank", "match", "match_shuffled", "norm")


def quarters(x: Float[Tensor, "*b h w"]) -> Float[Tensor, "*b four d"]:
    """The four fields of images as vectors. Errors: a side that is odd or not square."""
    h, w = x.shape[-2:]
    if h != w or h % 2:
        raise ValueError(f"x: expected square images of an even side, got {h} x {w} pixels")
    cut = x.unflatten(-1, (2, w // 2)).unflatten(-3, (2, h // 2))
    return cut.transpose(-2, -3).flatten(-2).flatten(-3, -2)


def assemble(fields: Float[Tensor, "*b four d"]) -> Float[Tensor, "*b h w"]:
    """The images whose `quarters` these are."""
    side = round(fields.shape[-1] ** 0.5)
    cut = fields.unflatten(-1, (side, side)).unflatten(-3, (2, 2))
    return cut.transpose(-2, -3).flatten(-2).flatten(-3, -2)


# --------------------------------------------------------------------------------------- measures


def _scaled(W: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """Filters with a largest weight of 1: those that decayed for long have squares that underflow,
    but a direction still."""
    top = W.abs().amax(-1, keepdim=True)
    return W / torch.where(top > 0, top, 1.0)


def roughness(W: Float[Tensor, "*b M d"]) -> Float[Tensor, "*b M"]:
    """Total variation of each filter at norm 1."""
    side = round(W.shape[-1] ** 0.5)
    return total_variation(unit_rows(W).unflatten(-1, (1, side, side)))


def high_frequency(W: Float[Tensor, "*b M d"]) -> Float[Tensor, "*b M"]:
    """Share of each filter's energy at spatial frequencies above a quarter of the sampling rate,
    half the Nyquist radius (two-dimensional Fourier transform)."""
    side = round(W.shape[-1] ** 0.5)
    energy = torch.fft.fft2(W.unflatten(-1, (side, side))).abs().square()
    rate = torch.fft.fftfreq(side, device=W.device, dtype=W.dtype)
    far = (rate[:, None] ** 2 + rate**2).sqrt() > 0.25
    return (energy * far).sum((-1, -2)) / energy.sum((-1, -2))


def effective_rank(W: Float[Tensor, "*b M d"]) -> Float[Tensor, "*b"]:
    """exp of the entropy of the eigenvalues of the filters' Gram matrix at norm 1, each as a share
    of their sum: 1 if all are one up to sign, M if they are orthogonal."""
    w = unit_rows(W)
    share = torch.linalg.eigvalsh(w @ w.transpose(-1, -2)).clamp(min=1e-12)
    share = share / share.sum(-1, keepdim=True)
    return torch.exp(-(share * share.log()).sum(-1))


def best_match(
    W: Float[Tensor, "*b K M d"], patches: Float[Tensor, "P K d"]
) -> Float[Tensor, "*b K M"]:
    """The largest cosine of each filter with a patch of its field."""
    return (unit_rows(W) @ unit_rows(patches).permute(1, 2, 0)).amax(-1)


def alive(W: Float[Tensor, "*b K M d"], patches: Float[Tensor, "P K d"]) -> Bool[Tensor, "*b K M"]:
    """Whether a patch of its field excites a filter. A ReLU that none excites learns nothing more
    and keeps the shape that it happened to have."""
    return (_scaled(W) @ patches.permute(1, 2, 0) > 0).any(-1)


def shuffled(W: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """Filters with their pixels in another order, one order for all: what is left of a measure when
    the picture is taken out of it."""
    return W[..., cr.permutation(cr.key(0, device=W.device), W.shape[-1])]


def measures(W: Float[Tensor, "K M d"], patches: Float[Tensor, "P K d"]) -> dict[str, Tensor]:
    """Means over a field's filters, named `tv0` ... `norm3`. *_shuffled: the same of `shuffled`."""
    norm, W = torch.linalg.vector_norm(W, dim=-1), _scaled(W)
    mixed = shuffled(W)
    found = {
        "tv": roughness(W).mean(-1),
        "tv_shuffled": roughness(mixed).mean(-1),
        "high": high_frequency(W).mean(-1),
        "rank": effective_rank(W),
        "match": best_match(W, patches).mean(-1),
        "match_shuffled": best_match(mixed, patches).mean(-1),
        "norm": norm.mean(-1),
    }
    return {f"{name}{k}": values[k] for name, values in found.items() for k in range(W.shape[0])}


# --------------------------------------------------------------------------------------- the runs


def configuration(
    seed: int,
    beta: int = 1,
    activation: str = "relu",
    protocol: str = "paper",
    crop: bool = False,
    batch: int = BATCH,
) -> Config:
    """One run; learning rate, momentum and weight decay are those of the token runs.

    scale: the factor of the mean of the cross-entropies. The paper's loss, tau times their
    sum, is tau N times the mean, so that both protocols are one tensor. Errors: beta < 1, a batch
    of one, an unknown name.
    """
    token = ts.configuration(seed, 1, beta, activation, "infonce", protocol, batch=batch)
    kept = ("seed", "lr", "momentum", "weight_decay", "activation", "batch")
    scale = ts.TEMPERATURE * batch if protocol == "paper" else 1.0
    sizes = {"beta": beta, "filters": FILTERS * beta, "crop": bool(crop), "scale": scale}
    return {name: token[name] for name in kept} | sizes


def problem(pixels: UInt8[Tensor, "n h w"], patches: Float[Tensor, "P K d"]) -> dict[str, Any]:
    """The functions of one run, as `sweep.train` takes them, on these images.

    A run goes through the images in its own order, the same in every epoch. Errors: images
    that are not square, fewer than a batch.
    """
    count, side = pixels.shape[0], pixels.shape[-1]
    if pixels.shape[-2] != side:
        raise ValueError(f"pixels: expected square images, got {tuple(pixels.shape[-2:])}")

    def setup(key: Tensor, c: Config) -> dict[str, Tensor]:
        if c["batch"] > count:
            raise ValueError(
                f"batch: expected at most the {count} images there are, got {c['batch']}"
            )
        return {"order": cr.permutation(key, count)}

    def init(key: Tensor, c: Config) -> Params:
        d = side * side // FIELDS
        return receptive_field_init(key, FIELDS, c["filters"], d, ts.OUTPUTS)

    def data(key: Tensor, step: Tensor, c: Config) -> Tensor:
        at = (step * c["batch"] + torch.arange(c["batch"], device=pixels.device)) % count
        x = pixels[c["order"][at]].float() / 255
        if not c["crop"]:
            return quarters(x)[None]
        both = torch.cat([x, x])
        box = aug.crop_boxes(key, 2 * c["batch"], side, side, SCALE, RATIO)
        cut = aug.crop_resize(both[:, None], box, side)[:, 0]
        return quarters(cut).unflatten(0, (2, c["batch"]))

    def loss(params: Params, views: Tensor, c: Config) -> Tensor:
        z = receptive_field(params, views.flatten(0, 1), c["activation"])
        z = z.unflatten(0, views.shape[:2])
        # The one view of an uncropped image is both views of its pair.
        return c["scale"] * ts.loss(z.expand(2, *z.shape[1:]), "infonce", "released")

    def metrics(params: Params, c: Config) -> dict[str, Tensor]:
        return measures(params["W"], patches)

    return {
        "init": init,
        "data": data,
        "loss": loss,
        "setup": setup,
        "metrics": metrics,
        "static": STATIC,
    }


def stack(
    configs: Sequence[Config],
    pixels: np.ndarray,
    patches: np.ndarray,
    steps: int,
    record: Sequence[int] | None = None,
    device: str | torch.device = "cpu",
    checkpoint: Path | str | None = None,
    progress: bool = False,
) -> Result:
    """Train runs on these images as one tensor: `problem` by `sweep.train`."""
    parts = problem(torch.tensor(pixels).to(device), torch.tensor(patches).to(device))
    own = {"device": device, "checkpoint": checkpoint, "progress": progress}
    return train(configs, **parts, steps=steps, record=record, **own)


def nets(
    pixels: UInt8[Tensor, "n h w"],
    patches: Float[Tensor, "P K d"],
    arms: Sequence[str],
    seeds: Sequence[int],
    beta: int = 2,
    steps: int = STEPS,
    record: Sequence[int] | None = None,
    grid: Grid | None = None,
) -> dict[str, Result]:
    """Train arms under both protocols, one run per seed and protocol; `measures` are taken against
    `patches` that no run is trained on.

    grid: who trains, and where results are kept; None trains here and keeps nothing. Errors: an
    unknown arm.
    """
    for arm in arms:
        if arm not in ARMS:
            raise ValueError(f"arm: expected one of {', '.join(ARMS)}, got {arm!r}")
    shared = {"pixels": pixels.cpu().numpy(), "patches": patches.cpu().numpy()}
    inputs = {name: joblib.hash(array) for name, array in shared.items()}
    requests = [
        Request(
            stack,
            [
                configuration(seed, beta, protocol=protocol, **ARMS[arm])
                for protocol in ts.RATES
                for seed in seeds
            ],
            static=STATIC,
            options={"steps": steps, "record": None if record is None else list(record)},
            shared=shared,
            inputs=inputs,
            tensors=True,
        )
        for arm in arms
    ]
    found = (grid or Grid(progress=False)).gather(requests)
    return dict(zip(arms, found, strict=True))


def living(result: Result, arm: str, patches: Float[Tensor, "P K d"]) -> pd.DataFrame:
    """One row a trained net and field: arm, protocol, seed, field, loss, the share of the field's
    filters that are `alive`, and of these filters MEASURES, and `high_centred` (`_shuffled`), the
    share of high frequencies in what is left without a filter's mean."""
    last = result.table[result.table.step == result.table.step.max()]
    rows = []
    for r in last.assign(protocol=_protocol).itertuples():
        W = result.params(r.run)["W"].cpu()
        lives = alive(W, patches)
        for k in range(FIELDS):
            kept = W[k : k + 1, lives[k]]
            found = {m[:-1]: float(v) for m, v in measures(kept, patches[:, k : k + 1]).items()}
            centred = _scaled(kept) - _scaled(kept).mean(-1, keepdim=True)
            found["high_centred"] = float(high_frequency(centred).mean())
            found["high_centred_shuffled"] = float(high_frequency(shuffled(centred)).mean())
            net = {"arm": arm, "protocol": r.protocol, "seed": r.seed, "field": k, "loss": r.loss}
            rows.append(net | {"alive": float(lives[k].float().mean())} | found)
    return pd.DataFrame(rows)


def collapsed(ends: pd.DataFrame) -> pd.Series:
    """Of rows of `living`, those of nets that give all images of a batch the same output: their
    loss is that of guessing, ln N."""
    scale = ends.protocol.map({p: configuration(0, protocol=p)["scale"] for p in ts.RATES})
    return ends.loss > 0.99 * scale * math.log(BATCH)


def _protocol(table: pd.DataFrame) -> pd.Series:
    rates = {rate: name for name, rate in ts.RATES.items()}
    return table.lr.map(rates)


def tidy(result: Result, arm: str) -> pd.DataFrame:
    """One row a run, step and field: arm, protocol, seed, beta, step, field, loss, MEASURES."""
    table = result.table.assign(arm=arm, protocol=_protocol(result.table))
    on = ["arm", "protocol", "seed", "beta", "step", "loss"]
    rows = [
        table[on].assign(field=k, **{m: table[f"{m}{k}"] for m in MEASURES}) for k in range(FIELDS)
    ]
    return pd.concat(rows).sort_values([*on[:-1], "field"], ignore_index=True)


def tiles(result: Result, arm: str, count: int = 10) -> pd.DataFrame:
    """The first filters of every field of the first seed's nets, small enough to be kept.

    A row a filter: arm, protocol, field, filter, pixels, which are bytes in hexadecimal digits: 128
    is zero and 1 or 255 the largest absolute weight.
    """
    first = result.table[result.table.step == 0].assign(protocol=_protocol)
    rows = []
    for r in first[first.seed == first.seed.min()].itertuples():
        W = result.params(r.run)["W"][:, :count].cpu()
        code = (127 * _scaled(W)).round().add(128).to(torch.uint8)
        for k, of_field in enumerate(code):
            rows += [
                (arm, r.protocol, k, m, bytes(pixels.tolist()).hex())
                for m, pixels in enumerate(of_field)
            ]
    return pd.DataFrame(rows, columns=["arm", "protocol", "field", "filter", "pixels"])


def montage(kept: pd.DataFrame, columns: int = 10, gap: int = 1) -> Float[Tensor, "rows columns"]:
    """Rows of `tiles` as one picture, a line of filters a field, in [-1, 1]; NaN between them."""
    lines = []
    for _, part in kept.sort_values(["field", "filter"]).groupby("field"):
        codes = torch.tensor([list(bytes.fromhex(text)) for text in part.pixels[:columns]])
        side = round(codes.shape[-1] ** 0.5)
        squares = (codes.float().unflatten(-1, (side, side)) - 128) / 127
        padded = torch.nn.functional.pad(squares, (0, gap, 0, gap), value=torch.nan)
        lines.append(torch.cat(list(padded), dim=1))
    return torch.cat(lines)
