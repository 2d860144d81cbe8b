"""What a reader's browser would load for nothing, taken out of a site after Sphinx made it."""

from pathlib import Path

from clcore.book.site.lean import bundles, colours, formulas, icons, lines, pictures, unused


def apply(site: Path) -> None:
    """Make the pages below a folder light: icons drawn in the page, pictures in files of WebP that
    load as they come near, style sheets and scripts in one file each, MathJax fetched early, programs without marks that
    have no colour, and no file that nothing loads. What the pages show stays the same; only lines
    no longer end between a formula and its full stop."""
    unused.remove(site)
    draw = icons.Drawer(site)
    store = pictures.Store(site)
    join, strip = bundles.Joiner(site), colours.Stripper(site)
    for page in sorted(site.rglob("*.html")):
        if "_static" in page.relative_to(site).parts:
            continue  # pieces of the theme, which no page shows
        text = page.read_text(encoding="utf-8")
        made = lines.keep(formulas.fetch_early(join(strip(draw(store(text, page))), page)))
        if made != text:
            page.write_bytes(made.encode())
    store.finish()
