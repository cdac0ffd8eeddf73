"""Building a smaller model anew, from the configuration of the whole one and what was kept of it.

What builds models takes two seconds to import, so that is done where one is built.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn

from methods.heads.finding.layout import UnsupportedArchitecture
from methods.heads.finding.mlps import find_mlps
from methods.heads.finding.site import Site
from methods.heads.finding.sites import find_sites
from methods.heads.finding.text_config import text_config
from methods.heads.surgery.head_counts import kept_heads
from methods.heads.surgery.neurons import remove_neurons
from methods.heads.surgery.remove import keep_heads, replace_parameters

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

ORIGINAL = "original_inv_freq"  # end of a name: the frequencies of positions of a model that has seen no text
# Names that configurations have for the number of neurons: that of most, and those of others.
WIDTHS = (("intermediate_size",), ("hidden_dim", "ffn_dim", "n_inner", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim"))


def description(model: PreTrainedModel) -> dict[str, Any]:
    """What ``skeleton`` builds a model of the same shapes from. Raises ValueError where it builds another."""
    described = {
        "class": type(model).__name__,
        "config": _without_places(own_config(model).to_dict()),
        "heads": {site.name: kept_heads(model.get_submodule(site.name), site) for site in find_sites(model)},
        "neurons": neuron_counts(model),
    }
    rebuilt = _shapes(skeleton(described, "meta"))
    if odd := sorted(name for name, _ in rebuilt.items() ^ _shapes(model).items()):
        raise ValueError(f"{type(model).__name__} cannot be rebuilt from its configuration: {odd[0]} would differ")
    return described


def own_config(model: PreTrainedModel) -> PretrainedConfig:
    """A copy of the model's configuration, by which output embeddings are tied only if they are.

    Where a checkpoint has other ones than its input embeddings, transformers loads them, whatever is configured.
    """
    config, outputs = copy.deepcopy(model.config), model.get_output_embeddings()
    composite = text_config(config) is not config  # of which a part may have both embeddings
    if not composite and outputs is not None and outputs.weight is not model.get_input_embeddings().weight:
        config.tie_word_embeddings = False
    return config


def unpruned_neurons(described: Mapping[str, Any]) -> dict[str, int]:
    """Number of neurons of each feed-forward layer of the model that is ``described``, before any was removed."""
    return neuron_counts(_whole(described, "meta"))


def skeleton(described: Mapping[str, Any], device: str) -> PreTrainedModel:
    """A model with the shapes of the one that is ``described``; its parameters are on the meta device, without values.

    Raises ValueError, or what the model's own code raises, for a description that no model has.
    """
    model = _whole(described, device)
    sites = find_sites(model)
    kept = {site.name: _checked(site, described["heads"][site.name]) for site in sites}
    keep_heads(model, sites, kept, in_place=True)
    if described["neurons"]:
        remove_neurons(model, {name: range(width) for name, width in described["neurons"].items()}, in_place=True)
    return model


def _whole(described: Mapping[str, Any], device: str) -> PreTrainedModel:
    """The same before anything is removed."""
    import transformers
    from transformers import AutoConfig, PreTrainedModel
    from transformers.initialization import no_init_weights

    model_class = getattr(transformers, described["class"], None)
    if not (isinstance(model_class, type) and issubclass(model_class, PreTrainedModel)):
        raise ValueError(f"{described['class']} is not a model class of transformers")
    options = dict(described["config"])
    config = AutoConfig.for_model(options.pop("model_type"), **options)
    with torch.random.fork_rng(devices=[]), torch.device(device), no_init_weights():  # so that weights take no memory
        model = model_class(config)
        model.tie_weights()
    empty = {id(each): nn.Parameter(each.to("meta"), each.requires_grad) for each in model.parameters()}
    replace_parameters(model, empty, in_place=True)
    return model


def _checked(site: Site, heads: list[int]) -> list[int]:
    if heads != sorted(set(heads)) or not set(heads) <= set(range(site.num_heads)):
        raise ValueError(f"{site.name} cannot have heads {heads}")
    groups = [head // site.queries_per_group for head in heads]
    some = range(site.num_key_value_heads) if site.stores else groups
    if len({groups.count(group) for group in some}) > 1:
        raise ValueError(f"{site.name} has unequal groups with heads {heads}")
    return heads


def uniform_config(model: PreTrainedModel) -> PretrainedConfig | None:
    """A configuration that builds the smaller model; None if the architecture has none."""
    from transformers import AutoConfig

    sites, widths = find_sites(model), set(neuron_counts(model).values())
    shapes = {(site.num_heads, site.num_key_value_heads, site.head_dim) for site in sites}
    if len(shapes) != 1 or 0 in (sites[0].num_heads, *widths):
        return None
    num_heads, num_key_value_heads, _ = shapes.pop()
    wanted = {"num_attention_heads": num_heads, "num_key_value_heads": num_key_value_heads}
    options = own_config(model).to_dict()
    options |= {name: value for name, value in wanted.items() if name in options}
    computed = isinstance(getattr(type(model.config), "head_dim", None), property)
    if not computed and not sites[0].layout.widths:  # else it may stand for a part of the head
        options["head_dim"] = sites[0].widths["key"]
    shapes_wanted = _shapes(model)
    # With several widths there are experts, or layers that differ: the configuration may say how, as it is.
    told = [{name: width for name in names if name in options} for names in WIDTHS for width in widths]
    for numbers in [*filter(None, told if len(widths) == 1 else []), {}]:
        try:
            config = AutoConfig.for_model(**options | numbers)
            with torch.device("meta"):
                rebuilt = type(model)(cast(Any, config))
        except (ValueError, TypeError, StrictDataclassError):
            continue  # such numbers are not allowed (a width that is not a multiple of the heads, for example)
        if _shapes(rebuilt) == shapes_wanted:
            return config
    return None


def neuron_counts(model: nn.Module) -> dict[str, int]:
    """Number of neurons left in each feed-forward layer; nothing depends on which they were."""
    try:
        return {mlp.name: mlp.width for mlp in find_mlps(model)}
    except UnsupportedArchitecture:
        return {}


def named_tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name, shared ones once; also buffers outside of the state dict, for their dtype."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def at_rest(model: nn.Module) -> dict[str, torch.Tensor]:
    """As ``named_tensors``, with frequencies of positions from before any text: dynamic ones change with its length."""
    named = named_tensors(model)
    for name, buffer in model.named_buffers(remove_duplicate=False):
        if name.endswith(ORIGINAL):
            named |= {name: buffer, f"{name.removesuffix(ORIGINAL)}inv_freq": buffer.clone()}
    return named


def _shapes(model: nn.Module) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in at_rest(model).items()}


def _without_places(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration without the folders that it and its parts were loaded from."""
    return {
        name: _without_places(value) if isinstance(value, dict) else value
        for name, value in config.items()
        if name != "_name_or_path"
    }
