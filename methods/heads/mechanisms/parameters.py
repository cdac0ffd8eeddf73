"""Parameters beside the projections that have entries for every query head."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn

from methods.heads.finding.linear import Linear, features, select, select_outputs, update_features
from methods.heads.finding.site import Site
from methods.heads.mechanisms.mechanism import Mechanism


class Parameters(Mechanism):
    """Cuts further linear layers, biases of the module itself, sinks, and embeddings with an entry per head."""

    def applies(self, site: Site) -> bool:
        return bool(site.followers or site.per_head or site.layout.biases or site.layout.tables)

    def cut(self, model: nn.Module, site: Site, kept: list[int]) -> dict[int, nn.Parameter]:
        heads, columns = torch.tensor(kept, dtype=torch.long), site.columns(kept)
        module = model.get_submodule(site.name)
        narrowed: dict[int, nn.Parameter] = {}
        for path in site.followers:
            follower = cast(Linear, model.get_submodule(path))
            narrowed |= select_outputs(follower, heads if features(follower)[1] == site.num_heads else columns)
        narrowed |= {id(each): select(each, 0, heads) for each in map(module.get_parameter, site.per_head)}
        narrowed |= {id(each): select(each, 0, columns) for each in map(module.get_parameter, site.layout.biases)}
        return narrowed | {id(each.weight): select(each.weight, 1, heads) for each in _tables(module, site)}

    def adjust(self, model: nn.Module, site: Site, kept: list[int]) -> None:
        for path in site.followers:
            update_features(cast(Linear, model.get_submodule(path)))
        for table in _tables(model.get_submodule(site.name), site):
            table.embedding_dim = len(kept)


def _tables(module: Any, site: Site) -> list[nn.Embedding]:
    """The embeddings of the site's module with one entry for every query head."""
    children = (module._modules.get(name) for name in site.layout.tables)
    return [child for child in children if isinstance(child, nn.Embedding)]
