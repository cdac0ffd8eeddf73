"""Where answers may differ, a loss counts beyond the margin and its interval only."""

from __future__ import annotations

import numpy as np
import pytest

from bench.analysis.regression.cells import twins
from bench.analysis.regression.effect import effect
from bench.analysis.stats.documents import document_bootstrap

HALF = (0.9, 0.7, 0.5)
ORDER = {"orders": [[1, 0, *range(2, 8)]]}


def lower(points: float) -> tuple[float, ...]:
    """Qualities whose area is lower by so many points: the middle one counts for half of it."""
    return HALF[0], HALF[1] - points / 50, HALF[2]


@pytest.mark.parametrize(("points", "code"), [(5, 1), (1, 1), (0.25, 0), (-5, 0)])
def test_a_loss_beyond_the_margin_fails(keep, regress, points, code):
    keep("before", seeds=range(6))
    keep("after", seeds=range(6), quality=lower(points), processor="B")
    found, said = regress()
    assert found == code
    kept = f"keeps {abs(points):.2f} points {'less' if points > 0 else 'more'}, averaged over levels"
    assert kept in said and "over 6 cells" in said
    assert regress("--margin", "10")[0] == 0


@pytest.mark.parametrize(("lost", "verdict"), [(2, "unknown"), (0, "no loss")])
def test_a_loss_within_its_interval_does_not_fail_and_is_not_called_the_same(keep, regress, lost, verdict):
    keep("before", seeds=range(8))
    for seed, points in enumerate((7, -5, 6, -6, 4, -7, 5, -4)):
        keep("after", seeds=[seed], quality=lower(points + lost), processor="B")
    code, said = regress()
    line = next(line for line in said.splitlines() if line.endswith("michel"))
    assert code == 0 and line == f"{verdict:8}michel"


@pytest.mark.parametrize(("change", "verdict"), [({}, "same"), ({"quality": lower(-9)}, "no loss"), (ORDER, "no loss")])
def test_on_another_machine_only_equal_results_are_called_the_same(keep, regress, change, verdict):
    for seed in range(6):
        keep("before", "ae", seeds=[seed])
        keep("before", seeds=[seed])
        keep("after", "ae", seeds=[seed], processor="B")
        keep("after", seeds=[seed], processor="B", **change if seed == 5 else {})
    code, said = regress()
    names = ["ae, michel"] if verdict == "same" else ["michel", "ae"]
    lines = [f"{told:8}{name}" for told, name in zip(dict.fromkeys((verdict, "same")), names, strict=True)]
    assert code == 0 and [line for line in said.splitlines() if line in lines] == lines
    assert ("keeps 1.50 points more" in said) == ("quality" in change)


def test_of_few_cells_the_documents_speak(keep, regress):
    keep("before")
    keep("after", quality=lower(10), processor="B")
    code, said = regress()
    assert code == 1 and "over the documents of 1 cell)" in said


def test_seeds_with_other_documents_need_more_cells(keep, regress):
    for name, processor, quality in (("before", "A", HALF), ("after", "B", lower(10))):
        for seed, size in enumerate((200, 100)):
            keep(name, quality=quality, processor=processor, seeds=[seed], parts={"data": size})
    code, said = regress()
    assert (
        code == 0 and "(no interval over 2 cells, of which some have other documents than others; 6 are needed)" in said
    )


def test_texts_without_answers_need_more_cells(keep, regress):
    for count, code in ((1, 0), (6, 1)):
        for name, processor, quality in (("before", "A", HALF), ("after", "B", lower(10))):
            keep(name, quality=quality, processor=processor, seeds=range(count), texts=True)
        found, said = regress()
        assert found == code and ("no interval" in said) == (count == 1)
        if count == 1:
            assert "no regressions in 1 method, 1 cell (not known of 1 method): " in said and "unknown michel" in said
            assert "keeps 10.00 points less" in said and "whose quality is no mean over documents; 6 are needed" in said


def test_what_was_meant_fails_by_its_loss(keep, regress):
    keep("before", seeds=range(6))
    keep("after", seeds=range(6), quality=lower(5))
    assert regress("--changed", "michel")[0] == 1


@pytest.mark.parametrize("sizes", [(200, 1000), (1000, 200)])
def test_sub_tasks_count_alike_over_documents_too(keep, tmp_path, sizes):
    """Answers that move from one sub-task to another leave their number as it is, but not the mean over sub-tasks."""
    parts = {str(place): size for place, size in enumerate(sizes)}
    keep("before", parts=parts, quality=(0.5, 0.5, 0.5))
    keep("after", parts=parts, quality=(0.5, 0.5, 0.5), shift=150)
    found = effect(list(twins(tmp_path / "before", tmp_path / "after").pairs), 0.05)
    assert found.mean == pytest.approx(-10)  # 25 and 55 % instead of 50 and 50
    before = np.concatenate([np.arange(size) < size / 2 for size in sizes]).astype(float)[None]  # at every level
    drawn = document_bootstrap(100 * np.roll(before, 150), 100 * before, sizes)  # within each sub-task
    assert found.interval == pytest.approx((drawn.low, drawn.high))


def test_a_task_with_more_sub_tasks_weighs_no_more(keep, tmp_path):
    """Of one document each, so that which are drawn changes nothing."""
    for task, parts, now in (("classification", ["a"], 1.0), ("mnli", ["a", "b", "c"], 0.0)):
        keep("before", task=task, parts=dict.fromkeys(parts, 1), quality=(1.0, 1.0, 1.0))
        keep("after", task=task, parts=dict.fromkeys(parts, 1), quality=(now, now, now))
    found = effect(list(twins(tmp_path / "before", tmp_path / "after").pairs), 0.05)
    assert found.mean == pytest.approx(-50) and found.interval == pytest.approx((-50, -50))


def test_the_documents_interval_is_that_of_the_mean_over_tasks(keep, tmp_path):
    for task in ("classification", "mnli"):
        keep("before", task=task)
        keep("after", task=task, quality=lower(10 if task == "mnli" else 0))
    pairs = list(twins(tmp_path / "before", tmp_path / "after").pairs)
    found = effect(pairs, 0.05)
    assert found.mean == pytest.approx(-5)
    assert found.interval is not None and found.interval[0] < -5 < found.interval[1] < 0


def test_tasks_weigh_alike_whatever_their_seeds(keep, tmp_path):
    for task, seeds in (("classification", range(6)), ("mnli", range(2))):
        keep("before", task=task, seeds=seeds)
        keep("after", task=task, seeds=seeds, quality=lower(10 if task == "mnli" else 0))
    found = effect(list(twins(tmp_path / "before", tmp_path / "after").pairs), 0.05)
    assert found.mean == pytest.approx(-5) and found.over == "8 cells"


def test_few_cells_with_other_trained_weights_are_not_judged(keep, regress):
    """The same recipe gives other weights on another processor, and documents say nothing about that."""
    keep("before", training={"weights": "a"})
    keep("after", training={"weights": "b"}, quality=lower(10), processor="B")
    code, said = regress()
    assert code == 0 and "keeps 10.00 points less" in said
    assert "no interval over 1 cell with other trained weights; 6 cells are needed" in said
    keep("before", seeds=range(6), training={"weights": "a"})
    keep("after", seeds=range(6), training={"weights": "b"}, quality=lower(10), processor="B")
    assert regress()[0] == 1
