"""The smaller models of one cell that are timed: all at once where they are small, else one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import nn

from methods.contract.choice import Choice

TOGETHER = 4 * 2**30  # bytes of weights up to which models of all sizes are held at once


class Sizes:
    """Smaller models by number of units removed, made when they are asked for.

    Where as many whole models as there are sizes would fit in ``TOGETHER``, all are kept, so that their repeats can be
    interleaved; else none is, and there is never more than one beside the whole model. (Free memory does not decide:
    the same cell is to be measured alike everywhere.)
    """

    def __init__(self, choices: Mapping[int, Choice]):
        self._choices = choices
        whole = max((_nbytes(choice.model) for choice in choices.values()), default=0)
        self.together = whole * len(choices) <= TOGETHER
        self._held: dict[int, nn.Module] = {}

    def __getitem__(self, removed: int) -> nn.Module:
        if removed in self._held:
            return self._held[removed]
        smaller = self._choices[removed].smaller()
        if self.together:
            self._held[removed] = smaller
        return smaller

    def groups(self) -> Iterator[dict[int, nn.Module]]:
        """Models to be timed together: all in one group, or each in its own, made when its turn comes."""
        for group in [list(self._choices)] if self.together else [[removed] for removed in self._choices]:
            yield {removed: self[removed] for removed in group}


def _nbytes(model: nn.Module) -> int:
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())
