"""Locks: every file of every package that the project may install, by its sha256.

`make lock` runs this. From requirements.txt come everything.txt, what every machine installs, and
cuda.txt, what PyTorch's CUDA build needs besides; from binder/lab.txt lab.txt, for JupyterLab; from
uv.in uv.txt. uv asks the index that it is set up with, and writes no address of it. cpu.txt is kept
by hand: PyTorch's builds for the CPU are on an index of their own.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
OLDEST = "3.11.5"  # of Python: soupsieve 4.1 needs it
CUDA = ("cuda-", "nvidia-", "triton")
ELSEWHERE = ("cffi", "colorama", "pycparser")  # for PyPy and Windows alone


def entries(listed: str, *leave_out: str) -> dict[str, str]:
    """Package -> its lines of the lock made from a file of requirements, all that these need
    included."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--universal", "--generate-hashes"]
    command += ["--python-version", OLDEST, "--quiet", "--no-header", "--no-annotate", listed]
    command += [word for name in leave_out for word in ("--no-emit-package", name)]
    made = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = "\n".join(line for line in made.splitlines() if not line.startswith("#"))
    found = re.split(r"^(?=[a-z0-9])", lines, flags=re.MULTILINE)
    return {re.match(r"[\w.-]+", entry)[0]: entry.strip() for entry in found if entry.strip()}


def write(name: str, about: str, found: dict[str, str]) -> None:
    """Write one lock."""
    head = f"# Made by `make lock`, never by hand. {about}\n"
    text = head + "\n".join(found.values()) + "\n"
    (ROOT / "locks" / name).write_text(text, encoding="utf-8")


def main() -> None:
    """Write them."""
    found = entries("requirements.txt", "clcore", *ELSEWHERE)
    cuda = {name: entry for name, entry in found.items() if name.startswith(CUDA)}
    rest = {name: entry for name, entry in found.items() if name not in cuda}
    write("everything.txt", "What requirements.txt pins.", rest)
    write("cuda.txt", "What PyTorch's CUDA build needs besides.", cuda)
    write("lab.txt", "What binder/lab.txt pins and needs.", entries("binder/lab.txt", *ELSEWHERE))
    write("uv.txt", "What makes these lists.", entries("locks/uv.in"))


if __name__ == "__main__":
    main()
