"""Classifiers from a folder: with a trained head, or with one to be trained on the labels of the data."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import (
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from tasks.data.encode import padding_id
from tasks.data.splits import index_of
from tasks.errors import TaskError
from tasks.models import checkpoint
from tasks.seeds import drawn_from

if TYPE_CHECKING:  # slow to import
    from transformers import PreTrainedModel

TRUTH = {"false": "0", "true": "1"}
TYPES = "token_type_ids"
MULTI_LABEL = "multi_label_classification"  # as transformers calls a model that decides about each label by itself
UNNAMED = re.compile(r"LABEL_[0-9]+")  # a class that nobody named


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """``checkpoint.load_tokenizer``; one without a padding token pads with that of the model's configuration.

    One that leaves token types out, though the model has them, gives them.
    """
    tokenizer, config = checkpoint.load_tokenizer(folder), checkpoint.load_config(folder)
    stated = config.get_text_config().pad_token_id
    if tokenizer.pad_token_id is None and stated in range(len(tokenizer)):
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(stated)
    if leaves_types_out(tokenizer, config):
        given = [*tokenizer.model_input_names, TYPES]
        tokenizer.model_input_names = tokenizer.init_kwargs["model_input_names"] = given
    return tokenizer


def leaves_types_out(tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig) -> bool:
    """Whether the model of ``config`` tells the texts of a pair apart by token types that ``tokenizer`` does not give.

    Those of ALBERT are like that in transformers 5: they mark the second text, but only if they are asked to, whereas
    ALBERTs were trained with these marks. Models without such an input are not asked, nor is a tokenizer of no family:
    its model may have been trained without.
    """
    if type(tokenizer) is PreTrainedTokenizerFast:
        return False
    if TYPES in tokenizer.model_input_names or getattr(config, "type_vocab_size", 0) < 2:
        return False
    if not any(tokenizer("a", "a", return_token_type_ids=True)[TYPES]):
        return False
    model = checkpoint.skeleton(config, config.model_type)
    return TYPES in inspect.signature(model.forward).parameters


def pads_otherwise(folder: Path) -> bool:
    """Whether ``find_padding`` gives the model in ``folder`` another token for padding than its configuration names."""
    config = checkpoint.load_config(folder)
    if config.model_type in checkpoint.COUNT_FROM_PADDING:
        return False
    return config.get_text_config().pad_token_id != checkpoint.load_tokenizer(folder).pad_token_id


def load_classifier(folder: Path, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """Classifier in ``folder`` that reads what ``tokenizer`` gives.

    Raises TaskError if a part of it has no trained weights.
    """
    model, untrained = checkpoint.read(folder, AutoModelForSequenceClassification)
    if untrained:
        raise TaskError(
            f"{folder}: no trained weights for {', '.join(untrained[:3])}: add --finetune to train them on your data"
        )
    find_padding(model, tokenizer)
    return model


def load_for_training(
    folder: Path, labels: Sequence[str], tokenizer: PreTrainedTokenizerBase, seed: int
) -> PreTrainedModel:
    """Model in ``folder`` with a head for ``labels``; a head or pooler without weights is initialized from ``seed``.

    A classifier of the same classes keeps its own order of them, in which its head was trained (``class_indices``).
    """
    ordered = other_order(checkpoint.load_config(folder), labels) or labels
    names: dict[str, Any] = {
        "id2label": dict(enumerate(ordered)),
        "label2id": {label: index for index, label in enumerate(ordered)},
        "problem_type": None,  # one of these classes, whatever the head was before
    }
    with drawn_from(seed):
        model, _ = checkpoint.read(folder, AutoModelForSequenceClassification, num_labels=len(labels), **names)
    find_padding(model, tokenizer)
    return model


def class_indices(
    config: PreTrainedConfig, labels: Sequence[str], name: str, occurring: Collection[int] | None = None
) -> list[int]:
    """Index of the model's class for each of the data's ``labels``: by name, or as ``are_numbers`` says.

    occurring: numbers of the labels that some text has (default: all). Of the others, which a data set may declare, one
    that is not a class of the model has -1.

    Raises TaskError for a label that occurs and is not a class of the model.
    """
    names, sought = class_names(config), list(labels)
    if len(names) == 1:
        raise TaskError(f"{name}: the model has one output, a number, and no classes: add --finetune")
    if config.problem_type == MULTI_LABEL:
        raise TaskError(
            f"{name}: the model gives a text any number of its labels, where one is expected: add --finetune"
        )
    if are_numbers(config, labels):
        names, sought = [str(index) for index in range(len(names))], [TRUTH.get(each.lower(), each) for each in labels]
    indices = [index_of(label, names) for label in sought]
    missing = [
        label
        for number, label in enumerate(labels)
        if indices[number] is None and (occurring is None or number in occurring)
    ]
    if missing:
        advice = "rename the labels of the data"
        if all(UNNAMED.fullmatch(each) for each in class_names(config)):
            advice = "name the model's classes in id2label of its config.json"
        raise TaskError(
            f"{name}: the model has no label {', '.join(map(repr, missing[:3]))}; available: {', '.join(names)}; "
            f"{advice}, or add --finetune"
        )
    return [-1 if index is None else index for index in indices]


def other_order(config: PreTrainedConfig, labels: Sequence[str]) -> list[str]:
    """The model's classes, if they are those of ``labels`` in another order; empty otherwise."""
    names = class_names(config)
    places = [index_of(label, names) for label in labels]
    numbers = list(range(len(names)))
    return names if set(places) == set(numbers) and len(places) == len(numbers) and places != numbers else []


def class_names(config: PreTrainedConfig) -> list[str]:
    """Names of the model's classes, by their numbers."""
    return [str(name) for _, name in sorted((config.id2label or {}).items())]


def are_numbers(config: PreTrainedConfig, labels: Sequence[str]) -> bool:
    """Whether ``labels`` are numbers of the model's classes and no names of them; for two, False is 0 and True 1."""
    names = class_names(config)
    truth = TRUTH if len(names) == 2 else {}
    return all((each.isdigit() or each.lower() in truth) and index_of(each, names) is None for each in labels)


def find_padding(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Let ``model`` take for padding what ``tokenizer`` pads with.

    A decoder reads the class at the last token that is not padding, which it knows by an id of its configuration. Where
    that is another one, or missing, as in many checkpoints, it would read the class at padding, or fail. Models whose
    positions count from the token of their configuration keep it: with another they would be other models once saved.
    """
    if model.config.model_type in checkpoint.COUNT_FROM_PADDING:
        return
    model.config.get_text_config().pad_token_id = padding_id(tokenizer)
