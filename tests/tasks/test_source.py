"""Data sources: files of every kind, folders, mirrors, and what real data sets hold."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from tasks.data.dataset import SPLITS, Dataset
from tasks.data.folder import data_files
from tasks.data.location import resolve, short_name
from tasks.data.source import load, load_pairs, load_texts
from tasks.data.splits import limited
from tasks.errors import TaskError

ROWS = [{"text": f"text, number {number}\n\u2028“é” 😀", "label": ["no", "yes"][number % 2]} for number in range(100)]


DIVIDED = "divided 80:10:10 into train, validation and test"
NO_LABEL = ("None", "-1", "-1.0", "")


def write(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    else:
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def labelled(*labels: object) -> list[dict]:
    return [{"text": f"t {number}", "label": labels[number % len(labels)]} for number in range(120)]


def every(data: Dataset) -> set[tuple[tuple[str, ...], str]]:
    return {(example.texts, data.labels[example.label]) for split in SPLITS for example in getattr(data, split)}


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv", "parquet", "JSONL"])
def test_every_kind_of_file_gives_the_same_splits(tmp_path, ending):
    data = load(str(write(tmp_path / f"mine.{ending}", ROWS)), ("text",), "label")
    assert data.name == "mine" and data.labels == ("no", "yes")
    assert every(data) == {((row["text"],), row["label"]) for row in ROWS}
    reference = load(str(write(tmp_path / "other.jsonl", ROWS)), ("text",), "label")
    assert [getattr(data, split) for split in SPLITS] == [getattr(reference, split) for split in SPLITS]


def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_the_data(tmp_path):
    lines = ["text,label", *(f"t {number},{'ab'[number % 2]}" for number in range(100))]
    (tmp_path / "w.csv").write_bytes("\r\n".join(lines).encode("utf-8-sig"))
    (tmp_path / "w.jsonl").write_bytes("\r\n".join(json.dumps(row) for row in ROWS).encode("utf-8-sig"))
    assert load(str(tmp_path / "w.csv"), ("text",), "label").labels == ("a", "b")
    assert load(str(tmp_path / "w.jsonl"), ("text",), "label").labels == ("no", "yes")


def test_words_that_some_readers_take_for_nothing_are_text_and_labels_in_csv(tmp_path):
    rows = [{"text": text, "label": label} for text in ("null", "NA", "7") for label in ("None", "nan")]
    rows += [{"text": f"t {number}", "label": ["None", "nan"][number % 2]} for number in range(60)]
    data = load(str(write(tmp_path / "w.csv", rows)), ("text",), "label")
    assert data.labels == ("None", "nan") and {("null",), ("NA",), ("7",)} <= {texts for texts, _ in every(data)}


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ((2, 0, 10), ("0", "2", "10")),
        (("b", "a"), ("a", "b")),
        ((True, False), ("False", "True")),
        ((1.0, 0.0), ("0", "1")),
        (("2", "10"), ("2", "10")),
        ((0, 1, None), ("0", "1")),
        ((0, 1, -1), ("0", "1")),
        (("a", "b", None), ("a", "b")),
        (("a", "b", " "), ("a", "b")),
        ((0.0, 1.0, float("nan")), ("0", "1")),
        (("x/y", "ü\nß", "😀", "../z"), ("../z", "x/y", "ü\nß", "😀")),
        ((" 1", "1", "2"), ("1", "2")),
        (("pos ", "pos", "neg", "\tneg"), ("neg", "pos")),
        (("pos", "neg", "-1"), ("neg", "pos")),
        (("pos", "neg", " -1.0"), ("neg", "pos")),
    ],
)
@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_labels_are_text_or_numbers_and_rows_without_one_are_dropped(tmp_path, labels, names, ending):
    rows = labelled(*labels)
    if ending == "csv":
        rows = [{**row, "label": "" if str(row["label"]) == "nan" else row["label"]} for row in rows]
    data = load(str(write(tmp_path / f"l.{ending}", rows)), ("text",), "label")
    assert data.labels == names
    left = [row for row in rows if row["label"] == row["label"] and str(row["label"]).strip() not in NO_LABEL]
    assert len(every(data)) == len(left)


def declared(path: Path, names: list[str], rows: list[dict]) -> Path:
    """A Parquet file whose label column names its numbers."""
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=names)})
    path.parent.mkdir(parents=True, exist_ok=True)
    datasets.Dataset.from_list(rows, features=features).to_parquet(path)
    return path


def test_names_of_numbers_come_from_the_file_and_order_the_classes(tmp_path):
    feature = datasets.ClassLabel(names=["five", "4", "1", "none of these"])
    features = datasets.Features({"text": datasets.Value("string"), "label": feature})
    rows = labelled(0, 1, 2, -1)
    table = datasets.Dataset.from_list(rows, features=features)
    table.to_parquet(tmp_path / "c.parquet")
    data = load(str(tmp_path / "c.parquet"), ("text",), "label")
    assert data.labels == tuple(feature.names)
    assert every(data) == {((row["text"],), feature.names[row["label"]]) for row in rows if row["label"] >= 0}


def test_numbers_mean_what_the_file_says_even_where_the_task_orders_its_classes_otherwise(tmp_path):
    names = ["contradiction", "entailment", "neutral"]
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=names)})
    datasets.Dataset.from_list(labelled(0, 1, 2), features=features).to_parquet(tmp_path / "c.parquet")
    fixed = ("entailment", "neutral", "contradiction")
    data = load(str(tmp_path / "c.parquet"), ("text",), "label", labels=fixed)
    assert data.labels == fixed and (("t 0",), "contradiction") in every(data)


def test_the_training_split_names_the_classes_of_which_others_may_have_fewer(tmp_path):
    train = declared(tmp_path / "d" / "train.parquet", ["pos", "neg", "neutral"], labelled(0, 1, 2))
    rows = [{"text": f"test {number}", "label": number % 2} for number in range(20)]
    test = declared(tmp_path / "d" / "test.parquet", ["neg", "pos"], rows)
    for data in (str(tmp_path / "d"), {"train": str(train), "test": str(test)}):
        found = load(data, ("text",), "label")
        assert found.labels == ("pos", "neg", "neutral")
        assert {(each.texts[0], found.labels[each.label]) for each in found.test} == {
            (row["text"], ["neg", "pos"][row["label"]]) for row in rows
        }


@pytest.mark.parametrize(("ending", "labels"), [("csv", (0, 2)), ("jsonl", (0, 2))])
def test_numbers_beside_names_are_classes_of_a_task_that_fixes_them_too(tmp_path, ending, labels):
    """Whatever the order in which the file declares them."""
    fixed, names = ("entailment", "neutral", "contradiction"), ["contradiction", "entailment", "neutral"]
    declared(tmp_path / "d" / "train.parquet", names, labelled(0, 1, 2))
    write(tmp_path / "d" / f"test.{ending}", [{**row, "text": f"test {row['text']}"} for row in labelled(*labels)])
    found = load(str(tmp_path / "d"), ("text",), "label", labels=fixed)
    assert found.labels == fixed
    assert {found.labels[each.label] for each in found.test} == {names[number] for number in labels}


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_names_of_classes_may_be_numbers(tmp_path, ending):
    declared(tmp_path / "d" / "train.parquet", ["1", "2", "3"], labelled(0, 1, 2))
    write(tmp_path / "d" / f"test.{ending}", [{**row, "text": f"test {row['text']}"} for row in labelled(1, 3)])
    found = load(str(tmp_path / "d"), ("text",), "label")
    assert {found.labels[each.label] for each in found.test} == {"1", "3"}


@pytest.mark.parametrize(
    ("ending", "labels"), [("csv", (0, 1)), ("csv", ("1.0", "0")), ("jsonl", (0, 1)), ("json", "01")]
)
def test_numbers_beside_a_file_that_names_them_are_these_classes(tmp_path, ending, labels):
    declared(tmp_path / "d" / "train.parquet", ["pos", "neg", "other"], labelled(0, 1, 2))
    rows = [{**row, "text": f"test {row['text']}"} for row in labelled(*labels)]
    write(tmp_path / "d" / f"test.{ending}", rows)
    found = load(str(tmp_path / "d"), ("text",), "label")
    assert found.labels == ("pos", "neg", "other")
    assert [each.label for each in found.test] == [int(float(row["label"])) for row in rows]
    assert f"labels of test.{ending} are numbers of classes: 0 is pos, 1 is neg, 2 is other" in found.remarks


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ((1, 2), r"test.csv: line 3: label 2 is none of the numbers of pos, neg, 0 to 1$"),
        (("pos", "1"), r"test.csv: line 3: label '1' is not one of pos, neg$"),
        (("0", "0.5"), r"test.csv: line 3: label 0.5 is not a class; expected text or a whole number$"),
    ],
)
def test_labels_that_are_not_the_classes_of_another_file_are_refused(tmp_path, labels, said):
    declared(tmp_path / "d" / "train.parquet", ["pos", "neg"], labelled(0, 1))
    write(tmp_path / "d" / "test.csv", [{**row, "text": f"test {row['text']}"} for row in labelled(*labels)])
    with pytest.raises(TaskError, match=said) as caught:
        load(str(tmp_path / "d"), ("text",), "label")
    assert type(caught.value) is TaskError  # of an unknown label, a task would say which other task to use


def test_one_declared_class_is_too_few(tmp_path):
    declared(tmp_path / "d.parquet", ["only"], labelled(0))
    with pytest.raises(TaskError, match=r"d\.parquet: one class only \('only'\); at least two are needed$"):
        load(str(tmp_path / "d.parquet"), ("text",), "label")


@pytest.mark.parametrize("labels", [(0, 1, 2), ("0", "1", "2"), ("Entailment", "NEUTRAL", " contradiction")])
@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_mnli_numbers_mean_entailment_neutral_contradiction(tmp_path, labels, ending):
    from bench.suites.plugins import load_plugins
    from tasks.contract import TASKS
    from tasks.request import TaskSpec

    load_plugins()
    rows = [{"premise": f"p {n}", "hypothesis": "h", "label": labels[n % 3]} for n in range(150)]
    data = TASKS["mnli"](TaskSpec(task="mnli", data=str(write(tmp_path / f"m.{ending}", rows)))).dataset
    assert data.labels == ("entailment", "neutral", "contradiction")
    assert all(example.label == int(example.texts[0][2:]) % 3 for example in data.train)


@pytest.mark.parametrize(
    "names",
    [
        ("train.jsonl", "validation.jsonl", "test.jsonl"),
        ("sst_train_part.csv", "sst_dev_part.csv", "sst_test.csv"),
        ("train-00000-of-00002.parquet", "train-00001-of-00002.parquet", "val.parquet", "test-00000-of-00001.parquet"),
        ("data/train.jsonl", "data/eval.jsonl", "data/sub/Test.jsonl"),
        ("train/0000.parquet", "train/0001.parquet", "validation/0000.parquet", "test/0000.parquet"),
        ("train1.jsonl", "TrainSet2.jsonl", "dev2.jsonl", "test2016.jsonl"),
        ("training.csv", "mnli_dev_part.csv", "my-testing.v2.csv"),
        ("train/0.csv", "evals/0.csv", "tests/0.csv"),
        ("data-train.csv", "valid_sample.csv", "testset.csv"),
        ("train.csv", "validation_matched.csv", "test_matched.csv"),
    ],
)
def test_files_of_a_folder_are_told_apart_by_name(tmp_path, names):
    folder, expected = tmp_path / "v1.2", {"train": set(), "validation": set(), "test": set()}
    for place, name in enumerate(names):
        rows = [{"text": f"{name} {number}", "label": "ab"[number % 2]} for number in range(20)]
        write(folder / name, rows)
        kind = "test" if place == len(names) - 1 else "validation" if place == len(names) - 2 else "train"
        expected[kind] |= {(row["text"],) for row in rows}
    (folder / "README.md").write_text("# not data")
    data = load(str(folder), ("text",), "label")
    assert data.name == "v1.2"
    assert {split: {e.texts for e in getattr(data, split)} for split in SPLITS} == expected


def test_a_word_that_only_begins_like_a_split_is_none(tmp_path):
    names = ("train", "train_copy", "devices", "testimonials", "evaluators", "trainers", "latest", "validity")
    for name in names:
        write(tmp_path / "d" / f"{name}.jsonl", [{"text": f"{name} {n}", "label": n % 2} for n in range(60)])
    data = load(str(tmp_path / "d"), ("text",), "label")
    assert {texts[0].split()[0] for texts, _ in every(data)} == {"train", "train_copy"}
    assert data.remarks == (
        "train is train.jsonl + train_copy.jsonl",
        "not read, as the name is of no split: "
        "devices.jsonl + evaluators.jsonl + latest.jsonl + testimonials.jsonl and 2 more",
        DIVIDED,
    )


@pytest.mark.parametrize("name", ["test_split_of_train.csv", "train_test.csv", "train-dev/0.csv"])
def test_a_file_named_as_two_splits_is_none_of_them(tmp_path, name):
    for each in ("train.csv", name):
        write(tmp_path / "d" / each, labelled("a", "b"))
    with pytest.raises(TaskError, match=r"its name is that of train and of (validation|test): rename it, or take it"):
        load(str(tmp_path / "d"), ("text",), "label")


def test_what_is_not_data_beside_the_splits_goes_without_saying(tmp_path):
    write(tmp_path / "d" / "train.jsonl", labelled(0, 1))
    for name in ("README.txt", "dataset_infos.json", "notes.md"):
        (tmp_path / "d" / name).write_text("{}")
    assert load(str(tmp_path / "d"), ("text",), "label").remarks == ("train is train.jsonl", DIVIDED)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize(
    ("labels", "remarks"),
    [
        ((0, 1), ()),
        ((0, 1, None), ("40 rows without a label dropped",)),
        ((0, 1, -1), ("40 rows labelled -1, which means no label (remaining: 0, 1), dropped",)),
        (("pos", "-1", "neg"), ("40 rows labelled -1, which means no label (remaining: neg, pos), dropped",)),
        (
            (*range(10), -1, None),
            (
                "10 rows without a label dropped",
                "10 rows labelled -1, which means no label (remaining: 10 classes), dropped",
            ),
        ),
    ],
)
def test_what_was_dropped_is_told_and_kept_under_a_limit(tmp_path, labels, remarks, ending):
    data = load(str(write(tmp_path / f"d.{ending}", labelled(*labels))), ("text",), "label")
    assert data.remarks == (f"read from d.{ending}", *remarks, DIVIDED)
    assert limited(data, 50).remarks == data.remarks
    assert data == replace(data, remarks=("other",)) and data.fingerprint == replace(data, remarks=()).fingerprint
    assert (
        data.sizes == " + ".join(str(len(getattr(data, s))) for s in SPLITS) + " examples (train + validation + test)"
    )


@pytest.mark.parametrize("labels", [(-1, 1), ("-1", "1"), (-1,)])
def test_that_minus_one_is_no_label_is_told_where_too_few_classes_are_left(tmp_path, labels):
    left = 120 // len(labels)
    with pytest.raises(TaskError, match=f"; {left} rows labelled -1, which means no label, dropped$"):
        load(str(write(tmp_path / "m.jsonl", labelled(*labels))), ("text",), "label")
    with pytest.raises(TaskError, match=r"one class only .'1'.; at least two are needed$"):
        load(str(write(tmp_path / "n.jsonl", labelled(1))), ("text",), "label")


def test_of_texts_it_is_told_too(tmp_path):
    for name, size in (("train-0", 30), ("train-1", 30), ("test", 10)):
        write(tmp_path / "d" / f"{name}.jsonl", [{"text": f"{name} {n}"} for n in range(size)] + [{"text": " "}])
    data = load_texts(str(tmp_path / "d"), ("text",))
    assert data.remarks == (
        "train is train-0.jsonl + train-1.jsonl",
        "test is test.jsonl",
        "3 rows without text dropped",
        "no validation split: a tenth of train is used",
    )


def test_a_file_of_which_no_row_can_be_used_is_not_called_a_split(tmp_path):
    for name, labels in (("train", (0, 1)), ("dev", (0, 1)), ("test", (-1,))):
        rows = [{**row, "text": f"{name} {row['text']}"} for row in labelled(*labels)]
        write(tmp_path / "d" / f"{name}.jsonl", rows)
    remarks = load(str(tmp_path / "d"), ("text",), "label").remarks
    assert "validation is dev.jsonl" in remarks and "no test split: validation is used as test" in remarks
    assert not any(remark.startswith("test is") for remark in remarks)


def test_a_label_that_json_leaves_out_is_no_label(tmp_path):
    rows = [*labelled(0, 1), {"text": "a text without a label"}]
    remarks = load(str(write(tmp_path / "d.jsonl", rows)), ("text",), "label").remarks
    assert "1 row without a label dropped" in remarks
    with pytest.raises(TaskError, match="line 1: no column 'label'; it has 'text'"):
        load(str(write(tmp_path / "none.jsonl", [{"text": row["text"]} for row in rows])), ("text",), "label")


def test_a_file_without_a_row_is_no_split_to_do_without(tmp_path):
    write(tmp_path / "d" / "train.jsonl", labelled(0, 1))
    (tmp_path / "d" / "test.csv").write_text("text,label\n")
    with pytest.raises(TaskError, match=r"test\.csv: no row in it$"):
        load(str(tmp_path / "d"), ("text",), "label")


def saved(folder: Path, splits: dict[str, list[dict]] | list[dict]) -> str:
    """What ``save_to_disk`` writes, of a label column with names."""
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])})
    if isinstance(splits, list):
        datasets.Dataset.from_list(splits, features=features).with_format("numpy").save_to_disk(folder)
    else:
        parts = {name: datasets.Dataset.from_list(rows, features=features) for name, rows in splits.items()}
        datasets.DatasetDict(parts).save_to_disk(folder)
    return str(folder)


def test_hidden_files_and_folders_are_no_data(tmp_path):
    """Notebooks keep copies in hidden folders; macOS puts a file of its own beside each on foreign disks."""
    write(tmp_path / "d" / "train.jsonl", ROWS[:60])
    write(tmp_path / "d" / "test.jsonl", ROWS[60:])
    write(tmp_path / "d" / ".ipynb_checkpoints" / "train-checkpoint.jsonl", ROWS[60:])
    (tmp_path / "d" / "._train.jsonl").write_bytes(bytes(range(256)))
    found = load(str(tmp_path / "d"), ("text",), "label")
    assert (len(found.train) + len(found.validation), len(found.test)) == (60, 40)
    assert not any("checkpoint" in remark or "._" in remark for remark in found.remarks)


def test_links_to_folders_are_followed_but_not_round_in_circles(tmp_path):
    write(tmp_path / "elsewhere" / "part.jsonl", ROWS[60:])
    write(tmp_path / "d" / "train" / "0.jsonl", ROWS[:60])
    (tmp_path / "d" / "test").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "d" / "train" / "up").symlink_to(tmp_path / "d")
    (tmp_path / "elsewhere" / "same").symlink_to(tmp_path / "elsewhere")
    found = load(str(tmp_path / "d"), ("text",), "label")
    assert {each.texts[0] for each in found.test} == {row["text"] for row in ROWS[60:]}
    assert (len(found.train) + len(found.validation), len(found.test)) == (60, 40)


def test_a_file_to_which_several_names_lead_is_read_once(tmp_path):
    write(tmp_path / "d" / "v1" / "train.jsonl", ROWS[:60])
    write(tmp_path / "d" / "v1" / "0.jsonl", ROWS[60:])
    (tmp_path / "d" / "latest").symlink_to(tmp_path / "d" / "v1")
    (tmp_path / "d" / "test.jsonl").symlink_to(tmp_path / "d" / "v1" / "0.jsonl")  # the name that says what it is
    for first in range(8):
        (tmp_path / "d" / f"f{first}").mkdir()
        for second in range(8):
            (tmp_path / "d" / f"f{first}" / f"to{second}").symlink_to(tmp_path / "d" / f"f{second}")
    assert data_files(tmp_path / "d") == ["test.jsonl", "v1/train.jsonl"]
    found = load(str(tmp_path / "d"), ("text",), "label")
    assert (len(found.train) + len(found.validation), len(found.test)) == (60, 40)


@pytest.mark.parametrize("name", ["test.jsonl", "test", "tests/part.csv", "test.parquet.gz"])
def test_a_split_that_is_a_link_to_nothing_is_not_done_without(tmp_path, name):
    link = tmp_path / "d" / name
    write(tmp_path / "d" / "train.jsonl", ROWS)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / "gone")
    with pytest.raises(TaskError, match=rf"{name}: a link that leads nowhere, to {tmp_path}/gone: mend it, or take it"):
        load(str(tmp_path / "d"), ("text",), "label")


@pytest.mark.parametrize(
    "name",
    ["test.jsonl.gz", "test.zst", "dev.csv.bz2", "test/part.xz", "test.v1.ZIP", "test.tar.gz", "test.tgz", "test.7z"],
)
def test_a_split_that_is_packed_is_not_done_without(tmp_path, name):
    write(tmp_path / "d" / "train.jsonl", ROWS)
    (tmp_path / "d" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "d" / name).write_bytes(b"packed")
    with pytest.raises(TaskError, match=rf"{name}: packed files are not read: unpack it beside, or take it out of"):
        load(str(tmp_path / "d"), ("text",), "label")


@pytest.mark.parametrize("closed", [".", "test", "test/part.jsonl", "notes"])
def test_what_cannot_be_looked_into_is_one_line_if_it_is_a_split(tmp_path, monkeypatch, closed):
    """As for another user; of a folder that may be listed but not entered, no entry can be looked at."""
    write(tmp_path / "d" / "train.jsonl", ROWS)
    write(tmp_path / "d" / "test" / "part.jsonl", ROWS)
    write(tmp_path / "d" / "notes" / "part.jsonl", ROWS)
    here, listed, looked = tmp_path / "d" / closed, Path.iterdir, Path.is_dir

    def refused(path: Path, then):
        if path == here:
            raise PermissionError(13, "Permission denied", str(path))
        return then(path)

    monkeypatch.setattr(Path, "iterdir", lambda path: refused(path, listed))
    monkeypatch.setattr(Path, "is_dir", lambda path: refused(path, looked) if here.suffix else looked(path))
    if closed == "notes":
        assert data_files(tmp_path / "d") == ["test/part.jsonl", "train.jsonl"]
    else:
        with pytest.raises(TaskError, match=f"{here}: cannot be read: Permission denied"):
            data_files(tmp_path / "d")


@pytest.mark.parametrize("name", ["test.xlsx", "dev.Arrow"])
def test_a_split_in_another_form_is_not_done_without(tmp_path, name):
    write(tmp_path / "d" / "train.jsonl", ROWS)
    (tmp_path / "d" / name).write_bytes(b"table")
    with pytest.raises(TaskError, match=rf"{name}: such files are not read: save it as .*csv.*, or take it out of the"):
        load(str(tmp_path / "d"), ("text",), "label")
    write(tmp_path / "d" / f"{name.partition('.')[0]}.csv", [{**row, "text": f"new {row['text']}"} for row in ROWS])
    assert load(str(tmp_path / "d"), ("text",), "label")


def test_what_is_packed_beside_its_contents_or_is_no_split_goes_without_saying(tmp_path):
    write(tmp_path / "d" / "train.jsonl", ROWS[:60])
    write(tmp_path / "d" / "test" / "part.jsonl", ROWS[60:])
    for name in ("raw", "eval", "test/images"):
        (tmp_path / "d" / name).mkdir()
    packed = ("train.jsonl.gz", "train.zip", "test.tar.gz", "source.zip", ".test.zip", "raw/train.jsonl.gz")
    for name in (*packed, "eval/model.zip", "test/images.zip"):
        (tmp_path / "d" / name).write_bytes(b"packed")
    (tmp_path / "d" / "notes").symlink_to(tmp_path / "gone")
    (tmp_path / "d" / "test.md").symlink_to(tmp_path / "gone")
    found = load(str(tmp_path / "d"), ("text",), "label")
    assert (len(found.train) + len(found.validation), len(found.test)) == (60, 40)


def test_what_save_to_disk_wrote_is_read_like_files(tmp_path):
    rows = labelled(0, 1, -1)
    one = load(saved(tmp_path / "one", rows), ("text",), "label")
    assert one.name == "one" and one.labels == ("no", "yes")
    assert one.remarks[1:] == (DIVIDED,) and "40 rows labelled -1" in one.remarks[0]
    assert every(one) == {((row["text"],), ["no", "yes"][row["label"]]) for row in rows if row["label"] >= 0}
    parts = {"train": rows[:60], "validation": rows[60:80], "test": rows[80:], "extra": rows[:3]}
    several = load(saved(tmp_path / "several", parts), ("text",), "label")
    assert [len(getattr(several, split)) for split in SPLITS] == [40, 14, 26]
    assert several.remarks[0] == "not read, as the name is of no split: extra"
    assert len(load_texts(str(tmp_path / "several"), ("text",)).train) == 60


def test_a_saved_data_set_that_is_not_whole_is_refused(tmp_path):
    place = saved(tmp_path / "d", {"train": labelled(0, 1), "test": labelled(0, 1)})
    arrow = tmp_path / "d" / "train" / "data-00000-of-00001.arrow"
    whole = arrow.read_bytes()
    for break_it in (lambda: arrow.write_bytes(whole[: len(whole) // 2]), arrow.unlink):
        break_it()
        with pytest.raises(TaskError, match=rf"^{place}: not a complete folder of save_to_disk of datasets; "):
            load(place, ("text",), "label")


def test_splits_of_other_names_are_told(tmp_path):
    place = saved(tmp_path / "d", {"left": labelled(0, 1), "right": labelled(0, 1)})
    with pytest.raises(TaskError, match=r"no split here is named train, validation \(dev\) or test; found: left \+ r"):
        load(place, ("text",), "label")


@pytest.mark.parametrize("before", ["\n", "\ufeff\r\n  \n"])
def test_an_array_may_follow_blank_lines(tmp_path, before):
    (tmp_path / "d.json").write_text(before + json.dumps(ROWS, indent=2), encoding="utf-8")
    assert len(every(load(str(tmp_path / "d.json"), ("text",), "label"))) == len(ROWS)


def test_texts_that_stand_in_a_later_split_leave_the_earlier_one(tmp_path):
    rows = labelled("a", "b")
    for name, part in {"train": rows, "dev": rows[:30], "test": rows[20:40]}.items():
        write(tmp_path / "d" / f"{name}.jsonl", part)
    data = load(str(tmp_path / "d"), ("text",), "label")
    assert [len(getattr(data, split)) for split in SPLITS] == [80, 20, 20]
    assert data.remarks[-2:] == (
        "10 rows of validation dropped: in a later split too",
        "40 rows of train dropped: in a later split too",
    )


def test_a_validation_split_that_becomes_the_test_split_is_told(tmp_path):
    write(tmp_path / "d" / "train.jsonl", labelled("a", "b"))
    write(tmp_path / "d" / "dev.jsonl", [{"text": f"d {n}", "label": "ab"[n % 2]} for n in range(9)])
    data = load(str(tmp_path / "d"), ("text",), "label")
    assert len(data.test) == 9 and {example.texts[0][0] for example in data.validation} == {"t"}
    assert data.remarks == (
        "train is train.jsonl",
        "validation is dev.jsonl",
        "no test split: validation is used as test",
        "no validation split: a tenth of train is used",
    )


def test_a_file_for_each_split_is_read_as_a_folder_of_them_is(tmp_path):
    parts = {
        "train": labelled("a", "b")[:80],
        "validation": labelled("a", "b")[70:100],
        "test": labelled("b", "a")[90:],
    }
    files = {split: str(write(tmp_path / "x" / f"{split}.jsonl", rows)) for split, rows in parts.items()}
    for given in (("train", "validation", "test"), ("train", "test"), ("train",)):
        folder = tmp_path / "+".join(given)
        for split in given:
            write(folder / f"{split}.jsonl", parts[split])
        whole = load(str(folder), ("text",), "label")
        data = load({split: files[split] for split in given}, ("text",), "label")
        assert data == replace(whole, name="+".join(given)) and data.remarks == whole.remarks
        texts = load_texts({split: files[split] for split in given}, ("text",))
        assert texts == replace(load_texts(str(folder), ("text",)), name="+".join(given))


def test_texts_for_methods_alone_need_no_other_split(tmp_path):
    rows = [{"text": f"t {number}"} for number in range(2)]
    place = write(tmp_path / "few.jsonl", rows)
    with pytest.raises(TaskError, match="split is empty"):
        load_texts(str(place), ("text",))
    data = load_texts(str(place), ("text",), only_train=True)
    assert [example.texts[0] for example in data.train] == ["t 0", "t 1"]
    assert data.validation == data.test == () and data.remarks == ("read from few.jsonl",)
    for name, part in {"train": rows, "test": rows[:1]}.items():
        write(tmp_path / "d" / f"{name}.jsonl", part)
    both = load_texts(str(tmp_path / "d"), ("text",), only_train=True)
    assert [len(getattr(both, split)) for split in SPLITS] == [1, 0, 1]  # what could be tested on stays apart


def test_pairs_and_odd_column_names_are_read(tmp_path):
    rows = [{"ä/x, y": f"p {number}", "b\nc": "h", "<?>": number % 2} for number in range(60)]
    for ending in ("jsonl", "csv", "parquet"):
        data = load(str(write(tmp_path / f"p.{ending}", rows)), ("ä/x, y", "b\nc"), "<?>")
        assert all(len(example.texts) == 2 for example in data.train)


@pytest.mark.parametrize("place", ["org/name", "org--name", "name"])
def test_an_id_is_found_in_a_mirror_however_that_lays_it_out(tmp_path, place):
    write(tmp_path / place / "train.jsonl", labelled("a", "b"))
    data = load("org/name", ("text",), "label", mirror=str(tmp_path))
    assert data.name == "name" and len(every(data)) == 120


def test_a_configuration_is_a_folder_of_the_copy(tmp_path):
    write(tmp_path / "org" / "glue" / "sst2" / "train-00000-of-00001.parquet", labelled("a", "b"))
    write(tmp_path / "org" / "glue" / "cola" / "train-00000-of-00001.parquet", labelled("x", "y"))
    assert load("org/glue:cola", ("text",), "label", mirror=str(tmp_path)).labels == ("x", "y")


def test_a_copy_of_several_configurations_is_not_read_as_one(tmp_path):
    for name in ("en/train.jsonl", "de/train/0.jsonl", "de/test/0.jsonl"):
        write(tmp_path / "org" / "multi" / name, [{"text": f"{name} {n}", "label": n % 2} for n in range(60)])
    with pytest.raises(TaskError, match=r"several configurations \(de, en\): name one, as in org/multi:de"):
        load("org/multi", ("text",), "label", mirror=str(tmp_path))
    data = load("org/multi:de", ("text",), "label", mirror=str(tmp_path))
    assert {texts[0][:2] for texts, _ in every(data)} == {"de"}
    assert len(every(load(str(tmp_path / "org" / "multi"), ("text",), "label"))) == 180  # a folder of one's own


def test_what_is_there_goes_before_the_mirror_and_a_mirror_must_be_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "name").mkdir()
    assert resolve("name", "nowhere") == Path("name")
    with pytest.raises(TaskError, match=r"mirror nowhere \(--mirror or HEADBENCH_MIRROR\): no such folder"):
        resolve("other", "nowhere")


def test_a_path_that_is_not_there_is_not_looked_for_in_the_mirror(tmp_path):
    file = write(tmp_path / "train.jsonl", labelled("a", "b"))
    for path in ("/no/such/train.jsonl", "./typo/train.jsonl"):
        with pytest.raises(TaskError, match=f"{path}: no such file or folder"):
            load(path, ("text",), "label", mirror=str(tmp_path))
    with pytest.raises(TaskError, match=r"--train typo/train\.jsonl: no such file"):
        load({"train": "typo/train.jsonl", "test": str(file)}, ("text",), "label", mirror=str(tmp_path))


def test_the_name_of_a_source_does_not_depend_on_where_it_lies(tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    assert [short_name(asked) for asked in ("org/name", "/a/b.d/", "x.jsonl")] == ["name", "b.d", "x.jsonl"]
    assert short_name(".") == "inner" and short_name("..") == tmp_path.name


def test_a_hub_data_set_gives_its_splits_and_the_names_of_its_label_column(monkeypatch):
    names = {"topic": datasets.ClassLabel(names=["x"]), "label": datasets.ClassLabel(names=["a", "b"])}
    features = datasets.Features({"text": datasets.Value("string"), **names})
    rows = datasets.Dataset.from_list([row | {"topic": 0} for row in labelled(0, 1)], features=features)
    parts = {"train": rows, "validation_matched": rows.select(range(9)), "unsupervised": rows}
    streamed = {name: part.to_iterable_dataset() for name, part in parts.items()}
    asked = []
    monkeypatch.setattr(datasets, "load_dataset", lambda *names, **how: asked.append((names, how)) or streamed)
    data = load("org/name", ("text",), "label")
    assert asked == [(("org/name", None), {"streaming": True, "trust_remote_code": False})]
    assert data.name == "name" and data.labels == ("a", "b") and len(data.test) == 9


@pytest.mark.parametrize("kind", [datasets.Image, datasets.Audio])
def test_a_column_that_is_not_used_is_not_decoded(tmp_path, monkeypatch, kind):
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.Value("int64")})
    rows = datasets.Dataset.from_list(labelled(0, 1), features=features)
    broken = pyarrow.array([{"bytes": b"broken", "path": None}] * len(rows), kind().pa_type)
    table = rows.data.table.append_column("scene", broken)
    rows = datasets.Dataset(table, info=datasets.DatasetInfo(features=datasets.Features(features | {"scene": kind()})))
    rows.save_to_disk(tmp_path / "d")
    monkeypatch.setattr(datasets, "load_dataset", lambda *names, **how: {"train": rows.to_iterable_dataset()})
    for place in (str(tmp_path / "d"), "org/name"):
        assert len(every(load(place, ("text",), "label"))) == len(rows)
        assert len(load_texts(place, ("text",), only_train=True).train) == len(rows)
        with pytest.raises(TaskError):
            load(place, ("scene",), "label")


def test_rows_that_a_missing_package_must_decode_are_one_line(monkeypatch):
    def rows():
        yield {"text": "a", "label": 0}
        raise ImportError("To support decoding audio data, please install 'torchcodec'.")

    streamed = {"train": datasets.IterableDataset.from_generator(rows)}
    monkeypatch.setattr(datasets, "load_dataset", lambda *names, **how: streamed)
    with pytest.raises(TaskError, match=r"^org/name \(train\): .*please install 'torchcodec'\.$"):
        load("org/name", ("text",), "label")


def test_a_split_of_the_hub_without_a_row_is_told_like_a_file_without_one(monkeypatch):
    splits = {"train": labelled(0, 1), "test": []}
    streamed = {name: datasets.IterableDataset.from_generator(lambda rows=rows: rows) for name, rows in splits.items()}
    monkeypatch.setattr(datasets, "load_dataset", lambda *names, **how: streamed)
    with pytest.raises(TaskError, match=r"^some/data \(test\): no row in it$"):
        load("some/data", ("text",), "label")


def pairs(count: int = 40) -> list[dict]:
    return [{"de": f"Satz {number}", "en": f"sentence {number}", "id": number} for number in range(count)]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_pairs_are_read_from_two_columns_or_from_one_by_language(tmp_path, ending):
    flat = load_pairs(str(write(tmp_path / f"flat.{ending}", pairs())), ("de", "en"))
    assert {example.texts for split in SPLITS for example in getattr(flat, split)} == {
        (row["de"], row["en"]) for row in pairs()
    }
    if ending != "csv":
        nested = [{"id": row["id"], "translation": {"de": row["de"], "en": row["en"]}} for row in pairs()]
        found = load_pairs(str(write(tmp_path / f"nested.{ending}", nested)), ("de", "en"))
        assert [getattr(found, split) for split in SPLITS] == [getattr(flat, split) for split in SPLITS]
        turned = load_pairs(str(tmp_path / f"nested.{ending}"), ("en", "de"))
        assert all(example.texts[0].startswith("sentence") for example in turned.train)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_pair_that_is_missing_is_told_as_such(tmp_path, ending):
    rows = [{"translation": {"de": row["de"], "en": row["en"]}} for row in pairs()]
    data = write(tmp_path / f"d.{ending}", [*rows[:20], {"translation": None}, *rows[20:]])
    with pytest.raises(TaskError, match=rf"d\.{ending}: (line|row) 21: column 'translation' is empty$"):
        load_pairs(str(data), ("de", "en"))


def test_pairs_of_datasets_on_disk(tmp_path):
    nested = [{"translation": {"de": row["de"], "en": row["en"]}} for row in pairs()]
    datasets.DatasetDict({"train": datasets.Dataset.from_list(nested)}).save_to_disk(tmp_path / "saved")
    data = load_pairs(str(tmp_path / "saved"), ("de", "en"))
    assert sum(len(getattr(data, split)) for split in SPLITS) == 40


def test_a_source_of_a_later_split_is_dropped_whatever_its_translation(tmp_path):
    rows = pairs()
    other = [{**row, "en": "another translation"} for row in rows[:3]]
    write(tmp_path / "data" / "train.jsonl", [*rows[5:], *other])
    write(tmp_path / "data" / "validation.jsonl", [*rows[3:5], *other[:1]])
    write(tmp_path / "data" / "test.jsonl", rows[:3])
    data = load_pairs(str(tmp_path / "data"), ("de", "en"))
    assert [len(getattr(data, split)) for split in SPLITS] == [35, 2, 3]
    assert "2 more of train dropped: with the first text of a later split" in data.remarks
    assert "1 more of validation dropped: with the first text of a later split" in data.remarks


@pytest.mark.parametrize("odd", ["1e-05", "+0.53", ".53", "0,53", "5.3E+1"])
def test_numbers_that_are_no_classes_are_refused_however_they_are_written(tmp_path, odd):
    rows = labelled("0.5", "1", odd, "2") if odd != "5.3E+1" else labelled("0.5", "1e1", odd)
    with pytest.raises(TaskError, match=r"line [0-9]+: label '.*' is not a class; expected text or a whole number"):
        load(str(write(tmp_path / "data.csv", rows)), ("text",), "label")


def test_numbers_that_are_names_stay_names(tmp_path):
    data = load(str(write(tmp_path / "data.csv", labelled("007", "1e2"))), ("text",), "label")
    assert data.labels == ("007", "1e2")


def test_as_many_labels_as_rows_are_no_classes(tmp_path):
    rows = [{"text": f"t {number}", "label": f"text {number}"} for number in range(100)]
    with pytest.raises(TaskError, match="100 different labels in 100 rows: are they classes"):
        load(str(write(tmp_path / "data.jsonl", rows)), ("text",), "label")


def test_tabs_separate_fields_without_quotes(tmp_path):
    path = tmp_path / "data.tsv"
    lines = [f'"text, {number}\t{["no", "yes"][number % 2]}\n' for number in range(100)]
    path.write_text("text\tlabel\n" + "".join(lines), encoding="utf-8")
    data = load(str(path), ("text",), "label")
    assert every(data) == {((f'"text, {number}',), ["no", "yes"][number % 2]) for number in range(100)}
    path.write_text("text\tlabel\n" + "".join(lines) + "a\tb\tc\n", encoding="utf-8")
    with pytest.raises(TaskError, match=r"line 102: 3 fields, the header has 2; no field may contain a tab"):
        load(str(path), ("text",), "label")


@pytest.mark.parametrize(("sign", "name"), [(";", "semicolons"), ("\t", "tabs")])
def test_other_separators_are_named(tmp_path, sign, name):
    (tmp_path / "data.csv").write_text(f"text{sign}label\na{sign}b\n")
    with pytest.raises(TaskError, match=f"line 1: fields are separated by {name}: save it with commas, or with tabs"):
        load(str(tmp_path / "data.csv"), ("text",), "label")


def test_a_dash_is_no_label_where_classes_are_fixed(tmp_path):
    path = str(write(tmp_path / "data.jsonl", labelled("no", "yes", "-")))
    data = load(path, ("text",), "label", labels=("no", "yes"))
    assert "40 rows without a label dropped" in data.remarks
    assert load(path, ("text",), "label").labels == ("-", "no", "yes")
