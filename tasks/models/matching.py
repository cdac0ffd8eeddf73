"""Whether a model, its tokenizer and the texts belong together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedTokenizerBase

from tasks.data.dataset import SPLITS, Dataset
from tasks.data.encode import encode
from tasks.errors import TaskError

if TYPE_CHECKING:  # slow to import
    from transformers import PreTrainedModel

SPACES = " ▁Ġ"  # a space, plain and as tokenizers write it
NAMES = {"input_ids": ("id", "token"), "token_type_ids": ("type", "token type")}


def check_texts(
    data: Dataset,
    where: str,
    tokenizer: PreTrainedTokenizerBase,
    length: int,
    known: Mapping[str, int],
    model: str,
) -> None:
    """Raise TaskError for a text without a token other than special ones and spaces, or that the model cannot read.

    where: the data, as the user named it. length: most tokens of a text. known: how many token ids, and types of
    tokens, the model has, by the name of the input. model: as the user named it.
    """
    empty = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    empty |= {token_id for token, token_id in tokenizer.get_vocab().items() if not token.strip(SPACES)}
    for split in SPLITS:
        examples = getattr(data, split)
        for example, encoded in zip(examples, encode(examples, tokenizer, length), strict=True):
            tokens = encoded.tokens["input_ids"]
            if empty.issuperset(tokens):
                raise TaskError(f"{where}: a {split} text has only special tokens or spaces: {example.texts!r}")
            for name, number in known.items():
                if (largest := max(encoded.tokens.get(name, [0]))) >= number:
                    given, has = NAMES[name]
                    raise TaskError(
                        f"{model}: the tokenizer gives token {given} {largest}, the model has {number} "
                        f"{has}{'s' * (number != 1)}: they do not belong together"
                    )


def check_causal(model: PreTrainedModel, vocabulary: int, name: str) -> None:
    """Raise TaskError for a model whose attention is not causal, or with fewer tokens than its tokenizer."""
    embeddings: Any = model.get_input_embeddings()
    if vocabulary > embeddings.num_embeddings:
        raise TaskError(
            f"{name}: the tokenizer has {vocabulary} tokens, the model {embeddings.num_embeddings}: they do not "
            "belong together"
        )
    ids = torch.arange(6, device=model.device)[None].clamp_max(embeddings.num_embeddings - 1)
    inputs = embeddings(ids).detach().requires_grad_()
    logits = model.eval().requires_grad_(False)(inputs_embeds=inputs).logits[0, :3]
    (gradient,) = torch.autograd.grad(logits.float().norm(), inputs)
    if gradient[0, 3:].any():  # exactly zero where attention is causal, in any precision
        raise TaskError(f"{name}: {type(model).__name__} attends to later tokens: it is not a causal language model")
