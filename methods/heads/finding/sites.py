"""Finding a model's attention modules by their structure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from torch import nn

from methods.heads.finding.layout import HEAD_DIM, Layout, UnsupportedArchitecture, part
from methods.heads.finding.linear import Linear, features, is_linear
from methods.heads.finding.match import match_layout
from methods.heads.finding.shared_keys import reuses, source_of, stores
from methods.heads.finding.site import Site
from methods.heads.finding.towers import parts_of
from methods.heads.finding.verify import is_replaced, runs_without_heads, verify_model, verify_site
from methods.heads.finding.wide_norms import wide_norms
from methods.heads.orders.fused import ROLES

# Names in a path that show that a site attends to another sequence.
CROSS_ATTENTION = ("crossattention", "cross_attention", "cross_attn", "encoder_attn", "EncDecAttention")


def find_sites(model: nn.Module) -> tuple[Site, ...]:
    """Every attention module of ``model`` that is understood and that it runs. Raises as ``survey``."""
    return survey(model)[0]


def survey(model: nn.Module) -> tuple[tuple[Site, ...], dict[str, str]]:
    """The attention modules of ``model`` that it runs, and why each part that is left alone is not understood.

    Sites are in the order in which the model registers them. A decoder on its own has no sequence for its cross
    attention (``BartForCausalLM``), unless its configuration says that it is given one (``add_cross_attention``). In a
    composite model, a part beside the text tower that cannot be pruned exactly is left alone: by its path, the reason.

    Raises UnsupportedArchitecture if there is no site, or if one of the text tower, or of a model that is not
    composite, cannot be pruned exactly.
    """
    paths = list(model.named_modules(remove_duplicate=False))  # walked once, as it takes most of the time
    first: dict[nn.Module, str] = {}
    for path, module in paths:
        first.setdefault(module, path)
    modules = {path: module for module, path in first.items()}
    of_part: dict[str, list[Site]] = {}
    left_alone: dict[str, str] = {}
    for part_name, own in parts_of(model, modules).items():
        try:
            of_part[part_name] = _sites_of(own, modules)
        except UnsupportedArchitecture as error:
            if not part_name:
                raise
            left_alone[part_name] = str(error)
    if not of_part[""]:
        raise UnsupportedArchitecture(
            f"{type(model).__name__} has no attention module with known projections, so no head can be removed: use a "
            "model of a type that docs/heads.md lists as supported, or add its names to "
            "methods/heads/finding/layouts.py"
        )
    place = {path: number for number, path in enumerate(modules)}
    sites = sorted((site for found in of_part.values() for site in found), key=lambda site: place[site.name])
    verify_model({"": model}, paths, sites)  # weights that parts share
    config: Any = getattr(model, "config", None)
    alone = getattr(config, "is_decoder", False) and not (
        getattr(config, "is_encoder_decoder", False) or getattr(config, "add_cross_attention", False)
    )
    return tuple(site for site in sites if not (alone and site.kind == "cross")), left_alone


def _sites_of(paths: list[str], modules: dict[str, nn.Module]) -> list[Site]:
    """The sites among these paths. Raises UnsupportedArchitecture for attention that is not understood."""
    sites = []
    for path in paths:
        if layout := match_layout(path, modules):
            site = _site(path, layout, modules)
            verify_site(site, modules[path])
            runs, replaced = runs_without_heads(site, modules[path]), is_replaced(site, modules[path])
            sites.append(replace(site, never_empty=not runs, replaced=replaced))
    if sites or "" not in paths:  # else there is nothing known in the whole model, which is said first
        verify_model({path: modules[path] for path in paths}, [], sites)
    return sites


def _site(path: str, layout: Layout, modules: dict[str, nn.Module]) -> Site:
    """Describe the attention module at ``path`` and check that the shapes of its projections fit together."""
    module = modules[path]
    name = type(module).__name__
    projections = layout.projections(path, modules)
    for linear in (*projections.values(), *(part(path, each) for each in layout.follow)):
        if linear in modules and not is_linear(modules[linear]):
            kind = type(modules[linear]).__name__
            made = " whose weight or bias is made anew for each pass" if kind in ("Linear", "Conv1D") else ""
            raise UnsupportedArchitecture(f"{name} at {path}: {linear} is a {kind}{made}, not a plain linear layer")
    widths = _widths(path, module, layout)
    head_dim = widths["value"]
    output = projections.pop("output")
    num_heads = features(cast(Linear, modules[output]))[0] // head_dim
    outputs = {each: features(cast(Linear, modules[each]))[1] for each in projections.values()}
    rows_of = {  # roles that have rows of their own in each projection
        each: [role for role in ROLES if projections[role] == each][: 1 if layout.order == "same" else 3]
        for each in outputs
    }
    beside = rows_of[projections["value"]]
    of_queries = num_heads * widths["query"] if "query" in beside else 0
    width_of_group = sum(widths[role] for role in beside if role != "query")
    num_key_value_heads = (outputs[projections["value"]] - of_queries) // width_of_group
    norms = {role: norm for norm, name in wide_norms(module).items() for role in ROLES if getattr(layout, role) == name}
    given = {role: outputs[projections[role]] // widths[role] for role in norms}
    if reuses(module):
        given |= dict.fromkeys(("key", "value"), num_key_value_heads)
    places = _places(module, given)
    if reuses(module):
        num_key_value_heads = len(places["key"])
    layers = _layers(path, module)
    if not layers:
        raise UnsupportedArchitecture(f"{name} at {path}: no layer runs it (there are more groups than layers)")
    site = Site(
        name=path,
        kind=_kind(path, module, layout),
        layer=layers[0],
        layers=layers,
        num_heads=num_heads,
        num_key_value_heads=num_key_value_heads,
        head_dim=head_dim,
        projections={role: projections[role] for role in ROLES},
        output=output,
        layout=layout,
        widths=widths,
        norms={role: f"{path}.{norm}" for role, norm in norms.items()},
        places=places,
        per_head=tuple(each for each in layout.per_head if module._parameters.get(each) is not None),
        followers=tuple(each for name in layout.follow if (each := part(path, name)) in modules),
        source=source_of(path, modules) if reuses(module) else "",
        stores=stores(module),
        counts={each: counted for each, counted in layout.counts.items() if hasattr(module, each)},
    )
    expected = {"query heads": (num_heads, site.queries_per_group * num_key_value_heads)}
    for each in site.followers:
        found = features(cast(Linear, modules[each]))[1]
        expected[f"outputs of {each}"] = found, num_heads if found == num_heads else num_heads * head_dim
    for each, found in outputs.items():
        roles = rows_of[each]
        if site.source and roles[0] != "query":
            continue  # checked where they are its own
        if norms.keys() & set(roles):
            expected[f"heads after the norm of {each}"] = len(site.places[roles[0]]), site.heads_of(roles[0])
            for name, parameter in modules[site.norms[roles[0]]].named_parameters():
                expected[f"width of {norms[roles[0]]}.{name}"] = parameter.numel(), found
        else:
            expected[f"outputs of {each}"] = found, sum(site.heads_of(role) * widths[role] for role in roles)
    expected[f"inputs of {layout.output}"] = features(cast(Linear, modules[output]))[0], num_heads * head_dim
    for each, wanted in site.attributes().items():
        expected[each] = getattr(module, each), wanted
    for each, (found, wanted) in expected.items():
        if found != wanted:
            raise UnsupportedArchitecture(
                f"{name} at {path}: {each} = {found}, but {num_heads} heads of width {head_dim} in "
                f"{num_key_value_heads} groups require {wanted}"
            )
    return site


def _widths(path: str, module: nn.Module, layout: Layout) -> dict[str, int]:
    """Outputs of the projection of each role for one head."""
    if layout.widths:
        return {role: getattr(module, name) for role, name in zip(ROLES, layout.widths, strict=True)}
    head_dim = next((getattr(module, each) for each in HEAD_DIM if hasattr(module, each)), None)
    if not head_dim:
        raise UnsupportedArchitecture(
            f"{type(module).__name__} at {path} has no attribute for the width of a head; known are "
            f"{', '.join(HEAD_DIM)}"
        )
    query = 2 * head_dim if layout.output_gate else head_dim
    return {"query": query, "key": head_dim, "value": getattr(module, "v_head_dim", head_dim)}


def _places(module: nn.Module, given: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Those of the heads in each role's projection, so many, that are left after some were removed."""
    left: list[int] | None = vars(module).get("kept_heads")
    places = {}
    for role, number in given.items():
        if left is None or not number:
            places[role] = tuple(range(number))
        else:
            per_head = vars(module)["unpruned_heads"] // number
            places[role] = tuple(sorted({head // per_head for head in left}))
    return places


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
