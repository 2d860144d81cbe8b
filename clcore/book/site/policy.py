"""The content security policy of every page: what a browser runs and loads there, and nothing else.

Scripts come from files of the site, or are those that the theme writes into a page by itself, named
by their hashes. One that got into a page with its content, with a statement or an error message,
is in no file and has no hash: it does not run.
"""

import base64
import contextlib
import hashlib
import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path

_OURS = "'self' file:"  # from a disk some browsers see a host of its own in every page
_HANDLERS = ("window.print()", "toggleFullScreen()")
"""Of the theme's buttons."""
_REVEAL = "_static/revealjs/"
_RUNS = ("claims/", "book/errata/", "book/ledger.html")
"""How the addresses of pages begin on which a reader runs programs."""
_NOTES = "_static/revealjs/plugin/notes/notes.js"
_SPEAKER = re.compile(r"<script>((?:\\.|[^\"\\])*?)<\\/script>", re.DOTALL)


class _HeadEnds(Exception):
    """What was looked for stands before."""


class _Page(HTMLParser):
    """Where the charset of a page ends, and its inline scripts, as a browser reads them: what looks
    like a tag in a text, an attribute or a comment is none. whole: with those of the body, which
    takes a hundred times as long."""

    def __init__(self, page: str, whole: bool = False) -> None:
        super().__init__(convert_charrefs=True)
        self.charset: int | None = None
        self.head: list[str] = []
        self.body: list[str] = []
        self.behind: list[str] = []  # the last script of reveal, which stands behind all content
        self._in_head, self._script = True, None
        self._starts = [0, *accumulate(map(len, page.splitlines(keepends=True)))]
        self._whole = whole
        with contextlib.suppress(_HeadEnds):
            self.feed(page)
            self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "body":
            self._leave_head()
        if tag == "meta" and "charset" in given and self._in_head and self.charset is None:
            line, column = self.getpos()
            self.charset = self._starts[line - 1] + column + len(self.get_starttag_text() or "")
        if tag == "script":
            source = given.get("src")
            if source is None and "json" not in (given.get("type") or ""):
                self._script = ""
            if (source or "").startswith(_REVEAL) and not self._in_head:
                self.behind.clear()

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self._script += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "script" and self._script is not None:
            for kept in [self.head] if self._in_head else [self.body, self.behind]:
                kept.append(self._script)
            self._script = None
        if tag == "head":
            self._leave_head()

    def _leave_head(self) -> None:
        self._in_head = False
        if not self._whole:
            raise _HeadEnds


def apply(folder: Path, slides: bool = False) -> None:
    """Write the policy into every page below a folder. slides: those of a course, not of the book.
    Raises ValueError for a page without a head that declares its charset, after which the policy
    is inserted."""
    notes = folder / _NOTES
    more = [_of_the_speaker(notes.read_text(encoding="utf-8"))] if notes.exists() else []
    for page in sorted(folder.rglob("*.html")):
        name = page.relative_to(folder)
        if "_static" in name.parts:
            continue  # pieces of the theme, which no page shows
        text = page.read_bytes().decode()
        at = _Page(text).charset
        if at is None:
            raise ValueError(f"{name}: expected <meta charset=...>, found none")
        said = policy(text, name.as_posix(), more, slides)
        meta = f'<meta http-equiv="Content-Security-Policy" content="{said}">'
        page.write_bytes((text[:at] + meta + text[at:]).encode())


def policy(page: str, name: str, more: Sequence[str] = (), slides: bool = False) -> str:
    """The policy of one page, from its HTML.

    name: its address in the site. more: scripts that it may write into its windows. slides: whether
    it is a deck of slides, whose makers write scripts behind the last one.
    """
    search = name == "search.html"  # all of its scripts: it has no content
    parts = _Page(page, whole=search or slides)
    own = parts.head + (parts.body if search else parts.behind if slides else [])
    scripts = dict.fromkeys(_hash(code) for code in (*own, *more))
    scripts |= dict.fromkeys(["'unsafe-hashes'", *map(_hash, _HANDLERS)])
    # Of the site's own files; asked for where a worker has the policy of its page.
    wasm = ["'wasm-unsafe-eval'"] if name.startswith(_RUNS) else []
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_OURS} {' '.join((*scripts, *wasm))}",
            f"style-src {_OURS} 'unsafe-inline'",  # MathJax writes its own
            f"img-src {_OURS} data:",
            f"font-src {_OURS}",
            f"connect-src {_OURS}",
            f"frame-src {_OURS}" if slides else "frame-src 'none'",  # a speaker's view
            f"form-action {_OURS}",
            "base-uri 'none'",
        )
    )


def _of_the_speaker(plugin: str) -> str:
    """The script of the speaker's view, which reveal's plugin has as a string and writes into a
    window that keeps the policy of its slides. Raises ValueError where it is not as expected."""
    found = _SPEAKER.findall(plugin)
    if len(found) != 1:
        raise ValueError(f"{_NOTES}: expected one script inside a string, found {len(found)}")
    return json.loads(f'"{found[0]}"')


def _hash(code: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"
