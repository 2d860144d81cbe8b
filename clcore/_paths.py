"""Where the project's files are."""

import os
from pathlib import Path

ROOMS = ("binder", "book", "chapters", "clcore", "data", "locks")
"""Folders of the project that a build reads; it also reads every file next to them."""


def root() -> Path:
    """The repository root: $CLCORE_ROOT if set, else the folder that holds this package.

    Raises FileNotFoundError when there is no data/claims (clcore installed without its clone).
    """
    here = given("CLCORE_ROOT", Path(__file__).parents[1]).resolve()
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
    return (base() / given(variable, default)).resolve()


def given(variable: str, default: Path | str) -> Path:
    """The path that an environment variable gives, else the default, as it is."""
    return home(os.environ.get(variable) or default, f"{variable}: ")


def home(path: Path | str, what: str = "") -> Path:
    """A path with `~` at its beginning as the home folder: where no shell has read it, as in a file
    of variables or in --out=~/here, it still is there. Raises ValueError where there is no home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ValueError(
            f"{what}expected a path, got {str(path)!r}, and this user has no home folder here; "
            "give the whole path"
        ) from None


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
