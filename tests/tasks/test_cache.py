"""A cached folder is built once, however many processes ask for it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from multiprocessing import get_context
from pathlib import Path

import pytest

from tasks.models.cache import DIGESTS, REPORT, Cache, damage, default_root, identity


@pytest.fixture
def cache(tmp_path) -> Cache:
    return Cache(tmp_path / "cache")


def folders(cache: Cache) -> list[str]:
    """Names of the folders in the cache; locks are files beside them."""
    return sorted(path.name for path in cache.root.iterdir() if path.is_dir())


def build(folder: Path) -> None:
    (folder / "weights").write_text("weights")


def test_a_folder_is_built_once(cache):
    built = []
    for _ in range(2):
        path = cache.folder("key", lambda folder: built.append(folder) or build(folder))
    assert len(built) == 1
    assert path == cache.path("key") and (path / "weights").read_text() == "weights"
    assert cache.size() > len("weights")


def test_a_build_that_fails_leaves_nothing_and_may_be_tried_again(cache):
    def fails(folder: Path) -> None:
        build(folder)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        cache.folder("key", fails)
    assert folders(cache) == []
    cache.folder("key", build)
    assert folders(cache) == ["key"]


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
    assert folders(cache) == ["key"]


def test_what_a_killed_build_left_is_cleared(cache):
    left = cache.root / "key.tmp" / "deep"
    left.mkdir(parents=True)
    (left / "half").touch()
    (left.parent / "half").touch()
    path = cache.folder("key", build)
    assert (path / "weights").read_text() == "weights" and not (path / "deep").exists()
    assert folders(cache) == ["key"]


def truncate(folder: Path) -> None:
    (folder / "weights").write_text("weigh")


def alter(folder: Path) -> None:
    (folder / "weights").write_text("weighty")


def empty(folder: Path) -> None:
    (folder / "weights").write_text("")


def remove(folder: Path) -> None:
    (folder / "weights").unlink()


def empty_folder(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def add(folder: Path) -> None:
    (folder / "adapter_config.json").write_text("{}")


def pipe(folder: Path) -> None:
    (folder / "weights").unlink()
    os.mkfifo(folder / "weights")


def replace(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("a file")


def forget(folder: Path) -> None:
    (folder / DIGESTS).unlink()


def spoil(folder: Path) -> None:
    (folder / DIGESTS).write_text("[" * 100_000)


DAMAGES = [truncate, alter, empty, remove, empty_folder, add, pipe, replace, forget, spoil]


def test_a_folder_is_known_by_its_files_and_not_by_how_long_they_took(tmp_path):
    def made(name: str, weights: str, seconds: float) -> str:
        def fill(folder: Path) -> None:
            build(folder)
            (folder / "model.safetensors").write_text(weights)
            (folder / REPORT).write_text(json.dumps({"seconds": seconds}))

        return identity(Cache(tmp_path / name).folder("key", fill))

    first = made("a", "weights", 1.0)
    assert first and made("b", "weights", 2.0) == first and made("c", "others", 1.0) != first
    assert identity(tmp_path / "none") == "" == identity(tmp_path)
    spoil(tmp_path / "a" / "key")
    assert identity(tmp_path / "a" / "key") == ""


@pytest.mark.parametrize("harm", DAMAGES, ids=lambda harm: harm.__name__)
def test_a_damaged_folder_is_set_aside_named_and_built_again(cache, capsys, harm):
    for number in (1, 2):
        path = cache.folder("key", build)
        assert capsys.readouterr().err == ""
        harm(path)
        assert cache.folder("key", build) == path and damage(path) == ""
        assert (path / "weights").read_text() == "weights"
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and str(path) in error and f"set aside as key.damaged{number}" in error
    assert (cache.root / "key.damaged1").exists() and (cache.root / "key.damaged2").exists()


def ask_for_one(cache: Cache, counter: Path) -> None:
    def count(folder: Path) -> None:
        with counter.open("a") as file:
            file.write("built\n")
        build(folder)

    for _ in range(20):
        assert (cache.folder("key", count) / "weights").read_text() == "weights"


def test_of_many_processes_that_find_damage_one_builds_again(cache, tmp_path):
    alter(cache.folder("key", build))
    context, counter = get_context("fork"), tmp_path / "counter"
    processes = [context.Process(target=ask_for_one, args=(cache, counter)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert counter.read_text() == "built\n" and folders(cache) == ["key", "key.damaged1"]


def test_what_libraries_say_of_a_full_disk_names_the_folder(cache):
    def fails(folder: Path) -> None:
        raise Exception("No space left on device (os error 28)")

    with pytest.raises(OSError, match="No space left") as error:
        cache.folder("key", fails)
    assert error.value.errno == errno.ENOSPC and error.value.filename == str(cache.path("key"))


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
    assert len(folders(cache)) == keys


def test_the_cache_lies_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADBENCH_CACHE", str(tmp_path))
    assert default_root() == default_root("cpu") == tmp_path
    assert default_root("cuda") == tmp_path / "cuda"  # which trains other weights from the same seed
    monkeypatch.delenv("HEADBENCH_CACHE")
    assert default_root().name == "headbench"
