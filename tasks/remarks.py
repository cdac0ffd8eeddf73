"""What a run says about the texts and labels of a classification before it starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from tasks.data.dataset import Dataset
from tasks.data.encode import encode
from tasks.data.parts import listed
from tasks.models import classes

BY_HAND = "name its outputs in model_input_names of tokenizer_config.json"
TYPES_GIVEN = (
    "the model is given token types for both texts of a pair, which its tokenizer leaves out by default: if it was "
    f"trained without them, {BY_HAND}"
)
TYPES_LEFT_OUT = (
    "the model gets no token types for the texts of a pair, as its tokenizer of transformers 5 gives none: if it was "
    f"trained with them, {BY_HAND}"
)


def on_length(data: Dataset, tokenizer: PreTrainedTokenizerBase, length: int) -> list[str]:
    """How many texts are cut to ``length`` tokens."""
    remarks = []
    for split in ("train", "test"):
        examples = getattr(data, split)
        tokens = (example.tokens["input_ids"] for example in encode(examples, tokenizer, length + 1))
        if number := sum(len(ids) > length for ids in tokens):
            remarks.append(f"{number} of {len(examples)} texts of {split} cut to {length} tokens")
    return remarks


def on_numbers(data: Dataset, config: PreTrainedConfig, occurring: Collection[int]) -> list[str]:
    """Which classes of the model are meant by labels that are numbers."""
    if not classes.are_numbers(config, data.labels):
        return []
    names = classes.class_names(config)
    indices = classes.class_indices(config, data.labels, config.model_type, occurring)
    meant = [f"{label} is {names[index]}" for label, index in zip(data.labels, indices, strict=True) if index >= 0]
    return [f"labels are numbers of classes: {', '.join(meant)}"]


def on_fixed_numbers(data: Dataset, config: PreTrainedConfig | None, columns: Sequence[str]) -> list[str]:
    """Which classes of the task are meant by labels that are numbers, and whether a model taken as it is has others.

    config: of that model; None for one that is trained.
    """
    if not data.numbered:
        return []
    remarks = [f"labels are numbers of classes: {_numbered(data.labels)}"]
    if config is not None and (order := classes.other_order(config, data.labels)):
        remarks.append(
            f"the model numbers its classes otherwise ({_numbered(order)}): if the labels are its numbers, use --task "
            f"classification --text {','.join(columns)}"
        )
    return remarks


def on_unseen(data: Dataset) -> list[str]:
    """How many test texts are of a class that no training text has."""
    seen = {example.label for example in data.train}
    unseen = Counter(data.labels[example.label] for example in data.test if example.label not in seen)
    if not unseen:
        return []
    classes = listed(sorted(unseen), ", ")
    return [f"{unseen.total()} of {len(data.test)} test texts are of a class without training texts: {classes}"]


def _numbered(names: Sequence[str]) -> str:
    return ", ".join(f"{number} is {name}" for number, name in enumerate(names))
