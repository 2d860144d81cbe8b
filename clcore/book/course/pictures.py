"""Pictures of a session for its slides, from the last build: drawings, plots, frames of sliders."""

import base64
import json
import re
from pathlib import Path
from typing import Any

from clcore import _paths
from clcore._files import read_json, read_notebook, write_atomic
from clcore.book.course.plain import page
from clcore.book.course.sessions import CourseError, Session, figures
from clcore.ledger.html import placed

FRAMES = 4
"""Frames of a slider that a slide steps through: the first, the last, and some between."""
_EXPLORE = re.compile(r'<script type="application/json">(\[.*?\])</script>', re.DOTALL)
_DATA = re.compile(r"data:image/(\w+);base64,(.*)", re.DOTALL)


def write(session: Session, folder: Path) -> dict[str, dict[str, Any]]:
    """Write the pictures that a session shows into a folder, and return the fields of each by its
    name: the openings of the session's chapters first, then those of its steps.

    Fields: chapter, title, caption (without roles and ids), alt, files (their names in the
    folder), says (a sentence for each file), opens (whether it is the drawing a chapter opens
    with), keep (whether its colours are the same in the dark). Raises CourseError for one that
    the last build has not.
    """
    wanted = {name for step in session.steps for name in step.figures}
    first, rest = {}, {}
    for notebook in session.notebooks:
        cells, words = read_notebook(notebook)["cells"], page(notebook)
        for at, (name, made) in enumerate(figures(notebook).items()):
            opens = at == 0 and made.startswith("..")
            if opens or name in wanted:
                taken = _drawing if made.startswith("..") else _plot
                title = _title(cells) if opens else ""
                known = {"chapter": notebook.stem, "opens": opens, "title": title}
                into = first if opens else rest
                found = taken(notebook, cells, name, made, folder)
                caption = placed(words.plain(found["caption"]), "")
                into[name] = known | found | {"caption": caption}
    return first | rest


def _drawing(
    notebook: Path, cells: list[dict], name: str, made: str, folder: Path
) -> dict[str, Any]:
    """A drawing that a Markdown cell shows."""
    drawing = (notebook.parent / made).resolve()
    write_atomic(folder / drawing.name, drawing.read_bytes())
    source = next(s for c in cells if f":name: {name}\n" in (s := "".join(c["source"])))
    after = source.split(f":name: {name}\n", 1)[1].split("```", 1)[0].splitlines()
    alt = next(line for line in after if line.startswith(":alt:")).removeprefix(":alt:").strip()
    caption = " ".join(line for line in after if line.strip() and not line.startswith(":"))
    return {"files": [drawing.name], "says": [""], "alt": alt, "caption": caption, "keep": False}


def _plot(notebook: Path, cells: list[dict], name: str, made: str, folder: Path) -> dict[str, Any]:
    """What a cell of a chapter drew in the last build: one picture, or frames of a slider."""
    cell = next(c for c in cells if c["id"] == made)
    shown = cell["metadata"]["mystnb"]
    frames = _frames(_output(notebook.stem, made, name))
    files = []
    for at, (kind, data, _) in enumerate(frames):
        files.append(f"{name}-{at + 1}.{kind}" if len(frames) > 1 else f"{name}.{kind}")
        write_atomic(folder / files[-1], data)
    return {
        "files": files,
        "says": [said for _, _, said in frames],
        "alt": shown["image"]["alt"] if "image" in shown else shown["figure"]["caption"],
        "caption": shown["figure"]["caption"],
        "keep": "keep-colours" in cell["metadata"].get("tags", ()),
    }


def _output(chapter: str, cell: str, name: str) -> dict[str, Any]:
    """The data of the output with the picture `name` that a cell left in the last build."""
    file = _paths.build_dir() / "executed" / f"{chapter}.ipynb"
    executed = read_json(file, "run `make book` to make the site again")
    for one in executed["cells"]:
        if one.get("id") == cell:
            for output in one["outputs"]:
                if {"image/png", "image/svg+xml"} & output.get("data", {}).keys():
                    return output["data"]
    raise CourseError(
        f"expected the figure {name} in the last build: chapter {chapter} has no picture of its "
        f"cell {cell} there. Run `make book`, and see that the chapter succeeds"
    )


def _frames(data: dict[str, Any]) -> list[tuple[str, bytes, str]]:
    """Kind, bytes and sentence of each frame to step through; of one picture, if it has none."""
    found = _EXPLORE.search("".join(data.get("text/html", "")))
    frames = json.loads(found[1]) if found else []
    if len(frames) < 2 and "image/svg+xml" in data:
        return [("svg", "".join(data["image/svg+xml"]).encode(), "")]
    if len(frames) < 2:
        return [("png", base64.b64decode("".join(data["image/png"])), "")]
    steps = min(FRAMES, len(frames))
    chosen = [frames[round(at * (len(frames) - 1) / (steps - 1))] for at in range(steps)]
    made = []
    for frame in chosen:
        source = _DATA.fullmatch(frame["source"])
        if source is None:
            raise CourseError(f"expected a frame as data:image/..., got {frame['source'][:40]}")
        made.append((source[1], base64.b64decode(source[2]), frame["says"]))
    return made


def _title(cells: list[dict]) -> str:
    """The title of a chapter, without its number."""
    for cell in cells:
        for line in "".join(cell["source"]).splitlines():
            if line.startswith("# "):
                return re.sub(r"^#\s+([\d.]+\s+)?", "", line).strip()
    return ""
