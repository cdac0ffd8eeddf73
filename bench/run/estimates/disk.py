"""Room on disk for the models that a run trains and the records that it writes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from math import prod
from pathlib import Path

from safetensors import safe_open

from bench.analysis.naming import count
from bench.records.errors import InputError
from bench.run.jobs import CellJob, TrainJob
from bench.suites.cells import Cell, open_task
from tasks.contract import Task
from tasks.models.seeded import SeededTask
from tasks.translation import Translation

RECORD = 20_000  # bytes of a record without the outcomes of test examples
OUTCOME = 1 / 8  # bytes: packed bits
STATISTICS = 4 * (10 + 18)  # bytes of a sentence's numbers of BLEU and of chrF, int32
MB = 2**20
LITTLE = 100 * MB  # of records: not worth a line


def disk_use(jobs: Sequence[TrainJob | CellJob], cache: Path, out: Path, variable: str = "HEADBENCH_CACHE") -> str:
    """What ``jobs`` will write, as text; empty where no model that the user gave is trained and records are small.

    A trained model takes as much as the one that it starts from would in float32. variable: of the environment, that
    says where ``cache`` is. Raises InputError where that does not fit.
    """
    trained = [size for job in jobs if isinstance(job, TrainJob) and (size := _weights(job.cell))]
    models = sum(trained)
    records = records_of([job.cell for job in jobs if isinstance(job, CellJob)])
    if not models and records < LITTLE:
        return ""
    places = {cache: models, out: records}
    of_models = f"{models / MB:,.0f} MB for {count(len(trained), 'model')} in {cache}, and " if models else ""
    text = f"about {of_models}{records / MB:,.0f} MB for records in {out}"
    for place in places:
        together = sum(size for other, size in places.items() if _disk(other) == _disk(place))
        if together > (free := shutil.disk_usage(_existing(place)).free):
            raise InputError(
                f"disk: {text} are needed, {free / MB:,.0f} MB are free: make room, or set {variable} or --out"
            )
    return text


def _weights(cell: Cell) -> int:
    """Bytes in float32 of the model that training for ``cell`` starts from; 0 for one that comes with headbench."""
    task = open_task(cell.task)
    folder = task.folder if isinstance(task, SeededTask) else None
    return sum(map(_in_float32, folder.glob("*.safetensors"))) if folder else 0


def _in_float32(file: Path) -> int:
    with safe_open(file, "numpy") as tensors:
        return 4 * sum(prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118


def records_of(cells: Sequence[Cell]) -> float:
    """Bytes of the records of ``cells``, with what is kept of each test example at each level of each draw."""
    tested = {spec: _of_level(open_task(spec)) for spec in {cell.task for cell in cells}}
    draws = (int(cell.method.options.get("draws", 1)) for cell in cells)
    return sum(RECORD + d * len(cell.removed) * tested[cell.task] for d, cell in zip(draws, cells, strict=True))


def _of_level(task: Task) -> float:
    """Bytes that a record keeps of the test split of ``task`` at one level."""
    examples = len(task.own_data.test) if task.own_data else 0
    return examples * (OUTCOME + STATISTICS * isinstance(task, Translation))


def _existing(place: Path) -> Path:
    return next(path for path in (place.absolute(), *place.absolute().parents) if path.exists())


def _disk(place: Path) -> int:
    return _existing(place).stat().st_dev
