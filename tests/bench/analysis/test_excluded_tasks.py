"""Tasks whose unpruned model is no better than chance are left out of means, by name."""

from __future__ import annotations

from bench.analysis.cell_metrics import metrics_table
from bench.analysis.excluded_tasks import exclusion_note, rows_to_average, tasks_at_chance
from bench.records.schema import TaskKey

LOW = TaskKey("classification", "low", "model")


def table_of(make_record, **base):
    """A metrics table of tasks whose unpruned models have these qualities, by seed; chance is a third."""
    return metrics_table(
        make_record(data=data, seed=seed, quality=[[quality, quality, quality / 2]], chance=1 / 3)
        for data, qualities in base.items()
        for seed, quality in enumerate(qualities)
    )


def test_a_task_at_chance_is_left_out(make_record):
    table = table_of(make_record, high=[0.9, 0.8], low=[0.34, 0.34])
    assert tasks_at_chance(table) == {LOW: "34.0 %, chance 33.3 %"}
    assert set(rows_to_average(table)["data"]) == {"high"}


def test_a_task_at_chance_in_one_seed_is_left_out_and_the_seed_named(make_record):
    table = table_of(make_record, high=[0.9, 0.8], low=[0.9, 0.34])
    assert tasks_at_chance(table) == {LOW: "34.0 % in seed 1, chance 33.3 %"}
    assert set(rows_to_average(table)["data"]) == {"high"}


def test_where_all_tasks_are_at_chance_all_rows_stay(make_record):
    table = table_of(make_record, low=[0.34], lower=[0.3])
    assert len(tasks_at_chance(table)) == 2 and rows_to_average(table) is table


def test_the_note_names_tasks_and_what_their_models_had():
    note = "as the unpruned model is not better than chance by 2 standard errors: a (34 %); b (20 %)."
    assert exclusion_note({"a": "34 %", "b": "20 %"}, some_remain=True) == f"Left out of the mean, {note}"
    assert exclusion_note({"a": "34 %", "b": "20 %"}, some_remain=False) == f"No area is shown, {note}"
    assert exclusion_note({}, some_remain=True) == ""
