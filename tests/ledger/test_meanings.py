"""What the names in some lines of a check stand for."""

import ast

import pytest

from clcore.ledger.written import meanings, reach
from clcore.ledger.written.paragraphs import Lines

MADE = '''from clcore import theory as th
from clcore.checks.made import other
from clcore.checks.made.other import FAR, bent as curved, plain
from clcore.ledger import Trial, check

SIZES = (2, 3)
"""Neurons, inputs."""
FEW, MANY = 4, 400  # pairs of views
AGAIN = FAR
SAME = other.FAR
LONG = "a text that is much too long to be shown beside the lines of a part of a claim's check"


@check("acl/thm1")
def thm1(t: Trial) -> None:
    """A title."""
    count = MANY + curved(SIZES, AGAIN, SAME)
    plain(count, LONG)
    th.grows(count)
    np.sum(count)


def unused(t: Trial) -> None:
    thm1(t)
'''

OTHER = '''FAR: int = 9


def bent(x: int, *others: int, twice: bool = False, **more: int) -> int:
    """Bend x,
    or twice.

    It is tested. Errors: none.
    """
    return x


def plain(count, text):
    return count + 1


def silent(count):
    count += 1
    return count
'''


@pytest.fixture
def found(write):
    """A function that finds the meanings in a function of a made module."""
    write("clcore/checks/made/one.py", MADE)
    write("clcore/checks/made/other.py", OTHER)
    write("clcore/theory/__init__.py", "from clcore.theory.inner import rises as grows\n")
    write("clcore/theory/inner.py", 'def rises(count):\n    """It grows.\n\n    Much."""\n')

    def of(name="thm1", *shown):
        file = reach._paths.root() / "clcore" / "checks" / "made" / "one.py"
        node = reach.function(file, name).node
        every = Lines(file, name, node.body[1 if ast.get_docstring(node) else 0].lineno, 99)
        return meanings.of([every, *(Lines(file, other, 1, 1) for other in shown)])

    return of


def test_functions_say_what_their_docstrings_do_and_constants_their_values(found):
    assert {(one.name + one.call, one.says) for one in found()} == {
        ("MANY", "`400`. pairs of views"),
        ("curved(x, *others, twice=False, **more)", "Bend x, or twice. It is tested."),
        ("SIZES", "`(2, 3)`. Neurons, inputs."),
        ("AGAIN", "`9`"),
        ("SAME", "`9`"),
        ("plain(count, text)", "`count + 1`"),
        ("th.grows(count)", "It grows."),
    }


def test_they_come_in_the_order_in_which_a_reader_meets_them(found):
    names = ["MANY", "curved", "SIZES", "AGAIN", "SAME", "plain", "th.grows"]
    assert [one.name for one in found()] == names


def test_a_function_that_is_shown_is_left_out(found):
    assert [one.says for one in found("unused")] == ["A title."]
    assert found("unused", "thm1") == []


def test_what_says_nothing_is_left_out(found):
    tree = ast.parse(OTHER)
    silent = next(n for n in tree.body if getattr(n, "name", "") == "silent")
    assert meanings.words(silent) == ""
