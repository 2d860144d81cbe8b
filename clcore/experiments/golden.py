"""Golden traces: runs of the authors' own programs, as numbers, for ours to be compared with.

A trace is a few steps of one of their training loops in float64: the weights at its start, every
batch, the loss of every step, the weights at its end. They lie in data/golden/, one npz each, and
index.json there gives for each the repository, commit and class that made it, the settings and
the checksum. `tests/golden/make.py` records them from a checkout of the programs.
"""

import difflib
import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clcore import _paths
from clcore._files import read_json

TOLERANCE = 1e-12
"""Relative, of a step's loss and of final weights: ten times the largest difference measured but
for the exceptions, and a millionth of what a wrong sign, factor or mask makes."""

EXCEPTIONS = {
    "nl-zeta-10": (1e-7, "the program holds the norm 1/10 as a float32"),
    "nl-zeta-10-bn-mean": (1e-6, "the program holds the norm 1/10 as a float32"),
    "ncl-simplified-empty-views": (
        1e-3,
        "a view with every coordinate masked has no direction: the program multiplies its gradient "
        "by 10¹², and the halves that should cancel leave their rounding; our code gives it no "
        "gradient",
    ),
}
"""Traces that agree less well: their own tolerance, and why."""

GROUPS = ("start", "end", "batch", "more")
RESTORE = "bring it back with `git checkout -- data/golden`"


class BadGolden(ValueError):
    """A golden file that cannot be trusted: cut short, changed, or not what its index declares."""


@dataclass(frozen=True)
class Golden:
    """One trace. Arrays have the program's own names: start and end its parameters, batch what
    entered a step (steps on the first axis), more what belongs to one family only."""

    name: str
    program: str
    repository: str
    commit: str
    entry: list[str]
    settings: dict
    start: dict[str, np.ndarray]
    end: dict[str, np.ndarray]
    batch: dict[str, np.ndarray]
    loss: np.ndarray
    more: dict[str, np.ndarray]

    @property
    def family(self) -> str:
        """The paper whose program it is: ncl, nl or ddn."""
        return self.name.split("-")[0]


def folder() -> Path:
    """Where the traces are."""
    return _paths.root() / "data" / "golden"


def digest(data: bytes) -> str:
    """The plain sha256 of a file, as `sha256sum` prints it."""
    return hashlib.sha256(data).hexdigest()


def index(where: Path | None = None) -> dict:
    """The index: its "programs" (repository, commit, files) and "traces". Errors: not there, cut
    short."""
    found = read_json((where or folder()) / "index.json", RESTORE)
    if not isinstance(found, dict) or not {"programs", "traces"} <= set(found):
        raise BadGolden(f"{(where or folder()) / 'index.json'} lists no traces; {RESTORE}")
    return found


def names(where: Path | None = None) -> list[str]:
    """All traces, sorted: the family (the paper's key) comes first in a name."""
    return sorted(index(where)["traces"])


def load(name: str, where: Path | None = None) -> Golden:
    """One trace, compared with its index.

    Raises ValueError for a name that is not in the index, and BadGolden, a ValueError that names
    the file, when it is missing, cut short, has another checksum, commit or dtype than declared, or
    lacks an array. Nothing is unpickled. where: another folder than data/golden.
    """
    found = index(where)
    if name not in found["traces"]:
        near = difflib.get_close_matches(name, found["traces"], n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "`python -m clcore golden` has all"
        raise ValueError(f"expected the name of a golden trace, got {name!r}; {hint}")
    told = found["traces"][name]
    program = found["programs"][told["program"]]
    path = (where or folder()) / f"{name}.npz"
    arrays = _arrays(path, _bytes(path, told))
    commit = str(arrays.pop("commit", np.array("none")))
    if commit != program["commit"]:
        raise BadGolden(
            f"{_paths.shown(path)}: its index declares commit {program['commit']} of "
            f"{program['repository']}, the file was recorded from {commit}; {RESTORE}, or record "
            "it again with tests/golden/make.py"
        )
    parts: dict[str, Any] = {group: {} for group in GROUPS}
    for key, array in arrays.items():
        group, _, member = key.partition("/")
        if group in parts:
            parts[group][member] = array
    loss = arrays.get("loss")
    if loss is None or not parts["start"] or set(parts["start"]) != set(parts["end"]):
        raise BadGolden(
            f"{_paths.shown(path)}: expected start, end and loss, got {sorted(arrays)}; {RESTORE}"
        )
    _check_dtype(path, told, parts, loss)
    about: dict[str, Any] = {
        "repository": program["repository"],
        "commit": commit,
        "entry": told["entry"],
    }
    about |= {"program": told["program"], "settings": told["settings"]}
    return Golden(name=name, loss=loss, **about, **parts)


def _bytes(path: Path, told: dict) -> bytes:
    """The file, if it is the one of the index."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise BadGolden(f"{_paths.shown(path)} is not there; {RESTORE}") from None
    if len(data) < told["bytes"]:
        raise BadGolden(
            f"{_paths.shown(path)} is cut short: expected {told['bytes']} bytes, got {len(data)}; "
            f"{RESTORE}"
        )
    if (got := digest(data)) != told["sha256"]:
        raise BadGolden(
            f"{_paths.shown(path)} has another checksum than its index declares: expected sha256 "
            f"{told['sha256']}, got {got}; {RESTORE}"
        )
    return data


def _arrays(path: Path, data: bytes) -> dict[str, np.ndarray]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, KeyError, AttributeError, zipfile.BadZipFile) as error:
        raise BadGolden(
            f"{_paths.shown(path)} cannot be read as an npz of plain arrays "
            f"({type(error).__name__}: {str(error)[:80]}); {RESTORE}"
        ) from None


def _check_dtype(path: Path, told: dict, parts: dict[str, dict], loss: np.ndarray) -> None:
    """Weights, losses and every batch that is not of whole numbers: float64, as is declared."""
    numbers = {"loss": loss}
    for group, members in parts.items():
        numbers |= {f"{group}/{name}": a for name, a in members.items() if a.dtype.kind not in "iu"}
    wrong = [f"{name} is {a.dtype}" for name, a in numbers.items() if a.dtype != np.float64]
    if told["dtype"] != "float64":
        wrong.append(f"the index declares {told['dtype']}")
    if wrong:
        raise BadGolden(
            f"{_paths.shown(path)}: expected float64, but {', '.join(wrong[:3])}; float32 rounds "
            "too much for this comparison"
        )


# ------------------------------------------------------------------------------------- how near


def tolerance(name: str) -> float:
    """The tolerance for loss and weights of a trace."""
    return EXCEPTIONS[name][0] if name in EXCEPTIONS else TOLERANCE


def measured(where: Path | None = None) -> dict[str, dict]:
    """By trace, what `python -m clcore golden --write` last found: steps, and the largest relative
    differences of loss and weights. Errors: not there, other traces
    than the index has."""
    path = (where or folder()) / "measured.json"
    remedy = "`python -m clcore golden --write` measures it again"
    found = read_json(path, remedy)
    expected = {n for n, told in index(where)["traces"].items() if told["steps"]}
    if set(found) != expected:
        odd = sorted(set(found) ^ expected)
        raise BadGolden(f"{_paths.shown(path)} and the index differ in {', '.join(odd)}; {remedy}")
    return found


def by_family(found: dict[str, dict]) -> list[dict]:
    """One row per family, exceptions left out, and one per exception: family, traces, steps and the
    largest differences."""
    groups: dict[str, list[str]] = {}
    for name in sorted(found, key=lambda n: (n in EXCEPTIONS, n)):
        groups.setdefault(name if name in EXCEPTIONS else name.split("-")[0], []).append(name)
    return [
        {"family": family, "traces": len(members)}
        | {"steps": sum(found[n]["steps"] for n in members)}
        | {what: max(found[n][what] for n in members) for what in ("loss", "weights")}
        for family, members in groups.items()
    ]
