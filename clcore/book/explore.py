"""Figures with sliders that need no server: every frame is drawn by the chapter and comes with the
page, which only chooses among them.

What chooses is a script. In a notebook it comes with every figure; a page of the site loads it
once, and the build takes it out of the figures again.
"""

import base64
import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
from jinja2.utils import htmlsafe_json_dumps

from clcore import _paths
from clcore.ledger.html import render
from clcore.ledger.outcomes import number

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

LIMIT = 300_000
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
    """Show one figure with a slider per parameter, over all combinations of their values.

    draw: draws the frame of some values, one argument a slider, and returns its figure; all frames
    should have the same size and axes. sliders: {label: its values}, numbers or words. says: one
    sentence of what the frame of some values shows, with its numbers; it is read out when a slider
    rests. alt: what all frames have in common, in words. table: the numbers behind the frames.
    start: which value each slider begins with (its place; by default the middle one), the frame
    that is printed, and seen without a script.

    Raises ValueError without sliders or values, for a start that is not among them, where a frame
    cannot be drawn (which one, and why) and where the figure is heavier than `LIMIT`.
    """
    if not sliders or not all(len(values) > 1 for values in sliders.values()):
        raise ValueError(f"expected at least two values for every slider, got {dict(sliders)}")
    sizes = [len(values) for values in sliders.values()]
    at = [size // 2 for size in sizes] if start is None else list(start)
    if len(at) != len(sizes) or not all(0 <= i < n for i, n in zip(at, sizes, strict=True)):
        raise ValueError(f"expected a start below {sizes}, one a slider, got {at}")
    shown = []
    for values in itertools.product(*sliders.values()):
        picture, png = _picture(draw, dict(zip(sliders, values, strict=True)))
        shown.append({"source": picture, "says": says(*values), "png": png})
    first = 0
    for place, size in zip(at, sizes, strict=True):
        first = first * size + place
    html = str(
        render(
            "clcore.book",
            "explore.html",
            frames=htmlsafe_json_dumps([{k: f[k] for k in ("source", "says")} for f in shown]),
            first=first,
            shown=shown[first],
            alt=alt,
            sliders=[
                {"label": label, "at": i, "words": [_word(v) for v in values]}
                for i, (label, values) in zip(at, sliders.items(), strict=True)
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
    _display(html + _script(), shown[first]["png"], f"{alt} {shown[first]['says']}")


def _script() -> str:
    """What makes the sliders move in a notebook, where the clone is here; the build knows it by its
    attribute."""
    path = _paths.root() / "book" / "_static" / "explore.js"
    return f"<script data-notebook>\n{path.read_text()}</script>\n" if path.is_file() else ""


def _picture(draw: Callable[..., "Figure"], values: dict[str, Any]) -> tuple[str, str]:
    """A frame as the address of a picture and as PNG, both in base64."""
    try:
        figure = draw(*values.values())
    except Exception as error:
        told = ", ".join(f"{label} = {_word(value)}" for label, value in values.items())
        raise ValueError(f"the frame at {told} cannot be drawn: {error}") from error
    small, plain = io.BytesIO(), io.BytesIO()
    figure.savefig(small, format="webp", dpi=100, pil_kwargs={"lossless": True, "method": 6})
    figure.savefig(plain, format="png", dpi=100)
    plt.close(figure)
    webp, png = (base64.b64encode(file.getvalue()).decode() for file in (small, plain))
    return f"data:image/webp;base64,{webp}", png


def _word(value: Any) -> str:
    return number(float(value)) if isinstance(value, int | float) else str(value)


def _display(html: str, png: str, text: str) -> None:
    try:
        from IPython.display import display
    except ImportError:
        print(text)
        return
    display({"text/html": html, "image/png": png, "text/plain": text}, raw=True)
