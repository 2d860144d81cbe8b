"""What stands in the ledger under short names, as a slide says it: symbols set."""

import re

from clcore.ledger.written.symbols import GREEK

_GREEK = {name: rf"\{name}" for name in GREEK} | {"eps": r"\epsilon"}
_NAMES = "|".join(sorted(_GREEK, key=len, reverse=True))
_SIGNS = {"<=": r"\le ", ">=": r"\ge ", "kron": r"\otimes "} | {sign: sign for sign in "=<>+-"}
_SCRIPT = r"[_^](?:\{[^{}]*\}|[<>]=|[A-Za-z0-9]+|[*+-])"
_SYMBOL = re.compile(
    rf"(?<![A-Za-z0-9\\])(?:({_NAMES})(?![A-Za-z])('*)((?:{_SCRIPT})*)"
    rf"|([A-Za-z])((?:{_SCRIPT})+)|([a-z])(\d))(?![A-Za-z0-9])"
)
_PLAIN = re.compile(r"±?\d+(?:\.\d+)?|[A-Za-z]")
_WORDS = frozenset(("a", "A", "I"))


def symbols(name: str) -> str:
    r"""The name of a part or a control with what is a formula in it between dollars: `b above 1 -
    alpha^2 kappa` -> b above $1-\alpha^2\,\kappa$. What has dollars already stays."""
    pieces = name.replace("+-", "±").split("$")
    return "$".join(p if at % 2 else _set(p) for at, p in enumerate(pieces))


def _set(text: str) -> str:
    """Words and symbols -> words, and formulas of neighbouring symbols, numbers and signs."""
    words = text.split(" ")
    made, run = [], []
    for at, word in enumerate(words):
        before, core, after = _parted(word)
        near = words[max(at - 1, 0) : at] + words[at + 1 : at + 2]
        kind = _kind(core, near)
        if before or kind is None:
            made += _closed(run)
            run = []
        if kind is None:
            made.append(_SYMBOL.sub(lambda found: f"${_tex(found)}$", word))
            continue
        if core[:1].isdigit() and run and run[-1][0] == "symbol":  # "eps 0.1" is no product
            made += _closed(run)
            run = []
        run.append((kind, word))
        if after:
            made += _closed(run)
            run = []
    return " ".join(made + _closed(run))


def _parted(word: str) -> tuple[str, str, str]:
    """A word with the brackets before it and the marks behind it apart."""
    core = word.lstrip("([|")
    bare = core.rstrip(",;:.)]|")
    return word[: len(word) - len(core)], bare, core[len(bare) :]


def _kind(core: str, near: list[str]) -> str | None:
    """Whether a word is a symbol, a sign or plain (a number, a letter); None for another."""
    if _SYMBOL.fullmatch(core):
        return "symbol"
    if core == "x" and len(near) == 2 and all(map(_SYMBOL.fullmatch, near)):
        return "sign"
    if core in _SIGNS:
        return "sign"
    article = core in _WORDS and not any(word in _SIGNS for word in near)
    return "plain" if _PLAIN.fullmatch(core) and not article else None


def _closed(run: list[tuple[str, str]]) -> list[str]:
    """A run of such words as one formula, without the signs that it begins and ends with; as they
    are, where none of them is a symbol and no sign stands between two of them."""
    for end in (0, -1):
        if run and run[end][0] == "sign":
            rest = _closed(run[:-1] if end else run[1:])
            return [*rest, run[-1][1]] if end else [run[0][1], *rest]
    kinds = [kind for kind, _ in run]
    signed = "sign" in kinds and any(word[:1].isalpha() for _, word in run)
    if not ("symbol" in kinds or signed):
        return [word for _, word in run]
    before, after = _parted(run[0][1])[0], _parted(run[-1][1])[2]
    made, last = "", "sign"
    for kind, core in ((kind, _parted(word)[1]) for kind, word in run):
        made += "" if "sign" in (kind, last) else r"\,"
        made += _SIGNS.get(core, r"\times ") if kind == "sign" else _SYMBOL.sub(_tex, core)
        last = kind
    made = made.replace("±", r"\pm ")
    return [f"{before}${made}${after}"]


def _tex(found: re.Match) -> str:
    """A symbol in LaTeX."""
    greek, primes, scripts, letter, more, indexed, digit = found.groups()
    if indexed:
        return f"{indexed}_{digit}"
    base = _GREEK[greek] + primes if greek else letter
    return base + "".join(map(_script, re.findall(_SCRIPT, scripts or more or "")))


def _script(text: str) -> str:
    """A sub- or superscript in LaTeX; a word of three letters or more is set upright."""
    mark, what = text[0], text[1:].strip("{}")
    if what in ("<=", ">="):
        what = _SIGNS[what].strip()
    elif re.fullmatch(r"[a-zA-Z]{3,}", what) and what not in _GREEK:
        what = rf"\mathrm{{{what}}}"
    else:
        what = re.sub(rf"(?<![A-Za-z])({_NAMES})(?![A-Za-z])", lambda f: _GREEK[f[1]], what)
    return mark + (what if len(what) == 1 else f"{{{what}}}")
