"""What `make seeds` says of a check whose verdict hangs on the seed."""

import sys

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
    place = registry.Place(("acl/eq2",), "draws", "eq2", tmp_path / "checks_of_a_seed.py", 3, 5)
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
