"""What flags and suite files ask for together."""

from __future__ import annotations

import pytest

from bench.cli.arguments import parse
from bench.cli.requests import suite_of
from bench.records.errors import InputError


@pytest.mark.parametrize(
    ("flag", "file", "variable", "used"),
    [(1, 1, 1, "flag"), (0, 1, 1, "file"), (0, 0, 1, "variable"), (1, 0, 1, "flag"), (0, 0, 0, "")],
)
def test_a_flag_goes_before_the_suite_file_and_that_before_the_environment(
    tmp_path, monkeypatch, flag, file, variable, used
):
    for name in ("flag", "file", "variable"):
        (tmp_path / name).mkdir()
    lines = ['methods = ["none"]', "seeds = 1", "levels = [0.5]", "[[tasks]]", 'task = "mnli"']
    lines += [f'mirror = "{tmp_path}/file"'] if file else []
    (tmp_path / "mine.toml").write_text("\n".join(lines))
    monkeypatch.setenv("HEADBENCH_MIRROR", str(tmp_path / "variable") if variable else "")
    flags = ["--mirror", str(tmp_path / "flag")] if flag else []
    (task,) = suite_of(parse(["run", "--suite", str(tmp_path / "mine.toml"), *flags])).tasks
    assert task.mirror == (str(tmp_path / used) if used else "")


def test_a_home_is_meant_where_no_shell_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "copies").mkdir()
    (tmp_path / "mine.toml").write_text('methods = ["none"]\nseeds = 1\nlevels = [0.5]\n[[tasks]]\ntask = "mnli"')
    (task,) = suite_of(parse(["run", "--suite=~/mine.toml", "--mirror=~/copies"])).tasks
    assert task.mirror == str(tmp_path / "copies")


def test_a_mirror_that_no_record_can_name_is_refused(monkeypatch):
    monkeypatch.setenv("HEADBENCH_MIRROR", "/data/caf\udce9")
    with pytest.raises(InputError, match="HEADBENCH_MIRROR: expected a name in UTF-8"):
        suite_of(parse(["run", "--tasks", "mnli"]))
