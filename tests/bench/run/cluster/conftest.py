"""Three nodes on this machine, which the tests of a file share.

Ray is imported by some tests here, and reads then on which address clusters of this machine listen.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from bench.run.cluster.connection import LOOPBACK
from bench.suites.plugins import load_plugins
from tests.fixtures.forked import Forked
from tests.fixtures.runs import ROOT, Place

os.environ.update(LOOPBACK)

PLUGIN = """
import ctypes, faulthandler, os, pathlib, time
import torch
from methods import scorer
from tasks.models import train

train_well = train.train

def train_badly(*given, **named):
    here = pathlib.Path(__file__).parent
    if not (here / "untrainable").exists():
        return train_well(*given, **named)
    (here / f"{time.time_ns()}.trained").touch()
    raise RuntimeError("out of memory")

train.train = train_badly

@scorer("crashes", source="test")
def crashes(view):
    faulthandler.disable()  # it would print a traceback
    ctypes.string_at(0)

@scorer("crashes_on_one", source="test")
def crashes_on_one(view):
    here = pathlib.Path(__file__).parent
    if os.environ["HEADBENCH_CACHE"].endswith("cache0"):
        (here / f"{time.time_ns()}.crash").touch()
        crashes(view)
    while len(list(here.glob("*.crash"))) < 3:
        time.sleep(0.1)
    return torch.arange(len(view.heads))

@scorer("hangs", source="test")
def hangs(view):
    time.sleep(600)
"""


@dataclass
class Nodes:
    """A head without CPUs, and three nodes with one each.

    outside: the address for a driver on none of them. site: where a plugin is that all of them have.
    """

    address: str
    outside: str
    raylets: list[int]
    head: int
    caches: list[Path]
    site: Path

    @property
    def flags(self) -> tuple[str, ...]:
        return "--engine", "ray", "--address", self.address, "--jobs", "3"

    def run(self, place: Place, *flags: str, **how: Any) -> Forked:
        """Start a run on them."""
        return Forked(place, *self.flags, *flags, output=place.folder / "said", **how)

    @contextmanager
    def used_by_others(self, number: int, seconds: float | None = None) -> Iterator[subprocess.Popen[str]]:
        """Inside, another job on the cluster holds the CPUs of so many of them; see ``others.py`` for ``seconds``."""
        given = [self.address, str(number), *([] if seconds is None else [str(seconds)])]
        process = _started("others.py", *given)
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        try:
            yield process
        finally:
            _end(process)

    @contextmanager
    def instead_of_caches(self, put: Callable[[Path], object]) -> Iterator[None]:
        """Inside, there is what ``put`` puts where their caches are."""
        for cache in self.caches:
            if cache.exists():
                cache.rename(cache.with_suffix(".away"))
            put(cache)
        try:
            yield
        finally:
            for cache in self.caches:
                cache.unlink()
                if cache.with_suffix(".away").exists():
                    cache.with_suffix(".away").rename(cache)

    def with_plugin(self) -> None:
        """Load the plugin in this process."""
        sys.path.insert(0, str(self.site))
        load_plugins.cache_clear()
        load_plugins()

    def at_work(self) -> list[int]:
        """The processes that run cells on them, and those that hand them over."""
        found = []
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = place.read_bytes().split(b"\0")
            except OSError:
                continue
            if b"bench.run.cluster.child" in command:
                found.append(int(place.parent.name))
        return found


@pytest.fixture(scope="module")
def nodes(tmp_path_factory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("nodes")
    site, caches = folder / "site", [folder / f"cache{number}" for number in range(3)]
    info = site / "faulty-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[headbench.methods]\nfaulty = faulty\n")
    (site / "faulty.py").write_text(PLUGIN)
    # Two clusters at once are too much for a small machine: cells reach their timeouts, and heads miss their nodes.
    with FileLock(tmp_path_factory.getbasetemp().parent / "nodes.lock"):
        process = _started("three_nodes.py", *map(str, caches), site=str(site))
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield Nodes(**said, caches=caches, site=site)
        _end(process)


def _started(script: str, *given: str, site: str = "") -> subprocess.Popen[str]:
    """A script of this folder, which ends when it is given a line, or nobody can give it one any more."""
    path = os.pathsep.join(filter(None, [str(ROOT), site]))
    environment = os.environ | {"PYTHONPATH": path, "RAY_TMPDIR": "/tmp"}  # sockets: short paths
    command = [sys.executable, str(Path(__file__).with_name(script)), *given]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _end(process: subprocess.Popen[str]) -> None:
    """End a script by a line: runs that were forked from this process may hold the other end of its input too."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.close()
    process.wait(60)
