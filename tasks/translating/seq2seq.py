"""Encoders with decoders from a folder, and their tokenizers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoModelForSeq2SeqLM, PreTrainedConfig, PreTrainedTokenizerBase

from tasks.data.dataset import Example
from tasks.errors import TaskError
from tasks.models import checkpoint
from tasks.translating.languages import Languages
from tasks.translating.pairs import Pair

if TYPE_CHECKING:  # slow to import
    from transformers import PreTrainedModel


def check_config(config: PreTrainedConfig, name: str) -> None:
    """Raise TaskError for the configuration of a model that is no encoder with a decoder of text."""
    if not config.is_encoder_decoder:
        raise TaskError(
            f"{name}: {config.model_type} is not an encoder with a decoder, so it has nothing to translate from; for "
            "a language model use --task harness"
        )
    checkpoint.skeleton(config, name, AutoModelForSeq2SeqLM)  # raises if there is no such model


def load(folder: Path) -> PreTrainedModel:
    """The encoder with a decoder in ``folder``, pruned or not, in float32.

    Raises TaskError if there is none, or a part has no trained weights: fine-tuning needs them all, too.
    """
    model, untrained = checkpoint.read(folder, AutoModelForSeq2SeqLM)
    if untrained or model.get_output_embeddings() is None:
        part = ", ".join(untrained[:3]) or "an output over the vocabulary"
        raise TaskError(f"{folder}: {type(model).__name__} translates nothing: no trained weights for {part}")
    return model


def check_ends(model: Any, languages: Languages, name: str) -> None:
    """Raise TaskError unless ``model``, or the language, says with which tokens a translation begins and ends."""
    begins = [each.decoder_start_token_id for each in (languages, model.generation_config, model.config)]
    if all(token is None for token in begins):
        raise TaskError(f"{name}: config.json has no decoder_start_token_id, with which decoding begins")
    if model.generation_config.eos_token_id is None:
        raise TaskError(f"{name}: config.json has no eos_token_id, with which a translation ends")


def check_ids(model: Any, pairs: Sequence[Pair], name: str) -> None:
    """Raise TaskError if ``pairs`` have token ids that ``model`` has no embedding or no logit for.

    Encoder, decoder and output may have vocabularies of different sizes.
    """
    sizes = {
        "source": _embedded(model.get_encoder()),
        "decoder": _embedded(model.get_decoder()),
        "target": len(model.get_output_embeddings().weight),
    }
    for side, size in sizes.items():
        if size is None:
            continue
        largest = max((token for pair in pairs for token in getattr(pair, side)), default=0)
        if largest >= size:
            where = "a source" if side == "source" else "a target"
            raise TaskError(
                f"{name}: the tokenizer gives {where} token id {largest}, the model has {size} tokens: they do not "
                "belong together"
            )


def _embedded(part: Any) -> int | None:
    """Number of tokens that an encoder or decoder has embeddings of; None where it does not say."""
    try:
        return len(part.get_input_embeddings().weight)
    except (AttributeError, NotImplementedError):
        return None


def encode(
    examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, model: Any, languages: Languages, longest: int
) -> list[Pair]:
    """Sources and targets as token ids, each cut to ``longest``, for ``model``."""
    sources = [languages.prefix + example.texts[0] for example in examples]
    cut: dict[str, Any] = {"truncation": True, "max_length": longest}
    ids = tokenizer(sources, **cut)["input_ids"]
    targets = tokenizer(text_target=[example.texts[1] for example in examples], **cut)["input_ids"]
    return [Pair(source, _moved(model, target), target) for source, target in zip(ids, targets, strict=True)]


def sources_cut(
    examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, languages: Languages, longest: int
) -> int:
    """How many sources have more than ``longest`` tokens."""
    ids = tokenizer([languages.prefix + example.texts[0] for example in examples])["input_ids"]
    return sum(len(source) > longest for source in ids)


def _moved(model: Any, target: list[int]) -> list[int]:
    """``target`` one place to the right, as ``model(labels=...)`` does it: mBART puts the last token first."""
    if hasattr(model, "prepare_decoder_input_ids_from_labels"):
        return model.prepare_decoder_input_ids_from_labels(torch.tensor([target]))[0].tolist()
    return [model.config.decoder_start_token_id, *target[:-1]]
