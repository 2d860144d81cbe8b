"""The built site on a branch of the repository, for static hosting."""

import subprocess
import sys
from pathlib import Path

from clcore import _paths
from clcore._files import read_json
from clcore.book.site.launch import BRANCH


class PublishError(ValueError):
    """A site that cannot be put on a branch."""


def publish(remote: str = "origin", branch: str = BRANCH, dry_run: bool = False) -> str:
    """Put the last build's site on a branch of `remote`; what the branch held before stays in its
    history. Returns what was done, in words.

    dry_run: make the commit on the local branch, and push nothing. Raises PublishError without a
    site, without git or such a remote, or where the push is refused.
    """
    site, root = _paths.build_dir() / "html", _paths.root()
    if not (site / "index.html").exists():
        raise PublishError(f"there is no site in {_paths.shown(site)} yet; run `make book`")
    remotes = _git(root, "remote").split()
    if remote not in remotes and not dry_run:
        known = ", ".join(remotes) or "none"
        raise PublishError(
            f"expected a remote of this repository, got {remote!r}; there is {known}: "
            f"`git remote add {remote} ADDRESS`"
        )
    book = read_json(_paths.build_dir() / "ledger.json", "run `make book`")["book"]
    said = f"Site of {book['commit']}, profile {book['profile']}, {book['built']}"
    options = ["--no-jekyll", "-m", said, "-r", remote, "-b", branch]
    command = [sys.executable, "-m", "ghp_import", *options, *(["-p"] * (not dry_run)), str(site)]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if run.returncode:
        why = (run.stderr.strip() or run.stdout.strip()).splitlines()[-1:]
        raise PublishError(
            f"the site could not be put on {branch} of {remote}: {''.join(why)} (`git push "
            f"{remote} {branch}` says more; the working tree was not touched)"
        )
    where = "here, not pushed" if dry_run else f"pushed to {remote}"
    return f"{said}: branch {branch}, {where}"


def _git(root: Path, *words: str) -> str:
    try:
        run = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=60)
    except OSError as error:
        raise PublishError(f"expected git on this machine: {error}") from error
    if run.returncode:
        raise PublishError(f"git {' '.join(words)}: {run.stderr.strip()}")
    return run.stdout
