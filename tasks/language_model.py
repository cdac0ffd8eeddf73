"""Causal language models, evaluated zero-shot by lm-eval."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    AutoModelForCausalLM,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from tasks import seeds as seeding
from tasks.builtin import abilities, decoder, weights
from tasks.contract import task
from tasks.data import calibration as calibrating
from tasks.data import encode
from tasks.data.dataset import SPLITS, Dataset
from tasks.data.encode import Batch, Encoded
from tasks.data.location import short_name
from tasks.data.source import load_texts, name_of, where_of
from tasks.data.splits import limited
from tasks.digest import digest_of_files, digest_of_source
from tasks.errors import TaskError
from tasks.models import checkpoint, matching, train
from tasks.models.cache import Cache
from tasks.models.seeded import SeededTask, Trained
from tasks.outcomes import Outcomes
from tasks.request import CalibrationSource

if TYPE_CHECKING:  # slow to import, and not needed by other tasks
    from transformers import LlamaForCausalLM, PreTrainedModel

    from tasks.harness.run import Harness

BUILT_IN = (*(f"headbench_{ability}" for ability in abilities.ABILITIES), "headbench_texts")
OWN = "headbench_own_texts"  # perplexity of the test split of the user's data
TEXT = ("text",)  # columns
LENGTH = 512  # most tokens of a text that methods score and train on
WINDOW = 1024  # tokens of an evaluated document, assumed for the batch size
LOGITS = 2**26  # logits in a batch, approximately: 256 MB in float32
OUTCOME_CODE = (  # modules that outcomes depend on, besides this one
    *(checkpoint.__name__, encode.__name__),
    *(
        f"tasks.harness.{name}"
        for name in ("outcomes", "data", "endings", "loading", "prepared", "run", "scorer", "segments")
    ),
    decoder.__name__,
)
EVALUATION = ("dtype", "lm_eval")  # fingerprints of a model that its training does not depend on
DTYPES = ("float32", "bfloat16", "float16", "auto")


@task("harness")
class LanguageModel(SeededTask):
    """Tasks of lm-eval, zero-shot, on a causal language model, with texts for calibration; built in: four abilities."""

    @classmethod
    def about(cls) -> list[str]:
        sizes = " + ".join(str(abilities.SIZES[split]) for split in SPLITS)
        return [
            "columns: --text text",
            "tasks: --harness-tasks A,B of lm-eval, or folders of task files (default: likelihood of the test split)",
            f"built in: four-abilities, {sizes} documents ({' + '.join(SPLITS)}): {', '.join(BUILT_IN)}",
        ]

    # Data and model

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the lm-eval tasks to evaluate on."""
        from tasks.harness.loading import names_in

        given = self.spec.harness_tasks or ((OWN,) if self.spec.source else BUILT_IN)
        return tuple(dict.fromkeys(name for each in given for name in names_in(each)))

    @cached_property
    def harness(self) -> Harness:
        """These tasks with their documents. Raises TaskError if they cannot be loaded."""
        from tasks.harness.run import Harness

        folders = [name for name in self.spec.harness_tasks if Path(name).is_dir()]
        columns, limit = list(self.spec.text or TEXT), self.spec.limit
        own = {"data": self.spec.source, "columns": columns, "mirror": self.spec.mirror, "limit": limit}
        return Harness(
            self.names,
            folders=folders,
            mirror=self.spec.mirror,
            limit=limit or None,
            own=own,
            trust=self.spec.trust_task_code,
        )

    @cached_property
    def texts(self) -> Dataset:
        """The user's texts. Raises TaskError if they cannot be loaded."""
        scored = OWN in self.names  # otherwise methods alone see them, and any split will do
        data = load_texts(self.spec.source, self.spec.text or TEXT, self.spec.mirror, only_train=not scored)
        return limited(data, self.spec.limit) if self.spec.limit else data

    @property
    def data_name(self) -> str:
        own = name_of(self.spec.source, self.spec.mirror) if self.spec.source else "four-abilities"
        if self.spec.harness_tasks:
            return "+".join(own if name == OWN else short_name(name) for name in self.spec.harness_tasks)
        return own

    @property
    def own_data(self) -> Dataset | None:
        return self.texts if self.spec.source else None

    @property
    def model_name(self) -> str:
        return short_name(self.spec.model) if self.spec.model else "small-llama"

    @property
    def guessing_quality(self) -> float:
        return self.harness.guessing_quality

    def validate(self) -> nn.Module:
        spec = self.spec
        if bool(spec.model) != bool(spec.source):
            given, missing = ("--model", "--data") if spec.model else ("--data", "--model")
            raise TaskError(
                f"harness: {given} without {missing}: a language model needs texts for calibration, and they need one"
            )
        if OWN in self.names and not spec.source:
            raise TaskError(f"{OWN}: the likelihood of your own texts: add --data and --model")
        for flag, value in (("--label", spec.label), ("--finetune", spec.finetune)):
            if value:
                raise TaskError(f"harness: {flag} is not for language models")
        if spec.dtype and spec.dtype not in DTYPES:
            raise TaskError(f"dtype {spec.dtype!r}: expected one of {', '.join(DTYPES)}")
        if spec.device_map not in ("", "auto"):
            raise TaskError(f"device map {spec.device_map!r}: expected auto, or leave it out")
        if self.folder is None:
            small_tokenizer, small = self._small(0)
            self.harness.check(small, small_tokenizer)
            return small
        config = checkpoint.load_config(self.folder)
        if config.is_encoder_decoder:  # transformers would load the decoders of some as language models
            raise TaskError(
                f"{spec.model}: an encoder with a decoder ({config.model_type}) is not a causal language model"
            )
        checkpoint.skeleton(config, spec.model, AutoModelForCausalLM)  # raises if there is no such model
        tokenizer = checkpoint.load_tokenizer(self.folder)
        if tokenizer.bos_token_id is None and tokenizer.eos_token_id is None:
            raise TaskError(
                f"{spec.model}: its tokenizer has neither bos_token nor eos_token; lm-eval needs one of them"
            )
        length = min(LENGTH, tokenizer.model_max_length)
        matching.check_tokens(self.texts, where_of(spec.source), tokenizer, length, spec.model)
        model = checkpoint.load_language_model(self.folder, self._dtype, spec.device_map)
        matching.check_causal(model, len(tokenizer), spec.model)
        self.harness.check(model, tokenizer)
        return model

    def fingerprints(self, seed: int) -> dict[str, Any]:
        read = digest_of_source(*OUTCOME_CODE, __name__)
        model: dict[str, Any] = {"read": read, "dtype": self._dtype, "lm_eval": version("lm_eval")}
        if self.folder is not None:
            model |= {"device_map": self.spec.device_map} if self.spec.device_map else {}
            side = checkpoint.own_padding_side(checkpoint.load_tokenizer(self.folder))
            model |= {"padding side": "right"} if side == "left" else {}
            length = getattr(checkpoint.load_config(self.folder), "max_seq_len", None)
            model |= {"length": length} if length else {}  # of MPT, whose texts used to be cut elsewhere
            model["weights"] = digest_of_files(checkpoint.weight_files(self.folder))
            return {"data": [self.texts.fingerprint, self.harness.fingerprint], "model": model}
        model |= {
            "recipe": repr(abilities.RECIPE),
            "code": digest_of_source(
                train.__name__, decoder.__name__, weights.__name__, calibrating.__name__, seeding.__name__
            ),
            "seeds": list(self.seeds(seed)),
        }
        return {"data": [abilities.fingerprint(), self.harness.fingerprint], "model": model}

    def trained_from(self, seed: int) -> dict[str, Any]:
        model = {name: value for name, value in self.fingerprints(seed)["model"].items() if name not in EVALUATION}
        return {"data": abilities.fingerprint(), "model": model}

    # The model of a seed

    def initial(self, seed: int) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
        tokenizer, model = self._small(self.seeds(seed).of("initial weights"))
        return model, tokenizer

    def fit(self, seed: int, device: torch.device) -> Trained:
        seeds, documents = self.seeds(seed), abilities.documents()
        model, tokenizer = self.initial(seed)
        training = tuple(documents["train"][index] for index in self.division(seed).training)
        splits = {**documents, "train": training}
        return model, tokenizer, decoder.fit(model, tokenizer, splits, abilities.RECIPE, seeds, device=device)

    def open(self, seed: int, cache: Cache, device: torch.device) -> nn.Module:
        folder = self.place(seed, cache)
        self._tokenizer = checkpoint.load_tokenizer(folder)
        self._lm_evals_tokenizer = copy.deepcopy(self._tokenizer)  # lm-eval gives one without padding token some other
        model: nn.Module = checkpoint.load_language_model(folder, self._dtype, self.spec.device_map)
        return (model if self.spec.device_map else model.to(device)).eval()

    @property
    def _dtype(self) -> str:
        return self.spec.dtype or "float32"

    def _small(self, seed: int) -> tuple[PreTrainedTokenizerFast, LlamaForCausalLM]:
        return decoder.build(abilities.documents()["train"], seed)

    # Batches, loss and outcomes

    @cached_property
    def training_texts(self) -> list[str]:
        """Of a built-in document its statement: other questions about it are not a new text."""
        if not self.spec.source:
            return [document.statement for document in abilities.documents()["train"]]
        return [example.texts[0] for example in self.texts.train]

    def calibration(
        self, seed: int, size: int, device: torch.device, source: CalibrationSource = "held-out"
    ) -> list[Batch]:
        examples = [self._train_set[index] for index in self.calibration_indices(seed, size, source)]
        longest = max(len(example.tokens["input_ids"]) for example in examples)
        batch_size = self._batch_size(longest)
        return list(encode.batches(examples, self._tokenizer, batch_size, by_length=True, device=device))

    def training(self, seed: int, share: float, device: torch.device) -> train.TrainingSetup:
        recipe = train.fine_tuning(len(self._train_set), batch_size=8) if self.spec.source else abilities.RECIPE
        examples = [self._train_set[index] for index in self.division(seed).training]
        order, initial = self.seeds(seed).of("method's training order"), self.initial_weights(seed)
        return train.TrainingSetup(examples, self._tokenizer, recipe.shortened(share), order, device, initial)

    def probe(self, size: int, device: torch.device) -> Batch:
        return next(encode.batches(encode.median_length(self._test_set, size), self._tokenizer, size, device=device))

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        mask = batch.inputs["attention_mask"]
        # Without use_cache=False, keys and values kept for a next token would take most of the memory.
        logits = model(input_ids=batch.inputs["input_ids"], attention_mask=mask, use_cache=False).logits
        return logits if bool(mask.all()) else logits * mask[..., None]

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Weighted mean over each text's tokens of their negative log-likelihood, in nats.

        Built-in models were trained on the sum over a text divided by one number for all, so longer texts count more
        there than here.
        """
        ids, weights = batch.inputs["input_ids"][:, 1:], batch.inputs["weights"][:, 1:]
        token_losses = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids.flatten(), reduction="none").view_as(
            ids
        )
        return (token_losses * weights).sum(1) / weights.sum(1).clamp_min(1)  # a text of one token has no loss

    def evaluate(self, model: Any) -> Outcomes:
        from tasks.harness.outcomes import outcomes

        with torch.no_grad(), _no_cache(model):
            return outcomes(self.harness(model, self._lm_evals_tokenizer, self._batch_size(WINDOW)))

    def _batch_size(self, length: int) -> int:
        """Number of texts of ``length`` tokens whose logits together stay near ``LOGITS``."""
        return min(64, max(1, LOGITS // (length * len(self._tokenizer))))

    @cached_property
    def _train_set(self) -> list[Encoded]:
        if not self.spec.source:
            return decoder.encode(abilities.documents()["train"], self._tokenizer)
        return self._encode([example.texts[0] for example in self.texts.train], self._tokenizer)

    @cached_property
    def _test_set(self) -> list[Encoded]:
        if not self.spec.source:
            return decoder.encode(abilities.documents()["test"], self._tokenizer)
        return self._encode([example.texts[0] for example in self.texts.test or self.texts.train], self._tokenizer)

    def _encode(self, texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[Encoded]:
        """Tokenized texts; every token has weight 1 in the loss.

        As in lm-eval, a text that begins with the token for beginnings does not get another one.
        """
        length, begin = min(LENGTH, tokenizer.model_max_length), tokenizer.bos_token_id
        ids = tokenizer(list(texts), truncation=True, max_length=length)["input_ids"]
        ids = [each[1:] if begin is not None and each[:2] == [begin, begin] else each for each in ids]
        return [
            Encoded({"input_ids": each, "attention_mask": [1] * len(each), "weights": [1] * len(each)}, 0)
            for each in ids
        ]


@contextmanager
def _no_cache(model: PreTrainedModel) -> Iterator[None]:
    """Inside, the model keeps no keys and values, which lm-eval does not use and cannot switch off."""
    previous = getattr(model.config, "use_cache", None)
    model.config.use_cache = False
    try:
        yield
    finally:
        model.config.use_cache = previous
