"""From sources to translations: greedy or by beams, in batches of similar length, with a cache of keys and values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache, LogitsProcessor, PreTrainedTokenizerBase

from tasks.data.encode import Batch
from tasks.translating.languages import Languages
from tasks.translating.teacher_forcing import LOGITS

PER_TOKEN, MORE = 2, 10  # a translation ends, at the latest, at so many tokens for each of its source, and so many more
BATCH = 256
# Settings in a model's generation_config.json that are not followed: ways to generate that need further arguments or
# foreign code, a limit by the clock, and what is returned besides one translation of each source.
UNSET = (
    *("assistant_early_exit", "constraints", "dola_layers", "force_words_ids", "guidance_scale", "is_assistant"),
    *("low_memory", "max_time", "num_beam_groups", "penalty_alpha", "prompt_lookup_num_tokens", "stop_strings"),
    *("token_healing", "use_mtp"),
)
ONE_TEXT = {"num_return_sequences": 1, "return_dict_in_generate": False}
CACHED = 2**28  # numbers in the cache of keys and values of a batch, approximately: 1 GB in float32


def batch_size(model: Any, tokenizer: PreTrainedTokenizerBase, beams: int, longest: int) -> int:
    """Number of sources to translate together: at most ``BATCH``, and so that logits stay near ``LOGITS``.

    Only those of the last token are held, for each beam; and the keys and values of ``longest`` tokens of the source
    and of the target in each layer of the decoder, which stay near ``CACHED``.
    """
    config = model.config
    named = (getattr(config, name, None) for name in ("decoder_layers", "num_decoder_layers", "num_hidden_layers"))
    layers = next(filter(None, named), 1)
    cached = 2 * 2 * longest * layers * config.hidden_size
    return min(BATCH, max(1, min(LOGITS // (beams * len(tokenizer)), CACHED // (beams * cached))))


def cache_that_fits(model: Any) -> dict[str, Any]:
    """Further arguments of one call of ``model.generate``: a cache that grows, where that of transformers is too small.

    That of a T5 has as many layers as the encoder (transformers 5.23), and the decoder may have more.
    """
    decoder = getattr(model.config, "num_decoder_layers", None)
    if not decoder or decoder <= model.config.num_hidden_layers:
        return {}
    return {"past_key_values": EncoderDecoderCache(DynamicCache(), DynamicCache())}


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

    Nothing is drawn at random, and a translation depends on its own source alone, not on its batch.

    longest: tokens that the decoder has positions for.
    """
    found: dict[int, str] = {}
    own = model.generation_config
    settings: dict[str, Any] = {name: None for name in UNSET if getattr(own, name, None) is not None}
    settings |= {**ONE_TEXT, "num_beams": beams, "do_sample": False, "use_cache": True, **languages.of_generation}
    for batch in batches:
        mask = batch.inputs["attention_mask"]
        limits = (PER_TOKEN * mask.sum(1) + MORE).clamp_max(longest - 1)
        settings["max_new_tokens"] = int(limits.max()) + 1
        settings["logits_processor"] = [_End(limits.repeat_interleave(beams), own.eos_token_id)]
        ids = model.generate(
            input_ids=batch.inputs["input_ids"], attention_mask=mask, **settings, **cache_that_fits(model)
        )
        texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
        found |= {index: " ".join(text.split()) for index, text in zip(batch.indices.tolist(), texts, strict=True)}
    return found


class _End(LogitsProcessor):
    """Lets each translation end after so many tokens, (B,), with the token ``end``."""

    def __init__(self, limits: Tensor, end: int | list[int]):
        self._limits, self._end = limits, end

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        ends = torch.full_like(scores, -torch.inf)
        ends[:, self._end] = 0
        return torch.where((input_ids.shape[1] > self._limits)[:, None], ends, scores)  # the first begins decoding
