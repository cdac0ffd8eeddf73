"""Finding a model's attention modules by their structure."""

from __future__ import annotations

from typing import Any, cast

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
from methods.heads.finding.site import Site
from methods.heads.finding.verify import verify_model, verify_site


def find_sites(model: nn.Module) -> tuple[Site, ...]:
    """Every attention module of ``model`` that it runs, in the order in which it registers them.

    A decoder on its own has no sequence for its cross attention (``BartForCausalLM``), unless its configuration says
    that it is given one (``add_cross_attention``).

    Raises UnsupportedArchitecture if there is none, or if one cannot be pruned exactly.
    """
    paths = list(model.named_modules(remove_duplicate=False))  # walked once, as it takes most of the time
    first: dict[nn.Module, str] = {}
    for path, module in paths:
        first.setdefault(module, path)
    modules = {path: module for module, path in first.items()}
    sites = []
    for path, module in modules.items():
        if layout := match_layout(path, modules):
            site = _site(path, layout, modules)
            verify_site(site, module)
            sites.append(site)
    if not sites:
        wanted = ", ".join("/".join(layout.paths()) for layout in LAYOUTS)
        raise UnsupportedArchitecture(
            f"{type(model).__name__} has no attention module with known projections ({wanted}); "
            "add its names to methods/heads/finding/layouts.py"
        )
    verify_model(modules, paths, sites)
    config: Any = getattr(model, "config", None)
    alone = getattr(config, "is_decoder", False) and not (
        getattr(config, "is_encoder_decoder", False) or getattr(config, "add_cross_attention", False)
    )
    return tuple(site for site in sites if not (alone and site.kind == "cross"))


def _site(path: str, layout: Layout, modules: dict[str, nn.Module]) -> Site:
    """Describe the attention module at ``path`` and check that the shapes of its projections fit together."""
    module = modules[path]
    name = type(module).__name__
    for linear in (part(path, each) for each in (*layout.paths(), *layout.follow)):
        if linear in modules and not is_linear(modules[linear]):
            kind = type(modules[linear]).__name__
            raise UnsupportedArchitecture(f"{name} at {path}: {linear} is a {kind}, not a plain linear layer")
    head_dim = next((getattr(module, each) for each in HEAD_DIM if hasattr(module, each)), None)
    if not head_dim:
        raise UnsupportedArchitecture(
            f"{name} at {path} has no attribute for the width of a head; known are {', '.join(HEAD_DIM)}"
        )
    output = part(path, layout.output)
    num_heads = features(cast(Linear, modules[output]))[0] // head_dim
    outputs = {each: features(cast(Linear, modules[part(path, each)]))[1] for each in layout.paths()[:3]}
    num_key_value_heads = (sum(outputs.values()) // head_dim - num_heads) // 2
    layers = _layers(path, module)
    site = Site(
        name=path,
        kind=_kind(path, module, layout),
        layer=layers[0],
        layers=layers,
        num_heads=num_heads,
        num_key_value_heads=num_key_value_heads,
        head_dim=head_dim,
        projections={role: part(path, getattr(layout, role)) for role in ROLES},
        output=output,
        layout=layout,
        followers=tuple(each for name in layout.follow if (each := part(path, name)) in modules),
    )
    expected = {"query heads": (num_heads, site.queries_per_group * num_key_value_heads)}
    for each in site.followers:
        expected[f"outputs of {each}"] = features(cast(Linear, modules[each]))[1], num_heads * head_dim
    for each, found in outputs.items():
        roles = [role for role in ROLES if getattr(layout, role) == each]
        expected[f"outputs of {each}"] = found, sum(site.heads_of(role) for role in roles) * head_dim
    expected[f"inputs of {layout.output}"] = features(cast(Linear, modules[output]))[0], num_heads * head_dim
    for each, wanted in geometry(num_heads, num_key_value_heads, head_dim, layout.totals).items():
        if hasattr(module, each):
            expected[each] = getattr(module, each), wanted
    for each, (found, wanted) in expected.items():
        if found != wanted:
            raise UnsupportedArchitecture(
                f"{name} at {path}: {each} = {found}, but {num_heads} heads of width {head_dim} in "
                f"{num_key_value_heads} groups require {wanted}"
            )
    return site


def _kind(path: str, module: nn.Module, layout: Layout) -> str:
    names = path.split(".")
    if any(name in names for name in CROSS_ATTENTION):
        return "cross"
    causal = layout.causal or getattr(module, "is_causal", False) or "decoder" in names
    return "decoder" if causal else "encoder"


def _layers(path: str, module: nn.Module) -> tuple[int, ...]:
    """Layers that run the module at ``path``: the first number in the path, or all layers of a group in ALBERT."""
    numbers = [int(name) for name in path.split(".") if name.isdecimal()]
    if "albert_layer_groups" in path.split("."):
        config: Any = module.config
        group, inner = numbers
        layers_per_group = config.num_hidden_layers / config.num_hidden_groups
        repeats = [i for i in range(config.num_hidden_layers) if int(i / layers_per_group) == group]
        return tuple(i * config.inner_group_num + inner for i in repeats)
    return (numbers[0] if numbers else 0,)
