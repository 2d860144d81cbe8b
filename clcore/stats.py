"""Comparisons of runs: Welch's test and the paired t-test, on runs and on printed tables.

`welch` and `paired` take runs and answer one-sidedly; `welch_tests` takes printed means, standard
deviations and numbers of runs, `paired_tests` a long table of runs, and both give intervals.
`swapped` is the control that a comparison has to fail.
"""

from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import sem
from scipy.stats import t as student

__all__ = ["paired", "paired_tests", "swapped", "welch", "welch_tests"]


def _tail(gap: float, variance: float, freedom: float) -> float:
    """Pr(T > gap / standard error); without spread 0, 1/2 or 1 by the sign of the gap."""
    if not variance > 0:
        return 0.5 * (1 - np.sign(gap))
    return float(student.sf(gap / variance**0.5, freedom))


def welch(a: np.ndarray | list, b: np.ndarray | list) -> float:
    """Welch's test on runs: the one-sided p-value that a's mean exceeds b's; 1/2 for equal means.

    Examples:
        >>> round(welch([0.9, 0.92, 0.91], [0.5, 0.6, 0.4]), 4)
        0.0092
    """
    x, y = np.asarray(a, float), np.asarray(b, float)
    if min(len(x), len(y)) < 2:
        return 0.5 * (1 - np.sign(x.mean() - y.mean()))
    parts = x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)
    below = parts[0] ** 2 / (len(x) - 1) + parts[1] ** 2 / (len(y) - 1)
    return _tail(x.mean() - y.mean(), sum(parts), sum(parts) ** 2 / below if below > 0 else 1.0)


def paired(after: np.ndarray | list, before: np.ndarray | list) -> float:
    """The paired t-test: the one-sided p-value that the mean of after - before is above 0.

    Examples:
        >>> round(paired([0.9, 0.8, 0.85], [0.5, 0.5, 0.6]), 4)
        0.0094
    """
    gap = np.asarray(after, float) - np.asarray(before, float)
    if len(gap) < 2:
        return 0.5 * (1 - np.sign(gap.mean()))
    return _tail(gap.mean(), gap.var(ddof=1) / len(gap), len(gap) - 1)


def swapped(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The control of a comparison: every other entry exchanged, the first of them included.

    Examples:
        >>> import numpy as np
        >>> swapped(np.array([1, 2, 3]), np.array([4, 5, 6]))
        (array([4, 2, 6]), array([1, 5, 3]))
    """
    n = min(len(a), len(b))
    odd = np.arange(n) % 2 == 1
    return np.where(odd, a[:n], b[:n]), np.where(odd, b[:n], a[:n])


def paired_tests(table: pd.DataFrame, by: str, value: str, seed: str = "seed") -> pd.DataFrame:
    """Paired t-tests between all levels of `by` over common seeds, Holm-corrected.

    Returns one row a pair: the mean difference of `value` (first minus second), its 95 per cent
    interval, the number of pairs, p, and p_holm. Errors: fewer than two common seeds.

    Examples:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"seed": [0, 1, 2] * 2, "net": list("aaabbb"),
        ...                       "accuracy": [0.5, 0.6, 0.7, 0.4, 0.55, 0.6]})
        >>> paired_tests(table, "net", "accuracy")[["difference", "p"]].round(3)
           difference      p
        0       0.083  0.038
    """
    wide = table.pivot(index=seed, columns=by, values=value)
    rows = []
    for first, second in combinations(wide.columns, 2):
        difference = (wide[first] - wide[second]).dropna().to_numpy()
        if len(difference) < 2:
            raise ValueError(
                f"expected at least two common seeds of {first!r} and {second!r}, got "
                f"{len(difference)}; a paired test needs a spread"
            )
        mean, error = difference.mean(), sem(difference)
        half = error * student.ppf(0.975, len(difference) - 1)
        p = float(mean == 0)  # without any spread, either no difference or a certain one
        if error:
            p = float(2 * student.sf(abs(mean) / error, len(difference) - 1))
        rows.append((first, second, mean, mean - half, mean + half, len(difference), p))
    columns = ["first", "second", "difference", "low", "high", "pairs", "p"]
    out = pd.DataFrame(rows, columns=columns)
    order = np.argsort(out.p.to_numpy())
    stepped = np.maximum.accumulate(out.p.to_numpy()[order] * np.arange(len(out), 0, -1))
    out["p_holm"] = np.empty(len(out))
    out.loc[order, "p_holm"] = np.minimum(stepped, 1.0)
    return out


def welch_tests(
    mean: np.ndarray | pd.Series,
    std: np.ndarray | pd.Series,
    n: int | np.ndarray | pd.Series,
    mean2: np.ndarray | pd.Series,
    std2: np.ndarray | pd.Series,
    n2: int | np.ndarray | pd.Series,
) -> pd.DataFrame:
    """Welch's t-tests from printed means, standard deviations and numbers of runs, one a row.

    Columns: difference (first minus second), error (its standard error), low and high (95 per cent
    interval), t, p (two-sided). Series keep their index.

    Examples:
        >>> import numpy as np
        >>> mean, std = np.array([84.1]), np.array([0.3])
        >>> welch_tests(mean, std, 5, mean - 0.5, std, 5)[["difference", "p"]].round(3)
           difference     p
        0         0.5  0.03
    """

    part, part2 = std**2 / n, std2**2 / n2
    error = np.sqrt(part + part2)
    freedom = (part + part2) ** 2 / (part**2 / (n - 1) + part2**2 / (n2 - 1))
    difference = mean - mean2
    half = student.ppf(0.975, freedom) * error
    out = pd.DataFrame({"difference": difference, "error": error})
    out = out.assign(low=difference - half, high=difference + half, t=difference / error)
    return out.assign(p=2 * student.sf(np.abs(out.t), freedom))
