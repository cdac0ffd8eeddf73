"""Run one cell: open the model, let the method choose, evaluate what it keeps."""

from __future__ import annotations

import errno
import re
import time
import traceback
from collections.abc import Hashable
from contextlib import ExitStack

import numpy as np
import torch
from pydantic import ValidationError

from bench.measure.corpus import signatures_of, statistics_of, translations_of
from bench.measure.cost import Stopwatch, counting, peak_bytes, reset_peak
from bench.measure.evaluate import Ends, Evaluator, evaluate_ends
from bench.measure.isolation import same_outputs
from bench.measure.result import arrays_of, result_of
from bench.measure.status import Status
from bench.measure.timing import timed_levels
from bench.measure.view import view_of
from bench.records.errors import Changed, first_complaint
from bench.records.measured import Measured, ProcessorSeconds
from bench.records.protocol import PROTOCOL
from bench.records.provenance import provenance
from bench.records.schema import CellInfo, FailedRecord, FinishedRecord, Record
from bench.suites.cells import Cell, open_task, origin_of
from methods import METHODS
from methods.contract.method import RECOVER
from methods.contract.origin import at, own_line
from methods.contract.side_effects import no_side_effects, same_texts
from methods.heads import HeadMap
from methods.recovery.choosing import choose
from tasks.contract import Task
from tasks.models.cache import Cache, NoCache
from tasks.models.steps import steps_reported_to

Arrays = dict[str, np.ndarray]
LONGEST_REASON = 500  # characters
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all such characters but tabs and ends of lines
OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
# Evaluations of the last model with all heads and with none, by task, seed and device. The cells of a model follow one
# another in a process.
_ends: dict[Hashable, Ends] = {}


def run_cell(cell: Cell, cache: Cache) -> tuple[Record, Arrays]:
    """The record of ``cell``, which is not timed yet, and its arrays; the record of the failure, and none, if it fails.

    Raises OSError or Changed where it says nothing about the cell, see ``of_the_machine``.
    """
    try:
        with (
            Status(f"{cell.method.label} on {cell.where}") as status,
            steps_reported_to(lambda steps: status.now(f"training, {steps}")),
        ):
            return _run(cell, cache, status)
    except (Exception, SystemExit) as error:  # a method's own fault must not stop the others
        if of_the_machine(error):
            raise
        where = _printable(at(own_line(METHODS[cell.method.name].function, error)))
        return failed_record(cell, reason_of(error) + where, _printable(traceback.format_exc())), {}


def of_the_machine(error: BaseException) -> bool:
    """Whether ``error`` is a full or failing disk, a missing permission, or other data than the run was planned with.

    Every other cell would meet it as well. Other errors of the system, such as a connection that a task's adapter
    loses, are the cell's own.
    """
    return isinstance(error, (NoCache, Changed)) or (isinstance(error, OSError) and error.errno in OF_THE_MACHINE)


def reason_of(error: BaseException) -> str:
    """Why something failed, in one line that any terminal and file can hold."""
    try:
        said = first_complaint(error) if isinstance(error, ValidationError) else str(error).strip() or "no message"
    except BaseException as another:  # an error's text is code of whoever wrote it
        said = f"its message cannot be shown ({type(another).__name__})"
    return _printable(f"{type(error).__name__}: {said}".splitlines()[0][:LONGEST_REASON])


def _printable(text: str) -> str:
    """``text`` with what UTF-8 cannot encode, and what steers a terminal, written as its number."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def failed_record(cell: Cell, reason: str, trace: str | None = None) -> FailedRecord:
    """The record of a cell that failed for ``reason``, one line."""
    return FailedRecord(key=cell.key, cell=describe(cell), provenance=provenance(), reason=reason, traceback=trace)


def describe(cell: Cell) -> CellInfo:
    """What ``cell`` is, as its record says it."""
    method = METHODS[cell.method.name]
    return CellInfo(
        protocol=PROTOCOL,
        task=cell.task.task,
        data=cell.data,
        model=cell.model,
        origin=cell.origin,
        method=cell.method.name,
        label=cell.method.label,
        options=cell.method.options,
        source=method.source,
        shape=method.shape,
        control=method.is_control(cell.method.options),
        seed=cell.seed,
        calibration=cell.calibration,
        calibration_from=cell.calibration_from,
        trained=cell.training if method.trains else None,
        device=cell.device,
        asked=cell.task.without_folders(),
    )


def check_origin(cell: Cell, task: Task) -> None:
    """Raise Changed where this process reads other data or another model than the cell was planned with.

    Another node may have another revision from the hub, and a folder may be written to during the run.
    """
    if cell.origin and origin_of(task.fingerprints(cell.seed)) != cell.origin:
        raise Changed(
            f"{cell.where}: its data or model is not the one that this run was planned with: it was changed since, or "
            "is another one here; run the command again"
        )


def _run(cell: Cell, cache: Cache, status: Status) -> tuple[FinishedRecord, Arrays]:
    started = time.perf_counter()
    device = torch.device(cell.device)
    task = open_task(cell.task)
    method = METHODS[cell.method.name]
    reset_peak(device)
    check_origin(cell, task)
    training = task.prepare(cell.seed, cache, device)
    model = task.open(cell.seed, cache, device).requires_grad_(False)
    of_model = cell.task, cell.seed, cell.device
    if of_model not in _ends:
        status.now("evaluating with all heads and with none")
        ends = evaluate_ends(task, model, HeadMap.of(model, cell.task.unit, cell.task.kinds), cell.removed, device)
        _ends.clear()
        _ends[of_model] = ends
    view = view_of(task, model, method, cell.seed, cell.calibration, cell.training, device, cell.calibration_from)
    choosing, evaluation = Stopwatch(device), Stopwatch(device)
    with ExitStack() as stack:
        stack.enter_context(same_outputs(task, model))
        stack.enter_context(no_side_effects(model))
        stack.enter_context(same_texts(view))
        passes = stack.enter_context(counting(model))
        status.now(lambda: f"choosing, {passes.forward} examples sent forward and {passes.backward} backward")
        checked = timed_levels(cell.removed, len(view.heads), cell.generate)
        evaluator = Evaluator(task, view, checked, passes, choosing, evaluation, ends=_ends[of_model])
        draws = evaluator(choose(method, cell.method.options, view, cell.removed))
    trains = method.trains
    result = result_of(draws, view, task, cell.removed, passes, training, trains)
    recovery = None
    if RECOVER.name in cell.method.options or method.training_free:
        levels = zip(cell.removed, draws[0][1], strict=True)
        # As numbers: what a method reports may be a bool, which a record that is read again has none of.
        reports = {n: {name: float(value) for name, value in level.report.items()} for n, level in levels}
        recovery = {n: report for n, report in reports.items() if report} or None
    attention = [site.kind for site in view.heads.sites]
    measured = Measured(
        seconds=time.perf_counter() - started,
        scoring_seconds=0.0 if trains else choosing.seconds,
        method_training_seconds=choosing.seconds if trains else 0.0,
        evaluation_seconds=evaluation.seconds,
        processor_seconds=ProcessorSeconds(
            choosing=choosing.processor_seconds, evaluation=evaluation.processor_seconds
        ),
        training_seconds=training.get("seconds", 0.0),
        peak_bytes=peak_bytes(device),
    )
    record = FinishedRecord(
        key=cell.key,
        cell=describe(cell),
        provenance=provenance(),
        result=result.updated(
            gap=evaluator.gap,
            recovery=recovery,
            signatures=signatures_of(draws),
            translations=translations_of(draws, cell.removed, len(view.heads)),
            attention=attention if view.heads.kinds or len(set(attention)) > 1 else [],
        ),
        measured=measured,
    )
    return record, arrays_of(draws) | statistics_of(draws)
