"""Proofs of the checks as programs: what is taken over, that each runs alone and is recorded."""

import ast
import json
import subprocess
import sys
import textwrap

import pytest
from made_rows import check, claim_page, made, row

from clcore.book.proofs import names, programs, recorded, slices
from clcore.book.site import claims as pages
from clcore.book.site import code, search
from clcore.ledger import claims
from clcore.ledger.html import row_id

KEPT = recorded.known()
FEW = sorted(KEPT)[:: len(KEPT) // 8]
"""Some of every paper; which run again."""


def function(source: str, clean: tuple[str, ...] = (), proving: tuple[str, ...] = ()):
    text = textwrap.dedent(source)
    return slices.share(text, lambda name: name in ("Part", *clean), lambda name: name in proving)


def test_a_proof_takes_what_it_needs_and_leaves_draws() -> None:
    got = function(
        '''
        def thm(t):
            """It holds at random inputs."""
            n, size = t.draws, 2
            x = t.rng.standard_normal(n)
            one = t.part("bound", 1e-9, draws=n)
            one.add(x - 1).breaks("twice", 2 * x)
            x = symbol(size)
            # The sign is known.
            y = x**2
            one.proves(exact.equal(y, x * x), breaks={"minus": exact.equal(y, -x * x)})
        ''',
        ("symbol", "exact.equal"),
    )
    assert got.text == textwrap.dedent(
        """\
        def thm():
            size = 2
            one = Part("bound")
            x = symbol(size)
            # The sign is known.
            y = x**2
            one.proves(exact.equal(y, x * x), breaks={"minus": exact.equal(y, -x * x)})
        """
    )
    assert (got.proofs, got.left, got.loads) == (1, 0, {"Part", "symbol", "exact.equal"})


def test_a_proof_that_needs_draws_is_left_and_counted() -> None:
    source = """
        def thm(t):
            part = t.corrected("a", 0.0)
            x = np.ones(3)
            part.proves(shown(x), breaks={})
            other = t.part(f"b {SIZE}", claim="acl/eq4")
            other.proves(shown(SIZE), breaks={})
        """
    got = function(source, ("shown", "SIZE"))
    assert (got.proofs, got.left) == (1, 1)
    assert "np" not in got.text and 'Part(f"b {SIZE}", claim="acl/eq4")' in got.text
    assert function(source, ("shown",)) is None
    assert 'Part("a", form="corrected")' in function(source, ("shown", "np.ones")).text


def test_what_changes_in_place_and_what_a_function_finds_later_come_along() -> None:
    got = function(
        """
        def thm(part):
            sides = []
            for k in range(2):
                sides += [k]
            sides.append(2)
            def later():
                return form
            form = 3
            part.proves(exact.equal(sides, later()), breaks={})
            form = 4
        """,
        ("exact.equal",),
    )
    assert all(line in got.text for line in ("sides += [k]", "sides.append(2)", "form = 3"))
    assert "form = 4" not in got.text


def test_a_helper_that_proves_is_called_without_the_trial() -> None:
    source = "def thm(t):\n    one = t.part()\n    helper(t, one)\n    other(t, one)\n"
    got = function(source, ("helper",), ("helper",))
    assert got.text == "def thm():\n    one = Part()\n    helper(one)\n"


def test_annotations_go_but_those_of_a_class() -> None:
    source = "def f(a: int, b: str = 'é', *, c: 'x' = 1) -> 'y':\n    d: int = a\n    return d\n"
    assert slices.plain(source) == "def f(a, b='é', *, c=1):\n    d = a\n    return d\n"
    kept = "class A(NamedTuple):\n    a: int\n    b: int = 2\n"
    assert slices.plain(kept) == kept


def test_names_are_told_apart_as_python_does() -> None:
    (statement,) = ast.parse("def f(a, sym):\n    return a + sym.x + ts.y + [b for b in B][0]").body
    got = names.of(statement)
    assert got.loads == {"ts.y", "B"} and got.stores == {"f"}
    assert {"a", "sym", "b"} <= got.own


def test_every_program_imports_sympy_and_exact_alone_and_parses() -> None:
    """And is the one whose output is recorded: else run `python -m clcore.book.proofs`."""
    for claim in KEPT:
        made = programs.program(claim)
        assert made is not None, claim
        assert recorded.digest(made.text) == KEPT[claim]["digest"], claim
        found = set()
        for node in ast.walk(ast.parse(made.text)):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            if isinstance(node, ast.ImportFrom):
                found.add(node.module.split(".")[0])
        assert found <= {*sys.stdlib_module_names, "exact", "mpmath", "sympy"}, claim
        assert made.text.count(".proves(") >= 1 and made.proofs >= 1


def test_there_are_enough_and_each_says_what_it_shows() -> None:
    assert len(KEPT) >= 60 and set(KEPT) <= set(claims())
    for claim, said in KEPT.items():
        assert recorded.shown(said["prints"]) and 0 <= said["seconds"] <= recorded.LIMIT, claim
        lines = said["prints"].splitlines()
        heads = [line for line in lines if not line.startswith("  ")]
        ends = ("proved", "certified", "counterexample")
        assert heads and all(line.endswith(ends) for line in heads), claim
        assert len(lines) >= 2 * len(heads), claim  # each has something broken


def test_a_few_run_again_print_what_is_kept() -> None:
    found = recorded.run({claim: programs.program(claim).text for claim in FEW})
    for claim in FEW:
        assert found[claim]["error"] == "" and found[claim]["prints"] == KEPT[claim]["prints"]


def test_what_is_broken_is_noticed() -> None:
    text = programs.program("acl/lem9").text
    others = {
        "broken": text.replace("shown.failing", "0").replace("other.failing", "0"),
        "raises": "import exact\nexact.equal(1, 2)\n",
        "numpy": "import numpy\n",
        "torch": "import torch\n",
        "clcore": "import clcore\n",
    }
    found = recorded.run(others)
    assert not recorded.shown(found["broken"]["prints"])
    assert "an identity at some numbers" in found["raises"]["error"]
    for name in ("numpy", "torch", "clcore"):
        assert found[name]["error"] == f"ModuleNotFoundError: No module named {name!r}"


@pytest.mark.parametrize("claim", ["acl/eq27", "ddn/eq136"])
def test_a_sign_changed_in_a_program_is_noticed(claim: str) -> None:
    """Most of them: a few stand in what is broken on purpose, or where either sign will do."""
    text = programs.program(claim).text
    start = text.index("\n\n\n", text.index("class Part"))
    places = [at for at in range(start, len(text)) if text[at : at + 3] == " - "][-6:]
    changed = {f"{at}": f"{text[:at]} + {text[at + 3 :]}" for at in places}
    found = recorded.run(changed)
    noticed = [v for v in found.values() if v["error"] or v["prints"] != KEPT[claim]["prints"]]
    assert len(noticed) > len(found) / 2 > 0


def test_a_stale_or_damaged_record_is_not_shown(tmp_path, monkeypatch) -> None:
    claim = FEW[0]
    assert recorded.of(claim)["prints"] == KEPT[claim]["prints"]
    stale = {claim: KEPT[claim] | {"digest": "0" * 64}}
    monkeypatch.setattr(recorded, "known", lambda: stale)
    assert recorded.of(claim) is None and code.proof(claim) is None
    monkeypatch.undo()
    bad = tmp_path / "proofs.json"
    bad.write_text(json.dumps(KEPT)[:-5])
    monkeypatch.setattr(recorded, "file", lambda: bad)
    recorded.known.cache_clear()
    with pytest.raises(ValueError, match=r"python -m clcore\.book\.proofs"):
        recorded.known()
    recorded.known.cache_clear()


def test_words_in_a_program_do_not_make_its_record_stale_and_a_sign_does() -> None:
    text = programs.program("acl/eq27").text
    said = f'"""Other words."""\n# and a comment\n{text}'
    assert recorded.digest(said) == recorded.digest(text)
    at = text.index(" - ", text.index("class Part"))
    assert recorded.digest(f"{text[:at]} + {text[at + 3 :]}") != recorded.digest(text)


def test_a_program_that_prints_what_it_did_leaves_the_record_as_it_was(
    tmp_path, monkeypatch
) -> None:
    kept = {claim: KEPT[claim] | {"seconds": 77.0} for claim in FEW[:2]}
    again = tmp_path / "proofs.json"
    again.write_text(json.dumps(kept | {FEW[1]: KEPT[FEW[1]] | {"prints": "", "seconds": 77.0}}))
    monkeypatch.setattr(recorded, "file", lambda: again)
    recorded.known.cache_clear()
    assert recorded.record(FEW[:2]) == {"recorded": 2}
    said = json.loads(again.read_text())
    assert said[FEW[0]] == kept[FEW[0]] and said[FEW[1]]["seconds"] != 77
    again.write_text("{")
    recorded.known.cache_clear()
    assert recorded.record(FEW[:1]) == {"recorded": 1}
    recorded.known.cache_clear()
    assert recorded.known()[FEW[0]]["prints"] == KEPT[FEW[0]]["prints"]
    recorded.known.cache_clear()


@pytest.mark.parametrize("module", ["clcore.book.proofs", "clcore.book.site.fields"])
def test_to_ask_for_help_records_nothing(module) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", module, "--help"], capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0 and "Usage" in ran.stdout


def test_the_page_of_a_claim_offers_it_and_the_search_leaves_it_out() -> None:
    claim = "acl/eq27"
    proof = {"rung": "proved", "entries": 2, "refutes": False, "at": "N = 3", "control": {}}
    rows = [row(id=claim, checks=[check(claim=claim, proofs=[proof])])]
    pages_made = made(*rows)
    html = pages_made[pages.page_of(claim)]
    said = code.proof(claim)
    assert '<details id="proof">' in html and f"{said['takes']}" in html
    assert f'href="../proofs/{row_id(claim)}.py"' in html and 'href="../proofs/exact.py"' in html
    assert pages_made[f"proofs/{row_id(claim)}.py"] == programs.program(claim).text
    assert "clcore" not in ast.unparse(ast.parse(pages_made["proofs/exact.py"]))
    assert "def prove" not in str(search.of_claim(rows[0]))
    assert 'id="proof"' not in claim_page(row(id=claim))


def test_a_function_that_may_end_early_is_taken_whole_or_not_at_all() -> None:
    source = """
        def thm(t, part):
            for k in range(3):
                def unused():
                    return k
            if t.draws > 3:
                return
            part.proves(exact.equal(1), breaks={})
        """
    assert function(source, ("exact.equal",)) is None
    got = function(source.replace("t.draws > 3", "SIZE > 3"), ("exact.equal", "SIZE"))
    assert got.proofs == 1 and "if SIZE > 3:\n        return\n" in got.text
    assert "unused" not in got.text
