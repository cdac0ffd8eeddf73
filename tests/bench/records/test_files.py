"""Files are whole or not there, and a cached folder is built once, however many processes ask."""

from __future__ import annotations

import os
import time
from multiprocessing import get_context
from pathlib import Path

import pytest

from bench.records.files import locked, write_together, write_whole
from tasks.models.cache import Cache, default_root


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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_an_os_error(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        write_whole(tmp_path / "file", b"content")


def test_a_lock_knows_when_its_folder_has_moved(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with locked(folder) as same:
        assert same()
        folder.rename(tmp_path / "moved")
        assert not same()
        folder.mkdir()
        assert not same()
    with pytest.raises(FileNotFoundError), locked(tmp_path / "nothing"):
        pass
    assert not (tmp_path / "nothing").exists()


@pytest.fixture
def cache(tmp_path) -> Cache:
    return Cache(tmp_path / "cache")


def build(folder: Path) -> None:
    (folder / "weights").write_text("weights")


def test_a_folder_is_built_once(cache):
    built = []
    for _ in range(2):
        path = cache.folder("key", lambda folder: built.append(folder) or build(folder))
    assert len(built) == 1
    assert path == cache.path("key") and (path / "weights").read_text() == "weights"
    assert cache.size() == len("weights")


def test_a_build_that_fails_leaves_nothing_and_may_be_tried_again(cache):
    def fails(folder: Path) -> None:
        build(folder)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        cache.folder("key", fails)
    assert list(cache.root.iterdir()) == []
    cache.folder("key", build)
    assert [path.name for path in cache.root.iterdir()] == ["key"]


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_what_another_process_builds_while_we_make_our_folder_is_taken(cache, monkeypatch, before):
    mkdir = Path.mkdir

    def slow_mkdir(self, **how):
        monkeypatch.undo()
        if not before:
            mkdir(self, **how)
        cache.folder("key", build)
        if before:
            mkdir(self, **how)

    monkeypatch.setattr(Path, "mkdir", slow_mkdir)
    path = cache.folder("key", lambda _: pytest.fail("built twice"))
    assert (path / "weights").exists()
    assert list(cache.root.iterdir()) == [path]


def test_what_a_killed_build_left_is_cleared(cache):
    left = cache.root / "key.tmp" / "deep"
    left.mkdir(parents=True)
    (left / "half").touch()
    (left.parent / "half").touch()
    path = cache.folder("key", build)
    assert [file.name for file in path.iterdir()] == ["weights"]
    assert [path.name for path in cache.root.iterdir()] == ["key"]


def ask(cache: Cache, counter: Path, asked: int) -> None:
    def count(folder: Path) -> None:
        with counter.open("a") as file:
            file.write("built\n")
        time.sleep(0.001 * (asked % 3))
        build(folder)

    for key in range(asked):
        assert (cache.folder(f"key{key}", count) / "weights").read_text() == "weights"
        cache.size()


def test_many_processes_that_ask_at_once_get_one_build_each_key(cache, tmp_path):
    context, counter, keys = get_context("fork"), tmp_path / "counter", 60
    processes = [context.Process(target=ask, args=(cache, counter, keys)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert counter.read_text() == "built\n" * keys
    assert len(list(cache.root.iterdir())) == keys


def test_the_cache_lies_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADBENCH_CACHE", str(tmp_path))
    assert default_root() == tmp_path
    monkeypatch.delenv("HEADBENCH_CACHE")
    assert default_root().name == "headbench"
