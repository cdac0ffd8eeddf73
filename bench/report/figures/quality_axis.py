"""The axis that quality is drawn on."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from matplotlib.axes import Axes

from bench.analysis.quality import BYTE_PROBABILITY, quality_name
from bench.records.schema import FinishedRecord

ROOM = 0.04  # of the scale, beyond what is drawn


@dataclass(frozen=True)
class QualityAxis:
    """Name of the axis, the quality of chance, which is on it, and the most that there can be: bands may go beyond."""

    name: str
    chance: float
    most: float = inf

    @classmethod
    def of(cls, record: FinishedRecord) -> QualityAxis:
        """The axis of a task, by one of its records."""
        chance, name = record.result.chance, quality_name(record)
        return cls(name, chance) if name == BYTE_PROBABILITY else cls(f"test {name}", chance, most=1.0)

    def fit(self, axis: Axes) -> None:
        """Let ``axis`` go from chance, or the worst that is drawn, to the best that is drawn, with room at both ends.

        A scale to a perfect model would press the curves of most tasks into a part of the figure.
        """
        low, high = axis.dataLim.intervaly
        low, high = min(low, self.chance), min(max(high, self.chance), self.most)
        room = ROOM * (high - low or 1)
        axis.set_ylim(low - room, high + room)
