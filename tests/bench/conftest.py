"""A place for runs on tiny data: their folders, the command line in this process or another, and what they left."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from bench.__main__ import main
from bench.plan import PROTOCOL
from bench.plugins import load_plugins
from methods import METHODS
from tasks.cache import Cache
from tasks.contract import TASKS, Task, TaskSpec

ROOT = Path(__file__).parents[2]


@dataclass
class Place:
    """Where the runs of one test read and write; ``run`` takes flags of the verb ``run``."""

    folder: Path
    data: Path
    model: Path
    tree: Path = ROOT  # the code that ``start`` runs
    path: list[Path] = field(default_factory=list)  # more places of Python packages

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def cells(self, *flags: str, out: Path | None = None) -> list[str]:
        """Flags that choose the cells of this place."""
        own = ["--task", "classification", "--model", str(self.model), "--data", str(self.data)]
        return [*own, "--seeds", "1", "--levels", "0.5", "--device", "cpu", "--out", str(out or self.out), *flags]

    def arguments(self, *flags: str, out: Path | None = None) -> list[str]:
        return ["run", "--jobs", "1", *self.cells(*flags, out=out)]

    def run(self, *flags: str, out: Path | None = None) -> int:
        """Run in this process."""
        return main(self.arguments(*flags, out=out))

    def run_suite(self, content: str, *flags: str) -> int:
        """Run the suite with this TOML in this process."""
        suite = self.folder / "suite.toml"
        suite.write_text(content)
        return main(["run", "--suite", str(suite), "--jobs", "1", "--device", "cpu", "--out", str(self.out), *flags])

    def task(self, **fields: str) -> str:
        """TOML of a task of a suite, this place's but for ``fields``."""
        given = {"task": "classification", "model": str(self.model), "data": str(self.data)} | fields
        return "[[tasks]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in given.items())

    def start(self, *flags: str, out: Path | None = None) -> subprocess.Popen[str]:
        """Start a run in a process group of its own."""
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, [self.tree, *self.path])),
            "HEADBENCH_CACHE": str(self.cache),
            "TMPDIR": str(self.folder),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "bench", *self.arguments(*flags, out=out)],
            cwd=self.folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # A shell that put us in the background had us ignore interrupts, which our children would inherit.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def files(self, out: Path | None = None) -> dict[str, bytes]:
        """Every file below the records, by its path there."""
        records = (out or self.out) / "records"
        return {str(path.relative_to(records)): path.read_bytes() for path in records.rglob("*") if path.is_file()}

    def records(self, out: Path | None = None) -> dict[str, dict[str, Any]]:
        """Every record of a single task, by METHOD/SEED."""
        return {
            name.removesuffix(".json").partition("/")[2]: json.loads(content)
            for name, content in self.files(out).items()
            if name.endswith(".json")
        }

    def results(self, out: Path | None = None) -> dict[str, dict[str, Any]]:
        """Every record without what two runs may differ in: times, and where and when it was made."""
        vary = ("measured", "provenance", "digest", "traceback")
        return {
            name: {key: part for key, part in record.items() if key not in vary}
            for name, record in self.records(out).items()
        }


@pytest.fixture
def place(tmp_path: Path, tiny_data: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path, tiny_data, tiny_model)
    monkeypatch.setenv("HEADBENCH_CACHE", str(place.cache))
    # The lock for measuring alone lies in the temporary folder: other runs on this machine must not hold tests up.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return place


@pytest.fixture
def package(tmp_path: Path) -> Callable[[str], Path]:
    """Make a third-party package in a folder of its own: a module with this code, which an entry point names."""

    def make(code: str) -> Path:
        folder = tmp_path / f"site{len(list(tmp_path.glob('site*')))}"
        name = f"third_party_{abs(hash(folder))}"
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[headbench.methods]\n{name} = {name}\n")
        (folder / f"{name}.py").write_text(code)
        return folder

    return make


@pytest.fixture
def plugin(package, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Install such a package for this process and those that it starts."""
    before = dict(METHODS)

    def install(code: str) -> None:
        monkeypatch.syspath_prepend(str(package(code)))
        load_plugins.cache_clear()
        load_plugins()

    load_plugins()
    before |= METHODS
    yield install
    METHODS.clear()
    METHODS.update(before)
    load_plugins.cache_clear()


@pytest.fixture
def files_of() -> Callable[[Path], dict[str, bytes]]:
    """Every file below a folder, with its content."""
    return lambda folder: {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def file_size_limit():
    """Inside, no file of this process grows beyond so many bytes: writing fails in the middle, as on a full disk."""

    @contextmanager
    def limited(size: int) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@pytest.fixture(scope="session")
def make_record() -> Callable[..., dict[str, Any]]:
    """A record with the fields that a leaderboard reads: 8 units, measured with 0, 4 and 8 removed."""

    def make(
        label: str = "m",
        data: str = "data",
        model: str = "model",
        seed: int = 0,
        control: bool = False,
        removed: Sequence[int] = (0, 4, 8),
        quality: Sequence[Sequence[float]] = ((0.9, 0.7, 0.5),),
        chance: float = 0.5,
        kept: Sequence[Sequence[int]] | None = None,
        megabytes: Sequence[float] | None = None,
        samples: dict[str, list[float]] | None = None,
        training: dict[str, Any] | None = None,
        limit: int = 0,
        neurons: bool = False,
        trained: float | None = None,
        dtype: str = "",
    ) -> dict[str, Any]:
        samples = samples or {"0": [2.0], "4": [1.0]}
        sizes = megabytes or [4.0 - count / 4 for count in removed]
        asked = {"limit": limit, "finetune": False, "dtype": dtype}
        cell = {"task": "classification", "data": data, "model": model, "label": label, "seed": seed}
        return {
            "status": "done",
            "cell": cell
            | {"protocol": PROTOCOL}
            | {
                "control": control,
                "options": {},
                "device": "cpu",
                "calibration": 128,
                "trained": trained,
                "asked": asked,
            },
            "provenance": {"processor": "A", "commit": "a" * 40, "packages": {"torch": "1"}},
            "result": {
                "units": 8,
                "removed": list(removed),
                "kept": kept,
                "quality": [list(draw) for draw in quality],
                "parts": {data: 100},
                "metrics": [[{} for _ in draw] for draw in quality],
                "chance": chance,
                "neurons": neurons,
                "orders": [list(range(8))],
                "parameters": [{"model": int(2**18 * size)} for size in sizes],
                "megabytes": [{"model": size} for size in sizes],
                "passes": {"forward": 128, "backward": 0},
                "training": training or {},
            },
            "measured": {
                "scoring_seconds": 0.5,
                "method_training_seconds": 0.0 if trained is None else 2.5,
                "latency": {"samples": {"1": samples, "32": samples}},
            },
        }

    return make


@dataclass
class TinyTask:
    """A task on tiny data and a model of it, open and frozen."""

    task: Task
    model: nn.Module


@pytest.fixture
def tiny_task(place: Place) -> TinyTask:
    load_plugins()
    task = TASKS["classification"](TaskSpec("classification", data=str(place.data), model=str(place.model)))
    return TinyTask(task, task.open(0, Cache(place.cache), torch.device("cpu")).requires_grad_(False))
