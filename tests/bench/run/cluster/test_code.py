"""Which code runs on a machine, told apart by what it differs in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bench.run.cluster.code import PLUGINS, code, difference
from bench.suites.plugins import GROUPS


def test_the_same_code_does_not_differ():
    assert difference(code(), dict(code())) == ""


def test_plugins_of_every_kind_are_looked_at():
    assert set(PLUGINS) == set(GROUPS.values())


def test_what_differs_is_named_with_both_versions():
    here = dict(code())
    assert difference(here | {"torch": "9.9"}, here) == f"it has torch 9.9, this machine {here['torch']}"
    assert difference(here, here | {"the plugin mine": "1"}) == "it has the plugin mine (none), this machine 1"
    assert difference(here | {"the plugin mine": "1"}, here) == ""  # no cell of this run is of it


@pytest.fixture
def digests():
    """What runs by the name, while a file has this and that content."""

    def found(name: str, file: Path, texts: Sequence[str]) -> Iterator[str]:
        for text in texts:
            file.write_text(text)
            code.cache_clear()
            yield code()[name]

    yield found
    code.cache_clear()


@pytest.mark.parametrize("name", ["one.py", "below/one.py", "one.yaml"])
def test_a_changed_file_is_other_code(tmp_path, monkeypatch, digests, name):
    file = tmp_path / "methods" / name
    file.parent.mkdir(parents=True)
    monkeypatch.setattr("bench.run.cluster.code._folders", lambda name: [str(tmp_path / name)])
    first, other, again = digests("headbench", file, ("a = 1", "a = 2", "a = 1"))
    assert first == again != other


def test_a_file_that_moved_is_other_code(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.run.cluster.code._folders", lambda name: [str(tmp_path / name)])
    found = []
    for place in ("here", "there"):
        file = tmp_path / "methods" / place / "one.py"
        file.parent.mkdir(parents=True)
        file.write_text("a = 1")
        code.cache_clear()
        found.append(code()["headbench"])
        file.unlink()
    code.cache_clear()
    assert found[0] != found[1]


@pytest.mark.parametrize("names", [("mine.py", "mine.py"), ("mine/__init__.py", "mine/below/helper.py")])
def test_a_changed_module_of_a_plugin_is_other_code(tmp_path, monkeypatch, digests, names):
    """The module that its entry point names, and one that this module uses."""
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    entry, file = (tmp_path / name for name in names)
    module = "mine" if entry == file else "mine.below"
    (info / "entry_points.txt").write_text(f"[headbench.methods]\nmine = {module}\n")
    file.parent.mkdir(parents=True, exist_ok=True)
    entry.write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    first, other, again = digests("the plugin mine", file, ("a = 1", "a = 2", "a = 1"))
    assert first == again != other and first.startswith("1.0 ")


def test_what_scores_translations_is_compared():
    assert code()["sacrebleu"]
