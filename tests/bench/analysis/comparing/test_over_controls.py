"""Methods against the controls of their kind: differences, p-values, and what is left out."""

from __future__ import annotations

import numpy as np
import pytest

from bench.analysis.comparing.comparison import compare
from bench.analysis.comparing.over_controls import over_controls
from bench.analysis.stats.pairs import holm
from bench.records.storage.current import finished, read_current
from bench.report.comparison_text import words


@pytest.fixture
def over(tmp_path):
    """What is found of the records that were written."""
    return lambda: over_controls(finished(read_current(tmp_path)[0]))


@pytest.fixture
def scored(keep):
    """Write random orders, and methods that keep so many points more with half removed, in ``seeds`` of two tasks."""

    def write(seeds: int = 5, **points: float):
        rng = np.random.default_rng(0)
        for seed in range(seeds):
            for data in ("first", "second"):
                folder = keep("random", [0.9, 0.6, 0.5], [0.9, 0.64, 0.5], seed=seed, data=data, control=True)
                for label, more in points.items():
                    keep(label, [0.9, 0.62 + more + rng.normal(0, 0.03), 0.5], seed=seed, data=data)
        return folder

    return write


def test_differences_are_those_of_compare_and_p_is_adjusted_for_the_kind(scored, over):
    folder = scored(michel=0.08, ae=0.02, gnorm=-0.01)
    answers = {label: compare(folder, label, "random").overall for label in ("ae", "gnorm", "michel")}
    found = over()
    assert set(found) == set(answers)
    adjusted = holm([answer.p for answer in answers.values()])
    for (label, answer), p in zip(answers.items(), adjusted, strict=True):
        got = found[label]["random"]
        assert (got.control, got.difference.mean, got.p) == ("random", answer.mean, p)
        assert got.difference.interval == answer.interval
    assert found["michel"]["random"].p < 0.05 < found["gnorm"]["random"].p
    assert answers["michel"].p < found["michel"]["random"].p  # three questions, not one


def test_kinds_are_corrected_for_apart(scored, over, keep):
    scored(michel=0.08, ae=0.02)
    before = over()["michel"]["random"]
    for seed in range(5):
        for data in ("first", "second"):
            for label, method in (("ae:recover=lstsq", "ae"), ("random:recover=lstsq", "random")):
                keep(
                    label, [0.9, 0.7 if method == "ae" else 0.6, 0.5], seed=seed, data=data, control=method == "random",
                    change={"method": method, "options": {"recover": "lstsq"}},
                )  # fmt: skip
    found = over()
    assert found["michel"]["random"] == before
    assert found["ae:recover=lstsq"]["random"].control == "random:recover=lstsq"
    assert found["ae:recover=lstsq"]["random"].difference.mean == pytest.approx(5)
    assert found["ae:recover=lstsq"]["untreated"].control == "ae"
    assert found["random:recover=lstsq"].keys() == {"untreated"}


def test_too_few_seeds_for_all_methods_of_a_kind_have_no_p(scored, over):
    scored(seeds=3, **{f"m{number}": 0.05 for number in range(6)})
    got = over()["m0"]["random"]
    assert got.p is None and got.difference.seeds_needed(got.tests) == 4  # 8 differences: 2 / 2^8 is below 0.05 / 6


def test_a_method_is_compared_on_all_tasks_or_not_at_all(scored, over, keep):
    scored(michel=0.08)
    keep("ae", data="first")
    keep("gnorm", data="first", seed=99)
    keep("gnorm", data="second")
    assert "ae" not in over() and "gnorm" not in over()
    keep("ae", data="second")
    assert over()["ae"]["random"].difference.seeds == (1, 1)


def test_a_control_that_lacks_a_task_gives_way_to_one_that_has_all(scored, over, keep):
    scored(michel=0.08)
    before = over()["michel"]["random"]
    change = {"method": "random", "options": {}}
    keep("ra", data="first", control=True, change=change)  # as like michel as random is, with the shorter label
    assert before.control == "random" and over()["michel"]["random"] == before


def test_records_of_other_settings_are_not_compared(scored, over, keep):
    scored(michel=0.08)
    for data in ("first", "second"):
        keep("ae", data=data)
        keep("gnorm", data=data, limit=50)
    assert "ae" in over() and "gnorm" not in over()


def test_beside_another_control_the_own_one_and_new_weights_are_named(keep):
    def recovered(label: str, how: str = "lstsq", **fields):
        method = label.partition(":")[0]
        return keep(label, change={"method": method, "options": {"recover": how}}, **fields)

    recovered("ae:recover=lstsq")
    recovered("random:recover=lstsq", control=True)
    recovered("kwon", "scale")
    keep("ae")
    keep("michel")
    folder = keep("random", control=True)
    said = words(compare(folder, "ae:recover=lstsq", "random"))
    assert "Note that the random control of ae:recover=lstsq is random:recover=lstsq." in said
    weights = "weights of ae:recover=lstsq were recovered without training, and those of {} were not"
    assert weights.format("random") in said
    assert weights.format("michel") in words(compare(folder, "michel", "ae:recover=lstsq"))
    ways = "in two ways, kwon by recover=scale and ae:recover=lstsq by recover=lstsq: part of the difference is due"
    assert ways in words(compare(folder, "kwon", "ae:recover=lstsq"))
    for one, other in (("ae:recover=lstsq", "random:recover=lstsq"), ("ae:recover=lstsq", "ae"), ("ae", "random")):
        assert "Note" not in words(compare(folder, one, other))
