"""The small decoder for the built-in documents: its tokenizer, initial weights and training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from tasks.builtin.abilities import Document
from tasks.builtin.weights import sharpen_attention
from tasks.data.encode import Batch, Encoded, batches
from tasks.models import train
from tasks.seeds import Seeds, drawn_from

if TYPE_CHECKING:  # slow to import
    from transformers import LlamaForCausalLM

PAD, UNKNOWN, BEGIN = "[PAD]", "[UNK]", "[BEGIN]"
POSITIONS = 64
ROTARY_BASE = 30.0  # far below the usual 10,000, with which most rotations would hardly move within texts this short
# Near the scale of what an attention layer adds: far below it, layers above the first hardly see the words themselves,
# and looking up what followed a word, which takes two layers, may never be learned.
EMBEDDING_STD = 0.4
# Weights in the loss: of a document's predictable words together, and of each other word, whose probability would be
# arbitrary at 0. Whole numbers; the first is divisible by the number of predictable words.
PREDICTABLE, OTHER_WORD = 60, 3


def build(documents: Sequence[Document], seed: int) -> tuple[PreTrainedTokenizerFast, LlamaForCausalLM]:
    """Tokenizer of the words in ``documents``, and a Llama of 4 layers with 8 query and 4 KV heads drawn from ``seed``.

    The tokenizer adds no special tokens; ``[BEGIN]`` goes before a text whose first word is to be scored as well.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = _tokenizer(documents)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=16,
        max_position_embeddings=POSITIONS,
        rope_parameters={"rope_type": "default", "rope_theta": ROTARY_BASE},
        initializer_range=0.09,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    with drawn_from(seed):
        model = LlamaForCausalLM(config)
        sharpen_attention(model)
        embeddings = model.model.embed_tokens.weight
        # A shared part lets heads attend by distance, whatever the words, before they have learned anything.
        shared = EMBEDDING_STD * torch.randn(config.hidden_size)
        with torch.no_grad():
            embeddings.normal_(std=EMBEDDING_STD).add_(shared)
    return tokenizer, model.eval()


def fit(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    splits: dict[str, tuple[Document, ...]],
    recipe: train.Recipe,
    seeds: Seeds,
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[int, int, float], None] | None = None,
) -> dict[str, Any]:
    """Train ``model`` in place on ``splits["train"]``; see ``tasks.models.train.train`` for the other arguments.

    Accuracy is that of choosing the likeliest of the four endings for each document of ``splits["validation"]``.
    """
    torch.nn.Module.to(model, torch.device(device))
    setup = train.TrainingSetup(
        encode(splits["train"], tokenizer), tokenizer, recipe, seeds.of("training order"), device
    )
    questions = splits["validation"]
    return train.fit(
        model,
        setup,
        lambda batch: loss(model(batch.inputs["input_ids"]).logits, batch).mean(),
        lambda: (
            (choose(model, tokenizer, questions) == torch.tensor([q.label for q in questions])).double().mean().item()
        ),
        recipe,
        seeds,
        name="abilities",
        progress=progress,
    )


def encode(documents: Sequence[Document], tokenizer: PreTrainedTokenizerBase) -> list[Encoded]:
    """Tokens and their weights in the loss for each document; every other document begins with ``[BEGIN]``."""
    encoded: list[Encoded] = []
    for index, document in enumerate(documents):
        begin = [tokenizer.bos_token_id] if index % 2 else []
        weights = [0] * len(begin) + [OTHER_WORD] * len(document.words)
        for position in document.predictable:
            weights[len(begin) + position] = PREDICTABLE // len(document.predictable)
        ids = begin + tokenizer.encode(document.text)
        tokens = {"input_ids": ids, "attention_mask": [1] * len(ids), "weights": weights}
        encoded.append(Encoded(tokens, document.label))
    return encoded


def loss(logits: Tensor, batch: Batch) -> Tensor:
    """Weighted cross-entropy of each document, (B,), from ``logits`` (B, T, vocabulary); padding has weight 0."""
    losses = F.cross_entropy(logits[:, :-1].transpose(1, 2).float(), batch.inputs["input_ids"][:, 1:], reduction="none")
    return (losses * batch.inputs["weights"][:, 1:]).sum(1) / PREDICTABLE


@torch.no_grad()
def choose(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, questions: Sequence[Document]) -> Tensor:
    """Index of the likeliest ending for each question: (N,) int64 on the CPU."""
    contexts = [Encoded({"input_ids": tokenizer.encode(q.context)}, 0) for q in questions]
    endings = torch.tensor([tokenizer.encode(" ".join(q.endings)) for q in questions])  # (N, 4)
    chosen = torch.empty(len(questions), dtype=torch.long)
    for batch in batches(contexts, tokenizer, train.EVALUATION_BATCH, by_length=True, device=model.device):
        last = torch.tensor([len(contexts[i].tokens["input_ids"]) - 1 for i in batch.indices.tolist()])
        logits = model(batch.inputs["input_ids"]).logits.cpu()[torch.arange(len(last)), last]  # (B, vocabulary)
        chosen[batch.indices] = logits.gather(1, endings[batch.indices]).argmax(1)
    return chosen


def _tokenizer(documents: Sequence[Document]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel(unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordLevelTrainer(special_tokens=[PAD, UNKNOWN, BEGIN], show_progress=False)
    tokenizer.train_from_iterator((document.text for document in documents), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        bos_token=BEGIN,
        eos_token=BEGIN,
        model_max_length=POSITIONS,
    )
