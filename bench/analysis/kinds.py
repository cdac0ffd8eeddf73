"""The kind of a method: what becomes of the weights that are left."""

from __future__ import annotations

from bench.records.schema import CellInfo

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


def titled(kind: str) -> str:
    """A kind with what it means, as tables and pages name it."""
    return f"{kind}: {KINDS[kind]}"


def recovery(cell: CellInfo) -> str:
    """How the option ``recover`` gives new weights to what a method leaves; empty where it does not."""
    return str(cell.options.get("recover") or "")
