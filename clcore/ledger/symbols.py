"""Formulas as a docstring or the name of a part writes them, `|alpha_ij|^2 <= 1/tau`, as HTML that
reads like print: |α<sub>ij</sub>|<sup>2</sup> ≤ 1/τ."""

import html
import re

_SMALL = "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi"
_REST = "chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega"
GREEK = f"{_SMALL} {_REST} eps".split()
_LETTERS = {name: html.unescape(f"&{name};") for name in GREEK} | {"eps": "ε"}
_NAMES = "|".join(sorted(GREEK, key=len, reverse=True))

# What has an index besides a letter: a longer word with an underscore is a name in a program.
_WORDS = "sum|prod|max|min|tr|diag|det|Cov|int|pre|dpre|EV|VE|IN|OP|SReLU|Kbar|vbar"
_RAISED = r"\^(?:\{[^{}]*\}|\([^()]*\)|[+-]?(?:\d+\.\d+|[A-Za-z0-9]+'*)|[*+-])"
_LOWERED = r"_(?:\{[^{}]*\}|&[lg]t;=?|~?[A-Za-z0-9]+'*|[*+-])"
_SCRIPTS = re.compile(
    rf"(?P<base>(?<![A-Za-z0-9_])(?:d?(?:{_NAMES}|[A-Za-z])|{_WORDS})[~']*|[\])|])"
    rf"(?P<scripts>(?:{_LOWERED}|{_RAISED})+)|(?<=[\w'~])(?P<power>{_RAISED})"
)
_ONE = re.compile(rf"{_LOWERED}|{_RAISED}")
_GREEK = re.compile(rf"(?<![A-Za-z\\_&])(d?)({_NAMES})(?![A-Za-z])")
_SIGNS = {"&lt;=": "≤", "&gt;=": "≥", "!=": "≠", "+-": "±", "-&gt;": "→"}
_RAISED_WORDS = {"inf": "∞", "perp": "⊥"}
_ROOT = re.compile(r"\bsqrt ?(?=\(|[A-Za-z0-9]\b)")


def symbols(text: str) -> str:
    """Text as HTML, escaped, with its Greek letters, indices, powers and signs as in print."""
    made = _scripted(html.escape(text, quote=False))
    made = _GREEK.sub(lambda found: found[1] + _LETTERS[found[2]], _ROOT.sub("√", made))
    for sign, said in (_SIGNS | {"'": "&#39;", '"': "&#34;"}).items():
        made = made.replace(sign, said)
    return made


def _scripted(escaped: str) -> str:
    return _SCRIPTS.sub(
        lambda found: (found["base"] or "") + _ONE.sub(_script, found["scripts"] or found["power"]),
        escaped,
    )


def _script(found: re.Match) -> str:
    """One index or power; what is only there to hold it together goes."""
    tag, inner = "sub" if found[0][0] == "_" else "sup", found[0][1:]
    if inner[0] == "{" or (inner[0] == "(" and len(inner) > 3):  # f^(l) keeps its own
        inner = inner[1:-1]
    return f"<{tag}>{_RAISED_WORDS.get(inner) or _scripted(inner)}</{tag}>"
