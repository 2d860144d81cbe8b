"""Text with LaTeX in it, as HTML."""

import re

from markupsafe import Markup, escape

_CODE = re.compile(r"`([\w./ -]+)`")
_MATH = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$", re.DOTALL)


def typeset(text: str) -> Markup:
    r"""Text with $LaTeX$ as HTML in which MathJax finds \(...\) and \[...\].

    What stands between backticks is code, and so is LaTeX without dollars: where that starts and
    ends cannot be told.
    """
    text = text.strip()
    if "$" not in text:
        code = Markup('<code class="cl-tex">{}</code>')
        return code.format(text) if "\\" in text else _coded(text)

    def one(match: re.Match) -> str:
        return rf"\[{match[1]}\]" if match[1] else rf"\({match[2]}\)"

    return _coded(_MATH.sub(one, text))


def _coded(text: str) -> Markup:
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))
