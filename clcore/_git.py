"""The project's use of git: in its own repository, whatever the environment variables.

A hook of git, and a shell that works on a bare repository, have variables which lead every git of
theirs into that repository; a project that was unpacked from an archive may lie inside another one.
So the environment has none of them, and git is asked only where a repository's top is the folder.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from clcore import _paths

_KEPT = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_SSH", "GIT_SSL_", "GIT_HTTP_", "GIT_PROXY_")
_KEPT_WHOLE = {"GIT_ASKPASS", "GIT_TERMINAL_PROMPT", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"}


class GitError(ValueError):
    """What git was asked for cannot be had; why, in words."""


def environment() -> dict[str, str]:
    """The environment for git: of its variables only the committer and access to other machines."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith(_KEPT) or name in _KEPT_WHOLE
    }
    return kept | {"GIT_OPTIONAL_LOCKS": "0"}


def git(folder: Path, *words: str, limit: float | None = 60) -> str:
    """The output of `git WORDS` in the repository whose top is a folder, without the final newline.

    limit: seconds. Raises GitError without git, where the folder is not the top of a repository,
    and if the command fails, with its message.
    """
    said = _run(folder, ("rev-parse", "--show-toplevel"), limit)
    if not said or not folder.samefile(said):
        raise GitError(f"{folder} is no git repository, but lies inside the one at {said or '?'}")
    return _run(folder, words, limit)


def holds(folder: Path, *words: str) -> bool:
    """Whether a command that asks goes well, such as `rev-parse --verify --quiet REF`."""
    try:
        git(folder, *words)
    except GitError:
        return False
    return True


def commit() -> str:
    """The commit of the project, twelve digits, with -dirty behind them where what a build reads is
    not as committed: a tracked file, or one in no commit that can take part. Raises GitError."""
    root = _paths.root()
    at = git(root, "rev-parse", "--short=12", "--verify", "HEAD")
    listed = git(root, "status", "--porcelain", "--untracked-files=all", "-z")
    return at + ("-dirty" if _counts(listed.split("\0")) else "")


def _counts(entries: Iterable[str]) -> bool:
    """Whether one of the lines of a status counts. In no commit are also notes and results that
    somebody keeps in the project's folder: of these, files in a room of a build, or any Python."""
    for entry in entries:
        if not entry.startswith("??"):
            if entry:
                return True
        elif entry.endswith(".py") or entry[3:].split("/")[0] in _paths.ROOMS:
            return True
    return False


def _run(folder: Path, words: Iterable[str], limit: float | None) -> str:
    if not shutil.which("git"):
        raise GitError("expected git on this machine, there is none")
    try:
        run = subprocess.run(
            ["git", *words],
            cwd=folder,
            env=environment(),
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            stdin=subprocess.DEVNULL,
            timeout=limit,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitError(f"git {' '.join(words)}: {error}") from error
    if run.returncode:
        lines = [line.strip() for line in run.stderr.splitlines()] or [f"status {run.returncode}"]
        why = next((line for line in lines if line.startswith(("fatal: ", "! "))), lines[0])
        raise GitError(f"git {' '.join(words)}: {why.removeprefix('fatal: ')}")
    return run.stdout.removesuffix("\n")
