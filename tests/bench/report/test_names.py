"""Names beside points: where there is room, in the order in which the points are given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg

from bench.report.figures.canvas import canvas
from bench.report.figures.names import NamedPoint, name_points
from bench.report.figures.picture import INK

METHODS = ["ae", "michel", "greedy-gnorm", "obs:recover=lstsq", "random"]
coordinates = st.floats(0, 1).map(lambda value: round(value, 2))


@pytest.fixture(scope="module")
def drawn():
    """Draws points, and gives the annotations with their extents in pixels, and the pixels of the points."""

    def draw(points):
        figure, axis = canvas("", "", "")
        axis.set(xlim=(-0.5, 1.5), ylim=(-0.2, 1.2))
        name_points(axis, points)
        renderer = FigureCanvasAgg(figure).get_renderer()
        extents = [text.get_window_extent(renderer) for text in axis.texts]
        return axis.texts, extents, axis.transData.transform([(point.x, point.y) for point in points])

    return draw


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(METHODS), coordinates, coordinates), min_size=1, max_size=12))
def test_names_cover_neither_each_other_nor_a_point(drawn, places):
    texts, extents, pixels = drawn([NamedPoint(*place) for place in places])
    assert len(places) > 1 or [text.get_text() for text in texts] == [places[0][0]]
    for number, one in enumerate(extents):
        assert not any(one.contains(*pixel) for pixel in pixels)
        for other in extents[:number]:
            shared = np.minimum(one.max, other.max) - np.maximum(one.min, other.min)
            assert (shared < 1).any()  # pixels


def test_no_name_lies_on_a_bar(drawn):
    bars = [NamedPoint("michel", 0.5, 0.5, across=(0.0, 1.0), bar=(0.4, 0.6)), NamedPoint("ae", 0.5, 0.55)]
    texts, extents, _ = drawn(bars)
    trans = texts[0].axes.transData
    (left, y), (right, _) = trans.transform([(0.0, 0.5), (1.0, 0.5)])
    assert not any(box.y0 < y < box.y1 and box.x0 < right and box.x1 > left for box in extents)


def test_the_first_point_has_its_name_where_there_is_room_for_one(drawn):
    crowd = [NamedPoint("random", x, y) for x in np.linspace(0, 1, 12) for y in np.linspace(0, 1, 24)]
    texts, *_ = drawn([NamedPoint("michel", 1, 1, INK), *crowd])
    assert texts[0].get_text() == "michel" and texts[0].get_color() == INK
    assert len(texts) < len(crowd) // 4


def test_bars_and_shifts_take_their_room(drawn):
    alone = drawn([NamedPoint("ae", 0.5, 0.5)])[0][0].xyann
    shifted = drawn([NamedPoint("ae", 0.5, 0.5, shift=5.0)])[0][0].xyann
    assert (shifted[0] - alone[0], shifted[1]) == (5.0, alone[1])
    beside = NamedPoint("random", 0.56, 0.2, bar=(0.0, 1.0))  # where the name stood
    assert drawn([NamedPoint("ae", 0.5, 0.5), beside])[0][0].xyann != alone


@pytest.mark.parametrize("up", [1, -1])
def test_a_name_stands_above_or_below_its_point_where_there_is_room_nowhere_else(drawn, up):
    sides = [NamedPoint("random", 0.5 + side * dx, 0.5, bar=(-0.2, 1.2)) for side in (1, -1) for dx in (0.045, 0.09)]
    below = NamedPoint("random", 0.5, 0.5 - up * 0.06)
    texts = drawn([NamedPoint("a", 0.5, 0.5), *sides, below])[0]
    own = next(text for text in texts if text.get_text() == "a")
    assert own.get_ha() == "center" and up * own.xyann[1] > 0
