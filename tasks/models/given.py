"""A classifier that is given as a folder: its tokenizer, and what of both is in the keys of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from tasks.data.encode import padding_id
from tasks.digest import digest_of_files
from tasks.models import checkpoint, classes, classifiers
from tasks.models.vocabularies import model_files


@dataclass(frozen=True)
class GivenClassifier:
    """The folder of a model.

    trains: whether it is trained on the data; otherwise it is taken as it is.
    """

    folder: Path
    trains: bool

    @cached_property
    def config(self) -> PreTrainedConfig:
        return checkpoint.load_config(self.folder)

    @cached_property
    def _stated(self) -> PreTrainedTokenizerBase:
        """The tokenizer as the folder has it, but for what any model needs."""
        return checkpoint.load_tokenizer(self.folder)

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Load the tokenizer, as the model needs it. Raises TaskError."""
        return classifiers.load_tokenizer(self.folder, trains=self.trains)

    @property
    def positions(self) -> int:
        """Most tokens of a text that the model and its tokenizer take."""
        return self._stated.model_max_length

    @cached_property
    def leaves_types_out(self) -> bool:
        """Whether the model has token types that its tokenizer leaves out."""
        return classifiers.leaves_types_out(self._stated, self.config)

    @property
    def gets_types(self) -> bool:
        """Whether the model gets token types that its tokenizer leaves out."""
        return self.leaves_types_out and (self.trains or classifiers.trained_with_types(self.config))

    def fingerprint(self, labels: Sequence[str], length: int) -> dict[str, Any]:
        """What results on data with ``labels`` depend on. length: most tokens of a text for a model taken as it is."""
        found: dict[str, Any] = {"weights": digest_of_files(model_files(self.folder))}
        if padding := self._padding:
            found["padding"] = padding
        if checkpoint.own_padding_side(self._stated) == "left":
            found["padding side"] = "right"
        if self.gets_types:
            found["token types"] = "given"
        if not self.trains:
            return found | {"length": length}
        if checkpoint.format_of(self.folder):
            found["classes"] = "the data's"
        if order := classes.other_order(self.config, labels):
            found["order of classes"] = order
        return found

    @property
    def _padding(self) -> str:
        """Which padding the model gets: empty for what both its parts name."""
        if self.config.model_type in checkpoint.COUNT_FROM_PADDING:
            return ""
        tokenizer, stated = self._stated, self.config.get_text_config().pad_token_id
        own, found = tokenizer.pad_token_id, classifiers.padding_for(tokenizer, self.config)
        if found == stated and stated != own and (own is not None or stated not in tokenizer.all_special_ids):
            return "the configuration's"
        if found not in (stated, padding_id(tokenizer)):
            return "a token that does not end texts"
        return "the tokenizer's" if stated != own else ""
