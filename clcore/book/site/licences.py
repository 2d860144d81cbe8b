"""The page Licences: of every package that the book is made with, and of what the site ships."""

import importlib.metadata as metadata
import re
from functools import cache

from clcore import _paths
from clcore._files import read_yaml
from clcore.book.site import fragments
from clcore.book.site.markdown import raw

_NAMES = {"type": "array", "items": {"type": "string"}}
_WORDS = {"type": "string", "minLength": 1}
_SCHEMA = {
    "type": "object",
    "required": ["reviewed", "packages", "shipped"],
    "additionalProperties": False,
    "properties": {
        "reviewed": {"type": "object", "additionalProperties": _WORDS},
        "packages": {
            "type": "object",
            "additionalProperties": {
                "required": ["licences", "why"],
                "properties": {"licences": _NAMES, "why": _WORDS},
            },
        },
        "shipped": {
            "type": "array",
            "items": {
                "required": ["what", "by", "licences", "files"],
                "properties": {"what": _WORDS, "by": _WORDS, "licences": _NAMES, "files": _NAMES},
            },
        },
    },
}


@cache
def known() -> dict[str, dict]:
    """The contents of data/licences.yaml. Raises ValueError where it is damaged."""
    return read_yaml(_paths.root() / "data" / "licences.yaml", _SCHEMA, ValueError)


def stated(package: str) -> list[str]:
    """The names of licences in a package's metadata: its expression, otherwise its text of at
    most a line and its classifiers; [] if it has none."""
    of = metadata.metadata(package)
    for expression in of.get_all("License-Expression", []):
        return re.split(r" (?:AND|OR) ", expression.replace("(", "").replace(")", ""))
    words = "".join(of.get_all("License", [])).strip()
    one_line = words and "\n" not in words and words != "UNKNOWN"
    found = re.split(r" (?:AND|OR) |; ", words) if one_line else []
    for line in of.get_all("Classifier", []):
        if line.startswith("License :: ") and not line.endswith(":: OSI Approved"):
            found.append(line.rpartition(" :: ")[2])
    return list(dict.fromkeys(found))


def licences(package: str) -> tuple[list[str], str]:
    """The licences of a package as they are shown, and a remark; a name that was not reviewed is
    shown as it is stated, with a question mark."""
    reviewed, by_hand = known()["reviewed"], known()["packages"].get(package)
    if by_hand:
        return by_hand["licences"], by_hand["why"]
    names = [reviewed.get(name, f"{name}?") for name in stated(package) or ["not stated"]]
    return list(dict.fromkeys(names)), ""


def installed() -> dict[str, str]:
    """Package -> version of what requirements.txt pins and is installed here: some lines are for
    another Python or system."""
    text = (_paths.root() / "requirements.txt").read_text(encoding="utf-8")
    found = {}
    for name, marker in re.findall(r"^([\w.-]+)==[^;\s]+(.*)$", text, re.MULTILINE):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if not marker:
                raise
    return dict(sorted(found.items(), key=lambda one: one[0].lower()))


def page() -> str:
    """The page book/licences, from the metadata of what is installed here."""
    packages = [(name, v, *licences(name)) for name, v in installed().items()]
    tables = fragments.render("licences.html", shipped=known()["shipped"], packages=packages)
    return f"""# Licences

The book and its library are under the MIT licence; the papers belong to their authors.

## Use of text, figures and code in papers and slides

You may use them in your own papers, slides and courses: the MIT licence asks you to keep its
notice with copies and substantial parts, and we ask you to [cite](citing) the book. Images of a
data set in a figure remain under its licence, which `python -m clcore data list` names.

## Work of others

Two tables list what this site and its slides ship, and the packages that build them, with the
version of this build and the licence that the package states. We join style sheets and scripts into
files named `all-`, and draw Font Awesome's icons as SVG; we change nothing else, and
redistribute only what is in the first table. A test rejects a licence that nobody has reviewed.

{raw(tables)}"""
