"""The generated pages: right counts, escaped text, an anchor for every claim, honest errata."""

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest
from jinja2 import UndefinedError
from made_rows import SUMMARY, check, claim_page, row, todo, wrong

from clcore import _paths, ledger
from clcore.book import provenance
from clcore.book.build import planning, shown
from clcore.book.site import errata, fragments, markdown, pages
from clcore.experiments import golden
from clcore.ledger import VERDICTS, rows
from clcore.ledger.html import SHOWN
from clcore.ledger.tex import written


@pytest.mark.parametrize("verdict", VERDICTS)
def test_every_verdict_has_a_label_a_colour_and_a_row(verdict: str) -> None:
    html = fragments.ledger_row(row(verdict))
    assert f'<span class="cl-verdict cl-{verdict}">{SHOWN[verdict]}</span>' in html
    assert f'data-verdict="{verdict}"' in html
    css = (_paths.root() / "book" / "_static" / "ledger.css").read_text()
    assert css.count(f"--cl-{verdict}: #") == 2, "one colour in light, one in dark"
    assert f'cl-verdict cl-{verdict}"' in (_paths.root() / "book" / "index.md").read_text()


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _mixed(top: str, ground: str, share: float) -> str:
    pairs = [(int(top[i : i + 2], 16), int(ground[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


@pytest.mark.parametrize(("theme", "ground"), [(0, "#ffffff"), (1, "#121212")])
def test_verdicts_can_be_read(theme: int, ground: str) -> None:
    css = (_paths.root() / "book" / "_static" / "ledger.css").read_text()
    tint = int(re.findall(r"--cl-tint: (\d+)%", css)[theme]) / 100
    for verdict in VERDICTS:
        colour = re.findall(rf"--cl-{verdict}: (#\w+);", css)[theme]
        light, dark = sorted((_luminance(colour), _luminance(_mixed(colour, ground, tint))))[::-1]
        assert (light + 0.05) / (dark + 0.05) >= 4.5, verdict


def cells(html: str) -> dict[str, str]:
    found = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", html, re.DOTALL)
    return dict(zip(fragments.COLUMNS, found, strict=True))


def test_a_row_shows_every_column() -> None:
    html = fragments.ledger_row(row())
    head = fragments.ledger_table([row()]).split("<tbody")[0]
    assert re.findall(r">([^<]+)</th>", head) == list(fragments.COLUMNS)
    found = cells(html)
    text = {name: re.sub("<.*?>", "", cell).strip() for name, cell in found.items()}
    assert text == {
        "Claim": "acl/thm1 Descending is ascending",
        "Where": "Theorem 1",
        "Kind": "theorem",
        "Verdict": "holds sampled code",
        "Measured": "2·10⁻¹⁴ ≤ 10⁻¹⁰",
        "Control": "0.5, 1/2 dropped",
    }
    assert 'href="../chapters/1-a.html#claim-acl-thm1"' in found["Verdict"]
    assert 'href="../claims/acl-thm1.html"' in found["Claim"]


def test_a_cell_has_the_name_of_its_column_where_a_row_is_a_card() -> None:
    css = (_paths.root() / "book" / "_static" / "ledger.css").read_text()
    named = re.findall(r'td:nth-child\((\d)\)::before \{ content: "(\w+)"; \}', css)
    assert [(int(n), name) for n, name in named] == list(enumerate(fragments.COLUMNS, 1))[1:]


def test_a_row_without_checks_is_complete_and_links_nowhere() -> None:
    html = fragments.ledger_row(todo())
    assert html.count("<td") == len(fragments.COLUMNS) - 1
    assert "../chapters" not in html and "None" not in html
    assert '<tr id="acl-thm1"' in html


def test_text_from_claims_is_escaped() -> None:
    nasty = '<script>alert("1")</script> & $x<y$'
    html = claim_page(row(statement=nasty, where=nasty, conditions=nasty))
    assert "<script" not in html
    assert "&lt;script&gt;" in html and r"\(x&lt;y\)" in html
    found = {n: nasty for n in ("part", "note", "counterexample", "correction", "setting")}
    checks = [check(control={nasty: 1.0}, form="open", **found)]
    fields = {n: nasty for n in ("added", "blocked", "device", "kind", "chapter")}
    fields["open"] = {"unprinted": [nasty], "varied": {nasty: {nasty: nasty}}}
    slips = [{"part": nasty, "misprint": nasty}]
    every = row("refuted", misprints=slips, needs=[nasty], checks=checks, **fields)
    every |= {"grade": "proof", "root": "acl/thm1"}
    of_errata = "\n".join(errata.files([every]).values())
    for page in (claim_page(every), of_errata):
        assert "<script" not in page and page.count("&lt;script&gt;") >= 8
    assert 'data-chapter="&lt;script&gt;alert(&#34;1' in fragments.ledger_row(every)
    assert "<script" not in fragments.filters([every])
    titled = SUMMARY | {"chapters": [{**SUMMARY["chapters"][0], "title": nasty, "status": nasty}]}
    assert "<script" not in pages.build_record(titled) + pages.chapter_map([every], titled)


def test_formulas_in_cells_are_for_mathjax_at_once() -> None:
    html = fragments.ledger_row(row(control={"$x<y$": 0.5}, where="Eq. 1"))
    assert '<td class="mathjax_process">0.5, \\(x&lt;y\\)</td>' in html
    assert "<td>Eq. 1</td>" in html
    assert fragments.ledger_row(todo()).endswith('<td class="cl-none"></td>\n</tr>\n</tbody>')


def test_the_nearest_control_is_the_one_shown() -> None:
    html = fragments.ledger_row(row(control={"far": 9.0, "near": 0.01}))
    assert "<td>0.01, near (+1)</td>" in html
    html = fragments.ledger_row(row(control={"near": 0.01}))
    assert "<td>0.01, near</td>" in html


def test_totals_count_each_paper_and_verdict() -> None:
    some = [row(), row(paper="nl"), wrong(), todo(), todo(paper="nl"), todo(paper="nl")]
    html = fragments.totals_table(some, "ledger.html")
    numbers = {}
    for line in re.findall(r'<tr>\s*<th scope="row">(.*?)</tr>', html, re.DOTALL):
        name, *cells = re.sub("<.*?>", " ", line.replace("</th>", "|")).replace("|", " ").split()
        numbers[name] = [int(c) for c in cells if c.isdigit()]
    # acl, ddn, nl, ncl, all
    assert numbers["holds"] == [1, 0, 1, 0, 2]
    assert numbers["corrected"] == [1, 0, 0, 0, 1]
    assert numbers["not"] == [1, 0, 2, 0, 3]
    assert numbers["all"] == [3, 0, 3, 0, 6]
    assert 'href="ledger.html?paper=nl&amp;verdict=todo#claims"' in html
    assert '<a href="ledger.html#claims" aria-label="6: all papers, all verdicts">' in html


def test_the_front_page_says_how_much_is_open() -> None:
    text = pages.counts([row(), wrong(), todo(), todo()])
    assert "**2 of 4** claims have a verdict: 1 holds, 1 corrected." in text
    assert "The other 2 have not been checked yet." in text
    text = pages.counts([todo()])
    assert "**0 of 1** claims have a verdict.\n" in text


def test_write_pages_writes_every_page_for_every_claim(tmp_path: Path) -> None:
    every = list(rows([]))
    pages.write_pages(every, tmp_path, SUMMARY)
    page = (tmp_path / "book" / "ledger.md").read_text()
    ids = re.findall(r'<tr id="([^"]+)"', page)
    assert ids == [r["id"].replace("/", "-") for r in every] and len(set(ids)) == len(
        ledger.claims()
    )
    assert page.count("not yet checked</span>") == len(every) + 1
    for name in (
        *("errata.md", "errata/acl.md", "errata/ncl.md", "licences.md"),
        "_generated/counts.md",
        "_generated/chapters.md",
        "_generated/golden.md",
    ):
        assert (tmp_path / "book" / name).read_text()
    record = (tmp_path / "book" / "_generated" / "build.md").read_text()
    assert "One &amp; all" in record and "61 s" in record and "512 MiB" in record
    assert "None" not in record and "2000-01-02" in record


def test_the_programs_are_named_with_their_commits_and_every_exception_with_its_reason() -> None:
    found = golden.measured()
    text = pages.golden_table(golden.index()["programs"], found)
    assert "at `daec951c7a` and [facebookresearch/luckmatters](https://github.com" in text
    assert all(f"<code>{name}</code>" in text for name in golden.EXCEPTIONS)
    assert text.count("<tr>") == 1 + 3 + len(golden.EXCEPTIONS)
    assert '<th scope="row">Pokle et al. 2022</th>' in text
    largest = max(r["loss"] for n, r in found.items() if n not in golden.EXCEPTIONS)
    assert f"{written(f'{largest:.0e}')}</td>" in text and text.count(">10⁻¹²</td>") == 3
    assert "the program holds the norm 1/10 as a float32" in text


def test_the_map_covers_every_group_of_claims() -> None:
    every = list(rows([]))
    assert {(r["paper"], r["chapter"]) for r in every} == {
        (paper, group) for paper, of in ledger.papers().items() for group in of["groups"]
    }
    text = pages.chapter_map([*every, row()], SUMMARY)
    assert '<a href="../chapters/1-a.html">One &amp; all</a>' in text
    assert "1 of 25" in text


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_missing_field_is_an_error(tmp_path: Path) -> None:
    broken = row()
    del broken["where"]
    with pytest.raises(UndefinedError, match="where"):
        pages.write_pages([broken], tmp_path, SUMMARY)


def test_repository_adds_links_and_leaves_the_configuration_alone() -> None:
    config = {"repository": {"url": "", "branch": "main"}, "html": {"favicon": "x"}}
    linked = pages.with_repository(config, "https://github.com/owner/name")
    assert linked["repository"] == {"url": "https://github.com/owner/name", "branch": "main"}
    assert linked["html"]["use_repository_button"] and linked["html"]["favicon"] == "x"
    assert set(linked["launch_buttons"]) == {"binderhub_url", "colab_url"}
    assert config == {"repository": {"url": "", "branch": "main"}, "html": {"favicon": "x"}}
    elsewhere = pages.with_repository(config, "https://gitlab.example/owner/name")
    assert set(elsewhere["launch_buttons"]) == {"binderhub_url"}


@pytest.mark.parametrize(
    "url",
    [
        *("", "github.com/owner/name", "http://a.b/c/d", "https://a.b/c", "https:///owner/name"),
        *("https://u:SECRET@a.b/c/d", "https://SECRET@a.b/c/d", "https://u:SECRET/@a.b/c/d"),
        *("https://a.b/c/d\n", "https://a.b/c/d\nx", 'https://a.b/c/d"><script>x</script>'),
        *("https://a.b/c/d?x=y", "https://a.b/c/d#x", "https://a.b/c/'d'", "https://a.b/c/d e"),
    ],
)
def test_repository_refuses_what_is_no_address(url: str) -> None:
    with pytest.raises(ValueError, match=r"address of a repository.*CLCORE_REPOSITORY") as told:
        provenance.address(url)
    assert "SECRET" not in str(told.value)


@pytest.mark.parametrize("url", ["https://a.b/c/d", "https://a.b:8080/~c/group/d.e_f-1.git"])
def test_repository_takes_what_is_one(url: str) -> None:
    assert provenance.address(f"{url}/") == provenance.address(url) == url


def test_text_cannot_end_the_part_of_a_page_that_it_stands_in() -> None:
    text = "a\n````\n```` {raw} html\n:file: /etc/hostname\n````\n`````\nb"
    for made in (markdown.raw(text), markdown.fenced("text", text)):
        fence, *lines = made.rstrip("\n").splitlines()
        ticks = len(fence) - len(fence.lstrip("`"))
        assert lines[-1] == "`" * ticks
        assert all(not line.startswith("`" * ticks) for line in lines[:-1])
    assert markdown.raw(":file: /etc/hostname").splitlines()[1] == "", "not an option of raw"


def test_an_error_cannot_end_its_part_of_a_failed_chapters_page() -> None:
    notebook = _paths.root() / "chapters" / "0-start-here.ipynb"
    run = planning.Run(notebook.stem, notebook, {}, status="failed")
    run.outcome = {"error": "e\n```\n\n<script>window.XSS = 8</script>\n````\n"}
    _, content = shown.page(run, [])
    fence, inside = content.decode().split("text\n", 1)
    ticks = "`" * (len(fence) - len(fence.rstrip("`")))
    assert "<script>" in inside and len(ticks) == 5
    assert inside.index("<script>") < inside.index(f"\n{ticks}\n")


def test_names_on_the_notation_page_exist() -> None:
    text = (_paths.root() / "book" / "notation.md").read_text()
    names = re.findall(r"`([a-z_.]+)\.(\w+)`", text)
    assert len(names) >= 16
    for module, name in names:
        resolve_name(f"clcore.{module}.{name}")  # raises where there is none


def test_a_title_stands_once_in_its_paper():
    titles = [(r["paper"], r["title"]) for r in ledger.claims().values()]
    assert len(titles) == len(set(titles))
