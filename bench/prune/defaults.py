"""Values of the flags of ``prune``, as the command line and the card need them. Must not import torch."""

from __future__ import annotations

from typing import Any, Literal

Export = Literal["onnx", "onnx-int8"]
DEFAULTS: dict[str, Any] = {"seed": 0, "calibration": 128, "calibration_from": "held-out", "training": 1.0}
