"""What all tests share: how they are collected and drawn, where real data is, and what the command complains of."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

FIXTURES = ("tests.fixtures.gpus", "tests.fixtures.runs", "tests.fixtures.tiny", "tests.fixtures.translation")
pytest.register_assert_rewrite(*FIXTURES)  # before another conftest.py imports one

# Importing the libraries and the tests makes a million objects that stay: looking for garbage among them takes a fifth
# of the time until the first test. So this file, which pytest reads before it imports any of them, imports none.
gc.disable()

# No test may fail as the machine has other work, or by luck of the draw. With the slow tests, those that draw examples
# run once more, with others each time, and more of them.
settings.register_profile("headbench", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=100, print_blob=True)
settings.load_profile("headbench")


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures, except where this process only hands tests to others: they import torch."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        for name in FIXTURES:
            config.pluginmanager.import_plugin(name)


def pytest_runtest_setup() -> None:
    """What a test draws from torch without a seed of its own is the same whichever tests ran before it."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Two workers more than there are cores, as the tests spend half of their time waiting for processes they start.

    The slow ones start whole clusters, and have the cores to themselves.
    """
    chosen = "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ or config.getoption("markexpr") != "not slow"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return None if chosen else cores + 2


def pytest_collection_finish() -> None:
    """Look for garbage from now on, but not among what is there before the first test."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs of other test processes are no runs beside those of this one: their records would say so."""
    folder = str(tmp_path_factory.mktemp("tmp"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of the real data sets and weights; skips where HEADBENCH_DATA does not name one."""
    folder = os.environ.get("HEADBENCH_DATA", "")
    if not folder:
        pytest.skip("HEADBENCH_DATA is not set: it names the folder with the real data sets and weights")
    return Path(folder)


@pytest.fixture
def complaint(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Give the command these arguments; the one line on standard error that it ends with, and nothing written."""
    from bench.__main__ import main

    monkeypatch.setenv("HEADBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> str:
        before = {path for path in tmp_path.rglob("*") if path.is_file()}
        capfd.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as exit:
            code = exit.code
        errors = capfd.readouterr().err
        assert code == 2, errors
        assert errors.startswith("headbench: error: ") and errors.count("\n") == 1 and errors.endswith("\n"), errors
        assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
        return errors.removeprefix("headbench: error: ").rstrip("\n")

    return run
