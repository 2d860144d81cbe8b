"""The code behind the book, as pages: each module of clcore that a chapter needs, highlighted; the
check of a claim has the claim's id as its anchor."""

import ast
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from markupsafe import Markup
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers.python import PythonLexer

from clcore import _paths
from clcore._files import read_notebook, sha256
from clcore.book import keys
from clcore.book.programs import pyodide
from clcore.book.proofs import recorded
from clcore.book.site.markdown import raw
from clcore.ledger import LedgerError, registry
from clcore.ledger.html import placed, render, row_id
from clcore.ledger.written import holders, paragraphs, statements

STYLES = {"light": "a11y-high-contrast-light", "dark": "a11y-high-contrast-dark"}
SLOWER = 2.5
"""How many times as long as CPython a browser takes for a proof: from 1.7 to 2.4 times where both
were measured, ten proofs that take half a second and more, in V8."""


@dataclass(frozen=True)
class Piece:
    """Some lines of a module: a check with its claims and its parts, (name, line), or what stands
    between checks."""

    claims: tuple[str, ...]
    name: str
    first: int
    code: Markup
    parts: tuple[tuple[str, int], ...] = ()


def page_of(file: Path) -> str:
    """Address of a module's page in the site, from its root: code/checks/minmax/family.html."""
    inside = file.relative_to(_paths.root() / "clcore")
    return (PurePosixPath("code") / inside.with_suffix(".html").as_posix()).as_posix()


def links(claim_id: str) -> list[tuple[str, str]]:
    """(address from the site's root, description) of the checks of a claim."""
    return [
        (f"{page_of(p.file)}#{row_id(claim_id)}", f"{p.path}: {p.name}")
        for p in registry.of(claim_id)
    ]


def tested(claim_id: str) -> list[dict[str, Any]]:
    """What each check of a claim tests, in its own words, and the check itself: address of its
    page from the site's root; blocks, name -> text; note; lines, how many; code, highlighted; on,
    "draws" or "runs". Raises LedgerError for a check without these words."""
    found, paper = [], claim_id.split("/")[0]
    for place in registry.of(claim_id):
        said = statements.of(place)
        source = place.source
        found.append(
            {
                "address": f"{page_of(place.file)}#{row_id(claim_id)}",
                "blocks": {name: placed(text, paper) for name, text in said.blocks.items()},
                "note": placed(said.note, paper),
                "lines": source.count("\n"),
                "code": coloured(source),
                "on": place.on,
            }
        )
    return found


@cache
def recorded_runs(chapter: str) -> list[str]:
    """The folders, from the root of the repository, of the recorded runs that a chapter reads: that
    of its own name, and those that its code names."""
    cells = read_notebook(_paths.root() / "chapters" / f"{chapter}.ipynb")["cells"]
    text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    return [
        f"data/recorded/{folder.name}"
        for folder in sorted((_paths.root() / "data" / "recorded").glob("*"))
        if folder.name == chapter or f'"{folder.name}"' in text
    ]


def of_part(claim_id: str, part: str) -> list[paragraphs.Lines]:
    """The lines that make and feed a part of a claim. Empty where no check makes it but a cell of a
    chapter does; a test refuses it where neither does."""
    places = registry.of(claim_id)
    with suppress(LedgerError):
        return paragraphs.of_part(places[0], part, *places[1:]) if places else []
    return []


def certificate(claim_id: str) -> dict[str, Any] | None:
    """The script of data/certificates that shows a claim's error by itself: its name, its source,
    as highlighted code, what it prints, and whether the site can run it; None where there is none.
    """
    file = _paths.root() / "data" / "certificates" / f"{row_id(claim_id)}.py"
    if not file.exists():
        return None
    source = file.read_text(encoding="utf-8")
    prints = file.with_suffix(".txt").read_text(encoding="utf-8")
    said = {"name": file.name, "source": source, "prints": prints}
    said |= {"folder": "certificates", "button": "Run it here", "module": "", "takes": ""}
    return said | _shown(source)


def proof(claim_id: str) -> dict[str, Any] | None:
    """The program that proves what can be proved of a claim by itself, as `certificate`, with how
    long it takes in a browser and how many proofs of the check it leaves out; None where there is
    none."""
    found = recorded.of(claim_id)
    if found is None:
        return None
    program, seconds = found["program"], found["seconds"]
    said = {"name": f"{row_id(claim_id)}.py", "source": program.text, "prints": found["prints"]}
    said |= {"folder": "proofs", "button": "Prove it here", "module": "exact.py"}
    wait = round(seconds * SLOWER)
    said |= {"takes": f"about {wait} s" if wait > 1 else "a second or less"}
    said |= {"seconds": seconds, "slower": SLOWER, "left": program.left}
    return said | _shown(program.text)


def _shown(source: str) -> dict[str, Any]:
    return {"code": coloured(source), "runs": pyodide.here() is not None}


@cache
def coloured(source: str) -> Markup:
    """Lines of Python, highlighted."""
    return Markup(highlight(source, PythonLexer(), HtmlFormatter()))


def _highlighted(code: str, first: int) -> Markup:
    formatter = HtmlFormatter(
        linenos="inline", linenostart=first, lineanchors="L", cssclass="highlight"
    )
    html = highlight(code, PythonLexer(stripnl=False), formatter)
    return Markup(re.sub(r'(<a id="L-\d+") name="L-\d+"', r"\1", html))  # the id is enough


def _pieces(file: Path) -> list[Piece]:
    lines = file.read_text(encoding="utf-8").splitlines()
    found, at = [], 1
    for place in sorted((p for p in registry.places() if p.file == file), key=lambda p: p.first):
        if place.first > at:
            found.append(_piece((), "", lines, at, place.first - 1))
        piece = _piece(place.claims, place.name, lines, place.first, place.last)
        found.append(replace(piece, parts=tuple(paragraphs.named_parts(place))))
        at = place.last + 1
    if at <= len(lines):
        found.append(_piece((), "", lines, at, len(lines)))
    return [piece for piece in found if piece.code]


def _piece(claims: tuple[str, ...], name: str, lines: list[str], first: int, last: int) -> Piece:
    while first <= last and not lines[first - 1].strip():
        first += 1
    text = "\n".join(lines[first - 1 : last]).rstrip()
    return Piece(claims, name, first, _highlighted(text, first) if text else Markup(""))


@cache  # a file is behind many chapters
def _about(source: str) -> str:
    first = (ast.get_docstring(ast.parse(source)) or "").split("\n\n")[0]
    return " ".join(first.split())


def module_page(file: Path, chapters: list[str]) -> str:
    """The page of one module: its checks, the rest, and the chapters that it is behind."""
    address = page_of(file)
    return render(
        "clcore.book.site",
        "code.html",
        path=file.relative_to(_paths.root()).as_posix(),
        up=os.path.relpath(".", PurePosixPath(address).parent),
        pieces=_pieces(file),
        chapters=chapters,
    )


@cache
def style() -> str:
    """The colours of the code, in light and in dark."""
    rules = [
        HtmlFormatter(style=name).get_style_defs(f'html[data-theme="{theme}"] .highlight')
        for theme, name in STYLES.items()
    ]
    return "\n".join(rules) + "\n"


def behind(notebook: Path) -> list[Path]:
    """Files of clcore behind a chapter: its checks and the mathematics, not what makes the book."""
    root = _paths.root() / "clcore"
    inside = [f for f in keys.closure(keys.sources(notebook)) if f.parent != root]
    return [
        file
        for file in inside
        if file.suffix == ".py" and file.name != "__init__.py" and root / "book" not in file.parents
    ]


def section(notebook: Path) -> str:
    """The end of a chapter as Markdown: "Code behind this page", by room, each file described."""
    rooms: dict[str, list[dict]] = {}
    for file in behind(notebook):
        room = file.parent.relative_to(_paths.root()).as_posix()
        entry = {
            "name": file.stem,
            "address": f"../{page_of(file)}",
            "about": _about(file.read_text(encoding="utf-8")),
        }
        rooms.setdefault(room, []).append(entry)
    order = sorted(rooms, key=lambda room: ("checks" not in room, room))
    html = render("clcore.book.site", "behind.html", rooms={room: rooms[room] for room in order})
    return f"## Code behind this page\n\n{raw(html)}"


def _used(notebooks: Iterable[Path]) -> dict[Path, list[str]]:
    """Every file that has a page -> the chapters that it is behind."""
    used: dict[Path, list[str]] = {}
    for notebook in notebooks:
        for file in behind(notebook):
            used.setdefault(file, []).append(notebook.stem)
    for place in registry.places():
        used.setdefault(place.file, [])
    return dict(sorted(used.items()))


def digest(notebooks: Iterable[Path]) -> str:
    """The inputs of the pages, so that they are made again only when these change."""
    here = Path(__file__)
    templates = [here.parent / "templates" / name for name in ("code.html", "standalone.html")]
    finders = (Path(module.__file__ or "") for module in (holders, paragraphs))
    parts = [file.read_bytes() for file in (here, *finders, *templates)]
    for file, chapters in _used(notebooks).items():
        parts += [page_of(file).encode(), " ".join(chapters).encode(), file.read_bytes()]
    return sha256(*parts)


def pages(notebooks: Iterable[Path]) -> dict[str, str]:
    """Address -> HTML of the page of every module behind these chapters, and the style sheet."""
    used = _used(notebooks)
    return {page_of(f): module_page(f, c) for f, c in used.items()} | {"code/code.css": style()}
