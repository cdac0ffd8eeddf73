"""Models of known shapes with random weights, texts for them, and processor time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification

from methods import View
from methods.heads import HeadMap
from tasks.text_classification import BATCH

torch.set_num_threads(1)

SHAPES = {
    "suite": {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128},
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "bert-base": {},
}


@dataclass(frozen=True)
class Batch:
    inputs: dict[str, Tensor]
    labels: Tensor


class Workload:
    def view(self, shape: str, texts: int, lengths: tuple[int, int]) -> View:
        """A view of a random BERT with 30,522 words and of the middle ``texts`` of a calibration set of 128.

        Lengths are uniform; texts are sorted by length and batched as by a task.
        """
        torch.manual_seed(0)
        model = BertForSequenceClassification(BertConfig(**SHAPES[shape])).eval().requires_grad_(False)
        sizes = torch.randint(lengths[0], lengths[1] + 1, (128,)).sort().values.narrow(0, 64 - texts // 2, texts)
        heads = HeadMap.of(model)
        return View(
            model=model,
            heads=heads,
            batches=[self._batch(some) for some in sizes.split(BATCH)],
            kept=heads.full_mask(),
            generator=torch.Generator(),
            forward=lambda model, batch: model(**batch.inputs).logits,
            loss_of_logits=lambda logits, batch: F.cross_entropy(logits, batch.labels, reduction="none"),
        )

    def _batch(self, sizes: Tensor) -> Batch:
        mask = (torch.arange(int(sizes.max())) < sizes[:, None]).long()
        ids = torch.randint(1, 30000, mask.shape) * mask
        return Batch({"input_ids": ids, "attention_mask": mask}, torch.randint(2, (len(sizes),)))

    def alone(self, batches: Sequence[Batch]) -> list[Batch]:
        """Each text as a batch of its own, without padding."""
        texts = []
        for batch in batches:
            for row, size in enumerate(batch.inputs["attention_mask"].sum(1).tolist()):
                inputs = {name: values[[row], :size] for name, values in batch.inputs.items()}
                texts.append(Batch(inputs, batch.labels[[row]]))
        return texts

    def literal_gnorm(self, view: View, sentences: Sequence[Batch], every_weight: bool = True) -> Tensor:
        """Eq. 15 of Guo & Sheridan taken literally, with one backward pass per sentence: (units,).

        Computes the gradients of every weight, as an ordinary backward pass does, or only of W_Q, W_K and W_V.
        """
        weights = [
            view.model.get_submodule(site.projections[part]).weight
            for site in view.heads.sites
            for part in ("query", "key", "value")
        ]
        for weight in view.model.parameters() if every_weight else weights:
            weight.requires_grad_()
        heads = view.heads.sites[0].num_heads
        total = torch.zeros(len(view.heads.sites), 3, heads)
        for sentence in sentences:
            view.model.zero_grad()
            view.logits(sentence).norm().backward()
            norms = torch.stack([weight.grad.unflatten(0, (heads, -1)).flatten(1).norm(dim=1) for weight in weights])
            total += norms.view_as(total) / len(sentences)
        view.model.requires_grad_(False).zero_grad()
        return total.prod(1).flatten().double()

    def seconds(self, function: Callable, *arguments) -> tuple[float, object]:
        """Processor time, which other processes affect less than wall time; and the result."""
        begin = time.process_time()
        result = function(*arguments)
        return time.process_time() - begin, result


@pytest.fixture(scope="session")
def workload() -> Workload:
    return Workload()


@pytest.fixture
def tell(capsys, benchmark) -> Callable[[str, float], None]:
    """Print a ratio and store it with the benchmark."""

    def tell(what: str, ratio: float) -> None:
        benchmark.extra_info[what] = ratio
        with capsys.disabled():
            print(f"\n{what}: {ratio:.2f}")

    return tell
