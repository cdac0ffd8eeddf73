"""Where every number comes from: the records by method and task, and what each was made with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bench.analysis.machines import machine
from bench.records.schema import FinishedRecord, TaskKey
from bench.records.storage.packed import is_packed
from bench.records.storage.store import Store
from bench.report.board import Board
from bench.report.pages.render import render


def records_page(board: Board, out: Path) -> bytes:
    """The page of a report in the folder ``out``; it links to records only where they are near it."""
    origins = sorted({_origin(record) for record in board.records.values()})
    methods = [
        (label, [_row(board, out, task, label, origins) for task in board.tasks if board.paths(task, label)])
        for label in board.labels
    ]
    return render(
        "records.html", title="Records", root="", origins=origins, methods=methods, linked=_linked(board.folder, out)
    )


def _row(board: Board, out: Path, task: TaskKey, label: str, origins: list[str]) -> dict[str, Any]:
    """The records of a method on a task, and the numbers of their origins."""
    paths = board.paths(task, label)
    folders = {folder: os.path.relpath(folder.resolve(), out.resolve()) for folder in {path.parent for path in paths}}
    records = [
        {
            "link": quote(Path(folders[path.parent], path.name).as_posix()),
            "file": path.name,
            "key": record.key[:12],
            "seed": record.cell.seed,
        }
        for path, record in paths.items()
    ]
    return {
        "task": task,
        "name": board.name(task),
        "folder": next(iter(paths)).parent.relative_to(board.folder).as_posix(),
        "records": records,
        "origins": sorted({origins.index(_origin(record)) + 1 for record in paths.values()}),
    }


def _linked(folder: Path, out: Path) -> bool:
    """Whether records are files, and the report lies in the run's folder or beside it, so that both move together."""
    if is_packed(Store(folder).folder):
        return False
    return out.resolve().is_relative_to(folder.resolve()) or out.resolve().parent == folder.resolve().parent


def _origin(record: FinishedRecord) -> str:
    """Commit, versions and machine in one line."""
    came = record.provenance
    commit = f"commit {came.commit or 'unknown'}" + (" with uncommitted changes" if came.dirty else "")
    packages = ", ".join(f"{name} {version}" for name, version in came.packages.items() if version)
    return f"{commit}; {machine(record)}; {came.system}; Python {came.python}; {packages}"
