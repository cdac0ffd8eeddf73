"""The seeds that methods are ranked by."""

from __future__ import annotations

from bench.analysis.usual_seeds import usual_seeds
from bench.records.schema import TaskKey

ONE, OTHER = TaskKey("t", "one", "m"), TaskKey("t", "other", "m")


def test_the_seeds_that_most_methods_have_count():
    seeds = {"a": {ONE: {0, 1, 2}}, "b": {ONE: {1, 0, 2}}, "c": {ONE: range(10)}}
    assert usual_seeds(seeds, [ONE]) == {ONE: (0, 1, 2)}


def test_of_equally_frequent_ones_the_longest():
    assert usual_seeds({"a": {ONE: {5, 9}}, "b": {ONE: {0, 1, 2}}}, [ONE]) == {ONE: (0, 1, 2)}


def test_methods_that_lack_a_task_do_not_count_where_others_have_all():
    seeds = {"a": {ONE: {0}, OTHER: {0}}, "b": {ONE: {1, 2}}, "c": {ONE: {1, 2}, OTHER: ()}}
    assert usual_seeds(seeds, [ONE, OTHER]) == {ONE: (0,), OTHER: (0,)}
    del seeds["a"][OTHER]
    assert usual_seeds(seeds, [ONE]) == {ONE: (1, 2)}
    assert usual_seeds(seeds | {"d": {OTHER: {3}}}, [ONE, OTHER]) == {ONE: (1, 2), OTHER: (3,)}
