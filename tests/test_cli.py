"""The command line, as its user sees it.

Nearly all of it is called in this process, which has imported what each command imports; that it is
a program, too, is seen with the doctor, an unknown command and the server.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import urllib.request
from types import SimpleNamespace

import pytest
from made_rows import row, wrong

from clcore import __main__ as program
from clcore import ledger
from clcore.ledger import map as claim_map


def call(*arguments, **environment):
    """As `process`, in this process; an error that explains itself leaves it as the status 2, and
    any other one fails the test."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["clcore", *arguments])
        for name, value in environment.items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = program.main()
    return SimpleNamespace(returncode=status, stdout=out.getvalue(), stderr=err.getvalue())


def process(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "clcore", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )


def test_claims_before_any_build_are_todo(tmp_path):
    run = call("claims", "--json", CLCORE_BUILD=str(tmp_path))
    rows = json.loads(run.stdout)
    assert len(rows) == len(ledger.claims())
    assert {row["verdict"] for row in rows} == {"todo"}
    wanted = {
        "grade",
        "root",
        "added",
        "id",
        "paper",
        "verdict",
        "measured",
        "bound",
        "control",
        "draws",
        "seconds",
    }
    assert wanted | {"profile", "device", "anchor"} <= set(rows[0])
    run = call("claims", "--paper", "nl", "--verdict", "todo", CLCORE_BUILD=str(tmp_path))
    assert "No build yet" in run.stdout
    assert "108 claims: 108 todo" in run.stdout
    found = {}
    for option in ("--rests-on", "--used-by"):
        run = call("claims", option, "nl/thm1", "--json", CLCORE_BUILD=str(tmp_path))
        found[option] = {row["id"] for row in json.loads(run.stdout)}
    assert found == {
        "--rests-on": claim_map.above("nl/thm1"),
        "--used-by": claim_map.below("nl/thm1"),
    }


def test_letter_of_the_last_build(tmp_path):
    run = call("letter", "nl", CLCORE_BUILD=str(tmp_path))
    assert run.returncode == 2 and "expected a build" in run.stderr and "make book" in run.stderr
    last = {"book": {"commit": "x"}, "rows": [wrong(id="nl/thm1", paper="nl", root="nl/thm1")]}
    (tmp_path / "ledger.json").write_text(json.dumps(last))
    run = call("letter", "nl", CLCORE_BUILD=str(tmp_path))
    assert run.returncode == 0 and "python -m clcore check nl/thm1" in run.stdout
    assert "Repeat it:" not in call("letter", "acl", CLCORE_BUILD=str(tmp_path)).stdout


def test_claims_of_one_rung(tmp_path):
    rows = [row(rung="proved"), row(id="acl/thm2", where="Theorem 2")]
    (tmp_path / "ledger.json").write_text(json.dumps({"book": {}, "rows": rows}))
    shown = call("claims", "--rung", "proved", CLCORE_BUILD=str(tmp_path)).stdout
    assert "acl/thm1" in shown and "acl/thm2" not in shown and "1 claims: 1 holds" in shown


def test_damaged_ledger_is_told(tmp_path):
    (tmp_path / "ledger.json").write_text('{"rows": [')
    run = call("claims", CLCORE_BUILD=str(tmp_path))
    assert run.returncode == 2
    assert "damaged or cut short" in run.stderr
    assert "make book" in run.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["claims", "--paper", "acm"], "expected --paper in acl, ddn, nl, ncl; got 'acm'"),
        (["claims", "--rung", "sure"], "expected --rung in proved, certified, sampled"),
        (["letter", "acm"], "expected a paper of acl, ddn, nl, ncl; got 'acm'"),
        (["claims", "--verdict", "true"], "expected --verdict in holds, corrected"),
        (["claims", "--rests-on", "nl/thm11"], "did you mean nl/thm1"),
        (["build", "--profile", "quick"], "expected profile in smoke, book, paper; got 'quick'"),
        (["build", "--device", "tpu"], "expected device in auto, cpu, cuda, cuda:N; got 'tpu'"),
        (["build", "--only", "9-nothing"], "expected --only to name chapters of"),
        (["data", "fetch", "imagenet"], "expected a data set of digits"),
    ],
)
def test_bad_input_is_told(arguments, told):
    run = call(*arguments)
    assert run.returncode == 2
    assert told in run.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["buidl"], "No such command"), (["letter", "acm"], "error: expected a paper of acl")],
)
def test_bad_input_is_told_without_a_traceback(arguments, told):
    run = process(*arguments)
    assert run.returncode == 2
    assert told in run.stderr
    assert "Traceback" not in run.stderr


def test_pretrain_takes_a_chapters_devices(tmp_path):
    run = call("pretrain", "digits", "--out", str(tmp_path / "out"), "--device", "tpu")
    assert run.returncode == 2 and not (tmp_path / "out").exists()
    assert "expected device in auto, cpu, cuda, cuda:N; got 'tpu'" in run.stderr
    small = ("width=4", "hidden=8", "out=8", "stem=small", "images=64", "batch=32", "epochs=1")
    sets = [part for text in small for part in ("--set", text)]
    run = call("pretrain", "digits", "--out", str(tmp_path), "--device", "auto", *sets)
    assert run.returncode == 0, run.stderr
    assert len(list(tmp_path.glob("*.csv"))) == 1


def test_pretrain_looks_at_its_folder_first(tmp_path):
    file = tmp_path / "taken"
    file.write_text("mine")
    for out in (file, file / "below"):
        run = call("pretrain", "imagenet", "--out", str(out))
        assert run.returncode == 2
        assert f"--out: expected a folder for checkpoint and table, got {out} (" in run.stderr
    assert file.read_text() == "mine"


def test_doctor_lists_what_there_is():
    run = process("doctor")
    for word in ("python", "torch", "device", "memory", "disk"):
        assert any(line.startswith(word) for line in run.stdout.splitlines())


def test_data_list_and_verify(tmp_path):
    run = call("data", "list", CLCORE_DATA=str(tmp_path))
    assert run.returncode == 0
    for name in ("digits", "mnist", "cifar10", "stl10"):
        assert name in run.stdout
    assert "No data set is here" in call("data", "verify", CLCORE_DATA=str(tmp_path)).stdout
    told = call("data", "where", "mnist", CLCORE_DATA=str(tmp_path)).stdout
    assert f"{tmp_path}/mnist/t10k-labels-idx1-ubyte.gz (not here; 4542 bytes, md5 ec29112d" in told
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(b"short")
    run = call("data", "verify", CLCORE_DATA=str(tmp_path))
    assert run.returncode == 1
    assert "t10k-labels-idx1-ubyte.gz is damaged" in run.stderr


def test_serve_without_a_site_and_with_one(tmp_path):
    run = call("serve", CLCORE_BUILD=str(tmp_path))
    assert run.returncode == 2
    assert "run `make book` first" in run.stderr
    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "index.html").write_text("the site")
    server = subprocess.Popen(
        [sys.executable, "-m", "clcore", "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"CLCORE_BUILD": str(tmp_path)},
    )
    try:
        address = server.stdout.readline().split()[0]
        with urllib.request.urlopen(address) as answer:
            assert answer.read() == b"the site"
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(f"{address}%00")
        port = address.rstrip("/").rpartition(":")[2]
        taken = call("serve", "--port", port, CLCORE_BUILD=str(tmp_path))
        assert taken.returncode == 2
        assert f"port {port} is in use by another program; give another" in taken.stderr
    finally:
        server.terminate()
        server.wait()
