"""A record exists completely or not at all, and one that is not what was written is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.records.arrays import read_arrays, read_outcomes
from bench.records.errors import CorruptRecord, InputError, OtherProtocol
from bench.records.protocol import PROTOCOL
from bench.records.result import Trace
from bench.records.schema import FailedRecord, FinishedRecord
from bench.records.storage.current import read_current
from bench.records.storage.files import digest_of
from bench.records.storage.store import Store
from tests.fixtures.files import files_of

RESULTS = Path(__file__).parents[4] / "results" / "mini"
NAME = "task.data.model/none/seed0"


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path)


@pytest.fixture
def write(store, make_record):
    """Write a record of this quality with outcomes that are all right or all wrong; returns its path."""

    def one(quality: float = 0.5, right: bool = True, name: str = NAME, **fields) -> Path:
        record = make_record(quality=[[quality] * 3], **fields)
        store.write(name, record, {"outcomes": np.full((1, 3, 100), right)})
        return store.path(name)

    return one


def quality(store: Store, path: Path) -> float:
    record = store.read(path)
    assert isinstance(record, FinishedRecord)
    return record.result.quality[0][0]


def failure(record: FinishedRecord, reason: str = "RuntimeError: no") -> FailedRecord:
    return FailedRecord(cell=record.cell, provenance=record.provenance, reason=reason)


def test_a_finished_record_is_read_as_it_was_written(store, make_record):
    traces = {2: {"steps": [1, 3], "loss": [0.5, 0.25], "right": [], "open": [8.0, 6.5]}}
    reports = {2: {"steps": 3.0}, 10: {"steps": 4.0}}
    training = {"passes": {"forward": 1, "backward": 1}, "reports": reports, "traces": traces}
    record = make_record(result={"method_training": training}, training={"steps": 5, "by an adapter": "x"})
    store.write(NAME, record, {"outcomes": np.zeros((1, 3, 100), bool)})
    again = store.read(store.path(NAME))
    assert again == record.model_copy(update={"outcomes": again.outcomes, "digest": again.digest})
    assert again.result.method_training.reports[10] == {"steps": 4.0}  # JSON has text for keys, which sorts otherwise


@pytest.mark.parametrize(
    ("trace", "complaint"),
    [
        ({"steps": [1, 1]}, "steps that do not ascend"),
        ({"steps": []}, "steps that do not ascend"),
        ({"loss": []}, "0 values of loss for 2 steps"),
        ({"open": [1.0]}, "1 values of open for 2 steps"),
    ],
)
def test_a_trace_has_a_value_for_each_of_its_steps(trace, complaint):
    whole = {"steps": [1, 2], "loss": [0.5, 0.5], "open": [3.0, 2.0]}
    assert Trace(**whole).right == []
    with pytest.raises(ValueError, match=complaint):
        Trace(**(whole | trace))


@given(reason=st.text(st.characters(exclude_categories=["Cs"])), seed=st.integers(0, 2**32 - 1))
def test_a_failed_record_is_read_as_it_was_written(tmp_path_factory, make_record, reason, seed):
    store, record = Store(tmp_path_factory.mktemp("store")), failure(make_record(seed=seed), reason)
    store.write(NAME, record)
    again = store.read(store.path(NAME))
    assert again == record.model_copy(update={"digest": again.digest})


@given(st.integers(1, 3), st.integers(1, 4), st.integers(0, 70), st.randoms(use_true_random=False))
def test_arrays_are_read_bit_for_bit(tmp_path_factory, make_record, draws, levels, examples, random):
    store = Store(tmp_path_factory.mktemp("store"))
    outcomes = np.array([random.random() < 0.5 for _ in range(draws * levels * examples)], dtype=bool)
    outcomes, scores = outcomes.reshape(draws, levels, examples), np.array([random.random()])
    store.write(NAME, make_record(), {"outcomes": outcomes, "scores.0": scores})
    again = read_arrays(store.path(NAME))
    assert again["outcomes"].dtype == bool and np.array_equal(again["outcomes"], outcomes)
    assert np.array_equal(again["scores.0"], scores)
    assert np.array_equal(read_outcomes(store.path(NAME)), outcomes)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_refused_and_changes_nothing(store, write, value):
    write()
    before = files_of(store.folder)
    with pytest.raises(ValueError, match="finite number"):
        write(value, right=False)
    assert files_of(store.folder) == before


@pytest.mark.parametrize("allowed", [10, 300])  # bytes a file may have: stops at the outcomes, and at the record
def test_a_full_disk_leaves_the_old_record_and_nothing_else(store, write, allowed, file_size_limit):
    path = write()
    before = files_of(store.folder)
    with file_size_limit(allowed), pytest.raises(OSError):
        write(0.25, right=False)
    assert files_of(store.folder) == before and quality(store, path) == 0.5


def test_a_replaced_record_never_lies_beside_other_outcomes(store, write, monkeypatch):
    """A process may be killed at any rename: the record is then whole, old or new, or missing."""
    path = write()
    replace_file = type(path).replace
    seen = []

    def watched(self, target):
        seen.append(path.exists())
        replace_file(self, target)
        seen.append(path.exists())

    monkeypatch.setattr(type(path), "replace", watched)
    write(0.25, right=False)
    assert seen == [False, False, False, True] and quality(store, path) == 0.25


def test_times_are_added_only_to_the_record_that_they_were_measured_of(store, write):
    path = write()
    timed = store.read(path)
    store.update(NAME, timed)
    assert store.read(path) == timed
    store.write(NAME, timed.model_copy(update={"key": "of other settings"}), read_arrays(path))
    with pytest.raises(CorruptRecord, match="another run has replaced it"):
        store.update(NAME, timed)
    write(0.25, right=False)  # by another run
    with pytest.raises(CorruptRecord, match="another run has replaced it"):
        store.update(NAME, timed)
    assert quality(store, path) == 0.25
    store.write(NAME, failure(timed))
    with pytest.raises(CorruptRecord, match="another run has replaced it"):
        store.update(NAME, timed)


def test_a_copy_beside_a_record_is_no_record(store, write, capsys):
    path = write()
    for name in ("seed0 (copy).json", "seed00.json", "seed0.old.json", "seed\u0661.json"):
        path.with_name(name).write_bytes(path.read_bytes())
        assert store.paths() == [path]
        assert f"skipped, as its name is not that of a record, seedN.json: {path.with_name(name)}" in (
            capsys.readouterr().err
        )


def truncate(text: str) -> str:
    return text[: len(text) // 2]


def flip_digit(text: str) -> str:
    return text.replace('"units":8', '"units":9')


def flip_status(text: str) -> str:
    return text.replace('"done"', '"failed"')


def forget_digest(text: str) -> str:
    return json.dumps({key: part for key, part in json.loads(text).items() if key != "digest"})


@pytest.mark.parametrize("damage", [truncate, flip_digit, flip_status, forget_digest, lambda _: "[1]", lambda _: ""])
def test_a_damaged_record_is_found_out(store, write, damage):
    path = write()
    text = damage(path.read_text())
    assert text != path.read_text()
    path.write_text(text)
    with pytest.raises(CorruptRecord, match="seed0"):
        store.read(path)


def test_missing_and_damaged_outcomes_are_found_out(store, write):
    path = write()
    outcomes = path.with_suffix(".safetensors")
    content = outcomes.read_bytes()
    outcomes.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CorruptRecord, match=r"seed0\.safetensors: its digest is not that in seed0\.json$"):
        store.read(path)
    outcomes.write_bytes(content[: len(content) // 2])
    with pytest.raises(CorruptRecord):
        read_outcomes(path)
    outcomes.unlink()
    with pytest.raises(CorruptRecord, match="seed0"):
        store.read(path)


def change(path: Path, *field: str, value: object = None) -> None:
    """Set a field of the record at ``path``, or remove it without a value, and give it the digest that fits."""
    record = json.loads(path.read_text())
    part = record
    for name in field[:-1]:
        part = part[name]
    part[field[-1]] = value
    if value is None:
        del part[field[-1]]
    del record["digest"]
    path.write_text(json.dumps(record | {"digest": digest_of(record)}))


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        (["result", "removed"], [0, 8, 4], "result: Value error, removed is not an ascending list of levels from 0"),
        (["result", "removed"], [], "result.removed: List should have at least 2 items"),
        (["result", "orders"], [[0, 0, 2, 3, 4, 5, 6, 7]], "result: Value error, orders has an entry that is not"),
        (["result", "kept"], [[0], [1]], "result: Value error, kept has 2 entries for 3 levels"),
        (["result", "kept"], [[1, 0], [0], []], "result: Value error, kept has an entry that is not some of 8 units"),
        (["result", "kept"], [[0, 0], [0], []], "result: Value error, kept has an entry that is not some of 8 units"),
        (["result", "metrics"], [[{"a": 1.0}, {"b": 1.0}, {"a": 1.0}]], "result: Value error, metrics has other names"),
        (["result", "shape"], [4, 5], "result: Value error, shape has 9 units of 8"),
        (["result", "attention"], ["encoder"] * 3, "result: Value error, attention has 3 modules, shape "),
        (["result", "parts"], {"data": 99}, "the arrays beside it do not belong to it: 100 examples, not 99"),
        (["result", "units"], 0, "result.units: Input should be greater than 0"),
        (["measured", "latency", "samples", "1", "4"], [], "measured.latency.samples: Value error, samples has no"),
        (["measured", "latency", "samples", "1", "4"], [0.0], "measured.latency.samples: Value error, samples has a"),
        (["result"], None, "result: Field required"),
        (["result", "units"], None, "result.units: Field required"),
        (["result", "units"], True, "result.units: Input should be a valid integer"),
        (["result", "units"], -1, "result.units: Input should be greater than or equal to 0"),
        (["result", "chance"], 1.5, "result.chance: Input should be less than or equal to 1"),
        (["cell", "seed"], "0", "cell.seed: Input should be a valid integer"),
        (["cell", "shape"], "tree", "cell.shape: Input should be 'scorer', 'selector' or 'joint'"),
        (["result", "quality"], [["a"] * 3], "result.quality.0.0: Input should be a valid number"),
        (["result", "quality"], [[0.5] * 2], "result: Value error, quality has rows that are not 3 levels long"),
        (["result", "megabytes"], [], "result: Value error, megabytes has 0 entries for 3 levels"),
        (["result", "colour"], "red", "result.colour: Extra inputs are not permitted"),
        (["measured", "latency", "samples", "1", "4"], ["fast"], "measured.latency.samples.1.4.0: Input should be"),
        (["status"], "running", "record: Input tag 'running' found"),
    ],
    ids=str,
)
def test_a_field_that_is_wrong_is_named_in_one_line(store, write, field, value, complaint):
    """The digest fits: it was written by something else than a run."""
    path = write()
    change(path, *field, value=value)
    with pytest.raises(CorruptRecord) as error:
        store.read(path)
    assert str(error.value).startswith(f"{path}: {complaint}") and "\n" not in str(error.value)


def test_records_of_another_protocol_are_not_read_as_one_of_this(store, write):
    path, other = write(), write(name="task.data.model/other/seed0", cell={"protocol": PROTOCOL - 1})
    change(other, "result", value={"fields": "of that time"})
    with pytest.raises(OtherProtocol, match=f"protocol {PROTOCOL - 1}, this is protocol {PROTOCOL}"):
        store.read(other)
    records, others = read_current(store.folder.parent)
    assert list(records) == [path] and others == 1
    change(path, "cell")
    with pytest.raises(InputError, match="made under another protocol"):
        read_current(store.folder.parent)


@pytest.mark.parametrize(
    "path",
    [path for path in Store(RESULTS).paths() if path.match("seed0.json")][::5],
    ids=lambda path: path.parent.name,
)
def test_committed_records_are_valid(path):
    record = Store(RESULTS).read(path)
    assert isinstance(record, FinishedRecord) and len(record.result.quality[0]) == len(record.result.removed)


@pytest.mark.parametrize(
    ("suite", "number"),
    [("ablations", 3), ("mini", 10), ("real", 6), ("real-llama", 6), ("real-trained", 6)],
)
def test_committed_results_have_every_cell_of_every_seed_by_one_commit(suite, number):
    records, others = read_current(RESULTS.parent / suite)
    assert not others and all(isinstance(record, FinishedRecord) for record in records.values())
    seeds: dict[tuple[str, ...], set[int]] = {}
    for record in records.values():
        seeds.setdefault((*record.task, record.cell.label), set()).add(record.cell.seed)
    assert seeds and all(own == set(range(number)) for own in seeds.values())
    assert not any(record.provenance.dirty for record in records.values())
    assert len({record.provenance.commit for record in records.values()}) == 1


def test_a_failure_leaves_no_outcomes_of_before(store, write, make_record):
    path = write()
    store.write(NAME, failure(make_record()))
    assert isinstance(store.read(path), FailedRecord)
    assert [each.name for each in path.parent.iterdir()] == ["seed0.json"]


def test_setting_aside_spares_a_record_that_is_whole_by_now(store, write):
    path = write()
    assert store.set_aside(path) is None
    assert quality(store, path) == 0.5
    path.write_text("{")
    assert store.set_aside(path).read_text() == "{"
    assert not path.exists()
    assert store.set_aside(path) is None  # another run was first


def test_records_set_aside_keep_their_arrays_and_one_another(store, write):
    kept = {}
    for number in (1, 2):
        path = write()
        path.write_text("{" * number)
        arrays = path.with_suffix(".safetensors")
        arrays.write_bytes(b"arrays" * number)
        aside = store.set_aside(path)
        kept |= {aside.name: b"{" * number, aside.name.replace("json", "safetensors"): b"arrays" * number}
    path = write()
    assert {each.name: each.read_bytes() for each in path.parent.iterdir() if ".corrupt" in each.name} == kept
    assert len(kept) == 4 and len(store.paths()) == 1
