"""The lines of a check that make and feed a part, and the functions that a reader needs."""

import ast
import re
from dataclasses import replace

import pytest

from clcore.ledger import LedgerError, registry
from clcore.ledger.written import paragraphs, proofs, reach

MADE = '''from clcore.checks.made import other
from clcore.checks.made.other import bent as curved
from clcore.ledger import Trial, check


@check("acl/thm1")
def thm1(t: Trial) -> None:
    """A title.

    Given   "first" is no text of the code.
    """
    count = t.share(2)

    # The first part.
    first = t.part("first", 1e-10)
    first.add(_helper(count))
    second, third = t.part("second").add(1), t.corrected("third")
    forms = {name: t.part(name) for name in ("a", "b")}

    second.breaks("first", curved(2))
    # A comment begins a paragraph,
    # of two lines.
    other.feeds(t, third)
    forms["a"].add(1)

    for n in range(3):
        t.part(f"size {n}")

    whole = t.part(bound=0.1)

    whole.add(3)


def _helper(count):
    return count


def _unused(t):
    t.part("unused")
'''

OTHER = '''def bent(x):
    return x


def feeds(t, part):
    """Feed a part."""

    part.add(1)
    fourth = t.part("fourth")

    fourth.add(2)
'''


@pytest.fixture
def place(write, tmp_path):
    write("clcore/checks/made/one.py", MADE)
    write("clcore/checks/made/other.py", OTHER)
    (found,) = registry.scan(tmp_path / "clcore" / "checks" / "made")
    return found


def shown(place, name):
    return [
        (one.function, one.text.rstrip("\n").splitlines())
        for one in paragraphs.of_part(place, name)
    ]


def test_a_reader_needs_the_check_and_the_helpers_that_it_reaches(place):
    functions = reach.reached(place)
    assert [f.node.name for f in functions] == ["thm1", "_helper", "bent", "feeds"]
    assert [f.lines for f in functions][1:] == [2, 2, 7]
    assert functions[0].first == place.first and functions[0].lines == place.last - place.first + 1


COUNT = ("thm1", ["count = t.share(2)"])
MAKES = [
    "# The first part.",
    'first = t.part("first", 1e-10)',
    "first.add(_helper(count))",
    'second, third = t.part("second").add(1), t.corrected("third")',
    'forms = {name: t.part(name) for name in ("a", "b")}',
]
FED = ["part.add(1)", 'fourth = t.part("fourth")']
COMMENTED = [
    "# A comment begins a paragraph,",
    "# of two lines.",
    "other.feeds(t, third)",
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("first", [COUNT, ("thm1", MAKES)]),
        ("second", [("thm1", MAKES), ("thm1", ['second.breaks("first", curved(2))'])]),
        ("third", [("thm1", MAKES), ("thm1", COMMENTED), ("feeds", FED)]),
        ("a", [("thm1", MAKES), ("thm1", ['forms["a"].add(1)'])]),
        ("b", [("thm1", MAKES)]),
        ("size 2", [("thm1", ["for n in range(3):", '    t.part(f"size {n}")'])]),
        ("", [("thm1", ["whole = t.part(bound=0.1)"]), ("thm1", ["whole.add(3)"])]),
        (
            "fourth",
            [
                ("thm1", COMMENTED),
                ("feeds", ["part.add(1)", 'fourth = t.part("fourth")']),
                ("feeds", ["fourth.add(2)"]),
            ],
        ),
    ],
)
def test_a_part_has_the_paragraphs_with_its_name_or_its_variable(place, name, expected):
    assert shown(place, name) == expected


def test_a_name_that_is_computed_is_made_where_parts_are_begun_by_one(place):
    assert shown(place, "nowhere")[0] == ("thm1", MAKES)


def test_a_name_that_is_compared_a_default_or_a_key_of_data_is_no_part(place, monkeypatch):
    source = """def scale(name, other="a"):
    return DATA["a"]["b"] + DATA["b"]["a"].size if name == "a" else 1


def thm1(t):
    for name in CASES:
        wide = t.part(f"{name}, wide")
        one = t.part(name)

        wide.add(1)

        one.add(scale(name))
"""
    place.file.write_text(source, encoding="utf-8")
    nodes = ast.parse(source).body
    made = [reach.Function(place.file, node) for node in nodes]
    monkeypatch.setattr(paragraphs, "reached", lambda place: made)
    begun = ["for name in CASES:", '    wide = t.part(f"{name}, wide")', "    one = t.part(name)"]
    assert shown(place, "a") == [("thm1", begun), ("thm1", ["    one.add(scale(name))"])]
    assert shown(place, "a, wide") == [("thm1", begun), ("thm1", ["    wide.add(1)"])]


def test_a_variable_of_two_parts_is_each_part_as_long_as_it_holds_it(place, monkeypatch):
    source = """def thm1(t):
    part = t.part("one")

    part.add(1)

    part = t.part("two").add(2)

    part.add(3)
"""
    place.file.write_text(source, encoding="utf-8")
    (node,) = ast.parse(source).body
    monkeypatch.setattr(paragraphs, "reached", lambda place: [reach.Function(place.file, node)])
    assert shown(place, "one") == [("thm1", ['part = t.part("one")']), ("thm1", ["part.add(1)"])]
    two = [("thm1", ['part = t.part("two").add(2)']), ("thm1", ["part.add(3)"])]
    assert shown(place, "two") == two


def test_of_two_checks_the_one_that_names_a_part_has_its_lines(place, monkeypatch):
    source = "def one(t):\n    t.part(computed)\n\n\ndef two(t):\n    t.part('plain')\n"
    place.file.write_text(source, encoding="utf-8")
    functions = {node.name: reach.Function(place.file, node) for node in ast.parse(source).body}
    monkeypatch.setattr(paragraphs, "reached", lambda place: [functions[place.name]])
    one, two = (replace(place, name=name) for name in functions)
    for name, function in (("plain", "two"), ("other", "one")):
        (found,) = paragraphs.of_part(one, name, two)
        assert found.function == function


def test_a_part_that_a_function_inside_feeds_has_its_calls(place, monkeypatch):
    source = """def thm1(t):
    one = t.part("one")

    other = t.part("other")

    def feeds(x):
        one.add(x)

    x = 3

    y = 4

    feeds(x)

    other.add(y)
"""
    place.file.write_text(source, encoding="utf-8")
    (node,) = ast.parse(source).body
    monkeypatch.setattr(paragraphs, "reached", lambda place: [reach.Function(place.file, node)])
    begun, inner = ['one = t.part("one")'], ["def feeds(x):", "    one.add(x)"]
    assert [lines for _, lines in shown(place, "one")] == [begun, inner, ["x = 3"], ["feeds(x)"]]
    assert [lines for _, lines in shown(place, "other")] == [
        ['other = t.part("other")'],
        ["y = 4"],
        ["other.add(y)"],
    ]


def test_a_part_made_by_a_helper_has_the_calls_and_what_feeds_the_part_afterwards(
    place, monkeypatch
):
    source = """def thm1(t):
    size = 3

    made = _helper(t, size)

    t.unrelated()

    made.proves(size)

def _helper(t, n):
    def inner(x):
        half = x / 2

        # A comment inside.
        return half

    other = t.part("other")

    part = t.part("one").add(inner(n))

    other.add(2)
    return part
"""
    place.file.write_text(source, encoding="utf-8")
    made = [reach.Function(place.file, node) for node in ast.parse(source).body]
    named = {"_helper": made[1]}
    monkeypatch.setattr(paragraphs, "reached", lambda place: made)
    monkeypatch.setattr(paragraphs, "named", lambda of, node: named.get(getattr(node, "id", "")))
    calls = [["size = 3"], ["made = _helper(t, size)"], ["made.proves(size)"]]
    inner = [line[4:] for line in source.splitlines()[10:15]]
    feeds = [inner, ['part = t.part("one").add(inner(n))'], ["other.add(2)", "return part"]]
    expected = [("thm1", lines) for lines in calls] + [("_helper", lines) for lines in feeds]
    assert shown(place, "one") == expected


def test_a_proof_shows_whole_the_helpers_that_return_what_it_shows(place, monkeypatch):
    source = """def thm1(t):
    one, other = t.part("one"), t.part("other")
    one.add(1)

    one.proves(**_shown(2), breaks=_size())
    for part, proof in zip((one, other), _both()):
        part.proves(**proof)

def _shown(n) -> Proof:
    left = n

    return left

def _both() -> tuple[exact.Shown, exact.Shown]:
    return 1, 2

def _size() -> int:
    return 3
"""
    place.file.write_text(source, encoding="utf-8")
    made = [reach.Function(place.file, node) for node in ast.parse(source).body]
    named = {function.node.name: function for function in made}
    for module in (paragraphs, proofs):
        monkeypatch.setattr(module, "named", lambda of, node: named.get(getattr(node, "id", "")))
    monkeypatch.setattr(paragraphs, "reached", lambda place: made)
    helpers = [name for name, _ in shown(place, "one") if name != "thm1"]
    assert helpers == ["_shown", "_both"]
    assert ("_shown", source.splitlines()[8:12]) in shown(place, "one")
    assert [name for name, _ in shown(place, "other") if name != "thm1"] == ["_both"]


def test_parts_begun_one_by_one_and_by_the_name_in_a_variable_have_what_feeds_them(
    place, monkeypatch
):
    source = """def thm1(t):
    one, two = (t.part(name) for name in ("one", "two"))

    one.add(1)

    two.add(2)

    name = "three"
    forms = (t.part, t.corrected)

    printed, mended = (form(name) for form in forms)

    printed.add(3)

    for label, size in (("four", 4), ("five", 5)):
        part = t.part(label)

        part.add(size)
"""
    place.file.write_text(source, encoding="utf-8")
    made = [reach.Function(place.file, node) for node in ast.parse(source).body]
    monkeypatch.setattr(paragraphs, "reached", lambda place: made)
    begun = source.splitlines()[1].strip()
    for name, fed in (("one", "one.add(1)"), ("two", "two.add(2)")):
        assert [lines for _, lines in shown(place, name)] == [[begun], [fed]]
    three = ['name = "three"', "forms = (t.part, t.corrected)"]
    begins = ["printed, mended = (form(name) for form in forms)"]
    assert [lines for _, lines in shown(place, "three")] == [three, begins, ["printed.add(3)"]]
    loop = source.splitlines()[14:16]
    found = [[line[4:] for line in loop], ["    part.add(size)"]]
    assert [lines for _, lines in shown(place, "five")] == found


def test_a_name_may_be_a_constant_of_the_module_or_of_another_one_of_checks(place, monkeypatch):
    source = """from clcore.checks.made import other
from clcore.checks.made.other import FAR

NEAR = "near"


def thm1(t):
    for begin in (t.part, t.corrected):
        begin(NEAR).add(1)

    begin(other.FAR).add(2)

    begin(FAR).breaks(NEAR, 3)
"""
    place.file.write_text(source, encoding="utf-8")
    (place.file.parent / "other.py").write_text('FAR = "far"\n', encoding="utf-8")
    made = [reach.function(place.file, "thm1")]
    monkeypatch.setattr(paragraphs, "reached", lambda place: made)
    near = ["for begin in (t.part, t.corrected):", "    begin(NEAR).add(1)"]
    assert [lines for _, lines in shown(place, "near")] == [near]
    far = [["begin(other.FAR).add(2)"], ["begin(FAR).breaks(NEAR, 3)"]]
    assert [lines for _, lines in shown(place, "far")] == [near, *far]


def test_both_forms_of_a_part_are_fed_by_one_variable_or_by_two(place, monkeypatch):
    source = """def thm1(t):
    both = t.both("both")

    both.printed.add(1)

    printed, mended = pair = t.both("pair")

    mended.add(2)

    pair.breaks("no pair", 3)
"""
    place.file.write_text(source, encoding="utf-8")
    (node,) = ast.parse(source).body
    monkeypatch.setattr(paragraphs, "reached", lambda place: [reach.Function(place.file, node)])
    both, fed, pair, mended, broken = (line.strip() for line in source.splitlines()[1::2])
    assert shown(place, "both") == [("thm1", [both]), ("thm1", [fed])]
    assert shown(place, "pair") == [("thm1", [pair]), ("thm1", [mended]), ("thm1", [broken])]


def test_a_part_that_no_line_makes_is_refused_with_the_remedy(place, monkeypatch):
    node = ast.parse("def thm1(t):\n    t.part('first')\n").body[0]
    only = (reach.Function(place.file, node),)
    monkeypatch.setattr(paragraphs, "reached", lambda place: only)
    with pytest.raises(LedgerError, match=r"one.py:6 thm1: expected a paragraph for the part 'gon"):
        paragraphs.of_part(place, "gone")


def test_the_parts_of_a_check_are_named_by_line(place):
    lines = MADE.splitlines()
    found = paragraphs.named_parts(place)
    assert [name for name, _ in found] == ["first", "second", "third", ""]
    assert all(f'"{name}"' in lines[line - 1] for name, line in found[:-1])


def test_every_part_of_today_that_is_begun_by_a_text_has_its_lines():
    for place in registry.places():
        for name, line in paragraphs.named_parts(place):
            found = paragraphs.of_part(place, name)
            assert any(one.first <= line <= one.last for one in found), (place.path, name)
            text = "".join(one.text for one in found)
            fed = re.search(r"\.(add|proves)\(", text)
            assert fed, f"{place.path}: nothing shown feeds {name!r}"
