"""Refusing attention modules that would be pruned wrongly.

A module is recognised by the names of its projections, which say nothing about the rest of it. So its code is searched
for anything else that may depend on the number of heads: parameters, integer attributes, arguments.
"""

from __future__ import annotations

import inspect
from functools import cache
from types import CodeType

from torch import nn

from methods.heads.finding.layout import COUNTS, HEAD_DIM, UnsupportedArchitecture
from methods.heads.finding.linear import is_linear
from methods.heads.finding.match import arguments_of, is_linear_attention
from methods.heads.finding.numbers import may_count_heads
from methods.heads.finding.site import Site

# Arguments of an attention module's forward that have no entry per head.
ARGUMENTS = {
    "self",
    "hidden_states",
    "attention_mask",
    "mask",
    "encoder_hidden_states",
    "encoder_attention_mask",
    "key_value_states",
    "past_key_values",
    "layer_past",
    "position_embeddings",
    "position_ids",
    "cache_position",
    "use_cache",
    "output_attentions",
    "args",
    "kwargs",
}
# Integer attributes that do not depend on the number of heads.
NUMBERS = {
    *HEAD_DIM,
    *("v_head_dim", "qk_head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "q_lora_rank", "kv_lora_rank"),
    "layer_idx",
    "sliding_window",
    "rotary_ndims",
    "rotary_dim",
    "relative_attention_num_buckets",
    "relative_attention_max_distance",
}
# Attributes, of a module or of its configuration, that do.
OF_HEADS = {*COUNTS, "num_kv_heads", "n_head", "num_heads", "embed_dim", "hidden_size", "d_model", "n_embd"}


def verify_site(site: Site, module: nn.Module) -> None:
    """Raise UnsupportedArchitecture if more than the known projections may depend on the number of heads."""
    _check_parameters(site, module)
    if (
        unknown := arguments_of(type(module).forward)
        - ARGUMENTS
        - set(site.layout.arguments)
        - set(site.layout.by_head)
        - ({"shared_kv_states"} if hasattr(module, "is_kv_shared_layer") else set())
        - ({"position_bias"} if site.layout.position_bias or site.layout.block_bias else set())
    ):
        _refuse(site, module, f"takes {', '.join(sorted(unknown))}", "whether those have an entry per head")
    if not site.layout.input_width and "embed_dim" in inspect.unwrap(type(module).forward).__code__.co_varnames:
        _refuse(site, module, "shapes its contexts by the width of its input", "how to shape those of fewer heads")
    if site.layout.order == "quarters" and site.head_dim % 4:
        _refuse(site, module, f"has heads of width {site.head_dim}", "how to split them into quarters")
    for flag in site.layout.off:
        if getattr(module, flag, False):
            _refuse(site, module, f"has {flag} set", "how that splits its heads")
    classes = type(module).__mro__
    read = _names_read(classes)
    numbers = {name for name, value in vars(module).items() if type(value) is int} - NUMBERS - set(COUNTS)
    numbers -= {*site.layout.numbers, *site.layout.totals}
    if unknown := frozenset(name for name in read & numbers if may_count_heads(classes, name)):
        _refuse(site, module, f"reads {', '.join(sorted(unknown))}", "whether they depend on the number of heads")
    if not site.layout.reads_config and (unknown := (read & OF_HEADS) - set(vars(module))):
        _refuse(site, module, f"reads {', '.join(sorted(unknown))}", "how to change those for a single layer")


def verify_model(modules: dict[str, nn.Module], paths: list[tuple[str, nn.Module]], sites: list[Site]) -> None:
    """Raise UnsupportedArchitecture if the model has attention outside of ``sites``, or if sites share weights.

    modules: every module of the model by its path. paths: the same, with those registered twice under both paths.
    """
    names = [site.name for site in sites]
    for path, module in modules.items():
        if is_linear_attention(module) and any(is_linear(child) for child in module.children()):
            names.append(path)
    for path, module in modules.items():
        attends = "attention" in type(module).__name__.lower() and any(True for _ in module.parameters())
        if attends and not any(_within(path, name) or _within(name, path) for name in names):
            raise UnsupportedArchitecture(
                f"{type(module).__name__} at {path} looks like attention but has none of the known projections; "
                "add its names to methods/heads/finding/layouts.py"
            )
        if any(name.startswith("relative_position_bias") for name in module._parameters):
            raise UnsupportedArchitecture(
                f"{type(module).__name__} at {path} has a relative position bias per head, which cannot be "
                "pruned exactly"
            )
    projections = {path for site in sites for path in (*site.projections.values(), *site.followers, site.output)}
    owners: dict[int, str] = {}
    for path, module in paths:
        for parameter in module._parameters.values():
            if parameter is None:
                continue
            first = owners.setdefault(id(parameter), path)
            if first != path and {first, path} & projections:
                raise UnsupportedArchitecture(
                    f"{type(modules['']).__name__} shares one weight between {first} and {path}; "
                    "heads can be removed from tied attention modules only in ALBERT"
                )


def runs_without_heads(site: Site, module: nn.Module) -> bool:
    """Whether the site runs without any head: by itself, or with its forward replaced (``forward_without_heads``)."""
    if site.stores:  # keys and values for other layers: attention functions take no keys without queries
        return False
    if (not needs_heads(module) and not site.norms) or site.layout.position_bias:  # T5 needs heads only for that bias
        return True
    if site.layout.needs_heads and site.layout.output.startswith("../"):
        return True  # its parent goes on with no contexts
    # It can be replaced if nothing follows its output projection but what the layout names.
    parts = {name.partition(".")[0] for name in (*site.layout.paths(), *site.layout.tables, site.layout.after)}
    parts |= {"attn_dropout", "attention_dropout"}
    parts |= {*site.layout.block_bias, *site.layout.before, *(path.rpartition(".")[2] for path in site.norms.values())}
    return is_replaced(site, module) and {name for name, _ in module.named_children()} <= parts


def is_replaced(site: Site, module: nn.Module) -> bool:
    """Whether the module's forward is replaced when no head is left, as its own cannot run."""
    return bool(site.norms) or (site.layout.needs_heads and needs_heads(module))


def needs_heads(module: nn.Module) -> bool:
    """Whether the module's code reshapes tensors in a way that torch rejects when no head is left.

    It does by its number of heads, or by pairing the entries of a head as complex numbers, in a function of its file.
    """
    read = _names_read(type(module).__mro__)
    counts = {"num_attention_heads", "num_heads", "n_heads", "split_size"}
    functions = [vars(inspect.getmodule(type(module))).get(name) for name in read]
    in_pairs = any("view_as_complex" in _names_in(each.__code__) for each in functions if inspect.isfunction(each))
    return in_pairs or bool(read & counts & set(vars(module)))


def _check_parameters(site: Site, module: nn.Module) -> None:
    known = {*site.projections.values(), *site.followers, site.output, *site.norms.values()}
    within_head = {(width,) for width in site.widths.values()}
    for name, parameter in module.named_parameters():
        owner = f"{site.name}.{name}".rpartition(".")[0]
        child = owner.rpartition(".")[2]
        after_output = child == "LayerNorm"  # ALBERT's, over the hidden size
        tables = {"relative_attention_bias"} if site.layout.position_bias else set(site.layout.block_bias)
        bias_table = child in tables  # kept whole
        of_query_heads = name in site.per_head and parameter.shape == (site.num_heads,)
        of_heads = name in site.layout.biases and parameter.shape == (site.num_heads * site.head_dim,)
        own_table = child in site.layout.tables and parameter.shape[1:] == (site.num_heads,)
        # A norm within the head; one in a list may be that of a single head, as StableLM's of queries and keys.
        shared_by_heads = parameter.shape in within_head and owner != site.name and not child.isdecimal()
        if name in site.layout.whole or name.partition(".")[0] in site.layout.before:
            continue
        expected = after_output or bias_table or of_query_heads or of_heads or own_table or shared_by_heads
        if owner not in known and not expected:
            _refuse(site, module, f"has a parameter {name} of shape {tuple(parameter.shape)}", "which heads use it")


def _refuse(site: Site, module: nn.Module, what: str, question: str) -> None:
    raise UnsupportedArchitecture(
        f"{type(module).__name__} at {site.name} {what}; it cannot be pruned exactly without knowing {question}"
    )


def _within(path: str, ancestor: str) -> bool:
    return path == ancestor or path.startswith(f"{ancestor}.") or not ancestor


@cache
def _names_read(classes: tuple[type, ...]) -> frozenset[str]:
    """Every attribute name in the methods of a class, given with all its ancestors, except its constructor."""
    names: set[str] = set()
    for ancestor in classes[: classes.index(nn.Module)]:
        for name, member in vars(ancestor).items():
            if inspect.isfunction(member) and name != "__init__":
                names |= _names_in(inspect.unwrap(member).__code__)
    return frozenset(names)


def _names_in(code: CodeType) -> set[str]:
    nested = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*(_names_in(inner) for inner in nested))
