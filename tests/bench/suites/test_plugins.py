"""Files in methods/ and adapters of other packages: what they can leave out, and how their faults are reported."""

from __future__ import annotations

import sys

import pytest

import methods
from bench.__main__ import main
from bench.suites.plugins import load_plugins
from tests.fixtures.slow import slow_cases

ADAPTER = '''
from tasks.contract import task
from tasks.text_classification import TextClassification

@task("mine")
class Mine(TextClassification):
    """My own task."""
    {body}
'''
BROKEN = {  # and what is said of it
    "raise KeyError('no such key')": "KeyError: 'no such key'",
    "import sys; sys.exit('stop')": "SystemExit: stop",
    "from tasks.contract import task\n@task('mine')\nclass Mine: ...": "expected a subclass of tasks.contract.Task",
    "from tasks.contract import Task, task\n@task('mine')\nclass Mine(Task): ...": "Mine does not define calibration, ",
    ADAPTER.format(body="") + "\nraise KeyError('too late')": "KeyError: 'too late'",
}


@pytest.mark.parametrize("code", [*list(BROKEN)[:2], *slow_cases(*list(BROKEN)[2:])])
def test_a_package_that_does_not_load_is_named_and_the_others_are_listed(plugin, capfd, complaint, code):
    plugin(code, "tasks")
    for what, known in (("tasks", "mnli"), ("methods", "michel (scorer")):
        assert main(["list", what]) == 0
        printed = capfd.readouterr()
        assert known in printed.out and "mine" not in printed.out
        assert printed.err.startswith("headbench: warning: entry point 'third_party_") and BROKEN[code] in printed.err
        assert printed.err.count("\n") == 1
    said = complaint("run", "--task", "mine")
    assert said.startswith("unknown task 'mine': ") and "of package third_party_" in said and BROKEN[code] in said


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere' (mine.py:1)"),
        ("def score(view:", "SyntaxError: '(' was never closed (mine.py, line 1)"),
        (
            "from methods import scorer\n@scorer('michel', source='x')\ndef mine(view): ...",
            "ValueError: method 'michel' of methods.mine is already registered by methods.michel (mine.py:2)",
        ),
    ],
)
def test_a_file_of_a_method_that_does_not_load_is_named(tmp_path, monkeypatch, complaint, code, said):
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "mine.py").write_text(code)
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(folder)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    load_plugins.cache_clear()
    for command in ("list methods", "run --methods michel", "check michel"):
        assert complaint(*command.split()) == f"{folder / 'mine.py'} does not load: {said}"


@pytest.mark.parametrize("body", ["built_in = staticmethod(lambda: undefined)", "def built_in(self, data): ..."])
def test_an_adapter_with_an_error_fails_only_where_it_is_used(plugin, capfd, complaint, body):
    plugin(ADAPTER.format(body=body), "tasks")
    assert main(["list", "tasks"]) == 0
    printed = capfd.readouterr()
    assert "\nmnli\n" in printed.out and "\nmine\n" not in printed.out
    assert printed.err.startswith("headbench: warning: task 'mine' of package third_party_")
    assert complaint("run", "--task", "mine", "--methods", "none").startswith("task 'mine' of package third_party_")


def test_an_adapter_without_built_in_data_needs_data(plugin, capfd, complaint, place):
    plugin(ADAPTER.format(body=""), "tasks")
    assert main(["list", "tasks"]) == 0
    assert "mine\n    My own task.\n    columns: --text text --label label\n" in capfd.readouterr().out
    assert complaint("run", "--task", "mine", "--methods", "none") == "mine: has no built-in data: give --data"
    own = ["--task", "mine", "--model", str(place.model), "--data", str(place.data)]
    assert main(["list", "cells", *own, "--methods", "none", "--out", str(place.out)]) == 0
