"""What the README shows can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from bench.cli.arguments import parse
from bench.suites.plugins import load_plugins
from methods import METHODS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
COMMANDS = [line for kind, block in BLOCKS for line in block.splitlines() if not kind and line.startswith("headbench ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_its_commands_are_understood(command):
    assert callable(parse(shlex.split(command)[1:]).verb)


def test_its_method_is_the_file_and_runs(place):
    (code,) = (block for kind, block in BLOCKS if kind == "python" and "@scorer" in block)
    assert code == (ROOT / "methods" / "magnitude.py").read_text(encoding="utf-8")
    assert place.run("--methods", "magnitude:recompute=1", "--seeds", "1") == 0


def test_every_module_is_on_its_map():
    told = README.partition("## Map of the code")[2]
    for room in ("bench", "tasks"):
        for path in (ROOT / room).glob("*.py"):
            assert path.name in told or path.name.startswith("__"), path


def test_every_method_is_in_its_table():
    load_plugins()
    assert [name for name in METHODS if f"`{name}`" not in README] == []
