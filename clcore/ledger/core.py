"""The public ledger: every numbered statement of the five papers, and what became of it.

A claim is recorded by one call, `Ledger.check`, which takes what was measured, the bound, and a
negative control: the same measurement on a version of the statement that ought to fail. No verdict
is ever typed: `verdict` computes it from the checks.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from clcore import _paths
from clcore._files import read_yaml
from clcore.ledger import findings, words

VERDICTS = (
    "holds",
    "corrected",
    "refuted",
    "reproduced",
    "depends",
    "differs",
    "partial",
    "blocked",
    "todo",
)
EVIDENCE = ("exact", "protocol", "partial")
FORMS = ("printed", "corrected", "open")
TYPESET = "as typeset"
"""How the control of a misprint begins: the letters on the page, taken as they are."""
RECORDS_MIME = "application/vnd.clcore.records+json"


class LedgerError(ValueError):
    """A check that the ledger refuses."""


# ------------------------------------------------------------------------------------ the claims


_PAPERS = {
    "type": "object",
    "minProperties": 1,
    "propertyNames": {"pattern": "^[a-z]+$"},
    "additionalProperties": {
        "type": "object",
        "required": ["name", "version", "groups"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "version": {"type": "string", "minLength": 1},
            "groups": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    },
}


@cache
def papers() -> dict[str, dict]:
    """The papers in ledger order: name, the version read, and what each group of claims is about.

    Raises LedgerError when data/claims/papers.yaml is damaged.
    """
    return read_yaml(_paths.root() / "data" / "claims" / "papers.yaml", _PAPERS, LedgerError)


@cache
def claims() -> dict[str, dict]:
    """All claims as printed, by id, in ledger order (data/claims/*.yaml), validated.

    Raises LedgerError naming the file, the row and what is wrong with it.
    """
    folder = _paths.root() / "data" / "claims"
    schema = json.loads((folder / "schema.json").read_text())
    rows: dict[str, dict] = {}
    for paper, known in papers().items():
        path = folder / f"{paper}.yaml"
        document = read_yaml(path, schema, LedgerError)
        for row in document["claims"]:
            if row["id"] in rows:
                raise LedgerError(f"{_paths.shown(path)}: the id {row['id']} appears twice")
            if row["id"].split("/")[0] != paper:
                raise LedgerError(f"{_paths.shown(path)}: the id {row['id']} is not of {paper}")
            if row["chapter"] not in known["groups"]:
                raise LedgerError(
                    f"{_paths.shown(path)}: {row['id']} has the chapter {row['chapter']!r}; "
                    f"expected a group of {paper} in data/claims/papers.yaml: "
                    f"{', '.join(known['groups'])}"
                )
            rows[row["id"]] = {"paper": paper, **row}
    return rows


def claim(claim_id: str) -> dict:
    """One claim's row. Raises LedgerError that names near misses when the id is unknown."""
    import difflib

    rows = claims()
    if claim_id not in rows:
        near = difflib.get_close_matches(claim_id, rows, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else "see data/claims/ for the ids"
        raise LedgerError(f"expected the id of a claim, got {claim_id!r}; {hint}")
    return rows[claim_id]


# ------------------------------------------------------------------------------------- one check


@dataclass(frozen=True)
class Check:
    """One measurement on a claim, with the control that must fail. Fields as in `Ledger.check`.

    words, said: the name under which data/findings speaks of it, and the numbers for its text (None
    where the words are the check's own). readings: what readings against the print give, a part of
    the note; reading: the one by whose name a corrected form goes. shares: in which share of draws
    each control fails.
    """

    claim: str
    measured: float
    bound: float
    control: dict[str, float]
    draws: int = 1
    part: str = ""
    relation: str = "<="
    form: str = "printed"
    evidence: str = "exact"
    note: str = ""
    counterexample: str = ""
    correction: str = ""
    misprint: str = ""
    setting: str = ""
    words: str = ""
    readings: str = ""
    reading: str = ""
    said: dict[str, Any] | None = None
    shares: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Record(Check):
    """A check that the ledger accepted."""

    passed: bool = False
    seconds: float = 0.0
    anchor: str = ""


def _satisfies(value: float, relation: str, bound: float) -> bool:
    return bool(value <= bound if relation == "<=" else value >= bound)


def judge(check: Check) -> bool:  # noqa: C901 (one guard a refusal)
    """Whether `check` passes, after refusing what would be worthless. NaN never passes.

    Raises LedgerError for an unknown claim, a missing, undefined or passing control, and a field
    outside its values.
    """
    claim(check.claim)
    name = f"{check.claim} {check.part!r}" if check.part else check.claim
    for value, allowed, what in (
        (check.relation, ("<=", ">="), "relation"),
        (check.form, FORMS, "form"),
        (check.evidence, EVIDENCE, "evidence"),
    ):
        if value not in allowed:
            raise LedgerError(f"{name}: expected {what} in {allowed}, got {value!r}")
    if check.draws < 1:
        raise LedgerError(f"{name}: expected at least one draw, got {check.draws}")
    if not check.control:
        raise LedgerError(
            f"{name}: a check needs a negative control; measure the same thing on a version of the "
            "statement that ought to fail, and pass control={'what was broken': value}"
        )
    for broken, value in check.control.items():
        if math.isnan(value):
            raise LedgerError(f"{name}: the control {broken!r} is NaN, which shows nothing")
        if _satisfies(value, check.relation, check.bound):
            raise LedgerError(
                f"{name}: the control {broken!r} passes ({value:.3g} {check.relation} "
                f"{check.bound:.3g}), so the check cannot tell right from wrong; find a control "
                "that breaks the statement, or a sharper measurement"
            )
    passed = _satisfies(check.measured, check.relation, check.bound)
    if (check.form == "open") is not bool(check.setting):
        raise LedgerError(
            f"{name}: form='open' and `setting` go together: what the print leaves open, and the "
            "value it is measured at, such as 'temperature 0.2'"
        )
    if check.form == "open" and check.evidence == "exact":
        raise LedgerError(
            f"{name}: a setting is left open by a protocol; expected evidence 'protocol' or "
            "'partial', got 'exact'"
        )
    if check.misprint and (
        check.form != "printed" or not any(c.startswith(TYPESET) for c in check.control)
    ):
        raise LedgerError(
            f"{name}: a misprint is measured by the printed form in its one possible meaning, with "
            f"a control {TYPESET!r} that takes the letters as they are and fails"
        )
    if check.form == "corrected" and not check.correction:
        raise LedgerError(f"{name}: a corrected form needs `correction`, the statement that holds")
    if (
        check.form == "printed"
        and check.evidence == "exact"
        and not passed
        and not check.counterexample
    ):
        raise LedgerError(
            f"{name}: the statement as printed fails ({check.measured:.3g}, bound "
            f"{check.bound:.3g}); if that is the paper's doing, give a counterexample"
        )
    return passed


def agreement(
    ours: float, std: float, n: int, theirs: float, their_std: float, their_n: int, unit: float
) -> bool:
    """Whether a table cell agrees: |ours - theirs| <= 2 sqrt(s1^2/n1 + s2^2/n2) + unit/2.

    `unit` is one unit of the paper's last printed digit (0.01 for 84.06); `n` counts seeds.
    """
    if n < 1 or their_n < 1:
        raise LedgerError(f"expected at least one run a cell, got {n} and {their_n}")
    error = math.sqrt(std**2 / n + their_std**2 / their_n)
    return bool(abs(ours - theirs) <= 2 * error + unit / 2)


# ----------------------------------------------------------------------------------- the verdict

# From the verdict that a reader must hear of first to the one that says least.
_ORDER = ("refuted", "differs", "depends", "corrected", "blocked", "partial")
_ORDER = (*_ORDER, "reproduced", "holds")


def _part_verdict(records: list[dict]) -> str:
    printed, corrected, left_open = (
        [r for r in records if r["form"] == form] for form in ("printed", "corrected", "open")
    )
    if not printed:
        raise LedgerError(
            f"{records[0]['claim']} {records[0]['part']!r}: a correction or an open setting was "
            "recorded, but the printed form never was; check it too"
        )
    # A setting of ours decides: what we took first for the print says no more than the others do.
    if left_open and len({r["passed"] for r in printed + left_open}) > 1:
        return "depends"
    if all(r["passed"] for r in printed):
        if corrected:
            raise LedgerError(
                f"{printed[0]['claim']} {printed[0]['part']!r}: a correction was recorded although "
                "the printed form holds"
            )
        kinds = {r["evidence"] for r in printed}
        if "partial" in kinds:
            return "partial"
        return "reproduced" if "protocol" in kinds else "holds"
    failed = {r["evidence"] for r in printed if not r["passed"]}
    if failed == {"partial"}:
        return "partial"
    if failed <= {"protocol", "partial"}:
        return "differs"
    return "corrected" if corrected and all(r["passed"] for r in corrected) else "refuted"


def verdict(records: list[dict]) -> str:
    """The verdict on one claim from all its records (dicts of Record, or {'blocked': reason}).

    Each part is judged by itself; the claim gets the part's verdict that a reader must hear first:
    refuted, differs, depends, corrected, blocked, partial, reproduced, holds. No records: todo.
    """
    if not records:
        return "todo"
    parts: dict[str, list[dict]] = {}
    found = set()
    for record in records:
        if "blocked" in record:
            found.add("blocked")
        else:
            parts.setdefault(record["part"], []).append(record)
    found |= {_part_verdict(part) for part in parts.values()}
    return next(v for v in _ORDER if v in found)


# -------------------------------------------------------------------- the ledger of one chapter


@dataclass
class Ledger:
    """What one chapter records. `show` receives HTML, plain text and the new records."""

    chapter: str
    show: Callable[[str, str, list[dict]], None] | None = None
    records: list[dict] = field(default_factory=list)
    _clock: float = field(default_factory=time.perf_counter)

    def start_clock(self) -> None:
        """Count the next check's seconds from now (called at the start of every cell)."""
        self._clock = time.perf_counter()

    def check(
        self,
        claim: str | Check,
        measured: float = math.nan,
        bound: float = math.nan,
        control: dict[str, float] | None = None,
        **more: Any,
    ) -> Record:
        """Record one check, and show it.

        claim: its id, such as "acl/thm1" (or a whole Check). measured: the worst value over the
        draws. bound, relation: it passes when `measured relation bound` ("<=", or ">=").
        control: {what was broken: the same measurement on the broken version}; each must fail.
        draws: how many random inputs. part: which part of a statement of several. form: "printed";
        "corrected" together with correction=...; "open" together with setting=..., a value of
        something that the print leaves open. evidence: "exact" (a statement), "protocol" (a number
        at the paper's own protocol) or "partial" (smaller than that). counterexample: needed where
        the printed form fails. misprint: a slip that leaves one possible meaning, which is then
        what the printed form measures; its control "as typeset" takes the letters as they are.

        Raises LedgerError for an unknown id, a missing or passing control, and a second record of
        the same claim, part, form and setting.
        """
        record = self._accept(claim, measured, bound, control, more)
        self._display([record])
        return record

    def run(self, checks: Iterable[str | Callable], draws: int, seed: int) -> list[Record]:
        """Run checks, record all they find, show one table.

        checks: ids of claims, whose functions `clcore.ledger.registry` finds, or functions
        `f(draws, seed) -> Iterator[Check]`. Raises LedgerError for a claim without a function.
        """
        from clcore.ledger import registry  # which reads the claims from here

        new = []
        for asked in checks:
            function = registry.function(asked) if isinstance(asked, str) else asked
            self.start_clock()
            new += [self._accept(check, 0, 0, None, {}) for check in function(draws, seed)]
        self._display(new)
        return new

    def blocked(self, claim_id: str, missing: str) -> None:
        """Record that a claim cannot be checked here, and what is missing for it."""
        claim(claim_id)
        self._once(claim_id, "", "blocked")
        record = {"claim": claim_id, "blocked": missing, "anchor": anchor(claim_id)}
        self.records.append(record)
        if self.show:
            from clcore.ledger.html import check_table

            self.show(check_table([record]), f"{claim_id}: blocked, missing {missing}", [record])

    def todo(self, ids: Iterable[str]) -> list[str]:
        """Of these claims, the ids of those that nothing has been recorded for."""
        done = {r["claim"] for r in self.records}
        return [i for i in ids if i not in done]

    def _accept(self, claim, measured, bound, control, more) -> Record:
        check = (
            claim
            if isinstance(claim, Check)
            else Check(claim, float(measured), float(bound), dict(control or {}), **more)
        )
        self._once(check.claim, check.part, check.form, check.setting)
        passed = judge(check)
        now = time.perf_counter()
        fields: dict[str, Any] = asdict(check) | {
            "measured": float(check.measured),
            "bound": float(check.bound),
            "control": {k: float(v) for k, v in check.control.items()},
            "draws": int(check.draws),
            "said": None if check.said is None else dict(check.said),
        }
        record = Record(
            **fields, passed=passed, seconds=now - self._clock, anchor=anchor(check.claim)
        )
        self._clock = now
        self.records.append(asdict(record))
        return record

    def _once(self, claim_id: str, part: str, form: str, setting: str = "") -> None:
        key = (part, form, setting)
        for r in self.records:
            if r["claim"] == claim_id and (
                "blocked" in r
                or form == "blocked"
                or (r["part"], r["form"], r.get("setting", "")) == key
            ):
                raise LedgerError(
                    f"{claim_id} {part!r} ({form}) is recorded already in {self.chapter}; give "
                    "each check of a claim its own `part`"
                )

    def _display(self, new: list[Record]) -> None:
        if self.show and new:
            from clcore.ledger.html import check_table

            rows = [asdict(r) for r in new]
            self.show(check_table(rows), "\n".join(_text(r) for r in rows), rows)


def anchor(claim_id: str) -> str:
    """The HTML id of the place in a chapter that checks a claim."""
    return "claim-" + claim_id.replace("/", "-")


def number(value: float | None) -> str:
    """A measured value as shown to a reader: three significant digits."""
    if value is None:
        return ""
    return f"{value:.3g}" if math.isfinite(value) else str(value)


def outcome(record: dict) -> str:
    """One record in words: passes, fails, or blocked; the corrected form is named as such."""
    if "blocked" in record:
        return "blocked"
    word = "passes" if record["passed"] else "fails"
    if record["form"] == "open":
        return f"{word} with {record['setting']}"
    return f"corrected form {word}" if record["form"] == "corrected" else word


def comparison(record: dict) -> str:
    """Measured against bound, as in 2.1e-14 ≤ 1e-10; the sign says where it fell."""
    passing, failing = ("≤", ">") if record["relation"] == "<=" else ("≥", "<")
    inside = _satisfies(record["measured"], record["relation"], record["bound"])
    sign = "against" if math.isnan(record["measured"]) else passing if inside else failing
    return f"{number(record['measured'])} {sign} {number(record['bound'])}"


def _text(r: dict) -> str:
    control = "; ".join(f"{k}: {number(v)}" for k, v in r["control"].items())
    part = f" [{r['part']}]" if r["part"] else ""
    return (
        f"{r['claim']}{part} {outcome(r)}: {number(r['measured'])} {r['relation']} "
        f"{number(r['bound'])} over {r['draws']} draws (control {control})"
    )


# ------------------------------------------------------------------------------------- all rows


def rows(results: Iterable[dict]) -> Iterator[dict]:
    """Every claim with its verdict, from the records of chapters.

    Yields dicts with the claim's own fields ("" for a title that is not written yet) and: notebook,
    verdict, grade, root, added, open,
    misprints, measured, bound, relation, control, draws, seconds, profile, device, anchor, checks.
    The single values are those of the check that decides the verdict; added, grade, root and open
    are those of `clcore.ledger.findings`, grade and root only of rows that are corrected or
    refuted, or that hold but for a misprint.
    """
    known = findings.known()
    found: dict[str, list[tuple[dict, dict]]] = {}
    for result in results:
        for record in result["records"]:
            found.setdefault(record["claim"], []).append((words.worded(record), result))
    for claim_id, row in claims().items():
        here = found.get(claim_id, [])
        records = [record for record, _ in here]
        out = {k: row[k] for k in ("id", "paper", "where", "kind", "statement", "conditions")}
        out |= {"chapter": row["chapter"], "needs": row["needs"], "verdict": verdict(records)}
        out |= {"title": row.get("title", "")}
        out |= _editorial(out["verdict"], records, known[claim_id])
        deciding = _deciding(records)
        result = here[0][1] if here else {}
        page = f"chapters/{result['chapter']}.html" if here else None
        out |= {"notebook": result.get("chapter")}
        keys = ("measured", "bound", "relation", "control", "draws")
        out |= {k: deciding.get(k) if deciding else None for k in keys}
        out |= {
            "seconds": sum(r.get("seconds", 0.0) for r in records) if here else None,
            "profile": result.get("profile"),
            "device": result.get("device"),
            "anchor": f"{page}#{anchor(claim_id)}" if here else None,
            "blocked": next((r["blocked"] for r in records if "blocked" in r), None),
            "checks": [r for r in records if "blocked" not in r],
        }
        yield out


def _editorial(found: str, records: list[dict], finding: dict) -> dict:
    """What a finding adds to a verdict: how grave it is, whose error it is, what we added."""
    slips = [{"part": r["part"], "misprint": r["misprint"]} for r in records if r.get("misprint")]
    false = found in ("corrected", "refuted")
    return {
        "added": finding["added"],
        "grade": finding.get("grade") if false else "misprint" if slips else None,
        "root": finding.get("root") if false else finding["id"] if slips else None,
        "open": finding.get("open", "") if found in ("depends", "differs") else "",
        "misprints": slips,
    }


def _deciding(records: list[dict]) -> dict | None:
    """The failing printed check if there is one, else the one that comes closest to its bound."""
    checks = [r for r in records if "blocked" not in r]
    failing = [r for r in checks if r["form"] == "printed" and not r["passed"]]
    if failing or not checks:
        return failing[0] if failing else None

    def slack(r: dict) -> float:
        scale = max(abs(r["measured"]), abs(r["bound"]), 1e-300)
        return abs(r["bound"] - r["measured"]) / scale

    return min(checks, key=slack)
