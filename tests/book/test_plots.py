"""Names at the ends of lines, in place of a legend."""

import itertools

import matplotlib.pyplot as plt
import pytest

from clcore.book import plots


@pytest.fixture
def axis():
    figure, axis = plt.subplots(figsize=(4, 3))
    yield axis
    plt.close(figure)


def places(axis):
    return {text.get_text(): text.xy[1] for text in axis.texts}


def test_a_name_stands_at_its_line_and_in_its_colour(axis):
    axis.plot([1, 10, 100], [0.0, 0.3, 0.8], color="C3", label="one")
    axis.plot([1, 10], [0.9, 0.2], label="two")
    axis.plot([1, 10], [0.5, 0.5])  # no label, no name
    axis.set(xscale="log", ylim=(0, 1))
    plots.label_ends(axis)
    assert places(axis) == {"one": pytest.approx(0.8), "two": pytest.approx(0.2)}
    assert axis.texts[0].get_color() == "C3"


def test_heights_are_those_of_the_scale(axis):
    axis.plot([0, 1], [1.0, 0.01], label="one")
    axis.set(yscale="log", ylim=(1e-4, 1))
    plots.label_ends(axis)
    assert places(axis)["one"] == pytest.approx(0.5)


def test_limits_that_matplotlib_has_not_found_yet_are_settled_first(axis):
    axis.plot([0, 1], [2.0, 6.0], label="one")
    axis.margins(y=0.25)  # 1 to 7
    plots.label_ends(axis)
    assert places(axis)["one"] == pytest.approx(5 / 6)
    axis.plot([0, 1], [90.0, 100.0])
    assert axis.get_ylim() == pytest.approx((1, 7))


def test_names_that_would_overlap_are_moved_apart_and_keep_their_order(axis):
    for name, end in (("top", 0.99), ("low", 0.5), ("high", 0.501), ("next", 0.985)):
        axis.plot([0, 1], [0, end], label=name)
    axis.set(ylim=(0, 1))
    plots.label_ends(axis)
    found = places(axis)
    order = sorted(found, key=found.__getitem__)
    assert order == ["low", "high", "next", "top"]
    gap = min(found[b] - found[a] for a, b in itertools.pairwise(order))
    figure = axis.figure
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axis.texts]
    assert gap > 0 and found["top"] <= 1
    tall = max(box.height for box in boxes) / axis.get_window_extent().height
    assert gap >= 0.8 * tall


def test_panels_come_row_by_row():
    figure, axes = plots.panels(2, rows=2)
    places = [axis.get_subplotspec() for axis in axes]
    assert [(at.rowspan.start, at.colspan.start) for at in places] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    plt.close(figure)
