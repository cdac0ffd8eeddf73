"""Whether ONNX files compute what the model does."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.exports.runner import Runner, positions
from bench.measure.exactness import gap_between


@torch.no_grad()
def largest_gap(model: Any, runner: Runner, inputs: Mapping[str, Tensor]) -> float:
    """Largest difference between the logits of ``model`` and of its files, in units of their scale.

    The files are in float32, so a model in another type is compared as a copy in float32.

    inputs: what a model on the CPU is called with, (B, T) each, with an ``attention_mask``. It is shortened to half of
    its length too. A language model is also given the text in two parts, the second one with the cache of the first.
    What it says at padding is left out.
    """
    if model.dtype != torch.float32:
        model = copy.deepcopy(model).float()
    length = inputs["attention_mask"].shape[1]
    lengths = {length, max(1, length // 2)}
    return largest([_gap(model, runner, _shortened(inputs, each)) for each in lengths])


def _shortened(inputs: Mapping[str, Tensor], length: int) -> dict[str, Tensor]:
    """The first tokens of each text and its last one, by which some classifiers tell its end: (B, length) each."""
    mask = inputs["attention_mask"]
    places = torch.arange(mask.shape[1])
    kept = places[:length].repeat(len(mask), 1)
    kept[:, -1] = (places * mask).max(1).values.clamp_min(length - 1)
    decoded = "decoder_input_ids"  # of another length than the text
    return {name: value[:, :length] if name == decoded else value.gather(1, kept) for name, value in inputs.items()}


def _gap(model: Any, runner: Runner, inputs: Mapping[str, Tensor]) -> float:
    if not model.can_generate() or model.config.is_encoder_decoder:
        return gap_between(runner.logits(inputs), model(**inputs).logits)
    mask = inputs["attention_mask"]
    expected = model(**inputs, position_ids=positions(mask), use_cache=False).logits[mask.bool()]
    found = [runner.logits(inputs)]
    if runner.has_cache and mask.shape[1] > 1:  # without any head there is nothing to keep
        found.append(runner.logits_in_parts(inputs, mask.shape[1] // 2))
    return largest([gap_between(each[mask.bool()], expected) for each in found])


def largest(gaps: Sequence[float]) -> float:
    """The largest of ``gaps``; NaN where one is, of which ``max`` may lose sight."""
    return float(np.max(gaps))
