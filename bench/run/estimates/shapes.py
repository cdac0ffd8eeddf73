"""What a model takes by its shape alone: built on the meta device, where it has no weights and computes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification

from bench.run.estimates.kernels import KernelAttention
from methods.heads import HeadMap, count_parameters, find_mlps
from methods.recovery.stack import NotPlain, Stack
from tasks import text_classification, translation
from tasks.data.dataset import Dataset, Example
from tasks.data.encode import encode
from tasks.language_model import LENGTH, LOGITS, LanguageModel
from tasks.models import checkpoint
from tasks.models.seeded import SeededTask
from tasks.models.train import fine_tuning
from tasks.translation import Translation

ANSWER = 256  # tokens of an answer at most, where a task of lm-eval does not say it
SAMPLE = 100  # texts of a split that are tokenized to see how long they are
SIDE, SECONDS = 1024, 0.2  # of square matrices, and of multiplying them, to see how fast a device is


@dataclass(frozen=True)
class Shape:
    """A model on the meta device, with the texts that it is to see."""

    model: nn.Module
    heads: HeadMap
    dtype: torch.dtype
    tokens: float  # of a text on average
    batch: tuple[int, int]  # texts and tokens of a batch of the longest texts

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return count_parameters(self.model)["model"]

    @property
    def weights(self) -> int:
        """Bytes of the weights."""
        return self.parameters * self.dtype.itemsize

    @cached_property
    def flops(self) -> float:
        """Floating-point operations of a text forward: counted, or 2 for each weight of a linear layer and token."""
        tokens = max(1, round(self.tokens))
        with FlopCounterMode(display=False) as counter:
            runs = self._runs(1, tokens)
        if runs:
            return float(counter.get_total_flops())
        matrices = (p.numel() for name, p in self.model.named_parameters() if p.ndim == 2 and "embed" not in name)
        return 2.0 * sum(matrices) * tokens

    def activations(self, texts: int, trains: bool = False) -> int | None:
        """Bytes that a batch of so many of the longest texts keeps for its backward pass, as if weights had gradients.

        Where a loss is taken over a vocabulary, its logits, their log-softmax and the gradient count too. trains: with
        dropout, which keeps more. None where the model does not run on the meta device.
        """
        kept: dict[int, Any] = {}
        own = {parameter.untyped_storage()._cdata for parameter in self.model.parameters()}

        def keep(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in own:
                kept[storage._cdata] = storage  # held, so that no other gets its address
            return tensor

        self.model.train(trains)
        modules: Iterator[Any] = self.model.modules()
        for module in modules:
            if hasattr(module, "layerdrop"):  # layers that training skips at random are counted
                module.layerdrop = 0.0
        hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
        with torch.enable_grad(), KernelAttention(), hooks:
            runs = self._runs(texts, self.batch[1])
        self.model.eval()
        return sum(storage.nbytes() for storage in kept.values()) + self._over_vocabulary(texts) if runs else None

    def _over_vocabulary(self, texts: int) -> int:
        head: Any = getattr(self.model, "get_output_embeddings", lambda: None)()
        in_float32 = 2 * torch.float32.itemsize  # log-softmax, and the gradient of the logits
        return texts * self.batch[1] * len(head.weight) * (self.dtype.itemsize + in_float32) if head else 0

    @cached_property
    def by_blocks(self) -> bool | None:
        """Whether recovery can run the model block by block; None where that shows only in the run."""
        with torch.no_grad():
            try:
                Stack([None], lambda model, batch: self._forward(1, self.batch[1]), self.model, self.heads)
            except NotPlain:
                return False
            except Exception:  # of any kind, as it is the model's own code
                return None
        return True

    def narrowed(self, neurons: bool) -> int:
        """Bytes of the weights that a smaller model does not share: of attention and, if ``neurons`` go, of MLPs."""
        names = {path for site in self.heads.sites for path in (*site.projections.values(), site.output)}
        if neurons:
            names |= {path for mlp in find_mlps(self.model) for path in (*mlp.inputs, mlp.output)}
        weights = (weight for name in names for weight in self.model.get_submodule(name).parameters())
        return sum(weight.nbytes for weight in weights)

    def _runs(self, texts: int, tokens: int) -> bool:
        """Run the model without its classification head, which may look for padding and adds next to nothing.

        False for a model that asks for values, which it does not have here.
        """
        try:
            self._forward(texts, tokens)
        except Exception:  # of any kind, as it is the model's own code
            return False
        return True

    def _forward(self, texts: int, tokens: int) -> Any:
        ids = torch.zeros(texts, tokens, dtype=torch.long, device="meta")
        model: Any = self.model
        if getattr(model, "get_output_embeddings", lambda: None)() is None:  # no language model
            model = getattr(model, "base_model", model)
        model.config.pad_token_id = None  # some look for it in the ids, which have no values here
        if not model.config.is_encoder_decoder:
            return model(input_ids=ids)
        # Some decoders would look for padding in a mask of texts, which has no values here either.
        causal = torch.zeros(texts, 1, tokens, tokens, dtype=self.dtype, device="meta")
        return model(input_ids=ids, decoder_input_ids=ids, decoder_attention_mask=causal)


def shape_of(task: SeededTask) -> Shape:
    """The shape of the model that the user gave for ``task``, and of its data."""
    assert task.folder is not None
    kind, most = _kind(task)
    config, data = checkpoint.load_config(task.folder), data_of(task)
    if task.trains:
        config.num_labels = len(data.labels)
    model = _pruned(task.folder) or checkpoint.skeleton(config, task.model_name, kind)
    tokenizer = checkpoint.load_tokenizer(task.folder)
    some = [*data.train[:SAMPLE], *data.test[:SAMPLE]]
    if isinstance(task, Translation):  # encoder and decoder see a text each
        some = [Example((text,), 0) for example in some for text in example.texts]
    lengths = _lengths(some, tokenizer, most)
    longest = max(lengths)
    over_vocabulary = kind is not AutoModelForSequenceClassification
    texts = text_classification.BATCH
    if over_vocabulary:
        texts = min(texts, max(1, LOGITS // (longest * len(tokenizer))))
    name = task.spec.dtype or "float32"
    stored = getattr(config, "dtype", None) or torch.float32
    dtype = stored if name == "auto" else getattr(torch, name)
    in_dtype = nn.Module.to(model, dtype).eval()
    return Shape(in_dtype, HeadMap.of(model, task.spec.unit, task.spec.kinds), dtype, mean(lengths), (texts, longest))


def _kind(task: SeededTask) -> tuple[Any, int]:
    """The class of transformers for the model of ``task``, and the most tokens of a text that it sees."""
    if isinstance(task, LanguageModel):
        return AutoModelForCausalLM, LENGTH
    if isinstance(task, Translation):
        return AutoModelForSeq2SeqLM, translation.LENGTH
    most = fine_tuning(1).max_length if task.trains else text_classification.LENGTH
    return AutoModelForSequenceClassification, most


def data_of(task: Any) -> Dataset:
    """The splits that ``task``, of texts, of pairs or of a language model, scores and trains on."""
    return task.texts if isinstance(task, LanguageModel) else task.dataset


def tested_tokens(task: SeededTask, shape: Shape) -> float:
    """Tokens of all that one evaluation on the test split sends through the model."""
    if isinstance(task, Translation):  # once for the loss, and once for each beam
        return len(task.dataset.test) * shape.tokens * (1 + max(1, task.spec.beams))
    if not isinstance(task, LanguageModel):
        return len(data_of(task).test) * shape.tokens
    assert task.folder is not None
    tokenizer = checkpoint.load_tokenizer(task.folder)
    total = 0.0
    for each in task.harness.tasks.values():
        each.build_all_requests(limit=task.spec.limit or None)
        some = each.instances[:: max(1, len(each.instances) // SAMPLE)]
        texts = ["".join(part for part in request.args if isinstance(part, str)) for request in some]
        answers = [part.get("max_gen_toks", ANSWER) for request in some for part in request.args if type(part) is dict]
        lengths = [len(ids) for ids in tokenizer(texts)["input_ids"]]
        total += (sum(lengths) + sum(answers)) / len(some) * len(each.instances)
    return total


def _pruned(folder: Path) -> nn.Module | None:
    """A pruned checkpoint: its weights are read, as its configuration does not say which heads remain."""
    found = checkpoint.format_of(folder)
    return nn.Module.to(found.load(folder), "meta") if found else None


def _lengths(examples: Sequence[Example], tokenizer: Any, most: int) -> Sequence[int]:
    """Tokens of ``examples``."""
    encoded = encode(examples, tokenizer, min(most, tokenizer.model_max_length))
    return [len(example.tokens["input_ids"]) for example in encoded]


def flops_per_second(device: str, threads: int, dtype: torch.dtype) -> float:
    """Floating-point operations in a second of one process, which has some threads of the processor, or the GPU."""
    # Of the processor, the time in which this thread ran: what it waits for other work now, a run need not wait for.
    clock = time.perf_counter if device == "cuda" else time.thread_time
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        square = torch.ones(SIDE, SIDE, device=device, dtype=dtype)
        settled = torch.cuda.synchronize if device == "cuda" else lambda: None
        square @ square  # the first takes longer
        settled()
        begin, number = clock(), 0
        while (passed := clock() - begin) < SECONDS or not number:
            square @ square
            settled()
            number += 1
    finally:
        torch.set_num_threads(before)
    return 2 * SIDE**3 * number / passed
