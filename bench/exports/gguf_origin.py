"""Whether a GGUF file is of the model that a checkpoint was pruned from, as far as its settings say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from bench.records.errors import InputError

EVEN = "llama"  # the architecture in llama.cpp
USUAL_BASE = 10000.0  # of the frequencies of positions
FREQUENCIES = "rope_freqs.weight"  # by which frequencies of a Llama 3 are divided; made from its configuration


def check_same_model(model: Any, head_dim: int, fields: Mapping[str, Any], file: Any, like: Path) -> None:
    """Raise InputError where the file ``like`` and the configuration of ``model`` say different things.

    fields: of the file, by name. file: the reader that has it open.
    """
    from gguf import GGUFEndian

    if file.endianess != GGUFEndian.LITTLE:
        raise InputError(f"{like}: a big-endian file; little-endian ones are read")
    if (parts := _number(fields, "split.count", 1, like)) > 1:
        raise InputError(f"{like}: one of {parts:g} parts: put them together by llama-gguf-split --merge")
    if (architecture := fields.get("general.architecture")) != EVEN:
        raise InputError(f"{like}: of architecture {architecture}, expected {EVEN}, of the unpruned model")
    config = model.config
    rope = config.rope_parameters
    expected = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "attention.key_length": head_dim,
        "rope.dimension_count": head_dim,
        "rope.freq_base": rope["rope_theta"],
    }
    for name, ours in expected.items():
        missing = USUAL_BASE if name == "rope.freq_base" else ours  # llama.cpp's own, where the file says nothing
        theirs = _number(fields, f"{EVEN}.{name}", missing, like)
        if not np.isclose(ours, theirs, rtol=1e-5):
            raise InputError(f"{like}: {EVEN}.{name} is {theirs:g}, that of the checkpoint {ours:g}: another model")
    _check_rope(rope, head_dim, fields, file, like)


def _check_rope(rope: Mapping[str, Any], head_dim: int, fields: Mapping[str, Any], file: Any, like: Path) -> None:
    """Raise InputError where positions are not scaled as by ``rope``, of the checkpoint's configuration."""
    kind = rope.get("rope_type", "default")
    if kind not in ("default", "linear", "llama3"):
        raise InputError(f"rope_type={kind}: GGUF files are written of models with default, linear or llama3")
    type_, factor = ("linear", rope["factor"]) if kind == "linear" else ("none", 1.0)
    divided = next((tensor.data for tensor in file.tensors if tensor.name == FREQUENCIES), None)
    same = type_ == fields.get(f"{EVEN}.rope.scaling.type", "none")
    same &= math.isclose(factor, _number(fields, f"{EVEN}.rope.scaling.factor", 1.0, like), rel_tol=1e-5)
    same &= (divided is not None) == (kind == "llama3")
    if same and divided is not None:
        expected = divisors(rope, head_dim)
        same = divided.shape == expected.shape and np.allclose(divided, expected, rtol=1e-4)
    if not same:
        raise InputError(f"{like}: positions are scaled otherwise than in the checkpoint ({kind}): another model")


def _number(fields: Mapping[str, Any], name: str, default: float, like: Path) -> float:
    """The setting ``name`` of the file ``like``. Raises InputError where it is no number."""
    value = fields.get(name, default)
    if not isinstance(value, Real):
        raise InputError(f"{like}: {name} is {value!r}, expected a number")
    return float(value)


def divisors(rope: Mapping[str, Any], head_dim: int) -> np.ndarray:
    """What Llama 3.1 divides each frequency by: 1 for short waves, the factor for long ones, (head_dim / 2,)."""
    frequency = rope["rope_theta"] ** -(np.arange(0, head_dim, 2) / head_dim)
    turns = rope["original_max_position_embeddings"] * frequency / (2 * np.pi)  # within the original context
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    short = np.clip((turns - low) / (high - low), 0, 1)
    return 1 / ((1 - short) / rope["factor"] + short)
