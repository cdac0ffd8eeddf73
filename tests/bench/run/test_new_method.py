"""One new file, or one installed package, adds a method; no other cell is touched by it."""

from __future__ import annotations

import re
import shutil
import sys

import pytest

from bench.__main__ import main
from bench.suites import cells
from bench.suites.cells import plan
from bench.suites.files import load_suite
from bench.suites.keys import modules_of, shared_code
from bench.suites.plugins import load_plugins
from methods import METHODS
from tasks import digest
from tasks.contract import TASKS
from tasks.digest import digest_of_source
from tests.fixtures.slow import slow_cases

NEW = '''"""A method of one's own."""

import torch

from methods import View, scorer


@scorer("{name}", source="one's own")
def last(view: View) -> torch.Tensor:
    """Remove the last head first."""
    return -torch.arange(len(view.heads)).double()
'''


def finish(process) -> str:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return output


@pytest.mark.slow
def test_a_new_file_adds_cells_and_touches_no_other(place):
    code, place.tree = place.tree, place.folder / "tree"
    for package in ("bench", "methods", "tasks"):
        shutil.copytree(code / package, place.tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    some = "none,random,gnorm,fisher-rearranged,obs-compensated,ste,michel:recover=lstsq"  # one of each kind
    finish(place.start("--methods", some))
    before = place.files()
    assert before
    (place.tree / "methods" / "brand_new.py").write_text(NEW.format(name="brand-new"))
    output = finish(place.start("--methods", f"{some},brand-new"))
    assert "to do: 1 cell," in output
    after = place.files()
    assert {name: after[name] for name in before} == before
    assert {name.split("/")[1] for name in after.keys() - before.keys()} == {"brand-new"}
    assert place.records()["brand-new/seed0"]["result"]["orders"] == [[7, 6, 5, 4, 3, 2, 1, 0]]
    assert "| brand-new " in output


def test_an_installed_package_adds_a_method(place, plugin, capsys):
    plugin(NEW.format(name="third-party"))
    assert place.run("--methods", "third-party,none") == 0
    assert "| third-party " in capsys.readouterr().out
    assert place.records()["third-party/seed0"]["cell"]["source"] == "one's own"


def test_a_package_that_does_not_load_is_named_in_one_line(place, plugin, capsys):
    plugin("raise ImportError('no module today')")
    assert place.run("--methods", "none") == 0
    said = r"entry point 'third_party_\d+' of package third_party_\d+ does not load: ImportError: no module today .*\n"
    warned = [line for line in capsys.readouterr().err.splitlines(True) if line.startswith("headbench:")]
    assert re.fullmatch("headbench: warning: " + said, "".join(warned))  # beside the progress of a slow run
    assert place.run("--methods", "third") == 2
    expected = "headbench: error: unknown method 'third': " + said.removesuffix(r" .*\n") + r" .*; did you mean .*\n"
    assert re.fullmatch(expected, capsys.readouterr().err)


def test_a_method_may_not_take_a_name_that_is_taken(plugin):
    plugin(NEW.format(name="michel"))
    (fault,) = load_plugins()
    assert (
        "method 'michel' of third_party_" in fault.message and "already registered by methods.michel" in fault.message
    )
    assert METHODS["michel"].function.__module__ == "methods.michel"


@pytest.fixture
def keys(place, capsys):
    """Keys of the cells of none, random and michel."""

    def get() -> dict[str, str]:
        capsys.readouterr()
        assert main(["list", "cells", *place.cells("--methods", "none,random,michel")]) == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        return {name.split("/")[1]: key for _, key, name in lines}

    return get


@pytest.fixture
def edit(monkeypatch):
    """Change the source of a module, as far as digests see it."""
    read = digest.source_of

    def change(module: str, how) -> None:
        digest_of_source.cache_clear()
        shared_code.cache_clear()
        monkeypatch.setattr(digest, "source_of", lambda asked: how(read(asked)) if asked == module else read(asked))

    yield change
    digest_of_source.cache_clear()
    shared_code.cache_clear()


SHARED = (
    "methods.heads.watching.gate",
    "methods.heads.surgery.remove",
    "methods.heads.finding.head_map",
    "methods.contract.schedule",
    "bench.measure.evaluate",
    *slow_cases(
        "methods.heads.watching.observe",
        "methods.heads.surgery.neurons",
        "methods.heads.finding.geometry",
        "methods.heads.mechanisms.mechanism",
        "methods.heads.orders.roles",
    ),
)


def test_code_of_a_method_changes_the_keys_of_that_method_only(keys, edit):
    before = keys()
    assert len(set(before.values())) == 3
    edit("methods.michel", lambda source: source.replace(".abs()", ".square()"))
    after = keys()
    assert after["michel"] != before["michel"]
    assert {**after, "michel": before["michel"]} == before


@pytest.mark.parametrize(
    "how",
    ["from third.helper import FACTOR", "import third.helper", "from third import helper", "from . import helper"],
)
def test_code_that_a_method_imports_is_part_of_its_key(tmp_path, monkeypatch, how):
    """Constants too, and imports inside of functions."""
    package = tmp_path / "third"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text("FACTOR = 2.0\n")
    (package / "one.py").write_text(f"def score(view):\n    {how}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "third"]:
        monkeypatch.delitem(sys.modules, name)
    assert {"third.helper", "third.one"} <= set(modules_of("third.one"))


def test_what_the_package_of_a_method_itself_defines_is_part_of_its_key(tmp_path, monkeypatch):
    package = tmp_path / "fourth"
    package.mkdir()
    (package / "__init__.py").write_text("SHARE = 0.5\n")
    (package / "one.py").write_text("from fourth import SHARE\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert modules_of("fourth.one") == ("fourth", "fourth.one")


@pytest.mark.parametrize("module", SHARED)
def test_code_that_every_method_runs_on_changes_every_key(keys, edit, module):
    before = keys()
    edit(module, lambda source: source + "\nNEW = 1\n")
    after = keys()
    assert all(after[name] != before[name] for name in before)


@pytest.mark.parametrize(
    "module",
    [
        "methods.heads.finding.layouts",
        "methods.heads.finding.verify",
        "methods.heads.mechanisms.every",
        "methods.heads.mechanisms.position_bias",
        "methods.heads.orders.quarters",
    ],
)
def test_code_for_other_architectures_changes_no_key(keys, edit, module):
    before = keys()
    edit(module, lambda source: source + "\nNEW = 1\n")
    assert keys() == before


@pytest.mark.parametrize("module", ["methods.michel", "methods.heads.watching.gate", "methods.contract.schedule"])
def test_comments_docstrings_and_layout_change_no_key(keys, edit, module):
    before = keys()

    def reword(source: str) -> str:
        source = re.sub(r'^( *)"""(?=\w)', r'\1"""Otherwise put: ', source, flags=re.MULTILINE)
        lines = source.replace("\n\n\n", "\n\n\n\n# A remark.\n\n").splitlines()
        return "\n".join(f"{line}  # said" if line.endswith(":") else line for line in lines)

    edit(module, reword)
    assert keys() == before


@pytest.mark.parametrize(
    "flags", [("--levels", "0.25"), ("--seeds", "3,4"), ("--limit", "20"), ("--finetune",)], ids=lambda flags: flags[0]
)
def test_every_setting_that_can_change_a_result_changes_every_key(place, keys, capsys, flags):
    before = keys()
    assert main(["list", "cells", *place.cells("--methods", "none,random,michel", *flags)]) == 0
    after = {line.split()[1] for line in capsys.readouterr().out.splitlines()}
    assert len(after) >= 3 and not after & set(before.values())


def test_so_do_settings_of_a_suite_the_device_the_protocol_and_the_version_of_an_adapter(place, monkeypatch):
    def keys(settings: str = "", device: str = "cpu") -> set[str]:
        """Planned, which builds no model on a GPU."""
        suite = place.folder / "suite.toml"
        suite.write_text(f"methods = 'none,random,michel'\nseeds = 1\nlevels = [0.5]\n{settings}\n" + place.task())
        return {cell.key for cell in plan(load_suite(str(suite)), device)}

    before = keys()
    assert len(before) == 3 and keys("training = 1.0") == before  # none of them trains
    for settings in "calibration = 8", "calibration = 9":
        assert not before & keys(settings)
    assert not before & keys(device="cuda")
    for where, name in (cells, "PROTOCOL"), (TASKS["classification"], "version"):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, 99)
            assert not before & keys()


def test_folders_and_numbers_of_processes_change_no_key(place, keys, capsys):
    before = keys()
    moved = place.folder / "moved"
    moved.mkdir()
    shutil.copytree(place.model, moved / place.model.name)
    shutil.copy(place.data, moved)
    place.model, place.data = moved / place.model.name, moved / place.data.name
    assert keys() == before
