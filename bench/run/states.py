"""What there is of each cell of a run: a record that is done, one that is of no use, or none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.records.errors import CorruptRecord, OtherProtocol
from bench.records.schema import FailedRecord, Record
from bench.records.storage.store import Store
from bench.suites.cells import Cell


class CellState(NamedTuple):
    """What there is of a cell: done, untimed (done but for latency), failed, missing, corrupt or stale.

    Stale records were made under other settings. reason: why a cell failed.
    """

    name: str
    reason: str = ""


def states_of(
    store: Store,
    cells: Iterable[Cell],
    set_aside: bool = False,
    known: Mapping[Path, Record | CorruptRecord | OtherProtocol] | None = None,
    learn: Callable[[Record], None] = lambda record: None,
) -> dict[Cell, CellState]:
    """What there is of each cell. A corrupt record is named and, with ``set_aside``, renamed.

    Every record is read and checked, which takes seconds where there are a thousand, but for those that are ``known``
    from ``Store.read_all``. None is kept, as many would not fit into memory; each goes to ``learn``.
    """
    states = {}
    for cell in cells:
        try:
            states[cell] = _state_of(store, cell, known or {}, learn)
        except CorruptRecord as error:
            aside = store.set_aside(store.path(cell.name)) if set_aside else None
            if set_aside and not aside:  # another run has replaced it meanwhile
                states[cell] = _state_of(store, cell, {}, learn)
                continue
            states[cell] = CellState("corrupt")
            where = f"set aside as {aside.name}" if aside else "would be set aside"
            print(f"corrupt record, {where}: {error}", file=sys.stderr)
    return states


def _state_of(
    store: Store,
    cell: Cell,
    known: Mapping[Path, Record | CorruptRecord | OtherProtocol],
    learn: Callable[[Record], None],
) -> CellState:
    """What there is of ``cell``. Raises CorruptRecord."""
    path = store.path(cell.name)
    if path not in known and not store.has(path):
        return CellState("missing")
    try:
        record = known.get(path) or store.read(path)
        if isinstance(record, Exception):
            raise record
    except OtherProtocol:
        return CellState("stale")
    learn(record)
    if record.key != cell.key:
        return CellState("stale")
    if isinstance(record, FailedRecord):
        return CellState("failed", record.reason)
    return CellState("done" if record.measured.latency else "untimed")


def set_aside_others(store: Store, cells: Iterable[Cell]) -> None:
    """Set aside the corrupt records of earlier runs with other cells: the leaderboard shows theirs too."""
    for path in sorted(set(store.paths()) - {store.path(cell.name) for cell in cells}):
        if store.link_above(path):
            continue  # not ours to rename; whoever reads it leaves it out
        try:
            store.read(path)
        except OtherProtocol:
            continue
        except CorruptRecord as error:
            if aside := store.set_aside(path):
                print(f"corrupt record, set aside as {aside.name}: {error}", file=sys.stderr)
