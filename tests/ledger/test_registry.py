"""Where a check is: read from the source, without importing it."""

import ast

import pytest
from made_notebook import notebook

from clcore import ledger
from clcore.ledger import registry

ONE = '''
@check("acl/thm1")
def thm1(t):
    """One."""
    return 1


def helper():
    pass


@check("acl/tab2a", "acl/num14", on="runs")
def table(t, runs):
    pass
'''


def put(folder, name, text):
    (folder / name).write_text(text)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    ledger.claims()  # of the repository: they are cached
    monkeypatch.setattr(registry._paths, "root", lambda: tmp_path)
    return tmp_path


def test_marked_functions_are_found_with_their_lines(folder):
    put(folder, "a.py", ONE)
    first, second = registry.scan(folder)
    assert (first.claims, first.on, first.name, first.path) == (
        ("acl/thm1",),
        "draws",
        "thm1",
        "a.py",
    )
    assert (second.claims, second.on) == (("acl/tab2a", "acl/num14"), "runs")
    assert first.source.startswith('@check("acl/thm1")\ndef thm1')
    assert first.source.endswith("return 1\n") and first.first == 2


def test_the_lines_are_those_that_were_read_though_the_file_has_changed_since(folder):
    put(folder, "a.py", ONE)
    first, _ = registry.scan(folder)
    put(folder, "a.py", "a = (\n" + ONE)
    assert first.source.startswith('@check("acl/thm1")') and first.source.endswith("return 1\n")


def test_a_claim_checked_twice_names_both_places(folder):
    put(folder, "a.py", ONE)
    put(folder, "b.py", ONE.replace("thm1(t)", "again(t)").replace('"acl/tab2a", ', ""))
    with pytest.raises(ledger.LedgerError, match=r"thm1 .*a.py:2.* and again .*b.py:2"):
        registry.scan(folder)


def test_the_same_claim_on_draws_and_on_runs_is_two_checks(folder):
    put(folder, "a.py", ONE)
    put(folder, "b.py", '@check("acl/thm1", on="runs")\ndef other(t, runs):\n    pass\n')
    assert len(registry.scan(folder)) == 3


@pytest.mark.parametrize(
    ("decorator", "message"),
    [
        ('@check("acl/thm99")', r"a.py:2 f.*'acl/thm99'.*did you mean"),
        ("@check(NAME)", "ids written out"),
        ("@check()", "expected @check"),
        ('@check("acl/thm1", on="luck")', "expected @check"),
    ],
)
def test_a_decorator_that_cannot_be_read_is_refused(folder, decorator, message):
    put(folder, "a.py", f"{decorator}\ndef f(t):\n    pass\n")
    with pytest.raises(ledger.LedgerError, match=message):
        registry.scan(folder)


@pytest.mark.parametrize("decorator", ["@other('acl/thm2')", "@t.check('acl/thm2')", "@check"])
def test_any_other_decorator_marks_nothing(folder, decorator):
    put(folder, "a.py", f"{ONE}\n\n{decorator}\ndef f(t):\n    pass\n")
    assert [place.name for place in registry.scan(folder)] == ["thm1", "table"]


def test_a_function_begins_with_the_first_of_its_decorators(folder):
    put(folder, "a.py", '@one\n@check("acl/thm1")\n@two("x")\ndef f(t):\n    pass\n')
    (place,) = registry.scan(folder)
    assert (place.first, place.last) == (1, 5)
    assert place.source.startswith('@one\n@check("acl/thm1")\n@two')


def test_checks_stand_in_a_folder_of_their_own(write):
    for name in ("checks/deep/a.py", "ledger/b.py"):
        write(f"clcore/{name}", ONE)
    assert {place.path for place in registry.places()} == {"clcore/checks/deep/a.py"}
    assert [place.path for place in registry.of("acl/thm1")] == ["clcore/checks/deep/a.py"]


@pytest.mark.parametrize(
    ("on", "twice"), [("draws", ("acl/thm1", "acl/thm2")), ("runs", ("acl/thm2", "acl/thm1"))]
)
def test_a_claim_asked_for_by_itself_is_refused_when_checked_twice(write, on, twice):
    """As when all are read; one that is not asked for is no hindrance."""
    text = f'@check("acl/thm1", on="{on}")\ndef {{}}(t, low=0):\n    pass\n'
    write("clcore/checks/a.py", text.format("one"))
    write("clcore/checks/b.py", text.format("two") + '@check("acl/thm2")\ndef three(t): ...\n')
    told = rf"acl/thm1 is checked twice on {on}: by one .*a.py:1. and two .*b.py:1.; make them one"
    for ask in (lambda: registry.of("acl/thm1"), lambda: registry.places()):
        with pytest.raises(ledger.LedgerError, match=told):
            ask()
    assert [place.name for place in registry.of("acl/thm2")] == ["three"]


def test_a_check_that_is_no_python_is_told_with_file_and_line(write):
    write("clcore/checks/a.py", '@check("acl/thm1")\ndef one(t):\n    x = (\n')
    told = r"^clcore/checks/a.py:3: '\(' was never closed; correct it, since checks are read"
    with pytest.raises(ledger.LedgerError, match=told):
        registry.of("acl/thm1")


def test_homes_are_the_chapters_whose_metadata_name_a_claim_or_its_group(write):
    code = ("code", "one", '"acl/thm1"')
    group = f"acl/{ledger.claim('acl/thm1')['chapter']}"
    for name, named in {"1-a": ["acl/thm1"], "0-b": ["ddn/hltm", group], "2-c": ["acl"]}.items():
        write(f"chapters/{name}.ipynb", notebook(code, claims=named))
    write("chapters/3-d.ipynb", notebook(code))
    assert registry.homes("acl/thm1") == ["0-b", "1-a"]
    assert registry.homes("nl/thm1") == []
    with pytest.raises(ledger.LedgerError, match="did you mean acl/thm1"):
        registry.homes("acl/thm11")


def test_a_file_without_checks_may_be_half_written(write):
    write("clcore/checks/a.py", ONE)
    write("clcore/checks/b.py", "def f(")
    assert len(registry.places()) == 2


def test_a_claim_is_found_while_the_check_of_another_is_half_written(write):
    write("clcore/checks/a.py", ONE)
    write("clcore/checks/b.py", '@check("acl/thm2")\ndef f(')
    assert [place.name for place in registry.of("acl/thm1")] == ["thm1"]


def test_the_function_of_a_claim_is_the_one_on_draws(write):
    runs = '@check("acl/thm1", on="runs")\ndef of_runs(t, low):\n    pass\n'
    head = "from clcore.ledger import check\n"
    write("clcore/checks/made_checks.py", head + runs + ONE)
    assert registry.function("acl/thm1").__name__ == "thm1"
    with pytest.raises(ledger.LedgerError, match=r"acl/num14 has no function of \(draws, seed\)"):
        registry.function("acl/num14")


def test_cells_of_code_that_write_an_id_out_are_told_with_their_number(write):
    write(
        "chapters/1-a.ipynb",
        notebook(
            ("markdown", "m", 'About "acl/thm1".'),
            ("code", "other", 'run("acl/thm11", "acl/thm2")\nacl/thm1'),
            ("markdown", "n", "More."),
            ("code", "one", 'x = 1\nrun("acl/thm2", "acl/thm1")'),
        ),
    )
    write("chapters/0-b.ipynb", notebook(("code", "two", '"acl/thm1"'), ("code", "no", "x = 2")))
    assert registry.cells("acl/thm1") == [
        registry.Cell("0-b", "two", 1),
        registry.Cell("1-a", "one", 2),
    ]
    assert registry.cells("acl/thm3") == []
    with pytest.raises(ledger.LedgerError, match="did you mean acl/thm1"):
        registry.cells("acl/thm11")


def test_every_place_of_the_repository_is_what_it_says():
    for place in registry.places():
        ast.parse(place.source)
        assert place.source.startswith("@check")
        assert place.claims[0] in place.source


def test_a_claim_is_found_by_itself_as_among_all():
    """One looks only into the files that have the id, the other into every one."""
    for claim in ledger.claims():
        assert registry.of(claim) == tuple(p for p in registry.places() if claim in p.claims)


def test_unknown_ids_are_answered_with_near_ones():
    with pytest.raises(ledger.LedgerError, match="did you mean nl/thm4"):
        registry.of("nl/thm44")


def test_every_claim_has_a_check_or_a_cell():
    """A function, or a cell of a chapter that writes its id out."""
    assert registry.unplaced() == []
