"""The built site on a branch of the repository, for static hosting."""

import re
import subprocess
import sys
from pathlib import Path

from clcore import _git, _paths
from clcore._files import read_json
from clcore.book.provenance import UNKNOWN
from clcore.book.site import serve
from clcore.book.site.launch import BRANCH

MARK = "Made-by: clcore publish"
"""The last line of our commit messages, which identifies a branch that holds a site."""
_BEFORE = re.compile(r"Site of \S+, profile (smoke|book|paper), \d{4}-\d\d-\d\d")  # without it
_SLOW = 3600  # seconds for what goes over a network


class PublishError(ValueError):
    """A site that cannot be put on a branch."""


def publish(
    remote: str = "origin",
    branch: str = BRANCH,
    dry_run: bool = False,
    replace: str | None = None,
    unfinished: bool = False,
) -> str:
    """Put the last build's site on a branch of `remote`; what the branch held before stays in its
    history. Returns what was done, in words.

    dry_run: make the commit on the local branch, and push nothing. replace: the branch once more,
    where its last commit is not ours. unfinished: a site of the profile smoke, or one that lacks
    chapters, too. Raises PublishError without a site or a repository of the project's own, for a
    branch that holds something else, and where the push is refused.
    """
    site, root = _paths.build_dir() / "html", _paths.root()
    if not (site / "index.html").exists():
        raise PublishError(f"there is no site in {_paths.shown(site)} yet; run `make book`")
    said = _said(_state(site), unfinished)
    try:
        remotes = _git.git(root, "remote").split()
        if remote not in remotes and not dry_run:
            known = ", ".join(remotes) or "none"
            raise PublishError(
                f"expected a remote of this repository, got {remote!r}; there is {known}: "
                f"`git remote add {remote} ADDRESS`"
            )
        _refuse_branch(root, branch)
        if remote in remotes:
            _fetch(root, remote, branch)
        _refuse_foreign(root, remote, branch, replace)
        _commit(root, site, remote, branch, said)
        if not dry_run:
            head = f"refs/heads/{branch}"
            _git.git(root, "push", remote, f"{head}:{head}", limit=_SLOW)
    except _git.GitError as error:
        raise PublishError(
            f"the site could not be put on {branch} of {remote}: {error} (the working tree was not "
            "touched)"
        ) from error
    where = "here, not pushed" if dry_run else f"pushed to {remote}"
    return f"{said}: branch {branch}, {where}"


def _state(site: Path) -> dict:
    """The site's description of itself. An older site has none: then only the ledger next to it
    shows whether something is missing, and the commit is unknown, since that ledger may be of a
    later build."""
    if found := serve.state(site):
        return found
    last = read_json(_paths.build_dir() / "ledger.json", "run `make book`")["book"]
    return last | {"commit": UNKNOWN, "built": "an unknown day"}


def _said(book: dict, unfinished: bool) -> str:
    """The description of the site. Raises PublishError if it is not finished, unless that is
    intended."""
    absent = [c["name"] for c in book.get("chapters", []) if c["status"] != "ok"]
    problems = [f"chapters that did not run well: {', '.join(absent)}"] if absent else []
    if book["profile"] == "smoke":
        problems.append("its numbers are of the profile smoke, which only tests the code")
    if problems and not unfinished:
        raise PublishError(
            f"the site is not finished: {'; '.join(problems)}. Run `make book`, or "
            "`make publish ARGS=--unfinished` to publish it as it is"
        )
    of = "an unknown commit" if book["commit"] == UNKNOWN else book["commit"]
    without = f", without {', '.join(absent)}" if absent else ""
    return f"Site of {of}, profile {book['profile']}, {book['built']}{without}"


def _refuse_branch(root: Path, branch: str) -> None:
    """Raises PublishError for what is no name of a branch, or that of one at which a working tree
    stands, which would differ from it."""
    if not _git.holds(root, "check-ref-format", f"refs/heads/{branch}"):
        raise PublishError(f"expected the name of a branch, got {branch!r}")
    trees = _git.git(root, "worktree", "list", "--porcelain").splitlines()
    if f"branch refs/heads/{branch}" in trees:
        raise PublishError(
            f"expected a branch for the site alone, got {branch!r}, which is checked out here; "
            f"`{BRANCH}` is the usual one"
        )


def _fetch(root: Path, remote: str, branch: str) -> None:
    """Get the branch, which a clone of another branch alone does not have. Raises PublishError for
    the remote's default branch, where that holds no site."""
    listed = _git.git(root, "ls-remote", "--symref", remote, "HEAD", f"refs/heads/{branch}")
    here, head = _here(remote, branch), f"refs/heads/{branch}"
    if not any(line.endswith(f"\t{head}") for line in listed.splitlines()):
        if _there(root, here):
            _git.git(root, "update-ref", "-d", here)  # it was, at the last fetch
        return
    shallow = _git.git(root, "rev-parse", "--is-shallow-repository") == "true"
    depth = ["--depth=1"] if shallow else []
    _git.git(root, "fetch", "--no-tags", *depth, remote, f"+{head}:{here}", limit=_SLOW)
    if f"ref: {head}\tHEAD" in listed.splitlines() and not _ours(root, here):
        raise PublishError(
            f"expected a branch for the site alone, got {branch!r}, the default branch of "
            f"{remote}; `{BRANCH}` is the usual one"
        )


def _refuse_foreign(root: Path, remote: str, branch: str, replace: str | None) -> None:
    """Raises PublishError where the branch, there or here, ends in somebody's commit and is not
    named twice."""
    there, here = _here(remote, branch), f"refs/heads/{branch}"
    for name, at in ((f"{branch} of {remote}", there), (f"{branch} here", here)):
        if replace == branch or not _there(root, at) or _ours(root, at):
            continue
        if at == here and _git.holds(root, "merge-base", "--is-ancestor", here, there):
            continue
        form = "--format=%(objectname:short) %(contents:subject)"
        last = _git.git(root, "for-each-ref", form, at)
        raise PublishError(
            f"expected {name} to end in a site of ours, or to be empty; its last commit is "
            f"{last!r}. Nothing was changed; give another --branch, or `--replace {branch}` if the "
            "site may take the place of what is there"
        )


def _ours(root: Path, at: str) -> bool:
    """Whether a branch ends in a commit that we made, or in one without files."""
    said = _git.git(root, "for-each-ref", "--format=%(contents)", at).strip()
    empty = not _git.git(root, "ls-tree", at)
    return empty or said.splitlines()[-1:] == [MARK] or bool(_BEFORE.fullmatch(said))


def _commit(root: Path, site: Path, remote: str, branch: str, said: str) -> None:
    """Make the commit on the local branch, behind what the remote has."""
    who = _committer(root)
    options = ["--no-jekyll", "-m", f"{said}\n\n{MARK}", "-r", remote, "-b", branch]
    there = _here(remote, branch)
    if _there(root, f"{there}:CNAME"):  # the address of the site, which its host wrote there
        options += ["--cname", _git.git(root, "show", f"{there}:CNAME").strip()]
    command = [sys.executable, "-m", "ghp_import", *options, str(site)]
    run = subprocess.run(
        command,
        cwd=root,
        env=_git.environment() | who,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    if run.returncode:
        why = (run.stderr.strip() or run.stdout.strip()).splitlines()[-1:]
        raise _git.GitError("".join(why))


def _committer(root: Path) -> dict[str, str]:
    """Who makes the commit, as variables for git. Raises PublishError if git has no committer."""
    try:
        said = _git.git(root, "var", "GIT_COMMITTER_IDENT")
    except _git.GitError as error:
        raise PublishError(
            f"expected a git identity, found none ({error}); set it by `git config user.name NAME` "
            "and `git config user.email ADDRESS`"
        ) from None
    name, _, rest = said.partition(" <")
    return {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": rest.partition(">")[0]}


def _there(root: Path, what: str) -> bool:
    return _git.holds(root, "rev-parse", "--verify", "--quiet", what)


def _here(remote: str, branch: str) -> str:
    return f"refs/remotes/{remote}/{branch}"
