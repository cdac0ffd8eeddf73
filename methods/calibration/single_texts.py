"""The texts of the calibration set, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from methods.contract.view import Batch
from methods.heads.incremental import LengthGroup


def single_texts(batches: Sequence[Batch]) -> Iterator[LengthGroup]:
    """Each example of ``batches`` as a batch of its own, with the padding that it has there."""
    for batch in batches:
        for row in range(len(batch.labels)):
            one = slice(row, row + 1)
            yield LengthGroup({name: rows[one] for name, rows in batch.inputs.items()}, batch.labels[one])
