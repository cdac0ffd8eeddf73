"""What Ctrl-C and a request to end (SIGTERM) do: one line and an exit code. Imports nothing that takes time."""

from __future__ import annotations

import os
import signal
from types import FrameType

_at_work = False
_terminated = False


class Terminated(BaseException):
    """The process was asked to end by SIGTERM; raised where it was at that moment, as KeyboardInterrupt is."""


def install() -> None:
    """Handle both signals from now on. Ctrl-C stays ignored where whoever started the process had it ignored."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _on)


def at_work() -> None:
    """From now on there may be something to clean up: a signal always raises."""
    global _at_work
    _at_work = True


def check() -> None:
    """Raise Terminated again where SIGTERM has come: it is lost where nothing can be raised, as in ``__del__``."""
    if _terminated:
        raise Terminated


def ignore() -> None:
    """From now on the process ends anyway."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _on(number: int, frame: FrameType | None) -> None:
    """Raise, except in the middle of an import before any work: libraries catch there what they should not."""
    global _terminated
    if _importing(frame) and not _at_work:
        name = "stopped" if number == signal.SIGINT else "ended by SIGTERM"
        os.write(2, f"headbench: {name}\n".encode())
        os._exit(128 + number)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    _terminated = True
    raise Terminated


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
