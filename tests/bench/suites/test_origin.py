"""The digest of data and of a given model's weights, from fingerprints of whatever shape a task gives."""

from __future__ import annotations

import pytest

from bench.suites.cells import origin_of


@pytest.mark.parametrize(
    "other",
    [
        {"data": "abc", "model": "def"},
        {"data": "abc", "model": {"weights": "g"}},
        {"data": "abd", "model": {"weights": "def"}},
        {"digest": "x"},
        {"digest": "y"},
    ],
)
def test_each_shape_has_an_origin_of_its_own(other):
    built_in = {"data": "abc", "model": {"weights": "def", "recipe": 1}}
    assert origin_of(built_in) == origin_of({"data": "abc", "model": {"weights": "def", "recipe": 2}})
    assert (origin_of(other) == origin_of(built_in)) == (other == {"data": "abc", "model": "def"})
    assert origin_of({"digest": "x"}) != origin_of({"digest": "y"})
