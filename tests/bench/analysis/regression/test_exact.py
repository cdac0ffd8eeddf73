"""On the same machine any difference is a regression, named with its place, unless it was meant."""

from __future__ import annotations

import numpy as np
import pytest

PARTS = {
    "shape": [4, 4],
    "orders": [[1, 0, *range(2, 8)]],
    "kept": [[0], [1], []],
    "quality": (0.9, 0.6, 0.5),
    "metrics": [[{"acc": 1.0}, {"acc": 0.5}, {"acc": 0.5}]],
    "parameters": [{"model": 3}, {"model": 2}, {"model": 1}],
    "megabytes": [{"model": 3.0}, {"model": 2.0}, {"model": 1.0}],
    "passes": {"forward": 256, "backward": 0},
    "training": {"weights": "b"},
    "method_training": {"passes": {"forward": 128, "backward": 0}, "reports": {}},
    "recovery": {4: {"recovered": 1.0, "unchanged": 1.0}},
    "gap": 1e-7,
}


def test_equal_records_are_no_regression(keep, regress):
    for name in ("before", "after"):
        keep(name, seeds=range(3))
        keep(name, "ae", seeds=range(3))
    code, said = regress()
    assert code == 0
    assert said.startswith("no regressions in 2 methods, 6 cells:") and "same    ae, michel" in said


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_a_result_is_compared(keep, regress, part):
    keep("before", seeds=range(2))
    keep("before", "ae")
    keep("after")
    keep("after", "ae")
    keep("after", seeds=[1], **{part: PARTS[part]})
    code, said = regress()
    assert code == 1
    assert "FAILED  michel" in said and "in 1 of 2 cells (classification, seed 1: " in said and "same    ae" in said


def test_a_change_is_told_where_it_begins(keep, regress):
    keep("before")
    keep("after", orders=[[0, 1, 3, 2, 4, 5, 6, 7]], passes={"forward": 129, "backward": 0})
    said = regress()[1]
    assert "removal order in 1 of 1 cells (classification, seed 0: 2 of 8 places, from place 3 on: unit 2 -> 3)" in said
    assert said.index("passes in 1 of") < said.index("removal order") and "128 -> 129 forward" in said


def test_other_outcomes_of_the_same_quality_are_seen(keep, regress):
    keep("before")
    keep("after", shift=1)
    code, said = regress()
    assert code == 1 and "test outcomes in 1 of 1 cells (classification, seed 0: 6 of 600 differ)" in said


@pytest.mark.parametrize(("name", "code"), [("statistics.bleu", 1), ("neurons.0.layer", 1), ("scores.0", 0)])
def test_other_arrays_are_a_change_but_for_scores(keep, regress, name, code):
    """Rounding may change scores, and no order."""
    keep("before", arrays={name: np.arange(4.0)})
    keep("after", arrays={name: np.arange(4.0) + 1})
    found, said = regress()
    assert found == code and (f"arrays in 1 of 1 cells (classification, seed 0: other {name})" in said) == bool(code)


def test_another_version_of_ours_on_the_same_machine_has_to_give_the_same(keep, regress):
    keep("before")
    keep("after", shift=1, packages={"headbench": "0.2.0"})
    assert regress()[0] == 1


def test_another_device_is_another_machine(keep, regress):
    keep("before")
    keep("after", shift=1, device="cuda")
    code, said = regress()
    assert code == 0 and "device cpu -> cuda (1 cell)" in said


def test_what_is_meant_to_change_is_told_and_passes(keep, regress):
    keep("before")
    keep("after", shift=1)
    code, said = regress("--changed", "michel")
    assert code == 0 and "changed michel" in said and "6 of 600 differ" in said


@pytest.mark.parametrize(("part", "named"), [("shape", "heads by layer"), ("megabytes", "in 1 of 1 cells")])
def test_sizes_are_compared_on_any_machine(keep, regress, part, named):
    keep("before")
    keep("after", processor="B", **{part: [8] if part == "shape" else PARTS[part]})
    code, said = regress()
    assert code == 1 and named in said
    assert "other machine or versions" in said and "processor A -> B (1 cell)" in said


def test_orders_of_another_machine_may_differ(keep, regress):
    keep("before")
    keep("after", processor="B", orders=[list(range(7, -1, -1))])
    assert regress()[0] == 0


def test_failures_that_are_new_are_regressions(keep, regress):
    keep("before")
    keep("before", "ae", reason="no luck")
    keep("before", "gnorm", reason="no luck")
    keep("after", reason="KeyError: 'q'")
    keep("after", "ae")
    keep("after", "gnorm", reason="no luck")
    code, said = regress()
    assert code == 1
    assert "FAILED  michel\n          fails now in 1 of 1 cells (classification, seed 0: KeyError: 'q')" in said
    assert "changed ae\n          failed before" in said
    assert "unknown gnorm\n          1 of 1 cells fail, as in the baseline" in said
    assert regress("--changed", "michel")[0] == 1


def test_another_recovery_is_named_by_its_level(keep, regress):
    keep("before", recovery={4: {"recovered": 2.0}, 8: {"recovered": 0.0}})
    keep("after", recovery={4: {"recovered": 1.0}, 8: {"recovered": 0.0}})
    code, said = regress()
    assert code == 1 and "recovery in 1 of 1 cells (classification, seed 0: other 4)" in said


def test_of_a_method_that_fails_in_both_nothing_is_known(keep, regress):
    for folder in ("before", "after"):
        keep(folder)
        keep(folder, "gnorm", reason="no luck")
    code, said = regress()
    assert code == 0 and "not known" in said and "same gnorm" not in said
