"""Parts that a variable begins, that a table holds, and whose names are handed on."""

import pytest

from clcore.ledger import registry
from clcore.ledger.written import holders, paragraphs, reach

SOURCE = '''from functools import partial


def check(t, runs):
    part = partial(t.part, relation=">=")

    one = part("one")

    one.add(1)

    others = {"one": 1}

    name, size = "two", 2

    over = {n: part("table", setting=n) for n in SETTINGS}

    for form in (t.part, t.corrected):
        each = form("each form").add(3)

        each.breaks("half", 4)

    over[size].add(5)

    first(t, *runs, "starred", size)

    first(t, 6, 7, name)

    second(t.part("begun"))

    zipped, other = t.part("zipped"), 2

    for n, it in zip(sizes, (0, zipped)):
        it.proves(n)

    other.proves(2)

    looped = t.part("looped")

    for p in (0, looped):
        second(p)

    row = t.both("row", 1)

    second(*row)

    made = fourth(t, "made")

    made.breaks("half", 9)

    for n in ("chosen", "left") if runs else ("chosen",):
        some = t.part(n)

        some.add(10)


def first(t, runs, more, name, last=None):
    """Hands the name on."""
    third(t, name, more)


def second(part):
    part.add(8)


def fourth(t, name) -> Part:
    return t.part(name)


def third(t, name, unused):
    t.part(name).add(unused)
'''


NAMES = ("check", "first", "second", "third", "fourth")


@pytest.fixture
def shown(tmp_path, monkeypatch):
    file = tmp_path / "one.py"
    file.write_text(SOURCE, encoding="utf-8")
    made = {name: reach.function(file, name) for name in NAMES}
    monkeypatch.setattr(paragraphs, "reached", lambda place: [*made.values()])
    for module in (paragraphs, holders):
        monkeypatch.setattr(module, "named", lambda of, node: made.get(getattr(node, "id", "")))
    place = registry.Place(("acl/thm1",), "runs", "check", file, 4, 42, "")
    return lambda name: [one.text.splitlines()[0] for one in paragraphs.of_part(place, name)]


BY_VARIABLE = ["third(t, name, more)", "t.part(name).add(unused)"]
HANDED = ["def first(t, runs, more, name, last=None):", "def third(t, name, unused):"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("one", ['part = partial(t.part, relation=">=")', 'one = part("one")', "one.add(1)"]),
        (
            "table",
            [
                'part = partial(t.part, relation=">=")',
                'name, size = "two", 2',
                'over = {n: part("table", setting=n) for n in SETTINGS}',
                "over[size].add(5)",
            ],
        ),
        ("each form", ["for form in (t.part, t.corrected):", '    each.breaks("half", 4)']),
        ("starred", ['name, size = "two", 2', 'first(t, *runs, "starred", size)', *HANDED]),
        ("two", ['name, size = "two", 2', "first(t, 6, 7, name)", *BY_VARIABLE]),
        ("begun", ['second(t.part("begun"))', "part.add(8)"]),
        (
            "zipped",
            ['zipped, other = t.part("zipped"), 2', "for n, it in zip(sizes, (0, zipped)):"],
        ),
        ("looped", ['looped = t.part("looped")', "for p in (0, looped):", "part.add(8)"]),
        ("row", ['row = t.both("row", 1)', "second(*row)", "part.add(8)"]),
        (
            "made",
            ['made = fourth(t, "made")', 'made.breaks("half", 9)', "def fourth(t, name) -> Part:"],
        ),
        ("chosen", ['for n in ("chosen", "left") if runs else ("chosen",):', "    some.add(10)"]),
    ],
)
def test_what_begins_holds_and_is_handed_a_part_is_shown(shown, name, expected):
    assert shown(name) == expected
