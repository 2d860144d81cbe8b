"""What the cells of a run left: streams in one piece, as a terminal would show them, without paths
of this machine. In time that grows with the length of the text alone, however long a line is."""

import os
import re
import sys
from pathlib import Path
from typing import Any

from clcore import _paths


def put_together(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The outputs of a cell with each stream's pieces in one, at the place of its first.

    What a carriage return or a backspace overwrites is left out; stdout stands before stderr where
    they meet, since in which order they arrive is chance.
    """
    made: list[dict[str, Any]] = []
    pieces: dict[str, list[str]] = {}
    for output in outputs:
        if output["output_type"] != "stream":
            made.append(output)
            continue
        name = output["name"]
        if name not in pieces:
            pieces[name] = []
            made.append(output)
        pieces[name].append("".join(output["text"]))
    streams = [output for output in made if output["output_type"] == "stream"]
    for output in streams:
        output["text"] = _as_seen("".join(pieces[output["name"]]))
    if [output["name"] for output in streams] == ["stderr", "stdout"]:
        late, early = (made.index(output) for output in streams)
        if early == late + 1:
            made[late], made[early] = made[early], made[late]
    return made


def _as_seen(text: str) -> str:
    return "\n".join(map(_line, text.split("\n")))


def _line(line: str) -> str:
    """A line without what was written over: up to its last carriage return that something follows;
    a letter before each backspace."""
    line = line[line.rfind("\r", 0, max(0, len(line) - 1)) + 1 :]
    if "\b" not in line:
        return line
    kept: list[str] = []
    for letter in line:
        if letter != "\b":
            kept.append(letter)
        elif kept:
            kept.pop()
    return "".join(kept)


def without_places(text: str, temporary: str) -> str:
    """A text of warnings or a traceback with paths from the root of the project; the file that a
    kernel thinks a cell is in is "cell". temporary: the kernel's folder for such files."""
    cell = re.escape(str(Path(temporary) / "ipykernel_"))
    text = re.sub(rf"{cell}\d+[/\\]\d+\.py", "cell", text)
    for folder in (_paths.root(), Path(sys.prefix)):
        text = text.replace(f"{folder}{os.sep}", "")
    return text
