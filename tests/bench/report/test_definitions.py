"""Definitions of methods and tasks, as pages show them."""

import inspect

import pytest

from bench.report.pages.definitions import definition
from methods import METHODS
from tasks.contract import TASKS


@pytest.mark.parametrize("name", METHODS)
def test_the_definition_of_a_method_is_its_docstring(name):
    found = definition("methods", name)
    assert found and found == inspect.getdoc(METHODS[name].function)


@pytest.mark.parametrize("name", TASKS)
def test_the_definition_of_a_task_is_its_docstring(name):
    found = definition("tasks", name)
    assert found and found == inspect.getdoc(TASKS[name])


def test_a_value_in_a_decorator_is_no_name():
    assert not definition("methods", "inverse")  # a choice of amp-recovered
