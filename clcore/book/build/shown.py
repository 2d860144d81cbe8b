"""What a build shows: the page of a chapter, failures, the table at the end."""

import json
import re
from collections.abc import Collection
from pathlib import Path

from clcore import ledger
from clcore._files import read_notebook
from clcore.book.build import captions, legible
from clcore.book.build.cache import numbers
from clcore.book.build.planning import Run
from clcore.book.provenance import PROVENANCE_MIME
from clcore.book.site import code, drawing
from clcore.book.site.markdown import fenced
from clcore.ledger import words
from clcore.ledger.html import check_table
from clcore.ledger.tex import written

# What a figure with sliders runs in a notebook; a page of the site has its own.
_NOTEBOOKS = re.compile(r"<script data-notebook>.*?</script>\s*", re.DOTALL)
_WIDE = 1000  # letters; no bar is so long, and to look for one in 400,000 takes minutes
_BAR = re.compile(r"\d+%\|.*\| *\d+/\d+ \[")


def title(notebook: Path) -> str:
    """The first heading of a notebook."""
    for cell in read_notebook(notebook)["cells"]:
        for line in "".join(cell["source"]).splitlines():
            if line.startswith("# "):
                return line[2:].strip()
    return notebook.stem


def page(run: Run, rows: list[dict]) -> tuple[str, bytes]:
    """File name and content of a chapter in the site: the executed notebook, or what went wrong."""
    if run.status == "ok":
        executed = json.loads((run.entry / "executed.ipynb").read_bytes())
        behind = {"cell_type": "markdown", "id": "code-behind", "metadata": {}}
        behind["source"] = drawing.section(run.name, rows) + code.section(run.notebook)
        return f"{run.name}.ipynb", json.dumps(_as_shown(executed, behind, rows)).encode()
    if run.status == "missing":
        reason = (
            "This chapter was not executed in this build. "
            f"`python -m clcore build --only {run.name}` executes it."
        )
    else:
        reason = "This chapter failed in this build.\n\n" + fenced("text", failure(run))
    return f"{run.name}.md", f"# {title(run.notebook)}\n\n{reason}\n".encode()


def _as_shown(notebook: dict, behind: dict, rows: list[dict]) -> dict:
    """The notebook with today's words in its tables of checks and captions on its other tables,
    whose numbers are written as people write them, without the data that only the build reads,
    which Sphinx would warn of, without what papermill notes (the second cell of parameters, which
    stand in the provenance; where its files lay on this machine), without what went to stderr (the
    pages leave it out, and it names folders of this machine), and with a last cell."""
    verdicts = {row["id"]: row["verdict"] for row in rows}
    for cell in notebook["cells"]:
        if "outputs" in cell:
            cell["outputs"] = [
                o for o in cell["outputs"] if o.get("name") != "stderr" and not _is_progress(o)
            ]
        for output in cell.get("outputs", []):
            if records := output.get("data", {}).get(ledger.RECORDS_MIME):
                now = [words.worded(numbers(record)) for record in records]
                output["data"]["text/html"] = check_table(now, verdicts)
            elif html := output.get("data", {}).get("text/html"):
                output["data"]["text/html"] = legible.cells(_NOTEBOOKS.sub("", "".join(html)))
            if "scrapbook" in output.get("metadata", {}):  # a number in a sentence
                data = output["data"]
                data |= {k: written("".join(said)) for k, said in data.items() if "text" in k}
            for mime in (ledger.RECORDS_MIME, PROVENANCE_MIME):
                output.get("data", {}).pop(mime, None)
        captions.add(cell)
    own = [c for c in notebook["cells"] if "injected-parameters" not in _tags(c)]
    for part in (notebook, *own):
        part.get("metadata", {}).pop("papermill", None)
    return notebook | {"cells": [*own, behind]}


def _is_progress(output: dict) -> bool:
    """Whether an output is nothing but bars of tqdm."""
    lines = "".join(output.get("text", "")).replace("\r", "\n").splitlines()
    said = [line for line in lines if line.strip()]
    return bool(said) and all(len(line) < _WIDE and _BAR.search(line) for line in said)


def _tags(cell: dict) -> list[str]:
    return cell["metadata"].get("tags", [])


def failure(run: Run) -> str:
    """What went wrong in a chapter, with the cell and the traceback."""
    out = run.outcome
    lines = [f"{run.name} {run.status}: {out.get('error', '')}"]
    if out.get("cell"):
        lines.append(f"in cell {out['cell']}:")
        lines += [f"    {line}" for line in out.get("source", "").splitlines()]
    if out.get("traceback"):
        lines.append(out["traceback"])
    return "\n".join(lines)


def report(book: dict, rows: list[dict], ran: Collection[str] = ()) -> None:
    """Print one line per chapter: verdicts, seconds, memory. ran: those executed just now."""
    from tabulate import tabulate

    table = []
    for chapter in book["chapters"]:
        name, status = chapter["name"], chapter["status"]
        counts = {v: 0 for v in ledger.VERDICTS}
        for row in rows:
            if row["notebook"] == name:
                counts[row["verdict"]] += 1
        table.append(
            [
                name,
                ", ".join(f"{n} {v}" for v, n in counts.items() if n) or "-",
                *("-" if chapter[key] is None else chapter[key] for key in ("seconds", "peak_mib")),
                "run" if name in ran else {"ok": "cached"}.get(status, status),
            ]
        )
    print("\n" + tabulate(table, ["chapter", "verdicts", "seconds", "peak MiB", ""]))
