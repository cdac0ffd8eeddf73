"""The name of a record: where it lies below the folder of records."""

from __future__ import annotations

import re
from pathlib import Path

from bench.records.schema import Record
from bench.records.storage.files import digest_of

LONGEST_NAME = 200  # bytes in a file name; most file systems allow 255, extensions included


def record_name(task: str, data: str, model: str, label: str, seed: int) -> str:
    """``TASK.DATA.MODEL/METHOD/seedN``, without the suffix."""
    return "/".join(file_name(part) for part in (f"{task}.{data}.{model}", label, f"seed{seed}"))


def is_own_place(path: Path, record: Record) -> bool:
    """Whether a run would write ``record`` to a path that ends like this one, which a copy elsewhere does not."""
    name = record_name(*record.task, record.cell.label, record.cell.seed)
    return "/".join(path.with_suffix("").parts[-3:]) == name


def file_name(text: str) -> str:
    """``text`` as a file name that is valid on any file system."""
    name = re.sub(r"[^\w.=+-]", "_", text)
    return name if len(name.encode()) <= LONGEST_NAME else f"{name[:40]}-{digest_of(text)[:16]}"
