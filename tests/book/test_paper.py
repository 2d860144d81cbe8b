"""The book on paper, from small pages made here: one scale, page numbers, contents, no gaps."""

import importlib
import io
import json
from collections import Counter

import pytest
from pypdf import PdfReader
from typer.testing import CliRunner

from clcore import _folders
from clcore.__main__ import app
from clcore.book import browser, pdf
from clcore.book.pdf import binding, layout

SVG = "xmlns='http://www.w3.org/2000/svg'"
PICTURE = f"<svg {SVG} viewBox='0 0 400 400'><rect width='400' height='400'/></svg>"
WORDS = "<p>" + "wordily " * 60 + "</p>"
WIDE = (
    "<table><tr>" + "".join(f"<td>columnar{k:02}</td>" for k in range(24)) + "</tr></table>"
    "<pre style='overflow:auto'>" + "programme " * 40 + "</pre>"
    "<div style='width:1500px;background:#eee'><img alt='x' width='1500' height='300' "
    f"src=\"data:image/svg+xml,<svg {SVG} width='1500' height='300'/>\"></div>"
)
TALL = "".join(f"<figure style='break-inside:avoid'>{PICTURE}</figure>{WORDS}" for _ in range(5))
EMPTY = "<section><h2>Nothing here</h2><details><summary>code</summary>x</details></section>"
BODIES = {
    "book/index": f"<h1>The front</h1>{WORDS}",
    "chapters/0-start-here": f"<h1>0 The oldest</h1>{WORDS}<section><h2>A section</h2>{WORDS}"
    "<p><a href='1-minmax.html#x'>next</a> <a href='../book/ledger.html'>gone</a> "
    f"<a href='https://example.org/'>far</a></p></section>{EMPTY}",
    "chapters/1-minmax": f"<h1>1.1 The wide</h1>{WORDS}<section><h2>Too wide</h2>{WIDE}{WORDS}"
    f"</section><section><h2>Tall</h2>{TALL}</section>",
}
PAGE = """<!DOCTYPE html><html><head><meta charset="utf-8"><title>t</title><style>
body {{ margin: 0; font: 16px/1.5 sans-serif; }} td {{ white-space: nowrap; }}
figure {{ margin: 0; }} figure svg {{ width: 100%; }}</style></head>
<body><article class="bd-article"><section>{body}</section></article></body></html>"""


@pytest.fixture(scope="module")
def book(chromium, tmp_path_factory):
    """Three pages, printed and bound."""
    folder = tmp_path_factory.mktemp("paper") / "build"
    for address, body in BODIES.items():
        page = folder / "html" / f"{address}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(PAGE.format(body=body))
    (folder / "html" / "index.html").write_text("a site")
    made = {"commit": "0123456789abcdef", "profile": "smoke", "built": "2026-11-27"}
    (folder / "html" / "site.json").write_text(json.dumps(made))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLCORE_BUILD", str(folder))
        only = ["index", "0-start-here", "1-minmax"]
        out = pdf.write(folder / "book.pdf", only=only)
        return PdfReader(io.BytesIO(out.read_bytes()))


def starts(book):
    return [book.get_destination_page_number(e) for e in book.outline if not isinstance(e, list)]


def sizes(page):
    """Height -> letters of a sheet that are set so high, in points, but for its foot."""
    found = Counter()

    def seen(text, cm, tm, font, size):
        y = tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
        if "wordily" in text and y > 60:
            found[round(abs(cm[3] * tm[3]) * size, 2)] += len(text)

    page.extract_text(visitor_text=seen)
    return found


def test_text_has_one_size_where_a_page_has_something_wide(book):
    seen = Counter()
    for page in book.pages:
        seen += sizes(page)
    assert len(seen) == 1 and sum(seen.values()) > 2000, seen
    (height,) = seen
    assert height == pytest.approx(16 * 0.75 * layout.SCALE, rel=0.01)
    text = "".join(page.extract_text() for page in book.pages)
    assert "columnar23" in text, "the last column is on the paper"


def test_sheets_are_numbered_through_and_the_contents_say_where(book):
    first, *rest = starts(book)
    assert first == 1 and len(rest) == 3
    texts = [page.extract_text() for page in book.pages]
    for number, text in enumerate(texts[rest[0] :], rest[0] + 1):
        assert str(number) in text.split(), "title and number at the foot"
    contents = " ".join(texts[1 : rest[0]]).split()
    for title, at in (("front", rest[0]), ("oldest", rest[1]), ("wide", rest[2])):
        assert contents[contents.index(title) + 1] == str(at + 1)
    below = [e.title for entry in book.outline if isinstance(entry, list) for e in entry]
    assert below == ["A section", "Too wide", "Tall"], "and none that has nothing below it"
    assert "Nothing here" not in "".join(texts)


def test_a_title_page_and_metadata(book):
    said = book.metadata
    assert (said.title, said.author, said.creator) == (binding.TITLE, binding.AUTHOR, pdf.CREATOR)
    assert "0123456789abcdef" in said.subject and "smoke" in said.subject
    text = book.pages[0].extract_text()
    assert binding.TITLE in " ".join(text.split()) and "0123456789ab" in text
    assert "Yuandong Tian, 2022." in " ".join(text.split())


def test_links_stay_in_the_book(book):
    first = starts(book)
    sheets = {page.indirect_reference.idnum: k for k, page in enumerate(book.pages)}
    to, far = [], []
    for page in book.pages:
        for note in page.get("/Annots", ()):
            action = note.get_object()["/A"]
            if action["/S"] == "/GoTo":
                target = action["/D"][0]
                to.append(sheets[getattr(target, "idnum", None) or target.indirect_reference.idnum])
            else:
                far.append(str(action["/URI"]))
    assert far == ["https://example.org/"]
    assert set(first[1:]) <= set(to) and to[-1] == first[3], "contents, and from a chapter"


def test_no_sheet_but_the_last_of_a_chapter_is_half_empty(book):
    ends = {*(at - 1 for at in starts(book)), len(book.pages) - 1}
    begins = starts(book)[1]
    for number, page in enumerate(book.pages):
        if number < begins or number in ends:
            continue
        lowest = []

        def seen(text, cm, tm, font, size, lowest=lowest):
            y = tm[5] * cm[3] + cm[5]
            if text.strip() and y > 60:
                lowest.append(y)

        page.extract_text(visitor_text=seen)
        assert min(lowest) < 842 * (layout.TALLEST + 0.12), f"sheet {number + 1}"


def test_a_page_that_the_site_lacks_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path))
    (tmp_path / "html" / "book").mkdir(parents=True)
    for name in ("index", "book/index"):
        (tmp_path / "html" / f"{name}.html").write_text("<h1>here</h1>")
    monkeypatch.setattr(browser, "apart", lambda _: b"printed")
    with pytest.raises(FileNotFoundError, match=r"expected chapters/1-minmax in .*make book"):
        pdf.write(tmp_path / "book.pdf", only=["index", "1-minmax"])
    assert pdf.write(tmp_path / "book.pdf", only=["index"]).read_bytes() == b"printed"


def test_no_file_of_the_build_is_written_over_but_the_book(tmp_path, monkeypatch):
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path))
    ledger, book = tmp_path / "ledger.json", tmp_path / "book.pdf"
    for file in (ledger, book):
        file.write_text("made before")
    with pytest.raises(_folders.NotOurs, match="expected no file at"):
        pdf.write(ledger)
    with pytest.raises(FileNotFoundError, match="no site"):
        pdf.write(book)


def test_decks_are_printed_by_name_and_in_a_folder_of_ours_alone(tmp_path, monkeypatch):
    def printed(made):
        return made()

    monkeypatch.setattr(browser, "apart", printed)
    decks = importlib.import_module("clcore.book.pdf.decks")  # a function hides it
    monkeypatch.setattr(decks, "_printed", lambda folder, names: [b"pdf" for _ in names])
    slides = tmp_path / "course" / "slides"
    slides.mkdir(parents=True)
    for name in ("index", "start", "minmax"):
        (slides / f"{name}.html").write_text("slides")
    with pytest.raises(FileNotFoundError, match="no slides in"):
        pdf.decks(slides)
    _folders.mark(slides)
    assert [file.name for file in pdf.decks(slides)] == ["minmax.pdf", "start.pdf"]
    with pytest.raises(ValueError, match="expected sessions of minmax, start; got none"):
        pdf.decks(slides, ["none"])
    (slides / "minmax.pdf").unlink()
    told = CliRunner().invoke(
        app, ["pdf", "--decks", "--only", "start", "--out", str(tmp_path / "course")]
    )
    assert told.exit_code == 0 and told.output.strip().endswith("start.pdf")
    assert not (slides / "minmax.pdf").exists()
