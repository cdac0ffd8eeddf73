"""Files with weights of eight bits."""

from __future__ import annotations

import logging
from pathlib import Path

from bench.exports.errors import in_one_line, without_logs
from bench.exports.onnx_runtime import onnx_runtime


def quantized(file: Path) -> Path:
    """Write ``file`` again, as ``NAME_int8.onnx`` beside it, with int8 weights; activations are quantised as they come.

    Of each matrix product with a weight, by ONNX Runtime's dynamic quantisation. Returns the new file. Raises
    InputError if ONNX Runtime cannot do it.
    """
    onnx_runtime()
    from onnxruntime.quantization import QuantType, quantize_dynamic

    smaller = file.with_name(f"{file.stem}_int8{file.suffix}")
    what = f"--export onnx-int8: ONNX Runtime does not quantise {file.name}"  # it may fail above 2 GB
    quiet = without_logs(logging.WARNING)  # it recommends to run a program before, which changes nothing here
    with in_one_line(what, "use --export onnx"), quiet:
        # With weights of 7 bits, as processors without VNNI add up products in 16 bits, which 8 would overflow.
        quantize_dynamic(file, smaller, weight_type=QuantType.QInt8, reduce_range=True)
    return smaller
