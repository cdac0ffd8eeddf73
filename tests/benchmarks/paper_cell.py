"""One removal step of a cell of a paper's suite, planned and run by a process of its own.

    python -m tests.benchmarks.paper_cell SUITE TASK METHOD MIRROR CALIBRATION

TASK is the number of the suite's [[tasks]] table. Prints what was planned and what was found, as JSON; memory in MB,
without what the process held before (libraries and data).
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import torch

from bench.measure.cell import run_cell
from bench.records.schema import FinishedRecord
from bench.run.estimates.expectation import expectations
from bench.suites.cells import open_task, plan
from bench.suites.files import load_suite
from bench.suites.parse import parse_methods
from methods.heads import HeadMap
from tasks.models.cache import Cache

EPOCH = 1 / 3  # of a training of three
MB = 2**20


def held() -> int:
    """Bytes of this process in memory."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmRSS:")[1].split()[0])


def main() -> None:
    name, number, label, mirror, calibration = sys.argv[1:]
    torch.set_num_threads(1)
    suite = load_suite(name)
    spec = suite.tasks[int(number)].model_copy(update={"mirror": mirror})
    (method,) = parse_methods(label)
    units = len(HeadMap.of(open_task(spec).validate(), spec.unit))
    wanted = {"tasks": (spec,), "methods": (method,), "seeds": (0,), "levels": (0.0, 1 / units, 1.0)}
    wanted |= {"calibration": int(calibration), "training": EPOCH, "generate": False}
    (cell,) = plan(suite.model_copy(update=wanted), "cpu")
    (planned,) = expectations([cell], {spec: 1} if spec.finetune else {}, lambda dtype: 1e9)
    memory, work = planned.memory, planned.work(method)
    assert memory.most and work.calibration
    before = held()
    with tempfile.TemporaryDirectory() as folder:
        record, _ = run_cell(cell, Cache(Path(folder)))
    if not isinstance(record, FinishedRecord):
        sys.exit(record.traceback or record.reason)
    result = record.result
    taken = result.method_training.passes if result.method_training else result.passes
    found = {
        "parameters": [each["model"] for each in result.parameters],
        "planned parameters": planned.shape.parameters,
        "passes": [taken.forward, taken.backward],
        "planned passes": [each * planned.calibration for each in work.calibration[:2]],
        "trained": bool(result.method_training),
        "batches": f"{memory.trained_texts or memory.texts} x {planned.shape.batch[1]}",
        "libraries": before / MB,
        "planned memory": memory.most / MB,
        "memory": (record.measured.peak_bytes["process"] - before) / MB,
        "gap": result.gap,
        "seconds": record.measured.seconds,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
