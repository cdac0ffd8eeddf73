"""The kind of a method: what becomes of the weights that are left."""

from __future__ import annotations

from bench.records.schema import CellInfo, FinishedRecord

SCORE, RECOVERED, TRAINED = "score", "recovered", "trained"
# In words, in the order in which tables and figures show them: each does more to the weights than the one before.
KINDS = {
    SCORE: "weights left as they are",
    RECOVERED: "weights recovered without training",
    TRAINED: "gates or weights trained at each level",
}


def kind(cell: CellInfo) -> str:
    """``trained``; ``recovered`` where weights change without training, by an option or by the method; or ``score``."""
    if cell.trained:
        return TRAINED
    return RECOVERED if recovery(cell) or cell.shape == "joint" else SCORE


def share_trained(record: FinishedRecord) -> float | None:
    """How much a method trains at each level, as a share of the task's own training; None for one that does not.

    Where an option says for how many epochs, it is the share of the steps, which are known where the task's model was
    trained here.
    """
    cell, result = record.cell, record.result
    own, training = result.training.steps, result.method_training
    if not (cell.trained and cell.options.get("epochs") and own and training):
        return cell.trained
    return max((report.get("steps", 0) for report in training.reports.values()), default=0) / own or cell.trained


def titled(kind: str) -> str:
    """A kind with what it means, as tables and pages name it."""
    return f"{kind}: {KINDS[kind]}"


def recovery(cell: CellInfo) -> str:
    """How the option ``recover`` gives new weights to what a method leaves; empty where it does not."""
    return str(cell.options.get("recover") or "")
