"""The axis of quality, and the panels that are drawn on it: accuracy, or the probability of a byte."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from bench.report.figures.overview import overview
from bench.report.figures.picture import SERIES
from bench.report.figures.quality_axis import QualityAxis
from bench.report.leaderboard import markdown


@pytest.fixture
def texts(make_record):
    """A record of a language model that scores texts, and answers no question."""
    return make_record(data="texts", quality=[[0.06, 0.05, 0.004]], chance=1 / 256, result={"parts": {}})


def test_the_leaderboard_names_the_quality_of_texts(texts, board_of):
    assert "Unpruned probability of a byte 6.0 %, chance 0.4 %" in markdown(board_of([texts]))


@pytest.mark.parametrize(("drawn", "ends"), [((0.6, 0.9), (0.5, 0.9)), ((0.3, 1.1), (0.3, 1.0)), ((0.5, 0.5), None)])
def test_the_axis_goes_from_chance_or_the_worst_to_the_best_that_is_drawn(make_record, drawn, ends):
    axis = Figure().subplots()
    axis.plot([0, 1], drawn)
    QualityAxis.of(make_record(chance=0.5)).fit(axis)
    low, high = axis.get_ylim()
    assert low < 0.5 < high  # also where all is chance
    if ends:
        room = 0.04 * (ends[1] - ends[0])
        assert (low, high) == pytest.approx((ends[0] - room, ends[1] + room))


def test_where_all_methods_remove_neurons_these_have_colours(make_record, board_of):
    neurons = make_record(label="amp", neurons=True)
    alone, both = overview(board_of([neurons])).decode(), overview(board_of([make_record(), neurons])).decode()
    assert "no method removes heads alone" in alone and SERIES[0] in alone and "no method" not in both


def test_panels_name_their_axis_where_it_changes(make_record, texts, board_of):
    svg = overview(board_of([make_record(data="first"), make_record(data="second"), texts])).decode()
    words = [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert words.count("share of heads removed") == 3
    assert (words.count("test accuracy"), words.count("probability of a byte")) == (2, 2)  # heads, then parameters
