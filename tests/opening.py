"""Which files of the project a kernel opens: run first in a kernel, as CLCORE_STARTUP, it writes
them down in the build folder, one file per chapter, under the name of the chapter's checkpoints."""

import os
import sys
from pathlib import Path


def folder(build: Path) -> Path:
    return build / "opened"


def install() -> None:
    """From now on, note every file below the root that is opened to be read."""
    name = Path(os.environ["CLCORE_CHECKPOINTS"]).name
    root = os.environ["CLCORE_ROOT"] + os.sep
    notes = folder(Path(os.environ["CLCORE_BUILD"])) / name
    notes.parent.mkdir(parents=True, exist_ok=True)
    out = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    seen = set()

    def note(event: str, given: tuple) -> None:
        # With flags alone (os.open) and for writing: the project's own temporary files.
        if event != "open" or not isinstance(given[0], str | bytes) or "w" in (given[1] or "r"):
            return
        path = os.path.abspath(os.fsdecode(given[0]))  # noqa: PTH100 - Path would open, too
        if path.startswith(root) and path not in seen:
            seen.add(path)
            os.write(out, f"{path.removeprefix(root)}\n".encode())

    sys.addaudithook(note)


if __name__ == "<run_path>":
    install()
