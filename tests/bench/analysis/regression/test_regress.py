"""The verb itself: bad input in one line, one screen, and a file for continuous integration."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.__main__ import main


@pytest.fixture
def folders(keep, tmp_path):
    keep("before", seeds=range(2))
    keep("after", seeds=range(2))
    keep("after", "ae")
    keep("old", protocol=2)
    keep("elsewhere", seeds=[7])
    keep("asked", calibration=64)
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--baseline before after", "the baseline before lacks ae: where that is new, add --changed ae"),
        ("--baseline before before --changed micheel", "unknown method 'micheel': did you mean 'michel'?"),
        ("--baseline before before --methods micheel", "unknown method 'micheel': did you mean 'michel'?"),
        (
            "--baseline after before --methods michel,ae",
            "before has no cell of ae, which is to be compared: run it there",
        ),
        ("--baseline empty after", "empty: no records there (expected empty/records/TASK.DATA.MODEL/"),
        ("--baseline before nowhere", "nowhere: no records there (expected nowhere/records/TASK.DATA.MODEL/"),
        ("--baseline old before", "old: its records were made under another protocol"),
        ("--baseline before elsewhere", "before and elsewhere have no method, task and seed in common"),
        (
            "--baseline before asked",
            "michel on classification, seed 0 was measured under other settings than in the baseline, and cannot be "
            "compared: calibration examples 64, not 128",
        ),
        ("after", "the following arguments are required: --baseline"),
        ("--baseline before --margin x", "--margin: expected points of accuracy, from 0 to 100, not 'x'"),
        ("--baseline before --slower 0", "--slower: expected a share above 0, at most 1, not '0'"),
    ],
)
def test_bad_input_is_one_line(folders, complaint, flags, said):
    assert complaint("regress", *flags.split()).startswith(said)


def test_a_corrupt_record_is_named(folders, capsys, monkeypatch):
    monkeypatch.chdir(folders)
    next(Path("before").glob("records/*/*/*.json")).write_text("{}")
    main(["regress", "--baseline", "before", "after"])
    assert "corrupt record" in (error := capsys.readouterr().err) and "before/records" in error


def test_a_new_method_is_named_as_such(folders, regress):
    code, said = regress("--changed", "ae")
    assert code == 0 and "new     ae (nothing to compare with)" in said
    assert regress("--methods", "michel")[0] == 0


def test_of_cells_from_another_machine_and_others_it_says_how_each_is_judged(keep, regress):
    keep("before", seeds=range(3))
    keep("after", seeds=range(2))
    keep("after", seeds=[2], processor="B")
    said = regress()[1]
    assert "judged by their effect only (the other 2 cells must be equal): processor A -> B (1 cell)" in said
    keep("after", seeds=range(2), processor="B")
    assert "judged by their effect only: processor A -> B (3 cells)" in regress()[1]


def test_what_was_not_run_is_named(keep, regress):
    for method in ("michel", "ae", "gnorm"):
        keep("before", method, seeds=range(3))
        keep("before", method, task="mnli")
    keep("after", seeds=[0, 3])
    keep("after", "ae", seeds=range(3))
    keep("after", task="language_id")
    said = regress()[1].splitlines()
    assert "- not run here: task mnli, data, model; gnorm" in said
    assert "- not run here: seeds 1, 2 of michel on classification" in said
    assert "- not in the baseline: task language_id, data, model" in said
    assert "- not in the baseline: seed 3 of michel on classification" in said


def test_tasks_of_one_adapter_are_told_apart(keep, regress):
    for data, seeds in (("imdb", [0, 2]), ("sst2", [0, 1])):
        keep("before", seeds=range(3), data=data)
        keep("after", seeds=seeds, data=data)
    said = regress()[1].splitlines()
    assert "- not run here: seed 1 of michel on classification (imdb, model)" in said
    assert "- not run here: seed 2 of michel on classification (sst2, model)" in said


def test_the_same_data_may_be_asked_for_in_other_words(keep, regress, tmp_path, capsys):
    keep("before", asked={"limit": 200})
    keep("after", asked={"label": "label"})
    assert regress()[0] == 0
    keep("after", asked={"finetune": True})
    assert main(["regress", "--baseline", str(tmp_path / "before"), str(tmp_path / "after")]) == 2
    assert capsys.readouterr().err.endswith("and cannot be compared: finetune True, not none\n")


def test_everything_that_breaks_at_once_fits_on_a_screen(keep, regress):
    scorers = [f"scorer-{number:02}" for number in range(20)]
    for method in scorers:
        keep("before", method, seeds=range(3))
        keep("after", method, seeds=range(3), shift=1, training={"weights": "b"}, passes={"forward": 1, "backward": 0})
    code, said = regress()
    assert code == 1 and len(said.splitlines()) <= 24
    assert f"FAILED  {', '.join(sorted(scorers))}" in said


def test_commits_are_told(keep, regress, tmp_path):
    keep("before")
    keep("after")
    assert f"commit: {'a' * 12}\n" in regress()[1]


def test_a_file_for_continuous_integration(folders, keep, regress):
    keep("after", shift=1)
    report = folders / "report.xml"
    code, _ = regress("--changed", "ae", "--junit", str(report))
    suite = ElementTree.parse(report).getroot()
    assert code == 1
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "1")
    failed, new = suite.findall("testcase")
    assert failed.get("name") == "michel" and "test outcomes in 1 of 2 cells" in failed.find("failure").get("message")
    assert new.get("name") == "ae" and new.find("skipped") is not None
    assert "same machine" in suite.find("system-out").text


def test_a_file_for_continuous_integration_can_be_read_whatever_a_failure_says(tmp_path, keep, regress):
    keep("before", seeds=range(2))
    keep("after")
    keep("after", seeds=[1], reason="ValueError: \x1b[31mred\x1b[0m \x00")
    report = tmp_path / "report.xml"
    assert regress("--junit", str(report))[0] == 1
    assert "\\x1b[31mred\\x1b[0m \\x00" in ElementTree.parse(report).find("testcase/failure").get("message")


@pytest.mark.parametrize("content", [b"my notes\n", b"<html></html>", b"<?xml version='1.0' encoding='none'?><a/>"])
def test_a_file_that_is_not_of_junit_stays(folders, complaint, content):
    (folders / "mine").write_bytes(content)
    said = complaint("regress", "--baseline", "before", "before", "--junit", "mine")
    assert said == "--junit mine: exists already, and is not a JUnit file: give another file"
    assert (folders / "mine").read_bytes() == content


def test_a_place_of_a_report_is_checked_before_records_are_read(folders, complaint):
    (folders / "mine").write_text("my notes")
    assert complaint("regress", "--baseline", "nowhere", "nowhere", "--junit", "mine").startswith("--junit mine: ")


@pytest.mark.parametrize("content", [b"", b"<?xml version='1.0'?><testsuites><testsuite/></testsuites>"])
def test_an_empty_file_and_one_of_junit_are_replaced(folders, regress, content):
    report = folders / "report.xml"
    report.write_bytes(content)
    for _ in range(2):
        assert regress("--junit", str(report), after="before")[0] == 0
        assert ElementTree.parse(report).getroot().get("tests") == "1"
