"""The verb ``run``: plan, see which records exist, run the other cells, time them, show the leaderboard."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import torch

from bench import signals
from bench.records.errors import CorruptRecord, OtherProtocol
from bench.records.schema import FailedRecord, Record
from bench.records.storage.files import check_writable
from bench.records.storage.store import Store
from bench.report import leaderboard
from bench.report.leaderboard_files import check_free
from bench.run.announcement import print_plan
from bench.run.engines import Engine, LocalEngine, cores
from bench.run.estimates.costs import Costs
from bench.run.estimates.time_left import Estimator
from bench.run.jobs import TimingJob, ordered_jobs, start_process
from bench.run.options import RunOptions
from bench.run.other_runs import registered
from bench.run.phases import run_cells, time_cells
from bench.suites.cells import Cell, plan
from bench.suites.needs import look_for, need_in_words
from bench.suites.suite import Suite
from tasks.models.cache import default_root


def run(suite: Suite, options: RunOptions) -> int:
    """Run ``suite``: 0 if all went well, 1 if a cell failed or was not timed. Raises InputError, and as planning does.

    Cells run side by side; then, with nothing of the run beside them, their smaller models are timed one by one.
    """
    if options.cluster and (options.cluster.address or not options.dry_run):
        from bench.run.cluster.connection import check

        check(options.cluster.address)
    start_process()
    with ExitStack() as stack:
        root = default_root(options.device)
        store = Store(options.out)
        needed = look_for(suite)
        cells = plan(suite, options.device)
        check_free(options.out)  # now, and not when all cells have run
        if not options.dry_run:
            check_writable(options.out)
            store.check_own(*(store.path(cell.name) for cell in cells))
        signals.at_work()
        if options.no_cache:
            root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headbench-")))
        estimator = Estimator(Costs.shipped())
        found = survey(store, cells, set_aside=not options.dry_run, learn=estimator.learn)
        if not options.dry_run:
            _set_aside_others(store, cells)
        wanted = {"missing", "stale", "corrupt"} | ({"failed"} if options.retry_failed else set())
        left = {cell: None for cell in cells if found[cell].state in wanted}
        engine = _engine(options, root, estimator, stack)
        untimed = [cell for cell in cells if found[cell].state == "untimed"] if options.latency else []
        jobs = ordered_jobs(list(left), root, engine.slots, options.timeout, untimed)
        timed = [cell for cell in cells if cell in left or found[cell].state == "untimed"] if options.latency else []
        timing = [TimingJob(cell, root, options.out, options.timeout) for cell in timed]
        needs = [need_in_words(need, place) for need, place in needed.items()]
        states = {cell: each.state for cell, each in found.items()}
        print_plan(suite, needs, states, jobs, timing, estimator, engine, options, root)
        if options.dry_run:
            return 0
        store.clear_temporary()
        stack.enter_context(registered())
        untrained = run_cells(jobs, timing, engine, estimator, options.out)
        found |= survey(store, left)
        left_to_time = [job for job in timing if found[job.cell].state == "untimed"]
        not_timed = time_cells(left_to_time, engine, estimator, options.out, untrained)
        store.clear_temporary()  # of processes that were ended while they wrote
    found |= survey(store, left)
    undone = {cell: each for cell, each in found.items() if each.state not in ("done", "untimed")}
    written = leaderboard.write(options.out)
    print(f"\n{leaderboard.summary(options.out)}")
    for cell, (state, reason) in undone.items():
        print(f"{state}: {cell.name}: {reason or 'its record was changed meanwhile'}")
    for cell, reason in not_timed.items():
        print(f"not timed: {cell.name}: {reason}")
    print(f"\nRecords: {store.folder}; {', '.join(path.name for path in written)} in {options.out}")
    print(f"Next: headbench report {options.out}; headbench compare A B {options.out} (see README)")
    return 1 if undone or not_timed else 0


def _engine(options: RunOptions, root: Path, estimator: Estimator, stack: ExitStack) -> Engine:
    """Where the run's jobs run; what it needs for that is there until ``stack`` is closed. Raises InputError."""
    if options.cluster is None:
        fresh = options.device != "cpu"  # CUDA does not survive a fork
        return LocalEngine(options.jobs or cores(), fresh)
    local = not options.cluster.address
    slots = options.jobs or max(1, cores() // options.cluster.cpus)
    if local and options.cluster.gpus:
        slots = min(slots, max(1, int(torch.cuda.device_count() / options.cluster.gpus + 1e-6)))
    if local and options.dry_run:
        return LocalEngine(slots, fresh=False)
    from bench.run.cluster.connection import connected

    stack.enter_context(connected(options.cluster, slots))
    from bench.run.cluster.engine import RayEngine

    return RayEngine(options.cluster, root, shared=local, limit=options.jobs, weigh=estimator.weight)


class Found(NamedTuple):
    """What there is of a cell: done, untimed (done but for latency), failed, missing, corrupt or stale.

    Stale records were made under other settings. reason: why a cell failed.
    """

    state: str
    reason: str = ""


def survey(
    store: Store,
    cells: Iterable[Cell],
    set_aside: bool = False,
    known: Mapping[Path, Record | CorruptRecord | OtherProtocol] | None = None,
    learn: Callable[[Record], None] = lambda record: None,
) -> dict[Cell, Found]:
    """What there is of each cell. A corrupt record is named and, with ``set_aside``, renamed.

    Every record is read and checked, which takes seconds where there are a thousand, but for those that are ``known``
    from ``Store.read_all``. None is kept, as many would not fit into memory; each goes to ``learn``.
    """
    found = {}
    for cell in cells:
        try:
            found[cell] = _find(store, cell, known or {}, learn)
        except CorruptRecord as error:
            aside = store.set_aside(store.path(cell.name)) if set_aside else None
            if set_aside and not aside:  # another run has replaced it meanwhile
                found[cell] = _find(store, cell, {}, learn)
                continue
            found[cell] = Found("corrupt")
            where = f"set aside as {aside.name}" if aside else "would be set aside"
            print(f"corrupt record, {where}: {error}", file=sys.stderr)
    return found


def _set_aside_others(store: Store, cells: Sequence[Cell]) -> None:
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


def _find(
    store: Store,
    cell: Cell,
    known: Mapping[Path, Record | CorruptRecord | OtherProtocol],
    learn: Callable[[Record], None],
) -> Found:
    path = store.path(cell.name)
    if path not in known and not store.has(path):
        return Found("missing")
    try:
        record = known.get(path) or store.read(path)
        if isinstance(record, Exception):
            raise record
    except OtherProtocol:
        return Found("stale")
    learn(record)
    if record.key != cell.key:
        return Found("stale")
    if isinstance(record, FailedRecord):
        return Found("failed", record.reason)
    return Found("done" if record.measured.latency else "untimed")
