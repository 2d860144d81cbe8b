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


def base() -> Path:
    """Where folders are that are not given in full: in the repository; for a clcore installed
    without its clone, in the user's folder for caches."""
    try:
        return root()
    except FileNotFoundError:
        if os.environ.get("CLCORE_ROOT"):
            raise
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clcore"


def folder(variable: str, default: str) -> Path:
    """The folder that an environment variable names, else the default below `base()`.

    A relative one is below that, too: kernels, tools and shells stand in different folders,
    and must mean the same one.
    """
    return (base() / (os.environ.get(variable) or default)).resolve()


def build_dir() -> Path:
    """Everything that is made and may be deleted: $CLCORE_BUILD if set, else _build."""
    return folder("CLCORE_BUILD", "_build")


def data_dir() -> Path:
    """Where data sets are: $CLCORE_DATA if set, else data/cache."""
    return folder("CLCORE_DATA", "data/cache")


def shown(path: Path) -> str:
    """A path as it is shown to the reader: relative to `base()` where it lies below it."""
    try:
        return str(path.resolve().relative_to(base().resolve()))
    except ValueError:
        return str(path)
