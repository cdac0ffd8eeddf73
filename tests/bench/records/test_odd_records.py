"""Records whose content is odd are left out by name, whichever verb reads them; nothing that is no record is read."""

from __future__ import annotations

import copy
import json
import math
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.__main__ import main
from bench.analysis.comparing.comparison import compare
from bench.cli.regress import regress
from bench.records.errors import CorruptRecord, InputError
from bench.records.storage.files import digest_of, temporary
from bench.records.storage.store import Store
from bench.report import leaderboard
from bench.report.board import read
from bench.report.comparison_text import text
from tests.fixtures.files import files_of
from tests.fixtures.slow import slow_cases

LABELS, SEEDS, EXAMPLES = ("m", "n", "none"), (0, 1), 100
ODD = (None, [], {}, "", "x", "\ud800", True, -1, 0, 3, 2**70, 0.5, -0.0, 1e308, math.nan, math.inf, [[]], [[[0.5]]])


def fill(folder: Path, make_record: Callable) -> Path:
    """A run of three methods and two seeds on one task."""
    for label in LABELS:
        for seed in SEEDS:
            height = {"m": 0.8, "n": 0.6, "none": 0.9}[label] + 0.01 * seed
            record = make_record(
                label=label,
                seed=seed,
                quality=[[0.9, height, 0.5]],
                kept=[list(range(8))] * 3 if label == "none" else None,
                result={"shape": [4, 4], "metrics": [[{"data/acc": 0.9}, {"data/acc": height}, {"data/acc": 0.5}]]},
            )
            outcomes = np.zeros((1, 3, EXAMPLES), dtype=bool)
            Store(folder).write(name(label, seed), record, {"outcomes": outcomes})
    return folder


def name(label: str = "m", seed: int = 0) -> str:
    return f"classification.data.model/{label}/seed{seed}"


@pytest.fixture
def run(tmp_path, make_record) -> Path:
    return fill(tmp_path / "run", make_record)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, make_record) -> Path:
    return fill(tmp_path_factory.mktemp("whole") / "run", make_record)


def rewrite(path: Path, content: dict[str, Any]) -> None:
    """Write a record with the digest that fits: it was written by something else than a run."""
    content = {key: part for key, part in content.items() if key != "digest"}
    path.write_text(json.dumps(content | {"digest": digest_of(content)}))


def places(value: Any, place: tuple = ()) -> Iterator[tuple]:
    """The place of every part of a JSON value."""
    yield place
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*place, key))


def changed(value: Any, place: tuple, how: Callable[[Any, Any], None]) -> Any:
    """A copy of a JSON value with a change to the container and key that ``place`` means."""
    value = part = copy.deepcopy(value)
    for key in place[:-1]:
        part = part[key]
    how(part, place[-1])
    return value


def read_everything(folder: Path) -> None:
    """What the verbs that read records do with them, but for drawing."""
    board = read(folder)
    leaderboard.markdown(board)
    leaderboard.to_csv(board)
    for step in (lambda: text(compare(folder, "m", "n", [], None, 0.05)), lambda: regress(folder, folder)):
        try:
            step()
        except InputError as error:
            assert "\n" not in str(error)


@st.composite
def damage(draw: st.DrawFn) -> tuple[float, str, Any]:
    """Where a record is changed, as a share of its places, and how."""
    kind = draw(st.sampled_from(["replace", "delete", "double", "rename", "add"]))
    return draw(st.floats(0, 1, exclude_max=True)), kind, draw(st.sampled_from(ODD))


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(changes=st.lists(damage(), min_size=1, max_size=2), label=st.sampled_from(LABELS))
def test_no_change_of_a_record_ends_in_a_traceback(whole, changes, label):
    path = Store(whole).path(name(label))
    before = path.read_text()
    content = json.loads(before)
    for where, kind, value in changes:
        found = list(places(content))[1:]
        if not found:
            continue
        place = found[int(where * len(found))]

        def how(part: Any, key: Any, kind: str = kind, value: Any = value) -> None:
            if kind == "replace":
                part[key] = value
            elif kind == "delete":
                del part[key]
            elif kind == "double" and isinstance(part, list):
                part.append(part[key])
            elif kind == "rename" and isinstance(part, dict):
                part[f"{key}0"] = part.pop(key)
            elif kind == "add":
                part.append(value) if isinstance(part, list) else part.update({"2": value})

        content = changed(content, place, how)
    try:
        try:
            rewrite(path, content)
        except UnicodeEncodeError:
            path.write_text(json.dumps(content))
        read_everything(whole)
    finally:
        path.write_text(before)


@pytest.mark.parametrize(
    "content",
    [
        "[" * 200_000,
        '{"digest": ' + "[" * 200_000,
        "",
        "null",
        "[]",
        '{"digest": NaN}',
        '{"cell": {}, "digest": "\\ud800"}',
    ],
    ids=["deep", "deep part", "empty", "null", "list", "not a number", "half a character"],
)
@pytest.mark.parametrize(
    "verb", [["compare", "m", "n"], ["regress", "--baseline", "B"], *slow_cases(["leaderboard"])], ids=str
)
def test_an_odd_record_is_named_and_left_out(run, capsys, verb, content):
    path = Store(run).path(name())
    path.write_text(content)
    before = files_of(run / "records")
    assert main([str(run) if word == "B" else word for word in verb] + [str(run)]) in (0, 1)
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "corrupt record" in error and str(path) in error
    assert files_of(run / "records") == before


def test_what_is_no_file_is_named_and_skipped(run, capsys):
    """A pipe would be waited for, without end."""
    folder = Store(run).path(name()).parent
    os.mkfifo(folder / "seed7.json")
    (folder / "seed8.json").mkdir()
    here = Path.cwd()
    os.chdir(folder)  # names of sockets must be short
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind("seed9.json")
    finally:
        os.chdir(here)
    assert main(["leaderboard", str(run)]) == 0
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 3 and all("not a file" in line for line in error)
    path = Store(run).path(name())
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(CorruptRecord, match="not a file"):
        Store(run).read(path)
    arrays = Store(run).path(name("n")).with_suffix(".safetensors")
    arrays.unlink()
    os.mkfifo(arrays)
    with pytest.raises(CorruptRecord, match="not a file"):
        Store(run).read(arrays.with_suffix(".json"))


def test_a_run_touches_nothing_behind_a_link(place, tmp_path, capsys):
    """Neither records of others, nor temporary files that are not its own."""
    assert place.run("--methods", "none") == 0
    theirs = tmp_path / "theirs"
    (theirs / "random").mkdir(parents=True)
    (theirs / "random" / "seed0.json").write_text("{")
    temporary(theirs / "seed0.json").write_text("half")
    task = next((place.out / "records").iterdir())
    (place.out / "records" / "theirs").symlink_to(theirs)
    (task / "notes.tmp").write_text("mine")
    temporary(task / "none" / "seed0.json").write_text("left by a killed run")
    before = files_of(theirs)
    capsys.readouterr()
    assert place.run("--methods", "none") == 0
    assert "theirs/random/seed0.json" in capsys.readouterr().err
    assert files_of(theirs) == before and (task / "notes.tmp").read_text() == "mine"
    assert not list((task / "none").glob(".*"))
    (task / "michel").symlink_to(theirs / "random")
    assert place.run("--methods", "michel") == 2
    assert "michel: a symbolic link" in capsys.readouterr().err
    assert files_of(theirs) == before


def test_records_are_read_through_links(run, tmp_path):
    linked = tmp_path / "linked" / "records"
    linked.mkdir(parents=True)
    (linked / "task").symlink_to(next((run / "records").iterdir()))
    assert leaderboard.to_csv(read(linked.parent)) == leaderboard.to_csv(read(run))


def test_arrays_of_another_shape_are_not_of_the_record(run):
    store, record = Store(run), Store(run).read(Store(run).path(name()))
    for shape in ((2, 3, EXAMPLES), (1, 2, EXAMPLES), (1, 3, EXAMPLES - 1)):
        store.write(name(), record, {"outcomes": np.zeros(shape, dtype=bool)})
        with pytest.raises(CorruptRecord, match="the arrays beside it do not belong to it"):
            store.read(store.path(name()))
