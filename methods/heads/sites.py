"""Finding a model's attention modules by their structure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from methods.heads.layouts import (
    HEAD_DIM,
    LAYOUTS,
    ROLES,
    Layout,
    UnsupportedArchitecture,
    geometry,
    matching_layouts,
    part,
)

CROSS_ATTENTION = ("crossattention", "encoder_attn", "EncDecAttention")


@dataclass(frozen=True)
class Site:
    """One attention module of a model.

    ``layers`` holds every layer that runs the module: more than one where layers are tied (ALBERT). ``projections``
    maps "query", "key" and "value" to the dotted paths of their modules, and ``output`` is that of the output
    projection.
    """

    name: str  # dotted path of the attention module
    kind: str  # "encoder", "decoder" or "cross"
    layer: int
    layers: tuple[int, ...]
    num_heads: int  # query heads now present
    num_key_value_heads: int
    head_dim: int
    projections: dict[str, str] = field(repr=False)
    output: str = field(repr=False)

    @property
    def calls(self) -> int:
        """How often the module runs in one forward pass."""
        return len(self.layers)

    @property
    def queries_per_group(self) -> int:
        """Query heads that share one key/value head; 1 where no head is left."""
        return self.num_heads // self.num_key_value_heads if self.num_key_value_heads else 1


def find_sites(model: nn.Module) -> tuple[Site, ...]:
    """Every attention module of ``model``, in the order in which the model registers them.

    Raises UnsupportedArchitecture where there is none, or where one is not understood.
    """
    modules = dict(model.named_modules())
    sites = []
    for path, module in modules.items():
        layouts = list(matching_layouts(path, modules))
        if len(layouts) > 1:
            raise UnsupportedArchitecture(f"{type(module).__name__} at {path} matches several layouts: {layouts}")
        if layouts:
            sites.append(_site(path, layouts[0], modules))
    if not sites:
        wanted = ", ".join("/".join(layout.paths()) for layout in LAYOUTS)
        raise UnsupportedArchitecture(
            f"{type(model).__name__} has no attention module with projections named as one of: {wanted}; "
            "a new naming needs an entry in methods/heads/layouts.py"
        )
    _refuse_shared_weights(model, sites)
    return tuple(sites)


def _site(path: str, layout: Layout, modules: dict[str, nn.Module]) -> Site:
    """Describe the attention module at ``path``, checking that its parts fit together."""
    module = modules[path]
    query, key, value, output = (_linear(part(path, name), modules, module) for name in layout.paths())
    head_dim = _attribute(module, HEAD_DIM)
    if head_dim is None:
        raise UnsupportedArchitecture(
            f"{type(module).__name__} at {path} does not give the width of a head: looked for {', '.join(HEAD_DIM)}"
        )
    num_heads, num_key_value_heads = query.out_features // head_dim, key.out_features // head_dim
    site = Site(
        name=path,
        kind=_kind(path, module),
        layer=_layers(path, module)[0],
        layers=_layers(path, module),
        num_heads=num_heads,
        num_key_value_heads=num_key_value_heads,
        head_dim=head_dim,
        projections={role: part(path, getattr(layout, role)) for role in ROLES},
        output=part(path, layout.output),
    )
    expected = {
        "query rows": (query.out_features, num_heads * head_dim),
        "key rows": (key.out_features, num_key_value_heads * head_dim),
        "value rows": (value.out_features, num_key_value_heads * head_dim),
        "output columns": (output.in_features, num_heads * head_dim),
        "query heads in whole groups": (num_heads, site.queries_per_group * num_key_value_heads),
    }
    for name, wanted in geometry(num_heads, num_key_value_heads, head_dim).items():
        if hasattr(module, name):
            expected[name] = getattr(module, name), wanted
    for what, (found, wanted) in expected.items():
        if found != wanted:
            raise UnsupportedArchitecture(
                f"{type(module).__name__} at {path} has {what} = {found} where heads of width {head_dim} need {wanted}"
            )
    _refuse_unclaimed_parameters(site, module)
    return site


def _linear(path: str, modules: dict[str, nn.Module], owner: nn.Module) -> nn.Linear:
    """The linear layer at ``path``; anything that wraps or replaces it (adapters, quantisation) is refused."""
    linear = modules[path]
    if type(linear) is not nn.Linear:
        raise UnsupportedArchitecture(
            f"{type(owner).__name__} has a {type(linear).__name__} as {path}, where a plain nn.Linear is needed"
        )
    return linear


def _attribute(module: nn.Module, names: tuple[str, ...]) -> int | None:
    return next((getattr(module, name) for name in names if hasattr(module, name)), None)


def _kind(path: str, module: nn.Module) -> str:
    if any(name in path.split(".") for name in CROSS_ATTENTION):
        return "cross"
    return "decoder" if getattr(module, "is_causal", False) else "encoder"


def _layers(path: str, module: nn.Module) -> tuple[int, ...]:
    """Layers that run the module at ``path``: the first number in the path, or all layers of ALBERT's group."""
    numbers = [int(name) for name in path.split(".") if name.isdecimal()]
    if "albert_layer_groups" in path.split("."):
        config: Any = module.config
        group, inner = numbers
        repeats = [
            i
            for i in range(config.num_hidden_layers)
            if int(i / (config.num_hidden_layers / config.num_hidden_groups)) == group
        ]
        return tuple(i * config.inner_group_num + inner for i in repeats)
    return (numbers[0] if numbers else 0,)


def _refuse_unclaimed_parameters(site: Site, module: nn.Module) -> None:
    """Refuse a parameter inside the attention module that is neither a projection's nor shared by all heads."""
    claimed = {*site.projections.values(), site.output}
    for name, parameter in module.named_parameters():
        owner = f"{site.name}.{name}".rpartition(".")[0]
        after_output = owner.rpartition(".")[2] == "LayerNorm"  # ALBERT's, over the hidden size
        if owner not in claimed and not after_output and parameter.shape != (site.head_dim,):
            raise UnsupportedArchitecture(
                f"{type(module).__name__} at {site.name} has a parameter {name} of shape {tuple(parameter.shape)} "
                "that is no projection; pruning would need to know which part of it belongs to which head"
            )


def _refuse_shared_weights(model: nn.Module, sites: list[Site]) -> None:
    """Refuse sites that share a projection's weight: removing a head from one would silently change the other."""
    owners: dict[int, str] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        for parameter in module.parameters(recurse=False):
            first = owners.setdefault(id(parameter), name)
            shared = {first, name}
            if len(shared) == 2 and any(shared & {*site.projections.values(), site.output} for site in sites):
                raise UnsupportedArchitecture(
                    f"{type(model).__name__} shares one weight between {first} and {name}; "
                    "removing heads from tied attention modules is known for ALBERT only"
                )
