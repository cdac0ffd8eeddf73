"""The cost of a piece of work: seconds, examples sent through the model, peak memory."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn


@dataclass
class Passes:
    """Examples sent forward and backward through a model: a cost that no noise can change."""

    forward: int = 0
    backward: int = 0
    counted: bool = True  # copies of a model keep its hook

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Inside, nothing is counted."""
        self.counted = False
        try:
            yield
        finally:
            self.counted = True


@contextmanager
def counting(model: nn.Module) -> Iterator[Passes]:
    """Inside, count the examples that pass through ``model`` and through copies of it, whoever sends them."""
    passes = Passes()

    def on_forward(module, args, output):
        if not passes.counted:
            return
        logits = output.logits
        passes.forward += len(logits)
        if logits.requires_grad:
            logits.register_hook(on_backward)

    def on_backward(gradient):
        passes.backward += len(gradient)

    handle = model.register_forward_hook(on_forward)
    try:
        yield passes
    finally:
        passes.counted = False
        handle.remove()


class Stopwatch:
    """Wall and processor seconds, added up over every ``with`` block; waits for work queued on a GPU.

    seconds: wall seconds. processor_seconds: those of this process, which other work on the machine makes longer by
    some per cent, where it may double wall seconds.
    """

    def __init__(self, device: torch.device):
        self.seconds = self.processor_seconds = 0.0
        self.device = device

    def __enter__(self) -> Stopwatch:
        settle(self.device)
        self._begin = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        settle(self.device)
        wall, processor = self._begin
        self.seconds += time.perf_counter() - wall
        self.processor_seconds += time.process_time() - processor

    def add(self, other: Stopwatch) -> None:
        """Add what ``other`` shows."""
        self.seconds += other.seconds
        self.processor_seconds += other.processor_seconds


def settle(device: torch.device) -> None:
    """Wait for the work that is queued on a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def reset_peak(device: torch.device) -> None:
    """Reset the peak of memory, where the system allows it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    if device.type == "cuda":
        torch.cuda.init()  # a process that has not used a GPU yet has no peaks, and refuses to reset them
        for each in range(torch.cuda.device_count()):
            torch.cuda.reset_peak_memory_stats(each)


def peak_bytes(device: torch.device) -> dict[str, int]:
    """Peak memory of the process and of all GPUs since ``reset_peak`` (since the process began, if not on Linux)."""
    try:
        status = Path("/proc/self/status").read_text()
        peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    peaks = {"process": peak}
    if device.type == "cuda":
        peaks["device"] = sum(map(torch.cuda.max_memory_allocated, range(torch.cuda.device_count())))
    return peaks
