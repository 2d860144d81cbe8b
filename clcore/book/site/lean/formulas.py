"""MathJax in the parts that pages use: the bundle that Sphinx names has its menu, too, which is a
third of it, puts every formula into the tab order, and can load remote speech rules."""

import json
import re

_BUNDLE = re.compile(r'(<script\b[^>]*\bsrc=")([^"]*/mathjax/)tex-chtml(\.js")')
_LOADED = re.compile(r'"loader": \{"load": (\[[^\]]*\])')
FONT = "output/chtml/fonts/tex"
"""What `output/chtml` fetches once it is there."""


def divide(text: str) -> str:
    """The HTML of a page that starts MathJax with the parts that the page's own settings name, and
    whose browser fetches them, and the measures of the font, at once, not one after another. Raises
    ValueError where the settings name none."""
    bundle, loaded = _BUNDLE.search(text), _LOADED.search(text)
    if bundle is None:
        return text
    if loaded is None:
        raise ValueError(
            "a page has formulas and does not say which parts of MathJax it loads; "
            "name MathJax's parts in sphinx.config.mathjax3_config.loader.load of _config.yml"
        )
    hints = "".join(
        f'<link rel="preload" as="script" href="{bundle[2]}{part}.js">\n'
        for part in (*json.loads(loaded[1]), FONT)
    )
    return _BUNDLE.sub(lambda found: f"{hints}{found[1]}{found[2]}startup{found[3]}", text, count=1)
