"""The table of scores by schedule: which cells belong together, and what it says of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.__main__ import main
from bench.records.errors import InputError
from bench.records.schema import FinishedRecord
from bench.records.storage.store import Store
from bench.report.board import read
from bench.report.leaderboard import by_schedule
from bench.report.tables.schedules import schedules
from bench.report.tables.table import Table

PLAIN = {"allocation": "global", "inverse": False, "layer_norm": False, "recompute": 0}
WHOLE_MODULE, FROM_BOTH = [0, 1, 2, 3, 4, 5, 6, 7], [0, 4, 1, 5, 2, 6, 3, 7]


@pytest.fixture
def ran(make_record):
    """The record of a score under a schedule, with this accuracy at half of the heads."""

    def make(label: str, at_half: float = 0.7, order: list[int] = FROM_BOTH, seed: int = 0, **fields: Any):
        options = PLAIN | {name: fields.pop(name) for name in PLAIN if name in fields}
        return make_record(
            label=label,
            seed=seed,
            quality=[[0.9, at_half, 0.5]],
            cell={"options": options, "method": label.partition(":")[0]},
            result={"shape": [4, 4], "orders": [order]},
            **fields,
        )

    return make


def cells(table: Table) -> dict[tuple[str, str], dict[str, str]]:
    """What is shown, by score and how often it scores, by column."""
    return {
        (row[0].shown, row[1].shown): {
            heading.key: cell.shown for heading, cell in zip(table.headings[2:], row[2:], strict=True)
        }
        for row in table.rows
    }


def test_a_score_has_one_row_and_a_column_for_each_way_of_ranking(ran, board_of):
    got = cells(
        schedules(
            board_of(
                [
                    ran("gnorm", 0.5, WHOLE_MODULE),
                    ran("gnorm:layer_norm=true", 0.6, layer_norm=True),
                    ran("gnorm:allocation=layer", 0.7, allocation="layer"),
                    ran("gnorm:allocation=layer,recompute=1", 0.8, allocation="layer", recompute=1),
                    ran("ae:recompute=4", recompute=4),
                ]
            )
        )
    )
    assert got["gnorm", "once"] == {
        "global_area": "0.250",
        "global_emptied": "100",
        "global_layer_norm_area": "0.375",
        "global_layer_norm_emptied": "0",
        "per_layer_area": "0.500",
        "per_layer_emptied": "0",
    }
    assert got["gnorm", "after each removal"]["per_layer_area"] == "0.625"
    assert got["gnorm", "after each removal"]["global_area"] == "–"
    assert set(got) == {("gnorm", "once"), ("gnorm", "after each removal"), ("ae", "after every 4")}


def test_options_of_the_score_itself_make_another_row(ran, board_of):
    board = board_of([ran("tis:log=true"), ran("tis:allocation=layer,log=true", allocation="layer"), ran("tis")])
    got = cells(schedules(board))
    assert got["tis:log=true", "once"]["per_layer_area"] == "0.500" and got["tis", "once"]["per_layer_area"] == "–"


def test_a_norm_that_depends_on_the_schedule_is_where_it_applies(ran, board_of):
    board = board_of([ran("michel", layer_norm="auto"), ran("michel:recompute=1", layer_norm="auto", recompute=1)])
    got = cells(schedules(board))
    assert got["michel", "once"]["global_layer_norm_area"] == "0.500"
    assert got["michel", "after each removal"]["global_area"] == "0.500"


def test_of_two_names_of_one_schedule_the_one_with_all_tasks_is_shown(ran, board_of):
    whole = [ran("michel", 0.7, seed=seed, data=data, layer_norm="auto") for data in "ab" for seed in range(2)]
    part = [ran("michel:layer_norm=true", 0.6, seed=seed, data="a", layer_norm=True) for seed in range(2)]
    both = [*part, ran("michel:layer_norm=true", 0.6, data="b", layer_norm=True)]
    for others in ([], part, both):
        assert cells(schedules(board_of([*others, *whole])))["michel", "once"]["global_layer_norm_area"] == "0.500"


def test_means_are_over_tasks_and_seeds_and_emptied_is_a_share_of_cells(ran, board_of):
    board = board_of(
        [
            ran("gnorm", at_half, WHOLE_MODULE if seed else FROM_BOTH, seed, data=data)
            for data in ("first", "second")
            for seed, at_half in enumerate((0.5, 0.7, 0.6, 0.6))
        ]
    )
    table = schedules(board)
    area, emptied = table.rows[0][2:]
    assert (area.shown, area.spread, emptied.shown) == ("0.375", " ±0.102", "75")
    assert table.caption.startswith("Area by score and schedule, mean over 2 tasks and 4 seeds.")


def test_area_and_share_emptied_are_means_over_tasks_whose_seeds_may_differ(ran, board_of):
    board = board_of(
        [
            ran("gnorm", 0.7, WHOLE_MODULE if seed > 1 else FROM_BOTH, seed, data=data)
            for data, seeds in (("first", 4), ("second", 2))
            for seed in range(seeds)
        ]
    )
    table = schedules(board)
    assert [cell.shown for cell in table.rows[0][2:]] == ["0.500", "25"]
    assert table.caption.startswith("Area by score and schedule, mean over 2 tasks and 2 to 4 seeds.")


def test_tasks_that_are_left_out_are_told(ran, tmp_path, capsys):
    arrays = {"outcomes": np.zeros((1, 3, 100), dtype=bool)}
    for data, label in (("first", "ae"), ("first", "gnorm"), ("second", "ae")):
        Store(tmp_path).write(f"{data}/{label}/seed0", ran(label, data=data), arrays)
    assert main(["leaderboard", str(tmp_path), "--by", "schedule"]) == 0
    assert "headbench: Not shown, as some task is missing: gnorm (seed 0).\n" in capsys.readouterr().err


def test_where_no_score_has_all_tasks_it_is_one_line(ran, board_of):
    with pytest.raises(InputError, match="no method that has a schedule was run on all of its 2 tasks"):
        schedules(board_of([ran("ae", data="first"), ran("gnorm", data="second")]))


def test_only_schedules_that_remove_heads_by_importance_are_shown(ran, make_record, board_of):
    others: list[FinishedRecord] = [
        ran("inverse-ae", inverse=True),
        ran("amp", neurons=True),
        make_record(label="ste", trained=0.1),
    ]
    got = cells(schedules(board_of([*others, ran("ae")])))
    assert set(got) == {("ae", "once")}
    with pytest.raises(InputError, match="no method there has a schedule and removes heads alone"):
        schedules(board_of(others))


@pytest.fixture
def folder(ran, tmp_path):
    arrays = {"outcomes": np.zeros((1, 3, 100), dtype=bool)}
    for label, allocation in (("ae", "global"), ("ae:allocation=layer", "layer")):
        Store(tmp_path).write(f"t/{allocation}/seed0", ran(label, allocation=allocation), arrays)
    return tmp_path


def test_it_is_printed_from_records_in_each_form(folder, capsys):
    for form, row in (
        ("md", "| ae    |   once |        0.500 |                   0 |           0.500 |                      0 |"),
        ("csv", "ae,once,0.5,0,0.5,0"),
        ("latex", r"ae & once & 0.500 & 0 & 0.500 & 0 \\"),
    ):
        assert main(["leaderboard", str(folder), "--by", "schedule", "--format", form]) == 0
        assert row in capsys.readouterr().out.splitlines()


def test_forms_and_orders_that_it_does_not_have_are_one_line(folder, capsys):
    with pytest.raises(InputError, match="expected --format md, csv, latex, not html"):
        by_schedule(read(folder), "html")
    assert main(["leaderboard", str(folder), "--by", "schedule", "--sort", "area50"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
