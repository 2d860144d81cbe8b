"""Tables and curves of ncl's runs, on made tables."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from clcore import random
from clcore.experiments import sparse_display as display
from clcore.experiments import sparse_panels as sp
from clcore.experiments import sparse_tables as rt
from clcore.theory.sparse import sparse_coding as sc


def made(values, epochs=(0, 10)):
    """Rows of panels: `values` gives (panel, pr) -> one value per seed at the end; 0.25 before."""
    rows = [
        {"panel": panel, "pr": pr, "seed": seed, "epoch": epoch, "loss": 1.0}
        | {m: value if epoch else 0.25 for m in rt.METRICS.values()}
        for (panel, pr), seeds in values.items()
        for seed, value in enumerate(seeds)
        for epoch in epochs
    ]
    return pd.DataFrame(rows)


def test_curves_show_means_and_bands_and_leave_out_what_is_missing():
    runs = made({("cl-basic", 0.1): (0.6, 0.8), ("cl-basic", 0.2): (0.1, 0.1)})
    figure, axis = plt.subplots()
    display.curves(axis, runs, {"ncl-basic": "NCL", "cl-basic": "CL"}, 0.1)
    line, random = axis.get_lines()
    assert random.get_ydata()[0] == display.random_encoder("cl-basic")
    assert line.get_label() == "CL" and line.get_color() == "C1"
    assert line.get_xdata().tolist() == [1, 11]
    assert line.get_ydata().tolist() == pytest.approx([0.25, 0.7])
    (band,) = axis.collections
    corners = band.get_paths()[0].vertices
    at_end = corners[corners[:, 0] == 11, 1]
    assert (at_end.min(), at_end.max()) == pytest.approx((0.7 - 0.02**0.5, 0.7 + 0.02**0.5))
    plt.close(figure)


def test_each_size_has_its_own_random_encoder():
    """Dotted, in the colour of its panel where the sizes of a figure differ."""
    runs = made({("fig13", 0.1): (0.6, 0.8), ("fig14", 0.1): (0.1, 0.1)})
    figure, axis = plt.subplots()
    display.curves(axis, runs, {"fig13": "m = 10", "fig14": "p = 20"}, 0.1, "median")
    levels = {line.get_ydata()[0]: line.get_color() for line in axis.get_lines()[2:]}
    display.curves(axis, runs, {"fig13": "a", "fig14": "b"}, 0.1, dashed={"fig14": "fig13"})
    *_, first, second, _, _ = axis.get_lines()
    assert (first.get_color(), first.get_linestyle()) == ("C0", "-")
    assert (second.get_color(), second.get_linestyle()) == ("C0", "--")
    assert levels == {
        display.random_encoder("fig13", "median"): "C0",
        display.random_encoder("fig14", "median"): "C1",
    }
    plt.close(figure)
    keys = random.split(random.key(5), 300)
    many = [
        float(sc.max_cosine(sc.random_start(b, 10, 50, 10), sc.dictionary(a, 50, 10)).min())
        for a, b in (random.split(key) for key in keys)
    ]
    error = 5 * np.std(many) / 300**0.5
    assert display.random_encoder("fig13") == pytest.approx(np.mean(many), abs=error)


def test_measures_are_the_four_panels_of_a_figure():
    runs = made({("fig13", 0.1): (0.6, 0.8)})
    figure = display.measures(runs, {"fig13": "rows"}, prs=(0.1,))
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == ["Minimum max-cosine", "Median max-cosine", "Maximum max-cosine", "loss"]
    corners = figure.axes[0].collections[0].get_paths()[0].vertices
    at_end = corners[corners[:, 0] == 11, 1]
    assert (at_end.min(), at_end.max()) == pytest.approx((0.6, 0.8))  # from run to run
    assert len(figure.axes[3].get_lines()) == 1  # a loss has no random encoder
    plt.close(figure)


def test_a_grid_has_a_row_a_reading():
    runs = made({("cl-basic", 0.1): (0.6, 0.8), ("cl-basic-quiet", 0.1): (0.9, 0.9)})
    figure = display.grid(runs, {"cl-basic": "CL"}, prs=(0.1,))
    upper, lower = figure.axes
    assert upper.get_title() == "Pr = 0.1" and lower.get_title() == ""
    assert upper.get_ylabel() == "first choice\nMinimum max-cosine"
    assert lower.get_ylabel() == "without noise\nMinimum max-cosine"
    assert upper.get_lines()[0].get_ydata()[-1] == pytest.approx(0.7)
    assert lower.get_lines()[0].get_ydata()[-1] == pytest.approx(0.9)
    assert lower.get_lines()[1].get_ydata()[0] == display.random_encoder("cl-basic")
    plt.close(figure)
    alone = display.grid(runs[runs.panel == "cl-basic"], {"cl-basic": "CL"}, prs=(0.1, 0.2))
    assert [axis.get_title() for axis in alone.axes] == ["Pr = 0.1", "Pr = 0.2"]
    plt.close(alone)


def test_readings_are_two_in_a_row_at_one_pr():
    runs = made({("cl-basic", 0.1): (0.6, 0.8), ("cl-basic", 0.3): (0.1,)})
    quiet = made({("cl-basic-quiet", 0.1): (0.9, 0.9)})
    figure = display.readings(pd.concat([runs, quiet]), {"cl-basic": "CL"}, ("-quiet", ""))
    left, right = figure.axes
    assert [axis.get_title() for axis in (left, right)] == ["without noise", "first choice"]
    assert left.get_lines()[0].get_ydata()[-1] == pytest.approx(0.9)
    assert right.get_lines()[0].get_ydata()[-1] == pytest.approx(0.7)
    assert right.get_lines()[0].get_label() == "CL"
    plt.close(figure)


def test_the_map_has_the_rate_in_proportion_and_the_three_ways_out():
    rows = [
        {"masks": m, "rate": r, "temperature": t, "sigma": s, "epoch": 8000, "minimum": value}
        for m, r, t, s, value in (
            ("keep 0.5", "printed", 0.05, 0.2303, 0.3412),  # at 0.05 the rates are one
            ("keep 0.5", "printed", 0.2, 0.2303, 0.5),
            ("keep 0.5", "scaled", 0.2, 0.2303, 0.91),
            ("Eq. 2", "scaled", 1.0, 0.0, 0.8),
            ("keep 0.1", "scaled", 1.0, 0.0, 0.7),  # not drawn
        )
    ]
    without = pd.DataFrame({"masks": ["Eq. 2"], "sigma": [0.48], "minimum": [0.25]})
    figure = display.temperature_map(pd.DataFrame(rows), without)
    text, program = figure.axes
    numbers = [[t.get_text() for t in axis.texts if t.get_text()] for axis in (text, program)]
    assert numbers == [[".34", ".91"], [".25", ".80"]]
    solid, dashed = (axis.patches[-1] for axis in (text, program))
    assert [p.get_linestyle() for p in (solid, dashed)] == ["-", "--"]
    assert [(p.get_x(), p.get_y()) for p in (solid, dashed)] == [(0, 1), (0, 1)]
    assert text.get_yticklabels()[1].get_text() == "0.23, Sec. 4.1"
    arrows = [t for t in text.texts if getattr(t, "arrow_patch", None)]
    assert [t.xy for t in arrows] == [(2.4, 1.86), (0.88, 3.4)]
    plt.close(figure)


def test_every_reading_has_a_name():
    of_cells = {name for name in rt.OTHERS if name.endswith("-together")}  # no curves are drawn
    drawn = set(rt.OTHERS) - of_cells
    assert len(of_cells) == 2 and drawn | {"", "-t0.2", "-bn", "-faint-t0.5"} == set(
        display.READINGS
    )


def test_cells_are_starred_when_they_disagree():
    printed = rt.printed("ncl/tab2").query("model == 'CL-basic' and metric == 'minimum'")
    printed = printed.set_index("pr")
    values = {
        ("cl-basic", pr): np.full(5, printed.paper[pr] + (0.5 if pr == 0.3 else 0.0))
        for pr in printed.index
    }
    values |= {("cl-basic-quiet", 0.1): np.full(5, printed.paper[0.1])}
    table = display.cells(made(values), "ncl/tab2").loc[("CL-basic", "minimum")]
    assert table["Pr = 0.1", "paper"] == "0.88 ± 0.002"
    assert table["Pr = 0.1", "first choice"] == "0.88 ± 0.00"
    assert table["Pr = 0.3", "first choice"] == "1.26 ± 0.00*"
    assert table["Pr = 0.1", "without noise"] == "0.88 ± 0.00"
    assert pd.isna(table["Pr = 0.2", "without noise"])
    assert display.share(made(values), "ncl/tab2", "-quiet").endswith(" of 3")
    values |= {("cl-basic-released", 0.1): np.full(3, printed.paper[0.1])}
    program = display.cells(made(values), "ncl/tab2", ["-released"]).loc[("CL-basic", "minimum")]
    assert [name for _, name in program.index[:2]] == ["paper", "program, printed masks"]
    assert program["Pr = 0.1", "program, printed masks"] == "0.88 ± 0.00"


def factors(seeds, value):
    """A table as `sparse_factors.decide` gives it, scored by `value`."""
    names = ("predictor", "batchnorm", "warm", "normalise", "seed")
    grid = itertools.product(
        (False, True), (False, True), (False, True), ("none", "rows", "columns"), range(seeds)
    )
    rows = [dict(zip(names, point, strict=True)) for point in grid]
    return pd.DataFrame([r | {"minimum": value(r)} for r in rows])


def test_effects_are_differences_with_all_else_equal():
    def value(r):
        gain = 0.3 * r["warm"] * r["predictor"] + 0.1 * (r["normalise"] == "rows")
        return gain + 0.01 * r["seed"] * r["warm"]

    table = factors(3, value)
    found = display.effects(table)
    assert found.loc["predictor", "mean"] == pytest.approx(0.15)  # 0.3 in half of the settings
    assert found.loc["rows of norm 1", "mean"] == pytest.approx(0.1)
    assert found.loc["columns of norm 1", ["mean", "low", "high"]].tolist() == pytest.approx(
        [0] * 3
    )
    assert found.loc["BatchNorm", "mean"] == pytest.approx(0)
    # 0.15 + 0, 0.01 and 0.02 over three seeds: Student's 4.303 times 0.01 / sqrt(3)
    warm = found.loc["warm start"]
    assert (warm["mean"], warm.high - warm["mean"]) == pytest.approx((0.16, 0.02484), abs=1e-5)
    assert (found.seeds == 3).all()
    fixed = display.effects(table[~table.predictor])
    assert "predictor" not in fixed.index and fixed.loc["warm start", "mean"] == pytest.approx(0.01)


def test_a_map_has_a_cell_a_setting():
    table = factors(2, lambda r: 0.5 + 0.1 * r["warm"] + 0.01 * r["seed"])
    figure, axis = plt.subplots()
    display.settings_map(axis, table)
    shown = {t.get_text() for t in axis.texts}
    assert len(axis.texts) == 24 and shown <= {"0.50", "0.51", "0.60", "0.61"}
    assert next(iter(axis.get_yticklabels())).get_text() == "random"
    plt.close(figure)


def test_every_panel_belongs_to_one_record():
    sides = [sp.of_record(c) for c in ("6-landscape", "6-dynamics")]
    assert sorted(sides[0] + sides[1]) == sorted(sp.PANELS)
    for claim, place in (("tab2", 0), ("fig1", 0), ("fig9", 0), ("tab4", 1), ("fig13", 1)):
        assert set(sp.FIGURES[claim]) <= set(sides[place])
    with pytest.raises(ValueError, match="folder: expected 6-landscape or 6-dynamics, got '6'"):
        sp.of_record("6")
