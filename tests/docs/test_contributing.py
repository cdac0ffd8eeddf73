"""What CONTRIBUTING.md shows can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from bench.cli.arguments import parse

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = [line for kind, block in BLOCKS for line in block.splitlines() if not kind and line.startswith("headbench ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_its_commands_are_understood(command):
    assert callable(parse(shlex.split(command)[1:]).verb)


def test_the_path_of_a_new_method_has_at_most_six_commands():
    path = next(block for kind, block in BLOCKS if not kind)
    assert len(path.splitlines()) <= 6


def test_its_method_can_be_run(place, plugin):
    plugin(next(block for kind, block in BLOCKS if kind == "python"))
    assert place.run("--methods", "last-first") == 0
    assert place.records()["last-first/seed0"]["result"]["orders"] == [[7, 6, 5, 4, 3, 2, 1, 0]]
