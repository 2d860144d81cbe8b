"""What the doctor asks for: the pins of this machine and this Python, and no others."""

import importlib.metadata as metadata
from types import SimpleNamespace

import pytest

from clcore.book import doctor

REQUIREMENTS = """\
# Everything, pinned == here.
-e .[test]

numpy==2.4.6
uvicorn[standard]==1.0
here==1.5; python_version >= "3.11"
old==3.0; python_version == "2.7"
elsewhere==1.0.0; sys_platform == "plan9"
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "requirements.txt").write_text(REQUIREMENTS)
    (tmp_path / "data" / "claims").mkdir(parents=True)
    monkeypatch.setenv("CLCORE_ROOT", str(tmp_path))


def test_only_the_pins_whose_marker_is_met_count(project):
    assert doctor.pinned() == {"numpy": "2.4.6", "uvicorn": "1.0", "here": "1.5"}


def versions(**found):
    """Versions of installed packages, as `importlib.metadata` gives them."""

    def version(name):
        if name not in found:
            raise metadata.PackageNotFoundError(name)
        return found[name]

    return version


@pytest.mark.parametrize(
    ("found", "status", "told"),
    [
        ({"numpy": "2.4.6+local", "uvicorn": "1.0", "here": "1.5"}, 0, "Everything that the build"),
        ({"numpy": "2.0", "uvicorn": "1.0", "here": "1.5"}, 1, "numpy is 2.0, pinned is 2.4.6"),
        ({"numpy": "2.4.6", "uvicorn": "1.0"}, 1, "missing    here is missing; `make setup`"),
    ],
)
def test_what_is_missing_or_other_is_told_and_nothing_else(
    project, monkeypatch, capsys, found, status, told
):
    monkeypatch.setattr(doctor.importlib.metadata, "version", versions(**found))
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda root: SimpleNamespace(free=2**40))
    assert doctor.examine() == status
    out = capsys.readouterr().out
    assert told in out and "old" not in out and "elsewhere" not in out
    assert out.count("missing    ") == status
