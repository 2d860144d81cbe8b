"""Commands whose standard streams are closed, absent, of another encoding, or read by nobody."""

import json
import os
import subprocess
import sys

import pytest

from clcore import _paths

COMMAND = [sys.executable, "-m", "clcore", "claims", "--paper", "ncl"]


def run(command: list[str], **how) -> subprocess.CompletedProcess:
    return subprocess.run(command, cwd=_paths.root(), capture_output=True, **how)


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_closed_stream_is_no_error_and_no_file_takes_its_number(closed, tmp_path):
    """Else what a library writes to it would be in the middle of a file of ours."""
    told = tmp_path / "told"
    code = (
        "import os, sys\nfrom clcore import _streams\n_streams.prepare()\n"
        "print('out'); print('err', file=sys.stderr); sys.stdout.isatty(); sys.stderr.isatty()\n"
        f"with open({str(told)!r}, 'w') as file:\n"
        "    file.write(str(file.fileno()))\n"
        "    os.system('echo to stderr >&2')\n"
    )

    def close():
        for number in closed:
            os.close(number)

    done = run([sys.executable, "-c", code], preexec_fn=close)
    assert done.returncode == 0, done.stderr
    assert int(told.read_text()) > 2


def test_an_old_terminal_gets_escapes_and_scripts_get_json():
    old = os.environ | {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    done = run(COMMAND, env=old)
    assert done.returncode == 0, done.stderr
    assert "\\u" in done.stdout.decode("latin-1"), "no row of ncl has a Greek letter any more?"
    done = run([*COMMAND, "--json"], env=old)
    rows = json.loads(done.stdout)
    assert any(not row["title"].isascii() or not row["statement"].isascii() for row in rows)


def test_who_has_read_enough_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(COMMAND, cwd=_paths.root(), stdout=writing, stderr=subprocess.PIPE)
    finally:
        os.close(writing)
    assert done.returncode == 1 and done.stderr == b""
