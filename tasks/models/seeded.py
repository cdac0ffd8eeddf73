"""Tasks whose model is used as it is, or trained once per seed and kept in the cache."""

from __future__ import annotations

import json
import shutil
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from tasks.contract import Task
from tasks.data.calibration import Division, divide, sample, size_held_out
from tasks.digest import digest_of, digest_of_files
from tasks.models.cache import REPORT, Cache, damage
from tasks.models.checkpoint import format_of, own_padding_side
from tasks.models.vocabularies import locate
from tasks.request import CalibrationSource

if TYPE_CHECKING:  # slow to import
    from transformers import PreTrainedModel

NAMES = 150  # most bytes of the names of data and model in the name of a folder
Trained: TypeAlias = (
    "tuple[PreTrainedModel, PreTrainedTokenizerBase, dict[str, Any]]"  # with the report of the training
)


class SeededTask(Task):
    """A task that finds or trains the model of a seed; adapters define the data, the training and the evaluation."""

    _tokenizer: PreTrainedTokenizerBase  # of the model that was opened last

    @abstractmethod
    def initial(self, seed: int) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """The model that the training of ``seed`` starts from, and its tokenizer."""

    @abstractmethod
    def fit(self, seed: int, device: torch.device) -> Trained:
        """Train the model of ``seed``. Raises FloatingPointError if its loss is not finite."""

    @property
    @abstractmethod
    def training_texts(self) -> Sequence[Hashable]:
        """The text of each example of the training split, or what else those held out must not share with the rest."""

    @cached_property
    def held_out(self) -> int:
        return size_held_out(self.training_texts) if self.trains else 0

    def division(self, seed: int) -> Division:
        """Indices of the training examples of the model of ``seed``, and of those held out."""
        if seed not in self._divisions:
            texts, drawn = self.training_texts, self.seeds(seed).of("held-out examples")
            self._divisions[seed] = divide(texts, drawn) if self.trains else Division(list(range(len(texts))), [])
        return self._divisions[seed]

    def calibration_indices(self, seed: int, size: int, source: CalibrationSource) -> list[int]:
        """Indices in the training split of the examples to score on; see ``calibration``."""
        training, held_out = self.division(seed)
        pool = held_out if source == "held-out" and held_out else training
        return sample(pool, size, self.seeds(seed).of("calibration"))

    @cached_property
    def _divisions(self) -> dict[int, Division]:
        return {}

    @cached_property
    def folder(self) -> Path | None:
        """Folder of the requested model; None for the small model that is trained from scratch."""
        return locate(self.spec.model, self.spec.mirror) if self.spec.model else None

    @property
    def trains(self) -> bool:
        return self.folder is None or self.spec.finetune

    def initial_weights(self, seed: int) -> Callable[[], Mapping[str, Tensor]] | None:
        """A function that gives the weights of ``initial``; None if no model is trained."""
        return (lambda: self.initial(seed)[0].state_dict()) if self.trains else None

    def prepared(self, seed: int, cache: Cache) -> bool:
        # A damaged one is trained again where it is opened, in the time of a cell, if it counts as prepared.
        return not self.trains or not damage(cache.path(self._key(seed)))

    def prepare(self, seed: int, cache: Cache, device: torch.device) -> dict[str, Any]:
        if not self.trains:
            return {}
        folder = cache.folder(self._key(seed), lambda empty: self._fill(seed, empty, device))
        report = json.loads((folder / REPORT).read_text(encoding="utf-8"))
        if "failure" in report:
            raise FloatingPointError(report["failure"])
        return report

    def place(self, seed: int, cache: Cache) -> Path:
        """Folder of the model of ``seed``, which must have been prepared."""
        folder = cache.path(self._key(seed)) if self.trains else self.folder
        assert folder is not None
        return folder

    def save_tokenizer(self, folder: Path) -> None:
        write_tokenizer(self._tokenizer, folder)

    def _key(self, seed: int) -> str:
        names = f"{self.data_name}-{self.model_name}".replace("/", "-").encode()[:NAMES].decode(errors="ignore")
        version = {"version": self.version} if self.version > 1 else {}
        return f"{names}-s{seed}-{digest_of(self.trained_from(seed) | version)[:16]}"

    def trained_from(self, seed: int) -> dict[str, Any]:
        """The fingerprints of what a trained model depends on, besides the version of the adapter."""
        return self.fingerprints(seed)

    def _fill(self, seed: int, empty: Path, device: torch.device) -> None:
        try:
            model, tokenizer, report = self.fit(seed, device)
        except FloatingPointError as error:  # deterministic, so it is cached and not every cell tries again
            report = {"failure": str(error)}
        else:
            self._write(model, empty)
            write_tokenizer(tokenizer, empty)
            report["weights"] = digest_of_files(sorted(empty.glob("*.safetensors")))
        (empty / REPORT).write_text(json.dumps(report), encoding="utf-8")
        for file in empty.glob("*.safetensors"):  # which safetensors lets nobody else read
            shutil.copymode(empty / REPORT, file)

    def _write(self, model: PreTrainedModel, folder: Path) -> None:
        """Write ``model`` into an empty folder, in the format of the model that it was trained from."""
        given = format_of(self.folder) if self.folder else None
        if given is None:
            model.save_pretrained(folder)
            return
        given.save(model, folder / "new")
        for file in (folder / "new").iterdir():
            file.rename(folder / file.name)
        (folder / "new").rmdir()


def write_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Save a tokenizer that, once loaded, truncates only in calls that ask for it, and pads where its files said.

    Those written in Rust would also save the truncation and padding of their last call. A padding token that is a word
    of the vocabulary is left out: once loaded, the tokenizer would cut texts around it.
    """
    tokenizer.padding_side, padding = own_padding_side(tokenizer), tokenizer.pad_token
    if padding not in tokenizer.added_tokens_encoder:
        tokenizer.pad_token = tokenizer.init_kwargs.get("pad_token")
    if backend := getattr(tokenizer, "backend_tokenizer", None):
        backend.no_truncation()
        backend.no_padding()
    tokenizer.save_pretrained(folder)
    tokenizer.pad_token = padding
