"""Pictures of the pages: vectors, or lossless WebP, half the size of PNG, in files that load when
they are near; frames of sliders, too, which are otherwise in the page. Each states its size, so
that nothing moves when it arrives."""

import base64
import hashlib
import html
import io
import os
import re
from pathlib import Path

from PIL import Image

from clcore._files import write_atomic

FOLDER = "_images"
WIDE = 780
"""Pixels above which a picture is marked, unless it states its own size, as frames of sliders do: a
phone scrolls it sideways rather than shrink it. Plots of one panel are narrower."""
_IMAGE = re.compile(r"<img\b[^>]*>")
_ATTRIBUTE = re.compile(r'\b(?P<name>src|width|height|style|loading)="(?P<value>[^"]*)"')
_DRAWN = re.compile(r'<svg\b[^>]*?\bwidth="(\d+)" height="(\d+)"')
_INLINE = re.compile(r"data:image/(?P<kind>webp|png);base64,(?P<content>[A-Za-z0-9+/=]+)")


class Store:
    """Puts the pictures of pages into files of a site."""

    def __init__(self, site: Path) -> None:
        self._site, self._folder = site, site / FOLDER
        self._sizes: dict[Path, tuple[int, int]] = {}
        self._changed: dict[Path, Path] = {}

    def __call__(self, text: str, page: Path) -> str:
        """The HTML of a page with its pictures in files."""
        up = os.path.relpath(self._folder, page.parent).replace(os.sep, "/")
        moved = _INLINE.sub(lambda found: f"{up}/{self._kept(found)}", text)
        return _IMAGE.sub(lambda image: self._light(image[0], page), moved)

    def _kept(self, inline: re.Match) -> str:
        content = base64.b64decode(inline["content"])
        name = f"{hashlib.sha256(content).hexdigest()[:16]}.{inline['kind']}"
        if not (self._folder / name).exists():
            write_atomic(self._folder / name, content)
        return name

    def _light(self, tag: str, page: Path) -> str:
        """A picture of ours, as WebP, with its size, loaded when it comes near."""
        given = {found["name"]: html.unescape(found["value"]) for found in _ATTRIBUTE.finditer(tag)}
        source = given.get("src", "")
        file = (page.parent / source).resolve()
        if file.parent != self._folder.resolve() or file.suffix not in (".png", ".webp", ".svg"):
            return tag
        known = self._drawn(file) if file.suffix == ".svg" else self._webp(file)
        if known is None:
            return tag
        new, (width, height) = known
        made = tag.replace(f'src="{source}"', f'src="{source[: -len(file.name)]}{new.name}"')
        added = "" if "loading" in given else ' loading="lazy"'
        if "width" not in given and "height" not in given and "style" not in given:
            added += f' width="{width}" height="{height}"{" data-wide" if width > WIDE else ""}'
        return made.replace("<img", f"<img{added}", 1)

    def _drawn(self, file: Path) -> tuple[Path, tuple[int, int]] | None:
        """A drawing and its size, if it states one in pixels."""
        if file not in self._sizes:
            if not file.is_file():
                return None
            with file.open(encoding="utf-8") as text:
                found = _DRAWN.search(text.read(2000))
            if found is None:
                return None
            self._sizes[file] = (int(found[1]), int(found[2]))
        return file, self._sizes[file]

    def _webp(self, file: Path) -> tuple[Path, tuple[int, int]] | None:
        new = self._changed.get(file, file)
        if new not in self._sizes:
            if not file.is_file():
                return None
            with Image.open(file) as picture:
                size = picture.size
                if file.suffix == ".png":
                    made = io.BytesIO()
                    picture.save(made, "WEBP", lossless=True, exact=True)
                    if len(made.getvalue()) < file.stat().st_size:
                        new = file.with_suffix(".webp")
                        write_atomic(new, made.getvalue())
                        self._changed[file] = new
            self._sizes[new] = size
        return new, self._sizes[new]

    def finish(self) -> None:
        """Remove what a lighter file replaces, after all pages are done."""
        for file in self._changed:
            file.unlink(missing_ok=True)
