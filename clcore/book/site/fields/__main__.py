"""Write data/fields.json anew from the judges: python -m clcore.book.site.fields."""

import typer

from clcore import _paths
from clcore._files import write_json
from clcore.book import exercises
from clcore.book.exercises import mistakes
from clcore.book.site import fields
from clcore.book.site.fields.probes import PROBES


def made() -> dict:
    """What the pages need of the judges: see `clcore.book.site.fields.read`."""
    chapters = sorted((_paths.root() / "chapters").glob("*.ipynb"))
    judges = [exercises.known(name) for path in chapters for name in exercises.ids(path)]
    asked: dict[str, dict] = {
        one.id: {"within": one.bound, "sealed": fields.sealed(one.id, one.truth(), one.bound)}
        for one in judges
        if one.truth
    }
    for one in judges:
        if probe := PROBES.get(one.id):
            hidden = fields.sealed(one.id, probe.value, probe.within)
            asked[one.id] = {"at": probe.at, "within": probe.within, "sealed": hidden}
    return {"usual": [list(one) for one in mistakes.NUMBERS], "exercises": asked}


def main() -> None:
    """Write data/fields.json anew from the judges."""
    write_json(fields.file(), made())


if __name__ == "__main__":
    typer.run(main)
