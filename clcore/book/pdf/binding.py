"""Printed pages bound to a book: title page, contents with page numbers, numbers at the foot of
each sheet, bookmarks, links inside of the book."""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from clcore import ledger
from clcore.ledger.html import render

CREATOR = "clcore"
"""In the metadata of a printed book: by it one is known that may be written over."""
TITLE = "Contrastive Learning, Executed"
AUTHOR = "The clcore authors"
_TO = "https://page.invalid/"
"""How a link of the contents gives its page, until it is a page of the book."""


@dataclass(frozen=True)
class Part:
    """A printed page of the site: its address there, its title, its PDF."""

    address: str
    title: str
    printed: bytes


def bound(parts: list[Part], book: dict | None, paper: Callable[[str], bytes]) -> bytes:
    """The PDF of a book. book: the site's description of its build. paper: prints HTML on A4
    sheets without margins."""
    from pypdf import PdfReader, PdfWriter

    readers = [PdfReader(io.BytesIO(part.printed)) for part in parts]
    front, before = _front(parts, readers, book, paper)
    made = PdfWriter()
    made.append(front, import_outline=False)
    made.add_outline_item(title="Contents", page_number=1)
    starts = {}
    for part, reader in zip(parts, readers, strict=True):
        first = starts[part.address] = len(made.pages)
        made.append(reader, import_outline=False)
        top = made.add_outline_item(title=part.title, page_number=first)
        for title, at in _sections(reader):
            made.add_outline_item(title=title, page_number=first + at, parent=top)
    _link(made, starts, before)
    _number(made, parts, starts, before, paper)
    made.add_metadata(_metadata(book))
    file = io.BytesIO()
    made.write(file)
    return file.getvalue()


def _metadata(book: dict | None) -> dict[str, str]:
    """Title, author, subject and keywords, which a reader of PDFs shows and a library indexes."""
    said = {"/Title": TITLE, "/Author": AUTHOR, "/Creator": CREATOR}
    said["/Subject"] = "Papers on contrastive and non-contrastive learning, every claim checked"
    said["/Keywords"] = "contrastive learning, InfoNCE, self-supervised learning, reproducibility"
    if book:
        commit, profile = book.get("commit", "unknown"), book.get("profile", "")
        said["/Subject"] += f"; commit {commit}, profile {profile}"
    return said


def _front(
    parts: list[Part], readers: list[Any], book: dict | None, paper: Callable[[str], bytes]
) -> tuple[Any, int]:
    """Title page and contents, and how many sheets they take: the contents have page numbers, which
    begin after them, so they are set twice if that number differs from the expected one."""
    from pypdf import PdfReader

    expected = 2
    while True:
        entries, at = [], expected + 1
        for part, reader in zip(parts, readers, strict=True):
            lines = [("chapter", part.title, at)]
            lines += [("section", title, at + below) for title, below in _sections(reader)]
            entries += [
                {"kind": kind, "title": title, "page": page, "address": f"{_TO}{page}"}
                for kind, title, page in lines
            ]
            at += len(reader.pages)
        papers = [f"{known['authors']}. {known['title']}" for known in ledger.papers().values()]
        about = {"title": TITLE, "author": AUTHOR, "papers": papers, "book": book}
        html = render("clcore.book.pdf", "front.html", entries=entries, **about)
        found = PdfReader(io.BytesIO(paper(str(html))))
        if len(found.pages) == expected:
            return found, expected
        expected = len(found.pages)


def _sections(reader: Any) -> Iterator[tuple[str, int]]:
    """Title and place of the headings below a page's title, of its outline."""
    for entry in reader.outline:
        if isinstance(entry, list):
            for below in entry:
                if not isinstance(below, list) and below.title.strip(" #¶"):
                    page = reader.get_destination_page_number(below)
                    yield below.title.strip(" #¶"), max(page or 0, 0)


def _link(made: Any, starts: dict[str, int], before: int) -> None:
    """Let links go to pages of this book where they can; others to the site that was printed lead
    nowhere on paper, and go."""
    from pypdf.generic import ArrayObject, DictionaryObject, NameObject

    for number, sheet in enumerate(made.pages):
        kept = ArrayObject()
        for reference in sheet.get("/Annots", ()):
            note = reference.get_object()
            target = note.get("/A", {}).get("/URI") if "/A" in note else None
            to = _page_of(str(target), starts, contents=number < before) if target else None
            if to == -1:
                continue
            if to is not None:
                where = ArrayObject([made.pages[to].indirect_reference, NameObject("/Fit")])
                action = {NameObject("/S"): NameObject("/GoTo"), NameObject("/D"): where}
                note[NameObject("/A")] = DictionaryObject(action)
            kept.append(reference)
        if "/Annots" in sheet:
            sheet[NameObject("/Annots")] = kept


def _page_of(target: str, starts: dict[str, int], contents: bool) -> int | None:
    """The sheet that an address is on; -1 for a page of the site that was not printed, None for an
    address elsewhere."""
    if contents and target.startswith(_TO):
        return int(target.removeprefix(_TO)) - 1
    parts = urlsplit(target)
    if parts.hostname != "127.0.0.1":
        return None
    return starts.get(parts.path.strip("/").removesuffix(".html"), -1)


def _number(
    made: Any,
    parts: list[Part],
    starts: dict[str, int],
    before: int,
    paper: Callable[[str], bytes],
) -> None:
    """Put title and page number at the foot of every sheet behind the contents."""
    from pypdf import PdfReader

    feet, ends = [], [*list(starts.values())[1:], len(made.pages)]
    for part, first, end in zip(parts, starts.values(), ends, strict=True):
        feet += [{"title": part.title, "page": number + 1} for number in range(first, end)]
    over = PdfReader(io.BytesIO(paper(str(render("clcore.book.pdf", "feet.html", feet=feet)))))
    if len(over.pages) != len(feet):
        raise ValueError(f"expected {len(feet)} sheets of page numbers, got {len(over.pages)}")
    for sheet, foot in zip(list(made.pages)[before:], over.pages, strict=True):
        sheet.merge_page(foot)
