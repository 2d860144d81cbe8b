"""No page shows what only a program reads."""

import pytest

from clcore.book.build import legible

PAGE = '<head><title>1e-5</title></head><article class="bd-article">{}</article>'
TABLE = "<table><caption>Ends of runs</caption><tr><th>a</th><td>{}</td></tr></table>"


@pytest.mark.parametrize("bad", ["NaN", "nan", "None", "&lt;NA&gt;", "2e-05", "see `x`"])
def test_a_cell_is_named_with_its_table(bad):
    (told,) = legible.faults(PAGE.format(TABLE.format(bad)))
    assert told.startswith("table 'Ends of runs', cell '")


@pytest.mark.parametrize("good", ["none", "–", "10⁻⁵", "<code>1e-5</code>", "1.5", "Nancy"])
def test_what_people_read_is_let_through(good):
    assert legible.faults(PAGE.format(TABLE.format(good))) == []


def test_text_is_looked_at_and_code_and_formulas_are_not():
    page = PAGE.format(
        r"<p>about 5.2e-01</p><p>None of them, \(1e5\)</p><pre>1e-5 `x` nan</pre>"
        '<script>1e-5</script><p>x</p><span class="math">`</span>'
    )
    assert legible.faults(page) == ["text 'about 5.2e-01'"]
    assert legible.faults("<p>1e-5</p>") == [], "no page of the book"


def test_a_cell_is_written_as_people_write():
    table = "<td>5.2e-01</td><th>1e-12</th><td>see `x`</td><p>1e-12</p>"
    shown = "<td>0.52</td><th>10⁻¹²</th><td>see <code>x</code></td><p>1e-12</p>"
    assert legible.cells(table) == shown


def test_a_site_is_refused_by_page_and_cell_and_programs_are_not_looked_at(tmp_path):
    for name in ("book", "code", "_static"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.html").write_text(PAGE.format(TABLE.format("nan")), encoding="utf-8")
    with pytest.raises(legible.LegibleError) as told:
        legible.refuse(tmp_path)
    assert "book/a.html: table 'Ends of runs', cell 'nan'" in str(told.value)
    assert "code/a.html" not in str(told.value) and "_static" not in str(told.value)
    (tmp_path / "book" / "a.html").write_text(PAGE.format("<td>nan</td>" * 20), encoding="utf-8")
    with pytest.raises(legible.LegibleError, match="and 8 more"):
        legible.refuse(tmp_path)
    (tmp_path / "book" / "a.html").unlink()
    legible.refuse(tmp_path)
