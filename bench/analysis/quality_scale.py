"""What the quality of a record is, and the axis that it is drawn on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.records.schema import FinishedRecord

if TYPE_CHECKING:  # slow to import, and comparing does without
    from matplotlib.axes import Axes

ACCURACY, BYTE = "accuracy", "probability of a byte"
POINTS = 100  # in a quality of 1


def measure(record: FinishedRecord) -> str:
    """What quality is: accuracy or, where a model only scores texts, the probability of a byte."""
    return ACCURACY if record.result.parts else BYTE


@dataclass(frozen=True)
class Scale:
    """The axis of quality: its name, the quality of chance, and that of a perfect model, where one can be."""

    name: str
    chance: float
    perfect: float | None = 1.0

    @classmethod
    def of(cls, record: FinishedRecord) -> Scale:
        """That of a task, by one of its records."""
        chance = record.result.chance
        return cls(f"test {ACCURACY}", chance) if measure(record) == ACCURACY else cls(BYTE, chance, perfect=None)

    def fit(self, axis: Axes) -> None:
        """A little more than from nothing, or chance below it, to a perfect model or else the best one drawn."""
        top = axis.get_ylim()[1] if self.perfect is None else 1.02 * self.perfect
        axis.set_ylim(min(0, self.chance) - 0.02 * top, top)
