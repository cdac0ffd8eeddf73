"""Translation by an encoder with a decoder, measured in BLEU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from tasks import seeds as seeding
from tasks.builtin import renderings, translator, weights
from tasks.contract import task
from tasks.data import calibration as calibrating
from tasks.data.dataset import SPLITS, Dataset, Example
from tasks.data.encode import Batch
from tasks.data.location import short_name
from tasks.data.source import load_pairs, name_of
from tasks.data.splits import limited
from tasks.digest import digest_of_files, digest_of_source
from tasks.errors import TaskError
from tasks.models import checkpoint, train
from tasks.models.cache import Cache
from tasks.models.seeded import SeededTask, Trained
from tasks.models.vocabularies import model_files
from tasks.outcomes import Outcomes
from tasks.request import CalibrationSource
from tasks.translating import generate, pairs, scores, seq2seq, teacher_forcing
from tasks.translating import languages as naming
from tasks.translating.languages import Languages
from tasks.translating.pairs import Pair

if TYPE_CHECKING:  # slow to import
    from transformers import PreTrainedModel

COLUMNS = ("source", "target")
LENGTH = 256  # most tokens of a source and of a target
OWN_PIECES = 8000  # in the vocabulary of a small model for the user's data
TEST_BATCH = 256
READ = tuple(each.__name__ for each in (checkpoint, naming, seq2seq, pairs, teacher_forcing))
EVALUATION = (generate.__name__, scores.__name__)


@task("translation")
class Translation(SeededTask):
    """Pairs of a text and its translation, and a model that translates; built in: CLDR from English to Hungarian."""

    @classmethod
    def about(cls) -> list[str]:
        data = renderings.dataset()
        return [
            f"columns: --text {','.join(COLUMNS)}, or two languages in a column translation",
            "models: encoders with a decoder; --languages SOURCE,TARGET where their tokenizer needs it",
            f"built in: {data.name}, {data.sizes}, {' to '.join(renderings.LANGUAGES)}",
        ]

    # Data and model

    @cached_property
    def dataset(self) -> Dataset:
        """The three splits of pairs. Raises TaskError if they cannot be loaded."""
        spec = self.spec
        if not spec.source:
            data = renderings.dataset()
        else:
            columns = spec.text or COLUMNS
            if len(columns) != 2:
                raise TaskError(f"--text {','.join(columns)}: expected two columns, SOURCE,TARGET")
            data = load_pairs(spec.source, columns, spec.mirror)
        return limited(data, spec.limit) if spec.limit else data

    @property
    def data_name(self) -> str:
        return name_of(self.spec.source, self.spec.mirror) if self.spec.source else self.dataset.name

    @property
    def own_data(self) -> Dataset | None:
        """The splits, with remarks on what a given model makes of them; None for built-in data and model."""
        if not self.spec.source and self.folder is None:
            return None
        cut = {split: self._cut(getattr(self.dataset, split)) for split in ("train", "test")}
        remarks = [
            f"{number} of {split} cut to {self._length(self._any_tokenizer)} tokens of their source"
            for split, number in cut.items()
            if number
        ]
        if self.folder is not None:
            remarks += naming.remarks(checkpoint.load_config(self.folder), self.spec.languages)
        return replace(self.dataset, remarks=(*self.dataset.remarks, *remarks))

    @property
    def model_name(self) -> str:
        return short_name(self.spec.model) if self.spec.model else "small-marian"

    @property
    def guessing_quality(self) -> float:
        return 0.0

    def validate(self) -> nn.Module:
        spec = self.spec
        for field in ("harness_tasks", "trust_task_code", "dtype", "device_map", "label"):
            if getattr(spec, field):
                flag = f"--{field.replace('_', '-')}"
                raise TaskError(f"{spec.task}: {flag} has no meaning for translation: leave it out")
        if self.folder is None:
            if spec.languages:
                raise TaskError(f"--languages {','.join(spec.languages)}: the small model has no languages to choose")
            return self._small(0)[1]
        seq2seq.check_config(checkpoint.load_config(self.folder), spec.model)
        tokenizer, languages = self._opened(self.folder)
        found = seq2seq.load(self.folder)
        seq2seq.check_ends(found, languages, spec.model)
        for split in SPLITS:
            encoded = seq2seq.encode(getattr(self.dataset, split), tokenizer, found, languages, LENGTH)
            seq2seq.check_ids(found, encoded, spec.model)
        return found

    def fingerprints(self, seed: int) -> dict[str, Any]:
        spec = self.spec
        read: dict[str, Any] = {"read": digest_of_source(*READ, __name__), "languages": list(spec.languages)}
        if self.folder is not None:
            read["weights"] = digest_of_files(model_files(self.folder))
        if self.trains:
            code = [train.__name__, calibrating.__name__, seeding.__name__]
            code += [] if self.folder else [translator.__name__, weights.__name__]
            read |= {
                "recipe": asdict(self._recipe),
                "pieces": self._pieces,
                "label_smoothing": spec.label_smoothing,
                "code": digest_of_source(*code),
                "seeds": list(self.seeds(seed)),
            }
        evaluation = {
            "code": digest_of_source(*EVALUATION),
            "sacrebleu": version("sacrebleu"),
            "beams": max(1, spec.beams),
            "label_smoothing": spec.label_smoothing,
        }
        return {"data": self.dataset.fingerprint, "model": read, "evaluation": evaluation}

    def trained_from(self, seed: int) -> dict[str, Any]:
        return {name: value for name, value in self.fingerprints(seed).items() if name != "evaluation"}

    # The model of a seed

    def initial(self, seed: int) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        if self.folder is not None:
            return seq2seq.load(self.folder), self._opened(self.folder)[0]
        tokenizer, untrained = self._small(self.seeds(seed).of("initial weights"))
        return untrained, tokenizer

    def fit(self, seed: int, device: torch.device) -> Trained:
        seeds, data = self.seeds(seed), self.dataset
        trained, tokenizer = self.initial(seed)
        nn.Module.to(trained, device)
        languages = self._languages(tokenizer)
        length = self._length(tokenizer)
        training = [data.train[index] for index in self.division(seed).training]
        encoded = seq2seq.encode(training, tokenizer, trained, languages, length)
        held_back = seq2seq.encode(data.validation, tokenizer, trained, languages, length)
        setup = pairs.PairTraining(encoded, tokenizer, self._recipe, seeds.of("training order"), device)
        report = train.fit(
            trained,
            setup,
            lambda batch: self.loss(self.logits(trained, batch), batch).mean(),
            lambda: teacher_forcing.tokens_right(trained, held_back, tokenizer),
            self._recipe,
            seeds,
            name=data.name,
        )
        if self.folder is None and not self.spec.source:
            met = report["validation_accuracy"] >= translator.TARGET
            report |= {"target": translator.TARGET, "target_met": met}
        return trained, tokenizer, report

    def open(self, seed: int, cache: Cache, device: torch.device) -> nn.Module:
        folder = self.place(seed, cache)
        tokenizer, languages = self._opened(folder)
        opened: nn.Module = seq2seq.load(folder)
        self._tokenizer, self._spoken, self._opened_model = tokenizer, languages, opened
        return opened.to(device).eval()

    def _opened(self, folder: Path) -> tuple[PreTrainedTokenizerBase, Languages]:
        tokenizer = checkpoint.load_tokenizer(folder)
        return tokenizer, self._languages(tokenizer)

    def _languages(self, tokenizer: PreTrainedTokenizerBase) -> Languages:
        if self.folder is None:
            return Languages()
        return naming.set_languages(
            tokenizer, checkpoint.load_config(self.folder), self.spec.languages, self.spec.model
        )

    @cached_property
    def _any_tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of any seed: they are alike."""
        return self._opened(self.folder)[0] if self.folder is not None else self._small(0)[0]

    @cached_property
    def _recipe(self) -> train.Recipe:
        if self.folder is None:
            return replace(translator.RECIPE, max_length=LENGTH) if self.spec.source else translator.RECIPE
        return train.fine_tuning(len(self.dataset.train) - self.held_out, max_length=LENGTH)

    @property
    def _pieces(self) -> int:
        return OWN_PIECES if self.spec.source else translator.PIECES

    def _small(self, seed: int) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
        """Tokenizer and untrained small model for the data."""
        return translator.build(self.dataset, seed, pieces=self._pieces, max_length=self._recipe.max_length)

    # Batches, loss and outcomes

    @property
    def training_texts(self) -> list[str]:
        return [example.texts[0] for example in self.dataset.train]

    def calibration(
        self, seed: int, size: int, device: torch.device, source: CalibrationSource = "held-out"
    ) -> list[Batch]:
        chosen = [self._train_set[index] for index in self.calibration_indices(seed, size, source)]
        together = teacher_forcing.batch_size(chosen, self._tokenizer)
        return list(pairs.batches(chosen, self._tokenizer, together, device))

    def training(self, seed: int, share: float, device: torch.device) -> train.TrainingSetup:
        examples = [self._train_set[index] for index in self.division(seed).training]
        order, initial = self.seeds(seed).of("method's training order"), self.initial_weights(seed)
        return pairs.PairTraining(examples, self._tokenizer, self._recipe.shortened(share), order, device, initial)

    def probe(self, size: int, device: torch.device) -> Batch:
        by_length = sorted(self._test_set, key=lambda pair: len(pair.source))
        middle = max(0, (len(by_length) - size) // 2)
        chosen = (by_length[middle : middle + size] * size)[:size]
        return pairs.collate(chosen, range(size), self._tokenizer, device)

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """Logits of each token of the targets, given the source and those before: (B, T, vocabulary)."""
        return teacher_forcing.logits(model, batch)

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        return teacher_forcing.loss(logits, batch, self.spec.label_smoothing)

    @torch.no_grad()
    def evaluate(self, model: Any) -> Outcomes:
        test, tokenizer = self._test_set, self._tokenizer
        more = {"nats_per_token": teacher_forcing.nats(model, test, tokenizer, TEST_BATCH)}
        if cut := self._cut(self.dataset.test):
            more["sources_cut"] = float(cut)
        beams, device, longest = max(1, self.spec.beams), next(model.parameters()).device, self._length(tokenizer)
        together = generate.batch_size(model, tokenizer, beams, longest)
        texts = generate.translate(
            model,
            tokenizer,
            pairs.batches(test, tokenizer, together, device),
            longest=longest,
            languages=self._spoken,
            beams=beams,
        )
        return scores.outcomes(self.data_name, [texts[index] for index in range(len(test))], self.dataset.test, more)

    @cached_property
    def _train_set(self) -> list[Pair]:
        return self._encode(self.dataset.train)

    @cached_property
    def _test_set(self) -> list[Pair]:
        return self._encode(self.dataset.test)

    def _encode(self, examples: Sequence[Example]) -> list[Pair]:
        length = self._length(self._tokenizer)
        return seq2seq.encode(examples, self._tokenizer, self._opened_model, self._spoken, length)

    def _length(self, tokenizer: PreTrainedTokenizerBase) -> int:
        """Most tokens of a source and of a target."""
        return min(LENGTH, tokenizer.model_max_length)

    def _cut(self, examples: Sequence[Example]) -> int:
        """How many sources are longer than that."""
        tokenizer = self._any_tokenizer
        return seq2seq.sources_cut(examples, tokenizer, self._languages(tokenizer), self._length(tokenizer))
