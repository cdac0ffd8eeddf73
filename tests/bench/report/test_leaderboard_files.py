"""A leaderboard replaces and removes what an earlier one wrote, and nothing else of the same name."""

from __future__ import annotations

import numpy as np
import pytest

from bench.__main__ import main
from bench.records.errors import InputError
from bench.records.storage.store import Store
from bench.report.leaderboard import write
from tests.fixtures.files import files_of

OUTCOMES = {"outcomes": np.zeros((1, 3, 100), dtype=bool)}
FILES = {"leaderboard.md": "# Leaderboard\n\nof our chess club\n", "leaderboard.csv": "a,b\n", "curves.svg": "<svg/>"}


@pytest.fixture
def folder(tmp_path, make_record):
    """A folder with a result, whose name in records is always the same."""
    Store(tmp_path).write("t/m/seed0", make_record(), OUTCOMES)
    return tmp_path


def test_files_of_an_earlier_leaderboard_are_replaced_and_a_picture_of_no_results_is_removed(
    folder, make_record, failed
):
    assert [path.name for path in write(folder)] == list(FILES)
    first = files_of(folder)
    assert write(folder) and files_of(folder) == first
    Store(folder).write("t/m/seed0", failed(make_record(), "no"))
    for _ in range(2):  # also after one without results
        assert [path.name for path in write(folder)] == ["leaderboard.md", "leaderboard.csv"]
        assert not (folder / "curves.svg").exists()
    Store(folder).write("t/m/seed0", make_record(), OUTCOMES)
    assert len(write(folder)) == 3 and (folder / "curves.svg").exists()


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_the_user_stays_and_is_named(folder, make_record, failed, capsys, name, fails):
    if fails:
        Store(folder).write("t/m/seed0", failed(make_record(), "no"))
    (folder / name).write_text(FILES[name])
    before = files_of(folder)
    assert main(["leaderboard", str(folder)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"headbench: error: {folder / name}: not written by a leaderboard")
    assert error.count("\n") == 1
    assert files_of(folder) == before


def test_a_folder_or_a_link_to_nothing_in_the_way_is_named(folder):
    (folder / "curves.svg").mkdir()
    with pytest.raises(InputError, match="not written"):
        write(folder)
    (folder / "curves.svg").rmdir()
    (folder / "curves.svg").symlink_to("nowhere")
    with pytest.raises(InputError, match="not written"):
        write(folder)


def test_a_run_is_refused_before_it_begins(place, capsys):
    place.out.mkdir()
    (place.out / "leaderboard.md").write_text("mine")
    assert place.run("--methods", "none") == 2
    assert "leaderboard.md: not written by a leaderboard" in capsys.readouterr().err
    assert [path.name for path in place.out.iterdir()] == ["leaderboard.md"]
