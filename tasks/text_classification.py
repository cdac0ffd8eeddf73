"""Classification of texts or pairs of texts: the base class of text adapters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase

from tasks import remarks
from tasks import seeds as seeding
from tasks.builtin import model as small
from tasks.builtin import weights
from tasks.data import calibration as calibrating
from tasks.data import encode
from tasks.data.dataset import SPLITS, Dataset, relabelled
from tasks.data.encode import Batch, Encoded
from tasks.data.location import short_name
from tasks.data.source import load, where_of
from tasks.data.splits import UnknownLabel, check_classes, limited
from tasks.digest import digest_of_source
from tasks.errors import TaskError
from tasks.models import checkpoint, classes, classifiers, given, matching, train
from tasks.models.cache import Cache
from tasks.models.given import GivenClassifier
from tasks.models.seeded import SeededTask, Trained
from tasks.outcomes import Outcomes
from tasks.request import CalibrationSource

if TYPE_CHECKING:  # slow to import
    from transformers import PreTrainedModel

BATCH = 64
LENGTH = 512  # most tokens of a text for a model that is taken as it is
OWN_LENGTH, OWN_PIECES = 128, 4000  # tokens per text, and vocabulary, of a small model for the user's data


class TextClassification(SeededTask):
    """Sequence classification; adapters define the columns, the classes and the built-in data."""

    columns: ClassVar[tuple[str, ...]] = ("text",)
    label: ClassVar[str] = "label"
    labels: ClassVar[tuple[str, ...]] = ()  # classes in order; empty for those of the data
    built_in: ClassVar[Callable[[], Dataset] | None] = None  # the data without --data, a static method
    recipe: ClassVar[train.Recipe] = train.Recipe(learning_rate=1e-3, max_steps=1000)  # of the small model
    pieces: ClassVar[int | None] = None  # word pieces in its vocabulary on built-in data; None for whole words

    @classmethod
    def about(cls) -> list[str]:
        data = cls.built_in() if cls.built_in else None
        return [
            f"columns: --text {','.join(cls.columns)} --label {cls.label}",
            f"classes: {', '.join(cls.labels) or 'those of the data'}",
            f"built in: {data.name}, {data.sizes}, {len(data.labels)} classes" if data else "built in: no data",
        ]

    # Data and model

    @cached_property
    def dataset(self) -> Dataset:
        """The three splits. Raises TaskError if they cannot be loaded."""
        spec = self.spec
        if spec.source:
            columns = self._columns
            if not len(self.columns) <= len(columns) <= 2:
                pairs = "two columns, of texts to compare" if len(self.columns) == 2 else "one column, or two for pairs"
                raise TaskError(f"--text {','.join(columns)}: expected {pairs}")
            try:
                data = load(spec.source, columns, spec.label or self.label, labels=self.labels, mirror=spec.mirror)
            except UnknownLabel as error:
                other = f"--task classification --text {','.join(columns)}"
                raise TaskError(f"{error}; for other classes use {other}") from error
        elif (built_in := type(self).built_in) is None:
            raise TaskError(f"{spec.task}: has no built-in data: give --data")
        else:
            data = built_in()
        if self._given and not self.trains and not self.labels:
            data = classes.one_label_per_class(data, self._given.config)
            check_classes(data, where_of(spec.source) or data.name)
        return limited(data, spec.limit) if spec.limit else data

    @property
    def _columns(self) -> tuple[str, ...]:
        return self.spec.text or self.columns

    @property
    def data_name(self) -> str:
        return self.dataset.name

    @property
    def own_data(self) -> Dataset | None:
        return replace(self.dataset, remarks=self._remarks) if self.spec.source else None

    @cached_property
    def _remarks(self) -> tuple[str, ...]:
        """What to know of the user's data: how it was read, which texts are cut, and what numbers mean as labels."""
        tokenizer = self._given.tokenizer() if self._given else self._small(0)[0]
        found = [*self.dataset.remarks, *remarks.on_length(self.dataset, tokenizer, self._length(tokenizer))]
        taken = self._given.config if self._given and not self.trains else None
        if self.labels:
            found += remarks.on_fixed_numbers(self.dataset, taken, self._columns)
        elif taken is not None:
            found += remarks.on_numbers(self.dataset, taken, self._occurring)
        if self._given and self._given.leaves_types_out and len(self._columns) == 2:
            found.append(remarks.TYPES_GIVEN if self._given.gets_types else remarks.TYPES_LEFT_OUT)
        return (*found, *(remarks.on_unseen(self.dataset) if self.trains else ()))

    @property
    def model_name(self) -> str:
        return short_name(self.spec.model) if self.spec.model else "small-bert"

    @property
    def guessing_quality(self) -> float:
        return self.dataset.majority_accuracy

    def validate(self) -> nn.Module:
        for field in ("harness_tasks", "trust_task_code", "dtype", "device_map"):
            if getattr(self.spec, field):
                flag = f"--{field.replace('_', '-')}"
                raise TaskError(f"{self.spec.task}: {flag} is for language models: use --task harness")
        if self._given is None:
            own, untrained = self._small(0)
            self._check_texts(own, {"input_ids": len(own)})
            return untrained
        checkpoint.skeleton(self._given.config, self.spec.model)  # raises if there is no such classifier
        folder, tokenizer = self._given.folder, self._given.tokenizer()
        if self.trains:
            model = classifiers.load_for_training(folder, self.dataset.labels, tokenizer, 0)
        else:
            model = classifiers.load_classifier(folder, tokenizer)
            classes.class_indices(model.config, self.dataset.labels, self.spec.model, self._occurring)
        self._check_texts(tokenizer, matching.known_inputs(model), matching.end_of_texts(model.config))
        return model

    def fingerprints(self, seed: int) -> dict[str, Any]:
        modules = (checkpoint, classifiers, classes, encode, given)
        model: dict[str, Any] = {"read": digest_of_source(*(each.__name__ for each in modules), __name__)}
        if self._given:
            model |= self._given.fingerprint(self.dataset.labels, self._recipe.max_length)
        if self.trains:
            code = [train.__name__, calibrating.__name__, seeding.__name__]
            code += [] if self.folder else [small.__name__, weights.__name__]
            model |= {
                "recipe": asdict(self._recipe),
                "pieces": self._pieces,
                "code": digest_of_source(*code),
                "seeds": list(self.seeds(seed)),
            }
        return {"data": self.dataset.fingerprint, "model": model}

    @cached_property
    def _given(self) -> GivenClassifier | None:
        """The user's model; None for the small one that is trained from scratch."""
        return GivenClassifier(self.folder, self.trains) if self.folder else None

    @cached_property
    def _occurring(self) -> set[int]:
        """Numbers of the classes that some text has."""
        return {example.label for split in SPLITS for example in getattr(self.dataset, split)}

    # The model of a seed

    def open(self, seed: int, cache: Cache, device: torch.device) -> nn.Module:
        folder = self.place(seed, cache)
        self._tokenizer = classifiers.load_tokenizer(folder)
        classifier = classifiers.load_classifier(folder, self._tokenizer)
        self._classes = classes.class_indices(classifier.config, self.dataset.labels, folder.name, self._occurring)
        model: nn.Module = classifier
        return model.to(device).eval()

    @cached_property
    def _recipe(self) -> train.Recipe:
        if self._given is None:
            return replace(self.recipe, max_length=OWN_LENGTH, target=None) if self.spec.source else self.recipe
        recipe = train.fine_tuning(len(self.dataset.train) - self.held_out)
        most = recipe.max_length if self.trains else LENGTH
        return replace(recipe, max_length=min(most, self._given.positions))

    @property
    def _pieces(self) -> int | None:
        return self.pieces or (OWN_PIECES if self.spec.source else None)

    def _small(self, seed: int) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
        """Tokenizer and untrained small model for the data."""
        return small.build(self.dataset, seed, pieces=self._pieces, max_length=self._recipe.max_length)

    def initial(self, seed: int) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        drawn = self.seeds(seed).of("initial weights")
        if self._given is None:
            tokenizer, model = self._small(drawn)
        else:
            tokenizer = self._given.tokenizer()
            model = classifiers.load_for_training(self._given.folder, self.dataset.labels, tokenizer, drawn)
        return model, tokenizer

    def fit(self, seed: int, device: torch.device) -> Trained:
        model, tokenizer = self.initial(seed)
        data = replace(self.dataset, train=tuple(self.dataset.train[index] for index in self.division(seed).training))
        numbers = classes.class_indices(model.config, data.labels, self.spec.model)
        splits: dict[str, Any] = {split: relabelled(getattr(data, split), numbers) for split in SPLITS}
        data = replace(data, **splits)
        return model, tokenizer, train.train(model, tokenizer, data, self._recipe, self.seeds(seed), device=device)

    # Batches, loss and outcomes

    @property
    def training_texts(self) -> list[tuple[str, ...]]:
        return [example.texts for example in self.dataset.train]

    def calibration(
        self, seed: int, size: int, device: torch.device, source: CalibrationSource = "held-out"
    ) -> list[Batch]:
        chosen = self.calibration_indices(seed, size, source)
        examples = self._encode([self.dataset.train[index] for index in chosen])
        return list(encode.batches(examples, self._tokenizer, BATCH, by_length=True, device=device))

    def training(self, seed: int, share: float, device: torch.device) -> train.TrainingSetup:
        examples = [self._train_set[index] for index in self.division(seed).training]
        order, initial = self.seeds(seed).of("method's training order"), self.initial_weights(seed)
        recipe = self._recipe.shortened(share)
        return train.TrainingSetup(examples, self._tokenizer, recipe, order, device, initial)

    def probe(self, size: int, device: torch.device) -> Batch:
        return next(encode.batches(encode.median_length(self._test, size), self._tokenizer, size, device=device))

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        return model(**batch.inputs).logits

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(logits, batch.labels, reduction="none")

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> Outcomes:
        correct = torch.empty(len(self._test), dtype=torch.bool)
        device = next(model.parameters()).device
        for batch in encode.batches(self._test, self._tokenizer, BATCH, by_length=True, device=device):
            logits = self.logits(model, batch)
            if not logits.isfinite().all():
                first = int(batch.indices[(~logits.isfinite().all(1)).nonzero()[0, 0]])
                raise FloatingPointError(f"logits are not finite, first for test example {first}")
            correct[batch.indices] = (logits.argmax(1) == batch.labels).cpu()
        return Outcomes(correct, {self.data_name: len(correct)})

    @cached_property
    def _train_set(self) -> list[Encoded]:
        return self._encode(self.dataset.train)

    @cached_property
    def _test(self) -> list[Encoded]:
        return self._encode(self.dataset.test)

    def _encode(self, examples) -> list[Encoded]:
        numbered = relabelled(examples, self._classes)
        return encode.encode(numbered, self._tokenizer, self._length(self._tokenizer))

    def _length(self, tokenizer: PreTrainedTokenizerBase) -> int:
        return min(self._recipe.max_length, tokenizer.model_max_length)

    def _check_texts(self, tokenizer: PreTrainedTokenizerBase, known: dict[str, int], end: int | None = None) -> None:
        """``matching.check_texts`` of the user's data or model."""
        if self.spec.source or self.spec.model:
            where, length = where_of(self.spec.source) or self.data_name, self._length(tokenizer)
            matching.check_texts(self.dataset, where, tokenizer, length, known, self.spec.model, end)
