"""What `make seeds` says of a check whose verdict hangs on the seed, and `make fuzz` of a
correction that fails at one."""

import sys

import fuzz
import pytest
import seeds
from typer.testing import CliRunner

from clcore.ledger import registry

STEADY = {"a/b 'part' (printed)": "passes", "a/b": "holds"}


def test_what_another_seed_says_is_named():
    assert seeds.apart(STEADY, dict(STEADY)) == ""
    other = STEADY | {"a/b 'part' (printed)": "fails", "a/b": "refuted"}
    assert seeds.apart(STEADY, other) == (
        "a/b 'part' (printed) fails, at seed 0 it passes; a/b refuted, at seed 0 it holds"
    )
    assert seeds.apart(STEADY, {"refused": "a control passes"}) == "refused: a control passes"
    assert "is not there" in seeds.apart(STEADY, {"a/b": "holds"})


def test_a_check_is_run_at_every_seed(monkeypatch, tmp_path):
    """A check whose only part fails where the seed is odd."""
    (tmp_path / "checks_of_a_seed.py").write_text(
        "from clcore.ledger import check\n\n"
        "@check('acl/eq2')\n"
        "def eq2(t):\n"
        "    t.part('odd', 0.5).add(float(t.seed % 2)).breaks('more', 2.0).says()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    place = registry.Place(("acl/eq2",), "draws", "eq2", tmp_path / "checks_of_a_seed.py", 3, 5, "")
    monkeypatch.setattr(registry.Place, "module", "checks_of_a_seed")
    monkeypatch.setattr(registry, "places", lambda: [place])
    kept = []
    monkeypatch.setattr(seeds.record, "keep", lambda *of: kept.append(of))
    app = seeds.typer.Typer()
    app.command()(seeds.main)
    told = CliRunner().invoke(app, ["--seeds", "3", "--draws", "2", "--workers", "1", "--record"])
    assert told.exit_code == 1, told.output
    assert [(row["seed"], row["said"][:8]) for row in kept[0][3]] == [
        (1, "refused:"),
        (3, "refused:"),
    ]
    assert "1 checks at 3 seeds beside 0: 2 times something else" in told.output
    assert CliRunner().invoke(app, ["--seeds", "1", "--only", "ncl/thm1"]).exit_code == 1


@pytest.mark.parametrize("seed", [0, 4])
def test_a_check_says_what_the_ledger_does(seed):
    found = seeds.said("clcore.checks.minmax.family", "eq2", 7, seed)
    assert found["acl/eq2"] == "corrected" and "refused" not in found
    assert found["acl/eq2 'SimCLR' (printed)"] == "fails"
    assert "torch" in sys.modules


def test_a_correction_is_tried_until_it_has_had_its_inputs(monkeypatch, tmp_path):
    """The printed form always fails; the corrected one at seed 3 only."""
    (tmp_path / "checks_of_a_form.py").write_text(
        "from clcore.ledger import check\n\n"
        "@check('acl/eq2')\n"
        "def eq2(t):\n"
        "    said = dict.fromkeys(('simclr1', 'simclr2', 'simclr3', 'eq1', 'eq2', 'eq3'), 0)\n"
        "    part = t.part('SimCLR', 0.5).add(1.0).fails_by(1.0)\n"
        "    part.breaks('more', 2.0).says(**said)\n"
        "    form = t.corrected('SimCLR', 0.5).add([float(t.seed == 3)] * t.draws)\n"
        "    form.breaks('more', 2.0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    form = "acl/eq2 'SimCLR'"
    monkeypatch.setattr(fuzz, "LITTLE", 0)
    found = fuzz.tried("checks_of_a_form", "eq2", inputs=10, draws=4, seconds=60.0)
    said = "1, bound 0.5, 4 draws"
    assert found == {form: {"inputs": 12, "failed": {3: said}}}
    monkeypatch.setattr(fuzz, "LITTLE", 1)
    found = fuzz.tried("checks_of_a_form", "eq2", inputs=14, draws=4, seconds=60.0)
    assert found[form] == {"inputs": 4 + 8 + 14, "failed": {3: "1, bound 0.5, 14 draws"}}
    monkeypatch.setattr(fuzz, "LITTLE", 0)
    place = registry.Place(("acl/eq2",), "draws", "eq2", tmp_path / "checks_of_a_form.py", 3, 5, "")
    monkeypatch.setattr(registry.Place, "module", "checks_of_a_form")
    monkeypatch.setattr(registry, "places", lambda: [place])
    kept = []
    monkeypatch.setattr(fuzz.record, "keep", lambda *of: kept.append(of))
    app = fuzz.typer.Typer()
    app.command()(fuzz.main)
    how = ["--draws", "4", "--workers", "1", "--record", "--inputs"]
    told = CliRunner().invoke(app, [*how, "8"])
    assert told.exit_code == 0 and "1 corrected forms, 1 at 8 inputs or more" in told.output
    told = CliRunner().invoke(app, [*how, "10"])
    assert told.exit_code == 1 and f"{form}, seed 3: {said}" in told.output
    assert kept[1] == (["acl"], 10, {form: 12}, [{"form": form, "seed": 3, "said": said}])
    assert CliRunner().invoke(app, ["--papers", "ncl"]).exit_code == 1
