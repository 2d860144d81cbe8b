"""ddn Tables 4 and 6, Figures 13 and 14: recorded runs beside the printed numbers."""

import numpy as np
import pandas as pd
import pytest

from clcore import _paths, ledger
from clcore.checks.hltm.runs import identities, operator_norms, tables
from clcore.experiments import tree_contrast
from clcore.ledger import findings

pytestmark = pytest.mark.usefixtures("one_thread")
FOLDER = _paths.root() / "data" / "recorded" / "4-hltm"


def recorded(name):
    return pd.read_csv(FOLDER / f"{name}.csv")


@pytest.fixture(scope="module")
def unrelated():
    configs = [tree_contrast.configuration(s, 0.8, 10, shuffled=True) for s in range(10)]
    nodes = tree_contrast.NODES
    return tree_contrast.run(
        configs, 0.2, nodes=nodes, samples=256, progress=False, each=True
    ).table


def test_verdicts_from_the_recorded_runs(unrelated):
    book = ledger.Ledger("any")
    book.run(tables.beside(recorded("tables-paper"), recorded("tables-released"), unrelated), 1, 0)
    book.run(operator_norms.figures(recorded("operators"), unrelated), 1, 0)
    lucky = identities.checks(recorded("lucky"), identities.identities(unrelated))
    book.run(lucky, 1, 0)
    cells = [r for r in book.records if r["evidence"] == "exact" and "printed numbers" in r["part"]]
    assert len(cells) == 4 and {r["sort"] for r in cells} == {"sampled"}, "cells are no runs"
    register = findings.verdicts()
    for claim in ("tab4", "tab6", "rem11", "rem12", "rem17", "fig13", "fig14"):
        mine = [r for r in book.records if r["claim"] == f"ddn/{claim}"]
        assert ledger.verdict(mine) == register[f"ddn/{claim}"], claim


def test_the_printed_table_is_the_paper_s():
    table = tables.printed().set_index(tables.CELL)
    assert len(table) == 90
    assert table.loc[("1", 0.8, 2, "converged")].tolist() == [0.79, 0.20]
    assert table.loc[("0111", 0.9, 10, "initial")].tolist() == [0.98, 0.01]


def test_cells_have_mean_and_std_over_trials():
    rows = [
        {"low": 0.7, "width": 2, "seed": s, "step": t, **{f"nc_s{p}": v for p in tables.LATENTS}}
        for s, v in ((0, 0.2), (1, 0.6))
        for t in (0, 500, 1000)
    ]
    found = tables.cells(pd.DataFrame(rows))
    assert len(found) == 15 and set(found["count"]) == {2}
    assert found["mean"].round(6).eq(0.4).all() and found["std"].round(6).eq(0.282843).all()
    assert tables.evidence(pd.DataFrame(rows)) == "partial"


def test_a_group_fed_by_leaves_is_left_out_of_its_children_s_covariance():
    rows = [
        {
            "depth": 5,
            "low": 0.8,
            "width": 10,
            "seed": s,
            "step": t,
            "cov_s1100": 1.0,
            "own_s1100": t,
        }
        for s in range(3)
        for t in (1, 2)
    ]
    curves = operator_norms.operator_summary(pd.DataFrame(rows))
    assert set(curves.trials) == {3}
    assert len(operator_norms._growth(curves, "cov", ("1100",))) == 0
    rows = operator_norms._growth(curves, "own", ("1100",))
    both = (operator_norms._ratio(rows, height).tolist() for height in (False, True))
    assert list(both) == [[2], [2]]


def test_the_whole_operator_is_judged_by_its_end_too():
    """Up and down again; falling, whose start is no height; nothing at all."""
    rows = pd.DataFrame([[1.0, 3.0, 0.5], [2.0, 1.0, 0.5], [0.0, 0.0, 0.0]])
    assert operator_norms._ratio(rows).tolist() == [0.5, 0.25]
    assert operator_norms._ratio(rows, height=True).tolist() == [3, 0.5]
    assert operator_norms._trend(rows.to_numpy()) == 1


def test_an_ordering_fails_where_a_step_against_it_is_significant():
    """NC rises with stage and width in all rows; a width exchanged for the other breaks it."""
    rows = [
        {"low": low, "width": w, "seed": s, "step": t}
        | {f"nc_s{p}": low / 2 + w / 100 + t / 1e5 + s * w * t / 1e9 for p in tables.LATENTS}
        for low in (0.7, 0.8, 0.9)
        for w in (2, 10)
        for s in range(3)
        for t in (0, 500, 1000)
    ]
    runs = pd.DataFrame(rows)

    def order(table, *columns):
        trial = ledger.Trial(["ddn/tab6"])
        for column in columns:
            tables._order(trial, table, column, "nc == nc")
        return list(trial.records())

    good = order(runs, *tables.ORDERS)
    assert {check.part for check in good} == {
        f"rises with {c}" for c in ("stage", "delta", "width")
    }
    assert all(check.measured > 0 and " not " not in check.note for check in good)
    assert all(ledger.judge(check) for check in good)
    wrong = runs.assign(width=runs.width.where(runs.low > 0.75, 12 - runs.width))
    (check,) = order(wrong, "width")
    assert check.measured < -2 and "30 of 45 steps rise; not z0 (delta = 0.7" in check.note


def test_results_after_an_epoch_for_the_end_break_the_gains():
    """Runs whose values are the printed means, and some noise; then with no training after
    epoch 1."""
    rng, steps = np.random.default_rng(0), {"initial": 0, "epoch1": 500, "converged": 25000}
    table = tables.printed()
    rows = [
        {"low": low, "width": w, "seed": s, "step": step}
        | {f"nc_s{p}": mine[p] + 0.02 * rng.standard_normal() for p in tables.LATENTS}
        for (low, w, stage), step in (
            ((low, w, stage), steps[stage])
            for low in (0.7, 0.8, 0.9)
            for w in (2, 10)
            for stage in steps
        )
        for s in range(10)
        for mine in [
            table[(table.low == low) & (table.width == w) & (table.stage == stage)]
            .set_index("latent")
            .paper
        ]
    ]
    runs = pd.DataFrame(rows)
    keep = "latent == latent"
    found = tables._pooled(*tables._clear(runs, keep))
    assert set(found) == {("initial", 2), ("initial", 10), ("epoch1", 2)}
    assert min(found.values()) > 2
    rows, values = tables._clear(runs, keep)
    assert tables._pooled(rows, values, "epoch1")["epoch1", 2] == 0


def test_a_pass_gains_are_compared_by_row():
    rows = tables.first_pass(tables.printed(), "paper")
    more = rows[10] - rows[2] > 1e-9
    assert (len(more), more.sum()) == (15, 8) and not more["0111"].any()


def test_single_nodes_are_followed(unrelated):
    """The best of a group is what the tables show, and every node has its row."""
    table = identities.identities(unrelated)
    assert len(table) == 10 * 5 * 10 and set(table.latent) == {f"s{p}" for p in tables.LATENTS}
    best = table.assign(nc=table.converged.abs()).groupby(["latent", "seed"]).nc.max()
    last = unrelated[unrelated.step == unrelated.step.max()].set_index("seed")
    for path in tables.LATENTS:
        assert best[f"s{path}"].tolist() == pytest.approx(last[f"nc_s{path}"].tolist())


def test_ranks_and_places_of_nodes():
    first = pd.DataFrame([[0.9, 0.5, 0.1], [0.1, 0.2, 0.3]]).to_numpy()
    assert identities._ranks(first, first) == pytest.approx(1)
    assert identities._ranks(first, -first) == pytest.approx(-1)
    assert identities._ranks(first, 0 * first) == 0
    assert identities._stays(first, first[:, ::-1]) == 0
