"""The controls of a method: what of its result is due to its choice, and what to new weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.analysis.curves import removes, removes_parameters
from bench.analysis.kinds import RECOVERED, SCORE, TRAINED, kind, recovery
from bench.records.schema import CellInfo, FinishedRecord

RANDOM = ("random", "random-both", "random-retrained")  # methods that choose at random
STRONGEST = ("lstsq", "scale", "scale-damped", "bias")  # ways to recover, the one that changes most weights first
Records = Mapping[str, FinishedRecord]  # one of each method, by its label


def random_removal(records: Records) -> str:
    """Label of the control that removes heads at random and leaves the weights alone: every method should beat it.

    Of several, one with its usual options; empty without any.
    """
    found = [
        label
        for label, record in records.items()
        if record.cell.method in RANDOM and kind(record.cell) == SCORE and removes(record) == "heads"
    ]
    return min(found, key=lambda label: (label not in RANDOM, label), default="")


def chooses_at_random(cell: CellInfo) -> bool:
    """Whether the method is a control that chooses at random, whatever becomes of the weights."""
    return cell.control and (cell.method in RANDOM or cell.options.get("choice") == "random")


def controls_of(records: Records, label: str) -> dict[str, str]:
    """Labels of the controls of a method by what they control for, as far as ``records`` have them.

    ``random``: chooses at random, removes the same parts, and does the same to the weights that are left.
    ``michel``: of a trained method, the control whose heads ``michel`` chose before as long a training or, of one that
    trains gates alone, ``michel`` itself.
    ``untreated``: of a recovered method, the same one without recovery. Of a trained one, that with the choice of its
    control, or else ``michel``, with weights recovered without training.

    A method that removes nothing has no control, and none is its own.
    """
    if not removes_parameters(records[label]):
        return {}
    find: dict[str, Callable[[Records, str], str]] = {"random": _random, "michel": _michel, "untreated": _untreated}
    found = {role: search(records, label) for role, search in find.items()}
    return {role: control for role, control in found.items() if control not in ("", label)}


def same_but_for_recovery(one: CellInfo, other: CellInfo) -> bool:
    """Whether two methods choose alike, and differ in nothing but how weights are recovered, if at all."""
    return (one.method, _own(one)) == (other.method, _own(other))


def _random(records: Records, label: str) -> str:
    own = records[label].cell
    return _closest(
        records,
        label,
        lambda cell: (
            chooses_at_random(cell)
            and kind(cell) == _treated(own)
            and (not recovery(own) or recovery(cell) == recovery(own))
        ),
    )


def _treated(cell: CellInfo) -> str:
    """The kind by what is done to the weights: a method that trains gates on ``frozen`` weights leaves them alone."""
    return SCORE if cell.options.get("frozen") else kind(cell)


def _michel(records: Records, label: str) -> str:
    own = records[label].cell
    if kind(own) != TRAINED or chooses_at_random(own):
        return ""
    method = "michel-retrained" if _treated(own) == TRAINED else "michel"
    return _closest(records, label, lambda cell: cell.method == method and kind(cell) == _treated(own))


def _untreated(records: Records, label: str) -> str:
    own = records[label].cell
    if _treated(own) == SCORE:
        return ""
    if kind(own) == RECOVERED:
        return _closest(records, label, lambda cell: not recovery(cell) and same_but_for_recovery(cell, own))
    choice = own.options.get("choice", "random" if own.method in RANDOM else "michel")
    return _closest(records, label, lambda cell: cell.method == choice and bool(recovery(cell)))


def _closest(records: Records, label: str, wanted: Callable[[CellInfo], bool]) -> str:
    """Of the methods that are ``wanted`` and remove what ``label`` does, the one with the most similar options.

    That is the strongest recovery, then the fewest options in which the two differ, then the shortest label. Empty
    without any.
    """
    own = records[label].cell

    def rank(other: str) -> tuple[int, int, int, str]:
        cell = records[other].cell
        shared = cell.options.keys() & own.options.keys() - {"choice"}
        differ = sum(cell.options[name] != own.options[name] for name in shared)
        return _strength(cell), differ, len(other), other

    parts = removes(records[label])
    alike = (other for other, each in records.items() if wanted(each.cell) and removes(each) == parts)
    return min(alike, key=rank, default="")


def _strength(cell: CellInfo) -> int:
    """Place in ``STRONGEST``; of other ways, or none, behind it."""
    return STRONGEST.index(found) if (found := recovery(cell)) in STRONGEST else len(STRONGEST)


def _own(cell: CellInfo) -> dict[str, object]:
    return {name: value for name, value in cell.options.items() if name != "recover"}
