"""What a chapter records, and how it is shown beside a build's own numbers."""

import pandas as pd
import pytest
import torch

from clcore import _paths, ledger
from clcore.book.chapter import Chapter


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A chapter of the given profile in an empty project."""
    monkeypatch.setattr("clcore._paths.root", lambda: tmp_path)

    def make(profile: str, seed: int = 0) -> Chapter:
        parameters = {"profile": profile, "seed": seed}
        return Chapter("x", parameters, torch.device("cpu"), ledger.Ledger("x"))

    return make


def table(factor: float) -> pd.DataFrame:
    return pd.DataFrame({"kind": ["b", "a"], "n": [3, 2], "gap": ["0.1", "0.01"]}).assign(
        share=[factor / 3, factor]
    )


def test_without_a_recorded_run_there_is_one_column(here):
    shown = here("book").beside("shares", table(1.0), "kind")
    assert set(shown.columns.get_level_values(0)) == {"this build (book)"}
    assert here("book").recorded("shares") is None, "only the paper profile records"


def test_another_chapters_record_can_be_read(here):
    here("paper").record("shares", table(2.0))
    other = here("book")
    other.name = "y"
    assert other.recorded("shares") is None
    found, provenance = other.recorded("shares", of="x")
    assert found.share.tolist() == pytest.approx([2 / 3, 2.0]) and provenance["chapter"] == "x"


def test_a_name_with_a_point_is_a_table_of_its_own(here, tmp_path):
    here("paper").record("shares-t0.5", table(2.0))
    here("paper").record("shares-t0.2", table(3.0))
    for name, share in (("shares-t0.5", 2.0), ("shares-t0.2", 3.0)):
        found, _ = here("book").recorded(name)
        assert found.share.tolist() == pytest.approx([share / 3, share])
    folder = tmp_path / "data" / "recorded" / "x"
    assert sorted(file.name for file in folder.iterdir()) == [
        f"shares-t0.{n}.{kind}" for n in (2, 5) for kind in ("csv", "json")
    ]


def test_a_chapter_may_record_in_a_folder_of_another_name(here, tmp_path):
    here("paper").record("shares", table(2.0), of="y")
    assert (tmp_path / "data" / "recorded" / "y" / "shares.csv").is_file()
    assert here("book").recorded("shares") is None
    found, provenance = here("book").recorded("shares", of="y")
    assert found.share.tolist() == pytest.approx([2 / 3, 2.0]) and provenance["chapter"] == "x"


@pytest.mark.parametrize("on", ["kind", ["kind", "n"], "gap", ["n", "gap"]])
def test_rows_find_their_recorded_ones(here, on):
    here("paper").record("shares", table(2.0).iloc[::-1])
    here("paper", seed=1).record("shares", table(7.0))
    shown = here("smoke").beside("shares", table(1.0).iloc[:1], on)
    assert shown["this build (smoke)", "share"].tolist() == [1 / 3]
    assert shown["recorded (full size)", "share"].tolist() == pytest.approx([2 / 3], rel=1e-5)


def test_another_seed_is_kept_beside_the_record(here, tmp_path):
    here("paper").record("shares", table(2.0))
    csv = tmp_path / "data" / "recorded" / "x" / "shares.csv"
    whole = csv.read_bytes()
    here("paper", seed=1).record("shares", table(7.0))
    assert csv.read_bytes() == whole
    other = pd.read_csv(_paths.build_dir() / "unrecorded" / "x" / "shares.csv")
    assert other.share.tolist() == pytest.approx(table(7.0).share.tolist(), rel=1e-5)


def test_a_larger_record_is_kept(here, caplog, tmp_path):
    """A run of fewer seeds or epochs, to try something, is not what the text quotes."""
    runs = pd.DataFrame({"seed": [0, 0, 1, 1], "epoch": [0, 20, 0, 20], "gap": 1.0})
    here("paper").record("runs", runs)
    csv = tmp_path / "data" / "recorded" / "x" / "runs.csv"
    whole, when = csv.read_bytes(), csv.with_suffix(".json").read_bytes()
    for less, told in (
        (runs.iloc[:2], "stays, for it has more rows (4, not 2); this run's table is in"),
        (runs.assign(epoch=[0, 2, 0, 2]), "stays, for it has later epochs (20, not 2); this run's"),
    ):
        chapter = here("paper")
        chapter.record("runs", less)
        assert told in caplog.text
        assert csv.read_bytes() == whole and csv.with_suffix(".json").read_bytes() == when
        other = _paths.build_dir() / "unrecorded" / "x" / "runs.csv"
        assert _paths.shown(other) in caplog.text
        assert pd.read_csv(other).epoch.tolist() == less.epoch.tolist()
        assert other.with_suffix(".json").exists()
    caplog.clear()
    for more in (runs.assign(gap=2.0), pd.concat([runs, runs.assign(seed=2, gap=3.0)])):
        here("paper").record("runs", more)
        assert here("paper").recorded("runs")[0].gap.tolist() == more.gap.tolist()
    csv.write_bytes(b"")  # damaged
    here("paper").record("runs", runs)
    assert csv.read_bytes() == whole and not caplog.text


def test_a_row_that_was_never_recorded_is_empty(here):
    here("paper").record("shares", table(2.0).iloc[:1])
    shown = here("smoke").beside("shares", table(1.0), "kind")
    assert shown["recorded (full size)", "share"].isna().tolist() == [False, True]
