"""Outputs in one piece: as nbclient would put them together, in linear time, without paths."""

import random
import sys
import tempfile
from pathlib import Path

import pytest
from nbclient.client import _RGX_CARRIAGERETURN

from clcore import _paths
from clcore.book.execute import put_together, without_places


def stream(text: str, name: str = "stdout") -> dict:
    return {"output_type": "stream", "name": name, "text": text}


def test_a_line_is_what_a_terminal_shows():
    draw = random.Random(0)
    for _ in range(3000):
        text = "".join(draw.choices("ab\r\n", k=draw.randrange(12)))
        (found,) = put_together([stream(text)])
        assert found["text"] == _RGX_CARRIAGERETURN.sub("", text), repr(text)


@pytest.mark.parametrize(
    ("text", "seen"),
    [("ab\bc", "ac"), ("\b\bx", "x"), ("a\n\bb", "a\nb"), ("ab\b\b\bc\nd\b", "c\n")],
)
def test_a_backspace_takes_the_letter_before_it_and_no_end_of_a_line(text, seen):
    assert put_together([stream(text)]) == [stream(seen)]


def test_pieces_of_a_stream_stand_where_its_first_did():
    shown = {"output_type": "display_data", "data": {}, "metadata": {}}
    pieces = [stream("a"), stream("x", "stderr"), shown, stream("b\n"), stream("y", "stderr")]
    assert put_together(pieces) == [stream("ab\n"), stream("xy", "stderr"), shown]
    assert put_together([stream("x", "stderr"), stream("a")]) == [
        stream("a"),
        stream("x", "stderr"),
    ]
    apart = [stream("x", "stderr"), shown, stream("a")]
    assert put_together(apart) == apart
    assert put_together([stream("  1%\r"), stream("100%\n")]) == [stream("100%\n")]


def test_no_line_is_too_long_and_no_output_has_too_many_pieces():
    """What takes time with the square of either would not come to an end here."""
    long = "x" * 3_000_000
    assert put_together([stream(long)]) == [stream(long)]
    (found,) = put_together([stream("9" * 20) for _ in range(200_000)])
    assert len(found["text"]) == 4_000_000


def test_a_warning_names_no_folder_of_this_machine():
    temporary, root = tempfile.gettempdir(), _paths.root()
    cell = Path(temporary) / "ipykernel_41" / "2718281828.py"
    package = Path(sys.prefix) / "lib" / "package.py"
    text = f"{cell}:3: UserWarning\n{root / 'clcore' / 'stats.py'}:5: x\n{package}:7: y\n/other:1\n"
    lines = without_places(text, temporary).splitlines()
    assert lines[0] == "cell:3: UserWarning" and lines[1] == "clcore/stats.py:5: x"
    assert lines[2].endswith("lib/package.py:7: y") and not lines[2].startswith("/")
    assert lines[3] == "/other:1"
