"""The verb ``leaderboard``: the leaderboard in the form that is asked for, and its files written again."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from bench.records.errors import InputError
from bench.report import leaderboard
from bench.report.board import Board
from bench.report.left_out import left_out

RENDERED = ("html", "latex")  # forms of the main table that have no place for remarks


def show(folder: Path, form: str, sort: str, by_schedule: bool) -> None:
    """Print the leaderboard of ``folder`` as ``form`` and write its files there, where they can be written.

    What the form does not say, remarks on its records, goes to the standard error stream. Raises InputError for flags
    that exclude each other, and if there are no records.
    """
    if form == "csv" and sort != "area":
        raise InputError("--sort: csv has a line for each seed, in the order of tasks and methods")
    if by_schedule and sort != "area":
        raise InputError("--by schedule: its rows are in the order of the scores' names, so --sort changes nothing")
    with leaderboard.current(folder) as board:
        texts = leaderboard.texts(board)
        print(leaderboard.by_schedule(board, form) if by_schedule else _whole(board, texts, form, sort), end="")
        try:
            leaderboard.put(board, texts)
        except OSError as error:  # records in a folder that is only readable are still shown
            print(f"headbench: not written to {folder}: {error.strerror}", file=sys.stderr)
    if by_schedule or form in RENDERED:
        for remark in (*leaderboard.remarks(board), *left_out(board)):
            print(f"headbench: {remark}", file=sys.stderr)


def _whole(board: Board, texts: Mapping[str, str], form: str, sort: str) -> str:
    """All methods as ``form``; texts: what the files hold."""
    if form in RENDERED:
        from bench.report.write import main_table_as

        return main_table_as(board, form, sort)
    return leaderboard.markdown(board, sort) if sort != "area" else texts[f"leaderboard.{form}"]
