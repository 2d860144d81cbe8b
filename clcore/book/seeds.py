"""The record of the checks at other seeds, data/seeds.json, which `tests/seeds.py` makes."""

from typing import Any

from clcore import _paths
from clcore._files import read_record, write_json
from clcore.book import provenance

SCHEMA = {
    "type": "object",
    "required": ["made", "commit", "python", "torch", "numpy", "checks", "seeds", "draws", "apart"],
    "additionalProperties": False,
    "properties": {
        **{name: {"type": "string"} for name in ("made", "commit", "python", "torch", "numpy")},
        **{name: {"type": "integer", "minimum": 1} for name in ("checks", "seeds", "draws")},
        "apart": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["check", "seed", "said"],
                "additionalProperties": False,
                "properties": {
                    "check": {"type": "string"},
                    "seed": {"type": "integer", "minimum": 0},
                    "said": {"type": "string"},
                },
            },
        },
    },
}


class SeedsError(ValueError):
    """data/seeds.json is not there, or damaged."""


def keep(checks: int, seeds: int, draws: int, apart: list[dict[str, Any]]) -> None:
    """Write the record: `checks` checks at `seeds` seeds other than 0, and the rows check, seed,
    said of those whose result differs from that at seed 0."""
    about = {"checks": checks, "seeds": seeds, "draws": draws, "apart": apart}
    write_json(_paths.root() / "data" / "seeds.json", provenance.made() | about)


def recorded() -> dict[str, Any]:
    """The record. Raises SeedsError when it is not there or damaged."""
    path = _paths.root() / "data" / "seeds.json"
    return read_record(path, SCHEMA, SeedsError, "run `make seeds ARGS=--record`")
