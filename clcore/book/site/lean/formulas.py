"""MathJax in the parts that pages use: the whole bundle is half as large again, by its menu."""

import json
import re

_START = re.compile(r'<script\b[^>]*\bsrc="([^"]*/mathjax/)startup\.js"[^>]*>')
_LOADED = re.compile(r'"loader": \{"load": (\[[^\]]*\])')
FONT = "output/chtml/fonts/tex"
"""What `output/chtml` fetches once it is there."""


def fetch_early(text: str) -> str:
    """The HTML of a page whose browser fetches MathJax's parts at once, not one after the other:
    those that the page's own settings name, and the font's measures."""
    start, loaded = _START.search(text), _LOADED.search(text)
    if start is None or loaded is None:
        return text
    hints = "".join(
        f'<link rel="preload" as="script" href="{start[1]}{part}.js">\n'
        for part in (*json.loads(loaded[1]), FONT)
    )
    return text[: start.start()] + hints + text[start.start() :]
