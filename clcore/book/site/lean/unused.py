"""Files of a site that no page loads."""

import json
from pathlib import Path

MATHJAX = ("startup.js", "core.js", "output", "input", "a11y", "ui")
"""Where the parts lie that pages load of MathJax, its fonts, and extensions of TeX that it fetches
when a formula needs them."""
_UNUSED = (
    "_static/**/*.map",
    "_static/vendor/fontawesome/webfonts/*.ttf",
    "_static/locales",
    "_static/mathjax/output/svg*",
    "_static/mathjax/input/[!t]*.js",
    "_static/mathjax/input/tex-*.js",
    "_static/mathjax/input/mml",
    "_static/mathjax/a11y/[!a]*",
    "_static/mathjax/input/tex/extensions/all-packages.js",
    "_static/mathjax/ui/menu.js",
)


def remove(site: Path) -> None:
    """Remove files that no page loads, and the outputs of the notebooks that a reader may
    download, which are meant to be run."""
    mathjax = site / "_static" / "mathjax"
    found = [file for file in mathjax.glob("*") if file.name not in MATHJAX]
    for pattern in _UNUSED:
        found += site.glob(pattern)
    for path in found:
        _remove(path)
    for notebook in (site / "_sources").rglob("*.ipynb"):
        _without_outputs(notebook)


def _remove(path: Path) -> None:
    if path.is_dir():
        for inside in path.iterdir():
            _remove(inside)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def _without_outputs(notebook: Path) -> None:
    content = json.loads(notebook.read_bytes())
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    made = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    notebook.write_bytes(made.encode())
