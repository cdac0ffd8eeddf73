"""The verbs ``pack`` and ``unpack``, and what other verbs do with packed records."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from bench.__main__ import main
from bench.records.storage.store import Store


@pytest.fixture
def run(tmp_path, make_record):
    """The folder of a run with two methods and three seeds."""
    draw = np.random.default_rng(0)
    for name, half in (("one", 0.8), ("other", 0.6)):
        for seed in range(3):
            record = make_record(seed=seed, cell={"label": name}, quality=[[0.9, half, 0.5]])
            Store(tmp_path / "run").write(f"t/{name}/seed{seed}", record, {"outcomes": draw.random((1, 3, 100)) < half})
    return tmp_path / "run"


def answers(run, capsys) -> list[str]:
    said = []
    for verb in (["leaderboard", run], ["compare", "one", "other", run], ["regress", "--baseline", run, run]):
        assert main([str(part) for part in verb]) == 0
        said.append(capsys.readouterr().out)
    return said


@pytest.mark.usefixtures("undrawn")
def test_verbs_that_read_take_packed_records(run, capsys):
    before = answers(run, capsys)
    assert main(["pack", str(run)]) == 0
    said = capsys.readouterr().out
    assert (
        said.startswith(f"{run / 'records.tar.xz'}: 6 records, 0.0 MB\n") and f"{run / 'records'}, which stays" in said
    )
    shutil.rmtree(run / "records")
    assert answers(run, capsys) == before
    assert main(["report", str(run)]) == 0
    page = (run / "report/records.html").read_text(encoding="utf-8")
    assert "seed0.json" in page and 'href="../records/' not in page
    assert not (run / "records").exists()
    assert main(["unpack", str(run)]) == 0
    assert capsys.readouterr().out.endswith(f"{run / 'records'}: 6 records\n")
    assert answers(run, capsys) == before


def test_a_run_writes_nothing_beside_packed_records(place, capsys):
    assert place.run("--methods", "none,random", "--seeds", "1") == 0
    assert main(["pack", str(place.out)]) == 0
    shutil.rmtree(place.out / "records")
    before = sorted(place.out.rglob("*"))
    capsys.readouterr()
    assert place.run("--methods", "none,random", "--seeds", "1") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"headbench unpack {place.out}" in said
    assert place.run("--methods", "none,random", "--seeds", "1", "--dry-run") == 0
    said = capsys.readouterr().out
    assert "2 done" in said and "is packed" not in said  # there is nothing to write
    assert place.run("--methods", "none,random,magnitude", "--seeds", "1", "--dry-run") == 0
    assert f"{place.out} is packed: `headbench unpack {place.out}` before the run" in capsys.readouterr().out
    assert sorted(place.out.rglob("*")) == before


def test_what_cannot_be_packed_is_one_line(tmp_path, run, complaint):
    assert "no records there" in complaint("pack", tmp_path / "none")
    assert "nothing to unpack" in complaint("unpack", run)
