"""Names and ids of the ledger, as a slide says them."""

import dataclasses

import made_up_build
import pytest

from clcore.book import course
from clcore.book.course import decks, slides, wide
from clcore.book.course.names import symbols
from clcore.ledger.html import placed, render


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "in the chapter: all of U_>= and nothing",
            r"in the chapter: all of $U_{\ge}$ and nothing",
        ),
        ("b above 1 - alpha^2 kappa", r"b above $1-\alpha^2\,\kappa$"),
        ("V[g] for V[E[g | x0]]", "V[g] for V[E[g | $x_0$]]"),
        ("A that jumps at w_*, the gate open", "A that jumps at $w_*$, the gate open"),
        ("rho_0mu for rho_0", r"$\rho_{0\mu}$ for $\rho_0$"),
        ("r_+ and r_- swapped", "$r_+$ and $r_-$ swapped"),
        ("no randomness at rho = +-1", r"no randomness at $\rho=\pm 1$"),
        ("L_simp has no residue", r"$L_{\mathrm{simp}}$ has no residue"),
        ("n_L x n_l n_{l-1}", r"$n_L\times n_l\,n_{l-1}$"),
        ("J^T kron f", r"$J^T\otimes f$"),
        ("r_s (tau = 5)", r"$r_s$ ($\tau=5$)"),
        ("psi = sigmoid", r"$\psi$ = sigmoid"),
        ("eps 0.1", r"$\epsilon$ 0.1"),
        ("m = d + 1", "$m=d+1$"),
    ],
)
def test_symbols_are_formulas(name, told):
    assert symbols(name) == told


@pytest.mark.parametrize(
    "name",
    [
        *("no gate", "rows sum to 1.1", "log d / d as the variance", "a pair of views", "I for A"),
        *("ReLU: at least 8 maxima", "half the gradient of $\\mathcal E_\\alpha$", "alphabet", ""),
    ],
)
def test_words_and_what_is_a_formula_already_stay(name):
    assert symbols(name) == name


def test_no_slide_shows_an_id_of_the_ledger_but_in_a_command():
    for session in course.sessions().values():
        seen, last = set(), {c: step for step in session.steps for c in step.claims}
        rows = {claim: made_up_build.row(claim) for claim in last}
        for step in session.steps:
            for slide in slides._statements(step, rows, seen, last):
                about = {k: v for k, v in slide.about.items() if k != "row"}
                notes = [n for n in slide.notes if "python -m clcore" not in n]
                assert placed(said := f"{about} {notes}", "") == said


def test_the_example_is_one_of_a_part_that_is_mended():
    row = made_up_build.row("acl/tab1")
    shorter = row["checks"][0] | {"part": "another", "passed": False, "counterexample": "x"}
    row["checks"].append(shorter)
    slide = slides._corrected(row)
    example, of = slide.about["example"], slide.about["of"]
    assert example != "x" and len(slide.about["instead"]) > 1
    found = {r["part"]: r["counterexample"] for r in row["checks"] if r.get("counterexample")}
    assert found[of] == example, "named, as there are several"


def test_names_of_parts_and_controls_are_set():
    row = made_up_build.row("acl/eq4")
    row["checks"][0] |= {"part": "all of U_>=", "control": {"no tau": 0.5}}
    session = next(s for s in course.sessions().values() if s.id == "start")
    step = next(s for s in session.steps if s.claims == ("acl/eq4",))
    (slide,) = slides._controls(step, {"acl/eq4": row}, set())
    assert slide.about["part"] == r"all of $U_{\ge}$"
    assert slide.about["controls"] == [(r"no $\tau$", "off by 0.5")]


def test_a_slide_under_the_title_of_its_step_says_what_it_is_about():
    row = made_up_build.row("acl/thm5")
    about = {"row": row, "part": "", "stands": "s", "controls": []}
    shown = [
        dataclasses.replace(slides._corrected(row), first=True, title="A step"),
        slides.Slide("controls", "A step", (), about, first=True),
    ]
    session = course.sessions()["relu"]
    given = {"session": session, "slides": shown, "profile": "", "cut": wide.cut}
    text = str(render("clcore.book.course", "deck.md.txt", clock=decks._clock, **given))
    assert "(Tian 2022, Theorem 5, corrected)" in text
    assert "What does Tian 2022, Theorem 5 need?" in text
