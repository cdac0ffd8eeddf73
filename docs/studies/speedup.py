"""Does removing heads make a model faster, and its memory smaller? Measured, and by arithmetic.

    OMP_NUM_THREADS=2 HF_HUB_OFFLINE=1 python docs/studies/speedup.py [SHAPE ...]
    python docs/studies/speedup.py --page

Builds random models of four well-known shapes, takes 25, 50 and 75 % of their heads from every layer, and half of them
unevenly, and times a pass of each on texts of one length: eagerly, compiled by torch and in ONNX Runtime. Adds lines to
``speedup.csv`` beside this file, where what is there already is not measured again; ``--page`` draws ``speedup.svg``
and writes the tables of docs/speed.md. The machine should have nothing else to do; it takes half an hour on two cores.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers as t
from shapes import SHAPES, Shape, Step, arithmetic, pruned  # beside this file
from studied import add, lines  # beside this file

from bench.exports.graphs import graphs_of
from bench.exports.onnx_files import write_onnx
from bench.measure.timing import interleaved
from bench.records.provenance import provenance

TABLE = Path(__file__).with_suffix(".csv")
COLUMNS = ("shape", "step", "runtime", "batch", "removed", "spread", "milliseconds", "repeats", "flops")
COLUMNS += ("weights_mb", "cache_mb", "processor", "threads", "torch")
KEY = COLUMNS[:6]
BATCHES = (1, 8, 32)
VARIANTS = ((0.0, "even"), (0.25, "even"), (0.5, "even"), (0.75, "even"), (0.5, "uneven"))
RUNTIMES = ("eager", "compiled", "onnx")
WARM_UPS, REPEATS, PATIENCE = 1, 7, 25.0
CPU = torch.device("cpu")
Variant = tuple[float, str]


@dataclass(frozen=True)
class Timed:
    """A pass of one variant, with the values of the graph's inputs for a batch size."""

    call: Callable[[Mapping[str, torch.Tensor]], object]
    inputs: Callable[[int], Mapping[str, torch.Tensor]]


def eager(shape: Shape, step: Step, model: t.PreTrainedModel) -> Timed:
    """The graph as torch runs it, with the attention that transformers chooses."""
    graph = graphs_of(model, shape.names)[step.graph]
    graph.module.model.set_attn_implementation("sdpa" if shape.sdpa else "eager")
    return Timed(lambda given: graph.module(*(given[name] for name in graph.inputs)), partial(step.inputs, model))


def compiled(shape: Shape, step: Step, model: t.PreTrainedModel) -> Timed:
    """The same, compiled once for all batch sizes but 1."""
    plain = eager(shape, step, model)
    return Timed(torch.compile(plain.call, dynamic=True), plain.inputs)


def onnx(shape: Shape, step: Step, model: t.PreTrainedModel, folder: Path) -> Timed:
    """The graph in ONNX Runtime, with as many threads as torch."""
    import onnxruntime

    files = write_onnx(model, shape.names, folder) if not folder.exists() else sorted(folder.glob("*.onnx"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    name = graphs_of(model, shape.names)[step.graph].name
    (file,) = (file for file in files if file.stem == name)
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    wanted = [each.name for each in session.get_inputs()]

    def run(given: Mapping[str, torch.Tensor]) -> object:
        return session.run(None, {name: given[name].numpy() for name in wanted})

    return Timed(run, partial(step.inputs, model))


def measured(name: str, done: set[tuple[str, ...]], folder: Path) -> Iterator[dict[str, Any]]:
    """New lines of a shape, one batch size of one step in one runtime after another."""
    shape = SHAPES[name]
    models: dict[Variant, Any] = {}
    for step in shape.steps:
        for runtime in RUNTIMES:
            rows = {batch: _keys(name, step, runtime, batch) for batch in BATCHES}
            rows = {batch: keys for batch, keys in rows.items() if not done.issuperset(keys)}
            if not rows:
                continue
            models = models or {variant: pruned(shape.model(shape.layers), *variant) for variant in VARIANTS}
            timed = {variant: _timed(runtime, shape, step, model, folder) for variant, model in models.items()}
            counted = {variant: arithmetic(shape, step, model) for variant, model in models.items()}
            for batch, keys in rows.items():
                calls = {each: partial(one.call, one.inputs(batch)) for each, one in timed.items()}
                print(f"{shape.title}, {step.name}, {runtime}, batch {batch}", flush=True)
                laps = interleaved(calls, CPU, warm_ups=WARM_UPS, repeats=REPEATS, patience=PATIENCE)
                for variant, key in zip(VARIANTS, keys, strict=True):
                    operations, weights, cached = counted[variant]
                    yield dict(zip(KEY, key, strict=True)) | {
                        "milliseconds": f"{1000 * median(laps[variant].wall):.4g}",
                        "repeats": len(laps[variant].wall),
                        "flops": operations,
                        "weights_mb": f"{weights / 2**20:.2f}",
                        "cache_mb": f"{cached / 2**20:.2f}",
                        "processor": provenance().processor,
                        "threads": torch.get_num_threads(),
                        "torch": torch.__version__,
                    }
            torch.compiler.reset()


def _timed(runtime: str, shape: Shape, step: Step, model: Any, folder: Path) -> Timed:
    if runtime == "onnx":
        return onnx(shape, step, model, folder / f"{id(model)}")
    return {"eager": eager, "compiled": compiled}[runtime](shape, step, model)


def _all_keys(name: str) -> Iterator[tuple[str, ...]]:
    for step in SHAPES[name].steps:
        for runtime in RUNTIMES:
            for batch in BATCHES:
                yield from _keys(name, step, runtime, batch)


def _keys(name: str, step: Step, runtime: str, batch: int) -> list[tuple[str, ...]]:
    return [(name, step.name, runtime, str(batch), str(removed), spread) for removed, spread in VARIANTS]


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=", ".join(SHAPES))
    parser.add_argument("--page", action="store_true", help="draw the figure and write the tables of docs/speed.md")
    options = parser.parse_args()
    if options.page:
        from speed_page import write_page  # beside this file

        wanted = {key for name in SHAPES for key in _all_keys(name)}
        if missing := len(wanted - {tuple(line[name] for name in KEY) for line in lines(TABLE)}):
            parser.error(f"{TABLE.name} lacks {missing} of {len(wanted)} lines: measure first")
        write_page(lines(TABLE))
        return
    if unknown := set(options.shapes) - SHAPES.keys():
        parser.error(f"unknown shape: {', '.join(sorted(unknown))}; known: {', '.join(SHAPES)}")
    torch._dynamo.config.recompile_limit = 64  # all variants share the code of one forward pass
    done = {tuple(line[name] for name in KEY) for line in lines(TABLE)}
    for name in options.shapes or SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            for line in measured(name, done, Path(folder)):
                add(TABLE, COLUMNS, [line])


if __name__ == "__main__":
    main()
