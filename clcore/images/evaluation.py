"""Quality of a frozen encoder: a linear classifier and nearest neighbours on its features.

Features are computed once, without augmentation, in evaluation mode (ddn Sec. 7)."""

import logging
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from scipy.optimize import minimize
from torch import Tensor, nn

from clcore.images.image_sets import ImageSet
from clcore.images.probes import classes_of, scale_of
from clcore.sweep.optim import directions

log = logging.getLogger(__name__)

NEIGHBOURS, SHARPNESS = 20, 0.07
PENALTY, STEPS, TOLERANCE = 1e-3, 1000, 1e-5
BLOCK = 2**24  # numbers of a table of images and classes at a time: 128 MiB of float64


def require_labels(images: ImageSet, unlabelled: bool = False) -> None:
    """Raise ValueError for labels that name no class; -1 may stand for none with `unlabelled`."""
    count = len(images.classes)
    least = -1 if unlabelled else 0
    wrong = np.flatnonzero((images.labels < least) | (images.labels >= count))
    if len(wrong):
        raise ValueError(
            f"{images.label} ({images.split}): expected labels of {least} to {count - 1} for "
            f"{count} classes, got {images.labels[wrong[0]]} for image {wrong[0]} and "
            f"{len(wrong) - 1} more such; the labels do not belong to this data set"
        )


@torch.no_grad()
def features(
    net: nn.Module, images: ImageSet, device: torch.device | str = "cpu", batch: int = 500
) -> Float[Tensor, "n d"]:
    """Outputs of a net (a ResNet, without its projector) for all images, values in [0, 1], on the
    device. The net is left in the mode it was in."""
    training = net.training
    net.eval()
    try:
        found = []
        for at in range(0, len(images), batch):
            pixels = torch.from_numpy(np.array(images.pixels[at : at + batch])).to(device)
            found.append(net(pixels.float() / 255).float())
        return torch.cat(found)
    finally:
        net.train(training)


def _require_numbers(train: Tensor, test: Tensor) -> None:
    if not (len(train) and len(test)):
        raise ValueError(
            f"features: expected some to train and to test on, got {len(train)} and {len(test)}"
        )
    if not (train.isfinite().all() and test.isfinite().all()):
        raise ValueError("features: expected finite numbers, got NaN or infinity; the net diverged")


@dataclass(frozen=True)
class Probe:
    """accuracy: top-1 on the test part, in [0, 1]; converged: whether the gradient's largest entry
    fell below TOLERANCE; steps: of L-BFGS.

    Examples:
        >>> Probe(accuracy=0.9, converged=True, steps=12).accuracy
        0.9
    """

    accuracy: float
    converged: bool
    steps: int


def linear_probe(
    train: Float[Tensor, "n d"],
    train_labels: Integer[Tensor, "n"],
    test: Float[Tensor, "m d"],
    test_labels: Integer[Tensor, "m"],
    penalty: float = PENALTY,
    steps: int = STEPS,
) -> Probe:
    """Multinomial logistic regression on frozen features, by L-BFGS to convergence.

    Features are standardised by the training part. The mean cross entropy plus `penalty` / 2 times
    the squared norm of the weights (not the intercepts) is strictly convex in the weights: there is
    one solution, and no rate or number of epochs to choose. In float64 on the features' device, in
    blocks of BLOCK / classes images. Without convergence in `steps` steps it warns.
    Labels are class numbers of any integer type, with gaps or without. Errors: penalty <= 0;
    features that are not finite; no test part; labels that are negative or not one per sample.

    Examples:
        >>> labels = torch.tensor([0, 1] * 10)
        >>> x = labels[:, None] + 0.1 * torch.randn(20, 1)
        >>> linear_probe(x[:10], labels[:10], x[10:], labels[10:]).accuracy
        1.0
    """
    if penalty <= 0:
        raise ValueError(f"penalty: expected a number above 0, got {penalty}; it makes the optimum")
    occur, place = classes_of(train, train_labels, test, test_labels)
    _require_numbers(train, test)
    mean, scale = train.double().mean(0), scale_of(train.double())[0]
    a, b = ((part.double() - mean).div_(scale) for part in (train, test))
    classes, d = len(occur), a.shape[-1]
    rows = max(1, BLOCK // classes)
    blocks = list(zip(a.split(rows), place.split(rows), strict=True))

    def split(flat: np.ndarray) -> tuple[Tensor, Tensor]:
        both = torch.from_numpy(flat).to(a.device).reshape(classes, d + 1)
        return both[:, :d], both[:, d]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weight, intercept = split(flat)
        value = torch.zeros_like(scale[0])
        slope, level = torch.zeros_like(weight), torch.zeros_like(intercept)
        for x, labels in blocks:
            logits = x @ weight.T + intercept
            value += F.cross_entropy(logits, labels) * (len(x) / len(a))
            error = logits.softmax(-1)
            error[torch.arange(len(x), device=x.device), labels] -= 1
            error /= len(a)
            slope, level = slope + error.T @ x, level + error.sum(0)
        value += penalty / 2 * (weight**2).sum()
        slope = torch.cat([slope + penalty * weight, level[:, None]], 1)
        return float(value), slope.flatten().cpu().numpy()

    found = minimize(
        objective,
        np.zeros(classes * (d + 1)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "maxfun": 2 * steps, "gtol": TOLERANCE, "ftol": 0.0},
    )
    converged = bool(np.abs(found.jac).max() <= TOLERANCE)
    if not converged:
        log.warning("linear probe: not converged after %d steps (%s)", found.nit, found.message)
    weight, intercept = split(found.x)
    guess = torch.cat([(x @ weight.T + intercept).argmax(-1) for x in b.split(rows)])
    right = (occur[guess] == test_labels.long()).double().mean()
    return Probe(float(right), converged, int(found.nit))


def knn(
    train: Float[Tensor, "n d"],
    train_labels: Integer[Tensor, "n"],
    test: Float[Tensor, "m d"],
    test_labels: Integer[Tensor, "m"],
    k: int = NEIGHBOURS,
    batch: int = 1000,
) -> float:
    """Top-1 accuracy in [0, 1] of the k nearest training features by cosine, whose votes weigh
    exp(cosine / 0.07) (Wu et al., 2018). Labels as in `linear_probe`. Errors: k below 1 or above
    the number of features; features that are not finite; no test part; labels that are negative or
    not one per sample.

    Examples:
        >>> labels = torch.tensor([0, 1] * 10)
        >>> x = torch.eye(2)[labels] + 0.1 * torch.randn(20, 2)
        >>> knn(x[:10], labels[:10], x[10:], labels[10:], k=3)
        1.0
    """
    classes, place = classes_of(train, train_labels, test, test_labels)
    _require_numbers(train, test)
    if not 1 <= k <= len(train):
        raise ValueError(f"k: expected 1 to {len(train)} neighbours, as there are, got {k}")
    train, test = (  # of half precision, squares would overflow
        directions(part if part.dtype == torch.float64 else part.float()) for part in (train, test)
    )
    right = 0
    for some, truth in zip(test.split(batch), test_labels.long().split(batch), strict=True):
        near, at = (some @ train.T).topk(k, dim=-1)
        weight = ((near - near[:, :1]) / SHARPNESS).exp()
        votes = F.one_hot(place[at], len(classes)).to(train.dtype)
        guess = classes[(weight[..., None] * votes).sum(1).argmax(-1)]
        right += int((guess == truth).sum())
    return right / len(test)
