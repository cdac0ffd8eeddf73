"""Whether ONNX files compute what the model does."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bench.exports.runner import Runner, positions


@torch.no_grad()
def largest_gap(model: Any, runner: Runner, inputs: Mapping[str, Tensor]) -> float:
    """Largest difference between the logits of ``model`` and of its files, in units of their scale.

    The files are in float32, so a model in another type is compared as a copy in float32.

    inputs: what a model on the CPU is called with, (B, T) each, with an ``attention_mask``. It is cut to half of its
    length too. A language model is also given the text in two parts, the second one with the cache of the first. What
    it says at padding is left out.
    """
    if model.dtype != torch.float32:
        model = copy.deepcopy(model).float()
    mask = inputs["attention_mask"]
    gaps = []
    for length in {mask.shape[1], max(1, mask.shape[1] // 2)}:
        rows = mask[:, :length].any(1)  # of what is nothing but padding, nothing is said
        gaps.append(_gap(model, runner, {name: value[rows, :length] for name, value in inputs.items()}))
    return max(gaps)


def _gap(model: Any, runner: Runner, inputs: Mapping[str, Tensor]) -> float:
    if not runner.has_cache:
        return _difference(model(**inputs).logits, runner.logits(inputs))
    mask = inputs["attention_mask"]
    expected = model(**inputs, position_ids=positions(mask), use_cache=False).logits[mask.bool()]
    found = [runner.logits(inputs)]
    if mask.shape[1] > 1:
        found.append(runner.logits_in_parts(inputs, mask.shape[1] // 2))
    return max(_difference(expected, each[mask.bool()]) for each in found)


def _difference(expected: Tensor, found: Tensor) -> float:
    expected = expected.float()
    return float((found - expected).abs().max() / expected.abs().max().clamp_min(1))
