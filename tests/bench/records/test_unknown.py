"""What is suggested for a name that is not known."""

import pytest

from bench.records.errors import unknown

LABELS = ["gnorm:recover=lstsq", "random", "random:draws=3,recover=lstsq", "michel", "michel:recover=lstsq"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("random:recover=lstsq", "random:draws=3,recover=lstsq"),
        ("michel:recovr=lstsq", "michel:recover=lstsq"),
        ("micel", "michel"),
        ("gnorm", "gnorm:recover=lstsq"),
    ],
)
def test_of_labels_those_of_the_same_method_are_nearest(name, meant):
    assert str(unknown("method", name, LABELS)) == f"unknown method {name!r}: did you mean {meant!r}?"


def test_all_names_are_listed_where_none_is_near():
    assert str(unknown("method", "zzz", ["b", "a"])) == "unknown method 'zzz': available: a, b"
