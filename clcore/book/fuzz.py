"""The record of the corrected forms at many inputs, data/fuzz.json, which `tests/fuzz.py` makes."""

from typing import Any

from clcore import _paths
from clcore._files import read_record, write_json
from clcore.book import provenance

_TEXTS = ("made", "commit", "python", "torch", "numpy")
_FAILED = {
    "form": {"type": "string"},
    "seed": {"type": "integer", "minimum": 1},
    "said": {"type": "string"},
}
_LOT = {name: {"type": "string"} for name in _TEXTS} | {
    "papers": {"type": "array", "minItems": 1, "items": {"type": "string"}},
    "inputs": {"type": "integer", "minimum": 1},
    "forms": {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"type": "integer", "minimum": 0},
    },
    "failed": {"type": "array", "items": {"$ref": "#/$defs/failed"}},
}


def _whole(properties: dict[str, Any]) -> dict[str, Any]:
    """A JSON object with all of these and nothing else."""
    return {
        "type": "object",
        "required": [*properties],
        "additionalProperties": False,
        "properties": properties,
    }


SCHEMA = _whole({"lots": {"type": "array", "minItems": 1, "items": _whole(_LOT)}})
SCHEMA |= {"$defs": {"failed": _whole(_FAILED)}}


class FuzzError(ValueError):
    """data/fuzz.json is not there, or damaged."""


def keep(
    papers: list[str], inputs: int, forms: dict[str, int], failed: list[dict[str, Any]]
) -> None:
    """Add a lot to the record, in place of those that have one of its papers: how many inputs each
    corrected form of these papers had ("claim 'part'" -> inputs), of `inputs` that were asked for,
    and the rows form, seed, said of those that failed."""
    path = _paths.root() / "data" / "fuzz.json"
    about: dict[str, Any] = {"papers": papers, "inputs": inputs, "forms": forms}
    about |= {"failed": failed}
    lot: dict[str, Any] = provenance.made() | about
    lots = recorded()["lots"] if path.exists() else []
    others = [own for own in lots if not set(own["papers"]) & set(papers)]
    write_json(path, {"lots": sorted([*others, lot], key=lambda own: own["papers"])})


def recorded() -> dict[str, Any]:
    """The record. Raises FuzzError when it is not there or damaged."""
    path = _paths.root() / "data" / "fuzz.json"
    return read_record(path, SCHEMA, FuzzError, "run `make fuzz ARGS=--record`")
