"""Text with LaTeX in it, as HTML; and numbers as people write them, with powers of ten."""

import re
from decimal import Decimal

from markupsafe import Markup, escape

_CODE = re.compile(r"`([^`\n]+)`")
_MATH = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$", re.DOTALL)


def typeset(text: str) -> Markup:
    r"""Text with $LaTeX$ as HTML in which MathJax finds \(...\) and \[...\].

    Text between backticks is code, and so is LaTeX without dollars: its start and end cannot be
    determined. A number such as 2e-14 is written as people do.
    """
    text = text.strip()
    if "$" not in text:
        code = Markup('<code class="cl-tex">{}</code>')
        return code.format(text) if "\\" in text else _coded(text)

    def one(match: re.Match) -> str:
        said = written(match[1] or match[2], formula=True)
        return rf"\[{said}\]" if match[1] else rf"\({said}\)"

    return _coded(_MATH.sub(one, text))


def _coded(text: str) -> Markup:
    pieces = _CODE.split(str(escape(text)))  # what is code stands at the odd places
    return Markup(
        "".join(f"<code>{p}</code>" if n % 2 else written(p) for n, p in enumerate(pieces))
    )


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
