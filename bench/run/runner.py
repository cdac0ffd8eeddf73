"""The verb ``run``: plan, see which records exist, run the other cells, time them, show the leaderboard."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.analysis.curves import curve, removes
from bench.analysis.quality import quality_name
from bench.measure.status import duration
from bench.records.files import check_writable
from bench.records.schema import FailedRecord, FinishedRecord, Record
from bench.records.store import CorruptRecord, OtherProtocol, Store
from bench.report import leaderboard
from bench.run.engine import run_jobs
from bench.run.jobs import CellJob, Job, TimingJob, TrainJob, ordered, start_process
from bench.run.other_runs import announced, other_runs
from bench.run.time_left import Estimator
from bench.suites.cells import Cell, open_task, plan
from bench.suites.suite import Suite
from tasks.models.cache import Cache, default_root

TIMING_LINES = 10  # lines of progress while cells are timed, which is quick for each


@dataclass(frozen=True)
class RunOptions:
    """How to run a suite."""

    out: Path
    jobs: int
    device: str
    retry_failed: bool = False
    dry_run: bool = False
    no_cache: bool = False
    latency: bool = True


def run(suite: Suite, options: RunOptions) -> int:
    """Run ``suite``: 0 if every cell has a result, 1 if some failed. Raises InputError and what planning raises.

    Cells run side by side; then, with nothing of the run beside them, their smaller models are timed one by one.
    """
    start_process()
    with ExitStack() as stack:
        root = default_root()
        if options.no_cache:
            root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headbench-")))
        store = Store(options.out)
        cells = plan(suite, options.device)
        if not options.dry_run:
            check_writable(options.out)
            store.check_own(*(store.path(cell.name) for cell in cells))
        states = survey(store, cells, set_aside=not options.dry_run)
        if not options.dry_run:
            _set_aside_others(store, cells)
        wanted = {"missing", "stale", "corrupt"} | ({"failed"} if options.retry_failed else set())
        jobs = ordered([cell for cell in cells if states[cell] in wanted], root, options.out, options.jobs)
        estimator = Estimator(_readable(store, cells))
        _announce(suite, cells, states, jobs, estimator, options, root)
        if options.dry_run:
            return 0
        store.clear_temporary()
        stack.enter_context(announced())
        _run_jobs(jobs, estimator, options)
        untimed = _time_cells(store, cells, root, options) if options.latency else {}
    undone = {cell: state for cell, state in survey(store, cells).items() if state not in ("done", "untimed")}
    written = leaderboard.write(options.out)
    print(f"\n{leaderboard.summary(options.out)}")
    for cell, state in undone.items():
        record = _read(store, cell)
        reason = record.reason if isinstance(record, FailedRecord) else "its record was changed meanwhile"
        print(f"{state}: {cell.name}: {reason}")
    for cell, reason in untimed.items():
        print(f"not timed: {cell.name}: {reason}")
    print(f"\nRecords: {store.folder}; {', '.join(path.name for path in written)} in {options.out}")
    print(f"Next: headbench report {options.out}; headbench compare A B {options.out} (see README)")
    return 1 if undone or untimed else 0


def survey(store: Store, cells: Iterable[Cell], set_aside: bool = False) -> dict[Cell, str]:
    """State of each cell: done, untimed (done but for latency), failed, missing, corrupt or stale.

    Stale records were made under other settings. A corrupt one is named and, with ``set_aside``, renamed.
    """
    states = {}
    for cell in cells:
        try:
            states[cell] = _state(store, cell)
        except CorruptRecord as error:
            states[cell] = "corrupt"
            where = f"set aside as {store.set_aside(store.path(cell.name)).name}" if set_aside else "would be set aside"
            print(f"corrupt record, {where}: {error}", file=sys.stderr)
    return states


def _set_aside_others(store: Store, cells: Sequence[Cell]) -> None:
    """Set aside the corrupt records of earlier runs with other cells: the leaderboard shows theirs too."""
    for path in set(store.paths()) - {store.path(cell.name) for cell in cells}:
        if store.link_above(path):
            continue  # not ours to rename; whoever reads it leaves it out
        try:
            store.read(path)
        except OtherProtocol:
            continue
        except CorruptRecord as error:
            print(f"corrupt record, set aside as {store.set_aside(path).name}: {error}", file=sys.stderr)


def _state(store: Store, cell: Cell) -> str:
    path = store.path(cell.name)
    if not path.exists():
        return "missing"
    try:
        record = store.read(path)
    except OtherProtocol:
        return "stale"
    if record.key != cell.key:
        return "stale"
    if isinstance(record, FailedRecord):
        return "failed"
    return "done" if record.measured.latency else "untimed"


def _read(store: Store, cell: Cell) -> Record | None:
    """The record of ``cell``; None where it cannot be read."""
    try:
        return store.read(store.path(cell.name))
    except (CorruptRecord, OtherProtocol):
        return None


def _readable(store: Store, cells: Iterable[Cell]) -> list[Record]:
    return [record for cell in cells if (record := _read(store, cell)) is not None]


def _announce(
    suite: Suite,
    cells: Sequence[Cell],
    states: dict[Cell, str],
    jobs: Sequence[Job],
    estimator: Estimator,
    options: RunOptions,
    root: Path,
) -> None:
    counts = Counter(states.values())
    tasks = {(cell.task.task, cell.data, cell.model): cell.task for cell in cells}
    print(
        f"suite {suite.name}: {count_of(len(cells), 'cell')} = {count_of(len(tasks), 'task')} x "
        f"{count_of(len(suite.methods), 'method')} x {count_of(len(suite.seeds), 'seed')}"
    )
    for (task, data, model), spec in sorted(tasks.items()):
        own = open_task(spec).own_data
        print("; ".join([f"  {task}: {data}, {model}", *((own.sizes, *own.remarks) if own else ())]))
    print("  " + ", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
    training = sum(isinstance(job, TrainJob) for job in jobs)
    if jobs:
        after = f" after training {count_of(training, 'model')}" if training else ""
        print(
            f"  to do: {count_of(len(jobs) - training, 'cell')}"
            f"{after}, "
            f"{_about(estimator, jobs, options)}on {count_of(options.jobs, 'process')} ({options.device})"
        )
    if not options.no_cache:
        print(f"  trained models: {root} ({Cache(root).size() / 2**20:.1f} MB)")
    if counts["stale"]:
        print(f"  {counts['stale']} records were made under other settings and will be replaced")
    if counts["failed"] and not options.retry_failed:
        print(f"  {counts['failed']} cells failed before; --retry-failed runs them again")
    if options.dry_run:
        for cell in cells:
            print(f"  {states[cell]:8} {cell.name}")
    sys.stdout.flush()


def count_of(number: int, what: str) -> str:
    """``1 cell``, ``2 cells``, ``2 processes``."""
    ending = "" if number == 1 else "es" if what.endswith("s") else "s"
    return f"{number} {what}{ending}"


def _run_jobs(jobs: Sequence[TrainJob | CellJob], estimator: Estimator, options: RunOptions) -> None:
    left = dict(enumerate(jobs))
    with closing(run_jobs(jobs, options.jobs, start_process)) as ended:  # no process outlives an error here
        for done in ended:
            job = left.pop(done.index)
            if done.error is not None:
                raise done.error
            estimator.saw(job, done.seconds)
            value: Any = job.died(done.died) if done.died else done.value
            rest = f", {about}left" if (about := _about(estimator, left.values(), options)) and left else ""
            count = f"{len(jobs) - len(left)}/{len(jobs)}"
            told = _trained(job, value) if isinstance(job, TrainJob) else _outcome(job.cell, value)
            print(f"[{count}] {told} ({duration(done.seconds)}{rest})", flush=True)


def _time_cells(store: Store, cells: Sequence[Cell], root: Path, options: RunOptions) -> dict[Cell, str]:
    """Time the cells that are not timed yet; why not, for those that cannot be."""
    todo = [cell for cell, state in survey(store, cells).items() if state == "untimed"]
    if not todo:
        return {}
    beside = "".join(f"; another run is at work, and may slow it down ({each})" for each in other_runs())
    print(f"timing the smaller models of {count_of(len(todo), 'cell')}, one by one{beside}", flush=True)
    failed: dict[Cell, str] = {}
    spent = 0.0
    jobs = [TimingJob(cell, root, options.out) for cell in todo]
    alone = min(options.jobs, 2) - 1  # in a process of its own, if cells are: one that dies must not end the run
    with closing(run_jobs(jobs, 1, start_process, own_process=bool(alone))) as ended:
        for number, done in enumerate(ended, 1):
            if done.error is not None:
                raise done.error
            spent += done.seconds
            if reason := done.died or done.value:
                failed[todo[done.index]] = reason
            if number * TIMING_LINES // len(todo) > (number - 1) * TIMING_LINES // len(todo):
                left = duration(spent / number * (len(todo) - number))
                rest = f" (about {left} left)" if number < len(todo) else ""
                print(f"[{number}/{len(todo)}] timed{rest}", flush=True)
    return failed


def _about(estimator: Estimator, jobs: Iterable[Job], options: RunOptions) -> str:
    """The time that ``jobs`` take, empty where it is not known."""
    seconds = estimator.seconds(jobs, options.jobs)
    return "" if seconds is None else f"about {duration(seconds)} "


def _trained(job: TrainJob, report: dict) -> str:
    where = job.cell.where
    if "failure" in report:
        return f"training {where}: failed: {report['failure']}"
    missed = "" if report.get("target_met") in (True, None) else f", short of its target {report['target']:.3f}"
    return f"trained {where}: validation accuracy {report['validation_accuracy']:.3f}{missed}"


def _outcome(cell: Cell, record: Record) -> str:
    if not isinstance(record, FinishedRecord):
        return f"{cell.method.label} on {cell.where}: failed: {record.reason}"
    shares, quality = curve(record)
    middle = len(quality) // 2
    half = f", {quality[middle]:.3f} with {shares[middle]:.0%} of the {removes(record)} removed"
    return (
        f"{cell.method.label} on {cell.where}: {quality_name(record)} {quality[0]:.3f}"
        f"{'' if cell.method.name == 'none' else half}"
    )
