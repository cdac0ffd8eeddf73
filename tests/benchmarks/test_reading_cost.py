"""What it takes to read many records: processor seconds and memory of each verb, without an index and with one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.records.index import NAME
from tests.benchmarks.many_records import write_many

RECORDS = int(os.environ.get("HEADBENCH_RECORDS", 10_000))
MOST = 2**30  # bytes
VERBS = {
    "leaderboard": ["leaderboard", "RUN"],
    "compare": ["compare", "michel", "ae", "RUN"],
    "list cells": ["list", "cells", "--suite", "mini", "--seeds", str(RECORDS // 184), "--out", "RUN"],
    "report": ["report", "RUN", "--out", "REPORT"],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    write_many(folder, RECORDS)
    return folder


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb(run: Path, tmp_path: Path, tell, benchmark, verb: str):
    (run / "records" / NAME).unlink(missing_ok=True)
    places = {"RUN": str(run), "REPORT": str(tmp_path / "report")}
    command = [sys.executable, "-m", "bench", *(places.get(part, part) for part in VERBS[verb])]

    def call() -> tuple[float, int, str]:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout
        said = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        assert status == 0
        return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, said

    for what in ("without an index", "with one"):
        seconds, memory, said = benchmark.pedantic(call, rounds=1) if what == "with one" else call()
        tell(f"{verb}, {RECORDS} records, {what}: processor seconds", seconds)
        tell(f"{verb}, {RECORDS} records, {what}: MB", memory / 2**20)
        assert memory < MOST and said == places.setdefault("SAID", said)
