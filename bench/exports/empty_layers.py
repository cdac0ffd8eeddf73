"""Leave the attention of layers without heads out of an exported program.

Such a layer has tensors without elements, from its projections to its output projection, which adds up nothing and so
gives its bias. Runtimes reshape such tensors wrongly, and need not see them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, Node

ATEN = torch.ops.aten


def leave_out_empty_layers(program: ExportedProgram) -> None:
    """Replace linear layers without inputs by their biases in place, and remove what nothing else depends on."""
    graph = program.graph_module.graph
    for node in list(graph.nodes):
        adds_nothing = node.target is ATEN.linear.default and _is_empty(node.args[0]) and not _is_empty(node)
        if adds_nothing and (like := _with_leading_sizes_of(node.args[0])) is not None:
            node.replace_all_uses_with(_bias(graph, node, like))
    for node in reversed(list(graph.nodes)):  # torch's own removal keeps attention, as it might drop out at random
        if node.op == "call_function" and not node.users and (_is_empty(node) or node.target is ATEN.linear.default):
            graph.erase_node(node)
    graph.eliminate_dead_code()
    graph.lint()
    program._guards_code = []  # on sizes of all inputs, of which some may have become idle
    program.graph_module.recompile()


def _is_empty(node: Any) -> bool:
    """Whether a node is a tensor that has no elements, whatever the sizes of the inputs."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and any(isinstance(size, int) and not size for size in value.shape)


def _with_leading_sizes_of(empty: Node) -> Node | None:
    """The nearest tensor with elements that ``empty`` comes from, with the same sizes but the last; None without."""
    wanted = empty.meta["val"].shape[:-1]
    seen, waiting = {empty}, [empty]
    while waiting:
        for source in waiting.pop(0).all_input_nodes:
            value = source.meta.get("val")
            if source in seen:
                continue
            if isinstance(value, torch.Tensor) and not _is_empty(source) and str(value.shape[:-1]) == str(wanted):
                return source
            seen.add(source)
            waiting.append(source)
    return None


def _bias(graph: Graph, linear: Node, like: Node) -> Node:
    """A node with the result of ``linear`` without inputs: its bias, or zeros, for each position of ``like``."""
    value = linear.meta["val"]
    with graph.inserting_before(linear):
        sizes: list[Any] = []
        for axis, size in enumerate(value.shape[:-1]):
            sizes.append(graph.call_function(ATEN.sym_size.int, (like, axis)))
            sizes[-1].meta["val"] = size
        shape = [*sizes, value.shape[-1]]
        bias = linear.args[2] if len(linear.args) > 2 else linear.kwargs.get("bias")
        if bias is None:
            constant = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
            result = graph.call_function(ATEN.full.default, (shape, 0.0), constant)
        else:
            result = graph.call_function(ATEN.expand.default, (bias, shape))
    result.meta = dict(linear.meta)
    return result
