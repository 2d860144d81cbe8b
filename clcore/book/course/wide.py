"""Formulas in pieces that fit a slide: MathJax breaks no line inside a formula."""

import re

from clcore.ledger.tex import written

LONG = 30
"""A formula that is wider than so many letters is cut where a line may break."""

_TOKEN = re.compile(r"\\[a-zA-Z]+\s?|\\.|:=|[^\\]", re.DOTALL)
_MATH = re.compile(r"(?<![$\\])\$(?!\$)(.+?)\$", re.DOTALL)
_MARKED = re.compile(_MATH.pattern + r"([.,;:?!)]*)", re.DOTALL)
_RELATIONS = frozenset(
    ["=", ":=", "<", ">"]
    + [f"\\{n}" for n in ("le", "ge", "leq", "geq", "approx", "propto", "to", "equiv", "subseteq")]
    + [f"\\{n}" for n in ("Rightarrow", "mapsto", "ne", "sim", "ll", "gg", "in")]
)
_SIGNS = frozenset(("+", "-", r"\cdot", r"\circ", r"\otimes"))
_SMALL = frozenset(("_", "^"))
_FRACTIONS = frozenset((r"\frac", r"\tfrac", r"\dfrac"))
_SILENT = frozenset((r"\left", r"\right", r"\mathcal", r"\mathbb", r"\mathbf", r"\mathrm"))
_SPACE = "\u200b"  # no width: a line may break there


def cut(text: str) -> str:
    """Text with its long formulas split into separate formulas, between which a line may
    break: before a relation, a sign, or behind a comma, outside of braces. The mark behind a
    formula goes into it: else a line would begin with it."""
    return _MARKED.sub(_cut, text)


def _cut(found: re.Match) -> str:
    """A formula in pieces, with the mark behind it."""
    *most, last = pieces(written(found[1], formula=True))  # 6e-23 is no difference
    mark = rf"\text{{{found[2]}}}" if found[2] else ""
    return _SPACE.join(f"${piece}$" for piece in (*most, last + mark))


def pieces(formula: str) -> list[str]:
    r"""A formula without its dollars, in pieces. Those behind the first begin with {}, so that a
    relation keeps its space; \left ... \right stays whole."""
    if width(formula) <= LONG:
        return [formula]
    found, braces, round_, before = [""], 0, 0, ""
    for token in _TOKEN.findall(formula):
        name = token.strip()
        braces += (name in ("{", r"\left", r"\begin")) - (name in ("}", r"\right", r"\end"))
        sign = name in _SIGNS and before not in {"", "(", "[", ",", *_RELATIONS, *_SIGNS}
        listed = before == "," and name
        may = name in _RELATIONS or sign or listed
        if may and braces == 0 >= round_ and before not in _SMALL and found[-1].strip():
            found.append("{}")
        round_ += (name in ("(", "[")) - (name in (")", "]"))
        found[-1] += token
        before = name or before
    return _joined(found)


def _joined(found: list[str]) -> list[str]:
    """Pieces put together as long as they are short: few places to break a line, not many."""
    made = [found[0]]
    for piece in found[1:]:
        if width(made[-1] + piece) <= LONG:
            made[-1] += piece.removeprefix("{}")
        else:
            made.append(piece)
    return [piece.strip() for piece in made]


def width(formula: str) -> float:
    """About how many letters wide a formula is: a fraction as its wider half, scripts as less."""
    return _measured(_TOKEN.findall(formula))


def _measured(tokens: list[str]) -> float:
    """The width of a formula in tokens, in letters."""
    total, small = 0.0, False
    rest = [token.strip() for token in tokens if token.strip()]
    while rest:
        name = rest.pop(0)
        if name in _FRACTIONS:
            over, rest = _group(rest)
            under, rest = _group(rest)
            total += max(_measured(over), _measured(under))
        elif name in _SMALL:
            small = True
            continue
        elif name == "{":
            inside, rest = _group(["{", *rest])
            total += _measured(inside) * (0.7 if small else 1)
        elif name not in _SILENT and name != "}":
            words = len(name) - 1 if name in (r"\exp", r"\log", r"\min", r"\max", r"\arg") else 1
            total += words * (0.7 if small else 1)
        small = False
    return total


def _group(tokens: list[str]) -> tuple[list[str], list[str]]:
    """The first argument of a command, and what follows it."""
    if not tokens or tokens[0] != "{":
        return tokens[:1], tokens[1:]
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token == "{") - (token == "}")
        if depth == 0:
            return tokens[1:at], tokens[at + 1 :]
    return tokens[1:], []


def letters(text: str) -> float:
    """About how many letters wide a text with formulas is."""
    return len(_MATH.sub("", text)) + sum(width(found) for found in _MATH.findall(text))
