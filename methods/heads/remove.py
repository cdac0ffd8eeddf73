"""Removing heads for good: a physically smaller model with the same outputs as the gated one."""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import nn

from methods.heads.head_map import HeadMap
from methods.heads.layouts import geometry, head_rows
from methods.heads.sites import Site


def remove_heads(
    model: nn.Module, mask: torch.Tensor, heads: HeadMap | None = None, *, in_place: bool = False
) -> nn.Module:
    """Remove the units that ``mask`` does not keep, and return the smaller model.

    mask: BoolTensor (units,), true where a unit is kept. Query, key and value rows (with their biases) and the output
    projection's columns go; its bias stays. A layer may lose all its heads. Parameters keep dtype, device and
    requires_grad; those that shrink lose their ``grad``. ``model.config`` still gives the original number of heads;
    ``HeadMap.of`` gives those present. Without ``in_place`` the model is copied and left as it was.

    Raises ValueError for a mask of another shape or dtype, or for ``heads`` of another model.
    """
    if heads is None:
        heads = HeadMap.of(model)
    else:
        heads.check_model(model)
    kept = heads.kept(mask)
    narrowed: dict[int, nn.Parameter] = {}  # id of a parameter -> what is left of it
    for site in heads.sites:
        _narrow_site(model, site, kept[site.name], narrowed)
    if in_place:
        for module in model.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                if id(parameter) in narrowed:
                    setattr(module, name, narrowed[id(parameter)])
        smaller = model
    else:
        # With the narrowed parameters already in the memo, what is removed is never copied.
        smaller = copy.deepcopy(model, dict(narrowed))
    for site in heads.sites:
        _set_geometry(smaller, site, kept[site.name])
    return smaller


def _kept_groups(site: Site, kept: list[int]) -> list[int]:
    return sorted({head // site.queries_per_group for head in kept})


def _narrow_site(model: nn.Module, site: Site, kept: list[int], narrowed: dict[int, nn.Parameter]) -> None:
    query_rows = head_rows(kept, site.head_dim)
    group_rows = head_rows(_kept_groups(site, kept), site.head_dim)
    for role, path in site.projections.items():
        rows = query_rows if role == "query" else group_rows
        for parameter in model.get_submodule(path).parameters():  # weight (rows, d) and, if there is one, bias (rows,)
            narrowed[id(parameter)] = _select(parameter, 0, rows)
    weight = model.get_parameter(f"{site.output}.weight")  # (d, H * d_h)
    narrowed[id(weight)] = _select(weight, 1, query_rows)


def _select(parameter: nn.Parameter, dim: int, index: torch.Tensor) -> nn.Parameter:
    values = parameter.detach().index_select(dim, index.to(parameter.device))
    return nn.Parameter(values, requires_grad=parameter.requires_grad)


def _set_geometry(model: nn.Module, site: Site, kept: list[int]) -> None:
    """Tell the site's modules how many heads they have."""
    for path in (*site.projections.values(), site.output):
        linear = cast(nn.Linear, model.get_submodule(path))
        linear.out_features, linear.in_features = linear.weight.shape
    module = model.get_submodule(site.name)
    for name, value in geometry(len(kept), len(_kept_groups(site, kept)), site.head_dim).items():
        if hasattr(module, name):
            setattr(module, name, value)
