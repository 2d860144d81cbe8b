"""What the search finds: every claim, every section of every page, every word of the glossary. A
Sphinx extension, and what the build writes for it. find.js looks things up in the index.

It replaces Sphinx's search, which does not index claims, takes "3" for a word and shows
formulas as they are typed.
"""

import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any
from unicodedata import normalize

from docutils import nodes

from clcore import _paths, ledger
from clcore._files import read_json, read_yaml, write_atomic, write_json
from clcore.book.site import claims, terms
from clcore.book.site.fragments import page_of
from clcore.ledger import findings
from clcore.ledger.html import place, placed

CLAIMS = "search.json"
"""In the staging folder: the claims' part of the index."""
INDEX = "_static/search-index.js"

_SYNONYMS = {
    "type": "object",
    "additionalProperties": {"type": "array", "minItems": 1, "items": {"type": "string"}},
}
_GREEK = {
    **{"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ"},
    **{"eta": "η", "theta": "θ", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ"},
    **{"pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "chi": "χ", "psi": "ψ"},
    **{"omega": "ω", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Sigma": "Σ", "Omega": "Ω"},
    **{"le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "to": "→", "ell": "ℓ"},
    **{"times": "×", "cdot": "·", "pm": "±", "infty": "∞", "in": "∈", "sum": "∑", "top": "ᵀ"},
    **{"partial": "∂", "nabla": "∇", "perp": "⊥", "approx": "≈", "sim": "∼", "sqrt": "√"},
    **{"prod": "∏", "cdots": "⋯", "dots": "…", "ldots": "…", "odot": "⊙", "otimes": "⊗"},
    **{"ll": "≪", "gg": "≫", "lt": "<", "gt": ">", "equiv": "≡", "propto": "∝", "prime": "'"},
    **{"mid": "|", "setminus": "∖", "subset": "⊂", "cup": "∪", "cap": "∩", "circ": "∘"},
    **{"forall": "∀"},
}
_ACCENTS = {"hat": "\u0302", "bar": "\u0304", "tilde": "\u0303", "dot": "\u0307"}
_NAMES = ("log", "exp", "max", "min", "lim", "sup", "arg", "ln", "det", "Pr")
_FONTS = r"\\(?:mathbb|mathcal|mathrm|mathbf|operatorname|text|left|right)(?![a-zA-Z])\*?\s*"
_DEEP = re.compile(r"[_^]\{[^{}]*[_^]|[_^]\{[^{}]*\{")
"""An index or a power that has one itself: no line of letters shows it."""
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$", re.DOTALL)
_COMMAND = re.compile(r"\\([a-zA-Z]+)\s*")
_FRACTION = re.compile(r"\\[dt]?frac\s*(?:\{([^{}]*)\}|(\w))\s*(?:\{([^{}]*)\}|(\w))")
_ACCENT = re.compile(r"\\(hat|bar|tilde|dot)(?![a-z])\s*(?:\{(\w)\}|(\w))")
_RAISED = re.compile(r"\^(?:\{([^{}]*)\}|(\S))")
_SMALL = str.maketrans("0123456789+-nitᵀ", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿⁱᵗᵀ")
_LOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def plain(text: str) -> str:
    """Text with $LaTeX$ as a line of plain letters; a formula that these cannot show is "…"."""
    return " ".join(_FORMULA.sub(lambda f: _letters(f[1] or f[2]), text).replace("`", "").split())


def _letters(formula: str) -> str:
    if _DEEP.search(formula):
        return "…"
    said = re.sub(_FONTS, "", re.sub(f"(?<=[a-zA-Z]){_FONTS}", " ", formula)).replace("\\|", "‖")
    said = said.replace("\\{", "⦃").replace("\\}", "⦄")  # braces that are shown
    said = _ACCENT.sub(lambda f: normalize("NFC", f"{f[2] or f[3]}{_ACCENTS[f[1]]}"), said)
    said = _FRACTION.sub(lambda f: f"{_held(f[1] or f[2])}/{_held(f[3] or f[4])}", said)
    said = re.sub(r"\\sqrt\{([^{}]*)\}", lambda f: f"√{_held(f[1])}", said)

    def letter(command: re.Match) -> str:
        name = command[1]
        return _GREEK.get(name) or (f" {name} " if name in _NAMES else command[0])

    said = _COMMAND.sub(letter, re.sub(r"\\[,;:! ]", "", said))
    said = re.sub(r" _(\{[^{}]*\}|\w)", r" \1 ", said)  # max over k
    said = re.sub(r"_\{ (\w+) \}", r"\1", said).replace(" (", "(").replace("( ", "(")
    said = re.sub(r"_(\d)|_\{(\d+)\}", lambda f: (f[1] or f[2]).translate(_LOW), said)
    said = _RAISED.sub(_raised, said)
    said = re.sub(r"[{}_]", "", said).replace("⦃", "{").replace("⦄", "}")
    return "…" if "\\" in said else " ".join(said.split())


def _held(term: str) -> str:
    """A sum, or a product with a name, in brackets."""
    return f"({term})" if re.search(r".[-+]|\\(log|ln|exp)", term) else term


def _raised(power: re.Match) -> str:
    """An exponent as small letters, where there are such, else after a ^. A star needs neither."""
    said = power[1] or power[2]
    if said in "*'" or set(said) <= set("0123456789+-nitᵀ"):
        return said.translate(_SMALL)
    return f"^{said}" if len(said) == 1 else f"^({said})"


@cache
def synonyms() -> dict[str, list[str]]:
    """What a reader may type -> what stands in the texts. Raises ValueError for a damaged file."""
    return read_yaml(_paths.root() / "data" / "synonyms.yaml", _SYNONYMS, ValueError)


def also(text: str) -> str:
    """The words by which a reader may look for a text that does not have them."""
    lower = text.lower()
    return "; ".join(s for s, forms in synonyms().items() if any(f.lower() in lower for f in forms))


def of_claim(row: dict) -> dict[str, str]:
    """A claim's entry of the index. row: of the ledger."""
    said = [row[name] for name in ("statement", "conditions", "added")]
    said.append(findings.left_open(row["open"]))
    said += [c[n] for c in row["checks"] for n in ("note", "counterexample", "correction")]
    text = plain(placed(" ".join(said), row["paper"]))
    paper = ledger.papers()[row["paper"]]
    answer = plain(claims.answer(row))
    return {
        "kind": "claim",
        "id": row["id"],
        "address": page_of(row["id"]),
        "place": place(row),
        "where": f"{paper['cite']} {row['id']} {row['where']}",
        "paper": f"{paper['name']} {paper['title']} {paper['authors']} {row['paper']}",
        "title": plain(row["title"]),
        "verdict": row["verdict"],
        "says": answer,
        "text": text,
        "also": also(f"{row['title']} {answer} {text}"),
    }


def names() -> dict[str, list[str]]:
    """What a query may call each paper: its key, citation, first author if no other has it."""
    cites = {key: paper["cite"].split() for key, paper in ledger.papers().items()}
    first = [words[0] for words in cites.values()]
    found = {}
    for key, paper in ledger.papers().items():
        name, year = cites[key][0], cites[key][-1]
        own = [name] if first.count(name) == 1 else []
        found[key] = sorted({key, paper["cite"], f"{name} {year}", *own, *paper["called"]})
    return found


def write_claims(rows: list[dict], stage: Path) -> None:
    """Write the claims' part of the index into the staging folder."""
    write_json(Path(stage) / CLAIMS, [of_claim(row) for row in rows])


def of_page(page: str, doctree: nodes.document) -> list[dict[str, str]]:
    """An entry for each section of a page, of its own text without formulas, code and tables of
    results; one for each term of a glossary."""
    found: list[dict[str, str]] = []
    titles = [node.astext() for node in doctree.findall(nodes.title)]
    for section in doctree.findall(nodes.section):
        title = _title(section)
        if not title or title in ledger.claims():  # a box; an entry of the errata, found as a claim
            continue
        own = [child for child in section.children if not _apart(child)]
        text = _line(_prose(child) for child in own)
        begins = _line(_prose(child, _letters) for child in own)
        first = section.parent is doctree or isinstance(section.parent, nodes.document)
        anchor = "" if first else f"#{section['ids'][0]}"
        found.append(
            {
                "kind": "page" if first else "section",
                "address": f"{page}.html{anchor}",
                "place": titles[0] if titles and not first else "",
                "title": title,
                "says": f"{begins[:200].rpartition(' ')[0]} …" if len(begins) > 200 else begins,
                "text": text,
                "also": also(f"{title} {text[:400]}"),
            }
        )
    return found


def _title(node: nodes.Node) -> str:
    """The title of a section. A box, which sphinx-proof makes a section, too, has none."""
    if not isinstance(node, nodes.section):
        return ""
    return next((c.astext() for c in node.children if isinstance(c, nodes.title)), "")


def _apart(node: nodes.Node) -> bool:
    return bool(_title(node)) or isinstance(node, (nodes.title, nodes.raw))


def _line(parts: Iterable[str]) -> str:
    return " ".join(" ".join(parts).split())


def _prose(node: nodes.Node, formula: Callable[[str], str] = lambda _: "…") -> str:
    """The running text of a node. formula: what it shows of a formula in the line."""
    if isinstance(node, nodes.math):
        return formula(node.astext())
    if isinstance(node, nodes.math_block):
        return "…"
    if isinstance(node, (nodes.raw, nodes.literal_block, nodes.comment, nodes.image)):
        return ""
    if isinstance(node, nodes.Text):
        return node.astext()
    if not isinstance(node, nodes.Element):
        return ""
    joint = "" if isinstance(node, nodes.TextElement) else " "
    return joint.join(_prose(child, formula) for child in node.children)


def of_glossary() -> list[dict[str, str]]:
    """An entry for each term of the glossary."""
    return [
        {
            "kind": "term",
            "address": f"{terms.PAGE}.html#{terms.key(term)}",
            "place": "Glossary",
            "title": term,
            "says": plain(entry["says"]),
            "text": " ".join(entry["forms"]),
            "also": also(term),
        }
        for section in terms.known().values()
        for term, entry in section.items()
    ]


class _Pages:
    """The parts of the pages collected while they are written."""

    def __init__(self) -> None:
        self.found: list[dict[str, str]] = []

    def see(self, app: Any, page: str, template: str, context: dict, doctree: Any) -> None:
        if doctree is not None and page != terms.PAGE:
            self.found += of_page(page, doctree)

    def finish(self, app: Any) -> Any:
        known = read_json(Path(app.srcdir) / CLAIMS, "`python -m clcore build` writes it")
        entries = [*known, *of_glossary(), *self.found]
        text = json.dumps(entries, ensure_ascii=False)
        called = json.dumps(names(), ensure_ascii=False)
        index = f"window.clIndex = {text};\nwindow.clPapers = {called};\n"
        write_atomic(Path(app.outdir) / INDEX, index.encode())
        yield "search", {"title": "Search"}, "search.html"


def _no_other(app: Any) -> None:
    app.builder.search = False


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx, whose own search is left out."""
    pages = _Pages()
    app.connect("builder-inited", _no_other)
    app.connect("html-page-context", pages.see)
    app.connect("html-collect-pages", pages.finish)
    return {"parallel_read_safe": True, "parallel_write_safe": False}  # the pages are seen by one
