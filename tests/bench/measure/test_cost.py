"""Stopwatches and the peak of memory."""

from __future__ import annotations

import sys
import time

import pytest
import torch

from bench.measure.cost import Stopwatch, peak_bytes, reset_peak

CPU = torch.device("cpu")


def test_a_stopwatch_adds_up_what_each_block_took():
    watch = Stopwatch(CPU)
    for _ in range(3):
        with watch:
            begin = time.process_time()
            while time.process_time() < begin + 0.02:
                pass
    assert watch.seconds >= watch.processor_seconds - 1e-3 and watch.processor_seconds >= 0.06


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is that of the whole process elsewhere")
def test_the_peak_is_of_memory_that_is_free_again_and_not_of_what_was_before():
    size = 2**27
    bytearray(size)
    reset_peak(CPU)
    before = peak_bytes(CPU)["process"]
    bytearray(size)
    assert size / 2 < peak_bytes(CPU)["process"] - before < 2 * size
    reset_peak(CPU)
    assert peak_bytes(CPU)["process"] < before + size / 2
