"""The pages that are made from results: the ledger, the errata, the counts on the front page."""

import copy
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

from clcore._files import write_atomic
from clcore.book import course
from clcore.book.site import checked, errata, fragments, letters, licences, survives, terms
from clcore.book.site.markdown import raw
from clcore.experiments import golden
from clcore.ledger import VERDICTS, papers
from clcore.ledger.html import several


def write_pages(rows: list[dict], stage: Path, summary: dict) -> None:
    """Write the generated pages into the staging folder `stage`, under book/.

    rows: every claim with its verdict (`clcore.ledger.rows`), in ledger order. summary: profile,
    device, built (ISO date), repository (URL or None) and chapters, a list of dicts with name,
    title, status, seconds and peak_mib (None where the chapter did not finish).

    Raises KeyError or jinja2.UndefinedError when a row lacks a field that the pages show,
    ValueError when data/golden, data/mutants or data/seeds.json is damaged.
    """
    book = Path(stage) / "book"
    pages = {
        "ledger.md": ledger_page(rows, summary),
        "glossary.md": terms.page(),
        "licences.md": licences.page(),
        "_generated/counts.md": counts(rows),
        "_generated/chapters.md": chapter_map(rows, summary),
        "_generated/build.md": build_record(summary),
        "_generated/golden.md": golden_table(golden.index()["programs"], golden.measured()),
    }
    pages |= course.pages() | errata.files(rows) | survives.files(rows) | letters.files(rows)
    pages |= checked.files()
    for name, text in pages.items():
        write_atomic(book / name, text.encode())


def with_repository(config: dict, url: str) -> dict:
    """A copy of the Jupyter Book configuration with links to the repository at `url`.

    Binder gets a launch button, and Colab where the host is github.com.
    url: as `provenance.address` gives it.
    """
    config = copy.deepcopy(config)
    config["repository"] = {**config.get("repository", {}), "url": url}
    config.setdefault("html", {}).update(use_repository_button=True, use_issues_button=True)
    config["launch_buttons"] = {"binderhub_url": "https://mybinder.org"}
    options = config.setdefault("sphinx", {}).setdefault("config", {})
    options["cl_branch"] = config["repository"].get("branch", "main")
    if urlsplit(url).hostname == "github.com":
        config["launch_buttons"]["colab_url"] = "https://colab.research.google.com"
    return config


def with_foot(config: dict, summary: dict) -> dict:
    """A copy of the configuration in which every page ends with commit, profile and date."""
    config = copy.deepcopy(config)
    options = config["sphinx"]["config"]
    options["cl_commit"] = summary["commit"]
    foot = fragments.render("foot.html", summary=summary)
    options.setdefault("html_theme_options", {})["extra_footer"] = str(foot)
    return config


# ------------------------------------------------------------------------------------ the pages


def ledger_page(rows: list[dict], summary: dict) -> str:
    """The page book/ledger: totals, filters and all claims."""
    return f"""---
html_theme.sidebar_secondary.remove: true
---
# Ledger

Every numbered statement, figure and table of the five papers, with its result in this build.
A verdict is computed from recorded checks, never typed: see [how to read it](verdicts). Follow a
verdict to the cell that produced it; open a statement, here or by its id on its own page, to see
the claim, its conditions and all its checks. "Measured" is the worst value over
the draws against its bound, mostly a relative error $\\leq 10^{{-10}}$; "control" is the same
measurement on a version that must fail, and did: in every draw, or in the share of draws given
next to it. "code" leads to the source of the check. A statement "rests on" the rows that it
is stated with and proved from, as we read the paper's proofs; titles are ours. To download all of
this, take <a href="../claims.json">claims.json</a>, described by
<a href="../claims.schema.json">its schema</a>.

{raw(fragments.totals_table(rows, "ledger.html"))}
{_built(summary)}

{raw(fragments.filters(rows) + fragments.ledger_table(rows))}"""


def _built(summary: dict) -> str:
    return f"Built on {summary['built']}, profile `{summary['profile']}`, on {summary['device']}."


def counts(rows: list[dict]) -> str:
    """For the front page: how many claims have which verdict, in words and as a table."""
    count = Counter(row["verdict"] for row in rows)
    done = len(rows) - count["todo"]
    found = ", ".join(f"{count[v]} {several(v, count[v])}" for v in VERDICTS[:-1] if count[v])
    found = f": {found}" if found else ""
    found += f". Of the claims that need no correction, {fragments.held(rows)}" if found else ""
    rest = f"The other {count['todo']} have not been checked yet." if count["todo"] else ""
    return f"""In this build **{done} of {len(rows)}** claims have a verdict{found}.
{rest}

{raw(fragments.totals_table(rows, "ledger.html"))}"""


def chapter_map(rows: list[dict], summary: dict) -> str:
    """For the front page: the subject of each group of claims, and the chapter that checks it."""
    titles = {chapter["name"]: chapter["title"] for chapter in summary["chapters"]}
    groups = []
    every = [(p, *group) for p, paper in papers().items() for group in paper["groups"].items()]
    for paper, chapter, about in every:
        group = [r for r in rows if (r["paper"], r["chapter"]) == (paper, chapter)]
        used = {r["notebook"] for r in group if r["notebook"]}
        names = [n for n in titles if n in used] + sorted(used - set(titles))
        groups.append(
            {
                "paper": paper,
                "cite": papers()[paper]["cite"],
                "chapter": chapter,
                "about": about,
                "notebooks": {name: titles.get(name, name) for name in names},
                "done": sum(r["verdict"] != "todo" for r in group),
                "claims": len(group),
            }
        )
    return raw(fragments.render("chapters.html", groups=groups))


def build_record(summary: dict) -> str:
    """For the page on re-running: what this build took, chapter by chapter."""
    table = fragments.render("build.html", chapters=summary["chapters"])
    return f"{_built(summary)}\n\n{raw(table)}"


def golden_table(programs: dict[str, dict], found: dict[str, dict]) -> str:
    """For the page on the authors' programs: their commits, and how close ours came, one row per
    family and per exception. programs, found: `golden.index`, `golden.measured`."""
    links = [f"[{p['repository'].split('/', 3)[-1]}]({p['repository']})" for p in programs.values()]
    commits = [f"`{program['commit'][:10]}`" for program in programs.values()]
    told = " and ".join(f"{a} at {b}" for a, b in zip(links, commits, strict=True))
    rows = [
        row
        | {"cite": papers().get(row["family"], {}).get("cite", row["family"])}
        | {"held_to": golden.tolerance(row["family"])}
        | {"why": golden.EXCEPTIONS.get(row["family"], ("", ""))[1]}
        for row in golden.by_family(found)
    ]
    shown = raw(fragments.render("golden.html", rows=rows))
    return f"The programs are {told}.\n\n{shown}"
