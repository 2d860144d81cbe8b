"""Figures with sliders and switches that need no server: every frame is drawn by the chapter and
comes with the page, which only chooses among them.

A script chooses the frame. In a notebook it comes with every figure; a page of the site loads it
once, and the build removes it from the figures.
"""

import base64
import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import matplotlib.pyplot as plt
import numpy as np
from jinja2.utils import htmlsafe_json_dumps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL.Image import fromarray

from clcore import _paths
from clcore.book import chapter, plots
from clcore.ledger.html import render
from clcore.ledger.outcomes import number
from clcore.ledger.tex import written

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from PIL.Image import Image

LIMIT = 600_000
"""Most bytes of a figure on a page, its frames and its table together."""


def frames(
    draw: Callable[..., "Figure"],
    sliders: Mapping[str, Sequence],
    *,
    says: Callable[..., str],
    alt: str,
    table: "pd.DataFrame",
    start: Sequence[int] | None = None,
) -> None:
    """Show one figure with a slider per parameter, over all combinations of their values; where a
    parameter has two values it is a switch, which names both.

    draw: draws the frame of some values, one argument a slider, and returns its figure; all frames
    should have the same size and axes. sliders: {label: its values}, numbers or words. says: one
    sentence of what the frame of some values shows, with its numbers; it is read out when a slider
    rests. alt: what all frames have in common, in words. table: the numbers behind the frames.
    start: which value each slider begins with (its place; by default the middle one), the frame
    that is printed, and seen without a script.

    A chapter in its smoke profile draws two values of each slider, the initial one and a
    neighbour; the sentences of all others are also formed there, so that none fails unseen.

    Raises ValueError without sliders or values, for a start that is not among them, where a frame
    cannot be drawn (which one, and why) and where the figure is heavier than `LIMIT`.
    """
    if not sliders or not all(len(values) > 1 for values in sliders.values()):
        raise ValueError(f"expected at least two values for every slider, got {dict(sliders)}")
    sizes = [len(values) for values in sliders.values()]
    at = [size // 2 for size in sizes] if start is None else list(start)
    if len(at) != len(sizes) or not all(0 <= i < n for i, n in zip(at, sizes, strict=True)):
        raise ValueError(f"expected a start below {sizes}, one per slider, got {at}")
    shown, plain = [], ""
    two = chapter.profile() == "smoke"
    drawn = [_beside(i) if two else range(size) for size, i in zip(sizes, at, strict=True)]
    for places in itertools.product(*map(range, sizes)):
        values = [every[i] for every, i in zip(sliders.values(), places, strict=True)]
        said = written(says(*values))
        if any(i not in some for i, some in zip(places, drawn, strict=True)):
            continue
        picture = _picture(draw, dict(zip(sliders, values, strict=True)))
        source = f"data:image/webp;base64,{_base64(picture, 'webp', lossless=True)}"
        if places == tuple(at):
            first, plain, pixels = len(shown), _base64(picture, "png"), picture.size
        shown.append({"source": source, "says": said})
    html = str(
        render(
            "clcore.book",
            "explore.html",
            frames=htmlsafe_json_dumps(shown),
            first=first,
            shown=shown[first],
            size=[round(n / plots.SHARP) for n in pixels],
            alt=alt,
            sliders=[
                {
                    "label": label,
                    "at": some.index(i),
                    "words": [_word(values[k]) for k in some],
                    # Of the pair of buttons, its own on a page; of a slider none.
                    "name": f"cl-{crc32((alt + label).encode()):x}" if len(values) == 2 else "",
                }
                for i, some, (label, values) in zip(at, drawn, sliders.items(), strict=True)
            ],
            columns=[str(c) for c in table.columns],
            rows=[[_word(v) for v in row] for row in table.itertuples(index=False)],
        )
    )
    if len(html) > LIMIT:
        raise ValueError(
            f"expected a figure of at most {LIMIT:,} bytes, got {len(html):,} for {len(shown)} "
            "frames; draw fewer or smaller ones, or shorten the table"
        )
    _display(html + _script(), plain, f"{alt} {shown[first]['says']}")


def _script() -> str:
    """The script that moves the sliders in a notebook, if the clone is here; the build recognises
    it by its attribute."""
    path = _paths.root() / "book" / "_static" / "explore.js"
    return (
        f"<script data-notebook>\n{path.read_text(encoding='utf-8')}</script>\n"
        if path.is_file()
        else ""
    )


def _beside(i: int) -> range:
    """Two places of a slider: i, and the one before it or, where there is none, the next."""
    return range(max(0, i - 1), max(2, i + 1))


def _picture(draw: Callable[..., "Figure"], values: dict[str, Any]) -> "Image":
    """A frame in pixels. Drawn once, even for two formats: the cost of a frame is
    the layout of its text, not its encoding."""
    try:
        figure = draw(*values.values())
    except Exception as error:
        told = ", ".join(f"{label} = {_word(value)}" for label, value in values.items())
        raise ValueError(f"the frame at {told} cannot be drawn: {error}") from error
    figure.set_dpi(100 * plots.SHARP)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # savefig would go over all texts a second time, for the layout alone
    plt.close(figure)
    return fromarray(np.asarray(canvas.buffer_rgba()))


def _base64(picture: "Image", kind: str, **how: Any) -> str:
    file = io.BytesIO()
    picture.save(file, format=kind, **how)
    return base64.b64encode(file.getvalue()).decode()


def _word(value: Any) -> str:
    return number(float(value)) if isinstance(value, int | float) else str(value)


def _display(html: str, png: str, text: str) -> None:
    try:
        from IPython.display import display
    except ImportError:
        print(text)
        return
    display({"text/html": html, "image/png": png, "text/plain": text}, raw=True)
