"""Formulas in the line keep the punctuation behind them: a browser sets a formula as a box, behind
which it may begin a new line, also before a full stop."""

import re

_APART = r"<(?P<apart>script|style|pre|code|title|textarea|svg|math)\b.*?</(?P=apart)>|<!--.*?-->"
_TAG = r"""<(?:[^<>"']|"[^"]*"|'[^']*')*>"""
_TEX = r"\\\((?:(?!\\\)).)*\\\)"
_FORMULA = rf'<span class="math notranslate nohighlight">{_TEX}</span>|{_TEX}'
_PIECE = re.compile(
    rf"{_APART}|(?P<kept>[(\[“]*(?:{_FORMULA})(?:[.,;:!?)\]”’]+|[-’']\w+))|{_TAG}", re.DOTALL
)


def keep(page: str) -> str:
    """The HTML of a page, each formula in the line held together with the marks around it."""

    def held(piece: re.Match) -> str:
        return f'<span class="cl-kept">{piece["kept"]}</span>' if piece["kept"] else piece[0]

    return _PIECE.sub(held, page)
