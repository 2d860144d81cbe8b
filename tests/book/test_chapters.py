"""The chapters as they are committed, and what their last smoke run found."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from clcore import _paths, ledger
from clcore.book import build, exercises, keys, parameters, solutions
from clcore.book.site import code, launch
from clcore.ledger import findings, registry, words

SITE = os.environ.get("CLCORE_SITE")
NOTEBOOKS = [_paths.root() / "chapters" / f"{name}.ipynb" for name in build.chapters()]


@pytest.fixture(scope="module")
def rows(site):
    """Rows of the ledger that the site under test was built with."""
    if not SITE or not (Path(SITE).parent / "ledger.json").exists():
        if os.environ.get("CI") == "true":
            pytest.fail("no build to look at; `make test` makes one")
        pytest.skip("no build to look at: set CLCORE_SITE, or use `make test`")
    return {r["id"]: r for r in json.loads((Path(SITE).parent / "ledger.json").read_text())["rows"]}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_committed_notebooks_are_clean(path):
    book = nbformat.read(path, 4)
    nbformat.validate(book)
    assert parameters.declared(path).keys() >= {"profile", "device", "seed"}
    source = "".join(keys.sources(path))
    assert bool(keys.claimed(path)) is ("here.ledger." in source), "claims, and no check of them"
    for cell in book.cells:
        assert "-" in cell.id or cell.id.isalnum()
        if cell.cell_type != "code":
            continue
        assert cell.outputs == []
        assert cell.execution_count is None
        if "plt.show()" in cell.source:
            meta = cell.metadata["mystnb"]
            assert len(meta["figure"]["caption"]) > 80
            assert meta["figure"]["name"].startswith("fig-")
            assert len(meta["image"]["alt"]) > 40
            # In the dark other figures are inverted, and dark there is light.
            told = meta["figure"]["caption"] + meta["image"]["alt"]
            if re.search(r"[Bb]right|[Dd]ark(er)? .*[Ll]ight|[Ll]ight(er)?\)? .*[Dd]ark", told):
                assert "keep-colours" in cell.metadata.tags, cell.id
    text = "\n".join(c.source for c in book.cells if c.cell_type == "markdown")
    assert text.count("{exercise}") >= 4
    assert text.count("{exercise}") == text.count("{solution}")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_link_to_a_chapter_names_its_number(path):
    text = "\n".join(c.source for c in nbformat.read(path, 4).cells if c.cell_type == "markdown")
    for number, name in re.findall(r"\[(?:[Cc]hapter )?([\d.]+)\]\(([\w-]+)\.ipynb", text):
        assert number == exercises.chapter_number(path.with_stem(name)), name


def known() -> dict[str, str]:
    """The register of verdicts; a claim that is not in it is still to be checked."""
    return findings.verdicts()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_verdicts_are_those_of_the_register(path, rows):
    """data/findings says what is known; a verdict that changes must change there too."""
    register, own = known(), keys.claimed(path)
    found = {i: rows[i]["verdict"] for i in own}
    assert found == {i: register.get(i, "todo") for i in own}
    for i in register.keys() & set(own):
        assert rows[i]["notebook"] == path.stem
        assert rows[i]["anchor"] == f"chapters/{path.stem}.html#{ledger.anchor(i)}"


def test_no_claim_is_settled_by_one_draw_alone(rows):
    for row in rows.values():
        if row["verdict"] in ("holds", "corrected", "refuted"):
            # A part that is arithmetic has one; beside it stands a part that is not.
            assert max(check["draws"] for check in row["checks"]) > 1, row["id"]
            assert row["control"], row["id"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_exactly_the_parts_with_a_correction_fail_as_printed(path, rows):
    """data/findings says which parts are false as printed, and what holds in their place; a part
    that holds fails in no form, and one that is false on paper fails in every run of its check."""
    register = findings.known()
    for claim in keys.claimed(path):
        checks = [c for c in rows[claim]["checks"] if c["evidence"] == "exact"]
        named = [(c["part"] if c["said"] is None else c["words"], c) for c in checks]
        falls = {name for name, c in named if c["form"] == "printed" and not c["passed"]}
        mended = {name for name, c in named if c["form"] == "corrected"}
        texts = register[claim].get("parts", {})
        assert falls == mended, claim
        assert falls == {p for p in falls | mended if "correction" in texts.get(p, {})}, claim
        assert all(c["passed"] for c in checks if c["form"] == "corrected"), claim


def test_every_word_of_the_findings_is_of_a_part_that_was_recorded(rows):
    """Of a claim whose runs are not all there, a part may not be there either."""
    whole = [r for r in rows.values() if r["verdict"] not in ("partial", "blocked", "todo")]
    checks = [c for row in whole for c in row["checks"]]
    partial = {c["claim"] for c in checks if c["evidence"] == "partial"}
    assert words.unsaid(c for c in checks if c["claim"] not in partial) == []


def test_anchors_lead_to_cells_in_the_site(rows):
    for row in rows.values():
        if row["anchor"]:
            page, _, anchor = row["anchor"].partition("#")
            assert f'id="{anchor}"' in (Path(SITE) / page).read_text(), row["id"]


def test_papermill_alone_from_anywhere(tmp_path):
    """papermill without the build, in another folder, on the cheapest chapter: as it is offered to
    be run elsewhere, where the book is installed already. The cell that would install it does
    nothing then, and the parameters are found behind it."""
    path = next(path for path in NOTEBOOKS if path.stem == "5-two-layer-images")
    text = launch.notebook(path, "https://github.com/owner/name", "abc")
    (tmp_path / "in.ipynb").write_text(text)
    command = [sys.executable, "-m", "papermill", "in.ipynb", "out.ipynb", "-p", "seed", "3"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    cells = nbformat.read(tmp_path / "out.ipynb", 4).cells
    open_ = [i for i in keys.claimed(path) if i not in known()]
    said = f"Not checked yet: {', '.join(open_)}." if open_ else "Every claim has a verdict."
    shown = cells[-1].outputs[0]["data"]
    assert said in shown["text/html"]
    facts = shown["application/vnd.clcore.provenance+json"]
    assert (facts["profile"], facts["seed"]) == ("smoke", 3)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_every_solution_with_code_is_run_and_shown_as_it_was(path, rows):
    """The smoke build runs them (a failing one fails it), and its pages keep them folded."""
    book = nbformat.read(path, 4)
    found = solutions.code(book.cells)
    assert found and all("```python" not in block for block in found)
    cache = Path(SITE).parent / "cache"
    entries = sorted(cache.glob(f"{path.stem}-smoke-*"), key=lambda p: p.stat().st_mtime)
    executed = nbformat.read(entries[-1] / "executed.ipynb", 4).cells
    # Beside the chapter's own cells there is the one with papermill's parameters.
    own = [c.id for c in executed if "injected-parameters" not in c.metadata.get("tags", [])]
    assert own == [c.id for c in book.cells]
    # One number a cell that ran, and those of the solutions are missing.
    assert executed[-1].execution_count == len(_code(executed)) + len(found)


def _code(cells):
    return [c for c in cells if c.cell_type == "code" and c.source.strip()]


def test_wrong_parameter_stops_at_once(tmp_path):
    """One that papermill alone would only mention; what else is refused: test_chapter."""
    command = [sys.executable, "-m", "papermill", str(NOTEBOOKS[0]), "out.ipynb", "-p", "sed", "1"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode != 0
    assert "has no parameter 'sed'; it takes device, profile, seed" in run.stderr


def test_every_part_of_a_row_has_its_lines_of_a_check_or_a_cell_of_a_chapter(rows):
    parts = {(claim, check["part"]) for claim, row in rows.items() for check in row["checks"]}
    bare = [of for of in parts if not code.of_part(*of) and not registry.cells(of[0])]
    told = 'begin the part by its name as a text, t.part("..."), in the check or its helper'
    assert bare == [], told
