"""What a chapter's result depends on: imports, fronts, claims, versions."""

import json
import os
import re
from pathlib import Path

import opening
import pytest
import typechecking
from small_project import CHECK, notebook

from clcore import _imports, _paths, ledger
from clcore.book import build, keys
from clcore.book.build.planning import checkpoints


def test_closure_follows_a_claim_to_its_check_and_imports_through_subpackages():
    names = {
        str(p.relative_to(_paths.root() / "clcore"))
        for p in keys.closure(['here.ledger.run(["acl/eq1"], 1, 0)'])
    }
    assert {"checks/minmax/family.py", "losses/contrast.py", "losses/pairs.py"} <= names
    assert {"ledger/printed.py", "_paths.py"} <= names
    assert {"__init__.py", "checks/minmax/__init__.py", "losses/__init__.py"} <= names
    assert not names & {"book/build/__init__.py", "sweep/engine.py"}


@pytest.mark.parametrize(
    ("source", "package", "found"),
    [
        ("import clcore.sweep", "", {"clcore", "clcore.sweep"}),
        ("import clcore.sweep as s", "", {"clcore.sweep"}),
        ("from clcore import sweep", "", {"clcore.sweep"}),
        ("from . import sweep", "clcore", {"clcore.sweep"}),
        ("from .sweep import train", "clcore", {"clcore.sweep.train"}),
        ("from ..ledger import Check", "clcore.checks", {"clcore.ledger.Check"}),
        ("from .a import b", "clcore.checks", {"clcore.checks.a.b"}),
    ],
)
def test_imports_are_resolved(source, package, found):
    assert _imports.imported(source, package) == found


PAIRS = {"losses/pairs.py", "losses/floating.py"}
FAMILY = PAIRS | {"losses/contrast.py", "losses/infonce_family.py", "losses/infonce_large.py"}
FAMILY |= {"sweep/__init__.py", "sweep/__init__.pyi", "sweep/optim.py"}
MODULES = FAMILY | {"losses/modules.py", "losses/labelled.py"}
ROOM = MODULES | {"losses/minplayer.py", "losses/processes.py", "losses/sources.py"}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from clcore.losses import infonce_pair", PAIRS),
        ("from clcore.losses.pairs import infonce_pair", PAIRS),
        ("from clcore.losses import pairs", PAIRS),
        ("from clcore.losses import infonce as loss", FAMILY),
        ("from clcore.losses import InfoNCE", MODULES),
        ("from clcore import losses", ROOM),
        ("from clcore.losses import *", ROOM),
        ("import clcore.losses as losses", ROOM),
        ("from clcore import __version__", set()),
        ("import numpy", None),
    ],
)
def test_a_front_is_followed_to_the_file_that_defines_a_name(source, found):
    around = {"__init__.py", "__init__.pyi"}
    if "losses" in source:
        around |= {"losses/__init__.py", "losses/__init__.pyi"}
    names = {str(p.relative_to(_paths.root() / "clcore")) for p in keys.closure([source])}
    assert names == (set() if found is None else around | found)


def test_who_has_all_of_clcore_in_hand_depends_on_all_rooms():
    names = {str(p.relative_to(_paths.root() / "clcore")) for p in keys.closure(["import clcore"])}
    assert ROOM | {"theory/trees/lucky_nodes.py", "sweep/engine.py", "nets/resnet.py"} <= names
    assert not any(n.startswith(("checks", "book", "experiments", "ledger")) for n in names)


def test_a_notebook_names_its_claims_by_group_or_one_by_one(tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_text(
        json.dumps({"cells": [], "metadata": {"clcore": {"claims": ["acl/minmax", "acl/fig7"]}}})
    )
    found = keys.claimed(path)
    assert len(found) == 25
    assert [i for i in found if ledger.claim(i)["chapter"] != "minmax"] == ["acl/fig7"]
    path.write_text(json.dumps({"cells": [], "metadata": {}}))
    assert keys.claimed(path) == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("acl/minimax", "did you mean acl/minmax, "),
        ("acl/fig77", "did you mean acl/fig7"),
        ("nonsense", "its groups are in data/claims/papers.yaml"),
    ],
)
def test_a_name_that_is_neither_a_group_nor_a_claim_is_refused(tmp_path, name, hint):
    path = tmp_path / "a.ipynb"
    path.write_text(
        json.dumps({"cells": [], "metadata": {"clcore": {"claims": ["acl/minmax", name]}}})
    )
    told = f"chapters/a.ipynb: its metadata name {name!r}, which is neither a group of claims"
    with pytest.raises(ledger.LedgerError, match=re.escape(told) + ".*" + re.escape(hint)):
        keys.claimed(path)


def test_a_group_may_have_no_claims_yet(tmp_path, monkeypatch):
    papers = {"acl": {"groups": {"new": "Something"}}}
    monkeypatch.setattr(ledger, "papers", lambda: papers)
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": [], "metadata": {"clcore": {"claims": ["acl/new"]}}}))
    assert keys.claimed(path) == []


def test_what_others_put_on_the_path_is_not_installed(tmp_path, monkeypatch):
    """As setuptools does, which torch imports to compile."""
    before = keys.versions()
    vendored = tmp_path / "wheel-0.0.1.dist-info"
    vendored.mkdir()
    (vendored / "METADATA").write_text("Metadata-Version: 2.1\nName: wheel\nVersion: 0.0.1\n")
    monkeypatch.syspath_prepend(tmp_path)
    keys.versions.cache_clear()
    assert keys.versions() == before and before["torch"]


# Their own count alone, and without words (test_build, test_findings).
CLAIMS = ("data/claims/", "data/findings/", "data/headlines/", "chapters/", "_toc.yml")
INSTALLED = "clcore.egg-info/"  # what pip wrote of this package: its version, which is no input


def _unlisted(run, made: Path) -> set[str]:
    """What a chapter read when it ran and its key does not know; code is followed by imports."""
    root, data = _paths.root(), _paths.data_dir()
    read = set((opening.folder(made) / checkpoints(run).name).read_text().splitlines())
    listed = {str(p.relative_to(root)) for p in keys.inputs(run.notebook, run.parameters)}
    code = {r for r in read if r.endswith(".py") or r.startswith((".git", ".venv"))}
    code |= {r for r in read if "__pycache__" in Path(r).parts}
    made_here = {r for r in read if (root / r).is_relative_to(made)}
    sets = {r for r in read if (root / r).is_relative_to(data)}
    return {
        r for r in read - listed - code - made_here - sets if not r.startswith((*CLAIMS, INSTALLED))
    }


def test_a_key_knows_the_recorded_results_of_another_chapter(project, monkeypatch):
    for name in ("good", "other"):
        folder = project / "data" / "recorded" / name
        folder.mkdir(parents=True)
        (folder / "runs.csv").write_text("x\n1\n")
        (folder / "runs.json").write_text("{}")
    read = 'both = [here.recorded("runs", of=c) for c in ("good", "other")]'
    sets = "from clcore.images import datasets\nknown = datasets.registry()"
    notebook(project / "chapters" / "good.ipynb", read, sets, CHECK)
    monkeypatch.setenv("CLCORE_STARTUP", opening.__file__)
    assert build.build("smoke", only=["good"]) == 0
    (run,) = [run for run in build.plan("smoke", None, "cpu") if run.name == "good"]
    made = _paths.build_dir()
    assert "recorded/other" in (opening.folder(made) / checkpoints(run).name).read_text()
    assert not _unlisted(run, made)
    for name in ("recorded/other/runs.csv", "recorded/other/runs.json", "datasets.yaml"):
        before = {r.name: r.key for r in build.plan("book", None, "cpu")}
        path = project / "data" / name
        path.write_text(path.read_text() + "\n")
        after = {r.name: r.key for r in build.plan("book", None, "cpu")}
        assert after["good"] != before["good"], name


@pytest.mark.site
def test_a_key_knows_all_that_its_chapter_reads(monkeypatch):
    """Every chapter of the book, by what its kernel opened in the build under test."""
    site = os.environ.get("CLCORE_SITE")
    if not site:
        pytest.skip("no build under test (CLCORE_SITE)")
    made = Path(site).resolve().parent
    monkeypatch.setenv("CLCORE_STARTUP", typechecking.__file__)  # as `make test` builds it
    runs = build.plan("smoke", None, "cpu")
    noted = [r for r in runs if (opening.folder(made) / checkpoints(r).name).exists()]
    if not noted:
        pytest.skip("the build under test noted no opened files (CLCORE_STARTUP)")
    assert {r.name: left for r in noted if (left := _unlisted(r, made))} == {}
