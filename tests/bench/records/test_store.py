"""A record is there whole or not at all, and one that is not what was written is found out."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.records.store import CorruptRecord, Store, read_outcomes
from bench.suites.cells import Cell
from bench.suites.parse import MethodSpec
from bench.suites.plugins import load_plugins
from tasks.request import TaskSpec

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
PARTS = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab1", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def cell() -> Cell:
    load_plugins()
    return Cell(
        TaskSpec(task="classification"), "data", "model", MethodSpec("none", {}), 0, (0, 8), 128, 1.0, "cpu", "key"
    )


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path)


def write(store: Store, cell: Cell, quality: float = 0.5, right: bool = True) -> None:
    record = {"key": cell.key, "cell": {"seed": cell.seed}, "status": "done", "result": {"quality": quality}}
    store.write(cell, record, {"outcomes": torch.full((1, 2, 9), right)})


@given(content=PARTS, seed=st.integers(0, 3))
def test_what_is_read_is_what_was_written(tmp_path_factory, cell, content, seed):
    store, cell = Store(tmp_path_factory.mktemp("store")), replace(cell, seed=seed)
    store.write(cell, {"key": "k", "status": "failed", "content": content}, {})
    assert store.read(store.path(cell)) == {"key": "k", "status": "failed", "content": content}


def test_keys_that_are_numbers_come_back_as_text(store, cell):
    """Also where they sort in another order as text."""
    store.write(cell, {"key": "k", "status": "failed", "reports": {2: 0.5, 10: 1.5}}, {})
    assert store.read(store.path(cell))["reports"] == {"2": 0.5, "10": 1.5}


@given(st.integers(1, 3), st.integers(1, 4), st.integers(0, 70), st.randoms(use_true_random=False))
def test_outcomes_come_back_bit_for_bit(tmp_path_factory, cell, draws, levels, examples, random):
    store = Store(tmp_path_factory.mktemp("store"))
    outcomes = torch.tensor([random.random() < 0.5 for _ in range(draws * levels * examples)], dtype=torch.bool)
    outcomes = outcomes.reshape(draws, levels, examples)
    store.write(cell, {"key": "k", "status": "done"}, {"outcomes": outcomes})
    again = read_outcomes(store.path(cell))
    assert again.dtype == bool and np.array_equal(again, outcomes.numpy())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_refused_and_changes_nothing(store, cell, value, files_of):
    write(store, cell)
    before = files_of(store.folder)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write(store, cell, value, right=False)
    assert files_of(store.folder) == before


@pytest.mark.parametrize("allowed", [10, 200])  # bytes a file may have: stops at the outcomes, and at the record
def test_a_full_disk_leaves_the_old_record_and_nothing_else(store, cell, allowed, files_of, file_size_limit):
    write(store, cell)
    before = files_of(store.folder)
    with file_size_limit(allowed), pytest.raises(OSError):
        write(store, cell, 0.25, right=False)
    assert files_of(store.folder) == before
    assert store.read(store.path(cell))["result"] == {"quality": 0.5}


def test_a_replaced_record_never_stands_beside_other_outcomes(store, cell, monkeypatch):
    """A process may be killed at any rename: the record is then whole, old or new, or missing."""
    write(store, cell)
    path = store.path(cell)
    replace_file = type(path).replace
    seen = []

    def watched(self, target):
        for when in ("before", "after"):
            if when == "after":
                replace_file(self, target)
            seen.append("missing" if not path.exists() else store._read(path)["result"]["quality"])

    monkeypatch.setattr(type(path), "replace", watched)
    write(store, cell, 0.25, right=False)
    assert seen == ["missing", "missing", "missing", 0.25]


def truncate(text: str) -> str:
    return text[: len(text) // 2]


def flip_digit(text: str) -> str:
    return text.replace('"quality": 0.5', '"quality": 0.6')


def flip_status(text: str) -> str:
    return text.replace('"done"', '"failed"')


def forget_digest(text: str) -> str:
    return json.dumps({key: part for key, part in json.loads(text).items() if key != "digest"})


@pytest.mark.parametrize("damage", [truncate, flip_digit, flip_status, forget_digest, lambda _: "[1]", lambda _: ""])
def test_a_damaged_record_is_found_out(store, cell, damage):
    write(store, cell)
    path = store.path(cell)
    text = damage(path.read_text())
    assert text != path.read_text()
    path.write_text(text)
    with pytest.raises(CorruptRecord, match="seed0"):
        store.read(path)


def test_missing_and_damaged_outcomes_are_found_out(store, cell):
    write(store, cell)
    outcomes = store.path(cell).with_suffix(".safetensors")
    content = outcomes.read_bytes()
    outcomes.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CorruptRecord):
        store.read(store.path(cell))
    outcomes.write_bytes(content[: len(content) // 2])
    with pytest.raises(CorruptRecord):
        read_outcomes(store.path(cell))
    outcomes.unlink()
    with pytest.raises(CorruptRecord, match="seed0"):
        store.read(store.path(cell))


def test_a_failure_leaves_no_outcomes_of_before(store, cell):
    write(store, cell)
    store.write(cell, {"key": "k", "status": "failed", "reason": "r"}, {})
    assert store.read(store.path(cell))["status"] == "failed"
    assert [path.name for path in store.path(cell).parent.iterdir()] == ["seed0.json"]


def test_setting_aside_spares_a_record_that_is_whole_by_now(store, cell):
    write(store, cell)
    store.set_aside(store.path(cell))
    assert store.read(store.path(cell))["status"] == "done"
    store.path(cell).write_text("{")
    assert store.set_aside(store.path(cell)).read_text() == "{"
    assert not store.path(cell).exists()
    store.set_aside(store.path(cell))  # another run was first
