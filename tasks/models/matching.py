"""Whether a model, its tokenizer and the texts belong together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from tasks.data.dataset import SPLITS, Dataset
from tasks.data.encode import CHUNK, encode
from tasks.errors import TaskError

if TYPE_CHECKING:  # slow to import
    from transformers import PreTrainedModel

SPACES = " ▁Ġ"  # a space, plain and as tokenizers write it
NAMES = {"input_ids": ("id", "token"), "token_type_ids": ("type", "token type")}


def known_inputs(model: PreTrainedModel) -> dict[str, int]:
    """How many token ids, and types of tokens, ``model`` has, by the name of the input; none where any will do."""
    known = {}
    try:
        embeddings: Any = model.get_input_embeddings()
        known["input_ids"] = len(embeddings.weight)
    except NotImplementedError:  # CANINE reads characters, and has embeddings of what they hash to
        pass
    if types := getattr(model.config, "type_vocab_size", 0):
        known["token_type_ids"] = types
    return known


def end_of_texts(config: PreTrainedConfig) -> int | None:
    """The token at which a classifier with an encoder and a decoder reads the class; None for other models."""
    reads = config.is_encoder_decoder and not config.model_type.startswith("t5gemma")  # which read at the last token
    return config.eos_token_id if reads and isinstance(config.eos_token_id, int) else None


def check_texts(
    data: Dataset,
    where: str,
    tokenizer: PreTrainedTokenizerBase,
    length: int,
    known: Mapping[str, int],
    model: str,
    end: int | None = None,
) -> None:
    """Raise TaskError for a text without a token other than special ones and spaces, or that the model cannot read.

    where: the data, as the user named it. length: most tokens of a text. known: ``known_inputs`` of the model. model:
    as the user named it. end: a token that ends texts, at which the model reads the class, and so fails where a text
    holds it too.
    """
    empty = set(tokenizer.all_special_ids) & {*tokenizer.added_tokens_decoder} - {tokenizer.unk_token_id}
    empty |= {token_id for token, token_id in tokenizer.get_vocab().items() if not token.strip(SPACES)}
    for split in SPLITS:
        examples = getattr(data, split)
        ends = tokenizer(*["a"] * len(examples[0].texts))["input_ids"].count(end) if examples else 0
        if end is not None and examples and not ends:
            raise TaskError(
                f"{model}: the tokenizer does not end texts with {tokenizer.convert_ids_to_tokens(end)}, at which the "
                "model reads the class: they do not belong together"
            )
        for example, encoded in zip(examples, encode(examples, tokenizer, length), strict=True):
            tokens = encoded.tokens["input_ids"]
            if empty.issuperset(tokens):
                raise TaskError(f"{where}: a {split} text has only special tokens or spaces: {example.texts!r}")
            if end is not None and tokens.count(end) > ends:
                token = tokenizer.convert_ids_to_tokens(end)
                raise TaskError(
                    f"{where}: a {split} text holds {token}, which ends texts: {model} would read its class there; "
                    f"take it out of {example.texts!r}"
                )
            for name, number in known.items():
                if (largest := max(encoded.tokens.get(name, [0]))) >= number:
                    given, has = NAMES[name]
                    raise TaskError(
                        f"{model}: the tokenizer gives token {given} {largest}, the model has {number} "
                        f"{has}{'s' * (number != 1)}: they do not belong together"
                    )


def check_tokens(data: Dataset, where: str, tokenizer: PreTrainedTokenizerBase, length: int, model: str) -> None:
    """Raise TaskError for a training or test text of which the tokenizer of a language model makes no token."""
    for split in ("train", "test"):
        texts = [example.texts[0] for example in getattr(data, split)]
        for start in range(0, len(texts), CHUNK):
            chunk = texts[start : start + CHUNK]
            for text, ids in zip(chunk, tokenizer(chunk, truncation=True, max_length=length)["input_ids"], strict=True):
                if not ids:
                    raise TaskError(
                        f"{where}: a {split} text has no token that the tokenizer of {model} knows: {text!r}; leave it "
                        "out"
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
