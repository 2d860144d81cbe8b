"""Text with formulas in it, as HTML; and numbers as people write them, with powers of ten."""

import re
from decimal import Decimal

from markupsafe import Markup, escape

from clcore.ledger.written.symbols import symbols

_APART = re.compile(r"(\$\$.+?\$\$|\$.+?\$|`[^`\n]+`)", re.DOTALL)


def typeset(text: str) -> Markup:
    r"""Text with $LaTeX$ as HTML in which MathJax finds \(...\) and \[...\].

    Text between backticks is code, and so is LaTeX without dollars: its start and end cannot be
    determined. A number such as 2e-14 is written as people do, and so is a formula without dollars,
    such as alpha_ij >= 0.
    """
    text = text.strip()
    if "$" not in text and "\\" in text:
        return Markup('<code class="cl-tex">{}</code>').format(text)
    # Whole formulas and code stand at the odd places.
    return Markup(
        "".join(_one(p) if at % 2 else _plain(p) for at, p in enumerate(_APART.split(text)))
    )


def _plain(text: str) -> str:
    return written(str(symbols(text)))


def _one(apart: str) -> str:
    """What stands between dollars or backticks."""
    if apart[0] == "`":
        return f"<code>{escape(apart[1:-1])}</code>"
    dollars = 2 if apart.startswith("$$") else 1
    said = escape(written(apart[dollars:-dollars], formula=True))
    return rf"\[{said}\]" if dollars == 2 else rf"\({said}\)"


POWERED = re.compile(
    r"(?<![\w.])(?P<sign>[-−+]?)(?P<digits>\d+(?:\.\d+)?)[eE](?P<power>[+-]?\d{1,3})(?![\w.]*\w)"
)
"""A number in the notation of programs."""

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PLAIN = range(-4, 6)
"""Powers of ten that are written out."""


def written(text: str, formula: bool = False) -> str:
    """Text with every number like 2.1e-14 as 2.1·10⁻¹⁴; formula: as LaTeX. One without an exponent
    stays, and so does a name such as 1e-model."""

    def one(found: re.Match) -> str:
        power, digits = int(found["power"]), found["digits"]
        if power in _PLAIN:
            return found["sign"] + f"{Decimal(f'{digits}e{power}'):f}"
        raised = f"10^{{{power}}}" if formula else f"10{str(power).translate(_RAISED)}"
        times = r"\cdot " if formula else "·"
        return found["sign"] + (raised if float(digits) == 1 else f"{digits}{times}{raised}")

    return POWERED.sub(one, text)
