"""Merging runs keeps every cell once, contradicts no record, and writes everything or nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.__main__ import main
from bench.records.errors import InputError
from bench.records.measured import Generation
from bench.records.protocol import PROTOCOL
from bench.records.schema import FailedRecord, FinishedRecord
from bench.records.storage import merge as merging
from bench.records.storage.current import read_current
from bench.records.storage.files import temporary
from bench.records.storage.merge import merge
from bench.records.storage.packed import read_stored
from bench.records.storage.store import Store
from tests.fixtures.files import files_of

ARRAYS = {"outcomes": np.zeros((1, 3, 100), bool)}


@pytest.fixture(scope="module")
def add(make_record) -> Callable[..., Path]:
    """Write the record of a cell to a folder; ``timed`` and ``seconds`` are what two runs of it may differ in."""

    def write(
        folder: Path,
        seed: int = 0,
        quality: float = 0.7,
        seconds: float = 0.5,
        timed: bool = True,
        failed: bool = False,
        key: str | None = None,
        name: str = "",
        protocol: int = PROTOCOL,
    ) -> Path:
        record = make_record(
            seed=seed, quality=[[0.9, quality, 0.5]], measured={"seconds": seconds}, cell={"protocol": protocol}
        )
        key = f"key of seed {seed}" if key is None else key
        name = name or f"t/m/seed{seed}"
        if failed:
            gone = FailedRecord(key=key, cell=record.cell, provenance=record.provenance, reason="RuntimeError: no")
            Store(folder).write(name, gone)
        else:
            measured = record.measured if timed else record.measured.model_copy(update={"latency": None})
            Store(folder).write(name, record.model_copy(update={"key": key, "measured": measured}), ARRAYS)
        return Store(folder).path(name)

    return write


def test_each_record_is_there_byte_for_byte(tmp_path, add):
    a, b, c = (tmp_path / name for name in "abc")
    add(a, seed=0), add(b, seed=1), add(b, seed=2, failed=True)
    merged = merge([a, b], c)
    assert [each.folder for each in merged.kept] == [a, b, b] and not merged.duplicates
    assert files_of(c) == files_of(a) | files_of(b)
    assert len(read_current(c)[0]) == 3


def test_of_one_cell_the_first_that_was_timed_is_kept_or_else_that_has_a_result(tmp_path, add):
    a, b, c = (tmp_path / name for name in "abc")
    for seed, of_a, of_b, first in (
        (0, {}, {}, True),
        (1, {"timed": False}, {}, False),
        (2, {"failed": True}, {"timed": False}, False),
        (3, {"failed": True}, {"failed": True}, True),
        (4, {}, {"failed": True}, True),
    ):
        add(a, seed=seed, seconds=1.0, **of_a), add(b, seed=seed, seconds=2.0, **of_b)
        merged = merge([a, b], c)
        (kept,) = (each for each in merged.kept if each.path.name == f"seed{seed}.json")
        assert kept.folder == (a if first else b)
        assert Store(c).path(f"t/m/seed{seed}").read_bytes() == kept.path.read_bytes()
        assert len(merged.duplicates) == seed + 1 and kept not in merged.duplicates
        shutil.rmtree(c)


@pytest.mark.parametrize("order", [("some", "all"), ("all", "some")])
def test_of_one_cell_the_record_with_most_times_is_kept(tmp_path, add, order):
    for name in order:
        path = add(tmp_path / name)
        if name == "all":
            record = Store(tmp_path / name).read(path)
            generated = Generation(samples={0: [2.0], 4: [1.0]}, prompt=8, new=8)
            measured = record.measured.model_copy(update={"generation": generated})
            Store(tmp_path / name).write("t/m/seed0", record.model_copy(update={"measured": measured}), ARRAYS)
    (kept,) = merge([tmp_path / name for name in order], tmp_path / "out").kept
    assert kept.folder == tmp_path / "all"


def test_of_a_record_and_its_copy_the_record_stays_in_its_place(tmp_path, add, capsys):
    """A run looks for it there; a copy may have a name that is shorter, or comes before."""
    a, b, c = (tmp_path / name for name in "abc")
    own = "classification.data.model/m/seed0"
    add(a, name=own), add(a, name="old/m/seed0"), add(b, seed=1, name="classification.data.model/m/seed1")
    merged = merge([a, b], c)
    assert f"records/{own}.json" in files_of(c) and [each.name for each in merged.duplicates] == ["old/m/seed0"]
    assert Store(a).path(own) in read_current(a)[0]
    assert f"{own}.json is of the same cell: " in capsys.readouterr().err


def test_a_copy_that_was_timed_is_kept_rather_than_a_record_in_its_place_that_was_not(tmp_path, add):
    a, b, c = (tmp_path / name for name in "abc")
    add(a, name="classification.data.model/m/seed0", timed=False), add(b, name="old/m/seed0")
    assert [each.name for each in merge([a, b], c).kept] == ["old/m/seed0"]


def test_one_key_under_two_names_is_one_cell(tmp_path, add):
    a, b, c = (tmp_path / name for name in "abc")
    add(a, timed=False), add(b, name="other/m/seed0")
    merge([a, b], c)
    assert set(files_of(c)) == {"records/other/m/seed0.json", "records/other/m/seed0.safetensors"}


def test_records_without_a_key_are_told_apart_by_name(tmp_path, add):
    a, b, c = (tmp_path / name for name in "abc")
    add(a, seed=0, key=""), add(b, seed=1, key="")
    assert len(merge([a, b], c).kept) == 2


@pytest.mark.parametrize(
    ("other", "said"),
    [({"quality": 0.6}, "the same key with other results (quality)"), ({"key": "other"}, "the same cell with other")],
)
def test_what_does_not_fit_is_refused_by_both_names(tmp_path, add, other, said):
    a, b, c = (tmp_path / name for name in "abc")
    add(b, seed=1)
    one, two = add(a), add(b, **other)
    before = files_of(tmp_path)
    with pytest.raises(InputError) as error:
        merge([a, b], c)
    assert str(error.value).startswith(f"{one} and {two}: {said}")
    assert files_of(tmp_path) == before and not c.exists()


def test_other_arrays_are_another_result(tmp_path, add, make_record):
    a, b = tmp_path / "a", tmp_path / "b"
    record = Store(a).read(add(a))
    assert isinstance(record, FinishedRecord)
    Store(b).write("t/m/seed0", record, {"outcomes": ~ARRAYS["outcomes"]})
    with pytest.raises(InputError, match=r"other results \(arrays\)"):
        merge([a, b], tmp_path / "c")


def test_what_is_not_valid_is_left_out_and_told(tmp_path, add):
    a, b, c = (tmp_path / name for name in "abc")
    add(a, seed=0), add(b, seed=1)
    broken, old = add(a, seed=1, quality=0.1), add(a, seed=2, protocol=PROTOCOL - 1)
    broken.write_bytes(broken.read_bytes().replace(b"0.1", b"0.2"))
    merged = merge([a, b], c)
    assert [each.name for each in merged.kept] == ["t/m/seed0", "t/m/seed1"]
    assert merged.other_protocol == [a] and str(broken) in merged.corrupt[0][1] and not merged.duplicates
    assert not Store(c).path("t/m/seed2").exists()
    broken.unlink(), old.unlink(), Store(a).path("t/m/seed0").write_text("{")
    Store(b).path("t/m/seed1").write_text("{")
    with pytest.raises(InputError, match="no valid record"):
        merge([a, b], tmp_path / "d")


def test_a_place_with_something_in_it_is_refused(tmp_path, add):
    a, b, c = (tmp_path / name for name in "abc")
    add(a, seed=0), add(b, seed=1)
    c.mkdir()
    (c / "mine").write_text("mine")
    before = files_of(tmp_path)
    for folders, out, said in (
        ([a, b], c, "not empty"),
        ([a, b], c / "mine", "not a folder"),
        ([a, b], a, "not empty"),
        ([a, b], a / "records" / "t" / "new", "lies among the records"),
        ([a, a], tmp_path / "d", "named twice"),
        ([a, tmp_path / "b" / ".." / "a"], tmp_path / "d", "named twice"),
        ([a], tmp_path / "d", "two folders or more"),
        ([a, tmp_path / "none"], tmp_path / "d", "no records there"),
    ):
        with pytest.raises(InputError, match=said):
            merge(folders, out)
    assert files_of(tmp_path) == before and not (tmp_path / "d").exists()


def test_nothing_stays_of_a_merge_that_fails_half_way(tmp_path, add, monkeypatch):
    a, b, c = (tmp_path / name for name in "abc")
    add(a, seed=0), add(b, seed=1)
    put = merging.put

    def full(path, content):
        if "seed1" in path.name:
            raise OSError(28, "No space left on device")
        put(path, content)

    monkeypatch.setattr(merging, "put", full)
    with pytest.raises(OSError, match="No space"):
        merge([a, b], c / "below" / "it")
    assert not c.exists()
    c.mkdir()
    with pytest.raises(OSError, match="No space"):
        merge([a, b], c)
    assert c.is_dir() and not list(c.iterdir())


def test_a_full_disk_is_told_with_the_file_that_did_not_fit(tmp_path, add, capsys, file_size_limit):
    a, b, c = (tmp_path / name for name in "abc")
    add(a, seed=0), add(b, seed=1)
    with file_size_limit(100):
        assert main(["merge", str(a), str(b), "--out", str(c)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"headbench: error: {c}/") and "seed0.json: " in error and error.count("\n") == 1
    assert not c.exists()


def test_what_a_killed_merge_left_is_no_hindrance(tmp_path, add):
    a, b, c = (tmp_path / name for name in "abc")
    add(a, seed=0), add(b, seed=1)
    left = temporary(c / "records") / "t"
    left.mkdir(parents=True)
    (left / "half").write_text("{")
    merge([a, b], c)
    assert files_of(c) == files_of(a) | files_of(b)


def test_a_record_that_a_run_replaces_meanwhile_is_refused(tmp_path, add, monkeypatch):
    a, b, c = (tmp_path / name for name in "abc")
    add(a, seed=0), add(b, seed=1)
    choose = merging._choose

    def and_then(folders):
        merged = choose(folders)
        add(b, seed=1, seconds=3.0)
        return merged

    monkeypatch.setattr(merging, "_choose", and_then)
    with pytest.raises(InputError, match="was changed meanwhile"):
        merge([a, b], c)
    assert not c.exists()


PIECES = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([{}, {"timed": False}, {"failed": True}])), min_size=1)


@settings(max_examples=20)
@given(st.lists(PIECES, min_size=2, max_size=3))
def test_any_parts_of_a_study_make_the_whole(tmp_path_factory, add, parts):
    """Every cell that some folder has is there once, with a result where one has it; merging again changes nothing."""
    place = tmp_path_factory.mktemp("merge")
    folders = [place / str(number) for number in range(len(parts))]
    expected: dict[int, int] = {}
    for folder, part in zip(folders, parts, strict=True):
        for seed, fields in dict(part).items():
            add(folder, seed=seed, seconds=float(len(expected)), **fields)
            expected[seed] = max(expected.get(seed, 0), 0 if "failed" in fields else 1 if "timed" in fields else 2)
    out = place / "out"
    merged = merge(folders, out)
    records, _ = read_current(out)
    found = {
        record.cell.seed: 0 if not isinstance(record, FinishedRecord) else 2 if record.measured.latency else 1
        for record in records.values()
    }
    assert found == expected
    assert len(merged.kept) + len(merged.duplicates) == sum(len(Store(folder).paths()) for folder in folders)
    again = place / "again"
    merge([out, *folders], again)
    assert files_of(again) == files_of(out)


def test_the_committed_records_have_a_key_each():
    keys = [json.loads(read_stored(path))["key"] for path in Store(Path(__file__).parents[4] / "results/mini").paths()]
    assert len(set(keys)) == len(keys)
