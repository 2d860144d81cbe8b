"""The content of a claim's page, in the order of a reader's questions: is it true and how sure is
that, where is it explained, what is claimed, what is wrong with it, what was measured."""

import re
from functools import cache
from pathlib import Path

from markupsafe import Markup

from clcore import _paths, ledger
from clcore._files import read_notebook
from clcore.book.site import code, statements
from clcore.book.site.claims.lines import blocks, names
from clcore.book.site.claims.linker import Linker
from clcore.book.site.claims.machines import citation, proof
from clcore.book.site.claims.printed import tables
from clcore.book.site.errata import MEANING
from clcore.book.site.fragments import page_of, render
from clcore.ledger import findings, rungs
from clcore.ledger import map as claim_map
from clcore.ledger.written.paragraphs import Lines

ANSWERS = {
    "holds": "True as printed.",
    "corrected": "False as printed; true after a correction.",
    "refuted": "False as printed, and no correction is known.",
    "reproduced": "Reproduced with the paper's own sizes and number of seeds.",
    "depends": "Depends on a setting that the paper leaves open.",
    "differs": "Not reproduced under any reading of the paper that we tried.",
    "partial": "Only run at a smaller size than the paper's, which settles nothing.",
    "blocked": "Could not be run here.",
    "todo": "Not checked yet.",
}
"""The answer of a verdict, where nobody has written one for the claim."""

CERTAINTY = {
    "proved": "Proved by computer algebra",
    "certified": "Certified by interval arithmetic",
    "sampled": "Tested on random inputs",
    "trained": "Tested by training",
    "definition": "A definition: there is nothing to prove",
}
NEEDS = {
    "gpu": "a GPU",
    "cifar10": "the data set CIFAR-10",
    "stl10": "the data set STL-10",
    "mnist": "the data set MNIST",
    "imagenet": "the data set ImageNet",
}
_LABEL = re.compile(r"^:label: ([\w-]+)\s*$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.;:]) +(?=[A-Z“])")
_DIGITS = re.compile(r"-?\d+(\.\d+)?")
_NUMBER = re.compile(r"\d+(\.\d+)?(?= )")


def answer(row: dict) -> str:
    """The answer in a sentence: what a person wrote for this verdict, else the verdict in words.

    row: of the ledger. A sentence written for another verdict than this build's is not shown.
    """
    known = findings.known()[row["id"]]
    if known["verdict"] == row["verdict"] and known.get("in_short"):
        return known["in_short"]
    if row["care"]:
        return "True if read with care: see the correction or addition below."
    return ANSWERS[row["verdict"]]


def certainty(row: dict) -> str:
    """How sure that is, in words; "" for a row that nothing has checked."""
    if not row["rung"]:
        return ""
    where = {"proved": ", for small sizes", "certified": ", in the cases that its parts name"}
    return CERTAINTY[row["rung"]] + (where.get(row["rung"], "") if rungs.limited(row) else "")


def explained(row: dict, book: dict) -> dict[str, str] | None:
    """Where a chapter explains a claim: address from the site's root, and "chapter 5.1" with its
    title; None where no chapter of this build has it. The box of the statement comes before the
    cell that checks it."""
    titles = {chapter["name"]: chapter["title"] for chapter in book["chapters"]}
    name = row["notebook"]
    if name not in titles:
        return None
    title = titles[name]
    number = _NUMBER.match(title)
    label = _labels(_paths.root() / "chapters" / f"{name}.ipynb").get(row["id"])
    address = f"chapters/{name}.html#{label}" if label else row["anchor"]
    said = f"chapter {number[0]}" if number else title
    return {
        "address": address,
        "name": said,
        "title": title[number.end() :].strip() if number else "",
    }


@cache
def _labels(notebook: Path) -> dict[str, str]:
    """Claim -> label of the box that states it in a chapter."""
    if not notebook.is_file():
        return {}
    text = "\n".join("".join(c["source"]) for c in read_notebook(notebook)["cells"])
    found = ((statements.named(label)[1], label) for label in _LABEL.findall(text))
    return {claim: label for claim, label in found if claim}


def bodies(rows: list[dict], book: dict) -> dict[str, str]:
    """Address from the site's root -> text: of every claim the body of its page, which
    `frame.wrap` puts into the book's frame.

    rows: every claim with its verdict (`ledger.rows`). book: the build's summary.
    """
    verdicts = {row["id"]: row["verdict"] for row in rows}
    return {page_of(row["id"]): str(_body(row, verdicts, book)) for row in rows}


def _body(row: dict, verdicts: dict[str, str], book: dict) -> Markup:
    claim, printed = row["id"], ledger.claims()[row["id"]]
    parts, lines = _parts(row)
    return render(
        "claim.html",
        row=row,
        answer=answer(row),
        certainty=certainty(row),
        grade=MEANING.get(row["grade"] or "", ""),
        explained=explained(row, book),
        linked=Linker("..", own=claim),
        errors=_said(row, ("counterexample", "correction")),
        parts=parts,
        names=names(lines, row["paper"]),
        needs=[NEEDS.get(name, name) for name in row["needs"]],
        verdicts=verdicts,
        steps=findings.steps(claim),
        claims=ledger.claims(),
        uses=printed.get("uses", {}),
        rests_on=claim_map.rests_on(claim),
        used_by=claim_map.used_by(claim),
        paper=ledger.papers()[row["paper"]],
        tested=code.tested(claim),
        recorded=_recorded(row),
        certificate=code.certificate(claim),
        proof=proof(row),
        citation=citation(row, book),
        withdrawn=findings.known()[claim].get("withdrawn"),
        beside=findings.LEFT_OPEN,
        tables=tables(printed["numbers"]),
    )


def _recorded(row: dict) -> list[str]:
    """The folders of the recorded runs that the chapter of a row reads, if there is such a one."""
    name = row["notebook"] or ""
    there = (_paths.root() / "chapters" / f"{name}.ipynb").is_file()
    return code.recorded_runs(name) if there else []


def _parts(row: dict) -> tuple[list[dict], list[Lines]]:
    """The parts of a claim, as they were begun: name, checks (of each form), and the lines that
    make them and bind what they use, each under the first part that has it; and all these lines."""
    found: dict[str, dict] = {}
    for check in row["checks"]:
        found.setdefault(check["part"], {"name": check["part"], "checks": []})
        found[check["part"]]["checks"].append(check)
    shown: dict[Lines, str] = {}
    for name, part in found.items():
        part["checks"] = _said_once(part["checks"])
        lines = code.of_part(row["id"], name)
        part["lines"] = blocks(((one, shown.setdefault(one, name)) for one in lines), row["paper"])
    return list(found.values()), list(shown)


def _said_once(checks: list[dict]) -> list[dict]:
    """The checks of a part, each note without the sentences that an earlier one has. A sentence
    that another note has with other numbers is a measurement, and stays."""
    notes = [_SENTENCE.split(check["note"]) for check in checks]
    numbers: dict[str, set[str]] = {}
    for sentence in {s for note in notes for s in note}:
        numbers.setdefault(_DIGITS.sub("#", sentence), set()).add(sentence)
    measured = {s for same in numbers.values() if len(same) > 1 for s in same}
    found, told = [], set()
    for check, note in zip(checks, notes, strict=True):
        left = " ".join(s for s in note if s not in told)
        found.append(check | {"note": re.sub("[;:]$", ".", left)})
        told |= set(note) - measured
    return found


def _said(row: dict, names: tuple[str, ...]) -> list[dict[str, str]]:
    """The checks' texts under these names: name, label, of (parts and settings), text. A text that
    parts share comes once. What lets a run pass that nothing refutes is no correction."""
    refuted = {c["part"] for c in row["checks"] if c["counterexample"]}

    def label(name: str, part: str) -> str:
        setting = name == "correction" and row["verdict"] == "differs" and part not in refuted
        return "Passes with" if setting else name.capitalize()

    told: dict[tuple[str, str, str], list[str]] = {}
    for c in row["checks"]:
        for name in names:
            if c[name]:
                of = "; ".join(filter(None, (c["part"], c["setting"])))
                told.setdefault((name, label(name, c["part"]), c[name]), []).append(of)
    return [
        {
            "name": name,
            "label": shown,
            "of": "; ".join(dict.fromkeys(filter(None, of))),
            "text": text,
        }
        for (name, shown, text), of in told.items()
    ]
