"""Latency of generation: greedy, token by token with a cache of keys and values, as the AMP paper times it.

Mugnaini et al. 2025, arXiv 2504.21174: one text, 12 tokens of prompt, 128 new ones, 20 runs after 10 warm-ups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bench.measure.timing import interleaved
from bench.records.fields import Samples
from bench.records.measured import Generation
from tasks.contract import Task
from tasks.translating.generate import cache_that_fits

PROMPT, NEW = 12, 128  # tokens
WARM_UPS, REPEATS = 10, 20
PATIENCE = 900.0  # seconds after which the repeats of slow models end


@torch.no_grad()
def generation_latency(task: Task, groups: Iterable[Mapping[int, Any]], device: torch.device) -> Generation:
    """Raw seconds by number of units removed, and the tokens of each run.

    groups: models with a ``generate``, as ``forward_latency`` takes them; the prompt of an encoder with a decoder is
    its source. Every run generates as many tokens, whatever they are, and fewer than the paper's only where the model
    has no positions for so many.
    """
    text = task.probe(1, device).inputs["input_ids"]  # (1, T), repeated where it is short
    samples: Samples = {}
    for models in groups:
        config = next(iter(models.values())).config
        positions = getattr(config, "max_position_embeddings", None) or PROMPT + NEW
        prompt = min(PROMPT, positions - 1)
        new = min(NEW, positions - (1 if config.is_encoder_decoder else prompt))  # a decoder begins with one token
        ids = text.repeat(1, -(-prompt // text.shape[1]))[:, :prompt]
        settings: dict[str, Any] = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, "num_beams": 1}
        settings |= {"use_cache": True, "pad_token_id": 0, "attention_mask": torch.ones_like(ids)}  # nothing is padded
        calls = {removed: partial(_generate, model, ids, settings) for removed, model in models.items()}
        found = interleaved(calls, device, warm_ups=WARM_UPS, repeats=REPEATS, patience=PATIENCE)
        samples |= {removed: laps.wall for removed, laps in found.items()}
        del models, calls  # before the next group is made
    return Generation(samples=samples, prompt=prompt, new=new)


def _generate(model: Any, ids: Tensor, settings: Mapping[str, Any]) -> None:
    model.generate(ids, **settings, **cache_that_fits(model))
