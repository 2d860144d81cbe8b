"""Plain Markdown of a chapter's cells, for any Jupyter: no directives, no roles, and the
pictures in a folder next to it."""

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from clcore import _paths
from clcore._files import read_json, read_notebook
from clcore.book import exercises
from clcore.book.course.sessions import figures
from clcore.book.site import statements

PICTURES = "pictures"
_FENCE = re.compile(
    r"^(?P<fence>`{3,}|:{3,})\{(?P<kind>[\w:-]+)\} *(?P<head>[^\n]*)\n"
    r"(?P<body>.*?)^(?P=fence)$\n?",
    re.DOTALL | re.MULTILINE,
)
_OPTION = re.compile(r"^:(?P<name>[\w-]+):(?P<value>.*)\n?", re.MULTILINE)
_OWN = re.compile(r"(?::[\w-]+:.*\n)*")  # options stand first
_ROLE = re.compile(r"\{(?P<kind>glue:text|prf:ref|numref|cite:[tp]|ref)\}`(?P<of>[^`]+)`")
_TARGET = re.compile(r"^\([\w-]+\)=\n?", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[(?P<words>[^\]]*)\]\((?P<to>[^)\s]+)\)")
_GLUED = "application/papermill.record/"


@dataclass
class Page:
    """A chapter whose cells are made plain. values: what its text takes from its results, in the
    last build. pictures: files that it shows, under their names in `PICTURES`."""

    notebook: Path
    values: dict[str, str] = field(default_factory=dict)
    pictures: dict[str, Path] = field(default_factory=dict)

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The cells of the chapter."""
        return read_notebook(self.notebook)["cells"]

    def plain(self, source: str) -> str:
        """A Markdown cell without directives and roles."""
        source = _TARGET.sub("", source)
        source = _FENCE.sub(self._directive, source)
        source = _ROLE.sub(self._role, source)
        return _LINK.sub(_link, source).strip()

    def _directive(self, found: re.Match) -> str:
        kind, head = found["kind"], found["head"].strip()
        own = next(_OWN.finditer(found["body"]))[0]
        body = found["body"].removeprefix(own)
        options = {o["name"]: o["value"].strip() for o in _OPTION.finditer(own)}
        body = _FENCE.sub(self._directive, body.strip() + "\n").strip()  # a theorem in a fold
        if kind == "figure":
            return self._figure(head, options, body)
        if kind == "dropdown":
            return f"<details><summary>{head}</summary>\n\n{body}\n</details>\n"
        if kind.startswith("prf:"):
            number, _ = statements.named(options.get("label", ""))
            title = f"{number or kind.removeprefix('prf:').title()}{f' ({head})' if head else ''}."
            return _quoted(f"**{title}** {body}")
        return _quoted(f"**{head}.** {body}" if head else body)

    def _figure(self, to: str, options: dict[str, str], caption: str) -> str:
        drawing = (self.notebook.parent / to).resolve()
        self.pictures[drawing.name] = drawing
        shown = f"![{options.get('alt', '')}]({PICTURES}/{drawing.name})"
        name = self._number(options.get("name", ""))
        return f"{shown}\n\n*{name}.* {caption}\n"

    def _role(self, found: re.Match) -> str:
        kind, of = found["kind"], found["of"]
        if kind == "glue:text":
            return self.values.get(of.split(":")[0], "…")
        if kind == "numref":
            return self._number(of)
        if kind == "prf:ref":
            return statements.named(of)[0] or _titles().get(of, of)
        if kind.startswith("cite:"):
            return _cited(of, parenthesis=kind.endswith("p"))
        return "above"

    def _number(self, name: str) -> str:
        """Figure 1.1.3, as the site counts."""
        known = list(figures(self.notebook))
        if name not in known:
            return "the table" if name.startswith("tab") else "the figure"
        before = exercises.chapter_number(self.notebook)
        return f"Figure {before}.{known.index(name) + 1}"


def page(notebook: Path) -> Page:
    """A chapter with the values that the last build has for its text; "…" where there is none."""
    made = _paths.build_dir() / "executed" / notebook.name
    if not made.exists():
        return Page(notebook)
    executed = read_json(made, "run `make book` to make the site again")
    outputs = [output for cell in executed["cells"] for output in cell.get("outputs", ())]
    values = {}
    for output in outputs:
        name = output.get("metadata", {}).get("scrapbook", {}).get("name")
        text = output.get("data", {}).get(f"{_GLUED}text/plain")
        if name and text is not None:
            values[name] = "".join(text).strip("'\"")
    return Page(notebook, values)


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines()) + "\n"


def _link(found: re.Match) -> str:
    """Pages of the book are not next to the notebook: their links become words."""
    if found["to"].startswith(("http", "#")):
        return found[0]
    return found["words"] or f"`{Path(found['to']).stem}`"


@cache
def _titles() -> dict[str, str]:
    """Label -> title, of the statements of all chapters."""
    found = {}
    for notebook in sorted((_paths.root() / "chapters").glob("*.ipynb")):
        for cell in read_notebook(notebook)["cells"]:
            for one in _FENCE.finditer("".join(cell["source"])):
                options = {o["name"]: o["value"].strip() for o in _OPTION.finditer(one["body"])}
                if "label" in options:
                    found[options["label"]] = one["head"].strip() or "the statement"
    return found


def _cited(keys: str, parenthesis: bool) -> str:
    """Citations as words: Tian (2022), or (Tian 2022)."""
    told = []
    for key in (part.strip() for part in keys.split(",")):
        who, year = _references().get(key, (key, "n.d."))
        told.append(f"{who} {year}" if parenthesis else f"{who} ({year})")
    return f"({'; '.join(told)})" if parenthesis else "; ".join(told)


@cache
def _references() -> dict[str, tuple[str, str]]:
    """Key -> authors and year, of book/references.bib."""
    from pybtex.database import parse_file

    entries = parse_file(str(_paths.root() / "book" / "references.bib")).entries
    found = {}
    for key, entry in entries.items():
        names = [" ".join(person.last_names) for person in entry.persons.get("author", ())]
        who = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
        found[key] = (who, entry.fields.get("year", "n.d."))
    return found
