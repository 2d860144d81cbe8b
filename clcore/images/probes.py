"""What frozen features are worth: linear evaluation, and comparisons that are paired over seeds."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


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


def paired_tests(table: "pd.DataFrame", by: str, value: str, seed: str = "seed") -> "pd.DataFrame":
    """Paired t-tests between all levels of `by` over common seeds, Holm-corrected.

    Returns one row a pair: the mean difference of `value` (first minus second), its 95 per cent
    interval, the number of pairs, p, and p_holm. Errors: fewer than two common seeds.
    """
    from itertools import combinations

    import numpy as np
    import pandas as pd
    from scipy import stats

    wide = table.pivot(index=seed, columns=by, values=value)
    rows = []
    for first, second in combinations(wide.columns, 2):
        difference = (wide[first] - wide[second]).dropna().to_numpy()
        if len(difference) < 2:
            raise ValueError(
                f"expected at least two common seeds of {first!r} and {second!r}, got "
                f"{len(difference)}; a paired test needs a spread"
            )
        mean, error = difference.mean(), stats.sem(difference)
        half = error * stats.t.ppf(0.975, len(difference) - 1)
        p = float(mean == 0)  # without any spread, either no difference or a certain one
        if error:
            p = float(2 * stats.t.sf(abs(mean) / error, len(difference) - 1))
        rows.append((first, second, mean, mean - half, mean + half, len(difference), p))
    columns = ["first", "second", "difference", "low", "high", "pairs", "p"]
    out = pd.DataFrame(rows, columns=columns)
    order = np.argsort(out.p.to_numpy())
    stepped = np.maximum.accumulate(out.p.to_numpy()[order] * np.arange(len(out), 0, -1))
    out["p_holm"] = np.empty(len(out))
    out.loc[order, "p_holm"] = np.minimum(stepped, 1.0)
    return out


def welch_tests(
    mean: "np.ndarray | pd.Series",
    std: "np.ndarray | pd.Series",
    n: "int | np.ndarray | pd.Series",
    mean2: "np.ndarray | pd.Series",
    std2: "np.ndarray | pd.Series",
    n2: "int | np.ndarray | pd.Series",
) -> "pd.DataFrame":
    """Welch's t-tests from printed means, standard deviations and numbers of runs, one a row.

    Columns: difference (first minus second), error (its standard error), low and high (95 per cent
    interval), t, p (two-sided). Series keep their index.
    """
    import numpy as np
    import pandas as pd
    from scipy import stats

    part, part2 = std**2 / n, std2**2 / n2
    error = np.sqrt(part + part2)
    freedom = (part + part2) ** 2 / (part**2 / (n - 1) + part2**2 / (n2 - 1))
    difference = mean - mean2
    half = stats.t.ppf(0.975, freedom) * error
    out = pd.DataFrame({"difference": difference, "error": error})
    out = out.assign(low=difference - half, high=difference + half, t=difference / error)
    return out.assign(p=2 * stats.t.sf(np.abs(out.t), freedom))
