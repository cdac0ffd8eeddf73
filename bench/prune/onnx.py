"""A pruned model as ONNX files: written, checked against the checkpoint, evaluated and timed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bench.exports.check import largest, runner_gap
from bench.exports.int8 import quantized
from bench.exports.onnx_files import OPSET, write_onnx
from bench.exports.runner import Runner, in_place_of
from bench.prune.card import Onnx, Pruned
from bench.prune.times import times_of
from bench.records.errors import InputError
from tasks.contract import Task

TOLERANCE = 1e-5  # between logits in float32, in units of their scale; what is wrong in a graph gives 1e-3 and more
CALLED = {
    "classifier": "It takes what the tokenizer gives, in any number of texts of any length.",
    "cache": "It takes and gives keys and values of earlier tokens (none at first) for each layer that has heads.",
    "encoder-decoder": "The encoder runs once; the decoder has no cache and takes all tokens at each step.",
}


def export_onnx(task: Task, smaller: Any, pruned: Pruned, folder: Path, int8: bool) -> Onnx:
    """Write ``smaller``, which is on the CPU, to ``folder/onnx``; what the card says of it.

    Raises InputError if torch makes no graph of the model, if ONNX Runtime does not run or quantise the files, if they
    do not compute what the model does, or if the quantised ones give logits that are not finite.
    """
    cpu = torch.device("cpu")
    probes = [task.probe(size, cpu).inputs for size in (1, 8)]
    versions = [write_onnx(smaller, tuple(probes[0]), folder / "onnx")]
    runners = [Runner(versions[0])]
    gap = largest([runner_gap(smaller, runners[0], _arguments(smaller, inputs)) for inputs in probes])
    if not gap <= TOLERANCE:
        raise InputError(
            f"--export: logits of the ONNX files and of the checkpoint differ by {gap:.1e} of their scale, by more "
            f"than rounding makes ({TOLERANCE:.0e}): leave --export out"
        )
    if int8:
        versions.append([quantized(file) for file in versions[0]])
        runners.append(Runner(versions[1]))
    twins = [in_place_of(smaller, runner) for runner in runners]
    quality = [pruned.quality[1], task.evaluate(twins[0]).quality]
    if int8:
        try:
            quality.append(task.evaluate(twins[1]).quality)
        except FloatingPointError as error:
            said = "the quantised files give logits that are not finite: use --export onnx"
            raise InputError(f"--export onnx-int8: {said}") from error
    decoder = "cache" if smaller.can_generate() else "classifier"
    called = "encoder-decoder" if len(versions[0]) > 1 else decoder
    return Onnx(
        opset=OPSET,
        names=tuple(tuple(file.name for file in files) for files in versions),
        gap=gap,
        inputs=CALLED[called],
        quality=tuple(quality),
        megabytes=(pruned.megabytes[1], *(_megabytes(files) for files in versions)),
        times=times_of(task, [smaller, *twins], cpu),
    )


def _arguments(model: Any, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Those of ``inputs`` that the model itself takes."""
    if model.can_generate():
        names = ("input_ids", "attention_mask", "decoder_input_ids")
        return {name: inputs[name] for name in names if name in inputs}
    return inputs


def _megabytes(files: Sequence[Path]) -> float:
    """Size of files, with the weights that large ones have beside them, in MB of 2**20 bytes."""
    return sum(each.stat().st_size for file in files for each in file.parent.glob(f"{file.name}*")) / 2**20
