"""The record of the corrected forms at many inputs, data/fuzz.json, which `tests/fuzz.py` makes."""

from typing import Any

from clcore import _paths
from clcore._files import read_record, write_json
from clcore.book import provenance

SCHEMA = {
    "type": "object",
    "required": [
        "made",
        "commit",
        "python",
        "torch",
        "numpy",
        "papers",
        "inputs",
        "counts",
        "failed",
    ],
    "additionalProperties": False,
    "properties": {
        **{name: {"type": "string"} for name in ("made", "commit", "python", "torch", "numpy")},
        "papers": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "inputs": {"type": "integer", "minimum": 1},
        "counts": {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}},
        "failed": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["form", "seed", "said"],
                "additionalProperties": False,
                "properties": {
                    "form": {"type": "string"},
                    "seed": {"type": "integer", "minimum": 1},
                    "said": {"type": "string"},
                },
            },
        },
    },
}


class FuzzError(ValueError):
    """data/fuzz.json is not there, or damaged."""


def keep(papers: list[str], inputs: int, counts: list[int], failed: list[dict[str, Any]]) -> None:
    """Write the record: how many inputs each corrected form of these papers had, of `inputs` that
    were asked for, and the rows form, seed, said of those that failed."""
    about = {"papers": papers, "inputs": inputs, "counts": sorted(counts), "failed": failed}
    write_json(_paths.root() / "data" / "fuzz.json", provenance.made() | about)


def recorded() -> dict[str, Any]:
    """The record. Raises FuzzError when it is not there or damaged."""
    path = _paths.root() / "data" / "fuzz.json"
    return read_record(path, SCHEMA, FuzzError, "run `make fuzz ARGS=--record`")
