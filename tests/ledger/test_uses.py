"""The statements of a function that bind the names which some of its lines use."""

import ast
from functools import cache

import pytest

from clcore.ledger import registry
from clcore.ledger.written import paragraphs, reach, uses

SOURCE = """def made(t, given):
    count = given
    pair, other = count, 2
    for n in range(pair):
        if n:
            step = 1
        else:
            step = 2
        found = []
        while count:
            found.append(n * step)

    def inner(x, step=other):
        size = x
        return size + later

    later = 4
    total = max(v for v in found)
    total += other
    table = {}
    table["a"] = other
    for _ in range(3):
        given.use(later)
        later = inner(later)
    with given.opened() as file:
        given.use([inner for inner in file], lambda count: count)
    given.use(t, len, table, (kept := 5))
    return kept, total
"""
LINES = [line.strip() for line in SOURCE.splitlines()]
LIST = ["for n in range(pair):", "step = 1", "step = 2", "found = []", "found.append(n * step)"]


def bound(text, skip=lambda node: False):
    """The first lines of what binds the names of a line, in their order."""
    line = LINES.index(text) + 1
    found = uses.of(ast.parse(SOURCE).body[0], [(line, line)], skip)
    return [LINES[one.first - 1] for one in found]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("count = given", []),
        ("pair, other = count, 2", ["count = given"]),
        ("total = max(v for v in found)", ["count = given", "pair, other = count, 2", *LIST]),
        ("return size + later", ["size = x", "later = 4"]),
        (
            "given.use([inner for inner in file], lambda count: count)",
            ["with given.opened() as file:"],
        ),
    ],
)
def test_names_lead_to_what_binds_them_and_to_what_that_uses(line, expected):
    assert bound(line) == expected


def test_a_loop_gives_names_to_its_next_round():
    found = bound("given.use(later)")
    assert found[-2:] == ["later = 4", "later = inner(later)"]
    assert "def inner(x, step=other):" in found and "pair, other = count, 2" in found


@pytest.mark.parametrize(
    ("loop", "fed"),
    [
        ("for name, found in table.items():\n        found.append(name)", True),
        ("for found, other in zip(table, given):\n        found.append(other)", True),
        ("for other, found in zip(table, given):\n        found.append(other)", False),
        ("for found in (given, table[0]):\n        found.append(1)", True),
        ("for name in given:\n        table.setdefault(name, []).append(1)", True),
        ("for found in made(table):\n        found.append(1)", False),
    ],
)
def test_what_adds_to_an_entry_adds_to_its_table(loop, fed):
    text = f"def f(given):\n    table = {{}}\n    {loop}\n    return table\n"
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)
    found = [one.first for one in uses.of(node, [(5, 5)], lambda node: False)]
    assert found == ([2, 3, 4] if fed else [2])


def test_what_a_function_inside_adds_to_a_table_of_the_one_around_it_adds_to_the_table():
    node = ast.parse(
        "def f(given):\n    table = {}\n"
        "    def keep(name, mine=()):\n        table.setdefault(name, []).append(given)\n"
        "        mine.append(1)\n        own = []\n        own.append(2)\n"
        "    return table, mine, own\n"
    ).body[0]
    assert isinstance(node, ast.FunctionDef)
    assert [one.first for one in uses.of(node, [(8, 8)], lambda node: False)] == [2, 4]


def test_a_default_is_made_outside_of_its_function():
    node = ast.parse(
        "def made():\n    use = 1\n    def inner(x, use=use):\n        return use\n"
    ).body[0]
    assert isinstance(node, ast.FunctionDef)
    found = uses.of(node, [(3, 3)], lambda node: False)
    assert [one.first for one in found] == [2]


def test_what_adds_to_a_name_is_found_with_what_begins_it():
    found = bound("return kept, total")
    for line in ("total = max(v for v in found)", "total += other", *LIST):
        assert line in found
    found = bound("given.use(t, len, table, (kept := 5))")
    assert found == ["count = given", "pair, other = count, 2", "table = {}", 'table["a"] = other']


def test_what_is_skipped_leads_nowhere():
    def other(node):
        return isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)

    assert bound('table["a"] = other') == ["count = given", "pair, other = count, 2", "table = {}"]
    assert bound('table["a"] = other', other) == ["table = {}"]


def test_no_part_of_today_calls_a_nested_function_that_is_not_shown():
    for place in registry.places():
        for name, _ in paragraphs.named_parts(place) if _nested(reach.own(place)) else ():
            shown = {
                line
                for one in paragraphs.of_part(place, name)
                if one.function == place.name
                for line in range(one.first, one.last + 1)
            }
            begun = {line for of, line in paragraphs.named_parts(place) if of == name}
            for called, nested in _nested(reach.own(place)):
                if called in begun:
                    assert shown >= set(range(nested.lineno, nested.end_lineno + 1)), (
                        f"{place.path} {place.name}, part {name!r}: {nested.name} is not shown"
                    )


@cache
def _nested(function):
    """(line, nested function) of everything that names a nested function of this one."""
    nodes = list(ast.walk(function.node))
    within = {n.name: n for n in nodes[1:] if isinstance(n, ast.FunctionDef)}
    named = (n for n in nodes if isinstance(n, ast.Name) and n.id in within)
    return [(n.lineno, within[n.id]) for n in named]


SKIPS = """def fed(part, other, names):
    for name in names:
        odd = len(name) % 2
        if odd:
            other.add(name)
            continue

        while part:
            break

        part.add(name)
    other.add(names)
"""


@pytest.mark.parametrize(
    ("at", "expected"), [(11, [(6, 6), (4, 4)]), (8, [(6, 6), (4, 4)]), (5, []), (12, [])]
)
def test_what_skips_lines_in_a_loop_stands_before_them_in_it(at, expected):
    (node,) = ast.parse(SKIPS).body
    assert uses.jumps(node, [(at, at)]) == expected
