"""Parts whose names a helper makes of its parameters have the lines of that helper alone."""

import ast

import pytest

from clcore.ledger import registry
from clcore.ledger.written import paragraphs, reach, wording

MADE = '''from clcore.ledger import Trial, check

HEAD = "nets find "


@check("acl/thm1")
def thm1(t: Trial, runs: Runs) -> None:
    """A title."""
    for label in runs:
        _within(t, "is close", label)

    name = f"stays {2}"
    for label in runs:
        _within(t, name, label)

    _above(t, HEAD + "more", label="all")


def _within(t, name, label):
    t.part(f"{name}, {label}").add(1)


def _above(t, name, label):
    pair, part = 2, f"{name}, {label}"
    t.part(part).add(pair)
'''


@pytest.fixture
def place(write, tmp_path):
    write("clcore/checks/made/one.py", MADE)
    (found,) = registry.scan(tmp_path / "clcore" / "checks" / "made")
    return found


@pytest.mark.parametrize(
    ("name", "helper"),
    [
        ("is close, some", "_within"),
        ("stays 2, some", "_within"),
        ("stays 3, some", "_within"),
        ("nets find more, all", "_above"),
    ],
)
def test_a_part_has_the_helper_to_which_a_text_is_handed_that_its_name_begins_with(
    place, name, helper
):
    found = {one.function for one in paragraphs.of_part(place, name)}
    assert found == {"thm1", helper}


@pytest.mark.parametrize(
    ("call", "known"),
    [
        ("f('a', 'b')", {"x": "(?:a)", "y": "(?:b)"}),
        ("f('a', y=given)", {"x": "(?:a)", "y": "(?:.*)"}),
        ("f(*given)", {"x": "(?:.*)", "y": "(?:.*)"}),
        ("f(**given)", {"x": "(?:.*)", "y": "(?:.*)"}),
        ("f('a')", {"x": "(?:a)", "y": "(?:.*)"}),
        ("[f('a', 'b'), f('c.', f'{1:.2f} b')]", {"x": r"(?:a|c\.)", "y": r"(?:.*\ b|b)"}),
    ],
)
def test_a_parameter_may_be_what_any_call_hands_to_it(place, call, known):
    text = f"def f(x, y=''):\n    z = x + 'end'\n\n\ndef g(given):\n    {call}\n"
    place.file.write_text(text, encoding="utf-8")
    f, g = (reach.function(place.file, name) for name in "fg")
    assert wording.texts(f, (f, g)) == known | {"z": "(?:.*end)"}


def test_a_variable_that_a_loop_binds_too_may_be_anything(place):
    text = "def f(names):\n    x = 'a'\n    for x in names:\n        x\n    y = x\n"
    node = ast.parse(text).body[0]
    assert wording.texts(reach.Function(place.file, node), ()) == {"x": ".*", "y": "(?:.*)"}
