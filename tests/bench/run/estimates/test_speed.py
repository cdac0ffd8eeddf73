"""How fast this machine multiplies matrices, by which hours are estimated."""

from __future__ import annotations

import time

import pytest
import torch

from bench.run.estimates import shapes


class Slow:
    """A matrix that takes 2 ms of the processor to be multiplied, and waits for 20 ms until it has it."""

    def __matmul__(self, other):
        time.sleep(0.02)
        begin = time.thread_time()
        while time.thread_time() - begin < 0.002:
            pass
        return self


def test_time_in_which_other_work_has_the_processor_does_not_count(monkeypatch):
    monkeypatch.setattr(shapes, "SECONDS", 0.01)
    monkeypatch.setattr(torch, "ones", lambda *_, **__: Slow())
    found = shapes.flops_per_second("cpu", 1, torch.float32)
    assert found == pytest.approx(2 * shapes.SIDE**3 / 0.002, rel=0.5)  # by the wall, a tenth of that
