"""Data that cannot be used ends the command in one line: what is wrong, in which file and line, what would be right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from bench.__main__ import main

ROOT = Path(__file__).parents[3]
GOOD = [{"text": f"good film {number}", "label": "ab"[number % 2]} for number in range(100)]


@pytest.fixture
def refused(complaint, tmp_path):
    """What is said of data, given as content of a file or as a path, without the path that it must start with."""

    def run(data: object, *flags: object, name: str = "d.jsonl", task: str = "classification") -> str:
        if isinstance(data, list):
            data = "".join(json.dumps(row) + "\n" for row in data)
        if isinstance(data, str):
            data = data.encode()
        if isinstance(data, bytes):
            (tmp_path / name).write_bytes(data)
            data = tmp_path / name
        said = complaint("run", "--task", task, "--data", data, "--out", tmp_path / "out", "--methods", "none", *flags)
        assert said.startswith(str(data)), said
        return said.removeprefix(str(data))

    return run


def labelled(*labels: object) -> list[dict]:
    return [{"text": f"t {number}", "label": labels[number % len(labels)]} for number in range(100)]


@pytest.mark.parametrize("path", ["/no/where.jsonl", "nowhere.jsonl", "./nowhere", "~/no/where", "a/b/c"])
def test_a_path_to_nothing(complaint, path):
    assert complaint("run", "--task", "classification", "--data", path) == f"{path}: no such file or folder"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("d.jsonl", "", ": the file is empty"),
        ("d.csv", "", ": the file is empty"),
        ("d.parquet", "", ": the file is empty"),
        ("d.jsonl", "\n\n", ": no row in it"),
        ("d.csv", "text,label\n", ": no row in it"),
        ("d.xls", "a", ": cannot read .xls; expected one of .jsonl, .json, .csv, .tsv, .parquet, .txt"),
        ("d", "a", ": cannot read a file without a suffix; expected one of .jsonl"),
        ("d.jsonl", '{"text": "a", "label": 1}\n{broken\n', ": line 2: not valid JSON"),
        ("d.jsonl", '{"text": "a", "label": 1', ": line 1: not valid JSON"),
        ("d.jsonl", "[" * 100000, ": not valid JSON"),
        ("d.jsonl", "1\n2\n", ': line 1: expected an object such as {"text": "...", "label": 1}'),
        ("d.json", "[1, 2]", ": entry 1: expected an object"),
        ("d.csv", 'text,label\n"a,b\nc,d\n', ": line 3: not valid CSV: unexpected end of data"),
        ("d.csv", "text,label\na,b\na,b,c\n", ": line 3: 3 fields, the header has 2"),
        ("d.csv", "text,label\na\n", ": line 2: 1 fields, the header has 2"),
        ("d.csv", "text,label,text\na,b,c\n", ": line 1: there are two columns 'text'"),
        ("d.parquet", "PAR1 and so on PAR1", ": not valid Parquet"),
        ("d.parquet", "not at all", ": not valid Parquet"),
        ("d.csv", b"text,label\ncaf\xe9,a\n", ": line 2: not UTF-8 text: invalid continuation byte; save it as UTF-8"),
        ("d.jsonl", b'{"text": "caf\xe9", "label": "a"}', ": line 1: not UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_line(refused, name, content, said):
    assert said in refused(content, name=name)


def test_a_row_that_does_not_end_is_named(refused):
    content = '{"text": "a", "label": "b"}\n{"text": "' + "x" * 10_000_000
    assert refused(content) == ": line 2: more than 10,000,000 characters in one row; divide it, or mend the file"


def test_a_parquet_file_that_decodes_to_more_than_memory_should_hold(refused, tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.data.readers.DECODED", 1_000_000)
    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 20_000, pyarrow.int8()), ["x"])
    table = pyarrow.table({"text": texts, "label": [0] * 20_000})
    pyarrow.parquet.write_table(table, tmp_path / "d.parquet", store_schema=False)
    assert "bytes decodes to more than 1,000,000; write the rows" in refused(tmp_path / "d.parquet", "--limit", 9)


def test_a_parquet_file_with_two_columns_of_one_name(refused, tmp_path):
    columns = [pyarrow.array(values) for values in (["a"] * 9, [0] * 9, [1] * 9)]
    table = pyarrow.Table.from_arrays(columns, names=["text", "label", "label"])
    pyarrow.parquet.write_table(table, tmp_path / "twice.parquet")
    assert refused(tmp_path / "twice.parquet") == ": there are two columns 'label'"


def test_a_truncated_parquet_file(refused, tmp_path):
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(GOOD), tmp_path / "whole.parquet")
    assert "not valid Parquet" in refused((tmp_path / "whole.parquet").read_bytes()[:-50], name="cut.parquet")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (labelled(None), ": no row with a label"),
        (labelled(-1), ": no row with a label"),
        (labelled("x"), ": the train split has one class only ('x'); at least two are needed"),
        (labelled("x", 1), ": labels are text in some rows and numbers in others: 'x' and 1 (line 1, line 2)"),
        (labelled(0.5, 1), ": line 1: label 0.5 is not a class; expected text or a whole number"),
        (labelled(float("inf"), 1), ": line 1: label inf is not a class"),
        (labelled("2", "0.5"), ": line 2: label 0.5 is not a class"),
        (labelled([1], [2]), ": line 1: label [1] is not a class"),
        (labelled({"a": 1}), ": line 1: label {'a': 1} is not a class"),
        (labelled("a", "b\ud800"), ": line 2: label 'b\\ud800' is not valid Unicode"),
        ([*GOOD, {"text": "", "label": "a"}], ": line 101: column 'text' is empty"),
        ([*GOOD, {"text": " \t", "label": "a"}], ": line 101: column 'text' is empty"),
        ([*GOOD, {"text": None, "label": "a"}], ": line 101: column 'text' is empty"),
        ([*GOOD, {"text": 7, "label": "a"}], ": line 101: column 'text' has no text but 7"),
        ([*GOOD, {"text": ["a"], "label": "a"}], ": line 101: column 'text' has no text but ['a']"),
        ([*GOOD, {"text": "\udc00", "label": "a"}], ": line 101: column 'text' is not valid Unicode: '\\udc00'"),
        ([*GOOD, {"text": "[PAD] [PAD]", "label": "a"}], " text has only special tokens or spaces: ('[PAD] [PAD]',)"),
        (GOOD[:3], "split"),
    ],
)
def test_rows_that_cannot_be_used_are_named_with_their_line(refused, rows, said):
    assert said in refused(rows)


def test_columns_that_are_not_there_are_named_with_those_that_are(refused):
    rows = [{"te\nxt": "a", "label": "x"}]
    assert refused(rows) == ": line 1: no column 'text'; it has 'te\\nxt', 'label': give --text COLUMN"
    assert refused(GOOD, "--label", "lable").endswith("no column 'lable'; it has 'text', 'label': give --label COLUMN")
    assert "no column 'a,b'; it has" in refused(GOOD, "--text", '"a,b"')
    assert "no column 'premise'" in refused(GOOD, task="mnli")


@pytest.mark.parametrize(("name", "where"), [("d.csv", ": header"), ("d.parquet", "")])
def test_a_column_that_no_row_has_is_missed_in_the_header(refused, tmp_path, name, where):
    if name == "d.csv":
        (tmp_path / name).write_text("text,lable\na,b\n")
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"text": "a", "lable": "b"}]), tmp_path / name)
    assert refused(tmp_path / name) == f"{where}: no column 'label'; it has 'text', 'lable': give --label COLUMN"


@pytest.mark.parametrize(
    ("task", "columns", "expected"),
    [
        ("classification", "a,b,c", "one column, or two for pairs"),
        ("mnli", "a,b,c", "two columns, of texts to compare"),
        ("mnli", "text", "two columns, of texts to compare"),
    ],
)
def test_columns_of_text_are_as_many_as_the_task_reads(complaint, tmp_path, tiny_data, task, columns, expected):
    said = complaint("run", "--task", task, "--data", tiny_data, "--text", columns, "--out", tmp_path / "out")
    assert said == f"--text {columns}: expected {expected}"


def test_labels_that_the_task_does_not_have_are_named(refused):
    rows = [{"premise": f"p {n}", "hypothesis": "h", "label": ["neutral", "no"][n % 2]} for n in range(60)]
    assert refused(rows, task="mnli") == (
        ": line 2: label 'no' is not one of entailment, neutral, contradiction; "
        "for other classes use --task classification --text premise,hypothesis"
    )


@pytest.mark.parametrize("labels", [(0, 1), ("1", "0")])
def test_inference_with_two_classes_is_sent_to_classification(refused, tmp_path, labels):
    """By number they would pass for the first two of three classes."""
    rows = [{"premise": f"p {n}", "hypothesis": "h", "label": labels[n % 2]} for n in range(60)]
    assert refused(rows, task="mnli") == (
        ": all labels are 0 or 1; entailment, neutral, contradiction are 0, 1, 2; "
        "for other classes use --task classification --text premise,hypothesis"
    )
    flags = ["--task", "classification", "--text", "premise,hypothesis", "--dry-run", "--device", "cpu"]
    assert main(["run", *flags, "--data", str(tmp_path / "d.jsonl"), "--out", str(tmp_path / "out")]) == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--train", "gone.csv"], "--train gone.csv: no such file"),
        (["--train", "d.csv", "--test", "."], "--test .: expected a file, not a folder"),
        (["--train", "d.csv", "--data", "d.csv"], "data is given twice: use --data, or --train with --validation and"),
        (["--test", "d.csv"], "a validation or test split needs a training split: add --train"),
        (
            ["--train", "d.csv", "--test", "d.csv"],
            "d.csv + d.csv: the validation split is empty (all its texts are in a later",
        ),
    ],
)
def test_files_of_splits_that_cannot_be_used(complaint, tmp_path, flags, said):
    (tmp_path / "d.csv").write_text("text,label\n" + "".join(f"t {n},{n % 2}\n" for n in range(60)))
    assert complaint("run", "--task", "classification", *flags, "--out", tmp_path / "out").startswith(said)


def test_labels_that_the_model_does_not_have_are_named(complaint, tiny_model, tmp_path):
    (tmp_path / "d.csv").write_text("text,label\n" + "".join(f"t {n},{['happy', 'sad'][n % 2]}\n" for n in range(60)))
    said = complaint("run", "--task", "classification", "--model", tiny_model, "--data", "d.csv", "--out", "out")
    assert (
        "the model has no label 'happy', 'sad'; available: negative, positive; rename" in said and "--finetune" in said
    )


def test_one_class_in_the_test_split(refused, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in GOOD))
    (folder / "test.jsonl").write_text('{"text": "x", "label": "a"}\n')
    assert ": the test split has one class only ('a')" in refused(folder)


@pytest.mark.parametrize("files", [[], ["foo.jsonl"], ["train.pdf"], ["training/readme.md"]])
def test_a_folder_without_files_of_splits(refused, tmp_path, files):
    for file in ["folder/x", *(f"folder/{name}" for name in files)]:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("{}")
    said = ": no .jsonl/.json/.csv/.tsv/.parquet/.txt file here is named train, validation (dev) or test"
    assert refused(tmp_path / "folder") == said


def test_a_limit_that_leaves_one_class(complaint, tiny_data, tmp_path):
    said = complaint("run", "--task", "classification", "--data", tiny_data, "--limit", 1, "--out", tmp_path / "out")
    assert said == "--limit 1: leaves one class only in the train split of tiny: raise it"


def test_a_mirror_that_is_not_there(complaint, tmp_path):
    flags = ["--task", "classification", "--data", "org/name", "--mirror", "nowhere", "--out", tmp_path / "out"]
    assert complaint("run", *flags) == "--mirror nowhere: no such folder"
    assert complaint("run", "--mirror", "nowhere") == "--mirror nowhere: no such folder"


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--data", "--model"])
def test_an_id_that_is_nowhere_to_be_had_offline(flag, tmp_path, tiny_data):
    own = ["--task", "classification", "--out", str(tmp_path / "out"), "--methods", "none"]
    own += [] if flag == "--data" else ["--data", str(tiny_data)]
    done = subprocess.run(
        [sys.executable, "-m", "bench", "run", *own, flag, "no-such-org/no-such-name", "--mirror", str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "HEADBENCH_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "no-such-org/no-such-name: no such" in done.stderr and "or --mirror DIR with a copy" in done.stderr
