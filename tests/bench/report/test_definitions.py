"""Definitions of methods and tasks, as pages show them."""

import inspect

import pytest

from bench.report.board import read
from bench.report.figures.looks import looks
from bench.report.pages.definitions import definition, task_definition
from bench.report.pages.render import prose
from bench.report.pages.task import task_page
from bench.suites.plugins import load_plugins
from methods import METHODS
from tasks.contract import TASKS

load_plugins()  # before it there is none to test


@pytest.mark.parametrize("name", METHODS)
def test_the_definition_of_a_method_is_its_docstring(name):
    found = definition("methods", name)
    assert found and found == inspect.getdoc(METHODS[name].function)


@pytest.mark.parametrize("name", TASKS)
def test_the_definition_of_a_task_is_its_docstring(name):
    found = definition("tasks", name)
    assert found and found == inspect.getdoc(TASKS[name])


@pytest.mark.parametrize("name", TASKS)
def test_what_is_built_in_is_said_of_that_alone(name):
    whole, own = (task_definition(name, own_data) for own_data in (False, True))
    assert whole == definition("tasks", name) and "; built in: " in whole
    assert own == f"{whole.split('; built in: ')[0]}."
    assert task_definition("nowhere", True) == ""


@pytest.mark.parametrize("asked", [{}, {"data": "rows.csv"}, {"train": "rows.csv"}, {"harness_tasks": ["piqa"]}])
def test_the_page_of_a_task_describes_the_data_that_it_has(run, changed, parse, undrawn, asked):
    board = read(run(seeds=1, data=("alpha",), labels=("michel", "random")))
    records = {path: changed(record, cell={"asked": asked}) for path, record in board.records.items()}
    board = type(board)(board.folder, records)
    files = task_page(board, board.tasks[0], looks(board))
    (page,) = (content for name, content in files.items() if name.endswith(".html"))
    text = parse(page.decode()).text
    assert "One text, any set of classes" in text and ("built in" in text) != bool(asked)


def test_the_page_of_a_task_of_another_package_says_that_it_is_not_here(run, changed, parse, undrawn):
    board = read(run(seeds=1, data=("alpha",), labels=("michel", "random")))
    records = {path: changed(record, cell={"task": "elsewhere"}) for path, record in board.records.items()}
    board = type(board)(board.folder, records)
    files = task_page(board, board.tasks[0], looks(board))
    (page,) = (content.decode() for name, content in files.items() if name.endswith(".html"))
    assert "The task is not part of this installation" in parse(page).text and "<pre></pre>" not in page
    assert prose(" \n") == ""


def test_a_value_in_a_decorator_is_no_name():
    assert not definition("methods", "inverse")  # a choice of amp-recovered
