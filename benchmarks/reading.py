"""How many lines does a reader need to understand a check?

    python benchmarks/reading.py [--list]

Of each check: its own function and the helpers in clcore/checks that it reaches, by itself or
through others (`clcore.ledger.written.reach`), in lines, functions and files; and the lines of the
paragraphs of one part. Constants and imports at the top of a module are not counted; docstrings
are, and the code without them has a line of its own. --list: a line per check, the longest first.
"""

import argparse
import ast
import statistics
from collections import Counter
from collections.abc import Sequence

from clcore import _paths
from clcore.ledger import registry
from clcore.ledger.written import holders, paragraphs, reach


def spread(name: str, values: Sequence[int]) -> None:
    """Print the median and the 90th percentile."""
    tenths = statistics.quantiles(values, n=10, method="inclusive")
    print(f"{name:32} median {statistics.median(values):5.0f}   p90 {tenths[8]:5.0f}")


def words(functions: Sequence[reach.Function]) -> int:
    """Lines of the functions' docstrings."""
    first = [f.node.body[0] for f in functions if ast.get_docstring(f.node)]
    return sum((one.end_lineno or one.lineno) - one.lineno + 1 for one in first)


def rooms() -> Counter[str]:
    """Lines of clcore/checks by room."""
    folder = _paths.root() / "clcore" / "checks"
    found: Counter[str] = Counter()
    for file in sorted(folder.rglob("*.py")):
        room = file.relative_to(folder).parts[0] if file.parent != folder else "."
        found[room] += len(file.read_text(encoding="utf-8").splitlines())
    return found


def defining() -> tuple[int, int]:
    """How many parts are begun in clcore/checks, and how many of these by `defines`."""
    found: Counter[str] = Counter()
    for file in sorted((_paths.root() / "clcore" / "checks").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                made = 2 if node.func.attr == "both" else 1
                found[node.func.attr] += made * (node.func.attr in holders.MAKERS)
    return found.total(), found["defines"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="a line per check")
    listed = parser.parse_args().list
    places = registry.places()
    read = {place: reach.reached(place) for place in places}
    spread("lines of the check itself", [functions[0].lines for functions in read.values()])
    lines = {place: sum(f.lines for f in functions) for place, functions in read.items()}
    spread("lines to read", list(lines.values()))
    spread("without docstrings", [lines[one] - words(read[one]) for one in places])
    spread("functions", [len(functions) for functions in read.values()])
    spread("files", [len({f.file for f in functions}) for functions in read.values()])
    parts = [
        sum(one.last - one.first + 1 for one in paragraphs.of_part(place, name))
        for place in places
        for name in {name for name, _ in paragraphs.named_parts(place)}
    ]
    spread("lines of one part", parts)
    for room, count in sorted(rooms().items()):
        print(f"{room:32} {count:6} lines")
    total, defines = defining()
    print(f"{len(places)} checks; {rooms().total()} lines; parts {total}, defines {defines}")
    if listed:
        for place in sorted(places, key=lambda one: -lines[one]):
            print(f"{lines[place]:5} {', '.join(place.claims)}")


if __name__ == "__main__":
    main()
