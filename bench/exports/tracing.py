"""A copy of a model that torch can trace for any number of texts: for ``torch.export`` and ONNX files."""

from __future__ import annotations

import copy
from types import MethodType
from typing import Any, TypeVar

import torch
from torch import nn
from transformers import PreTrainedModel

from methods.heads import HeadMap, Site
from methods.heads.surgery.no_heads import count_cached_tokens

Model = TypeVar("Model", bound=PreTrainedModel)


def traceable(model: Model) -> Model:
    """A copy of ``model`` in which layers without heads run no code that fixes the number of texts.

    Their attention gives the bias of its output projection and knows no cache, so call the copy without one.
    (``torch.compile`` needs no copy.)
    """
    model = copy.deepcopy(model)
    for site in HeadMap.of(model).sites:
        if not site.num_heads:
            module: Any = model.get_submodule(site.name)
            for key, hook in list(module._forward_hooks.items()):
                if hook is count_cached_tokens:
                    del module._forward_hooks[key], module._forward_hooks_with_kwargs[key]
            if _ends_with_output(site, module):
                module.site_without_heads = site
                module.forward = MethodType(_bias_alone, module)
    return model


def _ends_with_output(site: Site, module: nn.Module) -> bool:
    """Whether nothing follows the output projection within the attention module but what its layout names."""
    parts = {name.partition(".")[0] for name in (*site.layout.paths(), site.layout.after)} | {"attn_dropout"}
    norms = {"q_norm", "k_norm", "rotary_emb", "rotary_fn"}  # of queries and keys
    inside = not site.layout.output.startswith("../") and not site.layout.position_bias
    return inside and {name for name, _ in module.named_children()} <= parts | norms


def _bias_alone(self: Any, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, None]:
    layout = self.site_without_heads.layout
    output = self.get_submodule(layout.output)
    if output.bias is None:
        return torch.zeros_like(hidden_states), None
    result = output.bias.expand(hidden_states.shape)
    return (getattr(self, layout.after)(result) if layout.after and hasattr(self, layout.after) else result), None
