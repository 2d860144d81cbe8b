"""The content security policy of every page: what a browser runs and loads there, and nothing else.

Scripts come from files of the site, or are those that the theme writes into a page by itself, named
by their hashes. One that got into a page with its content, with a statement or an error message,
is in no file and has no hash: it does not run.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

_OURS = "'self' file:"  # from a disk some browsers see a host of its own in every page
_HANDLERS = ("window.print()", "toggleFullScreen()")
"""Of the theme's buttons."""
_SCRIPT = re.compile(r"<script(?![^>]*\bsrc=)([^>]*)>(.*?)</script>", re.DOTALL | re.IGNORECASE)
_CHARSET = re.compile(r"<meta charset=[^>]*>", re.IGNORECASE)
_SLIDES = '<script src="_static/revealjs/'
_RUNS, _SHOWS_THEM = 'class="cl-run-start"', 'class="cl-ledger"'
_NOTES = "_static/revealjs/plugin/notes/notes.js"
_SPEAKER = re.compile(r"<script>((?:\\.|[^\"\\])*?)<\\/script>", re.DOTALL)


def apply(folder: Path) -> None:
    """Write the policy into every page below a folder. Raises ValueError for a page without a head
    that says its charset, behind which the policy stands."""
    notes = folder / _NOTES
    more = [_of_the_speaker(notes.read_text(encoding="utf-8"))] if notes.exists() else []
    for page in sorted(folder.rglob("*.html")):
        if "_static" in page.relative_to(folder).parts:
            continue  # pieces of the theme, which no page shows
        text = page.read_bytes().decode()
        head = _CHARSET.search(text)
        if not head:
            raise ValueError(f"{page.relative_to(folder)}: expected <meta charset=...>, found none")
        said = policy(text, page.name, more)
        meta = f'<meta http-equiv="Content-Security-Policy" content="{said}">'
        page.write_bytes((text[: head.end()] + meta + text[head.end() :]).encode())


def policy(page: str, name: str, more: Sequence[str] = ()) -> str:
    """The policy of one page, from its HTML. more: scripts that it may write into its windows."""
    scripts = dict.fromkeys(_hash(code) for code in (*_of_the_theme(page, name), *more))
    scripts |= dict.fromkeys(["'unsafe-hashes'", *map(_hash, _HANDLERS)])
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_OURS} {' '.join((*scripts, *_wasm(page)))}",
            f"style-src {_OURS} 'unsafe-inline'",  # MathJax writes its own
            f"img-src {_OURS} data:",
            f"font-src {_OURS}",
            f"connect-src {_OURS}",
            f"frame-src {_OURS}" if _SLIDES in page else "frame-src 'none'",  # a speaker's view
            f"form-action {_OURS}",
            "base-uri 'none'",
        )
    )


def _wasm(page: str) -> list[str]:
    """Compiled code of the site's own files, where a reader may run programs; a browser asks for it
    where a worker has its page's policy. The ledger shows such pages inside its rows."""
    return ["'wasm-unsafe-eval'"] if _RUNS in page or _SHOWS_THEM in page else []


def _of_the_theme(page: str, name: str) -> list[str]:
    """The inline scripts of a page that did not come with its content: those of its head; on the
    search page, which has no content, all; on slides those behind the last slide."""
    head, _, body = page.partition("</head>")
    behind = body[body.rfind(_SLIDES) :] if _SLIDES in body else ""
    own = page if name == "search.html" else head + behind
    return [code for kind, code in _SCRIPT.findall(own) if "json" not in kind]


def _of_the_speaker(plugin: str) -> str:
    """The script of the speaker's view, which reveal's plugin has as a string and writes into a
    window that keeps the policy of its slides. Raises ValueError where it is not as expected."""
    found = _SPEAKER.findall(plugin)
    if len(found) != 1:
        raise ValueError(f"{_NOTES}: expected one script inside a string, found {len(found)}")
    return json.loads(f'"{found[0]}"')


def _hash(code: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"
