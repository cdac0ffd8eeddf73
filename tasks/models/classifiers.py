"""Classifiers from a folder: with a trained head, or with one to be trained on the labels of the data."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import (
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from tasks.data.encode import padding_id
from tasks.errors import TaskError
from tasks.models import checkpoint
from tasks.models.classes import other_order
from tasks.seeds import drawn_from

if TYPE_CHECKING:  # slow to import
    from transformers import PreTrainedModel

TYPES = "token_type_ids"


def load_tokenizer(folder: Path, *, trains: bool = False) -> PreTrainedTokenizerBase:
    """``checkpoint.load_tokenizer``, which pads texts so that the model reads its class where it would without padding.

    One that leaves token types out, which the model was trained with or, with ``trains``, will be, gives them.
    """
    tokenizer, config = checkpoint.load_tokenizer(folder), checkpoint.load_config(folder)
    if (padding := padding_for(tokenizer, config)) is not None:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(padding)
    if leaves_types_out(tokenizer, config) and (trains or trained_with_types(config)):
        given = [*tokenizer.model_input_names, TYPES]
        tokenizer.model_input_names = tokenizer.init_kwargs["model_input_names"] = given
    return tokenizer


def leaves_types_out(tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig) -> bool:
    """Whether the model of ``config`` tells the texts of a pair apart by token types that ``tokenizer`` does not give.

    Those of ALBERT are like that in transformers 5: they mark the second text, but only if they are asked to. Models
    without such an input are not asked, nor is a tokenizer of no family, or one whose files name its outputs.
    """
    if type(tokenizer) is PreTrainedTokenizerFast or "model_input_names" in tokenizer.init_kwargs:
        return False
    if TYPES in tokenizer.model_input_names or getattr(config, "type_vocab_size", 0) < 2:
        return False
    if not any(tokenizer("a", "a", return_token_type_ids=True)[TYPES]):
        return False
    model = checkpoint.skeleton(config, config.model_type)
    return TYPES in inspect.signature(model.forward).parameters


def trained_with_types(config: PreTrainedConfig) -> bool:
    """Whether the model was saved by a version of transformers before 5, whose tokenizers gave types by default.

    That of BigBird did not.
    """
    major, _, _ = str(config.transformers_version).partition(".")
    return config.model_type != "big_bird" and (not major.isdigit() or int(major) < 5)


def padding_for(tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig) -> int | None:
    """Id to pad texts with, so that a decoder reads the class where it does without padding; None if there is none.

    It reads at the last token that is not the padding of its configuration. If that names none, or none that the model
    has, it reads at the last token, and another token is needed, with which no text ends.
    """
    if config.model_type in checkpoint.COUNT_FROM_PADDING:
        return padding_id(tokenizer)
    of_text = config.get_text_config()
    known = range(min(len(tokenizer), getattr(of_text, "vocab_size", None) or len(tokenizer)))
    if of_text.pad_token_id in known:
        return of_text.pad_token_id
    ends = {_last(tokenizer, *texts) for texts in (("a",), ("a", "a"))}
    candidates = (tokenizer.pad_token_id, tokenizer.eos_token_id, *tokenizer.all_special_ids)
    return next((token for token in candidates if token in known and token not in ends), None)


def _last(tokenizer: PreTrainedTokenizerBase, *texts: str) -> int | None:
    """The token that ``tokenizer`` puts after ``texts``, or else that of words it does not know, which may be last."""
    found = tokenizer(*texts, return_special_tokens_mask=True)
    return found["input_ids"][-1] if any(found["special_tokens_mask"][-1:]) else tokenizer.unk_token_id


def load_classifier(folder: Path, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """Classifier in ``folder`` that reads what ``tokenizer`` gives.

    Raises TaskError if a part of it has no trained weights, or if texts end with the only token there is for padding.
    """
    model, untrained = checkpoint.read(folder, AutoModelForSequenceClassification)
    if untrained:
        raise TaskError(
            f"{folder}: no trained weights for {', '.join(untrained[:3])}: add --finetune to train them on your data"
        )
    if padding_for(tokenizer, model.config) is None:
        token = tokenizer.convert_ids_to_tokens(padding_id(tokenizer))
        raise TaskError(
            f"{folder}: the tokenizer has no token for padding but {token}, which texts may end with, so that the "
            "model would read its class at the token before: give the tokenizer a pad_token, and the model its "
            "pad_token_id"
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


def find_padding(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Let ``model`` take for padding what ``tokenizer`` pads with.

    A decoder reads the class at the last token that is not padding, which it knows by an id of its configuration. Where
    that is no token of the model, as in many checkpoints, it would read the class at padding, or fail. Models whose
    positions count from the token of their configuration keep it: with another they would be other models once saved.
    """
    if model.config.model_type in checkpoint.COUNT_FROM_PADDING:
        return
    model.config.get_text_config().pad_token_id = padding_id(tokenizer)
