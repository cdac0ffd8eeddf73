"""Files are written completely or not at all, and a lock excludes other holders."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread

import pytest

from bench.records.storage import files
from bench.records.storage.files import is_left, locked, temporary, write_together, write_whole


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path, file_size_limit):
    path = tmp_path / "file"
    write_whole(path, b"old")
    with file_size_limit(100), pytest.raises(OSError):
        write_whole(path, b"new" * 1000)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_files_that_belong_together_change_together_or_not_at_all(tmp_path, file_size_limit):
    first, last = tmp_path / "first", tmp_path / "last"
    write_together({first: b"1", last: b"1"})
    with file_size_limit(100), pytest.raises(OSError):
        write_together({first: b"2", last: b"2" * 1000})
    assert (first.read_bytes(), last.read_bytes()) == (b"1", b"1") and len(list(tmp_path.iterdir())) == 2
    write_together({first: b"3", last: b"3"})
    assert (first.read_bytes(), last.read_bytes()) == (b"3", b"3")


@pytest.mark.parametrize("done", [0, 1, 2])
def test_whoever_interrupts_the_writing_of_files_has_all_of_the_new_ones(tmp_path, monkeypatch, done):
    """Between two renames the last of the old files is gone already."""
    paths = [tmp_path / name for name in ("first", "second", "last")]
    write_together(dict.fromkeys(paths, b"old"))
    replace, calls = Path.replace, []

    def interrupted(path: Path, target: Path) -> Path:
        calls.append(path)
        if len(calls) == done + 1:
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_together(dict.fromkeys(paths, b"new"))
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert {path.read_bytes() for path in paths} == {b"new"}


def test_files_that_another_machine_writes_are_left_alone_while_they_may_be(tmp_path, monkeypatch):
    """Two machines may have one folder, as on NFS, where a lock holds on one of them only."""
    own = temporary(tmp_path / "file")
    monkeypatch.setattr(files, "HOST", "another")
    theirs = temporary(tmp_path / "file")
    monkeypatch.undo()
    for path in (own, theirs):
        path.write_text("half")
    assert own != theirs and is_left(own) and not is_left(theirs)
    os.utime(theirs, (0, 0))
    assert is_left(theirs)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_an_os_error(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        write_whole(tmp_path / "file", b"content")


def test_a_lock_excludes_other_holders_but_readers_share_it(tmp_path):
    held = []

    def hold(shared: bool) -> None:
        with locked(tmp_path, shared=shared):
            held.append(shared)

    with locked(tmp_path, shared=True):
        reader, writer = (Thread(target=hold, args=(shared,)) for shared in (True, False))
        for thread in (reader, writer):
            thread.start()
        reader.join()
        writer.join(0.2)
        assert held == [True] and writer.is_alive()
    writer.join()
    assert held == [True, False]


def test_a_lock_on_nothing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), locked(tmp_path / "nothing"):
        pass
    assert not (tmp_path / "nothing").exists()
