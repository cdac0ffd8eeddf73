"""Latency of generation: greedy, token by token with a cache of keys and values, as the AMP paper times it.

Mugnaini et al. 2025, arXiv 2504.21174: one text, 12 tokens of prompt, 128 new ones, 20 runs after 10 warm-ups.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from bench.measure.cost import timing
from tasks.contract import Task

PROMPT, NEW = 12, 128  # tokens
WARM_UPS, REPEATS = 10, 20
PATIENCE = 900.0  # seconds after which a slow model's runs end, five at least


@torch.no_grad()
def generation(task: Task, groups: Iterable[Mapping[int, Any]], device: torch.device) -> dict[str, Any]:
    """Raw seconds of generating: for each number of units removed, a list of samples; and the tokens of each run.

    groups: language models with a ``generate``, all of one vocabulary, as ``latency`` takes them. Every run
    generates as many tokens, whatever they are, and fewer than the paper's only where the model has no positions
    for so many.
    """
    text = task.probe(1, device).inputs["input_ids"]  # (1, T), repeated where it is short
    samples: dict[str, list[float]] = {}
    told = {}
    for models in groups:
        positions = getattr(next(iter(models.values())).config, "max_position_embeddings", None) or PROMPT + NEW
        prompt = min(PROMPT, positions - 1)
        new = min(NEW, positions - prompt)
        ids = text.repeat(1, -(-prompt // text.shape[1]))[:, :prompt]
        samples |= {str(removed): taken for removed, taken in _timed(models, ids, new, device).items()}
        told = {"prompt": prompt, "new": new}
        del models  # before the next group is made
    return {"samples": samples, **told}


def _timed(models: Mapping[int, Any], ids: Tensor, new: int, device: torch.device) -> dict[int, list[float]]:
    """Samples by number of units removed; one repeat takes every model once."""
    settings: dict[str, Any] = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, "num_beams": 1}
    settings |= {"use_cache": True, "pad_token_id": 0, "attention_mask": torch.ones_like(ids)}  # nothing is padded
    samples: dict[int, list[float]] = {removed: [] for removed in models}
    begin = time.perf_counter()
    for repeat in range(WARM_UPS + REPEATS):
        if repeat >= WARM_UPS + 5 and time.perf_counter() - begin > PATIENCE:
            break
        for removed, model in models.items():
            with timing(device) as seconds:
                model.generate(ids, **settings)
            if repeat >= WARM_UPS:
                samples[removed] += seconds
    return samples
