"""Rows and checks made up for the tests of generated pages."""

from clcore.book.site import claims

SUMMARY = {
    "profile": "book",
    "device": "cpu",
    "built": "2000-01-02",
    "commit": "0123456789abcdef",
    "repository": None,
    "chapters": [
        {"name": "1-a", "title": "One & all", "status": "ok", "seconds": 61.2, "peak_mib": 512.0},
        {"name": "2-b", "title": "Two", "status": "dead", "seconds": None, "peak_mib": None},
    ],
}


def check(**changed: object) -> dict:
    out = {"claim": "acl/thm1", "measured": 2e-14, "bound": 1e-10, "control": {"1/2 dropped": 0.5}}
    out |= {"draws": 7, "part": "", "relation": "<=", "form": "printed", "evidence": "exact"}
    out |= {"note": "", "counterexample": "", "correction": "", "misprint": "", "setting": ""}
    out |= {"shares": {}, "words": "", "said": None, "sort": "sampled", "proofs": []}
    return out | {"passed": True, "seconds": 1.5, "anchor": "claim-acl-thm1"} | changed


def row(verdict: str = "holds", **changed: object) -> dict:
    out = {"id": "acl/thm1", "paper": "acl", "where": "Theorem 1", "kind": "theorem"}
    out |= {"title": "Descending is ascending"}
    out |= {"statement": r"$a<b$ and $\phi'>0$", "conditions": "$b>0$", "needs": []}
    out |= {"chapter": "minmax", "notebook": "1-a", "verdict": verdict, "measured": 2e-14}
    out |= {"bound": 1e-10, "relation": "<=", "control": {"1/2 dropped": 0.5}, "draws": 7}
    out |= {"seconds": 1.5, "profile": "book", "device": "cpu", "blocked": None}
    out |= {"anchor": "chapters/1-a.html#claim-acl-thm1", "checks": [check()]}
    out |= {
        "in_short": "True for every $N$.",
        "added": "",
        "grade": None,
        "root": None,
        "open": {},
        "misprints": [],
    }
    out |= {"care": []}
    out |= {"rung": "sampled"}
    return out | changed


def todo(**changed: object) -> dict:
    nothing = ("measured", "bound", "relation", "control", "draws", "seconds", "profile", "device")
    empty = dict.fromkeys(nothing) | {"notebook": None, "anchor": None, "checks": [], "rung": None}
    return row("todo") | empty | changed


def wrong(verdict: str = "corrected", **changed: object) -> dict:
    printed = check(
        measured=0.25, passed=False, counterexample=r"$N=2$ gives $\frac14$", part="second"
    )
    fixed = check(form="corrected", correction=r"$\frac{2}{\tau}$, not $<1$", part="second")
    checks = [printed, fixed] if verdict == "corrected" else [printed]
    graded = {"grade": "constant", "root": "acl/thm1"}
    return row(verdict, measured=0.25, checks=checks, **graded | changed)


def made(*rows: dict) -> dict[str, str]:
    """Everything that the site gets for these claims: address -> text."""
    return claims.bodies(list(rows), SUMMARY) | claims.files(list(rows), SUMMARY)


def claim_page(row: dict) -> str:
    """The page of one claim."""
    return made(row)[claims.page_of(row["id"])]
