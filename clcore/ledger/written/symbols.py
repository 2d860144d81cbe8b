r"""Formulas in the letters of a docstring or of the name of a part, as HTML: s_km^2 <= alpha as a
reader expects it.

An index or a power stands small below or above, a Greek letter's name is the letter, and relations
are signs. What LaTeX can say better has dollars.
"""

import html
import re

from markupsafe import Markup, escape

_LETTERS = (
    "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi "
    "psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega"
)
GREEK = {name: html.unescape(f"&{name};") for name in _LETTERS.split()} | {"eps": "ε"}
_NAMES = "|".join(sorted(GREEK, key=len, reverse=True))
_SIGNS = {"->": "→", "!=": "≠", "<=": "≤", ">=": "≥", "+-": "±", "perp": "⊥", "inf": "∞"}
_ACCENTS = {"~": "\u0303", "^": "\u0302", "bar": "\u0304"}

_TOKEN = re.compile(
    rf"(?P<code>\b(?!(?:{_NAMES})_)[a-z]{{5,}}_[a-z]{{4,}}\b)"  # leaky_relu
    r"|(?P<accent>(?<=[A-Za-z])(?:~|bar(?![A-Za-z])|\^(?=[\s^,;:]|\([^()]*,)))"
    r"|(?P<script>(?:(?<=[\w)\]}|~'*^])|(?<=_[+-]))[_^](?:\{[^{}]*\}"
    r"|(?<=\^)\([^(),]*\)|(?<=\^)\|[^|\s]*\|"  # a power, not the arguments of R^(c, y)
    r"|(?<=\^)[+-]?(?:\d+(?:\.\d+)?|[A-Za-z]+)"
    r"|(?<=_)[a-z]-1(?![\w.])|(?<=_)[+-]?[A-Za-z\d]+(?:,[A-Za-z\d]+(?:-\d)?)?(?:[*+-](?![\w({|\[]))?"
    r"|>=|>|[*+-]))"
    rf"|(?P<greek>(?<![A-Za-z])(?:(?P<of>d)(?=theta|psi|phi|alpha))?(?P<name>{_NAMES})(?![A-Za-z]))"
    r"|(?P<sum>\b(?:sum|prod|int)(?=_))"
    r"|(?P<root>\bsqrt(?=\())"
    r"|(?P<range>(?<=\d)\.\.(?=\d))"  # 2..5
    r"|(?P<sign>->|!=|<=|>=|\+-(?=[\w(])|(?<=\s)\+-(?=\s))"
)
_BIG = {"sum": "∑", "prod": "∏", "int": "∫"}


def symbols(text: str) -> Markup:
    """Text with such formulas as HTML, escaped."""
    made, at = Markup(""), 0
    for found in _TOKEN.finditer(text):
        made += escape(text[at : found.start()]) + _one(found)
        at = found.end()
    return made + escape(text[at:])


def _one(found: re.Match) -> Markup:
    said = found[0]
    if found["code"]:
        return Markup("<code>{}</code>").format(said)
    if found["accent"]:
        return Markup(_ACCENTS[said])
    if found["script"]:
        return _script("sub" if said[0] == "_" else "sup", said[1:])
    if found["range"]:
        return Markup(" to ")
    if found["greek"]:
        return Markup((found["of"] or "") + GREEK[found["name"]])
    return Markup(_BIG.get(said) or ("√" if found["root"] else _SIGNS[said]))


def _script(tag: str, said: str) -> Markup:
    """What stands below or above, without its braces, or brackets that hold more than a letter."""
    inner = said[1:-1] if said[0] == "{" or (said[0] == "(" and len(said) > 3) else said
    shown = _SIGNS[inner] if inner in _SIGNS else symbols(inner)
    return Markup(f"<{tag}>{{}}</{tag}>").format(shown)
