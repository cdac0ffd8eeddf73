"""The verb ``merge``: what it says, and what it refuses in one line."""

from __future__ import annotations

import numpy as np
import pytest

from bench.__main__ import main
from bench.records.storage.store import Store


@pytest.fixture
def add(tmp_path, make_record):
    def write(folder: str, seed: int, quality: float = 0.7, seconds: float = 1.0):
        record = make_record(seed=seed, quality=[[0.9, quality, 0.5]], measured={"seconds": seconds})
        arrays = {"outcomes": np.zeros((1, 3, 100), bool)}
        Store(tmp_path / folder).write(f"t/m/seed{seed}", record.model_copy(update={"key": str(seed)}), arrays)
        return Store(tmp_path / folder).path(f"t/m/seed{seed}")

    return write


def test_it_says_what_it_kept_and_dropped(tmp_path, add, capsys):
    a, b, out = (tmp_path / name for name in ("a", "b", "out"))
    for seed in range(8):
        add("a", seed), add("b", seed, seconds=2.0)
    add("b", 8)
    add("b", 9).write_text("{")
    assert main(["merge", str(a), str(b), "--out", str(out)]) == 0
    said = capsys.readouterr()
    names = ", ".join(f"t/m/seed{seed}" for seed in range(5))
    assert said.out.splitlines()[:-1] == [
        f"{out}: 9 records: 8 of {a}, 1 of {b}",
        f"dropped of {b}: 8 records of cells that another record is kept of: {names} and 3 more",
        f"dropped of {b}: 1 record, corrupt",
    ]
    assert said.err.count("\n") == 1 and f"{b}/records/t/m/seed9.json" in said.err
    assert main(["leaderboard", str(out)]) == 0


def test_folders_may_stand_on_both_sides_of_the_flag(tmp_path, add, complaint):
    add("a", 0), add("b", 1)
    one, other = str(tmp_path / "a"), str(tmp_path / "b")
    assert main(["merge", one, "--out", str(tmp_path / "out"), other]) == 0
    assert len(Store(tmp_path / "out").paths()) == 2
    assert complaint("merge", one, "--out", tmp_path / "new", "--flag", other) == "unknown argument '--flag'"


def test_what_does_not_fit_is_one_line(tmp_path, add, complaint):
    one, other = add("a", 0), add("b", 0, quality=0.6)
    said = complaint("merge", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "out")
    assert str(one) in said and str(other) in said
    assert complaint("merge", tmp_path / "a", "--out", tmp_path / "out").startswith("expected two folders or more")
