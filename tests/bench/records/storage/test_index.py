"""What an index says is what the files say: it saves reading, and never hides what became of a record."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.__main__ import main
from bench.records.errors import CorruptRecord, OtherProtocol
from bench.records.protocol import PROTOCOL
from bench.records.schema import FailedRecord, FinishedRecord
from bench.records.storage import index, store
from bench.records.storage.packed import read_stored
from bench.records.storage.store import Store

RESULTS = Path(__file__).parents[4] / "results" / "mini"
ARRAYS = {"outcomes": np.zeros((1, 3, 100), bool)}


@pytest.fixture(scope="module")
def indexing() -> Iterator[pytest.MonkeyPatch]:
    """Any number of records has an index, and files count as settled at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "INDEXED", 1)
        patch.setattr(index, "SETTLED", -60.0)
        yield patch


@pytest.fixture(scope="module")
def add(make_record) -> Callable[..., Path]:
    def write(folder: Path, seed: int = 0, quality: float = 0.7, failed: bool = False, **cell) -> Path:
        record = make_record(seed=seed, quality=[[0.9, quality, 0.5]], cell=cell)
        name = f"t/m/seed{seed}"
        if failed:
            gone = FailedRecord(cell=record.cell, provenance=record.provenance, reason="no é")
            Store(folder).write(name, gone)
        else:
            Store(folder).write(name, record, ARRAYS)
        return Store(folder).path(name)

    return write


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """The names of the records that are read from their files from now on."""
    names: list[str] = []
    read = Store.read
    monkeypatch.setattr(Store, "read", lambda self, path: names.append(path.stem) or read(self, path))
    return names


def everything(folder: Path) -> dict[Path, object]:
    """All records, or why they are none, by way of the index."""
    return comparable(Store(folder).read_all(Store(folder).paths()))


def one_by_one(folder: Path) -> dict[Path, object]:
    """The same without an index."""
    found = {}
    for path in Store(folder).paths():
        try:
            found[path] = Store(folder).read(path)
        except (CorruptRecord, OtherProtocol) as error:
            found[path] = error
    return comparable(found)


def comparable(found) -> dict[Path, object]:
    return {
        path: (type(each), str(each)) if isinstance(each, Exception) else (each, each.model_dump_json())
        for path, each in found.items()
    }


def test_committed_records_come_from_the_index_as_they_are(tmp_path, indexing, reads):
    for path in Store(RESULTS).paths():
        if path.parent.name in ("michel-retrained", "random", "obs_recover=lstsq") and path.match("seed[01].json"):
            for each in (path, path.with_suffix(".safetensors")):
                place = tmp_path / each.relative_to(RESULTS)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(read_stored(each))
    first = everything(tmp_path)
    assert len(reads) == len(first) == 24
    again = everything(tmp_path)
    assert len(reads) == 24
    assert first == again == one_by_one(tmp_path)
    assert all(isinstance(record, FinishedRecord) for record, _ in again.values())


def test_only_what_changed_is_read_again(tmp_path, indexing, add, reads):
    paths = [add(tmp_path, seed) for seed in range(4)]
    add(tmp_path, 4, failed=True)
    everything(tmp_path)
    reads.clear()
    times = paths[1].stat()
    add(tmp_path, 1, quality=0.6)
    os.utime(paths[1], ns=(times.st_atime_ns, times.st_mtime_ns))  # as a copy that preserves times
    assert paths[1].stat().st_size == times.st_size
    paths[2].unlink()
    add(tmp_path, 5)
    found = everything(tmp_path)
    assert sorted(reads) == ["seed1", "seed5"]
    assert found == one_by_one(tmp_path) and paths[2] not in found
    reads.clear()
    everything(tmp_path)
    assert not reads


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_a_record_that_became_corrupt_is_not_hidden(tmp_path, indexing, add, suffix):
    paths = [add(tmp_path, seed) for seed in range(3)]
    everything(tmp_path)
    file = paths[1].with_suffix(suffix)
    content, times = file.read_bytes(), file.stat()
    with file.open("r+b") as same:  # in place: the same inode, size and time
        same.seek(len(content) - 30)
        same.write(b"x")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    for _ in range(2):
        assert isinstance(Store(tmp_path).read_all(paths)[paths[1]], CorruptRecord)
    file.unlink()
    assert isinstance(Store(tmp_path).read_all(paths)[paths[1]], CorruptRecord)


def test_a_file_that_just_changed_is_not_trusted(tmp_path, indexing, add, reads, monkeypatch):
    monkeypatch.setattr(index, "SETTLED", 3600.0)
    add(tmp_path)
    for _ in range(2):
        everything(tmp_path)
    assert len(reads) == 2 and not (tmp_path / "records" / index.NAME).exists()


def test_a_copy_of_an_index_is_not_trusted_elsewhere(tmp_path, indexing, add, reads):
    add(tmp_path / "a")
    everything(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    reads.clear()
    everything(tmp_path / "b")
    assert reads == ["seed0"]


def test_an_index_of_other_code_is_not_trusted(tmp_path, indexing, add, reads, monkeypatch):
    add(tmp_path)
    everything(tmp_path)
    other = index._schema().with_metadata({"version": "other"})
    monkeypatch.setattr(index, "_schema", lambda: other)
    everything(tmp_path)
    assert len(reads) == 2


@pytest.mark.parametrize("kind", ["cut", "empty", "other", "folder", "text"])
def test_a_damaged_index_is_no_hindrance(tmp_path, indexing, add, kind):
    for seed in range(3):
        add(tmp_path, seed)
    expected = everything(tmp_path)
    path = tmp_path / "records" / index.NAME
    content = path.read_bytes()
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "other":
        pq.write_table(pa.table({"name": ["x"]}), path)
    else:
        path.write_bytes({"cut": content[:-100], "empty": b"", "text": b"PAR1 no PAR1"}[kind])
    assert everything(tmp_path) == expected
    assert kind == "folder" or path.stat().st_size == len(content)


@settings(max_examples=40)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_bit_that_flipped_changes_nothing(damaged, place, bit):
    folder, content, expected = damaged
    wrong = bytearray(content)
    wrong[int(place * len(wrong))] ^= 1 << bit
    (folder / "records" / index.NAME).write_bytes(wrong)
    assert everything(folder) == expected


@pytest.fixture(scope="module")
def damaged(tmp_path_factory, indexing, add) -> tuple[Path, bytes, dict[Path, object]]:
    folder = tmp_path_factory.mktemp("run")
    for seed in range(3):
        add(folder, seed)
    expected = everything(folder)
    return folder, (folder / "records" / index.NAME).read_bytes(), expected


def test_records_are_read_where_no_index_can_be_written(tmp_path, indexing, add, monkeypatch):
    add(tmp_path / "a")

    def refuse(path, content):
        raise OSError(30, "Read-only file system", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(index, "write_whole", refuse)
        assert everything(tmp_path / "a") == one_by_one(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "records").symlink_to(tmp_path / "a" / "records")
    assert len(everything(tmp_path / "b")) == 1
    assert not list(tmp_path.rglob(index.NAME))


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.sampled_from(["write", "fail", "remove", "break", "other", "touch", "forget"]), st.integers(0, 3)),
        max_size=12,
    )
)
def test_whatever_happens_to_the_files_it_is_what_they_say(tmp_path_factory, indexing, add, steps):
    folder = tmp_path_factory.mktemp("run")
    for number, (step, seed) in enumerate(steps):
        path = Store(folder).path(f"t/m/seed{seed}")
        if step in ("write", "fail", "other"):
            protocol = PROTOCOL - (step == "other")
            add(folder, seed, quality=number / 20, failed=step == "fail", protocol=protocol)
        elif step == "forget":
            (folder / "records" / index.NAME).unlink(missing_ok=True)
        elif path.exists():
            if step == "remove":
                path.unlink()
            elif step == "break":
                path.write_text("{")
            else:
                path.touch()
        assert everything(folder) == one_by_one(folder)


def test_a_leaderboard_is_the_same_with_an_index(tmp_path, indexing, add, capsys, monkeypatch):
    for seed in range(6):
        add(tmp_path, seed, quality=0.6 + seed / 50)
    written = []
    for many in (1, 1, 10**6):
        monkeypatch.setattr(store, "INDEXED", many)
        assert main(["leaderboard", str(tmp_path)]) == 0
        written.append((capsys.readouterr().out, (tmp_path / "leaderboard.csv").read_bytes()))
    assert written[0] == written[1] == written[2]
