"""Pages of code without marks that no style sheet colours, half of what such a page weighs.

Pygments marks each name, bracket and blank; most have the colour of the text around them.
"""

import re
from pathlib import Path

_MARK = re.compile(r'<span class="(?P<kind>[a-z]\w?)">(?P<text>[^<]*)</span>')
_CODE = re.compile(r'<div class="highlight"><pre>.*?</pre>', re.DOTALL)
_RULE = re.compile(r"(?P<theme>[^\n{}]*)\.highlight(?: \.(?P<kind>\w+))? \{(?P<said>[^}]*)\}")
_COLOUR = re.compile(r"(?:^|[;{\s])color: (#\w+)")


class Stripper:
    """Removes marks without a colour from the programs of pages."""

    def __init__(self, site: Path) -> None:
        """site: the folder of the site, whose style sheets determine which marks have a colour."""
        sheets = [*site.glob("_static/pygments*.css"), *site.glob("code/*.css")]
        self._coloured: set[str] = set()
        for sheet in sheets:
            self._coloured |= _coloured(sheet.read_text(encoding="utf-8"))

    def __call__(self, page: str) -> str:
        """The HTML of a page with fewer marks; its text is the same."""
        return _CODE.sub(lambda code: _MARK.sub(self._kept, code[0]), page)

    def _kept(self, mark: re.Match) -> str:
        kept = mark["kind"] in self._coloured and mark["text"].strip()
        return mark[0] if kept else mark["text"]


def _coloured(sheet: str) -> set[str]:
    """Kinds of marks that a style sheet gives another look than the text around them."""
    rules = [(rule["theme"], rule["kind"], rule["said"]) for rule in _RULE.finditer(sheet)]
    around = {theme: _COLOUR.findall(said)[-1:] for theme, kind, said in rules if kind is None}
    return {
        kind
        for theme, kind, said in rules
        if kind and (said.split() != ["color:", *around.get(theme, [])])
    }
