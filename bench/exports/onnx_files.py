"""Writing a model as ONNX files."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from bench.exports.empty_layers import leave_out_empty_layers
from bench.exports.errors import in_one_line, without_logs
from bench.exports.graphs import Graph, graphs_of
from bench.records.errors import InputError

OPSET = 18
NEEDED = ("onnx", "onnxscript", "onnxruntime")


def check_installed() -> None:
    """Raise InputError unless what ONNX files are written and run with is installed."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise InputError(f"--export onnx needs {', '.join(missing)}: python -m pip install 'headbench[onnx]'")


def write_onnx(model: PreTrainedModel, names: tuple[str, ...], folder: Path) -> list[Path]:
    """Write the graphs of ``model``, with operators of version ``OPSET``, to a new ``folder``; returns the files.

    names: of the inputs of a classifier. Raises InputError if torch cannot make a graph of the model.
    """
    folder.mkdir()
    files = []
    what = f"--export onnx: torch makes no graph of {type(model).__name__}"  # making one runs the model's code
    with in_one_line(what), _quiet(), torch.no_grad():
        for graph in graphs_of(model, names):
            files.append(folder / f"{graph.name}.onnx")
            _write(graph, files[-1])
    return files


def _write(graph: Graph, file: Path) -> None:
    shapes = tuple(dict.fromkeys(graph.axes[name], torch.export.Dim.DYNAMIC) for name in graph.inputs)
    program = torch.export.export(graph.module, tuple(graph.inputs.values()), dynamic_shapes=(shapes,), strict=False)
    leave_out_empty_layers(program)
    written: Any = torch.onnx.export(
        program,
        input_names=list(graph.inputs),
        output_names=list(graph.outputs),
        opset_version=OPSET,
        dynamo=True,
        verbose=False,
    )
    _name_axes(written.model.graph, graph)
    _forget_sources(written.model)
    written.save(file)


def _name_axes(written: Any, graph: Graph) -> None:
    """Give the sizes of inputs and outputs that may vary their names in place of torch's symbols."""
    import onnx_ir

    names: dict[str, str] = {}  # by symbol
    for value in written.inputs:
        names |= {str(value.shape[axis]): name for axis, name in graph.axes[value.name].items()}
    for value in (*written.inputs, *written.outputs):
        sizes = [size if isinstance(size, int) else _renamed(str(size), names) for size in value.shape]
        value.shape = onnx_ir.Shape(sizes)


def _renamed(size: str, names: dict[str, str]) -> str:
    return re.sub(r"\w+", lambda symbol: names.get(symbol[0], symbol[0]), size)


def _forget_sources(model: Any) -> None:
    """Remove where in which file each node comes from: it is long, and names folders of the user."""
    import onnx_ir

    model.metadata_props.clear()
    for node in onnx_ir.traversal.RecursiveGraphIterator(model.graph):
        node.metadata_props.clear()
        for value in node.outputs:
            value.metadata_props.clear()


@contextmanager
def _quiet() -> Iterator[None]:
    """Inside, torch neither warns of what it lacks, or deprecates itself, nor prints the graph that it gives up."""
    with without_logs(logging.ERROR), warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
