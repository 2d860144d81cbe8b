"""Text with LaTeX in it, as HTML."""

import re

from markupsafe import Markup, escape

_MATH = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$", re.DOTALL)


def typeset(text: str) -> Markup:
    r"""Text with $LaTeX$ as HTML in which MathJax finds \(...\) and \[...\].

    LaTeX without dollars is shown as code: where it starts and ends cannot be told.
    """
    text = text.strip()
    if "$" not in text:
        code = Markup('<code class="cl-tex">{}</code>')
        return code.format(text) if "\\" in text else escape(text)

    def one(match: re.Match) -> str:
        return rf"\[{match[1]}\]" if match[1] else rf"\({match[2]}\)"

    return escape(_MATH.sub(one, text))
