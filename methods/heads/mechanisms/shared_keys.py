"""Layers that attend to the keys and values of an earlier layer instead of computing their own (Gemma 3n, Gemma 4).

The layer that stores its keys and values keeps all of them, as others read them; it loses query heads only. A layer
that reuses them takes those of its own remaining key/value heads. Both are exact for every input.
"""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from methods.heads.finding.site import Site
from methods.heads.mechanisms.mechanism import Mechanism

SHARED = "shared_kv_states"  # argument with the keys and values, (B, heads, T, d_h) each, by type of layer


class SharedKeys(Mechanism):
    """Makes a module attend to only some of the key/value heads that its source stores."""

    def applies(self, site: Site) -> bool:
        return bool(site.source)

    def adjust(self, model: nn.Module, site: Site, kept: list[int]) -> None:
        if len(site.groups_of(kept)) == site.num_key_value_heads:
            return
        module: Any = model.get_submodule(site.name)
        if not hasattr(module, "shared_groups"):
            module.register_forward_pre_hook(_select, with_kwargs=True)
        module.shared_groups = list(site.narrowed(kept).places["key"])


def _select(module: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    bound = inspect.signature(type(module).forward).bind(module, *args, **kwargs)
    states = bound.arguments[SHARED][module.layer_type]
    bound.arguments[SHARED] = {module.layer_type: tuple(each[:, module.shared_groups] for each in states)}
    return bound.args[1:], bound.kwargs
