"""Which class of a model each label of the data means."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from transformers import PreTrainedConfig

from tasks.data.dataset import SPLITS, Dataset, relabelled
from tasks.data.splits import index_of
from tasks.errors import TaskError

TRUTH = {"false": "0", "true": "1"}
MULTI_LABEL = "multi_label_classification"  # as transformers calls a model that decides about each label by itself
UNNAMED = re.compile(r"LABEL_[0-9]+")  # a class that nobody named


def class_indices(
    config: PreTrainedConfig, labels: Sequence[str], name: str, occurring: Collection[int] | None = None
) -> list[int]:
    """Index of the model's class for each of the data's ``labels``: by name, or as ``are_numbers`` says.

    occurring: numbers of the labels that some text has (default: all). Of the others, which a data set may declare, one
    that is not a class of the model has -1.

    Raises TaskError for a label that occurs and is not a class of the model, and for classes that have one name.
    """
    names = class_names(config)
    if len(names) == 1:
        raise TaskError(f"{name}: the model has one output, a number, and no classes: add --finetune")
    if config.problem_type == MULTI_LABEL:
        raise TaskError(
            f"{name}: the model gives a text any number of its labels, where one is expected: add --finetune"
        )
    if not are_numbers(config, labels) and (several := [each for each in names if names.count(each) > 1]):
        raise TaskError(
            f"{name}: several classes of the model are called {several[0]!r}: give each its own name in id2label of "
            "its config.json, or add --finetune"
        )
    indices = _places(config, labels)
    missing = [
        label
        for number, label in enumerate(labels)
        if indices[number] is None and (occurring is None or number in occurring)
    ]
    if missing:
        advice = "rename the labels of the data"
        if all(UNNAMED.fullmatch(each) for each in names):
            advice = "name the model's classes in id2label of its config.json"
        if are_numbers(config, labels):
            names = [f"{number} ({each})" for number, each in enumerate(names)]
        raise TaskError(
            f"{name}: the model has no label {', '.join(map(repr, missing[:3]))}; available: {', '.join(names)}; "
            f"{advice}, or add --finetune"
        )
    return [-1 if index is None else index for index in indices]


def _places(config: PreTrainedConfig, labels: Sequence[str]) -> list[int | None]:
    """Index of the model's class for each of ``labels``, None for those that it does not have."""
    names, sought = class_names(config), list(labels)
    if are_numbers(config, labels):
        names, sought = [str(index) for index in range(len(names))], [TRUTH.get(each.lower(), each) for each in labels]
    return [index_of(label, names) for label in sought]


def one_label_per_class(data: Dataset, config: PreTrainedConfig) -> Dataset:
    """``data`` in which labels that mean the same class of the model, such as ``NEG`` and ``neg``, are one label."""
    places = _places(config, data.labels)
    keys = [label if place is None else place for label, place in zip(data.labels, places, strict=True)]
    first = {key: data.labels[keys.index(key)] for key in keys}
    if len(first) == len(keys):
        return data
    numbers = [list(first).index(key) for key in keys]
    alike = [
        " and ".join(repr(label) for label, own in zip(data.labels, keys, strict=True) if own == key)
        for key in first
        if keys.count(key) > 1
    ]
    splits: dict[str, Any] = {split: relabelled(getattr(data, split), numbers) for split in SPLITS}
    remark = f"labels that are one class of the model: {', '.join(alike)}"
    return replace(data, labels=tuple(first.values()), remarks=(*data.remarks, remark), **splits)


def other_order(config: PreTrainedConfig, labels: Sequence[str]) -> list[str]:
    """The model's classes, if they are those of ``labels`` in another order; empty otherwise."""
    names = class_names(config)
    places = [index_of(label, names) for label in labels]
    numbers = list(range(len(names)))
    return names if set(places) == set(numbers) and len(places) == len(numbers) and places != numbers else []


def class_names(config: PreTrainedConfig) -> list[str]:
    """Names of the model's classes, by their numbers."""
    return [str(name).strip() for _, name in sorted((config.id2label or {}).items())]


def are_numbers(config: PreTrainedConfig, labels: Sequence[str]) -> bool:
    """Whether ``labels`` are numbers of the model's classes and no names of them; for two, False is 0 and True 1."""
    names = class_names(config)
    truth = TRUTH if len(names) == 2 else {}
    return all((each.isdigit() or each.lower() in truth) and index_of(each, names) is None for each in labels)
