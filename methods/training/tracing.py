"""Recording a training while it runs, from what it computes anyway."""

from __future__ import annotations

from torch import Tensor

from methods.contract.trace import Trace

STRETCHES = 40  # in a trace, at most
OPEN = 0.01  # least gate of a unit that counts as open


class Recorder:
    """Makes the trace of a training of ``steps`` steps. Runs no model, and waits for a GPU once in a stretch."""

    def __init__(self, steps: int) -> None:
        self._last, self._each = steps, -(-steps // STRETCHES)
        self._taken = self._examples = self._open = 0
        self._loss: Tensor | float = 0.0
        self._right: Tensor | float = 0.0
        self._classifies = self._gated = False
        self._rows: list[tuple[int, float, float, float]] = []

    def step(self, loss: Tensor, logits: Tensor, labels: Tensor, gates: Tensor | None) -> None:
        """Note one step: the mean loss of a batch, its logits and labels and, on the CPU, the gates, (units,)."""
        self._taken += 1
        self._loss = self._loss + loss.detach().double()
        if logits.dim() == 2:
            self._classifies = True
            self._examples += len(logits)
            self._right = self._right + (logits.detach().argmax(-1) == labels).sum()
        if gates is not None:
            self._gated = True
            self._open += int((gates.detach() >= OPEN).sum())
        if not self._taken % self._each or self._taken == self._last:
            self._end_stretch()

    def _end_stretch(self) -> None:
        before = self._rows[-1][0] if self._rows else 0
        steps = self._taken - before
        loss, right = float(self._loss) / steps, float(self._right) / max(1, self._examples)
        self._rows.append((self._taken, _rounded(loss), _rounded(right), _rounded(self._open / steps)))
        self._loss, self._right, self._examples, self._open = 0.0, 0.0, 0, 0

    @property
    def trace(self) -> Trace:
        """The stretches so far."""
        steps, loss, right, opened = (tuple(column) for column in zip(*self._rows, strict=True))
        return Trace(steps, loss, right if self._classifies else (), opened if self._gated else ())


def _rounded(value: float) -> float:
    """To five digits, so that records stay small."""
    return float(f"{value:.5g}")
