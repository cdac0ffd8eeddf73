"""Files that would not fit into memory end in one line, and little of them is read before that."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from tasks.data import readers
from tasks.data.source import load, load_pairs, load_texts
from tasks.errors import TaskError

ROW = {"text": "a", "label": "b"}
MB = 1_000_000


@pytest.fixture
def small(monkeypatch):
    """Bounds that small files exceed."""
    for name, value in {"ROW": 1000, "ARRAY": 10_000, "DECODED": 10 * MB, "BATCH": 8 * MB}.items():
        monkeypatch.setattr(readers, name, value)


def bomb(path: Path, *, value: str = "x" * 100_000, rows: int = 20_000, others: dict[str, list] | None = None) -> Path:
    """A file of some kilobytes, in which one text is stored once and stands in many rows: 2 GB by default."""
    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows, pyarrow.int32()), pyarrow.array([value]))
    labels = [number % 2 for number in range(rows)]
    columns = pyarrow.table({"text": texts, "label": labels, **(others or {})})
    pyarrow.parquet.write_table(columns, path, store_schema=False)
    assert path.stat().st_size < MB
    return path


def peak_of(call) -> int:
    """Most bytes that Python and Arrow, added, hold during ``call``."""
    before = pyarrow.default_memory_pool()
    counted = pyarrow.proxy_memory_pool(before)
    pyarrow.set_memory_pool(counted)
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] + counted.max_memory()
    finally:
        tracemalloc.stop()
        pyarrow.set_memory_pool(before)


def test_a_small_parquet_file_that_decodes_to_gigabytes_is_refused_before_it_does(tmp_path, small):
    file = bomb(tmp_path / "d.parquet")
    size = f"{file.stat().st_size:,}"

    def refused():
        with pytest.raises(TaskError, match=rf"^{file}: row 100: this file of {size} bytes decodes to more than 10,0"):
            list(readers.read(file))

    assert peak_of(refused) < 60 * MB


def test_many_short_rows_count_too(tmp_path, small):
    with pytest.raises(TaskError, match=r"row \d+: this file of .* decodes to more than"):
        list(readers.read(bomb(tmp_path / "d.parquet", value="x", rows=200_000)))


def test_a_value_that_is_stored_whole_is_refused_before_it_is_decoded(tmp_path, small):
    file = tmp_path / "d.parquet"
    table = pyarrow.table({"text": ["x" * 50 * MB], "label": [0]})
    pyarrow.parquet.write_table(table, file, compression="zstd", use_dictionary=False)

    def refused():
        with pytest.raises(TaskError, match="decodes to more than"):
            list(readers.read(file))

    assert peak_of(refused) < 5 * MB


def test_a_large_parquet_file_may_decode_to_a_multiple_of_its_size(tmp_path, small, monkeypatch):
    file = tmp_path / "d.parquet"
    texts = [str(number) * 200 for number in range(1000)]
    table = pyarrow.table({"text": texts, "label": [0] * 1000})
    pyarrow.parquet.write_table(table, file, compression="none", use_dictionary=False)
    monkeypatch.setattr(readers, "DECODED", 1000)
    assert [row["text"] for _, row in readers.read(file)] == texts


def test_only_the_columns_that_are_used_are_decoded(tmp_path, small):
    file = bomb(tmp_path / "d.parquet", others={"own": [f"text {number}" for number in range(200)]}, rows=200)
    with pytest.raises(TaskError, match="decodes to more than"):
        load_texts(str(file), ("text",), only_train=True)
    assert [row for _, row in readers.read(file, ["own", "label"])] == [
        {"own": f"text {number}", "label": number % 2} for number in range(200)
    ]
    assert load(str(file), ("own",), "label").labels == ("0", "1")
    assert len(load_texts(str(file), ("own",), only_train=True).train) == 200


def test_batches_and_row_groups_change_no_row(tmp_path, monkeypatch):
    rows = [{"text": f"text {number}", "label": number, "many": ["a"] * (number % 3)} for number in range(100)]
    file = tmp_path / "d.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file, row_group_size=37)
    for batch in (1, 3000, readers.BATCH):
        monkeypatch.setattr(readers, "BATCH", batch)
        assert list(readers.read(file)) == [(f"{file}: row {place}", row) for place, row in enumerate(rows, 1)]


def test_lists_are_refused_before_they_are_decoded(tmp_path):
    file = tmp_path / "d.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": [["a"]] * 9, "label": [0] * 9}), file)
    with pytest.raises(TaskError, match=r"d.parquet: column 'text' holds list<.*string>; expected text or numbers"):
        load(str(file), ("text",), "label")


LONG = "x" * 2000


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("d.jsonl", f"{json.dumps(ROW)}\n\n" + json.dumps(ROW | {"text": LONG}), 3),
        ("d.json", json.dumps(ROW | {"text": LONG}), 1),
        ("d.csv", f"text,label\na,b\n{LONG},b\n", 3),
        ("d.csv", f"text,label,{LONG}\n", 1),
        ("d.csv", 'text,label\na,b\n"' + "of an open quote\n" * 200, 3),
        ("d.txt", f"first\n\n{LONG}\n", 3),
        ("d.txt", "first\n\n" + "without a blank line\n" * 200, 3),
    ],
)
def test_a_row_beyond_the_bound_is_named_by_its_first_line(tmp_path, small, name, content, line):
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(TaskError, match=rf"^{file}: line {line}: more than 1,000 characters in one row; divide it"):
        list(readers.read(file))


@pytest.mark.parametrize(
    ("name", "begin"), [("d.jsonl", '{"text": "'), ("d.csv", 'text,label\n"'), ("d.txt", "a\n\n"), ("d.json", "[")]
)
def test_the_rest_of_a_line_that_is_too_long_is_not_read(tmp_path, small, name, begin):
    (tmp_path / name).write_text(begin + "x" * 20 * MB)

    def refused():
        with pytest.raises(TaskError, match="more than"):
            list(readers.read(tmp_path / name))

    assert peak_of(refused) < MB


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.jsonl", "\n".join([json.dumps(ROW | {"text": "x" * 970})] * 5)),
        ("d.json", json.dumps([ROW | {"text": "x" * 970}] * 5)),
        ("d.csv", "text,label\n" + ("x" * 990 + ",b\n\n") * 5),
        ("d.txt", ("x" * 990 + "\n\n\n") * 5),
    ],
)
def test_rows_up_to_the_bound_are_read(tmp_path, small, name, content):
    (tmp_path / name).write_text(content)
    assert len(list(readers.read(tmp_path / name))) == 5


def test_an_array_beyond_the_bound_is_told_to_be_lines(tmp_path, small):
    (tmp_path / "d.json").write_text(json.dumps([ROW] * 1000))
    with pytest.raises(TaskError, match=r"d.json: an array of more than 10,000 characters; write one object per line"):
        list(readers.read(tmp_path / "d.json"))


def test_an_array_of_too_many_objects_is_told_to_be_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "OBJECTS", 100)
    (tmp_path / "d.json").write_text(json.dumps([{}] * 101))
    with pytest.raises(TaskError, match=r"d.json: an array with more than 100 brackets; write one object per line"):
        list(readers.read(tmp_path / "d.json"))


def test_a_text_beyond_the_bound_is_refused_wherever_it_comes_from(tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.data.source.ROW", 1000)
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a", LONG]}), tmp_path / "d.parquet")
    with pytest.raises(TaskError, match="row 2: column 'text' has a text of 2,000 characters; at most 1,000 are read"):
        load_texts(str(tmp_path / "d.parquet"), ("text",))


@pytest.mark.parametrize("content", ['{"text": %s}', "[%s]"])
def test_json_of_any_depth_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "d.json").write_text(content % ("[" * 200_000 + "]" * 200_000))
    with pytest.raises(TaskError, match=r"not valid JSON: nested too deeply$"):
        list(readers.read(tmp_path / "d.json"))


def test_names_of_classes_that_are_nested_without_end_are_no_names(tmp_path):
    table = pyarrow.table({"text": ["a"], "label": [0]}).replace_schema_metadata({"huggingface": "[" * 200_000})
    pyarrow.parquet.write_table(table, tmp_path / "d.parquet")
    assert readers.class_names(tmp_path / "d.parquet", "label") == []


def test_a_column_of_lists_has_no_names_of_classes(tmp_path):
    """Its feature is a list, as ``datasets`` wrote it before version 4."""
    features = {"huggingface": json.dumps({"info": {"features": {"label": [{"dtype": "int64", "_type": "Value"}]}}})}
    table = pyarrow.table({"text": ["a"], "label": [[0]]}).replace_schema_metadata(features)
    pyarrow.parquet.write_table(table, tmp_path / "d.parquet")
    assert readers.class_names(tmp_path / "d.parquet", "label") == []


@pytest.mark.parametrize("name", ["data.json", "data.jsonl"])
@pytest.mark.parametrize("content", [{"data": []}, {"text": "a", "label": 1}])
def test_an_object_over_several_lines_is_refused_with_what_is_expected(tmp_path, name, content):
    (tmp_path / name).write_text(json.dumps(content, indent=2))
    with pytest.raises(TaskError) as found:
        list(readers.read(tmp_path / name))
    assert str(found.value) == (
        f"{tmp_path / name}: line 1: not valid JSON: the object does not end in this line; expected a whole object on "
        "each line, or one array of objects"
    )


def test_dates_that_python_does_not_have_matter_only_where_they_are_asked_for(tmp_path):
    far = pyarrow.array([10**8] * 60, pyarrow.date32())
    texts = [{"de": f"ein Film {number}", "en": f"film {number}"} for number in range(60)]
    pyarrow.parquet.write_table(pyarrow.table({"translation": texts, "date": far}), tmp_path / "pairs.parquet")
    pairs = load_pairs(str(tmp_path / "pairs.parquet"), ("de", "en"))
    assert {example.texts for split in (pairs.train, pairs.validation, pairs.test) for example in split} == {
        (text["de"], text["en"]) for text in texts
    }
    labels = [number % 2 for number in range(60)]
    table = pyarrow.table({"text": [text["en"] for text in texts], "label": labels, "date": far})
    pyarrow.parquet.write_table(table, file := tmp_path / "d.parquet")
    assert load(str(file), ("text",), "label").test
    with pytest.raises(TaskError, match="no column 'body'; it has 'text', 'label', 'date'"):
        load(str(file), ("body",), "label")
    with pytest.raises(TaskError, match=r"d.parquet: after row 0: a value that cannot be used: .*out of range"):
        load(str(file), ("text",), "date")


@pytest.mark.parametrize("ends", [b"\n", b"\xc3"])
def test_the_line_of_what_is_no_text_is_told_wherever_it_is(tmp_path, ends, monkeypatch):
    monkeypatch.setattr(readers, "PIECE", 64)
    good = b'{"text": "caf\xc3\xa9", "label": "a"}\n'
    (tmp_path / "d.jsonl").write_bytes(good * 10_000 + (b"\xff" if ends == b"\n" else b"") + ends)
    with pytest.raises(TaskError, match=r"d.jsonl: line 10001: not UTF-8 text: "):
        list(readers.read(tmp_path / "d.jsonl"))
