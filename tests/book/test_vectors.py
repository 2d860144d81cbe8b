"""Figures as vectors: of the size in pixels that they had, the same in every run, and not large."""

import io
import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from matplotlib.figure import Figure
from matplotlib_inline.config import InlineBackend
from PIL import Image

from clcore.book import plots


@pytest.fixture(autouse=True)
def _style():
    with mpl.rc_context():
        plots.use_style()
        yield
    plt.close("all")


def figure(points=5):
    made, (axis,) = plots.panels(1, width=4, height=2)
    axis.scatter(np.arange(points), np.sin(np.arange(points)), label="sine")
    axis.set_title("A title")
    return made


def size(svg):
    return [int(n) for n in re.search(r'<svg[^>]* width="(\d+)" height="(\d+)"', svg).groups()]


def test_it_is_as_large_as_the_picture_of_its_pixels():
    file = io.BytesIO()
    made = figure()
    made.savefig(file, dpi=made.dpi, bbox_inches="tight")
    assert np.abs(np.subtract(size(plots.drawn(made)), Image.open(file).size)).max() <= 1


def test_coordinates_are_those_that_were_drawn_to_a_hundredth():
    made, (axis,) = plots.panels(1, width=4, height=2)
    axis.plot([0, 1 / 3, 1], [0, 1, 0.5])
    text = plots.drawn(made)
    d = re.search(r'<path d="(M [^"]*)" clip-path', text)[1]
    found = np.array(re.findall(r"-?[\d.]+", d), dtype=float).reshape(-1, 2)
    place = axis.transData.transform(axis.lines[0].get_xydata()) * 72 / made.dpi
    steps = np.diff(place, axis=0) * [1, -1]  # SVG counts downwards
    assert np.diff(found, axis=0) == pytest.approx(steps, abs=0.011)


def test_it_is_the_same_in_every_run():
    assert plots.drawn(figure()) == plots.drawn(figure())


def test_many_points_become_a_bitmap_and_words_do_not():
    large = figure(20_000)
    few, many = plots.drawn(figure()), plots.drawn(large)
    assert not any(c.get_rasterized() for c in large.axes[0].collections), "the figure is as it was"
    assert "<image" not in few and many.count("<image") == 1
    assert len(many) < plots.LARGE and size(many) == size(few)
    for made in (few, many):
        assert "<!-- A title -->" in made and made.count('<g id="text_') > 8


def test_a_notebook_shows_the_vectors_alone():
    shell = InteractiveShell.instance()
    try:
        InlineBackend.instance(parent=shell).figure_formats = {"png"}
        plots.use_style()
        data, _ = shell.display_formatter.format(figure())
        assert set(data) == {"image/svg+xml", "text/plain"}
    finally:
        InlineBackend.clear_instance()
        InteractiveShell.clear_instance()
    assert Figure not in InteractiveShell().display_formatter.formatters["image/png"]
