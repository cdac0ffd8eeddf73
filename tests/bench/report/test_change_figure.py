"""The change of scores after the first removal: from a run, and drawn."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from safetensors.numpy import load_file

from bench.__main__ import main
from bench.measure.view import view_of
from bench.report.board import read
from bench.report.figures.heads.change_map import change_map
from bench.report.figures.heads.score_changes import ScoreChange, score_change, score_changes
from bench.report.figures.picture import MUTED, SERIES
from bench.suites.cells import open_task
from methods import METHODS
from methods.heads.surgery.shrink import shrink, working_copy
from tasks.models.cache import Cache
from tasks.request import TaskSpec


@pytest.mark.slow
def test_the_first_change_is_that_of_the_score_on_the_smaller_model(place):
    assert place.run("--methods", "greedy-gnorm,michel,random:draws=2") == 0
    board = read(place.out)
    (task,) = board.tasks
    assert score_change(board.paths(task, "michel")) is None  # scored once
    found = score_change(board.paths(task, "greedy-gnorm"))
    record = board.of(task, "greedy-gnorm")[0]
    assert found.removed.tolist() == record.result.orders[0][:1] and found.shape == (4, 4)
    opened = open_task(TaskSpec(task="classification", model=str(place.model), data=str(place.data)))
    model = opened.open(0, Cache(place.cache), torch.device("cpu")).requires_grad_(False)
    method, calibration = METHODS["greedy-gnorm"], record.cell.calibration
    view = view_of(opened, model, method, 0, calibration, 1.0, torch.device("cpu"))
    before = method.function(view)
    mask = torch.arange(8) != found.removed[0]
    smaller = working_copy(model)
    heads = shrink(smaller, mask, view.heads)
    after = method.function(replace(view, model=smaller, heads=heads, kept=heads.full_mask(), memory={}))
    expected = ((after - before[mask]) / before[mask].abs()).numpy()
    np.testing.assert_allclose(found.change[mask.numpy()], expected, rtol=1e-4, atol=1e-5)
    assert math.isnan(found.change[found.removed[0]])
    (path,) = board.paths(task, "random:draws=2")
    assert {name for name in load_file(path.with_suffix(".safetensors")) if "scores" in name} == {
        "scores.0",
        "scores.1",
    }
    assert main(["report", str(place.out)]) == 0
    page = (place.out / "report" / "methods" / "greedy-gnorm.html").read_text()
    assert "Scores of greedy-gnorm after the first removal" in page
    assert "after the first removal" not in (place.out / "report" / "methods" / "michel.html").read_text()


def test_cells_show_per_cent_and_mark_what_was_removed():
    change = np.array([0.5, np.nan, -0.25, np.inf])
    axis = score_changes(ScoreChange(change, np.array([1]), (2, 2), ("encoder 0", "cross 0"), 0), "title").axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["encoder 0", "cross 0"]
    assert cells(axis) == {(0, 0): "+50", (1, 0): "×", (0, 1): "-25"}


def test_rises_and_falls_have_different_colours_and_what_was_removed_has_none():
    axis = Figure().subplots()
    change_map(axis, [np.array([0.5, -0.5, 0.1]), np.array([-1.0, 0.0, -0.05])], [np.zeros(3, bool), np.arange(3) == 0])
    assert cells(axis) == {(0, 0): "+50", (1, 0): "-50", (2, 0): "+10", (0, 1): "×", (1, 1): "0", (2, 1): "-5"}
    fills = {
        tuple(corner): (to_hex(patch.get_facecolor()), patch.get_alpha())
        for patch in axis.patches
        for corner in np.floor(patch.get_path().vertices[::5]).astype(int).tolist()
    }
    rises, falls = SERIES[:2]
    assert {place: colour for place, (colour, _) in fills.items()} == {
        (0, 0): rises, (2, 0): rises, (1, 0): falls, (2, 1): falls,
    }  # fmt: skip
    assert fills[0, 0][1] == fills[1, 0][1] > fills[2, 0][1] > fills[2, 1][1]  # centred at zero: the same both ways
    (cross,) = [text for text in axis.texts if text.get_text() == "×"]
    assert cross.get_color() == MUTED


def cells(axis):
    """What is written in the cell at (column, row), where something is."""
    return {tuple(map(int, text.get_position())): text.get_text() for text in axis.texts if text.get_text()}
