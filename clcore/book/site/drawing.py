"""What the claims of a chapter rest on, as a drawing and as a list of the same."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

from clcore.book.site import fragments
from clcore.book.site.markdown import raw
from clcore.ledger import claims
from clcore.ledger import map as claim_map
from clcore.ledger.html import place

WORST = (
    "refuted",
    "corrected",
    "differs",
    "depends",
    "blocked",
    "partial",
    "todo",
    "reproduced",
    "holds",
)
"""The verdicts, from what shakes a claim that rests on them to what does not."""
GLYPHS = {
    "refuted": "✗",
    "corrected": "✎",
    "differs": "≠",
    "depends": "?",
    "blocked": "■",
    "partial": "◐",
    "todo": "○",
    "reproduced": "≈",
    "holds": "✓",
}
MANY = 60
"""A drawing of more claims than this cannot be read: then the lesser ones are left to the list."""
WIDTH, HEIGHT = 172, 88
TALL = 520
LINES, LETTERS = 3, 25

Edges = dict[tuple[str, str], bool]
"""(claim, what it rests on) -> whether it does so directly."""


class DrawingError(RuntimeError):
    """The drawing could not be laid out."""


def worst_below(claim: str, verdicts: Mapping[str, str]) -> str:
    """The worst verdict of all that a claim rests on, at any distance; "" if it rests on none."""
    found = {verdicts[other] for other in claim_map.below(claim) if other in verdicts}
    return next((verdict for verdict in WORST if verdict in found), "")


def drawn(own: list[str]) -> tuple[list[str], list[str]]:
    """Of a chapter's claims those in its drawing, then those of other chapters next to them.

    All, and what they rest on directly, up to MANY; of more the theorems and their like, and what
    two or more claims of the chapter rest on.
    """
    inside = set(own)

    def others(shown: list[str]) -> list[str]:
        found = (other for claim in shown for other in claim_map.rests_on(claim))
        return [other for other in dict.fromkeys(found) if other not in inside]

    if len(own) + len(others(own)) <= MANY:
        return own, others(own)
    kinds = claims()

    def matters(claim: str) -> bool:
        named = kinds[claim]["kind"] in fragments.STATEMENTS
        return named or len(inside & {*claim_map.used_by(claim)}) > 1

    shown = [claim for claim in own if matters(claim)]
    return shown, others(shown)


def edges(shown: list[str], hidden: Iterable[str] = ()) -> Edges:
    """What rests on what among the claims shown, directly or through hidden ones, without the
    edges that follow from others (the transitive reduction)."""
    seen, passed = set(shown), set(hidden)
    follows: dict[str, dict[str, bool]] = {}
    for claim in shown:
        direct = claim_map.rests_on(claim)
        found = {other: True for other in direct if other in seen}
        todo, done = [other for other in direct if other in passed], set()
        while todo:
            through = todo.pop()
            done.add(through)
            for other in claim_map.rests_on(through):
                if other in seen:
                    found.setdefault(other, False)
                elif other in passed - done:
                    todo.append(other)
        follows[claim] = found
    return {
        (claim, other): direct
        for claim, found in follows.items()
        for other, direct in found.items()
        if not any(_leads(follows, between, other) for between in found if between != other)
    }


def _leads(follows: Mapping[str, Iterable[str]], start: str, end: str) -> bool:
    todo, done = [start], set()
    while todo:
        claim = todo.pop()
        if claim == end:
            return True
        done.add(claim)
        todo += [other for other in follows[claim] if other not in done]
    return False


def label(row: Mapping) -> str:
    """The place in the paper as a box has room for: Theorem 3."""
    return textwrap.shorten(place(row).partition(", ")[2], 24, placeholder=" …")


def _layout(nodes: list[str], links: Edges) -> dict:
    """Where Graphviz puts boxes and arrows, top to bottom or left to right: the narrower one."""
    number = {claim: at for at, claim in enumerate(nodes)}
    size = f"width={WIDTH / 72:.4f} height={HEIGHT / 72:.4f}"
    body = "".join(f"{at};" for at in number.values())
    body += "".join(f"{number[a]}->{number[b]};" for a, b in links)
    program = Path(sys.executable).with_name("graphviz-pure")
    made = []
    for direction in ("TB", "LR"):
        space = f"rankdir={direction} nodesep=0.18 ranksep=0.4"
        dot = f"digraph{{graph[{space}] node[shape=box fixedsize=true {size}] {body}}}"
        try:
            done = subprocess.run(
                [program, "-Tjson0"], input=dot, capture_output=True, encoding="utf-8", check=True
            )
        except FileNotFoundError:
            raise DrawingError(
                f"expected the program {program.name} beside {sys.executable}, found none; "
                "pip install -r requirements.txt"
            ) from None
        except subprocess.CalledProcessError as error:
            raise DrawingError(
                f"expected a layout from {program.name}, it stopped with status "
                f"{error.returncode}: {error.stderr.strip()}; install the version that "
                "requirements.txt names"
            ) from error
        made.append(json.loads(done.stdout))
    return min(made, key=lambda layout: float(layout["bb"].split(",")[2]))


def _points(pos: str, height: float) -> tuple[str, str]:
    """The path of an edge and its last point with the arrow, in coordinates of SVG."""
    points = [[float(part) for part in text.split(",")[-2:]] for text in pos.split(" ")]
    ends, first, *rest = (f"{x:.1f},{height - y:.1f}" for x, y in points)
    return f"M{first}C{' '.join(rest)}", f"L{ends}"


def _worded(claim: str, row: Mapping, verdicts: Mapping[str, str]) -> dict:
    near = [(other, verdicts.get(other, "todo")) for other in claim_map.rests_on(claim)]
    return {
        "id": claim,
        "label": label(row),
        "title": row["title"],
        "verdict": verdicts.get(claim, "todo"),
        "near": near,
        "worst": worst_below(claim, verdicts),
    }


def figure(name: str, rows: Iterable[Mapping]) -> str:
    """HTML of a chapter's drawing and list; "" for a chapter without claims.

    rows: every claim with its verdict, as of `clcore.ledger.rows`.
    """
    by_id = {row["id"]: row for row in rows}
    verdicts = {claim: row["verdict"] for claim, row in by_id.items()}
    own = [claim for claim, row in by_id.items() if row["notebook"] == name]
    if not own:
        return ""
    every = {claim: _worded(claim, by_id[claim], verdicts) for claim in by_id}
    shown, elsewhere = drawn(own)
    nodes = [*shown, *elsewhere]
    links = edges(nodes, set(own) - set(shown))
    layout = _layout(nodes, links)
    width, height = (float(part) for part in layout["bb"].split(",")[2:])
    boxes = []
    for claim, box in zip(nodes, layout["objects"], strict=True):
        x, y = (float(part) for part in box["pos"].split(","))
        lines = textwrap.wrap(every[claim]["title"], LETTERS, max_lines=LINES, placeholder=" …")
        at = {"x": round(x - WIDTH / 2, 1), "y": round(height - y - HEIGHT / 2, 1)}
        boxes.append(every[claim] | at | {"lines": lines, "elsewhere": claim in elsewhere})
    arrows = []
    for edge in layout.get("edges", []):
        ends = nodes[int(layout["objects"][edge["tail"]]["name"])]
        other = nodes[int(layout["objects"][edge["head"]]["name"])]
        path, tip = _points(edge["pos"], height)
        arrows.append({"from": ends, "to": other, "path": path + tip, "direct": links[ends, other]})
    return fragments.render(
        "drawing.html",
        width=round(width + 4),
        height=round(height + 4),
        size=(WIDTH, HEIGHT),
        tall=height > TALL,
        boxes=boxes,
        arrows=sorted(arrows, key=lambda arrow: (arrow["from"], arrow["to"])),
        listed=[every[claim] for claim in own],
        left=len(own) - len(shown),
        every=every,
        glyphs=GLYPHS,
    )


def section(name: str, rows: Iterable[Mapping]) -> str:
    """Part of a chapter's end as Markdown: "What rests on what"; "" without claims."""
    html = figure(name, rows)
    return f"## What rests on what\n\n{raw(html)}\n" if html else ""
