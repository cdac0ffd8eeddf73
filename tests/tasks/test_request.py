"""What a record keeps of a request names no folder of the user."""

from __future__ import annotations

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
