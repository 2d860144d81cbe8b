"""The measures of a pretrained net, after an epoch."""

import dataclasses
import math
from typing import Any

import torch

from clcore.experiments.trainer import Trainer
from clcore.images.evaluation import NEIGHBOURS, features, knn, linear_probe
from clcore.images.filter_variation import total_variation
from clcore.images.image_sets import ImageSet
from clcore.nets.resnet import first_convolutions


def _labelled(images: ImageSet) -> ImageSet:
    at = images.labels >= 0
    if at.all():
        return images
    return dataclasses.replace(images, pixels=images.pixels[at], labels=images.labels[at])


def evaluated(trainer: Trainer, train: ImageSet, test: ImageSet) -> dict[str, Any] | None:
    """Accuracies, and per layer the means over filters of total variation (as they are, and at
    norm 1) and of norms; None where features are not finite."""
    backbone, device = trainer.backbone, trainer.device
    parts = []
    for images in (_labelled(train), test):
        labels = torch.tensor(images.labels, device=device)  # a copy: maps are read-only
        parts += [features(backbone, images, device), labels]
    if not all(found.isfinite().all() for found in parts[::2]):
        return None
    probe = linear_probe(*parts)
    found = {"linear": probe.accuracy, "converged": probe.converged}
    found["knn"] = knn(*parts, k=min(NEIGHBOURS, len(parts[0])))
    for name, w in first_convolutions(backbone).items():
        variation, norm = total_variation(w), w.flatten(1).norm(dim=1)
        found[f"tv_{name}"] = float(variation.mean())
        found[f"unit_{name}"] = float((variation / norm).mean())
        found[f"norm_{name}"] = float(norm.mean())
    return found


def columns(trainer: Trainer) -> dict[str, Any]:
    """What `evaluated` would find, without numbers."""
    layers = first_convolutions(trainer.backbone)
    names = [f"{kind}_{layer}" for layer in layers for kind in ("tv", "unit", "norm")]
    return {"linear": math.nan, "converged": False, "knn": math.nan} | dict.fromkeys(
        names, math.nan
    )
