"""What cells were run and timed on: times from two machines are never averaged."""

from __future__ import annotations

from collections.abc import Iterable

from bench.analysis.naming import count
from bench.records.schema import FinishedRecord


def machine(record: FinishedRecord) -> str:
    """The machine that timed ``record``, which may be another than the one that made it."""
    latency = record.measured.latency
    if latency is None:
        return f"{record.provenance.processor}, not timed"
    processor = latency.processor or record.provenance.processor
    return f"{processor}, {latency.device}, {latency.dtype}, {count(latency.threads, 'thread')}"


def machines(records: Iterable[FinishedRecord]) -> list[str]:
    """The machines that ``records`` were timed on, sorted; none where none was timed."""
    return sorted({machine(record) for record in records if record.measured.latency})


def makers(records: Iterable[FinishedRecord]) -> list[str]:
    """The processors and devices that methods chose on, sorted."""
    return sorted({f"{record.provenance.processor}, {record.cell.device}" for record in records})
