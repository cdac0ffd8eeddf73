"""The kinds of tiny models on which methods are checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from methods import View
from methods.checks.tiny import Batch, Tiny
from methods.heads import HeadMap

TINY = Tiny()


@dataclass(frozen=True)
class TinyModel:
    """A kind of tiny random model, and the side on which its texts are padded."""

    name: str
    about: str
    architecture: str
    padding: str = "right"

    @property
    def tied(self) -> bool:
        """Whether all layers share one set of heads."""
        return self.architecture == "albert"

    def view(
        self, seed: int = 0, dtype: torch.dtype = torch.float32, device: str = "cpu", batches: Sequence[Batch] = ()
    ) -> View:
        """A view of a new model, frozen as in a run. Default batches: one of six random texts with padding."""
        model: Any = TINY.model(self.architecture, seed, dtype).requires_grad_(False)
        batches = batches or [TINY.batch(TINY.sentences(seed), self.padding, extra=1)]
        moved = [Batch({k: v.to(device) for k, v in b.inputs.items()}, b.labels.to(device)) for b in batches]
        return TINY.view(model.to(device), moved, TINY.unit(self.architecture), seed=seed)


TINY_MODELS = (
    TinyModel("bert", "an encoder", "bert"),
    TinyModel("albert", "tied layers", "albert"),
    TinyModel("llama", "grouped queries, a unit is a group", "llama"),
    TinyModel("llama-query", "grouped queries, a unit is one query head of every group", "llama-query"),
    TinyModel("llama-left", "padding on the left", "llama", padding="left"),
)


def with_model(view: View, model: nn.Module) -> View:
    """``view`` with another model, all of whose units are kept."""
    heads = HeadMap.of(model, view.heads.unit)
    return replace(view, model=model, heads=heads, kept=heads.full_mask())
