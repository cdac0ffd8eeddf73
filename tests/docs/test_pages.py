"""Pages that go with the code: commands with their flags, methods, and the example of heads."""

from __future__ import annotations

import re

import pytest

from bench.cli.arguments import parse
from bench.cli.methods_page import methods_page
from tests.docs.documents import ROOT, Document

VERBS = (
    *("run", "list", "prune", "check", "gguf"),
    *("leaderboard", "report", "compare", "regress", "merge", "pack", "unpack"),
)


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_is_on_the_page_of_commands(verb, capsys):
    with pytest.raises(SystemExit):
        parse([verb, "--help"])
    flags = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    page = Document(ROOT / "docs" / "command-line.md").text
    assert flags - {"--help", *re.findall(r"--[a-z-]+", page)} == set()


def test_the_page_of_methods_is_that_of_the_registry():
    committed = Document(ROOT / "docs" / "methods.md").text
    assert committed == methods_page(), "run: python -m bench.cli.methods_page > docs/methods.md"


def test_the_example_of_heads_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it saves a model
    code = "\n".join(Document(ROOT / "docs" / "heads.md").blocks("python"))
    exec(compile(code, "docs/heads.md", "exec"), {"__name__": "example"})
