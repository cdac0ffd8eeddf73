"""Which training examples are held out before a model is trained, and which of those methods score on.

A model knows the texts it was trained on: its loss and gradients there are not those on new texts.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import torch

LEAST, MOST = 128, 512


class Division(NamedTuple):
    """Indices of a training split, each part ascending; repeats of what is held out are in neither."""

    training: list[int]
    held_out: list[int]


def size_held_out(texts: Sequence[Hashable]) -> int:
    """How many of ``texts``, the training split, are held out.

    A tenth of those that differ, 512 at most. Of few texts 128 are, but never more than a quarter: below four, none.
    """
    number = len(set(texts))
    return max(min(LEAST, number // 4), min(MOST, number // 10))


def divide(texts: Sequence[Hashable], seed: int) -> Division:
    """``size_held_out(texts)`` different texts held out, drawn from ``seed``, and the rest to train on.

    texts: what identifies each example; of equal ones the first can be held out, and none is trained on then.
    """
    first: dict[Hashable, int] = {}
    for index, text in enumerate(texts):
        first.setdefault(text, index)
    places = list(first.values())
    drawn = torch.randperm(len(places), generator=torch.Generator().manual_seed(seed))[: size_held_out(texts)]
    held_out = sorted(places[place] for place in drawn.tolist())
    gone = {texts[index] for index in held_out}
    return Division([index for index, text in enumerate(texts) if text not in gone], held_out)


def sample(pool: Sequence[int], size: int, seed: int) -> list[int]:
    """``size`` of ``pool`` (all, if fewer) drawn from ``seed``, in its order."""
    places = torch.randperm(len(pool), generator=torch.Generator().manual_seed(seed))[:size].sort().values
    return [pool[place] for place in places.tolist()]
