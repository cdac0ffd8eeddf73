"""Labelled texts in three disjoint splits."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

SPLITS = ("train", "validation", "test")


class Example(NamedTuple):
    """One labelled text, or one labelled pair of texts."""

    texts: tuple[str, ...]  # one text, or premise and hypothesis
    label: int  # index into Dataset.labels


def relabelled(examples: Iterable[Example], numbers: Sequence[int]) -> tuple[Example, ...]:
    """The same examples, with the number of each class in place of its index."""
    return tuple(Example(example.texts, numbers[example.label]) for example in examples)


@dataclass(frozen=True)
class Dataset:
    """Labelled examples under the data set's own name.

    ``train`` is for training and calibration, ``validation`` for choices, ``test`` for the number reported.
    """

    name: str
    labels: tuple[str, ...]
    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]
    remarks: tuple[str, ...] = field(
        default=(), compare=False, kw_only=True
    )  # shown before a run: its files, dropped rows
    numbered: bool = field(
        default=False, compare=False, kw_only=True
    )  # its labels were numbers, which stand for classes that are known otherwise

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over the labels and every example of every split, in order."""
        digest = hashlib.sha256(json.dumps([self.name, self.labels]).encode())
        for split in SPLITS:
            digest.update(split.encode())
            for example in getattr(self, split):
                digest.update(json.dumps(example, ensure_ascii=False).encode())
        return digest.hexdigest()

    @property
    def sizes(self) -> str:
        """Number of examples in each split, as text."""
        return f"{' + '.join(str(len(getattr(self, split))) for split in SPLITS)} examples ({' + '.join(SPLITS)})"

    @property
    def majority_accuracy(self) -> float:
        """Accuracy on ``test``, 0 to 1, of always predicting its most frequent label."""
        counts = Counter(example.label for example in self.test)
        return max(counts.values()) / counts.total()
