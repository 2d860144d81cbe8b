"""List what this machine has, what is missing, and how to get it."""

import importlib.metadata
import os
import platform
import shutil
import sys

import psutil
from packaging.requirements import InvalidRequirement, Requirement

from clcore import _device, _git, _paths
from clcore.book import browser
from clcore.book.programs import pyodide


def pinned() -> dict[str, str]:
    """Package versions that requirements.txt asks for on this machine, with this Python."""
    lines = (_paths.root() / "requirements.txt").read_text(encoding="utf-8").splitlines()
    asked = [_requirement(line) for line in lines if line and line[0] not in "#-"]
    return {
        one.name: pin.version
        for one in asked
        if one.marker is None or one.marker.evaluate()
        for pin in one.specifier
    }


def _requirement(line: str) -> Requirement:
    try:
        return Requirement(line)
    except InvalidRequirement as error:
        raise ValueError(
            f"requirements.txt: {line!r} is no requirement ({str(error).splitlines()[0]})"
        ) from None


_OWN = ("torch", "numpy")
"""Packages that a machine with a GPU often has in its own versions, named in its results."""


def _gpus() -> tuple[list[str], list[str]]:
    """Names of the CUDA devices, and notes on what they cannot do."""
    import torch

    if not torch.cuda.is_available():
        why = _device.refused()
        return [], [f"the GPU here is of no use: {why}; a newer driver would do"] if why else []
    devices = range(torch.cuda.device_count())
    names = [torch.cuda.get_device_name(i) for i in devices]
    weak = [i for i in devices if not _device.bfloat16(f"cuda:{i}")]
    notes = [
        f"cuda:{i} has no bfloat16 (compute capability below 8): image chapters take float32"
        for i in weak
    ]
    return names, notes


def examine() -> int:
    """Print the findings; return 1 when something that the build needs is missing or differs."""
    import torch

    gpus, notes = _gpus()
    disk = shutil.disk_usage(_paths.root())
    memory = psutil.virtual_memory()
    print(f"python     {platform.python_version()} ({sys.executable})")
    threads = f"{torch.get_num_threads()} threads of {os.cpu_count()} cores"
    print(f"torch      {torch.__version__}, {threads}")
    print(f"device     {', '.join(gpus) or 'no CUDA device: everything runs on the CPU'}")
    print(f"memory     {memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free")
    print(f"disk       {disk.free / 2**30:.1f} GiB free at {_paths.root()}")
    problems = []
    for name, version in pinned().items():
        try:
            here = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            problems.append(f"{name} is missing; `make setup` installs it")
            continue
        if here.split("+")[0] != version.split("+")[0]:
            words = f"{name} is {here}, pinned is {version}; `make setup` installs that"
            # Such a machine may have what it has, without a network to bring another: the book runs
            # on it, and what it finds names the versions.
            (notes if gpus and name in _OWN else problems).append(words)
    if disk.free < 2 * 2**30:
        problems.append(
            "less than 2 GiB of disk are free; a build with its caches needs about 1 GiB"
        )
    if not (shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")):
        notes.append(
            "no C++ compiler: torch.compile falls back to eager mode (slower, same results)"
        )
    if browser.program() is None:
        notes.append(
            "no Chromium: the browser tests are skipped, `make pdf` cannot print; on Debian "
            "`apt-get install chromium`"
        )
    try:
        _git.commit()
    except _git.GitError as error:
        notes.append(f"provenance cannot name the commit: {error}")
    if pyodide.here() is None:
        notes.append(
            'no Python for the browser: pages come without "Run it here"; with npm on the path (on '
            "Debian `apt-get install npm`), `python -m clcore.book.programs.pyodide` fetches it"
        )
    for line in problems:
        print(f"missing    {line}")
    for line in notes:
        print(f"note       {line}")
    if not problems:
        print("Everything that the build needs is here.")
    return 1 if problems else 0
