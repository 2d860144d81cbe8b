"""What the names in some lines of a check stand for."""

import ast

import pytest

from clcore.ledger import registry
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


def test_a_first_paragraph_that_is_no_sentence_is_told_with_the_next():
    node = ast.parse('def made():\n    """The mean of\n\n    a + b.\n\n    More."""\n').body[0]
    assert isinstance(node, ast.FunctionDef)
    assert meanings.words(node, whole=False) == "The mean of a + b."


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("In standard errors. Errors: none.", "In standard errors."),
        ("Relative errors: of a, and of b. Raises ValueError.", "Relative errors: of a, and of b."),
        ("It grows. Same errors.", "It grows."),
    ],
)
def test_errors_that_are_measured_are_told_and_those_that_are_raised_are_not(told, says):
    node = ast.parse(f'def made():\n    """{told}"""\n').body[0]
    assert isinstance(node, ast.FunctionDef)
    assert meanings.words(node) == says


def test_tables_of_runs_say_what_the_words_on_their_types_do(write):
    text = """from clcore.ledger import Trial, check
Runs = pd.DataFrame
'''A row per run, and epoch.'''
Bare = pd.DataFrame


@check("acl/tab2", on="runs")
def tab2(t: Trial, runs: Runs, more: Runs, bare: Bare) -> None:
    helper(t, runs, bare)


def helper(t: Trial, runs: Runs, bare: Bare) -> None:
    t.part("made").add(runs, bare)
"""
    write("clcore/checks/made/one.py", text)
    file = reach._paths.root() / "clcore" / "checks" / "made" / "one.py"

    def found(name, first, last):
        return [(m.name, m.call, m.says) for m in meanings.of([Lines(file, name, first, last)])]

    assert found("tab2", 9, 9)[0] == ("runs", "", "A row per run, and epoch.")
    assert [name for name, *_ in found("tab2", 9, 9)] == ["runs"]
    assert found("helper", 13, 13) == []


def test_members_of_classes_that_the_lines_use_say_what_they_are(write):
    text = """from clcore.checks.made.other import made


def uses(t, x):
    return made(t).times(x), made(t).size, made(t).root, made(t).far, x.silent, x.half
"""
    other = """class Layer:
    '''A layer.'''

    size: int
    '''Of what.'''
    root: int  # its root
    silent: int
    unused: int  # of no line

    @property
    def far(self):
        '''How far.'''

    @property
    def half(self):
        return self.size / 2

    def times(self, x):
        '''Times x.'''


def made(t) -> list[Layer]:
    '''Layers.'''
"""
    write("clcore/checks/made/one.py", text)
    write("clcore/checks/made/other.py", other)
    file = reach._paths.root() / "clcore" / "checks" / "made" / "one.py"
    assert [(m.name, m.call, m.says) for m in meanings.of([Lines(file, "uses", 5, 5)])] == [
        ("made", "(t)", "Layers."),
        ("Layer", "", "A layer."),
        ("Layer.size", "", "Of what."),
        ("Layer.root", "", "its root"),
        ("Layer.far", "", "How far."),
        ("Layer.half", "", "`self.size / 2`"),
        ("Layer.times", "(x)", "Times x."),
    ]


def test_constants_in_a_row_are_told_each_and_one_name_of_two_modules_with_its_module(write):
    write(
        "clcore/checks/made/one.py",
        """from clcore.checks.made import other

LOW, HIGH = 1, 2
P, Q = symbols("p q")  # of a turn


def uses(t):
    return LOW + HIGH.size() + other.helper(t) + P + Q
""",
    )
    write(
        "clcore/checks/made/other.py",
        """LOW = 3


def helper(t):
    return LOW
""",
    )
    folder = reach._paths.root() / "clcore" / "checks" / "made"
    lines = [Lines(folder / "one.py", "uses", 8, 8), Lines(folder / "other.py", "helper", 5, 5)]
    told = [(m.name, m.says) for m in meanings.of(lines)]
    turn = "`symbols('p q')`. of a turn"
    assert told == [
        ("one.LOW", "`1`"),
        ("HIGH", "`2`"),
        ("P", turn),
        ("Q", turn),
        ("other.LOW", "`3`"),
    ]


def test_every_table_that_a_check_of_runs_takes_has_words():
    silent = []
    for place in (one for one in registry.places() if one.on == "runs"):
        node = reach.function(place.file, place.name).node
        assert isinstance(node, ast.FunctionDef)
        required = node.args.args[1 : len(node.args.args) - len(node.args.defaults)]
        tables = {a.arg for a in required if a.annotation and ast.unparse(a.annotation) != "int"}
        lines = Lines(place.file, place.name, node.body[0].lineno, node.end_lineno or 0)
        told = {one.name for one in meanings.of([lines])}
        silent += [f"{place.name}: {name}" for name in sorted(tables - told)]
    assert not silent, "give the table a type with words on it, Runs = pd.DataFrame"


def test_what_says_nothing_is_left_out(found):
    tree = ast.parse(OTHER)
    silent = next(n for n in tree.body if getattr(n, "name", "") == "silent")
    assert meanings.words(silent) == ""
