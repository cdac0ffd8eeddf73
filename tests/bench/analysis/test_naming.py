"""Short names of tasks, and lists of seeds."""

from __future__ import annotations

from bench.analysis.naming import (
    all_of_one_model,
    by_reason,
    number_of_seeds,
    of_one_model,
    seeds_in_words,
    short_names,
)
from bench.records.schema import TaskKey


def test_a_task_has_the_name_of_its_adapter_unless_another_has_it():
    mnli, first, second = TaskKey("mnli", "d", "m"), TaskKey("own", "first", "m"), TaskKey("own", "second", "m")
    assert short_names([mnli, first]) == {mnli: "mnli", first: "own"}
    assert short_names([mnli, first, second]) == {mnli: "mnli", first: "own (first, m)", second: "own (second, m)"}


def test_seeds_are_listed_in_order():
    assert (seeds_in_words([1]), seeds_in_words({10, 2})) == ("seed 1", "seeds 2, 10")


def test_seeds_are_counted_for_each_task_where_they_differ():
    assert number_of_seeds([range(6), range(6)]) == "6 seeds"
    assert number_of_seeds([[4]]) == "1 seed"
    assert number_of_seeds([range(6), range(3, 9)]) == "6 seeds per task"
    assert number_of_seeds([range(12), range(6)]) == "6 to 12 seeds per task"


def test_seeds_of_a_model_that_is_taken_as_it_is_are_called_draws(make_record):
    assert of_one_model([make_record(training={}), make_record(training={}, seed=1)]).startswith("draws of calibration")
    assert of_one_model([make_record(training={"steps": 10})]) == ""


def test_names_are_listed_by_the_reason_that_they_share():
    assert by_reason({"b": "late", "c": "wrong", "a": "late"}) == "a, b (late); c (wrong)"


def test_seeds_of_several_tasks_are_draws_only_where_those_of_each_are(make_record):
    drawn, trained = [make_record(training={})], [make_record(training={"steps": 10})]
    assert all_of_one_model([drawn, drawn]).startswith("draws of calibration")
    assert [all_of_one_model(tasks) for tasks in ([drawn, trained], [trained], [])] == ["", "", ""]
