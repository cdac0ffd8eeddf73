"""Gates drawn at random for each text, in a way that does not depend on how texts are batched."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor

from methods.contract.view import Batch


def open_or_closed(batch: Batch, units: int, chance: float, seed: int) -> Tensor:
    """Gates for each text, (units, B): 1 with probability ``chance``, else 0. Equal texts get equal gates."""
    return torch.stack([(torch.rand(units, generator=each) < chance).float() for each in _generators(batch, seed)], 1)


def partly_closed(batch: Batch, units: int, draws: int, share: float, seed: int) -> Tensor:
    """Gates for each text, (draws, units, B): 1 where a gate is open, half of the others 0, the rest between 0 and 1.

    share: the largest share of the gates that are closed. In each draw the share of a text comes from another of as
    many equal parts of 0 to ``share`` as there are draws. Equal texts get equal gates.
    """

    def of_text(generator: torch.Generator) -> Tensor:
        part = torch.randperm(draws, generator=generator) + torch.rand(draws, generator=generator)
        closed = torch.rand(draws, units, generator=generator) < part[:, None] * share / draws
        halfway = torch.rand(draws, units, generator=generator) < 0.5
        return torch.where(closed, halfway * torch.rand(draws, units, generator=generator), 1.0)

    return torch.stack([of_text(each) for each in _generators(batch, seed)], 2)


def _generators(batch: Batch, seed: int) -> Iterator[torch.Generator]:
    """A generator for each example, seeded by its tokens without padding; by all its inputs if they have no tokens."""
    names = [name for name in batch.inputs if name.endswith("input_ids")] or list(batch.inputs)
    for row in range(len(batch.labels)):
        digest = hashlib.sha256(str(seed).encode())
        for name in names:
            value = batch.inputs[name][row].detach().cpu()
            mask = batch.inputs.get(name.replace("input_ids", "attention_mask")) if name.endswith("input_ids") else None
            real = value if mask is None else value[mask[row].cpu().bool()]
            digest.update(real.contiguous().flatten().view(torch.uint8).numpy().tobytes())
        yield torch.Generator().manual_seed(int.from_bytes(digest.digest()[:8]))
