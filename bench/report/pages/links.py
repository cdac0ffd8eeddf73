"""Where the pages of a report lie, by the names of methods and tasks; ``root`` leads from a page to the report."""

from __future__ import annotations

from bench.records.schema import TaskKey
from bench.report.pages.markup import slug


def place(task: TaskKey) -> str:
    """File name of a task, without an ending."""
    return slug(".".join(task))


def method_of(label: str, root: str = "") -> str:
    """Link to a method's page."""
    return f"{root}methods/{slug(label)}.html"


def task_of(task: TaskKey, root: str = "") -> str:
    """Link to a task's page."""
    return f"{root}tasks/{place(task)}.html"


def records_of(label: str, task: TaskKey | None = None, root: str = "") -> str:
    """Link to the records of a method, on a task or on all."""
    return f"{root}records.html#{slug(label)}" + (f"--{place(task)}" if task else "")
