"""Tests that compare runs against scipy, and labels exchanged against every permutation."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from clcore import stats

WAYS = ("two-sided", "greater", "less")


def samples(seed=0, shape=(4, 7), other=(4, 5)):
    rng = np.random.default_rng(seed)
    return 0.4 + rng.standard_normal(shape), 2 * rng.standard_normal(other)


def same(found, expected, level):
    interval = expected.confidence_interval(level)
    for ours, theirs in (
        (found.t, expected.statistic),
        (found.p, expected.pvalue),
        (found.freedom, expected.df),
        (found.low, interval.low),
        (found.high, interval.high),
        (found.difference / found.error, expected.statistic),
    ):
        assert ours == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_paired_is_scipys(way, level):
    a, b = samples(other=(4, 7))
    found = stats.paired(a, b, way, level)
    same(found, scipy_stats.ttest_rel(a, b, axis=-1, alternative=way), level)
    assert found.difference == pytest.approx((a - b).mean(-1))
    alone = stats.paired(a[0], alternative=way, level=level)
    same(alone, scipy_stats.ttest_1samp(a[0], 0, alternative=way), level)
    assert np.ndim(alone.t) == 0
    assert stats.paired(a, b).t_of_interval == pytest.approx(stats.paired(a, b).t, rel=1e-12)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_welch_is_scipys(way, level):
    a, b = samples()
    found = stats.welch(a, b, way, level)
    same(found, scipy_stats.ttest_ind(a, b, axis=-1, equal_var=False, alternative=way), level)
    moments = [f for x in (a, b) for f in (x.mean(-1), x.std(-1, ddof=1), x.shape[-1])]
    printed = stats.welch_of(*moments, way, level)
    same(printed, scipy_stats.ttest_ind(a, b, axis=-1, equal_var=False, alternative=way), level)


def test_critical_is_half_an_interval_in_standard_errors():
    a, _ = samples()
    found = stats.paired(a)
    assert (found.high - found.low) / 2 / found.error == pytest.approx(stats.critical(6))
    assert stats.critical(4, 0.9) == pytest.approx(2.131847, abs=1e-6)  # from a printed table


@pytest.mark.parametrize("test", [stats.paired, stats.welch])
def test_without_spread_a_difference_is_certain(test):
    one, zero = np.ones(3), np.zeros(3)
    above, below, none = test(one, zero), test(zero, one), test(one, one)
    assert (above.t, above.p, above.low, above.high) == (np.inf, 0, 1, 1)
    assert (below.t, below.p) == (-np.inf, 0)
    assert (none.t, none.p) == (0, 1)
    assert [test(one, zero, way).p for way in WAYS[1:]] == [0, 1]
    assert [test(one, one, way).p for way in WAYS[1:]] == [0.5, 0.5]
    assert test(np.array([1.0, 1.0, 2.0]), np.zeros(3)).p > 0.03


def test_frame_keeps_the_index():
    a, b = samples()
    index = pd.Index(list("wxyz"), name="cell")
    table = stats.welch(a, b).frame(index)
    assert list(table.columns) == ["difference", "error", "low", "high", "t", "p"]
    assert table.loc["y", "p"] == stats.welch(a[2], b[2]).p
    assert len(stats.welch(a[0], b[0]).frame()) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: stats.paired([1.0]), "expected at least two pairs, got 1"),
        (lambda: stats.paired(1.0), "expected at least two pairs, got 0"),
        (lambda: stats.welch([1.0, 2.0], [1.0]), "at least two runs a side, got 2 and 1"),
        (lambda: stats.welch_of(1, 0.1, 5, 1, 0.1, 1), "1 runs at least"),
        (lambda: stats.welch_of(1, -0.1, 5, 1, 0.1, 5), "expected standard deviations >= 0"),
        (lambda: stats.paired([1.0, 2.0], alternative="more"), "alternative: expected 'two-sided'"),
        (lambda: stats.paired([1.0, 2.0], level=95), "level: expected a number between 0 and 1"),
        (lambda: stats.critical(4, 0.0), "level: expected a number between 0 and 1"),
    ],
)
def test_errors(unchecked_shapes, call, words):
    with pytest.raises(ValueError, match=words):
        call()


# ------------------------------------------------------------------------------------ all levels


def scores(spread):
    rng = np.random.default_rng(5)
    seed = np.tile(np.arange(12), 3)
    shared = rng.normal(size=12)[seed] * 5  # what pairing removes
    shift = np.repeat([0.0, 0.2, 1.0], 12)
    noise = rng.normal(size=36) * spread
    return pd.DataFrame(
        {"seed": seed, "v": np.repeat(list("abc"), 12), "x": shared + shift + noise}
    )


def test_paired_tests_of_all_levels():
    table = scores(0.3)
    out = stats.paired_tests(table, "v", "x")
    wide = table.pivot(index="seed", columns="v", values="x")
    assert list(zip(out["first"], out["second"], strict=True)) == [
        *itertools.combinations("abc", 2)
    ]
    for row in out.itertuples():
        expected = scipy_stats.ttest_rel(wide[row.first], wide[row.second])
        assert row.p == pytest.approx(expected.pvalue, rel=1e-9)
        interval = expected.confidence_interval(0.95)
        assert (row.low, row.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
        assert row.difference == pytest.approx((wide[row.first] - wide[row.second]).mean())


def test_holm_steps_down():
    out = stats.paired_tests(scores(0.3), "v", "x").sort_values("p")
    expected, running = [], 0.0
    for rank, p in enumerate(out.p):
        running = max(running, min(1.0, p * (3 - rank)))
        expected.append(running)
    assert list(out.p_holm) == pytest.approx(expected)


def test_paired_tests_use_common_seeds_only():
    table = scores(0.3)
    assert set(stats.paired_tests(table.iloc[3:], "v", "x").pairs) == {9, 12}
    with pytest.raises(ValueError, match="at least two common seeds of 'a' and 'b', got 1"):
        stats.paired_tests(table[(table.seed == 0) | (table.v != "a")], "v", "x")


# ------------------------------------------------------------------------------- labels exchanged


def least_rise(values):
    return float(np.diff(values, axis=1).mean(0).min())


def test_exchange_moves_all_behind_a_label_and_leaves_rows_alone():
    values = np.arange(40 * 3 * 2).reshape(40, 3, 2)
    mixed = stats.exchange(values, np.random.default_rng(0))
    for before, after in zip(values, mixed, strict=True):
        assert sorted(map(tuple, after)) == sorted(map(tuple, before))
    assert {tuple(np.argsort(row[:, 0])) for row in mixed} == set(itertools.permutations(range(3)))


def test_exchanged_is_the_middle_of_all_permutations():
    """Three rows of three labels have 6^3 exchanges: their median, by brute force."""
    values = np.array([[0.0, 1.0, 2.5], [0.2, 1.3, 2.0], [0.1, 0.8, 3.0]])
    every = [
        least_rise(np.array([row[list(order)] for row, order in zip(values, orders, strict=True)]))
        for orders in itertools.product(itertools.permutations(range(3)), repeat=3)
    ]
    found = stats.exchanged(least_rise, values, rng=np.random.default_rng(1), draws=4001)
    low, high = np.quantile(every, [0.45, 0.55])
    assert low <= found <= high and least_rise(values) > np.quantile(every, 0.98)


def test_exchanged_gives_each_of_several_arrays_an_order_of_its_own():
    a = np.tile(np.arange(5.0), (50, 1))

    def agree(x, y):
        return float((x == y).mean())

    assert agree(a, a) == 1
    found = stats.exchanged(agree, a, a, rng=np.random.default_rng(0), draws=101)
    assert found == pytest.approx(1 / 5, abs=0.03)


def table(seeds, lead=1.0):
    rng = np.random.default_rng(0)
    rows = [
        {"seed": s, "arm": arm, "value": more + 0.1 * rng.standard_normal()}
        for s in range(seeds)
        for arm, more in (("a", lead), ("b", 0.0), ("c", 50.0))
    ]
    return pd.DataFrame(rows)


def t_of(rows):
    wide = rows.pivot(index="seed", columns="arm", values="value")
    return float(scipy_stats.ttest_rel(wide.a, wide.b).statistic)


def exchanged_labels(rows, labels, statistic, **more):
    return stats.exchanged_labels(rows, "arm", labels, statistic, np.random.default_rng(0), **more)


@pytest.mark.parametrize("seeds", [2, 3, 4, 5, 8])
def test_what_rests_on_the_labels_is_lost(seeds):
    made = table(seeds)
    assert t_of(made[made.arm != "c"]) > 5
    assert abs(exchanged_labels(made, ("a", "b"), t_of)) < stats.critical(seeds - 1) / 2


def test_what_does_not_rest_on_the_labels_stays():
    """The control then passes, and the ledger refuses the check."""
    made = table(5)

    def against_zero(rows):
        return float(scipy_stats.ttest_1samp(rows.value, 0).statistic)

    assert exchanged_labels(made, ("a", "b", "c"), against_zero) == against_zero(made)


def test_labels_move_together_within_a_seed_and_others_are_left_out():
    seen = []

    def look(rows):
        seen.append(rows)
        return 0.0

    made = pd.concat([table(4).assign(epoch=e) for e in (1, 2)])
    exchanged_labels(made, ("a", "b"), look, draws=9)
    before = made[made.arm != "c"]
    changed = set()
    for rows in seen:
        assert rows.value.equals(before.value)
        moved = (rows.arm != before.arm).groupby(rows.seed).agg(["all", "any"])
        assert (moved["all"] == moved["any"]).all()
        assert (rows.groupby(["seed", "epoch"]).arm.nunique() == 2).all()
        changed |= {tuple(moved["all"])}
    assert len(seen) == 9 and len(changed) > 3


def test_labels_are_exchanged_within_any_column():
    made = table(6).rename(columns={"seed": "start"})
    wide = []
    exchanged_labels(
        made, ("a", "b"), lambda rows: float(wide.append(rows) or 0), draws=3, within="start"
    )
    assert all((rows.groupby("start").arm.nunique() == 2).all() for rows in wide)


def test_alternate_exchanges_every_other_run():
    a, b = np.arange(5.0), np.arange(10.0, 14.0)
    first, second = stats.alternate(a, b)
    assert first.tolist() == [10, 1, 12, 3] and second.tolist() == [0, 11, 2, 13]


def test_other_cells_have_the_results_of_other_labels():
    made = pd.DataFrame({"set": [1, 1, 2], "width": [2, 10, 2], "mean": [0.1, 0.2, 0.3]})
    found = stats.other_cells(made, ["set", "width"], width=12 - made.width)
    assert found["mean"].tolist()[:2] == [0.2, 0.1] and np.isnan(found["mean"].iloc[2])
    found = stats.other_cells(made[:2], ["width"], width=12 - made.width)
    assert found["mean"].tolist() == [0.2, 0.1]
    assert stats.other_cells(made[:2], ["set", "width"], width=2)["mean"].tolist() == [0.1, 0.1]
