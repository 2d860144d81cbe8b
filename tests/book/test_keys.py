"""What a chapter's result depends on: imports, fronts, claims, versions."""

import json

import pytest

from clcore import _paths, ledger
from clcore.book import keys


def test_closure_follows_a_claim_to_its_check_and_imports_through_subpackages():
    names = {
        str(p.relative_to(_paths.root() / "clcore"))
        for p in keys.closure(['here.ledger.run(["acl/eq1"], 1, 0)'])
    }
    assert {"checks/minmax/family.py", "losses/contrast.py", "losses/pairs.py"} <= names
    assert {"ledger/printed.py", "_paths.py"} <= names
    assert {"__init__.py", "checks/minmax/__init__.py", "losses/__init__.py"} <= names
    assert not names & {"book/build/__init__.py", "sweep/engine.py", "sweep/__init__.py"}


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
    assert keys.imported(source, package) == found


PAIRS = {"losses/pairs.py"}
FAMILY = PAIRS | {"losses/contrast.py", "losses/infonce_family.py"}
ROOM = FAMILY | {"losses/modules.py", "losses/minplayer.py", "losses/sources.py"}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from clcore.losses import infonce_pair", PAIRS),
        ("from clcore.losses.pairs import infonce_pair", PAIRS),
        ("from clcore.losses import pairs", PAIRS),
        ("from clcore.losses import infonce as loss", FAMILY),
        ("from clcore.losses import InfoNCE", FAMILY | {"losses/modules.py"}),
        ("from clcore import losses", ROOM),
        ("from clcore.losses import *", ROOM),
        ("import clcore.losses as losses", ROOM),
        ("from clcore import __version__", set()),
        ("import numpy", None),
    ],
)
def test_a_front_is_followed_to_the_file_that_defines_a_name(source, found):
    around = {"__init__.py", "_front.py"}
    if "losses" in source:
        around |= {"losses/__init__.py"}
    names = {str(p.relative_to(_paths.root() / "clcore")) for p in keys.closure([source])}
    assert names == (set() if found is None else around | found)


def test_who_has_all_of_clcore_in_hand_depends_on_all_rooms():
    names = {str(p.relative_to(_paths.root() / "clcore")) for p in keys.closure(["import clcore"])}
    assert ROOM | {"theory/trees/lucky_nodes.py", "sweep/engine.py", "nets/resnet.py"} <= names
    assert not any(n.startswith(("checks", "book", "experiments", "ledger")) for n in names)


def test_a_notebook_names_its_claims_by_group_or_one_by_one(tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"metadata": {"clcore": {"claims": ["acl/minmax", "acl/fig7"]}}}))
    found = keys.claimed(path)
    assert len(found) == 25
    assert [i for i in found if ledger.claim(i)["chapter"] != "minmax"] == ["acl/fig7"]
    path.write_text(json.dumps({"metadata": {}}))
    assert keys.claimed(path) == []


def test_what_others_put_on_the_path_is_not_installed(tmp_path, monkeypatch):
    """As setuptools does, which torch imports to compile."""
    before = keys._versions()
    vendored = tmp_path / "wheel-0.0.1.dist-info"
    vendored.mkdir()
    (vendored / "METADATA").write_text("Metadata-Version: 2.1\nName: wheel\nVersion: 0.0.1\n")
    monkeypatch.syspath_prepend(tmp_path)
    keys._versions.cache_clear()
    assert keys._versions() == before and before["torch"]
