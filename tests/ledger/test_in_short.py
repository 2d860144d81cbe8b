"""The answer in words of every claim: short, in plain words, in step with its verdict."""

import re
from collections import Counter

import pytest

from clcore.ledger import findings

ANSWERS = {claim: row["in_short"] for claim, row in findings.known().items()}

REFUSED = {
    "an id": r"\b(acl|ncl|nl|ddn)/",
    "a name of a field or file": r"[a-z0-9]_[a-z]{2}|\.(py|yaml)\b|`",
    "a word of our own": r"\b(rows? of (the|our) ledger|(\d+|all|random) draws?|rungs?)\b",
    "a number left open": r"\{=",
    "e-notation": r"\d[eE][+-]?\d",
    "what fits any claim": r"^(True|False|Reproduced)( as printed)?\.$|[Tt]he (claim|statement) ",
}
"""What no answer has outside its formulas."""

COMMANDS = {
    *("alpha", "beta", "gamma", "epsilon", "tau", "sigma", "lambda", "eta", "phi", "psi", "theta"),
    *("rho", "mu", "nu", "kappa", "delta", "Delta", "ell", "infty", "sqrt", "frac", "log", "exp"),
    *("le", "ge", "ne", "times", "cdot", "to", "sum", "top", "bar", "hat", "tilde", "pm", "approx"),
    *(
        "mathcal",
        "mathbb",
        "mathrm",
        "max",
        "min",
        "cos",
        "sin",
        "in",
        "partial",
        "dot",
        "pi",
        "xi",
    ),
    *("Sigma", "Lambda", "Omega", "omega", "varepsilon", "zeta", "chi", "odot", "otimes", "propto"),
    *("prod", "dots", "cdots", "perp", "circ", "ln"),
}
"""Commands of simple inline mathematics."""


def faults(text: str) -> list[str]:
    """What of an answer a reader of a page's first line would stumble over."""
    words = re.sub(r"\$[^$]*\$", "x", text)
    found = [name for name, pattern in REFUSED.items() if re.search(pattern, words)]
    found += ["LaTeX outside dollars"] if re.search(r"[\\$^{}]", words) else []
    commands = set(re.findall(r"\\([A-Za-z]+)", text)) - COMMANDS
    return found + ([f"LaTeX beyond simple mathematics: {sorted(commands)}"] if commands else [])


def test_no_answer_makes_a_reader_stumble():
    found = {claim: told for claim, text in ANSWERS.items() if (told := faults(text))}
    assert not found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("True of every $\\tau>0$: the loss falls.", []),
        ("True, as acl/thm5 has it.", ["an id"]),
        ("True where p_tail is 1.", ["a name of a field or file"]),
        ("True in 60 draws.", ["a word of our own"]),
        ("It falls to {=low:.2f}.", ["a number left open", "LaTeX outside dollars"]),
        ("The gap is 3e-14.", ["e-notation"]),
        ("The claim holds.", ["what fits any claim"]),
        ("True.", ["what fits any claim"]),
        ("True of \\alpha.", ["LaTeX outside dollars"]),
        ("$\\begin{x}$ is 1.", ["LaTeX beyond simple mathematics: ['begin']"]),
    ],
)
def test_what_makes_a_reader_stumble_is_named(text, told):
    assert faults(text) == told


def test_no_answer_fits_two_claims():
    assert [text for text, count in Counter(ANSWERS.values()).items() if count > 1] == []


WRONG = re.compile(
    r"\b(as printed|prints?|printed|False|false|[Nn]ot|needs?|only|misses|missing|should|must)\b"
)
"""Words of an answer that tells of an error."""


SLIP = re.compile(
    r"\b(misprint(s|ed)?|corrected|restored|lacks?|slips?|must|is printed|printed as)\b"
)
"""Words of an answer that tells of a misprint."""


def test_an_answer_tells_of_the_misprint_but_for_which_it_is_true():
    for claim, text in ANSWERS.items():
        row = findings.known()[claim]
        slips = any("misprint" in part for part in row.get("parts", {}).values())
        assert row["verdict"] != "holds" or not slips or SLIP.search(text), claim


def test_an_answer_is_in_step_with_its_verdict():
    for claim, text in ANSWERS.items():
        verdict = findings.known()[claim]["verdict"]
        if verdict in ("corrected", "refuted"):
            assert WRONG.search(text), f"{claim}: its answer does not tell of the error"
        else:
            assert not re.search(r"[Ff]alse as printed", text), f"{claim}: {verdict}"
