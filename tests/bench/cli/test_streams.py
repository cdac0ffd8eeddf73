"""Standard streams that are closed, or whose encoding lacks characters, stop no verb."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.__main__ import main
from bench.cli.streams import make_usable
from bench.records.storage.store import Store
from tests.fixtures.slow import slow_cases

ROOT = Path(__file__).parents[3]
METHOD, DATA = "mé", "Ω–\udce9"  # the last one stands for a byte of a file name that is not UTF-8
CLOSED = (">&-", ">&- 2>&-", "<&- >&- 2>&-")
READING = {
    "leaderboard": ("leaderboard", "run"),
    "compare": ("compare", METHOD, "other", "run"),
    "regress": ("regress", "--baseline", "run", "run"),
    "nothing": ("leaderboard", DATA),
}


@pytest.fixture
def run(tmp_path, make_record):
    """A run with two methods and three seeds."""
    draw = np.random.default_rng(0)
    for name in (METHOD, "other"):
        for seed in range(3):
            record = make_record(label=name, data="Ω–", seed=seed, quality=[[0.9, 0.7 + 0.01 * seed, 0.5]])
            Store(tmp_path / "run").write(f"t/{name}/seed{seed}", record, {"outcomes": draw.random((1, 3, 100)) < 0.7})
    return tmp_path


def printed(verb: str, encoding: str, errors: str, monkeypatch) -> bytes:
    """What a verb prints to a terminal with this encoding, on either stream."""
    content = io.BytesIO()
    with monkeypatch.context() as patch:
        for name in ("stdout", "stderr"):
            patch.setattr(sys, name, io.TextIOWrapper(content, encoding, errors, write_through=True))
        make_usable()
        assert main(list(READING[verb])) == (2 if verb == "nothing" else 0)
        return content.getvalue()


@pytest.mark.parametrize("verb", [*slow_cases("leaderboard"), "compare", "regress", "nothing"])
def test_characters_that_an_encoding_lacks_are_escaped(run, verb, monkeypatch):
    monkeypatch.chdir(run)
    whole = printed(verb, "utf-8", "surrogatepass", monkeypatch).decode("utf-8", "surrogatepass")
    assert any(name in whole for name in (METHOD, DATA))
    for encoding, errors in (("utf-8", "strict"), ("latin-1", "strict"), ("ascii", "surrogateescape")):
        found = printed(verb, encoding, errors, monkeypatch)
        assert found == whole.encode(encoding, "backslashreplace")
    chosen = printed(verb, "ascii", "xmlcharrefreplace", monkeypatch)  # whoever chose that gets it
    assert chosen == whole.encode("ascii", "xmlcharrefreplace")


def start(folder: Path, *arguments: str, to: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command; to: what the shell does with its streams."""
    command = f"{shlex.join([sys.executable, '-m', 'bench', *arguments])} {to}"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(["sh", "-c", command], cwd=folder, env=environment, capture_output=True, timeout=300)


@pytest.mark.parametrize(("arguments", "to", "code"), [("run", CLOSED[-1], 0), *slow_cases(("nowhere", "2>&-", 2))])
def test_a_verb_whose_streams_are_closed_does_its_work_in_silence(run, arguments, to, code):
    done = start(run, "leaderboard", arguments, to=to)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")
    assert (run / "run/leaderboard.md").exists() == (code == 0)


@pytest.mark.slow
@pytest.mark.parametrize("to", CLOSED)
def test_a_run_whose_streams_are_closed_does_its_work_in_silence(place, to):
    done = start(place.folder, *place.arguments("--methods", "none"), to=to)
    assert done.returncode == 0 and done.stdout == b"" and place.records().keys() == {"none/seed0"}
    done = start(place.folder, *place.arguments("--methods", "none", "--dry-run"), to=to)
    assert done.returncode == 0 and done.stdout == b""
