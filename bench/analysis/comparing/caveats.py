"""What a reader must know beside the difference of two methods, as it would mislead by itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from bench.analysis.comparing.controls import chooses_at_random, controls_of, same_but_for_recovery
from bench.analysis.kinds import RECOVERED, SCORE, kind, recovery, share_trained
from bench.analysis.naming import of_one_model
from bench.analysis.quality import CHANCE_ERRORS
from bench.analysis.run_results import FinishedCell, RunResults, SeedPairs
from bench.records.schema import CellInfo, TaskKey

Cells = Sequence[FinishedCell]
ALIKE = 1.05  # times as long as another training, which is not said: steps are whole


def caveats(
    results: RunResults, pairs: Mapping[TaskKey, SeedPairs], names: Mapping[TaskKey, str], low: Collection[TaskKey]
) -> tuple[str, ...]:
    """Clauses that follow "Note that".

    pairs: the cells that are compared, at least two. names: of their tasks. low: tasks whose unpruned model is no
    better than chance.
    """
    sides = [[both[side] for pair in pairs.values() for both in pair.values()] for side in (0, 1)]
    a, b = (side[0].record.cell for side in sides)
    return (
        *_at_chance([names[task] for task in pairs if task in low], several=len(pairs) > 1),
        *_controls(results, a.label, b.label),
        *_trained(*sides),
        *_recovered(a, b),
        *_of_one_model(pairs, names),
        *(caveat for side in sides for caveat in _removes_nothing(side)),
    )


def _at_chance(names: Sequence[str], several: bool) -> list[str]:
    """That there is nothing to lose, where tasks are compared anyway."""
    if not names:
        return []
    where = f" on {', '.join(names)}" * several
    return [
        f"the unpruned model is not better than chance by {CHANCE_ERRORS} standard errors{where}: it has nothing to "
        "lose there, and a difference says little of the methods"
    ]


def _controls(results: RunResults, a: str, b: str) -> list[str]:
    """For a method that is compared with another's random control: which is its own."""
    records = {cell.record.cell.label: cell.record for cell in results.cells}
    return [
        f"the random control of {label} is {own}"
        for label, other in ((a, b), (b, a))
        if chooses_at_random(records[other].cell) and (own := controls_of(records, label).get("random", other)) != other
    ]


def _trained(a: Cells, b: Cells) -> list[str]:
    """That one of the methods was trained longer than the other, for which shares of the task's training."""
    found = []
    for own, others in ((a, b), (b, a)):
        shares = [
            (share_trained(one.record) or 0.0, share_trained(other.record) or 0.0)
            for one, other in zip(own, others, strict=True)
        ]
        if longer := [pair for pair in shares if pair[0] > ALIKE * pair[1]]:
            trained, less = map(_percent, zip(*longer, strict=True))
            found.append(
                f"{own[0].record.cell.label} was trained at each level, for {trained} of the task's own training, and "
                f"{others[0].record.cell.label} {'was not' if less == '0 %' else f'for {less}'}: part of the "
                "difference is due to training"
            )
    return found


def _percent(shares: Sequence[float]) -> str:
    low, high = 100 * min(shares), 100 * max(shares)
    return f"{low:.3g}" + (f" to {high:.3g}" if high > low else "") + " %"


def _recovered(a: CellInfo, b: CellInfo) -> list[str]:
    """That weights were recovered for one of two methods alone, or in two ways, unless that is what is compared."""
    if same_but_for_recovery(a, b):
        return []
    if kind(a) == kind(b) == RECOVERED and recovery(a) != recovery(b):
        ways = " and ".join(
            f"{cell.label} by {f'recover={how}' if (how := recovery(cell)) else 'a way of its own'}" for cell in (a, b)
        )
        return [f"weights were recovered without training in two ways, {ways}: part of the difference is due to that"]
    return [
        f"weights of {one.label} were recovered without training, and those of {other.label} were not: part of the "
        "difference is due to that"
        for one, other in ((a, b), (b, a))
        if (kind(one), kind(other)) == (RECOVERED, SCORE)
    ]


def _of_one_model(pairs: Mapping[TaskKey, SeedPairs], names: Mapping[TaskKey, str]) -> list[str]:
    """That the model of some tasks is taken as it is, so that their seeds say nothing of other models.

    A method without any random choice then has one result, whatever the number of seeds.
    """
    drawn = {
        task: what
        for task, pair in pairs.items()
        if (what := of_one_model(cell.record for both in pair.values() for cell in both))
    }
    if not drawn:
        return []
    where = f"on {', '.join(names[task] for task in drawn)} seeds are" if len(pairs) > 1 else "seeds are"
    told = f"{where} {min(drawn.values())}: the interval says nothing of other models"
    sides = [[[both[side] for both in pairs[task].values()] for task in drawn] for side in (0, 1)]
    fixed = [side[0][0].record.cell.label for side in sides if all(map(_is_one_result, side))]
    if fixed:
        told += f", and {' and '.join(fixed)} {'give' if len(fixed) > 1 else 'gives'} the same result in every draw"
    return [told]


def _is_one_result(cells: Cells) -> bool:
    """Whether several cells have the same quality at every level, though they remove something."""
    return (
        len(cells) > 1
        and any(cell.parameters.any() for cell in cells)
        and all(np.array_equal(cell.quality, cells[0].quality) for cell in cells)
    )


def _removes_nothing(cells: Cells) -> list[str]:
    if any(cell.parameters.any() for cell in cells):
        return []
    return [f"{cells[0].record.cell.label} removes nothing: its quality is that of the unpruned model at every level"]
