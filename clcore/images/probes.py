"""Quality of frozen features: linear evaluation, and comparisons that are paired over seeds."""

from typing import Any

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor


def _require_features(*given: Any) -> None:
    for name, x in zip(("train", "train_labels", "test", "test_labels"), given, strict=True):
        if not isinstance(x, Tensor):
            got = type(x).__name__
            raise TypeError(f"{name}: expected a tensor, got a {got}; convert by torch.as_tensor")
    train, _, test, _ = given
    if train.shape[-1:] != test.shape[-1:]:
        raise ValueError(
            f"features: expected train and test of one width, got shapes {list(train.shape)} and "
            f"{list(test.shape)}; take the same net for both"
        )


def classes_of(
    train: Float[Tensor, "*b n d"],
    train_labels: Integer[Tensor, "n"],
    test: Float[Tensor, "*b m d"],
    test_labels: Integer[Tensor, "m"],
) -> tuple[Int[Tensor, " c"], Integer[Tensor, "n"]]:
    """The class numbers that training has, in order, and where in them each training label stands.

    Class numbers may have gaps and any integer type; one that training lacks is never guessed.
    Errors: features of different widths; labels that are no integers, negative, or not one per
    sample; what is no tensor.
    """
    _require_features(train, train_labels, test, test_labels)
    for name, features, labels in (("train", train, train_labels), ("test", test, test_labels)):
        if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
            raise TypeError(
                f"{name}_labels: expected class numbers as integers, got {labels.dtype}; convert "
                "with .long()"
            )
        if labels.shape != features.shape[-2:-1]:
            raise ValueError(
                f"{name}_labels: expected one per sample, shape {list(features.shape[-2:-1])}, "
                f"got {list(labels.shape)}"
            )
        wrong = labels.long() < 0  # as uint16 has no comparison
        if bool(wrong.any()):
            raise ValueError(
                f"{name}_labels: expected class numbers from 0 on, got {int(labels[wrong][0])} and "
                f"{int(wrong.sum()) - 1} more below; leave samples without a label out"
            )
    return train_labels.long().unique(return_inverse=True)


def scale_of(train: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b 1 d"]:
    """Standard deviations of features, 1 where a feature is constant up to rounding: its values
    elsewhere must not be scaled by a trillion."""
    scale, size = train.std(-2, keepdim=True), train.abs().amax(-2, keepdim=True)
    return torch.where(scale > 1e-12 * size, scale, 1.0)


def ridge_probe(
    train: Float[Tensor, "*b n d"],
    train_labels: Integer[Tensor, "n"],
    test: Float[Tensor, "*b m d"],
    test_labels: Integer[Tensor, "m"],
    penalty: float = 1e-3,
) -> Float[Tensor, "*b"]:
    """Test accuracy in [0, 1] of a linear classifier on frozen features, solved in closed form.

    Ridge regression on the one-hot labels: features standardised by the training part's mean and
    standard deviation, `penalty` relative to the number of training samples, an unpenalised
    intercept, the class with the largest output. In float64; NaN for runs whose features are not
    finite. Labels are class numbers of any integer type, with gaps or without. Errors: penalty <=
    0, no test part, labels that are negative or not one per sample.

    Examples:
        >>> labels = torch.tensor([0, 1] * 10)
        >>> x = labels[:, None] + 0.1 * torch.randn(20, 1)
        >>> ridge_probe(x[:10], labels[:10], x[10:], labels[10:]).item()
        1.0
    """
    if penalty <= 0:
        raise ValueError(f"expected penalty > 0, got {penalty}; it keeps the system solvable")
    classes, place = classes_of(train, train_labels, test, test_labels)
    for labels, what in ((train_labels, "train"), (test_labels, "test")):
        if not labels.numel():
            raise ValueError(f"expected some features to {what} on, got none")
    train, test = train.double(), test.double()
    mean, scale = train.mean(-2, keepdim=True), scale_of(train)
    train, test = (train - mean) / scale, (test - mean) / scale
    target = torch.nn.functional.one_hot(place, len(classes)).double()
    prior = target.mean(0)
    n, d = train.shape[-2:]
    gram = train.transpose(-1, -2) @ train / n + penalty * torch.eye(d, device=train.device)
    weights = torch.linalg.solve(gram, train.transpose(-1, -2) @ (target - prior) / n)
    right = (classes[(test @ weights + prior).argmax(-1)] == test_labels.long()).double().mean(-1)
    finite = (weights.sum((-2, -1)) + test.sum((-2, -1))).isfinite()
    return torch.where(finite, right, torch.nan)
