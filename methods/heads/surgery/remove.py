"""Removing heads for good: a physically smaller model with the outputs of the gated one."""

from __future__ import annotations

import copy
from typing import Any, cast

import torch
from torch import nn

from methods.heads.finding.head_map import HeadMap
from methods.heads.finding.layout import UnsupportedArchitecture
from methods.heads.finding.linear import Linear, select_inputs, select_outputs
from methods.heads.finding.site import Site
from methods.heads.mechanisms.every import mechanisms_of
from methods.heads.surgery.head_counts import update_head_counts


def remove_heads(
    model: nn.Module, mask: torch.Tensor, heads: HeadMap | None = None, *, in_place: bool = False
) -> nn.Module:
    """Remove the units that ``mask`` does not keep, and return the smaller model.

    mask: BoolTensor (units,), true where a unit is kept.

    Removed are rows of the query, key and value projections (with their biases) and columns of the output projection,
    whose bias stays. A projection that is normalised over all heads at once keeps its rows as long as a head is left. A
    layer may lose all its heads, unless it is never empty. Parameters keep dtype, device and requires_grad; those that
    shrink lose their ``grad``. ``model.config`` still has the original number of heads; ``HeadMap.of`` gives the
    present one.

    Unless ``in_place``, the model is not changed. The smaller model has parameters of its own, but those that do not
    shrink share the memory of the model's, so it takes little more. Backward gives a shared parameter of the smaller
    model its own memory before an optimizer can change it, so the smaller model can be trained and the model stays as
    it is. Any other change in place (training of the model itself, gradients set by hand, ``load_state_dict``,
    buffers) shows in both; use ``copy.deepcopy`` where that matters. Hooks are copied too, so call this outside of
    ``gated`` and ``observed``.

    Raises ValueError for a mask of another shape or dtype, or for ``heads`` of another model, and
    UnsupportedArchitecture for a layer that would lose all its heads and cannot run without (``Site.never_empty``).
    """
    if heads is None:
        heads = HeadMap.of(model)
    else:
        heads.check_model(model)
    return keep_heads(model, heads.sites, heads.kept(mask), in_place=in_place)


def keep_heads(model: nn.Module, sites: tuple[Site, ...], kept: dict[str, list[int]], *, in_place: bool) -> nn.Module:
    """Remove all query heads but ``kept``, by site name: ascending, and equally many in each remaining group.

    Returns the smaller model: ``model`` itself where ``in_place``, else one that shares all other parameters with it.
    Raises UnsupportedArchitecture where a site that must keep a head would be left without any.
    """
    narrowed: dict[int, nn.Parameter] = {}  # by id of the parameter that each replaces
    for site in sites:
        if site.never_empty and site.num_heads and not kept[site.name]:
            name = type(model.get_submodule(site.name)).__name__
            why = "computes keys and values for other layers" if site.stores else "cannot run without any head"
            raise UnsupportedArchitecture(f"{name} at {site.name} {why}: keep a head")
        if len(kept[site.name]) < site.num_heads:
            narrowed |= _narrow_site(model, site, kept[site.name])
    smaller = replace_parameters(model, narrowed, in_place=in_place)
    for site in sites:
        update_head_counts(smaller, site, kept[site.name])
    _renumber_alignment(smaller, sites, kept)
    return smaller


def _renumber_alignment(model: nn.Module, sites: tuple[Site, ...], kept: dict[str, list[int]]) -> None:
    """Let Whisper time words by the same heads of cross attention as before, as far as they are left."""
    settings: Any = getattr(model, "generation_config", None)
    if not (pairs := getattr(settings, "alignment_heads", None)):
        return
    left = {site.layer: kept[site.name] for site in sites if site.kind == "cross"}
    present = [(layer, head) for layer, head in pairs if layer not in left or head in left[layer]]
    settings.alignment_heads = [[layer, left[layer].index(head) if layer in left else head] for layer, head in present]


def replace_parameters(model: nn.Module, replaced: dict[int, nn.Parameter], *, in_place: bool) -> nn.Module:
    """Replace the parameters with the given ids, in the model or in a copy of it, which shares all others' memory."""
    if not in_place:
        # What is in the memo is not copied.
        memo: dict[int, torch.Tensor] = {id(buffer): buffer for buffer in model.buffers()}
        memo |= {id(each): _shared(each) for each in model.parameters() if type(each) is nn.Parameter}
        return copy.deepcopy(model, {**memo, **replaced})
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if id(parameter) in replaced:
                setattr(module, name, replaced[id(parameter)])
    return model


def _shared(parameter: nn.Parameter) -> nn.Parameter:
    """A parameter with the same values in the same memory, which becomes its own when it first gets a gradient."""
    if not (parameter.is_floating_point() or parameter.is_complex()):  # never gets one
        return nn.Parameter(parameter.detach(), requires_grad=False)
    same = nn.Parameter(parameter.detach())

    def separate(trained: torch.Tensor) -> None:
        trained.data = trained.data.clone()
        hook.remove()

    hook = same.register_post_accumulate_grad_hook(separate)
    same.requires_grad_(parameter.requires_grad)
    return same


def _narrow_site(model: nn.Module, site: Site, kept: list[int]) -> dict[int, nn.Parameter]:
    """A site's parameters cut down to the query heads ``kept``, by the id of the parameter that each replaces."""
    left, groups = site.narrowed(kept), site.groups_of(kept)
    narrowed: dict[int, nn.Parameter] = {}
    for path in dict.fromkeys(site.projections.values()):
        roles = [role for role in site.projections if site.projections[role] == path]
        if any(site.keeps(role) and (kept or role not in site.norms) for role in roles):
            continue  # a norm or another layer needs them
        if all(left.heads_of(role) == site.heads_of(role) for role in roles):
            continue  # the only key/value head, which stays with some of its query heads
        sources = torch.cat([site.rows(role, kept if role == "query" else groups) for role in roles])
        targets = torch.cat([left.rows(role, list(range(left.heads_of(role)))) for role in roles])
        outputs = sources.new_empty(len(targets.unique()))
        outputs[targets] = sources
        narrowed |= select_outputs(cast(Linear, model.get_submodule(path)), outputs)
    for mechanism in mechanisms_of(site):
        narrowed |= mechanism.cut(model, site, kept)
    return narrowed | select_inputs(cast(Linear, model.get_submodule(site.output)), site.columns(kept))
