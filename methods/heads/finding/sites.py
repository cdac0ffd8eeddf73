"""Finding a model's attention modules by their structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import nn

from methods.heads.finding.layouts import (
    CROSS_ATTENTION,
    HEAD_DIM,
    LAYOUTS,
    ROLES,
    Layout,
    UnsupportedArchitecture,
    geometry,
    match_layout,
    part,
)
from methods.heads.finding.linear import Linear, features, is_linear
from methods.heads.finding.verify import audit_model, audit_site


@dataclass(frozen=True)
class Site:
    """One attention module of a model.

    ``layers`` holds every layer that runs the module: more than one where layers are tied (ALBERT). ``projections``
    maps "query", "key" and "value" to the dotted paths of their modules, which are one where the projection is fused,
    and ``output`` is the path of the output projection.
    """

    name: str  # dotted path of the attention module
    kind: str  # "encoder", "decoder" or "cross"
    layer: int
    layers: tuple[int, ...]
    num_heads: int  # query heads now present
    num_key_value_heads: int
    head_dim: int
    projections: dict[str, str] = field(repr=False, hash=False)
    output: str = field(repr=False)
    layout: Layout = field(repr=False)

    @property
    def calls(self) -> int:
        """How often the module runs in one forward pass."""
        return len(self.layers)

    @property
    def queries_per_group(self) -> int:
        """Query heads that share one key/value head; 1 where no head is left."""
        return self.num_heads // self.num_key_value_heads if self.num_key_value_heads else 1

    def heads_of(self, role: str) -> int:
        """Heads of "query", or of "key" or "value"."""
        return self.num_heads if role == "query" else self.num_key_value_heads

    def rows(self, role: str, heads: list[int]) -> torch.Tensor:
        """Outputs of the projection of ``role`` that belong to ``heads``: LongTensor (len(heads) * head_dim,)."""
        fused = [other for other in ROLES if self.projections[other] == self.projections[role]]
        before = fused[: fused.index(role)]
        if self.layout.interleaved:
            stride, offset = len(fused), len(before)
        else:
            stride, offset = 1, sum(self.heads_of(other) for other in before)
        first = (torch.tensor(heads, dtype=torch.long) * stride + offset) * self.head_dim
        return (first[:, None] + torch.arange(self.head_dim)).flatten()

    def columns(self, heads: Sequence[int]) -> torch.Tensor:
        """Columns of the contexts, as the output projection takes them, of ``heads``: LongTensor, as ``rows``."""
        first = torch.tensor(heads, dtype=torch.long) * self.head_dim
        return (first[:, None] + torch.arange(self.head_dim)).flatten()


def find_sites(model: nn.Module) -> tuple[Site, ...]:
    """Every attention module of ``model``, in the order in which the model registers them.

    Raises UnsupportedArchitecture where there is none, or where one is not understood.
    """
    modules = dict(model.named_modules())
    sites = []
    for path, module in modules.items():
        if layout := match_layout(path, modules):
            site = _site(path, layout, modules)
            audit_site(site, module)
            sites.append(site)
    if not sites:
        wanted = ", ".join("/".join(layout.paths()) for layout in LAYOUTS)
        raise UnsupportedArchitecture(
            f"{type(model).__name__} has no attention module with projections named as one of: {wanted}; "
            "a new naming needs an entry in methods/heads/layouts.py"
        )
    audit_model(model, sites)
    return tuple(sites)


def _site(path: str, layout: Layout, modules: dict[str, nn.Module]) -> Site:
    """Describe the attention module at ``path``, checking that its parts fit together."""
    module = modules[path]
    name = type(module).__name__
    for linear in (part(path, each) for each in layout.paths()):
        if not is_linear(modules[linear]):
            kind = type(modules[linear]).__name__
            raise UnsupportedArchitecture(f"{name} has a {kind} as {linear}, where a plain linear layer is needed")
    head_dim = next((getattr(module, each) for each in HEAD_DIM if hasattr(module, each)), None)
    if not head_dim:
        raise UnsupportedArchitecture(
            f"{name} at {path} does not give the width of a head: looked for {', '.join(HEAD_DIM)}"
        )
    output = part(path, layout.output)
    num_heads = features(cast(Linear, modules[output]))[0] // head_dim
    outputs = {each: features(cast(Linear, modules[part(path, each)]))[1] for each in layout.paths()[:3]}
    num_key_value_heads = (sum(outputs.values()) // head_dim - num_heads) // 2
    layers = _layers(path, module)
    site = Site(
        name=path,
        kind=_kind(path, module),
        layer=layers[0],
        layers=layers,
        num_heads=num_heads,
        num_key_value_heads=num_key_value_heads,
        head_dim=head_dim,
        projections={role: part(path, getattr(layout, role)) for role in ROLES},
        output=output,
        layout=layout,
    )
    expected = {"query heads": (num_heads, site.queries_per_group * num_key_value_heads)}
    for each, found in outputs.items():
        roles = [role for role in ROLES if getattr(layout, role) == each]
        expected[f"outputs of {each}"] = found, sum(site.heads_of(role) for role in roles) * head_dim
    expected[f"inputs of {layout.output}"] = features(cast(Linear, modules[output]))[0], num_heads * head_dim
    for each, wanted in geometry(num_heads, num_key_value_heads, head_dim).items():
        if hasattr(module, each):
            expected[each] = getattr(module, each), wanted
    for each, (found, wanted) in expected.items():
        if found != wanted:
            raise UnsupportedArchitecture(
                f"{name} at {path}: {each} = {found}, where {num_heads} heads of width {head_dim} in "
                f"{num_key_value_heads} groups make {wanted}"
            )
    return site


def _kind(path: str, module: nn.Module) -> str:
    names = path.split(".")
    if any(name in names for name in CROSS_ATTENTION):
        return "cross"
    return "decoder" if getattr(module, "is_causal", False) or "decoder" in names else "encoder"


def _layers(path: str, module: nn.Module) -> tuple[int, ...]:
    """Layers that run the module at ``path``: the first number in the path, or all layers of ALBERT's group."""
    numbers = [int(name) for name in path.split(".") if name.isdecimal()]
    if "albert_layer_groups" in path.split("."):
        config: Any = module.config
        group, inner = numbers
        layers_per_group = config.num_hidden_layers / config.num_hidden_groups
        repeats = [i for i in range(config.num_hidden_layers) if int(i / layers_per_group) == group]
        return tuple(i * config.inner_group_num + inner for i in repeats)
    return (numbers[0] if numbers else 0,)
