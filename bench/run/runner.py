"""The verb ``run``: plan, see what is there already, run the rest, show the leaderboard."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from bench.analysis.curves import curve as mean_curve
from bench.analysis.curves import removes
from bench.analysis.quality import quality_name
from bench.measure.cost import duration
from bench.records.errors import InputError
from bench.records.schema import Record
from bench.records.store import CorruptRecord, Store
from bench.report import leaderboard
from bench.run.engine import run_jobs
from bench.run.jobs import CellJob, TrainJob, ordered, start_process
from bench.run.time_left import Estimator
from bench.suites.cells import Cell, open_task, plan
from bench.suites.parse import Suite
from tasks.models.cache import Cache, default_root


@dataclass(frozen=True)
class RunOptions:
    """How to run a suite."""

    out: Path
    jobs: int
    device: str
    retry_failed: bool = False
    dry_run: bool = False
    no_cache: bool = False


def run(suite: Suite, options: RunOptions) -> int:
    """Run ``suite``: 0 if every cell has a result, 1 if some failed. Raises InputError and what planning raises."""
    start_process()
    with ExitStack() as stack:
        root = default_root()
        if options.no_cache:
            root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headbench-")))
        store = Store(options.out)
        cells = plan(suite, options.device)
        if not options.dry_run:
            check_writable(options.out)
        states = survey(store, cells, set_aside=not options.dry_run)
        if not options.dry_run:
            _set_aside_others(store, cells)
        wanted = {"missing", "stale", "corrupt"} | ({"failed"} if options.retry_failed else set())
        todo = [cell for cell in cells if states[cell] in wanted]
        jobs = ordered(todo, root, options.out, options.jobs)
        estimator = Estimator(_readable(store, cells))
        _announce(suite, cells, states, jobs, estimator, options, root)
        if options.dry_run:
            return 0
        store.clear_temporary()
        _execute(jobs, estimator, options)
    undone = {cell: state for cell, state in survey(store, cells).items() if state != "done"}
    written = leaderboard.write(options.out)
    print(f"\n{leaderboard.summary(options.out)}")
    for cell, state in undone.items():
        reason = store.read(store.path(cell))["reason"] if state == "failed" else "its record was changed meanwhile"
        print(f"{state}: {cell.name}: {reason}")
    print(f"\nRecords: {store.folder}; {', '.join(path.name for path in written)} in {options.out}")
    print(f"Next: headbench report {options.out}; headbench compare A B {options.out} (see README)")
    return 1 if undone else 0


def survey(store: Store, cells: list[Cell], set_aside: bool = False) -> dict[Cell, str]:
    """State of each cell: done, failed, missing, stale (made under other settings) or corrupt.

    A corrupt record is named and, with ``set_aside``, moved out of the way.
    """
    states = {}
    for cell in cells:
        try:
            states[cell] = _state(store, cell)
        except CorruptRecord as error:
            states[cell] = "corrupt"
            where = f"set aside as {store.set_aside(store.path(cell)).name}" if set_aside else "would be set aside"
            print(f"corrupt record, {where}: {error}", file=sys.stderr)
    return states


def _set_aside_others(store: Store, cells: list[Cell]) -> None:
    """Set aside the corrupt records of earlier runs with other cells: the leaderboard shows theirs too."""
    for path in set(store.paths()) - {store.path(cell) for cell in cells}:
        try:
            store.read(path)
        except CorruptRecord as error:
            print(f"corrupt record, set aside as {store.set_aside(path).name}: {error}", file=sys.stderr)


def _state(store: Store, cell: Cell) -> str:
    path = store.path(cell)
    if not path.exists():
        return "missing"
    record = store.read(path)
    return record.status if record.key == cell.key else "stale"


def _readable(store: Store, cells: list[Cell]) -> list[Record]:
    records = []
    for cell in cells:
        try:
            records.append(store.read(store.path(cell)))
        except CorruptRecord:
            continue
    return records


def _announce(suite, cells, states, jobs, estimator, options: RunOptions, root: Path) -> None:
    counts = Counter(states.values())
    tasks = {(cell.task.task, cell.data, cell.model): cell.task for cell in cells}
    print(
        f"suite {suite.name}: {len(cells)} cells = "
        f"{len(tasks)} tasks x {len(suite.methods)} methods x {len(suite.seeds)} seeds"
    )
    for (task, data, model), spec in sorted(tasks.items()):
        own = open_task(spec).own_data
        print("; ".join([f"  {task}: {data}, {model}", *((own.sizes, *own.remarks) if own else ())]))
    print("  " + ", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
    training = sum(isinstance(job, TrainJob) for job in jobs)
    if jobs:
        print(
            f"  to do: {len(jobs) - training} cells after training {training} models, "
            f"{_about(estimator, jobs, options)}on {options.jobs} "
            f"{'process' if options.jobs == 1 else 'processes'} ({options.device})"
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


def _execute(jobs: list[TrainJob | CellJob], estimator: Estimator, options: RunOptions) -> None:
    left = dict(enumerate(jobs))
    with closing(run_jobs(jobs, options.jobs, start_process)) as ended:  # no process outlives an error here
        for done in ended:
            job = left.pop(done.index)
            if done.error is not None:
                raise done.error
            estimator.saw(job, done.seconds)
            value = done.value
            if done.died:
                value = job.died(done.died) if isinstance(job, CellJob) else {"failure": done.died}
            rest = f", {about}left" if (about := _about(estimator, left.values(), options)) and left else ""
            count = f"{len(jobs) - len(left)}/{len(jobs)}"
            print(f"[{count}] {_outcome(job, value)} ({duration(done.seconds)}{rest})", flush=True)


def _about(estimator: Estimator, jobs: Iterable[TrainJob | CellJob], options: RunOptions) -> str:
    """The time that ``jobs`` take, empty where nothing tells."""
    seconds = estimator.seconds(jobs, options.jobs)
    return "" if seconds is None else f"about {duration(seconds)} "


def _outcome(job: TrainJob | CellJob, value: Record) -> str:
    cell = job.cell
    where = cell.where
    if isinstance(job, TrainJob):
        if "failure" in value:
            return f"training {where}: failed: {value['failure']}"
        missed = "" if value.get("target_met") in (True, None) else f", short of its target {value['target']:.3f}"
        return f"trained {where}: validation accuracy {value['validation_accuracy']:.3f}{missed}"
    if value["status"] == "failed":
        return f"{cell.method.label} on {where}: failed: {value['reason']}"
    share, curve = mean_curve(value)
    middle = len(curve) // 2
    left = (
        ""
        if cell.method.name == "none"
        else f", {curve[middle]:.3f} with {share[middle]:.0%} of the {removes(value)} gone"
    )
    return f"{cell.method.label} on {where}: {quality_name(value)} {curve[0]:.3f}{left}"


def check_writable(out: Path) -> None:
    """Raise InputError where nothing can be written to ``out``."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise InputError(f"--out {out}: cannot write there: {error.strerror}") from error
