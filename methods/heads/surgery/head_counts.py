"""Making an attention module run with fewer heads."""

from __future__ import annotations

from types import MethodType
from typing import Any, cast

from torch import nn

from methods.heads.finding.linear import Linear, update_features
from methods.heads.finding.site import Site
from methods.heads.mechanisms.every import mechanisms_of
from methods.heads.surgery.no_heads import call_no_kernel, count_cached_tokens, forward_without_heads


def update_head_counts(model: nn.Module, site: Site, kept: list[int]) -> None:
    """Adjust a site, whose weights are cut already, to having only the query heads ``kept``."""
    for path in {*site.projections.values(), site.output}:
        update_features(cast(Linear, model.get_submodule(path)))
    module: Any = model.get_submodule(site.name)
    module.unpruned_heads = unpruned_heads(module, site)
    former = kept_heads(module, site)
    module.kept_heads = [former[head] for head in kept]
    for name, value in site.narrowed(kept).attributes().items():
        setattr(module, name, value)
    for mechanism in mechanisms_of(site):
        mechanism.adjust(model, site, kept)
    if not kept:
        call_no_kernel(module)
        if site.num_heads and site.replaced:
            module.forward = MethodType(forward_without_heads, module)
            module.site_without_heads = site
        if site.num_heads:
            module.register_forward_hook(count_cached_tokens, with_kwargs=True)


def kept_heads(module: nn.Module, site: Site) -> list[int]:
    """The query heads that the module still has, numbered as in the unpruned module."""
    return cast(list[int], vars(module).get("kept_heads", list(range(site.num_heads))))


def unpruned_heads(module: nn.Module, site: Site) -> int:
    """The number of query heads that the module had before any was removed."""
    return cast(int, vars(module).get("unpruned_heads", site.num_heads))
