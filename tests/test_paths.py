"""Where the project's folders are, whoever names them."""

import pytest

from clcore import _paths
from clcore.grid import seats
from clcore.images import datasets


def test_places_do_not_depend_on_where_one_stands(monkeypatch, tmp_path):
    """A relative folder is one below the root, in a shell there and in a kernel in chapters/."""
    for folder in (tmp_path, _paths.root(), _paths.root() / "chapters"):
        monkeypatch.chdir(folder)
        monkeypatch.setenv("CLCORE_BUILD", "made/here")
        monkeypatch.setenv("CLCORE_DATA", "sets")
        assert _paths.build_dir() == _paths.root() / "made" / "here"
        assert datasets.folder("mnist") == _paths.root() / "sets" / "mnist"


def test_a_home_folder_is_one_where_no_shell_has_read_the_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, found in (("BUILD", _paths.build_dir), ("DATA", _paths.data_dir)):
        monkeypatch.setenv(f"CLCORE_{name}", "~/here")
        assert found() == tmp_path / "here"
    monkeypatch.setenv("CLCORE_SEATS", "~/seats")
    assert seats.folder() == tmp_path / "seats"
    (tmp_path / "clone").symlink_to(_paths.root())
    monkeypatch.setenv("CLCORE_ROOT", "~/clone")
    assert (_paths.root() / "data" / "claims").is_dir()
    monkeypatch.setenv("CLCORE_BUILD", "~nobody-of-this-name/x")
    with pytest.raises(ValueError, match=r"CLCORE_BUILD: .*'~nobody-of-this-name/x'.*whole path"):
        _paths.build_dir()
