"""From sources to translations: greedy or by beams, in batches of similar length, with a cache of keys and values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from tasks.data.encode import Batch
from tasks.translating.languages import Languages

PER_TOKEN, MORE = 2, 10  # a translation ends, at the latest, at so many tokens for each of its source, and so many more


@torch.no_grad()
def translate(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    batches: Iterable[Batch],
    *,
    longest: int,
    languages: Languages,
    beams: int = 1,
) -> dict[int, str]:
    """The translation of each source in ``batches`` by its index, with single spaces between words.

    Nothing is drawn at random. How long a translation may get depends on its own source alone, not on its batch.

    longest: tokens that the decoder has positions for.
    """
    found: dict[int, str] = {}
    settings: dict[str, Any] = {"num_beams": beams, "do_sample": False, "use_cache": True, **languages.of_generation}
    for batch in batches:
        mask = batch.inputs["attention_mask"]
        limits = (PER_TOKEN * mask.sum(1) + MORE).clamp_max(longest - 1).tolist()
        settings["max_new_tokens"] = max(limits)
        ids = model.generate(input_ids=batch.inputs["input_ids"], attention_mask=mask, **settings)
        rows = [row[: limit + 1] for row, limit in zip(ids.tolist(), limits, strict=True)]  # the first begins decoding
        texts = tokenizer.batch_decode(rows, skip_special_tokens=True)
        found |= {index: " ".join(text.split()) for index, text in zip(batch.indices.tolist(), texts, strict=True)}
    return found
