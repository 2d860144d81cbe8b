"""Tests that compare runs, and the control that must break them: labels exchanged.

`paired` is Student's t-test of differences run by run (same seed, one thing changed), `welch` that
of two groups of their own runs, `welch_of` the same from printed means and standard deviations.
Arrays hold one value per run along their last axis; all axes before it are separate tests.
`paired_tests` compares all levels of a column of a table. `exchanged`, `exchanged_labels` and
`alternate` measure a statistic again where labels no longer mean anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import t as student

Array = np.ndarray
Alternative = Literal["two-sided", "greater", "less"]
LEVEL = 0.95

__all__ = [
    "Comparison",
    "alternate",
    "critical",
    "exchange",
    "exchanged",
    "exchanged_labels",
    "orders",
    "other_cells",
    "paired",
    "paired_tests",
    "welch",
    "welch_of",
]

# ------------------------------------------------------------------------------------- comparisons


@dataclass(frozen=True)
class Comparison:
    """A t-test of a difference, first minus second; numbers, or arrays of several tests.

    error: the standard error of the difference. low, high: ends of its confidence interval, one of
    them infinite in a one-sided test. freedom: degrees of freedom. t, p: where
    the differences have no spread, t is inf with their sign and p is 0 (one-sided, 0 or 1); where
    there is no difference either, t is 0 and p is 1 (one-sided, 1/2).

    Examples:
        >>> found = paired([0.9, 0.8, 0.85], [0.5, 0.5, 0.6])
        >>> print(f"{found.difference:.3f}, {found.low:.3f} to {found.high:.3f}, p = {found.p:.3f}")
        0.317, 0.127 to 0.506, p = 0.019
    """

    difference: Any
    error: Any
    low: Any
    high: Any
    freedom: Any
    t: Any
    p: Any

    @property
    def t_of_interval(self) -> Any:
        """t recomputed from a two-sided 95 per cent interval, equal to `t` up to rounding.
        Recorded numbers of acl Table 2 and ddn Tables 2 and 3 rest on this rounding."""
        return _ratio(self.difference, (self.high - self.low) / 2 / critical(self.freedom))

    def frame(self, index: pd.Index | None = None) -> pd.DataFrame:
        """One row per test: difference, error, low, high, t, p."""
        names = ("difference", "error", "low", "high", "t", "p")
        return pd.DataFrame({name: np.atleast_1d(getattr(self, name)) for name in names}, index)


def critical(freedom: ArrayLike, level: float = LEVEL) -> Any:
    """The |t| that a two-sided test at `level` asks for: half of an interval, in standard errors.

    Errors: a level outside (0, 1).

    Examples:
        >>> print(f"{critical(4):.3f}")
        2.776
    """
    _valid(level)
    return student.ppf((1 + level) / 2, freedom)


def paired(
    first: ArrayLike,
    second: ArrayLike = 0.0,
    alternative: Alternative = "two-sided",
    level: float = LEVEL,
) -> Comparison:
    """Student's t-test of the mean of first - second, [..., runs], paired along the last axis.

    alternative: "greater" asks whether first is above second. One array alone is compared with 0.
    Errors: fewer than two pairs, shapes that do not fit, an unknown alternative, a level outside
    (0, 1).

    Examples:
        >>> print(f"{paired([0.9, 0.8, 0.85], [0.5, 0.5, 0.6], 'greater').p:.4f}")
        0.0094
    """
    gap = np.asarray(first, float) - np.asarray(second, float)
    count = gap.shape[-1] if gap.ndim else 0
    if count < 2:
        raise ValueError(f"expected at least two pairs, got {count}; a paired test needs a spread")
    # Both scales are equal up to rounding. A one-sided p rests on the second, all else on the
    # first, so that recorded numbers keep their last digits.
    error = gap.std(-1, ddof=1) / np.sqrt(count)
    scale = error if alternative == "two-sided" else np.sqrt(gap.var(-1, ddof=1) / count)
    return _comparison(gap.mean(-1), error, scale, count - 1, alternative, level)


def welch(
    first: ArrayLike,
    second: ArrayLike,
    alternative: Alternative = "two-sided",
    level: float = LEVEL,
) -> Comparison:
    """Welch's t-test of the difference of two means, [..., runs] and [..., other runs].

    Variances may differ between the two. Errors: as `paired`, for either side.

    Examples:
        >>> print(f"{welch([0.9, 0.92, 0.91], [0.5, 0.6, 0.4], 'greater').p:.4f}")
        0.0092
    """
    sides = np.asarray(first, float), np.asarray(second, float)
    counts = [side.shape[-1] if side.ndim else 0 for side in sides]
    if min(counts) < 2:
        raise ValueError(
            f"expected at least two runs a side, got {counts[0]} and {counts[1]}; Welch's test "
            "needs a spread of both"
        )
    means, variances = zip(*((side.mean(-1), side.var(-1, ddof=1)) for side in sides), strict=True)
    return _welch(means, variances, counts, alternative, level)


def welch_of(
    mean: ArrayLike,
    std: ArrayLike,
    n: ArrayLike,
    mean2: ArrayLike,
    std2: ArrayLike,
    n2: ArrayLike,
    alternative: Alternative = "two-sided",
    level: float = LEVEL,
) -> Comparison:
    """`welch` from means, standard deviations (n - 1) and numbers of runs, as a paper prints them.

    Errors: fewer than two runs, a negative standard deviation.

    Examples:
        >>> found = welch_of(84.1, 0.3, 5, 83.6, 0.3, 5)
        >>> print(f"{found.difference:.1f}, p = {found.p:.3f}")
        0.5, p = 0.030
    """
    stds, counts = (np.asarray(std), np.asarray(std2)), (np.asarray(n), np.asarray(n2))
    if min(c.min() for c in counts) < 2 or min(s.min() for s in stds) < 0:
        raise ValueError(
            "expected standard deviations >= 0 of at least two runs each, got "
            f"{min(s.min() for s in stds):g} and {min(c.min() for c in counts):g} runs at least"
        )
    means = np.asarray(mean), np.asarray(mean2)
    return _welch(means, [s**2 for s in stds], counts, alternative, level)


def _welch(
    means: Sequence, variances: Sequence, counts: Sequence, alternative: Alternative, level: float
) -> Comparison:
    part, part2 = (v / n for v, n in zip(variances, counts, strict=True))
    below = part**2 / (counts[0] - 1) + part2**2 / (counts[1] - 1)
    freedom = np.where(below > 0, (part + part2) ** 2 / np.where(below > 0, below, 1), 1)[()]
    error = np.sqrt(part + part2)
    return _comparison(means[0] - means[1], error, error, freedom, alternative, level)


def _comparison(
    difference: Any, error: Any, scale: Any, freedom: Any, alternative: Alternative, level: float
) -> Comparison:
    """A difference over its standard error, which p takes as `scale`."""
    _valid(level)
    if alternative == "two-sided":
        half = critical(freedom, level) * error
        low, high = difference - half, difference + half
        p = 2 * student.sf(np.abs(_ratio(difference, scale)), freedom)
    elif alternative == "greater":
        low, high = difference - student.ppf(level, freedom) * error, np.full_like(error, np.inf)
        p = student.sf(_ratio(difference, scale), freedom)
    elif alternative == "less":
        low, high = np.full_like(error, -np.inf), difference + student.ppf(level, freedom) * error
        p = student.cdf(_ratio(difference, scale), freedom)
    else:
        raise ValueError(
            f"alternative: expected 'two-sided', 'greater' or 'less', got {alternative!r}"
        )
    t = _ratio(difference, error)
    found = difference, error, low, high, freedom, t, p
    return Comparison(*(np.asarray(x)[()] for x in found))


def _ratio(difference: Any, error: Any) -> Any:
    spread = np.asarray(error) > 0
    certain = np.where(np.asarray(difference) == 0, 0.0, np.copysign(np.inf, difference))
    return np.where(spread, difference / np.where(spread, error, 1.0), certain)[()]


def _valid(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, as 0.95, got {level}")


def paired_tests(table: pd.DataFrame, by: str, value: str, seed: str = "seed") -> pd.DataFrame:
    """`paired` between all levels of the column `by` over common seeds, Holm-corrected.

    Returns one row per pair of levels: first, second, the mean difference of `value` (first minus
    second), low and high (95 per cent interval), pairs (their number), p and p_holm. Errors: fewer
    than two common seeds.

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
        both = wide[[first, second]].dropna()
        if len(both) < 2:
            raise ValueError(
                f"expected at least two common seeds of {first!r} and {second!r}, got "
                f"{len(both)}; a paired test needs a spread"
            )
        found = paired(both[first], both[second])
        ends = found.difference, found.low, found.high
        rows.append((first, second, *ends, len(both), found.p))
    columns = ["first", "second", "difference", "low", "high", "pairs", "p"]
    out = pd.DataFrame(rows, columns=columns)
    order = np.argsort(out.p.to_numpy())
    stepped = np.maximum.accumulate(out.p.to_numpy()[order] * np.arange(len(out), 0, -1))
    out["p_holm"] = np.empty(len(out))
    out.loc[order, "p_holm"] = np.minimum(stepped, 1.0)
    return out


def welch_tests(
    mean: pd.Series | Array,
    std: pd.Series | Array,
    n: ArrayLike,
    mean2: ArrayLike,
    std2: ArrayLike,
    n2: ArrayLike,
) -> pd.DataFrame:
    """`welch_of` as a table, `Comparison.frame`; a Series keeps its index."""
    index = mean.index if isinstance(mean, pd.Series) else None
    return welch_of(mean, std, n, mean2, std2, n2).frame(index)


# ------------------------------------------------------------------------------- labels exchanged


def orders(rng: np.random.Generator, rows: int, labels: int) -> Array:
    """[rows, labels]: the labels 0 to `labels` - 1 of each row in its own random order.

    Examples:
        >>> import numpy as np
        >>> np.sort(orders(np.random.default_rng(0), 2, 3))
        array([[0, 1, 2],
               [0, 1, 2]])
    """
    return rng.permuted(np.tile(np.arange(labels), (rows, 1)), axis=1)


def exchange(values: Array, rng: np.random.Generator) -> Array:
    """A copy of values, [rows, labels, ...], with the labels of each row permuted at random.

    Examples:
        >>> import numpy as np
        >>> values = np.array([[1, 2, 3], [4, 5, 6]])
        >>> exchange(values, np.random.default_rng(0)).sum(1)
        array([ 6, 15])
    """
    order = orders(rng, *values.shape[:2])
    return values[np.arange(len(values))[:, None], order]


def exchanged(
    statistic: Callable[..., float], *values: Array, rng: np.random.Generator, draws: int = 200
) -> float:
    """The median of `statistic` over copies of values, each [rows, labels, ...], in which labels
    are exchanged within every row at random (`exchange`).

    It is a permutation test's centre: the expected statistic if labels carry no information.

    Examples:
        >>> import numpy as np
        >>> values = np.tile([0.0, 1.0], (20, 1))
        >>> def rise(v):
        ...     return float((v[:, 1] - v[:, 0]).mean())
        >>> rise(values), abs(exchanged(rise, values, rng=np.random.default_rng(0))) < 0.2
        (1.0, True)
    """
    return float(np.median([statistic(*(exchange(v, rng) for v in values)) for _ in range(draws)]))


def exchanged_labels(
    table: pd.DataFrame,
    column: str,
    labels: Sequence[Any],
    statistic: Callable[[pd.DataFrame], float],
    rng: np.random.Generator,
    draws: int = 31,
    within: str = "seed",
) -> float:
    """`exchanged` for a table of runs: the labels of `column` are permuted at random within each
    seed, the same way in all its rows. Rows of other labels are left out.

    Many draws, because a single one can pass by chance where nothing differs; an odd number.

    Examples:
        >>> import numpy as np
        >>> import pandas as pd
        >>> table = pd.DataFrame({"seed": [0, 1, 2, 3] * 2, "net": list("aaaabbbb"),
        ...                       "accuracy": [0.9] * 4 + [0.5] * 4})
        >>> def lead(t):
        ...     return t[t.net == "a"].accuracy.mean() - t[t.net == "b"].accuracy.mean()
        >>> mixed = exchanged_labels(table, "net", ["a", "b"], lead, np.random.default_rng(0))
        >>> print(f"{lead(table):.1f}", abs(mixed) < 0.3)
        0.4 True
    """
    table = table[table[column].isin(labels)]
    seeds, old = sorted(table[within].unique()), list(labels)
    row = table[within].map({seed: k for k, seed in enumerate(seeds)}).to_numpy()
    place = table[column].map({label: k for k, label in enumerate(old)}).to_numpy()
    found = []
    for _ in range(draws):
        new = [old[k] for k in orders(rng, len(seeds), len(old))[row, place]]
        found.append(statistic(table.assign(**{column: new})))
    return float(np.median(found))


def alternate(first: Array, second: Array) -> tuple[Array, Array]:
    """Swap every second run between two groups, starting with the first (deterministic). Runs that
    only the longer group has are left out.

    Examples:
        >>> import numpy as np
        >>> alternate(np.array([1, 2, 3]), np.array([4, 5, 6]))
        (array([4, 2, 6]), array([1, 5, 3]))
    """
    n = min(len(first), len(second))
    odd = np.arange(n) % 2 == 1
    return np.where(odd, first[:n], second[:n]), np.where(odd, second[:n], first[:n])


def other_cells(table: pd.DataFrame, keys: Sequence[str], **labels: Any) -> pd.DataFrame:
    """The rows of a table, found by `keys`, with the results of other cells: those under the
    `labels` (a column of them, or one for all) in place of theirs. NaN where there are none.

    Examples:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"width": [2, 10], "mean": [0.1, 0.2]})
        >>> other_cells(table, ["width"], width=12 - table.width)["mean"].to_list()
        [0.2, 0.1]
    """
    keys = list(keys)
    other = table[keys].assign(**labels).set_index(keys).index
    return table.set_index(keys).reindex(other)
