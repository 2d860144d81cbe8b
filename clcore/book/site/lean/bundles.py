"""Style sheets and scripts of a page in one file each: a request costs a phone more than its bytes.

Order is kept. A style sheet that imports one has it in its place; addresses in it are as seen from
the new file. Scripts are joined where they follow one another and each is loaded in the same way.
"""

import hashlib
import itertools
import os
import posixpath
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from clcore._files import write_atomic

_SHEET = re.compile(r"<link\b[^>]*\brel=\"stylesheet\"[^>]*>")
_SCRIPTS = re.compile(
    r'(?:<script(?: defer(?:="defer")?)? src="[^"]*"></script>\s*){2,}', re.DOTALL
)
_SCRIPT = re.compile(r'<script(?P<defer> defer(?:="defer")?)? src="(?P<source>[^"]*)"></script>')
_PRELOADED = re.compile(r'\s*<link rel="preload" as="script"[^>]*>')
_SOURCE = re.compile(r'\bhref="([^"]*)"')
_IMPORT = re.compile(r"@import\s+(?:url\()?[\"']?([^\"')]+)[\"']?\)?;")
_URL = re.compile(r"url\(\s*([\"']?)(?!data:|https?:|#|/)([^\"')]+)\1\s*\)")
# The theme's font classes of two thousand icons; those that pages show are drawn in them.
_GLYPH = re.compile(r"(?:\.fa-[\w-]+:before,?)+\{content:[^}]*\}")
_MAP = re.compile(r"^//# sourceMappingURL=.*$|/\*# sourceMappingURL=.*?\*/", re.MULTILINE)


class Joiner:
    """Joins what the pages of a site load, into files of `_static` named by their content."""

    def __init__(self, site: Path) -> None:
        self._site = site
        self._made: dict[tuple[Path, ...], str] = {}

    def __call__(self, text: str, page: Path) -> str:
        """The HTML of a page that loads bundles."""
        tags = _SHEET.findall(text)
        found = (self._file(_href(tag), page) for tag in tags)
        sheets = [file for file in found if file is not None and file.is_file()]
        if len(tags) < 2 or len(sheets) < len(tags):
            return text
        up = os.path.relpath(self._site, page.parent).replace(os.sep, "/")
        address = f"{up}/{self._joined(tuple(sheets), 'css')}"
        first = iter([f'<link rel="stylesheet" type="text/css" href="{address}">'])
        text = _SHEET.sub(lambda _: next(first, ""), _PRELOADED.sub("", text))
        return _SCRIPTS.sub(lambda found: self._run(found[0], page, up), text)

    def _run(self, scripts: str, page: Path, up: str) -> str:
        """Scripts that follow one another, those of one way of loading in one."""
        made: list[str] = []
        by_way = itertools.groupby(_SCRIPT.finditer(scripts), lambda found: self._way(found, page))
        for way, found in by_way:
            if way is None:
                made += [one[0] for one in found]
                continue
            files = tuple(filter(None, (self._file(one["source"], page) for one in found)))
            made.append(f'<script {way}src="{up}/{self._joined(files, "js")}"></script>')
        return "\n".join(made) + "\n"

    def _way(self, script: re.Match, page: Path) -> str | None:
        """How a script is loaded; None for one that stays by itself, as one of another host, or
        MathJax, which finds its other files from where it lies."""
        file = self._file(script["source"], page)
        if file is None or not file.is_file() or "mathjax" in file.parts:
            return None
        return "defer " if script["defer"] else ""

    def _file(self, address: str, page: Path) -> Path | None:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            return None
        return Path(os.path.normpath(page.parent / unquote(parts.path)))

    def _joined(self, files: tuple[Path, ...], kind: str) -> str:
        if files not in self._made:
            read = self._style if kind == "css" else _script
            content = "\n".join(map(read, files)).encode()
            name = f"_static/all-{hashlib.sha256(content).hexdigest()[:12]}.{kind}"
            write_atomic(self._site / name, content)
            self._made[files] = name
        return self._made[files]

    def _style(self, file: Path) -> str:
        text = file.read_text(encoding="utf-8")
        folder = file.parent.relative_to(self._site).as_posix()

        def seen(url: re.Match) -> str:
            path = posixpath.normpath(posixpath.join(folder, url[2].strip()))
            return f'url("{posixpath.relpath(path, "_static")}")'

        def imported(found: re.Match) -> str:
            return self._style(Path(os.path.normpath(file.parent / found[1])))

        own = _URL.sub(seen, _MAP.sub("", text))
        return _GLYPH.sub("", _IMPORT.sub(imported, own))


def _script(file: Path) -> str:
    return f";{_MAP.sub('', file.read_text(encoding='utf-8'))}\n"


def _href(tag: str) -> str:
    found = _SOURCE.search(tag)
    return found[1] if found else ""
