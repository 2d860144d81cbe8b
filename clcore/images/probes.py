"""What frozen features are worth: linear evaluation, and comparisons that are paired over seeds."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

if TYPE_CHECKING:
    pass


def ridge_probe(
    train: Float[Tensor, "*b n d"],
    train_labels: Int[Tensor, "n"],
    test: Float[Tensor, "*b m d"],
    test_labels: Int[Tensor, "m"],
    penalty: float = 1e-3,
) -> Float[Tensor, "*b"]:
    """Test accuracy in [0, 1] of a linear classifier on frozen features, solved in closed form.

    Ridge regression on the one-hot labels: features standardised by the training part's mean and
    standard deviation, `penalty` relative to the number of training samples, an unpenalised
    intercept, the class with the largest output. In float64; NaN for runs whose features are not
    finite. Errors: penalty <= 0, no test part.

    Examples:
        >>> labels = torch.tensor([0, 1] * 10)
        >>> x = labels[:, None] + 0.1 * torch.randn(20, 1)
        >>> ridge_probe(x[:10], labels[:10], x[10:], labels[10:]).item()
        1.0
    """
    if penalty <= 0:
        raise ValueError(f"expected penalty > 0, got {penalty}; it keeps the system solvable")
    if not test_labels.numel():
        raise ValueError("expected some features to test on, got none")
    train, test = train.double(), test.double()
    mean = train.mean(-2, keepdim=True)
    scale = train.std(-2, keepdim=True).clamp(min=1e-12)
    train, test = (train - mean) / scale, (test - mean) / scale
    classes = int(train_labels.max()) + 1
    target = torch.nn.functional.one_hot(train_labels, classes).double()
    prior = target.mean(0)
    n, d = train.shape[-2:]
    gram = train.transpose(-1, -2) @ train / n + penalty * torch.eye(d, device=train.device)
    weights = torch.linalg.solve(gram, train.transpose(-1, -2) @ (target - prior) / n)
    right = ((test @ weights + prior).argmax(-1) == test_labels).double().mean(-1)
    finite = (weights.sum((-2, -1)) + test.sum((-2, -1))).isfinite()
    return torch.where(finite, right, torch.nan)
