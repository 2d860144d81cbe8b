"""A build for the course that took no time: the claims' own words, verdicts of data/findings, one
made-up control each, and grey rectangles for figures."""

import base64
import io
import json
import re

from clcore import ledger
from clcore.book import course
from clcore.book.course.sessions import figures
from clcore.ledger import findings

_NUMBER = re.compile(r"\{=\w+(?::[^{}]*)?\}")
FRAMES = ["One epoch.", "Ten epochs.", "A hundred epochs."]


def row(claim_id, **more):
    """A row of the ledger, with records of the parts that data/findings tells of."""
    printed, found = ledger.claim(claim_id), findings.known()[claim_id]
    record = {"part": "", "form": "printed", "passed": True, "measured": 3e-16, "bound": 1e-10}
    record |= {"relation": "<=", "control": {"squared distances": 0.25, "other $p_0$": 1e-12}}
    checks = [record]
    for part, told in found.get("parts", {}).items():
        for field, form in (("counterexample", "printed"), ("correction", "corrected")):
            if text := told.get(field):
                said = _NUMBER.sub("1.234", text)
                checks.append(
                    record | {"part": part, "form": form, "passed": form != "printed", field: said}
                )
    keys = ("id", "paper", "where", "title", "statement", "conditions")
    known = {k: printed[k] for k in keys}
    told = {k: found[k] for k in ("verdict", "in_short")}
    return known | told | {"checks": checks} | more


def write(folder):
    """Write the build into a folder: ledger.json, site.json, chapters with their pictures."""
    claims = {c for s in course.sessions().values() for step in s.steps for c in step.claims}
    book = {"commit": "abc", "profile": "smoke", "built": "today"}
    rows = [row(claim) for claim in sorted(claims)]
    (folder / "html").mkdir(parents=True)
    (folder / "executed").mkdir()
    (folder / "html" / "index.html").write_text("a site")
    (folder / "html" / "site.json").write_text(json.dumps(book))
    (folder / "ledger.json").write_text(json.dumps({"book": book, "rows": rows}))
    for notebook in {path for s in course.sessions().values() for path in s.notebooks}:
        cells = [cell for cell in figures(notebook).values() if not cell.startswith("..")]
        made = [{"id": cell, "outputs": [_output(at)]} for at, cell in enumerate(cells)]
        page = folder / "executed" / notebook.name
        page.write_text(json.dumps({"cells": made}))
    return folder


def _output(at):
    """One drawing; for every second cell frames of a slider."""
    data = {"image/svg+xml": '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="3"/>'}
    if at % 2:
        data = {"image/png": _picture("png")}
        source = f"data:image/webp;base64,{_picture('webp')}"
        frames = [{"source": source, "says": said} for said in FRAMES]
        told = json.dumps(frames).replace("<", "\\u003c")
        data["text/html"] = f'<img><script type="application/json">{told}</script>'
    return {"output_type": "display_data", "data": data}


def _picture(kind):
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (800, 320), "#888").save(file, format=kind)
    return base64.b64encode(file.getvalue()).decode()


def decks(build, out, monkeypatch, only=None, own=None):
    """Make the decks of sessions from such a build."""
    from clcore.book.course import decks

    monkeypatch.setenv("CLCORE_BUILD", str(build))
    known = course.sessions()
    chosen = [known[key] for key in only or known]
    return decks.write(chosen, out, own, keep=bool(only))
