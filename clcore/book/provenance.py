"""The origin of a result, as stated by chapters and by the build; needs no PyTorch."""

import datetime
import math
import os
import platform
import re
from importlib.metadata import version
from typing import Any

from clcore import _git

PROVENANCE_MIME = "application/vnd.clcore.provenance+json"
UNKNOWN = "unknown"
"""An unknown commit: for text, never for git."""


def encode(value: Any) -> Any:
    """JSON has no NaN and no infinity: write such numbers as the strings that float() reads."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {k: encode(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [encode(v) for v in value]
    return value


_ADDRESS = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~-]+){2,}/?")


def address(url: str) -> str:
    """The address of a repository, which is shown on every page, without a slash at its end.

    Raises ValueError for anything but https, a host and at least two names: for a user or password
    in it, a query, or characters that mean something in a page or a shell.
    """
    if not _ADDRESS.fullmatch(url):
        shown = re.sub(r"//.*@", "//...@", url, flags=re.DOTALL)  # no password in a log
        raise ValueError(
            "expected the address of a repository, such as https://github.com/owner/name, without "
            f"user or password, got {shown!r}; set CLCORE_REPOSITORY_URL to it, or unset it for a "
            "site without such links"
        )
    return url.rstrip("/")


def repository() -> str | None:
    """The `address` that $CLCORE_REPOSITORY_URL gives, None without one."""
    url = os.environ.get("CLCORE_REPOSITORY_URL")
    return address(url) if url else None


def commit() -> str:
    """The commit of the code, with -dirty if the working tree differs from it; `UNKNOWN` if git
    cannot determine it, for a reason that `clcore._git.commit` gives."""
    try:
        return _git.commit()
    except _git.GitError:
        return UNKNOWN


def made() -> dict[str, str]:
    """When a record was made (a date, UTC), at which commit, with which versions."""
    versions = {name: version(name) for name in ("torch", "numpy")}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"made": today, "commit": commit(), "python": platform.python_version(), **versions}
