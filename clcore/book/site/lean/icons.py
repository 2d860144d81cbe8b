"""The theme's icons as SVG in the page, in place of a script of 1.5 MB that draws them there."""

import re
from functools import cache
from pathlib import Path

SCRIPT = Path("_static", "scripts", "fontawesome.js")
_LOADED = re.compile(r"\s*<script[^>]*/fontawesome\.js[^>]*></script>")
_ICON = re.compile(r'<i class="(?P<classes>[^"]*\bfa-[^"]*)"(?P<more>[^>]*)></i>')
# How the script ends the icons of a style; within one, an icon is name:[width,height,[other names],
# "code","path"].
_ENDS = re.compile(r'\("(fab|far|fas)",')
_STYLES = {"fab": "fab", "fa-brands": "fab", "far": "far", "fa-regular": "far"}


class IconError(ValueError):
    """The theme asks for an icon that its script does not have."""


class Drawer:
    """Draws the icons of pages, from the shapes in the theme's script, which it removes."""

    def __init__(self, site: Path) -> None:
        """site: the folder of the site. Without the script, pages stay as they are."""
        script = site / SCRIPT
        self._shapes = ""
        if script.is_file():
            self._shapes = script.read_text(encoding="utf-8")
            for file in script.parent.glob("fontawesome.js*"):
                file.unlink()

    def __call__(self, page: str) -> str:
        """The HTML of a page with its icons drawn. Raises IconError for one that is not known."""
        if not self._shapes:
            return page
        return _ICON.sub(self._drawn, _LOADED.sub("", page))

    def _drawn(self, icon: re.Match) -> str:
        named = icon["classes"].split()
        style = next((_STYLES[name] for name in named if name in _STYLES), "fas")
        for name in named:
            if name.startswith("fa-") and (found := _shape(self._shapes, style, name[3:])):
                width, height, path = found
                return (
                    f'<svg class="svg-inline--fa {icon["classes"]}"{icon["more"]} '
                    f'aria-hidden="true" focusable="false" viewBox="0 0 {width} {height}">'
                    f'<path fill="currentColor" d="{path}"/></svg>'
                )
        raise IconError(
            f"expected an icon of {SCRIPT.name} in {icon[0]!r}, found none of that name; the theme "
            "has changed, see clcore/book/site/lean/icons.py"
        )


@cache
def _shape(script: str, style: str, name: str) -> tuple[str, str, str] | None:
    """Width, height and path of an icon, or None."""
    begin = 0
    for end in _ENDS.finditer(script):
        if end[1] == style:
            part = script[begin : end.start()]
            found = re.search(
                rf'[{{,]"?{re.escape(name)}"?:\[(\d+),(\d+),\[[^\]]*\],"[^"]*","([^"]*)"\]', part
            ) or re.search(
                rf'\[(\d+),(\d+),\[[^\]]*"{re.escape(name)}"[^\]]*\],"[^"]*","([^"]*)"\]', part
            )
            return (found[1], found[2], found[3]) if found else None
        begin = end.end()
    return None
