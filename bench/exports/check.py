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
def runner_gap(model: Any, runner: Runner, inputs: Mapping[str, Tensor]) -> float:
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
    pairs = [(runner.logits(inputs), model(**inputs, position_ids=positions(mask), use_cache=False).logits)]
    if runner.has_cache and mask.shape[1] > 1:  # without any head there is nothing to keep
        first = mask.shape[1] // 2
        pairs.append((runner.logits_in_parts(inputs, first), _in_parts(model, inputs, first)))
    return largest([gap_between(found[mask.bool()], expected[mask.bool()]) for found, expected in pairs])


def _in_parts(model: Any, inputs: Mapping[str, Tensor], first: int) -> Tensor:
    """Logits of the ``first`` tokens, and of the others with their cache: not those of the whole text for every model.

    With longrope, the frequencies of positions are others once a text is longer than those that the model began with.
    """
    mask = inputs["attention_mask"]
    places = positions(mask)
    start = {name: value[:, :first] for name, value in inputs.items()}
    before = model(**start, position_ids=places[:, :first], use_cache=True)
    rest = {**inputs, "input_ids": inputs["input_ids"][:, first:]}
    after = model(**rest, position_ids=places[:, first:], past_key_values=before.past_key_values, use_cache=True)
    return torch.cat([before.logits, after.logits], dim=1)


def largest(gaps: Sequence[float]) -> float:
    """The largest of ``gaps``; NaN where one is, of which ``max`` may lose sight."""
    return float(np.max(gaps))
