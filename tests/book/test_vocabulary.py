"""Turns of phrase that readers had to decode, found by pattern in everything that a page shows."""

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from clcore import _paths

TICS = {
    r"\b(comes?|came|coming) out\b": "is reproduced; the result is",
    r"\bh(angs?|ung) on\b": "depends on",
    r"\b(one|1|end|start|largest|most|sum) less (the |of |a |start|smallest|end)": "minus",
    r"\b(dot|run|runs|net|nets|seeds?|point|row|steps?|epochs?|draws?|samples?|file|ms) an? "
    r"(seed|run|row|cell|setting|step|epoch|layer|sample|node|panel|chapter|paper|second)\b": "per",
    r"\b(one|two|start|line|colour|dots|row) an? (seed|loss|layer|depth|field|object|Pr)\b": "per",
    r"\b(dots|starts|size|one|block|filters|negatives?|key|growth|nodes) an? "
    r"(run|gap|layer|edge|field|token|anchor|draw|half-round)\b": "per",
    r"\b(is|are) read of\b": "is applied to",
    r"\btested (is|are) (that|what|our)\b|\bcan fail but our\b": "we test that; we test our code",
    r"\bis (told|said) of\b": "is listed for; is stated for",
    r"\bnone the (less|worse)\b": "still",
    r"\bit matters to who\b": "it matters to anyone who",
    r"\b\d(\.\d+)?e-?\d+\b": "a number as people write it, 0.52 or $10^{-10}$",
    r"\b(derivative|gradient|Jacobian)s? by (?!hand|autograd|complex)": "with respect to",
    r"\b(exact|covariance|InfoNCE|operator|loss) less (?!than)": "minus (a difference)",
    r"\bonce more\b": "again; restates",
    r"\bhears? (of|from)\b": "uses; is influenced by",
    r"\bturns? (it |them )?round\b": "reverses; changes sign",
    r"\bstands? still\b": "does not move",
    r"\bthe chance (of|that)\b|\bwith chance\b": "the probability",
    r"\bwhat (decides|remains|vanishes|breaks \w+) (is|are)\b": "name the subject first",
    r"\bis another (one|vector|function)\b": "differs",
    r"\b(say|tell)s? nothing of\b": "does not cover; does not concern",
    r"\bmend(s|ed)?\b": "correct; repair",
    r"\b(edge|case|anything) (left out )?that nobody means\b": "an unintended edge case",
    r"\bask(s|ed) for\b|\b(theorems|lemmas|assumptions|conclusions|fields) ask for\b": "requires",
    r"\bg(ives?|ave|iven) away\b": "loses (a factor); reveals",
    r"\bas the paper (says|has it)\b": "according to the paper; the paper is right that",
    r"\bfor ever\b": "forever",
    r"\b(threshold|condition|reading|setting)s? of ours\b": "our threshold; an added condition",
}
"""Pattern -> what to write instead."""

EXCEPTIONS = {
    "rerun.md": r"\d+e-?\d+",
    "library.md": r"\d+e-?\d+",
}
"""Text -> a pattern of what it may have: settings and output of programs."""


def strings(value: object) -> Iterator[str]:
    """All texts in what a YAML file holds."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from strings(each)
    elif isinstance(value, str):
        yield value


def prose(text: str) -> str:
    """Without code, formulas, directives' options and links' addresses."""
    text = re.sub(r"(?ms)^(`{3,}|~{3,})(python|console|text|bash|mermaid).*?^\1", " ", text)
    text = re.sub(r"(?s)\$\$.*?\$\$|\$[^$]*\$|`[^`]*`|\]\([^)]*\)|\{=[^}]*\}", " ", text)
    return " ".join(text.split())


def texts() -> Iterator[tuple[str, str]]:
    """(where, prose) of pages, chapters, the ledger's words, and templates of pages and letters."""
    root = _paths.root()
    for file in sorted((root / "book").glob("*.md")):
        yield file.name, prose(file.read_text(encoding="utf-8"))
    for file in sorted((root / "chapters").glob("*.ipynb")):
        for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
            for text in strings(cell["metadata"]):  # captions, and texts in place of pictures
                yield f"{file.stem}, cell {cell['id']}", prose(text)
            if cell["cell_type"] == "markdown":
                yield f"{file.stem}, cell {cell['id']}", prose("".join(cell["source"]))
    data = root / "data"
    ours = (*data.glob("findings/*.yaml"), *data.glob("headlines/*.yaml"))
    for file in sorted((root / "clcore/book/site/templates").glob("*.[ht]*")):
        text = re.sub(r"(?s)\{[{%#].*?[}%#]\}|<[^>]*>", " ", file.read_text(encoding="utf-8"))
        yield f"templates/{file.name}", prose(text)
    for file in (*sorted(ours), data / "glossary.yaml", data / "course.yaml"):
        for text in strings(yaml.safe_load(file.read_text(encoding="utf-8"))):
            yield f"{file.parent.name}/{file.name}", prose(text)


@pytest.fixture(scope="module")
def prints() -> list[tuple[str, str]]:
    """What `texts` gives, read once."""
    return list(texts())


@pytest.mark.parametrize("tic", TICS, ids=[*TICS.values()])
def test_pages_are_free_of(tic, prints):
    found = []
    for where, text in prints:
        for match in re.finditer(tic, text, re.IGNORECASE):
            allowed = EXCEPTIONS.get(where.split(",")[0])
            if allowed is None or not re.fullmatch(allowed, match[0]):
                around = text[max(match.start() - 40, 0) : match.end() + 30]
                found.append(f"{where}: ...{around}... (better: {TICS[tic]})")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "tic",
    [
        "all of it comes out",
        "it hangs on the ten",
        "one less the cosine",
        "ten nets a cell",
        "the gradient by the weights",
        "exact less InfoNCE",
        "it stands still",
        "what decides is the noise",
        "the chance that it stays",
        "the sign turns round",
        "the theorem asks for a bias",
        "the proof gives away a factor",
        "40 starts a gap",
        "tested is that, by loops",
        "this is read of each latent",
    ],
)
def test_a_tic_is_found(tic):
    assert any(re.search(pattern, tic) for pattern in TICS)


SHORT = r"\b(PI|RFs?|BN|NC|PSD|iid|std|Psparse|init)\b|\b[sw]\.(r\.)?t\.|\biff\b|\bHeadline:"
"""What a row's Given and Claimed write out, since they stand alone; a quotation has the print's."""


@pytest.mark.parametrize("paper", ["acl", "ddn", "nl", "ncl"])
def test_what_is_given_and_claimed_is_written_out(paper):
    file = _paths.root() / "data" / "claims" / f"{paper}.yaml"
    rows = yaml.safe_load(file.read_text(encoding="utf-8"))["claims"]
    told = {row["id"]: f"{row['conditions']} {row['statement']}" for row in rows}
    plain = {key: re.sub(r'"[^"]*"', " ", prose(text)) for key, text in told.items()}
    assert len(plain) > 80
    assert not {key: found[0] for key, text in plain.items() if (found := re.search(SHORT, text))}


@pytest.mark.parametrize(
    "short", ["Random init.", "iid inputs", "min s.t. p", "w.r.t. W", "the BN"]
)
def test_an_abbreviation_is_found(short):
    assert re.search(SHORT, short)
