"""The axis that quality is drawn on."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes

from bench.analysis.quality import BYTE_PROBABILITY, quality_name
from bench.records.schema import FinishedRecord


@dataclass(frozen=True)
class QualityAxis:
    """Name and limits of the axis: the quality of chance, and that of a perfect model if there can be one."""

    name: str
    chance: float
    perfect: float | None = 1.0

    @classmethod
    def of(cls, record: FinishedRecord) -> QualityAxis:
        """The axis of a task, by one of its records."""
        chance, name = record.result.chance, quality_name(record)
        return cls(name, chance, perfect=None) if name == BYTE_PROBABILITY else cls(f"test {name}", chance)

    def fit(self, axis: Axes) -> None:
        """Let ``axis`` go from 0, or chance if that is below, to a perfect model or else to the best one drawn."""
        top = axis.get_ylim()[1] if self.perfect is None else 1.02 * self.perfect
        axis.set_ylim(min(0, self.chance) - 0.02 * top, top)
