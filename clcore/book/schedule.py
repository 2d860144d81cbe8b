"""Which chapters of a build run side by side, in which order, with how many threads."""

import json
import math
from itertools import accumulate

import psutil

from clcore import _paths

# Seconds of the profile smoke on two cores, two chapters at a time. They order what this machine
# has not run yet; a chapter that is not here may be the longest.
MEASURED = {
    "0-start-here": 10,
    "1-minmax": 25,
    "1-minmax-images": 25,
    "2-deep-linear-pca": 18,
    "2-arrival": 12,
    "3-relu-composition": 21,
    "3-feature-composition": 14,
    "3-relu-composition-images": 19,
    "4-dual-networks": 15,
    "4-residue": 15,
    "4-dual-networks-images": 20,
    "4-hltm": 20,
    "4-trained-trees": 20,
    "5-one-layer": 20,
    "5-many-optima": 20,
    "5-two-layer": 32,
    "5-two-layer-images": 11,
    "6-landscape": 20,
    "6-training": 30,
    "6-dynamics": 30,
    "6-warm-starts": 30,
}
MIB = 1024  # for a chapter that this machine has not run yet; in smoke none needed more


def usable_cores() -> int:
    """Cores that this process may use: its affinity and the limit of its container count."""
    from joblib import cpu_count  # an import that a build with nothing to run can spare

    return cpu_count()


def asked(jobs: int | str) -> int | str:
    """`jobs` as a number, or "auto". Raises ValueError for anything else."""
    if jobs == "auto":
        return "auto"
    try:
        number = int(jobs)
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError(f"expected --jobs to be auto or a whole number from 1; got {jobs!r}")
    return number


def last_run(chapter: str, profile: str) -> dict:
    """The outcome of a chapter's newest run in the cache, of whatever state of its sources."""
    entries = (_paths.build_dir() / "cache").glob(f"{chapter}-{profile}-*")
    for entry in sorted(entries, key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            outcome = json.loads((entry / "run.json").read_bytes())
            return {name: float(outcome[name]) for name in ("seconds", "peak_mib")}
        except (OSError, ValueError, KeyError, TypeError):  # a damaged entry: the build says so
            continue
    return {}


def longest_first(chapters: list[str], profile: str) -> list[str]:
    """The order in which chapters are begun, so that no long one is left to the end.

    First those that this machine has not run in this profile, by MEASURED, then the others by what
    they took.
    """

    def rank(chapter: str) -> tuple[bool, float]:
        run = last_run(chapter, profile)
        return bool(run), -run.get("seconds", MEASURED.get(chapter, math.inf))

    return sorted(chapters, key=rank)


def side_by_side(jobs: int | str, device: str, chapters: list[str], profile: str) -> int:
    """How many of the chapters run at a time.

    Never more than there are. "auto": one on a GPU, which they would share; else one per core, as
    far as the free memory goes, should the hungriest of them meet.
    """
    most = max(1, len(chapters))
    if jobs != "auto":
        return min(int(jobs), most)
    if device != "cpu":
        return 1
    need = sorted((last_run(name, profile).get("peak_mib", MIB) for name in chapters), reverse=True)
    free = psutil.virtual_memory().available / 2**20
    fitting = sum(total <= free for total in accumulate(need))
    return max(1, min(usable_cores(), fitting, most))


def threads(jobs: int) -> int | None:
    """Threads for each of several chapters, which would slow one another down with every core;
    None, which leaves it to PyTorch, for one at a time."""
    return max(1, usable_cores() // jobs) if jobs > 1 else None
