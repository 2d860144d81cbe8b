"""What is taken out of a site that a browser would load for nothing, and what has to stay."""

import base64
import io
import json

import pytest
from PIL import Image

from clcore.book.site import lean
from clcore.book.site.lean import bundles, colours, formulas, icons, lines, pictures, unused

SHAPES = (
    '{moon:[1,2,[],"f1","Mbrand"]};d("fab",p)'
    '{moon:[3,4,[],"f1","Mregular"]};d("far",p)'
    '{moon:[5,6,["night"],"f1","Msolid"],"file-lines":[7,8,[128,"file-text"],"f2","Mfile"]};d("fas",p)'
)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def png(width=12, height=5):
    file = io.BytesIO()
    picture = Image.new("RGBA", (width, height), (250, 10, 10, 255))
    picture.putpixel((3, 2), (1, 2, 3, 0))
    picture.save(file, "PNG", compress_level=0)
    return file.getvalue()


@pytest.mark.parametrize(
    ("classes", "box", "path"),
    [
        ("fa-solid fa-moon", "5 6", "Msolid"),
        ("far fa-moon", "3 4", "Mregular"),
        ("fab fa-moon fa-lg", "1 2", "Mbrand"),
        ("fas fa-night", "5 6", "Msolid"),
        ("fas fa-file-text", "7 8", "Mfile"),
    ],
)
def test_icons_are_drawn_from_the_shapes_of_their_style(tmp_path, classes, box, path):
    script = write(tmp_path / icons.SCRIPT, SHAPES)
    draw = icons.Drawer(tmp_path)
    tag = '<script defer src="../_static/scripts/fontawesome.js?digest=1"></script>'
    made = draw(f'<p>{tag}<i class="{classes}" data-mode="dark"></i></p>')
    assert made == (
        f'<p><svg class="svg-inline--fa {classes}" data-mode="dark" aria-hidden="true" '
        f'focusable="false" viewBox="0 0 {box}"><path fill="currentColor" d="{path}"/></svg></p>'
    )
    assert not script.exists()


def test_an_icon_that_is_not_known_is_refused(tmp_path):
    write(tmp_path / icons.SCRIPT, SHAPES)
    draw = icons.Drawer(tmp_path)
    with pytest.raises(icons.IconError, match=r"fa-sun.*found none of that name"):
        draw('<i class="fa-solid fa-sun"></i>')


def test_pictures_are_webp_of_the_same_pixels_with_their_size(tmp_path):
    old = write(tmp_path / "_images" / "a.png", png())
    store = pictures.Store(tmp_path)
    page = tmp_path / "chapters" / "x.html"
    made = store('<img alt="A &gt; b" src="../_images/a.png"/>', page)
    assert made == (
        '<img loading="lazy" width="12" height="5" alt="A &gt; b" src="../_images/a.webp"/>'
    )
    store.finish()
    assert not old.exists()
    with Image.open(tmp_path / "_images" / "a.webp") as new, Image.open(io.BytesIO(png())) as was:
        assert new.convert("RGBA").tobytes() == was.tobytes()


def test_what_states_its_size_keeps_it_and_is_not_marked_as_wide(tmp_path):
    write(tmp_path / "_images" / "a.svg", b'<svg width="948" height="365"/>')
    shown = pictures.Store(tmp_path)('<img width="474" src="_images/a.svg">', tmp_path / "x.html")
    assert shown == '<img loading="lazy" width="474" src="_images/a.svg">'


def test_pictures_of_others_stay_as_they_are(tmp_path):
    write(tmp_path / "_static" / "logo.png", png())
    shown = '<img src="../_static/logo.png"><img src="../_images/no.png"><img src="http://a/b.png">'
    assert pictures.Store(tmp_path)(shown, tmp_path / "chapters" / "x.html") == shown


def test_vectors_stay_vectors_and_get_their_size(tmp_path):
    given = '<?xml version="1.0"?>\n<svg xmlns:x="y" width="948" height="365" viewBox="0 0 1 1"/>'
    write(tmp_path / "_images" / "a.svg", given.encode())
    write(tmp_path / "_images" / "b.svg", given.replace('"948"', '"100%"').encode())
    store = pictures.Store(tmp_path)
    page = tmp_path / "x.html"
    assert store('<img src="_images/a.svg">', page) == (
        '<img loading="lazy" width="948" height="365" data-wide src="_images/a.svg">'
    )
    for shown in ('<img src="_images/b.svg">', '<img src="_images/c.svg">'):
        assert store(shown, page) == shown
    store.finish()
    assert (tmp_path / "_images" / "a.svg").read_text() == given


def test_frames_of_sliders_become_files_and_equal_ones_one(tmp_path):
    content = png()
    source = f"data:image/png;base64,{base64.b64encode(content).decode()}"
    frames = json.dumps([{"source": source, "says": "a"}, {"source": source, "says": "b"}])
    store = pictures.Store(tmp_path)
    text = f'<img src="{source}" alt=""><script type="application/json">{frames}</script>'
    made = store(text, tmp_path / "chapters" / "x.html")
    names = {frame["source"] for frame in json.loads(made.split(">")[2].split("</")[0])}
    assert len(names) == 1
    (name,) = names
    assert f'src="{name.removesuffix(".png")}' in made and "base64" not in made


def test_marks_go_that_have_the_colour_around_them_in_all_themes(tmp_path):
    sheet = (
        'html[data-theme="light"] .highlight { background: #fff; color: #111 }\n'
        'html[data-theme="light"] .highlight .n { color: #111 } /* Name */\n'
        'html[data-theme="light"] .highlight .p { color: #111 }\n'
        'html[data-theme="light"] .highlight .k { color: #111; font-weight: bold }\n'
        'html[data-theme="dark"] .highlight { background: #000; color: #eee }\n'
        'html[data-theme="dark"] .highlight .n { color: #eee }\n'
        'html[data-theme="dark"] .highlight .p { color: #ddd }\n'
    )
    write(tmp_path / "_static" / "pygments.css", sheet)
    strip = colours.Stripper(tmp_path)
    marked = "".join(f'<span class="{kind}">a&lt;</span>' for kind in ("n", "p", "k", "zz"))
    made = strip(f'<span class="n">x</span><div class="highlight"><pre>{marked}</pre></div>')
    kept = '<span class="p">a&lt;</span><span class="k">a&lt;</span>'
    assert made == (
        f'<span class="n">x</span><div class="highlight"><pre>a&lt;{kept}a&lt;</pre></div>'
    )


def test_style_sheets_are_one_in_their_order_with_addresses_from_there(tmp_path):
    write(tmp_path / "_static" / "basic.css", "p{color:red}")
    write(tmp_path / "_static" / "styles" / "theme.css", '@import "../basic.css";\nq{top:0}')
    theme = (
        'a{b:url("../v/f.woff2")}.fa-moon:before,.fa-sun:before{content:"\\f1"}i{src:url(data:x)}'
    )
    write(tmp_path / "_static" / "styles" / "big.css", theme)
    head = '<link href="../_static/styles/theme.css?digest=1" rel="stylesheet" />\n'
    head += '<link rel="stylesheet" type="text/css" href="../_static/styles/big.css" />'
    made = bundles.Joiner(tmp_path)(head, tmp_path / "chapters" / "x.html")
    assert made.count("<link") == 1
    (sheet,) = (tmp_path / "_static").glob("all-*.css")
    assert f'href="../_static/{sheet.name}"' in made
    text = sheet.read_text()
    assert text.startswith("p{color:red}\nq{top:0}")
    assert 'a{b:url("v/f.woff2")}i{src:url(data:x)}' in text


def test_scripts_are_joined_in_order_and_mathjax_stays_where_it_looks_for_its_files(tmp_path):
    for name in ("a", "b", "c", "d"):
        write(tmp_path / "_static" / f"{name}.js", f"told('{name}')")
        write(tmp_path / "_static" / f"{name}.css", "")
    write(tmp_path / "_static" / "mathjax" / "startup.js", "")
    sheets = "".join(f'<link rel="stylesheet" href="_static/{n}.css">' for n in "ab")
    math = '<script defer="defer" src="_static/mathjax/startup.js"></script>'
    tags = [f'<script src="_static/{n}.js?v=1"></script>' for n in "ab"]
    tags += [f'<script defer="defer" src="_static/{n}.js"></script>' for n in "cd"]
    page = "\n".join([sheets, *tags, math, "<script>inline()</script>"])
    made = bundles.Joiner(tmp_path)(page, tmp_path / "x.html")
    sources = [part.split('"')[0] for part in made.split('src="')[1:]]
    assert sources[2] == "_static/mathjax/startup.js" and len(sources) == 3
    plain, deferred = ((tmp_path / source).read_text() for source in sources[:2])
    assert plain.index("told('a')") < plain.index("told('b')") and "told('c')" not in plain
    assert deferred.index("told('c')") < deferred.index("told('d')")
    assert made.index("<script defer src=") < made.index("inline()")


def test_the_parts_of_mathjax_that_a_page_names_are_fetched_early():
    settings = '<script>window.MathJax = {"loader": {"load": ["core", "input/tex"]}}</script>'
    start = '<script defer="defer" src="../_static/mathjax/startup.js"></script>'
    made = formulas.fetch_early(f"{settings}\n{start}")
    early = [part.split('"')[0] for part in made.split('href="')[1:]]
    parts = ("core", "input/tex", "output/chtml/fonts/tex")
    assert early == [f"../_static/mathjax/{part}.js" for part in parts]
    assert made.startswith(settings) and made.endswith(start)
    for other in (settings, start, "<p>no formula</p>"):
        assert formulas.fetch_early(other) == other


def test_what_no_page_loads_goes_and_what_mathjax_fetches_stays(tmp_path):
    mathjax = tmp_path / "_static" / "mathjax"
    kept = (
        "startup.js",
        "core.js",
        "input/tex.js",
        "output/chtml.js",
        "ui/lazy.js",
        "ui/safe.js",
        "input/tex/extensions/boldsymbol.js",
    )
    kept += ("a11y/assistive-mml.js", "output/chtml/fonts/tex.js")
    kept += ("output/chtml/fonts/woff-v2/MathJax_Main-Regular.woff",)
    gone = (
        "tex-chtml.js",
        "input/tex-full.js",
        "input/mml.js",
        "a11y/sre.js",
        "sre/mathmaps/en.json",
        "ui/menu.js",
        "output/svg/fonts/tex.js",
    )
    for name in (*kept, *gone):
        write(mathjax / name, "x")
    write(tmp_path / "_static" / "scripts" / "theme.js.map", "x")
    cells = [
        {"cell_type": "code", "outputs": [{"output_type": "stream"}], "execution_count": 3},
        {"cell_type": "markdown", "source": "ä"},
    ]
    notebook = write(tmp_path / "_sources" / "chapters" / "a.ipynb", json.dumps({"cells": cells}))
    unused.remove(tmp_path)
    assert all((mathjax / name).exists() for name in kept)
    assert not any((mathjax / name).exists() for name in gone)
    assert not list(tmp_path.rglob("*.map"))
    code, text = json.loads(notebook.read_bytes())["cells"]
    assert code["outputs"] == [] and code["execution_count"] is None
    assert text == cells[1] and "ä" in notebook.read_text(encoding="utf-8")


def test_pieces_of_the_theme_are_no_pages(tmp_path):
    piece = write(tmp_path / "_static" / "macros.html", '<img src="../_images/a.png">')
    write(tmp_path / "_images" / "a.png", png())
    lean.apply(tmp_path)
    assert piece.read_text() == '<img src="../_images/a.png">'


MATH = r'<span class="math notranslate nohighlight">\(x>0\)</span>'


@pytest.mark.parametrize(
    ("text", "held"),
    [
        (rf"for {MATH}.", f"{MATH}."),
        (rf"({MATH}), or", f"({MATH}),"),
        (rf"{MATH} and {MATH}; so", f"{MATH};"),
        (r"the \(k\)-th of \(n\)", r"\(k\)-th"),
        (r"\(\alpha\) of \((1-a)\): no", r"\((1-a)\):"),
    ],
)
def test_a_formula_is_held_together_with_what_stands_at_it(text, held):
    made = lines.keep(f"<p>{text}</p>")
    assert made == f"<p>{text}</p>".replace(held, f'<span class="cl-kept">{held}</span>')
    assert made.count("cl-kept") == 1


@pytest.mark.parametrize(
    "text",
    [
        rf"{MATH} and \(y\) are free",
        r'<img alt="a > b, \(x\).">',
        r"<script>s = '\(x\).'</script>",
        r"<pre>\(x\).</pre> <code>\(x\),</code>",
        r"<!-- \(x\). -->",
        r'<div class="math">\[x\]</div>.',
    ],
)
def test_what_is_no_formula_in_a_line_is_left_alone(text):
    assert lines.keep(text) == text
