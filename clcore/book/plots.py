"""How the book's figures look."""

import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D

LARGE = 250_000
"""Bytes of an SVG above which a bitmap of what is drawn in its axes may take its place."""
SHARP = 2
"""Pixels of a bitmap a CSS pixel, each way: no screen of a phone or a laptop shows it blurred."""
_PLACES = re.compile(r'\b(?P<name>d|x|y)="(?P<value>[^"]*)"')
_LONG = re.compile(r"-?\d+\.\d{3,}")
_SIZE = re.compile(r'width="(?P<width>[\d.]+)pt" height="(?P<height>[\d.]+)pt"')


def use_style() -> None:
    """Set the book's style: quiet axes, text that can be read from the back row, safe colours; and,
    in a notebook, figures as vectors."""
    sns.set_theme(context="notebook", style="ticks", palette="colorblind", font_scale=0.95)
    mpl.rcParams.update(
        {
            "figure.dpi": 110,
            "figure.constrained_layout.use": True,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlesize": "medium",
            "font.sans-serif": ["DejaVu Sans"],  # matplotlib brings it; seaborn asks for Arial
            "legend.frameon": False,
            "savefig.facecolor": "white",
            "svg.hashsalt": "clcore",  # else the names in a drawing differ from run to run
        }
    )
    _show_vectors()


def _show_vectors() -> None:
    try:
        from IPython import get_ipython
        from matplotlib_inline.config import InlineBackend
    except ImportError:
        return
    if (shell := get_ipython()) is not None:
        # Its formats would be shown beside ours, and a figure drawn twice.
        InlineBackend.instance(parent=shell).figure_formats = set()
        shell.display_formatter.formatters["image/svg+xml"].for_type(Figure, drawn)


def drawn(figure: Figure) -> str:
    """A figure as SVG, as wide and high as it would be in pixels at its own dpi.

    Where that is `LARGE`, the contents of its axes are a bitmap in it, at `SHARP` times that
    density, if this is smaller; its axes and words stay vectors.
    """
    made = _svg(figure)
    if len(made) > LARGE:
        every = [a for x in figure.axes for a in (*x.lines, *x.collections, *x.patches)]
        was = [artist.get_rasterized() for artist in every]
        for artist in every:
            artist.set_rasterized(True)
        made = min(made, _svg(figure), key=len)
        for artist, before in zip(every, was, strict=True):
            artist.set_rasterized(before)  # the figure is its maker's
    scale = figure.dpi / 72
    return _SIZE.sub(
        lambda size: " ".join(f'{k}="{float(v) * scale:.0f}"' for k, v in size.groupdict().items()),
        made,
        count=1,
    )


def _svg(figure: Figure) -> str:
    from IPython.core.pylabtools import print_figure

    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    made = print_figure(figure, fmt="svg", dpi=SHARP * figure.dpi, metadata=nothing)
    return re.sub(r">\s+<", "><", _PLACES.sub(_short, made))


def _short(attribute: re.Match) -> str:
    """Coordinates to a hundredth of a point: a seventh of all bytes are digits beyond that."""
    value = _LONG.sub(lambda number: f"{float(number[0]):.2f}", attribute["value"])
    return f'{attribute["name"]}="{" ".join(value.split())}"'


def panels(
    columns: int, width: float = 8.0, height: float = 3.2, rows: int = 1
) -> tuple[plt.Figure, list]:
    """A figure with `columns` axes side by side in each of `rows`; sizes in inches. The axes come
    row by row. Up to a width of 6.8 a phone shows the figure whole; a wider one scrolls."""
    figure, axes = plt.subplots(rows, columns, figsize=(width, height), squeeze=False)
    return figure, list(axes.flat)


def below(gap: float) -> dict:
    """Legend arguments that put it below its axes, `gap` of their height away."""
    return {"loc": "upper center", "bbox_to_anchor": (0.5, -gap), "fontsize": "small"}


def label_ends(*axes: plt.Axes) -> None:
    """Name the labelled lines of axes at their right ends, in their colours, in place of a legend.

    Names that would overlap are moved apart, up or down. To be called when all lines are drawn and
    scales are set; the limits are settled here, since Matplotlib finds them only when asked.
    """
    for axis in axes:
        axis.set_ylim(axis.get_ylim())
        lines, names = [], []
        for line in axis.get_lines():
            name = str(line.get_label())
            if not name.startswith("_"):  # matplotlib's own names of lines without one
                lines.append(line)
                names.append(name)
        size = mpl.rcParams["xtick.labelsize"]
        points = FontProperties(size=size).get_size_in_points()
        dots = axis.get_window_extent().height
        ends = [axis.transLimits.transform(_on_scale(axis, line))[1] for line in lines]
        gap = 1.25 * points * axis.figure.dpi / 72 / dots
        for line, name, place in zip(lines, names, _apart(ends, gap), strict=True):
            axis.annotate(
                name,
                (1, place),
                xycoords="axes fraction",
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=size,
                color=line.get_color(),
            )


def _on_scale(axis: plt.Axes, line: Line2D) -> np.ndarray:
    """The last point of a line on the axes' scales, which may be logarithmic."""
    return axis.transScale.transform(np.asarray(line.get_xydata())[-1])


def _apart(ends: list[float], gap: float) -> list[float]:
    """Heights in order of `ends`, at least `gap` apart and at most 1."""
    order = np.argsort(ends, kind="stable")
    places = np.clip(np.array(ends, dtype=float)[order], 0, 1)
    for k in range(1, len(places)):
        places[k] = max(places[k], places[k - 1] + gap)
    for k in range(len(places) - 1, -1, -1):
        places[k] = min(places[k], 1 if k == len(places) - 1 else places[k + 1] - gap)
    found = np.empty(len(places))
    found[order] = places
    return found.tolist()
