"""The second part of the verb ``check``: a method's cells of a small suite, compared with recorded ones."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.analysis.curves import curve
from bench.analysis.quality import quality_name
from bench.analysis.regression.cells import twins
from bench.analysis.regression.screen import cut, origin
from bench.analysis.regression.verdict import NO_LOSS, UNKNOWN, Limits, Verdict, verdicts
from bench.records.errors import InputError
from bench.records.schema import FailedRecord, Record
from bench.records.storage.current import read_current
from bench.records.storage.store import Store
from bench.run.jobs import CellJob, start_process
from bench.suites.cells import plan
from bench.suites.files import load_suite
from bench.suites.parse import parse_methods
from tasks.models.cache import default_root

SUITE = "smoke"
RECORDED = Path("results/mini")


def check_against_records(methods: str, baseline: Path | None) -> int:
    """Run the cells of ``methods``, as given on a command line, and print a line for each method.

    baseline: folder with recorded cells; None for ``results/mini``, in which case nothing is run if it has no records.
    Returns 1 if a cell failed or differs from its record. Raises InputError.
    """
    try:
        read_current(baseline or RECORDED)
    except InputError as error:
        if baseline is not None:
            raise
        print(f"Not compared with recorded cells: {error}. `--baseline DIR` names another folder.")
        return 0
    start_process()
    suite = load_suite(SUITE).model_copy(update={"methods": parse_methods(methods)})
    cells = plan(suite, "cpu")
    on = ", ".join(sorted({f"{cell.task.task} seed {cell.seed}" for cell in cells}))
    print(f"On the suite {SUITE} ({on}), against {baseline or RECORDED}:", flush=True)
    with tempfile.TemporaryDirectory(prefix="headbench-check-") as folder:
        records: dict[str, Record] = {}
        for cell in cells:
            job = CellJob(cell, default_root())
            records[cell.method.label] = job.write(job(), Store(Path(folder)))
        both = twins(baseline or RECORDED, Path(folder), list(records))
        found = {verdict.label: verdict for verdict in verdicts(both, (), Limits())}
    for label, record in records.items():
        print("\n".join(_lines(label, record, found.get(label))))
    if both.pairs:
        print("\n".join(origin(both)))
    regressed = any(verdict.reasons for verdict in found.values())
    return int(regressed or any(isinstance(record, FailedRecord) for record in records.values()))


def _lines(label: str, record: Record, verdict: Verdict | None) -> list[str]:
    """The method's verdict and accuracy; the reason, if it failed."""
    status = verdict.status if verdict else "new"
    if isinstance(record, FailedRecord):
        return [f"  FAILED   {label}: {record.reason}"]
    shares, quality = curve(record)
    middle = len(shares) // 2
    kept = f"{quality_name(record)} {quality[0]:.3f}, {quality[middle]:.3f} with {shares[middle]:.0%} removed"
    line = f"  {status:8} {label}: {kept}"
    why = (verdict.remarks if verdict.status in (NO_LOSS, UNKNOWN) else verdict.reasons) if verdict else ()
    return [line, *(f"           {reason}" for reason in cut(why))]
