"""The control of comparisons that are paired over seeds."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from clcore import reference as ref


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
    return float(stats.ttest_rel(wide.a, wide.b).statistic)


@pytest.mark.parametrize("seeds", [2, 3, 4, 5, 8])
def test_what_rests_on_the_labels_is_lost(seeds):
    made = table(seeds)
    bound = stats.t.ppf(0.975, seeds - 1)
    assert t_of(made[made.arm != "c"]) > 5
    assert abs(ref.relabelled(made, "arm", ("a", "b"), t_of)) < bound / 2


def test_what_does_not_rest_on_the_labels_stays():
    """The control then passes, and the ledger refuses the check."""
    made = table(5)

    def against_zero(rows):
        return float(stats.ttest_1samp(rows.value, 0).statistic)

    assert ref.relabelled(made, "arm", ("a", "b", "c"), against_zero) == against_zero(made)


def test_labels_move_together_within_a_seed_and_others_are_left_out():
    seen = []

    def look(rows):
        seen.append(rows)
        return 0.0

    made = pd.concat([table(4).assign(epoch=e) for e in (1, 2)])
    ref.relabelled(made, "arm", ("a", "b"), look, draws=9)
    before = made[made.arm != "c"]
    changed = set()
    for rows in seen:
        assert rows.value.equals(before.value)
        moved = (rows.arm != before.arm).groupby(rows.seed).agg(["all", "any"])
        assert (moved["all"] == moved["any"]).all()
        assert (rows.groupby(["seed", "epoch"]).arm.nunique() == 2).all()
        changed |= {tuple(moved["all"])}
    assert len(changed) > 3
