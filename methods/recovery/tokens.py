"""What each output projection of a pruned model reads and ought to give, token by token, from the bottom up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from methods.calibration.contexts import each_context
from methods.calibration.padding import real_tokens
from methods.contract.choice import Choice
from methods.contract.view import Batch, View
from methods.heads import HeadMap
from methods.recovery.projection import Projection
from methods.recovery.stack import NotPlain, Stack


class Tokens(NamedTuple):
    """N tokens that are not padding, of one batch."""

    read: Tensor  # (N, k), by the output projection of the pruned model
    wanted: Tensor  # (N, d), of it
    texts: Tensor  # (N,), index of the text of each token in the calibration set


class Walk(Protocol):
    """Goes through the sites of a pruned model from the bottom up."""

    def sites(self) -> Iterator[int]:
        """Sites in which something may be recovered. The weights of one are final when the next is asked for."""

    def tokens(self, site: int) -> Iterator[Tokens]:
        """All calibration tokens at the site that is due; of tied layers, those of every call."""


def walk(view: View, choice: Choice, smaller: nn.Module) -> Walk:
    """Block by block if the model is one plain stack of blocks, otherwise in two passes for each site.

    smaller: the physically smaller model of ``choice``, whose weights are replaced on the way.
    """
    with torch.no_grad():
        try:
            full = Stack(view.batches, view.forward, choice.model, choice.heads)
            pruned = Stack(view.batches, view.forward, smaller, _map_of(smaller, choice))
            return _ByBlocks(view, choice, full, pruned)
        except NotPlain:
            return _ByPasses(view, choice, smaller)


def texts_of(batches: Sequence[Batch]) -> list[Tensor]:
    """Index in the calibration set of each text, by batch."""
    counts = [len(next(iter(batch.inputs.values()))) for batch in batches]
    return list(torch.arange(sum(counts)).split(counts))


def _map_of(smaller: nn.Module, choice: Choice) -> HeadMap:
    """The map of the smaller model, with the same sites as that of ``choice``."""
    return HeadMap.of(smaller, choice.heads.unit, choice.heads.kinds)


class _ByBlocks:
    """Both models go up block by block. What is wanted of a projection also makes up for what its input lacks:

    the unpruned projection's output plus the input of its block, less the input of the pruned model's block, where the
    block adds the two.
    """

    def __init__(self, view: View, choice: Choice, full: Stack, pruned: Stack) -> None:
        self.full, self.pruned = full, pruned
        layer = choice.heads.sites[0].name
        self.real = [  # on the CPU, as blocks may be on several GPUs
            real_tokens(batch, layer, hidden.shape[1]).cpu()
            for batch, hidden in zip(view.batches, full.hidden, strict=True)
        ]
        self.texts = texts_of(view.batches)
        units = choice.heads.site_of_unit
        self.changed = [choice.neurons is not None or bool((~choice.mask[units == site]).any()) for site in full.sites]
        self.heads = [choice.heads.sites[site].num_heads for site in full.sites]  # a projection without may not run
        self.empty = [not bool(choice.mask[units == site].any()) for site in full.sites]

    def sites(self) -> Iterator[int]:
        lowest = self.changed.index(True) if any(self.changed) else len(self.changed)
        for block in range(lowest):  # both models are the same so far
            for batch in range(len(self.real)):
                self.full.advance(block, batch)
        self.pruned.hidden = list(self.full.hidden)
        tried = next((block for block in range(lowest, len(self.changed)) if self.heads[block]), None)
        self.adds = tried is not None and self.full.adds_to_input(tried)
        for block in range(lowest, len(self.changed)):
            yield self.full.sites[block]
            if block + 1 < len(self.changed):
                for batch in range(len(self.real)):
                    self.pruned.advance(block, batch)

    def tokens(self, site: int) -> Iterator[Tokens]:
        block = self.full.sites.index(site)
        for batch, real in enumerate(self.real):
            before = self.full.hidden[batch]
            wanted = self.full.step(block, batch)[real].double()
            if self.adds:
                wanted += (before[real].double() - self.pruned.hidden[batch][real].double()).to(wanted.device)
            # some projections are not run without a head
            read = wanted[:, :0] if self.empty[block] else self.pruned.read(block, batch)[real].double()
            yield Tokens(read, wanted, self.texts[batch][real.nonzero()[:, 0]])


class _ByPasses:
    """Both models run in full for each site. What is wanted is the unpruned projection's output."""

    def __init__(self, view: View, choice: Choice, smaller: nn.Module) -> None:
        self.choice, self.smaller = choice, smaller
        self.heads = _map_of(smaller, choice)
        self.parts = [replace(view, batches=[batch]) for batch in view.batches]
        self.texts = texts_of(view.batches)
        units = choice.heads.site_of_unit
        pruned = [bool((~choice.mask[units == site]).any()) for site in range(len(choice.heads.sites))]
        self.lowest = 0 if choice.neurons is not None else pruned.index(True) if any(pruned) else len(pruned)

    def sites(self) -> Iterator[int]:
        yield from range(self.lowest, len(self.heads.sites))  # as models register them: from the bottom up

    def tokens(self, site: int) -> Iterator[Tokens]:
        model, heads = self.choice.model, self.choice.heads
        old = Projection.of(model.get_submodule(heads.sites[site].output))
        for part, texts in zip(self.parts, self.texts, strict=True):
            full = _contexts(replace(part, model=model, heads=heads), site)
            if self.heads.sites[site].num_heads:
                pruned = _contexts(replace(part, model=self.smaller, heads=self.heads), site)
            else:
                pruned = [(tokens[:, :0], owners) for tokens, owners in full]
            for (tokens, owners), (left, _) in zip(full, pruned, strict=True):
                wanted = tokens.flatten(1).double() @ old.weight + old.offset
                yield Tokens(left.flatten(1).double(), wanted, texts[owners.cpu()])


def _contexts(view: View, site: int) -> list[tuple[Tensor, Tensor]]:
    """Contexts, (N, H, d_h), and the texts of their tokens, (N,), of every call of the site; of one batch."""
    found: list[tuple[Tensor, Tensor]] = []

    def take(index: int, tokens: Tensor, texts: Tensor) -> None:
        if index == site:
            found.append((tokens, texts))

    each_context(view, take)
    return found
