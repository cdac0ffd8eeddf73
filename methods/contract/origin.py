"""Where in the code of a method or plugin an error comes from."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


def own_line(function: Callable[..., Any], error: BaseException) -> traceback.FrameSummary | None:
    """The line that ``error`` came through last in the file of ``function``; None if it came through none there."""
    file = inspect.getsourcefile(function)
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return next((frame for frame in frames if frame.filename == file), None)


def at(frame: traceback.FrameSummary | None) -> str:
    """`` (mine.py:12)``, for the end of a message; nothing without a frame."""
    return f" ({Path(frame.filename).name}:{frame.lineno})" if frame else ""
