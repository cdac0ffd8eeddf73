"""The columns with a cell's figures, as the leaderboard and the pages show them."""

from __future__ import annotations

from typing import NamedTuple

from bench.analysis.nearest_levels import AT, USUAL
from bench.report.board import Board

# Means over machines would mix their hardware: these are of the machine that timed a cell, or of the one that made it.
TIMED = ("speedup1", "speedup8", "speedup32", "speedup_generate", "speedup_generate50")
WALL = ("scoring_seconds", "training_seconds")


class Column(NamedTuple):
    """How a figure of ``bench.analysis.cell_metrics`` is shown: times ``factor``, with ``digits`` decimals."""

    heading: str  # in the leaderboard
    short: str  # in pages; empty for what pages show otherwise
    help: str
    factor: int
    digits: int

    def of(self, quality: str) -> Column:
        """The column with ``quality``, such as ``BLEU``, in its heading."""
        return self._replace(heading=self.heading.replace("quality", quality))


COLUMNS = {
    "at50": Column("quality at 50 %", "at 50 %", "Quality with half of the heads removed, per cent", 100, 1),
    "at75": Column("quality at 75 %", "at 75 %", "Quality with three quarters of the heads removed, per cent", 100, 1),
    "area": Column("area", "area", "Mean quality over all shares removed; 0 is chance, 1 the unpruned model", 1, 3),
    "area50": Column(
        "area to 50 %",
        "area to 50 %",
        "Mean quality over the shares up to a half removed; 0 is chance, 1 the unpruned model",
        1,
        3,
    ),
    "within1": Column(
        "heads off, -1 pt (%)",
        "off, −1 pt",
        "Largest share removed, per cent, before quality falls by more than 1 point",
        100,
        0,
    ),
    "within5": Column(
        "heads off, -5 pt (%)",
        "off, −5 pt",
        "Largest share removed, per cent, before quality falls by more than 5 points",
        100,
        0,
    ),
    "parameters50": Column(
        "parameters off at 50 % (%)", "params off", "Share of all parameters removed at 50 %, per cent", 100, 1
    ),
    "mb": Column("MB at 50 %", "MB", "Size at 50 %, in MB of 2^20 bytes", 1, 3),
    "speedup1": Column(
        "speed-up, batch 1",
        "speed-up, b1",
        "At 50 %, batch 1, relative to the unpruned model",
        1,
        2,
    ),
    "speedup8": Column(
        "speed-up, batch 8",
        "speed-up, b8",
        "At 50 %, batch 8, relative to the unpruned model",
        1,
        2,
    ),
    "speedup32": Column(
        "speed-up, batch 32",
        "speed-up, b32",
        "At 50 %, batch 32, relative to the unpruned model",
        1,
        2,
    ),
    "speedup_generate": Column("speed-up of generation at 22 %", "", "", 1, 2),
    "speedup_generate50": Column(
        "speed-up of generation at 50 %",
        "speed-up, generation",
        "Of generating token by token at 50 %, relative to the unpruned model",
        1,
        2,
    ),
    "scoring_seconds": Column(
        "scoring (s)", "scoring s", "Wall seconds of scoring, and of recovery at all levels", 1, 2
    ),
    "forward": Column(
        "forward", "forward", "Calibration examples sent forward through the model, to score and to recover", 1, 0
    ),
    "backward": Column(
        "backward", "backward", "Calibration examples sent backward through the model, to score and to recover", 1, 0
    ),
    "training_seconds": Column(
        "training (s)",
        "training s",
        "Wall seconds of training gates, or gates and weights, at all levels together",
        1,
        1,
    ),
}


def columns_of(board: Board) -> list[str]:
    """Columns that means can be taken of: times only where they are from one machine."""
    timed, made = len(board.machines) <= 1, len(board.makers) <= 1
    levels = [name for name in board.table.columns if AT.fullmatch(name)]
    names = [*levels, *(name for name in COLUMNS if name not in USUAL)]
    return [name for name in names if (timed or name not in TIMED) and (made or name not in WALL)]


def column(name: str) -> Column:
    """The column ``name`` of ``columns_of``, which may be of another level than those of ``COLUMNS``."""
    if name in COLUMNS:
        return COLUMNS[name]
    found = AT.fullmatch(name)
    assert found is not None
    said = " to ".join(filter(None, found.groups()))
    return Column(
        f"quality at {said} %", f"at {said} %", f"Quality with {said} % of the heads removed, per cent", 100, 1
    )
