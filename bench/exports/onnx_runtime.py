"""ONNX Runtime, imported such that it keeps no log of its use."""

from __future__ import annotations

import os
from types import ModuleType


def onnx_runtime() -> ModuleType:
    """The module ``onnxruntime``.

    Without this setting, which it reads when it is imported, it writes a device id and a database of events to the home
    of the user and to the folder of temporary files, for its maker's telemetry. A setting of the user's is kept.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime
