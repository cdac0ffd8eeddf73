"""Commands, links and code in the documents are real."""

from __future__ import annotations

import re

import pytest

from bench.cli.arguments import parse
from bench.suites.parse import parse_methods
from bench.suites.plugins import load_plugins
from tests.docs.documents import CONTRIBUTING, DOCUMENTS, PAGES, README, ROOT, Document

COMMANDS = [command for document in DOCUMENTS for command in document.commands]
by_name = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_are_understood(command):
    assert callable(parse(command).verb)


@pytest.mark.parametrize("command", [c for d in (README, *PAGES) for c in d.commands], ids=" ".join)
def test_methods_in_commands_exist_with_their_options(command):
    load_plugins()
    given = vars(parse(command))
    if methods := given.get("methods") or given.get("method"):
        assert parse_methods(methods if isinstance(methods, str) else ",".join(methods))


@by_name
def test_links_lead_somewhere(document):
    assert not re.search(r"\]\([^)\s]+\n", document.text), "a link goes over the end of a line"
    for target in document.links:
        name, _, anchor = target.partition("#")
        path = (document.path.parent / name).resolve() if name else document.path
        assert path.exists(), target
        assert not anchor or anchor in Document(path).anchors, target


@by_name
def test_files_are_quoted_as_they_are(document):
    for path, code in document.quoted_files:
        assert code == path.read_text(encoding="utf-8"), f"{document.name} shows another {path.name}"


def test_templates_are_quoted():
    quoted = [path for document in (README, CONTRIBUTING) for path, _ in document.quoted_files]
    assert {ROOT / "methods" / "magnitude.py", *(ROOT / "tests/docs/templates").glob("*.py")} == set(quoted)


@by_name
def test_lines_fit_but_for_tables(document):
    assert [line for line in document.text.splitlines() if len(line) > 120 and not line.startswith("|")] == []


def test_the_readme_is_short():
    assert len(README.text.splitlines()) <= 150
