"""The verb ``run``: plan, see which records exist, run the other cells, time them, show the leaderboard."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import torch

from bench.process import signals
from bench.process.cores import cores
from bench.records.storage.files import check_writable
from bench.records.storage.store import Store
from bench.report import leaderboard
from bench.report.leaderboard_files import check_free
from bench.run.announcement import print_plan
from bench.run.engines import Engine, LocalEngine
from bench.run.estimates.costs import Costs
from bench.run.estimates.time_left import Estimator
from bench.run.jobs import TimingJob, ordered_jobs, start_process
from bench.run.options import RunOptions
from bench.run.other_runs import registered
from bench.run.phases import run_cells, time_cells
from bench.run.states import set_aside_others, states_of
from bench.suites.cells import plan
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
        states = states_of(store, cells, set_aside=not options.dry_run, learn=estimator.learn)
        if not options.dry_run:
            set_aside_others(store, cells)
        wanted = {"missing", "stale", "corrupt"} | ({"failed"} if options.retry_failed else set())
        left = {cell: None for cell in cells if states[cell].name in wanted}
        engine = _engine(options, root, estimator, stack)
        untimed = [cell for cell in cells if states[cell].name == "untimed"] if options.latency else []
        jobs = ordered_jobs(list(left), root, engine.slots, options.timeout, untimed)
        timed = [cell for cell in cells if cell in left or states[cell].name == "untimed"] if options.latency else []
        timing = [TimingJob(cell, root, options.out, options.timeout) for cell in timed]
        needs = [need_in_words(need, place) for need, place in needed.items()]
        names = {cell: state.name for cell, state in states.items()}
        print_plan(suite, needs, names, jobs, timing, estimator, engine, options, root)
        if options.dry_run:
            return 0
        store.clear_temporary()
        stack.enter_context(registered())
        untrained = run_cells(jobs, timing, engine, estimator, options.out)
        states |= states_of(store, left)
        left_to_time = [job for job in timing if states[job.cell].name == "untimed"]
        not_timed = time_cells(left_to_time, engine, estimator, options.out, untrained)
        store.clear_temporary()  # of processes that were ended while they wrote
    states |= states_of(store, left)
    undone = {cell: state for cell, state in states.items() if state.name not in ("done", "untimed")}
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
        slots = min(slots, max(1, options.cluster.fit(torch.cuda.device_count())))
    if local and options.dry_run:
        return LocalEngine(slots, fresh=False)
    from bench.run.cluster.connection import connected

    stack.enter_context(connected(options.cluster, slots))
    from bench.run.cluster.engine import RayEngine

    return RayEngine(options.cluster, root, shared=local, limit=options.jobs, weigh=estimator.weight)
