"""Where the project's files are."""

import os
from pathlib import Path


def root() -> Path:
    """The repository root: $CLCORE_ROOT if set, else the folder that holds this package.

    Raises FileNotFoundError when there is no data/claims (clcore installed without its clone).
    """
    here = Path(os.environ.get("CLCORE_ROOT") or Path(__file__).parents[1]).resolve()
    if not (here / "data" / "claims").is_dir():
        raise FileNotFoundError(
            f"expected the repository (with data/claims) at {here}, found none; install clcore "
            "from a clone with `pip install -e .`, or set CLCORE_ROOT to the clone"
        )
    return here


def build_dir() -> Path:
    """Everything that is made and may be deleted: $CLCORE_BUILD if set, else _build."""
    return Path(os.environ.get("CLCORE_BUILD") or root() / "_build").resolve()


def shown(path: Path) -> str:
    """A path as it is shown to the reader: relative to the root where it lies below it."""
    try:
        return str(path.resolve().relative_to(root().resolve()))
    except ValueError:
        return str(path)
