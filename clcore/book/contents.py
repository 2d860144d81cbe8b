"""The table of contents, _toc.yml: which pages the book has, in order."""

from typing import Any

from clcore import _paths
from clcore._files import read_yaml

_LISTS = ("parts", "chapters", "sections")
_SCHEMA = {
    "type": "object",
    "required": ["format", "root"],
    "properties": {
        "root": {"type": "string"},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}},
        "chapters": {"type": "array", "items": {"$ref": "#/$defs/page"}},
    },
    "$defs": {
        "part": {
            "type": "object",
            "properties": {"chapters": {"type": "array", "items": {"$ref": "#/$defs/page"}}},
        },
        "page": {
            "type": "object",
            "properties": {
                "file": {"type": "string"},
                "sections": {"type": "array", "items": {"$ref": "#/$defs/page"}},
            },
        },
    },
}


class ContentsError(ValueError):
    """A damaged _toc.yml."""


def pages() -> list[str]:
    """The files of all pages, without their endings: the front page, then the others in order.

    Raises ContentsError naming the file and what is wrong there.
    """
    toc = read_yaml(_paths.root() / "_toc.yml", _SCHEMA, ContentsError)
    return [toc["root"], *_below(toc)]


def _below(node: dict[str, Any]) -> list[str]:
    found = []
    for name in _LISTS:
        for entry in node.get(name, []):
            found += [entry["file"]] if "file" in entry else []
            found += _below(entry)
    return [file.removesuffix(".ipynb").removesuffix(".md") for file in found]


def chapters() -> list[str]:
    """Names of the notebooks, in order."""
    folder = "chapters/"
    return [file.removeprefix(folder) for file in pages() if file.startswith(folder)]
