"""Which class of a model each label means: by name, by number, and where several labels mean one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig

from bench.suites.plugins import load_plugins
from tasks.contract import TASKS
from tasks.data.dataset import Dataset, Example
from tasks.errors import TaskError
from tasks.models import classes
from tasks.request import TaskSpec

NLI = ("entailment", "neutral", "contradiction")


@pytest.mark.parametrize(
    ("names", "labels", "places"),
    [
        (("negative", "positive"), ("positive", "negative"), [1, 0]),
        (("NEGATIVE", "Positive"), ("negative", "positive"), [0, 1]),
        (("negative", "neutral", "positive"), ("negative", "positive"), [0, 2]),
        (("LABEL_0", "LABEL_1"), ("0", "1"), [0, 1]),
        (("1", "0"), ("0", "1"), [1, 0]),
        (("LABEL_0", "LABEL_1"), ("False", "True"), [0, 1]),
        (("TRUE", "FALSE"), ("False", "True"), [1, 0]),
        (("A", "a"), ("a", "A"), [1, 0]),
    ],
)
def test_labels_of_the_data_find_their_class_by_name_or_else_by_number(names, labels, places):
    config = BertConfig(id2label=dict(enumerate(names)), label2id={name: n for n, name in enumerate(names)})
    assert classes.class_indices(config, labels, "model") == places


@pytest.mark.parametrize("labels", [("good", "bad"), ("0", "2"), ("negative", "1"), ("False", "positive")])
def test_a_label_without_a_class_is_refused(labels):
    config = BertConfig(id2label={0: "negative", 1: "positive"}, label2id={"negative": 0, "positive": 1})
    with pytest.raises(
        TaskError, match=r"model: the model has no label .*; available: .*; rename the labels of the data"
    ):
        classes.class_indices(config, labels, "model")


def test_truth_values_are_not_two_of_three_classes():
    config = BertConfig(id2label=dict(enumerate("abc")), label2id={name: number for number, name in enumerate("abc")})
    with pytest.raises(TaskError, match="the model has no label 'False', 'True'; available: a, b, c; "):
        classes.class_indices(config, ("False", "True"), "model")


def test_classes_that_no_text_has_need_not_be_the_models():
    config = BertConfig(id2label={0: "no", 1: "yes"}, label2id={"no": 0, "yes": 1})
    labels = ("yes", "unused", "no")
    assert classes.class_indices(config, labels, "model", {0, 2}) == [1, -1, 0]
    with pytest.raises(TaskError, match="no label 'unused'"):
        classes.class_indices(config, labels, "model", {0, 1, 2})


def test_models_whose_classes_have_no_names_are_told_from_others():
    with pytest.raises(TaskError, match="name the model's classes in id2label of its config"):
        classes.class_indices(BertConfig(num_labels=3), NLI, "model")
    with pytest.raises(TaskError, match="one output, a number, and no classes"):
        classes.class_indices(BertConfig(num_labels=1), ("0", "1"), "model")


def named(*names):
    return BertConfig(id2label=dict(enumerate(names)), label2id={name: number for number, name in enumerate(names)})


def test_labels_that_count_from_one_are_told_the_numbers_of_the_classes():
    with pytest.raises(TaskError, match=r"no label '3'; available: 0 \(bad\), 1 \(fair\), 2 \(good\); "):
        classes.class_indices(named("bad", "fair", "good"), ("1", "2", "3"), "model")


@given(
    st.lists(st.tuples(st.sampled_from(["neg", "NEG", "Neg", "pos", "POS", "other"]), st.integers(0, 9)), min_size=1)
)
def test_labels_of_one_class_are_one_label(rows):
    """As if they had been written alike; labels that the model does not have stay apart."""
    written = tuple(sorted({label for label, _ in rows}))
    examples = tuple(Example((str(text),), written.index(label)) for label, text in rows)
    merged = classes.one_label_per_class(Dataset("rows", written, examples, examples, examples), named("pos", "neg"))
    alike = tuple(sorted({label.lower() for label, _ in rows}))
    same = tuple(Example((str(text),), alike.index(label.lower())) for label, text in rows)
    assert merged.majority_accuracy == Dataset("rows", alike, same, same, same).majority_accuracy
    for split in (merged.train, merged.validation, merged.test):
        assert [(one.texts, merged.labels[one.label].lower()) for one in split] == [
            ((str(text),), label.lower()) for label, text in rows
        ]
    assert len(merged.labels) == len(alike) and bool(merged.remarks) == (len(alike) < len(written))


def task_on(tiny_model, folder, labels, **more):
    rows = [{"text": f"film {number}", "label": labels[number % len(labels)]} for number in range(99)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    load_plugins()
    return TASKS["classification"](
        TaskSpec(task="classification", data=str(folder / "rows.jsonl"), model=str(tiny_model), **more)
    )


def test_chance_counts_classes_and_not_ways_to_write_them(tiny_model, tmp_path):
    task = task_on(tiny_model, tmp_path, ("POSITIVE", "positive", "negative"))
    positive = [int(one.texts[0].split()[1]) % 3 < 2 for one in task.dataset.test]
    assert task.guessing_quality == sum(positive) / len(positive) > 0.5
    assert "labels that are one class of the model: 'POSITIVE' and 'positive'" in task.own_data.remarks
    trained = task_on(tiny_model, tmp_path, ("POSITIVE", "positive", "negative"), finetune=True)
    assert trained.dataset.labels == ("POSITIVE", "negative", "positive")


def test_texts_of_one_class_of_the_model_are_refused_however_it_is_written(tiny_model, tmp_path):
    with pytest.raises(TaskError, match=r"rows.jsonl: the train split has one class only \('Positive'\)"):
        task_on(tiny_model, tmp_path, ("Positive", "positive")).validate()


def test_classes_of_one_name_are_refused_and_spaces_around_names_ignored():
    with pytest.raises(TaskError, match="several classes of the model are called 'bad': give each its own name"):
        classes.class_indices(named("bad", "bad ", "good"), ("bad", "good"), "model")
    assert classes.class_indices(named("bad", "bad", "good"), ("0", "1", "2"), "model") == [0, 1, 2]
    assert classes.class_indices(named(" bad", "good "), ("good", "bad"), "model") == [1, 0]
