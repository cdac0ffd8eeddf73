"""How methods that train come to what they keep: quality on training batches, and open gates, against the step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from bench.records.protocol import nearest_count
from bench.records.schema import FinishedRecord
from bench.report.figures.canvas import LEGEND_ROW, legend, short, told_apart
from bench.report.figures.looks import Looks
from bench.report.figures.picture import SERIES

DASHES = ("-", "--", "-.", ":")
LONGEST_OF_WIDE = 90  # characters of a name in a legend across the whole figure


@dataclass(frozen=True)
class Course:
    """The training of a method for one level, mean over seeds: each (stretches,), NaN where it was not recorded.

    kept: of how many units that training keeps how many.
    """

    kept: tuple[int, int]
    steps: np.ndarray
    loss: np.ndarray
    right: np.ndarray
    open: np.ndarray


def course(records: Sequence[FinishedRecord], level: float) -> Course | None:
    """The course of a method's training at the recorded level nearest to a share removed; None without traces.

    Of two levels that are as near, it is the one with fewer units removed. Seeds that did not record it, or with other
    steps than the first, are left out.
    """
    recorded = [(record.result.units, training.traces) for record in records
                if (training := record.result.method_training) and training.traces]  # fmt: skip
    if not recorded:
        return None
    units = recorded[0][0]
    nearest = nearest_count(level, {count for _, by_count in recorded for count in by_count}, units)
    traces = [by_count[nearest] for _, by_count in recorded if nearest in by_count]
    same = [trace for trace in traces if trace.steps == traces[0].steps]
    missing = [np.nan] * len(same[0].steps)
    means = {
        name: np.mean([getattr(trace, name) or missing for trace in same], axis=0) for name in ("loss", "right", "open")
    }
    return Course((units - nearest, units), np.array(same[0].steps), **means)


def kept_in_words(courses: Mapping[str, Course]) -> str:
    """How many units the trainings keep: ``72 of 144``, with the methods where they differ in that."""
    labels: dict[tuple[int, int], list[str]] = {}
    for label, each in courses.items():
        labels.setdefault(each.kept, []).append(label)
    together = len(labels) == 1
    return " or ".join(
        f"{kept} of {units}" + ("" if together else f" ({', '.join(own)})") for (kept, units), own in labels.items()
    )


def courses(found: Mapping[str, Course], looks: Looks, title: str) -> Figure:
    """One line for each method in two panels: accuracy on training batches, or their loss, and open gates.

    Names are without the options that a method's lines share. (As Li et al. 2021 show what annealing does.)
    """
    classifies = all(np.isfinite(each.right).all() for each in found.values())
    wide, high = 7.4, 3.1 + LEGEND_ROW * -(-len(found) // 2)
    figure = Figure(figsize=(wide, high))
    figure.subplots_adjust(left=0.6 / wide, right=1 - 0.1 / wide, top=1 - 0.35 / high, wspace=0.25)
    quality, gates = figure.subplots(1, 2)
    quality.set_title(title, loc="left")
    names = told_apart(list(found))
    lines: Counter[str] = Counter()  # of each colour
    for number, (label, each) in enumerate(found.items()):
        own = looks[label]
        place = SERIES.index(own.colour)
        look = {
            "color": own.colour,
            "linestyle": DASHES[(place + place // len(DASHES) + 2 * lines[own.colour]) % len(DASHES)],  # not both blues
            "marker": own.marker,
            "markersize": 3.5,
            # those of two lines are not at the same steps
            "markevery": (number % len(each.steps), max(6, len(each.steps) // 5)),
        }
        lines[own.colour] += 1
        name = short(names[label], LONGEST_OF_WIDE)
        quality.plot(each.steps, 100 * each.right if classifies else each.loss, label=name, **look)
        gates.plot(each.steps, each.open, **look)
    quality.set_ylabel("accuracy on training batches (%)" if classifies else "loss on training batches")
    gates.set_ylabel("units with an open gate")
    gates.set_ylim(bottom=0)
    for axis in (quality, gates):
        axis.set_xlabel("step")
    legend(figure, quality)
    return figure
