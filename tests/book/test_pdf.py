"""The book on paper."""

import io

import pytest
from pypdf import PdfReader, PdfWriter

from clcore import _folders
from clcore.book import browser, build, course, pdf


@pytest.fixture
def built(site, monkeypatch):
    """The site under test as the last build."""
    monkeypatch.setenv("CLCORE_BUILD", str(site.parent))


def printed(path):
    return PdfReader(io.BytesIO(path.read_bytes()))


@pytest.mark.usefixtures("chromium")
def test_folded_parts_are_printed_by_choice(built, tmp_path):
    made = {}
    for folds in pdf.FOLDS:
        made[folds] = printed(pdf.write(tmp_path / f"{folds}.pdf", folds, ["0-start-here"]))
    text = {folds: "".join(p.extract_text() for p in book.pages) for folds, book in made.items()}
    assert made["open"].metadata.creator == pdf.CREATOR, "by which it may be written over"
    top = [entry.title for entry in made["closed"].outline if not isinstance(entry, list)]
    assert top == ["Contents", "0 Start here: contrastive learning in twenty minutes"]
    assert "find your partner" in text["closed"].replace("ﬁ", "fi")
    assert all(
        "The numbers behind the frames" not in t for t in (text["closed"], text["solutions"])
    )
    assert len(made["open"].pages) > len(made["closed"].pages) > 3
    solved = {
        folds: "Thepartnergetsprobability" in "".join(told.split()) for folds, told in text.items()
    }
    assert solved["solutions"] and not solved["closed"]
    code = {folds: "importmatplotlib" in "".join(told.split()) for folds, told in text.items()}
    assert code == {"open": True, "closed": False, "solutions": False}


@pytest.mark.usefixtures("chromium")
def test_a_deck_is_printed_a_slide_a_page(built, tmp_path):
    course.make(tmp_path, ["start"])
    (made,) = pdf.decks(tmp_path / "slides")
    deck = (tmp_path / "slides" / "start.html").read_text()
    slides = deck.count("<h1") + deck.count("<h2") + deck.count("<h3")
    assert made.name == "start.pdf" and len(printed(made).pages) == slides
    with pytest.raises(FileNotFoundError, match="run `make course`"):
        pdf.decks(tmp_path / "none")


def test_what_is_refused(built, tmp_path):
    with pytest.raises(ValueError, match="expected folds in open, closed, solutions; got 'all'"):
        pdf.write(tmp_path / "x.pdf", "all")
    with pytest.raises(ValueError, match=r"expected pages of index, .*0-start-here"):
        pdf.write(tmp_path / "x.pdf", only=["none"])


@pytest.mark.parametrize("creator", [None, "another program", pdf.CREATOR])
def test_a_file_of_somebodys_is_not_written_over(tmp_path, monkeypatch, creator):
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path / "none"))
    book, out = PdfWriter(), tmp_path / "thesis.pdf"
    book.add_blank_page(100, 100)
    if creator:
        book.add_metadata({"/Creator": creator})
    book.write(out)
    if creator == pdf.CREATOR:
        with pytest.raises(FileNotFoundError, match="no site"):
            pdf.write(out)
        out = tmp_path / "thesis.txt"
        out.write_text("mine")
    before = out.read_bytes()
    with pytest.raises(_folders.NotOurs, match=rf"expected no file at {out}, or a book"):
        pdf.write(out)
    assert out.read_bytes() == before


def test_without_a_site_or_a_browser(tmp_path, site, monkeypatch):
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="run `make book`"):
        pdf.write(tmp_path / "x.pdf")
    monkeypatch.setenv("CLCORE_BUILD", str(site.parent))
    monkeypatch.setattr(browser, "program", lambda: None)
    with pytest.raises(FileNotFoundError, match="apt-get install chromium"):
        pdf.write(tmp_path / "x.pdf")
    assert list(tmp_path.iterdir()) == []


def test_every_chapter_is_in_the_book():
    pages = pdf.pages()
    assert pages[0] == "book/index" and "chapters/6-dynamics" in pages
    chapters = [f"chapters/{name}" for name in build.chapters()]
    assert [page for page in pages if page.startswith("chapters/")] == chapters
