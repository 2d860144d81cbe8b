"""HTML from Jinja templates: text is escaped, and a name that nothing was given for is an error.

A package has its templates in its folder templates/. Besides Jinja's own filters they have:
`typeset` (text with LaTeX, or with formulas as a docstring has them), `number` (three digits),
`outcome`, `comparison` and `fails` (of a record), `evidence` (its rung in words), `sure` (that of a
row), `shown` (a verdict in words), `several` (that of many), `row_id` (a claim's place on the
ledger page), `claim` (the row of an id), and `place` and `place_in` (of such a row: where the paper
prints it first).
"""

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from clcore.ledger.outcomes import comparison, number, outcome
from clcore.ledger.printed import claim, claims, papers
from clcore.ledger.rungs import evidence, told
from clcore.ledger.tex import typeset, written
from clcore.ledger.verdicts import VERDICTS

SHOWN = {verdict: verdict for verdict in VERDICTS} | {"todo": "not yet checked"}
"""A verdict -> what a reader sees of it."""


def row_id(claim_id: str) -> str:
    """The HTML id of a claim's row in the ledger: acl/thm1 -> acl-thm1."""
    return claim_id.replace("/", "-")


_FIRST = re.compile(r"[,;=]| and (?:the|next|following|surrounding) | \((?!\d|PI\))")


def place(row: Mapping) -> str:
    """Paper and the first place where it prints a claim, of its row: Tian 2022, Theorem 3."""
    return f"{papers()[row['paper']]['cite']}, {_FIRST.split(row['where'])[0].strip()}"


def place_in(row: Mapping, paper: str) -> str:
    """The place of a claim as a text on `paper` calls it: without the paper, if that is the
    claim's."""
    return place(row).removeprefix(f"{papers()[paper]['cite']}, ") if paper else place(row)


def placed(text: str, paper: str) -> str:
    """Text on a paper with the places of claims for their ids, and `cited`: `As acl/def5` -> As
    Assumption 1.

    Claims of other papers begin with the paper; with paper "", all do. A range such as
    ncl/def4..def7 has both ends; an id of no claim stays.
    """

    def one(found: re.Match) -> str:
        named = [f"{found[1]}/{name}" for name in found.group(2, 3) if name]
        if not claims().keys() >= set(named):
            return found[0]
        return " to ".join(place_in(claim(name), paper) for name in named)

    ids = rf"`?\b({'|'.join(papers())})/([\w-]+)(?:\.\.([\w-]+))?`?"
    return cited(re.sub(ids, one, text), paper)


def cited(text: str, paper: str) -> str:
    """Text on a paper with papers by what they are cited as, not by their keys: `acl Eq. 4` ->
    Eq. 4 in a text on acl, Tian 2022, Eq. 4 in others."""

    def one(found: re.Match) -> str:
        return "" if found[1] == paper else f"{papers()[found[1]]['cite']}, "

    return re.sub(rf"(?<![\w/.-])({'|'.join(papers())}) (?={_PLACE})", one, text)


_PLACE = r"(?:App|Ass|Cor|Def|Eq|Ex|Fig|Lem|Rem|Sec|Tab|Th)[a-z]*\b\.? ?[\dA-Z(]"
_SEVERAL = {"holds": "hold", "differs": "differ", "depends": "depend"}


def several(verdict: str, count: int) -> str:
    """A verdict in words, of so many claims."""
    return _SEVERAL.get(verdict, SHOWN[verdict]) if count != 1 else SHOWN[verdict]


def fails(record: dict, control: str) -> str:
    """Of a control that some draws let through, " (fails in 98 % of draws)", else nothing."""
    share = record["shares"].get(control, 1)
    percent = "under 1" if 0 < share < 0.005 else f"{100 * share:.0f}"
    return "" if share == 1 else f" (fails in {percent} % of draws)"


def _evidence(record: dict) -> str:
    return placed(evidence(record), record["claim"].split("/")[0])


@cache
def _environment(package: str) -> Environment:
    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        auto_reload=False,  # else each rendering looks at the time of every file that it uses
    )
    made.filters |= {
        "claim": claim,
        "comparison": lambda record: written(comparison(record)),
        "evidence": _evidence,
        "fails": fails,
        "number": lambda value, *beside: written(number(value, *beside)),
        "outcome": outcome,
        "place": place,
        "place_in": place_in,
        "row_id": row_id,
        "several": several,
        "shown": SHOWN.__getitem__,
        "sure": told,
        "typeset": typeset,
        "written": written,
    }
    return made


def render(package: str, template: str, **values: Any) -> Markup:
    """The file `template` of a package's folder templates/, with these values.

    Every value that is not Markup is escaped. Raises jinja2.UndefinedError where the template
    shows a name or a field that is not there, jinja2.TemplateNotFound without such a file.
    """
    return Markup(_environment(package).get_template(template).render(values))


def check_table(records: list[dict], verdicts: Mapping[str, str]) -> str:
    """The table of new records that a chapter shows below a cell, folded to a line that counts the
    verdicts: what was measured against which bound, and the controls. A claim's first row has the
    HTML id that the ledger links to. Settings that several parts share are columns of a second
    table, a row per part.

    verdicts: claim -> its verdict as far as it is known, of every claim among the records.
    """
    alone, settings, parts = _by_setting(records)
    first = {r["claim"]: place for place, r in reversed(list(enumerate(alone)))}
    count = Counter(verdicts[claim] for claim in first)
    found = [
        {"verdict": v, "count": n, "word": several(v, n)}
        for v, n in sorted(count.items(), key=lambda item: VERDICTS.index(item[0]))
    ]
    more = {"settings": settings, "parts": parts}
    return str(
        render("clcore.ledger", "check.html", records=alone, first=first, found=found, **more)
    )


def _by_setting(records: list[dict]) -> tuple[list[dict], list[str], list[dict]]:
    """Records apart: those with a row of their own; the open settings that two or more parts
    share, where their printed forms have rows; and of each such part its results, setting by
    setting, under "" that of the first choice."""
    printed = {(r["claim"], r.get("part")): r for r in records if r.get("form") == "printed"}
    opened = [r for r in records if r.get("form") == "open" and (r["claim"], r["part"]) in printed]
    uses = Counter(r["setting"] for r in opened)
    shared = [r for r in opened if uses[r["setting"]] > 1]
    results: dict[tuple[str, str], dict[str, dict]] = {}
    for r in shared:
        key = r["claim"], r["part"]
        results.setdefault(key, {"": printed[key]})[r["setting"]] = r
    settings = [s for s in uses if uses[s] > 1]
    parts = [{"claim": c, "part": p, "results": found} for (c, p), found in results.items()]
    return [r for r in records if r not in shared], settings, parts
