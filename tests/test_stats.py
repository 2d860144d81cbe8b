"""Tests of runs against scipy."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from clcore.stats import paired_tests


def scores(spread):
    rng = np.random.default_rng(0)
    seed = np.tile(np.arange(12), 3)
    shared = rng.normal(size=12)[seed] * 5  # what pairing removes
    shift = np.repeat([0.0, 0.2, 1.0], 12)
    noise = rng.normal(size=36) * spread
    return pd.DataFrame(
        {"seed": seed, "v": np.repeat(list("abc"), 12), "x": shared + shift + noise}
    )


def test_paired_tests_against_scipy():
    table = scores(0.3)
    out = paired_tests(table, "v", "x")
    wide = table.pivot(index="seed", columns="v", values="x")
    for row in out.itertuples():
        same = stats.ttest_rel(wide[row.first], wide[row.second])
        assert row.p == pytest.approx(same.pvalue, rel=1e-9)
        interval = same.confidence_interval(0.95)
        assert (row.low, row.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
        assert row.difference == pytest.approx((wide[row.first] - wide[row.second]).mean())


def test_certain_difference_has_no_spread():
    table = pd.DataFrame({"seed": [0, 1, 0, 1], "v": list("aabb"), "x": [1.0, 2.0, 2.0, 3.0]})
    assert paired_tests(table, "v", "x").p[0] == 0
    assert paired_tests(table.assign(x=1.0), "v", "x").p[0] == 1


def test_holm_steps_down():
    out = paired_tests(scores(0.3), "v", "x").sort_values("p")
    expected, running = [], 0.0
    for rank, p in enumerate(out.p):
        running = max(running, min(1.0, p * (3 - rank)))
        expected.append(running)
    assert list(out.p_holm) == pytest.approx(expected)


def test_paired_tests_use_common_seeds_only():
    table = scores(0.3)
    assert set(paired_tests(table.iloc[3:], "v", "x").pairs) == {9, 12}
    with pytest.raises(ValueError, match="at least two common seeds of 'a' and 'b', got 1"):
        paired_tests(table[(table.seed == 0) | (table.v != "a")], "v", "x")
