"""What is known of one kind of attention module: its projections, and what else pruning must know about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from torch import nn

from methods.heads.finding.shared_keys import source_of

# Attributes in which attention modules store the width of one head.
HEAD_DIM = ("attention_head_size", "head_dim", "head_size", "key_value_proj_dim")

# Attributes in which attention modules store their geometry, with what each counts; a module has some of them.
COUNTS = {
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_heads"), "query heads"),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "kv_heads"), "key/value heads"),
    "num_key_value_groups": "query heads per group",
    "kv_dim": "width of all key/value heads",
    **dict.fromkeys(("all_head_size", "inner_dim", "split_size"), "width of all query heads"),
}


class UnsupportedArchitecture(ValueError):
    """The model has attention that cannot be pruned exactly, as far as is known."""


@dataclass(frozen=True)
class Layout:
    """Names of an attention module's projections, relative to the module; a leading ``../`` starts at its parent.

    The query projection is a child of the module itself.

    Roles with the same name share one fused projection. Names cannot tell the ``order`` of its rows, so a fused layout
    applies only to the ``classes`` that it was checked for.
    """

    # Fields that only finding reads: what they lead to is in the description of the site.
    FOR_FINDING: ClassVar = frozenset(
        {"query", "key", "value", "classes", "follow", "arguments", "numbers", "totals", "off", "causal", "needs_heads"}
        | {"per_head", "whole", "before"}
    )

    query: str
    key: str
    value: str
    output: str
    order: str = "roles"  # of the rows of a fused projection: one of ``methods.heads.orders``
    classes: tuple[str, ...] = ()  # empty: any class
    follow: tuple[str, ...] = ()  # more linear layers, where there are any, with outputs for every query head
    biases: tuple[str, ...] = ()  # parameters of the module itself, added to the queries, keys or values of all heads
    tables: tuple[str, ...] = ()  # embeddings, where there are any, with one entry for every query head
    arguments: tuple[str, ...] = ()  # arguments of its forward, beside the usual ones, without an entry per head
    by_head: tuple[str, ...] = ()  # arguments with an entry for each query head of the unpruned model
    in_mask: tuple[str, ...] = ()  # arguments that its mask holds already, and that its eager attention adds again
    numbers: tuple[str, ...] = ()  # integers that its forward reads and that do not depend on the number of heads
    totals: tuple[str, ...] = ()  # attributes with the width of all query heads, beside those of ``COUNTS``
    off: tuple[str, ...] = ()  # flags of the module that must not be set
    causal: bool = False  # attends to no later position, though the module has no attribute that says so
    input_width: bool = False  # shapes its contexts by the width of its input
    time_first: bool = False  # its projections run on (T, B, d)
    scales_in_place: bool = False  # changes what its query projection gives in place
    windows: bool = False  # has no attention maps (B, H, T, S), as tokens attend to their neighbours only
    position_bias: bool = False  # takes a bias (1 or B, heads, T, S) computed for all heads of the unpruned model
    block_bias: tuple[str, ...] = ()  # embeddings of one module from which all compute a bias within blocks of tokens
    reads_config: bool = False  # reads its number of query heads from the configuration shared by all layers
    needs_heads: bool = False  # its forward fails when no head is left
    widths: tuple[str, ...] = ()  # attributes with the outputs per head of query, key and value; empty: HEAD_DIM
    output_gate: bool = False  # each head of the query projection is followed by a gate of its context, as wide
    per_head: tuple[str, ...] = ()  # its parameters that, where it has them, have one entry per query head
    whole: tuple[str, ...] = ()  # its parameters without an entry per head
    before: tuple[str, ...] = ()  # modules that compute what all heads share from the input
    after: str = ""  # module, where there is one, applied to the output projection's result (only if needs_heads)

    def projections(self, path: str, modules: Mapping[str, nn.Module]) -> dict[str, str]:
        """Paths of the projections of queries, keys and values and of the output, for the module at ``path``."""
        source = source_of(path, modules)
        own = {"query": part(path, self.query), "output": part(path, self.output)}
        return own | {"key": part(source, self.key), "value": part(source, self.value)}

    def paths(self) -> tuple[str, str, str, str]:
        """Names of the query, key, value and output projections."""
        return self.query, self.key, self.value, self.output

    @property
    def counts(self) -> dict[str, str]:
        """Attributes in which modules with this layout may store their geometry, with what each counts."""
        return COUNTS | dict.fromkeys(self.totals, "width of all query heads")

    @property
    def description(self) -> dict[str, Any]:
        """All fields that matter after finding, as plain data; what is empty or false is left out."""
        return set_fields(self, self.FOR_FINDING)


def set_fields(described: Any, without: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a dataclass that are not empty, zero or false, but for those named in ``without``."""
    values = {each.name: getattr(described, each.name) for each in fields(described) if each.name not in without}
    return {name: value for name, value in values.items() if value}


def part(path: str, name: str) -> str:
    """Dotted path of the module that a layout calls ``name``, for the attention module at ``path``."""
    while name.startswith("../"):
        path, name = path.rpartition(".")[0], name.removeprefix("../")
    return f"{path}.{name}" if path else name
