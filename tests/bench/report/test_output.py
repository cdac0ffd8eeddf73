"""A report replaces what an earlier one wrote; everything else in its folder, and wherever links lead, stays."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.__main__ import main
from bench.records.errors import InputError
from bench.report.output import MANIFEST, put
from tests.fixtures.files import files_of

PAGES = {name: name.encode() for name in ("index.html", "page.css", "methods/michel.html", "tables/areas.csv")}


@pytest.fixture
def folder(run, monkeypatch) -> Path:
    """A run of two methods, with a report of few files."""
    monkeypatch.setattr("bench.report.write.build", lambda *_: PAGES)
    return run(seeds=1, labels=("michel", "random"), data=("alpha",))


@pytest.fixture
def refused(folder, capsys):
    """Write a report of ``folder`` to a place that is none; the one line, and everything as it was."""

    def check(out: Path, at: Path | None = None) -> str:
        before = files_of(at or folder.parent)
        capsys.readouterr()
        assert main(["report", str(folder), "--out", str(out)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and error.startswith("headbench: error: ")
        assert files_of(at or folder.parent) == before
        return error

    return check


def test_a_report_is_replaced_and_what_it_no_longer_has_is_removed(folder, capsys):
    out = folder / "report"
    assert main(["report", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(out / "index.html")
    first = files_of(out)
    put({"old.html": b"old", "old/deep/a.csv": b"old"} | {"index.html": b"old"}, out)
    assert (out / "old" / "deep" / "a.csv").exists() and not (out / "page.css").exists()
    assert main(["report", str(folder)]) == 0
    again = files_of(out)
    assert [k for k in first if first[k] != again.get(k)] == [] and again.keys() == first.keys()
    assert not (out / "old").exists()
    assert capsys.readouterr().err == ""


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_drawn(folder, refused, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("bench.report.write.build", lambda *_: drawn.append(1))
    (tmp_path / "file").write_text("mine")
    said = refused(tmp_path / "file" / "new" / "report")
    assert f"--out {tmp_path / 'file' / 'new' / 'report'}: cannot write there: Not a directory" in said
    assert not drawn


def test_folders_that_a_report_would_be_in_go_where_it_fails(folder, refused, tmp_path, monkeypatch):
    def fails(*_):
        raise InputError("this run cannot be drawn")

    monkeypatch.setattr("bench.report.write.build", fails)
    assert "cannot be drawn" in refused(tmp_path / "new" / "report") and not (tmp_path / "new").exists()


def test_other_files_are_left_and_named(folder, capsys):
    out = folder / "report"
    assert main(["report", str(folder)]) == 0
    (out / "methods" / "mine.html").write_text("headbench report")
    (out / "tables" / "notes").mkdir()
    (out / "tables" / "notes" / "a.txt").write_text("a")
    (out / "link").symlink_to(folder / "records")
    (out / "pipe").touch()
    capsys.readouterr()
    assert main(["report", str(folder)]) == 0
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "methods/mine.html" in error and "tables/notes/a.txt" in error and "link" in error
    assert (out / "methods" / "mine.html").read_text() == "headbench report"
    assert (out / "tables" / "notes" / "a.txt").read_text() == "a" and list((out / "link").iterdir())


def test_a_file_of_the_report_that_was_edited_is_the_users(folder, refused, capsys):
    out = folder / "report"
    assert main(["report", str(folder)]) == 0
    (out / "page.css").write_text("body { color: red }")
    assert "page.css: changed since a report wrote it" in refused(out)
    (out / "page.css").unlink()
    put({"old.html": b"old"}, out)
    (out / "old.html").write_text("edited")
    capsys.readouterr()
    assert main(["report", str(folder)]) == 0
    assert "old.html" in capsys.readouterr().err and (out / "old.html").read_text() == "edited"


@pytest.mark.parametrize("content", ["", '<meta name="generator" content="headbench report">'], ids=["plain", "marked"])
def test_a_folder_that_is_no_report_is_refused(folder, refused, tmp_path, content):
    out = tmp_path / "site"
    out.mkdir()
    (out / "index.html").write_text(content)
    assert "not a report" in refused(out)


def test_a_file_is_no_folder(refused, tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "not a folder" in refused(tmp_path / "file")


@pytest.mark.parametrize("manifest", ["", "[]", '{"files": {"../a": ["b"]}, "earlier files": {}}', "[" * 200_000])
def test_a_damaged_manifest_is_refused(folder, refused, manifest):
    assert main(["report", str(folder)]) == 0
    (folder / "report" / MANIFEST).write_text(manifest)
    assert "not the files of a report" in refused(folder / "report")


def places(folder: Path) -> dict[str, Path]:
    records = folder / "records"
    task = next(records.iterdir())
    link = folder.parent / "link"
    link.symlink_to(records)
    (folder.parent / "task").symlink_to(task)
    (folder.parent / "run-link").symlink_to(folder)
    return {
        "the run's folder": folder,
        "what holds it": folder.parent,
        "the records": records,
        "a task": task,
        "new, among them": task / "michel" / "report",
        "a link to them": link,
        "new, behind a link": link / "report",
        "behind a link to a task": folder.parent / "task" / "report",
        "a link to the run": folder.parent / "run-link",
        "a way around": folder / "report" / "..",
    }


def test_no_report_is_written_where_records_are(folder, refused):
    for where, out in places(folder).items():
        error = refused(out)
        assert "records" in error, where
    assert main(["report", str(folder)]) == 0


def test_records_behind_a_link_are_records(folder, refused, tmp_path):
    task = next((folder / "records").iterdir())
    task.rename(tmp_path / "elsewhere")
    task.symlink_to(tmp_path / "elsewhere")
    for out in (tmp_path / "elsewhere", tmp_path / "elsewhere" / "new", tmp_path / "elsewhere" / "michel"):
        assert "records" in refused(out)


def test_no_report_is_written_among_records_of_another_run(folder, refused, tmp_path):
    out = tmp_path / "out"
    assert main(["report", str(folder), "--out", str(out)]) == 0
    other = out / "runs" / "records" / "task" / "method"
    other.mkdir(parents=True)
    (other / "seed0.json").write_text("{}")
    assert "holds the records" in refused(out)
    assert "lies among the records" in refused(other / "new")


def test_nothing_is_reached_through_a_link(folder, refused, tmp_path):
    out, mine = folder / "report", tmp_path / "mine"
    assert main(["report", str(folder)]) == 0
    (out / "methods").rename(mine)
    (out / "methods").symlink_to(mine)
    before = files_of(mine)
    assert "methods: not a folder of a report" in refused(out)
    (out / "methods").unlink()
    (mine / "page.css").write_bytes((out / "page.css").read_bytes())
    (out / "page.css").unlink()
    (out / "page.css").symlink_to(mine / "page.css")
    assert "page.css" in refused(out)
    (out / "page.css").unlink()
    put({"gone/a.html": b"a"}, out)
    (out / "gone").rename(mine / "gone")
    (out / "gone").symlink_to(mine / "gone")
    assert main(["report", str(folder)]) == 0
    assert (mine / "gone" / "a.html").read_bytes() == b"a" and files_of(mine).items() >= before.items()


def test_a_report_that_was_cut_short_is_completed_by_the_next(tmp_path, monkeypatch):
    from bench.report import output

    old = {"a": b"old", "b/b": b"old", "c": b"old"}
    new = {"a": b"new", "b/b": b"new", "d": b"new"}
    write, out = output.write_whole, tmp_path / "out"
    for most in range(6):
        left = most

        def stop(path, content):
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            write(path, content)

        put(old, out)
        monkeypatch.setattr(output, "write_whole", stop)
        try:
            put(new, out)
        except KeyboardInterrupt:
            (out / f".a{output.temporary(Path('a')).name[2:]}").write_text("half")
        monkeypatch.undo()
        assert put(new, out) == []
        assert {path: content for path, content in files_of(out).items() if path != MANIFEST} == new


names = st.sampled_from(["a", "b", "d/a", "d/b", "e/a"])


@settings(max_examples=30)
@given(
    reports=st.lists(st.dictionaries(names, st.sampled_from([b"1", b"2"]), min_size=1), min_size=1, max_size=4),
    users=st.lists(st.tuples(names, st.sampled_from([b"1", b"mine"])), max_size=4),
)
def test_no_file_of_the_users_is_lost(tmp_path_factory, reports, users):
    """Between reports the user writes files, which are the user's but for those that a report wrote just so."""
    out, mine = tmp_path_factory.mktemp("report") / "out", {}
    written: dict[str, bytes] = {}
    for number, files in enumerate(reports):
        try:
            put(files, out)
        except InputError:
            assert any(files.keys() & mine.keys())
        else:
            written = files
            assert all((out / name).read_bytes() == content for name, content in files.items())
        for name, content in users[number : number + 1]:
            (out / name).parent.mkdir(exist_ok=True, parents=True)
            (out / name).write_bytes(content)
            if written.get(name) != content:
                mine[name] = content
            else:
                mine.pop(name, None)
        assert all((out / name).read_bytes() == content for name, content in mine.items())


def test_a_full_disk_names_the_file(folder, capsys, file_size_limit):
    with file_size_limit(100):
        assert main(["report", str(folder)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and str(folder / "report") in error and "File too large" in error
    assert main(["report", str(folder)]) == 0
    assert not list((folder / "report").rglob(".*"))
    assert json.loads((folder / "report" / MANIFEST).read_text())["earlier files"] == {}


def test_no_report_takes_the_place_of_packed_records(folder, refused, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(folder / "records", other / "records")
    assert main(["pack", str(other)]) == 0
    shutil.rmtree(other / "records")
    assert "records" in refused(other / "records")
    assert not (other / "records").exists()
