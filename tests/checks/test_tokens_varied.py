"""What the rows of the token experiment say of its settings is what the recorded runs give."""

import re
from functools import cache

import pandas as pd
import pytest

from clcore import _paths
from clcore.checks.two_layer.tokens import runs as tables
from clcore.checks.two_layer.tokens import table1
from clcore.ledger import findings

pytestmark = pytest.mark.usefixtures("one_thread")

PRINTED_RATE = {
    "Eq. 1, a sum, at temperature 0.1": "paper",
    "Eq. 1 at temperature 0.5": "t0.5",
    "the sum of the cross-entropies, without Eq. 1's factor $\\tau$": "sum",
    "the mean of the cross-entropies": "mean",
}
PROGRAMS_RATE = {
    "the mean, with its BatchNorm (the released program's)": "released",
    "Eq. 1 as a sum": "fast",
}
"""What a row calls a setting -> the table of its runs."""


@cache
def recorded(name):
    folder = _paths.root() / "data" / "recorded" / "5-two-layer"
    return tables.of_paper(pd.read_csv(folder / f"tokens-{name}.csv"))


def varied(row):
    """Setting -> what the row says of it."""
    said = findings.known()[row]["open"]["varied"]
    return {
        setting: text
        for group in said.values()
        for setting, text in group.items()
        if setting in PRINTED_RATE | PROGRAMS_RATE
    }


def numbers(text):
    return re.findall(r"-?\d+(?:\.\d+)?", re.sub(r"\$[^$]*\$", "", text))


@pytest.mark.parametrize("setting", PRINTED_RATE | PROGRAMS_RATE)
def test_cells_in_which_relu_has_the_lowest_score(setting):
    """nl/fig9: of all 16, and of the 9 with P > 1 and beta > 1."""
    runs = tables.bare(recorded((PRINTED_RATE | PROGRAMS_RATE)[setting]))
    counts = []
    for column in ("chi_minus", "released_minus"):
        lowest = tables.lowest(runs[runs.kind == "infonce"], column)
        inside = lowest.loc[lowest.index > 1, lowest.columns > 1]
        counts.append((int(lowest.to_numpy().sum()), int(inside.to_numpy().sum())))
    (every, inside), (by_program, _) = counts
    told = [int(n) for n in numbers(varied("nl/fig9")[setting]) if n not in ("16", "9")]
    assert told == ([] if every == 0 else [every, inside])
    assert 0 <= by_program - every <= 1


@pytest.mark.parametrize("setting", PRINTED_RATE)
def test_slopes_of_relu_nets(setting):
    """nl/fig4, and of nl/fig10 which settings rise and lead."""
    runs = tables.bare(recorded(PRINTED_RATE[setting]))
    relu = tables.panel(runs, "chi_plus", activation="relu")
    slope = tables.slope(relu)
    quadratic = tables.panel(runs, "chi_plus", activation="relu", kind="quadratic")
    lead = (relu - quadratic).to_numpy().mean()
    if setting != "the sum of the cross-entropies, without Eq. 1's factor $\\tau$":
        assert numbers(varied("nl/fig4")[setting])[-1] == f"{slope:.3f}"
    assert (slope > 0) == (setting in list(PRINTED_RATE)[1:3])
    assert (lead > 0) == (not setting.startswith("the mean"))


def test_slopes_without_the_factor():
    """nl/fig4, by the program's score: of linear nets and of ReLU nets."""
    runs = tables.bare(recorded("sum"))
    slopes = [
        tables.slope(tables.panel(runs, "released_plus", activation=a)) for a in ("linear", "relu")
    ]
    said = varied("nl/fig4")["the sum of the cross-entropies, without Eq. 1's factor $\\tau$"]
    assert "(slopes {:.3f} and {:.3f})".format(*slopes) in said


@pytest.mark.parametrize("name", ["paper", "released", "sum"])
def test_cells_of_table_1(name):
    """nl/tab1: cells that agree, by Eq. 16 and by the program's score."""
    found = [table1.beside_ours(recorded(name), column) for column in ("chi_plus", "released_plus")]
    agree = [str(table.agrees.sum()) for table in found]
    assert [len(table) for table in found] == [64, 64]
    texts = [
        text
        for group in findings.known()["nl/tab1"]["open"]["varied"].values()
        for text in group.values()
    ]
    told = {n for text in texts for n in numbers(text)}
    assert set(agree) <= told
