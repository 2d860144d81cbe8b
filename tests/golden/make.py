"""Record runs of the authors' programs: what `tests/test_golden.py` compares ours with.

    python tests/golden/make.py ncl CHECKOUT [NAME ...]
    python tests/golden/make.py luckmatters CHECKOUT [NAME ...]

CHECKOUT is a clone of the repository named in `PROGRAMS`, at that commit. Its data sets, models,
losses and training loops are imported and run as they are, in float64, for some steps; what they
were given and what came out goes to data/golden/. No line of theirs is in this repository. Run with
one thread (OMP_NUM_THREADS=1), so that the same numbers come out again.
"""

import argparse
import io
import logging
import sys
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import drive_ddn  # noqa: E402
import drive_ncl  # noqa: E402
import drive_nl  # noqa: E402
import stand_ins  # noqa: E402

from clcore._files import read_json, write_atomic, write_json  # noqa: E402
from clcore._git import GitError, git  # noqa: E402
from clcore.experiments import golden  # noqa: E402

PROGRAMS = {
    "ncl": {
        "repository": "https://github.com/ashwinipokle/contrastive_landscape",
        "commit": "daec951c7a4cfc6c96464e0ef010081a642e3847",
    },
    "luckmatters": {
        "repository": "https://github.com/facebookresearch/luckmatters",
        "commit": "625b5f7de69dc321f24376f5c6fe3446af3a364b",
    },
}
FOLDERS = {"ncl": [""], "luckmatters": ["ssl/real-dataset", "ssl/hltm"]}
DRIVERS = {"ncl": (drive_ncl,), "luckmatters": (drive_nl, drive_ddn)}


def _said(checkout: Path, *words: str) -> str:
    try:
        return git(checkout, *words).strip()
    except (GitError, OSError) as error:
        raise ValueError(f"{checkout} is no usable checkout: {error}") from error


def check_commit(checkout: Path, program: str) -> None:
    """Raise ValueError unless the checkout is at the recorded commit of that program."""
    got, expected = _said(checkout, "rev-parse", "HEAD"), PROGRAMS[program]["commit"]
    if got != expected:
        raise ValueError(
            f"{checkout}: expected commit {expected} of {PROGRAMS[program]['repository']}, got "
            f"{got}; run `git -C {checkout} checkout {expected}` there"
        )


def check_files(checkout: Path) -> list[str]:
    """The program's files that were imported, or ValueError if one is not as it was committed."""
    root, used = checkout.resolve(), set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and Path(file).resolve().is_relative_to(root):
            used.add(str(Path(file).resolve().relative_to(root)))
    for name in sorted(used):
        expected = _said(root, "rev-parse", f"HEAD:{name}")
        got = _said(root, "hash-object", name)
        if got != expected:
            raise ValueError(
                f"{checkout}/{name}: expected the committed file (blob {expected}), got {got}; "
                f"run `git -C {checkout} checkout HEAD -- {name}`"
            )
    return sorted(used)


def packed(groups: dict[str, dict], commit: str) -> bytes:
    """The npz of one trace: arrays named group/name, and the commit that they come from."""
    arrays = {"commit": np.array(commit)}
    for group, members in groups.items():
        for name, value in members.items():
            array = value.numpy() if isinstance(value, torch.Tensor) else value
            arrays[f"{group}/{name}" if name else group] = array
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("program", choices=PROGRAMS)
    ask.add_argument("checkout", type=Path)
    ask.add_argument("names", nargs="*", help="traces to make again; all unless told")
    told = ask.parse_args()
    check_commit(told.checkout, told.program)
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    stand_ins.install()
    if told.program == "luckmatters":
        stand_ins.common_utils(told.checkout / "ssl" / "common_utils" / "stats.py")
    # Behind this folder: theirs may not hide ours.
    sys.path[1:1] = [str((told.checkout / folder).resolve()) for folder in FOLDERS[told.program]]
    made = {}
    for driver in DRIVERS[told.program]:
        for name, settings in driver.TRACES.items():
            if told.names and name not in told.names:
                continue
            groups = driver.drive(settings)
            data, loss = packed(groups, PROGRAMS[told.program]["commit"]), groups["loss"][""]
            about = {"entry": driver.entry(settings), "settings": settings, "steps": len(loss)}
            made[name] = data, about
            print(f"{name}: {len(data) / 1024:.0f} KiB", flush=True)
    if unknown := set(told.names) - set(made):
        raise ValueError(f"expected names of traces of {told.program}, got {sorted(unknown)}")
    used = check_files(told.checkout)
    write(told.program, made, used, whole=not told.names)


def write(program: str, made: dict[str, tuple], used: list[str], whole: bool) -> None:
    """Write the files, then the index that declares them; `whole`: all of this program's."""
    folder = golden.folder()
    path = folder / "index.json"
    index = read_json(path, "restore it") if path.exists() else {"programs": {}, "traces": {}}
    if whole or program not in index["programs"]:
        index["programs"][program] = PROGRAMS[program] | {"files": used}
    old = {n: t for n, t in index["traces"].items() if whole and t["program"] == program}
    for name in old:
        del index["traces"][name]
    for name, (data, about) in made.items():
        write_atomic(folder / f"{name}.npz", data)
        index["traces"][name] = {
            "program": program,
            **about,
            "dtype": "float64",
            "versions": {"torch": torch.__version__, "numpy": np.__version__},
            "bytes": len(data),
            "sha256": golden.digest(data),
        }
    for name in set(old) - set(made):
        (folder / f"{name}.npz").unlink(missing_ok=True)
    index["traces"] = dict(sorted(index["traces"].items()))
    write_json(path, index)


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        sys.exit(f"error: {error}")
