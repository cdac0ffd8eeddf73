"""The arrays beside a record, as they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from bench.records.errors import CorruptRecord
from bench.records.storage.files import NotAFile
from bench.records.storage.packed import read_stored

ODD = (ValueError, KeyError, AttributeError, TypeError)  # raised where content is of an unexpected kind


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of the record at ``path``, by name; ``outcomes`` is (draws, levels, N) bool. Raises CorruptRecord."""
    beside = path.with_suffix(".safetensors")
    try:
        return decode_arrays(read_stored(beside), beside)
    except (OSError, NotAFile) as error:
        raise CorruptRecord(f"corrupt arrays {beside}: {error}") from error


def decode_arrays(content: bytes, beside: Path) -> dict[str, np.ndarray]:
    """The arrays in ``content``, which was read from ``beside``. Raises CorruptRecord."""
    try:
        arrays = load(content)
        size = int.from_bytes(content[:8], "little")
        examples = int(json.loads(content[8 : 8 + size])["__metadata__"]["examples"])
        packed = arrays["outcomes"]
        if packed.dtype != np.uint8 or packed.ndim != 3 or packed.shape[-1] != -(-examples // 8):
            raise ValueError(f"outcomes of {packed.dtype} {packed.shape} for {examples} examples")
        return arrays | {"outcomes": np.unpackbits(packed, axis=-1, count=examples).astype(bool)}
    except (*ODD, RecursionError, SafetensorError) as error:
        raise CorruptRecord(f"corrupt arrays {beside}: {error}") from error


def neuron_orders(arrays: Mapping[str, np.ndarray], draw: int = 0) -> dict[str, np.ndarray]:
    """The removal orders of neurons in one draw, (width,) integers, by feed-forward layer; empty if there are none."""
    return _named(arrays, f"neurons.{draw}.", masks=False)


def neurons_kept(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The neurons that a method without orders keeps at each level, (levels, width) bool, by feed-forward layer."""
    return _named(arrays, "neurons.", masks=True)


def _named(arrays: Mapping[str, np.ndarray], prefix: str, masks: bool) -> dict[str, np.ndarray]:
    return {
        name.removeprefix(prefix): values
        for name, values in arrays.items()
        if name.startswith(prefix) and (values.dtype == bool) is masks
    }


def read_outcomes(path: Path) -> np.ndarray:
    """Per-example outcomes of the record at ``path``, (draws, levels, N) bool. Raises CorruptRecord."""
    return read_arrays(path)["outcomes"]
