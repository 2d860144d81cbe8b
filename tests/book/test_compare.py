"""Two ledgers beside each other: one bit is seen."""

import json

import numpy as np
import pytest

from clcore.book import compare

CHECK = {"part": "a", "form": "printed", "setting": "", "measured": 0.1, "bound": 1.0}
CHECK |= {"relation": "<=", "control": {"b": 2.0}, "draws": 5, "evidence": "exact", "passed": True}
CHECK |= {"note": "n"}


def write(path, *checks, verdict="holds"):
    path.write_text(json.dumps({"rows": [{"id": "x/1", "verdict": verdict, "checks": checks}]}))
    return path


def test_the_same_ledger_has_no_differences(tmp_path):
    a = write(tmp_path / "a.json", CHECK, CHECK | {"part": "nan", "measured": "nan"})
    assert compare.differences(a, a, words=True) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"measured": float(np.nextafter(0.1, 1))}, "x/1 | a | printed: measured 0.1 -> 0.1000"),
        ({"bound": 1.0000000000000002}, "x/1 | a | printed: bound 1.0 -> 1.0000000000000002"),
        ({"control": {"c": 2.0}}, 'x/1 | a | printed: control {"b": 2.0} -> {"c": 2.0}'),
        ({"draws": 6}, "x/1 | a | printed: draws 5 -> 6"),
    ],
)
def test_one_field_that_differs_is_named(tmp_path, change, line):
    a, b = write(tmp_path / "a.json", CHECK), write(tmp_path / "b.json", CHECK | change)
    found = compare.differences(a, b)
    assert len(found) == 1 and found[0].startswith(line)


def test_records_of_one_side_verdicts_and_words(tmp_path):
    a = write(tmp_path / "a.json", CHECK)
    b = write(tmp_path / "b.json", CHECK | {"form": "corrected", "note": "m"}, verdict="corrected")
    assert compare.differences(a, b) == [
        'x/1 | verdict: verdict "holds" -> "corrected"',
        "gone: x/1 | a | printed",
        "new: x/1 | a | corrected",
    ]
    c = write(tmp_path / "c.json", CHECK | {"note": "m"})
    assert compare.differences(a, c) == []
    assert compare.differences(a, c, words=True) == ['x/1 | a | printed: note "n" -> "m"']


def test_what_is_no_ledger_is_named(tmp_path):
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(ValueError, match="has no rows"):
        compare.records(tmp_path / "x.json")
    with pytest.raises(ValueError, match="is not there"):
        compare.records(tmp_path / "y.json")
