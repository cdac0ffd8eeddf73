"""Where answers may differ, a loss counts beyond the margin and its interval only."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.analysis.regression import effect as module
from bench.analysis.regression.cells import twins
from bench.analysis.regression.effect import effect
from bench.analysis.stats.samples import area

HALF = (0.9, 0.7, 0.5)


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


def test_a_loss_within_its_interval_does_not_fail(keep, regress):
    keep("before", seeds=range(8))
    for seed, points in enumerate((9, -3, 8, -4, 6, -5, 7, -2)):
        keep("after", seeds=[seed], quality=lower(points), processor="B")
    assert regress()[0] == 0


def test_of_few_cells_the_documents_speak(keep, regress):
    keep("before")
    keep("after", quality=lower(10), processor="B")
    code, said = regress()
    assert code == 1 and "over the documents of 1 cell)" in said


def test_texts_without_answers_need_more_cells(keep, regress):
    for count, code in ((1, 0), (6, 1)):
        for name, processor, quality in (("before", "A", HALF), ("after", "B", lower(10))):
            keep(name, quality=quality, processor=processor, seeds=range(count), texts=True)
        found, said = regress()
        assert found == code and ("no interval" in said) == (count == 1)


def test_what_was_meant_fails_by_its_loss(keep, regress):
    keep("before", seeds=range(6))
    keep("after", seeds=range(6), quality=lower(5))
    assert regress("--changed", "michel")[0] == 1


@given(
    quality=st.lists(st.integers(0, 40), min_size=3, max_size=3),
    parts=st.lists(st.integers(1, 5).map(lambda n: 10 * n), min_size=1, max_size=3),
)
def test_documents_and_qualities_have_one_area(tmp_path_factory, quality, parts):
    """Oracle: area of the mean over sub-tasks of the share of right answers."""
    rng = np.random.default_rng(sum(quality))
    outcomes = [[rng.random(size) < q / 40 for size in parts] for q in quality]
    shares = np.array([0, 0.5, 1])
    expected = area(shares, np.array([np.mean([part.mean() for part in level]) for level in outcomes]))
    stacked = np.stack([np.concatenate(level) for level in outcomes])[None]
    run = FakeRun({"result": {"parts": {str(i): n for i, n in enumerate(parts)}, **LEVELS}}, stacked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "read_outcomes", lambda path: path)
        assert module._by_document(run).mean() == pytest.approx(100 * expected)


LEVELS = {"removed": [0, 4, 8], "units": 8, "quality": [[0, 0, 0]]}


class FakeRun:
    def __init__(self, record, outcomes):
        self.record, self.path = record, outcomes


def test_the_documents_interval_is_that_of_the_mean_over_tasks(keep, tmp_path):
    for task in ("classification", "mnli"):
        keep("before", task=task)
        keep("after", task=task, quality=lower(10 if task == "mnli" else 0))
    pairs = list(twins(tmp_path / "before", tmp_path / "after").pairs)
    found = effect(pairs, 0.05)
    assert found.mean == pytest.approx(-5)
    assert found.interval is not None and found.interval[0] < -5 < found.interval[1] < 0
