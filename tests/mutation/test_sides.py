"""The tests of `sides`, in a process that has imported nothing of what they change: a module that
is imported twice has classes that the checker of signatures takes for others."""

import subprocess
import sys

from clcore import _paths


def test_the_two_sides_on_real_code():
    command = [sys.executable, "-m", "pytest", "-n", "0", "tests/mutation/sides.py"]
    run = subprocess.run(command, cwd=_paths.root(), capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout[-3000:]
    assert " passed" in run.stdout
