"""Where a check is: read from the source, without importing it."""

import ast

import pytest

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


def write(folder, name, text):
    (folder / name).write_text(text)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    ledger.claims()  # of the repository: they are cached
    monkeypatch.setattr(registry._paths, "root", lambda: tmp_path)
    return tmp_path


def test_marked_functions_are_found_with_their_lines(folder):
    write(folder, "a.py", ONE)
    first, second = registry.scan(folder)
    assert (first.claims, first.on, first.name, first.path) == (
        ("acl/thm1",),
        "draws",
        "thm1",
        "a.py",
    )
    assert (second.claims, second.on) == (("acl/tab2a", "acl/num14"), "runs")
    assert first.source().startswith('@check("acl/thm1")\ndef thm1')
    assert first.source().endswith("return 1\n") and first.first == 2


def test_a_claim_checked_twice_names_both_places(folder):
    write(folder, "a.py", ONE)
    write(folder, "b.py", ONE.replace("thm1(t)", "again(t)").replace('"acl/tab2a", ', ""))
    with pytest.raises(ledger.LedgerError, match=r"thm1 .*a.py:2.* and again .*b.py:2"):
        registry.scan(folder)


def test_the_same_claim_on_draws_and_on_runs_is_two_checks(folder):
    write(folder, "a.py", ONE)
    write(folder, "b.py", '@check("acl/thm1", on="runs")\ndef other(t, runs):\n    pass\n')
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
    write(folder, "a.py", f"{decorator}\ndef f(t):\n    pass\n")
    with pytest.raises(ledger.LedgerError, match=message):
        registry.scan(folder)


def test_every_place_of_the_repository_is_what_it_says():
    for place in registry.places():
        ast.parse(place.source())
        assert place.source().startswith("@check")
        assert place.claims[0] in place.source()


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
