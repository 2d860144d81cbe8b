"""What a check tests, in its own words: the title of its claim, and its docstring's blocks.

    @check("nl/thm4")
    def thm4(t: Trial) -> None:
        \"\"\"Linear filters of one receptive field have co-linear gradients (Theorem 4).

        Given   what is drawn, and under which of the printed conditions.
        Claim   the printed statement: the two sides that are compared.
        Fails   what the controls change, and where the statement stops to hold.

        Anything else worth knowing, such as the second computation.
        \"\"\"

A check of runs has Protocol, Question and Refuted in place of the three.
"""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from clcore.ledger.printed import LedgerError, claim
from clcore.ledger.registry import Place

BLOCKS = {"draws": ("Given", "Claim", "Fails"), "runs": ("Protocol", "Question", "Refuted")}
"""The blocks of a check on draws and of one on runs, in their order."""


@dataclass(frozen=True)
class Statement:
    """The docstring of a check, taken apart.

    title: that of its claim; of several, joined by semicolons. where: the place in the paper, as it
    stands in parentheses behind the title, or "". blocks: name of a block -> its text in one line,
    in the order of `BLOCKS`. note: the paragraphs below the blocks, or "".
    """

    title: str
    where: str
    blocks: dict[str, str]
    note: str


def statement(docstring: str, titles: Sequence[str], on: str = "draws") -> Statement:
    """Take the docstring of a check apart.

    docstring: as `ast.get_docstring` gives it. titles: of the claims that it checks, in the order
    of its ids. on: "draws" or "runs". Raises LedgerError for a title that is not the row's, and for
    blocks that are missing, empty, repeated or out of order, each with the remedy.
    """
    head, _, rest = docstring.partition("\n\n")
    first, title = " ".join(head.split()), "; ".join(titles)
    found = re.fullmatch(rf"{re.escape(title)}(?: \((?P<where>.+)\))?\.", first)
    if not found:
        raise LedgerError(
            f"expected the docstring to begin with the title in data/claims, {title!r}, a place in "
            f"parentheses if any, and a full stop; got {first!r}; make them the same"
        )
    body, _, note = rest.partition("\n\n")
    return Statement(title, found["where"] or "", _blocks(body, BLOCKS[on]), note)


def _blocks(body: str, names: tuple[str, ...]) -> dict[str, str]:
    begins = rf"^({'|'.join(names)})\b *"
    above, *pieces = re.split(begins, body, flags=re.MULTILINE)
    found = list(zip(pieces[::2], (" ".join(p.split()) for p in pieces[1::2]), strict=True))
    if [name for name, text in found if text] != [*names] or above.strip():
        missing = [name for name in names if not dict(found).get(name)]
        told = f"missing: {', '.join(missing)}" if missing else "got others beside them"
        raise LedgerError(
            f"expected the blocks {', '.join(names)} below the title, once each and in this order, "
            f"with no blank line between them; {told}; see "
            "clcore/ledger/written/statements.py for the form"
        )
    return dict(found)


def of(place: Place) -> Statement:
    """The statement of a check, read from its source: nothing is imported. Raises LedgerError that
    begins with file, line and name for what `statement` refuses, and for no docstring at all."""
    (function,) = ast.parse(place.source).body
    assert isinstance(function, ast.FunctionDef)
    titles = [claim(i)["title"] for i in place.claims]
    try:
        return statement(ast.get_docstring(function) or "", titles, place.on)
    except LedgerError as error:
        raise LedgerError(f"{place.path}:{place.first} {place.name}: {error}") from None
