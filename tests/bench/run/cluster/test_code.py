"""Which code runs on a machine, told apart by what it differs in."""

from __future__ import annotations

from bench.run.cluster.code import code, difference


def test_the_same_code_does_not_differ():
    assert difference(code(), dict(code())) == ""


def test_what_differs_is_named_with_both_versions():
    here = dict(code())
    assert difference(here | {"torch": "9.9"}, here) == f"it has torch 9.9, this machine {here['torch']}"
    assert difference(here, here | {"the plugin mine": "1"}) == "it has the plugin mine (none), this machine 1"
    assert difference(here | {"the plugin mine": "1"}, here) == ""  # no cell of this run is of it


def test_a_changed_file_is_other_code(tmp_path, monkeypatch):
    (tmp_path / "methods").mkdir()
    file = tmp_path / "methods" / "one.py"
    monkeypatch.setattr("bench.run.cluster.code._folders", lambda name: [str(tmp_path / name)])
    found = []
    for text in ("a = 1", "a = 2", "a = 1"):
        file.write_text(text)
        code.cache_clear()
        found.append(code()["headbench"])
    code.cache_clear()
    assert found[0] == found[2] != found[1]
