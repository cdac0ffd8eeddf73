"""The first method that CONTRIBUTING.md shows can be run."""

from __future__ import annotations

from tests.docs.documents import CONTRIBUTING


def test_its_method_can_be_run(place, plugin):
    plugin(next(code for code in CONTRIBUTING.blocks("python") if "last-first" in code))
    assert place.run("--methods", "last-first") == 0
    assert place.records()["last-first/seed0"]["result"]["orders"] == [[7, 6, 5, 4, 3, 2, 1, 0]]
