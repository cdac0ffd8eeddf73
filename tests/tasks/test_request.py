"""What a record keeps of a request names no folder of the user."""

from __future__ import annotations

import pytest

from tasks.request import TaskSpec


def test_local_paths_are_cut_to_their_last_part(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    spec = TaskSpec(
        task="harness",
        train=f"{tmp_path}/a.csv",
        test="~/b.csv",
        model="inner",
        mirror=".",
        harness_tasks=("piqa", "./t"),
    )
    kept = spec.without_folders()
    assert (kept["train"], kept["test"], kept["validation"], kept["model"]) == ("a.csv", "b.csv", "", "inner")
    assert kept["mirror"] == tmp_path.name and kept["harness_tasks"] == ["piqa", "t"]
    hub = TaskSpec(task="mnli", data="org/name:part", model="org/model", limit=3)
    assert hub.without_folders() == hub.model_dump(mode="json")


def test_names_in_a_list_may_have_commas_and_line_breaks_in_quotes():
    assert TaskSpec(task="mnli", data="d", text='"b, c","Review\nText"').text == ("b, c", "Review\nText")
    with pytest.raises(ValueError, match=r"new-line character .* \(a name with a line break or a comma is in double"):
        TaskSpec(task="mnli", data="d", text="Review\nText")


def test_a_column_of_texts_is_named_once():
    with pytest.raises(ValueError, match="column review is named twice"):
        TaskSpec(task="classification", data="d", text="review,review")


@pytest.mark.parametrize("names", [[""], ["piqa", ""], ",", ""])
def test_a_list_without_a_name_or_with_an_empty_one_is_refused(names):
    with pytest.raises(ValueError, match="expected TASK, or TASK,TASK"):
        TaskSpec(task="harness", harness_tasks=names)
