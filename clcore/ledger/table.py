"""Every claim with its verdict: the rows of the public ledger."""

from collections.abc import Iterable, Iterator

from clcore.ledger import findings, rungs, words
from clcore.ledger.outcomes import anchor
from clcore.ledger.printed import claims
from clcore.ledger.verdicts import verdict

CARE = {
    "misprint": "a misprint corrected",
    "condition": "a condition or convention of ours",
    "edge": "an unintended edge case excluded",
}
"""Why a row that holds is read with care, in one word and in several."""


def rows(results: Iterable[dict]) -> Iterator[dict]:
    """Every claim with its verdict, from the records of chapters.

    Yields dicts with the claim's own fields ("" for a title that is not written yet) and: notebook,
    verdict, in_short, rung, grade, root, added, care, open, misprints, measured, bound, relation,
    control, draws, seconds, profile, device, anchor, checks.
    The single values are those of the check that decides the verdict; added, grade, root and open
    are those of `clcore.ledger.findings`, grade and root only of rows that are corrected or
    refuted, or that hold but for a misprint. care: of a row that holds why it does not by the
    letter alone, words of `CARE`. Raises FindingsError for a claim without one.
    """
    findings.complete()
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
        out |= {"rung": rungs.weakest(records), "title": row.get("title", "")}
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
        "in_short": finding["in_short"],
        "added": " ".join(filter(None, (finding["added"].strip(), finding.get("without it")))),
        "grade": finding.get("grade") if false else "misprint" if slips else None,
        "root": finding.get("root") if false else finding["id"] if slips else None,
        "open": finding.get("open", {}) if found in ("depends", "differs") else {},
        "misprints": slips,
        "care": _care(slips, finding) if found == "holds" else [],
    }


def _care(slips: list[dict], finding: dict) -> list[str]:
    """Why a row that holds does not do so by the letter alone, in the words of `CARE`."""
    edge = any("edge" in part for part in finding.get("parts", {}).values())
    reasons = {"misprint": slips, "condition": finding["added"], "edge": edge}
    return [reason for reason in CARE if reasons[reason]]


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
