"""The blocks of a model that is one plain stack."""

from __future__ import annotations

from torch import nn

from methods.heads.finding.head_map import HeadMap


def find_blocks(model: nn.Module, heads: HeadMap) -> list[nn.Module]:
    """The model's blocks from bottom to top; empty unless the model is one plain stack of blocks.

    It is one if every site is inside a child of the same ModuleList and runs once per forward pass: no tied layers, no
    keys and values of other layers, no encoder-decoders, no lists of bare attention modules (XLM), whatever kinds of
    attention the map has.
    """
    if heads.kinds:  # the model has attention that the map does not show
        return []
    stacks = set()
    for site in heads.sites:
        names = site.name.split(".")
        first = next((place for place, name in enumerate(names) if name.isdecimal()), None)
        if first is None or first + 1 == len(names) or site.calls > 1 or site.source:
            return []
        stacks.add(".".join(names[:first]))
    stack = model.get_submodule(stacks.pop())
    return list(stack) if not stacks and isinstance(stack, nn.ModuleList) else []


def block_of_site(heads: HeadMap) -> list[int]:
    """Index of the block that each site is in, for a model that is one plain stack."""
    return [site.layer for site in heads.sites]
