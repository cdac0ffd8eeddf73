"""The second half of ``check``: a method's cells on a small suite, against those recorded."""

from __future__ import annotations

import dataclasses
import re

import pytest

from bench.__main__ import main
from bench.run import check_against_records
from bench.suites.files import load_suite
from methods import METHODS
from tests.fixtures.files import files_of


@pytest.fixture
def check(place, monkeypatch, capsys):
    """Check methods against the records in ``out``, on tiny data instead of the suite; only a quick generic check."""
    suite = place.folder / "tiny.toml"
    suite.write_text(f'seeds = 1\nlevels = "0.5"\nmethods = "none"\n{place.task()}')
    monkeypatch.setattr(check_against_records, "SUITE", str(suite))
    monkeypatch.setattr("bench.cli.check.check", lambda *_: 0)  # its own tests are elsewhere
    monkeypatch.chdir(place.folder)
    flags = ["--suite", str(suite), "--methods", "michel", "--jobs", "1", "--no-latency", "--out", str(place.out)]
    assert main(["run", *flags]) == 0

    def run(methods: str, *flags: str) -> tuple[int, list[str]]:
        capsys.readouterr()
        code = main(["check", methods, *(flags or ("--baseline", str(place.out)))])
        return code, capsys.readouterr().out.splitlines()

    return run


def test_what_was_recorded_is_the_same(check, place):
    before = files_of(place.out)
    code, lines = check("michel")
    assert code == 0
    assert lines[1].startswith("  same     michel: accuracy 0.") and lines[1].endswith("with 50% removed")
    assert lines[-1] == "same machine and versions, so results must be equal"
    assert files_of(place.out) == before


def test_what_is_not_what_was_recorded_fails(check, monkeypatch):
    right = METHODS["michel"]
    wrong = dataclasses.replace(right, function=lambda view, **options: -right.function(view, **options))
    wrong.function.__module__ = right.function.__module__
    monkeypatch.setitem(METHODS, "michel", wrong)
    code, lines = check("michel")
    assert code == 1
    assert lines[1].startswith("  FAILED   michel") and lines[2].startswith("           removal order in 1 of 1 cells")


def test_a_method_without_a_record_is_new(check):
    code, lines = check("ae")
    assert code == 0 and lines[1].startswith("  new      ae: accuracy 0.")


def test_a_cell_that_fails_is_a_failure(check, plugin):
    plugin(
        "from methods import scorer\n\n\n@scorer('stumbles', source='x')\ndef stumbles(view):\n"
        '    """Raise."""\n    raise KeyError(\'no such key\')\n'
    )
    code, lines = check("stumbles")
    assert code == 1 and re.fullmatch(r"  FAILED   stumbles: KeyError: 'no such key' \(\w+\.py:7\)", lines[1])


def test_without_records_nothing_is_run(check, capsys):
    assert check("michel", "--on", "bert") == (0, [])
    assert main(["check", "michel"]) == 0
    assert capsys.readouterr().out.startswith("Not compared with recorded cells: results/mini: no")
    assert main(["check", "michel", "--baseline", "results/mini"]) == 2
    assert capsys.readouterr().err.startswith("headbench: error: results/mini: no records there")


def test_the_suite_is_part_of_the_mini_suite():
    smoke, mini = load_suite("smoke"), load_suite("mini")
    assert set(smoke.tasks) <= set(mini.tasks) and set(smoke.seeds) <= set(mini.seeds)
    same = ("methods", "levels", "calibration", "training")
    assert [getattr(smoke, name) for name in same] == [getattr(mini, name) for name in same]
